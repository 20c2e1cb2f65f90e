package page

import (
	"bytes"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"libmmsb/core/mem"
	"libmmsb/core/status"
	"libmmsb/native"
)

// retainedBytes are those of a context's retained memory.
func retainedBytes(c *Context) uint64 {
	retained, _ := retainedAndUsed(c)
	return retained
}

// retainedAndUsed are read together: a period may end at any time.
func retainedAndUsed(c *Context) (retained, used uint64) {
	c.memory.Lock()
	defer c.memory.Unlock()
	if c.memory.extents != nil {
		retained = c.memory.retained.count(0, c.memory.extents.Limit()) * mem.SystemPage
	}
	return retained, c.ledger.Used()
}

// withoutPeriods lets no period end by itself until the test ends: a test that is stopped for some seconds would find less than it left.
func withoutPeriods(t *testing.T) {
	before := retentionPeriod
	retentionPeriod = 24 * time.Hour
	t.Cleanup(func() { retentionPeriod = before })
}

func TestFreedExtentsStayForAWhile(t *testing.T) {
	withoutPeriods(t)
	withContext(t, defaults(), func(_ uint64, c *Context) {
		const size = 64 << 10
		page := create(t, c, size, 0)
		used := c.ledger.Used()
		fill(t, page, 1)
		require.Zero(t, native.Destroy(page))
		assert.EqualValues(t, size, retainedBytes(c))
		assert.Equal(t, used, c.ledger.Used(), "what is retained counts as used")

		page = create(t, c, size, 0)
		assert.Zero(t, retainedBytes(c))
		assert.Equal(t, used, c.ledger.Used())
		assert.Equal(t, make([]byte, size), content(t, page))
		require.Zero(t, native.Destroy(page))

		c.endPeriod()
		assert.EqualValues(t, size, retainedBytes(c), "it was freed in the period that ended")
		c.endPeriod()
		assert.Zero(t, retainedBytes(c))
		assert.Equal(t, used-size, c.ledger.Used())
		assert.Nil(t, c.memory.retained.timer, "nothing is left to wait for")
	})
}

func TestUninitialisedExtentsMayHaveOldBytes(t *testing.T) {
	withoutPeriods(t)
	withContext(t, defaults(), func(_ uint64, c *Context) {
		const size = 64 << 10
		page := create(t, c, size, 0)
		old := fill(t, page, 1)
		require.Zero(t, native.Destroy(page))
		options := plain
		options.Uninitialised = true
		page, err := c.Create(size, options)
		require.NoError(t, err)
		assert.Equal(t, old, content(t, page), "the memory came back from the system, which was to be spared")
	})
}

func TestRetainedMemoryMakesRoomAtTheLimit(t *testing.T) {
	withoutPeriods(t)
	options := defaults()
	options.MemoryLimit = 8 << 20
	sizes := map[string]uint64{"small pages": 4096, "extents": 1 << 20, "mappings": 6 << 20}
	for name, size := range sizes {
		t.Run(name, func(t *testing.T) {
			withContext(t, options, func(_ uint64, c *Context) {
				var pages []uint64
				for range 64 {
					pages = append(pages, create(t, c, 100<<10, 0))
				}
				native.Uncreate(pages)
				require.Greater(t, retainedBytes(c), uint64(6<<20))
				for made := size; made <= options.MemoryLimit-(1<<20); made += size {
					create(t, c, size, 0)
				}
				require.LessOrEqual(t, c.ledger.Used(), options.MemoryLimit)
			})
		})
	}
	t.Run("a mapping that grows", func(t *testing.T) {
		withContext(t, options, func(_ uint64, c *Context) {
			page := create(t, c, 2<<20, 0)
			native.Uncreate([]uint64{create(t, c, 1<<20, 0), create(t, c, 1<<20, 0)})
			require.NoError(t, Resize(page, 8<<20))
			require.Equal(t, status.Limit, status.CodeOf(Resize(page, 9<<20)))
		})
	})
}

// Pages of all sizes that extents have come and go: each is zero at first, and what is used is what lives and what is retained.
func TestNothingLeaksOutOfRetainedMemory(t *testing.T) {
	options := defaults()
	options.MemoryLimit = 32 << 20
	withContext(t, options, func(_ uint64, c *Context) {
		random := rand.New(rand.NewPCG(1, 2))
		var pages []uint64
		live, refused := uint64(0), 0
		end := func(i int) {
			live -= roundUp(native.RecordAt(native.Index(pages[i])).Size)
			require.Zero(t, native.Destroy(pages[i]))
			pages[i] = pages[len(pages)-1]
			pages = pages[:len(pages)-1]
		}
		for range 3000 {
			switch choice := random.IntN(20); {
			case choice < 11:
				size := native.SmallMax + 1 + random.Uint64N(mappedMin-1-native.SmallMax)>>random.IntN(6)
				page, err := c.Create(size, plain)
				if status.CodeOf(err) == status.Limit {
					refused++
					for len(pages) > 4 {
						end(random.IntN(len(pages)))
					}
					continue
				}
				require.NoError(t, err)
				require.True(t, bytes.Equal(make([]byte, size), content(t, page)), "a new page of %d bytes is not zero", size)
				fill(t, page, byte(random.Uint32()))
				pages, live = append(pages, page), live+roundUp(size)
			case choice < 19 && len(pages) > 0:
				end(random.IntN(len(pages)))
			case random.IntN(20) == 0:
				c.Trim()
				require.Zero(t, retainedBytes(c))
			default:
				c.endPeriod()
			}
			retained, used := retainedAndUsed(c)
			require.Equal(t, live+retained, used)
		}
		require.Positive(t, refused)
		require.NoError(t, c.memory.extents.Check())
	})
}

func TestBlockSets(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	var set blockSet
	model := make([]bool, 1000)
	for range 2000 {
		first := random.Uint64N(1000)
		end := first + random.Uint64N(1001-first)
		added := random.IntN(2) == 0
		if added {
			set.add(first, end)
		} else {
			set.remove(first, end)
		}
		for block := first; block < end; block++ {
			model[block] = added
		}
		first = random.Uint64N(1000)
		end = first + random.Uint64N(2000)
		found, expected := make([]bool, 1000), make([]bool, 1000)
		set.runs(first, end, func(from, to uint64) {
			require.True(t, first <= from && from < to && to <= end)
			require.True(t, from == first || !found[from-1], "two runs touch")
			for block := from; block < to; block++ {
				found[block] = true
			}
		})
		if first < end {
			copy(expected[first:], model[first:min(end, 1000)])
		}
		require.Equal(t, expected, found)
	}
}
