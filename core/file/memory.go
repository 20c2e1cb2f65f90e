// The sink that writes to memory.

package file

import (
	"golang.org/x/sys/unix"

	"libmmsb/core/limits"
	"libmmsb/core/status"
)

// MemorySink keeps what it is given in memory outside the Go heap.
type MemorySink struct {
	pipeline
	mapping []byte
}

// Memory makes a sink whose bytes can be had after its Finish.
func Memory() (*MemorySink, error) {
	m := &MemorySink{}
	if err := m.start(1, m.write); err != nil {
		return nil, err
	}
	return m, nil
}

func (m *MemorySink) write(bytes []byte, at int64) error {
	end := int(at) + len(bytes)
	if end > len(m.mapping) {
		// Memory that was never touched costs nothing: doubling moves the bytes seldom.
		if err := m.resize(max(end, 2*len(m.mapping), BufferSize)); err != nil {
			return err
		}
	}
	copy(m.mapping[at:], bytes)
	return nil
}

func (m *MemorySink) resize(length int) error {
	var mapping []byte
	var err error
	if err = limits.Addresses(uint64(length)); err != nil {
	} else if m.mapping == nil {
		mapping, err = unix.Mmap(-1, 0, length, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	} else {
		mapping, err = unix.Mremap(m.mapping, length, unix.MREMAP_MAYMOVE)
	}
	if err != nil {
		return status.Errorf(status.OutOfMemory, "cannot allocate %d bytes for a file: %v", length, err)
	}
	m.mapping = mapping
	if length > BufferSize { // small files are not worth a huge page; large ones are written, and given back, in far fewer pieces
		_ = unix.Madvise(mapping, unix.MADV_HUGEPAGE)
	}
	return nil
}

// Finish makes Bytes whole.
func (m *MemorySink) Finish() error {
	if !m.end() {
		return errEnded()
	}
	err := m.failure()
	if err == nil && m.mapping != nil {
		err = m.resize(int(alignUp(m.size)))
	}
	if err != nil {
		m.Close()
	}
	return err
}

// Abort gives the memory back, where Finish has not been called.
func (m *MemorySink) Abort() {
	if m.end() {
		m.Close()
	}
}

// Bytes is the file, from Finish to Close.
func (m *MemorySink) Bytes() []byte {
	if m.mapping == nil {
		return nil
	}
	return m.mapping[:m.size:m.size]
}

// Close gives the memory back. It may be called twice.
func (m *MemorySink) Close() {
	m.end()
	if m.mapping != nil {
		_ = unix.Munmap(m.mapping)
		m.mapping = nil
	}
}
