package runtime

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"libmmsb/core/pool"
	"libmmsb/core/status"
	"libmmsb/gpu/driver"
	"libmmsb/gpu/sim"
)

// requireSettled says that the last Await of a block has waited for all that was queued in it.
func requireSettled(t *testing.T, handle uint64) {
	t.Helper()
	b, err := allBlocks.find(handle)
	require.NoError(t, err)
	b.mutex.Lock()
	defer b.mutex.Unlock()
	require.True(t, b.write.passed())
	for _, read := range b.reads {
		require.True(t, read.passed())
	}
}

// A block in which nothing is queued is passed by without its lock, until somebody uses it again.
func TestIdleBlocks(t *testing.T) {
	w := newWorldWith(t, sim.Options{Latency: time.Millisecond}, 2, Options{Pool: &pool.Options{}})
	tag := tagOf(t, "idle")
	require.NoError(t, w.runtime.Partition(tag))
	handle, address, err := w.runtime.Allocate(Request{Bytes: 512, Stream: w.streams[0], Tag: tag, Owned: true})
	require.NoError(t, err)
	becomesIdle := func() {
		t.Helper()
		for range 2 {
			require.NoError(t, Await(ReadWrite, handle))
			requireSettled(t, handle)
		}
		require.True(t, allBlocks.isIdle(handle))
	}
	require.False(t, allBlocks.isIdle(handle))
	becomesIdle()
	for _, access := range []Access{Read, Write} {
		for range 3 {
			require.NoError(t, w.use(1, handle, address, 512, access))
		}
		require.NoError(t, Await(Read, handle)) // which does not wait for what reads
		becomesIdle()
		use, _, err := BeginUse(w.streams[1], Use{Block: handle, Access: access})
		require.NoError(t, err)
		for range 3 { // nobody waits for a use that is open, but what it queues must be waited for when it has ended
			require.NoError(t, Await(ReadWrite, handle))
		}
		require.False(t, allBlocks.isIdle(handle))
		require.NoError(t, w.work(1, address, 512, access))
		require.NoError(t, EndUse(use))
		becomesIdle()
	}
	require.NoError(t, w.runtime.Sleep([]Tag{tag}, SleepOptions{Mode: SleepDrop}))
	requireCode(t, status.InvalidState, Await(Read, handle))
	require.NoError(t, w.runtime.Wake([]Tag{tag}))
	becomesIdle()
	require.NoError(t, FreeOwned(handle))
	requireCode(t, status.StaleHandle, Await(Read, handle))
}

// What C may free and allocate again is never idle.
func TestABlockOfMagazinesIsNotIdle(t *testing.T) {
	w := newWorldWith(t, sim.Options{}, 1, Options{Pool: &pool.Options{}})
	handle, _, err := w.allocate(0, 512)
	require.NoError(t, err)
	for range 3 {
		require.NoError(t, Await(ReadWrite, handle))
		require.False(t, allBlocks.isIdle(handle))
	}
	w.endOf(t, handle)
}

// A idle block ends with its runtime, whose memory that sleeps then keeps no block of others from being idle.
func TestIdleBlocksEndWithTheirRuntime(t *testing.T) {
	w := newWorld(t, sim.Options{}, 1)
	other, err := newWorldOver(w.driver, w.device, 1, Options{Pool: &pool.Options{}})
	require.NoError(t, err)
	tag := tagOf(t, "idle")
	require.NoError(t, other.runtime.Partition(tag))
	own, _, err := other.runtime.Allocate(Request{Bytes: 512, Stream: other.streams[0], Owned: true})
	require.NoError(t, err)
	_, _, err = other.runtime.Allocate(Request{Bytes: 512, Stream: other.streams[0], Tag: tag})
	require.NoError(t, err)
	for range 2 {
		require.NoError(t, Await(Read, own))
	}
	require.True(t, allBlocks.isIdle(own))
	require.NoError(t, other.runtime.Sleep([]Tag{tag}, SleepOptions{Mode: SleepDrop}))
	require.False(t, allBlocks.isIdle(own))
	leaks, err := other.runtime.Close()
	require.NoError(t, err)
	require.Len(t, leaks.Blocks, 2)
	require.Zero(t, allResting.Load())
	requireCode(t, status.StaleHandle, Await(Read, own))
	require.NoError(t, w.device.Free(driver.Plain, other.scratch[0]))
}
