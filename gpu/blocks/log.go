package blocks

/*
#include "blocks.h"
*/
import "C"

import (
	"syscall"
	"unsafe"
)

// What C notes in a history; gpu/runtime has all actions.
const (
	Allocated = C.MMSB__BLOCK_ALLOCATED
	Freed     = C.MMSB__BLOCK_FREED
)

// Event is one event of a history; see blocks.h.
type Event struct {
	Number         uint64
	Time           int64
	Address, Bytes uint64
	Native         uint64
	Tag, Stream    uint32
	Thread, Code   int32
	Action         uint32
	reserved       uint32
}

// Log is the history of a runtime, a ring of the last events.
type Log struct {
	lock     uint32
	reserved uint32
	count    uint64
	capacity uint64
	at       uint64
	time     int64
	ticks    uint64
	unused   [2]uint64
}

func ringBytes(events uint64) uint64 {
	return uint64(unsafe.Sizeof(Log{})) + events*uint64(unsafe.Sizeof(Event{}))
}

// NewLog makes a history that keeps so many events, at least 1. The system backs it with memory when events come.
func NewLog(events uint64) (*Log, error) {
	events = max(events, 1)
	if events > 1<<40 {
		return nil, syscall.ENOMEM
	}
	memory, err := zeroed(uintptr(ringBytes(events)))
	if err != nil {
		return nil, err
	}
	l := (*Log)(memory)
	l.capacity = events
	return l, nil
}

// End gives the memory back. No stream has the history any more.
func (l *Log) End() {
	_ = syscall.Munmap(unsafe.Slice((*byte)(unsafe.Pointer(l)), ringBytes(l.capacity))) // what was mapped can be unmapped
}

// Note adds an event, with its number and time.
func (l *Log) Note(event *Event) {
	C.mmsb__block_log_note((*C.mmsb__block_log_t)(unsafe.Pointer(l)), (*C.mmsb__block_event_t)(unsafe.Pointer(event)))
}

// Read copies events behind a number, the oldest first. lost is how many behind it the ring does not have any more.
func (l *Log) Read(behind uint64, events []Event) (count int, lost uint64) {
	if len(events) == 0 {
		return 0, 0
	}
	var gone C.uint64_t
	got := C.mmsb__block_log_read((*C.mmsb__block_log_t)(unsafe.Pointer(l)), C.uint64_t(behind),
		(*C.mmsb__block_event_t)(unsafe.Pointer(&events[0])), C.uint64_t(len(events)), &gone)
	return int(got), uint64(gone)
}

// Thread is the system's number of this thread.
func Thread() int32 { return int32(C.mmsb__block_thread()) }
