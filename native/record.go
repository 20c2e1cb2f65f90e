package native

/*
#include "thread.h"
*/
import "C"

import (
	"sync/atomic"
	"unsafe"
)

// The layout of handles and states, as record.h has it.
const (
	IndexBits     = C.MMSB__INDEX_BITS
	IndexMask     = 1<<IndexBits - 1
	GenerationMax = 1<<32 - 1

	KindPage     = C.MMSB_KIND_PAGE
	StateFree    = C.MMSB__STATE_FREE
	StateFrame   = C.MMSB__STATE_FRAME
	StateEnded   = C.MMSB__STATE_ENDED
	StateRetired = C.MMSB__STATE_RETIRED
	StateLeaving = C.MMSB__STATE_LEAVING

	ClassShift    = C.MMSB__CLASS_SHIFT
	ClassMask     = 0x1f << ClassShift
	LocationShift = C.MMSB__LOCATION_SHIFT
	LocationMask  = 7 << LocationShift
	ExplicitID    = 1 << 8
	Adopted       = 1 << 9
	ReadOnly      = 1 << 10
	Beginning     = 1 << 11
	Moving        = Beginning // of a locked page
	OwnerMask     = C.MMSB__OWNER_LIBRARY
	OwnerLibrary  = C.MMSB__OWNER_LIBRARY
	Nonresident   = 1 << C.MMSB__NONRESIDENT_SHIFT
	live          = 1 << C.MMSB__LIVE_SHIFT

	SmallClasses   = C.MMSB__SMALL_CLASSES
	SmallMax       = C.MMSB__SMALL_MAX
	ClassGuarded   = C.MMSB__CLASS_GUARDED
	ClassDevice    = C.MMSB__CLASS_DEVICE
	ClassExtent    = C.MMSB__CLASS_EXTENT
	ClassMapped    = C.MMSB__CLASS_MAPPED
	ClassForeign   = C.MMSB__CLASS_FOREIGN
	ClassNone      = C.MMSB__CLASS_NONE
	MagazineRounds = C.MMSB__MAGAZINE_ROUNDS

	Regions     = C.MMSB__REGIONS
	offsetBits  = C.MMSB__OFFSET_BITS
	LeafBits    = C.MMSB__LEAF_BITS
	LeafRecords = 1 << LeafBits
	Leaves      = 1 << (IndexBits - LeafBits)

	IDAutomatic = 0xa << 60
	IDMask      = 1<<60 - 1

	EnterGo = C.MMSB__ENTER_GO
)

// Record is a page's record; see record.h, and layouts.go.
type Record struct {
	Side, MaskFrame                            uint32
	State                                      uint64
	Locator, Size, Epoch, Version, MaskLocator uint64
	DirtyFirst, DirtyLast, Exposed, IDTaken    uint8
	ReadPins, WritePins                        uint16
}

// Side is what few pages need; see record.h.
type Side struct {
	ID                           uint64
	MetadataFrame, MetadataCount uint32
	MetadataLength               uint64
	Device, NUMANode             int32
	BackingAt, BackingLength     uint64
	Release, User                uintptr // of adopted memory; a nonresident page on a device has its block in User
}

// RecordAt is the record with an index.
func RecordAt(index uint32) *Record {
	return (*Record)(unsafe.Add(unsafe.Pointer(C.mmsb__table.records), uintptr(index)*unsafe.Sizeof(Record{})))
}

// SideAt is the side record with an index.
func SideAt(index uint32) *Side {
	return (*Side)(unsafe.Add(unsafe.Pointer(C.mmsb__table.sides), uintptr(index)*unsafe.Sizeof(Side{})))
}

// Handle composes a handle.
func Handle(kind, generation, index uint32) uint64 {
	return uint64(kind)<<60 | uint64(generation)<<IndexBits | uint64(index)
}

// Kind, Generation and Index are the parts of a handle; Kind and Generation also work on states.
func Kind(handle uint64) uint32       { return uint32(handle >> 60) }
func Generation(handle uint64) uint32 { return uint32(handle >> IndexBits) }
func Index(handle uint64) uint32      { return uint32(handle & IndexMask) }

// IsOf says whether a state is that of this live page: mmsb__state_is.
func IsOf(state, page uint64) bool { return (state^page&^IndexMask)>>C.MMSB__LIVE_SHIFT == 1 }

// State composes a state. Whether it is that of a live page follows from the kind.
func State(kind, generation uint32, low uint64) uint64 {
	if kind == KindPage {
		return Handle(kind, generation, 0) | low | live
	}
	return Handle(kind, generation, 0) | low&^live
}

// OnDevice says whether the bytes of a page in a state lie where only devices reach them.
func OnDevice(state uint64) bool {
	return state&Nonresident != 0 && Location(state) == C.MMSB_LOCATION_GPU
}

// Class and Location read a state.
func Class(state uint64) uint32   { return uint32(state & ClassMask >> ClassShift) }
func Location(state uint64) int32 { return int32(state & LocationMask >> LocationShift) }

// Locator composes a locator of region and offset.
func Locator(region uint32, offset uint64) uint64 { return uint64(region)<<offsetBits | offset }

// LocatorRegion is the region of a locator.
func LocatorRegion(locator uint64) uint32 { return uint32(locator >> offsetBits) }

// LocatorOffset is the offset of a locator.
func LocatorOffset(locator uint64) uint64 { return locator & (1<<offsetBits - 1) }

// Bytes are the memory at a locator.
func Bytes(locator, length uint64) []byte {
	return Memory(Address(locator), length)
}

// Address is that of a locator.
func Address(locator uint64) uintptr {
	return loadUintptr((*uintptr)(unsafe.Pointer(&C.mmsb__table.region_base[LocatorRegion(locator)]))) + uintptr(locator)
}

// Memory is memory that is not Go's, at an address.
func Memory(address uintptr, length uint64) []byte {
	//nolint:govet // not Go memory
	return unsafe.Slice((*byte)(unsafe.Add(unsafe.Pointer(nil), address)), length)
}

// LoadSize reads a page's size without its lock.
func (r *Record) LoadSize() uint64 { return loadUint64(&r.Size) }

// LoadState reads a record's state.
func (r *Record) LoadState() uint64 { return loadUint64(&r.State) }

// StoreState writes it: the way to unlock what is not a page.
func (r *Record) StoreState(state uint64) { storeUint64(&r.State, state) }

// Pinned tells whether the page, which is locked, has pins.
func (r *Record) Pinned() bool { return r.ReadPins != 0 || r.WritePins != 0 }

// SetLocator says where a locked page's bytes lie; 0 is nowhere.
func (r *Record) SetLocator(locator uint64) { storeUint64(&r.Locator, locator) }

// SetSize changes a locked page's size.
func (r *Record) SetSize(size uint64) { storeUint64(&r.Size, size) }

// MoveVersion counts a change.
func (r *Record) MoveVersion() { storeUint64(&r.Version, r.Version+1) }

// ClassSize is the memory of a size class.
func ClassSize(class uint32) uint64 { return classSizes[class] }

var classSizes = func() (sizes [SmallClasses]uint64) {
	for class := range sizes {
		sizes[class] = uint64(C.mmsb__class_size(C.uint32_t(class)))
	}
	return sizes
}()

func loadUint32(p *uint32) uint32     { return atomic.LoadUint32(p) }
func storeUint32(p *uint32, v uint32) { atomic.StoreUint32(p, v) }
func loadUint64(p *uint64) uint64     { return atomic.LoadUint64(p) }
func storeInt32(p *int32, v int32)    { atomic.StoreInt32(p, v) }
func storeUint64(p *uint64, v uint64) { atomic.StoreUint64(p, v) }
func loadUintptr(p *uintptr) uintptr  { return atomic.LoadUintptr(p) }
