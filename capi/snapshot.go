// The exports behind snapshot.c: saving, loading, and reading snapshot files.

package main

/*
#include "mmsb.h"
*/
import "C"

import (
	"unsafe"

	"libmmsb/core/file"
	"libmmsb/core/persist"
	"libmmsb/core/snapshot"
	"libmmsb/core/ticket"
)

// Saving.

func saveOptions(o *C.mmsb_save_options_t) persist.SaveOptions {
	return persist.SaveOptions{
		Compression: int32(o.compression), Level: int32(o.compression_level),
		RawWrites: int32(o.raw_writes), NotDurable: o.not_durable != 0, Queue: o.queue != 0, NotWatched: o.not_watched != 0,
		CopyLimit: uint64(o.copy_limit), ChainLimit: int32(o.chain_limit),
		RefuseInUse: o.base_in_use == C.MMSB_BASE_IN_USE_REFUSE, Base: pathOf(o.base),
	}
}

//export mmsbgo_writing_check
func mmsbgo_writing_check(context C.mmsb_context_t) (code C.mmsb_status_t) {
	defer guard(&code)
	return failed(persist.CheckWriting(uint64(context)))
}

//export mmsbgo_snapshot_save
func mmsbgo_snapshot_save(context C.mmsb_context_t, path *C.char, o *C.mmsb_save_options_t) (code C.mmsb_status_t) {
	defer guard(&code)
	return save(context, persist.ToPath(pathOf(path)), o)
}

// save saves within the time of the options.
func save(context C.mmsb_context_t, target persist.SaveTarget, o *C.mmsb_save_options_t) C.mmsb_status_t {
	return failed(persist.SaveWithin(uint64(context), target, saveOptions(o), uint64(o.timeout_ns)))
}

// startSave begins a save.
func startSave(context C.mmsb_context_t, target persist.SaveTarget, o *C.mmsb_save_options_t, work *C.mmsb_work_options_t,
	to *C.mmsb_ticket_t) C.mmsb_status_t {
	options := saveOptions(o)
	if err := persist.CheckSave(uint64(context), target, options); err != nil {
		return failed(err)
	}
	return startInTurn(context, options.Queue, work, to, func(w *ticket.Work, turn *persist.Turn) error {
		options.Turn = turn
		return persist.Save(uint64(context), target, options, w)
	})
}

//export mmsbgo_snapshot_save_start
func mmsbgo_snapshot_save_start(context C.mmsb_context_t, path *C.char, o *C.mmsb_save_options_t, work *C.mmsb_work_options_t,
	to *C.mmsb_ticket_t) (code C.mmsb_status_t) {
	defer guard(&code)
	return startSave(context, persist.ToPath(pathOf(path)), o, work, to)
}

//export mmsbgo_snapshot_save_descriptor
func mmsbgo_snapshot_save_descriptor(context C.mmsb_context_t, descriptor C.int32_t,
	o *C.mmsb_save_options_t) (code C.mmsb_status_t) {
	defer guard(&code)
	return save(context, persist.ToDescriptor(int32(descriptor)), o)
}

//export mmsbgo_snapshot_save_descriptor_start
func mmsbgo_snapshot_save_descriptor_start(context C.mmsb_context_t, descriptor C.int32_t, o *C.mmsb_save_options_t,
	work *C.mmsb_work_options_t, to *C.mmsb_ticket_t) (code C.mmsb_status_t) {
	defer guard(&code)
	return startSave(context, persist.ToDescriptor(int32(descriptor)), o, work, to)
}

//export mmsbgo_snapshot_save_memory
func mmsbgo_snapshot_save_memory(context C.mmsb_context_t, o *C.mmsb_save_options_t, memory *C.uintptr_t,
	length *C.uint64_t) (code C.mmsb_status_t) {
	defer guard(&code)
	var address uintptr
	var bytes uint64
	if code := save(context, persist.ToMemory(&address, &bytes), o); code != C.MMSB_OK {
		return code
	}
	*memory, *length = C.uintptr_t(address), C.uint64_t(bytes)
	return C.MMSB_OK
}

//export mmsbgo_snapshot_save_memory_start
func mmsbgo_snapshot_save_memory_start(context C.mmsb_context_t, o *C.mmsb_save_options_t, work *C.mmsb_work_options_t,
	memory *C.uintptr_t, length *C.uint64_t, to *C.mmsb_ticket_t) (code C.mmsb_status_t) {
	defer guard(&code)
	return startSave(context, persist.ToMemory((*uintptr)(unsafe.Pointer(memory)), (*uint64)(length)), o, work, to)
}

//export mmsbgo_snapshot_free_memory
func mmsbgo_snapshot_free_memory(memory C.uintptr_t) (code C.mmsb_status_t) {
	defer guard(&code)
	return failed(persist.FreeSaved(uintptr(memory)))
}

//export mmsbgo_context_save_stats
func mmsbgo_context_save_stats(context C.mmsb_context_t, stats *C.mmsb_save_stats_t) (code C.mmsb_status_t) {
	defer guard(&code)
	s, err := persist.GetSaveStats(uint64(context))
	if err != nil {
		return failed(err)
	}
	stats.saves = C.uint64_t(s.Saves)
	stats.last_pages = C.uint64_t(s.LastPages)
	stats.last_bytes = C.uint64_t(s.LastBytes)
	stats.last_duration_ns = C.uint64_t(s.LastDurationNs)
	stats.copied_bytes = C.uint64_t(s.CopiedBytes)
	stats.copied_peak = C.uint64_t(s.CopiedPeak)
	stats.waits = C.uint64_t(s.Waits)
	stats.waited_ns = C.uint64_t(s.WaitedNs)
	stats.compared_bytes = C.uint64_t(s.ComparedBytes)
	return C.MMSB_OK
}

// Loading.

func loadOptions(o *C.mmsb_load_options_t) persist.LoadOptions {
	return persist.LoadOptions{
		Lazy: o.mode == C.MMSB_LOAD_LAZY, InPlace: o.mode == C.MMSB_LOAD_IN_PLACE,
		JournalUntil: uint64(o.journal_until), JournalUntilTime: int64(o.journal_until_time_ns),
		JournalPage: uint64(o.journal_page), JournalEpoch: uint64(o.journal_epoch), ToHost: o.to_host != 0,
		Journal: pathOf(o.journal), IDs: numbers(o.page_ids, C.size_t(o.page_count)),
		Snapshot: *(*snapshot.ID)(unsafe.Pointer(&o.snapshot_id)),
	}
}

//export mmsbgo_snapshot_load
func mmsbgo_snapshot_load(context C.mmsb_context_t, path *C.char, o *C.mmsb_load_options_t) (code C.mmsb_status_t) {
	defer guard(&code)
	return load(context, persist.FromPath(pathOf(path)), o)
}

// load loads within the time of the options.
func load(context C.mmsb_context_t, source persist.LoadSource, o *C.mmsb_load_options_t) C.mmsb_status_t {
	return failed(persist.LoadWithin(uint64(context), source, loadOptions(o), nil, uint64(o.timeout_ns)))
}

// startLoad begins a load.
func startLoad(context C.mmsb_context_t, source persist.LoadSource, o *C.mmsb_load_options_t, work *C.mmsb_work_options_t,
	to *C.mmsb_ticket_t) C.mmsb_status_t {
	options := loadOptions(o)
	if err := persist.CheckLoad(uint64(context), source, options); err != nil {
		return failed(err)
	}
	return startInTurn(context, false, work, to, func(w *ticket.Work, turn *persist.Turn) error {
		options.Turn = turn
		return persist.Load(uint64(context), source, options, w)
	})
}

//export mmsbgo_snapshot_load_start
func mmsbgo_snapshot_load_start(context C.mmsb_context_t, path *C.char, o *C.mmsb_load_options_t, work *C.mmsb_work_options_t,
	to *C.mmsb_ticket_t) (code C.mmsb_status_t) {
	defer guard(&code)
	return startLoad(context, persist.FromPath(pathOf(path)), o, work, to)
}

//export mmsbgo_snapshot_load_descriptor
func mmsbgo_snapshot_load_descriptor(context C.mmsb_context_t, descriptor C.int32_t,
	o *C.mmsb_load_options_t) (code C.mmsb_status_t) {
	defer guard(&code)
	return load(context, persist.FromDescriptor(int32(descriptor)), o)
}

//export mmsbgo_snapshot_load_descriptor_start
func mmsbgo_snapshot_load_descriptor_start(context C.mmsb_context_t, descriptor C.int32_t, o *C.mmsb_load_options_t,
	work *C.mmsb_work_options_t, to *C.mmsb_ticket_t) (code C.mmsb_status_t) {
	defer guard(&code)
	return startLoad(context, persist.FromDescriptor(int32(descriptor)), o, work, to)
}

//export mmsbgo_snapshot_load_memory
func mmsbgo_snapshot_load_memory(context C.mmsb_context_t, memory C.uintptr_t, length C.uint64_t,
	o *C.mmsb_load_options_t) (code C.mmsb_status_t) {
	defer guard(&code)
	return load(context, persist.FromMemory(uintptr(memory), uint64(length)), o)
}

//export mmsbgo_snapshot_load_memory_start
func mmsbgo_snapshot_load_memory_start(context C.mmsb_context_t, memory C.uintptr_t, length C.uint64_t,
	o *C.mmsb_load_options_t, work *C.mmsb_work_options_t, to *C.mmsb_ticket_t) (code C.mmsb_status_t) {
	defer guard(&code)
	return startLoad(context, persist.FromMemory(uintptr(memory), uint64(length)), o, work, to)
}

// Reading files.

func onSnapshot(h C.mmsb_snapshot_t, call func(s *snapshot.Snapshot) error) C.mmsb_status_t {
	return failed(snapshot.Use(uint64(h), call))
}

//export mmsbgo_snapshot_open
func mmsbgo_snapshot_open(path *C.char, to *C.mmsb_snapshot_t) (code C.mmsb_status_t) {
	defer guard(&code)
	return failed(put(to)(snapshot.OpenHandle(pathOf(path), snapshot.OpenOptions{})))
}

//export mmsbgo_snapshot_close
func mmsbgo_snapshot_close(h C.mmsb_snapshot_t) (code C.mmsb_status_t) {
	defer guard(&code)
	return failed(snapshot.CloseHandle(uint64(h)))
}

//export mmsbgo_snapshot_info
func mmsbgo_snapshot_info(h C.mmsb_snapshot_t, info *C.mmsb_snapshot_info_t) (code C.mmsb_status_t) {
	defer guard(&code)
	return onSnapshot(h, func(s *snapshot.Snapshot) error {
		header, totals := s.Header(), s.Totals()
		info.format = C.uint32_t(header.Version)
		info.id, info.base = identity(header.ID), identity(header.Base)
		info.taken_ns = 0
		if !header.Taken.IsZero() {
			info.taken_ns = C.int64_t(header.Taken.UnixNano())
		}
		info.position = C.uint64_t(header.Position)
		line := &header.Lineage
		info.lineage = identity(line.ID)
		info.parent = identity(line.Parent.Lineage)
		info.fork = C.uint64_t(line.Parent.Position)
		info.pages = C.uint64_t(totals.StatePages)
		info.bytes = C.uint64_t(totals.StateBytes)
		info.file_pages = C.uint64_t(totals.Pages)
		info.file_bytes = C.uint64_t(totals.FileBytes)
		info.edges = C.uint64_t(totals.Edges)
		info.chain = C.uint32_t(len(s.Chain()))
		return nil
	})
}

func putPage(to *C.mmsb_snapshot_page_t, p *snapshot.Page) {
	*to = C.mmsb_snapshot_page_t{
		id: C.uint64_t(p.ID), size: C.uint64_t(p.Size), epoch: C.uint64_t(p.Epoch), version: C.uint64_t(p.Version),
		location: C.mmsb_location_t(p.Location), device: C.int32_t(p.Device), numa_node: C.int32_t(p.NUMANode),
		metadata_count: C.uint32_t(p.MetadataCount),
	}
}

//export mmsbgo_snapshot_find
func mmsbgo_snapshot_find(h C.mmsb_snapshot_t, id C.uint64_t, to *C.mmsb_snapshot_page_t) (code C.mmsb_status_t) {
	defer guard(&code)
	return onSnapshot(h, func(s *snapshot.Snapshot) error {
		p, err := s.Find(uint64(id))
		if err == nil {
			putPage(to, &p)
		}
		return err
	})
}

//export mmsbgo_snapshot_read
func mmsbgo_snapshot_read(h C.mmsb_snapshot_t, id, offset C.uint64_t, buffer unsafe.Pointer,
	length C.uint64_t) (code C.mmsb_status_t) {
	defer guard(&code)
	return onSnapshot(h, func(s *snapshot.Snapshot) error {
		return s.ReadAt(uint64(id), snapshot.KindBytes, bytes(buffer, C.size_t(length)), uint64(offset))
	})
}

//export mmsbgo_snapshot_view
func mmsbgo_snapshot_view(h C.mmsb_snapshot_t, id C.uint64_t, address *C.uintptr_t, length *C.uint64_t) (code C.mmsb_status_t) {
	defer guard(&code)
	return onSnapshot(h, func(s *snapshot.Snapshot) error {
		view, err := s.View(uint64(id))
		if err == nil {
			*address, *length = C.uintptr_t(uintptr(unsafe.Pointer(unsafe.SliceData(view)))), C.uint64_t(len(view))
		}
		return err
	})
}

//export mmsbgo_snapshot_metadata
func mmsbgo_snapshot_metadata(h C.mmsb_snapshot_t, id C.uint64_t, blob unsafe.Pointer, capacity C.size_t,
	length *C.size_t) (code C.mmsb_status_t) {
	defer guard(&code)
	return onSnapshot(h, func(s *snapshot.Snapshot) error {
		found, err := s.Metadata(uint64(id))
		if err != nil {
			return err
		}
		return list(found, bytes(blob, capacity), length)
	})
}

//export mmsbgo_snapshot_pages
func mmsbgo_snapshot_pages(h C.mmsb_snapshot_t, cursor *C.uint64_t, to *C.mmsb_snapshot_page_t, capacity C.size_t,
	count *C.size_t) (code C.mmsb_status_t) {
	defer guard(&code)
	return onSnapshot(h, func(s *snapshot.Snapshot) error {
		found := make([]snapshot.Page, min(int(capacity), pagesAtATime))
		n, next, err := s.PagesFrom(uint64(*cursor), found)
		if err != nil {
			return err
		}
		entries := array(to, C.size_t(n))
		for i := range entries {
			putPage(&entries[i], &found[i])
		}
		*cursor, *count = C.uint64_t(next), C.size_t(n)
		return nil
	})
}

// pagesAtATime bounds the memory of one call, whatever capacity it is given.
const pagesAtATime = 4096

//export mmsbgo_snapshot_dependencies
func mmsbgo_snapshot_dependencies(h C.mmsb_snapshot_t, to *C.mmsb_dependency_t, capacity C.size_t,
	count *C.size_t) (code C.mmsb_status_t) {
	defer guard(&code)
	return onSnapshot(h, func(s *snapshot.Snapshot) error {
		var found []C.mmsb_dependency_t
		for edge, err := range s.Edges() {
			if err != nil {
				return err
			}
			found = append(found, C.mmsb_dependency_t{parent: C.uint64_t(edge[0]), child: C.uint64_t(edge[1])})
		}
		return list(found, array(to, capacity), count)
	})
}

//export mmsbgo_snapshot_mask_read
func mmsbgo_snapshot_mask_read(h C.mmsb_snapshot_t, id, offset C.uint64_t, bits unsafe.Pointer,
	length C.uint64_t) (code C.mmsb_status_t) {
	defer guard(&code)
	return onSnapshot(h, func(s *snapshot.Snapshot) error {
		found, err := s.MaskBits(uint64(id), uint64(offset), uint64(length))
		if err == nil {
			copy(bytes(bits, C.size_t(len(found))), found)
		}
		return err
	})
}

// Whole files.

//export mmsbgo_snapshot_verify
func mmsbgo_snapshot_verify(path *C.char, work *C.mmsb_work_options_t) (code C.mmsb_status_t) {
	defer guard(&code)
	return failed(waitFor(work, verify(path)))
}

//export mmsbgo_snapshot_verify_start
func mmsbgo_snapshot_verify_start(path *C.char, work *C.mmsb_work_options_t, to *C.mmsb_ticket_t) (code C.mmsb_status_t) {
	defer guard(&code)
	return startWork(0, work, to, verify(path))
}

func verify(path *C.char) func(w *ticket.Work) error {
	name := pathOf(path)
	return func(w *ticket.Work) error {
		files := snapshot.OpenOptions{FS: file.Asking(file.OS{}, w.GoesOn)}
		_, err := snapshot.Verify(name, snapshot.VerifyOptions{OpenOptions: files, Progress: w.Report})
		return err
	}
}

//export mmsbgo_snapshot_diff
func mmsbgo_snapshot_diff(older, newer C.mmsb_snapshot_t, work *C.mmsb_work_options_t, to *C.mmsb_snapshot_change_t,
	capacity C.size_t, count *C.size_t) (code C.mmsb_status_t) {
	defer guard(&code)
	return failed(waitFor(work, func(w *ticket.Work) error {
		return onBoth(older, newer, func(a, b *snapshot.Snapshot) error { return diff(a, b, w, array(to, capacity), count) })
	}))
}

//export mmsbgo_snapshot_diff_start
func mmsbgo_snapshot_diff_start(older, newer C.mmsb_snapshot_t, work *C.mmsb_work_options_t, to *C.mmsb_snapshot_change_t,
	capacity C.size_t, count *C.size_t, ticketTo *C.mmsb_ticket_t) (code C.mmsb_status_t) {
	defer guard(&code)
	if err := onBoth(older, newer, func(_, _ *snapshot.Snapshot) error { return nil }); err != nil {
		return failed(err)
	}
	return startWork(0, work, ticketTo, func(w *ticket.Work) error {
		return onBoth(older, newer, func(a, b *snapshot.Snapshot) error { return diff(a, b, w, array(to, capacity), count) })
	})
}

func onBoth(older, newer C.mmsb_snapshot_t, call func(a, b *snapshot.Snapshot) error) error {
	return snapshot.Use(uint64(older), func(a *snapshot.Snapshot) error {
		return snapshot.Use(uint64(newer), func(b *snapshot.Snapshot) error { return call(a, b) })
	})
}

func diff(a, b *snapshot.Snapshot, w *ticket.Work, to []C.mmsb_snapshot_change_t, count *C.size_t) error {
	var changes []C.mmsb_snapshot_change_t
	for d, err := range snapshot.Diff(a, b, w.Report) {
		if err != nil {
			return err
		}
		changes = append(changes, C.mmsb_snapshot_change_t{id: C.uint64_t(d.ID), change: C.int32_t(d.Code())})
	}
	return list(changes, to, count)
}

//export mmsbgo_snapshot_compact
func mmsbgo_snapshot_compact(path, to *C.char, o *C.mmsb_save_options_t) (code C.mmsb_status_t) {
	defer guard(&code)
	return failed(waitWithin(uint64(o.timeout_ns), nil, compact(path, to, o)))
}

//export mmsbgo_snapshot_compact_start
func mmsbgo_snapshot_compact_start(path, to *C.char, o *C.mmsb_save_options_t, work *C.mmsb_work_options_t,
	ticketTo *C.mmsb_ticket_t) (code C.mmsb_status_t) {
	defer guard(&code)
	return startWork(0, work, ticketTo, compact(path, to, o))
}

func compact(path, to *C.char, o *C.mmsb_save_options_t) func(w *ticket.Work) error {
	from, target, replace := pathOf(path), pathOf(to), snapshot.ReplaceOptions{
		Options: file.Options{Durable: o.not_durable == 0}, RefuseInUse: o.base_in_use == C.MMSB_BASE_IN_USE_REFUSE,
	}
	return func(w *ticket.Work) error {
		files := snapshot.OpenOptions{FS: file.Asking(file.OS{}, w.GoesOn)}
		replace.Done = w.Asked()
		o := snapshot.CompactOptions{OpenOptions: files, Replace: replace, Progress: w.Report}
		_, err := snapshot.Compact(from, target, o)
		return err
	}
}
