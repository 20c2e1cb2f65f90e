// Package blocks is what Go (gpu/runtime) and C share of blocks: their records, and the magazines and spans of streams, out of
// which C allocates without entering Go. blocks.h says how they work.
package blocks

/*
#cgo CFLAGS: -std=gnu11 -O2 -Wall -fno-strict-aliasing -I${SRCDIR}/../../include
#include "blocks.h"

#cgo noescape mmsb__block_hit
#cgo nocallback mmsb__block_hit
#cgo nocallback mmsb__block_cache
#cgo noescape mmsb__block_withdraw
#cgo nocallback mmsb__block_withdraw
#cgo noescape mmsb__block_log_note
#cgo nocallback mmsb__block_log_note
#cgo noescape mmsb__block_log_read
#cgo nocallback mmsb__block_log_read
*/
import "C"

import (
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"unsafe"
)

// What the low half of a record's state says of its block.
const (
	Free   = C.MMSB__BLOCK_FREE
	Live   = C.MMSB__BLOCK_LIVE
	Held   = C.MMSB__BLOCK_HELD
	Ending = C.MMSB__BLOCK_ENDING
	Queued = C.MMSB__BLOCK_QUEUED
	Cached = C.MMSB__BLOCK_CACHED
)

const (
	chunkBits     = C.MMSB__BLOCK_CHUNK_BITS
	chunkRecords  = 1 << chunkBits
	magazines     = C.MMSB__BLOCK_MAGAZINES
	countedTags   = C.MMSB__BLOCK_COUNTS
	streamHandles = C.MMSB__BLOCK_STREAMS
	indexMask     = 1<<28 - 1
	mostTags      = C.MMSB__BLOCK_TAGS
	hugePage      = 2 << 20

	// OwnBits are the bits of a record's Own that are the number of a space; those above are its first unit there.
	OwnBits = C.MMSB__BLOCK_OWN_BITS
)

// Record is the record of a block; see blocks.h.
type Record struct {
	State                 atomic.Uint64
	Address, Bytes, Point uint64
	Stream                *Stream // not of Go's memory
	Units                 uint64
	Tag, next             uint32
	Own                   uint64
}

// State composes a state.
func State(generation, what uint32) uint64 { return uint64(generation)<<32 | uint64(what) }

// Parts are the generation and what the state says of the block.
func Parts(state uint64) (generation, what uint32) { return uint32(state >> 32), uint32(state) }

// At is the record with an index, for which MakeRecord was called.
func At(index uint32) *Record {
	chunk := atomic.LoadPointer((*unsafe.Pointer)(unsafe.Pointer(&C.mmsb__block_table.chunks[index>>chunkBits])))
	return (*Record)(unsafe.Add(chunk, uintptr(index%chunkRecords)*unsafe.Sizeof(Record{})))
}

// MakeRecord makes sure that there is a record. One goroutine calls it at a time.
func MakeRecord(index uint32) error {
	chunk := (*unsafe.Pointer)(unsafe.Pointer(&C.mmsb__block_table.chunks[index>>chunkBits]))
	if atomic.LoadPointer(chunk) != nil {
		return nil
	}
	// Records are read at random: large pages of the system spare the walks through its tables.
	const bytes = chunkRecords * unsafe.Sizeof(Record{})
	memory, err := zeroed(bytes + hugePage)
	if err == nil {
		memory = unsafe.Add(memory, -uintptr(memory)%hugePage)
		_ = syscall.Madvise(unsafe.Slice((*byte)(memory), bytes), syscall.MADV_HUGEPAGE) // a system without them does without
		atomic.StorePointer(chunk, memory)
	}
	return err
}

// zeroed is memory outside Go's, which the system backs when it is touched.
func zeroed(bytes uintptr) (unsafe.Pointer, error) {
	memory, err := syscall.Mmap(-1, 0, int(bytes), syscall.PROT_READ|syscall.PROT_WRITE,
		syscall.MAP_PRIVATE|syscall.MAP_ANONYMOUS|syscall.MAP_NORESERVE)
	return unsafe.Pointer(unsafe.SliceData(memory)), err
}

// Tally are the counters of a tag, or of all; see gpu/runtime.
type Tally struct {
	Live, Peak, Total atomic.Uint64
	Blocks, Ever      atomic.Uint64
	Refused           atomic.Uint64
	_                 [2]uint64
}

// Pool is what the streams of a runtime share.
type Pool struct {
	open      atomic.Uint32
	exact     uint32
	divisions [17]uint32
	slabs     uint32
	tallies   *Tallies
	log       *Log
	keptFrom  [mostTags / 64]atomic.Uint64
}

// Stream has the magazines of a stream. Streams are for ever: those that nobody has are used again.
type Stream struct {
	lock   atomic.Uint32
	open   uint32
	handle uint64
	Queued atomic.Uint64 // the number of the stream's last point
	pool   *Pool
	native uint64 // the driver's stream
	number uint64 // and the runtime's number of it

	// Of all calls that did not enter Go, which add to what is freed before they add to what is released, and to that before
	// what is allocated in its place.
	Allocations, Frees         atomic.Uint64
	Allocated, Freed, Released atomic.Uint64 // bytes

	cached, cachedUnits uint64
	Hits                [2]Sum // the allocations: blocks and units by where they lie, bytes by their size
	counts              [countedTags]tagCount
	slotCount           uint64
	slots               [C.MMSB__BLOCK_SLOTS]uint32
	spans               [C.MMSB__BLOCK_SPANS]span
	magazines           [magazines]magazine
}

// Left is what is left of a span: memory that the pool's books hold for a stream.
type Left struct{ Address, Own, Units, Mark uint64 }

type span struct {
	left  Left
	count atomic.Uint64
	cuts  [C.MMSB__BLOCK_CUTS]uint32
}

// Sum are allocations, the bytes that they asked for, and the units of their blocks.
type Sum struct{ Blocks, Bytes, Units atomic.Uint64 }

type tagCount struct {
	ever, total, tag uint64
}

type magazine struct{ first, count uint32 }

// layouts are the structs that Go and C read in the same memory. A test compares each pair, field by field.
func layouts() [][2]any {
	return [][2]any{
		{Record{}, C.mmsb__block_t{}},
		{Tally{}, C.mmsb__block_tally_t{}},
		{Pool{}, C.mmsb__block_pool_t{}},
		{Stream{}, C.mmsb__block_stream_t{}},
		{Sum{}, C.mmsb__block_sum_t{}},
		{tagCount{}, C.mmsb__block_count_t{}},
		{Left{}, C.mmsb__block_left_t{}},
		{span{}, C.mmsb__block_span_t{}},
		{magazine{}, C.mmsb__block_magazine_t{}},
		{Event{}, C.mmsb__block_event_t{}},
		{Log{}, C.mmsb__block_log_t{}},
	}
}

// kept is what nobody uses at the moment. C may still look at it.
var kept struct {
	sync.Mutex
	streams []*Stream
	tallies []*Tallies
	pools   []*Pool
}

// again is the last one of a list of what is kept, or nil.
func again[T any](list *[]*T) (one *T) {
	if last := len(*list) - 1; last >= 0 {
		one, *list = (*list)[last], (*list)[:last]
	}
	return one
}

// Tallies are those of all blocks, of each tag, and of small and of large requests.
type Tallies struct {
	All  Tally
	Tag  [mostTags]Tally
	Size [2]Tally
}

// NewTallies are counters at 0.
func NewTallies() (*Tallies, error) {
	kept.Lock()
	defer kept.Unlock()
	const bytes = unsafe.Sizeof(Tallies{})
	if t := again(&kept.tallies); t != nil {
		err := syscall.Madvise(unsafe.Slice((*byte)(unsafe.Pointer(t)), bytes), syscall.MADV_DONTNEED) // reads as zeros
		return t, err
	}
	memory, err := zeroed(bytes)
	return (*Tallies)(memory), err
}

// End gives the counters back. They can be read until others take them.
func (t *Tallies) End() {
	kept.Lock()
	kept.tallies = append(kept.tallies, t)
	kept.Unlock()
}

// NewPool is what the streams of a runtime share: how the pool rounds, the counters, and the history, or nil. exact: a block
// serves requests of its own bytes and tag only.
func NewPool(divisions [17]uint32, slabs, exact bool, tallies *Tallies, log *Log) (*Pool, error) {
	kept.Lock()
	defer kept.Unlock()
	p := again(&kept.pools)
	if p == nil {
		memory, err := zeroed(unsafe.Sizeof(Pool{}))
		if err != nil {
			return nil, err
		}
		p = (*Pool)(memory)
	}
	p.exact, p.slabs, p.divisions, p.tallies, p.log = 0, 0, divisions, tallies, log
	if slabs {
		p.slabs = 1
	}
	clear(p.keptFrom[:])
	if exact {
		p.exact = 1
	}
	p.open.Store(1)
	return p, nil
}

// KeepFromC lets all allocations with a tag enter Go.
func (p *Pool) KeepFromC(tag uint32) { p.keptFrom[tag/64].Or(1 << (tag % 64)) }

// Shut lets no more calls pass without Go, once those that are running have returned.
func (p *Pool) Shut() { p.open.Store(0) }

// End gives it back. Its streams have ended.
func (p *Pool) End() {
	kept.Lock()
	kept.pools = append(kept.pools, p)
	kept.Unlock()
}

// NewStream is a stream of a pool, with empty magazines. native and number are the driver's name of it and the runtime's.
func NewStream(pool *Pool, native uintptr, number uint32) (*Stream, error) {
	kept.Lock()
	defer kept.Unlock()
	s := again(&kept.streams)
	if s == nil {
		memory, err := zeroed(unsafe.Sizeof(Stream{}))
		if err != nil {
			return nil, err
		}
		s = (*Stream)(memory)
	}
	s.take()
	defer s.give()
	s.pool, s.open = pool, 1
	s.native, s.number = uint64(native), uint64(number)
	for _, total := range []*atomic.Uint64{&s.Allocations, &s.Frees, &s.Allocated, &s.Freed, &s.Released, &s.Queued} {
		total.Store(0)
	}
	s.Hits = [2]Sum{}
	return s, nil
}

func (s *Stream) take() {
	for !s.lock.CompareAndSwap(0, 1) {
		runtime.Gosched()
	}
}

func (s *Stream) give() { s.lock.Store(0) }

// Lease says by which handle allocations find the stream; 0 = by none.
func (s *Stream) Lease(handle uint64) {
	s.take()
	defer s.give()
	at := func(handle uint64) *unsafe.Pointer {
		slot := handle & indexMask
		if handle == 0 || slot >= streamHandles {
			return nil
		}
		return (*unsafe.Pointer)(unsafe.Pointer(&C.mmsb__block_table.streams[slot]))
	}
	if old := at(s.handle); old != nil {
		atomic.CompareAndSwapPointer(old, unsafe.Pointer(s), nil) // the slot's next handle may be there already
	}
	s.handle = handle
	if now := at(handle); now != nil {
		atomic.StorePointer(now, unsafe.Pointer(s))
	}
}

// Open says whether frees of the stream's blocks may go to its magazines.
func (s *Stream) Open(open bool) {
	s.take()
	defer s.give()
	s.open = 0
	if open {
		s.open = 1
	}
}

// Drain takes all blocks out of the magazines. They are the caller's, Cached as they are.
func (s *Stream) Drain() (indices []uint32) {
	s.take()
	defer s.give()
	if s.cached == 0 {
		return nil
	}
	indices = make([]uint32, 0, s.cached)
	for i := range s.magazines {
		for m := &s.magazines[i]; m.count > 0; m.count-- {
			indices = append(indices, m.first)
			m.first = At(m.first).next
		}
	}
	s.cached, s.cachedUnits = 0, 0
	return indices
}

// Withdraw takes blocks of least to most units out of the magazines: one that has enough units where there is one, else some of
// the largest. They are the caller's, Cached as they are.
func (s *Stream) Withdraw(enough, least, most uint64, indices *[32]uint32) []uint32 {
	s.take()
	defer s.give()
	if s.cached == 0 {
		return nil
	}
	count := C.mmsb__block_withdraw((*C.mmsb__block_stream_t)(unsafe.Pointer(s)), C.uint64_t(enough), C.uint64_t(least),
		C.uint64_t(most), (*C.uint32_t)(&indices[0]), C.uint32_t(len(indices)))
	return indices[:count]
}

// Cached is how many units the magazines and the spans have.
func (s *Stream) Cached() (units uint64) {
	s.take()
	defer s.give()
	for i := range s.spans {
		units += s.spans[i].left.Units
	}
	return units + s.cachedUnits
}

// Wants is how many units a span has, and how many records more the stream can have for blocks that are cut off. may: C may cut
// some, as it may not where a budget charges blocks one by one.
func (s *Stream) Wants(number int) (units uint64, slots int, may bool) {
	s.take()
	defer s.give()
	return s.spans[number].left.Units, len(s.slots) - int(s.slotCount), s.handle != 0 && s.pool.exact == 0
}

// SetSpan puts memory in the place of a span, tells of the last cuts of that (Settle), and returns what was left of it.
func (s *Stream) SetSpan(number int, span Left, cut func(own, front uint64)) (left Left) {
	s.take()
	defer s.give()
	s.spans[number].settle(cut)
	left, s.spans[number].left = s.spans[number].left, span
	return left
}

// Settle tells of blocks that were cut off the spans since the last time, in their order: where what is cut began, and how long
// the block at its front is.
func (s *Stream) Settle(cut func(own, front uint64)) {
	for i := range s.spans {
		if s.spans[i].count.Load() > 0 {
			s.take()
			s.spans[i].settle(cut)
			s.give()
		}
	}
}

// settle is under the stream's lock.
func (span *span) settle(cut func(own, front uint64)) {
	cuts := span.cuts[:span.count.Load()]
	own := span.left.Own
	for _, units := range cuts {
		own -= uint64(units) << OwnBits
	}
	for _, units := range cuts {
		cut(own, uint64(units))
		own += uint64(units) << OwnBits
	}
	span.count.Store(0)
}

// GiveSlots gives the stream free records, no more than it Wants.
func (s *Stream) GiveSlots(indices []uint32) {
	s.take()
	defer s.give()
	s.slotCount += uint64(copy(s.slots[s.slotCount:], indices))
}

// TakeSlots takes all of them back.
func (s *Stream) TakeSlots() []uint32 {
	s.take()
	defer s.give()
	indices := append([]uint32(nil), s.slots[:s.slotCount]...)
	s.slotCount = 0
	return indices
}

// Counted is what was allocated with a tag and is not in the tag's tally yet.
func (s *Stream) Counted(tag uint32) (ever, total uint64) {
	s.take()
	defer s.give()
	if c := &s.counts[tag%countedTags]; c.tag == uint64(tag) {
		return c.ever, c.total
	}
	return 0, 0
}

// End gives the stream back: its blocks have ended, and it has no handle. It adds what it has counted to the tallies.
func (s *Stream) End() {
	s.take()
	s.open = 0
	s.pool.tallies.All.Ever.Add(s.Allocations.Load())
	s.pool.tallies.All.Total.Add(s.Allocated.Load())
	for i := range s.Hits {
		s.pool.tallies.Size[i].Ever.Add(s.Hits[i].Blocks.Load())
		s.pool.tallies.Size[i].Total.Add(s.Hits[i].Bytes.Load())
	}
	for i := range s.counts {
		c := &s.counts[i]
		tally := &s.pool.tallies.Tag[c.tag]
		tally.Ever.Add(c.ever)
		tally.Total.Add(c.total)
		*c = tagCount{}
	}
	s.give()
	kept.Lock()
	kept.streams = append(kept.streams, s)
	kept.Unlock()
}

// Tags is how many tags there are.
func Tags() uint32 { return atomic.LoadUint32((*uint32)(unsafe.Pointer(&C.mmsb__block_table.tags))) }

// SetTags says how many tags there are.
func SetTags(count int) {
	atomic.StoreUint32((*uint32)(unsafe.Pointer(&C.mmsb__block_table.tags)), uint32(count))
}

// Hit allocates as C does: a block of a magazine of the stream.
func Hit(stream, bytes uint64, tag uint32) (handle uint64, address uintptr, ok bool) {
	var to C.mmsb_block_t
	var at C.uintptr_t
	ok = C.mmsb__block_hit(C.mmsb_stream_t(stream), C.uint64_t(bytes), C.uint32_t(tag), &to, &at) != 0
	return uint64(to), uintptr(at), ok
}

// Cache frees as C does: a block into a magazine of its stream, which is stream where that is not 0.
func Cache(block, stream uint64) (ok bool) {
	return C.mmsb__block_cache(C.mmsb_block_t(block), C.mmsb_stream_t(stream)) != 0
}
