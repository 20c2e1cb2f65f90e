// Reading what a writer, of any process, adds to a journal.

package journal

import (
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"libmmsb/core/file"
	"libmmsb/core/lineage"
	"libmmsb/core/status"
)

// Tail goes on with a journal behind a state, and reads only what is new: out of the ring of a writer on this system, else what
// it has written to the segments. One goroutine uses it.
type Tail struct {
	journal *Journal // of one segment: the one that is being read
	player  *player
	part    Part
	at      position // of the next frame
	file    file.File
	buffer  []byte
	apply   func(s *Part) error // of the poll that is running
	waits   bool                // the next frame is whole, but the end of its group is missing
	torn    time.Time           // since when the next frame is there, and not whole; zero: it is not there

	ring   ringTail
	given  bool    // records of a frame were handed over
	behind bool    // the last record came out of a ring: the segments have more that is not to be handed over again
	source inodeOf // that ring
	print  print   // of that record
	unsure bool    // whether the segments have it
}

// print tells a record from others of its number: that the disk has lost what came out of a ring.
type print struct {
	head recordHead
	sum  uint32
}

// printOf is the print of a record in a frame. Errors: Corrupt.
func printOf(f *frame, records []byte, record uint64) (of print, err error) {
	err = eachRecord(f, records, func(sequence uint64, head recordHead, content []byte) bool {
		if sequence == record {
			of = print{head, checksum(content)}
		}
		return sequence < record
	})
	return of, err
}

// OpenTail begins behind a state that the journal has, or ends with. Errors: Mismatch (the journal does not go on from there; the
// records behind it were dropped), and those of OpenReplay.
func OpenTail(fs file.FS, directory string, from lineage.Point) (*Tail, error) {
	j, err := openSegments(fs, directory)
	if err != nil {
		return nil, err
	}
	if err := j.Leads(from); err != nil {
		return nil, err
	}
	if err := j.CheckGaps(from.Position, 0, Until{}); err != nil {
		return nil, err
	}
	t := &Tail{journal: j, buffer: make([]byte, MaximumFrame), ring: ringTail{fs: fs, path: filepath.Join(directory, ringName)}}
	t.part.assembler = new(assembler)
	t.playFrom(from.Position)
	return t, t.enter(j.segments[j.holding(from.Position+1)])
}

// playFrom begins to hand over what lies behind a record.
func (t *Tail) playFrom(last uint64) {
	t.player = newPlayer(t.journal, last, Until{})
	t.player.give, t.player.rewind = t.give, t.rewind
}

// Close ends the reading.
func (t *Tail) Close() {
	t.ring.close()
	t.leaveSegment()
}

func (t *Tail) leaveSegment() {
	if t.file != nil {
		_ = t.file.Close()
		t.file = nil
	}
}

// Last is the number of the last record that was handed over.
func (t *Tail) Last() uint64 { return t.player.last }

// Branch is the number of the branch that is being read.
func (t *Tail) Branch() uint64 { return t.journal.segments[0].branch }

// NewestBranch is the number of the branch that goes on in a directory.
func NewestBranch(fs file.FS, directory string) (uint64, error) {
	places, err := list(fs, directory)
	if err == nil && len(places) == 0 {
		err = status.Errorf(status.NotFound, "no journal in %s", directory)
	}
	if err != nil {
		return 0, err
	}
	return places[len(places)-1].branch, nil
}

// enter goes to the beginning of a segment.
func (t *Tail) enter(s openSegment) error {
	path := t.journal.path(s.name)
	f, err := t.journal.fs.Open(path, unix.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return t.gone(file.Failed(err, "cannot open %s", path))
	}
	t.leaveSegment()
	t.file, t.journal.segments = f, []openSegment{s}
	t.at = t.journal.beginning(0)
	return nil
}

// gone says of a file that is missing what that means.
func (t *Tail) gone(err error) error {
	if status.CodeOf(err) == status.NotFound {
		return t.left("its segment %s was removed", t.journal.segments[0].name)
	}
	return err
}

func (t *Tail) left(why string, arguments ...any) error {
	return status.Errorf(status.Mismatch, "the journal %s does not go on behind record %d as it was: "+why,
		append([]any{t.journal.directory, t.player.last}, arguments...)...)
}

// Poll hands over the whole groups that have come since, and says whether anything has. apply is as Replay's; after an error of
// it the tail is of no more use. Errors: Mismatch (another branch goes on; records were dropped before they were read; the
// journal has lost some that were), those of apply, Corrupt, Format, and those of the file system, after which it can be tried
// again.
func (t *Tail) Poll(apply func(s *Part) error) (grown bool, err error) {
	t.apply = apply
	grown, has, err := t.readRing()
	if grown || has || err != nil {
		return grown, err
	}
	if t.behind {
		if err = t.back(); err != nil {
			return false, err
		}
	}
	if grown, err = t.read(); grown || err != nil {
		return grown, err
	}
	if t.unsure && t.source != t.ring.is { // who took the ring away has written before what it had
		return false, t.left("it has lost that record")
	}
	next, err := t.next()
	if err != nil {
		return false, err
	}
	if next == nil {
		return t.lookAtTorn()
	}
	// A segment that has a next one is complete, but may not have been when it was read.
	if grown, err = t.read(); grown || err != nil {
		return grown, err
	}
	if next.branch != t.journal.segments[0].branch {
		return false, t.left("branch %d does", next.branch)
	}
	s, err := t.journal.openSegment(*next)
	if err != nil {
		return false, t.gone(err)
	}
	other := s.based || s.id != t.journal.segments[0].id
	if other || s.first != t.at.next || s.before != t.at.next-1 || s.previous != t.at.chain {
		return false, t.left("segment %s follows record %d", s.name, s.before)
	}
	if err := t.enter(s); err != nil {
		return false, err
	}
	return t.read()
}

// readRing hands over what the ring has behind the last record. has says that the segments need not be asked. What came out of
// another ring must be in them before this one counts.
func (t *Tail) readRing() (grown, has bool, err error) {
	id := t.journal.segments[0].id
	if !t.ring.look(id) || t.source != t.ring.is && (t.behind || t.unsure) {
		return false, false, nil
	}
	for range mostWindows {
		groups, count, has := t.ring.more(t.player.last, t.buffer)
		if count == 0 {
			return grown, has, nil
		}
		f := frame{id: id, first: t.player.last + 1, count: count}
		t.player.ended, t.given = false, false
		at := position{offset: t.at.offset, next: f.first}
		of, err := printOf(&f, groups, f.first+uint64(count)-1)
		if err == nil {
			_, err = t.player.frame(&f, groups, at)
		}
		if err != nil && !t.given { // no writer puts that there
			t.ring.lies()
			return grown, false, nil
		}
		if err != nil {
			return grown, true, err
		}
		grown, t.behind, t.unsure, t.source, t.print = true, true, false, t.ring.is, of
	}
	return grown, true, nil
}

// back goes back to the segments behind a record that came out of a ring: to the frame that has it, so that it can be compared.
func (t *Tail) back() error {
	places, err := list(t.journal.fs, t.journal.directory)
	if err != nil {
		return err
	}
	last, here := t.player.last, t.journal.segments[0].place()
	var to *place
	for i := range places {
		if at := &places[i]; at.branch == here.branch && (at.first <= last || to == nil && at.first == last+1) {
			to = at
		}
	}
	if to == nil {
		return t.left("the records behind it were removed")
	}
	if *to != here {
		s, err := t.journal.openSegment(*to)
		if err != nil {
			return t.gone(err)
		}
		if s.id != t.journal.segments[0].id {
			return t.left("segment %s has another lineage", s.name)
		}
		if err := t.enter(s); err != nil {
			return err
		}
	}
	if err := t.pass(last); err != nil {
		return err
	}
	t.playFrom(last)
	t.behind, t.unsure, t.torn = false, to.first <= last, time.Time{}
	return nil
}

// pass goes behind the frames that end before a record, by their heads.
func (t *Tail) pass(record uint64) error {
	s := &t.journal.segments[0]
	for head := make([]byte, FrameHeadBytes); ; {
		n, err := file.ReadFull(t.file, head, t.at.offset)
		if err != nil {
			return file.Failed(err, "cannot read %s at offset %d", s.name, t.at.offset)
		}
		f, ok := decodeFrame(head[:n], s.id)
		if !ok || f.first != t.at.next || f.previous != t.at.chain || f.first+uint64(f.count) > record {
			return nil
		}
		t.at.offset, t.at.next, t.at.chain = t.at.offset+int64(padded(int(f.length))), f.first+uint64(f.count), f.crc
	}
}

// next is the segment behind the one that is being read, or one of a newer branch; nil: it is the last one.
func (t *Tail) next() (*place, error) {
	places, err := list(t.journal.fs, t.journal.directory)
	if err != nil {
		return nil, err
	}
	here := t.journal.segments[0].place()
	i, found := slices.BinarySearchFunc(places, here, place.compare)
	if found {
		i++
	}
	if i < len(places) { // the one before it may have been removed by now, as far as it was not read
		return &places[i], nil
	}
	if !found {
		return nil, t.left("its segment %s was removed", here.name())
	}
	ours, err := t.file.Stat()
	if err != nil {
		return nil, file.Failed(err, "cannot read %s", here.name())
	}
	if named, err := t.journal.fs.Stat(t.journal.path(here.name())); err == nil && named.Inode != ours.Inode {
		return nil, t.left("its segment %s is another file", here.name())
	}
	return nil, nil
}

// tornPatience is how long the next frame may be there and not whole before what lies behind it is looked at, and between two
// looks: zeros that a writer has written ahead are such a frame.
const tornPatience = time.Second

// lookAtTorn looks at a frame that is not whole: its end is not written yet, was cut by a crash, or is damaged.
func (t *Tail) lookAtTorn() (grown bool, err error) {
	s := &t.journal.segments[0]
	switch {
	case s.size <= t.at.offset || t.waits:
		t.torn = time.Time{}
		return false, nil
	case t.torn.IsZero():
		t.torn = time.Now()
	}
	if time.Since(t.torn) < tornPatience {
		return false, nil
	}
	t.torn = time.Now()
	wasDurable, err := t.journal.wasDurable(s, t.at.offset, t.at.next)
	if err != nil {
		return false, t.gone(err)
	}
	// Read after what lies behind it: as scan does.
	if grown, err = t.read(); wasDurable && !grown && err == nil {
		err = damaged(t.journal.path(s.name), t.at.offset, t.at.next)
	}
	return grown, err
}

// read hands over what the segment has, and says whether any frame was read.
func (t *Tail) read() (grown bool, err error) {
	s := &t.journal.segments[0]
	for {
		if d := t.file.Descriptor(); d >= 0 { // all at once, and what comes next meanwhile: one by one they wait behind a save
			_ = unix.Fadvise(d, t.at.offset, 2*int64(len(t.buffer)), unix.FADV_WILLNEED)
		}
		n, err := file.ReadFull(t.file, t.buffer, t.at.offset)
		if err != nil {
			return grown, file.Failed(err, "cannot read %s at offset %d", s.name, t.at.offset)
		}
		s.size, t.waits = t.at.offset+int64(n), false
		if n == len(t.buffer) || n == 0 { // a group can be longer, and what was read can be gone
			ours, err := t.file.Stat()
			if err != nil {
				return grown, file.Failed(err, "cannot read %s", s.name)
			}
			s.size = ours.Size
			if s.size < t.at.offset {
				return grown, t.left("its segment %s has %d bytes, %d were read", s.name, ours.Size, t.at.offset)
			}
		}
		before := t.at.offset
		walk := frameWalk{path: t.journal.path(s.name), id: s.id, offset: before, visit: t.frame}
		err = walk.feed(t.buffer[:n])
		if t.at.offset > before {
			grown, t.torn = true, time.Time{}
		}
		switch {
		case err == errEnough || err == errNotNext || err == nil && t.at.offset == before:
			return grown, nil
		case err != nil:
			return grown, t.gone(err)
		}
	}
}

// frame is a visit.
func (t *Tail) frame(f *frame, whole []byte, offset int64) (more bool, err error) {
	if f.first != t.at.next || f.previous != t.at.chain {
		return false, errNotNext
	}
	if err := checkNumbers("it", f.first, f.count); err != nil {
		return false, err
	}
	if t.unsure && f.has(t.player.after) {
		of, err := printOf(f, whole[FrameHeadBytes:f.length], t.player.after)
		if err != nil {
			return false, err
		}
		if of != t.print {
			return false, t.left("it has another record of that number")
		}
		t.unsure = false
	}
	t.player.ended = false
	more, err = t.player.frame(f, whole[FrameHeadBytes:f.length], t.at)
	if t.waits = !more; err != nil || !more {
		return false, err
	}
	t.at.offset, t.at.next, t.at.chain = offset+int64(padded(int(f.length))), f.first+uint64(f.count), f.crc
	return true, nil
}

// rewind lets the next poll begin with the segment: a body goes on behind the state.
func (t *Tail) rewind(position) error {
	t.at = t.journal.beginning(0)
	return nil
}

// give hands records over at once.
func (t *Tail) give(f *frame, records []byte, at position) error {
	t.part.Records, t.given = records, true
	t.player.describe(&t.part, f, at)
	return t.apply(&t.part)
}
