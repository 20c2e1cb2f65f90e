// Reading the whole state in the order of the files.

package snapshot

import (
	"cmp"
	"slices"

	"libmmsb/core/file"
	"libmmsb/core/status"
)

// LoadOptions of Segments and Load.
type LoadOptions struct {
	// Want chooses pages; nil: all. It is asked more than once about a page, which may come in parts, and always answers the
	// same. Segments without a chosen page are not read.
	Want func(id uint64) bool
	// TablesOnly reads no data: Loaded.Bytes is nil.
	TablesOnly bool
	// SumsLater leaves the checksums of uncompressed bytes to the caller, where Loaded.SumsLater says so. Who copies them finds
	// them in the processor's cache then.
	SumsLater bool
	// DistinctLater leaves it to the caller to see that no id of those that come does so twice. Without Want.
	DistinctLater bool
	// Everything looks at what need not be read to know the state, too: that all that is compressed can be decompressed, and that
	// all metadata is valid, also of pages that newer files replace. Without Want.
	Everything bool
	// GoesOn is asked often, also where nothing is read; its error ends the walk. nil: nobody asks.
	GoesOn func() error

	read func(bytes uint64) error // is told of what was read
}

func (o *LoadOptions) asking() asking {
	if o.GoesOn == nil && o.read != nil {
		return func() error { return o.read(0) }
	}
	return o.GoesOn
}

// Loaded is a segment's part of the state: the pages that newer files do not replace, and of their extents those that count.
// Bytes are valid during the call only, and with TablesOnly so are Pages and Extents.
type Loaded struct {
	File    int    // number in Chain
	Offset  uint64 // of Bytes in the file
	Bytes   []byte // an extent's At counts from its start
	Pages   []Page // FirstExtent counts in Extents; with FlagKnown the page came before
	Extents []Extent
	// SumsLater: the caller calls CheckBytes for each uncompressed extent of KindBytes.
	SumsLater bool

	volume *volume
}

// ExtentsOf are the extents of one of Pages.
func (l *Loaded) ExtentsOf(page *Page) []Extent { return l.Extents[page.FirstExtent:][:page.Extents] }

// CheckBytes compares the checksum of an extent's bytes, which may have been copied.
func (l *Loaded) CheckBytes(page *Page, extent *Extent, bytes []byte) error {
	return l.volume.checkStored(page.ID, extent, bytes, l.Offset)
}

// An extent that newer files cover in part comes as the ranges they leave, each an extent that has no checksum; what is
// compressed of it has been decompressed.

// Segments walks the state in the order of the files, newest first, with big sequential reads, each extent once. A page
// comes with its newest entry first; what is left of it in other segments and files comes later with FlagKnown. The tables
// and the zeros between extents are always checked, every checksum, and in the end that the state is complete, and that no id and
// no dependency comes twice. An error of each ends the walk and is returned.
func (s *Snapshot) Segments(o LoadOptions, each func(segment Loaded) error) error {
	return s.ParallelSegments(o, func(segment Loaded) (func() error, error) { return nil, each(segment) })
}

// ParallelSegments is Segments with work for which the order does not matter: where each returns rest, that is called beside the
// segments that follow, for several at a time, and Bytes are valid until it returns. Its error ends the walk, too.
func (s *Snapshot) ParallelSegments(o LoadOptions, each func(segment Loaded) (rest func() error, err error)) error {
	newer, gone, err := s.newerRecords(o.asking())
	if err != nil {
		return err
	}
	w := walk{s: s, newer: newer, gone: gone, whole: make([]uint64, (len(newer)+63)/64), want: o.Want}
	for number := range s.volumes {
		if err := w.volume(number, o, each); err != nil {
			return err
		}
	}
	return w.finish()
}

// newerRecords are enough to know what newer files replace; of pages that are gone they are none.
func (s *Snapshot) newerRecords(goesOn asking) (newer records, gone []uint64, err error) {
	if s.all.lock.TryLock() { // or it is being made
		made := s.all.made
		s.all.lock.Unlock()
		if made {
			return s.all.list, nil, nil
		}
	}
	return s.newer.get(s, goesOn)
}

// walk is one walk over the segments of a chain.
type walk struct {
	s      *Snapshot
	newer  records
	gone   []uint64
	whole  []uint64 // a bit for each of newer: the bytes under its changes came
	want   func(id uint64) bool
	counts state
	frames []frame

	replaced []uint64 // pages of the oldest file that do not belong to the state
	covered  struct { // what newer files have of the bytes of the page that came last
		id     uint64
		file   int
		ranges []Range
	}
}

// frame is a compressed extent of which newer files leave these ranges.
type frame struct {
	page   Page
	extent Extent
	left   []Range
}

// choice is a segment that is to be read.
type choice struct {
	segment   int
	continues bool // its first page began before
}

// segmentsAtATime is of how many segments is noted that they are to be read: a file can say that it has many.
const segmentsAtATime = 1 << 14

// volume walks one file. Where pages are chosen, its tables are read first, to know which segments are needed.
func (w *walk) volume(number int, o LoadOptions, each func(segment Loaded) (func() error, error)) error {
	v := w.s.volumes[number]
	check := w.s.sequence(number)
	if number == len(w.s.volumes)-1 && !o.DistinctLater { // of the newer ones the records tell
		ids := make([]uint64, 0, v.claimed(v.totals.Pages, pageBytes))
		check.ids = &ids
	}
	goesOn, content := o.asking(), metadataCheck{v: v}
	chosen := make([]choice, 0, min(v.segments(), segmentsAtATime))
	read := func() error {
		err := w.read(number, chosen, o, &check, &content, each)
		chosen = chosen[:0]
		return err
	}
	tables := tableReader{v: v}
	for segment := range v.segments() {
		if err := goesOn.ask(); err != nil {
			return err
		}
		if len(chosen) == segmentsAtATime && !o.TablesOnly {
			if err := read(); err != nil {
				return err
			}
		}
		if !o.TablesOnly && o.Want == nil {
			chosen = append(chosen, choice{segment: segment})
			continue
		}
		t, err := tables.read(segment)
		if err != nil {
			return err
		}
		continues, err := check.add(t)
		if err != nil {
			return err
		}
		loaded, err := w.part(number, t, continues, true)
		if err != nil {
			return err
		}
		if len(loaded.Pages)+len(w.frames) == 0 {
			continue
		}
		if !o.TablesOnly {
			chosen = append(chosen, choice{segment, continues})
		} else {
			rest, err := each(loaded)
			if err == nil && rest != nil {
				err = rest()
			}
			if err != nil {
				return err
			}
		}
	}
	if !o.TablesOnly {
		if err := read(); err != nil {
			return err
		}
		if err := content.flush(); err != nil {
			return err
		}
	}
	if err := check.finish(goesOn); err != nil {
		return err
	}
	if o.DistinctLater { // the caller sees the others
		if err := check.distinct(w.replaced, goesOn); err != nil {
			return err
		}
	}
	if number == 0 {
		w.s.edgesChecked.Store(true)
	}
	return nil
}

// read reads segments whole. Where pages are chosen, the tables went through check before.
func (w *walk) read(number int, chosen []choice, o LoadOptions, check *sequence, content *metadataCheck,
	each func(segment Loaded) (func() error, error)) error {
	v := w.s.volumes[number]
	ranges := make([]file.Range, 0, len(chosen))
	for _, one := range chosen {
		offset, length := v.bounds(one.segment)
		ranges = append(ranges, file.Range{Offset: int64(offset), Length: int64(length)})
	}
	tables := make([]*table, len(chosen))
	later := o.SumsLater && w.comesWhole(number)
	look := func(i int, piece []byte) error { // beside the others: it is most of the work
		t, err := v.loaded(chosen[i].segment, piece)
		tables[i] = t
		if err != nil || len(t.pages) == 0 {
			return err
		}
		return v.checkData(t, piece, o.Everything, !later)
	}
	goesOn := o.asking()
	return file.CheckedPieces(v.source, ranges, look, func(i int, piece []byte) (rest func() error, err error) {
		t := tables[i]
		tables[i] = nil
		if err := goesOn.ask(); err != nil {
			return nil, err
		}
		if o.read != nil {
			if err := o.read(uint64(len(piece))); err != nil {
				return nil, err
			}
		}
		if o.Everything {
			if err := content.add(t, piece); err != nil {
				return nil, err
			}
		}
		if o.Want == nil {
			if chosen[i].continues, err = check.add(t); err != nil {
				return nil, err
			}
		}
		loaded, err := w.part(number, t, chosen[i].continues, o.Want == nil)
		if err != nil {
			return nil, err
		}
		for number := range w.frames {
			if err := w.frames[number].decompressed(v, &loaded, piece, each); err != nil {
				return nil, err
			}
		}
		if len(loaded.Pages) == 0 {
			return nil, nil
		}
		loaded.Bytes, loaded.SumsLater, loaded.volume = piece, later, v
		if v.header.Version == OriginalVersion {
			for number := range loaded.Extents {
				extent := &loaded.Extents[number]
				extent.CRC = checksum(piece[extent.At:][:extent.Stored])
			}
		}
		return each(loaded)
	})
}

// decompressed gives the ranges that are left of a frame.
func (f *frame) decompressed(v *volume, of *Loaded, piece []byte, each func(segment Loaded) (func() error, error)) error {
	memory := twoChunks()
	defer chunks.Put(memory)
	bytes := memory[:f.extent.Length]
	if err := v.expand(bytes, f.page.ID, &f.extent, piece[f.extent.At:][:f.extent.Stored], of.Offset); err != nil {
		return err
	}
	page := f.page
	page.Flags |= FlagKnown
	page.FirstExtent, page.Extents = 0, uint32(len(f.left))
	whole := f.extent
	whole.At, whole.Stored, whole.Compression = 0, whole.Length, Uncompressed
	rest, err := each(Loaded{File: of.File, Offset: of.Offset, Bytes: bytes, Pages: []Page{page}, Extents: whole.split(f.left)})
	if err == nil && rest != nil {
		err = rest()
	}
	return err
}

// split gives parts of an extent that is not compressed.
func (extent *Extent) split(left []Range) (parts []Extent) {
	for _, bounds := range left {
		part := *extent
		part.Offset, part.Length, part.CRC = bounds.Offset, uint32(bounds.Length), 0
		if extent.Compression == Uncompressed {
			part.Stored, part.At = part.Length, extent.At+uint32(bounds.Offset-extent.Offset)
		}
		parts = append(parts, part)
	}
	return parts
}

// loaded is the table of a segment that was read whole.
func (v *volume) loaded(segment int, piece []byte) (*table, error) {
	if v.header.Version == OriginalVersion {
		return v.originalTable(segment)
	}
	return v.parse(segment, piece, new(table))
}

// part is what of a segment belongs to the state. With count its pages are counted.
func (w *walk) part(number int, t *table, continues, count bool) (_ Loaded, err error) {
	w.frames = w.frames[:0]
	if w.comesWhole(number) {
		return w.all(t, continues)
	}
	loaded := Loaded{
		File: number, Offset: t.offset, Pages: make([]Page, 0, len(t.pages)), Extents: make([]Extent, 0, len(t.extents)),
	}
	for entry := range t.pages {
		page := t.pages[entry]
		begins := entry > 0 || !continues
		at, newer := w.newerOf(page.ID, number)
		_, gone := slices.BinarySearch(w.gone, page.ID)
		if gone || slices.ContainsFunc(newer, func(r record) bool { return r.removed() || !r.changes() }) {
			if begins && count && number == len(w.s.volumes)-1 {
				w.replaced = append(w.replaced, page.ID)
			}
			continue
		}
		if begins && count {
			if err := w.count(number, &page, at, newer); err != nil {
				return Loaded{}, err
			}
		}
		if w.want != nil && !w.want(page.ID) {
			continue
		}
		extents := t.extentsOf(&page)
		page.FirstExtent = uint32(len(loaded.Extents))
		if len(newer) == 0 {
			loaded.Extents = append(loaded.Extents, extents...)
		} else if loaded.Extents, err = w.rest(loaded.Extents, number, page, newer, extents); err != nil {
			return Loaded{}, err
		}
		page.Extents = uint32(len(loaded.Extents)) - page.FirstExtent
		if !begins || len(newer) > 0 {
			if page.Extents == 0 {
				continue
			}
			page.Flags |= FlagKnown
		}
		loaded.Pages = append(loaded.Pages, page)
	}
	return loaded, nil
}

// comesWhole says whether nothing of a file's segments is left out: it is the newest one, and no pages are chosen.
func (w *walk) comesWhole(number int) bool {
	return number == 0 && w.want == nil && w.s.volumes[0].header.Version != OriginalVersion
}

// all is a whole segment of the newest file, whose table is this walk's own.
func (w *walk) all(t *table, continues bool) (Loaded, error) {
	for entry := range t.pages {
		page := &t.pages[entry]
		if entry == 0 && continues {
			page.Flags |= FlagKnown
		} else if err := w.counts.add(w.s.volumes[0].name, page.ID, page.Size); err != nil {
			return Loaded{}, err
		}
	}
	return Loaded{Offset: t.offset, Pages: t.pages, Extents: t.extents}, nil
}

// newerOf is what newer files than one say about a page, and where in all records its own begin.
func (w *walk) newerOf(id uint64, number int) (int, []record) {
	if number == 0 {
		return 0, nil
	}
	at, group := w.newer.of(id)
	for len(group) > 0 && group[len(group)-1].segment >= w.s.first[number] {
		group = group[:len(group)-1]
	}
	return at, group
}

// count counts a page of the state, or the page of an older file that lies under its changes.
func (w *walk) count(number int, page *Page, at int, newer []record) error {
	v := w.s.volumes[number]
	if len(newer) == 0 {
		return w.counts.add(v.name, page.ID, page.Size)
	}
	if last := &newer[len(newer)-1]; last.size != page.Size {
		return w.s.foreignBase(last)
	}
	if page.Flags&FlagChanges != 0 {
		return nil
	}
	bit := uint64(1) << (at % 64)
	if w.whole[at/64]&bit != 0 {
		return status.Errorf(status.Corrupt, "%s: page %d occurs twice", v.name, page.ID)
	}
	w.whole[at/64] |= bit
	return nil
}

// rest adds those of an older file's extents that newer ones do not have.
func (w *walk) rest(added []Extent, number int, page Page, newer []record, extents []Extent) ([]Extent, error) {
	if w.covered.id != page.ID || w.covered.file != number {
		pieces, err := w.s.gather(newer)
		if err != nil {
			return nil, err
		}
		w.covered.id, w.covered.file, w.covered.ranges = page.ID, number, w.covered.ranges[:0]
		for _, piece := range ofKind(pieces, KindBytes) {
			w.covered.ranges = append(w.covered.ranges, piece.Visible)
		}
	}
	covered := w.covered.ranges
	for _, extent := range extents {
		if extent.Kind != KindBytes {
			continue
		}
		bounds := Range{extent.Offset, uint64(extent.Length)}
		from, _ := slices.BinarySearchFunc(covered, bounds.Offset,
			func(r Range, at uint64) int { return cmp.Compare(r.end(), at+1) })
		to, _ := slices.BinarySearchFunc(covered, bounds.end(), func(r Range, at uint64) int { return cmp.Compare(r.Offset, at) })
		switch left := uncovered(bounds, covered[from:to]); {
		case len(left) == 0:
		case left[0] == bounds:
			added = append(added, extent)
		case extent.Compression == Zstd:
			w.frames = append(w.frames, frame{page, extent, left})
		default:
			added = append(added, extent.split(left)...)
		}
	}
	return added, nil
}

// finish says whether the state was complete.
func (w *walk) finish() error {
	for at := range w.newer {
		r := &w.newer[at]
		if at > 0 && w.newer[at-1].id == r.id || r.removed() || !r.changes() {
			continue
		}
		if w.whole[at/64]&(1<<(at%64)) == 0 {
			return w.s.foreignBase(r)
		}
	}
	return w.s.checkState(w.counts)
}

// Load walks the state like Segments, and gives each part of a page as it was before compression: bytes are valid during
// the call only.
func (s *Snapshot) Load(want func(id uint64) bool, each func(page Page, kind uint32, offset uint64, bytes []byte) error) error {
	var memory []byte
	return s.Segments(LoadOptions{Want: want}, func(loaded Loaded) error {
		for entry := range loaded.Pages {
			page := &loaded.Pages[entry]
			for _, extent := range loaded.ExtentsOf(page) {
				content := loaded.Bytes[extent.At:][:extent.Stored]
				if extent.Compression != Uncompressed {
					if memory == nil {
						memory = make([]byte, Chunk)
					}
					if err := s.volumes[loaded.File].expand(memory[:extent.Length], page.ID, &extent, content,
						loaded.Offset); err != nil {
						return err
					}
					content = memory[:extent.Length]
				}
				if err := each(*page, extent.Kind, extent.Offset, content); err != nil {
					return err
				}
			}
		}
		return nil
	})
}
