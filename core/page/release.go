package page

import (
	"sync"

	"libmmsb/core/abi"
	"libmmsb/core/journal"
	"libmmsb/core/status"
	"libmmsb/native"
)

// released is memory that callers took over from pages, by address.
var released = struct {
	sync.Mutex
	frames map[uintptr]releasedFrame
}{frames: make(map[uintptr]releasedFrame)}

type releasedFrame struct {
	context *Context
	index   uint32
}

// Release ends a page but leaves its memory to the caller.
func Release(page uint64) (address uintptr, size uint64, err error) {
	err = changeMemory(page, func(c *change) error {
		if c.group() != nil {
			return status.Errorf(status.InvalidState, "page 0x%016x cannot be released in a group, which could not take it back",
				page)
		}
		if err := c.releasable(); err != nil {
			return err
		}
		bare, err := c.context.memory.TakeBare()
		if err != nil {
			return err
		}
		if err := c.journalVersion(journal.Destroy, c.Record.Version); err != nil {
			c.context.memory.Give(bare)
			return err
		}
		address, size = c.leaveMemory(bare), c.Record.Size
		c.unlock = nil
		c.context.tearDown(c.Index, c.State)
		return nil
	})
	return address, size, err
}

// releasable tells whether the page's memory can be the caller's.
func (p *Page) releasable() error {
	if err := p.notPinned(); err != nil {
		return err
	}
	switch {
	case p.State&native.Adopted != 0:
		return status.Errorf(status.InvalidState, "page 0x%016x is adopted: its memory is the caller's already", p.handle)
	case p.Location() != abi.LocationCPU:
		return status.Errorf(status.Unsupported, "page 0x%016x is at location %d; only host memory can be released", p.handle,
			p.Location())
	}
	return nil
}

// leaveMemory puts the page's memory into a bare frame, which the caller has from now on, and returns where it lies.
func (p *Page) leaveMemory(bare uint32) (address uintptr) {
	frame := native.RecordAt(bare)
	p.context.leaving(p.Index, p.State, true)
	p.Swap(bare)
	frame.Size = p.Record.Size
	address = native.Address(frame.Locator)
	released.Lock()
	released.frames[address] = releasedFrame{p.context, bare}
	released.Unlock()
	p.context.memory.Outlive(native.LocatorRegion(frame.Locator))
	return address
}

// FreeReleased frees memory that Release left to the caller.
func FreeReleased(address uintptr) error {
	released.Lock()
	f, ok := released.frames[address]
	delete(released.frames, address)
	released.Unlock()
	if !ok {
		return status.Errorf(status.StaleHandle, "0x%x is not memory of mmsb_page_release, or it was freed", address)
	}
	m := f.context.memory
	region := native.LocatorRegion(native.RecordAt(f.index).Locator)
	_ = Use(f.context.handle, func(*Context) error { // where the context has ended, the memory goes with its region
		m.Give(f.index)
		return nil
	})
	m.EndOutliving(region)
	return nil
}
