package residency

import (
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
)

// What is newer is what was changed, in whole granules, whatever the order; the last one ends with the page.
func TestNewerRanges(t *testing.T) {
	const size = 100_000
	random := rand.New(rand.NewPCG(3, 4))
	p := &pair{shift: granuleShift}
	model := make([]bool, (size+63)/64)
	for range 3000 {
		offset := random.Uint64N(size)
		length := min(random.Uint64N(300), size-offset)
		first, end := p.granules(offset, length)
		add := random.IntN(3) > 0
		if add {
			p.host.Add(first, end)
		} else {
			p.host.Remove(first, end)
		}
		if length > 0 {
			for granule := offset / 64; granule <= (offset+length-1)/64; granule++ {
				model[granule] = add
			}
		}
		require.Equal(t, add || length == 0, has(p.host, first, end))
	}
	got, last := make([]bool, len(model)), uint64(0)
	_, end := p.all(size)
	p.newer(p.host, 0, end, size, func(offset, length uint64) {
		require.Zero(t, offset%64)
		require.True(t, offset > last || last == 0, "ranges that touch are one")
		last = offset + length
		require.LessOrEqual(t, last, uint64(size))
		require.True(t, length%64 == 0 || last == size)
		for granule := offset / 64; granule <= (last-1)/64; granule++ {
			got[granule] = true
		}
	})
	require.Equal(t, model, got)
}

func TestGranulesOfLargePagesAreLarger(t *testing.T) {
	for size, shift := range map[uint64]uint8{1: 6, 1 << 20: 6, 1<<30 - 64: 6, 1 << 30: 7, 1 << 40: 17} {
		require.Equal(t, shift, shiftOf(size), "%d bytes", size)
		require.Less(t, size>>shiftOf(size), uint64(mostGranules))
	}
}

// BenchmarkNewer lists one percent of a page of 16 MiB that changed in runs of 256 bytes at any place.
func BenchmarkNewer(b *testing.B) {
	const size, run = 16 << 20, 256
	p := &pair{shift: granuleShift}
	random := rand.New(rand.NewPCG(1, 2))
	for range size / 100 / run {
		p.host.Add(p.granules(random.Uint64N(size-run), run))
	}
	host, ranges := make([]byte, size), 0
	list := make([]Transfer, 0, 1000)
	_, end := p.all(size)
	for b.Loop() {
		list = list[:0]
		p.newer(p.host, 0, end, size, func(offset, length uint64) {
			list = append(list, Transfer{uintptr(offset), host[offset:][:length], false})
		})
		ranges = len(list)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(ranges), "ns/range")
}

// What a sync to the device reads is one cache line of two.
func TestAPairIsTwoCacheLines(t *testing.T) {
	require.EqualValues(t, 128, unsafe.Sizeof(pair{}))
	require.EqualValues(t, 64, unsafe.Offsetof(pair{}.device))
}
