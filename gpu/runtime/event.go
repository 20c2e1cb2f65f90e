// Events of the driver, to be used again.

package runtime

import (
	"cmp"
	"sync"
	"sync/atomic"

	"libmmsb/gpu/driver"
)

// eventPool keeps events for reuse: making one costs a driver more than recording it.
type eventPool struct {
	device      driver.Device
	mutex       sync.Mutex
	free        []driver.Event
	made, ended atomic.Uint64
}

func (p *eventPool) take() (driver.Event, error) {
	p.mutex.Lock()
	if last := len(p.free) - 1; last >= 0 {
		event := p.free[last]
		p.free = p.free[:last]
		p.mutex.Unlock()
		return event, nil
	}
	p.mutex.Unlock()
	event, err := p.device.CreateEvent()
	if err == nil {
		p.made.Add(1)
	}
	return event, err
}

func (p *eventPool) give(event driver.Event) {
	p.mutex.Lock()
	p.free = append(p.free, event)
	p.mutex.Unlock()
}

func (p *eventPool) close() error {
	var first error
	for _, event := range p.free {
		first = cmp.Or(first, p.device.DestroyEvent(event))
		p.ended.Add(1)
	}
	p.free = nil
	return first
}
