package residency

import (
	"libmmsb/core/memory"
	"libmmsb/native"
)

// Resize gives the page memory of another size, with its bytes and zeros behind them; the size in its record stays for the caller
// to change. ready is called when nothing else can fail; where it fails nothing has changed.
func (p *Page) Resize(size uint64, ready func() error) error {
	old := p.Record.Size
	class := native.Class(p.State)
	if !p.Keeping && class == native.ClassMapped && (size > native.SmallMax || p.Node() >= 0) {
		return p.resizeMapping(size, ready)
	}
	if !p.Keeping && class == native.ClassExtent && size > native.SmallMax && !memory.Mapped(size) &&
		memory.RoundUp(size) == memory.RoundUp(old) {
		if err := ready(); err != nil {
			return err
		}
		if size > old {
			native.Redzone(p.Index, p.State, size)
			clear(native.Bytes(p.Record.Locator, size)[old:])
		}
		return nil
	}
	f, err := p.TakeLike(size)
	if err != nil {
		return err
	}
	if err := p.copyTo(f, size, ready); err != nil {
		return err
	}
	p.become(f)
	return nil
}

// resizeMapping makes a mapping longer or shorter where it is.
func (p *Page) resizeMapping(size uint64, ready func() error) error {
	m, old, number := p.memory, p.Record.Size, native.LocatorRegion(p.Record.Locator)
	from, to := memory.RoundUp(old), memory.RoundUp(size)
	p.options.Moved(p.Index)
	if to > from {
		if err := m.GrowMapping(number, from, to); err != nil {
			return err
		}
	}
	if err := ready(); err != nil {
		if to > from {
			m.CutMapping(number, to, from)
		}
		return err
	}
	if size < old { // the rest of the last system page must be zero when the page grows again
		clear(native.Bytes(p.Record.Locator, min(old, to))[size:])
	}
	if to < from {
		m.CutMapping(number, from, to)
	}
	return nil
}
