// The exports behind sleep.c: tags of a pool that sleep, and captures.

package main

// #include "mmsb.h"
import "C"

import (
	"libmmsb/gpu/devices"
	gpu "libmmsb/gpu/runtime"
)

//export mmsbgo_pool_partition
func mmsbgo_pool_partition(h C.mmsb_runtime_t, tag C.mmsb_tag_t) (code C.mmsb_status_t) {
	defer guard(&code)
	return onRuntime(h, func(r *devices.Runtime) error { return r.Partition(gpu.Tag(tag)) })
}

func tagsOf(tags *C.mmsb_tag_t, count C.size_t) (all []gpu.Tag) {
	for _, tag := range array(tags, count) {
		all = append(all, gpu.Tag(tag))
	}
	return all
}

//export mmsbgo_pool_sleep
func mmsbgo_pool_sleep(h C.mmsb_runtime_t, tags *C.mmsb_tag_t, count C.size_t, o *C.mmsb_sleep_options_t) (code C.mmsb_status_t) {
	defer guard(&code)
	options := gpu.SleepOptions{Mode: gpu.SleepMode(o.mode), Timeout: durationOf(o.timeout_ns), Folder: C.GoString(o.folder)}
	return onRuntime(h, func(r *devices.Runtime) error { return r.Sleep(tagsOf(tags, count), options) })
}

//export mmsbgo_pool_wake
func mmsbgo_pool_wake(h C.mmsb_runtime_t, tags *C.mmsb_tag_t, count C.size_t) (code C.mmsb_status_t) {
	defer guard(&code)
	return onRuntime(h, func(r *devices.Runtime) error { return r.Wake(tagsOf(tags, count)) })
}

//export mmsbgo_capture_begin
func mmsbgo_capture_begin(streams *C.mmsb_stream_t, count C.size_t, to *C.mmsb_capture_t) (code C.mmsb_status_t) {
	defer guard(&code)
	all, err := streamsOf(streams, count)
	if err != nil {
		return failed(err)
	}
	return failed(put(to)(gpu.BeginCapture(all...)))
}

func streamsOf(streams *C.mmsb_stream_t, count C.size_t) (all []*gpu.Stream, err error) {
	for _, h := range array(streams, count) {
		s, err := gpu.FindStream(uint64(h))
		if err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	return all, nil
}

//export mmsbgo_capture_resume
func mmsbgo_capture_resume(h C.mmsb_capture_t, streams *C.mmsb_stream_t, count C.size_t) (code C.mmsb_status_t) {
	defer guard(&code)
	all, err := streamsOf(streams, count)
	if err == nil {
		err = gpu.ResumeCapture(uint64(h), all...)
	}
	return failed(err)
}

//export mmsbgo_capture_end
func mmsbgo_capture_end(h C.mmsb_capture_t) (code C.mmsb_status_t) {
	defer guard(&code)
	return on(gpu.FindCapture, uint64(h), (*gpu.Capture).End)
}

//export mmsbgo_capture_destroy
func mmsbgo_capture_destroy(h C.mmsb_capture_t) (code C.mmsb_status_t) {
	defer guard(&code)
	return failed(gpu.DestroyCapture(uint64(h)))
}
