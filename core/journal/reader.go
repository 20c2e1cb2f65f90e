// Opening a journal, and reading its records.

package journal

import (
	"iter"
	"math"
	"path/filepath"
	"slices"

	"libmmsb/core/attribute"
	"libmmsb/core/file"
	"libmmsb/core/lineage"
	"libmmsb/core/status"
)

// Journal is a journal that is read: what of it was whole when it was opened.
type Journal struct {
	fs        file.FS
	directory string
	segments  []openSegment     // of the newest branch
	others    []lineage.Lineage // of the other branches
	ring      *[2]ringBuffer    // of a killed process, until its records are the residue of the last segment
	info      Info
	tail      tail
	lastTime  int64 // of the last segment; 0 where it has no record
}

type openSegment struct {
	segment
	name    string
	size    int64   // with the residue
	residue residue // of the last one, once a scan has come there
}

// tail is where a journal ends.
type tail struct {
	end   int64  // offset in the last segment, behind the last whole group
	chain uint32 // crc of the last frame before
	ended bool   // that frame says that the journal was closed
}

// Info is what is known of a journal without reading all of it.
type Info struct {
	Lineage  lineage.Lineage // of its end; zeros: not known, in version 1
	Branch   uint64          // its number in the directory
	Branches uint64          // in the directory, this one included
	Segments []SegmentInfo   // of the branch
	First    uint64          // sequence number of the oldest record that is left; Last + 1 where there is none
	Last     uint64          // of the newest whole one
	// LastTime is when the newest record was written, nanoseconds since 1970; 0: the last segment has none.
	LastTime int64
	// End is where what counts ends in the last segment.
	End int64
	// TornBytes at the end of the last segment were cut: a crash, or a writer that is writing them.
	TornBytes int64
	// Closed says that the writer ended well.
	Closed bool
}

// SegmentInfo is a file of a journal.
type SegmentInfo struct {
	Name        string
	Based       bool   // a base gives the state before the first record
	First, Last uint64 // Last = First - 1 where it has no records
	Bytes       int64
	Created     int64 // nanoseconds since 1970
}

// besideTries bounds how often Beside reads.
const besideTries = 100

// Beside runs what reads a journal's directory, which another process may write. The writer drops files there that a snapshot has
// made unnecessary: where the directory has lost one meanwhile, what was read of it counts for nothing, and Beside reads again.
func Beside(fs file.FS, directory string, read func() error) error {
	for try := 1; ; try++ {
		before, unknown := fs.List(directory)
		err := read()
		if err == nil || unknown != nil || try == besideTries {
			return err
		}
		after, unknown := fs.List(directory)
		if unknown != nil || !slices.ContainsFunc(before, func(name string) bool { return !slices.Contains(after, name) }) {
			return err
		}
	}
}

// Open opens a journal for reading, also while it is written (Beside): its newest branch. It reads the last segment, to find
// where the journal ends: a torn tail is cut, as if it were not there. Errors: NotFound (no journal there), Corrupt (damage to
// what was durable, a segment is missing or foreign), Format (newer than this library, or not ours), and those of the file
// system.
func Open(fs file.FS, directory string) (*Journal, error) {
	j, err := openSegments(fs, directory)
	if err != nil {
		return nil, err
	}
	if err := j.readRing(false); err != nil {
		return nil, err
	}
	return j, j.look(nil)
}

// openSegments reads the headers of all segments.
func openSegments(fs file.FS, directory string) (*Journal, error) {
	places, err := list(fs, directory)
	if err != nil {
		return nil, err
	}
	if len(places) == 0 {
		return nil, status.Errorf(status.NotFound, "no journal in %s", directory)
	}
	j := &Journal{fs: fs, directory: directory}
	j.info.Branch = places[len(places)-1].branch
	for i, at := range places {
		s, err := j.openSegment(at)
		if err != nil {
			return nil, err
		}
		if i == 0 || at.branch != places[i-1].branch {
			j.info.Branches++
		}
		if at.branch != j.info.Branch {
			j.others = append(j.others, s.lineage)
			continue
		}
		if n := len(j.segments); n > 0 && s.id != j.segments[n-1].id && !s.based {
			return nil, status.Errorf(status.Corrupt, "%s belongs to lineage %x, the segment before it to %x", j.path(s.name),
				s.id, j.segments[n-1].id)
		}
		j.segments = append(j.segments, s)
	}
	j.info.Lineage = j.segments[len(j.segments)-1].lineage
	return j, nil
}

func (j *Journal) path(name string) string { return filepath.Join(j.directory, name) }

func (j *Journal) openSegment(at place) (openSegment, error) {
	name := at.name()
	path := j.path(name)
	source, err := file.Open(j.fs, path)
	if err != nil {
		return openSegment{}, err
	}
	defer func() { _ = source.Close() }()
	header := make([]byte, min(unitBytes, source.Size()))
	if _, err := source.ReadAt(header, 0); err != nil {
		return openSegment{}, err
	}
	s, err := decodeSegment(header, path)
	if err != nil {
		return openSegment{}, err
	}
	if s.place() != at {
		return openSegment{}, status.Errorf(status.Corrupt,
			"%s: the header says first record %d of branch %d, unlike the file name",
			path, s.first, s.branch)
	}
	return openSegment{segment: s, name: name, size: source.Size()}, nil
}

// look finds the end, and fills in the info. What a replay has read it does not read again; known may be nil.
func (j *Journal) look(known *Known) error {
	end := len(j.segments) - 1
	last := &j.segments[end]
	j.info.First = j.segments[0].first
	if known != nil && known.segment == last.segment && known.at.offset < last.size {
		try := *j
		try.segments = slices.Clone(j.segments)
		try.info.Last, try.tail = known.at.next-1, tail{end: known.at.offset, chain: known.at.chain}
		if err := try.lookOn(); err == nil && try.info.Last >= known.last { // else it is another file by now
			*j = try
			return nil
		}
	}
	j.info.Last, j.tail = last.first-1, tail{end: unitBytes, chain: last.previous}
	return j.lookOn()
}

// lookOn is look behind the end that was found before.
func (j *Journal) lookOn() error {
	end := len(j.segments) - 1
	last := &j.segments[end]
	open := false
	behind := position{end, j.tail.end, j.info.Last + 1, j.tail.chain}
	err := j.scan(behind, toTheEnd, func(f *frame, records []byte, at position) (bool, error) {
		err := eachRecord(f, records, func(_ uint64, head recordHead, _ []byte) bool {
			open = head.flags&More != 0
			if !open {
				j.lastTime = head.time
			}
			return true
		})
		if err == nil && !open {
			j.info.Last = f.first + uint64(f.count) - 1
			j.tail = tail{end: at.offset + int64(padded(int(f.length))), chain: f.crc, ended: f.count == 0}
		}
		return true, err
	})
	if err != nil {
		return err
	}
	j.info.Segments, j.info.LastTime, j.info.End = nil, j.lastTime, j.tail.end
	j.info.TornBytes, j.info.Closed = last.size+last.residue.torn-j.tail.end, j.tail.ended
	for i, s := range j.segments {
		segment := SegmentInfo{Name: s.name, Based: s.based, First: s.first, Last: j.info.Last, Bytes: s.size, Created: s.created}
		if i < end {
			segment.Last = j.segments[i+1].before
		}
		j.info.Segments = append(j.info.Segments, segment)
	}
	return nil
}

// Times are those of the first record and the last, nanoseconds since 1970; 0 where none is left. The segments before the last
// are read for it. Errors: as Records.
func (j *Journal) Times() (first, last int64, err error) {
	if j.info.First > j.info.Last {
		return 0, 0, nil
	}
	err = j.heads(j.info.First, func(_ uint64, head recordHead) bool {
		first = head.time
		return false
	})
	end := len(j.segments) - 1
	if err != nil || j.info.Last >= j.segments[end].first {
		return first, j.lastTime, err
	}
	err = j.heads(j.segments[end-1].first, func(_ uint64, head recordHead) bool { // the last segment is empty
		last = head.time
		return true
	})
	return first, last, err
}

// Info is what is known of the journal.
func (j *Journal) Info() Info { return j.info }

// Records walks the records with the numbers from first to last; those behind the journal's end are not missed. A record that
// has pieces before first is one of them. last must end a group, as those that Find returns do, or be math.MaxUint64. It ends at
// the first error. Errors: NotFound (first was dropped), Corrupt, Format, and those of the file system.
func (j *Journal) Records(first, last uint64) iter.Seq2[*Record, error] {
	return func(yield func(*Record, error) bool) {
		var a assembler
		yielding := true
		begin, err := j.beginningOf(first)
		if err != nil {
			yield(nil, err)
			return
		}
		err = j.from(begin, func(f *frame, records []byte) (bool, error) {
			var bad error
			err := eachRecord(f, records, func(sequence uint64, head recordHead, content []byte) bool {
				if sequence < begin {
					a.pass(sequence, head)
					return true
				}
				if sequence > last {
					yielding = false
					return false
				}
				var record *Record
				if record, bad = a.add(sequence, head, content); bad != nil {
					return false
				}
				if record != nil && sequence >= first {
					yielding = yield(record, nil)
				}
				return yielding
			})
			if bad != nil {
				err = bad
			}
			return yielding, err
		})
		if err != nil && yielding {
			yield(nil, err)
		}
	}
}

// RecordsFrom walks the whole records from a number on, up to the last: a group can begin before it, but not before its segment.
func (j *Journal) RecordsFrom(from uint64) iter.Seq2[*Record, error] {
	return j.RecordsBetween(from, math.MaxUint64)
}

// RecordsBetween is RecordsFrom up to a record.
func (j *Journal) RecordsBetween(from, last uint64) iter.Seq2[*Record, error] {
	return func(yield func(*Record, error) bool) {
		if j.info.First > j.info.Last {
			return
		}
		first := j.info.First
		for _, segment := range j.info.Segments {
			if segment.First <= from {
				first = max(first, segment.First)
			}
		}
		for record, err := range j.Records(first, last) {
			if err == nil && record.Sequence < from {
				continue
			}
			if !yield(record, err) || err != nil {
				return
			}
		}
	}
}

// assembler makes records of what lies in the frames: it puts those together that came in pieces, and knows groups.
type assembler struct {
	record Record
	group  uint64 // first record of the group; 0 = the next record begins one
	head   recordHead
	pieces []byte
	within bool // a record's pieces are coming
}

// pass takes a record that is not wanted, for the group that it belongs to.
func (a *assembler) pass(sequence uint64, head recordHead) {
	if head.flags&More == 0 {
		a.group = 0
	} else if a.group == 0 {
		a.group = sequence
	}
}

// add takes a record as it lies in the file, and returns it where it is whole.
func (a *assembler) add(sequence uint64, head recordHead, content []byte) (*Record, error) {
	if head.version > attribute.MaximumVersion {
		return nil, errVersion(sequence, head.version)
	}
	group, last := a.group, head.flags&More == 0
	if group == 0 {
		group = sequence
	}
	a.pass(sequence, head)
	if head.kind == Group {
		return nil, checkGroup(sequence, head, group == sequence && !a.within)
	}
	if a.within && (head.kind != a.head.kind || head.page != a.head.page || head.version != a.head.version) ||
		head.flags&Piece != 0 && last {
		return nil, status.Errorf(status.Corrupt, "record %d (%v of page 0x%016x) does not continue the records before it",
			sequence, head.kind, head.page)
	}
	if head.flags&Piece != 0 || a.within {
		if !a.within {
			a.pieces = a.pieces[:0]
		}
		a.head, a.within = head, head.flags&Piece != 0
		a.pieces = append(a.pieces, content...)
		if a.within {
			return nil, nil
		}
		content = a.pieces
	}
	a.record.Sequence, a.record.Group, a.record.Last = sequence, group, last
	return &a.record, a.record.decode(head, content)
}

// checkGroup says whether a record of kind Group is what it must be. first: no group is open. Errors: Corrupt.
func checkGroup(sequence uint64, head recordHead, first bool) error {
	if first && head.flags&(More|Piece|Annotated) == More && head.length == recordHeadBytes+8 {
		return nil
	}
	return status.Errorf(status.Corrupt, "record %d does not begin a group: its body has %d bytes, its flags are 0x%x",
		sequence, head.length-recordHeadBytes, head.flags)
}

// Until says how far a replay goes: to the last whole group in which no record is behind any of these.
type Until struct {
	Sequence uint64 // of the record; 0 = any
	Time     int64  // of the record, nanoseconds since 1970; 0 = any
	Page     uint64 // only where Epoch is not 0
	Epoch    uint64 // of Page; 0 = any
}

func (u Until) passed(sequence uint64, head recordHead) bool {
	return u.Sequence != 0 && sequence > u.Sequence || u.Time != 0 && head.time > u.Time ||
		u.Epoch != 0 && head.page == u.Page && head.epoch > u.Epoch
}

// Find is the sequence number of the last record of a replay of the records behind after; after itself where it is none.
// Errors: as Records.
func (j *Journal) Find(after uint64, until Until) (uint64, error) {
	found := after
	err := j.heads(after+1, func(sequence uint64, head recordHead) bool {
		if until.passed(sequence, head) {
			return false
		}
		if head.flags&More == 0 {
			found = sequence
		}
		return true
	})
	return found, err
}

// heads walks the heads of the records from first on, pieces and all.
func (j *Journal) heads(first uint64, visit func(sequence uint64, head recordHead) bool) error {
	return j.from(first, func(f *frame, records []byte) (more bool, err error) {
		more = true
		err = eachRecord(f, records, func(sequence uint64, head recordHead, _ []byte) bool {
			more = sequence < first || visit(sequence, head)
			return more
		})
		return more, err
	})
}

// beginningOf is the number of the first piece of a record, or of the record itself where it is whole. Errors: as Records.
func (j *Journal) beginningOf(record uint64) (first uint64, err error) {
	first = record
	if record <= j.info.First || record > j.info.Last {
		return first, nil
	}
	err = j.scan(j.beginning(j.holding(record)), toTheEnd, func(f *frame, records []byte, _ position) (bool, error) {
		if !f.has(record - 1) {
			return f.first < record, nil
		}
		goesOn, err := f.goesOn(records, record-1)
		if err == nil && goesOn {
			first, err = j.firstPiece(record - 1)
		}
		return false, err
	})
	return first, err
}

// firstPiece is the number of the first piece of a body that goes on behind a record. It is in the same segment. Errors: as
// Records.
func (j *Journal) firstPiece(record uint64) (first uint64, err error) {
	from := j.beginning(j.holding(record))
	first = from.next
	err = j.scan(from, toTheEnd, func(f *frame, records []byte, _ position) (more bool, err error) {
		more = true
		err = eachRecord(f, records, func(sequence uint64, head recordHead, _ []byte) bool {
			if more = sequence < record; more && head.flags&Piece == 0 {
				first = sequence + 1
			}
			return more
		})
		return more, err
	})
	return first, err
}

// from walks the frames from the one on that has the record first.
func (j *Journal) from(first uint64, visit func(f *frame, records []byte) (more bool, err error)) error {
	if first > j.info.Last {
		return nil
	}
	if first < j.info.First {
		return status.Errorf(status.NotFound, "journal %s begins at record %d; record %d was dropped", j.directory, j.info.First,
			first)
	}
	return j.scan(j.beginning(j.holding(first)), j.tail.end, func(f *frame, records []byte, _ position) (bool, error) {
		if f.first+uint64(f.count) <= first {
			return true, checkEmpty(f, records)
		}
		return visit(f, records)
	})
}
