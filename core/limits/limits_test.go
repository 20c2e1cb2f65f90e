package limits

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// withLimit sets a limit of the process for the time of a function.
func withLimit(t *testing.T, resource int, most uint64, do func()) {
	t.Helper()
	var before unix.Rlimit
	require.NoError(t, unix.Getrlimit(resource, &before))
	require.NoError(t, unix.Setrlimit(resource, &unix.Rlimit{Cur: most, Max: before.Max}))
	defer func() { require.NoError(t, unix.Setrlimit(resource, &before)) }()
	do()
}

// usedAddresses are the bytes of addresses that the process has.
func usedAddresses(t *testing.T) (bytes uint64) {
	t.Helper()
	content, err := os.ReadFile("/proc/self/status")
	require.NoError(t, err)
	for line := range strings.Lines(string(content)) {
		if rest, ok := strings.CutPrefix(line, "VmSize:"); ok {
			for _, digit := range strings.TrimSpace(rest) {
				if digit >= '0' && digit <= '9' {
					bytes = 10*bytes + uint64(digit-'0')
				}
			}
		}
	}
	return bytes << 10
}

// Go ends the process where it gets no addresses: what others take leaves it some.
func TestAddressesLeaveEnoughForGo(t *testing.T) {
	const most, some = 4 << 30, 256 << 20 // what the test's own process takes meanwhile is less than some
	require.NoError(t, Addresses(1<<50), "no limit")
	withLimit(t, unix.RLIMIT_AS, usedAddresses(t)+most, func() {
		require.NoError(t, Addresses(most-goKeeps-some))
		require.Equal(t, unix.ENOMEM, Addresses(most-goKeeps+some))
		require.Equal(t, unix.ENOMEM, Addresses(1<<63))
	})
	withLimit(t, unix.RLIMIT_AS, usedAddresses(t)+goKeeps-some, func() {
		require.Equal(t, unix.ENOMEM, Addresses(1))
	})
}

func TestFilesBeyondTheLimitAreNotWritten(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "file"))
	require.NoError(t, err)
	defer func() { require.NoError(t, f.Close()) }()
	_, err = f.Write(make([]byte, 600))
	require.NoError(t, err)
	descriptor := int(f.Fd())
	withLimit(t, unix.RLIMIT_FSIZE, 1000, func() {
		require.NoError(t, FileSize(1000))
		require.Equal(t, unix.EFBIG, FileSize(1001))
		require.NoError(t, FileSizeHere(descriptor, 400))
		require.Equal(t, unix.EFBIG, FileSizeHere(descriptor, 401))
		_, err := f.Seek(100, 0)
		require.NoError(t, err)
		require.NoError(t, FileSizeHere(descriptor, 900))
		_, err = unix.FcntlInt(f.Fd(), unix.F_SETFL, unix.O_APPEND)
		require.NoError(t, err)
		require.Equal(t, unix.EFBIG, FileSizeHere(descriptor, 401), "it is written behind its end, wherever it stands")
	})
}
