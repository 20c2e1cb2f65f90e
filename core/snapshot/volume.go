// One file of a chain: its segments, and all checks of what they say.

package snapshot

import (
	"cmp"
	"encoding/binary"
	"hash/crc32"
	"iter"
	"slices"
	"unsafe"

	"libmmsb/core/attribute"
	"libmmsb/core/file"
	"libmmsb/core/status"
)

// volume is one file of a chain: where its segments lie, and their tables.
type volume struct {
	name     string
	source   file.Source
	header   Header
	totals   Totals
	offsets  []uint64          // of the segments, and where the last one ends
	original []originalSegment // of a file of version 2, which has no tables
	held     uint64            // bytes that lie on the disk
}

// table is a segment without its data.
type table struct {
	offset  uint64 // of the segment in the file
	length  uint64
	dataAt  uint64
	pages   []Page
	extents []Extent
	ids     []uint64
	edges   [][2]uint64
}

// extentsOf are those of a page's entry.
func (t *table) extentsOf(page *Page) []Extent { return t.extents[page.FirstExtent:][:page.Extents] }

// openVolume looks at both ends of a file. The source is the volume's, unless there is an error.
func openVolume(name string, source file.Source) (*volume, error) {
	size := uint64(max(source.Size(), 0))
	first := make([]byte, min(size, unitBytes))
	if err := read(name, source, first, 0); err != nil {
		return nil, err
	}
	version, err := decodeVersion(name, first[:min(len(first), 12)])
	if err != nil {
		return nil, err
	}
	if version == OriginalVersion {
		return openOriginal(name, source)
	}
	if size < 2*unitBytes || size%unitBytes != 0 {
		return nil, status.Errorf(status.Corrupt, "%s is truncated: %d bytes, a snapshot has a multiple of %d and at least %d",
			name, size, unitBytes, 2*unitBytes)
	}
	v := &volume{name: name, source: source, held: uint64(file.Held(source))}
	if v.header, err = decodeHeader(name, first); err != nil {
		return nil, err
	}
	last := make([]byte, unitBytes)
	if err = read(name, source, last, size-unitBytes); err != nil {
		return nil, err
	}
	foot, err := decodeFooter(name, last, &v.header, size)
	if err != nil {
		return nil, err
	}
	v.totals = foot.totals
	return v, v.readOffsets(&foot)
}

// read reads exactly len(into) bytes.
func read(name string, source file.Source, into []byte, offset uint64) error {
	n, err := source.ReadAt(into, int64(offset))
	if n == len(into) {
		return nil
	}
	if status.CodeOf(err) == status.Internal || err == nil { // io.EOF, of a file that became shorter
		return status.Errorf(status.Corrupt, "%s is truncated: %d bytes at offset %d, %d expected", name, n, offset, len(into))
	}
	return err
}

// readOffsets reads the segment table: first in pieces, as who says that it is very long may have a hole there, and then, when
// all of it has shown to be a table, into memory.
func (v *volume) readOffsets(foot *footer) error {
	count := foot.totals.Segments
	// A segment has a unit at least: the table is no longer than that, whatever the footer says.
	if count > (foot.tableAt-unitBytes)/unitBytes {
		return status.Errorf(status.Corrupt, "%s: the footer at offset %d counts %d segments, too many before offset %d", v.name,
			foot.totals.FileBytes-unitBytes, count, foot.tableAt)
	}
	const most = 1 << 17 // offsets in a piece
	piece := make([]uint64, min(count, most))
	sum, last := uint32(0), uint64(0)
	for number := uint64(0); number < count; number += uint64(len(piece)) {
		piece = piece[:min(uint64(len(piece)), count-number)]
		if err := read(v.name, v.source, bytesOf(piece), foot.tableAt+8*number); err != nil {
			return err
		}
		if err := v.checkOrder(number, last, piece); err != nil {
			return err
		}
		sum, last = crc32.Update(sum, castagnoli, bytesOf(piece)), piece[len(piece)-1]
	}
	if sum != foot.tableCRC {
		return status.Errorf(status.Corrupt, "%s: the segment table at offset %d has checksum %08x, but the footer says %08x",
			v.name, foot.tableAt, sum, foot.tableCRC)
	}
	rest := make([]byte, roundUp(8*count, unitBytes)-8*count)
	if err := read(v.name, v.source, rest, foot.tableAt+8*count); err != nil {
		return err
	}
	if !allZero(rest) {
		return status.Errorf(status.Corrupt, "%s: bytes other than 0 after the segment table at offset %d", v.name, foot.tableAt)
	}
	v.offsets = make([]uint64, count+1)
	v.offsets[count] = foot.tableAt
	if err := read(v.name, v.source, bytesOf(v.offsets[:count]), foot.tableAt); err != nil {
		return err
	}
	return v.checkOrder(0, 0, v.offsets) // somebody may have written to the file
}

// checkOrder looks at the offsets of segments from a number on, behind a segment that begins at before.
func (v *volume) checkOrder(number, before uint64, offsets []uint64) error {
	for _, offset := range offsets {
		switch {
		case number == 0:
			if offset != unitBytes {
				return status.Errorf(status.Corrupt, "%s: the first segment is at offset %d, not %d", v.name, offset, unitBytes)
			}
		case offset <= before || offset-before > SegmentBytes || offset%unitBytes != 0:
			return status.Errorf(status.Corrupt, "%s: segment %d from offset %d to %d is out of order", v.name, number-1, before,
				offset)
		}
		number, before = number+1, offset
	}
	return nil
}

func (v *volume) close() error { return v.source.Close() }

// claimed is a number of things of so many bytes each that a file says it has, but no more than what it has on the disk has room
// for.
func (v *volume) claimed(count, each uint64) uint64 { return min(count, v.held/each) }

// segments is how many there are.
func (v *volume) segments() int {
	if v.header.Version == OriginalVersion {
		return len(v.original)
	}
	return len(v.offsets) - 1
}

// bounds says where a segment lies.
func (v *volume) bounds(number int) (offset, length uint64) {
	if v.header.Version == OriginalVersion {
		return v.original[number].offset, v.original[number].length
	}
	return v.offsets[number], v.offsets[number+1] - v.offsets[number]
}

// tableReader reads the tables of a file's segments one after the other.
type tableReader struct {
	v        *volume
	memory   []byte // of the tables that were read last: those of neighbours are about as long
	table    table  // that was read last
	expected int    // the tables before this one were asked for
}

// tablesAhead is how many tables a reader asks the disk for, before it needs them.
const tablesAhead = 16

// read reads and checks the tables of a segment. They are valid until the next read.
func (r *tableReader) read(number int) (*table, error) {
	v := r.v
	if v.header.Version == OriginalVersion {
		return v.originalTable(number)
	}
	if r.memory == nil {
		r.memory = make([]byte, 16*unitBytes)
	}
	for ; r.expected > 0 && r.expected < min(number+tablesAhead, v.segments()); r.expected++ {
		offset, length := v.bounds(r.expected)
		file.Expect(v.source, int64(offset), int64(min(uint64(len(r.memory)), length)))
	}
	offset, length := v.bounds(number)
	raw := r.memory[:min(uint64(len(r.memory)), length)]
	if err := read(v.name, v.source, raw, offset); err != nil {
		return nil, err
	}
	// A lie is found by parse, which looks at everything again; here it only must not make us read past the segment.
	if dataAt := uint64(binary.LittleEndian.Uint32(raw[48:])); unitBytes <= dataAt && dataAt <= length {
		have := len(raw)
		r.memory = slices.Grow(raw, max(int(dataAt)-have, 0))[:dataAt]
		raw = r.memory
		if int(dataAt) > have {
			if err := read(v.name, v.source, raw[have:], offset+uint64(have)); err != nil {
				return nil, err
			}
		}
	}
	r.expected = max(r.expected, number+1)
	return v.parse(number, raw, &r.table)
}

// parse checks the tables of a segment, of which raw holds at least the beginning up to its data, and copies them into t, which
// has those of another segment, or none.
func (v *volume) parse(number int, raw []byte, t *table) (*table, error) {
	offset, length := v.bounds(number)
	fail := func(format string, args ...any) (*table, error) {
		args = append([]any{v.name, number, offset}, args...)
		return nil, status.Errorf(status.Corrupt, "%s: segment %d at offset %d "+format, args...)
	}
	word := func(at int) uint32 { return binary.LittleEndian.Uint32(raw[at:]) }
	kind, n, m, dataAt := word(36), uint64(word(40)), uint64(word(44)), uint64(word(48))
	switch {
	case string(raw[:8]) != magicSegment:
		return fail("does not begin with %q", magicSegment)
	case binary.LittleEndian.Uint64(raw[8:]) != length:
		return fail("has length %d, but the segment table says %d", binary.LittleEndian.Uint64(raw[8:]), length)
	case ID(raw[16:32]) != v.header.ID:
		return fail("belongs to snapshot %s, not %s", ID(raw[16:32]), v.header.ID)
	case uint64(word(32)) != uint64(number):
		return fail("has number %d", word(32))
	}
	entryBytes := uint64(entryBytes(kind))
	if entryBytes == 0 {
		return fail("has kind %d, not %d to %d", kind, segmentPages, segmentEdges)
	}
	tables := segmentHeader + n*entryBytes + m*extentBytes // below 2^40
	switch {
	case n == 0 || m > 0 && kind != segmentPages:
		return fail("of kind %d has %d entries and %d extents", kind, n, m)
	case dataAt%unitBytes != 0 || tables > dataAt || dataAt > length || dataAt > uint64(len(raw)):
		return fail("has data from offset %d on, %d bytes of tables and %d bytes in all", dataAt, tables, length)
	case kind != segmentPages && dataAt != length:
		return fail("of kind %d has data", kind)
	}
	if want, got := word(52), checksum(raw[:52], raw[segmentHeader:tables]); want != got {
		return fail("has checksum %08x, but its tables have %08x", want, got)
	}
	if !allZero(raw[tables:dataAt]) {
		return fail("has bytes other than 0 between its tables and its data")
	}
	*t = table{offset, length, dataAt, t.pages[:0], t.extents[:0], t.ids[:0], t.edges[:0]}
	at := raw[segmentHeader:]
	switch kind {
	case segmentPages:
		t.pages = copied(t.pages, at, n)
		t.extents = copied(t.extents, at[n*pageBytes:], m)
		return t, v.checkPages(t, number)
	case segmentRemoved:
		t.ids = copied(t.ids, at, n)
		if entry := slices.Index(t.ids, 0); entry >= 0 {
			return fail("has id 0 as entry %d", entry)
		}
		if v.header.Base == (ID{}) {
			return fail("removes pages, but there is no base")
		}
	case segmentEdges:
		t.edges = copied(t.edges, at, n)
		wrong := func(pair [2]uint64) bool { return pair[0] == 0 || pair[1] == 0 || pair[0] == pair[1] }
		if entry := slices.IndexFunc(t.edges, wrong); entry >= 0 {
			return fail("has an invalid dependency of page %d on page %d as entry %d", t.edges[entry][1], t.edges[entry][0],
				entry)
		}
	}
	return t, nil
}

// entryBytes is the length of an entry of a kind of segment; 0 for a kind that does not exist.
func entryBytes(kind uint32) int {
	switch kind {
	case segmentPages:
		return pageBytes
	case segmentRemoved:
		return idBytes
	case segmentEdges:
		return edgeBytes
	}
	return 0
}

// bytesOf are those of a list of plain entries, as they lie in a file.
func bytesOf[E any](list []E) []byte {
	var entry E
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(list))), len(list)*int(unsafe.Sizeof(entry)))
}

// copied reads a list of plain entries in place of another. A copy, as the bytes can be those of a mapped file, which others
// change.
func copied[E any](list []E, raw []byte, count uint64) []E {
	list = slices.Grow(list, int(count))[:count]
	copy(bytesOf(list), raw)
	return list
}

// checkPages looks at what a segment of pages says, as far as it can be seen without other segments.
func (v *volume) checkPages(t *table, number int) error {
	next := uint64(0)                     // the first extent of the next page
	free := freeSpace{t.dataAt, t.length} // of the next extent
	for entry := range t.pages {
		page := &t.pages[entry]
		if what := v.pageFault(page); what != "" {
			return status.Errorf(status.Corrupt, "%s: page %d, entry %d of segment %d at offset %d: %s", v.name, page.ID, entry,
				number, t.offset, what)
		}
		if uint64(page.FirstExtent) != next || uint64(page.Extents) > uint64(len(t.extents))-next {
			return status.Errorf(status.Corrupt, "%s: page %d, entry %d of segment %d at offset %d: extents %d and %d more, "+
				"expected from %d on of %d", v.name, page.ID, entry, number, t.offset, page.FirstExtent, page.Extents, next,
				len(t.extents))
		}
		for ; next < uint64(page.FirstExtent)+uint64(page.Extents); next++ {
			extent := &t.extents[next]
			if what := free.take(page, extent); what != "" {
				return status.Errorf(status.Corrupt, "%s: page %d, extent %d of segment %d at offset %d (kind %d, offset %d, "+
					"length %d, compression %d, %d bytes at %d): %s", v.name, page.ID, next, number, t.offset, extent.Kind,
					extent.Offset, extent.Length, extent.Compression, extent.Stored, extent.At, what)
			}
		}
	}
	if next != uint64(len(t.extents)) {
		return status.Errorf(status.Corrupt, "%s: segment %d at offset %d has %d extents, but its pages have %d", v.name, number,
			t.offset, len(t.extents), next)
	}
	return nil
}

func (v *volume) pageFault(page *Page) string {
	if page.ID == 0 {
		return "the id is 0"
	}
	if what := attribute.SizeFault(page.Size); what != "" {
		return what
	}
	if what := attribute.PlaceFault(page.Location, page.Device, page.NUMANode); what != "" {
		return what
	}
	switch {
	case page.Version > attribute.MaximumVersion:
		return "a version that no page has"
	case page.Flags&^flagsInFiles != 0:
		return "flags that are unknown"
	case page.Flags&FlagChanges != 0 && v.header.Base == ID{}:
		return "only its changes are stored, but the snapshot has no base"
	case page.Extents == 0 && page.Flags&FlagChanges == 0:
		return "nothing of it is stored"
	case page.Reserved != 0:
		return "a reserved field is not 0"
	}
	return ""
}

// freeSpace is where the next extents of a segment can lie: those of bytes come from below, all others from above.
type freeSpace struct{ from, to uint64 }

// take looks at the next extent, and says what is wrong with it.
func (r *freeSpace) take(page *Page, extent *Extent) string {
	if extent.Kind > KindMetadata {
		return "a kind that does not exist"
	}
	whole, granule := lengthOf(page.Size, extent.Kind), uint64(Chunk)
	if extent.Kind == KindBytes && page.Flags&FlagChanges != 0 {
		granule = Granule
	}
	if extent.Offset%granule != 0 || extent.Offset >= whole {
		return "an offset where no extent begins"
	}
	left := min(Chunk-extent.Offset%Chunk, whole-extent.Offset) // in the chunk
	switch stands := uint64(extent.Length); {
	case stands == 0 || stands > left,
		stands < left && extent.Kind != KindMetadata && stands%granule != 0:
		return "a length that is not the chunk's"
	}
	switch extent.Compression {
	case Uncompressed:
		if extent.Stored != extent.Length {
			return "stored in another length, but not compressed"
		}
	case Zstd:
		if extent.Stored == 0 || extent.Stored >= extent.Length {
			return "compressed, but not to fewer bytes"
		}
	case Zeros:
		if extent.Stored != 0 || extent.At != 0 || extent.CRC != 0 {
			return "zeros of which something is stored"
		}
		return ""
	default:
		return "a compression that does not exist"
	}
	at, behind := uint64(extent.At), uint64(extent.At)+uint64(extent.Stored)
	switch {
	case at < r.from:
		return "stored over what comes before"
	case at%alignment(extent.Kind, extent.Compression, page.Size) != 0:
		return "stored at an offset that is not aligned"
	case behind > r.to:
		return "stored over what lies behind, or past the segment's end"
	}
	if extent.Kind == KindBytes {
		r.from = behind
	} else {
		r.to = at
	}
	return ""
}

// checkData looks at the data of a segment: what lies between the extents is zero, the checksum of each extent is right, those of
// uncompressed bytes only if wanted, and, if wanted, what is compressed can be decompressed.
func (v *volume) checkData(t *table, raw []byte, frames, bytes bool) error {
	if v.header.Version == OriginalVersion {
		return nil
	}
	end := t.dataAt
	gap := func(to uint64) error {
		if allZero(raw[end:to]) {
			return nil
		}
		return status.Errorf(status.Corrupt, "%s: bytes other than 0 between extents, from offset %d to %d", v.name, t.offset+end,
			t.offset+to)
	}
	var scratch []byte
	for page, extent := range t.asStored() {
		if err := gap(uint64(extent.At)); err != nil {
			return err
		}
		end = uint64(extent.At) + uint64(extent.Stored)
		stored := raw[extent.At:end]
		if bytes || extent.Kind != KindBytes || extent.Compression != Uncompressed {
			if err := v.checkStored(page.ID, extent, stored, t.offset); err != nil {
				return err
			}
		}
		if frames && extent.Compression == Zstd {
			if scratch == nil {
				scratch = make([]byte, Chunk)
			}
			if err := v.expand(scratch[:extent.Length], page.ID, extent, stored, t.offset); err != nil {
				return err
			}
		}
	}
	return gap(t.length)
}

// asStored walks the extents of which something is stored in the order in which they lie: bytes as in the tables, then all else
// the other way round.
func (t *table) asStored() iter.Seq2[*Page, *Extent] {
	return func(yield func(*Page, *Extent) bool) {
		for entry := range t.pages {
			page := &t.pages[entry]
			extents := t.extentsOf(page)
			for number := range extents {
				extent := &extents[number]
				if extent.Kind == KindBytes && extent.Compression != Zeros && !yield(page, extent) {
					return
				}
			}
		}
		for entry := range slices.Backward(t.pages) {
			page := &t.pages[entry]
			extents := t.extentsOf(page)
			for number := range slices.Backward(extents) {
				extent := &extents[number]
				if extent.Kind != KindBytes && extent.Compression != Zeros && !yield(page, extent) {
					return
				}
			}
		}
	}
}

// checkStored compares the checksum of an extent's bytes, of a segment at offset.
func (v *volume) checkStored(id uint64, extent *Extent, stored []byte, offset uint64) error {
	if v.header.Version == OriginalVersion {
		return nil
	}
	if got := checksum(stored); got != extent.CRC {
		return status.Errorf(status.Corrupt, "%s: page %d is damaged: %d bytes at file offset %d (kind %d, offset %d) "+
			"have checksum %08x, not %08x", v.name, id, len(stored), offset+uint64(extent.At), extent.Kind, extent.Offset,
			got, extent.CRC)
	}
	return nil
}

// expand fills into with what an extent's stored bytes stand for.
func (v *volume) expand(into []byte, id uint64, extent *Extent, stored []byte, offset uint64) error {
	switch extent.Compression {
	case Zeros:
		clear(into)
	case Uncompressed:
		copy(into, stored)
	default:
		if !Decompress(into, stored) {
			return status.Errorf(status.Corrupt, "%s: page %d is damaged: %d bytes at file offset %d (kind %d, offset %d) "+
				"are not a zstd frame of %d bytes", v.name, id, len(stored), offset+uint64(extent.At), extent.Kind, extent.Offset,
				extent.Length)
		}
	}
	return nil
}

// sequence checks what can be seen only over all segments of a file, one after the other: that its pages are whole, and that
// the footer counts them right.
type sequence struct {
	v      *volume
	page   Page // the last one, of which more can come
	kind   uint32
	next   [KindMetadata + 1]uint64 // per kind: the page's extents reach up to here
	counts Totals
	graph  *graph    // nil: the dependencies are another state's
	ids    *[]uint64 // of the pages, to look whether one comes twice; nil: somebody else does
}

// sequence begins to look at a file of the chain.
func (s *Snapshot) sequence(number int) sequence {
	q := sequence{v: s.volumes[number]}
	if number == 0 && !s.edgesChecked.Load() {
		q.graph = &graph{v: q.v}
	}
	return q
}

// add takes the next segment's tables. The result says whether its first page goes on from the segment before.
func (q *sequence) add(t *table) (continues bool, err error) {
	q.counts.Removed += uint64(len(t.ids))
	q.counts.Edges += uint64(len(t.edges))
	if q.graph != nil {
		q.graph.add(t)
	}
	for entry := range t.pages {
		page := &t.pages[entry]
		if entry == 0 && page.ID == q.page.ID {
			continues = true
			before := q.page
			before.FirstExtent, before.Extents = page.FirstExtent, page.Extents
			if before != *page || page.Extents == 0 {
				return false, status.Errorf(status.Corrupt, "%s: page %d continues at offset %d with other attributes, "+
					"or occurs twice", q.v.name, page.ID, t.offset)
			}
		} else {
			if err = q.complete(); err != nil {
				return false, err
			}
			q.page, q.kind, q.next = *page, 0, [KindMetadata + 1]uint64{}
			q.counts.Pages++
			if q.ids != nil {
				*q.ids = append(*q.ids, page.ID)
			}
		}
		for number := range page.Extents {
			extent := &t.extents[page.FirstExtent+number]
			want := q.next[extent.Kind]
			partial := extent.Kind == KindBytes && page.Flags&FlagChanges != 0
			if extent.Kind < q.kind || extent.Offset < want || extent.Offset != want && !partial {
				return false, status.Errorf(status.Corrupt, "%s: page %d, extent %d of the segment at offset %d has kind %d and "+
					"offset %d, not %d and %d", q.v.name, page.ID, page.FirstExtent+number, t.offset, extent.Kind,
					extent.Offset, max(q.kind, extent.Kind), want)
			}
			q.kind, q.next[extent.Kind] = extent.Kind, extent.Offset+uint64(extent.Length)
			if extent.Kind == KindBytes {
				q.counts.StoredBytes += uint64(extent.Length)
			}
		}
	}
	return continues, nil
}

// complete says whether all of the last page was there.
func (q *sequence) complete() error {
	page := &q.page
	mask := lengthOf(page.Size, KindMask)
	switch {
	case page.ID == 0:
	case page.Flags&FlagChanges == 0 && q.next[KindBytes] != page.Size:
		return status.Errorf(status.Corrupt, "%s: page %d has %d bytes, its extents end at %d", q.v.name, page.ID, page.Size,
			q.next[KindBytes])
	case q.next[KindMask] != 0 && q.next[KindMask] != mask:
		return status.Errorf(status.Corrupt, "%s: page %d has a mask of %d bytes, its extents end at %d", q.v.name, page.ID, mask,
			q.next[KindMask])
	case (page.MetadataCount == 0) != (q.next[KindMetadata] == 0),
		page.MetadataCount > 0 && q.next[KindMetadata] < leastMetadata+leastKey*uint64(page.MetadataCount):
		return status.Errorf(status.Corrupt, "%s: page %d has %d metadata keys in %d bytes", q.v.name, page.ID,
			page.MetadataCount, q.next[KindMetadata])
	}
	return nil
}

// finish compares with the footer, and looks at what can be seen only of all of the file.
func (q *sequence) finish(goesOn asking) error {
	if err := q.complete(); err != nil {
		return err
	}
	want := q.v.totals
	if q.counts.Pages != want.Pages || q.counts.StoredBytes != want.StoredBytes || q.counts.Removed != want.Removed ||
		q.counts.Edges != want.Edges {
		return status.Errorf(status.Corrupt, "%s: the footer counts %d pages, %d bytes, %d removed, %d dependencies; the "+
			"segments have %d, %d, %d, %d", q.v.name, want.Pages, want.StoredBytes, want.Removed, want.Edges, q.counts.Pages,
			q.counts.StoredBytes, q.counts.Removed, q.counts.Edges)
	}
	if q.ids != nil {
		if err := q.distinct(*q.ids, goesOn); err != nil {
			return err
		}
	}
	if q.graph == nil {
		return nil
	}
	return q.graph.check(goesOn)
}

// distinct finds an id that comes twice.
func (q *sequence) distinct(ids []uint64, goesOn asking) error {
	if err := sorted(ids, goesOn, cmp.Compare[uint64]); err != nil {
		return err
	}
	for at := range ids {
		if at > 0 && ids[at] == ids[at-1] {
			return status.Errorf(status.Corrupt, "%s: page %d occurs twice", q.v.name, ids[at])
		}
	}
	return nil
}
