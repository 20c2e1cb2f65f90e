package file_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"libmmsb/core/file"
	"libmmsb/core/file/filetest"
	"libmmsb/core/status"
)

// plain is a source that has only the methods of the interface.
type plain struct{ file.Source }

// eachSource runs a test over data behind every kind of source.
func eachSource(t *testing.T, data []byte, test func(t *testing.T, source file.Source)) {
	eachFS(t, func(t *testing.T, fs file.FS, directory string) {
		path := filepath.Join(directory, "state")
		require.NoError(t, save(fs, path, data, file.Options{}, file.BufferSize))
		for _, kind := range []func(file.Source) file.Source{func(s file.Source) file.Source { return s }, file.Park} {
			source, err := file.Open(fs, path)
			require.NoError(t, err)
			source = kind(source)
			test(t, source)
			require.NoError(t, source.Close())
			requireAllClosed(t, directory)
		}
	})
	t.Run("bytes", func(t *testing.T) { test(t, file.Bytes(data)) })
	t.Run("another's", func(t *testing.T) { test(t, plain{file.Bytes(data)}) })
}

func TestPiecesComeInOrder(t *testing.T) {
	const size = 5*file.BufferSize + 123
	data := content(13, size)
	var many []file.Range
	for at := int64(0); at < size-5000; at += 99_991 {
		many = append(many, file.Range{Offset: at, Length: 5000})
	}
	var blocks []file.Range
	for at := int64(0); at < size; at += file.BufferSize {
		blocks = append(blocks, file.Range{Offset: at, Length: min(file.BufferSize, size-at)})
	}
	for name, ranges := range map[string][]file.Range{
		"nothing":         {},
		"all":             {{0, size}},
		"blocks":          blocks,
		"blocks backward": {blocks[4], blocks[2], blocks[0]},
		"empty ranges":    {{0, 0}, {5, 0}, {0, 1}, {size, 0}},
		"one byte":        {{4097, 1}},
		"the last byte":   {{size - 1, 1}},
		"unaligned":       {{1, 2*file.BufferSize + 5}, {4095, file.BufferSize}, {size - 4099, 4099}},
		"the same twice":  {{8192, 4096}, {8192, 4096}},
		"many":            many,
	} {
		t.Run(name, func(t *testing.T) {
			eachSource(t, data, func(t *testing.T, source file.Source) {
				done := make([]int64, len(ranges))
				last, calls := 0, 0
				require.NoError(t, file.Pieces(source, ranges, func(i int, piece []byte) error {
					calls++
					require.GreaterOrEqual(t, i, last)
					last = i
					from := ranges[i].Offset + done[i]
					require.NotEmpty(t, piece)
					requireEqual(t, data[from:from+int64(len(piece))], piece)
					done[i] += int64(len(piece))
					return nil
				}))
				for i, r := range ranges {
					assert.Equal(t, r.Length, done[i], "range %d", i)
				}
				if name == "blocks" {
					assert.Equal(t, len(blocks), calls, "a range that fits into a buffer is one piece")
				}
			})
		})
	}
}

func TestPiecesThatAreNotThere(t *testing.T) {
	data := content(14, 10_000)
	eachSource(t, data, func(t *testing.T, source file.Source) {
		for _, r := range []file.Range{{0, 10_001}, {10_000, 1}, {-1, 1}, {0, -1}, {1 << 62, 1 << 62}, {10_001, 0}} {
			err := file.Pieces(source, []file.Range{{0, 10}, r}, func(int, []byte) error { return errors.New("called") })
			assert.Equal(t, status.Corrupt, status.CodeOf(err), "%v: %v", r, err)
			assert.ErrorContains(t, err, "10000 bytes")
		}
	})
}

func TestAnErrorOfTheReceiverEndsTheReading(t *testing.T) {
	own := errors.New("own")
	eachSource(t, content(15, 3*file.BufferSize), func(t *testing.T, source file.Source) {
		calls := 0
		err := file.Pieces(source, []file.Range{{0, source.Size()}}, func(int, []byte) error {
			calls++
			return own
		})
		assert.Equal(t, own, err)
		assert.Equal(t, 1, calls)
	})
}

func TestReadErrors(t *testing.T) {
	data := content(16, 3*file.BufferSize+1)
	for _, c := range []struct {
		fault filetest.Fault
		code  status.Code
	}{
		{filetest.Fault{Kind: filetest.Read, Nth: 1, Forever: true, Errno: syscall.EIO}, status.IO},
		{filetest.Fault{Kind: filetest.Read, Nth: 4, Forever: true, Errno: syscall.EIO}, status.IO},
		{filetest.Fault{Kind: filetest.Read, Nth: 1, Short: 1}, status.OK},
		{filetest.Fault{Kind: filetest.Read, Nth: 2, Short: 5000}, status.OK},
		{filetest.Fault{Kind: filetest.Reopen, Nth: 1, Errno: syscall.EACCES}, status.OK},
	} {
		t.Run(fmt.Sprint(c.fault), func(t *testing.T) {
			eachFS(t, func(t *testing.T, fs file.FS, directory string) {
				path := filepath.Join(directory, "state")
				require.NoError(t, save(fs, path, data, file.Options{}, file.BufferSize))
				faulty := filetest.NewFaulty(fs, c.fault)
				source, err := file.Open(faulty, path)
				require.NoError(t, err)
				var got []byte
				err = file.Pieces(source, []file.Range{{0, source.Size()}}, func(_ int, piece []byte) error {
					got = append(got, piece...)
					return nil
				})
				assert.Equal(t, c.code, status.CodeOf(err), "%v", err)
				assert.Positive(t, faulty.Hits())
				if c.code == status.OK {
					requireEqual(t, data, got)
				} else {
					assert.ErrorContains(t, err, path)
				}
				require.NoError(t, source.Close())
				requireAllClosed(t, directory)
			})
		})
	}
}

func TestAFileThatIsTruncatedWhileItIsOpenIsCorrupt(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state")
	require.NoError(t, save(file.OS{}, path, content(17, 2*file.BufferSize), file.Options{}, file.BufferSize))
	source, err := file.Open(file.OS{}, path)
	require.NoError(t, err)
	defer func() { _ = source.Close() }()
	for _, size := range []int64{file.BufferSize + 1, 0} {
		require.NoError(t, os.Truncate(path, size))
		_, err = source.ReadAt(make([]byte, 100), file.BufferSize)
		assert.Equal(t, status.Corrupt, status.CodeOf(err))
		assert.ErrorContains(t, err, path)
		err = file.Pieces(source, []file.Range{{0, source.Size()}}, func(int, []byte) error { return nil })
		assert.Equal(t, status.Corrupt, status.CodeOf(err))
	}
}

func TestReadAt(t *testing.T) {
	data := content(18, 10_000)
	eachSource(t, data, func(t *testing.T, source file.Source) {
		for _, r := range []file.Range{{0, 10_000}, {1, 9_999}, {9_999, 1}, {10_000, 0}, {5, 0}} {
			got := make([]byte, r.Length)
			n, err := source.ReadAt(got, r.Offset)
			require.NoError(t, err)
			assert.EqualValues(t, r.Length, n)
			requireEqual(t, data[r.Offset:r.Offset+r.Length], got)
		}
		for _, r := range []file.Range{{0, 10_001}, {9_999, 2}, {10_000, 1}, {10_001, 1}, {-1, 1}, {1 << 62, 1}} {
			_, err := source.ReadAt(make([]byte, r.Length), r.Offset)
			assert.Equal(t, status.Corrupt, status.CodeOf(err), "%v", r)
		}
	})
}

func TestAMappedFile(t *testing.T) {
	for _, size := range []int{0, 1, 4096, 10_000} {
		data := content(19, size)
		eachSource(t, data, func(t *testing.T, source file.Source) {
			mapped, unmap, err := file.Map(source)
			require.NoError(t, err)
			requireEqual(t, data, mapped)
			unmap()
		})
	}
}

func TestAMappingAndAnOpenFileStayAsTheyWereWhenTheFileIsReplaced(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state")
	old := content(20, 10_000)
	require.NoError(t, save(file.OS{}, path, old, file.Options{}, file.BufferSize))
	source, err := file.Open(file.OS{}, path)
	require.NoError(t, err)
	mapped, unmap, err := file.Map(source)
	require.NoError(t, err)
	defer unmap()
	require.NoError(t, save(file.OS{}, path, content(21, 100), file.Options{}, file.BufferSize))
	got := make([]byte, len(old))
	_, err = source.ReadAt(got, 0)
	require.NoError(t, err)
	requireEqual(t, old, got)
	require.NoError(t, source.Close())
	requireEqual(t, old, mapped)
	require.NoError(t, os.Remove(path))
	requireEqual(t, old, mapped)
}

func TestWhatCannotBeOpened(t *testing.T) {
	directory := t.TempDir()
	fifo, link := filepath.Join(directory, "fifo"), filepath.Join(directory, "link")
	makeFIFO(t, fifo)
	require.NoError(t, os.Symlink("/etc/passwd", link))
	for _, c := range []struct {
		name, path string
		code       status.Code
		text       string
	}{
		{"nothing there", directory + "/none", status.NotFound, "ENOENT"},
		{"an empty path", "", status.NotFound, "ENOENT"},
		{"a directory", directory, status.IO, "EISDIR"},
		{"a FIFO", fifo, status.IO, "FIFO"},
		{"a device", "/dev/zero", status.IO, "device"},
		{"a symbolic link", link, status.IO, "ELOOP"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := file.Open(file.OS{}, c.path)
			assert.Equal(t, c.code, status.CodeOf(err), "%v", err)
			assert.ErrorContains(t, err, c.text)
		})
	}
	regular := filepath.Join(directory, "state")
	require.NoError(t, os.WriteFile(regular, nil, 0o666))
	for _, fault := range []filetest.Fault{
		{Kind: filetest.Open, Nth: 1, Errno: syscall.EMFILE},
		{Kind: filetest.StatFile, Nth: 1, Errno: syscall.EIO},
		{Kind: filetest.Stat, Nth: 1, Errno: syscall.EACCES},
	} {
		faulty := filetest.NewFaulty(file.OS{}, fault)
		_, err := file.Open(faulty, regular)
		assert.EqualValues(t, fault.Errno, status.Of(err).Foreign)
	}
	// What is looked at can be another thing when it is opened.
	swapped := filetest.NewFaulty(file.OS{})
	swapped.Before = func(kind filetest.Kind, _ int) {
		if kind == filetest.Open {
			require.NoError(t, os.Remove(regular))
			makeFIFO(t, regular)
		}
	}
	_, err := file.Open(swapped, regular)
	assert.ErrorContains(t, err, "FIFO")
	requireAllClosed(t, directory)
}

func TestTheRestOfThePiecesIsDoneBesideTheReading(t *testing.T) {
	own := errors.New("own")
	data := content(17, 12*file.BufferSize)
	var ranges []file.Range
	for at := int64(0); at < int64(len(data)); at += file.BufferSize {
		ranges = append(ranges, file.Range{Offset: at, Length: file.BufferSize})
	}
	run := func(source file.Source, rest func(i int, piece []byte) error) (yielded int, err error) {
		err = file.CheckedPieces(source, ranges, nil, func(i int, piece []byte) (func() error, error) {
			if i != yielded {
				t.Errorf("piece %d came as number %d", i, yielded)
			}
			yielded++
			if i%3 == 2 { // there need not be a rest
				return nil, nil
			}
			return func() error { return rest(i, piece) }, nil
		})
		return yielded, err
	}
	eachSource(t, data, func(t *testing.T, source file.Source) {
		t.Run("all", func(t *testing.T) {
			var done atomic.Int64
			yielded, err := run(source, func(i int, piece []byte) error {
				for range 3 { // others are read meanwhile
					if !bytes.Equal(data[ranges[i].Offset:][:ranges[i].Length], piece) {
						return own
					}
				}
				done.Add(1)
				return nil
			})
			require.NoError(t, err)
			assert.Equal(t, len(ranges), yielded)
			assert.EqualValues(t, 8, done.Load(), "all are done when the reading returns")
		})
		t.Run("an error", func(t *testing.T) {
			_, err := run(source, func(i int, _ []byte) error {
				if i == 1 {
					return own
				}
				return nil
			})
			assert.Equal(t, own, err)
		})
		t.Run("an error of the last", func(t *testing.T) {
			_, err := run(source, func(i int, _ []byte) error {
				if i == 10 {
					return own
				}
				return nil
			})
			assert.Equal(t, own, err)
		})
	})
}
