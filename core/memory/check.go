package memory

import (
	"libmmsb/core/alloc"
	"libmmsb/core/region"
	"libmmsb/native"
)

// Walks over all that a context's memory has, for tests.

// recount is what a walk over the records finds, in bytes.
type recount struct {
	*Memory
	slots, extentBytes, mappingBytes uint64
	mapped, guarded                  int
	holders                          map[uint64]uint32 // by locator: the record that has the memory
	units                            alloc.Set         // of the extents' space: in use
}

// Check walks over everything and says what is wrong with it: two records with the same memory, a free record with memory, a free
// slot that is in use, a charge that is not what a recount gives. No call may run on the context. Errors: Internal.
func (m *Memory) Check() error {
	m.Lock()
	defer m.Unlock()
	if m.closed {
		return nil
	}
	r := &recount{Memory: m, holders: make(map[uint64]uint32)}
	for _, check := range []func() error{r.checkRecords, r.checkBare, r.checkSlots, r.checkExtents, r.checkGuard, r.checkCharge} {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

func (r *recount) checkRecords() error {
	for _, leaf := range r.records.leaves {
		if leaf.Used > native.LeafRecords || native.LeafContext(leaf.Number) != r.context {
			return broken("leaf %d of context %d belongs to context %d, %d of %d records are in use", leaf.Number, r.context,
				native.LeafContext(leaf.Number), leaf.Used, native.LeafRecords)
		}
		for index := max(leaf.First(), 1); index < leaf.First()+leaf.Used; index++ {
			if err := r.add(index); err != nil {
				return err
			}
		}
	}
	return nil
}

// add counts the memory of a record.
func (r *recount) add(index uint32) error {
	record := native.RecordAt(index)
	state := record.LoadState()
	class, number := native.Class(state), native.LocatorRegion(record.Locator)
	switch {
	case class < native.SmallClasses:
		r.slots += native.ClassSize(class)
	case class == native.ClassGuarded:
		if r.guard.blocks[record.Locator] == nil {
			return broken("record %d: 0x%x is not guarded memory", index, record.Locator)
		}
		r.guarded++
	case class == native.ClassExtent:
		first, count := r.extents.of(record.Locator, RoundUp(record.Size))
		if r.units.Overlaps(first, first+count) {
			return broken("record %d: some of %d bytes at 0x%x belong to another extent", index, record.Size, record.Locator)
		}
		r.units.Add(first, first+count)
		r.extentBytes += RoundUp(record.Size)
	case class == native.ClassMapped:
		if _, known := r.mappings.regions[number]; !known {
			return broken("record %d: region %d is not a mapping of context %d", index, number, r.context)
		}
		r.mappingBytes += region.Length(number)
		r.mapped++
	case native.Kind(state) == native.StateFree || native.Kind(state) == native.StateRetired:
		if record.Locator != 0 {
			return broken("free record %d has no memory class, but locator 0x%x", index, record.Locator)
		}
		return nil
	default:
		return nil
	}
	if other, held := r.holders[record.Locator]; held {
		return broken("records %d and %d have the same memory 0x%x", other, index, record.Locator)
	}
	r.holders[record.Locator] = index
	return nil
}

func (r *recount) checkBare() error {
	seen := make(map[uint32]bool)
	for _, index := range r.records.bare {
		if err := checkBare(index); err != nil {
			return err
		}
		if seen[index] {
			return broken("record %d is free twice", index)
		}
		seen[index] = true
	}
	return nil
}

// checkSlots checks the free slots that no thread keeps.
func (r *recount) checkSlots() error {
	for class := range uint32(native.SmallClasses) {
		seen, free := make(map[uint32]bool), make(map[uint64]uint64)
		size := native.ClassSize(class)
		for _, handle := range r.slabs.classes[class].slots {
			index := native.Index(handle)
			if err := checkSlot(handle, class); err != nil {
				return err
			}
			if seen[index] {
				return broken("slot 0x%016x of %d bytes is free twice", handle, size)
			}
			seen[index] = true
			span := spanOf(native.RecordAt(index).Locator, spanBytes(size))
			if free[span] += size; free[span] > spanBytes(size) {
				return broken("span 0x%x has %d free bytes of %d", span, free[span], spanBytes(size))
			}
		}
	}
	return nil
}

func (r *recount) checkExtents() (err error) {
	e := &r.extents
	if err := e.space.Check(); err != nil {
		return err
	}
	gaps := uint64(max(len(e.regions)-1, 0) * extentGap)
	if used := (e.space.Used() - gaps) * region.SystemPage; used != r.extentBytes {
		return broken("extents of %d bytes are allocated, records have %d", used, r.extentBytes)
	}
	for _, set := range []alloc.Set{r.extents.retained.recent, r.extents.retained.older} {
		set.Runs(0, ^uint64(0), func(first, end uint64) {
			if r.units.Overlaps(first, end) {
				err = broken("some of %d retained system pages from %d on are in use", end-first, first)
			}
		})
	}
	return err
}

func (r *recount) checkGuard() error {
	if r.guarded != len(r.guard.blocks) {
		return broken("%d records have guarded memory, but there are %d pieces of it", r.guarded, len(r.guard.blocks))
	}
	canaries, held := uint64(0), uint64(0)
	for _, b := range r.guard.blocks {
		canaries += uint64(len(b.memory)) - b.size
	}
	for _, b := range r.guard.quarantine {
		held += uint64(len(b.memory))
	}
	if canaries != r.guard.canaries || held != r.guard.held || held > r.guard.most {
		return broken("guard counts %d bytes of canaries and %d of %d in quarantine, but there are %d and %d", r.guard.canaries,
			r.guard.held, r.guard.most, canaries, held)
	}
	return nil
}

func (r *recount) checkCharge() error {
	if r.mapped != len(r.mappings.regions) {
		return broken("there are %d mappings, records have %d", len(r.mappings.regions), r.mapped)
	}
	retained := r.extents.retained.count(0, ^uint64(0)) * region.SystemPage
	if sum := r.slots + r.extentBytes + r.mappingBytes + retained; sum != r.Used() {
		return broken("%d bytes are charged, but %d of slots, %d of extents, %d of mappings and %d retained are %d",
			r.Used(), r.slots, r.extentBytes, r.mappingBytes, retained, sum)
	}
	return nil
}
