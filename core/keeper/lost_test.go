package keeper

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"libmmsb/core/file"
	"libmmsb/core/file/filetest"
	"libmmsb/core/journal"
	"libmmsb/core/page"
	"libmmsb/core/persist"
	"libmmsb/core/status"
	"libmmsb/core/store"
	"libmmsb/native/nativetest"
)

// onFullDisk is a store whose journal has just failed, and does not go on by itself.
func onFullDisk(t *testing.T) (directory string, context uint64, restore func()) {
	first := tryAgain.first
	tryAgain.first = time.Hour
	t.Cleanup(func() { tryAgain.first = first })
	directory = t.TempDir()
	o := quiet()
	o.SegmentBytes = 1 << 30
	context = openStore(t, directory, o)
	handle := create(t, context, 2<<20) // a snapshot finds no space, either
	restore = filetest.Full(t, 1<<20)
	block, code := make([]byte, 4096), int32(0)
	for begin := time.Now(); code == 0; code = nativetest.WritePage(handle, 0, block) {
		block[0]++
		require.Less(t, time.Since(begin), patience)
	}
	require.Equal(t, int32(status.NoSpace), code)
	hasTried := func() bool { return infoOf(t, context).FailedSaves > 0 }
	require.Eventually(t, hasTried, patience, time.Millisecond)
	return directory, context, restore
}

// Calls that have returned may have changed pages whose records found no space.
func TestAnEndOnAFullDiskSaysSo(t *testing.T) {
	directory, context, restore := onFullDisk(t)
	defer restore()
	want := stateOf(t, context)
	err := End(context)
	defer func() { restore(); require.Equal(t, want, read(t, directory, store.At{})) }()
	require.Equal(t, status.NoSpace, status.CodeOf(err), "%v", err)
	require.ErrorContains(t, err, "without its last records, as it has failed: ")
	require.Equal(t, status.StaleHandle, status.CodeOf(page.Destroy(context)))
}

// A full disk may be full of what no rule keeps; what could not go on leaves nothing.
func TestAKeeperMakesSpaceOnAFullDisk(t *testing.T) {
	directory := t.TempDir()
	o := quiet()
	o.SegmentBytes = 1 << 30
	context := openStore(t, directory, o)
	handle := create(t, context, 2<<20)
	for range 3 { // as a process leaves them that is killed before it removes the older ones
		_, err := persist.SaveBeside(context, persist.SaveOptions{}, nil)
		require.NoError(t, err)
	}
	require.EqualValues(t, 3, infoOf(t, context).Snapshots)
	restore := filetest.Full(t, 1<<20)
	block, code := make([]byte, 4096), int32(0)
	for begin := time.Now(); code == 0; code = nativetest.WritePage(handle, 0, block) {
		block[0]++
		require.Less(t, time.Since(begin), patience)
	}
	require.Equal(t, int32(status.NoSpace), code)
	tried := func() bool { return infoOf(t, context).FailedSaves > 3 && infoOf(t, context).Pruned > 0 }
	require.Eventually(t, tried, patience, time.Millisecond)
	want := stateOf(t, context)
	restore()
	require.NoError(t, Save(context, false, nil))
	require.EqualValues(t, 1, infoOf(t, context).Snapshots)
	require.NoError(t, End(context))
	require.Equal(t, want, read(t, directory, store.At{}))
}

// The store is its writer's until the context ends, be the disk full or not.
func TestAStoreOnAFullDiskStaysItsWriters(t *testing.T) {
	directory, context, restore := onFullDisk(t)
	isBusy := func() {
		t.Helper()
		_, err := Open(directory, hostPages, quiet(), nil)
		require.Equal(t, status.Busy, status.CodeOf(err), "%v", err)
		_, err = journal.Hold(file.OS{}, directory)
		require.Equal(t, status.Busy, status.CodeOf(err), "%v", err)
	}
	isBusy()
	restore()
	isBusy()
	require.NoError(t, Save(context, false, nil))
	isBusy()
	saved := filepath.Join(t.TempDir(), "saved")
	require.NoError(t, persist.Save(context, persist.ToPath(saved), persist.SaveOptions{}, nil))
	require.NoError(t, persist.Load(context, persist.FromPath(saved), persist.LoadOptions{}, nil), "a journal of another state")
	isBusy()
	require.NoError(t, End(context))
	require.NoError(t, page.Destroy(openStore(t, directory, quiet())))
}

func TestAnEndSavesWhatFoundNoSpace(t *testing.T) {
	directory, context, restore := onFullDisk(t)
	want := stateOf(t, context)
	restore()
	require.NoError(t, End(context))
	require.Equal(t, want, read(t, directory, store.At{}))
}

func TestASaveHasWhatFoundNoSpace(t *testing.T) {
	directory, context, restore := onFullDisk(t)
	want := stateOf(t, context)
	restore()
	require.NoError(t, Save(context, false, nil))
	saved := saves(t, context)
	require.NoError(t, page.Destroy(context), "after %d saves", saved)
	require.Equal(t, want, read(t, directory, store.At{}))
}

// The disk is full when the last records are written, and nobody has heard of it.
func TestAnEndThatFindsTheDiskFull(t *testing.T) {
	for _, full := range []bool{false, true} {
		directory := t.TempDir()
		o := quiet()
		o.SegmentBytes, o.IntervalMs = 1<<30, 3_600_000
		context := openStore(t, directory, o)
		handle := create(t, context, 4096)
		require.NoError(t, Save(context, false, nil))
		restore := filetest.Full(t, 4096)
		for i := range byte(200) {
			require.Zero(t, nativetest.WritePage(handle, 0, []byte{i}))
		}
		if !full {
			restore()
		}
		err := End(context)
		restore()
		if full {
			require.Equal(t, status.NoSpace, status.CodeOf(err), "%v", err)
		} else {
			require.NoError(t, err)
		}
		_ = read(t, directory, store.At{})
	}
}
