// Vector clocks: which accesses a program did not order.

package sim

import (
	"fmt"
	"runtime"
	"slices"
	"strings"

	"libmmsb/gpu/driver"
)

// clock is a vector clock: how far each party has come, as far as its owner is ordered behind it. Party 0 is the host, the others
// are streams.
//
// The host is one party, not one for each of its threads: how those order each other, by channels and locks of their own, cannot
// be seen from here, and an order that is not seen would be reported as missing. What any of them saw done counts as done for
// all.
type clock []uint64

func (c clock) at(party int) uint64 {
	if party < len(c) {
		return c[party]
	}
	return 0
}

// join is the later of both in each party. A clock that was given away is never written again: join makes a new one where it
// must.
func (c clock) join(other clock) clock {
	later := false
	for party, tick := range other {
		later = later || tick > c.at(party)
	}
	if !later {
		return c
	}
	joined := make(clock, max(len(c), len(other)))
	copy(joined, c)
	for party, tick := range other {
		joined[party] = max(joined[party], tick)
	}
	return joined
}

// tick moves one party on.
func (c clock) tick(party int) clock {
	moved := make(clock, max(len(c), party+1))
	copy(moved, c)
	moved[party]++
	return moved
}

// Use is one operation's access to a interval of memory, or the beginning or end of a block.
type Use struct {
	Call    Call   // what did it
	Kernel  string // where Call is Launch and its name is known
	Write   bool   // an end and a beginning are writes, too
	Device  int    // of the stream; -1 = the host
	Stream  driver.Stream
	Address driver.Address
	Bytes   uint64

	party  int
	tick   uint64
	item   int   // of a call that copies many intervals
	before clock // of the operation, its own tick included
	places [8]uintptr
}

// precedes says whether the use is before another one. The copies of one call are not ordered.
func (u *Use) precedes(later *Use) bool {
	if u.party == later.party && u.tick == later.tick {
		return u.item == later.item
	}
	return later.before.at(u.party) >= u.tick
}

// Where is the place in the program that made the call, like "stream.go:12 < runtime.go:345": the innermost callers outside of
// this package.
func (u *Use) Where() string {
	if u.places[0] == 0 {
		return "an unknown place"
	}
	var places []string
	for frames, more := runtime.CallersFrames(u.places[:]), true; more && len(places) < 3; {
		var frame runtime.Frame
		frame, more = frames.Next()
		own := strings.Contains(frame.Function, "libmmsb/gpu/sim.") && !strings.HasSuffix(frame.File, "_test.go")
		if frame.PC != 0 && !own && frame.Function != "runtime.goexit" {
			places = append(places, fmt.Sprintf("%s:%d", frame.File[strings.LastIndexByte(frame.File, '/')+1:], frame.Line))
		}
	}
	return strings.Join(places, " < ")
}

func (u *Use) String() string {
	kind, actor := "read", "the host"
	if u.Write {
		kind = "write"
	}
	if u.Device >= 0 {
		actor = fmt.Sprintf("stream 0x%x of device %d", uint64(u.Stream), u.Device)
	}
	call := u.Call.String()
	if u.Kernel != "" {
		call += " of " + u.Kernel
	}
	return fmt.Sprintf("%s of %d bytes at 0x%x by %s on %s, called at %s",
		kind, u.Bytes, uint64(u.Address), call, actor, u.Where())
}

// Problem is what is wrong between two uses.
type Problem uint8

const (
	// Unordered uses touch the same byte, one of them writes, and neither waits for the other.
	Unordered Problem = iota
	// UseAfterFree is a use that is ordered, but behind the end of its block.
	UseAfterFree
	// NoMemory is a use of an address whose memory was taken away, and the Unmap that did it.
	NoMemory
	// Uncapturable is a call that a capture does not survive, and the begin of the capture.
	Uncapturable
)

var problems = [...]string{
	Unordered: "not ordered", UseAfterFree: "use after free", NoMemory: "no memory", Uncapturable: "breaks a capture",
}

func (p Problem) String() string { return problems[p] }

// Violation is two uses that the program did not order, or ordered wrongly. It does not matter in which order they ran.
type Violation struct {
	Problem       Problem
	First, Second *Use // in the order in which they were queued
	Block         *Use // the allocation of the memory; nil where it is not about a block
}

func (v Violation) String() string {
	if v.Block == nil {
		return fmt.Sprintf("%v: %v; and before %v", v.Problem, v.Second, v.First)
	}
	return fmt.Sprintf("%v: %v; and %v; the block of %d bytes at 0x%x is from %s", v.Problem, v.First, v.Second, v.Block.Bytes,
		uint64(v.Block.Address), v.Block.Where())
}

// reportedViolations is how many are kept; the others are counted.
const reportedViolations = 100

// order checks a driver's program. It is used under the driver's turn.
type order struct {
	host       clock
	violations []Violation
	count      int
}

// hostUse begins an access by the host.
func (o *order) hostUse(call Call) Use {
	o.host = o.host.tick(0)
	return newUse(call, nil, 0, o.host)
}

// streamUse begins an operation on a stream.
func (o *order) streamUse(call Call, s *stream) Use {
	s.clock = s.clock.join(o.host).tick(s.party)
	return newUse(call, s, s.party, s.clock)
}

func newUse(call Call, s *stream, party int, before clock) Use {
	u := Use{Call: call, Device: -1, party: party, tick: before[party], before: before}
	if s != nil {
		u.Device, u.Stream = s.device.info.Ordinal, s.handle
	}
	runtime.Callers(3, u.places[:])
	return u
}

// of is the use for one interval of memory.
func (u Use) of(item int, write bool, address driver.Address, bytes uint64) *Use {
	u.item, u.Write, u.Address, u.Bytes = item, write, address, bytes
	return &u
}

func (o *order) report(problem Problem, first, second *Use, h *history) {
	// One pair of operations is one violation, however many bytes and blocks they share.
	if last := len(o.violations) - 1; last >= 0 && o.violations[last].First == first && o.violations[last].Second == second {
		return
	}
	o.count++
	if len(o.violations) < reportedViolations {
		v := Violation{Problem: problem, First: first, Second: second}
		if h != nil {
			v.Block = h.born
		}
		o.violations = append(o.violations, v)
	}
}

// history is who used the bytes of a block, as far as somebody later may have to be ordered behind them.
type history struct {
	born, freed *Use
	intervals   []interval // in order; between them only the beginning of the block counts
}

// interval is bytes that have one history. The bytes are counted from the beginning of the block.
type interval struct {
	from, to uint64
	write    *Use
	reads    []*Use // since then; at most one of each party. Never changed: a copy is
}

// begin is the history of a new block.
func (u Use) begin(address driver.Address, bytes uint64) *history {
	return &history{born: u.of(0, true, address, bytes)}
}

// end notes that the block is freed: the end must be behind every use, and every use from now on is wrong.
func (o *order) end(h *history, u Use, address driver.Address, bytes uint64) {
	use := u.of(0, true, address, bytes)
	o.access(h, use, 0, bytes)
	h.freed, h.intervals = use, nil
}

// access checks a use of bytes of a block against those before it, and notes it.
func (o *order) access(h *history, u *Use, from, to uint64) {
	if h.freed != nil {
		problem := Unordered
		if h.freed.precedes(u) {
			problem = UseAfterFree
		}
		o.report(problem, h.freed, u, h)
		return
	}
	first, _ := slices.BinarySearchFunc(h.intervals, from, func(s interval, at uint64) int {
		if s.to <= at {
			return -1
		}
		return 1
	})
	past := first
	for past < len(h.intervals) && h.intervals[past].from < to {
		past++
	}
	changed := make([]interval, 0, past-first+3)
	// Before and behind the bytes that are used, the old history stays.
	if first < past && h.intervals[first].from < from {
		left := h.intervals[first]
		left.to = from
		changed = append(changed, left)
	}
	at := from
	for _, old := range h.intervals[first:past] {
		middle := old
		middle.from, middle.to = max(old.from, from), min(old.to, to)
		if at < middle.from {
			changed = o.add(changed, h, u, interval{from: at, to: middle.from, write: h.born})
		}
		changed = o.add(changed, h, u, middle)
		at = middle.to
	}
	if at < to {
		changed = o.add(changed, h, u, interval{from: at, to: to, write: h.born})
	}
	if first < past && h.intervals[past-1].to > to {
		right := h.intervals[past-1]
		right.from = to
		changed = append(changed, right)
	}
	h.intervals = slices.Replace(h.intervals, first, past, changed...)
	h.unite(max(first-1, 0), first+len(changed))
}

// add checks the use against the history of a interval, and appends what the interval's history is then.
func (o *order) add(list []interval, h *history, u *Use, old interval) []interval {
	if !old.write.precedes(u) {
		o.report(Unordered, old.write, u, h)
	}
	if !u.Write {
		reads := make([]*Use, 0, len(old.reads)+1)
		for _, read := range old.reads {
			if !read.precedes(u) {
				reads = append(reads, read)
			}
		}
		return append(list, interval{old.from, old.to, old.write, append(reads, u)})
	}
	for _, read := range old.reads {
		if !read.precedes(u) {
			o.report(Unordered, read, u, h)
		}
	}
	return append(list, interval{from: old.from, to: old.to, write: u})
}

// unite makes neighbours of one history one interval.
func (h *history) unite(from, to int) {
	kept := from
	for i := from + 1; i < min(to+1, len(h.intervals)); i++ {
		last, next := &h.intervals[kept], h.intervals[i]
		if last.to == next.from && last.write == next.write && slices.Equal(last.reads, next.reads) {
			last.to = next.to
			continue
		}
		kept++
		h.intervals[kept] = next
	}
	if end := min(to+1, len(h.intervals)); kept+1 < end {
		h.intervals = slices.Delete(h.intervals, kept+1, end)
	}
}
