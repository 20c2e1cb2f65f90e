package journal

import (
	"encoding/binary"
	"slices"
)

// encode is a record as native code writes it: the test's own reading of docs/journal-format.md.
func (r Record) encode(flags uint8) []byte {
	var b []byte
	u32 := func(v uint32) { b = binary.LittleEndian.AppendUint32(b, v) }
	u64 := func(v uint64) { b = binary.LittleEndian.AppendUint64(b, v) }
	if r.DeltaID|r.DeltaTime != 0 || r.Source != nil || r.Intent != nil {
		flags |= Annotated
		u64(r.DeltaID)
		u64(r.DeltaTime)
		u32(uint32(len(r.Source)))
		u32(uint32(len(r.Intent)))
		b = append(append(b, r.Source...), r.Intent...)
		for len(b)%8 != 0 {
			b = append(b, 0)
		}
	}
	switch r.Kind {
	case Create, Adopt:
		b = append(b, CreateBody(r.Size, r.Location, r.Device, r.NUMANode, r.State)...)
	case Migrate:
		b = append(b, MigrateBody(r.Location, r.Device, r.NUMANode)...)
	case Clone:
		b = append(b, Words(r.Other, r.OtherVersion)...)
	case Resize:
		b = append(b, Words(r.Size)...)
	case Write, Run:
		b = append(b, Words(r.Offset)...)
	case Delta:
		u64(r.MaskLength + r.Count)
		b = append(append(b, r.Mask...), r.Positions...)
	case MetadataSet:
		b = append(b, MetadataBody(uint32(len(r.Key)), uint32(len(r.Value)))...)
		b = append(append(b, r.Key...), r.Value...)
	case MetadataRemove:
		b = append(b, r.Key...)
	case DependencyAdd, DependencyRemove:
		b = append(b, Words(r.Other)...)
	}
	return r.wrap(flags, append(b, r.Bytes...))
}

// wrap puts a record's head before a body.
func (r Record) wrap(flags uint8, body []byte) []byte {
	record := make([]byte, recordHeadBytes, recordHeadBytes+len(body)+8)
	binary.LittleEndian.PutUint32(record, uint32(recordHeadBytes+len(body)))
	record[4], record[5] = byte(r.Kind), flags
	binary.LittleEndian.PutUint16(record[6:], r.Form)
	binary.LittleEndian.PutUint64(record[8:], r.Page)
	binary.LittleEndian.PutUint64(record[16:], r.Version)
	binary.LittleEndian.PutUint64(record[24:], r.Epoch)
	binary.LittleEndian.PutUint64(record[32:], uint64(r.Time))
	record = append(record, body...)
	for len(record)%8 != 0 {
		record = append(record, 0)
	}
	return record
}

// buffer is what a ring hands out: room for a frame's head, records, zeros.
func buffer(records ...[]byte) (whole []byte, used int) {
	whole = append(make([]byte, FrameHeadBytes), slices.Concat(records...)...)
	used = len(whole)
	return append(whole, make([]byte, padded(used)-used)...), used
}

// examples has a record of each kind and of each form of a delta.
func examples() []Record {
	all := []Record{
		{Kind: Create, Size: 100, Location: 4, NUMANode: -1},
		{Kind: Adopt, Size: 3, State: 3, NUMANode: 1, Bytes: []byte{9, 8, 7}},
		{Kind: Clone, Other: 77, OtherVersion: 5},
		{Kind: Destroy},
		{Kind: Resize, Size: 1 << 40},
		{Kind: Migrate, Location: 1, Device: 2, NUMANode: -1},
		{Kind: Write, Offset: 10, Bytes: []byte("written")},
		{Kind: Run, Offset: 20, Bytes: []byte("a run")},
		{Kind: Run, Offset: 1, DeltaID: 12, DeltaTime: 34, Source: []byte("who"), Intent: []byte("why so"), Bytes: []byte("x")},
		{Kind: Delta, Form: DenseBytes, MaskLength: 5, Mask: []byte{0, 1, 0, 2, 1}, Bytes: []byte("dense")},
		{Kind: Delta, Form: DenseBits, MaskLength: 11, Mask: []byte{0x11, 0x04}, Bytes: []byte("elevenbytes")},
		{Kind: Delta, Form: SparseBits, MaskLength: 75, Mask: []byte{1, 0, 0, 0, 0, 0, 0, 0x80, 3, 0xff},
			Bytes: []byte("1234567")},
		{Kind: Delta, Form: Indexed, Count: 2, Positions: Words(7, 3), Bytes: []byte("io")},
		{Kind: Delta, Form: Indexed32, Count: 3, Positions: []byte{1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0}, Bytes: []byte("abc")},
		{Kind: Delta, Form: Runs, Count: 2, Positions: Words(0, 2, 8, 1), Bytes: []byte("run"), DeltaID: 1,
			Intent: []byte("intent")},
		{Kind: Delta, Form: Runs, Bytes: []byte{}},
		{Kind: MaskClear},
		{Kind: MetadataSet, Key: []byte("key"), Value: []byte("value")},
		{Kind: MetadataRemove, Key: []byte("key")},
		{Kind: MetadataImport, Bytes: []byte{0, 0, 0, 0}},
		{Kind: DependencyAdd, Other: 4},
		{Kind: DependencyRemove, Other: 5},
	}
	for i := range all {
		all[i].Page, all[i].Version, all[i].Epoch, all[i].Time = uint64(i)+1, uint64(i)*3, uint64(i)*2, int64(i)*1000+1
	}
	return all
}
