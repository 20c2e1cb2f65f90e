package snapshot

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"libmmsb/core/file"
	"libmmsb/core/snapshot/snapshottest"
	"libmmsb/core/status"
)

var sizes = []uint64{1, 2, 63, 64, 65, 100, 255, 256, 257, 4095, 4096, 4097, 70000, Chunk - 1, Chunk, Chunk + 1, 5 * Chunk,
	16 * Chunk, 33*Chunk + 5}

// big is a state with pages of all sizes, some of them zero or easy to compress.
func big(t testing.TB) model {
	m := newModel()
	for number, size := range sizes {
		content := pattern(uint64(number), size)
		if number%3 == 1 {
			clear(content[size/4:])
		}
		if number%4 == 2 {
			copy(content, bytes.Repeat([]byte("all work and no play "), int(size/21)))
		}
		keys := []string{"name", "größe", "step"}[:number%4%3]
		m.put(t, uint64(number)+1, content, keys...)
	}
	m.put(t, 1<<63, pattern(99, 1000))
	m.put(t, 1<<63+2, make([]byte, 2*Chunk+1), string(pattern(3, 0))+"key")
	m.edges = [][2]uint64{{1, 2}, {1 << 63, 1}, {2, 3}, {1, 3}}
	return m
}

func TestWhatIsWrittenIsRead(t *testing.T) {
	m := big(t)
	for compression, name := range map[Compression]string{Uncompressed: "uncompressed", Zstd: "zstd", Zeros: "zeros"} {
		t.Run(name, func(t *testing.T) {
			raw := whole(t, m, compression)
			s := openBytes(t, raw)
			header := s.Header()
			assert.Equal(t, ID{1, 2, 3}, header.ID)
			assert.True(t, noon.Equal(header.Taken))
			assert.Equal(t, uint64(77), header.Position)
			assert.Equal(t, uint64(len(raw)), s.Totals().FileBytes)
			requireState(t, s, m)
			_, stateBytes := m.totals()
			if compression == Uncompressed {
				assert.Greater(t, uint64(len(raw)), stateBytes)
			} else {
				assert.Less(t, uint64(len(raw)), stateBytes)
			}
		})
	}
}

func TestMetadataOfManyChunks(t *testing.T) {
	m := newModel()
	m.put(t, 2, pattern(1, 100), "a", string(bytes.Repeat([]byte("long key "), 100_000)), "c")
	m.put(t, 5, pattern(1, 100), "b")
	requireState(t, openBytes(t, whole(t, m, Uncompressed)), m)
	requireState(t, openBytes(t, whole(t, m, Zstd)), m)
}

func TestAnEmptyStateHasTwoBlocks(t *testing.T) {
	raw := whole(t, newModel(), Uncompressed)
	assert.Len(t, raw, 2*unitBytes)
	requireState(t, openBytes(t, raw), newModel())
}

func TestUncompressedPagesAreAligned(t *testing.T) {
	m := big(t)
	s := openBytes(t, whole(t, m, Uncompressed))
	for id, one := range m.pages {
		pieces, err := s.Extents(id)
		require.NoError(t, err)
		want := uint64(64)
		if one.page.Size >= 4096 {
			want = 4096
		} else if one.page.Size >= 256 {
			want = 256
		}
		for _, piece := range pieces {
			if piece.Kind == KindBytes {
				assert.Zero(t, piece.FileOffset%want, "page %d", id)
			}
		}
		view, err := s.View(id)
		if one.page.Size <= 15*Chunk {
			require.NoError(t, err)
			require.True(t, bytes.Equal(one.bytes, view))
		}
	}
	_, err := s.View(4711)
	assert.Equal(t, status.NotFound, status.CodeOf(err))
}

func TestRoomForEntriesFollowsThePages(t *testing.T) {
	m := newModel()
	for id := range uint64(60_000) {
		m.pages[id+1] = content{page: Page{ID: id + 1, Size: 300, NUMANode: -1}, bytes: pattern(id, 300)}
	}
	raw := whole(t, m, Uncompressed)
	s := openBytes(t, raw)
	require.NoError(t, s.Verify(nil))
	// 512 bytes and 96 of tables a page: with the right room that is hardly more than they take.
	assert.Less(t, len(raw), 60_000*(512+96)*103/100)
	assert.Less(t, s.Totals().Segments, uint64(12))
}

// TestSegmentsCanBeFilledByHand does what native code does.
// TestZerosTakeTablesOnly writes a page whose extents fill segments by themselves, and then one chunk that is not zero.
func TestZerosTakeTablesOnly(t *testing.T) {
	sink, err := file.Memory()
	require.NoError(t, err)
	defer sink.Close()
	w, err := NewWriter(sink, Header{}, Options{})
	require.NoError(t, err)
	const zeroChunks = 150_000 // more than the extents of a segment
	page := Page{ID: 1, Size: (zeroChunks + 1) * Chunk, Version: 1, NUMANode: -1}
	zeros := Extent{Length: Chunk, Kind: KindBytes, Compression: Zeros}
	for range zeroChunks {
		require.NoError(t, w.addStored(&page, zeros, nil))
		zeros.Offset += Chunk
	}
	last := pattern(1, Chunk)
	require.NoError(t, w.Add(page, KindBytes, zeros.Offset, last, Zeros))
	_, err = w.Finish(1, page.Size)
	require.NoError(t, err)
	s := openBytes(t, sink.Bytes())
	require.NoError(t, s.Verify(nil))
	read := pattern(2, Chunk)
	require.NoError(t, s.ReadAt(1, KindBytes, read, zeros.Offset))
	require.True(t, bytes.Equal(last, read))
}

func TestSegmentsCanBeFilledByHand(t *testing.T) {
	sink, err := file.Memory()
	require.NoError(t, err)
	defer sink.Close()
	w, err := NewWriter(sink, Header{}, Options{AveragePageSize: 5000})
	require.NoError(t, err)
	m := newModel()
	stateBytes := uint64(0)
	for id := uint64(1); id <= 3000; id++ {
		s, err := w.Segment()
		require.NoError(t, err)
		assert.LessOrEqual(t, segmentHeader+pageBytes*cap(s.Pages)+extentBytes*cap(s.Extents), s.DataAt)
		size := 4096 + id%900
		at := int(roundUp(uint64(s.Used), 4096))
		if len(s.Pages) == cap(s.Pages) || len(s.Extents) == cap(s.Extents) || at+int(size) > len(s.Buffer) {
			require.NoError(t, w.Next())
			s, err = w.Segment()
			require.NoError(t, err)
			at = s.Used
		}
		bytes := pattern(id, size)
		copy(s.Buffer[at:], bytes)
		page := Page{ID: id, Size: size, FirstExtent: uint32(len(s.Extents)), Extents: 1}
		s.Pages = append(s.Pages, page)
		s.Extents = append(s.Extents, Extent{Length: uint32(size), Stored: uint32(size), At: uint32(at), CRC: checksum(bytes)})
		s.Used = at + int(size)
		stateBytes += size
		m.pages[id] = content{page: page.ofState(), bytes: bytes}
	}
	report, err := w.Finish(3000, stateBytes)
	require.NoError(t, err)
	assert.Equal(t, uint64(3000), report.Pages)
	assert.Equal(t, stateBytes, report.StoredBytes)
	assert.Equal(t, uint64(len(sink.Bytes())), report.FileBytes)
	s := openBytes(t, sink.Bytes())
	assert.Equal(t, report.ID, s.Header().ID)
	require.NoError(t, s.Verify(nil))
	requireLoad(t, s, m, nil)
}

// chain writes three files, each on the one before, and gives the state of each.
func chain(t testing.TB, directory string, compression Compression) (paths []string, states []model) {
	ids := []ID{{1}, {2}, {3}}
	base := newModel()
	for id := uint64(1); id <= 12; id++ {
		base.put(t, id, pattern(id, 5000), "name")
	}
	end := uint64(40 * Chunk) // of a page of several segments
	if raceDetector {
		end = 20 * Chunk
	}
	base.put(t, 20, pattern(20, end+9), "huge")
	base.put(t, 22, pattern(22, 3*Chunk), "three")
	base.put(t, 24, pattern(24, 2*Chunk))
	base.edges = [][2]uint64{{1, 2}, {2, 3}, {3, 4}}

	second := base.clone()
	change := func(m model, id uint64, offsets ...uint64) {
		one := m.pages[id]
		one.bytes = bytes.Clone(one.bytes)
		for _, offset := range offsets {
			copy(one.bytes[offset:], pattern(offset+id+one.page.Version, 100))
		}
		one.page.Version += 100
		one.page.Epoch++
		m.pages[id] = one
	}
	change(second, 20, 0, 17*Chunk, end)
	change(second, 22, Chunk)
	change(second, 24)
	second.put(t, 1, pattern(101, 6000), "name", "second")
	second.put(t, 30, pattern(30, 700))
	delete(second.pages, 2)
	delete(second.pages, 3)
	delete(second.pages, 4)
	second.edges = [][2]uint64{{1, 5}}

	third := second.clone()
	change(third, 20, 17*Chunk, 18*Chunk)
	third.put(t, 2, pattern(202, 17), "back")
	third.put(t, 22, pattern(222, 3*Chunk-1))
	delete(third.pages, 30)
	delete(third.pages, 5)
	third.edges = [][2]uint64{{1, 6}, {6, 7}}

	states = []model{base, second, third}
	for number, p := range []parts{
		{whole: base.ids()},
		{whole: []uint64{1, 30}, changes: map[uint64][]uint64{20: {0, 17 * Chunk, end}, 22: {Chunk}, 24: nil},
			removed: []uint64{2, 3, 4, 777}},
		{whole: []uint64{2, 22}, changes: map[uint64][]uint64{20: {17 * Chunk, 18 * Chunk}}, removed: []uint64{5, 30}},
	} {
		path := filepath.Join(directory, strconv.Itoa(number)+".mmsb")
		header := Header{ID: ids[number], Taken: noon, Position: uint64(number)}
		if number > 0 {
			header.Base, header.BaseName = ids[number-1], filepath.Base(paths[number-1])
		}
		store(t, path, write(t, header, states[number], p, compression))
		paths = append(paths, path)
	}
	return paths, states
}

func TestAChainGivesTheStateOfItsNewestFile(t *testing.T) {
	for _, compression := range []Compression{Uncompressed, Zstd} {
		paths, states := chain(t, t.TempDir(), compression)
		for number, path := range paths {
			s := openPath(t, path)
			assert.Len(t, s.Chain(), number+1)
			requireState(t, s, states[number])
		}
		s := openPath(t, paths[2])
		for _, gone := range []uint64{30, 5, 3, 777} {
			_, err := s.Find(gone)
			assert.Equal(t, status.NotFound, status.CodeOf(err))
		}
		// The same walk when everything is known of the chain.
		_, err := s.Find(1)
		require.NoError(t, err)
		requireLoad(t, s, states[2], nil)
	}
}

func TestABaseIsFoundInItsDirectoryOnly(t *testing.T) {
	directory := t.TempDir()
	paths, states := chain(t, directory, Uncompressed)
	newest, err := os.ReadFile(paths[2])
	require.NoError(t, err)
	_, err = OpenSource(file.Bytes(newest), OpenOptions{})
	assert.Equal(t, status.NotFound, status.CodeOf(err))
	assert.ErrorContains(t, err, "1.mmsb")

	t.Run("moved together", func(t *testing.T) {
		moved := filepath.Join(t.TempDir(), "elsewhere")
		require.NoError(t, os.Rename(directory, moved))
		defer func() { require.NoError(t, os.Rename(moved, directory)) }()
		requireState(t, openPath(t, filepath.Join(moved, "2.mmsb")), states[2])
	})
	base, err := os.ReadFile(paths[0])
	require.NoError(t, err)
	refused := func(code status.Code, text string) {
		t.Helper()
		_, err := Open(paths[2], OpenOptions{})
		assert.Equal(t, code, status.CodeOf(err), "%v", err)
		assert.ErrorContains(t, err, text)
	}
	require.NoError(t, os.Remove(paths[0]))
	refused(status.NotFound, "1.mmsb needs its base 0.mmsb")

	elsewhere := filepath.Join(t.TempDir(), "0.mmsb")
	store(t, elsewhere, base)
	require.NoError(t, os.Symlink(elsewhere, paths[0]))
	refused(status.IO, "symbolic link")
	require.NoError(t, os.Remove(paths[0]))
	require.NoError(t, os.Mkdir(paths[0], 0o700))
	refused(status.IO, "0.mmsb")
	require.NoError(t, os.Remove(paths[0]))

	store(t, paths[0], whole(t, states[0], Uncompressed))
	refused(status.Mismatch, ID{1}.String())
	store(t, paths[0], base[:len(base)-unitBytes])
	refused(status.Corrupt, "0.mmsb")
	store(t, paths[0], newest)
	refused(status.Mismatch, "0.mmsb")
	original, err := os.ReadFile(testdata("original", "five-pages.mmsbsnap"))
	require.NoError(t, err)
	store(t, paths[0], original)
	refused(status.Mismatch, "0.mmsb")
}

func TestAChainWithoutEndIsAnError(t *testing.T) {
	directory := t.TempDir()
	for name, header := range map[string]Header{
		"a": {ID: ID{1}, Base: ID{2}, BaseName: "b"}, "b": {ID: ID{2}, Base: ID{3}, BaseName: "c"},
		"c": {ID: ID{3}, Base: ID{1}, BaseName: "a"},
	} {
		store(t, filepath.Join(directory, name), write(t, header, newModel(), parts{}, Uncompressed))
	}
	_, err := Open(filepath.Join(directory, "a"), OpenOptions{})
	assert.Equal(t, status.Corrupt, status.CodeOf(err))
	assert.ErrorContains(t, err, "is a cycle")
}

func TestBaseNamesLeadNowhereElse(t *testing.T) {
	good := write(t, Header{ID: ID{1}, Base: ID{2}, BaseName: "base"}, newModel(), parts{}, Uncompressed)
	for _, name := range []string{"", ".", "..", "../x", "/etc/passwd", "a/b", "a\x00b", "\xff\xfe", string(make([]byte, 256))} {
		sink, err := file.Memory()
		require.NoError(t, err)
		_, err = NewWriter(sink, Header{Base: ID{2}, BaseName: name}, Options{})
		assert.Equal(t, status.InvalidArgument, status.CodeOf(err), "%q", name)
		sink.Abort()

		raw := bytes.Clone(good)
		binary.LittleEndian.PutUint32(raw[68:], uint32(len(name)))
		clear(raw[72:headerReservedAt])
		copy(raw[72:headerReservedAt], name)
		require.True(t, snapshottest.Seal(raw))
		_, err = OpenSource(file.Bytes(raw), OpenOptions{Base: func(string) (file.Source, error) {
			t.Errorf("%q was opened", name)
			return nil, os.ErrNotExist
		}})
		assert.Equal(t, status.Corrupt, status.CodeOf(err), "%q", name)
	}
}

func TestChangesOfAPageThatTheBaseDoesNotHave(t *testing.T) {
	directory := t.TempDir()
	base := newModel()
	base.put(t, 1, pattern(1, 2*Chunk))
	base.put(t, 3, pattern(3, 2*Chunk))
	store(t, filepath.Join(directory, "base"), write(t, Header{ID: ID{1}}, base, parts{whole: base.ids()}, Uncompressed))
	for name, edit := range map[string]func(m model) parts{
		"unknown": func(m model) parts {
			m.put(t, 5, pattern(5, 2*Chunk))
			return parts{changes: map[uint64][]uint64{5: {0}}}
		},
		"of another size": func(m model) parts {
			m.put(t, 3, pattern(5, 2*Chunk+1))
			return parts{changes: map[uint64][]uint64{3: {0}}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := base.clone()
			path := filepath.Join(directory, "change")
			store(t, path, write(t, Header{ID: ID{2}, Base: ID{1}, BaseName: "base"}, m, edit(m), Uncompressed))
			s := openPath(t, path)
			nothing := func(Loaded) error { return nil }
			_, err := s.index(nil)
			for _, err := range []error{
				err, s.Segments(LoadOptions{}, nothing), s.Segments(LoadOptions{TablesOnly: true}, nothing), s.Verify(nil),
				s.ReadAt(1, KindBytes, nil, 0),
			} {
				assert.Equal(t, status.Corrupt, status.CodeOf(err), "%v", err)
			}
		})
	}
}

func TestAnErrorOfTheCallerEndsTheWalk(t *testing.T) {
	s := openBytes(t, whole(t, big(t), Uncompressed))
	stop := status.Errorf(status.Busy, "stop")
	assert.Equal(t, stop, s.Segments(LoadOptions{}, func(Loaded) error { return stop }))
	assert.Equal(t, status.Cancelled, status.CodeOf(s.Verify(func(done, total uint64) bool {
		assert.LessOrEqual(t, done, total)
		return done < total/2
	})))
	for range s.Pages() {
		break
	}
	for range s.Edges() {
		break
	}
}

func TestInspectNeedsNoBase(t *testing.T) {
	paths, states := chain(t, t.TempDir(), Uncompressed)
	require.NoError(t, os.Remove(paths[1]))
	info, err := Inspect(paths[2], OpenOptions{})
	require.NoError(t, err)
	pages, bytes := states[2].totals()
	assert.Equal(t, pages, info.StatePages)
	assert.Equal(t, bytes, info.StateBytes)
	assert.Equal(t, "1.mmsb", info.BaseName)
	assert.Equal(t, uint64(2), info.Removed)
	_, err = Inspect(paths[1], OpenOptions{})
	assert.Equal(t, status.NotFound, status.CodeOf(err))
}

func TestReadingAtTheSameTime(t *testing.T) {
	paths, states := chain(t, t.TempDir(), Zstd)
	s := openPath(t, paths[2])
	for range 4 {
		t.Run("reader", func(t *testing.T) {
			t.Parallel()
			other := openPath(t, paths[2])
			for id, one := range states[2].pages {
				requirePage(t, other, id, one)
			}
		})
	}
	done := make(chan error)
	for range 4 {
		go func() {
			var first error
			for id, one := range states[2].pages {
				buffer := make([]byte, one.page.Size)
				if err := s.ReadAt(id, KindBytes, buffer, 0); err != nil && first == nil {
					first = err
				}
				if !bytes.Equal(buffer, one.bytes) && first == nil {
					first = status.Errorf(status.Corrupt, "page %d", id)
				}
			}
			done <- first
		}()
	}
	for range 4 {
		require.NoError(t, <-done)
	}
}
