package runtime

import (
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"libmmsb/core/status"
	"libmmsb/gpu/sim"
)

// accountsAreKept runs allocations that succeed, fail and are refused, and compares what was charged with a recount.
func accountsAreKept() error {
	d, err := sim.New(sim.Options{Memory: 1 << 20, Scheduler: sim.Stepped})
	if err != nil {
		return err
	}
	defer d.Close()
	budget := NewBudget(NewLedger(1000))
	w, err := newWorldOn(d, 1, budget)
	if err != nil {
		return err
	}
	recount := func(want uint64) error {
		if got := budget.State().Charged; got != want {
			return fmt.Errorf("%d bytes are charged, and %d are there", got, want)
		}
		return nil
	}
	first, _, err := w.allocate(0, 600)
	if err != nil {
		return err
	}
	if err := d.Inject(sim.Fault{Call: sim.AllocateOrdered}); err != nil {
		return err
	}
	if _, _, err := w.allocate(0, 300); status.CodeOf(err) != status.OutOfMemory {
		return fmt.Errorf("an allocation that fails: %w", err)
	}
	if err := recount(600); err != nil {
		return err
	}
	if _, err := freeBlock(first, nil); err != nil {
		return err
	}
	if err := recount(600); err != nil { // until the device has come past the free
		return err
	}
	d.Finish()
	second, _, err := w.allocate(0, 1000)
	if err != nil { // the budget looks before it refuses
		return err
	}
	if _, err := freeBlock(second, nil); err != nil {
		return err
	}
	d.Finish()
	w.runtime.Reap()
	if err := recount(0); err != nil {
		return err
	}
	return w.end()
}

func TestAccountsAreKept(t *testing.T) { require.NoError(t, accountsAreKept()) }

func TestABudgetRefusesWithItsNumbers(t *testing.T) {
	budget := NewBudget(NewLedger(1024))
	w := newWorld(t, sim.Options{}, 1, budget)
	first, _, err := w.allocate(0, 768)
	require.NoError(t, err)
	_, _, err = w.allocate(0, 512)
	requireCode(t, status.Limit, err)
	require.Contains(t, err.Error(), "512 bytes exceed the budget: 768 charged, 256 left, limit 1024")
	_, _, err = w.allocate(0, 257)
	requireCode(t, status.Limit, err)
	second, _, err := w.allocate(0, 256) // exactly
	require.NoError(t, err)
	_, _, err = w.allocate(0, 1<<63)
	requireCode(t, status.Limit, err)
	require.Equal(t, BudgetState{Limit: 1024, Charged: 1024, Peak: 1024, Refusals: 3}, budget.State())
	for _, handle := range []uint64{first, second} {
		_, err := freeBlock(handle, nil)
		require.NoError(t, err)
	}
}

func TestABudgetOfNothingRefusesEverything(t *testing.T) {
	w := newWorld(t, sim.Options{}, 1, NewBudget(NewLedger(0)))
	_, _, err := w.allocate(0, 1)
	requireCode(t, status.Limit, err)
}

func TestABudgetHoldsFromManyThreads(t *testing.T) {
	const limit = 16 * 1000
	ledger := NewLedger(limit)
	budget := NewBudget(ledger)
	w := newWorld(t, sim.Options{}, 16, budget)
	var wait sync.WaitGroup
	for thread := range 16 {
		wait.Add(1)
		go func() {
			defer wait.Done()
			for i := range 200 {
				bytes := uint64(500 + 37*((thread+i)%40))
				handle, address, err := w.allocate(thread, bytes)
				if charged := ledger.Charged(); charged > limit {
					t.Errorf("%d of %d bytes are charged", charged, limit)
				}
				if status.CodeOf(err) == status.Limit {
					continue
				}
				if err == nil {
					err = w.use(thread, handle, address, bytes, ReadWrite)
				}
				if err == nil {
					_, err = freeBlock(handle, nil)
				}
				if err != nil {
					t.Error(err)
				}
			}
		}()
	}
	wait.Wait()
	require.NoError(t, w.device.Synchronize())
	w.runtime.Reap()
	require.Zero(t, ledger.Charged())
}

func TestReservationsKeepBytesFromOthers(t *testing.T) {
	budget := NewBudget(NewLedger(1000))
	w := newWorld(t, sim.Options{}, 1, budget)
	reservation, err := budget.Reserve(900)
	require.NoError(t, err)
	_, err = budget.Reserve(101)
	requireCode(t, status.Limit, err)
	_, _, err = w.allocate(0, 101)
	requireCode(t, status.Limit, err)
	request := Request{Bytes: 901, Stream: w.streams[0], Reservation: reservation}
	_, _, err = w.runtime.Allocate(request)
	requireCode(t, status.Limit, err)
	require.NoError(t, w.driver.Inject(sim.Fault{Call: sim.AllocateOrdered}))
	request.Bytes = 500
	_, _, err = w.runtime.Allocate(request)
	requireCode(t, status.OutOfMemory, err)
	require.EqualValues(t, 900, reservation.remaining.Load())
	block, _, err := w.runtime.Allocate(request)
	require.NoError(t, err)
	require.Equal(t, uint64(400), budget.State().Reserved)
	require.Equal(t, uint64(900), budget.State().Charged)
	reservation.End()
	require.Equal(t, BudgetState{Limit: 1000, Charged: 500, Peak: 900, Refusals: 2}, budget.State())
	reservation.End()
	require.EqualValues(t, 500, budget.State().Charged)
	_, err = freeBlock(block, nil)
	require.NoError(t, err)
	_, err = budget.Reserve(0)
	requireCode(t, status.InvalidSize, err)
}

func TestOfTwoWholeClaimsOneWins(t *testing.T) {
	for range 100 {
		budget := NewBudget(NewLedger(1000))
		budget.host = nobody{}
		var wait sync.WaitGroup
		won := make(chan *Reservation, 2)
		for range 2 {
			wait.Add(1)
			go func() {
				defer wait.Done()
				if reservation, err := budget.Reserve(1000); err == nil {
					won <- reservation
				}
			}()
		}
		wait.Wait()
		require.Len(t, won, 1)
	}
}
