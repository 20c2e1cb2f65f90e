// The exports behind journal.c.

package main

/*
#include "mmsb.h"
*/
import "C"

import (
	"libmmsb/core/persist"
	"libmmsb/core/ticket"
)

func journalOptions(o *C.mmsb_journal_options_t) persist.JournalOptions {
	return persist.JournalOptions{
		Durability: int32(o.durability), IntervalMs: uint32(o.interval_ms), SegmentBytes: uint64(o.segment_bytes),
		Keep: o.keep != 0, RefuseBase: o.base == C.MMSB_JOURNAL_BASE_REFUSE,
	}
}

//export mmsbgo_journal_open
func mmsbgo_journal_open(context C.mmsb_context_t, directory *C.char, o *C.mmsb_journal_options_t) (code C.mmsb_status_t) {
	defer guard(&code)
	name, options := C.GoString(directory), journalOptions(o)
	return failed(waitFor(uint64(o.timeout_ns), nil, func(w *ticket.Work) error {
		return persist.OpenJournal(uint64(context), name, options, w)
	}))
}

//export mmsbgo_journal_open_start
func mmsbgo_journal_open_start(context C.mmsb_context_t, directory *C.char, o *C.mmsb_journal_options_t,
	work *C.mmsb_work_options_t, to *C.mmsb_ticket_t) (code C.mmsb_status_t) {
	defer guard(&code)
	name, options := C.GoString(directory), journalOptions(o)
	if err := persist.CheckJournal(uint64(context), name, options); err != nil {
		return failed(err)
	}
	return startWork(0, work, to, func(w *ticket.Work) error {
		return persist.OpenJournal(uint64(context), name, options, w)
	})
}

// onJournal begins work on the journal that a context has.
func onJournal(context C.mmsb_context_t, work *C.mmsb_work_options_t, to *C.mmsb_ticket_t,
	run func(w *ticket.Work) error) C.mmsb_status_t {
	if err := persist.CheckHasJournal(uint64(context)); err != nil {
		return failed(err)
	}
	return startWork(0, work, to, run)
}

//export mmsbgo_journal_sync
func mmsbgo_journal_sync(context C.mmsb_context_t, work *C.mmsb_work_options_t) (code C.mmsb_status_t) {
	defer guard(&code)
	return failed(waitFor(timeoutOf(work), work, func(w *ticket.Work) error {
		return persist.SyncJournal(uint64(context), w)
	}))
}

//export mmsbgo_journal_sync_start
func mmsbgo_journal_sync_start(context C.mmsb_context_t, work *C.mmsb_work_options_t, to *C.mmsb_ticket_t) (code C.mmsb_status_t) {
	defer guard(&code)
	return onJournal(context, work, to, func(w *ticket.Work) error { return persist.SyncJournal(uint64(context), w) })
}

//export mmsbgo_journal_close
func mmsbgo_journal_close(context C.mmsb_context_t) (code C.mmsb_status_t) {
	defer guard(&code)
	return failed(persist.CloseJournal(uint64(context)))
}

//export mmsbgo_journal_trim
func mmsbgo_journal_trim(context C.mmsb_context_t, snapshot *C.char, work *C.mmsb_work_options_t) (code C.mmsb_status_t) {
	defer guard(&code)
	name := C.GoString(snapshot)
	return failed(waitFor(timeoutOf(work), work, func(w *ticket.Work) error {
		return persist.TrimJournal(uint64(context), name, w)
	}))
}

//export mmsbgo_journal_trim_start
func mmsbgo_journal_trim_start(context C.mmsb_context_t, snapshot *C.char, work *C.mmsb_work_options_t,
	to *C.mmsb_ticket_t) (code C.mmsb_status_t) {
	defer guard(&code)
	name := C.GoString(snapshot)
	return onJournal(context, work, to, func(w *ticket.Work) error { return persist.TrimJournal(uint64(context), name, w) })
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
