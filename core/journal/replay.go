// Reading frames ahead for those who apply their records.

package journal

import (
	"encoding/binary"
	"io"
	"iter"
	"math"
	"slices"

	"libmmsb/core/attribute"
	"libmmsb/core/file"
	"libmmsb/core/lineage"
	"libmmsb/core/safego"
	"libmmsb/core/status"
)

// Replay is a journal that is read once, to apply its records: frames are read and checked on one goroutine while the
// records of those before are applied on another.
type Replay struct {
	journal *Journal
	looked  *Journal // by Info
	known   *Known   // by Run
}

// Known is the last frame of the last segment, of those in its file, that a replay has read.
type Known struct {
	segment segment
	at      position
	last    uint64 // its last record
}

// OpenReplay opens a journal like Open, but looks at nothing except its segments' headers.
func OpenReplay(fs file.FS, directory string) (*Replay, error) {
	j, err := openSegments(fs, directory)
	if err == nil {
		err = j.readRing(false)
	}
	if err != nil {
		return nil, err
	}
	j.info.First, j.info.Last, j.tail.end = j.segments[0].first, math.MaxUint64, toTheEnd
	return &Replay{journal: j}, nil
}

// First is the number of the oldest record that is left.
func (r *Replay) First() uint64 { return r.journal.segments[0].first }

// FromTheBeginning says that the records begin with the empty state.
func (r *Replay) FromTheBeginning() bool { return r.First() == 1 && !r.journal.segments[0].based }

// At is the lineage that the journal has at a position.
func (r *Replay) At(position uint64) lineage.Lineage { return r.journal.At(position) }

// Leads is Journal's.
func (r *Replay) Leads(from lineage.Point) error { return r.journal.Leads(from) }

// EndsBefore says whether a lineage begins behind the state that the journal ends with: nothing is to be replayed onto its
// states. It reads the last segment where that can be.
func (r *Replay) EndsBefore(line lineage.Lineage) (bool, error) {
	if line.Parent.Lineage != r.journal.info.Lineage.ID || line.Parent.Lineage == (lineage.ID{}) {
		return false, nil
	}
	last, err := r.Last()
	return line.Parent.Position == last, err
}

// Last is the number of the journal's last record. It reads the last segment.
func (r *Replay) Last() (uint64, error) {
	info, err := r.Info()
	return info.Last, err
}

// Info is what is known of the journal. It reads the last segment.
func (r *Replay) Info() (Info, error) {
	j := *r.journal
	j.segments = slices.Clone(j.segments)
	err := j.look(nil)
	r.looked = &j
	return j.info, err
}

// InfoAgain is Info of what the journal has now, and reads what has come since Info or the last InfoAgain. It must have the same
// segments still. Errors: as Info.
func (r *Replay) InfoAgain() (Info, error) {
	last := &r.looked.segments[len(r.looked.segments)-1]
	info, err := r.looked.fs.Stat(r.looked.path(last.name))
	if err != nil {
		return Info{}, file.Failed(err, "cannot open %s", r.looked.path(last.name))
	}
	last.size = max(last.size, info.Size)
	err = r.looked.lookOn()
	return r.looked.info, err
}

// LastSegment opens the last segment as far as it counts, as Info has found it: with what a killed writer has left in its ring,
// as if its file had that.
func (r *Replay) LastSegment() (file.Source, error) {
	last := &r.looked.segments[len(r.looked.segments)-1]
	source, err := file.Open(r.looked.fs, r.looked.path(last.name))
	if err != nil {
		return nil, err
	}
	return &lastSegment{source, last.residue, r.looked.tail.end}, nil
}

type lastSegment struct {
	file.Source
	residue residue
	end     int64
}

func (s *lastSegment) Size() int64 { return s.end }

func (s *lastSegment) ReadAt(p []byte, offset int64) (int, error) {
	n := int(max(0, min(int64(len(p)), s.residue.from()-offset)))
	if n > 0 {
		if n, err := s.Source.ReadAt(p[:n], offset); err != nil {
			return n, err
		}
	}
	if n < len(p) {
		n += copy(p[n:], s.residue.at(offset+int64(n), s.end))
	}
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// Find and Records are Journal's; they read no further than they are asked for. CheckGaps is Journal's.
func (r *Replay) Find(after uint64, until Until) (uint64, error) {
	last, err := r.journal.Find(after, until)
	if err == nil {
		err = r.journal.lookAtRing()
	}
	return last, err
}

// Records is described at Find.
func (r *Replay) Records(first, last uint64) iter.Seq2[*Record, error] {
	return r.journal.Records(first, last)
}

// CheckGaps is described at Find.
func (r *Replay) CheckGaps(after, last uint64, until Until) error {
	return r.journal.CheckGaps(after, last, until)
}

// At is the lineage that the journal has at a position. A gap may begin one.
func (j *Journal) At(position uint64) lineage.Lineage {
	for i := len(j.segments) - 1; i > 0; i-- {
		if j.segments[i].first-1 <= position {
			return j.segments[i].lineage
		}
	}
	return j.segments[0].lineage
}

// Leads says whether records go on from a state. Errors: Mismatch (another lineage; the records behind it were dropped).
func (j *Journal) Leads(from lineage.Point) error {
	for i := len(j.segments) - 1; i >= 0; i-- {
		s := &j.segments[i]
		begins := i == 0 || j.segments[i-1].id != s.id
		of := from.Lineage == s.lineage.ID && from.Position+1 >= s.first
		if of || begins && from == s.lineage.Parent && from.Lineage != (lineage.ID{}) && from.Position+1 == s.first {
			if i+1 < len(j.segments) && from.Position > j.segments[i+1].before {
				break
			}
			return nil
		}
	}
	first, own := j.segments[0].first, j.info.Lineage
	if from.Lineage == own.ID && from.Position+1 < first {
		return status.Errorf(status.Mismatch, "the journal %s begins with record %d, but the state is %s", j.directory, first,
			from)
	}
	return status.Errorf(status.Mismatch, "the journal %s has the lineage %s, but the state is %s", j.directory, own.ID, from)
}

// CheckGaps says whether all steps behind a position are recorded, up to where a replay ends: at a record, by its limits. What
// lies behind the last record before a gap is not known, unless the number of a record was asked for. Errors: Mismatch.
func (j *Journal) CheckGaps(after, last uint64, until Until) error {
	for i := range j.segments {
		s := &j.segments[i]
		ends := until != Until{} && (last < s.before || until.Sequence != 0 && until.Sequence < s.first)
		if s.based && s.first > after+1 && !ends {
			return status.Errorf(status.Mismatch, "journal %s: step %d was not recorded: a base from there on is needed",
				j.directory, s.first-1)
		}
	}
	return nil
}

// Part is a part of a frame: records that lie one behind the other, of groups that are whole.
type Part struct {
	Records   []byte // those that are left, at an address that is a multiple of 8
	sequence  uint64 // of the first of them
	assembler *assembler
	path      string // of the segment
	offset    int64  // of the frame
	room      []byte
	// Whole says that its last record ends a group.
	Whole bool
}

// framesAhead is how many frames are read before they are applied.
const framesAhead = 3

// Run walks the groups behind the record after, up to where until says or the journal ends, and returns the number of the
// last record. apply gets them in order; it is called on this goroutine, and its first error ends the walk. What a part
// has is good until apply returns. Nothing is known of what lies behind: an error may come after many calls of apply.
// Errors: NotFound (the record behind after was dropped), those of apply, Corrupt, Format, and those of the file system.
func (r *Replay) Run(after uint64, until Until, apply func(s *Part) error) (last uint64, err error) {
	j := r.journal
	if after+1 < r.First() {
		return after, status.Errorf(status.NotFound, "journal %s begins at record %d; record %d was dropped", j.directory,
			r.First(), after+1)
	}
	p := newPlayer(j, after, until)
	p.ready, p.free, p.stopped = make(chan *Part, framesAhead), make(chan *Part, framesAhead), make(chan struct{})
	p.give = p.hand
	p.rewind = func(at position) error { return j.scan(j.beginning(at.segment), toTheEnd, p.frame) }
	var pieces assembler
	for range framesAhead {
		p.free <- &Part{assembler: &pieces}
	}
	safego.Go(func() {
		defer close(p.ready)
		p.failed = status.Errorf(status.Internal, "reading journal %s panicked", j.directory)
		p.failed = j.scan(j.beginning(j.holding(after+1)), toTheEnd, p.frame)
	})
	for s := range p.ready {
		if err == nil {
			if err = apply(s); err != nil {
				close(p.stopped)
			}
		}
		p.free <- s
	}
	if err == nil {
		err = p.failed
	}
	if err == nil {
		err = j.CheckGaps(after, p.last, until)
	}
	if err == nil {
		err = j.lookAtRing()
	}
	if end := len(j.segments) - 1; err == nil && p.known.at.offset > 0 && p.known.at.segment == end {
		p.known.segment = j.segments[end].segment
		r.known = &p.known
	}
	return p.last, err
}

// Known says how far Run has read, for the next writer; nil: not into the last segment.
func (r *Replay) Known() *Known { return r.known }

// player finds whole groups in frames.
type player struct {
	journal *Journal
	after   uint64
	next    uint64 // the first record to be applied; before after where a body goes on behind it
	until   Until
	last    uint64 // of the groups that were found
	great   uint64 // the last record of a group that goes beyond its frame, and that is whole
	ended   bool   // what follows is not to be applied
	known   Known  // without the segment
	give    func(f *frame, records []byte, at position) error
	rewind  func(at position) error // walks the frames from the beginning of the segment on, instead of what follows
	ready   chan *Part
	free    chan *Part
	stopped chan struct{}
	failed  error
}

func newPlayer(j *Journal, after uint64, until Until) *player {
	return &player{journal: j, after: after, next: after + 1, last: after, until: until}
}

// frame is a visit of scan.
func (p *player) frame(f *frame, records []byte, at position) (more bool, err error) {
	if at.offset < p.journal.segments[at.segment].residue.from() {
		p.known.at, p.known.last = at, f.first+uint64(f.count)-1
	}
	if p.next == p.after+1 && f.has(p.after) {
		goesOn, err := f.goesOn(records, p.after)
		if err == nil && goesOn { // the change has a number behind after, its first pieces have not
			if p.next, err = p.journal.firstPiece(p.after); err == nil {
				err = p.rewind(at)
			}
		}
		if goesOn || err != nil {
			return false, err
		}
	}
	if f.first+uint64(f.count) <= p.next {
		err = checkEmpty(f, records)
		return err == nil, err
	}
	if s := &p.journal.segments[at.segment]; s.based && s.first > p.after+1 { // Run says whether it ends well
		p.ended = true
		return false, nil
	}
	begin, end := -1, 0                 // what is to be applied
	group := uint64(0)                  // the first record of the one that is not whole yet
	bad, wrong := uint64(0), error(nil) // the first record that cannot be; it counts only if it is applied
	bounded := p.until != Until{}
	next := 0
	for i := uint64(0); i < uint64(f.count) && !p.ended; i++ { // a tight loop: eachRecord costs as much as the records' changes
		sequence, here := f.first+i, next
		left := records[here:]
		if err := checkLength(sequence, left); err != nil {
			return false, err
		}
		next = min(here+int(binary.LittleEndian.Uint32(left)+7)&^7, len(records))
		if sequence < p.next {
			if left[5]&More == 0 {
				group = 0
			} else if group == 0 {
				group = sequence
			}
			continue
		}
		if begin < 0 {
			begin, end = here, here
		}
		if version := binary.LittleEndian.Uint64(left[16:]); version > attribute.MaximumVersion && bad == 0 {
			bad, wrong = sequence, errVersion(sequence, version)
		}
		if Kind(left[4]) == Group && bad == 0 {
			if wrong = checkGroup(sequence, decodeRecordHead(left), group == 0 && sequence > p.great); wrong != nil {
				bad = sequence
			}
		}
		switch {
		case sequence <= p.great:
			end, p.last = next, sequence
		case bounded && p.until.passed(sequence, decodeRecordHead(left)):
			p.ended = true
		case left[5]&More == 0:
			end, p.last, group = next, sequence, 0
		case group == 0:
			group = sequence
		}
	}
	if !p.ended {
		if err := checkEnd(f, len(records)-next); err != nil {
			return false, err
		}
	}
	if !p.ended && group != 0 {
		if err := checkBegins(f, group); err != nil {
			return false, err
		}
		if p.great, err = p.groupEnds(group, at); err != nil {
			return false, err
		}
		if p.great == 0 {
			p.ended = true
		} else {
			end, p.last = len(records), f.first+uint64(f.count)-1
		}
	}
	if bad != 0 && bad <= p.last {
		return false, wrong
	}
	if begin >= 0 && begin < end {
		err = p.give(f, records[begin:end], at)
	}
	return !p.ended, err
}

// groupEnds is the number of the last record of a group that goes beyond the frame that it begins in; 0 where that one is
// missing, or where the group is not to be applied.
func (p *player) groupEnds(group uint64, at position) (last uint64, err error) {
	err = p.journal.scan(at, toTheEnd, func(f *frame, records []byte, _ position) (more bool, err error) {
		more = true
		err = eachRecord(f, records, func(sequence uint64, head recordHead, _ []byte) bool {
			if sequence < group {
				return true
			}
			more = !p.until.passed(sequence, head)
			if more && head.flags&More == 0 {
				last, more = sequence, false
			}
			return more
		})
		return more, err
	})
	return last, err
}

// hand hands records over to be applied, where they are still wanted.
func (p *player) hand(f *frame, records []byte, at position) error {
	select {
	case <-p.stopped:
		p.ended = true
	case s := <-p.free:
		if f.room != nil {
			s.room, *f.room = *f.room, s.room
			s.Records = records
		} else {
			s.room = append(roomFor(s.room, len(records)), records...)
			s.Records = s.room
		}
		p.describe(s, f, at)
		p.ready <- s
	}
	return nil
}

// describe says of the records of a part where they come from.
func (p *player) describe(s *Part, f *frame, at position) {
	s.sequence, s.Whole = max(f.first, p.next), p.last >= p.great
	s.path, s.offset = p.journal.path(p.journal.segments[at.segment].name), at.offset
}

// Skip leaves out so many records of so many bytes together.
func (s *Part) Skip(records uint64, bytes int) {
	s.sequence += records
	s.Records = s.Records[bytes:]
}

// Within says that a record's pieces were read, but not its last one: what comes next is for Next.
func (s *Part) Within() bool { return s.assembler.within }

// Next is the next record; nil where its last piece is in a part that follows. It is good until the next call. Errors:
// Corrupt, Format.
func (s *Part) Next() (record *Record, err error) {
	for record == nil && len(s.Records) > 0 {
		head := decodeRecordHead(s.Records) // its length was compared when its group was found
		record, err = s.assembler.add(s.sequence, head, s.Records[recordHeadBytes:head.length:head.length])
		if err != nil {
			return nil, inFrame(err, s.path, s.offset)
		}
		s.Skip(1, min(int(head.length+7)&^7, len(s.Records)))
	}
	return record, nil
}
