// Where managed memory was moved to, and what is told of its use. Both change no bytes: a simulated device and the host have one
// memory. What kernels and the host touch moves nothing here, so that a test sees what was asked for.

package sim

import (
	"libmmsb/core/status"
	"libmmsb/gpu/driver"
)

// OnHost and Nowhere stand for the number of a device.
const (
	OnHost  = -1
	Nowhere = -2
)

// hintBytes is what has hints of its own.
const hintBytes = 4096

// Hints are what is known of a part of managed memory.
type Hints struct {
	On         int // where a prefetch moved it last
	Preferred  int // Nowhere: nothing was said
	ReadMostly bool
}

// managed is the block of managed memory that has all of a range; the lock of the host's arena is held.
func (d *device) managed(address driver.Address, bytes uint64) (*block, error) {
	if err := d.needs(d.info.ManagedHints, "managed memory that the host and the device use at a time"); err != nil {
		return nil, err
	}
	b := d.driver.host.find(address)
	if b == nil || b.state != live || b.kind != driver.Managed || uint64(address-b.address) > b.bytes ||
		bytes > b.bytes-uint64(address-b.address) {
		return nil, status.Errorf(status.InvalidArgument, "%d bytes at 0x%x are not managed memory", bytes, uint64(address))
	}
	return b, nil
}

// hinted are the hints of a range of a block, whose lock is held.
func (b *block) hinted(address driver.Address, bytes uint64) []Hints {
	if b.hints == nil {
		b.hints = make([]Hints, (b.bytes+hintBytes-1)/hintBytes)
		for i := range b.hints {
			b.hints[i] = Hints{On: OnHost, Preferred: Nowhere}
		}
	}
	from := uint64(address - b.address)
	return b.hints[from/hintBytes : (from+bytes+hintBytes-1)/hintBytes]
}

// Prefetch queues moving managed memory.
func (d *device) Prefetch(on driver.Stream, address driver.Address, bytes uint64, toHost bool) error {
	s, failLater, err := d.enterWorkOn(Prefetch, on)
	if err != nil {
		return err
	}
	defer d.leave()
	to := d.info.Ordinal
	if toHost {
		to = OnHost
	}
	move, err := d.move(address, bytes, to)
	if err != nil || bytes == 0 || s.capture.Load() != nil { // in a capture it is the graph's
		return err
	}
	if failLater {
		move.work = d.lose
	}
	s.push(move)
	d.driver.pass()
	return nil
}

// move is the operation that a prefetch queues: it takes the time of the bytes that are elsewhere now.
func (d *device) move(address driver.Address, bytes uint64, to int) (move operation, err error) {
	host := d.driver.host
	host.mutex.Lock()
	defer host.mutex.Unlock()
	b, err := d.managed(address, bytes)
	if err != nil {
		return move, err
	}
	elsewhere := uint64(0)
	for _, h := range b.hinted(address, bytes) {
		if h.On != to {
			elsewhere += hintBytes
		}
	}
	return operation{call: Prefetch, bytes: min(elsewhere, bytes), work: func() {
		host.mutex.Lock()
		defer host.mutex.Unlock()
		if of, err := d.managed(address, bytes); err == nil && of == b { // else it was freed meanwhile
			hints := b.hinted(address, bytes)
			for i := range hints {
				hints[i].On = to
			}
		}
	}}, nil
}

// Advise tells of the use of managed memory.
func (d *device) Advise(address driver.Address, bytes uint64, advice driver.Advice) error {
	if err := d.enter(Advise); err != nil {
		return err
	}
	defer d.leave()
	if !driver.IsAdvice(advice) {
		return status.Errorf(status.InvalidArgument, "advice %d does not exist", advice)
	}
	host := d.driver.host
	host.mutex.Lock()
	defer host.mutex.Unlock()
	b, err := d.managed(address, bytes)
	if err != nil || bytes == 0 {
		return err
	}
	hints := b.hinted(address, bytes)
	for i := range hints {
		switch advice {
		case driver.ReadMostly, driver.NotReadMostly:
			hints[i].ReadMostly = advice == driver.ReadMostly
		case driver.PreferDevice:
			hints[i].Preferred = d.info.Ordinal
		case driver.PreferHost:
			hints[i].Preferred = OnHost
		case driver.PreferNowhere:
			hints[i].Preferred = Nowhere
		}
	}
	return nil
}

// HintsAt is what is known of the managed memory at an address. Errors: InvalidArgument.
func (d *Driver) HintsAt(address driver.Address) (Hints, error) {
	d.host.mutex.Lock()
	defer d.host.mutex.Unlock()
	b, err := d.devices[0].managed(address, 1)
	if err != nil {
		return Hints{}, err
	}
	return b.hinted(address, 1)[0], nil
}
