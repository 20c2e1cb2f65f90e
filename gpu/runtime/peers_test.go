package runtime

import (
	"testing"

	"github.com/stretchr/testify/require"

	"libmmsb/core/pool"
	"libmmsb/core/status"
	"libmmsb/gpu/driver"
	"libmmsb/gpu/sim"
)

// Kernels of another device reach the blocks of a pool that was made for peers, wherever segments have gone meanwhile, and no
// others.
func TestPeersReachBlocksOfAPool(t *testing.T) {
	for _, peers := range []bool{false, true} {
		d, err := sim.New(sim.Options{Memory: 64 * mib, Devices: 2, Kernels: map[string]sim.Kernel{
			"write": func(launch *driver.Launch, reach func(driver.Address, uint64) []byte) {
				for _, a := range launch.Accesses {
					reach(a.Address, a.Bytes)[0] = 5
				}
			}}})
		require.NoError(t, err)
		defer d.Close()
		w, err := newWorldOf(d, 1, Options{Pool: &pool.Options{Peers: peers}})
		require.NoError(t, err)
		other, err := d.Open(1)
		require.NoError(t, err)
		module, err := other.LoadModule(nil)
		require.NoError(t, err)
		write, err := other.Function(module, "write")
		require.NoError(t, err)
		reached := func(address driver.Address) {
			require.NoError(t, w.device.Synchronize())
			err := other.Launch(0, &driver.Launch{Function: write, Blocks: 1, Threads: 1,
				Accesses: []driver.Access{{Address: address, Bytes: 100, Write: true}}})
			if !peers {
				requireCode(t, status.Unsupported, err)
				return
			}
			require.NoError(t, err)
			require.NoError(t, other.Synchronize())
		}
		tag := tagOf(t, "peers")
		require.NoError(t, w.runtime.Partition(tag))
		kept, address, err := w.runtime.Allocate(Request{Bytes: 3 * mib, Stream: w.streams[0], Tag: tag})
		require.NoError(t, err)
		reached(address)
		large, at, err := w.allocate(0, 50*mib)
		require.NoError(t, err)
		reached(at)
		reached(at + 49*mib)
		free(t, large)
		require.NoError(t, w.device.Synchronize())
		small, at, err := w.allocate(0, 1000) // in a segment that had another address
		require.NoError(t, err)
		reached(at)
		require.NoError(t, w.runtime.Sleep([]Tag{tag}, forever(t, SleepKeep)))
		require.NoError(t, w.runtime.Wake([]Tag{tag}))
		reached(address)
		require.NoError(t, d.Inject(sim.Fault{Call: sim.Unmap, After: 1}))
		require.NoError(t, d.Inject(sim.Fault{Call: sim.Map}))
		require.Error(t, w.runtime.Sleep([]Tag{tag}, forever(t, SleepKeep)))
		require.NoError(t, w.runtime.Wake([]Tag{tag}), "mapped again")
		reached(address)
		reached(address + 2*mib)
		free(t, kept)
		free(t, small)
		require.NoError(t, other.UnloadModule(module))
		require.NoError(t, w.end())
		require.NoError(t, d.Problems())
	}
	d, err := sim.New(sim.Options{Memory: 64 * mib, NoVirtual: true})
	require.NoError(t, err)
	defer d.Close()
	_, err = newWorldOf(d, 1, Options{Pool: &pool.Options{Peers: true}})
	requireCode(t, status.Unsupported, err)
}
