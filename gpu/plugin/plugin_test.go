package plugin

import (
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"libmmsb/core/log"
	"libmmsb/core/status"
	"libmmsb/gpu/devices"
	"libmmsb/gpu/driver"
	"libmmsb/gpu/runtime"
)

const mib = 1 << 20

// serving is a runtime with a pool that serves device 0, and streams of its device as another library names them.
func serving(t *testing.T, streams int) (r *devices.Runtime, natives []*runtime.Stream) {
	set := devices.NewSet(devices.Options{Simulate: devices.Always, Devices: 1, Memory: 64 * mib})
	pool := ""
	r, err := set.New(0, devices.RuntimeOptions{Pool: &pool})
	require.NoError(t, err)
	require.NoError(t, Bind(0, r))
	for range streams {
		handle, err := r.AcquireStream(0)
		require.NoError(t, err)
		stream, err := runtime.FindStream(handle)
		require.NoError(t, err)
		natives = append(natives, stream)
	}
	t.Cleanup(func() {
		End()
		require.Zero(t, r.Usage().Live)
		set.Close()
		for i := range given {
			require.Empty(t, given[i].given, "shard %d", i)
		}
	})
	return r, natives
}

func of(s *runtime.Stream, lasts bool) Stream { return Stream{uintptr(s.Native()), lasts} }

func TestMemoryIsFoundByAddress(t *testing.T) {
	r, streams := serving(t, 1)
	one := of(streams[0], true)
	address, err := Allocate(r, 1000, one, Ordered)
	require.NoError(t, err)
	require.Zero(t, address%512)
	for _, at := range []driver.Address{address, address + 1, address + 999} {
		base, bytes, err := Base(at)
		require.NoError(t, err)
		require.Equal(t, address, base)
		require.Equal(t, uint64(1000), bytes)
	}
	for _, at := range []driver.Address{0, address - 1, address + 1000, math.MaxUint64} {
		_, _, err := Base(at)
		require.Equal(t, status.NotFound, status.CodeOf(err))
		require.Equal(t, status.NotFound, status.CodeOf(Free(at, one)))
		require.Equal(t, status.NotFound, status.CodeOf(Record(at, one)))
	}
	require.NoError(t, Free(address, one))
	require.Equal(t, status.NotFound, status.CodeOf(Free(address, one)))
}

// What its block's handle has freed is freed, and counts against no limit any more.
func TestAFreeByTheBlocksHandle(t *testing.T) {
	r, streams := serving(t, 1)
	one := of(streams[0], true)
	for _, kind := range []Kind{Ordered, Segment} {
		address, err := Allocate(r, 1000, one, kind)
		require.NoError(t, err)
		m, err := find(address)
		require.NoError(t, err)
		_, err = runtime.Free(m.block, nil)
		require.NoError(t, err)
		if kind == Ordered {
			require.Equal(t, status.NotFound, status.CodeOf(Record(address, one)))
		}
		require.Equal(t, status.NotFound, status.CodeOf(Free(address, one)))
		_, err = find(address)
		require.Equal(t, status.NotFound, status.CodeOf(err))
	}
}

// Of threads that free the same memory one does.
func TestAFreeIsDoneOnce(t *testing.T) {
	r, streams := serving(t, 1)
	for range 50 {
		address, err := Allocate(r, 1000, of(streams[0], true), Ordered)
		require.NoError(t, err)
		var freed, unknown int
		var mutex sync.Mutex
		var threads sync.WaitGroup
		for range 4 {
			threads.Add(1)
			go func() {
				defer threads.Done()
				err := Free(address, of(streams[0], true))
				mutex.Lock()
				defer mutex.Unlock()
				switch {
				case err == nil:
					freed++
				case status.CodeOf(err) == status.NotFound:
					unknown++
				}
			}()
		}
		threads.Wait()
		require.Equal(t, 1, freed)
		require.Equal(t, 3, unknown)
	}
	require.Equal(t, uint64(50), r.Usage().Frees)

	// All of them may have found it before the first one removes it.
	address, err := Allocate(r, 1000, of(streams[0], true), Ordered)
	require.NoError(t, err)
	m, err := find(address)
	require.NoError(t, err)
	require.NoError(t, remove(address, m))
	require.Equal(t, status.NotFound, status.CodeOf(remove(address, m)))
	put(address, m)
	require.NoError(t, Free(address, of(streams[0], true)))
}

// A free that fails leaves the memory where it was.
func TestAFreeThatFails(t *testing.T) {
	r, streams := serving(t, 1)
	address, err := AllocateBound(0, mib, of(streams[0], false), Ordered)
	require.NoError(t, err)
	require.Equal(t, status.InvalidHandle, status.CodeOf(Free(address, Stream{0xABC0, false})))
	require.Equal(t, uint64(mib), r.Usage().Live)
	base, _, err := Base(address)
	require.NoError(t, err)
	require.Equal(t, address, base)
	require.NoError(t, Free(address, of(streams[0], false)))
}

// Threads that together never have more than the limit, and none is refused what fits.
func TestALimitHoldsFromManyThreads(t *testing.T) {
	r, streams := serving(t, 4)
	require.NoError(t, SetFraction(0, 0.125)) // 8 MiB
	var threads sync.WaitGroup
	for thread := range 4 {
		threads.Add(1)
		go func() {
			defer threads.Done()
			random := rand.New(rand.NewPCG(uint64(thread), 1))
			mine := of(streams[thread], thread%2 == 0)
			for range 200 {
				bytes := 1 + random.Uint64N(4*mib)
				address, err := AllocateBound(0, bytes, mine, Ordered)
				if err != nil {
					assert.Equal(t, status.Limit, status.CodeOf(err), "%v", err)
					continue
				}
				assert.LessOrEqual(t, r.Usage().Live, uint64(8*mib))
				assert.NoError(t, Record(address, of(streams[(thread+1)%4], thread%2 == 0)))
				assert.NoError(t, Free(address, mine))
			}
		}()
	}
	threads.Wait()
	small, err := AllocateBound(0, 1, of(streams[0], true), Ordered)
	require.NoError(t, err)
	for _, bytes := range []uint64{8 * mib, math.MaxUint64, 1 << 63} {
		_, err := AllocateBound(0, bytes, of(streams[0], true), Ordered)
		require.Equal(t, status.Limit, status.CodeOf(err))
	}
	require.NoError(t, Free(small, of(streams[0], true)))
	address, err := AllocateBound(0, 8*mib, of(streams[0], true), Segment)
	require.NoError(t, err)
	require.NoError(t, Bind(0, r), "the limit of the device stays")
	_, err = AllocateBound(0, 8*mib+1, of(streams[0], true), Segment)
	require.Equal(t, status.Limit, status.CodeOf(err))
	require.NoError(t, Free(address, Stream{}))
	require.NoError(t, SetFraction(0, 1))
	for _, fraction := range []float64{-0.1, 1.1, math.NaN(), math.Inf(1)} {
		require.Equal(t, status.InvalidArgument, status.CodeOf(SetFraction(0, fraction)))
	}
}

func TestRefusalsAreLoggedUpToALimit(t *testing.T) {
	require.NoError(t, log.Configure(log.Warning, -1))
	drain := func() (lines string) {
		buffer := make([]byte, 1<<16)
		for {
			n, _, err := log.Read(buffer)
			require.NoError(t, err)
			if n == 0 {
				return lines
			}
			lines += string(buffer[:n])
		}
	}
	drain()
	notes.Store(0)
	for range 3 * mostNotes {
		require.Error(t, Note("mmsb_torch_free", Free(0xABC0, Stream{})))
	}
	require.NoError(t, Note("mmsb_torch_free", nil))
	lines := drain()
	require.Equal(t, mostNotes, strings.Count(lines, "was not allocated here"))
	require.Equal(t, 1, strings.Count(lines, "are not logged"))
}
