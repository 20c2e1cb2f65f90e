// Package persist keeps pages of contexts in files: it saves and loads snapshots, writes changes into a journal and replays them,
// and knows which bytes were written since the last save.
package persist

import (
	"sync"
	"sync/atomic"

	"libmmsb/core/page"
	"libmmsb/core/snapshot"
	"libmmsb/core/status"
	"libmmsb/core/ticket"
	"libmmsb/native"
)

func init() {
	page.UsePersistence(func(c *page.Context) page.Persistence { return &state{context: c} })
}

// state is what this package knows of a context: its saves, its journal, and its pages' memory that the kernel watches.
type state struct {
	context *page.Context
	ending  atomic.Bool // the context is to end: give up
	// busy is held by a save or load, of which one runs at a time, and by who opens a journal.
	busy sync.Mutex

	saved      saved // under busy
	statistics statistics
	journals   journals
	tracking   tracking
}

// Ending, End and Moved implement page.Persistence. Ending cancels what runs.
func (s *state) Ending() { s.ending.Store(true) }

// End ends the journal and all watching.
func (s *state) End() {
	s.journals.end()
	s.tracking.forgetAll()
}

// Moved ends the watching of a page.
func (s *state) Moved(index uint32) { s.tracking.forget(index) }

// use runs a call on what is known of a live context, which does not end meanwhile.
func use(context uint64, call func(s *state) error) error {
	return page.Use(context, func(c *page.Context) error { return call(c.Persistence().(*state)) })
}

// useAlone is use for a save or load, or what may not be beside one.
func useAlone(context uint64, call func(s *state) error) error {
	return use(context, func(s *state) error {
		if !s.busy.TryLock() {
			return status.Errorf(status.Busy, "context 0x%016x: another save or load is running", context)
		}
		defer s.busy.Unlock()
		return call(s)
	})
}

// goesOn says whether work on a context is still wanted, after so many bytes of it.
func (s *state) goesOn(work *ticket.Work, done uint64) error {
	if s.ending.Load() {
		return status.Errorf(status.StaleHandle, "context 0x%016x is ending", s.context.Handle())
	}
	if work != nil && work.Cancelled() {
		return status.Errorf(status.Cancelled, "cancelled after %d bytes", done)
	}
	return nil
}

// saved is what is known of the snapshots that a context's state comes from.
type saved struct {
	// lineage is these snapshots, the newest last; native.LastSaved tells of that one.
	lineage []snapshot.ID
	totals  struct{ pages, bytes uint64 } // of the newest
	large   map[uint32]largeSaved         // by record
}

// statistics are those of saves, of which one may be running.
type statistics struct {
	sync.Mutex
	SaveStats
	running   native.Capture
	isRunning bool
}
