package page

import (
	"libmmsb/core/mem"
	"libmmsb/core/status"
	"libmmsb/core/ticket"
	"libmmsb/native"
)

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
		if _, err := p.side(); err != nil {
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
	if p.record.Side == 0 {
		return place{location: p.location()}
	}
	return place{p.location(), native.SideAt(p.record.Side).Device}
}

// leavePlace gives the page what a block has and frees what the page had. It may leave a function to be called when the page is unlocked.
func (p *locked) leavePlace(b block, size uint64) (release func()) {
	c := p.context
	if p.state&native.Adopted != 0 {
		side := native.SideAt(p.record.Side)
		if function, user := side.Release, side.User; function != 0 {
			base := mem.Base(native.LocatorRegion(p.record.Locator))
			release = func() { native.CallRelease(function, user, base, size) }
		}
		side.Release, side.User = 0, 0
	}
	if p.state&native.Nonresident != 0 {
		if p.record.Locator != 0 {
			c.dropView(p.index)
		}
		c.giveAway(awayOf(native.SideAt(p.record.Side)))
	}
	if p.record.Side != 0 {
		b.away.note(native.SideAt(p.record.Side))
	}
	p.state = p.state&^(native.Nonresident|native.LocationMask|native.Adopted|native.ReadOnly) | b.location
	p.swap(b.index)
	had := native.RecordAt(b.index)
	had.Size = blockSize(had, size)
	native.GiveFrame(c.index, b.index)
	if p.state&native.Nonresident == 0 {
		native.Redzone(p.index, p.state, size)
	}
	return release
}
