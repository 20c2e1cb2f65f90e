// The dependencies of a state, as its newest file has them.

package snapshot

import (
	"cmp"
	"iter"
	"math"
	"slices"

	"libmmsb/core/status"
)

// graph collects the dependencies of a file, to look at all of them together: none comes twice, and they make no cycle.
type graph struct {
	v     *volume
	pairs [][2]uint64
}

func (g *graph) add(t *table) {
	if g.pairs == nil && len(t.edges) > 0 {
		g.pairs = make([][2]uint64, 0, g.v.claimed(g.v.totals.Edges, edgeBytes))
	}
	g.pairs = append(g.pairs, t.edges...)
}

// none stands for a page on which nothing depends.
const none = math.MaxUint64

// check needs as much memory again as the dependencies, and takes them to pieces.
func (g *graph) check(goesOn asking) error {
	pairs := g.pairs
	if uint64(len(pairs)) >= math.MaxUint32 {
		return status.Errorf(status.Limit, "%s has %d dependencies, more than %d", g.v.name, len(pairs), uint32(math.MaxUint32)-1)
	}
	err := sorted(pairs, goesOn, func(a, b [2]uint64) int { return cmp.Or(cmp.Compare(a[0], b[0]), cmp.Compare(a[1], b[1])) })
	if err != nil {
		return err
	}
	parents := 0
	for at, pair := range pairs {
		switch {
		case at == 0 || pair[0] != pairs[at-1][0]:
			parents++
		case pair == pairs[at-1]:
			return status.Errorf(status.Corrupt, "%s: page %d depends on page %d twice", g.v.name, pair[1], pair[0])
		}
	}
	// What nothing depends on closes no cycle: parents are numbered, and a child is the number that it has as a parent.
	ids, begins := make([]uint64, 0, parents), make([]uint32, 0, parents+1)
	for at, pair := range pairs {
		if at == 0 || pair[0] != ids[len(ids)-1] {
			ids, begins = append(ids, pair[0]), append(begins, uint32(at))
		}
	}
	begins = append(begins, uint32(len(pairs)))
	waitsFor := make([]uint32, parents) // parents of each that are not done
	for at := range pairs {
		if at%askEvery == 0 {
			if err := goesOn.ask(); err != nil {
				return err
			}
		}
		number, found := slices.BinarySearch(ids, pairs[at][1])
		if pairs[at][1] = none; found {
			pairs[at][1] = uint64(number)
			waitsFor[number]++
		}
	}
	return g.withoutCycle(ids, begins, waitsFor, goesOn)
}

// withoutCycle takes away what waits for nothing, until nothing is left. What was found and not yet taken away hangs together by
// waitsFor, which those do not need any more.
func (g *graph) withoutCycle(ids []uint64, begins, waitsFor []uint32, goesOn asking) error {
	const end = math.MaxUint32
	next, left, steps := uint32(end), len(ids), 0
	for number, count := range waitsFor {
		if count == 0 {
			next, waitsFor[number] = uint32(number), next
		}
	}
	for next != end {
		number := next
		next = waitsFor[number]
		waitsFor[number] = 0
		left--
		for _, pair := range g.pairs[begins[number]:begins[number+1]] {
			if steps++; steps%askEvery == 0 {
				if err := goesOn.ask(); err != nil {
					return err
				}
			}
			if child := pair[1]; child != none {
				if waitsFor[child]--; waitsFor[child] == 0 {
					next, waitsFor[child] = uint32(child), next
				}
			}
		}
	}
	if left == 0 {
		return nil
	}
	at := slices.IndexFunc(waitsFor, func(count uint32) bool { return count > 0 })
	return status.Errorf(status.Corrupt, "%s: the dependencies of page %d and %d others make a cycle, or come behind one",
		g.v.name, ids[at], left-1)
}

// CheckEdges says whether dependencies can be those of a state. Errors: Corrupt, Limit.
func CheckEdges(name string, pairs [][2]uint64) error {
	g := graph{v: &volume{name: name}, pairs: slices.Clone(pairs)}
	return g.check(nil)
}

// Edges walks the dependencies, parent and child, oldest first. An error ends the walk.
func (s *Snapshot) Edges() iter.Seq2[[2]uint64, error] {
	return func(yield func([2]uint64, error) bool) {
		if err := s.checkEdges(); err != nil {
			yield([2]uint64{}, err)
			return
		}
		err := s.eachEdges(func(t *table) error {
			for _, pair := range t.edges {
				if !yield(pair, nil) {
					return errStop
				}
			}
			return nil
		})
		if err != nil && err != errStop {
			yield([2]uint64{}, err)
		}
	}
}

// checkEdges looks at the dependencies where no walk over all tables has done so.
func (s *Snapshot) checkEdges() error {
	if s.edgesChecked.Load() {
		return nil
	}
	g := graph{v: s.volumes[0]}
	err := s.eachEdges(func(t *table) error {
		g.add(t)
		return nil
	})
	if err == nil {
		err = g.check(nil)
	}
	if err == nil {
		s.edgesChecked.Store(true)
	}
	return err
}

func (s *Snapshot) eachEdges(each func(t *table) error) error {
	v := s.volumes[0]
	if v.totals.Edges == 0 {
		return nil
	}
	tables := tableReader{v: v}
	for number := range v.segments() {
		t, err := tables.read(number)
		if err != nil {
			return err
		}
		if err := each(t); err != nil {
			return err
		}
	}
	return nil
}
