package page

import (
	"libmmsb/core/journal"
	"libmmsb/core/residency"
	"libmmsb/core/status"
	"libmmsb/core/ticket"
)

// Migrate moves a page's bytes to another placement.
func Migrate(page uint64, location, device int32) error {
	return changePage(page, func(c *change) (err error) {
		c.after, err = c.Migrate(location, device, func(to residency.Placement) error {
			return c.journal(journal.Migrate, c.Record.Version+1, journal.MigrateBody(to.Location, to.Device, c.Node()))
		})
		return err
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
// did not. w is nil, or the work that this is.
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

// check tells whether a page could go to a placement, as far as can be said before.
func check(page uint64, location, device int32) error {
	return Read(page, func(p *Page) error {
		_, err := p.destination(location, device)
		return err
	})
}

// destination is where the page would go.
func (p *Page) destination(location, device int32) (to residency.Placement, err error) {
	if to, err = p.Resolve(location, device); err == nil {
		err = p.notPinned()
	}
	return to, err
}

// Migrate moves the page. ready is called when nothing else can fail; where it fails nothing has changed. It may leave a function
// to be called when the page is unlocked.
func (p *Page) Migrate(location, device int32, ready func(to residency.Placement) error) (release func(), err error) {
	to, err := p.destination(location, device)
	if err != nil || to == p.Placement() {
		return nil, err
	}
	if release, err = p.Move(to, func() error { return ready(to) }); err == nil {
		p.Record.MoveVersion()
	}
	return release, err
}
