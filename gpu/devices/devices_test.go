package devices

import (
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
				_, err = set.New(0, runtime.Options{})
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
			own, err := set.New(0, runtime.Options{Streams: 1})
			require.NoError(t, err)
			require.NotSame(t, r, own)
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
