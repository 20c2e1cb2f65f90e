package files

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"libmmsb/cmd/mmsb/internal/command"
	"libmmsb/core/file"
	"libmmsb/core/page"
	"libmmsb/core/persist"
	"libmmsb/core/snapshot"
	"libmmsb/core/status"
	"libmmsb/native/nativetest"
)

// Fields of a snapshot file, for lies.
var (
	headerSpots = []spot{
		{"magic", 0, 8}, {"version", 8, 4}, {"byte order", 12, 4}, {"id", 16, 16}, {"base's id", 32, 16}, {"time", 48, 8},
		{"position", 56, 8}, {"flags", 64, 4}, {"length of the name", 68, 4}, {"name", 72, 20}, {"end of the name", 92, 235},
		{"lineage", 328, 16}, {"parent", 344, 16}, {"parent's position", 360, 8}, {"latest step", 368, 8},
		{"rest", 376, 100}, {"crc", 4092, 4},
	}
	footerSpots = []spot{
		{"magic", 0, 8}, {"version", 8, 4}, {"segments", 12, 4}, {"id", 16, 16}, {"table's offset", 32, 8},
		{"file's length", 40, 8}, {"pages", 48, 8}, {"pages of the state", 56, 8}, {"bytes of the state", 64, 8},
		{"bytes stored", 72, 8}, {"removed", 80, 8}, {"edges", 88, 8}, {"crc of the table", 96, 4}, {"rest", 100, 100},
	}
	segmentSpots = []spot{
		{"magic", 0, 8}, {"length", 8, 8}, {"id", 16, 16}, {"number", 32, 4}, {"kind", 36, 4}, {"entries", 40, 4},
		{"extents", 44, 4}, {"data", 48, 4}, {"crc", 52, 4},
	}
	entrySpots = []spot{
		{"id", 0, 8}, {"size", 8, 8}, {"epoch", 16, 8}, {"version", 24, 8}, {"location", 32, 4}, {"device", 36, 4},
		{"node", 40, 4}, {"flags", 44, 4}, {"first extent", 48, 4}, {"extents", 52, 4}, {"keys", 56, 4}, {"reserved", 60, 4},
	}
	extentSpots = []spot{
		{"offset", 0, 8}, {"length", 8, 4}, {"stored length", 12, 4}, {"place", 16, 4}, {"crc", 20, 4}, {"kind", 24, 4},
		{"compression", 28, 4},
	}
)

// forgery is a chain in which lies are told.
type forgery struct {
	*trial
	chain []*parts // newest first
	names []string
	donor []*parts // another chain
	links []link
	extra map[string][]byte
	at    int  // the file in which lies are told
	sums  bool // those of stored bytes are mended
	cut   int  // bytes that the file ends early
}

func (f *forgery) file() *parts { return f.chain[f.at] }

// segment is one of a kind, nil where there is none; kind 0 is any.
func (f *forgery) segment(kind uint32) []byte {
	var found [][]byte
	for _, one := range f.file().segments {
		if kind == 0 || get32(one, 36) == kind {
			found = append(found, one)
		}
	}
	if len(found) == 0 {
		return nil
	}
	return found[f.random.IntN(len(found))]
}

// oneOf gives one of the pieces of a list, and where it begins.
func (f *forgery) oneOf(list []byte, each int) ([]byte, int) {
	if len(list) < each {
		return nil, 0
	}
	number := f.random.IntN(len(list) / each)
	return list[number*each:][:each], number
}

// field lies in one of the fields of a part.
func (f *forgery) field(b []byte, spots []spot) string {
	if f.random.IntN(6) == 0 {
		return swapNeighbours(b, spots, f.random.IntN(len(spots)))
	}
	return lieAt(f.random, b, spots[f.random.IntN(len(spots))])
}

// A lie says what it did; nothing where it does not fit the files.
var snapshotLies = []struct {
	kind   string
	weight int
	tell   func(f *forgery) string
}{
	{"header", 10, func(f *forgery) string { return f.field(f.file().header, headerSpots) }},
	{"footer", 10, func(f *forgery) string { return f.field(f.file().footer, footerSpots) }},
	{"segment", 10, func(f *forgery) string {
		return f.inSegment(0, func(s []byte) string { return f.field(s, segmentSpots) })
	}},
	{"entry", 24, func(f *forgery) string {
		return f.inSegment(1, func(s []byte) string {
			entries, _ := tables(s)
			one, number := f.oneOf(entries, entryBytes)
			if one == nil {
				return ""
			}
			return fmt.Sprintf("entry %d, %s", number, f.field(one, entrySpots))
		})
	}},
	{"extent", 24, func(f *forgery) string {
		return f.inSegment(1, func(s []byte) string {
			_, extents := tables(s)
			one, number := f.oneOf(extents, extentBytes)
			if one == nil {
				return ""
			}
			return fmt.Sprintf("extent %d, %s", number, f.field(one, extentSpots))
		})
	}},
	{"list", 14, func(f *forgery) string { return f.inSegment(2+uint32(f.random.IntN(2)), f.inList) }},
	{"segment table", 6, func(f *forgery) string {
		if len(f.file().table) == 0 {
			return ""
		}
		number := f.random.IntN(len(f.file().table) / 8)
		if count := len(f.file().segments); count > 0 && f.random.IntN(4) > 0 {
			number = f.random.IntN(count)
		}
		return lieAt(f.random, f.file().table, spot{fmt.Sprint("offset ", number), 8 * number, 8})
	}},
	{"rows", 14, func(f *forgery) string { return f.inSegment(0, f.rows) }},
	{"sections", 14, (*forgery).sections},
	{"spliced", 6, (*forgery).splice},
	{"gap", 6, func(f *forgery) string {
		return f.inSegment(0, func(s []byte) string {
			entries, extents := tables(s)
			from := segmentHead + len(entries) + len(extents)
			at := from + f.random.IntN(max(1, len(s)-from))
			if at >= len(s) {
				return ""
			}
			s[at] ^= 1 << f.random.IntN(8)
			return fmt.Sprintf("byte %d of a segment", at)
		})
	}},
	{"content", 12, (*forgery).content},
	{"length", 8, (*forgery).length},
	{"hole", 2, func(f *forgery) string {
		f.file().gap = uint64(unit) << f.random.IntN(24)
		f.file().place()
		return fmt.Sprintf("of %d bytes before the table", f.file().gap)
	}},
	{"bases", 14, (*forgery).bases},
	{"names", 6, (*forgery).name},
	{"edges", 6, (*forgery).edges},
}

func (f *forgery) inSegment(kind uint32, tell func(s []byte) string) string {
	s := f.segment(kind)
	if s == nil {
		return ""
	}
	return tell(s)
}

func (f *forgery) inList(s []byte) string {
	words, _ := tables(s)
	_, number := f.oneOf(words, 8)
	if len(words) < 8 {
		return ""
	}
	if f.random.IntN(3) == 0 { // one that is there
		from := f.random.IntN(len(words) / 8)
		copy(words[8*number:][:8], words[8*from:][:8])
		return fmt.Sprintf("word %d is word %d", number, from)
	}
	return lieAt(f.random, words, spot{fmt.Sprint("word ", number), 8 * number, 8})
}

// rows exchanges, doubles and drops entries or extents.
func (f *forgery) rows(s []byte) string {
	entries, extents := tables(s)
	list, each, counter := entries, map[uint32]int{1: entryBytes, 2: 8, 3: 16}[get32(s, 36)], 40
	if get32(s, 36) == 1 && f.random.IntN(2) == 0 {
		list, each, counter = extents, extentBytes, 44
	}
	if each == 0 || len(list) < each {
		return ""
	}
	a, i := f.oneOf(list, each)
	b, k := f.oneOf(list, each)
	switch f.random.IntN(4) {
	case 0:
		for at := range a {
			a[at], b[at] = b[at], a[at]
		}
		return fmt.Sprintf("%d and %d are swapped", i, k)
	case 1:
		copy(a, b)
		return fmt.Sprintf("%d is a copy of %d", i, k)
	case 2: // one more, in the zeros behind the tables
		used := segmentHead + len(entries) + len(extents)
		if used+each > int(get32(s, 48)) {
			return ""
		}
		row := bytes.Clone(a)
		end := segmentHead + len(entries)
		if counter == 44 {
			end += len(extents)
		}
		copy(s[end+each:used+each], s[end:used])
		copy(s[end:], row)
		put32(s, counter, get32(s, counter)+1)
		return fmt.Sprintf("%d comes again", i)
	default:
		end := segmentHead + len(entries) + len(extents)
		from := segmentHead
		if counter == 44 {
			from += len(entries)
		}
		copy(s[from+i*each:end], s[from+(i+1)*each:end])
		clear(s[end-each : end])
		put32(s, counter, get32(s, counter)-1)
		return fmt.Sprintf("%d is missing", i)
	}
}

func (f *forgery) sections() string {
	p := f.file()
	if len(p.segments) == 0 {
		return ""
	}
	a, b := f.random.IntN(len(p.segments)), f.random.IntN(len(p.segments))
	what := ""
	switch f.random.IntN(5) {
	case 0:
		p.segments[a], p.segments[b] = p.segments[b], p.segments[a]
		what = fmt.Sprintf("segments %d and %d are swapped", a, b)
	case 1:
		p.segments = slices.Insert(p.segments, a, bytes.Clone(p.segments[b]))
		what = fmt.Sprintf("segment %d comes again as %d", b, a)
	case 2:
		p.segments = slices.Delete(p.segments, a, a+1)
		what = fmt.Sprintf("segment %d is missing", a)
	case 3:
		p.segments[a] = append(p.segments[a], make([]byte, unit)...)
		what = fmt.Sprintf("segment %d is a unit longer", a)
	case 4:
		if len(p.segments[a]) > unit {
			p.segments[a] = p.segments[a][:len(p.segments[a])-unit]
		}
		what = fmt.Sprintf("segment %d is a unit shorter", a)
	}
	f.fit()
	return what
}

// fit makes right what follows from lies in sections, in part.
func (f *forgery) fit() {
	p := f.file()
	if f.random.IntN(8) > 0 {
		p.place()
	}
	if f.random.IntN(4) > 0 {
		p.number()
	}
	if f.random.IntN(3) > 0 {
		p.count()
	}
}

func (f *forgery) splice() string {
	from := f.donor[f.random.IntN(len(f.donor))]
	if len(from.segments) == 0 {
		return ""
	}
	p := f.file()
	one := bytes.Clone(from.segments[f.random.IntN(len(from.segments))])
	at := f.random.IntN(len(p.segments) + 1)
	if at < len(p.segments) && f.random.IntN(2) == 0 {
		p.segments[at] = one
	} else {
		p.segments = slices.Insert(p.segments, at, one)
	}
	f.fit()
	return fmt.Sprintf("a segment of another snapshot is %d", at)
}

// content lies in what is stored of a page.
func (f *forgery) content() string {
	s := f.segment(1)
	if s == nil {
		return ""
	}
	_, extents := tables(s)
	one, number := f.oneOf(extents, extentBytes)
	if one == nil {
		return ""
	}
	from, stored := int(get32(one, 16)), int(get32(one, 12))
	if stored == 0 || from+stored > len(s) {
		return ""
	}
	f.sums = f.random.IntN(3) > 0
	if f.random.IntN(3) == 0 && stored >= 4 && get32(one, 24) == 2 { // what a number of metadata says
		return fmt.Sprintf("extent %d, %s", number, lieAt(f.random, s, spot{"number", from, 4}))
	}
	at := from + f.random.IntN(stored)
	s[at] ^= byte(1 + f.random.IntN(255))
	return fmt.Sprintf("extent %d of kind %d, compression %d: byte %d", number, get32(one, 24), get32(one, 28), at-from)
}

func (f *forgery) length() string {
	p := f.file()
	switch f.random.IntN(4) {
	case 0:
		p.tail = make([]byte, 1+f.random.IntN(2*unit))
		return fmt.Sprintf("%d zeros behind the file", len(p.tail))
	case 1:
		p.tail = append(bytes.Clone(p.table), p.footer...)
		return "the end comes twice"
	case 2:
		f.cut = 1 + f.random.IntN(3*unit)
	default:
		f.cut = unit * (1 + f.random.IntN(3))
	}
	return fmt.Sprintf("%d bytes are missing at the end", f.cut)
}

func (f *forgery) bases() string {
	p, other := f.file(), f.random.IntN(len(f.chain))
	switch f.random.IntN(7) {
	case 0: // a base that it did not have, itself included: a loop
		copy(p.header[32:48], f.chain[other].header[16:32])
		clear(p.header[68:328])
		put32(p.header, 68, uint32(len(f.names[other])))
		copy(p.header[72:], f.names[other])
		return "it is based on " + f.names[other]
	case 1:
		clear(p.header[32:48])
		clear(p.header[68:328])
		return "it has no base"
	case 2:
		copy(p.header[16:32], f.chain[other].header[16:32])
		p.number()
		return "it has the id of " + f.names[other]
	case 3: // kept under the other name
		f.names[f.at] = fmt.Sprintf("mmsb-%x.base", p.header[16:32])
		return "it has the name of a kept base"
	case 4:
		i := f.random.IntN(len(f.chain))
		f.chain[f.at], f.chain[i] = f.chain[i], f.chain[f.at]
		return "it has the name of " + f.names[i]
	case 5: // the base of another chain
		f.chain[f.at] = f.donor[f.random.IntN(len(f.donor))].clone()
		return "another snapshot has its name"
	default:
		name := []string{"..", ".", "a/b", "\x00", "x\n\x1b[2J", "\xff\xfe", "0.mmsb/"}[f.random.IntN(7)]
		clear(p.header[68:328])
		put32(p.header, 68, uint32(len(name)))
		copy(p.header[72:], name)
		return fmt.Sprintf("its base is %q", name)
	}
}

func (f *forgery) name() string {
	name := f.names[f.at]
	switch f.random.IntN(4) {
	case 0:
		f.links = append(f.links, link{name, "moved", false})
		f.extra["moved"], _ = f.file().join()
		return name + " is a symbolic link to itself elsewhere"
	case 1:
		f.links = append(f.links, link{name, name, false})
		return name + " is a symbolic link to itself"
	case 2:
		to := f.names[f.random.IntN(len(f.names))]
		if to == name {
			return ""
		}
		f.links = append(f.links, link{name, to, true})
		return name + " is " + to + ", too"
	default:
		f.links = append(f.links, link{name, "missing", false})
		return name + " is a symbolic link to nothing"
	}
}

// edges adds a segment of edges: twice the same, a cycle, pages that are not there.
func (f *forgery) edges() string {
	p, words := f.file(), []uint64{}
	pick := func() uint64 { return 1 + f.random.Uint64N(12) }
	a, b, c := pick(), pick(), pick()
	switch f.random.IntN(4) {
	case 0:
		words = []uint64{a, b, a, b}
	case 1:
		words = []uint64{a, b, b, c, c, a}
	case 2:
		words = []uint64{1 << 50, a, b, 1 << 51, a, 1 << 50}
	case 3:
		words = []uint64{a, b, b, a}
	}
	s := listSegment(3, words...)
	copy(s, "MMSBSEGM")
	p.segments = append(p.segments, s)
	p.place()
	p.number()
	p.count()
	return fmt.Sprint(words)
}

func (f *forgery) lie() {
	total := 0
	for _, one := range snapshotLies {
		total += one.weight
	}
	for count := []int{1, 1, 1, 2, 3}[f.random.IntN(5)]; count > 0; {
		at := f.random.IntN(total)
		for i := range snapshotLies {
			if at -= snapshotLies[i].weight; at < 0 {
				f.at = 0
				if f.random.IntN(3) == 0 {
					f.at = f.random.IntN(len(f.chain))
				}
				if what := snapshotLies[i].tell(f); what != "" {
					f.tell(snapshotLies[i].kind, fmt.Sprintf("%s, %s", f.names[f.at], what))
					count--
				}
				break
			}
		}
	}
}

// make seals the lying files, and puts them together.
func (f *forgery) make() (made files) {
	for i, p := range f.chain {
		if f.random.IntN(10) > 0 { // else the lie is one that a checksum finds
			p.seal(f.sums)
		}
		front, back := p.join()
		if i == f.at {
			front = front[:len(front)-min(f.cut, len(front))]
		}
		made.put(f.names[i], front)
		if back != nil {
			made.holes[f.names[i]] = hole{p.gap, back}
		}
	}
	for name, content := range f.extra {
		made.put(name, content)
	}
	made.links = f.links
	return made
}

// ------------------------------------------------------------------------------------------------------------ readers ----

// snapshots lies in chains of snapshots.
type snapshots struct {
	t       *testing.T
	context uint64 // loads go into it one after the other
	has     *state // what it has
	memory  []byte // where files are loaded from
	memfd   int
	pool    map[uint64][]*parts
}

const (
	mostInMemory  = 4 << 20
	mostInContext = 32 << 20 // what a page says that it has, loads and comparisons have in memory, too
	linesAFile    = 100      // lies that are told of one good chain
)

func newSnapshots(t *testing.T) *snapshots {
	s := &snapshots{t: t, context: newContext(t), has: &state{pages: map[uint64]pageState{}}, pool: map[uint64][]*parts{}}
	var err error
	s.memory, err = unix.Mmap(-1, 0, mostInMemory, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	require.NoError(t, err)
	s.memfd, err = unix.MemfdCreate("snapshot", 0)
	require.NoError(t, err)
	t.Cleanup(func() { _ = unix.Munmap(s.memory); _ = unix.Close(s.memfd) })
	return s
}

func newContext(t *testing.T) uint64 {
	context, err := page.NewContext(page.Options{SimulatedDevices: 1, MemoryLimit: mostInContext})
	require.NoError(t, err)
	t.Cleanup(func() { _ = page.Destroy(context) })
	return context
}

// chain is the good chain with a number: every third is what the library saves, the others are by the grammar alone.
func (s *snapshots) chain(number uint64) []*parts {
	if made := s.pool[number]; made != nil {
		return made
	}
	if len(s.pool) > 8 {
		clear(s.pool)
	}
	random := rand.New(rand.NewPCG(number, 7))
	made := chainOf(random)
	if number%3 == 0 {
		made = savedChain(s.t, random)
	}
	s.pool[number] = made
	return made
}

func (s *snapshots) try(x *trial, number uint64) (problems []string) {
	good := s.chain(number / linesAFile)
	f := &forgery{trial: x, sums: true, donor: s.chain(number/linesAFile + 1), extra: map[string][]byte{}}
	for i, p := range good {
		f.chain = append(f.chain, p.clone())
		f.names = append(f.names, fileName(len(good)-1-i))
	}
	if number%linesAFile != 0 { // the first one is as it was
		f.lie()
	} else {
		x.tell("none", "")
	}
	made := f.make()
	onDisk, err := made.write(x.folder)
	require.NoError(s.t, err)
	path := filepath.Join(x.folder, fileName(len(good)-1))
	problems = s.read(x, &made, path, onDisk, number)
	if number%linesAFile == 0 && x.fate != "accepted" {
		problems = append(problems, "a good file is "+x.fate)
	}
	return problems
}

// read gives a file to the readers: verification, reading of each page and a load always, of the others some.
func (s *snapshots) read(x *trial, made *files, path string, onDisk, number uint64) (problems []string) {
	if len(made.holes)+len(made.links) > 0 {
		return s.readAs(x, nil, nil, path, onDisk, number)
	}
	by, err := reference(made, filepath.Base(path))
	return s.readAs(x, by, err, path, onDisk, number)
}

// readAs compares with a reference, where there is one: a sight or an error.
func (s *snapshots) readAs(x *trial, by *sight, err error, path string, onDisk, number uint64) []string {
	r := readings{onDisk: onDisk}
	if by != nil && err == nil {
		err = by.err()
	}
	if by != nil || err != nil {
		r.answers = append(r.answers, answer{way: "the reference", err: err, versions: true})
	}
	if by != nil && err == nil {
		r.answers[0].state = by.state
	}
	run := r.run
	large := false
	run("verification", func() answer {
		info, err := snapshot.Verify(path, snapshot.VerifyOptions{})
		large = info.StateBytes > most
		return answer{err: err}
	})
	pages := run("reading", func() answer {
		a := s.pages(path, large)
		a.view = seesContent
		return a
	})
	run("load", func() answer { return s.load(persist.FromPath(path), persist.LoadOptions{}, large, number%16 == 0) })
	if s.context == 0 {
		return append(r.problems, "the context is gone")
	}
	switch number % 8 {
	case 0, 4:
		run("lazy load", func() answer {
			a := s.load(persist.FromPath(path), persist.LoadOptions{Lazy: true}, large, false)
			a.view = seesContent
			return a
		})
	case 1:
		run("load in place", func() answer {
			return s.load(persist.FromPath(path), persist.LoadOptions{InPlace: true}, large, false)
		})
	case 2, 6:
		s.compactions(path, large, run)
	case 3:
		s.fromMemory(x, path, large, run)
	case 5:
		var ids []uint64
		if pages.state != nil {
			ids = slices.Sorted(maps.Keys(pages.state.pages))
		} else {
			ids = []uint64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}
		}
		ids = slices.DeleteFunc(ids, func(uint64) bool { return x.random.IntN(2) == 0 })
		for _, lazy := range []bool{false, true} {
			if len(ids) > 0 {
				run(fmt.Sprintf("load of chosen pages, lazy %v", lazy), func() answer {
					a := s.load(persist.FromPath(path), persist.LoadOptions{IDs: ids, Lazy: lazy}, large, false)
					a.chosen, a.view = ids, seesContent
					return a
				})
			}
		}
	case 7:
		s.others(path, large, run)
	}
	return s.judge(x, &r, by)
}

// judge says what was wrong with readings.
func (s *snapshots) judge(x *trial, r *readings, by *sight) []string {
	found, fate := compare(r.answers, by)
	x.fate = fate
	if s.has == nil {
		r.problems = append(r.problems, "a refused load has changed the context")
		s.has, _ = stateOfContext(s.context)
	}
	return append(r.problems, found...)
}

func (s *snapshots) pages(path string, large bool) (a answer) {
	opened, err := snapshot.Open(path, snapshot.OpenOptions{})
	if err != nil {
		return answer{err: err}
	}
	defer func() { _ = opened.Close() }()
	if !large && opened.Totals().StateBytes <= most {
		a.state, a.err = stateOfFile(opened)
		a.versions = true
		return a
	}
	for _, err := range opened.Pages() {
		if err != nil {
			return answer{err: err}
		}
	}
	return a
}

// load loads into the context, or a fresh one, and reads what that has.
func (s *snapshots) load(from persist.LoadSource, o persist.LoadOptions, large, fresh bool) (a answer) {
	context := s.context
	if fresh {
		context = newContext(s.t)
		defer func() { _ = page.Destroy(context) }()
	}
	if a.err = persist.Load(context, from, o, nil); a.err == nil && !large {
		a.state, a.err = stateOfContext(context)
		if a.err != nil { // of a page that was read late: a lazy load has no other way to say so
			a.state = nil
		}
		a.versions = fresh
	}
	if !fresh && a.err == nil && !large {
		s.has = a.state
	} else if !fresh && a.state == nil {
		s.unchanged()
	}
	if a.state != nil && o.IDs != nil { // the other pages are those that were there
		a.state = a.state.only(o.IDs)
	}
	return a
}

// unchanged looks whether the context has what it had.
func (s *snapshots) unchanged() {
	now, err := stateOfContext(s.context)
	if err != nil || s.has == nil { // pages of a lazy load whose file is no good
		_ = page.Destroy(s.context)
		s.context = newContext(s.t)
		s.has, _ = stateOfContext(s.context)
		return
	}
	if now.difference(s.has, true) != "" {
		s.has = nil
	}
}

func (s *snapshots) compactions(path string, large bool, run func(string, func() answer) *answer) {
	var compacted []byte
	done := run("compaction", func() answer {
		opened, err := snapshot.Open(path, snapshot.OpenOptions{})
		if err != nil {
			return answer{err: err}
		}
		defer func() { _ = opened.Close() }()
		sink, err := file.Memory()
		require.NoError(s.t, err)
		defer sink.Close()
		if _, err := opened.CompactTo(sink, nil); err != nil {
			sink.Abort()
			return answer{err: err}
		}
		compacted = bytes.Clone(sink.Bytes())
		return answer{}
	})
	if done.err != nil || len(compacted) > mostInMemory {
		return
	}
	run("reading of the compacted file", func() answer {
		opened, err := snapshot.OpenSource(file.Bytes(compacted), snapshot.OpenOptions{})
		if err != nil {
			return answer{err: err}
		}
		defer func() { _ = opened.Close() }()
		if err := opened.Verify(nil); err != nil || large {
			return answer{err: err}
		}
		found, err := stateOfFile(opened)
		return answer{state: found, err: err, versions: true}
	})
	run("load of the compacted file", func() answer { return s.load(s.inMemory(compacted), persist.LoadOptions{}, large, false) })
}

func (s *snapshots) inMemory(content []byte) persist.LoadSource {
	copy(s.memory, content)
	return persist.FromMemory(uintptr(unsafe.Pointer(&s.memory[0])), uint64(len(content)))
}

// fromMemory reads the file alone: what is based on another cannot be loaded like that.
func (s *snapshots) fromMemory(x *trial, path string, large bool, run func(string, func() answer) *answer) {
	info, err := os.Lstat(path)
	if err != nil || !info.Mode().IsRegular() || info.Size() > mostInMemory {
		return
	}
	content, err := os.ReadFile(path)
	require.NoError(s.t, err)
	if len(content) == 0 || len(content) >= 48 && get32(content, 8) != 2 && !bytes.Equal(content[32:48], make([]byte, 16)) {
		return
	}
	run("load from memory", func() answer { return s.load(s.inMemory(content), persist.LoadOptions{}, large, false) })
	require.NoError(s.t, unix.Ftruncate(s.memfd, 0))
	_, err = unix.Pwrite(s.memfd, content, 0)
	require.NoError(s.t, err)
	for _, lazy := range []bool{false, true} {
		_, err = unix.Seek(s.memfd, 0, io.SeekStart)
		require.NoError(s.t, err)
		run(fmt.Sprintf("load from a descriptor, lazy %v", lazy), func() answer {
			a := s.load(persist.FromDescriptor(int32(s.memfd)), persist.LoadOptions{Lazy: lazy}, large, false)
			if lazy {
				a.view = seesContent
			}
			return a
		})
	}
}

// others are readers of a part, and the tool.
func (s *snapshots) others(path string, large bool, run func(string, func() answer) *answer) {
	run("inspection", func() answer {
		_, err := snapshot.Inspect(path, snapshot.OpenOptions{})
		return answer{err: err, view: seesPart}
	})
	run("walk with a cursor", func() answer {
		opened, err := snapshot.Open(path, snapshot.OpenOptions{})
		if err != nil {
			return answer{err: err, view: seesPart}
		}
		defer func() { _ = opened.Close() }()
		some, cursor := make([]snapshot.Page, 3), uint64(0)
		for n := 1; n > 0; {
			if n, cursor, err = opened.PagesFrom(cursor, some); err != nil {
				return answer{err: err, view: seesPart}
			}
		}
		return answer{view: seesPart}
	})
	if large {
		return
	}
	run("comparison with itself", func() answer {
		from, err := snapshot.Open(path, snapshot.OpenOptions{})
		if err != nil {
			return answer{err: err, view: seesPart}
		}
		defer func() { _ = from.Close() }()
		to, err := snapshot.Open(path, snapshot.OpenOptions{})
		if err != nil {
			return answer{err: err, view: seesPart}
		}
		defer func() { _ = to.Close() }()
		differences, err := differencesOf(from, to)
		if err == nil && differences > 0 {
			err = status.Errorf(status.Internal, "%d pages differ from themselves", differences)
		}
		return answer{err: err, view: seesPart}
	})
	for _, arguments := range [][]string{{"snapshot", "info", path}, {"snapshot", "ls", path}} {
		run("tool: "+arguments[1], func() answer {
			return answer{err: tool(arguments...), view: seesPart}
		})
	}
}

// savedChain is what the library saves of a context that a random program changes.
func savedChain(t *testing.T, random *rand.Rand) (chain []*parts) {
	context, folder := newContext(t), temporaryFolder(t)
	defer func() { _ = page.Destroy(context) }()
	a := &author{random: random}
	pages := map[uint64]uint64{}
	for number := range 1 + random.IntN(3) {
		for range 1 + random.IntN(5) {
			id := 1 + random.Uint64N(12)
			handle := pages[id]
			switch what := random.IntN(6); {
			case handle == 0:
				p := a.page()
				require.NoError(t, page.Use(context, func(c *page.Context) (err error) {
					handle, err = c.Create(p.size, page.CreateOptions{ID: id, NUMANode: -1, Location: p.location})
					return err
				}))
				require.Zero(t, nativetest.WritePage(handle, 0, p.content))
				pages[id] = handle
			case what == 0:
				require.Zero(t, nativetest.Destroy(handle))
				delete(pages, id)
			case what == 1:
				require.NoError(t, page.SetMetadata(handle, []byte("name"), a.bytes(random.IntN(50))))
			case what == 2:
				if other := pages[1+random.Uint64N(12)]; other != 0 {
					_ = page.AddDependency(handle, other) // perhaps it would be a cycle
				}
			default:
				require.Zero(t, nativetest.ApplyRuns([]uint64{handle}, []uint64{0}, 1, a.bytes(1)))
			}
		}
		o := persist.SaveOptions{Compression: int32(random.IntN(2)), NotDurable: true}
		if number > 0 {
			o.Base = filepath.Join(folder, fileName(number-1))
		}
		path := filepath.Join(folder, fileName(number))
		require.NoError(t, persist.Save(context, persist.ToPath(path), o, nil))
		raw, err := os.ReadFile(path)
		require.NoError(t, err)
		chain = append([]*parts{split(raw)}, chain...)
	}
	return chain
}

// tool runs mmsb within this process. What it prints of a file must not reach a terminal as anything but text.
func tool(arguments ...string) error {
	var out, complaint bytes.Buffer
	code := command.Tool{FS: file.OS{}, Stdout: &out, Stderr: &complaint}.Run(context.Background(), arguments)
	for _, text := range []string{out.String(), complaint.String()} {
		if strings.ContainsFunc(text, func(r rune) bool { return r < ' ' && r != '\n' || r == 0x7f }) {
			return status.Errorf(status.Internal, "control characters are printed: %q", text)
		}
	}
	switch code {
	case 0:
		return nil
	case 1, 3:
		return status.Errorf(status.Corrupt, "%s", complaint.String())
	default:
		return status.Errorf(status.Internal, "exit code %d: %s", code, complaint.String())
	}
}

func differencesOf(from, to *snapshot.Snapshot) (count int, err error) {
	for _, err := range snapshot.Diff(from, to, nil) {
		if err != nil {
			return 0, err
		}
		count++
	}
	return count, nil
}

func TestReadersOfSnapshotsAgree(t *testing.T) {
	campaign(t, "snapshots", newSnapshots(t), 10000, 10)
}
