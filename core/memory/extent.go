package memory

import (
	"libmmsb/core/alloc"
	"libmmsb/core/invariant"
	"libmmsb/core/region"
	"libmmsb/core/status"
	"libmmsb/native"
)

// Extents: frames of more than native.SmallMax bytes that share regions. They are counted in system pages of one space, in which
// the regions lie one behind the other.

const (
	// Regions that extents are cut from.
	firstExtents = 4 << 20
	lastExtents  = 64 << 20
	// extentGap is one system page that no extent gets, between the regions, so that none reaches from one into the next.
	extentGap = 1
)

// extents are a context's. Under the lock of the memory.
type extents struct {
	ledger   *ledger
	huge     bool
	space    *alloc.Extents
	regions  []extentRegion    // in the order of first
	first    map[uint32]uint64 // by region
	retained retained
}

// extentRegion is a region that extents are cut from: system pages [first, first+count) of the space.
type extentRegion struct {
	number       uint32
	first, count uint64
}

// at is the region that a system page of the space lies in.
func (e *extents) at(page uint64) extentRegion {
	low, high := 0, len(e.regions)
	for high-low > 1 {
		middle := (low + high) / 2
		if e.regions[middle].first <= page {
			low = middle
		} else {
			high = middle
		}
	}
	return e.regions[low]
}

// locator is where a system page of the space lies.
func (e *extents) locator(page uint64) uint64 {
	in := e.at(page)
	return native.Locator(in.number, (page-in.first)*region.SystemPage)
}

// of is the extent of a locator.
func (e *extents) of(locator, bytes uint64) (first, count uint64) {
	return e.first[native.LocatorRegion(locator)] + native.LocatorOffset(locator)/region.SystemPage, bytes / region.SystemPage
}

func (e *extents) numbers() (regions []uint32) {
	for _, r := range e.regions {
		regions = append(regions, r.number)
	}
	return regions
}

// find finds free system pages, in a new region where there are none.
func (e *extents) find(count uint64) (first uint64, err error) {
	first, ok := e.space.Allocate(count, 1)
	if ok {
		return first, nil
	}
	length := uint64(lastExtents)
	if len(e.regions) == 0 {
		length = firstExtents
	}
	number, err := region.Map(length, e.huge)
	if err != nil {
		return 0, err
	}
	pages := length / region.SystemPage
	start := uint64(0)
	if n := len(e.regions); n > 0 {
		last := e.regions[n-1]
		start = last.first + last.count + extentGap
	}
	e.regions = append(e.regions, extentRegion{number, start, pages})
	e.first[number] = start
	if start > 0 {
		e.space.Skip(extentGap)
	}
	if err := e.space.Grow(start + pages); err != nil {
		return 0, err
	}
	if first, ok = e.space.Allocate(count, 1); !ok {
		return 0, status.Errorf(status.OutOfMemory, "no extent of %d system pages in a new region of %d", count, pages)
	}
	return first, nil
}

// take takes an extent. Where it is not to be zeroed, it may have bytes of the context's ended pages.
func (e *extents) take(count uint64, zeroed bool) (locator uint64, err error) {
	first, err := e.find(count)
	if err != nil {
		return 0, err
	}
	// What is retained of it is charged already.
	if err := e.ledger.charge((count - e.retained.count(first, first+count)) * region.SystemPage); err != nil {
		e.free(first, count)
		return 0, err
	}
	locator = e.locator(first)
	native.RedzoneMemory(locator, count*region.SystemPage, count*region.SystemPage)
	e.retained.take(first, first+count, func(first, end uint64) {
		if zeroed {
			clear(native.Bytes(e.locator(first), (end-first)*region.SystemPage))
		}
	})
	return locator, nil
}

// give gives an extent back, whose memory stays for a while.
func (e *extents) give(locator, bytes uint64) {
	native.RedzoneMemory(locator, 0, bytes)
	first, count := e.of(locator, bytes)
	e.free(first, count)
	e.retained.add(first, first+count)
}

// free frees system pages of the space, which were allocated as one.
func (e *extents) free(first, count uint64) {
	if err := e.space.Free(first, count); err != nil {
		invariant.Assert(false, "%v", err)
	}
}

// discard gives the system the memory of system pages that are not retained any more.
func (e *extents) discard(first, end uint64) {
	in := e.at(first) // no run goes on into the next one: between them is a gap
	length := (end - first) * region.SystemPage
	region.Discard(in.number, (first-in.first)*region.SystemPage, length)
	e.ledger.uncharge(length)
}

// trim gives the system all that is retained.
func (e *extents) trim() { e.retained.take(0, ^uint64(0), e.discard) }
