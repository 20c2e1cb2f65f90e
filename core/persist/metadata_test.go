//go:build !race

package persist

// Nothing runs at the same time here, and the race detector's build allocates more.

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"libmmsb/core/file"
	"libmmsb/core/page"
	"libmmsb/core/snapshot"
	"libmmsb/core/status"
)

// keysOf is a blob of n keys with values of so many zeros.
func keysOf(n, length int) []byte {
	blob := binary.LittleEndian.AppendUint32(nil, uint32(n))
	for i := range n {
		key := strconv.Itoa(i)
		blob = binary.LittleEndian.AppendUint32(blob, uint32(len(key)))
		blob = append(blob, key...)
		blob = binary.LittleEndian.AppendUint32(blob, uint32(length))
		blob = append(blob, make([]byte, length)...)
	}
	return blob
}

func metadataFile(t *testing.T, path string, pages int, blob []byte, keys int) (size int) {
	t.Helper()
	sink, err := file.Memory()
	require.NoError(t, err)
	defer sink.Close()
	w, err := snapshot.NewWriter(sink, snapshot.Header{}, snapshot.Options{})
	require.NoError(t, err)
	for id := range pages {
		entry := snapshot.Page{ID: uint64(id + 1), Size: 1, Version: 1, NUMANode: -1, MetadataCount: uint32(keys)}
		require.NoError(t, w.Add(entry, snapshot.KindBytes, 0, []byte{1}, snapshot.Uncompressed))
		require.NoError(t, w.Add(entry, snapshot.KindMetadata, 0, blob, snapshot.Zstd))
	}
	_, err = w.Finish(uint64(pages), uint64(pages))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, sink.Bytes(), 0o600))
	return len(sink.Bytes())
}

// TestMetadataOfAHostileFileStaysWithinTheLimit loads and looks at files of 86 KB whose metadata is long.
func TestMetadataOfAHostileFileStaysWithinTheLimit(t *testing.T) {
	const limit = 64 << 20
	directory := t.TempDir()
	one, many := filepath.Join(directory, "one"), filepath.Join(directory, "many")
	length := metadataFile(t, one, 1, keysOf(1, 600<<20), 1)
	require.Less(t, length, 200<<10)
	require.Less(t, metadataFile(t, many, 800, keysOf(1, 700<<10), 1), 1<<20)
	for _, path := range []string{one, many} {
		for _, o := range []LoadOptions{{}, {Lazy: true}, {IDs: []uint64{1}}} {
			context, err := page.NewContext(page.Options{MemoryLimit: limit, SimulatedDevices: 1})
			require.NoError(t, err)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			err = Load(context, FromPath(path), o, nil)
			runtime.ReadMemStats(&after)
			if path == one || o.IDs == nil {
				assert.Equal(t, status.Limit, status.CodeOf(err), "%s %v: %v", path, o, err)
			} else {
				assert.NoError(t, err)
			}
			assert.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(limit), "%s %v", path, o)
			require.NoError(t, page.Destroy(context))
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := snapshot.Verify(path, snapshot.VerifyOptions{})
		require.NoError(t, err)
		runtime.ReadMemStats(&after)
		assert.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(64<<20), path)
	}
}

func TestLongMetadataOfManyKeysIsLoaded(t *testing.T) {
	for _, keys := range []int{1, 300_000} {
		blob := keysOf(keys, 128<<20/keys-15)
		path := filepath.Join(t.TempDir(), "long")
		metadataFile(t, path, 1, blob, keys)
		context := newContext(t)
		require.NoError(t, Load(context, FromPath(path), LoadOptions{}, nil))
		require.True(t, bytes.Equal(blob, metadataOf(t, pageWith(t, context, 1))))
		_, err := snapshot.Verify(path, snapshot.VerifyOptions{})
		require.NoError(t, err)
	}
}
