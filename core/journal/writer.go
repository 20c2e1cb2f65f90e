// Appending frames to segments, syncing them, dropping old ones.

package journal

import (
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"libmmsb/core/file"
	"libmmsb/core/invariant"
	"libmmsb/core/lineage"
	"libmmsb/core/safego"
	"libmmsb/core/status"
)

// Durability says when a record must be on the disk.
type Durability int32

// The durabilities. Default is Interval.
const (
	Default  Durability = iota
	EachCall            // before the call returns
	Interval            // Options.Interval after the call, and the time that the disk takes
	None                // when the kernel writes its dirty pages back; a segment is on the disk before the next one begins
)

// What Options mean by 0.
const (
	DefaultInterval     = 10 * time.Millisecond
	DefaultSegmentBytes = 256 << 20
)

// Options of a Writer.
type Options struct {
	Durability   Durability
	Interval     time.Duration // of group commits; 0 = DefaultInterval
	SegmentBytes int64         // a segment that is longer is the last one's predecessor; 0 = DefaultSegmentBytes
	// From is the state that the records go on from.
	From State
	// NoBase: InvalidState where the journal would need a base.
	NoBase bool
	// Wrote is called after each frame, with its length in the file, on the writer's goroutine; nil = nobody asks.
	Wrote func(bytes int64)
	// FromHere: the state was loaded from this directory, which may not know of its lineage any more.
	FromHere bool
	// Known is how far a replay has read the journal; nil: there was none.
	Known *Known
	// Held is the lock of the directory, which a writer before this one has that has failed; nil: it is taken.
	Held *Held
	// InChild is told of the descriptor that has the lock, which a child of fork closes, and when it has it no more; nil: nobody
	// asks.
	InChild func(descriptor int, closes bool)
	// Owned: the context whose records the journal has was given this state, wherever it comes from: a branch begins with it.
	// Else its history and the directory's must meet.
	Owned bool
}

// State is what a journal has to know of the state that its records go on from.
type State struct {
	// Names are the state's points in the lineages that go through it; the first says its position. Without names it is the state
	// that the journal ends with, and the empty one where there is no journal.
	Names []lineage.Point
	// GoesOn is the lineage of what comes, unless the journal ends with exactly this state: then it goes on in its own.
	GoesOn lineage.Lineage
	// Before is the state that the lineage of Names begins behind; zeros: not known, or none.
	Before lineage.Point
	// Chosen: a load was asked for this state, though the journal may have newer ones. Else it must not leave records behind.
	Chosen bool
	// Empty: there is no page, and never was one.
	Empty bool
	// Pages is for messages.
	Pages uint64
}

// Extent is what a journal has on the disk.
type Extent struct {
	Segments int
	First    uint64 // sequence number of the first segment's first record
	Bytes    int64  // of all segments
}

// Writer appends frames to a journal. A directory has one at a time. Write, Sync, Close and Serve are for one goroutine; the
// other methods for any.
type Writer struct {
	fs        file.FS
	directory string
	options   Options
	held      *Held

	made  struct{ directory, lock, ring bool } // what was not there before
	begun bool                                 // a segment

	lineage lineage.Lineage
	branch  uint64
	others  []lineage.Lineage // of the other branches
	based   bool              // the segment that is written begins with a base
	pending atomic.Bool       // that base is still being written: the segment has no name yet
	found   *Journal          // what was there
	at      file.File         // the segment that is written
	name    string
	offset  int64
	filled  int64    // zeros lie between offset and here
	zeros   []byte   // what fill writes
	begins  uint64   // sequence number of the segment's first record
	chain   uint32   // crc of the last frame
	ended   bool     // the last frame says that the journal was closed
	within  bool     // the last group goes on, perhaps
	last    uint64   // sequence number of the last record
	durable uint64   // every record up to this one is on the disk
	syncing *running // nil: no sync runs beside the writing
	failed  error

	writing sync.Mutex // of who writes: Serve, or WriteWaiting and Rotate in its place

	drop   sync.Mutex // one Drop at a time
	extent sync.Mutex // of kept; never held while the disk works
	kept   []keptSegment
}

// keptSegment is a segment of the branch on the disk; the last one is written.
type keptSegment struct {
	first uint64
	bytes int64
}

// NewWriter opens the journal in a directory for appending, or makes one; also the directory, but not those above it. What a
// crash left half-written is cut off. NeedsBase says whether the state must be saved into the directory now. Errors: Busy
// (another writer has it), Mismatch (it is of another lineage), InvalidState (NoBase), Corrupt, Format, and those of the file
// system.
func NewWriter(fs file.FS, directory string, options Options) (*Writer, error) {
	w, err := Prepare(fs, directory, options)
	if err == nil {
		err = w.Begin(options.From)
	}
	if err != nil {
		return nil, err
	}
	return w, nil
}

// Prepare is the part of NewWriter that does not need to know the state: it takes the lock and finds where the journal ends.
// Begin is the rest, or Abandon.
func Prepare(fs file.FS, directory string, options Options) (*Writer, error) {
	if options.Durability == Default {
		options.Durability = Interval
	}
	if options.Interval <= 0 {
		options.Interval = DefaultInterval
	}
	if options.SegmentBytes <= 0 {
		options.SegmentBytes = DefaultSegmentBytes
	}
	w := &Writer{fs: fs, directory: directory, options: options}
	if err := w.open(); err != nil {
		w.Abandon()
		return nil, err
	}
	return w, nil
}

func (w *Writer) open() error {
	if w.options.Held != nil {
		w.held = w.options.Held.share()
	} else if err := w.takeLock(); err != nil {
		return err
	}
	if err := w.guard(); err != nil {
		return err
	}
	if err := w.removeUnfinished(); err != nil {
		return err
	}
	j, err := openSegments(w.fs, w.directory)
	if status.CodeOf(err) == status.NotFound {
		return nil
	}
	if err == nil {
		err = j.readRing(true)
	}
	if err == nil {
		err = j.look(w.options.Known)
	}
	w.found = j
	return err
}

// Begin goes on from a state. After an error the writer is abandoned.
func (w *Writer) Begin(from State) (err error) {
	if w.found == nil && from.Names == nil {
		from.GoesOn, from.Empty = lineage.New(lineage.Point{}), true
		from.Names = []lineage.Point{from.GoesOn.At(0)}
	}
	w.options.From = from
	if w.found != nil {
		err = w.resume(w.found)
	} else {
		w.lineage = from.GoesOn
		err = w.goOnFrom(from.position())
	}
	if err != nil {
		w.Abandon()
	}
	return err
}

// Abandon lets the directory go as it was found, before anything was written.
func (w *Writer) Abandon() {
	w.undo()
	w.Release()
}

// Held is the lock of the directory, for a writer that comes in the place of this one: Options.Held. nil: this one has let it go.
func (w *Writer) Held() *Held { return w.held }

// undo removes what this writer has made, while it has the lock. Others may wait for the lock of a file that is removed here, or
// come into the directory just before that: takeLock expects both.
func (w *Writer) undo() {
	if w.begun {
		path := filepath.Join(w.directory, w.name)
		if w.pending.Swap(false) {
			path += unfinishedSuffix
		}
		_ = w.fs.Remove(path)
	}
	if w.made.ring {
		_ = removeRing(w.fs, w.directory)
	}
	if w.made.lock && w.held != nil {
		_ = w.fs.Remove(filepath.Join(w.directory, lockName))
	}
	if w.made.directory {
		_ = w.fs.RemoveDirectory(w.directory) // it stays if somebody else uses it
	}
}

func (s *State) position() uint64 { return s.Names[0].Position }

// resume goes on with a journal that is there: behind its last whole group where that is the state's, else in a new segment.
func (w *Writer) resume(j *Journal) error {
	info, from := j.Info(), &w.options.From
	tip := info.Lineage.At(info.Last)
	exactly := !w.options.Owned && (from.Names == nil || slices.Contains(from.Names, tip) && tip.Lineage != lineage.ID{})
	if !exactly {
		if err := j.related(from, w.options.FromHere); err != nil && !w.options.Owned {
			return err
		}
		if w.options.NoBase {
			return from.refusal(w.directory)
		}
	}
	w.branch, w.lineage, w.others = info.Branch, info.Lineage, j.others
	if err := w.openTail(j); err != nil {
		return err
	}
	if exactly {
		return nil
	}
	if !from.comesFrom(tip) {
		for _, s := range j.segments {
			w.others = append(w.others, s.lineage)
		}
		if w.branch == maximumBranch {
			return status.Errorf(status.Limit, "journal %s has branch %d, the last one", w.directory, w.branch)
		}
		w.branch++
		w.kept, w.chain, w.last = nil, 0, from.position()
	}
	w.lineage = from.GoesOn
	return w.goOnFrom(from.position())
}

// related says whether the state's history and the directory's meet, as they do where it was loaded from there, and whether the
// state may leave records behind.
func (j *Journal) related(from *State, fromHere bool) error {
	tip := j.info.Lineage.At(j.info.Last)
	var ours []lineage.ID
	for _, other := range j.others {
		ours = append(ours, other.ID)
	}
	for _, s := range j.segments {
		ours = append(ours, s.lineage.ID, s.lineage.Parent.Lineage)
	}
	meets := slices.ContainsFunc([]lineage.ID{from.GoesOn.Parent.Lineage, from.Before.Lineage}, func(of lineage.ID) bool {
		return of != lineage.ID{} && slices.Contains(ours, of)
	})
	switch {
	case from.comesFrom(tip):
		return nil
	case !meets && !fromHere:
		return status.Errorf(status.Mismatch, "the journal %s ends at %s, which does not lead to the context's state, %s",
			j.directory, tip, from.Names[0])
	case !from.Chosen && !from.hasAll(tip):
		return status.Errorf(status.Mismatch,
			"the journal %s has gone on to %s without the context, whose state is %s: load it again", j.directory, tip,
			from.Names[0])
	}
	return nil
}

// comesFrom says that nothing lies between a journal's end and the state but what nobody has recorded.
func (s *State) comesFrom(tip lineage.Point) bool {
	return tip.Lineage != lineage.ID{} && s.position() > tip.Position && (tip == s.GoesOn.Parent || tip == s.Before)
}

// hasAll says that the state comes from a journal's end, or from what lay behind it before the disk failed.
func (s *State) hasAll(tip lineage.Point) bool {
	return s.GoesOn.Parent.Covers(tip) || s.Before.Covers(tip) ||
		slices.ContainsFunc(s.Names, func(name lineage.Point) bool { return name.Covers(tip) })
}

func (s *State) refusal(directory string) error {
	return status.Errorf(status.InvalidState,
		"the journal %s does not give the context's state of %d pages, and a base is refused",
		directory, s.Pages)
}

// goOnFrom begins a segment behind a state that no record gives, unless that is the empty one.
func (w *Writer) goOnFrom(position uint64) error {
	w.based = !w.options.From.Empty || position > 0
	if w.based && w.options.NoBase {
		return w.options.From.refusal(w.directory)
	}
	before := w.last
	if len(w.kept) == 0 {
		before = position
	}
	w.last, w.durable = position, position
	return w.begin(before)
}

// openTail opens the last segment at its end.
func (w *Writer) openTail(j *Journal) error {
	info, tail := j.Info(), j.segments[len(j.segments)-1]
	w.name, w.begins, w.offset = tail.name, tail.first, j.tail.end
	w.chain, w.ended, w.last = j.tail.chain, j.tail.ended, info.Last
	for _, s := range info.Segments {
		w.kept = append(w.kept, keptSegment{s.First, s.Bytes})
	}
	w.kept[len(w.kept)-1].bytes = w.offset
	path := filepath.Join(w.directory, w.name)
	at, err := w.fs.Open(path, unix.O_RDWR, 0)
	if err != nil {
		return file.Failed(err, "cannot open the journal segment %s", path)
	}
	w.at = at
	if err := tail.residue.write(at, path); err != nil {
		return err
	}
	if info.TornBytes > 0 {
		if err := at.Truncate(w.offset); err != nil {
			return file.Failed(err, "cannot truncate the journal segment %s to %d bytes", path, w.offset)
		}
	}
	// What was read may be in the page cache alone.
	if err := at.Sync(); err != nil {
		return file.Failed(err, "cannot sync the journal segment %s", path)
	}
	if err := file.SyncDirectory(w.fs, w.directory); err != nil {
		return err
	}
	w.durable = w.last
	_ = at.SetDirect(true) // or through the page cache
	return removeRing(w.fs, w.directory)
}

// A segment has this suffix until it is whole; a crash leaves some behind.
const unfinishedSuffix = ".tmp"

func (w *Writer) removeUnfinished() error {
	names, err := w.fs.List(w.directory)
	if err != nil {
		return file.Failed(err, "cannot list the journal directory %s", w.directory)
	}
	file.SweepNames(w.fs, w.directory, names) // of bases that a killed process was writing
	for _, name := range names {
		segment, ends := strings.CutSuffix(name, unfinishedSuffix)
		if _, ours := placeOf(segment); !ours || !ends {
			continue
		}
		if err := w.fs.Remove(filepath.Join(w.directory, name)); err != nil && err != syscall.ENOENT {
			return file.Failed(err, "cannot remove %s", filepath.Join(w.directory, name))
		}
	}
	return nil
}

// begin begins a segment behind the record before. It gets its name when its header is on the disk, so that every file of that
// name is whole.
func (w *Writer) begin(before uint64) error {
	s := segment{lineage: w.lineage, branch: w.branch, based: w.based, before: before, first: w.last + 1, previous: w.chain,
		created: time.Now().UnixNano()}
	name := s.place().name()
	path := filepath.Join(w.directory, name)
	at, err := w.fs.Open(path+unfinishedSuffix, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL, 0o666)
	if err != nil {
		return file.Failed(err, "cannot create the journal segment %s", path)
	}
	header := make([]byte, unitBytes)
	s.encode(header)
	err = file.WriteFull(at, header, 0)
	if err == nil {
		err = at.Sync()
	}
	w.pending.Store(w.based)
	if err == nil && !w.based {
		err = w.fs.Rename(path+unfinishedSuffix, path)
	}
	if err != nil {
		_ = at.Close()
		_ = w.fs.Remove(path + unfinishedSuffix)
		return file.Failed(err, "cannot create the journal segment %s", path)
	}
	w.begun, w.name = true, name
	if err := file.SyncDirectory(w.fs, w.directory); err != nil {
		_ = at.Close()
		return w.fail(err)
	}
	if w.at != nil {
		_ = w.at.Close() // it is durable
	}
	_ = at.SetDirect(!w.isRead()) // or through the page cache, where readers need no disk to find it
	w.at, w.offset, w.filled, w.begins, w.ended = at, unitBytes, 0, w.last+1, false
	w.extent.Lock()
	defer w.extent.Unlock()
	if n := len(w.kept); invariant.Enabled && n > 0 {
		invariant.Assert(w.kept[n-1].first < w.begins && w.durable == w.last,
			"segment begins with record %d, the one before with %d; the last record is %d, %d are durable", w.begins,
			w.kept[n-1].first, w.last, w.durable)
	}
	w.kept = append(w.kept, keptSegment{w.begins, w.offset})
	return nil
}

// Next is the sequence number of the next record.
func (w *Writer) Next() uint64 { return w.last + 1 }

// Lineage is that of the records.
func (w *Writer) Lineage() lineage.Lineage { return w.lineage }

// HasBranch says whether another branch in the directory has records of a state's lineage, or begins behind the state.
func (w *Writer) HasBranch(state lineage.Point) bool {
	return slices.ContainsFunc(w.others, func(of lineage.Lineage) bool { return of.ID == state.Lineage || of.Parent == state })
}

// NeedsBase says that the records begin behind a state that none before them give. Until HasBase they do not count: what a crash
// leaves of them is removed by the next writer.
func (w *Writer) NeedsBase() bool { return w.pending.Load() }

// HasBase says that the directory has a base, which is durable. It may be called while Serve runs.
func (w *Writer) HasBase() error {
	path := filepath.Join(w.directory, w.name) // it does not change while the base is missing
	if err := w.fs.Rename(path+unfinishedSuffix, path); err != nil {
		return file.Failed(err, "cannot rename the journal segment %s", path+unfinishedSuffix)
	}
	if err := file.SyncDirectory(w.fs, w.directory); err != nil {
		return err
	}
	w.pending.Store(false)
	return nil
}

// Extent is what the journal has on the disk. It does not look there.
func (w *Writer) Extent() Extent {
	w.extent.Lock()
	defer w.extent.Unlock()
	e := Extent{Segments: len(w.kept), First: w.kept[0].first}
	for _, s := range w.kept {
		e.Bytes += s.bytes
	}
	return e
}

// Write appends a frame: used bytes of a buffer whose first FrameHeadBytes are the writer's and in which zeros follow up to a
// multiple of 4096, with count records from the number first on. ends says that the last of them ends its group for certain.
// After an error the writer is of no more use. Errors: those of the file system.
func (w *Writer) Write(buffer []byte, used int, first uint64, count uint32, ends bool) error {
	if w.failed != nil {
		return w.failed
	}
	if first != w.last+1 {
		return w.fail(status.Errorf(status.Internal, "the journal's next record is %d, not %d", w.last+1, first))
	}
	if count > 0 && w.offset >= w.options.SegmentBytes && w.canRotate() {
		if err := w.rotate(); err != nil {
			return w.fail(err)
		}
	}
	f := frame{id: w.lineage.ID, length: uint32(used), count: count, first: first, durable: w.durable, previous: w.chain}
	f.encode(buffer)
	length := padded(used)
	if count > 0 {
		w.fill(w.offset + int64(length))
	}
	if err := file.WriteBlocks(w.at, buffer[:length], w.offset); err != nil {
		return w.fail(file.Failed(err, "cannot write %d bytes at offset %d of %s", length, w.offset,
			filepath.Join(w.directory, w.name)))
	}
	w.offset += int64(length)
	w.grown()
	if invariant.Enabled {
		invariant.Assert(w.begins <= first && w.durable < first,
			"frame begins with record %d, its segment with %d, %d are durable", first, w.begins, w.durable)
	}
	w.chain, w.last, w.within, w.ended = f.crc, w.last+uint64(count), !ends, count == 0
	if w.options.Wrote != nil {
		w.options.Wrote(int64(length))
	}
	return nil
}

// ahead is how many zeros are written before frames that are synced one by one.
const ahead = 1 << 20

// fill makes sure that a frame up to end does not move the end of a file whose frames are synced one by one: each sync would
// wait for the journal of the file system as well, which takes as long again. To a reader the zeros are a torn end. Without
// space for them the frames move the end.
func (w *Writer) fill(end int64) {
	if w.options.Durability != EachCall || end <= w.filled {
		return
	}
	if w.zeros == nil {
		w.zeros = file.Blocks(ahead)
	}
	if file.WriteBlocks(w.at, w.zeros, end) == nil {
		w.filled = end + ahead
	}
}

// cut removes the zeros behind the last frame.
func (w *Writer) cut() error {
	if w.filled <= w.offset {
		return nil
	}
	err := w.at.Truncate(w.offset)
	if err == nil {
		err = w.at.Sync()
	}
	if err != nil {
		return w.fail(file.Failed(err, "cannot truncate the journal segment %s to %d bytes", filepath.Join(w.directory, w.name),
			w.offset))
	}
	w.filled = w.offset
	return nil
}

// grown takes the last segment's new length into the extent.
func (w *Writer) grown() {
	w.extent.Lock()
	defer w.extent.Unlock()
	w.kept[len(w.kept)-1].bytes = w.offset
}

func (w *Writer) fail(err error) error {
	w.failed = err
	return err
}

// Sync makes what was written durable and returns the number of the last record that is.
func (w *Writer) Sync() (uint64, error) {
	if err := w.endSync(); err != nil {
		return w.durable, err
	}
	if w.durable != w.last {
		if err := w.at.SyncData(); err != nil {
			return w.durable, w.failedToSync(err)
		}
		w.durable = w.last
	}
	return w.durable, nil
}

func (w *Writer) failedToSync(err error) error {
	return w.fail(file.Failed(err, "cannot sync %s", filepath.Join(w.directory, w.name)))
}

// running is a sync beside the writing.
type running struct {
	last uint64 // the record up to which all are durable when it has succeeded
	err  error
	done chan struct{}
}

// beginSync begins to make durable what was written. None runs.
func (w *Writer) beginSync() {
	s, at := &running{last: w.last, err: syscall.EIO, done: make(chan struct{})}, w.at // what a panic leaves is a failure
	w.syncing = s
	safego.Go(func() {
		defer close(s.done)
		s.err = at.SyncData()
	})
}

// syncEnded says whether no sync runs beside the writing, or none any more.
func (w *Writer) syncEnded() bool {
	if w.syncing == nil {
		return true
	}
	select {
	case <-w.syncing.done:
		return true
	default:
		return false
	}
}

// endSync waits for a sync beside the writing, and returns the writer's error.
func (w *Writer) endSync() error {
	if s := w.syncing; s != nil {
		<-s.done
		w.syncing = nil
		if s.err != nil {
			return w.failedToSync(s.err)
		}
		w.durable = s.last
	}
	return w.failed
}

// rotate begins a new segment. The old one is durable before, so that only the last one can be torn. Where the new one cannot be
// made, the old one can still go on.
func (w *Writer) rotate() error {
	if _, err := w.Sync(); err != nil {
		return err
	}
	if err := w.cut(); err != nil {
		return err
	}
	w.based = false
	return w.begin(w.last)
}

// Rotate begins a new segment before the state is saved, so that who loads it reads no records that it has, and these can be
// dropped, and tells the ring what is durable then. The segment goes on where it is short, ends within a group, or there is no
// space for another. For any goroutine. The next Write and Sync say what has failed.
func (w *Writer) Rotate(ring Ring) {
	w.writing.Lock()
	defer w.writing.Unlock()
	if w.failed == nil && w.offset >= w.options.SegmentBytes/16 && w.canRotate() {
		_ = w.rotate()
		ring.Durable(w.durable)
	}
}

// canRotate says that the segment has records, whose last group is whole, and its name.
func (w *Writer) canRotate() bool { return !w.within && w.last >= w.begins && !w.pending.Load() }

// Close makes everything durable, says in the file that it ends here, and lets the directory go. It returns the first error
// of the writer's life.
func (w *Writer) Close() error {
	_, err := w.Sync()
	if err == nil && !w.ended {
		err = w.end()
	}
	if err == nil {
		err = removeRing(w.fs, w.directory)
	}
	w.Release()
	w.failed = status.Errorf(status.InvalidState, "journal %s is closed", w.directory)
	return err
}

// end writes a frame without records. With it, damage to the last records is known as damage.
func (w *Writer) end() error {
	if err := w.cut(); err != nil {
		return err
	}
	_ = w.at.SetDirect(false) // the block lies anywhere
	if err := w.Write(make([]byte, unitBytes), FrameHeadBytes, w.last+1, 0, true); err != nil {
		return err
	}
	if err := w.at.SyncData(); err != nil {
		return w.fail(file.Failed(err, "cannot sync %s", filepath.Join(w.directory, w.name)))
	}
	return nil
}

// Release lets the directory go. A writer whose Serve has failed has it until then: its state goes on with another writer, or
// with none, and nobody else may come between.
func (w *Writer) Release() {
	w.closeSegment()
	if w.pending.Load() { // it never counted
		w.undo()
	}
	if w.held != nil {
		w.held.Release()
		w.held = nil
	}
}

func (w *Writer) closeSegment() {
	_ = w.endSync()
	if w.at != nil {
		_ = w.at.Close()
		w.at = nil
	}
}

// Drop removes the segments that hold no record behind upTo: a snapshot has made them unnecessary. The last segment stays.
func (w *Writer) Drop(upTo uint64) error {
	w.drop.Lock()
	defer w.drop.Unlock()
	w.extent.Lock()
	var places []place
	for _, s := range w.kept {
		places = append(places, place{w.branch, s.first})
	}
	w.extent.Unlock()
	dropped, err := drop(w.fs, w.directory, places, upTo)
	w.extent.Lock()
	defer w.extent.Unlock()
	w.kept = w.kept[dropped:] // new segments came behind
	return err
}

// drop removes segments of a branch and returns how many.
func drop(fs file.FS, directory string, places []place, upTo uint64) (dropped int, err error) {
	// Oldest first: what a crash leaves is a journal that begins later.
	for dropped+1 < len(places) && places[dropped+1].first-1 <= upTo {
		path := filepath.Join(directory, places[dropped].name())
		if err := fs.Remove(path); err != nil && err != syscall.ENOENT {
			return dropped, file.Failed(err, "cannot remove the journal segment %s", path)
		}
		dropped++
	}
	if dropped == 0 {
		return 0, nil
	}
	return dropped, file.SyncDirectory(fs, directory)
}

// list is the segments in a directory, branch by branch, their first records rising.
func list(fs file.FS, directory string) ([]place, error) {
	names, err := fs.List(directory)
	if err != nil {
		return nil, file.Failed(err, "cannot list the journal directory %s", directory)
	}
	var places []place
	for _, name := range names {
		if at, ours := placeOf(name); ours {
			places = append(places, at)
		}
	}
	slices.SortFunc(places, place.compare)
	return places, nil
}

// Ring is where records come from: native's.
type Ring interface {
	// Take waits for records, at most so long; below 0 for ever. Without a buffer there were none, or somebody waits for
	// those taken before to be durable. open is false when no more will come.
	Take(patience time.Duration) (buffer []byte, used int, first uint64, count uint32, ends, wanted, open bool)
	// Durable says up to which record all are on the disk.
	Durable(sequence uint64)
	// Fail says that there will be no more.
	Fail(code, domain, foreign int32, text string)
}

// Serve writes what comes out of a ring, as durably as the options say, until the ring is stopped and empty, and closes the
// writer. A failure is the ring's, and returned; the writer has the directory until Release.
func (w *Writer) Serve(ring Ring) error {
	returned := false
	defer func() {
		if !returned { // a panic, which is reported by others: nobody may wait for this writer any more
			w.writing.Lock()
			defer w.writing.Unlock()
			w.failed = status.Errorf(status.Internal, "the journal's writer panicked")
			w.Release()
			ring.Fail(int32(status.Internal), status.DomainNone, 0, "the journal has failed: its writer panicked")
		}
	}()
	err := w.serve(ring)
	returned = true
	w.writing.Lock()
	defer w.writing.Unlock()
	if err == nil {
		err = w.Close()
	} else {
		w.closeSegment()
	}
	if err != nil {
		own := status.Of(err)
		ring.Fail(int32(own.Code), own.Domain, own.Foreign, "the journal has failed: "+own.Text)
		return err
	}
	ring.Durable(w.durable)
	return nil
}

// WriteWaiting writes what waits in the ring of a writer that sleeps in Take, and makes it durable. Who calls it has the place of
// the writer, which hears of an error when it wakes up. Says whether what came out of the ring is written.
func (w *Writer) WriteWaiting(ring Ring) bool {
	w.writing.Lock()
	defer w.writing.Unlock()
	buffer, used, first, count, ends, _, _ := ring.Take(0)
	if buffer == nil {
		return true
	}
	if w.Write(buffer, used, first, count, ends) != nil {
		return false
	}
	if _, err := w.Sync(); err != nil {
		return false
	}
	ring.Durable(w.durable)
	return true
}

func (w *Writer) serve(ring Ring) error {
	synced := time.Now()
	for {
		buffer, used, first, count, ends, wanted, open := ring.Take(w.patience(synced))
		if !open {
			return nil
		}
		if err := w.take(ring, buffer, used, first, count, ends, wanted, &synced); err != nil {
			return err
		}
	}
}

// patience is how long the writer waits for records, the last sync having begun then; below 0 for ever.
func (w *Writer) patience(synced time.Time) time.Duration {
	w.writing.Lock()
	defer w.writing.Unlock()
	if w.options.Durability != Interval || w.durable == w.last {
		return -1
	}
	if left := w.options.Interval - time.Since(synced); left > 0 {
		return left
	}
	if !w.syncEnded() { // the disk takes longer
		return w.options.Interval
	}
	return 0
}

// take writes what came out of the ring, and syncs where it is time.
func (w *Writer) take(ring Ring, buffer []byte, used int, first uint64, count uint32, ends, wanted bool,
	synced *time.Time) error {
	w.writing.Lock()
	defer w.writing.Unlock()
	if buffer != nil {
		if err := w.Write(buffer, used, first, count, ends); err != nil {
			return err
		}
	}
	switch {
	case buffer == nil || wanted || w.options.Durability == EachCall: // nothing comes meanwhile, or somebody waits
		if _, err := w.Sync(); err != nil {
			return err
		}
		*synced = time.Now()
	case w.options.Durability == Interval && w.syncEnded():
		if err := w.endSync(); err != nil {
			return err
		}
		if w.durable != w.last && time.Since(*synced) >= w.options.Interval {
			w.beginSync()
			*synced = time.Now()
		}
	}
	ring.Durable(w.durable)
	return nil
}
