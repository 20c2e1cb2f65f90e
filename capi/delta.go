// The exports behind delta.c: deltas in memory of their own, merge, conversion, comparison of pages.

package main

/*
#include "mmsb.h"
#include <stdlib.h>
#include <string.h>
*/
import "C"

import (
	"sync"
	"unsafe"

	"libmmsb/core/delta"
	"libmmsb/core/page"
	"libmmsb/core/status"
	"libmmsb/native"
)

// form is a C delta that has been checked, as core/delta knows it. Its slices lie in the caller's memory.
func form(d *C.mmsb_delta_t) *delta.Form { return delta.FromNative((*native.Delta)(unsafe.Pointer(d))) }

// Go reads the caller's runs in place.
var _ = [1]struct{}{}[unsafe.Sizeof(delta.Run{})-C.sizeof_mmsb_run_t+unsafe.Offsetof(delta.Run{}.Length)-8]

// Deltas that the library made, by address.
var owned = struct {
	sync.Mutex
	deltas map[uintptr]struct{}
}{deltas: make(map[uintptr]struct{})}

func liveDeltas() uint64 {
	owned.Lock()
	defer owned.Unlock()
	return uint64(len(owned.deltas))
}

// own puts a delta into one piece of C memory, with all it points to.
func own(f *delta.Form) (*C.mmsb_delta_t, error) {
	const align = 8
	size := uintptr(C.sizeof_mmsb_delta_t)
	place := func(length uintptr) uintptr {
		offset := (size + align - 1) &^ (align - 1)
		size = offset + length
		return offset
	}
	runs := place(uintptr(len(f.Runs)) * unsafe.Sizeof(delta.Run{}))
	offsets := place(uintptr(len(f.Offsets)) * 8)
	mask := place(uintptr(len(f.Mask)))
	payload := place(uintptr(len(f.Payload)))
	source := place(uintptr(len(f.Source) + 1))
	intent := place(uintptr(len(f.Intent) + 1))
	memory := C.malloc(C.size_t(size))
	if memory == nil {
		return nil, status.Errorf(status.OutOfMemory, "cannot allocate %d bytes for a delta", size)
	}
	C.memset(memory, 0, C.size_t(C.sizeof_mmsb_delta_t))
	d := (*C.mmsb_delta_t)(memory)
	d.struct_size = C.sizeof_mmsb_delta_t
	d.kind = C.mmsb_delta_kind_t(f.Kind)
	d.id, d.page_id, d.epoch, d.timestamp_ns = C.uint64_t(f.ID), C.uint64_t(f.PageID), C.uint64_t(f.Epoch),
		C.uint64_t(f.TimestampNanoseconds)
	d.mask_length, d.count = C.uint64_t(f.MaskLength), C.uint64_t(f.Count)
	at := func(offset uintptr, bytes []byte) unsafe.Pointer {
		to := unsafe.Add(memory, offset)
		copy(unsafe.Slice((*byte)(to), len(bytes)), bytes)
		return to
	}
	if len(f.Runs) > 0 {
		d.runs = (*C.mmsb_run_t)(at(runs, asBytes(f.Runs)))
	}
	if len(f.Offsets) > 0 {
		d.offsets = (*C.uint64_t)(at(offsets, asBytes(f.Offsets)))
	}
	if len(f.Mask) > 0 {
		d.mask = at(mask, f.Mask)
	}
	if len(f.Payload) > 0 {
		d.payload = at(payload, f.Payload)
		d.payload_length = C.uint64_t(len(f.Payload))
	}
	if f.Source != "" {
		d.source = (*C.char)(at(source, append([]byte(f.Source), 0)))
	}
	if f.Intent != "" {
		d.intent = (*C.char)(at(intent, append([]byte(f.Intent), 0)))
	}
	owned.Lock()
	owned.deltas[uintptr(memory)] = struct{}{}
	owned.Unlock()
	return d, nil
}

func asBytes[T any](items []T) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(items))), uintptr(len(items))*unsafe.Sizeof(items[0]))
}

// give hands a delta to the caller.
func give(to **C.mmsb_delta_t, f *delta.Form, err error) C.mmsb_status_t {
	if err == nil {
		var d *C.mmsb_delta_t
		if d, err = own(f); err == nil {
			*to = d
		}
	}
	return failed(err)
}

//export mmsbgo_delta_merge
func mmsbgo_delta_merge(first, second *C.mmsb_delta_t, to **C.mmsb_delta_t) (code C.mmsb_status_t) {
	defer guard(&code)
	f, err := delta.Merge(form(first), form(second))
	return give(to, f, err)
}

//export mmsbgo_delta_from_pages
func mmsbgo_delta_from_pages(oldPage, newPage C.mmsb_page_t, to **C.mmsb_delta_t) (code C.mmsb_status_t) {
	defer guard(&code)
	f, err := page.Difference(uint64(oldPage), uint64(newPage))
	return give(to, f, err)
}

//export mmsbgo_delta_convert
func mmsbgo_delta_convert(d *C.mmsb_delta_t, kind C.mmsb_delta_kind_t, to **C.mmsb_delta_t) (code C.mmsb_status_t) {
	defer guard(&code)
	f, err := delta.Convert(form(d), delta.Kind(kind))
	return give(to, f, err)
}

//export mmsbgo_delta_free
func mmsbgo_delta_free(memory unsafe.Pointer) (code C.mmsb_status_t) {
	defer guard(&code)
	owned.Lock()
	_, ok := owned.deltas[uintptr(memory)]
	delete(owned.deltas, uintptr(memory))
	owned.Unlock()
	if !ok {
		return failed(status.Errorf(status.StaleHandle, "0x%x is not a delta that the library allocated, or it was freed already",
			uintptr(memory)))
	}
	C.free(memory)
	return C.MMSB_OK
}
