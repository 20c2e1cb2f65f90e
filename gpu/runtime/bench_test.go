package runtime

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

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
		use, _, err := BeginUse(w.streams[0], Use{handle, ReadWrite})
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
