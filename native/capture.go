package native

/*
#include "bytes.h"
#include "capture.h"
#include "preimage.h"

#include <stdlib.h>

static inline int large_written(const mmsb__large_t *large) { return __atomic_load_n(&large->written, __ATOMIC_RELAXED); }
static inline uint32_t checksum(const uint8_t *bytes, uint64_t length) { return mmsb__bytes.crc32c(0, bytes, length); }

static inline void granule_checksums(const uint8_t *bytes, uint64_t length, uint64_t granules, uint32_t *sums) {
    for (; granules != 0; granules &= granules - 1) {
        const uint64_t from = (uint64_t)__builtin_ctzll(granules) * MMSB__GRANULE_BYTES;
        if (from >= length)
            return;
        const uint64_t left = length - from;
        sums[from / MMSB__GRANULE_BYTES] =
            mmsb__bytes.crc32c(0, bytes + from, left < MMSB__GRANULE_BYTES ? left : MMSB__GRANULE_BYTES);
    }
}
*/
import "C"

import "unsafe"

// ChunkBytes is how much of a large page is captured at once.
const ChunkBytes = C.MMSB__CHUNK_BYTES

// GranuleBytes is the smallest unit of a part that can be captured, and AllGranules has the bits of all granules of a part.
const (
	GranuleBytes = C.MMSB__GRANULE_BYTES
	AllGranules  = 1<<(ChunkBytes/GranuleBytes) - 1
)

// Saved is what the last save knows of a record's page: mmsb__saved_t.
type Saved struct {
	Version, ID, Size uint64
	Generation        uint32 // 0 = the record had no page
	CRC               uint32
}

// Base is what an earlier save knows of pages, by leaf.
type Base [Leaves]*Saved

// LastSaved is what the last save of each leaf's context knows.
func LastSaved() *Base { return (*Base)(unsafe.Pointer(&C.mmsb__saved)) }

// SavedLeaf is what is saved of a leaf's pages; nil without memory.
func SavedLeaf(leaf uint32) *[LeafRecords]Saved {
	return (*[LeafRecords]Saved)(unsafe.Pointer(C.mmsb__saved_leaf(C.uint32_t(leaf))))
}

// NewSavedLeaf allocates what a Base knows of a leaf, empty, outside the Go heap; nil without memory.
func NewSavedLeaf() *Saved {
	return (*Saved)(C.calloc(LeafRecords, C.sizeof_mmsb__saved_t))
}

// FreeSavedLeaf frees what NewSavedLeaf allocated, where no capture has taken it over.
func FreeSavedLeaf(saved *Saved) { C.free(unsafe.Pointer(saved)) }

// ForgetSaved forgets what the last save knows of a leaf: the next one compares nothing there.
func ForgetSaved(leaf uint32) { C.mmsb__saved_forget(C.uint32_t(leaf)) }

// Image is a page's entry in a snapshot, and ImageExtent that of a range of its bytes: mmsb__image_t, mmsb__image_extent_t.
type Image struct {
	ID, Size, Epoch, Version    uint64
	Location, Device, NUMANode  int32
	Flags, FirstExtent, Extents uint32
	MetadataCount, Reserved     uint32
}

// ImageExtent says where a range of an image's bytes lies.
type ImageExtent struct {
	Offset                                     uint64
	Length, Stored, At, CRC, Kind, Compression uint32
}

// Segment receives captured pages: mmsb__segment_t. Its addresses are those of memory that does not move.
type Segment struct {
	Buffer                      uintptr
	Used, End                   uint64
	Images                      uintptr
	ImageCount, ImageCapacity   uint32
	Extents                     uintptr
	ExtentCount, ExtentCapacity uint32
}

// Fill says why Capture.Fill returned.
type Fill int

// The reasons: the segment is full, the next page is large, all pages are captured, a page is pinned for writing.
const (
	FillFull   Fill = C.MMSB__FILL_FULL
	FillLarge  Fill = C.MMSB__FILL_LARGE
	FillEnd    Fill = C.MMSB__FILL_END
	FillPinned Fill = C.MMSB__FILL_PINNED
)

// Capture is a running capture of a context.
type Capture struct{ capture *C.mmsb__capture_t }

// BeginCapture begins; Settle must follow, under no lock. base nil captures everything. The error is the thread's last one.
func BeginCapture(context uint32, leaves, used []uint32, base *Base, copyLimit uint64, rawWrites int32) (Capture, bool) {
	capture := C.mmsb__capture_begin(C.uint32_t(context), (*C.uint32_t)(unsafe.SliceData(leaves)),
		(*C.uint32_t)(unsafe.SliceData(used)), C.uint32_t(len(leaves)),
		(**C.mmsb__saved_t)(unsafe.Pointer(base)), C.uint64_t(copyLimit), C.int(rawWrites))
	return Capture{capture}, capture != nil
}

// Settle returns when every call sees the capture, also calls that take no lock.
func (c Capture) Settle() { C.mmsb__capture_settle(c.capture) }

// AwaitChanges returns when no call changes a page any more that began before the capture: what they change is captured. Call it
// after Settle.
func (c Capture) AwaitChanges() { C.mmsb__capture_await_changes(c.capture) }

// Fill puts pages into a segment. Where it stops at a page, it returns the index of that page's record.
func (c Capture) Fill(segment *Segment) (Fill, uint32) {
	var index C.uint32_t
	fill := C.mmsb__capture_fill(c.capture, (*C.mmsb__segment_t)(unsafe.Pointer(segment)), &index)
	return Fill(fill), uint32(index)
}

// KeepWritten keeps what writing sections may change: FillEnd when it has all of it, FillFull when the saver has to go on before,
// FillLarge when the page of a record has to be saved before.
func (c Capture) KeepWritten() (Fill, uint32) {
	var index C.uint32_t
	fill := C.mmsb__capture_keep_written(c.capture, &index)
	return Fill(fill), uint32(index)
}

// CompareLeaf compares the pages of the next leaf with the base, beside the goroutine that fills. It returns false when no leaf
// is left.
func (c Capture) CompareLeaf() bool { return C.mmsb__capture_compare_leaf(c.capture) != 0 }

// Large is a large page of a capture.
type Large struct{ large *C.mmsb__large_t }

// Large prepares the capture of a record's large page. ok is false where there is nothing to capture, or code is an error.
func (c Capture) Large(index uint32) (large Large, ok bool, code int32) {
	var failed C.mmsb_status_t
	found := C.mmsb__capture_large(c.capture, C.uint32_t(index), &failed)
	return Large{found}, found != nil, int32(failed)
}

// Image is the 64 bytes of its entry in a snapshot.
func (l Large) Image() *[64]byte { return (*[64]byte)(unsafe.Pointer(&l.large.image)) }

// Parts are the numbers of parts of its bytes and of its change mask.
func (l Large) Parts() (bytes, mask int) { return int(l.large.byte_parts), int(l.large.mask_parts) }

// Unchanged says whether the page has the version that the base has: only writes through its address can have changed it.
func (l Large) Unchanged() bool { return l.large.unchanged != 0 }

// Written says whether raw writers that waited for the moment may have changed the page since.
func (l Large) Written() bool { return C.large_written(l.large) != 0 }

// Metadata is the page's metadata blob.
func (l Large) Metadata() []byte {
	return unsafe.Slice((*byte)(l.large.metadata), int(l.large.metadata_length))
}

// Part copies the granules of a part whose bits are set, as they were when the capture began, to their offsets in a buffer of
// ChunkBytes. Parts of the mask follow those of the bytes. It returns the part's length; 0 is a failure, and the error is the
// thread's last one.
func (c Capture) Part(l Large, part int, granules uint64, buffer []byte) int {
	return int(C.mmsb__capture_part(c.capture, l.large, C.uint32_t(part), C.uint64_t(granules),
		(*C.uint8_t)(unsafe.SliceData(buffer))))
}

// Sums is what a device says of parts of the bytes, from first on: the checksums of their granules when the capture began, of
// each part as many as a whole one has, and whether those of a part are known.
func (l Large) Sums(first int, sums []uint32, known []bool) {
	C.mmsb__capture_sums(l.large, C.uint32_t(first), C.uint32_t(len(known)), (*C.uint32_t)(unsafe.SliceData(sums)),
		(*C.uint8_t)(unsafe.Pointer(unsafe.SliceData(known))))
}

// Skip notes that a part is equal to the base's.
func (c Capture) Skip(l Large, part int) { C.mmsb__capture_skip(l.large, C.uint32_t(part)) }

// ChangedSince says whether calls have changed a page since it had a version, or it has ended.
func ChangedSince(index, generation uint32, version uint64) bool {
	return C.mmsb__capture_changed_since(C.uint32_t(index), C.uint32_t(generation), C.uint64_t(version)) != 0
}

// LargeDone ends the capture of a large page: all its parts are taken.
func (c Capture) LargeDone(l Large) { C.mmsb__capture_large_done(c.capture, l.large) }

// Urgent is the record of a page that a writer waits for; 0 = none.
func (c Capture) Urgent() uint32 { return uint32(C.mmsb__capture_urgent(c.capture)) }

// Compared counts bytes that were read only to compare them.
func (c Capture) Compared(bytes uint64) { C.mmsb__capture_compared(c.capture, C.uint64_t(bytes)) }

// Stop ends the keeping of pre-images: after FillEnd, when every page is captured.
func (c Capture) Stop() { C.mmsb__capture_stop(c.capture) }

// Failed is not 0 where a writer found no memory for a pre-image, or could not read it from disk.
func (c Capture) Failed() int32 { return int32(C.mmsb__capture_failed(c.capture)) }

// Removed are the ids of pages that the base has and the context no longer has, valid until End; ok is false without memory.
func (c Capture) Removed() (ids []uint64, ok bool) {
	var count C.uint64_t
	first := C.mmsb__capture_removed(c.capture, &count)
	return unsafe.Slice((*uint64)(first), int(count)), first != nil
}

// Totals are the numbers of pages and bytes by which the context exceeds the base.
func (c Capture) Totals() (pages, bytes int64) {
	var p, b C.int64_t
	C.mmsb__capture_totals(c.capture, &p, &b)
	return int64(p), int64(b)
}

// CaptureStats are what writers did for a capture.
type CaptureStats struct{ CopiedBytes, CopiedPeak, Waits, WaitedNs, ComparedBytes uint64 }

// Stats are the counts up to now.
func (c Capture) Stats() CaptureStats {
	var stats C.mmsb__capture_stats_t
	C.mmsb__capture_stats(c.capture, &stats)
	return CaptureStats{uint64(stats.copied_bytes), uint64(stats.copied_peak), uint64(stats.waits), uint64(stats.waited_ns),
		uint64(stats.compared_bytes)}
}

// Commit notes that the captured pages are saved: the next incremental save compares with them.
func (c Capture) Commit() { C.mmsb__capture_commit(c.capture) }

// End frees the capture.
func (c Capture) End() { C.mmsb__capture_end(c.capture) }

// CaptureLater tells a running capture that its context took a leaf: pages there are younger than the capture.
func CaptureLater(context, leaf uint32) {
	C.mmsb__capture_later(C.uint32_t(context), C.uint32_t(leaf))
}

// Again is what KeepPreimage returns where the caller unlocks the page, calls WaitForCapture and begins anew.
const Again = C.MMSB__AGAIN

// KeepPreimage keeps a locked page for a running capture and for the thread's group, before the page changes as a whole: 0,
// Again, or the code of a failure, which is the thread's last error.
func KeepPreimage(index uint32, state uint64) (code int32) {
	return int32(C.mmsb__preimage_keep_page(C.mmsb__record_at(C.uint32_t(index)), C.uint64_t(state)))
}

// KeepForSave is KeepPreimage for what is being saved, and not for the thread's group.
func KeepForSave(index uint32, state uint64) (code int32) {
	return int32(C.mmsb__preimage_keep_saved(C.mmsb__record_at(C.uint32_t(index)), C.uint64_t(state)))
}

// WaitForCapture waits until the capture has gone on with the page.
func WaitForCapture(index uint32) { C.mmsb__capture_wait(C.uint32_t(index)) }

// Freeze makes every call that would change a page of the context wait until Thaw.
func Freeze(context uint32) int32 { return int32(C.mmsb__context_freeze(C.uint32_t(context))) }

// Thaw ends a freeze.
func Thaw(context uint32) { C.mmsb__context_thaw(C.uint32_t(context)) }

// GranuleChecksums are the CRC-32Cs of those granules of a part whose bits are set. sums has one for each granule of the part;
// the others stay.
func GranuleChecksums(bytes []byte, granules uint64, sums []uint32) {
	if len(bytes) > len(sums)*GranuleBytes {
		panic("native: fewer checksums than granules")
	}
	C.granule_checksums((*C.uint8_t)(unsafe.SliceData(bytes)), C.uint64_t(len(bytes)), C.uint64_t(granules),
		(*C.uint32_t)(unsafe.SliceData(sums)))
}

// Checksum is the CRC-32C of bytes.
func Checksum(bytes []byte) uint32 {
	return uint32(C.checksum((*C.uint8_t)(unsafe.SliceData(bytes)), C.uint64_t(len(bytes))))
}
