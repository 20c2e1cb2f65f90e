// Reading files, pipes and memory at offsets, and mapping them.

package file

import (
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"libmmsb/core/environment"
	"libmmsb/core/status"
)

// Source is a file that is read. Its methods may be called at the same time, Close last.
type Source interface {
	// ReadAt fills p. It is Corrupt where the file ends earlier.
	ReadAt(p []byte, offset int64) (int, error)
	// Size is the length when it was opened.
	Size() int64
	Close() error
}

// opened is the source of an open file.
type opened struct {
	path string
	file File
	size int64
	held int64
	fs   FS // that can open the path again; nil: there is none

	passing struct { // the page cache by
		sync.Mutex
		readers int
		direct  File // the same file without the page cache, while there are readers; nil where there is no such thing
	}
}

// Open opens a regular file. It does not follow a symbolic link in the last component, and waits for no FIFO or device.
// Errors: NotFound, IO.
func Open(fs FS, path string) (Source, error) {
	// A device can do something when it is opened; so look first, and again at what was opened.
	info, err := fs.Stat(path)
	if err != nil {
		return nil, Failed(err, "cannot open %s", path)
	}
	if !info.Mode.IsRegular() {
		return nil, irregular(path, info.Mode)
	}
	f, err := fs.Open(path, unix.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, Failed(err, "cannot open %s", path)
	}
	return sourceOf(f, path, fs)
}

// sourceOf takes the file over.
func sourceOf(f File, path string, fs FS) (Source, error) {
	info, err := f.Stat()
	if err != nil {
		_ = f.Close()
		return nil, Failed(err, "cannot open %s", path)
	}
	if !info.Mode.IsRegular() {
		_ = f.Close()
		return nil, irregular(path, info.Mode)
	}
	return &opened{path: path, file: f, size: info.Size, held: info.Held, fs: fs}, nil
}

// Held is how many bytes of a source lie on the disk or in memory, where that is known: what is not a hole. It bounds what a file
// can truly say.
func Held(source Source) int64 {
	if o, ok := source.(*opened); ok && o.held > 0 {
		return min(o.size, o.held)
	}
	return max(source.Size(), 0)
}

// Expect says that a part of a source is read soon, so that a disk can read it meanwhile. It says nothing of a source that has no
// descriptor.
func Expect(source Source, offset, length int64) {
	if o, ok := source.(*opened); ok && o.file.Descriptor() >= 0 {
		_ = unix.Fadvise(o.file.Descriptor(), offset, length, unix.FADV_WILLNEED)
	}
}

// NextData is where data begins in a source, from an offset on: behind the hole that the offset lies in, if the file system
// tells; the size, where there is none any more.
func NextData(source Source, offset int64) int64 {
	if o, ok := source.(*opened); ok && o.file.Descriptor() >= 0 {
		switch at, err := unix.Seek(o.file.Descriptor(), offset, unix.SEEK_DATA); {
		case err == nil && at >= offset:
			return at
		case err == unix.ENXIO:
			return max(offset, o.size)
		}
	}
	return offset
}

func (o *opened) Size() int64 { return o.size }

func (o *opened) ReadAt(p []byte, offset int64) (int, error) {
	if offset < 0 {
		return 0, errTooShort(o.path, offset, int64(len(p)), o.size)
	}
	n, err := ReadFull(o.file, p, offset)
	switch {
	case err != nil:
		return n, Failed(err, "cannot read %d bytes of %s at offset %d", len(p), o.path, offset)
	case n < len(p):
		return n, errTooShort(o.path, offset, int64(len(p)), offset+int64(n))
	}
	return n, nil
}

func errTooShort(name string, offset, length, end int64) error {
	return status.Errorf(status.Corrupt, "%s ends at offset %d, before %d bytes at offset %d", name, end, length, offset)
}

func (o *opened) Close() error {
	if err := o.file.Close(); err != nil {
		return Failed(err, "cannot close %s", o.path)
	}
	return nil
}

// readPiece reads from one offset to another into a buffer that has room for whole blocks around them, between beginPieces and
// endPieces.
func (o *opened) readPiece(buffer []byte, from, to int64) ([]byte, error) {
	start := alignDown(from)
	if direct := o.passing.direct; direct != nil && !o.file.Cached(from, to-from) {
		// Where the file ends within a block, or an error came, the way through the cache does the rest or says why not.
		n, err := direct.Pread(buffer[:alignUp(to-start)], start)
		if err == nil && start+int64(n) >= to {
			return buffer[from-start : to-start], nil
		}
	}
	piece := buffer[from-start : to-start]
	_, err := o.ReadAt(piece, from)
	return piece, err
}

// beginPieces takes a second descriptor, that the first reader opens and the last one closes: a chain has many files.
func (o *opened) beginPieces() {
	p := &o.passing
	p.Lock()
	defer p.Unlock()
	if p.readers++; p.readers > 1 {
		return
	}
	if direct, err := o.file.Reopen(unix.O_RDONLY | unix.O_DIRECT); err == nil {
		p.direct = direct
	}
}

func (o *opened) endPieces() {
	p := &o.passing
	p.Lock()
	defer p.Unlock()
	if p.readers--; p.readers == 0 && p.direct != nil {
		_ = p.direct.Close()
		p.direct = nil
	}
}

// Bytes is memory as a source. It is not copied.
func Bytes(b []byte) Source { return memorySource(b) }

type memorySource []byte

func (m memorySource) Size() int64  { return int64(len(m)) }
func (m memorySource) Close() error { return nil }

func (m memorySource) ReadAt(p []byte, offset int64) (int, error) {
	if offset < 0 || offset > int64(len(m)) {
		return 0, errTooShort("the file in memory", offset, int64(len(p)), int64(len(m)))
	}
	n := copy(p, m[offset:])
	if n < len(p) {
		return n, errTooShort("the file in memory", offset, int64(len(p)), int64(len(m)))
	}
	return n, nil
}

func (m memorySource) beginPieces() {}
func (m memorySource) endPieces()   {}

func (m memorySource) readPiece(_ []byte, from, to int64) ([]byte, error) { return m[from:to:to], nil }

// Map maps a source for reading; unmap gives the mapping back, which stays valid when the source is closed. A file that was
// replaced (by Replace, or any rename) stays as it was in the mapping. One that is truncated in place does not: touching the
// pages behind its new end raises SIGBUS, as with any mapping. Where there is no descriptor, the mapping is a copy.
func Map(source Source) (bytes []byte, unmap func(), err error) {
	if memory, ok := source.(memorySource); ok {
		return memory, func() {}, nil
	}
	size := source.Size()
	if size == 0 {
		return nil, func() {}, nil
	}
	if size != int64(int(size)) {
		return nil, nil, status.Errorf(status.OutOfMemory, "cannot map a file of %d bytes", size)
	}
	descriptor, flags, protection := -1, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS, unix.PROT_READ|unix.PROT_WRITE
	if o, ok := source.(*opened); ok {
		f := o.file
		if p, ok := f.(*parked); ok {
			if f, err = p.open(); err != nil {
				return nil, nil, Failed(err, "cannot open %s", o.path)
			}
			defer func() { _ = f.Close() }()
		}
		if f.Descriptor() >= 0 {
			descriptor, flags, protection = f.Descriptor(), unix.MAP_SHARED, unix.PROT_READ
		}
	}
	bytes, err = unix.Mmap(descriptor, 0, int(size), protection, flags)
	if err != nil {
		return nil, nil, Failed(err, "cannot map a file of %d bytes", size)
	}
	unmap = func() { _ = unix.Munmap(bytes) }
	if descriptor < 0 {
		if _, err = source.ReadAt(bytes, 0); err != nil {
			unmap()
			return nil, nil, err
		}
	}
	return bytes, unmap, nil
}

// Spool makes a source of an open descriptor of the caller, which stays open. A regular file that stands at its beginning is
// read in place; all else is read to its end into a file without a name in the directory ("" = the one for temporary files).
// When done is closed (nil = never), it fails with Cancelled.
func Spool(fd int, directory string, done <-chan struct{}) (Source, error) {
	name := "what descriptor " + strconv.Itoa(fd) + " gives"
	kind, err := kindOf(fd, unix.O_WRONLY)
	if err != nil {
		return nil, Failed(err, "cannot read descriptor %d", fd)
	}
	if kind == unix.S_IFREG {
		if at, err := unix.Seek(fd, 0, unix.SEEK_CUR); err == nil && at == 0 {
			own, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
			if err != nil {
				return nil, Failed(err, "cannot duplicate descriptor %d", fd)
			}
			return sourceOf(osFile(own), name, nil)
		}
	}
	if directory == "" {
		directory = environment.TemporaryFolder()
	}
	f, err := Nameless(directory)
	if err != nil {
		return nil, err
	}
	if err := spool(fd, f, directory, done); err != nil {
		_ = f.Close()
		return nil, err
	}
	return sourceOf(f, name, nil)
}

func spool(fd int, f File, directory string, done <-chan struct{}) error {
	memory, err := newBuffers(1)
	if err != nil {
		return err
	}
	defer memory.release()
	buffer := <-memory.free
	for at := int64(0); ; {
		if err := await(fd, unix.POLLIN, done, at); err != nil {
			return err
		}
		n, err := retryCount(func() (int, error) { return unix.Read(fd, buffer) })
		switch {
		case err == unix.EAGAIN:
			continue
		case err != nil:
			return Failed(err, "cannot read descriptor %d at offset %d of the stream", fd, at)
		case n == 0:
			return nil
		}
		if err := WriteFull(f, buffer[:n], at); err != nil {
			return Failed(err, "cannot write %d bytes at offset %d of a temporary file in %s", n, at, directory)
		}
		at += int64(n)
	}
}

// Nameless makes a file in a directory that has no name there: it goes when it is closed, however the process ends.
func Nameless(directory string) (File, error) {
	f, err := open(directory, unix.O_RDWR|unix.O_TMPFILE|unix.O_EXCL, 0o600)
	if err == nil {
		return f, nil
	}
	if err == unix.EOPNOTSUPP || err == unix.EISDIR {
		return unnamed(directory)
	}
	return nil, Failed(err, "cannot create a temporary file in %s", directory)
}

// unnamed is for file systems that have no files without a name from the beginning.
func unnamed(directory string) (File, error) {
	f, path, err := createTemporary(OS{}, strings.TrimSuffix(directory, "/")+"/", "spool", 0o600)
	if err != nil {
		return nil, err
	}
	if err := (OS{}).Remove(path); err != nil {
		_ = f.Close()
		return nil, Failed(err, "cannot unlink %s", path)
	}
	return f, nil
}
