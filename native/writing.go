package native

/*
#include "writing.h"
*/
import "C"

import "unsafe"

// Lets is what a context lets raw writers begin: native/writing.h.
type Lets uint32

// What it is.
const (
	LetsAll     Lets = C.MMSB__WRITING_FREE
	LetsMore    Lets = C.MMSB__WRITING_HELD
	LetsNothing Lets = C.MMSB__WRITING_STOPPED
	LetsPins    Lets = C.MMSB__WRITING_KEPT
)

// HoldWriters is LetWrite of LetsMore, which comes first. The code is an error.
func HoldWriters(context uint32) int32 { return int32(C.mmsb__writing_hold(C.uint32_t(context))) }

// LetWrite says what a context lets raw writers begin from now on. It takes no lock of a page.
func LetWrite(context uint32, lets Lets) { C.mmsb__writing_set(C.uint32_t(context), C.uint32_t(lets)) }

// WritingSections is how many sections of a context are open.
func WritingSections(context uint32) uint32 {
	return uint32(C.mmsb__writing_sections(C.uint32_t(context)))
}

// OwnWriting is how many sections and write pins of a context the calling thread may have.
func OwnWriting(context uint32) uint32 { return uint32(C.mmsb__writing_own(C.uint32_t(context))) }

// WritingPasses counts what threads have begun beside what they had, while others were held.
func WritingPasses(context uint32) uint32 { return uint32(C.mmsb__writing_passes(C.uint32_t(context))) }

// FindWritePin finds a page that is pinned for writing, from a place on: records of all leaves are counted one after the other.
func FindWritePin(leaves, used []uint32, from uint64) (at uint64, found bool) {
	at = from
	found = C.mmsb__writing_find((*C.uint32_t)(unsafe.SliceData(leaves)), (*C.uint32_t)(unsafe.SliceData(used)),
		C.uint32_t(len(leaves)), (*C.uint64_t)(&at)) != 0
	return at, found
}
