package runtime

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"libmmsb/core/status"
	"libmmsb/gpu/blocks"
	"libmmsb/gpu/sim"
)

// Each kind of damage must be seen: a walk that sees nothing proves nothing. Each is undone, so that the runtime can end.
func TestCheckSeesDamage(t *testing.T) {
	w := newWorld(t, sim.Options{}, 1)
	handle, _, err := w.allocate(0, 256)
	require.NoError(t, err)
	require.NoError(t, w.runtime.Check())
	b, err := allBlocks.find(handle)
	require.NoError(t, err)
	slots := &w.streams[0].frees.slots

	for text, damage := range map[string]func() (undo func()){
		"1 of 257 and 0 are counted": func() func() {
			w.runtime.bytes.allocated.Add(1)
			return func() { w.runtime.bytes.allocated.Add(^uint64(0)) }
		},
		"0 bytes live and 256 bytes are pending": func() func() {
			b.set(blocks.Queued)
			return func() { b.set(blocks.Held) }
		},
		"has state 2": func() func() {
			*slots = append(*slots, b.index)
			return func() { *slots = (*slots)[:len(*slots)-1] }
		},
		"free twice: true": func() func() {
			*slots = append(*slots, (*slots)[0])
			return func() { *slots = (*slots)[:len(*slots)-1] }
		},
	} {
		undo := damage()
		err := w.runtime.Check()
		undo()
		assert.Equal(t, status.Internal, status.CodeOf(err), text)
		assert.ErrorContains(t, err, text)
		require.NoError(t, w.runtime.Check(), text)
	}
	assert.ErrorContains(t, w.runtime.checkEnded(), "256 bytes are outstanding: 256 live, 0 pending")
	_, err = freeBlock(handle, nil)
	require.NoError(t, err)
}
