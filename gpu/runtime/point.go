// Points that others wait for: the host, other streams, other runtimes.

package runtime

import (
	"sync"
	"time"

	"libmmsb/core/status"
)

// Point is a moment of a stream, behind everything that was queued on it when the point was recorded. It can be asked, waited
// for, and named to other streams; core/ticket makes a ticket of it. What it keeps of the driver goes back when the device has
// come past it, or when it is closed.
type Point struct {
	at       point
	mutex    sync.Mutex
	recorded *recordedEvent // nil once the point is settled
	err      error
	settled  chan struct{}
}

// pointTable are the points of a runtime that are not settled.
type pointTable struct {
	mutex  sync.Mutex
	points map[*Point]struct{}
}

func (t *pointTable) add(p *Point) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	if t.points == nil {
		t.points = make(map[*Point]struct{})
	}
	t.points[p] = struct{}{}
}

func (t *pointTable) remove(p *Point) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	delete(t.points, p)
}

// settle settles all points of a runtime that ends: the device has done what it will ever do.
func (t *pointTable) settle(err error) {
	t.mutex.Lock()
	left := t.points
	t.points = nil
	t.mutex.Unlock()
	for p := range left {
		p.settle(err)
	}
}

// Record makes a point of the stream's end. Errors: StaleHandle, InvalidState (it captures), Device, DeviceLost.
func (s *Stream) Record() (*Point, error) {
	r := s.runtime
	if err := r.enter(); err != nil {
		return nil, err
	}
	defer r.leave()
	if err := s.free("a point of it cannot be waited for"); err != nil {
		return nil, err
	}
	at := s.next() // above all events: what the program queued by itself has no number, so that the event must be a new one
	m, err := s.covering(at.number)
	if err != nil {
		return nil, err
	}
	p := &Point{at: at, recorded: m, settled: make(chan struct{})}
	r.points.add(p)
	return p, nil
}

// settle notes how the point ended; the first result counts.
func (p *Point) settle(err error) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.settleLocked(err)
}

func (p *Point) settleLocked(err error) {
	if p.recorded == nil {
		return
	}
	r := p.at.stream.runtime
	r.letGo(p.recorded)
	p.recorded, p.err = nil, err
	r.points.remove(p)
	close(p.settled)
}

// Poll says whether the device has come past the point, and what became of it: DeviceLost, Device.
func (p *Point) Poll() (past bool, err error) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if p.recorded == nil {
		return true, p.err
	}
	r := p.at.stream.runtime
	if r.enter() != nil { // its end settles the point
		return false, nil
	}
	defer r.leave()
	if past, err = r.device.QueryEvent(p.recorded.event); past || err != nil {
		p.settleLocked(r.noteLost(err))
	}
	return p.recorded == nil, p.err
}

// Wait blocks until the device has come past the point.
func (p *Point) Wait() error {
	r := p.at.stream.runtime
	p.mutex.Lock()
	m := p.recorded
	if m == nil || r.enter() != nil {
		p.mutex.Unlock()
		<-p.settled
		return p.err
	}
	m.users.Add(1)
	p.mutex.Unlock()
	err := r.noteLost(r.device.SynchronizeEvent(m.event))
	r.letGo(m)
	r.leave()
	p.settle(err)
	return err
}

// Close gives back what the point keeps. Who asks it later is told that it was closed.
func (p *Point) Close() { p.settle(status.Errorf(status.StaleHandle, "point was closed")) }

// WaitFor makes what is queued on the stream from now on run behind a point, also one of another device of the same driver.
// Errors: InvalidArgument (a device of another driver), StaleHandle, and those of the point and the driver.
func (s *Stream) WaitFor(p *Point) error {
	r, other := s.runtime, p.at.stream.runtime
	if err := r.enter(); err != nil {
		return err
	}
	defer r.leave()
	p.mutex.Lock()
	defer p.mutex.Unlock()
	switch {
	case p.recorded == nil:
		return p.err
	case r == other:
		return s.waitFor(p.at)
	case s.capture.Load() != nil:
		return s.free("it cannot wait for another device")
	case r.device.Info().Simulated != other.device.Info().Simulated:
		return otherDriver(r, other)
	}
	if err := other.enter(); err != nil {
		return err
	}
	defer other.leave()
	err := r.noteLost(r.device.Wait(s.native, p.recorded.event))
	if status.CodeOf(err) == status.InvalidHandle { // simulated devices of another context
		return otherDriver(r, other)
	}
	return err
}

func otherDriver(r, other *Runtime) error {
	return status.Errorf(status.InvalidArgument,
		"device %d (%s) cannot wait for device %d (%s): their drivers or contexts differ",
		r.device.Info().Ordinal, r.device.Info().Name, other.device.Info().Ordinal, other.device.Info().Name)
}

// How long a wait with a time limit sleeps between two looks at the device.
const (
	shortestSleep = 10 * time.Microsecond
	longestSleep  = 500 * time.Microsecond
)

// SynchronizeWithin blocks until everything that was queued is done, or the time is over. Errors: WouldBlock (no time was given),
// Timeout, StaleHandle, and those of the driver.
func (s *Stream) SynchronizeWithin(timeout time.Duration) error {
	return s.synchronizeUntil(time.Now().Add(timeout), timeout)
}

// synchronizeUntil is SynchronizeWithin of a time that began earlier; a negative one does not end.
func (s *Stream) synchronizeUntil(end time.Time, timeout time.Duration) error {
	p, err := s.Record()
	if err != nil {
		return err
	}
	defer p.Close()
	if timeout < 0 {
		return p.Wait()
	}
	for sleep := shortestSleep; ; sleep = min(2*sleep, longestSleep) {
		past, err := p.Poll()
		switch {
		case past:
			return err
		case timeout == 0:
			return status.Errorf(status.WouldBlock, "stream %d of device %d has unfinished work", s.index,
				s.runtime.device.Info().Ordinal)
		case !time.Now().Before(end):
			return status.Errorf(status.Timeout, "stream %d of device %d still has work after %v", s.index,
				s.runtime.device.Info().Ordinal, timeout)
		}
		time.Sleep(min(sleep, time.Until(end)))
	}
}
