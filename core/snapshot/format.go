// Package snapshot writes and reads snapshot files: docs/snapshot-format.md, version 4; it also reads version 3, and the
// original's version 2.
//
// It knows nothing of live pages. A Writer fills segments and hands them to a file.Sink; a Snapshot is a file with the chain
// of its bases, read through a file.Source. Every byte that comes from a file is checked before it is used, and errors name
// the file, the page and the offset. The errors: Corrupt (damaged, truncated), Format (not a snapshot, or of a newer
// version), NotFound (a base is missing), Mismatch (a base is another snapshot), and those of reading files.
package snapshot

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"hash/crc32"
	"math"
	"strings"
	"time"
	"unicode/utf8"
	"unsafe"

	"libmmsb/core/abi"
	"libmmsb/core/lineage"
	"libmmsb/core/status"
)

const (
	// Version is that of the files that are written.
	Version = 4
	// VersionWithoutLineage is that of files without a lineage, which are read only.
	VersionWithoutLineage = 3
	// OriginalVersion is that of the original's files, which are read only.
	OriginalVersion = 2
	// Chunk is the most bytes that an extent stands for; extents begin at multiples of it, those of changes at multiples of
	// Granule within one.
	Chunk = 256 << 10
	// Granule is the least of a page that an incremental save compares and stores.
	Granule = 4096
	// SegmentBytes is the most bytes of a segment.
	SegmentBytes = 4 << 20

	unitBytes        = 4096 // parts of a file begin at multiples of it
	segmentHeader    = 56
	pageBytes        = 64
	extentBytes      = 32
	idBytes          = 8
	edgeBytes        = 16
	maximumName      = 255
	maximumMetadata  = 1 << 32
	leastMetadata    = 4 // of a blob: its count; and what each key takes at least
	leastKey         = 9
	byteOrder        = 0x01020304
	magicHeader      = "MMSBSNAP"
	magicSegment     = "MMSBSEGM"
	magicFooter      = "MMSBDONE"
	crcAt            = unitBytes - 4 // of a header and a footer
	headerLineageAt  = 328
	headerLatestAt   = headerLineageAt + 16 + 16 + 8
	headerReservedAt = headerLatestAt + 8
	footerReservedAt = 100
)

// What a segment holds.
const (
	segmentPages   = 1
	segmentRemoved = 2
	segmentEdges   = 3
)

// Kinds of extents.
const (
	KindBytes    = 0
	KindMask     = 1
	KindMetadata = 2
)

// Compression says how an extent is stored; given to Writer.Add, what it may use.
type Compression = uint32

// The compressions. With Uncompressed a page can be mapped; Zstd stores a chunk of zeros as Zeros.
const (
	Uncompressed Compression = abi.CompressionNone
	Zstd         Compression = abi.CompressionZstd
	Zeros        Compression = 2
)

// Flags of a page.
const (
	// FlagChanges: the extents of kind 0 in this file are only those that changed since the base.
	FlagChanges uint32 = 1
	// FlagAdopted: the page was adopted.
	FlagAdopted uint32 = 2
	// FlagReadOnly: the page was read-only.
	FlagReadOnly uint32 = 4
	// FlagKnown is set by Segments alone: the page came before in the same walk, and only its extents are new.
	FlagKnown uint32 = 1 << 31

	flagsInFiles = FlagChanges | FlagAdopted | FlagReadOnly
)

// ID is a snapshot's random id; zeros for none.
type ID [16]byte

// NewID is a new one.
func NewID() (id ID) {
	_, _ = rand.Read(id[:]) // never fails
	return id
}

// String is the id in hexadecimal.
func (id ID) String() string { return hex.EncodeToString(id[:]) }

// Header says what a file is.
type Header struct {
	Version  uint32 // A Writer ignores it
	ID       ID     // a Writer makes a random one of zeros
	Base     ID     // zeros: the snapshot is whole
	BaseName string // file name of the base, in the same directory
	Taken    time.Time
	Lineage  lineage.Lineage
	Position uint64 // of the state in the lineage: it has the effect of every step up to this number
	Latest   uint64 // and perhaps of steps up to this one, which came before the moment; a Writer takes 0 for Position
}

// Page is a page's entry, as it lies in a file.
type Page struct {
	ID            uint64
	Size          uint64
	Epoch         uint64
	Version       uint64
	Location      int32
	Device        int32
	NUMANode      int32
	Flags         uint32
	FirstExtent   uint32
	Extents       uint32
	MetadataCount uint32
	Reserved      uint32
}

// Extent says where a part of a page lies, as it lies in a file.
type Extent struct {
	Offset      uint64 // in the page's bytes, mask or metadata
	Length      uint32
	Stored      uint32 // length as stored
	At          uint32 // from the segment's start
	CRC         uint32 // of the bytes as stored
	Kind        uint32
	Compression Compression
}

// Pages and extents are read and written where they lie: the two sizes are those of the format.
var (
	_ [pageBytes]struct{}   = [unsafe.Sizeof(Page{})]struct{}{}
	_ [extentBytes]struct{} = [unsafe.Sizeof(Extent{})]struct{}{}
)

// Totals are the numbers of a file's footer.
type Totals struct {
	Segments    uint64
	FileBytes   uint64
	Pages       uint64 // with an entry in this file
	StatePages  uint64 // of the state, which the chain gives together
	StateBytes  uint64 // of these pages
	StoredBytes uint64 // of pages, stored in this file, before compression
	Removed     uint64
	Edges       uint64
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func checksum(parts ...[]byte) uint32 {
	sum := uint32(0)
	for _, part := range parts {
		sum = crc32.Update(sum, castagnoli, part)
	}
	return sum
}

const leastAlignment = 64

// alignment is that of an uncompressed page's bytes in the file; all else has the least.
func alignment(kind uint32, compression Compression, size uint64) uint64 {
	switch {
	case kind != KindBytes || compression != Uncompressed || size < 256:
		return leastAlignment
	case size < 4096:
		return 256
	default:
		return 4096
	}
}

func roundUp(n, to uint64) uint64 { return (n + to - 1) / to * to }

// lengthOf is how many bytes the page's kind has; for metadata, how many it can have.
func lengthOf(size uint64, kind uint32) uint64 {
	switch kind {
	case KindBytes:
		return size
	case KindMask:
		return size/8 + (size%8+7)/8
	default:
		return maximumMetadata
	}
}

func allZero(b []byte) bool {
	for len(b) >= 8 {
		if binary.NativeEndian.Uint64(b) != 0 {
			return false
		}
		b = b[8:]
	}
	for _, one := range b {
		if one != 0 {
			return false
		}
	}
	return true
}

// checkBaseName says whether a file name leads to a file of the same directory and nowhere else.
func checkBaseName(name string) error {
	switch {
	case name == "" || len(name) > maximumName:
		return status.Errorf(status.InvalidArgument, "base name has %d bytes, not 1 to %d", len(name), maximumName)
	case name == "." || name == ".." || strings.ContainsAny(name, "/\x00") || !utf8.ValidString(name):
		return status.Errorf(status.InvalidArgument, "%q is not a base's file name: valid UTF-8 without slash expected", name)
	}
	return nil
}

// encodeHeader fills a unit.
func encodeHeader(unit []byte, h *Header) {
	clear(unit)
	copy(unit, magicHeader)
	binary.LittleEndian.PutUint32(unit[8:], Version)
	binary.LittleEndian.PutUint32(unit[12:], byteOrder)
	copy(unit[16:], h.ID[:])
	copy(unit[32:], h.Base[:])
	binary.LittleEndian.PutUint64(unit[48:], uint64(h.Taken.UnixNano()))
	binary.LittleEndian.PutUint64(unit[56:], h.Position)
	binary.LittleEndian.PutUint32(unit[68:], uint32(len(h.BaseName)))
	copy(unit[72:headerLineageAt], h.BaseName)
	copy(unit[headerLineageAt:], h.Lineage.ID[:])
	copy(unit[headerLineageAt+16:], h.Lineage.Parent.Lineage[:])
	binary.LittleEndian.PutUint64(unit[headerLineageAt+32:], h.Lineage.Parent.Position)
	if h.Latest > h.Position {
		binary.LittleEndian.PutUint64(unit[headerLatestAt:], h.Latest)
	}
	binary.LittleEndian.PutUint32(unit[crcAt:], checksum(unit[:crcAt]))
}

// decodeVersion looks at a file's first bytes, 12 of them where it has as many.
func decodeVersion(name string, first []byte) (uint32, error) {
	magic := first[:min(len(first), len(magicHeader))]
	if !strings.HasPrefix(magicHeader, string(magic)) {
		return 0, status.Errorf(status.Format, "%s is not a snapshot: it begins with %q, not %q", name, magic, magicHeader)
	}
	if len(first) < 12 {
		return 0, status.Errorf(status.Corrupt, "%s is truncated: %d bytes", name, len(first))
	}
	version := binary.LittleEndian.Uint32(first[8:])
	switch version {
	case OriginalVersion, VersionWithoutLineage, Version:
		return version, nil
	}
	return 0, status.Errorf(status.Format, "%s has snapshot version %d, this library reads versions %d to %d", name, version,
		OriginalVersion, Version)
}

// decodeHeader reads a unit of which decodeVersion found that it is of version 3 or 4.
func decodeHeader(name string, unit []byte) (Header, error) {
	fail := func(format string, args ...any) (Header, error) {
		return Header{}, status.Errorf(status.Corrupt, "%s: the header at offset 0 "+format, append([]any{name}, args...)...)
	}
	if want, got := binary.LittleEndian.Uint32(unit[crcAt:]), checksum(unit[:crcAt]); want != got {
		return fail("has checksum %08x, but its bytes have %08x", want, got)
	}
	if order := binary.LittleEndian.Uint32(unit[12:]); order != byteOrder {
		return fail("has byte order %08x, not %08x", order, byteOrder)
	}
	if flags := binary.LittleEndian.Uint32(unit[64:]); flags != 0 {
		return fail("has unknown flags %#x", flags)
	}
	h := Header{
		Version:  binary.LittleEndian.Uint32(unit[8:]),
		ID:       ID(unit[16:32]),
		Base:     ID(unit[32:48]),
		Taken:    time.Unix(0, int64(binary.LittleEndian.Uint64(unit[48:]))),
		Position: binary.LittleEndian.Uint64(unit[56:]),
	}
	reservedAt := headerLineageAt
	if h.Version == Version {
		reservedAt = headerReservedAt
		parent := lineage.Point{Lineage: lineage.ID(unit[headerLineageAt+16 : headerLineageAt+32]),
			Position: binary.LittleEndian.Uint64(unit[headerLineageAt+32:])}
		h.Lineage = lineage.Lineage{ID: lineage.ID(unit[headerLineageAt : headerLineageAt+16]), Parent: parent}
		h.Latest = binary.LittleEndian.Uint64(unit[headerLatestAt:])
	}
	length := binary.LittleEndian.Uint32(unit[68:])
	switch {
	case h.ID == ID{}:
		return fail("has no id")
	case h.Base == h.ID:
		return fail("has its own id %s as its base", h.ID)
	case h.Latest != 0 && h.Latest <= h.Position || h.Latest > lineage.MaximumPosition:
		return fail("has latest step %d, but position %d", h.Latest, h.Position)
	case h.Position > lineage.MaximumPosition || h.Lineage.Parent.Position > lineage.MaximumPosition:
		return fail("has position %d behind %d of its parent, more than %d", h.Position, h.Lineage.Parent.Position,
			lineage.MaximumPosition)
	case (h.Base == ID{}) != (length == 0):
		return fail("has base id %s, but a base name of %d bytes", h.Base, length)
	case length > maximumName:
		return fail("has a base name of %d bytes, more than %d", length, maximumName)
	case !allZero(unit[72+length:headerLineageAt]) || !allZero(unit[reservedAt:crcAt]):
		return fail("has bytes other than 0 after the base name")
	case h.Version == Version && h.Lineage.ID == lineage.ID{}:
		return fail("has no lineage")
	case h.Lineage.Parent.Lineage == lineage.ID{} && h.Lineage.Parent.Position != 0,
		h.Lineage.Parent.Lineage == h.Lineage.ID && h.Version == Version:
		return fail("has the lineage %s, whose parent is %s", h.Lineage.ID, h.Lineage.Parent)
	}
	h.Latest = max(h.Latest, h.Position)
	if length > 0 {
		h.BaseName = string(unit[72 : 72+length])
		if err := checkBaseName(h.BaseName); err != nil {
			return fail("is invalid: %s", status.Of(err).Text)
		}
	}
	return h, nil
}

// footer is a file's last unit.
type footer struct {
	totals   Totals
	tableAt  uint64
	tableCRC uint32
}

func encodeFooter(unit []byte, id ID, f *footer) {
	clear(unit)
	copy(unit, magicFooter)
	binary.LittleEndian.PutUint32(unit[8:], Version)
	binary.LittleEndian.PutUint32(unit[12:], uint32(f.totals.Segments))
	copy(unit[16:], id[:])
	for number, value := range []uint64{f.tableAt, f.totals.FileBytes, f.totals.Pages, f.totals.StatePages, f.totals.StateBytes,
		f.totals.StoredBytes, f.totals.Removed, f.totals.Edges} {
		binary.LittleEndian.PutUint64(unit[32+8*number:], value)
	}
	binary.LittleEndian.PutUint32(unit[96:], f.tableCRC)
	binary.LittleEndian.PutUint32(unit[crcAt:], checksum(unit[:crcAt]))
}

// decodeFooter reads the last unit of a file of fileBytes bytes.
func decodeFooter(name string, unit []byte, header *Header, fileBytes uint64) (footer, error) {
	at := fileBytes - unitBytes
	if !bytes.HasPrefix(unit, []byte(magicFooter)) {
		return footer{}, status.Errorf(status.Corrupt, "%s is truncated or damaged: no footer at offset %d of %d", name, at,
			fileBytes)
	}
	fail := func(format string, args ...any) (footer, error) {
		args = append([]any{name, at}, args...)
		return footer{}, status.Errorf(status.Corrupt, "%s: the footer at offset %d "+format, args...)
	}
	if want, got := binary.LittleEndian.Uint32(unit[crcAt:]), checksum(unit[:crcAt]); want != got {
		return fail("has checksum %08x, but its bytes have %08x", want, got)
	}
	number := func(at int) uint64 { return binary.LittleEndian.Uint64(unit[at:]) }
	f := footer{
		tableAt:  number(32),
		tableCRC: binary.LittleEndian.Uint32(unit[96:]),
		totals: Totals{
			Segments: uint64(binary.LittleEndian.Uint32(unit[12:])), FileBytes: number(40), Pages: number(48),
			StatePages: number(56), StateBytes: number(64), StoredBytes: number(72), Removed: number(80), Edges: number(88),
		},
	}
	switch version := binary.LittleEndian.Uint32(unit[8:]); {
	case version != header.Version:
		return fail("has version %d, but the header has %d", version, header.Version)
	case ID(unit[16:32]) != header.ID:
		return fail("belongs to snapshot %s, but the header to %s", ID(unit[16:32]), header.ID)
	case f.totals.FileBytes != fileBytes:
		return fail("belongs to a file of %d bytes, this one has %d", f.totals.FileBytes, fileBytes)
	case f.tableAt%unitBytes != 0 || f.tableAt < unitBytes || f.tableAt > at ||
		at-f.tableAt != roundUp(8*f.totals.Segments, unitBytes):
		return fail("has a table of %d segments at offset %d", f.totals.Segments, f.tableAt)
	case f.totals.StateBytes > math.MaxInt64 || f.totals.StoredBytes > math.MaxInt64:
		return fail("counts %d bytes of the state and %d stored", f.totals.StateBytes, f.totals.StoredBytes)
	case !allZero(unit[footerReservedAt:crcAt]):
		return fail("has bytes other than 0 after its numbers")
	}
	return f, nil
}
