package native

/*
#include "journal.h"

#cgo noescape ring_waits
#cgo nocallback ring_waits
#cgo noescape mmsb__ring_take
#cgo nocallback mmsb__ring_take
#cgo noescape mmsb__ring_fail
#cgo nocallback mmsb__ring_fail
#cgo nocallback mmsb__ring_flush

// One record of at most three pieces, for Go: the pieces are built here, because Go may not put its pointers into C structs.
static mmsb_status_t append_record(mmsb__ring_t *ring, mmsb__journal_head_t head, const void *a, uint64_t a_length, const void *b,
                                   uint64_t b_length, const void *c, uint64_t c_length, uint64_t *sequence) {
    mmsb__piece_t pieces[] = {{a, a_length}, {b, b_length}, {c, c_length}};
    return mmsb__ring_append(ring, head, pieces, 3, sequence);
}
// One record of at most two pieces of a group.
static void put_record(mmsb__group_t *group, mmsb__journal_head_t head, const void *a, uint64_t a_length, const void *b,
                       uint64_t b_length) {
    mmsb__piece_t pieces[] = {{a, a_length}, {b, b_length}};
    mmsb__ring_put(group, head, pieces, 2);
}
static inline int ring_failed(const mmsb__ring_t *ring) { return __atomic_load_n(&ring->failed, __ATOMIC_ACQUIRE) != MMSB_OK; }
static inline void ring_refuse(mmsb__ring_t *ring) { __atomic_store_n(&ring->refuses, 1, __ATOMIC_RELAXED); }
static inline uint64_t ring_waits(const mmsb__ring_t *ring, uint64_t *waited_ns, uint64_t *space_waited_ns) {
    *waited_ns = __atomic_load_n(&ring->waited_ns, __ATOMIC_RELAXED);
    *space_waited_ns = __atomic_load_n(&ring->space_waited_ns, __ATOMIC_RELAXED);
    return __atomic_load_n(&ring->waits, __ATOMIC_RELAXED);
}
static inline uint64_t ring_synced(const mmsb__ring_t *ring) { return __atomic_load_n(&ring->durable, __ATOMIC_ACQUIRE); }
#cgo noescape append_record
#cgo nocallback append_record
#cgo noescape put_record
#cgo nocallback put_record
#cgo noescape mmsb__ring_end
#cgo nocallback mmsb__ring_end
*/
import "C"

import (
	"math"
	"sync/atomic"
	"time"
	"unsafe"
)

// Ring is the way of a context's records to its journal; core/journal's Writer takes them out. All its methods but Append,
// Wait, Flush and Last are the writer's.
type Ring struct{ ring *C.mmsb__ring_t }

// RingBytes is the size of a ring's two buffers, and the longest frame.
const RingBytes = int(C.MMSB__RING_BYTES_MAX)

// RingMarkedBytes is for how many bytes of its buffers a ring has one mark.
const RingMarkedBytes = 1 << C.MMSB__RING_MARK_SHIFT

// OpenRing opens the ring of a context that has none: its first record gets the number next. interval is how long a record may
// wait for others to go with it; with eachCall Wait waits. shared is MMSB__RING_MEMORY bytes of memory, zeros, that stay the
// caller's and outlive the process; nil: memory that does not. A failure is the thread's last error.
func OpenRing(context uint32, next uint64, bufferBytes int, interval time.Duration, eachCall bool, shared []byte) (Ring, int32) {
	code := int32(C.mmsb__ring_open(C.uint32_t(context), C.uint64_t(next), C.uint64_t(bufferBytes), C.int64_t(interval),
		C.int(flag(eachCall)), unsafe.Pointer(unsafe.SliceData(shared))))
	return Ring{C.mmsb__rings[context]}, code
}

// writers write what waits in the rings of contexts.
var writers [C.MMSB__CONTEXTS]atomic.Pointer[func() bool]

// ServedBy says what writes the ring's records in the place of a writer that sleeps in Take, for a call that waits for its own.
// It is called while the writer sleeps, calls Take with no patience, and says whether all that it took is written.
func (r Ring) ServedBy(write func() bool) { writers[r.ring.context].Store(&write) }

// SetPatience says how long changes wait after the disk is found full, for a ring of the context that works; 0: they fail, also
// those that wait already.
func (r Ring) SetPatience(patience time.Duration) {
	C.mmsb__ring_set_patience(r.ring, C.int64_t(patience))
}

// RingOf is the ring of a context; ok says whether it is open.
func RingOf(context uint32) (ring Ring, ok bool) {
	found := C.mmsb__ring_for(C.uint32_t(context))
	return Ring{found}, found != nil
}

// Waits are how often calls have waited until the disk took records or had space for them, and how long all threads together;
// SpaceWaited is the part that was for space.
type Waits struct {
	Count               uint64
	Waited, SpaceWaited time.Duration
}

// Waits counts since the first ring of the context's index was opened.
func (r Ring) Waits() Waits {
	var waited, space C.uint64_t
	count := C.ring_waits(r.ring, &waited, &space)
	return Waits{uint64(count), time.Duration(waited), time.Duration(space)}
}

// Since is what came behind others.
func (w Waits) Since(before Waits) Waits {
	return Waits{w.Count - before.Count, w.Waited - before.Waited, w.SpaceWaited - before.SpaceWaited}
}

// Head is what a record begins with; see docs/journal-format.md.
type Head struct {
	Kind, Flags          uint8
	Form                 uint16
	Page, Version, Epoch uint64
}

// Append puts one record, whose body is the pieces (at most three) one after the other, before its change is made. A failure
// is the thread's last error; nothing may be changed then. sequence is what to Wait for; 0 where the journal was closed
// meanwhile.
func (r Ring) Append(head Head, pieces ...[]byte) (sequence uint64, code int32) {
	var parts [3][]byte
	copy(parts[:], pieces)
	var number C.uint64_t
	if code = reserveRecords(r, RecordSpace(pieces...), 1); code != 0 {
		return 0, code
	}
	code = int32(C.append_record(r.ring, head.native(),
		unsafe.Pointer(unsafe.SliceData(parts[0])), C.uint64_t(len(parts[0])),
		unsafe.Pointer(unsafe.SliceData(parts[1])), C.uint64_t(len(parts[1])),
		unsafe.Pointer(unsafe.SliceData(parts[2])), C.uint64_t(len(parts[2])), &number))
	return uint64(number), code
}

func (h *Head) native() C.mmsb__journal_head_t {
	return C.mmsb__journal_head_t{kind: C.uint8_t(h.Kind), flags: C.uint8_t(h.Flags), form: C.uint16_t(h.Form),
		page: C.uint64_t(h.Page), version: C.uint64_t(h.Version), epoch: C.uint64_t(h.Epoch)}
}

// RecordSpace is the space that a record takes whose body is the pieces.
func RecordSpace(pieces ...[]byte) (bytes int) {
	for _, piece := range pieces {
		bytes += len(piece)
	}
	return int(C.mmsb__journal_space(C.uint64_t(bytes)))
}

// Records are put one by one, and come back all or none. Between Begin and End the thread begins no others.
type Records struct{ group C.mmsb__group_t }

// Begin makes space for records before their changes are made. A failure is the thread's last error; nothing may be changed then.
func (r Ring) Begin(bytes, records int) (*Records, int32) {
	if code := reserveRecords(r, bytes, records); code != 0 {
		return nil, code
	}
	made := &Records{}
	return made, int32(C.mmsb__ring_begin(r.ring, &made.group, C.uint64_t(bytes), C.uint64_t(records)))
}

// Put puts one record, whose body is two pieces one after the other.
func (r *Records) Put(head Head, a, b []byte) {
	C.put_record(&r.group, head.native(), unsafe.Pointer(unsafe.SliceData(a)), C.uint64_t(len(a)),
		unsafe.Pointer(unsafe.SliceData(b)), C.uint64_t(len(b)))
}

// End ends the group. A failure is the thread's last error: none of the changes may be made then. sequence is what to Wait for.
func (r *Records) End() (sequence uint64, code int32) {
	code = int32(C.mmsb__ring_end(&r.group))
	return uint64(r.group.last), code
}

// Wait returns when the record is durable, where each call waits for that. A failure is the thread's last error.
func (r Ring) Wait(sequence uint64) int32 {
	return int32(C.mmsb__ring_wait(r.ring, C.uint64_t(sequence)))
}

// Flush returns when the record is durable, whatever the journal's durability. A failure is the thread's last error.
func (r Ring) Flush(sequence uint64) int32 {
	return int32(C.mmsb__ring_flush(r.ring, C.uint64_t(sequence), math.MaxInt64))
}

// FlushFor is Flush for a time; done says whether the record is durable.
func (r Ring) FlushFor(sequence uint64, patience time.Duration) (done bool, code int32) {
	code = int32(C.mmsb__ring_flush(r.ring, C.uint64_t(sequence), C.int64_t(patience)))
	if code == C.MMSB_E_WOULD_BLOCK {
		return false, 0
	}
	return true, code
}

// Last is the last sequence number that was given to a record.
func (r Ring) Last() uint64 { return uint64(C.mmsb__ring_last(r.ring)) }

// Take waits for records; patience below 0 is for ever. buffer is a whole buffer, which begins with space for the frame's head,
// used is where its records end, first the number of the first of count; ends says that no group goes on behind them; wanted,
// that somebody waits for them. No buffer: there were no records, or somebody waits for those taken before to be durable.
// open is false after the last.
func (r Ring) Take(patience time.Duration) (buffer []byte, used int, first uint64, count uint32, ends, wanted, open bool) {
	var batch C.mmsb__ring_batch_t
	switch C.mmsb__ring_take(r.ring, C.int64_t(patience), &batch) {
	case -1:
		return nil, 0, 0, 0, false, false, false
	case 0:
		return nil, 0, 0, 0, false, false, true
	}
	return unsafe.Slice((*byte)(batch.bytes), batch.capacity), int(batch.used), uint64(batch.first), uint32(batch.count),
		batch.ends != 0, batch.wanted != 0, true
}

// Synced is the number up to which every record is on the disk.
func (r Ring) Synced() uint64 { return uint64(C.ring_synced(r.ring)) }

// Durable says that every record up to sequence is on the disk.
func (r Ring) Durable(sequence uint64) { C.mmsb__ring_durable(r.ring, C.uint64_t(sequence)) }

// Fail says that the disk failed: calls that would be journalled fail from now on with this error.
func (r Ring) Fail(code, domain, foreign int32, text string) {
	C.mmsb__ring_fail(r.ring, C.mmsb_status_t(code), C.int32_t(domain), C.int32_t(foreign),
		(*C.char)(unsafe.Pointer(unsafe.StringData(text))), C.size_t(len(text)))
}

// Refuse lets pins for writing fail as well, with the error that Fail gets.
func (r Ring) Refuse() { C.ring_refuse(r.ring) }

// Failed says whether the disk has failed: no record is taken any more, and the last ones may be lost.
func (r Ring) Failed() bool { return C.ring_failed(r.ring) != 0 }

// Stop lets no more records in; Take hands out what is left. It returns at once.
func (r Ring) Stop() { C.mmsb__ring_stop(r.ring) }

// Close gives back the buffers, after Take has said that it is over or after Fail.
func (r Ring) Close() {
	writers[r.ring.context].Store(nil)
	C.mmsb__ring_close(r.ring)
}
