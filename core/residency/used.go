package residency

import (
	"libmmsb/core/abi"
	"libmmsb/core/region"
	"libmmsb/core/status"
	"libmmsb/native"
)

// Pages in pinned and managed memory that kernels of the program use: their memory is a block, too, in which uses leave what they
// have queued, as in that of a page on a device. From then on the page counts as not resident, so that each call asks for its
// bytes: these have their address when the device has done what ended uses have queued.

// HasBlock says whether the page of a state is one.
func HasBlock(state uint64) bool {
	return state&native.Nonresident != 0 && native.Class(state) == native.ClassDevice
}

// NeedsBlock says whether Block will make one of the locked page.
func (p *Page) NeedsBlock() bool {
	return p.Resident() && (p.Location() == abi.LocationPinned || p.Location() == abi.LocationUnified)
}

// sharedBlock is the memory of a locked page in memory of a device that the host reaches, with its block.
func (p *Page) sharedBlock() (memory DeviceMemory, err error) {
	number := native.LocatorRegion(p.Record.Locator)
	of := p.shared.get(number)
	if of.block == 0 {
		if of.block, err = p.devices.WrapHost(of.Device, region.Base(number), p.Record.Size); err != nil {
			return memory, err
		}
		p.shared.put(number, of)
	}
	p.State |= native.Nonresident
	return DeviceMemory{of.Device, region.Base(number), of.block}, nil
}

// settled returns when the device has done what it does with the bytes of the locked page, where the host has them, too.
func (p *Page) settled() error {
	if !HasBlock(p.State) {
		return nil
	}
	return p.awaitDevice(p.Index)
}

// awaitDevice returns when the host may touch the bytes of the locked page on a record, which has a block.
func (r *Residency) awaitDevice(index uint32) error {
	number := native.LocatorRegion(native.RecordAt(index).Locator)
	of := r.shared.get(number)
	return r.devices.AwaitHost(of.Location, DeviceMemory{of.Device, region.Base(number), of.block})
}

// lostInUse says whether a device that is lost has taken the bytes of the locked page with it: it may have changed them.
func (p *Page) lostInUse() bool {
	return status.CodeOf(p.settled()) == status.DeviceLost
}
