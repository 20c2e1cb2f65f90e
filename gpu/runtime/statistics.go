// The adaptor that counts bytes and blocks, in all and by tag.

package runtime

import (
	"libmmsb/core/pool"
	"libmmsb/gpu/blocks"
)

// Statistics is an adaptor that counts bytes and blocks, in all and by tag. C counts in the same memory.
type Statistics struct {
	over
	tallies *blocks.Tallies
	streams *streamTable // which have counted allocations that did not enter Go; nil = none
}

// Over implements Adaptor.
func (s *Statistics) Over(below Layer, host Host) error {
	if err := s.over.Over(below, host); err != nil {
		return err
	}
	var err error
	s.tallies, err = newTallies()
	return err
}

func add(t *blocks.Tally, bytes uint64) {
	live := t.Live.Add(bytes)
	for peak := t.Peak.Load(); live > peak && !t.Peak.CompareAndSwap(peak, live); {
		peak = t.Peak.Load()
	}
	t.Total.Add(bytes)
	t.Blocks.Add(1)
	t.Ever.Add(1)
}

func remove(t *blocks.Tally, bytes uint64) {
	given(bytes, t.Live.Add(-bytes))
	t.Blocks.Add(^uint64(0))
}

// Tally is what was counted: bytes and blocks whose memory is not released, the most bytes there ever were, all there were, and
// requests that failed.
type Tally struct {
	Live, Peak, Total    uint64
	Blocks, Ever, Failed uint64
}

func read(t *blocks.Tally) Tally {
	return Tally{Live: t.Live.Load(), Peak: t.Peak.Load(), Total: t.Total.Load(), Blocks: t.Blocks.Load(), Ever: t.Ever.Load(),
		Failed: t.Refused.Load()}
}

// spaceOf is the size of a request: pool.Small or pool.Large.
func spaceOf(bytes uint64) int {
	if bytes <= pool.MostSmall {
		return pool.Small
	}
	return pool.Large
}

func (s *Statistics) of(tag Tag) *blocks.Tally { return &s.tallies.Tag[tag%mostTags] }

// Allocate implements Layer.
func (s *Statistics) Allocate(request Request) (Memory, error) {
	memory, err := s.below.Allocate(request)
	if err != nil {
		s.tallies.All.Refused.Add(1)
		s.of(request.Tag).Refused.Add(1)
		return memory, err
	}
	add(&s.tallies.All, memory.Bytes)
	add(s.of(memory.Tag), memory.Bytes)
	add(&s.tallies.Size[spaceOf(memory.Bytes)], memory.Bytes)
	return memory, nil
}

// Released implements Layer.
func (s *Statistics) Released(memory Memory) {
	s.below.Released(memory)
	remove(&s.tallies.All, memory.Bytes)
	remove(s.of(memory.Tag), memory.Bytes)
	remove(&s.tallies.Size[spaceOf(memory.Bytes)], memory.Bytes)
}

// Close implements Layer. What was counted can be read until another runtime begins.
func (s *Statistics) Close() error {
	s.tallies.End()
	return s.over.Close()
}

// All is the tally of everything.
func (s *Statistics) All() Tally {
	t := read(&s.tallies.All)
	for _, stream := range s.quick() {
		t.Ever += stream.Allocations.Load()
		t.Total += stream.Allocated.Load()
	}
	return t
}

// OfTag is the tally of one tag.
func (s *Statistics) OfTag(tag Tag) Tally {
	t := read(s.of(tag))
	for _, stream := range s.quick() {
		ever, total := stream.Counted(uint32(tag))
		t.Ever, t.Total = t.Ever+ever, t.Total+total
	}
	return t
}

// OfSize is the tally of small or of large requests: pool.Small, pool.Large. What was refused is not in it.
func (s *Statistics) OfSize(space int) Tally {
	t := read(&s.tallies.Size[space])
	for _, stream := range s.quick() {
		t.Ever += stream.Hits[space].Blocks.Load()
		t.Total += stream.Hits[space].Bytes.Load()
	}
	return t
}

// Hits are allocations that did not enter Go, of small or of large requests, and the bytes of their blocks.
func (r *Runtime) Hits(space int) (count, bytes uint64) {
	for _, stream := range r.streams.quick() {
		count += stream.Hits[space].Blocks.Load()
		bytes += stream.Hits[space].Units.Load() * pool.Unit
	}
	return count, bytes
}

func (s *Statistics) quick() []*blocks.Stream {
	if s.streams == nil {
		return nil
	}
	return s.streams.quick()
}
