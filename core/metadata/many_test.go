//go:build !race

package metadata_test

// Nothing runs at the same time here.

import (
	"encoding/binary"
	"runtime"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"libmmsb/core/metadata"
)

// many is a blob of n keys; the last one is that of a number.
func many(n, last int) []byte {
	blob := binary.LittleEndian.AppendUint32(nil, uint32(n))
	for i := range n {
		if i == n-1 {
			i = last
		}
		blob = append(blob, 7, 0, 0, 0)
		blob = append(blob, strconv.Itoa(1000000+i)...)
		blob = append(blob, 0, 0, 0, 0)
	}
	return blob
}

func TestManyKeysTakeLittleMemory(t *testing.T) {
	const n = 1_200_000
	blob := many(n, n-1)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	count, rounds, err := inPieces(blob, 0, func() int { return 256 << 10 })
	runtime.ReadMemStats(&after)
	require.NoError(t, err)
	assert.Equal(t, n, count)
	assert.Greater(t, rounds, 1, "the set lets go of keys")
	assert.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(96<<20))
	_, err = metadata.Validate(blob)
	require.NoError(t, err)
	for _, twice := range []int{0, n - 2} {
		_, _, err := inPieces(many(n, twice), 0, func() int { return 256 << 10 })
		assert.ErrorContains(t, err, "repeats the key", "%d", twice)
	}
}
