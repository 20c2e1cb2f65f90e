//go:build invariants

package journal

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"libmmsb/core/file/filetest"
)

func TestSegmentsAndFramesOutOfOrderAreFoundAtOnce(t *testing.T) {
	w := open(t, filetest.NewDisk(), Options{})
	require.NoError(t, write(w, run(1), run(2)))
	assert.Panics(t, func() { _ = w.begin(w.last) }, "the segment before is not durable")
	_, err := w.Sync()
	require.NoError(t, err)
	w.kept[0].first = 3
	assert.Panics(t, func() { _ = w.begin(w.last) }, "the segment before begins with the same record")
	w.kept[0].first = 1
	w.durable = 3
	assert.Panics(t, func() { _ = write(w, run(3)) }, "a record is durable before it is written")
}
