package residency

import (
	"os"
	"sync"

	"libmmsb/core/alloc"
	"libmmsb/core/limits"
	"libmmsb/core/log"
	"libmmsb/core/memory"
	"libmmsb/core/region"
	"libmmsb/core/status"
	"libmmsb/native"

	"golang.org/x/sys/unix"
)

// disk is the file that a context's pages on disk lie in: unlinked from the start, so that nothing stays when the process dies.
// Its space is allocated before a page has it: a full disk is met when a page is created or migrated, not when it is written.
//
// The file system gives space in large pieces, and space that a page has left stays for the next ones, as much as pages have, or
// spareMin where they have less. Beyond that half of it goes back.
type disk struct {
	sync.Mutex
	context uint32
	file    *os.File
	extents *alloc.Extents // of the file, in units, also where it has no space
	space   alloc.Set      // units that have space
	written alloc.Set      // of these, those that may differ from zero
	noHoles bool           // the file system cannot punch holes, which the log has
	held    uint64         // how many have space
	used    uint64         // how many of them pages have
}

const (
	diskUnit = region.SystemPage
	// The file's space grows by an eighth, within these bounds, in units.
	growthMin = (1 << 20) / diskUnit
	growthMax = (64 << 20) / diskUnit
	// spareMin is how many units are kept, however few pages have.
	spareMin = (64 << 20) / diskUnit
	// zeroRangeMin is from how many units on the file system is asked for zeros: for less writing them costs less.
	zeroRangeMin = (1 << 20) / diskUnit
)

var zeros [64 * diskUnit]byte

func (d *disk) open(folder string) error {
	if d.file != nil {
		return nil
	}
	file, err := nameless(folder)
	if err != nil {
		return err
	}
	d.file = file
	d.extents = alloc.NewExtents(0)
	native.SetDiskFile(d.context, d.descriptor())
	return nil
}

// nameless makes a file without a name.
func nameless(folder string) (*os.File, error) {
	descriptor, err := unix.Open(folder, unix.O_RDWR|unix.O_TMPFILE|unix.O_CLOEXEC, 0o600)
	if err == nil {
		return os.NewFile(uintptr(descriptor), folder), nil
	}
	file, err := os.CreateTemp(folder, "mmsb-*.pages") // on a file system without nameless files
	if err != nil {
		return nil, status.FromErrno(status.IO, status.ErrnoOf(err), "cannot create a file for pages in %q", folder)
	}
	if err := os.Remove(file.Name()); err != nil {
		log.Logf(log.Warning, "cannot unlink %q: %v", file.Name(), err)
	}
	return file, nil
}

// CheckFolder fails where there can be no file for pages in a folder.
func CheckFolder(folder string) error {
	file, err := nameless(folder)
	if err == nil {
		err = file.Close()
	}
	return err
}

func (d *disk) descriptor() int { return int(d.file.Fd()) }

// take takes file space; where it is not to be zeroed, it may have bytes of the context's pages.
func (d *disk) take(folder string, size uint64, zeroed bool) (at, length uint64, err error) {
	d.Lock()
	defer d.Unlock()
	if err := d.open(folder); err != nil {
		return 0, 0, err
	}
	units := memory.RoundUp(size) / diskUnit
	first, ok := d.extents.Allocate(units, 1)
	if !ok {
		if err := d.extents.Grow(d.extents.Limit() + max(units, growthMax)); err != nil {
			return 0, 0, err
		}
		if first, ok = d.extents.Allocate(units, 1); !ok {
			return 0, 0, status.Errorf(status.OutOfMemory, "no extent of %d system pages in a file of %d", units,
				d.extents.Limit())
		}
	}
	if err = d.fill(first, first+units); err == nil && zeroed {
		err = d.zero(first, first+units)
	}
	if err != nil {
		_ = d.extents.Free(first, units)
		code, errno := status.IO, status.ErrnoOf(err)
		if noSpace(errno) {
			code = status.NoSpace
		}
		return 0, 0, status.FromErrno(code, errno, "cannot allocate %d bytes of disk space in %q", units*diskUnit, folder)
	}
	d.written.Add(first, first+units)
	d.used += units
	return first * diskUnit, units * diskUnit, nil
}

// fill gives units space that have none. Where the disk is full, what is spare elsewhere in the file goes first.
func (d *disk) fill(first, end uint64) (err error) {
	d.space.Gaps(first, end, func(from, to uint64) {
		if err != nil {
			return
		}
		if err = d.allocate(from, d.growth(from, to)); err != nil {
			err = d.allocate(from, to)
		}
		if err != nil && d.giveBack(0) {
			err = d.allocate(from, to)
		}
	})
	return err
}

// growth is up to where units get space that are free, with those from one on to another one that are needed.
func (d *disk) growth(from, to uint64) uint64 {
	end := min(from+min(max(d.held/8, growthMin), growthMax), d.extents.Limit())
	if taken, found := d.space.Next(to); found {
		end = min(end, taken)
	}
	return max(end, to)
}

// allocate gives units space. Zeros take it, too, where the file system or the system cannot allocate: only they can say that the
// disk is full before a page has the space.
func (d *disk) allocate(first, end uint64) error {
	err := d.fallocate(0, first, end)
	if err != nil && !noSpace(status.ErrnoOf(err)) {
		err = d.writeZeros(first, end)
	}
	if err != nil {
		return err
	}
	d.space.Add(first, end)
	d.held += end - first
	return nil
}

func noSpace(errno unix.Errno) bool {
	return errno == unix.ENOSPC || errno == unix.EDQUOT || errno == unix.EFBIG
}

// systemFallocate is the system's; tests put others in its place.
var systemFallocate = unix.Fallocate

func (d *disk) fallocate(mode uint32, first, end uint64) error {
	err := error(unix.EINTR)
	for err == unix.EINTR {
		if err = limits.FileSize(end * diskUnit); err == nil {
			err = systemFallocate(d.descriptor(), mode, int64(first*diskUnit), int64((end-first)*diskUnit))
		}
	}
	return err
}

func (d *disk) writeZeros(first, end uint64) (err error) {
	for at := first * diskUnit; at < end*diskUnit && err == nil; at += uint64(len(zeros)) {
		err = d.writeAt(zeros[:min(uint64(len(zeros)), end*diskUnit-at)], at)
	}
	return err
}

func (d *disk) writeAt(bytes []byte, at uint64) error {
	if err := limits.FileSize(at + uint64(len(bytes))); err != nil {
		return err
	}
	_, err := d.file.WriteAt(bytes, int64(at))
	return err
}

// zero makes units zero that may differ from it.
func (d *disk) zero(first, end uint64) (err error) {
	d.written.Runs(first, end, func(first, end uint64) {
		if end-first >= zeroRangeMin && d.fallocate(unix.FALLOC_FL_ZERO_RANGE, first, end) == nil {
			return
		}
		if err == nil {
			err = d.writeZeros(first, end)
		}
	})
	return err
}

// give takes the file space of a page back.
func (d *disk) give(at, length uint64) {
	d.Lock()
	defer d.Unlock()
	if d.file == nil {
		return
	}
	_ = d.extents.Free(at/diskUnit, length/diskUnit)
	d.used -= length / diskUnit
	if most := max(d.used, spareMin); d.held-d.used > most {
		d.giveBack(most / 2)
	}
}

// trim gives the file system all space that no page has.
func (d *disk) trim() {
	d.Lock()
	defer d.Unlock()
	if d.file != nil {
		d.giveBack(0)
	}
}

// giveBack gives the file system space that no page has, from the end of the file on, down to so many units, and says whether
// there was any.
func (d *disk) giveBack(spare uint64) (some bool) {
	d.extents.EachFree(func(first, count uint64) (goOn bool) {
		var err error
		d.space.Runs(first, first+count, func(first, end uint64) {
			if err != nil || d.held-d.used <= spare {
				return
			}
			first = max(first, end-min(end-first, d.held-d.used-spare))
			if err = d.fallocate(unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, first, end); err == nil {
				d.space.Remove(first, end)
				d.written.Remove(first, end)
				d.held -= end - first
				some = true
			}
		})
		if err != nil && !d.noHoles {
			d.noHoles = true
			log.Logf(log.Warning, "the file system cannot punch holes (%v): %d bytes that no page has stay allocated", err,
				(d.held-d.used)*diskUnit)
		}
		return err == nil && d.held-d.used > spare
	})
	return some
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
	if err := d.writeAt(bytes, at); err != nil {
		code := status.IO
		if noSpace(status.ErrnoOf(err)) {
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
