// Package fakecuda lets Go tests load and drive the stand-in for NVIDIA's driver library that library/ is the source of.
package fakecuda

/*
#cgo LDFLAGS: -ldl
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>
#include "fakecuda.h"

typedef struct CUctx_st *context_t;
typedef struct CUstream_st *stream_t;

#define CALL(result, types, ...) ((result(*) types)call)(__VA_ARGS__)
static void fail(void *call, const char *function, int nth, int code) { CALL(void, (const char *, int, int), function, nth,
	code); }
static int calls(void *call) { return CALL(int, (void)); }
static void break_device(void *call, int device, int code) { CALL(void, (int, int), device, code); }
static void hold(void *call, int held) { CALL(void, (int), held); }
static void count(void *call, struct fakecuda_counts *counts) { CALL(void, (struct fakecuda_counts *), counts); }

// What another user of CUDA in the process does.
static int set_current(void *call, uintptr_t context) { return CALL(int, (context_t), (context_t)context); }
static uintptr_t get_current(void *call) {
    context_t context;
    CALL(int, (context_t *), &context);
    return (uintptr_t)context;
}
static int create_stream(void *call, uintptr_t *stream) { return CALL(int, (stream_t *, unsigned, int), (stream_t *)stream, 0,
	0); }
static int destroy_stream(void *call, uintptr_t stream) { return CALL(int, (stream_t), (stream_t)stream); }
*/
import "C"

import (
	"os"
	"path/filepath"
	"testing"
	"unsafe"
)

// Library is a copy of the stand-in, with devices of its own.
type Library struct {
	Path   string
	t      testing.TB
	handle unsafe.Pointer
}

// Counts is what is alive in it: see fakecuda.h.
type Counts struct {
	Contexts, Streams, Events, Modules, Pools, Allocations, Bytes, Registered, Reservations, Physicals, Mappings int
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// built is where make puts the library.
func built(t testing.TB) string {
	folder, err := os.Getwd() // of the test's package
	if err != nil {
		t.Fatal(err)
	}
	for !exists(filepath.Join(folder, "go.mod")) && folder != "/" {
		folder = filepath.Dir(folder)
	}
	path := filepath.Join(folder, "build/fakecuda/libcuda.so.1")
	if !exists(path) {
		t.Fatalf("%s does not exist: make build/fakecuda/libcuda.so.1 builds it", path)
	}
	return path
}

// Load makes a copy, so that the test begins with new devices, and loads it. Settings are names without FAKECUDA_, each with its
// value.
func Load(t testing.TB, settings ...string) *Library {
	t.Helper()
	for i := 0; i < len(settings); i += 2 {
		t.Setenv("FAKECUDA_"+settings[i], settings[i+1])
	}
	content, err := os.ReadFile(built(t))
	if err != nil {
		t.Fatal(err)
	}
	library := &Library{Path: filepath.Join(t.TempDir(), "libcuda.so.1"), t: t}
	if err = os.WriteFile(library.Path, content, 0o700); err != nil {
		t.Fatal(err)
	}
	path := C.CString(library.Path)
	defer C.free(unsafe.Pointer(path))
	if library.handle = C.dlopen(path, C.RTLD_NOW|C.RTLD_LOCAL); library.handle == nil {
		t.Fatal(C.GoString(C.dlerror()))
	}
	return library
}

func (l *Library) symbol(name string) unsafe.Pointer {
	text := C.CString(name)
	defer C.free(unsafe.Pointer(text))
	symbol := C.dlsym(l.handle, text)
	if symbol == nil {
		l.t.Fatalf("the library has no %s", name)
	}
	return symbol
}

func (l *Library) must(name string, result C.int) {
	if result != 0 {
		l.t.Fatalf("%s: %d", name, result)
	}
}

// Fail makes the n-th call from now of a function (of any, where it is empty) answer with a code; n = 0 ends that.
func (l *Library) Fail(function string, nth, code int) {
	var name *C.char
	if function != "" {
		name = C.CString(function)
		defer C.free(unsafe.Pointer(name))
	}
	C.fail(l.symbol("fakecuda_fail"), name, C.int(nth), C.int(code))
}

// Calls is how many calls of that function there were since Fail.
func (l *Library) Calls() int { return int(C.calls(l.symbol("fakecuda_calls"))) }

// Break makes a device answer with a code from now on.
func (l *Library) Break(device, code int) {
	C.break_device(l.symbol("fakecuda_break"), C.int(device), C.int(code))
}

// Hold keeps what is queued from running until the function it returns is called.
func (l *Library) Hold() (resume func()) {
	C.hold(l.symbol("fakecuda_hold"), 1)
	return func() { C.hold(l.symbol("fakecuda_hold"), 0) }
}

// Counts is what is alive.
func (l *Library) Counts() Counts {
	var c C.struct_fakecuda_counts
	C.count(l.symbol("fakecuda_count"), &c)
	return Counts{
		int(c.contexts), int(c.streams), int(c.events), int(c.modules), int(c.pools), int(c.allocations), int(c.bytes),
		int(c.registered), int(c.reservations), int(c.physicals), int(c.mappings),
	}
}

// SetCurrent makes a context the calling thread's; 0 leaves it none.
func (l *Library) SetCurrent(context uintptr) {
	l.must("cuCtxSetCurrent", C.set_current(l.symbol("cuCtxSetCurrent"), C.uintptr_t(context)))
}

// Current is the calling thread's context.
func (l *Library) Current() uintptr {
	return uintptr(C.get_current(l.symbol("cuCtxGetCurrent")))
}

// NewStream makes a stream in the calling thread's context.
func (l *Library) NewStream() uintptr {
	var stream C.uintptr_t
	l.must("cuStreamCreateWithPriority", C.create_stream(l.symbol("cuStreamCreateWithPriority"), &stream))
	return uintptr(stream)
}

// EndStream destroys it.
func (l *Library) EndStream(stream uintptr) {
	l.must("cuStreamDestroy", C.destroy_stream(l.symbol("cuStreamDestroy_v2"), C.uintptr_t(stream)))
}
