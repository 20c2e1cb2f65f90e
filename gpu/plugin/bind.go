// Which runtime serves a device, for libraries that can name no runtime.

package plugin

import (
	"math"
	"sync"
	"sync/atomic"

	"libmmsb/core/status"
	"libmmsb/gpu/devices"
	"libmmsb/gpu/driver"
	"libmmsb/gpu/runtime"
)

// binding is a runtime that serves a device. Memory goes back to the one that it came from, also when another serves since.
type binding struct {
	runtime *runtime.Runtime
	device  int
	limit   atomic.Uint64 // the most bytes that are given out
	taken   atomic.Uint64
}

// charge counts bytes that are given out. Errors: Limit.
func (b *binding) charge(bytes uint64) error {
	if b == nil {
		return nil
	}
	for {
		taken, limit := b.taken.Load(), b.limit.Load()
		if taken > limit || bytes > limit-taken {
			return status.Errorf(status.Limit, "size of the block is %d bytes, %d of the %d that device %d may have are taken",
				bytes, taken, limit, b.device)
		}
		if b.taken.CompareAndSwap(taken, taken+bytes) {
			return nil
		}
	}
}

// refund counts bytes that come back.
func (b *binding) refund(bytes uint64) {
	if b != nil {
		b.taken.Add(-bytes)
	}
}

// bindings are the runtimes that serve, by device. What is not bound gets a runtime of this package's own at the first call.
var bindings struct {
	sync.RWMutex
	serving map[int]*binding
	own     *devices.Set // nil until it is needed
}

// Bind lets a runtime serve a device from now on. Errors: Mismatch (the runtime is of another device).
func Bind(device int, r *devices.Runtime) error {
	if err := sameDevice(device, r); err != nil {
		return err
	}
	bindings.Lock()
	defer bindings.Unlock()
	serve(device, r.Runtime)
	return nil
}

// serve is for Bind and Bound. The lock is held. A limit that was set for the device stays.
func serve(device int, r *runtime.Runtime) *binding {
	b := &binding{runtime: r, device: device}
	b.limit.Store(math.MaxUint64)
	if before := bindings.serving[device]; before != nil {
		b.limit.Store(before.limit.Load())
	}
	if bindings.serving == nil {
		bindings.serving = make(map[int]*binding)
	}
	bindings.serving[device] = b
	return b
}

// Unbind lets no runtime serve a device: the next call makes one.
func Unbind(device int) {
	bindings.Lock()
	defer bindings.Unlock()
	delete(bindings.serving, device)
}

// bound is what serves a device: where nothing was bound, a runtime with a pool, of the driver's device. Errors: NoDevice, those
// of the driver.
func bound(device int) (*binding, error) {
	bindings.RLock()
	b := bindings.serving[device]
	bindings.RUnlock()
	if b != nil {
		return b, nil
	}
	bindings.Lock()
	defer bindings.Unlock()
	if b = bindings.serving[device]; b != nil {
		return b, nil
	}
	if bindings.own == nil {
		bindings.own = devices.NewSet(devices.Options{Simulate: devices.Off})
	}
	pool := ""
	r, err := bindings.own.New(device, devices.RuntimeOptions{Pool: &pool})
	if err != nil {
		return nil, err
	}
	return serve(device, r.Runtime), nil
}

// AllocateBound is Allocate of the runtime that serves a device.
func AllocateBound(device int, bytes uint64, stream Stream, kind Kind) (driver.Address, error) {
	b, err := bound(device)
	if err != nil {
		return 0, err
	}
	return allocate(b.runtime, b, bytes, stream, kind)
}

// AllocateFrom takes a segment of the runtime with a handle, or where the handle is 0 of the one that serves a device. Errors:
// those of FindRuntime and Allocate; Mismatch (the runtime is of another device).
func AllocateFrom(handle uint64, device int, bytes uint64) (driver.Address, error) {
	if handle == 0 {
		return AllocateBound(device, bytes, Stream{}, Segment)
	}
	r, err := devices.FindRuntime(handle)
	if err == nil {
		err = sameDevice(device, r)
	}
	if err != nil {
		return 0, err
	}
	return Allocate(r, bytes, Stream{}, Segment)
}

func sameDevice(device int, r *devices.Runtime) error {
	if of := r.Device().Info().Ordinal; of != device {
		return status.Errorf(status.Mismatch, "device is %d, but the runtime belongs to device %d", device, of)
	}
	return nil
}

// SetFraction limits what a device gives out to a part of its memory. Errors: InvalidArgument (not from 0 to 1), those of bound.
func SetFraction(device int, fraction float64) error {
	if !(fraction >= 0 && fraction <= 1) {
		return status.Errorf(status.InvalidArgument, "fraction of the memory of device %d is %g, not 0 to 1", device, fraction)
	}
	b, err := bound(device)
	if err == nil {
		b.limit.Store(uint64(fraction * float64(b.runtime.Device().Info().Bytes)))
	}
	return err
}

// EmptyCache gives back what the runtimes that serve keep for reuse. Errors: the first of runtime.Trim.
func EmptyCache() (first error) {
	bindings.RLock()
	all := make([]*binding, 0, len(bindings.serving))
	for _, b := range bindings.serving {
		all = append(all, b)
	}
	bindings.RUnlock()
	for _, b := range all {
		if err := b.runtime.Trim(0); err != nil && first == nil {
			first = err
		}
	}
	return first
}

// End unbinds everything, and ends the runtimes that were made here.
func End() {
	bindings.Lock()
	own := bindings.own
	bindings.own, bindings.serving = nil, nil
	bindings.Unlock()
	if own != nil {
		own.Close()
	}
}
