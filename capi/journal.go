// The exports behind journal.c.

package main

/*
#include "mmsb.h"
*/
import "C"

import (
	"libmmsb/core/persist"
)

//export mmsbgo_journal_open
func mmsbgo_journal_open(context C.mmsb_context_t, directory *C.char, o *C.mmsb_journal_options_t) (code C.mmsb_status_t) {
	defer guard(&code)
	return failed(persist.OpenJournal(uint64(context), C.GoString(directory), persist.JournalOptions{
		Durability: int32(o.durability), IntervalMs: uint32(o.interval_ms), SegmentBytes: uint64(o.segment_bytes),
		Keep: o.keep != 0, RefuseBase: o.base == C.MMSB_JOURNAL_BASE_REFUSE,
	}))
}

//export mmsbgo_journal_sync
func mmsbgo_journal_sync(context C.mmsb_context_t) (code C.mmsb_status_t) {
	defer guard(&code)
	return failed(persist.SyncJournal(uint64(context)))
}

//export mmsbgo_journal_close
func mmsbgo_journal_close(context C.mmsb_context_t) (code C.mmsb_status_t) {
	defer guard(&code)
	return failed(persist.CloseJournal(uint64(context)))
}

//export mmsbgo_journal_trim
func mmsbgo_journal_trim(context C.mmsb_context_t, snapshot *C.char) (code C.mmsb_status_t) {
	defer guard(&code)
	return failed(persist.TrimJournal(uint64(context), C.GoString(snapshot)))
}

//export mmsbgo_journal_info
func mmsbgo_journal_info(context C.mmsb_context_t, info *C.mmsb_journal_info_t) (code C.mmsb_status_t) {
	defer guard(&code)
	found, err := persist.GetJournalInfo(uint64(context))
	if err == nil {
		info.segments = C.uint32_t(found.Segments)
		info.first, info.last = C.uint64_t(found.First), C.uint64_t(found.Last)
		info.synced, info.bytes = C.uint64_t(found.Synced), C.uint64_t(found.Bytes)
	}
	return failed(err)
}
