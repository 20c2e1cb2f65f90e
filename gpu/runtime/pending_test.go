package runtime

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"libmmsb/core/pool"
	"libmmsb/core/status"
	"libmmsb/gpu/blocks"
	"libmmsb/gpu/driver"
	"libmmsb/gpu/sim"
)

// steadily is a patience that no test comes to the end of.
const steadily = 10 * time.Second

// waits fails the test where a call of a runtime returns before it has waited. Then the device goes on; what the call returns is
// waits'.
func waits(t testing.TB, r *Runtime, call func() error, goOn func()) error {
	done, before := make(chan error, 1), r.counts.settles.Load()
	go func() { done <- call() }()
	for begin := time.Now(); r.counts.settles.Load() == before && time.Since(begin) < steadily; {
		select {
		case err := <-done:
			require.FailNow(t, "nobody has waited", "%v", err)
		case <-time.After(time.Millisecond):
		}
	}
	goOn()
	return <-done
}

// What was freed before a wait of its stream is free behind it, without an event, which a device does not reach at once.
func TestWhatAWaitHasPassedIsFree(t *testing.T) {
	w := newWorld(t, sim.Options{Memory: 16 * mib, Scheduler: sim.Stepped}, 1)
	for range 3 {
		handle, address, err := w.allocate(0, mib)
		require.NoError(t, err)
		require.NoError(t, w.device.Fill(w.streams[0].native, address, 1, mib))
		_, err = Free(handle, nil)
		require.NoError(t, err)
	}
	require.EqualValues(t, 3*mib, w.runtime.Usage().Pending)
	w.goOn(func() { require.NoError(t, w.streams[0].Synchronize()) })
	w.runtime.Reap()
	require.Zero(t, w.runtime.Usage().Pending)
	require.Zero(t, w.runtime.events.made.Load())
}

// What is pending is not missing: a request waits until the device has come past it. Where nothing is pending it fails at once.
func TestPendingMemoryIsWaitedFor(t *testing.T) {
	poolOf := func(of pool.Options) Options {
		of.LargeStep = 2 * mib
		return Options{Pool: &of}
	}
	for name, c := range map[string]struct {
		of     Options
		budget uint64 // of the device
		beside bool   // what is pending is another runtime's
	}{
		"a pool":                       {of: poolOf(pool.Options{})},
		"a pool with a limit":          {of: poolOf(pool.Options{Limit: 15 * mib})},
		"a pool of plain memory":       {of: poolOf(pool.Options{Origin: pool.Plain})},
		"a pool of managed memory":     {of: poolOf(pool.Options{Origin: pool.Managed})},
		"a pool of pinned memory":      {of: poolOf(pool.Options{Origin: pool.Pinned})},
		"the driver's":                 {},
		"a pool, and a budget":         {of: poolOf(pool.Options{}), budget: 15 * mib},
		"the driver's, and a budget":   {budget: 15 * mib},
		"the driver's, under a limit":  {of: Options{Adaptors: []Adaptor{NewBudget(NewLedger(15 * mib))}}},
		"another pool's":               {of: poolOf(pool.Options{}), beside: true},
		"a pool's for the driver's":    {beside: true},
		"another pool's, and a budget": {of: poolOf(pool.Options{}), beside: true, budget: 15 * mib},
	} {
		t.Run(name, func(t *testing.T) {
			c.of.Patience = steadily
			w := newWorldWith(t, sim.Options{Memory: 16 * mib, Scheduler: sim.Stepped}, 2, c.of)
			SetDeviceBudget(w.device, c.budget)
			defer SetDeviceBudget(w.device, 0)
			of := w
			if c.beside {
				of = beside(t, w, 1, poolOf(pool.Options{}))
			}
			for range 2 {
				handle, address, err := of.allocate(0, 12*mib)
				require.NoError(t, err)
				require.NoError(t, of.device.Fill(of.streams[0].native, address, 1, 12*mib))
				mustFree(t, handle)
				waited := w.runtime.Usage().Settles
				require.NoError(t, waits(t, w.runtime, func() (err error) {
					handle, _, err = w.allocate(1, 13*mib)
					return err
				}, w.driver.Finish))
				require.Equal(t, waited+1, w.runtime.Usage().Settles)
				_, _, err = w.allocate(0, 3*mib)
				require.True(t, lacks(err), "%v", err)
				_, _, err = w.allocate(0, 1<<40)
				require.True(t, lacks(err), "%v", err)
				mustFree(t, handle)
				w.driver.Finish()
				w.runtime.Reap()
				require.NoError(t, w.runtime.Trim(0))
			}
			require.EqualValues(t, 2, w.runtime.Usage().Settles)
			require.NoError(t, w.runtime.Check())
		})
	}
}

// All that is missing is waited for, piece by piece.
func TestPendingMemoryComesInPieces(t *testing.T) {
	w := newWorldWith(t, sim.Options{Memory: 20 * mib, Scheduler: sim.Stepped}, 4,
		Options{Pool: &pool.Options{LargeStep: 2 * mib}, Patience: steadily})
	for stream := range 3 {
		handle, address, err := w.allocate(stream, 6*mib)
		require.NoError(t, err)
		require.NoError(t, w.use(stream, handle, address, 6*mib, Write))
		mustFree(t, handle)
	}
	var handle uint64
	require.NoError(t, waits(t, w.runtime, func() (err error) {
		handle, _, err = w.allocate(3, 13*mib)
		return err
	}, func() {
		for stream := range 3 {
			released := w.runtime.bytes.released.Load()
			require.NoError(t, w.driver.Step(0, w.streams[stream].native))
			require.Eventually(t, func() bool { return w.runtime.bytes.released.Load() > released }, steadily, time.Millisecond)
		}
	}))
	require.EqualValues(t, 1, w.runtime.Usage().Settles, "one request")
	mustFree(t, handle)
}

// A device that does not go on ends patience: it may wait for the program.
func TestPatienceEnds(t *testing.T) {
	budget := NewBudget(NewLedger(15 * mib))
	for _, of := range []Options{{Pool: &pool.Options{LargeStep: 2 * mib}}, {Adaptors: []Adaptor{budget}}} {
		of.Patience = 30 * time.Millisecond
		w := newWorldWith(t, sim.Options{Memory: 16 * mib, Scheduler: sim.Stepped}, 2, of)
		handle, address, err := w.allocate(0, 12*mib)
		require.NoError(t, err)
		require.NoError(t, w.use(0, handle, address, 12*mib, Write))
		mustFree(t, handle)
		begin := time.Now()
		_, _, err = w.allocate(1, 13*mib)
		require.True(t, lacks(err), "%v", err)
		require.GreaterOrEqual(t, time.Since(begin), of.Patience)
		require.ErrorContains(t, err, "; the device has come past nothing of what is pending in 30ms")
		if w.runtime.Pool() != nil {
			require.ErrorContains(t, err, "; 0 bytes of blocks live, 12582912 pending; this process has 12582912 of device 0, ")
		}
		require.EqualValues(t, 1, w.runtime.Usage().Failures)
		w.driver.Finish()
	}
	require.EqualValues(t, 1, budget.State().Refusals)
}

// Pages in managed memory and tags that wake wait as blocks do.
func TestOthersWaitForPendingMemory(t *testing.T) {
	options := sim.Options{Memory: 32 * mib, Scheduler: sim.Stepped}
	w := newWorldWith(t, options, 1, Options{Pool: &pool.Options{LargeStep: 2 * mib}, Patience: steadily})
	SetDeviceBudget(w.device, 16*mib)
	defer SetDeviceBudget(w.device, 0)
	pend := func(bytes uint64) {
		handle, address, err := w.allocate(0, bytes)
		require.NoError(t, err)
		require.NoError(t, w.use(0, handle, address, bytes, Write))
		mustFree(t, handle)
	}
	pend(12 * mib)
	var managed driver.Address
	require.NoError(t, waits(t, w.runtime, func() (err error) {
		managed, err = w.runtime.AllocateHost(driver.Managed, 14*mib)
		return err
	}, w.driver.Finish))
	require.NoError(t, w.runtime.FreeHost(driver.Managed, managed))

	weights := tagOf(t, "weights")
	require.NoError(t, w.runtime.Partition(weights))
	handle, _, err := w.runtime.Allocate(Request{Bytes: 9 * mib, Stream: w.streams[0], Tag: weights})
	require.NoError(t, err)
	w.driver.Finish()
	require.NoError(t, w.runtime.Sleep([]Tag{weights}, SleepOptions{Mode: SleepDrop}))
	pend(14 * mib)
	require.NoError(t, waits(t, w.runtime, func() error { return w.runtime.Wake([]Tag{weights}) }, w.driver.Finish))
	mustFree(t, handle)
}

// What nobody can wait for is not: what a capture has freed, and blocks whose use is open. In a capture nobody waits, nor where
// what is live is too much.
func TestWhatIsNotWaitedFor(t *testing.T) {
	worldOf := func(of pool.Options) *sleeper {
		of.LargeStep = 2 * mib
		options := sim.Options{Memory: 32 * mib, Scheduler: sim.Stepped}
		return &sleeper{world: newWorldWith(t, options, 3, Options{Pool: &of, Patience: time.Second}), t: t}
	}
	refused := func(s *sleeper, stream int, bytes uint64, code status.Code) {
		_, _, err := s.allocate(stream, bytes)
		requireCode(t, code, err)
		require.Zero(t, s.runtime.Usage().Settles)
	}
	pending := func(s *sleeper, stream int, bytes uint64) {
		handle, address, err := s.allocate(stream, bytes)
		require.NoError(t, err)
		require.NoError(t, s.use(stream, handle, address, bytes, Write))
		mustFree(t, handle)
	}
	s := worldOf(pool.Options{})
	h := s.capture(0)
	mustFree(t, s.mustAllocate(t, 0, 18*mib))
	require.NotZero(t, s.runtime.Usage().Pending)
	refused(s, 1, 16*mib, status.OutOfMemory)
	s.endCapture(h)
	require.NoError(t, DestroyCapture(h))

	s = worldOf(pool.Options{})
	h = s.capture(0)
	pending(s, 1, 18*mib)
	refused(s, 0, 20*mib, status.OutOfMemory)
	s.endCapture(h)
	require.NoError(t, DestroyCapture(h))
	s.driver.Finish()

	s = worldOf(pool.Options{})
	handle := s.mustAllocate(t, 1, 18*mib)
	use, _, err := BeginUse(s.streams[2], Use{Block: handle, Access: Read})
	require.NoError(t, err)
	mustFree(t, handle)
	refused(s, 0, 16*mib, status.OutOfMemory)
	require.NoError(t, EndUse(use))

	s = worldOf(pool.Options{Limit: 20 * mib})
	handle = s.mustAllocate(t, 0, 10*mib)
	pending(s, 1, 8*mib)
	refused(s, 2, 12*mib, status.Limit)
	mustFree(t, handle)
	s.driver.Finish()
}

// What magazines and spans have may come back, and counts when it does.
func TestWhatMayComeBack(t *testing.T) {
	w := newPooled(t, sim.Options{Memory: 64 * mib, Scheduler: sim.Stepped}, 1, pool.Options{})
	mustFree(t, w.mustAllocate(t, 0, 3*mib))
	require.NotZero(t, w.streams[0].fast.Cached())
	w.runtime.Reap()
	for w.streams[0].giveSpans() {
	}
	require.False(t, w.runtime.pending())
	handle, address, err := w.allocate(0, 4*mib) // the rest of 20 MiB is a span
	require.NoError(t, err)
	require.True(t, w.runtime.pending())
	regained := w.runtime.regained()
	w.runtime.Reap()
	require.EqualValues(t, 16*mib, w.runtime.regained()-regained)
	require.False(t, w.runtime.pending())

	require.NoError(t, w.use(0, handle, address, 4*mib, Write))
	require.True(t, blocks.Cache(handle, 0))
	require.True(t, w.runtime.pending(), "in a magazine")
	regained = w.runtime.regained()
	w.runtime.Reap()
	require.True(t, w.runtime.pending(), "behind work")
	require.Equal(t, regained, w.runtime.regained())
	w.driver.Finish()
	w.runtime.Reap()
	require.False(t, w.runtime.pending())
	require.EqualValues(t, 4*mib, w.runtime.regained()-regained)
}

// A device that is lost has come past everything, and a runtime that ends is not waited for.
func TestWaitingEndsWithTheDeviceAndTheRuntime(t *testing.T) {
	for name, ends := range map[string]struct {
		by   func(w *world)
		code status.Code
	}{
		"lost": {func(w *world) {
			require.NoError(t, w.driver.Inject(sim.Fault{Call: sim.QueryEvent, Effect: sim.Lose}))
		}, status.DeviceLost},
		"closed": {func(w *world) { go func() { _, _ = w.runtime.Close() }() }, status.OutOfMemory},
	} {
		t.Run(name, func(t *testing.T) {
			d, err := sim.New(sim.Options{Memory: 16 * mib, Scheduler: sim.Stepped})
			require.NoError(t, err)
			defer d.Close()
			w, err := newWorldOf(d, 2, Options{Pool: &pool.Options{LargeStep: 2 * mib}, Patience: -1})
			require.NoError(t, err)
			handle, address, err := w.allocate(0, 12*mib)
			require.NoError(t, err)
			require.NoError(t, w.use(0, handle, address, 12*mib, Write))
			mustFree(t, handle)
			requireCode(t, ends.code, waits(t, w.runtime, func() error {
				_, _, err := w.allocate(1, 13*mib)
				return err
			}, func() { ends.by(w) }))
			d.Finish()
			_, _ = w.runtime.Close()
		})
	}
}

// endless is a lender of which more is regained at each look.
type endless struct {
	lender
	looks atomic.Uint64
}

func (c *endless) Reap()            { c.looks.Add(1) }
func (c *endless) regained() uint64 { return c.looks.Load() }
func (c *endless) pending() bool    { return true }

// Who has met others twice, who took what came, has a turn, for which those with patience wait.
func TestATurnKeepsOthersFromWhatComes(t *testing.T) {
	l := newDeviceLedger()
	lenders := []lender{&endless{}}
	missing := status.Errorf(status.OutOfMemory, "missing")
	var alone []bool
	passed, impatient := make(chan bool, 1), make(chan bool, 1)
	require.NoError(t, l.settle(lenders, attempt{patience: steadily}, missing, func() error {
		alone = append(alone, l.turn.over.Load() != nil)
		if len(alone) < 4 {
			return missing
		}
		for patience, by := range map[time.Duration]chan bool{steadily: passed, 0: impatient} {
			go func() {
				l.turn.pass(attempt{patience: patience})
				by <- true
			}()
		}
		require.Eventually(t, func() bool { return len(impatient) == 1 }, steadily, time.Millisecond)
		require.Empty(t, passed, "nobody has waited for the turn's end")
		return nil
	}))
	require.True(t, <-passed)
	require.Equal(t, []bool{false, false, true, true}, alone)
	require.Nil(t, l.turn.over.Load())

	tries := 0
	try := func() error {
		tries++
		return missing
	}
	requireCode(t, status.OutOfMemory, l.settle(lenders, attempt{patience: steadily}, missing, try))
	require.Equal(t, mostTries, tries, "where others take everything it ends")
	requireCode(t, status.OutOfMemory, l.settle(lenders, attempt{}, missing, try))
	require.Equal(t, mostTries+1, tries, "once without patience")
	requireCode(t, status.InvalidState, l.settle(lenders, attempt{patience: steadily}, missing, func() error {
		return status.Errorf(status.InvalidState, "another error")
	}))
}

// Threads that take and free all the time, beside a device that lags behind, get what there is: none meets an error.
func TestThreadsThatFitMeetNoError(t *testing.T) {
	const most = 28 * mib // of each of two threads, in whole segments
	step := func() *pool.Options { return &pool.Options{LargeStep: 2 * mib} }
	budgeted := func(of *pool.Options) Options {
		return Options{Pool: of, Adaptors: []Adaptor{NewBudget(NewLedger(2 * most))}}
	}
	for name, c := range map[string]struct {
		of      Options
		latency time.Duration
		beside  bool
	}{
		"a pool":                 {of: Options{Pool: step()}},
		"a pool that lags":       {of: Options{Pool: step()}, latency: 200 * time.Microsecond},
		"two pools":              {of: Options{Pool: step()}, latency: 200 * time.Microsecond, beside: true},
		"a budget":               {of: budgeted(nil), latency: 200 * time.Microsecond},
		"a budget over a pool":   {of: budgeted(step())},
		"without a pool or more": {latency: 200 * time.Microsecond},
	} {
		t.Run(name, func(t *testing.T) {
			c.of.Patience = steadily
			w := newWorldWith(t, sim.Options{Memory: 64 * mib, Latency: c.latency}, 2, c.of)
			worlds, streams := []*world{w, w}, []int{0, 1}
			if c.beside {
				worlds[1], streams[1] = beside(t, w, 1, c.of), 0
			}
			var failed atomic.Bool
			inThreads(2, func(thread int) {
				of, stream := worlds[thread], streams[thread]
				var live []uint64
				var sizes []uint64
				held := uint64(0)
				for i := 0; i < 300 && !failed.Load(); i++ {
					bytes := uint64((i*5+thread)%7+1) * 2 * mib
					for held+bytes > most {
						mustFree(t, live[0])
						held -= sizes[0]
						live, sizes = live[1:], sizes[1:]
					}
					handle, address, err := of.allocate(stream, bytes)
					if err == nil {
						err = of.use(stream, handle, address, 1000, Write)
					}
					if !assert.NoError(t, err) {
						failed.Store(true)
						break
					}
					live, sizes, held = append(live, handle), append(sizes, bytes), held+bytes
				}
				mustFree(t, live...)
			})
			for _, of := range worlds {
				require.NoError(t, of.device.Synchronize())
				require.NoError(t, of.runtime.Check())
			}
			t.Logf("%d requests have waited", w.runtime.Usage().Settles)
		})
	}
}
