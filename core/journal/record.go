// Decoding and checking one record.

package journal

import (
	"encoding/binary"
	"math/bits"

	"libmmsb/core/abi"
	"libmmsb/core/attribute"
	"libmmsb/core/metadata"
	"libmmsb/core/status"
)

// Record is one change. Which fields it has depends on its kind. Its byte slices are parts of a buffer that the reader uses
// again: they are good until the next record is asked for.
type Record struct {
	Sequence uint64 // 1, 2, 3, … of the whole journal
	Group    uint64 // sequence number of the first record of its group; all records of a group belong together
	Last     bool   // it is the last of its group
	Kind     Kind
	Page     uint64 // id of the page; of DependencyAdd and DependencyRemove: the parent
	Version  uint64 // of the page after the change
	Epoch    uint64 // of the page after the change
	Time     int64  // nanoseconds since 1970

	// Create, Adopt: all of them; Resize: Size; Migrate: all but Size and State.
	Size                       uint64
	Location, Device, NUMANode int32
	State                      uint32 // 1 adopted, 2 read-only

	// Offset is where the bytes of Write and Run begin.
	Offset uint64
	// Bytes are the contents of Adopt; what Write and Run write; the payload of Delta; the blob of MetadataImport.
	Bytes []byte

	// Delta.
	Form       uint16
	Mask       []byte // DenseBytes, DenseBits, SparseBits
	MaskLength uint64 // bytes of the page
	// Positions are the offsets (8 bytes each, 4 of Indexed32) or runs (offset and length, 8 bytes each) as they lie in the
	// file, Count of them, at an address that is a multiple of 8.
	Positions []byte
	Count     uint64
	// The annotation of Run and Delta.
	DeltaID, DeltaTime uint64
	Source, Intent     []byte

	// MetadataSet, MetadataRemove.
	Key, Value []byte

	// Other is the child of DependencyAdd and DependencyRemove, and the page that Clone copies; OtherVersion is the latter's
	// version.
	Other, OtherVersion uint64
}

// recordHead is what every record begins with.
type recordHead struct {
	length               uint32
	kind                 Kind
	flags                uint8
	form                 uint16
	page, version, epoch uint64
	time                 int64
}

func decodeRecordHead(b []byte) recordHead {
	_ = b[recordHeadBytes-1]
	return recordHead{length: binary.LittleEndian.Uint32(b), kind: Kind(b[4]), flags: b[5],
		form: binary.LittleEndian.Uint16(b[6:]),
		page: binary.LittleEndian.Uint64(b[8:]), version: binary.LittleEndian.Uint64(b[16:]),
		epoch: binary.LittleEndian.Uint64(b[24:]), time: int64(binary.LittleEndian.Uint64(b[32:]))}
}

// body reads the parts of a record's body; after the first that is not there, bad says what it was.
type body struct {
	left []byte
	bad  string
}

func (b *body) bytes(length uint64, what string) []byte {
	if b.bad != "" || length > uint64(len(b.left)) {
		if b.bad == "" {
			b.bad = what
		}
		return nil
	}
	taken := b.left[:length:length]
	b.left = b.left[length:]
	return taken
}

func (b *body) u64(what string) uint64 {
	if part := b.bytes(8, what); part != nil {
		return binary.LittleEndian.Uint64(part)
	}
	return 0
}

func (b *body) u32(what string) uint32 {
	if part := b.bytes(4, what); part != nil {
		return binary.LittleEndian.Uint32(part)
	}
	return 0
}

func (b *body) rest() []byte { return b.bytes(uint64(len(b.left)), "") }

func (b *body) require(condition bool, what string) {
	if b.bad == "" && !condition {
		b.bad = what
	}
}

// decode fills the fields of the record's kind from its whole body. Errors: Corrupt, Format.
func (r *Record) decode(head recordHead, content []byte) error {
	sequence, group, last := r.Sequence, r.Group, r.Last
	*r = Record{Sequence: sequence, Group: group, Last: last, Kind: head.kind, Page: head.page, Version: head.version,
		Epoch: head.epoch, Time: head.time, Form: head.form}
	b := body{left: content}
	if head.flags&Annotated != 0 {
		b.require(head.kind == Run || head.kind == Delta, "an annotation")
		r.annotation(&b)
	}
	b.require(head.page != 0, "a page's id")
	switch head.kind {
	case Run, Write:
		r.Offset = b.u64("an offset")
		r.Bytes = b.rest()
		b.require(r.Offset <= r.Offset+uint64(len(r.Bytes)), "a range of less than 2^64 bytes")
	case Delta:
		r.delta(&b)
	case Create, Adopt:
		r.Size = b.u64("a size")
		r.location(&b)
		r.State = b.u32("a state")
		if head.kind == Adopt {
			r.Bytes = b.rest()
			b.require(uint64(len(r.Bytes)) == r.Size, "as many bytes as its size says")
		}
	case Resize:
		r.Size = b.u64("a size")
	case Migrate:
		r.location(&b)
		b.require(b.u32("a last word") == 0, "a last word of 0")
	case Clone:
		r.Other = b.u64("a page to copy")
		r.OtherVersion = b.u64("the version of the page to copy")
		b.require(r.Other != 0, "a page to copy")
	case DependencyAdd, DependencyRemove:
		r.Other = b.u64("a child")
		b.require(r.Other != 0 && r.Other != r.Page, "a child other than itself")
	case MetadataSet:
		length := b.u32("a key's length")
		valueLength := b.u32("a value's length")
		r.Key = b.bytes(uint64(length), "a key")
		r.Value = b.bytes(uint64(valueLength), "a value")
		b.require(length > 0, "a key")
	case MetadataRemove:
		r.Key = b.rest()
		b.require(len(r.Key) > 0, "a key")
	case MetadataImport:
		r.Bytes = b.rest()
	case Destroy, MaskClear:
	default:
		return status.Errorf(status.Format, "record %d has %v, which this library does not know", sequence, head.kind)
	}
	b.require(len(b.left) == 0, "an end where it ends")
	if b.bad != "" {
		return status.Errorf(status.Corrupt, "record %d (%v of page 0x%016x) has %d bytes, but not %s", sequence, head.kind,
			head.page, len(content), b.bad)
	}
	if what := r.fault(); what != "" {
		return status.Errorf(status.Corrupt, "record %d (%v of page 0x%016x) has %s", sequence, head.kind, head.page, what)
	}
	return nil
}

// fault is what is wrong with the attributes that a record gives its page.
func (r *Record) fault() (what string) {
	if r.Kind == Create || r.Kind == Adopt || r.Kind == Resize {
		what = attribute.SizeFault(r.Size)
	}
	if what == "" {
		what = attribute.PlaceFault(r.Location, r.Device, r.NUMANode)
	}
	return what
}

func errVersion(sequence, version uint64) error {
	return status.Errorf(status.Corrupt, "record %d has version %d, more than %d", sequence, version,
		attribute.MaximumVersion)
}

func (r *Record) location(b *body) {
	r.Location = int32(b.u32("a location"))
	r.Device = int32(b.u32("a device"))
	r.NUMANode = int32(b.u32("a NUMA node"))
	if r.Location == abi.LocationCPU || r.Location == abi.LocationDisk {
		r.Device = 0 // nothing else can be meant
	}
}

func (r *Record) annotation(b *body) {
	r.DeltaID = b.u64("a delta's id")
	r.DeltaTime = b.u64("a delta's time")
	source, intent := uint64(b.u32("a source's length")), uint64(b.u32("an intent's length"))
	r.Source = b.bytes(source, "a source")
	r.Intent = b.bytes(intent, "an intent")
	b.bytes(-(source+intent)&7, "the end of an annotation")
}

func (r *Record) delta(b *body) {
	number := b.u64("a count")
	var needed uint64
	switch r.Form {
	case DenseBytes, DenseBits, SparseBits:
		r.MaskLength, needed = number, number
		length := number
		if r.Form != DenseBytes {
			length = number>>3 + (number&7+7)>>3
		}
		r.Mask = b.bytes(length, "a mask")
		if r.Form == SparseBits && b.bad == "" {
			needed = countBits(r.Mask, number)
		}
	case Indexed, Indexed32, Runs:
		r.Count, needed = number, number
		high, length := bits.Mul64(number, positionBytes(r.Form))
		b.require(high == 0, "so many positions")
		r.Positions = b.bytes(length, "its positions")
		if r.Form == Runs && b.bad == "" {
			needed = r.runs(b)
		}
	default:
		b.require(false, "a form of a delta")
	}
	b.require(needed == uint64(len(b.left)), "the payload that it needs")
	r.Bytes = b.rest()
}

// positionBytes is the length of each of a delta's positions.
func positionBytes(form uint16) uint64 {
	switch form {
	case Indexed32:
		return 4
	case Runs:
		return 16
	default:
		return 8
	}
}

// runs adds up the lengths of a delta's runs.
func (r *Record) runs(b *body) (sum uint64) {
	for at := 0; at < len(r.Positions); at += 16 {
		offset, length := binary.LittleEndian.Uint64(r.Positions[at:]), binary.LittleEndian.Uint64(r.Positions[at+8:])
		var carry uint64
		sum, carry = bits.Add64(sum, length, 0)
		b.require(carry == 0 && offset <= offset+length, "a range of less than 2^64 bytes")
	}
	return sum
}

// countBits is how many of the first length bits are set.
func countBits(mask []byte, length uint64) (count uint64) {
	whole := mask[:length>>3]
	for ; len(whole) >= 8; whole = whole[8:] {
		count += uint64(bits.OnesCount64(binary.LittleEndian.Uint64(whole)))
	}
	for _, b := range whole {
		count += uint64(bits.OnesCount8(b))
	}
	if length&7 != 0 {
		count += uint64(bits.OnesCount8(mask[length>>3] & (1<<(length&7) - 1)))
	}
	return count
}

// ChangeMetadata does to a page's metadata what a record of metadata says: the blob after it, and whether it is another. Errors:
// those of core/metadata.
func (r *Record) ChangeMetadata(blob []byte) (after []byte, changed bool, err error) {
	switch r.Kind {
	case MetadataSet:
		after, err = metadata.Set(blob, r.Key, r.Value)
		return after, err == nil, err
	case MetadataRemove:
		if err := metadata.CheckKey(r.Key); err != nil {
			return nil, false, err
		}
		after, changed = metadata.Remove(blob, r.Key)
		return after, changed, nil
	default:
		_, err := metadata.Validate(r.Bytes)
		return r.Bytes, err == nil, err
	}
}

// Follows says whether a record's change comes behind what a page is, in a state that may have steps up to latest: their pages
// say by their versions whether they have them. What comes later is in no such page, but its version may be that of a context in
// which the state that it changed had others, because a load gives pages versions above all that a context has had. Then the
// record gets the version behind the page's. Errors: Corrupt.
func (r *Record) Follows(version, latest uint64) (bool, error) {
	switch {
	case version < r.Version:
		return true, nil
	case r.Sequence <= latest:
		return false, nil
	case version >= attribute.MaximumVersion:
		return false, status.Errorf(status.Corrupt, "record %d (%v of page %d) has no version left: the page has %d", r.Sequence,
			r.Kind, r.Page, version)
	}
	r.Version = version + 1
	return true, nil
}
