// Logs in RMM's form as pictures: each block that is live at the end is a segment of its own.

package picture

import (
	"cmp"
	"io"
	"slices"

	"libmmsb/core/status"
	"libmmsb/core/trace"
)

// ReadLog reads a log; lost says that it may have lost its beginning. Its times have no day: they count from the day 0. Errors:
// Format, Corrupt and Limit, with the line, and those of the reader.
func ReadLog(from io.Reader, lost bool) (*Picture, error) {
	t, err := trace.Read(from, trace.Options{Device: -1, Lost: lost, Places: true})
	if err != nil {
		return nil, err
	}
	if t.Format != "RMM" {
		return nil, status.Errorf(status.Format, "log is a snapshot of %s", t.Format)
	}
	p := &Picture{Tags: []string{"untagged"}}
	live := map[uint32]*trace.Event{}
	add := func(action Action, address uint64, e *trace.Event) {
		p.Time = max(p.Time, e.Time)
		p.Events = append(p.Events, Event{Time: e.Time, Action: action, Address: address, Bytes: e.Bytes,
			Stream: t.Places.Streams[e.Stream], Thread: uint32(t.Places.Threads[e.Thread])})
	}
	refusals := t.Places.Refusals
	for at := t.Before; ; at++ {
		for ; len(refusals) > 0 && refusals[0].At == int(at); refusals = refusals[1:] {
			add(Refused, 0, &refusals[0].Event)
		}
		if at == uint64(len(t.Events)) {
			break
		}
		e := &t.Events[at]
		if e.Free {
			delete(live, e.Block)
			add(Freed, t.Places.Addresses[e.Block], e)
		} else {
			live[e.Block] = e
			add(Allocated, t.Places.Addresses[e.Block], e)
		}
	}
	for block, e := range live {
		p.Segments = append(p.Segments, Segment{Address: t.Places.Addresses[block], Bytes: e.Bytes, Small: e.Bytes <= 1<<20,
			Blocks: []Block{{Bytes: e.Bytes, Asked: e.Bytes, State: Live, Stream: t.Places.Streams[e.Stream],
				Thread: uint32(t.Places.Threads[e.Thread]), Time: e.Time}}})
	}
	slices.SortFunc(p.Segments, func(a, b Segment) int { return cmp.Compare(a.Address, b.Address) })
	return p, nil
}
