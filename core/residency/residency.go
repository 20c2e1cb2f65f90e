// Package residency decides where the bytes of pages lie, and moves them from one placement to another: host memory, the
// context's file, memory of a device, or a snapshot that they are still to be read from. It knows nothing of ids, of the order of
// changes, and of how snapshots are written.
package residency

import (
	"libmmsb/core/abi"
	"libmmsb/core/memory"
	"libmmsb/core/region"
	"libmmsb/core/status"
	"libmmsb/native"
)

// Options say where pages of a context can lie.
type Options struct {
	Default  Placement // of pages that name none
	Fallback int32     // abi.Fallback…: where pages lie whose location is not available
	DiskPath string    // the folder of the context's file
	// DeviceLost comes once for each device that is lost, when a call has met it, which may have pages locked.
	DeviceLost func(device int32)
	// Moved comes when a page's memory is about to go elsewhere. The page is locked.
	Moved func(index uint32)
}

// Residency is a context's.
type Residency struct {
	memory  *memory.Memory
	devices Devices
	options Options
	context uint32

	disk     disk
	copies   table[hostCopy] // by record: of pages on devices
	callers  table[caller]   // by record: of adopted pages there
	pairs    pairTable       // by record: of pages in two places
	replicas replicas
	waiting  table[*Source] // by record: of pages whose bytes are still there
	shared   table[shared]  // by region: of memory of devices that the host reaches
	moved    [2]moved       // of pages in two places: to the host, to the device
}

// hostCopy is a copy of a page on a device: of which version it is on the device, and what the device had where somebody else may
// write there meanwhile.
type hostCopy struct {
	version uint64
	before  uint32 // region; 0 = none
}

// New makes the residency of a context that has no pages. Begin must follow.
func New(m *memory.Memory, devices Devices, options Options) *Residency {
	devices.OnLoss(options.DeviceLost)
	return &Residency{memory: m, devices: devices, options: options}
}

// Begin tells the residency its context's index and resolves the default location.
func (r *Residency) Begin(context uint32) (byDefault Placement, err error) {
	r.context, r.disk.context = context, context
	native.SetSimulated(context, false)
	if byDefault, err = r.Resolve(r.options.Default.Location, r.options.Default.Device); err == nil {
		r.options.Default = byDefault
	}
	return byDefault, err
}

// Resolve says where a page goes that is to lie at a location: there, where the fallback says, or nowhere.
func (r *Residency) Resolve(location, device int32) (Placement, error) {
	if byDefault := r.options.Default; location == abi.LocationDefault {
		if device != 0 && device != byDefault.Device {
			return Placement{}, status.Errorf(status.InvalidArgument, "device is %d, but the default location is on device %d",
				device, byDefault.Device)
		}
		location, device = byDefault.Location, byDefault.Device
	}
	switch location {
	case abi.LocationCPU, abi.LocationDisk:
		if device != 0 {
			return Placement{}, status.Errorf(status.InvalidArgument, "device is %d; it is 0 on the CPU and on disk", device)
		}
		return Placement{location, 0}, nil
	case abi.LocationGPU, abi.LocationUnified, abi.LocationPinned:
		if device < 0 {
			return Placement{}, status.Errorf(status.InvalidArgument, "device %d is negative", device)
		}
		err := r.devices.Check(location, device)
		switch {
		case err == nil:
			native.SetSimulated(r.context, r.devices.Simulated())
			return Placement{location, device}, nil
		case r.options.Fallback == abi.FallbackHost:
			return Placement{abi.LocationCPU, 0}, nil
		case r.options.Fallback == abi.FallbackSimulate && device < abi.DeviceStandIn:
			return r.Resolve(location, abi.DeviceStandIn+device)
		}
		return Placement{}, err
	}
	return Placement{}, status.Errorf(status.InvalidArgument, "%d is not a location", location)
}

// Devices are the context's.
func (r *Residency) Devices() Devices { return r.devices }

// DiskPath is the folder of the context's file.
func (r *Residency) DiskPath() string { return r.options.DiskPath }

// DiskUsed is the space that pages have in the context's file, without what is spare.
func (r *Residency) DiskUsed() uint64 { return r.disk.bytes() }

// Trim gives the file system the space of the context's file that no page has, and devices memory that they keep for pages.
func (r *Residency) Trim() {
	r.disk.trim()
	r.devices.Trim()
}

// Waiting is the number of pages that wait in a snapshot. Tests call it.
func (r *Residency) Waiting() int {
	r.waiting.Lock()
	defer r.waiting.Unlock()
	return len(r.waiting.of)
}

// End closes the context's file and its devices. The context's pages have ended.
func (r *Residency) End() {
	r.drop(r.replicas.all(every))
	r.disk.close()
	r.devices.End()
}

// FreeShared gives memory of a device back that the host reaches, and that is a region. Who has it next is told nothing.
func (r *Residency) FreeShared(number uint32) {
	of := r.shared.take(number)
	if of.Advice != NoAdvice {
		r.carryAdvice(of.Device, native.Bytes(native.Locator(number, 0), of.bytes), of.Advice, NoAdvice)
	}
	r.devices.FreeHost(of.Location, DeviceMemory{of.Device, region.Base(number), of.block})
}
