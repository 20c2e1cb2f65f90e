package persist

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"libmmsb/core/snapshot/snapshottest"
	"libmmsb/core/status"
)

// TestEveryWayOfLoadingRefusesALie is about what core/snapshot's own readers refuse.
func TestEveryWayOfLoadingRefusesALie(t *testing.T) {
	honest, change := snapshottest.Honest()
	for _, lie := range append(snapshottest.Lies, snapshottest.Lie{Name: "none"}) {
		t.Run(lie.Name, func(t *testing.T) {
			named, whole, newer := snapshottest.Whole, honest.Raw, change.Raw
			want := status.OK
			if lie.Name != "none" {
				named, whole, newer = lie.Files()
				want = status.Corrupt
			}
			if lie.Mismatch {
				want = status.Mismatch
			}
			directory := t.TempDir()
			path := filepath.Join(directory, named)
			require.NoError(t, os.WriteFile(filepath.Join(directory, snapshottest.Whole), whole, 0o600))
			require.NoError(t, os.WriteFile(filepath.Join(directory, snapshottest.Change), newer, 0o600))
			context := newContext(t)
			for _, way := range waysOf(lie.Change) {
				if lie.Content && (way.lazy || way.chosen) {
					continue
				}
				o := LoadOptions{Lazy: way.lazy}
				if way.chosen {
					o.IDs = []uint64{3}
				}
				source, end := way.source(t, path)
				err := Load(context, source, o, nil)
				end()
				how := fmt.Sprintf("%s, lazy %v, chosen %v: %v", way.name, way.lazy, way.chosen, err)
				assert.Equal(t, want, status.CodeOf(err), how)
			}
			err := Load(context, FromPath(path), LoadOptions{InPlace: true}, nil)
			assert.Equal(t, want, status.CodeOf(err), "in place: %v", err)
		})
	}
}

func TestLoadsOfHolesTakeLittleMemory(t *testing.T) {
	for _, name := range snapshottest.Sparse {
		path := filepath.Join(t.TempDir(), "sparse.mmsb")
		require.NoError(t, snapshottest.MakeSparse(path, name))
		context := newContext(t)
		for _, o := range []LoadOptions{{}, {Lazy: true}, {InPlace: true}, {IDs: []uint64{3}}} {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			err := Load(context, FromPath(path), o, nil)
			runtime.ReadMemStats(&after)
			assert.Equal(t, status.Corrupt, status.CodeOf(err), "%v of %s: %v", o, name, err)
			assert.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(64<<20), "%v of %s", o, name)
		}
	}
}
