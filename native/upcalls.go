package native

/*
#include "upcalls.h"
*/
import "C"

import "unsafe"

// Upcalls is what C asks of Go; core/page sets it before the first context. Functions that return a code store the thread's last
// error.
type Upcalls struct {
	Refill       func(context uint64, class uint32, handles []uint64) (count int, code int32)
	TakeFrame    func(context uint32, size uint64) (index uint32, code int32)
	GiveFrame    func(context, index uint32)
	MakeResident func(index uint32) int32
	Evict        func(index uint32)
	// Of a nonresident page on a device. Apply's done is false where the change is left to the host.
	DeviceAddress  func(index uint32) (address uintptr, code int32)
	DeviceRead     func(index uint32, offset uint64, to []byte) int32
	DeviceWrite    func(index uint32, offset uint64, from []byte) int32
	DeviceApply    func(index uint32, delta *Delta) (done bool, code int32)
	DevicePrepare  func(index uint32, delta *Delta) (done bool, code int32)
	DeviceReadRuns func(index uint32, runs []Run, to []byte) int32
	CopyPins       func(index uint32, write bool) uint32
	// What devices do with such pages where they lie. done is false where the host has to.
	DeviceCompare   func(a, b uint32, bits []byte) (found Difference, done bool, code int32)
	DeviceChecksums func(index uint32, offset, length, part uint64, sums []uint32) (done bool, code int32)
	DevicePropagate func(pages []uint64, persistent bool) (done bool, code int32)
	// DeviceApplyMany passes over pages that are on no device; bad is the first change that could not be made.
	DeviceApplyMany func(pages []uint64, deltas []Delta) (bad int, code int32)

	End          func(index uint32, state uint64)
	ReleaseEnded func(index uint32)
	NewVersion   func(above uint64) uint64
	Leave        func(index uint32, state uint64)
	GroupLeft    func(context uint32, group Group)
	// Parents of pages: each page and its counts[i] parents stand in all one behind the other, as far as all goes.
	Parents    func(pages, all, counts []uint64) (needed int)
	CheckCycle func(pages []uint64) int32
	TellReport func(context uint32) int32
	// Panicked hears of a panic in any of them.
	Panicked func(value any)
}

var upcalls Upcalls

// SetUpcalls says who answers C.
func SetUpcalls(u Upcalls) { upcalls = u }

// A panic must not cross into C. The call answers INTERNAL, and the library is poisoned.
func guard(code *C.mmsb_status_t) {
	if value := recover(); value != nil {
		upcalls.Panicked(value)
		if code != nil {
			*code = C.MMSB_E_INTERNAL
		}
	}
}

//export mmsbgo_refill
func mmsbgo_refill(context C.uint64_t, class C.uint32_t, handles *C.uint64_t, capacity C.uint32_t,
	count *C.uint32_t) (code C.mmsb_status_t) {
	defer guard(&code)
	n, status := upcalls.Refill(uint64(context), uint32(class), unsafe.Slice((*uint64)(handles), int(capacity)))
	*count = C.uint32_t(n)
	return C.mmsb_status_t(status)
}

//export mmsbgo_take_frame
func mmsbgo_take_frame(context C.uint32_t, size C.uint64_t, index *C.uint32_t) (code C.mmsb_status_t) {
	defer guard(&code)
	taken, status := upcalls.TakeFrame(uint32(context), uint64(size))
	*index = C.uint32_t(taken)
	return C.mmsb_status_t(status)
}

//export mmsbgo_give_frame
func mmsbgo_give_frame(context, index C.uint32_t) {
	defer guard(nil)
	upcalls.GiveFrame(uint32(context), uint32(index))
}

//export mmsbgo_make_resident
func mmsbgo_make_resident(index C.uint32_t) (code C.mmsb_status_t) {
	defer guard(&code)
	return C.mmsb_status_t(upcalls.MakeResident(uint32(index)))
}

//export mmsbgo_evict
func mmsbgo_evict(index C.uint32_t) {
	defer guard(nil)
	upcalls.Evict(uint32(index))
}

//export mmsbgo_device_address
func mmsbgo_device_address(index C.uint32_t, address *unsafe.Pointer) (code C.mmsb_status_t) {
	defer guard(&code)
	at, status := upcalls.DeviceAddress(uint32(index))
	*address = unsafe.Add(unsafe.Pointer(nil), at)
	return C.mmsb_status_t(status)
}

//export mmsbgo_device_read
func mmsbgo_device_read(index C.uint32_t, offset C.uint64_t, buffer unsafe.Pointer, length C.uint64_t) (code C.mmsb_status_t) {
	defer guard(&code)
	return C.mmsb_status_t(upcalls.DeviceRead(uint32(index), uint64(offset), unsafe.Slice((*byte)(buffer), int(length))))
}

//export mmsbgo_device_write
func mmsbgo_device_write(index C.uint32_t, offset C.uint64_t, buffer unsafe.Pointer, length C.uint64_t) (code C.mmsb_status_t) {
	defer guard(&code)
	return C.mmsb_status_t(upcalls.DeviceWrite(uint32(index), uint64(offset), unsafe.Slice((*byte)(buffer), int(length))))
}

//export mmsbgo_device_apply
func mmsbgo_device_apply(index C.uint32_t, delta *C.mmsb_delta_t) (code C.mmsb_status_t) {
	defer guard(&code)
	return leftToHost(upcalls.DeviceApply(uint32(index), (*Delta)(unsafe.Pointer(delta))))
}

//export mmsbgo_device_prepare
func mmsbgo_device_prepare(index C.uint32_t, delta *C.mmsb_delta_t) (code C.mmsb_status_t) {
	defer guard(&code)
	return leftToHost(upcalls.DevicePrepare(uint32(index), (*Delta)(unsafe.Pointer(delta))))
}

//export mmsbgo_device_read_runs
func mmsbgo_device_read_runs(index C.uint32_t, runs *C.mmsb_run_t, count C.uint64_t,
	buffer unsafe.Pointer) (code C.mmsb_status_t) {
	defer guard(&code)
	of := unsafe.Slice((*Run)(unsafe.Pointer(runs)), int(count))
	sum := uint64(0)
	for _, run := range of {
		sum += run.Length
	}
	return C.mmsb_status_t(upcalls.DeviceReadRuns(uint32(index), of, unsafe.Slice((*byte)(buffer), int(sum))))
}

//export mmsbgo_copy_pins
func mmsbgo_copy_pins(index C.uint32_t, mode C.int32_t) C.uint32_t {
	defer guard(nil)
	return C.uint32_t(upcalls.CopyPins(uint32(index), mode == C.MMSB_PIN_WRITE))
}

//export mmsbgo_device_compare
func mmsbgo_device_compare(a, b C.uint32_t, difference *C.mmsb_difference_t, bits unsafe.Pointer) (code C.mmsb_status_t) {
	defer guard(&code)
	var into []byte
	if bits != nil {
		into = unsafe.Slice((*byte)(bits), int(MaskLength(RecordAt(uint32(a)).Size)))
	}
	found, done, status := upcalls.DeviceCompare(uint32(a), uint32(b), into)
	if status == 0 && done && difference != nil {
		difference.count, difference.first = C.uint64_t(found.Count), C.uint64_t(found.First)
	}
	return leftToHost(done, status)
}

//export mmsbgo_device_checksums
func mmsbgo_device_checksums(index C.uint32_t, offset, length, part C.uint64_t, sums *C.uint32_t) (code C.mmsb_status_t) {
	defer guard(&code)
	parts := (uint64(length)-1)/uint64(part) + 1
	return leftToHost(upcalls.DeviceChecksums(uint32(index), uint64(offset), uint64(length), uint64(part),
		unsafe.Slice((*uint32)(sums), int(parts))))
}

//export mmsbgo_device_propagate
func mmsbgo_device_propagate(pages *C.mmsb_page_t, count C.size_t, persistent C.int) (code C.mmsb_status_t) {
	defer guard(&code)
	return leftToHost(upcalls.DevicePropagate(unsafe.Slice((*uint64)(unsafe.Pointer(pages)), int(count)), persistent != 0))
}

// leftToHost is the code of a call that Go may not have done.
func leftToHost(done bool, status int32) C.mmsb_status_t {
	if !done && status == 0 {
		return C.MMSB_E_UNSUPPORTED
	}
	return C.mmsb_status_t(status)
}

//export mmsbgo_device_apply_many
func mmsbgo_device_apply_many(pages *C.mmsb_page_t, deltas *C.mmsb_delta_t, count C.size_t,
	bad *C.size_t) (code C.mmsb_status_t) {
	defer guard(&code)
	first, status := upcalls.DeviceApplyMany(unsafe.Slice((*uint64)(unsafe.Pointer(pages)), int(count)),
		unsafe.Slice((*Delta)(unsafe.Pointer(deltas)), int(count)))
	*bad = C.size_t(first)
	return C.mmsb_status_t(status)
}

//export mmsbgo_end
func mmsbgo_end(index C.uint32_t, state C.uint64_t) {
	defer guard(nil)
	upcalls.End(uint32(index), uint64(state))
}

//export mmsbgo_release_ended
func mmsbgo_release_ended(index C.uint32_t) {
	defer guard(nil)
	upcalls.ReleaseEnded(uint32(index))
}

//export mmsbgo_new_version
func mmsbgo_new_version(above C.uint64_t) C.uint64_t {
	defer guard(nil)
	return C.uint64_t(upcalls.NewVersion(uint64(above)))
}

//export mmsbgo_leave
func mmsbgo_leave(index C.uint32_t, state C.uint64_t) {
	defer guard(nil)
	upcalls.Leave(uint32(index), uint64(state))
}

//export mmsbgo_group_left
func mmsbgo_group_left(context C.uint32_t, group *C.mmsb__open_group_t) {
	defer guard(nil)
	upcalls.GroupLeft(uint32(context), Group{unsafe.Pointer(group)})
}

//export mmsbgo_write_journal
func mmsbgo_write_journal(context C.uint32_t) (written C.int) {
	defer guard(nil)
	if write := writers[context].Load(); write != nil && (*write)() {
		return 1
	}
	return 0
}

//export mmsbgo_tell_report
func mmsbgo_tell_report(context C.uint32_t) (code C.mmsb_status_t) {
	defer guard(&code)
	return C.mmsb_status_t(upcalls.TellReport(uint32(context)))
}

//export mmsbgo_parents
func mmsbgo_parents(pages *C.mmsb_page_t, count C.size_t, all *C.mmsb_page_t, capacity C.size_t,
	counts *C.uint64_t) (needed C.size_t) {
	defer guard(nil)
	return C.size_t(upcalls.Parents(unsafe.Slice((*uint64)(unsafe.Pointer(pages)), int(count)),
		unsafe.Slice((*uint64)(unsafe.Pointer(all)), int(capacity)),
		unsafe.Slice((*uint64)(unsafe.Pointer(counts)), int(count))))
}

//export mmsbgo_check_cycle
func mmsbgo_check_cycle(pages *C.mmsb_page_t, count C.size_t) (code C.mmsb_status_t) {
	defer guard(&code)
	return C.mmsb_status_t(upcalls.CheckCycle(unsafe.Slice((*uint64)(unsafe.Pointer(pages)), int(count))))
}
