// Package pool is the books of a caching allocator of device memory: which addresses are held, which are free, on which stream
// and since when, and which have memory at all. It touches no memory and no device: a Source gives memory to segments of
// addresses and takes it away, and whoever uses the pool says how far the device has come.
//
// What a stream has freed it may have again at once, without the host or an event: its work comes later. Others may have it
// when the device has come past the free, or behind an event. Requests and thresholds are those of PyTorch's
// CUDACachingAllocator. Its segments are as large as what they are for, and stay where they are; here there are two ranges of
// addresses, one for small requests, one for large ones, of which segments of 2 MiB get memory when it is needed and lose it
// when it is needed elsewhere. So what is free in small pieces here can be used in one piece there.
package pool

import (
	"cmp"
	"math"
	"strconv"
	"sync"
	"sync/atomic"

	"libmmsb/core/invariant"
	"libmmsb/core/status"
)

// Source gives memory to addresses. Ranges are whole segments of 2 MiB, in units. One call runs at a time.
type Source interface {
	// Back gives segments memory, all of them or none. Errors: OutOfMemory, where the device has not enough, and others.
	Back(space int, r Range) error
	// Bare takes it away from whole mappings, and says how many units lost it, from the first one on: all, or some whole mappings
	// and an error. The device has come past all work that uses it.
	Bare(space int, r Range) (units uint64, err error)
	// Mapping is the segments around one that has memory which lose it together. It may be called under the pool's lock.
	Mapping(space int, at uint64) Range
	Progress
}

// Progress is what comes back to a pool as the streams go on.
type Progress interface {
	// Cached is how many units are held for a stream's next requests: they are free, and these books do not know it.
	Cached(stream uint32) uint64
	// Uncache gives some of them back (Give), of one of the ranges: a block of at least so many units where there is one, else
	// some of the largest; false where there are none. Reap gives back all.
	Uncache(stream uint32, space int, units uint64) bool
	// Settle tells of blocks that were cut off memory which TakeBehind gave: where what is cut begins, and how long the block at
	// its front is; in their order, each once. It may be called under the pool's lock.
	Settle(cut func(space int, at, front uint64))
	// Reap looks how far the device has come.
	Reap()
	// Done is the mark up to which the device has come past a stream's frees. It may be called under the pool's lock.
	Done(stream uint32) uint64
}

// The ranges of addresses.
const (
	Small = iota
	Large
	Spaces
)

// Pool is the books. Any goroutine may use it.
type Pool struct {
	options Options
	source  Source

	growing sync.Mutex // one grows, or gives memory back, at a time; the source is called under this alone, or for what rests
	books   sync.Mutex // lock locks it
	cut     func(space int, at, front uint64)
	peak    uint64 // the most units that were held when segments got memory: what is held for magazines has just come back then

	slack   uint32                        // Options.Slack, or what it has become
	relaxed struct{ moved, taken uint64 } // when it became so: units

	partitions []*partition // the ordinary one, and those of Open; under books

	flows [Spaces]flow // of all partitions; under books
	peaks flow

	counts struct{ grown, moved, trimmed, waits, failures, retries, misses atomic.Uint64 }
}

// Block is what the pool gave. Each partition has spaces of its own, numbered on from those of the one before.
type Block struct {
	Space int
	Range
}

// Wait says that the caller's stream has to wait for a free of another one before it uses a block.
type Wait struct {
	Stream uint32
	Mark   uint64
	Needed bool
}

// New makes a pool of ranges of so many bytes, in which nothing has memory.
func New(o Options, source Source, bytes [Spaces]uint64) *Pool {
	o.defaults()
	p := &Pool{options: o, source: source, partitions: []*partition{newPartition("the pool", bytes)}}
	p.slack = cmp.Or(o.Slack, firstSlack)
	p.cut = p.settle
	for _, s := range p.partitions[0].spaces {
		if o.Origin.Whole() {
			s.whole = make(map[uint64]uint64)
		}
	}
	return p
}

// lock locks the books, which are true then: blocks were cut off what they hold.
func (p *Pool) lock() {
	p.books.Lock()
	p.source.Settle(p.cut)
}

func (p *Pool) settle(space int, at, front uint64) {
	s := p.space(space)
	if s.extents.Held(at) != front { // else nothing was left
		invariant.Check(s.extents.Cut(at, front))
	}
	p.countIn(space, front)
}

// TakeBehind takes what is free on a stream behind a block that it holds, from least to most units of it: others are cut off its
// front later. mark is that of the last free of any of it.
func (p *Pool) TakeBehind(stream uint32, b Block, least, most uint64) (behind Block, mark uint64, ok bool) {
	p.lock()
	defer p.books.Unlock()
	s := p.space(b.Space)
	f := s.extents.Behind(b.Offset)
	behind = Block{b.Space, Range{f.Offset, min(f.Count, most)}}
	if f.Count < least || f.Bin != bin(stream) || !s.extents.Carve(f, f.Offset, behind.Count) {
		return Block{}, 0, false
	}
	s.live += behind.Count
	return behind, f.Mark, true
}

// GiveLeft gives back what swap says is left of such memory. swap tells of the last cuts, as Settle does, under the books' lock.
func (p *Pool) GiveLeft(stream uint32, swap func(cut func(space int, at, front uint64)) (left Block, mark uint64)) error {
	p.lock()
	defer p.books.Unlock()
	left, mark := swap(p.cut)
	if left.Count == 0 {
		return nil
	}
	return p.space(left.Space).give(stream, mark, left.Range)
}

// space is the books of one of the ranges; under books.
func (p *Pool) space(number int) *space { return p.partitions[number/Spaces].spaces[number%Spaces] }

func spaceOf(bytes uint64) int {
	if bytes <= MostSmall {
		return Small
	}
	return Large
}

// Take takes memory for a stream. Errors: InvalidSize, OutOfMemory and Limit, with the numbers, and those of the source.
func (p *Pool) Take(stream uint32, bytes uint64) (Block, Wait, error) {
	return p.TakeIn(0, stream, bytes)
}

// TakeIn is Take of a partition. Errors: Busy, InvalidState (it sleeps), those of Take.
func (p *Pool) TakeIn(partition int, stream uint32, bytes uint64) (Block, Wait, error) {
	rounded, err := p.options.Round(bytes)
	if err != nil {
		return Block{}, Wait{}, err
	}
	b, wait := Block{partition*Spaces + spaceOf(bytes), Range{Count: rounded / Unit}}, Wait{}
	ok, err := p.hit(stream, &b)
	if !ok && err == nil {
		wait, err = p.miss(stream, &b)
	}
	if err != nil {
		p.counts.failures.Add(1)
	}
	return b, wait, err
}

// hit takes what is free on the stream, or on others whose frees the device has come past.
func (p *Pool) hit(stream uint32, b *Block) (ok bool, err error) {
	p.lock()
	defer p.books.Unlock()
	if err := p.partitions[b.Space/Spaces].usable(); err != nil {
		return false, err
	}
	s := p.space(b.Space)
	if b.Offset, ok = s.take(stream, b.Count); !ok {
		b.Offset, _, ok = s.takeOfOthers(stream, b.Count, p.source.Done, false)
	}
	p.countTake(b, ok)
	return ok, nil
}

// miss goes up the steps of the ladder: what is held for the stream's next requests, no more of it than makes a piece; what the
// device has come past meanwhile; new memory, or that of free segments; all free
// segments' memory, where there is no more; what is free on other streams, behind their work, and among requests of the other
// size.
func (p *Pool) miss(stream uint32, b *Block) (Wait, error) {
	p.growing.Lock()
	defer p.growing.Unlock()
	if ok, err := p.uncached(stream, b); ok || err != nil {
		return Wait{}, err
	}
	p.source.Reap()
	if ok, err := p.hit(stream, b); ok || err != nil || p.hitGathered(stream, b) {
		return Wait{}, err
	}
	err := p.grow(stream, b, false)
	if lacks(err) {
		if err = p.grow(stream, b, true); err == nil {
			p.counts.retries.Add(1)
		}
	}
	if err == nil {
		p.counts.misses.Add(1)
		return Wait{}, nil
	}
	p.lock()
	defer p.books.Unlock()
	for _, space := range []int{b.Space, b.Space ^ 1} { // the other size's
		s, behind := p.space(space), behind{}
		at, ok := s.take(stream, b.Count)
		if !ok {
			at, behind, ok = s.takeOfOthers(stream, b.Count, p.source.Done, true)
		}
		if ok {
			b.Space, b.Offset = space, at
			p.countTake(b, true)
			if behind.waits {
				p.counts.waits.Add(1)
			}
			return Wait{Stream: behind.stream, Mark: behind.mark, Needed: behind.waits}, nil
		}
	}
	return Wait{}, err
}

// uncached is a hit behind what little of the stream's cache makes a piece. Where the cache has much, all of it joins first
// (Reap): as it is, it would be cut into ever smaller pieces.
func (p *Pool) uncached(stream uint32, b *Block) (ok bool, err error) {
	const much = 16 // of this part of what has memory
	if backed, _ := p.bounds(0); b.Space >= Spaces || p.source.Cached(stream) > backed/much {
		return false, nil
	}
	for !ok && err == nil && p.source.Uncache(stream, b.Space, b.Count) {
		ok, err = p.hit(stream, b)
	}
	return ok, err
}

// lacks says that an error is a lack of memory.
func lacks(err error) bool {
	code := status.CodeOf(err)
	return code == status.OutOfMemory || code == status.Limit
}

func (p *Pool) hitGathered(stream uint32, b *Block) bool {
	p.lock()
	defer p.books.Unlock()
	p.noteSplits()
	s := p.space(b.Space)
	if !s.gather(stream, p.source.Done) {
		return false
	}
	at, ok := s.take(stream, b.Count)
	b.Offset = at
	p.countTake(b, ok)
	return ok
}

// grow gives segments memory and takes the block there. Where that would be more than the slack allows, free segments elsewhere
// lose theirs before; with all, all of them do. The lock of who grows is held, and the block is not taken.
func (p *Pool) grow(stream uint32, b *Block, all bool) error {
	step := uint64(segmentBytes)
	if b.Space%Spaces == Large {
		step = p.options.LargeStep
	}
	if p.options.Origin.Whole() && b.Count*Unit >= ownSegment {
		step = 0
	}
	step /= Unit
	p.relax()
	for more := all || !p.options.Origin.Whole(); ; { // segments to be spared: whole ones only where there is no more memory
		if all && more {
			if _, err := p.spare(stream, math.MaxUint64); err != nil {
				return err
			}
			more, step = false, 0
		}
		plan, ok := p.plan(stream, b, step)
		if !ok {
			return p.noSpace(b.Count, streamName(stream), status.OutOfMemory, "no range of addresses is long enough")
		}
		if backed, allowed := p.bounds(b.Count); backed+plan.Count > allowed && more {
			// What is spared may be what the plan counts on: so there is another one behind it.
			p.unplan(b.Space, plan)
			if step == 0 {
				var err error
				if more, err = p.spare(stream, backed+plan.Count-allowed); err != nil {
					return err
				}
			}
			step = 0
			continue
		}
		ok, err := p.back(stream, b, plan)
		if ok || err != nil && (step == 0 || !lacks(err)) {
			return err
		}
		step = 0 // it was too much, or another thread of this stream has taken what was counted on
	}
}

// back gives planned segments memory, and takes the block. ok: there it is.
func (p *Pool) back(stream uint32, b *Block, plan Range) (ok bool, err error) {
	if limit := p.options.Limit / Unit; limit > 0 {
		if backed, _ := p.bounds(0); backed+plan.Count > limit {
			p.unplan(b.Space, plan)
			return false, p.noSpace(b.Count, streamName(stream), status.Limit, "the limit would be exceeded")
		}
	}
	if err := p.source.Back(b.Space, plan); err != nil {
		p.unplan(b.Space, plan)
		if lacks(err) {
			err = p.noSpace(b.Count, streamName(stream), status.CodeOf(err), status.Of(err).Text)
		}
		return false, err
	}
	p.counts.grown.Add(plan.Count * Unit)
	p.lock()
	defer p.books.Unlock()
	s := p.space(b.Space)
	s.back(stream, plan)
	p.backed(b.Space, plan.Count)
	if b.Offset, ok = s.take(stream, b.Count); ok {
		p.peak = max(p.peak, p.sum().held)
	}
	p.countTake(b, ok)
	return ok, nil
}

// bounds are how many units have memory, and how many may when so many more are held.
func (p *Pool) bounds(more uint64) (backed, allowed uint64) {
	p.lock()
	defer p.books.Unlock()
	all := p.sum()
	held := max(p.peak, all.held+more)
	return all.backed, held + max(held/1000*uint64(p.slack), p.options.LargeStep/Unit)
}

const (
	firstSlack = 50
	mostSlack  = 1000
	// movedShare is the part of what was allocated that may have been moved.
	movedShare = 8
)

// relax doubles the slack where segments lose their memory to others again and again: half of what is held at most since it was
// last doubled, and more than a share of what was allocated meanwhile. Each of them costs calls of the driver. So what is moved
// in vain has an end, and who lacks the memory gets it all the same.
func (p *Pool) relax() {
	if p.options.Slack != 0 || p.slack >= mostSlack {
		return
	}
	p.lock()
	defer p.books.Unlock()
	moved := (p.counts.moved.Load() - p.counts.trimmed.Load()) / Unit
	taken := p.flows[Small].held.added + p.flows[Large].held.added
	since := moved - p.relaxed.moved
	if since > max(p.peak, p.sum().held)/2 && since > (taken-p.relaxed.taken)/movedShare {
		p.slack *= 2
		p.relaxed.moved, p.relaxed.taken = moved, taken
	}
}

func (p *Pool) plan(stream uint32, b *Block, step uint64) (Range, bool) {
	p.lock()
	defer p.books.Unlock()
	return p.space(b.Space).plan(stream, b.Count, step)
}

func (p *Pool) unplan(space int, r Range) {
	p.lock()
	defer p.books.Unlock()
	p.space(space).leave(r)
}

// spare takes memory away from free segments, up to so many units, in all partitions that may lose it. What is free on several
// streams is one stream's then: a segment can have pieces of all of them. any: some lost theirs. Who grows holds the lock.
func (p *Pool) spare(stream uint32, units uint64) (any bool, err error) {
	const segment = segmentBytes / Unit
	units = (min(units, mostBytes) + segment - 1) / segment * segment
	p.lock()
	count := len(p.partitions) * Spaces
	p.books.Unlock()
	for number := range count {
		spared := p.sparedOf(stream, number, units)
		for at, r := range spared {
			gone, err := p.source.Bare(number, r)
			p.counts.moved.Add(gone * Unit)
			units, any = units-min(units, gone), any || gone > 0
			p.spared(stream, number, r, gone)
			if err != nil {
				for _, left := range spared[at+1:] {
					p.spared(stream, number, left, 0)
				}
				return any, err
			}
		}
	}
	return any, nil
}

// sparedOf are segments of one space that lose their memory.
func (p *Pool) sparedOf(stream uint32, number int, units uint64) []Range {
	p.lock()
	defer p.books.Unlock()
	if !p.partitions[number/Spaces].spares() {
		return nil
	}
	s := p.space(number)
	s.gather(stream, p.source.Done)
	spared := s.spare(units, p.source.Done, func(at uint64) Range { return p.source.Mapping(number, at) })
	for _, r := range spared {
		p.bared(number, r.Count)
	}
	return spared
}

// spared says that the first units of spared segments have no memory. The others keep theirs, and no order is missing: the device
// has come past.
func (p *Pool) spared(stream uint32, number int, r Range, gone uint64) {
	p.lock()
	defer p.books.Unlock()
	s := p.space(number)
	if gone < r.Count {
		r = s.cut(r, gone)
		s.back(stream, r)
		p.backed(number, r.Count)
		return
	}
	s.leave(r)
}

func streamName(stream uint32) string { return "stream " + strconv.FormatUint(uint64(stream), 10) }

// noSpace says why there are not so many units.
func (p *Pool) noSpace(units uint64, whose string, code status.Code, why string) error {
	s := p.Statistics()
	if limit := p.options.Limit; limit > 0 && s.Reserved+units*Unit > limit {
		code = status.Limit
	}
	return status.Errorf(code, "%d bytes for %s: %s; %d bytes have memory, %d are held, %d free, the largest free block has %d, "+
		"%d sleep, the limit is %d", units*Unit, whose, why, s.Reserved, s.Held, s.Reserved-s.Held, s.LargestFree, s.Sleeping,
		p.options.Limit)
}

// Give makes a block free on a stream, behind which nothing uses it, at the stream's mark. Errors: InvalidArgument, where it is
// not one that is held.
func (p *Pool) Give(stream uint32, mark uint64, b Block) error {
	p.lock()
	defer p.books.Unlock()
	return p.give(stream, mark, b)
}

func (p *Pool) give(stream uint32, mark uint64, b Block) error {
	err := p.space(b.Space).give(stream, mark, b.Range)
	if err == nil {
		p.countGive(b)
	}
	return err
}

// Trim takes memory from free segments that the device has come past, until so many bytes have any.
func (p *Pool) Trim(keep uint64) error {
	p.growing.Lock()
	defer p.growing.Unlock()
	p.source.Reap()
	backed, _ := p.bounds(0)
	before := p.counts.moved.Load()
	_, err := p.spare(0, backed-min(backed, keep/Unit))
	p.counts.trimmed.Add(p.counts.moved.Load() - before)
	return err
}

// Statistics are bytes, and how often things happened.
type Statistics struct {
	Reserved, Held, LargestFree uint64
	Sleeping                    uint64 // of segments that lost their memory until their partition wakes; not among the others
	Grown, Moved, Trimmed       uint64 // bytes that got memory, and that lost it, of these because of Trim
	Waits, Retries, Failures    uint64
	Misses                      uint64 // blocks for which segments had to get memory
}

// Statistics are those of now.
func (p *Pool) Statistics() Statistics {
	c := &p.counts
	s := Statistics{Grown: c.grown.Load(), Moved: c.moved.Load(), Trimmed: c.trimmed.Load(), Waits: c.waits.Load(),
		Retries: c.retries.Load(), Failures: c.failures.Load(), Misses: c.misses.Load()}
	p.lock()
	defer p.books.Unlock()
	all := p.sum()
	s.Reserved, s.Held, s.Sleeping = all.backed*Unit, all.held*Unit, all.sleeping*Unit
	for _, a := range p.partitions {
		for _, space := range a.spaces {
			if !a.gone {
				s.LargestFree = max(s.LargestFree, space.largestFree()*Unit)
			}
		}
	}
	return s
}

// Check walks everything. Errors: Internal.
func (p *Pool) Check() error {
	p.lock()
	defer p.books.Unlock()
	for number := range len(p.partitions) * Spaces {
		if err := p.space(number).check(); err != nil {
			return err
		}
	}
	return nil
}
