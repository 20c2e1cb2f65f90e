// Streams and events as the driver's interface has them.

package sim

import (
	"cmp"
	"sync"

	"libmmsb/core/status"
	"libmmsb/gpu/driver"
)

// event is a point in a stream, and what is ordered before it.
type event struct {
	device  *device
	mutex   sync.Mutex
	point   point
	clock   clock
	capture *Use // its begin, where the event was recorded in one
}

// captured is the begin of the capture in which the event was recorded.
func (e *event) captured() *Use {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	return e.capture
}

func (e *event) now() (point, clock) {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	return e.point, e.clock
}

// stream finds a stream of the device.
func (d *device) stream(handle driver.Stream) (*stream, error) {
	if handle == 0 {
		return d.standard, nil
	}
	s, found := d.driver.streams.find(uintptr(handle))
	if !found || s.device != d {
		return nil, status.Errorf(status.InvalidHandle, "0x%x is not a stream of %s", uint64(handle), d.info.Name)
	}
	return s, nil
}

// eventOf finds an event of any device.
func (d *Driver) eventOf(handle driver.Event) (*event, error) {
	e, found := d.events.find(uintptr(handle))
	if !found {
		return nil, status.Errorf(status.InvalidHandle, "0x%x is not an event", uint64(handle))
	}
	return e, nil
}

// event finds an event of the device.
func (d *device) event(handle driver.Event) (*event, error) {
	e, err := d.driver.eventOf(handle)
	if err == nil && e.device != d {
		err = status.Errorf(status.InvalidHandle, "event 0x%x belongs to %s, not to %s",
			uint64(handle), e.device.info.Name, d.info.Name)
	}
	return e, err
}

// seen notes that the host saw what a clock stands for done.
func (d *Driver) seen(c clock) {
	if d.order != nil {
		d.order.host = d.order.host.join(c)
	}
}

// CreateStream makes a stream. All priorities are the same here.
func (d *device) CreateStream(int) (driver.Stream, error) {
	if err := d.enter(CreateStream); err != nil {
		return 0, err
	}
	defer d.leave()
	return driver.Stream(d.driver.streams.add(func(handle uintptr) *stream {
		return d.driver.addStream(d, driver.Stream(handle))
	})), nil
}

// ForeignStream makes a stream that others created with this driver usable here, too.
func (d *device) ForeignStream(handle uintptr) (driver.Stream, error) {
	if err := d.enter(CreateStream); err != nil {
		return 0, err
	}
	defer d.leave()
	s, err := d.stream(driver.Stream(handle))
	if err != nil {
		return 0, err
	}
	d.driver.streamMutex.Lock()
	defer d.driver.streamMutex.Unlock()
	if s.owners == 0 {
		return 0, status.Errorf(status.InvalidHandle, "stream 0x%x of %s was destroyed", uint64(handle), d.info.Name)
	}
	s.owners++
	return s.handle, nil
}

// StreamID is the stream's handle: no other stream gets it.
func (d *device) StreamID(handle uintptr) (uint64, error) {
	s, err := d.stream(driver.Stream(handle))
	if err != nil {
		return 0, err
	}
	return uint64(s.handle), nil
}

// DestroyStream ends a stream; what is queued still runs.
func (d *device) DestroyStream(handle driver.Stream) error {
	s, err := d.enterOn(DestroyStream, handle)
	if err != nil {
		return err
	}
	defer d.leave()
	last, err := s.disown()
	if err != nil || !last {
		return err
	}
	d.driver.streams.remove(uintptr(handle))
	s.ended.Store(true)
	d.driver.forget()
	return nil
}

// disown takes one owner away; last says that there is none left.
func (s *stream) disown() (last bool, err error) {
	d := s.device
	d.driver.streamMutex.Lock()
	defer d.driver.streamMutex.Unlock()
	least := 1
	if s == d.standard {
		least = 2 // the device itself is the last one
	}
	if s.owners < least {
		return false, status.Errorf(status.InvalidHandle, "cannot destroy stream 0x%x of %s", uint64(s.handle), d.info.Name)
	}
	s.owners--
	return s.owners == 0, nil
}

// QueryStream says whether everything that was queued is done.
func (d *device) QueryStream(handle driver.Stream) (bool, error) {
	s, err := d.enterOn(QueryStream, handle)
	if err != nil {
		return false, err
	}
	defer d.leave()
	if begin := s.capture.Load(); begin != nil {
		return false, d.breaks(QueryStream, begin)
	}
	d.driver.observe()
	done := s.end().done()
	if done {
		d.driver.seen(s.clock)
	}
	return done, nil
}

// SynchronizeStream blocks until everything that was queued is done.
func (d *device) SynchronizeStream(handle driver.Stream) error {
	s, err := d.enterOn(Synchronize, handle)
	if err != nil {
		return err
	}
	defer d.leave()
	if begin := s.capture.Load(); begin != nil {
		return d.breaks(Synchronize, begin)
	}
	return d.wait(s.end(), s.clock)
}

// wait blocks the host until a point is done.
func (d *device) wait(p point, c clock) error {
	d.driver.await(p)
	if d.lost.Load() {
		return d.isLost()
	}
	d.driver.seen(c)
	return nil
}

// Synchronize blocks until everything queued on the device is done.
func (d *device) Synchronize() error {
	if err := d.enter(Synchronize); err != nil {
		return err
	}
	defer d.leave()
	type end struct {
		point point
		clock clock
	}
	var ends []end
	d.driver.streamMutex.Lock()
	past := d.past
	for _, s := range d.driver.all {
		if begin := s.capture.Load(); s.device == d && begin != nil {
			d.driver.streamMutex.Unlock()
			return d.breaks(Synchronize, begin)
		}
		if s.device == d {
			ends = append(ends, end{s.end(), s.clock})
		}
	}
	d.driver.streamMutex.Unlock()
	d.driver.seen(past)
	for _, e := range ends {
		if err := d.wait(e.point, e.clock); err != nil {
			return err
		}
	}
	return nil
}

// CreateEvent makes an event.
func (d *device) CreateEvent() (driver.Event, error) {
	if err := d.enter(CreateEvent); err != nil {
		return 0, err
	}
	defer d.leave()
	return driver.Event(d.driver.events.add(func(uintptr) *event { return &event{device: d} })), nil
}

// DestroyEvent ends an event; streams that wait for it still do.
func (d *device) DestroyEvent(handle driver.Event) error {
	if err := d.enter(DestroyEvent); err != nil {
		return err
	}
	defer d.leave()
	if _, err := d.event(handle); err != nil {
		return err
	}
	if _, removed := d.driver.events.remove(uintptr(handle)); !removed {
		return status.Errorf(status.InvalidHandle, "event 0x%x was destroyed", uint64(handle))
	}
	return nil
}

// RecordEvent moves the event to the end of what is queued on the stream.
func (d *device) RecordEvent(handle driver.Event, on driver.Stream) error {
	if err := d.enter(RecordEvent); err != nil {
		return err
	}
	defer d.leave()
	e, err := d.event(handle)
	if err != nil {
		return err
	}
	s, err := d.stream(on)
	if err != nil {
		return err
	}
	e.mutex.Lock()
	e.point, e.clock, e.capture = s.end(), s.clock, s.capture.Load()
	e.mutex.Unlock()
	d.driver.pass()
	return nil
}

// QueryEvent says whether the work before the event is done.
func (d *device) QueryEvent(handle driver.Event) (bool, error) {
	if err := d.enter(QueryEvent); err != nil {
		return false, err
	}
	defer d.leave()
	e, err := d.event(handle)
	if err != nil {
		return false, err
	}
	if begin := e.captured(); begin != nil {
		return false, d.breaks(QueryEvent, begin)
	}
	d.driver.observe()
	p, c := e.now()
	done := p.done()
	if done {
		d.driver.seen(c)
	}
	return done, nil
}

// SynchronizeEvent blocks until the work before the event is done.
func (d *device) SynchronizeEvent(handle driver.Event) error {
	if err := d.enter(Synchronize); err != nil {
		return err
	}
	defer d.leave()
	e, err := d.event(handle)
	if err != nil {
		return err
	}
	if begin := e.captured(); begin != nil {
		return d.breaks(Synchronize, begin)
	}
	return d.wait(e.now())
}

// Wait makes what is queued on the stream from now on wait for the event as it is recorded now.
func (d *device) Wait(on driver.Stream, handle driver.Event) error {
	s, err := d.enterOn(Wait, on)
	if err != nil {
		return err
	}
	defer d.leave()
	e, err := d.driver.eventOf(handle)
	if err != nil {
		return err
	}
	switch own, other := s.capture.Load(), e.captured(); {
	case own != nil && other != nil: // an edge of the graph
		return nil
	case own != nil || other != nil:
		return d.breaks(Wait, cmp.Or(own, other))
	}
	p, c := e.now()
	if d.driver.order != nil {
		s.clock = s.clock.join(c)
	}
	if !p.done() && p.stream != s {
		s.push(operation{call: Wait, after: p})
	}
	d.driver.pass()
	return nil
}

// Capture says that the program captures a stream from now on, or no longer: its work is a graph's and does not run. What would
// break a capture of CUDA's fails and is a violation: to query or wait for the stream, or an event that was recorded in it, and
// waits between what is in a capture and what is not. Errors: NoDevice, InvalidHandle.
func (d *Driver) Capture(ordinal int, handle driver.Stream, begins bool) error {
	device, err := d.device(ordinal)
	if err != nil {
		return err
	}
	s, err := device.enterOn(Capture, handle)
	if err != nil {
		return err
	}
	defer device.leave()
	var begin *Use
	if begins {
		begin = &Use{Call: Capture, Device: ordinal, Stream: handle}
		if d.order != nil {
			begin = d.order.streamUse(Capture, s).of(0, false, 0, 0)
		}
	}
	s.capture.Store(begin)
	return nil
}

// breaks reports a call that a capture does not survive, and is its error.
func (d *device) breaks(call Call, begin *Use) error {
	if o := d.driver.order; o != nil {
		o.report(Uncapturable, begin, o.hostUse(call).of(0, false, 0, 0), nil)
	}
	return status.Errorf(status.Device, "%v on %s breaks the capture of stream 0x%x", call, d.info.Name, uint64(begin.Stream))
}
