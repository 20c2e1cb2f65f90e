package page

import (
	"libmmsb/core/lasterror"
	"libmmsb/core/lineage"
	"libmmsb/native"
)

// Still runs work while no call creates, changes or ends a page of the context, or a dependency: they wait. No group is open: the
// caller has seen to that (WithoutGroups), or the context ends.
func (c *Context) Still(work func(still *Still) error) error {
	c.creating.Lock()
	defer c.creating.Unlock()
	if code := native.Freeze(c.index); code != 0 {
		return lasterror.Load(code)
	}
	defer native.Thaw(c.index)
	c.dependencies.Lock()
	defer c.dependencies.Unlock()
	return work(&Still{c})
}

// Still is a context whose pages and dependencies do not change.
type Still struct{ context *Context }

// Fingerprint is that of the context's state, and the number of its pages.
func (s *Still) Fingerprint() (print lineage.Fingerprint, pages uint64) {
	for index, state := range s.context.memory.Pages() {
		record := native.RecordAt(index)
		pages++
		print.Page(recordID(index, state), record.Version, record.Size)
	}
	for _, edge := range s.context.dependencies.graph.All() {
		print.Edge(IDOf(edge[0]), IDOf(edge[1]))
	}
	return print, pages
}
