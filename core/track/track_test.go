package track

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"libmmsb/core/status"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

const (
	private   = unix.MAP_PRIVATE | unix.MAP_ANONYMOUS
	readWrite = unix.PROT_READ | unix.PROT_WRITE
	hugePage  = 2 << 20
)

// WatchShared also takes shared memory and shared mappings of files. The caller vouches that whoever writes does so through
// this mapping: writes of other processes, through other mappings and by write calls to the file are not seen, nor are holes
// punched into it.
func WatchShared(address, length uintptr) (*Memory, error) { return watch(address, length, true) }

func needTracking(t testing.TB) {
	t.Helper()
	if err := Available(); err != nil {
		t.Skipf("NOT TESTED: this machine cannot track writes: %v", err)
	}
}

// mapped is memory of its own, in small pages, that a test may unmap itself.
func mapped(t testing.TB, pages int) []byte {
	t.Helper()
	memory := mappedWith(t, pages*int(systemPage), private, -1)
	require.NoError(t, unix.Madvise(memory, unix.MADV_NOHUGEPAGE))
	return memory
}

// passing is memory that a test unmaps in part: the rest stays, for who knows what has taken the place of the part.
func passing(t *testing.T, pages int) []byte {
	t.Helper()
	memory, err := unix.Mmap(-1, 0, pages*int(systemPage), readWrite, private)
	require.NoError(t, err)
	require.NoError(t, unix.Madvise(memory, unix.MADV_NOHUGEPAGE))
	return memory
}

func mappedWith(t testing.TB, size, flags, descriptor int) []byte {
	t.Helper()
	memory, err := unix.Mmap(descriptor, 0, size, readWrite, flags)
	require.NoError(t, err)
	t.Cleanup(func() { _ = unix.Munmap(memory) })
	return memory
}

func rangeOf(memory []byte) Range {
	start := uintptr(unsafe.Pointer(unsafe.SliceData(memory)))
	return Range{start, start + uintptr(len(memory))}
}

func watchAll(t testing.TB, memory []byte) *Memory {
	t.Helper()
	r := rangeOf(memory)
	m, err := Watch(r.Start, r.End-r.Start)
	require.NoError(t, err)
	t.Cleanup(m.Release)
	return m
}

func armed(t testing.TB, memory []byte) *Memory {
	t.Helper()
	m := watchAll(t, memory)
	require.NoError(t, m.Arm(m.Whole()))
	return m
}

// collected is what was written, as offsets in pages: pairs of first and end.
func collected(t testing.TB, m *Memory, rearm bool) [][2]int {
	t.Helper()
	ranges, err := m.Collect(m.Whole(), rearm, nil)
	require.NoError(t, err)
	var pages [][2]int
	for _, r := range ranges {
		first, end := r.Start-m.pages.Start, r.End-m.pages.Start
		pages = append(pages, [2]int{int(first / systemPage), int((end + systemPage - 1) / systemPage)})
	}
	return pages
}

func page(memory []byte, number int) []byte {
	return memory[number*int(systemPage) : (number+1)*int(systemPage)]
}

func codeIs(t *testing.T, code status.Code, err error) {
	t.Helper()
	require.Error(t, err)
	assert.Equal(t, code, status.CodeOf(err), err.Error())
}

// sink keeps reads from being optimised away.
var sink atomic.Uint32

func TestWritesAreFound(t *testing.T) {
	needTracking(t)
	memory := mapped(t, 16)
	page(memory, 1)[7] = 1
	m := watchAll(t, memory)
	assert.Equal(t, [][2]int{{0, 16}}, collected(t, m, false), "everything counts until armed")
	require.NoError(t, m.Arm(m.Whole()))
	assert.Empty(t, collected(t, m, false))
	sink.Add(uint32(page(memory, 1)[0]) + uint32(page(memory, 9)[0]))
	assert.Empty(t, collected(t, m, false), "reading counts as writing, of a page with content or of one never touched")
	page(memory, 1)[7] = 1 // the same value again
	page(memory, 5)[0] = 1 // never touched before
	page(memory, 6)[systemPage-1] = 1
	page(memory, 15)[0] = 1
	want := [][2]int{{1, 2}, {5, 7}, {15, 16}}
	assert.Equal(t, want, collected(t, m, false))
	assert.Equal(t, want, collected(t, m, true), "collecting without rearm took something away")
	assert.Empty(t, collected(t, m, true))
	page(memory, 9)[0] = 1 // only read so far
	assert.Equal(t, [][2]int{{9, 10}}, collected(t, m, true))
	appended, err := m.Collect(m.Whole(), true, []Range{{1, 2}})
	require.NoError(t, err)
	assert.Equal(t, []Range{{1, 2}}, appended)
}

// More separate ranges than one answer of the kernel has room for.
func TestManyStretches(t *testing.T) {
	needTracking(t)
	const pages = 5000
	memory := mapped(t, pages)
	m := armed(t, memory)
	var want [][2]int
	for number := 1; number < pages; number += 2 {
		page(memory, number)[0] = 1
		want = append(want, [2]int{number, number + 1})
	}
	assert.Equal(t, want, collected(t, m, false))
	assert.Equal(t, want, collected(t, m, true))
	assert.Empty(t, collected(t, m, true))
}

// A memory of random overlapping watches against a model that knows what was written.
func TestModel(t *testing.T) {
	needTracking(t)
	const pages, watches, steps = 64, 5, 4000
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	memory := mapped(t, pages)
	base := rangeOf(memory).Start
	pipe := make([]int, 2)
	require.NoError(t, unix.Pipe(pipe))
	defer func() { _, _ = unix.Close(pipe[0]), unix.Close(pipe[1]) }()

	type watched struct {
		*Memory
		written [pages]bool // of the memory's own pages, as numbers in the whole
	}
	var all []*watched
	touched := func(first, end int) {
		for _, w := range all {
			for p := first; p < end; p++ {
				w.written[p] = true
			}
		}
	}
	begin := func() *watched {
		start := random.IntN(len(memory) - 1)
		end := start + 1 + random.IntN(len(memory)-start)
		if random.IntN(2) == 0 {
			start, end = start&^int(systemPage-1), min(len(memory), end|int(systemPage-1)+1)
		}
		m, err := Watch(base+uintptr(start), uintptr(end-start))
		require.NoError(t, err)
		w := &watched{Memory: m}
		for p := range w.written {
			w.written[p] = true
		}
		return w
	}
	for range watches {
		all = append(all, begin())
	}
	defer func() {
		for _, w := range all {
			w.Release()
		}
	}()
	number := func(address uintptr) int { return int((address - base) / systemPage) }
	// part is a random part of a watch, with its first page and the page after its last.
	part := func(w *watched) (Range, int, int) {
		first, last := number(w.Whole().Start), number(w.Whole().End-1)
		from := first + random.IntN(last-first+1)
		to := from + random.IntN(last-from+1)
		r := Range{base + uintptr(from)*systemPage, base + uintptr(to+1)*systemPage}
		return r.within(w.Whole()), from, to + 1
	}
	for step := range steps {
		switch w := all[random.IntN(watches)]; random.IntN(12) {
		case 0, 1, 2, 3:
			at := random.IntN(len(memory))
			memory[at] = byte(step)
			touched(at/int(systemPage), at/int(systemPage)+1)
		case 4:
			sink.Add(uint32(memory[random.IntN(len(memory))]))
		case 5:
			first := random.IntN(pages)
			end := first + 1 + random.IntN(min(4, pages-first))
			require.NoError(t, unix.Madvise(memory[first*int(systemPage):end*int(systemPage)], unix.MADV_DONTNEED))
			touched(first, end)
		case 6: // the kernel writes across a border
			at := random.IntN(len(memory) - 8)
			_, err := unix.Write(pipe[1], []byte("8 bytes!"))
			require.NoError(t, err)
			_, err = unix.Read(pipe[0], memory[at:at+8])
			require.NoError(t, err)
			touched(at/int(systemPage), (at+7)/int(systemPage)+1)
		case 7:
			r, first, end := part(w)
			require.NoError(t, w.Arm(r))
			clear(w.written[first:end])
		case 8:
			other := random.IntN(watches)
			all[other].Release()
			all[other] = begin()
		default:
			r, first, end := part(w)
			rearm := random.IntN(2) == 0
			var want []Range
			for p := first; p < end; p++ {
				if w.written[p] {
					want = add(want, 0, Range{base + uintptr(p)*systemPage, base + uintptr(p+1)*systemPage}.within(r))
				}
			}
			got, err := w.Collect(r, rearm, nil)
			require.NoError(t, err)
			require.Equal(t, want, got, "step %d, rearm %v, part %x of %x", step, rearm, r, w.Whole())
			if rearm {
				clear(w.written[first:end])
			}
		}
	}
}

// Writers stamp pages while pages are collected and copied. A lost write leaves an old stamp in the copy.
func TestNoWriteIsLost(t *testing.T) {
	needTracking(t)
	const pages, writers, rounds = 3 * hugePage / 4096, 3, 150
	kinds := map[string]func() ([]byte, *Memory){
		"small pages": func() ([]byte, *Memory) {
			memory := mapped(t, pages)
			return memory, armed(t, memory)
		},
		"huge pages": func() ([]byte, *Memory) {
			memory := hugeMemory(t, pages*int(systemPage)/hugePage)
			return memory, armed(t, memory)
		},
		"shared": func() ([]byte, *Memory) {
			memory := mappedWith(t, pages*int(systemPage), unix.MAP_SHARED|unix.MAP_ANONYMOUS, -1)
			r := rangeOf(memory)
			m, err := WatchShared(r.Start, r.End-r.Start)
			require.NoError(t, err)
			t.Cleanup(m.Release)
			require.NoError(t, m.Arm(m.Whole()))
			return memory, m
		},
	}
	for name, kind := range kinds {
		t.Run(name, func(t *testing.T) {
			memory, m := kind()
			stampOf := func(number int) *atomic.Uint64 { return (*atomic.Uint64)(unsafe.Pointer(&page(memory, number)[0])) }
			copied := make([]uint64, pages)
			for number := range copied {
				copied[number] = stampOf(number).Load()
			}
			var stop atomic.Bool
			var stamps, working atomic.Uint64
			var group sync.WaitGroup
			defer func() {
				stop.Store(true)
				group.Wait()
			}()
			for writer := range writers {
				group.Go(func() {
					random := rand.New(rand.NewPCG(1, uint64(writer)))
					working.Add(1)
					for !stop.Load() {
						stampOf(random.IntN(pages)).Store(stamps.Add(1) << 8)
					}
				})
			}
			collect := func() (found int) {
				written, err := m.Collect(m.Whole(), true, nil)
				require.NoError(t, err)
				for _, r := range written {
					for at := r.Start; at < r.End; at += systemPage {
						number := int((at - m.pages.Start) / systemPage)
						copied[number] = stampOf(number).Load()
						found++
					}
				}
				return found
			}
			for working.Load() < writers {
				time.Sleep(time.Millisecond)
			}
			found := 0
			for round := 0; round < rounds || found <= rounds; round++ { // on a busy machine the writers may come late
				found += collect()
			}
			stop.Store(true)
			group.Wait()
			collect()
			for number, stamp := range copied {
				require.Equal(t, stampOf(number).Load(), stamp, "the last write to page %d was lost", number)
			}
			t.Logf("%d writes, %d pages collected in %d rounds", stamps.Load(), found, rounds)
		})
	}
}

func TestPartialPagesAndNeighbours(t *testing.T) {
	needTracking(t)
	memory := mapped(t, 8)
	inner := memory[systemPage+100 : 5*systemPage+50]
	m := armed(t, inner)
	r := m.Whole()
	page(memory, 0)[systemPage-1] = 1
	page(memory, 6)[0] = 1
	assert.Empty(t, collected(t, m, true), "a neighbour's page was reported")
	inner[0], inner[len(inner)-1] = 1, 1
	written, err := m.Collect(r, true, nil)
	require.NoError(t, err)
	firstPage, lastPage := r.outward().Start, r.outward().End-systemPage
	assert.Equal(t, []Range{{r.Start, firstPage + systemPage}, {lastPage, r.End}}, written, "clipped to what is watched")
	page(memory, 1)[0] = 1 // not ours, but in our first page
	assert.Equal(t, [][2]int{{0, 1}}, collected(t, m, true))

	for _, part := range []Range{{r.Start + 1, r.End}, {r.Start, r.End - 1}, {r.Start - 1, r.End}, {r.Start, r.End + 1},
		{r.Start, r.Start}, {r.End, r.Start}, {firstPage, firstPage + systemPage}} {
		_, err := m.Collect(part, true, nil)
		codeIs(t, status.InvalidArgument, err)
	}
	inner[0], inner[len(inner)-1], inner[2*systemPage] = 2, 2, 2
	written, err = m.Collect(Range{firstPage + systemPage, lastPage}, true, nil)
	require.NoError(t, err)
	assert.Equal(t, []Range{{firstPage + 2*systemPage, firstPage + 3*systemPage}}, written)
	assert.Equal(t, [][2]int{{0, 1}, {4, 5}}, collected(t, m, true), "collecting a part took from the rest")
}

func TestTwoWatchesWithAPageInCommon(t *testing.T) {
	needTracking(t)
	memory := mapped(t, 4)
	one, two := armed(t, memory[:systemPage+10]), armed(t, memory[systemPage+10:3*systemPage])
	same := armed(t, memory[:systemPage+10])
	page(memory, 1)[5] = 1
	assert.Equal(t, [][2]int{{1, 2}}, collected(t, one, true))
	assert.Empty(t, collected(t, one, true))
	assert.Equal(t, [][2]int{{0, 1}}, collected(t, two, false), "one took two's write")
	require.NoError(t, same.Arm(same.Whole()))
	assert.Equal(t, [][2]int{{0, 1}}, collected(t, two, true))
	page(memory, 1)[5] = 2
	same.Release()
	same.Release()
	_, err := same.Collect(same.Whole(), true, nil)
	codeIs(t, status.InvalidState, err)
	assert.Equal(t, [][2]int{{0, 1}}, collected(t, two, true))
	assert.Equal(t, [][2]int{{1, 2}}, collected(t, one, true), "releasing one watch ended the other")
	one.Release()
	page(memory, 1)[5] = 3
	assert.Equal(t, [][2]int{{0, 1}}, collected(t, two, true), "releasing one watch took the common page from the other")
}

func TestUnwatchable(t *testing.T) {
	needTracking(t)
	size := int(systemPage)
	file, err := os.CreateTemp(t.TempDir(), "")
	require.NoError(t, err)
	defer func() { _ = file.Close() }()
	require.NoError(t, file.Truncate(int64(systemPage)))
	shared := rangeOf(mappedWith(t, size, unix.MAP_SHARED|unix.MAP_ANONYMOUS, -1)).Start
	sharedFile := rangeOf(mappedWith(t, size, unix.MAP_SHARED, int(file.Fd()))).Start
	privateFile := rangeOf(mappedWith(t, size, unix.MAP_PRIVATE, int(file.Fd()))).Start
	variables := specialMapping(t, "[vvar]")
	length := func(r Range) uintptr { return r.End - r.Start }
	hole := rangeOf(passing(t, 4)) // last: a later mapping would fill it
	unmap(t, Range{hole.Start + systemPage, hole.Start + 2*systemPage})
	for _, c := range []struct {
		name            string
		address, length uintptr
		shared          bool
		code            status.Code
		text            string
	}{
		{"shared anonymous", shared, systemPage, false, status.Unsupported, "shared"},
		{"shared file", sharedFile, systemPage, false, status.Unsupported, "shared"},
		{"private file", privateFile, systemPage, false, status.Unsupported, "private file mapping"},
		{"private file, shared allowed", privateFile, systemPage, true, status.Unsupported, "private file mapping"},
		{"the kernel's variables", variables.Start, length(variables), false, status.Unsupported, "cannot be tracked"},
		{"a hole", hole.Start, length(hole), false, status.InvalidArgument, "nothing is mapped"},
		{"a hole, shared allowed", hole.Start, length(hole), true, status.InvalidArgument, "nothing is mapped"},
		{"address 0", 0, 1, false, status.InvalidArgument, "nothing is mapped"},
		{"above everything", math.MaxUint64 - 3*systemPage, systemPage, false, status.InvalidArgument, "nothing is mapped"},
		{"nothing", hole.Start, 0, false, status.InvalidSize, "0 bytes"},
		{"nothing, within a page", hole.Start + 1, 0, false, status.InvalidSize, "0 bytes"},
		{"past the end", math.MaxUint64 - systemPage, systemPage + 10, false, status.InvalidSize, "cannot track"},
		{"the last byte", math.MaxUint64 - 10, 5, false, status.InvalidSize, "cannot track"},
		{"more than there is", hole.Start, math.MaxUint64, false, status.InvalidSize, "cannot track"},
	} {
		t.Run(c.name, func(t *testing.T) {
			start := Watch
			if c.shared {
				start = WatchShared
			}
			_, err := start(c.address, c.length)
			codeIs(t, c.code, err)
			assert.Contains(t, err.Error(), c.text)
		})
	}
	t.Run("nothing changed", func(t *testing.T) {
		other := otherFaults(t)
		_, errno := other.register(Range{hole.Start, hole.Start + systemPage})
		assert.Zero(t, errno, "a refused watch left its mark")
	})
}

func unmap(t *testing.T, r Range) {
	t.Helper()
	_, _, errno := unix.Syscall(unix.SYS_MUNMAP, r.Start, r.End-r.Start, 0)
	require.Zero(t, errno)
}

func mapAt(t *testing.T, r Range, flag uintptr) {
	t.Helper()
	_, _, errno := unix.Syscall6(unix.SYS_MMAP, r.Start, r.End-r.Start, readWrite, private|flag, ^uintptr(0), 0)
	require.Zero(t, errno)
}

// specialMapping is a mapping by its name in /proc/self/maps.
func specialMapping(t *testing.T, name string) Range {
	t.Helper()
	list, err := os.ReadFile("/proc/self/maps")
	require.NoError(t, err)
	for line := range strings.Lines(string(list)) {
		if strings.Contains(line, name) {
			var r Range
			_, err := fmt.Sscanf(line, "%x-%x ", &r.Start, &r.End)
			require.NoError(t, err)
			return r
		}
	}
	require.Fail(t, "no mapping "+name)
	return Range{}
}

// otherFaults is a userfaultfd of somebody else.
func otherFaults(t *testing.T) *kernel {
	t.Helper()
	other, err := openKernel()
	require.NoError(t, err)
	t.Cleanup(other.close)
	return other
}

func TestAnotherUserfaultfd(t *testing.T) {
	needTracking(t)
	memory := mapped(t, 4)
	other := otherFaults(t)
	_, errno := other.register(rangeOf(page(memory, 2)))
	require.Zero(t, errno)
	r := rangeOf(memory)
	_, err := Watch(r.Start, r.End-r.Start)
	codeIs(t, status.Unsupported, err)
	assert.Contains(t, err.Error(), "another userfaultfd")
	assert.EqualValues(t, unix.EBUSY, status.Of(err).Foreign)
	below, err := Watch(r.Start, 2*systemPage)
	require.NoError(t, err, "a refused watch left its mark, or took too much")
	defer below.Release()
	require.NoError(t, other.scan(rangeOf(page(memory, 2)), true, func(Range) {}), "the refused watch ended the other's")
}

func TestHugetlb(t *testing.T) {
	needTracking(t)
	// Without a reserve this needs no huge page of the system, as long as it is not touched.
	flags := unix.MAP_SHARED | unix.MAP_ANONYMOUS | unix.MAP_HUGETLB | unix.MAP_NORESERVE
	memory, err := unix.Mmap(-1, 0, 2*hugePage, readWrite, flags)
	if err != nil {
		t.Skipf("NOT TESTED: no hugetlbfs: %v", err)
	}
	defer func() { _ = unix.Munmap(memory) }()
	r := rangeOf(memory)
	for range 2 { // the first refusal must not make the second another
		_, err = WatchShared(r.Start, r.End-r.Start)
		codeIs(t, status.Unsupported, err)
		assert.Contains(t, err.Error(), "hugetlbfs")
	}
	_, errno := otherFaults(t).register(r)
	assert.Zero(t, errno, "a refused watch left its mark")
	_, err = WatchShared(r.Start+systemPage, systemPage)
	codeIs(t, status.Unsupported, err)
}

func TestMemoryThatGoesAway(t *testing.T) {
	needTracking(t)
	remap := map[string]func(t *testing.T, memory []byte){
		"unmapped": func(t *testing.T, memory []byte) {
			r := rangeOf(page(memory, 2))
			unmap(t, r)
		},
		"unmapped at the end": func(t *testing.T, memory []byte) { unmap(t, rangeOf(page(memory, 7))) },
		"unmapped wholly":     func(t *testing.T, memory []byte) { unmap(t, rangeOf(memory)) },
		"mapped anew": func(t *testing.T, memory []byte) {
			r := rangeOf(page(memory, 2))
			mapAt(t, r, unix.MAP_FIXED)
		},
		"moved away": func(t *testing.T, memory []byte) {
			to := rangeOf(passing(t, 8))
			r := rangeOf(memory)
			_, _, errno := unix.Syscall6(unix.SYS_MREMAP, r.Start, 8*systemPage, 8*systemPage,
				unix.MREMAP_MAYMOVE|unix.MREMAP_FIXED, to.Start, 0)
			require.Zero(t, errno)
			moved, err := Watch(to.Start, 8*systemPage)
			require.NoError(t, err, "what moved cannot be watched again")
			defer moved.Release()
			require.NoError(t, moved.Arm(moved.Whole()))
			assert.Empty(t, collected(t, moved, true))
		},
	}
	for name, change := range remap {
		t.Run(name, func(t *testing.T) {
			memory := passing(t, 8)
			m := armed(t, memory)
			page(memory, 0)[0] = 1
			change(t, memory)
			for range 2 {
				_, err := m.Collect(m.Whole(), true, nil)
				codeIs(t, status.InvalidState, err)
				codeIs(t, status.InvalidState, m.Arm(m.Whole()))
			}
			m.Release()
		})
	}
	t.Run("after an error all counts", func(t *testing.T) {
		memory := passing(t, 8)
		m := armed(t, memory)
		page(memory, 0)[0] = 1
		r := rangeOf(page(memory, 2))
		unmap(t, r)
		_, err := m.Collect(m.Whole(), true, nil)
		codeIs(t, status.InvalidState, err)
		mapAt(t, r, unix.MAP_FIXED_NOREPLACE)
		again := watchAll(t, memory)
		assert.Equal(t, [][2]int{{0, 8}}, collected(t, again, false))
		assert.Equal(t, [][2]int{{0, 8}}, collected(t, m, true), "the write to page 0 was lost with the error")
		assert.Empty(t, collected(t, m, true))
	})
}

func TestChangesThatAreNoWrites(t *testing.T) {
	needTracking(t)
	memory := mapped(t, 8)
	page(memory, 1)[0] = 1
	m := armed(t, memory)
	for _, protection := range []int{unix.PROT_READ, unix.PROT_NONE, readWrite} {
		require.NoError(t, unix.Mprotect(memory[systemPage:3*systemPage], protection))
		assert.Empty(t, collected(t, m, true))
	}
	require.NoError(t, unix.Madvise(page(memory, 1), unix.MADV_COLD))
	require.NoError(t, unix.Madvise(page(memory, 3), unix.MADV_POPULATE_READ))
	assert.Empty(t, collected(t, m, true))
	page(memory, 1)[0], page(memory, 3)[0] = 2, 2
	assert.Equal(t, [][2]int{{1, 2}, {3, 4}}, collected(t, m, true))
}

func TestDiscarding(t *testing.T) {
	needTracking(t)
	memory := mapped(t, 3*hugePage/int(systemPage))
	for i := 0; i < len(memory); i += int(systemPage) {
		memory[i] = 1
	}
	m := armed(t, memory)
	discard := func(first, end, advice int) {
		require.NoError(t, unix.Madvise(memory[first*int(systemPage):end*int(systemPage)], advice))
	}
	discard(3, 5, unix.MADV_DONTNEED)
	want := [][2]int{{3, 5}}
	assert.Equal(t, want, collected(t, m, false))
	sink.Add(uint32(page(memory, 3)[0]))
	assert.Equal(t, want, collected(t, m, true), "reading the zeros hid the discarding")
	assert.Empty(t, collected(t, m, true))
	page(memory, 4)[0] = 1
	assert.Equal(t, [][2]int{{4, 5}}, collected(t, m, true), "a discarded page was not armed again")

	discard(0, len(memory)/int(systemPage), unix.MADV_DONTNEED) // whole page tables
	assert.Equal(t, [][2]int{{0, len(memory) / int(systemPage)}}, collected(t, m, true))
	assert.Empty(t, collected(t, m, true))
	page(memory, 600)[0] = 1
	assert.Equal(t, [][2]int{{600, 601}}, collected(t, m, true))

	page(memory, 8)[0] = 1
	require.NoError(t, m.Arm(m.Whole()))
	discard(8, 9, unix.MADV_FREE)
	discard(8, 9, unix.MADV_PAGEOUT)
	if page(memory, 8)[0] == 0 {
		assert.Equal(t, [][2]int{{8, 9}}, collected(t, m, true), "the kernel took a page away unseen")
	} else {
		t.Log("the kernel did not take the page that MADV_FREE offered")
		assert.Empty(t, collected(t, m, true), "page offered but not taken")
	}
}

// What older kernels say of a discarded page, and what is then done for it.
func TestDiscardingOnOlderKernels(t *testing.T) {
	for categories, want := range map[uint64][2]bool{
		pageTracked:                             {true, true},
		pageTracked | pageWritten:               {true, false},
		pageTracked | pagePresent:               {false, false},
		pageTracked | pageSwapped:               {false, false},
		pageTracked | pagePresent | pageWritten: {true, false},
		pageTracked | pageSwapped | pageWritten: {true, false},
	} {
		written, absent := wasWritten(categories)
		assert.Equal(t, want, [2]bool{written, absent}, "%#x", categories)
	}
	needTracking(t)
	memory := mapped(t, 4)
	m := armed(t, memory)
	require.NoError(t, unix.Madvise(memory[systemPage:3*systemPage], unix.MADV_DONTNEED))
	k, err := usable()
	require.NoError(t, err)
	require.Zero(t, k.writeProtect(rangeOf(page(memory, 1))))
	assert.Equal(t, [][2]int{{2, 3}}, collected(t, m, true))
	page(memory, 1)[0] = 1
	assert.Equal(t, [][2]int{{1, 2}}, collected(t, m, true))
}

// hugeMemory is memory in huge pages, all written.
func hugeMemory(t testing.TB, count int) []byte {
	t.Helper()
	whole := mappedWith(t, (count+1)*hugePage, private, -1)
	memory := whole[-rangeOf(whole).Start&(hugePage-1):][:count*hugePage]
	require.NoError(t, unix.Madvise(memory, unix.MADV_HUGEPAGE))
	for i := 0; i < len(memory); i += int(systemPage) {
		memory[i] = 1
	}
	if huge := hugePages(t, memory); huge != count {
		t.Skipf("NOT TESTED: %d of %d pages are huge; see /sys/kernel/mm/transparent_hugepage/enabled", huge, count)
	}
	return memory
}

// hugePages counts the huge pages that a range is mapped by.
func hugePages(t testing.TB, memory []byte) (count int) {
	t.Helper()
	const pageHuge = 1 << 6
	k, err := usable()
	require.NoError(t, err)
	var regions [64]pageRegion
	r := rangeOf(memory)
	argument := scanArgument{size: uint64(unsafe.Sizeof(scanArgument{})), start: uint64(r.Start), end: uint64(r.End),
		categoryMask: pageHuge, categoryReturned: pageHuge,
		vector: uint64(uintptr(unsafe.Pointer(&regions[0]))), vectorLength: uint64(len(regions))}
	found, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(k.pagemap), ioctlPagemapScan, uintptr(unsafe.Pointer(&argument)))
	require.Zero(t, errno)
	for _, region := range regions[:found] {
		count += int(region.end-region.start) / hugePage
	}
	return count
}

func TestHugePages(t *testing.T) {
	needTracking(t)
	const perHuge = 512
	memory := hugeMemory(t, 4)
	m := armed(t, memory)
	assert.Equal(t, 4, hugePages(t, memory), "arming splits")
	page(memory, perHuge+7)[0] = 2
	assert.Equal(t, [][2]int{{perHuge + 7, perHuge + 8}}, collected(t, m, false), "exact within a huge page")
	assert.Equal(t, 3, hugePages(t, memory), "the write splits the huge page it lies in, and no other")
	assert.Equal(t, [][2]int{{perHuge + 7, perHuge + 8}}, collected(t, m, true))
	assert.Error(t, unix.Madvise(memory[hugePage:2*hugePage], unix.MADV_COLLAPSE), "armed small pages are not joined")
	page(memory, perHuge)[0] = 2
	assert.Equal(t, [][2]int{{perHuge, perHuge + 1}}, collected(t, m, true))

	require.NoError(t, unix.Madvise(memory[2*hugePage:3*hugePage], unix.MADV_DONTNEED))
	assert.Equal(t, [][2]int{{2 * perHuge, 3 * perHuge}}, collected(t, m, false), "a discarded huge page")
	page(memory, 2*perHuge+1)[0] = 1
	assert.Equal(t, [][2]int{{2 * perHuge, 3 * perHuge}}, collected(t, m, true))
	assert.Empty(t, collected(t, m, true))
	page(memory, 2*perHuge+1)[0] = 1
	assert.Equal(t, [][2]int{{2*perHuge + 1, 2*perHuge + 2}}, collected(t, m, true))
}

// Arming a part of a huge page splits it, and the rest stays as it was.
func TestPartOfAHugePage(t *testing.T) {
	needTracking(t)
	memory := hugeMemory(t, 2)
	m := armed(t, memory[3*systemPage:5*systemPage])
	assert.Equal(t, 1, hugePages(t, memory))
	page(memory, 2)[0], page(memory, 4)[0], page(memory, 5)[0] = 2, 2, 2
	assert.Equal(t, [][2]int{{1, 2}}, collected(t, m, true))
}

// Memory that is armed before it was ever touched comes in small pages.
func TestHugePagesNeverTouched(t *testing.T) {
	needTracking(t)
	whole := mappedWith(t, 3*hugePage, private, -1)
	memory := whole[-rangeOf(whole).Start&(hugePage-1):][:2*hugePage]
	require.NoError(t, unix.Madvise(memory, unix.MADV_HUGEPAGE))
	m := armed(t, memory)
	page(memory, 5)[0] = 1
	assert.Equal(t, [][2]int{{5, 6}}, collected(t, m, true))
	assert.Zero(t, hugePages(t, memory))
}

func TestForkedChildIsNotWatched(t *testing.T) {
	needTracking(t)
	memory := mapped(t, 8)
	shared := mappedWith(t, int(systemPage), unix.MAP_SHARED|unix.MAP_ANONYMOUS, -1)
	page(memory, 1)[0], page(memory, 2)[0] = 1, 1
	m := armed(t, memory)
	page(memory, 1)[0] = 2
	child := forkWriting(&page(memory, 3)[0], &shared[0])
	require.Positive(t, child)
	var waited unix.WaitStatus
	_, err := unix.Wait4(child, &waited, 0, nil)
	require.NoError(t, err)
	require.True(t, waited.Exited() && waited.ExitStatus() == 0, "the child died of its write: %v", waited)
	require.EqualValues(t, 1, shared[0], "the child did not write")
	page(memory, 2)[0] = 2 // copied on write, because of the fork
	assert.Equal(t, [][2]int{{1, 3}}, collected(t, m, true), "the parent's writes, before and after, and none of the child")
	page(memory, 3)[0] = 1
	assert.Equal(t, [][2]int{{3, 4}}, collected(t, m, true))
}

// forkWriting makes a child that writes to two places and ends.
//
//go:norace
//go:nosplit
func forkWriting(private, shared *byte) int {
	child, _, errno := unix.RawSyscall(unix.SYS_CLONE, uintptr(unix.SIGCHLD), 0, 0)
	if errno != 0 {
		return -1
	}
	if child == 0 {
		*private = 9
		*shared = 1
		for {
			unix.RawSyscall(unix.SYS_EXIT_GROUP, 0, 0, 0)
		}
	}
	return int(child)
}

func TestInAForkedChildAndWhereThereIsNoTracking(t *testing.T) {
	needTracking(t)
	memory := mapped(t, 2)
	m := armed(t, memory)
	real := tracker.kernel
	t.Cleanup(func() { tracker.kernel = real })
	missing := status.FromErrno(status.Unsupported, unix.ENOSYS, "no kernel")
	for code, replacement := range map[status.Code]func() (*kernel, error){
		status.Forked:      func() (*kernel, error) { return &kernel{process: os.Getpid() + 1}, nil },
		status.Unsupported: func() (*kernel, error) { return nil, missing },
	} {
		tracker.kernel = replacement
		codeIs(t, code, Available())
		_, err := Watch(rangeOf(memory).Start, 1)
		codeIs(t, code, err)
		_, err = m.Collect(m.Whole(), true, nil)
		codeIs(t, code, err)
		m.Release()
		assert.False(t, m.released)
	}
}

func TestMappingsBothWays(t *testing.T) {
	needTracking(t)
	k, err := usable()
	require.NoError(t, err)
	file, err := os.CreateTemp(t.TempDir(), "")
	require.NoError(t, err)
	defer func() { _ = file.Close() }()
	require.NoError(t, file.Truncate(int64(systemPage)))
	for _, memory := range [][]byte{
		mappedWith(t, int(systemPage), unix.MAP_SHARED|unix.MAP_ANONYMOUS, -1),
		mappedWith(t, int(systemPage), unix.MAP_SHARED, int(file.Fd())),
		mappedWith(t, int(systemPage), unix.MAP_PRIVATE, int(file.Fd())),
		mapped(t, 1),
	} {
		queried, err := k.mappingAt(rangeOf(memory).Start)
		require.NoError(t, err)
		listed, err := listedMappingAt(rangeOf(memory).Start)
		require.NoError(t, err)
		assert.Equal(t, queried, listed)
		assert.Equal(t, rangeOf(memory).Start, rangeOf(memory).within(listed.where).Start)
	}
	unused := rangeOf(passing(t, 3))
	unmap(t, Range{unused.Start + systemPage, unused.Start + 2*systemPage})
	for _, lookUp := range []func(uintptr) (mapping, error){k.mappingAt, listedMappingAt} {
		next, err := lookUp(unused.Start + systemPage)
		require.NoError(t, err)
		assert.Equal(t, unused.Start+2*systemPage, next.where.Start, "the next one above a hole")
		none, err := lookUp(^uintptr(0) - systemPage)
		require.NoError(t, err)
		assert.Equal(t, nothingAbove, none)
	}
}
