package runtime

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"libmmsb/core/pool"
	"libmmsb/gpu/sim"
)

// The host's cost of the runtime, on a device that takes no time.

func BenchmarkAllocateAndFree(b *testing.B) {
	for _, live := range []int{100, 100_000} {
		b.Run(fmt.Sprintf("%d live", live), func(b *testing.B) {
			w := newWorld(b, sim.Options{Memory: 1 << 34, Unchecked: true}, 1, NewBudget(NewLedger(1<<40)), &Statistics{})
			var handles []uint64
			for range live {
				handle, _, err := w.allocate(0, 4096)
				require.NoError(b, err)
				handles = append(handles, handle)
			}
			b.ResetTimer()
			for range b.N {
				handle, _, err := w.allocate(0, 4096)
				if err == nil {
					_, err = freeBlock(handle, nil)
				}
				if err != nil {
					b.Fatal(err)
				}
			}
			b.StopTimer()
			for _, handle := range handles {
				_, err := freeBlock(handle, nil)
				require.NoError(b, err)
			}
		})
	}
}

func BenchmarkUse(b *testing.B) {
	w := newWorld(b, sim.Options{Unchecked: true}, 1)
	handle, _, err := w.allocate(0, 4096)
	require.NoError(b, err)
	b.ResetTimer()
	for range b.N {
		use, _, err := BeginUse(w.streams[0], Use{Block: handle, Access: ReadWrite})
		if err == nil {
			err = EndUse(use)
		}
		if err != nil {
			b.Fatal(err)
		}
	}
	b.StopTimer()
	_, err = freeBlock(handle, nil)
	require.NoError(b, err)
}

// On streams of others: of the runtime's own, of one that lasts, and of one that may be destroyed after each call.
func BenchmarkStreamsOfOthers(b *testing.B) {
	w := newPooled(b, sim.Options{Memory: 1 << 30, Unchecked: true}, 1, pool.Options{})
	native := uintptr(w.streams[0].native)
	for _, c := range []struct {
		name string
		pair func() error
	}{
		{"own", func() error {
			handle, _, err := w.allocate(0, 4096)
			if err == nil {
				_, err = Free(handle, nil)
			}
			return err
		}},
		{"lasting", func() error { return w.pairOn(native, true) }},
		{"passing", func() error { return w.pairOn(native, false) }},
	} {
		b.Run(c.name, func(b *testing.B) {
			for range b.N {
				if err := c.pair(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func (w *world) pairOn(native uintptr, lasting bool) error {
	handle, _, err := w.runtime.AllocateOn(native, lasting, Request{Bytes: 4096})
	if err == nil {
		err = w.runtime.FreeOn(handle, native, lasting)
	}
	return err
}

// A model of an H100, 64 times as slow: the rate of its copies, what pinning took there, and what others have published that an
// A100 takes to create, map, unmap and release 2 MiB. A call that maps 16 MiB allows access once.
func BenchmarkSleepModel(b *testing.B) {
	const slower, bytes = 64, 256 * mib
	d, err := sim.New(sim.Options{Memory: 512 * mib, Bandwidth: 54_900_000_000 / slower})
	require.NoError(b, err)
	defer d.Close()
	s, err := sleeperOf(b, d, 1, Options{Pool: &pool.Options{}})
	require.NoError(b, err)
	weights := tagOf(b, "weights")
	require.NoError(b, s.runtime.Partition(weights))
	require.NoError(b, s.make(0, bytes, weights, 1))
	s.counting.costs = map[string]time.Duration{
		"allocate": slower * 350 * time.Millisecond / 64, // of 16 MiB
		"create":   slower * 29 * time.Microsecond, "map": slower * 54 * time.Microsecond,
		"unmap": slower * 34 * time.Microsecond, "destroy": slower * 23 * time.Microsecond,
	}
	var first, slept, woke time.Duration
	for b.Loop() {
		begin := time.Now()
		require.NoError(b, s.runtime.Sleep([]Tag{weights}, forever(b, SleepKeep)))
		middle := time.Now()
		require.NoError(b, s.runtime.Wake([]Tag{weights}))
		if first == 0 {
			first = middle.Sub(begin)
			continue
		}
		slept, woke = slept+middle.Sub(begin), woke+time.Since(middle)
	}
	rate := func(took time.Duration) float64 { return bytes * slower / took.Seconds() / 1e9 }
	b.ReportMetric(rate(first), "first-GB/s")
	if n := time.Duration(b.N - 1); n > 0 {
		b.ReportMetric(rate(slept/n), "sleep-GB/s")
		b.ReportMetric(rate(woke/n), "wake-GB/s")
	}
	s.counting.costs = nil
	s.finish()
}
