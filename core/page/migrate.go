package page

import (
	"libmmsb/core/journal"
	"libmmsb/core/residency"
	"libmmsb/core/status"
	"libmmsb/core/ticket"
	"libmmsb/native"
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

// moveStep is how many bytes are moved between two looks at the time; a small page counts as the share of one of createBatch.
const moveStep = 4 << 20

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
	lock, cancelled, step := lockUnlessMoving, false, uint64(0)
	if w != nil {
		lock = lockToMove
	}
	var together []move // of the pages from i on
	for i, page := range pages {
		if w != nil && !cancelled && (i == 0 || step >= moveStep) {
			cancelled, step = w.Cancelled(), 0
		}
		if len(together) == 0 && !cancelled {
			together = moveTogether(pages[i:], location, device, w != nil)
		}
		step += max(native.RecordAt(native.Index(page)).Size, moveStep/createBatch)
		var moved error
		switch {
		case len(together) > 0 && together[0].moved:
			moved = together[0].err
		case cancelled:
			moved = status.Errorf(status.Cancelled, "cancelled after %d of %d pages", i, len(pages))
		default:
			moved = migrate(page, lock, location, device)
		}
		together = together[min(1, len(together)):]
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

const (
	togetherPages = 64
	togetherBytes = 4 << 20 // about a ms, in which they are locked
)

// move says of a page whether it has moved; err is the journal's.
type move struct {
	moved bool
	err   error
}

// moveTogether moves some of the first pages between the host and the disk, with all their bytes read or written together: those
// that nobody works on, that no save waits for, that no group has, that can move, and whose context has no report to tell. It
// says of so many pages which have moved; the others are left to migrate.
func moveTogether(pages []uint64, location, device int32, long bool) (first []move) {
	var (
		to      residency.Placement
		changes []*change
		movers  []*residency.Page
		at      []int
		bytes   uint64
	)
	for i, page := range pages[:min(len(pages), togetherPages)] {
		if bytes >= togetherBytes {
			break
		}
		first = append(first, move{})
		p := new(Page)
		if !p.tryLock(page) {
			continue
		}
		wanted, err := p.destination(location, device)
		if len(changes) == 0 {
			to = wanted
		}
		if err != nil || wanted != to || !p.CanMoveTogether(to) || bytes+p.Record.Size > togetherBytes ||
			p.context.ownGroup() != nil || p.context.memory.ReportWaits() || native.KeepPreimage(p.Index, p.State) != 0 {
			p.unlock()
			continue
		}
		if long {
			p.markMoving()
		}
		bytes += p.Record.Size
		changes = append(changes, &change{Page: p, context: p.context, unlock: p.unlock})
		movers, at = append(movers, &p.Page), append(at, i)
	}
	moved := residency.MoveTogether(movers, to, func(i int) error {
		c := changes[i]
		return c.journalNext(journal.Migrate, journal.MigrateBody(to.Location, to.Device, c.Node()))()
	})
	for _, c := range changes {
		c.unlock()
		c.unlock = nil // before any waits for the journal
	}
	for i, c := range changes {
		first[at[i]].moved = moved[i]
		c.end(&first[at[i]].err)
	}
	return first
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
