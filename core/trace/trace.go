// Package trace reads recorded traces of an allocator: what a program took and gave back, in its order.
//
// Two formats are known: the CSV of RMM's logging adaptor, which a runtime's log writes, too, and the pickle of PyTorch's memory
// snapshot, of which no code is run. In a trace that is read frees name the block that they give back; addresses are only there
// for who asks.
// Errors have the number of the line or of the event: Format where a text is not of the format, Corrupt where a trace is cut off
// or contradicts itself, Limit.
package trace

import (
	"bufio"
	"cmp"
	"io"
	"slices"

	"libmmsb/core/status"
)

// Event takes a block on a stream, or gives it back there.
type Event struct {
	Bytes  uint64 // of the block, not 0
	Time   int64  // microseconds since some moment, with Trace.Timed; else 0
	Block  uint32 // in the order in which blocks are taken
	Thread uint32 // less than Trace.Threads
	Stream uint16 // less than Trace.Streams
	Free   bool
	_      [5]byte // C reads events, too
}

// Trace is the events of one device.
type Trace struct {
	Format  string // "RMM" or "PyTorch"
	Events  []Event
	Blocks  uint64 // that are taken
	Streams int
	Threads int
	Timed   bool // each event has a time. In a CSV it counts from the first day's midnight, in a snapshot from 1970

	// Places are there where Options asks for them.
	Places *Places

	// Before is how many of the first events take blocks that the program had before the recording began: its end, or a free,
	// tells of them.
	Before uint64
	// Refused is how many requests were refused when the trace was recorded, and Other how many events are left out besides:
	// those of 0 bytes, and those that neither take nor give a block.
	Refused, Other uint64
	// Reserved is the most bytes that the recorded allocator had from its driver; 0: the trace does not say.
	Reserved uint64
}

// Places are what an allocator called things.
type Places struct {
	Addresses        []uint64 // of blocks
	Streams, Threads []uint64
	Refusals         []Refusal
}

// Refusal is a request that was refused when so many events had come. It has no block.
type Refusal struct {
	Event
	At int
}

// Options choose among what a file has.
type Options struct {
	Device int // whose events, where a snapshot has those of several; less than 0: of the only one that has any
	// Lost says that a CSV may have lost its beginning, as that of a log that was full: a free without an allocation is then no
	// error where nothing came before at its address. Snapshots always may.
	Lost bool
	// Places says that addresses and the numbers of streams and threads are wanted.
	Places bool
}

// MostStreams is how many streams a trace can have.
const MostStreams = 4096

const mostBlocks = 1<<32 - 1

// Read reads a trace in either format.
func Read(from io.Reader, options Options) (*Trace, error) {
	in := bufio.NewReaderSize(from, longestLine)
	first, err := in.Peek(1)
	switch {
	case err == io.EOF:
		return nil, status.Errorf(status.Format, "trace is empty")
	case err != nil:
		return nil, err
	case first[0] == opProto:
		return readPyTorch(in, options)
	}
	return readCSV(in, options)
}

// streamKey is a stream as programs name it. CUDA's per-thread default stream is another one in each thread.
type streamKey struct{ stream, thread uint64 }

const perThreadStream = 2

// taken is a block that is not given back.
type taken struct {
	block uint32
	bytes uint64
}

// record is what a file says of an event.
type record struct {
	number         uint64 // where it stands
	address, bytes uint64
	stream, thread uint64
	time           int64
	timed          bool
}

// earlier is a block that was taken before the first event.
type earlier struct {
	address, bytes uint64
	key            streamKey
	thread         uint32
}

// builder makes a trace of events with addresses.
type builder struct {
	trace   Trace
	live    map[uint64]taken // by address
	streams map[streamKey]uint16
	threads map[uint64]uint32
	unit    string // "line" or "event", whose number errors have
	untimed bool   // an event has no time
	latest  int64  // time

	seen    map[uint64]bool // addresses that came up; nil: nothing is lost
	earlier []earlier       // whose frees have ^index as their block until all are known
}

func newBuilder(source, unit string, options Options) *builder {
	b := &builder{trace: Trace{Format: source}, live: make(map[uint64]taken), streams: make(map[streamKey]uint16),
		threads: make(map[uint64]uint32), unit: unit}
	if options.Lost {
		b.seen = make(map[uint64]bool)
	}
	if options.Places {
		b.trace.Places = &Places{}
	}
	return b
}

func (b *builder) fail(code status.Code, number uint64, format string, arguments ...any) error {
	return status.Errorf(code, "%s %d of the trace: "+format, append([]any{b.unit, number}, arguments...)...)
}

func (b *builder) stream(number uint64, key streamKey) (uint16, error) {
	if key.stream != perThreadStream {
		key.thread = 0
	}
	index, known := b.streams[key]
	if !known {
		if len(b.streams) == MostStreams {
			return 0, b.fail(status.Limit, number, "stream 0x%x is one more than %d streams", key.stream, MostStreams)
		}
		index = uint16(len(b.streams))
		b.streams[key] = index
		b.trace.Streams = len(b.streams)
		if places := b.trace.Places; places != nil {
			places.Streams = append(places.Streams, key.stream)
		}
	}
	return index, nil
}

func (b *builder) thread(number uint64) uint32 {
	index, known := b.threads[number]
	if !known {
		index = uint32(len(b.threads))
		b.threads[number] = index
		b.trace.Threads = len(b.threads)
		if places := b.trace.Places; places != nil {
			places.Threads = append(places.Threads, number)
		}
	}
	return index
}

// event is a record's, without its block.
func (b *builder) event(r *record) (e Event, err error) {
	b.untimed = b.untimed || !r.timed
	e = Event{Bytes: r.bytes, Time: r.time, Thread: b.thread(r.thread)}
	e.Stream, err = b.stream(r.number, streamKey{r.stream, r.thread})
	return e, err
}

// refuse notes a request that was refused.
func (b *builder) refuse(r *record) error {
	b.trace.Refused++
	e, err := b.event(r)
	if places := b.trace.Places; places != nil {
		places.Refusals = append(places.Refusals, Refusal{e, len(b.trace.Events)})
	}
	return err
}

// take adds an event that takes a block.
func (b *builder) take(r *record) error {
	if _, is := b.live[r.address]; is {
		return b.fail(status.Corrupt, r.number, "address 0x%x is allocated and not freed before", r.address)
	}
	if b.trace.Blocks+uint64(len(b.earlier)) == mostBlocks {
		return b.fail(status.Limit, r.number, "block is one more than %d", uint64(mostBlocks))
	}
	e, err := b.event(r)
	if err != nil {
		return err
	}
	e.Block = uint32(b.trace.Blocks)
	b.live[r.address] = taken{e.Block, r.bytes}
	b.trace.Events = append(b.trace.Events, e)
	b.trace.Blocks++
	if places := b.trace.Places; places != nil {
		places.Addresses = append(places.Addresses, r.address)
	}
	b.see(r.address)
	return nil
}

func (b *builder) see(address uint64) {
	if b.seen != nil {
		b.seen[address] = true
	}
}

// give adds an event that gives a block back; the record has the bytes that it names, which must be those that were taken.
func (b *builder) give(r *record) error {
	t, is := b.live[r.address]
	if !is {
		if b.seen == nil || b.seen[r.address] {
			return b.fail(status.Corrupt, r.number, "address 0x%x is freed, but not allocated", r.address)
		}
		if t.block, is = b.before(r); !is {
			return b.fail(status.Limit, r.number, "block is one more than %d", uint64(mostBlocks))
		}
		t.bytes = r.bytes
	}
	if t.bytes != r.bytes {
		return b.fail(status.Corrupt, r.number, "%d bytes are freed at 0x%x, %d were allocated", r.bytes, r.address, t.bytes)
	}
	e, err := b.event(r)
	if err != nil {
		return err
	}
	delete(b.live, r.address)
	e.Block, e.Free = t.block, true
	b.trace.Events = append(b.trace.Events, e)
	return nil
}

// before notes a block from before the first event, and is the number that it has for now.
func (b *builder) before(r *record) (block uint32, ok bool) {
	if b.trace.Blocks+uint64(len(b.earlier)) == mostBlocks {
		return 0, false
	}
	b.see(r.address)
	b.earlier = append(b.earlier, earlier{r.address, r.bytes, streamKey{r.stream, r.thread}, b.thread(r.thread)})
	return ^uint32(len(b.earlier) - 1), true
}

// finish is the trace, whose first events take the blocks from before, in the order of their addresses.
func (b *builder) finish() (*Trace, error) {
	t, count := &b.trace, len(b.earlier)
	t.Timed = !b.untimed && len(t.Events) > 0
	if !t.Timed {
		for at := range t.Events {
			t.Events[at].Time = 0
		}
	}
	if count == 0 {
		return t, nil
	}
	var begin int64
	if len(t.Events) > 0 {
		begin = t.Events[0].Time
	}
	order := make([]int, count)
	for at := range order {
		order[at] = at
	}
	slices.SortFunc(order, func(x, y int) int { return cmp.Compare(b.earlier[x].address, b.earlier[y].address) })
	events := make([]Event, 0, count+len(t.Events))
	blocks := make([]uint32, count)
	var addresses []uint64
	for block, at := range order {
		e := b.earlier[at]
		stream, err := b.stream(0, e.key)
		if err != nil {
			return nil, err
		}
		blocks[at] = uint32(block)
		events = append(events, Event{Bytes: e.bytes, Time: begin, Block: uint32(block), Thread: e.thread, Stream: stream})
		addresses = append(addresses, e.address)
	}
	for _, e := range t.Events {
		if uint64(e.Block) < t.Blocks {
			e.Block += uint32(count)
		} else {
			e.Block = blocks[^e.Block]
		}
		events = append(events, e)
	}
	if places := t.Places; places != nil {
		places.Addresses = append(addresses, places.Addresses...)
		for at := range places.Refusals {
			places.Refusals[at].At += count
		}
	}
	t.Events, t.Blocks, t.Before = events, t.Blocks+uint64(count), uint64(count)
	return t, nil
}
