package command

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"libmmsb/core/picture"
	"libmmsb/core/trace"
)

func TestMemoryReport(t *testing.T) {
	folder := t.TempDir()
	path := func(name string) string { return filepath.Join(folder, name) }
	p := picture.Picture{Name: "a device", Pool: true, Time: 9, Tags: []string{"untagged", "weights"},
		Statistics: []picture.Entry{{Name: "num_ooms", Value: 3}},
		Segments: []picture.Segment{{Address: 1 << 30, Bytes: 2 << 20, Blocks: []picture.Block{
			{Bytes: 1 << 20, Asked: 1000, State: picture.Live, Tag: 1}, {Bytes: 1 << 20}}}},
		Events: []picture.Event{{Time: 5, Action: picture.Allocated, Address: 1 << 30, Bytes: 1000, Tag: 1}}}
	out, err := os.Create(path("memory.json"))
	require.NoError(t, err)
	require.NoError(t, p.WriteJSON(out))
	require.NoError(t, out.Close())

	require.Empty(t, good(t, "memory", "report", path("memory.json"), "-o", path("page"), "--torch", path("pickle")))
	var wanted picturesWritten
	require.NoError(t, p.WriteHTML(&wanted.html))
	require.NoError(t, p.WriteTorch(&wanted.torch))
	for name, want := range map[string][]byte{"page": wanted.html.Bytes(), "pickle": wanted.torch.Bytes()} {
		got, err := os.ReadFile(path(name))
		require.NoError(t, err)
		require.Equal(t, string(want), string(got), "%s: what the program itself would have written", name)
	}
	numbers := good(t, "memory", "report", path("memory.json"))
	require.Regexp(t, `(?m)^live +1000$`, numbers)
	require.Regexp(t, `(?m)^num_ooms +3$`, numbers)

	require.NoError(t, os.WriteFile(path("log.CSV"), []byte("Thread,Time,Action,Pointer,Size,Stream\n"+
		"1,00:00:00.5,allocate,0x10,77,0x0\n"), 0o600))
	require.Regexp(t, `(?m)^peak of live +77$`, good(t, "memory", "report", path("log.CSV")))

	require.NoError(t, os.WriteFile(path("bad.json"), []byte(`{"format":"mmsb memory 1","tags":[],"events":[[1]]}`), 0o600))
	bad(t, exitBad, []string{path("bad.json") + ": ", "event 0"}, "memory", "report", path("bad.json"))
	bad(t, exitBad, []string{"not JSON"}, "memory", "report", path("pickle"))
	bad(t, exitFailed, []string{"nothing.json"}, "memory", "report", path("nothing.json"))
	bad(t, exitFailed, []string{"cannot open the directory"}, "memory", "report", path("memory.json"), "-o", path("no/page"))
	bad(t, exitUsage, []string{"a FILE"}, "memory", "report")
	bad(t, exitUsage, []string{"needs a command"}, "memory")
}

// A report and a replay read a log in the same way: what one refuses the other does, too, in the same words.
func TestReportsAndReplaysRefuseTheSame(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log.csv")
	streams := ""
	for number := range trace.MostStreams + 1 {
		streams += fmt.Sprintf("1,12:00:00,allocate,0x%x,5,0x%x\n", 0x1000+number*16, number)
	}
	const sound = "1,12:00:00,allocate,0x10,5,0x0\n"
	for lines, says := range map[string]string{
		sound:                                  "",
		sound + "1,12:00:00,free,0x10,5,0x0\n": "",
		sound + "1,12:00:00,free,0x20,5,0x0\n": "line 3 of the trace: address 0x20 is freed, but not allocated",
		sound + "1,12:00:00,free,0x10,6,0x0\n": "line 3 of the trace: 6 bytes are freed at 0x10, 5 were allocated",
		sound + "1,zz,free,0x10,5,0x0\n":       `line 3 of the trace: time "zz" is not like`,
		sound + "1,12:00:00,free,0x10":         "line 3 of the trace: line is cut off after 20 bytes",
		sound + "1,12:00:00,allocate failure,0x0,18446744073709551615,0x0\n": "",

		"4294967296,12:00:00,free,0x10,5,0x0\n":             "line 2 of the trace: thread is 4294967296, more than 4294967295",
		"1,12:00:00,allocate,0x9,9223372036854775807,0x0\n": "line 2 of the trace: 9223372036854775807 bytes at 0x9 end",

		streams: "line 4098 of the trace: stream 0x1000 is one more than 4096 streams",
	} {
		require.NoError(t, os.WriteFile(path, []byte("Thread,Time,Action,Pointer,Size,Stream\n"+lines), 0o600))
		_, reported, code := mmsb("memory", "report", path)
		_, replayed, same := replaying(context.Background(), invented, path)
		require.Equal(t, reported, replayed)
		require.Equal(t, code, same, "%s", reported)
		if says == "" {
			require.Empty(t, reported)
			continue
		}
		require.Contains(t, reported, path+": "+says)
		require.Equal(t, exitBad, code)
	}
	require.NoError(t, os.WriteFile(path, []byte("Thread,Time,Action,Pointer,Size,Stream\n1,12:00:00,free,0x20,5,0x0\n"), 0o600))
	require.Regexp(t, `(?m)^peak of live +5$`, good(t, "memory", "report", path, "--lost-beginning"))
	_, complaint, code := replaying(context.Background(), invented, path, "--lost-beginning")
	require.Empty(t, complaint)
	require.Equal(t, exitGood, code)
}

type picturesWritten struct{ html, torch bytes.Buffer }
