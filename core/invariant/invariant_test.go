//go:build invariants

package invariant

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestABrokenInvariantPanicsWithItsNumbers(t *testing.T) {
	assert.PanicsWithError(t, "invariant broken: 3 units of 2", func() { Assert(false, "%d units of %d", 3, 2) })
	assert.PanicsWithError(t, "invariant broken: a walk", func() { Check(errors.New("a walk")) })
	assert.NotPanics(t, func() { Assert(true, "%d units of %d", 1, 2); Check(nil) })
}

func TestOnlyABrokenInvariantIsThrownAgain(t *testing.T) {
	assert.Panics(t, func() { Rethrow(&Failure{"planted"}) })
	assert.NotPanics(t, func() { Rethrow(errors.New("planted")); Rethrow("planted"); Rethrow(nil) })
}

func TestWalksComeMoreSeldomTheMoreTheyWalk(t *testing.T) {
	walks := func(parts int) (count int) {
		var turn Turn
		for range 10000 {
			if turn.Comes(parts) {
				count++
			}
		}
		return count
	}
	assert.Equal(t, 10000/leastTurn, walks(0))
	assert.Equal(t, 10, walks(1000))
}
