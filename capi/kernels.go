// The exports behind kernels.c: kernels on streams.

package main

/*
#include "mmsb.h"
*/
import "C"

import (
	"slices"
	"unsafe"

	"libmmsb/gpu/devices"
	"libmmsb/gpu/driver"
	"libmmsb/gpu/kernels"
	gpu "libmmsb/gpu/runtime"
)

// launch queues a kernel on the stream of a handle.
func launch(h C.mmsb_stream_t, of func(k *kernels.Set) (driver.Launch, error)) C.mmsb_status_t {
	return onStream(h, func(s *gpu.Stream) error { return devices.Launch(s, of) })
}

//export mmsbgo_stream_compare
func mmsbgo_stream_compare(h C.mmsb_stream_t, result, a, b C.uint64_t, bytes C.uint64_t) (code C.mmsb_status_t) {
	defer guard(&code)
	return launch(h, func(k *kernels.Set) (driver.Launch, error) {
		return k.Compare(driver.Address(result), driver.Address(a), driver.Address(b), uint64(bytes))
	})
}

//export mmsbgo_stream_differences
func mmsbgo_stream_differences(h C.mmsb_stream_t, bits, a, b C.uint64_t, bytes C.uint64_t) (code C.mmsb_status_t) {
	defer guard(&code)
	return launch(h, func(k *kernels.Set) (driver.Launch, error) {
		return k.Differences(driver.Address(bits), driver.Address(a), driver.Address(b), uint64(bytes))
	})
}

//export mmsbgo_stream_difference
func mmsbgo_stream_difference(h C.mmsb_stream_t, found, a, b C.uint64_t, bytes C.uint64_t) (code C.mmsb_status_t) {
	defer guard(&code)
	return onStream(h, func(s *gpu.Stream) error {
		return devices.Difference(s, driver.Address(found), driver.Address(a), driver.Address(b), uint64(bytes))
	})
}

//export mmsbgo_stream_checksum
func mmsbgo_stream_checksum(h C.mmsb_stream_t, sums, from, bytes, part C.uint64_t) (code C.mmsb_status_t) {
	defer guard(&code)
	return launch(h, func(k *kernels.Set) (driver.Launch, error) {
		return k.Checksum(driver.Address(sums), driver.Address(from), uint64(bytes), uint64(part))
	})
}

//export mmsbgo_stream_merge
func mmsbgo_stream_merge(h C.mmsb_stream_t, to, mask C.uintptr_t, kind C.mmsb_delta_kind_t, payload C.uintptr_t,
	bytes C.uint64_t, changed C.uintptr_t) (code C.mmsb_status_t) {
	defer guard(&code)
	page := kernels.Page{Address: driver.Address(to), Bytes: uint64(bytes), Changed: driver.Address(changed)}
	return launch(h, func(k *kernels.Set) (driver.Launch, error) {
		if kind == C.MMSB_DELTA_DENSE_BYTES {
			return k.MergeBytes(page, driver.Address(mask), driver.Address(payload), uint64(bytes))
		}
		return k.MergeBits(page, driver.Address(mask), driver.Address(payload), uint64(bytes))
	})
}

//export mmsbgo_stream_scatter
func mmsbgo_stream_scatter(h C.mmsb_stream_t, to C.uintptr_t, bytes C.uint64_t, offsets C.uintptr_t, offsetBytes C.uint32_t,
	origin C.uint64_t, values C.uintptr_t, count C.uint64_t) (code C.mmsb_status_t) {
	defer guard(&code)
	page := kernels.Page{Address: driver.Address(to), Bytes: uint64(bytes)}
	return launch(h, func(k *kernels.Set) (driver.Launch, error) {
		return k.Scatter(page, driver.Address(offsets), uint64(offsetBytes), uint64(origin), driver.Address(values),
			uint64(count))
	})
}

//export mmsbgo_stream_copy_many
func mmsbgo_stream_copy_many(h C.mmsb_stream_t, copies *C.mmsb_copy_t, count C.size_t) (code C.mmsb_status_t) {
	defer guard(&code)
	return onStream(h, func(s *gpu.Stream) error {
		return devices.CopyMany(s, slices.Clone(array((*kernels.Span)(unsafe.Pointer(copies)), count)))
	})
}

//export mmsbgo_stream_propagate
func mmsbgo_stream_propagate(h C.mmsb_stream_t, items *C.mmsb_propagation_t, count C.size_t) (code C.mmsb_status_t) {
	defer guard(&code)
	return onStream(h, func(s *gpu.Stream) error {
		return devices.Propagate(s, slices.Clone(array((*kernels.Pair)(unsafe.Pointer(items)), count)))
	})
}
