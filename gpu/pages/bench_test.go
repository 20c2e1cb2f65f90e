package pages

import (
	"testing"

	"github.com/stretchr/testify/require"

	"libmmsb/core/abi"
	"libmmsb/core/page"
	"libmmsb/core/residency"
	"libmmsb/gpu/sim"
)

// BenchmarkSync syncs a thousand pages of 4 KiB that are newer on the host, on a device that takes no time.
func BenchmarkSync(b *testing.B) {
	for name, location := range map[string]int32{"host": abi.LocationCPU, "pinned": abi.LocationPinned} {
		b.Run(name, func(b *testing.B) {
			onDevices(&testing.T{}, sim.Options{Unchecked: true}, func(w *world) {
				var pages []uint64
				for range 16384 {
					pages = append(pages, w.create(location, 0, 4096))
				}
				content := string(make([]byte, 4096))
				for b.Loop() {
					b.StopTimer()
					for _, handle := range pages {
						w.write(handle, 0, content)
					}
					b.StartTimer()
					_, err := page.SyncMany(pages, residency.ToDevice, 0, nil, nil)
					require.NoError(b, err)
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(pages)), "ns/page")
			})
		})
	}
}

// BenchmarkPlan plans the way of one percent of a page, in runs of 256 bytes that lie apart.
func BenchmarkPlan(b *testing.B) {
	const ranges, length = 1000, 256
	host := make([]byte, ranges*length)
	list, again := make([]residency.Transfer, ranges), make([]residency.Transfer, ranges)
	for i := range list {
		list[i] = residency.Transfer{Device: uintptr(1<<30 + i*100*length), Host: host[i*length:][:length]}
	}
	onDevices(&testing.T{}, sim.Options{Unchecked: true}, func(w *world) {
		set, err := SetOf(w.context)
		require.NoError(b, err)
		shared, err := set.Shared(0)
		require.NoError(b, err)
		d := &device{runtime: shared}
		d.turn.L = &d.mutex
		l, err := d.take()
		require.NoError(b, err)
		planned, s := 0, &step{lane: l} // to the host: nothing is copied into the staging memory
		for b.Loop() {
			copy(again, list)
			require.Empty(b, s.pack(again, usualThreshold))
			s.plan(s.open, usualThreshold)
			planned = len(s.spans)
			s.clear()
		}
		require.Equal(b, ranges, planned)
		d.give(l)
		d.close()
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/ranges, "ns/range")
	})
}
