package pool

import (
	"cmp"
	"slices"

	"libmmsb/core/alloc"
	"libmmsb/core/invariant"
	"libmmsb/core/status"
)

// Range is units of a space.
type Range struct{ Offset, Count uint64 }

// space is the books of one range of addresses, in units. Whole segments of it have memory, or are bare. What has memory is
// held by a caller, or free: then it belongs to the stream that freed it, with the mark of the free. Streams have the bins of
// the extents above 0; bin 0 is what is bare. A lock guards it.
type space struct {
	extents *alloc.Extents
	segment uint64            // units
	whole   map[uint64]uint64 // offsets and units of segments that go back whole; nil: they do not

	backed, live uint64 // units that are not bare; of these, units that callers hold
	planned      uint64 // units that somebody has planned or spared
}

const bare = 0

func newSpace(units, segment uint64) *space {
	s := &space{extents: alloc.NewExtents(units / segment * segment), segment: segment}
	s.extents.CountParts(s.split)
	return s
}

// split is how many units of a free piece are of segments that are partly held.
func (s *space) split(offset, count uint64) uint64 {
	if count < s.segment || s.whole != nil && s.whole[offset] != count {
		return count
	}
	from, to := s.segments(offset), (offset+count)/s.segment*s.segment
	return count - (max(from, to) - from)
}

// bin is where a stream's free extents are.
func bin(stream uint32) uint32 { return stream + 1 }

// take takes what is free on a stream: no order is missing.
func (s *space) take(stream uint32, count uint64) (at uint64, ok bool) {
	at, _, ok = s.extents.AllocateFrom(bin(stream), count, 1)
	if ok {
		s.live += count
	}
	return at, ok
}

// behind is a free that somebody else has to wait for.
type behind struct {
	stream uint32
	mark   uint64
	waits  bool // the device has not come past it
}

// takeOfOthers takes what is free on another stream. Unless waits, the device has come past the free.
func (s *space) takeOfOthers(stream uint32, count uint64, done func(stream uint32) uint64,
	waits bool) (at uint64, b behind, ok bool) {
	for number := uint32(1); number < s.extents.Bins(); number++ {
		other := number - 1
		if other == stream {
			continue
		}
		at, mark, found := s.extents.AllocateFrom(number, count, 1)
		if !found {
			continue
		}
		b := behind{stream: other, mark: mark, waits: mark > done(other)}
		if !b.waits || waits {
			s.live += count
			return at, b, true
		}
		s.put(number, mark, Range{at, count})
	}
	return 0, behind{}, false
}

// gather makes everything a stream's that is free on others, and that the device has come past; neighbours become one.
func (s *space) gather(stream uint32, done func(stream uint32) uint64) (any bool) {
	for number := uint32(1); number < s.extents.Bins(); number++ {
		if number == bin(stream) {
			continue
		}
		past := done(number - 1)
		for _, f := range s.extents.FreeIn(number) {
			if f.Mark <= past && s.extents.Carve(f, f.Offset, f.Count) {
				s.put(bin(stream), 0, Range{f.Offset, f.Count})
				any = true
			}
		}
	}
	return any
}

// give makes units free on a stream. Errors: InvalidArgument, where they are not just what was taken.
func (s *space) give(stream uint32, mark uint64, r Range) error {
	err := s.extents.FreeTo(bin(stream), mark, r.Offset, r.Count)
	if err == nil {
		s.live -= r.Count
	}
	return err
}

// put is what cannot fail: the units were taken before, by the books themselves.
func (s *space) put(number uint32, mark uint64, r Range) {
	err := s.extents.FreeTo(number, mark, r.Offset, r.Count)
	invariant.Check(err)
}

// plan takes bare segments that make count units free on a stream in one piece when they have memory: where the fewest are
// missing, beside what is free there already. They are at least step units where the place has so many. The segments are the
// caller's until back or leave.
func (s *space) plan(stream uint32, count, step uint64) (r Range, ok bool) {
	if s.whole != nil {
		return s.planWhole(count, step)
	}
	var best alloc.Free
	least := uint64(0)
	for _, hole := range s.extents.FreeIn(bare) {
		before, behind := s.extents.Around(hole)
		room := hole.Count
		if before.Count > 0 && before.Bin != bin(stream) {
			before.Count = 0
		}
		if behind.Count > 0 && behind.Bin != bin(stream) {
			behind.Count = 0
		}
		missing := s.segments(count - min(count, before.Count))
		switch {
		case missing == 0: // it has enough without, and somebody has come in between
			missing = s.segment
		case missing > room && before.Count+room+behind.Count >= count:
			missing = room
		case missing > room:
			continue
		}
		if !ok || missing < least || missing == least && hole.Offset < best.Offset {
			best, least, ok = hole, missing, true
		}
	}
	if !ok {
		return Range{}, false
	}
	r = Range{best.Offset, min(max(least, s.segments(step)), best.Count)}
	if ok = s.extents.Carve(best, r.Offset, r.Count); ok {
		s.planned += r.Count
	}
	return r, ok
}

// segments rounds up to whole segments.
func (s *space) segments(count uint64) uint64 { return (count + s.segment - 1) / s.segment * s.segment }

// back says that planned or spared segments have memory: they are free on a stream.
func (s *space) back(stream uint32, r Range) {
	s.backed += r.Count
	s.planned -= r.Count
	s.put(bin(stream), 0, r)
}

// leave says that planned or spared segments have no memory.
func (s *space) leave(r Range) {
	s.planned -= r.Count
	s.put(bare, 0, r)
	if s.whole != nil {
		s.leaveWhole(r)
	}
}

// cut says that the first units of spared segments have no memory, and is the rest of them.
func (s *space) cut(r Range, gone uint64) Range {
	if gone == 0 {
		return r
	}
	rest := Range{r.Offset + gone, r.Count - gone}
	s.put(bare, 0, r)
	for _, hole := range s.extents.FreeIn(bare) {
		if hole.Offset <= r.Offset && hole.Offset+hole.Count >= rest.Offset+rest.Count {
			s.extents.Carve(hole, rest.Offset, rest.Count) // there are numbers for it: r had one
			break
		}
	}
	s.planned -= gone
	return rest
}

// spare takes whole free mappings that the device has come past, of so many units or up to one mapping more, from the largest
// free extents first. They have no memory any more in the books, and are the caller's until leave.
func (s *space) spare(count uint64, done func(stream uint32) uint64, mapping func(at uint64) Range) (spared []Range) {
	var all []alloc.Free
	for number := uint32(1); number < s.extents.Bins(); number++ {
		past := done(number - 1)
		for _, f := range s.extents.FreeIn(number) {
			if f.Mark <= past && f.Count >= s.segment {
				all = append(all, f)
			}
		}
	}
	slices.SortFunc(all, func(a, b alloc.Free) int { return cmp.Compare(b.Count, a.Count) })
	for _, f := range all {
		from := s.segments(f.Offset)
		to := (f.Offset + f.Count) / s.segment * s.segment
		if count < s.segment || from >= to {
			continue
		}
		r := mappings(Range{from, to - from}, count/s.segment*s.segment, mapping)
		if r.Count > 0 && s.extents.Carve(f, r.Offset, r.Count) {
			s.backed -= r.Count
			s.planned += r.Count
			count -= min(count, r.Count)
			spared = append(spared, r)
		}
	}
	return spared
}

// mappings are the first whole ones within segments, of so many units or up to one mapping more.
func mappings(within Range, count uint64, mapping func(at uint64) Range) (r Range) {
	r.Offset = within.Offset
	if first := mapping(r.Offset); first.Offset < r.Offset {
		r.Offset = first.Offset + first.Count
	}
	for end := within.Offset + within.Count; r.Offset+r.Count < end && r.Count < count; {
		next := mapping(r.Offset + r.Count)
		invariant.Assert(next.Count > 0, "unit %d has memory, and is not mapped", r.Offset+r.Count)
		if next.Offset+next.Count > end {
			break
		}
		r.Count += next.Count
	}
	return r
}

// largestFree is the most units in one piece that nobody holds and that are not bare.
func (s *space) largestFree() (largest uint64) {
	for number := uint32(1); number < s.extents.Bins(); number++ {
		largest = max(largest, s.extents.LargestIn(number))
	}
	return largest
}

// check walks everything. Errors: Internal.
func (s *space) check() error {
	if err := s.extents.Check(); err != nil {
		return err
	}
	var free, without uint64
	for number := uint32(0); number < s.extents.Bins(); number++ {
		for _, f := range s.extents.FreeIn(number) {
			if number != bare {
				free += f.Count
				continue
			}
			without += f.Count
			if f.Offset%s.segment != 0 || f.Count%s.segment != 0 {
				return status.Errorf(status.Internal, "%d units at unit %d are bare, segments have %d", f.Count, f.Offset,
					s.segment)
			}
		}
	}
	gaps := s.gaps()
	if s.live+free != s.backed || s.backed+without+s.planned+gaps != s.extents.Limit() ||
		s.live+s.planned+gaps != s.extents.Used() {
		return status.Errorf(status.Internal, "%d units have memory and %d none, %d are planned, of %d; %d are held, %d free, "+
			"%d used", s.backed, without, s.planned, s.extents.Limit(), s.live, free, s.extents.Used())
	}
	return nil
}
