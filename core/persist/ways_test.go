package persist

import (
	"bytes"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"libmmsb/core/abi"
	"libmmsb/core/file"
	"libmmsb/core/metadata"
	"libmmsb/core/page"
	"libmmsb/core/snapshot"
	"libmmsb/core/status"
	"libmmsb/native"
	"libmmsb/native/nativetest"
)

// All ways of loading a snapshot give the same pages, whoever wrote it and however it is divided.

var (
	chainsToLoad = flag.Int("chains", 100, "random chains that are loaded in every way")
	firstChain   = flag.Int("first", 0, "the number of the first of them")
)

// wanted is a state that a snapshot must give, by id.
type wanted map[uint64]details

// way is a way of loading a file.
type way struct {
	name   string
	source func(t *testing.T, path string) (source LoadSource, end func())
	lazy   bool
	chosen bool
}

// waysOf are those in which a file can be loaded; with a base it is known by its path only.
func waysOf(withBase bool) (ways []way) {
	fromPath := func(_ *testing.T, path string) (LoadSource, func()) { return FromPath(path), func() {} }
	fromDescriptor := func(t *testing.T, path string) (LoadSource, func()) {
		opened, err := os.Open(path)
		require.NoError(t, err)
		return FromDescriptor(int32(opened.Fd())), func() { _ = opened.Close() }
	}
	fromMemory := func(t *testing.T, path string) (LoadSource, func()) {
		content, err := os.ReadFile(path)
		require.NoError(t, err)
		return LoadSource{memory: content, descriptor: -1}, func() { clear(content) }
	}
	for _, lazy := range []bool{false, true} {
		ways = append(ways, way{"path", fromPath, lazy, false}, way{"path", fromPath, lazy, true})
		if !withBase {
			ways = append(ways, way{"descriptor", fromDescriptor, lazy, false}, way{"descriptor", fromDescriptor, lazy, true},
				way{"memory", fromMemory, lazy, false}, way{"memory", fromMemory, lazy, true})
		}
	}
	return ways
}

// requireEveryWay loads a file in every way into a context whose ended pages had bytes of the same sizes that are not 0.
func requireEveryWay(t *testing.T, path string, want wanted, random *rand.Rand) {
	t.Helper()
	info, err := snapshot.Verify(path, snapshot.VerifyOptions{})
	require.NoError(t, err)
	context := newContext(t)
	for _, way := range waysOf(info.Base != snapshot.ID{}) {
		soil(t, context, want)
		expected, o := want, LoadOptions{Lazy: way.lazy}
		if way.chosen {
			o.IDs = slices.DeleteFunc(slices.Sorted(maps.Keys(want)), func(uint64) bool { return random.IntN(2) == 0 })
			expected = make(wanted)
			for _, id := range o.IDs {
				expected[id] = want[id]
			}
			if len(o.IDs) == 0 {
				continue
			}
		}
		how := fmt.Sprintf("%s, lazy %v, chosen %v", way.name, way.lazy, way.chosen)
		source, end := way.source(t, path)
		require.NoError(t, Load(context, source, o, nil), how)
		end() // what is read later is read of what the library has itself
		requireState(t, context, expected, false, how)
	}
	require.NoError(t, page.Destroy(context))
	fresh := load(t, path)
	requireState(t, fresh, want, true, "into a new context")
	require.NoError(t, page.Destroy(fresh))
}

// soil fills memory for pages like those wanted, and ends the pages that have it.
func soil(t *testing.T, context uint64, want wanted) {
	t.Helper()
	for _, handle := range handlesOf(t, context) {
		require.Zero(t, nativetest.Destroy(handle))
	}
	var handles []uint64
	for _, one := range want {
		handles = append(handles, createFilled(t, context, uint64(len(one.Bytes)), 0, 0xff))
	}
	for _, handle := range handles {
		require.Zero(t, nativetest.Destroy(handle))
	}
}

func handlesOf(t *testing.T, context uint64) (handles []uint64) {
	t.Helper()
	require.NoError(t, page.Use(context, func(c *page.Context) error {
		var cursor uint64
		some := make([]uint64, 100)
		for n := c.Pages(&cursor, some); n > 0; n = c.Pages(&cursor, some) {
			handles = append(handles, some[:n]...)
		}
		return nil
	}))
	return handles
}

// requireState compares a context's pages with those wanted. Only in a context that had no page before the load the versions are
// those of the file; else they are above.
func requireState(t *testing.T, context uint64, want wanted, fresh bool, how string) {
	t.Helper()
	handles := handlesOf(t, context)
	require.Len(t, handles, len(want), how)
	for _, handle := range handles {
		index := native.Index(handle)
		id := page.IDOf(index)
		one, ok := want[id]
		require.True(t, ok, "%s: page %d", how, id)
		read := make([]byte, native.RecordAt(index).Size)
		require.Zero(t, nativetest.ReadPage(handle, 0, read)) // brings lazy bytes in
		require.Equal(t, -1, firstDifference(one.Bytes, read), "%s: page %d of %d bytes", how, id, len(one.Bytes))
		got := detailsOf(t, handle)
		require.Equal(t, -1, firstDifference(one.Mask, got.Mask), "%s: mask of page %d of %d bytes", how, id, len(one.Bytes))
		require.Equal(t, -1, firstDifference(one.Metadata, got.Metadata), "%s: metadata of page %d", how, id)
		require.Equal(t, one.Epoch, got.Epoch, "%s: page %d", how, id)
		require.Equal(t, one.Location, got.Location, "%s: page %d", how, id)
		if fresh {
			require.Equal(t, one.Version, got.Version, "%s: page %d", how, id)
		} else {
			require.Greater(t, got.Version, one.Version, "%s: page %d", how, id)
		}
	}
}

// firstDifference is the offset from which on two texts differ; -1 where they do not.
func firstDifference(a, b []byte) int {
	if bytes.Equal(a, b) {
		return -1
	}
	for at := range min(len(a), len(b)) {
		if a[at] != b[at] {
			return at
		}
	}
	return min(len(a), len(b))
}

// sizesAroundUnits are sizes around every unit: of small memory, system pages, chunks, a segment's room, segments.
var sizesAroundUnits = []uint64{
	1, 63, 64, 65, 255, 256, 4095, 4096, 4097, 65535, 65536, 65537, 262143, 262144, 262145, 3932159, 3932160, 3932161,
	4<<20 - 1, 4 << 20, 4<<20 + 1, 10 << 20,
}

// What this library saves comes back in every way: pages of all sizes, on the host and on disk, with masks and metadata of one
// part and of several, and the changes of two further snapshots.
func TestEveryWayOfLoadingGivesTheSamePages(t *testing.T) {
	onOneThread(t)
	forms, files := []struct{ location, compression int32 }{
		{abi.LocationCPU, abi.CompressionNone}, {abi.LocationDisk, abi.CompressionNone}, {abi.LocationDisk, abi.CompressionZstd},
	}, 3
	if raceDetector { // the form that most goroutines work on, without a base and with one
		forms, files = forms[2:], 2
	}
	for _, stored := range forms {
		t.Run(fmt.Sprintf("location %d, compression %d", stored.location, stored.compression), func(t *testing.T) {
			random := rand.New(rand.NewPCG(uint64(stored.compression), uint64(stored.location)))
			saved := newContext(t)
			createAllSizes(t, saved, stored.location, newFiller(random))
			folder := t.TempDir()
			o := SaveOptions{Compression: stored.compression}
			for number := range files {
				path := filepath.Join(folder, fmt.Sprint(number, ".mmsb"))
				require.NoError(t, Save(saved, ToPath(path), o, nil))
				requireEveryWay(t, path, stateNow(t, saved), random)
				o.Base = path
				for _, handle := range handlesOf(t, saved) {
					if size := native.RecordAt(native.Index(handle)).Size; random.IntN(2) == 0 {
						change(t, handle, random.Uint64N(size), byte(random.Uint32()))
					}
				}
			}
		})
	}
}

// createAllSizes creates a page of each size, some with a mask, some with metadata of one part or of several.
func createAllSizes(t *testing.T, context uint64, location int32, fill filler) {
	t.Helper()
	for i, size := range sizesAroundUnits {
		if raceDetector && i%5 != 0 { // without the largest
			continue
		}
		handle := createFilled(t, context, size, uint64(i+1), 0)
		write(t, handle, 0, fill.bytes(size))
		if i%2 == 0 {
			change(t, handle, size-1, 3)
		}
		if i%3 == 0 {
			length := []uint64{10, native.ChunkBytes - 16, native.ChunkBytes, 700000}[i/3%4] // the blob has 16 more
			require.NoError(t, page.SetMetadata(handle, []byte("name"), fill.bytes(length)))
		}
		require.NoError(t, page.Migrate(handle, location, 0))
	}
}

// stateNow is what a context's pages are.
func stateNow(t *testing.T, context uint64) wanted {
	t.Helper()
	now := make(wanted)
	for _, handle := range handlesOf(t, context) {
		now[page.IDOf(native.Index(handle))] = detailsOf(t, handle)
	}
	return now
}

// filler makes bytes: random ones, zeros, and some that can be compressed, a stretch of each.
type filler struct {
	random *rand.Rand
	source *rand.ChaCha8
}

func newFiller(random *rand.Rand) filler {
	return filler{random, rand.NewChaCha8([32]byte{byte(random.Uint32()), byte(random.Uint32())})}
}

func (f filler) bytes(length uint64) []byte {
	made := make([]byte, length)
	for at := uint64(0); at < length; {
		stretch := made[at:min(length, at+1+f.random.Uint64N(2*native.ChunkBytes))]
		switch f.random.IntN(3) {
		case 0:
			_, _ = f.source.Read(stretch)
		case 1:
			for i := range stretch {
				stretch[i] = byte(i >> 3)
			}
		}
		at += uint64(len(stretch))
	}
	return made
}

// foreign writes chains of files as other programs may: valid, but divided elsewhere than this library does it.
type foreign struct {
	*testing.T
	filler
	folder string
	state  map[uint64]foreignPage
	files  int
	base   snapshot.Header
}

// foreignPage is a page in the newest file or below it.
type foreignPage struct {
	details
	fresh   bool         // it is to be in the next file as a whole
	changed map[int]bool // granules that are not as in the file before
	touched bool         // the next file has an entry of it
}

var foreignSizes = []uint64{
	1, 64, 1000, 4095, 4096, 4097, 5000, 65535, 65537, native.ChunkBytes - 1, native.ChunkBytes, native.ChunkBytes + 1,
	native.ChunkBytes + 5000, 2*native.ChunkBytes + 4097, 3*native.ChunkBytes - 4096,
}

func (f *foreign) put(id uint64) {
	size := foreignSizes[f.random.IntN(len(foreignSizes))]
	if f.random.IntN(40) == 0 {
		size = 4<<20 + f.random.Uint64N(3)
	}
	one := foreignPage{details: details{Bytes: f.bytes(size), Epoch: f.random.Uint64N(9), Version: 1}, fresh: true, touched: true}
	f.besides(&one)
	f.state[id] = one
}

// besides gives a page a place, a mask and metadata.
func (f *foreign) besides(one *foreignPage) {
	size := uint64(len(one.Bytes))
	one.Location = []int32{abi.LocationCPU, abi.LocationCPU, abi.LocationDisk}[f.random.IntN(3)]
	one.Mask = make([]byte, (size+7)/8)
	if f.random.IntN(2) == 0 {
		copy(one.Mask, f.bytes(size/8))
	}
	one.Metadata = nil
	if f.random.IntN(3) == 0 {
		length := f.random.Uint64N(300)
		if f.random.IntN(4) == 0 {
			length = snapshot.Chunk - 24 + f.random.Uint64N(48) // around a part; with the key 17 bytes more
		}
		if f.random.IntN(8) == 0 {
			length = 3 * snapshot.Chunk
		}
		var err error
		one.Metadata, err = metadata.Set(nil, []byte("a key"), f.bytes(length))
		require.NoError(f, err)
	}
}

// step changes the state: pages end, come, come again, move, and change in some granules.
func (f *foreign) step() (removed []uint64) {
	for _, id := range slices.Sorted(maps.Keys(f.state)) {
		one := f.state[id]
		one.fresh, one.touched, one.changed = false, false, nil
		switch what := f.random.IntN(10); {
		case what < 2:
			delete(f.state, id)
			removed = append(removed, id)
			continue
		case what < 3:
			removed = append(removed, id)
			f.put(id)
			continue
		case what < 8:
			one.Version++
			one.touched = true
			one.Bytes = bytes.Clone(one.Bytes)
			one.changed = make(map[int]bool)
			if what < 7 {
				f.scatter(&one)
			} else {
				f.besides(&one)
			}
		}
		f.state[id] = one
	}
	for range f.random.IntN(3) {
		if id := 1 + f.random.Uint64N(12); f.state[id].Bytes == nil {
			f.put(id)
		}
	}
	return removed
}

// scatter changes granules of a page.
func (f *foreign) scatter(one *foreignPage) {
	share := f.random.Float64()
	for at := 0; at < len(one.Bytes); at += snapshot.Granule {
		if f.random.Float64() < share*share {
			copy(one.Bytes[at:min(at+snapshot.Granule, len(one.Bytes))], f.bytes(snapshot.Granule))
			one.changed[at/snapshot.Granule] = true
		}
	}
}

// write writes the next file.
func (f *foreign) write(removed []uint64) (path string) {
	sink, err := file.Memory()
	require.NoError(f, err)
	defer sink.Close()
	header := snapshot.Header{ID: snapshot.NewID(), Taken: time.Unix(1763726400, 0)}
	if f.files > 0 {
		header.Base, header.BaseName = f.base.ID, fmt.Sprint(f.files-1, ".mmsb")
		header.Lineage, header.Position = f.base.Lineage, f.base.Position
	}
	w, err := snapshot.NewWriter(sink, header, snapshot.Options{AveragePageSize: 1 + f.random.Uint64N(1<<20)})
	require.NoError(f, err)
	f.base = w.Header()
	ids := slices.Collect(maps.Keys(f.state))
	slices.Sort(ids)
	f.random.Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
	total := uint64(0)
	for _, id := range ids {
		one := f.state[id]
		total += uint64(len(one.Bytes))
		if one.touched {
			f.writePage(w, id, &one)
		}
	}
	require.NoError(f, w.Removed(removed))
	_, err = w.Finish(uint64(len(ids)), total)
	require.NoError(f, err)
	path = filepath.Join(f.folder, fmt.Sprint(f.files, ".mmsb"))
	require.NoError(f, os.WriteFile(path, sink.Bytes(), 0o600))
	f.files++
	return path
}

func (f *foreign) writePage(w *snapshot.Writer, id uint64, one *foreignPage) {
	entry := snapshot.Page{
		ID: id, Size: uint64(len(one.Bytes)), Epoch: one.Epoch, Version: one.Version, Location: one.Location, NUMANode: -1,
		MetadataCount: uint32(metadata.Count(one.Metadata)),
	}
	compression := snapshot.Compression(f.random.IntN(2))
	granule, writes := snapshot.Chunk, func(int) bool { return true }
	if !one.fresh {
		entry.Flags |= snapshot.FlagChanges
		granule, writes = snapshot.Granule, func(number int) bool { return one.changed[number] }
		require.NoError(f, w.Add(entry, snapshot.KindBytes, 0, nil, compression))
	}
	f.writeParts(w, entry, snapshot.KindBytes, one.Bytes, granule, writes, compression)
	if !bytes.Equal(one.Mask, make([]byte, len(one.Mask))) || f.random.IntN(2) == 0 {
		f.writeParts(w, entry, snapshot.KindMask, one.Mask, snapshot.Chunk, nil, compression)
	}
	f.writeParts(w, entry, snapshot.KindMetadata, one.Metadata, snapshot.Chunk, nil, compression)
}

// writeParts writes those granules of bytes that are wanted, and begins a new segment whenever it likes.
func (f *foreign) writeParts(w *snapshot.Writer, entry snapshot.Page, kind uint32, bytes []byte, granule int,
	writes func(number int) bool, compression snapshot.Compression) {
	for from := 0; from < len(bytes); {
		to := min(from+granule, len(bytes))
		if writes != nil && !writes(from/granule) {
			from = to
			continue
		}
		for to < len(bytes) && to%snapshot.Chunk != 0 && writes(to/granule) && f.random.IntN(8) > 0 { // a longer one
			to = min(to+granule, len(bytes))
		}
		if f.random.IntN(3) == 0 {
			require.NoError(f, w.Next())
		}
		require.NoError(f, w.Add(entry, kind, uint64(from), bytes[from:to], compression))
		from = to
	}
}

// now is the state as a load gives it.
func (f *foreign) now() wanted {
	now := make(wanted)
	for id, one := range f.state {
		now[id] = one.details
	}
	return now
}

// Chains that others wrote, valid but divided anywhere, come back in every way: -args -chains=100000 is the long form, and
// -first= divides it.
func TestEveryWayOfLoadingForeignChains(t *testing.T) {
	onOneThread(t)
	number, count := *firstChain, *chainsToLoad
	if raceDetector {
		count /= 10
	}
	defer func() {
		if t.Failed() {
			t.Logf("chain %d", number)
		}
	}()
	for ; number < *firstChain+count; number++ {
		random := rand.New(rand.NewPCG(uint64(number), 7))
		f := &foreign{T: t, filler: newFiller(random), folder: t.TempDir(), state: make(map[uint64]foreignPage)}
		for id := uint64(1); id <= 1+random.Uint64N(6); id++ {
			f.put(id)
		}
		path := f.write(nil)
		for range random.IntN(5) {
			path = f.write(f.step())
		}
		if random.IntN(4) == 0 {
			from := path
			path = filepath.Join(f.folder, "compacted.mmsb")
			_, err := snapshot.Compact(from, path, snapshot.CompactOptions{})
			require.NoError(t, err)
		}
		requireEveryWay(t, path, f.now(), random)
		require.NoError(t, os.RemoveAll(f.folder))
	}
}

// What a load gives is whole or refused: this is what would find bytes that no part of the file gave.
func TestALoadCountsBytesAndPages(t *testing.T) {
	onOneThread(t)
	context := newContext(t)
	createFilled(t, context, 100, 1, 1)
	path := filepath.Join(t.TempDir(), "state.mmsb")
	require.NoError(t, Save(context, ToPath(path), SaveOptions{}, nil))
	opened, err := snapshot.Open(path, snapshot.OpenOptions{})
	require.NoError(t, err)
	defer func() { require.NoError(t, opened.Close()) }()
	staging := page.NewStaging(stateOf(t, context).context, 0)
	chosen := &LoadOptions{IDs: []uint64{1}}
	require.NoError(t, (&loader{Staging: staging, file: opened, o: chosen, done: 100, due: 100}).complete())
	require.EqualError(t, (&loader{Staging: staging, file: opened, o: chosen, done: 99, due: 100}).complete(),
		"MMSB_E_INTERNAL: 99 bytes of pages came, their sizes add up to 100")
	require.EqualError(t, (&loader{Staging: staging, file: opened, o: &LoadOptions{}, done: 100, due: 100}).complete(),
		"MMSB_E_CORRUPT: 1 pages have 0 different ids")
}

// countedReads counts the bytes that are read of files.
type countedReads struct {
	file.FS
	bytes *atomic.Uint64
}

type countedFile struct {
	file.File
	bytes *atomic.Uint64
}

func (c countedReads) Open(name string, flags int, mode os.FileMode) (file.File, error) {
	opened, err := c.FS.Open(name, flags, mode)
	if err != nil {
		return nil, err
	}
	return countedFile{opened, c.bytes}, nil
}

func (c countedFile) Pread(p []byte, offset int64) (int, error) {
	n, err := c.File.Pread(p, offset)
	c.bytes.Add(uint64(n))
	return n, err
}

// Reopen is refused: all reads go through this file.
func (c countedFile) Reopen(int) (file.File, error) { return nil, unix.EINVAL }

// Metadata of many parts is read a fixed number of times, however many parts it has.
func TestLongMetadataIsReadOnce(t *testing.T) {
	onOneThread(t)
	length := part[uint64](16 << 20)
	context := newContext(t)
	path := filepath.Join(t.TempDir(), "state.mmsb")
	handle := createFilled(t, context, 100, 1, 1)
	value := newFiller(rand.New(rand.NewPCG(1, 2))).bytes(length)
	require.NoError(t, page.SetMetadata(handle, []byte("long"), value))
	require.NoError(t, Save(context, ToPath(path), SaveOptions{}, nil))
	for _, lazy := range []bool{false, true} {
		var read atomic.Uint64
		loaded, source := newContext(t), LoadSource{path: path, FS: countedReads{file.OS{}, &read}}
		require.NoError(t, Load(loaded, source, LoadOptions{Lazy: lazy}, nil))
		require.Equal(t, -1, firstDifference(metadataOf(t, handle), metadataOf(t, handleOf(t, loaded, 1))))
		require.Less(t, read.Load(), 3*length, "lazy %v", lazy)
	}
}

// A file can claim metadata of any length in a few bytes: what the context may not have is never made.
func TestMetadataPastTheLimitIsNotRead(t *testing.T) {
	onOneThread(t)
	length := part[uint64](256 << 20)
	sink, err := file.Memory()
	require.NoError(t, err)
	defer sink.Close()
	w, err := snapshot.NewWriter(sink, snapshot.Header{}, snapshot.Options{})
	require.NoError(t, err)
	entry, zeros := snapshot.Page{ID: 1, Size: 100, NUMANode: -1, MetadataCount: 1}, make([]byte, snapshot.Chunk)
	require.NoError(t, w.Add(entry, snapshot.KindBytes, 0, make([]byte, 100), snapshot.Zstd))
	for at := uint64(0); at < length; at += snapshot.Chunk {
		require.NoError(t, w.Add(entry, snapshot.KindMetadata, at, zeros, snapshot.Zstd))
	}
	_, err = w.Finish(1, 100)
	require.NoError(t, err)
	require.Less(t, len(sink.Bytes()), 100<<10)
	context, err := page.NewContext(page.Options{SimulatedDevices: 1, MemoryLimit: 16 << 20})
	require.NoError(t, err)
	defer func() { require.NoError(t, page.Destroy(context)) }()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	err = Load(context, LoadSource{memory: sink.Bytes(), descriptor: -1}, LoadOptions{}, nil)
	runtime.ReadMemStats(&after)
	require.Equal(t, status.Limit, code(err), "%v", err)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(16<<20))
}
