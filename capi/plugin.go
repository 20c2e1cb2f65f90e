// The exports behind plugin.c: memory for other libraries.

package main

/*
#include "mmsb.h"
*/
import "C"

import (
	"libmmsb/gpu/devices"
	"libmmsb/gpu/driver"
	"libmmsb/gpu/plugin"
)

// passing is a stream that may be destroyed after the call, lasting one that is not.
func passing(native C.uintptr_t) plugin.Stream { return plugin.Stream{Native: uintptr(native)} }
func lasting(native C.uintptr_t) plugin.Stream {
	return plugin.Stream{Native: uintptr(native), Lasts: true}
}

func putAddress(to *C.uintptr_t) func(address driver.Address, err error) error {
	return func(address driver.Address, err error) error {
		if err == nil {
			*to = C.uintptr_t(address)
		}
		return err
	}
}

//export mmsbgo_plugin_allocate
func mmsbgo_plugin_allocate(h C.mmsb_runtime_t, bytes C.uint64_t, stream C.uintptr_t, kind C.int32_t,
	to *C.uintptr_t) (code C.mmsb_status_t) {
	defer guard(&code)
	return onRuntime(h, func(r *devices.Runtime) error {
		return putAddress(to)(plugin.Allocate(r, uint64(bytes), passing(stream), plugin.Kind(kind)))
	})
}

//export mmsbgo_plugin_free
func mmsbgo_plugin_free(address, stream C.uintptr_t) (code C.mmsb_status_t) {
	defer guard(&code)
	return failed(plugin.Free(driver.Address(address), passing(stream)))
}

//export mmsbgo_plugin_record
func mmsbgo_plugin_record(address, stream C.uintptr_t) (code C.mmsb_status_t) {
	defer guard(&code)
	return failed(plugin.Record(driver.Address(address), passing(stream)))
}

//export mmsbgo_plugin_bind
func mmsbgo_plugin_bind(device C.int32_t, h C.mmsb_runtime_t) (code C.mmsb_status_t) {
	defer guard(&code)
	if h == 0 {
		plugin.Unbind(int(device))
		return C.MMSB_OK
	}
	return onRuntime(h, func(r *devices.Runtime) error { return plugin.Bind(int(device), r) })
}

// What these refuse their callers do not see: the log has it.

//export mmsbgo_torch_allocate
func mmsbgo_torch_allocate(bytes C.size_t, device C.int32_t, stream C.uintptr_t, kind C.int32_t,
	to *C.uintptr_t) (code C.mmsb_status_t) {
	defer guard(&code)
	address, err := plugin.AllocateBound(int(device), uint64(bytes), lasting(stream), plugin.Kind(kind))
	return failed(plugin.Note("mmsb_torch_allocate", putAddress(to)(address, err)))
}

//export mmsbgo_torch_free
func mmsbgo_torch_free(address, stream C.uintptr_t) (code C.mmsb_status_t) {
	defer guard(&code)
	return failed(plugin.Note("mmsb_torch_free", plugin.Free(driver.Address(address), lasting(stream))))
}

//export mmsbgo_torch_record_stream
func mmsbgo_torch_record_stream(address, stream C.uintptr_t) (code C.mmsb_status_t) {
	defer guard(&code)
	return failed(plugin.Note("mmsb_torch_record_stream", plugin.Record(driver.Address(address), lasting(stream))))
}

//export mmsbgo_torch_empty_cache
func mmsbgo_torch_empty_cache() (code C.mmsb_status_t) {
	defer guard(&code)
	return failed(plugin.Note("mmsb_torch_empty_cache", plugin.EmptyCache()))
}

//export mmsbgo_torch_memory_fraction
func mmsbgo_torch_memory_fraction(fraction C.double, device C.int32_t) (code C.mmsb_status_t) {
	defer guard(&code)
	return failed(plugin.Note("mmsb_torch_memory_fraction", plugin.SetFraction(int(device), float64(fraction))))
}

//export mmsbgo_torch_base
func mmsbgo_torch_base(at *C.uintptr_t, to *C.size_t) (code C.mmsb_status_t) {
	defer guard(&code)
	base, bytes, err := plugin.Base(driver.Address(*at))
	if err == nil {
		*at, *to = C.uintptr_t(base), C.size_t(bytes)
	}
	return failed(err)
}

//export mmsbgo_cupy_malloc
func mmsbgo_cupy_malloc(h C.mmsb_runtime_t, bytes C.size_t, device C.int32_t, to *C.uintptr_t) (code C.mmsb_status_t) {
	defer guard(&code)
	address, err := plugin.AllocateFrom(uint64(h), int(device), uint64(bytes))
	return failed(plugin.Note("mmsb_cupy_malloc", putAddress(to)(address, err)))
}
