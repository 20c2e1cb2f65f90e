// Walking frames over segments, and telling a torn end from damage.

package journal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"

	"libmmsb/core/file"
	"libmmsb/core/status"
)

// toTheEnd is the end of a scan that finds the end by itself.
const toTheEnd = -1

// position is where a frame lies, and what it must say to belong there.
type position struct {
	segment int   // its number among the journal's
	offset  int64 // in the segment
	next    uint64
	chain   uint32 // crc of the frame before
}

// beginning is the position of a segment's first frame.
func (j *Journal) beginning(segment int) position {
	s := &j.segments[segment]
	return position{segment, unitBytes, s.first, s.previous}
}

// holding is the segment that has a record, or would have it.
func (j *Journal) holding(record uint64) (segment int) {
	segment = len(j.segments) - 1
	for segment > 0 && j.segments[segment].first > record {
		segment--
	}
	return segment
}

// scan walks the frames from a position on, checked. In the last segment it ends at the offset end; with toTheEnd at the first
// frame that is not whole, where nothing behind it says that it was durable, or behind what a killed process left in its ring. A
// process may write that segment meanwhile. Errors: those of visit, Corrupt, and those of the file system.
func (j *Journal) scan(from position, end int64, visit func(f *frame, records []byte, at position) (more bool, err error)) error {
	offset, next, chain, open := from.offset, from.next, from.chain, false
	for i := from.segment; i < len(j.segments); i++ {
		s := &j.segments[i]
		if i > from.segment {
			if open {
				return status.Errorf(status.Corrupt, "%s ends with record %d, whose group goes on, but %s follows",
					j.path(j.segments[i-1].name), next-1, s.name)
			}
			if s.before != next-1 || s.previous != chain {
				return status.Errorf(status.Corrupt,
					"%s follows record %d with checksum 0x%08x, but record %d with 0x%08x is the last "+
						"one: a segment is missing or foreign", j.path(s.name), s.before, s.previous, next-1, chain)
			}
			next = s.first
		}
		limit := s.size
		if i == len(j.segments)-1 && end != toTheEnd {
			limit = end
		}
		more := true
		walk := frameWalk{path: j.path(s.name), id: s.id, offset: offset, residue: &s.residue}
		walk.visit = func(f *frame, whole []byte, offset int64) (bool, error) {
			if f.first != next || f.previous != chain {
				return false, errNotNext
			}
			err := checkNumbers("it", f.first, f.count)
			if err != nil {
				return false, err
			}
			more, err = visit(f, whole[FrameHeadBytes:f.length], position{i, offset, next, chain})
			next, chain = f.first+uint64(f.count), f.crc
			if f.count > 0 {
				open = f.open
			}
			return more, err
		}
		stopped, err := walk.upTo(limit, j.fs)
		if err != nil || !more {
			return err
		}
		offset = unitBytes
		if i < len(j.segments)-1 || end != toTheEnd {
			if stopped < limit {
				return damaged(j.path(s.name), stopped, next)
			}
			continue
		}
		for torn := int64(0); torn != stopped && stopped < limit; {
			torn = stopped
			wasDurable, err := j.wasDurable(s, torn, next)
			if err != nil {
				return err
			}
			// Looked at again after what lies behind it: its writer may have completed the frame, and written those, meanwhile.
			if stopped, err = walk.upTo(limit, j.fs); err != nil || !more {
				return err
			}
			if stopped == torn && wasDurable {
				return damaged(j.path(s.name), stopped, next)
			}
		}
		if err := j.addResidue(position{i, stopped, next, chain}); err != nil {
			return err
		}
		if s.residue.frames != nil && stopped < s.size {
			if _, err := walk.upTo(s.size, j.fs); err != nil {
				return err
			}
		}
	}
	return nil
}

// errNotNext is what a visit says of a frame that is whole, but none of the frames that belong here.
var errNotNext = errors.New("not the next frame")

func damaged(path string, offset int64, next uint64) error {
	return status.Errorf(status.Corrupt, "%s: the frame at offset %d, from record %d on, is damaged", path, offset,
		next)
}

// wasDurable looks at what lies behind the last whole frame: whether a later frame says that the record next was durable. Else it
// can be the rest of a write that a crash cut short, or one that is not complete yet.
func (j *Journal) wasDurable(s *openSegment, offset int64, next uint64) (was bool, err error) {
	path := j.path(s.name)
	source, err := file.Open(j.fs, path)
	if err != nil {
		return false, err
	}
	defer func() { _ = source.Close() }()
	size := min(s.size, source.Size())
	search := durableSearch{id: s.id, next: next, size: size}
	begin := offset &^ (unitBytes - 1)
	window := make([]byte, min(1<<20, max(0, size-begin)))
	for at := begin; at < size; at += int64(len(window)) {
		if len(search.candidates) == 0 { // nothing begins in a hole
			if at = file.NextData(source, at) &^ (unitBytes - 1); at >= size {
				break
			}
			search.begin = at
			search.sums = nil
		}
		window = window[:min(int64(len(window)), size-at)]
		if _, err := source.ReadAt(window, at); err != nil {
			if _, cut := cutSince(j.fs, path, size); cut { // a frame that is whole is never cut
				return false, nil
			}
			return false, err
		}
		if search.look(window, at) {
			return true, nil
		}
	}
	return false, nil
}

// cutSince is the size of a segment's file that has become shorter: its writer cuts zeros behind the last frame.
func cutSince(fs file.FS, path string, size int64) (now int64, cut bool) {
	info, err := fs.Stat(path)
	return info.Size, err == nil && info.Size < size
}

// durableSearch looks for a whole frame that says that a record was durable. Heads of frames can be anywhere, and say that they
// overlap: each byte is read once all the same.
type durableSearch struct {
	id         [16]byte
	next       uint64 // the record
	size       int64  // of the file
	begin      int64  // where sums begin
	sums       sums
	candidates []candidate
}

// candidate is what may be a frame, up to the end of its units.
type candidate struct {
	end    int64
	behind int64  // the end of its first unit
	first  uint32 // checksum of that
	crc    uint32 // that it says it has
}

// look says whether there is such a frame that ends in a window of the file, or before.
func (d *durableSearch) look(window []byte, at int64) bool {
	for i := 0; i+unitBytes <= len(window); i += unitBytes {
		head, ok := decodeFrame(window[i:], d.id)
		end := at + int64(i+padded(int(head.length)))
		if ok && head.durable >= d.next && end <= d.size {
			unit := window[i : i+unitBytes]
			d.candidates = append(d.candidates, candidate{end, at + int64(i) + unitBytes, frameCRC(unit), head.crc})
		}
	}
	d.sums.grow(window)
	read := d.begin + int64(d.sums.units())*unitBytes
	left := d.candidates[:0]
	for _, c := range d.candidates {
		unit := func(offset int64) int { return int((offset - d.begin) / unitBytes) }
		switch {
		case c.end > read:
			left = append(left, c)
		case d.sums.behind(c.first, unit(c.behind), unit(c.end)) == c.crc:
			return true
		}
	}
	d.candidates = left
	const kept = 2 * MaximumFrame / unitBytes // candidates begin there
	if drop := d.sums.units() - kept; drop > kept {
		d.sums = append(sums(nil), d.sums[drop:]...)
		d.begin += int64(drop) * unitBytes
	}
	return false
}

// eachRecord walks the records of a frame, and looks at how it ends: frame.open. content is a record's body. Errors: Corrupt.
func eachRecord(f *frame, records []byte, visit func(sequence uint64, head recordHead, content []byte) (more bool)) error {
	at, group := 0, f.first // the first record of the group that is open, as far as it is in this frame
	for i := range f.count {
		sequence := f.first + uint64(i)
		left := records[at:]
		if err := checkLength(sequence, left); err != nil {
			return err
		}
		head := decodeRecordHead(left)
		if !visit(sequence, head, left[recordHeadBytes:head.length:head.length]) {
			return nil
		}
		at += min(int(head.length+7)&^7, len(left))
		if head.flags&More == 0 {
			group = sequence + 1
		}
	}
	if f.open = group < f.first+uint64(f.count); f.open {
		if err := checkBegins(f, group); err != nil {
			return err
		}
	}
	return checkEnd(f, len(records)-at)
}

// has says whether a frame has a record.
func (f *frame) has(record uint64) bool { return f.first <= record && record < f.first+uint64(f.count) }

// goesOn says whether the body of a record, which the frame has, goes on in the next one. Errors: Corrupt.
func (f *frame) goesOn(records []byte, record uint64) (goes bool, err error) {
	err = eachRecord(f, records, func(sequence uint64, head recordHead, _ []byte) bool {
		goes = head.flags&Piece != 0
		return sequence < record
	})
	return goes, err
}

// checkLength says whether what is left of a frame is enough for the next record. Errors: Corrupt.
func checkLength(sequence uint64, left []byte) error {
	if len(left) >= recordHeadBytes {
		if length := binary.LittleEndian.Uint32(left); length >= recordHeadBytes && uint64(length) <= uint64(len(left)) {
			return nil
		}
	}
	return badLength(sequence, left)
}

func badLength(sequence uint64, left []byte) error {
	if len(left) < recordHeadBytes {
		return status.Errorf(status.Corrupt, "record %d has %d bytes left in its frame, fewer than a record header of %d",
			sequence, len(left), recordHeadBytes)
	}
	return status.Errorf(status.Corrupt, "record %d has %d bytes, but its frame has %d bytes left", sequence,
		binary.LittleEndian.Uint32(left), len(left))
}

// checkBegins says whether a group that is not whole in a frame begins where one may that goes on in the next; 0: there is none.
// Errors: Corrupt.
func checkBegins(f *frame, group uint64) error {
	if group <= f.first {
		return nil
	}
	return status.Errorf(status.Corrupt, "the group of record %d goes beyond its frame, but does not begin it: record %d does",
		group, f.first)
}

// checkEnd says whether a frame ends with its last record. Errors: Corrupt.
func checkEnd(f *frame, left int) error {
	if left == 0 {
		return nil
	}
	return status.Errorf(status.Corrupt, "the frame of record %d has %d bytes after its %d records", f.first, left, f.count)
}

// checkEmpty says whether a frame without records has nothing else. Errors: Corrupt.
func checkEmpty(f *frame, records []byte) error {
	if f.count > 0 {
		return nil
	}
	return checkEnd(f, len(records))
}

// upTo walks the frames of a segment up to the offset limit. It returns the offset behind the last frame that is whole and that
// the visit takes, which answers errNotNext for one that is not to be taken. What a visit gets is good during the visit.
func (w *frameWalk) upTo(limit int64, fs file.FS) (stopped int64, err error) {
	source, err := file.Open(fs, w.path)
	if err != nil {
		return w.offset, err
	}
	defer func() { _ = source.Close() }()
	for size, cut := source.Size(), true; cut; {
		err = w.read(source, min(limit, size, w.residue.from()))
		if cut = err != nil && err != errEnough && err != errNotNext; cut {
			size, cut = cutSince(fs, w.path, size)
		}
	}
	if more := w.residue.at(w.offset, limit); err == nil && more != nil {
		err = w.feed(more)
	}
	if err == errEnough || err == errNotNext {
		err = nil
	}
	return w.offset, err
}

// read walks the frames of a file up to an offset.
func (w *frameWalk) read(source file.Source, end int64) error {
	w.rest = w.rest[:0]
	part := file.Range{Offset: w.offset, Length: end - w.offset}
	if part.Length > small {
		return file.Pieces(source, []file.Range{part}, func(_ int, piece []byte) error { return w.feed(piece) })
	}
	piece := make([]byte, max(0, part.Length))
	if _, err := source.ReadAt(piece, part.Offset); err != nil {
		return err
	}
	return w.feed(piece)
}

// small is the length up to which a file is read at once.
const small = 128 << 10

// errEnough is what ends a walk whose visit wants no more.
var errEnough = errors.New("end of the walk")

// frameWalk puts frames together from the pieces of a file.
type frameWalk struct {
	path    string
	id      [16]byte
	visit   func(f *frame, whole []byte, offset int64) (more bool, err error)
	offset  int64 // of the next frame
	residue *residue
	rest    []byte // the beginning of a frame whose end is in the next piece
}

func (w *frameWalk) feed(piece []byte) error {
	for len(piece) > 0 {
		data := piece
		if len(w.rest) > 0 {
			head, _ := decodeFrame(w.rest, w.id)
			n := min(padded(int(head.length))-len(w.rest), len(piece))
			w.rest, piece = append(w.rest, piece[:n]...), piece[n:]
			data = w.rest
		}
		head, ok := decodeFrame(data, w.id)
		if !ok {
			return errNotNext
		}
		length := padded(int(head.length))
		if length > len(data) {
			if len(w.rest) == 0 {
				w.rest = append(roomFor(w.rest, length), data...)
			}
			return nil
		}
		if frameCRC(data[:length]) != head.crc {
			return errNotNext
		}
		assembled := len(w.rest) > 0
		if assembled {
			head.room = &w.rest
		}
		more, err := w.visit(&head, data[:length], w.offset)
		if err != nil {
			return inFrame(err, w.path, w.offset)
		}
		w.offset += int64(length)
		if !more {
			return errEnough
		}
		if assembled {
			w.rest = w.rest[:0]
		} else {
			piece = piece[length:]
		}
	}
	return nil
}

// roomFor is an empty buffer with space for so many bytes of a frame. A new one has up to twice that, or it would be cleared anew
// with each frame that is longer than those before.
func roomFor(room []byte, length int) []byte {
	if cap(room) < length {
		room = make([]byte, 0, 1<<bits.Len(uint(max(length, 1)-1)))
	}
	return room[:0]
}

// inFrame adds to an error of a record where it lies.
func inFrame(err error, path string, offset int64) error {
	if err == errNotNext {
		return err
	}
	own := status.Of(err)
	return &status.Error{Code: own.Code, Domain: own.Domain, Foreign: own.Foreign,
		Text: status.Plain(fmt.Sprintf("%s: in the frame at offset %d: %s", path, offset, own.Text))}
}
