package runtime

import (
	"fmt"
	"testing"

	"libmmsb/core/pool"
	"libmmsb/gpu/sim"
)

// BenchmarkLog is an allocation and a free in a pool as programs have them, with and without a history.
func BenchmarkLog(b *testing.B) {
	for _, events := range []int{0, 1 << 16} {
		b.Run(fmt.Sprintf("events=%d", events), func(b *testing.B) {
			adaptors := []Adaptor{&Statistics{}}
			if events > 0 {
				adaptors = append(adaptors, NewLog(events))
			}
			w := newWorldWith(b, sim.Options{Memory: 1 << 34, Unchecked: true}, 1,
				Options{Pool: &pool.Options{}, Adaptors: adaptors})
			for b.Loop() {
				handle, _, err := w.runtime.Allocate(Request{Bytes: 4096, Stream: w.streams[0], Thread: 1})
				if err == nil {
					_, err = FreeFrom(handle, nil, 1)
				}
				if err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
