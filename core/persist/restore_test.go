package persist

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"libmmsb/core/abi"
	"libmmsb/core/page"
	"libmmsb/core/snapshot"
	"libmmsb/core/status"
	"libmmsb/native"
	"libmmsb/native/nativetest"
)

// Loads into a context that has pages, some of them adopted, and that goes on afterwards.

func isAdopted(handle uint64) bool {
	return native.RecordAt(native.Index(handle)).LoadState()&native.Adopted != 0
}

func loadChosen(t *testing.T, context uint64, path string, ids ...uint64) {
	t.Helper()
	require.NoError(t, Load(context, FromPath(path), LoadOptions{IDs: ids}, nil))
}

func childrenOf(t *testing.T, context, id uint64) (ids []uint64) {
	t.Helper()
	pages, err := page.Children(handleOf(t, context, id))
	require.NoError(t, err)
	for _, handle := range pages {
		ids = append(ids, page.IDOf(native.Index(handle)))
	}
	return ids
}

func filePages(t *testing.T, path string) uint64 {
	t.Helper()
	info, err := snapshot.Inspect(path, snapshot.OpenOptions{})
	require.NoError(t, err)
	return info.Pages
}

func TestALoadGoesIntoAdoptedMemory(t *testing.T) {
	onOneThread(t)
	sizes := []uint64{100, native.ChunkBytes + 1, 1, 4096, 5000, native.ChunkBytes, 1 << 20}
	if raceDetector {
		sizes = sizes[:2]
	}
	for _, size := range sizes {
		for _, compression := range []int32{0, 1} {
			for what, o := range map[string]LoadOptions{
				"whole": {}, "lazy": {Lazy: true}, "chosen": {IDs: []uint64{1}}, "in place": {InPlace: true},
				"chosen in place": {InPlace: true, IDs: []uint64{1}},
			} {
				t.Run(fmt.Sprint(size, " ", compression, " ", what), func(t *testing.T) {
					folder := t.TempDir()
					path, next := filepath.Join(folder, "state"), filepath.Join(folder, "next")
					context := newContext(t)
					stale, memory := adoptMapping(t, context, 1, size)
					createFilled(t, context, 70_000, 2, 2)
					require.NoError(t, page.SetMetadata(stale, []byte("key"), []byte("value")))
					copy(memory, bytes.Repeat([]byte("saved"), int(size)/5+1))
					saved := bytes.Clone(memory)
					require.NoError(t, Save(context, ToPath(path), SaveOptions{Compression: compression}, nil))
					for range 2 {
						clear(memory)
						require.NoError(t, Load(context, FromPath(path), o, nil))
						require.Equal(t, saved, memory)
						require.NotEqual(t, stale, handleOf(t, context, 1))
						stale = handleOf(t, context, 1)
						require.True(t, isAdopted(stale))
						require.NotEmpty(t, metadataOf(t, stale))
					}
					memory[size-1] = 0xee // through the owner's pointer: the next save finds it
					require.NoError(t, Save(context, ToPath(next), SaveOptions{Base: path}, nil))
					require.Equal(t, memory, contents(t, load(t, next))[1])
					write(t, stale, 0, []byte{0xdd})
					require.EqualValues(t, 0xdd, memory[0])
					require.NoError(t, page.Use(context, (*page.Context).Check))
				})
			}
		}
	}
}

// What lay elsewhere when it was saved goes into memory that was adopted since, and a journal's last word counts.
func TestAdoptedMemoryGetsWhatLayElsewhere(t *testing.T) {
	onOneThread(t)
	folder := t.TempDir()
	path, directory := filepath.Join(folder, "state"), filepath.Join(folder, "journal")
	for _, o := range []LoadOptions{{}, {Lazy: true}, {InPlace: true}} {
		saved := newContext(t)
		handle := createFilled(t, saved, 5000, 1, 7)
		require.NoError(t, page.Migrate(handle, abi.LocationDisk, 0))
		require.NoError(t, Save(saved, ToPath(path), SaveOptions{}, nil))
		openJournal(t, saved, directory)
		write(t, handle, 4000, []byte("journalled"))
		require.NoError(t, CloseJournal(saved))
		want := content(t, handle)

		context := newContext(t)
		_, memory := adoptMapping(t, context, 1, 5000)
		require.NoError(t, Load(context, FromPath(path), LoadOptions{Journal: directory, Lazy: o.Lazy, InPlace: o.InPlace}, nil))
		require.Equal(t, want, memory)
		adopted := handleOf(t, context, 1)
		require.True(t, isAdopted(adopted))
		require.Equal(t, status.InvalidState, code(page.Migrate(adopted, abi.LocationDisk, 0)))
		require.NoError(t, page.Migrate(adopted, abi.LocationCPU, 0))
		directory += "2"
	}
}

func TestAdoptedMemoryThatDoesNotFitIsLeftAlone(t *testing.T) {
	onOneThread(t)
	path := filepath.Join(t.TempDir(), "state")
	saved := newContext(t)
	createFilled(t, saved, 64, 1, 1)
	createFilled(t, saved, 100, 2, 2)
	require.NoError(t, Save(saved, ToPath(path), SaveOptions{}, nil))
	for _, o := range []LoadOptions{{}, {IDs: []uint64{1, 2}}, {InPlace: true}} {
		context := newContext(t)
		first, fits := adoptMapping(t, context, 1, 64)
		second, memory := adoptMapping(t, context, 2, 200)
		err := Load(context, FromPath(path), o, nil)
		require.Equal(t, status.Mismatch, code(err), "%v", err)
		require.ErrorContains(t, err, "page 2 has 100 bytes in the snapshot, but its adopted memory has 200")
		require.Equal(t, make([]byte, 64), fits)
		require.Equal(t, make([]byte, 200), memory)
		require.Equal(t, first, handleOf(t, context, 1))
		require.Zero(t, nativetest.Destroy(second))
		require.NoError(t, page.Use(context, func(c *page.Context) (err error) {
			address := uintptr(unsafe.Pointer(unsafe.SliceData(memory)))
			second, err = c.Adopt(address, 100, page.AdoptOptions{ID: 2, ReadOnly: true})
			return err
		}))
		err = Load(context, FromPath(path), o, nil)
		require.Equal(t, status.InvalidState, code(err), "%v", err)
		require.Equal(t, make([]byte, 64), fits)
		require.Equal(t, second, handleOf(t, context, 2))

		// A page that the snapshot does not have ends, and its memory is as it was.
		require.Zero(t, nativetest.Destroy(second))
		gone, other := adoptMapping(t, context, 3, 50)
		other[0] = 5
		require.NoError(t, Load(context, FromPath(path), o, nil))
		require.Equal(t, bytes.Repeat([]byte{1}, 64), fits)
		require.EqualValues(t, 5, other[0])
		if o.IDs == nil {
			require.EqualValues(t, status.StaleHandle, nativetest.Destroy(gone))
		}
	}
}

func TestChosenPagesKeepTheirDependencies(t *testing.T) {
	onOneThread(t)
	folder := t.TempDir()
	path := filepath.Join(folder, "state")
	context := newContext(t)
	depends := func(parent, child uint64) {
		t.Helper()
		require.NoError(t, page.AddDependency(handleOf(t, context, parent), handleOf(t, context, child)))
	}
	for id := uint64(1); id <= 6; id++ {
		createFilled(t, context, 100*id, id, byte(id))
	}
	depends(1, 2)
	depends(2, 3)
	depends(3, 4)
	require.NoError(t, Save(context, ToPath(path), SaveOptions{}, nil))
	require.NoError(t, page.RemoveDependency(handleOf(t, context, 1), handleOf(t, context, 2)))
	depends(1, 3)
	depends(5, 1)
	depends(3, 6)
	loadChosen(t, context, path, 1, 2, 3)
	require.Equal(t, []uint64{2}, childrenOf(t, context, 1)) // not 3: both were loaded
	require.Equal(t, []uint64{3}, childrenOf(t, context, 2))
	require.Equal(t, []uint64{4, 6}, childrenOf(t, context, 3)) // pages that stay
	require.Equal(t, []uint64{1}, childrenOf(t, context, 5))
	next := filepath.Join(folder, "next")
	require.NoError(t, Save(context, ToPath(next), SaveOptions{Base: path}, nil))
	require.Equal(t, contents(t, context), contents(t, load(t, next)))
	require.EqualValues(t, 3, filePages(t, next))

	// What would close a cycle with pages that stay changes nothing.
	require.NoError(t, page.RemoveDependency(handleOf(t, context, 1), handleOf(t, context, 2)))
	depends(2, 5)
	before, stays := contents(t, context), handleOf(t, context, 1)
	err := Load(context, FromPath(path), LoadOptions{IDs: []uint64{1, 2}}, nil)
	require.Equal(t, status.Mismatch, code(err), "%v", err)
	require.Regexp(t, "make a cycle: page (1 -> page 2 -> page 5 -> page 1|2 -> page 5 -> page 1 -> page 2|"+
		"5 -> page 1 -> page 2 -> page 5)$", err.Error())
	require.Equal(t, before, contents(t, context))
	require.Equal(t, stays, handleOf(t, context, 1))
	require.Empty(t, childrenOf(t, context, 1))
	require.Equal(t, []uint64{3, 5}, childrenOf(t, context, 2))
	require.Equal(t, []uint64{1}, childrenOf(t, context, 5))
	loadChosen(t, context, path, 2)
	require.Equal(t, []uint64{3, 5}, childrenOf(t, context, 2))
}

// After a load into a context that had the pages, an incremental save has only what changed since.
func TestTheChainGoesOnAfterALoad(t *testing.T) {
	onOneThread(t)
	folder := t.TempDir()
	path := func(name string) string { return filepath.Join(folder, name) }
	context := newContext(t)
	for id := uint64(1); id <= 50; id++ {
		createFilled(t, context, 100*id, id, byte(id))
	}
	large := createFilled(t, context, 3<<20, 51, 5)
	require.NoError(t, page.AddDependency(handleOf(t, context, 1), large))
	require.NoError(t, Save(context, ToPath(path("a")), SaveOptions{}, nil))
	write(t, large, 0, []byte("changed"))
	require.NoError(t, Save(context, ToPath(path("b")), SaveOptions{Base: path("a")}, nil))
	for turn := range byte(3) {
		write(t, handleOf(t, context, 7), 0, []byte("before"))
		require.NoError(t, Load(context, FromPath(path("b")), LoadOptions{}, nil))
		write(t, handleOf(t, context, 9), 0, []byte{100 + turn})
		require.NoError(t, Save(context, ToPath(path("c")), SaveOptions{Base: path("b")}, nil))
		require.EqualValues(t, 1, filePages(t, path("c")))
		requireLoads(t, context, path("c"), "")

		write(t, handleOf(t, context, 10), 0, []byte{200 + turn})
		loadChosen(t, context, path("b"), 9, 51)
		require.NoError(t, Save(context, ToPath(path("d")), SaveOptions{Base: path("c")}, nil))
		require.EqualValues(t, 3, filePages(t, path("d")))
		requireLoads(t, context, path("d"), "")
		require.NoError(t, Save(context, ToPath(path("e")), SaveOptions{Base: path("a")}, nil)) // compared by the file's versions
		requireLoads(t, context, path("e"), "")
	}

	// With a journal, what the replay changed, too.
	directory := path("journal")
	openJournal(t, context, directory)
	write(t, handleOf(t, context, 20), 0, []byte("journalled"))
	require.NoError(t, CloseJournal(context))
	write(t, handleOf(t, context, 21), 0, []byte("not journalled"))
	require.NoError(t, Load(context, FromPath(path("e")), LoadOptions{Journal: directory}, nil))
	want := contents(t, context)
	require.NoError(t, Save(context, ToPath(path("f")), SaveOptions{Base: path("e")}, nil))
	require.EqualValues(t, 1, filePages(t, path("f")))
	require.Equal(t, want, contents(t, load(t, path("f"))))
}

// Versions that a load has raised are no change of the state: its journal goes on, without another base.
func TestAJournalGoesOnInTheContextThatLoadedIt(t *testing.T) {
	onOneThread(t)
	directory := filepath.Join(t.TempDir(), "journal")
	context := newContext(t)
	openJournal(t, context, directory)
	for id := uint64(1); id <= 3; id++ {
		createFilled(t, context, 100, id, byte(id))
	}
	require.NoError(t, page.AddDependency(handleOf(t, context, 1), handleOf(t, context, 2)))
	for turn := range byte(4) {
		write(t, handleOf(t, context, 2), 0, []byte{100 + turn})
		require.NoError(t, CloseJournal(context))
		want := contents(t, context)
		write(t, handleOf(t, context, 2), 0, []byte{200 + turn})
		require.NoError(t, Load(context, FromPath(""), LoadOptions{Journal: directory}, nil))
		require.Equal(t, want, contents(t, context))
		require.NoError(t, OpenJournal(context, directory, JournalOptions{IntervalMs: 1, RefuseBase: true}, nil))
		write(t, handleOf(t, context, 3), 0, []byte{turn})
		require.NoError(t, SyncJournal(context, nil))
		requireLoads(t, context, "", directory)
	}
	require.NoError(t, CloseJournal(context))
}

// Whatever is done, an id and a version together are always the same bytes, and a page's version only grows.
func TestAVersionNeverComesTwice(t *testing.T) {
	onOneThread(t)
	random := rand.New(rand.NewPCG(3, 4))
	folder := t.TempDir()
	context := newContext(t)
	const chosen = 6
	ids := []uint64{1, 2, 3, 4, 5, 6}
	for range 3 {
		ids = append(ids, page.IDOf(native.Index(createFilled(t, context, 40, 0, 0))))
	}
	type moment struct{ id, version uint64 }
	seen, newest := make(map[moment]string), make(map[uint64]uint64)
	files := 0
	steps := 3000
	if raceDetector { // nothing runs at the same time here
		steps = 500
	}
	for step := range steps {
		id := ids[random.IntN(len(ids))]
		var handle uint64
		_ = page.Use(context, func(c *page.Context) error {
			handle, _ = c.Lookup(id)
			return nil
		})
		path := func(number int) string { return filepath.Join(folder, fmt.Sprint(number)) }
		switch kind := random.IntN(20); {
		case handle == 0 && id <= chosen:
			createFilled(t, context, 40, id, byte(step))
		case kind < 13 && handle != 0:
			write(t, handle, random.Uint64N(32), []byte(fmt.Sprintf("%08d", step)))
		case kind < 15 && handle != 0:
			require.Zero(t, nativetest.Destroy(handle))
		case kind < 17:
			require.NoError(t, Save(context, ToPath(path(files)), SaveOptions{}, nil))
			files++
		case files == 0:
		case kind < 19:
			require.NoError(t, Load(context, FromPath(path(random.IntN(files))), LoadOptions{}, nil))
		default:
			err := Load(context, FromPath(path(random.IntN(files))), LoadOptions{IDs: []uint64{id}}, nil)
			require.Contains(t, []status.Code{status.OK, status.NotFound}, code(err))
		}
		for id, content := range contents(t, context) {
			version := native.RecordAt(native.Index(handleOf(t, context, id))).Version
			before, ok := seen[moment{id, version}]
			require.True(t, !ok || before == string(content), "step %d: page %d has version %d with %q and with %q", step, id,
				version, before, content)
			seen[moment{id, version}] = string(content)
			require.GreaterOrEqual(t, version, newest[id], "step %d: page %d", step, id)
			newest[id] = version
		}
	}
	require.Greater(t, files, steps/30)
}
