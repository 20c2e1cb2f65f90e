// Package picture is the memory of a device's runtime at one moment, with what came before: segments of blocks, and events. It
// is written as PyTorch's memory snapshot, as JSON, and as a page of HTML, and read back from JSON and from the CSV of RMM's
// logs. It knows no device: gpu/runtime fills it in, and the tool reads it.
package picture

import (
	"math"
	"slices"

	"libmmsb/core/status"
)

// Picture is the memory of a runtime. Times are microseconds since 1970.
type Picture struct {
	Device     int
	Name       string // of the device
	Bytes      uint64 // of the device; 0 = not known
	Time       int64
	Pool       bool // blocks lie in segments of a pool; else each block is a segment of its own
	Tags       []string
	Statistics []Entry
	Segments   []Segment // by address
	Events     []Event   // the oldest first
	Lost       uint64    // events before these
}

// Entry is one number of the statistics.
type Entry struct {
	Name  string
	Value uint64
}

// Segment is addresses in one piece that have memory. Blocks tile it.
type Segment struct {
	Address, Bytes uint64
	Small          bool // for requests of up to 1 MiB
	Blocks         []Block
}

// Block is a part of a segment that somebody has, or that is free.
type Block struct {
	Bytes  uint64
	Asked  uint64 // bytes of it that the program asked for, also where it has freed them since; 0 where it had none
	Before uint64 // bytes before these: the guard's
	State  State
	Tag    uint32 // index in Tags
	Stream uint64 // number of its stream, or of the stream that it is free on
	Thread uint32 // that allocated it; 0 = not known
	Time   int64  // of its allocation; 0 = not known
}

// State says who has a block.
type State uint8

// The states of a block.
const (
	Free     State = iota
	Passing        // free on its stream; others have to wait, as the device has not been seen to have come past the free
	Live           // the program has it
	Awaiting       // the program has freed it, and a use of it has not ended
	Nameless       // held by no block: a call is just taking or giving it, a cache or the guard keeps it
	states
)

// Event is something that happened.
type Event struct {
	Time           int64
	Action         Action
	Address, Bytes uint64
	Tag            uint32
	Stream         uint64
	Thread         uint32
}

// Action is what happened.
type Action uint8

// The actions of events.
const (
	Allocated Action = iota
	Freed
	Refused // an allocation, for lack of memory
	Mapped  // addresses got memory
	Unmapped
	actions
)

// Point is how many bytes were live, of how many that had memory.
type Point struct {
	Time           int64
	Live, Reserved uint64
}

// Totals are the bytes of now that the program has, as it asked for them, and those that have memory. What it has freed is not
// live, as in the events, whoever keeps it.
func (p *Picture) Totals() (live, reserved uint64) {
	for i := range p.Segments {
		s := &p.Segments[i]
		reserved += s.Bytes
		for j := range s.Blocks {
			if b := &s.Blocks[j]; b.State == Live {
				live += b.Asked
			}
		}
	}
	return live, reserved
}

// moment is the bytes while events are gone through. What was counted at another moment than the events may not fit exactly.
type moment struct{ live, reserved int64 }

func (m *moment) pass(e *Event, pool bool) {
	bytes := int64(min(e.Bytes, math.MaxInt64/4))
	switch e.Action {
	case Allocated:
		m.live += bytes
	case Freed:
		m.live -= bytes
	case Mapped:
		m.reserved += bytes
	case Unmapped:
		m.reserved -= bytes
	}
	if !pool {
		m.reserved = m.live
	}
}

func (m *moment) at(time int64) Point {
	live := uint64(max(0, m.live))
	return Point{time, live, max(live, uint64(max(0, m.reserved)))}
}

// begin is what there was before the first event.
func (p *Picture) begin() moment {
	var change moment
	for i := range p.Events {
		change.pass(&p.Events[i], p.Pool)
	}
	live, reserved := p.Totals()
	if !p.Pool {
		reserved = live
	}
	return moment{max(0, int64(live)-change.live), max(0, int64(reserved)-change.reserved)}
}

// Timeline is how the bytes came to be what they are, in about so many points: of many events that which has the most live bytes.
// peak is the point with the most of all.
func (p *Picture) Timeline(most int) (points []Point, peak Point) {
	now := p.begin()
	if len(p.Events) > 0 {
		points = append(points, now.at(p.Events[0].Time))
		peak = points[0]
	}
	each := max(1, len(p.Events)/most)
	for first := 0; first < len(p.Events); first += each {
		var best Point
		for i := first; i < min(first+each, len(p.Events)); i++ {
			now.pass(&p.Events[i], p.Pool)
			if point := now.at(p.Events[i].Time); i == first || point.Live >= best.Live {
				best = point
			}
		}
		if best.Live > peak.Live {
			peak = best
		}
		points = append(points, best)
	}
	live, reserved := p.Totals()
	last := Point{p.Time, live, max(live, reserved)}
	if last.Live > peak.Live || peak.Time == 0 {
		peak = last
	}
	return append(points, last), peak
}

// check looks at a picture that somebody else has written. Errors: Format.
func (p *Picture) check() error {
	wrong := func(format string, arguments ...any) error { return status.Errorf(status.Format, format, arguments...) }
	end := uint64(0)
	for i := range p.Segments {
		s := &p.Segments[i]
		if s.Address < end || s.Bytes == 0 || s.Bytes > math.MaxInt64-min(s.Address, math.MaxInt64) {
			return wrong("segment %d has %d bytes at 0x%x; the one before ends at 0x%x", i, s.Bytes, s.Address, end)
		}
		end = s.Address + s.Bytes
		left := s.Bytes
		for j := range s.Blocks {
			b := &s.Blocks[j]
			switch {
			case b.Bytes == 0 || b.Bytes > left || b.Asked > b.Bytes:
				return wrong("block %d of segment %d has %d bytes, of which %d were asked for; %d are left of the segment", j, i,
					b.Bytes, b.Asked, left)
			case b.State >= states || uint64(b.Tag) >= uint64(len(p.Tags)):
				return wrong("block %d of segment %d has state %d of %d, tag %d of %d", j, i, b.State, states, b.Tag, len(p.Tags))
			}
			left -= b.Bytes
		}
		if left > 0 {
			return wrong("segment %d has %d bytes, its blocks %d", i, s.Bytes, s.Bytes-left)
		}
	}
	if i := slices.IndexFunc(p.Events, func(e Event) bool {
		return e.Action >= actions || uint64(e.Tag) >= uint64(len(p.Tags))
	}); i >= 0 {
		return wrong("event %d has action %d of %d, tag %d of %d", i, p.Events[i].Action, actions, p.Events[i].Tag, len(p.Tags))
	}
	return nil
}
