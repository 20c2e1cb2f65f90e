// The kernels built for the host, which simulated devices launch.

package kernels

/*
#cgo CFLAGS: -std=gnu11 -O2 -Wall -fno-strict-aliasing
#include "../../kernels/kernels.h"

#cgo noescape mmsb__kernel_host
#cgo nocallback mmsb__kernel_host
#cgo noescape mmsb__kernel_checksum_by_lanes
#cgo nocallback mmsb__kernel_checksum_by_lanes
#cgo noescape run_threads
#cgo nocallback run_threads

static inline void run_threads(const mmsb__kernel_host_t *kernel, const void *parameter, uint64_t first, uint64_t end,
                               uint64_t threads) {
    for (uint64_t thread = first; thread < end; thread++)
        kernel->body(parameter, thread, threads);
}
*/
import "C"

import (
	"unsafe"

	"libmmsb/core/status"
	_ "libmmsb/native" // whose byte loops the host build takes
)

// Host is a kernel built for the host: what a simulated device launches.
type Host struct {
	kernel *C.mmsb__kernel_host_t
}

// FindHost finds a kernel by the name of the device's function. Errors: NotFound.
func FindHost(name string) (Host, error) {
	text := append([]byte(name), 0)
	kernel := C.mmsb__kernel_host((*C.char)(unsafe.Pointer(&text[0])))
	if kernel == nil {
		return Host{}, status.Errorf(status.NotFound, "no kernel is named %q", name)
	}
	return Host{kernel}, nil
}

// ParameterBytes is the size of the kernel's parameter.
func (h Host) ParameterBytes() int { return int(h.kernel.parameter_bytes) }

// Run does the work of the threads from first to before end, of so many. The threads may be run in any order, in parts, and at
// the same time. Errors: Mismatch where the parameter is not that kernel's.
func (h Host) Run(parameter []byte, first, end, threads uint64) error {
	if len(parameter) != h.ParameterBytes() {
		return status.Errorf(status.Mismatch, "parameter of %s has %d bytes, not %d", C.GoString(h.kernel.name),
			h.ParameterBytes(), len(parameter))
	}
	C.run_threads(h.kernel, unsafe.Pointer(&parameter[0]), C.uint64_t(first), C.uint64_t(end), C.uint64_t(threads))
	return nil
}

// Reach tells where the memory of simulated devices is for the host: addresses from base to before end are reached distance bytes
// further on, modulo 2^64; distance is a multiple of 16. To be called before the first kernel runs.
func Reach(base, end, distance uintptr) {
	C.mmsb__kernel_reach(C.uint64_t(base), C.uint64_t(end), C.uint64_t(distance))
}

// checksumByLanes does what the lanes of a device do for checksums, which no kernel of the host does.
func checksumByLanes(parameter []byte) {
	C.mmsb__kernel_checksum_by_lanes((*C.mmsb__kernel_checksum_t)(unsafe.Pointer(&parameter[0])))
}

// headerLayout is what Span, Pair and the constants must agree with.
func headerLayout() [23]uintptr {
	var span C.mmsb__kernel_span_t
	var pair C.mmsb__kernel_pair_t
	var box C.mmsb__kernel_mailbox_t
	return [23]uintptr{
		unsafe.Offsetof(span.to), unsafe.Offsetof(span.from), unsafe.Offsetof(span.bytes), unsafe.Offsetof(span.piece),
		unsafe.Sizeof(span), C.MMSB__KERNEL_PIECE, C.MMSB__KERNEL_RANK, C.MMSB__KERNEL_LANES,
		unsafe.Offsetof(pair.to), unsafe.Offsetof(pair.from), unsafe.Offsetof(pair.bits), unsafe.Offsetof(pair.changed),
		unsafe.Offsetof(pair.bytes), unsafe.Offsetof(pair.piece), unsafe.Sizeof(pair),
		unsafe.Offsetof(box.posted), unsafe.Offsetof(box.done), unsafe.Offsetof(box.kind), unsafe.Offsetof(box.list),
		unsafe.Offsetof(box.pieces), unsafe.Sizeof(box), C.MMSB__KERNEL_COPY_MANY, C.MMSB__KERNEL_PROPAGATE,
	}
}
