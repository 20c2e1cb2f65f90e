package native

/*
#include "prefetch.h"

#cgo noescape mmsb__prefetch_to_write
#cgo nocallback mmsb__prefetch_to_write
*/
import "C"

import "unsafe"

// PrefetchToWrite asks for the line of each place, which will be written. Work on many records, one after the other, waits for
// each of them where another processor has written it last; asked for together they come together.
func PrefetchToWrite(places []uintptr) {
	C.mmsb__prefetch_to_write((*C.uintptr_t)(unsafe.Pointer(unsafe.SliceData(places))), C.size_t(len(places)))
}

// PlaceOf is the place of a value, for PrefetchToWrite.
func PlaceOf[T any](value *T) uintptr { return uintptr(unsafe.Pointer(value)) }
