package runtime

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"libmmsb/core/status"
)

// TestMain lets the tests start this program again as another process that has a ledger.
func TestMain(m *testing.M) {
	if path := os.Getenv("MMSB_TEST_LEDGER"); path != "" {
		holdLedger(path)
		return
	}
	os.Exit(m.Run())
}

// holdLedger takes and gives bytes as its input says, and answers each line.
func holdLedger(path string) {
	l, err := OpenLedger(path, 0)
	if err != nil {
		os.Exit(3)
	}
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		bytes, _ := strconv.ParseInt(in.Text(), 10, 64)
		answer := "taken\n"
		if bytes < 0 {
			l.Give(uint64(-bytes))
		} else if _, ok, _ := l.Take(uint64(bytes)); !ok {
			answer = "refused\n"
		}
		_, _ = os.Stdout.WriteString(answer)
	}
}

type holder struct {
	t       *testing.T
	command *exec.Cmd
	in      *os.File
	out     *bufio.Reader
}

func newHolder(t *testing.T, path string) *holder {
	command := exec.Command(os.Args[0])
	command.Env = append(os.Environ(), "MMSB_TEST_LEDGER="+path)
	read, write, err := os.Pipe()
	require.NoError(t, err)
	command.Stdin = read
	out, err := command.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, command.Start())
	_ = read.Close()
	t.Cleanup(func() { _ = write.Close(); _ = command.Process.Kill(); _ = command.Wait() })
	return &holder{t, command, write, bufio.NewReader(out)}
}

func (h *holder) take(bytes int) bool {
	_, err := h.in.WriteString(strconv.Itoa(bytes) + "\n")
	require.NoError(h.t, err)
	line, err := h.out.ReadString('\n')
	require.NoError(h.t, err)
	return line == "taken\n"
}

func TestProcessesShareOneLimit(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger")
	l, err := OpenLedger(path, 1000)
	require.NoError(t, err)
	defer l.Close()
	other := newHolder(t, path)
	require.True(t, other.take(600))
	_, ok, _ := l.Take(401)
	require.False(t, ok)
	charged, ok, _ := l.Take(400)
	require.True(t, ok)
	require.EqualValues(t, 600, charged)
	require.False(t, other.take(1))
	require.True(t, other.take(-600))
	require.True(t, other.take(600))
	require.EqualValues(t, 1000, l.Charged())
	require.EqualValues(t, 400, l.Own())
}

func TestTheBytesOfAKilledProcessComeBack(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger")
	l, err := OpenLedger(path, 1000)
	require.NoError(t, err)
	defer l.Close()
	for range 3 {
		other := newHolder(t, path)
		require.True(t, other.take(1000))
		_, ok, _ := l.Take(1)
		require.False(t, ok, "the other process lives")
		require.NoError(t, other.command.Process.Kill())
		_ = other.command.Wait()
		_, ok, _ = l.Take(1000)
		require.True(t, ok)
		l.Give(1000)
	}
	require.Zero(t, l.Charged())
}

func TestALedgerRefusesWhatItIsNot(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, "ledger")
	_, err := OpenLedger(path, 0)
	require.Equal(t, status.InvalidArgument, status.CodeOf(err), "no limit for a new one")
	require.NoFileExists(t, path)
	l, err := OpenLedger(path, 1000)
	require.NoError(t, err)
	_, err = OpenLedger(path, 999)
	require.Equal(t, status.Mismatch, status.CodeOf(err))
	again, err := OpenLedger(path, 0)
	require.NoError(t, err)
	require.Same(t, l, again, "a second descriptor would drop the first one's locks when it is closed")
	_, ok, _ := l.Take(10)
	require.True(t, ok)
	again.Close()
	other := newHolder(t, path)
	require.False(t, other.take(991), "the first use is still open")
	l.Close()
	require.True(t, other.take(1000))

	foreign := filepath.Join(folder, "foreign")
	require.NoError(t, os.WriteFile(foreign, make([]byte, ledgerBytes), 0o600))
	_, err = OpenLedger(foreign, 1000)
	require.Equal(t, status.Format, status.CodeOf(err))
	require.NoError(t, os.WriteFile(foreign, []byte("hello"), 0o600))
	_, err = OpenLedger(foreign, 1000)
	require.Equal(t, status.Format, status.CodeOf(err))
	link := filepath.Join(folder, "link")
	require.NoError(t, os.Symlink(path, link))
	_, err = OpenLedger(link, 1000)
	require.Equal(t, status.IO, status.CodeOf(err), "links are not followed")
	_, err = OpenLedger(filepath.Join(folder, "none", "ledger"), 1000)
	require.Equal(t, status.IO, status.CodeOf(err))
}

func TestALedgerIsNeverOverItsLimit(t *testing.T) {
	l, err := OpenLedger(filepath.Join(t.TempDir(), "ledger"), 100)
	require.NoError(t, err)
	defer l.Close()
	var wait sync.WaitGroup
	for range 16 {
		wait.Add(1)
		go func() {
			defer wait.Done()
			for range 200 {
				if _, ok, _ := l.Take(30); ok {
					if l.Charged() > 100 {
						t.Error("over the limit")
					}
					l.Give(30)
				}
			}
		}()
	}
	wait.Wait()
	require.Zero(t, l.Charged())
}

func openDescriptors(t *testing.T) int {
	entries, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	return len(entries)
}

// Runtimes that are made while the file is open, or refused, leave no descriptor behind.
func TestALedgerIsOpenOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger")
	l, err := OpenLedger(path, 1000)
	require.NoError(t, err)
	defer l.Close()
	foreign := filepath.Join(t.TempDir(), "foreign")
	require.NoError(t, os.WriteFile(foreign, make([]byte, ledgerBytes), 0o600))
	before := openDescriptors(t)
	for range 50 {
		again, err := OpenLedger(path, 1000)
		require.NoError(t, err)
		again.Close()
		_, err = OpenLedger(path, 999)
		require.Equal(t, status.Mismatch, status.CodeOf(err))
		_, err = OpenLedger(foreign, 999)
		require.Equal(t, status.Format, status.CodeOf(err))
	}
	require.Equal(t, before, openDescriptors(t))
}

// Who cuts the file short makes calls errors, and the process lives.
func TestALedgerThatIsCutShortIsCorrupt(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger")
	for _, length := range []int64{0, 1, 63, 64, 100, 4096, ledgerBytes - 1} {
		require.NoError(t, os.RemoveAll(path))
		l, err := OpenLedger(path, 1000)
		require.NoError(t, err)
		_, ok, err := l.Take(10)
		require.True(t, ok && err == nil)
		require.NoError(t, os.Truncate(path, length))
		_, ok, err = l.Take(10)
		require.False(t, ok)
		require.Equal(t, status.Corrupt, status.CodeOf(err), "%d bytes: %v", length, err)
		require.EqualValues(t, 10, l.Charged(), "what this process knows")
		_, err = NewBudget(l).Allocate(Request{Bytes: 1})
		require.Equal(t, status.Corrupt, status.CodeOf(err))
		l.Give(10)
		require.Zero(t, l.Own())
		l.Close()
		require.NoError(t, os.Truncate(path, length)) // what was given back has made it longer
		if length >= 8 {                              // as long as it begins like one
			_, err = OpenLedger(path, 1000)
			require.Equal(t, status.Corrupt, status.CodeOf(err), "%d bytes: %v", length, err)
		}
	}
}
