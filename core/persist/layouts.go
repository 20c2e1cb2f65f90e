package persist

import (
	"unsafe"

	"libmmsb/core/snapshot"
	"libmmsb/native"
)

// Native code fills a segment's pages and extents where core/snapshot writes them: every field lies where the other side
// has it. Where one differs the index is not 0, and this does not compile.
var (
	_ = [1]struct{}{}[unsafe.Sizeof(snapshot.Page{})-unsafe.Sizeof(native.Image{})]
	_ = [1]struct{}{}[unsafe.Offsetof(snapshot.Page{}.ID)-unsafe.Offsetof(native.Image{}.ID)]
	_ = [1]struct{}{}[unsafe.Offsetof(snapshot.Page{}.Size)-unsafe.Offsetof(native.Image{}.Size)]
	_ = [1]struct{}{}[unsafe.Offsetof(snapshot.Page{}.Epoch)-unsafe.Offsetof(native.Image{}.Epoch)]
	_ = [1]struct{}{}[unsafe.Offsetof(snapshot.Page{}.Version)-unsafe.Offsetof(native.Image{}.Version)]
	_ = [1]struct{}{}[unsafe.Offsetof(snapshot.Page{}.Location)-unsafe.Offsetof(native.Image{}.Location)]
	_ = [1]struct{}{}[unsafe.Offsetof(snapshot.Page{}.Device)-unsafe.Offsetof(native.Image{}.Device)]
	_ = [1]struct{}{}[unsafe.Offsetof(snapshot.Page{}.NUMANode)-unsafe.Offsetof(native.Image{}.NUMANode)]
	_ = [1]struct{}{}[unsafe.Offsetof(snapshot.Page{}.Flags)-unsafe.Offsetof(native.Image{}.Flags)]
	_ = [1]struct{}{}[unsafe.Offsetof(snapshot.Page{}.FirstExtent)-unsafe.Offsetof(native.Image{}.FirstExtent)]
	_ = [1]struct{}{}[unsafe.Offsetof(snapshot.Page{}.Extents)-unsafe.Offsetof(native.Image{}.Extents)]
	_ = [1]struct{}{}[unsafe.Offsetof(snapshot.Page{}.MetadataCount)-unsafe.Offsetof(native.Image{}.MetadataCount)]
	_ = [1]struct{}{}[unsafe.Offsetof(snapshot.Page{}.Reserved)-unsafe.Offsetof(native.Image{}.Reserved)]

	_ = [1]struct{}{}[unsafe.Sizeof(snapshot.Extent{})-unsafe.Sizeof(native.ImageExtent{})]
	_ = [1]struct{}{}[unsafe.Offsetof(snapshot.Extent{}.Offset)-unsafe.Offsetof(native.ImageExtent{}.Offset)]
	_ = [1]struct{}{}[unsafe.Offsetof(snapshot.Extent{}.Length)-unsafe.Offsetof(native.ImageExtent{}.Length)]
	_ = [1]struct{}{}[unsafe.Offsetof(snapshot.Extent{}.Stored)-unsafe.Offsetof(native.ImageExtent{}.Stored)]
	_ = [1]struct{}{}[unsafe.Offsetof(snapshot.Extent{}.At)-unsafe.Offsetof(native.ImageExtent{}.At)]
	_ = [1]struct{}{}[unsafe.Offsetof(snapshot.Extent{}.CRC)-unsafe.Offsetof(native.ImageExtent{}.CRC)]
	_ = [1]struct{}{}[unsafe.Offsetof(snapshot.Extent{}.Kind)-unsafe.Offsetof(native.ImageExtent{}.Kind)]
	_ = [1]struct{}{}[unsafe.Offsetof(snapshot.Extent{}.Compression)-unsafe.Offsetof(native.ImageExtent{}.Compression)]
)
