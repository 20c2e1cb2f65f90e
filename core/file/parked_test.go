package file_test

import (
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"libmmsb/core/file"
	"libmmsb/core/file/filetest"
	"libmmsb/core/status"
)

// parked writes a file and gives it parked.
func parked(t *testing.T, fs file.FS, path string, data []byte) file.Source {
	t.Helper()
	require.NoError(t, save(fs, path, data, file.Options{}, file.BufferSize))
	source, err := file.Open(fs, path)
	require.NoError(t, err)
	source = file.Park(source)
	t.Cleanup(func() { require.NoError(t, source.Close()) })
	return source
}

// requireReads says that each way of reading gives the data, or fails with a code.
func requireReads(t *testing.T, source file.Source, data []byte, code status.Code) {
	t.Helper()
	got := make([]byte, len(data))
	_, err := source.ReadAt(got, 0)
	require.Equal(t, code, status.CodeOf(err), "%v", err)
	mapped, unmap, err := file.Map(source)
	require.Equal(t, code, status.CodeOf(err), "%v", err)
	var pieces []byte
	err = file.Pieces(source, []file.Range{{Offset: 0, Length: int64(len(data))}}, func(_ int, piece []byte) error {
		pieces = append(pieces, piece...)
		return nil
	})
	require.Equal(t, code, status.CodeOf(err), "%v", err)
	if code == status.OK {
		requireEqual(t, data, got)
		requireEqual(t, data, mapped)
		requireEqual(t, data, pieces)
		unmap()
	}
}

func TestAParkedFileMustStayAtItsPath(t *testing.T) {
	directory, data := t.TempDir(), content(22, 10_000)
	path := filepath.Join(directory, "state")
	source := parked(t, file.OS{}, path, data)
	mapped, unmap, err := file.Map(source)
	require.NoError(t, err)
	defer unmap()
	maps, err := os.ReadFile("/proc/self/maps")
	require.NoError(t, err)
	require.Contains(t, string(maps), path, "not a copy")
	requireReads(t, source, data, status.OK)
	require.Zero(t, openFiles(t, directory), "nothing stays open")

	require.NoError(t, os.Rename(path, path+".moved"))
	requireReads(t, source, data, status.NotFound)
	require.NoError(t, os.WriteFile(path, data, 0o600))
	requireReads(t, source, data, status.IO)
	require.NoError(t, os.Rename(path+".moved", path))
	requireReads(t, source, data, status.OK)
	require.NoError(t, os.Remove(path))
	requireEqual(t, data, mapped)
	require.EqualValues(t, len(data), source.Size())
}

func TestAParkedFileIsFoundFromAnotherFolder(t *testing.T) {
	data := content(23, 10_000)
	t.Chdir(t.TempDir())
	source := parked(t, file.OS{}, "state", data)
	t.Chdir(t.TempDir())
	requireReads(t, source, data, status.OK)
}

// directs counts how often files are opened past the page cache.
type directs struct {
	file.FS
	count atomic.Int32
}

func (d *directs) Open(name string, flags int, mode os.FileMode) (file.File, error) {
	if flags&unix.O_DIRECT != 0 {
		d.count.Add(1)
	}
	return d.FS.Open(name, flags, mode)
}

func TestAParkedFileIsReadPastThePageCache(t *testing.T) {
	const pieces = 5
	fs, data := &directs{FS: filetest.NewDisk()}, content(24, pieces*file.BufferSize)
	source := parked(t, fs, "/state", data)
	before := fs.count.Load()
	requireReads(t, source, data, status.OK)
	require.EqualValues(t, pieces+1, fs.count.Load()-before, "once to try, and once for each piece")
}

func TestWhatHasNoPathIsNotParked(t *testing.T) {
	memory := file.Bytes(content(25, 100))
	require.Equal(t, memory, file.Park(memory))
	another := plain{memory}
	require.Equal(t, file.Source(another), file.Park(another))

	directory := t.TempDir()
	path := filepath.Join(directory, "state")
	require.NoError(t, os.WriteFile(path, content(26, 100), 0o600))
	f, err := os.Open(path)
	require.NoError(t, err)
	defer func() { require.NoError(t, f.Close()) }()
	spooled, err := file.Spool(int(f.Fd()), directory, nil)
	require.NoError(t, err)
	defer func() { require.NoError(t, spooled.Close()) }()
	require.Same(t, spooled, file.Park(spooled))
	require.NoError(t, os.Remove(path))
	requireReads(t, spooled, content(26, 100), status.OK)
}
