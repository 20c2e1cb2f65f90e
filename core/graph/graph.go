// Package graph keeps dependencies between nodes without cycles. Nodes are numbers (of page records), and there is nothing
// to create or destroy: a node is known while it has an edge.
//
// Edges lie in one slice and hang together by their indices, so that the garbage collector has no pointers to follow. A
// graph does no locking.
package graph

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"

	"libmmsb/core/status"
)

// The two lists that an edge is in: that of its parent's children and that of its child's parents.
const (
	children = 0
	parents  = 1
)

type edge struct {
	ends     [2]uint32 // the node that list is of: the parent for children, the child for parents
	next     [2]uint32 // younger edge in the list; of a free edge, next[children] is the next free one
	previous [2]uint32 // older edge in the list
	age      uint64    // number of edges that were added before
	hidden   uint64    // who has hidden it; 0 = it is to be seen
}

// head is what is known of a node: per list its oldest and youngest edge, 0 for none, and how many there are to be seen.
type head struct {
	oldest, youngest, length [2]uint32
}

// Graph holds edges from parents to children. Make one with New.
type Graph struct {
	name   func(uint32) string
	nodes  map[uint32]head
	edges  []edge // the edge at index 0 is not used
	free   uint32
	live   int
	added  uint64
	hidden int // of those that live
}

// New makes an empty graph. name says how a node is called in an error's text; nil = by its number.
func New(name func(node uint32) string) *Graph {
	if name == nil {
		name = func(node uint32) string { return strconv.FormatUint(uint64(node), 10) }
	}
	return &Graph{name: name, nodes: map[uint32]head{}, edges: make([]edge, 1)}
}

// Edges is the number of edges, hidden ones with them.
func (g *Graph) Edges() int { return g.live }

// All lists the edges, parent and child, the oldest first.
func (g *Graph) All() [][2]uint32 {
	indices := make([]uint32, 0, g.live)
	for index := range g.edges {
		if g.edges[index].ends != [2]uint32{} && g.edges[index].hidden == 0 {
			indices = append(indices, uint32(index))
		}
	}
	slices.SortFunc(indices, func(a, b uint32) int { return cmp.Compare(g.edges[a].age, g.edges[b].age) })
	all := make([][2]uint32, len(indices))
	for i, index := range indices {
		all[i] = g.edges[index].ends
	}
	return all
}

// Add makes child depend on parent. Errors: AlreadyExists, InvalidArgument (it would close a cycle, which the text names).
func (g *Graph) Add(parent, child uint32) error { return g.AddBeside(parent, child, 0) }

// AddBeside is Add for who has hidden edges: to others these are in the way, as they may be shown again. Errors: those of Add,
// Busy.
func (g *Graph) AddBeside(parent, child uint32, by uint64) error {
	if g.find(parent, child) != 0 {
		return status.Errorf(status.AlreadyExists, "%s already depends on %s", g.name(child), g.name(parent))
	}
	if err := g.Allows(parent, child); err != nil {
		return err
	}
	if g.hidden > 0 {
		if path := g.path(child, parent, func(hidden uint64) bool { return hidden == 0 || hidden != by }); path != nil {
			return status.Errorf(status.Busy,
				"%s cannot depend on %s: the cycle would be %s, of which an open group has removed a part",
				g.name(child), g.name(parent), g.describe(append(path, child)))
		}
	}
	g.append(parent, child)
	return nil
}

// Allows says whether child can depend on parent. Errors: InvalidArgument (it would close a cycle, which the text names).
func (g *Graph) Allows(parent, child uint32) error {
	if path := g.path(child, parent, func(hidden uint64) bool { return hidden == 0 }); path != nil {
		return status.Errorf(status.InvalidArgument, "%s cannot depend on %s: the cycle would be %s",
			g.name(child), g.name(parent), g.describe(append(path, child)))
	}
	return nil
}

// append adds an edge that is not there.
func (g *Graph) append(parent, child uint32) (index uint32) {
	index = g.free
	if index != 0 {
		g.free = g.edges[index].next[children]
	} else {
		index = uint32(len(g.edges))
		g.edges = append(g.edges, edge{})
	}
	g.edges[index] = edge{ends: [2]uint32{children: parent, parents: child}, age: g.added}
	g.added++
	g.link(index, children)
	g.link(index, parents)
	g.live++
	return index
}

// Remove ends one dependency. Errors: NotFound.
func (g *Graph) Remove(parent, child uint32) error {
	index := g.find(parent, child)
	if index == 0 {
		return status.Errorf(status.NotFound, "%s does not depend on %s", g.name(child), g.name(parent))
	}
	g.remove(index)
	return nil
}

// Hidden is an edge that was hidden.
type Hidden struct {
	index uint32
	age   uint64
}

// Hide takes an edge out of sight: as if it were removed, but Show shows it again where it was. by is not 0. Errors: NotFound.
func (g *Graph) Hide(parent, child uint32, by uint64) (Hidden, error) {
	index := g.find(parent, child)
	if index == 0 {
		return Hidden{}, status.Errorf(status.NotFound, "%s does not depend on %s", g.name(child), g.name(parent))
	}
	return g.hide(index, by), nil
}

// HideNode hides all edges of a node.
func (g *Graph) HideNode(node uint32, by uint64) (hidden []Hidden) {
	for _, list := range []int{children, parents} {
		for index := g.nodes[node].oldest[list]; index != 0; index = g.edges[index].next[list] {
			if g.edges[index].hidden == 0 {
				hidden = append(hidden, g.hide(index, by))
			}
		}
	}
	return hidden
}

func (g *Graph) hide(index uint32, by uint64) Hidden {
	g.edges[index].hidden = by
	g.hidden++
	g.count(index, ^uint32(0))
	return Hidden{index, g.edges[index].age}
}

// Show shows edges again, but for those whose nodes have lost them.
func (g *Graph) Show(hidden ...Hidden) {
	for _, h := range hidden {
		if g.is(h) {
			g.edges[h.index].hidden = 0
			g.hidden--
			g.count(h.index, 1)
		}
	}
}

// Drop removes hidden edges.
func (g *Graph) Drop(hidden ...Hidden) {
	for _, h := range hidden {
		if g.is(h) {
			g.remove(h.index)
		}
	}
}

// is tells whether a hidden edge is still there.
func (g *Graph) is(h Hidden) bool {
	return g.edges[h.index].hidden != 0 && g.edges[h.index].age == h.age
}

// count adds to the numbers of edges that the ends of an edge have to be seen.
func (g *Graph) count(index uint32, more uint32) {
	for _, list := range []int{children, parents} {
		node := g.edges[index].ends[list]
		head := g.nodes[node]
		head.length[list] += more
		g.nodes[node] = head
	}
}

// RemoveNode ends all dependencies of and on a node.
func (g *Graph) RemoveNode(node uint32) {
	for _, list := range []int{children, parents} {
		for index := g.nodes[node].oldest[list]; index != 0; {
			next := g.edges[index].next[list]
			g.remove(index)
			index = next
		}
	}
}

// Rename gives all edges of a node to another one, which has none.
func (g *Graph) Rename(from, to uint32) {
	of, ok := g.nodes[from]
	if !ok {
		return
	}
	for _, list := range []int{children, parents} {
		for index := of.oldest[list]; index != 0; index = g.edges[index].next[list] {
			g.edges[index].ends[list] = to
		}
	}
	delete(g.nodes, from)
	g.nodes[to] = of
}

// Clone is a copy, which changes by itself.
func (g *Graph) Clone() *Graph {
	clone := *g
	clone.nodes, clone.edges = maps.Clone(g.nodes), slices.Clone(g.edges)
	return &clone
}

// Has tells whether a child depends on a parent.
func (g *Graph) Has(parent, child uint32) bool { return g.find(parent, child) != 0 }

// Parents lists the nodes that a node depends on, the oldest edge first.
func (g *Graph) Parents(node uint32) []uint32 { return g.list(node, parents) }

// Children lists the nodes that depend on a node, the oldest edge first.
func (g *Graph) Children(node uint32) []uint32 { return g.list(node, children) }

// Order lists all nodes with edges, each after all its parents. It is the same each time for edges that were added in one
// order.
func (g *Graph) Order() []uint32 {
	order := make([]uint32, 0, len(g.nodes))
	waiting := make(map[uint32]uint32, len(g.nodes)) // parents that are not in the order yet
	for node, head := range g.nodes {
		switch {
		case head.length == [2]uint32{}: // all its edges are hidden
		case head.length[parents] == 0:
			order = append(order, node)
		default:
			waiting[node] = head.length[parents]
		}
	}
	slices.Sort(order)
	for at := 0; at < len(order); at++ {
		for index := g.nodes[order[at]].oldest[children]; index != 0; index = g.edges[index].next[children] {
			if g.edges[index].hidden != 0 {
				continue
			}
			child := g.edges[index].ends[parents]
			waiting[child]--
			if waiting[child] == 0 {
				order = append(order, child)
			}
		}
	}
	return order
}

func other(list int) int { return 1 - list }

func (g *Graph) list(node uint32, list int) []uint32 {
	head := g.nodes[node]
	return g.appendList(make([]uint32, 0, head.length[list]), head, list)
}

// AppendParents appends what Parents lists.
func (g *Graph) AppendParents(to []uint32, node uint32) []uint32 {
	return g.appendList(to, g.nodes[node], parents)
}

func (g *Graph) appendList(nodes []uint32, head head, list int) []uint32 {
	for index := head.oldest[list]; index != 0; index = g.edges[index].next[list] {
		if g.edges[index].hidden == 0 {
			nodes = append(nodes, g.edges[index].ends[other(list)])
		}
	}
	return nodes
}

// find is the edge's index, or 0. It walks the shorter of the two lists that the edge would be in.
func (g *Graph) find(parent, child uint32) uint32 {
	list, end := children, child
	index := g.nodes[parent].oldest[children]
	if head := g.nodes[child]; head.length[parents] < g.nodes[parent].length[children] {
		list, end, index = parents, parent, head.oldest[parents]
	}
	for ; index != 0; index = g.edges[index].next[list] {
		if g.edges[index].ends[other(list)] == end && g.edges[index].hidden == 0 {
			return index
		}
	}
	return 0
}

func (g *Graph) link(index uint32, list int) {
	added := &g.edges[index]
	node := added.ends[list]
	head := g.nodes[node]
	if head.youngest[list] == 0 {
		head.oldest[list] = index
	} else {
		added.previous[list] = head.youngest[list]
		g.edges[head.youngest[list]].next[list] = index
	}
	head.youngest[list] = index
	head.length[list]++
	g.nodes[node] = head
}

func (g *Graph) remove(index uint32) {
	if g.edges[index].hidden != 0 {
		g.hidden--
	}
	g.unlink(index, children)
	g.unlink(index, parents)
	g.edges[index] = edge{next: [2]uint32{children: g.free}}
	g.free = index
	g.live--
}

func (g *Graph) unlink(index uint32, list int) {
	removed := &g.edges[index]
	node, next, previous := removed.ends[list], removed.next[list], removed.previous[list]
	head := g.nodes[node]
	if previous == 0 {
		head.oldest[list] = next
	} else {
		g.edges[previous].next[list] = next
	}
	if next == 0 {
		head.youngest[list] = previous
	} else {
		g.edges[next].previous[list] = previous
	}
	if removed.hidden == 0 {
		head.length[list]--
	}
	if head.oldest == [2]uint32{} {
		delete(g.nodes, node)
	} else {
		g.nodes[node] = head
	}
}

// path is a way from one node down to another over the edges that count, both named; nil where there is none. Edges are mostly
// added to nodes that are new, and then there is nothing to search.
func (g *Graph) path(from, to uint32, counts func(hidden uint64) bool) []uint32 {
	if from == to {
		return []uint32{from}
	}
	if g.nodes[from].oldest[children] == 0 || g.nodes[to].oldest[parents] == 0 {
		return nil
	}
	cameFrom := map[uint32]uint32{from: from}
	for pending := []uint32{from}; len(pending) > 0; {
		node := pending[len(pending)-1]
		pending = pending[:len(pending)-1]
		for index := g.nodes[node].oldest[children]; index != 0; index = g.edges[index].next[children] {
			child := g.edges[index].ends[parents]
			if _, seen := cameFrom[child]; seen || !counts(g.edges[index].hidden) {
				continue
			}
			cameFrom[child] = node
			if child != to {
				pending = append(pending, child)
				continue
			}
			path := []uint32{to}
			for node := to; node != from; {
				node = cameFrom[node]
				path = append(path, node)
			}
			slices.Reverse(path)
			return path
		}
	}
	return nil
}

// describe writes a path for a text of one line: a long one without its middle.
func (g *Graph) describe(path []uint32) string {
	const shown = 4 // at each end
	var text strings.Builder
	for at, node := range path {
		if hidden := len(path) - 2*shown; hidden > 1 && at >= shown && at < shown+hidden {
			if at == shown {
				text.WriteString(" -> (" + strconv.Itoa(hidden) + " more)")
			}
			continue
		}
		if at > 0 {
			text.WriteString(" -> ")
		}
		text.WriteString(g.name(node))
	}
	return text.String()
}
