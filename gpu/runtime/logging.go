// The adaptor that remembers events.

package runtime

import (
	"bufio"
	"fmt"
	"io"
	gort "runtime"
	"time"

	"libmmsb/core/status"
	"libmmsb/gpu/blocks"
	"libmmsb/gpu/driver"
)

// Log is an adaptor that keeps the last events in a ring in memory, which C writes, too. As text it is what RMM's logging adaptor
// writes and its replay reads (the columns Thread,Time,Action,Pointer,Size,Stream).
type Log struct {
	over
	keeps  int // events
	ring   *blocks.Log
	pooled bool // releases are not noted: in a pool memory is free to its stream at once
}

// LogAction is what happened.
type LogAction uint8

// The events of a log.
const (
	LogAllocate LogAction = iota + 1
	LogAllocateFailure
	LogFree
	LogFreeFailure
	LogReleased
	LogMap   // addresses of a pool got memory
	LogUnmap // and lost it
)

var logActions = [...]string{LogAllocate: "allocate", LogAllocateFailure: "allocate failure", LogFree: "free",
	LogFreeFailure: "free failure", LogReleased: "released", LogMap: "map", LogUnmap: "unmap"}

// C notes two of them.
var _ = [1]struct{}{}[LogAllocate-blocks.Allocated|LogFree-blocks.Freed]

// String is the action's name, in RMM's words as far as it has it.
func (a LogAction) String() string { return logActions[a] }

// LogRecord is one event, in the order of Number. Bytes of a failed allocation are those that were asked for, its address is 0.
type LogRecord struct {
	Number  uint64 // from 1 on, without gaps
	Time    int64  // nanoseconds since 1970, to about a millisecond
	Thread  int32  // the system's thread; of a release or a segment 0
	Action  LogAction
	Code    status.Code
	Address driver.Address
	Bytes   uint64
	Tag     Tag
	Stream  uint32        // the runtime's number of the stream
	Native  driver.Stream // the driver's stream
}

// NewLog makes a log that keeps the last events, as many as are asked for, at least 1.
func NewLog(events int) *Log { return &Log{keeps: events} }

// Over implements Adaptor.
func (l *Log) Over(below Layer, host Host) error {
	if err := l.over.Over(below, host); err != nil {
		return err
	}
	ring, err := blocks.NewLog(uint64(max(l.keeps, 1)))
	if err != nil {
		return status.FromErrno(status.OutOfMemory, status.ErrnoOf(err), "history of %d events has no memory", l.keeps)
	}
	l.ring = ring
	gort.AddCleanup(l, (*blocks.Log).End, ring) // it can be read for as long as somebody has it
	return nil
}

func (l *Log) note(action LogAction, code status.Code, memory *Memory, stream *Stream, thread int32) {
	event := blocks.Event{Thread: thread, Action: uint32(action), Code: int32(code), Address: uint64(memory.Address),
		Bytes: memory.Bytes, Tag: uint32(memory.Tag)}
	if stream != nil {
		event.Stream, event.Native = stream.index, uint64(stream.native)
	}
	l.ring.Note(&event)
}

// noted is in the place of a thread that has freed a block: C has noted the free, when the block went into a magazine.
const noted = -1

// threadOf is the thread that a caller has named, or this one.
func threadOf(named int32) int32 {
	if named != 0 {
		return named
	}
	return blocks.Thread()
}

// Allocate implements Layer.
func (l *Log) Allocate(request Request) (Memory, error) {
	memory, err := l.below.Allocate(request)
	if err != nil {
		l.note(LogAllocateFailure, status.CodeOf(err), &Memory{Bytes: request.Bytes, Tag: request.Tag}, request.Stream,
			threadOf(request.Thread))
		return memory, err
	}
	l.note(LogAllocate, status.OK, &memory, request.Stream, threadOf(request.Thread))
	return memory, nil
}

// Free implements Layer. The event is noted before the free is queued: after it another thread may get the address, and its event
// must come later.
func (l *Log) Free(memory Memory, stream *Stream) error {
	if memory.Freer == noted {
		return l.below.Free(memory, stream)
	}
	thread := threadOf(memory.Freer)
	l.note(LogFree, status.OK, &memory, stream, thread)
	err := l.below.Free(memory, stream)
	if err != nil {
		l.note(LogFreeFailure, status.CodeOf(err), &memory, stream, thread)
	}
	return err
}

// Released implements Layer.
func (l *Log) Released(memory Memory) {
	l.below.Released(memory)
	if !l.pooled {
		l.note(LogReleased, status.OK, &memory, nil, 0)
	}
}

// Read copies events behind a number into records, the oldest first. lost is how many behind it the ring does not have any more.
func (l *Log) Read(behind uint64, records []LogRecord) (count int, lost uint64) {
	defer gort.KeepAlive(l)
	var events [256]blocks.Event
	for count < len(records) {
		got, gone := l.ring.Read(behind, events[:min(len(events), len(records)-count)])
		if count == 0 {
			lost = gone
		} else if gone > 0 { // the ring came round: what was copied ends here
			break
		}
		for _, e := range events[:got] {
			records[count] = LogRecord{e.Number, e.Time, e.Thread, LogAction(e.Action), status.Code(e.Code),
				driver.Address(e.Address), e.Bytes, Tag(e.Tag), e.Stream, driver.Stream(e.Native)}
			count++
		}
		if got == 0 {
			break
		}
		behind = records[count-1].Number
	}
	return count, lost
}

// WriteCSV writes what the ring has in RMM's form. Events that RMM does not know are left out.
func (l *Log) WriteCSV(to io.Writer) error {
	out := bufio.NewWriter(to) // which keeps its first error
	_, _ = out.WriteString("Thread,Time,Action,Pointer,Size,Stream\n")
	var records [256]LogRecord
	for behind := uint64(0); ; {
		count, _ := l.Read(behind, records[:])
		if count == 0 {
			return out.Flush()
		}
		for i := range records[:count] {
			r := &records[i]
			behind = r.Number
			if r.Action != LogAllocate && r.Action != LogAllocateFailure && r.Action != LogFree {
				continue
			}
			_, _ = fmt.Fprintf(out, "%d,%s,%v,0x%x,%d,0x%x\n", r.Thread, time.Unix(0, r.Time).Format("15:04:05.000000"),
				r.Action, uintptr(r.Address), r.Bytes, uintptr(r.Native))
		}
	}
}
