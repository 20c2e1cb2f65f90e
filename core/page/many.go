package page

import (
	"libmmsb/core/abi"
	"libmmsb/core/lasterror"
	"libmmsb/core/memory"
	"libmmsb/core/status"
	"libmmsb/core/ticket"
	"libmmsb/native"
)

// Making many pages as one call.

// createBatch is how many pages are made between two looks at the time.
const createBatch = 4096

// CreateMany makes many pages as work: all, or none when it fails or is cancelled; where the context has a journal, as a group.
func CreateMany(context, size uint64, options CreateOptions, pages []uint64, w *ticket.Work) error {
	grouped := false
	err := Use(context, func(c *Context) error {
		_, journalled := native.RingOf(c.index)
		grouped = journalled && c.ownGroup() == nil
		return nil
	})
	work := func() error { return createAll(context, size, options, pages, w) }
	switch {
	case err != nil:
		return err
	case grouped:
		return atomically(context, work)
	default:
		return work()
	}
}

func createAll(context, size uint64, options CreateOptions, pages []uint64, w *ticket.Work) error {
	for done := 0; done < len(pages); {
		if w != nil && w.Cancelled() {
			native.Uncreate(pages[:done])
			return status.Errorf(status.Cancelled, "cancelled after %d of %d pages", done, len(pages))
		}
		n := min(createBatch, len(pages)-done)
		if err := createSome(context, size, options, pages[done:done+n]); err != nil {
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
	if err := CheckOutsideGroup(); err != nil {
		return err
	}
	made := make([]uint64, len(pages)) // the caller's array is only written on success
	err := ticket.Within(timeout, after, func(w *ticket.Work) error { return CreateMany(context, size, options, made, w) })
	if err == nil {
		copy(pages, made)
	}
	return err
}

func createSome(context, size uint64, options CreateOptions, pages []uint64) error {
	return Use(context, func(c *Context) error {
		to, err := c.residency.Resolve(options.Location, options.Device)
		if err != nil {
			return err
		}
		if size <= native.SmallMax && to.Location == abi.LocationCPU && options.NUMANode < 0 {
			if code := native.CreateBatch(context, size, !options.Uninitialised, pages); code != native.EnterGo {
				return lasterror.Load(code)
			}
		}
		for i := range pages {
			if pages[i], err = c.Create(size, options); err != nil {
				native.Uncreate(pages[:i])
				return err
			}
		}
		return nil
	})
}

// CheckCreateMany checks the arguments of CreateMany.
func CheckCreateMany(context, size uint64, options CreateOptions) error {
	return Use(context, func(c *Context) error {
		if err := memory.CheckSize(size); err != nil {
			return err
		}
		if options.ID != 0 {
			return status.Errorf(status.InvalidArgument, "id is %d; it is 0 where many pages are created", options.ID)
		}
		_, err := c.residency.Resolve(options.Location, options.Device)
		return err
	})
}
