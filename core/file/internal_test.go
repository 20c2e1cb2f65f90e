package file

import (
	"errors"
	"os"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"golang.org/x/sys/unix"

	"libmmsb/core/status"
)

func TestACallThatASignalInterruptsIsMadeAgain(t *testing.T) {
	calls := 0
	n, err := retryCount(func() (int, error) {
		if calls++; calls < 4 {
			return -1, syscall.EINTR
		}
		return 7, nil
	})
	require.NoError(t, err)
	assert.Equal(t, []int{4, 7}, []int{calls, n})
	n, err = retryCount(func() (int, error) { return -1, syscall.EIO })
	assert.Equal(t, syscall.EIO, err)
	assert.Zero(t, n)
}

func TestErrnosAndTheirCodes(t *testing.T) {
	for errno, code := range map[syscall.Errno]status.Code{
		syscall.ENOENT: status.NotFound, syscall.EEXIST: status.AlreadyExists, syscall.ENOSPC: status.NoSpace,
		syscall.EDQUOT: status.NoSpace, syscall.EMFILE: status.Limit, syscall.ENFILE: status.Limit,
		syscall.ENOMEM: status.OutOfMemory, syscall.EIO: status.IO, syscall.EROFS: status.IO,
	} {
		err := Failed(errno, "file %d", 7)
		assert.Equal(t, code, status.CodeOf(err))
		assert.EqualValues(t, errno, status.Of(err).Foreign)
		assert.ErrorContains(t, err, "file 7: "+errno.Error()+" (E")
	}
	own := status.Errorf(status.Cancelled, "own")
	assert.Equal(t, own, Failed(own, "not this"))
	assert.Equal(t, status.IO, status.CodeOf(Failed(errors.New("strange"), "file")))
}

func TestBuffersAreAlignedAndApart(t *testing.T) {
	b, err := newBuffers(Buffers)
	require.NoError(t, err)
	all := make([][]byte, Buffers)
	for i := range all {
		all[i] = <-b.free
		clear(all[i]) // they may have been used before
	}
	for i, buffer := range all {
		require.Len(t, buffer, BufferSize)
		require.Equal(t, BufferSize, cap(buffer))
		for at := range buffer {
			if at%Alignment == 0 {
				require.Zero(t, buffer[at], "shared with another")
				buffer[at] = byte(i + 1)
			}
		}
		require.Zero(t, address(buffer)%hugePage)
	}
	b.release()
	b.release()
}

func TestTheMemoryOfBuffersIsUsedAgainByOneAtATime(t *testing.T) {
	for takeSpare() != nil {
	}
	take := func() *buffers {
		taken, err := newBuffers(Buffers)
		require.NoError(t, err)
		return taken
	}
	first := take()
	memory := address(first.mapping)
	first.release()
	held := []*buffers{take(), take(), take()}
	assert.Equal(t, memory, address(held[0].mapping))
	assert.NotEqual(t, memory, address(held[1].mapping))
	for _, one := range held {
		one.release()
	}
	assert.Len(t, spare.mappings, mostSpare)
	assert.Equal(t, memory, address(spare.mappings[0]))
}

func TestAPanicInAWriterIsAnError(t *testing.T) {
	var p pipeline
	require.NoError(t, p.start(1, func([]byte, int64) error { panic("planted") }))
	buffer, err := p.Buffer()
	require.NoError(t, err)
	_ = p.Write(buffer, Alignment)
	for err == nil {
		buffer, err = p.Buffer()
		if err == nil {
			err = p.Write(buffer, 0)
		}
	}
	assert.Equal(t, status.Internal, status.CodeOf(err))
	assert.True(t, p.end())
}

func TestAnOlderKernelWritesToPipesInSmallSteps(t *testing.T) {
	var ends [2]int
	require.NoError(t, unix.Pipe2(ends[:], unix.O_CLOEXEC))
	capacity, err := unix.FcntlInt(uintptr(ends[1]), unix.F_GETPIPE_SZ, 0) // less where the user has many pipes
	require.NoError(t, err)
	d := &descriptor{fd: ends[1], kind: unix.S_IFIFO}
	block := make([]byte, 10_000)
	total := 0
	for {
		n, err := d.writeAtomic(block)
		if err == unix.EAGAIN {
			break
		}
		require.NoError(t, err)
		require.Equal(t, pipeAtomic, n)
		total += n
	}
	assert.Equal(t, capacity, total, "it fills the pipe and does not wait")
	require.NoError(t, unix.Close(ends[0]))
	_, err = d.writeAtomic(block)
	assert.Equal(t, syscall.EPIPE, err)
	require.NoError(t, unix.Close(ends[1]))
}

func TestAFileWithoutANameOnOlderFileSystems(t *testing.T) {
	directory := t.TempDir()
	f, err := unnamed(directory)
	require.NoError(t, err)
	require.NoError(t, WriteFull(f, []byte("content"), 0))
	got := make([]byte, 10)
	n, err := ReadFull(f, got, 0)
	require.NoError(t, err)
	assert.Equal(t, "content", string(got[:n]))
	require.NoError(t, f.Close())
	entries, err := os.ReadDir(directory)
	require.NoError(t, err)
	assert.Empty(t, entries)
	_, err = unnamed(directory + "/none")
	assert.Equal(t, status.NotFound, status.CodeOf(err))
}
