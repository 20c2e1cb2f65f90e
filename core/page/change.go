package page

import (
	"libmmsb/core/journal"
	"libmmsb/core/lasterror"
	"libmmsb/core/status"
	"libmmsb/native"
)

// A change that Go code makes of pages, in this order:
//
//	begin     the page is locked; a save that needs it as it was has its pre-image; bytes that wait in a snapshot are there
//	journal   the record of the change is put, when nothing else of the change can fail
//	          the change is made
//	end       the page is unlocked, and the call waits for the record where calls are durable
//
// Where anything up to the record fails, whoever makes the change gives back what it took, and nothing has changed. Native code
// has the same protocol for its own changes (native/change.h).

// change is a change that is being made.
type change struct {
	*Page   // nil for a change of dependencies, which is of two pages
	context *Context
	unlock  func() // nil for a page that nobody sees yet, and for one that has ended

	ring     native.Ring
	sequence uint64 // of the record; 0 = none was put
}

// changePage makes a change of a page as a whole.
func changePage(page uint64, work func(c *change) error) error { return changeLocked(page, lock, work) }

// changeMemory makes a change that ends the page or gives it other memory: Busy while asynchronous work moves its bytes.
func changeMemory(page uint64, work func(c *change) error) error {
	return changeLocked(page, lockUnlessMoving, work)
}

func changeLocked(page uint64, lock func(page uint64) (*Page, error), work func(c *change) error) (err error) {
	p, err := lockToChange(page, lock)
	if err != nil {
		return err
	}
	c := &change{Page: p, context: p.context, unlock: p.unlock}
	defer c.end(&err)
	return work(c)
}

// lockToChange locks a page that is to change as a whole: what is being saved has it as it was, and so has the thread's group.
func lockToChange(page uint64, lock func(page uint64) (*Page, error)) (*Page, error) {
	return lockTelling(page, lock, (*Context).TellReport)
}

// lockTelling is lockToChange, but tell says what the call is to hear of the context instead.
func lockTelling(page uint64, lock func(page uint64) (*Page, error), tell func(c *Context) error) (*Page, error) {
	for {
		p, err := lock(page)
		if err != nil {
			return nil, err
		}
		code := int32(0)
		if err = tell(p.context); err == nil {
			code = native.KeepPreimage(p.Index, p.State)
		}
		switch {
		case err != nil:
		case code == 0:
			err = p.Present()
		case code != native.Again:
			err = lasterror.Load(code)
		}
		if code == 0 && err == nil {
			return p, nil
		}
		p.unlock()
		if err != nil {
			return nil, err
		}
		native.WaitForCapture(p.Index)
	}
}

// changePair makes a change of the dependencies between two pages of a context. The context's dependencies are locked, too. A
// save has the edges of its moment from a copy, so that the pages need no pre-image.
func changePair(parent, child uint64, work func(c *change, parent, child uint32) error) (err error) {
	c := &change{}
	defer c.end(&err) // after the dependencies are unlocked
	if parent == child {
		p, err := lock(parent)
		if err != nil {
			return err
		}
		c.unlock = p.unlock
	} else {
		pages := [2]uint64{parent, child}
		if _, code := native.LockPair(&pages); code != 0 {
			return lasterror.Load(code)
		}
		c.unlock = func() { native.UnlockPair(&pages) }
	}
	c.context = contextOf(native.Index(parent))
	if err := c.context.TellReport(); err != nil {
		return err
	}
	if other := contextOf(native.Index(child)); other != c.context {
		return status.Errorf(status.Mismatch, "page 0x%016x is of context 0x%016x, page 0x%016x of context 0x%016x", parent,
			c.context.handle, child, other.handle)
	}
	for _, page := range []uint64{parent, child} {
		index := native.Index(page)
		if code := native.ClaimForGroup(index, native.RecordAt(index).LoadState()&^native.OwnerMask); code != 0 {
			return lasterror.Load(code)
		}
	}
	c.context.dependencies.Lock()
	defer c.context.dependencies.Unlock()
	return work(c, native.Index(parent), native.Index(child))
}

// journal puts the record of a change, after which the page has its next version. It is called when nothing else can fail.
func (c *change) journal(kind journal.Kind, pieces ...[]byte) error {
	version := native.GroupVersion(c.Index)
	if err := c.journalVersion(kind, version+1, pieces...); err != nil {
		return err
	}
	native.GroupChangeFrom(c.Index, version)
	return nil
}

// journalNext is journal as a function.
func (c *change) journalNext(kind journal.Kind, pieces ...[]byte) func() error {
	return func() error { return c.journal(kind, pieces...) }
}

// journalVersion puts the record of a change after which the page has a version, or has ended with it.
func (c *change) journalVersion(kind journal.Kind, version uint64, pieces ...[]byte) error {
	ring, ok := native.RingOf(c.context.index)
	if !ok {
		return nil
	}
	return c.put(ring, native.Head{Kind: uint8(kind), Page: c.ID(), Version: version, Epoch: c.Record.Epoch}, pieces...)
}

// journalEdge puts the record of a change of a dependency.
func (c *change) journalEdge(kind journal.Kind, parent, child uint32) error {
	ring, ok := native.RingOf(c.context.index)
	if !ok {
		return nil
	}
	return c.put(ring, native.Head{Kind: uint8(kind), Page: IDOf(parent)}, journal.Words(IDOf(child)))
}

func (c *change) put(ring native.Ring, head native.Head, pieces ...[]byte) error {
	sequence, code := ring.Append(head, pieces...)
	c.ring, c.sequence = ring, sequence
	return lasterror.Load(code)
}

// end ends the change. What failed before stays the error of the call.
func (c *change) end(err *error) {
	if c.unlock != nil {
		c.unlock()
	}
	if c.sequence != 0 {
		if waited := lasterror.Load(c.ring.Wait(c.sequence)); *err == nil {
			*err = waited
		}
	}
}
