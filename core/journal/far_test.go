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

// A segment may begin with the last number there is, but no record comes behind that.
func TestNoRecordIsBeyondTheLastNumber(t *testing.T) {
	for _, after := range []uint64{lineage.MaximumPosition - 2, lineage.MaximumPosition - 1} {
		fs := filetest.NewDisk()
		line := lineage.New(lineage.Point{})
		w := open(t, fs, Options{From: named(line, line.At(after))})
		require.NoError(t, w.HasBase())
		require.NoError(t, write(w, run(1), run(2)))
		_, err := w.Sync()
		require.NoError(t, err)
		killed := fs.Kill()
		_, last, err := replayAll(killed, after, Until{})
		if after+2 <= lineage.MaximumPosition {
			require.NoError(t, err)
			require.Equal(t, lineage.MaximumPosition, last)
			continue
		}
		assert.Equal(t, status.Corrupt, status.CodeOf(err), "replay: %v", err)
		assert.ErrorContains(t, err, "the last one is beyond")
		_, err = Open(killed, directory)
		assert.Equal(t, status.Corrupt, status.CodeOf(err), "%v", err)
	}
}
