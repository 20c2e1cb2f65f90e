// Captures: streams that record work for a graph, and the memory of what is allocated in them.

package runtime

import (
	gort "runtime"
	"slices"
	"sync"

	"libmmsb/core/abi"
	"libmmsb/core/handle"
	"libmmsb/core/status"
)

// Capture is the time in which streams record work instead of doing it, and a partition of the pool. Blocks that its streams
// allocate in this time come from there, and what is freed of them is given out again only there, until the capture is destroyed:
// the work may run at any time until then, and uses their addresses. It can be resumed: then several graphs share the memory.
// Only the program captures: the driver is told nothing.
//
// While a stream captures it has no points that anybody could wait for, and an event that is recorded on it must not be queried:
// that would break the capture. So its frees are not reaped, and work outside of the capture cannot be ordered behind it.
type Capture struct {
	runtime   *Runtime
	partition int
	handle    uint64

	mutex     sync.Mutex
	streams   []*Stream // none once it has ended
	destroyed bool
}

// captured is a stream's part of a capture.
type captured struct {
	of       *Capture
	recorded *recordedEvent // behind everything before
}

// captures finds every capture of the process that was not destroyed.
var captures = handle.New[*Capture](abi.KindCapture)

// LiveCaptures is how many there are.
func LiveCaptures() uint64 { return captures.Live() }

// FindCapture is the capture of a handle. Errors: InvalidHandle, StaleHandle.
func FindCapture(h uint64) (*Capture, error) { return captures.Get(h) }

// BeginCapture begins a capture on streams of one runtime, and is its handle. It comes before the driver's capture begins. The
// streams wait for everything that is queued on the runtime's others, so that nothing within the capture has to. Errors:
// InvalidArgument (no stream, one twice, other runtimes), InvalidState (a stream captures), Unsupported (no pool), Limit (32
// partitions), those of the driver.
func BeginCapture(streams ...*Stream) (h uint64, err error) {
	if len(streams) == 0 {
		return 0, noStreams()
	}
	r := streams[0].runtime
	if err := r.enter(); err != nil {
		return 0, err
	}
	defer r.leave()
	p, err := r.pooled()
	if err != nil {
		return 0, err
	}
	c := &Capture{runtime: r}
	if c.partition, err = p.open("capture", true); err != nil {
		return 0, r.noteLost(err)
	}
	if err = c.begin(streams); err == nil {
		if c.handle, err = captures.Put(c); err == nil {
			return c.handle, nil
		}
		c.end()
	}
	p.books.End(c.partition)
	return 0, err
}

// ResumeCapture begins another capture with the memory of one that has ended: for graphs of which no two run at a time. Errors:
// InvalidHandle, StaleHandle, InvalidState (it has not ended), and those of BeginCapture.
func ResumeCapture(h uint64, streams ...*Stream) error {
	c, err := captures.Get(h)
	if err != nil {
		return err
	}
	if err := c.runtime.enter(); err != nil {
		return err
	}
	defer c.runtime.leave()
	return c.begin(streams)
}

func noStreams() error {
	return status.Errorf(status.InvalidArgument, "streams are 0, at least 1 is needed")
}

// begin begins the capture of streams; of none where one cannot.
func (c *Capture) begin(streams []*Stream) (err error) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	switch {
	case len(streams) == 0:
		return noStreams()
	case c.destroyed:
		return status.Errorf(status.StaleHandle, "capture 0x%016x was destroyed", c.handle)
	case len(c.streams) > 0:
		return status.Errorf(status.InvalidState, "capture 0x%016x has not ended", c.handle)
	}
	for i, s := range streams {
		if s.runtime != c.runtime {
			return otherRuntime(s)
		}
		if slices.Contains(streams[:i], s) {
			return status.Errorf(status.InvalidArgument, "stream %d is there twice", s.index)
		}
	}
	defer func() {
		if err != nil {
			c.endStreams()
		}
	}()
	for _, s := range streams {
		for _, other := range c.runtime.streams.snapshot() {
			end := other.queued.Load()
			if capturing := other.capture.Load(); capturing != nil {
				end = capturing.recorded.number
			}
			if err := s.waitFor(point{other, end}); err != nil {
				return err
			}
		}
	}
	for _, s := range streams {
		s.leaveToC(false)
		s.flush()
		if err := s.beginCapture(c); err != nil {
			s.leaveToC(true)
			return err
		}
		c.streams = append(c.streams, s)
		for s.reaper.Load() { // who looks at its frees does not know yet
			gort.Gosched()
		}
	}
	return nil
}

func (s *Stream) beginCapture(c *Capture) error {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if err := s.free("it cannot begin another capture"); err != nil {
		return err
	}
	if s.recorded == nil || s.recorded.number < s.queued.Load() {
		if err := s.recordNow(); err != nil {
			return err
		}
	}
	s.capture.Store(&captured{of: c, recorded: s.recorded})
	s.recorded = nil
	return nil
}

// End ends the capture, after the driver's own has ended: the streams do work again. Its blocks stay, and what was freed of them
// stays apart. Errors: InvalidState (it has ended).
func (c *Capture) End() error {
	if !c.end() {
		return status.Errorf(status.InvalidState, "capture 0x%016x has ended", c.handle)
	}
	return nil
}

func (c *Capture) end() (any bool) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return c.endStreams()
}

func (c *Capture) endStreams() (any bool) {
	for _, s := range c.streams {
		s.mutex.Lock()
		if s.recorded != nil { // in the capture: nobody outside can wait for it
			c.runtime.letGo(s.recorded)
		}
		s.recorded = s.capture.Swap(nil).recorded
		s.mutex.Unlock()
		s.leaveToC(true)
		any = true
	}
	c.streams = nil
	return any
}

// DestroyCapture says that the captured work will not run again: the capture ends, where it has not, and what was freed of its
// memory serves all. Its other blocks stay. Errors: InvalidHandle, StaleHandle.
func DestroyCapture(h uint64) error {
	c, err := captures.Get(h)
	if err != nil {
		return err
	}
	if err := c.runtime.enter(); err != nil {
		return err
	}
	defer c.runtime.leave()
	if _, err := captures.Remove(h); err != nil { // somebody was faster
		return err
	}
	c.mutex.Lock()
	c.destroyed = true
	c.endStreams()
	c.mutex.Unlock()
	c.runtime.pool.books.End(c.partition)
	return nil
}

// endCaptures ends those of a runtime that closes.
func endCaptures(r *Runtime) {
	for h, c := range captures.All() {
		if c.runtime == r {
			_, _ = captures.Remove(h)
			c.end()
		}
	}
}

// NotCapturing says that a stream does not capture. Errors: InvalidState, with what it cannot do.
func (s *Stream) NotCapturing(what string) error { return s.free(what) }

// free says that a stream does not capture. Errors: InvalidState, with what it cannot do.
func (s *Stream) free(what string) error {
	if s.capture.Load() == nil {
		return nil
	}
	return status.Errorf(status.InvalidState, "stream %d captures: %s", s.index, what)
}

// mayWaitFor says whether the stream can be made to wait for a point that it does not run behind. Errors: InvalidState, where
// one of both captures and the other is outside.
func (s *Stream) mayWaitFor(p point) error {
	own, other := s.capture.Load(), p.stream.capture.Load()
	switch {
	case own == nil && (other == nil || p.number <= other.recorded.number) || own != nil && other != nil && own.of == other.of:
		return nil
	case own == nil:
		return status.Errorf(status.InvalidState, "stream %d captures: stream %d cannot wait for its work", p.stream.index,
			s.index)
	}
	return status.Errorf(status.InvalidState, "stream %d captures: it cannot wait for work that was queued on stream %d since",
		s.index, p.stream.index)
}
