package residency

import (
	"libmmsb/core/abi"
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
