package command

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"libmmsb/core/metadata"
	"libmmsb/core/snapshot"
)

func blobOf(t *testing.T, keysAndValues ...string) []byte {
	t.Helper()
	var blob []byte
	for at := 0; at < len(keysAndValues); at += 2 {
		var err error
		blob, err = metadata.Set(blob, []byte(stateKeys+keysAndValues[at]), []byte(keysAndValues[at+1]))
		require.NoError(t, err)
	}
	return blob
}

func TestAnArraysMetadata(t *testing.T) {
	of := func(size uint64, shape, strides string) (arrayShown, error) {
		blob := blobOf(t, "name", "a\x1b", "name.2", "b", "dtype", "float32", "shape", shape, "strides", strides)
		return arrayOf("file", &snapshot.Page{ID: 7, Size: size}, blob)
	}
	array, err := of(24, "2,3", "12,4")
	require.NoError(t, err)
	assert.Equal(t, arrayShown{7, []string{"a\x1b", "b"}, "float32", []uint64{2, 3}, []uint64{12, 4}, 24}, array)
	array, err = of(1, "0,9223372036854775807,9223372036854775807", "0,0,0")
	require.NoError(t, err)
	assert.Zero(t, array.Size)
	_, err = of(8, "", "")
	require.NoError(t, err)
	for _, c := range []struct{ shape, strides, text string }{
		{"5", "4", "page 7 has 24 bytes, which (5) of whole items cannot have"},
		{"0", "4", "which (0) of whole items"},
		{"4294967296,4294967296,4294967296", "1,1,1", "of whole items cannot have"},
		{"2,3", "4", "2 numbers in shape and 1 in strides"},
		{"-2,3", "12,4", `mmsb.state/shape of page 7 is "-2,3", not decimal numbers below 2^63`},
		{"2,3", "12,+4", "mmsb.state/strides of page 7"},
		{"2,", "12,4", "not decimal numbers"},
		{"9223372036854775808", "4", "not decimal numbers"},
	} {
		_, err = of(24, c.shape, c.strides)
		assert.ErrorContains(t, err, c.text)
	}
	for _, without := range []string{"dtype", "shape", "strides"} {
		blob, there := metadata.Remove(blobOf(t, "name", "a", "dtype", "int8", "shape", "1", "strides", "1"),
			[]byte(stateKeys+without))
		require.True(t, there)
		_, err = arrayOf("file", &snapshot.Page{ID: 7, Size: 1}, blob)
		assert.ErrorContains(t, err, fmt.Sprintf("page 7 has no mmsb.state/%s in its metadata", without))
	}
}

func TestSnapshotsWithoutAStateHaveNoArrays(t *testing.T) {
	for _, path := range []string{whole, empty} {
		bad(t, exitBad, []string{path, "page 1 have no mmsb.state/version"}, "snapshot", "ls", path, "--arrays")
	}
	newer := state("state", "newer.mmsb")
	bad(t, exitBad, []string{newer, "has a state of version 2; this tool reads version 1"}, "snapshot", "ls", newer, "--arrays")
}
