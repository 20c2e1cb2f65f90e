package journal

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"libmmsb/core/attribute"
	"libmmsb/core/file/filetest"
	"libmmsb/core/lineage"
	"libmmsb/core/status"
)

func TestNumbersNearTheirEndAreDamage(t *testing.T) {
	line := lineage.New(lineage.Point{})
	far := lineage.Lineage{ID: line.ID, Parent: lineage.Point{Lineage: lineage.ID{7}, Position: 1 << 63}}
	for what, s := range map[string]segment{
		"first record":      {lineage: line, first: 1 << 63, before: 1<<63 - 1},
		"last first record": {lineage: line, first: 1<<64 - 1, before: 1<<64 - 2},
		"branch":            {lineage: line, first: 1, branch: 1 << 32},
		"parent's position": {lineage: far, first: 1},
	} {
		header := make([]byte, unitBytes)
		s.encode(header)
		_, err := decodeSegment(header, "segment")
		assert.Equal(t, status.Corrupt, status.CodeOf(err), "%s: %v", what, err)
	}
	fs := filetest.NewDisk()
	w := open(t, fs, Options{})
	record := run(1)
	record.Version = attribute.MaximumVersion + 1
	require.NoError(t, write(w, record))
	require.NoError(t, w.Close())
	_, _, err := walkAll(fs, 1)
	assert.Equal(t, status.Corrupt, status.CodeOf(err), "records: %v", err)
	_, _, err = replayAll(fs, 0, Until{})
	assert.Equal(t, status.Corrupt, status.CodeOf(err), "replay: %v", err)
}
