package page

import (
	"fmt"

	"libmmsb/core/abi"
	"libmmsb/core/lasterror"
	"libmmsb/core/memory"
	"libmmsb/core/status"
	"libmmsb/core/ticket"
	"libmmsb/native"
)

// Making many pages as one call.

// createBatch is how many pages are made between two looks at the time, createBytes how many bytes, if that is less.
const (
	createBatch = 4096
	createBytes = 16 << 20
)

// CreateMany makes many pages as work: all, or none when it fails or is cancelled; where the context has a journal, as a group.
func CreateMany(context, size uint64, options CreateOptions, pages []uint64, w *ticket.Work) error {
	return asOne(context, func() error { return createAll(context, size, options, pages, w) })
}

// asOne runs work that changes a context as a group, where the context has a journal and the thread has no group of its own.
func asOne(context uint64, work func() error) error {
	grouped := false
	_ = Use(context, func(c *Context) error { // else the work says what is wrong
		_, journalled := native.RingOf(c.index)
		grouped = journalled && c.ownGroup() == nil
		return nil
	})
	if grouped {
		return atomically(context, work)
	}
	return work()
}

func createAll(context, size uint64, options CreateOptions, pages []uint64, w *ticket.Work) error {
	for done := 0; done < len(pages); {
		if w != nil && w.Cancelled() {
			native.Uncreate(pages[:done])
			return status.Errorf(status.Cancelled, "cancelled after %d of %d pages", done, len(pages))
		}
		n := options.step(size, done, len(pages))
		if err := createSome(context, size, options.part(done, n), pages[done:done+n], done); err != nil {
			native.Uncreate(pages[:done])
			return err
		}
		done += n
		if w != nil {
			w.Progress(uint64(done))
		}
	}
	return nil
}

// CreateManyWithin makes many pages after the tickets, within a timeout, and on the calling thread where it can.
func CreateManyWithin(context, size uint64, options CreateOptions, pages []uint64, after []*ticket.Ticket, timeout uint64) error {
	if timeout == ticket.Forever && len(after) == 0 {
		return CreateMany(context, size, options, pages, nil)
	}
	if ticket.Elsewhere(timeout, after) {
		if err := CheckOutsideGroup(); err != nil {
			return err
		}
	}
	made := make([]uint64, len(pages)) // the caller's array is only written on success
	err := ticket.Within(timeout, after, func(w *ticket.Work) error { return CreateMany(context, size, options, made, w) })
	if status.Done(err) {
		copy(pages, made)
	}
	return err
}

// step is how many of the pages to make before the next look at the time.
func (o CreateOptions) step(size uint64, done, count int) (n int) {
	for bytes := uint64(0); done+n < count && n < createBatch && bytes < createBytes; n++ {
		if o.Sizes != nil {
			size = o.Sizes[done+n]
		}
		bytes += min(size, createBytes)
	}
	return n
}

// part is the options of n of the pages.
func (o CreateOptions) part(first, n int) CreateOptions {
	if o.Sizes != nil {
		o.Sizes = o.Sizes[first:][:n]
	}
	if o.IDs != nil {
		o.IDs = o.IDs[first:][:n]
	}
	return o
}

// errAt is an error of one of many pages, with its index in the text.
func errAt(index int, err error) error {
	found := *status.Of(err)
	found.Text = fmt.Sprintf("page at index %d: %s", index, found.Text)
	return &found
}

func createSome(context, size uint64, options CreateOptions, pages []uint64, first int) error {
	return Use(context, func(c *Context) error {
		to, err := c.residency.Resolve(options.Location, options.Device)
		if err != nil {
			return err
		}
		if size <= native.SmallMax && to.Location == abi.LocationCPU && options.NUMANode < 0 && !options.each() {
			if code := native.CreateBatch(context, size, !options.Uninitialised, pages); code != native.EnterGo {
				return lasterror.Load(code)
			}
		}
		for i := range pages {
			size, one := size, options
			if options.Sizes != nil {
				size = options.Sizes[i]
			}
			if options.IDs != nil {
				one.ID = options.IDs[i]
			}
			if pages[i], err = c.Create(size, one); err != nil {
				native.Uncreate(pages[:i])
				if options.each() {
					err = errAt(first+i, err)
				}
				return err
			}
		}
		return nil
	})
}

// each says whether the pages differ.
func (o *CreateOptions) each() bool { return o.Sizes != nil || o.IDs != nil }

// CheckCreateMany checks the arguments of CreateMany.
func CheckCreateMany(context, size uint64, options CreateOptions) error {
	return Use(context, func(c *Context) error {
		if options.Sizes == nil {
			if err := memory.CheckSize(size); err != nil {
				return err
			}
		} else if size != 0 {
			return status.Errorf(status.InvalidArgument, "size is %d; it is 0 where sizes is set", size)
		}
		for i, size := range options.Sizes {
			if err := memory.CheckSize(size); err != nil {
				return errAt(i, err)
			}
		}
		if options.ID != 0 {
			return status.Errorf(status.InvalidArgument, "id is %d; it is 0 where many pages are created", options.ID)
		}
		_, err := c.residency.Resolve(options.Location, options.Device)
		return err
	})
}

// CloneMany clones many pages, or none, as CreateMany makes pages; bad is the first that cannot be cloned. ids may be nil.
func CloneMany(pages, ids, clones []uint64) (bad int, err error) {
	context, err := oneContext(pages)
	if err != nil {
		return 0, err
	}
	made := make([]uint64, len(pages)) // the caller's array is only written on success
	err = asOne(context, func() error {
		for bad = range pages {
			id := uint64(0)
			if ids != nil {
				id = ids[bad]
			}
			var err error
			if made[bad], err = Clone(pages[bad], id); err != nil {
				native.Uncreate(made[:bad])
				return err
			}
		}
		return nil
	})
	if status.Done(err) {
		copy(clones, made)
	}
	return bad, err
}

// oneContext is the context of pages; 0 where they are of none. Errors: Unsupported (of several, one of which has a journal).
func oneContext(pages []uint64) (context uint64, err error) {
	several, journalled := false, false
	for _, page := range pages {
		index := native.Index(page)
		c := contextOf(index)
		if c == nil || native.Handle(native.KindPage, native.Generation(native.RecordAt(index).LoadState()), index) != page {
			continue // the call says what is wrong with it
		}
		_, ok := native.RingOf(c.index)
		journalled = journalled || ok
		several = several || context != 0 && context != c.handle
		context = c.handle
	}
	if several && journalled {
		return 0, status.Errorf(status.Unsupported, "batch has pages of several contexts, and one of them has a journal")
	}
	return context, nil
}
