package pool

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"libmmsb/core/status"
)

func TestWholeSegmentsAreAsLargeAsPyTorchs(t *testing.T) {
	for bytes, reserved := range map[uint64]uint64{
		1: 2 * mib, mib: 2 * mib, mib + 1: 20 * mib, 10*mib - 512: 20 * mib, 10*mib - 511: 10 * mib, 10 * mib: 10 * mib,
		30*mib + 1: 32 * mib,
	} {
		w := newWorld(t, Options{Origin: Plain}, 1<<30, 64*mib, 1)
		require.NoError(t, w.take(0, bytes))
		require.Equal(t, reserved, w.Statistics().Reserved, "%d", bytes)
		w.give(0, 0)
		w.check()
		w.device.done[0] = w.device.queued[0]
		require.NoError(t, w.Trim(0))
		require.Zero(t, w.Statistics().Reserved)
		w.check()
	}
}

// Free segments lie beside each other, and are no piece for a request that is larger than each.
func TestWholeSegmentsDoNotJoin(t *testing.T) {
	w := newWorld(t, Options{Origin: Plain}, 64*mib, 256*mib, 1)
	for range 3 {
		require.NoError(t, w.take(0, 20*mib))
	}
	for range 3 {
		w.give(0, 0)
	}
	assert.Equal(t, uint64(20*mib), w.Statistics().LargestFree)
	w.device.done[0] = w.device.queued[0]
	require.NoError(t, w.take(0, 5*mib))
	require.NoError(t, w.take(0, 40*mib), "those that nobody uses go back to the driver")
	require.Equal(t, uint64(60*mib), w.Statistics().Reserved)
	require.Equal(t, status.OutOfMemory, code(w.take(0, 16*mib)), "a part of a segment that is used does not")
	w.check()
}

// A trim gives back whole segments until no more than is wanted is left.
func TestATrimOfWholeSegments(t *testing.T) {
	w := newWorld(t, Options{Origin: Plain}, 1<<30, 256*mib, 1)
	require.NoError(t, w.take(0, 30*mib))
	require.NoError(t, w.take(0, 20*mib))
	require.NoError(t, w.take(0, 3*mib))
	w.give(0, 0)
	w.give(0, 0)
	w.device.done[0] = w.device.queued[0]
	require.NoError(t, w.Trim(60*mib))
	require.Equal(t, uint64(40*mib), w.Statistics().Reserved)
	require.NoError(t, w.Trim(0))
	require.Equal(t, uint64(20*mib), w.Statistics().Reserved)
	w.check()
}

func TestTheSourceOfWholeSegmentsFails(t *testing.T) {
	for nth := 1; nth < 8; nth++ {
		w := newWorld(t, Options{Origin: Plain}, 48*mib, 256*mib, 1)
		w.device.fails = nth
		for _, bytes := range []uint64{1000, 10 * mib, 20 * mib, 12 * mib, 40 * mib} {
			if bytes >= 12*mib && len(w.held) > 1 {
				w.give(1, 0)
				w.device.done[0] = w.device.queued[0]
			}
			if err := w.take(0, bytes); err != nil {
				w.check()
				require.Contains(t, []status.Code{status.Device, status.OutOfMemory}, code(err), "%v", err)
			}
			w.check()
		}
	}
}

func TestOriginsHaveNames(t *testing.T) {
	for origin := Virtual; origin <= Managed; origin++ {
		o, err := Parse("source:" + origin.String())
		require.NoError(t, err)
		require.Equal(t, origin, o.Origin)
	}
	o, err := Parse("limit_mb:3, source: Pinned ,slack:0.5")
	require.NoError(t, err)
	require.Equal(t, Pinned, o.Origin)
	_, err = Parse("source:disk")
	require.ErrorContains(t, err, `position 7: "disk" is not one of virtual, plain, ordered, pinned, managed`)
	_, err = Parse("source:automatic")
	require.Error(t, err)
}
