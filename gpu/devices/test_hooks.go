//go:build mmsbtest

package devices

import (
	"time"

	"libmmsb/core/status"
	"libmmsb/gpu/sim"
)

// Slow lets operations of simulated devices that are made from now on take time.
func Slow(latency time.Duration) { simulatedLatency = latency }

// Inject plants bad luck in a simulated device. Errors: InvalidState (the devices are real ones), NoDevice.
func (s *Set) Inject(fault sim.Fault) error {
	if !s.Simulated() {
		return status.Errorf(status.InvalidState, "the devices are not simulated")
	}
	return s.sim.Inject(fault)
}
