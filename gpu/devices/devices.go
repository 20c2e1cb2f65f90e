// Package devices chooses which devices a context has: those of the driver, or simulated ones where it asked for them. It never chooses
// silently: a machine without a working GPU answers NoDevice unless simulation was asked for, and a broken driver is an error even then.
package devices

import (
	"sync"

	"libmmsb/core/status"
	"libmmsb/gpu/cuda"
	"libmmsb/gpu/driver"
	"libmmsb/gpu/runtime"
	"libmmsb/gpu/sim"
)

// Simulate says when simulated devices serve: the MMSB_SIMULATE_* of mmsb.h.
type Simulate int32

// The values of Simulate.
const (
	Off Simulate = iota
	IfNoGPU
	Always
)

// Options are what a context says of its devices.
type Options struct {
	Simulate Simulate
	Devices  int    // simulated ones
	Memory   uint64 // of each
}

// Set is the devices of a context. They are looked for when first asked for.
type Set struct {
	options Options
	once    sync.Once
	driver  driver.Driver
	sim     *sim.Driver // where it is simulated: the context's own
	err     error

	mutex    sync.Mutex
	runtimes map[*runtime.Runtime]struct{} // of the simulated devices, and those of the program
	closed   bool
}

// NewSet makes a set, without looking for devices.
func NewSet(options Options) *Set {
	return &Set{options: options, runtimes: make(map[*runtime.Runtime]struct{})}
}

// load is cuda.Load; tests put others in its place.
var load = func() (driver.Driver, error) {
	loaded, err := cuda.Load()
	if err != nil {
		return nil, err
	}
	return loaded, nil
}

// Driver is the driver of the set. Errors: NoDevice (none there, and no simulation asked for), Device (a driver that does not work).
func (s *Set) Driver() (driver.Driver, error) {
	s.once.Do(func() {
		if s.options.Simulate != Always {
			if s.driver, s.err = load(); s.err == nil && s.driver.Count() == 0 {
				s.driver, s.err = nil, status.Errorf(status.NoDevice, "the driver knows no device")
			}
			if s.err == nil || s.options.Simulate == Off || status.CodeOf(s.err) != status.NoDevice {
				return
			}
		}
		s.sim, s.err = sim.New(sim.Options{Devices: s.options.Devices, Memory: s.options.Memory})
		if s.err == nil {
			s.driver = s.sim
		}
	})
	return s.driver, s.err
}

// Simulated says whether the devices are simulated ones.
func (s *Set) Simulated() bool {
	_, _ = s.Driver()
	return s.sim != nil
}

// Shared is the runtime of a device that everybody shares.
func (s *Set) Shared(ordinal int) (*runtime.Runtime, error) {
	d, err := s.Driver()
	if err != nil {
		return nil, err
	}
	if err := s.open(); err != nil {
		return nil, err
	}
	return runtime.For(d, ordinal, func(device driver.Device) (*runtime.Runtime, error) {
		r, err := runtime.New(device, runtime.Options{})
		if err == nil && s.sim != nil {
			s.note(r)
		}
		return r, err
	})
}

// New composes a runtime of the program's own. It ends with the set, if it is not closed before.
func (s *Set) New(ordinal int, options runtime.Options) (*runtime.Runtime, error) {
	d, err := s.Driver()
	if err != nil {
		return nil, err
	}
	if err := s.open(); err != nil {
		return nil, err
	}
	device, err := d.Open(ordinal)
	if err != nil {
		return nil, err
	}
	r, err := runtime.New(device, options)
	if err == nil {
		s.note(r)
	}
	return r, err
}

func (s *Set) open() error {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.closed {
		return status.Errorf(status.StaleHandle, "the context of these devices has ended")
	}
	return nil
}

func (s *Set) note(r *runtime.Runtime) {
	s.mutex.Lock()
	s.runtimes[r] = struct{}{}
	s.mutex.Unlock()
}

// Forget lets a runtime go that was closed.
func (s *Set) Forget(r *runtime.Runtime) {
	s.mutex.Lock()
	delete(s.runtimes, r)
	s.mutex.Unlock()
}

// Close ends the set's runtimes and its simulated devices. Nothing may be running in them.
func (s *Set) Close() {
	s.mutex.Lock()
	s.closed = true
	runtimes := s.runtimes
	s.runtimes = nil
	s.mutex.Unlock()
	for r := range runtimes {
		_, _ = r.Close()
	}
	if s.sim != nil {
		runtime.Leave(s.sim)
		s.sim.Close()
	}
}
