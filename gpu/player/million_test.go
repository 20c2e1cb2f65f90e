//go:build !race

package player

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"libmmsb/core/pool"
	"libmmsb/gpu/sim"
)

// A million events, and more bytes than this machine has: no memory is written, and it does not take long (no time is asserted).
func TestAMillionEvents(t *testing.T) {
	const live = 64
	var steps []int64
	for number := int64(0); number < 500_000; number++ {
		steps = append(steps, 32*mib+512*number)
		if number >= live {
			steps = append(steps, -(32*mib + 512*(number-live)))
		}
	}
	recorded := events(steps...)
	_, of := device(t, sim.Options{Memory: 80 << 30, HostMemory: mib, Unchecked: true})
	result, err := Run(context.Background(), of, recorded, Options{Pool: &pool.Options{}})
	require.NoError(t, err)
	require.Zero(t, result.Failures)
	t.Logf("%d calls in %v, %d bytes reserved, %d live", result.Calls, result.Time, result.Reserved, result.Live)
	assert.Equal(t, uint64(len(steps)), result.Calls)
	assert.Greater(t, result.Live, uint64(15<<30))
	assert.LessOrEqual(t, float64(result.Reserved), 1.06*float64(result.Live))
}
