package persist

import (
	"math"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"libmmsb/core/abi"
	"libmmsb/core/file"
	"libmmsb/core/invariant"
	"libmmsb/core/journal"
	"libmmsb/core/lasterror"
	"libmmsb/core/lineage"
	"libmmsb/core/log"
	"libmmsb/core/page"
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
	RefuseBase   bool
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
		return s.context.WithoutGroups(func() error {
			return s.openJournal(directory, o.Keep, journal.Options{
				Durability: durability, Interval: interval, SegmentBytes: int64(o.SegmentBytes), NoBase: o.RefuseBase,
			})
		})
	})
}

// openJournal begins to journal, and saves the state into the directory where no record there leads to it. Under the lock of the
// journals.
func (s *state) openJournal(directory string, keep bool, o journal.Options) error {
	j := &s.journals
	if opened := j.open.Load(); opened != nil {
		return status.Errorf(status.AlreadyExists, "context 0x%016x has the journal %q", s.context.Handle(), opened.directory)
	}
	opened := &openedJournal{keep: keep, directory: directory, served: make(chan struct{})}
	var err error
	if opened.writer, err = journal.Prepare(file.OS{}, directory, o); err != nil {
		return err
	}
	var from journal.State
	err = s.context.Still(func(still *page.Still) error { // what changes from here on has a record
		from = s.history.stateOf(still)
		if err := opened.writer.Begin(from); err != nil {
			return err
		}
		return opened.openRing(s.context.Index(), &o)
	})
	if err != nil {
		opened.writer.Abandon()
		return err
	}
	s.history.goesOnIn(opened.writer.Lineage())
	needsBase := opened.writer.NeedsBase()
	j.open.Store(opened)
	safego.Go(func() {
		defer close(opened.served)
		opened.failed = opened.writer.Serve(opened.ring)
	})
	if !needsBase {
		return nil
	}
	if err := s.saveBase(opened, from.Names[0].Position); err != nil {
		_ = s.closeJournal()
		return err
	}
	return nil
}

// openRing opens the ring over a file, so that what calls have put there outlives the process. A journal whose calls wait for the
// disk anyway does without where the file system cannot share memory.
func (j *openedJournal) openRing(context uint32, o *journal.Options) error {
	f, err := j.writer.MakeRing(native.RingBytes)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	length := journal.RingHeadBytes + 2*native.RingBytes
	j.shared, err = unix.Mmap(f.Descriptor(), 0, length, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil && o.Durability != journal.EachCall {
		return status.FromErrno(status.Unsupported, err.(syscall.Errno),
			"cannot share memory with a file in %s: only durability call is possible there", j.directory)
	}
	var buffers []byte
	if j.shared != nil {
		_ = unix.Mlock(j.shared) // or its pages come back from the disk
		buffers = j.shared[journal.RingHeadBytes:]
	}
	ring, code := native.OpenRing(context, j.writer.Next(), native.RingBytes, o.Interval, o.Durability == journal.EachCall,
		buffers)
	if code != 0 {
		err := lasterror.Load(code)
		j.unmap()
		return err
	}
	j.ring = ring
	return nil
}

func (j *openedJournal) unmap() {
	if j.shared != nil {
		_ = unix.Munmap(j.shared)
	}
}

// saveBase saves the state into the directory of a journal that begins behind it.
func (s *state) saveBase(opened *openedJournal, position uint64) error {
	o := SaveOptions{id: snapshot.NewID()}
	target := ToPath(filepath.Join(opened.directory, snapshot.BaseFileName(position, o.id)))
	header, err := s.save(&target, &o, nil)
	if err != nil {
		return err
	}
	if err := opened.writer.HasBase(); err != nil {
		_ = os.Remove(target.path)
		return err
	}
	opened.dropBefore(&header)
	return nil
}

// CloseJournal closes a context's journal after all its records have reached the disk.
func CloseJournal(context uint64) error {
	return onJournal(context, func(s *state, _ *openedJournal) error { return s.context.WithoutGroups(s.closeJournal) })
}

func errNoJournal(context uint64) error {
	return status.Errorf(status.InvalidState, "context 0x%016x has no journal", context)
}

// closeJournal closes the journal; what the state is then has a name. Under the lock.
func (s *state) closeJournal() (err error) {
	opened := s.journals.open.Load()
	line := opened.writer.Lineage()
	stillErr := s.context.Still(func(still *page.Still) error { // what changes from here on has no record
		err = s.journals.close()
		print, _ := still.Fingerprint()
		s.history.is(line, opened.ring.Last(), func() lineage.Fingerprint { return print })
		return nil
	})
	if stillErr != nil { // no memory: no journal goes on with this state without a base
		err = s.journals.close()
		s.history.is(line, opened.ring.Last()+1, func() lineage.Fingerprint { return 0 })
	}
	return err
}

// close ends the journal. Under the lock.
func (j *journals) close() error {
	opened := j.open.Load()
	opened.ring.Stop()
	<-opened.served
	if invariant.Enabled {
		last, written := opened.ring.Last(), opened.writer.Next()-1
		invariant.Assert(opened.failed != nil || last == written, "the journal ends with record %d, %d were written", last,
			written)
	}
	opened.ring.Close()
	opened.unmap()
	j.open.Store(nil)
	return opened.failed
}

// identity is the state's name at the moment of a save. Without a journal it is the next one.
func (s *state) identity() (line lineage.Lineage, position uint64, recorded bool) {
	if ring, ok := native.RingOf(s.context.Index()); ok {
		s.history.Lock()
		defer s.history.Unlock()
		return s.history.line, ring.Last(), true
	}
	line, position = s.history.next()
	return line, position, false
}

// flush waits until the record is on the disk, where there is a journal.
func (s *state) flush(sequence uint64) error {
	if ring, ok := native.RingOf(s.context.Index()); ok {
		return lasterror.Load(ring.Flush(sequence))
	}
	return nil
}

// saved removes what a durable snapshot has made unnecessary, as soon as the directory can find the snapshot.
func (j *journals) saved(path string, header *snapshot.Header) {
	j.Lock()
	defer j.Unlock()
	opened := j.open.Load()
	if opened == nil || opened.keep {
		return
	}
	if err := opened.restsOn(path, header); err != nil { // the next save tries again
		log.Logf(log.Warning, "the journal %q keeps its records before %d: %v", opened.directory, header.Position, err)
		return
	}
	opened.dropBefore(header)
}

// restsOn makes a snapshot the journal's base: its chain is whole, and the directory names it.
func (j *openedJournal) restsOn(path string, header *snapshot.Header) error {
	chain, err := snapshot.Open(path, snapshot.OpenOptions{})
	if err != nil {
		return err
	}
	defer func() { _ = chain.Close() }()
	if found := chain.Header(); found.ID != header.ID {
		return status.Errorf(status.Mismatch, "%q is snapshot %s, not %s", path, found.ID, header.ID)
	}
	return snapshot.PutBase(file.OS{}, j.directory, path, header)
}

// dropBefore removes segments and bases before a base, unless the journal is to keep them.
func (j *openedJournal) dropBefore(header *snapshot.Header) {
	if j.keep {
		return
	}
	err := j.writer.Drop(header.Position)
	if err == nil {
		err = snapshot.RemoveBases(file.OS{}, j.directory, header)
	}
	if err != nil { // the next save tries again
		log.Logf(log.Warning, "cannot remove what the journal %q has before record %d: %v", j.directory, header.Position, err)
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
	return onJournal(context, func(_ *state, j *openedJournal) error { return lasterror.Load(j.ring.Flush(j.ring.Last())) })
}

// onJournal does something that nobody opens or closes a journal beside, and that is no part of a group.
func onJournal(context uint64, work func(s *state, j *openedJournal) error) error {
	return use(context, func(s *state) error {
		if err := s.context.CheckNoOwnGroup(); err != nil {
			return err
		}
		s.journals.Lock()
		defer s.journals.Unlock()
		opened := s.journals.open.Load()
		if opened == nil {
			return errNoJournal(context)
		}
		return work(s, opened)
	})
}

// TrimJournal removes the segments that a snapshot makes unnecessary.
func TrimJournal(context uint64, path string) error {
	return onJournal(context, func(_ *state, j *openedJournal) error {
		info, err := snapshot.Verify(path, snapshot.VerifyOptions{})
		if err != nil {
			return err
		}
		if line := j.writer.Lineage(); !line.Has(info.Lineage.At(info.Position)) {
			return status.Errorf(status.Mismatch, "%q is %s, the journal %q has the lineage %s", path,
				info.Lineage.At(info.Position),
				j.directory, line.ID)
		}
		if err := j.restsOn(path, &info.Header); err != nil {
			return err
		}
		if err := j.writer.Drop(info.Position); err != nil {
			return err
		}
		return snapshot.RemoveBases(file.OS{}, j.directory, &info.Header)
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
