package page

import (
	"libmmsb/core/lasterror"
	"libmmsb/core/residency"
	"libmmsb/core/status"
	"libmmsb/native"
)

// Page is a page that Go code works on: it is locked, or nobody else sees it yet.
type Page struct {
	residency.Page
	context *Context
	handle  uint64
	// keptMask is the frame of the change mask that the page had before a resize, where its memory is kept.
	keptMask uint32
}

// lock locks a page; unlock must follow, or the page's end.
func lock(page uint64) (*Page, error) { return locked(page, native.LockPage(page)) }

// lockUnlessMoving is lock, but Busy while asynchronous work moves the page's bytes.
func lockUnlessMoving(page uint64) (*Page, error) {
	return locked(page, native.LockPageUnlessMoving(page))
}

// lockToMove locks a page whose bytes asynchronous work moves: those who would end it, or give it other memory, do not wait.
func lockToMove(page uint64) (*Page, error) {
	p, err := lockUnlessMoving(page)
	if err == nil {
		p.markMoving()
	}
	return p, err
}

func (p *Page) markMoving() {
	p.State |= native.Moving
	p.Record.StoreState(p.State | native.OwnerLibrary)
}

// tryLock locks a page that nobody works on, which p becomes.
func (p *Page) tryLock(page uint64) (ok bool) {
	if ok = native.TryLockPage(page); ok {
		p.at(contextOf(native.Index(page)), native.Index(page))
	}
	return ok
}

func locked(page uint64, code int32) (*Page, error) {
	if code != 0 {
		return nil, lasterror.Load(code)
	}
	return pageAt(contextOf(native.Index(page)), native.Index(page)), nil
}

// pageAt is the page of a record, which is locked, or that nobody sees yet.
func pageAt(c *Context, index uint32) *Page {
	p := new(Page)
	p.at(c, index)
	return p
}

// at makes p what pageAt is.
func (p *Page) at(c *Context, index uint32) {
	record := native.RecordAt(index)
	state := record.LoadState() &^ native.OwnerMask
	*p = Page{
		Page:    residency.Page{Residency: c.residency, Index: index, Record: record, State: state},
		context: c,
		handle:  native.Handle(native.KindPage, native.Generation(state), index),
	}
}

func (p *Page) unlock() { native.UnlockRecord(p.Index, p.State&^native.Moving) }

// Read runs a call on a locked page, which it does not change.
func Read(page uint64, call func(p *Page) error) error {
	p, err := lock(page)
	if err != nil {
		return err
	}
	defer p.unlock()
	return call(p)
}

// Handle is the page's.
func (p *Page) Handle() uint64 { return p.handle }

// ID is the page's.
func (p *Page) ID() uint64 { return recordID(p.Index, p.State) }

func (p *Page) notAdopted() error {
	if p.State&native.Adopted != 0 {
		return status.Errorf(status.InvalidState, "page 0x%016x is adopted: its memory is the caller's", p.handle)
	}
	return nil
}

func (p *Page) notPinned() error {
	if p.Record.Pinned() {
		return status.Errorf(status.Busy, "page 0x%016x is pinned, %d times to read, %d times to write", p.handle,
			p.Record.ReadPins, p.Record.WritePins)
	}
	return nil
}
