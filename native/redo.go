package native

/*
#include "delta.h"

// Addresses come one by one, because Go may not put its pointers into C structs.
static mmsb_status_t redo_write(uint64_t page, uint64_t version, uint64_t epoch, uint64_t offset, const void *bytes, uint64_t length) {
    mmsb_redo_t change = {.offset = offset};
    change.delta.payload = bytes;
    change.delta.payload_length = length;
    return mmsb_page_redo(page, version, epoch, &change);
}
static mmsb_status_t redo_delta(uint64_t page, uint64_t version, uint64_t epoch, int32_t kind, const void *mask, uint64_t mask_length,
                                const void *places, uint64_t count, const void *payload, uint64_t length) {
    mmsb_redo_t change = {.is_delta = 1};
    change.delta.struct_size = sizeof change.delta;
    change.delta.kind = kind;
    change.delta.mask = mask;
    change.delta.mask_length = mask_length;
    change.delta.count = count;
    if (kind == MMSB_DELTA_RUNS) {
        change.delta.runs = places;
    } else if (kind == MMSB_DELTA_INDEXED + 2) { // MMSB_JOURNAL_INDEXED32
        change.delta.kind = MMSB_DELTA_INDEXED;
        change.delta.offsets32 = places;
    } else if (kind == MMSB_DELTA_INDEXED) {
        change.delta.offsets = places;
    }
    change.delta.payload = payload;
    change.delta.payload_length = length;
    return mmsb_page_redo(page, version, epoch, &change);
}
_Static_assert(MMSB_DELTA_INDEXED + 2 == MMSB_JOURNAL_INDEXED32, "the form of deltas with offsets of 32 bits");
#cgo noescape redo_write
#cgo noescape redo_delta
*/
import "C"

import "unsafe"

// RedoWrite writes bytes into a page whose version is below the given one, which it then has.
func RedoWrite(page, version, epoch, offset uint64, bytes []byte) int32 {
	return int32(C.redo_write(C.uint64_t(page), C.uint64_t(version), C.uint64_t(epoch), C.uint64_t(offset),
		unsafe.Pointer(unsafe.SliceData(bytes)), C.uint64_t(len(bytes))))
}

// RedoDelta applies a delta, in a journal's form, to a page whose version is below the given one, which it then has.
func RedoDelta(page, version, epoch uint64, form uint16, mask []byte, maskLength uint64, places []byte, count uint64,
	payload []byte) int32 {
	return int32(C.redo_delta(C.uint64_t(page), C.uint64_t(version), C.uint64_t(epoch), C.int32_t(form),
		unsafe.Pointer(unsafe.SliceData(mask)), C.uint64_t(maskLength), unsafe.Pointer(unsafe.SliceData(places)), C.uint64_t(count),
		unsafe.Pointer(unsafe.SliceData(payload)), C.uint64_t(len(payload))))
}
