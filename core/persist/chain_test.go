package persist

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"libmmsb/core/file"
	"libmmsb/core/page"
	"libmmsb/core/snapshot"
	"libmmsb/core/status"
)

// chainOf saves a state again and again, each time with the file before as the base, and returns the last file and its page.
func chainOf(t *testing.T, directory string, limit int32, saves int, each func(chain int)) (last string, handle uint64) {
	t.Helper()
	context := newContext(t)
	handle = createFilled(t, context, 100, 1, 0)
	createFilled(t, context, 5000, 2, 3) // only the oldest file has it
	for number := range saves {
		write(t, handle, 3, []byte{byte(number)})
		path := filepath.Join(directory, fmt.Sprint(number))
		require.NoError(t, Save(context, ToPath(path), SaveOptions{Base: last, NotDurable: true, ChainLimit: limit}, nil))
		chain, err := snapshot.ChainOf(file.OS{}, path)
		require.NoError(t, err)
		each(len(chain))
		last = path
	}
	return last, handle
}

func TestAChainIsNotLongerThanItsBound(t *testing.T) {
	limits := []int32{1, 5, 0}
	if raceDetector { // nothing runs at the same time here but what writes a file
		limits = limits[:2]
	}
	for _, limit := range limits {
		longest, bound := 0, int(limit)
		if limit == 0 {
			bound = 64
		}
		last, handle := chainOf(t, t.TempDir(), limit, 2*bound+10, func(chain int) {
			longest = max(longest, chain)
		})
		require.Equal(t, bound, longest)
		again := newContext(t)
		require.NoError(t, Load(again, FromPath(last), LoadOptions{}, nil))
		require.Equal(t, content(t, handle), content(t, pageWith(t, again, 1)))
	}
}

func openDescriptors(t *testing.T) int {
	t.Helper()
	names, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	return len(names)
}

// limitDescriptors lets the process have descriptors up to a number, until the test ends.
func limitDescriptors(t *testing.T, count int) {
	t.Helper()
	var limit unix.Rlimit
	require.NoError(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &limit))
	lower := unix.Rlimit{Cur: uint64(count), Max: limit.Max}
	require.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &lower))
	t.Cleanup(func() { require.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &limit)) })
}

func TestALongChainNeedsFewDescriptors(t *testing.T) {
	files := 200
	if raceDetector { // nothing runs at the same time here but what reads the files
		files = snapshot.OpenFiles + 16
	}
	directory, longest := t.TempDir(), 0
	last, handle := chainOf(t, directory, int32(files), files, func(chain int) { longest = chain })
	require.Equal(t, files, longest)
	before := openDescriptors(t)
	limitDescriptors(t, before+snapshot.OpenFiles+8)
	for _, o := range []LoadOptions{{}, {Lazy: true}, {InPlace: true}} {
		again := newContext(t)
		require.NoError(t, Load(again, FromPath(last), o, nil))
		require.Equal(t, content(t, handle), content(t, pageWith(t, again, 1)))
		require.Equal(t, []byte{3, 3, 3}, content(t, pageWith(t, again, 2))[:3])
		require.NoError(t, page.Destroy(again))
	}
	opened, err := snapshot.Open(last, snapshot.OpenOptions{})
	require.NoError(t, err)
	defer func() { require.NoError(t, opened.Close()) }()
	view, err := opened.View(2) // where it lies in the oldest file
	require.NoError(t, err)
	require.Equal(t, []byte{3, 3, 3}, view[:3])

	oldest := filepath.Join(directory, "0")
	require.NoError(t, os.Rename(oldest, oldest+".moved"))
	require.Equal(t, status.NotFound, status.CodeOf(opened.ReadAt(2, snapshot.KindBytes, make([]byte, 9), 0)))
	require.NoError(t, os.WriteFile(oldest, make([]byte, 1<<20), 0o600))
	require.Equal(t, status.IO, status.CodeOf(opened.ReadAt(2, snapshot.KindBytes, make([]byte, 9), 0)))
	require.NoError(t, os.Rename(oldest+".moved", oldest))
	require.NoError(t, opened.ReadAt(2, snapshot.KindBytes, make([]byte, 9), 0))
}
