package page

import (
	"libmmsb/core/journal"
	"libmmsb/core/residency"
	"libmmsb/core/status"
	"libmmsb/core/ticket"
)

// Migrate moves a page's bytes to another placement.
func Migrate(page uint64, location, device int32) error {
	return migrate(page, lockUnlessMoving, location, device)
}

func migrate(page uint64, lock func(page uint64) (*Page, error), location, device int32) error {
	return changeLocked(page, lock, func(c *change) error {
		to, err := c.destination(location, device)
		if err != nil || to == c.Placement() {
			return err
		}
		return c.move(to, c.keepingMemory(c.journalNext(journal.Migrate, journal.MigrateBody(to.Location, to.Device, c.Node()))))
	})
}

// CheckMigrateMany tells whether pages could go to a placement, as far as can be said before; bad is the first that could not.
func CheckMigrateMany(pages []uint64, location, device int32) (bad int, err error) {
	for i, page := range pages {
		if err := check(page, location, device); err != nil {
			return i, err
		}
	}
	return 0, nil
}

// MigrateMany moves many pages: each moves or does not, and has its code in codes, where that is not nil. bad is the first that
// did not. w is nil, or the asynchronous work that this is.
func MigrateMany(pages []uint64, location, device int32, codes []int32, w *ticket.Work) (bad int, err error) {
	lock := lockUnlessMoving
	if w != nil {
		lock = lockToMove
	}
	for i, page := range pages {
		moved := status.Errorf(status.Cancelled, "cancelled after %d of %d pages", i, len(pages))
		if w == nil || !w.Cancelled() {
			moved = migrate(page, lock, location, device)
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

// check tells whether a page could go to a placement, as far as can be said before.
func check(page uint64, location, device int32) error {
	p, err := lockUnlessMoving(page)
	if err != nil {
		return err
	}
	defer p.unlock()
	_, err = p.destination(location, device)
	return err
}

// destination is where the page would go; adopted memory goes nowhere else.
func (p *Page) destination(location, device int32) (to residency.Placement, err error) {
	if to, err = p.Resolve(location, device); err == nil {
		err = p.notPinned()
	}
	if err == nil && to != p.Placement() {
		err = p.notAdopted()
	}
	return to, err
}

// Migrate moves a page that nobody else sees.
func (p *Page) Migrate(location, device int32) error {
	to, err := p.destination(location, device)
	if err != nil || to == p.Placement() {
		return err
	}
	return p.move(to, func() error { return nil })
}

// move moves the page's bytes. ready is called when nothing else can fail; where it fails nothing has changed.
func (p *Page) move(to residency.Placement, ready func() error) error {
	err := p.Move(to, ready)
	if err == nil {
		p.Record.MoveVersion()
	}
	return err
}
