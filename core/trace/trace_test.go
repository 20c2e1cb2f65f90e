package trace

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"libmmsb/core/status"
)

var folder = filepath.Join("..", "..", "testdata", "traces")

func read(text string) (*Trace, error) { return Read(strings.NewReader(text), Options{Device: -1}) }

func requireError(t *testing.T, code status.Code, text string, err error) {
	t.Helper()
	require.Equal(t, code, status.CodeOf(err), "%v", err)
	require.Contains(t, err.Error(), text)
}

// expected is what the script that made a file says of it.
type expected struct {
	Events       [][4]any
	Blocks       uint64
	Streams      int
	Live, Before uint64
	Reserved     uint64
}

func fixture(t *testing.T, name string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(folder, name))
	require.NoError(t, err)
	return string(content)
}

func TestFilesOfAnotherWriter(t *testing.T) {
	var all map[string]expected
	require.NoError(t, json.Unmarshal([]byte(fixture(t, "expected.json")), &all))
	require.Len(t, all, 4)
	for name, want := range all {
		t.Run(name, func(t *testing.T) {
			got, err := read(fixture(t, name))
			require.NoError(t, err)
			require.Len(t, got.Events, len(want.Events))
			for at, e := range got.Events {
				shown := [4]any{e.Free, float64(e.Block), float64(e.Bytes), float64(e.Stream)}
				require.Equal(t, want.Events[at], shown, "event %d", at)
			}
			assert.Equal(t, want.Blocks, got.Blocks)
			assert.Equal(t, want.Streams, got.Streams)
			assert.Equal(t, want.Before, got.Before)
			assert.Equal(t, want.Reserved, got.Reserved)
			assert.Equal(t, uint64(1), got.Refused)
			assert.NotZero(t, got.Other)
			assert.True(t, got.Timed)
			assert.Positive(t, got.Events[len(got.Events)-1].Time-got.Events[0].Time)
		})
	}
}

// Cut off anywhere, a trace is a shorter one (behind a line of CSV), or an error with the place.
func TestTracesThatAreCutOff(t *testing.T) {
	for _, name := range []string{"rmm.csv", "pytorch-protocol2.pickle", "pytorch-protocol4.pickle"} {
		whole := fixture(t, name)
		for length := 0; length < len(whole); length++ {
			if length > 2500 { // the same again
				length = min(length+100, len(whole)-1)
			}
			got, err := read(whole[:length])
			switch {
			case err == nil:
				require.Equal(t, byte('\n'), whole[length-1], "%s, %d bytes", name, length)
				require.Len(t, got.Events, max(0, strings.Count(whole[:length], "\n")-1-int(got.Other+got.Refused)))
			case length == 0:
				requireError(t, status.Format, "trace is empty", err)
			case name == "rmm.csv" && length < len(csvHeader):
				requireError(t, status.Format, "line 1 of the trace", err)
			case name == "rmm.csv":
				requireError(t, status.Corrupt, "is cut off", err)
			default:
				requireError(t, status.Corrupt, "pickle is cut off at offset ", err)
			}
		}
	}
}

func TestAReaderThatFails(t *testing.T) {
	broken := errors.New("broken")
	for _, name := range []string{"rmm.csv", "pytorch-protocol4.pickle"} {
		whole := fixture(t, name)
		for _, length := range []int{0, 1, 50, 5000} {
			from := io.MultiReader(strings.NewReader(whole[:length]), iotest.ErrReader(broken))
			_, err := Read(from, Options{Device: -1})
			require.ErrorIs(t, err, broken)
		}
	}
}

func TestLinesThatAreWrong(t *testing.T) {
	const good = "1,t,allocate,0x10,100,0x0\n"
	for lines, want := range map[string]struct {
		code status.Code
		text string
	}{
		"Thread,Time\n":                       {status.Format, "line 1: header is not "},
		"x":                                   {status.Format, "line 1: header is not "},
		good + "1,t,allocate,0x20,100\n":      {status.Format, "line 3: line does not have 6 columns"},
		good + "1,t,allocate,0x20,100,0x0,\n": {status.Format, "line 3: line does not have 6 columns"},
		good + "\n":                           {status.Format, "line 3: line does not have 6 columns"},
		good + "1,t,resize,0x20,100,0x0\n":    {status.Format, `line 3: action "resize" does not exist`},
		good + "1,t,,0x20,100,0x0\n":          {status.Format, `line 3: action "" does not exist`},
		good + "1,t,free,0x20,100,0x0\n":      {status.Corrupt, "line 3: address 0x20 is freed, but not allocated"},
		good + "1,t,free,0x10,100,0x0\n1,t,free,0x10,100,0x0\n":   {status.Corrupt, "line 4: address 0x10 is freed"},
		good + "1,t,free,0x10,101,0x0\n":                          {status.Corrupt, "line 3: 101 bytes are freed at 0x10, 100"},
		good + "1,t,allocate,0x10,5,0x0\n":                        {status.Corrupt, "line 3: address 0x10 is allocated and"},
		good + "1,t,allocate,0x20,-5,0x0\n":                       {status.Format, `line 3: column 5 is "-5"`},
		good + "1,t,allocate,0x20,18446744073709551616,0x0\n":     {status.Format, "line 3: column 5 is "},
		good + "1,t,allocate,0x10000000000000000,5,0x0\n":         {status.Format, "line 3: column 4 is "},
		good + "1,t,allocate,zz,5,0x0\n":                          {status.Format, "line 3: column 4 is "},
		good + "1,t,allocate,0x20,5,one\n":                        {status.Format, "line 3: column 6 is "},
		good + "a,t,allocate,0x20,5,0x0\n":                        {status.Format, "line 3: column 1 is "},
		good + "4294967296,t,allocate,0x20,5,0x0\n":               {status.Format, "line 3: thread is 4294967296, more than"},
		good + "1,t,free,0xffffffffffffffff,1,0x0\n":              {status.Format, "line 3: 1 bytes at 0xffffffffffffffff end"},
		good + "1,t,allocate,0x8000000000000000,1,0x0\n":          {status.Format, "line 3: 1 bytes at 0x8000000000000000 end"},
		good + "1,t,allocate,0x2,9223372036854775806,0\n":         {status.Format, "line 3: 9223372036854775806 bytes at 0x2"},
		good + strings.Repeat("x", longestLine) + "\n":            {status.Format, "line 3: line has more than "},
		good + "1,t,allocate,0x20,5,0x0":                          {status.Corrupt, "line 3: line is cut off after 27 bytes"},
		good + "1,t,allocate\x1b[2J,0x20,5,0x0\n":                 {status.Format, `line 3: action "allocate\x1b[2J" does`},
		good + "1,t,allocate,0x20,5,0x0\r1,t,free,0x20,5,0x0\r\n": {status.Format, "line 3: line does not have 6 columns"},
	} {
		if lines[0] == '1' {
			lines = csvHeader + "\n" + strings.ReplaceAll(lines, ",t,", ",0:0:0,")
		}
		_, err := read(lines)
		requireError(t, want.code, strings.Replace(want.text, ": ", " of the trace: ", 1), err)
	}
}

func TestWaysToWriteALine(t *testing.T) {
	got, err := read(csvHeader + "\r\n1,0:0:0,allocate,7f00,9223372036854743295,2\r\n2,0:0:0,allocate,0x20,1,0x2\n" +
		"2,0:0:0,allocate,(nil),0,(nil)\n1,0:0:0,allocate failure,0x0,18446744073709551615,0x0\n" +
		"1,0:0:0,deallocate,0x7F00,9223372036854743295,(nil)\n1,0:0:0,allocate,0x7f00,3,2\n")
	require.NoError(t, err)
	assert.Equal(t, &Trace{Format: "RMM", Blocks: 3, Streams: 3, Threads: 2, Refused: 1, Other: 1, Timed: true, Events: []Event{
		{Bytes: 1<<63 - 1 - 0x7f00, Block: 0, Stream: 0}, // stream 2 is another one in each thread
		{Bytes: 1, Block: 1, Thread: 1, Stream: 1},
		{Bytes: 1<<63 - 1 - 0x7f00, Block: 0, Stream: 2, Free: true},
		{Bytes: 3, Block: 2, Stream: 0},
	}}, got)
	got, err = read(csvHeader + "\n")
	require.NoError(t, err)
	assert.Equal(t, &Trace{Format: "RMM"}, got)
}

func TestTimesOfLines(t *testing.T) {
	const day = 24 * 3600e6
	const text = csvHeader + "\n7,23:59:59.999999,allocate,0x10,1,0\n8,00:00:00:000001,allocate,0x20,1,0\n" +
		"7,23:59:59.5,free,0x10,1,0\n7,12:00:00,allocate,0x10,1,0\n7,23:59:59,free,0x10,1,0\n7,00:00:00,free,0x20,1,0\n"
	got, err := read(text)
	require.NoError(t, err)
	require.True(t, got.Timed)
	var times []int64
	for _, e := range got.Events {
		times = append(times, e.Time)
	}
	require.Equal(t, []int64{day - 1, day + 1, day - 500_000, day * 3 / 2, 2*day - 1_000_000, 2 * day}, times)
	require.Equal(t, 2, got.Threads)
	require.EqualValues(t, 1, got.Events[1].Thread)
	for _, wrong := range []string{"", "t", "24:00:00", "1:2", "1:2:3:4:5", "00:00:61", "00:00:00.1234567", "-1:00:00"} {
		_, err = read(text + "7," + wrong + ",allocate,0x30,1,0\n")
		requireError(t, status.Format, fmt.Sprintf("line 8 of the trace: time %q is not like", wrong), err)
	}
}

// Columns may stand in another order, and others beside them.
func TestColumnsInAnotherOrder(t *testing.T) {
	got, err := read("Size,Device,Stream,Pointer,Action,Time,Thread\n100,0,0x7,0x10,allocate,00:00:01,3\n")
	require.NoError(t, err)
	require.Equal(t, &Trace{Format: "RMM", Blocks: 1, Streams: 1, Threads: 1, Timed: true,
		Events: []Event{{Bytes: 100, Time: 1_000_000}}}, got)
	_, err = read("Size,Device,Stream,Pointer,Action,Time,Thread\n100,0,0x7,0x10,allocate,00:00:01\n")
	requireError(t, status.Format, "line 2 of the trace: line does not have 7 columns", err)
	_, err = read("Size,Device,Stream,Pointer,Action,Time,Thread\nx,0,0x7,0x10,allocate,00:00:01,3\n")
	requireError(t, status.Format, `line 2 of the trace: column 1 is "x"`, err)
}

func TestPlacesAreThereForWhoAsks(t *testing.T) {
	const text = csvHeader + "\n5,00:00:01,free,0x9000,50,0x9\n6,00:00:02,allocate,0x10,1,0x7\n" +
		"6,00:00:03,allocate failure,0x0,77,0x7\n"
	read := func(text string) (*Trace, error) {
		return Read(strings.NewReader(text), Options{Device: -1, Lost: true, Places: true})
	}
	got, err := read(text)
	require.NoError(t, err)
	require.Equal(t, &Places{Addresses: []uint64{0x9000, 0x10}, Streams: []uint64{9, 7}, Threads: []uint64{5, 6},
		Refusals: []Refusal{{Event{Bytes: 77, Time: 3e6, Thread: 1, Stream: 1}, 3}}}, got.Places)
	require.EqualValues(t, 1, got.Before)
	require.EqualValues(t, 1, got.Refused)
}

// A log that was full has lost its beginning: with Lost, what it frees first was allocated before.
func TestALostBeginning(t *testing.T) {
	const text = csvHeader + "\n1,0:0:0,allocate,0x50,5,0x7\n1,0:0:0,free,0x20,20,0x9\n1,0:0:0,free,0x10,10,0x0\n" +
		"1,0:0:0,allocate,0x10,11,0x0\n"
	_, err := read(text)
	requireError(t, status.Corrupt, "line 3 of the trace: address 0x20 is freed, but not allocated", err)
	lossy := func(text string) (*Trace, error) {
		return Read(strings.NewReader(text), Options{Device: -1, Lost: true})
	}
	got, err := lossy(text)
	require.NoError(t, err)
	assert.Equal(t, &Trace{Format: "RMM", Blocks: 4, Streams: 3, Threads: 1, Before: 2, Timed: true, Events: []Event{
		{Bytes: 10, Stream: 2}, {Bytes: 20, Block: 1, Stream: 1}, {Bytes: 5, Block: 2},
		{Bytes: 20, Block: 1, Stream: 1, Free: true}, {Bytes: 10, Stream: 2, Free: true}, {Bytes: 11, Block: 3, Stream: 2}}}, got)
	_, err = lossy(text + "1,0:0:0,free,0x10,11,0x0\n1,0:0:0,free,0x10,11,0x0\n")
	requireError(t, status.Corrupt, "line 7 of the trace: address 0x10 is freed, but not allocated", err)
	_, err = lossy(text + "1,0:0:0,free,0x20,20,0x0\n")
	requireError(t, status.Corrupt, "line 6 of the trace: address 0x20 is freed, but not allocated", err)
	whole := fixture(t, "rmm.csv")
	plain, err := read(whole)
	require.NoError(t, err)
	same, err := lossy(whole)
	require.NoError(t, err)
	assert.Equal(t, plain, same)
}

func TestMoreStreamsThanCanBe(t *testing.T) {
	text := csvHeader + "\n"
	for number := range MostStreams {
		text += fmt.Sprintf("1,0:0:0,allocate,0x%x,1,0x%x\n", number, 0x1000+number)
	}
	got, err := read(text)
	require.NoError(t, err)
	require.Equal(t, MostStreams, got.Streams)
	for _, action := range []string{"allocate,0xffff", "allocate failure,0x0"} {
		_, err = read(text + "1,0:0:0," + action + ",1,0x7\n")
		requireError(t, status.Limit, "line 4098 of the trace: stream 0x7 is one more than 4096 streams", err)
	}
}
