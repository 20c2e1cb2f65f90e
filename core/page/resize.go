package page

import (
	"libmmsb/core/journal"
	"libmmsb/core/memory"
	"libmmsb/native"
)

// Resize changes a page's size where its memory cannot stay as it is.
func Resize(page, size uint64) error {
	if err := memory.CheckSize(size); err != nil {
		return err
	}
	return changeMemory(page, func(c *change) error {
		if err := c.notAdopted(); err != nil {
			return err
		}
		if err := c.notPinned(); err != nil {
			return err
		}
		old := c.Record.Size
		if size == old {
			return nil
		}
		if err := c.Resize(size, c.keepingMemory(c.journalNext(journal.Resize, journal.Words(size)))); err != nil {
			return err
		}
		if size > old {
			native.AddCounts(c.context.index, 0, 0, size-old, 0)
		} else {
			native.AddCounts(c.context.index, 0, 0, 0, old-size)
		}
		return nil
	})
}

// Resize changes the page's size. ready is called when nothing else can fail; where it fails nothing has changed.
func (p *Page) Resize(size uint64, ready func() error) error {
	if err := memory.CheckSize(size); err != nil {
		return err
	}
	mask, err := p.resizedMask(size)
	if err != nil {
		return err
	}
	if err := p.Page.Resize(size, ready); err != nil {
		if mask != 0 {
			p.context.memory.Give(mask)
		}
		return err
	}
	if mask != 0 {
		if p.Keeping {
			p.keptMask = native.TakeMaskFrame(p.Index)
		} else {
			p.context.dropMask(p.Index)
		}
		native.UseMask(p.Index, mask)
	}
	p.Record.SetSize(size)
	native.Redzone(p.Index, p.State, size)
	p.Record.MoveVersion()
	return nil
}

// resizedMask is a frame with the page's change mask cut or extended; 0 where it has none.
func (p *Page) resizedMask(size uint64) (index uint32, err error) {
	old := p.Mask()
	if old == nil {
		return 0, nil
	}
	if index, err = p.context.memory.TakeFrame(maskBytes(size)); err != nil {
		return 0, err
	}
	both := min(size, p.Record.Size)
	mask := native.Bytes(native.RecordAt(index).Locator, maskBytes(size))
	copy(mask, old[:maskBytes(both)])
	if both%8 != 0 {
		mask[both/8] &= 1<<(both%8) - 1
	}
	return index, nil
}
