// Opening devices, and what they say of themselves.

package cuda

/*
#include "table.h"

#cgo noescape mmsb__cuda_open
#cgo noescape mmsb__cuda_memory_info
#cgo nocallback mmsb__cuda_memory_info
*/
import "C"

import (
	"sync"
	"sync/atomic"
	"unsafe"

	"libmmsb/core/status"
	"libmmsb/gpu/driver"
)

// device is one device with what of it is alive.
type device struct {
	driver *Driver
	c      *C.mmsb__cuda_device_t
	info   driver.Info
	// Memory that is registered has the same address for the device.
	registeredInPlace bool

	lost atomic.Pointer[status.Error]

	memory  memory
	virtual virtual

	streams registry
	foreign sync.Mutex

	modules   registry
	functions sync.Map // uintptr: *object, the function's module
}

// open opens a device whose place in the driver's list is held.
func (d *Driver) open(ordinal int) (*device, error) {
	opened := &device{driver: d, info: driver.Info{Ordinal: ordinal}}
	var info C.mmsb__cuda_info_t
	if outcome := C.mmsb__cuda_open(d.table, C.int(ordinal), &opened.c, &info); outcome.code != C.CUDA_SUCCESS {
		return nil, opened.failed(outcome, "cannot be opened")
	}
	for _, other := range d.devices {
		if other == nil || other.alive() != nil {
			continue
		}
		if outcome := C.mmsb__cuda_share_pools(opened.c, other.c); outcome.code != C.CUDA_SUCCESS {
			err := opened.failed(outcome, "cannot enable access to device %d", other.info.Ordinal)
			C.mmsb__cuda_close(opened.c)
			return nil, err
		}
	}
	opened.info = driver.Info{
		Name:            C.GoString(&info.name[0]),
		Ordinal:         ordinal,
		UUID:            *(*[16]byte)(unsafe.Pointer(&info.uuid)),
		PCI:             C.GoString(&info.pci[0]),
		Bytes:           uint64(info.bytes),
		Major:           int(info.major),
		Minor:           int(info.minor),
		Multiprocessors: int(info.multiprocessors),
		NUMANode:        int(info.numa_node),
		OrderedMemory:   info.pools != 0,
		ManagedMemory:   info.managed != 0,
		ManagedHints:    info.managed != 0 && info.managed_hints != 0,
		VirtualMemory:   info.virtual_memory != 0,
		Granularity:     uint64(info.granularity),
	}
	opened.registeredInPlace = info.registered_in_place != 0
	return opened, nil
}

// Info is what the device is.
func (d *device) Info() driver.Info { return d.info }

// Handle is the CUcontext.
func (d *device) Handle() uintptr { return uintptr(unsafe.Pointer(d.c.context)) }

// CanReach asks the driver; every pool is shared with the devices that can.
func (d *device) CanReach(ordinal int) bool {
	if ordinal < 0 || ordinal >= d.driver.Count() || d.alive() != nil {
		return false
	}
	return ordinal == d.info.Ordinal || C.mmsb__cuda_can_reach(d.c, C.int(ordinal)) != 0
}

// MemoryInfo is what the driver says.
func (d *device) MemoryInfo() (uint64, uint64, error) {
	if err := d.alive(); err != nil {
		return 0, 0, err
	}
	var free, total C.size_t
	if outcome := C.mmsb__cuda_memory_info(d.c, &free, &total); outcome.code != C.CUDA_SUCCESS {
		return 0, 0, d.failed(outcome, "cannot query free memory")
	}
	return uint64(free), uint64(total), nil
}
