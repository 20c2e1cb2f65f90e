package filetest

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// Full lets no file of the process be written behind so many bytes, like a disk that is full for a while, until the function that
// it returns is called or the test has ended.
func Full(t *testing.T, bytes uint64) (restore func()) {
	t.Helper()
	var before unix.Rlimit
	require.NoError(t, unix.Getrlimit(unix.RLIMIT_FSIZE, &before))
	full := before
	full.Cur = bytes
	require.NoError(t, unix.Setrlimit(unix.RLIMIT_FSIZE, &full))
	restore = sync.OnceFunc(func() { require.NoError(t, unix.Setrlimit(unix.RLIMIT_FSIZE, &before)) })
	t.Cleanup(restore)
	return restore
}
