package runtime

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"libmmsb/core/pool"
	"libmmsb/core/status"
	"libmmsb/gpu/driver"
	"libmmsb/gpu/sim"
)

// leased is a stream of the runtime's.
func leased(t testing.TB, r *Runtime) *Stream {
	handle, err := r.AcquireStream(0)
	require.NoError(t, err)
	s, err := FindStream(handle)
	require.NoError(t, err)
	return s
}

// fillWithin queues a write of a block within a use.
func fillWithin(t testing.TB, s *Stream, block uint64, address driver.Address, access Access) {
	use, _, err := BeginUse(s, Use{Block: block, Access: access})
	require.NoError(t, err)
	if access == Read {
		spare, err := s.runtime.AllocateHost(driver.Pinned, 1000)
		require.NoError(t, err)
		require.NoError(t, s.Copy(driver.Copy{To: spare, From: address, Bytes: 1000}))
		defer func() { require.NoError(t, s.runtime.FreeHost(driver.Pinned, spare)) }()
	} else {
		require.NoError(t, s.Fill(address, 3, 1000))
	}
	require.NoError(t, EndUse(use))
}

// Whoever has a block works behind its uses, and later uses and the free behind him.
func TestLentBlocksAreInOrder(t *testing.T) {
	for name, of := range memoryOf {
		for _, native := range []uintptr{streamA, OwnStream, 1, uintptr(driver.PerThread)} {
			for _, access := range []Access{Read, ReadWrite} {
				t.Run(name, func(t *testing.T) {
					p, r, d := newPeer(t, sim.Options{Memory: 64 * mib, Scheduler: sim.Seeded, Seed: 3}, of)
					mine, other := leased(t, r), leased(t, r)
					theirs := map[uintptr]driver.Stream{streamA: p.create(streamA), OwnStream: mine.native, 1: 0,
						uintptr(driver.PerThread): p.thread}[native]
					handle, address, err := r.Allocate(Request{Stream: mine, Bytes: 1000})
					require.NoError(t, err)
					target, elsewhere, err := r.Allocate(Request{Stream: mine, Bytes: 1000})
					require.NoError(t, err)
					require.NoError(t, r.order(mine.native, theirs)) // the program's, for the target
					for range 3 {
						fillWithin(t, mine, handle, address, Write)
						fillWithin(t, other, handle, address, Read)
						lent, info, place, err := Lend(handle, native, access)
						require.NoError(t, err)
						require.Equal(t, address, info.Address)
						require.Equal(t, OnDevice, place)
						if access == Read {
							require.NoError(t, p.Copy(theirs, driver.Copy{To: elsewhere, From: address, Bytes: 1000}))
						} else {
							require.NoError(t, p.Fill(theirs, address, 2, 1000))
						}
						found, err := FindBlock(handle)
						require.NoError(t, err)
						require.EqualValues(t, 1, found.Uses)
						Return(lent)
						Return(lent)
						if access == ReadWrite {
							fillWithin(t, other, handle, address, Read)
						}
						fillWithin(t, other, handle, address, Write)
					}
					require.NoError(t, r.order(theirs, mine.native))
					for _, block := range []uint64{handle, target} {
						deferred, err := Free(block, nil)
						require.NoError(t, err)
						require.False(t, deferred)
					}
					d.Finish()
				})
			}
		}
	}
}

// A use of another stream may be open meanwhile; what comes behind the loan comes behind it, too.
func TestUsesMayMeetLentBlocks(t *testing.T) {
	p, r, d := newPeer(t, sim.Options{Scheduler: sim.Stepped}, Options{})
	mine, other := leased(t, r), leased(t, r)
	theirs := p.create(streamA)
	handle, address, err := r.Allocate(Request{Stream: mine, Bytes: 2000})
	require.NoError(t, err)
	lent, _, _, err := Lend(handle, streamA, ReadWrite)
	require.NoError(t, err)
	fillWithin(t, other, handle, address, Write) // the first half is the program's, the second the library's
	require.NoError(t, p.Fill(theirs, address+1000, 2, 1000))
	Return(lent)
	third := leased(t, r)
	use, _, err := BeginUse(third, Use{Block: handle, Access: Read})
	require.NoError(t, err)
	spare, err := r.AllocateHost(driver.Pinned, 2000)
	require.NoError(t, err)
	require.NoError(t, third.Copy(driver.Copy{To: spare, From: address, Bytes: 2000}))
	require.NoError(t, EndUse(use))
	_, err = Free(handle, nil)
	require.NoError(t, err)
	d.Finish()
	require.NoError(t, r.FreeHost(driver.Pinned, spare))
}

// The free waits until the last one has given the block back, and for what he has queued.
func TestAFreeWaitsForLentBlocks(t *testing.T) {
	for name, of := range memoryOf {
		t.Run(name, func(t *testing.T) {
			p, r, d := newPeer(t, sim.Options{Memory: 64 * mib, Scheduler: sim.Stepped}, of)
			mine, theirs := leased(t, r), p.create(streamA)
			handle, address, err := r.Allocate(Request{Stream: mine, Bytes: 3 * mib})
			require.NoError(t, err)
			first, _, _, err := Lend(handle, streamA, Read)
			require.NoError(t, err)
			second, _, _, err := Lend(handle, streamA, ReadWrite)
			require.NoError(t, err)
			deferred, err := Free(handle, nil)
			require.NoError(t, err)
			require.True(t, deferred)
			_, _, _, err = Lend(handle, streamA, Read)
			requireCode(t, status.StaleHandle, err)
			Return(first)
			require.NoError(t, p.Fill(theirs, address, 1, 3*mib))
			d.Finish()
			r.Reap()
			require.EqualValues(t, 3*mib, r.Usage().Pending)
			require.NoError(t, p.Fill(theirs, address, 2, 3*mib))
			Return(second)
			require.EqualValues(t, 3*mib, r.Usage().Pending)
			again, elsewhere, err := r.Allocate(Request{Stream: mine, Bytes: 3 * mib})
			require.NoError(t, err)
			require.NoError(t, mine.Fill(elsewhere, 3, 3*mib))
			_, err = Free(again, nil)
			require.NoError(t, err)
			d.Finish()
			r.Reap()
			require.Zero(t, r.Usage().Pending)
		})
	}
}

// A runtime that ends leaves the memory of blocks that others have, and goes with the last one.
func TestARuntimeEndsWhileABlockIsLent(t *testing.T) {
	for name, of := range memoryOf {
		for _, freed := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				p, r, _ := newPeer(t, sim.Options{Memory: 64 * mib, Latency: time.Millisecond}, of)
				mine, theirs := leased(t, r), p.create(streamA)
				handle, address, err := r.Allocate(Request{Stream: mine, Bytes: 1000})
				require.NoError(t, err)
				_, _, err = r.Allocate(Request{Stream: mine, Bytes: 5000})
				require.NoError(t, err)
				var lent [2]uint64
				for i := range lent {
					lent[i], _, _, err = Lend(handle, streamA, ReadWrite)
					require.NoError(t, err)
				}
				live := 2
				if freed {
					live--
					_, err = Free(handle, nil)
					require.NoError(t, err)
				}
				over := false
				leaks, err := r.CloseThen(func() { over = true })
				require.NoError(t, err)
				require.Len(t, leaks.Blocks, live)
				_, err = FindBlock(handle)
				requireCode(t, status.StaleHandle, err)
				require.EqualValues(t, 1000, r.Usage().Outstanding)
				for i := range lent {
					require.False(t, over)
					require.NoError(t, p.Fill(theirs, address, 4, 1000))
					Return(lent[i])
				}
				require.True(t, over)
				require.Zero(t, r.Usage().Outstanding)
				r.leaks = Leaks{}
				require.NoError(t, p.Synchronize())
			})
		}
	}
}

// Threads end what others have while the runtime ends.
func TestLentBlocksMeetTheEnd(t *testing.T) {
	for range 20 {
		p, r, _ := newPeer(t, sim.Options{Memory: 64 * mib}, Options{Pool: &pool.Options{}})
		mine := leased(t, r)
		p.create(streamA)
		var group sync.WaitGroup
		for range 4 {
			handle, _, err := r.Allocate(Request{Stream: mine, Bytes: 1000})
			require.NoError(t, err)
			lent, _, _, err := Lend(handle, streamA, ReadWrite)
			require.NoError(t, err)
			group.Go(func() {
				_, _ = Free(handle, nil)
				Return(lent)
			})
		}
		over := make(chan struct{})
		_, err := r.CloseThen(func() { close(over) })
		require.NoError(t, err)
		group.Wait()
		<-over
		require.Zero(t, r.Usage().Outstanding)
		r.leaks = Leaks{}
	}
}

func TestWhatCannotBeLent(t *testing.T) {
	p, r, _ := newPeer(t, sim.Options{Memory: 64 * mib}, Options{Pool: &pool.Options{}})
	mine := leased(t, r)
	p.create(streamA)
	tag, err := TagOf("weights")
	require.NoError(t, err)
	require.NoError(t, r.Partition(tag))
	handle, _, err := r.Allocate(Request{Stream: mine, Bytes: 1000, Tag: tag})
	require.NoError(t, err)
	_, _, _, err = Lend(handle, 0xC000, Read)
	requireCode(t, status.InvalidHandle, err)
	_, _, _, err = Lend(7, streamA, Read)
	requireCode(t, status.InvalidHandle, err)
	lent, _, _, err := Lend(handle, streamA, Read)
	require.NoError(t, err)
	requireCode(t, status.Busy, r.Sleep([]Tag{tag}, SleepOptions{Timeout: -1}))
	Return(lent)
	require.NoError(t, r.Sleep([]Tag{tag}, SleepOptions{Timeout: -1}))
	_, _, _, err = Lend(handle, streamA, Read)
	requireCode(t, status.InvalidState, err)
	_, err = Free(handle, nil)
	require.NoError(t, err)
	owned, _, err := r.Allocate(Request{Stream: mine, Bytes: 1000, Owned: true})
	require.NoError(t, err)
	_, _, _, err = Lend(owned, streamA, Read)
	requireCode(t, status.InvalidState, err)
	require.NoError(t, FreeOwned(owned))
}
