package memory

import (
	"bytes"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"libmmsb/core/lasterror"
	"libmmsb/core/region"
	"libmmsb/core/status"
	"libmmsb/native"
)

// testContext is the index of the context that tests have memory for.
const testContext = 1

// withMemory runs a test on the memory of a context without pages. Native code's caches belong to threads.
func withMemory(t *testing.T, limit uint64, test func(m *Memory)) {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	native.SetUpcalls(native.Upcalls{
		Refill: func(_ uint64, class uint32, handles []uint64) (int, int32) {
			count, err := OfContext(testContext).Refill(class, handles)
			return count, lasterror.Store(err)
		},
		GiveFrame: func(context, index uint32) { OfContext(context).Give(index) },
	})
	require.Zero(t, native.Start())
	over := false
	m := New(Options{Limit: limit, HugePages: true, Owner: t, Hooks: Hooks{
		TakeLeaf: func(take func() (uint32, bool, error)) (uint32, error) {
			leaf, _, err := take()
			return leaf, err
		},
		Over: func() { over = true },
	}})
	const kind = 2 // of a context
	handle := native.Handle(kind, 1, testContext)
	m.Begin(testContext, handle)
	native.BeginContext(testContext, handle, 0, 1, 1)
	test(m)
	require.NoError(t, m.Check())
	require.NoError(t, m.Close())
	native.DetachContext(testContext)
	m.End()
	require.True(t, over)
	require.Zero(t, Outliving())
}

func take(t *testing.T, m *Memory, size uint64) uint32 {
	t.Helper()
	index, err := m.TakeFrame(size)
	require.NoError(t, err)
	return index
}

func content(index uint32) []byte {
	record := native.RecordAt(index)
	return native.Bytes(record.Locator, record.Size)
}

func fill(index uint32, seed byte) []byte {
	filled := content(index)
	for i := range min(len(filled), 256) {
		filled[i] = seed + byte(i)
	}
	for done := 256; done < len(filled); done *= 2 { // bytes of a loop come slowly under the race detector
		copy(filled[done:], filled[:done])
	}
	return bytes.Clone(filled)
}

// retainedBytes are those of the retained memory.
func retainedBytes(m *Memory) uint64 {
	retained, _ := retainedAndUsed(m)
	return retained
}

// retainedAndUsed are read together: a period may end at any time.
func retainedAndUsed(m *Memory) (retained, used uint64) {
	m.Lock()
	defer m.Unlock()
	return m.extents.retained.count(0, m.extents.space.Limit()) * region.SystemPage, m.Used()
}

// withoutPeriods lets no period end by itself until the test ends: a test that is stopped for some seconds would find less than
// it left.
func withoutPeriods(t *testing.T) {
	before := retentionPeriod
	retentionPeriod = 24 * time.Hour
	t.Cleanup(func() { retentionPeriod = before })
}

func TestFreedExtentsStayForAWhile(t *testing.T) {
	withoutPeriods(t)
	withMemory(t, 0, func(m *Memory) {
		const size = 64 << 10
		frame := take(t, m, size)
		used := m.Used()
		fill(frame, 1)
		m.Give(frame)
		assert.EqualValues(t, size, retainedBytes(m))
		assert.Equal(t, used, m.Used(), "what is retained counts as used")

		frame = take(t, m, size)
		assert.Zero(t, retainedBytes(m))
		assert.Equal(t, used, m.Used())
		assert.Equal(t, make([]byte, size), content(frame))
		m.Give(frame)

		m.extents.retained.endPeriod()
		assert.EqualValues(t, size, retainedBytes(m), "it was freed in the period that ended")
		m.extents.retained.endPeriod()
		assert.Zero(t, retainedBytes(m))
		assert.Equal(t, used-size, m.Used())
		assert.Nil(t, m.extents.retained.timer, "nothing is left to wait for")
	})
}

func TestExtentsThatAreNotZeroedMayHaveOldBytes(t *testing.T) {
	withoutPeriods(t)
	withMemory(t, 0, func(m *Memory) {
		const size = 64 << 10
		frame := take(t, m, size)
		old := fill(frame, 1)
		m.Give(frame)
		frame, err := m.TakeLarge(size, false, false)
		require.NoError(t, err)
		assert.Equal(t, old, content(frame), "the memory came back from the system, which was to be spared")
	})
}

func TestRetainedMemoryMakesRoomAtTheLimit(t *testing.T) {
	withoutPeriods(t)
	const limit = 8 << 20
	for name, size := range map[string]uint64{"small frames": 4096, "extents": 1 << 20, "mappings": 6 << 20} {
		t.Run(name, func(t *testing.T) {
			withMemory(t, limit, func(m *Memory) {
				var frames []uint32
				for range 64 {
					frames = append(frames, take(t, m, 100<<10))
				}
				for _, frame := range frames {
					m.Give(frame)
				}
				require.Greater(t, retainedBytes(m), uint64(6<<20))
				for made := size; made <= limit-(1<<20); made += size {
					take(t, m, size)
				}
				require.LessOrEqual(t, m.Used(), uint64(limit))
			})
		})
	}
	t.Run("a mapping that grows", func(t *testing.T) {
		withMemory(t, limit, func(m *Memory) {
			mapping := native.LocatorRegion(native.RecordAt(take(t, m, 2<<20)).Locator)
			a, b := take(t, m, 1<<20), take(t, m, 1<<20)
			m.Give(a)
			m.Give(b)
			require.NoError(t, m.GrowMapping(mapping, 2<<20, 8<<20))
			require.Equal(t, status.Limit, status.CodeOf(m.GrowMapping(mapping, 8<<20, 9<<20)))
			m.CutMapping(mapping, 8<<20, 2<<20)
		})
	})
}

// Frames of all sizes that extents have come and go: each is zero at first, and what is used is what is taken and what is
// retained.
func TestNothingLeaksOutOfRetainedMemory(t *testing.T) {
	withMemory(t, 32<<20, func(m *Memory) {
		random := rand.New(rand.NewPCG(1, 2))
		var frames []uint32
		taken, refused := uint64(0), 0
		give := func(i int) {
			taken -= RoundUp(native.RecordAt(frames[i]).Size)
			m.Give(frames[i])
			frames[i] = frames[len(frames)-1]
			frames = frames[:len(frames)-1]
		}
		for range 3000 {
			switch choice := random.IntN(20); {
			case choice < 11:
				size := native.SmallMax + 1 + random.Uint64N(mappedMin-1-native.SmallMax)>>random.IntN(6)
				frame, err := m.TakeFrame(size)
				if status.CodeOf(err) == status.Limit {
					refused++
					for len(frames) > 4 {
						give(random.IntN(len(frames)))
					}
					continue
				}
				require.NoError(t, err)
				require.True(t, bytes.Equal(make([]byte, RoundUp(size)), content(frame)), "a frame of %d bytes is not zero", size)
				fill(frame, byte(random.Uint32()))
				frames, taken = append(frames, frame), taken+RoundUp(size)
			case choice < 19 && len(frames) > 0:
				give(random.IntN(len(frames)))
			case random.IntN(20) == 0:
				m.Trim()
				require.Zero(t, retainedBytes(m))
			default:
				m.extents.retained.endPeriod()
			}
			retained, used := retainedAndUsed(m)
			require.Equal(t, taken+retained, used)
		}
		require.Positive(t, refused)
		require.NoError(t, m.Check())
	})
}
