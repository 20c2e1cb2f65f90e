package persist

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"libmmsb/core/memory"
	"libmmsb/core/page"
	"libmmsb/native"
)

// The model that random histories (histories_test.go) are compared with: what states have, as a program sees it, and what a load
// of chosen pages makes of two of them. It knows nothing of files.

// pageState is all that a program sees of a page but its version.
type pageState struct {
	bytes, metadata string
	epoch           uint64
	location        int32
}

func (s pageState) String() string {
	return fmt.Sprintf("%d bytes %.20x, metadata %.20x, epoch %d, location %d", len(s.bytes), s.bytes, s.metadata, s.epoch,
		s.location)
}

// anywhere is the location of a page in adopted memory: where it lay when it was saved stays true for files until it changes.
const anywhere = -1

func (s pageState) is(other pageState) bool {
	if s.location == anywhere || other.location == anywhere {
		s.location, other.location = anywhere, anywhere
	}
	return s == other
}

type edge = [2]uint64 // the ids of parent and child

// world is what a state has.
type world struct {
	pages    map[uint64]pageState // by id
	edges    map[edge]bool
	versions map[uint64]uint64 // by id; a load may change them
}

func worldOf(t *testing.T, context uint64) world {
	t.Helper()
	w := pagesOf(t, context)
	require.NoError(t, page.Use(context, func(c *page.Context) error {
		edges, err := c.Moment(nil, func([]memory.Leaf) {})
		for _, e := range edges {
			w.edges[e] = true
		}
		return err
	}))
	return w
}

// pagesOf is the world without dependencies, which can be read while a group is open.
func pagesOf(t *testing.T, context uint64) world {
	t.Helper()
	w := world{make(map[uint64]pageState), make(map[edge]bool), make(map[uint64]uint64)}
	for _, handle := range handlesOf(t, context) {
		id := page.IDOf(native.Index(handle))
		require.NoError(t, page.Read(handle, func(p *page.Page) error {
			if err := p.Present(); err != nil {
				return err
			}
			w.versions[id] = p.Record.Version
			return p.WithBytes(func() error {
				w.pages[id] = pageState{string(p.Bytes()), string(p.Metadata()), p.Record.Epoch, p.Location()}
				return nil
			})
		}))
	}
	return w
}

func (w world) is(other world) bool {
	return maps.Equal(w.edges, other.edges) && maps.EqualFunc(w.pages, other.pages, pageState.is)
}

// unlike says where another world differs.
func (w world) unlike(other world) (text string) {
	for _, id := range slices.Sorted(maps.Keys(w.pages)) {
		if got, ok := other.pages[id]; !ok || !got.is(w.pages[id]) {
			text += fmt.Sprintf("page %d: %v (%t), not %v\n", id, got, ok, w.pages[id])
		}
	}
	for _, id := range slices.Sorted(maps.Keys(other.pages)) {
		if _, ok := w.pages[id]; !ok {
			text += fmt.Sprintf("page %d should not be there\n", id)
		}
	}
	if !maps.Equal(w.edges, other.edges) {
		text += fmt.Sprintf("edges %v, not %v\n", other.edges, w.edges)
	}
	return text
}

func (w world) has(id uint64) bool { _, ok := w.pages[id]; return ok }

// with is the world after a load of chosen pages of another one.
func (w world) with(from world, chosen []uint64) world {
	now := world{pages: maps.Clone(w.pages), edges: make(map[edge]bool)}
	for _, id := range chosen {
		now.pages[id] = from.pages[id]
	}
	loaded := func(e edge) bool { return slices.Contains(chosen, e[0]) && slices.Contains(chosen, e[1]) }
	for e := range w.edges {
		if !loaded(e) {
			now.edges[e] = true
		}
	}
	for e := range from.edges {
		if loaded(e) {
			now.edges[e] = true
		}
	}
	return now
}

// intoAdopted is the world after a load into a context that has adopted pages. ok is false where one of them has another size.
func (w world) intoAdopted(adopted map[uint64][]byte) (now world, ok bool) {
	now = world{pages: maps.Clone(w.pages), edges: w.edges}
	for id, memory := range adopted {
		if s, loaded := w.pages[id]; loaded {
			if len(s.bytes) != len(memory) {
				return now, false
			}
			s.location = anywhere
			now.pages[id] = s
		}
	}
	return now, true
}

// hasCycle says whether the dependencies go in a circle.
func (w world) hasCycle() bool {
	left := maps.Clone(w.edges)
	for before := -1; before != len(left); {
		before = len(left)
		children := make(map[uint64]bool)
		for e := range left {
			children[e[1]] = true
		}
		maps.DeleteFunc(left, func(e edge, _ bool) bool { return !children[e[0]] })
	}
	return len(left) > 0
}
