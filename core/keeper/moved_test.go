package keeper

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"libmmsb/core/persist"
	"libmmsb/core/status"
	"libmmsb/core/store"
)

// contentOf is the files of a directory, but its lock.
func contentOf(t *testing.T, directory string) map[string]string {
	content := make(map[string]string)
	entries, err := os.ReadDir(directory)
	require.NoError(t, err)
	for _, entry := range entries {
		bytes, err := os.ReadFile(filepath.Join(directory, entry.Name()))
		require.NoError(t, err)
		if entry.Name() != "journal.lock" {
			content[entry.Name()] = string(bytes)
		}
	}
	return content
}

// A service has its store open, while somebody moves the folder away and puts another store in its place.
func TestAStoreThatWasMovedAwayLeavesTheOneInItsPlaceAlone(t *testing.T) {
	for _, another := range []string{"none", "another store", "one that is open"} {
		t.Run(another, func(t *testing.T) {
			directory := filepath.Join(t.TempDir(), "store")
			o := quiet()
			o.SegmentBytes = 4096
			context := openStore(t, directory, o)
			create(t, context, 100)
			want := stateOf(t, context)
			require.NoError(t, SetName(context, "known", nil))
			require.NoError(t, os.Rename(directory, directory+".old"))
			content := map[string]string{}
			if another != "none" {
				other := openStore(t, directory, quiet())
				create(t, other, 200)
				require.NoError(t, SetName(other, "theirs", nil))
				if another == "another store" {
					require.NoError(t, End(other))
				}
				content = contentOf(t, directory)
			}
			for what, err := range map[string]error{
				"save": Save(context, true, nil), "name": SetName(context, "ours", nil),
				"unname": RemoveName(context, "known", nil),
				"info":   func() error { _, err := GetInfo(context); return err }(),
				"trim":   persist.TrimJournal(context, baseIn(t, directory+".old"), nil),
				"load":   persist.Load(context, persist.FromPath(baseIn(t, directory+".old")), persist.LoadOptions{}, nil),
			} {
				require.Equal(t, status.NotFound, status.CodeOf(err), "%s: %v", what, err)
				require.ErrorContains(t, err, "is not the one that was opened", what)
			}
			_ = End(context)
			if another != "none" {
				require.Equal(t, content, contentOf(t, directory))
			}
			require.Equal(t, want, read(t, directory+".old", store.At{Name: "known"}))
		})
	}
}

func baseIn(t *testing.T, directory string) string {
	found, err := filepath.Glob(filepath.Join(directory, "base-*.mmsb"))
	require.NoError(t, err)
	require.NotEmpty(t, found)
	return found[0]
}
