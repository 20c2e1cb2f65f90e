package page

import (
	"sync/atomic"

	"libmmsb/core/status"
	"libmmsb/native"
)

// Devices are the devices of a context as pages need them: memory to lie in, and ways to it. gpu/pages implements it; this package knows no
// more of devices. All methods may be called from many goroutines, with a page locked, and return when the device has done the work.
type Devices interface {
	// Check tells whether pages can lie at a location of a device. Errors: NoDevice, Device, Unsupported.
	Check(location, device int32) error
	// Simulated says whether the devices are simulated ones. It is asked after Check.
	Simulated() bool
	// Allocate takes zeroed memory that only devices reach.
	Allocate(device int32, bytes uint64) (DeviceMemory, error)
	Free(memory DeviceMemory)
	// AllocateHost takes zeroed memory of LocationPinned or LocationUnified, which the host reaches at its address.
	AllocateHost(location, device int32, bytes uint64) (uintptr, error)
	FreeHost(location, device int32, address uintptr)
	// Read and Write move bytes between host memory, of Go or not, and memory of a device; Copy between two stretches of device memory.
	Read(device int32, from uintptr, to []byte) error
	Write(device int32, to uintptr, from []byte) error
	Copy(toDevice int32, to uintptr, fromDevice int32, from uintptr, bytes uint64) error
	// Apply makes a valid delta's change of a page's bytes, without its change mask. done is false where it has to be made on the host.
	Apply(device int32, page uintptr, bytes uint64, delta *native.Delta) (done bool, err error)
	// ApplyMany makes the changes of a batch in their order: on one device all or none, unless the device is lost.
	ApplyMany(changes []Change) error
	// End comes when the context ends: handles that the program has of its devices are stale from then on. Close comes when its last page
	// is gone, too.
	End()
	Close()
}

// Change is a valid delta's change of the bytes of a page on a device.
type Change struct {
	Device int32
	Page   uintptr
	Delta  *native.Delta
}

// DeviceMemory is a block of device memory.
type DeviceMemory struct {
	Device  int32
	Address uintptr
	Block   uint64 // its handle; not 0
}

// devicesOf makes the devices of a context with such options. Without UseDevices there are none.
var devicesOf atomic.Pointer[func(options *Options) Devices]

// UseDevices says where contexts have their devices from. It is called before the first context.
func UseDevices(of func(options *Options) Devices) { devicesOf.Store(&of) }

func newDevices(options *Options) Devices {
	if of := devicesOf.Load(); of != nil {
		return (*of)(options)
	}
	return noDevices{}
}

// noDevices is what a program without gpu/pages has.
type noDevices struct{}

func (noDevices) Check(_, device int32) error {
	return status.Errorf(status.NoDevice, "no device %d: this program was built without devices", device)
}
func (noDevices) Simulated() bool { return false }
func (d noDevices) Allocate(device int32, _ uint64) (DeviceMemory, error) {
	return DeviceMemory{}, d.Check(LocationGPU, device)
}
func (noDevices) Free(DeviceMemory) {}
func (d noDevices) AllocateHost(location, device int32, _ uint64) (uintptr, error) {
	return 0, d.Check(location, device)
}
func (noDevices) FreeHost(int32, int32, uintptr)                 {}
func (d noDevices) Read(device int32, _ uintptr, _ []byte) error { return d.Check(LocationGPU, device) }
func (d noDevices) Write(device int32, _ uintptr, _ []byte) error {
	return d.Check(LocationGPU, device)
}
func (d noDevices) Copy(device int32, _ uintptr, _ int32, _ uintptr, _ uint64) error {
	return d.Check(LocationGPU, device)
}
func (d noDevices) Apply(device int32, _ uintptr, _ uint64, _ *native.Delta) (bool, error) {
	return false, d.Check(LocationGPU, device)
}
func (d noDevices) ApplyMany(changes []Change) error { return d.Check(LocationGPU, changes[0].Device) }
func (noDevices) End()                               {}
func (noDevices) Close()                             {}

// Devices are the context's.
func (c *Context) Devices() Devices { return c.devices }

// place is where a page is to lie: a location, and the number of a device there.
type place struct{ location, device int32 }

// onDevice says whether the page's memory is a device's that the host does not reach.
func (p place) onDevice() bool { return p.location == LocationGPU }

// away says whether the bytes have no address of the host.
func (p place) away() bool { return p.location == LocationGPU || p.location == LocationDisk }

// resolve says where a page goes that is to lie at a location: there, on the host instead, or nowhere.
func (c *Context) resolve(location, device int32) (place, error) {
	if location == LocationDefault {
		if device != 0 && device != c.options.DefaultDevice {
			return place{}, status.Errorf(status.InvalidArgument, "device is %d, but the location is the default one, on device %d", device,
				c.options.DefaultDevice)
		}
		location, device = c.options.DefaultLocation, c.options.DefaultDevice
	}
	switch location {
	case LocationCPU, LocationDisk:
		if device != 0 {
			return place{}, status.Errorf(status.InvalidArgument, "device is %d; on the CPU and on disk it is 0", device)
		}
		return place{location, 0}, nil
	case LocationGPU, LocationUnified, LocationPinned:
		if device < 0 {
			return place{}, status.Errorf(status.InvalidArgument, "device %d is negative", device)
		}
		err := c.devices.Check(location, device)
		switch {
		case err == nil:
			native.SetSimulated(c.index, c.devices.Simulated())
			return place{location, device}, nil
		case c.options.Fallback == FallbackHost:
			return place{LocationCPU, 0}, nil
		}
		return place{}, err
	}
	return place{}, status.Errorf(status.InvalidArgument, "%d is no location", location)
}
