package page

import (
	"math"

	"libmmsb/core/mem"
	"libmmsb/core/status"
	"libmmsb/native"
)

// Memory for small pages. Regions are divided into slabs, each for one size class. A slab is cut into spans, the least whole number of system
// pages that slots of the class fill exactly; spans are what is charged against the memory limit and given back to the system. Where a slot
// lies tells its span, so that nothing is kept per span.

const (
	slabBytes = 256 << 10
	// Regions of slabs begin small and double.
	firstRegion = 1 << 20
	lastRegion  = 64 << 20
	hugeRegion  = 2 << 20
)

// sizeClass is what a context has of one size class, beside what is in magazines and in use.
type sizeClass struct {
	slots []uint64 // handles of free slots
	spans []uint64 // places of spans that were given back to the system
	next  uint64   // place of the next span in the newest slab
	left  uint64   // bytes from there to the slab's end
}

// spanBytes is the size of a class's spans: the least common multiple of slot and system page.
func spanBytes(size uint64) uint64 {
	span := size
	for span%mem.SystemPage != 0 {
		span += size
	}
	return span
}

// slabs are the parts of a region, cut from its beginning on.
type slabs struct {
	region uint32
	offset uint64
	length uint64
	grow   uint64 // length of the next region
}

// newSlab takes a slab's place. Under the lock.
func (c *Context) newSlab() (uint64, error) {
	s := &c.memory.slabs
	if s.offset+slabBytes > s.length {
		length := max(s.grow, firstRegion)
		number, err := mem.Map(length, c.options.HugePages && length >= hugeRegion)
		if err != nil {
			return 0, err
		}
		c.memory.regions = append(c.memory.regions, number)
		s.region, s.offset, s.length, s.grow = number, 0, length, min(length*2, lastRegion)
	}
	place := native.Locator(s.region, s.offset)
	s.offset += slabBytes
	return place, nil
}

// newSpan gives the class a span of free slots. Under the lock.
func (c *Context) newSpan(class uint32) error {
	k := &c.memory.classes[class]
	size := native.ClassSize(class)
	bytes := spanBytes(size)
	if err := c.ledger.Take(bytes); err != nil {
		return err
	}
	if len(k.spans) == 0 && k.left < bytes {
		place, err := c.newSlab()
		if err != nil {
			c.ledger.Give(bytes)
			return err
		}
		k.next, k.left = place, slabBytes
	}
	var room [mem.SystemPage / 64]uint32 // no class has more slots to a span
	indices := room[:bytes/size]
	for i := range indices {
		index, err := c.newIndex()
		if err != nil {
			c.memory.bare = append(c.memory.bare, indices[:i]...)
			c.ledger.Give(bytes)
			return err
		}
		indices[i] = index
	}
	var place uint64
	if n := len(k.spans); n > 0 {
		place = k.spans[n-1]
		k.spans = k.spans[:n-1]
	} else {
		place = k.next
		k.next += bytes
		k.left -= bytes
	}
	for i := len(indices) - 1; i >= 0; i-- { // the first slot on top
		record := native.RecordAt(indices[i])
		record.Locator, record.DirtyFirst, record.DirtyLast, record.Exposed = place+uint64(i)*size, 255, 0, 0
		generation := native.Generation(record.LoadState())
		record.StoreState(native.State(native.StateFree, generation, uint64(class)<<native.ClassShift))
		k.slots = append(k.slots, native.Handle(native.KindPage, generation, indices[i]))
	}
	return nil
}

// refill takes free slots of a size class for a thread's magazine.
func refill(context uint64, class uint32, handles []uint64) (int, int32) {
	c, err := contexts.Get(context)
	if err != nil {
		return 0, failed(err)
	}
	count, err := c.refill(class, handles)
	return count, failed(err)
}

func (c *Context) refill(class uint32, handles []uint64) (int, error) {
	native.CountContext(c.index) // notes the peak
	c.memory.Lock()
	defer c.memory.Unlock()
	if c.memory.closed {
		return 0, status.Errorf(status.StaleHandle, "context 0x%016x has ended", c.handle)
	}
	// A context that has few pages takes little: at first a handful, then as many as it has.
	want := min(len(handles), max(8, int(c.ledger.Used()/native.ClassSize(class))))
	k := &c.memory.classes[class]
	for len(k.slots) < want {
		err := c.newSpan(class)
		if err != nil && len(k.slots) == 0 && !c.takeDepot(class) && c.trim() > 0 { // what other size classes have free may be enough
			err = c.newSpan(class)
		}
		if err != nil {
			if len(k.slots) == 0 {
				return 0, err
			}
			break
		}
	}
	count := min(want, len(k.slots))
	rest := len(k.slots) - count
	copy(handles, k.slots[rest:])
	k.slots = k.slots[:rest]
	return count, nil
}

// Trim gives memory of destroyed pages back to the system: free extents, and spans all of whose slots are free and in no
// thread's cache.
func (c *Context) Trim() uint64 {
	c.memory.Lock()
	defer c.memory.Unlock()
	return c.trim()
}

func (c *Context) trim() uint64 {
	released := c.release(0, math.MaxUint64)
	for class := range uint32(native.SmallClasses) {
		released += c.trimClass(class)
	}
	return released
}

// takeDepot takes a magazine of free slots that threads keep for themselves, if there is one. Under the lock.
func (c *Context) takeDepot(class uint32) bool {
	var handles [native.MagazineRounds]uint64
	n := native.TakeDepot(c.index, class, &handles)
	k := &c.memory.classes[class]
	k.slots = append(k.slots, handles[:n]...)
	return n > 0
}

func (c *Context) trimClass(class uint32) uint64 {
	k := &c.memory.classes[class]
	for c.takeDepot(class) {
	}
	size := native.ClassSize(class)
	bytes := spanBytes(size)
	spanOf := func(handle uint64) uint64 {
		place := native.RecordAt(native.Index(handle)).Locator
		offset := native.LocatorOffset(place)
		slab := offset &^ (slabBytes - 1)
		return native.Locator(native.LocatorRegion(place), slab+(offset-slab)/bytes*bytes)
	}
	free := make(map[uint64]uint64)
	for _, handle := range k.slots {
		free[spanOf(handle)] += size
	}
	released := uint64(0)
	for span, length := range free {
		if length == bytes {
			mem.Discard(native.LocatorRegion(span), native.LocatorOffset(span), bytes)
			k.spans = append(k.spans, span)
			released += bytes
		}
	}
	kept := k.slots[:0]
	for _, handle := range k.slots {
		if free[spanOf(handle)] == bytes {
			c.freeBare(native.Index(handle), native.Generation(handle))
		} else {
			kept = append(kept, handle)
		}
	}
	k.slots = kept
	c.ledger.Give(released)
	return released
}
