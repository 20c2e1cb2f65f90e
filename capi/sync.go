// The exports behind page.c for pages in two places.

package main

/*
#include "mmsb.h"
*/
import "C"

import (
	"slices"
	"unsafe"

	"libmmsb/core/page"
	"libmmsb/core/ticket"
)

//export mmsbgo_page_sync
func mmsbgo_page_sync(of C.mmsb_page_t, direction C.mmsb_sync_t, device C.int32_t) (code C.mmsb_status_t) {
	defer guard(&code)
	err := page.CheckSync(int32(direction), int32(device))
	if err == nil {
		_, err = page.SyncMany([]uint64{uint64(of)}, page.Direction(direction), int32(device), nil, nil)
	}
	return failed(err)
}

//export mmsbgo_page_sync_many
func mmsbgo_page_sync_many(of *C.mmsb_page_t, count C.size_t, direction C.mmsb_sync_t, device C.int32_t,
	work *C.mmsb_work_options_t, statuses *C.mmsb_status_t, bad *C.size_t) (code C.mmsb_status_t) {
	defer guard(&code)
	index, err := page.CheckSyncMany(pages(of, count), int32(direction), int32(device))
	if err == nil {
		results := codes(statuses, count)
		err = waitOnPages(results, work, func(w *ticket.Work) (err error) {
			index, err = page.SyncMany(pages(of, count), page.Direction(direction), int32(device), results, w)
			return err
		})
	}
	badIndex(bad, index, err)
	return failed(err)
}

//export mmsbgo_page_sync_many_start
func mmsbgo_page_sync_many_start(of *C.mmsb_page_t, count C.size_t, direction C.mmsb_sync_t, device C.int32_t,
	work *C.mmsb_work_options_t, statuses *C.mmsb_status_t, to *C.mmsb_ticket_t) (code C.mmsb_status_t) {
	defer guard(&code)
	synced := slices.Clone(pages(of, count))
	if _, err := page.CheckSyncMany(synced, int32(direction), int32(device)); err != nil {
		return failed(err)
	}
	results := codes(statuses, count)
	return startOnPages(results, uint64(count), work, to, func(w *ticket.Work) error {
		_, err := page.SyncMany(synced, page.Direction(direction), int32(device), results, w)
		return err
	})
}

//export mmsbgo_page_sync_enqueue
func mmsbgo_page_sync_enqueue(of *C.mmsb_page_t, count C.size_t, direction C.mmsb_sync_t, device C.int32_t,
	bad *C.size_t) (code C.mmsb_status_t) {
	defer guard(&code)
	index, err := 0, page.CheckSync(int32(direction), int32(device))
	if err == nil {
		index, err = page.SyncLater(pages(of, count), page.Direction(direction), int32(device))
	}
	badIndex(bad, index, err)
	return failed(err)
}

//export mmsbgo_context_sync_drain
func mmsbgo_context_sync_drain(context C.mmsb_context_t, work *C.mmsb_work_options_t, synced *C.uint64_t) (code C.mmsb_status_t) {
	defer guard(&code)
	return failed(counting(synced, work, func(w *ticket.Work) (count uint64, err error) {
		err = page.Use(uint64(context), func(c *page.Context) error {
			count, err = c.Drain(w)
			return err
		})
		return count, err
	}))
}

//export mmsbgo_context_prefetch
func mmsbgo_context_prefetch(context C.mmsb_context_t, of *C.uint64_t, count C.size_t, device C.int32_t,
	work *C.mmsb_work_options_t, synced *C.uint64_t) (code C.mmsb_status_t) {
	defer guard(&code)
	if err := page.CheckSync(int32(page.ToDevice), int32(device)); err != nil {
		return failed(err)
	}
	return failed(counting(synced, work, func(w *ticket.Work) (uint64, error) {
		return prefetch(context, numbers(of, count), device, w)
	}))
}

//export mmsbgo_context_prefetch_start
func mmsbgo_context_prefetch_start(context C.mmsb_context_t, of *C.uint64_t, count C.size_t, device C.int32_t,
	work *C.mmsb_work_options_t, to *C.mmsb_ticket_t) (code C.mmsb_status_t) {
	defer guard(&code)
	err := page.CheckSync(int32(page.ToDevice), int32(device))
	if err == nil {
		err = page.Use(uint64(context), func(*page.Context) error { return nil })
	}
	if err != nil {
		return failed(err)
	}
	ids := numbers(of, count)
	return startWork(uint64(count), work, to, func(w *ticket.Work) error {
		_, err := prefetch(context, ids, device, w)
		return err
	})
}

func prefetch(context C.mmsb_context_t, ids []uint64, device C.int32_t, w *ticket.Work) (synced uint64, err error) {
	err = page.Use(uint64(context), func(c *page.Context) error {
		synced, err = c.Prefetch(ids, int32(device), w)
		return err
	})
	return synced, err
}

// counting runs work that its call waits for, and gives the caller what it counts, where that is asked for.
func counting(to *C.uint64_t, work *C.mmsb_work_options_t, run func(w *ticket.Work) (uint64, error)) error {
	count := uint64(0)
	err := waitFor(work, func(w *ticket.Work) (err error) {
		count, err = run(w)
		return err
	})
	if to != nil {
		*to = C.uint64_t(count)
	}
	return err
}

//export mmsbgo_page_copies
func mmsbgo_page_copies(of C.mmsb_page_t, to *C.mmsb_page_copy_t, capacity C.size_t, count *C.size_t) (code C.mmsb_status_t) {
	defer guard(&code)
	copies, err := page.Copies(uint64(of))
	if err != nil {
		return failed(err)
	}
	items := make([]C.mmsb_page_copy_t, len(copies))
	for i, c := range copies {
		items[i] = C.mmsb_page_copy_t{
			location: C.mmsb_location_t(c.Location), device: C.int32_t(c.Device), size: C.uint64_t(c.Size),
			newer: C.uint64_t(c.Newer),
		}
	}
	return failed(list(items, array(to, capacity), count))
}

//export mmsbgo_context_device_pages
func mmsbgo_context_device_pages(context C.mmsb_context_t, device C.int32_t, cursor *C.uint64_t, to *C.mmsb_page_t,
	capacity C.size_t, count *C.size_t) (code C.mmsb_status_t) {
	defer guard(&code)
	return onContext(context, func(c *page.Context) error {
		*count = C.size_t(c.DevicePages(int32(device), (*uint64)(cursor), pages(to, capacity)))
		return nil
	})
}

//export mmsbgo_context_lost_pages
func mmsbgo_context_lost_pages(context C.mmsb_context_t, to *C.mmsb_lost_page_t, capacity C.size_t,
	count *C.size_t) (code C.mmsb_status_t) {
	defer guard(&code)
	return onContext(context, func(c *page.Context) error {
		return listOf(c.LostPages(), to, capacity, count, func(to *C.mmsb_lost_page_t, l *page.LostPage) {
			to.page, to.id, to.device = C.mmsb_page_t(l.Page), C.uint64_t(l.ID), C.int32_t(l.Device)
			to.size, to.lost = C.uint64_t(l.Size), C.uint64_t(l.Lost)
		})
	})
}

//export mmsbgo_page_replicate
func mmsbgo_page_replicate(of C.mmsb_page_t, device C.int32_t) (code C.mmsb_status_t) {
	defer guard(&code)
	return failed(page.Replicate(uint64(of), int32(device)))
}

//export mmsbgo_page_replica_drop
func mmsbgo_page_replica_drop(of C.mmsb_page_t, device C.int32_t) (code C.mmsb_status_t) {
	defer guard(&code)
	return failed(page.DropReplica(uint64(of), int32(device)))
}

//export mmsbgo_page_host_copy_drop
func mmsbgo_page_host_copy_drop(of C.mmsb_page_t) (code C.mmsb_status_t) {
	defer guard(&code)
	return failed(page.DropHostCopy(uint64(of)))
}

//export mmsbgo_page_host_copy_pin
func mmsbgo_page_host_copy_pin(of C.mmsb_page_t, write C.int32_t, to *unsafe.Pointer) (code C.mmsb_status_t) {
	defer guard(&code)
	address, err := page.PinHostCopy(uint64(of), write != 0)
	if err == nil {
		*to = unsafe.Add(unsafe.Pointer(nil), address)
	}
	return failed(err)
}

//export mmsbgo_page_host_copy_unpin
func mmsbgo_page_host_copy_unpin(of C.mmsb_page_t, write C.int32_t) (code C.mmsb_status_t) {
	defer guard(&code)
	return failed(page.UnpinHostCopy(uint64(of), write != 0))
}

//export mmsbgo_context_sync_stats
func mmsbgo_context_sync_stats(context C.mmsb_context_t, stats *C.mmsb_sync_stats_t) (code C.mmsb_status_t) {
	defer guard(&code)
	return onContext(context, func(c *page.Context) error {
		s := c.SyncStats()
		stats.pages, stats.bytes = C.uint64_t(s.Pages), C.uint64_t(s.Bytes)
		stats.newer_on_host, stats.newer_on_device = C.uint64_t(s.NewerOnHost), C.uint64_t(s.NewerOnDevice)
		stats.to_device_bytes, stats.to_host_bytes = C.uint64_t(s.ToDevice), C.uint64_t(s.ToHost)
		stats.to_device_ranges, stats.to_host_ranges = C.uint64_t(s.RangesToDevice), C.uint64_t(s.RangesToHost)
		stats.queued = C.uint64_t(s.Queued)
		stats.replicas, stats.replica_bytes = C.uint64_t(s.Replicas), C.uint64_t(s.ReplicaBytes)
		return nil
	})
}

//export mmsbgo_page_advise
func mmsbgo_page_advise(of C.mmsb_page_t, preferred, readMostly C.int32_t) (code C.mmsb_status_t) {
	defer guard(&code)
	return failed(page.Advise(uint64(of), page.Advice{Preferred: int32(preferred), ReadMostly: readMostly != 0}))
}

//export mmsbgo_page_advice
func mmsbgo_page_advice(of C.mmsb_page_t, preferred, readMostly *C.int32_t) (code C.mmsb_status_t) {
	defer guard(&code)
	advice, err := page.AdviceOf(uint64(of))
	if err == nil {
		*preferred, *readMostly = C.int32_t(advice.Preferred), number(advice.ReadMostly)
	}
	return failed(err)
}
