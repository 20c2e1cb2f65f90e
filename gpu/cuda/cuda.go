// Package cuda is NVIDIA's devices: their driver library, libcuda.so.1, loaded at run time.
//
// No CUDA file is needed to build and none to load this package: abi.h declares what is called, and the functions are found when
// the library is. A device's primary context is kept for as long as the process lives. Every call makes it current for its own
// length only, and nothing that the rest of the process could see is changed: no flags and limits of contexts, no peers, no
// setting of a default pool.
//
// The driver may crash when it is given a handle that is none, so those that are alive are known here; memory, too, where the
// driver would take what is not meant.
package cuda

/*
#cgo CFLAGS: -std=gnu11 -O2 -Wall
#cgo linux LDFLAGS: -ldl
#include <stdlib.h>
#include "table.h"
*/
import "C"

import (
	"fmt"
	"strings"
	"sync"
	"unsafe"

	"libmmsb/core/environment"
	"libmmsb/core/status"
	"libmmsb/gpu/driver"
)

// libraryName is what CUDA's own programs look for; LD_LIBRARY_PATH can put another one in its place.
const libraryName = "libcuda.so.1"

// Driver is a driver library that was loaded.
type Driver struct {
	table *C.mmsb__cuda_table_t

	opening sync.Mutex
	devices []*device // by ordinal; nil until it is opened. Written under opening

	// Of all devices, because a stream may wait for the event of another one.
	events registry
}

var loading struct {
	sync.Mutex
	driver *Driver
}

// Load returns the process' driver, which it loads at the first call. One that fails may be called again.
//
// Errors: NoDevice where there is no driver library, or it finds no device, or is the stub that is made to link with; Device with
// the reason where there is one that does not work, or that is too old.
func Load() (*Driver, error) {
	loading.Lock()
	defer loading.Unlock()
	if loading.driver == nil {
		loaded, err := load(libraryName)
		if err != nil {
			return nil, err
		}
		loading.driver = loaded
	}
	return loading.driver, nil
}

func load(library string) (*Driver, error) {
	name := C.CString(library)
	defer C.free(unsafe.Pointer(name))
	var table *C.mmsb__cuda_table_t
	var reason [512]C.char
	outcome := C.mmsb__cuda_load(name, &table, &reason[0], C.size_t(len(reason)))
	switch outcome.code {
	case C.CUDA_SUCCESS:
		if table.devices == 0 {
			return nil, status.Errorf(status.NoDevice, "%s found no device%s", library, visibleDevices())
		}
		return &Driver{table: table, devices: make([]*device, table.devices)}, nil
	case C.MMSB__CUDA_NO_MEMORY:
		return nil, status.Errorf(status.OutOfMemory, "cannot allocate the table of %s", library)
	}
	err := loadError(library, table, outcome, C.GoString(&reason[0]))
	C.free(unsafe.Pointer(table))
	return nil, err
}

// loadError tells a machine that has no device from one whose driver is broken: the first may be simulated, the second never.
func loadError(library string, table *C.mmsb__cuda_table_t, outcome C.mmsb__cuda_outcome_t, reason string) error {
	switch outcome.code {
	case C.MMSB__CUDA_NO_LIBRARY:
		// The loader begins with the name that it was given only where it found no file of that name at all.
		if strings.HasPrefix(reason, library+": ") {
			path, set := environment.Lookup("LD_LIBRARY_PATH")
			if !set {
				path = "not set"
			}
			return status.Errorf(status.NoDevice, "no NVIDIA driver: %s is not in LD_LIBRARY_PATH (%s), "+
				"the loader's cache or the system's folders: %s", library, path, reason)
		}
		return status.Errorf(status.Device, "cannot load %s: %s", library, reason)
	case C.MMSB__CUDA_TOO_OLD:
		return status.Errorf(status.Device, "the driver has CUDA %s; CUDA %s (driver 525) or newer is needed, "+
			"CUDA %s (driver 580) for the kernels",
			version(int(table.version)), version(C.MMSB__CUDA_OLDEST_VERSION), version(kernelVersion))
	case C.MMSB__CUDA_NO_FUNCTION:
		return status.Errorf(status.Device, "%s lacks the function %s, which a driver of CUDA %s has (this one says CUDA %s)",
			library, C.GoString(outcome.call), version(C.MMSB__CUDA_OLDEST_VERSION), version(int(table.version)))
	}
	failed := &status.Error{Code: status.Device, Domain: status.DomainCUDA, Foreign: int32(outcome.code)}
	failed.Text = fmt.Sprintf("%s cannot be initialised: %s", library, describe(table, outcome))
	switch outcome.code {
	case C.CUDA_ERROR_NO_DEVICE:
		failed.Code = status.NoDevice
		failed.Text += visibleDevices()
	case C.CUDA_ERROR_STUB_LIBRARY:
		failed.Code = status.NoDevice
		failed.Text += "; a stub only serves to link programs"
	}
	return failed
}

// version makes "12.4" of 12040.
func version(number int) string { return fmt.Sprintf("%d.%d", number/1000, number%1000/10) }

// visibleDevices names the variable by which devices are most often hidden.
func visibleDevices() string {
	if devices, set := environment.Lookup("CUDA_VISIBLE_DEVICES"); set {
		return fmt.Sprintf(" (CUDA_VISIBLE_DEVICES is %q)", devices)
	}
	return ""
}

// Name is "cuda".
func (d *Driver) Name() string { return "cuda" }

// Version is the CUDA version of the driver, like 13000 for 13.0.
func (d *Driver) Version() int { return int(d.table.version) }

// Count is the number of devices.
func (d *Driver) Count() int { return len(d.devices) }

// Open returns a device. The first call makes or joins its primary context.
func (d *Driver) Open(ordinal int) (driver.Device, error) {
	if ordinal < 0 || ordinal >= len(d.devices) {
		return nil, status.Errorf(status.NoDevice, "device %d does not exist, the driver has %d", ordinal, len(d.devices))
	}
	d.opening.Lock()
	defer d.opening.Unlock()
	if opened := d.devices[ordinal]; opened != nil {
		return opened, nil
	}
	opened, err := d.open(ordinal)
	if err != nil {
		return nil, err
	}
	d.devices[ordinal] = opened
	return opened, nil
}
