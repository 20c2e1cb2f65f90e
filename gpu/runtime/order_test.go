package runtime

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"libmmsb/core/region"
	"libmmsb/core/status"
	"libmmsb/gpu/driver"
	"libmmsb/gpu/sim"
)

// endOf frees blocks and lets a stepped device come to its end.
func (w *world) endOf(t *testing.T, handles ...uint64) {
	t.Helper()
	for _, handle := range handles {
		_, err := freeBlock(handle, nil)
		require.NoError(t, err)
	}
	w.driver.Finish()
	w.runtime.Reap()
	require.Zero(t, w.runtime.Usage().Outstanding)
}

// waits is how often a step made a stream wait for another.
func (w *world) waits(t *testing.T, step func() error) uint64 {
	t.Helper()
	before := w.runtime.Usage().Waits
	require.NoError(t, step())
	return w.runtime.Usage().Waits - before
}

// The hazard table, entry by entry: a use, or the free, waits for the use before it where that is another stream's and one of the
// two writes.
func TestWhatEachAccessWaitsFor(t *testing.T) {
	const free = Access(0)
	for _, before := range []Access{Read, Write, ReadWrite} {
		for _, now := range []Access{Read, Write, ReadWrite, free} {
			for stream := range 2 {
				t.Run(fmt.Sprintf("%d on stream 0, then %d on stream %d", before, now, stream), func(t *testing.T) {
					w := newWorld(t, sim.Options{Scheduler: sim.Stepped}, 2)
					block, address, err := w.allocate(0, 512)
					require.NoError(t, err)
					if stream == 1 {
						waits := w.waits(t, func() error { return w.use(1, block, address, 512, Read) })
						require.EqualValues(t, 1, waits, "the allocation is a write")
					}
					require.NoError(t, w.use(0, block, address, 512, before))
					want := uint64(stream)
					if before == Read && now == Read {
						want = 0
					}
					require.Equal(t, want, w.waits(t, func() error {
						if now == free {
							_, err := freeBlock(block, w.streams[stream])
							return err
						}
						return w.use(stream, block, address, 512, now)
					}))
					if now == free {
						w.endOf(t)
					} else {
						w.endOf(t, block)
					}
				})
			}
		}
	}
}

func TestAWriterWaitsForEveryReader(t *testing.T) {
	const readers = 4
	w := newWorld(t, sim.Options{Scheduler: sim.Stepped}, readers+2)
	block, address, err := w.allocate(0, 512)
	require.NoError(t, err)
	for reader := 1; reader <= readers; reader++ {
		for range 3 { // a stream's reads count as one
			require.NoError(t, w.use(reader, block, address, 512, Read))
		}
	}
	require.EqualValues(t, readers, w.runtime.Usage().Waits, "each reader for the allocation, none for another reader")
	writer := readers + 1
	require.EqualValues(t, 1+readers, w.waits(t, func() error { return w.use(writer, block, address, 512, Write) }))
	again := w.waits(t, func() error { return w.use(1, block, address, 512, Write) })
	require.EqualValues(t, 1, again, "who waits for the writer waits for its readers")
	w.endOf(t, block)
}

// What was queued by a use that is aborted may run all the same.
func TestAnAbortedUseIsWaitedFor(t *testing.T) {
	w := newWorld(t, sim.Options{Scheduler: sim.Stepped}, 2)
	block, address, err := w.allocate(0, 512)
	require.NoError(t, err)
	use, _, err := BeginUse(w.streams[0], Use{Block: block, Access: Write})
	require.NoError(t, err)
	require.NoError(t, w.work(0, address, 512, Write))
	require.NoError(t, AbortUse(use))
	require.EqualValues(t, 1, w.waits(t, func() error { return w.use(1, block, address, 512, Read) }))
	w.endOf(t, block)
}

// usedAgain frees a block of stream 0 while work of stream 1 on it is still queued, and takes its memory again. Where the work
// was announced, the memory's new user comes behind it.
func usedAgain(w *world, announced bool) (first, second uint64, same bool, err error) {
	first, address, err := w.allocate(0, 512)
	if err != nil {
		return 0, 0, false, err
	}
	if announced {
		err = w.use(1, first, address, 512, Write)
	} else {
		err = w.work(1, address, 512, Write)
	}
	if err != nil {
		return 0, 0, false, err
	}
	if _, err := freeBlock(first, nil); err != nil {
		return 0, 0, false, err
	}
	second, again, err := w.allocate(0, 512)
	if err != nil {
		return 0, 0, false, err
	}
	return first, second, again == address, w.use(0, second, again, 512, Write)
}

func TestMemoryIsUsedAgainBehindWorkThatIsStillQueued(t *testing.T) {
	w := newWorld(t, sim.Options{Scheduler: sim.Stepped}, 2)
	first, second, same, err := usedAgain(w, true)
	require.NoError(t, err)
	require.True(t, same, "else this test shows nothing")
	require.NotEqual(t, first, second, "one address, two blocks")
	_, _, err = BeginUse(w.streams[1], Use{Block: first, Access: Write})
	requireCode(t, status.StaleHandle, err)
	_, err = freeBlock(first, nil)
	requireCode(t, status.StaleHandle, err)
	info, err := FindBlock(second)
	require.NoError(t, err)
	require.Zero(t, info.Uses)
	w.endOf(t, second)
}

// Work that nobody announced is not in order: that the test above can fail.
func TestUnannouncedWorkIsFound(t *testing.T) {
	d, err := sim.New(sim.Options{Scheduler: sim.Stepped})
	require.NoError(t, err)
	defer d.Close()
	w, err := newWorldOn(d, 2)
	require.NoError(t, err)
	_, second, same, err := usedAgain(w, false)
	require.NoError(t, err)
	require.True(t, same)
	found, _ := d.Violations()
	require.NotEmpty(t, found)
	w.endOf(t, second)
	require.NoError(t, w.end())
}

// A stream's own order is enough where memory is freed and taken again on it: the host waits for nothing in between.
func TestOneStreamTakesItsMemoryAgain(t *testing.T) {
	const rounds = 50
	w := newWorld(t, sim.Options{Scheduler: sim.Stepped}, 1)
	stream := w.streams[0]
	pinned, err := w.device.Allocate(driver.Pinned, rounds)
	require.NoError(t, err)
	addresses := make(map[driver.Address]bool)
	for round := range rounds {
		block, address, err := w.allocate(0, 512)
		require.NoError(t, err)
		addresses[address] = true
		use, _, err := BeginUse(stream, Use{Block: block, Access: ReadWrite})
		require.NoError(t, err)
		require.NoError(t, w.device.Fill(stream.native, address, byte(round), 512))
		result := driver.Copy{To: pinned + driver.Address(round), From: address + 511, Bytes: 1}
		require.NoError(t, w.device.Copy(stream.native, result))
		require.NoError(t, EndUse(use))
		_, err = freeBlock(block, nil)
		require.NoError(t, err)
	}
	require.Less(t, len(addresses), rounds, "else this test shows nothing")
	w.endOf(t)
	for round, got := range region.BytesAt(uintptr(pinned), rounds) {
		require.EqualValues(t, round, got)
	}
	require.NoError(t, w.device.Free(driver.Pinned, pinned))
}

// A stream that cannot be asked keeps its own bytes, and no others; the next reap asks it again.
func TestAReapAsksEveryStream(t *testing.T) {
	w := newWorld(t, sim.Options{Scheduler: sim.Stepped}, 2)
	for stream, bytes := range []uint64{512, 1024} {
		block, _, err := w.allocate(stream, bytes)
		require.NoError(t, err)
		_, err = freeBlock(block, nil)
		require.NoError(t, err)
	}
	w.driver.Finish()
	require.NoError(t, w.driver.Inject(sim.Fault{Call: sim.QueryEvent}))
	w.runtime.Reap()
	usage := w.runtime.Usage()
	require.Equal(t, []uint64{512, 512}, []uint64{usage.Pending, usage.Outstanding})
	w.runtime.Reap()
	require.Zero(t, w.runtime.Usage().Outstanding)
	w.runtime.Reap() // of nothing
}

// A runtime that is composed for itself is not the one that everybody shares, but may charge the same ledger.
func TestRuntimesShareALedger(t *testing.T) {
	ledger := NewLedger(1000)
	one := newWorld(t, sim.Options{}, 1, NewBudget(ledger))
	other := newWorld(t, sim.Options{}, 1, NewBudget(ledger))
	everybodys, err := For(one.driver, 0, func(device driver.Device) (*Runtime, error) { return New(device, Options{}) })
	require.NoError(t, err)
	defer Leave(one.driver)
	require.NotSame(t, one.runtime, everybodys)
	_, err = everybodys.Close()
	require.NoError(t, err)

	block, _, err := one.allocate(0, 600)
	require.NoError(t, err)
	_, _, err = other.allocate(0, 401)
	requireCode(t, status.Limit, err)
	within, _, err := other.allocate(0, 400)
	require.NoError(t, err)
	require.EqualValues(t, 1000, ledger.Charged())
	for _, handle := range []uint64{block, within} {
		_, err := freeBlock(handle, nil)
		require.NoError(t, err)
	}
	one.runtime.Reap()
	other.runtime.Reap()
	require.Zero(t, ledger.Charged())
}
