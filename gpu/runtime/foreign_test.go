package runtime

import (
	"fmt"
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

// peer is a device as another library uses it: its streams have pointers that come again, and are touched by nobody when they are
// destroyed.
type peer struct {
	driver.Device
	t       testing.TB
	mutex   sync.Mutex
	streams map[uintptr]driver.Stream // by pointer
	dead    map[driver.Stream]bool
	thread  driver.Stream // the calling thread's default stream
}

// newPeer is a runtime with a pool over a peer's device; the test fails where anything was not in order or not given back.
func newPeer(t testing.TB, options sim.Options, of Options) (*peer, *Runtime, *sim.Driver) {
	d, err := sim.New(options)
	require.NoError(t, err)
	device, err := d.Open(0)
	require.NoError(t, err)
	p := &peer{Device: device, t: t, streams: make(map[uintptr]driver.Stream), dead: make(map[driver.Stream]bool)}
	p.thread, err = device.CreateStream(0)
	require.NoError(t, err)
	r, err := New(p, of)
	require.NoError(t, err)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("seed: %d", d.Seed())
			d.Close()
			return
		}
		leaks, err := r.Close()
		require.NoError(t, err)
		require.Empty(t, leaks.Blocks)
		usage := r.Usage()
		require.Equal(t, usage.EventsMade, usage.EventsEnded)
		require.NoError(t, device.DestroyStream(p.thread))
		for pointer := range p.streams {
			p.destroy(pointer)
		}
		require.NoError(t, d.Problems())
		d.Close()
	})
	return p, r, d
}

// create makes a stream that has a pointer.
func (p *peer) create(pointer uintptr) driver.Stream {
	stream, err := p.CreateStream(0)
	require.NoError(p.t, err)
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.streams[pointer] = stream
	return stream
}

// destroy destroys it: work that is queued goes on.
func (p *peer) destroy(pointer uintptr) {
	p.mutex.Lock()
	stream := p.streams[pointer]
	delete(p.streams, pointer)
	p.dead[stream] = true
	p.mutex.Unlock()
	require.NoError(p.t, p.Device.DestroyStream(stream))
}

// native is the stream that a call means.
func (p *peer) native(stream driver.Stream) driver.Stream {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if stream == driver.PerThread {
		return p.thread
	}
	assert.False(p.t, p.dead[stream], "stream 0x%x was destroyed", stream)
	return stream
}

// behind is the stream that has a pointer, or one that does not exist. The lock is held.
func (p *peer) behind(pointer uintptr) uintptr {
	if stream, known := p.streams[pointer]; known {
		return uintptr(stream)
	}
	return pointer
}

func (p *peer) ForeignStream(handle uintptr) (driver.Stream, error) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return p.Device.ForeignStream(p.behind(handle))
}

func (p *peer) StreamID(handle uintptr) (uint64, error) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return p.Device.StreamID(p.behind(handle))
}

func (p *peer) RecordEvent(event driver.Event, stream driver.Stream) error {
	return p.Device.RecordEvent(event, p.native(stream))
}

func (p *peer) Wait(stream driver.Stream, event driver.Event) error {
	return p.Device.Wait(p.native(stream), event)
}

func (p *peer) AllocateOrdered(stream driver.Stream, bytes uint64) (driver.Address, error) {
	return p.Device.AllocateOrdered(p.native(stream), bytes)
}

func (p *peer) FreeOrdered(stream driver.Stream, address driver.Address) error {
	return p.Device.FreeOrdered(p.native(stream), address)
}

const streamA, streamB = 0xA000, 0xB000

// memoryOf is the lowest layer of each kind.
var memoryOf = map[string]Options{"pool": {Pool: &pool.Options{}}, "driver": {}}

func TestStreamsOfOthersAreMet(t *testing.T) {
	p, r, _ := newPeer(t, sim.Options{}, Options{})
	for _, native := range []uintptr{0, 1} {
		s, err := r.Foreign(native)
		require.NoError(t, err)
		require.Same(t, r.streams.defined, s)
	}
	p.create(streamA)
	p.create(streamB)
	a, err := r.Foreign(streamA)
	require.NoError(t, err)
	again, err := r.Foreign(streamA)
	require.NoError(t, err)
	require.Same(t, a, again)
	b, err := r.Foreign(streamB)
	require.NoError(t, err)
	require.NotSame(t, a, b)
	require.Zero(t, r.Usage().Streams, "they are not leased")
	_, err = r.Foreign(uintptr(driver.PerThread))
	requireCode(t, status.Unsupported, err)
	_, err = r.Foreign(0xC000)
	requireCode(t, status.InvalidHandle, err)
}

// A stream's pointer comes again while what it has queued has not run: what it freed is not the new stream's.
func TestAPointerOfAStreamComesAgain(t *testing.T) {
	for name, of := range memoryOf {
		for _, lasting := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, lasting %v", name, lasting), func(t *testing.T) {
				p, r, _ := newPeer(t, sim.Options{Memory: 64 * mib, Scheduler: sim.Seeded, Seed: 7}, of)
				for round := range 20 {
					native := p.create(streamA)
					handle, address, err := r.AllocateOn(streamA, lasting, Request{Bytes: 3 * mib})
					require.NoError(t, err)
					require.NoError(t, p.Fill(native, address, byte(round), 3*mib))
					require.NoError(t, r.FreeOn(handle, streamA, lasting))
					p.destroy(streamA)
				}
			})
		}
	}
}

// Work runs behind what a stream of others has queued, which may be gone then, and the host does not wait.
func TestWorkFollowsStreamsOfOthers(t *testing.T) {
	for name, native := range map[string]uintptr{"a stream": streamA, "a thread's own": uintptr(driver.PerThread)} {
		t.Run(name, func(t *testing.T) {
			p, r, d := newPeer(t, sim.Options{Scheduler: sim.Stepped}, Options{})
			leased, err := r.AcquireStream(0)
			require.NoError(t, err)
			mine, err := FindStream(leased)
			require.NoError(t, err)
			theirs := p.create(streamA)
			if native != streamA {
				theirs = driver.PerThread
			}
			handle, address, err := r.Allocate(Request{Stream: mine, Bytes: 1000})
			require.NoError(t, err)
			require.NoError(t, r.order(mine.native, theirs))
			for round := range 3 {
				require.NoError(t, p.Fill(p.native(theirs), address, byte(round), 1000))
				require.NoError(t, mine.Follow(native))
				require.NoError(t, mine.Fill(address, 9, 1000))
				require.NoError(t, r.order(mine.native, theirs))
			}
			p.destroy(streamA)
			_, err = Free(handle, nil)
			require.NoError(t, err)
			requireCode(t, status.InvalidHandle, mine.Follow(0xC000))
			d.Finish()
		})
	}
}

// Streams that come and go without end leave nothing, also recorded ones.
func TestStreamsThatAreGoneAreForgotten(t *testing.T) {
	for name, of := range memoryOf {
		t.Run(name, func(t *testing.T) {
			p, r, _ := newPeer(t, sim.Options{Memory: 64 * mib}, of)
			first, second := p.create(streamA), p.create(streamB)
			var old uint64
			var recorded *Stream
			for round := range 300 {
				lasting := round%3 == 0
				handle, address, err := r.AllocateOn(streamA, lasting, Request{Bytes: mib})
				require.NoError(t, err)
				require.NoError(t, p.Fill(first, address, 1, mib))
				require.NoError(t, r.order(first, second))
				require.NoError(t, p.Fill(second, address, 2, mib))
				using, err := r.Record(handle, streamB, lasting)
				require.NoError(t, err)
				if old != 0 { // whose streams are gone
					require.NoError(t, r.FreeOn(old, streamA, false, recorded))
				}
				if old = 0; round%5 == 0 {
					old, recorded = handle, using
					require.NoError(t, r.order(second, first))
				} else {
					require.NoError(t, r.FreeOn(handle, streamA, lasting, using))
				}
				p.destroy(streamA)
				p.destroy(streamB)
				first, second = p.create(streamA), p.create(streamB)
			}
			require.NoError(t, p.Synchronize())
			if old != 0 {
				require.NoError(t, r.FreeOn(old, streamA, false, recorded))
			}
			require.Less(t, len(r.streams.all), 16)
			require.Less(t, len(r.foreign.shadows)+len(r.foreign.spare)+len(r.foreign.gone), 12)
			for _, s := range r.streams.all {
				require.Less(t, len(s.seen), 16)
			}
			require.Less(t, r.Usage().EventsMade, uint64(40))
		})
	}
}

// One that is gone is waited for as long as it works.
func TestStreamsThatAreGoneAreWaitedFor(t *testing.T) {
	for name, of := range memoryOf {
		t.Run(name, func(t *testing.T) {
			p, r, d := newPeer(t, sim.Options{Memory: 64 * mib, Scheduler: sim.Stepped}, of)
			first, second := p.create(streamA), p.create(streamB)
			handle, address, err := r.AllocateOn(streamA, false, Request{Bytes: mib})
			require.NoError(t, err)
			require.NoError(t, r.order(first, second))
			require.NoError(t, p.Fill(second, address, 2, mib))
			recorded, err := r.Record(handle, streamB, false)
			require.NoError(t, err)
			p.destroy(streamB)
			p.create(streamB)
			_, err = r.Foreign(streamB)
			require.NoError(t, err)
			require.Equal(t, []*Stream{recorded}, r.foreign.gone)
			require.NoError(t, r.FreeOn(handle, streamA, false, recorded))
			d.Finish()
			p.destroy(streamB)
			p.create(streamB)
			_, err = r.Foreign(streamB)
			require.NoError(t, err)
			require.NotContains(t, r.foreign.gone, recorded)
		})
	}
}

// A stream that does not last is not touched when the call has returned: peer sees it.
func TestStreamsAreDestroyedWithoutAWord(t *testing.T) {
	for name, of := range memoryOf {
		t.Run(name, func(t *testing.T) {
			p, r, d := newPeer(t, sim.Options{Memory: 32 * mib, Scheduler: sim.Stepped}, of)
			a := p.create(streamA)
			p.create(streamB)
			handle, address, err := r.AllocateOn(streamA, false, Request{Bytes: 12 * mib})
			require.NoError(t, err)
			require.NoError(t, p.Fill(a, address, 1, 12*mib))
			_, err = r.Record(handle, streamB, false)
			require.NoError(t, err)
			require.NoError(t, r.FreeOn(handle, streamA, false))
			left, _, err := r.AllocateOn(streamA, false, Request{Bytes: 1})
			require.NoError(t, err)
			p.destroy(streamA)
			p.destroy(streamB)
			r.Reap()
			// A pool waits for what is free behind a stream that is gone.
			b, bytes := p.create(streamB), uint64(12*mib)
			if r.Pool() != nil {
				bytes = 20 * mib
			}
			handle, address, err = r.AllocateOn(streamB, false, Request{Bytes: bytes})
			require.NoError(t, err)
			require.NoError(t, p.Fill(b, address, 2, bytes))
			require.NoError(t, r.FreeOn(handle, streamB, false))
			require.NoError(t, r.FreeOn(left, streamB, false))
			d.Finish()
		})
	}
}

// A block that was left on a stream that is gone ends with the runtime.
func TestABlockOutlivesItsStream(t *testing.T) {
	for name, of := range memoryOf {
		t.Run(name, func(t *testing.T) {
			p, r, d := newPeer(t, sim.Options{}, of)
			p.create(streamA)
			_, _, err := r.AllocateOn(streamA, false, Request{Bytes: 1000})
			require.NoError(t, err)
			p.destroy(streamA)
			leaks, err := r.Close()
			require.NoError(t, err)
			require.Len(t, leaks.Blocks, 1)
			require.Empty(t, d.Live())
			r.leaks = Leaks{}
		})
	}
}

// use is a block that one stream has, and another one uses.
func useElsewhere(t *testing.T, p *peer, r *Runtime, record func(handle uint64)) (address driver.Address) {
	a, b := p.streams[streamA], p.streams[streamB]
	handle, address, err := r.AllocateOn(streamA, true, Request{Bytes: 3 * mib})
	require.NoError(t, err)
	require.NoError(t, p.Fill(a, address, 1, 3*mib))
	require.NoError(t, r.order(a, b)) // the program's
	record(handle)
	require.NoError(t, p.Fill(b, address, 2, 3*mib))
	return address
}

func TestAFreeComesBehindRecordedStreams(t *testing.T) {
	p, r, d := newPeer(t, sim.Options{Memory: 64 * mib, Scheduler: sim.Stepped},
		Options{Pool: &pool.Options{Limit: 6 * mib, LargeStep: 2 * mib}}) // room for two blocks
	a, b := p.create(streamA), p.create(streamB)
	var block uint64
	var recorded *Stream
	address := useElsewhere(t, p, r, func(handle uint64) {
		var err error
		block = handle
		recorded, err = r.Record(handle, streamB, true) // the work comes behind it, as PyTorch allows
		require.NoError(t, err)
		none, err := r.Record(handle, streamA, true)
		require.NoError(t, err)
		require.Nil(t, none, "the block's own stream")
	})
	require.NoError(t, r.FreeOn(block, streamA, true, recorded))

	// Nobody gets it while stream B has not run, and stream A does not wait for B.
	other, elsewhere, err := r.AllocateOn(streamA, true, Request{Bytes: 3 * mib})
	require.NoError(t, err)
	require.NotEqual(t, address, elsewhere)
	require.NoError(t, p.Fill(a, elsewhere, 3, 3*mib))
	for done := false; !done; {
		require.NoError(t, d.Step(0, a))
		done, err = p.QueryStream(a)
		require.NoError(t, err)
	}
	done, err := p.QueryStream(b)
	require.NoError(t, err)
	require.False(t, done)
	d.Finish()
	r.Reap()
	again, same, err := r.AllocateOn(streamA, true, Request{Bytes: 3 * mib})
	require.NoError(t, err)
	require.Equal(t, address, same)
	require.NoError(t, p.Fill(a, same, 4, 3*mib))
	require.NoError(t, r.FreeOn(again, streamA, true))
	require.NoError(t, r.FreeOn(other, streamA, true))
	d.Finish()
}

// The twin: without a record the device reports what two streams do to the memory.
func TestWorkThatIsNotRecordedIsFound(t *testing.T) {
	d, err := sim.New(sim.Options{})
	require.NoError(t, err)
	defer d.Close()
	device, err := d.Open(0)
	require.NoError(t, err)
	p := &peer{Device: device, t: t, streams: make(map[uintptr]driver.Stream), dead: make(map[driver.Stream]bool)}
	r, err := New(p, Options{Pool: &pool.Options{}})
	require.NoError(t, err)
	a := p.create(streamA)
	p.create(streamB)
	var block uint64
	address := useElsewhere(t, p, r, func(handle uint64) { block = handle })
	require.NoError(t, r.FreeOn(block, streamA, true))
	_, count := d.Violations()
	require.Zero(t, count)
	_, same, err := r.AllocateOn(streamA, true, Request{Bytes: 3 * mib})
	require.NoError(t, err)
	require.Equal(t, address, same)
	require.NoError(t, p.Fill(a, same, 3, 3*mib))
	_, count = d.Violations()
	require.NotZero(t, count)
}

// Threads' own default streams are ordered with each other and with others through a stream of the runtime's.
func TestDefaultStreamsOfThreads(t *testing.T) {
	for name, of := range memoryOf {
		t.Run(name, func(t *testing.T) {
			p, r, _ := newPeer(t, sim.Options{Memory: 64 * mib, Scheduler: sim.Seeded, Seed: 3}, of)
			second, err := p.CreateStream(0)
			require.NoError(t, err)
			native := p.create(streamA)
			for round := range 20 {
				p.thread, second = second, p.thread
				mine, minesAddress, err := r.AllocateOn(uintptr(driver.PerThread), false, Request{Bytes: 3 * mib})
				require.NoError(t, err)
				require.NoError(t, p.Fill(p.thread, minesAddress, byte(round), 3*mib))
				others, address, err := r.AllocateOn(streamA, true, Request{Bytes: 3 * mib})
				require.NoError(t, err)
				require.NoError(t, p.Fill(native, address, byte(round), 3*mib))
				require.NoError(t, r.order(native, p.thread))
				require.NoError(t, p.Fill(p.thread, address, 0, 3*mib))
				recorded, err := r.Record(others, uintptr(driver.PerThread), round%2 == 0)
				require.NoError(t, err)
				p.thread, second = second, p.thread // another thread frees it
				require.NoError(t, r.FreeOn(others, streamA, true, recorded))
				p.thread, second = second, p.thread
				require.NoError(t, r.FreeOn(mine, uintptr(driver.PerThread), true))
			}
			require.NoError(t, p.Device.DestroyStream(second))
		})
	}
}

// Memory without a stream is there for every stream when the call returns, and is freed behind all of them.
func TestMemoryOfNoStream(t *testing.T) {
	for name, of := range memoryOf {
		t.Run(name, func(t *testing.T) {
			p, r, _ := newPeer(t, sim.Options{Memory: 64 * mib, Scheduler: sim.Seeded, Seed: 5}, of)
			a, b := p.create(streamA), p.create(streamB)
			for range 10 {
				handle, address, err := r.AllocateNow(Request{Bytes: 3 * mib})
				require.NoError(t, err)
				require.NoError(t, p.Fill(a, address, 1, mib))
				require.NoError(t, p.Fill(b, address+mib, 1, mib))
				require.NoError(t, r.FreeNow(handle))
				other, address, err := r.AllocateOn(streamA, true, Request{Bytes: 3 * mib})
				require.NoError(t, err)
				require.NoError(t, p.Fill(a, address, 1, 3*mib))
				require.NoError(t, r.FreeOn(other, streamA, true))
			}
			_, _, err := r.AllocateNow(Request{Bytes: 65 * mib})
			requireCode(t, status.OutOfMemory, err)
		})
	}
}

// Threads with streams that come and go, blocks that go from one to the other.
func TestThreadsWithStreamsOfOthers(t *testing.T) {
	p, r, _ := newPeer(t, sim.Options{Memory: 128 * mib}, Options{Pool: &pool.Options{}})
	var threads sync.WaitGroup
	for thread := range 4 {
		threads.Add(1)
		go func() {
			defer threads.Done()
			random := rand.New(rand.NewPCG(uint64(thread), 9))
			pointer := uintptr(0x1000 * (thread + 1))
			native := p.create(pointer)
			for range 200 {
				bytes := 1 + random.Uint64N([]uint64{4096, mib, 6 * mib}[random.IntN(3)])
				handle, address, err := r.AllocateOn(pointer, false, Request{Bytes: bytes})
				if !assert.NoError(t, err) {
					return
				}
				assert.NoError(t, p.Fill(native, address, 1, bytes))
				assert.NoError(t, r.FreeOn(handle, pointer, false))
				if random.IntN(10) == 0 {
					p.destroy(pointer)
					native = p.create(pointer)
				}
			}
		}()
	}
	threads.Wait()
	require.NoError(t, r.Pool().Check())
}
