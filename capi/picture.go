// The exports behind picture.c: pictures and statistics of a runtime's memory.

package main

/*
#include <stdlib.h>

#include "mmsb.h"
*/
import "C"

import (
	"io"
	"sync"
	"unsafe"

	"libmmsb/core/file"
	"libmmsb/gpu/devices"
)

//export mmsbgo_runtime_snapshot_write
func mmsbgo_runtime_snapshot_write(h C.mmsb_runtime_t, descriptor, format C.int32_t) (code C.mmsb_status_t) {
	defer guard(&code)
	return onRuntime(h, func(r *devices.Runtime) error {
		sink, err := file.Descriptor(int(descriptor), nil)
		if err != nil {
			return err
		}
		picture, err := r.Snapshot()
		if err != nil {
			sink.Abort()
			return err
		}
		return file.WriteAll(sink, func(to io.Writer) error { return devices.WritePicture(picture, to, int32(format)) })
	})
}

// statNames are the names of statistics as C has them, for the life of the process.
var statNames sync.Map

func statName(name string) *C.char {
	known, there := statNames.Load(name)
	if !there {
		made := C.CString(name)
		if known, there = statNames.LoadOrStore(name, made); there {
			C.free(unsafe.Pointer(made))
		}
	}
	return known.(*C.char)
}

//export mmsbgo_runtime_memory_stats
func mmsbgo_runtime_memory_stats(h C.mmsb_runtime_t, to *C.mmsb_memory_stat_t, capacity C.size_t,
	count *C.size_t) (code C.mmsb_status_t) {
	defer guard(&code)
	return onRuntime(h, func(r *devices.Runtime) error {
		found, err := r.MemoryStatistics()
		if err != nil {
			return err
		}
		all := make([]C.mmsb_memory_stat_t, len(found))
		for i, entry := range found {
			all[i] = C.mmsb_memory_stat_t{name: statName(entry.Name), value: C.uint64_t(entry.Value)}
		}
		return list(all, array(to, capacity), count)
	})
}
