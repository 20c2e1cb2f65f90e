package persist

import (
	"math"
	"time"

	"libmmsb/core/abi"
	"libmmsb/core/file"
	"libmmsb/core/invariant"
	"libmmsb/core/journal"
	"libmmsb/core/lasterror"
	"libmmsb/core/log"
	"libmmsb/core/safego"
	"libmmsb/core/snapshot"
	"libmmsb/core/status"
	"libmmsb/native"
)

// A context's journal: native/journal.h takes the records of changes, core/journal writes them. Here it is opened and closed.

// JournalOptions has the fields of mmsb_journal_options_t.
type JournalOptions struct {
	Durability   int32
	IntervalMs   uint32
	SegmentBytes uint64
	Keep         bool
}

// JournalInfo is mmsb_journal_info_t.
type JournalInfo struct {
	Segments                   uint32
	First, Last, Synced, Bytes uint64
}

// OpenJournal opens a journal for a context: changes of its pages are written there from now on.
func OpenJournal(context uint64, directory string, o JournalOptions) error {
	durability := journal.Interval
	switch o.Durability {
	case abi.DurabilityInterval:
	case abi.DurabilityCall:
		durability = journal.EachCall
	case abi.DurabilityNone:
		durability = journal.None
	default:
		return status.Errorf(status.InvalidArgument, "durability is %d, not interval, call or none", o.Durability)
	}
	if directory == "" {
		return status.Errorf(status.InvalidArgument, "the directory is empty")
	}
	if o.SegmentBytes > math.MaxInt64 {
		return status.Errorf(status.InvalidArgument, "segment_bytes is %d; the most is %d", o.SegmentBytes, int64(math.MaxInt64))
	}
	if o.IntervalMs == 0 {
		return status.Errorf(status.InvalidArgument, "interval_ms is 0; the least is 1")
	}
	interval := time.Duration(o.IntervalMs) * time.Millisecond
	return useAlone(context, func(s *state) error {
		s.journals.Lock()
		defer s.journals.Unlock()
		return s.openJournal(directory, o.Keep, journal.Options{
			Durability: durability, Interval: interval, SegmentBytes: int64(o.SegmentBytes), After: s.journals.at,
		})
	})
}

// openJournal begins to journal. Under the lock of the journals.
func (s *state) openJournal(directory string, keep bool, o journal.Options) error {
	j := &s.journals
	if opened := j.open.Load(); opened != nil {
		return status.Errorf(status.AlreadyExists, "context 0x%016x has the journal %q", s.context.Handle(), opened.directory)
	}
	writer, err := journal.NewWriter(file.OS{}, directory, o)
	if err != nil {
		return err
	}
	if last := writer.Next() - 1; last != j.at { // a new one begins behind it
		_ = writer.Close()
		return status.Errorf(status.Mismatch, "the journal %q ends with record %d, the context's state with record %d", directory,
			last, j.at)
	}
	ring, code := native.OpenRing(s.context.Index(), writer.Next(), native.RingBytes, o.Interval,
		o.Durability == journal.EachCall)
	if code != 0 {
		err := lasterror.Load(code)
		_ = writer.Close()
		return err
	}
	opened := &openedJournal{keep: keep, writer: writer, ring: ring, directory: directory, served: make(chan struct{})}
	j.open.Store(opened)
	safego.Go(func() {
		defer close(opened.served)
		opened.failed = writer.Serve(ring)
	})
	return nil
}

// CloseJournal closes a context's journal after all its records have reached the disk.
func CloseJournal(context uint64) error {
	return use(context, func(s *state) error {
		s.journals.Lock()
		defer s.journals.Unlock()
		if s.journals.open.Load() == nil {
			return errNoJournal(context)
		}
		return s.journals.close()
	})
}

func errNoJournal(context uint64) error {
	return status.Errorf(status.InvalidState, "context 0x%016x has no journal", context)
}

// close ends the journal. Under the lock.
func (j *journals) close() error {
	opened := j.open.Load()
	opened.ring.Stop()
	<-opened.served
	before := j.at
	j.at = opened.ring.Last() // with what came until the stop
	if invariant.Enabled {
		written := opened.writer.Next() - 1
		invariant.Assert(j.at >= before && (opened.failed != nil || j.at == written),
			"the journal was opened behind record %d and ends with record %d, %d were written", before, j.at, written)
	}
	opened.ring.Close()
	j.open.Store(nil)
	return opened.failed
}

// position is the number of the last record that was put; without a journal that of the last one that the state has.
func (s *state) position() uint64 {
	if ring, ok := native.RingOf(s.context.Index()); ok {
		return ring.Last()
	}
	return s.journals.at
}

// flush waits until the record is on the disk, where there is a journal.
func (s *state) flush(sequence uint64) error {
	if ring, ok := native.RingOf(s.context.Index()); ok {
		return lasterror.Load(ring.Flush(sequence))
	}
	return nil
}

// dropBefore removes segments that a snapshot has made unnecessary, unless the journal is to keep them.
func (j *journals) dropBefore(sequence uint64) {
	j.Lock()
	defer j.Unlock()
	opened := j.open.Load()
	if opened == nil || opened.keep {
		return
	}
	if err := opened.writer.Drop(sequence); err != nil { // the next save tries again
		log.Logf(log.Warning, "cannot remove the segments of the journal %q before record %d: %v", opened.directory, sequence,
			err)
	}
}

// end ends the journal of a context that ends.
func (j *journals) end() {
	j.Lock()
	defer j.Unlock()
	if opened := j.open.Load(); opened != nil {
		if err := j.close(); err != nil {
			log.Logf(log.Error, "cannot close the journal %q: %v", opened.directory, err)
		}
	}
}

// SyncJournal waits until the records of all calls that have returned are on the disk.
func SyncJournal(context uint64) error {
	return onJournal(context, func(j *openedJournal) error { return lasterror.Load(j.ring.Flush(j.ring.Last())) })
}

// onJournal does something that the journal stays open for.
func onJournal(context uint64, work func(j *openedJournal) error) error {
	return use(context, func(s *state) error {
		s.journals.Lock()
		defer s.journals.Unlock()
		opened := s.journals.open.Load()
		if opened == nil {
			return errNoJournal(context)
		}
		return work(opened)
	})
}

// TrimJournal removes the segments that a snapshot makes unnecessary.
func TrimJournal(context uint64, path string) error {
	return onJournal(context, func(j *openedJournal) error {
		info, err := snapshot.Verify(path, snapshot.VerifyOptions{})
		if err != nil {
			return err
		}
		return j.writer.Drop(info.Journal)
	})
}

// GetJournalInfo is what a context's journal says of itself. It waits for nothing: neither the disk nor who holds the journal for
// it.
func GetJournalInfo(context uint64) (info JournalInfo, err error) {
	err = use(context, func(s *state) error {
		opened := s.journals.open.Load()
		if opened == nil {
			return errNoJournal(context)
		}
		extent := opened.writer.Extent()
		info.Segments, info.First, info.Bytes = uint32(extent.Segments), extent.First, uint64(extent.Bytes)
		info.Synced = opened.ring.Synced() // before Last, which is never behind it
		info.Last = opened.ring.Last()
		if invariant.Enabled {
			invariant.Assert(info.Synced <= info.Last, "records up to %d are on the disk, the last one is %d", info.Synced,
				info.Last)
		}
		return nil
	})
	return info, err
}
