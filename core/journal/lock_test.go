package journal

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"libmmsb/core/file"
	"libmmsb/core/file/filetest"
	"libmmsb/core/status"
)

// contents is the names in a directory and what their files have; nil where there is no directory.
// dropUpTo drops segments of a journal that nobody writes.
func dropUpTo(fs file.FS, directory string, upTo uint64) error {
	held, err := Hold(fs, directory)
	if err != nil {
		return err
	}
	defer held.Release()
	return held.Drop(upTo)
}

func contents(t *testing.T, fs file.FS, directory string) map[string]string {
	t.Helper()
	names, err := fs.List(directory)
	if err != nil {
		return nil
	}
	found := map[string]string{}
	for _, name := range names {
		source, err := file.Open(fs, filepath.Join(directory, name))
		require.NoError(t, err)
		content := make([]byte, source.Size())
		_, err = source.ReadAt(content, 0)
		require.NoError(t, err)
		require.NoError(t, source.Close())
		found[name] = string(content)
	}
	return found
}

func TestAJournalThatIsRefusedLeavesNothing(t *testing.T) {
	disk := filetest.NewDisk()
	refused := func(code status.Code, o Options) {
		t.Helper()
		before := contents(t, disk, directory)
		_, err := NewWriter(disk, directory, o)
		require.Equal(t, code, status.CodeOf(err))
		assert.Equal(t, before, contents(t, disk, directory))
	}
	refused(status.InvalidState, Options{NoBase: true, From: behind(7)})
	assert.Nil(t, contents(t, disk, directory))

	require.NoError(t, disk.MakeDirectory(directory, 0o777)) // a directory that was there stays
	refused(status.InvalidState, Options{NoBase: true, From: behind(7)})
	assert.NotNil(t, contents(t, disk, directory))

	w := open(t, disk, Options{})
	refused(status.Busy, Options{})
	require.NoError(t, write(w, run(1)))
	require.NoError(t, w.Close())
	refused(status.Mismatch, Options{From: behind(7)})
	require.NoError(t, disk.Remove(directory+"/"+lockName))
	refused(status.Mismatch, Options{From: behind(7)})
	open(t, disk, Options{})
}

func TestAnAbandonedJournalLeavesNothing(t *testing.T) {
	for _, based := range []bool{false, true} {
		disk := filetest.NewDisk()
		options := Options{}
		if based {
			options.From = behind(7)
		}
		for range 2 { // in no directory, and in one with a journal
			before := contents(t, disk, directory)
			w := open(t, disk, options)
			require.Equal(t, based, w.NeedsBase())
			ring, err := w.MakeRing(4096)
			require.NoError(t, err)
			require.NoError(t, ring.Close())
			w.Abandon()
			assert.Equal(t, before, contents(t, disk, directory))
			w = open(t, disk, Options{})
			require.NoError(t, write(w, run(1)))
			require.NoError(t, w.Close())
			options.Owned = based
		}
	}
}

// Whatever fails while a journal is opened: what the call has made goes, unless that fails, too.
func TestFaultsOfAnOpeningLeaveNothing(t *testing.T) {
	counting := filetest.NewFaulty(filetest.NewDisk())
	open(t, counting, Options{From: behind(7)})
	for _, kind := range []filetest.Kind{filetest.Open, filetest.OpenDirectory, filetest.List, filetest.MakeDirectory,
		filetest.Write, filetest.Sync, filetest.SyncDirectory} {
		for nth := 1; nth <= counting.Count(kind); nth++ {
			disk := filetest.NewDisk()
			_, err := NewWriter(filetest.NewFaulty(disk, filetest.Fault{Kind: kind, Nth: nth, Errno: 5}), directory,
				Options{From: behind(7)})
			require.Equal(t, status.IO, status.CodeOf(err), "%s number %d", kind, nth)
			assert.Nil(t, contents(t, disk, directory), "%s number %d", kind, nth)
		}
	}
}

// meddling does something between the opening of a lock file and the taking of its lock.
type meddling struct {
	file.OS
	between func(path string)
}

func (m *meddling) Open(path string, flags int, mode os.FileMode) (file.File, error) {
	opened, err := m.OS.Open(path, flags, mode)
	if between := m.between; err == nil && filepath.Base(path) == lockName && between != nil {
		m.between = nil
		between(path)
	}
	return opened, err
}

func TestALockWithoutANameKeepsNobodyOut(t *testing.T) {
	for _, withDirectory := range []bool{false, true} {
		for _, there := range []bool{false, true} {
			t.Run(fmt.Sprint(withDirectory, there), func(t *testing.T) {
				folder := filepath.Join(t.TempDir(), "journal")
				if there {
					require.NoError(t, os.Mkdir(folder, 0o777))
					require.NoError(t, os.WriteFile(filepath.Join(folder, lockName), nil, 0o666))
				}
				fs := &meddling{between: func(path string) { // another one gives up, after a sync that took long
					time.Sleep(lockPatience)
					require.NoError(t, os.Remove(path))
					if withDirectory {
						require.NoError(t, os.Remove(filepath.Dir(path)))
					}
				}}
				w, err := NewWriter(fs, folder, Options{})
				require.NoError(t, err)
				_, err = NewWriter(file.OS{}, folder, Options{})
				require.Equal(t, status.Busy, status.CodeOf(err))
				require.Equal(t, status.Busy, status.CodeOf(dropUpTo(file.OS{}, folder, 1)))
				require.NoError(t, w.Close())
				fs.between = func(path string) { require.NoError(t, os.Remove(path)) }
				require.Equal(t, status.NotFound, status.CodeOf(dropUpTo(fs, folder, 1)))
			})
		}
	}
}

// Nobody opens the other end of a FIFO: a reader that waited for one would wait for ever.
func TestALockThatIsAFIFO(t *testing.T) {
	directory := filepath.Join(t.TempDir(), "journal")
	w, err := NewWriter(file.OS{}, directory, Options{})
	require.NoError(t, err)
	require.NoError(t, w.Close())
	ring, err := w.MakeRing(ringBytes)
	require.NoError(t, err)
	require.NoError(t, ring.Close())
	lock := filepath.Join(directory, lockName)
	require.NoError(t, os.Remove(lock))
	require.NoError(t, unix.Mkfifo(lock, 0o600))
	opened := make(chan error, 1)
	go func() {
		_, err := Open(file.OS{}, directory)
		opened <- err
	}()
	select {
	case err := <-opened:
		require.NoError(t, err)
	case <-time.After(time.Minute):
		t.Fatal("the reader waits for the FIFO")
	}
}
