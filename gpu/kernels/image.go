//go:build mmsbcuda

package kernels

/*
#cgo amd64 LDFLAGS: ${SRCDIR}/../../build/kernels/amd64/libmmsb_kernels.a
#cgo arm64 LDFLAGS: ${SRCDIR}/../../build/kernels/arm64/libmmsb_kernels.a
#include <stddef.h>
#include <stdint.h>

extern const uint8_t mmsb__kernel_image[], mmsb__kernel_image_end[];

static inline size_t image_bytes(void) {
    return (size_t)(mmsb__kernel_image_end - mmsb__kernel_image);
}
*/
import "C"

import "unsafe"

// Image is the kernels' device code, a fat binary that a CUDA driver loads: empty in a build without it. It is read-only.
func Image() []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(&C.mmsb__kernel_image)), int(C.image_bytes()))
}
