//go:build mmsbtest

package main

/*
#include "mmsb.h"
*/
import "C"

import (
	"runtime"

	"libmmsb/core/page"
)

//export mmsbgo_test_panic
func mmsbgo_test_panic() (code C.mmsb_status_t) {
	defer guard(&code)
	panic("asked for by a test")
}

//export mmsbgo_test_page_generation
func mmsbgo_test_page_generation(of C.mmsb_page_t, generation C.uint32_t, moved *C.mmsb_page_t) (code C.mmsb_status_t) {
	defer guard(&code)
	return failed(put(moved)(page.MoveGeneration(uint64(of), uint32(generation))))
}

//export mmsbgo_test_collect
func mmsbgo_test_collect(pause, total *C.uint64_t) (code C.mmsb_status_t) {
	defer guard(&code)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	*total = C.uint64_t(page.TimeCollection())
	runtime.ReadMemStats(&after)
	*pause = C.uint64_t(after.PauseTotalNs - before.PauseTotalNs)
	return C.MMSB_OK
}
