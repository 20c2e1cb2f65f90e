//go:build !race

package snapshot

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// What the reader in docs, a program of its own, makes of files: the race detector has nothing to find there.

// readByPython is the state as docs/read_snapshot.py sees it.
func readByPython(t *testing.T, path string) (model, error) {
	t.Helper()
	output, err := exec.Command("python3", "-B", "../../docs/read_snapshot.py", path).CombinedOutput()
	if err != nil {
		return model{}, &pythonError{string(output)}
	}
	var read struct {
		Pages []struct {
			ID, Size, Epoch, Version uint64
			Location, Device         int32
			NUMANode                 int32 `json:"numa_node"`
			Flags, Keys              uint32
			Content                  [3]string
		}
		Dependencies [][2]uint64
	}
	require.NoError(t, json.Unmarshal(output, &read), "%s", output)
	m := model{pages: map[uint64]content{}, edges: read.Dependencies}
	for _, page := range read.Pages {
		m.pages[page.ID] = content{
			page: Page{ID: page.ID, Size: page.Size, Epoch: page.Epoch, Version: page.Version, Location: page.Location,
				Device: page.Device, NUMANode: page.NUMANode, Flags: page.Flags, MetadataCount: page.Keys}.ofState(),
			bytes: []byte(page.Content[0]), mask: []byte(page.Content[1]), metadata: []byte(page.Content[2]),
		}
	}
	return m, nil
}

type pythonError struct{ output string }

func (e *pythonError) Error() string { return e.output }

// summed is a state with hashes for bytes.
func (m model) summed() model {
	hash := func(b []byte) []byte {
		sum := sha256.Sum256(b)
		return []byte(hex.EncodeToString(sum[:]))
	}
	result := model{pages: map[uint64]content{}, edges: m.edges}
	for id, one := range m.pages {
		result.pages[id] = content{one.page, hash(one.bytes), hash(one.mask), hash(one.metadata)}
	}
	return result
}

// TestTheDocumentIsEnough lets the reader in docs, which shares nothing with this package, read what is written.
func TestTheDocumentIsEnough(t *testing.T) {
	for name, m := range golden(t) {
		for _, version := range []string{"version3", "version4"} {
			read, err := readByPython(t, testdata(version, name+".mmsb"))
			if name == "zstd" && err != nil {
				assert.ErrorContains(t, err, "No module named 'compression", "Python before 3.14")
				continue
			}
			require.NoError(t, err)
			assert.Equal(t, m.summed(), read, name)
		}
	}
	directory := t.TempDir()
	m := newModel()
	for id := range uint64(700) {
		m.put(t, id+1, pattern(id, 1+id*id%3000), "name", "step")
	}
	m.put(t, 1000, pattern(1000, 5), string(bytes.Repeat([]byte("key"), Chunk/2)))
	m.edges = [][2]uint64{{1, 2}}
	base := write(t, Header{ID: ID{1}}, m, parts{whole: m.ids()}, Zeros)
	store(t, filepath.Join(directory, "base"), base)
	changed := m.clone()
	changed.put(t, 7, pattern(1, 1))
	delete(changed.pages, 8)
	path := filepath.Join(directory, "change")
	header := Header{ID: ID{2}, Base: ID{1}, BaseName: "base"}
	store(t, path, write(t, header, changed, parts{whole: []uint64{7}, removed: []uint64{8}}, Uncompressed))
	read, err := readByPython(t, path)
	require.NoError(t, err)
	assert.Equal(t, changed.summed(), read)
	store(t, filepath.Join(directory, KeptName(ID{1})), base)
	for _, other := range [][]byte{nil, write(t, Header{ID: ID{3}}, m, parts{whole: m.ids()}, Zeros)} {
		if require.NoError(t, os.Remove(filepath.Join(directory, "base"))); other != nil {
			store(t, filepath.Join(directory, "base"), other)
		}
		read, err := readByPython(t, path)
		require.NoError(t, err)
		assert.Equal(t, changed.summed(), read, "the base is found under the name that it was kept under")
		store(t, filepath.Join(directory, "base"), other)
	}
	store(t, filepath.Join(directory, "base"), base)

	base[len(base)/2] ^= 1
	store(t, filepath.Join(directory, "base"), base)
	_, err = readByPython(t, path)
	assert.ErrorContains(t, err, "is damaged")
}
