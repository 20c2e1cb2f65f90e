package command

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"libmmsb/core/journal"
	"libmmsb/core/keeper"
	"libmmsb/core/page"
	"libmmsb/core/snapshot"
	"libmmsb/core/store"
)

// watched runs watch, hands its lines to see until that has enough, and ends it with Ctrl-C.
func watched(t *testing.T, see func(line string) (enough bool), arguments ...string) {
	t.Helper()
	assert.Empty(t, complainedOf(t, see, arguments...))
}

// complainedOf is watched, and what watch complains of.
func complainedOf(t *testing.T, see func(line string) (enough bool), arguments ...string) string {
	t.Helper()
	p := process(t, "", append([]string{"store", "watch", "--interval", "0.02"}, arguments...)...)
	var complaint bytes.Buffer
	p.Stderr = &complaint
	stdout, err := p.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, p.Start())
	lines := bufio.NewScanner(stdout)
	for lines.Scan() && !see(lines.Text()) {
	}
	require.NoError(t, p.Process.Signal(syscall.SIGINT))
	_, _ = io.Copy(io.Discard, stdout)
	assert.Error(t, p.Wait())
	assert.Equal(t, 130, p.ProcessState.ExitCode())
	return complaint.String()
}

// A snapshot whose header is damaged is counted each time, and named once.
func TestWatchNamesWhatIsLost(t *testing.T) {
	directory, _, first := closed(t)
	damage(t, first, inHeader)
	lines := 0
	complaint := complainedOf(t, func(line string) bool {
		var s seen
		require.NoError(t, json.Unmarshal([]byte(line), &s))
		assert.Equal(t, 1, s.Lost)
		assert.Equal(t, 1, s.Snapshots)
		lines++
		return lines == 3
	}, "--json", directory)
	assert.Equal(t, 1, strings.Count(complaint, filepath.Base(first)), complaint)
}

func TestWatch(t *testing.T) {
	directory, context := stored(t)
	lines, records, written := 0, 0.0, 0.0
	watched(t, func(line string) bool {
		var s seen
		require.NoError(t, json.Unmarshal([]byte(line), &s))
		if lines++; lines == 1 {
			assert.Nil(t, s.RecordsPerSecond)
			assert.Zero(t, s.Saves)
			assert.Contains(t, s.Writer, "process ")
		} else {
			require.NotNil(t, s.RecordsPerSecond)
			records += *s.RecordsPerSecond
			written += *s.BytesPerSecond
			if s.LagSeconds == nil { // a save has just taken the last record away
				assert.Zero(t, s.RecordsSinceSave, "a record that is known has a time")
			} else {
				assert.Less(t, *s.LagSeconds, 60.0)
			}
		}
		assert.Positive(t, s.FreeBytes)
		if lines < 20 {
			create(t, context)
		}
		if lines == 10 {
			require.NoError(t, keeper.Save(context, true, nil))
		}
		return s.Last >= 22 && s.Saves == 1 && s.RecordsSinceSave < 12 && s.BytesSinceSave > 0 || lines > 1000
	}, directory, "--json")
	assert.Less(t, lines, 1000)
	assert.Positive(t, records)
	assert.Positive(t, written)

	header := ""
	watched(t, func(line string) bool {
		if header == "" {
			header = line
			return false
		}
		assert.Regexp(t, `^20\d\d-\S+Z +22  +(-|0/s)  +(-|0 B/s)  `, line)
		return regexp.MustCompile(` 0/s `).MatchString(line)
	}, directory)
	assert.Regexp(t, `^TIME +RECORD +RECORDS +JOURNAL +SINCE SAVE +SAVES +SEGMENTS +SNAPSHOTS +FREE +LAG$`, header)
	require.NoError(t, page.Destroy(context))
}

func TestWatchOnATerminal(t *testing.T) {
	directory, context := stored(t)
	require.NoError(t, page.Destroy(context))
	master, slave := terminal(t)
	p := process(t, "", "store", "watch", "--interval", "0.02", directory)
	p.Env = append(p.Env, "TERM=xterm")
	p.Stdout, p.Stderr = slave, slave
	require.NoError(t, p.Start())
	require.NoError(t, slave.Close())
	var all bytes.Buffer
	part := make([]byte, 4096)
	for bytes.Count(all.Bytes(), []byte("\x1b[7A\r\x1b[J")) < 2 {
		n, err := master.Read(part)
		require.NoError(t, err)
		all.Write(part[:n])
	}
	require.NoError(t, p.Process.Signal(syscall.SIGINT))
	_, _ = io.Copy(io.Discard, master)
	assert.Error(t, p.Wait())
	assert.Equal(t, 130, p.ProcessState.ExitCode())
	for _, text := range []string{"written by  nobody\r\n", "records     0/s, the newest is 3, made ",
		"since save  1 record, about "} {
		assert.Contains(t, all.String(), text)
	}
}

func TestAWatchThatNobodyReads(t *testing.T) {
	directory, context := stored(t)
	require.NoError(t, page.Destroy(context))
	p := process(t, "", "store", "watch", "--interval", "0.02", directory)
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

func TestWhatCannotBeWatched(t *testing.T) {
	bad(t, exitFailed, []string{"no journal in "}, "store", "watch", t.TempDir())
	for _, interval := range []string{"0", "-1", "nan", "1e9"} {
		bad(t, exitUsage, []string{"--interval is ", "not 0.01 to 86400 seconds"}, "store", "watch", ".", "--interval", interval)
	}
	directory, context := stored(t)
	require.NoError(t, page.Destroy(context))
	p := process(t, "", "store", "watch", "--interval", "0.02", directory)
	var stderr bytes.Buffer
	p.Stderr = &stderr
	stdout, err := p.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, p.Start())
	_, err = io.ReadFull(stdout, make([]byte, 10))
	require.NoError(t, err)
	require.NoError(t, os.Rename(directory, filepath.Join(t.TempDir(), "gone")))
	_, _ = io.Copy(io.Discard, stdout)
	assert.Error(t, p.Wait())
	assert.Equal(t, exitFailed, p.ProcessState.ExitCode())
	assert.Contains(t, stderr.String(), "cannot list the journal directory "+directory)
}

func TestBytesBehindASnapshot(t *testing.T) {
	info := &journal.Info{First: 11, Last: 40, Segments: []journal.SegmentInfo{
		{First: 11, Last: 20, Bytes: 1000}, {First: 21, Last: 40, Bytes: 3000}, {First: 41, Last: 40, Bytes: 50}}}
	at := func(position uint64) *store.Point {
		return &store.Point{Base: snapshot.Base{Header: snapshot.Header{Position: position}}}
	}
	for _, row := range []struct {
		newest  *store.Point
		records uint64
		bytes   int64
	}{{nil, 30, 4000}, {at(5), 30, 4000}, {at(10), 30, 4000}, {at(15), 25, 3500}, {at(20), 20, 3000}, {at(39), 1, 150},
		{at(40), 0, 0}, {at(math.MaxInt64), 0, 0}} {
		records, bytes := since(info, row.newest)
		assert.Equal(t, row.records, records, "%+v", row)
		assert.Equal(t, row.bytes, bytes, "%+v", row)
	}
}
