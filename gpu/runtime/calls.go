// Calls that are running in a runtime, so that it can end while others use it.

package runtime

import (
	"sync/atomic"

	"libmmsb/core/status"
)

// calls are those that are running in a runtime, so that it can end while others use it.
type calls struct {
	running atomic.Int64 // and ending, once nobody is let in any more
	last    chan struct{}
}

const ending = -1 << 62

// enter begins a call; false: the runtime ends. Calls may nest.
func (c *calls) enter() bool {
	if c.running.Add(1) > 0 {
		return true
	}
	c.leave()
	return false
}

func (c *calls) leave() {
	if c.running.Add(-1) == ending {
		select {
		case c.last <- struct{}{}:
		default: // who ends knows already
		}
	}
}

// end lets nobody in any more, and waits for those who are. It is called once.
func (c *calls) end() {
	if c.running.Add(ending) != ending {
		<-c.last
	}
}

// enter begins a call; leave ends it where there is no error. Errors: StaleHandle (the runtime was closed).
func (r *Runtime) enter() error {
	if r.calls.enter() {
		return nil
	}
	return status.Errorf(status.StaleHandle, "runtime of device %d was closed", r.device.Info().Ordinal)
}

func (r *Runtime) leave() { r.calls.leave() }

// Use runs a call during which the runtime does not end. Errors: StaleHandle (it was closed), those of the call.
func (r *Runtime) Use(call func() error) error {
	if err := r.enter(); err != nil {
		return err
	}
	defer r.leave()
	return call()
}
