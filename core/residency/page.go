package residency

import (
	"libmmsb/core/memory"
	"libmmsb/core/region"
	"libmmsb/native"
)

// Page is a page that Go code works on: it is locked, or nobody else sees it yet.
type Page struct {
	*Residency
	Index  uint32
	Record *native.Record
	State  uint64 // without owner, as it will be when the page is unlocked
	// Keeping: when the page gets other memory, what it had is not given back but becomes Kept.
	Keeping bool
	Kept    Frame
	// Asked, where it is not nil, is asked while many bytes are copied, and ends that with its error.
	Asked func() error
}

// Location is where the page lies; Placement with its device.
func (p *Page) Location() int32 { return native.Location(p.State) }

// Placement is where the page lies.
func (p *Page) Placement() Placement {
	if p.Record.Side == 0 {
		return Placement{Location: p.Location()}
	}
	return Placement{p.Location(), native.SideAt(p.Record.Side).Device}
}

// Node is the NUMA node that the page's memory was asked from; -1 = any.
func (p *Page) Node() int32 {
	if p.Record.Side == 0 {
		return -1
	}
	return native.SideAt(p.Record.Side).NUMANode
}

// Resident says whether the page is where its bytes have an address for good.
func (p *Page) Resident() bool { return p.State&native.Nonresident == 0 }

// backing is where the bytes of a page are that is not resident; empty for others, and for those that wait in a snapshot.
func (p *Page) backing() Backing {
	if p.Resident() {
		return Backing{}
	}
	return backingOf(native.SideAt(p.Record.Side))
}

// Bytes are the page's, which must have an address.
func (p *Page) Bytes() []byte { return native.Bytes(p.Record.Locator, p.Record.Size) }

// Side is the page's side record, made where it has none.
func (p *Page) Side() (*native.Side, error) {
	if p.Record.Side == 0 {
		index, err := memory.TakeSide()
		if err != nil {
			return nil, err
		}
		p.Record.Side = index
	}
	return native.SideAt(p.Record.Side), nil
}

// TakeLike takes a zeroed frame where the page lies.
func (p *Page) TakeLike(size uint64) (Frame, error) {
	return p.Take(p.Placement(), size, p.Node(), true)
}

// WithBytes calls work while the page's bytes have an address.
func (p *Page) WithBytes(work func() error) error {
	if !p.Resident() {
		if err := p.makeResident(p.Index); err != nil {
			return err
		}
		defer p.Evict(p.Index)
	}
	return work()
}

// CopyBytes copies the page's bytes, as far as they go, into a frame for a page of a size.
func (p *Page) CopyBytes(to Frame, size uint64) error {
	count := min(size, p.Record.Size)
	from, whole := p.instead()
	if !whole {
		from = p.backing()
	}
	both, err := p.pairOf(p.Index)
	if err != nil {
		return err
	}
	if both != nil && p.Record.Locator == 0 && !whole {
		if !to.Backing.onDevice() {
			if err := p.bring(p.Index, both, 0, uint64(len(both.device))*64); err != nil {
				return err
			}
			return p.WriteInSteps(to, both.bytes(count), p.Asked)
		}
		if err := p.flush(p.Index, both); err != nil {
			return err
		}
	}
	if p.Record.Locator == 0 && !from.empty() {
		switch {
		case from.onDevice() && to.Backing.onDevice():
			if err := p.await(from, false); err != nil {
				return err
			}
			return p.devices.Copy(to.Backing.device, to.Backing.address(), from.device, from.address(), count)
		case to.Resident():
			return InSteps(count, p.Asked, func(begin, end uint64) error {
				return p.readBacking(from, begin, native.Bytes(native.RecordAt(to.Index).Locator+begin, end-begin))
			})
		}
	}
	return p.WithBytes(func() error { return p.WriteInSteps(to, p.Bytes()[:count], p.Asked) })
}

// copyTo copies the page's bytes, as far as they go, into a frame of a size that is to be the page's. ready is called when
// nothing else can fail. Where it fails the frame goes.
func (p *Page) copyTo(f Frame, size uint64, ready func() error) error {
	err := p.CopyBytes(f, size)
	if both := p.pairs.get(p.Index); err == nil && both != nil && p.Keeping {
		err = p.part(both) // what is kept has the newest bytes
	}
	if err == nil {
		err = ready()
	}
	if err != nil {
		p.Give(f)
	}
	return err
}

// become gives the page the memory and backing of a frame, and gives back or keeps what it had.
func (p *Page) become(f Frame) {
	had := p.switchTo(f)
	if p.Keeping {
		p.Kept = had
	} else {
		p.memory.Give(f.Index)
	}
}

// switchTo gives the page the memory and backing of a frame, which then has the page's memory.
func (p *Page) switchTo(f Frame) (had Frame) {
	had = p.frame(f.Index)
	p.dropReplicas(p.Index, every)
	if !p.Resident() && p.Keeping {
		if !HasBlock(p.State) && p.Record.Locator != 0 {
			p.dropAddress(p.Index)
		}
	} else if !p.Resident() {
		p.Forget(p.Index, native.SideAt(p.Record.Side))
	}
	if p.Record.Side != 0 {
		f.Note(native.SideAt(p.Record.Side))
	}
	p.State = p.State&^(native.Nonresident|native.LocationMask) | f.Low
	p.options.Moved(p.Index)
	p.keepAdvice(f)
	p.Swap(f.Index)
	native.RecordAt(f.Index).Size = memory.FrameSize(f.Index, p.Record.Size)
	return had
}

// frame is what the page has, as the frame of a record that its memory goes to.
func (p *Page) frame(index uint32) Frame {
	f := Frame{Index: index, Low: p.State & (native.Nonresident | native.LocationMask)}
	if p.Record.Side == 0 {
		return f
	}
	side := native.SideAt(p.Record.Side)
	if f.Backing = backingOf(side); f.Backing.empty() {
		f.Backing.device = side.Device
	}
	return f
}

// Return gives the page the memory again that was kept of it; the size in its record stays for the caller to change.
func (p *Page) Return(f Frame) {
	p.Keeping = false
	p.become(f)
}

// Swap gives the page the memory of a frame, and the frame the page's.
func (p *Page) Swap(index uint32) {
	frame := native.RecordAt(index)
	state := frame.LoadState()
	native.SwapMemory(p.Index, &p.State, index, &state)
	frame.StoreState(state)
	p.Record.StoreState(p.State | native.OwnerLibrary)
}

// Move moves the page, which is not adopted, to another placement. ready is called when nothing else can fail; where it fails
// nothing has changed.
func (p *Page) Move(to Placement, ready func() error) error {
	size := p.Record.Size
	both, err := p.pairOf(p.Index)
	if err != nil {
		return err
	}
	if _, whole := p.instead(); both != nil && to == p.copyAt(both) && !p.Keeping && p.Record.Locator == 0 && !whole {
		return p.moveBack(both, ready)
	}
	f, err := p.takeToMove(to)
	if err != nil {
		return err
	}
	if err := p.copyTo(f, size, ready); err != nil {
		return err
	}
	p.become(f)
	native.Redzone(p.Index, p.State, size)
	return nil
}

// Waits says whether the page's bytes wait in a snapshot.
func (p *Page) Waits() bool { return p.waiting.get(p.Index) != nil }

// Present gives the page its bytes where they wait in a snapshot: where it lies, or where the fallback says.
func (p *Page) Present() error {
	if !p.Waits() {
		return nil
	}
	at, err := p.place()
	if err != nil {
		return err
	}
	return p.presentAt(at)
}

// presentAt is Present at a placement.
func (p *Page) presentAt(at Placement) error {
	source := p.waiting.get(p.Index)
	size := p.Record.Size
	f, err := p.Take(at, size, p.Node(), true)
	if err != nil {
		return err
	}
	if err := p.read(source, f, size); err != nil {
		p.Give(f)
		return err
	}
	p.become(f)
	native.Redzone(p.Index, p.State, size)
	return nil
}

// read reads the page's bytes from a source into a frame.
func (p *Page) read(source *Source, to Frame, size uint64) error {
	id := native.SideAt(p.Record.Side).ID // which a page that was loaded has
	if to.Resident() {
		return source.reader.ReadPage(id, native.Bytes(native.RecordAt(to.Index).Locator, size))
	}
	number, err := p.memory.Map(size)
	if err != nil {
		return err
	}
	defer region.Unmap(number)
	bytes := native.Bytes(native.Locator(number, 0), size)
	if err := source.reader.ReadPage(id, bytes); err != nil {
		return err
	}
	return p.writeBacking(to.Backing, 0, bytes)
}

// Forget ends what is known of where the bytes of a page were, which has a side record or had it: it waits no longer, and its
// backing is given back, with the address that its bytes may have.
func (r *Residency) Forget(index uint32, side *native.Side) {
	r.waiting.take(index).Done()
	r.dropReplicas(index, every)
	r.dropPair(index)
	r.giveBytes(index, backingOf(side))
}

// giveBytes gives the backing of a page that is not resident back, with the address that its bytes may have.
func (r *Residency) giveBytes(index uint32, b Backing) {
	if b.empty() {
		return
	}
	if native.RecordAt(index).Locator != 0 {
		r.dropAddress(index)
	}
	r.giveBacking(b)
}
