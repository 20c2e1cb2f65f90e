package files

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"

	"github.com/klauspost/compress/zstd"

	"libmmsb/core/abi"
	"libmmsb/core/metadata"
)

// The snapshot file as docs/snapshot-format.md has it, written by that text alone: nothing of core/snapshot is used here.

const (
	unit        = 4096
	chunk       = 256 << 10
	segmentHead = 56
	entryBytes  = 64
	extentBytes = 32
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func crcOf(parts ...[]byte) (sum uint32) {
	for _, part := range parts {
		sum = crc32.Update(sum, castagnoli, part)
	}
	return sum
}

func put32(b []byte, at int, value uint32) { binary.LittleEndian.PutUint32(b[at:], value) }
func put64(b []byte, at int, value uint64) { binary.LittleEndian.PutUint64(b[at:], value) }
func get32(b []byte, at int) uint32        { return binary.LittleEndian.Uint32(b[at:]) }
func get64(b []byte, at int) uint64        { return binary.LittleEndian.Uint64(b[at:]) }

func roundUp[N int | uint64](n, to N) N { return (n + to - 1) / to * to }

// parts is a snapshot file in the parts that lies are told of.
type parts struct {
	header   []byte // a unit
	segments [][]byte
	table    []byte // offsets of the segments, with the zeros behind them
	footer   []byte // a unit
	tail     []byte // behind the footer: nothing in a good file
	gap      uint64 // a hole before the table, in bytes: none in a good file
}

// split takes a good file apart.
func split(raw []byte) *parts {
	footer := raw[len(raw)-unit:]
	count, tableAt := uint64(get32(footer, 12)), get64(footer, 32)
	p := &parts{header: bytes.Clone(raw[:unit]), table: bytes.Clone(raw[tableAt : len(raw)-unit]), footer: bytes.Clone(footer)}
	for number := range count {
		end := tableAt
		if number+1 < count {
			end = get64(raw[tableAt:], int(8*number+8))
		}
		p.segments = append(p.segments, bytes.Clone(raw[get64(raw[tableAt:], int(8*number)):end]))
	}
	return p
}

func (p *parts) clone() *parts {
	q := *p
	q.header, q.table, q.footer, q.tail = bytes.Clone(p.header), bytes.Clone(p.table), bytes.Clone(p.footer), bytes.Clone(p.tail)
	q.segments = make([][]byte, len(p.segments))
	for i := range p.segments {
		q.segments[i] = bytes.Clone(p.segments[i])
	}
	return &q
}

// place makes the numbers right that follow from where the segments lie.
func (p *parts) place() {
	p.table = make([]byte, roundUp(8*len(p.segments), unit))
	at := uint64(unit)
	for number, segment := range p.segments {
		put64(p.table, 8*number, at)
		at += uint64(len(segment))
	}
	put32(p.footer, 12, uint32(len(p.segments)))
	put64(p.footer, 32, at+p.gap)
	put64(p.footer, 40, at+p.gap+uint64(len(p.table))+unit)
}

// number gives the segments their numbers, lengths and the file's id.
func (p *parts) number() {
	for number, segment := range p.segments {
		put64(segment, 8, uint64(len(segment)))
		copy(segment[16:32], p.header[16:32])
		put32(segment, 32, uint32(number))
	}
	copy(p.footer[16:32], p.header[16:32])
}

// count makes the footer count what the segments have; what the chain has it leaves.
func (p *parts) count() {
	pages, stored, removed, edges, last := uint64(0), uint64(0), uint64(0), uint64(0), uint64(0)
	for _, segment := range p.segments {
		entries, extents := tables(segment)
		switch get32(segment, 36) {
		case 1:
			for at := 0; at < len(entries); at += entryBytes {
				if id := get64(entries, at); id != last {
					pages, last = pages+1, id
				}
			}
			for at := 0; at < len(extents); at += extentBytes {
				if get32(extents, at+24) == 0 {
					stored += uint64(get32(extents, at+8))
				}
			}
		case 2:
			removed += uint64(len(entries) / 8)
		case 3:
			edges += uint64(len(entries) / 16)
		}
	}
	put64(p.footer, 48, pages)
	put64(p.footer, 72, stored)
	put64(p.footer, 80, removed)
	put64(p.footer, 88, edges)
}

// tables are a segment's entries and extents, as far as there are so many.
func tables(segment []byte) (entries, extents []byte) {
	each := map[uint32]int{1: entryBytes, 2: 8, 3: 16}[get32(segment, 36)]
	n, m := int(get32(segment, 40)), int(get32(segment, 44))
	if each == 0 || n > len(segment)/each || m > len(segment)/extentBytes ||
		segmentHead+n*each+m*extentBytes > len(segment) {
		return nil, nil
	}
	return segment[segmentHead:][:n*each], segment[segmentHead+n*each:][:m*extentBytes]
}

// seal mends the checksums: those of tables, header and footer, and of stored bytes where data is true.
func (p *parts) seal(data bool) {
	for _, segment := range p.segments {
		entries, extents := tables(segment)
		for at := 0; data && at < len(extents); at += extentBytes {
			from, stored := uint64(get32(extents, at+16)), uint64(get32(extents, at+12))
			if stored > 0 && from+stored <= uint64(len(segment)) {
				put32(extents, at+20, crcOf(segment[from:from+stored]))
			}
		}
		put32(segment, 52, crcOf(segment[:52], entries, extents))
	}
	if used := 8 * uint64(get32(p.footer, 12)); used <= uint64(len(p.table)) {
		put32(p.footer, 96, crcOf(p.table[:used]))
	}
	put32(p.header, unit-4, crcOf(p.header[:unit-4]))
	put32(p.footer, unit-4, crcOf(p.footer[:unit-4]))
}

// join is the file; a hole in it is left to who writes it.
func (p *parts) join() (front, back []byte) {
	front = bytes.Clone(p.header)
	for _, segment := range p.segments {
		front = append(front, segment...)
	}
	back = append(append(bytes.Clone(p.table), p.footer...), p.tail...)
	if p.gap == 0 {
		return append(front, back...), nil
	}
	return front, back
}

// ------------------------------------------------------------------------------------------------- random good chains ----

// written is a page of a state, and what the next file has of it.
type written struct {
	size, epoch, version uint64
	location             int32
	content, mask, blob  []byte
	keys                 int
	flags                uint32
	touched, whole       bool
	changed              map[int]bool // granules
}

// author writes a random chain of good files.
type author struct {
	random *rand.Rand
	pages  map[uint64]*written
	edges  [][2]uint64
	files  int
	line   []byte // lineage
	base   []byte // id of the file before
}

var pageSizes = []uint64{1, 7, 8, 63, 64, 65, 255, 256, 300, 1000, 4095, 4096, 4097, 5000, 9000}

// largeSizes are those of pages that a lazy load leaves in the file; their bytes are mostly zeros.
var largeSizes = []uint64{65537, 70000, chunk - 1, chunk, chunk + 1, chunk + 5000}

func (a *author) bytes(length int) []byte {
	made := make([]byte, length)
	switch a.random.IntN(3) {
	case 0:
		for i := range made {
			made[i] = byte(a.random.Uint32())
		}
	case 1:
		for i := range made {
			made[i] = byte(i >> 4)
		}
	}
	return made
}

func (a *author) page() *written {
	p := &written{size: pageSizes[a.random.IntN(len(pageSizes))], touched: true, whole: true, version: 1 + a.random.Uint64N(9),
		epoch: a.random.Uint64N(5)}
	if a.random.IntN(6) == 0 {
		p.size = largeSizes[a.random.IntN(len(largeSizes))]
		p.content = make([]byte, p.size)
		copy(p.content[p.size/2:], a.bytes(200))
	} else {
		p.content = a.bytes(int(p.size))
	}
	a.besides(p)
	return p
}

func (a *author) besides(p *written) {
	p.location = []int32{abi.LocationCPU, abi.LocationCPU, abi.LocationCPU, abi.LocationDisk}[a.random.IntN(4)]
	p.flags = []uint32{0, 0, 2, 4, 6}[a.random.IntN(5)]
	p.mask = nil
	if a.random.IntN(3) == 0 {
		p.mask = a.bytes(int(p.size+7) / 8)
		if p.size%8 != 0 {
			p.mask[len(p.mask)-1] &= 1<<(p.size%8) - 1
		}
	}
	p.blob, p.keys = nil, 0
	for range a.random.IntN(3) {
		var err error
		if p.blob, err = metadata.Set(p.blob, fmt.Append(nil, "key ", p.keys), a.bytes(a.random.IntN(60))); err != nil {
			panic(err)
		}
		p.keys++
	}
}

// step changes the state, and says which pages of the file before are removed.
func (a *author) step() (removed []uint64) {
	for _, id := range slices.Sorted(maps.Keys(a.pages)) {
		p := *a.pages[id]
		p.touched, p.whole, p.changed = false, false, map[int]bool{}
		a.pages[id] = &p
		switch what := a.random.IntN(10); {
		case what < 2:
			delete(a.pages, id)
			removed = append(removed, id)
		case what < 3:
			removed = append(removed, id)
			a.pages[id] = a.page()
		case what < 7:
			p.touched, p.version = true, p.version+1
			p.content = bytes.Clone(p.content)
			for at := 0; at < len(p.content); at += unit {
				if a.random.IntN(3) == 0 {
					copy(p.content[at:min(at+unit, len(p.content))], a.bytes(unit))
					p.changed[at/unit] = true
				}
			}
			if what == 6 {
				a.besides(&p)
			}
		}
	}
	a.grow(a.random.IntN(3))
	if a.random.IntN(4) == 0 {
		removed = append(removed, 1<<40) // which no base has
	}
	return removed
}

func (a *author) grow(count int) {
	for range count {
		if id := 1 + a.random.Uint64N(12); a.pages[id] == nil {
			a.pages[id] = a.page()
		}
	}
	a.edges = a.edges[:0]
	for parent := uint64(1); parent <= 12; parent++ {
		for child := parent + 1; child <= 12; child++ { // some of pages that are not there
			if a.random.IntN(12) == 0 {
				a.edges = append(a.edges, [2]uint64{parent, child})
			}
		}
	}
}

// piece is an extent with what is stored of it.
type piece struct {
	kind, compression uint32
	offset, length    uint64
	stored            []byte
}

var encoder = sync.OnceValue(func() *zstd.Encoder {
	made, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithLowerEncoderMem(true), zstd.WithWindowSize(chunk))
	if err != nil {
		panic(err)
	}
	return made
})

func (a *author) pieceOf(kind uint32, offset int, content []byte) piece {
	p := piece{kind: kind, offset: uint64(offset), length: uint64(len(content)), stored: content}
	if bytes.Count(content, []byte{0}) == len(content) && (len(content) > 16<<10 || a.random.IntN(3) == 0) {
		p.compression, p.stored = 2, nil
	} else if a.random.IntN(3) == 0 || len(content) > 16<<10 {
		if frame := encoder().EncodeAll(content, nil); len(frame) < len(content) {
			p.compression, p.stored = 1, frame
		}
	}
	return p
}

// pieces are the extents of a page in the next file.
func (a *author) pieces(p *written) (all []piece) {
	for from := 0; from < len(p.content); {
		to := min(from/chunk*chunk+chunk, len(p.content))
		if !p.whole {
			if !p.changed[from/unit] {
				from += unit
				continue
			}
			end := from + unit
			for end < to && p.changed[end/unit] && a.random.IntN(4) > 0 {
				end += unit
			}
			to = min(to, end)
		}
		all = append(all, a.pieceOf(0, from, p.content[from:to]))
		from = to
	}
	for kind, content := range [][]byte{1: p.mask, 2: p.blob} {
		for from := 0; from < len(content); from += chunk {
			all = append(all, a.pieceOf(uint32(kind), from, content[from:min(from+chunk, len(content))]))
		}
	}
	return all
}

// alignmentOf is that of a piece of a page.
func alignmentOf(p *piece, size uint64) int {
	switch {
	case p.kind != 0 || p.compression != 0 || size < 256:
		return 64
	case size < unit:
		return 256
	}
	return unit
}

// pageEntry is an entry with the extents that a segment has of it.
type pageEntry struct {
	id     uint64
	page   *written
	pieces []piece
}

// segmentOf writes a segment of pages.
func segmentOf(entries []pageEntry) []byte {
	m := 0
	for _, e := range entries {
		m += len(e.pieces)
	}
	dataAt := roundUp(segmentHead+len(entries)*entryBytes+m*extentBytes, unit)
	low, beside := dataAt, 0
	for _, e := range entries {
		for i := range e.pieces {
			if p := &e.pieces[i]; p.kind == 0 && p.compression != 2 {
				low = roundUp(low, alignmentOf(p, e.page.size)) + len(p.stored)
			} else {
				beside += roundUp(len(p.stored), 64)
			}
		}
	}
	b := make([]byte, roundUp(roundUp(low, 64)+beside, unit))
	put32(b, 36, 1)
	put32(b, 40, uint32(len(entries)))
	put32(b, 44, uint32(m))
	put32(b, 48, uint32(dataAt))
	low, high, first, at := dataAt, len(b), 0, segmentHead+len(entries)*entryBytes
	for number, e := range entries {
		w := b[segmentHead+number*entryBytes:]
		for i, value := range []uint64{e.id, e.page.size, e.page.epoch, e.page.version} {
			put64(w, 8*i, value)
		}
		put32(w, 32, uint32(e.page.location))
		put32(w, 40, ^uint32(0))
		put32(w, 44, e.page.flags)
		if !e.page.whole {
			put32(w, 44, e.page.flags|1)
		}
		put32(w, 48, uint32(first))
		put32(w, 52, uint32(len(e.pieces)))
		put32(w, 56, uint32(e.page.keys))
		first += len(e.pieces)
		for i := range e.pieces {
			p, x := &e.pieces[i], b[at:]
			at += extentBytes
			put64(x, 0, p.offset)
			put32(x, 8, uint32(p.length))
			put32(x, 12, uint32(len(p.stored)))
			put32(x, 24, p.kind)
			put32(x, 28, p.compression)
			if p.compression == 2 {
				continue
			}
			to := roundUp(low, alignmentOf(p, e.page.size))
			if p.kind == 0 {
				low = to + len(p.stored)
			} else {
				high = (high - len(p.stored)) &^ 63
				to = high
			}
			copy(b[to:], p.stored)
			put32(x, 16, uint32(to))
		}
	}
	return b
}

func listSegment(kind uint32, words ...uint64) []byte {
	b := make([]byte, roundUp(segmentHead+8*len(words), unit))
	put32(b, 36, kind)
	put32(b, 40, uint32(len(words)))
	if kind == 3 {
		put32(b, 40, uint32(len(words)/2))
	}
	put32(b, 48, uint32(len(b)))
	for i, word := range words {
		put64(b, segmentHead+8*i, word)
	}
	return b
}

func (a *author) id() []byte {
	id := make([]byte, 16)
	for i := range id {
		id[i] = byte(1 + a.random.IntN(255))
	}
	return id
}

// file writes the next file.
func (a *author) file(baseName string, removed []uint64) *parts {
	p := &parts{header: make([]byte, unit), footer: make([]byte, unit)}
	version := uint32(4)
	if a.random.IntN(5) == 0 {
		version = 3
	}
	id := a.id()
	copy(p.header, "MMSBSNAP")
	put32(p.header, 8, version)
	put32(p.header, 12, 0x01020304)
	copy(p.header[16:], id)
	put64(p.header, 48, 1763726400e9)
	put64(p.header, 56, uint64(a.files+1))
	if a.files > 0 {
		copy(p.header[32:48], a.base)
		put32(p.header, 68, uint32(len(baseName)))
		copy(p.header[72:], baseName)
	}
	if version == 4 {
		copy(p.header[328:], a.line)
		if a.random.IntN(3) == 0 {
			copy(p.header[344:], a.id())
			put64(p.header, 360, 5)
		}
		if a.random.IntN(3) == 0 {
			put64(p.header, 368, uint64(a.files+2+a.random.IntN(9)))
		}
	}
	a.base = id
	a.files++

	total, entries := uint64(0), []pageEntry{}
	flush := func() {
		if len(entries) > 0 {
			p.segments = append(p.segments, segmentOf(entries))
			entries = nil
		}
	}
	ids := slices.Sorted(maps.Keys(a.pages))
	a.random.Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
	var others [][]byte
	if len(removed) > 0 {
		others = append(others, listSegment(2, removed...))
	}
	for from := 0; from < len(a.edges); {
		to := from + 1 + a.random.IntN(len(a.edges)-from)
		var words []uint64
		for _, edge := range a.edges[from:to] {
			words = append(words, edge[:]...)
		}
		others, from = append(others, listSegment(3, words...)), to
	}
	other := func(chance int) { // anywhere, also in the middle of a page
		if len(others) > 0 && a.random.IntN(chance) == 0 {
			p.segments, others = append(p.segments, others[0]), others[1:]
		}
	}
	for _, id := range ids {
		page := a.pages[id]
		total += page.size
		if !page.touched {
			continue
		}
		pieces := a.pieces(page)
		for {
			n := len(pieces)
			if n > 1 && a.random.IntN(4) == 0 {
				n = 1 + a.random.IntN(n-1)
			}
			entries = append(entries, pageEntry{id, page, pieces[:n]})
			if pieces = pieces[n:]; len(pieces) == 0 {
				break
			}
			flush()
			other(8)
		}
		if a.random.IntN(5) == 0 {
			flush()
			other(3)
		}
	}
	flush()
	p.segments = append(p.segments, others...)
	copy(p.footer, "MMSBDONE")
	put32(p.footer, 8, version)
	for i := range p.segments {
		copy(p.segments[i], "MMSBSEGM")
	}
	p.number()
	p.place()
	p.count()
	put64(p.footer, 56, uint64(len(ids)))
	put64(p.footer, 64, total)
	p.seal(true)
	return p
}

// chainOf is a random good chain, the newest file first.
func chainOf(random *rand.Rand) (chain []*parts) {
	a := &author{random: random, pages: make(map[uint64]*written)}
	a.line = a.id()
	a.grow(1 + random.IntN(6))
	chain = []*parts{a.file("", nil)}
	for number := 1; random.IntN(2) == 0 && number < 4; number++ {
		removed := a.step()
		chain = append([]*parts{a.file(fileName(number-1), removed)}, chain...)
	}
	return chain
}

func fileName(number int) string { return fmt.Sprint(number, ".mmsb") }
