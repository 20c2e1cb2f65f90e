package metadata_test

import (
	"encoding/binary"
	"math/rand/v2"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"libmmsb/core/metadata"
)

// inPieces looks at a blob that comes in pieces.
func inPieces(blob []byte, stored int, cut func() int) (count int, rounds int, err error) {
	var v metadata.Validator
	for {
		rounds++
		for left := blob; len(left) > 0; {
			n := min(max(cut(), 1), len(left))
			if err := v.Add(left[:n], stored); err != nil {
				return 0, rounds, err
			}
			left = left[n:]
		}
		count, again, err := v.End()
		if err != nil || !again {
			return count, rounds, err
		}
	}
}

// TestPiecesAreLikeTheWhole compares the answers to blobs that are good, damaged anywhere, or cut.
func TestPiecesAreLikeTheWhole(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 13))
	good := 0
	for range 20000 {
		var fields []string
		n := random.IntN(12)
		for i := range n {
			fields = append(fields, strings.Repeat("ä€x\U0001F600", random.IntN(3))+strconv.Itoa(i),
				strings.Repeat("v", random.IntN(9)))
		}
		blob := build(uint32(n), fields...)
		switch random.IntN(4) {
		case 0:
			blob[random.IntN(len(blob))] = byte(random.Uint32())
		case 1:
			blob = blob[:random.IntN(len(blob)+1)]
		}
		want, wantErr := metadata.Validate(blob)
		got, _, err := inPieces(blob, 0, func() int { return random.IntN(6) })
		require.Equal(t, wantErr, err, "%q", blob)
		require.Equal(t, want, got)
		if err == nil {
			good++
		}
	}
	assert.Greater(t, good, 8000)
}

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
	const n = 1_800_000
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
