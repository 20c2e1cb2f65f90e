// The exports behind device.c: devices, runtimes, streams, blocks, uses, budgets.

package main

/*
#include "mmsb.h"

extern int32_t door_refused(int32_t (*refused)(void *, uint64_t, uint32_t, mmsb_status_t), void *user, uint64_t bytes,
	uint32_t attempt, mmsb_status_t code);
*/
import "C"

import (
	"math"
	"unsafe"

	"libmmsb/core/file"
	"libmmsb/core/page"
	"libmmsb/core/status"
	"libmmsb/core/ticket"
	"libmmsb/gpu/cuda"
	"libmmsb/gpu/devices"
	"libmmsb/gpu/driver"
	gpupages "libmmsb/gpu/pages"
	gpu "libmmsb/gpu/runtime"
)

// onDevices runs a call on the devices of a context.
func onDevices(context C.mmsb_context_t, call func(set *devices.Set) error) C.mmsb_status_t {
	return on(gpupages.SetOf, uint64(context), call)
}

// onRuntime runs a call on a runtime.
func onRuntime(h C.mmsb_runtime_t, call func(r *devices.Runtime) error) C.mmsb_status_t {
	return on(devices.FindRuntime, uint64(h), call)
}

// onStream runs a call on a stream.
func onStream(h C.mmsb_stream_t, call func(s *gpu.Stream) error) C.mmsb_status_t {
	return on(gpu.FindStream, uint64(h), call)
}

//export mmsbgo_device_list
func mmsbgo_device_list(context C.mmsb_context_t, to *C.mmsb_device_info_t, capacity C.size_t,
	count *C.size_t) (code C.mmsb_status_t) {
	defer guard(&code)
	return onDevices(context, func(set *devices.Set) error {
		found, err := set.List()
		if err != nil {
			return err
		}
		return listOf(found, to, capacity, count, deviceInfo)
	})
}

func deviceInfo(to *C.mmsb_device_info_t, d *devices.Device) {
	to.ordinal, to.simulated = C.int32_t(d.Ordinal), number(d.Simulated)
	putText(&to.name[0], C.size_t(len(to.name)), d.Name)
	putText(&to.pci[0], C.size_t(len(to.pci)), d.PCI)
	to.uuid = identity(d.UUID)
	to.bytes, to.free_bytes, to.granularity = C.uint64_t(d.Bytes), C.uint64_t(d.Free), C.uint64_t(d.Granularity)
	to.major, to.minor = C.int32_t(d.Major), C.int32_t(d.Minor)
	to.multiprocessors, to.numa_node = C.int32_t(d.Multiprocessors), C.int32_t(d.NUMANode)
	to.ordered_memory, to.managed_memory = number(d.OrderedMemory), number(d.ManagedMemory)
	to.managed_hints = number(d.ManagedHints)
}

//export mmsbgo_device_budget
func mmsbgo_device_budget(context C.mmsb_context_t, device C.int32_t, bytes C.uint64_t) (code C.mmsb_status_t) {
	defer guard(&code)
	return onDevices(context, func(set *devices.Set) error { return set.SetBudget(int(device), uint64(bytes)) })
}

//export mmsbgo_device_memory
func mmsbgo_device_memory(context C.mmsb_context_t, device C.int32_t, to *C.mmsb_device_memory_t) (code C.mmsb_status_t) {
	defer guard(&code)
	return onDevices(context, func(set *devices.Set) error {
		m, err := set.Memory(int(device))
		if err != nil {
			return err
		}
		to.runtimes, to.budget, to.charged = C.uint32_t(m.Runtimes), C.uint64_t(m.Budget), C.uint64_t(m.Charged)
		to.charged_peak, to.pool_free = C.uint64_t(m.Peak), C.uint64_t(m.Free)
		to.asked, to.helped, to.returned = C.uint64_t(m.Asked), C.uint64_t(m.Helped), C.uint64_t(m.Returned)
		return nil
	})
}

//export mmsbgo_runtime_shared
func mmsbgo_runtime_shared(context C.mmsb_context_t, device C.int32_t, to *C.mmsb_runtime_t) (code C.mmsb_status_t) {
	defer guard(&code)
	return onDevices(context, func(set *devices.Set) error { return put(to)(set.SharedHandle(int(device))) })
}

//export mmsbgo_runtime_create
func mmsbgo_runtime_create(context C.mmsb_context_t, device C.int32_t, o *C.mmsb_runtime_options_t,
	to *C.mmsb_runtime_t) (code C.mmsb_status_t) {
	defer guard(&code)
	options := runtimeOptions(o)
	return onDevices(context, func(set *devices.Set) error { return put(to)(set.Compose(int(device), options)) })
}

func runtimeOptions(o *C.mmsb_runtime_options_t) devices.RuntimeOptions {
	options := devices.RuntimeOptions{
		Streams: int(o.streams), Budget: uint64(o.budget), LogEvents: uint64(o.log_events), GuardEvery: uint64(o.guard_every),
		GuardQuarantine: uint64(o.guard_quarantine), RefusedAttempts: int(min(o.refused_attempts, math.MaxInt32)),
		Patience: durationOf(o.memory_wait_ns), Ledger: C.GoString(o.ledger),
	}
	if o.pool != nil {
		text := C.GoString(o.pool)
		options.Pool = &text
	}
	if refused, user := o.refused, o.refused_user; refused != nil {
		options.Refused = func(bytes uint64, attempt int, err error) bool {
			return C.door_refused(refused, user, C.uint64_t(bytes), C.uint32_t(attempt), C.mmsb_status_t(status.CodeOf(err))) != 0
		}
	}
	return options
}

//export mmsbgo_runtime_destroy
func mmsbgo_runtime_destroy(h C.mmsb_runtime_t) (code C.mmsb_status_t) {
	defer guard(&code)
	return failed(devices.DestroyRuntime(uint64(h)))
}

//export mmsbgo_runtime_stats
func mmsbgo_runtime_stats(h C.mmsb_runtime_t, stats *C.mmsb_runtime_stats_t) (code C.mmsb_status_t) {
	defer guard(&code)
	return onRuntime(h, func(r *devices.Runtime) error {
		s, err := r.State()
		if err != nil {
			return err
		}
		stats.streams, stats.blocks = C.uint32_t(s.Streams), C.uint64_t(s.Blocks)
		stats.outstanding, stats.live, stats.pending = C.uint64_t(s.Outstanding), C.uint64_t(s.Live), C.uint64_t(s.Pending)
		stats.peak, stats.reports = C.uint64_t(s.Peak), C.uint64_t(s.Reports)
		stats.allocations, stats.frees = C.uint64_t(s.Allocations), C.uint64_t(s.Frees)
		stats.failures, stats.deferred_frees = C.uint64_t(s.Failures), C.uint64_t(s.DeferredFrees)
		stats.uses, stats.aborts = C.uint64_t(s.Uses), C.uint64_t(s.Aborts)
		stats.waits, stats.waits_saved = C.uint64_t(s.Waits), C.uint64_t(s.WaitsSaved)
		stats.budget, stats.charged = C.uint64_t(s.Budget.Limit), C.uint64_t(s.Budget.Charged)
		stats.reserved_bytes, stats.charged_peak = C.uint64_t(s.Budget.Reserved), C.uint64_t(s.Budget.Peak)
		stats.refusals = C.uint64_t(s.Budget.Refusals)
		stats.pool_reserved, stats.pool_held = C.uint64_t(s.Pool.Reserved), C.uint64_t(s.Pool.Held)
		stats.pool_largest_free, stats.pool_moved = C.uint64_t(s.Pool.LargestFree), C.uint64_t(s.Pool.Moved)
		stats.pool_retries, stats.pool_misses = C.uint64_t(s.Pool.Retries), C.uint64_t(s.Pool.Misses)
		stats.sleeping, stats.sleeping_kept = C.uint64_t(s.Pool.Sleeping), C.uint64_t(s.Pool.Kept)
		stats.sleeping_copied, stats.refused_calls = C.uint64_t(s.Pool.Copied), C.uint64_t(s.Refused)
		return nil
	})
}

//export mmsbgo_runtime_reap
func mmsbgo_runtime_reap(h C.mmsb_runtime_t) (code C.mmsb_status_t) {
	defer guard(&code)
	return onRuntime(h, func(r *devices.Runtime) error {
		r.Reap()
		return nil
	})
}

//export mmsbgo_runtime_trim
func mmsbgo_runtime_trim(h C.mmsb_runtime_t, keep C.uint64_t) (code C.mmsb_status_t) {
	defer guard(&code)
	return onRuntime(h, func(r *devices.Runtime) error { return r.Trim(uint64(keep)) })
}

//export mmsbgo_runtime_log_write
func mmsbgo_runtime_log_write(h C.mmsb_runtime_t, descriptor C.int32_t) (code C.mmsb_status_t) {
	defer guard(&code)
	return onRuntime(h, func(r *devices.Runtime) error {
		log, err := r.Log()
		if err != nil {
			return err
		}
		sink, err := file.Descriptor(int(descriptor), nil)
		if err != nil {
			return err
		}
		return file.WriteAll(sink, log.WriteCSV)
	})
}

//export mmsbgo_tag_of
func mmsbgo_tag_of(name *C.char, length C.size_t, to *C.mmsb_tag_t) (code C.mmsb_status_t) {
	defer guard(&code)
	tag, err := gpu.TagOf(unsafe.String((*byte)(unsafe.Pointer(name)), int(length)))
	return failed(put(to)(uint64(tag), err))
}

//export mmsbgo_runtime_tag_stats
func mmsbgo_runtime_tag_stats(h C.mmsb_runtime_t, tag C.mmsb_tag_t, stats *C.mmsb_tag_stats_t) (code C.mmsb_status_t) {
	defer guard(&code)
	return onRuntime(h, func(r *devices.Runtime) error {
		t, err := r.OfTag(gpu.Tag(tag))
		if err != nil {
			return err
		}
		*stats = C.mmsb_tag_stats_t{
			live: C.uint64_t(t.Live), peak: C.uint64_t(t.Peak), total_bytes: C.uint64_t(t.Total),
			blocks: C.uint64_t(t.Blocks), total_blocks: C.uint64_t(t.Ever), failures: C.uint64_t(t.Failed),
		}
		return nil
	})
}

//export mmsbgo_reservation_create
func mmsbgo_reservation_create(h C.mmsb_runtime_t, bytes C.uint64_t, to *C.mmsb_reservation_t) (code C.mmsb_status_t) {
	defer guard(&code)
	return onRuntime(h, func(r *devices.Runtime) error { return put(to)(r.Reserve(uint64(bytes))) })
}

//export mmsbgo_reservation_destroy
func mmsbgo_reservation_destroy(h C.mmsb_reservation_t, to *C.uint64_t) (code C.mmsb_status_t) {
	defer guard(&code)
	left, err := devices.EndReservation(uint64(h))
	if err == nil && to != nil {
		*to = C.uint64_t(left)
	}
	return failed(err)
}

// Streams.

//export mmsbgo_stream_create
func mmsbgo_stream_create(h C.mmsb_runtime_t, priority C.int32_t, to *C.mmsb_stream_t) (code C.mmsb_status_t) {
	defer guard(&code)
	return onRuntime(h, func(r *devices.Runtime) error { return put(to)(r.AcquireStream(int(priority))) })
}

//export mmsbgo_stream_wrap
func mmsbgo_stream_wrap(h C.mmsb_runtime_t, native C.uintptr_t, to *C.mmsb_stream_t) (code C.mmsb_status_t) {
	defer guard(&code)
	return onRuntime(h, func(r *devices.Runtime) error { return put(to)(r.WrapStream(uintptr(native))) })
}

//export mmsbgo_stream_destroy
func mmsbgo_stream_destroy(h C.mmsb_stream_t) (code C.mmsb_status_t) {
	defer guard(&code)
	return failed(gpu.ReleaseStream(uint64(h)))
}

//export mmsbgo_stream_native
func mmsbgo_stream_native(h C.mmsb_stream_t, native *C.uintptr_t) (code C.mmsb_status_t) {
	defer guard(&code)
	return onStream(h, func(s *gpu.Stream) error {
		*native = C.uintptr_t(s.Native())
		return nil
	})
}

//export mmsbgo_stream_wait
func mmsbgo_stream_wait(h C.mmsb_stream_t, timeout C.uint64_t) (code C.mmsb_status_t) {
	defer guard(&code)
	return onStream(h, func(s *gpu.Stream) error {
		if wait := durationOf(timeout); wait >= 0 {
			return s.SynchronizeWithin(wait)
		}
		return s.Synchronize()
	})
}

//export mmsbgo_stream_copy
func mmsbgo_stream_copy(h C.mmsb_stream_t, to, from C.uintptr_t, bytes C.uint64_t) (code C.mmsb_status_t) {
	defer guard(&code)
	return onStream(h, func(s *gpu.Stream) error {
		return s.Copy(driver.Copy{To: driver.Address(to), From: driver.Address(from), Bytes: uint64(bytes)})
	})
}

//export mmsbgo_stream_fill
func mmsbgo_stream_fill(h C.mmsb_stream_t, address C.uintptr_t, value C.uint8_t, bytes C.uint64_t) (code C.mmsb_status_t) {
	defer guard(&code)
	return onStream(h, func(s *gpu.Stream) error { return s.Fill(driver.Address(address), byte(value), uint64(bytes)) })
}

//export mmsbgo_stream_record
func mmsbgo_stream_record(h C.mmsb_stream_t, to *C.mmsb_ticket_t) (code C.mmsb_status_t) {
	defer guard(&code)
	return onStream(h, func(s *gpu.Stream) error {
		p, err := s.Record()
		if err != nil {
			return err
		}
		return put(to)(ticket.Hold(ticket.Of(p)))
	})
}

//export mmsbgo_stream_after
func mmsbgo_stream_after(h C.mmsb_stream_t, of C.mmsb_ticket_t) (code C.mmsb_status_t) {
	defer guard(&code)
	return onStream(h, func(s *gpu.Stream) error {
		t, err := ticket.Find(uint64(of))
		if err != nil {
			return err
		}
		p, ok := t.Source().(*gpu.Point)
		if !ok {
			return status.Errorf(status.InvalidArgument, "ticket 0x%016x does not belong to a stream", uint64(of))
		}
		return s.WaitFor(p)
	})
}

//export mmsbgo_stream_after_native
func mmsbgo_stream_after_native(h C.mmsb_stream_t, native C.uintptr_t) (code C.mmsb_status_t) {
	defer guard(&code)
	return onStream(h, func(s *gpu.Stream) error { return s.Follow(uintptr(native)) })
}

//export mmsbgo_event_await
func mmsbgo_event_await(ordinal C.int32_t, event C.uintptr_t) (code C.mmsb_status_t) {
	defer guard(&code)
	return failed(cuda.AwaitEvent(int(ordinal), uintptr(event)))
}

// Blocks.

//export mmsbgo_block_allocate
func mmsbgo_block_allocate(h C.mmsb_stream_t, bytes C.uint64_t, tag C.mmsb_tag_t, reservation C.mmsb_reservation_t,
	thread C.int32_t, to *C.mmsb_block_t, address *C.uintptr_t) (code C.mmsb_status_t) {
	defer guard(&code)
	return onStream(h, func(s *gpu.Stream) error {
		block, at, err := devices.Allocate(s, uint64(bytes), gpu.Tag(tag), uint64(reservation), int32(thread))
		if err == nil {
			*to, *address = C.mmsb_block_t(block), C.uintptr_t(at)
		}
		return err
	})
}

//export mmsbgo_block_free
func mmsbgo_block_free(h C.mmsb_block_t, stream C.mmsb_stream_t, thread C.int32_t, to *C.int32_t) (code C.mmsb_status_t) {
	defer guard(&code)
	var on *gpu.Stream
	if stream != 0 {
		var err error
		if on, err = gpu.FindStream(uint64(stream)); err != nil {
			return failed(err)
		}
	}
	deferred, err := gpu.FreeFrom(uint64(h), on, int32(thread))
	if err == nil && to != nil {
		*to = number(deferred)
	}
	return failed(err)
}

//export mmsbgo_block_info
func mmsbgo_block_info(h C.mmsb_block_t, to *C.mmsb_block_info_t) (code C.mmsb_status_t) {
	defer guard(&code)
	info, err := gpu.FindBlock(uint64(h))
	if err == nil {
		to.device = C.int32_t(info.Stream.Runtime().Device().Info().Ordinal)
		*(*uintptr)(unsafe.Pointer(&to.address)) = uintptr(info.Address)
		to.bytes, to.stream = C.uint64_t(info.Bytes), C.mmsb_stream_t(info.Stream.Handle())
		to.tag, to.uses, to.asleep = C.mmsb_tag_t(info.Tag), C.uint32_t(info.Uses), C.uint64_t(number(info.Asleep))
	}
	return failed(err)
}

// locationOf is where a block's memory lies, as pages name it.
var locationOf = map[gpu.Place]C.mmsb_location_t{gpu.OnDevice: C.MMSB_LOCATION_GPU, gpu.InPinned: C.MMSB_LOCATION_PINNED,
	gpu.InManaged: C.MMSB_LOCATION_UNIFIED, gpu.OnHost: C.MMSB_LOCATION_CPU}

//export mmsbgo_block_lend
func mmsbgo_block_lend(h C.mmsb_block_t, native C.uintptr_t, readOnly C.int32_t, to *C.uint64_t, address *C.uintptr_t,
	bytes *C.uint64_t, location *C.mmsb_location_t, device *C.int32_t) (code C.mmsb_status_t) {
	defer guard(&code)
	access := gpu.ReadWrite
	if readOnly != 0 {
		access = gpu.Read
	}
	lent, info, place, err := gpu.Lend(uint64(h), uintptr(native), access)
	if err == nil {
		*to, *address, *bytes, *location = C.uint64_t(lent), C.uintptr_t(info.Address), C.uint64_t(info.Bytes), locationOf[place]
		if *device = 0; place != gpu.OnHost {
			*device = C.int32_t(info.Stream.Runtime().Device().Info().Ordinal)
		}
	}
	return failed(err)
}

//export mmsbgo_block_return
func mmsbgo_block_return(lent C.uint64_t) {
	var code C.mmsb_status_t
	defer guard(&code)
	gpu.Return(uint64(lent))
}

//export mmsbgo_block_at
func mmsbgo_block_at(h C.mmsb_runtime_t, address C.uintptr_t, block *C.mmsb_block_t, offset *C.uint64_t) (code C.mmsb_status_t) {
	defer guard(&code)
	return onRuntime(h, func(r *devices.Runtime) error {
		info, err := r.At(driver.Address(address))
		if err != nil {
			return err
		}
		*block = C.mmsb_block_t(info.Handle)
		if offset != nil {
			*offset = C.uint64_t(uint64(address) - uint64(info.Address))
		}
		return nil
	})
}

//export mmsbgo_page_block
func mmsbgo_page_block(h C.mmsb_page_t, block *C.mmsb_block_t) (code C.mmsb_status_t) {
	defer guard(&code)
	return failed(put(block)(page.BlockOf(uint64(h))))
}

//export mmsbgo_runtime_device
func mmsbgo_runtime_device(h C.mmsb_runtime_t, ordinal *C.int32_t) (code C.mmsb_status_t) {
	defer guard(&code)
	return onRuntime(h, func(r *devices.Runtime) error {
		*ordinal = C.int32_t(r.Device().Info().Ordinal)
		return nil
	})
}

//export mmsbgo_stream_device
func mmsbgo_stream_device(h C.mmsb_stream_t, ordinal *C.int32_t) (code C.mmsb_status_t) {
	defer guard(&code)
	return onStream(h, func(s *gpu.Stream) error {
		*ordinal = C.int32_t(s.Runtime().Device().Info().Ordinal)
		return nil
	})
}

// Uses.

//export mmsbgo_use_begin
func mmsbgo_use_begin(h C.mmsb_stream_t, accesses *C.mmsb_access_t, count C.size_t, to *C.mmsb_use_t,
	bad *C.size_t) (code C.mmsb_status_t) {
	defer guard(&code)
	return onStream(h, func(s *gpu.Stream) error {
		var few [8]gpu.Use
		uses := few[:0]
		for i, a := range array(accesses, count) {
			access, err := accessOf(a.access)
			if err == nil && a.reserved != 0 {
				err = status.Errorf(status.StructVersion, "reserved is not 0")
			}
			if err != nil {
				badIndex(bad, i, err)
				return err
			}
			uses = append(uses, gpu.Use{Block: uint64(a.block), Access: access})
		}
		use, at, err := gpupages.BeginUse(s, uses)
		badIndex(bad, at, err)
		return put(to)(use, err)
	})
}

func accessOf(access C.int32_t) (gpu.Access, error) {
	if access < C.MMSB_ACCESS_READ || access > C.MMSB_ACCESS_READ_WRITE {
		return 0, status.Errorf(status.InvalidArgument, "access is %d, not 1 (read), 2 (write) or 3 (both)", access)
	}
	return gpu.Access(access), nil
}

//export mmsbgo_use_address
func mmsbgo_use_address(use C.mmsb_use_t, block C.mmsb_block_t, to *unsafe.Pointer) (code C.mmsb_status_t) {
	defer guard(&code)
	at, err := gpu.UseAddress(uint64(use), uint64(block))
	if err == nil {
		*to = unsafe.Add(unsafe.Pointer(nil), uintptr(at))
	}
	return failed(err)
}

//export mmsbgo_use_end
func mmsbgo_use_end(use C.mmsb_use_t) (code C.mmsb_status_t) {
	defer guard(&code)
	return failed(gpu.EndUse(uint64(use)))
}

//export mmsbgo_use_abort
func mmsbgo_use_abort(use C.mmsb_use_t) (code C.mmsb_status_t) {
	defer guard(&code)
	return failed(gpu.AbortUse(uint64(use)))
}

//export mmsbgo_use_record
func mmsbgo_use_record(h C.mmsb_stream_t, permissive C.int32_t, to *C.mmsb_use_t) (code C.mmsb_status_t) {
	defer guard(&code)
	return onStream(h, func(s *gpu.Stream) error { return put(to)(gpu.RecordUse(s, permissive != 0)) })
}

//export mmsbgo_use_add
func mmsbgo_use_add(use C.mmsb_use_t, block C.mmsb_block_t, access C.int32_t) (code C.mmsb_status_t) {
	defer guard(&code)
	of, err := accessOf(access)
	if err == nil {
		err = gpupages.AddUse(uint64(use), gpu.Use{Block: uint64(block), Access: of})
	}
	return failed(err)
}

//export mmsbgo_use_begin_recorded
func mmsbgo_use_begin_recorded(use C.mmsb_use_t) (code C.mmsb_status_t) {
	defer guard(&code)
	return failed(gpu.BeginRecorded(uint64(use)))
}
