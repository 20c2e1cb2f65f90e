package replay

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"libmmsb/core/delta"
	"libmmsb/core/file"
	"libmmsb/core/journal"
	"libmmsb/core/lineage"
	"libmmsb/core/metadata"
	"libmmsb/core/snapshot"
	"libmmsb/core/status"
)

// entry is a record as a test writes it: head and body.
type entry struct {
	kind    journal.Kind
	flags   uint8
	form    uint16
	page    uint64
	version uint64
	epoch   uint64
	body    []byte
}

func (e entry) encode(at int64) []byte {
	b := binary.LittleEndian.AppendUint32(nil, uint32(40+len(e.body)))
	b = append(b, byte(e.kind), e.flags)
	b = binary.LittleEndian.AppendUint16(b, e.form)
	for _, word := range []uint64{e.page, e.version, e.epoch, uint64(at)} {
		b = binary.LittleEndian.AppendUint64(b, word)
	}
	b = append(b, e.body...)
	return append(b, make([]byte, -len(b)&7)...)
}

// begin is the moment of record 0; each record is a second later.
var begin = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func moment(record uint64) time.Time { return begin.Add(time.Duration(record) * time.Second) }

// line is the lineage of all states of these tests.
var line = lineage.New(lineage.Point{})

func writeJournal(t testing.TB, directory string, after uint64, entries []entry) {
	t.Helper()
	writeJournalOf(t, directory, line, after, entries)
}

func writeJournalOf(t testing.TB, directory string, line lineage.Lineage, after uint64, entries []entry) {
	t.Helper()
	w, err := journal.NewWriter(file.OS{}, directory, journal.Options{SegmentBytes: 64 << 10,
		From: journal.State{Names: []lineage.Point{line.At(after)}, GoesOn: line, Empty: after == 0}})
	require.NoError(t, err)
	if w.NeedsBase() {
		require.NoError(t, w.HasBase())
	}
	const aligned = unix.MAP_PRIVATE | unix.MAP_ANON
	memory, err := unix.Mmap(-1, 0, journal.MaximumFrame, unix.PROT_READ|unix.PROT_WRITE, aligned)
	require.NoError(t, err)
	defer func() { require.NoError(t, unix.Munmap(memory)) }()
	for number, e := range entries {
		sequence := after + 1 + uint64(number)
		record := e.encode(moment(sequence).UnixNano())
		used := copy(memory[journal.FrameHeadBytes:], record) + journal.FrameHeadBytes
		clear(memory[used : used+(-used&4095)])
		require.NoError(t, w.Write(memory, used, sequence, 1, e.flags&journal.More == 0))
	}
	require.NoError(t, w.Close())
}

// one is a page as the test keeps it.
type one struct {
	entry      snapshot.Page
	data, mask []byte // no mask: nil
	metadata   []byte
}

type world struct {
	pages map[uint64]*one
	edges [][2]uint64
}

func (w *world) clone() *world {
	copied := &world{pages: map[uint64]*one{}, edges: slices.Clone(w.edges)}
	for id, p := range w.pages {
		q := *p
		q.data, q.mask, q.metadata = bytes.Clone(p.data), bytes.Clone(p.mask), bytes.Clone(p.metadata)
		copied.pages[id] = &q
	}
	return copied
}

func (w *world) save(t testing.TB, path string, header snapshot.Header, compression snapshot.Compression) {
	t.Helper()
	if header.Lineage == (lineage.Lineage{}) {
		header.Lineage = line
	}
	sink, err := file.Replace(file.OS{}, path, file.Options{})
	require.NoError(t, err)
	writer, err := snapshot.NewWriter(sink, header, snapshot.Options{})
	require.NoError(t, err)
	size := uint64(0)
	for _, id := range w.ids() {
		p := w.pages[id]
		size += p.entry.Size
		require.NoError(t, writer.Add(p.entry, snapshot.KindBytes, 0, p.data, compression))
		if p.mask != nil {
			require.NoError(t, writer.Add(p.entry, snapshot.KindMask, 0, p.mask, compression))
		}
		if p.metadata != nil {
			require.NoError(t, writer.Add(p.entry, snapshot.KindMetadata, 0, p.metadata, compression))
		}
	}
	require.NoError(t, writer.Edges(w.edges))
	_, err = writer.Finish(uint64(len(w.pages)), size)
	require.NoError(t, err)
}

func (w *world) ids() []uint64 {
	var ids []uint64
	for id := range w.pages {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

func (w *world) require(t testing.TB, path string) *snapshot.Snapshot {
	t.Helper()
	s, err := snapshot.Open(path, snapshot.OpenOptions{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.Close() })
	require.NoError(t, s.Verify(nil))
	var ids []uint64
	for page, err := range s.Pages() {
		require.NoError(t, err)
		ids = append(ids, page.ID)
		p := w.pages[page.ID]
		require.NotNil(t, p, "page %d", page.ID)
		require.Equal(t, p.entry, page)
		data := make([]byte, page.Size)
		require.NoError(t, s.ReadAt(page.ID, snapshot.KindBytes, data, 0))
		require.True(t, bytes.Equal(p.data, data), "bytes of page %d", page.ID)
		hasMask, err := s.HasMask(page.ID)
		require.NoError(t, err)
		require.Equal(t, p.mask != nil, hasMask, "page %d", page.ID)
		if hasMask {
			mask := make([]byte, maskLength(page.Size))
			require.NoError(t, s.ReadAt(page.ID, snapshot.KindMask, mask, 0))
			require.True(t, bytes.Equal(p.mask, mask), "mask of page %d", page.ID)
		}
		blob, err := s.Metadata(page.ID)
		require.NoError(t, err)
		require.True(t, bytes.Equal(p.metadata, blob), "metadata of page %d", page.ID)
	}
	slices.Sort(ids)
	require.Equal(t, w.ids(), ids)
	var edges [][2]uint64
	for edge, err := range s.Edges() {
		require.NoError(t, err)
		edges = append(edges, edge)
	}
	if len(w.edges) > 0 || len(edges) > 0 {
		require.Equal(t, w.edges, edges)
	}
	return s
}

// random makes changes to a world, and their records.
type random struct {
	*rand.Rand
	world *world
	// versioned: only changes that the version of a page says to be there.
	versioned bool
	ended     uint64 // the highest version of pages that are no more
}

func (r *random) bytes(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

// below is a number, small as a rule.
func (r *random) below(n uint64) uint64 {
	if r.IntN(4) > 0 {
		return r.Uint64N(min(n, 700))
	}
	return r.Uint64N(n)
}

func (r *random) size() uint64 {
	return []uint64{1, 7, 100, 4096, snapshot.Chunk, snapshot.Chunk + 1, 3*snapshot.Chunk + 77}[r.IntN(7)]
}

func (r *random) next(t testing.TB) entry {
	id := 1 + r.Uint64N(12)
	p := r.world.pages[id]
	if p == nil {
		return r.make(id)
	}
	e := entry{page: id, version: p.entry.Version + 1 + r.Uint64N(2), epoch: p.entry.Epoch}
	other := 1 + r.Uint64N(12)
	what := r.IntN(16)
	if r.versioned && (what == 0 || 3 <= what && what <= 5) {
		what = 6
	}
	switch what {
	case 0:
		e.kind = journal.Destroy
		r.ended = max(r.ended, e.version)
		delete(r.world.pages, id)
		r.world.edges = slices.DeleteFunc(r.world.edges, func(edge [2]uint64) bool { return edge[0] == id || edge[1] == id })
		return e
	case 1:
		r.resize(p, &e)
	case 2:
		e.kind, e.body = journal.Migrate, journal.MigrateBody(4, 0, -1)
		p.entry.Location, p.entry.NUMANode = 4, -1
		p.entry.Flags = 0
	case 3:
		e.kind = journal.MaskClear
		p.mask = nil
	case 4:
		r.metadata(t, p, &e)
	case 5:
		if id >= other || r.world.pages[other] == nil { // never a cycle
			return r.next(t)
		}
		edge := [2]uint64{id, other}
		e.kind, e.body = journal.DependencyAdd, journal.Words(other)
		if at := slices.Index(r.world.edges, edge); at >= 0 {
			e.kind = journal.DependencyRemove
			r.world.edges = slices.Delete(r.world.edges, at, at+1)
		} else {
			r.world.edges = append(r.world.edges, edge)
		}
	case 6, 7:
		offset := r.below(p.entry.Size)
		data := r.bytes(int(min(p.entry.Size-offset, r.below(2*snapshot.Chunk))))
		e.kind, e.body = journal.Write, append(journal.Words(offset), data...)
		copy(p.data[offset:], data)
	default:
		r.delta(t, p, &e)
	}
	p.entry.Version, p.entry.Epoch = e.version, e.epoch
	return e
}

func (r *random) make(id uint64) entry {
	p := &one{entry: snapshot.Page{ID: id, Size: r.size(), Version: r.ended + 1, Epoch: 0, Location: 0, NUMANode: -1}}
	p.data = make([]byte, p.entry.Size)
	e := entry{kind: journal.Create, page: id, version: p.entry.Version, body: journal.CreateBody(p.entry.Size, 0, 0, -1, 0)}
	other := r.world.pages[1+r.Uint64N(12)]
	switch {
	case other != nil && r.IntN(2) == 0:
		copied := *other
		p = &copied
		p.data, p.mask, p.metadata = bytes.Clone(other.data), bytes.Clone(other.mask), bytes.Clone(other.metadata)
		e.kind, e.body = journal.Clone, journal.Words(other.entry.ID, other.entry.Version)
		p.entry.ID, p.entry.Flags = id, 0
		p.entry.Version = max(r.ended+1, other.entry.Version)
		e.version, e.epoch = p.entry.Version, p.entry.Epoch
	case r.IntN(3) == 0:
		p.data = r.bytes(int(p.entry.Size))
		p.entry.Flags = snapshot.FlagAdopted
		e.kind, e.body = journal.Adopt, append(journal.CreateBody(p.entry.Size, 0, 0, -1, 1), p.data...)
	}
	r.world.pages[id] = p
	return e
}

func (r *random) resize(p *one, e *entry) {
	size := r.size()
	e.kind, e.body = journal.Resize, journal.Words(size)
	data := make([]byte, size)
	copy(data, p.data)
	if p.mask != nil {
		mask := make([]byte, maskLength(size))
		copy(mask, p.mask)
		if size%8 != 0 {
			mask[size/8] &= 1<<(size%8) - 1
		}
		p.mask = mask
	}
	p.data, p.entry.Size = data, size
}

func (r *random) metadata(t testing.TB, p *one, e *entry) {
	key := []byte{'a' + byte(r.IntN(3))}
	var err error
	switch r.IntN(3) {
	case 0:
		value := r.bytes(r.IntN(50))
		e.kind = journal.MetadataSet
		e.body = append(append(journal.MetadataBody(1, uint32(len(value))), key...), value...)
		p.metadata, err = metadata.Set(p.metadata, key, value)
		require.NoError(t, err)
	case 1:
		e.kind, e.body = journal.MetadataRemove, key
		p.metadata, _ = metadata.Remove(p.metadata, key)
	default:
		blob, err := metadata.Set(nil, []byte("imported"), r.bytes(9))
		require.NoError(t, err)
		e.kind, e.body = journal.MetadataImport, blob
		p.metadata = blob
	}
	if p.entry.MetadataCount = uint32(metadata.Count(p.metadata)); p.entry.MetadataCount == 0 {
		p.metadata = nil
	}
}

// delta makes one of any form, and lets core/delta say what it does.
func (r *random) delta(t testing.TB, p *one, e *entry) {
	size := p.entry.Size
	e.epoch++
	e.kind, e.form = journal.Delta, uint16(1+r.IntN(6))
	f := &delta.Form{Kind: delta.Kind(min(e.form, 5))}
	count := 1 + r.Uint64N(5)
	switch e.form {
	case journal.DenseBytes, journal.DenseBits, journal.SparseBits:
		f.MaskLength = 1 + r.below(size)
		f.Mask = r.bytes(int(f.MaskBytes()))
		for at := range f.Mask {
			f.Mask[at] &= byte(r.Uint32())
		}
		e.body = append(journal.Words(f.MaskLength), f.Mask...)
	case journal.Indexed, journal.Indexed32:
		f.Kind, f.Count = delta.Indexed, count
		e.body = journal.Words(count)
		for range count {
			offset := r.below(size)
			f.Offsets = append(f.Offsets, offset)
			if e.form == journal.Indexed32 {
				e.body = binary.LittleEndian.AppendUint32(e.body, uint32(offset))
			} else {
				e.body = binary.LittleEndian.AppendUint64(e.body, offset)
			}
		}
	default:
		f.Count = count
		e.body = journal.Words(count)
		for range count {
			offset := r.below(size)
			run := delta.Run{Offset: offset, Length: r.below(size - offset)}
			f.Runs = append(f.Runs, run)
			e.body = append(e.body, journal.Words(run.Offset, run.Length)...)
		}
	}
	length, err := f.PayloadBytes()
	require.NoError(t, err)
	f.Payload = r.bytes(int(length))
	if e.form == journal.Runs && count == 1 {
		e.kind, e.form, e.body = journal.Run, 0, journal.Words(f.Runs[0].Offset)
	}
	e.body = append(e.body, f.Payload...)
	require.NoError(t, delta.Validate(f, size))
	if p.mask == nil {
		p.mask = make([]byte, maskLength(size))
	}
	asRuns, err := delta.Convert(f, delta.Runs)
	require.NoError(t, err)
	payload := asRuns.Payload
	for _, run := range asRuns.Runs {
		payload = payload[copy(p.data[run.Offset:][:run.Length], payload):]
		for at := run.Offset; at < run.Offset+run.Length; at++ {
			p.mask[at/8] |= 1 << (at % 8)
		}
	}
}

func TestReplayIsWhatTheChangesMade(t *testing.T) {
	const records = 400
	for seed := range uint64(3) {
		directory := t.TempDir()
		r := &random{Rand: rand.New(rand.NewPCG(seed, 4)), world: &world{pages: map[uint64]*one{}}, ended: 1000}
		states := []*world{r.world.clone()}
		var entries []entry
		for range records {
			entries = append(entries, r.next(t))
			states = append(states, r.world.clone())
		}
		log := filepath.Join(directory, "journal")
		writeJournal(t, log, 0, entries)
		for _, from := range []uint64{0, 150, 400} {
			base := filepath.Join(directory, "base")
			states[from].save(t, base, snapshot.Header{Position: from, Taken: moment(from)}, snapshot.Compression(seed%3))
			for _, until := range []uint64{(from + records) / 2, records} {
				out := filepath.Join(directory, "out")
				o := Options{FS: file.OS{}, Snapshot: base, Journal: log, Output: out, Until: journal.Until{Sequence: until},
					Compression: snapshot.Compression((seed + 1) % 3)}
				if until%2 == 0 {
					o.Until = journal.Until{Time: moment(until).UnixNano() + 1}
				}
				report, err := Run(o)
				require.NoError(t, err, "seed %d, from %d to %d", seed, from, until)
				assert.Equal(t, from+1, report.First)
				assert.Equal(t, until, report.Last)
				s := states[until].require(t, out)
				assert.Equal(t, until, s.Header().Position)
				assert.Equal(t, moment(until).UnixNano(), s.Header().Taken.UnixNano())
				assert.Len(t, s.Chain(), 1)
			}
		}
		names, err := os.ReadDir(directory)
		require.NoError(t, err)
		assert.Len(t, names, 3, "no temporary file is left: %v", names)
	}
}

// TestRecordsThatTheSnapshotHasAreSkipped replays from a position before the one that the snapshot really has.
func TestRecordsThatTheSnapshotHasAreSkipped(t *testing.T) {
	directory := t.TempDir()
	base, log, out := paths(directory)
	r := &random{Rand: rand.New(rand.NewPCG(1, 4)), world: &world{pages: map[uint64]*one{}}, versioned: true}
	var entries []entry
	for number := range 300 {
		entries = append(entries, r.next(t))
		if number == 200 {
			header := snapshot.Header{Taken: moment(1), Position: 1, Latest: uint64(len(entries))}
			r.world.save(t, base, header, snapshot.Uncompressed)
		}
	}
	writeJournal(t, log, 0, entries)
	_, err := Run(Options{FS: file.OS{}, Snapshot: base, Journal: log, Output: out})
	require.NoError(t, err)
	r.world.require(t, out)
}

func TestGroupsAreWhole(t *testing.T) {
	directory := t.TempDir()
	base, log, out := paths(directory)
	w := &world{pages: map[uint64]*one{}}
	for id := uint64(1); id <= 2; id++ {
		w.pages[id] = &one{entry: snapshot.Page{ID: id, Size: 8, Version: 1, NUMANode: -1}, data: make([]byte, 8)}
	}
	w.save(t, base, snapshot.Header{Position: 10, Taken: moment(10)}, snapshot.Uncompressed)
	write := func(page, version uint64, flags uint8, value byte) entry {
		return entry{kind: journal.Write, flags: flags, page: page, version: version, body: append(journal.Words(0), value)}
	}
	writeJournal(t, log, 10, []entry{write(1, 2, 0, 1), write(1, 3, journal.More, 2), write(2, 2, 0, 2), write(2, 3, 0, 3)})
	for until, want := range map[uint64][2]byte{11: {1, 0}, 12: {1, 0}, 13: {2, 2}, 14: {2, 3}} {
		o := Options{FS: file.OS{}, Snapshot: base, Journal: log, Output: out, Until: journal.Until{Sequence: until}}
		report, err := Run(o)
		require.NoError(t, err)
		s, err := snapshot.Open(out, snapshot.OpenOptions{})
		require.NoError(t, err)
		for number, value := range want {
			data := make([]byte, 8)
			require.NoError(t, s.ReadAt(uint64(number)+1, snapshot.KindBytes, data, 0))
			assert.Equal(t, value, data[0], "page %d at record %d, up to %d", number+1, until, report.Last)
		}
		require.NoError(t, s.Close())
	}
}

func paths(directory string) (base, log, out string) {
	return filepath.Join(directory, "base"), filepath.Join(directory, "journal"), filepath.Join(directory, "out")
}

// small has one page of 64 bytes.
func small() *world {
	entry := snapshot.Page{ID: 1, Size: 64, Version: 1, NUMANode: -1}
	return &world{pages: map[uint64]*one{1: {entry: entry, data: make([]byte, 64)}}}
}

func TestWhatCannotBeReplayed(t *testing.T) {
	word := journal.Words
	for name, c := range map[string]struct {
		e    entry
		code status.Code
		text string
	}{
		"a write past the end": {entry{kind: journal.Write, body: append(word(60), 1, 2, 3, 4, 5)}, status.Corrupt,
			"5 bytes at offset 60"},
		"a run past the end": {entry{kind: journal.Run, body: append(word(1<<63), 1)}, status.Corrupt, "1 bytes at offset"},
		"a mask past the end": {entry{kind: journal.Delta, form: journal.DenseBits, body: append(word(65), make([]byte, 74)...)},
			status.Corrupt, "65 bytes"},
		"an offset too large": {entry{kind: journal.Delta, form: journal.Indexed, body: append(word(1, 64), 1)}, status.Corrupt,
			"offset 64"},
		"a size too large": {entry{kind: journal.Resize, body: word(1 << 63)}, status.Corrupt, "size"},
		"no location": {entry{kind: journal.Migrate, body: journal.MigrateBody(5, 0, 0)}, status.Corrupt,
			"location that does not exist"},
		"itself": {entry{kind: journal.DependencyAdd, body: word(1)}, status.Corrupt, "itself"},
		"metadata that is none": {entry{kind: journal.MetadataImport, body: []byte{1, 0, 0, 0}}, status.Corrupt,
			"cannot be applied"},
		"a copy of nothing": {entry{kind: journal.Clone, page: 9, body: word(8, 1)}, status.Mismatch,
			"changes page 9"},
		"a page too large": {entry{kind: journal.Create, page: 9, body: journal.CreateBody(1<<63, 0, 0, -1, 0)}, status.Corrupt,
			"size"},
	} {
		t.Run(name, func(t *testing.T) {
			directory := t.TempDir()
			base, log, out := paths(directory)
			w := small()
			w.save(t, base, snapshot.Header{Taken: begin}, snapshot.Uncompressed)
			c.e.version = 2
			if c.e.page == 0 {
				c.e.page = 1
			}
			writeJournal(t, log, 0, []entry{c.e})
			_, err := Run(Options{FS: file.OS{}, Snapshot: base, Journal: log, Output: out})
			assert.Equal(t, c.code, status.CodeOf(err), "%v", err)
			assert.ErrorContains(t, err, c.text)
			assert.ErrorContains(t, err, "record 1 ")
			assert.NoFileExists(t, out)
		})
	}
}

// A journal can have been gone on with where the pages of the snapshot's state had lower versions.
func TestASnapshotWithHigherVersionsThanItsJournal(t *testing.T) {
	base, log, out := paths(t.TempDir())
	w := small()
	w.pages[1].entry.Version = 30
	w.save(t, base, snapshot.Header{Taken: begin}, snapshot.Uncompressed)
	writeJournal(t, log, 0, []entry{
		{kind: journal.Clone, page: 2, version: 1, body: journal.Words(1, 3)},
		{kind: journal.Write, page: 1, version: 4, body: append(journal.Words(0), 7)},
		{kind: journal.Write, page: 1, version: 5, body: append(journal.Words(1), 8)},
		{kind: journal.Clone, page: 3, version: 1, body: journal.Words(1, 5)},
	})
	_, err := Run(Options{FS: file.OS{}, Snapshot: base, Journal: log, Output: out})
	require.NoError(t, err)
	s, err := snapshot.Open(out, snapshot.OpenOptions{})
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	before := w.pages[1].data
	for id, want := range map[uint64][]byte{1: {7, 8}, 2: before[:2], 3: {7, 8}} {
		data := make([]byte, 2)
		require.NoError(t, s.ReadAt(id, snapshot.KindBytes, data, 0))
		assert.Equal(t, want, data, "page %d", id)
	}
}

// A replay can come to a clone whose page is newer by then, or is no more: a later record ends the clone.
func TestClonesOfPagesThatAreOthersByNow(t *testing.T) {
	cloneOf := func(id, version uint64) entry {
		return entry{kind: journal.Clone, page: 2, version: 1, body: journal.Words(id, version)}
	}
	written := entry{kind: journal.Write, page: 2, version: 2, body: append(journal.Words(0), 7)}
	changed := entry{kind: journal.Write, page: 1, version: 4, body: append(journal.Words(0), 7)}
	outside := entry{kind: journal.Write, page: 2, version: 2, body: append(journal.Words(1<<20), 7)}
	ended := entry{kind: journal.Destroy, page: 2, version: 3}
	for name, c := range map[string]struct {
		entries []entry
		pages   uint64
		code    status.Code
	}{
		"as it was":          {[]entry{cloneOf(1, 3), written}, 2, status.OK},
		"newer":              {[]entry{cloneOf(1, 2), written}, 2, status.OK}, // written through a pointer behind the moment
		"changed":            {[]entry{changed, cloneOf(1, 3), written}, 0, status.Mismatch},
		"changed, and older": {[]entry{changed, cloneOf(1, 5), written}, 2, status.OK},
		"newer, and ended":   {[]entry{cloneOf(1, 2), written, ended}, 1, status.OK},
		"larger":             {[]entry{cloneOf(1, 2), outside}, 0, status.Mismatch}, // the page was resized before the moment
		"larger, and ended":  {[]entry{cloneOf(1, 2), outside, ended}, 1, status.OK},
		"no more":            {[]entry{cloneOf(9, 2), written}, 0, status.Mismatch},
		"no more, unchanged": {[]entry{cloneOf(9, 2)}, 0, status.Mismatch},
		"no more, and ended": {[]entry{cloneOf(9, 2), written, ended}, 1, status.OK},
		"older":              {[]entry{cloneOf(1, 4), written}, 2, status.OK}, // it was written through a pointer
	} {
		t.Run(name, func(t *testing.T) {
			base, log, out := paths(t.TempDir())
			w := small()
			w.pages[1].entry.Version = 3
			w.save(t, base, snapshot.Header{Taken: begin, Latest: 1}, snapshot.Uncompressed) // it may have the first step
			writeJournal(t, log, 0, c.entries)
			_, err := Run(Options{FS: file.OS{}, Snapshot: base, Journal: log, Output: out})
			require.Equal(t, c.code, status.CodeOf(err), "%v", err)
			if c.code != status.OK {
				require.NoFileExists(t, out)
				return
			}
			s, err := snapshot.Open(out, snapshot.OpenOptions{})
			require.NoError(t, err)
			defer func() { require.NoError(t, s.Close()) }()
			require.Equal(t, c.pages, s.Totals().StatePages)
		})
	}
}

func TestWhatLiesOutsideTheJournal(t *testing.T) {
	directory := t.TempDir()
	base, log := filepath.Join(directory, "base"), filepath.Join(directory, "journal")
	w := small()
	w.save(t, base, snapshot.Header{Taken: moment(5), Position: 5}, snapshot.Uncompressed)
	change := entry{kind: journal.Write, page: 1, version: 2, body: append(journal.Words(0), 1)}
	run := func(log string, until journal.Until) error {
		_, err := Run(Options{FS: file.OS{}, Snapshot: base, Journal: log, Output: filepath.Join(directory, "out"), Until: until})
		return err
	}
	writeJournal(t, log, 5, []entry{change})
	require.NoError(t, run(log, journal.Until{}))
	err := run(log, journal.Until{Sequence: 4})
	assert.Equal(t, status.InvalidArgument, status.CodeOf(err), "%v", err)
	err = run(log, journal.Until{Sequence: 7})
	assert.Equal(t, status.NotFound, status.CodeOf(err), "%v", err)
	err = run(log, journal.Until{Time: moment(4).UnixNano()})
	assert.Equal(t, status.InvalidArgument, status.CodeOf(err), "%v", err)

	dropped := filepath.Join(directory, "dropped")
	writeJournal(t, dropped, 8, []entry{change})
	err = run(dropped, journal.Until{})
	assert.Equal(t, status.Mismatch, status.CodeOf(err), "%v", err)
	short := filepath.Join(directory, "short")
	writeJournal(t, short, 0, []entry{change})
	for _, until := range []journal.Until{{}, {Sequence: 5}} { // the disk may have lost records that the snapshot has
		require.NoError(t, run(short, until))
	}
	err = run(short, journal.Until{Sequence: 6})
	assert.Equal(t, status.NotFound, status.CodeOf(err), "%v", err)
}

// Without a snapshot a replay begins with what the journal has, as a load does.
func TestReplayWithoutASnapshot(t *testing.T) {
	directory := t.TempDir()
	base, log, out := paths(directory)
	o := Options{FS: file.OS{}, Journal: log, Output: out}
	create := entry{kind: journal.Create, page: 1, version: 1, body: journal.CreateBody(64, 0, 0, -1, 0)}
	change := entry{kind: journal.Write, page: 1, version: 2, body: append(journal.Words(0), 7)}
	writeJournal(t, log, 0, []entry{create, change})
	for until, pages := range map[journal.Until]int{
		{}: 1, {Sequence: 1}: 1, {Time: moment(1).UnixNano()}: 1, {Time: 1}: 0, {Page: 1, Epoch: 1}: 1,
	} {
		o.Until = until
		report, err := Run(o)
		require.NoError(t, err, "%+v", until)
		s, err := snapshot.Open(out, snapshot.OpenOptions{})
		require.NoError(t, err)
		assert.Equal(t, uint64(pages), s.Totals().StatePages, "%+v", until)
		assert.Equal(t, line.At(report.Last), s.Header().Lineage.At(s.Header().Position), "%+v", until)
		require.NoError(t, s.Close())
	}

	// With a base in the directory it is that, unless it is behind the end.
	w := small()
	w.pages[2] = w.pages[1]
	w.pages[2].entry.ID = 2
	w.pages[2].entry.Version = 9
	delete(w.pages, 1)
	w.save(t, filepath.Join(log, "base-1.mmsb"), snapshot.Header{Position: 2, Taken: moment(2)}, snapshot.Uncompressed)
	for until, first := range map[journal.Until]uint64{{}: 3, {Sequence: 1}: 1, {Time: moment(1).UnixNano()}: 1} {
		o.Until = until
		report, err := Run(o)
		require.NoError(t, err, "%+v", until)
		assert.Equal(t, first, report.First, "%+v", until)
	}

	o.Journal, o.Until = base, journal.Until{}
	writeJournal(t, base, 5, []entry{change}) // its base is elsewhere
	_, err := Run(o)
	assert.Equal(t, status.Mismatch, status.CodeOf(err), "%v", err)
	assert.ErrorContains(t, err, "begins with record 6 and has no base")
}

// Records behind the end of a replay are not read: what is damaged there is not reported.
func TestDamageBehindTheEnd(t *testing.T) {
	directory := t.TempDir()
	_, log, out := paths(directory)
	create := entry{kind: journal.Create, page: 1, version: 1, body: journal.CreateBody(64, 0, 0, -1, 0)}
	change := func(version uint64) entry {
		return entry{kind: journal.Write, page: 1, version: version, body: append(journal.Words(0), 7)}
	}
	writeJournal(t, log, 0, []entry{create, change(2), change(3)})
	names, err := filepath.Glob(filepath.Join(log, "journal-*.mmsbj"))
	require.NoError(t, err)
	require.Len(t, names, 1)
	raw, err := os.ReadFile(names[0])
	require.NoError(t, err)
	raw[3*4096+100] ^= 1 // in the frame of the third record, before the frame that says that it was written
	require.NoError(t, os.WriteFile(names[0], raw, 0o600))
	for until, code := range map[uint64]status.Code{1: status.OK, 0: status.Corrupt, 9: status.Corrupt} {
		_, err := Run(Options{FS: file.OS{}, Journal: log, Output: out, Until: journal.Until{Sequence: until}})
		assert.Equal(t, code, status.CodeOf(err), "until %d: %v", until, err)
	}
}

// A snapshot may have dependencies of pages that it does not have: they are none, also where such a page comes later.
func TestADependencyOfAPageThatComesLater(t *testing.T) {
	directory := t.TempDir()
	base, log, out := filepath.Join(directory, "base"), filepath.Join(directory, "journal"), filepath.Join(directory, "out")
	w := small()
	w.edges = [][2]uint64{{1, 2}, {1, 3}}
	w.save(t, base, snapshot.Header{Taken: moment(5), Position: 5}, snapshot.Uncompressed)
	place := []byte{0, 0, 0, 0, 0, 0, 0, 0, 255, 255, 255, 255, 0, 0, 0, 0}
	writeJournal(t, log, 5, []entry{
		{kind: journal.Create, page: 2, version: 1, body: append(journal.Words(64), place...)},
		{kind: journal.Clone, page: 3, version: 1, body: journal.Words(1, 1)},
	})
	_, err := Run(Options{FS: file.OS{}, Snapshot: base, Journal: log, Output: out})
	require.NoError(t, err)
	s, err := snapshot.Open(out, snapshot.OpenOptions{})
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	for edge := range s.Edges() {
		t.Errorf("page %d depends on page %d", edge[1], edge[0])
	}
}

// A snapshot whose lineage begins behind the journal's end has all that the journal has.
func TestAStateThatBeginsBehindTheJournal(t *testing.T) {
	directory := t.TempDir()
	base, log := filepath.Join(directory, "base"), filepath.Join(directory, "journal")
	writeJournal(t, log, 5, []entry{{kind: journal.Write, page: 1, version: 2, body: append(journal.Words(0), 1)}})
	for end, code := range map[uint64]status.Code{5: status.Mismatch, 6: 0, 7: status.Mismatch} {
		behind := lineage.New(line.At(end))
		small().save(t, base, snapshot.Header{Taken: moment(9), Lineage: behind, Position: end + 3}, snapshot.Uncompressed)
		out := filepath.Join(directory, "out")
		report, err := Run(Options{FS: file.OS{}, Snapshot: base, Journal: log, Output: out})
		require.Equal(t, code, status.CodeOf(err), "%v", err)
		if code == 0 {
			assert.Equal(t, []uint64{10, 9}, []uint64{report.First, report.Last})
			header, err := snapshot.InspectHeader(out, file.OS{})
			require.NoError(t, err)
			assert.Equal(t, []any{behind, uint64(9)}, []any{header.Lineage, header.Position})
		}
	}
}

// TestAChain begins with files of testdata.
func TestAChain(t *testing.T) {
	snapshots := filepath.Join("..", "..", "..", "..", "testdata", "snapshots")
	for _, path := range []string{filepath.Join("version4", "change.mmsb"), filepath.Join("version4", "zstd.mmsb")} {
		t.Run(filepath.Base(path), func(t *testing.T) {
			directory := t.TempDir()
			log, out := filepath.Join(directory, "journal"), filepath.Join(directory, "out")
			header, err := snapshot.InspectHeader(filepath.Join(snapshots, path), file.OS{})
			require.NoError(t, err)
			writeJournalOf(t, log, header.Lineage, header.Position, []entry{
				{kind: journal.Write, page: 3, version: 1 << 40, epoch: 5, body: append(journal.Words(7), "written"...)},
				{kind: journal.Clone, page: 77, version: 1, body: journal.Words(3, 1<<40)},
			})
			before := filepath.Join(snapshots, path)
			_, err = Run(Options{FS: file.OS{}, Snapshot: before, Journal: log, Output: out, Until: journal.Until{}})
			require.NoError(t, err)
			a, err := snapshot.Open(before, snapshot.OpenOptions{})
			require.NoError(t, err)
			defer func() { require.NoError(t, a.Close()) }()
			b, err := snapshot.Open(out, snapshot.OpenOptions{})
			require.NoError(t, err)
			defer func() { require.NoError(t, b.Close()) }()
			require.NoError(t, b.Verify(nil))
			found := map[uint64]snapshot.Change{}
			for d, err := range snapshot.Diff(a, b, nil) {
				require.NoError(t, err)
				found[d.ID] = d.What
			}
			assert.Equal(t, map[uint64]snapshot.Change{3: snapshot.Changed, 77: snapshot.Added}, found)
			written := make([]byte, 7)
			require.NoError(t, b.ReadAt(77, snapshot.KindBytes, written, 7))
			assert.Equal(t, "written", string(written))
		})
	}
}

func TestCancelledReplayLeavesNothing(t *testing.T) {
	directory := t.TempDir()
	base, log, out := paths(directory)
	w := small()
	w.save(t, base, snapshot.Header{Taken: begin}, snapshot.Uncompressed)
	writeJournal(t, log, 0, []entry{{kind: journal.Create, page: 9, version: 2, body: journal.CreateBody(1<<40, 0, 0, -1, 0)}})
	done := make(chan struct{})
	o := Options{FS: file.OS{}, Snapshot: base, Journal: log, Output: out, Done: done, Compression: snapshot.Zeros}
	time.AfterFunc(50*time.Millisecond, func() { close(done) })
	_, err := Run(o)
	assert.Equal(t, status.Cancelled, status.CodeOf(err), "%v", err)
	names, err := os.ReadDir(directory)
	require.NoError(t, err)
	assert.Len(t, names, 2)
}

// A file whose lineage is not known fits no journal that has one.
func TestFilesOfUnknownLineageFitNoJournal(t *testing.T) {
	snapshots := filepath.Join("..", "..", "..", "..", "testdata", "snapshots")
	for _, path := range []string{filepath.Join("version3", "whole.mmsb"), filepath.Join("original", "five-pages.mmsbsnap")} {
		directory := t.TempDir()
		log := filepath.Join(directory, "journal")
		writeJournal(t, log, 1, nil)
		o := Options{FS: file.OS{}, Snapshot: filepath.Join(snapshots, path), Journal: log, Output: filepath.Join(directory,
			"out")}
		_, err := Run(o)
		assert.Equal(t, status.Mismatch, status.CodeOf(err), "%v", err)
		assert.ErrorContains(t, err, "lineage")
	}
}
