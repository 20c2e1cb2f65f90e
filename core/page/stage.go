package page

import (
	"libmmsb/core/graph"
	"libmmsb/core/lasterror"
	"libmmsb/core/memory"
	"libmmsb/core/residency"
	"libmmsb/core/safego"
	"libmmsb/core/status"
	"libmmsb/native"
)

// Staging is frames that become pages of a context at once, in place of those that have their ids, or of all. Until Commit nobody
// sees them, and nothing of the context has changed. One goroutine works on it.
type Staging struct {
	Pages   []native.Staged
	Handles map[uint64]uint64 // that a page will have, by id
	Graph   *graph.Graph      // the dependencies of a whole state; nil = those of the context stay
	context *Context
}

// NewStaging is empty, with space for so many pages. It grows.
func NewStaging(c *Context, pages uint64) *Staging {
	return &Staging{Pages: make([]native.Staged, 0, pages), Handles: make(map[uint64]uint64, pages), context: c}
}

// NewGraph makes a graph without edges for staged pages.
func (s *Staging) NewGraph() *graph.Graph { return newGraph() }

// Add stages pages that lie on frames like one, of which all but the records is the same. Where it fails the frames go. ids say
// what a page is, beside what the frame says: ID, Size, Epoch, Version and Index of each.
func (s *Staging) Add(pages []native.Staged, like residency.Frame, node int32) error {
	sides := make([]uint32, len(pages))
	if err := memory.TakeSides(sides); err != nil {
		for i := range pages {
			s.context.residency.Give(residency.Frame{Index: pages[i].Index, Backing: like.Backing})
		}
		return err
	}
	var twice error
	for i := range pages {
		p := &pages[i]
		record, side := native.RecordAt(p.Index), native.SideAt(sides[i])
		record.Side = sides[i]
		side.ID, side.NUMANode = p.ID, node
		like.Note(side)
		p.Generation = native.Generation(record.LoadState())
		p.Low = like.Low | native.ExplicitID
		s.Pages = append(s.Pages, *p)
		s.Handles[p.ID] = native.Handle(native.KindPage, p.Generation, p.Index)
		if len(s.Handles) != len(s.Pages) && twice == nil {
			twice = status.Errorf(status.Corrupt, "page %d is there twice", p.ID)
		}
	}
	return twice
}

// Page is a staged page as what it will be.
func (s *Staging) Page(index uint32) *Page { return pageAt(s.context, index) }

// Drop gives all staged frames back.
func (s *Staging) Drop() {
	for i := range s.Pages {
		s.DropOne(s.Pages[i].Index)
	}
}

// DropOne gives one staged frame back.
func (s *Staging) DropOne(index uint32) { s.context.discard(residency.FrameOf(index)) }

// Commit ends the pages that are replaced, all of the context or those with staged ids, and begins the staged ones; none of it
// where one of them is pinned. beside runs while ids are taken and pages begin, when nothing can fail any more. The functions
// that it returns are the callers', who get memory back that was adopted: to be called outside of every lock.
func (s *Staging) Commit(all bool, beside func()) (releases []func(), err error) {
	c := s.context
	c.creating.Lock()
	defer c.creating.Unlock()
	if code := native.Freeze(c.index); code != 0 {
		return nil, lasterror.Load(code)
	}
	defer native.Thaw(c.index)
	if all {
		releases, err = c.endAll()
	} else {
		releases, err = s.endReplaced()
	}
	if err != nil {
		return nil, err
	}
	done := make(chan struct{})
	safego.Go(func() {
		defer close(done)
		beside()
	})
	s.takeIDs(all)
	if s.Graph != nil {
		c.dependencies.Lock()
		c.dependencies.graph = s.Graph
		c.dependencies.Unlock()
	}
	native.PublishPages(c.index, s.Pages)
	<-done
	return releases, nil
}

// endAll ends all pages of a frozen context; none where one of them is pinned.
func (c *Context) endAll() (releases []func(), err error) {
	leaves := c.memory.Leaves()
	for i, leaf := range leaves {
		looked := native.LockRecords(leaf.First(), leaf.Used)
		if looked == leaf.Used {
			continue
		}
		err := pageAt(c, leaf.First()+looked).notPinned()
		native.UnlockRecords(leaf.First(), looked+1)
		for _, leaf := range leaves[:i] {
			native.UnlockRecords(leaf.First(), leaf.Used)
		}
		return nil, err
	}
	c.ids.Lock()
	c.ids.explicit = make(map[uint64]uint64) // none of them stays, so that none is looked for
	c.ids.Unlock()
	finished := new(native.Finished)
	for _, leaf := range leaves {
		sides, left := finished.FinishRecords(leaf.First(), leaf.Used)
		memory.GiveSides(sides...)
		for _, index := range left {
			releases = pageAt(c, index).endReplaced(releases)
		}
	}
	return releases, nil
}

// endReplaced ends the pages whose ids are those of staged ones; none where one of them is pinned.
func (s *Staging) endReplaced() (releases []func(), err error) {
	var old []*Page
	for i := range s.Pages {
		handle, err := s.context.Lookup(s.Pages[i].ID)
		if err != nil {
			continue
		}
		p, err := lock(handle)
		if err != nil { // it has ended meanwhile, and none begins
			continue
		}
		old = append(old, p)
		if err := p.notPinned(); err != nil {
			for _, p := range old {
				p.unlock()
			}
			return nil, err
		}
	}
	for _, p := range old {
		releases = p.endReplaced(releases)
	}
	return releases, nil
}

// endReplaced ends the locked page. Where its memory is the caller's, releases gets the call that gives it back.
func (p *Page) endReplaced(releases []func()) []func() {
	if release := p.ReleaseAdopted(); release != nil {
		releases = append(releases, release)
	}
	p.context.tearDown(p.Index, p.State)
	return releases
}

// takeIDs makes the staged pages' ids those of the context. Nobody creates pages meanwhile.
func (s *Staging) takeIDs(all bool) {
	c := s.context
	i := &c.ids
	i.Lock()
	defer i.Unlock()
	if all {
		i.explicit = s.Handles
		clear(i.waiting) // no other id is in use
		i.waits = 0
	} else {
		i.tidy()
		for id, page := range s.Handles {
			i.explicit[id] = page
		}
	}
	for at := range s.Pages {
		if id := s.Pages[at].ID; id&^native.IDMask == native.IDAutomatic {
			i.mark(id)
		}
	}
}
