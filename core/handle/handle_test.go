package handle

import (
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"libmmsb/core/status"
)

const kind = 3

func put[T any](t *testing.T, table *Table[T], value T) uint64 {
	t.Helper()
	handle, err := table.Put(value)
	require.NoError(t, err)
	return handle
}

func code[T any](_ T, err error) status.Code { return status.CodeOf(err) }

func TestAHandleLeadsToItsValueUntilItIsRemoved(t *testing.T) {
	table := New[string](kind)
	one, two := put(t, table, "one"), put(t, table, "two")
	assert.NotEqual(t, one, two)
	assert.EqualValues(t, kind, Kind(one))
	assert.EqualValues(t, 2, table.Live())
	assert.Equal(t, map[uint64]string{one: "one", two: "two"}, maps.Collect(table.All()))

	value, err := table.Get(one)
	require.NoError(t, err)
	assert.Equal(t, "one", value)

	value, err = table.Remove(one)
	require.NoError(t, err)
	assert.Equal(t, "one", value)
	assert.Equal(t, status.StaleHandle, code(table.Get(one)))
	assert.Equal(t, status.StaleHandle, code(table.Remove(one)))
	assert.EqualValues(t, 1, table.Live())

	three := put(t, table, "three")
	assert.Equal(t, one&indexMask, three&indexMask, "the slot is used again")
	assert.NotEqual(t, one, three)
	assert.Equal(t, status.StaleHandle, code(table.Get(one)))
	assert.Equal(t, map[uint64]string{two: "two", three: "three"}, maps.Collect(table.All()))
	for range table.All() {
		break
	}
}

func TestHandlesThatWereNeverGivenOutAreInvalid(t *testing.T) {
	table := New[int](kind)
	handle := put(t, table, 1)
	for name, wrong := range map[string]uint64{
		"zero":              0,
		"index 0":           handle &^ indexMask,
		"another kind":      handle ^ 1<<kindShift,
		"slot not there":    handle + 1,
		"last slot":         handle | indexMask,
		"generation 0":      handle &^ (generationMask << indexBits),
		"future generation": handle + 1<<indexBits,
		"last generation":   handle | generationMask<<indexBits,
		"all bits":          math.MaxUint64,
	} {
		assert.Equal(t, status.InvalidHandle, code(table.Get(wrong)), name)
		assert.Equal(t, status.InvalidHandle, code(table.Remove(wrong)), name)
	}
	assert.EqualValues(t, 1, table.Live())
}

func TestASlotIsRetiredWithItsLastGeneration(t *testing.T) {
	table := New[int](kind)
	table.first = math.MaxUint32 - 1
	var given []uint64
	for value := range 5 {
		handle := put(t, table, value)
		assert.NotContains(t, given, handle)
		given = append(given, handle)
		_, err := table.Remove(handle)
		require.NoError(t, err)
	}
	slots := make([]uint64, 0, len(given))
	for _, handle := range given {
		slots = append(slots, handle&indexMask)
		assert.Equal(t, status.StaleHandle, code(table.Get(handle)))
	}
	assert.Equal(t, []uint64{1, 1, 2, 2, 3}, slots)
}

func TestTheLimitCountsLiveObjects(t *testing.T) {
	table := NewLimited[int](kind, 2)
	first := put(t, table, 1)
	put(t, table, 2)
	_, err := table.Put(3)
	require.Equal(t, status.Limit, status.CodeOf(err))
	_, err = table.Remove(first)
	require.NoError(t, err)
	put(t, table, 3)
}

func TestHandlesUnderConcurrency(t *testing.T) {
	table := New[uint64](kind)
	var shared sync.Map // handles that any thread may look up, live or not
	var group sync.WaitGroup
	for thread := range uint64(4) {
		group.Go(func() {
			random := rand.New(rand.NewPCG(thread, 1))
			var own []uint64
			for step := range uint64(3000) {
				if len(own) < 10 || random.IntN(2) == 0 {
					value := thread<<32 | step
					handle, err := table.Put(value)
					if !assert.NoError(t, err) {
						return
					}
					_, seen := shared.LoadOrStore(handle, value)
					assert.False(t, seen, "handle %#x was given out twice", handle)
					own = append(own, handle)
				} else {
					at := random.IntN(len(own))
					_, err := table.Remove(own[at])
					assert.NoError(t, err)
					own = slices.Delete(own, at, at+1)
				}
				if step%16 != 0 {
					continue
				}
				shared.Range(func(handle, value any) bool {
					found, err := table.Get(handle.(uint64))
					if err == nil {
						assert.Equal(t, value, found)
					} else {
						assert.Equal(t, status.StaleHandle, status.CodeOf(err))
					}
					return random.IntN(20) > 0
				})
			}
			for _, handle := range own {
				_, err := table.Remove(handle)
				assert.NoError(t, err)
			}
		})
	}
	group.Wait()
	assert.Zero(t, table.Live())
}
