// A page's change mask: a bit for each byte, in a frame.

package page

import (
	"libmmsb/core/memory"
	"libmmsb/core/region"
	"libmmsb/native"
)

func maskBytes(size uint64) uint64 { return (size + 7) / 8 }

// Mask is the page's; nil where it has none.
func (p *Page) Mask() []byte {
	if p.Record.MaskFrame == 0 {
		return nil
	}
	return native.Bytes(p.Record.MaskLocator, maskBytes(p.Record.Size))
}

// MakeMask gives the page an empty mask where it has none.
func (p *Page) MakeMask() error {
	if p.Record.MaskFrame != 0 {
		return nil
	}
	index, err := p.context.memory.TakeFrame(maskBytes(p.Record.Size))
	if err == nil {
		native.UseMask(p.Index, index)
	}
	return err
}

// ClearMask makes a mask zero. Of a large one the system takes the memory, so that only what was set costs.
func (p *Page) ClearMask() {
	mask := p.Mask()
	const large = 1 << 18
	if len(mask) < large {
		clear(mask)
		return
	}
	locator := p.Record.MaskLocator
	begin := native.LocatorOffset(locator)
	end := begin + uint64(len(mask))
	from, to := memory.RoundUp(begin), end&^(region.SystemPage-1)
	clear(mask[:from-begin])
	clear(mask[to-begin:])
	region.Discard(native.LocatorRegion(locator), from, to-from)
}

// dropMask gives the mask of a page back.
func (c *Context) dropMask(index uint32) {
	if native.RecordAt(index).MaskFrame != 0 {
		c.memory.Give(native.TakeMaskFrame(index))
	}
}
