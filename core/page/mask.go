// A page's change mask: a bit for each byte, in a frame.

package page

import (
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

// dropMask gives the mask of a page back.
func (c *Context) dropMask(index uint32) {
	if native.RecordAt(index).MaskFrame != 0 {
		c.memory.Give(native.TakeMaskFrame(index))
	}
}
