package runtime

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"libmmsb/core/status"
	"libmmsb/gpu/blocks"
	"libmmsb/gpu/driver"
	"libmmsb/gpu/sim"
)

// inThreads runs work in so many threads, and waits for all of them.
func inThreads(threads int, work func(thread int)) {
	var wait sync.WaitGroup
	for thread := range threads {
		wait.Add(1)
		go func() {
			defer wait.Done()
			work(thread)
		}()
	}
	wait.Wait()
}

// Threads that share blocks: with -race, and the device's check of the order.
func TestThreadsShareBlocks(t *testing.T) {
	w := newWorld(t, sim.Options{}, 8)
	type shared struct {
		handle  uint64
		address driver.Address
	}
	blocks := make(chan shared, 16)
	for i := range 16 {
		handle, address, err := w.allocate(i%8, 512)
		require.NoError(t, err)
		blocks <- shared{handle, address}
	}
	inThreads(8, func(thread int) {
		for i := range 100 {
			b := <-blocks
			if i%4 == 3 {
				if _, err := freeBlock(b.handle, nil); err != nil {
					t.Error(err)
				}
				handle, address, err := w.allocate(thread, 512)
				if err != nil {
					t.Error(err)
				}
				b = shared{handle, address}
			} else if err := w.use(thread, b.handle, b.address, 512, Access(1+i%3)); err != nil {
				t.Error(err)
			}
			blocks <- b
		}
	})
	for range 16 {
		_, err := freeBlock((<-blocks).handle, nil)
		require.NoError(t, err)
	}
}

// Of a pool's streams no more are leased than there may be, and none to two at a time.
func TestThreadsLeaseStreams(t *testing.T) {
	const threads, most = 16, 4
	d, err := sim.New(sim.Options{})
	require.NoError(t, err)
	defer d.Close()
	device, err := d.Open(0)
	require.NoError(t, err)
	r, err := New(device, Options{Streams: most})
	require.NoError(t, err)
	var leased sync.Map
	var refused atomic.Int32
	var tried sync.WaitGroup // at first nobody gives back before all have tried
	tried.Add(threads)
	inThreads(threads, func(int) {
		for i := range 100 {
			h, err := r.AcquireStream(0)
			if i == 0 {
				tried.Done()
				tried.Wait()
			}
			if status.CodeOf(err) == status.Limit {
				refused.Add(1)
				continue
			}
			if err != nil {
				t.Error(err)
				return
			}
			s, err := FindStream(h)
			if err != nil {
				t.Error(err)
				return
			}
			if _, twice := leased.LoadOrStore(s, h); twice {
				t.Errorf("stream %d is leased twice", s.Index())
			}
			leased.Delete(s)
			if err := ReleaseStream(h); err != nil {
				t.Error(err)
			}
		}
	})
	require.GreaterOrEqual(t, refused.Load(), int32(threads-most))
	require.Zero(t, r.Usage().Streams)
	require.Len(t, r.streams.snapshot(), 1+most, "the default stream, and no more than were allowed")
	leaks, err := r.Close()
	require.NoError(t, err)
	require.Empty(t, leaks)
	require.NoError(t, d.Problems())
}

// The log has what threads did in an order that may have been: an address is freed before it is given out again.
func TestTheLogIsInOrder(t *testing.T) {
	const threads, rounds = 8, 100
	log := NewLog(3 * threads * rounds)
	w := newWorld(t, sim.Options{}, threads, log)
	inThreads(threads, func(thread int) {
		for i := range rounds {
			handle, address, err := w.allocate((thread+i)%threads, 512)
			if err == nil {
				err = w.use(thread, handle, address, 512, Write)
			}
			if err == nil {
				_, err = freeBlock(handle, w.streams[thread])
			}
			if err != nil {
				t.Error(err)
				return
			}
		}
	})
	require.NoError(t, w.device.Synchronize())
	w.runtime.Reap()
	records := make([]LogRecord, 3*threads*rounds+1)
	count, lost := log.Read(0, records)
	require.Equal(t, 3*threads*rounds, count)
	require.Zero(t, lost)
	live := make(map[driver.Address]bool)
	balance := make(map[driver.Address]int) // frees that are not released
	for i, record := range records[:count] {
		require.EqualValues(t, i+1, record.Number)
		switch record.Action {
		case LogAllocate:
			require.False(t, live[record.Address], "record %d: 0x%x was given out twice", record.Number, uintptr(record.Address))
			live[record.Address] = true
		case LogFree:
			require.True(t, live[record.Address], "record %d: 0x%x was freed twice", record.Number, uintptr(record.Address))
			live[record.Address] = false
			balance[record.Address]++
		case LogReleased:
			balance[record.Address]--
			require.GreaterOrEqual(t, balance[record.Address], 0, "record %d", record.Number)
		default:
			t.Fatalf("record %d: %v", record.Number, record.Action)
		}
	}
	for address, frees := range balance {
		require.Zero(t, frees, "0x%x", uintptr(address))
		require.False(t, live[address])
	}
}

// Threads allocate and free while another one reaps without end: no byte is released early, twice or never.
func TestAReaperBesideThreads(t *testing.T) {
	const workers, rounds, bytes = 4, 200, 512
	budget := NewBudget(NewLedger(workers * rounds * bytes))
	w := newWorld(t, sim.Options{Scheduler: sim.Seeded}, workers, budget)
	var working atomic.Int32
	working.Store(workers)
	inThreads(workers+1, func(thread int) {
		if thread == workers {
			for working.Load() > 0 {
				w.runtime.Reap()
				usage := w.runtime.Usage()
				whole := usage.Outstanding == usage.Live+usage.Pending
				if !whole || usage.Live > workers*bytes || usage.Outstanding > workers*rounds*bytes {
					t.Errorf("%+v", usage)
					return
				}
			}
			return
		}
		defer working.Add(-1)
		for range rounds {
			handle, address, err := w.allocate(thread, bytes)
			if err == nil {
				err = w.use((thread+1)%workers, handle, address, bytes, Write)
			}
			if err == nil {
				_, err = freeBlock(handle, nil)
			}
			if err != nil {
				t.Error(err)
				return
			}
		}
	})
	require.NoError(t, w.device.Synchronize())
	w.runtime.Reap()
	usage := w.runtime.Usage()
	require.Equal(t, []uint64{0, 0, 0}, []uint64{usage.Outstanding, usage.Live, usage.Pending})
	require.Equal(t, []uint64{workers * rounds, workers * rounds}, []uint64{usage.Allocations, usage.Frees})
	require.Zero(t, budget.State().Charged)
}

// A block is freed while a use of it ends, and while another begins: the free comes behind what was begun, and what was not begun
// is refused.
func TestAFreeMeetsUses(t *testing.T) {
	w := newWorld(t, sim.Options{}, 3)
	begun := 0
	for range 300 {
		block, address, err := w.allocate(0, 512)
		require.NoError(t, err)
		ending, _, err := BeginUse(w.streams[1], Use{Block: block, Access: Read})
		require.NoError(t, err)
		require.NoError(t, w.work(1, address, 512, Read))
		var beginErr error
		inThreads(3, func(thread int) {
			switch thread {
			case 0:
				if _, err := freeBlock(block, nil); err != nil {
					t.Error(err)
				}
			case 1:
				if err := EndUse(ending); err != nil {
					t.Error(err)
				}
			case 2:
				beginErr = w.use(2, block, address, 512, Read)
			}
		})
		if beginErr == nil {
			begun++
		} else {
			requireCode(t, status.StaleHandle, beginErr)
		}
		require.Zero(t, w.runtime.Usage().Live)
	}
	require.NoError(t, w.device.Synchronize())
	w.runtime.Reap()
	require.Zero(t, w.runtime.Usage().Outstanding)
	t.Logf("%d of 300 uses were begun before the free", begun)
}

// A block that ends between a walk's look at it and its lock is not walked over, and a runtime that closes leaves a slot alone
// that another one's block has by then.
func TestWalksOverBlocksThatEnd(t *testing.T) {
	w := newWorld(t, sim.Options{}, 1)
	var found [2]*block
	for i := range found {
		handle, _, err := w.allocate(0, 512)
		require.NoError(t, err)
		found[i], err = allBlocks.find(handle)
		require.NoError(t, err)
	}
	before, ends := found[0], found[1]
	if before.index > ends.index {
		before, ends = ends, before
	}
	ends.mutex.Lock()
	begun, over := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(over)
		allBlocks.all(func(b *block) {
			assert.NotSame(t, ends, b)
			if b == before {
				close(begun)
			}
		})
	}()
	<-begun
	time.Sleep(20 * time.Millisecond) // it waits for the lock
	state, stream := ends.record.State.Load(), ends.stream
	ends.set(blocks.Free)
	ends.stream = nil
	ends.mutex.Unlock()
	<-over
	require.NoError(t, ends.end(w.runtime))

	ends.mutex.Lock()
	ends.record.State.Store(state)
	ends.stream = stream
	ends.mutex.Unlock()
	require.NoError(t, ends.end(&Runtime{}))
	require.Len(t, w.runtime.Blocks(), 2)
	for _, b := range found {
		_, err := freeBlock(b.current(), nil)
		require.NoError(t, err)
	}
}
