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
	space   *alloc.Extents
	regions []extentRegion    // in the order of first
	first   map[uint32]uint64 // by region
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
func (e *extents) find(count uint64, huge bool) (first uint64, err error) {
	if e.space == nil {
		e.space = alloc.NewExtents(0)
		e.first = make(map[uint32]uint64)
	}
	first, ok := e.space.Allocate(count, 1)
	if ok {
		return first, nil
	}
	length := uint64(lastExtents)
	if len(e.regions) == 0 {
		length = firstExtents
	}
	number, err := region.Map(length, huge)
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

// takeExtent takes an extent. Where it is not to be zeroed, it may have bytes of the context's ended pages. Under the lock.
func (m *Memory) takeExtent(count uint64, zeroed bool) (locator uint64, err error) {
	first, err := m.extents.find(count, m.huge)
	if err != nil {
		return 0, err
	}
	// What is retained of it is charged already, unless the charge has to release it.
	err = m.ledger.Take((count - m.retained.count(first, first+count)) * region.SystemPage)
	if err != nil && m.trim() > 0 {
		err = m.ledger.Take(count * region.SystemPage)
	}
	if err != nil {
		m.freeExtent(first, count)
		return 0, err
	}
	locator = m.extents.locator(first)
	native.RedzoneMemory(locator, count*region.SystemPage, count*region.SystemPage)
	m.reuse(first, count, zeroed)
	return locator, nil
}

// giveExtent gives an extent back, whose memory stays for a while. Under the lock.
func (m *Memory) giveExtent(locator, bytes uint64) {
	native.RedzoneMemory(locator, 0, bytes)
	first, count := m.extents.of(locator, bytes)
	m.freeExtent(first, count)
	m.retain(first, count)
}

// freeExtent frees system pages of the space, which were allocated as one. Under the lock.
func (m *Memory) freeExtent(first, count uint64) {
	if err := m.extents.space.Free(first, count); err != nil {
		invariant.Assert(false, "%v", err)
	}
}
