package memory

import (
	"libmmsb/core/invariant"
	"libmmsb/native"
)

// records are a context's page records, as far as they are not in use. Under the lock of the memory.
type records struct {
	context  uint32
	takeLeaf func() (uint32, error)
	leaves   []Leaf
	bare     []uint32 // free, without memory
}

// take takes a record that has no memory.
func (r *records) take() (uint32, error) {
	if n := len(r.bare); n > 0 {
		index := r.bare[n-1]
		r.bare = r.bare[:n-1]
		if invariant.Enabled {
			invariant.Check(checkBare(index))
		}
		return index, nil
	}
	for {
		if n := len(r.leaves); n > 0 && r.leaves[n-1].Used < native.LeafRecords {
			last := &r.leaves[n-1]
			index := last.First() + last.Used
			last.Used++
			record := native.RecordAt(index)
			state := record.LoadState()
			if index == 0 || native.Kind(state) == native.StateRetired {
				continue
			}
			record.Locator = 0
			record.StoreState(native.State(native.StateFree, max(native.Generation(state), 1),
				native.ClassNone<<native.ClassShift))
			return index, nil
		}
		number, err := r.takeLeaf()
		if err != nil {
			return 0, err
		}
		r.leaves = append(r.leaves, Leaf{Number: number})
		native.CaptureLater(r.context, number)
	}
}

// give gives records back that were taken and not used.
func (r *records) give(indices ...uint32) { r.bare = append(r.bare, indices...) }

// free makes a record without memory free for a generation; 0 retires it.
func (r *records) free(index, generation uint32) {
	record := native.RecordAt(index)
	record.Locator = 0
	if generation == 0 {
		record.StoreState(native.State(native.StateRetired, native.GenerationMax, native.ClassNone<<native.ClassShift))
		return
	}
	record.StoreState(native.State(native.StateFree, generation, native.ClassNone<<native.ClassShift))
	r.give(index)
}

// Leaves returns the context's leaves.
func (m *Memory) Leaves() []Leaf {
	m.Lock()
	defer m.Unlock()
	return append([]Leaf(nil), m.records.leaves...)
}

// WithLeaves calls work with the leaves that the context has; none comes meanwhile.
func (m *Memory) WithLeaves(work func(leaves []Leaf)) {
	m.Lock()
	defer m.Unlock()
	work(m.records.leaves)
}

// FreeRecord frees the record of a page that has nothing left but its memory. The record is locked; state is without owner.
func (m *Memory) FreeRecord(index uint32, state uint64) {
	record := native.RecordAt(index)
	generation := native.Generation(state)
	if native.Class(state) < native.SmallClasses {
		if generation != native.GenerationMax {
			native.FinishRecord(index, state)
			return
		}
		m.moveMemory(index, &state)
	}
	native.AddCounts(m.context, 0, 1, 0, record.Size)
	m.drop(index, record.Size, generation+1) // 0 when the generations are used up
}

// moveMemory gives a record's small memory to another one, because its own generations are used up.
func (m *Memory) moveMemory(index uint32, state *uint64) {
	m.Lock()
	bare, err := m.records.take()
	m.Unlock()
	if err != nil {
		return // the memory stays with the retired record until the context ends
	}
	other := native.RecordAt(bare)
	otherState := native.State(native.StateFrame, native.Generation(other.LoadState()), native.ClassNone<<native.ClassShift)
	native.SwapMemory(index, state, bare, &otherState)
	other.StoreState(otherState)
	native.RecordAt(index).StoreState(*state | native.OwnerLibrary)
	native.GiveFrame(m.context, bare)
}
