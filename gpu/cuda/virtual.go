// Reserved addresses, and physical memory that is mapped at them.

package cuda

/*
#include "table.h"

#cgo noescape mmsb__cuda_reserve
#cgo noescape mmsb__cuda_create_physical
#cgo noescape mmsb__cuda_map
*/
import "C"

import (
	"math"
	"sync"
	"unsafe"

	"libmmsb/core/status"
	"libmmsb/gpu/driver"
)

// virtual knows addresses that are reserved, memory without an address, and what is mapped where. These calls are slow and rare:
// one lock is held over each.
type virtual struct {
	mutex    sync.Mutex
	reserved map[driver.Address]uint64 // bytes
	physical map[driver.Physical]uint64
	mapped   map[driver.Address]uint64 // by each multiple of the granularity: bytes where a mapping begins, 0 within it
}

// lockVirtual locks what a call on virtual memory needs, after the checks they all begin with.
func (d *device) lockVirtual() error {
	if err := d.alive(); err != nil {
		return err
	}
	if !d.info.VirtualMemory {
		return d.refuse(status.Unsupported, "virtual memory management is not supported")
	}
	d.virtual.mutex.Lock()
	if d.virtual.reserved == nil {
		d.virtual.reserved = map[driver.Address]uint64{}
		d.virtual.physical = map[driver.Physical]uint64{}
		d.virtual.mapped = map[driver.Address]uint64{}
	}
	return nil
}

// whole says whether bytes is a size that can be mapped.
func (d *device) whole(bytes uint64) error {
	if bytes == 0 || bytes > math.MaxInt64 || bytes%d.info.Granularity != 0 {
		return d.refuse(status.InvalidArgument, "%d bytes are not a multiple of the granularity of %d", bytes, d.info.Granularity)
	}
	return nil
}

// Reserve takes addresses.
func (d *device) Reserve(bytes uint64) (driver.Address, error) {
	if err := d.lockVirtual(); err != nil {
		return 0, err
	}
	defer d.virtual.mutex.Unlock()
	if err := d.whole(bytes); err != nil {
		return 0, err
	}
	var address C.uintptr_t
	if outcome := C.mmsb__cuda_reserve(d.c, C.size_t(bytes), &address); outcome.code != C.CUDA_SUCCESS {
		return 0, d.failed(outcome, "cannot reserve %d bytes of addresses", bytes)
	}
	d.virtual.reserved[driver.Address(address)] = bytes
	return driver.Address(address), nil
}

// Release gives back the whole of what Reserve took.
func (d *device) Release(address driver.Address, bytes uint64) error {
	if err := d.lockVirtual(); err != nil {
		return err
	}
	defer d.virtual.mutex.Unlock()
	if bytes == 0 || d.virtual.reserved[address] != bytes {
		return d.refuse(status.InvalidArgument, "%d bytes at %#x were not reserved", bytes, address)
	}
	for mapped := range d.virtual.mapped {
		if mapped-address < driver.Address(bytes) {
			return d.refuse(status.InvalidArgument, "memory is mapped at %#x in the %d bytes reserved at %#x", mapped, bytes,
				address)
		}
	}
	if outcome := C.mmsb__cuda_release(d.c, C.uintptr_t(address), C.size_t(bytes)); outcome.code != C.CUDA_SUCCESS {
		return d.failed(outcome, "cannot release %d bytes of addresses at %#x", bytes, address)
	}
	delete(d.virtual.reserved, address)
	return nil
}

// CreatePhysical takes memory of the device.
func (d *device) CreatePhysical(bytes uint64) (driver.Physical, error) {
	if err := d.lockVirtual(); err != nil {
		return 0, err
	}
	defer d.virtual.mutex.Unlock()
	if err := d.whole(bytes); err != nil {
		return 0, err
	}
	var physical C.uint64_t
	if outcome := C.mmsb__cuda_create_physical(d.c, C.size_t(bytes), &physical); outcome.code != C.CUDA_SUCCESS {
		return 0, d.failed(outcome, "cannot allocate %d bytes of physical memory", bytes)
	}
	d.virtual.physical[driver.Physical(physical)] = bytes
	return driver.Physical(physical), nil
}

// DestroyPhysical gives it back; where it is mapped it stays.
func (d *device) DestroyPhysical(physical driver.Physical) error {
	if err := d.lockVirtual(); err != nil {
		return err
	}
	defer d.virtual.mutex.Unlock()
	bytes, known := d.virtual.physical[physical]
	if !known {
		return d.refuse(status.InvalidHandle, "%#x is not physical memory", physical)
	}
	if outcome := C.mmsb__cuda_destroy_physical(d.c, C.uint64_t(physical)); outcome.code != C.CUDA_SUCCESS {
		return d.failed(outcome, "cannot release %d bytes of physical memory", bytes)
	}
	delete(d.virtual.physical, physical)
	return nil
}

// Map maps memory at addresses that are reserved and have none yet.
func (d *device) Map(address driver.Address, peers bool, memory ...driver.Physical) error {
	if err := d.lockVirtual(); err != nil {
		return err
	}
	defer d.virtual.mutex.Unlock()
	handles, lengths, total := make([]C.uint64_t, len(memory)), make([]C.size_t, len(memory)), uint64(0)
	for i, physical := range memory {
		bytes, known := d.virtual.physical[physical]
		if !known {
			return d.refuse(status.InvalidHandle, "%#x is not physical memory", physical)
		}
		if bytes > math.MaxInt64-total {
			return d.refuse(status.InvalidArgument, "cannot map %d and %d bytes together: they exceed 2^63-1", total, bytes)
		}
		handles[i], lengths[i], total = C.uint64_t(physical), C.size_t(bytes), total+bytes
	}
	if uint64(address)%d.info.Granularity != 0 || !d.virtual.covers(address, total) {
		return d.refuse(status.InvalidArgument, "%d bytes at %#x are not within reserved addresses, in multiples of %d",
			total, address, d.info.Granularity)
	}
	if total == 0 {
		return nil
	}
	granules := func(each func(at driver.Address)) {
		for at := address; at < address+driver.Address(total); at += driver.Address(d.info.Granularity) {
			each(at)
		}
	}
	taken := driver.Address(0)
	granules(func(at driver.Address) {
		if _, is := d.virtual.mapped[at]; is && taken == 0 {
			taken = at
		}
	})
	if taken != 0 {
		return d.refuse(status.InvalidArgument, "cannot map %d bytes at %#x: memory is mapped at %#x", total, address, taken)
	}
	others := 0
	if peers {
		others = d.driver.Count()
	}
	if outcome := C.mmsb__cuda_map(d.c, C.uintptr_t(address), unsafe.SliceData(handles), unsafe.SliceData(lengths),
		C.size_t(len(memory)), C.int(others)); outcome.code != C.CUDA_SUCCESS {
		return d.failed(outcome, "cannot map %d bytes at %#x", total, address)
	}
	granules(func(at driver.Address) { d.virtual.mapped[at] = 0 })
	for at, i := address, 0; i < len(lengths); at, i = at+driver.Address(lengths[i]), i+1 {
		d.virtual.mapped[at] = uint64(lengths[i])
	}
	return nil
}

// covers says whether all those addresses were reserved together.
func (v *virtual) covers(address driver.Address, bytes uint64) bool {
	for start, length := range v.reserved {
		if address >= start && uint64(address-start) <= length && bytes <= length-uint64(address-start) {
			return true
		}
	}
	return false
}

// Unmap takes away the whole of what Map mapped.
func (d *device) Unmap(address driver.Address) error {
	if err := d.lockVirtual(); err != nil {
		return err
	}
	defer d.virtual.mutex.Unlock()
	bytes := d.virtual.mapped[address]
	if bytes == 0 {
		return d.refuse(status.InvalidArgument, "nothing is mapped at %#x", address)
	}
	if outcome := C.mmsb__cuda_unmap(d.c, C.uintptr_t(address), C.size_t(bytes)); outcome.code != C.CUDA_SUCCESS {
		return d.failed(outcome, "cannot unmap %d bytes at %#x", bytes, address)
	}
	for offset := uint64(0); offset < bytes; offset += d.info.Granularity {
		delete(d.virtual.mapped, address+driver.Address(offset))
	}
	return nil
}
