// Package native is the part of libmmsb that runs without entering Go: the page records that C and Go share, the threads' caches
// of free pages, the locks, and the byte loops. It decides nothing that core decides: what it cannot do by the records alone it
// asks of Go, see upcalls.go.
package native

/*
#cgo CFLAGS: -std=gnu11 -O2 -Wall -fno-strict-aliasing -I${SRCDIR}/../include
#cgo linux LDFLAGS: -lpthread
#include <errno.h>
#include <sys/mman.h>
#include "disk.h"
#include "frame.h"
#include "gate.h"
#include "id.h"
#include "life.h"
#include "lock.h"
#include "mask.h"
#include "pin.h"
#include "poison.h"
#include "tensor.h"
#include "walk.h"

extern void mmsb__native_install(void);

// Calls that neither keep a Go pointer nor come back into Go.
#cgo noescape mmsb__fail_foreign
#cgo nocallback mmsb__fail_foreign
#cgo noescape mmsb__gate_poison
#cgo nocallback mmsb__gate_poison
#cgo noescape mmsb__records_list
#cgo nocallback mmsb__records_list
#cgo noescape mmsb__records_survey
#cgo nocallback mmsb__records_survey
#cgo noescape mmsb__memory_swap
#cgo nocallback mmsb__memory_swap
#cgo nocallback mmsb__page_lock_library
#cgo nocallback mmsb__page_lock_library_unless_moving
#cgo noescape mmsb__page_try_lock_library
#cgo nocallback mmsb__page_try_lock_library
#cgo noescape mmsb__pages_try_lock_library
#cgo nocallback mmsb__pages_try_lock_library
#cgo noescape mmsb__records_unlock_all
#cgo noescape mmsb__disk_read_all
#cgo nocallback mmsb__disk_read_all
#cgo noescape mmsb__disk_write_all
#cgo nocallback mmsb__disk_write_all

// Addresses cross as numbers: they are the caller's, and none of Go's business.
static inline void call_release(uintptr_t release, uintptr_t user, uintptr_t memory, uint64_t size) {
    ((void (*)(void *, void *, uint64_t))release)((void *)user, (void *)memory, size);
}
// Where the thread may hold locks. A thread for which there is no memory ends exports at once.
static inline void call_release_locked(uintptr_t release, uintptr_t user, uintptr_t memory, uint64_t size) {
    mmsb__thread_t *self = mmsb__self ? mmsb__self : mmsb__thread_enter();
    if (self)
        self->gives_back++;
    call_release(release, user, memory, size);
    if (self)
        self->gives_back--;
}
// In AddressSanitizer builds: of length bytes at memory only the first size may be touched.
static inline void redzone_memory(uintptr_t memory, uint64_t size, uint64_t length) {
    MMSB__UNPOISON((void *)memory, size);
    MMSB__POISON((uint8_t *)memory + size, length - size);
}
static inline uint64_t mask_bytes(void) {
    return __atomic_load_n(&mmsb__mask_bytes, __ATOMIC_RELAXED);
}
*/
import "C"

import (
	"runtime"
	"sync/atomic"
	"syscall"
	"unsafe"
)

// Start reserves the records' addresses and tells C where Go is. It may be called more than once.
func Start() syscall.Errno {
	if C.mmsb__gate != 0 && C.mmsb__gate_closed() != 0 {
		return syscall.ENOMEM
	}
	C.mmsb__native_install()
	return 0
}

// Poison closes the library after an internal error.
func Poison(text string) {
	C.mmsb__gate_poison((*C.char)(unsafe.Pointer(unsafe.StringData(text))), C.size_t(len(text)))
}

// CloseInChild lets children of fork close a descriptor first, or no more.
func CloseInChild(descriptor int, closes bool) {
	C.mmsb__close_in_child(C.int(descriptor), C.bool(closes))
}

// Fail stores the calling thread's last error and returns the code.
func Fail(code, domain, foreign int32, text string) int32 {
	return int32(C.mmsb__fail_foreign(C.mmsb_status_t(code), C.int32_t(domain), C.int32_t(foreign),
		(*C.char)(unsafe.Pointer(unsafe.StringData(text))), C.size_t(len(text))))
}

// LastError is what C code stored for this thread.
func LastError() (code, domain, foreign int32, text string) {
	thread := C.mmsb__error()
	return int32(thread.error_code), int32(thread.error_domain), int32(thread.error_foreign), C.GoString(&thread.error_text[0])
}

// OpenLeaf makes the records of a leaf writable.
func OpenLeaf(leaf uint32) syscall.Errno {
	return syscall.Errno(C.mmsb__table_open_leaf(C.uint32_t(leaf)))
}

// OpenSides makes the side records of a leaf writable.
func OpenSides(leaf uint32) syscall.Errno {
	return syscall.Errno(C.mmsb__table_open_sides(C.uint32_t(leaf)))
}

// SetLeafContext says whose the records of a leaf are.
func SetLeafContext(leaf, context uint32) {
	storeUint32((*uint32)(unsafe.Pointer(&C.mmsb__table.leaf_context[leaf])), context)
}

// EndLeaf notes that the context of a leaf has ended; pages on its records may be pinned.
func EndLeaf(leaf uint32) {
	storeUint32((*uint32)(unsafe.Pointer(&C.mmsb__table.leaf_ended[leaf])), LeafContext(leaf))
	SetLeafContext(leaf, 0)
}

// LeafContext is the index of the context that has the leaf.
func LeafContext(leaf uint32) uint32 {
	return loadUint32((*uint32)(unsafe.Pointer(&C.mmsb__table.leaf_context[leaf])))
}

// SetRegion says where a region lies; 0 = nowhere.
func SetRegion(region uint32, base uintptr) {
	C.mmsb__region_map(C.uint32_t(region), C.uintptr_t(base))
}

// LockPage locks a live page for Go code. A failure is the thread's last error.
func LockPage(page uint64) int32 { return int32(C.mmsb__page_lock_library(C.uint64_t(page))) }

// LockPageUnlessMoving is LockPage, but a page whose bytes asynchronous work moves is Busy.
func LockPageUnlessMoving(page uint64) int32 {
	return int32(C.mmsb__page_lock_library_unless_moving(C.uint64_t(page)))
}

// TryLockPage locks a page that nobody works on.
func TryLockPage(page uint64) bool { return C.mmsb__page_try_lock_library(C.uint64_t(page)) != 0 }

// TryLockPages is TryLockPage of many; locked says for each whether it is.
func TryLockPages(pages []uint64, locked []bool) {
	C.mmsb__pages_try_lock_library((*C.uint64_t)(unsafe.SliceData(pages)), C.size_t(len(pages)),
		(*C.uint8_t)(unsafe.Pointer(unsafe.SliceData(locked))))
}

// UnlockAll is UnlockRecord of many.
func UnlockAll(indices []uint32, states []uint64) {
	C.mmsb__records_unlock_all((*C.uint32_t)(unsafe.SliceData(indices)), (*C.uint64_t)(unsafe.SliceData(states)),
		C.size_t(len(indices)))
}

// UnlockRecord gives the record a state without owner; a page that was resident for the call only, and is not pinned, is evicted.
func UnlockRecord(index uint32, state uint64) {
	C.mmsb__record_unlock(C.uint32_t(index), C.uint64_t(state))
}

// Synchronize returns when every thread that works in a cache of the context knows what the caller has written before.
func Synchronize(context uint32) { C.mmsb__synchronize(C.mmsb__context_record(C.uint32_t(context))) }

// ExposedForGood is Exposed of a page whose bytes may change at any time.
const ExposedForGood = C.MMSB__EXPOSED_FOR_GOOD

// BeginContext opens a context's record.
func BeginContext(index uint32, handle uint64, defaultLocation int32, idFactor, idInverse uint64) {
	record := C.mmsb__context_record(C.uint32_t(index))
	record.index = C.uint32_t(index)
	record.default_location = C.int32_t(defaultLocation)
	record.id_factor = C.uint64_t(idFactor)
	record.id_inverse = C.uint64_t(idInverse)
	record.creates, record.frees, record.bytes_created, record.bytes_freed, record.peak_bytes = 0, 0, 0, 0, 0
	record.sections, record.lets_write, record.strayed = 0, 0, 0
	storeUint32((*uint32)(unsafe.Pointer(&record.generation)), Generation(handle))
	storeUint64((*uint64)(unsafe.Pointer(&record.handle)), handle)
}

// ContextHandle is the handle of the live context with an index; 0 = there is none.
func ContextHandle(index uint32) uint64 {
	return loadUint64((*uint64)(unsafe.Pointer(&C.mmsb__context_record(C.uint32_t(index)).handle)))
}

// DetachContext makes the context's handle stale and takes it away from every thread's cache.
func DetachContext(index uint32) { C.mmsb__context_detach(C.mmsb__context_record(C.uint32_t(index))) }

// Counts are a context's counters.
type Counts struct{ Creates, Frees, BytesCreated, BytesFreed, PeakBytes uint64 }

// CountContext adds up a context's counters.
func CountContext(index uint32) Counts {
	record := C.mmsb__context_record(C.uint32_t(index))
	var creates, frees, bytesCreated, bytesFreed C.uint64_t
	C.mmsb__context_count(record, &creates, &frees, &bytesCreated, &bytesFreed)
	return Counts{uint64(creates), uint64(frees), uint64(bytesCreated), uint64(bytesFreed), uint64(record.peak_bytes)}
}

// SetSimulated notes whether a context's devices are simulated ones.
func SetSimulated(index uint32, simulated bool) {
	storeInt32((*int32)(&C.mmsb__context_record(C.uint32_t(index)).simulated), int32(flag(simulated)))
}

// SetDiskFile tells which file a context's pages on disk lie in, before the first of them.
func SetDiskFile(index uint32, file int) { C.mmsb__disk_set(C.uint32_t(index), C.int(file)) }

// Transfer is a range of a file, and memory outside the Go heap, that bytes move between; see disk.h.
type Transfer struct {
	File         int32
	_            uint32
	At           uint64
	Bytes        uintptr
	Length, Done uint64
	Item         uint64
}

// ReadDisk reads files into memory, all ranges together: it sorts them.
func ReadDisk(transfers []Transfer) (code int32) {
	var bad C.size_t
	return int32(C.mmsb__disk_read_all((*C.mmsb__transfer_t)(unsafe.Pointer(unsafe.SliceData(transfers))),
		C.size_t(len(transfers)), &bad))
}

// WriteDisk is the other direction.
func WriteDisk(transfers []Transfer) (code int32) {
	var bad C.size_t
	return int32(C.mmsb__disk_write_all((*C.mmsb__transfer_t)(unsafe.Pointer(unsafe.SliceData(transfers))),
		C.size_t(len(transfers)), &bad))
}

// AddCounts counts what Go did with pages by itself.
func AddCounts(index uint32, creates, frees, bytesCreated, bytesFreed uint64) {
	C.mmsb__context_add(C.uint32_t(index), C.uint64_t(creates), C.uint64_t(frees), C.uint64_t(bytesCreated),
		C.uint64_t(bytesFreed))
}

// CacheBytes is the memory of all threads' caches.
func CacheBytes() uint64 { return uint64(C.mmsb__cache_bytes()) }

// MaskBytes is the memory of all change masks.
func MaskBytes() uint64 { return uint64(C.mask_bytes()) }

// TakeDepot takes a magazine of free handles out of a context's depot.
func TakeDepot(context, class uint32, handles *[MagazineRounds]uint64) int {
	return int(C.mmsb__depot_take(C.mmsb__context_record(C.uint32_t(context)), C.uint32_t(class), (*C.uint64_t)(&handles[0])))
}

// CreateBatch creates small pages with automatic ids. MMSB__ENTER_GO (-1) when an id is taken.
func CreateBatch(context, size uint64, zeroed bool, pages []uint64) int32 {
	return int32(C.mmsb__page_create_many(C.uint64_t(context), C.uint64_t(size), C.size_t(len(pages)), C.int(flag(zeroed)),
		(*C.mmsb_page_t)(unsafe.Pointer(unsafe.SliceData(pages)))))
}

// Uncreate takes back pages of a call that failed.
func Uncreate(pages []uint64) {
	C.mmsb__page_uncreate((*C.mmsb_page_t)(unsafe.Pointer(unsafe.SliceData(pages))), C.size_t(len(pages)))
}

// FinishRecord frees a small record whose page Go has ended and that the caller has locked.
func FinishRecord(index uint32, state uint64) {
	C.mmsb__record_finish(C.uint32_t(index), C.uint64_t(state))
}

// TakeFrame takes memory for the library's own use: a record, all zero.
func TakeFrame(context uint32, size uint64) (index uint32, code int32) {
	var taken C.uint32_t
	code = int32(C.mmsb__frame_take(C.uint32_t(context), C.uint64_t(size), &taken))
	return uint32(taken), code
}

// GiveFrame gives such memory back.
func GiveFrame(context, index uint32) { C.mmsb__frame_give(C.uint32_t(context), C.uint32_t(index)) }

// LeaveMagazines gives what the calling thread's magazines have of a context to all its threads.
func LeaveMagazines(context uint32) { C.mmsb__magazines_leave(C.uint32_t(context)) }

// TakeFrames takes so many frames of small memory, or none. Without zeroed they may have bytes of the context's ended pages.
func TakeFrames(context uint32, size uint64, zeroed bool, indices []uint32) int32 {
	return int32(C.mmsb__frames_take(C.uint32_t(context), C.uint64_t(size), C.int(flag(zeroed)),
		(*C.uint32_t)(unsafe.SliceData(indices)), C.uint32_t(len(indices))))
}

// Staged is a frame that becomes a page with these low bits of the state, size class aside. CRC, Generation and Changed are the
// caller's.
type Staged struct {
	ID, Size, Epoch, Version, Low   uint64
	Index, CRC, Generation, Changed uint32
}

// PublishPages turns frames of a context into live pages.
func PublishPages(context uint32, pages []Staged) {
	C.mmsb__pages_publish(C.uint32_t(context), (*C.mmsb__staged_t)(unsafe.Pointer(unsafe.SliceData(pages))), C.size_t(len(pages)))
}

// PublishPage turns a frame into a live page.
func PublishPage(index uint32, size, low, epoch, version uint64) {
	C.mmsb__page_publish(C.uint32_t(index), C.uint64_t(size), C.uint64_t(low), C.uint64_t(epoch), C.uint64_t(version))
}

// LockRecords locks the pages that live on count records. It returns count, or which one is pinned: those behind it are not
// locked. highest becomes the highest of its value and the pages' versions.
func LockRecords(first, count uint32, highest *uint64) uint32 {
	return uint32(C.mmsb__records_lock(C.uint32_t(first), C.uint32_t(count), (*C.uint64_t)(highest)))
}

// UnlockRecords unlocks them.
func UnlockRecords(first, count uint32) { C.mmsb__records_unlock(C.uint32_t(first), C.uint32_t(count)) }

// Finished is what is left when pages of a leaf have ended: their side records, and the records of pages that Go ends.
type Finished struct {
	sidesCount, leftCount uint32
	sides, left           [LeafRecords]uint32
}

// FinishRecords ends the locked pages on count records but for those that are left.
func (f *Finished) FinishRecords(first, count uint32) (sides, left []uint32) {
	C.mmsb__records_finish(C.uint32_t(first), C.uint32_t(count), (*C.mmsb__finished_t)(unsafe.Pointer(f)))
	return f.sides[:f.sidesCount], f.left[:f.leftCount]
}

// UseMask makes a frame the change mask of a locked page that has none.
func UseMask(index, frame uint32) {
	C.mmsb__mask_use(C.mmsb__record_at(C.uint32_t(index)), C.uint32_t(frame))
}

// Redzone lets only a locked page's bytes be touched after it got other memory.
func Redzone(index uint32, state, size uint64) {
	C.mmsb__page_redzone(C.uint32_t(index), C.uint64_t(state), C.uint64_t(size))
}

// RedzoneMemory lets only the first size of length bytes be touched.
func RedzoneMemory(locator, size, length uint64) {
	C.redzone_memory(C.uintptr_t(uintptr(unsafe.Pointer(&Bytes(locator, 1)[0]))), C.uint64_t(size), C.uint64_t(length))
}

// Unpoison lets memory be touched by whoever gets it from the system next.
func Unpoison(memory uintptr, length uint64) {
	C.mmsb__memory_unpoison(*(*unsafe.Pointer)(unsafe.Pointer(&memory)), C.uint64_t(length))
}

// TakeMaskFrame takes a locked page's change mask away: the index of its frame, which is the caller's to free; 0 where it had
// none.
func TakeMaskFrame(index uint32) uint32 {
	return uint32(C.mmsb__mask_take(C.mmsb__record_at(C.uint32_t(index))))
}

// FindPage is the live page with an automatic id; 0 = none.
func FindPage(context uint32, id uint64) uint64 {
	return uint64(C.mmsb__page_find(C.mmsb__context_record(C.uint32_t(context)), C.uint64_t(id)))
}

// ListRecords writes the handles of live pages among count records and says how many records it looked at.
func ListRecords(first, count uint32, pages []uint64) (looked, found uint32) {
	var n C.uint32_t
	looked = uint32(C.mmsb__records_list(C.uint32_t(first), C.uint32_t(count),
		(*C.mmsb_page_t)(unsafe.Pointer(unsafe.SliceData(pages))), C.uint32_t(min(len(pages), int(count))), &n))
	return looked, uint32(n)
}

// Survey is what a walk over live pages counts; indexed by location.
type Survey struct {
	Pages, Bytes [8]uint64
	Pinned       uint64
}

// SurveyRecords adds the live pages among count records.
func SurveyRecords(first, count uint32, survey *Survey) {
	C.mmsb__records_survey(C.uint32_t(first), C.uint32_t(count), (*C.mmsb__survey_t)(unsafe.Pointer(survey)))
}

// EndRecords ends the pages among count records of a detached context. The indices it writes are locked and wait for Go: pinned
// pages in the state ENDED, others for Go to end. It says how many it wrote and how many records it looked at.
func EndRecords(first, count uint32, indices []uint32) (reported, looked uint32) {
	var n C.uint32_t
	reported = uint32(C.mmsb__records_end(C.uint32_t(first), C.uint32_t(count),
		(*C.uint32_t)(unsafe.Pointer(unsafe.SliceData(indices))), C.uint32_t(len(indices)), &n))
	return reported, uint32(n)
}

// Pin pins a page without giving out an address, and Unpin ends that: to read, or also to write.
func Pin(page uint64, write bool) int32 {
	return int32(C.mmsb__page_pin_apart(C.uint64_t(page), pinMode(write)))
}

// Unpin is the end.
func Unpin(page uint64, write bool) int32 {
	return int32(C.mmsb__page_unpin(C.uint64_t(page), pinMode(write)))
}

// CountCopyPins counts pins of copies on the host of pages in two places, which have been made or ended.
func CountCopyPins(by int) {
	atomic.AddUint32((*uint32)(unsafe.Pointer(&C.mmsb__copy_pins)), uint32(by))
}

func pinMode(write bool) C.int32_t {
	if write {
		return C.MMSB_PIN_WRITE
	}
	return C.MMSB_PIN_READ
}

// SwapMemory swaps the memory of two records that the caller has locked or that are frames.
func SwapMemory(a uint32, aState *uint64, b uint32, bState *uint64) {
	C.mmsb__memory_swap(C.uint32_t(a), (*C.uint64_t)(aState), C.uint32_t(b), (*C.uint64_t)(bState))
}

// Stray counts that bytes of a context which may have been written through pointers have come into other memory, or another page.
func Stray(context uint32) { C.mmsb__context_stray(C.uint32_t(context)) }

// Strayed is how often that was.
func Strayed(context uint32) uint64 {
	return loadUint64((*uint64)(unsafe.Pointer(&C.mmsb__context_record(C.uint32_t(context)).strayed)))
}

// CallRelease calls the caller's function for adopted memory, on this thread, outside of every lock.
func CallRelease(release, user, memory uintptr, size uint64) {
	C.call_release(C.uintptr_t(release), C.uintptr_t(user), C.uintptr_t(memory), C.uint64_t(size))
}

// CallReleaseLocked is CallRelease where the caller may hold locks of pages: exports that end meanwhile wait for
// EndWaitingTensors.
func CallReleaseLocked(release, user, memory uintptr, size uint64) {
	C.call_release_locked(C.uintptr_t(release), C.uintptr_t(user), C.uintptr_t(memory), C.uint64_t(size))
}

// EndWaitingTensors ends the exports that wait for it. It may end pages.
func EndWaitingTensors() {
	if atomic.LoadPointer((*unsafe.Pointer)(unsafe.Pointer(&C.mmsb__tensors_waiting))) != nil ||
		atomic.LoadUint32((*uint32)(unsafe.Pointer(&C.mmsb__tensors_ending))) != 0 {
		C.mmsb__tensors_end_waiting_slow()
	}
}

// LiveTensors is the number of exports whose deleter has not run.
func LiveTensors() uint64 { return uint64(C.mmsb__tensors_alive()) }

// LockPair locks two different pages together and makes sure that their bytes have addresses. The locks are the thread's, so the
// goroutine stays on it until UnlockPair.
func LockPair(pages *[2]uint64) (bad int, code int32) {
	runtime.LockOSThread()
	var index C.size_t
	code = int32(C.mmsb__pair_lock((*C.mmsb_page_t)(unsafe.Pointer(pages)), &index))
	if code != 0 {
		runtime.UnlockOSThread()
	}
	return int(index), code
}

// UnlockPair ends LockPair.
func UnlockPair(pages *[2]uint64) {
	C.mmsb__pair_unlock((*C.mmsb_page_t)(unsafe.Pointer(pages)))
	runtime.UnlockOSThread()
}

func flag(b bool) int {
	if b {
		return 1
	}
	return 0
}
