package metadata_test

import (
	"math/rand/v2"
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
