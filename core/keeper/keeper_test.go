package keeper

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"libmmsb/core/abi"
	"libmmsb/core/file"
	"libmmsb/core/file/filetest"
	"libmmsb/core/page"
	"libmmsb/core/persist"
	"libmmsb/core/status"
	"libmmsb/core/store"
	gpupages "libmmsb/gpu/pages"
	"libmmsb/native"
	"libmmsb/native/nativetest"
)

// patience is how long the keeper may take for what it does of its own accord; with a planted bug it may never come.
var patience = 2 * time.Minute

func init() {
	persist.RingBytes = 256 << 10
	tryAgain.first, tryAgain.last = 10*time.Millisecond, 50*time.Millisecond
	leastSaveBytes = 640 << 10
	if bug := os.Getenv("MMSB_MUTANT"); bug != "" && bug != "0" {
		patience = 4 * time.Second
	}
}

// The devices are looked at by the first page that goes there.
var hostPages = page.Options{Simulate: abi.SimulateAlways, SimulatedDevices: devicesOfTests, SimulatedMemory: 64 << 20,
	DiskPath: os.TempDir()}

const devicesOfTests = 2

func TestMain(m *testing.M) {
	gpupages.Use()
	os.Exit(m.Run())
}

// quiet is a keeper that saves only when it is asked.
func quiet() Options {
	return Options{SaveBytes: Never, IntervalMs: 10, SegmentBytes: 64 << 10, Retention: store.Retention{Last: 1, Branches: true}}
}

func openStore(t *testing.T, directory string, o Options) uint64 {
	t.Helper()
	context, err := Open(directory, hostPages, o, nil)
	require.NoError(t, err)
	t.Cleanup(func() { _ = page.Destroy(context) })
	return context
}

func create(t *testing.T, context, size uint64) (handle uint64) {
	t.Helper()
	require.NoError(t, page.Use(context, func(c *page.Context) (err error) {
		handle, err = c.Create(size, page.CreateOptions{Location: abi.LocationDefault, NUMANode: -1})
		return err
	}))
	return handle
}

// read is a state of a store as a reader sees it.
func read(t *testing.T, directory string, at store.At) pages {
	t.Helper()
	o := quiet()
	o.Mode, o.At = abi.StoreRead, at
	context := openStore(t, directory, o)
	defer func() { require.NoError(t, page.Destroy(context)) }()
	return stateOf(t, context)
}

func infoOf(t *testing.T, context uint64) Info {
	t.Helper()
	info, err := GetInfo(context)
	require.NoError(t, err)
	return info
}

func TestOpenUseOpen(t *testing.T) {
	directory := filepath.Join(t.TempDir(), "store")
	context := openStore(t, directory, quiet())
	handle := create(t, context, 100)
	require.Zero(t, nativetest.WritePage(handle, 0, []byte("first")))
	require.NoError(t, SetName(context, "first", nil))
	require.Zero(t, nativetest.WritePage(handle, 0, []byte("other")))
	state := stateOf(t, context)
	_, err := Open(directory, hostPages, quiet(), nil)
	require.Equal(t, status.Busy, status.CodeOf(err))
	require.Contains(t, err.Error(), "process ", "it says who")
	require.NoError(t, page.Destroy(context))

	context = openStore(t, directory, quiet())
	require.Equal(t, state, stateOf(t, context))
	first := read(t, directory, store.At{Name: "first"})
	require.NotEqual(t, state, first)
	require.Equal(t, state, read(t, directory, store.At{}), "beside a writer")
	require.NoError(t, page.Destroy(context))

	o := quiet()
	o.Mode, o.At = abi.StoreBranch, store.At{Name: "first"}
	context = openStore(t, directory, o)
	require.Equal(t, first, stateOf(t, context))
	require.NoError(t, page.Destroy(context))
	require.Equal(t, first, read(t, directory, store.At{}))
}

func TestReadersChangeNothing(t *testing.T) {
	directory := t.TempDir()
	context := openStore(t, directory, quiet())
	require.Zero(t, nativetest.WritePage(create(t, context, 64), 0, []byte("x")))
	require.NoError(t, page.Destroy(context))
	o := quiet()
	o.Mode = abi.StoreRead
	reader := openStore(t, directory, o)
	state := stateOf(t, reader)
	err := page.Use(reader, func(c *page.Context) error {
		_, err := c.Create(8, page.CreateOptions{Location: abi.LocationDefault, NUMANode: -1})
		require.Equal(t, status.InvalidState, status.CodeOf(err))
		handles := make([]uint64, 1)
		require.EqualValues(t, 1, c.Pages(new(uint64), handles))
		_, code := nativetest.PinPage(handles[0], true)
		require.Equal(t, int32(status.InvalidState), code)
		return err
	})
	require.Equal(t, status.InvalidState, status.CodeOf(err))
	require.Equal(t, state, stateOf(t, reader))
	require.Equal(t, status.InvalidState, status.CodeOf(Save(reader, false, nil)))
	writer := openStore(t, directory, quiet()) // beside the reader
	require.NoError(t, Save(writer, false, nil))
}

// What a reader is told is the record of its own state, which may be an older one and stays; what the directory has is of now.
func TestAReaderKnowsItsRecord(t *testing.T) {
	directory := t.TempDir()
	context := openStore(t, directory, quiet())
	handle := create(t, context, 64)
	require.NoError(t, SetName(context, "named", nil))
	named := infoOf(t, context).Journal.Last
	write := func() uint64 {
		require.Zero(t, nativetest.WritePage(handle, 0, []byte("x")))
		require.NoError(t, persist.SyncJournal(context, nil))
		return infoOf(t, context).Journal.Last
	}
	then, last := write(), write()
	require.Less(t, named, then)
	require.Less(t, then, last)
	readers := make(map[uint64]uint64)
	for record, at := range map[uint64]store.At{named: {Name: "named"}, then: {Record: then}, last: {}} {
		o := quiet()
		o.Mode, o.At = abi.StoreRead, at
		readers[record] = openStore(t, directory, o)
	}
	write()
	has := infoOf(t, context)
	for record, reader := range readers {
		info := infoOf(t, reader)
		require.Equal(t, record, info.Journal.Last)
		require.Equal(t, []any{has.Snapshots, has.SnapshotBytes, has.Journal.First},
			[]any{info.Snapshots, info.SnapshotBytes, info.Journal.First})
		require.NoError(t, page.Destroy(reader))
		_, err := GetInfo(reader)
		require.Equal(t, status.StaleHandle, status.CodeOf(err))
	}
	require.Eventually(t, func() bool {
		keepers.Lock()
		defer keepers.Unlock()
		return len(keepers.readers) == 0
	}, patience, time.Millisecond)
}

func TestWrongUse(t *testing.T) {
	directory := t.TempDir()
	with := func(change func(o *Options)) error {
		o := quiet()
		change(&o)
		_, err := Open(directory, hostPages, o, nil)
		return err
	}
	invalid := map[string]func(o *Options){
		"mode":    func(o *Options) { o.Mode = 4 },
		"at":      func(o *Options) { o.At.Record = 1 },
		"branch":  func(o *Options) { o.Mode = abi.StoreBranch },
		"follow":  func(o *Options) { o.Mode, o.At.Record = abi.StoreFollow, 1 },
		"last":    func(o *Options) { o.Retention.Last = 0 },
		"hourly":  func(o *Options) { o.Retention.Hourly = -1 },
		"durable": func(o *Options) { o.Durability = 9 },
	}
	for name, change := range invalid {
		require.Equal(t, status.InvalidArgument, status.CodeOf(with(change)), name)
	}
	read := func(o *Options) { o.Mode = abi.StoreRead }
	require.Equal(t, status.NotFound, status.CodeOf(with(read)), "an empty directory can be begun, not read")
	require.NoError(t, os.WriteFile(filepath.Join(directory, "mine"), nil, 0o600))
	require.Equal(t, status.InvalidState, status.CodeOf(with(func(*Options) {})), "it has files of others")
	left, err := os.ReadDir(directory)
	require.NoError(t, err)
	require.Len(t, left, 1, "a failed call leaves nothing")
}

func TestTheKeeperSavesByItself(t *testing.T) {
	directory := t.TempDir()
	o := quiet()
	o.SaveBytes = 256 << 10
	context := openStore(t, directory, o)
	handle := create(t, context, 64<<10)
	block := make([]byte, 32<<10)
	begin := time.Now()
	for saves := uint64(0); saves < 5; saves = infoOf(t, context).Saves {
		block[0]++
		require.Zero(t, nativetest.WritePage(handle, 0, block))
		require.Less(t, time.Since(begin), patience)
	}
	state := stateOf(t, context)
	require.NoError(t, persist.SyncJournal(context, nil)) // what is counted later may call for one more save
	require.NoError(t, Save(context, true, nil))
	info := infoOf(t, context)
	require.Equal(t, uint64(1), info.Snapshots, "those before it are not kept")
	const frame = 4 << 20 // the longest, and so the last segment
	require.Less(t, info.Journal.Bytes, uint64(2*frame), "nor their records")
	require.Greater(t, info.Journal.First, uint64(1))
	require.NoError(t, page.Destroy(context))
	require.Equal(t, state, read(t, directory, store.At{}))
}

// What a save has made unnecessary is no part of a segment that stays.
func TestASaveLeavesNoRecords(t *testing.T) {
	o := quiet()
	o.SegmentBytes = 1 << 20
	context := openStore(t, t.TempDir(), o)
	handle := create(t, context, 64<<10)
	for range 10 {
		require.Zero(t, nativetest.WritePage(handle, 0, make([]byte, 32<<10)))
	}
	require.NoError(t, persist.SyncJournal(context, nil))
	require.NoError(t, Save(context, false, nil))
	info := infoOf(t, context).Journal
	require.Equal(t, info.Last+1, info.First)
	require.Equal(t, uint64(4096), info.Bytes, "a header")
}

// A program may have ended between a save and what makes room behind it, again and again.
func TestAnOpenRemovesWhatNoRuleKeeps(t *testing.T) {
	directory, o := t.TempDir(), quiet()
	o.Retention.Last = 3
	context := openStore(t, directory, o)
	handle := create(t, context, 100)
	for i := range 3 {
		require.Zero(t, nativetest.WritePage(handle, 0, []byte{byte(i)}))
		require.NoError(t, Save(context, true, nil))
	}
	require.NoError(t, page.Destroy(context))
	for _, mode := range []int32{abi.StoreRead, abi.StoreWrite} {
		o.Mode, o.Retention.Last = mode, 1
		context = openStore(t, directory, o)
		s, err := store.Look(file.OS{}, directory)
		require.NoError(t, err)
		require.NoError(t, page.Destroy(context))
		require.Equal(t, mode == abi.StoreWrite, len(s.Points) == 1)
	}
}

// The same pages change again and again: what rests on the whole snapshot is made anew from it, and never has them more often
// than it may. Where addresses were given out nobody knows what has changed since then.
func TestHotPagesAreSavedWithoutTheOthers(t *testing.T) {
	const count, size, hot = 40, 4000, 4
	directory := t.TempDir()
	context := openStore(t, directory, quiet())
	handles := make([]uint64, count)
	for i := range handles {
		handles[i] = create(t, context, size)
	}
	saves := func(times int) {
		for i := range times {
			for _, handle := range handles[:hot] {
				require.Zero(t, nativetest.WritePage(handle, 0, []byte{byte(i), 1}))
			}
			require.NoError(t, Save(context, false, nil))
			s, err := store.Look(file.OS{}, directory)
			require.NoError(t, err)
			_, all, increments, err := s.Chain(s.Newest())
			require.NoError(t, err)
			require.LessOrEqual(t, increments, max(leastSaveBytes, all)/share)
		}
	}
	saves(30)
	require.Equal(t, uint64(1), infoOf(t, context).WholeSaves)
	state := stateOf(t, context)
	require.Equal(t, state, read(t, directory, store.At{}))

	for _, handle := range handles {
		require.NoError(t, page.Read(handle, func(p *page.Page) error { p.Record.Exposed = native.ExposedForGood; return nil }))
	}
	saves(8)
	require.NotEqual(t, uint64(1), infoOf(t, context).WholeSaves)
	require.Equal(t, stateOf(t, context), read(t, directory, store.At{}))
}

// A small state all of which changes again and again is saved whole: increments that are as long as it would only add up. What
// the store says that its snapshots take is what the directory has.
func TestASmallStateIsSavedWhole(t *testing.T) {
	directory := t.TempDir()
	context := openStore(t, directory, quiet())
	handles := make([]uint64, 20)
	for i := range handles {
		handles[i] = create(t, context, 4000)
	}
	taken := func() (sum uint64) {
		files, err := os.ReadDir(directory)
		require.NoError(t, err)
		for _, entry := range files {
			if info, err := entry.Info(); err == nil && !strings.HasPrefix(entry.Name(), "journal") {
				sum += uint64(info.Size())
			}
		}
		return sum
	}
	var one uint64
	for i := range 40 {
		for n, handle := range handles {
			if n == 0 || i%2 == 0 { // every other time only a little
				require.Zero(t, nativetest.WritePage(handle, 0, bytes.Repeat([]byte{byte(i + 1)}, 4000)))
			}
		}
		require.NoError(t, Save(context, false, nil))
		if one == 0 {
			one = taken()
		}
		require.LessOrEqual(t, taken(), 3*one)
		require.Equal(t, taken(), infoOf(t, context).SnapshotBytes)
	}
	require.Equal(t, stateOf(t, context), read(t, directory, store.At{}))
}

func TestTheKeeperSavesByTime(t *testing.T) {
	o := quiet()
	o.SaveInterval = uint64(20 * time.Millisecond)
	context := openStore(t, t.TempDir(), o)
	handle := create(t, context, 64)
	saved := func(saves uint64) func() bool { return func() bool { return infoOf(t, context).Saves >= saves } }
	require.Eventually(t, saved(1), patience, 10*time.Millisecond)
	require.Zero(t, nativetest.WritePage(handle, 0, []byte("x")))
	require.Eventually(t, saved(2), patience, 10*time.Millisecond)
	time.Sleep(100 * time.Millisecond)
	require.Equal(t, uint64(2), infoOf(t, context).Saves, "nothing has changed")
}

func TestNamesStay(t *testing.T) {
	directory := t.TempDir()
	context := openStore(t, directory, quiet())
	handle := create(t, context, 256)
	states := map[string]pages{}
	for _, name := range []string{"a", "b", "c"} {
		require.Zero(t, nativetest.WritePage(handle, 0, []byte(name)))
		states[name] = stateOf(t, context)
		require.NoError(t, SetName(context, name, nil))
	}
	for range 3 {
		require.Zero(t, nativetest.WritePage(handle, 1, []byte("more")))
		require.NoError(t, Save(context, true, nil))
	}
	for name, state := range states {
		require.Equal(t, state, read(t, directory, store.At{Name: name}), name)
	}
	require.NoError(t, RemoveName(context, "b", nil))
	require.Equal(t, status.NotFound, status.CodeOf(RemoveName(context, "b", nil)))
	require.NoError(t, Save(context, false, nil))
	require.Equal(t, uint64(3), infoOf(t, context).Snapshots)
	require.Equal(t, states["a"], read(t, directory, store.At{Name: "a"}))
	require.Equal(t, status.InvalidArgument, status.CodeOf(SetName(context, "7", nil)))
}

func TestAFullDisk(t *testing.T) {
	directory := t.TempDir()
	o := quiet()
	o.SegmentBytes = 1 << 30
	context := openStore(t, directory, o)
	handle := create(t, context, 4096)
	restore := filetest.Full(t, 1<<20)
	defer restore()
	block := make([]byte, 4096)
	code := int32(0)
	for begin := time.Now(); code == 0; code = nativetest.WritePage(handle, 0, block) {
		block[0]++
		require.Less(t, time.Since(begin), patience)
	}
	require.Equal(t, int32(status.NoSpace), code)
	full := stateOf(t, context)
	restore()
	require.Eventually(t, func() bool { return nativetest.WritePage(handle, 1, []byte("goes on")) == 0 }, patience,
		20*time.Millisecond)
	state := stateOf(t, context)
	require.NotEqual(t, full, state)
	require.NoError(t, Save(context, false, nil))
	require.NoError(t, page.Destroy(context))
	require.Equal(t, state, read(t, directory, store.At{}))
	looked, err := store.Look(file.OS{}, directory)
	require.NoError(t, err)
	require.NotEmpty(t, looked.Points)
}

// A branch begins at a name of a lineage that no segment of the journal names any more: others came after a disk was full twice.
func TestABranchOfAForgottenLineage(t *testing.T) {
	directory := t.TempDir()
	o := quiet()
	context := openStore(t, directory, o)
	handle := create(t, context, 4096)
	require.NoError(t, SetName(context, "first", nil))
	first := stateOf(t, context)
	block := make([]byte, 4096)
	for range 2 {
		restore := filetest.Full(t, 64<<10)
		defer restore()
		for begin := time.Now(); nativetest.WritePage(handle, 0, block) == 0; block[0]++ {
			require.Less(t, time.Since(begin), patience)
		}
		restore()
		require.Eventually(t, func() bool { return nativetest.WritePage(handle, 1, []byte("goes on")) == 0 }, patience,
			20*time.Millisecond)
		require.NoError(t, Save(context, true, nil))
	}
	require.NoError(t, page.Destroy(context))
	o.Mode, o.At = abi.StoreBranch, store.At{Name: "first"}
	context = openStore(t, directory, o)
	require.Equal(t, first, stateOf(t, context))
	create(t, context, 100)
	require.NoError(t, page.Destroy(context))
}

// A backup follows a store to another branch as long as one of the store's snapshots has its newest state.
func TestABranchOfWhatABackupHas(t *testing.T) {
	directory, target := t.TempDir(), t.TempDir()
	o := quiet()
	leave := func(mode int32, pages int, name string) {
		o.Mode, o.At = mode, store.At{}
		if mode == abi.StoreBranch {
			o.At.Name = "first"
		}
		context := openStore(t, directory, o)
		for range pages {
			create(t, context, 100)
		}
		if name != "" {
			require.NoError(t, SetName(context, name, nil))
		}
		require.NoError(t, page.Destroy(context))
	}
	steps := 0
	watched := filetest.NewFaulty(file.OS{})
	watched.Before = func(kind filetest.Kind, _ int) { // as a kill leaves it here
		switch kind {
		case filetest.Link, filetest.Rename, filetest.Remove:
			if is, _ := store.Is(file.OS{}, target); is {
				steps++
				require.Contains(t, []int{5, 6, 3}, len(read(t, target, store.At{})))
			}
		}
	}
	backup := func() error {
		_, err := store.Backup(watched, directory, store.Directory(watched, target), nil)
		return err
	}
	leave(abi.StoreWrite, 1, "first")
	leave(abi.StoreWrite, 4, "")
	require.NoError(t, backup())
	leave(abi.StoreWrite, 1, "left")
	leave(abi.StoreBranch, 2, "")
	require.NoError(t, backup())
	require.Greater(t, steps, 4)
	require.Len(t, read(t, target, store.At{}), 3)
	require.Len(t, read(t, target, store.At{Name: "left"}), 6)
	leave(abi.StoreBranch, 3, "") // what the backup has is in records only of a branch that was left
	require.Equal(t, status.Mismatch, status.CodeOf(backup()))
	require.Len(t, read(t, target, store.At{}), 3)
}

// Where the segments of a store are gone, nothing begins anew over its snapshots.
func TestAStoreWhoseJournalIsMissing(t *testing.T) {
	directory := filepath.Join(t.TempDir(), "store")
	context := openStore(t, directory, quiet())
	create(t, context, 100)
	require.NoError(t, Save(context, false, nil))
	require.NoError(t, page.Destroy(context))
	segments, err := filepath.Glob(filepath.Join(directory, "journal-*"))
	require.NoError(t, err)
	require.NotEmpty(t, segments)
	for _, segment := range segments {
		require.NoError(t, os.Rename(segment, filepath.Join(filepath.Dir(directory), filepath.Base(segment))))
	}
	_, err = Open(directory, hostPages, quiet(), nil)
	require.Equal(t, status.InvalidState, status.CodeOf(err), "%v", err)
	for _, segment := range segments {
		require.NoError(t, os.Rename(filepath.Join(filepath.Dir(directory), filepath.Base(segment)), segment))
	}
	require.Len(t, read(t, directory, store.At{}), 1)
}

// A backup takes nothing away that a program has written into its target: that may be the store itself, be open, or have been.
func TestABackupOfAStoreIntoWhatOthersWrite(t *testing.T) {
	folder := t.TempDir()
	directory, target, link := filepath.Join(folder, "store"), filepath.Join(folder, "backup"), filepath.Join(folder, "link")
	require.NoError(t, os.Symlink(directory, link))
	backup := func(to string) status.Code {
		_, err := store.Backup(file.OS{}, directory, store.Directory(file.OS{}, to), nil)
		return status.CodeOf(err)
	}
	change := func(t *testing.T, directory string) {
		context := openStore(t, directory, quiet())
		create(t, context, 100)
		require.NoError(t, page.Destroy(context))
	}
	change(t, directory)
	require.Equal(t, status.InvalidArgument, backup(directory))
	require.Equal(t, status.InvalidArgument, backup(link))
	for range 3 {
		require.Equal(t, status.OK, backup(target))
		change(t, directory)
	}

	context := openStore(t, target, quiet()) // and writes nothing
	require.Equal(t, status.Busy, backup(target))
	require.NoError(t, page.Destroy(context))
	require.Equal(t, status.OK, backup(target))
	change(t, directory)
	require.Equal(t, status.OK, backup(target))

	change(t, target)
	kept := read(t, target, store.At{})
	require.Equal(t, status.Mismatch, backup(target))
	change(t, directory) // its record has the number of the backup's own
	require.Equal(t, status.Mismatch, backup(target))
	change(t, directory)
	require.Equal(t, status.Mismatch, backup(target))
	require.Equal(t, kept, read(t, target, store.At{}))
}

func TestLookingAgain(t *testing.T) {
	directory := filepath.Join(t.TempDir(), "store")
	o := quiet()
	o.IntervalMs, o.SegmentBytes = 1, 16<<10
	context := openStore(t, directory, o)
	again, err := store.Look(file.OS{}, directory)
	require.NoError(t, err)
	same := 0
	for i := range 200 {
		switch i % 40 {
		case 20:
			require.NoError(t, Save(context, false, nil))
		case 39:
			require.NoError(t, page.Destroy(context))
			context = openStore(t, directory, o)
		default:
			handle := create(t, context, 1000)
			require.Zero(t, nativetest.WritePage(handle, 0, []byte("some")))
		}
		require.NoError(t, persist.SyncJournal(context, nil))
		before := again
		again, err = again.LookAgain()
		require.NoError(t, err)
		if again == before {
			same++
		}
		anew, err := store.Look(file.OS{}, directory)
		require.NoError(t, err)
		require.Equal(t, anew.Journal, again.Journal, "step %d", i)
		require.Equal(t, anew.Points, again.Points, "step %d", i)
	}
	require.Greater(t, same, 100, "times it read only what had come")
}

// Whoever removes what a snapshot elsewhere has made unnecessary leaves what has a name.
func TestNamesStayWhereJournalsAreTrimmed(t *testing.T) {
	directory, outside := t.TempDir(), filepath.Join(t.TempDir(), "outside.mmsb")
	context := openStore(t, directory, quiet())
	var named []pages
	names := []string{"monday", "tuesday"}
	for _, name := range names {
		create(t, context, 100)
		named = append(named, stateOf(t, context))
		require.NoError(t, SetName(context, name, nil))
	}
	check := func() {
		t.Helper()
		for i, name := range names {
			require.Equal(t, named[i], read(t, directory, store.At{Name: name}))
		}
	}
	create(t, context, 100)
	require.NoError(t, persist.Save(context, persist.ToPath(outside), persist.SaveOptions{}, nil))
	require.NoError(t, persist.TrimJournal(context, outside, nil))
	check()
	require.NoError(t, End(context))

	other, err := page.NewContext(hostPages)
	require.NoError(t, err)
	defer func() { _ = page.Destroy(other) }()
	require.NoError(t, persist.Load(other, persist.FromPath(""), persist.LoadOptions{Journal: directory}, nil))
	o := persist.JournalOptions{IntervalMs: 10}
	require.NoError(t, persist.OpenJournal(other, directory, o, nil))
	create(t, other, 100)
	require.NoError(t, persist.Save(other, persist.ToPath(outside), persist.SaveOptions{}, nil))
	check()
}

// A record that is damaged takes away the states that need it, and no others.
func TestANameIsReadWhereRecordsAreDamaged(t *testing.T) {
	directory := t.TempDir()
	o := quiet()
	o.SegmentBytes = 16 << 20
	context := openStore(t, directory, o)
	create(t, context, 100)
	require.NoError(t, SetName(context, "named", nil))
	want := stateOf(t, context)
	create(t, context, 100)
	require.NoError(t, End(context))
	segments, err := filepath.Glob(filepath.Join(directory, "journal-*.mmsbj"))
	require.NoError(t, err)
	require.Len(t, segments, 1)
	content, err := os.ReadFile(segments[0])
	require.NoError(t, err)
	const unit, header = 4096, 1 // the frames of the two records come behind the segment's header
	for frame := range 2 {
		content[unit*(header+frame)+100] ^= 1
		require.NoError(t, os.WriteFile(segments[0], content, 0o600))
		require.Equal(t, want, read(t, directory, store.At{Name: "named"}))
		content[unit*(header+frame)+100] ^= 1
	}
	content[unit*(header+1)+100] ^= 1 // behind the snapshot
	require.NoError(t, os.WriteFile(segments[0], content, 0o600))
	for _, at := range []store.At{{}, {Record: 2}} {
		o.Mode, o.At = abi.StoreRead, at
		_, err = Open(directory, hostPages, o, nil)
		require.Equal(t, status.Corrupt, status.CodeOf(err), "%v", err)
	}
}
