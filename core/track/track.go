// Package track knows which system pages of a program's memory were written, without the program's help.
//
// It uses the write-protection of userfaultfd in its asynchronous mode, where the kernel takes the fault of the first write to
// a page itself, and the scan of the page map, which reads and re-arms in one step (Linux 6.7 or newer; no privilege needed).
//
// What counts as a write:
//   - every store of this process through the watched mapping, by whichever thread;
//   - what the kernel writes there for a system call: read, recv, process_vm_writev of another process, and so on;
//   - the start of a transfer that the kernel lets a device do, such as a read with O_DIRECT: the page counts when the call
//     is made. Arming while such a transfer is under way misses what the device writes after that;
//   - discarding private memory (MADV_DONTNEED, and MADV_FREE once the kernel has taken the page): it reads as zero;
//   - asking for a page as if to write it (mlock, MADV_POPULATE_WRITE, a pin for writing), though nothing changed.
//
// What is not seen, because it goes past this process's page tables: a device, or io_uring with fixed buffers, writing to
// memory that was pinned before it was armed; another process or another mapping writing to shared memory, which is why Watch
// takes private memory only.
//
// Reading never counts. The unit is the system page, also in transparent huge pages: the first write to an armed one splits
// its mapping, and from then on its small pages count alone. As long as one of them is armed the kernel does not join them
// again, and memory that was armed before it was ever touched comes in small pages: arm memory when it is filled. A huge page
// that comes into being by a write, because it was not armed, counts whole.
//
// A forked child is not watched and cannot use what it inherits; watching goes on in the parent.
package track

import (
	"cmp"
	"os"
	"slices"
	"sync"
	"syscall"

	"libmmsb/core/status"

	"golang.org/x/sys/unix"
)

// Range is the addresses from Start up to but not including End.
type Range struct{ Start, End uintptr }

var systemPage = uintptr(os.Getpagesize())

// outward is the range in whole system pages.
func (r Range) outward() Range {
	return Range{r.Start &^ (systemPage - 1), (r.End + systemPage - 1) &^ (systemPage - 1)}
}

// within is what of the range lies in another; its End is not above its Start where nothing does.
func (r Range) within(other Range) Range {
	return Range{max(r.Start, other.Start), min(r.End, other.End)}
}

func (r Range) empty() bool { return r.End <= r.Start }

// Memory is watched memory. Every system page of it counts as written until it has been armed.
type Memory struct {
	exact Range // as the caller gave it
	pages Range // outward
	// overlapping is the other memory with system pages in common: arming one must not take a write from the other.
	overlapping []*Memory
	pending     []Range // in order and apart: written, but re-armed since for the sake of others; or never armed
	released    bool
}

// tracker is all that is watched in this process.
var tracker struct {
	sync.Mutex
	kernel  func() (*kernel, error)
	watched []*Memory // by start
	longest uintptr   // of all ever watched: how far before an address memory may start that reaches it
}

func init() { tracker.kernel = sync.OnceValues(openKernel) }

// Available is nil where this process can track, and otherwise says why not. It has been tried, once.
func Available() error {
	_, err := usable()
	return err
}

func usable() (*kernel, error) {
	k, err := tracker.kernel()
	if err != nil {
		return nil, err
	}
	if process := os.Getpid(); process != k.process {
		return nil, status.Errorf(status.Forked, "write tracking belongs to process %d, not to its child %d", k.process, process)
	}
	return k, nil
}

// Watch begins to watch private anonymous memory (what malloc and mmap without a file give). Memory may be watched more than
// once and overlap; each is armed and collected on its own. UNSUPPORTED, with nothing changed, where writes could go unseen.
func Watch(address, length uintptr) (*Memory, error) { return watch(address, length, false) }

// watch watches shared memory, too, where the caller vouches for who writes there. Only tests do.
func watch(address, length uintptr, shared bool) (*Memory, error) {
	k, err := usable()
	if err != nil {
		return nil, err
	}
	exact := Range{address, address + length}
	m := &Memory{exact: exact, pages: exact.outward()}
	if exact.empty() || m.pages.empty() {
		return nil, status.Errorf(status.InvalidSize, "cannot track %d bytes at 0x%x", length, address)
	}
	m.pending = []Range{m.pages}
	if err := checkMappings(k, m.pages, shared); err != nil {
		return nil, err
	}
	tracker.Lock()
	defer tracker.Unlock()
	m.overlapping = overlapping(m.pages)
	plain, errno := k.register(m.pages)
	if errno == 0 && plain {
		at, _ := slices.BinarySearchFunc(tracker.watched, m.pages.Start, startsBefore)
		tracker.watched = slices.Insert(tracker.watched, at, m)
		tracker.longest = max(tracker.longest, m.pages.End-m.pages.Start)
		for _, other := range m.overlapping {
			other.overlapping = append(other.overlapping, m)
		}
		return m, nil
	}
	if errno == 0 || errno == unix.ENOMEM { // what else is refused, is refused before anything changes
		m.unregister(k)
	}
	return nil, refusal(m.pages, errno)
}

func startsBefore(m *Memory, start uintptr) int { return cmp.Compare(m.pages.Start, start) }

func refusal(r Range, errno syscall.Errno) error {
	code, reason := status.Unsupported, "cannot be tracked"
	switch errno {
	case 0:
		return status.Errorf(code, "[0x%x, 0x%x) has hugetlbfs pages, which cannot be tracked", r.Start, r.End)
	case unix.EBUSY:
		reason = "is watched by another userfaultfd"
	case unix.EPERM:
		reason = "can never be written"
	case unix.ENOMEM:
		code, reason = status.OutOfMemory, "has no room in the kernel to be watched (vm.max_map_count?)"
	}
	return status.FromErrno(code, errno, "[0x%x, 0x%x) %s", r.Start, r.End, reason)
}

// overlapping is the watched memory that has pages in common with a range.
func overlapping(pages Range) []*Memory {
	first := uintptr(0)
	if pages.Start > tracker.longest {
		first = pages.Start - tracker.longest
	}
	var found []*Memory
	at, _ := slices.BinarySearchFunc(tracker.watched, first, startsBefore)
	for _, m := range tracker.watched[at:] {
		if m.pages.Start >= pages.End {
			break
		}
		if !m.pages.within(pages).empty() {
			found = append(found, m)
		}
	}
	return found
}

// unregister takes back what no other memory needs.
func (m *Memory) unregister(k *kernel) {
	own := []Range{m.pages}
	for _, other := range m.overlapping {
		own = without(own, other.pages)
	}
	for _, r := range own {
		k.unregister(r)
	}
}

// Release ends watching. It may come after the memory is gone.
func (m *Memory) Release() {
	k, err := usable()
	if err != nil {
		return // a forked child, which watches nothing
	}
	tracker.Lock()
	defer tracker.Unlock()
	if m.released {
		return
	}
	m.released = true
	at, _ := slices.BinarySearchFunc(tracker.watched, m.pages.Start, startsBefore)
	for tracker.watched[at] != m {
		at++
	}
	tracker.watched = slices.Delete(tracker.watched, at, at+1)
	for _, other := range m.overlapping {
		other.overlapping = slices.DeleteFunc(other.overlapping, func(o *Memory) bool { return o == m })
	}
	m.unregister(k)
}

// Whole is the range that was given to Watch.
func (m *Memory) Whole() Range { return m.exact }

// Arm forgets the writes to a part, so that it counts from now on. The part is as in Collect.
func (m *Memory) Arm(part Range) error {
	_, err := m.Collect(part, true, nil)
	return err
}

// Collect appends what of a part was written since it was last armed: in order, apart from each other, in whole system pages
// but not past the part. With rearm the part counts anew, in the same step: a write is either in this answer, and its bytes
// are in the memory, or in the next one. The part is Whole(), or begins and ends with a system page or with the memory.
//
// INVALID_STATE where memory is no longer mapped as it was when watched: it was unmapped, moved or mapped anew by others.
// After an error the part counts as written. Calls for the same process wait for each other.
func (m *Memory) Collect(part Range, rearm bool, to []Range) ([]Range, error) {
	k, err := usable()
	if err != nil {
		return to, err
	}
	pages := part.outward()
	whole := func(edge, end uintptr) bool { return edge%systemPage == 0 || edge == end }
	if part.empty() || part.within(m.exact) != part || !whole(part.Start, m.exact.Start) || !whole(part.End, m.exact.End) {
		return to, status.Errorf(status.InvalidArgument,
			"[0x%x, 0x%x) is not a range of system pages within the tracked [0x%x, 0x%x)", part.Start, part.End,
			m.exact.Start, m.exact.End)
	}
	tracker.Lock()
	defer tracker.Unlock()
	if m.released {
		return to, status.Errorf(status.InvalidState, "[0x%x, 0x%x) is no longer tracked", m.exact.Start, m.exact.End)
	}
	before := len(to)
	err = k.scan(pages, rearm, func(r Range) { to = add(to, before, r) })
	if rearm {
		m.tellOthers(to[before:])
	}
	if err != nil {
		m.pending = united(append(m.pending, pages))
		return to[:before], err
	}
	if len(m.pending) > 0 {
		for _, r := range m.pending {
			if r = r.within(pages); !r.empty() {
				to = append(to, r)
			}
		}
		to = to[:before+len(united(to[before:]))]
		if rearm {
			m.pending = without(m.pending, pages)
		}
	}
	for i := range to[before:] {
		to[before+i] = to[before+i].within(part)
	}
	return to, nil
}

// tellOthers keeps the writes that were just re-armed for those who have them in common.
func (m *Memory) tellOthers(written []Range) {
	for _, other := range m.overlapping {
		for _, r := range written {
			if r = r.within(other.pages); !r.empty() {
				other.pending = append(other.pending, r)
			}
		}
		other.pending = united(other.pending)
	}
}

// add appends a range that lies behind those from index first on, joined with the last where they touch.
func add(to []Range, first int, r Range) []Range {
	if last := len(to) - 1; last >= first && to[last].End >= r.Start {
		to[last].End = max(to[last].End, r.End)
		return to
	}
	return append(to, r)
}

// united sorts ranges and joins those that touch, in place.
func united(ranges []Range) []Range {
	slices.SortFunc(ranges, func(a, b Range) int { return cmp.Compare(a.Start, b.Start) })
	result := ranges[:0]
	for _, r := range ranges {
		result = add(result, 0, r)
	}
	return result
}

// without is the ranges less what lies in hole.
func without(ranges []Range, hole Range) []Range {
	var result []Range
	for _, r := range ranges {
		for _, rest := range [...]Range{{r.Start, min(r.End, hole.Start)}, {max(r.Start, hole.End), r.End}} {
			if !rest.empty() {
				result = append(result, rest)
			}
		}
	}
	return result
}
