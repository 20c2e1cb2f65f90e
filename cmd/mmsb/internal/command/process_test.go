package command

import (
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"libmmsb/cmd/mmsb/internal/bucket"
	"libmmsb/core/file"
	"libmmsb/core/file/filetest"
	"libmmsb/core/persist"
)

// The test's own program is the tool when these are set: run it, and let it stand at the n-th read or write until a signal comes,
// after it has written a line to its standard error.
const (
	beTheTool = "MMSB_TEST_TOOL"
	standAt   = "MMSB_TEST_STAND_AT" // like "read 3"; "any 3" counts all operations
)

func TestMain(m *testing.M) {
	bucket.PartBytes = 64 << 10
	persist.RingBytes = 256 << 10
	if os.Getenv(beTheTool) == "" {
		os.Exit(m.Run())
	}
	ctx := UntilSignal(context.Background(), Interrupts()...)
	fs := file.FS(file.OS{})
	if kind, text, found := strings.Cut(os.Getenv(standAt), " "); found {
		number, _ := strconv.Atoi(text)
		slow := filetest.NewFaulty(fs)
		var all atomic.Int64
		slow.Before = func(k filetest.Kind, n int) {
			if count := all.Add(1); kind == "any" && int(count) == number || string(k) == kind && n == number {
				_, _ = os.Stderr.WriteString("standing\n")
				<-ctx.Done()
			}
		}
		fs = slow
	}
	os.Exit(Tool{FS: fs, Stdout: os.Stdout, Stderr: os.Stderr}.Run(ctx, os.Args[1:]))
}

func process(t *testing.T, stand string, arguments ...string) *exec.Cmd {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	t.Cleanup(cancel)
	c := exec.CommandContext(ctx, os.Args[0], arguments...)
	c.Env = append(os.Environ(), beTheTool+"=1", standAt+"="+stand)
	return c
}

func TestASignalEndsTheWork(t *testing.T) {
	log := newJournal(t, false)
	for name, c := range map[string]struct {
		stand     string
		signal    syscall.Signal
		code      int
		arguments []string
	}{
		"verify":          {"read 3", syscall.SIGINT, 130, []string{"snapshot", "verify", whole}},
		"verify, SIGTERM": {"read 3", syscall.SIGTERM, 143, []string{"snapshot", "verify", whole}},
		"diff":            {"read 5", syscall.SIGINT, 130, []string{"snapshot", "diff", whole, change}},
		"compact, quit":   {"write 1", syscall.SIGQUIT, 131, []string{"snapshot", "compact", change, "-o", "out"}},
		"compact":         {"write 1", syscall.SIGINT, 130, []string{"snapshot", "compact", change, "-o", "out"}},
		"extract":         {"read 4", syscall.SIGINT, 130, []string{"snapshot", "extract", whole, "3", "-o", "out"}},
		"journal ls":      {"read 2", syscall.SIGINT, 130, []string{"journal", "ls", log, "--records"}},
		"journal replay":  {"write 1", syscall.SIGINT, 130, []string{"journal", "replay", log, "-s", whole, "-o", "out"}},
	} {
		t.Run(name, func(t *testing.T) {
			directory := t.TempDir()
			for number, argument := range c.arguments {
				if argument == "out" {
					c.arguments[number] = filepath.Join(directory, "out")
				}
			}
			p := process(t, c.stand, c.arguments...)
			stderr, err := p.StderrPipe()
			require.NoError(t, err)
			var stdout bytes.Buffer
			p.Stdout = &stdout
			require.NoError(t, p.Start())
			line := make([]byte, len("standing\n"))
			_, err = io.ReadFull(stderr, line)
			require.NoError(t, err)
			require.Equal(t, "standing\n", string(line))
			require.NoError(t, p.Process.Signal(c.signal))
			complaint, err := io.ReadAll(stderr)
			require.NoError(t, err)
			assert.Empty(t, string(complaint))
			assert.Error(t, p.Wait())
			assert.Equal(t, c.code, p.ProcessState.ExitCode())
			entries, err := os.ReadDir(directory)
			require.NoError(t, err)
			assert.Empty(t, entries)
		})
	}
}

// TestCancellingAtEveryStep cancels before every operation on files, one after the other: what is left is all or nothing.
func TestCancellingAtEveryStep(t *testing.T) {
	log := newJournal(t, false)
	for name, arguments := range map[string][]string{
		"verify":  {"snapshot", "verify", change},
		"compact": {"snapshot", "compact", change, "-o"},
		"extract": {"snapshot", "extract", zstd, "1", "-o"},
		"replay":  {"journal", "replay", log, "-s", whole, "-o"},
	} {
		t.Run(name, func(t *testing.T) {
			cancelled := 0
			for step := 1; ; step++ {
				directory := t.TempDir()
				out := filepath.Join(directory, "out")
				given := arguments
				if name != "verify" {
					given = append(append([]string{}, arguments...), out)
				}
				ctx, cancel := context.WithCancelCause(context.Background())
				fs := filetest.NewFaulty(file.OS{})
				steps := make(chan int, 1)
				steps <- 0
				reached := false
				fs.Before = func(filetest.Kind, int) {
					count := <-steps + 1
					if count == step {
						reached = true
						cancel(interrupted{syscall.SIGINT})
					}
					steps <- count
				}
				_, complaint, code := mmsbOn(ctx, fs, given...)
				cancel(nil)
				entries, err := os.ReadDir(directory)
				require.NoError(t, err)
				switch code {
				case exitGood:
					if name != "verify" {
						require.Len(t, entries, 1, "step %d", step)
					}
				case exitSignals + int(syscall.SIGINT):
					cancelled++
					require.Empty(t, complaint)
					for _, entry := range entries { // of a rename that had happened
						require.Equal(t, "out", entry.Name(), "step %d", step)
					}
				default:
					require.Fail(t, "exit code", "%d at step %d: %s", code, step, complaint)
				}
				if !reached {
					break
				}
			}
			assert.Greater(t, cancelled, 5)
		})
	}
}

func TestABrokenPipeIsNoComplaint(t *testing.T) {
	p := process(t, "", "snapshot", "extract", whole, "3")
	stdout, err := p.StdoutPipe()
	require.NoError(t, err)
	var stderr bytes.Buffer
	p.Stderr = &stderr
	require.NoError(t, p.Start())
	_, err = io.ReadFull(stdout, make([]byte, 10))
	require.NoError(t, err)
	require.NoError(t, stdout.Close())
	assert.Error(t, p.Wait())
	ended, _ := p.ProcessState.Sys().(syscall.WaitStatus)
	assert.True(t, ended.Signaled() && ended.Signal() == syscall.SIGPIPE, "%v", p.ProcessState)
	assert.Empty(t, stderr.String())
}

// TestAPipeThatNobodyReads holds the tool up in a write; a signal ends it there, too.
func TestAPipeThatNobodyReads(t *testing.T) {
	p := process(t, "", "snapshot", "extract", whole, "3")
	stdout, err := p.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, p.Start())
	_, err = io.ReadFull(stdout, make([]byte, 10))
	require.NoError(t, err)
	require.NoError(t, p.Process.Signal(syscall.SIGINT))
	assert.Error(t, p.Wait())
	assert.Equal(t, 130, p.ProcessState.ExitCode())
}

// terminal gives both ends of a pseudo-terminal.
func terminal(t *testing.T) (master, slave *os.File) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	require.NoError(t, err)
	t.Cleanup(func() { _ = master.Close() })
	require.NoError(t, unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0))
	number, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	require.NoError(t, err)
	slave, err = os.OpenFile("/dev/pts/"+strconv.Itoa(number), os.O_RDWR|unix.O_NOCTTY, 0)
	require.NoError(t, err)
	t.Cleanup(func() { _ = slave.Close() })
	return master, slave
}

// onTerminal runs the tool with its output and errors on a terminal, and gives what is there in the end.
func onTerminal(t *testing.T, arguments ...string) (seen string, code int) {
	t.Helper()
	master, slave := terminal(t)
	p := process(t, "", arguments...)
	p.Env = append(p.Env, "TERM=xterm")
	p.Stdout, p.Stderr = slave, slave
	require.NoError(t, p.Start())
	require.NoError(t, slave.Close())
	all, _ := io.ReadAll(master) // ends with EIO
	_ = p.Wait()
	return string(all), p.ProcessState.ExitCode()
}

func TestBytesAreNotForATerminal(t *testing.T) {
	seen, code := onTerminal(t, "snapshot", "extract", change, "9")
	assert.Equal(t, exitUsage, code)
	assert.Contains(t, seen, "to a terminal")
	seen, code = onTerminal(t, "snapshot", "extract", change, "9", "--force")
	assert.Equal(t, exitGood, code)
	assert.Contains(t, seen, "(Gf")
}

func TestTheBarIsForATerminal(t *testing.T) {
	var b bar
	b.bytes(1, 2)
	b.clear() // draws nowhere

	master, slave := terminal(t)
	t.Setenv("TERM", "xterm")
	r := &run{Tool: Tool{Stderr: slave}}
	drawn := r.bar("file")
	drawn.bytes(0, 100)
	drawn.begun, drawn.last = drawn.begun.Add(-time.Second), drawn.last.Add(-time.Second)
	assert.True(t, drawn.bytes(50, 100))
	drawn.clear()
	t.Setenv("TERM", "dumb")
	assert.Nil(t, r.bar("file").w)
	assert.Nil(t, (&run{Tool: Tool{Stderr: &bytes.Buffer{}}}).bar("file").w)

	require.NoError(t, slave.Close())
	seen, _ := io.ReadAll(master) // ends with EIO
	assert.Contains(t, string(seen), "\rfile [###############---------------]  50%")
	assert.True(t, strings.HasSuffix(string(seen), "\r\x1b[K"), "%q", seen)
}
