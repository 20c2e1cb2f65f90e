package snapshot

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"libmmsb/core/lineage"
	"libmmsb/core/metadata"
)

var update = flag.Bool("update", false, "write the files in testdata anew")

func goldenPage(id, size uint64) content {
	one := content{bytes: make([]byte, size), page: Page{ID: id, Size: size, Epoch: 10 * id, Version: 100 * id, NUMANode: -1}}
	for at := range one.bytes {
		one.bytes[at] = byte(31*uint64(at) + id)
	}
	return one
}

func goldenZeros(first byte) content {
	one := goldenPage(3, 2*Chunk+10)
	clear(one.bytes)
	for at := range byte(10) {
		one.bytes[2*Chunk+int(at)] = first + at
	}
	return one
}

// goldenGranules are what blocks.mmsb has of page 3.
var goldenGranules = []Range{{Granule, 2 * Granule}, {2*Chunk - Granule, Granule}, {2 * Chunk, 10}}

// golden are the states of testdata/snapshots/README.md.
func golden(t testing.TB) map[string]model {
	second := goldenPage(2, 100)
	second.page.Location, second.page.Device, second.page.MetadataCount = 1, 1, 1
	second.mask = make([]byte, 13)
	for at := range second.mask {
		second.mask[at] = byte(7*at + 2)
	}
	var err error
	second.metadata, err = metadata.Set(nil, []byte("name"), []byte("second"))
	require.NoError(t, err)
	adopted := goldenPage(1, 5000)
	adopted.page.Flags = FlagAdopted
	blocks := goldenZeros(11)
	for _, r := range goldenGranules {
		for at := r.Offset; at < r.end(); at++ {
			blocks.bytes[at] = byte(31*at + 3)
		}
	}
	return map[string]model{
		"whole": {map[uint64]content{1: goldenPage(1, 4096), 2: second, 3: goldenZeros(1)}, [][2]uint64{{1, 2}, {2, 3}}},
		"change": {map[uint64]content{1: goldenPage(1, 5000), 3: goldenZeros(11), 9: goldenPage(9, 64)},
			[][2]uint64{{1, 9}}},
		"blocks": {map[uint64]content{1: goldenPage(1, 5000), 3: blocks, 9: goldenPage(9, 64)}, [][2]uint64{{1, 9}}},
		"zstd":   {map[uint64]content{1: adopted, 3: goldenZeros(11), 9: goldenPage(9, 64)}, [][2]uint64{{1, 9}}},
	}
}

func goldenID(number byte) ID { return ID(bytes.Repeat([]byte{number}, 16)) }

// goldenLine is the lineage of the files of version 4.
var goldenLine = lineage.Lineage{ID: lineage.ID(goldenID(9)), Parent: lineage.Point{Lineage: lineage.ID(goldenID(8)),
	Position: 7}}

// Files of version 3 were written by the library before states had lineages.
func TestFilesOfVersion3AreRead(t *testing.T) {
	for name, m := range golden(t) {
		s := openPath(t, testdata("version3", name+".mmsb"))
		requireState(t, s, m)
		assert.Equal(t, lineage.Lineage{}, s.Header().Lineage)
		assert.Equal(t, uint32(VersionWithoutLineage), s.Header().Version)
	}
}

func TestGoldenFiles(t *testing.T) {
	states := golden(t)
	files := map[string][]byte{
		"whole": write(t, Header{ID: goldenID(1), Lineage: goldenLine, Taken: noon, Position: 1}, states["whole"],
			parts{whole: []uint64{1, 2, 3}},
			Zeros),
		"change": write(t, Header{ID: goldenID(2), Lineage: goldenLine, Base: goldenID(1), BaseName: "whole.mmsb", Taken: noon,
			Position: 2},
			states["change"], parts{whole: []uint64{1, 9}, changes: map[uint64][]uint64{3: {2 * Chunk}}, removed: []uint64{2}},
			Zeros),
		"blocks": write(t, Header{ID: goldenID(4), Lineage: goldenLine, Base: goldenID(2), BaseName: "change.mmsb", Taken: noon,
			Position: 4},
			states["blocks"], parts{granules: map[uint64][]Range{3: goldenGranules}}, Zeros),
		"zstd": write(t, Header{ID: goldenID(3), Lineage: goldenLine, Taken: noon, Position: 3}, states["zstd"],
			parts{whole: []uint64{1, 3, 9}}, Zstd),
	}
	for name, m := range states {
		path := testdata("version4", name+".mmsb")
		if *update {
			require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
			require.NoError(t, os.WriteFile(path, files[name], 0o644))
		}
		s := openPath(t, path)
		requireState(t, s, m)
		assert.Equal(t, goldenLine, s.Header().Lineage)
		if name != "zstd" { // another release of the package may compress in another way
			raw, err := os.ReadFile(path)
			require.NoError(t, err)
			assert.True(t, bytes.Equal(raw, files[name]), "%s is written as it always was", name)
		}
	}
}

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
