package memory

import (
	"libmmsb/core/invariant"
	"libmmsb/core/region"
	"libmmsb/native"
)

// Memory for small frames. Regions are divided into slabs, each for one size class. A slab is cut into spans, the least whole
// number of system pages that slots of the class fill exactly; spans are what is charged against the memory limit and given back
// to the system. Where a slot lies tells its span, so that nothing is kept per span.

const (
	slabBytes = 256 << 10
	// Regions of slabs begin small and double.
	firstRegion = 1 << 20
	lastRegion  = 64 << 20
	hugeRegion  = 2 << 20
)

// slabs are a context's regions of slabs, of which the newest is cut from its beginning on, and what lies in them. Under the lock
// of the memory.
type slabs struct {
	records *freeRecords
	ledger  *ledger
	huge    bool
	regions []uint32
	offset  uint64 // in the newest
	length  uint64 // of the newest
	grow    uint64 // length of the next region
	classes [native.SmallClasses]sizeClass
}

// sizeClass is what a context has of one size class, beside what is in magazines and in use.
type sizeClass struct {
	slots []uint64 // handles of free slots
	spans []uint64 // locators of spans that were given back to the system
	next  uint64   // locator of the next span in the newest slab
	left  uint64   // bytes from there to the slab's end
}

// spanBytes is the size of a class's spans: the least common multiple of slot and system page.
func spanBytes(size uint64) uint64 {
	span := size
	for span%region.SystemPage != 0 {
		span += size
	}
	return span
}

// spanOf is where the span of a slot lies.
func spanOf(slot, bytes uint64) uint64 {
	offset := native.LocatorOffset(slot)
	slab := offset &^ (slabBytes - 1)
	return native.Locator(native.LocatorRegion(slot), slab+(offset-slab)/bytes*bytes)
}

// newSlab takes a slab.
func (s *slabs) newSlab() (locator uint64, err error) {
	if s.offset+slabBytes > s.length {
		length := max(s.grow, firstRegion)
		number, err := region.Map(length, s.huge && length >= hugeRegion)
		if err != nil {
			return 0, err
		}
		s.regions = append(s.regions, number)
		s.offset, s.length, s.grow = 0, length, min(length*2, lastRegion)
	}
	locator = native.Locator(s.regions[len(s.regions)-1], s.offset)
	s.offset += slabBytes
	return locator, nil
}

// newSpan gives the class a span of free slots.
func (s *slabs) newSpan(class uint32) error {
	k := &s.classes[class]
	size := native.ClassSize(class)
	bytes := spanBytes(size)
	if err := s.ledger.charge(bytes); err != nil {
		return err
	}
	if len(k.spans) == 0 && k.left < bytes {
		slab, err := s.newSlab()
		if err != nil {
			s.ledger.uncharge(bytes)
			return err
		}
		k.next, k.left = slab, slabBytes
	}
	var most [region.SystemPage / 64]uint32 // no class has more slots to a span
	indices := most[:bytes/size]
	for i := range indices {
		index, err := s.records.take()
		if err != nil {
			s.records.give(indices[:i]...)
			s.ledger.uncharge(bytes)
			return err
		}
		indices[i] = index
	}
	var span uint64
	if n := len(k.spans); n > 0 {
		span = k.spans[n-1]
		k.spans = k.spans[:n-1]
	} else {
		span = k.next
		k.next += bytes
		k.left -= bytes
	}
	for i := len(indices) - 1; i >= 0; i-- { // the first slot on top
		record := native.RecordAt(indices[i])
		record.Locator, record.DirtyFirst, record.DirtyLast, record.Exposed = span+uint64(i)*size, 255, 0, 0
		generation := native.Generation(record.LoadState())
		record.StoreState(native.State(native.StateFree, generation, uint64(class)<<native.ClassShift))
		k.slots = append(k.slots, native.Handle(native.KindPage, generation, indices[i]))
	}
	return nil
}

// refill takes free slots of a size class for a thread's magazine; none is an error.
func (s *slabs) refill(class uint32, handles []uint64) (count int, err error) {
	// A context that has few pages takes little: at first a handful, then as many as it has.
	want := min(len(handles), max(8, int(s.ledger.used.Load()/native.ClassSize(class))))
	k := &s.classes[class]
	for err == nil && len(k.slots) < want {
		err = s.newSpan(class)
	}
	if len(k.slots) == 0 && !s.takeDepot(class) {
		return 0, err
	}
	count = min(want, len(k.slots))
	rest := len(k.slots) - count
	copy(handles, k.slots[rest:])
	k.slots = k.slots[:rest]
	if invariant.Enabled {
		for _, handle := range handles[:count] {
			invariant.Check(checkSlot(handle, class))
		}
	}
	return count, nil
}

// give takes a frame back as a free slot.
func (s *slabs) give(index uint32) {
	record := native.RecordAt(index)
	state := record.LoadState()
	class, generation := native.Class(state), native.Generation(state)
	native.RedzoneMemory(record.Locator, 0, native.ClassSize(class))
	record.StoreState(native.State(native.StateFree, generation, uint64(class)<<native.ClassShift))
	s.classes[class].slots = append(s.classes[class].slots, native.Handle(native.KindPage, generation, index))
}

// takeDepot takes a magazine of free slots that threads keep for themselves, if there is one.
func (s *slabs) takeDepot(class uint32) bool {
	var handles [native.MagazineRounds]uint64
	n := native.TakeDepot(s.records.context, class, &handles)
	k := &s.classes[class]
	k.slots = append(k.slots, handles[:n]...)
	return n > 0
}

// trim gives the system spans all of whose slots are free.
func (s *slabs) trim() {
	for class := range uint32(native.SmallClasses) {
		s.trimClass(class)
	}
}

func (s *slabs) trimClass(class uint32) {
	k := &s.classes[class]
	for s.takeDepot(class) {
	}
	size := native.ClassSize(class)
	bytes := spanBytes(size)
	spanOf := func(handle uint64) uint64 { return spanOf(native.RecordAt(native.Index(handle)).Locator, bytes) }
	free := make(map[uint64]uint64)
	for _, handle := range k.slots {
		free[spanOf(handle)] += size
	}
	for span, length := range free {
		if invariant.Enabled {
			invariant.Assert(length <= bytes, "span 0x%x has %d free bytes of %d", span, length, bytes)
		}
		if length == bytes {
			region.Discard(native.LocatorRegion(span), native.LocatorOffset(span), bytes)
			k.spans = append(k.spans, span)
			s.ledger.uncharge(bytes)
		}
	}
	left := k.slots[:0]
	for _, handle := range k.slots {
		if free[spanOf(handle)] == bytes {
			s.records.free(native.Index(handle), native.Generation(handle))
		} else {
			left = append(left, handle)
		}
	}
	k.slots = left
}

// checkSlot checks a free slot of a class.
func checkSlot(handle uint64, class uint32) error {
	state := native.RecordAt(native.Index(handle)).LoadState()
	if native.Kind(state) != native.StateFree || native.Class(state) != class ||
		native.Generation(state) != native.Generation(handle) {
		return broken("free slot 0x%016x of class %d has state 0x%016x", handle, class, state)
	}
	return nil
}
