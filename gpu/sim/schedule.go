// Which operation runs next, and running them step by step.

package sim

import (
	"slices"
	"time"

	"libmmsb/core/status"
	"libmmsb/gpu/driver"
)

// Step is one operation that ran.
type Step struct {
	Device int
	Stream int // the number of the stream, in the order in which streams were made: handles differ from run to run
	Call   Call
}

// Trace is what ran up to now, in its order, where Options.Trace asks for it. Eager does not keep it.
func (d *Driver) Trace() []Step {
	d.turn.Lock()
	defer d.turn.Unlock()
	return slices.Clone(d.trace)
}

// streamsNow is the streams that are not ended, or not yet done.
func (d *Driver) streamsNow() []*stream {
	d.streamMutex.Lock()
	defer d.streamMutex.Unlock()
	return slices.Clone(d.all)
}

// forget drops streams that are ended and done. The others keep their order.
func (d *Driver) forget() {
	d.streamMutex.Lock()
	defer d.streamMutex.Unlock()
	d.all = slices.DeleteFunc(d.all, func(s *stream) bool {
		if !s.ended.Load() || !s.end().done() {
			return false
		}
		s.device.past = s.device.past.join(s.clock)
		d.left = append(d.left, endedParty{s.party, s.clock.at(s.party)})
		return true
	})
}

// endedParty is the party of a stream that is ended and done, and its last tick.
type endedParty struct {
	party int
	tick  uint64
}

// newParty is the party of a new stream, so that clocks do not grow with the streams that ever were: that of an ended stream all
// of whose work the host has seen done. What a new stream does is behind that work like everything that is queued from now on,
// and its ticks go on from the last one. The locks are those of addStream.
func (d *Driver) newParty() int {
	if d.order != nil {
		for i, left := range d.left {
			if d.order.host.at(left.party) >= left.tick {
				d.left = slices.Delete(d.left, i, i+1)
				return left.party
			}
		}
	}
	d.parties++
	return d.parties - 1
}

// ready is the streams whose next operation can run; the turn is held.
func (d *Driver) ready() (ready []*stream) {
	d.streamMutex.Lock()
	defer d.streamMutex.Unlock()
	for _, s := range d.all {
		if len(s.queue) > 0 && s.queue[0].after.done() {
			ready = append(ready, s)
		}
	}
	return ready
}

// Spell is when an operation was queued, and when the device moved its bytes.
type Spell struct {
	Device, Stream     int
	Call               Call
	Bytes              uint64
	Queued, Begin, End time.Time
}

// Timeline is the operations that are done, in the order of their ends, where work takes time and Options.Trace asks for it.
func (d *Driver) Timeline() []Spell {
	d.timelineMutex.Lock()
	defer d.timelineMutex.Unlock()
	return slices.Clone(d.timeline)
}

func (d *Driver) note(s Spell) {
	if !d.timed() || !d.options.Trace {
		return
	}
	d.timelineMutex.Lock()
	defer d.timelineMutex.Unlock()
	d.timeline = append(d.timeline, s)
}

// step runs a stream's next operation; the turn is held.
func (d *Driver) step(s *stream) {
	op := s.queue[0]
	if d.options.Trace {
		d.trace = append(d.trace, Step{s.device.info.Ordinal, s.number, op.call})
	}
	s.do(op)
}

// observe lets devices work for a while, as they do beside the program: none, some or all of what can run. It belongs where the
// program sees how far they are. The turn is held.
func (d *Driver) observe() {
	if d.choose == nil {
		return
	}
	for {
		ready := d.ready()
		if len(ready) == 0 {
			return
		}
		choice := d.choose(len(ready) + 1)
		if choice == len(ready) {
			return
		}
		d.step(ready[choice])
	}
}

// pass is observe where the program sees nothing. Exploring it would only run the same again.
func (d *Driver) pass() {
	if d.options.Scheduler != Chosen {
		d.observe()
	}
}

// await blocks until a point is done. The turn is held, and given up where others must work meanwhile.
func (d *Driver) await(p point) {
	if p.stream == nil {
		return
	}
	if d.choose == nil {
		if d.serial {
			d.turn.Unlock()
			defer d.turn.Lock()
		}
		p.stream.sleep(p.number)
		return
	}
	for !p.done() {
		ready := d.ready()
		d.step(ready[d.choose(len(ready))])
	}
}

// Step runs the first operation of a stream of the device. Errors: InvalidState (nothing is queued, or it must wait; or the
// scheduler is not Stepped), InvalidHandle.
func (d *Driver) Step(ordinal int, handle driver.Stream) error {
	device, err := d.device(ordinal)
	if err != nil {
		return err
	}
	d.turn.Lock()
	defer d.turn.Unlock()
	for _, s := range d.ready() {
		if s.device == device && s.handle == handle && d.options.Scheduler == Stepped {
			d.step(s)
			return nil
		}
	}
	return status.Errorf(status.InvalidState, "stream 0x%x of device %d has no work", uint64(handle), ordinal)
}

// Finish runs everything that is queued, in the order of the streams. Eager streams run by themselves, and are waited for.
func (d *Driver) Finish() {
	if d.options.Scheduler == Eager {
		for _, s := range d.streamsNow() {
			s.sleep(s.queued.Load())
		}
		return
	}
	d.turn.Lock()
	defer d.turn.Unlock()
	for ready := d.ready(); len(ready) > 0; ready = d.ready() {
		d.step(ready[0])
	}
}
