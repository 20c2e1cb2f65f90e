// The books as a list, for pictures and statistics.

package pool

import (
	"slices"

	"libmmsb/core/alloc"
)

// Piece is a part of what has memory: held by somebody, or free on a stream.
type Piece struct {
	Block
	Free   bool
	Stream uint32 // that it is free on
	Past   bool   // the device has come past the free
}

// Walk lists everything that has memory, by space and address, as it is at one moment: pieces that touch are of one stretch of
// segments. It waits until nobody gives segments memory or takes it away, and nobody does while use runs. The books are locked
// for some nanoseconds per piece, and not while use runs.
func (p *Pool) Walk(use func(all []Piece)) {
	p.growing.Lock()
	defer p.growing.Unlock()
	use(p.pieces())
}

func (p *Pool) pieces() (all []Piece) {
	p.lock()
	defer p.books.Unlock()
	for number := range len(p.partitions) * Spaces {
		if p.partitions[number/Spaces].gone {
			continue
		}
		first := len(all)
		all = p.space(number).walk(number, all, p.source.Done)
		slices.Reverse(all[first:])
	}
	return all
}

// walk appends what has memory, from the last to the first. Nothing is planned or spared.
func (s *space) walk(number int, all []Piece, done func(stream uint32) uint64) []Piece {
	gaps := make(map[uint64]bool, len(s.whole))
	for offset, count := range s.whole {
		gaps[s.gap(Range{offset, count}).Offset] = true
	}
	s.extents.Each(func(e alloc.Free, free bool) {
		if free && e.Bin == bare || !free && gaps[e.Offset] {
			return
		}
		piece := Piece{Block: Block{number, Range{e.Offset, e.Count}}, Free: free}
		if free {
			piece.Stream = e.Bin - 1
			piece.Past = e.Mark <= done(piece.Stream)
		}
		all = append(all, piece)
	})
	return all
}

// Tally is how much there is of something, the most there ever was, and all that came and went.
type Tally struct{ Current, Peak, Added, Removed uint64 }

// Flow is what the books have given out and taken back.
type Flow struct {
	Blocks, Held Tally // how many pieces are held, and their bytes
	Reserved     Tally // bytes that have memory

	// Free pieces of segments that are partly held, and their bytes: no Added and Removed, and the peak is that of the moments
	// when memory was missing, or Flows was called.
	Splits, SplitBytes Tally
}

// count is a Tally as the books keep it: little is written for each block.
type count struct{ current, peak, added uint64 }

func (c *count) add(amount uint64) {
	c.current += amount
	c.added += amount
	c.peak = max(c.peak, c.current)
}

func (c *count) set(current uint64) {
	c.current = current
	c.peak = max(c.peak, current)
}

func (c *count) tally(unit uint64) Tally {
	return Tally{c.current * unit, c.peak * unit, c.added * unit, (max(c.added, c.current) - c.current) * unit}
}

// flow is of one kind of spaces, in units, under the books' lock. What is held counts also where its partition sleeps.
type flow struct{ blocks, held, reserved, splits, splitUnits count }

func (p *Pool) countTake(b *Block, ok bool) {
	if ok {
		f := &p.flows[b.Space%Spaces]
		f.blocks.added++
		f.held.added += b.Count
		p.countIn(b.Space, b.Count)
	}
}

// countIn is countTake of a block that others have counted among those that came.
func (p *Pool) countIn(space int, units uint64) {
	f := &p.flows[space%Spaces]
	f.blocks.current++
	f.blocks.peak = max(f.blocks.peak, f.blocks.current)
	f.held.current += units
	f.held.peak = max(f.held.peak, f.held.current)
	p.peaks.blocks.peak = max(p.peaks.blocks.peak, p.flows[Small].blocks.current+p.flows[Large].blocks.current)
	p.peaks.held.peak = max(p.peaks.held.peak, p.flows[Small].held.current+p.flows[Large].held.current)
}

func (p *Pool) countGive(b Block) {
	f := &p.flows[b.Space%Spaces]
	f.blocks.current--
	f.held.current -= b.Count
}

// noteSplits notes how much is free in segments that are partly held: when memory is missing, which is when such pieces matter,
// and for Flows. The books are locked.
func (p *Pool) noteSplits() {
	var all [Spaces]alloc.Parts
	for number := range len(p.partitions) * Spaces {
		if !p.partitions[number/Spaces].gone {
			parts := p.space(number).extents.Parts()
			all[number%Spaces].Extents += parts.Extents
			all[number%Spaces].Units += parts.Units
		}
	}
	for i := range all {
		p.flows[i].splits.set(all[i].Extents)
		p.flows[i].splitUnits.set(all[i].Units)
	}
	p.peaks.splits.peak = max(p.peaks.splits.peak, all[Small].Extents+all[Large].Extents)
	p.peaks.splitUnits.peak = max(p.peaks.splitUnits.peak, all[Small].Units+all[Large].Units)
}

func (p *Pool) backed(space int, units uint64) {
	p.flows[space%Spaces].reserved.add(units)
	p.peaks.reserved.peak = max(p.peaks.reserved.peak, p.flows[Small].reserved.current+p.flows[Large].reserved.current)
}

func (p *Pool) bared(space int, units uint64) { p.flows[space%Spaces].reserved.current -= units }

// Flows are those of small and of large requests, and of all.
func (p *Pool) Flows() (spaces [Spaces]Flow, all Flow) {
	p.lock()
	defer p.books.Unlock()
	p.noteSplits()
	both := p.peaks
	for i := range spaces {
		f := &p.flows[i]
		spaces[i] = f.inBytes()
		for _, sum := range []struct{ of, from *count }{{&both.blocks, &f.blocks}, {&both.held, &f.held},
			{&both.reserved, &f.reserved}, {&both.splits, &f.splits}, {&both.splitUnits, &f.splitUnits}} {
			sum.of.current += sum.from.current
			sum.of.added += sum.from.added
		}
	}
	return spaces, both.inBytes()
}

func (f *flow) inBytes() Flow {
	return Flow{Blocks: f.blocks.tally(1), Held: f.held.tally(Unit), Reserved: f.reserved.tally(Unit),
		Splits:     Tally{Current: f.splits.current, Peak: f.splits.peak},
		SplitBytes: Tally{Current: f.splitUnits.current * Unit, Peak: f.splitUnits.peak * Unit}}
}
