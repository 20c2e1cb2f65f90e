package pages

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"libmmsb/core/abi"
	"libmmsb/core/status"
	"libmmsb/gpu/sim"
	"libmmsb/native/nativetest"
)

// launches are the kernels that have ended on the devices.
func (w *world) launches() (count int) {
	for _, spell := range w.sim.Timeline() {
		if spell.Call == sim.Launch {
			count++
		}
	}
	return count
}

// One launch does many commands, as long as they come soon enough, and ends when none comes.
func TestADrainStaysForTheNextCommand(t *testing.T) {
	const commands = 300
	onDevices(t, sim.Options{Latency: time.Nanosecond, Trace: true}, func(w *world) {
		to, from := w.lie("device", strings.Repeat("o", 5000)), w.lie("device", strings.Repeat("n", 5000))
		require.Equal(t, status.OK, w.mark(from, 1000, "first"))
		before, started := w.launches(), time.Now()
		for range commands {
			require.Zero(t, nativetest.PropagatePersistently(to, from))
		}
		took := time.Since(started)
		w.holds(to, 999, "ofirsto")
		require.Eventually(t, func() bool { return w.launches() > before }, time.Minute, time.Millisecond, "it ends")
		t.Logf("%d launches for %d commands, %v each", w.launches()-before, commands, took/commands)
		require.Less(t, w.launches()-before, commands, "at least one was there when the next command came")
	})
}

func TestADrainHasNoLargeCommands(t *testing.T) {
	onDevices(t, sim.Options{Latency: time.Nanosecond, Trace: true}, func(w *world) {
		const size = drainedBytes + 1
		to, from := w.lie("device", strings.Repeat("o", size)), w.lie("device", strings.Repeat("n", size))
		require.Equal(t, status.OK, w.mark(from, 0, strings.Repeat("n", size)))
		before := w.launches()
		require.Zero(t, nativetest.PropagatePersistently(to, from))
		require.Equal(t, before+1, w.launches(), "it has ended with the call")
		w.holds(to, 0, strings.Repeat("n", size))
	})
}

func TestADrainThatCannotStartChangesNothing(t *testing.T) {
	on(t, func(w *world) {
		to, from := w.lie("device", "old bytes"), w.lie("device", "new bytes")
		require.Equal(t, status.OK, w.mark(from, 0, "new"))
		before := w.moment(to)
		for _, call := range []sim.Call{sim.CreateStream, sim.Launch, sim.QueryStream} {
			w.fail(call, 0, sim.Fail)
			code := status.Code(nativetest.PropagatePersistently(to, from))
			require.Contains(t, []status.Code{status.Device, status.OK}, code, call)
			after := w.moment(to)
			if code == status.OK { // the driver could not tell, but the command was done
				before.bytes, before.epoch = "new bytes", before.epoch+1
			} else {
				require.NotContains(t, after.mask, "\x01", call)
			}
			require.Equal(t, before.bytes, after.bytes, call)
			require.Equal(t, before.epoch, after.epoch, call)
		}
		require.Zero(t, nativetest.PropagatePersistently(to, from))
		require.Equal(t, "new bytes", w.moment(to).bytes)
	})
}

func TestADrainOfALostDeviceFails(t *testing.T) {
	for _, call := range []sim.Call{sim.Launch, sim.QueryStream} {
		falling(t, abi.FallbackError, func(w *world) {
			to, from := w.lie("device", "old bytes"), w.lie("device", "new bytes")
			require.Equal(t, status.OK, w.mark(from, 0, "new"))
			w.fail(call, 0, sim.Lose)
			for range 2 {
				require.Equal(t, status.DeviceLost, status.Code(nativetest.PropagatePersistently(to, from)), call)
			}
			for _, handle := range []uint64{to, from} {
				nativetest.Destroy(handle)
			}
		})
	}
}

// Several threads have one drain, and every schedule of the device gives the same bytes.
func TestADrainOnEverySchedule(t *testing.T) {
	for seed := range fewer(30) {
		onDevices(t, sim.Options{Scheduler: sim.Seeded, Seed: 1 + seed}, func(w *world) {
			r := rand.New(rand.NewPCG(seed, 8))
			of := strings.Repeat("o", int(64+r.Uint64N(3000)))
			from := w.lie("device", of)
			want := []byte(of)
			for i := range 20 {
				offset := r.Uint64N(uint64(len(of)) - 9)
				text := fmt.Sprintf("%04d", i)
				copy(want[offset:], text)
				require.Equal(t, status.OK, w.mark(from, offset, text))
			}
			var pages []uint64
			for range 3 {
				pages = append(pages, w.lie("device", of))
			}
			var threads sync.WaitGroup
			for _, to := range pages {
				threads.Go(func() {
					runtime.LockOSThread() // native locks belong to threads
					defer runtime.UnlockOSThread()
					for range 5 {
						if code := nativetest.PropagatePersistently(to, from); code != 0 {
							t.Errorf("propagating answers %d", code)
						}
					}
				})
			}
			threads.Wait()
			for _, to := range pages {
				w.holds(to, 0, string(want))
			}
		})
	}
}
