// Command capi is libmmsb.so: the door between C and Go. The C files define the public functions of mmsb.h; this package holds
// the hidden mmsbgo_* exports that they enter Go by. Nothing is decided here.
package main

/*
#cgo CFLAGS: -std=gnu11 -O2 -Wall -fno-strict-aliasing -I${SRCDIR}/../include -I${SRCDIR}/../native -I${SRCDIR}/../gpu/blocks
#cgo linux LDFLAGS: -Wl,--wrap=pthread_getattr_np -lpthread
#include <stdlib.h>

#include "mmsb.h"

void mmsb__restore_descriptors(void);
*/
import "C"

import (
	"math"
	"runtime"
	"strings"
	"time"
	"unsafe"

	"libmmsb/core/environment"
	"libmmsb/core/file"
	"libmmsb/core/lasterror"
	"libmmsb/core/page"
	"libmmsb/core/safego"
	"libmmsb/core/status"
	"libmmsb/gpu/kernels"
	"libmmsb/native"
)

// The program's environment is that of C.
func init() {
	environment.From(func(name string) (value string, set bool) {
		text := C.CString(name)
		defer C.free(unsafe.Pointer(text))
		found := C.getenv(text)
		return C.GoString(found), found != nil
	})
}

// What Go's package os has raised goes back to what the program has: go_start.c. Calls wait for the end of this.
func init() { C.mmsb__restore_descriptors() }

func main() {}

// guard keeps a panic from crossing into C: the call answers INTERNAL, and the library is poisoned. It runs when the call has
// given back its locks, so that exports can end that had to wait for them.
func guard(code *C.mmsb_status_t) {
	if value := recover(); value != nil {
		safego.Caught(value)
		*code = C.mmsb_status_t(native.Fail(int32(status.Internal), 0, 0, "an internal error; the log has the stack"))
		return
	}
	native.EndWaitingTensors()
}

// failed stores an error as the thread's last one.
func failed(err error) C.mmsb_status_t { return C.mmsb_status_t(lasterror.Store(err)) }

// pathOf is a path as it is meant at the call: work that goes on, and what is kept open, outlive a change of the directory. NULL
// is an empty one.
func pathOf(path *C.char) string { return file.Absolute(C.GoString(path)) }

// array is C memory as a slice.
func array[T any](first *T, count C.size_t) []T { return unsafe.Slice(first, int(count)) }

// pages are handles in C memory.
func pages(first *C.mmsb_page_t, count C.size_t) []uint64 {
	return unsafe.Slice((*uint64)(unsafe.Pointer(first)), int(count))
}

// list answers a two-call list: the count always, the items where they fit, and a capacity of 0 asks for the count.
func list[T any](items []T, to []T, count *C.size_t) error {
	*count = C.size_t(len(items))
	if len(to) == 0 || len(items) == 0 {
		return nil
	}
	if len(to) < len(items) {
		return status.Errorf(status.OutOfRange, "array holds %d items, %d are needed", len(to), len(items))
	}
	copy(to, items)
	return nil
}

// listOf is list for what C has as another type: put makes an item of each that was found.
func listOf[From, To any](found []From, to *To, capacity C.size_t, count *C.size_t, put func(to *To, from *From)) error {
	items := make([]To, len(found))
	for i := range found {
		put(&items[i], &found[i])
	}
	return list(items, array(to, capacity), count)
}

// put stores a number where the call succeeded.
func put[T ~uint32 | ~uint64](to *T) func(value uint64, err error) error {
	return func(value uint64, err error) error {
		if status.Done(err) {
			*to = T(value)
		}
		return err
	}
}

// number is a yes or no as C has it.
func number(yes bool) C.int32_t {
	if yes {
		return 1
	}
	return 0
}

// identity is the name of a device, a file or a lineage.
func identity[T ~[16]byte](name T) [16]C.uint8_t { return *(*[16]C.uint8_t)(unsafe.Pointer(&name)) }

// durationOf is a time in nanoseconds; 292 years are for ever, which is less than 0.
func durationOf(nanoseconds C.uint64_t) time.Duration {
	if nanoseconds > math.MaxInt64 {
		return -1
	}
	return time.Duration(nanoseconds)
}

// badIndex stores which item was bad.
func badIndex(to *C.size_t, index int, err error) {
	if err != nil && to != nil {
		*to = C.size_t(index)
	}
}

// on runs a call on what a handle stands for.
func on[T any](find func(h uint64) (T, error), h uint64, call func(of T) error) C.mmsb_status_t {
	of, err := find(h)
	if err == nil {
		err = call(of)
	}
	return failed(err)
}

// onContext runs a call on a context.
func onContext(context C.mmsb_context_t, call func(c *page.Context) error) C.mmsb_status_t {
	return failed(page.Use(uint64(context), call))
}

//export mmsbgo_kernel_targets
func mmsbgo_kernel_targets(text *C.char, capacity C.size_t) {
	var code C.mmsb_status_t
	defer guard(&code)
	putText(text, capacity, strings.Join(kernels.Targets(kernels.Image()), " "))
}

//export mmsbgo_go_version
func mmsbgo_go_version(text *C.char, capacity C.size_t) {
	var code C.mmsb_status_t
	defer guard(&code)
	putText(text, capacity, runtime.Version())
}

// putText fills a buffer with a zero-terminated text, cut at a character where it is longer.
func putText(to *C.char, capacity C.size_t, text string) {
	if capacity == 0 {
		return
	}
	buffer := unsafe.Slice((*byte)(unsafe.Pointer(to)), int(capacity))
	n := min(len(text), len(buffer)-1)
	for n > 0 && n < len(text) && text[n]&0xc0 == 0x80 {
		n--
	}
	copy(buffer, text[:n])
	buffer[n] = 0
}
