//go:build mmsbtest

package page

import (
	"runtime"
	"time"

	"libmmsb/core/status"
	"libmmsb/native"
)

// MoveGeneration lets a live page's record jump to a later generation, so that a test reaches its end.
func MoveGeneration(page uint64, generation uint32) (uint64, error) {
	p, err := lock(page)
	if err != nil {
		return 0, err
	}
	defer p.unlock()
	if generation <= native.Generation(page) || p.state&native.ExplicitID != 0 {
		return 0, status.Errorf(status.InvalidArgument, "generation %d does not follow page 0x%016x", generation, page)
	}
	p.state = native.State(native.KindPage, generation, p.state&native.IndexMask)
	return native.Handle(native.KindPage, generation, p.index), nil
}

// TimeCollection is how many nanoseconds a whole garbage collection takes.
func TimeCollection() int64 {
	start := time.Now()
	runtime.GC()
	return time.Since(start).Nanoseconds()
}
