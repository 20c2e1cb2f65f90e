package page

import (
	"sync"

	"libmmsb/core/residency"
	"libmmsb/core/status"
	"libmmsb/core/ticket"
)

// syncs are the pages of a context that wait for a sync, each once, in the order in which they came.
type syncs struct {
	sync.Mutex
	order []uint64
	of    map[uint64]wanted
}

// wanted is what a page waits for.
type wanted struct {
	direction residency.Direction
	device    int32
}

func (s *syncs) count() uint64 {
	s.Lock()
	defer s.Unlock()
	return uint64(len(s.of))
}

// SyncLater lets pages of one context wait for a sync, all or none; a page that waits already waits for both directions and the
// device of the later call. bad is the first that cannot. Errors: handle errors, Mismatch (a page of another context).
func SyncLater(pages []uint64, direction residency.Direction, device int32) (bad int, err error) {
	if len(pages) == 0 {
		return 0, nil
	}
	var c *Context
	for i, page := range pages {
		err := Read(page, func(p *Page) error {
			if c == nil {
				c = p.context
			}
			if c != p.context {
				return status.Errorf(status.Mismatch, "page 0x%016x is of context 0x%016x, the first one of 0x%016x", page,
					p.context.handle, c.handle)
			}
			return nil
		})
		if err != nil {
			return i, err
		}
	}
	c.syncs.add(pages, direction, device)
	return 0, nil
}

func (s *syncs) add(pages []uint64, direction residency.Direction, device int32) {
	s.Lock()
	defer s.Unlock()
	if s.of == nil {
		s.of = make(map[uint64]wanted)
	}
	for _, page := range pages {
		had, waits := s.of[page]
		if !waits {
			s.order = append(s.order, page)
		}
		s.of[page] = wanted{had.direction | direction, device}
	}
}

// take takes the first pages that wait for the same thing, at most as many as one batch has.
func (s *syncs) take() (pages []uint64, want wanted) {
	s.Lock()
	defer s.Unlock()
	for len(s.order) > 0 && len(pages) < syncPages {
		next := s.of[s.order[0]]
		if len(pages) > 0 && next != want {
			break
		}
		want = next
		pages = append(pages, s.order[0])
		delete(s.of, s.order[0])
		s.order = s.order[1:]
	}
	return pages, want
}

// Drain syncs the pages that waited when it began, in their order, a batch at a time. What has ended meanwhile waits no longer; a
// page whose sync failed, or whose turn did not come within the work's time, waits on. synced counts those that are in step. It
// returns the first error.
func (c *Context) Drain(w *ticket.Work) (synced uint64, err error) {
	type failure struct {
		page uint64
		wanted
	}
	var again []failure
	for left := c.syncs.count(); left > 0; {
		if w != nil && w.Cancelled() {
			err = status.Errorf(status.Cancelled, "cancelled with %d pages in the queue", c.syncs.count())
			break
		}
		pages, want := c.syncs.take()
		if len(pages) == 0 {
			break
		}
		left -= min(left, uint64(len(pages)))
		codes := make([]int32, len(pages))
		inStep, failed := syncAlive(pages, want, codes, nil)
		synced += inStep
		if err == nil {
			err = failed
		}
		for i, code := range codes {
			if code := status.Code(code); code != status.OK && !hasEnded(code) {
				again = append(again, failure{pages[i], want})
			}
		}
		if w != nil {
			w.Progress(synced)
		}
	}
	for _, f := range again {
		c.syncs.add([]uint64{f.page}, f.direction, f.device)
	}
	return synced, err
}

// Prefetch brings pages to a device by their ids, those that it finds: what has no page is skipped. synced counts the others.
func (c *Context) Prefetch(ids []uint64, device int32, w *ticket.Work) (synced uint64, err error) {
	pages := make([]uint64, 0, len(ids))
	for _, id := range ids {
		if page, err := c.Lookup(id); err == nil {
			pages = append(pages, page)
		}
	}
	return syncAlive(pages, wanted{residency.ToDevice, device}, make([]int32, len(pages)), w)
}
