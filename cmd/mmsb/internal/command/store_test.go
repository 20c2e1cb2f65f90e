package command

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"libmmsb/core/abi"
	"libmmsb/core/file"
	"libmmsb/core/keeper"
	"libmmsb/core/page"
	"libmmsb/core/store"
)

var keeperOptions = keeper.Options{SaveBytes: keeper.Never, IntervalMs: 1, SegmentBytes: 4096,
	Retention: store.Retention{Last: 1, Branches: true}}

func create(t *testing.T, context uint64) {
	t.Helper()
	require.NoError(t, page.Use(context, func(c *page.Context) error {
		_, err := c.Create(100, page.CreateOptions{Location: abi.LocationDefault, NUMANode: -1})
		return err
	}))
}

// stored is a store with a snapshot that has the name "first", a later one, and a record behind; its writer is alive.
func stored(t *testing.T) (directory string, context uint64) {
	directory = filepath.Join(t.TempDir(), "state")
	context, err := keeper.Open(directory, page.Options{SimulatedDevices: 1}, keeperOptions, nil)
	require.NoError(t, err)
	t.Cleanup(func() { _ = page.Destroy(context) })
	create(t, context)
	require.NoError(t, keeper.SetName(context, "first", nil))
	create(t, context)
	require.NoError(t, keeper.Save(context, true, nil))
	create(t, context)
	return directory, context
}

func TestStores(t *testing.T) {
	directory, context := stored(t)
	assert.Contains(t, good(t, "store", "info", directory), "written by  process ")
	_, complaint, code := mmsb("store", "prune", directory)
	assert.Equal(t, exitFailed, code)
	assert.Contains(t, complaint, "is open for writing by process ")
	target := filepath.Join(t.TempDir(), "backup")
	good(t, "store", "backup", directory, target) // beside the writer
	require.NoError(t, page.Destroy(context))

	out := good(t, "store", "info", directory)
	assert.Contains(t, out, "written by  nobody")
	assert.Contains(t, out, "snapshots   2, ")
	out = good(t, "store", "ls", directory)
	assert.Regexp(t, `(?m)^ +2 .* records *$`, out)
	assert.Regexp(t, `(?m)^ +1 .* first$`, out)
	var listed struct{ Snapshots []pointShown }
	require.NoError(t, json.Unmarshal([]byte(good(t, "store", "ls", "--json", directory)), &listed))
	require.Len(t, listed.Snapshots, 2)
	assert.Equal(t, []string{"first"}, listed.Snapshots[1].Names)
	assert.True(t, listed.Snapshots[0].Whole)
	var info storeShown
	require.NoError(t, json.Unmarshal([]byte(good(t, "store", "info", "--json", directory)), &info))
	assert.Equal(t, uint64(3), info.Last)
	assert.Empty(t, info.Writer)

	out = good(t, "store", "verify", directory)
	assert.Contains(t, out, "state: good, ")
	assert.Contains(t, good(t, "store", "backup", directory, target), " copied; ")
	good(t, "store", "verify", target)
	assert.Equal(t, "0 snapshots removed; the store has 8.0 KiB less\n", good(t, "store", "prune", target), "a segment")
	var copied storeShown
	require.NoError(t, json.Unmarshal([]byte(good(t, "store", "info", "--json", target)), &copied))
	assert.Equal(t, info.Last, copied.Last)
}

func TestStoresThatAreNone(t *testing.T) {
	directory, context := stored(t)
	require.NoError(t, page.Destroy(context))
	empty := t.TempDir()
	for _, command := range []string{"info", "ls", "verify", "prune"} {
		_, complaint, code := mmsb("store", command, empty)
		assert.Equal(t, exitFailed, code, command)
		assert.Contains(t, complaint, "no journal in ", command)
	}
	assert.Empty(t, contents(t, empty))
	require.NoError(t, os.WriteFile(filepath.Join(empty, "mine"), nil, 0o600))
	_, complaint, code := mmsb("store", "backup", directory, empty)
	assert.Equal(t, exitFailed, code)
	assert.Contains(t, complaint, "no journal: a store begins in an empty directory")
	other, context := stored(t)
	require.NoError(t, page.Destroy(context))
	_, complaint, code = mmsb("store", "backup", directory, other)
	assert.Equal(t, exitBad, code)
	assert.Contains(t, complaint, "is not a backup of ")
	bad(t, exitUsage, []string{"--keep-last is 0, not 1 to 1048576; see mmsb store prune --help"}, "store", "prune",
		"--keep-last", "0", directory)

	files, err := filepath.Glob(filepath.Join(directory, "base-*"))
	require.NoError(t, err)
	bytes, err := os.ReadFile(files[0])
	require.NoError(t, err)
	bytes[len(bytes)/2+10]++
	require.NoError(t, os.WriteFile(files[0], bytes, 0o600))
	_, complaint, code = mmsb("store", "verify", directory)
	assert.Equal(t, exitBad, code)
	assert.NotEmpty(t, complaint)
}

func TestVersion(t *testing.T) {
	assert.Equal(t, "mmsb 1.2.3\n", good(t, "--version"))
	assert.Contains(t, good(t, "version"), "mmsb 1.2.3\nsnapshots: version ")
}

// pruning is a disk on which a file goes when one is opened for the last time of so many.
type pruning struct {
	file.FS
	opened, goes string
	times        int
}

func (p *pruning) Open(path string, flags int, mode os.FileMode) (file.File, error) {
	if path == p.opened {
		if p.times--; p.times == 0 {
			_ = p.FS.Remove(p.goes)
		}
	}
	return p.FS.Open(path, flags, mode)
}

// A writer removes snapshots while they are verified.
func TestVerifyBesideAWriterThatPrunes(t *testing.T) {
	directory, _ := stored(t)
	s, err := store.Look(file.OS{}, directory)
	require.NoError(t, err)
	require.Len(t, s.Points, 2)
	newest, oldest := s.Points[0].Path, s.Points[1].Path
	disk := &pruning{FS: file.OS{}, opened: newest, goes: oldest, times: 2}
	out, complaint, code := mmsbOn(context.Background(), disk, "store", "verify", directory)
	require.Empty(t, complaint)
	require.Equal(t, exitGood, code)
	require.NoFileExists(t, oldest)
	require.Contains(t, out, newest+": good")
	require.NotContains(t, out, oldest)
}

// A writer removes segments while they are listed, and the base that a replay has chosen.
func TestJournalsBesideAWriterThatPrunes(t *testing.T) {
	directory, _, _ := closed(t)
	segments, err := filepath.Glob(filepath.Join(directory, "journal-*.mmsbj"))
	require.NoError(t, err)
	require.Greater(t, len(segments), 1)
	first := segments[0]
	want := good(t, "journal", "ls", directory, "--records", "--json")
	for _, form := range [][]string{{"--json"}, nil} {
		content, err := os.ReadFile(first)
		require.NoError(t, err)
		for times := 1; ; times++ {
			disk := &pruning{FS: file.OS{}, opened: first, goes: first, times: times}
			arguments := append([]string{"journal", "ls", directory, "--records"}, form...)
			out, complaint, code := mmsbOn(context.Background(), disk, arguments...)
			require.Empty(t, complaint)
			require.Equal(t, exitGood, code)
			if disk.times > 0 { // it was not opened so often
				require.Greater(t, times, 3)
				break
			}
			require.NoFileExists(t, first)
			if form != nil {
				require.NotEqual(t, want, out)
				decode(t, out)
			}
			require.NoError(t, os.WriteFile(first, content, 0o600))
		}
	}
	s, err := store.Look(file.OS{}, directory)
	require.NoError(t, err)
	base := s.Newest().Path
	disk := &pruning{FS: file.OS{}, opened: base, goes: base, times: 3} // when its state is read
	out := filepath.Join(t.TempDir(), "out")
	_, complaint, code := mmsbOn(context.Background(), disk, "journal", "replay", directory, "-o", out)
	require.Empty(t, complaint)
	require.Equal(t, exitGood, code)
	require.NoFileExists(t, base)
	good(t, "snapshot", "verify", out)
}
