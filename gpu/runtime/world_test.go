package runtime

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"libmmsb/core/status"
	"libmmsb/gpu/blocks"
	"libmmsb/gpu/driver"
	"libmmsb/gpu/sim"
)

// world is a runtime over a simulated device, with streams, and memory of each stream's own that work reads into.
type world struct {
	driver  *sim.Driver
	device  driver.Device
	runtime *Runtime
	streams []*Stream
	handles []uint64
	scratch []driver.Address
}

const scratchBytes = 256

func newWorldOn(d *sim.Driver, streams int, adaptors ...Adaptor) (*world, error) {
	return newWorldOf(d, streams, Options{Adaptors: adaptors})
}

func newWorldOf(d *sim.Driver, streams int, of Options) (*world, error) {
	device, err := d.Open(0)
	if err != nil {
		return nil, err
	}
	return newWorldOver(d, device, streams, of)
}

// newWorldOver has a device of its own making over the driver's.
func newWorldOver(d *sim.Driver, device driver.Device, streams int, of Options) (*world, error) {
	w := &world{driver: d, device: device}
	var err error
	if w.runtime, err = New(device, of); err != nil {
		return nil, err
	}
	for range streams {
		handle, err := w.runtime.AcquireStream(0)
		if err != nil {
			return nil, err
		}
		stream, err := FindStream(handle)
		if err != nil {
			return nil, err
		}
		scratch, err := device.Allocate(driver.Plain, scratchBytes)
		if err != nil {
			return nil, err
		}
		w.streams, w.handles, w.scratch = append(w.streams, stream), append(w.handles, handle), append(w.scratch, scratch)
	}
	return w, nil
}

// newWorld is ended by the test, which fails where anything was not in order or not given back.
func newWorld(t testing.TB, options sim.Options, streams int, adaptors ...Adaptor) *world {
	return newWorldWith(t, options, streams, Options{Adaptors: adaptors})
}

func newWorldWith(t testing.TB, options sim.Options, streams int, of Options) *world {
	d, err := sim.New(options)
	require.NoError(t, err)
	w, err := newWorldOf(d, streams, of)
	require.NoError(t, err)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("seed: %d", d.Seed())
			d.Close()
			return
		}
		require.NoError(t, w.end())
		require.NoError(t, d.Problems())
		d.Close()
		allBlocks.forget()
	})
	return w
}

// forget lets the last slots go where they are free. Each end of a runtime walks all that were ever used: behind a test of many
// blocks, thousands of programs would walk thousands of free slots.
func (t *blockTable) forget() {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	slices.Sort(t.free)
	for last := len(t.free) - 1; last >= 0 && t.free[last] == t.made; last-- {
		t.free, t.made = t.free[:last], t.made-1
	}
}

// end closes the runtime, and says what is not as it should be.
func (w *world) end() error {
	leaks, err := w.runtime.Close()
	if err != nil {
		return err
	}
	for _, scratch := range w.scratch {
		if err := w.device.Free(driver.Plain, scratch); err != nil {
			return err
		}
	}
	w.scratch = nil
	if usage := w.runtime.Usage(); usage.Outstanding != 0 || usage.Live != 0 || usage.EventsMade != usage.EventsEnded {
		return fmt.Errorf("after the end: %+v", usage)
	}
	if len(leaks.Blocks) > 0 || leaks.Uses > 0 {
		return fmt.Errorf("left: %d blocks, %d uses", len(leaks.Blocks), leaks.Uses)
	}
	return nil
}

// allocate and free do what programs in C do: first without Go.
func (w *world) allocate(stream int, bytes uint64) (handle uint64, address driver.Address, err error) {
	if handle, at, ok := blocks.Hit(w.streams[stream].Handle(), bytes, 0); ok {
		return handle, driver.Address(at), nil
	}
	return w.runtime.Allocate(Request{Bytes: bytes, Stream: w.streams[stream]})
}

func freeBlock(handle uint64, on *Stream) (deferred bool, err error) {
	if on == nil && blocks.Cache(handle, 0) {
		return false, nil
	}
	return Free(handle, on)
}

// work queues work on a stream that reads or writes bytes at an address.
func (w *world) work(stream int, address driver.Address, bytes uint64, access Access) error {
	native := w.streams[stream].native
	if access&Read != 0 {
		if err := w.device.Copy(native, driver.Copy{To: w.scratch[stream], From: address,
			Bytes: min(bytes, scratchBytes)}); err != nil {
			return err
		}
	}
	if access&Write != 0 {
		return w.device.Fill(native, address, byte(stream+1), bytes)
	}
	return nil
}

// use begins a use, queues its work, and ends it.
func (w *world) use(stream int, handle uint64, address driver.Address, bytes uint64, access Access) error {
	use, _, err := BeginUse(w.streams[stream], Use{Block: handle, Access: access})
	if err != nil {
		return err
	}
	if err := w.work(stream, address, bytes, access); err != nil {
		return err
	}
	return EndUse(use)
}

// fewer is how often a test with one thread does something: seldom under the race detector, which has nothing to see there.
func fewer(times uint64) uint64 {
	if raceDetector {
		return times / 5
	}
	return times
}

func requireCode(t testing.TB, want status.Code, err error) {
	t.Helper()
	require.Equal(t, want, status.CodeOf(err), "%v", err)
}

// nobody is the host of an adaptor that stands alone.
type nobody struct{}

func (nobody) Reap()                 {}
func (nobody) Device() driver.Device { return nil }
func (nobody) Lost() bool            { return false }

func (nobody) Settle(_ *Stream, try func() error) error { return try() }
