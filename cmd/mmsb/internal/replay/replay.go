// A replay from a journal and a snapshot to a new snapshot.

package replay

import (
	"path/filepath"
	"time"

	"libmmsb/core/file"
	"libmmsb/core/journal"
	"libmmsb/core/lineage"
	"libmmsb/core/snapshot"
	"libmmsb/core/status"
)

// Options of Run.
type Options struct {
	FS          file.FS
	Snapshot    string // path; its bases lie beside it; empty: what the journal begins with
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

// Run writes a whole snapshot of the state at a record, an epoch or a time: that of an older snapshot, or of what the journal
// begins with, with the journal's records behind it. Errors: InvalidArgument (the snapshot is younger than what is asked for),
// NotFound (the journal ends before, or begins too late), Mismatch (it does not go on from the snapshot, or begins with no state
// that it has), those of State and of reading and writing.
func Run(o Options) (Report, error) {
	directory := filepath.Dir(o.Output)
	log, err := journal.OpenReplay(o.FS, o.Journal)
	if err != nil {
		return Report{}, err
	}
	from, err := o.openBase(log, directory)
	if err != nil {
		return Report{}, err
	}
	defer from.close()
	changes, err := newScratch(directory, o.Done)
	if err != nil {
		return Report{}, err
	}
	defer changes.close()
	report, err := o.apply(log, from, changes)
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

// base is the snapshot that the replay begins with.
type base struct {
	*snapshot.Snapshot
	name  string
	again func(name string) (file.Source, error) // opens its file, or one of its bases, once more
	close func()
}

// openBase opens the snapshot, or what the journal begins with.
func (o *Options) openBase(log *journal.Replay, directory string) (*base, error) {
	if o.Snapshot != "" {
		return o.open(o.Snapshot, directory)
	}
	found, err := snapshot.FindBase(o.FS, o.Journal, log, o.Until.Sequence, o.Until.Time, o.Until.Epoch != 0)
	if status.CodeOf(err) == status.Mismatch && o.Until != (journal.Until{}) { // nothing is wrong, but it begins too late
		err = status.Errorf(status.NotFound, "%s", status.Of(err).Text)
	}
	if err != nil {
		return nil, err
	}
	if found != nil {
		return o.open(found.Path, directory)
	}
	content, err := snapshot.EmptyState(log.At(0))
	if err != nil {
		return nil, err
	}
	empty, err := snapshot.OpenSource(file.Bytes(content), snapshot.OpenOptions{})
	if err != nil {
		return nil, err
	}
	again := func(string) (file.Source, error) { return file.Bytes(content), nil }
	return &base{empty, "empty", again, func() { _ = empty.Close() }}, nil
}

// open opens a snapshot. A file of version 2 cannot be a base: it is made a newer one first.
func (o *Options) open(path, directory string) (*base, error) {
	s, err := snapshot.Open(path, snapshot.OpenOptions{FS: o.FS})
	if err != nil {
		return nil, err
	}
	if s.Header().Version != snapshot.OriginalVersion {
		folder, name := filepath.Split(path)
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
func (o *Options) apply(log *journal.Replay, from *base, changes *scratch) (Report, error) {
	header := from.Header()
	report := Report{First: header.Position + 1, Taken: header.Taken}
	var line lineage.Lineage
	err := o.checkSnapshot(header)
	if err == nil {
		report.Last, line, err = o.find(log, header)
	}
	if err != nil {
		return report, err
	}
	state, err := New(from.Snapshot)
	if err != nil {
		return report, err
	}
	total := report.Last - header.Position
	records := log.Records(report.First, report.Last)
	if total == 0 {
		records = func(func(*journal.Record, error) bool) {}
	}
	for record, err := range records {
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

// find is the number of the record that the replay ends with, and the lineage there.
func (o *Options) find(log *journal.Replay, header snapshot.Header) (last uint64, line lineage.Lineage, err error) {
	last, line = header.Position, header.Lineage
	ends, err := log.EndsBefore(line)
	if err == nil && !ends {
		if err = log.Leads(line.At(last)); err == nil {
			last, err = log.Find(header.Position, o.Until)
		}
		if err == nil {
			err = log.CheckGaps(header.Position, last, o.Until)
		}
		line = log.At(last)
	}
	if err != nil || o.Until.Sequence <= last {
		return last, line, err
	}
	// A journal that cannot be read to its end has more records.
	if end, err := log.Last(); err == nil && o.Until.Sequence > end {
		return last, line, status.Errorf(status.NotFound, "journal %s ends at record %d, before record %d", o.Journal, end,
			o.Until.Sequence)
	}
	return last, line, nil
}

// checkSnapshot says whether what is asked for lies behind the snapshot.
func (o *Options) checkSnapshot(header snapshot.Header) error {
	until := &o.Until
	switch {
	case until.Sequence != 0 && until.Sequence < header.Position:
		return status.Errorf(status.InvalidArgument,
			"%s holds records up to %d; use an older snapshot for the state at record %d",
			o.Snapshot, header.Position, until.Sequence)
	case until.Time != 0 && until.Time < header.Taken.UnixNano() && !header.Taken.IsZero():
		return status.Errorf(status.InvalidArgument, "%s was taken at %s; use an older snapshot for the state at %s", o.Snapshot,
			timestamp(header.Taken), timestamp(time.Unix(0, until.Time)))
	}
	return nil
}

func timestamp(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }
