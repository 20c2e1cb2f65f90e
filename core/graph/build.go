package graph

import (
	"libmmsb/core/status"
)

// Builder changes a graph by many steps whose order nobody vouches for, each in the same time. It does not look for cycles: Check
// does, at the end. Nothing is hidden in the graph.
type Builder struct {
	graph *Graph
	at    map[[2]uint32]uint32 // index of each edge
}

// Build begins to change a graph, which nobody else changes meanwhile.
func Build(g *Graph) *Builder {
	b := &Builder{g, make(map[[2]uint32]uint32, g.live)}
	for index := range g.edges {
		if ends := g.edges[index].ends; index > 0 && ends != [2]uint32{} {
			b.at[ends] = uint32(index)
		}
	}
	return b
}

// Add makes child depend on parent where it does not yet.
func (b *Builder) Add(parent, child uint32) {
	ends := [2]uint32{children: parent, parents: child}
	if b.at[ends] == 0 {
		b.at[ends] = b.graph.append(parent, child)
	}
}

// Remove ends one dependency, where there is one.
func (b *Builder) Remove(parent, child uint32) {
	ends := [2]uint32{children: parent, parents: child}
	if index := b.at[ends]; index != 0 {
		b.graph.remove(index)
		delete(b.at, ends)
	}
}

// RemoveNode ends all dependencies of and on a node.
func (b *Builder) RemoveNode(node uint32) {
	for _, list := range []int{children, parents} {
		for index := b.graph.nodes[node].oldest[list]; index != 0; index = b.graph.edges[index].next[list] {
			delete(b.at, b.graph.edges[index].ends)
		}
	}
	b.graph.RemoveNode(node)
}

// Check finds a cycle. Errors: InvalidArgument, which names one.
func (g *Graph) Check() error {
	done := make(map[uint32]bool, len(g.nodes))
	for _, node := range g.Order() {
		done[node] = true
	}
	for node, head := range g.nodes {
		if head.length != [2]uint32{} && !done[node] {
			return g.cycle(node, done)
		}
	}
	return nil
}

// cycle names one behind a node that is in one or behind one: of what is not done each node has a parent that is not done.
func (g *Graph) cycle(node uint32, done map[uint32]bool) error {
	at := map[uint32]int{}
	var way []uint32 // from children to parents
	for {
		if first, met := at[node]; met {
			way = append(way[first:], node)
			break
		}
		at[node] = len(way)
		way = append(way, node)
		for index := g.nodes[node].oldest[parents]; index != 0; index = g.edges[index].next[parents] {
			if parent := g.edges[index].ends[children]; g.edges[index].hidden == 0 && !done[parent] {
				node = parent
				break
			}
		}
	}
	for i, j := 0, len(way)-1; i < j; i, j = i+1, j-1 {
		way[i], way[j] = way[j], way[i]
	}
	return status.Errorf(status.InvalidArgument, "the dependencies make a cycle: %s", g.describe(way))
}
