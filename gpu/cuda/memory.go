// Memory with an address: plain, pinned, managed, registered, stream-ordered.

package cuda

/*
#include "table.h"

#cgo noescape mmsb__cuda_allocate
#cgo noescape mmsb__cuda_allocate_pinned
#cgo noescape mmsb__cuda_allocate_managed
#cgo noescape mmsb__cuda_allocate_ordered
#cgo nocallback mmsb__cuda_allocate_ordered
#cgo nocallback mmsb__cuda_free_ordered
*/
import "C"

import (
	"math"
	"slices"
	"sync"

	"libmmsb/core/status"
	"libmmsb/gpu/driver"
)

// use is what an address was taken for, and so how it is given back.
type use uint8

const (
	plain      = use(driver.Plain)
	pinned     = use(driver.Pinned)
	managed    = use(driver.Managed)
	ordered    = managed + 1
	registered = managed + 2
)

var useNames = [...]string{"plain", "pinned", "managed", "stream-ordered", "registered"}

type taken struct {
	use     use
	address driver.Address
}

// memory knows what was taken from the device. The driver frees memory of others just as well, and what one call took by another
// one.
type memory struct {
	mutex sync.Mutex
	bytes map[taken]uint64
}

func (m *memory) add(use use, address driver.Address, bytes uint64) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	if m.bytes == nil {
		m.bytes = map[taken]uint64{}
	}
	m.bytes[taken{use, address}] = bytes
}

// take removes what is to be given back, before the driver can hand out its address anew.
func (m *memory) take(use use, address driver.Address) (uint64, bool) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	bytes, known := m.bytes[taken{use, address}]
	delete(m.bytes, taken{use, address})
	return bytes, known
}

// giveBack takes memory of a use out of the registry and calls free with it; where that fails it is put back.
func (d *device) giveBack(use use, address driver.Address, free func() C.mmsb__cuda_outcome_t) error {
	if err := d.alive(); err != nil {
		return err
	}
	bytes, known := d.memory.take(use, address)
	if !known {
		return d.refuse(status.InvalidArgument, "%#x is not %s memory of this device", address, useNames[use])
	}
	if outcome := free(); outcome.code != C.CUDA_SUCCESS {
		d.memory.add(use, address, bytes)
		return d.failed(outcome, "cannot free %d bytes of %s memory at %#x", bytes, useNames[use], address)
	}
	return nil
}

// mayTake refuses sizes that cannot be.
func (d *device) mayTake(use use, bytes uint64) error {
	if err := d.alive(); err != nil {
		return err
	}
	if bytes == 0 {
		return d.refuse(status.InvalidArgument, "size of %s memory is 0, at least 1 byte is needed", useNames[use])
	}
	if bytes > math.MaxInt64 {
		return d.refuse(status.OutOfMemory, "%d bytes of %s memory exceed 2^63-1", bytes, useNames[use])
	}
	return nil
}

// Allocate takes memory. Pinned memory is known to all contexts.
func (d *device) Allocate(kind driver.Memory, bytes uint64) (driver.Address, error) {
	if kind > driver.Managed {
		return 0, d.refuse(status.InvalidArgument, "memory kind %d does not exist", kind)
	}
	if err := d.mayTake(use(kind), bytes); err != nil {
		return 0, err
	}
	var outcome C.mmsb__cuda_outcome_t
	var address C.uintptr_t
	switch kind {
	case driver.Plain:
		outcome = C.mmsb__cuda_allocate(d.c, C.size_t(bytes), &address)
	case driver.Pinned:
		outcome = C.mmsb__cuda_allocate_pinned(d.c, C.size_t(bytes), &address)
	case driver.Managed:
		if !d.info.ManagedMemory {
			return 0, d.refuse(status.Unsupported, "managed memory is not supported")
		}
		outcome = C.mmsb__cuda_allocate_managed(d.c, C.size_t(bytes), &address)
	}
	if outcome.code != C.CUDA_SUCCESS {
		return 0, d.failed(outcome, "cannot allocate %d bytes of %s memory", bytes, useNames[kind])
	}
	d.memory.add(use(kind), driver.Address(address), bytes)
	return driver.Address(address), nil
}

// Free gives back what Allocate took.
func (d *device) Free(kind driver.Memory, address driver.Address) error {
	if kind > driver.Managed {
		return d.refuse(status.InvalidArgument, "memory kind %d does not exist", kind)
	}
	return d.giveBack(use(kind), address, func() C.mmsb__cuda_outcome_t {
		if kind == driver.Pinned {
			return C.mmsb__cuda_free_pinned(d.c, C.uintptr_t(address))
		}
		return C.mmsb__cuda_free(d.c, C.uintptr_t(address))
	})
}

// holds says whether memory that was taken has all of a range.
func (m *memory) holds(use use, address driver.Address, bytes uint64) bool {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	for t, length := range m.bytes {
		if offset := uint64(address - t.address); t.use == use && offset <= length && bytes <= length-offset {
			return true
		}
	}
	return false
}

// mayHint refuses what is not managed memory of the device.
func (d *device) mayHint(address driver.Address, bytes uint64) error {
	switch {
	case !d.info.ManagedHints:
		return d.refuse(status.Unsupported, "the host and the device cannot use managed memory at the same time")
	case !d.driver.manages(address, bytes):
		return d.refuse(status.InvalidArgument, "%d bytes at %#x are not managed memory", bytes, address)
	}
	return nil
}

// manages says whether a range is managed memory of any of the devices: all of them can have it.
func (d *Driver) manages(address driver.Address, bytes uint64) bool {
	d.opening.Lock()
	devices := slices.Clone(d.devices)
	d.opening.Unlock()
	return slices.ContainsFunc(devices, func(of *device) bool {
		return of != nil && of.memory.holds(managed, address, bytes)
	})
}

// Prefetch queues moving managed memory.
func (d *device) Prefetch(stream driver.Stream, address driver.Address, bytes uint64, toHost bool) error {
	held, err := d.holdStream(stream)
	if err != nil {
		return err
	}
	defer held.release()
	if err := d.mayHint(address, bytes); err != nil || bytes == 0 {
		return err
	}
	to := C.int(d.info.Ordinal)
	if toHost {
		to = -1
	}
	outcome := C.mmsb__cuda_prefetch(d.c, C.uintptr_t(stream), C.uintptr_t(address), C.size_t(bytes), to)
	if outcome.code != C.CUDA_SUCCESS {
		return d.failed(outcome, "cannot prefetch %d bytes at %#x", bytes, address)
	}
	return nil
}

// Holds says whether an address is one of the device's memory.
func (d *device) Holds(address driver.Address) (bool, error) {
	if err := d.alive(); err != nil {
		return false, err
	}
	var ordinal C.int
	outcome := C.mmsb__cuda_holder(d.c, C.uintptr_t(address), &ordinal)
	if outcome.code != C.CUDA_SUCCESS {
		return false, d.failed(outcome, "cannot ask whose memory address %#x is", address)
	}
	return int(ordinal) == d.info.Ordinal, nil
}

// Advise tells of the use of managed memory.
func (d *device) Advise(address driver.Address, bytes uint64, advice driver.Advice) error {
	if err := d.alive(); err != nil {
		return err
	}
	if !driver.IsAdvice(advice) {
		return d.refuse(status.InvalidArgument, "advice %d does not exist", advice)
	}
	if err := d.mayHint(address, bytes); err != nil || bytes == 0 {
		return err
	}
	number, of := C.int(C.CU_MEM_ADVISE_SET_PREFERRED_LOCATION), C.int(d.info.Ordinal)
	switch advice {
	case driver.ReadMostly:
		number = C.CU_MEM_ADVISE_SET_READ_MOSTLY
	case driver.NotReadMostly:
		number = C.CU_MEM_ADVISE_UNSET_READ_MOSTLY
	case driver.PreferHost:
		of = -1
	case driver.PreferNowhere:
		number = C.CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION
	}
	outcome := C.mmsb__cuda_advise(d.c, C.uintptr_t(address), C.size_t(bytes), number, of)
	if outcome.code != C.CUDA_SUCCESS {
		return d.failed(outcome, "cannot advise %d bytes at %#x", bytes, address)
	}
	return nil
}

// Register pins host memory.
func (d *device) Register(address driver.Address, bytes uint64) error {
	if err := d.alive(); err != nil {
		return err
	}
	if !inside(address, bytes) {
		return d.refuse(status.InvalidArgument, "cannot register %d bytes at %#x: they pass the last address", bytes, address)
	}
	if !d.registeredInPlace {
		return d.refuse(status.Unsupported, "cannot register memory: its address on the device would differ")
	}
	if outcome := C.mmsb__cuda_register(d.c, C.uintptr_t(address), C.size_t(bytes)); outcome.code != C.CUDA_SUCCESS {
		return d.failed(outcome, "cannot register %d bytes at %#x", bytes, address)
	}
	d.memory.add(registered, address, bytes)
	return nil
}

// Unregister ends what Register began.
func (d *device) Unregister(address driver.Address) error {
	return d.giveBack(registered, address, func() C.mmsb__cuda_outcome_t {
		return C.mmsb__cuda_unregister(d.c, C.uintptr_t(address))
	})
}

// mayOrder refuses calls on stream-ordered memory where there is none.
func (d *device) mayOrder() error {
	if err := d.alive(); err != nil {
		return err
	}
	if !d.info.OrderedMemory {
		return d.refuse(status.Unsupported, "stream-ordered memory is not supported")
	}
	return nil
}

// AllocateOrdered takes memory from the device's pool.
func (d *device) AllocateOrdered(stream driver.Stream, bytes uint64) (driver.Address, error) {
	if err := d.mayOrder(); err != nil {
		return 0, err
	}
	if err := d.mayTake(ordered, bytes); err != nil {
		return 0, err
	}
	held, err := d.holdStream(stream)
	if err != nil {
		return 0, err
	}
	defer held.release()
	var address C.uintptr_t
	if outcome := C.mmsb__cuda_allocate_ordered(d.c, C.uintptr_t(stream), C.size_t(bytes),
		&address); outcome.code != C.CUDA_SUCCESS {
		return 0, d.failed(outcome, "cannot allocate %d bytes of stream-ordered memory", bytes)
	}
	d.memory.add(ordered, driver.Address(address), bytes)
	return driver.Address(address), nil
}

// FreeOrdered gives memory back to the pool.
func (d *device) FreeOrdered(stream driver.Stream, address driver.Address) error {
	if err := d.mayOrder(); err != nil {
		return err
	}
	held, err := d.holdStream(stream)
	if err != nil {
		return err
	}
	defer held.release()
	return d.giveBack(ordered, address, func() C.mmsb__cuda_outcome_t {
		return C.mmsb__cuda_free_ordered(d.c, C.uintptr_t(stream), C.uintptr_t(address))
	})
}

// TrimOrdered makes the pool smaller.
func (d *device) TrimOrdered(keep uint64) error {
	if err := d.mayOrder(); err != nil {
		return err
	}
	return d.check(C.mmsb__cuda_trim_ordered(d.c, C.size_t(keep)), "cannot trim the pool to %d bytes", keep)
}
