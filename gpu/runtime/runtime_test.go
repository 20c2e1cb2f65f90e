package runtime

import (
	"errors"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"libmmsb/core/abi"
	"libmmsb/core/status"
	"libmmsb/gpu/driver"
	"libmmsb/gpu/sim"
)

func TestBlocksComeAndGo(t *testing.T) {
	w := newWorld(t, sim.Options{Scheduler: sim.Stepped}, 1)
	handle, address, err := w.allocate(0, 1000)
	require.NoError(t, err)
	info, err := FindBlock(handle)
	require.NoError(t, err)
	require.Equal(t, BlockInfo{Handle: handle, Address: address, Bytes: 1000, Stream: w.streams[0]}, info)
	usage := w.runtime.Usage()
	require.Equal(t, []uint64{1000, 1000, 0, 1}, []uint64{usage.Outstanding, usage.Live, usage.Pending, usage.Blocks})

	deferred, err := freeBlock(handle, nil)
	require.NoError(t, err)
	require.False(t, deferred)
	w.runtime.Reap()
	usage = w.runtime.Usage()
	require.Equal(t, []uint64{1000, 0, 1000, 0}, []uint64{usage.Outstanding, usage.Live, usage.Pending, usage.Blocks},
		"the device has not come past the free")
	w.driver.Finish()
	w.runtime.Reap()
	require.Zero(t, w.runtime.Usage().Outstanding)

	_, err = freeBlock(handle, nil)
	requireCode(t, status.StaleHandle, err)
	_, err = FindBlock(handle)
	requireCode(t, status.StaleHandle, err)
	again, _, err := w.allocate(0, 1000)
	require.NoError(t, err)
	require.NotEqual(t, handle, again)
	_, err = FindBlock(handle)
	requireCode(t, status.StaleHandle, err)
	_, err = freeBlock(again, nil)
	require.NoError(t, err)
	w.driver.Finish()
}

func TestWhatIsNoBlock(t *testing.T) {
	w := newWorld(t, sim.Options{}, 1)
	handle, _, err := w.allocate(0, 1)
	require.NoError(t, err)
	for _, bad := range []uint64{0, 1, handle ^ 1<<62, handle + 1<<28, handle &^ (uint64(lastGeneration) << 28),
		abi.KindBlock<<60 | 1<<28 | indexMask, w.handles[0]} {
		_, err := freeBlock(bad, nil)
		requireCode(t, status.InvalidHandle, err)
		_, _, err = BeginUse(w.streams[0], Use{Block: bad, Access: Read})
		requireCode(t, status.InvalidHandle, err)
	}
	_, _, err = w.allocate(0, 0)
	requireCode(t, status.InvalidSize, err)
	_, _, err = BeginUse(w.streams[0], Use{Block: handle, Access: 0})
	requireCode(t, status.InvalidArgument, err)
	_, _, err = BeginUse(w.streams[0], Use{Block: handle, Access: 4})
	requireCode(t, status.InvalidArgument, err)
	for _, bad := range []uint64{0, handle, abi.KindUse << 60, abi.KindUse<<60 | 9<<28 | 1<<20} {
		requireCode(t, status.InvalidHandle, EndUse(bad))
		requireCode(t, status.InvalidHandle, AbortUse(bad))
	}
	_, err = freeBlock(handle, nil)
	require.NoError(t, err)
}

func TestStreamsAreLeased(t *testing.T) {
	d, err := sim.New(sim.Options{})
	require.NoError(t, err)
	defer d.Close()
	device, err := d.Open(0)
	require.NoError(t, err)
	r, err := New(device, Options{Streams: 2})
	require.NoError(t, err)
	first, err := r.AcquireStream(0)
	require.NoError(t, err)
	second, err := r.AcquireStream(-1)
	require.NoError(t, err)
	require.NotEqual(t, first, second)
	_, err = r.AcquireStream(0)
	requireCode(t, status.Limit, err)
	s, err := FindStream(first)
	require.NoError(t, err)
	require.NotZero(t, s.Native(), "never the default stream")
	require.NoError(t, ReleaseStream(first))
	_, err = FindStream(first)
	requireCode(t, status.StaleHandle, err)
	requireCode(t, status.StaleHandle, ReleaseStream(first))
	requireCode(t, status.InvalidHandle, ReleaseStream(7))
	again, err := r.AcquireStream(0)
	require.NoError(t, err)
	require.NotEqual(t, first, again)
	same, err := FindStream(again)
	require.NoError(t, err)
	require.Same(t, s, same, "a released stream serves again")
	leaks, err := r.Close()
	require.NoError(t, err)
	require.Equal(t, Leaks{Streams: 2}, leaks)
	_, err = FindStream(again)
	requireCode(t, status.StaleHandle, err)
	_, err = r.AcquireStream(0)
	requireCode(t, status.StaleHandle, err)
	require.NoError(t, d.Problems())
}

func TestAStreamOfTheCaller(t *testing.T) {
	w := newWorld(t, sim.Options{Scheduler: sim.Stepped}, 1)
	foreign, err := w.device.CreateStream(0)
	require.NoError(t, err)
	handle, err := w.runtime.WrapStream(uintptr(foreign))
	require.NoError(t, err)
	_, err = w.runtime.WrapStream(uintptr(foreign))
	requireCode(t, status.AlreadyExists, err)
	for _, leased := range []bool{true, false} { // the runtime's own ones
		own, err := w.runtime.AcquireStream(0)
		require.NoError(t, err)
		s, err := FindStream(own)
		require.NoError(t, err)
		if !leased {
			require.NoError(t, ReleaseStream(own))
		}
		_, err = w.runtime.WrapStream(uintptr(s.Native()))
		requireCode(t, status.AlreadyExists, err)
		if leased {
			require.NoError(t, ReleaseStream(own))
		}
	}
	s, err := FindStream(handle)
	require.NoError(t, err)
	block, address, err := w.runtime.Allocate(Request{Bytes: 512, Stream: s})
	require.NoError(t, err)
	use, _, err := BeginUse(s, Use{Block: block, Access: Write})
	require.NoError(t, err)
	require.NoError(t, w.device.Fill(s.Native(), address, 1, 512))
	require.NoError(t, EndUse(use))
	require.NoError(t, ReleaseStream(handle))
	require.NoError(t, w.device.DestroyStream(foreign)) // what is known of it stays
	require.NoError(t, w.use(0, block, address, 512, ReadWrite))
	_, err = freeBlock(block, nil) // on a stream of the runtime, as its own is gone
	require.NoError(t, err)
	w.driver.Finish()

	standard, err := w.runtime.WrapStream(0)
	require.NoError(t, err)
	s, err = FindStream(standard)
	require.NoError(t, err)
	block, _, err = w.runtime.Allocate(Request{Bytes: 512, Stream: s})
	require.NoError(t, err)
	_, err = freeBlock(block, nil)
	require.NoError(t, err)
	require.NoError(t, ReleaseStream(standard))
	w.driver.Finish()
}

func TestTwoRuntimesDoNotMix(t *testing.T) {
	one := newWorld(t, sim.Options{}, 1)
	other := newWorld(t, sim.Options{}, 1)
	block, _, err := one.allocate(0, 512)
	require.NoError(t, err)
	_, _, err = BeginUse(other.streams[0], Use{Block: block, Access: Read})
	requireCode(t, status.InvalidArgument, err)
	_, err = freeBlock(block, other.streams[0])
	requireCode(t, status.InvalidArgument, err)
	_, _, err = one.runtime.Allocate(Request{Bytes: 1, Stream: other.streams[0]})
	requireCode(t, status.InvalidArgument, err)
	_, err = freeBlock(block, nil)
	require.NoError(t, err)
}

func TestAFreeWaitsForOpenUses(t *testing.T) {
	w := newWorld(t, sim.Options{}, 2)
	block, address, err := w.allocate(0, 512)
	require.NoError(t, err)
	first, _, err := BeginUse(w.streams[0], Use{Block: block, Access: Read})
	require.NoError(t, err)
	second, _, err := BeginUse(w.streams[1], Use{Block: block, Access: Read})
	require.NoError(t, err)
	deferred, err := freeBlock(block, nil)
	require.NoError(t, err)
	require.True(t, deferred)
	_, err = freeBlock(block, nil)
	requireCode(t, status.StaleHandle, err)
	_, _, err = BeginUse(w.streams[0], Use{Block: block, Access: Read})
	requireCode(t, status.StaleHandle, err)
	require.NoError(t, w.work(0, address, 512, Read))
	require.NoError(t, EndUse(first))
	requireCode(t, status.StaleHandle, EndUse(first))
	require.NoError(t, w.device.Synchronize())
	w.runtime.Reap()
	usage := w.runtime.Usage()
	require.Equal(t, []uint64{512, 512, 0, 1}, []uint64{usage.Outstanding, usage.Pending, usage.Live, usage.DeferredFrees})
	require.NoError(t, w.work(1, address, 512, Read))
	require.NoError(t, AbortUse(second))
	require.NoError(t, w.device.Synchronize())
	w.runtime.Reap()
	require.Zero(t, w.runtime.Usage().Outstanding)
}

func TestConflictingUsesAreBusy(t *testing.T) {
	w := newWorld(t, sim.Options{}, 2)
	block, _, err := w.allocate(0, 512)
	require.NoError(t, err)
	other, _, err := w.allocate(0, 512)
	require.NoError(t, err)
	for _, c := range []struct {
		open, second Access
		same         bool
		want         status.Code
	}{
		{Read, Read, false, status.OK}, {Read, Write, false, status.Busy}, {Write, Read, false, status.Busy}, {Write, Write,
			false, status.Busy},
		{ReadWrite, Read, false, status.Busy}, {Read, ReadWrite, false, status.Busy}, {Write, Read, true, status.OK}, {Write,
			Write, true, status.OK},
	} {
		use, _, err := BeginUse(w.streams[0], Use{Block: block, Access: c.open})
		require.NoError(t, err)
		stream := w.streams[1]
		if c.same {
			stream = w.streams[0]
		}
		second, bad, err := BeginUse(stream, Use{Block: other, Access: ReadWrite}, Use{Block: block, Access: c.second})
		requireCode(t, c.want, err)
		if err == nil {
			require.NoError(t, EndUse(second))
		} else {
			require.Equal(t, 1, bad)
			require.Zero(t, second)
		}
		info, err := FindBlock(other)
		require.NoError(t, err)
		require.Zero(t, info.Uses, "all or none")
		require.NoError(t, EndUse(use))
	}
	for _, handle := range []uint64{block, other} {
		_, err := freeBlock(handle, nil)
		require.NoError(t, err)
	}
}

func TestRecordings(t *testing.T) {
	w := newWorld(t, sim.Options{}, 2)
	block, address, err := w.allocate(0, 512)
	require.NoError(t, err)
	s := w.streams[1]

	use, err := RecordUse(s, false)
	require.NoError(t, err)
	require.NoError(t, AddUse(use, Use{Block: block, Access: Read}))
	require.NoError(t, AddUse(use, Use{Block: block, Access: Write})) // both
	requireCode(t, status.InvalidState, EndUse(use))
	require.NoError(t, BeginRecorded(use))
	requireCode(t, status.InvalidState, BeginRecorded(use))
	requireCode(t, status.InvalidState, AddUse(use, Use{Block: block, Access: Read}))
	_, _, err = BeginUse(w.streams[0], Use{Block: block, Access: Read})
	requireCode(t, status.Busy, err)
	require.NoError(t, w.work(1, address, 512, ReadWrite))
	require.NoError(t, EndUse(use))
	requireCode(t, status.StaleHandle, BeginRecorded(use))

	strict, err := RecordUse(s, false)
	require.NoError(t, err)
	require.NoError(t, AddUse(strict, Use{Block: 0, Access: Read}))
	requireCode(t, status.InvalidArgument, BeginRecorded(strict))
	require.NoError(t, AbortUse(strict))
	permissive, err := RecordUse(s, true)
	require.NoError(t, err)
	require.NoError(t, AddUse(permissive, Use{Block: 0, Access: Read}))
	require.NoError(t, BeginRecorded(permissive))
	require.NoError(t, EndUse(permissive))

	late, err := RecordUse(s, false)
	require.NoError(t, err)
	require.NoError(t, AddUse(late, Use{Block: block, Access: Write}))
	open, _, err := BeginUse(w.streams[0], Use{Block: block, Access: Read})
	require.NoError(t, err)
	requireCode(t, status.Busy, BeginRecorded(late)) // and it can be tried again
	require.NoError(t, EndUse(open))
	require.NoError(t, BeginRecorded(late))
	require.NoError(t, AbortUse(late))
	_, err = freeBlock(block, nil)
	require.NoError(t, err)
}

func TestWorkOnOneStreamCostsNoEvent(t *testing.T) {
	w := newWorld(t, sim.Options{}, 2)
	block, address, err := w.allocate(0, 512)
	require.NoError(t, err)
	for range 100 {
		require.NoError(t, w.use(0, block, address, 512, ReadWrite))
	}
	require.Zero(t, w.runtime.Usage().EventsMade)
	require.NoError(t, w.use(1, block, address, 512, Read))
	for range 100 {
		require.NoError(t, w.use(1, block, address, 512, Read))
	}
	usage := w.runtime.Usage()
	require.EqualValues(t, 1, usage.EventsMade, "one event covers all that came before")
	require.EqualValues(t, 1, usage.Waits)
	_, err = freeBlock(block, nil)
	require.NoError(t, err)
}

// Whatever call of the driver fails: the runtime's counts are right, and what was left can be given back.
func TestEachFailingCallLeavesTheBooksRight(t *testing.T) {
	for _, call := range []sim.Call{sim.AllocateOrdered, sim.FreeOrdered, sim.CreateEvent, sim.RecordEvent, sim.Wait,
		sim.QueryEvent, sim.CreateStream} {
		failed := 0
		for after := range 12 {
			d, err := sim.New(sim.Options{})
			require.NoError(t, err)
			budget := NewBudget(NewLedger(1 << 20))
			w, err := newWorldOn(d, 2, budget)
			require.NoError(t, err)
			require.NoError(t, d.Inject(sim.Fault{Call: call, After: after}))
			live := map[uint64]driver.Address{}
			note := func(err error) bool {
				if err != nil {
					require.Contains(t, []status.Code{status.Device, status.OutOfMemory}, status.CodeOf(err), "%v", err)
					failed++
				}
				return err == nil
			}
			for i := range 10 {
				handle, address, err := w.allocate(i%2, 512)
				if !note(err) {
					continue
				}
				live[handle] = address
				note(w.use(i%2, handle, address, 512, Write))
				note(w.use(1-i%2, handle, address, 512, Read))
				if i%3 == 2 {
					if _, err := freeBlock(handle, w.streams[1-i%2]); note(err) {
						delete(live, handle)
					}
				}
				stream, err := w.runtime.AcquireStream(0)
				if note(err) {
					require.NoError(t, ReleaseStream(stream))
				}
				w.runtime.Reap()
			}
			require.EqualValues(t, 512*len(live), w.runtime.Usage().Live)
			for handle := range live {
				_, err := freeBlock(handle, nil)
				if err != nil { // the handle is good for another try
					note(err)
					_, err = freeBlock(handle, nil)
				}
				require.NoError(t, err)
			}
			require.NoError(t, w.end())
			require.Zero(t, budget.State().Charged)
			require.NoError(t, d.Problems())
			d.Close()
		}
		switch call {
		case sim.QueryEvent, sim.CreateEvent, sim.RecordEvent: // asked again later; without an event the host waits this once
		default:
			require.Positive(t, failed, "%v", call)
		}
	}
}

func TestALostDeviceLeavesTheBooksRight(t *testing.T) {
	for after := range 25 {
		d, err := sim.New(sim.Options{})
		require.NoError(t, err)
		budget := NewBudget(NewLedger(1 << 20))
		w, err := newWorldOn(d, 2, budget)
		require.NoError(t, err)
		require.NoError(t, d.Inject(sim.Fault{Call: sim.Fill, After: after, Effect: sim.Lose}))
		var handles []uint64
		lost := false
		for i := range 30 {
			handle, address, err := w.allocate(i%2, 512)
			if err == nil {
				handles = append(handles, handle)
				err = w.use(1-i%2, handle, address, 512, Write)
			}
			if err != nil {
				requireCode(t, status.DeviceLost, err)
				lost = true
			}
		}
		require.True(t, lost)
		for _, handle := range handles {
			_, err := freeBlock(handle, nil)
			require.NoError(t, err, "with the device its memory is gone")
		}
		leaks, _ := w.runtime.Close()
		require.Empty(t, leaks.Blocks)
		require.Zero(t, w.runtime.Usage().Outstanding)
		require.Zero(t, budget.State().Charged)
		d.Close()
	}
}

func TestTheRuntimeOfADeviceIsBuiltOnce(t *testing.T) {
	d, err := sim.New(sim.Options{})
	require.NoError(t, err)
	built := 0
	build := func(device driver.Device) (*Runtime, error) {
		if built++; built == 1 {
			return nil, errors.New("not yet")
		}
		return New(device, Options{})
	}
	_, err = For(d, 0, build)
	require.Error(t, err)
	_, err = For(d, 1, build)
	requireCode(t, status.NoDevice, err)
	_, err = For(d, -1, build)
	requireCode(t, status.NoDevice, err)
	var wait sync.WaitGroup
	got := make([]*Runtime, 16)
	for i := range got {
		wait.Add(1)
		go func() {
			defer wait.Done()
			got[i], _ = For(d, 0, build)
		}()
	}
	wait.Wait()
	require.Equal(t, 2, built, "a failed try is repeated, a good one is not")
	for _, r := range got {
		require.Same(t, got[0], r)
	}
}

func TestWhatWasLeftIsReported(t *testing.T) {
	d, err := sim.New(sim.Options{})
	require.NoError(t, err)
	defer d.Close()
	w, err := newWorldOn(d, 1)
	require.NoError(t, err)
	tag, err := TagOf("left behind")
	require.NoError(t, err)
	block, _, err := w.runtime.Allocate(Request{Bytes: 100, Stream: w.streams[0], Tag: tag})
	require.NoError(t, err)
	use, _, err := BeginUse(w.streams[0], Use{Block: block, Access: Read})
	require.NoError(t, err)
	leaks, err := w.runtime.Close()
	require.NoError(t, err)
	require.Equal(t, 1, leaks.Uses)
	require.Len(t, leaks.Blocks, 1)
	require.Equal(t, "left behind", leaks.Blocks[0].Tag.String())
	requireCode(t, status.StaleHandle, EndUse(use))
	_, err = freeBlock(block, nil)
	requireCode(t, status.StaleHandle, err)
	require.Zero(t, w.runtime.Usage().Outstanding)
}
