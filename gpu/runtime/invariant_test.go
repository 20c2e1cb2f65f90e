//go:build invariants

package runtime

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"libmmsb/gpu/blocks"
	"libmmsb/gpu/sim"
)

func TestMoreGivenBackThanChargedIsFoundAtOnce(t *testing.T) {
	l := NewLedger(100)
	_, ok, _ := l.Take(10)
	require.True(t, ok)
	assert.PanicsWithError(t, "invariant broken: 11 bytes exceed the 10 that are charged", func() { l.Give(11) })
}

// recorded is a block that no table has.
func recorded(what uint32, s *Stream, bytes uint64) *block {
	r := &blocks.Record{Bytes: bytes}
	r.State.Store(blocks.State(1, what))
	return &block{record: r, stream: s}
}

func TestABlockThatBreaksItsLifeIsFoundAtOnce(t *testing.T) {
	w := newWorld(t, sim.Options{}, 1)
	s := w.streams[0]
	assert.Panics(t, func() { recorded(blocks.Live, nil, 0).begin(Memory{}, s, false) }, "a slot in use begins again")
	assert.Panics(t, func() { recorded(blocks.Live, s, 0).released(s) }, "a live block is released")
	assert.Panics(t, func() { recorded(blocks.Live, s, 0).endUse(s, Read) }, "a use ends that was not begun")
	handle, _, err := w.allocate(0, 256)
	require.NoError(t, err)
	assert.Panics(t, func() { recorded(blocks.Live, s, 257).countFree() }, "more is freed than allocated")
	w.runtime.bytes.freed.Add(^uint64(256))
	_, err = freeBlock(handle, nil)
	require.NoError(t, err)
}

func TestFreesOutOfOrderAreFoundAtOnce(t *testing.T) {
	w := newWorld(t, sim.Options{}, 1)
	s := w.streams[0]
	q := &s.frees
	q.queued = append(q.queued, queuedFree{number: s.queued.Load() + 5})
	assert.Panics(t, func() { s.pushFree(&block{}) })
	q.queued = nil
}
