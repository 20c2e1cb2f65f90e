package persist

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"libmmsb/core/file/filetest"
	"libmmsb/core/journal"
	"libmmsb/core/page"
	"libmmsb/core/snapshot"
	"libmmsb/core/status"
	"libmmsb/core/ticket"
	"libmmsb/native"
	"libmmsb/native/nativetest"
)

func openJournal(t *testing.T, context uint64, directory string) {
	t.Helper()
	require.NoError(t, OpenJournal(context, directory, JournalOptions{IntervalMs: 1}, nil))
}

// replayed is a new context that has what a snapshot and a journal say.
func replayed(t *testing.T, path, directory string, o LoadOptions) uint64 {
	t.Helper()
	context := newContext(t)
	o.Journal = directory
	require.NoError(t, Load(context, FromPath(path), o, nil))
	return context
}

func TestASnapshotAndTheJournalGiveTheLastState(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	random := rand.New(rand.NewPCG(3, 4))
	folder := t.TempDir()
	directory, path := filepath.Join(folder, "journal"), filepath.Join(folder, "state.mmsb")
	context := newContext(t)
	openJournal(t, context, directory)
	live := make(map[uint64]uint64)
	next := uint64(1)
	pick := func() (uint64, uint64) {
		for id, handle := range live {
			return id, handle
		}
		return 0, 0
	}
	steps := part(3000)
	for step := range steps {
		id, handle := pick()
		switch random.IntN(10) {
		case 0, 1:
			size := sizes[random.IntN(len(sizes))]
			live[next] = createFilled(t, context, size, next, byte(random.Uint32()))
			next++
		case 2:
			if id != 0 {
				require.Zero(t, nativetest.Destroy(handle))
				delete(live, id)
			}
		case 3:
			if id != 0 {
				require.NoError(t, page.Resize(handle, sizes[random.IntN(len(sizes))]))
			}
		case 4:
			if id != 0 {
				require.NoError(t, page.SetMetadata(handle, []byte(fmt.Sprint("key", random.IntN(3))), []byte(fmt.Sprint(step))))
			}
		case 5:
			if id != 0 && len(live) < 60 {
				clone, err := page.Clone(handle, next)
				require.NoError(t, err)
				live[next] = clone
				next++
			}
		case 6:
			if id != 0 && random.IntN(4) == 0 {
				code := page.RemoveMetadata(handle, []byte("key0"))
				require.Contains(t, []status.Code{0, status.NotFound}, status.CodeOf(code))
			}
		default:
			if id != 0 {
				size := native.RecordAt(native.Index(handle)).Size
				offset := random.Uint64N(size)
				write(t, handle, offset, make([]byte, random.Uint64N(min(size-offset, 300))+1))
			}
		}
		if len(live) > 60 {
			require.Zero(t, nativetest.Destroy(handle))
			delete(live, id)
		}
		if step == steps/3 {
			require.NoError(t, Save(context, ToPath(path), SaveOptions{}, nil))
		}
		if step == steps/2 {
			require.NoError(t, CloseJournal(context))
			loaded := replayed(t, path, directory, LoadOptions{})
			require.Equal(t, contents(t, context), contents(t, loaded))
			openJournal(t, loaded, directory) // and goes on there
			require.NoError(t, page.Destroy(context))
			context = loaded
			require.NoError(t, page.Use(context, func(c *page.Context) (err error) {
				for id := range live {
					if live[id], err = c.Lookup(id); err != nil {
						return err
					}
				}
				return nil
			}))
		}
	}
	require.NoError(t, SyncJournal(context, nil))
	loaded := replayed(t, path, directory, LoadOptions{})
	require.Equal(t, contents(t, context), contents(t, loaded))
	require.NoError(t, page.Use(loaded, func(c *page.Context) error {
		for id, handle := range live {
			other, err := c.Lookup(id)
			require.NoError(t, err)
			a, b := native.RecordAt(native.Index(handle)), native.RecordAt(native.Index(other))
			require.Equal(t, a.Version, b.Version, id)
			require.Equal(t, a.Epoch, b.Epoch, id)
			require.Equal(t, metadataOf(t, handle), metadataOf(t, other), id)
		}
		return nil
	}))
}

func TestAJournalIsReplayedUpToARecord(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	directory := filepath.Join(t.TempDir(), "journal")
	context := newContext(t)
	openJournal(t, context, directory)
	handle := createFilled(t, context, 8, 5, 0) // records 1 and 2
	for n := range byte(10) {
		write(t, handle, 0, []byte{n + 1})
	}
	require.NoError(t, CloseJournal(context))
	for until, expected := range map[uint64]byte{3: 1, 7: 5, 12: 10, 100: 10} {
		loaded := replayed(t, "", directory, LoadOptions{JournalUntil: until})
		require.Equal(t, expected, contents(t, loaded)[5][0], "until %d", until)
	}
	loaded := replayed(t, "", directory, LoadOptions{JournalUntil: 7})
	openJournal(t, loaded, directory) // a branch
	require.NoError(t, page.Use(loaded, func(c *page.Context) (err error) {
		handle, err = c.Lookup(5)
		return err
	}))
	write(t, handle, 1, []byte{99})
	require.NoError(t, CloseJournal(loaded))
	require.Equal(t, contents(t, loaded), contents(t, replayed(t, "", directory, LoadOptions{})))
	require.Equal(t, byte(5), contents(t, loaded)[5][0])
	refusesJournal(t, context, directory)
}

func TestAJournalsInfoWaitsForNothing(t *testing.T) {
	directory := filepath.Join(t.TempDir(), "journal")
	context := newContext(t)
	_, err := GetJournalInfo(context)
	require.Equal(t, status.InvalidState, status.CodeOf(err))
	openJournal(t, context, directory)
	createFilled(t, context, 8, 5, 0)
	require.NoError(t, SyncJournal(context, nil))
	before, err := GetJournalInfo(context)
	require.NoError(t, err)
	require.Equal(t, JournalInfo{Segments: 1, First: 1, Last: 2, Synced: 2, Bytes: before.Bytes}, before)
	files, err := os.ReadDir(directory)
	require.NoError(t, err)
	onDisk := uint64(0)
	for _, entry := range files {
		info, err := entry.Info()
		require.NoError(t, err)
		if !strings.HasPrefix(entry.Name(), "journal-") { // the lock and the ring
			continue
		}
		onDisk += uint64(info.Size())
	}
	require.Equal(t, onDisk, before.Bytes)

	// Neither for the files, nor for a call that holds the journal while it works on them.
	require.NoError(t, os.RemoveAll(directory))
	told := make(chan JournalInfo)
	require.NoError(t, onJournal(context, nil, func(*state, *openedJournal) error {
		go func() {
			info, _ := GetJournalInfo(context)
			told <- info
		}()
		select {
		case info := <-told:
			require.Equal(t, before, info)
		case <-time.After(5 * time.Minute):
			t.Error("the call waits")
			go func() { <-told }()
		}
		return nil
	}))
	require.NoError(t, CloseJournal(context))
	_, err = GetJournalInfo(context)
	require.Equal(t, status.InvalidState, status.CodeOf(err))
}

// A disk that is slower than the writers: Wrote holds the journal's writer, and who writes more than a ring takes waits.
func TestAJournalCountsTheCallsThatWaitForTheDisk(t *testing.T) {
	context := newContext(t)
	hold, held, first := make(chan struct{}), make(chan struct{}), sync.Once{}
	o := JournalOptions{IntervalMs: 1, Wrote: func(int64) {
		first.Do(func() { close(held) })
		<-hold
	}}
	require.NoError(t, OpenJournal(context, filepath.Join(t.TempDir(), "slow"), o, nil))
	createFilled(t, context, 8, 5, 0)
	<-held
	wrote := make(chan error)
	go func() {
		wrote <- page.Use(context, func(c *page.Context) (err error) {
			for range 3 * RingBytes / 64 { // more than both buffers take
				if err == nil {
					_, err = c.Create(64, plain)
				}
			}
			return err
		})
	}()
	const slept = 100 * time.Millisecond
	ring, last := stateOf(t, context).journals.open.Load().ring, uint64(0)
	for last == 0 || last != ring.Last() { // until who writes sleeps
		last = ring.Last()
		time.Sleep(slept)
	}
	close(hold)
	require.NoError(t, <-wrote)
	info, err := GetJournalInfo(context)
	require.NoError(t, err)
	require.NotZero(t, info.Waits.Count)
	require.Greater(t, info.Waits.Waited, slept/2)
	require.Zero(t, info.Waits.SpaceWaited)
	require.NoError(t, CloseJournal(context))

	openJournal(t, context, filepath.Join(t.TempDir(), "other"))
	info, err = GetJournalInfo(context)
	require.NoError(t, err)
	require.Zero(t, info.Waits)
}

func TestSnapshotsOfAJournalledContextUnderLoad(t *testing.T) {
	folder := t.TempDir()
	directory := filepath.Join(folder, "journal")
	context := newContext(t)
	openJournal(t, context, directory)
	var handles []uint64
	for i := range 50 {
		handles = append(handles, createFilled(t, context, sizes[i%len(sizes)], uint64(i+1), byte(i)))
	}
	stop := make(chan struct{})
	var group sync.WaitGroup
	for worker := range 2 {
		group.Add(1)
		go func() {
			defer group.Done()
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			random := rand.New(rand.NewPCG(uint64(worker), 1))
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				handle := handles[random.IntN(len(handles))]
				size := native.RecordAt(native.Index(handle)).Size
				nativetest.WritePage(handle, random.Uint64N(size), []byte{byte(n)})
			}
		}()
	}
	path := filepath.Join(folder, "state.mmsb")
	for range 5 {
		require.NoError(t, Save(context, ToPath(path), SaveOptions{}, nil))
	}
	close(stop)
	group.Wait()
	require.NoError(t, SyncJournal(context, nil))
	require.Equal(t, contents(t, context), contents(t, replayed(t, path, directory, LoadOptions{})))
}

// Who stands by loads the directory while its writer saves, and drops what the saves make unnecessary.
func TestADirectoryIsLoadedBesideItsWriter(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	folder := t.TempDir()
	directory := filepath.Join(folder, "journal")
	context := newContext(t)
	require.NoError(t, OpenJournal(context, directory, JournalOptions{SegmentBytes: 4096, IntervalMs: 1}, nil))
	handle := createFilled(t, context, 5000, 1, 1)
	var loads sync.WaitGroup
	stop := make(chan struct{})
	defer loads.Wait()
	defer close(stop)
	loads.Add(1)
	failed := make(chan error, 1)
	go func() {
		defer loads.Done()
		for {
			select {
			case <-stop:
				return
			default:
			}
			loaded := newContext(t)
			if err := Load(loaded, FromPath(""), LoadOptions{Journal: directory}, nil); err != nil {
				failed <- err
				return
			}
		}
	}()
	for n := range part(400) {
		nativetest.WritePage(handle, uint64(n), []byte{byte(n)})
		require.NoError(t, SyncJournal(context, nil))
		if n%4 == 0 {
			path := filepath.Join(folder, fmt.Sprintf("state-%d.mmsb", n%8))
			require.NoError(t, Save(context, ToPath(path), SaveOptions{}, nil))
		}
		select {
		case err := <-failed:
			require.NoError(t, err, "after %d writes", n)
		default:
		}
	}
}

// What is put while a journal is being closed is in it, and the context knows: it may go on with the same directory.
func TestAJournalIsClosedBesideWriters(t *testing.T) {
	directory := filepath.Join(t.TempDir(), "journal")
	context := newContext(t)
	handle := createFilled(t, context, 64, 1, 0)
	stop := make(chan struct{})
	var group sync.WaitGroup
	group.Add(1)
	go func() {
		defer group.Done()
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		for n := 0; ; n++ {
			select {
			case <-stop:
				return
			default:
				nativetest.WritePage(handle, 0, []byte{byte(n)})
			}
		}
	}()
	for range 10 {
		openJournal(t, context, directory)
		require.NoError(t, CloseJournal(context))
	}
	close(stop)
	group.Wait()
}

// A journal that is cancelled when its base is there already has begun, or was never there: the state leads to it either way,
// also after many of these.
func TestJournalsThatAreCancelledWithTheirBase(t *testing.T) {
	onOneThread(t)
	directory := filepath.Join(t.TempDir(), "journal")
	context := newContext(t)
	openJournal(t, context, directory)
	require.NoError(t, CloseJournal(context))
	begun := 0
	for turn := range uint64(60) {
		createFilled(t, context, 5000, turn+1, 'a')
		before := names(t, directory)
		work := ticket.Start(0, nil, func(w *ticket.Work) error {
			return OpenJournal(context, directory, JournalOptions{IntervalMs: 1}, w)
		})
		for !work.Poll() && !slices.ContainsFunc(names(t, directory), func(name string) bool {
			return strings.HasPrefix(name, "base-") && !slices.Contains(before, name)
		}) {
		}
		work.Cancel()
		switch err := work.Wait(ticket.Forever); status.CodeOf(err) {
		case status.OK:
			begun++
			require.NoError(t, CloseJournal(context))
		default:
			require.Equal(t, status.Cancelled, status.CodeOf(err), "turn %d: %v", turn, err)
		}
		work.Close()
	}
	t.Logf("%d of 60 had begun", begun)
	openJournal(t, context, directory)
	require.NoError(t, CloseJournal(context))
}

// A journal that is cancelled while its base is saved was never there: not in the directory, and not in the state's history.
func TestACancelledJournalLeavesNothing(t *testing.T) {
	onOneThread(t)
	folder := t.TempDir()
	directory := filepath.Join(folder, "journal")
	context := newContext(t)
	cancelled := func() {
		t.Helper()
		before := names(t, folder)
		running, cancelled := make(chan struct{}), make(chan struct{})
		work := ticket.Start(0, nil, func(w *ticket.Work) error {
			close(running)
			<-cancelled
			return OpenJournal(context, directory, JournalOptions{IntervalMs: 1}, w)
		})
		<-running
		work.Cancel()
		close(cancelled)
		require.Equal(t, status.Cancelled, code(work.Wait(ticket.Forever)))
		work.Close()
		require.Equal(t, before, names(t, folder))
	}
	openJournal(t, context, directory)
	require.NoError(t, CloseJournal(context))
	var files []string
	for turn := range uint64(3) {
		createFilled(t, context, 5000, turn+1, 'a')
		files = names(t, directory)
		cancelled()
		require.Equal(t, files, names(t, directory))
	}
	openJournal(t, context, directory) // nobody else has gone on with it
	createFilled(t, context, 5000, 9, 'b')
	require.NoError(t, CloseJournal(context))
	require.Equal(t, contents(t, context), contents(t, replayed(t, "", directory, LoadOptions{})))

	directory = filepath.Join(folder, "next")
	createFilled(t, context, 5000, 10, 'c')
	cancelled()
	openJournal(t, context, directory)
	require.NoError(t, CloseJournal(context))
	require.Equal(t, contents(t, context), contents(t, replayed(t, "", directory, LoadOptions{})))
}

// A journal that has failed keeps nobody from saving: such a snapshot has a name that is not the journal's, whose records may end
// before it.
func TestAFailedJournalDoesNotHinderSaves(t *testing.T) {
	onOneThread(t)
	folder := t.TempDir()
	directory := filepath.Join(folder, "journal")
	context := newContext(t)
	handle := createFilled(t, context, 64, 1, 'a')
	path := func(name string) string { return filepath.Join(folder, name) }
	save := func(name, base string) snapshot.Info {
		t.Helper()
		options := SaveOptions{}
		if base != "" {
			options.Base = path(base)
		}
		require.NoError(t, Save(context, ToPath(path(name)), options, nil))
		info, err := snapshot.Verify(path(name), snapshot.VerifyOptions{})
		require.NoError(t, err)
		require.Equal(t, contents(t, context), contents(t, replayed(t, path(name), "", LoadOptions{})))
		return info
	}
	openJournal(t, context, directory)
	journalled := save("journalled", "")
	restore := filetest.Full(t, 256<<10)
	var failed error
	for failed == nil {
		require.Zero(t, nativetest.WritePage(handle, 0, []byte{'b'}))
		failed = SyncJournal(context, nil)
	}
	require.Equal(t, status.NoSpace, code(failed))
	require.NotZero(t, nativetest.WritePage(handle, 0, []byte{'c'}))

	line := save("first", "")
	require.NotEqual(t, journalled.Lineage.ID, line.Lineage.ID)
	require.Equal(t, line.Lineage, save("second", "first").Lineage)
	restore()
	require.Error(t, CloseJournal(context))
	require.Equal(t, line.Lineage, save("third", "second").Lineage, "the same history goes on")
	replayed(t, "", directory, LoadOptions{})
	openJournal(t, context, directory)
	require.Zero(t, nativetest.WritePage(handle, 0, []byte{'d'}))
	require.NoError(t, CloseJournal(context))
	require.Equal(t, contents(t, context), contents(t, replayed(t, "", directory, LoadOptions{})))
}

// A context that ends tells of changes that are neither in its journal, which has failed, nor in a file that was saved since.
func TestTheEndOfAContextWithAFailedJournal(t *testing.T) {
	for _, after := range []struct {
		what  string
		does  func(context uint64, folder string) error
		tells bool
	}{
		{"nothing", func(uint64, string) error { return nil }, true},
		{"a save", func(context uint64, folder string) error {
			return Save(context, ToPath(filepath.Join(folder, "saved")), SaveOptions{}, nil)
		}, false},
		{"one that need not last", func(context uint64, folder string) error {
			return Save(context, ToPath(filepath.Join(folder, "saved")), SaveOptions{NotDurable: true}, nil)
		}, true},
		{"a closed journal", func(context uint64, _ string) error {
			require.Equal(t, status.NoSpace, code(CloseJournal(context)), "it tells")
			return nil
		}, false},
		{"a journal that goes on", func(context uint64, folder string) error {
			_ = CloseJournal(context)
			return OpenJournal(context, filepath.Join(folder, "another"), JournalOptions{IntervalMs: 1}, nil)
		}, false},
	} {
		onOneThread(t)
		folder := t.TempDir()
		context := newContext(t)
		handle := createFilled(t, context, 64, 1, 'a')
		require.NoError(t, Save(context, ToPath(filepath.Join(folder, "before")), SaveOptions{}, nil))
		openJournal(t, context, filepath.Join(folder, "journal"))
		restore := filetest.Full(t, 4096)
		require.Zero(t, nativetest.WritePage(handle, 0, []byte{'b'}))
		require.Equal(t, status.NoSpace, code(SyncJournal(context, nil)))
		restore()
		require.NoError(t, after.does(context, folder), after.what)
		if after.tells {
			require.Equal(t, status.NoSpace, code(page.Destroy(context)), after.what)
		} else {
			require.NoError(t, page.Destroy(context), after.what)
		}
	}
}

// A save takes its moment when it wants: the journal may then have only the first pieces of a large change.
func TestAMomentBetweenThePiecesOfAChange(t *testing.T) {
	const size, changes = 1 << 20, 12 // each of several buffers of the ring
	folder := t.TempDir()
	directory := filepath.Join(folder, "journal")
	context := newContext(t)
	require.NoError(t, OpenJournal(context, directory, JournalOptions{IntervalMs: 1, Keep: true}, nil))
	handle := createFilled(t, context, size, 1, 0)
	payload, changed := bytes.Repeat([]byte{0xff}, size), make(chan struct{}) // a piece of it is no body
	go func() {
		defer close(changed)
		for i := range changes {
			payload[size-1] = byte(i)
			write(t, handle, 0, payload)
		}
	}()
	var paths []string
	for going := true; going && len(paths) < 2*changes; {
		paths = append(paths, filepath.Join(folder, fmt.Sprint(len(paths))))
		require.NoError(t, Save(context, ToPath(paths[len(paths)-1]), SaveOptions{NotDurable: true}, nil))
		select {
		case <-changed:
			going = false
		default:
		}
	}
	<-changed
	require.NoError(t, CloseJournal(context))
	for _, path := range paths {
		loaded := replayed(t, path, directory, LoadOptions{})
		require.NoError(t, page.Use(loaded, func(c *page.Context) error {
			found, err := c.Lookup(1)
			require.NoError(t, err)
			require.True(t, bytes.Equal(payload, content(t, found)), path)
			return nil
		}))
		require.NoError(t, page.Destroy(loaded))
	}
}

// A call that began to change a page before the moment of a save, and puts its record behind it: the snapshot has the change, and
// says so.
func TestASnapshotNamesTheStepOfAChangeThatHadBegun(t *testing.T) {
	context := newContext(t)
	openJournal(t, context, filepath.Join(t.TempDir(), "journal"))
	var handle uint64
	require.NoError(t, page.Use(context, func(c *page.Context) error {
		handle = create(t, c, 100)
		return nil
	}))
	path := filepath.Join(t.TempDir(), "saved")
	saved := make(chan error, 1)
	var step uint64
	require.NoError(t, page.ChangeAgain(handle, func(p *page.Page) error {
		go func() { saved <- Save(context, ToPath(path), SaveOptions{}, nil) }()
		time.Sleep(200 * time.Millisecond) // the save has had its moment, and waits for the page
		ring, ok := native.RingOf(stateOf(t, context).context.Index())
		require.True(t, ok)
		var code int32
		step, code = ring.Append(native.Head{Kind: uint8(journal.Write), Page: page.IDOf(p.Index), Version: p.Record.Version + 1},
			make([]byte, 8), []byte("late"))
		require.Zero(t, code)
		p.Record.Version++
		return p.WithBytes(func() error {
			copy(p.Bytes(), "late")
			return nil
		})
	}))
	require.NoError(t, <-saved)
	opened, err := snapshot.Open(path, snapshot.OpenOptions{})
	require.NoError(t, err)
	defer func() { require.NoError(t, opened.Close()) }()
	header := opened.Header()
	require.Less(t, header.Position, step)
	require.Equal(t, step, header.Latest)
}
