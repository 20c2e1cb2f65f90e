// Package parallel shares the work of one call among processors.
package parallel

import (
	"runtime"
	"sync/atomic"

	"libmmsb/core/safego"
)

// most is how many helpers the process has at a time. With their callers they are half of the processors: the rest is the
// program's.
var most, busy atomic.Int32

func init() { most.Store(int32((runtime.NumCPU() - 1) / 2)) }

// Most is how many helpers there are at a time.
func Most() int { return int(most.Load()) }

// SetMost is another number of helpers, for tests of what machines with more processors do. It returns what it was.
func SetMost(helpers int) (before int) { return int(most.Swap(int32(helpers))) }

// Shares is into how many parts an amount is best divided, none of which should be smaller than least.
func Shares(amount, least uint64) int {
	return int(min(max(amount/least, 1), uint64(most.Load())+1))
}

// Do calls work once with each number below count, on the caller's goroutine and on helpers that are free, and returns when all
// calls have. A helper keeps its thread meanwhile, so that work may ask native code for its last error. A panic of a helper is
// the caller's too, when all have ended.
func Do(count int, work func(i int)) {
	var next atomic.Int64
	loop := func() {
		for i := next.Add(1) - 1; i < int64(count); i = next.Add(1) - 1 {
			work(int(i))
		}
	}
	for helper := 1; helper < count && takeHelper(); helper++ {
		helper := safego.Beside(safego.Bound(func() {
			defer busy.Add(-1)
			loop()
		}))
		defer helper.Wait()
	}
	loop()
}

func takeHelper() bool {
	if busy.Add(1) <= most.Load() {
		return true
	}
	busy.Add(-1)
	return false
}
