// Package trace reads recorded traces of an allocator: what a program took and gave back, in its order.
//
// Two formats are known: the CSV of RMM's logging adaptor, which a runtime's log writes, too, and the pickle of PyTorch's memory
// snapshot, of which no code is run. A trace that is read has no addresses any more: frees name the block that they give back.
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
	Block  uint32 // in the order in which blocks are taken
	Stream uint16 // less than Trace.Streams
	Free   bool
}

// Trace is the events of one device.
type Trace struct {
	Format  string // "RMM" or "PyTorch"
	Events  []Event
	Blocks  uint64 // that are taken
	Streams int

	// Before is how many of the first events take blocks that the program had before the recording began: its end, or a free,
	// tells of them.
	Before uint64
	// Refused is how many requests were refused when the trace was recorded, and Other how many events are left out besides:
	// those of 0 bytes, and those that neither take nor give a block.
	Refused, Other uint64
	// Reserved is the most bytes that the recorded allocator had from its driver; 0: the trace does not say.
	Reserved uint64
}

// Options choose among what a file has.
type Options struct {
	Device int // whose events, where a snapshot has those of several; less than 0: of the only one that has any
	// Lost says that a CSV may have lost its beginning, as that of a log that was full: a free without an allocation is then no
	// error where nothing came before at its address. Snapshots always may.
	Lost bool
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

// earlier is a block that was taken before the first event.
type earlier struct {
	address, bytes uint64
	key            streamKey
}

// builder makes a trace of events with addresses.
type builder struct {
	trace   Trace
	live    map[uint64]taken // by address
	streams map[streamKey]uint16
	unit    string // "line" or "event", whose number errors have

	seen    map[uint64]bool // addresses that came up; nil: nothing is lost
	earlier []earlier       // whose frees have ^index as their block until all are known
}

func newBuilder(source, unit string, lost bool) *builder {
	b := &builder{trace: Trace{Format: source}, live: make(map[uint64]taken), streams: make(map[streamKey]uint16), unit: unit}
	if lost {
		b.seen = make(map[uint64]bool)
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
	}
	return index, nil
}

// take adds an event that takes a block. number is where it stands.
func (b *builder) take(number, address, bytes uint64, key streamKey) error {
	if _, is := b.live[address]; is {
		return b.fail(status.Corrupt, number, "address 0x%x is allocated and not freed before", address)
	}
	if b.trace.Blocks+uint64(len(b.earlier)) == mostBlocks {
		return b.fail(status.Limit, number, "block is one more than %d", uint64(mostBlocks))
	}
	stream, err := b.stream(number, key)
	if err != nil {
		return err
	}
	block := uint32(b.trace.Blocks)
	b.live[address] = taken{block, bytes}
	b.trace.Events = append(b.trace.Events, Event{Bytes: bytes, Block: block, Stream: stream})
	b.trace.Blocks++
	b.see(address)
	return nil
}

func (b *builder) see(address uint64) {
	if b.seen != nil {
		b.seen[address] = true
	}
}

// give adds an event that gives a block back; bytes are those that it names.
func (b *builder) give(number, address, bytes uint64, key streamKey) error {
	t, is := b.live[address]
	if !is {
		if b.seen == nil || b.seen[address] {
			return b.fail(status.Corrupt, number, "address 0x%x is freed, but not allocated", address)
		}
		if t.block, is = b.before(address, bytes, key); !is {
			return b.fail(status.Limit, number, "block is one more than %d", uint64(mostBlocks))
		}
		t.bytes = bytes
	}
	stream, err := b.stream(number, key)
	if err != nil {
		return err
	}
	delete(b.live, address)
	b.trace.Events = append(b.trace.Events, Event{Bytes: t.bytes, Block: t.block, Stream: stream, Free: true})
	return nil
}

// before notes a block from before the first event, and is the number that it has for now.
func (b *builder) before(address, bytes uint64, key streamKey) (block uint32, ok bool) {
	if b.trace.Blocks+uint64(len(b.earlier)) == mostBlocks {
		return 0, false
	}
	b.see(address)
	b.earlier = append(b.earlier, earlier{address, bytes, key})
	return ^uint32(len(b.earlier) - 1), true
}

// finish is the trace, whose first events take the blocks from before, in the order of their addresses.
func (b *builder) finish() (*Trace, error) {
	t, count := &b.trace, len(b.earlier)
	if count == 0 {
		return t, nil
	}
	order := make([]int, count)
	for at := range order {
		order[at] = at
	}
	slices.SortFunc(order, func(x, y int) int { return cmp.Compare(b.earlier[x].address, b.earlier[y].address) })
	events := make([]Event, 0, count+len(t.Events))
	blocks := make([]uint32, count)
	for block, at := range order {
		e := b.earlier[at]
		stream, err := b.stream(0, e.key)
		if err != nil {
			return nil, err
		}
		blocks[at] = uint32(block)
		events = append(events, Event{Bytes: e.bytes, Block: uint32(block), Stream: stream})
	}
	for _, e := range t.Events {
		if uint64(e.Block) < t.Blocks {
			e.Block += uint32(count)
		} else {
			e.Block = blocks[^e.Block]
		}
		events = append(events, e)
	}
	t.Events, t.Blocks, t.Before = events, t.Blocks+uint64(count), uint64(count)
	return t, nil
}
