package native

/*
#include "journal.h"
#include "redo.h"

// Addresses come one by one, because Go may not put its pointers into C structs.
static mmsb_status_t redo_write(uint32_t index, uint64_t version, uint64_t epoch, uint64_t offset, const void *bytes,
                                uint64_t length) {
    mmsb__redo_t change = {.offset = offset};
    change.delta.payload = bytes;
    change.delta.payload_length = length;
    return mmsb__redo(index, version, epoch, &change);
}
static mmsb_status_t redo_delta(uint32_t index, uint64_t version, uint64_t epoch, int32_t kind, const void *mask,
                                uint64_t mask_length, const void *places, uint64_t count, const void *payload, uint64_t length) {
    mmsb__redo_t change = {.is_delta = 1};
    change.delta.struct_size = sizeof change.delta;
    change.delta.kind = kind;
    change.delta.mask = mask;
    change.delta.mask_length = mask_length;
    change.delta.count = count;
    if (kind == MMSB_DELTA_RUNS) {
        change.delta.runs = places;
    } else if (kind == MMSB_DELTA_INDEXED + 2) { // MMSB__JOURNAL_INDEXED32
        change.delta.kind = MMSB_DELTA_INDEXED;
        change.delta.offsets32 = places;
    } else if (kind == MMSB_DELTA_INDEXED) {
        change.delta.offsets = places;
    }
    change.delta.payload = payload;
    change.delta.payload_length = length;
    return mmsb__redo(index, version, epoch, &change);
}
_Static_assert(MMSB_DELTA_INDEXED + 2 == MMSB__JOURNAL_INDEXED32, "the form of deltas with offsets of 32 bits");
static uint64_t redo_records(const mmsb__by_id_slot_t *slots, uint64_t capacity, uint64_t key, mmsb__redo_how_t how,
                             const void *records, uint64_t length, uint64_t *count) {
    mmsb__by_id_t pages = {slots, capacity, key};
    return mmsb__redo_records(&pages, how, records, length, count);
}
*/
import "C"

import "unsafe"

// RedoWrite writes bytes into a page that nobody else sees and whose version is below the given one, which it then has.
func RedoWrite(index uint32, version, epoch, offset uint64, bytes []byte) int32 {
	return int32(C.redo_write(C.uint32_t(index), C.uint64_t(version), C.uint64_t(epoch), C.uint64_t(offset),
		unsafe.Pointer(unsafe.SliceData(bytes)), C.uint64_t(len(bytes))))
}

// RedoDelta applies a delta, in a journal's form, in the same way.
func RedoDelta(index uint32, version, epoch uint64, form uint16, mask []byte, maskLength uint64, places []byte, count uint64,
	payload []byte) int32 {
	return int32(C.redo_delta(C.uint32_t(index), C.uint64_t(version), C.uint64_t(epoch), C.int32_t(form),
		unsafe.Pointer(unsafe.SliceData(mask)), C.uint64_t(maskLength), unsafe.Pointer(unsafe.SliceData(places)),
		C.uint64_t(count),
		unsafe.Pointer(unsafe.SliceData(payload)), C.uint64_t(len(payload))))
}

// Redo makes the changes of a journal's records that lie one behind the other, up to the first that is not bytes for a page with
// an address, or not as it must be. It returns how many were made, and how many bytes they are. Nobody else sees the pages.
func (p *ByID) Redo(records []byte) (count uint64, bytes int) {
	return p.redo(records, C.MMSB__REDO_UNSEEN)
}

// RedoLive is Redo for live pages that other calls do not change, up to the first, too, whose page may be needed as it was.
// moved: each change moves the version of its page by one, whatever its record says.
func (p *ByID) RedoLive(records []byte, moved bool) (count uint64, bytes int) {
	if moved {
		return p.redo(records, C.MMSB__REDO_MOVED)
	}
	return p.redo(records, C.MMSB__REDO_LIVE)
}

func (p *ByID) redo(records []byte, how C.mmsb__redo_how_t) (count uint64, bytes int) {
	var made C.uint64_t
	length := C.redo_records((*C.mmsb__by_id_slot_t)(unsafe.Pointer(unsafe.SliceData(p.slots))), C.uint64_t(len(p.slots)),
		C.uint64_t(p.key), how, unsafe.Pointer(unsafe.SliceData(records)), C.uint64_t(len(records)), &made)
	return uint64(made), int(length)
}
