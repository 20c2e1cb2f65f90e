package persist

import (
	"runtime/debug"
	"sync/atomic"
	"time"

	"libmmsb/core/file"
	"libmmsb/core/graph"
	"libmmsb/core/journal"
	"libmmsb/core/lineage"
	"libmmsb/core/log"
	"libmmsb/core/page"
	"libmmsb/core/safego"
	"libmmsb/core/snapshot"
	"libmmsb/core/status"
	"libmmsb/core/ticket"
	"libmmsb/native"
)

// Loading a snapshot: its pages are staged as frames that nobody can see; when all are there and verified, the context is frozen,
// the pages that they replace end, and they become pages. Until that last step nothing of the context has changed.

// CheckLoad checks the arguments of a load.
func CheckLoad(context uint64, source LoadSource, o LoadOptions) error {
	return use(context, func(*state) error { return source.check(&o) })
}

func (l *LoadSource) check(o *LoadOptions) error {
	switch {
	case o.InPlace && l.memory != nil:
		return status.Errorf(status.InvalidArgument, "mode is in place, but pages cannot wait in memory: load from a file")
	case o.Journal != "" && o.IDs != nil:
		return status.Errorf(status.InvalidArgument, "page_ids has %d pages, but a journal is replayed into the whole state",
			len(o.IDs))
	case o.Journal == "" && o.until() != (journal.Until{}):
		return status.Errorf(status.InvalidArgument, "journal is NULL, but its replay is to end at a record, a time or an epoch")
	case l.FS != nil && l.path == "" && o.Journal == "":
		return status.Errorf(status.InvalidArgument, "the path is empty, and there is no journal")
	}
	return nil
}

// Load gives the context the pages of a snapshot, as work that somebody else waits for.
func Load(context uint64, source LoadSource, o LoadOptions, w *ticket.Work) error {
	releases, err := loadInto(context, source, o, w)
	giveBack(releases)
	return err
}

// LoadWithin is Load after the tickets, within a timeout. Adopted memory is given back on the calling thread.
func LoadWithin(context uint64, source LoadSource, o LoadOptions, after []*ticket.Ticket, timeout uint64) error {
	if ticket.Elsewhere(timeout, after) {
		if err := page.CheckOutsideGroup(); err != nil {
			return err
		}
	}
	var releases []func()
	err := ticket.Within(timeout, after, func(w *ticket.Work) (err error) {
		releases, err = loadInto(context, source, o, w)
		return err
	})
	giveBack(releases)
	return err
}

// giveBack calls the callers' functions, outside every lock.
func giveBack(releases []func()) {
	for _, release := range releases {
		release()
	}
}

// loadInto loads, and says what gives back the memory of adopted pages that have ended. w may be nil.
func loadInto(context uint64, source LoadSource, o LoadOptions, w *ticket.Work) (releases []func(), err error) {
	err = CheckLoad(context, source, o)
	if source.memory != nil { // which is the caller's, and may end with the call: nothing is read from it later
		o.Lazy = false
	}
	if err != nil {
		return nil, err
	}
	load := func(s *state) (err error) {
		if err = s.context.TellReport(); err == nil {
			releases, err = s.load(&source, &o, w)
		}
		return err
	}
	if o.Follows {
		err = useReloading(context, w, load)
	} else {
		err = useAlone(context, o.Turn, w, load)
	}
	return releases, err
}

func (s *state) load(source *LoadSource, o *LoadOptions, w *ticket.Work) (releases []func(), err error) {
	if s.follows.Load() && !o.Follows {
		return nil, status.Errorf(status.InvalidState, "context 0x%016x follows a store, which alone says what its pages are",
			s.context.Handle())
	}
	if !o.Follows { // who follows waits for them
		if err := s.context.WithoutGroups(func() error { return nil }); err != nil { // before all is read for nothing
			return nil, err
		}
	}
	if err := s.journals.refused(); err != nil && !o.Follows {
		return nil, err
	}
	if source.FS == nil || o.Journal == "" {
		releases, _, err = s.loadOnce(source, o, w)
		return releases, err
	}
	var late error // when the pages have been replaced
	err = journal.Beside(source.FS, o.Journal, func() error {
		var replaced bool
		var err error
		if releases, replaced, err = s.loadOnce(source, o, w); replaced {
			late = err
			return nil
		}
		return err
	})
	if err == nil {
		err = late
	}
	return releases, err
}

// manyPages is from how many pages on what a load leaves to Go's collector is given back to the system soon. Go by itself does it
// minutes later; of 3 million pages it is 400 MB.
const manyPages = 1 << 18

// loadOnce also says whether the pages have been replaced.
func (s *state) loadOnce(source *LoadSource, o *LoadOptions, w *ticket.Work) (releases []func(), replaced bool, err error) {
	done := w.Done()
	r := s.context.Residency()
	unasked := new(atomic.Bool)
	defer unasked.Store(true) // pages that wait are read later
	ask := func() error {
		if unasked.Load() {
			return nil
		}
		return s.goesOn(w, 0)
	}
	fs := file.Asking(file.OS{}, ask)
	// A snapshot has effects of records that its writer puts into the journal before it completes the snapshot: so the journal is
	// looked at later.
	var opened *snapshot.Snapshot
	if source.FS == nil || source.path != "" {
		if opened, err = source.open(ask, r.DiskPath(), done); err != nil {
			return nil, false, err
		}
	}
	var read *journal.Replay
	if o.Journal != "" {
		if opened == nil {
			read, opened, err = openWithBase(fs, o)
		} else { // after the snapshot
			read, err = journal.OpenReplay(fs, o.Journal)
		}
	}
	if err == nil {
		err = o.expects(opened)
	}
	if err != nil {
		if opened != nil {
			_ = opened.Close()
		}
		return nil, false, err
	}
	l := &loader{state: s, residency: r, o: o, work: w, file: opened, journal: read, unasked: unasked,
		sums: make(map[uint32][]uint32), changedIn: make(map[uint32]int)}
	releases, err = l.run()
	if len(l.Pages) >= manyPages {
		time.AfterFunc(time.Second, debug.FreeOSMemory)
	}
	if l.source == nil {
		_ = opened.Close()
	} else { // the last page that waits in it closes it
		l.source.Done()
	}
	return releases, l.replaced, err
}

// expects says whether a snapshot is the one that is to be loaded. Errors: Mismatch.
func (o *LoadOptions) expects(opened *snapshot.Snapshot) error {
	if id := opened.Header().ID; o.Snapshot != (snapshot.ID{}) && id != o.Snapshot {
		return status.Errorf(status.Mismatch, "what is to be loaded is snapshot %s, not %s", id, o.Snapshot)
	}
	return nil
}

func (l *loader) run() (releases []func(), err error) {
	if l.work != nil {
		l.work.SetTotal(l.file.Totals().StateBytes)
	}
	l.Staging = page.NewStaging(l.context, l.expected())
	defer func() {
		if l.indexed != nil { // it reads the file
			<-l.indexed
		}
		if !l.replaced {
			l.Drop()
		}
	}()
	if l.o.InPlace {
		if l.o.IDs == nil {
			if err := l.verify(); err != nil {
				return nil, err
			}
		}
		l.context.Memory().MayExceed(true) // by what is beside the bytes: change masks, metadata
		l.ReadTogether = readTogether
	}
	err = l.stageState()
	if l.o.InPlace {
		l.context.Memory().MayExceed(false)
	}
	if err == nil && l.o.InPlace && l.o.IDs != nil {
		err = l.verifyChosen()
	}
	if err != nil {
		return nil, err
	}
	if err := l.replayJournal(); err != nil {
		return nil, err
	}
	l.forgetChanged()
	if l.o.Follows {
		release, err := l.context.KeepGroupsOut(l.work.Done())
		if err != nil {
			return nil, err
		}
		defer release()
	}
	// What is remembered only a save reads, and there is none.
	l.journals.Lock()
	defer l.journals.Unlock()
	l.unasked.Store(l.o.InPlace) // adopted memory is filled whole
	if releases, err = l.Commit(l.o.IDs == nil, l.remember, l.branchJournal); err != nil {
		return nil, err
	}
	l.replaced = true
	l.unasked.Store(false)
	if err = l.Unfilled; l.o.InPlace && err == nil {
		err = l.bringIn()
	}
	if failed := l.completeBranch(); err == nil {
		err = failed
	}
	if err != nil {
		return releases, err
	}
	log.Logf(log.Info, "context 0x%016x loaded: %d pages, snapshot %s", l.context.Handle(), len(l.Pages), l.file.Header().ID)
	return releases, nil
}

// expected is how many pages are to be staged, about.
func (l *loader) expected() uint64 {
	const most = 1 << 23 // what the file says is not yet proven, though it has room for it
	if l.o.IDs != nil {
		return uint64(len(l.o.IDs))
	}
	return min(l.file.PagesAtMost(), most)
}

// stageState stages what the snapshot has of the pages that are wanted.
func (l *loader) stageState() (err error) {
	var want func(id uint64) bool // nil = all
	if l.o.IDs != nil {
		chosen := make(map[uint64]struct{}, len(l.o.IDs))
		for _, id := range l.o.IDs {
			chosen[id] = struct{}{}
		}
		want = func(id uint64) bool { _, ok := chosen[id]; return ok }
	}
	lazy := l.o.Lazy || l.o.InPlace
	if lazy {
		l.makeIndex()
		if want, err = l.stageLazy(want); err != nil {
			return err
		}
	}
	if !lazy || want != nil {
		how := snapshot.LoadOptions{Want: want, SumsLater: true, DistinctLater: want == nil, GoesOn: l.asked} // Add sees it
		if err := l.file.ParallelSegments(how, l.segment); err != nil {
			return err
		}
	}
	if err := l.complete(); err != nil {
		return err
	}
	for _, id := range l.o.IDs {
		if _, ok := l.Handles.Find(id); !ok {
			return status.Errorf(status.NotFound, "the snapshot has no page %d", id)
		}
	}
	return l.edges()
}

// makeIndex makes, beside the load, what the first page that is read later is found with.
func (l *loader) makeIndex() {
	l.indexed = make(chan struct{})
	safego.Go(func() {
		defer close(l.indexed)
		_ = l.file.MakeIndex(func() error { return l.goesOn(l.work, 0) }) // a page that is read makes it else, and has the error
	})
}

// asked says whether the load goes on.
func (l *loader) asked() error { return l.goesOn(l.work, l.done) }

// edges makes the graph of dependencies, which core/snapshot has looked at. Edges of pages that are not staged are ignored.
func (l *loader) edges() error {
	built, count := graph.Build(l.Graph), 0
	for edge, err := range l.file.Edges() {
		if err != nil {
			return err
		}
		parent, parentOK := l.Handles.Find(edge[0])
		child, childOK := l.Handles.Find(edge[1])
		if count++; count%(1<<12) == 0 {
			if err := l.asked(); err != nil {
				return err
			}
		}
		if parentOK && childOK {
			built.Add(native.Index(parent), native.Index(child))
		}
	}
	return nil
}

// forgetChanged makes sure that a page that the replay has changed is not taken for the snapshot's.
func (l *loader) forgetChanged() {
	for i := range l.inSnapshot {
		s := &l.inSnapshot[i]
		record := native.RecordAt(s.Index)
		if record.Version != s.Version || native.Generation(record.LoadState()) != s.Generation {
			s.Changed = 1
		}
	}
}

// remember notes what the context's pages are in the snapshot, for incremental saves. Where pages were chosen, the context still
// comes from the snapshots that it came from: the pages that were loaded are new, and those that they replace are no more.
func (l *loader) remember() {
	l.journals.known = nil
	if l.journal != nil {
		l.journals.known = l.journal.Known()
	}
	if l.o.IDs != nil {
		return
	}
	l.loaded.Point, l.loaded.moved = l.line.At(l.position), l.Version != 0
	for _, leaf := range l.context.Memory().Leaves() {
		native.ForgetSaved(leaf.Number)
	}
	saves := &l.saved
	saves.chain, saves.large, saves.changedIn = nil, make(map[uint32]largeSaved), l.changedIn
	if l.line.At(l.position).Far() { // what follows begins anew, as from a file without a lineage
		l.line, l.position = lineage.Lineage{}, 0
	}
	l.history.comesFrom(l.line, l.position, l.fingerprint())
	// Where versions went down, the records of a journal that others wrote would be skipped by a replay.
	l.history.setChosen(l.o.Journal == "" || l.o.until() != journal.Until{} || l.Far)
	if l.file.Header().Version == snapshot.OriginalVersion {
		return
	}
	chain := l.file.Chain()
	for i := len(chain) - 1; i >= 0; i-- {
		saves.chain = append(saves.chain, savedAs{id: chain[i].ID, state: chain[i].Lineage.At(chain[i].Position), file: i})
	}
	saves.past = l.line.At(l.position)
	totals := l.file.Totals()
	saves.totals.pages, saves.totals.bytes = totals.StatePages, totals.StateBytes
	known := l.Pages
	if l.inSnapshot != nil {
		known = l.inSnapshot
	}
	var saved *[native.LeafRecords]native.Saved
	for i := range known {
		s := &known[i]
		if i == 0 || s.Index>>native.LeafBits != known[i-1].Index>>native.LeafBits {
			saved = native.SavedLeaf(s.Index >> native.LeafBits)
		}
		if saved == nil { // then the next save must be a whole one
			saves.chain = nil
			return
		}
		version := s.Version
		switch {
		case s.Changed != 0:
			version = 0 // which no page has
		case l.Version != 0:
			version = l.Version
		}
		saved[s.Index&(native.LeafRecords-1)] = native.Saved{
			Version: version, ID: s.ID, Size: s.Size, Generation: s.Generation, CRC: s.CRC,
		}
		if sums := l.sums[s.Index]; sums != nil {
			saves.large[s.Index] = largeSaved{generation: s.Generation, sums: sums, layers: make([]uint8, len(sums))}
		}
	}
}

// fingerprint is that of what was loaded.
func (l *loader) fingerprint() (print lineage.Fingerprint) {
	for i := range l.Pages {
		print.Page(l.Pages[i].ID, l.Pages[i].Version, l.Pages[i].Size)
	}
	for _, edge := range l.Graph.All() {
		print.Edge(page.IDOf(edge[0]), page.IDOf(edge[1]))
	}
	return print
}
