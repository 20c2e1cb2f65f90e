package residency

import (
	"libmmsb/core/abi"
	"libmmsb/core/memory"
	"libmmsb/native"
)

// Frame is what a page is made of: a record with the page's memory, and the backing of a page that is not resident.
type Frame struct {
	Index   uint32
	Backing Backing
	Low     uint64 // bits of the page's state that say where it lies
}

// Take takes a frame at a placement; of a NUMA node, unless that is -1. Where it is not to be zeroed, it may have bytes of the
// context's ended pages.
func (r *Residency) Take(to Placement, size uint64, node int32, zeroed bool) (Frame, error) {
	switch {
	case !to.resident():
		return r.takeNonresident(to, size, zeroed)
	case to.Location != abi.LocationCPU:
		return r.takeShared(to, size)
	}
	index, err := r.memory.TakePage(size, node, zeroed)
	return Frame{Index: index}, err
}

// takeNonresident takes backing, and a record without memory.
func (r *Residency) takeNonresident(to Placement, size uint64, zeroed bool) (Frame, error) {
	backing, err := r.takeBacking(to, size, zeroed)
	if err != nil {
		return Frame{}, err
	}
	return r.takeRecord(to, backing)
}

// takeRecord takes a record without memory for backing, which it gives back after an error.
func (r *Residency) takeRecord(to Placement, backing Backing) (Frame, error) {
	index, err := r.memory.TakeBare()
	if err != nil {
		r.giveBacking(backing)
		return Frame{}, err
	}
	return Frame{index, backing, to.bits()}, nil
}

// takeShared takes zeroed memory of a device that the host reaches at its address, and a record that has it.
func (r *Residency) takeShared(to Placement, size uint64) (Frame, error) {
	size = memory.RoundUp(size)
	address, err := r.devices.AllocateHost(to.Location, to.Device, size)
	if err != nil {
		return Frame{}, err
	}
	index, err := r.memory.Adopt(address, size, native.ClassDevice)
	if err != nil {
		r.devices.FreeHost(to.Location, DeviceMemory{Device: to.Device, Address: address})
		return Frame{}, err
	}
	r.shared.put(native.LocatorRegion(native.RecordAt(index).Locator), shared{Placement: to, bytes: size, Advice: NoAdvice})
	return Frame{index, Backing{device: to.Device}, to.bits()}, nil
}

// TakeOver takes a frame over memory of a device that is the program's. What a stream of the driver's has queued by now comes
// before; 0 is no stream. Errors: InvalidArgument, those of the devices.
func (r *Residency) TakeOver(to Placement, address uintptr, size uint64, stream uintptr) (Frame, error) {
	memory, err := r.devices.Adopt(to.Device, address, size, stream)
	if err != nil {
		return Frame{}, err
	}
	return r.takeRecord(to, Backing{at: uint64(memory.Address), length: size, block: memory.Block, device: memory.Device})
}

// Holder is the device that has memory of an address. Errors: InvalidArgument, NoDevice, those of the devices.
func (r *Residency) Holder(address uintptr) (device int32, err error) {
	if err := r.devices.Check(abi.LocationGPU, 0); err != nil {
		return 0, err
	}
	return r.devices.Holder(address)
}

// Read reads the bytes of a frame from an offset on.
func (r *Residency) Read(f Frame, offset uint64, to []byte) error {
	if !f.Resident() {
		return r.readBacking(f.Backing, offset, to)
	}
	copy(to, native.Bytes(native.RecordAt(f.Index).Locator+offset, uint64(len(to))))
	return nil
}

// ExpectWaiting makes space for so many pages that wait.
func (r *Residency) ExpectWaiting(pages uint64) { r.waiting.expect(pages) }

// TakeWaiting takes frames for pages that are to lie at one placement and wait in a snapshot until they are needed. They are like
// the one that it returns.
func (r *Residency) TakeWaiting(to Placement, source *Source, indices []uint32) (like Frame, err error) {
	if err := r.memory.TakeAllBare(indices); err != nil {
		return Frame{}, err
	}
	source.users.Add(int32(len(indices)))
	r.waiting.putAll(indices, source)
	return Frame{Backing: Backing{device: to.Device}, Low: to.bits() | native.Nonresident}, nil
}

// Give gives back a frame that did not become a page.
func (r *Residency) Give(f Frame) {
	r.waiting.take(f.Index).Done()
	if f.Backing.onDevice() {
		r.callers.take(f.Index)
	}
	r.giveBytes(f.Index, f.Backing) // a replay may have given the bytes an address
	r.memory.Give(f.Index)
}

// Note writes into the side record of the page that a frame becomes where its bytes lie.
func (f Frame) Note(side *native.Side) { f.Backing.note(side) }

// Plain says whether a page of the frame needs no side record to say where it lies.
func (f Frame) Plain() bool { return f.Backing == Backing{} }

// Resident says whether the frame's bytes have an address of the host.
func (f Frame) Resident() bool { return f.Backing.empty() }

// FrameOf is the frame of a record that is not a page yet, but has a side record.
func FrameOf(index uint32) Frame {
	f := Frame{Index: index}
	if side := native.RecordAt(index).Side; side != 0 {
		f.Backing = backingOf(native.SideAt(side))
	}
	return f
}

// Write writes bytes into a frame from an offset on.
func (r *Residency) Write(f Frame, offset uint64, bytes []byte) error {
	if !f.Resident() {
		return r.writeBacking(f.Backing, offset, bytes)
	}
	copy(native.Bytes(native.RecordAt(f.Index).Locator+offset, uint64(len(bytes))), bytes)
	return nil
}

// WriteInSteps writes all bytes of a frame. asked, where it is not nil, is asked before each step, and ends it with its error.
func (r *Residency) WriteInSteps(f Frame, bytes []byte, asked func() error) error {
	return InSteps(uint64(len(bytes)), asked, func(begin, end uint64) error { return r.Write(f, begin, bytes[begin:end]) })
}

// InSteps does work on a number of bytes, some milliseconds' worth at a time.
func InSteps(count uint64, asked func() error, work func(begin, end uint64) error) error {
	const step = 16 << 20
	for begin := uint64(0); begin < count; begin += step {
		if asked != nil {
			if err := asked(); err != nil {
				return err
			}
		}
		if err := work(begin, min(count, begin+step)); err != nil {
			return err
		}
	}
	return nil
}
