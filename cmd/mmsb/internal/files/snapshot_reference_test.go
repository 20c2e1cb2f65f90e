package files

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/klauspost/compress/zstd"

	"libmmsb/core/abi"
	"libmmsb/core/metadata"
	"libmmsb/core/status"
)

// A reader of snapshots that knows docs/snapshot-format.md and nothing else: what all others have to agree with. It has a file in
// memory, looks at one rule after the other, and is in no hurry.

// referencePage is a page of a file, and then of the state.
type referencePage struct {
	entry                []byte // 48 bytes, and the number of keys
	size                 uint64
	changes              bool
	content, mask, blob  []byte
	pieces               [3]uint64 // per kind: where the extents reach
	ranges               [][2]uint64
	kind                 uint32
	hasMask, hasMetadata bool
	baseless             bool   // it is changed, and not in the base like that
	fault                string // of its content
}

type referenceFile struct {
	id, base   string
	name       string
	pages      map[uint64]*referencePage
	removed    map[uint64]bool
	edges      [][2]uint64
	statePages uint64
	stateBytes uint64
	gap        bool // something lies between extents
}

// sight is what a reference finds in files whose tables are good: the state, and whose content is not.
type sight struct {
	state  *state
	faults map[uint64]string // of pages of the state
	hidden bool              // there are others, of pages that newer files have, or between extents
	// unclear: a page of the state has changes over a fault, which they may hide.
	unclear bool
}

// err is what who looks at all has to say.
func (s *sight) err() error {
	for id, fault := range s.faults {
		return wrong("page %d: %s", id, fault)
	}
	if s.hidden {
		return wrong("something that no page needs")
	}
	return nil
}

func wrong(format string, arguments ...any) error {
	return status.Errorf(status.Corrupt, "by the format: "+format, arguments...)
}

var decoder = sync.OnceValue(func() *zstd.Decoder {
	made, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecodeAllCapLimit(true))
	if err != nil {
		panic(err)
	}
	return made
})

func zeros(b []byte) bool { return len(bytes.TrimLeft(b, "\x00")) == 0 }

// readReference reads one file.
func readReference(raw []byte) (f *referenceFile, err error) {
	if len(raw) < 2*unit || len(raw)%unit != 0 || string(raw[:8]) != "MMSBSNAP" {
		return nil, wrong("%d bytes", len(raw))
	}
	header, footer := raw[:unit], raw[len(raw)-unit:]
	version := get32(header, 8)
	if version != 3 && version != 4 || get32(header, 12) != 0x01020304 || get32(header, unit-4) != crcOf(header[:unit-4]) ||
		get32(header, 64) != 0 || zeros(header[16:32]) {
		return nil, wrong("the header")
	}
	nameLength := get32(header, 68)
	if nameLength > 255 || !zeros(header[72+nameLength:328]) || !zeros(header[376:unit-4]) ||
		zeros(header[32:48]) != (nameLength == 0) || bytes.Equal(header[16:32], header[32:48]) {
		return nil, wrong("the name of the base")
	}
	f = &referenceFile{id: string(header[16:32]), base: string(header[32:48]), name: string(header[72 : 72+nameLength]),
		pages: map[uint64]*referencePage{}, removed: map[uint64]bool{}}
	if strings.ContainsAny(f.name, "/\x00") || f.name == "." || f.name == ".." || !utf8.ValidString(f.name) {
		return nil, wrong("the base is called %q", f.name)
	}
	line, parent := header[328:344], header[344:360]
	latest := get64(header, 368)
	if version == 3 && !zeros(header[328:376]) || version == 4 && (zeros(line) || bytes.Equal(line, parent) ||
		zeros(parent) && get64(header, 360) != 0) || max(get64(header, 56), get64(header, 360), latest) > math.MaxInt64 ||
		latest != 0 && latest <= get64(header, 56) {
		return nil, wrong("the lineage")
	}
	if string(footer[:8]) != "MMSBDONE" || get32(footer, 8) != version || string(footer[16:32]) != f.id ||
		get64(footer, 40) != uint64(len(raw)) || get32(footer, unit-4) != crcOf(footer[:unit-4]) || !zeros(footer[100:unit-4]) ||
		get64(footer, 64) > math.MaxInt64 {
		return nil, wrong("the footer")
	}
	count, tableAt := uint64(get32(footer, 12)), get64(footer, 32)
	if tableAt < unit || tableAt%unit != 0 || tableAt > uint64(len(raw)-unit) ||
		uint64(len(raw)-unit)-tableAt != roundUp(8*count, unit) {
		return nil, wrong("the segment table's place")
	}
	table := raw[tableAt : len(raw)-unit]
	if get32(footer, 96) != crcOf(table[:8*count]) || !zeros(table[8*count:]) {
		return nil, wrong("the segment table")
	}
	f.statePages, f.stateBytes = get64(footer, 56), get64(footer, 64)
	at, counted, last := uint64(unit), [4]uint64{}, uint64(0)
	for number := range count {
		end := tableAt
		if number+1 < count {
			end = get64(table, int(8*number+8))
		}
		if get64(table, int(8*number)) != at || end <= at || end-at > 4<<20 || end > tableAt || end%unit != 0 {
			return nil, wrong("segment %d lies at %d", number, at)
		}
		if err := f.segment(raw[at:end], number, &counted, &last); err != nil {
			return nil, err
		}
		at = end
	}
	if at != tableAt {
		return nil, wrong("the segments end at %d", at)
	}
	if err := f.complete(last); err != nil {
		return nil, err
	}
	for id, p := range f.pages {
		if p.changes && f.removed[id] {
			return nil, wrong("page %d is removed, and has changes", id)
		}
	}
	for i, field := range []int{48, 72, 80, 88} {
		if get64(footer, field) != counted[i] {
			return nil, wrong("the footer counts %d, not %d, at %d", get64(footer, field), counted[i], field)
		}
	}
	return f, nil
}

// segment reads one. counted are pages, bytes, removed pages and edges; last is the page that may go on.
func (f *referenceFile) segment(s []byte, number uint64, counted *[4]uint64, last *uint64) error {
	kind, n, m, dataAt := get32(s, 36), uint64(get32(s, 40)), uint64(get32(s, 44)), uint64(get32(s, 48))
	each := map[uint32]uint64{1: entryBytes, 2: 8, 3: 16}[kind]
	end := segmentHead + n*each + m*extentBytes
	if string(s[:8]) != "MMSBSEGM" || get64(s, 8) != uint64(len(s)) || string(s[16:32]) != f.id ||
		uint64(get32(s, 32)) != number ||
		each == 0 || n == 0 || kind != 1 && (m != 0 || dataAt != uint64(len(s))) || dataAt%unit != 0 || dataAt > uint64(len(s)) ||
		end > dataAt || get32(s, 52) != crcOf(s[:52], s[segmentHead:end]) || !zeros(s[end:dataAt]) {
		return wrong("segment %d", number)
	}
	entries, extents := s[segmentHead:segmentHead+n*each], s[segmentHead+n*each:end]
	switch kind {
	case 2:
		counted[2] += n
		for at := 0; at < len(entries); at += 8 {
			id := get64(entries, at)
			if id == 0 || zeros([]byte(f.base)) {
				return wrong("page %d is removed", id)
			}
			if f.removed[id] {
				return wrong("page %d is removed twice", id)
			}
			f.removed[id] = true
		}
		return nil
	case 3:
		counted[3] += n
		for at := 0; at < len(entries); at += 16 {
			parent, child := get64(entries, at), get64(entries, at+8)
			if parent == 0 || child == 0 || parent == child {
				return wrong("page %d depends on page %d", child, parent)
			}
			f.edges = append(f.edges, [2]uint64{parent, child})
		}
		return nil
	}
	used, low, high := uint64(0), dataAt, uint64(len(s))
	covered := [][2]uint64{}
	for at := 0; at < len(entries); at += entryBytes {
		e := entries[at : at+entryBytes]
		id, first, count := get64(e, 0), uint64(get32(e, 48)), uint64(get32(e, 52))
		if first != used || first+count > m {
			return wrong("page %d has extents from %d on", id, first)
		}
		p := f.pages[id]
		goesOn := at == 0 && p != nil && id == *last
		same := append(bytes.Clone(e[:48]), e[56:60]...)
		switch {
		case goesOn && (count == 0 || !bytes.Equal(same, p.entry)), !goesOn && p != nil:
			return wrong("page %d is there twice", id)
		case !goesOn:
			if err := f.complete(*last); err != nil {
				return err
			}
			*last = id
			p = &referencePage{entry: same, size: get64(e, 8), changes: get32(e, 44)&1 != 0}
			f.pages[id] = p
			counted[0]++
			location, device, node := get32(e, 32), int32(get32(e, 36)), int32(get32(e, 40))
			if id == 0 || p.size == 0 || p.size > 1<<44 || get64(e, 24) >= 3<<62 || location > abi.LocationDisk || device < 0 ||
				device > 0 && (location == abi.LocationCPU || location == abi.LocationDisk) || node < -1 ||
				get32(e, 44)&^7 != 0 || get32(e, 60) != 0 || p.changes && zeros([]byte(f.base)) {
				return wrong("the entry of page %d", id)
			}
		case get32(e, 60) != 0:
			return wrong("the entry of page %d", id)
		}
		if count == 0 && !p.changes {
			return wrong("nothing of page %d is stored", id)
		}
		for number := range count {
			x := extents[(first+number)*extentBytes:][:extentBytes]
			from, stored, err := p.extent(s, x, &low, &high)
			if err != nil {
				return wrong("page %d: %v", id, err)
			}
			covered = append(covered, [2]uint64{from, stored})
			if get32(x, 24) == 0 {
				counted[1] += uint64(get32(x, 8))
			}
		}
		used += count
	}
	if used != m {
		return wrong("%d extents belong to nobody", m-used)
	}
	slices.SortFunc(covered, func(a, b [2]uint64) int { return compareEdges(a, b) })
	at := dataAt
	for _, c := range append(covered, [2]uint64{uint64(len(s)), 0}) {
		if c[1] == 0 && c[0] == 0 {
			continue
		}
		if c[0] < at {
			return wrong("what lies before offset %d of segment %d", c[0], number)
		}
		f.gap = f.gap || !zeros(s[at:c[0]])
		at = c[0] + c[1]
	}
	return nil
}

// extent reads one: where it is stored, and in how many bytes.
func (p *referencePage) extent(s, x []byte, low, high *uint64) (from, stored uint64, err error) {
	offset, length, kind, compression := get64(x, 0), uint64(get32(x, 8)), get32(x, 24), get32(x, 28)
	stored, from = uint64(get32(x, 12)), uint64(get32(x, 16))
	if kind > 2 || kind < p.kind || compression > 2 {
		return 0, 0, fmt.Errorf("an extent of kind %d, compression %d", kind, compression)
	}
	p.kind = kind
	total := [3]uint64{p.size, p.size/8 + (p.size%8+7)/8, 1 << 32}[kind]
	step := uint64(chunk)
	if kind == 0 && p.changes {
		step = unit
	}
	if offset%step != 0 || offset >= total || offset < p.pieces[kind] || offset > p.pieces[kind] && !(kind == 0 && p.changes) {
		return 0, 0, fmt.Errorf("an extent of kind %d at %d", kind, offset)
	}
	left := min(chunk-offset%chunk, total-offset)
	if length == 0 || length > left || length < left && kind != 2 && (step == chunk || length%unit != 0) {
		return 0, 0, fmt.Errorf("an extent of %d bytes", length)
	}
	content := make([]byte, length)
	switch {
	case compression == 2:
		if stored != 0 || from != 0 || get32(x, 20) != 0 {
			return 0, 0, fmt.Errorf("zeros are stored")
		}
	case compression == 0 && stored != length, compression == 1 && (stored == 0 || stored >= length),
		from+stored > uint64(len(s)):
		return 0, 0, fmt.Errorf("%d bytes are stored in %d", length, stored)
	default:
		a := alignmentOf(&piece{kind: kind, compression: compression}, p.size)
		if from%uint64(a) != 0 || from < *low || from+stored > *high {
			return 0, 0, fmt.Errorf("stored at %d", from)
		}
		if kind == 0 {
			*low = from + stored
		} else {
			*high = from
		}
		raw := s[from : from+stored]
		if crcOf(raw) != get32(x, 20) {
			p.fault = "the checksum of an extent"
		} else if compression == 0 {
			copy(content, raw)
		} else if got, err := decoder().DecodeAll(raw, content[:0:length]); err != nil || uint64(len(got)) != length {
			p.fault, content = "a frame", make([]byte, length)
		}
	}
	p.pieces[kind] = offset + length
	switch kind {
	case 0:
		p.ranges = append(p.ranges, [2]uint64{offset, length})
		p.content = append(p.content, content...)
	case 1:
		p.hasMask, p.mask = true, append(p.mask, content...)
	default:
		p.hasMetadata, p.blob = true, append(p.blob, content...)
	}
	return from, stored, nil
}

// complete says whether a page, of which nothing more comes, is whole.
func (f *referenceFile) complete(id uint64) error {
	p := f.pages[id]
	if p == nil {
		return nil
	}
	keys := get32(p.entry, 48)
	if count, err := metadata.Validate(p.blob); err != nil || uint32(count) != keys {
		p.fault = "metadata"
	}
	if p.hasMetadata != (keys > 0) || keys > 0 && uint64(len(p.blob)) < 4+9*uint64(keys) ||
		!p.changes && uint64(len(p.content)) != p.size || p.hasMask && uint64(len(p.mask)) != (p.size+7)/8 {
		return wrong("page %d is not whole", id)
	}
	return nil
}

// reference reads a chain of files.
func reference(f *files, name string) (*sight, error) {
	var chain []*referenceFile
	for {
		read, err := f.referenceOf(name, chain)
		if err != nil {
			return nil, err
		}
		for _, before := range chain {
			if before.id == read.id {
				return nil, wrong("the chain has %x twice", read.id)
			}
		}
		chain = append(chain, read)
		if zeros([]byte(read.base)) {
			break
		}
		name = read.name
	}
	found, err := over(chain)
	if err != nil {
		return nil, err
	}
	total := uint64(0)
	for _, p := range found.state.pages {
		total += p.size
	}
	if uint64(len(found.state.pages)) != chain[0].statePages || total != chain[0].stateBytes {
		return nil, wrong("the state has %d pages of %d bytes", len(found.state.pages), total)
	}
	return found, nil
}

// referenceOf is the file with a name, or, where that is not the base that is needed, the kept one.
func (f *files) referenceOf(name string, chain []*referenceFile) (*referenceFile, error) {
	if len(chain) == 0 {
		return readReference(f.content[name])
	}
	wanted := chain[len(chain)-1].base
	var first error
	for _, one := range []string{name, fmt.Sprintf("mmsb-%x.base", wanted)} {
		read, err := readReference(f.content[one])
		if err == nil && read.id != wanted {
			err = wrong("%s is another snapshot", one)
		}
		if err == nil {
			return read, nil
		}
		if _, there := f.content[one]; first == nil || there {
			first = err
		}
	}
	return nil, first
}

// checkGraph looks for edges that come twice, and takes away what no edge leads to until nothing, or cycles, are left.
func checkGraph(edges [][2]uint64) error {
	children, waits := map[uint64][]uint64{}, map[uint64]int{}
	for i, edge := range edges {
		if slices.Contains(edges[:i], edge) {
			return wrong("page %d depends on page %d twice", edge[1], edge[0])
		}
		children[edge[0]] = append(children[edge[0]], edge[1])
		waits[edge[1]]++
		waits[edge[0]] += 0
	}
	for len(waits) > 0 {
		free := 0
		for id, count := range waits {
			if count == 0 {
				free++
				delete(waits, id)
				for _, child := range children[id] {
					waits[child]--
				}
			}
		}
		if free == 0 {
			return wrong("the dependencies make a cycle")
		}
	}
	return nil
}

// over puts the files of a chain together, newest first.
func over(chain []*referenceFile) (*sight, error) {
	newest, pages := chain[0], map[uint64]*referencePage{}
	seen := &sight{state: &state{pages: map[uint64]pageState{}}, faults: map[uint64]string{}}
	for _, f := range slices.Backward(chain) {
		seen.hidden = seen.hidden || f.gap
		for _, p := range f.pages {
			seen.hidden = seen.hidden || p.fault != ""
		}
		below := pages
		pages = map[uint64]*referencePage{}
		for id, p := range below {
			if !f.removed[id] {
				pages[id] = p
			}
		}
		for id, p := range f.pages {
			if !p.changes {
				pages[id] = p
				continue
			}
			under := pages[id]
			if under == nil || under.size != p.size || under.baseless {
				pages[id] = &referencePage{baseless: true}
				continue
			}
			whole := bytes.Clone(under.content)
			at := uint64(0)
			for _, r := range p.ranges {
				copy(whole[r[0]:], p.content[at:at+r[1]])
				at += r[1]
			}
			q := *p
			q.content = whole
			seen.unclear = seen.unclear || under.fault != ""
			pages[id] = &q
		}
	}
	if err := checkGraph(newest.edges); err != nil {
		return nil, err
	}
	found := seen.state
	for id, p := range pages {
		if p.baseless {
			return nil, wrong("page %d is changed, and not in the base", id)
		}
		if p.fault != "" {
			seen.faults[id] = p.fault
		}
		found.pages[id] = pageState{size: p.size, epoch: get64(p.entry, 16), version: get64(p.entry, 24),
			location: int32(get32(p.entry, 32)), bytes: hashOf(p.content), mask: hashOfMask(p.mask),
			attributes: hashOfMetadata(p.blob)}
	}
	for _, edge := range newest.edges {
		_, parent := pages[edge[0]]
		_, child := pages[edge[1]]
		if parent && child {
			found.edges = append(found.edges, edge)
		}
	}
	slices.SortFunc(found.edges, compareEdges)
	return seen, nil
}
