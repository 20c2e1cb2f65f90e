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
	Handles *native.ByID // that a page will have
	Graph   *graph.Graph // the dependencies between them
	Version uint64       // that Commit gave all of them; 0: each kept its own
	Far     bool         // Version is below what a page had
	// ReadTogether calls read with each number below count. Where it is there, pages that wait are verified, and their bytes are
	// read straight into adopted memory.
	ReadTogether func(count int, read func(i int))
	Unfilled     error // of adopted memory that did not get its bytes
	context      *Context
}

// NewStaging is empty, with space for so many pages. It grows.
func NewStaging(c *Context, pages uint64) *Staging {
	return &Staging{
		Pages: make([]native.Staged, 0, pages), Handles: native.NewByID(pages), Graph: newGraph(), context: c,
	}
}

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
	s.Handles.Expect(pages)
	var twice error
	for i := range pages {
		p := &pages[i]
		record, side := native.RecordAt(p.Index), native.SideAt(sides[i])
		record.Side = sides[i]
		side.ID, side.NUMANode = p.ID, node
		like.Note(side)
		p.Generation = native.Generation(record.LoadState())
		p.Low = like.Low | native.ExplicitID
		record.StoreState(record.LoadState() | p.Low)
		s.Pages = append(s.Pages, *p)
		s.Handles.Put(p.ID, native.Handle(native.KindPage, p.Generation, p.Index))
		if s.Handles.Len() != len(s.Pages) && twice == nil {
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
// where one of them is pinned, was adopted and cannot take the bytes, where the dependencies do not go together, or where a group
// is open. beside runs while ids are taken and pages begin, when nothing can fail any more. The functions that it returns are the
// callers', who get memory back that was adopted: to be called outside of every lock. last runs when the staged pages have begun,
// and nobody has changed one.
func (s *Staging) Commit(all bool, beside func(), last func(still *Still)) (releases []func(), err error) {
	c := s.context
	begin, err := c.groups.keepOut(c)
	if err != nil {
		return nil, err
	}
	defer begin()
	c.creating.Lock()
	defer c.creating.Unlock()
	met, err := s.meetAdopted()
	if err != nil {
		return nil, err
	}
	far := false
	for i := range s.Pages {
		if version := s.Pages[i].Version; version < farVersion {
			noteVersion(version)
		} else {
			far = true
		}
	}
	if code := native.Freeze(c.index); code != 0 {
		return nil, lasterror.Load(code)
	}
	defer native.Thaw(c.index)
	old := &replaced{context: c, all: all}
	if err := old.lock(s); err != nil {
		return nil, err
	}
	c.dependencies.Lock()
	defer c.dependencies.Unlock()
	joined := s.Graph
	if !all {
		if joined, err = s.join(old.pages); err != nil {
			old.unlock()
			return nil, err
		}
	}
	if err := s.throughAdopted(met); err != nil {
		old.unlock()
		return nil, err
	}
	s.readIntoAdopted(met)
	noteVersion(old.highest)
	s.moveVersions(far)
	s.intoAdopted(met)
	c.dependencies.graph = joined
	releases = old.end()
	helper := safego.Beside(beside)
	s.takeIDs(all)
	native.PublishPages(c.index, s.Pages)
	helper.Wait()
	last(&Still{c})
	return releases, nil
}

// BringIn gives a page its bytes where they wait in a snapshot; a page that has ended needs none.
func BringIn(page uint64) error {
	p, err := lock(page)
	if err != nil {
		return nil
	}
	err = p.Present()
	p.unlock()
	return err
}

// join is the dependencies of the context when staged pages have taken the place of others: of pages that stay all, between
// staged pages those of the staging.
func (s *Staging) join(old []uint32) (*graph.Graph, error) {
	joined := s.context.dependencies.graph
	if s.Graph.Edges() > 0 { // else nothing can fail
		joined = joined.Clone()
	}
	of := make(map[uint32]uint32, len(old))
	for _, index := range old {
		handle, _ := s.Handles.Find(IDOf(index))
		of[index] = native.Index(handle)
	}
	for _, parent := range old {
		for _, child := range joined.Children(parent) {
			if _, goes := of[child]; goes {
				_ = joined.Remove(parent, child)
			}
		}
	}
	for _, index := range old {
		joined.Rename(index, of[index])
	}
	if s.Graph.Edges() == 0 {
		return joined, nil
	}
	changed := graph.Build(joined)
	for _, edge := range s.Graph.All() {
		changed.Add(edge[0], edge[1])
	}
	if err := joined.Check(); err != nil {
		return nil, status.Errorf(status.Mismatch, "the dependencies do not go with those of pages that stay: %v", err)
	}
	return joined, nil
}

// moveVersions lets the staged pages go on above all versions of the context, whose pages may have had their ids. In a context
// that has had no page they keep theirs, unless one is far.
func (s *Staging) moveVersions(far bool) {
	if native.CountContext(s.context.index).Creates == 0 && !far {
		return
	}
	s.Far = far
	s.Version = newVersion()
	for i := range s.Pages {
		s.Pages[i].Version = s.Version
	}
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
		s.Handles.All(i.explicit.Put)
	}
	for at := range s.Pages {
		if id := s.Pages[at].ID; id&^native.IDMask == native.IDAutomatic {
			i.mark(id)
		}
	}
}
