// Package devices chooses which devices a context has: those of the driver, or simulated ones where it asked for them. It never
// chooses silently: a machine without a working GPU answers NoDevice unless simulation was asked for, and a broken driver is an
// error even then. It composes their runtimes, and knows those that programs have handles of.
package devices

import (
	"sync"
	"time"

	"libmmsb/core/abi"
	"libmmsb/core/status"
	"libmmsb/gpu/cuda"
	"libmmsb/gpu/driver"
	"libmmsb/gpu/runtime"
	"libmmsb/gpu/sim"
)

// Simulate says when simulated devices serve.
type Simulate int32

// The values of Simulate.
const (
	Off     Simulate = abi.SimulateOff
	IfNoGPU Simulate = abi.SimulateIfNoGPU
	Always  Simulate = abi.SimulateAlways
)

// Options are what a context says of its devices.
type Options struct {
	Simulate Simulate
	Devices  int    // simulated ones
	Memory   uint64 // of each
	StandIns bool   // the device abi.DeviceStandIn + N is a simulated one, whatever the others are
	// Simulated says what else simulated devices are like, for tests.
	Simulated sim.Options
}

// Set is the devices of a context. They are looked for when first asked for.
type Set struct {
	options Options
	once    sync.Once
	driver  driver.Driver
	sim     *sim.Driver // where it is simulated: the context's own
	err     error

	standInOnce sync.Once
	standIn     *sim.Driver // simulated devices in the place of others; nil until one is asked for
	standInErr  error

	users  sync.RWMutex // calls that run on the set
	ended  bool
	closed bool

	mutex  sync.Mutex
	shared map[*Runtime]struct{} // of the simulated devices
	own    map[*Runtime]struct{} // of the program
	ending int                   // runtimes that end, and whose memory is not gone yet
	over   bool                  // the drivers end with the last of them
}

// NewSet makes a set, without looking for devices.
func NewSet(options Options) *Set {
	return &Set{options: options, shared: make(map[*Runtime]struct{}), own: make(map[*Runtime]struct{})}
}

// load is cuda.Load; tests put others in its place.
var load = func() (driver.Driver, error) {
	loaded, err := cuda.Load()
	if err != nil {
		return nil, err
	}
	return loaded, nil
}

// Driver is the driver of the set. Errors: NoDevice (none there, and no simulation asked for), Device (a driver that does not
// work).
func (s *Set) Driver() (driver.Driver, error) {
	s.once.Do(func() {
		if s.options.Simulate != Always {
			if s.driver, s.err = load(); s.err == nil && s.driver.Count() == 0 {
				s.driver, s.err = nil, status.Errorf(status.NoDevice, "the driver found no device")
			}
			if s.err == nil || s.options.Simulate == Off || status.CodeOf(s.err) != status.NoDevice {
				return
			}
		}
		s.sim, s.err = s.simulate(s.options.Devices)
		if s.err == nil {
			s.driver = s.sim
		}
	})
	return s.driver, s.err
}

// simulate makes simulated devices as the context wants them.
func (s *Set) simulate(count int) (*sim.Driver, error) {
	like := s.options.Simulated
	like.Devices, like.Memory = count, s.options.Memory
	if simulatedLatency > 0 {
		like.Latency, like.Hold = simulatedLatency, simulatedHold
	}
	return sim.New(like)
}

// mostStandIns is of how many devices simulated ones can take the place.
const mostStandIns = 64

// Simulated says whether the devices are simulated ones.
func (s *Set) Simulated() bool {
	_, _ = s.Driver()
	return s.sim != nil
}

// simulatedLatency is what an operation of a simulated device takes, and simulatedHold what it waits for before it ends; tests
// make it longer.
var (
	simulatedLatency time.Duration
	simulatedHold    func()
)

// Device is what a device is, and how much of its memory is free.
type Device struct {
	driver.Info
	Free uint64 // 0 where it cannot be asked
}

// List is the set's devices. It opens each of them.
func (s *Set) List() ([]Device, error) {
	d, _, err := s.enter(0)
	if err != nil {
		return nil, err
	}
	defer s.users.RUnlock()
	list := make([]Device, d.Count())
	for ordinal := range list {
		device, err := d.Open(ordinal)
		if err != nil {
			return nil, err
		}
		list[ordinal].Info = device.Info()
		if free, _, err := device.MemoryInfo(); err == nil {
			list[ordinal].Free = free
		}
	}
	return list, nil
}

// enter begins a call of the program on a device of the set: at is its ordinal in the driver, which does not end until users is
// unlocked; not where there is an error.
func (s *Set) enter(ordinal int) (d driver.Driver, at int, err error) {
	s.users.RLock()
	return s.entered(s.ended, ordinal)
}

func (s *Set) entered(over bool, ordinal int) (d driver.Driver, at int, err error) {
	switch at = ordinal - abi.DeviceStandIn; {
	case over:
		err = status.Errorf(status.StaleHandle, "the context of these devices has ended")
	case at >= 0 && s.options.StandIns:
		s.standInOnce.Do(func() { s.standIn, s.standInErr = s.simulate(mostStandIns) })
		d, err = s.standIn, s.standInErr
	default:
		at = ordinal
		d, err = s.Driver()
	}
	if err != nil {
		s.users.RUnlock()
	}
	return d, at, err
}

// Shared is the runtime of a device that everybody shares: all contexts, where it is the driver's. Pages use it until Close.
func (s *Set) Shared(ordinal int) (*runtime.Runtime, error) {
	s.users.RLock()
	d, at, err := s.entered(s.closed, ordinal)
	if err != nil {
		return nil, err
	}
	defer s.users.RUnlock()
	return s.sharedOf(d, at)
}

func (s *Set) sharedOf(d driver.Driver, ordinal int) (*runtime.Runtime, error) {
	return runtime.For(d, ordinal, func(device driver.Device) (*runtime.Runtime, error) {
		options := RuntimeOptions{Patience: runtime.UsualPatience}
		if info := device.Info(); runtime.CanPool(info) || !info.OrderedMemory {
			options.Pool = new(string)
		}
		r, err := compose(device, options)
		if err != nil {
			return nil, err
		}
		r.shared = true
		registry.add(r)
		if info := device.Info(); info.Simulated {
			s.mutex.Lock()
			s.shared[r] = struct{}{}
			s.mutex.Unlock()
		}
		return r.Runtime, nil
	})
}

// New composes a runtime of the program's own. It ends with the set, if it is not destroyed before.
func (s *Set) New(ordinal int, options RuntimeOptions) (*Runtime, error) {
	d, at, err := s.enter(ordinal)
	if err != nil {
		return nil, err
	}
	defer s.users.RUnlock()
	device, err := d.Open(at)
	if err != nil {
		return nil, err
	}
	r, err := compose(device, options)
	if err != nil {
		return nil, err
	}
	r.set = s
	s.mutex.Lock()
	s.own[r] = struct{}{}
	s.mutex.Unlock()
	return r, nil
}

// forget lets a runtime go that was destroyed.
func (s *Set) forget(r *Runtime) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	delete(s.own, r)
}

// End waits for the calls that are running, and ends what programs have of the set: their runtimes, and their handles of shared
// ones. What pages have stays until Close.
func (s *Set) End() {
	s.users.Lock()
	s.ended = true
	s.users.Unlock()
	s.mutex.Lock()
	own := s.own
	s.own = nil
	for r := range s.shared {
		registry.remove(r)
	}
	s.mutex.Unlock()
	for r := range own {
		s.end(r)
	}
}

// end ends one of the set's runtimes, whose memory others may have for longer.
func (s *Set) end(r *Runtime) {
	s.mutex.Lock()
	s.ending++
	s.mutex.Unlock()
	r.end(func() {
		s.mutex.Lock()
		s.ending--
		last := s.over && s.ending == 0
		s.mutex.Unlock()
		if last {
			s.closeDrivers()
		}
	})
}

// Close ends the set, its simulated devices and all of their runtimes, once.
func (s *Set) Close() {
	s.End()
	s.users.Lock()
	before := s.closed
	s.closed = true
	s.users.Unlock()
	if before {
		return
	}
	s.mutex.Lock()
	shared := s.shared
	s.shared = nil
	s.mutex.Unlock()
	for r := range shared {
		s.end(r)
	}
	s.mutex.Lock()
	s.over = true
	last := s.ending == 0
	s.mutex.Unlock()
	if last {
		s.closeDrivers()
	}
}

// closeDrivers ends the set's simulated devices.
func (s *Set) closeDrivers() {
	if s.sim != nil {
		runtime.Leave(s.sim)
		s.sim.Close()
	}
	if s.standIn != nil {
		runtime.Leave(s.standIn)
		s.standIn.Close()
	}
}
