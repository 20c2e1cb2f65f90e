package file

import (
	"errors"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

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
		assert.ErrorContains(t, err, "file 7: E")
	}
	own := status.Errorf(status.Cancelled, "own")
	assert.Equal(t, own, Failed(own, "not this"))
	assert.Equal(t, status.IO, status.CodeOf(Failed(errors.New("strange"), "file")))
}

func TestBuffersAreAlignedAndApart(t *testing.T) {
	b, err := newBuffers()
	require.NoError(t, err)
	for i := range Buffers {
		buffer := <-b.free
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
