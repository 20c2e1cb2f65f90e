// Writing a file front to back.

package snapshot

import (
	"encoding/binary"
	"hash/crc32"
	"math"
	"time"
	"unsafe"

	"libmmsb/core/file"
	"libmmsb/core/lineage"
	"libmmsb/core/status"
)

// Options of a Writer.
type Options struct {
	// AveragePageSize is what the first segment's room for entries is made for, 0 stands for 4096; later ones go by the
	// segment before.
	AveragePageSize uint64
}

// Segment is the segment being filled, for code that fills it by itself. Pages and Extents have a fixed capacity, lie in
// Buffer before DataAt and hold no pointers. A page's bytes are put at Buffer[Used:] and Used moves behind them; its mask and
// its metadata are put before Buffer[End:] and End moves before them, so that they take no space between pages that are
// aligned. An extent's At counts from the start of Buffer, a page's FirstExtent from the first of Extents. Extents come in the
// order of their pages, aligned as the format says, and a Zeros extent has 0 for Stored, At and CRC. What lies between extents
// is made zero by Next. A page that does not fit goes on as the first one of the next segment.
type Segment struct {
	Buffer            []byte
	DataAt, Used, End int
	Pages             []Page
	Extents           []Extent
}

// Report says what a Writer wrote.
type Report struct {
	ID ID
	Totals
}

// Writer writes a file into a sink, front to back. It is not safe for concurrent use. Pages come in any order, each once,
// its extents by kind and offset. After an error all its calls give that error; Abort is still due.
type Writer struct {
	sink     file.Sink
	header   Header
	totals   Totals
	offset   uint64   // where the next part goes
	table    []uint64 // offsets of the closed segments
	segment  Segment
	open     bool   // segment is in use
	last     uint64 // id of the last page of the last closed segment of pages
	entries  int    // that the next segment has space for
	extents  int
	compress *compressor
	err      error
}

// NewWriter begins a file: writes the header. A zero id or lineage is replaced by a new one, a zero time by now. Errors:
// InvalidArgument (the base's name), those of the sink. The sink is the Writer's, also after an error: the caller calls
// Finish or Abort of the Writer, or of the sink where there is no Writer.
func NewWriter(sink file.Sink, header Header, options Options) (*Writer, error) {
	if header.ID == (ID{}) {
		header.ID = NewID()
	}
	if header.Lineage.ID == (lineage.ID{}) {
		header.Lineage = lineage.New(lineage.Point{})
	}
	if header.Taken.IsZero() {
		header.Taken = time.Now()
	}
	if header.Base != (ID{}) || header.BaseName != "" {
		if err := checkBaseName(header.BaseName); err != nil {
			return nil, err
		}
		if header.Base == (ID{}) || header.Base == header.ID {
			return nil, status.Errorf(status.InvalidArgument, "base %q has id %s", header.BaseName, header.Base)
		}
	}
	w := &Writer{sink: sink, header: header}
	average := options.AveragePageSize
	if average == 0 {
		average = unitBytes
	}
	w.divide(1, int(roundUp(average, Chunk)/Chunk), average)
	err := w.unit(func(unit []byte) { encodeHeader(unit, &header) })
	return w, err
}

// Header is that of the file being written, with its id.
func (w *Writer) Header() Header { return w.header }

// unit writes one unit.
func (w *Writer) unit(fill func(unit []byte)) error {
	buffer, err := w.buffer()
	if err != nil {
		return err
	}
	fill(buffer[:unitBytes])
	return w.write(buffer, unitBytes)
}

func (w *Writer) buffer() ([]byte, error) {
	if w.err != nil {
		return nil, w.err
	}
	if w.open { // a segment without a page
		w.open = false
		return w.segment.Buffer, nil
	}
	buffer, err := w.sink.Buffer()
	w.err = err
	return buffer, err
}

func (w *Writer) write(buffer []byte, n int) error {
	if w.err == nil {
		w.err = w.sink.Write(buffer, n)
	}
	w.offset += uint64(n)
	return w.err
}

// divide divides a segment for pages like those given: so many, with extents and bytes.
func (w *Writer) divide(pages, extents int, bytes uint64) {
	perPage := float64(extents) / float64(pages)
	each := pageBytes + perPage*extentBytes + float64(max(bytes, 64))/float64(pages)
	count := float64(SegmentBytes-unitBytes) / each
	const spare = 1.03 // pages differ
	w.entries = int(count * spare)
	w.extents = int(count * spare * perPage)
	const leastPages, leastExtents = 20, 86 // fill the least room, one unit
	w.entries, w.extents = max(w.entries, leastPages), max(w.extents, leastExtents)
	// Where most chunks are zeros the tables take nearly all; the data needs room for a chunk at least.
	if most, tables := SegmentBytes-Chunk-segmentHeader, pageBytes*w.entries+extentBytes*w.extents; tables > most {
		w.entries = int(float64(w.entries) * float64(most) / float64(tables))
		w.extents = (most - pageBytes*w.entries) / extentBytes
	}
}

// Segment is the segment being filled, a new one where there is none.
func (w *Writer) Segment() (*Segment, error) {
	if w.open || w.err != nil {
		return &w.segment, w.err
	}
	buffer, err := w.buffer()
	if err != nil {
		return nil, err
	}
	buffer = buffer[:SegmentBytes]
	dataAt := int(roundUp(uint64(segmentHeader+pageBytes*w.entries+extentBytes*w.extents), unitBytes))
	entries := unsafe.Slice((*Page)(unsafe.Pointer(&buffer[segmentHeader])), w.entries)
	extents := unsafe.Slice((*Extent)(unsafe.Pointer(&buffer[dataAt-extentBytes*w.extents])), w.extents)
	w.segment = Segment{Buffer: buffer, DataAt: dataAt, Used: dataAt, End: len(buffer), Pages: entries[:0], Extents: extents[:0]}
	w.open = true
	return &w.segment, nil
}

// Next closes the segment being filled, and hands it to the sink; nothing where none has a page. Errors: Internal (what a
// caller put into the segment cannot be), those of the sink.
func (w *Writer) Next() error {
	if !w.open || len(w.segment.Pages) == 0 {
		return w.err
	}
	s := &w.segment
	w.open = false
	if s.Used > s.End || s.End > len(s.Buffer) || s.End%leastAlignment != 0 {
		w.err = status.Errorf(status.Internal, "segment of %d bytes has its tables up to %d and its data from %d on",
			len(s.Buffer), s.Used, s.End)
		return w.err
	}
	s.join()
	if err := w.account(s); err != nil {
		w.err = err
		return err
	}
	extents := unsafe.Slice((*Extent)(unsafe.Pointer(&s.Buffer[segmentHeader+pageBytes*len(s.Pages)])), len(s.Extents))
	copy(extents, s.Extents)
	s.Extents = extents
	w.divide(len(s.Pages), len(s.Extents), uint64(s.Used-s.DataAt))
	s.closeUp()
	return w.close(s.Buffer, segmentPages, len(s.Pages), len(s.Extents), s.DataAt, s.Used)
}

// join moves the masks and the metadata to the bytes.
func (s *Segment) join() {
	if s.End == len(s.Buffer) {
		return
	}
	to := int(roundUp(uint64(s.Used), leastAlignment))
	for number := range s.Extents {
		if extent := &s.Extents[number]; extent.Kind != KindBytes && extent.Compression != Zeros {
			extent.At -= uint32(s.End - to)
		}
	}
	s.Used = to + copy(s.Buffer[to:], s.Buffer[s.End:])
	s.End = len(s.Buffer)
}

// closeUp moves the data to the tables where much of their room is left, as in a file of few pages.
func (s *Segment) closeUp() {
	tables := segmentHeader + pageBytes*len(s.Pages) + extentBytes*len(s.Extents)
	free := s.DataAt - int(roundUp(uint64(tables), unitBytes))
	const much = 8 // parts of the segment
	if free*much < s.Used {
		return
	}
	copy(s.Buffer[s.DataAt-free:], s.Buffer[s.DataAt:s.Used])
	for number := range s.Extents {
		if extent := &s.Extents[number]; extent.Compression != Zeros {
			extent.At -= uint32(free)
		}
	}
	s.DataAt -= free
	s.Used -= free
}

// account adds a segment's pages to the totals, and makes what lies between its extents zero.
func (w *Writer) account(s *Segment) error {
	end, beyond := uint64(s.DataAt), uint64(s.Used) // the room that is left: bytes take it from below, all else from above
	for number := range s.Extents {
		extent := &s.Extents[number]
		if extent.Kind == KindBytes {
			w.totals.StoredBytes += uint64(extent.Length)
		}
		if extent.Compression == Zeros {
			continue
		}
		at, behind := uint64(extent.At), uint64(extent.At)+uint64(extent.Stored)
		if at < end || behind > beyond {
			return status.Errorf(status.Internal,
				"extent %d of %d of a segment lies at %d with %d bytes, where %d to %d are free",
				number, len(s.Extents), at, extent.Stored, end, beyond)
		}
		if extent.Kind == KindBytes {
			clear(s.Buffer[end:at])
			end = behind
		} else {
			clear(s.Buffer[behind:beyond])
			beyond = at
		}
	}
	clear(s.Buffer[end:beyond])
	w.totals.Pages += uint64(len(s.Pages))
	if first := &s.Pages[0]; first.ID == w.last {
		if first.Extents == 0 {
			return status.Errorf(status.Internal, "page %d goes on in a segment that has nothing of it", first.ID)
		}
		w.totals.Pages--
	}
	w.last = s.Pages[len(s.Pages)-1].ID
	return nil
}

// close writes a segment whose entries and extents are in place. Its data lies from dataAt up to used.
func (w *Writer) close(buffer []byte, kind uint32, entries, extents, dataAt, used int) error {
	tables := segmentHeader + entryBytes(kind)*entries + extentBytes*extents
	length := int(roundUp(uint64(used), unitBytes))
	if used == dataAt { // no data, so that the tables' room can be cut
		dataAt = int(roundUp(uint64(tables), unitBytes))
		length = dataAt
		used = dataAt
	}
	clear(buffer[tables:dataAt])
	clear(buffer[used:length])
	clear(buffer[:segmentHeader])
	copy(buffer, magicSegment)
	binary.LittleEndian.PutUint64(buffer[8:], uint64(length))
	copy(buffer[16:], w.header.ID[:])
	for number, value := range []uint32{uint32(len(w.table)), kind, uint32(entries), uint32(extents), uint32(dataAt)} {
		binary.LittleEndian.PutUint32(buffer[32+4*number:], value)
	}
	binary.LittleEndian.PutUint32(buffer[52:], checksum(buffer[:52], buffer[segmentHeader:tables]))
	w.table = append(w.table, w.offset)
	if uint64(len(w.table)) > math.MaxUint32 {
		w.err = status.Errorf(status.Limit, "the snapshot has more than %d segments", uint32(math.MaxUint32))
	}
	return w.write(buffer, length)
}

// Add writes a part of a page: its bytes, its mask or its metadata from offset on, which is a multiple of Chunk, or of Granule
// for the bytes of a page with FlagChanges. Calls for a page follow each other, by kind and offset. A page of which nothing is
// stored (FlagChanges) is a call without bytes. Errors: InvalidArgument (offset), those of the sink.
func (w *Writer) Add(page Page, kind uint32, offset uint64, bytes []byte, compression Compression) error {
	granule := uint64(Chunk)
	if kind == KindBytes && page.Flags&FlagChanges != 0 {
		granule = Granule
	}
	if offset%granule != 0 {
		return status.Errorf(status.InvalidArgument, "page %d: an extent begins at offset %d, not a multiple of %d", page.ID,
			offset, granule)
	}
	if len(bytes) == 0 {
		if w.last == page.ID { // it has its entry, in the segment before
			return nil
		}
		s, _, err := w.fit(&page, 0, 0, 1)
		if err == nil {
			s.enter(&page)
		}
		return err
	}
	for len(bytes) > 0 {
		chunk := bytes[:min(uint64(len(bytes)), Chunk-offset%Chunk)]
		bytes = bytes[len(chunk):]
		extent := Extent{Offset: offset, Length: uint32(len(chunk)), Kind: kind}
		stored := chunk
		switch {
		case compression != Uncompressed && allZero(chunk):
			extent.Compression, stored = Zeros, nil
		case compression == Zstd:
			if w.compress == nil {
				w.compress = newCompressor()
			}
			if smaller := w.compress.encode(chunk); len(smaller) < len(chunk) {
				extent.Compression, stored = Zstd, smaller
			}
		}
		extent.CRC = checksum(stored)
		if err := w.addStored(&page, extent, stored); err != nil {
			return err
		}
		offset += uint64(len(chunk))
	}
	return nil
}

// addStored writes an extent whose bytes are already as they are stored.
func (w *Writer) addStored(page *Page, extent Extent, stored []byte) error {
	s, at, err := w.fit(page, 1, len(stored), alignment(extent.Kind, extent.Compression, page.Size))
	if err != nil {
		return err
	}
	extent.Stored, extent.At = uint32(len(stored)), 0
	switch {
	case extent.Compression == Zeros:
	case extent.Kind == KindBytes:
		extent.At = uint32(at)
		s.Used = at + copy(s.Buffer[at:], stored)
	default:
		s.End = (s.End - len(stored)) &^ (leastAlignment - 1)
		extent.At = uint32(s.End)
		copy(s.Buffer[s.End:], stored)
	}
	s.enter(page)
	s.addExtent(extent)
	return nil
}

// Space is memory of the segment for at most a Chunk of a page's bytes, which Place writes as they are, without a copy. It counts
// for nothing until then, and is valid until the next call of the Writer. Errors: those of the sink.
func (w *Writer) Space(page *Page, length int) ([]byte, error) {
	s, at, err := w.fit(page, 1, length, alignment(KindBytes, Uncompressed, page.Size))
	if err != nil {
		return nil, err
	}
	return s.Buffer[at : at+length], nil
}

// Place writes what the last call, Space for the same page, gave the memory of: the page's bytes from offset on, which have that
// checksum. It is Add in all else.
func (w *Writer) Place(page *Page, offset uint64, length int, sum uint32) {
	s := &w.segment
	at := int(roundUp(uint64(s.Used), alignment(KindBytes, Uncompressed, page.Size)))
	s.enter(page)
	s.addExtent(Extent{Offset: offset, Length: uint32(length), Stored: uint32(length), At: uint32(at), CRC: sum, Kind: KindBytes})
	s.Used = at + length
}

// enter adds the entry of a page that is not the last one's.
func (s *Segment) enter(page *Page) {
	if s.has(page) {
		return
	}
	entry := *page
	entry.FirstExtent, entry.Extents = uint32(len(s.Extents)), 0
	s.Pages = append(s.Pages, entry)
}

// has says whether the last entry is a page's.
func (s *Segment) has(page *Page) bool {
	return len(s.Pages) > 0 && s.Pages[len(s.Pages)-1].ID == page.ID
}

// addExtent adds an extent to the last entry.
func (s *Segment) addExtent(extent Extent) {
	s.Extents = append(s.Extents, extent)
	s.Pages[len(s.Pages)-1].Extents++
}

// fit finds a segment that has space for the page's entry, extents more and bytes more, which lie aligned at at.
func (w *Writer) fit(page *Page, extents, bytes int, align uint64) (s *Segment, at int, err error) {
	for range 2 {
		if s, err = w.Segment(); err != nil {
			return nil, 0, err
		}
		entries := 1
		if s.has(page) {
			entries = 0
		}
		at = int(roundUp(uint64(s.Used), align))
		if len(s.Pages)+entries <= cap(s.Pages) && len(s.Extents)+extents <= cap(s.Extents) && at+bytes <= s.End {
			return s, at, nil
		}
		if err = w.Next(); err != nil {
			return nil, 0, err
		}
	}
	return nil, 0, status.Errorf(status.Internal, "page %d: %d bytes exceed an empty segment", page.ID, bytes)
}

// Removed writes ids of pages of the base that are no more.
func (w *Writer) Removed(ids []uint64) error {
	w.totals.Removed += uint64(len(ids))
	return writeEntries(w, segmentRemoved, ids)
}

// Edges writes dependencies, parent and child, oldest first; those of all calls together are the whole graph.
func (w *Writer) Edges(pairs [][2]uint64) error {
	w.totals.Edges += uint64(len(pairs))
	return writeEntries(w, segmentEdges, pairs)
}

func writeEntries[E any](w *Writer, kind uint32, list []E) error {
	if err := w.Next(); err != nil {
		return err
	}
	for len(list) > 0 {
		buffer, err := w.buffer()
		if err != nil {
			return err
		}
		part := list[:min(len(list), (SegmentBytes-segmentHeader)/entryBytes(kind))]
		list = list[len(part):]
		used := segmentHeader + copy(buffer[segmentHeader:], bytesOf(part))
		end := int(roundUp(uint64(used), unitBytes))
		if err := w.close(buffer, kind, len(part), 0, end, end); err != nil {
			return err
		}
	}
	return nil
}

// Empty says that no page has an entry so far.
func (w *Writer) Empty() bool { return w.totals.Pages == 0 && len(w.segment.Pages) == 0 }

// Finish writes the segment table and the footer and finishes the sink: the file is there. statePages and stateBytes are
// of the whole state, with what the bases give.
func (w *Writer) Finish(statePages, stateBytes uint64) (Report, error) {
	if err := w.Next(); err != nil {
		return Report{}, err
	}
	f := footer{totals: w.totals, tableAt: w.offset}
	table := w.table
	for len(table) > 0 {
		buffer, err := w.buffer()
		if err != nil {
			return Report{}, err
		}
		part := table[:min(len(table), SegmentBytes/8)]
		table = table[len(part):]
		used := copy(buffer, bytesOf(part))
		f.tableCRC = crc32.Update(f.tableCRC, castagnoli, buffer[:used])
		length := int(roundUp(uint64(used), unitBytes))
		clear(buffer[used:length])
		if err := w.write(buffer, length); err != nil {
			return Report{}, err
		}
	}
	f.totals.Segments = uint64(len(w.table))
	f.totals.FileBytes = w.offset + unitBytes
	f.totals.StatePages, f.totals.StateBytes = statePages, stateBytes
	if err := w.unit(func(unit []byte) { encodeFooter(unit, w.header.ID, &f) }); err != nil {
		return Report{}, err
	}
	if w.err = w.sink.Finish(); w.err != nil {
		return Report{}, w.err
	}
	return Report{ID: w.header.ID, Totals: f.totals}, nil
}

// Abort ends the writing: nothing is left of the file.
func (w *Writer) Abort() { w.sink.Abort() }
