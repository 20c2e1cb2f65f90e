package runtime

import (
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"libmmsb/core/pool"
	"libmmsb/core/status"
	"libmmsb/gpu/driver"
	"libmmsb/gpu/sim"
)

const mib = 1 << 20

// newPooled is a world whose runtime has a pool.
func newPooled(t testing.TB, options sim.Options, streams int, of pool.Options) *world {
	return newWorldWith(t, options, streams, Options{Pool: &of})
}

// coarsely has mappings of several segments, as on a device with much memory.
func (w *world) coarsely() { w.runtime.pool.together = mostMapped }

func TestAPoolGivesMemoryAgainWithoutTheDriver(t *testing.T) {
	w := newPooled(t, sim.Options{Memory: 64 * mib, Scheduler: sim.Stepped}, 2, pool.Options{})
	handle, address, err := w.allocate(0, 3*mib)
	require.NoError(t, err)
	require.NoError(t, w.use(0, handle, address, 3*mib, Write))
	_, err = freeBlock(handle, nil)
	require.NoError(t, err)
	grown := w.runtime.Pool().Statistics().Grown
	again, same, err := w.allocate(0, 3*mib)
	require.NoError(t, err)
	require.Equal(t, address, same)
	require.Equal(t, grown, w.runtime.Pool().Statistics().Grown)
	require.NoError(t, w.use(0, again, same, 3*mib, ReadWrite))
	_, err = freeBlock(again, nil)
	require.NoError(t, err)

	// Another stream has other memory as long as this one may still write there.
	other, elsewhere, err := w.allocate(1, 3*mib)
	require.NoError(t, err)
	require.NotEqual(t, same, elsewhere)
	require.NoError(t, w.use(1, other, elsewhere, 3*mib, Write))
	_, err = freeBlock(other, nil)
	require.NoError(t, err)
	w.driver.Finish()
}

func TestAPoolThatIsFullWaitsForOtherStreams(t *testing.T) {
	w := newPooled(t, sim.Options{Memory: 16 * mib, Scheduler: sim.Stepped}, 2, pool.Options{})
	handle, address, err := w.allocate(0, 12*mib)
	require.NoError(t, err)
	require.NoError(t, w.use(0, handle, address, 12*mib, Write))
	_, err = freeBlock(handle, nil)
	require.NoError(t, err)
	_, _, err = w.allocate(1, 13*mib)
	requireCode(t, status.OutOfMemory, err)
	handle, same, err := w.allocate(1, 12*mib)
	require.NoError(t, err)
	require.Equal(t, address, same)
	require.NoError(t, w.use(1, handle, same, 12*mib, Write))
	_, err = freeBlock(handle, nil)
	require.NoError(t, err)
	w.driver.Finish()
}

func TestAPoolMovesMemory(t *testing.T) {
	w := newPooled(t, sim.Options{Memory: 64 * mib}, 1, pool.Options{LargeStep: 2 * mib})
	var handles []uint64
	for range 6 {
		handle, address, err := w.allocate(0, 10*mib)
		require.NoError(t, err)
		require.NoError(t, w.use(0, handle, address, 10*mib, Write))
		handles = append(handles, handle)
	}
	for i := range 3 {
		_, err := freeBlock(handles[2*i], nil)
		require.NoError(t, err)
	}
	require.NoError(t, w.device.Synchronize())
	handle, address, err := w.allocate(0, 30*mib)
	require.NoError(t, err, "no 30 MiB are in one piece")
	require.NoError(t, w.use(0, handle, address, 30*mib, Write))
	require.NoError(t, w.runtime.Pool().Check())
	require.NotZero(t, w.runtime.Pool().Statistics().Moved)
	for _, handle := range []uint64{handle, handles[1], handles[3], handles[5]} {
		_, err = freeBlock(handle, nil)
		require.NoError(t, err)
	}
	require.NoError(t, w.device.Synchronize())
	require.NoError(t, w.runtime.Trim(0))
	require.Zero(t, w.runtime.Pool().Statistics().Reserved)
}

// Each call of the driver fails at each of its first times: the books agree with the device's memory, and nothing is left.
func TestAPoolWhoseDriverFails(t *testing.T) {
	for _, call := range []sim.Call{
		sim.Reserve, sim.CreatePhysical, sim.Map, sim.Unmap, sim.DestroyPhysical, sim.Wait, sim.RecordEvent,
	} {
		for after := range 6 {
			d, err := sim.New(sim.Options{Memory: 32 * mib})
			require.NoError(t, err)
			require.NoError(t, d.Inject(sim.Fault{Call: call, After: after}))
			w, err := newWorldOf(d, 2, Options{Pool: &pool.Options{LargeStep: 2 * mib}})
			if err == nil {
				var live []uint64
				for i, bytes := range []uint64{1000, 8 * mib, 6 * mib, 8 * mib, 14 * mib, 20 * mib, 400} {
					if handle, _, err := w.allocate(i%2, bytes); err == nil {
						live = append(live, handle)
					}
					for len(live) > 2 {
						if _, err := freeBlock(live[0], nil); err == nil {
							live = live[1:]
						}
						w.runtime.Reap()
					}
					require.NoError(t, w.runtime.Pool().Check())
				}
				for _, handle := range live {
					if _, err := freeBlock(handle, nil); err != nil {
						_, err = freeBlock(handle, nil)
						require.NoError(t, err)
					}
				}
				if err := w.runtime.Trim(0); err != nil {
					require.NoError(t, w.runtime.Trim(0))
				}
				require.NoError(t, w.runtime.Pool().Check())
				require.NoError(t, w.end(), "%v, call %d", call, after)
			}
			require.NoError(t, d.Problems(), "%v, call %d", call, after)
			d.Close()
		}
	}
}

// agree compares what the books say has memory with what is mapped, and with what the device has given, but for what was taken
// before.
func (w *world) agree(t testing.TB, before uint64) {
	p := w.runtime.Pool()
	require.NoError(t, p.Check())
	known := map[driver.Address]bool{}
	p.books.Walk(func(pieces []pool.Piece) {
		for _, piece := range pieces {
			first := uint64(p.addressOf(piece.Block)) / poolSegment * poolSegment
			for at := first; at < uint64(p.addressOf(piece.Block))+piece.Count*pool.Unit; at += poolSegment {
				known[driver.Address(at)] = true
			}
		}
	})
	mapped := map[driver.Address]bool{}
	for segment := range p.mapped {
		mapped[segment] = true
	}
	for _, m := range p.torn {
		for segment := m.first; segment <= m.last(); segment += poolSegment {
			require.False(t, mapped[segment])
			require.Equal(t, status.InvalidState, status.CodeOf(p.books.Usable(p.partitionAt(segment))), "nobody may use it")
			mapped[segment] = true
		}
	}
	for _, m := range p.stray {
		for segment := m.first; segment <= m.last(); segment += poolSegment {
			require.False(t, known[segment])
			delete(mapped, segment)
		}
	}
	require.Equal(t, known, mapped)
	free, total, err := w.device.MemoryInfo()
	require.NoError(t, err)
	taken := uint64(len(p.mapped))*poolSegment + bytesOf(slices.Collect(maps.Values(p.torn))) + bytesOf(p.idle)
	require.Equal(t, total-free, before+taken)
	require.Equal(t, taken, MemoryOf(w.device).Charged)
}

// Of two calls of the driver that fail, the second one falls into what the first one's failure leads to.
func TestAPoolWhoseDriverFailsTwice(t *testing.T) {
	tag, err := TagOf("fails twice")
	require.NoError(t, err)
	calls := []sim.Call{sim.Map, sim.Unmap}
	var torn, stray int
	for number := range 2 * 2 * 7 * 5 * 2 {
		first, second := calls[number%2], calls[number/2%2]
		d, err := sim.New(sim.Options{Memory: 24 * mib})
		require.NoError(t, err)
		w, err := newWorldOf(d, 1, Options{Pool: &pool.Options{LargeStep: 2 * mib}})
		require.NoError(t, err)
		free, total, err := w.device.MemoryInfo()
		require.NoError(t, err)
		before := total - free
		if number%5 == 0 {
			w.coarsely()
		}
		require.NoError(t, w.runtime.Partition(tag))
		require.NoError(t, d.Inject(sim.Fault{Call: first, After: number / 4 % 7}))
		for again := range 1 + number/140*2 { // and at the next tries, too
			require.NoError(t, d.Inject(sim.Fault{Call: second, After: number/28%5 + again}))
		}
		var live []uint64
		allocate := func(bytes uint64, tag Tag) {
			if handle, address, err := w.runtime.Allocate(Request{Bytes: bytes, Stream: w.streams[0], Tag: tag}); err == nil {
				require.NoError(t, w.use(0, handle, address, bytes, Write))
				live = append(live, handle)
			}
			stray += len(w.runtime.pool.stray)
			w.agree(t, before)
		}
		move := func(ways ...func() error) {
			for _, way := range ways {
				_ = way()
				torn, stray = torn+len(w.runtime.pool.torn), stray+len(w.runtime.pool.stray)
				w.agree(t, before)
			}
		}
		sleep := func() error { return w.runtime.Sleep([]Tag{tag}, forever(t, SleepKeep)) }
		wake := func() error { return w.runtime.Wake([]Tag{tag}) }
		trim := func() error { return w.runtime.Trim(0) }
		allocate(5000, tag) // a wake gets memory in two calls
		allocate(5*mib, tag)
		allocate(3*mib, 0)
		allocate(5*mib, 0)
		move(sleep, wake, sleep)
		for _, handle := range live[max(0, len(live)-2):] {
			mustFree(t, handle)
		}
		live = live[:max(0, len(live)-2)]
		move(trim)
		allocate(9*mib, 0)
		move(wake, wake, sleep, wake, sleep, wake)
		allocate(3*mib, tag)
		for _, handle := range live {
			mustFree(t, handle)
		}
		move(trim, trim, trim)
		require.Zero(t, w.runtime.Pool().Statistics().Reserved)
		require.Zero(t, MemoryOf(w.device).Charged)
		require.NoError(t, w.end(), "%v and %v, number %d", first, second, number)
		require.NoError(t, d.Problems(), "%v and %v, number %d", first, second, number)
		d.Close()
	}
	require.Positive(t, torn)
	require.Positive(t, stray)
}

// Memory that is left over and cannot be given back now does not take from a block what it has.
func TestMemoryThatDoesNotEnd(t *testing.T) {
	w := newPooled(t, sim.Options{Memory: 64 * mib}, 1, pool.Options{Limit: 18 * mib, LargeStep: 2 * mib})
	var handles []uint64
	for range 3 {
		handle, _, err := w.allocate(0, 6*mib)
		require.NoError(t, err)
		handles = append(handles, handle)
	}
	for _, handle := range []uint64{handles[0], handles[2]} {
		_, err := freeBlock(handle, nil)
		require.NoError(t, err)
	}
	require.NoError(t, w.device.Synchronize())
	require.NoError(t, w.driver.Inject(sim.Fault{Call: sim.DestroyPhysical}))
	handle, address, err := w.allocate(0, 7*mib) // 12 MiB lose their places, 8 MiB are needed
	require.NoError(t, err)
	require.NoError(t, w.use(0, handle, address, 7*mib, Write))
	require.NoError(t, w.runtime.Pool().Check())
	other, address, err := w.allocate(0, 4*mib)
	require.NoError(t, err)
	require.NoError(t, w.use(0, other, address, 4*mib, Write))
	for _, handle := range []uint64{handles[1], handle, other} {
		_, err = freeBlock(handle, nil)
		require.NoError(t, err)
	}
	require.NoError(t, w.device.Synchronize())
	require.NoError(t, w.runtime.Trim(0))
}

// On a device with much memory segments get and lose theirs four together, unless the program asks for a slack.
func TestSegmentsAreMappedTogether(t *testing.T) {
	for segments, want := range map[uint64]int{1: 1, finest: 1, 2*finest - 1: 1, 3 * finest: 3, 4 * finest: 4, 100 * finest: 4} {
		require.Equal(t, want, mappedTogether(segments*poolSegment, 0), "%d segments", segments)
		require.Equal(t, 1, mappedTogether(segments*poolSegment, 50))
	}
	w := newPooled(t, sim.Options{Memory: 64 * mib, Scheduler: sim.Stepped}, 1, pool.Options{})
	w.coarsely()
	made := func() uint64 { m, _ := w.runtime.Pool().Made(); return m }
	large, address, err := w.allocate(0, 30*mib)
	require.NoError(t, err)
	require.NoError(t, w.use(0, large, address, 30*mib, Write))
	require.EqualValues(t, 4, made(), "8, 8, 8 and 6 MiB")
	held, _, err := w.allocate(0, 30*mib)
	require.NoError(t, err)
	free(t, large)
	part, _, err := w.allocate(0, 9*mib) // with a MiB of the second 8
	require.NoError(t, err)
	w.driver.Finish()
	w.runtime.Reap()
	tag := tagOf(t, "together")
	require.NoError(t, w.runtime.Partition(tag))
	other, address, err := w.runtime.Allocate(Request{Bytes: 3 * mib, Stream: w.streams[0], Tag: tag})
	require.NoError(t, err)
	require.NoError(t, w.use(0, other, address, 3*mib, Write))
	require.EqualValues(t, 9, made(), "memory of 8 MiB is too long for 4")
	pooled := w.runtime.Pool()
	require.NoError(t, pooled.Check())
	require.Equal(t, pooled.Statistics().Reserved, MemoryOf(w.device).Charged, "and is the device's again")
	for _, handle := range []uint64{held, part, other} {
		free(t, handle)
	}
	w.driver.Finish()
	require.NoError(t, w.runtime.Trim(0))
	require.Zero(t, pooled.Statistics().Reserved)
	require.Zero(t, MemoryOf(w.device).Charged)
}

// A device without virtual memory has a pool of whole segments, unless the program asked for virtual memory.
func TestADeviceWithoutVirtualMemory(t *testing.T) {
	d, err := sim.New(sim.Options{NoVirtual: true, NoManaged: true, NoOrdered: true})
	require.NoError(t, err)
	defer d.Close()
	for _, origin := range []pool.Origin{pool.Virtual, pool.Ordered, pool.Managed} {
		_, err = newWorldOf(d, 0, Options{Pool: &pool.Options{Origin: origin}})
		requireCode(t, status.Unsupported, err)
	}
	w, err := newWorldOf(d, 1, Options{Pool: &pool.Options{}})
	require.NoError(t, err)
	handle, _, err := w.allocate(0, 30*mib)
	require.NoError(t, err)
	require.EqualValues(t, 30*mib, w.runtime.Pool().Statistics().Reserved)
	free(t, handle)
	require.NoError(t, w.end())
	require.NoError(t, d.Problems())
}

func TestAPoolNeedsNoOrderedMemory(t *testing.T) {
	d, err := sim.New(sim.Options{NoOrdered: true})
	require.NoError(t, err)
	defer d.Close()
	w, err := newWorldOf(d, 1, Options{Pool: &pool.Options{}})
	require.NoError(t, err)
	handle, address, err := w.allocate(0, 5*mib)
	require.NoError(t, err)
	require.NoError(t, w.use(0, handle, address, 5*mib, Write))
	_, err = freeBlock(handle, nil)
	require.NoError(t, err)
	require.NoError(t, w.end())
	require.NoError(t, d.Problems())
}

// Threads with a stream each, and blocks that go from one to the other: nothing is given out twice, and no work meets another's.
func TestThreadsShareAPool(t *testing.T) {
	w := newPooled(t, sim.Options{Memory: 128 * mib}, 4, pool.Options{Limit: 96 * mib})
	w.coarsely()
	var threads sync.WaitGroup
	for thread := range 4 {
		threads.Add(1)
		go func() {
			defer threads.Done()
			random := rand.New(rand.NewPCG(uint64(thread), 5))
			var live []uint64
			for range 400 {
				bytes := 1 + random.Uint64N([]uint64{4096, mib, 6 * mib}[random.IntN(3)])
				handle, address, err := w.allocate(thread, bytes)
				if err != nil {
					assert.Contains(t, []status.Code{status.OutOfMemory, status.Limit}, status.CodeOf(err), "%v", err)
				} else {
					assert.NoError(t, w.use(thread, handle, address, bytes, ReadWrite))
					live = append(live, handle)
				}
				for len(live) > 6 || err != nil && len(live) > 0 {
					_, err = freeBlock(live[0], w.streams[random.IntN(4)])
					assert.NoError(t, err)
					live, err = live[1:], nil
				}
			}
			for _, handle := range live {
				_, err := freeBlock(handle, nil)
				assert.NoError(t, err)
			}
		}()
	}
	threads.Wait()
	require.NoError(t, w.runtime.Pool().Check())
	require.NoError(t, w.device.Synchronize())
	require.NoError(t, w.runtime.Trim(0))
	require.Zero(t, w.runtime.Pool().Statistics().Reserved)
}
