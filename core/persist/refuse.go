package persist

import (
	"path/filepath"
	"time"

	"libmmsb/core/file"
	"libmmsb/core/lasterror"
	"libmmsb/core/page"
	"libmmsb/core/snapshot"
	"libmmsb/core/status"
	"libmmsb/core/ticket"
	"libmmsb/native"
)

// A context that calls may not change: every change goes through the journal's ring, and a ring that has failed lets none
// through. Where the disk has failed that is the journal's own, until the journal goes on; where a context is only to be read, a
// ring that fails from the start.

// HasFailedJournal says whether a context has a journal that has failed.
func HasFailedJournal(context uint64) (failed bool) {
	_ = use(context, func(s *state) error {
		opened := s.journals.open.Load()
		failed = opened != nil && opened.ring.Failed()
		return nil
	})
	return failed
}

// ResumeJournal goes on with a journal that has failed, when the disk works again: the state is saved into its directory, and a
// new segment begins behind it. Until then, and where it fails again, calls change nothing, as before. options are as
// SaveBeside's.
func ResumeJournal(context uint64, o SaveOptions, w *ticket.Work) (header *snapshot.Header, err error) {
	err = useQueued(context, nil, w, func(s *state) error {
		j := &s.journals
		if err := j.lock(w); err != nil {
			return err
		}
		defer j.Unlock()
		old := j.open.Load()
		if old == nil {
			return errNoJournal(context)
		}
		if !old.ring.Failed() {
			return status.Errorf(status.InvalidState, "the journal %q has not failed", old.directory)
		}
		header, err = s.resumeJournal(old, o, w)
		return err
	})
	return header, err
}

// resumeJournal is ResumeJournal under the lock of the journals, beside no save or load.
func (s *state) resumeJournal(old *openedJournal, o SaveOptions, w *ticket.Work) (header *snapshot.Header, err error) {
	if err := s.context.CheckBeforeSave(); err != nil {
		return nil, err
	}
	save := func() error {
		header, err = s.saveBeside(old, old.ring.Last(), o, w)
		return err
	}
	if status.CodeOf(save()) == status.Mismatch && o.Base != "" {
		o.Base = ""
		_ = save()
	}
	if err != nil {
		return nil, err
	}
	forget := func() { // nothing goes on from it, and no rule would remove it
		_ = snapshot.Retire(old.writer.FS(), filepath.Join(old.directory, snapshot.BaseFileName(old.ring.Last(), header.ID)))
	}
	options := old.options
	options.Held = old.writer.Held()
	next, err := prepareJournal(file.OS{}, &openedJournal{keep: old.keep, spaceWait: old.spaceWait, told: old.told,
		directory: old.directory, options: options, resumes: true, waits: old.waits})
	if err != nil {
		forget()
		return nil, err
	}
	err = s.context.Still(func(still *page.Still) error { return s.beginJournal(next, still) })
	if err != nil {
		next.writer.Abandon()
		forget()
		return nil, err
	}
	if next.needsBase && next.from == header.Position {
		err = next.writer.HasBase()
		next.needsBase = false
	}
	if err == nil {
		err = s.completeJournal(next, w)
	} else {
		_ = s.closeJournal()
	}
	if err != nil { // calls have gone on meanwhile, as in a context without a journal; from now on they cannot
		s.journals.lose(next, err)
		return nil, s.refuse(err)
	}
	return header, nil
}

// refuse lets calls that would change pages, and pins for writing, fail with an error, as long as the context lives.
func (s *state) refuse(with error) error {
	ring, failed := native.OpenRing(s.context.Index(), 1, RingBytes, time.Second, false, nil)
	if failed != 0 {
		return lasterror.Load(failed)
	}
	ring.SetPatience(0)
	own := status.Of(with)
	ring.Fail(int32(own.Code), own.Domain, own.Foreign, own.Text)
	ring.Refuse()
	s.journals.refusing.Store(&refusal{ring, with})
	return with
}

// Refuse lets calls that would change pages of a context without a journal fail with an error, as those of a context whose
// journal has failed do.
func Refuse(context uint64, with error) error {
	return use(context, func(s *state) error {
		s.journals.Lock()
		defer s.journals.Unlock()
		if s.journals.open.Load() != nil || s.journals.refusing.Load() != nil {
			return status.Errorf(status.InvalidState, "context 0x%016x has a journal", context)
		}
		if err := s.refuse(with); err != with {
			return err
		}
		return nil
	})
}

// refused is the error of calls that would change the context, where refuse was called.
func (j *journals) refused() error {
	if refusal := j.refusing.Load(); refusal != nil {
		return refusal.why
	}
	return nil
}
