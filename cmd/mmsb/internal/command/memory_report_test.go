package command

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"libmmsb/core/picture"
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

type picturesWritten struct{ html, torch bytes.Buffer }
