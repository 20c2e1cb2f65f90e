package command

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"libmmsb/core/file"
	"libmmsb/core/keeper"
	"libmmsb/core/page"
	"libmmsb/core/persist"
	"libmmsb/core/store"
	"libmmsb/native/nativetest"
)

// closed is a store with two snapshots, the older one with the name "first", and the paths of both.
func closed(t *testing.T) (directory, newest, first string) {
	t.Helper()
	directory, context := stored(t)
	require.NoError(t, page.Destroy(context))
	s, err := store.Look(file.OS{}, directory)
	require.NoError(t, err)
	require.Len(t, s.Points, 2)
	return directory, s.Points[0].Path, s.Points[1].Path
}

// recordsIn is how many records a store has: a save may have removed the one before it.
func recordsIn(t *testing.T, directory string) uint64 {
	t.Helper()
	s, err := store.Look(file.OS{}, directory)
	require.NoError(t, err)
	return s.Journal.Last + 1 - s.Journal.First
}

// damage changes a byte of a file that may be linked elsewhere, and gives what it was.
func damage(t *testing.T, path string, offset int) (before []byte) {
	t.Helper()
	before, err := os.ReadFile(path)
	require.NoError(t, err)
	after := bytes.Clone(before)
	after[offset]++
	rewrite(t, path, after)
	return before
}

func rewrite(t *testing.T, path string, content []byte) {
	t.Helper()
	require.NoError(t, os.Remove(path))
	require.NoError(t, os.WriteFile(path, content, 0o600))
}

const inHeader = 552

type verifiedStore struct {
	Files   []verifiedShown
	Journal *verifiedJournal
}

// verified is the JSON document of store verify, and its exit code.
func verified(t *testing.T, directory string) (v verifiedStore, code int) {
	t.Helper()
	out, _, code := mmsb("store", "verify", "--json", directory)
	require.NoError(t, json.Unmarshal([]byte(out), &v), "%s", out)
	require.NotNil(t, v.Journal)
	return v, code
}

// A snapshot on which nothing rests is lost where its header is damaged, or where it cannot be read.
func TestLostSnapshots(t *testing.T) {
	for name, row := range map[string]struct {
		lose func(t *testing.T, path string)
		code int
		text string
	}{
		"damaged": {func(t *testing.T, path string) { damage(t, path, inHeader) }, exitBad,
			"the header at offset 0 has checksum "},
		"unreadable": {func(t *testing.T, path string) {
			require.NoError(t, os.Rename(path, path+".away"))
			require.NoError(t, os.Symlink(path+".away", path))
		}, exitFailed, "symbolic links to files are not followed"},
	} {
		t.Run(name, func(t *testing.T) {
			directory, newest, first := closed(t)
			records := recordsIn(t, directory)
			backup := filepath.Join(t.TempDir(), "backup")
			good(t, "store", "backup", directory, backup)
			copied := files(t, backup)
			row.lose(t, first)

			texts := []string{first, row.text}
			out := bad(t, row.code, texts, "store", "verify", directory)
			assert.Contains(t, out, newest+": good, ")
			assert.Contains(t, out, directory+": good, "+count(records, "record")+"\n")
			v, code := verified(t, directory)
			assert.Equal(t, row.code, code)
			require.Len(t, v.Files, 2)
			assert.True(t, v.Files[0].Good)
			assert.Equal(t, first, v.Files[1].File)
			assert.False(t, v.Files[1].Good)
			assert.Contains(t, v.Files[1].Error, first)
			assert.Equal(t, &verifiedJournal{Directory: directory, Good: true, Records: records}, v.Journal)

			assert.Contains(t, bad(t, row.code, texts, "store", "info", directory), "snapshots   1, ")
			assert.Contains(t, bad(t, row.code, texts, "store", "info", directory, "--json"), `"lost": 1`)
			assert.Regexp(t, `(?m)^ +2 .* records *$`, bad(t, row.code, texts, "store", "ls", directory))
			target := filepath.Join(t.TempDir(), "new")
			bad(t, row.code, append(texts, `it is the snapshot with the name "first"`), "store", "restore", directory, target,
				"--at", "first")
			for _, command := range []string{"backup", "pull"} {
				bad(t, row.code, texts, "store", command, directory, target)
				assert.NoDirExists(t, target)
			}
			bad(t, row.code, texts, "store", "backup", directory, backup)
			assert.Equal(t, copied, files(t, backup), "the older backup stays")
			good(t, "store", "restore", directory, target)
		})
	}
}

func TestAPullOfALostSnapshot(t *testing.T) {
	s := newServer(t)
	directory, _, first := closed(t)
	const place = "s3://backups/lost"
	good(t, "store", "backup", directory, place)
	before := damage(t, first, inHeader)
	after, err := os.ReadFile(first)
	require.NoError(t, err)
	was, is := sha256.Sum256(before), sha256.Sum256(after)
	key := "lost/files/" + filepath.Base(first) + "/" + hex.EncodeToString(is[:])
	_, err = s.backend.PutObject(t.Context(), "backups", key, nil, bytes.NewReader(after), int64(len(after)))
	require.NoError(t, err)
	s.replace("lost/manifest.json", func(b []byte) []byte {
		return bytes.Replace(b, []byte(hex.EncodeToString(was[:])), []byte(hex.EncodeToString(is[:])), 1)
	})
	target := filepath.Join(t.TempDir(), "new")
	bad(t, exitBad, []string{filepath.Base(first), "the header at offset 0 "}, "store", "pull", place, target)
	assert.NoDirExists(t, target)
}

func TestNamesOfNothing(t *testing.T) {
	directory, newest, first := closed(t)
	records := recordsIn(t, directory)
	require.NoError(t, os.Remove(first))
	names := filepath.Join(directory, "store.names")
	texts := []string{names, `1 of 1 names lead to no snapshot of the store, as "first" to `}
	out := bad(t, exitBad, texts, "store", "verify", directory)
	assert.Contains(t, out, newest+": good, ")
	assert.Contains(t, out, directory+": good, "+count(records, "record")+"\n")
	v, code := verified(t, directory)
	assert.Equal(t, exitBad, code)
	require.Len(t, v.Files, 2)
	assert.Equal(t, names, v.Files[1].File)
	assert.Contains(t, v.Files[1].Error, texts[1])

	require.NoError(t, os.WriteFile(names, []byte("{"), 0o600))
	assert.Contains(t, bad(t, exitBad, []string{names, "is not JSON"}, "store", "verify", directory), newest+": good, ")
}

// What is damaged in the journal does not keep verify from the snapshots.
func TestVerifyGoesOnBehindDamage(t *testing.T) {
	directory, newest, first := closed(t)
	segments, err := filepath.Glob(filepath.Join(directory, "journal-*.mmsbj"))
	require.NoError(t, err)
	require.NotEmpty(t, segments)
	damage(t, segments[0], 4096+100)
	out := bad(t, exitBad, []string{segments[0], "is damaged"}, "store", "verify", directory)
	assert.Contains(t, out, newest+": good, ")
	assert.Contains(t, out, first+": good, ")
	v, code := verified(t, directory)
	assert.Equal(t, exitBad, code)
	require.Len(t, v.Files, 2)
	assert.True(t, v.Files[0].Good && v.Files[1].Good)
	assert.False(t, v.Journal.Good)
	assert.Contains(t, v.Journal.Error, segments[0])
}

// Records that lead on from no state are no store that can be opened.
func TestVerifyOfRecordsThatLeadOnFromNothing(t *testing.T) {
	directory, newest, first := closed(t)
	good(t, "store", "prune", directory) // the records before the newest snapshot go
	good(t, "store", "verify", directory)
	require.NoError(t, os.Remove(newest))
	out := bad(t, exitBad, []string{directory, "has no snapshot that its records lead on from"}, "store", "verify", directory)
	assert.Contains(t, out, first+": good, ")
}

// The unfinished folder of a pull keeps nothing that is damaged.
func TestAPullAfterItsBackupWasRepaired(t *testing.T) {
	backup, newest, _ := closed(t)
	target := filepath.Join(t.TempDir(), "new")
	unfinished := filepath.Join(filepath.Dir(target), ".new.mmsb-unfinished")
	was := damage(t, newest, 5000)
	bad(t, exitBad, []string{filepath.Base(newest)}, "store", "pull", backup, target)
	assert.NoDirExists(t, target)
	assert.NoDirExists(t, unfinished)
	rewrite(t, newest, was)
	good(t, "store", "pull", backup, target)
	assert.Equal(t, files(t, backup), files(t, target))

	// What a killed pull has left from before the repair.
	require.NoError(t, os.RemoveAll(target))
	require.NoError(t, os.Mkdir(unfinished, 0o700))
	left := filepath.Join(unfinished, filepath.Base(newest))
	require.NoError(t, os.WriteFile(left, was, 0o600))
	damage(t, left, 5000)
	good(t, "store", "pull", backup, target)
	assert.Equal(t, files(t, backup), files(t, target))
}

func TestABackupOverADamagedOne(t *testing.T) {
	directory, newest, first := closed(t)
	backup := filepath.Join(t.TempDir(), "backup")
	good(t, "store", "backup", directory, backup)
	damage(t, filepath.Join(backup, filepath.Base(first)), inHeader)
	good(t, "store", "backup", directory, backup)
	assert.Equal(t, files(t, directory), files(t, backup))

	inBackup := filepath.Join(backup, filepath.Base(newest))
	damage(t, inBackup, 5000)
	bad(t, exitBad, []string{inBackup}, "store", "verify", backup)
	require.NoError(t, os.Remove(inBackup))
	good(t, "store", "backup", directory, backup)
	assert.Equal(t, files(t, directory), files(t, backup))
}

// resting is a store with a whole snapshot of a page of 1 MiB, and one that rests on it.
func resting(t *testing.T) (directory string) {
	t.Helper()
	directory = filepath.Join(t.TempDir(), "state")
	options := keeperOptions
	options.Retention.Last = 9
	context, err := keeper.Open(directory, page.Options{SimulatedDevices: 1}, options, nil)
	require.NoError(t, err)
	handle := createLarge(t, context)
	// Else the records may count for the second save, which is a whole one then.
	require.NoError(t, persist.SyncJournal(context, nil))
	require.NoError(t, keeper.Save(context, true, nil))
	require.Zero(t, nativetest.WritePage(handle, 0, []byte("changed")))
	require.NoError(t, keeper.Save(context, false, nil))
	require.NoError(t, page.Destroy(context))
	return directory
}

func TestPruneTellsWhatTheStoreHasLess(t *testing.T) {
	directory := resting(t)
	size := func() (bytes int64) {
		for _, content := range files(t, directory) {
			bytes += int64(len(content))
		}
		return bytes
	}
	restsOn := func() string {
		var listed struct{ Snapshots []pointShown }
		require.NoError(t, json.Unmarshal([]byte(good(t, "store", "ls", "--json", directory)), &listed))
		require.NotNil(t, listed.Snapshots[0].RestsOn)
		name := *listed.Snapshots[0].RestsOn
		assert.FileExists(t, filepath.Join(directory, name))
		assert.Contains(t, good(t, "store", "ls", directory), "  "+name+"  ")
		return name
	}
	before, whole := size(), restsOn()
	var pruned prunedShown
	require.NoError(t, json.Unmarshal([]byte(good(t, "store", "prune", "--json", directory)), &pruned))
	assert.Equal(t, prunedShown{directory, 1, before - size()}, pruned)
	assert.Less(t, pruned.Bytes, int64(2<<20), "the file stays, because the other snapshot rests on it")
	kept := restsOn()
	assert.NotEqual(t, whole, kept)
	assert.Equal(t, "0 snapshots removed; the store has 0 B less\n", good(t, "store", "prune", directory))
	require.NoError(t, os.Remove(filepath.Join(directory, kept)))
	assert.Contains(t, good(t, "store", "ls", directory), " (missing)  ")
}

func TestUnknownCommands(t *testing.T) {
	for arguments, text := range map[string]string{
		"stor":             `unknown command "stor" for "mmsb"; perhaps "store" is meant; see mmsb --help`,
		"store verfy x":    `unknown command "verfy" for "mmsb store"; perhaps "verify" is meant; see mmsb store --help`,
		"snapshot inf x":   `perhaps "info" or "diff" is meant; see mmsb snapshot --help`,
		"bogus":            `unknown command "bogus" for "mmsb"; see mmsb --help`,
		"help stor":        `unknown command "stor" for "mmsb"; perhaps "store" is meant`,
		"help store infoo": `unknown command "infoo" for "mmsb store"; perhaps "info" is meant`,
		"store help infoo": `unknown command "infoo" for "mmsb store"; perhaps "info" is meant`,
	} {
		assert.Empty(t, bad(t, exitUsage, []string{text}, strings.Fields(arguments)...))
	}
	help := good(t, "store", "--help")
	for _, arguments := range []string{"store help", "help store"} {
		assert.Equal(t, help, good(t, strings.Fields(arguments)...))
	}
	assert.Equal(t, good(t, "store", "info", "--help"), good(t, "store", "help", "info"))
	assert.Equal(t, good(t, "--help"), good(t, "help"))
}

func TestTheStandardOutputIsNoFile(t *testing.T) {
	directory, log := t.TempDir(), newJournal(t, false)
	for _, arguments := range [][]string{
		{"snapshot", "compact", whole, "-o", "-"}, {"journal", "replay", log, "-s", whole, "-o", "-"},
		{"memory", "report", filepath.Join(directory, "x.json"), "-o", "-"},
		{"memory", "report", filepath.Join(directory, "x.json"), "--torch", "-"},
	} {
		bad(t, exitUsage, []string{"does not write to the standard output"}, arguments...)
		assert.NoFileExists(t, "-")
	}
}

func TestSymbolicLinks(t *testing.T) {
	directory, newest, _ := closed(t)
	link := filepath.Join(t.TempDir(), "link")
	require.NoError(t, os.Symlink(newest, link))
	bad(t, exitFailed, []string{link, "ELOOP", "symbolic links to files are not followed"}, "snapshot", "verify", link)
	require.NoError(t, os.Remove(link))
	empty := t.TempDir()
	require.NoError(t, os.Symlink(empty, link))
	for _, command := range []string{"restore", "pull"} {
		disk := &renaming{FS: file.OS{}}
		_, complaint, code := mmsbOn(context.Background(), disk, "store", command, directory, link)
		assert.Equal(t, exitFailed, code)
		assert.Contains(t, complaint, link+`" is a symbolic link: the target must be missing, or an empty directory`)
		assert.Zero(t, disk.times, "it says so before anything is written")
	}
}

// renaming counts what gets a name.
type renaming struct {
	file.FS
	times int
}

func (r *renaming) Rename(from, to string) error {
	r.times++
	return r.FS.Rename(from, to)
}

func TestAReplayOfRecordsThatAreGone(t *testing.T) {
	directory, _, first := closed(t)
	good(t, "store", "prune", directory)
	require.NoError(t, os.Remove(first))
	out := filepath.Join(t.TempDir(), "out")
	bad(t, exitFailed, []string{"begins with record 3"}, "journal", "replay", directory, "-o", out, "--until", "1")
	bad(t, exitFailed, []string{"keeps records from 3 on"}, "store", "restore", directory, out, "--at", "1")
}
