// The exports behind journal.c.

package main

/*
#include "mmsb.h"
*/
import "C"

import (
	"libmmsb/core/abi"
	"libmmsb/core/file"
	"libmmsb/core/journal"
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
	name, options := pathOf(directory), journalOptions(o)
	return failed(waitWithin(uint64(o.timeout_ns), nil, func(w *ticket.Work) error {
		return persist.OpenJournal(uint64(context), name, options, w)
	}))
}

//export mmsbgo_journal_open_start
func mmsbgo_journal_open_start(context C.mmsb_context_t, directory *C.char, o *C.mmsb_journal_options_t,
	work *C.mmsb_work_options_t, to *C.mmsb_ticket_t) (code C.mmsb_status_t) {
	defer guard(&code)
	name, options := pathOf(directory), journalOptions(o)
	if err := persist.CheckJournal(uint64(context), name, options); err != nil {
		return failed(err)
	}
	return startWork(0, work, to, func(w *ticket.Work) error { return persist.OpenJournal(uint64(context), name, options, w) })
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
	return failed(waitFor(work, func(w *ticket.Work) error { return persist.SyncJournal(uint64(context), w) }))
}

//export mmsbgo_journal_sync_start
func mmsbgo_journal_sync_start(context C.mmsb_context_t, work *C.mmsb_work_options_t,
	to *C.mmsb_ticket_t) (code C.mmsb_status_t) {
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
	name := pathOf(snapshot)
	return failed(waitFor(work, func(w *ticket.Work) error { return persist.TrimJournal(uint64(context), name, w) }))
}

//export mmsbgo_journal_trim_start
func mmsbgo_journal_trim_start(context C.mmsb_context_t, snapshot *C.char, work *C.mmsb_work_options_t,
	to *C.mmsb_ticket_t) (code C.mmsb_status_t) {
	defer guard(&code)
	name := pathOf(snapshot)
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
		info.waits, info.waited_ns = C.uint64_t(found.Waits.Count), C.uint64_t(found.Waits.Waited)
		info.space_waited_ns = C.uint64_t(found.Waits.SpaceWaited)
	}
	return failed(err)
}

// Reading directories.

// beside opens a directory that a process may be writing, for what reads it.
func beside(directory *C.char, read func(j *journal.Journal) error) error {
	path := pathOf(directory)
	return journal.Beside(file.OS{}, path, func() error {
		found, err := journal.Open(file.OS{}, path)
		if err != nil {
			return err
		}
		return read(found)
	})
}

//export mmsbgo_journal_directory
func mmsbgo_journal_directory(directory *C.char, to *C.mmsb_journal_directory_t) (code C.mmsb_status_t) {
	defer guard(&code)
	var found *journal.Journal
	var firstTime, lastTime int64
	err := beside(directory, func(j *journal.Journal) (err error) {
		found = j
		firstTime, lastTime, err = j.Times()
		return err
	})
	if err != nil {
		return failed(err)
	}
	info := found.Info()
	line := &info.Lineage
	to.closed = number(info.Closed)
	to.lineage = identity(line.ID)
	to.parent = identity(line.Parent.Lineage)
	to.fork = C.uint64_t(line.Parent.Position)
	to.branch, to.branches = C.uint64_t(info.Branch), C.uint64_t(info.Branches)
	to.segments = C.uint64_t(len(info.Segments))
	to.first, to.last = C.uint64_t(info.First), C.uint64_t(info.Last)
	to.first_time_ns, to.last_time_ns = C.int64_t(firstTime), C.int64_t(lastTime)
	to.torn_bytes = C.uint64_t(info.TornBytes)
	return C.MMSB_OK
}

//export mmsbgo_journal_segments
func mmsbgo_journal_segments(directory *C.char, to *C.mmsb_journal_segment_t, capacity C.size_t,
	count *C.size_t) (code C.mmsb_status_t) {
	defer guard(&code)
	var known []journal.SegmentInfo
	err := beside(directory, func(j *journal.Journal) error {
		known = j.Info().Segments
		return nil
	})
	if err != nil {
		return failed(err)
	}
	return failed(listOf(known, to, capacity, count, func(to *C.mmsb_journal_segment_t, s *journal.SegmentInfo) {
		to.first, to.last, to.bytes = C.uint64_t(s.First), C.uint64_t(s.Last), C.uint64_t(s.Bytes)
		to.created_ns, to.based = C.int64_t(s.Created), number(s.Based)
		putText(&to.name[0], C.size_t(len(to.name)), s.Name)
	}))
}

//export mmsbgo_journal_records
func mmsbgo_journal_records(directory *C.char, next *C.uint64_t, to *C.mmsb_journal_record_t, capacity C.size_t,
	count *C.size_t) (code C.mmsb_status_t) {
	defer guard(&code)
	var from uint64
	var n int
	records := array(to, capacity)
	err := beside(directory, func(j *journal.Journal) error {
		from, n = uint64(*next), 0
		for record, err := range j.RecordsFrom(from) {
			if err != nil {
				return err
			}
			putRecord(&records[n], record)
			from = record.Sequence + 1
			if n++; n == len(records) {
				break
			}
		}
		return nil
	})
	if err != nil {
		return failed(err)
	}
	*next, *count = C.uint64_t(from), C.size_t(n)
	return C.MMSB_OK
}

func putRecord(to *C.mmsb_journal_record_t, r *journal.Record) {
	*to = C.mmsb_journal_record_t{
		record: C.uint64_t(r.Sequence), group: C.uint64_t(r.Group), time_ns: C.int64_t(r.Time), page: C.uint64_t(r.Page),
		version: C.uint64_t(r.Version), epoch: C.uint64_t(r.Epoch), size: C.uint64_t(r.Size), offset: C.uint64_t(r.Offset),
		other: C.uint64_t(r.Other), other_version: C.uint64_t(r.OtherVersion), kind: C.int32_t(r.Kind),
		location: C.mmsb_location_t(r.Location), device: C.int32_t(r.Device), numa_node: C.int32_t(r.NUMANode),
		form: C.int32_t(r.Form), adopted: number(r.State&1 != 0), read_only: number(r.State&2 != 0),
	}
	switch r.Kind {
	case journal.Write, journal.Run, journal.Delta, journal.MetadataImport:
		to.bytes = C.uint64_t(len(r.Bytes))
	case journal.MetadataSet:
		to.bytes = C.uint64_t(len(r.Value))
	}
	if r.Form == journal.Indexed32 {
		to.form = abi.DeltaIndexed
	}
	putText(&to.key[0], C.size_t(len(to.key)), string(r.Key))
	putText(&to.source[0], C.size_t(len(to.source)), string(r.Source))
	putText(&to.intent[0], C.size_t(len(to.intent)), string(r.Intent))
}
