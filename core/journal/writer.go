// Appending frames to segments, syncing them, dropping old ones.

package journal

import (
	"crypto/rand"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"libmmsb/core/file"
	"libmmsb/core/invariant"
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
	// After is the sequence number that the state holds all records up to. A new journal begins behind it.
	After uint64
}

const lockName = "journal.lock"

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
	lock      file.File

	journal ID
	at      file.File // the segment that is written
	name    string
	offset  int64
	begins  uint64 // sequence number of the segment's first record
	chain   uint32 // crc of the last frame
	ended   bool   // the last frame says that the journal was closed
	within  bool   // the last group goes on, perhaps
	last    uint64 // sequence number of the last record
	durable uint64 // every record up to this one is on the disk
	failed  error

	drop   sync.Mutex // one Drop at a time
	extent sync.Mutex // of kept; never held while the disk works
	kept   []keptSegment
}

// keptSegment is a segment on the disk; the last one is written.
type keptSegment struct {
	first uint64
	bytes int64
}

// NewWriter opens the journal in a directory for appending, or makes one; also the directory, but not those above it. What a
// crash left half-written is cut off. Errors: Busy (another writer has it), Mismatch (it ends before Options.After),
// Corrupt, Format, and those of the file system.
func NewWriter(fs file.FS, directory string, options Options) (*Writer, error) {
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
		w.release()
		return nil, err
	}
	return w, nil
}

func (w *Writer) open() error {
	if err := w.fs.MakeDirectory(w.directory, 0o777); err == nil {
		if err := file.SyncDirectory(w.fs, filepath.Dir(w.directory)); err != nil {
			return err
		}
	} else if err != syscall.EEXIST {
		return file.Failed(err, "cannot create the journal directory %s", w.directory)
	}
	path := filepath.Join(w.directory, lockName)
	lock, err := w.fs.Open(path, unix.O_RDWR|unix.O_CREAT, 0o666)
	if err != nil {
		return file.Failed(err, "cannot open the journal lock %s", path)
	}
	w.lock = lock
	if err := lock.Lock(); err == syscall.EWOULDBLOCK {
		return status.Errorf(status.Busy, "journal %s is already open for writing, here or in another process", w.directory)
	} else if err != nil {
		return file.Failed(err, "cannot lock %s", path)
	}
	if err := w.removeUnfinished(); err != nil {
		return err
	}
	j, err := Open(w.fs, w.directory)
	if status.CodeOf(err) == status.NotFound {
		if _, err := rand.Read(w.journal[:]); err != nil {
			return status.Errorf(status.Internal, "cannot read random bytes: %v", err)
		}
		w.last, w.durable = w.options.After, w.options.After
		return w.begin()
	}
	if err != nil {
		return err
	}
	return w.resume(j)
}

// resume goes on behind the last whole group of a journal.
func (w *Writer) resume(j *Journal) error {
	info := j.Info()
	if info.Last < w.options.After {
		return status.Errorf(status.Mismatch, "journal %s ends at record %d, but the state holds records up to %d",
			w.directory, info.Last, w.options.After)
	}
	tail := j.segments[len(j.segments)-1]
	w.journal, w.name, w.begins, w.offset = info.ID, tail.name, tail.first, j.tail.end
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
	return nil
}

// A segment has this suffix until it is whole; a crash leaves some behind.
const unfinishedSuffix = ".tmp"

func (w *Writer) removeUnfinished() error {
	names, err := w.fs.List(w.directory)
	if err != nil {
		return file.Failed(err, "cannot list the journal directory %s", w.directory)
	}
	for _, name := range names {
		segment, ends := strings.CutSuffix(name, unfinishedSuffix)
		if _, ours := segmentFirst(segment); !ours || !ends {
			continue
		}
		if err := w.fs.Remove(filepath.Join(w.directory, name)); err != nil && err != syscall.ENOENT {
			return file.Failed(err, "cannot remove %s", filepath.Join(w.directory, name))
		}
	}
	return nil
}

// begin begins a segment. It gets its name when its header is on the disk, so that every file of that name is whole.
func (w *Writer) begin() error {
	name := segmentName(w.last + 1)
	path := filepath.Join(w.directory, name)
	at, err := w.fs.Open(path+unfinishedSuffix, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL, 0o666)
	if err != nil {
		return file.Failed(err, "cannot create the journal segment %s", path)
	}
	header := make([]byte, unitBytes)
	segment{journal: w.journal, first: w.last + 1, previous: w.chain, created: time.Now().UnixNano()}.encode(header)
	err = file.WriteFull(at, header, 0)
	if err == nil {
		err = at.Sync()
	}
	if err == nil {
		err = w.fs.Rename(path+unfinishedSuffix, path)
	}
	if err != nil {
		_ = at.Close()
		_ = w.fs.Remove(path + unfinishedSuffix)
		return file.Failed(err, "cannot create the journal segment %s", path)
	}
	if err := file.SyncDirectory(w.fs, w.directory); err != nil {
		_ = at.Close()
		return err
	}
	if w.at != nil {
		_ = w.at.Close() // it is durable
	}
	_ = at.SetDirect(true) // or through the page cache
	w.at, w.name, w.offset, w.begins, w.ended = at, name, unitBytes, w.last+1, false
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

// ID is the journal's name.
func (w *Writer) ID() ID { return w.journal }

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
	if count > 0 && w.offset >= w.options.SegmentBytes && !w.within {
		if err := w.rotate(); err != nil {
			return err
		}
	}
	f := frame{journal: w.journal, length: uint32(used), count: count, first: first, durable: w.durable, previous: w.chain}
	f.encode(buffer)
	length := padded(used)
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
	if w.failed != nil {
		return w.durable, w.failed
	}
	if w.durable != w.last {
		if err := w.at.SyncData(); err != nil {
			return w.durable, w.fail(file.Failed(err, "cannot sync %s", filepath.Join(w.directory, w.name)))
		}
		w.durable = w.last
	}
	return w.durable, nil
}

// rotate begins a new segment. The old one is durable before, so that only the last one can be torn.
func (w *Writer) rotate() error {
	if _, err := w.Sync(); err != nil {
		return err
	}
	if err := w.begin(); err != nil {
		return w.fail(err)
	}
	return nil
}

// Close makes everything durable, says in the file that it ends here, and lets the directory go. It returns the first error
// of the writer's life.
func (w *Writer) Close() error {
	_, err := w.Sync()
	if err == nil && !w.ended {
		err = w.end()
	}
	w.release()
	w.failed = status.Errorf(status.InvalidState, "journal %s is closed", w.directory)
	return err
}

// end writes a frame without records. With it, damage to the last records is known as damage.
func (w *Writer) end() error {
	_ = w.at.SetDirect(false) // the block lies anywhere
	if err := w.Write(make([]byte, unitBytes), FrameHeadBytes, w.last+1, 0, true); err != nil {
		return err
	}
	if err := w.at.SyncData(); err != nil {
		return w.fail(file.Failed(err, "cannot sync %s", filepath.Join(w.directory, w.name)))
	}
	return nil
}

func (w *Writer) release() {
	if w.at != nil {
		_ = w.at.Close()
	}
	if w.lock != nil {
		_ = w.lock.Close()
	}
}

// Drop removes the segments that hold no record behind upTo: a snapshot has made them unnecessary. The last segment stays.
func (w *Writer) Drop(upTo uint64) error {
	w.drop.Lock()
	defer w.drop.Unlock()
	w.extent.Lock()
	var firsts []uint64
	for _, s := range w.kept {
		firsts = append(firsts, s.first)
	}
	w.extent.Unlock()
	dropped, err := drop(w.fs, w.directory, firsts, upTo)
	w.extent.Lock()
	defer w.extent.Unlock()
	w.kept = w.kept[dropped:] // new segments came behind
	return err
}

// Drop is the same for a journal that nobody writes. Errors: Busy, and those of the file system.
func Drop(fs file.FS, directory string, upTo uint64) error {
	path := filepath.Join(directory, lockName)
	lock, err := fs.Open(path, unix.O_RDWR, 0)
	if err != nil {
		return file.Failed(err, "cannot open the journal lock %s", path)
	}
	defer func() { _ = lock.Close() }()
	if err := lock.Lock(); err == syscall.EWOULDBLOCK {
		return status.Errorf(status.Busy, "journal %s is open for writing", directory)
	} else if err != nil {
		return file.Failed(err, "cannot lock %s", path)
	}
	firsts, err := list(fs, directory)
	if err != nil {
		return err
	}
	_, err = drop(fs, directory, firsts, upTo)
	return err
}

// drop removes segments, of which the first records' numbers are given, and returns how many.
func drop(fs file.FS, directory string, firsts []uint64, upTo uint64) (dropped int, err error) {
	// Oldest first: what a crash leaves is a journal that begins later.
	for dropped+1 < len(firsts) && firsts[dropped+1]-1 <= upTo {
		path := filepath.Join(directory, segmentName(firsts[dropped]))
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

// list is the first sequence numbers of the segments in a directory, rising.
func list(fs file.FS, directory string) ([]uint64, error) {
	names, err := fs.List(directory)
	if err != nil {
		return nil, file.Failed(err, "cannot list the journal directory %s", directory)
	}
	var firsts []uint64
	for _, name := range names {
		if first, ours := segmentFirst(name); ours {
			firsts = append(firsts, first)
		}
	}
	slices.Sort(firsts)
	return firsts, nil
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
// writer. A failure is the ring's, and returned.
func (w *Writer) Serve(ring Ring) error {
	returned := false
	defer func() {
		if !returned { // a panic, which is reported by others: nobody may wait for this writer any more
			w.release()
			ring.Fail(int32(status.Internal), status.DomainNone, 0, "the journal has failed: its writer panicked")
		}
	}()
	err := w.serve(ring)
	returned = true
	if err == nil {
		err = w.Close()
	} else {
		w.release()
	}
	if err != nil {
		own := status.Of(err)
		ring.Fail(int32(own.Code), own.Domain, own.Foreign, "the journal has failed: "+own.Text)
		return err
	}
	ring.Durable(w.durable)
	return nil
}

func (w *Writer) serve(ring Ring) error {
	synced := time.Now()
	for {
		patience := time.Duration(-1)
		if w.options.Durability == Interval && w.durable != w.last {
			patience = max(0, w.options.Interval-time.Since(synced))
		}
		buffer, used, first, count, ends, wanted, open := ring.Take(patience)
		if !open {
			return nil
		}
		due := buffer == nil || wanted
		if buffer != nil {
			if err := w.Write(buffer, used, first, count, ends); err != nil {
				return err
			}
			due = due || w.options.Durability == EachCall || w.options.Durability == Interval &&
				time.Since(synced) >= w.options.Interval
		}
		if due {
			if _, err := w.Sync(); err != nil {
				return err
			}
			synced = time.Now()
		}
		ring.Durable(w.durable)
	}
}
