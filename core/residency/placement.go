package residency

import (
	"libmmsb/core/abi"
	"libmmsb/core/status"
	"libmmsb/native"
)

// Placement is where a page lies or is to lie: a location, and the number of a device there.
type Placement struct{ Location, Device int32 }

// resident says whether the bytes have an address of the host.
func (p Placement) resident() bool {
	return p.Location != abi.LocationGPU && p.Location != abi.LocationDisk
}

// bits are those of a state that say so.
func (p Placement) bits() uint64 {
	low := uint64(p.Location) << native.LocationShift
	if !p.resident() {
		low |= native.Nonresident
	}
	return low
}

// Resolve says where a page goes that is to lie at a location: there, on the host instead, or nowhere.
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
		case r.options.FallbackHost:
			return Placement{abi.LocationCPU, 0}, nil
		}
		return Placement{}, err
	}
	return Placement{}, status.Errorf(status.InvalidArgument, "%d is not a location", location)
}
