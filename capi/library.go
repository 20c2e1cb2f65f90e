// The exports behind library.c: capabilities, the log, live objects, memory in use, shutdown.

package main

/*
#include "mmsb.h"
#include <stdlib.h>
*/
import "C"

import (
	"runtime/metrics"
	"unsafe"

	"libmmsb/core/capability"
	"libmmsb/core/commands"
	"libmmsb/core/delta"
	"libmmsb/core/keeper"
	"libmmsb/core/log"
	"libmmsb/core/memory"
	"libmmsb/core/page"
	"libmmsb/core/persist"
	"libmmsb/core/snapshot"
	"libmmsb/core/status"
	"libmmsb/core/ticket"
	"libmmsb/gpu/cuda"
	"libmmsb/gpu/devices"
	"libmmsb/gpu/kernels"
	"libmmsb/gpu/nvml"
	"libmmsb/gpu/plugin"
	gpu "libmmsb/gpu/runtime"
	"libmmsb/native"
)

//export mmsbgo_capabilities
func mmsbgo_capabilities(records *C.mmsb_capability_t, capacity C.size_t, count *C.size_t) (code C.mmsb_status_t) {
	defer guard(&code)
	known := append(append(capability.List(), cuda.Capabilities()...), kernels.Capability(), nvml.Capability())
	return failed(listOf(known, records, capacity, count, func(to *C.mmsb_capability_t, k *capability.Capability) {
		to.struct_size, to.available = C.sizeof_mmsb_capability_t, number(k.Available)
		putText(&to.name[0], C.size_t(len(to.name)), k.Name)
		putText(&to.reason[0], C.size_t(len(to.reason)), k.Reason)
	}))
}

//export mmsbgo_log_configure
func mmsbgo_log_configure(level, descriptor C.int32_t) (code C.mmsb_status_t) {
	defer guard(&code)
	return failed(log.Configure(int(level), int(descriptor)))
}

//export mmsbgo_log_read
func mmsbgo_log_read(buffer *C.char, capacity C.size_t, length *C.size_t, lost *C.uint64_t) (code C.mmsb_status_t) {
	defer guard(&code)
	n, missed, err := log.Read(array((*byte)(unsafe.Pointer(buffer)), capacity))
	*length = C.size_t(n)
	if err == nil && lost != nil {
		*lost = C.uint64_t(missed)
	}
	return failed(err)
}

//export mmsbgo_live_objects
func mmsbgo_live_objects(kind C.int32_t, count *C.uint64_t) (code C.mmsb_status_t) {
	defer guard(&code)
	counters := map[C.int32_t]func() uint64{
		C.MMSB_KIND_PAGE: page.LivePages, C.MMSB_KIND_CONTEXT: page.LiveContexts, C.MMSB_KIND_TICKET: ticket.LiveHandles,
		C.MMSB_KIND_TENSOR: native.LiveTensors, C.MMSB_KIND_DELTA: delta.LiveOwned,
		C.MMSB_KIND_SNAPSHOT: snapshot.LiveHandles, C.MMSB_KIND_STREAM: gpu.LiveStreams,
		C.MMSB_KIND_BLOCK: gpu.LiveBlocks, C.MMSB_KIND_USE: gpu.LiveUses, C.MMSB_KIND_RUNTIME: devices.LiveRuntimes,
		C.MMSB_KIND_RESERVATION: devices.LiveReservations, C.MMSB_KIND_CAPTURE: gpu.LiveCaptures,
		C.MMSB_KIND_COMMANDS: commands.Live,
		C.MMSB_KIND_MEMORY:   func() uint64 { return memory.Outliving() + persist.LiveSaved() },
	}
	counter, ok := counters[kind]
	if !ok {
		return failed(status.Errorf(status.InvalidArgument, "object kind %d does not exist", kind))
	}
	*count = C.uint64_t(counter())
	return C.MMSB_OK
}

//export mmsbgo_shutdown
func mmsbgo_shutdown() (code C.mmsb_status_t) {
	defer guard(&code)
	commands.DestroyAll()
	ticket.StopAll(true)
	ticket.CloseAllHandles()
	snapshot.CloseAllHandles()
	keeper.EndAll()
	plugin.End()
	devices.EndShared()
	return C.MMSB_OK
}

//export mmsbgo_memory_usage
func mmsbgo_memory_usage(usage *C.mmsb_memory_usage_t) (code C.mmsb_status_t) {
	defer guard(&code)
	u := page.MemoryUsage()
	usage.page_bytes = C.uint64_t(u.Pages)
	usage.record_bytes = C.uint64_t(u.Records)
	usage.mask_bytes = C.uint64_t(u.Masks)
	usage.metadata_bytes = C.uint64_t(u.Metadata)
	usage.cache_bytes = C.uint64_t(u.Caches)
	usage.disk_bytes = C.uint64_t(u.Disk)
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(sample)
	usage.go_heap_bytes = C.uint64_t(sample[0].Value.Uint64())
	return C.MMSB_OK
}

// startLog obeys MMSB_LOG. C reads the environment: Go sees only what it was when the process began.
func startLog() {
	name := C.CString("MMSB_LOG")
	defer C.free(unsafe.Pointer(name))
	if value := C.getenv(name); value != nil {
		if err := log.ConfigureFromEnvironment(C.GoString(value)); err != nil {
			native.Fail(int32(status.InvalidArgument), 0, 0, err.Error())
		}
	}
}
