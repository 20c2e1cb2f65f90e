// A kernel that stays on a device, and does small propagations without a launch for each.

package pages

import (
	"runtime"
	"sync"
	"unsafe"

	"libmmsb/gpu/kernels"
)

const (
	// drainedBytes are the most that a drain copies for a command: it is one block, and a kernel of its own has the whole device.
	drainedBytes = 64 << 10
	// The mailbox lies at the beginning of the staging memory of its lane, the list of a command here.
	drainedTable = 4096
	// looksOfHost are how often the host looks for the end of a command before it asks the driver what has become of the
	// kernel: as long as a small command takes over a link.
	looksOfHost = 4000
)

// drained is what a call and the drain of a device share. It has a lane for itself.
type drained struct {
	mutex sync.Mutex // of a command, from its post to its end
	lane  *lane      // nil: there is none yet
}

func (l *lane) mailbox() *kernels.Mailbox {
	return (*kernels.Mailbox)(unsafe.Pointer(unsafe.SliceData(l.bytes())))
}

// byDrain has the drain do what a table says, and returns when it is done. A command that fails has changed nothing, unless the
// device is lost.
func (d *device) byDrain(what *table) (err error) {
	d.drained.mutex.Lock()
	defer d.drained.mutex.Unlock()
	if d.drained.lane == nil {
		if d.drained.lane, err = d.open(); err != nil {
			return err
		}
		*d.drained.lane.mailbox() = kernels.Mailbox{}
	}
	l := d.drained.lane
	box := l.mailbox()
	if !box.IsDone() { // nobody knew what became of the drain
		if err := l.Synchronize(); err != nil {
			return err
		}
		box.TakeBack()
	}
	launch, content, err := what.prepare(l.staging + drainedTable)
	if err != nil {
		return err
	}
	copy(l.bytes()[drainedTable:], content)
	d.kernels.Post(box, &launch)
	for look := 1; !box.IsDone(); look++ {
		if look%looksOfHost != 0 {
			continue
		}
		if err := d.keepDraining(l, box); err != nil {
			return err
		}
		runtime.Gosched()
	}
	return nil
}

// keepDraining starts the drain where it has ended and a command waits. Where it cannot, the command is taken back.
func (d *device) keepDraining(l *lane, box *kernels.Mailbox) error {
	ended, err := l.Done()
	if err == nil && ended && !box.IsDone() {
		launch := d.kernels.Drain(l.staging)
		err = l.Launch(&launch)
	}
	if err == nil {
		return nil
	}
	if lost := l.Synchronize(); lost != nil {
		return lost
	}
	if box.IsDone() {
		return nil
	}
	box.TakeBack()
	return err
}
