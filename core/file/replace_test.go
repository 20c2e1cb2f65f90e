package file_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"libmmsb/core/file"
	"libmmsb/core/file/filetest"
	"libmmsb/core/status"
)

func TestAFailedSaveLeavesTheOldFileAndNothingElse(t *testing.T) {
	data := content(4, 5*file.BufferSize+1)
	for _, c := range []struct {
		fault filetest.Fault
		code  status.Code
	}{
		{filetest.Fault{Kind: filetest.Stat, Nth: 1, Errno: syscall.EACCES}, status.IO},
		{filetest.Fault{Kind: filetest.OpenDirectory, Nth: 1, Errno: syscall.EMFILE}, status.Limit},
		{filetest.Fault{Kind: filetest.Open, Nth: 1, Errno: syscall.EROFS}, status.IO},
		{filetest.Fault{Kind: filetest.Open, Nth: 1, Errno: syscall.ENOSPC}, status.NoSpace},
		{filetest.Fault{Kind: filetest.StatFile, Nth: 1, Errno: syscall.EIO}, status.IO},
		{filetest.Fault{Kind: filetest.Write, Nth: 1, Errno: syscall.ENOSPC}, status.NoSpace},
		{filetest.Fault{Kind: filetest.Write, Nth: 1, Errno: syscall.EINVAL, Forever: true}, status.IO},
		{filetest.Fault{Kind: filetest.Write, Nth: 2, Errno: syscall.EDQUOT, Forever: true}, status.NoSpace},
		{filetest.Fault{Kind: filetest.Write, Nth: 3, Errno: syscall.EIO}, status.IO},
		{filetest.Fault{Kind: filetest.Write, Nth: 6, Errno: syscall.EIO}, status.IO},
		{filetest.Fault{Kind: filetest.Truncate, Nth: 1, Errno: syscall.EIO}, status.IO},
		{filetest.Fault{Kind: filetest.Sync, Nth: 1, Errno: syscall.EIO}, status.IO},
		{filetest.Fault{Kind: filetest.Sync, Nth: 1, Errno: syscall.ENOSPC}, status.NoSpace},
		{filetest.Fault{Kind: filetest.Rename, Nth: 1, Errno: syscall.EIO}, status.IO},
	} {
		t.Run(fmt.Sprintf("%s %d %s", c.fault.Kind, c.fault.Nth, c.fault.Errno), func(t *testing.T) {
			eachFS(t, func(t *testing.T, fs file.FS, directory string) {
				path := filepath.Join(directory, "state")
				require.NoError(t, save(fs, path, []byte("old"), file.Options{}, 4096))
				faulty := filetest.NewFaulty(fs, c.fault)
				err := save(faulty, path, data, file.Options{Durable: true}, file.BufferSize)
				require.Equal(t, c.code, status.CodeOf(err), "%v", err)
				assert.EqualValues(t, c.fault.Errno, status.Of(err).Foreign)
				assert.ErrorContains(t, err, directory)
				assert.Positive(t, faulty.Hits())
				assert.Equal(t, []string{"state"}, list(t, fs, directory))
				requireContent(t, fs, path, []byte("old"))
				requireAllClosed(t, directory)
				require.NoError(t, save(fs, path, []byte("next"), file.Options{}, 4096), "the next save")
			})
		})
	}
}

func TestWhatASaveGetsOver(t *testing.T) {
	for _, fault := range []filetest.Fault{
		{Kind: filetest.Write, Nth: 1, Short: 4096},
		{Kind: filetest.Write, Nth: 1, Short: 1},
		{Kind: filetest.Write, Nth: 1, Short: 1000, Forever: true},
		{Kind: filetest.SetDirect, Nth: 1, Errno: syscall.EINVAL},
		{Kind: filetest.List, Nth: 1, Errno: syscall.EACCES},
		{Kind: filetest.Lock, Nth: 1, Errno: syscall.ENOLCK},
		{Kind: filetest.Lock, Nth: 1, Errno: syscall.EWOULDBLOCK},
		{Kind: filetest.Open, Nth: 1, Errno: syscall.EEXIST},
		{Kind: filetest.Open, Nth: 2, Errno: syscall.EACCES},
		{Kind: filetest.SyncDirectory, Nth: 1, Errno: syscall.EINVAL},
	} {
		t.Run(fmt.Sprintf("%s %d %s %d", fault.Kind, fault.Nth, fault.Errno, fault.Short), func(t *testing.T) {
			eachFS(t, func(t *testing.T, fs file.FS, directory string) {
				path := filepath.Join(directory, "state")
				require.NoError(t, save(fs, path, []byte("old"), file.Options{}, 4096))
				faulty := filetest.NewFaulty(fs, fault)
				data := content(5, 300_001)
				require.NoError(t, save(faulty, path, data, file.Options{Durable: true}, 128<<10))
				assert.Positive(t, faulty.Hits())
				requireContent(t, fs, path, data)
				requireAllClosed(t, directory)
			})
		})
	}
}

func TestASystemThatWantsALargerAlignmentIsWrittenThroughItsCache(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state")
	data := content(5, 300_001)
	faulty := filetest.NewFaulty(file.OS{}, filetest.Fault{Kind: filetest.Write, Nth: 2, Errno: syscall.EINVAL})
	require.NoError(t, save(faulty, path, data, file.Options{}, 128<<10))
	assert.Equal(t, 1, faulty.Hits())
	assert.Equal(t, 2, faulty.Count(filetest.SetDirect))
	requireContent(t, file.OS{}, path, data)
}

func TestSpaceIsTakenForWhatIsExpectedAndTheFileIsAsLongAsWhatCame(t *testing.T) {
	data := content(6, 3*file.BufferSize+file.Alignment)
	lengths := []int64{9 * file.BufferSize, 3 * file.BufferSize, file.BufferSize + 1}
	if raceDetector {
		lengths = lengths[:1]
	}
	for _, expected := range lengths {
		for _, refused := range []syscall.Errno{0, syscall.EOPNOTSUPP, syscall.ENOSPC} {
			eachFS(t, func(t *testing.T, fs file.FS, directory string) {
				path := filepath.Join(directory, "state")
				faulty := filetest.NewFaulty(fs)
				if refused != 0 {
					faulty = filetest.NewFaulty(fs, filetest.Fault{Kind: filetest.Allocate, Nth: 1, Errno: refused})
				}
				require.NoError(t, save(faulty, path, data, file.Options{Durable: true, Expected: expected}, file.BufferSize))
				assert.Equal(t, 1, faulty.Count(filetest.Allocate))
				requireContent(t, fs, path, data)
				requireAllClosed(t, directory)
			})
		}
	}
	faulty := filetest.NewFaulty(filetest.NewDisk())
	require.NoError(t, save(faulty, "/state", []byte("x"), file.Options{Expected: 100}, 4096))
	assert.Zero(t, faulty.Count(filetest.Allocate), "one buffer needs none")
}

func TestAFailedSyncOfTheDirectoryIsTold(t *testing.T) {
	eachFS(t, func(t *testing.T, fs file.FS, directory string) {
		path := filepath.Join(directory, "state")
		require.NoError(t, save(fs, path, []byte("old"), file.Options{}, 4096))
		faulty := filetest.NewFaulty(fs, filetest.Fault{Kind: filetest.SyncDirectory, Nth: 1, Errno: syscall.EIO})
		err := save(faulty, path, []byte("new"), file.Options{Durable: true}, 4096)
		assert.Equal(t, status.IO, status.CodeOf(err))
		assert.Equal(t, []string{"state"}, list(t, fs, directory))
		requireContent(t, fs, path, []byte("new"))
		requireAllClosed(t, directory)
	})
}

func TestTheDiskIsNotSyncedWithoutDurable(t *testing.T) {
	faulty := filetest.NewFaulty(filetest.NewDisk())
	require.NoError(t, save(faulty, "/state", []byte("x"), file.Options{}, 4096))
	assert.Zero(t, faulty.Count(filetest.Sync)+faulty.Count(filetest.SyncDirectory))
	require.NoError(t, save(faulty, "/state", []byte("x"), file.Options{Durable: true}, 4096))
	assert.Equal(t, 1, faulty.Count(filetest.Sync))
	assert.Equal(t, 1, faulty.Count(filetest.SyncDirectory))
}

func TestTheOldFileIsHeldOverTheRename(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state")
	require.NoError(t, save(file.OS{}, path, []byte("old"), file.Options{}, 4096))
	faulty := filetest.NewFaulty(file.OS{})
	held := 0
	faulty.Before = func(kind filetest.Kind, _ int) {
		if kind == filetest.SyncDirectory {
			held = openFiles(t, path+" (deleted)")
		}
	}
	require.NoError(t, save(faulty, path, []byte("new"), file.Options{Durable: true}, 4096))
	assert.Equal(t, 1, held)
	requireAllClosed(t, path)
}

func TestTheTemporaryFileVanishes(t *testing.T) {
	directory := t.TempDir()
	path := filepath.Join(directory, "state")
	require.NoError(t, save(file.OS{}, path, []byte("old"), file.Options{}, 4096))
	sink, err := file.Replace(file.OS{}, path, file.Options{Durable: true})
	require.NoError(t, err)
	for _, name := range list(t, file.OS{}, directory) {
		if name != "state" {
			require.NoError(t, os.Remove(filepath.Join(directory, name)))
		}
	}
	require.NoError(t, fill(sink, []byte("new"), 4096))
	assert.Equal(t, status.NotFound, status.CodeOf(sink.Finish()))
	requireContent(t, file.OS{}, path, []byte("old"))
}

func TestThePathBecomesADirectory(t *testing.T) {
	directory := t.TempDir()
	path := filepath.Join(directory, "state")
	sink, err := file.Replace(file.OS{}, path, file.Options{Durable: true})
	require.NoError(t, err)
	require.NoError(t, fill(sink, []byte("new"), 4096))
	require.NoError(t, os.Mkdir(path, 0o777))
	err = sink.Finish()
	assert.Equal(t, status.IO, status.CodeOf(err))
	assert.ErrorContains(t, err, "EISDIR")
	assert.Equal(t, []string{"state"}, list(t, file.OS{}, directory))
}

func TestTheNextSaveRemovesTemporaryFilesOfKilledOnes(t *testing.T) {
	for _, name := range []string{"state", strings.Repeat("n", 255)} {
		t.Run(name[:5], func(t *testing.T) {
			directory := t.TempDir()
			path := filepath.Join(directory, name)
			require.NoError(t, save(file.OS{}, path, []byte("old"), file.Options{}, 4096))
			bystanders := []string{".state.mmsb-", ".state.mmsb-12-ABCDEFGHIJKLMNOP.tmp2", ".state.mmsb-x-ABCDEFGHIJKLMNOP.tmp",
				"state.mmsb-12-ABCDEFGHIJKLMNOP.tmp"}
			of := filepath.Join(directory, ".state2.mmsb-12-ABCDEFGHIJKLMNOP.tmp") // of another file: it goes, too
			require.NoError(t, os.WriteFile(of, nil, 0o666))
			for _, bystander := range bystanders {
				require.NoError(t, os.WriteFile(filepath.Join(directory, bystander), nil, 0o666))
			}
			others := len(bystanders) + 1

			killFirst, killSecond := startSaver(t, path), startSaver(t, path)
			assert.Len(t, list(t, file.OS{}, directory), others+2)
			killFirst()
			require.NoError(t, save(file.OS{}, path, []byte("new"), file.Options{}, 4096))
			assert.Len(t, list(t, file.OS{}, directory), others+1, "the file of the one that lives stays")
			requireContent(t, file.OS{}, path, []byte("new"))
			killSecond()
			sink, err := file.Replace(file.OS{}, path, file.Options{})
			require.NoError(t, err)
			sink.Abort()
			assert.Len(t, list(t, file.OS{}, directory), others)
			requireContent(t, file.OS{}, path, []byte("new"))
		})
	}
}

func TestAFIFOAmongTheTemporaryFilesStopsNobody(t *testing.T) {
	directory := t.TempDir()
	makeFIFO(t, filepath.Join(directory, ".state.mmsb-12-ABCDEFGHIJKLMNOP.tmp"))
	require.NoError(t, save(file.OS{}, filepath.Join(directory, "state"), []byte("x"), file.Options{}, 4096))
	assert.Equal(t, []string{"state"}, list(t, file.OS{}, directory))
}

func TestOfManySaversEachFileIsWholeAndNoneLosesItsOwn(t *testing.T) {
	eachFS(t, func(t *testing.T, fs file.FS, directory string) {
		path := filepath.Join(directory, "state")
		var savers sync.WaitGroup
		for saver := range 4 {
			savers.Go(func() {
				for round := range 20 {
					data := content(uint64(saver*100+round), 3*4096+saver)
					assert.NoError(t, save(fs, path, data, file.Options{}, 4096))
				}
			})
		}
		done := make(chan struct{})
		go func() { savers.Wait(); close(done) }()
		for running := true; running; {
			select {
			case <-done:
				running = false
			default:
			}
			if data, ok := load(t, fs, path); ok {
				requireOneOf(t, data)
			}
		}
		assert.Equal(t, []string{"state"}, list(t, fs, directory))
	})
}

// requireOneOf wants what one of the savers wrote.
func requireOneOf(t *testing.T, data []byte) {
	t.Helper()
	saver := len(data) - 3*4096
	require.True(t, saver >= 0 && saver < 4, "%d bytes", len(data))
	for round := range 20 {
		if string(content(uint64(saver*100+round), len(data))) == string(data) {
			return
		}
	}
	require.Fail(t, "a mixture")
}

// TestASaverWhoseNewFileIsTakenForAbandoned has a sweep at each moment between the creation of a temporary file and its lock.
func TestASaverWhoseNewFileIsTakenForAbandoned(t *testing.T) {
	for _, moment := range []filetest.Kind{filetest.Lock, filetest.StatFile} {
		t.Run(string(moment), func(t *testing.T) {
			disk := filetest.NewDisk()
			faulty := filetest.NewFaulty(disk)
			swept := false
			faulty.Before = func(kind filetest.Kind, n int) {
				if kind == moment && n == 1 {
					swept = true
					require.NoError(t, save(disk, "/state", []byte("other"), file.Options{}, 4096))
				}
			}
			require.NoError(t, save(faulty, "/state", []byte("mine"), file.Options{}, 4096))
			assert.True(t, swept)
			assert.Equal(t, []string{"state"}, list(t, disk, "/"))
			requireContent(t, disk, "/state", []byte("mine"))
		})
	}
}

// crashes cuts the power before each operation of a durable save and after it, many times, and says how often what is found
// is neither the old nor the new file whole, and how often it is not the new one although the save had reported success.
func crashes(t *testing.T, bugs ...filetest.Fault) (mixed, lost int) {
	t.Helper()
	old, latest := content(6, 5*4096+17), content(7, 7*4096+100)
	disk := filetest.NewDisk()
	require.NoError(t, disk.MakeDirectory("/folder", 0o777))
	require.NoError(t, file.SyncDirectory(disk, "/"))
	const path = "/folder/state"
	require.NoError(t, save(disk, path, old, file.Options{Durable: true}, 2*4096))

	const seeds = 100
	cut := func(finished bool) {
		for seed := range uint64(seeds) {
			after := disk.Crash(seed)
			data, ok := load(t, after, path)
			switch whole := ok && (string(data) == string(old) || string(data) == string(latest)); {
			case !whole:
				mixed++
			case finished && string(data) != string(latest):
				lost++
			}
			// What a saver left behind is no obstacle to the next, and goes with it.
			if seed%10 == 0 {
				require.NoError(t, save(after, path, latest, file.Options{}, 4096))
				require.Equal(t, []string{"state"}, list(t, after, "/folder"))
			}
		}
	}
	steps := 0
	var one sync.Mutex // writes come from several goroutines
	faulty := filetest.NewFaulty(disk, bugs...)
	faulty.Before = func(kind filetest.Kind, _ int) {
		if kind == filetest.Close { // it changes nothing on the disk, and may come late
			return
		}
		one.Lock()
		defer one.Unlock()
		steps++
		cut(false)
	}
	require.NoError(t, save(faulty, path, latest, file.Options{Durable: true}, 2*4096))
	cut(true)
	require.Greater(t, steps, 12)
	if len(bugs) > 0 {
		require.Positive(t, faulty.Hits())
	}
	return mixed, lost
}

func TestAfterAPowerCutTheFileIsTheOldOrTheNewOne(t *testing.T) {
	mixed, lost := crashes(t)
	assert.Zero(t, mixed)
	assert.Zero(t, lost)
}

func TestPowerCutsFindPlantedBugs(t *testing.T) {
	for _, c := range []struct {
		name        string
		bug         filetest.Fault
		mixed, lost bool
	}{
		{"the file is not synced", filetest.Fault{Kind: filetest.Sync, Nth: 1, Lie: true}, true, false},
		{"the directory is not synced", filetest.Fault{Kind: filetest.SyncDirectory, Nth: 1, Lie: true}, false, true},
		{"a write is lost", filetest.Fault{Kind: filetest.Write, Nth: 2, Lie: true}, true, false},
		{"the end is not cut", filetest.Fault{Kind: filetest.Truncate, Nth: 1, Lie: true}, true, false},
		{"the rename is not done", filetest.Fault{Kind: filetest.Rename, Nth: 1, Lie: true}, false, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			mixed, lost := crashes(t, c.bug)
			assert.Equal(t, c.mixed, mixed > 0, "%d mixed", mixed)
			assert.Equal(t, c.lost, lost > 0, "%d lost", lost)
		})
	}
}

// TestAKilledSaverAtEachStep: the death of the process, without a power cut.
func TestAKilledSaverAtEachStep(t *testing.T) {
	disk := filetest.NewDisk()
	require.NoError(t, save(disk, "/state", []byte("old"), file.Options{}, 4096))
	faulty := filetest.NewFaulty(disk)
	steps, rubbish := 0, 0
	faulty.Before = func(kind filetest.Kind, _ int) {
		if kind == filetest.Close {
			return
		}
		steps++
		after := disk.Kill()
		data, _ := load(t, after, "/state")
		require.Contains(t, []string{"old", "new"}, string(data))
		rubbish += len(list(t, after, "/")) - 1
		require.NoError(t, save(after, "/state", []byte("next"), file.Options{}, 4096))
		require.Equal(t, []string{"state"}, list(t, after, "/"))
		requireContent(t, after, "/state", []byte("next"))
	}
	require.NoError(t, save(faulty, "/state", []byte("new"), file.Options{Durable: true}, 4096))
	assert.Greater(t, steps, 8)
	assert.Positive(t, rubbish)
}

// TestManySavesWithPowerCuts is a longer life: saves with faults, cut at random; the state goes on from what is found.
func TestManySavesWithPowerCuts(t *testing.T) {
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 1))
	disk := filetest.NewDisk()
	var possible [][]byte // what a power cut may leave
	failed := 0
	for round := range 300 {
		next := content(uint64(round), 1+random.IntN(4*4096))
		kinds := []filetest.Kind{filetest.Write, filetest.Sync, filetest.Rename, filetest.SyncDirectory, filetest.Truncate}
		fault := filetest.Fault{Kind: kinds[random.IntN(len(kinds))], Nth: 1 + random.IntN(3), Errno: syscall.EIO}
		err := save(filetest.NewFaulty(disk, fault), "/state", next, file.Options{Durable: true}, 4096)
		if err == nil {
			possible = nil
		} else {
			failed++
			if round == 0 {
				possible = append(possible, nil)
			}
		}
		possible = append(possible, next)
		cut := random.IntN(2) == 0
		if cut {
			disk = disk.Crash(random.Uint64())
		}
		found, _ := load(t, disk, "/state")
		at := slices.IndexFunc(possible, func(one []byte) bool { return bytes.Equal(one, found) })
		require.GreaterOrEqual(t, at, 0, "seed %d, round %d: %d bytes, error %v", seed, round, len(found), err)
		if cut {
			possible = [][]byte{found}
		}
	}
	assert.Greater(t, failed, 30)
	assert.Less(t, failed, 270)
}
