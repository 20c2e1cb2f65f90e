package file_test

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"libmmsb/core/file"
	"libmmsb/core/status"
)

// channel is a pipe or a pair of sockets.
type channel struct{ from, to *os.File }

func newPipe(t *testing.T, flags int) channel {
	t.Helper()
	var ends [2]int
	require.NoError(t, unix.Pipe2(ends[:], unix.O_CLOEXEC|flags))
	return newChannel(t, ends)
}

func newSockets(t *testing.T, flags int) channel {
	t.Helper()
	ends, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|flags, 0)
	require.NoError(t, err)
	return newChannel(t, ends)
}

func newChannel(t *testing.T, ends [2]int) channel {
	c := channel{os.NewFile(uintptr(ends[0]), "from"), os.NewFile(uintptr(ends[1]), "to")}
	t.Cleanup(func() { _ = c.from.Close(); _ = c.to.Close() })
	return c
}

// descriptor does not change the file's blocking mode, as os.File.Fd does.
func descriptor(t *testing.T, f *os.File) int {
	t.Helper()
	raw, err := f.SyscallConn()
	require.NoError(t, err)
	number := -1
	require.NoError(t, raw.Control(func(fd uintptr) { number = int(fd) }))
	return number
}

var channels = map[string]func(t *testing.T) channel{
	"pipe":                   func(t *testing.T) channel { return newPipe(t, 0) },
	"pipe without waiting":   func(t *testing.T) channel { return newPipe(t, unix.O_NONBLOCK) },
	"socket":                 func(t *testing.T) channel { return newSockets(t, 0) },
	"socket without waiting": func(t *testing.T) channel { return newSockets(t, unix.SOCK_NONBLOCK) },
}

func TestAStreamCarriesWhatWasWritten(t *testing.T) {
	all := content(8, slices.Max(sizes))
	for name, open := range channels {
		t.Run(name, func(t *testing.T) {
			for _, size := range sizes {
				c, data := open(t), all[:size]
				sink, err := file.Descriptor(descriptor(t, c.to), nil)
				require.NoError(t, err)
				written := make(chan error, 1)
				go func() {
					err := fill(sink, data, file.BufferSize)
					if err == nil {
						err = sink.Finish()
					}
					written <- err
					_ = c.to.Close()
				}()
				source, err := file.Spool(descriptor(t, c.from), t.TempDir(), nil)
				require.NoError(t, err)
				require.NoError(t, <-written)
				require.EqualValues(t, size, source.Size())
				got := make([]byte, size)
				_, err = source.ReadAt(got, 0)
				require.NoError(t, err)
				requireEqual(t, data, got)
				require.NoError(t, source.Close())
			}
		})
	}
}

func TestAnOpenFileIsWrittenAndReadFromWhereItStands(t *testing.T) {
	directory := t.TempDir()
	f, err := os.Create(filepath.Join(directory, "state"))
	require.NoError(t, err)
	defer func() { _ = f.Close() }()
	_, err = f.WriteString("before ")
	require.NoError(t, err)
	sink, err := file.Descriptor(int(f.Fd()), nil)
	require.NoError(t, err)
	require.NoError(t, fill(sink, []byte("after"), 4096))
	require.NoError(t, sink.Finish())

	for _, c := range []struct {
		at   int64
		want string
	}{{0, "before after"}, {7, "after"}, {12, ""}} {
		_, err = f.Seek(c.at, io.SeekStart)
		require.NoError(t, err)
		source, err := file.Spool(int(f.Fd()), directory, nil)
		require.NoError(t, err)
		got := make([]byte, source.Size())
		_, err = source.ReadAt(got, 0)
		require.NoError(t, err)
		assert.Equal(t, c.want, string(got))
		require.NoError(t, source.Close())
		assert.Equal(t, []string{"state"}, list(t, file.OS{}, directory))
	}
	_, err = f.Stat()
	assert.NoError(t, err, "the caller's descriptor stays open")
}

func TestAStreamThatNobodyReads(t *testing.T) {
	data := content(9, (file.Buffers+16)*file.BufferSize)
	for name, open := range channels {
		t.Run(name, func(t *testing.T) {
			c := open(t)
			require.NoError(t, c.from.Close())
			sink, err := file.Descriptor(descriptor(t, c.to), nil)
			require.NoError(t, err)
			err = fill(sink, data, file.BufferSize)
			assert.Equal(t, status.IO, status.CodeOf(err))
			assert.ErrorContains(t, err, "EPIPE")
			err = sink.Finish()
			assert.ErrorContains(t, err, "EPIPE")
		})
	}
}

func TestAStreamIsGivenUpWhileTheOtherSideSleeps(t *testing.T) {
	data := content(10, (file.Buffers+2)*file.BufferSize)
	for name, open := range channels {
		t.Run(name, func(t *testing.T) {
			c := open(t)
			done := make(chan struct{})
			sink, err := file.Descriptor(descriptor(t, c.to), done)
			require.NoError(t, err)
			filled := make(chan error, 1)
			go func() { filled <- fill(sink, data, file.BufferSize) }()
			select {
			case err := <-filled:
				require.Fail(t, "nobody reads", "%v", err)
			case <-time.After(20 * time.Millisecond):
			}
			close(done)
			assert.Equal(t, status.Cancelled, status.CodeOf(<-filled))
			assert.Equal(t, status.Cancelled, status.CodeOf(sink.Finish()))

			silent, talking := open(t), open(t)
			_, err = talking.to.WriteString("x")
			require.NoError(t, err)
			for _, c := range []channel{silent, talking} {
				_, err = file.Spool(descriptor(t, c.from), t.TempDir(), done)
				assert.Equal(t, status.Cancelled, status.CodeOf(err))
			}
		})
	}
}

func TestAStreamToADevice(t *testing.T) {
	for path, code := range map[string]status.Code{"/dev/null": status.OK, "/dev/full": status.NoSpace} {
		device, err := os.OpenFile(path, os.O_WRONLY, 0)
		require.NoError(t, err)
		sink, err := file.Descriptor(int(device.Fd()), nil)
		require.NoError(t, err)
		_ = fill(sink, content(11, 5000), file.BufferSize)
		assert.Equal(t, code, status.CodeOf(sink.Finish()), path)
		require.NoError(t, device.Close())
	}
}

func TestDescriptorsThatCannotBeUsed(t *testing.T) {
	_, err := file.Descriptor(-1, nil)
	assert.ErrorContains(t, err, "EBADF")
	_, err = file.Spool(-1, t.TempDir(), nil)
	assert.ErrorContains(t, err, "EBADF")

	f, err := os.Create(filepath.Join(t.TempDir(), "state"))
	require.NoError(t, err)
	require.NoError(t, f.Close())
	readOnly, err := os.Open(f.Name())
	require.NoError(t, err)
	defer func() { _ = readOnly.Close() }()
	_, err = file.Descriptor(int(readOnly.Fd()), nil)
	assert.ErrorContains(t, err, "EBADF")

	c := newPipe(t, 0)
	_, err = file.Spool(descriptor(t, c.to), t.TempDir(), nil)
	assert.ErrorContains(t, err, "EBADF")
	_, err = c.to.WriteString("x")
	require.NoError(t, err)
	require.NoError(t, c.to.Close())
	_, err = file.Spool(descriptor(t, c.from), filepath.Join(t.TempDir(), "none"), nil)
	assert.Equal(t, status.NotFound, status.CodeOf(err))
}

func TestMemoryHoldsWhatWasWritten(t *testing.T) {
	for _, size := range sizes {
		data := content(12, size)
		sink, err := file.Memory()
		require.NoError(t, err)
		require.NoError(t, fill(sink, data, file.BufferSize))
		require.NoError(t, sink.Finish())
		requireEqual(t, data, sink.Bytes())
		source := file.Bytes(sink.Bytes())
		assert.EqualValues(t, size, source.Size())
		require.NoError(t, source.Close())
		sink.Abort()
		assert.Len(t, sink.Bytes(), size, "Abort after Finish does nothing")
		sink.Close()
		sink.Close()
		assert.Empty(t, sink.Bytes())
	}
	sink, err := file.Memory()
	require.NoError(t, err)
	require.NoError(t, fill(sink, bytes.Repeat([]byte("x"), 100), 4096))
	sink.Abort()
	assert.Empty(t, sink.Bytes())
}
