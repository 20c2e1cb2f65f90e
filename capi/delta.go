// The exports behind delta.c: deltas in memory of their own, merge, conversion, comparison of pages.

package main

/*
#include "mmsb.h"
*/
import "C"

import (
	"unsafe"

	"libmmsb/core/delta"
	"libmmsb/core/page"
	"libmmsb/native"
)

// form is a C delta that has been checked, as core/delta knows it. Its slices lie in the caller's memory.
func form(d *C.mmsb_delta_t) *delta.Form { return delta.FromNative((*native.Delta)(unsafe.Pointer(d))) }

// Go reads the caller's runs in place.
var _ = [1]struct{}{}[unsafe.Sizeof(delta.Run{})-C.sizeof_mmsb_run_t+unsafe.Offsetof(delta.Run{}.Length)-8]

// give hands a delta to the caller.
func give(to **C.mmsb_delta_t, f *delta.Form, err error) C.mmsb_status_t {
	if err == nil {
		var d *native.Delta
		if d, err = delta.Own(f); err == nil {
			*to = (*C.mmsb_delta_t)(unsafe.Pointer(d))
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
	return failed(delta.Free(uintptr(memory)))
}
