package snapshot

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"libmmsb/core/status"
)

// hasCycle takes away what nothing points to, again and again.
func hasCycle(pairs [][2]uint64) bool {
	left := slices.Clone(pairs)
	for {
		isChild := map[uint64]bool{}
		for _, pair := range left {
			isChild[pair[1]] = true
		}
		before := len(left)
		left = slices.DeleteFunc(left, func(pair [2]uint64) bool { return !isChild[pair[0]] })
		if len(left) == before {
			return before > 0
		}
	}
}

func TestDependenciesOfRandomGraphs(t *testing.T) {
	random := rand.New(rand.NewPCG(13, 15))
	cycles, asked := 0, 0
	for range 5000 {
		nodes := 2 + random.Uint64N(12)
		distinct := map[[2]uint64]bool{}
		for range random.IntN(30) {
			a, b := 1+random.Uint64N(nodes), 1+random.Uint64N(nodes)
			if random.IntN(4) > 0 && a > b { // mostly one way
				a, b = b, a
			}
			if a != b {
				distinct[[2]uint64{a, b}] = true
			}
		}
		var pairs [][2]uint64
		for pair := range distinct {
			pairs = append(pairs, pair)
		}
		g := graph{v: &volume{name: "file"}, pairs: slices.Clone(pairs)}
		err := g.check(func() error { asked++; return nil })
		if hasCycle(pairs) {
			cycles++
			require.Equal(t, status.Corrupt, status.CodeOf(err), "%v", pairs)
			assert.ErrorContains(t, err, "cycle")
			continue
		}
		require.NoError(t, err, "%v", pairs)
		if len(pairs) > 0 {
			g.pairs = append(slices.Clone(pairs), pairs[0])
			require.ErrorContains(t, g.check(nil), "twice")
		}
	}
	assert.Greater(t, cycles, 500)
	assert.Less(t, cycles, 4500)
}

func TestLookingAtDependenciesCanBeEnded(t *testing.T) {
	pairs := make([][2]uint64, 1<<20)
	for at := range pairs {
		pairs[at] = [2]uint64{uint64(len(pairs) - at), uint64(len(pairs) - at + 1)}
	}
	stop := status.Errorf(status.Cancelled, "stop")
	for last := range 8 {
		asked := 0
		g := graph{v: &volume{name: "file"}, pairs: slices.Clone(pairs)}
		err := g.check(func() error {
			if asked++; asked > last {
				return stop
			}
			return nil
		})
		require.Equal(t, stop, err)
		require.Equal(t, last+1, asked)
	}
	g := graph{v: &volume{name: "file"}, pairs: pairs}
	require.NoError(t, g.check(nil))
}
