// The adaptor that remembers events.

package runtime

import (
	"bufio"
	"fmt"
	"io"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"libmmsb/core/safego"
	"libmmsb/core/status"
	"libmmsb/gpu/driver"
)

// Log is an adaptor that keeps the last events in a ring in memory. As text it is what RMM's logging adaptor writes and its
// replay reads (the columns Thread,Time,Action,Pointer,Size,Stream).
type Log struct {
	over
	mutex sync.Mutex
	ring  []LogRecord
	next  uint64 // number of the next event; the ring has the last len(ring) of them
	now   int64  // the time of the last tick; 0 = nobody moves it on

	pooled bool // releases are not noted: in a pool memory is free to its stream at once
}

// logTick is how often the time of a log is moved on. A clock that is read for each event costs more than all the rest of it.
const logTick = time.Millisecond

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
func NewLog(events int) *Log { return &Log{ring: make([]LogRecord, max(1, events))} }

func (l *Log) note(action LogAction, code status.Code, memory *Memory, stream *Stream, thread int32) {
	l.mutex.Lock()
	if l.now == 0 {
		l.begin()
	}
	r := &l.ring[l.next%uint64(len(l.ring))]
	l.next++
	r.Number, r.Time, r.Thread, r.Action, r.Code = l.next, l.now, thread, action, code
	r.Address, r.Bytes, r.Tag = memory.Address, memory.Bytes, memory.Tag
	r.Stream, r.Native = 0, 0
	if stream != nil {
		r.Stream, r.Native = stream.index, stream.native
	}
	l.mutex.Unlock()
}

// begin looks at the clock, which a goroutine does from now on, until a tick has seen no event. The lock is held.
func (l *Log) begin() {
	l.now = time.Now().UnixNano()
	last := l.next
	safego.Go(func() {
		for {
			time.Sleep(logTick)
			l.mutex.Lock()
			if l.next == last {
				l.now = 0
				l.mutex.Unlock()
				return
			}
			l.now, last = time.Now().UnixNano(), l.next
			l.mutex.Unlock()
		}
	})
}

// threadOf is the thread that a caller has named, or this one.
func threadOf(named int32) int32 {
	if named != 0 {
		return named
	}
	return int32(unix.Gettid())
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
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if behind >= l.next {
		return 0, 0
	}
	first := behind
	if oldest := l.next - min(l.next, uint64(len(l.ring))); first < oldest {
		lost, first = oldest-first, oldest
	}
	for number := first; number < l.next && count < len(records); number++ {
		records[count] = l.ring[number%uint64(len(l.ring))]
		count++
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
