package snapshot

import (
	"bytes"
	"encoding/binary"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"libmmsb/core/file"
	"libmmsb/core/metadata"
	"libmmsb/core/status"
)

// originalPages is what the original wrote into five-pages.mmsbsnap: testdata/snapshots/README.md.
func originalPages(t testing.TB) model {
	m := newModel()
	for _, one := range []struct {
		id, size uint64
		location int32
		metadata [][2]string
	}{
		{1, 4096, 0, [][2]string{{"name", "first page"}, {"step", "\x00\x01\x02\xff"}}},
		{7, 1, 0, nil},
		{42, 70000, 2, [][2]string{{"schlüssel", ""}}},
		{3, 100, 1, nil},
		{1 << 63, 5000, 0, nil},
	} {
		content := content{bytes: make([]byte, one.size)}
		for at := range content.bytes {
			content.bytes[at] = byte(31*uint64(at) + one.id)
		}
		content.bytes[0], content.bytes[one.size-1] = 0xa5, 0x5a
		if one.size == 1 {
			content.bytes[0] = 0x5a
		}
		for _, pair := range one.metadata {
			var err error
			content.metadata, err = metadata.Set(content.metadata, []byte(pair[0]), []byte(pair[1]))
			require.NoError(t, err)
		}
		content.page = Page{ID: one.id, Size: one.size, Location: one.location, Epoch: one.id%1000 + 1, Version: 1, NUMANode: -1,
			MetadataCount: uint32(len(one.metadata))}
		m.pages[one.id] = content
	}
	return m
}

func TestFilesOfTheOriginal(t *testing.T) {
	for name, m := range map[string]model{"empty": newModel(), "five-pages": originalPages(t)} {
		s := openPath(t, testdata("original", name+".mmsbsnap"))
		assert.Equal(t, uint32(OriginalVersion), s.Header().Version)
		requireState(t, s, m)

		path := t.TempDir() + "/new"
		_, err := Compact(testdata("original", name+".mmsbsnap"), path, CompactOptions{})
		require.NoError(t, err)
		converted := openPath(t, path)
		assert.Equal(t, uint32(Version), converted.Header().Version)
		requireState(t, converted, m)
	}
}

// originalFile writes version 2.
func originalFile(pages ...content) []byte {
	raw := []byte(magicHeader)
	raw = binary.LittleEndian.AppendUint32(raw, OriginalVersion)
	raw = binary.LittleEndian.AppendUint32(raw, uint32(len(pages)))
	raw = binary.LittleEndian.AppendUint64(raw, 12)
	for _, one := range pages {
		raw = binary.LittleEndian.AppendUint64(raw, one.page.ID)
		raw = binary.LittleEndian.AppendUint64(raw, one.page.Size)
		raw = binary.LittleEndian.AppendUint32(raw, uint32(one.page.Epoch))
		raw = binary.LittleEndian.AppendUint32(raw, uint32(one.page.Location))
		raw = binary.LittleEndian.AppendUint32(raw, uint32(len(one.metadata)))
		raw = append(raw, one.metadata...)
		raw = binary.LittleEndian.AppendUint32(raw, uint32(len(one.bytes)))
		raw = append(raw, one.bytes...)
	}
	return raw
}

func TestLargePagesOfTheOriginal(t *testing.T) {
	m := newModel()
	var pages []content
	for number, size := range []uint64{1, 3 * Chunk, 40*Chunk + 17, 5, 16 * Chunk, 16*Chunk - 30, 100} {
		id := uint64(number)*2 + 1
		m.put(t, id, pattern(id, size), "name", string(bytes.Repeat([]byte("k"), number*100_000+1)))
		one := m.pages[id]
		one.page.Location, one.page.Device, one.page.Version = int32(number%3), 0, 1
		m.pages[id] = one
		pages = append(pages, one)
	}
	requireState(t, openBytes(t, originalFile(pages...)), m)
}

// Small pages share segments, large ones and their metadata, which lies before their bytes, go over several.
func TestManyPagesOfTheOriginal(t *testing.T) {
	m := newModel()
	var pages []content
	count, segments := uint64(5000), 15
	if raceDetector {
		count, segments = 1800, 5
	}
	for number := range count {
		id, size := 2*number+1, 1+number*37%3000
		if number%1000 == 700 {
			size = SegmentBytes + number
		}
		var keys []string
		switch {
		case number%1000 == 300, number == 1700:
			keys = []string{strings.Repeat("k", SegmentBytes/2+int(number))}
		case number%3 == 0:
			keys = []string{"name", strconv.Itoa(int(number))}
		}
		m.put(t, id, pattern(id, size), keys...)
		one := m.pages[id]
		one.page.Location, one.page.Device, one.page.Version = int32(number%3), 0, 1
		m.pages[id] = one
		pages = append(pages, one)
	}
	s := openBytes(t, originalFile(pages...))
	require.Greater(t, len(s.volumes[0].original), segments)
	requireState(t, s, m)
}

func TestTruncatedFilesOfTheOriginal(t *testing.T) {
	raw, err := os.ReadFile(testdata("original", "five-pages.mmsbsnap"))
	require.NoError(t, err)
	for length := 0; length < len(raw); length += 1 + length/100 {
		_, err := OpenSource(file.Bytes(raw[:length]), OpenOptions{})
		require.Equal(t, status.Corrupt, status.CodeOf(err), "%d bytes: %v", length, err)
	}
	_, err = OpenSource(file.Bytes(append(raw, 0)), OpenOptions{})
	assert.Equal(t, status.Corrupt, status.CodeOf(err))
}

func TestWrongFilesOfTheOriginal(t *testing.T) {
	page := func(id uint64) content {
		return content{page: Page{ID: id, Size: 100}, bytes: pattern(id, 100)}
	}
	with := func(edit func(c *content)) []byte {
		second := page(2)
		edit(&second)
		return originalFile(page(1), second, page(3))
	}
	_, err := OpenSource(file.Bytes(with(func(*content) {})), OpenOptions{})
	require.NoError(t, err)
	for name, raw := range map[string][]byte{
		"id 0":                        with(func(c *content) { c.page.ID = 0 }),
		"id of the page before":       with(func(c *content) { c.page.ID = 1 }),
		"id of the page behind":       with(func(c *content) { c.page.ID = 3 }),
		"id of another page":          originalFile(page(1), page(2), page(1)),
		"location":                    with(func(c *content) { c.page.Location = 3 }),
		"location below 0":            with(func(c *content) { c.page.Location = -1 }),
		"size larger than the data":   with(func(c *content) { c.page.Size = 101 }),
		"size of 2^63":                with(func(c *content) { c.page.Size = 1 << 63 }),
		"size 0":                      with(func(c *content) { c.page.Size = 0; c.bytes = nil }),
		"metadata without a count":    with(func(c *content) { c.metadata = []byte{1} }),
		"metadata behind its end":     with(func(c *content) { c.metadata = []byte{0, 0, 0, 0, 1} }),
		"metadata that is cut":        with(func(c *content) { c.metadata = []byte{1, 0, 0, 0, 9, 0, 0, 0, 'a'} }),
		"more pages than it has":      append(append([]byte("MMSBSNAP\x02\x00\x00\x00\xff\xff\xff\xff"), make([]byte, 8)...), 1),
		"fewer pages than it has":     append([]byte("MMSBSNAP\x02\x00\x00\x00\x00\x00\x00\x00"), make([]byte, 28)...),
		"metadata longer than a file": append(originalFile(page(1))[:24+24], 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0),
	} {
		err := verdict(raw)
		assert.Equal(t, status.Corrupt, status.CodeOf(err), "%s: %v", name, err)
	}
}
