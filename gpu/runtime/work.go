// Work that the runtime itself queues: copies, fills, launches.

package runtime

import "libmmsb/gpu/driver"

// work runs a call on the stream's device while the runtime does not end.
func (s *Stream) work(call func() error) error {
	if err := s.runtime.enter(); err != nil {
		return err
	}
	defer s.runtime.leave()
	return s.runtime.noteLost(call())
}

// Copy queues copies on the stream, in no order among each other. Errors: those of the driver.
func (s *Stream) Copy(copies ...driver.Copy) error {
	return s.work(func() error { return s.runtime.device.Copy(s.native, copies...) })
}

// Fill queues setting bytes to a value.
func (s *Stream) Fill(address driver.Address, value byte, bytes uint64) error {
	return s.work(func() error { return s.runtime.device.Fill(s.native, address, value, bytes) })
}

// Prefetch queues moving managed memory to the stream's device, or to the host.
func (s *Stream) Prefetch(address driver.Address, bytes uint64, toHost bool) error {
	return s.work(func() error { return s.runtime.device.Prefetch(s.native, address, bytes, toHost) })
}

// Advise tells the stream's device of the use of managed memory, without the stream's order.
func (s *Stream) Advise(address driver.Address, bytes uint64, advice driver.Advice) error {
	return s.work(func() error { return s.runtime.device.Advise(address, bytes, advice) })
}

// Launch queues a kernel.
func (s *Stream) Launch(launch *driver.Launch) error {
	return s.work(func() error { return s.runtime.device.Launch(s.native, launch) })
}

// Synchronize blocks until everything that was queued is done.
func (s *Stream) Synchronize() error {
	if err := s.free("its end cannot be waited for"); err != nil {
		return err
	}
	return s.work(func() error {
		number := s.queued.Load()
		err := s.runtime.device.SynchronizeStream(s.native)
		if err == nil {
			s.passed(number)
		}
		return err
	})
}

// Done says whether everything that was queued is done.
func (s *Stream) Done() (done bool, err error) {
	if err := s.free("its end cannot be asked for"); err != nil {
		return false, err
	}
	return done, s.work(func() (err error) {
		number := s.queued.Load()
		if done, err = s.runtime.device.QueryStream(s.native); done && err == nil {
			s.passed(number)
		}
		return err
	})
}
