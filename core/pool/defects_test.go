package pool

import (
	"math"
	"math/rand/v2"
	gort "runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"libmmsb/core/status"
)

// What other allocators got wrong; docs/devices.md has the list.

func TestOneSizeAgainAndAgainIsOneCallOfTheSource(t *testing.T) {
	w := newWorld(t, Options{}, 1<<30, 64*mib, 1)
	for range 1000 {
		require.NoError(t, w.take(0, 3000))
		w.give(0, 0)
	}
	require.Equal(t, 1, w.device.calls)
	require.Equal(t, uint64(segmentBytes), w.Statistics().Reserved)
}

func TestSizesThatGrowUseTheSameMemory(t *testing.T) {
	w := newWorld(t, Options{}, 1<<30, 64*mib, 1)
	const most = 4000
	for units := uint64(1); units <= most; units++ {
		require.NoError(t, w.take(0, units*Unit))
		w.give(0, 0)
		w.device.done[0] = w.device.queued[0]
	}
	require.LessOrEqual(t, w.Statistics().Reserved, uint64(2*max(most*Unit, largeStep)))
	w.check()
}

func TestSizesThatVaryNeverFillADevice(t *testing.T) {
	const most = 100 * mib
	w := newWorld(t, Options{}, 192*mib, 384*mib, 2)
	random := rand.New(rand.NewPCG(7, 7))
	live := uint64(0)
	for range fewer(4000) {
		bytes := 1 + random.Uint64N([]uint64{4096, mib, 8 * mib, 40 * mib}[random.IntN(4)])
		for live+bytes > most {
			number := random.IntN(len(w.held))
			live -= w.held[number].bytes
			w.give(number, w.held[number].stream)
			copy(w.device.done, w.device.queued)
		}
		require.NoError(t, w.take(uint32(random.IntN(2)), bytes))
		live += bytes
	}
	w.check()
}

func TestBooksDoNotGrowWithSplitsAndJoins(t *testing.T) {
	p := New(Options{}, newDevice(t, 1<<30, 1), [Spaces]uint64{1 << 30, 1 << 30})
	cycle := func() {
		first, _, err := p.Take(0, 512)
		require.NoError(t, err)
		second, _, err := p.Take(0, 1024)
		require.NoError(t, err)
		require.NoError(t, p.Give(0, 1, first))
		require.NoError(t, p.Give(0, 1, second))
	}
	heap := func() uint64 {
		var m gort.MemStats
		gort.GC()
		gort.ReadMemStats(&m)
		return m.HeapAlloc
	}
	for range 100 {
		cycle()
	}
	before := heap()
	for range 150_000 {
		cycle()
	}
	require.Less(t, heap(), before+1<<20)
	gort.KeepAlive(p)
}

func TestSizesAtTheirLimits(t *testing.T) {
	for bytes, reserved := range map[uint64]uint64{
		1: 2 * mib, mib: 2 * mib, mib + 1: 20 * mib, 10*mib - 512: 20 * mib, 10 * mib: 20 * mib, 20*mib + 1: 22 * mib,
	} {
		w := newWorld(t, Options{}, 1<<30, 64*mib, 1)
		require.NoError(t, w.take(0, bytes))
		require.Equal(t, reserved, w.Statistics().Reserved, "%d", bytes)
	}
	w := newWorld(t, Options{}, 1<<30, 64*mib, 1)
	for _, bytes := range []uint64{0, 1 << 60, math.MaxUint64 - 511, math.MaxUint64 - 100, math.MaxUint64} {
		require.Equal(t, status.InvalidSize, code(w.take(0, bytes)), "%d", bytes)
	}
	require.Zero(t, w.Statistics())
}

// What did not help is not counted as if it had.
func TestRetriesAreCountedWhenTheyHelped(t *testing.T) {
	for bytes, retries := range map[uint64]uint64{22 * mib: 0, 20 * mib: 1} {
		w := newWorld(t, Options{LargeStep: segmentBytes, Slack: 1000}, 40*mib, 128*mib, 1)
		for range 4 {
			require.NoError(t, w.take(0, 10*mib))
		}
		w.give(2, 0)
		w.give(0, 0)
		w.device.done[0] = w.device.queued[0]
		err := w.take(0, bytes)
		require.Equal(t, retries == 0, lacks(err), "%v", err)
		require.Equal(t, retries, w.Statistics().Retries)
		w.check()
	}
}

// slow is a source that waits while it takes memory away.
type slow struct {
	*device
	begun, goOn chan struct{}
}

func (s *slow) Bare(space int, r Range) (uint64, error) {
	s.begun <- struct{}{}
	<-s.goOn
	return s.device.Bare(space, r)
}

func TestNobodyWaitsForTheSourceWhoDoesNotNeedIt(t *testing.T) {
	s := &slow{newDevice(t, 1<<30, 2), make(chan struct{}), make(chan struct{})}
	p := New(Options{}, s, [Spaces]uint64{1 << 30, 1 << 30})
	small, _, err := p.Take(0, 512)
	require.NoError(t, err)
	large, _, err := p.Take(0, 10*mib)
	require.NoError(t, err)
	require.NoError(t, p.Give(0, 0, large))
	trimmed := make(chan error)
	go func() { trimmed <- p.Trim(0) }()
	<-s.begun
	for range 100 { // on the stream, and on another one
		require.NoError(t, p.Give(0, 0, small))
		small, _, err = p.Take(1, 512)
		require.NoError(t, err)
		require.NoError(t, p.Give(1, 0, small))
		small, _, err = p.Take(0, 512)
		require.NoError(t, err)
	}
	s.goOn <- struct{}{}
	require.NoError(t, <-trimmed)
	require.NoError(t, p.Check())
}
