// The exports behind store.c.

package main

/*
#include "mmsb.h"
*/
import "C"

import (
	"libmmsb/core/file"
	"libmmsb/core/keeper"
	"libmmsb/core/snapshot"
	"libmmsb/core/store"
	"libmmsb/core/ticket"
)

func storeOptions(o *C.mmsb_store_options_t) keeper.Options {
	return keeper.Options{
		At: store.At{Record: uint64(o.at_record), Time: int64(o.at_time_ns), Name: C.GoString(o.at_name)}, Mode: int32(o.mode),
		Lazy: o.load == C.MMSB_LOAD_LAZY, Durability: int32(o.durability), IntervalMs: uint32(o.interval_ms),
		SegmentBytes: uint64(o.segment_bytes), SaveBytes: uint64(o.save_bytes), SaveInterval: uint64(o.save_interval_ns),
		SpaceWait: uint64(o.space_wait_ns),
		Retention: store.Retention{Last: int(o.keep_last), Hourly: int(o.keep_hourly), Daily: int(o.keep_daily), Branches: true},
	}
}

//export mmsbgo_store_open
func mmsbgo_store_open(directory *C.char, c *C.mmsb_context_options_t, o *C.mmsb_store_options_t,
	context *C.mmsb_context_t) (code C.mmsb_status_t) {
	defer guard(&code)
	start()
	name, of, options := pathOf(directory), contextOptions(c), storeOptions(o)
	return failed(waitWithin(uint64(o.timeout_ns), nil, func(w *ticket.Work) error {
		return put(context)(keeper.Open(name, of, options, w))
	}))
}

//export mmsbgo_store_open_start
func mmsbgo_store_open_start(directory *C.char, c *C.mmsb_context_options_t, o *C.mmsb_store_options_t,
	work *C.mmsb_work_options_t, context *C.mmsb_context_t, to *C.mmsb_ticket_t) (code C.mmsb_status_t) {
	defer guard(&code)
	start()
	name, of, options := pathOf(directory), contextOptions(c), storeOptions(o)
	if err := options.Check(name); err != nil {
		return failed(err)
	}
	return startWork(0, work, to, func(w *ticket.Work) error {
		opened, err := keeper.Open(name, of, options, w)
		*context = C.mmsb_context_t(opened)
		return err
	})
}

//export mmsbgo_store_save
func mmsbgo_store_save(context C.mmsb_context_t, whole C.int32_t, work *C.mmsb_work_options_t) (code C.mmsb_status_t) {
	defer guard(&code)
	return failed(waitFor(work, func(w *ticket.Work) error { return keeper.Save(uint64(context), whole != 0, w) }))
}

//export mmsbgo_store_save_start
func mmsbgo_store_save_start(context C.mmsb_context_t, whole C.int32_t, work *C.mmsb_work_options_t,
	to *C.mmsb_ticket_t) (code C.mmsb_status_t) {
	defer guard(&code)
	if err := keeper.CheckSave(uint64(context)); err != nil {
		return failed(err)
	}
	return startWork(0, work, to, func(w *ticket.Work) error { return keeper.Save(uint64(context), whole != 0, w) })
}

//export mmsbgo_store_name
func mmsbgo_store_name(context C.mmsb_context_t, name *C.char, work *C.mmsb_work_options_t) (code C.mmsb_status_t) {
	defer guard(&code)
	wanted := C.GoString(name)
	return failed(waitFor(work, func(w *ticket.Work) error { return keeper.SetName(uint64(context), wanted, w) }))
}

//export mmsbgo_store_name_start
func mmsbgo_store_name_start(context C.mmsb_context_t, name *C.char, work *C.mmsb_work_options_t,
	to *C.mmsb_ticket_t) (code C.mmsb_status_t) {
	defer guard(&code)
	wanted := C.GoString(name)
	if err := keeper.CheckSetName(uint64(context), wanted); err != nil {
		return failed(err)
	}
	return startWork(0, work, to, func(w *ticket.Work) error { return keeper.SetName(uint64(context), wanted, w) })
}

//export mmsbgo_store_unname
func mmsbgo_store_unname(context C.mmsb_context_t, name *C.char, work *C.mmsb_work_options_t) (code C.mmsb_status_t) {
	defer guard(&code)
	unwanted := C.GoString(name)
	return failed(waitFor(work, func(w *ticket.Work) error { return keeper.RemoveName(uint64(context), unwanted, w) }))
}

//export mmsbgo_store_info
func mmsbgo_store_info(context C.mmsb_context_t, info *C.mmsb_store_info_t) (code C.mmsb_status_t) {
	defer guard(&code)
	found, err := keeper.GetInfo(uint64(context))
	if err == nil {
		info.snapshots, info.snapshot_bytes = C.uint64_t(found.Snapshots), C.uint64_t(found.SnapshotBytes)
		info.journal_bytes = C.uint64_t(found.Journal.Bytes)
		info.first_record, info.last_record = C.uint64_t(found.Journal.First), C.uint64_t(found.Journal.Last)
		info.unsaved_bytes = C.uint64_t(found.Unsaved)
		info.saves, info.whole_saves = C.uint64_t(found.Saves), C.uint64_t(found.WholeSaves)
		info.failed_saves, info.saved_bytes = C.uint64_t(found.FailedSaves), C.uint64_t(found.SavedBytes)
		info.last_save_ns = C.int64_t(found.LastSave)
		info.pruned, info.pruned_bytes = C.uint64_t(found.Pruned), C.uint64_t(found.PrunedBytes)
		info.followed_ns, info.reloads = C.int64_t(found.Following.AppliedAt), C.uint64_t(found.Following.Reloads)
		info.follow_failures = C.uint64_t(found.Following.Failures)
		info.waits, info.waited_ns = C.uint64_t(found.Journal.Waits.Count), C.uint64_t(found.Journal.Waits.Waited)
	}
	return failed(err)
}

//export mmsbgo_store_wait
func mmsbgo_store_wait(context C.mmsb_context_t, record C.uint64_t, work *C.mmsb_work_options_t) (code C.mmsb_status_t) {
	defer guard(&code)
	if err := keeper.CheckWait(uint64(context)); err != nil {
		return failed(err)
	}
	return failed(waitFor(work, func(w *ticket.Work) error { return keeper.Wait(uint64(context), uint64(record), w) }))
}

//export mmsbgo_store_wait_start
func mmsbgo_store_wait_start(context C.mmsb_context_t, record C.uint64_t, work *C.mmsb_work_options_t,
	to *C.mmsb_ticket_t) (code C.mmsb_status_t) {
	defer guard(&code)
	if err := keeper.CheckWait(uint64(context)); err != nil {
		return failed(err)
	}
	return startWork(0, work, to, func(w *ticket.Work) error { return keeper.Wait(uint64(context), uint64(record), w) })
}

//export mmsbgo_store_points
func mmsbgo_store_points(directory *C.char, to *C.mmsb_store_point_t, capacity C.size_t,
	count *C.size_t) (code C.mmsb_status_t) {
	defer guard(&code)
	found, err := store.Look(file.OS{}, pathOf(directory))
	if err != nil {
		return failed(err)
	}
	return failed(listOf(found.Points, to, capacity, count, func(to *C.mmsb_store_point_t, p *store.Point) {
		*to = C.mmsb_store_point_t{
			id: identity(p.ID), lineage: identity(p.Lineage.ID),
			position: C.uint64_t(p.Position), taken_ns: C.int64_t(p.Taken.UnixNano()), bytes: C.uint64_t(p.Bytes),
			whole: number(p.Base.Header.Base == snapshot.ID{}), on_line: number(p.OnLine), leads: number(p.Leads),
			names: C.int32_t(len(p.Names)),
		}
		if len(p.Names) > 0 {
			putText(&to.name[0], C.size_t(len(to.name)), p.Names[0])
		}
	}))
}
