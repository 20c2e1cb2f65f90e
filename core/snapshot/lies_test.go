package snapshot_test

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"libmmsb/core/snapshot"
	"libmmsb/core/snapshot/snapshottest"
	"libmmsb/core/status"
)

// reader is a way of reading a file with its bases.
type reader struct {
	name string
	// content: it looks at what is stored, too.
	content bool
	read    func(path string) error
}

// opened is a way of reading an open snapshot.
func opened(read func(s *snapshot.Snapshot) error) func(path string) error {
	return func(path string) error {
		s, err := snapshot.Open(path, snapshot.OpenOptions{})
		if err != nil {
			return err
		}
		err = read(s)
		if closed := s.Close(); err == nil {
			err = closed
		}
		return err
	}
}

func walk(o snapshot.LoadOptions) func(path string) error {
	return opened(func(s *snapshot.Snapshot) error { return s.Segments(o, func(snapshot.Loaded) error { return nil }) })
}

var readers = []reader{
	{"verify", true, func(path string) error {
		_, err := snapshot.Verify(path, snapshot.VerifyOptions{})
		return err
	}},
	{"compact", true, func(path string) error {
		_, err := snapshot.Compact(path, path+".compacted", snapshot.CompactOptions{})
		return err
	}},
	{"all segments", false, walk(snapshot.LoadOptions{})},
	{"tables", false, walk(snapshot.LoadOptions{TablesOnly: true})},
	{"chosen pages", false, walk(snapshot.LoadOptions{Want: func(id uint64) bool { return id == 3 }})},
	{"chosen tables", false, walk(snapshot.LoadOptions{TablesOnly: true, Want: func(id uint64) bool { return id == 3 }})},
	{"list", false, opened(func(s *snapshot.Snapshot) error {
		for _, err := range s.Pages() {
			if err != nil {
				return err
			}
		}
		return nil
	})},
	{"cursor", false, opened(func(s *snapshot.Snapshot) error {
		_, _, err := s.PagesFrom(0, make([]snapshot.Page, 100))
		return err
	})},
	{"find", false, opened(func(s *snapshot.Snapshot) error {
		_, err := s.Find(3)
		return err
	})},
	{"extract", false, opened(func(s *snapshot.Snapshot) error {
		_, err := s.Extract(3, io.Discard)
		return err
	})},
	{"metadata", false, opened(func(s *snapshot.Snapshot) error {
		_, err := s.HasMask(3)
		return err
	})},
	{"dependencies", false, opened(func(s *snapshot.Snapshot) error {
		for _, err := range s.Edges() {
			if err != nil {
				return err
			}
		}
		_, err := s.Find(3)
		return err
	})},
	{"diff", false, opened(func(s *snapshot.Snapshot) error {
		for _, err := range snapshot.Diff(s, s, nil) {
			if err != nil {
				return err
			}
		}
		return nil
	})},
}

func put(t *testing.T, whole, change []byte) (directory string) {
	t.Helper()
	directory = t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(directory, snapshottest.Whole), whole, 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(directory, snapshottest.Change), change, 0o600))
	return directory
}

// TestAllReadersRefuseALie tells all lies to all readers, and also shows them the file whose base lies.
func TestAllReadersRefuseALie(t *testing.T) {
	for _, lie := range snapshottest.Lies {
		t.Run(lie.Name, func(t *testing.T) {
			named, whole, change := lie.Files()
			directory := put(t, whole, change)
			want := status.Corrupt
			if lie.Mismatch {
				want = status.Mismatch
			}
			for _, reader := range readers {
				if lie.Content && !reader.content {
					continue
				}
				err := reader.read(filepath.Join(directory, named))
				assert.Equal(t, want, status.CodeOf(err), "%s: %v", reader.name, err)
			}
			if lie.Change || lie.OfState {
				return
			}
			for _, reader := range readers {
				if lie.Content && !reader.content {
					continue
				}
				err := reader.read(filepath.Join(directory, snapshottest.Change))
				assert.NotEqual(t, status.OK, status.CodeOf(err), "%s of what has the file as its base", reader.name)
			}
			_, err := os.Stat(filepath.Join(directory, named+".compacted"))
			assert.ErrorIs(t, err, os.ErrNotExist, "nothing is written")
		})
	}
}

func TestAllReadersTakeHonestFiles(t *testing.T) {
	whole, change := snapshottest.Honest()
	directory := put(t, whole.Raw, change.Raw)
	for _, reader := range readers {
		for _, name := range []string{snapshottest.Whole, snapshottest.Change} {
			require.NoError(t, reader.read(filepath.Join(directory, name)), "%s of %s", reader.name, name)
		}
	}
	for _, name := range []string{snapshottest.Whole, snapshottest.Change} {
		_, err := snapshot.Verify(filepath.Join(directory, name+".compacted"), snapshot.VerifyOptions{})
		require.NoError(t, err)
	}
}

// readAll reads files by the reader in docs, which shares nothing with this package, and prints a line for each: what is wrong.
const readAll = `
import sys
sys.path.insert(0, "../../docs")
from pathlib import Path
from read_snapshot import read
for path in sys.argv[1:]:
    try:
        read(Path(path))
        print("good")
    except Exception as error:
        print(f"{type(error).__name__}: {error}")
`

func TestTheReaderInTheDocumentsAgrees(t *testing.T) {
	arguments := []string{"-B", "-c", readAll}
	whole, change := snapshottest.Honest()
	directory := put(t, whole.Raw, change.Raw)
	names := []string{"the honest whole one", "the honest change"}
	arguments = append(arguments, filepath.Join(directory, snapshottest.Whole), filepath.Join(directory, snapshottest.Change))
	for _, lie := range snapshottest.Lies {
		named, whole, change := lie.Files()
		arguments = append(arguments, filepath.Join(put(t, whole, change), named))
		names = append(names, lie.Name)
	}
	output, err := exec.Command("python3", arguments...).CombinedOutput()
	require.NoError(t, err, "%s", output)
	lines := strings.Split(strings.TrimSpace(string(output)), "\n")
	require.Len(t, lines, len(names), "%s", output)
	for i, line := range lines {
		assert.Equal(t, i < 2, line == "good", "%s: %s", names[i], line)
	}
}

// TestHolesTakeNeitherMemoryNorTime counts all memory that readers take, also what they give back: 64 MiB and twice what the file
// has on the disk are allowed at a time. A reader that believes the file takes gigabytes.
func TestHolesTakeNeitherMemoryNorTime(t *testing.T) {
	for _, name := range snapshottest.Sparse {
		path := filepath.Join(t.TempDir(), "sparse.mmsb")
		require.NoError(t, snapshottest.MakeSparse(path, name))
		for _, reader := range readers {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			err := reader.read(path)
			runtime.ReadMemStats(&after)
			assert.Equal(t, status.Corrupt, status.CodeOf(err), "%s of %s: %v", reader.name, name, err)
			require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(64<<20), "%s of %s", reader.name, name)
		}
	}
}

func TestABaseWithAHostileNameIsWrittenPlainly(t *testing.T) {
	whole, change := snapshottest.Honest()
	directory := put(t, whole.Raw, change.Raw)
	copy(change.Raw[72:], "a\n\x1b[2Jgood"[:10]) // as long as the honest name
	require.True(t, snapshottest.Seal(change.Raw))
	path := filepath.Join(directory, snapshottest.Change)
	require.NoError(t, os.WriteFile(path, change.Raw, 0o600))
	_, err := snapshot.Verify(path, snapshot.VerifyOptions{})
	require.Equal(t, status.NotFound, status.CodeOf(err))
	text := status.Of(err).Text
	require.NotContains(t, text, "\n")
	require.NotContains(t, text, "\x1b")
	require.Contains(t, text, `a\n\x1b[2Jgood`[:10])
}
