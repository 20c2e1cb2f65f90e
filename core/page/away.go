package page

import (
	"sync"

	"libmmsb/core/delta"
	"libmmsb/core/log"
	"libmmsb/core/mem"
	"libmmsb/native"
)

// A page that is away has its bytes in the context's file or in memory of a device. A call that needs them at an address brings them in and lets them
// leave when it is done: for a file that is a mapping, for a device a copy on the host, of which what was changed goes back. Where the device
// refuses it the copy stays, newer than the device's, until it can leave: nothing is lost.

// away is where the bytes of a page lie that is away.
type away struct {
	at, length uint64 // in the file, or from an address of the device on
	block      uint64 // of the device; 0 = they are in the file
	device     int32
}

// awayOf is where the bytes of a page lie; its length is 0 for one that is not away.
func awayOf(side *native.Side) away {
	a := away{at: side.BackingAt, length: side.BackingLength}
	if a.length > 0 && side.Release == 0 {
		a.block, a.device = uint64(side.User), side.Device
	}
	return a
}

// note writes it into the page's side record.
func (a away) note(side *native.Side) {
	side.BackingAt, side.BackingLength = a.at, a.length
	if side.Release == 0 { // else the memory is the caller's, and so is the word
		side.User = uintptr(a.block)
	}
	side.Device = a.device
}

func (a away) address() uintptr { return uintptr(a.at) }

// takeAway takes zeroed space for a page, and a record without memory.
func (c *Context) takeAway(p place, size uint64) (block, error) {
	a := away{device: p.device, length: size}
	if p.onDevice() {
		memory, err := c.devices.Allocate(p.device, size)
		if err != nil {
			return block{}, err
		}
		a.at, a.block = uint64(memory.Address), memory.Block
	} else {
		extent, err := c.disk.take(c.options.DiskPath, size)
		if err != nil {
			return block{}, err
		}
		a.at, a.length = extent.offset, extent.length
	}
	index, err := c.takeBare()
	if err != nil {
		c.giveAway(a)
		return block{}, err
	}
	return block{index: index, away: a, location: native.Nonresident | uint64(p.location)<<native.LocationShift}, nil
}

// giveAway gives such space back.
func (c *Context) giveAway(a away) {
	switch {
	case a.length == 0:
	case a.block != 0:
		c.devices.Free(DeviceMemory{Device: a.device, Address: a.address(), Block: a.block})
	default:
		c.disk.give(diskExtent{a.at, a.length})
	}
}

func (c *Context) writeAway(a away, offset uint64, bytes []byte) error {
	if a.block != 0 {
		return c.devices.Write(a.device, a.address()+uintptr(offset), bytes)
	}
	return c.disk.write(diskExtent{a.at + offset, a.length - offset}, bytes)
}

func (c *Context) readAway(a away, offset uint64, to []byte) error {
	if a.block != 0 {
		return c.devices.Read(a.device, a.address()+uintptr(offset), to)
	}
	return c.disk.read(diskExtent{a.at + offset, a.length - offset}, to)
}

// visits are a context's pages of devices that have a copy on the host, by record.
type visits struct {
	sync.Mutex
	pages map[uint32]visit
}

// visit is such a copy: of which version it is on the device, and what the device had where somebody else may write there meanwhile.
type visit struct {
	version uint64
	before  uint32 // region; 0 = none
}

func (v *visits) begin(index uint32, of visit) {
	v.Lock()
	defer v.Unlock()
	if v.pages == nil {
		v.pages = make(map[uint32]visit)
	}
	v.pages[index] = of
}

func (v *visits) of(index uint32) visit {
	v.Lock()
	defer v.Unlock()
	return v.pages[index]
}

func (v *visits) end(index uint32) {
	v.Lock()
	defer v.Unlock()
	if of := v.pages[index]; of.before != 0 {
		mem.Unmap(of.before)
	}
	delete(v.pages, index)
}

// bringIn gives the bytes of a locked page that is away an address, unless they have one; leave undoes it.
func (c *Context) bringIn(index uint32) error {
	record := native.RecordAt(index)
	if record.Locator != 0 {
		return nil
	}
	a := awayOf(native.SideAt(record.Side))
	if a.block == 0 {
		region, err := mem.MapFile(int(c.disk.file.Fd()), a.at, a.length)
		if err == nil {
			record.SetLocator(native.Locator(region, 0))
		}
		return err
	}
	size := record.Size
	region, err := mem.Map(size, c.options.HugePages)
	if err != nil {
		return err
	}
	copied := native.Bytes(native.Locator(region, 0), size)
	of := visit{version: record.Version}
	if err = c.devices.Read(a.device, a.address(), copied); err == nil && (record.WritePins > 0 || record.Exposed != 0) {
		if of.before, err = mem.Map(size, c.options.HugePages); err == nil {
			copy(native.Bytes(native.Locator(of.before, 0), size), copied)
		}
	}
	if err != nil {
		mem.Unmap(region)
		return err
	}
	c.visits.begin(index, of)
	record.SetLocator(native.Locator(region, 0))
	return nil
}

// leave takes the address back from a locked page that is away. What was brought in from the file stays while it is pinned.
func (c *Context) leave(index uint32) {
	record := native.RecordAt(index)
	if record.Locator == 0 {
		return
	}
	a := awayOf(native.SideAt(record.Side))
	if a.block == 0 {
		if !record.Pinned() {
			c.dropView(index)
		}
		return
	}
	if err := c.sendBack(index, a); err != nil {
		log.Logf(log.Warning, "page 0x%016x stays on the host: device %d does not take its %d bytes back: %v",
			native.Handle(native.KindPage, native.Generation(record.LoadState()), index), a.device, record.Size, err)
		return
	}
	c.dropView(index)
}

// sendBack brings what was changed in the host's copy to the device.
func (c *Context) sendBack(index uint32, a away) error {
	record := native.RecordAt(index)
	of := c.visits.of(index)
	if of.version == record.Version {
		return nil
	}
	bytes := native.Bytes(record.Locator, record.Size)
	if of.before == 0 {
		return c.devices.Write(a.device, a.address(), bytes)
	}
	for _, run := range delta.FromPages(native.Bytes(native.Locator(of.before, 0), record.Size), bytes).Runs {
		if err := c.devices.Write(a.device, a.address()+uintptr(run.Offset), bytes[run.Offset:][:run.Length]); err != nil {
			return err
		}
	}
	return nil
}

// dropView ends the address of a page that is away.
func (c *Context) dropView(index uint32) {
	record := native.RecordAt(index)
	region := native.LocatorRegion(record.Locator)
	record.SetLocator(0)
	c.visits.end(index)
	mem.Unmap(region)
}

// resizeAway moves a page that is away into space of another size.
func (p *locked) resizeAway(size uint64) error {
	c := p.context
	side := native.SideAt(p.record.Side)
	old := awayOf(side)
	b, err := c.takeAway(place{p.location(), old.device}, size)
	if err != nil {
		return err
	}
	kept := min(size, p.record.Size)
	if old.block != 0 && p.record.Locator == 0 {
		err = c.devices.Copy(b.away.device, b.away.address(), old.device, old.address(), kept)
	} else if err = c.bringIn(p.index); err == nil {
		err = c.writeAway(b.away, 0, p.bytes()[:kept])
	}
	if err == nil {
		err = p.journalResize(size)
	}
	if err != nil {
		c.give(b)
		return err
	}
	if p.record.Locator != 0 {
		c.dropView(p.index)
	}
	c.giveAway(old)
	b.away.note(side)
	native.GiveFrame(c.index, b.index)
	return nil
}

// deviceOf is where a locked page lies that is on a device, with the device's bytes the newest.
func (c *Context) deviceOf(index uint32) (away, error) {
	record := native.RecordAt(index)
	if err := c.presentAt(index); err != nil {
		return away{}, err
	}
	a := awayOf(native.SideAt(record.Side))
	if record.Locator != 0 {
		if err := c.sendBack(index, a); err != nil {
			return away{}, err
		}
		c.dropView(index)
	}
	return a, nil
}

// What native code asks of pages on devices. The record is locked.

func deviceAddress(index uint32) (uintptr, int32) {
	a, err := contextOf(index).deviceOf(index)
	return a.address(), failed(err)
}

func deviceRead(index uint32, offset uint64, to []byte) int32 {
	c, record := contextOf(index), native.RecordAt(index)
	if record.Locator != 0 { // a copy that could not leave is the newest there is
		copy(to, native.Bytes(record.Locator, record.Size)[offset:])
		return 0
	}
	a, err := c.deviceOf(index)
	if err == nil {
		err = c.readAway(a, offset, to)
	}
	return failed(err)
}

func deviceWrite(index uint32, offset uint64, from []byte) int32 {
	c := contextOf(index)
	a, err := c.deviceOf(index)
	if err == nil {
		err = c.writeAway(a, offset, from)
	}
	return failed(err)
}

func deviceApply(index uint32, change *native.Delta) (done bool, code int32) {
	c := contextOf(index)
	a, err := c.deviceOf(index)
	if err == nil {
		done, err = c.devices.Apply(a.device, a.address(), native.RecordAt(index).Size, change)
	}
	return done, failed(err)
}

// deviceApplyMany makes those changes of a batch whose pages are on devices; their records are locked.
func deviceApplyMany(pages []uint64, changes []native.Delta) (bad int, code int32) {
	type batch struct {
		first   int
		changes []Change
	}
	batches := make(map[*Context]*batch)
	for i, page := range pages {
		index := native.Index(page)
		if !native.OnDevice(native.RecordAt(index).LoadState()) {
			continue
		}
		c := contextOf(index)
		a, err := c.deviceOf(index)
		if err != nil {
			return i, failed(err)
		}
		if batches[c] == nil {
			batches[c] = &batch{first: i}
		}
		batches[c].changes = append(batches[c].changes, Change{a.device, a.address(), &changes[i]})
	}
	for c, batch := range batches {
		if err := c.devices.ApplyMany(batch.changes); err != nil {
			return batch.first, failed(err)
		}
	}
	return 0, 0
}

// presentAt gives a locked page its bytes where they wait in a snapshot.
func (c *Context) presentAt(index uint32) error {
	if c.lazies.of(index) == nil {
		return nil
	}
	record := native.RecordAt(index)
	owner := record.LoadState() & native.OwnerMask
	p := &locked{context: c, index: index, record: record, state: record.LoadState() &^ native.OwnerMask}
	err := p.present()
	record.StoreState(p.state | owner)
	return err
}

// bring gives the bytes of a page that is away an address: for good where they waited in a snapshot for memory of the host, else until leave. The
// record is locked.
func bring(index uint32) int32 {
	c := contextOf(index)
	err := c.presentAt(index)
	if err == nil && native.RecordAt(index).LoadState()&native.Nonresident != 0 {
		err = c.bringIn(index)
	}
	return failed(err)
}

func leave(index uint32) { contextOf(index).leave(index) }

// takeShared takes zeroed memory of a device that the host reaches at its address, and a record that has it.
func (c *Context) takeShared(p place, size uint64) (block, error) {
	address, err := c.devices.AllocateHost(p.location, p.device, roundUp(size))
	if err != nil {
		return block{}, err
	}
	region, err := mem.Adopt(address, roundUp(size))
	if err != nil {
		c.devices.FreeHost(p.location, p.device, address)
		return block{}, err
	}
	index, err := c.takeBare()
	if err != nil {
		mem.Unmap(region)
		c.devices.FreeHost(p.location, p.device, address)
		return block{}, err
	}
	record := native.RecordAt(index)
	record.Locator, record.Size, record.Exposed = native.Locator(region, 0), roundUp(size), 0
	record.StoreState(native.State(native.StateFrame, native.Generation(record.LoadState()), native.ClassDevice<<native.ClassShift))
	c.memory.Lock()
	if c.memory.shared == nil {
		c.memory.shared = make(map[uint32]place)
	}
	c.memory.shared[region] = p
	c.memory.Unlock()
	return block{index: index, away: away{device: p.device}, location: uint64(p.location) << native.LocationShift}, nil
}
