package snapshottest

import (
	"bytes"
	"math"
)

// Names of the files of the chain.
const (
	Whole  = "whole.mmsb"
	Change = "change.mmsb"
)

// Honest is a whole snapshot and one that has it as its base, each with every kind of part. Pages 2 and 5 are in both files.
func Honest() (whole, change *File) {
	pattern := func(seed byte, length int) []byte {
		made := make([]byte, length)
		for i := range made {
			made[i] = seed + byte(i*7)
		}
		return made
	}
	all := func(seed byte, length int) part { return part{0, 0, uint32(length), pattern(seed, length)} }
	blob := func(text string) part { return part{2, 0, uint32(len(text)), []byte(text)} }
	whole = build(identity{id: 1, position: 7, pages: 5, bytes: 10 + 300 + 64 + 500 + chunk + 100}, []page{
		{id: 1, size: 10, parts: []part{all(1, 10)}},
		{id: 2, size: 300, keys: 2, parts: []part{all(2, 300), {1, 0, 38, make([]byte, 38)},
			blob("\x02\x00\x00\x00\x04\x00\x00\x00name\x01\x00\x00\x00n\x04\x00\x00\x00step\x02\x00\x00\x00st")}},
		{id: 3, size: 64, keys: 1, parts: []part{{0, 0, 64, nil},
			blob("\x01\x00\x00\x00\x05\x00\x00\x00z\xc3\xa4ro\x00\x00\x00\x00")}},
		{id: 4, size: 500, flags: 2, parts: []part{all(4, 500)}},
		{id: 5, size: chunk + 100, parts: []part{{0, 0, chunk, nil}, {0, chunk, 100, pattern(5, 100)}}},
	}, nil, [][2]uint64{{1, 2}, {2, 3}})
	bytes := uint64(300 + 64 + 500 + chunk + 100 + 20 + 30)
	change = build(identity{id: 2, base: 1, name: Whole, position: 8, pages: 6, bytes: bytes}, []page{
		{id: 2, size: 300, flags: 1, keys: 1, parts: []part{blob("\x01\x00\x00\x00\x01\x00\x00\x00k\x00\x00\x00\x00")}},
		{id: 5, size: chunk + 100, flags: 1, parts: []part{{0, 4096, 4096, pattern(6, 4096)}, {0, chunk, 100, pattern(7, 100)}}},
		{id: 6, size: 20, parts: []part{all(6, 20)}},
		{id: 7, size: 30, parts: []part{all(8, 30)}},
	}, []uint64{1, 999}, [][2]uint64{{2, 3}, {3, 5}, {5, 6}})
	return whole, change
}

// Lie is one. All checksums are made right again but for what After does.
type Lie struct {
	Name   string
	Change bool // in the file that has a base, not in the whole one
	// Content: only who reads the bytes, masks and metadata of pages can find it.
	Content bool
	Tell    func(f *File)
	After   func(f *File)
	// Mismatch: the file is not damaged, but is not what another one says.
	Mismatch bool
	// OfState: it is about a state, which a file that has this one as its base replaces.
	OfState bool
}

// Files are the two files with the lie in one of them. Who reads the file named reads the lie.
func (l *Lie) Files() (named string, whole, change []byte) {
	w, c := Honest()
	lying, named := w, Whole
	if l.Change {
		lying, named = c, Change
	}
	before := bytes.Clone(lying.Raw)
	if l.Tell != nil {
		l.Tell(lying)
	}
	Seal(lying.Raw)
	if l.After != nil {
		l.After(lying)
	}
	if bytes.Equal(before, lying.Raw) {
		panic("the lie " + l.Name + " changes nothing")
	}
	return named, w.Raw, c.Raw
}

func put32(at int, value uint32) func(f *File) { return func(f *File) { f.put32(at, value) } }
func put64(at int, value uint64) func(f *File) { return func(f *File) { f.put64(at, value) } }

func foot32(at int, value uint32) func(f *File) {
	return func(f *File) { f.put32(f.Foot+at, value) }
}

func foot64(at int, value uint64) func(f *File) {
	return func(f *File) { f.put64(f.Foot+at, value) }
}

func table64(number int, value uint64) func(f *File) {
	return func(f *File) { f.put64(f.Table+8*number, value) }
}

func segment32(number, at int, value uint32) func(f *File) {
	return func(f *File) { f.put32(f.Segments[number]+at, value) }
}

func segment64(number, at int, value uint64) func(f *File) {
	return func(f *File) { f.put64(f.Segments[number]+at, value) }
}

func entry32(id uint64, at int, value uint32) func(f *File) {
	return func(f *File) { f.put32(f.Entries[id]+at, value) }
}

func entry64(id uint64, at int, value uint64) func(f *File) {
	return func(f *File) { f.put64(f.Entries[id]+at, value) }
}

func extent32(id uint64, number, at int, value uint32) func(f *File) {
	return func(f *File) { f.put32(f.Extents[id][number]+at, value) }
}

func extent64(id uint64, number, at int, value uint64) func(f *File) {
	return func(f *File) { f.put64(f.Extents[id][number]+at, value) }
}

func both(tell ...func(f *File)) func(f *File) {
	return func(f *File) {
		for _, one := range tell {
			one(f)
		}
	}
}

// edges replaces the dependencies from the first on.
func edges(values ...uint64) func(f *File) {
	return func(f *File) {
		for i, value := range values {
			f.put64(f.Edges+8*i, value)
		}
	}
}

// store replaces stored bytes.
func store(id uint64, number, at int, value byte) func(f *File) {
	return func(f *File) { f.stored(id, number)[at] = value }
}

const (
	allOnes = math.MaxUint32
	huge    = math.MaxUint64
)

// Lies are all of them.
var Lies = []Lie{
	// The header.
	{Name: "byte order", Tell: put32(12, 0x04030201)},
	{Name: "no id", Tell: both(put32(16, 0), foot32(16, 0), segment32(0, 16, 0), segment32(1, 16, 0))},
	{Name: "base without a name", Tell: put32(32, 1)},
	{Name: "name without a base", Tell: put32(68, 4)},
	{Name: "unknown flags of the file", Tell: put32(64, 1)},
	{Name: "rest of the header", Tell: put32(1000, 1)},
	{Name: "no lineage", Tell: put32(lineage, 0)},
	{Name: "a position without a parent", Tell: put64(lineage+32, 7)},
	{Name: "its own parent", Tell: put32(lineage+16, 9)},
	{Name: "position 2^63", Tell: put64(56, 1<<63)},
	{Name: "position 2^64-1", Tell: put64(56, huge)},
	{Name: "parent's position 2^63", Tell: both(put32(lineage+16, 8), put64(lineage+32, 1<<63))},
	{Name: "its own base", Change: true, Tell: put32(32, 2)},
	{Name: "base in another folder", Change: true, Tell: put32(72, '.'|'.'<<8|'/'<<16|'a'<<24)},
	{Name: "base's name is not UTF-8", Change: true, Tell: put32(72, allOnes)},
	{Name: "base's name too long", Change: true, Tell: put32(68, 256)},
	{Name: "another base", Change: true, Mismatch: true, Tell: put32(32, 77)},
	// The footer and the segment table.
	{Name: "footer of another", Tell: foot32(16, 99)},
	{Name: "footer of another version", Tell: foot32(8, 3)},
	{Name: "file length", Tell: foot64(40, 1<<62)},
	{Name: "table offset", Tell: foot64(32, 1<<63)},
	{Name: "table offset not aligned", Tell: func(f *File) { f.put64(f.Foot+32, uint64(f.Table)+8) }},
	{Name: "table of too many", Tell: foot32(12, allOnes)},
	{Name: "table of 513", Tell: foot32(12, 513)},
	{Name: "table of fewer", Tell: foot32(12, 1)},
	{Name: "pages", Tell: foot64(48, 6)},
	{Name: "pages, very many", Tell: foot64(48, huge)},
	{Name: "pages of the state", OfState: true, Tell: foot64(56, 3)},
	{Name: "bytes of the state", Tell: foot64(64, 1<<63)},
	{Name: "bytes of the state, one more", OfState: true, Tell: func(f *File) { f.put64(f.Foot+64, f.get64(f.Foot+64)+1) }},
	{Name: "pages of a state with a base", Change: true, Tell: foot64(56, 7)},
	{Name: "stored bytes", Tell: foot64(72, 1<<40)},
	{Name: "removed", Tell: foot64(80, 1)},
	{Name: "removed, fewer", Change: true, Tell: foot64(80, 1)},
	{Name: "dependencies", Tell: foot64(88, 3)},
	{Name: "no dependencies", Tell: foot64(88, 0)},
	{Name: "rest of the footer", Tell: foot64(200, 3)},
	{Name: "behind the table", Tell: table64(2, 3)},
	{Name: "first segment elsewhere", Tell: table64(0, 2*unit)},
	{Name: "segments backwards", Tell: table64(1, unit)},
	{Name: "segment past the end", Tell: table64(1, 1<<40)},
	{Name: "segment not aligned", Tell: func(f *File) { f.put64(f.Table+8, uint64(f.Segments[1]+64)) }},
	// The segments.
	{Name: "segment's magic", Tell: segment64(0, 0, 0)},
	{Name: "segment's length", Tell: segment64(0, 8, 1<<62)},
	{Name: "segment of another", Tell: segment64(0, 16, 4)},
	{Name: "segment's number", Tell: segment32(0, 32, 1)},
	{Name: "segment's kind", Tell: segment32(0, 36, 4)},
	{Name: "segment's kind 2", Tell: segment32(0, 36, 2)},
	{Name: "segment's kind 3", Tell: segment32(0, 36, 3)},
	{Name: "no entries", Tell: segment32(0, 40, 0)},
	{Name: "too many entries", Tell: segment32(0, 40, allOnes)},
	{Name: "one entry less", Tell: segment32(0, 40, 4)},
	{Name: "too many extents", Tell: segment32(0, 44, allOnes)},
	{Name: "one extent less", Tell: segment32(0, 44, 8)},
	{Name: "data over the tables", Tell: segment32(0, 48, 0)},
	{Name: "data not aligned", Tell: segment32(0, 48, 4097)},
	{Name: "data past the end", Tell: segment32(0, 48, 1<<31)},
	{Name: "between tables and data", Tell: func(f *File) { f.Raw[f.Segments[0]+int(f.get32(f.Segments[0]+48))-1] = 1 }},
	{Name: "removes without a base", Tell: both(segment32(1, 36, 2), segment32(1, 40, 1))},
	// Dependencies.
	{Name: "dependency on 0", Tell: edges(0)},
	{Name: "dependency of 0", Tell: edges(1, 0)},
	{Name: "dependency on itself", Tell: edges(2)},
	{Name: "dependency twice", OfState: true, Tell: edges(2, 3)},
	{Name: "cycle of two", OfState: true, Tell: edges(3, 2)},
	{Name: "cycle of three", Change: true, Tell: edges(2, 3, 3, 5, 5, 2)},
	{Name: "cycle of pages that are not there", OfState: true, Tell: edges(800, 900, 900, 800)},
	{Name: "dependency on a page that is not there, twice", OfState: true, Tell: edges(800, 1, 800, 1)},
	{Name: "dependencies with extents", Tell: segment32(1, 44, 1)},
	// Removed pages.
	{Name: "page 0 removed", Change: true, Tell: func(f *File) { f.put64(f.Removed, 0) }},
	{Name: "removed twice", Change: true, Tell: func(f *File) { f.put64(f.Removed+8, 1) }},
	{Name: "removed and changed", Change: true, Tell: func(f *File) { f.put64(f.Removed+8, 2) }},
	{Name: "removed and new, twice", Change: true, Tell: both(func(f *File) { f.put64(f.Removed, 6) },
		func(f *File) { f.put64(f.Removed+8, 6) })},
	{Name: "removal that is not counted", Change: true, Tell: func(f *File) { f.put64(f.Removed+8, 4) }},
	// Entries of pages.
	{Name: "id 0", Tell: entry64(1, 0, 0)},
	{Name: "id twice", Tell: entry64(3, 0, 1)},
	{Name: "id twice, one behind the other", Tell: entry64(4, 0, 3)},
	{Name: "id twice in the newer file", Change: true, Tell: entry64(7, 0, 2)},
	{Name: "size 0", Tell: entry64(1, 8, 0)},
	{Name: "size 2^63", Tell: entry64(1, 8, 1<<63)},
	{Name: "size smaller", Tell: entry64(1, 8, 9)},
	{Name: "size larger", Tell: entry64(1, 8, 11)},
	{Name: "size much larger", Tell: entry64(1, 8, 1<<40)},
	{Name: "version 2^64-1", Tell: entry64(1, 24, huge)},
	{Name: "version one too large", Tell: entry64(1, 24, 3<<62)},
	{Name: "version in the newer file", Change: true, Tell: entry64(6, 24, huge)},
	{Name: "location", Tell: entry32(1, 32, 5)},
	{Name: "location below 0", Tell: entry32(1, 32, allOnes)},
	{Name: "device of the CPU", Tell: entry32(1, 36, 1)},
	{Name: "device of the disk", Tell: both(entry32(1, 32, 4), entry32(1, 36, 1))},
	{Name: "device below 0", Tell: both(entry32(1, 32, 1), entry32(1, 36, allOnes))},
	{Name: "device of the CPU below 0", Tell: entry32(1, 36, allOnes)},
	{Name: "NUMA node", Tell: entry32(1, 40, allOnes-1)},
	{Name: "flags", Tell: entry32(1, 44, 8)},
	{Name: "known", Tell: entry32(1, 44, 1<<31)},
	{Name: "changes without a base", Tell: entry32(1, 44, 1)},
	{Name: "changes of a page that is not there", Change: true, Tell: entry32(6, 44, 1)},
	{Name: "changes of a page of another size", Change: true, Tell: entry64(2, 8, 301)},
	{Name: "not all of a page", Change: true, Tell: entry32(5, 44, 0)},
	{Name: "first extent", Tell: entry32(1, 48, 1)},
	{Name: "number of extents", Tell: entry32(1, 52, allOnes)},
	{Name: "no extents", Tell: entry32(1, 52, 0)},
	{Name: "one extent more", Tell: entry32(1, 52, 2)},
	{Name: "metadata keys without metadata", Tell: entry32(1, 56, 1)},
	{Name: "metadata keys without room", Tell: entry32(2, 56, 4)},
	{Name: "metadata without keys", Tell: entry32(3, 56, 0)},
	{Name: "reserved", Tell: entry32(1, 60, 1)},
	// Extents.
	{Name: "extent's offset", Tell: extent64(1, 0, 0, 1)},
	{Name: "extent past the page", Tell: extent64(1, 0, 0, chunk)},
	{Name: "extent past everything", Tell: extent64(1, 0, 0, 1<<64-chunk)},
	{Name: "extent's length 0", Tell: extent32(1, 0, 8, 0)},
	{Name: "extent's length", Tell: extent32(1, 0, 8, 9)},
	{Name: "extent's length, large", Tell: extent32(1, 0, 8, allOnes)},
	{Name: "stored length", Tell: extent32(1, 0, 12, 9)},
	{Name: "stored length, large", Tell: extent32(1, 0, 12, allOnes)},
	{Name: "stored nowhere", Tell: extent32(1, 0, 16, 0xffffffc0)},
	{Name: "stored in the tables", Tell: extent32(1, 0, 16, 64)},
	{Name: "stored not aligned", Tell: extent32(1, 0, 16, unit+8)},
	{Name: "stored over another", Tell: extent32(2, 0, 16, unit)},
	{Name: "metadata stored over a mask", Tell: func(f *File) { f.put32(f.Extents[2][2]+16, f.get32(f.Extents[2][1]+16)) }},
	{Name: "kind", Tell: extent32(1, 0, 24, 3)},
	{Name: "kind is mask", Tell: extent32(1, 0, 24, 1)},
	{Name: "kind is metadata", Tell: extent32(1, 0, 24, 2)},
	{Name: "kinds out of order", Tell: both(extent32(2, 1, 24, 2), extent32(2, 2, 24, 1))},
	{Name: "half a mask", Tell: both(extent32(2, 1, 8, 37), extent32(2, 1, 12, 37))},
	{Name: "compression", Tell: extent32(1, 0, 28, 3)},
	{Name: "zstd of the same length", Tell: extent32(1, 0, 28, 1)},
	{Name: "zeros that are stored", Tell: extent32(1, 0, 28, 2)},
	{Name: "zeros with a checksum", After: func(f *File) {
		f.put32(f.Extents[3][0]+20, 1)
		at := f.Segments[0]
		tables := head + entry*int(f.get32(at+40)) + extent*int(f.get32(at+44))
		f.put32(at+52, checksum(f.Raw[at:at+52], f.Raw[at+head:at+tables]))
	}},
	{Name: "chunks backwards", Tell: both(extent64(5, 0, 0, chunk), extent64(5, 1, 0, 0))},
	{Name: "changes that overlap", Change: true, Tell: extent64(5, 1, 0, 4096)},
	{Name: "changes that are no granule", Change: true, Tell: extent64(5, 0, 0, 100)},
	// What is stored.
	{Name: "bytes of a page", Content: true, After: store(4, 0, 17, 0)},
	{Name: "bytes in a gap", Content: true, After: func(f *File) {
		f.Raw[f.Segments[0]+int(f.get32(f.Extents[1][0]+16))+10] = 1
	}},
	{Name: "no zstd frame", Content: true, Tell: both(extent32(4, 0, 28, 1), extent32(4, 0, 12, 499),
		func(f *File) { f.stored(4, 0)[0] = 9; f.Raw[f.Segments[0]+int(f.get32(f.Extents[4][0]+16))+499] = 0 })},
	{Name: "metadata count", Content: true, Tell: store(2, 2, 0, 1)},
	{Name: "metadata keys, one less", Content: true, Tell: entry32(2, 56, 1)},
	{Name: "metadata without a key", Content: true, Tell: store(2, 2, 4, 0)},
	{Name: "metadata with a long key", Content: true, Tell: store(2, 2, 6, 255)},
	{Name: "metadata key twice", Content: true, Tell: func(f *File) { copy(f.stored(2, 2)[21:], "name") }},
	{Name: "metadata key is not UTF-8", Content: true, Tell: store(3, 1, 10, 'x')},
	{Name: "metadata of the newer file", Content: true, Change: true, Tell: store(2, 0, 0, 2)},
}
