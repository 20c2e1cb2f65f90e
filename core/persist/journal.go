package persist

import (
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"sync/atomic"
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
	"libmmsb/core/store"
	"libmmsb/core/ticket"
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
	FromHere     bool              // the state was loaded from the directory, which may not know of its lineage any more
	SpaceWait    time.Duration     // how long calls wait after the disk is found full: somebody must call ResumeJournal
	Wrote        func(bytes int64) // after each write to the disk, on the writer's goroutine; nil = nobody asks
	Failed       func(err error)   // when the journal has failed, as Wrote
}

// JournalInfo is mmsb_journal_info_t.
type JournalInfo struct {
	Segments                   uint32
	First, Last, Synced, Bytes uint64
	Waits                      native.Waits // of calls, since the journal was opened
}

// CheckJournal checks the arguments of OpenJournal.
func CheckJournal(context uint64, directory string, o JournalOptions) error {
	return use(context, func(*state) error {
		return o.Check(directory)
	})
}

// Check checks the options.
func (o *JournalOptions) Check(directory string) error {
	_, err := o.check(directory)
	return err
}

// check checks the options, and says what core/journal has for them.
func (o *JournalOptions) check(directory string) (options journal.Options, err error) {
	durability := journal.Interval
	switch o.Durability {
	case abi.DurabilityInterval:
	case abi.DurabilityCall:
		durability = journal.EachCall
	case abi.DurabilityNone:
		durability = journal.None
	default:
		return options, status.Errorf(status.InvalidArgument, "durability is %d, not interval, call or none", o.Durability)
	}
	if directory == "" {
		return options, status.Errorf(status.InvalidArgument, "the directory is empty")
	}
	if o.SegmentBytes > math.MaxInt64 {
		return options, status.Errorf(status.InvalidArgument, "segment_bytes is %d; the most is %d", o.SegmentBytes,
			int64(math.MaxInt64))
	}
	if o.IntervalMs == 0 {
		return options, status.Errorf(status.InvalidArgument, "interval_ms is 0; the least is 1")
	}
	return journal.Options{
		Durability: durability, Interval: time.Duration(o.IntervalMs) * time.Millisecond, SegmentBytes: int64(o.SegmentBytes),
		NoBase: o.RefuseBase, FromHere: o.FromHere, Wrote: o.Wrote, InChild: native.CloseInChild,
	}, nil
}

// OpenJournal opens a journal for a context: changes of its pages are written there from now on. w may be nil.
func OpenJournal(context uint64, directory string, o JournalOptions, w *ticket.Work) error {
	options, err := o.check(directory)
	if err != nil {
		return err
	}
	return useAlone(context, nil, w, func(s *state) error {
		if err := s.context.TellReport(); err != nil {
			return err
		}
		if err := s.journals.lock(w); err != nil {
			return err
		}
		defer s.journals.Unlock()
		wanted := &openedJournal{keep: o.Keep, spaceWait: o.SpaceWait, told: o.Failed, directory: directory,
			options: options}
		return s.context.WithoutGroups(func() error { return s.openJournal(wanted, w) })
	})
}

// lock locks the journals, unless the work is to stop or waits for nobody.
func (j *journals) lock(w *ticket.Work) error {
	if w == nil {
		j.Lock()
		return nil
	}
	for !j.TryLock() {
		select {
		case <-w.Done():
			return status.Errorf(status.Cancelled, "cancelled while another call works on the journal")
		case <-time.After(time.Millisecond):
		}
	}
	return nil
}

// openJournal begins to journal, and saves the state into the directory where no record there leads to it. Under the lock of the
// journals.
func (s *state) openJournal(wanted *openedJournal, w *ticket.Work) error {
	j := &s.journals
	if opened := j.open.Load(); opened != nil {
		return status.Errorf(status.AlreadyExists, "context 0x%016x has the journal %q", s.context.Handle(), opened.directory)
	}
	if err := j.refused(); err != nil {
		return err
	}
	// Calls may have records from the journal's begin on, and where its base is saved, its segment gets its name: from then on
	// only the save of the base can be cancelled.
	var begun atomic.Bool
	fs := file.Asking(file.OS{}, func() error {
		if begun.Load() {
			return nil
		}
		return s.goesOn(w, 0)
	})
	wanted.options.Known = j.known
	opened, err := prepareJournal(fs, wanted)
	if err != nil {
		return err
	}
	forget := s.history.kept()
	if s.isOther(fs, opened.directory) {
		s.history.step()
	}
	err = s.context.Still(func(still *page.Still) error {
		err := s.beginJournal(opened, still)
		begun.Store(true)
		return err
	})
	if err != nil {
		opened.writer.Abandon()
		forget()
		return err
	}
	return s.completeJournal(opened, w)
}

// isOther says whether a journal's directory has another state under the name of this one: what is written through pointers has
// no record, so two snapshots can be of one position. Who loads the older one and goes on in the same lineage would get the
// newer one with the next load.
func (s *state) isOther(fs file.FS, directory string) bool {
	var ours snapshot.ID
	if n := len(s.saved.chain); n > 0 {
		ours = s.saved.chain[n-1].id
	}
	bases, _ := snapshot.Bases(fs, directory)
	for i := range bases { // of one position the newest first
		if s.history.hasName(bases[i].Lineage.At(bases[i].Position)) {
			return bases[i].ID != ours
		}
	}
	return false
}

// prepareJournal opens a journal's directory, as its options say.
func prepareJournal(fs file.FS, wanted *openedJournal) (opened *openedJournal, err error) {
	wanted.served = make(chan struct{})
	wanted.writer, err = journal.Prepare(fs, wanted.directory, wanted.options)
	wanted.options.Held = nil // the writer's; the next one may come when it has let it go
	return wanted, err
}

// beginJournal begins to journal: what changes when the context is no longer still has a record. After an error the writer is
// to be abandoned.
func (s *state) beginJournal(opened *openedJournal, still *page.Still) error {
	from := s.history.stateOf(still)
	if err := opened.writer.Begin(from); err != nil {
		return err
	}
	if err := opened.mapRing(); err != nil {
		return err
	}
	if old := s.journals.open.Load(); old != nil { // it has failed, and refuses changes until now
		_ = s.journals.close()
	}
	if err := opened.openRing(s.context.Index()); err != nil {
		return err
	}
	opened.from, opened.forget = from.Names[0].Position, s.history.kept()
	s.history.goesOnIn(opened.writer.Lineage())
	needsBase := opened.writer.NeedsBase()
	s.journals.open.Store(opened)
	s.journals.kept.Store(false)
	ring := opened.ring
	ring.ServedBy(func() bool { return opened.writer.WriteWaiting(ring) })
	safego.Go(func() {
		defer close(opened.served)
		opened.failed = opened.writer.Serve(ring)
		if opened.failed != nil && opened.told != nil {
			opened.told(opened.failed)
		}
	})
	opened.needsBase = needsBase
	return nil
}

// completeJournal saves the base that a journal needs. Without one it is closed again, and the state is what it was: nothing of
// the journal counts.
func (s *state) completeJournal(opened *openedJournal, w *ticket.Work) error {
	if opened.needsBase {
		header, err := s.saveBase(opened, w)
		if err != nil {
			_ = s.closeJournal()
			opened.forget()
			return err
		}
		if err := opened.writer.HasBase(); err != nil { // the segment may have its name nevertheless, and needs the base then
			_ = s.closeJournal()
			return err
		}
		opened.superseded(header)
	}
	s.history.setChosen(false)
	return nil
}

// The file of a ring has the marks that native sets: this does not compile where they differ.
var _ [0]struct{} = [journal.MarkedBytes - native.RingMarkedBytes]struct{}{}

// RingBytes is the size of a ring's two buffers, the same for all rings of a process. Tests have smaller ones: most of the time
// of opening a journal is taking memory for its ring.
var RingBytes = native.RingBytes

// mapRing makes the file that the ring lies in, so that what calls have put there outlives the process. A journal whose calls
// wait for the disk anyway does without where the file system cannot share memory.
func (j *openedJournal) mapRing() error {
	f, err := j.writer.MakeRing(RingBytes)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	j.shared, err = unix.Mmap(f.Descriptor(), 0, journal.RingFileBytes(RingBytes), unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_SHARED)
	if err != nil && j.options.Durability != journal.EachCall {
		return status.FromErrno(status.Unsupported, err.(syscall.Errno),
			"cannot share memory with a file in %s: only durability call is possible there", j.directory)
	}
	if j.shared != nil {
		_ = unix.Mlock(j.shared) // or its pages come back from the disk
		journal.ShowRing(f, j.shared)
	}
	return nil
}

func (j *openedJournal) openRing(context uint32) error {
	var buffers []byte
	if j.shared != nil {
		buffers = j.shared[journal.RingHeadBytes:]
	}
	ring, code := native.OpenRing(context, j.writer.Next(), RingBytes, j.options.Interval,
		j.options.Durability == journal.EachCall, buffers)
	if code != 0 {
		err := lasterror.Load(code)
		j.unmap()
		return err
	}
	ring.SetPatience(j.spaceWait)
	j.ring = ring
	if !j.resumes {
		j.waits = ring.Waits()
	}
	return nil
}

func (j *openedJournal) unmap() {
	if j.shared != nil {
		_ = unix.Munmap(j.shared)
	}
}

// saveBase saves the state into the directory of a journal that begins behind it.
func (s *state) saveBase(opened *openedJournal, w *ticket.Work) (*snapshot.Header, error) {
	return s.saveBeside(opened, opened.from, SaveOptions{}, w)
}

// saveBeside saves the state into a journal's directory, as a base that is named after about its position.
func (s *state) saveBeside(in *openedJournal, position uint64, o SaveOptions, w *ticket.Work) (*snapshot.Header, error) {
	if err := in.writer.Check(); err != nil {
		return nil, err
	}
	o.id = snapshot.NewID()
	target := SaveTarget{path: filepath.Join(in.directory, snapshot.BaseFileName(position, o.id)), FS: in.writer.FS()}
	header, err := s.save(&target, &o, w)
	return &header, err
}

// SaveBeside saves a context into the directory of its journal, behind other saves: a base that nothing is removed for. The
// options name no path but that of a base in the directory. Where the state does not come from that one, it is saved whole. The
// header is nil where o.UnlessSame has saved nothing.
func SaveBeside(context uint64, o SaveOptions, w *ticket.Work) (header *snapshot.Header, err error) {
	err = useQueued(context, nil, w, func(s *state) error {
		opened := s.journals.open.Load()
		if opened == nil {
			return errNoJournal(context)
		}
		if err := s.context.CheckBeforeSave(); err != nil {
			return err
		}
		opened.writer.Rotate(opened.ring)
		header, err = s.saveBeside(opened, opened.ring.Last(), o, w)
		if status.CodeOf(err) == status.Mismatch && o.Base != "" {
			o.Base = ""
			header, err = s.saveBeside(opened, opened.ring.Last(), o, w)
		}
		if errors.Is(err, errSame) {
			header, err = nil, nil
		}
		return err
	})
	return header, err
}

// OnJournal runs what nobody opens or closes the context's journal beside, and changes its directory by fs. drop removes the
// segments that have no record behind upTo.
func OnJournal(context uint64, w *ticket.Work, run func(fs file.FS, drop func(upTo uint64) error) error) error {
	return onJournal(context, w, func(_ *state, j *openedJournal) error {
		if err := j.writer.Check(); err != nil {
			return err
		}
		return run(j.writer.FS(), j.writer.Drop)
	})
}

// CheckPlace says whether the directory of a context's journal is still at its path. Errors: NotFound, those of the file system.
func CheckPlace(context uint64) error {
	return use(context, func(s *state) error {
		if opened := s.journals.open.Load(); opened != nil {
			return opened.writer.Check()
		}
		return errNoJournal(context)
	})
}

// CloseJournal closes a context's journal after all its records have reached the disk.
func CloseJournal(context uint64) error {
	return onJournal(context, nil, func(s *state, opened *openedJournal) error {
		if opened.told != nil { // somebody relies on it
			return status.Errorf(status.InvalidState, "the journal %q is a store's: it is closed when the context ends",
				opened.directory)
		}
		return s.context.WithoutGroups(s.closeJournal)
	})
}

func errNoJournal(context uint64) error {
	return status.Errorf(status.InvalidState, "context 0x%016x has no journal", context)
}

// closeJournal closes the journal; what the state is then has a name, unless the journal may lack its end. Under the lock.
func (s *state) closeJournal() (err error) {
	opened := s.journals.open.Load()
	opened.ring.SetPatience(0) // what waits for space would change a state that nobody saves
	line := opened.writer.Lineage()
	end := func(print lineage.Fingerprint, known bool) {
		if err = s.journals.close(); err != nil || !known {
			s.leave(opened)
			return
		}
		opened.leaving.Do(func() { s.history.comesFrom(line, opened.ring.Last(), print) })
	}
	// What changes from here on has no record, and a save that begins then another name.
	stillErr := s.context.Still(func(still *page.Still) error {
		print, _ := still.Fingerprint()
		end(print, true)
		return nil
	})
	if stillErr != nil { // no memory: no journal goes on with this state without a base
		end(0, false)
	}
	return err
}

// close ends the journal. Under the lock.
func (j *journals) close() error {
	opened := j.open.Load()
	opened.ring.Stop()
	<-opened.served
	opened.writer.Release()
	if invariant.Enabled {
		last, written := opened.ring.Last(), opened.writer.Next()-1
		invariant.Assert(opened.failed != nil || last == written, "the journal ends with record %d, %d were written", last,
			written)
	}
	opened.lacks = lacksRecords(opened.ring)
	opened.ring.Close()
	opened.unmap()
	j.open.Store(nil)
	return opened.failed
}

// identity is the state's name at the moment of a save: that of the last record of its journal. Without a journal, or with one
// that has failed and may lack its end, it is the next one.
func (s *state) identity() (line lineage.Lineage, position uint64, recorded bool) {
	ring, ok := native.RingOf(s.context.Index())
	if ok && !ring.Failed() {
		s.history.Lock()
		defer s.history.Unlock()
		return s.history.line, ring.Last(), true
	}
	if opened := s.journals.open.Load(); ok && opened != nil {
		s.leave(opened)
	}
	line, position = s.history.next()
	return line, position, false
}

// leave gives the state of a journal that has failed a name of its own, once: nothing changes it until the journal is closed, and
// no journal goes on with it without a base.
func (s *state) leave(opened *openedJournal) {
	opened.leaving.Do(func() {
		s.history.comesFrom(opened.writer.Lineage(), opened.ring.Last(), 0)
		s.history.step()
	})
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
	if opened == nil || opened.keep || opened.ring.Failed() {
		return
	}
	if err := opened.restsOn(path, header); err != nil { // the next save tries again
		log.Logf(log.Warning, "the journal %q keeps its records before %d: %v", opened.directory, header.Position, err)
		return
	}
	opened.superseded(header)
}

// restsOn makes a snapshot the journal's base: its chain is whole, and the directory names it.
func (j *openedJournal) restsOn(path string, header *snapshot.Header) error {
	if err := j.writer.Check(); err != nil {
		return err
	}
	chain, err := snapshot.Open(path, snapshot.OpenOptions{})
	if err != nil {
		return err
	}
	defer func() { _ = chain.Close() }()
	if found := chain.Header(); found.ID != header.ID {
		return status.Errorf(status.Mismatch, "%q is snapshot %s, not %s", path, found.ID, header.ID)
	}
	return snapshot.PutBase(j.writer.FS(), j.directory, path, header)
}

// superseded removes what a base has made unnecessary, unless the journal is to keep it.
func (j *openedJournal) superseded(header *snapshot.Header) {
	if j.keep {
		return
	}
	if err := j.dropBefore(header); err != nil { // the next save tries again
		log.Logf(log.Warning, "cannot remove what the journal %q has before record %d: %v", j.directory, header.Position, err)
	}
}

// dropBefore removes segments and bases before a base, but not bases of other branches, nor those that have a name of a store.
func (j *openedJournal) dropBefore(header *snapshot.Header) error {
	named, err := store.Named(j.writer.FS(), j.directory)
	if err != nil {
		return err
	}
	if err := j.writer.Drop(header.Position); err != nil {
		return err
	}
	return snapshot.RemoveBases(j.writer.FS(), j.directory, header, func(base *snapshot.Base) bool {
		return named(base.ID) || j.writer.HasBranch(base.Lineage.At(base.Position))
	})
}

// end ends the journal of a context that ends; its error says that changes are in no file.
func (j *journals) end() error {
	j.Lock()
	defer j.Unlock()
	if refusal := j.refusing.Swap(nil); refusal != nil {
		refusal.ring.Close()
	}
	if opened := j.open.Load(); opened != nil {
		opened.ring.SetPatience(0)
		switch err := j.close(); {
		case err != nil && opened.lacks && !j.kept.Load():
			j.lose(opened, err)
		case err != nil:
			log.Logf(log.Error, "cannot close the journal %q: %v", opened.directory, err)
		}
	}
	if j.kept.Load() {
		return nil
	}
	return j.lost
}

// lose notes that the segments of a journal end without records of changes that the context has.
func (j *journals) lose(opened *openedJournal, why error) {
	cause, where := status.Of(why), ""
	if opened.shared != nil {
		where = "; journal.ring has them until the system is started anew"
	}
	j.kept.Store(false)
	j.lost = &status.Error{Code: cause.Code, Domain: cause.Domain, Foreign: cause.Foreign, Text: fmt.Sprintf(
		"the journal %q ends without its last records, as it has failed: %s%s", opened.directory, cause.Text, where)}
	log.Logf(log.Error, "%v", j.lost) // a finalizer has nobody to tell
}

// lacksRecords says whether records have not reached the disk.
func lacksRecords(ring native.Ring) bool { return ring.Synced() < ring.Last() }

// LacksRecords says whether a context has changes that neither its journal has, since that has failed, nor a snapshot.
func LacksRecords(context uint64) (lacks bool) {
	_ = use(context, func(s *state) error {
		ring, ok := native.RingOf(s.context.Index())
		lacks = ok && ring.Failed() && lacksRecords(ring) && !s.journals.kept.Load()
		return nil
	})
	return lacks
}

// CheckHasJournal checks the arguments of work on a context's journal.
func CheckHasJournal(context uint64) error {
	return use(context, func(s *state) error {
		if s.journals.open.Load() == nil {
			return errNoJournal(context)
		}
		return nil
	})
}

// SyncJournal waits until the records of all calls that have returned are on the disk. w may be nil.
func SyncJournal(context uint64, w *ticket.Work) error {
	return onJournal(context, w, func(_ *state, j *openedJournal) error {
		last := j.ring.Last()
		if w == nil {
			return lasterror.Load(j.ring.Flush(last))
		}
		const lookAtDone = 50 * time.Millisecond
		for patience := time.Duration(0); ; patience = lookAtDone {
			if done, code := j.ring.FlushFor(last, patience); done {
				return lasterror.Load(code)
			}
			select {
			case <-w.Done():
				return status.Errorf(status.Cancelled, "cancelled before record %d was on the disk", last)
			default:
			}
		}
	})
}

// onJournal does something that nobody opens or closes a journal beside, and that is no part of a group. w may be nil.
func onJournal(context uint64, w *ticket.Work, work func(s *state, j *openedJournal) error) error {
	return use(context, func(s *state) error {
		if err := s.context.CheckNoOwnGroup(); err != nil {
			return err
		}
		if err := s.journals.lock(w); err != nil {
			return err
		}
		defer s.journals.Unlock()
		opened := s.journals.open.Load()
		if opened == nil {
			return errNoJournal(context)
		}
		return work(s, opened)
	})
}

// TrimJournal removes the segments that a snapshot makes unnecessary. w may be nil.
func TrimJournal(context uint64, path string, w *ticket.Work) error {
	return onJournal(context, w, func(_ *state, j *openedJournal) error {
		info, err := snapshot.Verify(path, snapshot.VerifyOptions{Progress: w.Report})
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
		return j.dropBefore(&info.Header)
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
		info.Waits = opened.ring.Waits().Since(opened.waits)
		if invariant.Enabled {
			invariant.Assert(info.Synced <= info.Last, "records up to %d are on the disk, the last one is %d", info.Synced,
				info.Last)
		}
		return nil
	})
	return info, err
}
