//go:build mmsbtest

package page

import (
	"runtime"
	"time"

	"libmmsb/core/status"
	"libmmsb/native"
)

// MoveGeneration lets a live page's record jump to a later generation, so that a test reaches its end.
func MoveGeneration(page uint64, generation uint32) (moved uint64, err error) {
	err = Read(page, func(p *Page) error {
		if generation <= native.Generation(page) || p.State&native.ExplicitID != 0 {
			return status.Errorf(status.InvalidArgument, "generation %d does not follow page 0x%016x", generation, page)
		}
		p.State = native.State(native.KindPage, generation, p.State&native.IndexMask)
		moved = native.Handle(native.KindPage, generation, p.Index)
		return nil
	})
	return moved, err
}

// TimeCollection is how many nanoseconds a whole garbage collection takes.
func TimeCollection() int64 {
	start := time.Now()
	runtime.GC()
	return time.Since(start).Nanoseconds()
}
