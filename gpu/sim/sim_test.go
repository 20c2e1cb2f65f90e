package sim_test

import (
	"testing"

	"libmmsb/gpu/driver"
	"libmmsb/gpu/driver/conformance"
	"libmmsb/gpu/sim"

	"github.com/stretchr/testify/require"
)

// open makes devices that must have no problems at the end of the test.
func open(t *testing.T, options sim.Options) *sim.Driver {
	t.Helper()
	d, err := sim.New(options)
	require.NoError(t, err)
	t.Cleanup(func() {
		if options.Scheduler != sim.Eager {
			t.Logf("seed %d", d.Seed())
			d.Finish()
		}
		require.NoError(t, d.Problems())
		d.Close()
	})
	return d
}

func TestSimulatedDevicesConform(t *testing.T) {
	for name, options := range map[string]sim.Options{
		"eager":              {},
		"unchecked":          {Unchecked: true},
		"slow":               {Latency: 20_000, Bandwidth: 20 << 30},
		"slow and unchecked": {Latency: 20_000, Bandwidth: 20 << 30, Unchecked: true},
		"seeded":             {Scheduler: sim.Seeded},
		"less able":          {Scheduler: sim.Seeded, NoOrdered: true, NoManaged: true, NoVirtual: true, Unreachable: true},
	} {
		t.Run(name, func(t *testing.T) {
			options.Devices, options.Memory = 2, 64<<20
			conformance.Run(t, func(t *testing.T) driver.Driver { return open(t, options) })
		})
	}
}
