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
static uint64_t redo_records(const mmsb__redo_slot_t *slots, uint64_t capacity, uint64_t factor, mmsb__redo_how_t how,
                             const void *records, uint64_t length, uint64_t *count) {
    mmsb__redo_pages_t pages = {slots, capacity, factor};
    return mmsb__redo_records(&pages, how, records, length, count);
}
*/
import "C"

import (
	"math/rand/v2"
	"unsafe"
)

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

// RedoPages are the pages of a replay: the indices of their records by id. No id is 0.
type RedoPages struct {
	slots  []redoSlot // a power of two, at most half of them in use
	used   int
	factor uint64
}

type redoSlot struct{ id, index uint64 }

// NewRedoPages makes an empty table with space for so many pages. It grows.
func NewRedoPages(pages int) *RedoPages {
	capacity := 16
	for capacity < 2*pages {
		capacity *= 2
	}
	return &RedoPages{slots: make([]redoSlot, capacity), factor: rand.Uint64() | 1}
}

// begin is where the search for an id begins; ids that a file chose cannot know it.
func (p *RedoPages) begin(id uint64) int { return int(id * p.factor >> 32 & uint64(len(p.slots)-1)) }

// at is the slot of an id, or the free one where it would be.
func (p *RedoPages) at(id uint64) int {
	at := p.begin(id)
	for p.slots[at].id != 0 && p.slots[at].id != id {
		at = (at + 1) & (len(p.slots) - 1)
	}
	return at
}

// Find is the page with an id.
func (p *RedoPages) Find(id uint64) (index uint32, ok bool) {
	slot := p.slots[p.at(id)]
	return uint32(slot.index), slot.id != 0
}

// Put takes a page in.
func (p *RedoPages) Put(id uint64, index uint32) {
	if 2*(p.used+1) > len(p.slots) {
		old := p.slots
		p.slots, p.used = make([]redoSlot, 2*len(old)), 0
		for _, slot := range old {
			if slot.id != 0 {
				p.Put(slot.id, uint32(slot.index))
			}
		}
	}
	at := p.at(id)
	if p.slots[at].id == 0 {
		p.used++
	}
	p.slots[at] = redoSlot{id, uint64(index)}
}

// Remove takes a page out. Those behind it that were pushed on move up, so that a search finds them.
func (p *RedoPages) Remove(id uint64) {
	gap, last := p.at(id), len(p.slots)-1
	if p.slots[gap].id == 0 {
		return
	}
	p.used--
	for at := (gap + 1) & last; p.slots[at].id != 0; at = (at + 1) & last {
		if (at-p.begin(p.slots[at].id))&last >= (at-gap)&last {
			p.slots[gap], gap = p.slots[at], at
		}
	}
	p.slots[gap] = redoSlot{}
}

// All calls visit with each page.
func (p *RedoPages) All(visit func(id uint64, index uint32)) {
	for _, slot := range p.slots {
		if slot.id != 0 {
			visit(slot.id, uint32(slot.index))
		}
	}
}

// Redo makes the changes of a journal's records that lie one behind the other, up to the first that is not bytes for a page with
// an address, or not as it must be. It returns how many were made, and how many bytes they are. Nobody else sees the pages.
func (p *RedoPages) Redo(records []byte) (count uint64, bytes int) {
	return p.redo(records, C.MMSB__REDO_UNSEEN)
}

// RedoLive is Redo for live pages that other calls do not change, up to the first, too, whose page may be needed as it was.
// moved: each change moves the version of its page by one, whatever its record says.
func (p *RedoPages) RedoLive(records []byte, moved bool) (count uint64, bytes int) {
	if moved {
		return p.redo(records, C.MMSB__REDO_MOVED)
	}
	return p.redo(records, C.MMSB__REDO_LIVE)
}

func (p *RedoPages) redo(records []byte, how C.mmsb__redo_how_t) (count uint64, bytes int) {
	var made C.uint64_t
	length := C.redo_records((*C.mmsb__redo_slot_t)(unsafe.Pointer(unsafe.SliceData(p.slots))), C.uint64_t(len(p.slots)),
		C.uint64_t(p.factor), how, unsafe.Pointer(unsafe.SliceData(records)), C.uint64_t(len(records)), &made)
	return uint64(made), int(length)
}
