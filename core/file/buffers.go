// Aligned buffers outside the Go heap for direct reads and writes.

package file

import (
	"runtime"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"

	"libmmsb/core/status"
)

// The buffers of a Sink and of Pieces.
const (
	BufferSize = 4 << 20
	// Buffers is how many a Sink has, readBuffers how many there are to read.
	Buffers     = 8
	readBuffers = 5
	// Alignment is that of buffers, offsets and lengths where the page cache is passed by.
	Alignment = 4096
)

const hugePage = 2 << 20

// buffers is the memory of a few buffers.
type buffers struct {
	mapping []byte
	free    chan []byte
}

// spare is memory that somebody used before, of a file that was read and of one that was written beside it: touching new memory
// takes longer than a small file. The system may take its pages back where it needs them.
var spare struct {
	sync.Mutex
	mappings [][]byte // at most mostSpare
}

const mostSpare = 2

// moreProcessors gives Go's scheduler a processor more for each buffer. A goroutine in a system call that blocks keeps one until
// the runtime takes it away, which can be milliseconds later: work on other buffers, and calls from C into Go, would wait.
var moreProcessors = sync.OnceFunc(func() { runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + Buffers) })

// newBuffers gives count buffers, at most Buffers.
func newBuffers(count int) (*buffers, error) {
	moreProcessors()
	mapping, err := bufferMemory()
	if err != nil {
		return nil, err
	}
	b := &buffers{mapping, make(chan []byte, count)}
	base := hugeBase(mapping)
	for i := range count {
		from := base + i*BufferSize
		b.free <- mapping[from : from+BufferSize : from+BufferSize]
	}
	return b, nil
}

// bufferMemory asks for huge pages: a request to the disk then has few pieces. Reads are 2.9 times, writes 1.4 times as fast.
func bufferMemory() ([]byte, error) {
	if mapping := takeSpare(); mapping != nil {
		return mapping, nil
	}
	const length = Buffers*BufferSize + hugePage
	mapping, err := unix.Mmap(-1, 0, length, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return nil, status.Errorf(status.OutOfMemory, "cannot map %d bytes for buffers: %v", length, err)
	}
	_ = unix.Madvise(mapping[hugeBase(mapping):][:Buffers*BufferSize], unix.MADV_HUGEPAGE)
	return mapping, nil
}

func takeSpare() []byte {
	spare.Lock()
	defer spare.Unlock()
	last := len(spare.mappings) - 1
	if last < 0 {
		return nil
	}
	mapping := spare.mappings[last]
	spare.mappings = spare.mappings[:last]
	return mapping
}

// hugeBase is where the first huge page begins.
func hugeBase(mapping []byte) int { return int(-address(mapping) % hugePage) }

func address(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }

// release keeps the memory of one as spare.
func (b *buffers) release() {
	mapping := b.mapping
	b.mapping = nil
	spare.Lock()
	if len(spare.mappings) < mostSpare && mapping != nil && unix.Madvise(mapping, unix.MADV_FREE) == nil {
		spare.mappings, mapping = append(spare.mappings, mapping), nil
	}
	spare.Unlock()
	if mapping != nil {
		_ = unix.Munmap(mapping)
	}
}

// Blocks is so much memory, zeros, that may be written past the page cache.
func Blocks(length int) []byte {
	b := make([]byte, length+Alignment)
	return b[int(-address(b)%Alignment):][:length:length]
}

func alignDown(n int64) int64 { return n &^ (Alignment - 1) }
func alignUp(n int64) int64   { return alignDown(n + Alignment - 1) }
