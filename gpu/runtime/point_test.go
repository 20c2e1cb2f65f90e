package runtime

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"libmmsb/core/status"
	"libmmsb/core/ticket"
	"libmmsb/gpu/sim"
)

// A point is what core/ticket makes a ticket of.
var _ ticket.Source = (*Point)(nil)

// slow lets operations end while the program goes on.
var slow = sim.Options{Latency: 20 * time.Millisecond}

// still is a world whose device does nothing until it is told to: what a test sees undone is undone however late it looks.
func still(t *testing.T) *world {
	w := newWorld(t, sim.Options{Scheduler: sim.Stepped}, 1)
	t.Cleanup(w.driver.Finish) // before the world's end
	return w
}

// goOn lets the device do what is queued while wait waits for it.
func (w *world) goOn(wait func()) {
	finished := make(chan struct{})
	go func() {
		w.driver.Finish()
		close(finished)
	}()
	wait()
	<-finished
}

// fill queues work that the runtime was not told of.
func (w *world) fill(t *testing.T, stream int) {
	require.NoError(t, w.device.Fill(w.streams[stream].native, w.scratch[stream], 1, scratchBytes))
}

func TestAPointIsBehindWhatTheProgramQueuedByItself(t *testing.T) {
	w := still(t)
	s := w.streams[0]
	early, err := s.Record()
	require.NoError(t, err)
	w.fill(t, 0)
	late, err := s.Record()
	require.NoError(t, err)
	past, err := late.Poll()
	require.False(t, past)
	require.NoError(t, err)
	w.goOn(func() { require.NoError(t, late.Wait()) })
	for _, p := range []*Point{early, late} {
		past, err = p.Poll()
		require.True(t, past)
		require.NoError(t, err)
		p.Close()
		require.NoError(t, p.Wait(), "closing changes nothing of what is settled")
	}
}

func TestAClosedPointSaysSo(t *testing.T) {
	w := still(t)
	w.fill(t, 0)
	p, err := w.streams[0].Record()
	require.NoError(t, err)
	p.Close()
	past, err := p.Poll()
	require.True(t, past)
	requireCode(t, status.StaleHandle, err)
	requireCode(t, status.StaleHandle, p.Wait())
	requireCode(t, status.StaleHandle, w.streams[0].WaitFor(p))
}

func TestStreamsWaitForPoints(t *testing.T) {
	d, err := sim.New(sim.Options{Devices: 2})
	require.NoError(t, err)
	defer d.Close()
	first, err := newWorldOn(d, 2)
	require.NoError(t, err)
	device, err := d.Open(1)
	require.NoError(t, err)
	second, err := New(device, Options{})
	require.NoError(t, err)
	handle, err := second.AcquireStream(0)
	require.NoError(t, err)
	far, err := FindStream(handle)
	require.NoError(t, err)

	// The simulated devices report what is not ordered: all of them write the same bytes.
	write := func(s *Stream) {
		require.NoError(t, s.runtime.device.Fill(s.native, first.scratch[0], 1, scratchBytes))
	}
	for _, s := range []*Stream{first.streams[0], first.streams[1], far} {
		write(s)
		p, err := s.Record()
		require.NoError(t, err)
		for _, other := range []*Stream{first.streams[0], first.streams[1], far} {
			require.NoError(t, other.WaitFor(p))
		}
		p.Close()
	}
	stranger := still(t)
	stranger.fill(t, 0)
	p, err := stranger.streams[0].Record()
	require.NoError(t, err)
	requireCode(t, status.InvalidArgument, far.WaitFor(p))
	p.Close()
	_, err = second.Close()
	require.NoError(t, err)
	require.NoError(t, first.end())
	require.NoError(t, d.Problems())
}

func TestPointsAreSettledByTheEndOfTheirRuntime(t *testing.T) {
	w := newWorld(t, slow, 1)
	w.fill(t, 0)
	p, err := w.streams[0].Record()
	require.NoError(t, err)
	waited := make(chan error)
	go func() { waited <- p.Wait() }()
	require.NoError(t, w.end())
	require.NoError(t, <-waited)
	past, err := p.Poll()
	require.True(t, past)
	require.NoError(t, err)
	_, err = w.streams[0].Record()
	requireCode(t, status.StaleHandle, err)
}

func TestALostDeviceSettlesPoints(t *testing.T) {
	d, err := sim.New(slow)
	require.NoError(t, err)
	defer d.Close()
	w, err := newWorldOn(d, 1)
	require.NoError(t, err)
	w.fill(t, 0)
	p, err := w.streams[0].Record()
	require.NoError(t, err)
	require.NoError(t, d.Inject(sim.Fault{Call: sim.QueryEvent, Effect: sim.Lose}))
	past, err := p.Poll()
	require.True(t, past)
	requireCode(t, status.DeviceLost, err)
	require.True(t, w.runtime.Lost())
	_, err = w.runtime.Close()
	requireCode(t, status.DeviceLost, err)
}

func TestWaitingForAStream(t *testing.T) {
	w := still(t)
	s := w.streams[0]
	require.NoError(t, s.SynchronizeWithin(time.Minute))
	w.fill(t, 0)
	requireCode(t, status.WouldBlock, s.SynchronizeWithin(0))
	requireCode(t, status.Timeout, s.SynchronizeWithin(time.Millisecond))
	w.goOn(func() { require.NoError(t, s.SynchronizeWithin(time.Minute)) })
	require.NoError(t, s.SynchronizeWithin(0))
}
