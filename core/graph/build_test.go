package graph

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"libmmsb/core/status"
)

// TestBuildingIsLikeChanging makes random changes by both ways; where one by one a cycle is refused, the check finds it.
func TestBuildingIsLikeChanging(t *testing.T) {
	random := rand.New(rand.NewPCG(6, 13))
	cycles := 0
	for range 3000 {
		one, other := New(nil), New(nil)
		for range random.IntN(5) {
			a, b := random.Uint32N(8), random.Uint32N(8)
			if one.Add(a, b) == nil {
				require.NoError(t, other.Add(a, b))
			}
		}
		built, refused := Build(other), false
		for range random.IntN(30) {
			a, b := random.Uint32N(8), random.Uint32N(8)
			if random.IntN(3) > 0 && a > b {
				a, b = b, a
			}
			switch random.IntN(8) {
			case 0:
				built.Remove(a, b)
				_ = one.Remove(a, b)
			case 1:
				built.RemoveNode(a)
				one.RemoveNode(a)
			default:
				built.Add(a, b)
				refused = refused || status.CodeOf(one.Add(a, b)) == status.InvalidArgument
			}
			if refused {
				break
			}
		}
		err := other.Check()
		if refused {
			cycles++
			require.Equal(t, status.InvalidArgument, status.CodeOf(err), "%v", err)
			require.ErrorContains(t, err, "make a cycle: ")
			continue
		}
		require.NoError(t, err)
		require.True(t, slices.Equal(one.All(), other.All()))
		require.Equal(t, one.Order(), other.Order())
	}
	require.Greater(t, cycles, 300)
}
