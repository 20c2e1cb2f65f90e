// Package snapshottest makes snapshot files by hand, and lies in them: docs/snapshot-format.md. It shares nothing with what it
// tests.
package snapshottest

import (
	"encoding/binary"
	"hash/crc32"
	"slices"
)

const (
	unit     = 4096
	crcAt    = unit - 4
	chunk    = 256 << 10
	head     = 56 // of a segment
	entry    = 64
	extent   = 32
	lineage  = 328
	noneNUMA = 0xffffffff
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func checksum(parts ...[]byte) (sum uint32) {
	for _, part := range parts {
		sum = crcOn(sum, part)
	}
	return sum
}

func crcOn(sum uint32, part []byte) uint32 { return crc32.Update(sum, castagnoli, part) }

// File is a snapshot and where its parts lie.
type File struct {
	Raw      []byte
	Segments []int
	Entries  map[uint64]int // of pages, by id
	Extents  map[uint64][]int
	Table    int
	Foot     int
	Removed  int // the first removed id
	Edges    int // the first dependency
}

func (f *File) put32(at int, value uint32) { binary.LittleEndian.PutUint32(f.Raw[at:], value) }
func (f *File) put64(at int, value uint64) { binary.LittleEndian.PutUint64(f.Raw[at:], value) }
func (f *File) get32(at int) uint32        { return binary.LittleEndian.Uint32(f.Raw[at:]) }
func (f *File) get64(at int) uint64        { return binary.LittleEndian.Uint64(f.Raw[at:]) }

// stored finds the bytes of an extent.
func (f *File) stored(id uint64, number int) []byte {
	at := f.Extents[id][number]
	from := f.Segments[0] + int(f.get32(at+16))
	return f.Raw[from:][:f.get32(at+12)]
}

// part is a part of a page; nil bytes stand for zeros.
type part struct {
	kind   uint32
	offset uint64
	length uint32
	bytes  []byte
}

type page struct {
	id, size        uint64
	location, flags uint32
	keys            uint32
	parts           []part
}

// identity is what a header says.
type identity struct {
	id, base byte
	name     string
	position uint64
	pages    uint64 // of the state
	bytes    uint64
}

func build(i identity, pages []page, removed []uint64, edges [][2]uint64) *File {
	f := &File{Raw: make([]byte, unit), Entries: map[uint64]int{}, Extents: map[uint64][]int{}}
	copy(f.Raw, "MMSBSNAP")
	f.put32(8, 4)
	f.put32(12, 0x01020304)
	f.Raw[16], f.Raw[32] = i.id, i.base
	f.put64(48, 1763726400123456789)
	f.put64(56, i.position)
	f.put32(68, uint32(len(i.name)))
	copy(f.Raw[72:], i.name)
	f.Raw[lineage] = 9
	f.pages(pages)
	if len(removed) > 0 {
		f.segment(2, len(removed), 0)
		f.Removed = len(f.Raw)
		for _, id := range removed {
			f.Raw = binary.LittleEndian.AppendUint64(f.Raw, id)
		}
		f.end()
	}
	if len(edges) > 0 {
		f.segment(3, len(edges), 0)
		f.Edges = len(f.Raw)
		for _, pair := range edges {
			f.Raw = binary.LittleEndian.AppendUint64(f.Raw, pair[0])
			f.Raw = binary.LittleEndian.AppendUint64(f.Raw, pair[1])
		}
		f.end()
	}
	f.Table = len(f.Raw)
	for _, at := range f.Segments {
		f.Raw = binary.LittleEndian.AppendUint64(f.Raw, uint64(at))
	}
	f.align(unit)
	f.Foot = len(f.Raw)
	f.Raw = append(f.Raw, make([]byte, unit)...)
	copy(f.Raw[f.Foot:], "MMSBDONE")
	f.put32(f.Foot+8, 4)
	f.put32(f.Foot+12, uint32(len(f.Segments)))
	copy(f.Raw[f.Foot+16:], f.Raw[16:32])
	stored := uint64(0)
	for _, p := range pages {
		for _, part := range p.parts {
			if part.kind == 0 {
				stored += uint64(part.length)
			}
		}
	}
	for at, value := range []uint64{uint64(f.Table), uint64(len(f.Raw)), uint64(len(pages)), i.pages, i.bytes, stored,
		uint64(len(removed)), uint64(len(edges))} {
		f.put64(f.Foot+32+8*at, value)
	}
	Seal(f.Raw)
	return f
}

func (f *File) align(to int) { f.Raw = append(f.Raw, make([]byte, -len(f.Raw)&(to-1))...) }

// segment begins one.
func (f *File) segment(kind, entries, extents int) {
	at := len(f.Raw)
	f.Segments = append(f.Segments, at)
	f.Raw = append(f.Raw, make([]byte, head)...)
	copy(f.Raw[at:], "MMSBSEGM")
	copy(f.Raw[at+16:], f.Raw[16:32])
	for number, value := range []int{len(f.Segments) - 1, kind, entries, extents} {
		f.put32(at+32+4*number, uint32(value))
	}
}

// end ends the last segment, which has no data or has put its own offset of it.
func (f *File) end() {
	f.align(unit)
	at := f.Segments[len(f.Segments)-1]
	f.put64(at+8, uint64(len(f.Raw)-at))
	if f.get32(at+48) == 0 {
		f.put32(at+48, uint32(len(f.Raw)-at))
	}
}

func (f *File) pages(pages []page) {
	extents := 0
	for _, p := range pages {
		extents += len(p.parts)
	}
	f.segment(1, len(pages), extents)
	start := f.Segments[0]
	first := 0
	for _, p := range pages {
		at := len(f.Raw)
		f.Entries[p.id] = at
		f.Raw = append(f.Raw, make([]byte, entry)...)
		for number, value := range []uint64{p.id, p.size, 3 * p.id, 7 * p.id} {
			f.put64(at+8*number, value)
		}
		for number, value := range []uint32{p.location, 0, noneNUMA, p.flags, uint32(first), uint32(len(p.parts)), p.keys} {
			f.put32(at+32+4*number, value)
		}
		first += len(p.parts)
	}
	for _, p := range pages {
		for _, part := range p.parts {
			at := len(f.Raw)
			f.Extents[p.id] = append(f.Extents[p.id], at)
			f.Raw = append(f.Raw, make([]byte, extent)...)
			f.put64(at, part.offset)
			f.put32(at+8, part.length)
			f.put32(at+24, part.kind)
			if part.bytes == nil {
				f.put32(at+28, 2)
			} else {
				f.put32(at+12, part.length)
			}
		}
	}
	f.align(unit)
	f.put32(start+48, uint32(len(f.Raw)-start))
	store := func(p *page, number, to int) {
		if part := p.parts[number]; part.bytes != nil {
			f.align(to)
			f.put32(f.Extents[p.id][number]+16, uint32(len(f.Raw)-start))
			f.Raw = append(f.Raw, part.bytes...)
		}
	}
	for i := range pages {
		p := &pages[i]
		alignment := 64
		if p.size >= 4096 {
			alignment = 4096
		} else if p.size >= 256 {
			alignment = 256
		}
		for number := range p.parts {
			if p.parts[number].kind == 0 {
				store(p, number, alignment)
			}
		}
	}
	for i := range slices.Backward(pages) {
		for number := range slices.Backward(pages[i].parts) {
			if pages[i].parts[number].kind != 0 {
				store(&pages[i], number, 64)
			}
		}
	}
	f.end()
}

// Seal makes every checksum right again, so that what lies below is found by other means. It says whether it could.
func Seal(raw []byte) bool {
	if len(raw) < 2*unit || len(raw)%unit != 0 {
		return false
	}
	put := func(block []byte, at int, sum uint32) { binary.LittleEndian.PutUint32(block[at:], sum) }
	put(raw, crcAt, checksum(raw[:crcAt]))
	foot := raw[len(raw)-unit:]
	tableAt, count := binary.LittleEndian.Uint64(foot[32:]), uint64(binary.LittleEndian.Uint32(foot[12:]))
	if tableAt <= uint64(len(raw)) && 8*count <= uint64(len(raw))-tableAt {
		table := raw[tableAt:][:8*count]
		put(foot, 96, checksum(table))
		for ; len(table) > 0; table = table[8:] {
			if at := binary.LittleEndian.Uint64(table); at < tableAt && at%unit == 0 {
				sealSegment(raw[at:tableAt])
			}
		}
	}
	put(foot, crcAt, checksum(foot[:crcAt]))
	return true
}

func sealSegment(raw []byte) {
	word := func(at int) uint64 { return uint64(binary.LittleEndian.Uint32(raw[at:])) }
	tables := head + [...]uint64{1: entry, 2: 8, 3: 16, 4: 0}[min(word(36), 4)]*word(40) + extent*word(44)
	if tables > uint64(len(raw)) {
		return
	}
	for at := head + entry*word(40); word(36) == 1 && at+extent <= tables; at += extent {
		stored, from := word(int(at)+12), word(int(at)+16)
		if from+stored <= uint64(len(raw)) && word(int(at)+28) != 2 {
			binary.LittleEndian.PutUint32(raw[at+20:], checksum(raw[from:from+stored]))
		}
	}
	binary.LittleEndian.PutUint32(raw[52:], checksum(raw[:52], raw[head:tables]))
}
