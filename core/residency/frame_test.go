package residency

import (
	"testing"

	"github.com/stretchr/testify/require"

	"libmmsb/core/status"
)

func TestStepsAreAskedForAndGoOverAll(t *testing.T) {
	const step = 16 << 20
	ended := status.Errorf(status.Cancelled, "enough")
	for _, count := range []uint64{0, 1, step, step + 1, 5*step - 1} {
		steps := (count + step - 1) / step
		for endsAt := range steps + 1 { // the one that is refused
			asks, done := uint64(0), uint64(0)
			err := InSteps(count, func() error {
				if asks++; asks == endsAt+1 {
					return ended
				}
				return nil
			}, func(begin, end uint64) error {
				require.Equal(t, done, begin)
				require.LessOrEqual(t, end-begin, uint64(step))
				done = end
				return nil
			})
			if endsAt == steps {
				require.NoError(t, err)
				require.Equal(t, count, done)
			} else {
				require.Same(t, ended, err)
				require.Equal(t, endsAt*step, done)
			}
		}
	}
	failed := status.Errorf(status.IO, "no disk")
	require.Same(t, failed, InSteps(2*step, nil, func(uint64, uint64) error { return failed }))
}
