package files

import (
	"bytes"
	"fmt"
	"math"
	"slices"

	"libmmsb/core/journal"
)

// What a replay of a journal has to apply, read by docs/journal-format.md alone: whole groups of whole changes, up to an end.

const oldestVersion = 3 << 62 // no record has it, or a later one

// change is a record with its body in one piece.
type change struct {
	number uint64
	record []byte
}

func (c change) kind() journal.Kind { return journal.Kind(c.record[4]) }

// reading is a replay behind the record after.
type reading struct {
	after   uint64
	until   journal.Until
	header  []byte // of the segment that it begins in
	changes []change
	fault   string // why the journal is refused
	ended   bool   // by until, or by a fault
	last    uint64 // record of the groups that are whole

	group  []change
	body   []byte // pieces of the next change
	piece  []byte // the head of the last of them; nil: none is open
	within bool   // a group is open
	wrong  string // with that group
}

// read reads the directory's newest branch; nil where what lies is more than frames, or frames beside a ring, for which readers
// look at all of the last segment.
func (d *directory) read(x *trial, chain uint32, after uint64, until journal.Until) *reading {
	others := []string{"header", "base", "base's name", "text of a base"}
	if slices.ContainsFunc(others, x.lies) || d.ring != nil && slices.ContainsFunc(ofSegments, x.lies) {
		return nil
	}
	if after >= math.MaxInt64 || d.ring != nil && d.behind > math.MaxInt64 {
		return nil
	}
	r := &reading{after: after, until: until, last: after}
	if d.ring != nil {
		twin, damage := d.withoutRing(chain)
		if damage != "" {
			return nil
		}
		d = twin
	}
	branch := get64(d.segments[len(d.segments)-1].header, 56)
	segments := slices.DeleteFunc(slices.Clone(d.segments), func(s *journalParts) bool { return get64(s.header, 56) != branch })
	for len(segments) > 1 && get64(segments[1].header, 32) <= after+1 {
		segments = segments[1:]
	}
	for _, s := range d.segments {
		if get64(s.header, 32) > math.MaxInt64 {
			r.end("a segment beyond 2^63")
		}
	}
	if newest := d.segments[len(d.segments)-1]; d.cut > len(slices.Concat(newest.frames...)) {
		r.end("a header that is cut short")
	}
	r.header = segments[0].header
	next, before := get64(r.header, 32), get32(r.header, 48)
	for i, s := range segments {
		first, gap := get64(s.header, 32), get32(s.header, 52) != 0
		if i > 0 && (get64(s.header, 88) != next-1 || get32(s.header, 48) != before) {
			r.end("a segment that does not follow")
		}
		if i > 0 && r.within && next-1 > r.after {
			r.end("a segment that ends within a group")
		}
		if gap && first > after+1 && !r.ended {
			if until.Sequence == 0 || until.Sequence >= first {
				r.end("a step that was not recorded")
			}
			r.ended = true
		}
		if r.ended {
			break
		}
		next = first
		content := slices.Concat(s.frames...)
		if i == len(segments)-1 {
			content = append(content[:len(content)-min(d.cut, len(content))], d.torn...)
		}
		for len(content) > 0 && !r.ended {
			length, ok := frameIn(content, s.header[16:32])
			if !ok || get64(content, 32) != next || get32(content, 48) != before {
				if i < len(segments)-1 || saysDurable(content, s.header[16:32], next) {
					r.end("a damaged frame")
				}
				break
			}
			frame := content[:length]
			r.frame(frame, next)
			next, before = next+uint64(get32(frame, 12)), get32(frame, 60)
			content = content[length:]
		}
	}
	return r
}

func (r *reading) end(fault string) {
	if r.ended {
		return
	}
	r.ended, r.fault = true, fault
}

// frameIn says whether a whole frame of a lineage begins here, and how long it is.
func frameIn(content, line []byte) (length int, ok bool) {
	if len(content) < 64 || string(content[:8]) != "MMSBFRAM" || !bytes.Equal(content[16:32], line) {
		return 0, false
	}
	says, first := get32(content, 8), get64(content, 32)
	if says < 64 || says > longestFrame || uint64(get32(content, 12)) > uint64(says-64)/40 || get64(content, 40) >= first {
		return 0, false
	}
	length = roundUp(int(says), unit)
	return length, length <= len(content) && crcOf(content[:60], content[64:length]) == get32(content, 60)
}

// saysDurable says whether a frame further on says that a record was durable.
func saysDurable(content, line []byte, record uint64) bool {
	for ; len(content) >= unit; content = content[unit:] {
		if _, ok := frameIn(content, line); ok && get64(content, 40) >= record {
			return true
		}
	}
	return false
}

// frame reads the records of a frame.
func (r *reading) frame(frame []byte, number uint64) {
	count, end, at := uint64(get32(frame, 12)), int(get32(frame, 8)), 64
	if count > 0 && number+count-1 > math.MaxInt64 {
		r.end("a record beyond 2^63")
		return
	}
	began, known := number, number+count > r.after+1
	if r.within {
		began = number
	}
	for i := range count {
		if at+40 > end || get32(frame, at) < 40 || at+int(get32(frame, at)) > end {
			r.end("a record that is no part of its frame")
			return
		}
		length := int(get32(frame, at))
		r.record(number+i, frame[at:at+length], known)
		if r.ended {
			return
		}
		at = min(at+roundUp(length, 8), end)
		if !r.within {
			began = number + i + 1
		}
	}
	if r.within && began > number && known {
		r.end("a group that goes on, but does not begin its frame")
	} else if at != end {
		r.end("bytes behind its records")
	}
}

// record reads a record of a frame.
func (r *reading) record(number uint64, record []byte, known bool) {
	flags := record[5]
	wrong := func(what string) {
		if r.wrong == "" {
			r.wrong = fmt.Sprintf("record %d: %s", number, what)
		}
	}
	if number > r.after {
		u := r.until
		if u.Sequence != 0 && number > u.Sequence || u.Time != 0 && int64(get64(record, 32)) > u.Time ||
			u.Epoch != 0 && get64(record, 8) == u.Page && get64(record, 24) > u.Epoch {
			r.ended = true
			return
		}
		if get64(record, 16) >= oldestVersion {
			wrong("a version beyond all")
		}
	}
	began := !r.within
	r.within = flags&journal.More != 0
	switch {
	case journal.Kind(record[4]) == journal.Group:
		if !began || flags&(journal.More|journal.Piece|journal.Annotated) != journal.More || len(record) != 48 {
			wrong("it begins no group")
		}
	case r.piece != nil && (r.piece[4] != record[4] || !bytes.Equal(r.piece[8:24], record[8:24])),
		flags&journal.Piece != 0 && flags&journal.More == 0:
		wrong("it does not go on with a body")
	default:
		r.body = append(r.body, record[40:]...)
		if r.piece = nil; flags&journal.Piece != 0 {
			r.piece = bytes.Clone(record[:40])
			break
		}
		r.group = append(r.group, change{number, recordOf(record[:40], 0, r.body)})
		r.body = nil
	}
	if r.within {
		return
	}
	if number > r.after {
		if r.wrong != "" {
			r.end(r.wrong)
			return
		}
		r.last = number
		for _, one := range r.group {
			if one.number > r.after {
				r.changes = append(r.changes, one)
			}
		}
	}
	r.group, r.body, r.piece, r.wrong = nil, nil, nil, ""
}

// plain is a journal of the changes alone: a frame for each group, whose records have their bodies in one piece.
func (r *reading) plain() *directory {
	header := make([]byte, unit)
	copy(header, r.header)
	put64(header, 32, r.after+1)
	put32(header, 48, 0)
	put64(header, 56, 0)
	put64(header, 88, r.after)
	put32(header, 52, 0)
	if r.after > 0 {
		put32(header, 52, 1)
	}
	s := &journalParts{header: header}
	s.setName()
	next := r.after + 1
	for from := 0; from < len(r.changes); {
		to := from + 1
		for to < len(r.changes) && r.changes[to-1].record[5]&journal.More != 0 {
			to++
		}
		var records []byte
		for _, one := range r.changes[from:to] {
			records = append(records, one.record...)
		}
		s.frames = append(s.frames, frameOf(header[16:32], next, to-from, records))
		next, from = next+uint64(to-from), to
	}
	s.seal(0, true)
	return &directory{segments: []*journalParts{s}}
}

// lieInGroup lies about how the records of a segment's groups belong together.
func (d *directory) lieInGroup(x *trial, s *journalParts) {
	random := x.random
	var within [][2]int // frame and place of records that others follow
	for number, frame := range s.frames {
		if length := int(get32(frame, 8)); length < 64 || length > len(frame) { // there is a lie about it
			continue
		}
		for _, at := range recordsOf(frame[:get32(frame, 8)]) {
			if frame[at+5]&journal.More != 0 {
				within = append(within, [2]int{number, at})
			}
		}
	}
	if len(within) == 0 {
		return
	}
	number, at := within[random.IntN(len(within))][0], 0
	for _, one := range within {
		if at == 0 && one[0] == number && (random.IntN(2) == 0 || one == within[len(within)-1]) {
			at = one[1]
		}
	}
	if at == 0 {
		return
	}
	frame := s.frames[number]
	switch what := random.IntN(8); {
	case what < 2:
		frame[at+5] ^= []byte{journal.More, journal.Piece}[random.IntN(2)]
		x.tell("group", fmt.Sprintf("flags at %d of frame %d are %d", at, number, frame[at+5]))
	case what < 4: // the next one goes on with another change
		next := at + roundUp(int(get32(frame, at)), 8)
		if next+40 <= int(get32(frame, 8)) {
			spots := []spot{{"kind", 4, 4}, {"page", 8, 8}, {"version", 16, 8}}
			x.tell("group", lieAt(random, frame[next:], spots[random.IntN(len(spots))]))
		}
	case what < 6:
		twice := random.IntN(2) == 0
		s.frames[number] = without(frame, at, twice)
		x.tell("group", fmt.Sprintf("the record at %d of frame %d is missing, or comes twice: %v", at, number, twice))
		if random.IntN(4) > 0 { // the frames behind it have other numbers
			next := get64(frame, 32) + uint64(get32(s.frames[number], 12))
			for _, frame := range s.frames[number+1:] {
				put64(frame, 32, next)
				put64(frame, 40, min(get64(frame, 40), next-1))
				next += uint64(get32(frame, 12))
			}
		}
	default: // it does not go on
		s.frames = s.frames[:number+1]
		x.tell("group", fmt.Sprintf("it ends with frame %d", number))
	}
}

// without is a frame without one of its records, or with that one twice.
func without(frame []byte, at int, twice bool) []byte {
	end := int(get32(frame, 8))
	next := min(at+roundUp(int(get32(frame, at)), 8), end)
	count := int(get32(frame, 12)) - 1
	parts := [][]byte{frame[64:at], frame[next:end]}
	if twice {
		parts, count = [][]byte{frame[64:next], frame[at:next], frame[next:end]}, count+2
	}
	made := frameOf(frame[16:32], get64(frame, 32), count, slices.Concat(parts...))
	copy(made[40:48], frame[40:48])
	return made
}
