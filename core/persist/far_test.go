package persist

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"libmmsb/core/attribute"
	"libmmsb/core/file"
	"libmmsb/core/lineage"
	"libmmsb/core/page"
	"libmmsb/core/snapshot"
)

// farFile is a file whose position and version are the largest that a file may have.
func farFile(t *testing.T, path string) {
	t.Helper()
	sink, err := file.Memory()
	require.NoError(t, err)
	defer sink.Close()
	w, err := snapshot.NewWriter(sink, snapshot.Header{Position: lineage.MaximumPosition}, snapshot.Options{})
	require.NoError(t, err)
	entry := snapshot.Page{ID: 7, Size: 5000, Version: attribute.MaximumVersion, NUMANode: -1}
	require.NoError(t, w.Add(entry, snapshot.KindBytes, 0, bytes.Repeat([]byte{3}, 5000), snapshot.Uncompressed))
	_, err = w.Finish(1, 5000)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, sink.Bytes(), 0o600))
}

// TestWhatGoesOnFromAFarFileIsRead is about counters that a file brings near their end: what a context does then has files that
// can be read, and a journal that loses nothing.
func TestWhatGoesOnFromAFarFileIsRead(t *testing.T) {
	directory := t.TempDir()
	path, journalled := filepath.Join(directory, "far"), filepath.Join(directory, "journal")
	farFile(t, path)
	for _, o := range []LoadOptions{{}, {Lazy: true}, {InPlace: true}} {
		context := newContext(t)
		require.NoError(t, Load(context, FromPath(path), o, nil))
		require.NoError(t, OpenJournal(context, journalled, JournalOptions{IntervalMs: 1}, nil))
		handle := pageWith(t, context, 7)
		for i := range byte(20) {
			write(t, handle, uint64(i), []byte{i})
		}
		want := content(t, handle)
		base := ""
		for _, name := range []string{"whole", "change"} {
			to := filepath.Join(directory, name)
			require.NoError(t, Save(context, ToPath(to), SaveOptions{Base: base}, nil))
			info, err := snapshot.Verify(to, snapshot.VerifyOptions{})
			require.NoError(t, err)
			require.Less(t, info.Position, uint64(1<<62))
			write(t, handle, 100, []byte{9})
			want[100] = 9
			base = to
		}
		require.NoError(t, CloseJournal(context))
		require.NoError(t, page.Destroy(context))
		again := newContext(t)
		require.NoError(t, Load(again, FromPath(""), LoadOptions{Journal: journalled}, nil))
		require.Equal(t, want, content(t, pageWith(t, again, 7)))
		require.NoError(t, os.RemoveAll(journalled))
	}
}

func pageWith(t *testing.T, context, id uint64) (handle uint64) {
	t.Helper()
	require.NoError(t, page.Use(context, func(c *page.Context) (err error) {
		handle, err = c.Lookup(id)
		return err
	}))
	return handle
}
