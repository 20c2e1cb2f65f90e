package keeper

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"libmmsb/core/abi"
	"libmmsb/core/page"
	"libmmsb/core/persist"
	"libmmsb/core/status"
	"libmmsb/core/store"
	"libmmsb/core/ticket"
	"libmmsb/native/nativetest"
)

func followStore(t *testing.T, directory string) uint64 {
	t.Helper()
	o := quiet()
	o.Mode = abi.StoreFollow
	return openStore(t, directory, o)
}

func waitWork(context, record uint64) *ticket.Ticket {
	return ticket.Start(0, nil, func(w *ticket.Work) error { return Wait(context, record, w) })
}

func waitFor(t *testing.T, context, record uint64) {
	t.Helper()
	work := waitWork(context, record)
	defer work.Close()
	require.NoError(t, work.Wait(uint64(patience)), "record %d, the follower: %+v", record, infoOf(t, context).Following)
}

// caughtUp waits until a follower has all that calls have changed.
func caughtUp(t *testing.T, writer, follower uint64) {
	t.Helper()
	require.NoError(t, persist.SyncJournal(writer, nil))
	info, err := persist.GetJournalInfo(writer)
	require.NoError(t, err)
	waitFor(t, follower, info.Last)
}

func handleOf(t *testing.T, context, id uint64) (handle uint64) {
	t.Helper()
	require.NoError(t, page.Use(context, func(c *page.Context) (err error) {
		handle, err = c.Lookup(id)
		return err
	}))
	return handle
}

func TestAFollowerKeepsUp(t *testing.T) {
	directory := filepath.Join(t.TempDir(), "store")
	writer := openStore(t, directory, quiet())
	first := create(t, writer, 100)
	follower := followStore(t, directory)
	caughtUp(t, writer, follower)
	seen := handleOf(t, follower, idOf(first))
	require.Zero(t, nativetest.WritePage(first, 10, []byte("written")))
	second := create(t, writer, 1<<20)
	require.Zero(t, nativetest.WritePage(second, 0, []byte("second")))
	caughtUp(t, writer, follower)
	read := make([]byte, 7)
	require.Zero(t, nativetest.ReadPage(seen, 10, read), "the handle stays valid")
	require.Equal(t, "written", string(read))
	require.Equal(t, detailsOf(t, writer, true), detailsOf(t, follower, true))

	require.Equal(t, int32(status.InvalidState), nativetest.WritePage(seen, 0, []byte("x")))
	require.Equal(t, status.InvalidState, status.CodeOf(Save(follower, false, nil)))
	elsewhere := filepath.Join(t.TempDir(), "elsewhere")
	require.NoError(t, persist.Save(follower, persist.ToPath(elsewhere), persist.SaveOptions{}, nil))
	err := persist.Load(follower, persist.FromPath(elsewhere), persist.LoadOptions{}, nil)
	require.Equal(t, status.InvalidState, status.CodeOf(err), "%v", err)
	require.Equal(t, status.InvalidState, status.CodeOf(Wait(writer, 1, nil)))

	info := infoOf(t, follower)
	require.Equal(t, Following{Record: infoOf(t, writer).Journal.Last, AppliedAt: info.Following.AppliedAt}, info.Following)
	require.NoError(t, page.Destroy(follower))
	require.Equal(t, status.StaleHandle, status.CodeOf(Wait(follower, 1, nil)))
}

// A page that is pinned in the follower is not taken away from it; a save waits, and never has half a group.
func TestAFollowerWaitsForPins(t *testing.T) {
	directory := filepath.Join(t.TempDir(), "store")
	writer := openStore(t, directory, quiet())
	kept, other := create(t, writer, 5000), create(t, writer, 100)
	follower := followStore(t, directory)
	caughtUp(t, writer, follower)
	seen := handleOf(t, follower, idOf(kept))
	_, code := nativetest.PinPage(seen, false)
	require.Zero(t, code)
	before := infoOf(t, follower).Following.Record
	grouped(t, writer, func() {
		require.Zero(t, nativetest.WritePage(other, 0, []byte("group")))
		require.Zero(t, nativetest.Destroy(kept))
	})
	require.NoError(t, persist.SyncJournal(writer, nil))
	time.Sleep(50 * time.Millisecond)
	require.Equal(t, before, infoOf(t, follower).Following.Record)
	save := ticket.Start(0, nil, func(w *ticket.Work) error {
		return persist.Save(follower, persist.ToPath(filepath.Join(t.TempDir(), "saved")), persist.SaveOptions{}, w)
	})
	defer save.Close()
	require.Equal(t, status.Timeout, status.CodeOf(save.Wait(uint64(50*time.Millisecond))))
	require.Zero(t, nativetest.UnpinPage(seen, false))
	require.NoError(t, save.Wait(uint64(patience)))
	caughtUp(t, writer, follower)
	require.Equal(t, detailsOf(t, writer, true), detailsOf(t, follower, true))

	// It ends, too, while it waits.
	seen = handleOf(t, follower, idOf(other))
	_, code = nativetest.PinPage(seen, false)
	require.Zero(t, code)
	require.Zero(t, nativetest.Destroy(other))
	require.NoError(t, persist.SyncJournal(writer, nil))
	time.Sleep(50 * time.Millisecond)
	require.NoError(t, page.Destroy(follower))
	require.Zero(t, nativetest.UnpinPage(seen, false))
}

// Who has a group open in a follower sees one state of its writer; what comes is applied behind that.
func TestAGroupInAFollower(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	directory := filepath.Join(t.TempDir(), "store")
	writer := openStore(t, directory, quiet())
	one, two := create(t, writer, 100), create(t, writer, 100)
	follower := followStore(t, directory)
	caughtUp(t, writer, follower)
	require.NoError(t, page.BeginGroup(follower))
	before, had := stateOf(t, follower), infoOf(t, follower).Following.Record
	grouped(t, writer, func() {
		require.Zero(t, nativetest.WritePage(one, 0, []byte("one")))
		require.Zero(t, nativetest.WritePage(two, 0, []byte("two")))
	})
	require.NoError(t, persist.SyncJournal(writer, nil))
	require.Equal(t, status.Busy, status.CodeOf(CheckWait(follower)))
	err := persist.Save(follower, persist.ToPath(filepath.Join(t.TempDir(), "saved")), persist.SaveOptions{}, nil)
	require.Equal(t, status.Busy, status.CodeOf(err), "%v", err)
	time.Sleep(50 * time.Millisecond)
	require.Equal(t, had, infoOf(t, follower).Following.Record)
	require.Equal(t, before, stateOf(t, follower))
	require.NoError(t, page.CommitGroup(follower))
	caughtUp(t, writer, follower)
	require.Equal(t, stateOf(t, writer), stateOf(t, follower))

	// A state that is loaded anew waits, too.
	require.NoError(t, SetName(writer, "from", nil))
	require.NoError(t, page.BeginGroup(follower))
	before = stateOf(t, follower)
	require.NoError(t, page.Destroy(writer))
	o := quiet()
	o.Mode, o.At = abi.StoreBranch, store.At{Name: "from"}
	writer = openStore(t, directory, o)
	create(t, writer, 10)
	require.NoError(t, persist.SyncJournal(writer, nil))
	time.Sleep(50 * time.Millisecond)
	require.Equal(t, before, stateOf(t, follower))
	require.NoError(t, page.RollbackGroup(follower))
	caughtUp(t, writer, follower)
	require.Equal(t, stateOf(t, writer), stateOf(t, follower))
	require.Zero(t, infoOf(t, follower).Following.Failures)

	// It ends with a group open, and with a follower that waits for it.
	require.NoError(t, page.BeginGroup(follower))
	create(t, writer, 10)
	require.NoError(t, persist.SyncJournal(writer, nil))
	time.Sleep(10 * time.Millisecond)
	require.NoError(t, page.Destroy(follower))
}

// Readers of which one always has a group open do not hold a follower back, nor a load.
func TestReadersOfAFollowerLetItGoOn(t *testing.T) {
	directory := filepath.Join(t.TempDir(), "store")
	writer := openStore(t, directory, quiet())
	create(t, writer, 100)
	follower := followStore(t, directory)
	caughtUp(t, writer, follower)
	ended := make(chan struct{})
	var readers sync.WaitGroup
	for range 3 {
		readers.Go(func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			for {
				select {
				case <-ended:
					return
				default:
				}
				assert.NoError(t, page.BeginGroup(follower))
				time.Sleep(time.Millisecond)
				assert.NoError(t, page.CommitGroup(follower))
			}
		})
	}
	defer readers.Wait()
	defer close(ended)
	create(t, writer, 100)
	caughtUp(t, writer, follower)
	require.NoError(t, SetName(writer, "from", nil))
	create(t, writer, 100)
	require.NoError(t, page.Destroy(writer))
	o := quiet()
	o.Mode, o.At = abi.StoreBranch, store.At{Name: "from"}
	writer = openStore(t, directory, o)
	create(t, writer, 10)
	caughtUp(t, writer, follower)
	require.Equal(t, stateOf(t, writer), stateOf(t, follower))
}

// A follower that cannot go on in the middle of a group shows no half of it as a whole: neither to a group nor to a save.
func TestAFollowerThatFailsWithinAGroup(t *testing.T) {
	directory := filepath.Join(t.TempDir(), "store")
	writer := openStore(t, directory, quiet())
	one, pinned := create(t, writer, 100), create(t, writer, 5000)
	o := quiet()
	o.Mode, o.IntervalMs = abi.StoreFollow, 1
	pages := hostPages
	pages.MemoryLimit = 64 << 20
	follower, err := Open(directory, pages, o, nil)
	require.NoError(t, err)
	defer func() { require.NoError(t, page.Destroy(follower)) }()
	caughtUp(t, writer, follower)
	save := func() error {
		return persist.Save(follower, persist.ToPath(filepath.Join(t.TempDir(), "saved")), persist.SaveOptions{}, nil)
	}
	begins := func() error {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		if err := page.BeginGroup(follower); err != nil {
			return err
		}
		return page.CommitGroup(follower)
	}
	require.NoError(t, begins())
	require.NoError(t, save())

	seen := handleOf(t, follower, idOf(pinned))
	_, code := nativetest.PinPage(seen, false)
	require.Zero(t, code)
	grouped(t, writer, func() {
		require.Zero(t, nativetest.WritePage(one, 0, []byte("half")))
		require.Zero(t, nativetest.Destroy(pinned))
	})
	require.NoError(t, persist.SyncJournal(writer, nil))
	stuck := func() bool { return status.CodeOf(begins()) == status.Busy }
	require.Eventually(t, stuck, patience, time.Millisecond, "it waits for the pin")
	require.ErrorContains(t, begins(), "cannot go on")
	require.Zero(t, nativetest.UnpinPage(seen, false))
	caughtUp(t, writer, follower)
	require.NoError(t, begins())

	var large uint64
	grouped(t, writer, func() {
		require.Zero(t, nativetest.WritePage(one, 0, []byte("more")))
		large = create(t, writer, 256<<20)
	})
	require.NoError(t, persist.SyncJournal(writer, nil))
	require.Eventually(t, func() bool { return infoOf(t, follower).Following.Failures > 0 }, patience, time.Millisecond)
	require.Equal(t, status.Busy, status.CodeOf(save()))
	require.Equal(t, status.Busy, status.CodeOf(begins()))
	require.Zero(t, nativetest.Destroy(large))
	require.NoError(t, Save(writer, true, nil))
	caughtUp(t, writer, follower)
	require.Equal(t, stateOf(t, writer), stateOf(t, follower))
	require.NoError(t, begins())
	require.NoError(t, save())
}

// grouped runs work in a group.
func grouped(t *testing.T, context uint64, work func()) {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	require.NoError(t, page.BeginGroup(context))
	work()
	require.NoError(t, page.CommitGroup(context))
}

// A record that no segment has for a long time is in the replica nevertheless, and so is what a writer has left that ends without
// a word.
func TestAFollowerReadsTheRing(t *testing.T) {
	directory := filepath.Join(t.TempDir(), "store")
	o := quiet()
	o.IntervalMs = 1 << 30
	writer := openStore(t, directory, o)
	page := create(t, writer, 100)
	require.NoError(t, persist.SyncJournal(writer, nil))
	follower := followStore(t, directory)
	for counter := range byte(20) {
		require.Zero(t, nativetest.WritePage(page, 10, []byte{counter}))
		info, err := persist.GetJournalInfo(writer)
		require.NoError(t, err)
		waitFor(t, follower, info.Last)
		read := []byte{0}
		require.Zero(t, nativetest.ReadPage(handleOf(t, follower, idOf(page)), 10, read))
		require.Equal(t, counter, read[0])
	}
	late := followStore(t, directory) // it finds the place of a record in the middle
	info, err := persist.GetJournalInfo(writer)
	require.NoError(t, err)
	require.Less(t, info.Synced, info.Last)
	waitFor(t, late, info.Last)
	require.Equal(t, detailsOf(t, writer, true), detailsOf(t, late, true))
}

// What was removed before a follower has read it comes with a load.
func TestAFollowerThatComesTooLate(t *testing.T) {
	directory := filepath.Join(t.TempDir(), "store")
	o := quiet()
	o.SegmentBytes = 4096
	writer := openStore(t, directory, o)
	kept, other := create(t, writer, 100), create(t, writer, 100)
	follower := followStore(t, directory)
	caughtUp(t, writer, follower)
	seen := handleOf(t, follower, idOf(kept))
	_, code := nativetest.PinPage(seen, false)
	require.Zero(t, code)
	require.Zero(t, nativetest.Destroy(kept))
	for range 10 {
		require.Zero(t, nativetest.WritePage(other, 0, []byte("more")))
		require.NoError(t, persist.SyncJournal(writer, nil))
		require.NoError(t, Save(writer, true, nil))
	}
	require.Zero(t, nativetest.UnpinPage(seen, false))
	caughtUp(t, writer, follower)
	require.Equal(t, uint64(1), infoOf(t, follower).Following.Reloads)
	version := func(id uint64) (version uint64) {
		require.NoError(t, page.Read(handleOf(t, follower, id), func(p *page.Page) error {
			version = p.Record.Version
			return nil
		}))
		return version
	}
	had := version(idOf(other))
	require.Zero(t, nativetest.WritePage(other, 0, []byte("later")))
	made := create(t, writer, 10)
	require.Zero(t, nativetest.WritePage(made, 0, []byte("new")))
	caughtUp(t, writer, follower)
	require.Equal(t, stateOf(t, writer), stateOf(t, follower))
	require.Equal(t, had+1, version(idOf(other)))
	require.Greater(t, version(idOf(made)), had, "a version of the writer's may have been another state here")
}

// TestRandomFollowers runs programs of a writer beside followers, which have its state when they have its last record.
func TestRandomFollowers(t *testing.T) {
	for number := *from; number < *from+*programs; number++ {
		t.Run(fmt.Sprint(number), func(t *testing.T) {
			folder, err := os.MkdirTemp(inMemory(), "mmsb-follow-")
			require.NoError(t, err)
			defer func() { _ = os.RemoveAll(folder) }()
			p := &following{changer: newChanger(t, number, 15), folder: folder,
				directory: filepath.Join(folder, "store"), states: map[string]bool{}}
			p.changed = p.note
			p.run()
		})
	}
}

// following is a writer and its followers.
type following struct {
	changer
	folder    string
	directory string
	followers []uint64
	states    map[string]bool // that the writer had between its calls
	saves     int
}

func (p *following) run() {
	p.open(abi.StoreWrite, store.At{})
	p.change()
	p.follow()
	for range 20 + p.IntN(80) {
		p.step()
	}
	p.check()
}

func (p *following) open(mode int32, at store.At) {
	o := quiet()
	o.Mode, o.At = mode, at
	o.SegmentBytes = 4096 << p.IntN(5)
	o.Durability = int32(p.IntN(3))
	o.IntervalMs = 1
	o.Retention.Last = 1 + p.IntN(3)
	p.context = openStore(p.T, p.directory, o)
	if p.IntN(3) == 0 {
		p.hideRing()
	}
	p.goesOnWith(p.context)
	p.note()
}

// hideRing lets followers that come read the segments alone.
func (p *following) hideRing() {
	f, err := os.OpenFile(filepath.Join(p.directory, "journal.ring"), os.O_WRONLY, 0)
	require.NoError(p, err)
	defer func() { require.NoError(p, f.Close()) }()
	_, err = f.WriteAt(make([]byte, 16), 80)
	require.NoError(p, err)
}

func digest(state pages) string {
	text := ""
	for _, id := range slices.Sorted(maps.Keys(state)) {
		text += fmt.Sprintln(id, state[id])
	}
	return text
}

func (p *following) note() { p.states[digest(stateOf(p.T, p.context))] = true }

func (p *following) follow() {
	o := quiet()
	o.Mode, o.IntervalMs = abi.StoreFollow, 1
	o.Lazy = p.IntN(2) == 0
	require.NoError(p, persist.SyncJournal(p.context, nil))
	p.followers = append(p.followers, openStore(p.T, p.directory, o))
}

func (p *following) step() {
	switch p.IntN(24) {
	case 0:
		require.NoError(p, Save(p.context, p.IntN(3) == 0, nil))
	case 1:
		p.check()
	case 2:
		if len(p.followers) < 3 {
			p.follow()
		} else {
			require.NoError(p, page.Destroy(p.followers[0]))
			p.followers = p.followers[1:]
		}
	case 3:
		require.NoError(p, page.Destroy(p.context))
		p.open(abi.StoreWrite, store.At{})
	case 4:
		p.branch()
	case 5:
		p.killed()
	case 6:
		p.saveOfFollower()
	case 7, 8:
		p.group()
	case 9:
		p.groupOfFollower()
	default:
		p.change()
	}
}

// check compares all followers with the writer. Without a sync they wait for the ring, or the next write to the segments.
func (p *following) check() {
	for _, follower := range p.followers {
		if p.IntN(2) == 0 {
			caughtUp(p.T, p.context, follower)
		} else {
			info, err := persist.GetJournalInfo(p.context)
			require.NoError(p, err)
			waitFor(p.T, follower, info.Last)
		}
		versions := infoOf(p.T, follower).Following.Reloads == 0
		require.Equal(p, detailsOf(p.T, p.context, versions), detailsOf(p.T, follower, versions))
		require.Zero(p, infoOf(p.T, follower).Following.Failures)
	}
}

// branch leaves the newest states; the followers leave them, too.
func (p *following) branch() {
	p.check()
	require.NoError(p, SetName(p.context, "from", nil))
	from := stateOf(p.T, p.context)
	for range p.IntN(4) {
		p.change()
	}
	require.NoError(p, page.Destroy(p.context))
	p.open(abi.StoreBranch, store.At{Name: "from"})
	require.Equal(p, from, stateOf(p.T, p.context))
	p.check()
}

// killed goes on in a copy of the directory as a process leaves it that was killed. Followers find what it had acknowledged, and
// what the next writer does.
func (p *following) killed() {
	p.check() // they end with what the writer lives in
	q := &program{changer: p.changer, folder: p.folder, directory: p.directory, copies: p.saves + 1000}
	p.saves++
	copied := q.killed()
	state := detailsOf(p.T, p.context, true)
	for _, context := range append(p.followers, p.context) {
		require.NoError(p, page.Destroy(context))
	}
	p.directory, p.followers = copied, nil
	follower := followStore(p.T, p.directory)
	require.Equal(p, state, detailsOf(p.T, follower, true))
	p.followers = []uint64{follower}
	p.open(abi.StoreWrite, store.At{})
	p.check()
}

// saveOfFollower compares what a follower saves with the states that the writer had between its calls.
func (p *following) saveOfFollower() {
	if len(p.followers) == 0 {
		return
	}
	follower := p.followers[p.IntN(len(p.followers))]
	path := filepath.Join(p.folder, fmt.Sprint("saved-", p.saves))
	p.saves++
	saved := make(chan error, 1)
	go func() { saved <- persist.Save(follower, persist.ToPath(path), persist.SaveOptions{Queue: true}, nil) }()
	for range 5 {
		p.change()
	}
	require.NoError(p, <-saved)
	context, err := page.NewContext(hostPages)
	require.NoError(p, err)
	defer func() { require.NoError(p, page.Destroy(context)) }()
	require.NoError(p, persist.Load(context, persist.FromPath(path), persist.LoadOptions{}, nil))
	require.True(p, p.states[digest(stateOf(p.T, context))], "it is no state that the writer had")
}

// groupOfFollower reads a follower twice within a group: both times the same state that the writer had between its calls.
func (p *following) groupOfFollower() {
	if len(p.followers) == 0 {
		return
	}
	follower := p.followers[p.IntN(len(p.followers))]
	read := make(chan [2]string, 1)
	go func() {
		defer close(read)
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		if status.CodeOf(page.BeginGroup(follower)) == status.Busy { // it waits for a page that the program has pinned
			return
		}
		first := digest(stateOf(p.T, follower))
		time.Sleep(time.Millisecond)
		read <- [2]string{first, digest(stateOf(p.T, follower))}
		assert.NoError(p, page.CommitGroup(follower))
	}()
	for range 5 {
		p.change()
	}
	if states, ok := <-read; ok {
		require.Equal(p, states[0], states[1])
		require.True(p, p.states[states[0]], "it is no state that the writer had")
	}
}
