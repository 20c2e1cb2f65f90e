package parallel

import (
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"libmmsb/core/safego"
)

func helpers(t *testing.T, count int) {
	before := SetMost(count)
	t.Cleanup(func() { SetMost(before) })
}

func TestEachNumberIsDoneOnce(t *testing.T) {
	helpers(t, 3)
	for _, count := range []int{0, 1, 2, 5, 1000} {
		done := make([]atomic.Int32, count)
		Do(count, func(i int) { done[i].Add(1) })
		for i := range done {
			require.Equal(t, int32(1), done[i].Load(), "%d of %d", i, count)
		}
	}
	require.Zero(t, busy.Load())
}

// All are at work at a time, and no more, whoever calls: what nobody helps with the callers do.
func TestHelpersAreBounded(t *testing.T) {
	helpers(t, 3)
	var working, peak, done atomic.Int32
	var together sync.WaitGroup
	together.Add(4)
	Do(4, func(int) {
		together.Done()
		together.Wait()
		Do(20, func(int) { // within others that work, no helper is free
			for now := working.Add(1); ; {
				if was := peak.Load(); now <= was || peak.CompareAndSwap(was, now) {
					break
				}
			}
			done.Add(1)
			working.Add(-1)
		})
	})
	require.Equal(t, int32(80), done.Load())
	require.LessOrEqual(t, peak.Load(), int32(4))
	require.Zero(t, busy.Load())
}

func TestShares(t *testing.T) {
	helpers(t, 3)
	for amount, shares := range map[uint64]int{0: 1, 99: 1, 100: 1, 199: 1, 200: 2, 399: 3, 400: 4, 1 << 40: 4} {
		require.Equal(t, shares, Shares(amount, 100), "%d", amount)
	}
	helpers(t, 0)
	require.Equal(t, 1, Shares(1<<40, 100))
}

// Where a helper panics its numbers are not done: the caller must not go on as though they were. It waits for the others first.
func TestAPanicOfAHelperIsItsCallersToo(t *testing.T) {
	helpers(t, 1)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	callers := syscall.Gettid()
	for who, panics := range map[string]func(isCaller bool) bool{
		"the caller": func(isCaller bool) bool { return isCaller },
		"a helper":   func(isCaller bool) bool { return !isCaller },
		"both":       func(bool) bool { return true },
	} {
		var reasons atomic.Int32
		safego.OnPanic(func(string) { reasons.Add(1) })
		defer safego.OnPanic(nil)
		var together sync.WaitGroup
		together.Add(2)
		require.PanicsWithValue(t, "planted", func() {
			Do(2, func(int) {
				together.Done()
				together.Wait()
				if panics(syscall.Gettid() == callers) {
					panic("planted")
				}
			})
		}, who)
		require.Equal(t, panics(false), reasons.Load() == 1, "%s: the caller's own is for its caller to report", who)
		require.Zero(t, busy.Load(), who)
	}
}
