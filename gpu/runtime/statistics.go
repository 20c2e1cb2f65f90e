// The adaptor that counts bytes and blocks, in all and by tag.

package runtime

import (
	"sync/atomic"
)

// Statistics is an adaptor that counts bytes and blocks, in all and by tag.
type Statistics struct {
	over
	all   tally
	byTag [mostTags]atomic.Pointer[tally]
}

// tally is counted without a lock. Live bytes are those whose memory was not released yet.
type tally struct {
	live, peak, total atomic.Uint64 // bytes
	blocks, ever      atomic.Uint64
	refused           atomic.Uint64
}

func (t *tally) add(bytes uint64) {
	live := t.live.Add(bytes)
	for peak := t.peak.Load(); live > peak && !t.peak.CompareAndSwap(peak, live); {
		peak = t.peak.Load()
	}
	t.total.Add(bytes)
	t.blocks.Add(1)
	t.ever.Add(1)
}

func (t *tally) remove(bytes uint64) {
	given(bytes, t.live.Add(-bytes))
	t.blocks.Add(^uint64(0))
}

// Tally is what was counted: bytes and blocks whose memory is not released, the most bytes there ever were, all there were, and
// requests that failed.
type Tally struct {
	Live, Peak, Total    uint64
	Blocks, Ever, Failed uint64
}

func (t *tally) read() Tally {
	return Tally{Live: t.live.Load(), Peak: t.peak.Load(), Total: t.total.Load(), Blocks: t.blocks.Load(), Ever: t.ever.Load(),
		Failed: t.refused.Load()}
}

func (s *Statistics) of(tag Tag) *tally {
	at := &s.byTag[tag%mostTags]
	if t := at.Load(); t != nil {
		return t
	}
	at.CompareAndSwap(nil, new(tally))
	return at.Load()
}

// Allocate implements Layer.
func (s *Statistics) Allocate(request Request) (Memory, error) {
	memory, err := s.below.Allocate(request)
	if err != nil {
		s.all.refused.Add(1)
		s.of(request.Tag).refused.Add(1)
		return memory, err
	}
	s.all.add(memory.Bytes)
	s.of(memory.Tag).add(memory.Bytes)
	return memory, nil
}

// Released implements Layer.
func (s *Statistics) Released(memory Memory) {
	s.below.Released(memory)
	s.all.remove(memory.Bytes)
	s.of(memory.Tag).remove(memory.Bytes)
}

// All is the tally of everything.
func (s *Statistics) All() Tally { return s.all.read() }

// OfTag is the tally of one tag.
func (s *Statistics) OfTag(tag Tag) Tally { return s.of(tag).read() }
