package persist

import (
	"cmp"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"libmmsb/core/journal"
	"libmmsb/core/lineage"
	"libmmsb/core/page"
	"libmmsb/core/snapshot"
	"libmmsb/core/status"
	"libmmsb/core/ticket"
	"libmmsb/native"
)

// state is what this package knows of a context: its saves, its journal, and its pages' memory that the kernel watches.
type state struct {
	context *page.Context
	ending  atomic.Bool   // the context is to end: give up
	ended   chan struct{} // closed then
	// busy is full while a save or load runs, of which one runs at a time, or somebody opens a journal.
	busy chan struct{}
	// turns are those who wait for it, in their order.
	turns struct {
		sync.Mutex
		last chan struct{} // closed when all of them have passed
	}
	// moment is full while a save takes its moment, or a follower applies a group.
	moment chan struct{}
	// loaded is the state that the last load gave, of the whole context; moved: with versions of its own.
	loaded struct {
		lineage.Point
		moved bool
	}
	follows atomic.Bool // somebody follows a journal, or did
	reloads atomic.Bool // and loads the newest state, or waits to

	saved      saved // under busy
	history    history
	statistics statistics
	journals   journals
	tracking   tracking
}

func newState(c *page.Context) *state {
	s := &state{context: c, ended: make(chan struct{}), busy: make(chan struct{}, 1), moment: make(chan struct{}, 1)}
	s.turns.last = make(chan struct{})
	close(s.turns.last)
	s.history.begin()
	return s
}

// use runs a call on what is known of a live context, which does not end meanwhile.
func use(context uint64, call func(s *state) error) error {
	return page.Use(context, func(c *page.Context) error { return call(c.Persistence().(*state)) })
}

// useAlone is use for a save or load, or what may not be beside one. The thread has no group open, which those wait for or
// refuse. work and turn may be nil: it is waited for a follower's load only.
func useAlone(context uint64, turn *Turn, work *ticket.Work, call func(s *state) error) error {
	return use(context, func(s *state) error {
		if err := s.context.CheckNoOwnGroup(); err != nil {
			return err
		}
		if turn != nil {
			if err := turn.enter(work); err != nil {
				return err
			}
			defer func() { <-s.busy }()
			return call(s)
		}
		select {
		case s.busy <- struct{}{}:
		default:
			if !s.reloads.Load() { // what nobody has asked for is waited for
				return status.Errorf(status.Busy, "context 0x%016x: another save or load is running", context)
			}
			if !work.Enter(s.busy, s.ended) {
				return cmp.Or(s.goesOn(nil, 0), status.Errorf(status.Cancelled, "cancelled while the newest state was loaded"))
			}
		}
		defer func() { <-s.busy }()
		return call(s)
	})
}

// useQueued is useAlone behind what runs, and behind those who wait already.
func useQueued(context uint64, turn *Turn, work *ticket.Work, call func(s *state) error) error {
	return use(context, func(s *state) error {
		if turn == nil {
			turn = s.queueUp()
		}
		if err := turn.enter(work); err != nil {
			return err
		}
		defer func() { <-s.busy }()
		if err := s.goesOn(work, 0); err != nil { // both may have come at once
			return err
		}
		return call(s)
	})
}

// goesOn says whether work on a context is still wanted, after so many bytes of it.
func (s *state) goesOn(work *ticket.Work, done uint64) error {
	if s.ending.Load() {
		return status.Errorf(status.StaleHandle, "context 0x%016x is ending", s.context.Handle())
	}
	if work != nil && work.Cancelled() {
		return status.Errorf(status.Cancelled, "cancelled after %d bytes", done)
	}
	return nil
}

// journals is what a context knows of its journal.
type journals struct {
	sync.Mutex                               // opening and closing, and what may not be between them
	open       atomic.Pointer[openedJournal] // nil where there is none
	// refusing stands for a journal where there is none and calls may change nothing.
	refusing atomic.Pointer[refusal]
	known    *journal.Known // of the last load: how far it has read its journal; nil: it had none
	lost     error          // a journal ends without its last records; nil: none does
	kept     atomic.Bool    // a snapshot has what no journal has
}

// refusal lets calls that would change a context fail.
type refusal struct {
	ring native.Ring // whose error those get that would have a record
	why  error
}

// openedJournal is a journal from opening to closing.
type openedJournal struct {
	keep      bool            // segments that snapshots have made unnecessary
	spaceWait time.Duration   // see JournalOptions
	told      func(err error) // when the writer has failed; nil = nobody
	writer    *journal.Writer
	ring      native.Ring
	waits     native.Waits // of the ring, before the journal was opened
	resumes   bool         // a journal that had failed, whose waits count on
	shared    []byte       // the file that the ring's buffers lie in
	directory string
	options   journal.Options
	from      uint64        // position of the state that it went on from
	forget    func()        // makes the history what it was before
	needsBase bool          // of that state
	served    chan struct{} // closed when the writer has ended
	failed    error         // of the writer, when it has ended
	lacks     bool          // records have not reached the disk, when it is closed
	leaving   sync.Once     // of what the journal has, or may lack
}

// saved is what is known of the snapshots that a context's state comes from.
type saved struct {
	// chain is these snapshots, the newest last; native.LastSaved tells of that one.
	chain []savedAs
	// past is the state that was loaded, with the records of a journal.
	past lineage.Point
	// changedIn is of the pages that were loaded, by record: in which file of the chain they had changed last, unless it is the
	// oldest; or in none (inNoFile).
	changedIn map[uint32]int
	totals    struct{ pages, bytes uint64 } // of the newest
	large     map[uint32]largeSaved         // by record
}

// savedAs is a snapshot and the state that it has.
type savedAs struct {
	id    snapshot.ID
	state lineage.Point
	// file is its number in the chain that was loaded; -1: this context has saved it, and all states of the lineage behind after.
	file  int
	after uint64
}

// isNow notes a save. Of a lineage it stands for those before it.
func (s *saved) isNow(id snapshot.ID, state lineage.Point) {
	now := savedAs{id: id, state: state, file: -1}
	if n := len(s.chain); n > 0 && state.Covers(s.chain[n-1].state) {
		if last := s.chain[n-1]; last.file < 0 {
			now.after, s.chain = last.after, s.chain[:n-1]
		} else {
			now.after = last.state.Position
		}
	}
	s.chain = append(s.chain, now)
}

// unchanged says of the pages of a snapshot that the state comes from, by record, whether their bytes are those of the context as
// long as their version is. Writes through pointers move no version, so that only this context's own saves, which know where
// addresses were given out, and the files that it was loaded from can tell. ok: the state comes from the snapshot.
func (s *saved) unchanged(id snapshot.ID, state lineage.Point) (since func(index uint32) bool, ok bool) {
	since, ok = func(uint32) bool { return false }, s.past.Covers(state)
	for _, of := range s.chain {
		covers := of.state.Covers(state)
		switch {
		case of.file < 0 && (of.id == id || covers && (of.state == state || state.Position > of.after)):
			return func(uint32) bool { return true }, true
		case of.file >= 0 && of.id == id:
			return func(index uint32) bool {
				file, newer := s.changedIn[index]
				return !newer || file >= of.file
			}, true
		}
		ok = ok || covers
	}
	return since, ok
}

// Strayed counts how often bytes of a context that may have been written through pointers have come into other memory, or another
// page, where MayBeWritten does not find them.
func Strayed(context uint64) (times uint64) {
	_ = use(context, func(s *state) error {
		times = native.Strayed(s.context.Index())
		return nil
	})
	return times
}

// MayBeWritten says whether programs may have written bytes of a context's pages through pointers, where they lie now.
func MayBeWritten(context uint64) (may bool) {
	_ = use(context, func(s *state) error {
		for _, leaf := range s.context.Memory().Leaves() {
			for index := leaf.First(); index < leaf.First()+leaf.Used; index++ {
				record := native.RecordAt(index)
				// Memory that was adopted read-only is its owner's to write.
				if native.Kind(record.LoadState()) == native.KindPage && record.Exposed != 0 {
					may = true
					return nil
				}
			}
		}
		return nil
	})
	return may
}

// AwaitGroups waits until no group is open. Errors: Busy (the calling thread has one open), Cancelled.
func AwaitGroups(context uint64, cancel <-chan struct{}) error {
	return page.Use(context, func(c *page.Context) error { return c.AwaitGroups(cancel) })
}

// Changed is how many bytes the pages of a context have that have changed since the newest snapshot, or may have:
// of small pages, which a save writes whole, and of large ones, of which it writes what has changed. Beside changes it is about
// that.
func Changed(context uint64) (small, large uint64, err error) {
	err = use(context, func(s *state) error {
		small, large = s.changed(native.LastSaved())
		return nil
	})
	return small, large, err
}

// ChangedSince is how many bytes a save writes that has an older snapshot as its base: those of all pages that have changed, or
// may have. It waits for saves and loads that run. Errors: Mismatch where the state does not come from the snapshot.
func ChangedSince(context uint64, base string, w *ticket.Work) (bytes uint64, err error) {
	err = useQueued(context, nil, w, func(s *state) error {
		look, target := &saver{state: s, o: &SaveOptions{Base: base}, work: w}, ToPath(base)
		older, err := look.openBase(&target, new(snapshot.Header))
		if err != nil {
			return err
		}
		defer older.close()
		small, large := s.changed(older.table)
		bytes = small + large
		return nil
	})
	return bytes, err
}

// changed is how many bytes the pages have that are not as a base has them, or may not be: their address was given out, and their
// checksum is not known. Those of the chunks of large pages are known of the newest snapshot.
func (s *state) changed(base *native.Base) (small, large uint64) {
	newest := base == native.LastSaved()
	for index, state := range s.context.Memory().Pages() {
		record := native.RecordAt(index)
		if of := base[index>>native.LeafBits]; of != nil {
			was := &unsafe.Slice(of, native.LeafRecords)[index%native.LeafRecords]
			known := record.Exposed == 0 || was.CRC != 0 || newest && record.Size > native.ChunkBytes
			if known && was.Generation == native.Generation(state) && was.Version == record.Version {
				continue
			}
		}
		if record.Size <= native.SmallMax {
			small += record.Size
		} else {
			large += record.Size
		}
	}
	return small, large
}

// largeSaved is what the newest snapshot has of a large page.
type largeSaved struct {
	generation uint32
	sums       []uint32 // checksums of its chunks; 0 is not known
	layers     []uint8  // in how many newer files granules of a chunk lie
	tracked    bool     // the kernel counts what was written since
	granules   []uint32 // checksums of all granules of a page on a device; nil is not known
}

// statistics are those of saves, of which one may be running.
type statistics struct {
	sync.Mutex
	SaveStats
	running   native.Capture
	isRunning bool
}

// SaveStats has the fields of mmsb_save_stats_t.
type SaveStats struct {
	Saves, LastPages, LastBytes, LastDurationNs uint64
	native.CaptureStats
}
