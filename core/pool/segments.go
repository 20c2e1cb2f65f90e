// Segments that are an allocation of the driver each, at an address of its own.

package pool

// Origin is where a pool's segments come from.
type Origin uint8

// The origins. All but virtual memory give segments that stay where they are, and go back whole.
const (
	Automatic Origin = iota // virtual memory, where the device has it, else plain memory
	Virtual                 // memory of the device behind addresses that were reserved before
	Plain                   // memory of the device
	Ordered                 // the same in the order of a stream: the driver keeps what is given back
	Pinned                  // host memory that devices reach
	Managed                 // memory that moves between the host and devices
)

// Origins are their names.
var Origins = [...]string{"automatic", "virtual", "plain", "ordered", "pinned", "managed"}

// String is the origin's name.
func (o Origin) String() string { return Origins[o] }

// Whole says whether its segments go back whole.
func (o Origin) Whole() bool { return o > Virtual }

// ownSegment is from how many bytes on a request has a segment of its own, where segments go back whole: as in PyTorch.
const ownSegment = 10 * mib

// planWhole takes bare units for a segment. Behind it there is a gap that nobody has: so what is free in two segments never
// becomes one piece.
func (s *space) planWhole(count, step uint64) (r Range, ok bool) {
	r.Count = s.segments(max(count, step))
	for _, hole := range s.extents.FreeIn(bare) {
		if hole.Count < r.Count+s.segment {
			continue
		}
		if r.Offset = hole.Offset; !s.extents.Carve(hole, r.Offset, r.Count) {
			break
		}
		gap := s.gap(r)
		for _, rest := range s.extents.FreeIn(bare) {
			if rest.Offset == gap.Offset && s.extents.Carve(rest, gap.Offset, gap.Count) {
				s.whole[r.Offset] = r.Count
				s.planned += r.Count
				return r, true
			}
		}
		s.put(bare, 0, r)
		break
	}
	return Range{}, false
}

// gap is what lies behind a segment.
func (s *space) gap(r Range) Range { return Range{r.Offset + r.Count, s.segment} }

// leaveWhole says that a segment has no memory any more, or got none.
func (s *space) leaveWhole(r Range) {
	delete(s.whole, r.Offset)
	s.put(bare, 0, s.gap(r))
}

// gaps is how many units lie behind segments.
func (s *space) gaps() uint64 { return uint64(len(s.whole)) * s.segment }
