package native_test

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"libmmsb/native"
)

// The table against a map: ids that come and go, many of them neighbours.
func TestPagesByID(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	pages, expected := native.NewByID(0), make(map[uint64]uint64)
	for step := range 40000 {
		id := 1 + random.Uint64N(600)
		if random.IntN(3) == 0 {
			id |= 0xa << 60
		}
		if random.IntN(5) < 2 {
			pages.Remove(id)
			delete(expected, id)
		} else {
			pages.Put(id, uint64(step))
			expected[id] = uint64(step)
		}
		page, ok := pages.Find(id)
		want, there := expected[id]
		require.Equal(t, there, ok)
		require.Equal(t, want, page)
		require.Equal(t, len(expected), pages.Len())
		if step%1000 == 0 {
			found := make(map[uint64]uint64)
			pages.All(func(id, page uint64) { found[id] = page })
			require.Equal(t, expected, found)
			for id, want := range expected {
				page, ok := pages.Find(id)
				require.True(t, ok)
				require.Equal(t, want, page)
			}
		}
	}
}

// Ids are often numbered, at any distance: whatever the factor, a search looks at few slots.
func TestIDsThatAreNumberedAreSpread(t *testing.T) {
	for shift := range 64 {
		for range 4 {
			pages := native.NewByID(1 << 12)
			for number := range uint64(1) << min(12, 64-shift) {
				pages.Put((number<<shift)|1<<min(shift, 63), number)
			}
			require.Less(t, pages.Probes(), 4*pages.Len(), "distance 1 << %d", shift)
		}
	}
}
