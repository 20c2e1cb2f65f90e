package keeper

import (
	"sync"
	"time"

	"libmmsb/core/file"
	"libmmsb/core/journal"
	"libmmsb/core/log"
	"libmmsb/core/page"
	"libmmsb/core/persist"
	"libmmsb/core/safego"
	"libmmsb/core/status"
	"libmmsb/core/ticket"
)

// Following a store: the writer's records are read as they come, and applied to the context's pages.

// busyPause is how long a follower rests while records come; without any it rests longer and longer, up to the interval.
const busyPause = time.Millisecond

// follower keeps one context at the state of a store that somebody else writes.
type follower struct {
	*keeper
	*persist.Follower // nil: the state is to be loaded anew

	sync.Mutex
	Following
	branch uint64        // of the journal, that Record is of
	moved  chan struct{} // closed at the next change of Record
}

// Following is what a follower has done.
type Following struct {
	Record            uint64 // that the context's state is behind
	AppliedAt         int64  // when that was, nanoseconds since 1970
	Reloads, Failures uint64
}

func followerOf(context uint64) *follower {
	keepers.Lock()
	defer keepers.Unlock()
	return keepers.followers[context]
}

// follow begins to follow the store, whose state the context has.
func (k *keeper) follow() error {
	ended, err := persist.Ended(k.context)
	if err != nil {
		return err
	}
	f := &follower{keeper: k, moved: make(chan struct{})}
	_ = f.attach(0) // where the store went on otherwise meanwhile, it is loaded anew
	keepers.Lock()
	keepers.followers[k.context] = f
	keepers.Unlock()
	safego.Go(safego.Bound(func() {
		f.run(ended)
		keepers.Lock()
		defer keepers.Unlock()
		delete(keepers.followers, k.context)
	}))
	return nil
}

// attach begins to read behind the state that was loaded; reloads is how often it was, as far as that counts.
func (f *follower) attach(reloads uint64) (err error) {
	f.Follower, err = persist.Follow(f.context, f.directory)
	if err == nil {
		f.note(reloads)
	}
	return err
}

// note notes which state the context has, and so many more loads.
func (f *follower) note(reloads uint64) {
	f.Lock()
	defer f.Unlock()
	f.Reloads += reloads
	f.branch, f.Record, f.AppliedAt = f.Branch(), f.Applied(), time.Now().UnixNano()
	close(f.moved)
	f.moved = make(chan struct{})
}

// run follows until the context ends.
func (f *follower) run(ended <-chan struct{}) {
	const least, most = 100 * time.Millisecond, 10 * time.Second
	idle, patience := busyPause, least
	idlest := max(busyPause, time.Duration(f.options.IntervalMs)*time.Millisecond)
	for {
		grown, err := f.step(ended)
		pause := busyPause
		switch {
		case err != nil:
			pause, patience = patience, min(2*patience, most)
		case grown:
			idle, patience = busyPause, least
		default:
			// Slowly: a writer's group commits come an interval apart, and none of them is to wait for a long pause.
			pause, idle, patience = idle, min(idle+idle/8, idlest), least
		}
		select {
		case <-ended:
			if f.Follower != nil {
				f.Close()
			}
			return
		case <-time.After(pause):
		}
	}
}

// step applies what has come. Where the records do not go on from the context's state, that is loaded anew.
func (f *follower) step(ended <-chan struct{}) (grown bool, err error) {
	if f.Follower == nil {
		if err = f.reload(ended); err != nil {
			return false, f.failed(ended, "cannot be loaded anew", err)
		}
	}
	if grown, err = f.Poll(); grown {
		f.note(0)
	}
	if err == nil {
		return grown, nil
	}
	select {
	case <-ended:
		return false, err
	default:
	}
	// A file that was cut and written on, after a power cut of its machine, may look damaged where the next frame was.
	if code := status.CodeOf(err); f.Broken() || code == status.Mismatch || code == status.Corrupt {
		log.Logf(log.Warning, "the store %q is loaded anew, and handles of its pages become stale: %v", f.directory, err)
		f.Close()
		f.Follower = nil
		if status.CodeOf(err) == status.Mismatch {
			return true, nil // at once
		}
	}
	return false, f.failed(ended, "cannot be followed", err)
}

// failed notes an error, unless it is the context's end. That a page is pinned, which a load would end, is none.
func (f *follower) failed(ended <-chan struct{}, what string, err error) error {
	select {
	case <-ended:
	default:
		if status.CodeOf(err) != status.Busy {
			f.Lock()
			f.Failures++
			f.Unlock()
		}
		log.Logf(log.Warning, "the store %q %s, it is tried again: %v", f.directory, what, err)
	}
	return err
}

// reload gives the context the newest state.
func (f *follower) reload(ended <-chan struct{}) error {
	return unless(ended, func(w *ticket.Work) (err error) {
		for try := 1; ; try++ {
			err = journal.Beside(file.OS{}, f.directory, func() error {
				if err := load(f.context, f.directory, &f.options, w); err != nil {
					return err
				}
				return f.attach(1)
			})
			if status.CodeOf(err) != status.Mismatch || try == loadTries { // as Open
				return err
			}
		}
	})
}

// info is GetInfo of a follower.
func (f *follower) info() (info Info, err error) {
	if info, err = f.look(); err != nil {
		return info, err
	}
	f.Lock()
	defer f.Unlock()
	info.Following = f.Following
	info.Journal.Last = f.Record
	return info, nil
}

// Wait waits until a context that follows a store has the state behind a record, or behind a later one.
func Wait(context, record uint64, w *ticket.Work) error {
	f, err := waitable(context)
	if err != nil {
		return err
	}
	ended, err := persist.Ended(context)
	if err != nil {
		return err
	}
	for {
		f.Lock()
		now, branch, moved := f.Record, f.branch, f.moved
		f.Unlock()
		if now >= record { // numbers of a branch that was left say nothing
			newest, err := journal.NewestBranch(file.OS{}, f.directory)
			if newest == branch || err != nil {
				return err
			}
		}
		w.Idle(func() {
			select {
			case <-moved:
			case <-ended:
				err = status.Errorf(status.StaleHandle, "context 0x%016x has ended", context)
			case <-w.Done():
				err = status.Errorf(status.Cancelled, "cancelled at record %d, before record %d", now, record)
			}
		})
		if err != nil {
			return err
		}
	}
}

// CheckWait checks the arguments of Wait. Errors: Busy (the calling thread has a group open, which the follower waits for), those
// of Wait.
func CheckWait(context uint64) error {
	if _, err := waitable(context); err != nil {
		return err
	}
	return page.Use(context, (*page.Context).CheckNoOwnGroup)
}

func waitable(context uint64) (*follower, error) {
	if _, err := persist.Ended(context); err != nil {
		return nil, err
	}
	if f := followerOf(context); f != nil {
		return f, nil
	}
	return nil, status.Errorf(status.InvalidState, "context 0x%016x does not follow a store", context)
}
