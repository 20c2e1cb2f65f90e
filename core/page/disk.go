package page

import (
	"os"
	"sync"

	"libmmsb/core/alloc"
	"libmmsb/core/log"
	"libmmsb/core/mem"
	"libmmsb/core/status"
	"libmmsb/core/ticket"
	"libmmsb/native"

	"golang.org/x/sys/unix"
)

// disk is the file that a context's DISK pages lie in: unlinked from the start, so that nothing stays when the process dies. Its space is
// allocated before a page has it: a mapped file that the disk has no room for would kill the process.
type disk struct {
	sync.Mutex
	file    *os.File
	extents *alloc.Extents
	length  uint64 // in blocks
	used    uint64 // in blocks
}

// diskExtent is where a page lies in the file, in bytes; length 0 is nowhere.
type diskExtent struct{ offset, length uint64 }

const diskGrowth = 256 // blocks: the file's space of addresses grows by at least a MiB

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
			return status.FromErrno(status.IO, errnoOf(createErr), "cannot create a file for pages in %q", folder)
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
func (d *disk) take(folder string, size uint64) (diskExtent, error) {
	d.Lock()
	defer d.Unlock()
	if err := d.open(folder); err != nil {
		return diskExtent{}, err
	}
	blocks := roundUp(size) / mem.SystemPage
	first, ok := d.extents.Allocate(blocks, 1)
	if !ok {
		d.length += max(blocks, diskGrowth)
		if err := d.extents.Grow(d.length); err != nil {
			return diskExtent{}, err
		}
		if first, ok = d.extents.Allocate(blocks, 1); !ok {
			return diskExtent{}, status.Errorf(status.OutOfMemory, "no stretch of %d blocks in a file of %d", blocks, d.length)
		}
	}
	extent := diskExtent{first * mem.SystemPage, blocks * mem.SystemPage}
	if err := unix.Fallocate(int(d.file.Fd()), 0, int64(extent.offset), int64(extent.length)); err != nil {
		_ = d.extents.Free(first, blocks)
		errno := errnoOf(err)
		code := status.IO
		if errno == unix.ENOSPC || errno == unix.EDQUOT {
			code = status.NoSpace
		}
		return diskExtent{}, status.FromErrno(code, errno, "no %d bytes of disk space in %q", extent.length, folder)
	}
	d.used += blocks
	return extent, nil
}

// give gives file space back to the file system.
func (d *disk) give(extent diskExtent) {
	d.Lock()
	defer d.Unlock()
	if d.file == nil {
		return
	}
	err := unix.Fallocate(int(d.file.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, int64(extent.offset), int64(extent.length))
	if err != nil { // without holes the next page must find zeros all the same
		log.Logf(log.Warning, "the file system cannot punch holes (%v): %d bytes at %d stay allocated", err, extent.length, extent.offset)
		return
	}
	_ = d.extents.Free(extent.offset/mem.SystemPage, extent.length/mem.SystemPage)
	d.used -= extent.length / mem.SystemPage
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
	return d.used * mem.SystemPage
}

func (d *disk) write(extent diskExtent, bytes []byte) error {
	if _, err := d.file.WriteAt(bytes, int64(extent.offset)); err != nil {
		code := status.IO
		if errnoOf(err) == unix.ENOSPC {
			code = status.NoSpace
		}
		return status.FromErrno(code, errnoOf(err), "cannot write %d bytes of a page to disk", len(bytes))
	}
	return nil
}

func (d *disk) read(extent diskExtent, bytes []byte) error {
	if _, err := d.file.ReadAt(bytes, int64(extent.offset)); err != nil {
		return status.FromErrno(status.IO, errnoOf(err), "cannot read %d bytes of a page from disk", len(bytes))
	}
	return nil
}

// resizeAway moves a page that is away into space of another size.
func (p *locked) resizeAway(size uint64) error {
	c := p.context
	cold := native.ColdAt(p.record.Cold)
	old := awayOf(cold)
	b, err := c.takeAway(place{p.location(), old.device}, size)
	if err != nil {
		return err
	}
	kept := min(size, p.record.Size)
	if old.block != 0 && p.record.Place == 0 {
		err = c.devices.Copy(b.away.device, b.away.address(), old.device, old.address(), kept)
	} else if err = c.bringIn(p.index); err == nil {
		err = c.writeAway(b.away, 0, p.bytes()[:kept])
	}
	if err == nil {
		err = p.journalResize(size)
	}
	if err != nil {
		c.give(b)
		return err
	}
	if p.record.Place != 0 {
		c.dropView(p.index)
	}
	c.giveAway(old)
	b.away.note(cold)
	native.GiveBlock(c.index, b.index)
	return nil
}

// Migrate moves a page's bytes to another place.
func Migrate(page uint64, location, device int32) error {
	p, err := lockToChange(page)
	if err != nil {
		return err
	}
	release, err := p.migrate(location, device)
	p.settle(&err)
	if release != nil {
		release()
	}
	return err
}

// CheckMigrateMany tells whether pages could go to a place, as far as can be said before; bad is the first that could not.
func CheckMigrateMany(pages []uint64, location, device int32) (bad int, err error) {
	for i, page := range pages {
		if err := check(page, location, device); err != nil {
			return i, err
		}
	}
	return 0, nil
}

// MigrateMany moves many pages: each moves or does not, and has its code in codes, where that is not nil. bad is the first that did not. w is nil, or
// the work that this is.
func MigrateMany(pages []uint64, location, device int32, codes []int32, w *ticket.Work) (bad int, err error) {
	for i, page := range pages {
		moved := status.Errorf(status.Cancelled, "cancelled after %d of %d pages", i, len(pages))
		if w == nil || !w.Cancelled() {
			moved = Migrate(page, location, device)
		}
		if codes != nil {
			codes[i] = int32(status.CodeOf(moved))
		}
		if moved != nil && err == nil {
			bad, err = i, moved
		}
		if w != nil {
			w.Progress(uint64(i + 1))
		}
	}
	return bad, err
}

// check tells whether a page could go to a place, as far as can be said before.
func check(page uint64, location, device int32) error {
	p, err := lock(page)
	if err != nil {
		return err
	}
	defer p.unlock()
	if _, err := p.context.resolve(location, device); err != nil {
		return err
	}
	return p.notPinned()
}

// migrate moves a locked page. It may leave a function to be called when the page is unlocked.
func (p *locked) migrate(location, device int32) (release func(), err error) {
	c := p.context
	to, err := c.resolve(location, device)
	if err != nil {
		return nil, err
	}
	if err := p.notPinned(); err != nil {
		return nil, err
	}
	if to == p.place() {
		return nil, nil
	}
	size := p.record.Size
	if to != (place{}) { // which is written before anything can fail that cannot be taken back
		if _, err := p.cold(); err != nil {
			return nil, err
		}
	}
	b, err := c.takeAt(to, size, p.node(), true)
	if err != nil {
		return nil, err
	}
	if err = c.copyBytes(p, b, size); err == nil {
		err = p.journalMigrate(to.location, to.device)
	}
	if err != nil {
		c.give(b)
		return nil, err
	}
	release = p.leavePlace(b, size)
	p.record.MoveVersion()
	return release, nil
}

// place is where the page lies.
func (p *locked) place() place {
	if p.record.Cold == 0 {
		return place{location: p.location()}
	}
	return place{p.location(), native.ColdAt(p.record.Cold).Device}
}

// leavePlace gives the page what a block has and frees what the page had. It may leave a function to be called when the page is unlocked.
func (p *locked) leavePlace(b block, size uint64) (release func()) {
	c := p.context
	if p.state&native.Adopted != 0 {
		cold := native.ColdAt(p.record.Cold)
		if function, user := cold.Release, cold.User; function != 0 {
			base := mem.Base(native.PlaceRegion(p.record.Place))
			release = func() { native.CallRelease(function, user, base, size) }
		}
		cold.Release, cold.User = 0, 0
	}
	if p.state&native.Away != 0 {
		if p.record.Place != 0 {
			c.dropView(p.index)
		}
		c.giveAway(awayOf(native.ColdAt(p.record.Cold)))
	}
	if p.record.Cold != 0 {
		b.away.note(native.ColdAt(p.record.Cold))
	}
	p.state = p.state&^(native.Away|native.LocationMask|native.Adopted|native.ReadOnly) | b.location
	p.swap(b.index)
	had := native.RecordAt(b.index)
	had.Size = blockSize(had, size)
	native.GiveBlock(c.index, b.index)
	if p.state&native.Away == 0 {
		native.Fence(p.index, p.state, size)
	}
	return release
}
