package residency

import (
	"os"
	"sync"

	"libmmsb/core/alloc"
	"libmmsb/core/log"
	"libmmsb/core/memory"
	"libmmsb/core/region"
	"libmmsb/core/status"

	"golang.org/x/sys/unix"
)

// disk is the file that a context's pages on disk lie in: unlinked from the start, so that nothing stays when the process dies.
// Its space is allocated before a page has it: writing to a mapped file on a full disk would kill the process.
type disk struct {
	sync.Mutex
	file    *os.File
	extents *alloc.Extents
	length  uint64 // in units
	used    uint64 // in units
}

const (
	diskUnit   = region.SystemPage
	diskGrowth = 256 // units: the file grows by at least a MiB
)

func (d *disk) open(folder string) error {
	if d.file != nil {
		return nil
	}
	descriptor, err := unix.Open(folder, unix.O_RDWR|unix.O_TMPFILE|unix.O_CLOEXEC, 0o600)
	if err == nil {
		d.file = os.NewFile(uintptr(descriptor), folder)
	} else { // a file system without nameless files
		file, createErr := os.CreateTemp(folder, "mmsb-*.pages")
		if createErr != nil {
			return status.FromErrno(status.IO, status.ErrnoOf(createErr), "cannot create a file for pages in %q", folder)
		}
		if err := os.Remove(file.Name()); err != nil {
			log.Logf(log.Warning, "cannot unlink %q: %v", file.Name(), err)
		}
		d.file = file
	}
	d.extents = alloc.NewExtents(0)
	return nil
}

// take allocates file space, which reads as zero.
func (d *disk) take(folder string, size uint64) (at, length uint64, err error) {
	d.Lock()
	defer d.Unlock()
	if err := d.open(folder); err != nil {
		return 0, 0, err
	}
	units := memory.RoundUp(size) / diskUnit
	first, ok := d.extents.Allocate(units, 1)
	if !ok {
		d.length += max(units, diskGrowth)
		if err := d.extents.Grow(d.length); err != nil {
			return 0, 0, err
		}
		if first, ok = d.extents.Allocate(units, 1); !ok {
			return 0, 0, status.Errorf(status.OutOfMemory, "no extent of %d system pages in a file of %d", units,
				d.length)
		}
	}
	at, length = first*diskUnit, units*diskUnit
	if err := unix.Fallocate(int(d.file.Fd()), 0, int64(at), int64(length)); err != nil {
		_ = d.extents.Free(first, units)
		errno := status.ErrnoOf(err)
		code := status.IO
		if errno == unix.ENOSPC || errno == unix.EDQUOT {
			code = status.NoSpace
		}
		return 0, 0, status.FromErrno(code, errno, "cannot allocate %d bytes of disk space in %q", length, folder)
	}
	d.used += units
	return at, length, nil
}

// give gives file space back to the file system.
func (d *disk) give(at, length uint64) {
	d.Lock()
	defer d.Unlock()
	if d.file == nil {
		return
	}
	err := unix.Fallocate(int(d.file.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE,
		int64(at), int64(length))
	if err != nil { // without holes the next page must find zeros all the same
		log.Logf(log.Warning, "the file system cannot punch holes (%v): %d bytes at %d stay allocated", err, length, at)
		return
	}
	_ = d.extents.Free(at/diskUnit, length/diskUnit)
	d.used -= length / diskUnit
}

func (d *disk) close() {
	d.Lock()
	defer d.Unlock()
	if d.file != nil {
		_ = d.file.Close()
		d.file = nil
	}
}

func (d *disk) bytes() uint64 {
	d.Lock()
	defer d.Unlock()
	return d.used * diskUnit
}

func (d *disk) write(at uint64, bytes []byte) error {
	if _, err := d.file.WriteAt(bytes, int64(at)); err != nil {
		code := status.IO
		if status.ErrnoOf(err) == unix.ENOSPC {
			code = status.NoSpace
		}
		return status.FromErrno(code, status.ErrnoOf(err), "cannot write %d bytes of a page to disk", len(bytes))
	}
	return nil
}

func (d *disk) read(at uint64, bytes []byte) error {
	if _, err := d.file.ReadAt(bytes, int64(at)); err != nil {
		return status.FromErrno(status.IO, status.ErrnoOf(err), "cannot read %d bytes of a page from disk", len(bytes))
	}
	return nil
}
