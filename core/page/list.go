package page

import (
	"sync/atomic"

	"libmmsb/core/delta"
	"libmmsb/core/mem"
	"libmmsb/core/status"
	"libmmsb/core/ticket"
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
	for *cursor>>native.ChunkBits < uint64(len(chunks)) && written < uint64(len(pages)) {
		chunk := chunks[*cursor>>native.ChunkBits]
		done := uint32(*cursor & (native.ChunkRecords - 1))
		if done >= chunk.used {
			if chunk.used < native.ChunkRecords { // the newest chunk: more may come
				break
			}
			*cursor = (*cursor>>native.ChunkBits + 1) << native.ChunkBits
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

const createBatch = 4096

// CreateMany makes many pages as work: all, or none when it fails or is cancelled.
func CreateMany(context, size uint64, options CreateOptions, pages []uint64, w *ticket.Work) error {
	for done := 0; done < len(pages); {
		if w != nil && w.Cancelled() {
			destroyAll(pages[:done])
			return status.Errorf(status.Cancelled, "cancelled after %d of %d pages", done, len(pages))
		}
		n := min(createBatch, len(pages)-done)
		if err := createSome(context, size, options, pages[done:done+n]); err != nil {
			destroyAll(pages[:done])
			return err
		}
		done += n
		if w != nil {
			w.Progress(uint64(done))
		}
	}
	return nil
}

// CreateManyWithin does the work on the calling thread as far as that goes, and gives up when the time is over.
func CreateManyWithin(context, size uint64, options CreateOptions, pages []uint64, after []*ticket.Ticket, timeout uint64) error {
	if timeout == ticket.Forever && len(after) == 0 {
		return CreateMany(context, size, options, pages, nil)
	}
	made := make([]uint64, len(pages)) // the caller's array is only written on success
	t := ticket.Start(uint64(len(pages)), after, func(w *ticket.Work) error { return CreateMany(context, size, options, made, w) })
	defer t.Close()
	err := t.Wait(timeout)
	if code := status.CodeOf(err); code == status.Timeout || code == status.WouldBlock {
		t.Cancel()
		if ended := t.Wait(ticket.Forever); ended != nil { // cancelled; else it was done just in time
			return err
		}
		err = nil
	}
	if err == nil {
		copy(pages, made)
	}
	return err
}

func createSome(context, size uint64, options CreateOptions, pages []uint64) error {
	return Use(context, func(c *Context) error {
		location, err := c.place(&options)
		if err != nil {
			return err
		}
		if size <= native.SmallMax && location == LocationCPU && options.NUMANode < 0 {
			if code := native.CreateBatch(context, size, !options.Uninitialised, pages); code != native.EnterGo {
				return fromNative(code)
			}
		}
		for i := range pages {
			if pages[i], err = c.Create(size, options); err != nil {
				destroyAll(pages[:i])
				return err
			}
		}
		return nil
	})
}

func destroyAll(pages []uint64) {
	for _, page := range pages {
		native.Destroy(page)
	}
}

// CheckCreateMany tells whether the arguments of such work are right.
func CheckCreateMany(context, size uint64, options CreateOptions) error {
	return Use(context, func(c *Context) error {
		if err := checkSize(size); err != nil {
			return err
		}
		if options.ID != 0 {
			return status.Errorf(status.InvalidArgument, "id is %d, but many pages cannot have one id", options.ID)
		}
		_, err := c.place(&options)
		return err
	})
}

// Difference is the delta that turns one page into another of the same size.
func Difference(oldPage, newPage uint64) (form *delta.Form, err error) {
	if oldPage == newPage { // one lock cannot be taken twice
		p, err := lock(oldPage)
		if err != nil {
			return nil, err
		}
		defer p.unlock()
		return &delta.Form{Kind: delta.Runs, PageID: recordID(p.index, p.state)}, nil
	}
	pages := [2]uint64{oldPage, newPage}
	if bad, code := native.LockPair(&pages); code != 0 {
		_ = bad
		return nil, fromNative(code)
	}
	defer native.UnlockPair(&pages)
	a, b := native.RecordAt(native.Index(oldPage)), native.RecordAt(native.Index(newPage))
	if a.Size != b.Size {
		return nil, status.Errorf(status.Mismatch, "page 0x%016x has %d bytes, page 0x%016x has %d", oldPage, a.Size, newPage, b.Size)
	}
	form = delta.FromPages(native.Bytes(a.Place, a.Size), native.Bytes(b.Place, b.Size))
	form.PageID = recordID(native.Index(oldPage), a.LoadState())
	return form, nil
}

// Dependencies.

// AddDependency makes child depend on parent.
func AddDependency(parent, child uint64) error {
	return withPair(parent, child, func(c *Context, parent, child uint32) error {
		for _, index := range [2]uint32{parent, child} { // a page with a cold record is taken apart by Go when it ends
			p := locked{record: native.RecordAt(index)}
			if _, err := p.cold(); err != nil {
				return err
			}
		}
		return c.dependencies.graph.Add(parent, child)
	})
}

// RemoveDependency removes the edge.
func RemoveDependency(parent, child uint64) error {
	return withPair(parent, child, func(c *Context, parent, child uint32) error { return c.dependencies.graph.Remove(parent, child) })
}

// withPair works on the edges between two live pages of one context.
func withPair(parent, child uint64, work func(c *Context, parent, child uint32) error) error {
	if parent == child {
		p, err := lock(parent)
		if err != nil {
			return err
		}
		defer p.unlock()
		p.context.dependencies.Lock()
		defer p.context.dependencies.Unlock()
		return work(p.context, p.index, p.index)
	}
	pages := [2]uint64{parent, child}
	if _, code := native.LockPair(&pages); code != 0 {
		return fromNative(code)
	}
	defer native.UnlockPair(&pages)
	a, b := native.Index(parent), native.Index(child)
	c := contextOf(a)
	if other := contextOf(b); other != c {
		return status.Errorf(status.Mismatch, "page 0x%016x is of context 0x%016x, page 0x%016x of context 0x%016x", parent, c.handle, child,
			other.handle)
	}
	c.dependencies.Lock()
	defer c.dependencies.Unlock()
	return work(c, a, b)
}

// forgetDependencies removes a page's edges.
func (c *Context) forgetDependencies(index uint32) {
	c.dependencies.Lock()
	defer c.dependencies.Unlock()
	if c.dependencies.graph.Edges() > 0 {
		c.dependencies.graph.RemoveNode(index)
	}
}

// Parents and Children are a page's neighbours, oldest edge first.
func Parents(page uint64) ([]uint64, error) { return neighbours(page, true) }

// Children are the pages that depend on a page.
func Children(page uint64) ([]uint64, error) { return neighbours(page, false) }

func neighbours(page uint64, parents bool) ([]uint64, error) {
	p, err := lock(page)
	if err != nil {
		return nil, err
	}
	defer p.unlock()
	c := p.context
	c.dependencies.Lock()
	defer c.dependencies.Unlock()
	if parents {
		return handles(c.dependencies.graph.Parents(p.index)), nil
	}
	return handles(c.dependencies.graph.Children(p.index)), nil
}

// handles are those of the pages that live on records: they have edges, so they live.
func handles(indices []uint32) []uint64 {
	pages := make([]uint64, len(indices))
	for i, index := range indices {
		pages[i] = native.Handle(native.KindPage, native.Generation(native.RecordAt(index).LoadState()), index)
	}
	return pages
}

// DependencyOrder is all pages with dependencies, parents before children.
func (c *Context) DependencyOrder() []uint64 {
	c.dependencies.Lock()
	defer c.dependencies.Unlock()
	return handles(c.dependencies.graph.Order())
}
