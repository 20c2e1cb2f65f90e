// Package journal is the file format, the writer and the reader of a context's journal: a directory of segments that hold a
// record of every change, so that a snapshot and the records after it give the state again. docs/journal-format.md describes
// the format.
//
// Records are made by native code in whole buffers; this package frames them, writes them, and reads them back. A frame is
// the unit that is whole or cut.
package journal

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
	"strconv"
	"strings"

	"libmmsb/core/abi"
	"libmmsb/core/lineage"
	"libmmsb/core/status"
)

const (
	// Version of the format that is written.
	Version = 2
	// VersionWithoutLineage is that of journals without a lineage, which are read only.
	VersionWithoutLineage = 1
)

const (
	byteOrder    = 0x01020304
	unitBytes    = 4096 // the header, and what every frame is a multiple of
	segmentCRCAt = unitBytes - 4

	// FrameHeadBytes is the room at the front of a buffer that the writer fills.
	FrameHeadBytes = 64
	frameCRCAt     = FrameHeadBytes - 4
	// MaximumFrame is the length that no frame passes.
	MaximumFrame = 4 << 20

	recordHeadBytes = 40

	maximumBranch = 1<<32 - 1
)

var (
	segmentMagic = []byte("MMSBJRNL")
	frameMagic   = []byte("MMSBFRAM")
	castagnoli   = crc32.MakeTable(crc32.Castagnoli)
)

func checksum(b []byte) uint32 { return crc32.Checksum(b, castagnoli) }

// Kind says what a record tells of.
type Kind uint8

// The kinds of records.
const (
	Create Kind = 1 + iota
	Adopt
	Clone
	Destroy
	Resize
	Migrate
	Write
	Run
	Delta
	MaskClear
	MetadataSet
	MetadataRemove
	MetadataImport
	DependencyAdd
	DependencyRemove
	Group // begins a group: its body is the length of the records behind it
)

var kindNames = [...]string{Create: "create", Adopt: "adopt", Clone: "clone", Destroy: "destroy", Resize: "resize",
	Migrate: "migrate", Write: "write", Run: "run", Delta: "delta", MaskClear: "mask-clear", MetadataSet: "metadata-set",
	MetadataRemove: "metadata-remove", MetadataImport: "metadata-import", DependencyAdd: "dependency-add",
	DependencyRemove: "dependency-remove", Group: "group"}

// String is the kind's name, like "dependency-add".
func (k Kind) String() string {
	if k >= Create && int(k) < len(kindNames) {
		return kindNames[k]
	}
	return "kind " + strconv.Itoa(int(k))
}

// Flags of a record.
const (
	More      = 1 // the next record belongs to the same group
	Piece     = 2 // the body goes on in the next record
	Annotated = 4 // the body begins with a delta's id, time, source and intent
)

// The forms of a Delta record: the kinds of mmsb_delta_t, and one more.
const (
	DenseBytes = abi.DeltaDenseBytes
	DenseBits  = abi.DeltaDenseBits
	SparseBits = abi.DeltaSparseBits
	Indexed    = abi.DeltaIndexed
	Runs       = abi.DeltaRuns
	Indexed32  = 6
)

// segment is what a segment's header says.
type segment struct {
	id       [16]byte // its frames have it: that of the lineage; in version 1 the journal's
	lineage  lineage.Lineage
	branch   uint64 // 0 = the directory's first lineage
	based    bool   // a base gives the state before the first record, not the records before it
	before   uint64 // sequence number of the record before the first one; first - 1, but where steps were not recorded
	first    uint64 // sequence number of the first record
	previous uint32 // crc of the frame before, in the segment before; 0 = there was none
	created  int64  // nanoseconds since 1970
}

// flagBased is the flag of a segment's header.
const flagBased = 1

// place is a segment's position among those of a directory, and in its name.
type place struct{ branch, first uint64 }

func (p place) name() string {
	if p.branch == 0 {
		return fmt.Sprintf("journal-%020d.mmsbj", p.first)
	}
	return fmt.Sprintf("journal-%06d-%020d.mmsbj", p.branch, p.first)
}

func (p place) compare(other place) int {
	return cmp.Or(cmp.Compare(p.branch, other.branch), cmp.Compare(p.first, other.first))
}

// placeOf is what a segment's file name says.
func placeOf(name string) (p place, ok bool) {
	middle, found := strings.CutPrefix(name, "journal-")
	middle, ends := strings.CutSuffix(middle, ".mmsbj")
	if !found || !ends {
		return place{}, false
	}
	if branch, first, branched := strings.Cut(middle, "-"); branched {
		p.branch, _ = strconv.ParseUint(branch, 10, 64)
		middle = first
	}
	p.first, _ = strconv.ParseUint(middle, 10, 64)
	return p, p.first > 0 && p.name() == name
}

// IsSegment says whether a file of that name is a segment of a journal.
func IsSegment(name string) bool {
	_, is := placeOf(name)
	return is
}

// CompareSegments is the order of two segments by their names.
func CompareSegments(a, b string) int {
	first, _ := placeOf(a)
	second, _ := placeOf(b)
	return first.compare(second)
}

// Owns says whether a file of that name is a journal's: a segment that is whole or not, the lock, the ring.
func Owns(name string) bool {
	return IsSegment(strings.TrimSuffix(name, unfinishedSuffix)) || name == lockName || name == ringName
}

func (s segment) place() place { return place{s.branch, s.first} }

func (s segment) encode(header []byte) {
	clear(header[:unitBytes])
	copy(header, segmentMagic)
	binary.LittleEndian.PutUint32(header[8:], Version)
	binary.LittleEndian.PutUint32(header[12:], byteOrder)
	copy(header[16:32], s.lineage.ID[:])
	binary.LittleEndian.PutUint64(header[32:], s.first)
	binary.LittleEndian.PutUint64(header[40:], uint64(s.created))
	binary.LittleEndian.PutUint32(header[48:], s.previous)
	if s.based {
		binary.LittleEndian.PutUint32(header[52:], flagBased)
	}
	binary.LittleEndian.PutUint64(header[56:], s.branch)
	copy(header[64:80], s.lineage.Parent.Lineage[:])
	binary.LittleEndian.PutUint64(header[80:], s.lineage.Parent.Position)
	binary.LittleEndian.PutUint64(header[88:], s.before)
	binary.LittleEndian.PutUint32(header[segmentCRCAt:], checksum(header[:segmentCRCAt]))
}

// decodeSegment reads a segment's header, the first 4096 bytes of its file.
func decodeSegment(header []byte, name string) (segment, error) {
	if len(header) < unitBytes {
		return segment{}, status.Errorf(status.Corrupt, "%s is truncated: %d bytes, a journal segment has at least %d", name,
			len(header), unitBytes)
	}
	if !bytes.Equal(header[:8], segmentMagic) {
		return segment{}, status.Errorf(status.Format, "%s is not a journal segment: it begins with %q at offset 0", name,
			header[:8])
	}
	if crc := checksum(header[:segmentCRCAt]); crc != binary.LittleEndian.Uint32(header[segmentCRCAt:]) {
		return segment{}, status.Errorf(status.Corrupt,
			"%s: the header at offset 0 has checksum 0x%08x, not 0x%08x as at offset %d", name, crc,
			binary.LittleEndian.Uint32(header[segmentCRCAt:]), segmentCRCAt)
	}
	version := binary.LittleEndian.Uint32(header[8:])
	if version != Version && version != VersionWithoutLineage {
		return segment{}, status.Errorf(status.Format, "%s has journal version %d, this library reads versions %d and %d", name,
			version, VersionWithoutLineage, Version)
	}
	if order := binary.LittleEndian.Uint32(header[12:]); order != byteOrder {
		return segment{}, status.Errorf(status.Format, "%s: byte order at offset 12 is 0x%08x, not 0x01020304", name, order)
	}
	s := segment{id: [16]byte(header[16:32]), first: binary.LittleEndian.Uint64(header[32:]),
		created:  int64(binary.LittleEndian.Uint64(header[40:])),
		previous: binary.LittleEndian.Uint32(header[48:])}
	if s.first == 0 || s.first > lineage.MaximumPosition {
		return segment{}, status.Errorf(status.Corrupt, "%s: the first record at offset 32 is %d, not 1 to %d", name, s.first,
			lineage.MaximumPosition)
	}
	if version == VersionWithoutLineage {
		s.based, s.before = s.first > 1, s.first-1
		return s, nil
	}
	s.before = binary.LittleEndian.Uint64(header[88:])
	flags := binary.LittleEndian.Uint32(header[52:])
	if flags&^flagBased != 0 {
		return segment{}, status.Errorf(status.Corrupt, "%s: the flags at offset 52 are 0x%x, not 0 or 1", name, flags)
	}
	s.based, s.branch = flags != 0, binary.LittleEndian.Uint64(header[56:])
	s.lineage = lineage.Lineage{ID: s.id, Parent: lineage.Point{Lineage: lineage.ID(header[64:80]),
		Position: binary.LittleEndian.Uint64(header[80:])}}
	switch {
	case s.lineage.Parent.Position > lineage.MaximumPosition:
		return segment{}, status.Errorf(status.Corrupt, "%s: the parent's position at offset 80 is %d, more than %d", name,
			s.lineage.Parent.Position, lineage.MaximumPosition)
	case s.branch > maximumBranch:
		return segment{}, status.Errorf(status.Corrupt, "%s: the branch at offset 56 is %d, more than %d", name, s.branch,
			maximumBranch)
	case s.lineage.ID == lineage.ID{}:
		return segment{}, status.Errorf(status.Corrupt, "%s: the lineage at offset 16 is 0", name)
	case s.lineage.Parent.Lineage == lineage.ID{} && s.lineage.Parent.Position != 0, s.lineage.Parent.Lineage == s.lineage.ID:
		return segment{}, status.Errorf(status.Corrupt, "%s: the lineage at offset 16 is %s, its parent at offset 64 is %s", name,
			s.lineage.ID, s.lineage.Parent)
	case s.before >= s.first || s.before != s.first-1 && !s.based:
		return segment{}, status.Errorf(status.Corrupt,
			"%s: the first record at offset 32 is %d, the record before it at offset 88 %d",
			name, s.first, s.before)
	}
	return s, nil
}

// frame is what a frame's head says.
type frame struct {
	id       [16]byte
	length   uint32 // bytes, with the head and without what fills it up to a multiple of 4096
	count    uint32 // records
	first    uint64 // sequence number of the first record, or of the next one where there is none
	durable  uint64 // every record up to this one was on the disk when the frame was written
	previous uint32 // crc of the frame before
	crc      uint32 // of the whole frame without this number

	open bool    // its last record's group goes on; eachRecord finds that
	room *[]byte // of a frame that was put together from pieces: its memory, which a visit may exchange for other
}

// checkNumbers says whether records, the first of which has a number, all have one that there is. Errors: Corrupt.
func checkNumbers(of string, first uint64, count uint32) error {
	const end = lineage.MaximumPosition + 1
	if first <= end && uint64(count) <= end-first {
		return nil
	}
	return status.Errorf(status.Corrupt, "%s has %d records from %d on: the last one is beyond %d", of, count, first,
		lineage.MaximumPosition)
}

// padded is the room that so many bytes of a frame take in the file.
func padded(length int) int { return (length + unitBytes - 1) &^ (unitBytes - 1) }

// encode fills in the head of a frame whose records lie behind it, with zeros up to the next multiple of 4096; it sets crc.
func (f *frame) encode(buffer []byte) {
	copy(buffer, frameMagic)
	binary.LittleEndian.PutUint32(buffer[8:], f.length)
	binary.LittleEndian.PutUint32(buffer[12:], f.count)
	copy(buffer[16:32], f.id[:])
	binary.LittleEndian.PutUint64(buffer[32:], f.first)
	binary.LittleEndian.PutUint64(buffer[40:], f.durable)
	binary.LittleEndian.PutUint32(buffer[48:], f.previous)
	clear(buffer[52:frameCRCAt])
	f.crc = frameCRC(buffer[:padded(int(f.length))])
	binary.LittleEndian.PutUint32(buffer[frameCRCAt:], f.crc)
}

func frameCRC(whole []byte) uint32 {
	return crc32.Update(checksum(whole[:frameCRCAt]), castagnoli, whole[FrameHeadBytes:])
}

// decodeFrame reads a frame's head; ok says that it may be one of segments with this id. Its checksum is not looked at.
func decodeFrame(head []byte, id [16]byte) (f frame, ok bool) {
	if len(head) < FrameHeadBytes || !bytes.Equal(head[:8], frameMagic) || !bytes.Equal(head[16:32], id[:]) {
		return frame{}, false
	}
	f = frame{id: id, length: binary.LittleEndian.Uint32(head[8:]), count: binary.LittleEndian.Uint32(head[12:]),
		first: binary.LittleEndian.Uint64(head[32:]), durable: binary.LittleEndian.Uint64(head[40:]),
		previous: binary.LittleEndian.Uint32(head[48:]), crc: binary.LittleEndian.Uint32(head[frameCRCAt:])}
	ok = f.length >= FrameHeadBytes && f.length <= MaximumFrame && f.first > 0 && f.durable < f.first &&
		uint64(f.count) <= math.MaxUint64-f.first && uint64(f.count) <= uint64(f.length-FrameHeadBytes)/recordHeadBytes
	return f, ok
}
