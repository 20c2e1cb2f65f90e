package persist

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"libmmsb/core/page"
	"libmmsb/core/snapshot"
	"libmmsb/core/status"
	"libmmsb/core/track"
	"libmmsb/native"
	"libmmsb/native/nativetest"
)

// contents is what a context's pages hold, by id.
func contents(t *testing.T, context uint64) map[uint64][]byte {
	t.Helper()
	found := make(map[uint64][]byte)
	require.NoError(t, page.Use(context, func(c *page.Context) error {
		var cursor uint64
		pages := make([]uint64, 100)
		for n := c.Pages(&cursor, pages); n > 0; n = c.Pages(&cursor, pages) {
			for _, handle := range pages[:n] {
				index := native.Index(handle)
				record := native.RecordAt(index)
				id := page.IDOf(index)
				require.Zero(t, nativetest.WritePage(handle, 0, nil)) // brings lazy bytes in
				found[id] = bytes.Clone(native.Bytes(record.Locator, record.Size))
			}
		}
		return nil
	}))
	return found
}

func newContext(t *testing.T) uint64 {
	t.Helper()
	context, err := page.NewContext(page.Options{SimulatedDevices: 1})
	require.NoError(t, err)
	t.Cleanup(func() {
		if err := page.Use(context, (*page.Context).Check); status.CodeOf(err) != status.StaleHandle { // else the test ended it
			assert.NoError(t, err)
		}
		_ = page.Destroy(context)
	})
	return context
}

func createFilled(t *testing.T, context, size, id uint64, fill byte) uint64 {
	t.Helper()
	var handle uint64
	require.NoError(t, page.Use(context, func(c *page.Context) (err error) {
		handle, err = c.Create(size, page.CreateOptions{ID: id, NUMANode: -1})
		return err
	}))
	write(t, handle, 0, bytes.Repeat([]byte{fill}, int(size)))
	return handle
}

func write(t *testing.T, handle, offset uint64, content []byte) {
	t.Helper()
	require.Zero(t, nativetest.WritePage(handle, offset, content))
}

func load(t *testing.T, path string) uint64 {
	t.Helper()
	context := newContext(t)
	require.NoError(t, Load(context, FromPath(path), LoadOptions{}, nil))
	return context
}

var sizes = []uint64{1, 63, 64, 100, 255, 256, 1000, 4095, 4096, 4097, 70000, 262144, 262145, 1 << 20, 3<<20 + 17}

func TestASavedStateComesBack(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for _, compression := range []int32{0, 1} {
		t.Run(fmt.Sprint("compression ", compression), func(t *testing.T) {
			context := newContext(t)
			for i, size := range sizes {
				id := uint64(0)
				if i%2 == 0 {
					id = uint64(1000 + i)
				}
				handle := createFilled(t, context, size, id, byte(i+1))
				if i%3 == 0 {
					require.NoError(t, page.SetMetadata(handle, []byte("name"), []byte(fmt.Sprint("page ", i))))
				}
			}
			before := contents(t, context)
			require.Len(t, before, len(sizes))
			path := filepath.Join(t.TempDir(), "state.mmsb")
			require.NoError(t, Save(context, ToPath(path), SaveOptions{Compression: compression}, nil))
			_, err := snapshot.Verify(path, snapshot.VerifyOptions{})
			require.NoError(t, err)
			require.Equal(t, before, contents(t, load(t, path)))

			// Into the living context: what was changed and added meanwhile is gone.
			createFilled(t, context, 5000, 7777, 9)
			require.NoError(t, Load(context, FromPath(path), LoadOptions{}, nil))
			require.Equal(t, before, contents(t, context))
			entries, err := os.ReadDir(filepath.Dir(path))
			require.NoError(t, err)
			require.Len(t, entries, 1)
		})
	}
}

func TestAChainOfSnapshotsGivesEachState(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	folder := t.TempDir()
	random := rand.New(rand.NewPCG(1, 2))
	context := newContext(t)
	live := make(map[uint64]uint64) // handle by id
	var states []map[uint64][]byte
	var paths []string
	next := uint64(1)
	rounds := 12
	if raceDetector {
		rounds = 8
	}
	for round := range rounds {
		for range 40 {
			switch random.IntN(4) {
			case 0, 1:
				size := sizes[random.IntN(len(sizes))]
				id := next
				if random.IntN(5) == 0 && next > 3 { // an id that was used before, perhaps
					id = random.Uint64N(next) + 1
				}
				if _, there := live[id]; there {
					continue
				}
				next = max(next, id) + 1
				live[id] = createFilled(t, context, size, id, byte(random.Uint32()))
			case 2:
				for id, handle := range live {
					require.Zero(t, nativetest.Destroy(handle))
					delete(live, id)
					break
				}
			default:
				for _, handle := range live {
					size := native.RecordAt(native.Index(handle)).Size
					write(t, handle, random.Uint64N(size), []byte{byte(random.Uint32())})
					break
				}
			}
		}
		path := filepath.Join(folder, fmt.Sprintf("%d.mmsb", round))
		o := SaveOptions{}
		if round > 0 {
			base := len(paths) - 1
			if round == 3 || round == 11 { // not the newest
				base -= random.IntN(3)
			}
			o.Base = paths[base]
		}
		require.NoError(t, Save(context, ToPath(path), o, nil))
		paths, states = append(paths, path), append(states, contents(t, context))
		if round == 6 { // goes on from a loaded state
			loaded := load(t, path)
			context = loaded
			live = make(map[uint64]uint64)
			require.NoError(t, page.Use(context, func(c *page.Context) error {
				for id := range states[round] {
					handle, err := c.Lookup(id)
					if err != nil {
						return err
					}
					live[id] = handle
				}
				return nil
			}))
		}
	}
	for i, path := range paths {
		_, err := snapshot.Verify(path, snapshot.VerifyOptions{})
		require.NoError(t, err, path)
		require.Equal(t, states[i], contents(t, load(t, path)), path)
	}
}

// Writers move a token's worth of bytes between pages of several sizes while snapshots are taken; each snapshot must be one
// moment.
func TestASnapshotIsOneMoment(t *testing.T) {
	folder := t.TempDir()
	context := newContext(t)
	const writers = 3
	type pair struct{ first, second uint64 }
	var pairs [writers]pair
	for i := range pairs {
		pairs[i] = pair{createFilled(t, context, 4096, uint64(10*i+1), 0), createFilled(t, context, 1<<20, uint64(10*i+2), 0)}
	}
	for i := range 2000 {
		createFilled(t, context, 4096, uint64(1000+i), byte(i))
	}
	stop := make(chan struct{})
	var group sync.WaitGroup
	for i := range pairs {
		group.Add(1)
		go func() {
			defer group.Done()
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			for n := uint32(1); ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				word := []byte{byte(n), byte(n >> 8), byte(n >> 16), byte(n >> 24)}
				nativetest.WritePage(pairs[i].first, 100, word)    // first is never behind
				nativetest.WritePage(pairs[i].second, 1<<19, word) // second is never ahead
			}
		}()
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	word := func(content []byte, at int) uint32 {
		return uint32(content[at]) | uint32(content[at+1])<<8 | uint32(content[at+2])<<16 | uint32(content[at+3])<<24
	}
	for round := range 20 {
		path := filepath.Join(folder, fmt.Sprintf("%d.mmsb", round%2))
		o := SaveOptions{NotDurable: true}
		if round%2 == 1 {
			o.Base = filepath.Join(folder, "0.mmsb")
		}
		require.NoError(t, Save(context, ToPath(path), o, nil))
		found := contents(t, load(t, path))
		require.Len(t, found, 2*writers+2000)
		for i := range pairs {
			first, second := word(found[uint64(10*i+1)], 100), word(found[uint64(10*i+2)], 1<<19)
			require.True(t, first == second || first == second+1, "round %d: %d and %d", round, first, second)
		}
	}
	close(stop)
	group.Wait()
}

// A chunk is brought to where it would be written before it is known to be as it was: that can end a segment, the page's last.
func TestALargePageThatChangedInSoManyChunks(t *testing.T) {
	const chunks = 20 // more than a segment takes
	require.Greater(t, chunks*native.ChunkBytes, snapshot.SegmentBytes)
	context, folder := newContext(t), t.TempDir()
	handle := createFilled(t, context, chunks*native.ChunkBytes, 1, 255)
	base, now := filepath.Join(folder, "base"), filepath.Join(folder, "now")
	for changed := range chunks + 1 {
		require.NoError(t, Save(context, ToPath(base), SaveOptions{}, nil))
		for number := range changed {
			write(t, handle, uint64(number)*native.ChunkBytes, []byte{byte(changed)})
		}
		require.NoError(t, Save(context, ToPath(now), SaveOptions{Base: base}, nil))
		_, err := snapshot.Verify(now, snapshot.VerifyOptions{})
		require.NoError(t, err, "%d of %d chunks changed", changed, chunks)
		require.Equal(t, contents(t, context), contents(t, load(t, now)))
		info, err := snapshot.Inspect(now, snapshot.OpenOptions{})
		require.NoError(t, err)
		require.EqualValues(t, changed*native.ChunkBytes, info.StoredBytes)
	}
}

// Bytes written through pointers, of pages that the kernel watches and of pages that are compared, are in the next incremental
// snapshot; what was not written is not.
func TestRawWritesAreFound(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	random := rand.New(rand.NewPCG(5, 6))
	folder := t.TempDir()
	context := newContext(t)
	memory, err := unix.Mmap(-1, 0, 6<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	require.NoError(t, err)
	defer func() { require.NoError(t, unix.Munmap(memory)) }()
	var adopted uint64
	require.NoError(t, page.Use(context, func(c *page.Context) (err error) {
		address := uintptr(unsafe.Pointer(unsafe.SliceData(memory))) + 100
		adopted, err = c.Adopt(address, 5<<20, page.AdoptOptions{ID: 1})
		return err
	}))
	raw := map[uint64][]byte{1: memory[100 : 100+5<<20]}
	for id, size := range map[uint64]uint64{2: 3 << 20, 3: 4096, 4: 100, 5: 300000} {
		handle := createFilled(t, context, size, id, 7)
		record := native.RecordAt(native.Index(handle))
		record.Exposed = 1 // as mmsb_page_address does
		raw[id] = native.Bytes(record.Locator, size)
	}
	for id := uint64(10); id < 200; id++ {
		createFilled(t, context, 4096, id, byte(id))
	}
	base := filepath.Join(folder, "0.mmsb")
	require.NoError(t, Save(context, ToPath(base), SaveOptions{}, nil))
	for round := 1; round < 10; round++ {
		touched := 0
		for id, bytes := range raw {
			if random.IntN(2) == 0 || id == 1 {
				bytes[random.IntN(len(bytes))] ^= byte(1 + random.IntN(255))
				touched++
			}
		}
		path := filepath.Join(folder, fmt.Sprint(round, ".mmsb"))
		require.NoError(t, Save(context, ToPath(path), SaveOptions{Base: base}, nil))
		info, err := snapshot.Inspect(path, snapshot.OpenOptions{})
		require.NoError(t, err)
		require.EqualValues(t, touched, info.Pages)
		require.LessOrEqual(t, info.StoredBytes, uint64(touched*native.ChunkBytes))
		require.Equal(t, contents(t, context), contents(t, load(t, path)))
		base = path
		if round == 5 { // a whole one begins anew
			base = filepath.Join(folder, "5w.mmsb")
			require.NoError(t, Save(context, ToPath(base), SaveOptions{}, nil))
		}
	}
	if track.Available() == nil { // only what was written was read
		stats, err := GetSaveStats(context)
		require.NoError(t, err)
		require.Less(t, stats.ComparedBytes, uint64(4<<20))
	}
	require.Zero(t, nativetest.Destroy(adopted))
}

func TestASaveThatDoesNotWatch(t *testing.T) {
	context, folder := newContext(t), t.TempDir()
	const size = 3 << 20
	handle := createFilled(t, context, size, 1, 7)
	record := native.RecordAt(native.Index(handle))
	record.Exposed = 1 // as mmsb_page_address does
	bytes := native.Bytes(record.Locator, size)
	watched := func() (pages int) {
		require.NoError(t, use(context, func(s *state) error {
			s.tracking.Lock()
			defer s.tracking.Unlock()
			pages = len(s.tracking.pages)
			return nil
		}))
		return pages
	}
	base := ""
	for number, step := range []struct {
		notWatched bool
		watched    int
		compared   uint64
	}{{true, 0, 0}, {true, 0, size}, {false, 1, size}, {true, 1, 0}, {true, 1, 0}} {
		if track.Available() != nil {
			step.watched, step.compared = 0, min(size, uint64(number)*size)
		}
		bytes[number*native.ChunkBytes] ^= 1
		path := filepath.Join(folder, fmt.Sprint(number, ".mmsb"))
		require.NoError(t, Save(context, ToPath(path), SaveOptions{Base: base, NotWatched: step.notWatched}, nil))
		require.Equal(t, step.watched, watched(), "save %d", number)
		stats, err := GetSaveStats(context)
		require.NoError(t, err)
		require.EqualValues(t, step.compared, stats.ComparedBytes, "save %d", number)
		require.Equal(t, contents(t, context), contents(t, load(t, path)))
		base = path
	}
}

func TestAPageThatIsAlwaysWrittenGoesUnwatched(t *testing.T) {
	context, folder := newContext(t), t.TempDir()
	handle := createFilled(t, context, 3<<20, 1, 7)
	index := native.Index(handle)
	record := native.RecordAt(index)
	record.Exposed = 1 // as mmsb_page_address does
	bytes := native.Bytes(record.Locator, record.Size)
	base := ""
	var watched []int
	for number := range 30 {
		path := filepath.Join(folder, fmt.Sprint(number, ".mmsb"))
		require.NoError(t, Save(context, ToPath(path), SaveOptions{Base: base}, nil))
		require.Equal(t, contents(t, context), contents(t, load(t, path)), "save %d", number)
		require.NoError(t, use(context, func(s *state) error {
			if page, ok := s.tracking.pages[index]; ok && page.armed {
				watched = append(watched, number)
			}
			return nil
		}))
		if number < 18 {
			for at := range bytes {
				bytes[at]++
			}
		} else {
			bytes[number*1000]++
		}
		if base = path; number == 20 {
			base = ""
		}
	}
	expected := []int{0, 1, 3, 7, 15, 23, 24, 25, 26, 27, 28, 29}
	if track.Available() != nil { // nothing is watched, and all is compared
		expected = nil
	}
	require.Equal(t, expected, watched)
}

func TestALazyLoadBringsBytesWhenTheyAreUsed(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	folder := t.TempDir()
	for _, compression := range []int32{0, 1} {
		context := newContext(t)
		for i, size := range sizes {
			handle := createFilled(t, context, size, uint64(i+1), byte(i+1))
			require.NoError(t, page.SetMetadata(handle, []byte("key"), []byte{byte(i)}))
		}
		base, path := filepath.Join(folder, "base.mmsb"), filepath.Join(folder, "state.mmsb")
		require.NoError(t, Save(context, ToPath(base), SaveOptions{Compression: compression}, nil))
		handle := func(context, id uint64) (found uint64) {
			require.NoError(t, page.Use(context, func(c *page.Context) (err error) {
				found, err = c.Lookup(id)
				return err
			}))
			return found
		}
		write(t, handle(context, uint64(len(sizes))), 1<<20, []byte{1, 2, 3})
		require.NoError(t, Save(context, ToPath(path), SaveOptions{Base: base}, nil))
		loaded := newContext(t)
		require.NoError(t, Load(loaded, FromPath(path), LoadOptions{Lazy: true}, nil))
		waiting := func() int { return stateOf(t, loaded).context.Residency().Waiting() }
		require.Equal(t, 6, waiting()) // those of more than 4096 bytes

		// Saved again before anybody touched it; destroyed, cloned, resized.
		again := filepath.Join(folder, "again.mmsb")
		require.NoError(t, Save(loaded, ToPath(again), SaveOptions{Base: path}, nil))
		require.Equal(t, 6, waiting())
		require.Equal(t, contents(t, context), contents(t, load(t, again)))
		_, err := page.Clone(handle(loaded, 10), 100)
		require.NoError(t, err)
		require.NoError(t, page.Resize(handle(loaded, 11), 5000))
		require.Zero(t, nativetest.Destroy(handle(loaded, 12)))
		require.Equal(t, 3, waiting())
		found := contents(t, loaded)
		require.Zero(t, waiting())
		expected := contents(t, context)
		expected[100] = expected[10]
		expected[11] = expected[11][:5000]
		delete(expected, 12)
		require.Equal(t, expected, found)

		// Damage shows when the bytes are needed, and the page is as it was.
		loaded = newContext(t)
		require.NoError(t, Load(loaded, FromPath(base), LoadOptions{Lazy: true}, nil))
		info, err := os.Stat(base)
		require.NoError(t, err)
		content := bytes.Repeat([]byte{0xaa}, int(info.Size()))
		file, err := os.OpenFile(base, os.O_WRONLY, 0)
		require.NoError(t, err)
		_, err = file.WriteAt(content[:info.Size()-8192], 4096)
		require.NoError(t, err)
		require.NoError(t, file.Close())
		require.EqualValues(t, status.Corrupt, nativetest.WritePage(handle(loaded, 14), 0, []byte{1}))
		require.Equal(t, 6, waiting())
	}
}
