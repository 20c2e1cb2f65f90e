package store

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"libmmsb/core/file"
	"libmmsb/core/lineage"
	"libmmsb/core/snapshot"
	"libmmsb/core/status"
)

// at is a point of the line, taken so many minutes after midnight.
func at(position uint64, minutes int, names ...string) Point {
	midnight := time.Date(2026, 11, 23, 0, 0, 0, 0, time.UTC)
	header := snapshot.Header{Position: position, Taken: midnight.Add(time.Duration(minutes) * time.Minute)}
	return Point{Base: snapshot.Base{Header: header}, Names: names, OnLine: true, Leads: true}
}

func TestRetention(t *testing.T) {
	left := at(4, 10)
	left.OnLine, left.Leads = false, false
	old := at(1, 5)
	old.Leads = false
	for name, row := range map[string]struct {
		rules  Retention
		points []Point
		stays  string // a letter for each point
		from   uint64
	}{
		"the newest":             {Retention{Last: 1}, []Point{at(9, 30), at(5, 20), at(2, 10)}, "+--", 9},
		"the newest two":         {Retention{Last: 2}, []Point{at(9, 30), at(5, 20), at(2, 10)}, "++-", 5},
		"more than there are":    {Retention{Last: 9}, []Point{at(9, 30), at(5, 20)}, "++", 5},
		"records do not lead":    {Retention{Last: 3}, []Point{at(9, 30), at(5, 20), old}, "+++", 5},
		"names":                  {Retention{Last: 1}, []Point{at(9, 30), at(5, 20, "a"), at(2, 10)}, "++-", 9},
		"hours":                  {Retention{Last: 1, Hourly: 2}, []Point{at(9, 130), at(8, 70), at(7, 65)}, "++-", 9},
		"hours without any":      {Retention{Last: 1, Hourly: 2}, []Point{at(9, 700), at(8, 70), at(7, 65)}, "++-", 9},
		"days":                   {Retention{Last: 1, Daily: 2}, []Point{at(9, 30), at(8, -30), at(7, -60)}, "++-", 9},
		"equal times":            {Retention{Last: 1, Hourly: 5}, []Point{at(9, 30), at(8, 30), at(7, 30)}, "+--", 9},
		"the clock went back":    {Retention{Last: 1, Hourly: 2}, []Point{at(9, 10), at(8, 100), at(7, 90)}, "++-", 9},
		"branches are removed":   {Retention{Last: 1}, []Point{at(9, 30), left}, "+-", 9},
		"branches stay":          {Retention{Last: 1, Branches: true}, []Point{at(9, 30), left}, "++", 9},
		"nothing there":          {Retention{Last: 1}, nil, "", 0},
		"hours and names and so": {Retention{Last: 1, Hourly: 1, Daily: 1}, []Point{at(9, 30), at(8, 20, "x", "y")}, "++", 9},
	} {
		stays, from := row.rules.keep(row.points)
		text := ""
		for _, stay := range stays {
			text += map[bool]string{true: "+", false: "-"}[stay]
		}
		require.Equal(t, row.stays, text, name)
		require.Equal(t, row.from, from, name)
	}
	for _, rules := range []Retention{{}, {Last: -1}, {Last: 1, Hourly: -1}, {Last: 1, Daily: 1 << 30}} {
		require.Equal(t, status.InvalidArgument, status.CodeOf(rules.Check()), "%+v", rules)
	}
}

func TestNames(t *testing.T) {
	for _, name := range []string{"a", "before-migration", "Ärger 7", strings.Repeat("x", 255)} {
		require.NoError(t, CheckName(name), name)
	}
	for _, name := range []string{"", "7", "2026-01-01", " a", "a\n", "a\x00", "a\xff", strings.Repeat("x", 256), "-a"} {
		require.Equal(t, status.InvalidArgument, status.CodeOf(CheckName(name)), "%q", name)
	}
	directory, fs := t.TempDir(), file.OS{}
	id, other := snapshot.NewID(), snapshot.NewID()
	require.NoError(t, SetName(fs, directory, "a", id))
	require.NoError(t, SetName(fs, directory, "b", id))
	require.NoError(t, SetName(fs, directory, "a", other))
	all, err := readNames(fs, directory)
	require.NoError(t, err)
	require.Equal(t, names{"a": other, "b": id}, all)
	require.Equal(t, []string{"b"}, all.of(id))
	err = RemoveName(fs, directory, "c")
	require.Equal(t, status.NotFound, status.CodeOf(err))
	require.Contains(t, err.Error(), `["a" "b"]`)
	require.NoError(t, RemoveName(fs, directory, "a"))
}

func TestDamagedNames(t *testing.T) {
	directory, fs := t.TempDir(), file.OS{}
	id := snapshot.NewID().String()
	for text, code := range map[string]status.Code{
		"":                                   status.Corrupt,
		"{":                                  status.Corrupt,
		`{"version": 2, "names": {}}`:        status.Format,
		`{"version": 1, "names": {"a": ""}}`: status.Corrupt,
		fmt.Sprintf(`{"version": 1, "names": {"a": %q}}`, id+"00"):    status.Corrupt,
		fmt.Sprintf(`{"version": 1, "names": {"a": %q}}`, id[:31]):    status.Corrupt,
		fmt.Sprintf(`{"version": 1, "names": {"7": %q}}`, id):         status.Corrupt,
		fmt.Sprintf(`{"version": 1, "names": {"a": %q}}`, id):         status.OK,
		`{"version": 1, "names": null, "later": ["is", "passed by"]}`: status.OK,
	} {
		require.NoError(t, os.WriteFile(filepath.Join(directory, namesFile), []byte(text), 0o600))
		_, err := readNames(fs, directory)
		require.Equal(t, code, status.CodeOf(err), "%s: %v", text, err)
	}
	require.NoError(t, os.Truncate(filepath.Join(directory, namesFile), longestNamesFile+1))
	_, err := readNames(fs, directory)
	require.Equal(t, status.Corrupt, status.CodeOf(err))
	require.Contains(t, err.Error(), fmt.Sprint(longestNamesFile))
}

func TestAtMostOneStateIsMeant(t *testing.T) {
	require.NoError(t, At{}.Check())
	require.NoError(t, At{Name: "a"}.Check())
	for _, both := range []At{{Name: "a", Record: 1}, {Record: 1, Time: 1}, {Name: "a", Record: 1, Time: 1}} {
		require.Equal(t, status.InvalidArgument, status.CodeOf(both.Check()), "%+v", both)
	}
}

func TestWhatIsAStore(t *testing.T) {
	directory, fs := filepath.Join(t.TempDir(), "store"), file.OS{}
	is := func() (bool, error) { return Is(fs, directory) }
	found, err := is()
	require.NoError(t, err)
	require.False(t, found, "it is missing")
	require.NoError(t, os.Mkdir(directory, 0o700))
	for _, name := range []string{"journal.lock", "journal.ring", "journal-00000000000000000001.mmsbj.tmp"} {
		require.NoError(t, os.WriteFile(filepath.Join(directory, name), nil, 0o600))
		found, err = is()
		require.NoError(t, err)
		require.False(t, found, "a process that began one has died")
	}
	require.NoError(t, os.WriteFile(filepath.Join(directory, "mine.txt"), nil, 0o600))
	_, err = is()
	require.Equal(t, status.InvalidState, status.CodeOf(err))
	require.NoError(t, os.WriteFile(filepath.Join(directory, "journal-00000000000000000001.mmsbj"), nil, 0o600))
	found, err = is()
	require.NoError(t, err)
	require.True(t, found)
	listed, err := storeFiles(fs, directory)
	require.NoError(t, err)
	require.False(t, slices.Contains(listed, "mine.txt"), "a backup has files of the store only")
}

// put is an empty snapshot of a store.
func put(t *testing.T, directory string) (path string, header snapshot.Header) {
	t.Helper()
	content, err := snapshot.EmptyState(lineage.New(lineage.Point{}))
	require.NoError(t, err)
	path = filepath.Join(directory, "base-new.mmsb")
	require.NoError(t, os.WriteFile(path, content, 0o600))
	header, err = snapshot.InspectHeader(path, file.OS{})
	require.NoError(t, err)
	named := filepath.Join(directory, snapshot.BaseFileName(header.Position, header.ID))
	require.NoError(t, os.Rename(path, named))
	return named, header
}

func TestContents(t *testing.T) {
	directory, fs := t.TempDir(), file.OS{}
	good, kept := put(t, directory)
	bad, lost := put(t, directory)
	require.NoError(t, SetName(fs, directory, "kept", kept.ID))
	require.NoError(t, SetName(fs, directory, "lost", lost.ID))
	require.NoError(t, os.Truncate(bad, 100))
	found := func() []Lost {
		paths, lost, err := Contents(fs, directory)
		require.NoError(t, err)
		require.Equal(t, []string{good}, paths)
		return lost
	}
	all := found()
	require.Len(t, all, 1, "the name leads to what is there, if damaged")
	require.Equal(t, bad, all[0].Path)
	require.Equal(t, status.Format, status.CodeOf(all[0].Err))

	require.NoError(t, os.Remove(bad))
	all = found()
	require.Len(t, all, 1)
	require.Equal(t, filepath.Join(directory, namesFile), all[0].Path)
	require.Equal(t, status.Corrupt, status.CodeOf(all[0].Err))
	require.Contains(t, all[0].Err.Error(), `1 of 2 names lead to no snapshot of the store, as "lost" to `+lost.ID.String())
	require.NoError(t, RemoveName(fs, directory, "lost"))
	require.Empty(t, found())

	_, _, err := Contents(fs, filepath.Join(directory, "nothing"))
	require.Equal(t, status.NotFound, status.CodeOf(err))
}

// writing is a file system on which the writer does something when the file of names has been opened once.
type writing struct {
	file.FS
	does func()
}

func (w *writing) Open(path string, flags int, mode os.FileMode) (file.File, error) {
	f, err := w.FS.Open(path, flags, mode)
	if does := w.does; filepath.Base(path) == namesFile && does != nil {
		w.does = nil
		does()
	}
	return f, err
}

// A writer gives the name to a newer snapshot, and removes the older one.
func TestContentsBesideAWriter(t *testing.T) {
	directory := t.TempDir()
	older, header := put(t, directory)
	require.NoError(t, SetName(file.OS{}, directory, "a", header.ID))
	newer := ""
	fs := &writing{FS: file.OS{}, does: func() {
		path, header := put(t, directory)
		require.NoError(t, SetName(file.OS{}, directory, "a", header.ID))
		require.NoError(t, os.Remove(older))
		newer = path
	}}
	paths, lost, err := Contents(fs, directory)
	require.NoError(t, err)
	require.Empty(t, lost)
	require.NotEmpty(t, newer)
	require.Equal(t, []string{newer}, paths)
}
