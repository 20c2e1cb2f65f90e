package command

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"libmmsb/core/file"
	"libmmsb/core/journal"
	"libmmsb/core/keeper"
	"libmmsb/core/page"
	"libmmsb/core/store"
)

// goOn opens a store for writing, makes some pages there, and closes it.
func goOn(t *testing.T, directory string, pages int) {
	t.Helper()
	context, err := keeper.Open(directory, page.Options{SimulatedDevices: 1}, keeperOptions, nil)
	require.NoError(t, err)
	for range pages {
		create(t, context)
	}
	require.NoError(t, page.Destroy(context))
}

// pagesOf counts the pages of a store's newest state.
func pagesOf(t *testing.T, directory string) (pages int) {
	t.Helper()
	out := filepath.Join(t.TempDir(), "out.mmsb")
	good(t, "journal", "replay", directory, "-o", out)
	var listed struct{ Pages []pageShown }
	require.NoError(t, json.Unmarshal([]byte(good(t, "snapshot", "ls", out, "--json")), &listed))
	return len(listed.Pages)
}

func TestRestore(t *testing.T) {
	directory := filepath.Join(t.TempDir(), "state")
	options := keeperOptions
	options.Retention.Last = 8
	context, err := keeper.Open(directory, page.Options{SimulatedDevices: 1}, options, nil)
	require.NoError(t, err)
	t.Cleanup(func() { _ = page.Destroy(context) })
	create(t, context)
	require.NoError(t, keeper.SetName(context, "first", nil))
	create(t, context)
	create(t, context)
	time.Sleep(50 * time.Millisecond)
	between := time.Now()
	time.Sleep(50 * time.Millisecond)
	create(t, context)
	require.NoError(t, keeper.Save(context, false, nil))
	create(t, context)
	require.Eventually(t, func() bool { // the newest record comes to the file a millisecond later
		return strings.Contains(good(t, "store", "info", directory), " to 5\n")
	}, time.Minute, time.Millisecond)
	for at, pages := range map[string]int{
		"first": 1, "4": 4, "5": 5, "": 5, between.UTC().Format(time.RFC3339Nano): 3, "3": 3, "2": 2,
	} {
		t.Run(fmt.Sprintf("%q", at), func(t *testing.T) {
			target := filepath.Join(t.TempDir(), "new")
			arguments := []string{"store", "restore", directory, target}
			if at != "" {
				arguments = append(arguments, "--at", at)
			}
			if pages%2 == 0 {
				require.NoError(t, os.Mkdir(target, 0o700)) // empty
			}
			var restored restoredShown
			require.NoError(t, json.Unmarshal([]byte(good(t, append(arguments, "--json")...)), &restored))
			assert.Equal(t, uint64(pages), restored.Record)
			assert.Equal(t, uint64(pages), restored.Pages)
			assert.Equal(t, pages, pagesOf(t, target))
			var info storeShown
			require.NoError(t, json.Unmarshal([]byte(good(t, "store", "info", "--json", target)), &info))
			assert.Equal(t, uint64(pages), info.Last)
			if pages%2 == 0 {
				is, err := os.Stat(target)
				require.NoError(t, err)
				assert.Equal(t, os.FileMode(0o700), is.Mode().Perm())
			}
			good(t, "store", "verify", target)

			goOn(t, target, 2) // as a branch, which is no longer the same store
			assert.Equal(t, pages+2, pagesOf(t, target))
			good(t, "store", "verify", target)
			if pages < 5 { // behind the newest state it could be
				bad(t, exitBad, []string{"is not a backup of"}, "store", "backup", target, copyOf(t, directory))
			}
			entries, err := os.ReadDir(filepath.Dir(target))
			require.NoError(t, err)
			assert.Len(t, entries, 1)
		})
	}
	require.NoError(t, page.Destroy(context))
	assert.Equal(t, 5, pagesOf(t, directory))
}

func copyOf(t *testing.T, directory string) string {
	t.Helper()
	target := filepath.Join(t.TempDir(), "copy")
	good(t, "store", "backup", directory, target)
	return target
}

func TestRestoreOfTheEmptyState(t *testing.T) {
	directory, target := filepath.Join(t.TempDir(), "state"), filepath.Join(t.TempDir(), "new")
	goOn(t, directory, 0)
	assert.Regexp(t, `new: 0 pages, 0 B, id [0-9a-f]{32}, at record 0, .* \(0 records applied\)`,
		good(t, "store", "restore", directory, target))
	goOn(t, target, 3)
	assert.Equal(t, 3, pagesOf(t, target))
}

func TestWhatCannotBeRestored(t *testing.T) {
	directory, context := stored(t)
	require.NoError(t, page.Destroy(context))
	target := filepath.Join(t.TempDir(), "new")
	restore := []string{"store", "restore", directory, target, "--at"}
	for at, row := range map[string]struct {
		code int
		text string
	}{
		"nobody":               {exitFailed, `has no name "nobody"; it has ["first"]`},
		"4":                    {exitFailed, "has no record 4: the last one is 3"},
		"0":                    {exitUsage, "the first record is 1"},
		"2026-01-31":           {exitUsage, `"2026-01-31" is not a time like`},
		"1969-01-31T12:00:00Z": {exitUsage, "outside the years 1970 to 2261"},
		"1971-01-31T12:00:00Z": {exitFailed, "has nothing that is as old as 1971-01-31T12:00:00Z"},
		"":                     {exitUsage, `"" is not a time like`},
	} {
		bad(t, row.code, []string{row.text}, append(restore, at)...)
	}
	bad(t, exitFailed, []string{"no journal in "}, "store", "restore", t.TempDir(), target)
	entries, err := os.ReadDir(filepath.Dir(target))
	require.NoError(t, err)
	assert.Empty(t, entries)

	bad(t, exitFailed, []string{"is not empty: it has "}, "store", "restore", directory, directory)
	require.NoError(t, os.WriteFile(target, nil, 0o600))
	bad(t, exitFailed, []string{"cannot list "}, "store", "restore", directory, target)
	require.NoError(t, os.Remove(target))

	held, err := stage(file.OS{}, target)
	require.NoError(t, err)
	bad(t, exitFailed, []string{"another process is filling "}, "store", "restore", directory, target)
	held.discard()
	good(t, "store", "restore", directory, target)

	files, err := filepath.Glob(filepath.Join(directory, "base-*"))
	require.NoError(t, err)
	for _, path := range files {
		bytes, err := os.ReadFile(path)
		require.NoError(t, err)
		bytes[len(bytes)/2+10]++
		require.NoError(t, os.WriteFile(path, bytes, 0o600))
	}
	other := target + "2"
	bad(t, exitBad, nil, "store", "restore", directory, other)
	assert.NoDirExists(t, other)
}

// killedAtEveryStep kills the tool before each operation on files, one after the other, until one run ends. After each kill check
// sees what is there, and says whether the next one finds it.
func killedAtEveryStep(t *testing.T, arguments []string, check func(step int)) (steps int) {
	t.Helper()
	for step := 1; ; step++ {
		p := process(t, fmt.Sprintf("any %d", step), arguments...)
		stderr, err := p.StderrPipe()
		require.NoError(t, err)
		require.NoError(t, p.Start())
		line := make([]byte, len("standing\n"))
		n, err := io.ReadFull(stderr, line)
		if err != nil { // it has ended
			require.Empty(t, string(line[:n]))
			require.NoError(t, p.Wait())
			return step
		}
		require.Equal(t, "standing\n", string(line))
		require.NoError(t, p.Process.Kill())
		require.Error(t, p.Wait())
		check(step)
	}
}

func TestARestoreThatIsKilled(t *testing.T) {
	directory, context := stored(t)
	require.NoError(t, page.Destroy(context))
	before := contents(t, directory)
	target := filepath.Join(t.TempDir(), "new")
	arguments := []string{"store", "restore", directory, target}
	unfinished, finished := 0, 0
	steps := killedAtEveryStep(t, arguments, func(step int) {
		is, err := store.Is(file.OS{}, target)
		require.NoError(t, err)
		if is {
			finished++
		} else {
			unfinished++
			require.NoDirExists(t, target, "step %d", step)
			good(t, arguments...) // again, with what was left
		}
		good(t, "store", "verify", target)
		require.Equal(t, 3, pagesOf(t, target))
		who, err := journal.WriterOf(file.OS{}, target)
		require.NoError(t, err)
		require.Empty(t, who)
		goOn(t, target, 1)
		removed(t, target)
	})
	assert.Greater(t, unfinished, 30, "of %d", steps)
	assert.Greater(t, finished, 1)
	assert.Equal(t, before, contents(t, directory))
}

// contents are the files of a directory.
func contents(t *testing.T, directory string) map[string]string {
	t.Helper()
	all := make(map[string]string)
	entries, err := os.ReadDir(directory)
	require.NoError(t, err)
	for _, entry := range entries {
		bytes, err := os.ReadFile(filepath.Join(directory, entry.Name()))
		require.NoError(t, err)
		all[entry.Name()] = string(bytes)
	}
	return all
}

// removed removes a target, and sees that nothing lies beside it but the lock of a process that was killed when the target was
// there, which the next run removes.
func removed(t *testing.T, target string) {
	t.Helper()
	bad(t, exitFailed, []string{"is not empty: it has "}, "store", "pull", target, target)
	require.NoError(t, os.RemoveAll(target))
	entries, err := os.ReadDir(filepath.Dir(target))
	require.NoError(t, err)
	require.Empty(t, entries)
}
