// Blocks: their handles, their life, and the uses that are open on them.

package runtime

import (
	"slices"
	"sync"
	"sync/atomic"

	"libmmsb/core/abi"
	"libmmsb/core/invariant"
	"libmmsb/core/status"
	"libmmsb/gpu/blocks"
	"libmmsb/gpu/driver"
)

// block is a block of device memory. Its slot is used again, with another generation. What callers hold is a handle only: what a
// block is cannot be forged.
//
// C may free a block whose record is Live, and allocate it again, without the mutex. Who needs the block in Go locks it, by which
// it becomes Held; when its last use has ended, and all of its work was on its own stream, it is Live again.
type block struct {
	mutex sync.Mutex
	// idle is the block's handle where Await has found nothing to wait for, and nobody has locked the block since.
	idle   atomic.Uint64
	record *blocks.Record
	index  uint32

	own    Own     // the layers' words of its memory
	freer  int32   // the system's thread that freed it, for the log; 0 = not told
	stream *Stream // on which it was allocated, and is freed unless the caller names another
	freeOn *Stream // while Ending

	owners  uint32 // the last one's FreeOwned ends it, and the program cannot; 0 = it is the program's: owned.go
	wrapped bool   // its memory is not the runtime's

	// The order of its uses. The last write comes first with the allocation, which is one.
	write point
	reads []point // behind the last write, the last one of each stream
	open  []openUses
	lent  uint32 // how often other libraries have it: lent.go
}

// taken says that somebody may queue work on the block. The mutex is held.
func (b *block) taken() bool { return len(b.open) > 0 || b.lent > 0 }

// openUses are uses of one stream that were begun and not ended.
type openUses struct {
	stream        *Stream
	reads, writes uint32
}

const (
	blockChunkBits = 10
	blockChunk     = 1 << blockChunkBits
	mostBlocks     = 1 << 28
	indexMask      = mostBlocks - 1
	lastGeneration = 1<<32 - 1
)

// blockTable are all blocks of the process. Records lie in chunks that stay.
type blockTable struct {
	chunks [mostBlocks / blockChunk]atomic.Pointer[[blockChunk]block]
	mutex  sync.Mutex
	made   uint32   // slots that were ever used; slot 0 is not
	free   []uint32 // slots that no stream keeps
}

var allBlocks blockTable

// slotBatch is how many slots a stream takes and gives back at once.
const slotBatch = 64

// take is a free record and the handle of its next use. Slots go from stream to stream in batches.
func (t *blockTable) take(s *Stream) (*block, uint64, error) {
	q := &s.frees
	q.mutex.Lock()
	defer q.mutex.Unlock()
	if len(q.slots) == 0 {
		if err := t.fill(q); err != nil {
			return nil, 0, err
		}
	}
	last := len(q.slots) - 1
	index := q.slots[last]
	q.slots = q.slots[:last]
	b := t.at(index)
	return b, b.handle(b.generation() + 1), nil
}

// some are free records, up to so many; fewer where there are no more.
func (t *blockTable) some(s *Stream, most int) []uint32 {
	q := &s.frees
	q.mutex.Lock()
	defer q.mutex.Unlock()
	for len(q.slots) < most && t.fill(q) == nil {
	}
	first := max(0, len(q.slots)-most)
	indices := slices.Clone(q.slots[first:])
	q.slots = q.slots[:first]
	return indices
}

func (t *blockTable) fill(q *freeQueue) error {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	if n := min(slotBatch, len(t.free)); n > 0 {
		q.slots = append(q.slots, t.free[len(t.free)-n:]...)
		t.free = t.free[:len(t.free)-n]
		return nil
	}
	for range slotBatch {
		if t.made == mostBlocks-1 {
			break
		}
		index := t.made + 1
		if err := t.make(index >> blockChunkBits); err != nil {
			if len(q.slots) > 0 {
				break
			}
			return noRecords(err)
		}
		t.made = index
		q.slots = append(q.slots, index)
	}
	if len(q.slots) == 0 {
		return status.Errorf(status.Limit, "all %d blocks are in use", mostBlocks-1)
	}
	return nil
}

// make makes a chunk, where there is none. Handles of slots that were never used find records in it, which are free.
func (t *blockTable) make(number uint32) error {
	if t.chunks[number].Load() != nil {
		return nil
	}
	first := number << blockChunkBits
	if err := blocks.MakeRecord(first); err != nil { // one mapping has those of whole chunks
		return err
	}
	chunk := new([blockChunk]block)
	for i := range chunk {
		chunk[i].index = first + uint32(i)
		chunk[i].record = blocks.At(chunk[i].index)
	}
	t.chunks[number].Store(chunk)
	return nil
}

func (t *blockTable) at(index uint32) *block {
	return &t.chunks[index>>blockChunkBits].Load()[index&(blockChunk-1)]
}

// find is the record of a handle, which may be stale: locked tells.
func (t *blockTable) find(handle uint64) (*block, error) {
	index := uint32(handle & indexMask)
	if handle>>60 != abi.KindBlock || index == 0 {
		return nil, status.Errorf(status.InvalidHandle, "0x%016x is not a block", handle)
	}
	chunk := t.chunks[index>>blockChunkBits].Load()
	if chunk == nil {
		return nil, status.Errorf(status.InvalidHandle, "block 0x%016x was never issued: slot %d does not exist", handle, index)
	}
	return &chunk[index&(blockChunk-1)], nil
}

// locked is the live block of a handle, locked. Errors: InvalidHandle, StaleHandle.
func (t *blockTable) locked(handle uint64) (*block, error) {
	b, err := t.find(handle)
	if err != nil {
		return nil, err
	}
	b.mutex.Lock()
	b.idle.Store(0)
	if b.hold(uint32(handle >> 28)) {
		return b, nil
	}
	defer b.mutex.Unlock()
	return nil, b.gone(handle)
}

// gone says that a handle is not that of the block which lives in its slot.
func (b *block) gone(handle uint64) error {
	if generation := uint32(handle >> 28); generation == 0 || generation > b.generation() {
		return status.Errorf(status.InvalidHandle, "block 0x%016x was never issued: its slot has no generation %d", handle,
			generation)
	}
	return status.Errorf(status.StaleHandle, "block 0x%016x was freed", handle)
}

// know makes what Go has of a block that C has cut off a span: its record says all of it. The mutex is held.
func (b *block) know() {
	if b.stream == nil && b.what() != blocks.Free {
		b.stream = streamOf(b.record.Stream)
		b.own = Own{b.record.Own, b.record.Units}
	}
}

// hold takes the live block of a generation from C. The mutex is held. false: there is none any more.
func (b *block) hold(generation uint32) bool {
	b.know()
	if b.record.State.CompareAndSwap(blocks.State(generation, blocks.Live), blocks.State(generation, blocks.Held)) {
		if p := (point{b.stream, b.record.Point}); b.write != p { // C has given it out anew
			b.write, b.reads = p, b.reads[:0]
		}
		return true
	}
	return b.record.State.Load() == blocks.State(generation, blocks.Held)
}

// letGo gives the block back to C where no use of it is open and all of its work was on its own stream. The mutex is held.
func (b *block) letGo() {
	if b.record.Stream == nil || b.taken() || b.write.stream != b.stream {
		return
	}
	for _, read := range b.reads {
		if read.stream != b.stream {
			return
		}
	}
	b.record.Point = b.write.number
	b.set(blocks.Live)
}

func (b *block) generation() uint32 {
	generation, _ := blocks.Parts(b.record.State.Load())
	return generation
}

// what is what the record says of the block: one of the constants of package blocks.
func (b *block) what() uint32 {
	_, what := blocks.Parts(b.record.State.Load())
	return what
}

// set changes what the record says, where nobody else may.
func (b *block) set(what uint32) {
	b.idle.Store(0)
	b.record.State.Store(blocks.State(b.generation(), what))
}

// memory is the block's, as the layers know it. The mutex is held, and the block is not C's.
func (b *block) memory() Memory {
	r := b.record
	return Memory{Address: driver.Address(r.Address), Bytes: r.Bytes, Tag: Tag(r.Tag), Own: b.own, Freer: b.freer}
}

// each walks the live blocks.
func (t *blockTable) each(yield func(info BlockInfo)) {
	t.all(func(b *block) {
		if info, live := b.info(); live {
			yield(info)
		}
	})
}

// all walks the blocks that are not free.
func (t *blockTable) all(yield func(b *block)) {
	t.mutex.Lock()
	made := t.made
	t.mutex.Unlock()
	for index := uint32(1); index <= made; index++ {
		b := t.at(index)
		if b.what() == blocks.Free { // most, once many blocks lived at a time
			continue
		}
		b.mutex.Lock()
		if b.what() != blocks.Free { // it may have ended meanwhile; with the mutex held it does not
			b.know()
			yield(b)
		}
		b.mutex.Unlock()
	}
}

func (b *block) handle(generation uint32) uint64 {
	return abi.KindBlock<<60 | uint64(generation)<<28 | uint64(b.index)
}

// current is the handle of the block that is, or was last, in the slot.
func (b *block) current() uint64 { return b.handle(b.generation()) }

// begin makes the record that of a live block.
func (b *block) begin(memory Memory, stream *Stream, owned bool) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	b.start(memory, stream, owned)
	b.write = stream.next() // whoever uses it on another stream waits for the allocation
	if !owned {
		b.record.Stream, b.record.Units = stream.class(memory)
	}
	b.letGo()
}

// start makes the record that of a block which is Held, and which C never frees. The mutex is held.
func (b *block) start(memory Memory, stream *Stream, owned bool) {
	if invariant.Enabled {
		invariant.Assert(b.what() == blocks.Free && !b.taken() && b.generation() < lastGeneration,
			"slot %d of a new block has state %d, %d streams with open uses and generation %d", b.index, b.what(), len(b.open),
			b.generation())
	}
	b.own, b.freer, b.stream, b.owners = memory.Own, 0, stream, 0
	if owned {
		b.owners = 1
	}
	b.write, b.reads = point{}, b.reads[:0]
	r := b.record
	r.Address, r.Bytes, r.Tag = uint64(memory.Address), memory.Bytes, uint32(memory.Tag)
	r.Stream, r.Units = nil, 0
	r.Own = memory.Own[0]
	r.State.Store(blocks.State(b.generation()+1, blocks.Held))
}

// BlockInfo is what is known of a block.
type BlockInfo struct {
	Handle  uint64
	Address driver.Address
	Bytes   uint64
	Stream  *Stream
	Tag     Tag
	Uses    uint32 // begun, not ended; and how often other libraries have it
	Asleep  bool   // its tag sleeps
	Wrapped bool   // its memory is not the runtime's
}

// info is what is known of the block that lives in the slot. The mutex is held; C may go on meanwhile.
func (b *block) info() (i BlockInfo, live bool) {
	for {
		state := b.record.State.Load()
		generation, what := blocks.Parts(state)
		if what != blocks.Live && what != blocks.Held {
			return BlockInfo{}, false
		}
		b.know()
		memory := b.memory()
		if b.record.State.Load() != state {
			continue // C has freed it, and the fields may be those of the next one
		}
		i = BlockInfo{Handle: b.handle(generation), Address: memory.Address, Bytes: memory.Bytes, Stream: b.stream,
			Tag: memory.Tag, Asleep: b.stream.runtime.pool.asleep(b), Wrapped: b.wrapped}
		for _, open := range b.open {
			i.Uses += open.reads + open.writes
		}
		i.Uses += b.lent
		return i, true
	}
}

// FindBlock is what is known of a live block. Errors: InvalidHandle, StaleHandle.
func FindBlock(handle uint64) (BlockInfo, error) {
	b, err := allBlocks.find(handle)
	if err != nil {
		return BlockInfo{}, err
	}
	b.mutex.Lock()
	defer b.mutex.Unlock()
	info, live := b.info()
	if !live || info.Handle != handle {
		return BlockInfo{}, b.gone(handle)
	}
	return info, nil
}

// LiveBlocks is the number of live blocks of the process.
func LiveBlocks() (live uint64) {
	allBlocks.each(func(BlockInfo) { live++ })
	return live
}

// Access is what a use does with a block.
type Access uint8

// The kinds of access. ReadWrite is Read | Write.
const (
	Read      Access = abi.AccessRead
	Write     Access = abi.AccessWrite
	ReadWrite Access = abi.AccessReadWrite
)

// beginUse queues the waits that an access on a stream of the block's device needs, and pins the block. The block is locked.
// Errors: Busy where a use of another stream that conflicts is begun and not ended: what it will queue cannot be waited for yet.
func (b *block) beginUse(s *Stream, access Access) error {
	r := b.stream.runtime
	if s.runtime.device != r.device {
		return status.Errorf(status.InvalidArgument,
			"block 0x%016x is of device %d, the stream of another device, whose number is %d", b.current(),
			r.device.Info().Ordinal, s.runtime.device.Info().Ordinal)
	}
	if s.runtime != r {
		if err := r.enter(); err != nil {
			return err
		}
		defer r.leave()
	}
	for _, open := range b.open {
		if open.stream != s && (open.writes > 0 || access&Write != 0) {
			return status.Errorf(status.Busy, "block 0x%016x is in use on stream %d: %d reads and %d writes have not ended",
				b.current(), open.stream.index, open.reads, open.writes)
		}
	}
	if err := r.pool.usable(b); err != nil {
		return err
	}
	if err := s.waitFor(b.write); err != nil {
		return err
	}
	if access&Write != 0 {
		if err := b.waitForReads(s); err != nil {
			return err
		}
	}
	b.count(s, access, 1)
	return nil
}

func (b *block) waitForReads(s *Stream) error {
	for _, read := range b.reads {
		if err := s.waitFor(read); err != nil {
			return err
		}
	}
	return nil
}

// count notes that uses of a stream begin or end.
func (b *block) count(s *Stream, access Access, by int32) {
	at := slices.IndexFunc(b.open, func(o openUses) bool { return o.stream == s })
	if at < 0 {
		at = len(b.open)
		b.open = append(b.open, openUses{stream: s})
	}
	open := &b.open[at]
	if invariant.Enabled {
		has := open.reads
		if access&Write != 0 {
			has = open.writes
		}
		invariant.Assert(by > 0 || has > 0, "block 0x%016x: a use of kind %d ends on stream %d, %d reads and %d writes are open",
			b.current(), access, s.index, open.reads, open.writes)
	}
	if access&Write != 0 {
		open.writes += uint32(by)
	} else {
		open.reads += uint32(by)
	}
	if open.reads+open.writes == 0 {
		last := len(b.open) - 1
		b.open[at] = b.open[last]
		b.open = b.open[:last]
	}
}

// endUse notes the work that was queued. The block is locked, and the use was begun.
func (b *block) endUse(s *Stream, access Access) {
	b.count(s, access, -1)
	p := s.next()
	switch {
	case access&Write != 0:
		// Reads of other streams are behind the wait of the use's begin: none could begin since. Those of this stream are before
		// p.
		b.write = p
		b.reads = b.reads[:0]
	default:
		b.noteRead(p)
	}
}

// noteRead notes the last read of a stream. Those that the device has come past are forgotten, else streams of runtimes that come
// and go would add up.
func (b *block) noteRead(p point) {
	for i := range b.reads {
		if b.reads[i].stream == p.stream {
			b.reads[i] = p
			return
		}
	}
	b.reads = append(slices.DeleteFunc(b.reads, point.passed), p)
}

// withdraw takes back a begin whose work was never queued.
func (b *block) withdraw(s *Stream, access Access) { b.count(s, access, -1) }

// Free ends a block: its handle is stale from then on. Its memory goes back in the order of a stream, the block's own where none
// is named, behind all uses of the block; never does the host wait for the device. While uses are open the free is deferred until
// the last of them ends. Errors: InvalidHandle, StaleHandle (also a second free), InvalidArgument (a stream of another runtime),
// and those of the driver: then the block is as before, and can be freed again.
func Free(handle uint64, on *Stream) (deferred bool, err error) { return FreeFrom(handle, on, 0) }

// FreeFrom is Free, where the caller knows the system's thread for the log.
func FreeFrom(handle uint64, on *Stream, thread int32) (deferred bool, err error) {
	b, err := allBlocks.locked(handle)
	if err != nil {
		return false, err
	}
	if b.owners > 0 {
		defer b.mutex.Unlock()
		return false, status.Errorf(status.InvalidState, "block 0x%016x is a page's: it ends with the page", handle)
	}
	return b.free(on, thread)
}

// free is FreeFrom of a locked block, which it unlocks.
func (b *block) free(on *Stream, thread int32) (deferred bool, err error) {
	r := b.stream.runtime
	if err := r.enter(); err != nil {
		b.mutex.Unlock()
		return false, err
	}
	defer r.leave()
	if on == nil {
		on = b.stream
	}
	if on.runtime != r {
		b.mutex.Unlock()
		return false, otherRuntime(on)
	}
	b.freer = thread
	if b.taken() {
		b.defers(on)
		r.counts.deferredFrees.Add(1)
		b.mutex.Unlock()
		return true, nil
	}
	length, err := b.queueFree(on)
	b.mutex.Unlock()
	if length%reapEvery == reapEvery-1 {
		on.reap()
	}
	return false, err
}

// defers lets the block's free wait for the last one who has it. The mutex is held.
func (b *block) defers(on *Stream) {
	b.freeOn = on
	b.countFree()
	b.set(blocks.Ending)
}

// countFree notes that a block's bytes are pending.
func (b *block) countFree() {
	if b.wrapped {
		return
	}
	r := b.stream.runtime
	freed := r.bytes.freed.Add(b.record.Bytes)
	if invariant.Enabled {
		allocated, _ := r.allocated()
		invariant.Assert(freed <= allocated, "%d bytes are freed, %d were allocated", freed, allocated)
	}
	r.counts.frees.Add(1)
}

// end frees a block of a runtime that closes. One that another library has is a block no more, and freed when the library has
// ended its array.
func (b *block) end(of *Runtime) error {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	if b.what() == blocks.Free {
		return nil
	}
	if b.know(); b.stream.runtime != of { // another runtime's ladder has reaped it, and took the slot
		return nil
	}
	if !b.hold(b.generation()) && b.what() != blocks.Ending {
		return nil
	}
	on := b.stream
	if on.foreign { // which may be gone; the device has done everything
		on = on.runtime.streams.defined
	}
	if b.lent > 0 {
		if b.what() == blocks.Held {
			b.defers(on)
		}
		return nil
	}
	_, err := b.queueFree(on)
	return err
}

// queueFree queues a block's free behind all its uses, and returns how many frees the stream has queued. The block is locked.
func (b *block) queueFree(s *Stream) (queued int, err error) {
	r := s.runtime
	if s, err = r.streams.usable(s); err != nil {
		return 0, err
	}
	err = s.waitFor(b.write)
	if err == nil {
		err = b.waitForReads(s)
	}
	if err == nil && !b.wrapped {
		err = r.noteLost(r.layer.Free(b.memory(), s))
	}
	if err != nil && !r.lost.Load() { // with the device its memory is gone, too
		return 0, err
	}
	if b.what() == blocks.Held {
		b.countFree()
	}
	b.set(blocks.Queued)
	return s.pushFree(b), nil
}

// used comes when a use of the block has ended, or was withdrawn: it queues a free that has waited for the last one. Where the
// driver refuses, reaping tries again.
func (b *block) used() {
	switch what := b.what(); {
	case what == blocks.Held:
		b.letGo()
		return
	case what != blocks.Ending || b.taken():
		return
	}
	if _, err := b.queueFree(b.freeOn); err != nil {
		r := b.stream.runtime
		r.stuck.mutex.Lock()
		r.stuck.blocks = append(r.stuck.blocks, b)
		r.stuck.mutex.Unlock()
	}
}
