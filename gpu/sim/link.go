// What goes over the link between the host and devices.

package sim

import (
	"sync/atomic"
)

// Link counts the bytes of operations that were queued by now, as far as they go from the host to a device or back: copies, and
// what kernels say they read and write of memory of the host.
type Link struct{ ToDevice, ToHost uint64 }

type link struct{ toDevice, toHost atomic.Uint64 }

// Link is what has gone over it.
func (d *Driver) Link() Link { return Link{d.link.toDevice.Load(), d.link.toHost.Load()} }

// add counts an operation. Those of a copy come in pairs, read and written.
func (l *link) add(d *Driver, call Call, touches []touch) {
	onHost := func(t touch) bool {
		return !theWindow.has(t.address) || d.host.has(t.address)
	}
	for i, t := range touches {
		if !onHost(t) || call == Copy && onHost(touches[i^1]) {
			continue
		}
		if t.write {
			l.toHost.Add(t.bytes)
		} else {
			l.toDevice.Add(t.bytes)
		}
	}
}
