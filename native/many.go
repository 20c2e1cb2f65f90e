package native

// Batches that Go changes: native/change.h locks their pages and journals their changes.

/*
#include "change.h"
*/
import "C"

import "unsafe"

// LockPages locks different pages together that Go changes as a whole, and keeps their pre-images; each is unlocked by
// UnlockRecord.
func LockPages(pages []uint64) (bad int, code int32) {
	var index C.size_t
	code = int32(C.mmsb__pages_lock_library((*C.mmsb_page_t)(unsafe.Pointer(unsafe.SliceData(pages))), C.size_t(len(pages)),
		&index))
	return int(index), code
}

// JournalResizes puts the records of resizes of pages that LockPages has locked, as one group, and lets them change from versions
// of the thread's groups. ok says whether ring has sequence to wait for.
func JournalResizes(pages, sizes []uint64) (ring Ring, sequence uint64, ok bool, code int32) {
	var last C.uint64_t
	code = int32(C.mmsb__pages_journal_resize((*C.mmsb_page_t)(unsafe.Pointer(unsafe.SliceData(pages))),
		(*C.uint64_t)(unsafe.Pointer(unsafe.SliceData(sizes))), C.size_t(len(pages)), &ring.ring, &last))
	return ring, uint64(last), ring.ring != nil, code
}
