package native

import (
	"hash/crc32"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// Checksums of parts and of granules are those of the bytes, whatever the last part has.
func TestChecksumsOfParts(t *testing.T) {
	r := rand.NewChaCha8([32]byte{7})
	castagnoli := crc32.MakeTable(crc32.Castagnoli)
	bytes := make([]byte, ChunkBytes)
	_, _ = r.Read(bytes)
	for _, part := range []int{1, 7, 512, GranuleBytes} {
		for _, count := range []int{1, 2, 3, 40, 64} {
			for _, last := range []int{1, part/2 + 1, part} {
				length := (count-1)*part + last
				sums := make([]uint32, count)
				for i := range sums {
					sums[i] = crc32.Checksum(bytes[i*part:min((i+1)*part, length)], castagnoli)
				}
				require.Equal(t, crc32.Checksum(bytes[:length], castagnoli), JoinChecksums(sums, uint64(part), uint64(last)),
					"%d parts of %d bytes, the last has %d", count, part, last)
			}
		}
	}
	for _, length := range []int{1, GranuleBytes, GranuleBytes + 1, ChunkBytes - 1, ChunkBytes} {
		granules := r.Uint64()
		sums := make([]uint32, (length+GranuleBytes-1)/GranuleBytes)
		GranuleChecksums(bytes[:length], granules, sums)
		for i := range sums {
			want := uint32(0)
			if granules>>i&1 != 0 {
				want = crc32.Checksum(bytes[i*GranuleBytes:min((i+1)*GranuleBytes, length)], castagnoli)
			}
			require.Equal(t, want, sums[i], "granule %d of %d bytes", i, length)
		}
	}
	require.Panics(t, func() { GranuleChecksums(bytes[:GranuleBytes+1], 1, make([]uint32, 1)) })
}
