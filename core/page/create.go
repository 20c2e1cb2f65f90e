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
	// What the page begins with; prepare may say so in its record.
	epoch, version uint64
}

// publish makes a page of a frame, for who has c.creating; the frame goes where it fails.
func (c *Context) publish(b *birth) (page uint64, err error) {
	p, err := c.expect(b)
	if err != nil {
		return 0, err
	}
	told := &change{Page: p, context: c}
	if err := told.creating(func() error { return told.journalBirth(b) }); err != nil {
		c.unexpect(b)
		return 0, err
	}
	c.bear(b, p)
	told.end(&err)
	return p.handle, err
}

// expect does all for a page that is about to begin but to tell of it; the frame goes where it fails.
func (c *Context) expect(b *birth) (*Page, error) {
	if err := c.begin(b); err != nil {
		c.discard(b.frame)
		return nil, err
	}
	p := pageAt(c, b.frame.Index)
	p.Record.Size = b.size // for prepare
	b.version = firstVersion(b.id)
	if b.prepare != nil {
		if err := b.prepare(p); err != nil {
			c.unexpect(b)
			return nil, err
		}
		b.epoch, b.version = p.Record.Epoch, p.Record.Version
	}
	p.State = native.State(native.KindPage, native.Generation(p.handle), b.low|b.frame.Low)
	return p, nil
}

// unexpect takes expect back.
func (c *Context) unexpect(b *birth) {
	if b.id != 0 {
		c.ids.drop(b.id)
	}
	c.discard(b.frame)
}

// bear lets an expected page begin, which cannot fail.
func (c *Context) bear(b *birth, p *Page) {
	if b.id != 0 { // before anybody can see the page and destroy it
		c.ids.set(b.id, p.handle)
	}
	native.PublishPage(p.Index, b.size, b.low|b.frame.Low, b.epoch, b.version)
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
func (c *change) journalBirth(b *birth) error {
	ring, ok := native.RingOf(c.context.index)
	if !ok {
		return nil
	}
	head, body := b.record(c.Page)
	return c.put(ring, head, body, b.bytes)
}

// record is what the journal says of an expected page, before the bytes.
func (b *birth) record(p *Page) (head native.Head, body []byte) {
	head = native.Head{Kind: uint8(b.kind), Page: p.ID(), Version: b.version, Epoch: b.epoch}
	if b.kind == journal.Clone {
		return head, b.body
	}
	state := uint32(0)
	if p.State&native.Adopted != 0 {
		state |= 1
	}
	if p.State&native.ReadOnly != 0 {
		state |= 2
	}
	return head, journal.CreateBody(p.Record.Size, p.Location(), p.Placement().Device, p.Node(), state)
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
	clone, err := p.context.publish(&birth{
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
	if p.Record.Exposed != 0 { // a replay of the record gives other bytes
		native.Stray(p.context.Index())
	}
	return clone, err
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
	Stream        uintptr // of the driver's, for memory of a device: what it has queued comes before; 0 = none
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
	b, err := c.birthOver(address, size, &options)
	if err != nil {
		return 0, err
	}
	return c.publish(b)
}

// birthOver is a page that is about to begin over the caller's memory.
func (c *Context) birthOver(address uintptr, size uint64, options *AdoptOptions) (*birth, error) {
	if err := memory.CheckSize(size); err != nil {
		return nil, err
	}
	if uint64(address)+size < size {
		return nil, status.Errorf(status.InvalidSize, "%d bytes at 0x%x reach past the end of all addresses", size, address)
	}
	frame, err := c.frameOver(address, size, options)
	if err != nil {
		return nil, err
	}
	id, release, user := options.ID, options.Release, options.User
	b := &birth{
		frame: frame, size: size, id: id, node: -1, low: native.Adopted, kind: journal.Adopt,
		prepare: func(p *Page) error {
			p.Record.Epoch, p.Record.Version, p.Record.Exposed = 0, firstVersion(id), native.ExposedForGood
			side, err := p.Side()
			if err != nil {
				return err
			}
			c.residency.LendBy(frame, side, release, user)
			return nil
		},
	}
	if frame.Resident() {
		b.bytes = native.Memory(address, size)
	} else if _, journaled := native.RingOf(c.index); journaled {
		b.bytes = make([]byte, size)
		if err := c.residency.Read(frame, 0, b.bytes); err != nil {
			c.residency.Give(frame)
			return nil, err
		}
	}
	if options.ReadOnly {
		b.low |= native.ReadOnly
	}
	c.adopts.Store(true)
	return b, nil
}

// frameOver is what a page over the caller's memory is made of.
func (c *Context) frameOver(address uintptr, size uint64, options *AdoptOptions) (residency.Frame, error) {
	if options.Location == abi.LocationCPU && options.Device == 0 {
		index, err := c.memory.Adopt(address, size, native.ClassForeign)
		return residency.Frame{Index: index}, err
	}
	device := options.Device
	if options.Location == abi.LocationGPU && device == abi.DeviceNone {
		var err error
		if device, err = c.residency.Holder(address); err != nil {
			return residency.Frame{}, err
		}
	}
	to, err := c.residency.Resolve(options.Location, device)
	if err != nil {
		return residency.Frame{}, err
	}
	if wanted := (residency.Placement{Location: abi.LocationGPU, Device: device}); to != wanted {
		return residency.Frame{}, status.Errorf(status.InvalidArgument,
			"memory of location %d of device %d cannot be adopted as a page at location %d of device %d", options.Location,
			device, to.Location, to.Device)
	}
	return c.residency.TakeOver(to, address, size, options.Stream)
}

// AdoptMany makes a page over each of many pieces of memory, or over none; bad is the first that cannot be adopted. ids may be
// nil. The pages begin when the journal has all their records, as one group.
func (c *Context) AdoptMany(addresses []uintptr, sizes, ids []uint64, options AdoptOptions, pages []uint64) (bad int, err error) {
	if options.ID != 0 {
		return 0, status.Errorf(status.InvalidArgument, "id is %d; it is 0 where many pages are adopted", options.ID)
	}
	c.creating.RLock()
	defer c.creating.RUnlock()
	if err := c.TellReport(); err != nil {
		return 0, err
	}
	all := &births{context: c}
	for i, address := range addresses {
		one := options
		if ids != nil {
			one.ID = ids[i]
		}
		if err := all.add(address, sizes[i], &one); err != nil {
			all.drop()
			return i, err
		}
	}
	told := &change{context: c}
	if err := all.tell(told); err != nil {
		all.drop()
		return 0, err
	}
	for i, b := range all.births {
		c.bear(b, all.pages[i])
		pages[i] = all.pages[i].handle
	}
	told.end(&err)
	return 0, err
}

// births are pages that are about to begin together.
type births struct {
	context *Context
	births  []*birth
	pages   []*Page
}

func (a *births) add(address uintptr, size uint64, options *AdoptOptions) error {
	b, err := a.context.birthOver(address, size, options)
	if err != nil {
		return err
	}
	p, err := a.context.expect(b)
	if err != nil {
		return err
	}
	a.births, a.pages = append(a.births, b), append(a.pages, p)
	return nil
}

func (a *births) drop() {
	for _, b := range a.births {
		a.context.unexpect(b)
	}
}

// tell tells the thread's group and the journal, where there are such.
func (a *births) tell(c *change) error {
	g := c.group()
	if g == nil {
		return a.journal(c)
	}
	push := func() (code int32) {
		for i := 0; i < len(a.pages) && code == 0; i++ {
			code = g.PushCreate(a.pages[i].handle)
		}
		return code
	}
	return g.pushing(push, func() error { return a.journal(c) }, func() {})
}

// journal puts the records of all, as one group.
func (a *births) journal(c *change) error {
	ring, ok := native.RingOf(a.context.index)
	if !ok || len(a.births) == 0 {
		return nil
	}
	length := 0
	for i, b := range a.births {
		_, body := b.record(a.pages[i])
		length += native.RecordSpace(body, b.bytes)
	}
	records, code := ring.Begin(length, len(a.births))
	if code != 0 {
		return lasterror.Load(code)
	}
	for i, b := range a.births {
		head, body := b.record(a.pages[i])
		records.Put(head, body, b.bytes)
	}
	c.ring = ring
	c.sequence, code = records.End()
	return lasterror.Load(code)
}
