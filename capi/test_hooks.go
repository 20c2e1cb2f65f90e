//go:build mmsbtest

package main

/*
#include "mmsb.h"
*/
import "C"

import (
	"runtime"
	"time"

	"libmmsb/core/page"
	"libmmsb/core/status"
	"libmmsb/gpu/devices"
	"libmmsb/gpu/sim"
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

//export mmsbgo_test_check
func mmsbgo_test_check(context C.mmsb_context_t) (code C.mmsb_status_t) {
	defer guard(&code)
	if code := onContext(context, (*page.Context).Check); code != C.MMSB_OK {
		return code
	}
	return onDevices(context, (*devices.Set).Check)
}

//export mmsbgo_test_slow_devices
func mmsbgo_test_slow_devices(latency C.uint64_t) (code C.mmsb_status_t) {
	defer guard(&code)
	devices.Slow(time.Duration(latency))
	return C.MMSB_OK
}

//export mmsbgo_test_hold_devices
func mmsbgo_test_hold_devices(hold C.int32_t) (code C.mmsb_status_t) {
	defer guard(&code)
	if hold != 0 {
		devices.Hold()
	} else {
		devices.LetGo()
	}
	return C.MMSB_OK
}

//export mmsbgo_test_violations
func mmsbgo_test_violations(context C.mmsb_context_t) (code C.mmsb_status_t) {
	defer guard(&code)
	return onDevices(context, (*devices.Set).Violations)
}

//export mmsbgo_test_device_fault
func mmsbgo_test_device_fault(context C.mmsb_context_t, device, call, after, effect C.int32_t) (code C.mmsb_status_t) {
	defer guard(&code)
	calls := []sim.Call{sim.AllocateOrdered, sim.Copy, sim.Fill, sim.Wait, sim.RecordEvent, sim.FreeOrdered}
	if call < 0 || int(call) >= len(calls) {
		return failed(status.Errorf(status.InvalidArgument, "call %d does not exist", call))
	}
	return onDevices(context, func(set *devices.Set) error {
		return set.Inject(sim.Fault{Device: int(device), Call: calls[call], After: int(after), Effect: sim.Effect(effect)})
	})
}
