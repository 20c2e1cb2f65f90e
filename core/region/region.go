// Package region takes host memory from the system, outside the Go heap, one mapping at a time.
//
// Memory comes in regions. A region has a number; page records say number and offset, never an address, so that a region may lie
// elsewhere in another process.
package region

import (
	"sync"
	"sync/atomic"
	"syscall"
	"unsafe"

	"libmmsb/core/limits"
	"libmmsb/core/status"
	"libmmsb/native"

	"golang.org/x/sys/unix"
)

// SystemPage is the unit in which the system gives memory.
const SystemPage = 4096

const hugePage = 2 << 20

type kind uint8

const (
	none kind = iota
	anonymous
	file
	foreign
)

type region struct {
	base   uintptr
	length uint64
	kind   kind
}

var (
	lock    sync.Mutex
	regions = make([]region, 1) // by number; region 0 is none
	free    []uint32

	anonymousBytes atomic.Uint64
)

// Usage is the number of bytes mapped for host pages.
func Usage() uint64 { return anonymousBytes.Load() }

// register gives a region a number, or what it has back to the system.
func register(r region) (uint32, error) {
	lock.Lock()
	var number uint32
	switch {
	case len(free) > 0:
		number = free[len(free)-1]
		free = free[:len(free)-1]
	case len(regions) < native.Regions:
		number = uint32(len(regions))
		regions = append(regions, region{})
	default:
		lock.Unlock()
		r.unmap()
		return 0, status.Errorf(status.Limit, "all %d memory regions are in use", native.Regions-1)
	}
	regions[number] = r
	native.SetRegion(number, r.base)
	lock.Unlock()
	return number, nil
}

// unmap gives the system a region's memory back. Foreign memory stays.
func (r region) unmap() {
	switch r.kind {
	case anonymous:
		native.Unpoison(r.base, r.length)
		munmap(r.base, r.length)
		anonymousBytes.Add(-r.length)
	case file:
		munmap(r.base, r.length)
	case none, foreign:
	}
}

func get(number uint32) region {
	lock.Lock()
	defer lock.Unlock()
	return regions[number]
}

// Map takes zeroed memory. Where huge is set and the region is large enough, it is aligned for huge pages and asks for them.
func Map(length uint64, huge bool) (uint32, error) {
	length = (length + SystemPage - 1) &^ (SystemPage - 1)
	extra := uint64(0)
	if huge && length >= hugePage {
		extra = hugePage
	} else {
		huge = false
	}
	if length == 0 || length+extra < length || length+extra > 1<<46 {
		return 0, status.Errorf(status.OutOfMemory, "%d bytes exceed the address space", length)
	}
	base, err := mmap(length+extra, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS, -1, 0)
	if err != 0 {
		return 0, status.FromErrno(status.OutOfMemory, err, "cannot map %d bytes of memory", length)
	}
	if huge {
		aligned := (base + hugePage - 1) &^ (hugePage - 1)
		if head := aligned - base; head > 0 {
			munmap(base, uint64(head))
		}
		if tail := uint64(base) + length + extra - uint64(aligned) - length; tail > 0 {
			munmap(aligned+uintptr(length), tail)
		}
		base = aligned
		advise(base, length, unix.MADV_HUGEPAGE)
	}
	anonymousBytes.Add(length)
	return register(region{base, length, anonymous})
}

// MapFile maps a range of a file for reading and writing; changes reach the file.
func MapFile(descriptor int, offset, length uint64) (uint32, error) {
	base, err := mmap(length, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED, descriptor, offset)
	if err != 0 {
		return 0, status.FromErrno(status.IO, err, "cannot map %d bytes of a file at offset %d", length, offset)
	}
	return register(region{base, length, file})
}

// Adopt gives the caller's memory a number.
func Adopt(base uintptr, length uint64) (uint32, error) {
	return register(region{base, length, foreign})
}

// Unmap gives a region back. Foreign memory is only forgotten.
func Unmap(number uint32) {
	lock.Lock()
	r := regions[number]
	regions[number] = region{}
	native.SetRegion(number, 0)
	lock.Unlock()
	r.unmap()
	lock.Lock()
	free = append(free, number)
	lock.Unlock()
}

// Resize makes an anonymous region longer or shorter. It may move; what is added is zero.
func Resize(number uint32, length uint64) error {
	length = (length + SystemPage - 1) &^ (SystemPage - 1)
	r := get(number)
	if length == r.length {
		return nil
	}
	if length > r.length && limits.Addresses(length-r.length) != nil {
		return status.FromErrno(status.OutOfMemory, unix.ENOMEM, "cannot resize %d bytes of memory to %d", r.length, length)
	}
	base, _, err := syscall.Syscall6(syscall.SYS_MREMAP, r.base, uintptr(r.length), uintptr(length), unix.MREMAP_MAYMOVE, 0, 0)
	if err != 0 {
		return status.FromErrno(status.OutOfMemory, err, "cannot resize %d bytes of memory to %d", r.length, length)
	}
	lock.Lock()
	regions[number].base, regions[number].length = base, length
	native.SetRegion(number, base)
	lock.Unlock()
	anonymousBytes.Add(length - r.length)
	return nil
}

// Discard gives the system back the memory behind a range of a region; it is zero afterwards.
func Discard(number uint32, offset, length uint64) {
	advise(get(number).base+uintptr(offset), length, unix.MADV_DONTNEED)
}

// Prefer asks the system to take a region's memory from a NUMA node as long as that has some.
func Prefer(number uint32, node int32) error {
	const preferred = 1 // MPOL_PREFERRED
	var nodes [16]uint64
	if node < 0 || int(node) >= len(nodes)*64 {
		return status.Errorf(status.InvalidArgument, "%d is not a NUMA node", node)
	}
	nodes[node/64] = 1 << (node % 64)
	r := get(number)
	_, _, errno := syscall.Syscall6(syscall.SYS_MBIND, r.base, uintptr(r.length), preferred, uintptr(unsafe.Pointer(&nodes)),
		uintptr(len(nodes)*64), 0)
	switch {
	case errno == 0 || errno == unix.ENOSYS && node == 0: // a kernel without NUMA has one node
		return nil
	case errno == unix.EINVAL || errno == unix.ENOSYS:
		return status.FromErrno(status.InvalidArgument, errno, "NUMA node %d does not exist", node)
	}
	return status.FromErrno(status.Unsupported, errno, "cannot ask for NUMA node %d", node)
}

// Base is where a region lies.
func Base(number uint32) uintptr { return get(number).base }

// Length is how long a region is.
func Length(number uint32) uint64 { return get(number).length }

func mmap(length uint64, protection, flags, descriptor int, offset uint64) (uintptr, syscall.Errno) {
	if limits.Addresses(length) != nil {
		return 0, unix.ENOMEM
	}
	base, _, err := syscall.Syscall6(syscall.SYS_MMAP, 0, uintptr(length), uintptr(protection), uintptr(flags),
		uintptr(descriptor), uintptr(offset))
	return base, err
}

func munmap(base uintptr, length uint64) {
	_, _, _ = syscall.Syscall(syscall.SYS_MUNMAP, base, uintptr(length), 0)
}

func advise(base uintptr, length uint64, advice int) {
	_, _, _ = syscall.Syscall(syscall.SYS_MADVISE, base, uintptr(length), uintptr(advice))
}

// BytesAt is foreign memory as bytes.
func BytesAt(base uintptr, length uint64) []byte {
	return unsafe.Slice((*byte)(unsafe.Add(unsafe.Pointer(nil), base)), length)
}
