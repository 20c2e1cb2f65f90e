package runtime

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"libmmsb/core/pool"
	"libmmsb/core/status"
	"libmmsb/gpu/driver"
	"libmmsb/gpu/sim"
)

var wholeOrigins = []pool.Origin{pool.Plain, pool.Ordered, pool.Pinned, pool.Managed}

// Memory of each kind serves as a device's own does: order holds, and nothing is left.
func TestEveryOriginBehavesAlike(t *testing.T) {
	for _, origin := range wholeOrigins {
		t.Run(origin.String(), func(t *testing.T) {
			for seed := range uint64(10) {
				d, err := sim.New(sim.Options{Memory: 16 * mib, Scheduler: sim.Seeded, Seed: seed + 1})
				require.NoError(t, err)
				before := MemoryOf(nil).Charged
				w, err := newWorldOf(d, 4, Options{Pool: &pool.Options{Origin: origin}})
				require.NoError(t, err)
				for i := range uint64(10) {
					require.NoError(t, randomProgram(w, rand.New(rand.NewPCG(seed, i)), 30), "seed %d", seed)
				}
				reserved := w.runtime.Pool().Statistics().Reserved
				require.NotZero(t, reserved)
				pinned, ofDevice := MemoryOf(nil).Charged-before, MemoryOf(w.device).Charged
				if origin == pool.Pinned {
					require.Equal(t, [2]uint64{reserved, 0}, [2]uint64{pinned, ofDevice})
				} else {
					require.Equal(t, [2]uint64{0, reserved}, [2]uint64{pinned, ofDevice})
				}
				require.NoError(t, w.runtime.Pool().Check())
				require.NoError(t, w.end())
				require.Equal(t, before, MemoryOf(nil).Charged)
				require.Zero(t, MemoryOf(w.device).Charged)
				require.NoError(t, d.Problems())
				d.Close()
			}
		})
	}
}

func TestTheHostReachesPinnedBlocks(t *testing.T) {
	for _, origin := range []pool.Origin{pool.Pinned, pool.Managed} {
		w := newWorldWith(t, sim.Options{Memory: 64 * mib}, 1, Options{Pool: &pool.Options{Origin: origin}})
		handle, address, err := w.allocate(0, 100)
		require.NoError(t, err)
		require.NoError(t, w.use(0, handle, address, 100, Write))
		require.NoError(t, w.device.Synchronize())
		require.Equal(t, byte(1), pinnedBytes(address, 100)[99])
		second, next, err := w.allocate(0, 100)
		require.NoError(t, err)
		require.Equal(t, driver.Address(pool.Unit), next-address, "both are of one segment")
		free(t, handle)
		free(t, second)
	}
}

// settle waits for a device whose first Synchronize may fail.
func settle(t *testing.T, w *world) {
	if w.device.Synchronize() != nil {
		require.NoError(t, w.device.Synchronize())
	}
}

// Each call of the driver fails at each of its first times: the books agree with the device's memory, and nothing is left.
func TestEveryOriginWhenTheDriverFails(t *testing.T) {
	for _, origin := range wholeOrigins {
		for _, call := range []sim.Call{
			sim.Allocate, sim.Free, sim.AllocateOrdered, sim.FreeOrdered, sim.Synchronize, sim.CreateStream,
		} {
			for after := range 4 {
				d, err := sim.New(sim.Options{Memory: 32 * mib})
				require.NoError(t, err)
				require.NoError(t, d.Inject(sim.Fault{Call: call, After: after}))
				w, err := newWorldOf(d, 1, Options{Pool: &pool.Options{Origin: origin}})
				if err == nil {
					var live []uint64
					for _, bytes := range []uint64{1000, 8 * mib, 6 * mib, 8 * mib, 14 * mib, 20 * mib, 400} {
						if handle, _, err := w.allocate(0, bytes); err == nil {
							live = append(live, handle)
						}
						for len(live) > 1 {
							free(t, live[0])
							live = live[1:]
						}
						settle(t, w)
						require.NoError(t, w.runtime.Pool().Check())
					}
					for _, handle := range live {
						free(t, handle)
					}
					settle(t, w)
					if err := w.runtime.Trim(0); err != nil {
						require.NoError(t, w.runtime.Trim(0))
					}
					require.Zero(t, w.runtime.Pool().Statistics().Reserved)
					require.Zero(t, MemoryOf(w.device).Charged)
					if err = w.end(); err != nil { // of the test's own memory
						requireCode(t, status.Device, err)
					} else {
						require.NoError(t, d.Problems(), "%v: %v, call %d", origin, call, after)
					}
				} // else the test's own memory or streams are missing
				d.Close()
			}
		}
	}
}

// Where pinned memory is missing, other host memory serves if the program chose that, and never else.
func TestPageableMemoryServesByChoice(t *testing.T) {
	before := MemoryOf(nil).Charged
	SetDeviceBudget(nil, before+2*mib)
	defer SetDeviceBudget(nil, 0)
	w := newWorldWith(t, sim.Options{Memory: 64 * mib}, 1, Options{Pool: &pool.Options{Origin: pool.Pinned}})
	fallback := beside(t, w, 1, Options{Pool: &pool.Options{Origin: pool.Pinned, Pageable: true}})
	_, _, err := w.allocate(0, 3*mib)
	requireCode(t, status.Limit, err)
	require.ErrorContains(t, err, "of pinned memory")
	handle, address, err := fallback.allocate(0, 3*mib)
	require.NoError(t, err)
	require.EqualValues(t, before, MemoryOf(nil).Charged)
	bytes := pinnedBytes(address, 3*mib)
	bytes[3*mib-1] = 7
	scratch := w.scratch[0]
	stream := fallback.streams[0]
	require.NoError(t, stream.Copy(driver.Copy{To: scratch, From: address + 3*mib - 1, Bytes: 1}))
	require.NoError(t, stream.Copy(driver.Copy{To: address, From: scratch, Bytes: 1}))
	require.NoError(t, stream.Synchronize())
	require.Equal(t, byte(7), bytes[0])
	small, _, err := fallback.allocate(0, 100)
	require.NoError(t, err, "pinned memory, of which there is some")
	require.EqualValues(t, before+2*mib, MemoryOf(nil).Charged)
	free(t, handle)
	free(t, small)
	require.NoError(t, w.device.Synchronize())
	require.NoError(t, fallback.runtime.Trim(0))
	require.EqualValues(t, before, MemoryOf(nil).Charged)
}

// A pool gives pinned memory back for another one.
func TestPinnedPoolsShareTheirBudget(t *testing.T) {
	before := MemoryOf(nil).Charged
	SetDeviceBudget(nil, before+20*mib)
	defer SetDeviceBudget(nil, 0)
	w := newWorldWith(t, sim.Options{Memory: 64 * mib}, 1, Options{Pool: &pool.Options{Origin: pool.Pinned}})
	other := beside(t, w, 1, Options{Pool: &pool.Options{Origin: pool.Pinned}})
	handle, _, err := w.allocate(0, 3*mib)
	require.NoError(t, err)
	_, _, err = other.allocate(0, 3*mib)
	requireCode(t, status.Limit, err)
	free(t, handle)
	require.NoError(t, w.device.Synchronize())
	handle, _, err = other.allocate(0, 3*mib)
	require.NoError(t, err)
	require.EqualValues(t, before+20*mib, MemoryOf(nil).Charged)
	free(t, handle)
}

// A segment of which a part is held stays whole, whatever is free in it; then all of it goes back.
func TestASegmentOfAnOriginGoesBackWhole(t *testing.T) {
	w := newPooled(t, sim.Options{Memory: 64 * mib}, 1, pool.Options{Origin: pool.Plain})
	held, address, err := w.allocate(0, 3*mib)
	require.NoError(t, err)
	other, _, err := w.allocate(0, 9*mib)
	require.NoError(t, err)
	free(t, other)
	require.NoError(t, w.device.Synchronize())
	w.runtime.Reap()
	require.NoError(t, w.runtime.Trim(0))
	require.EqualValues(t, 20*mib, w.runtime.Pool().Statistics().Reserved)
	require.NoError(t, w.use(0, held, address, 3*mib, Write))
	free(t, held)
	require.NoError(t, w.device.Synchronize())
	w.runtime.Reap()
	require.NoError(t, w.runtime.Trim(0))
	require.Zero(t, w.runtime.Pool().Statistics().Reserved)
}
