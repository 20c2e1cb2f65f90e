// Operations: what they touch, checked when they are queued.

package sim

import (
	"os"
	"unsafe"

	"golang.org/x/sys/unix"

	"libmmsb/core/status"
	"libmmsb/gpu/driver"
)

// touch is a part of memory that an operation reads or writes.
type touch struct {
	address driver.Address
	bytes   uint64
	write   bool
	item    int
}

// part is a touch of one block or registration: bytes from and to, counted from its beginning.
type part struct {
	history  *history
	touch    touch
	address  driver.Address
	from, to uint64
}

// lowestAddress is the first that a program can have memory at, as the system is usually set up.
const lowestAddress = 4096

// parts divides touches by blocks. Errors: InvalidArgument where there is no such memory, Unsupported where the device does not
// reach it.
func (d *device) parts(call Call, touches []touch) ([]part, error) {
	parts := make([]part, 0, len(touches))
	for _, t := range touches {
		if t.bytes == 0 {
			continue
		}
		if t.address < lowestAddress || uint64(t.address)+t.bytes-1 < uint64(t.address) {
			return nil, status.Errorf(status.InvalidArgument, "%d bytes at 0x%x reach past the last address", t.bytes,
				uint64(t.address))
		}
		var err error
		if theWindow.has(t.address) {
			parts, err = d.deviceParts(parts, call, t)
		} else {
			before := len(parts)
			parts = d.driver.hostParts(parts, t)
			switch {
			case len(parts) > before:
			case call == Fill:
				err = status.Errorf(status.InvalidArgument, "0x%x is host memory that no device can access", uint64(t.address))
			case call == Launch && !isMapped(t.address, t.bytes): // the host runs the kernel, and would end with it
				err = status.Errorf(status.InvalidArgument, "%d bytes at 0x%x: the process has no memory there", t.bytes,
					uint64(t.address))
			}
		}
		if err != nil {
			return nil, err
		}
	}
	return parts, nil
}

// isMapped says whether the process has memory at all of some addresses.
func isMapped(address driver.Address, bytes uint64) bool {
	const most = 64 << 20 // that are asked for at once
	var resident [most >> 12]byte
	size := uint64(os.Getpagesize())
	for from, end := uint64(address)&^(size-1), uint64(address)+bytes; from < end; from += most {
		length := uintptr(min(end-from, most))
		_, _, err := unix.Syscall(unix.SYS_MINCORE, uintptr(from), length, uintptr(unsafe.Pointer(&resident)))
		if err == unix.ENOMEM {
			return false
		}
	}
	return true
}

func (d *device) deviceParts(parts []part, call Call, t touch) ([]part, error) {
	a := d.driver.arenaAt(t.address)
	if a == nil {
		return nil, status.Errorf(status.InvalidArgument, "0x%x is not an address of the simulated devices", uint64(t.address))
	}
	if call == Launch && a.device != nil && !d.CanReach(a.device.info.Ordinal) {
		return nil, status.Errorf(status.Unsupported, "kernels of %s cannot access memory of %s", d.info.Name, a.device.info.Name)
	}
	a.mutex.Lock()
	defer a.mutex.Unlock()
	for at, left := t.address, t.bytes; left > 0; {
		b := a.find(at)
		if b == nil || b.state == reserved {
			return nil, status.Errorf(status.InvalidArgument, "%d bytes at 0x%x: no memory at 0x%x",
				t.bytes, uint64(t.address), uint64(at))
		}
		if call == Launch && b.physical != nil && b.owner != d && !b.peers {
			return nil, status.Errorf(status.Unsupported, "kernels of %s cannot access what is mapped at 0x%x for %s alone",
				d.info.Name, uint64(b.address), b.owner.info.Name)
		}
		from := uint64(at - b.address)
		to := min(b.bytes, from+left)
		// Only what is mapped by hand goes on in the next block.
		if from >= b.bytes || to-from < left && b.physical == nil {
			return nil, status.Errorf(status.InvalidArgument, "%d bytes at 0x%x reach past the block of %d bytes at 0x%x",
				t.bytes, uint64(t.address), b.bytes, uint64(b.address))
		}
		parts = append(parts, part{b.history, t, at, from, to})
		at += driver.Address(to - from)
		left -= to - from
	}
	return parts, nil
}

// arenaAt is the arena that an address lies in.
func (d *Driver) arenaAt(address driver.Address) *arena {
	for _, device := range d.devices {
		if device.arena.has(address) {
			return device.arena
		}
	}
	if d.host.has(address) {
		return d.host
	}
	return nil
}

// hostParts finds what of host memory is registered. Of other host memory nothing is known.
func (d *Driver) hostParts(parts []part, t touch) []part {
	d.hostMutex.RLock()
	defer d.hostMutex.RUnlock()
	for _, r := range d.registered {
		from, to := max(t.address, r.address), min(t.address+driver.Address(t.bytes), r.address+driver.Address(r.bytes))
		if from < to {
			parts = append(parts, part{r.history, t, from, uint64(from - r.address), uint64(to - r.address)})
		}
	}
	return parts
}

// check notes the parts of an operation, each with the use that it is.
func (d *Driver) check(use Use, parts []part) {
	for _, p := range parts {
		d.order.access(p.history, use.of(p.touch.item, p.touch.write, p.address, p.to-p.from), p.from, p.to)
	}
}

// queue checks an operation and queues it.
func (d *device) queue(s *stream, call Call, kernel string, touches []touch, failLater bool, work func()) error {
	parts, err := d.parts(call, touches)
	if err != nil {
		d.reportBare(s, call, kernel, touches)
		return err
	}
	if s.capture.Load() != nil { // it is the graph's
		return nil
	}
	d.driver.link.add(d.driver, call, touches)
	if d.driver.order != nil {
		use := d.driver.order.streamUse(call, s)
		use.Kernel = kernel
		d.driver.check(use, parts)
	}
	var bytes uint64
	for _, t := range touches {
		if t.write {
			bytes += t.bytes
		}
	}
	if failLater {
		work = d.lose
	}
	s.push(operation{call: call, bytes: bytes, work: work})
	d.driver.pass()
	return nil
}

// reportBare reports touches of addresses whose memory was taken away.
func (d *device) reportBare(s *stream, call Call, kernel string, touches []touch) {
	o := d.driver.order
	for _, t := range touches {
		a := d.driver.arenaAt(t.address)
		if o == nil || a == nil || t.bytes == 0 {
			continue
		}
		if taken := a.takenFrom(t.address, t.bytes); taken != nil {
			use := o.streamUse(call, s)
			use.Kernel = kernel
			o.report(NoMemory, taken, use.of(t.item, t.write, t.address, t.bytes), nil)
		}
	}
}

// Copy queues copies.
func (d *device) Copy(on driver.Stream, copies ...driver.Copy) error {
	s, failLater, err := d.enterWorkOn(Copy, on)
	if err != nil {
		return err
	}
	defer d.leave()
	touches := make([]touch, 0, 2*len(copies))
	kept := make([]driver.Copy, 0, len(copies))
	for item, c := range copies {
		if c.Bytes == 0 {
			continue
		}
		if uint64(c.To-c.From) < c.Bytes || uint64(c.From-c.To) < c.Bytes {
			return status.Errorf(status.InvalidArgument, "%d bytes at 0x%x and 0x%x overlap",
				c.Bytes, uint64(c.From), uint64(c.To))
		}
		touches = append(touches, touch{c.From, c.Bytes, false, item}, touch{c.To, c.Bytes, true, item})
		kept = append(kept, c)
	}
	return d.queue(s, Copy, "", touches, failLater, func() {
		for _, c := range kept {
			copy(reach(c.To, c.Bytes), reach(c.From, c.Bytes))
		}
	})
}

// Fill queues setting bytes to a value.
func (d *device) Fill(on driver.Stream, address driver.Address, value byte, bytes uint64) error {
	s, failLater, err := d.enterWorkOn(Fill, on)
	if err != nil {
		return err
	}
	defer d.leave()
	return d.queue(s, Fill, "", []touch{{address, bytes, true, 0}}, failLater, func() { set(reach(address, bytes), value) })
}

// HostAccess says that the host reads or writes Pinned, Managed or registered memory now, so that it can be checked. Of other
// host memory nothing is known. Errors: InvalidArgument where there is no such memory, or only devices reach it.
func (d *Driver) HostAccess(address driver.Address, bytes uint64, write bool) error {
	if theWindow.isClosed(address) {
		return status.Errorf(status.InvalidArgument, "the host cannot access 0x%x", uint64(address))
	}
	if d.serial {
		d.turn.Lock()
		defer d.turn.Unlock()
	}
	d.observe()
	parts, err := d.devices[0].parts(HostAccess, []touch{{address: address, bytes: bytes, write: write}})
	if err == nil && d.order != nil {
		d.check(d.order.hostUse(HostAccess), parts)
	}
	return err
}
