// Package keeper keeps contexts in stores: it opens them, saves them by itself, and removes what no rule keeps. It adds no way to
// write state: what it opens is a load and a journal, what it saves is a base in the journal's directory.
package keeper

import (
	"math"
	"sync"
	"sync/atomic"
	"time"

	"libmmsb/core/abi"
	"libmmsb/core/file"
	"libmmsb/core/log"
	"libmmsb/core/page"
	"libmmsb/core/persist"
	"libmmsb/core/safego"
	"libmmsb/core/snapshot"
	"libmmsb/core/status"
	"libmmsb/core/store"
	"libmmsb/core/ticket"
)

// Options has the fields of mmsb_store_options_t.
type Options struct {
	At           store.At
	Mode         int32
	Lazy         bool
	Durability   int32
	IntervalMs   uint32
	SegmentBytes uint64
	SaveBytes    uint64 // of journal, after which a save begins; 0: a part of the state's bytes; Never: none
	SaveInterval uint64 // nanoseconds after which a save begins, if anything has changed; 0: none
	SpaceWait    uint64 // nanoseconds that calls wait after the disk is found full
	Retention    store.Retention
}

// Never is the number of bytes of journal that never come.
const Never = math.MaxUint64

// Where an option says nothing, a save begins when the journal has a tenth of the state's bytes, and it does not rest on the one
// before when the snapshots that rest on the last whole one have a tenth of its bytes; with a whole one that is being written a
// store then takes 2.2 times its state. Below leastSaveBytes neither is worth it.
const (
	share        = 10
	longestChain = 32 // of snapshots: a load reads all of them
	mostGrows    = 64 // as long as nothing is known: what is saved of a large page where a record of 64 bytes lies
)

// Tests have small states.
var leastSaveBytes int64 = 64 << 20

// Check checks what a program has asked for.
func (o *Options) Check(directory string) error {
	switch {
	case o.Mode < abi.StoreWrite || o.Mode > abi.StoreFollow:
		return status.Errorf(status.InvalidArgument, "mode is %d, not write, read, branch or follow", o.Mode)
	case o.At != (store.At{}) && (o.Mode == abi.StoreWrite || o.Mode == abi.StoreFollow):
		return status.Errorf(status.InvalidArgument,
			"mode is %s, which goes on from the newest state; an older one can be read, or a branch can begin there",
			map[int32]string{abi.StoreWrite: "write", abi.StoreFollow: "follow"}[o.Mode])
	case o.At == (store.At{}) && o.Mode == abi.StoreBranch:
		return status.Errorf(status.InvalidArgument, "mode is branch, but no name, record or time says where it begins")
	}
	if err := o.At.Check(); err != nil {
		return err
	}
	if err := o.Retention.Check(); err != nil {
		return err
	}
	j := o.journal()
	return j.Check(directory)
}

// journal is the options of a journal whose records only the keeper drops.
func (o *Options) journal() persist.JournalOptions {
	return persist.JournalOptions{Durability: o.Durability, IntervalMs: o.IntervalMs, SegmentBytes: o.SegmentBytes, Keep: true,
		SpaceWait: time.Duration(min(o.SpaceWait, math.MaxInt64))}
}

// keeper keeps one context.
type keeper struct {
	context   uint64
	directory string
	options   Options

	wake    chan struct{}                // has one when the journal has grown enough, or failed
	written atomic.Int64                 // bytes of journal since the last save
	due     atomic.Int64                 // with how many a save begins
	failed  atomic.Pointer[status.Error] // of the journal; nil: it works

	saving  chan struct{} // is full while somebody saves or removes
	newest  snapshot.Header
	savedAt atomic.Uint64 // its position
	strayed atomic.Uint64 // persist.Strayed that the newest snapshot surely has
	grows   float64       // bytes that a snapshot of what has changed had for each byte of journal

	statistics struct {
		sync.Mutex
		Statistics
	}
}

// Statistics are what a keeper has done since the store was opened.
type Statistics struct {
	Saves, WholeSaves, FailedSaves uint64 // of its own accord, or because a program asked
	SavedBytes                     uint64
	LastSave                       int64 // nanoseconds since 1970; 0: none
	Pruned, PrunedBytes            uint64
}

// reads says that a mode is of a context that calls cannot change.
func reads(mode int32) bool { return mode == abi.StoreRead || mode == abi.StoreFollow }

var keepers = struct {
	sync.Mutex
	byContext map[uint64]*keeper
	followers map[uint64]*follower
	readers   map[uint64]*keeper
}{byContext: make(map[uint64]*keeper), followers: make(map[uint64]*follower), readers: make(map[uint64]*keeper)}

// keeperOf is the keeper of a live context.
func keeperOf(context uint64) (*keeper, error) {
	if err := page.Use(context, func(*page.Context) error { return nil }); err != nil {
		return nil, err
	}
	keepers.Lock()
	defer keepers.Unlock()
	if k := keepers.byContext[context]; k != nil {
		return k, nil
	}
	return nil, status.Errorf(status.InvalidState, "context 0x%016x was not opened from a store for writing", context)
}

func newKeeper(context uint64, directory string, o *Options) *keeper {
	return &keeper{context: context, directory: directory, options: *o, wake: make(chan struct{}, 1),
		saving: make(chan struct{}, 1), grows: mostGrows}
}

// begin begins to look after the context, whose journal is open.
func (k *keeper) begin() error {
	ended, err := persist.Ended(k.context)
	if err != nil {
		return err
	}
	s, err := k.store()
	if err != nil {
		return err
	}
	newest := s.Newest()
	k.written.Add(s.Since(newest))
	if newest != nil {
		k.isNewest(&newest.Header)
	}
	if k.options.Mode == abi.StoreWrite && (len(s.Points) > 1 || len(s.Journal.Segments) > 1) {
		// Who had the store open before may have ended between a save and this.
		if err := k.prune(s, nil); err != nil {
			log.Logf(log.Warning, "the store %q has more than its rules keep: %v", k.directory, err)
		}
	}
	k.setDue()
	keepers.Lock()
	keepers.byContext[k.context] = k
	keepers.Unlock()
	safego.Go(func() {
		k.run(ended)
		keepers.Lock()
		defer keepers.Unlock()
		delete(keepers.byContext, k.context)
	})
	return nil
}

// wrote comes from the journal's writer, which must not wait here.
func (k *keeper) wrote(bytes int64) {
	if k.written.Add(bytes) >= k.due.Load() {
		k.call()
	}
}

// journalFailed comes from the journal's writer.
func (k *keeper) journalFailed(err error) {
	k.failed.Store(status.Of(err))
	k.call()
}

func (k *keeper) call() {
	select {
	case k.wake <- struct{}{}:
	default:
	}
}

// setDue says when the next save begins.
func (k *keeper) setDue() {
	due := k.options.SaveBytes
	if due == 0 {
		bytes, _ := persist.StateBytes(k.context) // 0 where the context is ending
		due = max(uint64(leastSaveBytes), bytes/share)
	}
	k.due.Store(int64(min(due, math.MaxInt64)))
	if k.isDue() {
		k.call()
	}
}

// run saves when it is time, until the context ends.
func (k *keeper) run(ended <-chan struct{}) {
	interval := time.Duration(min(k.options.SaveInterval, math.MaxInt64))
	for {
		var clock <-chan time.Time
		if interval > 0 {
			clock = time.After(interval)
		}
		select {
		case <-ended:
			return
		case <-k.wake:
		case <-clock:
			if k.failed.Load() == nil { // else what is below decides whether it goes on
				k.untilDone(ended, "saved", k.saveIf(k.changed))
			}
		}
		if persist.CheckHasJournal(k.context) != nil { // it was closed: there is nothing to keep any more
			return
		}
		// Where the disk was full there may be space again; what else has failed goes on failing.
		if failed := k.failed.Load(); failed != nil {
			if failed.Code == status.NoSpace {
				k.untilDone(ended, "gone on with", k.resume)
			}
			continue
		}
		k.untilDone(ended, "saved", k.saveIf(k.isDue))
	}
}

// tryAgain is when what failed is tried again at first, and at last. Tests wait for less.
var tryAgain = struct{ first, last time.Duration }{time.Second, 10 * time.Second}

// untilDone does work, and again where it fails, later and later, until the context ends or its journal fails meanwhile.
func (k *keeper) untilDone(ended <-chan struct{}, what string, work func(w *ticket.Work) error) {
	failed := k.failed.Load()
	for patience := tryAgain.first; failed == k.failed.Load(); patience = min(2*patience, tryAgain.last) {
		err := unless(ended, work)
		if err == nil || persist.CheckHasJournal(k.context) != nil {
			return
		}
		k.count(func(s *Statistics) { s.FailedSaves++ })
		log.Logf(log.Warning, "the store %q was not %s, it is tried again after %v: %v", k.directory, what, patience, err)
		select {
		case <-ended:
			return
		case <-time.After(patience):
		}
		if status.CodeOf(err) == status.NoSpace {
			_ = unless(ended, k.makeSpace) // what it cannot remove the next save does
		}
	}
}

// makeSpace removes what no rule keeps and a save that found no space has left.
func (k *keeper) makeSpace(w *ticket.Work) error {
	return k.alone(w, func() error {
		s, err := k.store()
		if err != nil {
			return err
		}
		return k.prune(s, w)
	})
}

// isDue says whether the journal has grown enough since the last save.
func (k *keeper) isDue() bool { return k.written.Load() >= k.due.Load() }

// changed says whether there are records behind the last save, or may be bytes that have none.
func (k *keeper) changed() bool {
	info, err := persist.GetJournalInfo(k.context)
	return err == nil && (info.Last > k.savedAt.Load() || k.mayBeWritten())
}

// mayBeWritten says whether the state may have bytes that neither a record nor the newest snapshot has.
func (k *keeper) mayBeWritten() bool {
	return persist.MayBeWritten(k.context) || persist.Strayed(k.context) != k.strayed.Load()
}

// unless works until the context ends.
func unless(ended <-chan struct{}, run func(w *ticket.Work) error) error {
	work := ticket.Start(0, nil, run)
	defer work.Close()
	over := make(chan struct{})
	defer close(over)
	safego.Go(func() {
		select {
		case <-ended:
			work.Cancel()
		case <-over:
		}
	})
	return work.Wait(ticket.Forever)
}

func (k *keeper) isNewest(header *snapshot.Header) {
	k.newest = *header
	k.savedAt.Store(header.Position)
}

func (k *keeper) count(what func(s *Statistics)) {
	k.statistics.Lock()
	defer k.statistics.Unlock()
	what(&k.statistics.Statistics)
}

// alone runs what nobody saves or removes beside.
func (k *keeper) alone(w *ticket.Work, run func() error) error {
	if !w.Enter(k.saving, nil) {
		return status.Errorf(status.Cancelled, "cancelled while another save was running")
	}
	defer func() { <-k.saving }()
	return run()
}

func (k *keeper) save(whole bool, w *ticket.Work) error {
	return k.alone(w, func() error { return k.saveAlone(whole, false, w) })
}

// saveIf saves where that is needed, also when a save that ran before it has ended: it may have made this one needless.
func (k *keeper) saveIf(needed func() bool) func(w *ticket.Work) error {
	return func(w *ticket.Work) error {
		if !needed() {
			return nil
		}
		return k.alone(w, func() error {
			if !needed() {
				return nil
			}
			return k.saveAlone(false, true, w)
		})
	}
}

// resume goes on with a journal that has failed.
func (k *keeper) resume(w *ticket.Work) error {
	return k.alone(w, func() error {
		if !persist.HasFailedJournal(k.context) { // a save has gone on with it
			return nil
		}
		return k.resumeAlone(false, w)
	})
}

// resumeAlone saves, and the journal goes on behind it.
func (k *keeper) resumeAlone(whole bool, w *ticket.Work) error {
	o, err := k.optionsFor(whole, w)
	if err != nil {
		return err
	}
	strayed := persist.Strayed(k.context)
	header, err := persist.ResumeJournal(k.context, o, w)
	if err != nil {
		return err
	}
	k.strayed.Store(strayed)
	k.failed.Store(nil)
	s, err := k.store()
	if err != nil {
		return err
	}
	k.hasSaved(header, s, 0)
	log.Logf(log.Info, "the store %q goes on", k.directory)
	return k.prune(s, w)
}

// store is what the store has, which the context has open for writing.
func (k *keeper) store() (*store.Store, error) {
	if err := persist.CheckPlace(k.context); err != nil {
		return nil, err
	}
	return store.Look(file.OS{}, k.directory)
}

// hasSaved notes a snapshot, which a look at the store has found, behind so many bytes of journal.
func (k *keeper) hasSaved(header *snapshot.Header, s *store.Store, recorded int64) {
	k.isNewest(header)
	k.setDue()
	k.learn(header, s, recorded)
	k.count(func(facts *Statistics) {
		facts.Saves++
		if header.Base == (snapshot.ID{}) {
			facts.WholeSaves++
		}
		facts.LastSave = header.Taken.UnixNano()
		if p := s.Point(header.ID); p != nil {
			facts.SavedBytes += uint64(p.Bytes)
		}
	})
}

// learn notes how long snapshots of large pages become: bytes that changed here and there take more of them than of the journal.
// Where whole ones are better, others are tried again after some of these.
func (k *keeper) learn(header *snapshot.Header, s *store.Store, recorded int64) {
	const forget = 0.5
	p := s.Point(header.ID)
	switch {
	case header.Base == (snapshot.ID{}):
		k.grows *= forget
	case p != nil && recorded > 0:
		k.grows = float64(p.Bytes) / float64(recorded)
	}
}

// optionsFor says on which snapshot the next one rests: the newest one, as long as what rests on the whole one stays small beside
// it. Then the whole one itself, where the same pages have changed again and again: one increment has all of them once, and takes
// the place of the others. Else it is a whole one, as where an increment would be half as long as that.
func (k *keeper) optionsFor(whole bool, w *ticket.Work) (o persist.SaveOptions, err error) {
	s, err := k.store()
	if err != nil {
		return o, err
	}
	o.ChainLimit = longestChain
	newest := s.Newest()
	if newest == nil || newest.Elsewhere() || whole {
		return o, nil
	}
	files, all, increments, err := s.Chain(newest)
	if err != nil {
		return o, err
	}
	small, large, err := persist.Changed(k.context)
	if err != nil {
		return o, err
	}
	most := float64(max(leastSaveBytes, all) / share)
	expected := float64(small) + min(float64(large), k.grows*float64(k.written.Load()))
	const worthIt = 2
	if expected >= float64(all)/worthIt {
		return o, nil
	}
	if float64(increments)+expected < most && len(files) < longestChain {
		o.Base = newest.Path
		return o, nil
	}
	const room = 2 // it leaves half of the bound, or the next save would have to do the same
	if root := files[len(files)-1]; len(files) > 2 {
		bytes, err := persist.ChangedSince(k.context, root, w)
		switch {
		case status.CodeOf(err) == status.Mismatch: // then a whole one
		case err != nil:
			return o, err
		case float64(bytes) < most/room:
			o.Base = root
		}
	}
	return o, nil
}

// saveAlone saves what has changed since the last save, or everything, and removes what no rule keeps. unlessSame: nothing is
// saved where nothing has changed.
func (k *keeper) saveAlone(whole, unlessSame bool, w *ticket.Work) error {
	if persist.HasFailedJournal(k.context) { // what is saved beside it leads nowhere, unless it goes on from there
		return k.resumeAlone(whole, w)
	}
	o, err := k.optionsFor(whole, w)
	if err != nil {
		return err
	}
	o.UnlessSame = unlessSame
	before, strayed := k.written.Load(), persist.Strayed(k.context)
	header, err := persist.SaveBeside(k.context, o, w)
	if err == nil && persist.HasFailedJournal(k.context) { // meanwhile
		return k.resumeAlone(whole, w)
	}
	if err == nil {
		k.strayed.Store(strayed)
	}
	if err != nil || header == nil {
		return err
	}
	k.written.Add(-before)
	s, err := k.store()
	if err != nil {
		return err
	}
	k.hasSaved(header, s, before)
	return k.prune(s, w)
}

// prune removes what no rule keeps.
func (k *keeper) prune(s *store.Store, w *ticket.Work) error {
	return persist.OnJournal(k.context, w, func(fs file.FS, drop func(uint64) error) error {
		pruned, err := s.In(fs).Prune(k.options.Retention, drop)
		k.count(func(facts *Statistics) {
			facts.Pruned += uint64(pruned.Snapshots)
			facts.PrunedBytes += uint64(pruned.Bytes)
		})
		return err
	})
}

// Save saves a context into its store now, as its keeper does of its own accord; whole: all of it, so that the snapshot rests on
// no other, and the others can go.
func Save(context uint64, whole bool, w *ticket.Work) error {
	k, err := keeperOf(context)
	if err != nil {
		return err
	}
	return k.save(whole, w)
}

// SetName saves a context into its store and gives the snapshot a name, durably. Another snapshot of that name loses it.
func SetName(context uint64, name string, w *ticket.Work) error {
	if err := store.CheckName(name); err != nil {
		return err
	}
	k, err := keeperOf(context)
	if err != nil {
		return err
	}
	return k.alone(w, func() error {
		if err := k.saveAlone(false, false, w); err != nil {
			return err
		}
		return persist.OnJournal(context, w, func(fs file.FS, _ func(uint64) error) error {
			return store.SetName(fs, k.directory, name, k.newest.ID)
		})
	})
}

// RemoveName takes a name away: a later save removes the snapshot if no other rule keeps it.
func RemoveName(context uint64, name string, w *ticket.Work) error {
	k, err := keeperOf(context)
	if err != nil {
		return err
	}
	return k.alone(w, func() error {
		return persist.OnJournal(context, w, func(fs file.FS, _ func(uint64) error) error {
			return store.RemoveName(fs, k.directory, name)
		})
	})
}

// CheckSave checks the arguments of Save.
func CheckSave(context uint64) error {
	_, err := keeperOf(context)
	return err
}

// CheckSetName checks the arguments of SetName.
func CheckSetName(context uint64, name string) error {
	if err := store.CheckName(name); err != nil {
		return err
	}
	return CheckSave(context)
}

// Info is mmsb_store_info_t.
type Info struct {
	Statistics
	Snapshots, SnapshotBytes uint64
	Unsaved                  uint64 // bytes of journal since the last save
	Journal                  persist.JournalInfo
	Following                Following
}

// GetInfo is what a store has, and what its keeper or follower has done.
func GetInfo(context uint64) (info Info, err error) {
	if f := followerOf(context); f != nil {
		return f.info()
	}
	if r := readerOf(context); r != nil {
		record, err := persist.LoadedRecord(context)
		if err != nil { // it has ended
			return info, err
		}
		info, err = r.look()
		info.Journal.Last = record
		return info, err
	}
	k, err := keeperOf(context)
	if err != nil {
		return info, err
	}
	if info.Journal, err = persist.GetJournalInfo(context); err != nil {
		return info, err
	}
	s, err := k.store()
	if err != nil {
		return info, err
	}
	info.has(s)
	info.Unsaved = uint64(max(0, k.written.Load()))
	k.count(func(facts *Statistics) { info.Statistics = *facts })
	return info, nil
}

// look is what a directory has that somebody else may write.
func (k *keeper) look() (info Info, err error) {
	s, err := store.Look(file.OS{}, k.directory)
	if err != nil {
		return info, err
	}
	info.has(s)
	info.Journal.First = s.Journal.First
	for _, segment := range s.Journal.Segments {
		info.Journal.Bytes += uint64(segment.Bytes)
	}
	return info, nil
}

func (i *Info) has(s *store.Store) {
	i.Snapshots, i.SnapshotBytes = uint64(len(s.Points)), uint64(s.SnapshotBytes())
}
