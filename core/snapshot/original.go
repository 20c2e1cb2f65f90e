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

// openOriginal reads over a file of version 2 and makes the tables that it does not have: segments that cover ranges of
// the file, without checksums.
func openOriginal(name string, source file.Source) (*volume, error) {
	v := &volume{name: name, source: source, header: Header{Version: OriginalVersion}}
	v.totals.FileBytes = uint64(source.Size())
	o := originalReader{v: v}
	head, err := o.take(originalHeader)
	if err != nil {
		return nil, err
	}
	count := binary.LittleEndian.Uint32(head[12:])
	for number := range count {
		if err := o.page(number, count); err != nil {
			return nil, err
		}
	}
	if o.at != v.totals.FileBytes {
		return nil, status.Errorf(status.Corrupt, "%s: the %d pages end at offset %d, but the file has %d bytes", name, count,
			o.at, v.totals.FileBytes)
	}
	v.totals.Segments = uint64(len(v.original))
	return v, nil
}

// originalReader walks over a file.
type originalReader struct {
	v      *volume
	at     uint64
	window []byte // some of the file
	from   uint64 // where the window begins
	last   uint64 // id of the page before
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
func (o *originalReader) skip(n uint64, number uint32, what string) error {
	if size := o.v.totals.FileBytes; n > size-o.at {
		return status.Errorf(status.Corrupt, "%s is truncated: page entry %d has %d bytes of %s at offset %d, the file has %d",
			o.v.name, number, n, what, o.at, size)
	}
	o.at += n
	return nil
}

func (o *originalReader) page(number, count uint32) error {
	v, entryAt := o.v, o.at
	raw, err := o.take(originalPage)
	if err != nil {
		own := *status.Of(err)
		own.Text = "page entry " + strconv.Itoa(int(number)) + " of " + strconv.Itoa(int(count)) + ": " + own.Text
		return &own
	}
	page := Page{
		ID: binary.LittleEndian.Uint64(raw), Size: binary.LittleEndian.Uint64(raw[8:]), NUMANode: -1, Version: originalVersion,
		Epoch: uint64(binary.LittleEndian.Uint32(raw[16:])), Location: int32(binary.LittleEndian.Uint32(raw[20:])),
	}
	metadataBytes := uint64(binary.LittleEndian.Uint32(raw[24:]))
	fail := func(format string, args ...any) error {
		args = append([]any{v.name, page.ID, entryAt}, args...)
		return status.Errorf(status.Corrupt, "%s: page %d at offset %d "+format, args...)
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
			return err
		}
		page.MetadataCount = uint32(metadata.Count(word))
		o.at = metadataAt
		if page.MetadataCount == 0 && metadataBytes != 4 {
			return fail("has metadata of %d bytes without entries", metadataBytes)
		}
	}
	if err := o.skip(metadataBytes, number, "metadata"); err != nil {
		return err
	}
	if raw, err = o.take(4); err != nil {
		return err
	}
	if length := uint64(binary.LittleEndian.Uint32(raw)); length != page.Size || length == 0 {
		return fail("has size %d, but %d bytes of data", page.Size, length)
	}
	dataAt := o.at
	if err := o.skip(page.Size, number, "data"); err != nil {
		return err
	}
	v.totals.Pages++
	v.totals.StoredBytes += page.Size
	v.addOriginal(page, KindBytes, dataAt, page.Size)
	if page.MetadataCount > 0 {
		v.addOriginal(page, KindMetadata, metadataAt, metadataBytes)
	}
	return nil
}

// addOriginal adds extents to the tables, for a part of a page that lies at an offset of the file.
func (v *volume) addOriginal(page Page, kind uint32, at, length uint64) {
	for offset := uint64(0); offset < length; offset += Chunk {
		extent := Extent{Offset: offset, Length: uint32(min(Chunk, length-offset)), Kind: kind}
		extent.Stored = extent.Length
		from := at + offset
		t := v.cover(from, from+uint64(extent.Length))
		if n := len(t.pages); n == 0 || t.pages[n-1].ID != page.ID {
			page.FirstExtent, page.Extents = uint32(len(t.extents)), 0
			t.pages = append(t.pages, page)
		}
		extent.At = uint32(from - t.offset)
		t.extents = append(t.extents, extent)
		t.pages[len(t.pages)-1].Extents++
	}
}

// cover is the table of a range of the file in which these bytes lie: the last one where it can be made long enough.
// What comes later in a page's extents can lie before its other bytes in the file. It begins at a whole unit, so that it is
// read in one piece.
func (v *volume) cover(from, to uint64) *table {
	from = from / unitBytes * unitBytes
	if n := len(v.original); n > 0 {
		t := v.original[n-1]
		begin, end := min(t.offset, from), max(t.offset+t.length, to)
		if end-begin <= SegmentBytes {
			if begin < t.offset {
				for number := range t.extents {
					t.extents[number].At += uint32(t.offset - begin)
				}
			}
			t.offset, t.length = begin, end-begin
			return t
		}
	}
	t := &table{offset: from, length: to - from, kind: segmentPages}
	v.original = append(v.original, t)
	return t
}
