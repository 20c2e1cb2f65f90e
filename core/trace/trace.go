// Package trace reads recorded traces of an allocator: what a program took and gave back, in its order.
//
// Two formats are known: the CSV of RMM's logging adaptor, which a runtime's log writes, too, and the pickle of PyTorch's memory
// snapshot, of which no code is run. A trace that is read has no addresses any more: frees name the block that they give back.
// Errors have the number of the line or of the event: Format where a text is not of the format, Corrupt where a trace is cut off
// or contradicts itself, Limit.
package trace

import (
	"bufio"
	"io"

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
	return readCSV(in)
}

// streamKey is a stream as programs name it. CUDA's per-thread default stream is another one in each thread.
type streamKey struct{ stream, thread uint64 }

const perThreadStream = 2

// taken is a block that is not given back.
type taken struct {
	block uint32
	bytes uint64
}

// builder makes a trace of events with addresses.
type builder struct {
	trace   Trace
	live    map[uint64]taken // by address
	streams map[streamKey]uint16
	unit    string // "line" or "event", whose number errors have
}

func newBuilder(source, unit string) *builder {
	return &builder{trace: Trace{Format: source}, live: make(map[uint64]taken), streams: make(map[streamKey]uint16), unit: unit}
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
	if b.trace.Blocks == mostBlocks {
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
	return nil
}

// give adds an event that gives a block back.
func (b *builder) give(number, address uint64, key streamKey) error {
	t, is := b.live[address]
	if !is {
		return b.fail(status.Corrupt, number, "address 0x%x is freed, but not allocated", address)
	}
	stream, err := b.stream(number, key)
	if err != nil {
		return err
	}
	delete(b.live, address)
	b.trace.Events = append(b.trace.Events, Event{Bytes: t.bytes, Block: t.block, Stream: stream, Free: true})
	return nil
}
