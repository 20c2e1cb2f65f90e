// Package persist keeps pages of contexts in files: it saves and loads snapshots, writes changes into a journal and replays them,
// and knows which bytes were written since the last save.
package persist

import (
	"libmmsb/core/page"
	"libmmsb/native"
)

func init() {
	page.UsePersistence(func(c *page.Context) page.Persistence { return newState(c) })
}

// Ending implements page.Persistence: it cancels what runs.
func (s *state) Ending() {
	if !s.ending.Swap(true) {
		close(s.ended)
	}
}

// Ended is closed when a context ends, whoever ends it.
func Ended(context uint64) (ended <-chan struct{}, err error) {
	err = use(context, func(s *state) error {
		ended = s.ended
		return nil
	})
	return ended, err
}

// StateBytes is how many bytes the pages of a context have.
func StateBytes(context uint64) (bytes uint64, err error) {
	err = use(context, func(s *state) error {
		counts := native.CountContext(s.context.Index())
		bytes = counts.BytesCreated - counts.BytesFreed
		return nil
	})
	return bytes, err
}

// End implements page.Persistence: it ends the journal and all watching.
func (s *state) End() error {
	defer s.tracking.forgetAll()
	return s.journals.end()
}

// Moved implements page.Persistence: it ends the watching of a page.
func (s *state) Moved(index uint32) { s.tracking.forget(index) }
