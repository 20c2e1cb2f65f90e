package snapshot

import (
	"bytes"
	"flag"
	"os"
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
