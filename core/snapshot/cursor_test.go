package snapshot

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestPagesComeInPartsOfAnySize(t *testing.T) {
	paths, states := chain(t, t.TempDir(), Uncompressed)
	for number, path := range paths {
		s := openPath(t, path)
		var all []Page
		for page, err := range s.Pages() {
			require.NoError(t, err)
			all = append(all, page)
		}
		require.Len(t, all, len(states[number].pages))
		for capacity := 1; capacity <= len(all)+1; capacity++ {
			var listed []Page
			cursor := uint64(0)
			for {
				part := make([]Page, capacity)
				n, next, err := s.PagesFrom(cursor, part)
				require.NoError(t, err)
				if n == 0 {
					break
				}
				listed, cursor = append(listed, part[:n]...), next
			}
			require.ElementsMatch(t, all, listed)
		}
	}
}

func TestACursorThatWasNeverGivenIsNoHarm(t *testing.T) {
	paths, _ := chain(t, t.TempDir(), Zstd)
	s := openPath(t, paths[2])
	for _, cursor := range []uint64{1, 1 << 31, 1<<32 - 1, 1 << 32, 1<<32 | 77, 1 << 40, math.MaxUint64} {
		n, _, err := s.PagesFrom(cursor, make([]Page, 1000))
		require.NoError(t, err)
		assert.LessOrEqual(t, n, int(s.Totals().StatePages))
	}
}

func TestTablesAreKeptUpToALimit(t *testing.T) {
	cache := tableCache{most: tableCacheBytes}
	small := &table{pages: make([]Page, 1000)}
	for segment := range uint32(500) {
		cache.put(segment, small)
	}
	for segment := range uint32(500) {
		require.NotNil(t, cache.get(segment), "segment %d", segment)
	}
	large := &table{extents: make([]Extent, 100_000)}
	for segment := range uint32(100) {
		cache.put(1000+segment, large)
		require.LessOrEqual(t, cache.bytes, uint64(tableCacheBytes))
		require.NotNil(t, cache.get(1000+segment))
	}
	require.Nil(t, cache.get(0))
	sum := uint64(0)
	for _, kept := range cache.tables {
		sum += kept.bytes()
	}
	require.Equal(t, sum, cache.bytes)
	require.Len(t, cache.order, len(cache.tables))
}
