package keeper

import (
	"bytes"
	"os"
	"reflect"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"libmmsb/core/abi"
	"libmmsb/core/page"
	"libmmsb/core/status"
	"libmmsb/core/store"
	"libmmsb/native"
	"libmmsb/native/nativetest"
)

// saving is a keeper that would save of its own accord, but has no reason to.
func saving() Options {
	o := quiet()
	o.SaveBytes = 1 << 40
	return o
}

// poke fills a page's bytes as a program does through a pointer: no call of the library knows.
func poke(t *testing.T, handle uint64, value byte) {
	t.Helper()
	require.NoError(t, page.Read(handle, func(p *page.Page) error {
		p.Record.Exposed = native.ExposedForGood // as mmsb_page_address does
		copy(p.Bytes(), bytes.Repeat([]byte{value}, len(p.Bytes())))
		return nil
	}))
}

// inGroup runs what a thread does while it has a group open.
func inGroup(t *testing.T, context uint64, run func()) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	require.NoError(t, page.BeginGroup(context))
	run()
	_ = page.CommitGroup(context)
}

// saves is how many saves a store has had since it was opened.
func saves(t *testing.T, context uint64) uint64 { return infoOf(t, context).Saves }

// idsOf are the ids of pages.
func idsOf(t *testing.T, handles ...uint64) (ids []uint64) {
	for _, handle := range handles {
		require.NoError(t, page.Read(handle, func(p *page.Page) error { ids = append(ids, p.ID()); return nil }))
	}
	return ids
}

func TestWhatWasWrittenThroughPointersIsSavedAtTheEnd(t *testing.T) {
	directory := t.TempDir()
	for _, size := range []uint64{64, 4096, native.ChunkBytes, 5 * native.ChunkBytes} {
		context := openStore(t, directory, saving())
		poke(t, create(t, context, size), 7)
		want := stateOf(t, context)
		require.NoError(t, End(context))
		context = openStore(t, directory, saving())
		require.Equal(t, want, stateOf(t, context), "a page of %d bytes", size)
		require.NoError(t, End(context))
	}
}

func TestAnEndSavesNothingThatIsKnown(t *testing.T) {
	directory := t.TempDir()
	context := openStore(t, directory, saving())
	ids := idsOf(t, create(t, context, 100), create(t, context, 2*native.ChunkBytes))
	require.NoError(t, End(context))
	context = openStore(t, directory, saving())
	require.Zero(t, infoOf(t, context).Snapshots, "no pointer was given out")

	small, large := handleOf(t, context, ids[0]), handleOf(t, context, ids[1])
	poke(t, small, 1)
	poke(t, large, 1)
	k, err := keeperOf(context)
	require.NoError(t, err)
	require.NoError(t, k.saveIf(k.changed)(nil))
	require.EqualValues(t, 1, saves(t, context))
	for range 3 { // the pages may have changed, but have not
		require.NoError(t, k.saveIf(k.changed)(nil))
		require.EqualValues(t, 1, saves(t, context))
	}
	for i, handle := range []uint64{small, large} { // and it still sees when they do
		poke(t, handle, 2)
		require.NoError(t, k.saveIf(k.changed)(nil))
		require.EqualValues(t, 2+i, saves(t, context))
	}
	require.NoError(t, Save(context, false, nil))
	require.EqualValues(t, 4, saves(t, context), "a program that asks gets a snapshot")
	want := stateOf(t, context)
	require.NoError(t, End(context))
	require.Equal(t, want, read(t, directory, store.At{}))
}

func TestAnIntervalSavesWhatWasWrittenThroughPointers(t *testing.T) {
	directory := t.TempDir()
	o := quiet()
	o.SaveInterval = uint64(time.Millisecond)
	context := openStore(t, directory, o)
	handle := create(t, context, 3*native.ChunkBytes)
	require.Eventually(t, func() bool { return saves(t, context) > 0 }, patience, time.Millisecond)
	poke(t, handle, 9)
	want := stateOf(t, context)
	require.Eventually(t, func() bool { return reflect.DeepEqual(want, read(t, directory, store.At{})) }, patience,
		5*time.Millisecond)
	require.Eventually(t, func() bool { // all is saved by now: what follows are saves of nothing
		before := saves(t, context)
		time.Sleep(20 * time.Millisecond)
		return saves(t, context) == before
	}, patience, time.Millisecond)
}

// A disk that has failed otherwise than by being full may fail again: a keeper does not go on with it by itself.
func TestAnIntervalSavesNothingOnADiskThatHasFailed(t *testing.T) {
	o := quiet()
	o.SaveInterval = uint64(time.Millisecond)
	context := openStore(t, t.TempDir(), o)
	k, err := keeperOf(context)
	require.NoError(t, err)
	k.journalFailed(status.Errorf(status.IO, "the disk has failed"))
	time.Sleep(20 * time.Millisecond) // a save that had begun before
	poke(t, create(t, context, 100), 9)
	before := saves(t, context)
	time.Sleep(50 * time.Millisecond)
	require.Equal(t, before, saves(t, context))
	k.failed.Store(nil)
	require.Eventually(t, func() bool { return saves(t, context) > before }, patience, time.Millisecond)
}

func TestAKeeperThatNeverSavesDoesNotAtTheEnd(t *testing.T) {
	directory := t.TempDir()
	context := openStore(t, directory, quiet())
	handle := create(t, context, 100)
	before := stateOf(t, context)
	poke(t, handle, 7)
	require.NoError(t, End(context))
	require.Equal(t, before, read(t, directory, store.At{}))
}

func TestAnEndThatCannotSaveEndsAllTheSame(t *testing.T) {
	directory := t.TempDir()
	context := openStore(t, directory, saving())
	poke(t, create(t, context, 100), 7)
	require.NoError(t, os.RemoveAll(directory))
	err := End(context)
	require.ErrorContains(t, err,
		"the store was closed without a save, bytes written through pointers since the last one are lost: ")
	require.NotEqual(t, status.OK, status.CodeOf(err))
	require.Equal(t, status.StaleHandle, status.CodeOf(End(context)))
}

func TestAnEndWaitsForGroupsOfOthersButNotForItsOwn(t *testing.T) {
	defer func(was time.Duration) { groupsPatience = was }(groupsPatience)
	groupsPatience = 50 * time.Millisecond
	directory := t.TempDir()
	context := openStore(t, directory, saving())
	poke(t, create(t, context, 100), 7)
	inTheGroup := create(t, context, 100)
	want := stateOf(t, context)
	inGroup(t, context, func() {
		require.Zero(t, nativetest.WritePage(inTheGroup, 50, []byte("undone")))
		require.NoError(t, End(context), "its own is undone first")
	})
	require.Equal(t, want, read(t, directory, store.At{}))
	require.Equal(t, status.StaleHandle, status.CodeOf(End(context)))

	context = openStore(t, directory, saving())
	poke(t, create(t, context, 100), 8)
	begun, over := make(chan struct{}), make(chan struct{})
	var other sync.WaitGroup
	other.Go(func() {
		inGroup(t, context, func() {
			close(begun)
			select {
			case <-over:
			case <-time.After(patience):
			}
		})
	})
	<-begun
	require.Equal(t, status.Cancelled, status.CodeOf(End(context)), "another's, for so long")
	close(over)
	other.Wait()

	groupsPatience = patience
	context = openStore(t, directory, saving())
	poke(t, create(t, context, 100), 9)
	want = stateOf(t, context)
	begun = make(chan struct{})
	other.Go(func() {
		inGroup(t, context, func() { close(begun); time.Sleep(20 * time.Millisecond) })
	})
	<-begun
	require.NoError(t, End(context))
	other.Wait()
	require.Equal(t, want, read(t, directory, store.At{}))
}

func TestReadersAndPlainContextsEnd(t *testing.T) {
	directory := t.TempDir()
	context := openStore(t, directory, saving())
	poke(t, create(t, context, 100), 7)
	require.NoError(t, Save(context, false, nil))
	o := saving()
	o.Mode = abi.StoreRead
	require.NoError(t, End(openStore(t, directory, o)))
	o.Mode = abi.StoreFollow
	require.NoError(t, End(openStore(t, directory, o)))
	plain, err := page.NewContext(hostPages)
	require.NoError(t, err)
	poke(t, create(t, plain, 100), 7)
	EndAll()
	require.Equal(t, status.StaleHandle, status.CodeOf(End(plain)))
	require.Equal(t, status.StaleHandle, status.CodeOf(End(context)))
}
