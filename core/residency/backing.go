package residency

import (
	"libmmsb/core/abi"
	"libmmsb/native"
)

// Backing is where the bytes of a page lie that is not resident: in the context's file, or in memory of a device.
type Backing struct {
	at, length uint64 // in the file, or from an address of the device on
	block      uint64 // of the device; 0 = they are in the file
	device     int32
}

// backingOf is the backing of a page; empty for one that is resident.
func backingOf(side *native.Side) Backing {
	b := Backing{at: side.BackingAt, length: side.BackingLength}
	if b.length > 0 {
		b.block, b.device = uint64(side.User), side.Device
	}
	return b
}

// note writes it into the page's side record.
func (b Backing) note(side *native.Side) {
	side.BackingAt, side.BackingLength = b.at, b.length
	if side.Release == 0 { // else the memory is the caller's on the host, and so is the word
		side.User = uintptr(b.block)
	}
	side.Device = b.device
}

func (b Backing) memory() DeviceMemory { return DeviceMemory{b.device, b.address(), b.block} }

// await returns when the program's uses of a page on a device are done, before it is read or written there.
func (r *Residency) await(b Backing, write bool) error {
	if !b.onDevice() {
		return nil
	}
	return r.devices.Await(write, b.memory())
}

func (b Backing) empty() bool      { return b.length == 0 }
func (b Backing) onDevice() bool   { return b.block != 0 }
func (b Backing) address() uintptr { return uintptr(b.at) }

// takeBacking takes space at a placement; where it is not to be zeroed, it may have bytes of the context's pages.
func (r *Residency) takeBacking(p Placement, size uint64, zeroed bool) (Backing, error) {
	if p.Location == abi.LocationGPU {
		taken, err := r.devices.Allocate(p.Device, size, zeroed)
		return Backing{at: uint64(taken.Address), length: size, block: taken.Block, device: p.Device}, err
	}
	at, length, err := r.disk.take(r.options.DiskPath, size, zeroed)
	return Backing{at: at, length: length, device: p.Device}, err
}

// giveBacking gives such space back.
func (r *Residency) giveBacking(b Backing) {
	switch {
	case b.empty():
	case b.onDevice():
		r.devices.Free(b.memory())
	default:
		r.disk.give(b.at, b.length)
	}
}

func (r *Residency) writeBacking(b Backing, offset uint64, bytes []byte) error {
	if err := r.await(b, true); err != nil {
		return err
	}
	if b.onDevice() {
		return r.devices.Write(b.device, b.address()+uintptr(offset), bytes)
	}
	return r.disk.write(b.at+offset, bytes)
}

func (r *Residency) readBacking(b Backing, offset uint64, to []byte) error {
	if err := r.await(b, false); err != nil {
		return err
	}
	if b.onDevice() {
		return r.devices.Read(b.device, b.address()+uintptr(offset), to)
	}
	return r.disk.read(b.at+offset, to)
}
