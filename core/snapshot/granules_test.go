package snapshot

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"libmmsb/core/file"
	"libmmsb/core/snapshot/snapshottest"
	"libmmsb/core/status"
)

// scatter changes some granules of a page and says which.
func scatter(random *rand.Rand, one content, share float64) (content, []Range) {
	one.bytes = bytes.Clone(one.bytes)
	var changed []Range
	for at := uint64(0); at < one.page.Size; at += Granule {
		if random.Float64() >= share {
			continue
		}
		r := Range{at, min(Granule, one.page.Size-at)}
		copy(one.bytes[at:r.end()], pattern(random.Uint64(), r.Length))
		if last := len(changed) - 1; last >= 0 && changed[last].end() == at && at%Chunk != 0 {
			changed[last].Length += r.Length
		} else {
			changed = append(changed, r)
		}
	}
	one.page.Version++
	return one, changed
}

// TestChangedGranulesLieOverTheirBase reads chains in which newer files have granules of chunks of older ones, stored in every
// way.
func TestChangedGranulesLieOverTheirBase(t *testing.T) {
	chains := [][]Compression{
		{Zeros, Uncompressed, Zstd, Zeros}, {Uncompressed, Uncompressed, Uncompressed, Uncompressed}, {Zstd, Zstd, Zstd, Zstd},
		{Zstd, Uncompressed, Uncompressed, Zeros},
	}
	if raceDetector {
		chains = [][]Compression{{Uncompressed, Zstd, Zeros}}
	}
	for seed, compressions := range chains {
		t.Run(fmt.Sprint(compressions), func(t *testing.T) {
			random := rand.New(rand.NewPCG(uint64(seed), 3))
			directory := t.TempDir()
			m := newModel()
			m.put(t, 1, bytes.Repeat([]byte("a page that can be compressed "), (3*Chunk+5000)/30))
			m.put(t, 3, make([]byte, 2*Chunk))
			m.put(t, 4, pattern(4, Chunk+100), "key")
			states, paths := []model{}, []string{}
			for number, compression := range compressions {
				header := Header{ID: ID{byte(number + 1)}, Taken: noon}
				p := parts{whole: m.ids()}
				if number > 0 {
					header.Base, header.BaseName = ID{byte(number)}, filepath.Base(paths[number-1])
					m, p = m.clone(), parts{granules: map[uint64][]Range{}}
					for _, id := range m.ids() {
						m.pages[id], p.granules[id] = scatter(random, m.pages[id], 0.1*float64(number))
					}
				}
				paths = append(paths, filepath.Join(directory, fmt.Sprint(number)))
				store(t, paths[number], write(t, header, m, p, compression))
				states = append(states, m)
				s := openPath(t, paths[number])
				requireState(t, s, m)
				if number > 0 {
					_, err := s.View(1)
					assert.Equal(t, status.Unsupported, status.CodeOf(err))
				}
			}
			for i, a := range states {
				for j, b := range states {
					from, to := openPath(t, paths[i]), openPath(t, paths[j])
					want := differencesOf(a, b)
					for d, err := range Diff(from, to, nil) {
						require.NoError(t, err)
						require.Equal(t, want[d.ID], d, "from %d to %d", i, j)
						delete(want, d.ID)
						requireRanges(t, from, to, d.ID, a.pages[d.ID].bytes, b.pages[d.ID].bytes)
					}
					assert.Empty(t, want, "from %d to %d", i, j)
				}
			}
			to := filepath.Join(directory, "whole")
			_, err := Compact(paths[len(paths)-1], to, CompactOptions{})
			require.NoError(t, err)
			s := openPath(t, to)
			assert.Len(t, s.Chain(), 1)
			requireState(t, s, m)
		})
	}
}

func TestDamageUnderChangedBlocksIsFound(t *testing.T) {
	directory := t.TempDir()
	m := newModel()
	m.put(t, 1, pattern(1, Chunk))
	base := write(t, Header{ID: ID{1}}, m, parts{whole: m.ids()}, Uncompressed)
	m, p := m.clone(), parts{granules: map[uint64][]Range{}}
	m.pages[1], p.granules[1] = scatter(rand.New(rand.NewPCG(1, 2)), m.pages[1], 0.5)
	change := write(t, Header{ID: ID{2}, Base: ID{1}, BaseName: "base"}, m, p, Uncompressed)
	covered := p.granules[1][0].Offset
	base[2*unitBytes+covered] ^= 1 // nobody would see it
	store(t, filepath.Join(directory, "base"), base)
	store(t, filepath.Join(directory, "change"), change)
	s := openPath(t, filepath.Join(directory, "change"))
	assert.Equal(t, status.Corrupt, status.CodeOf(s.ReadAt(1, KindBytes, make([]byte, Chunk), 0)))
	assert.Equal(t, status.Corrupt, status.CodeOf(s.Verify(nil)))
	assert.Equal(t, status.Corrupt, status.CodeOf(s.Load(nil, func(Page, uint32, uint64, []byte) error { return nil })))
	_, err := s.Extract(1, discard{})
	assert.Equal(t, status.Corrupt, status.CodeOf(err))
}

func TestBlocksThatCannotBeAreLies(t *testing.T) {
	m := newModel()
	m.put(t, 1, pattern(1, 2*Chunk))
	p := parts{granules: map[uint64][]Range{1: {{Granule, 2 * Granule}, {5 * Granule, Granule}}}}
	raw := write(t, Header{ID: ID{2}, Base: ID{1}, BaseName: "base"}, m, p, Uncompressed)
	extent := func(number, field int) int { return pagesAt + segmentHeader + pageBytes + number*extentBytes + field }
	length := func(number int, bytes uint32) func(raw []byte) {
		return func(raw []byte) {
			put32(extent(number, 8), bytes)(raw)
			put32(extent(number, 12), bytes)(raw)
		}
	}
	for name, lie := range map[string]func(raw []byte){
		"not a block":            put64(extent(0, 0), 100),
		"past the page":          put64(extent(1, 0), 2*Chunk),
		"past everything":        put64(extent(1, 0), 1<<64-Granule),
		"backwards":              put64(extent(1, 0), 0),
		"over another":           put64(extent(1, 0), 2*Granule),
		"part of a block":        length(0, 100),
		"a block and a part":     length(0, Granule+100),
		"over the chunk's end":   put64(extent(0, 0), Chunk-Granule),
		"over the page's end":    put64(extent(1, 0), 2*Chunk-Granule+1),
		"changes of a whole one": put32(pagesAt+segmentHeader+44, 0),
	} {
		t.Run(name, func(t *testing.T) {
			lying := bytes.Clone(raw)
			lie(lying)
			require.True(t, snapshottest.Seal(lying))
			v, err := openVolume("lying", file.Bytes(lying))
			require.NoError(t, err)
			assert.Equal(t, status.Corrupt, status.CodeOf(verifyAlone(v, lying)))
		})
	}
	v, err := openVolume("honest", file.Bytes(raw))
	require.NoError(t, err)
	require.NoError(t, verifyAlone(v, raw))
}

// verifyAlone looks at a file without its base.
func verifyAlone(v *volume, raw []byte) error {
	check, content := sequence{v: v}, metadataCheck{v: v}
	for number := range v.segments() {
		at, length := v.bounds(number)
		t, err := v.loaded(number, raw[at:at+length])
		if err == nil {
			_, err = check.add(t)
		}
		if err == nil {
			err = content.segment(number, raw[at:at+length])
		}
		if err != nil {
			return err
		}
	}
	return check.finish(nil)
}

// TestUncovered compares with a look at each byte.
func TestUncovered(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 7))
	for range 2000 {
		hidden := map[uint64]bool{}
		var others []Range
		for at := random.Uint64N(5); at < 30; at += 1 + random.Uint64N(6) {
			r := Range{at, 1 + random.Uint64N(5)}
			others = append(others, r)
			for ; at < r.end(); at++ {
				hidden[at] = true
			}
		}
		bounds := Range{random.Uint64N(20), 1 + random.Uint64N(20)}
		want := map[uint64]bool{}
		for at := bounds.Offset; at < bounds.end(); at++ {
			want[at] = !hidden[at]
		}
		maps.DeleteFunc(want, func(_ uint64, seen bool) bool { return !seen })
		got := map[uint64]bool{}
		left := uncovered(bounds, others)
		for number, r := range left {
			require.NotZero(t, r.Length)
			require.True(t, number == 0 || left[number-1].end() < r.Offset)
			for at := r.Offset; at < r.end(); at++ {
				got[at] = true
			}
		}
		require.Equal(t, want, got, "%v without %v", bounds, others)
	}
}

// A page may go on behind segments of other kinds.
func TestAPageGoesOnBehindOtherSegments(t *testing.T) {
	m := newModel()
	m.put(t, 1, pattern(1, 100))
	m.put(t, 2, pattern(2, 300), "name")
	base := Header{ID: ID{1}}
	raw := write(t, base, m, parts{whole: []uint64{1}}, Uncompressed)
	sink, err := file.Memory()
	require.NoError(t, err)
	defer sink.Close()
	w, err := NewWriter(sink, Header{ID: ID{2}, Base: base.ID, BaseName: "base"}, Options{})
	require.NoError(t, err)
	one := m.pages[2]
	require.NoError(t, w.Add(one.page, KindBytes, 0, one.bytes, Uncompressed))
	require.NoError(t, w.Removed([]uint64{1, 7}))
	require.NoError(t, w.Add(one.page, KindMask, 0, one.mask, Uncompressed))
	require.NoError(t, w.Edges([][2]uint64{{2, 7}}))
	require.NoError(t, w.Add(one.page, KindMetadata, 0, one.metadata, Uncompressed))
	_, err = w.Finish(1, one.page.Size)
	require.NoError(t, err)
	s, err := OpenSource(file.Bytes(bytes.Clone(sink.Bytes())), OpenOptions{Base: func(string) (file.Source, error) {
		return file.Bytes(raw), nil
	}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	delete(m.pages, 1)
	m.edges = [][2]uint64{{2, 7}}
	requireState(t, s, m)
}

// A page may take the place of one with its id that the file removes, once.
func TestAPageWhosePlaceIsTakenIsRemovedOnce(t *testing.T) {
	m := newModel()
	m.put(t, 1, pattern(1, 100))
	base := Header{ID: ID{1}}
	raw := write(t, base, m, parts{whole: []uint64{1}}, Uncompressed)
	for behind, code := range map[bool]status.Code{false: status.OK, true: status.Corrupt} {
		sink, err := file.Memory()
		require.NoError(t, err)
		defer sink.Close()
		w, err := NewWriter(sink, Header{ID: ID{2}, Base: base.ID, BaseName: "base"}, Options{})
		require.NoError(t, err)
		require.NoError(t, w.Removed([]uint64{1}))
		one := m.pages[1]
		require.NoError(t, w.Add(one.page, KindBytes, 0, one.bytes, Uncompressed))
		if behind {
			require.NoError(t, w.Removed([]uint64{1}))
		}
		_, err = w.Finish(1, one.page.Size)
		require.NoError(t, err)
		s, err := OpenSource(file.Bytes(sink.Bytes()), OpenOptions{Base: func(string) (file.Source, error) {
			return file.Bytes(raw), nil
		}})
		require.NoError(t, err)
		_, err = s.Find(1)
		require.Equal(t, code, status.CodeOf(err), "%v", err)
		require.NoError(t, s.Close())
	}
}

// A file may remove many pages that are nowhere: their ids take what the file has of them.
func TestRemovedIDsTakeWhatTheFileHas(t *testing.T) {
	const count = 2 << 20
	m := newModel()
	m.put(t, count, pattern(1, 100)) // one of them
	m.put(t, count+1, pattern(2, 100))
	base := Header{ID: ID{1}}
	raw := write(t, base, m, parts{whole: []uint64{count, count + 1}}, Uncompressed)
	ids := make([]uint64, count)
	for i := range ids {
		ids[i] = uint64(count - i)
	}
	left := newModel()
	left.put(t, count+1, pattern(2, 100))
	change := write(t, Header{ID: ID{2}, Base: base.ID, BaseName: "base"}, left, parts{removed: ids}, Uncompressed)
	for name, look := range map[string]func(s *Snapshot) error{
		"one page": func(s *Snapshot) error {
			_, err := s.Find(count + 1)
			_, gone := s.Find(count)
			assert.Equal(t, status.NotFound, status.CodeOf(gone))
			return err
		},
		"all": func(s *Snapshot) error {
			return s.Load(nil, func(page Page, _ uint32, _ uint64, _ []byte) error {
				assert.Equal(t, uint64(count+1), page.ID)
				return nil
			})
		},
	} {
		s, err := OpenSource(file.Bytes(change), OpenOptions{Base: func(string) (file.Source, error) {
			return file.Bytes(raw), nil
		}})
		require.NoError(t, err)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		require.NoError(t, look(s), name)
		runtime.ReadMemStats(&after)
		assert.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(3*len(change)+16<<20), name) // with tables that come and go
		require.NoError(t, s.Close())
	}
}
