// A replay from a journal and a snapshot to a new snapshot.

package replay

import (
	"path/filepath"
	"time"

	"libmmsb/core/file"
	"libmmsb/core/journal"
	"libmmsb/core/snapshot"
	"libmmsb/core/status"
)

// Options of Run.
type Options struct {
	FS          file.FS
	Snapshot    string // path; its bases lie beside it
	Journal     string // directory
	Output      string // path of the new snapshot
	Until       journal.Until
	Compression snapshot.Compression     // of what is new; the rest stays as it is
	Done        <-chan struct{}          // when closed, the work ends with Cancelled
	Records     func(done, total uint64) // is told how many records are applied, of how many
	Bytes       snapshot.Progress        // is told how much is written
}

// Report says what Run did.
type Report struct {
	snapshot.Report
	First, Last uint64    // records that were applied; none where Last is First - 1
	Taken       time.Time // the moment that the new snapshot shows; zero where that is not known
}

// Run writes a whole snapshot of the state at a record, an epoch or a time: that of an older snapshot with the journal's
// records behind it. Errors: InvalidArgument (the snapshot is younger than what is asked for), NotFound (the journal ends
// before, or begins too late), Mismatch (it does not go on from the snapshot), those of State and of reading and writing.
func Run(o Options) (Report, error) {
	directory := filepath.Dir(o.Output)
	from, err := o.openBase(directory)
	if err != nil {
		return Report{}, err
	}
	defer from.close()
	changes, err := newScratch(directory, o.Done)
	if err != nil {
		return Report{}, err
	}
	defer changes.close()
	report, err := o.apply(from, changes)
	if err != nil {
		return report, err
	}
	after, err := changes.open(from.again)
	if err != nil {
		return report, err
	}
	defer func() { _ = after.Close() }()
	sink, err := snapshot.Replace(o.FS, o.Output, snapshot.ReplaceOptions{
		Options: file.Options{Durable: true, Done: o.Done}})
	if err != nil {
		return report, err
	}
	if report.Report, err = after.CompactTo(sink, o.Bytes); err != nil {
		sink.Abort()
	}
	return report, err
}

// Base is the path of the base that a journal's directory has for a replay.
func Base(fs file.FS, directory string, until journal.Until) (string, error) {
	log, err := journal.OpenReplay(fs, directory)
	if err != nil {
		return "", err
	}
	base, err := snapshot.FindBase(fs, directory, log.Leads, until.Sequence, until.Time, until.Epoch != 0)
	if err == nil && base == nil {
		err = status.Errorf(status.NotFound, "journal %s begins with the empty state: there is no snapshot of that", directory)
	}
	if err != nil {
		return "", err
	}
	return base.Path, nil
}

// base is the snapshot that the replay begins with.
type base struct {
	*snapshot.Snapshot
	name  string
	again func(name string) (file.Source, error) // opens its file, or one of its bases, once more
	close func()
}

// openBase opens the snapshot. A file of version 2 cannot be a base: it is made a newer one first.
func (o *Options) openBase(directory string) (*base, error) {
	s, err := snapshot.Open(o.Snapshot, snapshot.OpenOptions{FS: o.FS})
	if err != nil {
		return nil, err
	}
	if s.Header().Version != snapshot.OriginalVersion {
		folder, name := filepath.Split(o.Snapshot)
		again := func(name string) (file.Source, error) { return file.Open(o.FS, folder+name) }
		return &base{s, name, again, func() { _ = s.Close() }}, nil
	}
	defer func() { _ = s.Close() }()
	converted, err := newScratch(directory, o.Done)
	if err != nil {
		return nil, err
	}
	err = converted.write(func(sink file.Sink) error {
		_, err := s.CompactTo(sink, nil)
		return err
	})
	var whole *snapshot.Snapshot
	if err == nil {
		whole, err = converted.open(nil)
	}
	if err != nil {
		converted.close()
		return nil, err
	}
	again := func(string) (file.Source, error) { return converted.source() }
	return &base{whole, "converted", again, func() { _ = whole.Close(); converted.close() }}, nil
}

// apply applies the records and writes what they change.
func (o *Options) apply(from *base, changes *scratch) (Report, error) {
	header := from.Header()
	report := Report{First: header.Position + 1, Taken: header.Taken}
	log, err := journal.Open(o.FS, o.Journal)
	if err != nil {
		return report, err
	}
	if err := o.check(header, log.Info()); err != nil {
		return report, err
	}
	report.Last = header.Position
	line := header.Lineage
	if !log.EndsBefore(line) {
		if err := log.Leads(line.At(header.Position)); err != nil {
			return report, err
		}
		if report.Last, err = log.Find(header.Position, o.Until); err != nil {
			return report, err
		}
		if err := log.CheckGaps(header.Position, report.Last, o.Until); err != nil {
			return report, err
		}
		line = log.At(report.Last)
	}
	state, err := New(from.Snapshot)
	if err != nil {
		return report, err
	}
	total := report.Last - header.Position
	for record, err := range log.Records(report.First, report.Last) {
		if err == nil {
			err = state.Apply(record)
		}
		if err != nil {
			return report, err
		}
		if at := time.Unix(0, record.Time); at.After(report.Taken) {
			report.Taken = at
		}
		if o.Records != nil {
			o.Records(record.Sequence-header.Position, total)
		}
		select {
		case <-o.Done:
			return report, errCancelled
		default:
		}
	}
	if o.Until == (journal.Until{}) {
		if err := state.AllKnown(o.Journal); err != nil {
			return report, err
		}
	}
	return report, changes.write(func(sink file.Sink) error {
		after := snapshot.Header{Taken: report.Taken, Lineage: line, Position: report.Last}
		return state.WriteChanges(sink, after, from.name, o.Compression)
	})
}

// check says whether what is asked for lies between the snapshot, which may be behind what the disk has of the journal, and the
// journal's end.
func (o *Options) check(header snapshot.Header, info journal.Info) error {
	until := &o.Until
	switch {
	case until.Sequence != 0 && until.Sequence < header.Position:
		return status.Errorf(status.InvalidArgument,
			"%s holds records up to %d; use an older snapshot for the state at record %d",
			o.Snapshot, header.Position, until.Sequence)
	case until.Sequence > max(info.Last, header.Position):
		return status.Errorf(status.NotFound, "journal %s ends at record %d, before record %d", o.Journal, info.Last,
			until.Sequence)
	case until.Time != 0 && until.Time < header.Taken.UnixNano() && !header.Taken.IsZero():
		return status.Errorf(status.InvalidArgument, "%s was taken at %s; use an older snapshot for the state at %s", o.Snapshot,
			timestamp(header.Taken), timestamp(time.Unix(0, until.Time)))
	}
	return nil
}

func timestamp(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }
