package runtime

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"libmmsb/core/pool"
	"libmmsb/core/status"
	"libmmsb/gpu/driver"
	"libmmsb/gpu/sim"
)

// others adds streams of another runtime of the world's device to its own.
func (w *world) others(t testing.TB, streams int) *Runtime {
	t.Helper()
	other, err := newWorldOver(w.driver, w.device, streams, Options{})
	require.NoError(t, err)
	w.streams, w.handles = append(w.streams, other.streams...), append(w.handles, other.handles...)
	w.scratch = append(w.scratch, other.scratch...)
	return other.runtime
}

// The hazard table for a block of one runtime and streams of two: a use waits for the one before it where one of the two writes.
func TestUsesFromTwoRuntimesAreInOrder(t *testing.T) {
	for _, before := range []Access{Read, Write, ReadWrite} {
		for _, now := range []Access{Read, Write, ReadWrite} {
			for _, first := range []int{0, 1, 2} {
				second := (first + 1) % 3 // streams 1 and 2 are of the other runtime
				t.Run(fmt.Sprintf("%d on stream %d, then %d on stream %d", before, first, now, second), func(t *testing.T) {
					w := newWorld(t, sim.Options{Scheduler: sim.Stepped}, 1)
					other := w.others(t, 2)
					block, address, err := w.allocate(0, 512)
					require.NoError(t, err)
					w.driver.Finish()
					require.NoError(t, Await(ReadWrite, block))
					require.NoError(t, w.use(first, block, address, 512, before))
					waits := func() uint64 { return w.runtime.Usage().Waits + other.Usage().Waits }
					was, want := waits(), uint64(1)
					if before == Read && now == Read {
						want = 0
					}
					require.NoError(t, w.use(second, block, address, 512, now))
					require.Equal(t, want, waits()-was)
					w.endOf(t, block)
					_, err = other.Close()
					require.NoError(t, err)
				})
			}
		}
	}
}

// Blocks that are awaited together are all done, whichever comes last, also those of two runtimes; a handle of none is an error
// behind those before it.
func TestBlocksAreAwaitedTogether(t *testing.T) {
	w := newWorld(t, sim.Options{Latency: 10 * time.Millisecond}, 1)
	other := w.others(t, 1)
	near, there, err := w.allocate(0, 512)
	require.NoError(t, err)
	far, elsewhere, err := other.Allocate(Request{Bytes: 512, Stream: w.streams[1]})
	require.NoError(t, err)
	for _, order := range [][]uint64{{near, far}, {far, near}} {
		begin := time.Now()
		require.NoError(t, w.use(0, near, there, 512, Write))
		for range 3 {
			require.NoError(t, w.use(1, far, elsewhere, 512, Write))
		}
		require.NoError(t, Await(ReadWrite, order...))
		require.GreaterOrEqual(t, time.Since(begin), 30*time.Millisecond, "three times what work takes")
	}
	require.Equal(t, status.InvalidHandle, status.CodeOf(Await(Read, near, 1)))
	w.endOf(t, near)
	w.endOf(t, far)
	_, err = other.Close()
	require.NoError(t, err)
}

// Programs of two runtimes on blocks of the first: every access is in order, whatever the device does when, also where the second
// runtime ends and another one comes.
func TestRandomUsesFromTwoRuntimes(t *testing.T) {
	for seed := range fewer(300) {
		d, err := sim.New(sim.Options{Scheduler: sim.Seeded, Seed: seed + 1})
		require.NoError(t, err)
		w, err := newWorldOn(d, 2) // ended here: 300 that wait for the test's end have 38 400 slots, which all ends walk over
		require.NoError(t, err)
		random := rand.New(rand.NewPCG(seed, 5))
		other := w.others(t, 2)
		type held struct {
			handle  uint64
			address driver.Address
		}
		var list []held
		for range 60 {
			stream := random.IntN(4)
			access := []Access{Read, Write, ReadWrite}[random.IntN(3)]
			switch what := random.IntN(20); {
			case what < 3 || len(list) == 0:
				handle, address, err := w.allocate(stream%2, 512)
				require.NoError(t, err)
				list = append(list, held{handle, address})
			case what < 5:
				at := random.IntN(len(list))
				_, err := freeBlock(list[at].handle, w.streams[stream%2])
				require.NoError(t, err)
				list = append(list[:at], list[at+1:]...)
			case what < 6:
				require.NoError(t, Await(access, list[random.IntN(len(list))].handle))
			case what < 7:
				at := list[random.IntN(len(list))]
				_, _, err := BeginUse(w.streams[2], Use{Block: at.handle, Access: access}) // ends with its runtime
				require.NoError(t, err)
				require.NoError(t, w.work(2, at.address, 512, access))
				leaks, err := other.Close()
				require.NoError(t, err)
				require.Equal(t, 1, leaks.Uses)
				scratch := w.scratch[2:]
				w.streams, w.handles, w.scratch = w.streams[:2], w.handles[:2], w.scratch[:2:2]
				other = w.others(t, 2)
				w.scratch = append(w.scratch, scratch...) // freed at the end
			default:
				at := list[random.IntN(len(list))]
				require.NoError(t, w.use(stream, at.handle, at.address, 512, access))
			}
		}
		for _, at := range list {
			_, err := freeBlock(at.handle, nil)
			require.NoError(t, err)
		}
		w.driver.Finish()
		w.runtime.Reap()
		require.Zero(t, w.runtime.Usage().Outstanding)
		_, err = other.Close()
		require.NoError(t, err)
		require.NoError(t, w.end(), "seed %d", seed)
		require.NoError(t, d.Problems(), "seed %d", seed)
		d.Close()
	}
}

// A use ends with the runtime of its stream, and with that of one of its blocks.
func TestUsesEndWithEitherRuntime(t *testing.T) {
	w := newWorld(t, sim.Options{}, 1)
	other := w.others(t, 1)
	foreign, address, err := other.Allocate(Request{Bytes: 512, Stream: w.streams[1]})
	require.NoError(t, err)
	own, _, err := w.allocate(0, 512)
	require.NoError(t, err)
	_, _, err = BeginUse(w.streams[1], Use{Block: own, Access: Write})
	require.NoError(t, err)
	use, _, err := BeginUse(w.streams[0], Use{Block: foreign, Access: Write})
	require.NoError(t, err)
	require.NoError(t, w.work(0, address, 512, Write))
	leaks, err := other.Close()
	require.NoError(t, err)
	require.Equal(t, 2, leaks.Uses)
	requireCode(t, status.StaleHandle, EndUse(use))
	_, bad, err := BeginUse(w.streams[0], Use{Block: own, Access: Write}, Use{Block: foreign, Access: Read})
	requireCode(t, status.StaleHandle, err)
	require.Equal(t, 1, bad)
	require.NoError(t, w.use(0, own, w.scratch[0], 16, Write))
	w.endOf(t, own)
}

// What another device's stream is asked to use is refused with both numbers.
func TestUsesOfAnotherDevice(t *testing.T) {
	w := newWorld(t, sim.Options{Devices: 2}, 1)
	device, err := w.driver.Open(1)
	require.NoError(t, err)
	elsewhere, err := newWorldOver(w.driver, device, 1, Options{})
	require.NoError(t, err)
	block, _, err := w.allocate(0, 512)
	require.NoError(t, err)
	_, _, err = BeginUse(elsewhere.streams[0], Use{Block: block, Access: Read})
	requireCode(t, status.InvalidArgument, err)
	require.ErrorContains(t, err, "is of device 0, the stream of another device, whose number is 1")
	require.NoError(t, elsewhere.end())
	w.endOf(t, block)
}

// A tag falls asleep behind the work of other runtimes' streams, and not while they have it in an open use.
func TestASleepWaitsForOtherRuntimes(t *testing.T) {
	w := newWorldWith(t, sim.Options{Scheduler: sim.Stepped}, 1, Options{Pool: &pool.Options{}})
	other := w.others(t, 1)
	tag, err := TagOf("across")
	require.NoError(t, err)
	require.NoError(t, w.runtime.Partition(tag))
	block, address, err := w.runtime.Allocate(Request{Bytes: 512, Stream: w.streams[0], Tag: tag})
	require.NoError(t, err)
	w.driver.Finish()
	use, _, err := BeginUse(w.streams[1], Use{Block: block, Access: Write})
	require.NoError(t, err)
	now := SleepOptions{Mode: SleepDrop}
	requireCode(t, status.Busy, w.runtime.Sleep([]Tag{tag}, now))
	require.NoError(t, w.work(1, address, 512, Write))
	require.NoError(t, EndUse(use))
	requireCode(t, status.WouldBlock, w.runtime.Sleep([]Tag{tag}, now))
	w.driver.Finish()
	require.NoError(t, w.runtime.Sleep([]Tag{tag}, now))
	_, _, err = BeginUse(w.streams[1], Use{Block: block, Access: Read})
	requireCode(t, status.InvalidState, err)
	require.NoError(t, w.runtime.Wake([]Tag{tag}))
	require.NoError(t, w.use(1, block, address, 512, Write))
	w.driver.Finish()
	_, err = other.Close()
	require.NoError(t, err)
	require.NoError(t, w.runtime.Sleep([]Tag{tag}, now))
	require.NoError(t, w.runtime.Wake([]Tag{tag}))
	w.endOf(t, block)
}

// Streams of runtimes that come and go leave nothing in a block that all of them have read.
func TestReadsOfRuntimesThatEndAreForgotten(t *testing.T) {
	w := newWorld(t, sim.Options{}, 1)
	block, address, err := w.allocate(0, 512)
	require.NoError(t, err)
	for range 20 {
		other := w.others(t, 1)
		require.NoError(t, w.use(len(w.streams)-1, block, address, 512, Read))
		_, err := other.Close()
		require.NoError(t, err)
	}
	b, err := allBlocks.locked(block)
	require.NoError(t, err)
	require.LessOrEqual(t, len(b.reads), 2)
	b.mutex.Unlock()
	w.endOf(t, block)
}

// Threads work on a block of one runtime from streams of others that come and go.
func TestThreadsUseABlockFromManyRuntimes(t *testing.T) {
	w := newWorld(t, sim.Options{Latency: 20 * time.Microsecond}, 1)
	block, address, err := w.allocate(0, 512)
	require.NoError(t, err)
	var threads sync.WaitGroup
	for range 3 {
		threads.Go(func() {
			for range fewer(100) {
				other, err := New(w.device, Options{})
				if err != nil {
					t.Error(err)
					return
				}
				handle, err := other.AcquireStream(0)
				if err != nil {
					t.Error(err)
					return
				}
				s, _ := FindStream(handle)
				use, _, err := BeginUse(s, Use{Block: block, Access: Write})
				if err == nil {
					err = s.Fill(address, 1, 512)
					if err == nil {
						err = EndUse(use)
					}
				}
				if err != nil && status.CodeOf(err) != status.Busy {
					t.Error(err)
				}
				if err := Await(ReadWrite, block); err != nil {
					t.Error(err)
				}
				if _, err := other.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for range fewer(100) {
		if err := w.use(0, block, address, 512, Write); status.CodeOf(err) != status.Busy {
			require.NoError(t, err)
		}
	}
	threads.Wait()
	w.endOf(t, block)
}
