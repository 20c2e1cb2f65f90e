package kernels

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"math"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"unsafe"

	"libmmsb/core/status"
	"libmmsb/gpu/driver"
)

// alias is how far the addresses that kernels get in these tests lie from the memory behind them: nothing is there, so that a
// body that uses an address as it came dies.
const alias = 1 << 56

func TestMain(m *testing.M) {
	distance := uintptr(alias)
	Reach(alias, 2*alias, -distance)
	m.Run()
}

// fakeDevice knows modules and functions, and nothing else.
type fakeDevice struct {
	driver.Device
	info     driver.Info
	loaded   [][]byte
	unloaded int
	missing  string // a function that is not found
}

func (d *fakeDevice) Info() driver.Info { return d.info }

func (d *fakeDevice) LoadModule(image []byte) (driver.Module, error) {
	d.loaded = append(d.loaded, image)
	return driver.Module(len(d.loaded)), nil
}

func (d *fakeDevice) UnloadModule(driver.Module) error {
	d.unloaded++
	return nil
}

func (d *fakeDevice) Function(_ driver.Module, name string) (driver.Function, error) {
	for i, known := range names {
		if known == name && name != d.missing {
			return driver.Function(i + 1), nil
		}
	}
	return 0, status.Errorf(status.NotFound, "no function %q", name)
}

func simulated(t *testing.T) *Set {
	set, err := Load(&fakeDevice{info: driver.Info{Simulated: true, Multiprocessors: 4}}, nil)
	require.NoError(t, err)
	return set
}

// memory is bytes with margins on both sides that nothing may touch, and what all of it should be.
type memory struct {
	whole, wanted []byte
	start, size   int
	address       driver.Address // for kernels
}

func (m *memory) bytes() []byte { return m.whole[m.start : m.start+m.size] }
func (m *memory) want() []byte  { return m.wanted[m.start : m.start+m.size] }

// trial is random memory and one launch that works on it.
type trial struct {
	*testing.T
	*rand.Rand
	set      *Set
	memories []*memory
	pins     runtime.Pinner
}

// trials runs a test many times, each with another seed, which a failure names.
func trials(t *testing.T, count int, run func(t *trial)) {
	once := func(seed uint64) {
		trial := &trial{T: t, Rand: rand.New(rand.NewPCG(seed, 0)), set: simulated(t)}
		defer trial.pins.Unpin()
		defer func() {
			if t.Failed() {
				t.Logf("seed %d", seed)
			}
		}()
		run(trial)
	}
	for range count {
		once(rand.Uint64())
	}
}

// take is memory of random bytes, aligned at least as wanted. Often the allocation ends right behind it, so that
// AddressSanitizer sees a touch beyond.
func (t *trial) take(size, alignment int) *memory {
	skew, margin := t.IntN(2)*t.IntN(16)/alignment*alignment, t.IntN(2)*t.IntN(64)
	m := &memory{start: 32 + skew, size: size}
	for m.whole == nil || uintptr(unsafe.Pointer(&m.whole[0]))%16 != 0 {
		m.whole = make([]byte, m.start+size+margin)
	}
	for i := range m.whole {
		m.whole[i] = byte(t.Uint32())
	}
	t.pins.Pin(&m.whole[0])
	m.address = driver.Address(uintptr(unsafe.Pointer(&m.whole[m.start-1])) + 1 + alias)
	m.wanted = bytes.Clone(m.whole)
	t.memories = append(t.memories, m)
	return m
}

// put is memory with these contents.
func put[T any](t *trial, contents []T, alignment int) *memory {
	raw := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(contents))), len(contents)*int(unsafe.Sizeof(*new(T))))
	m := t.take(len(raw), alignment)
	copy(m.bytes(), raw)
	copy(m.want(), raw)
	return m
}

// size is a random number of bytes: none, few, around what a thread or a piece takes, and more.
func (t *trial) size() int {
	return []func(int) int{t.IntN, t.IntN, func(n int) int { return 4*n + t.IntN(20*n) }}[t.IntN(3)](
		[]int{1, 20, 70, 600, pieceBytes + 40}[t.IntN(5)])
}

// page is memory with a change mask, or without.
func (t *trial) page(size int) (Page, *memory, *memory) {
	bytes := t.take(size, 1)
	page := Page{Address: bytes.address, Bytes: uint64(size)}
	if t.IntN(4) == 0 {
		return page, bytes, nil
	}
	changed := t.take(int(changedBytes(uint64(size))), changedAlignment)
	page.Changed = changed.address
	return page, bytes, changed
}

// set is what a delta does to one byte.
func set(page, changed *memory, offset int, value byte) {
	page.want()[offset] = value
	if changed != nil {
		changed.want()[offset/8] |= 1 << (offset % 8)
	}
}

// check does a launch's work with some number of threads in some order, and compares all memory with what it should be.
func (t *trial) check(launch driver.Launch, err error) {
	t.Helper()
	require.NoError(t, err)
	host, err := FindHost(names[launch.Function-1])
	require.NoError(t, err)
	threads := uint64(launch.Blocks) * uint64(launch.Threads)
	if t.IntN(3) != 0 {
		threads = []uint64{1, 3, 8, 31, 64, 800}[t.IntN(6)]
	}
	order := t.Perm(int(threads))
	if t.IntN(2) == 0 {
		require.NoError(t, host.Run(launch.Parameter, 0, threads, threads))
		order = nil
	}
	for _, thread := range order {
		require.NoError(t, host.Run(launch.Parameter, uint64(thread), uint64(thread)+1, threads))
	}
	t.checkMemory(threads)
	t.checkAccesses(launch)
}

// checkMemory compares all memory with what it should be after so many threads.
func (t *trial) checkMemory(threads uint64) {
	t.Helper()
	for i, m := range t.memories {
		if bytes.Equal(m.whole, m.wanted) { // a loop over each byte takes long with AddressSanitizer
			continue
		}
		for at := range m.whole {
			if m.whole[at] != m.wanted[at] {
				t.Fatalf("memory %d of %d bytes: byte %d is 0x%02x, not 0x%02x; %d threads", i, m.size, at-m.start, m.whole[at],
					m.wanted[at], threads)
			}
		}
	}
}

// checkAccesses sees to it that what was written was said to be.
func (t *trial) checkAccesses(launch driver.Launch) {
	t.Helper()
	for _, access := range launch.Accesses {
		require.True(t, access.Bytes != 0)
		inside := false
		for _, m := range t.memories {
			offset := access.Address - m.address
			size := uint64(m.size)
			inside = inside || uint64(offset) < size && access.Bytes <= size-uint64(offset)
		}
		require.True(t, inside, "an access outside of what the launch was given: %+v", access)
	}
}

func TestFillSetsExactlyItsBytes(t *testing.T) {
	trials(t, 300, func(t *trial) {
		to, value := t.take(t.size(), 1), byte(t.Uint32())
		for i := range to.want() {
			to.want()[i] = value
		}
		launch, err := t.set.Fill(to.address, value, uint64(to.size))
		t.check(launch, err)
	})
}

func TestCopyMovesExactlyItsBytes(t *testing.T) {
	trials(t, 500, func(t *trial) {
		size := t.size()
		to, from := t.take(size, 1), t.take(size, 1)
		copy(to.want(), from.bytes())
		launch, err := t.set.Copy(to.address, from.address, uint64(size))
		t.check(launch, err)
	})
}

// spans cuts memory into spans in rising order with gaps, some of them empty, each from another place of from.
func (t *trial) spans(to, from *memory) []Span {
	var spans []Span
	for at := 0; at <= to.size; {
		length := min([]int{0, t.IntN(9), t.IntN(70), t.size()}[t.IntN(4)], to.size-at, from.size)
		source := t.IntN(from.size - length + 1)
		spans = append(spans, Span{to.address + driver.Address(at), from.address + driver.Address(source), uint64(length), 0})
		at += length + t.IntN(2)*t.IntN(50) + 1
	}
	return spans
}

func TestCopyManyMovesEachSpan(t *testing.T) {
	trials(t, 500, func(t *trial) {
		to, from := t.take(t.size(), 1), t.take(t.size(), 1)
		spans := t.spans(to, from)
		for _, span := range spans {
			copy(to.want()[span.To-to.address:][:span.Bytes], from.bytes()[span.From-from.address:])
		}
		_, err := Prepare(spans)
		require.NoError(t, err)
		launch, err := t.set.CopyMany(put(t, spans, tableAlignment).address, spans)
		t.check(launch, err)
	})
}

func TestScatterRunsMovesEachSpanAndMarksIt(t *testing.T) {
	trials(t, 500, func(t *trial) {
		page, to, changed := t.page(t.size())
		from := t.take(t.size(), 1)
		spans := t.spans(to, from)
		for _, span := range spans {
			for i := range int(span.Bytes) {
				set(to, changed, int(span.To-to.address)+i, from.bytes()[int(span.From-from.address)+i])
			}
		}
		_, err := Prepare(spans)
		require.NoError(t, err)
		launch, err := t.set.ScatterRuns(page, put(t, spans, tableAlignment).address, spans)
		t.check(launch, err)
	})
}

// chosen says for each byte whether a mask has it: few, half, most or all, in runs.
func (t *trial) chosen(length int) []bool {
	chosen, share, run := make([]bool, length), []int{0, 1, 8, 15, 16}[t.IntN(5)], 1+t.IntN(40)
	for i := range chosen {
		if i%run == 0 {
			chosen[i] = t.IntN(16) < share
		} else {
			chosen[i] = chosen[i-1]
		}
	}
	return chosen
}

// bitMask has the bits of chosen; what is beyond them is random.
func (t *trial) bitMask(chosen []bool) []byte {
	mask := make([]byte, (len(chosen)+7)/8)
	for i := range mask {
		mask[i] = byte(t.Uint32())
	}
	for i, set := range chosen {
		mask[i/8] &^= 1 << (i % 8)
		if set {
			mask[i/8] |= 1 << (i % 8)
		}
	}
	return mask
}

func TestMergeBytesChangesWhatTheMaskHas(t *testing.T) {
	trials(t, 500, func(t *trial) {
		page, to, changed := t.page(t.size())
		chosen := t.chosen(t.IntN(to.size + 1))
		payload := t.take(len(chosen), 1)
		mask := make([]byte, len(chosen))
		for i, is := range chosen {
			if is {
				mask[i] = byte(1 + t.IntN(255))
				set(to, changed, i, payload.bytes()[i])
			}
		}
		launch, err := t.set.MergeBytes(page, put(t, mask, 1).address, payload.address, uint64(len(chosen)))
		t.check(launch, err)
	})
}

func TestMergeBitsChangesWhatTheMaskHas(t *testing.T) {
	trials(t, 500, func(t *trial) {
		page, to, changed := t.page(t.size())
		chosen := t.chosen(t.IntN(to.size + 1))
		payload := t.take(len(chosen), 1)
		for i, is := range chosen {
			if is {
				set(to, changed, i, payload.bytes()[i])
			}
		}
		mask := put(t, t.bitMask(chosen), 1)
		launch, err := t.set.MergeBits(page, mask.address, payload.address, uint64(len(chosen)))
		t.check(launch, err)
	})
}

func TestExpandBitsTakesThePayloadInOrder(t *testing.T) {
	trials(t, 500, func(t *trial) {
		page, to, changed := t.page(t.size())
		chosen := t.chosen(t.IntN(to.size + 1))
		mask := t.bitMask(chosen)
		ranks, total := Ranks(mask, uint64(len(chosen)))
		require.Equal(t, int(RankBytes(uint64(len(chosen)))/8), len(ranks))
		payload := t.take(int(total), 1)
		next := 0
		for i, is := range chosen {
			if i%RankBits == 0 {
				require.Equal(t, uint64(next), ranks[i/RankBits])
			}
			if is {
				set(to, changed, i, payload.bytes()[next])
				next++
			}
		}
		require.Equal(t, uint64(next), total)
		launch, err := t.set.ExpandBits(page, put(t, mask, tableAlignment).address, put(t, ranks, tableAlignment).address,
			payload.address, uint64(len(chosen)), total)
		t.check(launch, err)
	})
}

func scatterTrial[T uint32 | uint64](t *trial) {
	page, to, changed := t.page(t.size())
	origin := T(t.IntN(2) * t.IntN(3))
	offsets := make([]T, 0, to.size)
	for _, offset := range t.Perm(to.size)[:t.IntN(to.size+1)] {
		if t.IntN(40) == 0 {
			offset = to.size + t.IntN(1000) // is passed over
			if t.IntN(2) == 0 {
				offset = -1 - t.IntN(10)
			}
		}
		offsets = append(offsets, T(offset)+origin)
	}
	payload := t.take(len(offsets), 1)
	for i, offset := range offsets {
		if at := uint64(offset) - uint64(origin); at < uint64(to.size) {
			set(to, changed, int(at), payload.bytes()[i])
		}
	}
	width := unsafe.Sizeof(T(0))
	table := put(t, offsets, int(width))
	launch, err := t.set.Scatter(page, table.address, uint64(width), uint64(origin), payload.address, uint64(len(offsets)))
	t.check(launch, err)
}

func TestScatterPutsEachByteAtItsOffset(t *testing.T) {
	trials(t, 300, scatterTrial[uint32])
	trials(t, 300, scatterTrial[uint64])
}

// twins are two ranges that differ at some bytes, and where.
func (t *trial) twins() (a, b *memory, differs []bool) {
	a, b = t.take(t.size(), 1), nil
	b = t.take(a.size, 1)
	differs = t.chosen(a.size)
	for i, does := range differs {
		b.bytes()[i] = a.bytes()[i]
		if does {
			b.bytes()[i] ^= 1 << t.IntN(8)
		}
		b.want()[i] = b.bytes()[i]
	}
	return a, b, differs
}

func TestCompareSaysWhichBytesAreEqual(t *testing.T) {
	trials(t, 500, func(t *trial) {
		a, b, differs := t.twins()
		result := t.take(a.size, 1)
		for i, does := range differs {
			result.want()[i] = 1
			if does {
				result.want()[i] = 0
			}
		}
		launch, err := t.set.Compare(result.address, a.address, b.address, uint64(a.size))
		t.check(launch, err)
	})
}

func TestDifferencesAreAMask(t *testing.T) {
	trials(t, 500, func(t *trial) {
		a, b, differs := t.twins()
		mask := t.take(int(bitBytes(uint64(a.size))), 1)
		clear(mask.want())
		for i, does := range differs {
			if does {
				mask.want()[i/8] |= 1 << (i % 8)
			}
		}
		launch, err := t.set.Differences(mask.address, a.address, b.address, uint64(a.size))
		t.check(launch, err)
	})
}

func TestDifferenceCountsAndFindsTheFirst(t *testing.T) {
	trials(t, 500, func(t *trial) {
		a, b, differs := t.twins()
		before := []uint64{uint64(t.IntN(3)), math.MaxUint64 - uint64(t.IntN(2))}
		found := put(t, before, tableAlignment)
		count, first := before[0], before[1]
		for i, does := range differs {
			if does {
				count++
				first = min(first, uint64(i))
			}
		}
		copy(found.want(), unsafe.Slice((*byte)(unsafe.Pointer(&[]uint64{count, first}[0])), DifferenceBytes))
		launch, err := t.set.Difference(found.address, a.address, b.address, uint64(a.size))
		t.check(launch, err)
	})
}

// checksums is a launch for the parts of random memory.
func (t *trial) checksums(size int, part uint64) driver.Launch {
	from := t.take(size, 1)
	var wanted []byte
	for rest := from.bytes(); len(rest) > 0; {
		of := rest[:min(part, uint64(len(rest)))]
		wanted = binary.LittleEndian.AppendUint32(wanted, crc32.Checksum(of, crc32.MakeTable(crc32.Castagnoli)))
		rest = rest[len(of):]
	}
	require.Equal(t, uint64(len(wanted)/sumBytes), Parts(uint64(size), part))
	sums := t.take(len(wanted), sumBytes)
	copy(sums.want(), wanted)
	launch, err := t.set.Checksum(sums.address, from.address, uint64(size), part)
	require.NoError(t, err)
	return launch
}

func TestChecksumsAreThoseOfEachPart(t *testing.T) {
	trials(t, 500, func(t *trial) { t.check(t.checksums(t.size(), uint64(1+t.size())), nil) })
}

func TestLanesHaveTheChecksumOfEachPart(t *testing.T) {
	const row, loaded = 16 * lanesOfPart, 4 * 16 * lanesOfPart
	trials(t, 2000, func(t *trial) {
		// A few bytes; around whole rows, and around what is loaded at a time; what keeps the alignment of its neighbour; any.
		part := []int{1 + t.IntN(40), row*(1+t.IntN(9)) + t.IntN(9) - 4, loaded*(1+t.IntN(3)) + t.IntN(33) - 16,
			16 * (1 + t.IntN(500)), 1 + t.IntN(10_000)}[t.IntN(5)]
		launch := t.checksums(part*t.IntN(4)+t.IntN(part+1), uint64(part))
		checksumByLanes(launch.Parameter)
		t.checkMemory(lanesOfPart)
	})
}

func TestAPartOfAChecksumHasThirtyTwoThreads(t *testing.T) {
	set, err := Load(&fakeDevice{info: driver.Info{Multiprocessors: 132}}, []byte{1})
	require.NoError(t, err)
	for parts, blocks := range map[uint64]uint32{1: 1, 80: 11, 8000: 1001, 1 << 30: 132 * blocksOfMultiprocessor} {
		launch, err := set.Checksum(0, 1<<40, parts*4096, 4096)
		require.NoError(t, err)
		require.Equal(t, uint32(threadsOfBlock), launch.Threads)
		require.Equal(t, blocks, launch.Blocks)
	}
	launch, err := set.Checksum(0, 1<<63, 1<<60, 1)
	require.NoError(t, err)
	require.Equal(t, uint32(132*blocksOfMultiprocessor), launch.Blocks)
}

func TestPropagateMovesWhatEachMaskHas(t *testing.T) {
	trials(t, 500, func(t *trial) {
		var pairs []Pair
		for range 1 + t.IntN(5) {
			page, to, changed := t.page(t.size())
			chosen := t.chosen(to.size)
			from := t.take(to.size, 1)
			for i, is := range chosen {
				if is {
					set(to, changed, i, from.bytes()[i])
				}
			}
			pairs = append(pairs, Pair{page.Address, from.address, put(t, t.bitMask(chosen), 1).address, page.Changed,
				uint64(to.size), 0})
		}
		_, err := PreparePairs(pairs)
		require.NoError(t, err)
		launch, err := t.set.Propagate(put(t, pairs, tableAlignment).address, pairs)
		t.check(launch, err)
	})
}

func TestAddressesWithoutAliasAreUsedAsTheyAre(t *testing.T) {
	trials(t, 1, func(t *trial) {
		to := t.take(100, 1)
		for i := range to.want() {
			to.want()[i] = 7
		}
		launch, err := t.set.Fill(to.address-alias, 7, 100)
		require.NoError(t, err)
		launch.Accesses = nil
		t.check(launch, nil)
	})
}

func TestManyThreadsAtOnceMarkOneMask(t *testing.T) {
	trials(t, 20, func(t *trial) {
		const size, workers = 4096, 8
		page, to, changed := t.page(size)
		offsets := make([]uint32, size)
		for i, offset := range t.Perm(size) {
			offsets[i] = uint32(offset)
		}
		payload, table := t.take(size, 1), put(t, offsets, 4)
		for i, offset := range offsets {
			set(to, changed, int(offset), payload.bytes()[i])
		}
		launch, err := t.set.Scatter(page, table.address, 4, 0, payload.address, size)
		require.NoError(t, err)
		host, err := FindHost(names[scatter])
		require.NoError(t, err)
		done := make(chan error, workers)
		for worker := range uint64(workers) {
			go func() { done <- host.Run(launch.Parameter, worker, worker+1, workers) }()
		}
		for range workers {
			require.NoError(t, <-done)
		}
		for _, m := range t.memories {
			require.Equal(t, m.wanted, m.whole)
		}
	})
}

// A drain does what is posted, also while it runs, in the order of the posts; it ends where nothing comes, and behind many.
func TestADrainDoesWhatIsPosted(t *testing.T) {
	set := simulated(t)
	box := new(Mailbox)
	var words [8]uint64
	at := driver.Address(uintptr(unsafe.Pointer(&words[0])))
	var kept [][]Span
	copies := func(from, to int) { // words[to] becomes words[from]
		spans := []Span{{To: at + driver.Address(8*to), From: at + driver.Address(8*from), Bytes: 8}}
		launch, err := set.CopyMany(driver.Address(uintptr(unsafe.Pointer(&spans[0]))), spans)
		require.NoError(t, err)
		set.Post(box, &launch)
		kept = append(kept, spans)
	}
	host, err := FindHost(names[drain])
	require.NoError(t, err)
	launch := set.Drain(driver.Address(uintptr(unsafe.Pointer(box))))
	run := func() {
		threads := uint64(launch.Blocks * launch.Threads)
		require.NoError(t, host.Run(launch.Parameter, 1, threads, threads)) // only the first one does anything
		require.NoError(t, host.Run(launch.Parameter, 0, 1, threads))
	}
	run()
	require.True(t, box.IsDone())
	words[0] = 17
	copies(0, 1)
	require.True(t, !box.IsDone())
	box.TakeBack()
	run()
	require.Equal(t, uint64(0), words[1])
	copies(0, 1)
	run()
	require.Equal(t, uint64(17), words[1])

	pair := []Pair{{To: at + 16, From: at, Bytes: 8}}
	bits := []byte{1}
	pair[0].Bits = driver.Address(uintptr(unsafe.Pointer(&bits[0])))
	words[0], words[2] = 0x1111, 0x2222
	pairing, err := set.Propagate(driver.Address(uintptr(unsafe.Pointer(&pair[0]))), pair)
	require.NoError(t, err)
	set.Post(box, &pairing)
	run()
	require.Equal(t, uint64(0x2211), words[2])

	const posts = 2*mostCommands + 10
	var stop atomic.Bool
	runs, ended := 0, make(chan struct{})
	go func() {
		defer close(ended)
		for ; !stop.Load(); runs++ {
			run()
		}
	}()
	for i := range posts {
		words[0] = uint64(i)
		copies(0, 3)
		for !box.IsDone() {
			runtime.Gosched()
		}
		require.Equal(t, uint64(i), words[3])
	}
	stop.Store(true)
	<-ended
	require.True(t, runs > posts/mostCommands, runs)
	runtime.KeepAlive(kept)
}

func TestParametersAreThoseOfTheHeader(t *testing.T) {
	sizes := [kernelCount]uintptr{
		fill: unsafe.Sizeof(fillParameter{}), copying: unsafe.Sizeof(copyParameter{}),
		copyMany:   unsafe.Sizeof(copyManyParameter{}),
		mergeBytes: unsafe.Sizeof(mergeBytesParameter{}), mergeBits: unsafe.Sizeof(mergeBitsParameter{}),
		expandBits: unsafe.Sizeof(expandBitsParameter{}), scatter: unsafe.Sizeof(scatterParameter{}),
		scatterRuns: unsafe.Sizeof(scatterRunsParameter{}), compare: unsafe.Sizeof(compareParameter{}),
		differences: unsafe.Sizeof(differencesParameter{}), difference: unsafe.Sizeof(differenceParameter{}),
		checksum: unsafe.Sizeof(checksumParameter{}), propagate: unsafe.Sizeof(propagateParameter{}),
		drain: unsafe.Sizeof(drainParameter{}),
	}
	for kernel, name := range names {
		host, err := FindHost(name)
		require.NoError(t, err)
		require.Equal(t, int(sizes[kernel]), host.ParameterBytes(), name)
		require.Equal(t, status.Mismatch, status.CodeOf(host.Run(make([]byte, sizes[kernel]-1), 0, 1, 1)))
	}
	require.Equal(t, headerLayout(), [...]uintptr{
		unsafe.Offsetof(Span{}.To), unsafe.Offsetof(Span{}.From), unsafe.Offsetof(Span{}.Bytes), unsafe.Offsetof(Span{}.Piece),
		unsafe.Sizeof(Span{}), pieceBytes, RankBits, lanesOfPart,
		unsafe.Offsetof(Pair{}.To), unsafe.Offsetof(Pair{}.From), unsafe.Offsetof(Pair{}.Bits), unsafe.Offsetof(Pair{}.Changed),
		unsafe.Offsetof(Pair{}.Bytes), unsafe.Offsetof(Pair{}.Piece), unsafe.Sizeof(Pair{}),
		unsafe.Offsetof(Mailbox{}.Posted), unsafe.Offsetof(Mailbox{}.Done), unsafe.Offsetof(Mailbox{}.Kind),
		unsafe.Offsetof(Mailbox{}.Parameter), unsafe.Offsetof(Mailbox{}.Parameter) + 16, unsafe.Sizeof(Mailbox{}),
		kindCopyMany, kindPropagate,
	})
	_, err := FindHost("mmsb__kernel_unknown")
	require.Equal(t, status.NotFound, status.CodeOf(err))
}

func TestBadArgumentsAreRefused(t *testing.T) {
	set := simulated(t)
	page := Page{Address: 4096, Bytes: 1000, Changed: 8192}
	const last = driver.Address(math.MaxUint64)
	spans := func(list ...Span) []Span { return list }
	call := func(launch driver.Launch, err error) error {
		require.Equal(t, err != nil, launch.Blocks == 0)
		return err
	}
	for name, test := range map[string]struct {
		code status.Code
		err  error
	}{
		"fill past the end":          {status.OutOfRange, call(set.Fill(last-8, 0, 10))},
		"copy to past the end":       {status.OutOfRange, call(set.Copy(last-8, 0, 10))},
		"copy from past the end":     {status.OutOfRange, call(set.Copy(0, last-8, 10))},
		"copy overlapping":           {status.InvalidArgument, call(set.Copy(100, 109, 10))},
		"copy overlapping backwards": {status.InvalidArgument, call(set.Copy(109, 100, 10))},
		"copy onto itself":           {status.InvalidArgument, call(set.Copy(100, 100, 1))},
		"table not aligned":          {status.InvalidArgument, call(set.CopyMany(4, spans(Span{1, 2, 1, 0})))},
		"spans overlapping": {status.InvalidArgument,
			call(set.CopyMany(8, spans(Span{4, 99, 2, 0}, Span{5, 9, 1, 0})))},
		"spans falling": {status.InvalidArgument,
			call(set.CopyMany(8, spans(Span{9, 99, 1, 0}, Span{4, 9, 1, 0})))},
		"span past the end":             {status.OutOfRange, call(set.CopyMany(8, spans(Span{last, 2, 9, 0})))},
		"span from past the end":        {status.OutOfRange, call(set.CopyMany(8, spans(Span{2, last, 9, 0})))},
		"run before the page":           {status.OutOfRange, call(set.ScatterRuns(page, 8, spans(Span{4095, 2, 2, 0})))},
		"run behind the page":           {status.OutOfRange, call(set.ScatterRuns(page, 8, spans(Span{5095, 2, 2, 0})))},
		"mask longer than the page":     {status.OutOfRange, call(set.MergeBytes(page, 0, 0, 1001))},
		"bit mask longer than the page": {status.OutOfRange, call(set.MergeBits(page, 0, 0, 1001))},
		"payload past the end":          {status.OutOfRange, call(set.MergeBits(page, 0, last-8, 1000))},
		"mask past the end":             {status.OutOfRange, call(set.MergeBytes(page, last-8, 0, 1000))},
		"change mask not aligned":       {status.InvalidArgument, call(set.MergeBytes(Page{4096, 1000, 8193}, 0, 0, 1000))},
		"change mask past the end":      {status.OutOfRange, call(set.MergeBytes(Page{4096, 1000, last - 3}, 0, 0, 1000))},
		"page past the end":             {status.OutOfRange, call(set.MergeBytes(Page{last - 8, 1000, 0}, 0, 0, 1000))},
		"ranks not aligned":             {status.InvalidArgument, call(set.ExpandBits(page, 0, 4, 0, 1000, 10))},
		"bits not aligned":              {status.InvalidArgument, call(set.ExpandBits(page, 4, 0, 0, 1000, 10))},
		"more bits than there are":      {status.Mismatch, call(set.ExpandBits(page, 0, 0, 0, 10, 11))},
		"offsets of 2 bytes":            {status.InvalidArgument, call(set.Scatter(page, 0, 2, 0, 0, 1))},
		"offsets not aligned":           {status.InvalidArgument, call(set.Scatter(page, 4, 8, 0, 0, 1))},
		"more offsets than bytes":       {status.OutOfRange, call(set.Scatter(page, 0, 8, 0, 0, 1001))},
		"offsets past the end":          {status.OutOfRange, call(set.Scatter(page, last-7, 8, 0, 0, 2))},
		"offsets beyond counting": {status.OutOfRange, call(set.Scatter(Page{0, math.MaxUint64, 0}, 0, 8, 0, 0,
			math.MaxUint64/4))},
		"result past the end":     {status.OutOfRange, call(set.Compare(last-8, 0, 100, 10))},
		"compared past the end":   {status.OutOfRange, call(set.Compare(0, 100, last-8, 10))},
		"result over the first":   {status.InvalidArgument, call(set.Compare(100, 109, 200, 10))},
		"result over the second":  {status.InvalidArgument, call(set.Compare(100, 200, 91, 10))},
		"mask over what it is of": {status.InvalidArgument, call(set.Differences(109, 100, 200, 10))},
		"mask that has no room":   {status.OutOfRange, call(set.Differences(last-1, 100, 200, 20))},
		"count not aligned":       {status.InvalidArgument, call(set.Difference(1004, 100, 200, 10))},
		"count over the first":    {status.InvalidArgument, call(set.Difference(96, 100, 200, 10))},
		"parts of 0 bytes":        {status.InvalidArgument, call(set.Checksum(0, 100, 10, 0))},
		"checksums not aligned":   {status.InvalidArgument, call(set.Checksum(2, 100, 10, 4))},
		"checksums over the bytes": {status.InvalidArgument,
			call(set.Checksum(96, 100, 10, 5))},
		"checksums beyond counting": {status.OutOfRange, call(set.Checksum(0, 0, math.MaxUint64, 1))},
		"checksums past the end":    {status.OutOfRange, call(set.Checksum(last-3, 100, 10, 5))},
		"table of pairs not aligned": {status.InvalidArgument,
			call(set.Propagate(4, []Pair{{1000, 2000, 3000, 0, 10, 0}}))},
		"pair's change mask not aligned": {status.InvalidArgument,
			call(set.Propagate(8, []Pair{{1000, 2000, 3000, 4001, 10, 0}}))},
		"pair to past the end":   {status.OutOfRange, call(set.Propagate(8, []Pair{{last - 8, 2000, 3000, 0, 10, 0}}))},
		"pair from past the end": {status.OutOfRange, call(set.Propagate(8, []Pair{{1000, last - 8, 3000, 0, 10, 0}}))},
		"pair's mask past the end": {status.OutOfRange,
			call(set.Propagate(8, []Pair{{1000, 2000, last, 0, 10, 0}}))},
	} {
		require.Equal(t, test.code, status.CodeOf(test.err), "%s: %v", name, test.err)
	}
}

func TestRisingOffsetsAreTold(t *testing.T) {
	require.True(t, Rising([]uint64{}))
	require.True(t, Rising([]uint64{3}))
	require.True(t, Rising([]uint32{0, 1, 7, math.MaxUint32}))
	require.True(t, !Rising([]uint64{1, 1}))
	require.True(t, !Rising([]uint32{1, 3, 2}))
}

func TestLoadNeedsAnImageOnlyForRealDevices(t *testing.T) {
	real := &fakeDevice{info: driver.Info{Multiprocessors: 132}}
	_, err := Load(real, nil)
	require.Equal(t, status.Unsupported, status.CodeOf(err))
	require.True(t, strings.Contains(err.Error(), "MMSB_CUDA=off"), err.Error())
	require.Equal(t, 0, len(real.loaded))

	set, err := Load(real, []byte{1})
	require.NoError(t, err)
	launch, err := set.Fill(0, 1, 1<<30)
	require.NoError(t, err)
	require.Equal(t, uint32(132*blocksOfMultiprocessor), launch.Blocks)
	require.Equal(t, 0, len(launch.Accesses), "a real device has no use for them")
	require.NoError(t, set.Unload())
	require.Equal(t, 1, real.unloaded)
}

func TestLoadThatFailsLeavesNoModule(t *testing.T) {
	device := &fakeDevice{info: driver.Info{Simulated: true}, missing: names[propagate]}
	_, err := Load(device, nil)
	require.Equal(t, status.NotFound, status.CodeOf(err))
	require.Equal(t, 1, device.unloaded)
}
