package graph

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"libmmsb/core/status"
)

func TestListsAreInTheOrderOfTheEdges(t *testing.T) {
	g := New(nil)
	for _, edge := range [][2]uint32{{9, 3}, {7, 3}, {8, 3}, {9, 1}, {9, 2}} {
		require.NoError(t, g.Add(edge[0], edge[1]))
	}
	assert.Equal(t, []uint32{9, 7, 8}, g.Parents(3))
	assert.Equal(t, []uint32{3, 1, 2}, g.Children(9))
	require.NoError(t, g.Remove(9, 3))
	require.NoError(t, g.Add(9, 3))
	assert.Equal(t, []uint32{7, 8, 9}, g.Parents(3))
	assert.Equal(t, []uint32{1, 2, 3}, g.Children(9))
	assert.Empty(t, g.Parents(77))
	assert.Equal(t, 5, g.Edges())
}

func TestErrorsChangeNothingAndNameTheNodes(t *testing.T) {
	g := New(func(node uint32) string { return fmt.Sprintf("page %d", node*10) })
	require.NoError(t, g.Add(1, 2))
	require.NoError(t, g.Add(2, 3))
	for _, test := range []struct {
		err  error
		code status.Code
		text string
	}{
		{g.Add(1, 2), status.AlreadyExists, "page 20 already depends on page 10"},
		{g.Add(3, 1), status.InvalidArgument,
			"page 10 cannot depend on page 30: the cycle would be page 10 -> page 20 -> page 30 -> page 10"},
		{g.Add(4, 4), status.InvalidArgument, "cycle would be page 40 -> page 40"},
		{g.Remove(1, 3), status.NotFound, "page 30 does not depend on page 10"},
		{g.Remove(2, 1), status.NotFound, "page 10 does not depend on page 20"},
	} {
		assert.Equal(t, test.code, status.CodeOf(test.err))
		assert.ErrorContains(t, test.err, test.text)
	}
	assert.Equal(t, 2, g.Edges())
	assert.Equal(t, []uint32{1, 2, 3}, g.Order())
}

func TestALongCycleIsNamedWithoutItsMiddle(t *testing.T) {
	g := New(nil)
	for node := range uint32(1000) {
		require.NoError(t, g.Add(node, node+1))
	}
	assert.ErrorContains(t, g.Add(1000, 0), "cycle would be 0 -> 1 -> 2 -> 3 -> (994 more) -> 998 -> 999 -> 1000 -> 0")
}

func TestRemoveNodeEndsAllItsEdges(t *testing.T) {
	g := New(nil)
	for node := range uint32(50) {
		require.NoError(t, g.Add(node, 100))
		require.NoError(t, g.Add(100, 200+node))
	}
	require.NoError(t, g.Add(1, 2))
	g.RemoveNode(100)
	g.RemoveNode(100)
	assert.Equal(t, 1, g.Edges())
	assert.Equal(t, []uint32{1, 2}, g.Order())
	assert.Len(t, g.nodes, 2)
}

func TestFreedEdgesAreUsedAgain(t *testing.T) {
	g := New(nil)
	for round := range uint32(100) {
		for node := range uint32(10) {
			require.NoError(t, g.Add(round, round+node+1))
		}
		g.RemoveNode(round)
	}
	assert.Len(t, g.edges, 11)
	assert.Empty(t, g.nodes)
}

func TestTheLargestNumbersAreNodes(t *testing.T) {
	g := New(nil)
	require.NoError(t, g.Add(math.MaxUint32, 0))
	assert.Equal(t, []uint32{math.MaxUint32, 0}, g.Order())
}

// model is the same with the simplest means: a list of edges.
type model [][2]uint32

func (m model) reaches(from, to uint32, seen map[uint32]bool) bool {
	if from == to {
		return true
	}
	seen[from] = true
	for _, edge := range m {
		if edge[0] == from && !seen[edge[1]] && m.reaches(edge[1], to, seen) {
			return true
		}
	}
	return false
}

func (m model) ends(node uint32, at int) []uint32 {
	found := []uint32{}
	for _, edge := range m {
		if edge[at] == node {
			found = append(found, edge[1-at])
		}
	}
	return found
}

func TestHiddenEdgesAreShownAgainWhereTheyWere(t *testing.T) {
	g := New(nil)
	for _, edge := range [][2]uint32{{1, 2}, {1, 3}, {1, 4}, {5, 3}} {
		require.NoError(t, g.Add(edge[0], edge[1]))
	}
	hidden, err := g.Hide(1, 3, 7)
	require.NoError(t, err)
	_, err = g.Hide(1, 3, 7)
	assert.Equal(t, status.NotFound, status.CodeOf(err))
	assert.Equal(t, []uint32{2, 4}, g.Children(1))
	assert.Equal(t, []uint32{5}, g.Parents(3))
	assert.Equal(t, [][2]uint32{{1, 2}, {1, 4}, {5, 3}}, g.All())
	assert.Equal(t, []uint32{1, 5, 2, 4, 3}, g.Order())
	assert.Equal(t, status.Busy, status.CodeOf(g.Add(3, 1)), "it may be shown again")
	assert.Equal(t, status.Busy, status.CodeOf(g.AddBeside(3, 1, 8)))
	require.NoError(t, g.AddBeside(3, 1, 7))
	require.NoError(t, g.Remove(3, 1))
	require.NoError(t, g.AddBeside(1, 3, 7), "who has hidden it may add it anew")
	require.NoError(t, g.Remove(1, 3))
	g.Show(hidden)
	assert.Equal(t, []uint32{2, 3, 4}, g.Children(1))
	assert.Equal(t, []uint32{1, 5}, g.Parents(3))

	all := g.HideNode(3, 7)
	assert.Len(t, all, 2)
	assert.Equal(t, []uint32{1, 2, 4}, g.Order(), "a node whose edges are all hidden is none")
	g.RemoveNode(5)
	require.NoError(t, g.Add(8, 9)) // where the edge was
	g.Show(all...)
	assert.Equal(t, []uint32{1}, g.Parents(3), "the other one is gone")
	g.Show(all...)
	assert.Equal(t, 4, g.Edges())
	g.Drop(g.HideNode(1, 7)...)
	assert.Equal(t, [][2]uint32{{8, 9}}, g.All())
	assert.Equal(t, 1, g.Edges())
}

func TestAgainstAModel(t *testing.T) {
	const nodes = 12
	cycles, existing, renamed := 0, 0, 0
	for seed := range uint64(10) {
		random := rand.New(rand.NewPCG(seed, 0))
		g := New(nil)
		var m model
		for step := range 400 {
			parent, child := random.Uint32N(nodes), random.Uint32N(nodes)
			at := slices.Index(m, [2]uint32{parent, child})
			expected := status.OK
			var err error
			switch kind := random.IntN(100); {
			case kind < 65:
				err = g.Add(parent, child)
				switch {
				case at >= 0:
					expected = status.AlreadyExists
					existing++
				case m.reaches(child, parent, map[uint32]bool{}):
					expected = status.InvalidArgument
					cycles++
				default:
					m = append(m, [2]uint32{parent, child})
				}
			case kind < 95:
				err = g.Remove(parent, child)
				if at < 0 {
					expected = status.NotFound
				} else {
					m = slices.Delete(m, at, at+1)
				}
			case kind < 97 && parent != child:
				g.RemoveNode(child)
				m = slices.DeleteFunc(m, func(edge [2]uint32) bool { return edge[0] == child || edge[1] == child })
				g.Rename(parent, child)
				for i := range m {
					for end, node := range m[i] {
						if node == parent {
							m[i][end] = child
						}
					}
				}
				renamed++
			case kind < 98: // go on with a copy, whatever becomes of the other
				other := g
				g = g.Clone()
				for node := range uint32(nodes) {
					other.RemoveNode(node)
				}
			default:
				g.RemoveNode(parent)
				m = slices.DeleteFunc(m, func(edge [2]uint32) bool { return edge[0] == parent || edge[1] == parent })
			}
			require.Equal(t, expected, status.CodeOf(err), "seed %d step %d: %v", seed, step, err)
			require.Equal(t, len(m), g.Edges())
			for node := range uint32(nodes) {
				require.Equal(t, m.ends(node, 1), g.Parents(node), "seed %d step %d", seed, step)
				require.Equal(t, m.ends(node, 0), g.Children(node), "seed %d step %d", seed, step)
			}
			order := g.Order()
			require.Equal(t, order, g.Order())
			place := map[uint32]int{}
			for at, node := range order {
				place[node] = at
			}
			require.Len(t, place, len(order), "a node comes once")
			known := map[uint32]bool{}
			for _, edge := range m {
				require.Less(t, place[edge[0]], place[edge[1]], "seed %d step %d", seed, step)
				known[edge[0]], known[edge[1]] = true, true
			}
			require.Len(t, order, len(known))
		}
	}
	assert.Greater(t, cycles, 200)
	assert.Greater(t, existing, 200)
	assert.Greater(t, renamed, 20)
}

func TestAllowsSaysWhatAddWould(t *testing.T) {
	g := New(nil)
	require.NoError(t, g.Add(1, 2))
	require.NoError(t, g.Add(2, 3))
	require.NoError(t, g.Add(4, 3))
	assert.NoError(t, g.Allows(1, 3))
	assert.NoError(t, g.Allows(1, 2), "an edge that is there closes no cycle")
	for _, edge := range [][2]uint32{{3, 1}, {2, 1}, {1, 1}, {3, 4}} {
		assert.Equal(t, g.Add(edge[0], edge[1]).Error(), g.Allows(edge[0], edge[1]).Error())
	}
	assert.EqualValues(t, 3, g.Edges())
	assert.Equal(t, []uint32{9, 2, 4}, g.AppendParents([]uint32{9}, 3))
	assert.Equal(t, []uint32{9}, g.AppendParents([]uint32{9}, 1))
}
