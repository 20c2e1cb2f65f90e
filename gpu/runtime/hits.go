// What a runtime leaves to C: allocations that find a block in a magazine of their stream, and frees that put it there.

package runtime

import (
	"sync"

	"libmmsb/core/invariant"
	"libmmsb/core/pool"
	"libmmsb/core/status"
	"libmmsb/gpu/blocks"
)

// hits are the magazines of a runtime with a pool. A block in a magazine is freed, and pending: it counts as outstanding, is
// charged, and is held in the pool's books. A reap frees it there; the pool and a budget reap before they refuse, or take more
// memory, so that magazines cost none.
type hits struct {
	pool    *blocks.Pool
	tallies *blocks.Tallies // where there are no statistics that have some
}

// newHits is nil where each call must enter Go: without a pool, and under adaptors that have to see each call (guard).
func newHits(r *Runtime) (*hits, error) {
	if r.pool == nil {
		return nil, nil
	}
	var statistics *Statistics
	var log *Log
	exact := false // what a budget has charged for a block are its bytes
	for _, adaptor := range r.options.Adaptors {
		switch a := adaptor.(type) {
		case *Statistics:
			if statistics != nil {
				return nil, nil
			}
			statistics = a
		case *Budget:
			exact = true
		case *Log: // C notes what does not enter Go
			if log != nil {
				return nil, nil
			}
			log = a
		case *Failure: // which sees what is refused
		default:
			return nil, nil
		}
	}
	h := &hits{}
	tallies, err := (*blocks.Tallies)(nil), error(nil)
	if statistics != nil {
		tallies = statistics.tallies
	} else if tallies, err = newTallies(); err != nil {
		return nil, err
	} else {
		h.tallies = tallies
	}
	var ring *blocks.Log
	if log != nil {
		ring = log.ring
	}
	if h.pool, err = blocks.NewPool(r.options.Pool.Divisions, r.options.Pool.Slabs, exact, tallies, ring); err != nil {
		h.end()
		return nil, noRecords(err)
	}
	if statistics != nil {
		statistics.streams = &r.streams
	}
	return h, nil
}

func newTallies() (*blocks.Tallies, error) {
	tallies, err := blocks.NewTallies()
	if err != nil {
		return nil, noRecords(err)
	}
	return tallies, nil
}

func noRecords(err error) error {
	return status.FromErrno(status.OutOfMemory, status.ErrnoOf(err), "records of blocks have no memory")
}

// end comes when the streams have ended.
func (h *hits) end() {
	if h.pool != nil {
		h.pool.End()
	}
	if h.tallies != nil {
		h.tallies.End()
	}
}

// fastStreams finds the stream that has some magazines.
var fastStreams sync.Map

func streamOf(fast *blocks.Stream) *Stream {
	s, _ := fastStreams.Load(fast)
	return s.(*Stream)
}

// A span is of at least so many blocks like the one before it, and of at most so many units: they are given back in no time.
const (
	leastBlocks = 4
	mostSpan    = 16 << 20 / pool.Unit
)

// refill gives C what is free behind a block that was just allocated, for the next ones.
func (s *Stream) refill(p *Pool, block pool.Block) {
	if s.fast == nil || block.Space >= pool.Spaces {
		return
	}
	left, slots, may := s.fast.Wants(block.Space)
	if !may {
		return
	}
	if slots >= slotBatch {
		s.fast.GiveSlots(allBlocks.some(s, slots))
	}
	least := leastBlocks * block.Count
	if left >= least {
		return
	}
	if behind, mark, ok := p.books.TakeBehind(s.index, block, least, mostSpan); ok {
		p.cutBy(s)
		s.swapSpan(p, block.Space, blocks.Left{Address: uint64(p.addressOf(behind)), Own: ownOf(behind), Units: behind.Count,
			Mark: mark})
	}
}

// giveSpans gives back what is left of the spans.
func (s *Stream) giveSpans() (any bool) {
	for space := 0; space < pool.Spaces && s.fast != nil; space++ {
		if left, _, _ := s.fast.Wants(space); left > 0 {
			s.swapSpan(s.runtime.pool, space, blocks.Left{})
			any = true
		}
	}
	return any
}

func (s *Stream) swapSpan(p *Pool, space int, span blocks.Left) {
	err := p.books.GiveLeft(s.index, func(cut func(space int, at, front uint64)) (pool.Block, uint64) {
		left := s.fast.SetSpan(space, span, func(own, front uint64) { cutOwn(cut, own, front) })
		s.runtime.spans.Add(left.Units * pool.Unit)
		return pool.Block{Space: space, Range: pool.Range{Offset: left.Own >> blocks.OwnBits, Count: left.Units}}, left.Mark
	})
	invariant.Check(err) // the books have held it
}

func cutOwn(cut func(space int, at, front uint64), own, front uint64) {
	cut(int(own%(1<<blocks.OwnBits)), own>>blocks.OwnBits, front)
}

// class is whose magazines a block of the stream goes to when C frees it, and its size there.
func (s *Stream) class(memory Memory) (*blocks.Stream, uint64) {
	if s.fast == nil {
		return nil, 0
	}
	of := s.runtime.pool.block(memory)
	if of.Space >= pool.Spaces { // of a partition
		return nil, 0
	}
	return s.fast, of.Count
}

// lease says by which handle C finds the stream; 0 = by none.
func (s *Stream) lease(handle uint64) {
	s.handle.Store(handle)
	if s.fast != nil {
		s.fast.Lease(handle)
	}
}

// leaveToC says whether calls on the stream may pass without Go.
func (s *Stream) leaveToC(may bool) {
	if s.fast == nil {
		return
	}
	handle := uint64(0)
	if may {
		handle = s.handle.Load()
	}
	s.fast.Lease(handle)
	s.fast.Open(may)
}

// flush queues the frees of what the magazines have, as if it was freed now, and gives the spans back. What another thread has
// taken out for that is in the books, too, when it returns.
func (s *Stream) flush() {
	if s.fast == nil {
		return
	}
	s.flushing.Lock()
	defer s.flushing.Unlock()
	s.uncache(s.fast.Drain())
	s.giveSpans()
}

// flushSome is flush of the spans, or of one block that has enough units where there is one, else of some of the largest; false
// where there are none of least to most units.
func (s *Stream) flushSome(enough, least, most uint64) bool {
	s.flushing.Lock()
	defer s.flushing.Unlock()
	if s.giveSpans() {
		return true
	}
	var indices [32]uint32
	some := s.fast.Withdraw(enough, least, most, &indices)
	s.uncache(some)
	return len(some) > 0
}

// uncache queues the frees of blocks that were taken out of the magazines.
func (s *Stream) uncache(indices []uint32) {
	for _, index := range indices {
		b := allBlocks.at(index)
		b.mutex.Lock()
		b.know()
		b.write, b.reads = point{s, b.record.Point}, b.reads[:0]
		b.freeOn, b.freer = s, noted
		b.set(blocks.Ending)
		b.used()
		b.mutex.Unlock()
	}
}

// quick are the streams whose calls may pass without Go.
func (t *streamTable) quick() []*blocks.Stream {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	return t.fast[:len(t.fast):len(t.fast)]
}

// cached is how many bytes the magazines have.
func (t *streamTable) cached() (bytes uint64) {
	for _, s := range t.quick() {
		bytes += s.Cached() * pool.Unit
	}
	return bytes
}

// released are bytes that the device has come past, freed those that were freed, allocated all there ever were; read in this
// order, none is less than the one before.
func (r *Runtime) released() (bytes uint64) {
	bytes = r.bytes.released.Load()
	for _, s := range r.streams.quick() {
		bytes += s.Released.Load()
	}
	return bytes
}

func (r *Runtime) freed() (bytes, frees uint64) {
	bytes, frees = r.bytes.freed.Load(), r.counts.frees.Load()
	for _, s := range r.streams.quick() {
		bytes, frees = bytes+s.Freed.Load(), frees+s.Frees.Load()
	}
	return bytes, frees
}

func (r *Runtime) allocated() (bytes, allocations uint64) {
	bytes, allocations = r.bytes.allocated.Load(), r.counts.allocations.Load()
	for _, s := range r.streams.quick() {
		bytes, allocations = bytes+s.Allocated.Load(), allocations+s.Allocations.Load()
	}
	return bytes, allocations
}

// shut lets every call enter Go from now on.
func (r *Runtime) shut() {
	if r.hits == nil {
		return
	}
	r.hits.pool.Shut()
	for _, s := range r.streams.quick() {
		s.Lease(0) // and waits for the call that is running
	}
}

// endHits ends the magazines, which are empty, of a runtime that closes. What they have counted stays.
func (r *Runtime) endHits() {
	if r.hits == nil {
		return
	}
	t := &r.streams
	t.mutex.Lock()
	defer t.mutex.Unlock()
	for _, s := range t.all {
		f := s.fast
		if f == nil {
			continue
		}
		r.bytes.allocated.Add(f.Allocated.Load())
		r.bytes.freed.Add(f.Freed.Load())
		r.bytes.released.Add(f.Released.Load())
		r.counts.allocations.Add(f.Allocations.Load())
		r.counts.frees.Add(f.Frees.Load())
		s.ownQueued.Store(f.Queued.Load())
		s.queued, s.fast = &s.ownQueued, nil
		fastStreams.Delete(f)
		allBlocks.giveBack(f.TakeSlots())
		f.End()
	}
	t.fast = nil
	r.pool.cutters.Store(nil)
	r.hits.end()
}
