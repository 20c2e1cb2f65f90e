package log

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"libmmsb/core/abi"
	"libmmsb/core/status"
)

// drain takes all lines, without their times.
func drain(t *testing.T, l *logger) (lines []string, lost uint64) {
	t.Helper()
	buffer := make([]byte, 2*lineBytes)
	for {
		n, missed, err := l.read(buffer)
		require.NoError(t, err)
		lost += missed
		if n == 0 {
			return lines, lost
		}
		require.Equal(t, byte('\n'), buffer[n-1])
		for _, line := range strings.Split(string(buffer[:n-1]), "\n") {
			stamp, rest, found := strings.Cut(line, " ")
			require.True(t, found, line)
			_, err := time.Parse(time.RFC3339Nano, stamp)
			require.NoError(t, err)
			lines = append(lines, rest)
		}
	}
}

func TestEveryLevelOfTheHeaderIsOne(t *testing.T) {
	assert.Len(t, abi.LogNames, Debug+1)
	for level, name := range abi.LogNames {
		l := newLogger()
		require.NoError(t, l.configureFromEnvironment(name, unix.Stderr))
		assert.EqualValues(t, level, l.level.Load(), name)
		require.NoError(t, l.configure(level, -1))
		assert.EqualValues(t, level, l.level.Load(), name)
	}
}

func TestOnlyTheLevelsAskedForAreLogged(t *testing.T) {
	t.Cleanup(func() { process = newLogger() })
	process = newLogger()
	Logf(Error, "while off")
	require.NoError(t, Configure(Info, -1))
	assert.True(t, Enabled(Info))
	assert.False(t, Enabled(Debug))
	Logf(Error, "page %d", 1)
	Logf(Info, "page %d", 2)
	Logf(Debug, "page %d", 3)
	lines, lost := drain(t, process)
	assert.Equal(t, []string{"error page 1", "info page 2"}, lines)
	assert.Zero(t, lost)
	require.NoError(t, ConfigureFromEnvironment("off"))
	assert.False(t, Enabled(Error))
	n, _, err := Read(nil)
	assert.NoError(t, err)
	assert.Zero(t, n)
}

func TestATextIsOneLine(t *testing.T) {
	l := newLogger()
	l.write(Error, "first\nsecond\r\n")
	lines, _ := drain(t, l)
	assert.Equal(t, []string{`error first\nsecond\r\n`}, lines)
}

func TestALongLineIsCutAtACharacter(t *testing.T) {
	l := newLogger()
	l.write(Error, strings.Repeat("é", lineBytes))
	lines, _ := drain(t, l)
	require.Len(t, lines, 1)
	assert.True(t, utf8.ValidString(lines[0]))
	assert.InDelta(t, lineBytes, len(lines[0]), 64)
}

func TestTheRingKeepsTheNewestLines(t *testing.T) {
	l := newLogger()
	filler := strings.Repeat("x", 1000)
	const count = 1000
	for number := range count {
		l.write(Info, fmt.Sprintf("%04d %s", number, filler[:number]))
	}
	assert.LessOrEqual(t, l.ring.length, ringBytes)
	lines, lost := drain(t, l)
	require.EqualValues(t, count, lost+uint64(len(lines)))
	assert.Greater(t, len(lines), 200)
	for at, line := range lines {
		number := int(lost) + at
		require.Equal(t, fmt.Sprintf("info %04d %s", number, filler[:number]), line)
	}
	_, lost = drain(t, l)
	assert.Zero(t, lost, "lines are reported lost once")
}

func TestReadTakesWholeLinesThatFit(t *testing.T) {
	l := newLogger()
	l.write(Info, "one")
	l.write(Info, "two")
	first := l.ring.next()

	n, _, err := l.read(make([]byte, first-1))
	assert.Equal(t, status.OutOfRange, status.CodeOf(err))
	assert.Equal(t, first, n)

	buffer := make([]byte, first)
	n, _, err = l.read(buffer)
	require.NoError(t, err)
	assert.Contains(t, string(buffer[:n]), "info one\n")
	lines, _ := drain(t, l)
	assert.Equal(t, []string{"info two"}, lines)
}

func TestConfigureRefusesWhatCannotBe(t *testing.T) {
	l := newLogger()
	reader, writer, err := os.Pipe()
	require.NoError(t, err)
	defer writer.Close()
	for _, wrong := range [][2]int{{-1, -1}, {5, -1}, {Info, -2}, {Info, 1 << 20}, {Info, int(reader.Fd())}} {
		assert.Equal(t, status.InvalidArgument, status.CodeOf(l.configure(wrong[0], wrong[1])), "%v", wrong)
	}
	require.NoError(t, reader.Close())
	assert.Equal(t, status.InvalidArgument, status.CodeOf(l.configureFromEnvironment("loud", 2)))
	assert.NoError(t, l.configureFromEnvironment("", 2))
	assert.Zero(t, l.level.Load())
	assert.Negative(t, l.stderr.descriptor)
}

func TestLinesGoToTheDescriptorAndToStderr(t *testing.T) {
	l := newLogger()
	folder := t.TempDir()
	own, err := os.Create(filepath.Join(folder, "own"))
	require.NoError(t, err)
	defer own.Close()
	stderr, err := os.Create(filepath.Join(folder, "stderr"))
	require.NoError(t, err)
	defer stderr.Close()

	require.NoError(t, l.configureFromEnvironment("warning", int(stderr.Fd())))
	assert.EqualValues(t, Warning, l.level.Load())
	l.write(Warning, "first")
	require.NoError(t, l.configure(Info, int(own.Fd())))
	l.write(Info, strings.Repeat("long ", 4000))
	require.NoError(t, l.configure(Info, -1))
	l.write(Info, "last")

	texts := map[string]string{}
	for _, name := range []string{"own", "stderr"} {
		text, err := os.ReadFile(filepath.Join(folder, name))
		require.NoError(t, err)
		texts[name] = string(text)
	}
	assert.Equal(t, 3, strings.Count(texts["stderr"], "\n"))
	assert.Contains(t, texts["stderr"], "warning first\n")
	assert.Equal(t, 1, strings.Count(texts["own"], "\n"))
	assert.Contains(t, texts["own"], strings.Repeat("long ", 4000)+"\n")
}

// testFullDescriptor fills a descriptor pair's buffer until the log has to leave lines out, then empties it.
func testFullDescriptor(t *testing.T, reader, writer int) {
	l := newLogger()
	require.NoError(t, l.configure(Info, writer))
	line := strings.Repeat("y", 9000)
	written := 0
	for l.descriptor.dropped == 0 {
		l.write(Info, line)
		written++
		require.Less(t, written, 1000, "a descriptor that nobody reads takes everything")
	}
	l.write(Info, "left out")
	assert.EqualValues(t, 2, l.descriptor.dropped)

	require.NoError(t, unix.SetNonblock(reader, true))
	var text strings.Builder
	empty := func() {
		buffer := make([]byte, 1<<16)
		for {
			n, err := unix.Read(reader, buffer)
			if err == unix.EAGAIN {
				return
			}
			require.NoError(t, err)
			text.Write(buffer[:n])
		}
	}
	empty()
	l.write(Info, "after")
	empty()
	whole := 0
	for _, line := range strings.Split(text.String(), "\n") {
		if strings.HasSuffix(line, " info "+strings.Repeat("y", 9000)) {
			whole++
		}
	}
	assert.Equal(t, written-1, whole)
	assert.Contains(t, text.String(), "warning 2 lines were left out here")
	assert.True(t, strings.HasSuffix(text.String(), " info after\n"))
	assert.NotContains(t, text.String(), "info left out")

	lines, _ := drain(t, l)
	assert.Contains(t, lines, "info left out", "the ring has every line")
}

func TestAFullPipeDoesNotBlock(t *testing.T) {
	ends := make([]int, 2)
	require.NoError(t, unix.Pipe(ends))
	defer unix.Close(ends[0])
	defer unix.Close(ends[1])
	testFullDescriptor(t, ends[0], ends[1])
}

func TestAFullSocketDoesNotBlock(t *testing.T) {
	ends, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	require.NoError(t, err)
	defer unix.Close(ends[0])
	defer unix.Close(ends[1])
	testFullDescriptor(t, ends[0], ends[1])
}

func TestAClosedReaderOnlyCostsTheLines(t *testing.T) {
	sockets, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	require.NoError(t, err)
	pipe := make([]int, 2)
	require.NoError(t, unix.Pipe(pipe))
	for _, ends := range [][]int{sockets[:], pipe} {
		require.NoError(t, unix.Close(ends[0]))
		l := newLogger()
		require.NoError(t, l.configure(Info, ends[1]))
		l.write(Info, "gone")
		assert.EqualValues(t, 1, l.descriptor.dropped)
		require.NoError(t, unix.Close(ends[1]))
	}
}

func TestLoggingUnderConcurrency(t *testing.T) {
	l := newLogger()
	const threads, count = 4, 500
	var group sync.WaitGroup
	for thread := range threads {
		group.Go(func() {
			for number := range count {
				l.write(Info, fmt.Sprintf("%d %d", thread, number))
			}
		})
	}
	seen, lost := 0, uint64(0)
	for range 20 {
		lines, missed := drain(t, l)
		seen, lost = seen+len(lines), lost+missed
	}
	group.Wait()
	lines, missed := drain(t, l)
	assert.EqualValues(t, threads*count, uint64(seen+len(lines))+lost+missed)
}
