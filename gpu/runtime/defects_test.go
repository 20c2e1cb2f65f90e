package runtime

import (
	"testing"

	"github.com/stretchr/testify/require"

	"libmmsb/core/pool"
	"libmmsb/gpu/driver"
	"libmmsb/gpu/sim"
)

// What other allocators got wrong; docs/devices.md has the list.

// watched is a device that counts fills, and waits in Unmap.
type watched struct {
	driver.Device
	fills       int
	begun, goOn chan struct{} // nil: it does not wait
}

func (d *watched) Fill(stream driver.Stream, address driver.Address, value byte, bytes uint64) error {
	d.fills++
	return d.Device.Fill(stream, address, value, bytes)
}

func (d *watched) Unmap(address driver.Address) error {
	if d.begun != nil {
		d.begun <- struct{}{}
		<-d.goOn
	}
	return d.Device.Unmap(address)
}

// watch is a runtime with a pool over such a device, and two streams.
func watch(t *testing.T) (*watched, *Runtime, [2]*Stream) {
	d, err := sim.New(sim.Options{Memory: 64 * mib})
	require.NoError(t, err)
	t.Cleanup(d.Close)
	device, err := d.Open(0)
	require.NoError(t, err)
	w := &watched{Device: device}
	r, err := New(w, Options{Pool: &pool.Options{}})
	require.NoError(t, err)
	var streams [2]*Stream
	for i := range streams {
		handle, err := r.AcquireStream(0)
		require.NoError(t, err)
		streams[i], err = FindStream(handle)
		require.NoError(t, err)
	}
	return w, r, streams
}

func TestBlocksAreNotFilled(t *testing.T) {
	w, r, streams := watch(t)
	for range 100 {
		handle, _, err := r.Allocate(Request{Bytes: 1000, Stream: streams[0]})
		require.NoError(t, err)
		free(t, handle)
	}
	_, err := r.Close()
	require.NoError(t, err)
	require.Zero(t, w.fills)
}

func TestNobodyWaitsForTheDriverWhoDoesNotNeedIt(t *testing.T) {
	w, r, streams := watch(t)
	large, _, err := r.Allocate(Request{Bytes: 10 * mib, Stream: streams[0]})
	require.NoError(t, err)
	free(t, large)
	small, _, err := r.Allocate(Request{Bytes: 1000, Stream: streams[0]})
	require.NoError(t, err)
	free(t, small)
	small, _, err = r.Allocate(Request{Bytes: 1000, Stream: streams[0]}) // of a segment that stays
	require.NoError(t, err)
	require.NoError(t, w.Synchronize())
	w.begun, w.goOn = make(chan struct{}), make(chan struct{})
	trimmed := make(chan error)
	go func() { trimmed <- r.Trim(20 * mib) }()
	<-w.begun
	for i := range 100 {
		_, err = Free(small, streams[i%2])
		require.NoError(t, err)
		small, _, err = r.Allocate(Request{Bytes: 1000, Stream: streams[i%2]})
		require.NoError(t, err)
	}
	w.goOn <- struct{}{}
	require.NoError(t, <-trimmed)
	w.begun = nil
	_, err = r.Close()
	require.NoError(t, err)
}

// A driver gives the handle of a stream that ended to another one: what the first one has freed is not free on the second.
func TestAStreamWithTheSameHandleIsAnotherOne(t *testing.T) {
	w := newPooled(t, sim.Options{Memory: 64 * mib, Scheduler: sim.Stepped}, 1, pool.Options{})
	native, err := w.device.CreateStream(0)
	require.NoError(t, err)
	wrap := func() (*Stream, uint64) {
		handle, err := w.runtime.WrapStream(uintptr(native))
		require.NoError(t, err)
		s, err := FindStream(handle)
		require.NoError(t, err)
		return s, handle
	}
	s, handle := wrap()
	block, address, err := w.runtime.Allocate(Request{Bytes: 3 * mib, Stream: s})
	require.NoError(t, err)
	require.NoError(t, w.device.Fill(s.Native(), address, 1, 3*mib))
	free(t, block)
	require.NoError(t, ReleaseStream(handle))
	again, handle := wrap()
	require.NotEqual(t, s.Index(), again.Index())
	other, elsewhere, err := w.runtime.Allocate(Request{Bytes: 3 * mib, Stream: again})
	require.NoError(t, err)
	require.NotEqual(t, address, elsewhere)
	free(t, other)
	w.driver.Finish()
	require.NoError(t, ReleaseStream(handle))
	require.NoError(t, w.device.DestroyStream(native))
}
