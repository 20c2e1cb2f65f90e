package runtime

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"libmmsb/core/pool"
	"libmmsb/core/status"
	"libmmsb/gpu/blocks"
	"libmmsb/gpu/driver"
	"libmmsb/gpu/sim"
)

// pooledWith is a world whose runtime has a pool under adaptors.
func pooledWith(t testing.TB, streams int, adaptors ...Adaptor) *world {
	return newWorldWith(t, sim.Options{Memory: 256 * mib}, streams, Options{Pool: &pool.Options{}, Adaptors: adaptors})
}

func (w *world) mustAllocate(t testing.TB, stream int, bytes uint64) uint64 {
	handle, _, err := w.allocate(stream, bytes)
	require.NoError(t, err)
	return handle
}

func mustFree(t testing.TB, handles ...uint64) {
	for _, handle := range handles {
		_, err := freeBlock(handle, nil)
		require.NoError(t, err)
	}
}

func TestAHitIsAnotherBlockInTheSameMemory(t *testing.T) {
	counted := &Statistics{}
	w := pooledWith(t, 2, counted)
	tag, err := TagOf("hits")
	require.NoError(t, err)
	first, address, err := w.runtime.Allocate(Request{Bytes: 1000, Stream: w.streams[0], Tag: tag})
	require.NoError(t, err)
	w.streams[0].giveSpans()
	_, _, ok := blocks.Hit(w.handles[0], 1000, uint32(tag))
	require.False(t, ok, "nothing was freed")
	require.False(t, blocks.Cache(first, w.handles[1]), "another stream")
	require.True(t, blocks.Cache(first, w.handles[0]))
	require.False(t, blocks.Cache(first, 0), "it was freed")
	_, err = Free(first, nil)
	requireCode(t, status.StaleHandle, err)
	usage := w.runtime.Usage()
	require.Equal(t, Usage{Outstanding: 1000, Pending: 1000, Allocations: 1, Frees: 1, Reaps: 1, Streams: 2}, usage)
	require.Zero(t, w.runtime.Pool().Statistics().Held, "what was freed is not held")
	require.NoError(t, w.runtime.Check())

	_, _, ok = blocks.Hit(w.handles[1], 1000, uint32(tag))
	require.False(t, ok, "another stream")
	_, _, ok = blocks.Hit(w.handles[0], 1025, uint32(tag))
	require.False(t, ok, "another size")
	_, _, ok = blocks.Hit(w.handles[0], 0, uint32(tag))
	require.False(t, ok)
	_, _, ok = blocks.Hit(w.handles[0], 1000, 1<<31)
	require.False(t, ok, "a tag that is none")
	second, at, ok := blocks.Hit(w.handles[0], 1024, 0)
	require.True(t, ok)
	require.EqualValues(t, address, at)
	require.NotEqual(t, first, second)
	_, err = FindBlock(first)
	requireCode(t, status.StaleHandle, err)
	info, err := FindBlock(second)
	require.NoError(t, err)
	require.Equal(t, BlockInfo{Handle: second, Address: address, Bytes: 1024, Stream: w.streams[0]}, info)
	require.Equal(t, []BlockInfo{info}, w.runtime.Blocks())
	usage = w.runtime.Usage()
	require.Equal(t, Usage{Outstanding: 1024, Live: 1024, Blocks: 1, Allocations: 2, Frees: 1, Reaps: 1, Streams: 2}, usage)
	require.Equal(t, Tally{Live: 1024, Peak: 1024, Total: 2024, Blocks: 1, Ever: 2}, counted.All())
	require.Equal(t, Tally{Peak: 1000, Total: 1000, Ever: 1}, counted.OfTag(tag))
	require.Equal(t, Tally{Live: 1024, Peak: 1024, Total: 1024, Blocks: 1, Ever: 1}, counted.OfTag(0))
	require.EqualValues(t, 1024, w.runtime.Pool().Statistics().Held)
	require.NoError(t, w.runtime.Check())
	mustFree(t, second)
	require.NoError(t, w.device.Synchronize())
	w.runtime.Reap()
	require.Zero(t, w.runtime.Usage().Outstanding)
	require.Equal(t, Tally{Peak: 1024, Total: 2024, Ever: 2}, counted.All())
	require.NoError(t, w.runtime.Check())
}

func TestOnlyWhatNobodyElseUsesIsFreedWithoutGo(t *testing.T) {
	w := pooledWith(t, 2)
	handle, address, err := w.allocate(0, 4096)
	require.NoError(t, err)
	use, _, err := BeginUse(w.streams[0], Use{Block: handle, Access: Write})
	require.NoError(t, err)
	require.False(t, blocks.Cache(handle, 0), "a use is open")
	require.NoError(t, EndUse(use))
	require.NoError(t, w.use(0, handle, address, 4096, Read))
	require.True(t, blocks.Cache(handle, 0), "its stream alone has used it")

	handle, address, err = w.allocate(0, 4096)
	require.NoError(t, err)
	require.NoError(t, w.use(1, handle, address, 4096, Read))
	require.False(t, blocks.Cache(handle, 0), "another stream reads it")
	mustFree(t, handle)
	handle, address, err = w.allocate(0, 4096)
	require.NoError(t, err)
	require.NoError(t, w.use(1, handle, address, 4096, Write))
	require.False(t, blocks.Cache(handle, 0), "another stream writes it")
	require.NoError(t, w.use(0, handle, address, 4096, ReadWrite))
	require.True(t, blocks.Cache(handle, 0), "its own stream has waited for that")

	// A block that C gave out anew is waited for as from then on.
	handle, address, err = w.allocate(0, 4096)
	require.NoError(t, err)
	require.NoError(t, w.work(0, address, 4096, Write))
	require.NoError(t, w.use(1, handle, address, 4096, ReadWrite))
	mustFree(t, handle)
}

func TestABudgetHasWhatItsBlocksHave(t *testing.T) {
	budget := NewBudget(NewLedger(10000))
	w := pooledWith(t, 1, budget)
	handle := w.mustAllocate(t, 0, 6000)
	require.True(t, blocks.Cache(handle, 0))
	require.EqualValues(t, 6000, budget.State().Charged)
	_, _, ok := blocks.Hit(w.handles[0], 6001, 0)
	require.False(t, ok, "one byte more has not been charged")
	handle, _, ok = blocks.Hit(w.handles[0], 6000, 0)
	require.True(t, ok)
	require.True(t, blocks.Cache(handle, 0))
	handle = w.mustAllocate(t, 0, 10000) // which takes the freed one's bytes
	require.EqualValues(t, 10000, budget.State().Charged)
	_, _, err := w.allocate(0, 1)
	requireCode(t, status.Limit, err)
	mustFree(t, handle)
}

func TestAdaptorsThatSeeEachCallDo(t *testing.T) {
	for _, adaptors := range [][]Adaptor{{NewLog(10), NewLog(10)}, {NewGuard(GuardOptions{Every: 2})},
		{&Statistics{}, &Statistics{}}} {
		w := pooledWith(t, 1, adaptors...)
		handle := w.mustAllocate(t, 0, 4096)
		require.False(t, blocks.Cache(handle, 0))
		mustFree(t, handle)
	}
	w := newWorld(t, sim.Options{}, 1) // no pool
	handle := w.mustAllocate(t, 0, 4096)
	require.False(t, blocks.Cache(handle, 0))
	mustFree(t, handle)
}

// C rounds as the pool does: a block serves its own size, and smaller ones of which it has at most 1/32 too much; up to 64 KiB
// only its own.
func TestSizesThatABlockServes(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, text := range []string{"", "roundup_power2_divisions:4", "slabs:true",
		"roundup_power2_divisions:[256:1,512:2,1024:4,>:8]"} {
		options, err := pool.Parse(text)
		require.NoError(t, err)
		w := newWorldWith(t, sim.Options{Memory: 1 << 33}, 1, Options{Pool: &options})
		for range fewer(2000) {
			bytes := 1 + random.Uint64N(1<<(4+random.UintN(28)))
			other := bytes + random.Uint64N(2048) - min(1024, bytes-1)
			of, err := options.Round(bytes)
			require.NoError(t, err)
			as, err := options.Round(other)
			require.NoError(t, err)
			handle, _, err := w.runtime.Allocate(Request{Bytes: bytes, Stream: w.streams[0]})
			require.NoError(t, err)
			require.True(t, blocks.Cache(handle, 0))
			w.streams[0].giveSpans()
			found, _, ok := blocks.Hit(w.handles[0], other, 0)
			must, may := of == as, as <= of && (of-as)*32 <= of && of >= 128*512
			require.True(t, ok && (must || may) || !ok && !must, "%d bytes are %d, %d are %d: %t", bytes, of, other, as, ok)
			if ok {
				mustFree(t, found)
			}
			w.runtime.Reap()
		}
	}
}

func TestMagazinesHaveAnEnd(t *testing.T) {
	w := pooledWith(t, 1)
	var handles []uint64
	for range 1100 {
		handles = append(handles, w.mustAllocate(t, 0, 512))
	}
	cached := 0
	for _, handle := range handles {
		if blocks.Cache(handle, 0) {
			cached++
		} else {
			mustFree(t, handle)
		}
	}
	require.Equal(t, 1024, cached)
	require.NoError(t, w.device.Synchronize())
	w.runtime.Reap()
	require.Zero(t, w.runtime.Usage().Outstanding)

	// 1025 to 1039 units have the same magazine.
	small, large := w.mustAllocate(t, 0, 1025*512), w.mustAllocate(t, 0, 1039*512)
	require.True(t, blocks.Cache(small, 0))
	w.streams[0].giveSpans()
	_, _, ok := blocks.Hit(w.handles[0], 1030*512, 0)
	require.False(t, ok)
	require.True(t, blocks.Cache(large, 0))
	again, _, ok := blocks.Hit(w.handles[0], 1030*512, 0)
	require.True(t, ok)
	require.EqualValues(t, 1039*512, w.runtime.Pool().Statistics().Held)
	require.NoError(t, w.use(0, again, info(t, again).Address, 1030*512, Write))
	mustFree(t, again)
	require.NoError(t, w.device.Synchronize())
	w.runtime.Reap()
	require.NoError(t, w.runtime.Pool().Check())
	require.Zero(t, w.runtime.Pool().Statistics().Held)
}

func TestAMissTakesFromMagazinesWhatItNeeds(t *testing.T) {
	for freed, left := range map[int]uint64{1: 0, 2: mib, 3: 0} { // of 32 MiB
		w := pooledWith(t, 1)
		var handles []uint64
		for range 32 {
			handles = append(handles, w.mustAllocate(t, 0, mib))
		}
		mustFree(t, w.mustAllocate(t, 0, 512)) // in Go, by which the pool knows the stream
		w.runtime.Reap()
		require.NoError(t, w.runtime.Trim(0))
		for i := range freed {
			require.True(t, blocks.Cache(handles[9*i], 0))
		}
		before := w.runtime.Pool().Statistics()
		require.EqualValues(t, 32*mib, before.Reserved)
		handle := w.mustAllocate(t, 0, 300_000)
		after := w.runtime.Pool().Statistics()
		require.EqualValues(t, 32*mib, after.Reserved)
		require.Equal(t, before.Misses, after.Misses)
		require.Equal(t, left, w.streams[0].fast.Cached()*pool.Unit, "%d were freed", freed)
		require.NoError(t, w.use(0, handle, info(t, handle).Address, 300_000, Write))
		require.NoError(t, w.runtime.Check())
		w.freeAll(t)
	}

	// Two neighbours that are free become one.
	w := pooledWith(t, 1)
	var handles []uint64
	for range 128 {
		handles = append(handles, w.mustAllocate(t, 0, mib/2))
	}
	mustFree(t, w.mustAllocate(t, 0, 512))
	w.runtime.Reap()
	require.NoError(t, w.runtime.Trim(0))
	for _, i := range []int{7, 20, 21} {
		require.True(t, blocks.Cache(handles[i], 0))
	}
	handle := w.mustAllocate(t, 0, mib)
	require.EqualValues(t, 64*mib, w.runtime.Pool().Statistics().Reserved)
	require.NoError(t, w.use(0, handle, info(t, handle).Address, mib, Write))
	w.freeAll(t)
}

// What another thread has taken out of the magazines, and is giving to the books, is not missing.
func TestMemoryOnItsWayToTheBooksIsWaitedFor(t *testing.T) {
	w := newPooled(t, sim.Options{Memory: 16 * mib}, 2, pool.Options{LargeStep: 2 * mib})
	handle := w.mustAllocate(t, 0, 12*mib)
	require.True(t, blocks.Cache(handle, 0))
	b, err := allBlocks.find(handle)
	require.NoError(t, err)
	b.mutex.Lock() // as a picture does, for a moment
	var reap sync.WaitGroup
	reap.Go(w.runtime.Reap)
	require.Eventually(t, func() bool { return w.streams[0].fast.Cached() == 0 }, time.Minute, time.Millisecond)
	found := make(chan error, 1)
	go func() {
		_, _, err := w.runtime.Allocate(Request{Bytes: 13 * mib, Stream: w.streams[1]})
		found <- err
	}()
	select {
	case err = <-found:
		t.Error("nobody has waited: ", err)
	case <-time.After(20 * time.Millisecond):
	}
	b.mutex.Unlock()
	reap.Wait()
	if !t.Failed() {
		require.NoError(t, <-found)
	}
	w.freeAll(t)
}

func TestBlocksOffASpan(t *testing.T) {
	counted := &Statistics{}
	w := pooledWith(t, 2, counted)
	books := w.runtime.Pool()
	tag, err := TagOf("spans")
	require.NoError(t, err)
	w.mustAllocate(t, 0, mib+1) // 20 MiB more get memory, and what is behind it is the stream's
	_, _, ok := blocks.Hit(w.handles[0], 1000, uint32(tag))
	require.False(t, ok, "there is no span for small requests")
	_, _, ok = blocks.Hit(w.handles[1], mib+1, uint32(tag))
	require.False(t, ok, "another stream")
	_, _, ok = blocks.Hit(w.handles[0], mib+1, 1<<31)
	require.False(t, ok, "a tag that is none")
	held := books.Statistics().Held

	type cut struct{ handle, bytes uint64 }
	var all []cut
	for bytes := uint64(mib + 1); len(all) < 20; bytes += 12345 {
		before := books.Statistics()
		handle, address, ok := blocks.Hit(w.handles[0], bytes, uint32(tag))
		if !ok {
			break
		}
		all = append(all, cut{handle, bytes})
		rounded := (bytes + pool.Unit - 1) / pool.Unit * pool.Unit
		held += rounded
		after := books.Statistics()
		require.Equal(t, held, after.Held)
		require.Equal(t, before.Reserved, after.Reserved)
		require.Equal(t, BlockInfo{Handle: handle, Address: driver.Address(address), Bytes: bytes, Stream: w.streams[0],
			Tag: tag}, info(t, handle))
		require.NoError(t, w.use(int(bytes%2), handle, driver.Address(address), bytes, Write))
		require.NoError(t, w.runtime.Check())
	}
	require.Contains(t, []int{14, 15, 16, 17}, len(all))
	tally := counted.OfTag(tag)
	require.EqualValues(t, len(all), tally.Blocks)
	require.EqualValues(t, len(all), tally.Ever)
	require.EqualValues(t, len(all)+1, counted.All().Blocks)
	require.EqualValues(t, len(all)+1, len(w.runtime.Blocks()))
	for i, c := range all {
		on := w.streams[i%2]
		if i%3 == 0 || !blocks.Cache(c.handle, 0) {
			_, err := Free(c.handle, on)
			require.NoError(t, err)
		}
		require.NoError(t, w.runtime.Check())
	}
	require.NoError(t, w.device.Synchronize())
	w.freeAll(t)
	require.NoError(t, w.device.Synchronize())
	w.runtime.Reap()
	require.Zero(t, books.Statistics().Held)
	require.Zero(t, counted.All().Blocks)
	require.Zero(t, counted.OfTag(tag).Live)
	require.NoError(t, books.Check())
	require.NoError(t, w.runtime.Trim(0))
	require.Zero(t, books.Statistics().Reserved, "spans go back, and their segments with them")
}

// More blocks are cut off than a stream has records for, and than the books learn of at once.
func TestSpansAreFilledAnew(t *testing.T) {
	w := pooledWith(t, 1)
	entered := 0
	for range 4096 {
		if _, _, ok := blocks.Hit(w.handles[0], 512, 0); !ok {
			w.mustAllocate(t, 0, 512)
			entered++
		}
	}
	require.Less(t, entered, 4096/16)
	require.EqualValues(t, 4096, w.runtime.Usage().Blocks)
	require.NoError(t, w.runtime.Check())
	addresses := map[driver.Address]bool{}
	for _, block := range w.runtime.Blocks() {
		addresses[block.Address] = true
	}
	require.Len(t, addresses, 4096)
	w.freeAll(t)

	budget := pooledWith(t, 1, NewBudget(NewLedger(mib)))
	budget.mustAllocate(t, 0, 512)
	_, _, ok := blocks.Hit(budget.handles[0], 512, 0)
	require.False(t, ok, "the budget has not charged it")
	budget.freeAll(t)
}

func (w *world) freeAll(t testing.TB) {
	for _, block := range w.runtime.Blocks() {
		mustFree(t, block.Handle)
	}
}

func info(t testing.TB, handle uint64) BlockInfo {
	i, err := FindBlock(handle)
	require.NoError(t, err)
	return i
}

// What a stream has queued on a block by itself comes before what others do with the next block in its memory.
func TestOthersWaitForTheBlockThatCGaveOut(t *testing.T) {
	w := newPooled(t, sim.Options{Memory: 64 * mib, Scheduler: sim.Stepped}, 2, pool.Options{})
	first, address, err := w.allocate(0, 4096)
	require.NoError(t, err)
	w.streams[0].giveSpans() // or C would cut it
	other, elsewhere, err := w.allocate(0, 4096)
	require.NoError(t, err)
	require.NoError(t, w.use(1, other, elsewhere, 4096, Write)) // this stream has waited for all of stream 0 up to here
	require.NoError(t, w.work(0, address, 4096, Write))
	require.True(t, blocks.Cache(first, 0))
	second, at, ok := blocks.Hit(w.handles[0], 4096, 0)
	require.True(t, ok)
	require.EqualValues(t, address, at)
	require.NoError(t, w.use(1, second, address, 4096, Write))
	mustFree(t, second, other)
	w.driver.Finish()
}

// The same with a block that C has cut off a span, of which Go knew nothing.
func TestOthersWaitForTheBlockThatCCut(t *testing.T) {
	w := newPooled(t, sim.Options{Memory: 64 * mib, Scheduler: sim.Stepped}, 2, pool.Options{})
	first, _, err := w.allocate(0, 4096)
	require.NoError(t, err)
	cut, at, ok := blocks.Hit(w.handles[0], 4096, 0)
	require.True(t, ok)
	require.NoError(t, w.work(0, driver.Address(at), 4096, Write))
	require.NoError(t, w.use(1, cut, driver.Address(at), 4096, Write))
	mustFree(t, first, cut)
	w.driver.Finish()
}

func TestHandlesThatAreNone(t *testing.T) {
	w := pooledWith(t, 1)
	random := rand.New(rand.NewPCG(3, 4))
	handle := w.mustAllocate(t, 0, 512)
	for range 100_000 {
		forged := random.Uint64()
		if random.UintN(2) == 0 {
			forged = handle ^ 1<<random.UintN(64)
		}
		require.False(t, blocks.Cache(forged, 0), "0x%016x", forged)
		_, _, ok := blocks.Hit(forged, 512, 0)
		require.False(t, ok)
	}
	mustFree(t, handle)

	// Of slots that no block has used yet, in a chunk that is there.
	for index := uint64(1); index < blockChunk; index++ {
		forged := handle&^uint64(indexMask) | index
		if forged == handle {
			continue
		}
		_, err := FindBlock(forged)
		require.Contains(t, []status.Code{status.InvalidHandle, status.StaleHandle}, status.CodeOf(err))
		_, err = Free(forged, nil)
		require.Contains(t, []status.Code{status.InvalidHandle, status.StaleHandle}, status.CodeOf(err))
		_, _, err = BeginUse(w.streams[0], Use{Block: forged, Access: Read})
		require.Contains(t, []status.Code{status.InvalidHandle, status.StaleHandle}, status.CodeOf(err))
	}
}

func TestTheLastGenerationIsNotUsedAgain(t *testing.T) {
	w := pooledWith(t, 1)
	handle := w.mustAllocate(t, 0, 512)
	b, err := allBlocks.find(handle)
	require.NoError(t, err)
	require.True(t, blocks.Cache(handle, 0))
	b.record.State.Store(blocks.State(lastGeneration-1, blocks.Cached))
	last, _, ok := blocks.Hit(w.handles[0], 512, 0)
	require.True(t, ok)
	require.EqualValues(t, lastGeneration, uint32(last>>28))
	require.False(t, blocks.Cache(last, 0))
	mustFree(t, last)
	require.NoError(t, w.device.Synchronize())
	w.runtime.Reap()
	require.NotContains(t, w.streams[0].frees.slots, b.index)
}

// The memory of a stream that has ended serves another one.
func TestStreamsThatHaveEndedAreNotFound(t *testing.T) {
	d, err := sim.New(sim.Options{})
	require.NoError(t, err)
	defer d.Close()
	of := Options{Pool: &pool.Options{}}
	before, err := newWorldOf(d, 1, of)
	require.NoError(t, err)
	old := before.mustAllocate(t, 0, 512)
	mustFree(t, old)
	require.NoError(t, before.end())
	after, err := newWorldOf(d, 1, of)
	require.NoError(t, err)
	mustFree(t, after.mustAllocate(t, 0, 512))
	_, _, ok := blocks.Hit(before.handles[0], 512, 0)
	require.False(t, ok)
	require.False(t, blocks.Cache(old, 0))
	_, err = Free(old, nil)
	requireCode(t, status.StaleHandle, err)
	require.NoError(t, ReleaseStream(after.handles[0]))
	_, _, ok = blocks.Hit(after.handles[0], 512, 0)
	require.False(t, ok, "it was released")
	require.NoError(t, after.end())
}

func TestALostDeviceHasNoHits(t *testing.T) {
	d, err := sim.New(sim.Options{Memory: 64 * mib})
	require.NoError(t, err)
	defer d.Close()
	w, err := newWorldOf(d, 1, Options{Pool: &pool.Options{}})
	require.NoError(t, err)
	mustFree(t, w.mustAllocate(t, 0, 512))
	require.NoError(t, d.Inject(sim.Fault{Call: sim.Fill, Effect: sim.Lose}))
	requireCode(t, status.DeviceLost, w.streams[0].Fill(w.scratch[0], 1, 1))
	_, _, ok := blocks.Hit(w.handles[0], 512, 0)
	require.False(t, ok)
	_, _ = w.runtime.Close()
	require.Zero(t, w.runtime.Usage().Outstanding)
}

// Streams count some tags at a time: those that have one place take turns.
func TestCountsOfTags(t *testing.T) {
	counted := &Statistics{}
	w := pooledWith(t, 2, counted)
	var tags []Tag
	for _, name := range strings.Split("abcdefghijklmnopqrstuvwxyz0123456789", "") {
		tag, err := TagOf("count " + name)
		require.NoError(t, err)
		tags = append(tags, tag)
	}
	random := rand.New(rand.NewPCG(7, 8))
	ever, total := make(map[Tag]uint64), make(map[Tag]uint64)
	mustFree(t, w.mustAllocate(t, 0, 512), w.mustAllocate(t, 1, 512))
	for range 2000 {
		tag, bytes := tags[random.IntN(len(tags))], 1+random.Uint64N(512)
		handle, _, ok := blocks.Hit(w.handles[random.IntN(2)], bytes, uint32(tag))
		require.True(t, ok)
		ever[tag]++
		total[tag] += bytes
		require.True(t, blocks.Cache(handle, 0))
	}
	check := func() {
		for _, tag := range tags {
			has := counted.OfTag(tag)
			require.Equal(t, ever[tag], has.Ever, tag)
			require.Equal(t, total[tag], has.Total, tag)
		}
	}
	check()
	require.NoError(t, w.end())
	check()
}

func TestACallersStreamThatIsLetGo(t *testing.T) {
	w := pooledWith(t, 1)
	native, err := w.device.CreateStream(0)
	require.NoError(t, err)
	wrapped, err := w.runtime.WrapStream(uintptr(native))
	require.NoError(t, err)
	s, err := FindStream(wrapped)
	require.NoError(t, err)
	first, _, err := w.runtime.Allocate(Request{Bytes: 512, Stream: s})
	require.NoError(t, err)
	second, _, err := w.runtime.Allocate(Request{Bytes: 512, Stream: s})
	require.NoError(t, err)
	require.True(t, blocks.Cache(first, 0))
	again, _, ok := blocks.Hit(wrapped, 512, 0)
	require.True(t, ok)
	require.True(t, blocks.Cache(again, 0))
	require.NoError(t, ReleaseStream(wrapped))
	require.NoError(t, w.device.DestroyStream(native))
	require.False(t, blocks.Cache(second, 0), "nothing is queued on that stream any more")
	mustFree(t, second)
	require.NoError(t, w.device.Synchronize())
	w.runtime.Reap()
	require.Zero(t, w.runtime.Usage().Outstanding)
}

// Threads allocate, use and free on streams of their own and on a common one, while others reap and count.
func TestHitsFromManyThreads(t *testing.T) {
	counted := &Statistics{}
	w := pooledWith(t, 4, counted)
	rounds := 20_000
	if raceDetector {
		rounds = 2000
	}
	var users, watchers sync.WaitGroup
	done := make(chan struct{})
	var hits [4]int
	for i := range 4 {
		users.Go(func() {
			random := rand.New(rand.NewPCG(5, uint64(i)))
			var live []uint64
			for range rounds {
				on := i
				if random.UintN(4) == 0 {
					on = 0
				}
				switch {
				case len(live) < 20 && random.UintN(2) == 0:
					bytes := 1 + random.Uint64N(4096)
					handle, _, ok := blocks.Hit(w.handles[on], bytes, 0)
					if ok {
						hits[i]++
					} else {
						handle = w.mustAllocate(t, on, bytes)
					}
					live = append(live, handle)
				case len(live) > 0:
					at := random.IntN(len(live))
					if random.UintN(8) == 0 {
						use, _, err := BeginUse(w.streams[on], Use{Block: live[at], Access: ReadWrite})
						if assert.NoError(t, err) {
							assert.NoError(t, EndUse(use))
						}
					}
					_, err := freeBlock(live[at], nil)
					assert.NoError(t, err)
					live[at] = live[len(live)-1]
					live = live[:len(live)-1]
				}
			}
			for _, handle := range live {
				_, err := freeBlock(handle, nil)
				assert.NoError(t, err)
			}
		})
	}
	watchers.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
			}
			u := w.runtime.Usage()
			assert.Equal(t, u.Outstanding, u.Live+u.Pending)
			assert.LessOrEqual(t, u.Outstanding, uint64(4*20*4096*100))
			for _, info := range w.runtime.Blocks() {
				assert.LessOrEqual(t, info.Bytes, uint64(4096))
			}
			w.runtime.Reap()
		}
	})
	users.Wait()
	close(done)
	watchers.Wait()
	require.NoError(t, w.runtime.Check())
	require.NoError(t, w.device.Synchronize())
	w.runtime.Reap()
	u := w.runtime.Usage()
	require.Zero(t, u.Outstanding)
	require.Equal(t, u.Allocations, u.Frees)
	all := counted.All()
	require.Equal(t, u.Allocations, all.Ever)
	require.Zero(t, all.Live+all.Blocks)
	require.Equal(t, all.Ever, counted.OfTag(0).Ever)
	require.Equal(t, all.Total, counted.OfTag(0).Total)
	for i := range hits {
		require.NotZero(t, hits[i], "thread %d", i)
	}
	require.NoError(t, w.runtime.Check())
}

// Blocks of a tag with a partition come from there, and those of a capture from its own: magazines have only ordinary ones.
func TestPartitionsHaveNoMagazines(t *testing.T) {
	w := pooledWith(t, 1)
	tag, err := TagOf("with a partition")
	require.NoError(t, err)
	mustFree(t, w.mustAllocate(t, 0, 512))
	require.NoError(t, w.runtime.Partition(tag))
	_, _, ok := blocks.Hit(w.handles[0], 512, uint32(tag))
	require.False(t, ok, "it would not sleep")
	handle, _, err := w.runtime.Allocate(Request{Bytes: 512, Stream: w.streams[0], Tag: tag})
	require.NoError(t, err)
	require.False(t, blocks.Cache(handle, 0))
	mustFree(t, handle)

	other := w.mustAllocate(t, 0, 1024)
	mustFree(t, w.mustAllocate(t, 0, 512))
	capture, err := BeginCapture(w.streams[0])
	require.NoError(t, err)
	_, _, ok = blocks.Hit(w.handles[0], 512, 0)
	require.False(t, ok, "it would not be the capture's own")
	require.False(t, blocks.Cache(other, 0))
	c, err := FindCapture(capture)
	require.NoError(t, err)
	require.NoError(t, c.End())
	require.True(t, blocks.Cache(other, 0))
	_, _, ok = blocks.Hit(w.handles[0], 1024, 0)
	require.True(t, ok)
	require.NoError(t, DestroyCapture(capture))
	for _, info := range w.runtime.Blocks() {
		mustFree(t, info.Handle)
	}
}

// The history has each allocation and each free once, whether it entered Go or not, in an order that may have been: memory is
// freed before it is given out again.
func TestTheHistoryHasWhatDoesNotEnterGo(t *testing.T) {
	const threads, rounds = 4, 3000
	log := NewLog(1 << 17)
	w := pooledWith(t, 3, log, &Statistics{})
	inThreads(threads, func(thread int) {
		random := rand.New(rand.NewPCG(uint64(thread), 3))
		var live []uint64
		for range rounds {
			if len(live) < 20 && random.IntN(100) < 55 {
				handle, _, err := w.allocate(random.IntN(3), 1+random.Uint64N([]uint64{600, 70000, 2 * mib}[random.IntN(3)]))
				if assert.NoError(t, err) {
					live = append(live, handle)
				}
			} else if len(live) > 0 {
				at := random.IntN(len(live))
				on := (*Stream)(nil)
				if random.IntN(8) == 0 {
					on = w.streams[random.IntN(3)]
				}
				_, err := freeBlock(live[at], on)
				assert.NoError(t, err)
				live[at] = live[len(live)-1]
				live = live[:len(live)-1]
			}
			if random.IntN(300) == 0 {
				w.runtime.Reap()
			}
		}
		for _, handle := range live {
			_, err := freeBlock(handle, nil)
			assert.NoError(t, err)
		}
	})
	hits, _ := w.runtime.Hits(pool.Small)
	require.NotZero(t, hits)
	usage := w.runtime.Usage()
	records := make([]LogRecord, 1<<17)
	count, lost := log.Read(0, records)
	require.Zero(t, lost)
	type extent struct{ first, end uint64 }
	live := map[driver.Address]uint64{}
	var sorted []extent
	at := func(address driver.Address) int {
		n, _ := slices.BinarySearchFunc(sorted, uint64(address), func(e extent, at uint64) int {
			return cmp.Compare(e.first, at)
		})
		return n
	}
	var allocated, freed uint64
	for i, r := range records[:count] {
		require.EqualValues(t, i+1, r.Number)
		require.True(t, i == 0 || r.Time >= records[i-1].Time)
		first, end := uint64(r.Address), uint64(r.Address)+r.Bytes
		switch r.Action {
		case LogAllocate:
			allocated++
			n := at(r.Address)
			require.True(t, (n == 0 || sorted[n-1].end <= first) && (n == len(sorted) || end <= sorted[n].first),
				"record %d: [0x%x, 0x%x) is held", r.Number, first, end)
			sorted = slices.Insert(sorted, n, extent{first, end})
			live[r.Address] = r.Bytes
			require.NotZero(t, r.Thread)
			require.NotZero(t, r.Native)
		case LogFree:
			freed++
			require.Equal(t, live[r.Address], r.Bytes, "record %d", r.Number)
			delete(live, r.Address)
			n := at(r.Address)
			sorted = slices.Delete(sorted, n, n+1)
		}
	}
	require.Empty(t, live)
	require.Equal(t, usage.Allocations, allocated)
	require.Equal(t, usage.Frees, freed)
}
