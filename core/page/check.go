package page

import (
	"libmmsb/core/memory"
	"libmmsb/core/status"
	"libmmsb/native"
)

// Walks over a whole context, for tests.

func broken(format string, arguments ...any) error {
	return status.Errorf(status.Internal, format, arguments...)
}

// Check walks over all of a context and says what is wrong with it; no other call may run on it. Errors: Internal.
func (c *Context) Check() error {
	c.losses.Wait()
	for _, check := range []func() error{c.memory.Check, c.residency.Check, c.checkPages, c.checkIDs, c.checkTable} {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

// checkTable is native's own walk: magazines, and counters.
func (c *Context) checkTable() error {
	if wrong := native.CheckTable(c.index); wrong != "" {
		return broken("%s", wrong)
	}
	return nil
}

// checkPages checks that pages are unlocked, that the frames that they have are frames, and that the counters are what a recount
// gives.
func (c *Context) checkPages() error {
	pages, bytes := uint64(0), uint64(0)
	for index, state := range c.memory.Pages() {
		record := native.RecordAt(index)
		pages, bytes = pages+1, bytes+record.Size
		if state&native.OwnerMask != 0 {
			return broken("page on record %d is locked: state 0x%016x", index, state)
		}
		if err := c.checkFrames(index, record); err != nil {
			return err
		}
	}
	counts := native.CountContext(c.index)
	if pages != counts.Creates-counts.Frees || bytes != counts.BytesCreated-counts.BytesFreed {
		return broken("%d pages of %d bytes are counted, %d of %d bytes live", counts.Creates-counts.Frees,
			counts.BytesCreated-counts.BytesFreed, pages, bytes)
	}
	return nil
}

// checkFrames checks a page's change mask and metadata.
func (c *Context) checkFrames(index uint32, record *native.Record) error {
	frames := map[string]uint32{"change mask": record.MaskFrame}
	if record.Side != 0 {
		frames["metadata"] = native.SideAt(record.Side).MetadataFrame
	}
	for what, frame := range frames {
		if frame == 0 {
			continue
		}
		state := native.RecordAt(frame).LoadState()
		if native.Kind(state) != native.StateFrame || memory.Of(frame) != c.memory {
			return broken("the %s of record %d is record %d, which is no frame of the context: state 0x%016x", what, index, frame,
				state)
		}
	}
	if mask := record.MaskFrame; mask != 0 && native.RecordAt(mask).Size < maskBytes(record.Size) {
		return broken("the change mask of record %d has %d bytes, a page of %d bytes needs %d", index, native.RecordAt(mask).Size,
			record.Size, maskBytes(record.Size))
	}
	return nil
}

// checkIDs checks that ids that the caller chose lead to live pages that have them, and the marks that wait for records.
func (c *Context) checkIDs() error {
	i, pages := &c.ids, c.memory.Pages() // whose lock comes before that of the ids
	i.Lock()
	defer i.Unlock()
	var wrong error
	i.explicit.All(func(id, page uint64) {
		index := native.Index(page)
		state := native.RecordAt(index).LoadState()
		switch {
		case (state^page)>>native.IndexBits != 0 || state&native.ExplicitID == 0 || contextOf(index) != c:
			wrong = broken("id %d belongs to page 0x%016x, whose record has state 0x%016x", id, page, state)
		case recordID(index, state) != id:
			wrong = broken("id %d belongs to page 0x%016x, which has id %d", id, page, recordID(index, state))
		}
	})
	if wrong != nil {
		return wrong
	}
	explicit := 0
	for _, state := range pages {
		if state&native.ExplicitID != 0 {
			explicit++
		}
	}
	if explicit != i.explicit.Len() {
		return broken("%d pages have ids that the caller chose, %d ids are known", explicit, i.explicit.Len())
	}
	waits := 0
	for _, indices := range i.waiting {
		waits += len(indices)
	}
	if waits != i.waits {
		return broken("%d marks wait for records, %d are counted", waits, i.waits)
	}
	return nil
}
