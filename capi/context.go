// The exports behind context.c: contexts, their options and statistics, tickets of work.

package main

/*
#include "mmsb.h"
*/
import "C"

import (
	"sync"
	"unsafe"

	"libmmsb/core/keeper"
	"libmmsb/core/page"
	"libmmsb/core/persist"
	"libmmsb/core/status"
	"libmmsb/core/ticket"
	gpupages "libmmsb/gpu/pages"
	gpu "libmmsb/gpu/runtime"
)

func contextOptions(o *C.mmsb_context_options_t) page.Options {
	return page.Options{
		DefaultLocation: int32(o.default_location), DefaultDevice: int32(o.default_device), Simulate: int32(o.simulate),
		SimulatedDevices: int32(o.simulated_devices), Fallback: int32(o.fallback), SimulatedMemory: uint64(o.simulated_memory),
		MemoryLimit: uint64(o.memory_limit), HugePages: o.huge_pages != 0, GuardEvery: uint64(o.guard_every),
		GuardQuarantine: uint64(o.guard_quarantine), DiskPath: C.GoString(o.disk_path), // NULL is an empty one
	}
}

//export mmsbgo_context_options_parse
func mmsbgo_context_options_parse(o *C.mmsb_context_options_t, text *C.char, length C.size_t) (code C.mmsb_status_t) {
	defer guard(&code)
	options := contextOptions(o)
	diskPath, err := options.Parse(C.GoStringN(text, C.int(length)))
	if err != nil {
		return failed(err)
	}
	o.default_location = C.mmsb_location_t(options.DefaultLocation)
	o.default_device = C.int32_t(options.DefaultDevice)
	o.simulate = C.int32_t(options.Simulate)
	o.simulated_devices = C.int32_t(options.SimulatedDevices)
	o.fallback = C.int32_t(options.Fallback)
	o.simulated_memory = C.uint64_t(options.SimulatedMemory)
	o.memory_limit = C.uint64_t(options.MemoryLimit)
	o.huge_pages = number(options.HugePages)
	o.guard_every = C.uint64_t(options.GuardEvery)
	o.guard_quarantine = C.uint64_t(options.GuardQuarantine)
	if diskPath >= 0 {
		o.disk_path = (*C.char)(unsafe.Add(unsafe.Pointer(text), diskPath))
	}
	return C.MMSB_OK
}

var started sync.Once

// start comes before the first context.
func start() {
	started.Do(func() {
		startLog()
		gpupages.Use()
	})
}

//export mmsbgo_context_create
func mmsbgo_context_create(o *C.mmsb_context_options_t, context *C.mmsb_context_t) (code C.mmsb_status_t) {
	defer guard(&code)
	start()
	return failed(put(context)(page.NewContext(contextOptions(o))))
}

//export mmsbgo_context_destroy
func mmsbgo_context_destroy(context C.mmsb_context_t) (code C.mmsb_status_t) {
	defer guard(&code)
	return failed(keeper.End(uint64(context)))
}

//export mmsbgo_context_stats
func mmsbgo_context_stats(context C.mmsb_context_t, stats *C.mmsb_context_stats_t) (code C.mmsb_status_t) {
	defer guard(&code)
	return onContext(context, func(c *page.Context) error {
		s := c.Stats()
		stats.pages = C.uint64_t(s.Creates - s.Frees)
		stats.bytes = C.uint64_t(s.BytesCreated - s.BytesFreed)
		stats.peak_bytes = C.uint64_t(s.PeakBytes)
		stats.allocations = C.uint64_t(s.Creates)
		stats.frees = C.uint64_t(s.Frees)
		stats.pinned_pages = C.uint64_t(s.Pinned)
		stats.memory_used = C.uint64_t(s.MemoryUsed)
		stats.memory_limit = C.uint64_t(s.MemoryLimit)
		stats.disk_used = C.uint64_t(s.DiskUsed)
		stats.guard_bytes = C.uint64_t(s.GuardBytes)
		stats.guard_reports = C.uint64_t(s.GuardReports)
		for i := range s.Pages {
			stats.location_pages[i] = C.uint64_t(s.Pages[i])
			stats.location_bytes[i] = C.uint64_t(s.Bytes[i])
		}
		return nil
	})
}

//export mmsbgo_context_page_count
func mmsbgo_context_page_count(context C.mmsb_context_t, count *C.uint64_t) (code C.mmsb_status_t) {
	defer guard(&code)
	return onContext(context, func(c *page.Context) error {
		*count = C.uint64_t(c.Count())
		return nil
	})
}

//export mmsbgo_context_pages
func mmsbgo_context_pages(context C.mmsb_context_t, cursor *C.uint64_t, to *C.mmsb_page_t, capacity C.size_t,
	count *C.size_t) (code C.mmsb_status_t) {
	defer guard(&code)
	return onContext(context, func(c *page.Context) error {
		*count = C.size_t(c.Pages((*uint64)(cursor), pages(to, capacity)))
		return nil
	})
}

//export mmsbgo_context_trim
func mmsbgo_context_trim(context C.mmsb_context_t, released *C.uint64_t) (code C.mmsb_status_t) {
	defer guard(&code)
	return onContext(context, func(c *page.Context) error {
		bytes := c.Trim()
		if released != nil {
			*released = C.uint64_t(bytes)
		}
		return nil
	})
}

//export mmsbgo_guard_check
func mmsbgo_guard_check(context C.mmsb_context_t, report *C.mmsb_guard_report_t, count *C.uint64_t) (code C.mmsb_status_t) {
	defer guard(&code)
	return onContext(context, func(c *page.Context) error {
		oldest, waited, err := c.CheckGuard()
		if err != nil {
			return err
		}
		*count = C.uint64_t(waited)
		if waited > 0 && report != nil {
			report.side, report.page_id = C.int32_t(oldest.Side), C.uint64_t(oldest.Page)
			report.size, report.offset, report.bytes = C.uint64_t(oldest.Size), C.int64_t(oldest.Offset), C.uint64_t(oldest.Bytes)
			report.expected, report.found = C.uint32_t(oldest.Expected), C.uint32_t(oldest.Found)
		}
		return nil
	})
}

//export mmsbgo_context_dependency_order
func mmsbgo_context_dependency_order(context C.mmsb_context_t, to *C.mmsb_page_t, capacity C.size_t,
	count *C.size_t) (code C.mmsb_status_t) {
	defer guard(&code)
	return onContext(context, func(c *page.Context) error { return list(c.DependencyOrder(), pages(to, capacity), count) })
}

// Tickets.

func onTicket(h C.mmsb_ticket_t, call func(t *ticket.Ticket) error) C.mmsb_status_t {
	return on(ticket.Find, uint64(h), call)
}

// startWork begins work of total units, 0 while their number is not known, and gives its ticket a handle.
func startWork(total uint64, work *C.mmsb_work_options_t, to *C.mmsb_ticket_t, run func(w *ticket.Work) error) C.mmsb_status_t {
	return startOnPages(nil, total, work, to, run)
}

// startOnPages is startWork with codes of pages, which are Cancelled until the work has others.
func startOnPages(codes []int32, total uint64, work *C.mmsb_work_options_t, to *C.mmsb_ticket_t,
	run func(w *ticket.Work) error) C.mmsb_status_t {
	after, err := startAfter(work)
	if err != nil {
		return failed(err)
	}
	cancelled(codes)
	return failed(put(to)(ticket.Hold(ticket.Start(total, after, run))))
}

// startInTurn is startWork of a save or load of a context. It has its turn from the call on; one that is to wait for something
// else has it from then on.
func startInTurn(context C.mmsb_context_t, queue bool, work *C.mmsb_work_options_t, to *C.mmsb_ticket_t,
	run func(w *ticket.Work, turn *persist.Turn) error) C.mmsb_status_t {
	after, err := startAfter(work)
	var turn *persist.Turn
	if err == nil && len(after) == 0 {
		turn, err = persist.TakeTurn(uint64(context), queue)
	}
	if err != nil {
		return failed(err)
	}
	started := ticket.StartThen(0, after, func(w *ticket.Work) error { return run(w, turn) }, turn.Leave)
	return failed(put(to)(ticket.Hold(started)))
}

// startAfter is what work that is started waits for.
func startAfter(work *C.mmsb_work_options_t) ([]*ticket.Ticket, error) {
	if err := page.CheckOutsideGroup(); err != nil {
		return nil, err
	}
	return afterTickets(work)
}

// waitFor runs work that its call waits for, after what its options name and for the time that they allow. work may be NULL.
func waitFor(work *C.mmsb_work_options_t, run func(w *ticket.Work) error) error {
	after, err := afterTickets(work)
	if err != nil {
		return err
	}
	return waitWithin(timeoutOf(work), after, run)
}

// waitOnPages is waitFor with codes of pages, which are Cancelled where the work ended before it began.
func waitOnPages(codes []int32, work *C.mmsb_work_options_t, run func(w *ticket.Work) error) error {
	began := false
	err := waitFor(work, func(w *ticket.Work) error {
		began = true
		return run(w)
	})
	if code := status.CodeOf(err); !began && (code == status.Cancelled || code == status.Timeout || code == status.WouldBlock) {
		cancelled(codes)
	}
	return err
}

func cancelled(codes []int32) {
	for i := range codes {
		codes[i] = int32(status.Cancelled)
	}
}

// waitWithin runs work that its call waits for, for a time.
func waitWithin(timeout uint64, after []*ticket.Ticket, run func(w *ticket.Work) error) error {
	if ticket.Elsewhere(timeout, after) {
		if err := page.CheckOutsideGroup(); err != nil {
			return err
		}
	}
	return ticket.Within(timeout, after, run)
}

// afterTickets are those that work options name: tickets, and what is queued on a stream.
func afterTickets(work *C.mmsb_work_options_t) ([]*ticket.Ticket, error) {
	if work == nil {
		return nil, nil
	}
	after, err := ticket.FindAll(array((*uint64)(unsafe.Pointer(work.after)), C.size_t(work.after_count)))
	if err != nil || work.stream == 0 {
		return after, err
	}
	point, err := gpu.RecordOn(uint64(work.stream), int(work.device))
	if err != nil {
		return nil, err
	}
	return append(after, ticket.Of(point)), nil
}

// timeoutOf is the time that work options allow a call.
func timeoutOf(work *C.mmsb_work_options_t) uint64 {
	if work == nil {
		return ticket.Forever
	}
	return uint64(work.timeout_ns)
}

//export mmsbgo_ticket_poll
func mmsbgo_ticket_poll(h C.mmsb_ticket_t, done *C.int32_t) (code C.mmsb_status_t) {
	defer guard(&code)
	return onTicket(h, func(t *ticket.Ticket) error {
		*done = number(t.Poll())
		return nil
	})
}

//export mmsbgo_ticket_wait
func mmsbgo_ticket_wait(h C.mmsb_ticket_t, timeout C.uint64_t) (code C.mmsb_status_t) {
	defer guard(&code)
	return onTicket(h, func(t *ticket.Ticket) error { return t.Wait(uint64(timeout)) })
}

//export mmsbgo_ticket_cancel
func mmsbgo_ticket_cancel(h C.mmsb_ticket_t) (code C.mmsb_status_t) {
	defer guard(&code)
	return onTicket(h, func(t *ticket.Ticket) error {
		t.Cancel()
		return nil
	})
}

//export mmsbgo_ticket_progress
func mmsbgo_ticket_progress(h C.mmsb_ticket_t, done, total *C.uint64_t) (code C.mmsb_status_t) {
	defer guard(&code)
	return onTicket(h, func(t *ticket.Ticket) error {
		d, all := t.Progress()
		*done, *total = C.uint64_t(d), C.uint64_t(all)
		return nil
	})
}

//export mmsbgo_ticket_status
func mmsbgo_ticket_status(h C.mmsb_ticket_t, result *C.mmsb_status_t, text *C.char, capacity C.size_t) (code C.mmsb_status_t) {
	defer guard(&code)
	return onTicket(h, func(t *ticket.Ticket) error {
		c, words := t.Status()
		*result = C.mmsb_status_t(c)
		putText(text, capacity, words)
		return nil
	})
}

//export mmsbgo_ticket_eventfd
func mmsbgo_ticket_eventfd(h C.mmsb_ticket_t, descriptor *C.int32_t) (code C.mmsb_status_t) {
	defer guard(&code)
	return onTicket(h, func(t *ticket.Ticket) error {
		fd, err := t.EventFD()
		if err == nil {
			*descriptor = C.int32_t(fd)
		}
		return err
	})
}

//export mmsbgo_ticket_destroy
func mmsbgo_ticket_destroy(h C.mmsb_ticket_t) (code C.mmsb_status_t) {
	defer guard(&code)
	return failed(ticket.CloseHandle(uint64(h)))
}
