// Objects of the driver that are alive, by handle.

package cuda

import (
	"sync"
	"sync/atomic"
)

// object is something of the driver's that is given by its handle: a stream, an event, a module. The driver is only asked about
// it by who holds it; the last holder gives it back, so that it cannot end under a call of another thread.
type object struct {
	device  *device
	handle  uintptr
	holders atomic.Int64 // and one for the registry while it is listed
	end     func() error // gives it back to the driver

	users int // of a stream: how many DestroyStream are to come; under device.foreign
}

// registry knows the objects of one kind that are alive, by handle.
type registry struct {
	objects sync.Map // uintptr: *object
}

// add lists an object that was just made.
func (r *registry) add(o *object) {
	o.holders.Store(1)
	r.objects.Store(o.handle, o)
}

// hold finds an object and keeps it until release. Nil where there is none.
func (r *registry) hold(handle uintptr) *object {
	found, listed := r.objects.Load(handle)
	if !listed {
		return nil
	}
	o := found.(*object)
	for {
		holders := o.holders.Load()
		if holders == 0 {
			return nil
		}
		if o.holders.CompareAndSwap(holders, holders+1) {
			return o
		}
	}
}

// release ends a hold. An object that was dropped meanwhile ends with its last one; nobody is left then to be told of a failure.
func (o *object) release() {
	if o != nil && o.holders.Add(-1) == 0 {
		_ = o.end()
	}
}

// drop takes an object that the caller holds out of the registry, releases it and ends it, or leaves that to the last holder.
// False where another one has dropped it. One that cannot be ended stays.
func (r *registry) drop(o *object) (bool, error) {
	if !r.objects.CompareAndDelete(o.handle, o) {
		o.release()
		return false, nil
	}
	if o.holders.Add(-2) > 0 {
		return true, nil
	}
	err := o.end()
	if err != nil {
		r.add(o)
	}
	return true, err
}
