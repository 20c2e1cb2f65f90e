package native

/*
#include "bytes.h"
#include "compare.h"
#include "delta.h"
#include <stdlib.h>

static inline void differences(uint8_t *bits, const uint8_t *a, const uint8_t *b, uint64_t length) {
	mmsb__bytes.differences(bits, a, b, length);
}

// Go's own call of malloc ends the process where there is no memory.
static inline void *allocate(size_t bytes) {
	return malloc(bytes);
}
*/
import "C"

import "unsafe"

// Run is an mmsb_run_t: a range of bytes of a page.
type Run struct {
	Offset, Length uint64
}

// Delta is an mmsb_delta_t.
type Delta struct {
	structSize               uint32
	Kind                     int32
	ID, PageID, Epoch        uint64
	TimestampNanoseconds     uint64
	source, intent           *C.char
	Mask                     unsafe.Pointer
	MaskLength               uint64
	Offsets, Offsets32, Runs unsafe.Pointer
	Count                    uint64
	Payload                  unsafe.Pointer
	PayloadLength            uint64
	_                        [4]uint64
}

// Differences are bits that say where two ranges of bytes of one length differ; a nil b stands for zeros.
func Differences(a, b []byte) []byte {
	bits := make([]byte, (len(a)+7)/8)
	C.differences((*C.uint8_t)(unsafe.SliceData(bits)), (*C.uint8_t)(unsafe.SliceData(a)), (*C.uint8_t)(unsafe.SliceData(b)),
		C.uint64_t(len(a)))
	return bits
}

// Difference is an mmsb_difference_t: how many bytes differ, and the first of them.
type Difference struct{ Count, First uint64 }

// MaskLength is how many bytes a bit mask of a page has.
func MaskLength(size uint64) uint64 { return size/8 + (size%8+7)/8 }

// JoinChecksums is the CRC-32C of bytes that follow each other, from those of parts of so many bytes, of which the last has fewer
// or as many. There is one at least.
func JoinChecksums(sums []uint32, part, last uint64) uint32 {
	return uint32(C.mmsb__checksum_join_all((*C.uint32_t)(unsafe.SliceData(sums)), C.uint64_t(len(sums)), C.uint64_t(part),
		C.uint64_t(last)))
}

// NewDelta allocates an empty delta with length more bytes behind it, which may hold anything; nil where there is no memory.
func NewDelta(length uint64) *Delta {
	d := (*Delta)(C.allocate(C.size_t(uint64(unsafe.Sizeof(Delta{})) + length)))
	if d != nil {
		*d = Delta{structSize: uint32(unsafe.Sizeof(*d))}
	}
	return d
}

// FreeDelta frees what NewDelta allocated.
func FreeDelta(address uintptr) { C.free(*(*unsafe.Pointer)(unsafe.Pointer(&address))) }

// SetTexts sets source and intent: texts of C, or nil.
func (d *Delta) SetTexts(source, intent unsafe.Pointer) {
	d.source, d.intent = (*C.char)(source), (*C.char)(intent)
}

// Source and Intent are its texts, empty where they are NULL.
func (d *Delta) Source() string { return textOf(d.source) }
func (d *Delta) Intent() string { return textOf(d.intent) }

func textOf(text *C.char) string {
	if text == nil {
		return ""
	}
	return C.GoString(text)
}
