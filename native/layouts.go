package native

/*
#include "capture.h"
#include "delta.h"
#include "disk.h"
#include "fill.h"
#include "life.h"
#include "redo.h"
#include "walk.h"
*/
import "C"

import "unsafe"

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
		{Stored{}, C.mmsb__stored_t{}},
		{Finished{}, C.mmsb__finished_t{}},
		{Survey{}, C.mmsb__survey_t{}},
		{Transfer{}, C.mmsb__transfer_t{}},
		{byIDSlot{}, C.mmsb__by_id_slot_t{}},
		{Delta{}, C.mmsb_delta_t{}},
	}
}

// otherNames are fields that C names otherwise: unions have no name.
var otherNames = map[string]string{"TimestampNanoseconds": "timestamp_ns", "User": "anon0", "_": "reserved"}
