package devices

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"libmmsb/core/status"
	"libmmsb/gpu/driver"
	"libmmsb/gpu/runtime"
	"libmmsb/gpu/sim"
)

// loading puts an outcome in the place of the driver's library.
func loading(t *testing.T, d driver.Driver, err error) {
	before := load
	load = func() (driver.Driver, error) { return d, err }
	t.Cleanup(func() { load = before })
}

func TestWhoServes(t *testing.T) {
	gpu, err := sim.New(sim.Options{})
	require.NoError(t, err)
	defer gpu.Close()
	noDevice := status.Errorf(status.NoDevice, "libcuda.so.1 is not there")
	broken := status.Errorf(status.Device, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH (803)")
	for _, c := range []struct {
		name      string
		gpu       driver.Driver
		err       error
		simulate  Simulate
		simulated bool
		want      status.Code
	}{
		{"a GPU", gpu, nil, Off, false, status.OK},
		{"a GPU, simulation if there is none", gpu, nil, IfNoGPU, false, status.OK},
		{"a GPU, and simulation all the same", gpu, nil, Always, true, status.OK},
		{"no GPU", nil, noDevice, Off, false, status.NoDevice},
		{"no GPU, simulation if there is none", nil, noDevice, IfNoGPU, true, status.OK},
		{"no GPU, and simulation", nil, noDevice, Always, true, status.OK},
		{"a broken driver", nil, broken, Off, false, status.Device},
		{"a broken driver is never replaced", nil, broken, IfNoGPU, false, status.Device},
		{"a broken driver that nobody asks", nil, broken, Always, true, status.OK},
	} {
		t.Run(c.name, func(t *testing.T) {
			loading(t, c.gpu, c.err)
			set := NewSet(Options{Simulate: c.simulate, Devices: 2, Memory: 1 << 20})
			defer set.Close()
			d, err := set.Driver()
			require.Equal(t, c.want, status.CodeOf(err))
			require.Equal(t, c.simulated, set.Simulated())
			if err != nil {
				_, err := set.Shared(0)
				require.Equal(t, c.want, status.CodeOf(err))
				_, err = set.New(0, RuntimeOptions{})
				require.Equal(t, c.want, status.CodeOf(err))
				return
			}
			if c.simulated {
				require.Equal(t, 2, d.Count())
			}
			r, err := set.Shared(0)
			require.NoError(t, err)
			again, err := set.Shared(0)
			require.NoError(t, err)
			require.Same(t, r, again)
			own, err := set.New(0, RuntimeOptions{Streams: 1})
			require.NoError(t, err)
			require.NotSame(t, r, own.Runtime)
			_, err = set.Shared(7)
			require.Equal(t, status.NoDevice, status.CodeOf(err))
		})
	}
}

func TestASetEndsWhatItMade(t *testing.T) {
	set := NewSet(Options{Simulate: Always, Devices: 1, Memory: 1 << 20})
	r, err := set.Shared(0)
	require.NoError(t, err)
	stream, err := r.AcquireStream(0)
	require.NoError(t, err)
	set.Close()
	_, err = runtime.FindStream(stream)
	require.Equal(t, status.StaleHandle, status.CodeOf(err))
	_, err = set.Shared(0)
	require.Equal(t, status.StaleHandle, status.CodeOf(err))
}

func simulated(t *testing.T, devices int) *Set {
	set := NewSet(Options{Simulate: Always, Devices: devices, Memory: 1 << 20})
	t.Cleanup(set.Close)
	return set
}

func code(t *testing.T, want status.Code, err error) {
	t.Helper()
	require.Equal(t, want, status.CodeOf(err), "%v", err)
}

func TestListIsEveryDevice(t *testing.T) {
	set := simulated(t, 3)
	list, err := set.List()
	require.NoError(t, err)
	require.Len(t, list, 3)
	for ordinal, device := range list {
		require.Equal(t, ordinal, device.Ordinal)
		require.True(t, device.Simulated)
		require.EqualValues(t, 1<<20, device.Bytes)
		require.EqualValues(t, 1<<20, device.Free)
	}
	set.Close()
	_, err = set.List()
	code(t, status.StaleHandle, err)
}

func TestHandlesOfRuntimes(t *testing.T) {
	set := simulated(t, 1)
	before := LiveRuntimes()
	shared, err := set.SharedHandle(0)
	require.NoError(t, err)
	again, err := set.SharedHandle(0)
	require.NoError(t, err)
	require.Equal(t, shared, again)
	code(t, status.InvalidState, DestroyRuntime(shared))
	own, err := set.Compose(0, RuntimeOptions{})
	require.NoError(t, err)
	require.NotEqual(t, shared, own)
	require.EqualValues(t, before+2, LiveRuntimes())
	require.NoError(t, DestroyRuntime(own))
	code(t, status.StaleHandle, DestroyRuntime(own))
	left, err := set.Compose(0, RuntimeOptions{})
	require.NoError(t, err)
	set.End()
	for _, h := range []uint64{shared, left} {
		_, err = FindRuntime(h)
		code(t, status.StaleHandle, err)
	}
	_, err = set.SharedHandle(0)
	code(t, status.StaleHandle, err)
	_, err = set.Shared(0)
	require.NoError(t, err, "pages use it until Close")
	set.Close()
	_, err = set.Shared(0)
	code(t, status.StaleHandle, err)
	require.EqualValues(t, before, LiveRuntimes())
}

func TestSharedRuntimesOfTheDriverEndWithTheLibrary(t *testing.T) {
	gpu, err := sim.New(sim.Options{})
	require.NoError(t, err)
	defer gpu.Close()
	loading(t, gpu, nil)
	first, second := NewSet(Options{}), NewSet(Options{})
	defer first.Close()
	h, err := first.SharedHandle(0)
	require.NoError(t, err)
	same, err := second.SharedHandle(0)
	require.NoError(t, err)
	require.Equal(t, h, same, "one runtime for all contexts")
	second.Close()
	_, err = FindRuntime(h)
	require.NoError(t, err)
	EndShared()
	_, err = FindRuntime(h)
	code(t, status.StaleHandle, err)
	anew, err := first.SharedHandle(0)
	require.NoError(t, err)
	require.NotEqual(t, h, anew)
	EndShared()
	require.NoError(t, gpu.Problems())
}

func TestReservationsEndWithTheirRuntime(t *testing.T) {
	set := simulated(t, 1)
	path := t.TempDir() + "/ledger"
	h, err := set.Compose(0, RuntimeOptions{Budget: 1000, Ledger: path})
	require.NoError(t, err)
	r, err := FindRuntime(h)
	require.NoError(t, err)
	reservation, err := r.Reserve(600)
	require.NoError(t, err)
	_, err = r.Reserve(401)
	code(t, status.Limit, err)
	state, err := r.State()
	require.NoError(t, err)
	require.Equal(t, runtime.BudgetState{Limit: 1000, Charged: 600, Reserved: 600, Peak: 600, Refusals: 1}, state.Budget)
	other, err := set.Compose(0, RuntimeOptions{Ledger: path})
	require.NoError(t, err)
	require.NoError(t, DestroyRuntime(h))
	_, err = EndReservation(reservation)
	code(t, status.StaleHandle, err)
	_, err = r.State()
	code(t, status.StaleHandle, err)
	_, err = r.Reserve(1)
	code(t, status.StaleHandle, err)
	r, err = FindRuntime(other)
	require.NoError(t, err)
	reservation, err = r.Reserve(1000)
	require.NoError(t, err, "the ledger has the bytes back")
	left, err := EndReservation(reservation)
	require.NoError(t, err)
	require.EqualValues(t, 1000, left)
}

func TestOptionsThatCannotBe(t *testing.T) {
	set := simulated(t, 1)
	_, err := set.Compose(0, RuntimeOptions{LogEvents: mostLogEvents + 1})
	code(t, status.InvalidArgument, err)
	_, err = set.Compose(0, RuntimeOptions{GuardQuarantine: 1})
	code(t, status.InvalidArgument, err)
	_, err = set.Compose(0, RuntimeOptions{Ledger: t.TempDir() + "/none"})
	code(t, status.InvalidArgument, err)
	_, err = set.Compose(1, RuntimeOptions{})
	code(t, status.NoDevice, err)
}

func TestRuntimesEndWhileTheyAreUsed(t *testing.T) {
	for range 50 {
		set := NewSet(Options{Simulate: Always, Devices: 1, Memory: 1 << 20})
		h, err := set.Compose(0, RuntimeOptions{Budget: 1 << 20})
		require.NoError(t, err)
		r, err := FindRuntime(h)
		require.NoError(t, err)
		var users sync.WaitGroup
		begun := make(chan struct{}, 4)
		for range 4 {
			users.Go(func() {
				begun <- struct{}{}
				for {
					stream, err := r.AcquireStream(0)
					if err != nil {
						code(t, status.StaleHandle, err)
						return
					}
					s, err := runtime.FindStream(stream)
					if err == nil {
						_, _, _ = Allocate(s, 64, 0, 0, 0)
						if reservation, err := r.Reserve(10); err == nil {
							_, _ = EndReservation(reservation)
						}
						_ = runtime.ReleaseStream(stream)
					}
				}
			})
		}
		<-begun
		set.Close()
		users.Wait()
	}
	require.Zero(t, LiveReservations())
}

func TestSharedRuntimesHaveAPool(t *testing.T) {
	for _, c := range []struct {
		options sim.Options
		pooled  bool
	}{
		{sim.Options{}, true}, {sim.Options{NoOrdered: true}, true}, {sim.Options{NoVirtual: true}, false},
		{sim.Options{NoVirtual: true, NoOrdered: true}, true},
	} {
		gpu, err := sim.New(c.options)
		require.NoError(t, err)
		loading(t, gpu, nil)
		set := NewSet(Options{})
		shared, err := set.Shared(0)
		require.NoError(t, err)
		require.Equal(t, c.pooled, shared.Pool() != nil, "%+v", c.options)
		set.Close()
		EndShared()
		require.NoError(t, gpu.Problems())
		gpu.Close()
	}
}
