// CUDA's codes as errors with a status code.

package cuda

/*
#include "table.h"
*/
import "C"

import (
	"fmt"

	"libmmsb/core/status"
)

// kernelVersion is the CUDA version whose images kernels/ holds: an older driver does not load them.
const kernelVersion = 13000

// What a code of CUDA means here; Device where it is not listed.
var codes = map[C.CUresult]status.Code{
	C.CUDA_ERROR_INVALID_VALUE:                  status.InvalidArgument,
	C.CUDA_ERROR_OUT_OF_MEMORY:                  status.OutOfMemory,
	C.CUDA_ERROR_NO_DEVICE:                      status.NoDevice,
	C.CUDA_ERROR_STUB_LIBRARY:                   status.NoDevice,
	C.CUDA_ERROR_INVALID_DEVICE:                 status.NoDevice,
	C.CUDA_ERROR_INVALID_IMAGE:                  status.InvalidArgument,
	C.CUDA_ERROR_INVALID_PTX:                    status.InvalidArgument,
	C.CUDA_ERROR_NO_BINARY_FOR_GPU:              status.Unsupported,
	C.CUDA_ERROR_UNSUPPORTED_PTX_VERSION:        status.Unsupported,
	C.CUDA_ERROR_JIT_COMPILER_NOT_FOUND:         status.Unsupported,
	C.CUDA_ERROR_JIT_COMPILATION_DISABLED:       status.Unsupported,
	C.CUDA_ERROR_NOT_SUPPORTED:                  status.Unsupported,
	C.CUDA_ERROR_INVALID_HANDLE:                 status.InvalidHandle,
	C.CUDA_ERROR_NOT_FOUND:                      status.NotFound,
	C.CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES:        status.InvalidArgument,
	C.CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED: status.InvalidArgument,
	C.CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED:     status.InvalidArgument,

	// After these the context answers nothing else: most say so in cuda.h ("leaves the process in an inconsistent state"); the
	// others mean that the context that we hold is gone, or the process is ending.
	C.CUDA_ERROR_DEINITIALIZED:         status.DeviceLost,
	C.CUDA_ERROR_INVALID_CONTEXT:       status.DeviceLost,
	C.CUDA_ERROR_ECC_UNCORRECTABLE:     status.DeviceLost,
	C.CUDA_ERROR_NVLINK_UNCORRECTABLE:  status.DeviceLost,
	C.CUDA_ERROR_CONTAINED:             status.DeviceLost,
	C.CUDA_ERROR_ILLEGAL_ADDRESS:       status.DeviceLost,
	C.CUDA_ERROR_LAUNCH_TIMEOUT:        status.DeviceLost,
	C.CUDA_ERROR_CONTEXT_IS_DESTROYED:  status.DeviceLost,
	C.CUDA_ERROR_ASSERT:                status.DeviceLost,
	C.CUDA_ERROR_HARDWARE_STACK_ERROR:  status.DeviceLost,
	C.CUDA_ERROR_ILLEGAL_INSTRUCTION:   status.DeviceLost,
	C.CUDA_ERROR_MISALIGNED_ADDRESS:    status.DeviceLost,
	C.CUDA_ERROR_INVALID_ADDRESS_SPACE: status.DeviceLost,
	C.CUDA_ERROR_INVALID_PC:            status.DeviceLost,
	C.CUDA_ERROR_LAUNCH_FAILED:         status.DeviceLost,
	C.CUDA_ERROR_TENSOR_MEMORY_LEAK:    status.DeviceLost,
	C.CUDA_ERROR_MPS_CLIENT_TERMINATED: status.DeviceLost,
	C.CUDA_ERROR_EXTERNAL_DEVICE:       status.DeviceLost,
}

// codeOf is what a code of CUDA means here.
func codeOf(code int32) status.Code {
	if own, listed := codes[C.CUresult(code)]; listed {
		return own
	}
	return status.Device
}

// describe is the call that failed with its code in CUDA's words, like "cuInit: CUDA_ERROR_NO_DEVICE (100): no CUDA-capable
// device".
func describe(table *C.mmsb__cuda_table_t, outcome C.mmsb__cuda_outcome_t) string {
	name := C.GoString(C.mmsb__cuda_code_name(table, outcome.code))
	text := fmt.Sprintf("%s: %s (%d)", C.GoString(outcome.call), name, int(outcome.code))
	if meaning := C.GoString(C.mmsb__cuda_code_text(table, outcome.code)); meaning != "" {
		text += ": " + meaning
	}
	return text
}

// failed makes the error of an operation on a device: a line that says what was asked, and what the driver answered. A device
// that is lost stays lost, with its first reason.
func (d *device) failed(outcome C.mmsb__cuda_outcome_t, format string, asked ...any) error {
	if outcome.code == C.MMSB__CUDA_NO_MEMORY {
		return status.Errorf(status.OutOfMemory, format+": out of host memory", asked...)
	}
	err := &status.Error{Code: codeOf(int32(outcome.code)), Domain: status.DomainCUDA, Foreign: int32(outcome.code)}
	answered := describe(d.driver.table, outcome)
	err.Text = fmt.Sprintf("device %d: "+format+": %s", append(append([]any{d.info.Ordinal}, asked...), answered)...)
	switch err.Code {
	case status.DeviceLost:
		lost := *err
		lost.Text = fmt.Sprintf("device %d was lost: %s", d.info.Ordinal, answered)
		d.lost.CompareAndSwap(nil, &lost)
	case status.OutOfMemory:
		var free, total C.size_t
		if d.c != nil && C.mmsb__cuda_memory_info(d.c, &free, &total).code == C.CUDA_SUCCESS { // else it was not opened
			err.Text += fmt.Sprintf("; %d of %d bytes are free", uint64(free), uint64(total))
		}
	case status.Unsupported:
		if have := d.driver.Version(); have < kernelVersion {
			err.Text += fmt.Sprintf("; the driver has CUDA %s, and images made by CUDA %s need driver 580 or newer",
				version(have), version(kernelVersion))
		}
	}
	return err
}

// check is the error of an operation that can fail, nil where it did not. What is called most looks at its outcome itself: the
// arguments cost memory.
func (d *device) check(outcome C.mmsb__cuda_outcome_t, format string, asked ...any) error {
	if outcome.code == C.CUDA_SUCCESS {
		return nil
	}
	return d.failed(outcome, format, asked...)
}

// alive is nil while the device works.
func (d *device) alive() error {
	if lost := d.lost.Load(); lost != nil {
		return lost
	}
	return nil
}

// refuse makes the error of what is seen to be wrong before the driver is asked.
func (d *device) refuse(code status.Code, format string, args ...any) error {
	return status.Errorf(code, "device %d: "+format, append([]any{d.info.Ordinal}, args...)...)
}
