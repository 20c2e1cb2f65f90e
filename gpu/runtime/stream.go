// Streams: numbers of their work, recorded events, waits for each other.

package runtime

import (
	"cmp"
	"maps"
	"math"
	"sync"
	"sync/atomic"

	"libmmsb/core/abi"
	"libmmsb/core/handle"
	"libmmsb/core/status"
	"libmmsb/gpu/blocks"
	"libmmsb/gpu/driver"
)

// point is a moment of a stream: behind the work that was queued when its number was given out. Number 0 is before everything.
type point struct {
	stream *Stream
	number uint64
}

// passed says that the device is known to have come past the point.
func (p point) passed() bool { return p.number == 0 || p.stream.completed.Load() >= p.number }

// Stream is a stream of the device as the runtime sees it. It is never used for another stream of the driver, so that points stay
// what they were.
type Stream struct {
	runtime *Runtime
	native  driver.Stream
	index   uint32
	foreign bool
	handle  atomic.Uint64 // while it is leased

	queued    *atomic.Uint64 // number of the last point; fast's where there is one
	ownQueued atomic.Uint64
	completed atomic.Uint64  // the device has come past this point
	fast      *blocks.Stream // its magazines; nil = all calls enter Go

	mutex    sync.Mutex
	recorded *recordedEvent    // the last event that was recorded
	seen     map[uint32]uint64 // what is queued from now on runs behind these points of other streams, by index
	ended    bool              // a foreign stream that was let go: nothing is recorded on it any more

	flushing sync.Mutex // somebody is taking blocks out of the magazines
	frees    freeQueue
	reaper   atomic.Bool              // somebody is looking at the frees
	capture  atomic.Pointer[captured] // while it captures: capture.go
}

// recordedEvent is an event that was recorded in a stream, behind all points up to number. Its users count: the event is recorded
// anew when nobody is left.
type recordedEvent struct {
	event  driver.Event
	number uint64
	seen   map[uint32]uint64 // of the stream, when it was recorded
	users  atomic.Int32
}

func (r *Runtime) letGo(m *recordedEvent) {
	if m.users.Add(-1) == 0 {
		r.events.give(m.event)
	}
}

// streamTable are the streams of a runtime: those that are leased, and those that wait for the next lease.
type streamTable struct {
	runtime *Runtime
	mutex   sync.Mutex
	all     []*Stream
	fast    []*blocks.Stream  // of those that have magazines
	made    uint32            // streams that ever were: the next one's index
	idle    map[int][]*Stream // by priority
	inUse   int               // pooled ones that are leased
	defined *Stream           // the device's default stream
	own     *Stream           // for what has no stream, or none any more
}

// streams finds every leased stream of the process by its handle.
var streams = handle.New[*lease](abi.KindStream)

// lease is the use of a stream by a program.
type lease struct {
	stream   *Stream
	priority int
}

func (t *streamTable) init(r *Runtime) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	t.runtime, t.idle = r, make(map[int][]*Stream)
	t.defined = t.add(0, true, true)
}

// add makes the record of a stream of the driver. named: it has, or will have, a handle.
func (t *streamTable) add(native driver.Stream, foreign, named bool) *Stream {
	s := &Stream{runtime: t.runtime, native: native, foreign: foreign, index: t.made, seen: make(map[uint32]uint64)}
	t.made++
	s.queued = &s.ownQueued
	if h := t.runtime.hits; h != nil && named {
		if fast, err := blocks.NewStream(h.pool, uintptr(native), s.index); err == nil { // else its calls enter Go
			s.fast, s.queued = fast, &fast.Queued
			fastStreams.Store(fast, s)
			t.fast = append(t.fast, fast)
		}
	}
	t.all = append(t.all, s)
	return s
}

func (t *streamTable) leased() int {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	return t.inUse
}

// snapshot is all streams there are, without the lock.
func (t *streamTable) snapshot() []*Stream {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	return t.all[:len(t.all):len(t.all)]
}

// AcquireStream leases a stream that does not wait for the default stream. Errors: Limit (all are leased), and those of the
// driver. Never is the default stream given out instead.
func (r *Runtime) AcquireStream(priority int) (uint64, error) {
	if err := r.enter(); err != nil {
		return 0, err
	}
	defer r.leave()
	t := &r.streams
	t.mutex.Lock()
	defer t.mutex.Unlock()
	if t.inUse >= r.options.Streams {
		return 0, status.Errorf(status.Limit, "all %d streams of device %d are leased; release one or allow more",
			r.options.Streams, r.device.Info().Ordinal)
	}
	var s *Stream
	if idle := t.idle[priority]; len(idle) > 0 {
		s, t.idle[priority] = idle[len(idle)-1], idle[:len(idle)-1]
	} else {
		native, err := r.device.CreateStream(priority)
		if err != nil {
			return 0, r.noteLost(err)
		}
		s = t.add(native, false, true)
	}
	h, err := streams.Put(&lease{stream: s, priority: priority})
	if err != nil {
		t.idle[priority] = append(t.idle[priority], s)
		return 0, err
	}
	s.lease(h)
	t.inUse++
	return h, nil
}

// WrapStream makes a stream of the caller, given by the driver's own handle, one of the runtime's, until it is released; the
// caller keeps it alive for as long. 0 is the device's default stream.
func (r *Runtime) WrapStream(foreign uintptr) (uint64, error) {
	if err := r.enter(); err != nil {
		return 0, err
	}
	defer r.leave()
	t := &r.streams
	t.mutex.Lock()
	defer t.mutex.Unlock()
	for _, s := range t.all {
		switch handle := s.handle.Load(); {
		case uintptr(s.native) != foreign || s.ended:
		case handle != 0:
			return 0, status.Errorf(status.AlreadyExists, "stream 0x%x is already this runtime's 0x%016x", foreign, handle)
		case !s.foreign && s != t.defined:
			return 0, status.Errorf(status.AlreadyExists, "stream 0x%x is this runtime's, which was let go", foreign)
		}
	}
	s := t.defined
	if foreign != 0 {
		native, err := r.device.ForeignStream(foreign)
		if err != nil {
			return 0, r.noteLost(err)
		}
		s = t.add(native, true, true)
	}
	h, err := streams.Put(&lease{stream: s})
	if err != nil {
		if s != t.defined {
			s.ended = true
			_ = r.device.DestroyStream(s.native)
		}
		return 0, err
	}
	s.lease(h)
	return h, nil
}

// FindStream is the stream of a handle. Errors: InvalidHandle, StaleHandle.
func FindStream(h uint64) (*Stream, error) {
	l, err := streams.Get(h)
	if err != nil {
		return nil, err
	}
	return l.stream, nil
}

// RecordOn is the point after everything that is queued on the stream of a handle. device is the stream's, or 0 for any. Errors:
// InvalidHandle, StaleHandle, Mismatch (of another device), those of Record.
func RecordOn(h uint64, device int) (*Point, error) {
	s, err := FindStream(h)
	if err != nil {
		return nil, err
	}
	if ordinal := s.Runtime().Device().Info().Ordinal; device != 0 && device != ordinal {
		return nil, status.Errorf(status.Mismatch, "device is %d, but stream 0x%016x belongs to device %d", device, h, ordinal)
	}
	return s.Record()
}

// ReleaseStream ends a lease, or the wrapping of a caller's stream. Work that is queued goes on, and what the runtime knows of it
// stays in force: a pooled stream serves again later. Before a wrapped one is let go an event is recorded on it, for those who
// will have to wait for its work.
func ReleaseStream(h uint64) error {
	l, err := streams.Get(h)
	if err != nil {
		return err
	}
	s := l.stream
	r := s.runtime
	if err := r.enter(); err != nil {
		return err
	}
	defer r.leave()
	if err := s.free("it cannot be released"); err != nil {
		return err
	}
	if s.foreign && s.native != 0 {
		s.leaveToC(false) // later frees are not queued on it any more
		s.flush()
		s.mutex.Lock()
		err := s.recordNow()
		s.ended = err == nil
		s.mutex.Unlock()
		if err != nil {
			s.leaveToC(true)
			return err
		}
	}
	if _, err := streams.Remove(h); err != nil { // somebody was faster
		return err
	}
	s.lease(0)
	if s.foreign {
		if s.native == 0 {
			return nil
		}
		return r.device.DestroyStream(s.native)
	}
	r.streams.mutex.Lock()
	defer r.streams.mutex.Unlock()
	r.streams.idle[l.priority] = append(r.streams.idle[l.priority], s)
	r.streams.inUse--
	return nil
}

// LiveStreams is the number of streams of the process that have a handle.
func LiveStreams() uint64 { return streams.Live() }

// Handle is what the stream is found by; 0 where it was released.
func (s *Stream) Handle() uint64 { return s.handle.Load() }

// Native is the driver's stream.
func (s *Stream) Native() driver.Stream { return s.native }

// Runtime is the runtime that the stream is of.
func (s *Stream) Runtime() *Runtime { return s.runtime }

// Index is the stream's number in its runtime, for logs.
func (s *Stream) Index() uint32 { return s.index }

// passed notes that the device has come past a point.
func (s *Stream) passed(number uint64) {
	for was := s.completed.Load(); was < number && !s.completed.CompareAndSwap(was, number); {
		was = s.completed.Load()
	}
}

// next is a point behind everything queued so far.
func (s *Stream) next() point { return point{s, s.queued.Add(1)} }

// recordNow records an event behind everything queued so far. The stream's lock is held.
func (s *Stream) recordNow() error {
	r := s.runtime
	if s.ended { // everything was recorded when it was let go
		return nil
	}
	event, err := r.events.take()
	if err != nil {
		return r.noteLost(err)
	}
	number := s.queued.Load() // before the event: what comes between is covered, but not reserved
	if err := r.device.RecordEvent(event, s.native); err != nil {
		r.events.give(event)
		return r.noteLost(err)
	}
	m := &recordedEvent{event: event, number: number, seen: maps.Clone(s.seen)}
	m.users.Store(1) // the stream's own
	if s.recorded != nil {
		r.letGo(s.recorded)
	}
	s.recorded = m
	return nil
}

// covering is an event behind the point with this number, which the caller lets go.
func (s *Stream) covering(number uint64) (*recordedEvent, error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if c := s.capture.Load(); c != nil && number <= c.recorded.number {
		c.recorded.users.Add(1)
		return c.recorded, nil
	}
	if s.recorded == nil || s.recorded.number < number {
		if err := s.recordNow(); err != nil {
			return nil, err
		}
	}
	s.recorded.users.Add(1)
	return s.recorded, nil
}

// waitFor makes what is queued on the stream from now on run behind a point of another stream of the device, also one of another
// runtime. Points it runs behind already, or that the device has come past, cost nothing; of other runtimes' streams it notes
// nothing, whose numbers are not this one's.
func (s *Stream) waitFor(p point) error {
	if p.stream == s || p.number == 0 {
		return nil
	}
	r, of := s.runtime, p.stream.runtime
	if p.passed() {
		r.counts.waitsSaved.Add(1)
		return nil
	}
	if r == of && s.sees(p) {
		r.counts.waitsSaved.Add(1)
		return nil
	}
	if err := s.mayWaitFor(p); err != nil {
		return err
	}
	if r != of {
		if of.enter() != nil {
			return r.settled()
		}
		defer of.leave()
	}
	m, err := p.stream.covering(p.number)
	if err != nil {
		// No event can be had. The order must hold all the same, so that this once the host waits.
		if r.lost.Load() || r.device.SynchronizeStream(p.stream.native) != nil {
			return err
		}
		return nil
	}
	defer r.letGo(m)
	if err := r.device.Wait(s.native, m.event); err != nil {
		return r.noteLost(err)
	}
	r.counts.waits.Add(1)
	if r != of {
		return nil
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.seen[p.stream.index] = max(s.seen[p.stream.index], m.number)
	for index, number := range m.seen { // what that stream ran behind, this one does now
		if index != s.index {
			s.seen[index] = max(s.seen[index], number)
		}
	}
	return nil
}

// sees says whether what is queued on the stream runs behind a point of another one of its runtime.
func (s *Stream) sees(p point) bool {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.seen[p.stream.index] >= p.number
}

// settled blocks until the device has done everything: what another runtime of it has queued that ends now, and that cannot be
// asked for an event any more.
func (r *Runtime) settled() error { return r.noteLost(r.device.Synchronize()) }

// close ends all streams of the runtime.
func (t *streamTable) close() error {
	var first error
	for _, s := range t.snapshot() {
		if h := s.handle.Load(); h != 0 {
			_, _ = streams.Remove(h)
		}
		s.completed.Store(math.MaxUint64) // for blocks of other runtimes that it was used with
		s.mutex.Lock()
		if s.recorded != nil {
			t.runtime.letGo(s.recorded)
			s.recorded = nil
		}
		foreignGone := s.ended || s.native == 0
		s.mutex.Unlock()
		allBlocks.takeBack(&s.frees)
		if foreignGone {
			continue
		}
		first = cmp.Or(first, t.runtime.device.DestroyStream(s.native))
	}
	return first
}
