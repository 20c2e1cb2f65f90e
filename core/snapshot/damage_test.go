package snapshot

import (
	"bytes"
	"encoding/binary"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"libmmsb/core/file"
	"libmmsb/core/snapshot/snapshottest"
	"libmmsb/core/status"
)

// verdict opens and reads everything.
func verdict(raw []byte) error {
	s, err := OpenSource(file.Bytes(raw), OpenOptions{})
	if err != nil {
		return err
	}
	return readAll(s)
}

// damaged says whether an error is one for files that are damaged or not ours.
func damaged(err error) bool {
	code := status.CodeOf(err)
	return code == status.Corrupt || code == status.Format || code == status.NotFound // a bit of the base's id
}

// step is smaller where the race detector does not make everything ten times as slow. Nothing in these tests runs at the same
// time.
func step(usual int) int {
	if raceDetector {
		return 61 * usual
	}
	return usual
}

// quickVerdict is what Verify does, without the large buffers that it reads with.
func quickVerdict(raw []byte) error {
	s, err := OpenSource(file.Bytes(raw), OpenOptions{})
	if err != nil {
		return err
	}
	v := s.volumes[0]
	content := metadataCheck{v: v}
	for number := range v.segments() {
		at, length := v.bounds(number)
		if err := content.segment(number, raw[at:at+length]); err != nil {
			return err
		}
	}
	if err := content.flush(); err != nil {
		return err
	}
	_, err = s.index(nil)
	return err
}

// segment looks at all of a segment by itself.
func (m *metadataCheck) segment(number int, raw []byte) error {
	t, err := m.v.loaded(number, raw)
	if err == nil {
		err = m.v.checkData(t, raw, true, true)
	}
	if err == nil {
		err = m.add(t, raw)
	}
	return err
}

func TestEveryFlippedBitIsFound(t *testing.T) {
	for compression, usual := range map[Compression]int{Uncompressed: 1, Zstd: 7} {
		raw := whole(t, small(t), compression)
		require.NoError(t, quickVerdict(raw))
		require.Less(t, len(raw), 40<<10)
		for bit := 0; bit < 8*len(raw); bit += step(usual) {
			raw[bit/8] ^= 1 << (bit % 8)
			err := quickVerdict(raw)
			if !damaged(err) {
				t.Fatalf("bit %d of byte %d: %v", bit%8, bit/8, err)
			}
			raw[bit/8] ^= 1 << (bit % 8)
		}
	}
}

// TestNoWrongByteIsRead looks at flipped bits by the ways of reading that do not look at everything.
func TestNoWrongByteIsRead(t *testing.T) {
	for _, compression := range []Compression{Uncompressed, Zstd} {
		m := small(t)
		raw := whole(t, m, compression)
		for at := 0; at < len(raw); at += step(1 + at%7) {
			raw[at] ^= 0x10
			if s, err := OpenSource(file.Bytes(raw), OpenOptions{}); err == nil {
				for id, one := range m.pages {
					buffer := make([]byte, one.page.Size)
					if s.ReadAt(id, KindBytes, buffer, 0) == nil && !bytes.Equal(buffer, one.bytes) {
						t.Fatalf("byte %d: page %d is wrong", at, id)
					}
					if view, err := s.View(id); err == nil && !bytes.Equal(view, one.bytes) {
						t.Fatalf("byte %d: view of page %d is wrong", at, id)
					}
					if blob, err := s.Metadata(id); err == nil && !bytes.Equal(blob, one.metadata) {
						t.Fatalf("byte %d: metadata of page %d is wrong", at, id)
					}
				}
			}
			raw[at] ^= 0x10
		}
	}
}

func TestEveryTruncationIsFound(t *testing.T) {
	raw := whole(t, small(t), Uncompressed)
	for length := range len(raw) {
		_, err := OpenSource(file.Bytes(raw[:length]), OpenOptions{})
		require.Equal(t, status.Corrupt, status.CodeOf(err), "%d bytes: %v", length, err)
	}
	for _, more := range []int{1, unitBytes, len(raw)} {
		_, err := OpenSource(file.Bytes(append(bytes.Clone(raw), make([]byte, more)...)), OpenOptions{})
		assert.Equal(t, status.Corrupt, status.CodeOf(err))
	}
}

func TestOthersAndNewerFilesAreOfAnotherFormat(t *testing.T) {
	raw := whole(t, small(t), Uncompressed)
	for _, version := range []uint32{0, 1, Version + 1, 1 << 31} {
		newer := bytes.Clone(raw)
		binary.LittleEndian.PutUint32(newer[8:], version)
		require.True(t, snapshottest.Seal(newer))
		err := verdict(newer)
		assert.Equal(t, status.Format, status.CodeOf(err))
		assert.ErrorContains(t, err, "version")
	}
	for _, other := range []string{"PK\x03\x04 an archive", "M", "MMSBSNAQ\x03\x00\x00\x00"} {
		err := verdict([]byte(other))
		if other == "M" {
			assert.Equal(t, status.Corrupt, status.CodeOf(err))
		} else {
			assert.Equal(t, status.Format, status.CodeOf(err), "%q", other)
		}
	}
}

// The places in the file of small: the header, a segment of pages, one of dependencies, the segment table, the footer.
const (
	pagesAt  = unitBytes
	entry    = pagesAt + segmentHeader
	extentAt = entry + 4*pageBytes
)

func put32(at int, value uint32) func(raw []byte) {
	return func(raw []byte) { binary.LittleEndian.PutUint32(raw[at:], value) }
}

func put64(at int, value uint64) func(raw []byte) {
	return func(raw []byte) { binary.LittleEndian.PutUint64(raw[at:], value) }
}

func TestErrorsNameFilePageAndOffset(t *testing.T) {
	path := t.TempDir() + "/name.mmsb"
	raw := whole(t, small(t), Uncompressed)
	raw[2*unitBytes] ^= 1
	store(t, path, raw)
	_, err := Verify(path, VerifyOptions{})
	assert.Equal(t, status.Corrupt, status.CodeOf(err))
	assert.ErrorContains(t, err, path+": page 1 is damaged: 10 bytes at file offset 8192 (kind 0, offset 0)")
}

func TestSwappedPartsAreFound(t *testing.T) {
	m := newModel()
	for id := uint64(1); id <= 300; id++ {
		m.pages[id] = content{page: Page{ID: id, Size: 64 << 10}, bytes: pattern(id, 64<<10)}
	}
	raw := whole(t, m, Uncompressed)
	require.NoError(t, verdict(raw))
	swap := func(a, b, length int) []byte {
		swapped := bytes.Clone(raw)
		copy(swapped[a:], raw[b:b+length])
		copy(swapped[b:], raw[a:a+length])
		return swapped
	}
	s := openBytes(t, raw)
	pieces := func(id uint64) int {
		found, err := s.Extents(id)
		require.NoError(t, err)
		return int(found[0].FileOffset)
	}
	assert.Equal(t, status.Corrupt, status.CodeOf(verdict(swap(pieces(3), pieces(4), 64<<10))), "pages")
	v := s.volumes[0]
	require.Equal(t, v.offsets[2]-v.offsets[1], v.offsets[3]-v.offsets[2], "segments of one length")
	segments := swap(int(v.offsets[1]), int(v.offsets[2]), int(v.offsets[2]-v.offsets[1]))
	assert.Equal(t, status.Corrupt, status.CodeOf(verdict(segments)), "segments")
	table := len(raw) - 2*unitBytes
	order := swap(table+8, table+16, 8)
	require.True(t, snapshottest.Seal(order))
	assert.Equal(t, status.Corrupt, status.CodeOf(verdict(order)), "offsets")

	t.Run("segment of another snapshot", func(t *testing.T) {
		other := write(t, Header{ID: ID{9}}, m, parts{whole: m.ids()}, Uncompressed)
		mixed := bytes.Clone(raw)
		copy(mixed[v.offsets[1]:v.offsets[2]], other[v.offsets[1]:v.offsets[2]])
		require.True(t, snapshottest.Seal(mixed))
		assert.ErrorContains(t, verdict(mixed), "belongs to snapshot "+ID{9}.String())
	})
	t.Run("a segment is missing", func(t *testing.T) {
		// The page of the last entry before and the first one behind are whole: only numbers and sums tell.
		short := append(bytes.Clone(raw[:v.offsets[1]]), raw[v.offsets[2]:]...)
		length := v.offsets[2] - v.offsets[1]
		table := short[len(short)-2*unitBytes:]
		for number := range 3 {
			at := binary.LittleEndian.Uint64(table[8*number+8:])
			binary.LittleEndian.PutUint64(table[8*number:], at)
			if number > 0 {
				binary.LittleEndian.PutUint64(table[8*number:], at-length)
			}
		}
		put32(len(short)-unitBytes+12, uint32(v.totals.Segments-1))(short)
		put64(len(short)-unitBytes+32, uint64(len(short)-2*unitBytes))(short)
		put64(len(short)-unitBytes+40, uint64(len(short)))(short)
		snapshottest.Seal(short)
		assert.Equal(t, status.Corrupt, status.CodeOf(verdict(short)))
	})
}

func TestAFrameThatHoldsMoreThanItMayIsAnError(t *testing.T) {
	page := Page{ID: 1, Size: 100}
	for _, length := range []int{99, 101, 1 << 28} {
		frame := bytes.Clone(newCompressor().encode(make([]byte, length)))
		for len(frame) >= 100 { // a frame of many zstd blocks; its beginning will do
			frame = frame[:99]
		}
		sink, err := file.Memory()
		require.NoError(t, err)
		w, err := NewWriter(sink, Header{}, Options{})
		require.NoError(t, err)
		require.NoError(t, w.addStored(&page, Extent{Length: 100, Compression: Zstd, CRC: checksum(frame)}, frame))
		_, err = w.Finish(1, 100)
		require.NoError(t, err)
		s := openBytes(t, sink.Bytes())
		for _, err := range []error{s.Verify(nil), s.ReadAt(1, KindBytes, make([]byte, 1), 0)} {
			assert.Equal(t, status.Corrupt, status.CodeOf(err))
			assert.ErrorContains(t, err, "page 1 is damaged")
		}
		sink.Close()
	}
}

func TestSizesThatAddUpToTooMuchAreAnError(t *testing.T) {
	// Pages of which only changes are stored can have any size; their base is as large.
	header := Header{ID: ID{2}, Base: ID{1}, BaseName: "base"}
	huge := func(flags uint32) []byte {
		sink, err := file.Memory()
		require.NoError(t, err)
		defer sink.Close()
		w, err := NewWriter(sink, header, Options{})
		require.NoError(t, err)
		for id := range uint64(3) {
			require.NoError(t, w.Add(Page{ID: id + 1, Size: 1 << 62, Flags: flags}, KindBytes, 0, nil, Uncompressed))
		}
		_, err = w.Finish(3, 0)
		require.NoError(t, err)
		return bytes.Clone(sink.Bytes())
	}
	s, err := OpenSource(file.Bytes(huge(FlagChanges)), OpenOptions{Base: func(string) (file.Source, error) {
		return file.Bytes(write(t, Header{ID: ID{1}}, newModel(), parts{}, Uncompressed)), nil
	}})
	require.NoError(t, err)
	assert.Equal(t, status.Corrupt, status.CodeOf(s.Verify(nil)))
	counts := state{}
	require.NoError(t, counts.add("a", 1, 1<<62))
	assert.Equal(t, status.Corrupt, status.CodeOf(counts.add("a", 2, 1<<62)))
}

func TestAFileThatBecomesShorterIsAnError(t *testing.T) {
	path := t.TempDir() + "/short"
	raw := whole(t, small(t), Uncompressed)
	store(t, path, raw)
	s := openPath(t, path)
	require.NoError(t, os.Truncate(path, 2*unitBytes))
	assert.Equal(t, status.Corrupt, status.CodeOf(s.Verify(nil)))
	assert.Equal(t, status.Corrupt, status.CodeOf(s.ReadAt(1, KindBytes, make([]byte, 1), 0)))
}
