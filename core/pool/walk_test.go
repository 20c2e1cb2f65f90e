package pool

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// checkWalk compares the list with what is held, with the memory that there is, and with the numbers. splits and split are free
// pieces of segments that are partly held, and their bytes.
func (w *world) checkWalk() (splits, split uint64) {
	t := w.device.t
	var pieces []Piece
	w.Walk(func(all []Piece) { pieces = all })
	held := map[Block]bool{}
	for _, b := range w.held {
		held[b.Block] = true
	}
	memory := [Spaces]map[uint64]bool{{}, {}}
	free := [Spaces]uint64{}
	for i, p := range pieces {
		require.NotZero(t, p.Count)
		if i > 0 && pieces[i-1].Space == p.Space {
			before := pieces[i-1]
			require.LessOrEqual(t, before.Offset+before.Count, p.Offset, "pieces are in order")
			touch := before.Offset+before.Count == p.Offset
			require.False(t, touch && before.Free && p.Free && before.Stream == p.Stream, "two pieces of stream %d touch",
				p.Stream)
		}
		for at := p.Offset / segmentUnits * segmentUnits; at < p.Offset+p.Count; at += segmentUnits {
			memory[p.Space][at] = true
		}
		if !p.Free {
			require.True(t, held[p.Block], "%+v is not held", p)
			delete(held, p.Block)
			continue
		}
		free[p.Space] += p.Count
		rest := uint64(0)
		for at := p.Offset; at < p.Offset+p.Count; at++ { // units of segments that are not all in this piece
			if first := at / segmentUnits * segmentUnits; first < p.Offset || first+segmentUnits > p.Offset+p.Count {
				rest++
			}
		}
		if rest > 0 {
			splits, split = splits+1, split+rest*Unit
		}
		past := true
		for at := p.Offset; at < p.Offset+p.Count; at++ {
			f := w.freed[p.Space][at]
			past = past && f.mark <= w.device.done[f.stream]
		}
		require.True(t, past || !p.Past, "%+v: the device has not come past all frees", p)
	}
	require.Empty(t, held, "held, and not listed")
	for space := range memory {
		require.Equal(t, w.device.segments(space), memory[space])
	}
	_, all := w.Flows()
	s := w.Statistics()
	require.Equal(t, s.Reserved-s.Held, (free[Small]+free[Large])*Unit)
	require.Equal(t, s.Reserved, all.Reserved.Current)
	require.Equal(t, s.Held, all.Held.Current)
	require.EqualValues(t, len(w.held), all.Blocks.Current)
	require.Equal(t, splits, all.Splits.Current)
	require.Equal(t, split, all.SplitBytes.Current)
	return splits, split
}

// Random programs: the list is what a model says, and the numbers are what a recount gives.
func TestWalks(t *testing.T) {
	for seed := range fewer(6) {
		random := rand.New(rand.NewPCG(seed, 9))
		w := newWorld(t, Options{LargeStep: segmentBytes}, 64*mib, 256*mib, 3)
		var peak, taken, reserved [Spaces + 1]uint64
		var times, mostSplits, mostSplit uint64
		for range 300 {
			stream := uint32(random.IntN(3))
			if len(w.held) > 0 && random.IntN(100) < 45 {
				w.give(random.IntN(len(w.held)), stream)
			} else if w.take(stream, 1+random.Uint64N([]uint64{4096, mib, 8 * mib}[random.IntN(3)])) == nil {
				times++
				b := w.held[len(w.held)-1]
				taken[b.Space] += b.Count * Unit
				taken[Spaces] += b.Count * Unit
			}
			var now [Spaces + 1]uint64
			for _, b := range w.held {
				now[b.Space] += b.Count * Unit
				now[Spaces] += b.Count * Unit
			}
			for i := range now {
				peak[i] = max(peak[i], now[i])
			}
			see := func() {
				splits, split := w.checkWalk()
				mostSplits, mostSplit = max(mostSplits, splits), max(mostSplit, split)
				var all uint64
				for i, segments := range w.device.memory[:Spaces] {
					now := uint64(len(segments)) * segmentBytes
					all += now
					reserved[i] = max(reserved[i], now)
				}
				reserved[Spaces] = max(reserved[Spaces], all)
			}
			see()
			switch random.IntN(10) {
			case 0:
				w.device.done[stream] = w.device.queued[stream]
			case 1:
				require.NoError(t, w.Trim(0))
			}
			see()
		}
		spaces, all := w.Flows()
		require.Equal(t, times, all.Blocks.Added, "seed %d", seed)
		require.GreaterOrEqual(t, all.Splits.Peak, mostSplits, "seed %d", seed)
		require.GreaterOrEqual(t, all.SplitBytes.Peak, mostSplit, "seed %d", seed)
		for i, flow := range append(slices.Clone(spaces[:]), all) {
			require.Equal(t, peak[i], flow.Held.Peak, "seed %d, space %d", seed, i)
			require.Equal(t, taken[i], flow.Held.Added, "seed %d, space %d", seed, i)
			require.GreaterOrEqual(t, flow.Reserved.Peak, reserved[i], "seed %d, space %d", seed, i)
			for _, tally := range []Tally{flow.Blocks, flow.Held, flow.Reserved} {
				require.Equal(t, tally.Current, tally.Added-tally.Removed)
				require.GreaterOrEqual(t, tally.Peak, tally.Current)
			}
		}
	}
}

// Free pieces of segments that are partly held have a peak of the moments when memory was missing.
func TestPiecesAreNotedWhenMemoryIsMissing(t *testing.T) {
	p := New(Options{LargeStep: segmentBytes}, quiet{}, [Spaces]uint64{64 * mib, 64 * mib})
	take := func(bytes uint64) Block {
		b, _, err := p.Take(0, bytes)
		require.NoError(t, err)
		return b
	}
	held := []Block{take(512), take(512), take(512)}
	require.NoError(t, p.Give(0, 1, held[1]))
	held[1] = take(4 * mib) // which is missing
	for i, b := range held {
		require.NoError(t, p.Give(0, uint64(2+i), b))
	}
	spaces, all := p.Flows()
	require.Equal(t, Tally{Peak: 2}, spaces[Small].Splits)
	require.Equal(t, Tally{Peak: 2*mib - 2*512}, spaces[Small].SplitBytes)
	require.Equal(t, Tally{}, spaces[Large].Splits)
	require.Equal(t, [2]Tally{{Peak: 2}, {Peak: 2*mib - 2*512}}, [2]Tally{all.Splits, all.SplitBytes})

	p = New(Options{Origin: Plain}, quiet{}, [Spaces]uint64{64 * mib, 64 * mib})
	block := take(3 * mib)
	_, all = p.Flows()
	require.Equal(t, Tally{Current: 17 * mib, Peak: 17 * mib}, all.SplitBytes, "a segment of 20 MiB goes back whole")
	require.NoError(t, p.Give(0, 1, block))
	_, all = p.Flows()
	require.Equal(t, Tally{Peak: 17 * mib}, all.SplitBytes)
}

// quiet is a Source for many goroutines.
type quiet struct{}

func (quiet) Back(int, Range) error               { return nil }
func (quiet) Bare(_ int, r Range) (uint64, error) { return r.Count, nil }
func (quiet) Mapping(_ int, at uint64) Range      { return Range{at, segmentUnits} }
func (quiet) Reap()                               {}
func (quiet) Cached(uint32) uint64                { return 0 }
func (quiet) Uncache(uint32, int, uint64) bool    { return false }
func (quiet) Settle(func(int, uint64, uint64))    {}

func (quiet) Done(uint32) uint64 { return 1 << 62 }

// What sleeps has no memory: it is not listed, and not reserved, until it wakes.
func TestAWalkPassesOverWhatSleeps(t *testing.T) {
	p := New(Options{LargeStep: segmentBytes}, quiet{}, [Spaces]uint64{64 * mib, 64 * mib})
	number, err := p.Open("cache", false, func(int) ([Spaces]uint64, error) { return [Spaces]uint64{64 * mib, 64 * mib}, nil })
	require.NoError(t, err)
	awake, _, err := p.Take(0, 3*mib)
	require.NoError(t, err)
	held, _, err := p.TakeIn(number, 0, 5*mib)
	require.NoError(t, err)
	listed := func() (blocks []Block) {
		var bytes uint64
		var pieces []Piece
		p.Walk(func(all []Piece) { pieces = all })
		for _, piece := range pieces {
			bytes += piece.Count * Unit
			if !piece.Free {
				blocks = append(blocks, piece.Block)
			}
		}
		_, all := p.Flows()
		require.Equal(t, bytes, all.Reserved.Current)
		require.Equal(t, bytes, p.Statistics().Reserved)
		return blocks
	}
	nothing := func([]Block) error { return nil }
	require.Equal(t, []Block{awake, held}, listed())
	require.NoError(t, p.Rest([]int{number}, false))
	require.NoError(t, p.Sleep([]int{number}, nothing))
	p.Settle([]int{number}, true)
	require.Equal(t, []Block{awake}, listed())
	require.NoError(t, p.Rest([]int{number}, true))
	require.NoError(t, p.Wake([]int{number}, nothing))
	p.Settle([]int{number}, false)
	require.Equal(t, []Block{awake, held}, listed())
	require.NoError(t, p.Give(0, 1, held))
	require.Equal(t, []Block{awake}, listed())
	_, all := p.Flows()
	require.EqualValues(t, 1, all.Blocks.Current)
}

// waiting is a Source that waits while it gives memory.
type waiting struct {
	quiet
	entered, leave chan struct{}
}

func (s waiting) Back(int, Range) error {
	close(s.entered)
	<-s.leave
	return nil
}

// What is on its way is neither held nor free: a list waits for it.
func TestAWalkWaitsForSegments(t *testing.T) {
	source := waiting{entered: make(chan struct{}), leave: make(chan struct{})}
	p := New(Options{LargeStep: segmentBytes}, source, [Spaces]uint64{256 * mib, 256 * mib})
	var threads sync.WaitGroup
	threads.Go(func() {
		_, _, err := p.Take(0, 3*mib)
		assert.NoError(t, err)
	})
	<-source.entered
	list := make(chan []Piece, 1)
	threads.Go(func() { p.Walk(func(all []Piece) { list <- all }) })
	select {
	case <-list:
		t.Error("a list shows what has no memory yet")
	case <-time.After(20 * time.Millisecond):
	}
	close(source.leave)
	threads.Wait()
}

// While others take, give and trim, each list tiles whole segments.
func TestWalksBesideThreads(t *testing.T) {
	p := New(Options{LargeStep: segmentBytes}, quiet{}, [Spaces]uint64{256 * mib, 256 * mib})
	var threads sync.WaitGroup
	for thread := range uint32(3) {
		threads.Go(func() {
			random := rand.New(rand.NewPCG(uint64(thread), 3))
			var held []Block
			for i := range 3000 {
				if b, _, err := p.Take(thread, 1+random.Uint64N(4*mib)); err == nil {
					held = append(held, b)
				}
				if len(held) > 12 {
					at := random.IntN(len(held))
					assert.NoError(t, p.Give(thread, uint64(i), held[at]))
					held = slices.Delete(held, at, at+1)
				}
				if i%100 == 0 {
					assert.NoError(t, p.Trim(0))
				}
			}
		})
	}
	for range 200 {
		var pieces []Piece
		p.Walk(func(all []Piece) { pieces = all })
		require.True(t, slices.IsSortedFunc(pieces, func(a, b Piece) int {
			return cmp.Or(cmp.Compare(a.Space, b.Space), cmp.Compare(a.Offset, b.Offset))
		}))
		for i := 0; i < len(pieces); {
			begin, end := pieces[i].Offset, pieces[i].Offset
			space := pieces[i].Space
			for ; i < len(pieces) && pieces[i].Space == space && pieces[i].Offset == end; i++ {
				end += pieces[i].Count
			}
			require.Zero(t, begin%segmentUnits)
			require.Zero(t, end%segmentUnits)
		}
	}
	threads.Wait()
}
