package memory

import (
	"libmmsb/core/invariant"
	"libmmsb/core/status"
	"libmmsb/native"
)

// freeRecords are a context's page records, as far as they are not in use. Under the lock of the memory.
type freeRecords struct {
	context  uint32
	takeLeaf func() (uint32, error)
	leaves   []Leaf
	bare     []uint32 // free, without memory
}

// take takes a record that has no memory.
func (r *freeRecords) take() (uint32, error) {
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
func (r *freeRecords) give(indices ...uint32) { r.bare = append(r.bare, indices...) }

// free makes a record without memory free for a generation; 0 retires it.
func (r *freeRecords) free(index, generation uint32) {
	record := native.RecordAt(index)
	record.Locator = 0
	if generation == 0 {
		record.StoreState(native.State(native.StateRetired, native.GenerationMax, native.ClassNone<<native.ClassShift))
		return
	}
	record.StoreState(native.State(native.StateFree, generation, native.ClassNone<<native.ClassShift))
	r.give(index)
}

// checkBare checks a record that is free, without memory.
func checkBare(index uint32) error {
	record := native.RecordAt(index)
	state := record.LoadState()
	if native.Kind(state) != native.StateFree || native.Class(state) != native.ClassNone || record.Locator != 0 {
		return broken("free record %d has state 0x%016x and locator 0x%x", index, state, record.Locator)
	}
	return nil
}

// broken is what a check finds.
func broken(format string, arguments ...any) error {
	return status.Errorf(status.Internal, format, arguments...)
}
