package residency

import (
	"libmmsb/core/log"
	"libmmsb/core/region"
	"libmmsb/core/status"
	"libmmsb/native"
)

// Adopted memory: who gets it back, and when. Of memory of the host the side record says it; memory of a device has its block
// there.

// caller is who gives memory away and gets it back: a function of the program's and its first argument; 0 = none.
type caller struct{ release, user uintptr }

// LendBy notes in the side record of a page that is about to begin, or for a device beside it, who gets its memory back.
func (r *Residency) LendBy(f Frame, side *native.Side, release, user uintptr) {
	switch {
	case f.Resident():
		side.Release, side.User = release, user
	case release != 0:
		r.callers.put(f.Index, caller{release, user})
	}
}

// lender takes who gets the memory of an adopted page back out of where it is noted, and says where the memory is.
func (r *Residency) lender(index uint32, side *native.Side) (of caller, base uintptr) {
	if side.BackingLength > 0 {
		return r.callers.take(index), uintptr(side.BackingAt)
	}
	of = caller{side.Release, side.User}
	side.Release, side.User = 0, 0
	return of, region.Base(native.LocatorRegion(native.RecordAt(index).Locator))
}

// Returning is the call that gives the memory of an adopted page, which ends, back to the program; nil where there is none. The
// device has done what uses of the page have queued. side is that of the page, which no longer needs it.
func (r *Residency) Returning(index uint32, side *native.Side, call func(function, user, memory uintptr, size uint64)) func() {
	if b := backingOf(side); b.onDevice() && side.Release == 0 {
		if err := r.await(b, true); err != nil && status.CodeOf(err) != status.StaleHandle { // the block has ended
			log.Logf(log.Warning, "memory of page 0x%016x goes back before device %d has done what was queued on it: %v",
				handleOf(index), b.device, err)
		}
	}
	of, base := r.lender(index, side)
	if of.release == 0 {
		return nil
	}
	size := native.RecordAt(index).Size
	return func() { call(of.release, of.user, base, size) }
}

// ReleaseAdopted is the call that gives adopted memory back to the caller, which the page then no longer does; nil where there is
// none.
func (p *Page) ReleaseAdopted() (release func()) {
	if p.State&native.Adopted == 0 {
		return nil
	}
	return p.Returning(p.Index, native.SideAt(p.Record.Side), native.CallRelease)
}

// HandOver gives adopted memory to a staged page of the same size in host memory, with that page's bytes in it, and takes the
// memory of the staged page. It cannot fail; WriteThrough has written the bytes of memory of a device, ReadInto those of a page
// that waits.
func (p *Page) HandOver(staged *Page) {
	from, to := native.SideAt(p.Record.Side), native.SideAt(staged.Record.Side)
	waits := staged.Waits()
	if waits {
		staged.waiting.take(staged.Index).Done()
		staged.State &^= native.Nonresident | native.LocationMask
		staged.Record.StoreState(staged.State)
	}
	if b := backingOf(from); b.onDevice() && from.Release == 0 {
		p.dropPair(p.Index)
		if p.Record.Locator != 0 {
			p.dropAddress(p.Index)
		}
		staged.State |= p.State & (native.Nonresident | native.LocationMask)
		b.note(to)
		Backing{}.note(from)
		if of := p.callers.take(p.Index); of.release != 0 {
			p.callers.put(staged.Index, of)
		}
	} else {
		if !waits {
			copy(p.Bytes(), native.Bytes(staged.Record.Locator, p.Record.Size))
		}
		Backing{}.note(to)
		to.Release, to.User = from.Release, from.User
		from.Release, from.User = 0, 0
	}
	to.NUMANode = -1
	p.State &^= native.Adopted | native.Nonresident | native.LocationMask
	p.Swap(staged.Index)
}

// ReadInto reads the bytes of a staged page that waits in a snapshot into the memory of an adopted page of the same size. Where
// it fails, any of them may have been written.
func (p *Page) ReadInto(adopted *Page) error {
	return p.read(p.waiting.get(p.Index), Frame{Index: adopted.Index, Backing: adopted.backing()}, adopted.Record.Size)
}

// WriteThrough writes all bytes of an adopted page into its memory, where that is of a device: the one step of a load into it
// that can fail. Where it fails, any of them may have been written.
func (p *Page) WriteThrough(bytes []byte) error {
	b := p.backing()
	if !b.onDevice() {
		return nil
	}
	return p.WriteInSteps(Frame{Backing: b}, bytes, nil)
}
