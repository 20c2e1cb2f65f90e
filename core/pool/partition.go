// Partitions: parts of a pool whose segments hold blocks of nobody else, so that their memory can go and come as a whole.

package pool

import (
	"cmp"
	"math"
	"slices"

	"libmmsb/core/alloc"
	"libmmsb/core/status"
)

// MostPartitions is how many partitions a pool has, the ordinary one included.
const MostPartitions = 32

// partition is a range of addresses for small requests and one for large ones. The first one of a pool is the ordinary one.
type partition struct {
	name   string
	spaces [Spaces]*space
	state  state
	fixed  bool // its free segments keep their memory: work that was captured uses it at any time
	gone   bool // its segments have no memory: it sleeps
}

// state is who may take from a partition.
type state uint8

const (
	awake  state = iota
	moving       // its memory goes or comes
	asleep
	ended // its last blocks are awaited; then its addresses are another's
)

func newPartition(name string, bytes [Spaces]uint64) *partition {
	a := &partition{name: name}
	for i := range a.spaces {
		a.spaces[i] = newSpace(bytes[i]/Unit, segmentBytes/Unit)
	}
	return a
}

// usable says whether blocks of the partition may be taken and used. Errors: Busy, InvalidState.
func (a *partition) usable() error {
	switch a.state {
	case moving:
		return status.Errorf(status.Busy, "memory of %s is going or coming", a.name)
	case asleep:
		return status.Errorf(status.InvalidState, "%s sleeps", a.name)
	}
	return nil
}

func (a *partition) held() uint64 { return a.spaces[Small].live + a.spaces[Large].live }

// spares says whether free segments may lose their memory to others.
func (a *partition) spares() bool { return !a.fixed && (a.state == awake || a.state == ended) }

// Open makes a partition: one that has ended and holds nothing any more, or another one, for which reserve gets addresses and
// says how many bytes they are. fixed: its free segments keep their memory until End. Errors: Limit, those of reserve.
func (p *Pool) Open(name string, fixed bool, reserve func(partition int) ([Spaces]uint64, error)) (int, error) {
	p.growing.Lock()
	defer p.growing.Unlock()
	p.lock()
	number := slices.IndexFunc(p.partitions, func(a *partition) bool { return a.state == ended && a.held() == 0 })
	if number >= 0 {
		a := p.partitions[number]
		a.name, a.fixed, a.state = name, fixed, awake
	}
	count := len(p.partitions)
	p.books.Unlock()
	switch {
	case number >= 0:
		return number, nil
	case count == MostPartitions:
		return 0, status.Errorf(status.Limit, "all %d partitions of the pool are in use", MostPartitions)
	}
	bytes, err := reserve(count)
	if err != nil {
		return 0, err
	}
	a := newPartition(name, bytes)
	a.fixed = fixed
	p.lock()
	defer p.books.Unlock()
	p.partitions = append(p.partitions, a)
	return count, nil
}

// End says that nothing is taken from a partition any more. Its blocks stay until they are given back; its free segments serve
// all.
func (p *Pool) End(number int) {
	p.growing.Lock()
	defer p.growing.Unlock()
	p.lock()
	defer p.books.Unlock()
	p.partitions[number].state, p.partitions[number].fixed = ended, false
}

// Usable says whether blocks of a partition may be used. Errors: Busy, InvalidState.
func (p *Pool) Usable(number int) error {
	p.lock()
	defer p.books.Unlock()
	return p.partitions[number].usable()
}

// Rest stops what takes from partitions that are awake, or that sleep, until Settle: their memory goes or comes. All of them or
// none. Errors: Busy, InvalidState.
func (p *Pool) Rest(numbers []int, sleeping bool) error {
	p.growing.Lock() // nothing is on its way to a segment of theirs
	defer p.growing.Unlock()
	p.lock()
	defer p.books.Unlock()
	for _, number := range numbers {
		a := p.partitions[number]
		switch {
		case a.state == moving || !sleeping && a.state == asleep:
			return a.usable()
		case sleeping && a.state == awake:
			return status.Errorf(status.InvalidState, "%s does not sleep", a.name)
		}
	}
	for _, number := range numbers {
		p.partitions[number].state = moving
	}
	return nil
}

// Settle ends what Rest began: the partitions sleep, or are awake.
func (p *Pool) Settle(numbers []int, sleeping bool) {
	p.lock()
	defer p.books.Unlock()
	for _, number := range numbers {
		p.partitions[number].state = awake
		if sleeping {
			p.partitions[number].state = asleep
		}
	}
}

// Name is a partition's.
func (p *Pool) Name(number int) string {
	p.lock()
	defer p.books.Unlock()
	return p.partitions[number].name
}

// HeldIn is what is held in a partition, in the order of addresses, neighbours as one.
func (p *Pool) HeldIn(number int) (held []Block) {
	p.lock()
	defer p.books.Unlock()
	for i, s := range p.partitions[number].spaces {
		for _, r := range s.held() {
			held = append(held, Block{number*Spaces + i, r})
		}
	}
	return held
}

// HeldBytes is how many bytes these are.
func (p *Pool) HeldBytes(number int) uint64 {
	p.lock()
	defer p.books.Unlock()
	return p.partitions[number].held() * Unit
}

// Sleep takes the memory of partitions that rest away. bare does that to all of the segments, or fails and has changed nothing.
// Others go on meanwhile: nobody takes or gives segments of a partition that rests.
func (p *Pool) Sleep(numbers []int, bare func(segments []Block) error) error {
	segments, _, _ := p.segmentsOf(numbers, false)
	if err := bare(segments); err != nil {
		return err
	}
	p.growing.Lock()
	defer p.growing.Unlock()
	p.mark(numbers, true)
	return nil
}

// Wake gives memory to the segments of partitions that rest and have none, but for those that nobody holds a part of any more.
// back does that to all of the segments, or fails and has changed nothing. Free segments of others lose theirs where that is
// needed. Errors: OutOfMemory and Limit, with the numbers, those of back.
func (p *Pool) Wake(numbers []int, back func(segments []Block) error) error {
	p.growing.Lock()
	defer p.growing.Unlock()
	p.source.Reap()
	segments, units, held := p.segmentsOf(numbers, true)
	for all := false; ; all = true {
		backed, allowed := p.bounds(held)
		if limit := p.options.Limit / Unit; limit > 0 {
			allowed = min(allowed, limit)
		}
		excess := backed + units - min(allowed, backed+units)
		if all {
			excess = math.MaxUint64
		}
		if excess > 0 {
			if _, err := p.spare(0, excess); err != nil {
				return err
			}
		}
		err := p.backAll(segments, units, back)
		if err == nil {
			break
		}
		if all || !lacks(err) {
			return err
		}
		p.counts.retries.Add(1)
	}
	p.counts.grown.Add(units * Unit)
	p.mark(numbers, false)
	return nil
}

func (p *Pool) backAll(segments []Block, units uint64, back func(segments []Block) error) error {
	if limit := p.options.Limit / Unit; limit > 0 {
		if backed, _ := p.bounds(0); backed+units > limit {
			return p.noSpace(units, "what wakes", status.Limit, "the limit would be exceeded")
		}
	}
	err := back(segments)
	if lacks(err) {
		err = p.noSpace(units, "what wakes", status.CodeOf(err), status.Of(err).Text)
	}
	return err
}

// segmentsOf are the segments of partitions that have memory, or that lost it, how many units these are, and how many are held.
func (p *Pool) segmentsOf(numbers []int, gone bool) (segments []Block, units, held uint64) {
	p.lock()
	defer p.books.Unlock()
	for _, number := range numbers {
		a := p.partitions[number]
		if a.gone != gone { // a wake before could not take the memory away again
			continue
		}
		held += a.held()
		for i, s := range a.spaces {
			if gone {
				s.dropFree()
			}
			for _, r := range s.segmentsInUse() {
				segments = append(segments, Block{number*Spaces + i, r})
			}
			units += s.backed
		}
	}
	return segments, units, held
}

func (p *Pool) mark(numbers []int, gone bool) {
	p.lock()
	defer p.books.Unlock()
	for _, number := range numbers {
		a := p.partitions[number]
		for i, s := range a.spaces {
			switch {
			case gone && !a.gone:
				p.bared(i, s.backed)
			case a.gone && !gone:
				p.backed(i, s.backed)
			}
		}
		a.gone = gone
	}
}

// sums are units of all partitions.
type sums struct{ backed, held, sleeping uint64 }

// sum is how many units have memory, are held of these, and have lost it until their partition wakes.
func (p *Pool) sum() (all sums) {
	for _, a := range p.partitions {
		backed := a.spaces[Small].backed + a.spaces[Large].backed
		if a.gone {
			all.sleeping += backed
			continue
		}
		all.backed, all.held = all.backed+backed, all.held+a.held()
	}
	return all
}

// held is what callers hold, in the order of addresses, neighbours as one. Nothing may be planned.
func (s *space) held() (held []Range) {
	var all []Range
	s.extents.EachAllocated(func(offset, count uint64) { all = append(all, Range{offset, count}) })
	slices.SortFunc(all, func(a, b Range) int { return cmp.Compare(a.Offset, b.Offset) })
	for _, r := range all {
		if last := len(held) - 1; last >= 0 && held[last].Offset+held[last].Count == r.Offset {
			held[last].Count += r.Count
			continue
		}
		held = append(held, r)
	}
	return held
}

// segmentsInUse is what is not bare, in the order of addresses. Nothing may be planned.
func (s *space) segmentsInUse() (used []Range) {
	holes := s.extents.FreeIn(bare)
	slices.SortFunc(holes, func(a, b alloc.Free) int { return cmp.Compare(a.Offset, b.Offset) })
	at := uint64(0)
	for _, hole := range append(holes, alloc.Free{Offset: s.extents.Limit()}) {
		if hole.Offset > at {
			used = append(used, Range{at, hole.Offset - at})
		}
		at = hole.Offset + hole.Count
	}
	return used
}

// dropFree makes whole free segments bare, whose memory is gone. Nobody's work is still to come there.
func (s *space) dropFree() {
	done := func(uint32) uint64 { return math.MaxUint64 }
	s.gather(0, done)
	for _, r := range s.spare(s.extents.Limit(), done, func(at uint64) Range { return Range{at, s.segment} }) {
		s.leave(r)
	}
}
