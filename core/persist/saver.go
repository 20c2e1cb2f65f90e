package persist

import (
	"unsafe"

	"libmmsb/core/safego"
	"libmmsb/core/snapshot"
	"libmmsb/core/ticket"
	"libmmsb/native"
)

// saver is one save.
type saver struct {
	*state
	o       *SaveOptions
	work    *ticket.Work
	writer  *snapshot.Writer
	capture native.Capture
	scratch *snapshot.Segment // what is compressed goes through it
	buffer  []byte            // for a chunk
	large   map[uint32]largeSaved
	looking *safego.Helper // the goroutine that helps to find what is not as the base has it
	fast    bool           // the base is what native.LastSaved tells of
	done    uint64         // bytes, of about total: masks and metadata come on top, and a base has some of them
	total   uint64

	written  bool           // sections go on: everything that they may change is kept
	recorded bool           // a journal has a record of each change: the state has its name from there
	opened   *openedJournal // at the moment; nil: there was none
	leaves   []uint32       // of the context at the moment
}

func (s *saver) progress(bytes uint64) {
	s.done = min(s.done+bytes, s.total)
	if s.work != nil {
		s.work.Progress(s.done)
	}
}

// Native code fills a segment's pages and extents where core/snapshot writes them: every field lies where the other side
// has it. Where a page's differ they cannot be converted, where an extent's do the index is not 0, and this does not compile.
var (
	_ = snapshot.Page(native.Image{})
	_ = [1]struct{}{}[unsafe.Sizeof(snapshot.Extent{})-unsafe.Sizeof(native.ImageExtent{})]
	_ = [1]struct{}{}[unsafe.Offsetof(snapshot.Extent{}.Offset)-unsafe.Offsetof(native.ImageExtent{}.Offset)]
	_ = [1]struct{}{}[unsafe.Offsetof(snapshot.Extent{}.Length)-unsafe.Offsetof(native.ImageExtent{}.Length)]
	_ = [1]struct{}{}[unsafe.Offsetof(snapshot.Extent{}.Stored)-unsafe.Offsetof(native.ImageExtent{}.Stored)]
	_ = [1]struct{}{}[unsafe.Offsetof(snapshot.Extent{}.At)-unsafe.Offsetof(native.ImageExtent{}.At)]
	_ = [1]struct{}{}[unsafe.Offsetof(snapshot.Extent{}.CRC)-unsafe.Offsetof(native.ImageExtent{}.CRC)]
	_ = [1]struct{}{}[unsafe.Offsetof(snapshot.Extent{}.Kind)-unsafe.Offsetof(native.ImageExtent{}.Kind)]
	_ = [1]struct{}{}[unsafe.Offsetof(snapshot.Extent{}.Compression)-unsafe.Offsetof(native.ImageExtent{}.Compression)]
)
