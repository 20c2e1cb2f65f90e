package residency

import (
	"libmmsb/core/status"
	"libmmsb/native"
)

// Devices are the devices of a context as pages need them: memory to lie in, and ways to it. gpu/pages implements it; this
// package knows no more of devices. All methods may be called from many goroutines, with a page locked, and return when the
// device has done the work.
type Devices interface {
	// OnLoss sets what is told once of each device that a call has found lost. It is called before all others.
	OnLoss(told func(device int32))
	// Check tells whether pages can lie at a location of a device. Errors: NoDevice, Device, DeviceLost, Unsupported.
	Check(location, device int32) error
	// Simulated says whether the devices are simulated ones. It is asked after Check.
	Simulated() bool
	// Allocate takes memory that only devices reach. Where it is not zeroed, anything may be there.
	Allocate(device int32, bytes uint64, zeroed bool) (DeviceMemory, error)
	Free(memory DeviceMemory)
	// Share lets memory that Allocate has taken stay until it is freed once more. Errors: StaleHandle (it was freed).
	Share(memory DeviceMemory) error
	// OnLack sets what is asked for about so many bytes where a device lacks memory, and says how many it has freed. It may be
	// asked with any page locked.
	OnLack(device int32, giveBack func(bytes uint64) uint64)
	// Adopt takes memory of a device that is the program's, and that Free leaves to it. What the driver's stream has queued by
	// now comes before; 0 is no stream. Errors: InvalidArgument (it is not memory of the device).
	Adopt(device int32, address uintptr, bytes uint64, stream uintptr) (DeviceMemory, error)
	// Holder is the device that has memory of an address. Errors: InvalidArgument (none has), those of the devices.
	Holder(address uintptr) (device int32, err error)
	// Await returns when a device has done what the program's uses of memory of it have queued: what writes it, and before it is
	// written, what reads it. Nobody waits for uses that go on.
	Await(write bool, memory ...DeviceMemory) error
	// AllocateHost takes zeroed memory of LocationPinned or LocationUnified, which the host reaches at its address.
	AllocateHost(location, device int32, bytes uint64) (uintptr, error)
	// FreeHost gives it back, when the device has done what uses of its block have queued; block 0 is none.
	FreeHost(location int32, memory DeviceMemory)
	// WrapHost makes a block of such memory, which uses can name.
	WrapHost(device int32, address uintptr, bytes uint64) (block uint64, err error)
	// AwaitHost is Await before the host reads or writes such memory. Errors: Busy (a use is open, and the host must not touch
	// managed memory beside this device), those of the devices.
	AwaitHost(location int32, memory DeviceMemory) error
	// Prefetch moves LocationUnified memory to a device, or to the host, before it is used there, where the device can do that.
	Prefetch(device int32, toDevice bool, list [][]byte) error
	// Advise tells the driver of the use of such memory, which is of a device. Where it fails the driver knows what it knew.
	Advise(device int32, memory []byte, before, now Advice) error
	// Read and Write move bytes between host memory, of Go or not, and memory of a device; Copy between two ranges of device
	// memory.
	Read(device int32, from uintptr, to []byte) error
	Write(device int32, to uintptr, from []byte) error
	Copy(toDevice int32, to uintptr, fromDevice int32, from uintptr, bytes uint64) error
	// Carry begins to move ranges one way between the host and a device.
	Carry(device int32, toDevice bool) (Carrier, error)
	// Apply makes a valid delta's change of a page's bytes, without its change mask. done is false where it has to be made on the
	// host.
	Apply(device int32, page uintptr, bytes uint64, delta *native.Delta) (done bool, err error)
	// ApplyMany makes the changes of a batch in their order: on one device all or none, unless the device is lost.
	ApplyMany(changes []Change) error
	// Compare looks at two ranges of a device where they lie: what differs, or a bit for each byte where bits is not nil.
	// Checksums are the CRC-32C of the parts of a range, of which the last may be shorter, and which have a multiple of 4096
	// bytes where there are several. Propagate copies the bytes that masks have from ranges, in their order, to one as long: all
	// or none, unless the device is lost; persistent: by a kernel that stays on the device, where they are few. done is false
	// where the host has to do it.
	Compare(device int32, a, b uintptr, bytes uint64, bits []byte) (found native.Difference, done bool, err error)
	Checksums(device int32, at uintptr, bytes, part uint64, sums []uint32) (done bool, err error)
	Propagate(device int32, to uintptr, bytes uint64, from []Masked, persistent bool) (done bool, err error)
	// Trim gives back memory of the devices that is kept for pages to come.
	Trim()
	// End comes when the context ends: handles that the program has of its devices are stale from then on. Close comes when its
	// last page is gone, too.
	End()
	Close()
}

// Carrier moves ranges one way while its caller, one at a time, finds more of them. No range overlaps another one. What the host
// has of them is left alone until they have moved.
type Carrier interface {
	// Add takes ranges, whose list it uses up. Where it fails, any of what is written to may be as before or as after, and End is
	// all that is left to call.
	Add(list []Transfer) error
	// Moved is how many bytes have moved, of the lists in their order.
	Moved() uint64
	// End returns when all that is queued has moved, or fails. It is called once.
	End() error
}

// Change is a valid delta's change of the bytes of a page on a device.
type Change struct {
	Device  int32
	Address uintptr // of the page
	Delta   *native.Delta
}

// Masked is memory of a device and which of its bytes, a bit for each, are propagated.
type Masked struct {
	Address uintptr
	Mask    []byte
}

// DeviceMemory is a block of device memory.
type DeviceMemory struct {
	Device  int32
	Address uintptr
	Block   uint64 // its handle
}

// NoDevices is the Devices of a program without gpu/pages. No page can lie on one, so that the other methods are not called.
type NoDevices struct{ Devices }

// Check and the methods below implement Devices.
func (NoDevices) Check(_, device int32) error {
	return status.Errorf(status.NoDevice, "no device %d: this program was built without devices", device)
}
func (NoDevices) OnLoss(func(device int32)) {}
func (NoDevices) Trim()                     {}
func (NoDevices) End()                      {}
func (NoDevices) Close()                    {}
