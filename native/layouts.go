package native

/*
#include "capture.h"
#include "delta.h"
#include "disk.h"
#include "life.h"
#include "redo.h"
#include "walk.h"
*/
import "C"

import (
	"fmt"
	"reflect"
	"strings"
	"unsafe"
)

// Go and C have the same number of leaves.
var _ = [1]struct{}{}[unsafe.Sizeof(Base{})-unsafe.Sizeof(C.mmsb__saved)]

// layouts are the structs that Go and C read in the same memory. A test compares each pair, field by field.
func layouts() [][2]any {
	return [][2]any{
		{Record{}, C.mmsb__record_t{}},
		{Side{}, C.mmsb__side_t{}},
		{Saved{}, C.mmsb__saved_t{}},
		{Image{}, C.mmsb__image_t{}},
		{ImageExtent{}, C.mmsb__image_extent_t{}},
		{Segment{}, C.mmsb__segment_t{}},
		{Staged{}, C.mmsb__staged_t{}},
		{Finished{}, C.mmsb__finished_t{}},
		{Survey{}, C.mmsb__survey_t{}},
		{Transfer{}, C.mmsb__transfer_t{}},
		{byIDSlot{}, C.mmsb__by_id_slot_t{}},
		{Delta{}, C.mmsb_delta_t{}},
	}
}

// otherNames are fields that C names otherwise: unions have no name.
var otherNames = map[string]string{"TimestampNanoseconds": "timestamp_ns", "User": "anon0", "_": "reserved"}

// difference is the first field of a struct of Go that C names otherwise, or has at another place or in another size; "" is none.
func difference(ours, theirs any) string {
	a, b := reflect.TypeOf(ours), reflect.TypeOf(theirs)
	if a.NumField() != b.NumField() || a.Size() != b.Size() {
		return fmt.Sprintf("%v has %d fields and %d bytes, %v %d and %d", a, a.NumField(), a.Size(), b, b.NumField(), b.Size())
	}
	for i := range a.NumField() {
		x, y := a.Field(i), b.Field(i)
		named := y.Name == otherNames[x.Name] || strings.EqualFold(x.Name, strings.ReplaceAll(y.Name, "_", ""))
		if !named || x.Offset != y.Offset || x.Type.Size() != y.Type.Size() {
			return fmt.Sprintf("%v.%s has %d bytes at %d, %v.%s %d at %d", a, x.Name, x.Type.Size(), x.Offset, b, y.Name,
				y.Type.Size(), y.Offset)
		}
	}
	return ""
}
