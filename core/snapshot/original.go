// Reading the original's file, version 2.

package snapshot

import (
	"encoding/binary"
	"strconv"

	"libmmsb/core/abi"
	"libmmsb/core/file"
	"libmmsb/core/metadata"
	"libmmsb/core/status"
)

// The original's file, version 2: magic, u32 version, u32 number of pages, u64 offset in its log; then per page u64 id, u64
// size, u32 epoch, i32 location, u32 length of the metadata, the metadata, u32 length of the data, the data.
const (
	originalHeader  = 24
	originalPage    = 28 // up to the metadata
	lastOriginal    = abi.LocationUnified
	originalVersion = 1 // that pages get, which had none
)

// openOriginal reads over a file of version 2 and divides it into segments, which it does not have: ranges of the file that hold
// the extents of pages that follow one another. Their tables are made when somebody reads them.
func openOriginal(name string, source file.Source) (*volume, error) {
	v := &volume{name: name, source: source, header: Header{Version: OriginalVersion}, held: uint64(file.Held(source))}
	v.totals.FileBytes = uint64(source.Size())
	o := originalReader{v: v}
	o.extent = v.cover
	head, err := o.take(originalHeader)
	if err != nil {
		return nil, err
	}
	count := binary.LittleEndian.Uint32(head[12:])
	o.count = count
	for o.number < count {
		page, err := o.page()
		if err != nil {
			return nil, err
		}
		v.totals.Pages++
		v.totals.StoredBytes += page.Size
	}
	if o.at != v.totals.FileBytes {
		return nil, status.Errorf(status.Corrupt, "%s: the %d pages end at offset %d, but the file has %d bytes", name, count,
			o.at, v.totals.FileBytes)
	}
	v.totals.Segments = uint64(len(v.original))
	return v, nil
}

// originalPlace is where an extent is found again: its page's entry, and its number among that page's.
type originalPlace struct {
	entryAt        uint64 // offset in the file
	number, extent uint32
}

// originalSegment is a range of a file.
type originalSegment struct {
	offset, length uint64
	first          originalPlace // of its extents
}

// cover puts an extent into the segment of the one before, where that can be made long enough. What comes later in a page's
// extents can lie before its other bytes in the file. A segment begins at a whole unit, so that it is read in one piece.
func (v *volume) cover(_ *Page, extent *Extent, at uint64, place originalPlace) error {
	from, to := at/unitBytes*unitBytes, at+uint64(extent.Length)
	if n := len(v.original); n > 0 {
		s := &v.original[n-1]
		begin, end := min(s.offset, from), max(s.offset+s.length, to)
		if end-begin <= SegmentBytes {
			s.offset, s.length = begin, end-begin
			return nil
		}
	}
	v.original = append(v.original, originalSegment{from, to - from, place})
	return nil
}

// originalTable makes the table of a segment, without checksums.
func (v *volume) originalTable(number int) (*table, error) {
	s, next := &v.original[number], originalPlace{}
	if number+1 < len(v.original) {
		next = v.original[number+1].first
	}
	t := &table{offset: s.offset, length: s.length}
	o := originalReader{v: v, at: s.first.entryAt, number: s.first.number, count: uint32(v.totals.Pages)}
	o.extent = func(page *Page, extent *Extent, at uint64, place originalPlace) error {
		switch {
		case place == next:
			return errStop
		case place.number == s.first.number && place.extent < s.first.extent:
			return nil
		case at < s.offset || at+uint64(extent.Length) > s.offset+s.length:
			return status.Errorf(status.Corrupt, "%s: page %d at offset %d is another than when the file was opened", v.name,
				page.ID, place.entryAt)
		}
		if n := len(t.pages); n == 0 || t.pages[n-1].ID != page.ID {
			page.FirstExtent, page.Extents = uint32(len(t.extents)), 0
			t.pages = append(t.pages, *page)
		}
		extent.At = uint32(at - t.offset)
		t.extents = append(t.extents, *extent)
		t.pages[len(t.pages)-1].Extents++
		return nil
	}
	for o.number < o.count {
		if _, err := o.page(); err == errStop {
			break
		} else if err != nil {
			return nil, err
		}
	}
	return t, nil
}

// originalReader walks over a file.
type originalReader struct {
	v      *volume
	at     uint64
	window []byte                                                                 // some of the file
	from   uint64                                                                 // where the window begins
	last   uint64                                                                 // id of the page before
	number uint32                                                                 // of the next page
	count  uint32                                                                 // of pages
	extent func(page *Page, extent *Extent, at uint64, place originalPlace) error // is told each one, and where it lies
}

// take gives the next bytes, a few.
func (o *originalReader) take(n uint64) ([]byte, error) {
	size := o.v.totals.FileBytes
	if o.at > size || n > size-o.at {
		return nil, status.Errorf(status.Corrupt, "%s is truncated: %d bytes, %d expected at offset %d", o.v.name, size, n, o.at)
	}
	if o.at < o.from || o.at+n > o.from+uint64(len(o.window)) {
		const windowBytes = 64 << 10
		if o.window == nil {
			o.window = make([]byte, windowBytes)
		}
		o.window = o.window[:min(windowBytes, size-o.at)]
		o.from = o.at
		if err := read(o.v.name, o.v.source, o.window, o.from); err != nil {
			return nil, err
		}
	}
	taken := o.window[o.at-o.from:][:n]
	o.at += n
	return taken, nil
}

// skip passes over bytes that must be there.
func (o *originalReader) skip(n uint64, what string) error {
	if size := o.v.totals.FileBytes; n > size-o.at {
		return status.Errorf(status.Corrupt, "%s is truncated: page entry %d has %d bytes of %s at offset %d, the file has %d",
			o.v.name, o.number, n, what, o.at, size)
	}
	o.at += n
	return nil
}

// page walks over a page.
func (o *originalReader) page() (Page, error) {
	v, entryAt := o.v, o.at
	raw, err := o.take(originalPage)
	if err != nil {
		own := *status.Of(err)
		own.Text = "page entry " + strconv.Itoa(int(o.number)) + " of " + strconv.Itoa(int(o.count)) + ": " + own.Text
		return Page{}, &own
	}
	page := Page{
		ID: binary.LittleEndian.Uint64(raw), Size: binary.LittleEndian.Uint64(raw[8:]), NUMANode: -1, Version: originalVersion,
		Epoch: uint64(binary.LittleEndian.Uint32(raw[16:])), Location: int32(binary.LittleEndian.Uint32(raw[20:])),
	}
	metadataBytes := uint64(binary.LittleEndian.Uint32(raw[24:]))
	fail := func(format string, args ...any) (Page, error) {
		args = append([]any{v.name, page.ID, entryAt}, args...)
		return page, status.Errorf(status.Corrupt, "%s: page %d at offset %d "+format, args...)
	}
	switch {
	case page.ID == 0:
		return fail("has id 0")
	case page.Location < 0 || page.Location > lastOriginal:
		return fail("has location %d, not 0 to %d", page.Location, lastOriginal)
	case page.ID == o.last:
		return fail("occurs twice")
	}
	o.last = page.ID
	metadataAt := o.at
	if metadataBytes > 0 {
		word, err := o.take(4)
		if err != nil {
			return page, err
		}
		page.MetadataCount = uint32(metadata.Count(word))
		o.at = metadataAt
		if page.MetadataCount == 0 && metadataBytes != 4 {
			return fail("has metadata of %d bytes without entries", metadataBytes)
		}
	}
	if err := o.skip(metadataBytes, "metadata"); err != nil {
		return page, err
	}
	if raw, err = o.take(4); err != nil {
		return page, err
	}
	if length := uint64(binary.LittleEndian.Uint32(raw)); length != page.Size || length == 0 {
		return fail("has size %d, but %d bytes of data", page.Size, length)
	}
	dataAt := o.at
	if err := o.skip(page.Size, "data"); err != nil {
		return page, err
	}
	place := originalPlace{entryAt: entryAt, number: o.number}
	o.number++
	if err := o.extents(&page, KindBytes, dataAt, page.Size, &place); err != nil || page.MetadataCount == 0 {
		return page, err
	}
	return page, o.extents(&page, KindMetadata, metadataAt, metadataBytes, &place)
}

// extents tells of those of a part of a page that lies at an offset of the file.
func (o *originalReader) extents(page *Page, kind uint32, at, length uint64, place *originalPlace) error {
	for offset := uint64(0); offset < length; offset += Chunk {
		extent := Extent{Offset: offset, Length: uint32(min(Chunk, length-offset)), Kind: kind}
		extent.Stored = extent.Length
		if err := o.extent(page, &extent, at+offset, *place); err != nil {
			return err
		}
		place.extent++
	}
	return nil
}
