package runtime

import (
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"libmmsb/core/pool"
	"libmmsb/core/status"
	"libmmsb/gpu/driver"
	"libmmsb/gpu/sim"
)

// captures a program's work on streams: it begins before the driver's capture, and ends behind it.
func (s *sleeper) capture(streams ...int) (h uint64) {
	var all []*Stream
	for _, at := range streams {
		all = append(all, s.streams[at])
	}
	h, err := BeginCapture(all...)
	require.NoError(s.t, err)
	for _, stream := range all {
		require.NoError(s.t, s.driver.Capture(0, stream.native, true))
	}
	return h
}

func (s *sleeper) endCapture(h uint64) {
	c, err := FindCapture(h)
	require.NoError(s.t, err)
	for _, stream := range c.streams {
		require.NoError(s.t, s.driver.Capture(0, stream.native, false))
	}
	require.NoError(s.t, c.End())
	requireCode(s.t, status.InvalidState, c.End())
}

// What a capture has freed is given out again within it, and nowhere else until it is destroyed: a graph that runs again would
// write there.
func TestMemoryOfACaptureStaysThere(t *testing.T) {
	s := newSleeper(t, sim.Options{Memory: 64 * mib}, 2, pool.Options{}, "weights")
	require.NoError(t, s.make(0, 5*mib, 0, 1))
	outside := s.live[0].address
	s.free(0)
	h := s.capture(0)
	require.Equal(t, uint64(1), LiveCaptures())
	require.NoError(t, s.make(0, 5*mib, tagOf(t, "weights"), 2), "whatever the tag")
	within := s.live[0].address
	require.NotEqual(t, outside, within, "what was freed before is not for it")
	s.free(0)
	require.NoError(t, s.make(0, 5*mib, 0, 3))
	require.Equal(t, within, s.live[0].address)
	s.free(0)
	require.NoError(t, s.make(0, 3000, 0, 4))
	kept := s.live[0].address
	elsewhere := func() {
		for stream := range 2 {
			for range 4 {
				if s.streams[stream].capture.Load() != nil {
					continue
				}
				require.NoError(t, s.make(stream, 5*mib, 0, 5))
				address := s.live[len(s.live)-1].address
				require.False(t, within <= address && address < within+5*mib, "stream %d has memory of the capture", stream)
			}
		}
		for len(s.live) > 1 {
			s.free(1)
		}
	}
	elsewhere()
	s.endCapture(h)
	s.runtime.Reap()
	elsewhere()
	require.NoError(t, s.device.Synchronize())
	require.NoError(t, s.runtime.Trim(0))
	require.Equal(t, uint64(8*mib), s.runtime.Pool().Statistics().Reserved, "nor does it lose its memory")
	require.NoError(t, s.runtime.Pool().Check())
	require.NoError(t, DestroyCapture(h))
	requireCode(t, status.StaleHandle, DestroyCapture(h))
	require.Zero(t, LiveCaptures())
	require.NoError(t, s.runtime.Trim(0))
	require.Equal(t, uint64(2*mib), s.runtime.Pool().Statistics().Reserved, "but for the block that is live")
	require.NoError(t, s.fill(0, 0, 9))
	require.Equal(t, kept, s.live[0].address)
	s.verify(0)
	require.NoError(t, s.runtime.Pool().Check())
}

// Graphs of which no two run at a time share the memory of one capture.
func TestACaptureIsResumed(t *testing.T) {
	s := newSleeper(t, sim.Options{Memory: 64 * mib}, 2, pool.Options{})
	h := s.capture(0)
	require.NoError(t, s.make(0, 5*mib, 0, 1))
	within := s.live[0].address
	s.free(0)
	s.endCapture(h)
	require.NoError(t, s.make(0, 5*mib, 0, 1))
	require.NotEqual(t, within, s.live[0].address)
	s.runtime.Reap()
	require.NoError(t, ResumeCapture(h, s.streams[1]))
	require.NoError(t, s.driver.Capture(0, s.streams[1].native, true))
	require.NoError(t, s.make(1, 5*mib, 0, 1))
	require.Equal(t, within, s.live[1].address)
	s.endCapture(h)
	require.NoError(t, DestroyCapture(h))
	requireCode(t, status.StaleHandle, ResumeCapture(h, s.streams[0]))
}

// Nothing of the runtime breaks a capture: no event of its stream is queried, by no reap and no allocation.
func TestNothingBreaksACapture(t *testing.T) {
	s := newSleeper(t, sim.Options{Memory: 32 * mib}, 3, pool.Options{LargeStep: 2 * mib})
	require.NoError(t, s.make(0, 5*mib, 0, 1))
	require.NoError(t, s.make(1, 5*mib, 0, 2))
	ticket, err := s.streams[0].Record()
	require.NoError(t, err)
	h := s.capture(0, 1)
	for i := range 70 {
		require.NoError(t, s.make(i%2, 4000, 0, 1))
		require.NoError(t, s.fill(1-i%2, 2, 2), "streams of the capture wait for each other")
		s.free(2)
		s.runtime.Reap()
	}
	require.NoError(t, s.make(0, 1000, 0, 7))
	read := s.live[2]
	require.NoError(t, s.use(1, read.handle, read.address, read.bytes, Read))
	require.NoError(t, s.fill(0, 1, 3), "what was done before the capture is over for it")
	require.NoError(t, s.fill(2, 0, 4), "and others wait for what its streams did before")
	past, err := ticket.Poll()
	require.NoError(t, err)
	require.True(t, past)
	handle, _, err := s.allocate(2, 16*mib) // with all the steps of the ladder
	require.NoError(t, err)
	_, _, err = s.allocate(2, 16*mib)
	requireCode(t, status.OutOfMemory, err)
	_, err = Free(handle, nil)
	require.NoError(t, err)

	// What would break it is refused.
	requireCode(t, status.InvalidState, s.fill(2, 1, 5))
	requireCode(t, status.InvalidState, s.fill(0, 0, 5))
	requireCode(t, status.InvalidState, s.streams[0].Synchronize())
	requireCode(t, status.InvalidState, s.streams[0].SynchronizeWithin(0))
	requireCode(t, status.InvalidState, ReleaseStream(s.handles[0]))
	_, err = s.streams[0].Record()
	requireCode(t, status.InvalidState, err)
	_, err = BeginCapture(s.streams[2], s.streams[1])
	requireCode(t, status.InvalidState, err)
	s.endCapture(h)
	require.NoError(t, s.use(2, read.handle, read.address, read.bytes, Read), "not behind an event of the graph")
	require.NoError(t, s.fill(2, 1, 5))
	require.NoError(t, s.fill(0, 0, 5))
	s.verify(0)
	s.verify(1)
	s.runtime.Reap()
	require.Zero(t, s.runtime.Usage().Pending)
	require.NoError(t, DestroyCapture(h))
}

func TestCapturesThatCannotBe(t *testing.T) {
	s := newSleeper(t, sim.Options{Memory: 16 * mib}, 2, pool.Options{})
	plain, err := newWorldOf(s.driver, 1, Options{})
	require.NoError(t, err)
	for _, c := range []struct {
		streams []*Stream
		want    status.Code
	}{
		{nil, status.InvalidArgument},
		{[]*Stream{s.streams[0], s.streams[0]}, status.InvalidArgument},
		{[]*Stream{s.streams[0], plain.streams[0]}, status.InvalidArgument},
		{[]*Stream{plain.streams[0]}, status.Unsupported},
	} {
		_, err := BeginCapture(c.streams...)
		requireCode(t, c.want, err)
	}
	require.NoError(t, plain.end())
	_, err = BeginCapture(plain.streams[0])
	requireCode(t, status.StaleHandle, err)
	var all []uint64
	for {
		h, err := BeginCapture(s.streams[0])
		if err != nil {
			require.Contains(t, []status.Code{status.Limit, status.OutOfMemory}, status.CodeOf(err), "no partitions or addresses")
			break
		}
		s.endCaptureOnly(h)
		all = append(all, h)
	}
	require.Greater(t, len(all), 4)
	for _, h := range all {
		require.NoError(t, DestroyCapture(h))
	}
	h, err := BeginCapture(s.streams...)
	require.NoError(t, err)
	require.NoError(t, DestroyCapture(h), "which ends it")
	require.NoError(t, s.make(0, 100, 0, 1))
	h, err = BeginCapture(s.streams[1])
	require.NoError(t, err)
	requireCode(t, status.InvalidState, ResumeCapture(h, s.streams[0]))
	s.endCaptureOnly(h)
	requireCode(t, status.InvalidArgument, ResumeCapture(h))
	requireCode(t, status.InvalidArgument, ResumeCapture(h, s.streams[0], s.streams[0]))
	requireCode(t, status.InvalidHandle, ResumeCapture(s.handles[0], s.streams[0]))
	require.NoError(t, ResumeCapture(h, s.streams[0]), "the runtime's end ends it")
}

func (s *sleeper) endCaptureOnly(h uint64) {
	c, err := FindCapture(h)
	require.NoError(s.t, err)
	require.NoError(s.t, c.End())
}

// Each call of the driver fails at the begin of a capture.
func TestACaptureWhoseDriverFails(t *testing.T) {
	for _, call := range []sim.Call{sim.Reserve, sim.CreateEvent, sim.RecordEvent, sim.Wait} {
		for after, hits := 0, true; hits; after++ {
			s := newSleeper(t, sim.Options{Memory: 16 * mib}, 3, pool.Options{})
			for stream := range 3 {
				require.NoError(t, s.make(stream, 1000, 0, 1))
			}
			require.NoError(t, s.driver.Inject(sim.Fault{Call: call, After: after}))
			h, err := BeginCapture(s.streams[0], s.streams[1])
			hits = s.driver.Spare() == 0
			if err != nil {
				require.Contains(t, []status.Code{status.Device, status.OutOfMemory}, status.CodeOf(err), "%v", err)
				h, err = BeginCapture(s.streams[0], s.streams[1])
			}
			require.NoError(t, err)
			require.NoError(t, s.make(1, 1000, 0, 1))
			s.endCaptureOnly(h)
			require.NoError(t, DestroyCapture(h))
			require.NoError(t, s.runtime.Pool().Check())
		}
	}
}

// A captured graph runs on while tags sleep, and sleep is refused while a stream captures that has work.
func TestCapturesAndSleep(t *testing.T) {
	s := newSleeper(t, sim.Options{Memory: 32 * mib}, 2, pool.Options{}, "weights")
	weights := tagOf(t, "weights")
	require.NoError(t, s.make(0, 5*mib, weights, 1))
	h := s.capture(0)
	requireCode(t, status.InvalidState, s.runtime.Sleep([]Tag{weights}, forever(t, SleepKeep)))
	s.endCapture(h)
	require.NoError(t, s.runtime.Sleep([]Tag{weights}, forever(t, SleepKeep)))
	require.NoError(t, s.runtime.Wake([]Tag{weights}))
	s.verify(0)
	require.NoError(t, DestroyCapture(h))
}

// Threads allocate and reap while others capture.
func TestThreadsBesideCaptures(t *testing.T) {
	s := newSleeper(t, sim.Options{Memory: 64 * mib}, 4, pool.Options{})
	var threads sync.WaitGroup
	for thread := range 4 {
		threads.Go(func() {
			for range 40 {
				var h uint64
				if thread < 2 {
					var err error
					h, err = BeginCapture(s.streams[thread])
					if !assert.NoError(t, err) {
						return
					}
				}
				for i := range 5 {
					handle, _, err := s.allocate(thread, uint64(1000+i*mib))
					if err != nil {
						assert.Equal(t, status.OutOfMemory, status.CodeOf(err), "%v", err)
						continue
					}
					_, err = Free(handle, nil)
					assert.NoError(t, err)
					s.runtime.Reap()
				}
				if h != 0 {
					assert.NoError(t, DestroyCapture(h))
				}
			}
		})
	}
	threads.Wait()
	require.NoError(t, s.runtime.Pool().Check())
}

// Random programs of streams that capture and that do not, on devices that run in an order of their own: what a capture had is
// nobody else's until it is destroyed, no call breaks one, and work that is ordered is in order.
func TestRandomCaptures(t *testing.T) {
	begun, resumed, refused, within := 0, 0, 0, 0
	count := fewer(40)
	for seed := range count {
		random := rand.New(rand.NewPCG(seed, 33))
		d, err := sim.New(sim.Options{Memory: 64 * mib, Scheduler: sim.Seeded, Seed: seed + 1})
		require.NoError(t, err)
		budget := NewBudget(NewLedger(48 * mib))
		s, err := sleeperOf(t, d, 4, Options{Pool: &pool.Options{LargeStep: 2 * mib}, Adaptors: []Adaptor{&Statistics{}, budget}})
		require.NoError(t, err)
		type memory struct {
			handle uint64
			open   bool
			blocks []sleeping // ever
		}
		var all []*memory
		of := map[*Stream]*memory{}
		for step := range 200 {
			stream := random.IntN(4)
			c := of[s.streams[stream]]
			switch n := random.IntN(12); {
			case n < 5:
				bytes := 1 + random.Uint64N([]uint64{3000, mib, 4 * mib}[random.IntN(3)])
				handle, address, err := s.allocate(stream, bytes)
				if err != nil {
					require.Contains(t, []status.Code{status.Limit, status.OutOfMemory}, status.CodeOf(err), "%v", err)
					break
				}
				b := sleeping{handle: handle, bytes: bytes, address: address}
				s.live = append(s.live, b)
				for _, other := range all {
					for _, had := range other.blocks {
						overlap := had.address < address+driver.Address(bytes) && address < had.address+driver.Address(had.bytes)
						require.False(t, overlap && other != c, "seed %d, step %d: memory of another capture", seed, step)
					}
				}
				if c != nil {
					c.blocks = append(c.blocks, b)
					within++
				}
			case n < 7 && len(s.live) > 0:
				at := random.IntN(len(s.live))
				if _, err := Free(s.live[at].handle, s.streams[stream]); err != nil {
					requireCode(t, status.InvalidState, err)
					refused++
					break
				}
				s.live = append(s.live[:at], s.live[at+1:]...)
			case n < 9 && len(s.live) > 0:
				b := s.live[random.IntN(len(s.live))]
				if err := s.use(stream, b.handle, b.address, b.bytes, []Access{Read, Write}[random.IntN(2)]); err != nil {
					requireCode(t, status.InvalidState, err)
					refused++
				}
			case n == 9:
				s.runtime.Reap()
			case n == 10 && c == nil:
				streams := []*Stream{s.streams[stream]}
				if other := s.streams[(stream+1)%4]; of[other] == nil && random.IntN(2) == 0 {
					streams = append(streams, other)
				}
				var idle *memory
				for _, ended := range all {
					if !ended.open && random.IntN(2) == 0 {
						idle = ended
					}
				}
				if idle == nil {
					idle = &memory{}
					if idle.handle, err = BeginCapture(streams...); err != nil {
						require.Contains(t, []status.Code{status.Limit, status.OutOfMemory}, status.CodeOf(err), "%v", err)
						break
					}
					all = append(all, idle)
					begun++
				} else {
					require.NoError(t, ResumeCapture(idle.handle, streams...))
					resumed++
				}
				idle.open = true
				for _, each := range streams {
					of[each] = idle
					require.NoError(t, d.Capture(0, each.native, true))
				}
			case n == 11 && c != nil:
				for each, in := range of {
					if in == c {
						require.NoError(t, d.Capture(0, each.native, false))
						delete(of, each)
					}
				}
				s.endCaptureOnly(c.handle)
				c.open = false
			case n == 11 && len(all) > 0 && !all[0].open:
				require.NoError(t, DestroyCapture(all[0].handle))
				all = all[1:]
			}
			require.NoError(t, s.runtime.Pool().Check())
		}
		for each := range of {
			require.NoError(t, d.Capture(0, each.native, false))
		}
		for _, c := range all {
			require.NoError(t, DestroyCapture(c.handle))
		}
		s.finish()
		require.Zero(t, budget.State().Charged)
		require.NoError(t, d.Problems(), "seed %d", seed)
		d.Close()
	}
	assert.Greater(t, min(begun, resumed, refused, within), int(count))
}
