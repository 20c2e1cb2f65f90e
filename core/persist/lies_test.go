package persist

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"libmmsb/core/snapshot/snapshottest"
	"libmmsb/core/status"
	"libmmsb/native/nativetest"
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

// A page that is twice in the oldest file is seen where a newer file removes it, too: the state has it not once.
func TestAPageTwiceUnderANewerFile(t *testing.T) {
	const once, twice = 0x1122334455667788, 0x1122334455667799
	context := newContext(t)
	directory := t.TempDir()
	base, newer := filepath.Join(directory, "base.mmsb"), filepath.Join(directory, "newer.mmsb")
	pages := []uint64{createFilled(t, context, 100, once, 1), createFilled(t, context, 10000, twice, 2)}
	require.NoError(t, Save(context, ToPath(base), SaveOptions{}, nil))
	require.Zero(t, nativetest.DestroyPages(pages))
	createFilled(t, context, 10000, 7, 3)
	require.NoError(t, Save(context, ToPath(newer), SaveOptions{Base: base}, nil))

	raw, err := os.ReadFile(base)
	require.NoError(t, err)
	id := func(of uint64) []byte { return binary.LittleEndian.AppendUint64(nil, of) }
	require.Equal(t, 1, bytes.Count(raw, id(once)))
	raw = bytes.Replace(raw, id(once), id(twice), 1)
	snapshottest.Seal(raw)
	require.NoError(t, os.WriteFile(base, raw, 0o600))
	for _, o := range []LoadOptions{{}, {Lazy: true}, {InPlace: true}} {
		err := Load(newContext(t), FromPath(newer), o, nil)
		require.Equal(t, status.Corrupt, status.CodeOf(err), "%+v: %v", o, err)
		require.ErrorContains(t, err, "twice")
	}
}
