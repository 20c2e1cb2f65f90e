// Allocation of addresses, used again last in, first out.

package sim

import (
	"iter"
	"math/bits"
	"sync"
	"sync/atomic"

	"libmmsb/core/alloc"
	"libmmsb/core/invariant"
	"libmmsb/core/status"
	"libmmsb/gpu/driver"
)

const (
	// unit is what sizes are rounded up to, and the least alignment.
	unit = 256
	// largestSmall is the largest block that shares a frame with others.
	largestSmall = frameBytes / 4
	smallSizes   = 7 // 256 bytes to 16 KiB, in powers of two

	// granularity is that of memory that is mapped by hand.
	granularity = 2 << 20

	// probes is how many blocks that wait for their stream are passed over before memory that was never used is taken.
	probes = 16
)

// state is where a block is in its life.
type state uint8

const (
	vacant state = iota // free; not counted as used
	live
	pooled   // freed in the order of a stream; counted until it is used again or trimmed
	reserved // addresses without memory
)

// block is a part of addresses that belongs together. A freed one keeps its record, its place in a list and its history until
// it is used again: addresses are used again last in, first out, so that what touches them too late is found.
type block struct {
	address driver.Address
	slot    uint64 // bytes of addresses
	arena   *arena

	// Under the arena's lock.
	state   state
	ordered bool   // it came from AllocateOrdered
	bytes   uint64 // as asked for
	charge  uint64 // counted as used
	freedAt point  // of a pooled block
	older   *block // in the list of free blocks

	owner       *device // who took it
	kind        driver.Memory
	physical    *physical    // what is mapped here by hand
	peers       bool         // kernels of other devices reach that, too
	reservation *reservation // where it is mapped
	history     *history     // nil where order is not checked
	hints       []Hints      // of managed memory; nil: nothing was said
}

// frame is what the directory knows of frameBytes of addresses: a block that covers them, alone or with other frames, or small
// blocks of one size.
type frame struct {
	address driver.Address
	shift   uint // of the size of a small block; 63 for a large one
	blocks  []atomic.Pointer[block]
	used    int // small blocks that were ever used
}

// freeList is the free blocks of one size, the last freed one first.
type freeList struct{ youngest *block }

func (l *freeList) each(do func(b *block)) {
	for b := l.youngest; b != nil; b = b.older {
		do(b)
	}
}

// section is the frames of 256 MiB of addresses. What nobody used has none: an arena has many times as many addresses as memory.
type section [sectionFrames]atomic.Pointer[frame]

const sectionFrames = 4096

// arena divides a part of the window into blocks. It has none before the first block: a program has more devices than it uses.
type arena struct {
	limit  uint64 // of memory
	device *device
	half   int // of the window

	opened    atomic.Bool // it has what follows
	base      driver.Address
	bytes     uint64 // of addresses
	most      uint64 // bytes of addresses that may be reserved
	directory []atomic.Pointer[section]
	extents   *alloc.Extents // of frames; under the lock

	bare atomic.Pointer[[]*block] // reserved, found where the directory has no frame
	used atomic.Uint64            // bytes of memory

	mutex   sync.Mutex
	turn    invariant.Turn // of walks over everything
	partial [smallSizes]*frame
	small   [smallSizes]freeList
	large   map[uint64]*freeList // by number of frames

	reservations map[driver.Address]*reservation
	reserved     uint64 // bytes of them
}

// newArena makes an arena of so many bytes of memory; without a device, of the host.
func newArena(device *device, half int, limit uint64) *arena {
	return &arena{
		limit: limit, device: device, half: half, large: map[uint64]*freeList{}, reservations: map[driver.Address]*reservation{},
	}
}

// open takes the arena's addresses, if it has none yet: many times its memory, for blocks in all sizes, and, as a GPU has, for a
// pool with all of its partitions and others beside it. Where the window has less they are fewer, but on a device those of all
// memory, with and without an address of its own, and of a pool's first partition, which has four times the memory. The lock is
// held.
func (a *arena) open() error {
	if a.opened.Load() {
		return nil
	}
	const spare = 128 << 20                            // for the frames of small blocks, and what does not fill its own
	blocks, least := 8*a.limit, min(2*a.limit, 16<<30) // the host has more memory than programs pin
	var reserve uint64
	if a.device != nil { // nobody reserves addresses of the host
		reserve, least = max(min(128*a.limit, 2<<40), 4*a.limit), 6*a.limit
	}
	var err error
	if a.base, a.bytes, err = theWindow.take(a.half, least+spare, blocks+spare+reserve); err != nil {
		return err
	}
	if reserve > 0 {
		a.most = a.bytes - spare - min(blocks, (a.bytes-spare)/3)
	}
	a.extents = alloc.NewExtents(a.bytes / frameBytes)
	a.directory = make([]atomic.Pointer[section], (a.bytes/frameBytes+sectionFrames-1)/sectionFrames)
	a.opened.Store(true)
	return nil
}

// has says whether an address is one of the arena's.
func (a *arena) has(address driver.Address) bool {
	return a.opened.Load() && uint64(address-a.base) < a.bytes
}

// end gives the addresses back. Where something is still mapped by hand, they lead to their own bytes again; addresses for which
// that fails are never used again.
func (a *arena) end() {
	if !a.opened.Load() {
		return
	}
	for _, r := range a.reservations {
		if r.mapped > 0 {
			if err := theWindow.alias(r.block.address, r.block.address, r.block.bytes); err != nil {
				return
			}
		}
	}
	theWindow.give(a.base, a.bytes)
}

// find is the block at an address, in whatever state it is; nil where there never was one.
func (a *arena) find(address driver.Address) *block {
	if !a.has(address) {
		return nil
	}
	if f := a.frameAt(uint64(address-a.base) / frameBytes); f != nil {
		return f.blocks[uint64(address-f.address)>>f.shift].Load()
	}
	return a.bareAt(address)
}

// frameAt is the frame of a number; nil where there is none.
func (a *arena) frameAt(number uint64) *frame {
	if s := a.directory[number/sectionFrames].Load(); s != nil {
		return s[number%sectionFrames].Load()
	}
	return nil
}

// frames are those that there are, by number.
func (a *arena) frames() iter.Seq2[uint64, *frame] {
	return func(yield func(number uint64, f *frame) bool) {
		for i := range a.directory {
			s := a.directory[i].Load()
			for j := 0; s != nil && j < sectionFrames; j++ {
				if f := s[j].Load(); f != nil && !yield(uint64(i)*sectionFrames+uint64(j), f) {
					return
				}
			}
		}
	}
}

// setFrame puts a frame, or nil, at a number. The lock is held.
func (a *arena) setFrame(number uint64, f *frame) {
	s := a.directory[number/sectionFrames].Load()
	if s == nil {
		s = new(section)
		a.directory[number/sectionFrames].Store(s)
	}
	s[number%sectionFrames].Store(f)
}

// bareAt is the reserved block that has an address where nothing is mapped.
func (a *arena) bareAt(address driver.Address) *block {
	if list := a.bare.Load(); list != nil {
		for _, b := range *list {
			if address >= b.address && uint64(address-b.address) < b.slot {
				return b
			}
		}
	}
	return nil
}

// changeBare publishes the reserved blocks. The lock is held.
func (a *arena) changeBare() {
	list := make([]*block, 0, len(a.reservations))
	for _, r := range a.reservations {
		list = append(list, r.block)
	}
	a.bare.Store(&list)
}

// smallSize is the number of the small size that holds bytes.
func smallSize(bytes uint64) int { return bits.Len64((bytes - 1) / unit) }

// allocate takes a block for a stream: one that was freed and whose free is before what the stream does next, the youngest first,
// else one of addresses that were not used yet. ready says whether a pooled block may be used again now; the lock is held.
func (a *arena) allocate(bytes uint64, ready func(b *block) bool) (*block, error) {
	if bytes == 0 {
		return nil, status.Errorf(status.InvalidArgument, "size is 0, at least 1 byte is needed")
	}
	charge := (bytes + unit - 1) &^ (unit - 1)
	if charge < bytes || charge > a.limit {
		return nil, a.full(bytes)
	}
	for attempt := 0; ; attempt++ {
		if b := a.reuse(bytes, charge, ready); b != nil {
			return b, nil
		}
		if a.limit-a.used.Load() >= charge {
			b, err := a.fresh(bytes)
			if err == nil {
				a.begin(b, bytes, charge)
			}
			return b, err
		}
		// Memory that waits to be used again is given back before anyone is refused.
		if attempt > 0 || a.trim(0) == 0 {
			return nil, a.full(bytes)
		}
	}
}

func (a *arena) full(bytes uint64) error {
	used := a.used.Load()
	return status.Errorf(status.OutOfMemory, "%d bytes exceed memory of %s: %d of %d in use", bytes, a.name(), used, a.limit)
}

func (a *arena) name() string {
	if a.device == nil {
		return "simulated host memory"
	}
	return a.device.info.Name
}

// list is the list of free blocks of a size.
func (a *arena) list(bytes uint64) *freeList {
	if bytes <= largestSmall {
		return &a.small[smallSize(bytes)]
	}
	frames := (bytes + frameBytes - 1) / frameBytes
	list := a.large[frames]
	if list == nil {
		list = &freeList{}
		a.large[frames] = list
	}
	return list
}

func (a *arena) reuse(bytes, charge uint64, ready func(b *block) bool) *block {
	list := a.list(bytes)
	passed := 0
	for place := &list.youngest; *place != nil && passed < probes; place = &(*place).older {
		b := *place
		if b.state == pooled && !ready(b) {
			passed++
			continue
		}
		// A vacant block's charge is 0.
		if a.limit-(a.used.Load()-b.charge) < charge {
			return nil
		}
		*place = b.older
		a.used.Add(-b.charge)
		a.begin(b, bytes, charge)
		return b
	}
	return nil
}

func (a *arena) begin(b *block, bytes, charge uint64) {
	used := a.used.Add(charge)
	if invariant.Enabled {
		end := b.address + driver.Address(bytes-1)
		invariant.Assert(b.state != live && a.find(b.address) == b && a.find(end) == b,
			"block of %d bytes at 0x%x is in state %d, its addresses lead to other blocks", bytes, uint64(b.address), b.state)
		invariant.Assert(used <= a.limit, "%d bytes of %s are used, the limit is %d", used, a.name(), a.limit)
		defer a.changed()
	}
	b.state, b.bytes, b.charge, b.older, b.freedAt, b.ordered, b.hints = live, bytes, charge, nil, point{}, false, nil
}

// fresh is a vacant block of addresses that were not used yet.
func (a *arena) fresh(bytes uint64) (*block, error) {
	if bytes > largestSmall {
		b, err := a.freshFrames((bytes+frameBytes-1)/frameBytes, 1)
		if err == nil {
			a.enter(b)
		}
		return b, err
	}
	size := smallSize(bytes)
	slot := uint64(unit) << size
	f := a.partial[size]
	if f == nil || f.used == len(f.blocks) {
		at, err := a.addresses(1, 1)
		if err != nil {
			return nil, err
		}
		f = &frame{address: at, shift: uint(bits.TrailingZeros64(slot)), blocks: make([]atomic.Pointer[block], frameBytes/slot)}
		a.setFrame(uint64(at-a.base)/frameBytes, f)
		a.partial[size] = f
	}
	b := &block{address: f.address + driver.Address(uint64(f.used)*slot), slot: slot, arena: a}
	f.blocks[f.used].Store(b)
	f.used++
	return b, nil
}

// freshFrames is a block of whole frames, which find does not find.
func (a *arena) freshFrames(frames, alignment uint64) (*block, error) {
	at, err := a.addresses(frames, alignment)
	if err != nil {
		return nil, err
	}
	return &block{address: at, slot: frames * frameBytes, arena: a}, nil
}

// enter makes find find a block of whole frames.
func (a *arena) enter(b *block) {
	f := &frame{address: b.address, shift: 63, blocks: make([]atomic.Pointer[block], 1)}
	f.blocks[0].Store(b)
	a.fill(b, f)
}

// leave makes the addresses of a block of whole frames unknown, or bare where they are reserved.
func (a *arena) leave(b *block) { a.fill(b, nil) }

func (a *arena) fill(b *block, f *frame) {
	first := uint64(b.address-a.base) / frameBytes
	for i := range b.slot / frameBytes {
		a.setFrame(first+i, f)
	}
}

func (a *arena) addresses(frames, alignment uint64) (driver.Address, error) {
	if err := a.open(); err != nil {
		return 0, err
	}
	at, ok := a.extents.Allocate(frames, alignment)
	if !ok {
		a.forgetVacant()
		if at, ok = a.extents.Allocate(frames, alignment); !ok {
			return 0, status.Errorf(status.OutOfMemory, "%d contiguous bytes exceed the largest free range of %s, %d",
				frames*frameBytes, a.name(), a.extents.Largest()*frameBytes)
		}
	}
	return a.base + driver.Address(at*frameBytes), nil
}

// release gives up the addresses of whole frames, which find does not find any more.
func (a *arena) release(b *block) {
	if err := a.extents.Free(uint64(b.address-a.base)/frameBytes, b.slot/frameBytes); err != nil {
		panic(err)
	}
}

// forgetVacant gives the addresses of large free blocks up, so that they can be used in other sizes.
func (a *arena) forgetVacant() {
	for _, list := range a.large {
		for place := &list.youngest; *place != nil; {
			if b := *place; b.state == vacant {
				*place = b.older
				a.leave(b)
				a.release(b)
			} else {
				place = &b.older
			}
		}
	}
}

// free puts a live block into its list: pooled if it was freed in the order of a stream, at a point of it, else vacant.
func (a *arena) free(b *block, to state, at point) {
	b.freedAt = at
	if b.state = to; to == vacant {
		a.vacate(b)
	}
	list := a.list(b.bytes)
	b.older, list.youngest = list.youngest, b
}

// vacate stops counting a block and gives a large one's bytes back to the system.
func (a *arena) vacate(b *block) {
	a.used.Add(-b.charge)
	b.state, b.charge, b.freedAt = vacant, 0, point{}
	if b.slot > frameBytes {
		theWindow.discard(b.address, b.slot)
	}
}

// trim makes pooled blocks vacant whose free is done, until no more than keep bytes are pooled; it returns the bytes.
func (a *arena) trim(keep uint64) (freed uint64) {
	var all uint64
	a.eachFree(func(b *block) {
		if b.state == pooled {
			all += b.charge
		}
	})
	a.eachFree(func(b *block) {
		if b.state == pooled && all-freed > keep && b.freedAt.done() {
			freed += b.charge
			a.vacate(b)
		}
	})
	return freed
}

func (a *arena) eachFree(do func(b *block)) {
	for i := range a.small {
		a.small[i].each(do)
	}
	for _, list := range a.large {
		list.each(do)
	}
}
