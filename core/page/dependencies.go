package page

import (
	"libmmsb/core/journal"
	"libmmsb/core/status"
	"libmmsb/native"
)

// AddDependency makes child depend on parent.
func AddDependency(parent, child uint64) error {
	return withPair(parent, child, func(c *Context, parent, child uint32, told *journalled) error {
		for _, index := range [2]uint32{parent, child} { // a page with a side record is taken apart by Go when it ends
			p := locked{record: native.RecordAt(index)}
			if _, err := p.side(); err != nil {
				return err
			}
		}
		if err := c.dependencies.graph.Add(parent, child); err != nil {
			return err
		}
		err := c.journalEdge(journal.DependencyAdd, parent, child, told)
		if err != nil {
			_ = c.dependencies.graph.Remove(parent, child)
		}
		return err
	})
}

// RemoveDependency removes the edge.
func RemoveDependency(parent, child uint64) error {
	return withPair(parent, child, func(c *Context, parent, child uint32, told *journalled) error {
		if !c.dependencies.graph.Has(parent, child) {
			return c.dependencies.graph.Remove(parent, child)
		}
		if err := c.journalEdge(journal.DependencyRemove, parent, child, told); err != nil {
			return err
		}
		return c.dependencies.graph.Remove(parent, child)
	})
}

// withPair works on the edges between two live pages of one context.
func withPair(parent, child uint64, work func(c *Context, parent, child uint32, told *journalled) error) (err error) {
	var told journalled
	defer func() { // after the pages are unlocked
		if waited := told.wait(); err == nil {
			err = waited
		}
	}()
	if parent == child {
		p, err := lock(parent)
		if err != nil {
			return err
		}
		defer p.unlock()
		p.context.dependencies.Lock()
		defer p.context.dependencies.Unlock()
		return work(p.context, p.index, p.index, &told)
	}
	pages := [2]uint64{parent, child}
	if _, code := native.LockPair(&pages); code != 0 {
		return fromNative(code)
	}
	defer native.UnlockPair(&pages)
	a, b := native.Index(parent), native.Index(child)
	c := contextOf(a)
	if other := contextOf(b); other != c {
		return status.Errorf(status.Mismatch, "page 0x%016x is of context 0x%016x, page 0x%016x of context 0x%016x", parent, c.handle, child,
			other.handle)
	}
	c.dependencies.Lock()
	defer c.dependencies.Unlock()
	return work(c, a, b, &told)
}

// forgetDependencies removes a page's edges.
func (c *Context) forgetDependencies(index uint32) {
	c.dependencies.Lock()
	defer c.dependencies.Unlock()
	if c.dependencies.graph.Edges() > 0 {
		c.dependencies.graph.RemoveNode(index)
	}
}

// Parents and Children are a page's neighbours, oldest edge first.
func Parents(page uint64) ([]uint64, error) { return neighbours(page, true) }

// Children are the pages that depend on a page.
func Children(page uint64) ([]uint64, error) { return neighbours(page, false) }

func neighbours(page uint64, parents bool) ([]uint64, error) {
	p, err := lock(page)
	if err != nil {
		return nil, err
	}
	defer p.unlock()
	c := p.context
	c.dependencies.Lock()
	defer c.dependencies.Unlock()
	if parents {
		return handles(c.dependencies.graph.Parents(p.index)), nil
	}
	return handles(c.dependencies.graph.Children(p.index)), nil
}

// handles are those of the pages that live on records: they have edges, so they live.
func handles(indices []uint32) []uint64 {
	pages := make([]uint64, len(indices))
	for i, index := range indices {
		pages[i] = native.Handle(native.KindPage, native.Generation(native.RecordAt(index).LoadState()), index)
	}
	return pages
}

// DependencyOrder is all pages with dependencies, parents before children.
func (c *Context) DependencyOrder() []uint64 {
	c.dependencies.Lock()
	defer c.dependencies.Unlock()
	return handles(c.dependencies.graph.Order())
}
