package page

import (
	"libmmsb/core/abi"
	"libmmsb/core/journal"
	"libmmsb/core/lasterror"
	"libmmsb/core/memory"
	"libmmsb/core/residency"
	"libmmsb/core/status"
	"libmmsb/native"
)

// CreateOptions has the fields of mmsb_page_options_t.
type CreateOptions struct {
	ID            uint64
	Location      int32
	Device        int32
	NUMANode      int32
	Uninitialised bool
	Sizes, IDs    []uint64 // of many pages, one each; nil: all have one size, and automatic ids
}

// Create makes one page of any size, placement and id.
func (c *Context) Create(size uint64, options CreateOptions) (uint64, error) {
	c.creating.RLock()
	defer c.creating.RUnlock()
	if err := c.TellReport(); err != nil {
		return 0, err
	}
	f, err := c.TakeFor(size, &options)
	if err != nil {
		return 0, err
	}
	return c.publish(&birth{frame: f, size: size, id: options.ID, node: options.NUMANode, kind: journal.Create})
}

// TakeFor takes a frame for a new page.
func (c *Context) TakeFor(size uint64, options *CreateOptions) (residency.Frame, error) {
	if err := memory.CheckSize(size); err != nil {
		return residency.Frame{}, err
	}
	to, err := c.residency.Resolve(options.Location, options.Device)
	if err != nil {
		return residency.Frame{}, err
	}
	if to.Location != abi.LocationCPU && options.NUMANode >= 0 {
		return residency.Frame{}, status.Errorf(status.InvalidArgument, "numa_node is %d, but a page at location %d has none",
			options.NUMANode, to.Location)
	}
	return c.residency.Take(to, size, options.NUMANode, !options.Uninitialised)
}

// birth is a page that is about to begin.
type birth struct {
	frame residency.Frame
	size  uint64
	id    uint64 // that the caller chose; 0 = an automatic one
	node  int32
	low   uint64 // of the state, beside what the frame says
	// What the journal says of it: its kind, and what follows.
	kind  journal.Kind
	body  []byte // of a clone; of others it is made
	bytes []byte // of an adopted page
	// prepare works on the page before anybody can see it; nil = nothing is to be done.
	prepare func(p *Page) error
}

// publish makes a page of a frame, for who has c.creating; the frame goes where it fails.
func (c *Context) publish(b *birth) (page uint64, err error) {
	if err := c.begin(b); err != nil {
		c.discard(b.frame)
		return 0, err
	}
	p := pageAt(c, b.frame.Index)
	p.Record.Size = b.size // for prepare
	told := &change{Page: p, context: c}
	epoch, version := uint64(0), firstVersion(b.id)
	if b.prepare != nil {
		err = b.prepare(p)
		epoch, version = p.Record.Epoch, p.Record.Version
	}
	if err == nil {
		p.State = native.State(native.KindPage, native.Generation(p.handle), b.low|b.frame.Low)
		err = told.creating(func() error { return told.journalBirth(b, epoch, version) })
	}
	if err != nil {
		if b.id != 0 {
			c.ids.drop(b.id)
		}
		c.discard(b.frame)
		return 0, err
	}
	if b.id != 0 { // before anybody can see the page and destroy it
		c.ids.set(b.id, p.handle)
	}
	native.PublishPage(p.Index, b.size, b.low|b.frame.Low, epoch, version)
	told.end(&err)
	return p.handle, err
}

// begin gives a page that is about to begin its side record, where it needs one, and its id.
func (c *Context) begin(b *birth) error {
	if b.id != 0 || !b.frame.Plain() || b.node >= 0 {
		side, err := pageAt(c, b.frame.Index).Side()
		if err != nil {
			return err
		}
		side.ID, side.NUMANode = b.id, b.node
		b.frame.Note(side)
	}
	if b.id == 0 {
		c.ids.claim(b.frame.Index)
		return nil
	}
	b.low |= native.ExplicitID
	return c.ids.reserve(b.id, c.ownGroup())
}

// discard gives back a frame that did not become a page, with what it has got by now.
func (c *Context) discard(f residency.Frame) {
	record := native.RecordAt(f.Index)
	c.dropMetadata(record)
	c.dropMask(f.Index)
	if record.Side != 0 {
		memory.GiveSides(record.Side)
		record.Side = 0
	}
	c.residency.Give(f)
}

// journalBirth puts the record of a page that is about to begin.
func (c *change) journalBirth(b *birth, epoch, version uint64) error {
	ring, ok := native.RingOf(c.context.index)
	if !ok {
		return nil
	}
	body := b.body
	if b.kind != journal.Clone {
		state := uint32(0)
		if c.State&native.Adopted != 0 {
			state |= 1
		}
		if c.State&native.ReadOnly != 0 {
			state |= 2
		}
		body = journal.CreateBody(c.Record.Size, c.Location(), c.Placement().Device, c.Node(), state)
	}
	return c.put(ring, native.Head{Kind: uint8(b.kind), Page: c.ID(), Version: version, Epoch: epoch}, body, b.bytes)
}

// Clone makes a copy of a page under a new id.
func Clone(page, id uint64) (uint64, error) {
	if c := contextOf(native.Index(page)); c != nil {
		c.creating.RLock()
		defer c.creating.RUnlock()
	}
	p, err := lock(page)
	if err != nil {
		return 0, err
	}
	defer p.unlock()
	if err := p.context.TellReport(); err != nil {
		return 0, err
	}
	// The journal has the copy before what the group of another thread has changed.
	if code := native.CheckGroup(p.Index, p.State); code != 0 {
		return 0, lasterror.Load(code)
	}
	if err := p.Present(); err != nil {
		return 0, err
	}
	f, err := p.TakeLike(p.Record.Size)
	if err != nil {
		return 0, err
	}
	return p.context.publish(&birth{
		frame: f, size: p.Record.Size, id: id, node: p.Node(),
		kind: journal.Clone, body: journal.Words(p.ID(), p.Record.Version),
		prepare: func(q *Page) error {
			if err := p.CopyTo(q, f); err != nil {
				return err
			}
			q.Record.Epoch, q.Record.Version = p.Record.Epoch, firstVersion(id)
			return nil
		},
	})
}

// CopyTo copies bytes, change mask and metadata into a page that is made of a frame.
func (p *Page) CopyTo(q *Page, f residency.Frame) error {
	if err := p.CopyBytes(f, p.Record.Size); err != nil {
		return err
	}
	if mask := p.Mask(); mask != nil {
		if err := q.MakeMask(); err != nil {
			return err
		}
		copy(q.Mask(), mask)
	}
	return q.StoreMetadata(p.Metadata(), nil)
}

// AdoptOptions has the fields of mmsb_adopt_options_t.
type AdoptOptions struct {
	ID            uint64
	Location      int32
	Device        int32
	ReadOnly      bool
	Release, User uintptr
}

// Adopt makes a page over the caller's memory.
func (c *Context) Adopt(address uintptr, size uint64, options AdoptOptions) (uint64, error) {
	c.creating.RLock()
	defer c.creating.RUnlock()
	if err := c.TellReport(); err != nil {
		return 0, err
	}
	if err := memory.CheckSize(size); err != nil {
		return 0, err
	}
	if options.Location != abi.LocationCPU || options.Device != 0 {
		if _, err := c.residency.Resolve(options.Location, options.Device); err != nil {
			return 0, err
		}
		return 0, status.Errorf(status.InvalidArgument, "memory of location %d cannot be adopted", options.Location)
	}
	if uint64(address)+size < size {
		return 0, status.Errorf(status.InvalidSize, "%d bytes at 0x%x reach past the end of all addresses", size, address)
	}
	index, err := c.memory.Adopt(address, size, native.ClassForeign)
	if err != nil {
		return 0, err
	}
	b := &birth{
		frame: residency.Frame{Index: index}, size: size, id: options.ID, node: -1, low: native.Adopted,
		kind: journal.Adopt, bytes: native.Memory(address, size),
		prepare: func(p *Page) error {
			p.Record.Epoch, p.Record.Version, p.Record.Exposed = 0, firstVersion(options.ID), native.ExposedForGood
			side, err := p.Side()
			if err != nil {
				return err
			}
			side.Release, side.User = options.Release, options.User
			return nil
		},
	}
	if options.ReadOnly {
		b.low |= native.ReadOnly
	}
	c.adopts.Store(true)
	return c.publish(b)
}
