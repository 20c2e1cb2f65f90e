package snapshot

import (
	"bytes"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"libmmsb/core/abi"
	"libmmsb/core/file"
	"libmmsb/core/metadata"
	"libmmsb/core/status"
)

var noon = time.Unix(1763726400, 123456789)

// content is a page of a model.
type content struct {
	page     Page
	bytes    []byte
	mask     []byte
	metadata []byte
}

// model is a state: what a snapshot must give back.
type model struct {
	pages map[uint64]content
	edges [][2]uint64
}

func newModel() model { return model{pages: map[uint64]content{}} }

func (m model) clone() model { return model{maps.Clone(m.pages), slices.Clone(m.edges)} }

func (m model) totals() (pages, bytes uint64) {
	for _, one := range m.pages {
		bytes += one.page.Size
	}
	return uint64(len(m.pages)), bytes
}

func (m model) ids() []uint64 { return slices.Sorted(maps.Keys(m.pages)) }

// pattern is bytes of which no chunk is like another.
func pattern(seed, length uint64) []byte {
	random := rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8), 1})
	result := make([]byte, length)
	_, _ = random.Read(result)
	return result
}

// put makes a page, or replaces it.
func (m model) put(t testing.TB, id uint64, content_ []byte, keys ...string) {
	t.Helper()
	size := uint64(len(content_))
	one := content{
		page: Page{ID: id, Size: size, Epoch: id * 3, Version: id*7 + 1, Location: int32(id % 5), NUMANode: -1,
			MetadataCount: uint32(len(keys))},
		bytes: content_,
	}
	if one.page.Location > abi.LocationCPU && one.page.Location < abi.LocationDisk {
		one.page.Device = int32(id % 2)
	}
	if id%2 == 0 {
		one.mask = pattern(id+1, lengthOf(size, KindMask))
		one.page.Flags = FlagReadOnly
	}
	for _, key := range keys {
		var err error
		one.metadata, err = metadata.Set(one.metadata, []byte(key), []byte("value of "+key))
		require.NoError(t, err)
	}
	m.pages[id] = one
}

// parts are what a file holds of a state.
type parts struct {
	whole    []uint64            // pages
	changes  map[uint64][]uint64 // page: offsets of its chunks
	granules map[uint64][]Range  // page: granules of chunks, each range in one
	removed  []uint64
}

// write writes a file into memory.
func write(t testing.TB, header Header, m model, p parts, compression Compression) []byte {
	t.Helper()
	sink, err := file.Memory()
	require.NoError(t, err)
	defer sink.Close()
	writeTo(t, sink, header, m, p, compression)
	return bytes.Clone(sink.Bytes())
}

func writeTo(t testing.TB, sink file.Sink, header Header, m model, p parts, compression Compression) Report {
	t.Helper()
	w, err := NewWriter(sink, header, Options{})
	require.NoError(t, err)
	for _, id := range p.whole {
		one := m.pages[id]
		require.NoError(t, w.Add(one.page, KindBytes, 0, one.bytes, compression))
		addRest(t, w, one, compression)
	}
	for _, id := range slices.Sorted(maps.Keys(p.changes)) {
		one := m.pages[id]
		one.page.Flags |= FlagChanges
		require.NoError(t, w.Add(one.page, KindBytes, 0, nil, compression))
		for _, offset := range p.changes[id] {
			require.NoError(t, w.Add(one.page, KindBytes, offset, one.bytes[offset:min(offset+Chunk, one.page.Size)],
				compression))
		}
		addRest(t, w, one, compression)
	}
	for _, id := range slices.Sorted(maps.Keys(p.granules)) {
		one := m.pages[id]
		one.page.Flags |= FlagChanges
		for _, r := range p.granules[id] {
			require.NoError(t, w.Add(one.page, KindBytes, r.Offset, one.bytes[r.Offset:r.end()], compression))
		}
		addRest(t, w, one, compression)
	}
	require.NoError(t, w.Removed(p.removed))
	require.NoError(t, w.Edges(m.edges))
	report, err := w.Finish(m.totals())
	require.NoError(t, err)
	return report
}

func addRest(t testing.TB, w *Writer, one content, compression Compression) {
	t.Helper()
	if one.mask != nil {
		require.NoError(t, w.Add(one.page, KindMask, 0, one.mask, compression))
	}
	if one.metadata != nil {
		require.NoError(t, w.Add(one.page, KindMetadata, 0, one.metadata, compression))
	}
}

// whole writes all of a state.
func whole(t testing.TB, m model, compression Compression) []byte {
	t.Helper()
	return write(t, Header{ID: ID{1, 2, 3}, Taken: noon, Position: 77}, m, parts{whole: m.ids()}, compression)
}

func openBytes(t testing.TB, raw []byte) *Snapshot {
	t.Helper()
	s, err := OpenSource(file.Bytes(raw), OpenOptions{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

func openPath(t testing.TB, path string) *Snapshot {
	t.Helper()
	s, err := Open(path, OpenOptions{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

func store(t testing.TB, path string, raw []byte) {
	t.Helper()
	require.NoError(t, os.WriteFile(path, raw, 0o600))
}

// requireState compares all ways of reading with a model.
func requireState(t testing.TB, s *Snapshot, m model) {
	t.Helper()
	require.NoError(t, s.Verify(nil))
	pages, total := m.totals()
	assert.Equal(t, pages, s.Totals().StatePages)
	assert.Equal(t, total, s.Totals().StateBytes)

	var listed []uint64
	for page, err := range s.Pages() {
		require.NoError(t, err)
		assert.Equal(t, m.pages[page.ID].page, page)
		listed = append(listed, page.ID)
	}
	slices.Sort(listed)
	require.Equal(t, m.ids(), listed)

	var edges [][2]uint64
	for pair, err := range s.Edges() {
		require.NoError(t, err)
		edges = append(edges, pair)
	}
	assert.Equal(t, m.edges, edges)

	for id, one := range m.pages {
		requirePage(t, s, id, one)
	}
	requireLoad(t, s, m, nil)
	requireLoad(t, s, m, func(id uint64) bool { return id%3 == 0 })
}

func requirePage(t testing.TB, s *Snapshot, id uint64, one content) {
	t.Helper()
	page, err := s.Find(id)
	require.NoError(t, err)
	assert.Equal(t, one.page, page)
	read := make([]byte, page.Size)
	require.NoError(t, s.ReadAt(id, KindBytes, read, 0))
	require.True(t, bytes.Equal(one.bytes, read), "page %d", id)
	from := page.Size / 3
	part := make([]byte, page.Size/2)
	require.NoError(t, s.ReadAt(id, KindBytes, part, from))
	require.True(t, bytes.Equal(one.bytes[from:][:len(part)], part), "page %d from %d", id, from)
	require.Equal(t, status.OutOfRange, status.CodeOf(s.ReadAt(id, KindBytes, []byte{0}, page.Size)))

	hasMask, err := s.HasMask(id)
	require.NoError(t, err)
	assert.Equal(t, one.mask != nil, hasMask)
	wantMask := make([]byte, lengthOf(page.Size, KindMask))
	copy(wantMask, one.mask)
	mask := pattern(5, uint64(len(wantMask)))
	require.NoError(t, s.ReadAt(id, KindMask, mask, 0))
	require.True(t, bytes.Equal(wantMask, mask), "mask of page %d", id)
	blob, err := s.Metadata(id)
	require.NoError(t, err)
	require.True(t, bytes.Equal(one.metadata, blob), "metadata of page %d", id)

	var extracted bytes.Buffer
	n, err := s.Extract(id, &extracted)
	require.NoError(t, err)
	assert.Equal(t, page.Size, n)
	require.True(t, bytes.Equal(one.bytes, extracted.Bytes()), "page %d extracted", id)
	if view, err := s.View(id); err == nil {
		require.True(t, bytes.Equal(one.bytes, view), "view of page %d", id)
	} else {
		require.Equal(t, status.Unsupported, status.CodeOf(err), "%v", err)
	}
}

// requireLoad puts the state together from Load.
func requireLoad(t testing.TB, s *Snapshot, m model, want func(id uint64) bool) {
	t.Helper()
	loaded := map[uint64]*content{}
	filled := map[uint64]uint64{}
	require.NoError(t, s.Load(want, func(page Page, kind uint32, offset uint64, part []byte) error {
		one := loaded[page.ID]
		if one == nil {
			require.Zero(t, page.Flags&FlagKnown, "page %d", page.ID)
			one = &content{page: page.ofState(), bytes: make([]byte, page.Size)}
			loaded[page.ID] = one
		}
		switch kind {
		case KindBytes:
			copy(one.bytes[offset:], part)
			filled[page.ID] += uint64(len(part))
		case KindMask:
			one.mask = append(one.mask, part...)
		default:
			one.metadata = append(one.metadata, part...)
		}
		return nil
	}))
	for id, one := range m.pages {
		if want != nil && !want(id) {
			require.Nil(t, loaded[id])
			continue
		}
		got := loaded[id]
		require.NotNil(t, got, "page %d", id)
		assert.Equal(t, one.page, got.page)
		require.Equal(t, one.page.Size, filled[id], "each byte of page %d once", id)
		require.True(t, bytes.Equal(one.bytes, got.bytes) && bytes.Equal(one.mask, got.mask) &&
			bytes.Equal(one.metadata, got.metadata), "page %d loaded", id)
		delete(loaded, id)
	}
	require.Empty(t, loaded)
}

// readAll reads everything that a snapshot has, by all ways; the first error.
func readAll(s *Snapshot) error {
	first := s.Verify(nil)
	keep := func(err error) {
		if first == nil {
			first = err
		}
	}
	keep(s.Load(nil, func(Page, uint32, uint64, []byte) error { return nil }))
	for page, err := range s.Pages() {
		keep(err)
		if err != nil {
			break
		}
		_, err = s.Find(page.ID)
		keep(err)
		_, err = s.Metadata(page.ID)
		keep(err)
		_, err = s.Extract(page.ID, discard{})
		keep(err)
		if _, err = s.View(page.ID); status.CodeOf(err) != status.Unsupported {
			keep(err)
		}
	}
	for _, err := range s.Edges() {
		keep(err)
	}
	return first
}

type discard struct{}

func (discard) Write(b []byte) (int, error) { return len(b), nil }

// small is a state whose file has every kind of part, in few bytes.
func small(t testing.TB) model {
	m := newModel()
	m.put(t, 1, pattern(1, 10))
	m.put(t, 2, pattern(2, 300), "name", "step")
	m.put(t, 3, make([]byte, 64), "zeros")
	m.put(t, 4, bytes.Repeat([]byte("page "), 100))
	m.edges = [][2]uint64{{1, 2}, {2, 3}}
	return m
}

func testdata(name ...string) string {
	return filepath.Join(append([]string{"..", "..", "testdata", "snapshots"}, name...)...)
}
