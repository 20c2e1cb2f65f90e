// Dependencies between pages, in the order in which they were added.

package replay

import "slices"

// edges are dependencies, parent and child, in the order in which they were added.
type edges struct {
	added map[[2]uint64]uint64
	next  uint64
	of    map[uint64]map[[2]uint64]struct{}
}

func (e *edges) add(edge [2]uint64) {
	if _, known := e.added[edge]; known {
		return
	}
	if e.added == nil {
		e.added, e.of = make(map[[2]uint64]uint64), make(map[uint64]map[[2]uint64]struct{})
	}
	e.added[edge] = e.next
	e.next++
	for _, page := range edge {
		if e.of[page] == nil {
			e.of[page] = make(map[[2]uint64]struct{})
		}
		e.of[page][edge] = struct{}{}
	}
}

func (e *edges) remove(edge [2]uint64) {
	delete(e.added, edge)
	for _, page := range edge {
		delete(e.of[page], edge)
	}
}

func (e *edges) removePage(page uint64) {
	for edge := range e.of[page] {
		e.remove(edge)
	}
	delete(e.of, page)
}

func (e *edges) all() [][2]uint64 {
	list := make([][2]uint64, 0, len(e.added))
	for edge := range e.added {
		list = append(list, edge)
	}
	slices.SortFunc(list, func(a, b [2]uint64) int { return int(e.added[a]) - int(e.added[b]) })
	return list
}
