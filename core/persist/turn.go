package persist

import (
	"sync"

	"libmmsb/core/safego"
	"libmmsb/core/status"
	"libmmsb/core/ticket"
)

// Turn is the place that a started save or load has among those of its context: it takes it in the call that starts it, so that
// what is called later does not come before it. A nil Turn is taken when the work begins.
type Turn struct {
	state   *state
	queued  bool          // behind others, not in busy already
	before  chan struct{} // closed when those that were queued before have passed
	passed  chan struct{} // closed when it has: it has come to busy, or has given up
	settled sync.Once     // the work, or Leave, has seen to what comes behind
}

// TakeTurn takes the place of work that is about to be started: at once, or, where queue is set, behind what runs and what was
// queued before. nil: another one runs, and queue is not set: the work will find that.
func TakeTurn(context uint64, queue bool) (turn *Turn, err error) {
	err = use(context, func(s *state) error {
		if queue && s.waited() {
			turn = s.queueUp()
			return nil
		}
		select {
		case s.busy <- struct{}{}:
			turn = &Turn{state: s}
		default:
			if queue {
				turn = s.queueUp()
			}
		}
		return nil
	})
	return turn, err
}

// Leave gives the place up, unless the work has begun. A nil Turn may be left.
func (t *Turn) Leave() {
	if t == nil {
		return
	}
	t.settled.Do(func() {
		if t.queued {
			t.pass()
		} else {
			<-t.state.busy
		}
	})
}

// waited says whether somebody is queued.
func (s *state) waited() bool {
	s.turns.Lock()
	defer s.turns.Unlock()
	select {
	case <-s.turns.last:
		return false
	default:
		return true
	}
}

// queueUp takes a place behind those that were queued before.
func (s *state) queueUp() *Turn {
	t := &Turn{state: s, queued: true, passed: make(chan struct{})}
	s.turns.Lock()
	t.before, s.turns.last = s.turns.last, t.passed
	s.turns.Unlock()
	return t
}

// enter fills busy when it is the work's turn, and no sooner than those before. Errors: Cancelled.
func (t *Turn) enter(work *ticket.Work) (err error) {
	t.settled.Do(func() {
		if !t.queued {
			return
		}
		if !work.Await(t.before) || !work.Enter(t.state.busy, nil) {
			err = status.Errorf(status.Cancelled, "cancelled while another save or load was running")
		}
		t.pass()
	})
	return err
}

// pass lets those behind go on when those before have passed, too.
func (t *Turn) pass() {
	select {
	case <-t.before:
		close(t.passed)
	default:
		safego.Go(func() {
			<-t.before
			close(t.passed)
		})
	}
}
