package native

/*
#include "fill.h"
*/
import "C"

import "unsafe"

// Stored is a part of the bytes of a frame that has memory, as a segment of a file has it.
type Stored struct {
	Offset uint64 // in the frame's bytes
	Index  uint32 // of the frame's record
	At     uint32 // in the segment
	Length uint32
	CRC    uint32
}

// FillFrames copies parts of a segment to where they belong. checked: up to the first whose copy has another checksum, whose
// number it returns; else it returns how many parts there are.
func FillFrames(parts []Stored, segment []byte, checked bool) int {
	return int(C.mmsb__frames_fill((*C.mmsb__stored_t)(unsafe.Pointer(unsafe.SliceData(parts))), C.uint64_t(len(parts)),
		unsafe.Pointer(unsafe.SliceData(segment)), C.int(flag(checked))))
}
