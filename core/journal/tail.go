// Reading what a writer, of any process, adds to a journal.

package journal

import (
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"libmmsb/core/file"
	"libmmsb/core/lineage"
	"libmmsb/core/status"
)

// Tail goes on with a journal behind a state, and reads only what is new. One goroutine uses it.
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
	t := &Tail{journal: j, buffer: make([]byte, MaximumFrame)}
	t.part.assembler = new(assembler)
	t.player = newPlayer(j, from.Position, Until{})
	t.player.give, t.player.rewind = t.give, t.rewind
	return t, t.enter(j.segments[j.holding(from.Position+1)])
}

// Close ends the reading.
func (t *Tail) Close() {
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
	t.Close()
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

// Poll hands over the whole groups that have come since, and says whether any frame has. apply is as Replay's; after an error of
// it the tail is of no more use. Errors: Mismatch (another branch goes on; records were dropped before they were read), those of
// apply, Corrupt, Format, and those of the file system, after which it can be tried again.
func (t *Tail) Poll(apply func(s *Part) error) (grown bool, err error) {
	t.apply = apply
	if grown, err = t.read(); grown || err != nil {
		return grown, err
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
		n, err := file.ReadFull(t.file, t.buffer, t.at.offset)
		if err != nil {
			return grown, file.Failed(err, "cannot read %s at offset %d", s.name, t.at.offset)
		}
		s.size, t.waits = t.at.offset+int64(n), false
		if n == len(t.buffer) { // a group can be longer
			ours, err := t.file.Stat()
			if err != nil {
				return grown, file.Failed(err, "cannot read %s", s.name)
			}
			s.size = ours.Size
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
	if f.first+uint64(f.count) > lineage.MaximumPosition {
		return false, status.Errorf(status.Corrupt, "it has %d records from %d on: the last one is beyond %d", f.count, f.first,
			lineage.MaximumPosition)
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
	t.part.Records = records
	t.player.describe(&t.part, f, at)
	return t.apply(&t.part)
}
