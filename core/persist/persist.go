// Package persist keeps pages of contexts in files: it saves and loads snapshots, writes changes into a journal and replays them,
// and knows which bytes were written since the last save.
package persist

import "libmmsb/core/page"

func init() {
	page.UsePersistence(func(c *page.Context) page.Persistence { return newState(c) })
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
