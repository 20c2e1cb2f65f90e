package page

import (
	"libmmsb/core/memory"
	"libmmsb/core/region"
	"libmmsb/core/status"
	"libmmsb/native"
)

// Finding, counting and listing pages.

// Lookup is the page with an id.
func (c *Context) Lookup(id uint64) (uint64, error) {
	if page := native.FindPage(c.index, id); page != 0 {
		return page, nil
	}
	c.ids.Lock()
	defer c.ids.Unlock()
	if page, _ := c.ids.explicit.Find(id); page != 0 {
		// It may be about to begin.
		if state := native.RecordAt(native.Index(page)).LoadState(); (state^page)>>native.IndexBits == 0 {
			return page, nil
		}
	}
	return 0, status.Errorf(status.NotFound, "no page has id %d", id)
}

// LookupMany finds all or none; bad is the first id without a page.
func (c *Context) LookupMany(ids, pages []uint64) (bad int, err error) {
	found := make([]uint64, len(ids))
	for i, id := range ids {
		if found[i], err = c.Lookup(id); err != nil {
			return i, err
		}
	}
	copy(pages, found)
	return 0, nil
}

// Stats are a context's counters.
type Stats struct {
	native.Counts
	native.Survey
	MemoryUsed, MemoryLimit, DiskUsed, GuardBytes, GuardReports uint64
}

// Stats adds a context's counters up and walks its pages.
func (c *Context) Stats() Stats {
	s := Stats{Counts: native.CountContext(c.index), MemoryUsed: c.memory.Used(), MemoryLimit: c.memory.Limit(),
		DiskUsed: c.residency.DiskUsed(), GuardBytes: c.memory.GuardBytes(), GuardReports: c.memory.Reports()}
	for _, leaf := range c.memory.Leaves() {
		native.SurveyRecords(leaf.First(), leaf.Used, &s.Survey)
	}
	return s
}

// MemoryLimit is the most memory that the context may use; 0: there is no limit.
func (c *Context) MemoryLimit() uint64 { return c.memory.Limit() }

// Count is the number of live pages.
func (c *Context) Count() uint64 {
	counts := native.CountContext(c.index)
	return counts.Creates - counts.Frees
}

// Pages goes on with a walk over the live pages and says how many handles it wrote; none is the end. The cursor counts records.
func (c *Context) Pages(cursor *uint64, pages []uint64) uint64 {
	written := uint64(0)
	leaves := c.memory.Leaves()
	for *cursor>>native.LeafBits < uint64(len(leaves)) && written < uint64(len(pages)) {
		leaf := leaves[*cursor>>native.LeafBits]
		done := uint32(*cursor & (native.LeafRecords - 1))
		if done >= leaf.Used {
			if leaf.Used < native.LeafRecords { // the newest leaf: more may come
				break
			}
			*cursor = (*cursor>>native.LeafBits + 1) << native.LeafBits
			continue
		}
		looked, found := native.ListRecords(leaf.First()+done, leaf.Used-done, pages[written:])
		written += uint64(found)
		*cursor += uint64(looked)
	}
	return written
}

// Usage is the library's memory by purpose.
type Usage struct{ Pages, Records, Masks, Metadata, Caches, Disk uint64 }

// MemoryUsage returns the memory in use.
func MemoryUsage() Usage {
	host := region.Usage()
	u := Usage{
		Pages: host, Records: memory.RecordBytes(), Masks: native.MaskBytes(), Metadata: uint64(metadataBytes.Load()),
		Caches: native.CacheBytes() + native.CommandsBytes(),
	}
	for _, c := range contexts.All() {
		u.Disk += c.residency.DiskUsed()
	}
	return u
}

// Trim gives memory of ended pages back to the system, and says how many bytes it is.
func (c *Context) Trim() uint64 {
	c.residency.Trim()
	return c.memory.Trim()
}

// LiveContexts is the number of live contexts.
func LiveContexts() uint64 { return contexts.Live() }

// LivePages is the number of live pages in all contexts.
func LivePages() uint64 {
	var live uint64
	for _, c := range contexts.All() {
		live += c.Count()
	}
	return live
}
