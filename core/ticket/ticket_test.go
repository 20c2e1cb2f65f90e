package ticket_test

import (
	"errors"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"libmmsb/core/safego"
	"libmmsb/core/status"
	"libmmsb/core/ticket"
)

const second = uint64(1e9)

func succeed(*ticket.Work) error { return nil }

func fail(*ticket.Work) error { return status.Errorf(status.NoSpace, "17 bytes free") }

// untilCancelled is work that only ends when it is told to.
func untilCancelled(work *ticket.Work) error {
	<-work.Done()
	return status.Errorf(status.Cancelled, "stopped")
}

// finish waits as long as a broken implementation may be waited for.
func finish(t *testing.T, work *ticket.Ticket) status.Code {
	t.Helper()
	err := work.Wait(60 * second)
	require.True(t, work.Poll(), "unfinished: %v", err)
	return status.CodeOf(err)
}

func readable(t *testing.T, descriptor int) bool {
	t.Helper()
	return readableWithin(t, descriptor, 0)
}

// readableWithin waits for a descriptor.
func readableWithin(t *testing.T, descriptor, milliseconds int) bool {
	t.Helper()
	ready := []unix.PollFd{{Fd: int32(descriptor), Events: unix.POLLIN}}
	n, err := unix.Poll(ready, milliseconds)
	for err == unix.EINTR { // Go's runtime sends signals to its threads
		n, err = unix.Poll(ready, milliseconds)
	}
	require.NoError(t, err)
	return n == 1 && ready[0].Revents&unix.POLLIN != 0
}

func TestTheWorksOwnErrorIsTheResult(t *testing.T) {
	good := ticket.Start(0, nil, succeed)
	require.NoError(t, good.Wait(ticket.Forever))
	code, text := good.Status()
	assert.Equal(t, status.OK, code)
	assert.Empty(t, text)

	bad := ticket.Start(0, nil, fail)
	assert.Equal(t, status.NoSpace, finish(t, bad))
	assert.Equal(t, status.NoSpace, status.CodeOf(bad.Wait(0)), "also without waiting")
	code, text = bad.Status()
	assert.Equal(t, status.NoSpace, code)
	assert.Equal(t, "17 bytes free", text)

	strange := ticket.Start(0, nil, func(*ticket.Work) error { return errors.New("strange") })
	assert.Equal(t, status.Internal, finish(t, strange))
}

func TestUnfinishedWork(t *testing.T) {
	begun := make(chan struct{})
	work := ticket.Start(10, nil, func(work *ticket.Work) error {
		work.Progress(3)
		work.SetTotal(12)
		close(begun)
		return untilCancelled(work)
	})
	<-begun
	assert.False(t, work.Poll())
	done, total := work.Progress()
	assert.EqualValues(t, []uint64{3, 12}, []uint64{done, total})
	err := work.Wait(0)
	assert.Equal(t, status.WouldBlock, status.CodeOf(err))
	assert.Contains(t, err.Error(), "3 of 12 done")
	err = work.Wait(1000)
	assert.Equal(t, status.Timeout, status.CodeOf(err))
	assert.Contains(t, err.Error(), "after 1µs: 3 of 12 done")
	code, text := work.Status()
	assert.Equal(t, status.WouldBlock, code)
	assert.Contains(t, text, "3 of 12 done")

	work.Cancel()
	work.Cancel()
	assert.Equal(t, status.Cancelled, finish(t, work))
}

func TestCancelIsSeenByTheWork(t *testing.T) {
	work := ticket.Start(0, nil, func(work *ticket.Work) error {
		for !work.Cancelled() {
			runtime.Gosched()
		}
		return status.Errorf(status.Cancelled, "seen")
	})
	work.Cancel()
	assert.Equal(t, status.Cancelled, finish(t, work))
}

func TestCancelAfterTheEndChangesNothing(t *testing.T) {
	work := ticket.Start(0, nil, succeed)
	require.NoError(t, work.Wait(ticket.Forever))
	work.Cancel()
	assert.NoError(t, work.Wait(0))
}

func TestAfterRunsInOrder(t *testing.T) {
	var mutex sync.Mutex
	var order []int
	step := func(number int) func(*ticket.Work) error {
		return func(*ticket.Work) error {
			mutex.Lock()
			defer mutex.Unlock()
			order = append(order, number)
			return nil
		}
	}
	gate := make(chan struct{})
	first := ticket.Start(0, nil, func(work *ticket.Work) error { <-gate; return step(1)(work) })
	second := ticket.Start(0, []*ticket.Ticket{first}, step(2))
	third := ticket.Start(0, []*ticket.Ticket{second, first}, step(3))
	assert.False(t, third.Poll())
	close(gate)
	require.NoError(t, third.Wait(ticket.Forever))
	assert.Equal(t, []int{1, 2, 3}, order)
	fourth := ticket.Start(0, []*ticket.Ticket{third}, step(4))
	require.NoError(t, fourth.Wait(ticket.Forever), "after work that has ended long ago")
}

func TestAfterAFailureTheWorkDoesNotRun(t *testing.T) {
	ran := false
	good, bad := ticket.Start(0, nil, succeed), ticket.Start(0, nil, fail)
	work := ticket.Start(0, []*ticket.Ticket{good, bad}, func(*ticket.Work) error { ran = true; return nil })
	next := ticket.Start(0, []*ticket.Ticket{work}, func(*ticket.Work) error { ran = true; return nil })
	assert.Equal(t, status.Cancelled, finish(t, next))
	assert.Equal(t, status.Cancelled, finish(t, work))
	_, text := work.Status()
	assert.Contains(t, text, "ticket 2 of 2")
	assert.Contains(t, text, "MMSB_E_NO_SPACE: 17 bytes free")
	assert.False(t, ran)
}

func TestCancelWhileWaitingForOtherWork(t *testing.T) {
	first := ticket.Start(0, nil, untilCancelled)
	ran := false
	second := ticket.Start(0, []*ticket.Ticket{first}, func(*ticket.Work) error { ran = true; return nil })
	second.Cancel()
	assert.Equal(t, status.Cancelled, finish(t, second))
	assert.False(t, ran)
	assert.False(t, first.Poll(), "the other work goes on")
	first.Cancel()
	assert.Equal(t, status.Cancelled, finish(t, first))
}

func TestAPanicIsTheWorksError(t *testing.T) {
	reasons := make(chan string, 1)
	safego.OnPanic(func(reason string) { reasons <- reason })
	defer safego.OnPanic(nil)
	work := ticket.Start(0, nil, func(*ticket.Work) error { panic("planted") })
	assert.Equal(t, status.Internal, finish(t, work))
	_, text := work.Status()
	assert.Contains(t, text, "planted")
	assert.Equal(t, "planted", <-reasons)
}

func TestWorkThatEndsItsGoroutineHasEnded(t *testing.T) {
	work := ticket.Start(0, nil, func(*ticket.Work) error {
		runtime.Goexit()
		return nil
	})
	assert.Equal(t, status.Internal, finish(t, work))
}

func TestEventFD(t *testing.T) {
	work := ticket.Start(0, nil, untilCancelled)
	descriptor, err := work.EventFD()
	require.NoError(t, err)
	again, err := work.EventFD()
	require.NoError(t, err)
	assert.Equal(t, descriptor, again)
	assert.False(t, readable(t, descriptor))
	work.Cancel()
	assert.True(t, readableWithin(t, descriptor, 60_000))
	assert.True(t, work.Poll(), "whoever sees it readable sees the end")
	assert.Equal(t, status.Cancelled, status.CodeOf(work.Wait(0)))
	assert.True(t, readable(t, descriptor), "it stays readable")

	work.Close()
	_, err = unix.FcntlInt(uintptr(descriptor), unix.F_GETFD, 0)
	assert.Equal(t, unix.EBADF, err)
	_, err = work.EventFD()
	assert.Equal(t, status.StaleHandle, status.CodeOf(err))
	work.Close()
}

func TestEventFDAfterTheEnd(t *testing.T) {
	work := ticket.Start(0, nil, succeed)
	require.NoError(t, work.Wait(ticket.Forever))
	descriptor, err := work.EventFD()
	require.NoError(t, err)
	defer work.Close()
	assert.True(t, readable(t, descriptor))
}

// The limit of descriptors holds for the process, so the test runs in one of its own.
func TestEventFDWithoutDescriptors(t *testing.T) {
	const variable = "MMSB_TEST_WITHOUT_DESCRIPTORS"
	if os.Getenv(variable) == "" {
		command := exec.Command(os.Args[0], "-test.run=^TestEventFDWithoutDescriptors$")
		command.Env = append(os.Environ(), variable+"=1")
		output, err := command.CombinedOutput()
		require.NoError(t, err, "%s", output)
		return
	}
	work := ticket.Start(0, nil, succeed)
	var limit unix.Rlimit
	require.NoError(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &limit))
	require.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 0, Max: limit.Max}))
	_, err := work.EventFD()
	require.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &limit))
	own := status.Of(err)
	require.NotNil(t, own)
	assert.Equal(t, status.Limit, own.Code)
	assert.Equal(t, int32(unix.EMFILE), own.Foreign)
	assert.True(t, strings.HasSuffix(own.Text, "too many open files (EMFILE)"), own.Text)
}

func TestClosedWorkGoesOn(t *testing.T) {
	gate, ran := make(chan struct{}), make(chan struct{})
	work := ticket.Start(0, nil, func(*ticket.Work) error {
		<-gate
		close(ran)
		return nil
	})
	_, err := work.EventFD()
	require.NoError(t, err)
	work.Close()
	close(gate)
	<-ran
}

func TestStopAll(t *testing.T) {
	tickets := make([]*ticket.Ticket, 20)
	for at := range tickets {
		tickets[at] = ticket.Start(0, tickets[:at/2], untilCancelled)
		if at%2 == 0 {
			tickets[at].Close()
		}
	}
	ticket.StopAll(true)
	for _, work := range tickets {
		assert.True(t, work.Poll())
		assert.Equal(t, status.Cancelled, finish(t, work))
	}
	require.NoError(t, ticket.Start(0, nil, succeed).Wait(ticket.Forever), "work can be started again")

	work := ticket.Start(0, nil, untilCancelled)
	ticket.StopAll(false)
	assert.Equal(t, status.Cancelled, finish(t, work))
	ticket.StopAll(true)
}

func TestATicketUsedByManyThreads(t *testing.T) {
	for range 50 {
		work := ticket.Start(100, nil, func(work *ticket.Work) error {
			for unit := range uint64(100) {
				work.Progress(unit + 1)
			}
			return nil
		})
		var group sync.WaitGroup
		for range 4 {
			group.Go(func() {
				descriptor, err := work.EventFD()
				assert.NoError(t, err)
				assert.NoError(t, work.Wait(ticket.Forever))
				assert.True(t, readableWithin(t, descriptor, 60_000), "the end can be seen before the descriptor shows it")
				done, total := work.Progress()
				assert.Equal(t, total, done)
			})
		}
		group.Wait()
		work.Close()
	}
}

func TestWithin(t *testing.T) {
	require.NoError(t, ticket.Within(ticket.Forever, nil, func(work *ticket.Work) error {
		assert.Nil(t, work, "nothing to wait for: it runs here")
		return nil
	}))
	require.NoError(t, ticket.Within(uint64(time.Minute), nil, succeed))
	fails := func(*ticket.Work) error { return status.Errorf(status.Corrupt, "damage") }
	assert.Equal(t, status.Corrupt, status.CodeOf(ticket.Within(ticket.Forever, nil, fails)))
	assert.Equal(t, status.Corrupt, status.CodeOf(ticket.Within(uint64(time.Minute), nil, fails)))

	ran, stopped := false, false
	var err error
	for timeout := time.Millisecond; !ran; timeout *= 2 { // the time may be over before the work has begun: then it does not run
		err = ticket.Within(uint64(timeout), nil, func(work *ticket.Work) error {
			ran = true
			<-work.Done()
			stopped = true
			return status.Errorf(status.Cancelled, "asked to stop")
		})
		assert.Equal(t, status.Timeout, status.CodeOf(err))
	}
	assert.True(t, stopped, "Within returns when the work has stopped")
	begun := make(chan struct{})
	blocker := ticket.Start(0, nil, func(*ticket.Work) error {
		<-begun
		return nil
	})
	defer blocker.Close()
	err = ticket.Within(uint64(time.Millisecond), []*ticket.Ticket{blocker}, succeed)
	assert.Equal(t, status.Timeout, status.CodeOf(err), "the time for waiting counts, too")
	close(begun)

	before := ticket.Start(0, nil, fails)
	defer before.Close()
	err = ticket.Within(ticket.Forever, []*ticket.Ticket{before}, succeed)
	assert.Equal(t, status.Cancelled, status.CodeOf(err))
}

// outside is a source that a test ends.
type outside struct {
	end    chan error
	waits  atomic.Int32
	closed atomic.Int32
	result error
	over   atomic.Bool
}

func newOutside() *outside { return &outside{end: make(chan error)} }

func (o *outside) Poll() (bool, error) { return o.over.Load(), o.result }

func (o *outside) Wait() error {
	o.waits.Add(1)
	<-o.end
	return o.result
}

func (o *outside) Close() { o.closed.Add(1) }

func (o *outside) finish(err error) {
	o.result = err
	o.over.Store(true)
	close(o.end)
}

func TestASourceIsPolledWithoutAnybodyWaiting(t *testing.T) {
	source := newOutside()
	work := ticket.Of(source)
	assert.False(t, work.Poll())
	assert.Equal(t, status.WouldBlock, status.CodeOf(work.Wait(0)))
	work.Cancel()
	assert.False(t, work.Poll(), "there is nothing to cancel")
	source.finish(status.Errorf(status.DeviceLost, "gone"))
	assert.True(t, work.Poll())
	assert.Equal(t, status.DeviceLost, status.CodeOf(work.Wait(ticket.Forever)))
	work.Close()
	assert.EqualValues(t, 1, source.closed.Load())
	assert.Zero(t, source.waits.Load())
}

func TestOneGoroutineWaitsForASource(t *testing.T) {
	source := newOutside()
	work := ticket.Of(source)
	assert.Equal(t, status.Timeout, status.CodeOf(work.Wait(1000)))
	assert.Equal(t, status.Timeout, status.CodeOf(work.Wait(1000)))
	descriptor, err := work.EventFD()
	require.NoError(t, err)
	assert.False(t, readable(t, descriptor))
	next := ticket.Start(0, []*ticket.Ticket{work}, succeed)
	assert.False(t, next.Poll())
	source.finish(nil)
	assert.Equal(t, status.OK, finish(t, next))
	assert.True(t, readable(t, descriptor))
	assert.EqualValues(t, 1, source.waits.Load())
	work.Close()
	require.Eventually(t, func() bool { return source.closed.Load() == 1 }, time.Minute, time.Millisecond)
}

func TestWorkWaitsForASourceWhoseTicketWasClosed(t *testing.T) {
	source := newOutside()
	work := ticket.Of(source)
	next := ticket.Start(0, []*ticket.Ticket{work}, succeed)
	work.Close()
	assert.False(t, next.Poll())
	source.finish(nil)
	assert.Equal(t, status.OK, finish(t, next))

	closed := ticket.Of(newOutside())
	closed.Close()
	assert.Equal(t, status.Cancelled, finish(t, ticket.Start(0, []*ticket.Ticket{closed}, succeed)))
	assert.Equal(t, status.StaleHandle, status.CodeOf(closed.Wait(1000)))
}

// A timeout of 0 tries: what needs one step is done on the calling thread, what needs more has not been waited for.
func TestATimeoutOfZeroTries(t *testing.T) {
	steps := func(count uint64) error {
		return ticket.Within(0, nil, func(w *ticket.Work) error {
			for step := range count {
				if w.Cancelled() {
					return status.Errorf(status.Cancelled, "stopped")
				}
				w.Progress(step + 1)
			}
			return nil
		})
	}
	require.NoError(t, steps(0))
	require.NoError(t, steps(1))
	require.Equal(t, status.WouldBlock, status.CodeOf(steps(2)))
	report := func(count uint64) error {
		return ticket.Within(0, nil, func(w *ticket.Work) error {
			for step := range count {
				if !w.Report(step+1, count) {
					return status.Errorf(status.Cancelled, "stopped")
				}
			}
			return nil
		})
	}
	require.NoError(t, report(1))
	require.Equal(t, status.WouldBlock, status.CodeOf(report(2)))
	err := ticket.Within(0, nil, func(w *ticket.Work) error {
		select {
		case <-w.Done(): // nobody is waited for
			return status.Errorf(status.Cancelled, "stopped")
		case <-time.After(time.Minute):
			return nil
		}
	})
	require.Equal(t, status.WouldBlock, status.CodeOf(err))
	require.Equal(t, status.NotFound, status.CodeOf(ticket.Within(0, nil, func(*ticket.Work) error {
		return status.Errorf(status.NotFound, "its own error")
	})))
}

func TestATimeoutOfZeroDoesNotWaitForTickets(t *testing.T) {
	letGo := make(chan struct{})
	held := ticket.Start(0, nil, func(*ticket.Work) error { <-letGo; return nil })
	ran := false
	run := func(*ticket.Work) error { ran = true; return nil }
	require.Equal(t, status.WouldBlock, status.CodeOf(ticket.Within(0, []*ticket.Ticket{held}, run)))
	require.False(t, ran)
	close(letGo)
	require.NoError(t, held.Wait(ticket.Forever))
	require.NoError(t, ticket.Within(0, []*ticket.Ticket{held}, run))
	require.True(t, ran)
	failed := ticket.Start(0, nil, func(*ticket.Work) error { return status.Errorf(status.IO, "broken") })
	_ = failed.Wait(ticket.Forever)
	require.Equal(t, status.Cancelled, status.CodeOf(ticket.Within(0, []*ticket.Ticket{failed}, run)))
}

// Work that waits has no thread of the system of its own: Go ends a process that has 10 000.
func TestWorkThatWaitsTakesNoThread(t *testing.T) {
	threads := func() int {
		entries, err := os.ReadDir("/proc/self/task")
		require.NoError(t, err)
		return len(entries)
	}
	const many = 300
	place, before := make(chan struct{}, 1), threads()
	place <- struct{}{}
	var running sync.WaitGroup
	enter := func(work *ticket.Work) error {
		running.Done()
		if !work.Enter(place, nil) {
			return status.Errorf(status.Cancelled, "stopped")
		}
		<-place
		return nil
	}
	running.Add(many)
	var works []*ticket.Ticket
	for range many {
		works = append(works, ticket.Start(0, nil, enter))
	}
	running.Wait()
	running.Add(many)
	for i := range many {
		works = append(works, ticket.Start(0, works[i:i+1], enter))
	}
	require.Less(t, threads()-before, many/3)
	<-place
	for _, work := range works {
		require.Equal(t, status.OK, finish(t, work))
		work.Close()
	}
}
