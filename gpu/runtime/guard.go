// The adaptor that finds writes past a block and uses after its free.

package runtime

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"

	"libmmsb/core/log"
	"libmmsb/core/status"
	"libmmsb/gpu/driver"
)

// Guard is an adaptor for finding bugs: it puts bytes of a known value (canaries) before and behind blocks, fills blocks with a
// value when they are allocated and another when they are freed, and holds freed ones back for a while (quarantine), so that
// whoever writes past an end or after the free is found. What it finds is in Reports. A free that the driver refuses leaves a
// block with poisoned bytes.
type Guard struct {
	over
	options GuardOptions
	asked   atomic.Uint64

	mutex      sync.Mutex
	blocks     map[Own]*guarded // by Memory.Own: an address may be another block's before the first one's free is done
	quarantine []*guarded
	held       uint64                // bytes in quarantine
	leaving    map[*Stream][]leaving // out of quarantine, their free queued
	slabs      []pinned              // that are cut into slots
	slots      []driver.Address
	reports    []GuardReport
	found      uint64
}

// GuardOptions say what a guard does. NewGuard sets what is 0.
type GuardOptions struct {
	Every      uint64 // every how many-th block is guarded; 1
	Quarantine uint64 // bytes that are held back; 0 = none
}

// The values that memory is filled with, and the bytes of a canary: a block's alignment stays.
const (
	canaryBytes   = 256
	canaryValue   = 0xc5
	freshValue    = 0xaa
	poisonValue   = 0xdd
	mostReports   = 1000
	checkedPoison = 2 * canaryBytes // of a block that leaves quarantine, at its beginning and its end
	slotBytes     = 2*canaryBytes + checkedPoison
	slabSlots     = 64
)

// guardedBlocks numbers the blocks of all guards, so that one guard does not take another one's block for its own.
var guardedBlocks atomic.Uint64

// guarded is a block with canaries.
type guarded struct {
	user, real Memory
	stream     *Stream        // on which it was freed; nil: not yet
	slot       driver.Address // where its canaries are copied to
}

// leaving is a block whose memory went back behind as many frees of its stream.
type leaving struct {
	block *guarded
	after uint64
}

// GuardReport is something that was written where nobody may write.
type GuardReport struct {
	What    string // "before the block", "behind the block", "after the free"
	Address driver.Address
	Bytes   uint64 // of the block
	Tag     Tag
	Offset  int64 // of the first wrong byte, from the block's address
	Found   byte
}

func (r GuardReport) String() string {
	return fmt.Sprintf("the block of %d bytes at 0x%x (%v) was written %s: 0x%02x at offset %d", r.Bytes, uintptr(r.Address),
		r.Tag, r.What, r.Found, r.Offset)
}

// NewGuard makes a guard.
func NewGuard(options GuardOptions) *Guard {
	options.Every = max(1, options.Every)
	return &Guard{options: options, blocks: make(map[Own]*guarded), leaving: make(map[*Stream][]leaving)}
}

// Reports are what was found, the first thousand of them, and how many there were.
func (g *Guard) Reports() (reports []GuardReport, found uint64) {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	return slices.Clone(g.reports), g.found
}

// Allocate implements Layer.
func (g *Guard) Allocate(request Request) (Memory, error) {
	if (g.asked.Add(1)-1)%g.options.Every != 0 {
		return g.below.Allocate(request)
	}
	user := request.Bytes
	if user > 1<<62 {
		return Memory{}, status.Errorf(status.OutOfMemory, "%d bytes and two canaries of %d bytes are more than can be addressed",
			user, canaryBytes)
	}
	slot, err := g.takeSlot() // now, so that the free needs none
	if err != nil {
		return Memory{}, err
	}
	request.Bytes += 2 * canaryBytes
	real, err := g.below.Allocate(request)
	if err != nil {
		g.giveSlot(slot)
		return Memory{}, err
	}
	block := &guarded{real: real, slot: slot, user: Memory{Address: real.Address + canaryBytes, Bytes: user, Tag: real.Tag,
		Own: Own{guardedBlocks.Add(1), 0}}}
	native, device := request.Stream.native, g.device()
	err = device.Fill(native, real.Address, canaryValue, canaryBytes)
	if err == nil {
		err = device.Fill(native, block.user.Address, freshValue, user)
	}
	if err == nil {
		err = device.Fill(native, block.user.Address+driver.Address(user), canaryValue, canaryBytes)
	}
	if err != nil {
		g.undo(real, request.Stream)
		g.giveSlot(slot)
		return Memory{}, err
	}
	g.mutex.Lock()
	g.blocks[block.user.Own] = block
	g.mutex.Unlock()
	return block.user, nil
}

// undo gives back memory that was never used. A device that is lost has come past everything.
func (g *Guard) undo(real Memory, stream *Stream) {
	err := g.below.Free(real, stream)
	if err == nil {
		err = g.device().SynchronizeStream(stream.native)
	}
	if err == nil || status.CodeOf(err) == status.DeviceLost {
		g.below.Released(real)
	}
}

// Free implements Layer.
func (g *Guard) Free(memory Memory, stream *Stream) error {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	block := g.blocks[memory.Own]
	if block == nil {
		return g.below.Free(memory, stream)
	}
	device, at, slot := g.device(), block.user.Address, block.slot
	err := device.Copy(stream.native, driver.Copy{To: slot, From: block.real.Address, Bytes: canaryBytes},
		driver.Copy{To: slot + canaryBytes, From: at + driver.Address(block.user.Bytes), Bytes: canaryBytes})
	if err == nil {
		err = device.Fill(stream.native, block.real.Address, poisonValue, block.real.Bytes)
	}
	if err == nil && g.options.Quarantine == 0 {
		err = g.below.Free(block.real, stream)
	}
	if err == nil {
		block.stream = stream
	}
	return err
}

// takeSlot is pinned memory for the canaries of one block. No lock is held while more is taken. Errors: those of takePinned.
func (g *Guard) takeSlot() (driver.Address, error) {
	for {
		g.mutex.Lock()
		if last := len(g.slots) - 1; last >= 0 {
			defer g.mutex.Unlock()
			slot := g.slots[last]
			g.slots = g.slots[:last]
			return slot, nil
		}
		g.mutex.Unlock()
		slab, err := takePinned(g.device(), slabSlots*slotBytes)
		if err != nil {
			return 0, err
		}
		g.mutex.Lock()
		g.slabs = append(g.slabs, slab)
		for i := range driver.Address(slabSlots) {
			g.slots = append(g.slots, slab.address+i*slotBytes)
		}
		g.mutex.Unlock()
	}
}

func (g *Guard) giveSlot(slot driver.Address) {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	g.slots = append(g.slots, slot)
}

// Released implements Layer: the canaries have come by now.
func (g *Guard) Released(memory Memory) {
	g.mutex.Lock()
	block := g.blocks[memory.Own]
	if block == nil {
		g.mutex.Unlock()
		g.below.Released(memory)
		return
	}
	delete(g.blocks, memory.Own)
	if block.stream == nil { // the device was lost before the free
		g.slots = append(g.slots, block.slot)
		g.mutex.Unlock()
		g.below.Released(block.real)
		return
	}
	seen := pinnedBytes(block.slot, 2*canaryBytes)
	g.check(block, "before the block", seen[:canaryBytes], canaryValue, -canaryBytes)
	g.check(block, "behind the block", seen[canaryBytes:], canaryValue, int64(block.user.Bytes))
	if g.options.Quarantine == 0 {
		g.slots = append(g.slots, block.slot)
		g.mutex.Unlock()
		g.below.Released(block.real)
		return
	}
	g.quarantine = append(g.quarantine, block)
	g.held += block.real.Bytes
	gone := g.passed(block.stream)
	for g.held > g.options.Quarantine && g.release() == nil {
	}
	g.mutex.Unlock()
	for _, real := range gone {
		g.below.Released(real)
	}
}

// release queues the free of the block that is longest in quarantine, behind copies of its ends: the poison must still be there.
// Where the driver refuses it stays.
func (g *Guard) release() error {
	block := g.quarantine[0]
	device := g.device()
	length := min(block.user.Bytes, canaryBytes)
	err := device.Copy(block.stream.native, driver.Copy{To: block.slot + 2*canaryBytes, From: block.user.Address, Bytes: length},
		driver.Copy{To: block.slot + 3*canaryBytes, From: block.user.Address + driver.Address(block.user.Bytes-length),
			Bytes: length})
	if err == nil {
		err = g.below.Free(block.real, block.stream)
	}
	if err != nil && !g.host.Lost() {
		log.Logf(log.Warning, "block of %d bytes stays in quarantine: %v", block.user.Bytes, err)
		return err
	}
	g.held -= block.real.Bytes
	g.quarantine = g.quarantine[1:]
	g.leaving[block.stream] = append(g.leaving[block.stream], leaving{block, block.stream.queued.Load()})
	return nil
}

// passed are the blocks whose memory the device is known to have come past: something behind them on their stream was released.
func (g *Guard) passed(stream *Stream) (gone []Memory) {
	completed := stream.completed.Load()
	list := g.leaving[stream]
	for len(list) > 0 && list[0].after < completed {
		gone = append(gone, g.gone(list[0].block))
		list = list[1:]
	}
	g.leaving[stream] = list
	return gone
}

// gone checks the poison of a block that has left.
func (g *Guard) gone(block *guarded) Memory {
	length := int(min(block.user.Bytes, canaryBytes))
	seen := pinnedBytes(block.slot, slotBytes)
	g.check(block, "after the free", seen[2*canaryBytes:][:length], poisonValue, 0)
	again := 2*length - min(2*length, int(block.user.Bytes)) // bytes of the end that are of the beginning, too
	g.check(block, "after the free", seen[3*canaryBytes:][again:length], poisonValue, int64(block.user.Bytes)-int64(length-again))
	g.slots = append(g.slots, block.slot)
	return block.real
}

func (g *Guard) check(block *guarded, what string, seen []byte, want byte, offset int64) {
	if g.host.Lost() { // then nobody knows whether the bytes ever came
		return
	}
	for i, found := range seen {
		if found == want {
			continue
		}
		report := GuardReport{What: what, Address: block.user.Address, Bytes: block.user.Bytes, Tag: block.user.Tag,
			Offset: offset + int64(i), Found: found}
		if g.found++; len(g.reports) < mostReports {
			g.reports = append(g.reports, report)
		}
		log.Logf(log.Error, "%v", report)
		return
	}
}

// pinnedBytes are those at an address of pinned memory, which is no memory of Go's.
func pinnedBytes(address driver.Address, length int) []byte {
	return unsafe.Slice((*byte)(*(*unsafe.Pointer)(unsafe.Pointer(&address))), length)
}

// Close implements Layer.
func (g *Guard) Close() error {
	g.mutex.Lock()
	var err error
	for failures := 0; len(g.quarantine) > 0 && failures < 2; {
		if err = g.release(); err != nil {
			failures++
		}
	}
	err = cmp.Or(err, g.device().Synchronize())
	var gone []Memory
	for stream, list := range g.leaving {
		for _, l := range list {
			gone = append(gone, g.gone(l.block))
		}
		delete(g.leaving, stream)
	}
	for _, slab := range g.slabs {
		err = cmp.Or(err, slab.give(g.device(), g.host.Lost()))
	}
	g.slabs, g.slots = nil, nil
	g.mutex.Unlock()
	for _, real := range gone {
		g.below.Released(real)
	}
	return cmp.Or(err, g.below.Close())
}
