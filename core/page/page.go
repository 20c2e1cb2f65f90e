package page

import (
	"errors"
	"sync"
	"sync/atomic"
	"syscall"

	"libmmsb/core/journal"
	"libmmsb/core/log"
	"libmmsb/core/mem"
	"libmmsb/core/status"
	"libmmsb/native"
)

// failed stores an error as the thread's last one and returns its code; 0 without one.
func failed(err error) int32 {
	if err == nil {
		return 0
	}
	e := status.Of(err)
	return native.Fail(int32(e.Code), e.Domain, e.Foreign, e.Text)
}

// fromNative is the error that native code stored.
func fromNative(code int32) error {
	if code == 0 {
		return nil
	}
	stored, domain, foreign, text := native.LastError()
	if stored != code {
		return status.Errorf(status.Internal, "native code failed with %d, but stored %d: %s", code, stored, text)
	}
	return &status.Error{Code: status.Code(code), Domain: domain, Foreign: foreign, Text: text}
}

func errnoOf(err error) syscall.Errno {
	var errno syscall.Errno
	if errors.As(err, &errno) {
		return errno
	}
	return syscall.EIO
}

// locked is a page that Go code works on.
type locked struct {
	context *Context
	handle  uint64
	index   uint32
	record  *native.Record
	state   uint64 // as it will be when the page is unlocked

	journalled journalled
}

// lock locks a page; unlock must follow, or end.
func lock(page uint64) (*locked, error) {
	if code := native.LockPage(page); code != 0 {
		return nil, fromNative(code)
	}
	index := native.Index(page)
	record := native.RecordAt(index)
	return &locked{context: contextOf(index), handle: page, index: index, record: record, state: record.LoadState() &^ native.OwnerMask}, nil
}

// lockToChange locks a page that is to change as a whole: what is being saved has it as it was.
func lockToChange(page uint64) (*locked, error) {
	for {
		p, err := lock(page)
		if err != nil {
			return nil, err
		}
		if !native.Touch(p.index, p.state) {
			if err := p.present(); err != nil {
				p.unlock()
				return nil, err
			}
			return p, nil
		}
		p.unlock()
		native.TouchWait(p.index)
	}
}

func (p *locked) unlock() { native.UnlockRecord(p.index, p.state) }

func (p *locked) location() int32 { return native.Location(p.state) }

func (p *locked) notPinned() error {
	if p.record.Pinned() {
		return status.Errorf(status.Busy, "page 0x%016x is pinned: %d to read, %d to write", p.handle, p.record.ReadPins,
			p.record.WritePins)
	}
	return nil
}

// bytes are the page's, which must have an address.
func (p *locked) bytes() []byte { return native.Bytes(p.record.Locator, p.record.Size) }

// side is the page's side record, made where it has none.
func (p *locked) side() (*native.Side, error) {
	if p.record.Side == 0 {
		index, err := takeSide()
		if err != nil {
			return nil, err
		}
		p.record.Side = index
	}
	return native.SideAt(p.record.Side), nil
}

// side records of the process.
var sides struct {
	sync.Mutex
	next uint32 // 0 is none
	free []uint32
}

func takeSide() (uint32, error) {
	var index [1]uint32
	err := takeSides(index[:])
	return index[0], err
}

// takeSides takes as many as there is room for, or none.
func takeSides(indices []uint32) error {
	sides.Lock()
	defer sides.Unlock()
	reused := min(len(indices), len(sides.free))
	rest := len(sides.free) - reused
	next := sides.next
	for i := reused; i < len(indices); i++ {
		if next+1 == native.IndexMask {
			return status.Errorf(status.Limit, "all %d side records are in use", next)
		}
		if next == 0 || (next+1)%native.LeafRecords == 0 {
			if errno := native.OpenSides((next + 1) / native.LeafRecords); errno != 0 {
				return status.FromErrno(status.OutOfMemory, errno, "no memory for side records")
			}
		}
		next++
		indices[i] = next
	}
	copy(indices, sides.free[rest:])
	sides.next, sides.free = next, sides.free[:rest]
	for _, index := range indices {
		*native.SideAt(index) = native.Side{NUMANode: -1}
	}
	return nil
}

func giveSide(index uint32) { giveSides([]uint32{index}) }

func giveSides(indices []uint32) {
	sides.Lock()
	sides.free = append(sides.free, indices...)
	sides.Unlock()
}

// CreateOptions are a page's; the fields are those of mmsb_page_options_t.
type CreateOptions struct {
	ID            uint64
	Location      int32
	Device        int32
	NUMANode      int32
	Uninitialised bool
}

func checkSize(size uint64) error {
	if size == 0 || size > MaxSize {
		return status.Errorf(status.InvalidSize, "a size of %d bytes: 1 … %d can be", size, uint64(MaxSize))
	}
	return nil
}

// Create makes one page of any size, place and id.
func (c *Context) Create(size uint64, options CreateOptions) (uint64, error) {
	c.creating.RLock()
	defer c.creating.RUnlock()
	if err := checkSize(size); err != nil {
		return 0, err
	}
	b, err := c.takeFor(size, &options)
	if err != nil {
		return 0, err
	}
	return c.publish(b, size, options.ID, options.NUMANode, 0, entry{kind: journal.Create}, nil)
}

// takeFor takes what a new page is made of.
func (c *Context) takeFor(size uint64, options *CreateOptions) (block, error) {
	to, err := c.resolve(options.Location, options.Device)
	if err != nil {
		return block{}, err
	}
	if to.location != LocationCPU && options.NUMANode >= 0 {
		return block{}, status.Errorf(status.InvalidArgument, "numa_node is %d, but a page at location %d has none", options.NUMANode, to.location)
	}
	return c.takeAt(to, size, options.NUMANode, !options.Uninitialised)
}

// block is what a page is made of: a record, which has the memory of the page, and where its bytes lie if it has none.
type block struct {
	index    uint32
	away     away
	location uint64 // low bits of the state
}

// takeAt takes memory for a page at a place; of a NUMA node, unless that is -1. Where it is not to be zeroed, it may have bytes of the context's
// ended pages.
func (c *Context) takeAt(to place, size uint64, node int32, zeroed bool) (block, error) {
	switch {
	case to.away():
		return c.takeAway(to, size)
	case to.location != LocationCPU:
		return c.takeShared(to, size)
	case node >= 0:
		return c.takeOnNode(size, node)
	}
	if size > native.SmallMax {
		index, err := c.takeLarge(size, false, zeroed)
		return block{index: index}, err
	}
	index, code := native.TakeFrame(c.index, size)
	return block{index: index}, fromNative(code)
}

// takeOnNode takes memory of a NUMA node: a mapping of its own, however small.
func (c *Context) takeOnNode(size uint64, node int32) (block, error) {
	index, err := c.takeLarge(size, true, true)
	if err != nil {
		return block{}, err
	}
	if err := mem.Prefer(native.LocatorRegion(native.RecordAt(index).Locator), node); err != nil {
		native.GiveFrame(c.index, index)
		return block{}, err
	}
	return block{index: index}, nil
}

// node is the NUMA node that the page's memory was asked from; -1 = any.
func (p *locked) node() int32 {
	if p.record.Side == 0 {
		return -1
	}
	return native.SideAt(p.record.Side).NUMANode
}

// takeLike takes memory where the page lies.
func (p *locked) takeLike(size uint64) (block, error) {
	return p.context.takeAt(p.place(), size, p.node(), true)
}

// give gives back what was taken and not published.
func (c *Context) give(b block) {
	c.giveAway(b.away)
	native.GiveFrame(c.index, b.index)
}

// publish makes a page of a block, for who has c.creating; prepare, where it is not nil, works on the page before anybody can see it.
// entry is what the journal says of it.
func (c *Context) publish(b block, size, id uint64, numaNode int32, low uint64, entry entry, prepare func(p *locked) error) (uint64, error) {
	record := native.RecordAt(b.index)
	p := &locked{context: c, index: b.index, record: record}
	undo := func(err error) (uint64, error) {
		c.metadataGone(record)
		if record.Side != 0 {
			giveSide(record.Side)
			record.Side = 0
		}
		if record.MaskFrame != 0 {
			native.DropMask(b.index)
		}
		c.give(b)
		return 0, err
	}
	giveUp := func(err error) (uint64, error) {
		if id != 0 {
			c.ids.drop(id)
		}
		return undo(err)
	}
	if id != 0 || b.away.length > 0 || b.away.device != 0 || numaNode >= 0 {
		side, err := p.side()
		if err != nil {
			return undo(err)
		}
		side.ID, side.NUMANode = id, numaNode
		b.away.note(side)
	}
	if id != 0 {
		if err := c.reserve(id); err != nil {
			return undo(err)
		}
		low |= native.ExplicitID
	} else {
		c.ids.claim(b.index)
	}
	p.handle = native.Handle(native.KindPage, native.Generation(record.LoadState()), b.index)
	record.Size = size // for prepare
	if prepare != nil {
		if err := prepare(p); err != nil {
			return giveUp(err)
		}
	}
	epoch, version := record.Epoch, record.Version
	if prepare == nil {
		epoch, version = 0, firstVersion(id)
	}
	p.state = native.State(native.KindPage, native.Generation(p.handle), low|b.location)
	if err := p.journalPublished(entry, epoch, version); err != nil {
		return giveUp(err)
	}
	if id != 0 { // before anybody can see the page and destroy it
		c.ids.set(id, p.handle)
	}
	native.PublishPage(b.index, size, low|b.location, epoch, version)
	return p.handle, p.journalled.wait()
}

// explicitPages counts pages with ids that the caller chose, from anywhere on.
var explicitPages = func() *atomic.Uint32 {
	counter := new(atomic.Uint32)
	counter.Store(uint32(randomOdd()))
	return counter
}()

// firstVersion is the version of a new page. An id that the caller chose may come again after the page's end: the new page's versions are
// others, so that an incremental snapshot tells it from the old one.
func firstVersion(id uint64) uint64 {
	if id == 0 {
		return 1
	}
	return uint64(explicitPages.Add(1))<<32 | 1
}

// endPage takes a locked page apart that has more than small memory.
func endPage(index uint32, state uint64) { contextOf(index).takeApart(index, state) }

// takeApart ends a locked page and frees its record.
func (c *Context) takeApart(index uint32, state uint64) {
	record := native.RecordAt(index)
	size := record.Size
	c.forgetDependencies(index)
	c.tracking.forget(index)
	c.lazies.forget(index)
	c.metadataGone(record)
	if record.MaskFrame != 0 {
		native.DropMask(index)
	}
	var side native.Side
	if record.Side != 0 {
		side = *native.SideAt(record.Side)
		giveSide(record.Side)
		record.Side = 0
	}
	if state&native.ExplicitID != 0 {
		c.ids.drop(side.ID)
	}
	base := uintptr(0)
	if state&native.Adopted != 0 {
		base = mem.Base(native.LocatorRegion(record.Locator))
	}
	if a := awayOf(&side); a.length > 0 {
		if record.Locator != 0 {
			c.dropView(index)
		}
		c.giveAway(a)
	}
	c.freeRecord(index, state)
	if side.Release != 0 {
		native.CallRelease(side.Release, side.User, base, size)
	}
}

// freeRecord frees the record of a page that has nothing left but its memory.
func (c *Context) freeRecord(index uint32, state uint64) {
	record := native.RecordAt(index)
	generation := native.Generation(state)
	class := native.Class(state)
	if class < native.SmallClasses {
		if generation != native.GenerationMax {
			native.FinishRecord(index, state)
			return
		}
		c.moveMemoryAway(index, &state)
	}
	native.AddCounts(c.index, 0, 1, 0, record.Size)
	next := generation + 1 // 0 when the generations are used up
	c.dropMemory(index, record.Size, next)
}

// moveMemoryAway gives a record's small memory to another one, because its own generations are used up.
func (c *Context) moveMemoryAway(index uint32, state *uint64) {
	c.memory.Lock()
	bare, err := c.newIndex()
	c.memory.Unlock()
	if err != nil {
		return // the memory stays with the retired record until the context ends
	}
	other := native.RecordAt(bare)
	otherState := native.State(native.StateFrame, native.Generation(other.LoadState()), native.ClassNone<<native.ClassShift)
	native.SwapMemory(index, state, bare, &otherState)
	other.StoreState(otherState)
	native.RecordAt(index).StoreState(*state | native.OwnerLibrary)
	native.GiveFrame(c.index, bare)
}

// Clone makes a copy of a page under a new id.
func Clone(page, id uint64) (uint64, error) {
	if c := contextOf(native.Index(page)); c != nil {
		c.creating.RLock()
		defer c.creating.RUnlock()
	}
	p, err := lock(page)
	if err != nil {
		return 0, err
	}
	defer p.unlock()
	if err := p.present(); err != nil {
		return 0, err
	}
	c := p.context
	b, err := p.takeLike(p.record.Size)
	if err != nil {
		return 0, err
	}
	copied := entry{kind: journal.Clone, body: journal.Words(recordID(p.index, p.state), p.record.Version)}
	return c.publish(b, p.record.Size, id, p.node(), 0, copied, func(q *locked) error {
		if err := p.copyTo(q, b); err != nil {
			return err
		}
		q.record.Epoch, q.record.Version = p.record.Epoch, p.record.Version
		if id != 0 {
			q.record.Version = firstVersion(id)
		}
		return nil
	})
}

// copyTo copies bytes, change mask and metadata into a page that is made of a block.
func (p *locked) copyTo(q *locked, b block) error {
	size := p.record.Size
	if err := p.context.copyBytes(p, b, size); err != nil {
		return err
	}
	if p.record.MaskFrame != 0 {
		if code := native.MakeMask(q.index); code != 0 {
			return fromNative(code)
		}
		length := (size + 7) / 8
		copy(native.Bytes(q.record.MaskLocator, length), native.Bytes(p.record.MaskLocator, length))
	}
	blob := metadataOf(p.record)
	if len(blob) == 0 {
		return nil
	}
	return q.storeMetadata(blob, native.SideAt(p.record.Side).MetadataCount, nil)
}

// copyBytes copies a locked page's bytes into a block.
func (c *Context) copyBytes(p *locked, b block, size uint64) error {
	count := min(size, p.record.Size)
	to := native.RecordAt(b.index)
	if native.OnDevice(p.state) && p.record.Locator == 0 {
		from := awayOf(native.SideAt(p.record.Side))
		switch {
		case b.away.block != 0:
			return c.devices.Copy(b.away.device, b.away.address(), from.device, from.address(), count)
		case b.away.length == 0:
			return c.readAway(from, 0, native.Bytes(to.Locator, count))
		}
	}
	if p.state&native.Nonresident != 0 {
		if err := c.bringIn(p.index); err != nil {
			return err
		}
		defer c.leave(p.index)
	}
	if b.away.length > 0 {
		return c.writeAway(b.away, 0, p.bytes()[:count])
	}
	copy(native.Bytes(to.Locator, count), p.bytes()[:count])
	return nil
}

// AdoptOptions are those of mmsb_adopt_options_t.
type AdoptOptions struct {
	ID            uint64
	Location      int32
	Device        int32
	ReadOnly      bool
	Release, User uintptr
}

// Adopt makes a page over the caller's memory.
func (c *Context) Adopt(memory uintptr, size uint64, options AdoptOptions) (uint64, error) {
	c.creating.RLock()
	defer c.creating.RUnlock()
	if err := checkSize(size); err != nil {
		return 0, err
	}
	if options.Location != LocationCPU || options.Device != 0 {
		if _, err := c.resolve(options.Location, options.Device); err != nil {
			return 0, err
		}
		return 0, status.Errorf(status.InvalidArgument, "memory of location %d cannot be adopted", options.Location)
	}
	if uint64(memory)+size < size {
		return 0, status.Errorf(status.InvalidSize, "%d bytes at 0x%x reach past the end of all addresses", size, memory)
	}
	region, err := mem.Adopt(memory, size)
	if err != nil {
		return 0, err
	}
	index, err := c.takeBare()
	if err != nil {
		mem.Unmap(region)
		return 0, err
	}
	record := native.RecordAt(index)
	record.Locator, record.Exposed = native.Locator(region, 0), 1
	record.StoreState(native.State(native.StateFrame, native.Generation(record.LoadState()), native.ClassForeign<<native.ClassShift))
	low := uint64(native.Adopted)
	if options.ReadOnly {
		low |= native.ReadOnly
	}
	adopted := entry{kind: journal.Adopt, bytes: native.Memory(memory, size)}
	return c.publish(block{index: index}, size, options.ID, -1, low, adopted, func(p *locked) error {
		record.Epoch, record.Version = 0, firstVersion(options.ID)
		side, err := p.side()
		if err != nil {
			return err
		}
		side.Release, side.User = options.Release, options.User
		return nil
	})
}

// takeBare takes a record without memory, as a block.
func (c *Context) takeBare() (uint32, error) {
	c.memory.Lock()
	defer c.memory.Unlock()
	if c.memory.closed {
		return 0, status.Errorf(status.StaleHandle, "context 0x%016x has ended", c.handle)
	}
	index, err := c.newIndex()
	if err != nil {
		return 0, err
	}
	record := native.RecordAt(index)
	record.Size = 0
	record.StoreState(native.State(native.StateFrame, native.Generation(record.LoadState()), native.ClassNone<<native.ClassShift))
	return index, nil
}

// Memory that callers took over from pages, by address.
var released = struct {
	sync.Mutex
	blocks map[uintptr]releasedBlock
}{blocks: make(map[uintptr]releasedBlock)}

type releasedBlock struct {
	context *Context
	index   uint32
}

// Release ends a page but leaves its memory to the caller.
func Release(page uint64) (memory uintptr, size uint64, err error) {
	p, err := lockToChange(page)
	if err != nil {
		return 0, 0, err
	}
	if err = p.notPinned(); err == nil {
		switch {
		case p.state&native.Adopted != 0:
			err = status.Errorf(status.InvalidState, "page 0x%016x is adopted: its memory is the caller's already", page)
		case p.location() != LocationCPU:
			err = status.Errorf(status.Unsupported, "page 0x%016x lies at location %d: only host memory can be released", page, p.location())
		}
	}
	if err != nil {
		p.unlock()
		return 0, 0, err
	}
	bare, err := p.context.takeBare()
	if err == nil {
		if err = p.journal(journal.Destroy, p.record.Version); err != nil {
			native.GiveFrame(p.context.index, bare)
		}
	}
	if err != nil {
		p.unlock()
		return 0, 0, err
	}
	block := native.RecordAt(bare)
	blockState := block.LoadState()
	size = p.record.Size
	native.SwapMemory(p.index, &p.state, bare, &blockState)
	block.Size = size
	block.StoreState(blockState)
	memory = mem.Base(native.LocatorRegion(block.Locator)) + uintptr(native.LocatorOffset(block.Locator))
	released.Lock()
	released.blocks[memory] = releasedBlock{p.context, bare}
	released.Unlock()
	p.context.memory.outlives(native.LocatorRegion(block.Locator))
	p.record.StoreState(p.state | native.OwnerLibrary)
	p.context.takeApart(p.index, p.state)
	return memory, size, p.journalled.wait()
}

// FreeReleased gives such memory back.
func FreeReleased(memory uintptr) error {
	released.Lock()
	b, ok := released.blocks[memory]
	delete(released.blocks, memory)
	released.Unlock()
	if !ok {
		return status.Errorf(status.StaleHandle, "0x%x is not memory that mmsb_page_release gave, or it was given back", memory)
	}
	region := native.LocatorRegion(native.RecordAt(b.index).Locator)
	if !b.context.memory.isClosed() {
		native.GiveFrame(b.context.index, b.index)
	}
	b.context.outlivedEnds(region)
	return nil
}

// Resize changes a page's size where its memory cannot stay as it is.
func Resize(page, size uint64) (err error) {
	if err := checkSize(size); err != nil {
		return err
	}
	p, err := lockToChange(page)
	if err != nil {
		return err
	}
	defer p.settle(&err)
	if p.state&native.Adopted != 0 {
		return status.Errorf(status.InvalidState, "page 0x%016x is adopted: its memory is not the library's to resize", page)
	}
	if err := p.notPinned(); err != nil {
		return err
	}
	old := p.record.Size
	if size == old {
		return nil
	}
	if err := p.resize(size); err != nil {
		return err
	}
	if size > old {
		native.AddCounts(p.context.index, 0, 0, size-old, 0)
	} else {
		native.AddCounts(p.context.index, 0, 0, 0, old-size)
	}
	return nil
}

// resize changes a page's size.
func (p *locked) resize(size uint64) error {
	if err := checkSize(size); err != nil {
		return err
	}
	mask, err := p.resizedMask(size)
	if err != nil {
		return err
	}
	if err := p.resizeMemory(size); err != nil {
		if mask != 0 {
			native.GiveFrame(p.context.index, mask)
		}
		return err
	}
	p.useMask(mask)
	p.record.SetSize(size)
	native.Redzone(p.index, p.state, size)
	p.record.MoveVersion()
	return nil
}

// resizedMask is a block with the page's change mask cut or extended; 0 where it has none.
func (p *locked) resizedMask(size uint64) (uint32, error) {
	if p.record.MaskFrame == 0 {
		return 0, nil
	}
	length := (size + 7) / 8
	index, code := native.TakeFrame(p.context.index, length)
	if code != 0 {
		return 0, fromNative(code)
	}
	kept := min(size, p.record.Size)
	mask := native.Bytes(native.RecordAt(index).Locator, length)
	copy(mask, native.Bytes(p.record.MaskLocator, (kept+7)/8))
	if kept%8 != 0 {
		mask[kept/8] &= 1<<(kept%8) - 1
	}
	return index, nil
}

// useMask replaces the page's change mask.
func (p *locked) useMask(block uint32) {
	if block == 0 {
		return
	}
	native.DropMask(p.index)
	native.UseMask(p.index, block)
}

// resizeMemory moves the page's bytes into memory of another size; the journal is told when nothing can fail any more.
func (p *locked) resizeMemory(size uint64) error {
	c := p.context
	old := p.record.Size
	if p.place().away() {
		return p.resizeAway(size)
	}
	class := native.Class(p.state)
	if class == native.ClassMapped && (size > native.SmallMax || p.node() >= 0) {
		return p.resizeMapped(roundUp(old), roundUp(size), old, size)
	}
	if class == native.ClassExtent && size > native.SmallMax && size < mappedMin && roundUp(size) == roundUp(old) {
		if err := p.journalResize(size); err != nil {
			return err
		}
		if size > old {
			native.Redzone(p.index, p.state, size)
			clear(native.Bytes(p.record.Locator, size)[old:])
		}
		return nil
	}
	b, err := p.takeLike(size)
	if err != nil {
		return err
	}
	if err = c.copyBytes(p, b, size); err == nil {
		err = p.journalResize(size)
	}
	if err != nil {
		c.give(b)
		return err
	}
	p.swap(b.index)
	native.RecordAt(b.index).Size = blockSize(native.RecordAt(b.index), old)
	native.GiveFrame(c.index, b.index)
	return nil
}

// blockSize is what a block's size field says when it has the memory that a page of a size had.
func blockSize(record *native.Record, size uint64) uint64 {
	if class := native.Class(record.LoadState()); class < native.SmallClasses {
		return native.ClassSize(class)
	}
	return roundUp(size)
}

// swap gives the page the memory of a block, and the block the page's.
func (p *locked) swap(index uint32) {
	p.context.tracking.forget(p.index)
	block := native.RecordAt(index)
	state := block.LoadState()
	native.SwapMemory(p.index, &p.state, index, &state)
	block.StoreState(state)
	p.record.StoreState(p.state | native.OwnerLibrary)
}

// resizeMapped makes a mapping longer or shorter where it is.
func (p *locked) resizeMapped(from, to, old, size uint64) error {
	c, region := p.context, native.LocatorRegion(p.record.Locator)
	c.tracking.forget(p.index)
	if to > from {
		c.memory.Lock()
		err := c.charge(to - from)
		c.memory.Unlock()
		if err != nil {
			return err
		}
		if err := mem.Resize(region, to); err != nil {
			c.ledger.Give(to - from)
			return err
		}
	}
	if err := p.journalResize(size); err != nil {
		if to > from {
			_ = mem.Resize(region, from)
			c.ledger.Give(to - from)
		}
		return err
	}
	if size < old { // the rest of the last system page must be zero when the page grows again
		clear(native.Bytes(p.record.Locator, min(old, to))[size:])
	}
	if to < from {
		if err := mem.Resize(region, to); err != nil { // nothing is lost but memory
			log.Logf(log.Warning, "a mapping of %d bytes cannot be cut to %d: %v", from, to, err)
			return nil
		}
		c.ledger.Give(from - to)
	}
	return nil
}
