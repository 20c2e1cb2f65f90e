package cuda

import (
	"fmt"
	"testing"

	"libmmsb/gpu/driver"
	"libmmsb/gpu/driver/conformance"
	"libmmsb/tests/fakecuda"

	"github.com/stretchr/testify/require"
)

// opened is what a driver that only was opened keeps: a context and a pool for each open device.
func opened(devices int) fakecuda.Counts { return fakecuda.Counts{Contexts: devices, Pools: devices} }

// openFake loads a copy of the stand-in. When the test is over nothing else may be alive in it.
func openFake(t *testing.T, settings ...string) (*Driver, *fakecuda.Library) {
	t.Helper()
	library := fakecuda.Load(t, settings...)
	d, err := load(library.Path)
	require.NoError(t, err)
	t.Cleanup(func() {
		if t.Failed() {
			return
		}
		open := 0
		for _, device := range d.devices {
			if device != nil {
				open++
			}
		}
		require.Equal(t, opened(open), library.Counts(), "leaks")
	})
	return d, library
}

func TestConformance(t *testing.T) {
	for _, settings := range [][]string{
		{},
		{"DELAY", "500"},
		{"VERSION", "12000", "DEVICES", "1"}, // the oldest that serves, without batches of copies
	} {
		t.Run(fmt.Sprint(settings), func(t *testing.T) {
			conformance.Run(t, func(t *testing.T) driver.Driver {
				d, _ := openFake(t, settings...)
				return d
			})
		})
	}
}

func TestConformanceOfALostDevice(t *testing.T) {
	conformance.RunLost(t, func(t *testing.T) (driver.Driver, func()) {
		library := fakecuda.Load(t)
		d, err := load(library.Path)
		require.NoError(t, err)
		return d, func() { library.Break(0, 719) }
	})
}
