// Memory of every kind, and the report of what was not freed.

package sim

import (
	"cmp"
	"slices"

	"libmmsb/core/region"
	"libmmsb/core/status"
	"libmmsb/gpu/driver"
)

// What memory holds that nobody has written yet, or that was freed. Large blocks hold it only at their beginning: their bytes go
// back to the system.
const (
	freshByte = 0xcd
	freedByte = 0xdd

	paintedBytes = 64 << 10
	keptBytes    = 1 << 20
)

// registration is host memory that Register made known.
type registration struct {
	device  *device
	address driver.Address
	bytes   uint64
	history *history
}

// physical is memory without an address. Its bytes are those of an address that nobody uses.
type physical struct {
	device    *device
	block     *block
	bytes     uint64
	mapped    int
	destroyed bool
}

func (d *device) arenaOf(kind driver.Memory) (*arena, error) {
	switch {
	case kind == driver.Plain:
		return d.arena, nil
	case kind == driver.Managed && !d.info.ManagedMemory:
		return nil, status.Errorf(status.Unsupported, "%s has no managed memory", d.info.Name)
	case kind <= driver.Managed:
		return d.driver.host, nil
	}
	return nil, status.Errorf(status.InvalidArgument, "memory kind %d does not exist", kind)
}

// Holds says whether an address is one of the device's memory.
func (d *device) Holds(address driver.Address) (bool, error) {
	if err := d.enter(MemoryInfo); err != nil {
		return false, err
	}
	defer d.leave()
	a := d.arena
	a.mutex.Lock()
	defer a.mutex.Unlock()
	b := a.find(address)
	return b != nil && b.state == live && uint64(address-b.address) < b.bytes, nil
}

// Allocate takes memory that is there when the call returns.
func (d *device) Allocate(kind driver.Memory, bytes uint64) (driver.Address, error) {
	if err := d.enter(Allocate); err != nil {
		return 0, err
	}
	defer d.leave()
	d.driver.observe()
	a, err := d.arenaOf(kind)
	if err != nil {
		return 0, err
	}
	a.mutex.Lock()
	defer a.mutex.Unlock()
	b, err := a.allocate(bytes, func(b *block) bool { return b.freedAt.done() })
	if err != nil {
		return 0, err
	}
	b.kind, b.owner = kind, d
	if o := d.driver.order; o != nil {
		b.history = o.hostUse(Allocate).begin(b.address, bytes)
		b.paint(freshByte)
	}
	return b.address, nil
}

// paint overwrites memory whose content nobody may count on.
func (b *block) paint(value byte) {
	bytes := b.slot
	if b.slot > keptBytes {
		if value == freedByte {
			theWindow.discard(b.address, b.slot)
		}
		bytes = paintedBytes
	} else if value == freshByte {
		bytes = min(bytes, paintedBytes)
	}
	set(theWindow.reach(b.address, bytes), value)
}

// set fills memory by doubling what is there already, which takes few large copies.
func set(bytes []byte, value byte) {
	if len(bytes) == 0 {
		return
	}
	bytes[0] = value
	for done := 1; done < len(bytes); done *= 2 {
		copy(bytes[done:], bytes[:done])
	}
}

// owned finds a live block of a device by the address that it begins at; the arena's lock is held.
func (d *device) owned(a *arena, address driver.Address, kind driver.Memory, ordered bool) (*block, error) {
	b := a.find(address)
	found := b != nil && b.address == address && b.state == live && b.physical == nil
	if !found || b.owner != d || b.kind != kind || b.ordered != ordered {
		return nil, status.Errorf(status.InvalidArgument, "no memory of this kind begins at 0x%x of %s", address, d.info.Name)
	}
	return b, nil
}

// Free gives memory back at once.
func (d *device) Free(kind driver.Memory, address driver.Address) error {
	if err := d.enter(Free); err != nil {
		return err
	}
	defer d.leave()
	a, err := d.arenaOf(kind)
	if err != nil {
		return err
	}
	a.mutex.Lock()
	defer a.mutex.Unlock()
	b, err := d.owned(a, address, kind, false)
	if err != nil {
		return err
	}
	if o := d.driver.order; o != nil {
		o.end(b.history, o.hostUse(Free), b.address, b.bytes)
		b.paint(freedByte)
	}
	a.free(b, vacant, point{})
	return nil
}

func (d *device) needs(has bool, what string) error {
	if !has {
		return status.Errorf(status.Unsupported, "%s has no %s", d.info.Name, what)
	}
	return nil
}

// orderedOn finds a stream of a device that has memory in the order of streams.
func (d *device) orderedOn(on driver.Stream) (*stream, error) {
	s, err := d.stream(on)
	if err != nil {
		return nil, err
	}
	return s, d.needs(d.info.OrderedMemory, "memory in the order of streams")
}

// AllocateOrdered takes memory in the order of a stream.
func (d *device) AllocateOrdered(on driver.Stream, bytes uint64) (driver.Address, error) {
	if err := d.enter(AllocateOrdered); err != nil {
		return 0, err
	}
	defer d.leave()
	s, err := d.orderedOn(on)
	if err != nil {
		return 0, err
	}
	d.driver.observe()
	d.arena.mutex.Lock()
	defer d.arena.mutex.Unlock()
	b, err := d.arena.allocate(bytes, func(b *block) bool { return d.reusable(b, s) })
	if err != nil {
		return 0, err
	}
	b.kind, b.owner, b.ordered = driver.Plain, d, true
	if o := d.driver.order; o != nil {
		b.history = o.streamUse(AllocateOrdered, s).begin(b.address, bytes)
		s.push(operation{call: AllocateOrdered, work: func() { b.paint(freshByte) }})
	}
	return b.address, nil
}

// reusable says whether what a stream does next comes after a block's free: it was freed on that stream, or the stream waits for
// it, or it is done.
func (d *device) reusable(b *block, s *stream) bool {
	if b.freedAt.stream == s || b.freedAt.done() {
		return true
	}
	return b.history != nil && s.clock.join(d.driver.order.host).at(b.history.freed.party) >= b.history.freed.tick
}

// FreeOrdered gives memory back in the order of a stream.
func (d *device) FreeOrdered(on driver.Stream, address driver.Address) error {
	if err := d.enter(FreeOrdered); err != nil {
		return err
	}
	defer d.leave()
	s, err := d.orderedOn(on)
	if err != nil {
		return err
	}
	d.arena.mutex.Lock()
	defer d.arena.mutex.Unlock()
	b, err := d.owned(d.arena, address, driver.Plain, true)
	if err != nil {
		return err
	}
	if o := d.driver.order; o != nil {
		o.end(b.history, o.streamUse(FreeOrdered, s), b.address, b.bytes)
		s.push(operation{call: FreeOrdered, work: func() { b.paint(freedByte) }})
	}
	d.arena.free(b, pooled, s.end())
	d.driver.pass()
	return nil
}

// TrimOrdered gives memory that waits to be used again back to the device.
func (d *device) TrimOrdered(keep uint64) error {
	if err := d.enter(TrimOrdered); err != nil {
		return err
	}
	defer d.leave()
	if _, err := d.orderedOn(0); err != nil {
		return err
	}
	d.driver.observe()
	d.arena.mutex.Lock()
	defer d.arena.mutex.Unlock()
	d.arena.trim(keep)
	return nil
}

// Register makes host memory reachable.
func (d *device) Register(address driver.Address, bytes uint64) error {
	if err := d.enter(Register); err != nil {
		return err
	}
	defer d.leave()
	if address == 0 || bytes == 0 || uint64(address)+bytes < bytes || theWindow.has(address) {
		return status.Errorf(status.InvalidArgument, "cannot register %d bytes at 0x%x: not host memory", bytes, address)
	}
	d.driver.hostMutex.Lock()
	defer d.driver.hostMutex.Unlock()
	list := d.driver.registered
	at, _ := slices.BinarySearchFunc(list, address, byAddress)
	behind := at < len(list) && uint64(list[at].address-address) < bytes
	before := at > 0 && uint64(address-list[at-1].address) < list[at-1].bytes
	if behind || before {
		return status.Errorf(status.InvalidArgument, "some of %d bytes at 0x%x are already registered", bytes, uint64(address))
	}
	r := &registration{device: d, address: address, bytes: bytes}
	if o := d.driver.order; o != nil {
		r.history = o.hostUse(Register).begin(address, bytes)
	}
	d.driver.registered = slices.Insert(list, at, r)
	return nil
}

func byAddress(r *registration, address driver.Address) int {
	if r.address < address {
		return -1
	}
	return 1
}

// Unregister ends what Register began.
func (d *device) Unregister(address driver.Address) error {
	if err := d.enter(Unregister); err != nil {
		return err
	}
	defer d.leave()
	d.driver.hostMutex.Lock()
	defer d.driver.hostMutex.Unlock()
	at, _ := slices.BinarySearchFunc(d.driver.registered, address, byAddress)
	if at == len(d.driver.registered) || d.driver.registered[at].address != address || d.driver.registered[at].device != d {
		return status.Errorf(status.InvalidArgument, "no registered memory begins at 0x%x of %s", address, d.info.Name)
	}
	if o := d.driver.order; o != nil {
		r := d.driver.registered[at]
		o.end(r.history, o.hostUse(Unregister), address, r.bytes)
	}
	d.driver.registered = slices.Delete(d.driver.registered, at, at+1)
	return nil
}

// enterWhole is enter for a call on memory that is mapped by hand, with a size or address of it.
func (d *device) enterWhole(call Call, value uint64) error {
	if err := d.enter(call); err != nil {
		return err
	}
	err := d.needs(d.info.VirtualMemory, "memory that is mapped by hand")
	if err == nil && (value == 0 || value%granularity != 0) {
		err = status.Errorf(status.InvalidArgument, "%d is not a multiple of the granularity %d", value, granularity)
	}
	if err != nil {
		d.leave()
	}
	return err
}

// Reserve takes addresses without memory.
func (d *device) Reserve(bytes uint64) (driver.Address, error) {
	if err := d.enterWhole(Reserve, bytes); err != nil {
		return 0, err
	}
	defer d.leave()
	d.arena.mutex.Lock()
	defer d.arena.mutex.Unlock()
	if err := d.arena.open(); err != nil {
		return 0, err
	}
	if reserved := d.arena.reserved; bytes > d.arena.most-reserved {
		return 0, status.Errorf(status.OutOfMemory, "%d bytes of addresses exceed the %d that may be reserved, %d are", bytes,
			d.arena.most, reserved)
	}
	b, err := d.arena.freshFrames(bytes/frameBytes, granularity/frameBytes)
	if err != nil {
		return 0, err
	}
	d.arena.reserved += bytes
	b.state, b.bytes, b.owner = reserved, bytes, d
	d.arena.reservations[b.address] = &reservation{block: b, taken: map[driver.Address]*Use{}}
	d.arena.changeBare()
	return b.address, nil
}

// reservation is a part of addresses, and what is mapped in it.
type reservation struct {
	block  *block
	mapped int
	taken  map[driver.Address]*Use // the Unmap that took memory away, where there is none since
}

// takenFrom is the Unmap that took memory from the first of some addresses from which one did; nil where none did. The range may
// be longer than all addresses.
func (a *arena) takenFrom(address driver.Address, bytes uint64) (taken *Use) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	var first driver.Address
	for _, r := range a.reservations {
		for at, use := range r.taken {
			touched := uint64(at-address) < bytes || uint64(address-at) < granularity
			if touched && (taken == nil || at < first) {
				first, taken = at, use
			}
		}
	}
	return taken
}

// Release gives a reserved part back.
func (d *device) Release(address driver.Address, bytes uint64) error {
	if err := d.enterWhole(Release, bytes); err != nil {
		return err
	}
	defer d.leave()
	d.arena.mutex.Lock()
	defer d.arena.mutex.Unlock()
	r := d.arena.reservations[address]
	if r == nil || r.block.bytes != bytes || r.mapped > 0 {
		return status.Errorf(status.InvalidArgument, "%d bytes at 0x%x are not reserved or already mapped", bytes, address)
	}
	delete(d.arena.reservations, address)
	d.arena.reserved -= bytes
	d.arena.changeBare()
	d.arena.release(r.block)
	return nil
}

// CreatePhysical takes memory without an address.
func (d *device) CreatePhysical(bytes uint64) (driver.Physical, error) {
	if err := d.enterWhole(CreatePhysical, bytes); err != nil {
		return 0, err
	}
	defer d.leave()
	a := d.arena
	a.mutex.Lock()
	defer a.mutex.Unlock()
	if a.limit-a.used.Load() < bytes {
		a.trim(0)
	}
	if a.limit-a.used.Load() < bytes {
		return 0, a.full(bytes)
	}
	b, err := a.freshFrames(bytes/frameBytes, granularity/frameBytes)
	if err != nil {
		return 0, err
	}
	a.used.Add(bytes)
	b.bytes, b.charge = bytes, bytes
	if o := d.driver.order; o != nil {
		b.history = o.hostUse(CreatePhysical).begin(b.address, bytes)
	}
	p := &physical{device: d, block: b, bytes: bytes}
	return driver.Physical(d.driver.physicals.add(func(uintptr) *physical { return p })), nil
}

func (d *device) physical(handle driver.Physical) (*physical, error) {
	p, found := d.driver.physicals.find(uintptr(handle))
	if !found || p.device != d {
		return nil, status.Errorf(status.InvalidHandle, "0x%x is not memory of %s", uint64(handle), d.info.Name)
	}
	return p, nil
}

// DestroyPhysical ends memory as soon as it is no longer mapped.
func (d *device) DestroyPhysical(handle driver.Physical) error {
	if err := d.enter(DestroyPhysical); err != nil {
		return err
	}
	defer d.leave()
	d.arena.mutex.Lock()
	defer d.arena.mutex.Unlock()
	p, err := d.physical(handle)
	if err != nil {
		return err
	}
	d.driver.physicals.remove(uintptr(handle))
	p.destroyed = true
	p.endIfUnused()
	return nil
}

func (p *physical) endIfUnused() {
	if !p.destroyed || p.mapped > 0 {
		return
	}
	a := p.device.arena
	a.used.Add(-p.bytes)
	theWindow.discard(p.block.address, p.bytes)
	a.release(p.block)
}

// Map puts physical memory at reserved addresses.
func (d *device) Map(address driver.Address, peers bool, handles ...driver.Physical) error {
	if err := d.enterWhole(Map, uint64(address)); err != nil {
		return err
	}
	defer d.leave()
	d.arena.mutex.Lock()
	defer d.arena.mutex.Unlock()
	var mapped []*block
	for at := address; len(mapped) < len(handles); {
		b, err := d.mapOne(at, handles[len(mapped)], peers)
		if err != nil {
			for _, b := range mapped {
				err = cmp.Or(err, theWindow.alias(b.address, b.address, b.bytes))
				b.unmap()
			}
			return err
		}
		mapped = append(mapped, b)
		at += driver.Address(b.bytes)
	}
	for _, b := range mapped {
		for at := b.address; at < b.address+driver.Address(b.bytes); at += granularity {
			delete(b.reservation.taken, at)
		}
	}
	return nil
}

func (d *device) mapOne(address driver.Address, handle driver.Physical, peers bool) (*block, error) {
	p, err := d.physical(handle)
	if err != nil {
		return nil, err
	}
	a := d.arena
	r := a.reservationOf(address, p.bytes)
	if r == nil {
		return nil, status.Errorf(status.InvalidArgument, "%d bytes at 0x%x are not reserved and free", p.bytes, uint64(address))
	}
	if err := theWindow.alias(address, p.block.address, p.bytes); err != nil {
		return nil, err
	}
	b := &block{
		address: address, slot: p.bytes, arena: a, owner: d, state: live, bytes: p.bytes, physical: p, history: p.block.history,
		reservation: r, peers: peers,
	}
	a.enter(b)
	r.mapped++
	p.mapped++
	return b, nil
}

// unmap ends a block that is mapped by hand; its addresses are bare.
func (b *block) unmap() {
	b.arena.leave(b)
	b.reservation.mapped--
	b.physical.mapped--
	b.physical.endIfUnused()
}

// reservationOf is the reservation that holds addresses where nothing is mapped.
func (a *arena) reservationOf(address driver.Address, bytes uint64) *reservation {
	first := a.find(address)
	if first == nil || first.state != reserved || uint64(address-first.address)+bytes > first.bytes {
		return nil
	}
	for offset := uint64(0); offset < bytes; offset += granularity {
		if a.find(address+driver.Address(offset)) != first {
			return nil
		}
	}
	return a.reservations[first.address]
}

// Unmap takes away what was mapped at the address.
func (d *device) Unmap(address driver.Address) error {
	if err := d.enterWhole(Unmap, uint64(address)); err != nil {
		return err
	}
	defer d.leave()
	a := d.arena
	a.mutex.Lock()
	defer a.mutex.Unlock()
	b := a.find(address)
	if b == nil || b.physical == nil || b.address != address {
		return status.Errorf(status.InvalidArgument, "nothing is mapped at 0x%x of %s", address, d.info.Name)
	}
	if err := theWindow.alias(address, address, b.bytes); err != nil {
		return err
	}
	if o := d.driver.order; o != nil {
		use := o.hostUse(Unmap).of(0, true, b.address, b.bytes)
		o.access(b.history, use, 0, b.bytes)
		for at := address; at < address+driver.Address(b.bytes); at += granularity {
			b.reservation.taken[at] = use
		}
	}
	b.unmap()
	return nil
}

// Allocation is memory that is in use.
type Allocation struct {
	Address driver.Address
	Bytes   uint64
	Where   string // the place in the program; empty where order is not checked
}

// Live is the memory that was not given back, apart from what is mapped by hand.
func (d *Driver) Live() (live []Allocation) {
	d.turn.Lock()
	defer d.turn.Unlock()
	arenas := []*arena{d.host}
	for _, device := range d.devices {
		arenas = append(arenas, device.arena)
	}
	for _, a := range arenas {
		live = append(live, a.live()...)
	}
	return live
}

func (a *arena) live() (list []Allocation) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	var last *frame
	for _, f := range a.frames() {
		if f == last {
			continue
		}
		last = f
		for j := range f.blocks {
			if b := f.blocks[j].Load(); b != nil && b.state == live && b.physical == nil {
				allocation := Allocation{Address: b.address, Bytes: b.bytes}
				if b.history != nil {
					allocation.Where = b.history.born.Where()
				}
				list = append(list, allocation)
			}
		}
	}
	return list
}

// Violations is what the program did not order; of many, the first hundred and how many there are.
func (d *Driver) Violations() (list []Violation, count int) {
	d.turn.Lock()
	defer d.turn.Unlock()
	if d.order == nil {
		return nil, 0
	}
	return slices.Clone(d.order.violations), d.order.count
}

// Problems is one error for all violations and all that was not given back: InvalidState, nil where there is nothing.
func (d *Driver) Problems() error {
	if violations, count := d.Violations(); count > 0 {
		return status.Errorf(status.InvalidState, "%d violations, the first: %v", count, violations[0])
	}
	if live := d.Live(); len(live) > 0 {
		return status.Errorf(status.InvalidState, "%d blocks were not freed, the first: %d bytes at 0x%x from %s", len(live),
			live[0].Bytes, uint64(live[0].Address), live[0].Where)
	}
	if streams, events, physical := d.streams.length(), d.events.length(), d.physicals.length(); streams+events+physical > 0 {
		return status.Errorf(status.InvalidState, "%d streams, %d events and %d physical allocations were not freed",
			streams, events, physical)
	}
	return nil
}

// reach is the bytes at an address for whoever does the work.
func reach(address driver.Address, bytes uint64) []byte {
	if theWindow.has(address) {
		return theWindow.reach(address, bytes)
	}
	return region.BytesAt(uintptr(address), bytes)
}
