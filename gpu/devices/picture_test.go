package devices

import (
	"bytes"
	"io"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"libmmsb/core/abi"
	"libmmsb/core/picture"
	"libmmsb/core/status"
	"libmmsb/gpu/blocks"
	"libmmsb/gpu/runtime"
)

func statistics(t *testing.T, r *Runtime) map[string]uint64 {
	entries, err := r.MemoryStatistics()
	require.NoError(t, err)
	values := map[string]uint64{}
	for _, e := range entries {
		require.NotContains(t, values, e.Name)
		values[e.Name] = e.Value
	}
	return values
}

// Random operations against a model of blocks that count in PyTorch's pools by their size.
func TestStatisticsUnderPyTorchsNames(t *testing.T) {
	const mib = 1 << 20
	set := NewSet(Options{Simulate: Always, Devices: 1, Memory: 1 << 30})
	defer set.Close()
	for _, pooled := range []bool{true, false} {
		options := RuntimeOptions{}
		if pooled {
			options.Pool = new(string)
		}
		r, err := set.New(0, options)
		require.NoError(t, err)
		h, err := r.AcquireStream(0)
		require.NoError(t, err)
		s, err := runtime.FindStream(h)
		require.NoError(t, err)
		random := rand.New(rand.NewPCG(7, 7))
		type tally struct{ number, bytes, asked, peak, peakBytes, peakAsked, all, allBytes, allAsked, waits uint64 }
		model := map[string]*tally{"all": {}, "small_pool": {}, "large_pool": {}}
		live := map[uint64]uint64{}
		for range 600 {
			if len(live) < 5 || random.IntN(100) < 55 {
				size := 1 + random.Uint64N([]uint64{5000, mib, 6 * mib}[random.IntN(3)])
				block, _, err := Allocate(s, size, 0, 0, 0)
				require.NoError(t, err)
				live[block] = size
				for _, name := range []string{"all", poolOf(size)} {
					m := model[name]
					rounded := (size + 511) / 512 * 512
					m.number, m.bytes, m.asked = m.number+1, m.bytes+rounded, m.asked+size
					m.peak, m.peakBytes = max(m.peak, m.number), max(m.peakBytes, m.bytes)
					m.all, m.allBytes, m.allAsked = m.all+1, m.allBytes+rounded, m.allAsked+size
					m.peakAsked = max(m.peakAsked, m.asked)
				}
			} else {
				for block, size := range live {
					_, err := runtime.Free(block, nil)
					require.NoError(t, err)
					delete(live, block)
					for _, name := range []string{"all", poolOf(size)} {
						m := model[name]
						m.number, m.bytes, m.asked = m.number-1, m.bytes-(size+511)/512*512, m.asked-size
						m.waits += size
					}
					break
				}
			}
		}
		_, _, err = Allocate(s, 1<<40, 0, 0, 0)
		require.Error(t, err)
		v := statistics(t, r)
		require.EqualValues(t, 1, v["num_ooms"])
		all := model["all"]
		require.Equal(t, all.number, v["allocation.all.current"])
		require.Equal(t, all.all, v["allocation.all.allocated"])
		require.Equal(t, all.all-all.number, v["allocation.all.freed"])
		require.Equal(t, all.asked, v["requested_bytes.all.current"])
		if !pooled {
			require.NotContains(t, v, "reserved_bytes.all.current")
			require.Equal(t, all.asked, v["allocated_bytes.all.current"])
			require.Equal(t, all.allAsked, v["requested_bytes.all.allocated"])
			require.GreaterOrEqual(t, v["requested_bytes.all.peak"], all.peakAsked)
			require.Equal(t, all.all, v["num_device_alloc"])
			continue
		}
		for name, m := range model {
			for _, family := range []string{"allocation", "active"} {
				require.Equal(t, m.number, v[family+"."+name+".current"], name)
				require.Equal(t, m.peak, v[family+"."+name+".peak"], name)
				require.Equal(t, m.all, v[family+"."+name+".allocated"], name)
				require.Equal(t, m.all-m.number, v[family+"."+name+".freed"], name)
			}
			for _, family := range []string{"allocated_bytes", "active_bytes"} {
				require.Equal(t, m.bytes, v[family+"."+name+".current"], name)
				require.Equal(t, m.peakBytes, v[family+"."+name+".peak"], name)
				require.Equal(t, m.allBytes, v[family+"."+name+".allocated"], name)
				require.Equal(t, m.allBytes-m.bytes, v[family+"."+name+".freed"], name)
			}
			require.Equal(t, m.asked, v["requested_bytes."+name+".current"])
			require.Equal(t, m.allAsked, v["requested_bytes."+name+".allocated"])
			require.Equal(t, m.allAsked-m.asked, v["requested_bytes."+name+".freed"])
			require.GreaterOrEqual(t, v["requested_bytes."+name+".peak"], m.peakAsked, "what waits for the device counts, too")
			require.LessOrEqual(t, v["requested_bytes."+name+".peak"], v["active_bytes."+name+".peak"]+m.waits)
		}
		of := r.Runtime.Pool().Statistics()
		require.Equal(t, of.Reserved, v["reserved_bytes.all.current"])
		require.Equal(t, of.Reserved/segmentBytes, v["segment.all.current"])
		require.Equal(t, of.Grown, v["reserved_bytes.all.allocated"])
		require.Equal(t, of.LargestFree, v["largest_free_block"])
		require.Equal(t, v["segment.all.current"], v["num_device_alloc"]-v["num_device_free"])
		require.Positive(t, v["inactive_split_bytes.all.current"])
		require.LessOrEqual(t, v["inactive_split_bytes.all.current"], of.Reserved-of.Held)
		require.NoError(t, s.Synchronize())
		before := v["inactive_split_bytes.all.current"]
		require.NoError(t, r.Trim(0)) // all segments that are wholly free go
		v = statistics(t, r)
		require.Equal(t, before, v["inactive_split_bytes.all.current"])
		require.Equal(t, before, v["reserved_bytes.all.current"]-v["active_bytes.all.current"])
	}
}

// balanced sees that each family's numbers agree.
func balanced(t *testing.T, v map[string]uint64) {
	for name, current := range v {
		family, is := strings.CutSuffix(name, ".current")
		if !is {
			continue
		}
		if allocated, has := v[family+".allocated"]; has {
			require.Equal(t, current, allocated-v[family+".freed"], family)
		}
		if peak, has := v[family+".peak"]; has {
			require.GreaterOrEqual(t, peak, current, family)
		}
		if rest, of := strings.CutSuffix(family, ".all"); of && strings.HasPrefix(rest, "requested") {
			require.Equal(t, current, v[rest+".small_pool.current"]+v[rest+".large_pool.current"])
		}
	}
}

// Allocations and frees that do not enter Go count in all families.
func TestStatisticsCountWhatDoesNotEnterGo(t *testing.T) {
	const mib = 1 << 20
	set := NewSet(Options{Simulate: Always, Devices: 1, Memory: 1 << 30})
	defer set.Close()
	r, err := set.New(0, RuntimeOptions{Pool: new(string)})
	require.NoError(t, err)
	h, err := r.AcquireStream(0)
	require.NoError(t, err)
	s, err := runtime.FindStream(h)
	require.NoError(t, err)
	random := rand.New(rand.NewPCG(8, 8))
	live := map[string]map[uint64]uint64{"small_pool": {}, "large_pool": {}}
	var hits, largeHits int
	allocated, bytes, before := map[string]uint64{}, map[string]uint64{}, map[string]uint64{}
	held, most := map[string]uint64{}, map[string]uint64{} // bytes that were asked for
	for step := range 3000 {
		size := []uint64{1, 200, 3000, mib, 3 * mib}[random.IntN(5)] + random.Uint64N(1000)
		if random.IntN(20) == 0 {
			size = mib + uint64(random.IntN(2000)) - 1000 // what is large may serve what is small
		}
		of := live[poolOf(size)]
		if len(of) < 10 || random.IntN(2) == 0 {
			block, _, hit := blocks.Hit(h, size, 0)
			if hit {
				hits++
				if size > mib {
					largeHits++
				}
			} else {
				block, _, err = Allocate(s, size, 0, 0, 0)
				require.NoError(t, err)
			}
			of[block] = size
			allocated[poolOf(size)]++
			bytes[poolOf(size)] += size
			held[poolOf(size)] += size
			most[poolOf(size)] = max(most[poolOf(size)], held[poolOf(size)])
		} else {
			for block, size := range of {
				if !blocks.Cache(block, 0) {
					_, err := runtime.Free(block, nil)
					require.NoError(t, err)
				}
				held[poolOf(size)] -= size
				delete(of, block)
				break
			}
		}
		if step%20 == 19 {
			empty := step%200 == 199
			if empty {
				r.Reap()
			}
			v := statistics(t, r)
			balanced(t, v)
			for name, asked := range held {
				require.Equal(t, bytes[name], v["requested_bytes."+name+".allocated"])
				require.LessOrEqual(t, asked, v["requested_bytes."+name+".current"], "what its stream keeps counts, too")
				require.LessOrEqual(t, most[name], v["requested_bytes."+name+".peak"])
				require.LessOrEqual(t, v["requested_bytes."+name+".peak"], bytes[name], "never more than ever came")
				if empty {
					require.Equal(t, asked, v["requested_bytes."+name+".current"])
				}
				require.InDelta(t, allocated[name], v["allocation."+name+".allocated"], 40, "by where it lies, and by its size")
			}
			for _, family := range []string{"allocation", "active"} {
				require.Equal(t, allocated["small_pool"]+allocated["large_pool"], v[family+".all.allocated"])
			}
			require.GreaterOrEqual(t, v["allocated_bytes.all.allocated"], v["requested_bytes.all.allocated"])
			for name, value := range before {
				if !strings.HasSuffix(name, ".current") && strings.Contains(name, "_pool.") {
					require.GreaterOrEqual(t, v[name], value, name)
				}
			}
			before = v
		}
	}
	require.Greater(t, hits, 500)
	require.Greater(t, largeHits, 50)

	small, _, err := Allocate(s, 1000, 0, 0, 0)
	require.NoError(t, err)
	require.True(t, blocks.Cache(small, 0))
	one := statistics(t, r)
	small, _, hit := blocks.Hit(h, 1024, 0)
	require.True(t, hit)
	two := statistics(t, r)
	for name, more := range map[string]uint64{"requested_bytes.all.allocated": 1024, "allocated_bytes.all.allocated": 1024,
		"active_bytes.small_pool.allocated": 1024, "active_bytes.small_pool.freed": 1024, "allocation.small_pool.allocated": 1,
		"allocation.small_pool.freed": 0, "active.all.freed": 1, "active.all.current": 0, "allocation.large_pool.allocated": 0,
		"requested_bytes.small_pool.current": 24} {
		require.Equal(t, more, two[name]-one[name], name)
	}
	_, err = runtime.Free(small, nil)
	require.NoError(t, err)
}

// Whoever reads while threads allocate sees families that agree.
func TestStatisticsAgreeBesideThreads(t *testing.T) {
	set := NewSet(Options{Simulate: Always, Devices: 1, Memory: 1 << 30})
	defer set.Close()
	r, err := set.New(0, RuntimeOptions{Pool: new(string)})
	require.NoError(t, err)
	var threads sync.WaitGroup
	var stop atomic.Bool
	for i := range uint64(2) {
		h, err := r.AcquireStream(0)
		require.NoError(t, err)
		s, err := runtime.FindStream(h)
		require.NoError(t, err)
		threads.Go(func() {
			random := rand.New(rand.NewPCG(i, 5))
			for !stop.Load() {
				size := 1 + random.Uint64N(2<<20)
				block, _, hit := blocks.Hit(h, size, 0)
				if !hit {
					block, _, err = Allocate(s, size, 0, 0, 0)
					assert.NoError(t, err)
				}
				if !blocks.Cache(block, 0) {
					_, err := runtime.Free(block, nil)
					assert.NoError(t, err)
				}
			}
		})
	}
	defer threads.Wait()
	defer stop.Store(true)
	for range 300 {
		v := statistics(t, r)
		balanced(t, v)
	}
}

func poolOf(size uint64) string {
	if size <= 1<<20 {
		return "small_pool"
	}
	return "large_pool"
}

func TestPicturesOfARuntime(t *testing.T) {
	set := NewSet(Options{Simulate: Always, Devices: 1, Memory: 1 << 30})
	defer set.Close()
	configuration := ""
	r, err := set.New(0, RuntimeOptions{Pool: &configuration, LogEvents: 100})
	require.NoError(t, err)
	h, err := r.AcquireStream(0)
	require.NoError(t, err)
	s, err := runtime.FindStream(h)
	require.NoError(t, err)
	tag, err := runtime.TagOf("weights")
	require.NoError(t, err)
	_, address, err := Allocate(s, 5000, tag, 0, 99)
	require.NoError(t, err)
	p, err := r.Snapshot()
	require.NoError(t, err)
	require.NotEmpty(t, p.Statistics)
	for format, begins := range map[int32]string{abi.PictureTorch: "\x80\x02", abi.PictureJSON: `{"format":"mmsb memory 1"`,
		abi.PictureHTML: "<!doctype html>"} {
		var out bytes.Buffer
		require.NoError(t, WritePicture(p, &out, format))
		require.Equal(t, begins, out.String()[:len(begins)])
		require.Contains(t, out.String(), "weights")
	}
	require.Equal(t, status.InvalidArgument, status.CodeOf(WritePicture(p, io.Discard, 3)))
	require.Equal(t, picture.Block{Bytes: 5120, Asked: 5000, State: picture.Live, Tag: uint32(tag), Stream: uint64(s.Index()),
		Thread: 99, Time: p.Events[len(p.Events)-1].Time}, p.Segments[0].Blocks[0])
	require.EqualValues(t, address, p.Segments[0].Address)
	r.end(func() {})
	_, err = r.Snapshot()
	require.Equal(t, status.StaleHandle, status.CodeOf(err))
	_, err = r.MemoryStatistics()
	require.Equal(t, status.StaleHandle, status.CodeOf(err))
}
