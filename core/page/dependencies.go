package page

import (
	"libmmsb/core/graph"
	"libmmsb/core/journal"
	"libmmsb/core/memory"
	"libmmsb/native"
)

// AddDependency makes child depend on parent.
func AddDependency(parent, child uint64) error {
	return changePair(parent, child, func(c *change, parent, child uint32) error {
		for _, index := range [2]uint32{parent, child} { // a page with a side record is torn down by Go when it ends
			if _, err := pageAt(c.context, index).Side(); err != nil {
				return err
			}
		}
		all, g := c.context.dependencies.graph, c.group()
		if err := all.AddBeside(parent, child, g.name()); err != nil {
			return err
		}
		back := func() error {
			return c.context.onGraph(func(all *graph.Graph) error { return all.Remove(parent, child) })
		}
		err := g.with(0, step{back: back}, func() error { return c.journalEdge(journal.DependencyAdd, parent, child) })
		if err != nil {
			_ = all.Remove(parent, child)
		}
		return err
	})
}

// RemoveDependency ends the dependency of child on parent.
func RemoveDependency(parent, child uint64) error {
	return changePair(parent, child, func(c *change, parent, child uint32) error {
		all := c.context.dependencies.graph
		if !all.Has(parent, child) {
			return all.Remove(parent, child)
		}
		g := c.group()
		if g == nil {
			if err := c.journalEdge(journal.DependencyRemove, parent, child); err != nil {
				return err
			}
			return all.Remove(parent, child)
		}
		hidden, err := all.Hide(parent, child, g.name())
		if err != nil {
			return err
		}
		err = g.with(0, c.context.hiddenStep(hidden), func() error {
			return c.journalEdge(journal.DependencyRemove, parent, child)
		})
		if err != nil {
			all.Show(hidden)
		}
		return err
	})
}

// Parents are the pages that a page depends on, oldest edge first.
func Parents(page uint64) ([]uint64, error) {
	return neighbours(page, func(all *graph.Graph, index uint32) []uint32 { return all.Parents(index) })
}

// Children are the pages that depend on a page, oldest edge first.
func Children(page uint64) ([]uint64, error) {
	return neighbours(page, func(all *graph.Graph, index uint32) []uint32 { return all.Children(index) })
}

func neighbours(page uint64, of func(all *graph.Graph, index uint32) []uint32) (found []uint64, err error) {
	err = Read(page, func(p *Page) error {
		d := &p.context.dependencies
		d.Lock()
		defer d.Unlock()
		found = handles(of(d.graph, p.Index))
		return nil
	})
	return found, err
}

// handles are those of the pages that live on records: they have edges, so they live.
func handles(indices []uint32) []uint64 {
	pages := make([]uint64, len(indices))
	for i, index := range indices {
		pages[i] = handleOf(index)
	}
	return pages
}

// handleOf is that of the page that lives on a record.
func handleOf(index uint32) uint64 {
	return native.Handle(native.KindPage, native.Generation(native.RecordAt(index).LoadState()), index)
}

// withGraph shows work the dependencies of a page's context. Pages that have ended have none.
func withGraph(page uint64, work func(all *graph.Graph, index uint32)) {
	c := contextOf(native.Index(page))
	if c == nil {
		return
	}
	c.dependencies.Lock()
	defer c.dependencies.Unlock()
	if lives(page) {
		work(c.dependencies.graph, native.Index(page))
	}
}

// lives says whether a handle is that of the page on its record now.
func lives(page uint64) bool {
	return native.RecordAt(native.Index(page)).LoadState()>>native.IndexBits == page>>native.IndexBits
}

// parentsOf puts pages and their parents into all, one page behind the other, and returns how many handles that is. It waits for
// no page.
func parentsOf(pages, all, counts []uint64) (needed int) {
	var few [64]uint32
	for i, page := range pages {
		if needed < len(all) {
			all[needed] = page
		}
		needed++
		counts[i] = 0
		if native.RecordAt(native.Index(page)).Side == 0 { // pages with dependencies have one
			continue
		}
		withGraph(page, func(graph *graph.Graph, index uint32) { // while it is locked the parents live
			for _, parent := range graph.AppendParents(few[:0], index) {
				if needed < len(all) {
					all[needed] = handleOf(parent)
				}
				needed++
				counts[i]++
			}
		})
	}
	return needed
}

// checkCycle says whether the first of the pages can depend on the others. It waits for no page.
func checkCycle(pages []uint64) (err error) {
	withGraph(pages[0], func(all *graph.Graph, child uint32) {
		for _, parent := range pages[1:] { // dependencies are between pages of one context
			if err == nil && lives(parent) && contextOf(native.Index(parent)) == contextOf(child) {
				err = all.Allows(native.Index(parent), child)
			}
		}
	})
	return err
}

// DependencyOrder is all pages with dependencies, parents before children.
func (c *Context) DependencyOrder() []uint64 {
	c.dependencies.Lock()
	defer c.dependencies.Unlock()
	return handles(c.dependencies.graph.Order())
}

// Moment calls begin with the leaves that the context has, and returns the dependencies as they are then, by ids: no edge and no
// leaf comes or goes meanwhile, no page whose record the journal has is still about to begin, and no group is open: those that
// are it waits for, until cancel. Errors: Busy (the thread has a group open, or a follower is stuck), Cancelled, StaleHandle (the
// context ends).
func (c *Context) Moment(cancel <-chan struct{}, begin func(leaves []memory.Leaf)) (edges [][2]uint64, err error) {
	release, err := c.KeepGroupsOut(cancel)
	if err != nil {
		return nil, err
	}
	defer release()
	c.groups.Lock()
	err = c.groups.checkStuck(c)
	c.groups.Unlock()
	if err != nil {
		return nil, err
	}
	c.creating.Lock()
	defer c.creating.Unlock()
	c.dependencies.Lock()
	defer c.dependencies.Unlock()
	c.memory.WithLeaves(func(leaves []memory.Leaf) {
		begin(leaves)
		for _, edge := range c.dependencies.graph.All() {
			edges = append(edges, [2]uint64{IDOf(edge[0]), IDOf(edge[1])})
		}
	})
	return edges, nil
}
