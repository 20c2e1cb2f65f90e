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

// Memory that other runtimes of the device keep and do not need is there for a request, before it fails.
func TestOtherRuntimesGiveMemoryBack(t *testing.T) {
	for name, of := range map[string]Options{"the driver's": {}, "a pool": pooledOptions()} {
		t.Run(name, func(t *testing.T) {
			w := newWorldWith(t, sim.Options{Memory: 32 * mib, Scheduler: sim.Stepped}, 1, of)
			pooled := beside(t, w, 1, pooledOptions())
			handle, address, err := pooled.allocate(0, 30*mib)
			require.NoError(t, err)
			require.NoError(t, w.device.Fill(pooled.streams[0].native, address, 1, 30*mib))
			_, _, err = w.allocate(0, 20*mib)
			requireCode(t, status.OutOfMemory, err)
			free(t, handle)
			_, _, err = w.allocate(0, 20*mib)
			requireCode(t, status.OutOfMemory, err)
			require.Zero(t, MemoryOf(w.device).Helped, "the device has not come past the free")
			w.driver.Finish()
			handle, _, err = w.allocate(0, 20*mib)
			require.NoError(t, err)
			m := MemoryOf(w.device)
			require.Equal(t, [3]uint64{3, 1, 20 * mib}, [3]uint64{m.Asked, m.Helped, m.Returned}, "no more than was needed")
			require.EqualValues(t, 10*mib, pooled.runtime.Pool().Statistics().Reserved)
			free(t, handle)
			w.driver.Finish()
		})
	}
}

// What the driver keeps for reuse is given back, too.
func TestTheDriverGivesMemoryBack(t *testing.T) {
	w := newWorld(t, sim.Options{Memory: 32 * mib}, 1)
	pooled := beside(t, w, 1, pooledOptions())
	SetDeviceBudget(w.device, 16*mib)
	var handles []uint64
	for range 2 {
		handle, _, err := w.allocate(0, 8*mib)
		require.NoError(t, err)
		handles = append(handles, handle)
	}
	free(t, handles[1])
	require.NoError(t, w.device.Synchronize())
	used := func() uint64 {
		left, total, err := w.device.MemoryInfo()
		require.NoError(t, err)
		return total - left - uint64(scratchBytes)
	}
	require.EqualValues(t, 16*mib, used())
	_, _, err := pooled.allocate(0, 10*mib)
	requireCode(t, status.Limit, err)
	require.EqualValues(t, 8*mib, used())
	free(t, handles[0])
	SetDeviceBudget(w.device, 0)
}

// PyTorch reported a lack of memory although a block of the pool would have fitted once somebody had looked how far the device
// has come: pytorch#189504.
func TestNothingIsMissingWhileABlockFits(t *testing.T) {
	for name, settle := range map[string]func(w *world){
		"nobody has looked":          func(w *world) { w.driver.Finish() },
		"the device is still at it":  func(*world) {},
		"other streams were trimmed": func(w *world) { w.driver.Finish(); _ = w.runtime.Trim(18 * mib) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newPooled(t, sim.Options{Memory: 20 * mib, Scheduler: sim.Stepped}, 3, pool.Options{})
			var handles []uint64
			for stream := range 2 {
				handle, address, err := w.allocate(stream, 9*mib)
				require.NoError(t, err)
				require.NoError(t, w.use(stream, handle, address, 9*mib, Write))
				handles = append(handles, handle)
			}
			use, _, err := BeginUse(w.streams[0], Use{Block: handles[0], Access: Read})
			require.NoError(t, err)
			for _, handle := range handles {
				free(t, handle)
			}
			require.NoError(t, EndUse(use))
			settle(w)
			for range 2 {
				handle, address, err := w.allocate(2, 9*mib)
				require.NoError(t, err)
				require.NoError(t, w.use(2, handle, address, 9*mib, Write))
				handles = append(handles, handle)
			}
			require.Zero(t, w.runtime.Usage().Failures)
			free(t, handles[2])
			free(t, handles[3])
			w.driver.Finish()
		})
	}
}

func TestAnErrorHasAllNumbers(t *testing.T) {
	known := false
	w := newWorldWith(t, sim.Options{Memory: 48 * mib, Scheduler: sim.Stepped}, 2, Options{Pool: &pool.Options{}, Others: func(
		info driver.Info,
	) (uint64, bool) {
		require.Equal(t, 0, info.Ordinal)
		return 77, known
	}})
	other := beside(t, w, 1, pooledOptions())
	kept, _, err := other.allocate(0, 3*mib)
	require.NoError(t, err)
	live, _, err := w.allocate(0, 4*mib)
	require.NoError(t, err)
	pending, address, err := w.allocate(0, 5*mib)
	require.NoError(t, err)
	require.NoError(t, w.use(0, pending, address, 5*mib, Write))
	free(t, pending)
	_, _, err = w.allocate(1, 60*mib)
	requireCode(t, status.OutOfMemory, err)
	for _, part := range []string{
		"62914560 bytes for stream 2: ", "20971520 bytes have memory, 4194304 are held, 16777216 free",
		"the largest free block has 16777216, 0 sleep, the limit is 0", "; 4194304 bytes of blocks live, 5242880 pending; ",
		"this process has 25165824 of device 0, 1048576 free in other pools, budget none; other processes have unknown",
	} {
		require.ErrorContains(t, err, part)
	}
	known = true
	SetDeviceBudget(w.device, 50*mib)
	_, _, err = w.allocate(1, 60*mib)
	require.ErrorContains(t, err, "budget 52428800; other processes have 77")
	SetDeviceBudget(w.device, 0)
	free(t, live)
	free(t, kept)
	w.driver.Finish()
}

// Who is limited by itself takes nothing from others.
func TestAPoolsOwnLimitAsksNobody(t *testing.T) {
	w := newPooled(t, sim.Options{Memory: 64 * mib}, 1, pool.Options{Limit: 4 * mib})
	other := beside(t, w, 1, pooledOptions())
	kept, _, err := other.allocate(0, 3*mib)
	require.NoError(t, err)
	_, _, err = w.allocate(0, 6*mib)
	requireCode(t, status.Limit, err)
	require.EqualValues(t, 20*mib, other.runtime.Pool().Statistics().Reserved)
	require.Zero(t, MemoryOf(w.device).Asked)
	free(t, kept)
}

// A hook comes behind all steps, for what the driver and what a budget refuses, without a lock: it may call everything.
func TestAHookMayCallEverything(t *testing.T) {
	for _, budget := range []uint64{0, 24 * mib} {
		var w, other *world
		var kept []uint64
		var codes []status.Code
		w = newWorldWith(t, sim.Options{Memory: 32 * mib}, 2, Options{Pool: &pool.Options{}, Adaptors: []Adaptor{
			NewFailure(5, func(_ Request, _ int, err error) bool {
				codes = append(codes, status.CodeOf(err))
				if len(kept) == 0 {
					return false
				}
				_, freeErr := Free(kept[0], nil)
				assert.NoError(t, freeErr)
				kept = kept[1:]
				handle, _, err := w.allocate(1, 1000) // of the runtime that is refused, and of its neighbour
				assert.NoError(t, err)
				free(t, handle)
				handle, _, err = other.allocate(0, 1000)
				assert.NoError(t, err)
				free(t, handle)
				assert.NoError(t, w.runtime.Trim(0))
				another, err := New(w.device, pooledOptions())
				assert.NoError(t, err)
				_, err = another.Close()
				assert.NoError(t, err)
				return true
			}),
		}})
		other = beside(t, w, 1, Options{})
		SetDeviceBudget(w.device, budget)
		for range 2 {
			handle, _, err := other.allocate(0, 9*mib)
			require.NoError(t, err)
			kept = append(kept, handle)
		}
		want, bytes := status.OutOfMemory, uint64(24*mib)
		if budget > 0 {
			want, bytes = status.Limit, budget-8*mib
		}
		handle, _, err := w.allocate(0, bytes)
		require.NoError(t, err)
		require.Equal(t, []status.Code{want, want}, codes)
		_, _, err = w.allocate(0, 40*mib)
		requireCode(t, want, err)
		free(t, handle)
		require.NoError(t, w.device.Synchronize())
		require.NoError(t, w.runtime.Trim(0))
		require.Zero(t, MemoryOf(w.device).Charged)
		SetDeviceBudget(w.device, 0)
	}
}

// Runtimes that all lack memory ask each other at the same time: none waits for another one for ever, and nothing is lost.
func TestRuntimesAskEachOther(t *testing.T) {
	w := newPooled(t, sim.Options{Memory: 24 * mib}, 2, pool.Options{})
	worlds := []*world{w, beside(t, w, 2, pooledOptions()), beside(t, w, 2, Options{})}
	var threads sync.WaitGroup
	for thread := range 2 * len(worlds) {
		threads.Add(1)
		go func() {
			defer threads.Done()
			in, stream := worlds[thread/2], thread%2
			random := rand.New(rand.NewPCG(uint64(thread), 9))
			for range 100 {
				handle, _, err := in.allocate(stream, 1+random.Uint64N(16*mib))
				if lacks(err) {
					continue
				}
				if assert.NoError(t, err) {
					_, err = Free(handle, nil)
					assert.NoError(t, err)
				}
			}
		}()
	}
	threads.Wait()
	require.NoError(t, w.device.Synchronize())
	for _, in := range worlds {
		require.NoError(t, in.runtime.Trim(0))
		require.NoError(t, in.runtime.Check())
	}
	m := MemoryOf(w.device)
	require.Zero(t, m.Charged)
	require.NotZero(t, m.Helped)
}

// What one device gives back leaves the other one's memory as it is.
func TestDevicesDoNotShareMemory(t *testing.T) {
	d, err := sim.New(sim.Options{Devices: 2, Memory: 32 * mib})
	require.NoError(t, err)
	defer d.Close()
	var runtimes []*Runtime
	for ordinal := range 2 {
		device, err := d.Open(ordinal)
		require.NoError(t, err)
		r, err := New(device, pooledOptions())
		require.NoError(t, err)
		handle, err := r.AcquireStream(0)
		require.NoError(t, err)
		stream, err := FindStream(handle)
		require.NoError(t, err)
		block, _, err := r.Allocate(Request{Bytes: 5 * mib, Stream: stream})
		require.NoError(t, err)
		free(t, block)
		require.NoError(t, device.Synchronize())
		runtimes = append(runtimes, r)
	}
	require.NoError(t, runtimes[0].Trim(0))
	require.Zero(t, MemoryOf(runtimes[0].device).Charged)
	require.Zero(t, runtimes[0].Pool().Statistics().Reserved)
	require.EqualValues(t, 20*mib, MemoryOf(runtimes[1].device).Charged)
	require.EqualValues(t, 20*mib, MemoryOf(runtimes[1].device).Free)
	for _, r := range runtimes {
		_, err := r.Close()
		require.NoError(t, err)
	}
	require.NoError(t, d.Problems())
}
