// Copies, fills, modules and kernel launches.

package cuda

/*
#include <stdlib.h>
#include "table.h"

#cgo noescape mmsb__cuda_copy
#cgo nocallback mmsb__cuda_copy
#cgo nocallback mmsb__cuda_fill
#cgo noescape mmsb__cuda_load_module
#cgo noescape mmsb__cuda_function
#cgo noescape mmsb__cuda_launch
#cgo nocallback mmsb__cuda_launch
*/
import "C"

import (
	"bytes"
	"encoding/binary"
	"strings"
	"unsafe"

	"libmmsb/core/status"
	"libmmsb/gpu/driver"
)

// inside says whether bytes at an address are memory that can be.
func inside(address driver.Address, bytes uint64) bool {
	return address != 0 && bytes > 0 && uint64(address)+(bytes-1) >= uint64(address)
}

func overlap(c *driver.Copy) bool {
	return uint64(c.To-c.From) < c.Bytes || uint64(c.From-c.To) < c.Bytes
}

// Copy queues copies; several go to the driver in one call where it has one for that.
func (d *device) Copy(stream driver.Stream, copies ...driver.Copy) error {
	held, err := d.holdStream(stream)
	if err != nil {
		return err
	}
	defer held.release()
	for i := range copies {
		if c := &copies[i]; c.Bytes > 0 && (!inside(c.To, c.Bytes) || !inside(c.From, c.Bytes) || overlap(c)) {
			return d.refuse(status.InvalidArgument, "cannot copy %d bytes from %#x to %#x: they overlap or pass the last address",
				c.Bytes, c.From, c.To)
		}
	}
	if len(copies) == 0 {
		return nil
	}
	list := (*C.mmsb__cuda_copy_t)(unsafe.Pointer(unsafe.SliceData(copies)))
	if outcome := C.mmsb__cuda_copy(d.c, C.uintptr_t(stream), list, C.size_t(len(copies))); outcome.code != C.CUDA_SUCCESS {
		first := &copies[0]
		return d.failed(outcome, "cannot queue %d copies, the first of %d bytes from %#x to %#x", len(copies), first.Bytes,
			first.From, first.To)
	}
	return nil
}

// Both sides agree on what a copy looks like.
var _ = [1]struct{}{}[unsafe.Sizeof(driver.Copy{})-C.sizeof_mmsb__cuda_copy_t]

// Fill queues setting bytes.
func (d *device) Fill(stream driver.Stream, address driver.Address, value byte, bytes uint64) error {
	held, err := d.holdStream(stream)
	if err != nil {
		return err
	}
	defer held.release()
	if bytes == 0 {
		return nil
	}
	if !inside(address, bytes) {
		return d.refuse(status.InvalidArgument, "cannot fill %d bytes at %#x: they pass the last address", bytes, address)
	}
	outcome := C.mmsb__cuda_fill(d.c, C.uintptr_t(stream), C.uintptr_t(address), C.int(value), C.size_t(bytes))
	if outcome.code != C.CUDA_SUCCESS {
		return d.failed(outcome, "cannot fill %d bytes at %#x", bytes, address)
	}
	return nil
}

// A fat binary begins with a header: magic number, version, its own length, and the length of what follows.
const (
	fatBinaryMagic  = 0xBA55ED50
	fatBinaryHeader = 16
)

// checkImage returns the image as the driver may read it: the driver is not told its length.
func checkImage(image []byte) ([]byte, string) {
	if len(image) >= fatBinaryHeader && binary.LittleEndian.Uint32(image) == fatBinaryMagic {
		header, rest := uint64(binary.LittleEndian.Uint16(image[6:])), binary.LittleEndian.Uint64(image[8:])
		if header < fatBinaryHeader || header > uint64(len(image)) || rest > uint64(len(image))-header {
			return nil, "a fat binary that is cut short"
		}
		return image, ""
	}
	text := bytes.TrimRight(image, "\x00")
	if bytes.Contains(text, []byte(".version")) && bytes.IndexByte(text, 0) < 0 {
		return append(bytes.Clone(text), 0), ""
	}
	return nil, "neither a fat binary nor PTX"
}

// LoadModule loads code into the device's context.
func (d *device) LoadModule(image []byte) (driver.Module, error) {
	if err := d.alive(); err != nil {
		return 0, err
	}
	checked, wrong := checkImage(image)
	if wrong != "" {
		return 0, d.refuse(status.InvalidArgument, "cannot load %d bytes of code: %s", len(image), wrong)
	}
	var module C.uintptr_t
	var log [512]C.char
	outcome := C.mmsb__cuda_load_module(d.c, unsafe.Pointer(unsafe.SliceData(checked)), &module, &log[0], C.size_t(len(log)-1))
	if outcome.code != C.CUDA_SUCCESS {
		return 0, d.failed(outcome, "cannot load %d bytes of code%s", len(image), logged(C.GoString(&log[0])))
	}
	d.modules.add(&object{device: d, handle: uintptr(module), end: func() error {
		return d.check(C.mmsb__cuda_unload_module(d.c, module), "cannot unload module %#x", uintptr(module))
	}})
	return driver.Module(module), nil
}

// logged is what a compiler said, as part of a line.
func logged(log string) string {
	if log = strings.Join(strings.Fields(log), " "); log == "" {
		return ""
	}
	return " (" + log + ")"
}

func (d *device) holdModule(module driver.Module) (*object, error) {
	return d.hold(&d.modules, uintptr(module), "%#x is not a module of this device")
}

// UnloadModule ends a module and its functions.
func (d *device) UnloadModule(module driver.Module) error {
	held, err := d.holdModule(module)
	if err != nil {
		return err
	}
	dropped, err := d.modules.drop(held)
	if !dropped {
		return d.refuse(status.InvalidHandle, "%#x is not a module of this device", module)
	}
	if err == nil {
		d.functions.Range(func(handle, of any) bool {
			if of.(function).module == held {
				d.functions.Delete(handle)
			}
			return true
		})
	}
	return err
}

// Function finds a kernel by name.
func (d *device) Function(module driver.Module, name string) (driver.Function, error) {
	held, err := d.holdModule(module)
	if err != nil {
		return 0, err
	}
	defer held.release()
	if name == "" || strings.IndexByte(name, 0) >= 0 {
		return 0, d.refuse(status.NotFound, "no kernel is named %q", name)
	}
	text := C.CString(name)
	defer C.free(unsafe.Pointer(text))
	var handle C.uintptr_t
	var bytes C.size_t
	if outcome := C.mmsb__cuda_function(d.c, C.uintptr_t(module), text, &handle, &bytes); outcome.code != C.CUDA_SUCCESS {
		return 0, d.failed(outcome, "cannot find kernel %q", name)
	}
	d.functions.Store(uintptr(handle), function{held, bytes})
	return driver.Function(handle), nil
}

// function is a kernel of a module. A driver that is told of fewer bytes than its parameters take reads on behind them.
type function struct {
	module         *object
	parameterBytes C.size_t
}

// holdFunction keeps the module of a launch's function for the length of a call.
func (d *device) holdFunction(launch *driver.Launch) (*object, error) {
	if known, _ := d.functions.Load(uintptr(launch.Function)); known != nil {
		found := known.(function)
		bytes, needed := len(launch.Parameter), found.parameterBytes
		if needed != C.MMSB__CUDA_NOT_TOLD && needed != C.size_t(bytes) {
			return nil, d.refuse(status.InvalidArgument, "kernel %#x has parameters of %d bytes, not %d", launch.Function,
				needed, bytes)
		}
		// Another module may have the handle of one that was unloaded just now.
		held := d.modules.hold(found.module.handle)
		if held == found.module {
			return held, nil
		}
		held.release()
	}
	return nil, d.refuse(status.InvalidHandle, "%#x is not a kernel of this device", launch.Function)
}

// Launch queues a kernel.
func (d *device) Launch(stream driver.Stream, launch *driver.Launch) error {
	heldStream, err := d.holdStream(stream)
	if err != nil {
		return err
	}
	defer heldStream.release()
	if launch.Blocks == 0 || launch.Threads == 0 {
		return d.refuse(status.InvalidArgument, "launch has %d blocks of %d threads, at least 1 of each is needed", launch.Blocks,
			launch.Threads)
	}
	heldModule, err := d.holdFunction(launch)
	if err != nil {
		return err
	}
	defer heldModule.release()
	parameter := unsafe.Pointer(unsafe.SliceData(launch.Parameter))
	outcome := C.mmsb__cuda_launch(d.c, C.uintptr_t(stream), C.uintptr_t(launch.Function), C.uint32_t(launch.Blocks),
		C.uint32_t(launch.Threads), C.uint32_t(launch.Shared), parameter, C.size_t(len(launch.Parameter)))
	if outcome.code != C.CUDA_SUCCESS {
		return d.failed(outcome, "cannot launch kernel %#x with %d blocks of %d threads and %d bytes of parameter",
			launch.Function, launch.Blocks, launch.Threads, len(launch.Parameter))
	}
	return nil
}
