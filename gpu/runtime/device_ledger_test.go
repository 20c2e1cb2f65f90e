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

// beside is another runtime of a world's device, with streams, that ends before it.
func beside(t testing.TB, w *world, streams int, of Options) *world {
	other := &world{driver: w.driver, device: w.device}
	var err error
	other.runtime, err = New(w.device, of)
	require.NoError(t, err)
	for range streams {
		handle, err := other.runtime.AcquireStream(0)
		require.NoError(t, err)
		stream, err := FindStream(handle)
		require.NoError(t, err)
		other.streams = append(other.streams, stream)
	}
	t.Cleanup(func() {
		if !t.Failed() {
			require.NoError(t, other.end())
		}
	})
	return other
}

func free(t testing.TB, handle uint64) {
	_, err := Free(handle, nil)
	require.NoError(t, err)
}

func pooledOptions() Options { return Options{Pool: &pool.Options{}} }

// Others ask a runtime that is being made, or ends.
func TestRuntimesComeAndGoWhileOthersAreAsked(t *testing.T) {
	w := newPooled(t, sim.Options{Memory: 256 * mib}, 1, pool.Options{})
	var asking sync.WaitGroup
	done := make(chan struct{})
	asking.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
				SetDeviceBudget(w.device, mib)
				SetDeviceBudget(w.device, 0)
				_ = MemoryOf(w.device)
			}
		}
	})
	for range 50 {
		r, err := New(w.device, Options{Pool: &pool.Options{}, Adaptors: []Adaptor{&Statistics{}}})
		require.NoError(t, err)
		_, err = r.Close()
		require.NoError(t, err)
	}
	close(done)
	asking.Wait()
}

func TestRuntimesOfADeviceShareItsBudget(t *testing.T) {
	w := newWorld(t, sim.Options{Memory: 64 * mib}, 1)
	pooled := beside(t, w, 1, pooledOptions())
	SetDeviceBudget(w.device, 16*mib)
	a, _, err := w.allocate(0, 6*mib)
	require.NoError(t, err)
	b, _, err := pooled.allocate(0, 9*mib)
	require.NoError(t, err, "a pool takes what it needs where more would be too much")
	require.Equal(t, DeviceMemory{Budget: 16 * mib, Charged: 16 * mib, Peak: 16 * mib, Free: mib, Runtimes: 2},
		MemoryOf(w.device))
	_, _, err = w.allocate(0, 1)
	requireCode(t, status.Limit, err)
	require.ErrorContains(t, err, "1 bytes exceed the budget of this process: 16777216 charged, 0 left, limit 16777216")
	_, _, err = pooled.allocate(0, 2*mib)
	requireCode(t, status.Limit, err)
	c, _, err := pooled.allocate(0, mib/2)
	require.NoError(t, err, "what its segments have is charged")

	// A lower budget takes nothing away, and lets nobody take more until enough is given back.
	SetDeviceBudget(w.device, 12*mib)
	require.EqualValues(t, 16*mib, MemoryOf(w.device).Charged)
	free(t, b)
	require.NoError(t, w.device.Synchronize())
	d, _, err := w.allocate(0, 4*mib)
	require.NoError(t, err, "the pool has given back what it kept")
	_, _, err = w.allocate(0, mib)
	requireCode(t, status.Limit, err)
	SetDeviceBudget(w.device, 0)
	e, _, err := w.allocate(0, mib)
	require.NoError(t, err)
	for _, handle := range []uint64{a, c, d, e} {
		free(t, handle)
	}
}

// A lower budget takes what pools keep, and no block.
func TestALowerBudgetTrims(t *testing.T) {
	w := newPooled(t, sim.Options{Memory: 64 * mib}, 1, pool.Options{})
	handle, _, err := w.allocate(0, 5*mib)
	require.NoError(t, err)
	require.EqualValues(t, 20*mib, MemoryOf(w.device).Charged)
	SetDeviceBudget(w.device, 10*mib)
	require.EqualValues(t, 10*mib, MemoryOf(w.device).Charged)
	SetDeviceBudget(w.device, 1)
	require.EqualValues(t, 6*mib, MemoryOf(w.device).Charged)
	free(t, handle)
	SetDeviceBudget(w.device, 0)
}

// 16 threads want twice as much as there is: never is more charged, and a request that fits alone is not refused.
func TestABudgetOfADeviceHoldsFromManyThreads(t *testing.T) {
	const limit, threads = 8 * mib, 16
	w := newWorld(t, sim.Options{Memory: 64 * mib}, threads)
	pooled := beside(t, w, threads, pooledOptions())
	SetDeviceBudget(w.device, limit)
	defer SetDeviceBudget(w.device, 0)
	var wait sync.WaitGroup
	for thread := range threads {
		wait.Add(1)
		go func() {
			defer wait.Done()
			random := rand.New(rand.NewPCG(uint64(thread), 11))
			for range 100 {
				in := []*world{w, pooled}[random.IntN(2)]
				handle, _, err := in.allocate(thread, mib)
				if charged := MemoryOf(w.device).Charged; charged > limit {
					t.Errorf("%d of %d bytes are charged", charged, limit)
				}
				if status.CodeOf(err) == status.Limit {
					continue
				}
				if assert.NoError(t, err) {
					_, err = Free(handle, nil)
					assert.NoError(t, err)
				}
			}
		}()
	}
	wait.Wait()
	require.EqualValues(t, limit, MemoryOf(w.device).Peak)
	require.NoError(t, w.device.Synchronize())
	for _, in := range []*world{w, pooled} {
		handle, _, err := in.allocate(0, limit)
		require.NoError(t, err)
		free(t, handle)
		require.NoError(t, w.device.Synchronize())
	}
}

// Of two pools that want all of the budget at once, one has it: neither takes a part that the other one lacks.
func TestOfTwoPoolsOneHasTheBudget(t *testing.T) {
	w := newPooled(t, sim.Options{Memory: 64 * mib}, 1, pool.Options{})
	other := beside(t, w, 1, pooledOptions())
	SetDeviceBudget(w.device, 20*mib)
	defer SetDeviceBudget(w.device, 0)
	source := (*poolSource)(w.runtime.Pool())
	plan, err := source.plan(source.segmentsOf(pool.Block{Range: pool.Range{Count: 18 * mib / pool.Unit}}))
	require.NoError(t, err)
	owed, err := source.charge(plan)
	require.NoError(t, err)
	require.EqualValues(t, 18*mib, MemoryOf(w.device).Charged, "before the driver is asked for the first segment")
	source.ledger.Give(owed)
	for range 50 {
		var wait sync.WaitGroup
		won := make(chan uint64, 2)
		for _, in := range []*world{w, other} {
			wait.Add(1)
			go func() {
				defer wait.Done()
				if handle, _, err := in.allocate(0, 20*mib); err == nil {
					won <- handle
				} else {
					assert.Equal(t, status.Limit, status.CodeOf(err), "%v", err)
				}
			}()
		}
		wait.Wait()
		require.Len(t, won, 1)
		free(t, <-won)
		require.NoError(t, w.device.Synchronize())
	}
}

func TestHostMemoryIsCharged(t *testing.T) {
	w := newPooled(t, sim.Options{Memory: 64 * mib}, 1, pool.Options{})
	before := MemoryOf(nil).Charged
	SetDeviceBudget(w.device, 20*mib)
	SetDeviceBudget(nil, before+2*mib)
	defer SetDeviceBudget(nil, 0)
	handle, _, err := w.allocate(0, 5*mib)
	require.NoError(t, err)
	managed, err := w.runtime.AllocateHost(driver.Managed, 8*mib)
	require.NoError(t, err, "the runtime's own pool gives back what it keeps")
	require.EqualValues(t, 20*mib, MemoryOf(w.device).Charged)
	require.Equal(t, 1, MemoryOf(w.device).Runtimes)
	_, err = w.runtime.AllocateHost(driver.Managed, 8*mib)
	requireCode(t, status.Limit, err)
	require.NoError(t, w.runtime.FreeHost(driver.Managed, managed))
	again, _, err := w.allocate(0, 14*mib)
	require.NoError(t, err, "the pool of managed memory gives back what it keeps")
	requireCode(t, status.InvalidArgument, w.runtime.FreeHost(driver.Managed, managed))
	requireCode(t, status.InvalidArgument, w.runtime.FreeHost(driver.Pinned, managed))
	free(t, again)

	pinned, err := w.runtime.AllocateHost(driver.Pinned, 1000)
	require.NoError(t, err)
	second, err := w.runtime.AllocateHost(driver.Pinned, mib)
	require.NoError(t, err, "of the same segment")
	_, err = w.runtime.AllocateHost(driver.Pinned, 2*mib)
	requireCode(t, status.Limit, err)
	for _, address := range []driver.Address{pinned, second} {
		require.NoError(t, w.runtime.FreeHost(driver.Pinned, address))
	}
	require.EqualValues(t, before+2*mib, MemoryOf(nil).Charged)
	require.NoError(t, w.driver.Inject(sim.Fault{Call: sim.Free}))
	require.Error(t, w.runtime.Trim(0))
	require.EqualValues(t, before+2*mib, MemoryOf(nil).Charged)
	require.NoError(t, w.runtime.Trim(0))
	require.Equal(t, before, MemoryOf(nil).Charged)
	for after := range 3 { // with a step, without, and when all that is free has gone
		require.NoError(t, w.driver.Inject(sim.Fault{Call: sim.Allocate, After: after}))
	}
	_, err = w.runtime.AllocateHost(driver.Pinned, 1000)
	require.Error(t, err)
	require.Equal(t, before, MemoryOf(nil).Charged)
	free(t, handle)
	SetDeviceBudget(w.device, 0)
}

// Host memory that is held stays when its runtime ends, and goes back when it is freed.
func TestHostMemoryOutlivesItsRuntime(t *testing.T) {
	d, err := sim.New(sim.Options{Memory: 64 * mib})
	require.NoError(t, err)
	defer d.Close()
	w, err := newWorldOf(d, 0, Options{})
	require.NoError(t, err)
	before := MemoryOf(nil).Charged
	address, err := w.runtime.AllocateHost(driver.Pinned, 4096)
	require.NoError(t, err)
	gone, err := w.runtime.AllocateHost(driver.Pinned, 3*mib)
	require.NoError(t, err)
	require.NoError(t, w.runtime.FreeHost(driver.Pinned, gone))
	_, err = w.runtime.Close()
	require.NoError(t, err)
	require.Equal(t, before+2*mib, MemoryOf(nil).Charged)
	pinnedBytes(address, 4096)[4095] = 1
	require.NoError(t, w.runtime.FreeHost(driver.Pinned, address))
	require.Equal(t, before, MemoryOf(nil).Charged)
	require.NoError(t, d.Problems())
}

// What a device has of runtimes that ended is nothing, and nobody remembers it.
func TestLedgersEnd(t *testing.T) {
	for _, options := range []Options{{}, pooledOptions()} {
		d, err := sim.New(sim.Options{Memory: 64 * mib})
		require.NoError(t, err)
		w, err := newWorldOf(d, 1, options)
		require.NoError(t, err)
		_, _, err = w.allocate(0, mib)
		require.NoError(t, err)
		require.NotZero(t, MemoryOf(w.device).Charged)
		_, err = w.runtime.Close()
		require.NoError(t, err)
		require.Zero(t, MemoryOf(w.device))
		require.NotContains(t, deviceLedgers.of, w.device)
		SetDeviceBudget(w.device, 5)
		require.Contains(t, deviceLedgers.of, w.device)
		Leave(d)
		require.NotContains(t, deviceLedgers.of, w.device)
		d.Close()
	}
}

// What guards and tags that sleep keep is charged, to the device or to pinned memory, and given back.
func TestBudgetsCountWhatIsKept(t *testing.T) {
	pinnedBefore := MemoryOf(nil).Charged
	pinnedNow := func() uint64 { return MemoryOf(nil).Charged - pinnedBefore }
	for _, of := range []Options{{}, pooledOptions()} {
		guard := NewGuard(GuardOptions{Quarantine: 3 * mib})
		of.Adaptors = []Adaptor{guard}
		w := newWorldWith(t, sim.Options{Memory: 64 * mib}, 1, of)
		var handles []uint64
		for range slabSlots + 1 {
			handle, _, err := w.allocate(0, mib/8)
			require.NoError(t, err)
			handles = append(handles, handle)
		}
		require.EqualValues(t, 2*slabSlots*slotBytes, pinnedNow(), "each block can be freed without more")
		for _, handle := range handles {
			free(t, handle)
		}
		require.NoError(t, w.device.Synchronize())
		w.runtime.Reap()
		require.NoError(t, w.device.Synchronize())
		w.runtime.Reap()
		require.Greater(t, guard.held, uint64(2*mib))
		require.NoError(t, w.runtime.Trim(0))
		require.GreaterOrEqual(t, MemoryOf(w.device).Charged, guard.held, "what is in quarantine is charged")
		require.Less(t, MemoryOf(w.device).Charged, guard.held+9*mib)
		require.EqualValues(t, 2*slabSlots*slotBytes, pinnedNow())
		require.NoError(t, w.end())
		require.Zero(t, pinnedNow())
		require.Zero(t, MemoryOf(w.device).Charged)
	}
	defer SetDeviceBudget(nil, 0)
	w := newWorldWith(t, sim.Options{Memory: 64 * mib}, 1, Options{Adaptors: []Adaptor{NewGuard(GuardOptions{})}})
	SetDeviceBudget(nil, pinnedBefore+slabSlots*slotBytes)
	handles := make([]uint64, slabSlots)
	for i := range handles {
		var err error
		handles[i], _, err = w.allocate(0, 100)
		require.NoError(t, err)
	}
	_, _, err := w.allocate(0, 100)
	requireCode(t, status.Limit, err)
	for _, handle := range handles {
		free(t, handle)
	}

	s := newSleeper(t, sim.Options{Memory: 64 * mib}, 1, pool.Options{}, "weights")
	weights := tagOf(t, "weights")
	require.NoError(t, s.make(0, 5*mib, weights, 1))
	before := MemoryOf(nil).Charged
	SetDeviceBudget(nil, before+5*mib-1)
	requireCode(t, status.Limit, s.runtime.Sleep([]Tag{weights}, forever(t, SleepKeep)))
	s.verify(0)
	SetDeviceBudget(nil, before+6*mib)
	require.NoError(t, s.runtime.Sleep([]Tag{weights}, forever(t, SleepKeep)))
	require.EqualValues(t, 5*mib, MemoryOf(nil).Charged-before)
	require.Zero(t, MemoryOf(nil).Free)
	require.NoError(t, s.runtime.Wake([]Tag{weights}))
	require.EqualValues(t, 5*mib, MemoryOf(nil).Charged-before)
	require.EqualValues(t, 5*mib, MemoryOf(nil).Free, "it is there for the next sleep")
	s.verify(0)
	host, err := s.runtime.AllocateHost(driver.Pinned, 2*mib)
	require.NoError(t, err, "who lacks pinned memory gets it")
	require.EqualValues(t, 2*mib, MemoryOf(nil).Charged-before)
	requireCode(t, status.Limit, s.runtime.Sleep([]Tag{weights}, forever(t, SleepKeep)))
	require.NoError(t, s.runtime.FreeHost(driver.Pinned, host))
	require.NoError(t, s.runtime.Sleep([]Tag{weights}, forever(t, SleepKeep)))
	require.NoError(t, s.runtime.Wake([]Tag{weights}))
	require.NoError(t, s.driver.Inject(sim.Fault{Call: sim.Free}))
	require.Error(t, s.runtime.Trim(0))
	require.EqualValues(t, 5*mib, MemoryOf(nil).Charged-before, "what the driver does not take stays")
	require.NoError(t, s.runtime.Trim(0))
	require.Equal(t, before, MemoryOf(nil).Charged)
	require.NoError(t, s.runtime.Sleep([]Tag{weights}, forever(t, SleepKeep)))
	require.NoError(t, s.runtime.Wake([]Tag{weights}))
	SetDeviceBudget(nil, before+mib)
	require.Equal(t, before, MemoryOf(nil).Charged, "a lower budget takes what nobody needs")
}

// A lost device has no memory that is charged.
func TestALostDeviceKeepsNothingCharged(t *testing.T) {
	before := MemoryOf(nil).Charged
	d, err := sim.New(sim.Options{Memory: 64 * mib})
	require.NoError(t, err)
	defer d.Close()
	w, err := newWorldOf(d, 1, Options{Adaptors: []Adaptor{NewGuard(GuardOptions{})}})
	require.NoError(t, err)
	_, _, err = w.allocate(0, 100)
	require.NoError(t, err)
	require.Greater(t, MemoryOf(nil).Charged, before)
	require.NoError(t, d.Inject(sim.Fault{Call: sim.Fill, Effect: sim.Lose}))
	_, _, err = w.allocate(0, 100)
	requireCode(t, status.DeviceLost, err)
	_, _ = w.runtime.Close()
	require.Equal(t, before, MemoryOf(nil).Charged)
	require.Zero(t, MemoryOf(w.device).Charged)
}
