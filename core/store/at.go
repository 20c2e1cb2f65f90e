// Which state of a store is meant.

package store

import (
	"time"

	"libmmsb/core/file"
	"libmmsb/core/journal"
	"libmmsb/core/snapshot"
	"libmmsb/core/status"
)

// At says which state of a store is meant: at most one of the three. None: the newest.
type At struct {
	Name   string // that a program has given it
	Record uint64 // what the state was behind this record
	Time   int64  // what it was then, in nanoseconds since 1970
}

// Check checks what a program has asked for.
func (at At) Check() error {
	asked := 0
	for _, is := range []bool{at.Name != "", at.Record != 0, at.Time != 0} {
		if is {
			asked++
		}
	}
	if asked > 1 {
		return status.Errorf(status.InvalidArgument, "at_name, at_record and at_time_ns: %d of them are given, the most is 1",
			asked)
	}
	return nil
}

// Source is what a state is made of.
type Source struct {
	// Path is a snapshot that is the state; empty: the journal's directory gives it, up to Until.
	Path  string
	Until journal.Until
}

// Find says what a state of the store in a directory is made of. Of a name it looks at nothing but the snapshots: damaged records
// do not keep it from being read. Errors: those of Look and Store.Find.
func Find(fs file.FS, directory string, at At) (Source, error) {
	if err := at.Check(); err != nil {
		return Source{}, err
	}
	if at.Name != "" {
		return named(fs, directory, at.Name)
	}
	s, err := Look(fs, directory)
	if err != nil {
		return Source{}, err
	}
	return s.Find(at)
}

// Find says what a state is made of. Where records were dropped, only the snapshots are left: of a time the newest one before
// it, of a record one that was taken there. Errors: InvalidArgument, NotFound, those of the file system.
func (s *Store) Find(at At) (Source, error) {
	if err := at.Check(); err != nil {
		return Source{}, err
	}
	switch {
	case at.Name != "":
		return named(s.fs, s.Directory, at.Name)
	case at.Record > s.Journal.Last:
		return Source{}, status.Errorf(status.NotFound, "the store %s has no record %d: the last one is %d", s.Directory,
			at.Record, s.Journal.Last)
	case at == (At{}):
		return Source{}, nil
	}
	if first := s.Journal.Segments[0]; s.log.FromTheBeginning() && at.Time != 0 && at.Time < first.Created {
		return Source{}, s.errTooOld(at)
	}
	until := journal.Until{Sequence: at.Record, Time: at.Time}
	_, err := snapshot.FindBase(s.fs, s.Directory, s.log, at.Record, at.Time, false)
	if err == nil {
		return Source{Until: until}, nil
	}
	if status.CodeOf(err) != status.Mismatch {
		return Source{}, err
	}
	for i := range s.Points { // the newest first
		p := &s.Points[i]
		isRecord := at.Record != 0 && p.Position == at.Record && p.Latest == at.Record
		if p.OnLine && (isRecord || at.Time != 0 && p.Taken.UnixNano() <= at.Time) {
			return Source{Path: p.Path}, nil
		}
	}
	if at.Record != 0 {
		return Source{}, status.Errorf(status.NotFound,
			"the store %s keeps records from %d on, and no snapshot was taken at record %d", s.Directory, s.Journal.First,
			at.Record)
	}
	return Source{}, s.errTooOld(at)
}

func (s *Store) errTooOld(at At) error {
	return status.Errorf(status.NotFound, "the store %s has nothing that is as old as %s", s.Directory,
		time.Unix(0, at.Time).UTC().Format(time.RFC3339Nano))
}

func named(fs file.FS, directory, name string) (Source, error) {
	all, err := readNames(fs, directory)
	if err != nil {
		return Source{}, err
	}
	id, ok := all[name]
	if !ok {
		return Source{}, errNoName(directory, name, all)
	}
	bases, lost, err := snapshots(fs, directory)
	if err != nil {
		return Source{}, err
	}
	for i := range bases {
		if bases[i].ID == id {
			return Source{Path: bases[i].Path}, nil
		}
	}
	if err := lostOf(lost, id); err != nil {
		return Source{}, status.More(err, "; it is the snapshot with the name %q", name)
	}
	return Source{}, status.Errorf(status.NotFound, "the snapshot %s with the name %q is no longer in the store %s", id, name,
		directory)
}
