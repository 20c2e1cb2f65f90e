package page

import (
	"libmmsb/core/graph"
	"libmmsb/core/residency"
)

// Changes that another process has made and recorded, made again on live pages: the protocol of change without the journal, which
// refuses the changes of others. Reports of the guard are left to the calls of the program.

// ChangeAgain makes a change of a page. Errors: those of work, Busy (its bytes are being moved), errors of its memory.
func ChangeAgain(page uint64, work func(p *Page) error) error {
	p, err := lockTelling(page, lockUnlessMoving, (*Context).tellNothing)
	if err != nil {
		return err
	}
	defer p.unlock()
	size := p.Record.Size
	if err = work(p); err == nil {
		p.countResize(size)
	}
	return err
}

func (c *Context) tellNothing() error { return nil }

// ResizeAgain is Resize within ChangeAgain. Errors: Busy (the page is pinned), those of its memory.
func (p *Page) ResizeAgain(size uint64) error {
	if err := p.notPinned(); err != nil {
		return err
	}
	return p.Resize(size, func() error { return nil })
}

// DestroyAgain ends a page. Errors: Busy (it is pinned, or its bytes are being moved).
func DestroyAgain(page uint64) error {
	p, err := lockTelling(page, lockUnlessMoving, (*Context).tellNothing)
	if err != nil {
		return err
	}
	if err := p.notPinned(); err != nil {
		p.unlock()
		return err
	}
	p.context.tearDown(p.Index, p.State)
	return nil
}

// CreateAgain makes a page of a frame, which goes where it fails; fill fills it, and says in its record with which version and
// epoch it begins.
func (c *Context) CreateAgain(f residency.Frame, id, size uint64, node int32, fill func(p *Page) error) (page uint64, err error) {
	c.creating.RLock()
	defer c.creating.RUnlock()
	return c.bearAgain(&birth{frame: f, size: size, id: id, node: node, prepare: fill})
}

// CloneAgain makes a copy of a page; begin says in its record with which version and epoch it begins.
func (c *Context) CloneAgain(of, id uint64, begin func(p *Page)) (page uint64, err error) {
	c.creating.RLock()
	defer c.creating.RUnlock()
	err = Read(of, func(p *Page) error {
		if err := p.Present(); err != nil {
			return err
		}
		f, err := p.TakeLike(p.Record.Size)
		if err != nil {
			return err
		}
		page, err = c.bearAgain(&birth{frame: f, size: p.Record.Size, id: id, node: p.Node(), prepare: func(q *Page) error {
			begin(q)
			return p.CopyTo(q, f)
		}})
		return err
	})
	return page, err
}

func (c *Context) bearAgain(b *birth) (page uint64, err error) {
	p, err := c.expect(b)
	if err != nil {
		return 0, err
	}
	c.bear(b, p)
	return p.handle, nil
}

// NewVersion is the first version of a page whose id others may have had.
func NewVersion() uint64 { return newVersion() }

// DependAgain adds or removes a dependency between pages that have ids of the caller's, and do not end meanwhile, unless that is
// done.
func (c *Context) DependAgain(parent, child uint32, add bool) error {
	return c.onGraph(func(all *graph.Graph) error {
		switch {
		case all.Has(parent, child) == add:
			return nil
		case add:
			return all.Add(parent, child)
		default:
			return all.Remove(parent, child)
		}
	})
}
