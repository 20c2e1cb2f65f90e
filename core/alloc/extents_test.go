package alloc

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"libmmsb/core/status"
)

func allocate(t *testing.T, e *Extents, count, alignment uint64) uint64 {
	t.Helper()
	offset, ok := e.Allocate(count, alignment)
	require.True(t, ok, "%d units aligned to %d", count, alignment)
	return offset
}

func TestFreedNeighboursBecomeOneRange(t *testing.T) {
	for _, order := range [][]int{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}} {
		e := NewExtents(100)
		offsets := []uint64{allocate(t, e, 10, 1), allocate(t, e, 20, 1), allocate(t, e, 30, 1)}
		assert.EqualValues(t, 60, e.Used())
		assert.EqualValues(t, 40, e.Largest())
		assert.Equal(t, 3, e.allocated.count)
		for _, number := range order {
			require.NoError(t, e.Free(offsets[number], uint64(number+1)*10))
			require.NoError(t, e.Check())
		}
		assert.Zero(t, e.Used())
		assert.EqualValues(t, 100, e.Largest())
	}
}

func TestCut(t *testing.T) {
	e := NewExtents(100)
	offset := allocate(t, e, 10, 1)
	for _, front := range []uint64{0, 10, 11, math.MaxUint64} {
		err := e.Cut(offset, front)
		require.Equal(t, status.InvalidArgument, status.CodeOf(err), "%v", err)
	}
	require.Equal(t, status.InvalidArgument, status.CodeOf(e.Cut(offset+1, 1)))
	require.EqualValues(t, 90, e.Behind(offset).Count)
	require.NoError(t, e.Cut(offset, 3))
	require.NoError(t, e.Check())
	require.EqualValues(t, 3, e.Held(offset))
	require.EqualValues(t, 7, e.Held(offset+3))
	require.Zero(t, e.Held(offset+4))
	require.Zero(t, e.Behind(offset).Count, "what is behind it is held")
	require.EqualValues(t, 10, e.Used())
	require.Error(t, e.Free(offset, 10))
	require.NoError(t, e.Free(offset+3, 7))
	require.EqualValues(t, 97, e.Behind(offset).Count)
	require.NoError(t, e.Free(offset, 3))
	require.NoError(t, e.Check())
	require.EqualValues(t, 100, e.Largest())
}

func TestAllocateTakesTheLastBlock(t *testing.T) {
	e := NewExtents(7)
	assert.EqualValues(t, 0, allocate(t, e, 7, 1))
	assert.Zero(t, e.Largest())
	_, ok := e.Allocate(1, 1)
	assert.False(t, ok)
	require.NoError(t, e.Check())
}

func TestAllocateRefusesWhatCannotBe(t *testing.T) {
	for _, limit := range []uint64{0, 100} {
		e := NewExtents(limit)
		for _, request := range [][2]uint64{{0, 1}, {101, 1}, {math.MaxUint64, 1}, {math.MaxUint64, math.MaxUint64}} {
			_, ok := e.Allocate(request[0], request[1])
			assert.False(t, ok, "%v of %d", request, limit)
			require.NoError(t, e.Check())
		}
	}
}

func TestFreeRefusesWhatIsNotAllocatedExactlySo(t *testing.T) {
	e := NewExtents(100)
	offset := allocate(t, e, 10, 1)
	for _, wrong := range [][2]uint64{{offset, 9}, {offset, 11}, {offset, 0}, {offset + 1, 9}, {50, 10}, {100, 1},
		{math.MaxUint64, 2}} {
		assert.Equal(t, status.InvalidArgument, status.CodeOf(e.Free(wrong[0], wrong[1])), "%v", wrong)
	}
	require.NoError(t, e.Free(offset, 10))
	assert.ErrorContains(t, e.Free(offset, 10), "no extent is allocated at unit 0 of 100")
	require.NoError(t, e.Check())
}

func TestAlignment(t *testing.T) {
	e := NewExtents(1000)
	allocate(t, e, 3, 0)
	assert.EqualValues(t, 256, allocate(t, e, 100, 256))
	assert.EqualValues(t, 5, allocate(t, e, 10, 5), "any multiple, not only powers of two")
	require.NoError(t, e.Check())

	whole := NewExtents(math.MaxUint64)
	allocate(t, whole, 1, 1)
	assert.EqualValues(t, uint64(1)<<63, allocate(t, whole, 1<<62, 1<<63))
	_, ok := whole.Allocate(1<<62, 1<<63)
	assert.False(t, ok)
	require.NoError(t, whole.Check())
}

// A range that can hold the units is found even when it is among many that look as good.
func TestAnAllocationOnlyFailsWhereNothingFits(t *testing.T) {
	e := NewExtents(0)
	var fitting uint64
	for number := range uint64(100) {
		count := uint64(1000)
		if number == 50 {
			count, fitting = 1007, e.Limit()
		}
		require.NoError(t, e.Grow(e.Limit()+count))
		allocate(t, e, count, 1)
		require.NoError(t, e.Grow(e.Limit()+1))
		allocate(t, e, 1, 1)
	}
	var large []held
	e.EachAllocated(func(offset, count uint64) {
		if count > 1 {
			large = append(large, held{offset, count})
		}
	})
	for _, one := range large {
		require.NoError(t, e.Free(one.offset, one.count))
	}
	require.Equal(t, class(1000), class(1007), "the class does not tell them apart")
	assert.Equal(t, fitting, allocate(t, e, 1007, 1))
	_, ok := e.Allocate(1007, 1)
	assert.False(t, ok)
	require.NoError(t, e.Check())
}

func TestGrow(t *testing.T) {
	e := NewExtents(10)
	allocate(t, e, 10, 1)
	require.NoError(t, e.Grow(10))
	require.NoError(t, e.Grow(15))
	require.NoError(t, e.Grow(30))
	assert.EqualValues(t, 20, e.Largest(), "what was added is one range")
	assert.EqualValues(t, 30, e.Limit())
	assert.Equal(t, status.InvalidArgument, status.CodeOf(e.Grow(29)))
	require.NoError(t, e.Grow(math.MaxUint64))
	require.NoError(t, e.Check())
}

func TestClassesRiseWithTheSize(t *testing.T) {
	sizes := []uint64{}
	for size := range uint64(5000) {
		sizes = append(sizes, size+1)
	}
	for exponent := 12; exponent < 64; exponent++ {
		for _, step := range []uint64{0, 1, 1<<(exponent-columnBits) - 1, 1 << (exponent - columnBits), 1<<exponent - 1} {
			sizes = append(sizes, 1<<exponent+step)
		}
	}
	for at, size := range sizes {
		found := class(size)
		require.Less(t, found, classes)
		require.GreaterOrEqual(t, sureClass(size), found)
		require.LessOrEqual(t, sureClass(size), found+1)
		if at > 0 && size > sizes[at-1] {
			require.GreaterOrEqual(t, found, class(sizes[at-1]), "size %d", size)
			if found > class(sizes[at-1]) {
				require.LessOrEqual(t, sureClass(sizes[at-1]), found)
			}
		}
		// A size is sure of its own class just where it is the smallest one in it.
		require.Equal(t, class(size-1) != found, sureClass(size) == found, "size %d", size)
	}
}

// model is a byte per unit: the number of the range it belongs to, 0 when free.
type model []byte

func (m model) fits(count, alignment int) bool {
	run := 0
	for at, owner := range m {
		run++
		if owner != 0 {
			run = 0
		}
		if start := at - count + 1; run >= count && start%alignment == 0 {
			return true
		}
	}
	return false
}

func (m model) largest() (largest uint64) {
	run := uint64(0)
	for _, owner := range m {
		run++
		if owner != 0 {
			run = 0
		}
		largest = max(largest, run)
	}
	return largest
}

type held struct{ offset, count uint64 }

// play does random operations on extents and model, which must agree, and returns how many allocations succeeded and failed.
func play(t *testing.T, next func() uint64, steps int) (succeeded, failed int) {
	limit := int(next() % 400)
	e, m := NewExtents(uint64(limit)), make(model, limit)
	var ranges []held
	for step := range steps {
		switch kind := next() % 100; {
		case kind < 55:
			count, alignment := 1+int(next()%80)>>(next()%6), 1+int(next()%20)
			if next()%2 == 0 {
				alignment = 1 << (next() % 6)
			}
			count = max(count, 1)
			offset, ok := e.Allocate(uint64(count), uint64(alignment))
			require.Equal(t, m.fits(count, alignment), ok, "step %d: %d units aligned to %d", step, count, alignment)
			if !ok {
				failed++
				break
			}
			succeeded++
			require.Zero(t, offset%uint64(alignment))
			for at := range count {
				require.Zero(t, m[int(offset)+at], "step %d: unit %d is given out twice", step, int(offset)+at)
				m[int(offset)+at] = 1
			}
			ranges = append(ranges, held{offset, uint64(count)})
		case kind < 95 && len(ranges) > 0:
			at := int(next() % uint64(len(ranges)))
			freed := ranges[at]
			require.Error(t, e.Free(freed.offset, freed.count+1))
			require.NoError(t, e.Free(freed.offset, freed.count))
			require.Error(t, e.Free(freed.offset, freed.count))
			clear(m[freed.offset : freed.offset+freed.count])
			ranges[at] = ranges[len(ranges)-1]
			ranges = ranges[:len(ranges)-1]
		case len(m) < 2000:
			m = append(m, make(model, next()%50)...)
			require.NoError(t, e.Grow(uint64(len(m))))
		}
		if step%16 == 0 {
			require.NoError(t, e.Check(), "step %d", step)
			require.Equal(t, m.largest(), e.Largest())
		}
	}
	for _, freed := range ranges {
		require.NoError(t, e.Free(freed.offset, freed.count))
	}
	require.NoError(t, e.Check())
	require.Zero(t, e.Used())
	require.Equal(t, e.Limit(), e.Largest())
	return succeeded, failed
}

func TestAgainstAModel(t *testing.T) {
	succeeded, failed := 0, 0
	for seed := range uint64(40) {
		good, bad := play(t, rand.New(rand.NewPCG(seed, 0)).Uint64, 500)
		succeeded, failed = succeeded+good, failed+bad
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
	assert.Greater(t, succeeded, 2000)
	assert.Greater(t, failed, 500)
}

func FuzzExtents(f *testing.F) {
	f.Add([]byte("the quick brown fox jumps over the lazy dog, many times"), uint64(1))
	f.Add([]byte{}, uint64(2))
	f.Fuzz(func(t *testing.T, data []byte, seed uint64) {
		random := rand.New(rand.NewPCG(seed, 0))
		play(t, func() uint64 {
			if len(data) == 0 {
				return random.Uint64()
			}
			value := data[0]
			data = data[1:]
			return uint64(value)
		}, 100)
	})
}

// Each kind of damage must be seen: a checker that sees nothing proves nothing.
func TestCheckSeesDamage(t *testing.T) {
	for name, damage := range map[string]func(e *Extents){
		"offset":        func(e *Extents) { e.extents[2].offset++ },
		"count":         func(e *Extents) { e.extents[2].count++ },
		"empty":         func(e *Extents) { e.extents[2].count = 0 },
		"previous":      func(e *Extents) { e.extents[3].previous = 1 },
		"free":          func(e *Extents) { e.extents[1].free = true },
		"forgotten":     func(e *Extents) { *e.find(0) = 0 },
		"known twice":   func(e *Extents) { e.allocated.count++ },
		"used":          func(e *Extents) { e.used++ },
		"limit":         func(e *Extents) { e.limit++ },
		"column":        func(e *Extents) { e.bins[0].columnMap[0] ^= 2 },
		"row":           func(e *Extents) { e.bins[0].rowMap ^= 1 << 20 },
		"list":          func(e *Extents) { *e.bins[0] = bin{rowMap: 1 << 4} },
		"younger":       func(e *Extents) { e.extents[2].youngerFree = 1 },
		"lost a unused": func(e *Extents) { e.extents = append(e.extents, extent{}) },
		"touching free": func(e *Extents) { e.list(1); e.list(2) },
	} {
		e := NewExtents(1000)
		for _, count := range []uint64{10, 20, 30} {
			allocate(t, e, count, 1)
		}
		require.NoError(t, e.Free(10, 20))
		require.NoError(t, e.Check())
		damage(e)
		assert.Equal(t, status.Internal, status.CodeOf(e.Check()), name)
	}
}

func BenchmarkAllocateFree(b *testing.B) {
	for _, live := range []int{1000, 1_000_000} {
		b.Run(fmt.Sprintf("live=%d", live), func(b *testing.B) {
			random := rand.New(rand.NewPCG(1, 0))
			e := NewExtents(1 << 40)
			ranges := make([]held, live)
			for number := range ranges {
				count := 1 + random.Uint64N(100)
				offset, _ := e.Allocate(count, 1)
				ranges[number] = held{offset, count}
			}
			for b.Loop() {
				at := random.IntN(live)
				if err := e.Free(ranges[at].offset, ranges[at].count); err != nil {
					b.Fatal(err)
				}
				count := 1 + random.Uint64N(100)
				offset, _ := e.Allocate(count, 1)
				ranges[at] = held{offset, count}
			}
		})
	}
}
