package persist

import (
	"sync/atomic"
	"time"

	"libmmsb/core/abi"
	"libmmsb/core/file"
	"libmmsb/core/journal"
	"libmmsb/core/log"
	"libmmsb/core/page"
	"libmmsb/core/residency"
	"libmmsb/core/status"
	"libmmsb/core/ticket"
	"libmmsb/native"
)

// A context that follows a journal has the state behind a record, and keeps up with the writer: what comes is applied to its live
// pages, group by group. Other calls change nothing of it, so that only the follower begins and ends its pages.

// Follower applies the records of a journal that somebody else writes. One goroutine uses it.
type Follower struct {
	context uint64
	tail    *journal.Tail
	pages   *native.ByID
	// moved: a load gave the pages versions above all that they had in this context. From there on each change moves them by one.
	moved   bool
	leave   func() // lets saves take their moment, and groups begin; nil, but while a group is applied
	broken  bool   // a part was not applied to its end
	applied atomic.Uint64
}

// Follow begins to follow the journal in a directory, from the state that was loaded from there. The context refuses changes, and
// from now on all loads but those that say that they follow. A save may have given the state a name of its own since.
func Follow(context uint64, directory string) (f *Follower, err error) {
	f = &Follower{context: context}
	err = use(context, func(s *state) error {
		if s.journals.refused() == nil {
			return status.Errorf(status.InvalidState, "context 0x%016x can be changed", context)
		}
		s.follows.Store(true)
		s.context.Stuck(nil) // the load has brought all of each group
		from := s.loaded.Point
		f.moved = s.loaded.moved
		f.pages = native.NewByID(s.context.Count())
		handles := make([]uint64, 1<<12)
		for cursor := uint64(0); ; {
			n := s.context.Pages(&cursor, handles)
			if n == 0 {
				break
			}
			for _, handle := range handles[:n] {
				f.pages.Put(page.IDOf(native.Index(handle)), handle)
			}
		}
		f.applied.Store(from.Position)
		f.tail, err = journal.OpenTail(file.OS{}, directory, from)
		return err
	})
	if err != nil {
		return nil, err
	}
	return f, nil
}

// LoadedRecord is the number of the record that the state is behind which a context loaded last; 0: none.
func LoadedRecord(context uint64) (record uint64, err error) {
	err = use(context, func(s *state) error {
		record = s.loaded.Position
		return nil
	})
	return record, err
}

// useReloading is useQueued for a load of who follows. work may be nil: nobody else knows the context yet.
func useReloading(context uint64, work *ticket.Work, call func(s *state) error) error {
	reloads := func(is bool) error {
		return use(context, func(s *state) error {
			s.reloads.Store(is)
			return nil
		})
	}
	if err := reloads(true); err != nil {
		return err
	}
	err := useQueued(context, nil, work, call)
	_ = reloads(false) // it may have ended
	return err
}

// Close ends the following.
func (f *Follower) Close() { f.tail.Close() }

// Applied is the number of the last record that was applied. Anybody may ask.
func (f *Follower) Applied() uint64 { return f.applied.Load() }

// Branch is the number of the journal's branch that is followed.
func (f *Follower) Branch() uint64 { return f.tail.Branch() }

// Broken says that an error came in the middle of records: the state is to be loaded anew.
func (f *Follower) Broken() bool { return f.broken }

// Poll applies what has come, and says whether there was anything. Errors: those of journal.Tail, StaleHandle (the context ends).
func (f *Follower) Poll() (grown bool, err error) {
	grown, err = f.tail.Poll(func(part *journal.Part) error {
		f.broken = true
		err := use(f.context, func(s *state) error { return f.apply(s, part) })
		f.broken = err != nil
		return err
	})
	if f.leave != nil { // only after an error: the state stays as it is in the middle of a group, until it is loaded anew
		_ = use(f.context, func(s *state) error {
			s.context.Stuck(err)
			return nil
		})
		f.leave()
	}
	return grown, err
}

// enter begins what other threads see of a group, but not within groups of their own, nor in a save.
func (f *Follower) enter(s *state) error {
	select {
	case s.moment <- struct{}{}:
	case <-s.ended:
		return s.goesOn(nil, 0)
	}
	letIn, err := s.context.KeepGroupsOut(s.ended)
	if err != nil {
		<-s.moment
		return err
	}
	s.context.Stuck(nil)
	f.leave = func() {
		f.leave = nil
		letIn()
		<-s.moment
	}
	return nil
}

// apply applies records that lie one behind the other. No save takes its moment between those of a group, and no group of a
// reader is open meanwhile.
func (f *Follower) apply(s *state, part *journal.Part) error {
	if f.leave == nil {
		if err := f.enter(s); err != nil {
			return err
		}
	}
	a := &again{Follower: f, state: s}
	for len(part.Records) > 0 {
		if !part.Within() {
			part.Skip(f.pages.RedoLive(part.Records, f.moved))
		}
		record, err := part.Next()
		if err == nil && record != nil {
			err = a.patiently(record)
		}
		if err != nil {
			return err
		}
	}
	if part.Whole {
		f.leave()
		f.applied.Store(f.tail.Last())
	}
	return nil
}

// again applies records to the live pages of a context.
type again struct {
	*Follower
	*state
}

// patiently applies a record, again and again where a page is pinned that it would end or move.
func (a *again) patiently(record *journal.Record) error {
	const least, most = time.Millisecond, 100 * time.Millisecond
	told := false
	for patience := least; ; patience = min(2*patience, most) {
		err := a.apply(record)
		if status.CodeOf(err) != status.Busy {
			if told {
				a.state.context.Stuck(nil)
			}
			return asDamage(record, err)
		}
		a.state.context.Stuck(err) // who has the pin may begin a group
		if !told {
			log.Logf(log.Warning, "context 0x%016x follows its journal no further than record %d, until it can: %v",
				a.state.context.Handle(), record.Sequence-1, err)
			told = true
		}
		select {
		case <-a.ended:
			return a.goesOn(nil, 0)
		case <-time.After(patience):
		}
	}
}

func (a *again) apply(record *journal.Record) error {
	handle, ok := a.pages.Find(record.Page)
	begins := record.Kind == journal.Create || record.Kind == journal.Adopt || record.Kind == journal.Clone
	switch {
	case begins && !ok:
		return a.create(record)
	case begins:
		return nil
	case !ok:
		return a.misses(record, record.Page)
	}
	switch record.Kind {
	case journal.DependencyAdd, journal.DependencyRemove:
		child, ok := a.pages.Find(record.Other)
		if !ok {
			return a.misses(record, record.Other)
		}
		return a.state.context.DependAgain(native.Index(handle), native.Index(child), record.Kind == journal.DependencyAdd)
	case journal.Destroy:
		err := page.DestroyAgain(handle)
		if err == nil {
			a.pages.Remove(record.Page)
		}
		return err
	}
	return page.ChangeAgain(handle, func(p *page.Page) error { return a.change(p, record) })
}

func (a *again) misses(record *journal.Record, id uint64) error {
	return status.Errorf(status.Corrupt, "record %d (%v of page %d) needs page %d, which the state does not have",
		record.Sequence, record.Kind, record.Page, id)
}

func (a *again) change(p *page.Page, record *journal.Record) (err error) {
	if a.moved {
		record.Version = p.Record.Version + 1
	} else if follows, err := record.Follows(p.Record.Version, a.applied.Load()); err != nil || !follows {
		return err
	}
	switch record.Kind {
	case journal.Resize:
		if err = p.Present(); err == nil {
			err = p.ResizeAgain(record.Size)
		}
	case journal.MaskClear:
		if err = p.Present(); err == nil {
			p.ClearMask()
		}
	case journal.Migrate:
		if err = changeAgain(p, record); isMissing(err) {
			log.Logf(log.Info, "page %d stays where it is: %v", record.Page, err)
			err = nil
		}
	default:
		err = changeAgain(p, record)
	}
	if err == nil {
		p.Record.Version, p.Record.Epoch = record.Version, record.Epoch
	}
	return err
}

// isMissing says that this machine has no such place as a record names.
func isMissing(err error) bool {
	code := status.CodeOf(err)
	return code == status.NoDevice || code == status.Unsupported
}

func (a *again) create(record *journal.Record) (err error) {
	begin := func(p *page.Page) {
		if a.moved {
			record.Version = page.NewVersion()
		}
		p.Record.Version, p.Record.Epoch = record.Version, record.Epoch
	}
	var handle uint64
	c := a.state.context
	if record.Kind == journal.Clone {
		source, ok := a.pages.Find(record.Other)
		if !ok {
			return a.misses(record, record.Other)
		}
		handle, err = c.CloneAgain(source, record.Page, begin)
	} else {
		var f residency.Frame
		var node int32
		f, node, err = takeAgain(c, record)
		if isMissing(err) {
			record.Location, record.Device = abi.LocationCPU, 0
			f, node, err = takeAgain(c, record)
		}
		if err != nil {
			return err
		}
		handle, err = c.CreateAgain(f, record.Page, record.Size, node, func(p *page.Page) error {
			begin(p)
			return fillAgain(c.Residency(), f, record, func() error { return a.goesOn(nil, 0) })
		})
	}
	if err == nil {
		a.pages.Put(record.Page, handle)
	}
	return err
}
