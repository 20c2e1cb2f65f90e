package file_test

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"libmmsb/core/file"
)

func makeFIFO(t *testing.T, path string) {
	t.Helper()
	require.NoError(t, unix.Mkfifo(path, 0o666))
}

// withUmask sets the umask of the process until the test ends.
func withUmask(t *testing.T, mask int) {
	before := unix.Umask(mask)
	t.Cleanup(func() { unix.Umask(before) })
}

// openFiles is how many descriptors lead to something under a directory.
func openFiles(t *testing.T, directory string) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	count := 0
	for _, entry := range entries {
		if target, err := os.Readlink("/proc/self/fd/" + entry.Name()); err == nil && strings.HasPrefix(target, directory) {
			count++
		}
	}
	return count
}

// requireAllClosed waits for the descriptors that are closed in the background.
func requireAllClosed(t *testing.T, directory string) {
	t.Helper()
	require.Eventually(t, func() bool { return openFiles(t, directory) == 0 }, time.Minute, time.Millisecond)
}

// The name of the file that a saver, this program run anew, is to begin and not to finish.
const saverPath = "MMSB_TEST_SAVER_PATH"

func TestMain(m *testing.M) {
	if path := os.Getenv(saverPath); path != "" {
		unfinishedSaver(path)
	}
	os.Exit(m.Run())
}

// unfinishedSaver says when the file is begun, and waits to be killed.
func unfinishedSaver(path string) {
	sink, err := file.Replace(file.OS{}, path, file.Options{})
	if err == nil {
		err = fill(sink, content(3, 2*file.BufferSize), file.BufferSize)
	}
	if err != nil {
		_, _ = os.Stderr.WriteString(err.Error() + "\n")
		os.Exit(1)
	}
	_, _ = os.Stdout.WriteString("begun\n")
	_, _ = os.Stdin.Read(make([]byte, 1))
	os.Exit(1)
}

// startSaver runs a saver until its file is begun. The function it gives kills it.
func startSaver(t *testing.T, path string) (kill func()) {
	t.Helper()
	command := exec.Command(os.Args[0])
	command.Env = append(os.Environ(), saverPath+"="+path)
	command.Stderr = os.Stderr
	input, err := command.StdinPipe()
	require.NoError(t, err)
	output, err := command.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, command.Start())
	line := make([]byte, 6)
	_, err = output.Read(line)
	require.NoError(t, err)
	require.Equal(t, "begun\n", string(line))
	return func() {
		require.NoError(t, command.Process.Kill())
		var exit *exec.ExitError
		require.True(t, errors.As(command.Wait(), &exit))
		require.Equal(t, syscall.SIGKILL, exit.Sys().(syscall.WaitStatus).Signal())
		_ = input.Close()
	}
}
