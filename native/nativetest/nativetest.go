// Package nativetest has what programs call in C, for tests in Go. A goroutine that asks for the last error must be bound to its
// thread. The library does not contain this package.
package nativetest

/*
#cgo CFLAGS: -std=gnu11 -O2 -I${SRCDIR}/../../include -I${SRCDIR}/..
#include <stdlib.h>

#include "access.h"
#include "delta_batch.h"
#include "compare.h"
#include "life.h"
#include "mask.h"
#include "pin.h"
#include "propagate.h"
#include "watch.h"
#include "writing.h"
*/
import "C"

import (
	"runtime"
	"unsafe"

	"libmmsb/native"
)

// Destroy ends a page as mmsb_page_destroy does.
func Destroy(page uint64) int32 { return int32(C.mmsb__page_destroy_slow(C.uint64_t(page))) }

// DestroyPages ends pages, all or none.
func DestroyPages(pages []uint64) int32 {
	return int32(C.mmsb__page_destroy_many((*C.mmsb_page_t)(unsafe.Pointer(&pages[0])), C.size_t(len(pages)), nil))
}

// ReadPage copies bytes out of a page.
func ReadPage(page, offset uint64, to []byte) int32 {
	return int32(C.mmsb__page_read(C.uint64_t(page), C.uint64_t(offset), unsafe.Pointer(unsafe.SliceData(to)),
		C.uint64_t(len(to))))
}

// WritePage copies bytes into a page.
func WritePage(page, offset uint64, bytes []byte) int32 {
	return int32(C.mmsb__page_write(C.uint64_t(page), C.uint64_t(offset), unsafe.Pointer(unsafe.SliceData(bytes)),
		C.uint64_t(len(bytes))))
}

// WritePages copies parts of one piece of bytes into pages, all or none: part i has lengths[i] bytes.
func WritePages(pages, offsets, lengths []uint64, bytes []byte) int32 {
	ranges := make([]C.mmsb_page_range_t, len(pages))
	memory := C.CBytes(bytes)
	defer C.free(memory)
	at := uint64(0)
	for i := range ranges {
		ranges[i] = C.mmsb_page_range_t{
			page: C.mmsb_page_t(pages[i]), offset: C.uint64_t(offsets[i]), length: C.uint64_t(lengths[i]),
			buffer: unsafe.Add(memory, at),
		}
		at += lengths[i]
	}
	return int32(C.mmsb__page_write_many(unsafe.SliceData(ranges), C.size_t(len(ranges)), nil))
}

// ApplyRuns changes a run of each page, all or none: length bytes each.
func ApplyRuns(pages, offsets []uint64, length uint64, bytes []byte) int32 {
	var pinned runtime.Pinner
	defer pinned.Unpin()
	pinned.Pin(&pages[0])
	pinned.Pin(&offsets[0])
	pinned.Pin(&bytes[0])
	runs := C.mmsb_page_runs_t{
		struct_size: C.sizeof_mmsb_page_runs_t, uniform_length: C.uint64_t(length), count: C.uint64_t(len(pages)),
		pages: (*C.mmsb_page_t)(unsafe.Pointer(&pages[0])), offsets: (*C.uint64_t)(unsafe.Pointer(&offsets[0])),
		payload: unsafe.Pointer(&bytes[0]),
	}
	return int32(C.mmsb__page_apply_runs(&runs, nil))
}

// ApplyPage applies a delta, which lies in memory that is not Go's or is pinned.
func ApplyPage(page uint64, delta *native.Delta) int32 {
	given := (*C.mmsb_delta_t)(unsafe.Pointer(delta))
	given.struct_size = C.sizeof_mmsb_delta_t
	return int32(C.mmsb__page_apply(C.uint64_t(page), given))
}

// ComparePages counts the bytes in which two pages differ.
func ComparePages(a, b uint64) (found native.Difference, code int32) {
	var into C.mmsb_difference_t
	code = int32(C.mmsb__page_compare(C.uint64_t(a), C.uint64_t(b), &into))
	return native.Difference{Count: uint64(into.count), First: uint64(into.first)}, code
}

// PageDifferences are bits that say where two pages of a size differ.
func PageDifferences(a, b, size uint64) (bits []byte, code int32) {
	bits = make([]byte, native.MaskLength(size))
	code = int32(C.mmsb__page_differences(C.uint64_t(a), C.uint64_t(b), unsafe.Pointer(unsafe.SliceData(bits)), C.uint64_t(size)))
	return bits, code
}

// PageChecksum is the CRC-32C of a part of a page.
func PageChecksum(page, offset, length uint64) (sum uint32, code int32) {
	var into C.uint32_t
	code = int32(C.mmsb__page_checksum(C.uint64_t(page), C.uint64_t(offset), C.uint64_t(length), &into))
	return uint32(into), code
}

// PropagatePages copies what the change masks of the pages behind the first one have into that; their edges are not looked at.
func PropagatePages(pages ...uint64) int32 { return propagate(C.MMSB__FROM_PARENTS, pages) }

// PropagatePersistently is PropagatePages by a kernel that stays on the device.
func PropagatePersistently(pages ...uint64) int32 {
	return propagate(C.MMSB__FROM_PARENTS|C.MMSB__PERSISTENT, pages)
}

func propagate(how C.uint, pages []uint64) int32 {
	var bad C.size_t
	self := C.mmsb__thread_enter()
	return int32(C.mmsb__propagate((*C.uint64_t)(unsafe.Pointer(&pages[0])), C.size_t(len(pages)-1), how, self.owner, &bad))
}

// ClearMask clears a page's change mask.
func ClearMask(page uint64) int32 { return int32(C.mmsb__page_mask_clear(C.uint64_t(page))) }

// ApplyPages applies to each page a delta that changes its first bytes, all or none.
func ApplyPages(pages []uint64, bytes []byte) int32 {
	memory := C.CBytes(bytes)
	defer C.free(memory)
	run := (*C.mmsb_run_t)(C.malloc(C.sizeof_mmsb_run_t))
	defer C.free(unsafe.Pointer(run))
	*run = C.mmsb_run_t{length: C.uint64_t(len(bytes))}
	deltas := make([]C.mmsb_delta_t, len(pages))
	for i := range deltas {
		deltas[i] = C.mmsb_delta_t{
			struct_size: C.sizeof_mmsb_delta_t, kind: C.MMSB_DELTA_RUNS, runs: run, count: 1, payload: memory,
			payload_length: C.uint64_t(len(bytes)),
		}
	}
	return int32(C.mmsb__page_apply_many((*C.mmsb_page_t)(unsafe.Pointer(&pages[0])), &deltas[0], C.size_t(len(pages)), nil))
}

// PinPage and UnpinPage hold a page where it is.
func PinPage(page uint64, write bool) (address uintptr, code int32) {
	var at unsafe.Pointer
	code = int32(C.mmsb__page_pin(C.uint64_t(page), C.int32_t(pinMode(write)), &at))
	return uintptr(at), code
}

// UnpinPage ends what PinPage began.
func UnpinPage(page uint64, write bool) int32 {
	return int32(C.mmsb__page_unpin(C.uint64_t(page), C.int32_t(pinMode(write))))
}

// BeginWriting and EndWriting begin and end a writing section of a context.
func BeginWriting(context uint64) int32 {
	return int32(C.mmsb__writing_begin(C.uint64_t(context), C.MMSB_WAIT_FOREVER))
}

// EndWriting is the end.
func EndWriting(context uint64) int32 { return int32(C.mmsb__writing_end(C.uint64_t(context))) }

func pinMode(write bool) int32 {
	if write {
		return C.MMSB_PIN_WRITE
	}
	return C.MMSB_PIN_READ
}

// Watched says whether calls that change pages look closer.
func Watched() bool { return C.mmsb__watched() != 0 }
