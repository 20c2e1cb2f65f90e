package page

import (
	"sync/atomic"

	"libmmsb/core/residency"
	"libmmsb/core/status"
	"libmmsb/native"
)

// A load does not take adopted memory away from its owner: a staged page with the id of an adopted page gets its memory, where
// the owner then finds the bytes.

// adoption is an adopted page.
type adoption struct {
	handle, size uint64
	readOnly     bool
}

// adopted are the context's adopted pages, by id. Those may end meanwhile.
func (c *Context) adopted() map[uint64]adoption {
	if !c.adopts.Load() {
		return nil
	}
	found := make(map[uint64]adoption)
	for index, state := range c.memory.Pages() {
		if state&native.Adopted == 0 {
			continue
		}
		p, err := lock(native.Handle(native.KindPage, native.Generation(state), index))
		if err != nil {
			continue
		}
		found[p.ID()] = adoption{p.handle, p.Record.Size, p.State&native.ReadOnly != 0}
		p.unlock()
	}
	return found
}

// meeting is an adopted page and the staged one that has its id.
type meeting struct {
	adopted uint64
	staged  *native.Staged
	waits   bool // the bytes of the staged page are read when nothing else can fail
}

// meetAdopted finds the adopted pages whose ids staged ones have, and brings the bytes of these into memory of the host unless
// they are read later. Nobody adopts meanwhile. Errors: Mismatch (another size), InvalidState (memory that was adopted as
// read-only).
func (s *Staging) meetAdopted() (met []meeting, err error) {
	adopted := s.context.adopted()
	for i := range s.Pages {
		if len(adopted) == 0 {
			break
		}
		staged := &s.Pages[i]
		into, ok := adopted[staged.ID]
		switch {
		case !ok:
			continue
		case into.size != staged.Size:
			return nil, status.Errorf(status.Mismatch, "page %d has %d bytes in the snapshot, but its adopted memory has %d",
				staged.ID, staged.Size, into.size)
		case into.readOnly:
			return nil, status.Errorf(status.InvalidState, "page %d was adopted as read-only: its bytes cannot be loaded",
				staged.ID)
		}
		met = append(met, meeting{into.handle, staged, s.ReadTogether != nil && s.Page(staged.Index).Waits()})
	}
	for _, m := range met {
		if m.waits {
			continue
		}
		if err := s.toHost(m.staged); err != nil {
			return nil, err
		}
	}
	return met, nil
}

// toHost brings the bytes of a staged page into memory of the host, from where they are or wait.
func (s *Staging) toHost(staged *native.Staged) error {
	host, p := residency.Placement{}, s.Page(staged.Index)
	p.Record.Size = staged.Size
	err := p.Present()
	if err == nil && p.Placement() != host {
		err = p.Page.Move(host, func() error { return nil })
	}
	staged.Low = p.State & (native.ExplicitID | native.Nonresident | native.LocationMask)
	p.Record.StoreState(p.State)
	return err
}

// throughAdopted writes the bytes of staged pages into memory of devices that was adopted, which can fail. The adopted pages are
// locked, or have ended.
func (s *Staging) throughAdopted(met []meeting) error {
	for _, m := range met {
		old := pageAt(s.context, native.Index(m.adopted))
		if old.handle != m.adopted || m.waits {
			continue
		}
		staged := s.Page(m.staged.Index)
		if err := old.WriteThrough(native.Bytes(staged.Record.Locator, m.staged.Size)); err != nil {
			return err
		}
	}
	return nil
}

// readIntoAdopted reads the bytes of staged pages that wait into adopted memory. Where that fails the page waits on, as if the
// adopted one had ended, whose owner gets the memory back: Unfilled says so.
func (s *Staging) readIntoAdopted(met []meeting) {
	if s.ReadTogether == nil {
		return
	}
	var failed atomic.Pointer[error]
	s.ReadTogether(len(met), func(i int) {
		m := &met[i]
		old := pageAt(s.context, native.Index(m.adopted))
		if !m.waits || old.handle != m.adopted {
			return
		}
		if err := s.Page(m.staged.Index).ReadInto(&old.Page); err != nil {
			m.adopted = 0
			found := status.Of(err)
			err = status.Errorf(found.Code, "the state is loaded, but page %d waits in the file, and its memory goes back: %s",
				m.staged.ID, found.Text)
			failed.CompareAndSwap(nil, &err)
		}
	})
	if err := failed.Load(); err != nil {
		s.Unfilled = *err
	}
}

// intoAdopted puts the bytes of staged pages into adopted memory, which is theirs from now on. The adopted pages are locked,
// or have ended.
func (s *Staging) intoAdopted(met []meeting) {
	for _, m := range met {
		old := pageAt(s.context, native.Index(m.adopted))
		if old.handle != m.adopted {
			continue
		}
		staged := s.Page(m.staged.Index)
		old.HandOver(&staged.Page)
		m.staged.Low = native.ExplicitID | native.Adopted | staged.State&(native.Nonresident|native.LocationMask)
	}
}
