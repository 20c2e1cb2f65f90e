// Queues of operations, and who runs them.

package sim

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"libmmsb/core/safego"
	"libmmsb/gpu/driver"
)

// point is a place in a stream: behind its first so many operations. The zero point is always done.
type point struct {
	stream *stream
	number uint64
}

func (p point) done() bool { return p.stream == nil || p.stream.done.Load() >= p.number }

// operation is queued work.
type operation struct {
	call   Call
	after  point     // must be done before
	bytes  uint64    // that move
	queued time.Time // where work takes time
	work   func()    // nil = none
}

// stream is a queue of operations.
type stream struct {
	handle driver.Stream
	device *device
	number int // in the order in which streams were made
	party  int // of vector clocks
	clock  clock

	capture      atomic.Pointer[Use] // its begin, while the program captures the stream
	queued, done atomic.Uint64       // operations, ever
	ended        atomic.Bool         // destroyed
	owners       int                 // calls of DestroyStream until then; under streamMutex

	mutex   sync.Mutex
	queue   []operation // what is not done
	ready   time.Time   // when its last operation was done; of who runs the queue
	running bool        // somebody runs the queue, or has parked it with another stream
	parked  []parked
	moved   sync.Cond // done grew, or nobody runs the queue any more
}

// parked is a stream that goes on when another one has come to a number.
type parked struct {
	stream *stream
	number uint64
}

func newStream(device *device, handle driver.Stream, number, party int) *stream {
	s := &stream{handle: handle, device: device, number: number, party: party}
	s.moved.L = &s.mutex
	return s
}

// end is the point behind everything that was queued.
func (s *stream) end() point { return point{s, s.queued.Load()} }

// push queues an operation. Under the eager scheduler it is run at once if it can be: here, or in a goroutine where work takes
// time.
func (s *stream) push(op operation) {
	if s.device.driver.timed() {
		op.queued = time.Now()
	}
	s.mutex.Lock()
	s.queue = append(s.queue, op)
	s.queued.Add(1)
	if s.running || s.device.driver.options.Scheduler != Eager {
		s.mutex.Unlock()
		return
	}
	s.running = true
	s.mutex.Unlock()
	s.start()
}

func (s *stream) start() {
	if s.device.driver.timed() {
		safego.Go(func() { s.run() })
		return
	}
	// Streams that waited for this one run here, too; each may wake others.
	for awake := []*stream{s}; len(awake) > 0; {
		next := awake[0]
		awake = append(awake[1:], next.run()...)
	}
}

// run does what is queued until nothing is left or the next operation must wait for another stream. It returns the streams that
// can go on now, unless they were started.
func (s *stream) run() (awake []*stream) {
	for {
		s.mutex.Lock()
		if len(s.queue) == 0 {
			s.running = false
			s.moved.Broadcast()
			s.mutex.Unlock()
			return awake
		}
		op := s.queue[0]
		s.mutex.Unlock()
		if !op.after.done() && op.after.stream.park(s, op.after.number) {
			return awake
		}
		for _, other := range s.do(op) {
			if s.device.driver.timed() {
				other.start()
			} else {
				awake = append(awake, other)
			}
		}
	}
}

// park keeps a stream until this one has come to a number; false: it has.
func (s *stream) park(waiting *stream, number uint64) bool {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.done.Load() >= number {
		return false
	}
	s.parked = append(s.parked, parked{waiting, number})
	return true
}

// do runs the first operation. It returns the streams that waited for it.
func (s *stream) do(op operation) []*stream {
	begin, end := s.times(op)
	s.device.sleepUntil(begin)
	if hold := s.device.driver.options.Hold; hold != nil && s.device.driver.timed() {
		hold()
	}
	if op.work != nil && !s.device.lost.Load() {
		op.work()
	}
	s.device.sleepUntil(end)
	if op.bytes == 0 && s.device.driver.timed() { // a kernel takes as long as it does
		end = time.Now()
		s.ready = end
	}
	s.device.driver.note(Spell{s.device.info.Ordinal, s.number, op.call, op.bytes, op.queued, begin, end})
	s.mutex.Lock()
	defer s.mutex.Unlock()
	// The queue is empty where the device was lost meanwhile.
	if len(s.queue) > 0 {
		s.queue[0] = operation{}
		if s.queue = s.queue[1:]; len(s.queue) == 0 {
			s.queue = nil
		}
		s.done.Add(1)
	}
	return s.wake()
}

// wake takes the parked streams that can go on; the lock is held.
func (s *stream) wake() (awake []*stream) {
	done := s.done.Load()
	waiting := s.parked[:0]
	for _, p := range s.parked {
		if p.number <= done {
			awake = append(awake, p.stream)
		} else {
			waiting = append(waiting, p)
		}
	}
	s.parked = waiting
	s.moved.Broadcast()
	return awake
}

// drop forgets what is queued, as if it was done: the device is lost.
func (s *stream) drop() {
	s.mutex.Lock()
	s.queue = nil
	s.done.Store(s.queued.Load())
	awake := s.wake()
	s.mutex.Unlock()
	for _, other := range awake {
		other.start()
	}
}

// sleep blocks until the stream has come to a number.
func (s *stream) sleep(number uint64) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	for s.done.Load() < number {
		s.moved.Wait()
	}
}

// sleepWhileRunning blocks until nobody runs the queue.
func (s *stream) sleepWhileRunning() {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	for s.running {
		s.moved.Wait()
	}
}

// longestSleep is how much later than asked for a sleep may end.
const longestSleep = 2 * time.Millisecond

// times are when the device begins to move an operation's bytes, and has moved them: its operations share its bandwidth. They
// count from when it was queued, not from when the system gives this goroutine a processor. Both are zero where nothing takes
// time.
func (s *stream) times(op operation) (begin, end time.Time) {
	d := s.device
	options := &d.driver.options
	if !d.driver.timed() {
		return begin, end
	}
	begin = op.queued
	if op.after.stream != nil {
		begin = time.Now()
	}
	if begin.Before(s.ready) {
		begin = s.ready
	}
	begin = begin.Add(options.Latency)
	if options.Bandwidth > 0 && op.bytes > 0 {
		d.timeMutex.Lock()
		defer d.timeMutex.Unlock()
		if d.busyUntil.After(begin) {
			begin = d.busyUntil
		}
		end = begin.Add(time.Duration(float64(op.bytes) / float64(options.Bandwidth) * float64(time.Second)))
		d.busyUntil, s.ready = end, end
		return begin, end
	}
	s.ready = begin
	return begin, begin
}

// sleepUntil blocks until a time.
func (d *device) sleepUntil(end time.Time) {
	if end.IsZero() {
		return
	}
	if d.driver.options.Bandwidth > 0 { // a system that sleeps a millisecond for a microsecond would be the link
		time.Sleep(time.Until(end) - longestSleep)
		for time.Now().Before(end) {
			runtime.Gosched()
		}
	}
	time.Sleep(time.Until(end))
}
