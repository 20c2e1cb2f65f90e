// Package ticket runs work that takes time: it can be polled, waited for, cancelled, chained, and put into an event loop. So can
// what ends by itself: a Source.
//
// A ticket is what the starter holds, a Work what the running function holds. A ticket does not own its work: closing it
// lets the work go on.
package ticket

import (
	"maps"
	"math"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"libmmsb/core/abi"
	"libmmsb/core/safego"
	"libmmsb/core/status"
)

// Forever is the timeout that never ends.
const Forever = abi.WaitForever

// Ticket stands for a piece of work that was started. All its methods may be called at the same time.
type Ticket struct {
	cancelled  chan struct{} // closed when the work is asked to stop
	cancelOnce sync.Once
	finished   chan struct{} // closed when the work has ended
	err        error         // its result, written before ended is set
	ended      atomic.Bool   // set before the eventfd is made readable and finished is closed; polls take no lock
	done       atomic.Uint64
	total      atomic.Uint64
	source     Source // nil where a function runs

	mutex      sync.Mutex
	descriptor int // eventfd, -1 before it was asked for
	closed     bool
	watched    bool // a goroutine waits for the source
}

// Source is something that ends without a function of ours: a point in a stream of a device. All its methods may be called at the
// same time.
type Source interface {
	// Poll says whether it has ended, and how. It does not wait.
	Poll() (ended bool, err error)
	// Wait blocks until it has ended, and says how.
	Wait() error
	// Close says that nobody will ask again.
	Close()
}

// Work is the running function's side of a ticket.
type Work struct {
	ticket *Ticket
	tries  bool // nobody waits: it is cancelled after its first step, unless it is done
	bound  bool // its goroutine stays on one thread
}

// running holds every ticket whose work has not ended, for StopAll.
var running = struct {
	sync.Mutex
	tickets map[*Ticket]struct{}
}{tickets: map[*Ticket]struct{}{}}

// Start runs a function in a goroutine, once all tickets of after have ended well. Where one of them failed or was
// cancelled, the function does not run and the work ends with Cancelled. total is the number of units to be done, 0 while
// it is not known.
//
// The function must look at Cancelled or Done and, when asked to stop, undo what it did and return an error of code
// Cancelled.
func Start(total uint64, after []*Ticket, run func(*Work) error) *Ticket {
	return StartThen(total, after, run, func() {})
}

// StartThen is Start with what is to be done before the ticket ends, whether the function has run or not.
func StartThen(total uint64, after []*Ticket, run func(*Work) error, then func()) *Ticket {
	t := newTicket()
	t.total.Store(total)
	after = slices.Clone(after)
	for _, other := range after { // now: one that is closed later is waited for all the same
		_ = other.watch()
	}
	running.Lock()
	running.tickets[t] = struct{}{}
	running.Unlock()
	safego.Go(func() {
		err := t.execute(after, run)
		then()
		t.finish(err)
	})
	return t
}

// Of is the ticket of a source, which it closes. A goroutine waits for the source only where somebody waits for the ticket. There
// is nothing to cancel.
func Of(source Source) *Ticket {
	t := newTicket()
	t.source = source
	return t
}

func newTicket() *Ticket {
	return &Ticket{cancelled: make(chan struct{}), finished: make(chan struct{}), descriptor: -1}
}

// Source is what the ticket is of; nil where a function runs.
func (t *Ticket) Source() Source { return t.source }

// watch sees to it that finished is closed when the source ends. Errors: StaleHandle (the ticket is closed).
func (t *Ticket) watch() error {
	if t.source == nil {
		return nil
	}
	t.mutex.Lock()
	defer t.mutex.Unlock()
	return t.watchLocked()
}

func (t *Ticket) watchLocked() error {
	switch {
	case t.ended.Load() || t.watched:
		return nil
	case t.closed:
		return errClosed()
	}
	t.watched = true
	safego.Go(func() {
		t.finish(t.source.Wait())
		t.source.Close()
	})
	return nil
}

func errClosed() error { return status.Errorf(status.StaleHandle, "ticket is closed") }

// Within runs a function as work that the caller waits for, on the calling thread as far as there is nothing to wait for;
// the function's Work is nil then. When the time is over the work is cancelled, and Within returns when it has stopped. With a
// timeout of 0 the function tries, on the calling thread. Errors: Timeout or WouldBlock, those of the function.
func Within(timeoutNanoseconds uint64, after []*Ticket, run func(*Work) error) error {
	if timeoutNanoseconds == 0 {
		return try(after, run)
	}
	if !Elsewhere(timeoutNanoseconds, after) {
		return run(nil)
	}
	t := Start(0, after, run)
	defer t.Close()
	err := t.Wait(timeoutNanoseconds)
	if code := status.CodeOf(err); code == status.Timeout || code == status.WouldBlock {
		t.Cancel()
		if t.Wait(Forever) == nil { // it was done just in time
			return nil
		}
	}
	return err
}

// Elsewhere says whether Within runs the function on another thread.
func Elsewhere(timeoutNanoseconds uint64, after []*Ticket) bool {
	return timeoutNanoseconds != 0 && (timeoutNanoseconds != Forever || len(after) > 0)
}

// try runs a function that waits for nobody, and that is cancelled after its first step unless it is done by then.
func try(after []*Ticket, run func(*Work) error) error {
	for at, other := range after {
		if !other.Poll() {
			_ = other.watch() // which gives its source back when it has ended
			return status.Errorf(status.WouldBlock, "ticket %d of %d in after is not finished", at+1, len(after))
		}
		if err := failedBefore(at, after); err != nil {
			return err
		}
	}
	t := newTicket()
	t.Cancel()
	err := run(&Work{ticket: t, tries: true})
	if status.CodeOf(err) == status.Cancelled {
		return t.unfinished(status.WouldBlock, "")
	}
	return err
}

// failedBefore is the error of work whose predecessor has failed.
func failedBefore(at int, after []*Ticket) error {
	if after[at].err == nil {
		return nil
	}
	return status.Errorf(status.Cancelled, "not started: ticket %d of %d in after failed: %v", at+1, len(after), after[at].err)
}

// execute is the work from waiting for the others to its result; a panic becomes one too.
func (t *Ticket) execute(after []*Ticket, run func(*Work) error) (err error) {
	returned := false
	defer func() {
		if value := recover(); value != nil {
			safego.Caught(value)
			err = status.Errorf(status.Internal, "work panicked: %v", value)
		} else if !returned { // runtime.Goexit ends the goroutine now: nobody takes err
			t.finish(status.Errorf(status.Internal, "work ended without a result"))
		}
	}()
	if err = t.await(after); err == nil {
		runtime.LockOSThread() // native code keeps its last error per thread
		defer runtime.UnlockOSThread()
		err = run(&Work{ticket: t, bound: true})
	}
	returned = true
	return err
}

func (t *Ticket) await(after []*Ticket) error {
	for at, other := range after {
		if err := other.watch(); err != nil {
			return status.Errorf(status.Cancelled, "not started: ticket %d of %d in after: %v", at+1, len(after), err)
		}
		select {
		case <-other.finished:
		case <-t.cancelled:
			return status.Errorf(status.Cancelled, "cancelled while waiting for ticket %d of %d in after", at+1, len(after))
		}
		if err := failedBefore(at, after); err != nil {
			return err
		}
	}
	if (&Work{ticket: t}).Cancelled() {
		return status.Errorf(status.Cancelled, "cancelled before it began")
	}
	return nil
}

// finish notes the result; the first one counts.
func (t *Ticket) finish(err error) {
	t.mutex.Lock()
	if t.ended.Load() {
		t.mutex.Unlock()
		return
	}
	t.err = err
	t.ended.Store(true)
	if t.descriptor >= 0 {
		signal(t.descriptor)
	}
	close(t.finished)
	t.mutex.Unlock()
	running.Lock()
	delete(running.tickets, t)
	running.Unlock()
}

// Cancelled says whether the work was asked to stop.
func (w *Work) Cancelled() bool {
	if done, total := w.ticket.Progress(); w.tries {
		return done > 0 && (total == 0 || done < total)
	}
	select {
	case <-w.ticket.cancelled:
		return true
	default:
		return false
	}
}

// GoesOn is Cancelled as an error. A nil Work goes on.
func (w *Work) GoesOn() error {
	if w != nil && w.Cancelled() {
		return status.Errorf(status.Cancelled, "cancelled")
	}
	return nil
}

// Done is closed when the work is asked to stop, or is not to wait for anybody. A nil Work has none.
func (w *Work) Done() <-chan struct{} {
	if w == nil {
		return nil
	}
	return w.ticket.cancelled
}

// Enter fills a place that one has at a time. It says no where the work is to stop, or what the place belongs to has ended,
// before the place is empty. A nil Work is not to stop, and a nil ended never comes.
func (w *Work) Enter(place chan<- struct{}, ended <-chan struct{}) bool {
	select { // a try, which waits for nobody, is cancelled before it begins
	case place <- struct{}{}:
		return true
	default:
	}
	entered := false
	w.Idle(func() {
		select {
		case place <- struct{}{}:
			entered = true
		case <-w.Done():
		case <-ended:
		}
	})
	return entered
}

// Await waits for a channel to be closed. It says no where the work is to stop before. A nil Work is not to stop.
func (w *Work) Await(done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
	}
	came := false
	w.Idle(func() {
		select {
		case <-done:
			came = true
		case <-w.Done():
		}
	})
	return came
}

// Idle waits without a thread of the system, of which a process has some thousands: a program may have more tickets than that.
// The work goes on on any thread. A nil Work waits as well.
func (w *Work) Idle(wait func()) {
	if w != nil && w.bound {
		runtime.UnlockOSThread()
		defer runtime.LockOSThread()
	}
	wait()
}

// Asked is closed when the work is asked to stop. Work that is not to wait for anybody has none.
func (w *Work) Asked() <-chan struct{} {
	if w == nil || w.tries {
		return nil
	}
	return w.ticket.cancelled
}

// Progress says how many units are done.
func (w *Work) Progress(done uint64) { w.ticket.done.Store(done) }

// SetTotal says how many units there are.
func (w *Work) SetTotal(total uint64) { w.ticket.total.Store(total) }

// Report says how many units are done, of how many, and answers whether the work may go on. A nil Work may, always.
func (w *Work) Report(done, total uint64) bool {
	if w == nil {
		return true
	}
	w.SetTotal(total)
	w.Progress(done)
	return !w.Cancelled()
}

// Poll says whether the work has ended, well or badly. It is true for whoever has seen the eventfd readable.
func (t *Ticket) Poll() bool {
	if !t.ended.Load() && t.source != nil {
		if ended, err := t.source.Poll(); ended {
			t.finish(err)
		}
	}
	return t.ended.Load()
}

// Wait waits for the end of the work and returns its error. Errors: Timeout, or WouldBlock for a timeout of 0: the work
// goes on.
func (t *Ticket) Wait(timeoutNanoseconds uint64) error {
	if t.Poll() {
		return t.err
	}
	if timeoutNanoseconds == 0 {
		return t.unfinished(status.WouldBlock, "")
	}
	forever := timeoutNanoseconds > math.MaxInt64 // 292 years are
	if forever && t.source != nil {
		t.finish(t.source.Wait())
		return t.err
	}
	if err := t.watch(); err != nil {
		return err
	}
	if forever {
		<-t.finished
		return t.err
	}
	timeout := time.Duration(timeoutNanoseconds)
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case <-t.finished:
		return t.err
	case <-timer.C:
		return t.unfinished(status.Timeout, " after "+timeout.String())
	}
}

func (t *Ticket) unfinished(code status.Code, when string) error {
	done, total := t.Progress()
	if total == 0 {
		return status.Errorf(code, "work is not finished%s", when)
	}
	return status.Errorf(code, "work is not finished%s: %d of %d done", when, done, total)
}

// Cancel asks the work to stop, and does not wait for it.
func (t *Ticket) Cancel() { t.cancelOnce.Do(func() { close(t.cancelled) }) }

// Progress is how many units are done, of how many; total is 0 while it is not known.
func (t *Ticket) Progress() (done, total uint64) { return t.done.Load(), t.total.Load() }

// Status is the work's code and text: WouldBlock while it runs, OK and no text when it ended well.
func (t *Ticket) Status() (status.Code, string) {
	if err := status.Of(t.Wait(0)); err != nil {
		return err.Code, err.Text
	}
	return status.OK, ""
}

// EventFD is an eventfd that becomes readable when the work ends and stays so. It belongs to the ticket, and is the same
// one each time. Errors: StaleHandle (the ticket is closed), Limit (no descriptor left), OutOfMemory.
func (t *Ticket) EventFD() (int, error) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	if t.closed {
		return -1, errClosed()
	}
	if t.descriptor >= 0 {
		return t.descriptor, nil
	}
	if t.source != nil {
		if err := t.watchLocked(); err != nil {
			return -1, err
		}
	}
	descriptor, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		code, errno := status.OutOfMemory, status.ErrnoOf(err)
		if errno == syscall.EMFILE || errno == syscall.ENFILE {
			code = status.Limit
		}
		return -1, status.FromErrno(code, errno, "cannot create the eventfd of a ticket")
	}
	t.descriptor = descriptor
	if t.ended.Load() {
		signal(descriptor)
	}
	return descriptor, nil
}

// signal makes an eventfd readable. The write cannot fail: it is the only one to a counter of 64 bits.
func signal(eventfd int) {
	one := [8]byte{1}
	_, _ = unix.Write(eventfd, one[:])
}

// Close gives the ticket back and closes its eventfd. Work that has not ended goes on, detached.
func (t *Ticket) Close() {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	t.closed = true
	if t.descriptor >= 0 {
		_ = unix.Close(t.descriptor)
		t.descriptor = -1
	}
	if t.source != nil && !t.watched {
		t.source.Close()
	}
}

// StopAll cancels all work that is running, also detached work, and can wait for its end.
func StopAll(wait bool) {
	running.Lock()
	tickets := slices.Collect(maps.Keys(running.tickets))
	running.Unlock()
	for _, t := range tickets {
		t.Cancel()
	}
	if wait {
		for _, t := range tickets {
			<-t.finished
		}
	}
}
