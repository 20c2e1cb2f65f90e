package snapshot

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"libmmsb/core/file"
	"libmmsb/core/status"
)

func TestCompactMakesOneFileOfAChain(t *testing.T) {
	for _, compression := range []Compression{Uncompressed, Zstd} {
		directory := t.TempDir()
		paths, states := chain(t, directory, compression)
		to := filepath.Join(directory, "whole.mmsb")
		last := uint64(0)
		report, err := Compact(paths[2], to, CompactOptions{Progress: func(done, total uint64) bool {
			assert.GreaterOrEqual(t, done, last)
			assert.LessOrEqual(t, done, total)
			last = done
			return true
		}})
		require.NoError(t, err)
		assert.Equal(t, report.StateBytes, last)
		for _, path := range paths {
			require.NoError(t, os.Remove(path))
		}
		s := openPath(t, to)
		requireState(t, s, states[2])
		header := s.Header()
		assert.Equal(t, report.ID, header.ID)
		assert.NotEqual(t, ID{3}, header.ID)
		assert.Equal(t, ID{}, header.Base)
		assert.Equal(t, uint64(2), header.Position)
		assert.True(t, noon.Equal(header.Taken))
	}
}

func TestCompactOntoAFileOfItsChain(t *testing.T) {
	for target := range 3 {
		if raceDetector && target == 0 {
			continue
		}
		directory := t.TempDir()
		paths, states := chain(t, directory, Uncompressed)
		_, err := Compact(paths[2], paths[target], CompactOptions{Replace: ReplaceOptions{RefuseInUse: true}})
		if target < 2 {
			require.Equal(t, status.Busy, status.CodeOf(err), "%v", err)
			assert.ErrorContains(t, err, filepath.Base(paths[target+1]))
			_, err = Compact(paths[2], paths[target], CompactOptions{})
		}
		require.NoError(t, err)
		s := openPath(t, paths[target])
		assert.Len(t, s.Chain(), 1)
		requireState(t, s, states[2])
		for i, path := range paths { // what rested on the file that was replaced is as it was
			if i != target {
				requireState(t, openPath(t, path), states[i])
			}
		}
	}
}

func TestCompactLeavesNothingBehindAfterAnError(t *testing.T) {
	directory := t.TempDir()
	paths, _ := chain(t, directory, Uncompressed)
	to := filepath.Join(directory, "to")
	store(t, to, []byte("what was there"))
	_, err := Compact(paths[2], to, CompactOptions{Progress: func(uint64, uint64) bool { return false }})
	assert.Equal(t, status.Cancelled, status.CodeOf(err))
	raw, err := os.ReadFile(paths[0])
	require.NoError(t, err)
	raw[len(raw)-6*unitBytes] ^= 1
	store(t, paths[0], raw)
	_, err = Compact(paths[2], to, CompactOptions{})
	assert.Equal(t, status.Corrupt, status.CodeOf(err))
	raw, err = os.ReadFile(to)
	require.NoError(t, err)
	assert.Equal(t, "what was there", string(raw))
	names, err := os.ReadDir(directory)
	require.NoError(t, err)
	assert.Len(t, names, 4)
	_, err = Compact(filepath.Join(directory, "none"), to, CompactOptions{})
	assert.Equal(t, status.NotFound, status.CodeOf(err))
}

// differencesOf is the reference for Diff.
func differencesOf(a, b model) map[uint64]Difference {
	all := map[uint64]Difference{}
	for id, one := range a.pages {
		if _, both := b.pages[id]; !both {
			all[id] = Difference{ID: id, What: Removed, Before: one.page}
		}
	}
	for id, one := range b.pages {
		old, both := a.pages[id]
		d := Difference{ID: id, What: Added, After: one.page}
		if both {
			d.What, d.Before = Changed, old.page
			d.Bytes, d.Mask = !bytes.Equal(old.bytes, one.bytes), !bytes.Equal(old.mask, one.mask)
			d.Metadata = !bytes.Equal(old.metadata, one.metadata)
			d.Attributes = old.page.Size != one.page.Size || old.page.Epoch != one.page.Epoch
			if !d.Bytes && !d.Mask && !d.Metadata && !d.Attributes {
				continue
			}
		}
		all[id] = d
	}
	return all
}

func TestDiffFindsWhatDiffers(t *testing.T) {
	directory := t.TempDir()
	paths, states := chain(t, directory, Uncompressed)
	compressed := filepath.Join(directory, "compressed")
	store(t, compressed, write(t, Header{}, states[1], parts{whole: states[1].ids()}, Zstd))
	paths, states = append(paths, compressed), append(states, states[1])
	for i, a := range states {
		for j, b := range states {
			if raceDetector && i > j {
				continue
			}
			from, to := openPath(t, paths[i]), openPath(t, paths[j])
			want := differencesOf(a, b)
			last := uint64(0)
			for d, err := range Diff(from, to, nil) {
				require.NoError(t, err)
				assert.Greater(t, d.ID, last)
				last = d.ID
				require.Equal(t, want[d.ID], d, "from %d to %d: page %d", i, j, d.ID)
				delete(want, d.ID)
				if d.What == Changed {
					requireRanges(t, from, to, d.ID, a.pages[d.ID].bytes, b.pages[d.ID].bytes)
				}
			}
			assert.Empty(t, want, "from %d to %d", i, j)
			added, removed, err := DiffEdges(from, to)
			require.NoError(t, err)
			for _, pair := range a.edges {
				assert.NotContains(t, added, pair)
			}
			for _, pair := range b.edges {
				assert.NotContains(t, removed, pair)
			}
			assert.Equal(t, len(b.edges)-len(a.edges), len(added)-len(removed))
		}
	}
}

// requireRanges looks at each byte of the ranges, and that the others are equal.
func requireRanges(t *testing.T, from, to *Snapshot, id uint64, old, new []byte) {
	t.Helper()
	end := uint64(0)
	for r, err := range Ranges(from, to, id) {
		require.NoError(t, err)
		require.NotZero(t, r.Length)
		require.True(t, end == 0 || r.Offset > end, "ranges that touch are one")
		require.True(t, bytes.Equal(old[end:r.Offset], new[end:r.Offset]), "page %d up to %d", id, r.Offset)
		end = r.Offset + r.Length
		for at := r.Offset; at < end; at++ {
			if at < uint64(len(old)) && at < uint64(len(new)) && old[at] == new[at] {
				t.Fatalf("byte %d of page %d is the same", at, id)
			}
		}
	}
	require.LessOrEqual(t, end, uint64(max(len(old), len(new))))
	if len(old) == len(new) {
		require.True(t, bytes.Equal(old[end:], new[end:]), "page %d from %d on", id, end)
	} else {
		require.Equal(t, uint64(max(len(old), len(new))), end)
	}
}

func TestDiffOfASnapshotWithItselfIsEmpty(t *testing.T) {
	m := big(t)
	plain, compressed := openBytes(t, whole(t, m, Uncompressed)), openBytes(t, write(t, Header{}, m, parts{whole: m.ids()}, Zstd))
	for _, b := range []*Snapshot{plain, compressed} {
		for d, err := range Diff(plain, b, nil) {
			t.Errorf("%v %v", d, err)
		}
	}
}

// TestNoMaskIsOneOfZeros compares pages without a mask, with one of zeros, and with one bit.
func TestNoMaskIsOneOfZeros(t *testing.T) {
	masked := func(mask []byte, compression Compression) *Snapshot {
		m := newModel()
		m.put(t, 1, pattern(1, 3*8*Chunk))
		one := m.pages[1]
		one.mask = mask
		m.pages[1] = one
		return openBytes(t, write(t, Header{}, m, parts{whole: m.ids()}, compression))
	}
	none, set := masked(nil, Uncompressed), make([]byte, 3*Chunk)
	set[3*Chunk-1] = 0x80
	for _, compression := range []Compression{Uncompressed, Zstd, Zeros} {
		zeros := masked(make([]byte, 3*Chunk), compression)
		for d, err := range Diff(none, zeros, nil) {
			t.Errorf("%v %v", d, err)
		}
		for d, err := range Diff(zeros, none, nil) {
			t.Errorf("%v %v", d, err)
		}
		bit := masked(set, compression)
		for _, pair := range [][2]*Snapshot{{none, bit}, {bit, none}, {zeros, bit}} {
			count := 0
			for d, err := range Diff(pair[0], pair[1], nil) {
				require.NoError(t, err)
				assert.True(t, d.Mask && !d.Bytes && !d.Metadata && !d.Attributes, "%v", d)
				count++
			}
			assert.Equal(t, 1, count)
		}
	}
}

// brokenSink fails at the n-th call.
type brokenSink struct {
	file.Sink
	left    int
	aborted bool
}

var errFull = status.Errorf(status.NoSpace, "the disk is full")

func (b *brokenSink) step() error {
	if b.left--; b.left < 0 {
		return errFull
	}
	return nil
}

func (b *brokenSink) Buffer() ([]byte, error) {
	if err := b.step(); err != nil {
		return nil, err
	}
	return b.Sink.Buffer()
}

func (b *brokenSink) Write(buffer []byte, n int) error {
	if err := b.step(); err != nil {
		return err
	}
	return b.Sink.Write(buffer, n)
}

func (b *brokenSink) Finish() error {
	if err := b.step(); err != nil {
		return err
	}
	return b.Sink.Finish()
}

func (b *brokenSink) Abort() {
	b.aborted = true
	b.Sink.Abort()
}

func TestAWriterStaysFailed(t *testing.T) {
	s := openBytes(t, whole(t, big(t), Uncompressed))
	for calls := 0; ; calls++ {
		memory, err := file.Memory()
		require.NoError(t, err)
		sink := &brokenSink{Sink: memory, left: calls}
		_, err = s.CompactTo(sink, nil)
		if err == nil {
			assert.Greater(t, calls, 10)
			memory.Close()
			break
		}
		require.Equal(t, errFull, err, "after %d calls", calls)
		sink.Abort()
	}
	memory, err := file.Memory()
	require.NoError(t, err)
	sink := &brokenSink{Sink: memory, left: 3}
	w, err := NewWriter(sink, Header{}, Options{})
	require.NoError(t, err)
	require.NoError(t, w.Add(Page{ID: 1, Size: 1}, KindBytes, 0, []byte{1}, Uncompressed))
	require.Equal(t, errFull, w.Next())
	assert.Equal(t, errFull, w.Add(Page{ID: 1, Size: 1}, KindBytes, 0, []byte{1}, Uncompressed))
	assert.Equal(t, errFull, w.Removed([]uint64{1}))
	assert.Equal(t, errFull, w.Edges([][2]uint64{{1, 2}}))
	_, err = w.Finish(1, 1)
	assert.Equal(t, errFull, err)
	w.Abort()
	assert.True(t, sink.aborted)
}

func TestAWriterRefusesWhatCannotBe(t *testing.T) {
	memory, err := file.Memory()
	require.NoError(t, err)
	defer memory.Close()
	w, err := NewWriter(memory, Header{}, Options{})
	require.NoError(t, err)
	assert.Equal(t, status.InvalidArgument, status.CodeOf(w.Add(Page{ID: 1, Size: 9}, KindBytes, 4, []byte{1}, Uncompressed)))
	s, err := w.Segment()
	require.NoError(t, err)
	s.Pages = append(s.Pages, Page{ID: 1, Size: 100, Extents: 1})
	s.Extents = append(s.Extents, Extent{Length: 100, Stored: 100, At: uint32(s.Used)})
	assert.Equal(t, status.Internal, status.CodeOf(w.Next()), "data was not counted")
}
