package page

import (
	"sync"

	"libmmsb/core/alloc"
	"libmmsb/core/mem"
	"libmmsb/core/status"
	"libmmsb/native"
)

const (
	// MaxSize is the largest page that can be addressed: a region's offsets have 44 bits.
	MaxSize = 1 << 44
	// mappedMin is the size from which a page has a mapping of its own, that can grow without a copy.
	mappedMin = 1<<20 + 1
	// Regions that extents are cut from.
	firstExtents = 4 << 20
	lastExtents  = 64 << 20
	// extentGap is one system page that no extent gets, between the regions, so that none reaches from one into the next.
	extentGap = 1
)

type chunk struct {
	number uint32
	used   uint32 // records that have been in use
}

func (c chunk) first() uint32 { return c.number << native.LeafBits }

// extentRegion is a region that extents are cut from: blocks [first, first+count) of the extents' space.
type extentRegion struct {
	number       uint32
	first, count uint64
}

// memory is what a context's pages are made of.
type memory struct {
	sync.Mutex
	closed bool

	chunks []chunk
	bare   []uint32 // free records without memory

	regions []uint32 // all anonymous ones that are shared by pages
	slabs   slabs
	classes [native.SmallClasses]sizeClass

	extents       *alloc.Extents
	extentRegions []extentRegion    // in the order of first
	extentFirst   map[uint32]uint64 // first by region
	retained      retained
	mapped        map[uint32]struct{} // regions of single pages
	shared        map[uint32]place    // regions of single pages that are a device's

	survivor map[uint32]int // by region: pieces of memory in it that outlive the context
	ended    bool
	over     bool // nothing is left, and the devices are not closed yet
}

// Chunks of records that no context has.
var chunks struct {
	sync.Mutex
	next uint32
	free []uint32
}

// takeChunk takes a chunk; used tells whether another context had it before.
func takeChunk(context uint32) (number uint32, used bool, err error) {
	chunks.Lock()
	defer chunks.Unlock()
	if n := len(chunks.free); n > 0 {
		number, used = chunks.free[n-1], true
		chunks.free = chunks.free[:n-1]
	} else {
		if chunks.next == native.Leaves {
			return 0, false, status.Errorf(status.Limit, "all %d page records are in use", uint64(native.Leaves)<<native.LeafBits)
		}
		if errno := native.OpenLeaf(chunks.next); errno != 0 {
			return 0, false, status.FromErrno(status.OutOfMemory, errno, "no memory for %d page records", native.LeafRecords)
		}
		number = chunks.next
		chunks.next++
	}
	native.SetLeafContext(number, context)
	return number, used, nil
}

func giveChunk(number uint32) {
	native.SetLeafContext(number, 0)
	chunks.Lock()
	chunks.free = append(chunks.free, number)
	chunks.Unlock()
}

// RecordBytes is the memory of page records that have been opened.
func RecordBytes() uint64 {
	chunks.Lock()
	defer chunks.Unlock()
	sides.Lock()
	defer sides.Unlock()
	return uint64(chunks.next)*native.LeafRecords*64 + uint64(sides.next)*64
}

// newIndex is the index of a record that has no memory. Under the lock.
func (c *Context) newIndex() (uint32, error) {
	m := &c.memory
	if n := len(m.bare); n > 0 {
		index := m.bare[n-1]
		m.bare = m.bare[:n-1]
		return index, nil
	}
	for {
		if n := len(m.chunks); n > 0 && m.chunks[n-1].used < native.LeafRecords {
			last := &m.chunks[n-1]
			index := last.first() + last.used
			last.used++
			record := native.RecordAt(index)
			state := record.LoadState()
			if index == 0 || native.Kind(state) == native.StateRetired {
				continue
			}
			record.Locator = 0
			record.StoreState(native.State(native.StateFree, max(native.Generation(state), 1), native.ClassNone<<native.ClassShift))
			return index, nil
		}
		number, err := c.takeChunk()
		if err != nil {
			return 0, err
		}
		m.chunks = append(m.chunks, chunk{number: number})
		native.CaptureLater(c.index, number)
	}
}

// takeBlock takes a block of more than native.SmallMax bytes, all zero.
func takeBlock(context uint32, size uint64) (uint32, int32) {
	index, err := byIndex[context].Load().takeLarge(size, false, true)
	return index, failed(err)
}

// takeLarge takes a block of whole system pages; mapped asks for a mapping of its own, which large ones have anyway. Where it is
// not to be zeroed, it may have bytes of the context's ended pages.
func (c *Context) takeLarge(size uint64, mapped, zeroed bool) (uint32, error) {
	if size == 0 || size > MaxSize {
		return 0, status.Errorf(status.InvalidSize, "a size of %d bytes: 1 … %d can be", size, uint64(MaxSize))
	}
	m := &c.memory
	m.Lock()
	defer m.Unlock()
	if m.closed {
		return 0, status.Errorf(status.StaleHandle, "context 0x%016x has ended", c.handle)
	}
	index, err := c.newIndex()
	if err != nil {
		return 0, err
	}
	capacity := roundUp(size)
	place, class := uint64(0), uint64(native.ClassExtent)
	if mapped || size >= mappedMin {
		class = native.ClassMapped
		place, err = c.takeMapping(capacity)
	} else {
		place, err = c.takeExtent(capacity/mem.SystemPage, zeroed)
	}
	if err != nil {
		m.bare = append(m.bare, index)
		return 0, err
	}
	record := native.RecordAt(index)
	record.Locator, record.Size, record.Exposed = place, capacity, 0
	record.StoreState(native.State(native.StateFrame, native.Generation(record.LoadState()), class<<native.ClassShift))
	return index, nil
}

// charge counts memory that the context takes. At the limit what it has free may make room. Under the lock.
func (c *Context) charge(bytes uint64) error {
	err := c.ledger.Take(bytes)
	if err != nil && c.trim() > 0 {
		err = c.ledger.Take(bytes)
	}
	return err
}

// takeMapping takes zeroed memory from the system. Under the lock.
func (c *Context) takeMapping(length uint64) (uint64, error) {
	if err := c.charge(length); err != nil {
		return 0, err
	}
	number, err := mem.Map(length, c.options.HugePages)
	if err != nil {
		c.ledger.Give(length)
		return 0, err
	}
	if c.memory.mapped == nil {
		c.memory.mapped = make(map[uint32]struct{})
	}
	c.memory.mapped[number] = struct{}{}
	return native.Locator(number, 0), nil
}

// takeExtent takes system pages out of the shared regions. Under the lock.
func (c *Context) takeExtent(count uint64, zeroed bool) (uint64, error) {
	m := &c.memory
	first, err := c.findExtent(count)
	if err != nil {
		return 0, err
	}
	// What is retained of it is charged already, unless the charge has to release it.
	err = c.ledger.Take((count - m.retained.count(first, first+count)) * mem.SystemPage)
	if err != nil && c.trim() > 0 {
		err = c.ledger.Take(count * mem.SystemPage)
	}
	if err != nil {
		_ = m.extents.Free(first, count)
		return 0, err
	}
	region := m.extentRegion(first)
	place := native.Locator(region.number, (first-region.first)*mem.SystemPage)
	native.RedzoneMemory(place, count*mem.SystemPage, count*mem.SystemPage)
	c.reuse(first, count, zeroed)
	return place, nil
}

// findExtent finds free blocks. Under the lock.
func (c *Context) findExtent(count uint64) (first uint64, err error) {
	m := &c.memory
	if m.extents == nil {
		m.extents = alloc.NewExtents(0)
		m.extentFirst = make(map[uint32]uint64)
	}
	first, ok := m.extents.Allocate(count, 1)
	if ok {
		return first, nil
	}
	length := uint64(lastExtents)
	if len(m.extentRegions) == 0 {
		length = firstExtents
	}
	number, err := mem.Map(length, c.options.HugePages)
	if err != nil {
		return 0, err
	}
	blocks := length / mem.SystemPage
	start := uint64(0)
	if n := len(m.extentRegions); n > 0 {
		last := m.extentRegions[n-1]
		start = last.first + last.count + extentGap
	}
	m.regions = append(m.regions, number)
	m.extentRegions = append(m.extentRegions, extentRegion{number, start, blocks})
	m.extentFirst[number] = start
	if start > 0 {
		m.extents.Skip(extentGap)
	}
	if err := m.extents.Grow(start + blocks); err != nil {
		return 0, err
	}
	if first, ok = m.extents.Allocate(count, 1); !ok {
		return 0, status.Errorf(status.OutOfMemory, "no %d free system pages in a new region of %d", count, blocks)
	}
	return first, nil
}

// extentRegion is the region that a block lies in.
func (m *memory) extentRegion(block uint64) extentRegion {
	low, high := 0, len(m.extentRegions)
	for high-low > 1 {
		middle := (low + high) / 2
		if m.extentRegions[middle].first <= block {
			low = middle
		} else {
			high = middle
		}
	}
	return m.extentRegions[low]
}

// giveBlock gives a block back that is not small; its record stays, without memory.
func giveBlock(_, index uint32) {
	record := native.RecordAt(index)
	contextOf(index).dropMemory(index, record.Size, native.Generation(record.LoadState()))
}

// dropMemory gives large memory of a record back. The record is bare and free for the next generation, 0 = for none.
func (c *Context) dropMemory(index uint32, size uint64, generation uint32) {
	m := &c.memory
	record := native.RecordAt(index)
	if native.Class(record.LoadState()) == native.ClassDevice { // the driver may wait for the device
		c.dropShared(native.LocatorRegion(record.Locator))
	}
	m.Lock()
	defer m.Unlock()
	capacity := roundUp(size)
	region, offset := native.LocatorRegion(record.Locator), native.LocatorOffset(record.Locator)
	switch class := native.Class(record.LoadState()); {
	case class == native.ClassForeign, class == native.ClassDevice:
		mem.Unmap(region)
	case m.ended: // the region goes as a whole
	case class == native.ClassMapped:
		delete(m.mapped, region)
		mem.Unmap(region)
		c.ledger.Give(capacity)
	case class == native.ClassExtent && !m.closed:
		native.RedzoneMemory(record.Locator, 0, capacity)
		first, count := m.extentFirst[region]+offset/mem.SystemPage, capacity/mem.SystemPage
		_ = m.extents.Free(first, count)
		c.retain(first, count)
	}
	c.freeBare(index, generation)
}

// dropShared gives memory of a device back that the host reaches.
func (c *Context) dropShared(region uint32) {
	c.memory.Lock()
	of := c.memory.shared[region]
	delete(c.memory.shared, region)
	c.memory.Unlock()
	c.devices.FreeHost(of.location, of.device, mem.Base(region))
}

// freeBare makes a record without memory free for a generation; 0 retires it. Under the lock.
func (c *Context) freeBare(index, generation uint32) {
	record := native.RecordAt(index)
	record.Locator = 0
	if generation == 0 {
		record.StoreState(native.State(native.StateRetired, native.GenerationMax, native.ClassNone<<native.ClassShift))
		return
	}
	record.StoreState(native.State(native.StateFree, generation, native.ClassNone<<native.ClassShift))
	c.memory.bare = append(c.memory.bare, index)
}

func roundUp(size uint64) uint64 { return (size + mem.SystemPage - 1) &^ (mem.SystemPage - 1) }

// close lets nobody take memory any more. False when it was closed before.
func (m *memory) close() bool {
	m.Lock()
	defer m.Unlock()
	first := !m.closed
	m.closed = true
	if m.retained.timer != nil {
		m.retained.timer.Stop()
	}
	return first
}

func (m *memory) isClosed() bool {
	m.Lock()
	defer m.Unlock()
	return m.closed
}

// outlives notes a piece of memory in a region that outlives the context.
func (m *memory) outlives(region uint32) {
	m.Lock()
	defer m.Unlock()
	if m.survivor == nil {
		m.survivor = make(map[uint32]int)
	}
	m.survivor[region]++
	outliving.Add(1)
}

// leaveEnded gives everything back that nobody holds any more. The context's pages have ended.
func (c *Context) leaveEnded() {
	m := &c.memory
	defer c.closeIfOver()
	m.Lock()
	defer m.Unlock()
	m.ended = true
	endedChunks.Lock()
	for _, chunk := range m.chunks {
		endedChunks.context[chunk.number] = c
		native.SetLeafContext(chunk.number, 0)
	}
	endedChunks.Unlock()
	for region := range m.mapped {
		m.regions = append(m.regions, region)
	}
	m.mapped = nil
	kept := m.regions[:0]
	for _, region := range m.regions {
		if m.survivor[region] > 0 {
			kept = append(kept, region)
		} else {
			mem.Unmap(region)
		}
	}
	m.regions = kept
	c.forgetIfOver()
}

// outlivedEnds is the end of a piece of memory that outlived the context.
func (c *Context) outlivedEnds(region uint32) {
	m := &c.memory
	defer c.closeIfOver()
	m.Lock()
	defer m.Unlock()
	outliving.Add(^uint64(0))
	m.survivor[region]--
	if m.survivor[region] > 0 {
		return
	}
	delete(m.survivor, region)
	if !m.ended {
		return // the region is still the live context's
	}
	for i, number := range m.regions {
		if number == region {
			m.regions = append(m.regions[:i], m.regions[i+1:]...)
			mem.Unmap(region)
			break
		}
	}
	c.forgetIfOver()
}

// forgetIfOver gives the records back when the context has ended and nothing outlives it. Under the lock.
func (c *Context) forgetIfOver() {
	m := &c.memory
	if !m.ended || len(m.survivor) > 0 {
		return
	}
	endedChunks.Lock()
	for _, chunk := range m.chunks {
		delete(endedChunks.context, chunk.number)
	}
	endedChunks.Unlock()
	for _, chunk := range m.chunks {
		native.ForgetSaved(chunk.number)
		giveChunk(chunk.number)
	}
	m.chunks = nil
	m.over = true
}

// closeIfOver ends the devices of a context that has nothing left. Without the lock: it may wait for them.
func (c *Context) closeIfOver() {
	c.memory.Lock()
	over := c.memory.over
	c.memory.over = false
	c.memory.Unlock()
	if over {
		c.devices.Close()
	}
}

// Chunks of contexts that have ended but that something outlives.
var endedChunks = struct {
	sync.Mutex
	context map[uint32]*Context
}{context: make(map[uint32]*Context)}

// contextOf is the context that a record belongs to, also when it has ended.
func contextOf(index uint32) *Context {
	chunk := index >> native.LeafBits
	if context := native.LeafContext(chunk); context != 0 {
		return byIndex[context].Load()
	}
	endedChunks.Lock()
	defer endedChunks.Unlock()
	return endedChunks.context[chunk]
}
