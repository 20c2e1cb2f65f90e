//go:build mmsbtest

package devices

import (
	"sync"
	"time"

	"libmmsb/core/status"
	"libmmsb/gpu/sim"
)

// held is locked while no operation of a slow device may end.
var held sync.RWMutex

// Slow lets operations of simulated devices that are made from now on take time.
func Slow(latency time.Duration) {
	simulatedLatency = latency
	simulatedHold = func() {
		held.RLock()
		defer held.RUnlock()
	}
}

// Hold keeps the operations of slow devices from ending until LetGo is called.
func Hold() { held.Lock() }

// LetGo lets them end.
func LetGo() { held.Unlock() }

// Check walks over the blocks of all runtimes of the set. Errors: Internal.
func (s *Set) Check() error {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	for _, runtimes := range []map[*Runtime]struct{}{s.shared, s.own} {
		for r := range runtimes {
			if err := r.Check(); err != nil {
				return err
			}
		}
	}
	return nil
}

// Violations are what programs did not order of the set's simulated devices: InvalidState with how many and the first one.
func (s *Set) Violations() error {
	if !s.Simulated() {
		return nil
	}
	if list, count := s.sim.Violations(); count > 0 {
		return status.Errorf(status.InvalidState, "%d violations, the first: %v", count, list[0])
	}
	return nil
}

// Inject plants bad luck in a simulated device. Errors: InvalidState (the devices are real ones), NoDevice.
func (s *Set) Inject(fault sim.Fault) error {
	if !s.Simulated() {
		return status.Errorf(status.InvalidState, "the devices are not simulated")
	}
	return s.sim.Inject(fault)
}
