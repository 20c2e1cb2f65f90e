package snapshot

import (
	"bytes"
	"encoding/binary"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"libmmsb/core/file"
	"libmmsb/core/snapshot/snapshottest"
	"libmmsb/core/status"
)

// tryAll opens and reads everything: whatever the bytes are, there is an error of those that are documented, or what is read
// is the same by all ways.
func tryAll(t *testing.T, raw []byte, bases map[string][]byte) {
	s, err := OpenSource(file.Bytes(raw), OpenOptions{Base: func(name string) (file.Source, error) {
		if base, ok := bases[name]; ok {
			return file.Bytes(base), nil
		}
		return nil, status.Errorf(status.NotFound, "no %q", name)
	}})
	if err == nil {
		defer func() { require.NoError(t, s.Close()) }()
		_, err = s.index(nil)
	}
	if err == nil {
		for _, v := range s.volumes {
			check := metadataCheck{v: v}
			for number := range v.segments() {
				at, length := v.bounds(number)
				whole := make([]byte, length)
				require.NoError(t, read(v.name, v.source, whole, at))
				if err == nil {
					err = check.segment(number, whole)
				}
			}
			if err == nil {
				err = check.flush()
			}
		}
	}
	if err != nil {
		switch status.CodeOf(err) {
		case status.Corrupt, status.Format, status.Mismatch, status.NotFound:
		default:
			t.Fatalf("%v", err)
		}
		if s == nil {
			return
		}
	}
	good := err == nil
	if pages := s.Totals().Pages; good && pages > 1000 {
		return
	}
	for page, err := range s.Pages() {
		if good {
			require.NoError(t, err)
		}
		if err != nil || page.Size > 1<<20 {
			break
		}
		content := make([]byte, page.Size)
		readError := s.ReadAt(page.ID, KindBytes, content, 0)
		var extracted bytes.Buffer
		_, extractError := s.Extract(page.ID, &extracted)
		view, viewError := s.View(page.ID)
		_, metadataError := s.Metadata(page.ID)
		if good {
			require.NoError(t, readError)
			require.NoError(t, extractError)
			require.NoError(t, metadataError)
			require.True(t, bytes.Equal(content, extracted.Bytes()))
		}
		if viewError == nil {
			require.NoError(t, readError)
			require.True(t, bytes.Equal(content, view))
		}
	}
	for _, err := range s.Edges() {
		if good {
			require.NoError(t, err)
		}
	}
}

// FuzzOpen changes bytes of good files, five bytes of edits each, and makes the checksums right again, else nothing behind
// them would be reached.
func FuzzOpen(f *testing.F) {
	files, bases := [][]byte{whole(f, small(f), Uncompressed), whole(f, small(f), Zstd)}, map[string][]byte{}
	for _, name := range []string{"whole.mmsb", "change.mmsb", "blocks.mmsb", "zstd.mmsb"} {
		raw, err := os.ReadFile(testdata("version3", name))
		require.NoError(f, err)
		files = append(files, raw)
		bases[name] = raw
	}
	const editBytes = 5
	for number := range files {
		f.Add(uint8(number), uint32(0), true, []byte{})
		f.Add(uint8(number), uint32(unitBytes), true, []byte{60, 16, 0, 0, 1})           // in an entry
		f.Add(uint8(number), uint32(0), true, []byte{0, 16, 0, 0, 1, 40, 16, 0, 0, 255}) // in a segment
		f.Add(uint8(number), uint32(1), false, []byte{})
	}
	f.Fuzz(func(t *testing.T, number uint8, cut uint32, sealed bool, edits []byte) {
		raw := bytes.Clone(files[int(number)%len(files)])
		for ; len(edits) >= editBytes; edits = edits[editBytes:] {
			raw[binary.LittleEndian.Uint32(edits)%uint32(len(raw))] ^= edits[4]
		}
		raw = raw[:len(raw)-int(cut%uint32(len(raw)))]
		if sealed {
			snapshottest.Seal(raw)
		}
		tryAll(t, raw, bases)
	})
}

// FuzzOriginal reads files of version 2.
func FuzzOriginal(f *testing.F) {
	five, err := os.ReadFile(testdata("original", "five-pages.mmsbsnap"))
	require.NoError(f, err)
	f.Add(five[12:200])
	f.Add(make([]byte, 12))
	a := content{page: Page{ID: 1, Size: 3}, bytes: []byte("abc"), metadata: []byte{0, 0, 0, 0}}
	blob := []byte("\x01\x00\x00\x00\x01\x00\x00\x00k\x00\x00\x00\x00")
	b := content{page: Page{ID: 7, Size: 1, Location: 2}, bytes: []byte("x"), metadata: blob}
	f.Add(originalFile(a)[12:])
	f.Add(originalFile(a, b)[12:])
	f.Fuzz(func(t *testing.T, rest []byte) {
		tryAll(t, append([]byte("MMSBSNAP\x02\x00\x00\x00"), rest...), nil)
	})
}
