// Calls that do not enter Go.

package player

/*
#cgo CFLAGS: -std=gnu11 -O2 -Wall -I${SRCDIR}/../../include
#include "play.h"

#cgo noescape mmsb__play
#cgo nocallback mmsb__play
*/
import "C"

import (
	"sync/atomic"
	"unsafe"

	"libmmsb/core/trace"
)

// block is a block of a replay; see play.h.
type block struct {
	Handle atomic.Uint64
	Stream uint64
}

// noMemory is the handle of a block for which there was none.
const noMemory = 1<<64 - 1

// layouts are the structs that Go and C read in the same memory. A test compares each pair, field by field.
func layouts() [][2]any {
	return [][2]any{{trace.Event{}, C.mmsb__play_event_t{}}, {block{}, C.mmsb__play_block_t{}}}
}

// playInC makes calls until one has to enter Go, or wait, and says how many, and how many of them were allocations.
func playInC(events []trace.Event, streams []uint64, blocks []block) (done int, hits uint64) {
	if len(events) == 0 {
		return 0, 0
	}
	var inC C.uint64_t
	count := C.mmsb__play((*C.mmsb__play_event_t)(unsafe.Pointer(unsafe.SliceData(events))), C.size_t(len(events)),
		(*C.mmsb_stream_t)(unsafe.SliceData(streams)), (*C.mmsb__play_block_t)(unsafe.Pointer(unsafe.SliceData(blocks))), &inC)
	return int(count), uint64(inC)
}
