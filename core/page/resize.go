package page

import (
	"libmmsb/core/journal"
	"libmmsb/core/lasterror"
	"libmmsb/core/memory"
	"libmmsb/core/status"
	"libmmsb/native"
)

// Resize changes a page's size where its memory cannot stay as it is.
func Resize(page, size uint64) error {
	if err := memory.CheckSize(size); err != nil {
		return err
	}
	return changeMemory(page, func(c *change) error {
		if err := c.notAdopted(); err != nil {
			return err
		}
		if err := c.notPinned(); err != nil {
			return err
		}
		old := c.Record.Size
		if size == old {
			return nil
		}
		if err := c.Resize(size, c.keepingMemory(c.journalNext(journal.Resize, journal.Words(size)))); err != nil {
			return err
		}
		c.countResize(old)
		return nil
	})
}

// mostResized bounds a batch: each of its pages waits on the stack until all others can be resized, too.
const mostResized = 1 << 16

// ResizeMany changes the sizes of different pages at one moment, or of none; bad is the first that cannot be resized.
func ResizeMany(pages, sizes []uint64) (bad int, err error) {
	if len(pages) > mostResized {
		return mostResized, status.Errorf(status.Limit, "batch has %d pages to resize; the limit is %d", len(pages), mostResized)
	}
	if len(pages) > 0 {
		if err := tellReportOf(pages[0]); err != nil {
			return 0, err
		}
	}
	count := len(pages)
	var sizeErr error
	for i, size := range sizes {
		if sizeErr = memory.CheckSize(size); sizeErr != nil {
			count = i
			break
		}
	}
	bad, code := native.LockPages(pages[:count])
	if code != 0 {
		return bad, lasterror.Load(code)
	}
	r := &resizes{handles: pages[:count], sizes: sizes[:count]}
	for _, page := range r.handles {
		r.pages = append(r.pages, pageAt(contextOf(native.Index(page)), native.Index(page)))
	}
	bad, err = r.check()
	if err == nil && sizeErr == nil {
		err = r.resize(count - 1)
		bad = r.bad
	}
	for _, p := range r.pages {
		p.unlock()
	}
	if r.journalled {
		if waited := lasterror.Load(r.ring.Wait(r.sequence)); err == nil {
			err = waited
		}
	}
	if err == nil && sizeErr != nil {
		return count, sizeErr
	}
	return bad, err
}

// resizes is a batch of resizes; its pages are locked.
type resizes struct {
	handles, sizes []uint64
	pages          []*Page
	bad            int
	ring           native.Ring
	sequence       uint64
	journalled     bool
}

// check tells whether all can be resized, as far as can be said before, and gives them their bytes.
func (r *resizes) check() (bad int, err error) {
	for i, p := range r.pages {
		if err := p.notAdopted(); err != nil {
			return i, err
		}
		if err := p.notPinned(); err != nil {
			return i, err
		}
	}
	for i, p := range r.pages {
		if err := p.Present(); err != nil {
			return i, err
		}
	}
	return 0, nil
}

// resize resizes the page of this index and all before it, the first one first: each is ready when those before it are.
func (r *resizes) resize(index int) error {
	if index < 0 {
		var code int32
		r.ring, r.sequence, r.journalled, code = native.JournalResizes(r.handles, r.sizes)
		if code != 0 {
			r.bad = 0
		}
		return lasterror.Load(code)
	}
	p, size := r.pages[index], r.sizes[index]
	old := p.Record.Size
	if size == old {
		return r.resize(index - 1)
	}
	r.bad = index
	if err := p.Resize(size, p.keepingMemory(func() error { return r.resize(index - 1) })); err != nil {
		return err
	}
	p.countResize(old)
	return nil
}

// countResize counts the bytes by which a page has grown or become smaller.
func (p *Page) countResize(old uint64) {
	if size := p.Record.Size; size > old {
		native.AddCounts(p.context.index, 0, 0, size-old, 0)
	} else {
		native.AddCounts(p.context.index, 0, 0, 0, old-size)
	}
}

// Resize changes the page's size. ready is called when nothing else can fail; where it fails nothing has changed.
func (p *Page) Resize(size uint64, ready func() error) error {
	if err := memory.CheckSize(size); err != nil {
		return err
	}
	mask, err := p.resizedMask(size)
	if err != nil {
		return err
	}
	if err := p.Page.Resize(size, ready); err != nil {
		if mask != 0 {
			p.context.memory.Give(mask)
		}
		return err
	}
	if mask != 0 {
		if p.Keeping {
			p.keptMask = native.TakeMaskFrame(p.Index)
		} else {
			p.context.dropMask(p.Index)
		}
		native.UseMask(p.Index, mask)
	}
	p.Record.SetSize(size)
	native.Redzone(p.Index, p.State, size)
	p.Record.MoveVersion()
	return nil
}

// resizedMask is a frame with the page's change mask cut or extended; 0 where it has none.
func (p *Page) resizedMask(size uint64) (index uint32, err error) {
	old := p.Mask()
	if old == nil {
		return 0, nil
	}
	if index, err = p.context.memory.TakeFrame(maskBytes(size)); err != nil {
		return 0, err
	}
	both := min(size, p.Record.Size)
	mask := native.Bytes(native.RecordAt(index).Locator, maskBytes(size))
	copy(mask, old[:maskBytes(both)])
	if both%8 != 0 {
		mask[both/8] &= 1<<(both%8) - 1
	}
	return index, nil
}
