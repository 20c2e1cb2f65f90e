package page

import (
	"sync/atomic"

	"libmmsb/core/mem"
	"libmmsb/native"
)

// metadataBytes is the memory of all metadata blobs of the process.
var metadataBytes atomic.Int64

func (c *Context) countMetadata(bytes int64) { metadataBytes.Add(bytes) }

// Stats are a context's counters.
type Stats struct {
	native.Counts
	native.Survey
	MemoryUsed, MemoryLimit, DiskUsed uint64
}

// Stats adds a context's counters up and walks its pages.
func (c *Context) Stats() Stats {
	s := Stats{Counts: native.CountContext(c.index), MemoryUsed: c.ledger.Used(), MemoryLimit: c.ledger.Limit(), DiskUsed: c.disk.bytes()}
	for _, chunk := range c.chunks() {
		native.SurveyRecords(chunk.first(), chunk.used, &s.Survey)
	}
	return s
}

// chunks are those that the context has by now.
func (c *Context) chunks() []chunk {
	c.memory.Lock()
	defer c.memory.Unlock()
	return append([]chunk(nil), c.memory.chunks...)
}

// Count is the number of live pages.
func (c *Context) Count() uint64 {
	counts := native.CountContext(c.index)
	return counts.Creates - counts.Frees
}

// Pages goes on with a walk over the live pages and says how many handles it wrote; none is the end. The cursor counts records.
func (c *Context) Pages(cursor *uint64, pages []uint64) uint64 {
	written := uint64(0)
	chunks := c.chunks()
	for *cursor>>native.LeafBits < uint64(len(chunks)) && written < uint64(len(pages)) {
		chunk := chunks[*cursor>>native.LeafBits]
		done := uint32(*cursor & (native.LeafRecords - 1))
		if done >= chunk.used {
			if chunk.used < native.LeafRecords { // the newest chunk: more may come
				break
			}
			*cursor = (*cursor>>native.LeafBits + 1) << native.LeafBits
			continue
		}
		looked, found := native.ListRecords(chunk.first()+done, chunk.used-done, pages[written:])
		written += uint64(found)
		*cursor += uint64(looked)
	}
	return written
}

// Usage is the library's memory by purpose.
type Usage struct{ Pages, Records, Masks, Metadata, Caches, Disk uint64 }

// MemoryUsage adds it up.
func MemoryUsage() Usage {
	host, _ := mem.Usage()
	u := Usage{
		Pages: host, Records: RecordBytes(), Masks: native.MaskBytes(), Metadata: uint64(metadataBytes.Load()), Caches: native.CacheBytes(),
	}
	for _, c := range contexts.All() {
		u.Disk += c.disk.bytes()
	}
	return u
}
