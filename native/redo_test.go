package native_test

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"libmmsb/native"
)

// The table of a replay against a map: ids that come and go, many of them neighbours.
func TestThePagesOfAReplay(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	pages, expected := native.NewRedoPages(0), make(map[uint64]uint32)
	for step := range 40000 {
		id := 1 + random.Uint64N(600)
		if random.IntN(3) == 0 {
			id |= 0xa << 60
		}
		if random.IntN(5) < 2 {
			pages.Remove(id)
			delete(expected, id)
		} else {
			pages.Put(id, uint32(step))
			expected[id] = uint32(step)
		}
		index, ok := pages.Find(id)
		want, there := expected[id]
		require.Equal(t, there, ok)
		require.Equal(t, want, index)
		if step%1000 == 0 {
			found := make(map[uint64]uint32)
			pages.All(func(id uint64, index uint32) { found[id] = index })
			require.Equal(t, expected, found)
			for id, want := range expected {
				index, ok := pages.Find(id)
				require.True(t, ok)
				require.Equal(t, want, index)
			}
		}
	}
}
