package runtime

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"libmmsb/core/pool"
	"libmmsb/core/status"
	"libmmsb/gpu/blocks"
	"libmmsb/gpu/driver"
	"libmmsb/gpu/sim"
)

// A random program of allocations and frees, half of them without Go, asks for the block at addresses: of live ones, the answer
// is the block; where none is, that there is none.
func TestTheBlockAtAnAddress(t *testing.T) {
	w := pooledWith(t, 2)
	random := rand.New(rand.NewPCG(1, 2))
	var live []BlockInfo
	var freed []driver.Address
	asked := func(address driver.Address) {
		want, there := BlockInfo{}, false
		for _, b := range live {
			if uint64(address-b.Address) < b.Bytes {
				want, there = b, true
			}
		}
		got, err := w.runtime.At(address)
		if !there {
			requireCode(t, status.NotFound, err)
			return
		}
		require.NoError(t, err)
		require.Equal(t, want.Handle, got.Handle)
		around, found := w.runtime.Around(address, want.Bytes-uint64(address-want.Address))
		require.True(t, found)
		require.Equal(t, want.Handle, around.Handle)
		_, found = w.runtime.Around(address, want.Bytes-uint64(address-want.Address)+1)
		require.False(t, found, "a byte past its end")
	}
	for range 4000 {
		if len(live) < 20 || len(live) < 300 && random.IntN(2) == 0 {
			stream, bytes := random.IntN(2), 512*(1+random.Uint64N(20))-random.Uint64N(512)
			handle, _, hit := blocks.Hit(w.handles[stream], bytes, 0)
			if !hit {
				handle = w.mustAllocate(t, stream, bytes)
			}
			info, err := FindBlock(handle)
			require.NoError(t, err)
			live = append(live, info)
		} else {
			i := random.IntN(len(live))
			freed = append(freed, live[i].Address)
			if !blocks.Cache(live[i].Handle, 0) {
				mustFree(t, live[i].Handle)
			}
			live = slices.Delete(live, i, i+1)
		}
		b := live[random.IntN(len(live))]
		asked(b.Address + driver.Address(random.Uint64N(b.Bytes)))
		if len(freed) > 0 {
			asked(freed[random.IntN(len(freed))])
		}
	}
	for _, b := range live {
		mustFree(t, b.Handle)
	}
}

// What is asked for often is not looked for among all blocks: of ten thousand, a few dozen looks at all are enough.
func TestFewAddressesAreLookedForAmongAllBlocks(t *testing.T) {
	const count = 10_000
	w := pooledWith(t, 1)
	handles, addresses := make([]uint64, count), make([]driver.Address, count)
	for i := range handles {
		var err error
		handles[i], addresses[i], err = w.allocate(0, 1000)
		require.NoError(t, err)
	}
	placed.mutex.Lock()
	placed.list, placed.misses, placed.patience = nil, 0, leastPatience
	placed.mutex.Unlock()
	placed.found.Store(0)
	for i, address := range addresses {
		info, err := w.runtime.At(address + 500)
		require.NoError(t, err)
		require.Equal(t, handles[i], info.Handle)
	}
	require.GreaterOrEqual(t, placed.found.Load(), int64(count-2*leastPatience))
	mustFree(t, handles...)
}

func BenchmarkAt(b *testing.B) {
	for _, live := range []int{100, 10_000} {
		b.Run(fmt.Sprintf("%d live", live), func(b *testing.B) {
			w := newWorldWith(b, sim.Options{Memory: 1 << 34, Unchecked: true}, 1, Options{Pool: &pool.Options{}})
			handles, addresses := make([]uint64, live), make([]driver.Address, live)
			for i := range handles {
				var err error
				handles[i], addresses[i], err = w.allocate(0, 4096)
				require.NoError(b, err)
			}
			b.ResetTimer()
			for i := range b.N {
				if _, err := w.runtime.At(addresses[i*7919%live]); err != nil {
					b.Fatal(err)
				}
			}
			b.StopTimer()
			mustFree(b, handles...)
		})
	}
}
