package file_test

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"libmmsb/core/file"
	"libmmsb/core/file/filetest"
	"libmmsb/core/status"
)

// content is bytes that differ from block to block.
func content(seed uint64, size int) []byte {
	random := rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8)})
	data := make([]byte, size)
	_, _ = random.Read(data)
	return data
}

// fill hands data to a sink in steps of at most this many bytes.
func fill(sink file.Sink, data []byte, step int) error {
	for len(data) > 0 {
		buffer, err := sink.Buffer()
		if err != nil {
			return err
		}
		n := copy(buffer[:step], data)
		if err := sink.Write(buffer, n); err != nil {
			return err
		}
		data = data[n:]
	}
	return nil
}

// save writes a file as a program does: what fails is given up.
func save(fs file.FS, path string, data []byte, options file.Options, step int) error {
	sink, err := file.Replace(fs, path, options)
	if err != nil {
		return err
	}
	if err := fill(sink, data, step); err != nil {
		sink.Abort()
		return err
	}
	return sink.Finish()
}

// load is what a path holds; ok is false where there is no file.
func load(t *testing.T, fs file.FS, path string) (data []byte, ok bool) {
	t.Helper()
	source, err := file.Open(fs, path)
	if status.CodeOf(err) == status.NotFound {
		return nil, false
	}
	require.NoError(t, err)
	defer func() { assert.NoError(t, source.Close()) }()
	data = make([]byte, source.Size())
	_, err = source.ReadAt(data, 0)
	require.NoError(t, err)
	return data, true
}

func requireContent(t *testing.T, fs file.FS, path string, want []byte) {
	t.Helper()
	data, ok := load(t, fs, path)
	require.True(t, ok, "%s is not there", path)
	requireEqual(t, want, data)
}

// requireEqual does not print megabytes.
func requireEqual(t *testing.T, want, got []byte) {
	t.Helper()
	require.Len(t, got, len(want))
	require.True(t, bytes.Equal(want, got), "other bytes")
}

func list(t *testing.T, fs file.FS, directory string) []string {
	t.Helper()
	names, err := fs.List(directory)
	require.NoError(t, err)
	sort.Strings(names)
	return names
}

// eachFS runs a test on the real file system, on one that refuses to pass its cache by, and on a disk in memory.
func eachFS(t *testing.T, test func(t *testing.T, fs file.FS, directory string)) {
	t.Run("system", func(t *testing.T) { test(t, file.OS{}, t.TempDir()) })
	if !raceDetector { // its goroutines are those of the first
		t.Run("cached", func(t *testing.T) {
			refuse := []filetest.Fault{{Kind: filetest.SetDirect, Nth: 1, Forever: true, Errno: 22}}
			refuse = append(refuse, filetest.Fault{Kind: filetest.Reopen, Nth: 1, Forever: true, Errno: 22})
			test(t, filetest.NewFaulty(file.OS{}, refuse...), t.TempDir())
		})
	}
	t.Run("memory", func(t *testing.T) {
		disk := filetest.NewDisk()
		require.NoError(t, disk.MakeDirectory("/folder", 0o777))
		test(t, disk, "/folder")
	})
}

var sizes = []int{0, 1, 4095, 4096, 4097, file.BufferSize - 1, file.BufferSize, 5*file.BufferSize + 123}

func TestAReplacedFileHoldsWhatWasWritten(t *testing.T) {
	all := content(1, slices.Max(sizes))
	eachFS(t, func(t *testing.T, fs file.FS, directory string) {
		path := filepath.Join(directory, "state")
		for _, durable := range []bool{false, true} {
			for _, size := range sizes {
				data := all[:size]
				require.NoError(t, save(fs, path, data, file.Options{Durable: durable}, file.BufferSize))
				requireContent(t, fs, path, data)
				assert.Equal(t, []string{"state"}, list(t, fs, directory))
			}
		}
	})
}

func TestRelativeAndStrangeNames(t *testing.T) {
	t.Chdir(t.TempDir())
	require.NoError(t, os.Mkdir("real", 0o777))
	require.NoError(t, os.Symlink("real", "link"))
	names := []string{"plain", "./dot", "link/through", "real/../up", "link/../real/above", "with space", ".hidden", "ünï", "-",
		"a\nb", strings.Repeat("n", 97), strings.Repeat("n", 255)}
	for _, name := range names {
		require.NoError(t, save(file.OS{}, name, []byte(name), file.Options{Durable: true}, 4096), name)
		data, err := os.ReadFile(name)
		require.NoError(t, err)
		assert.Equal(t, name, string(data))
	}
}

func TestWhatCannotBeReplaced(t *testing.T) {
	directory := t.TempDir()
	fifo := filepath.Join(directory, "fifo")
	makeFIFO(t, fifo)
	for _, c := range []struct {
		name, path string
		code       status.Code
		text       string
	}{
		{"a directory", directory, status.IO, "EISDIR"},
		{"a directory with a slash", directory + "/", status.IO, "EISDIR"},
		{"a name that ends in a slash", directory + "/new/", status.IO, "EISDIR"},
		{"the root", "/", status.IO, "EISDIR"},
		{"the current directory", ".", status.IO, "EISDIR"},
		{"a FIFO", fifo, status.IO, "FIFO"},
		{"a device", "/dev/null", status.IO, "device"},
		{"no directory", directory + "/none/file", status.NotFound, "ENOENT"},
		{"a file as directory", "/proc/self/status/file", status.IO, "ENOTDIR"},
		{"a directory where nothing can be made", "/proc/self/file", status.NotFound, "/proc/self/.file.mmsb-"},
		{"a name that is too long", directory + "/" + strings.Repeat("n", 256), status.IO, "ENAMETOOLONG"},
		{"a path that is too long", directory + strings.Repeat("/n", 3000), status.IO, "ENAMETOOLONG"},
		{"an empty path", "", status.InvalidArgument, "empty"},
		{"a zero byte", directory + "/a\x00b", status.IO, "EINVAL"},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, durable := range []bool{false, true} {
				_, err := file.Replace(file.OS{}, c.path, file.Options{Durable: durable})
				assert.Equal(t, c.code, status.CodeOf(err), "%v", err)
				assert.ErrorContains(t, err, c.text)
			}
		})
	}
	assert.Equal(t, []string{"fifo"}, list(t, file.OS{}, directory))
}

func TestASymbolicLinkIsReplacedAndNotFollowed(t *testing.T) {
	directory := t.TempDir()
	target, link := filepath.Join(directory, "target"), filepath.Join(directory, "link")
	require.NoError(t, os.WriteFile(target, []byte("another's"), 0o666))
	require.NoError(t, os.Symlink(target, link))

	_, err := file.Open(file.OS{}, link)
	assert.Equal(t, status.IO, status.CodeOf(err))
	assert.ErrorContains(t, err, "ELOOP")

	require.NoError(t, save(file.OS{}, link, []byte("ours"), file.Options{}, 4096))
	requireContent(t, file.OS{}, link, []byte("ours"))
	requireContent(t, file.OS{}, target, []byte("another's"))
}

func TestPermissions(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state")
	for _, c := range []struct {
		name       string
		mode, want os.FileMode
	}{
		{"as asked for", 0o600, 0o600},
		{"as the file that is replaced has them", 0, 0o600},
		{"read only", 0o400, 0o400},
		{"as the read-only file that is replaced", 0, 0o400},
		{"less the umask", 0o777, 0o755},
	} {
		t.Run(c.name, func(t *testing.T) {
			withUmask(t, 0o022)
			require.NoError(t, save(file.OS{}, path, []byte("x"), file.Options{Mode: c.mode}, 4096))
			info, err := os.Stat(path)
			require.NoError(t, err)
			assert.Equal(t, c.want, info.Mode())
		})
	}
	withUmask(t, 0o022)
	require.NoError(t, os.Remove(path))
	require.NoError(t, save(file.OS{}, path, []byte("x"), file.Options{}, 4096))
	info, err := os.Stat(path)
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o644), info.Mode(), "a new file")
}

func TestAnAbortedSinkLeavesNothing(t *testing.T) {
	eachFS(t, func(t *testing.T, fs file.FS, directory string) {
		path := filepath.Join(directory, "state")
		for _, before := range []string{"", "old"} {
			if before != "" {
				require.NoError(t, save(fs, path, []byte(before), file.Options{}, 4096))
			}
			names := list(t, fs, directory)
			sink, err := file.Replace(fs, path, file.Options{Durable: true})
			require.NoError(t, err)
			require.NoError(t, fill(sink, content(2, 3*file.BufferSize), file.BufferSize))
			assert.Len(t, list(t, fs, directory), len(names)+1, "while it is written")
			sink.Abort()
			sink.Abort()
			assert.Equal(t, names, list(t, fs, directory))
			_, err = sink.Buffer()
			assert.Equal(t, status.InvalidState, status.CodeOf(err))
			assert.Equal(t, status.InvalidState, status.CodeOf(sink.Finish()))
		}
		requireContent(t, fs, path, []byte("old"))
	})
}

func TestAbortAfterFinishDoesNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state")
	sink, err := file.Replace(file.OS{}, path, file.Options{})
	require.NoError(t, err)
	require.NoError(t, fill(sink, []byte("kept"), 4096))
	require.NoError(t, sink.Finish())
	sink.Abort()
	assert.Equal(t, status.InvalidState, status.CodeOf(sink.Finish()))
	requireContent(t, file.OS{}, path, []byte("kept"))
}

func TestWrongUseOfASink(t *testing.T) {
	sink, err := file.Memory()
	require.NoError(t, err)
	defer sink.Close()
	buffer, err := sink.Buffer()
	require.NoError(t, err)
	assert.Equal(t, status.Internal, status.CodeOf(sink.Write(buffer, -1)))
	assert.Equal(t, status.Internal, status.CodeOf(sink.Write(buffer, file.BufferSize+1)))
	assert.Equal(t, status.Internal, status.CodeOf(sink.Write(buffer[1:], 4096)))
	require.NoError(t, sink.Write(buffer, 5))
	buffer, err = sink.Buffer()
	require.NoError(t, err)
	assert.Equal(t, status.Internal, status.CodeOf(sink.Write(buffer, 4096)), "after a piece that ended between two blocks")
	require.NoError(t, sink.Write(buffer, 0), "nothing is always right")
	require.NoError(t, sink.Finish())
	assert.Len(t, sink.Bytes(), 5)
}
