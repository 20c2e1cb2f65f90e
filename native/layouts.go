package native

/*
#include "capture.h"
#include "delta.h"
#include "life.h"
#include "redo.h"
#include "walk.h"
*/
import "C"

import "unsafe"

// The structs that Go and C read in the same memory: every field lies where the other side has it, and the sizes are equal. Where
// one differs the index is not 0, and this does not compile.

var (
	_ = [1]struct{}{}[unsafe.Sizeof(Record{})-unsafe.Sizeof(C.mmsb__record_t{})]
	_ = [1]struct{}{}[unsafe.Offsetof(Record{}.Side)-unsafe.Offsetof(C.mmsb__record_t{}.side)]
	_ = [1]struct{}{}[unsafe.Offsetof(Record{}.MaskFrame)-unsafe.Offsetof(C.mmsb__record_t{}.mask_frame)]
	_ = [1]struct{}{}[unsafe.Offsetof(Record{}.State)-unsafe.Offsetof(C.mmsb__record_t{}.state)]
	_ = [1]struct{}{}[unsafe.Offsetof(Record{}.Locator)-unsafe.Offsetof(C.mmsb__record_t{}.locator)]
	_ = [1]struct{}{}[unsafe.Offsetof(Record{}.Size)-unsafe.Offsetof(C.mmsb__record_t{}.size)]
	_ = [1]struct{}{}[unsafe.Offsetof(Record{}.Epoch)-unsafe.Offsetof(C.mmsb__record_t{}.epoch)]
	_ = [1]struct{}{}[unsafe.Offsetof(Record{}.Version)-unsafe.Offsetof(C.mmsb__record_t{}.version)]
	_ = [1]struct{}{}[unsafe.Offsetof(Record{}.MaskLocator)-unsafe.Offsetof(C.mmsb__record_t{}.mask_locator)]
	_ = [1]struct{}{}[unsafe.Offsetof(Record{}.DirtyFirst)-unsafe.Offsetof(C.mmsb__record_t{}.dirty_first)]
	_ = [1]struct{}{}[unsafe.Offsetof(Record{}.DirtyLast)-unsafe.Offsetof(C.mmsb__record_t{}.dirty_last)]
	_ = [1]struct{}{}[unsafe.Offsetof(Record{}.Exposed)-unsafe.Offsetof(C.mmsb__record_t{}.exposed)]
	_ = [1]struct{}{}[unsafe.Offsetof(Record{}.IDTaken)-unsafe.Offsetof(C.mmsb__record_t{}.id_taken)]
	_ = [1]struct{}{}[unsafe.Offsetof(Record{}.ReadPins)-unsafe.Offsetof(C.mmsb__record_t{}.read_pins)]
	_ = [1]struct{}{}[unsafe.Offsetof(Record{}.WritePins)-unsafe.Offsetof(C.mmsb__record_t{}.write_pins)]

	_ = [1]struct{}{}[unsafe.Sizeof(Side{})-unsafe.Sizeof(C.mmsb__side_t{})]
	_ = [1]struct{}{}[unsafe.Offsetof(Side{}.ID)-unsafe.Offsetof(C.mmsb__side_t{}.id)]
	_ = [1]struct{}{}[unsafe.Offsetof(Side{}.MetadataFrame)-unsafe.Offsetof(C.mmsb__side_t{}.metadata_frame)]
	_ = [1]struct{}{}[unsafe.Offsetof(Side{}.MetadataCount)-unsafe.Offsetof(C.mmsb__side_t{}.metadata_count)]
	_ = [1]struct{}{}[unsafe.Offsetof(Side{}.MetadataLength)-unsafe.Offsetof(C.mmsb__side_t{}.metadata_length)]
	_ = [1]struct{}{}[unsafe.Offsetof(Side{}.Device)-unsafe.Offsetof(C.mmsb__side_t{}.device)]
	_ = [1]struct{}{}[unsafe.Offsetof(Side{}.NUMANode)-unsafe.Offsetof(C.mmsb__side_t{}.numa_node)]
	_ = [1]struct{}{}[unsafe.Offsetof(Side{}.BackingAt)-unsafe.Offsetof(C.mmsb__side_t{}.backing_at)]
	_ = [1]struct{}{}[unsafe.Offsetof(Side{}.BackingLength)-unsafe.Offsetof(C.mmsb__side_t{}.backing_length)]
	_ = [1]struct{}{}[unsafe.Offsetof(Side{}.Release)-unsafe.Offsetof(C.mmsb__side_t{}.release)]
	_ = [1]struct{}{}[unsafe.Offsetof(Side{}.User)-unsafe.Offsetof(C.mmsb__side_t{}.anon0)]

	_ = [1]struct{}{}[unsafe.Sizeof(Saved{})-unsafe.Sizeof(C.mmsb__saved_t{})]
	_ = [1]struct{}{}[unsafe.Offsetof(Saved{}.Version)-unsafe.Offsetof(C.mmsb__saved_t{}.version)]
	_ = [1]struct{}{}[unsafe.Offsetof(Saved{}.ID)-unsafe.Offsetof(C.mmsb__saved_t{}.id)]
	_ = [1]struct{}{}[unsafe.Offsetof(Saved{}.Size)-unsafe.Offsetof(C.mmsb__saved_t{}.size)]
	_ = [1]struct{}{}[unsafe.Offsetof(Saved{}.Generation)-unsafe.Offsetof(C.mmsb__saved_t{}.generation)]
	_ = [1]struct{}{}[unsafe.Offsetof(Saved{}.CRC)-unsafe.Offsetof(C.mmsb__saved_t{}.crc)]

	_ = [1]struct{}{}[unsafe.Sizeof(Image{})-unsafe.Sizeof(C.mmsb__image_t{})]
	_ = [1]struct{}{}[unsafe.Offsetof(Image{}.ID)-unsafe.Offsetof(C.mmsb__image_t{}.id)]
	_ = [1]struct{}{}[unsafe.Offsetof(Image{}.Size)-unsafe.Offsetof(C.mmsb__image_t{}.size)]
	_ = [1]struct{}{}[unsafe.Offsetof(Image{}.Epoch)-unsafe.Offsetof(C.mmsb__image_t{}.epoch)]
	_ = [1]struct{}{}[unsafe.Offsetof(Image{}.Version)-unsafe.Offsetof(C.mmsb__image_t{}.version)]
	_ = [1]struct{}{}[unsafe.Offsetof(Image{}.Location)-unsafe.Offsetof(C.mmsb__image_t{}.location)]
	_ = [1]struct{}{}[unsafe.Offsetof(Image{}.Device)-unsafe.Offsetof(C.mmsb__image_t{}.device)]
	_ = [1]struct{}{}[unsafe.Offsetof(Image{}.NUMANode)-unsafe.Offsetof(C.mmsb__image_t{}.numa_node)]
	_ = [1]struct{}{}[unsafe.Offsetof(Image{}.Flags)-unsafe.Offsetof(C.mmsb__image_t{}.flags)]
	_ = [1]struct{}{}[unsafe.Offsetof(Image{}.FirstExtent)-unsafe.Offsetof(C.mmsb__image_t{}.first_extent)]
	_ = [1]struct{}{}[unsafe.Offsetof(Image{}.Extents)-unsafe.Offsetof(C.mmsb__image_t{}.extents)]
	_ = [1]struct{}{}[unsafe.Offsetof(Image{}.MetadataCount)-unsafe.Offsetof(C.mmsb__image_t{}.metadata_count)]
	_ = [1]struct{}{}[unsafe.Offsetof(Image{}.Reserved)-unsafe.Offsetof(C.mmsb__image_t{}.reserved)]

	_ = [1]struct{}{}[unsafe.Sizeof(ImageExtent{})-unsafe.Sizeof(C.mmsb__image_extent_t{})]
	_ = [1]struct{}{}[unsafe.Offsetof(ImageExtent{}.Offset)-unsafe.Offsetof(C.mmsb__image_extent_t{}.offset)]
	_ = [1]struct{}{}[unsafe.Offsetof(ImageExtent{}.Length)-unsafe.Offsetof(C.mmsb__image_extent_t{}.length)]
	_ = [1]struct{}{}[unsafe.Offsetof(ImageExtent{}.Stored)-unsafe.Offsetof(C.mmsb__image_extent_t{}.stored)]
	_ = [1]struct{}{}[unsafe.Offsetof(ImageExtent{}.At)-unsafe.Offsetof(C.mmsb__image_extent_t{}.at)]
	_ = [1]struct{}{}[unsafe.Offsetof(ImageExtent{}.CRC)-unsafe.Offsetof(C.mmsb__image_extent_t{}.crc)]
	_ = [1]struct{}{}[unsafe.Offsetof(ImageExtent{}.Kind)-unsafe.Offsetof(C.mmsb__image_extent_t{}.kind)]
	_ = [1]struct{}{}[unsafe.Offsetof(ImageExtent{}.Compression)-unsafe.Offsetof(C.mmsb__image_extent_t{}.compression)]

	_ = [1]struct{}{}[unsafe.Sizeof(Segment{})-unsafe.Sizeof(C.mmsb__segment_t{})]
	_ = [1]struct{}{}[unsafe.Offsetof(Segment{}.Buffer)-unsafe.Offsetof(C.mmsb__segment_t{}.buffer)]
	_ = [1]struct{}{}[unsafe.Offsetof(Segment{}.Used)-unsafe.Offsetof(C.mmsb__segment_t{}.used)]
	_ = [1]struct{}{}[unsafe.Offsetof(Segment{}.End)-unsafe.Offsetof(C.mmsb__segment_t{}.end)]
	_ = [1]struct{}{}[unsafe.Offsetof(Segment{}.Images)-unsafe.Offsetof(C.mmsb__segment_t{}.images)]
	_ = [1]struct{}{}[unsafe.Offsetof(Segment{}.ImageCount)-unsafe.Offsetof(C.mmsb__segment_t{}.image_count)]
	_ = [1]struct{}{}[unsafe.Offsetof(Segment{}.ImageCapacity)-unsafe.Offsetof(C.mmsb__segment_t{}.image_capacity)]
	_ = [1]struct{}{}[unsafe.Offsetof(Segment{}.Extents)-unsafe.Offsetof(C.mmsb__segment_t{}.extents)]
	_ = [1]struct{}{}[unsafe.Offsetof(Segment{}.ExtentCount)-unsafe.Offsetof(C.mmsb__segment_t{}.extent_count)]
	_ = [1]struct{}{}[unsafe.Offsetof(Segment{}.ExtentCapacity)-unsafe.Offsetof(C.mmsb__segment_t{}.extent_capacity)]

	_ = [1]struct{}{}[unsafe.Sizeof(Staged{})-unsafe.Sizeof(C.mmsb__staged_t{})]
	_ = [1]struct{}{}[unsafe.Offsetof(Staged{}.ID)-unsafe.Offsetof(C.mmsb__staged_t{}.id)]
	_ = [1]struct{}{}[unsafe.Offsetof(Staged{}.Size)-unsafe.Offsetof(C.mmsb__staged_t{}.size)]
	_ = [1]struct{}{}[unsafe.Offsetof(Staged{}.Epoch)-unsafe.Offsetof(C.mmsb__staged_t{}.epoch)]
	_ = [1]struct{}{}[unsafe.Offsetof(Staged{}.Version)-unsafe.Offsetof(C.mmsb__staged_t{}.version)]
	_ = [1]struct{}{}[unsafe.Offsetof(Staged{}.Low)-unsafe.Offsetof(C.mmsb__staged_t{}.low)]
	_ = [1]struct{}{}[unsafe.Offsetof(Staged{}.Index)-unsafe.Offsetof(C.mmsb__staged_t{}.index)]
	_ = [1]struct{}{}[unsafe.Offsetof(Staged{}.CRC)-unsafe.Offsetof(C.mmsb__staged_t{}.crc)]
	_ = [1]struct{}{}[unsafe.Offsetof(Staged{}.Generation)-unsafe.Offsetof(C.mmsb__staged_t{}.generation)]

	_ = [1]struct{}{}[unsafe.Sizeof(Finished{})-unsafe.Sizeof(C.mmsb__finished_t{})]
	_ = [1]struct{}{}[unsafe.Offsetof(Finished{}.sidesCount)-unsafe.Offsetof(C.mmsb__finished_t{}.sides_count)]
	_ = [1]struct{}{}[unsafe.Offsetof(Finished{}.leftCount)-unsafe.Offsetof(C.mmsb__finished_t{}.left_count)]
	_ = [1]struct{}{}[unsafe.Offsetof(Finished{}.sides)-unsafe.Offsetof(C.mmsb__finished_t{}.sides)]
	_ = [1]struct{}{}[unsafe.Offsetof(Finished{}.left)-unsafe.Offsetof(C.mmsb__finished_t{}.left)]

	_ = [1]struct{}{}[unsafe.Sizeof(Survey{})-unsafe.Sizeof(C.mmsb__survey_t{})]
	_ = [1]struct{}{}[unsafe.Offsetof(Survey{}.Pages)-unsafe.Offsetof(C.mmsb__survey_t{}.pages)]
	_ = [1]struct{}{}[unsafe.Offsetof(Survey{}.Bytes)-unsafe.Offsetof(C.mmsb__survey_t{}.bytes)]
	_ = [1]struct{}{}[unsafe.Offsetof(Survey{}.Pinned)-unsafe.Offsetof(C.mmsb__survey_t{}.pinned)]

	_ = [1]struct{}{}[unsafe.Sizeof(redoSlot{})-unsafe.Sizeof(C.mmsb__redo_slot_t{})]
	_ = [1]struct{}{}[unsafe.Offsetof(redoSlot{}.id)-unsafe.Offsetof(C.mmsb__redo_slot_t{}.id)]
	_ = [1]struct{}{}[unsafe.Offsetof(redoSlot{}.index)-unsafe.Offsetof(C.mmsb__redo_slot_t{}.index)]

	_ = [1]struct{}{}[unsafe.Sizeof(Delta{})-unsafe.Sizeof(C.mmsb_delta_t{})]
	_ = [1]struct{}{}[unsafe.Offsetof(Delta{}.structSize)-unsafe.Offsetof(C.mmsb_delta_t{}.struct_size)]
	_ = [1]struct{}{}[unsafe.Offsetof(Delta{}.Kind)-unsafe.Offsetof(C.mmsb_delta_t{}.kind)]
	_ = [1]struct{}{}[unsafe.Offsetof(Delta{}.ID)-unsafe.Offsetof(C.mmsb_delta_t{}.id)]
	_ = [1]struct{}{}[unsafe.Offsetof(Delta{}.PageID)-unsafe.Offsetof(C.mmsb_delta_t{}.page_id)]
	_ = [1]struct{}{}[unsafe.Offsetof(Delta{}.Epoch)-unsafe.Offsetof(C.mmsb_delta_t{}.epoch)]
	_ = [1]struct{}{}[unsafe.Offsetof(Delta{}.TimestampNanoseconds)-unsafe.Offsetof(C.mmsb_delta_t{}.timestamp_ns)]
	_ = [1]struct{}{}[unsafe.Offsetof(Delta{}.source)-unsafe.Offsetof(C.mmsb_delta_t{}.source)]
	_ = [1]struct{}{}[unsafe.Offsetof(Delta{}.intent)-unsafe.Offsetof(C.mmsb_delta_t{}.intent)]
	_ = [1]struct{}{}[unsafe.Offsetof(Delta{}.Mask)-unsafe.Offsetof(C.mmsb_delta_t{}.mask)]
	_ = [1]struct{}{}[unsafe.Offsetof(Delta{}.MaskLength)-unsafe.Offsetof(C.mmsb_delta_t{}.mask_length)]
	_ = [1]struct{}{}[unsafe.Offsetof(Delta{}.Offsets)-unsafe.Offsetof(C.mmsb_delta_t{}.offsets)]
	_ = [1]struct{}{}[unsafe.Offsetof(Delta{}.Offsets32)-unsafe.Offsetof(C.mmsb_delta_t{}.offsets32)]
	_ = [1]struct{}{}[unsafe.Offsetof(Delta{}.Runs)-unsafe.Offsetof(C.mmsb_delta_t{}.runs)]
	_ = [1]struct{}{}[unsafe.Offsetof(Delta{}.Count)-unsafe.Offsetof(C.mmsb_delta_t{}.count)]
	_ = [1]struct{}{}[unsafe.Offsetof(Delta{}.Payload)-unsafe.Offsetof(C.mmsb_delta_t{}.payload)]
	_ = [1]struct{}{}[unsafe.Offsetof(Delta{}.PayloadLength)-unsafe.Offsetof(C.mmsb_delta_t{}.payload_length)]

	_ = [1]struct{}{}[unsafe.Sizeof(Base{})-unsafe.Sizeof(C.mmsb__saved)]
)
