// Package pages lets pages lie on devices: it is core/residency's view of the devices of a context, over the runtime that
// everybody shares.
package pages

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"unsafe"

	"libmmsb/core/abi"
	"libmmsb/core/log"
	"libmmsb/core/page"
	"libmmsb/core/parallel"
	"libmmsb/core/residency"
	"libmmsb/core/status"
	"libmmsb/gpu/devices"
	"libmmsb/gpu/driver"
	"libmmsb/gpu/kernels"
	gpu "libmmsb/gpu/runtime"
)

// Use makes pages of contexts that are created from now on have devices.
func Use() { use(func(*devices.Options) {}) }

// use is Use with something else that the devices are like.
func use(like func(options *devices.Options)) {
	page.UseDevices(func(options *page.Options) residency.Devices {
		of := devices.Options{
			Simulate: devices.Simulate(options.Simulate), Devices: int(options.SimulatedDevices),
			Memory: options.SimulatedMemory,
		}
		if options.Fallback == abi.FallbackSimulate {
			of.Simulate, of.StandIns = max(of.Simulate, devices.IfNoGPU), true
		}
		like(&of)
		return &context{set: devices.NewSet(of), devices: make(map[int32]*device)}
	})
}

// SetOf is the devices of a live context. Errors: InvalidHandle, StaleHandle, NoDevice.
func SetOf(handle uint64) (set *devices.Set, err error) {
	err = page.Use(handle, func(c *page.Context) error {
		of, ok := c.Residency().Devices().(*context)
		if !ok {
			return c.Residency().Devices().Check(abi.LocationGPU, 0)
		}
		set = of.set
		return nil
	})
	return set, err
}

// context is the devices of a context.
type context struct {
	set     *devices.Set
	lost    func(device int32) // is told of each device that is
	mutex   sync.Mutex
	devices map[int32]*device // those that pages were on
}

const (
	// mostLanes is how many calls work on the pages of a device at a time, beside carriers; others wait.
	mostLanes = 4
	// stagingBytes is what goes to or from a device at a time.
	stagingBytes = 2 << 20
)

// device is one of them, with lanes that calls take turns with.
type device struct {
	runtime *gpu.Runtime
	kernels *kernels.Set // nil = this build has none for it
	lent    func()       // ends what OnLack began; nil = nothing
	lost    sync.Once    // when a call has found it lost

	drained drained

	mutex sync.Mutex
	turn  sync.Cond
	lanes []*lane // all there are
	idle  []*lane
	// Lanes that carriers have. While a call has one it may need another, so that it waits for none that carriers keep.
	carried int
}

// lane is a stream, and pinned memory of the host through which all bytes of the host come and go. So a device never sees memory
// of Go's, which only Go may point to, and no copy is slow because the driver has to stage it.
type lane struct {
	*gpu.Stream
	handle  uint64
	staging driver.Address
	lists
}

// bytes are the staging memory.
func (l *lane) bytes() []byte {
	return unsafe.Slice((*byte)(unsafe.Add(unsafe.Pointer(nil), uintptr(l.staging))), stagingBytes)
}

var tag = sync.OnceValue(func() gpu.Tag {
	of, _ := gpu.TagOf("page")
	return of
})

func (c *context) device(ordinal int32) (*device, error) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if d := c.devices[ordinal]; d != nil {
		return d, nil
	}
	shared, err := c.set.Shared(int(ordinal))
	if err != nil {
		return nil, err
	}
	d := &device{runtime: shared}
	d.turn.L = &d.mutex
	d.kernels, err = kernels.Load(shared.Device(), kernels.Image())
	if err != nil && status.CodeOf(err) != status.Unsupported {
		return nil, err
	}
	c.devices[ordinal] = d
	return d, nil
}

// OnLoss is residency.Devices'.
func (c *context) OnLoss(told func(device int32)) { c.lost = told }

// met is an error that a call has met on a device.
func (c *context) met(ordinal int32, d *device, err error) error {
	if status.CodeOf(err) == status.DeviceLost && d.runtime.Lost() {
		d.lost.Do(func() { c.lost(ordinal) })
	}
	return err
}

// Check is residency.Devices'.
func (c *context) Check(location, ordinal int32) error {
	d, err := c.device(ordinal)
	if err != nil {
		return err
	}
	if d.runtime.Lost() {
		return c.met(ordinal, d, status.Errorf(status.DeviceLost, "device %d is lost", ordinal))
	}
	if info := d.runtime.Device().Info(); location == abi.LocationUnified && !info.ManagedMemory {
		return status.Errorf(status.Unsupported, "device %d (%s) has no managed memory", ordinal, info.Name)
	}
	return nil
}

// Simulated is residency.Devices'.
func (c *context) Simulated() bool { return c.set.Simulated() }

// take is a lane that nobody else uses, until give.
func (d *device) take() (*lane, error) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	for {
		if l := d.idleLane(); l != nil {
			return l, nil
		}
		if len(d.lanes)-d.carried < mostLanes {
			l, err := d.openLane()
			if err == nil || len(d.lanes) == d.carried {
				return l, err
			}
		}
		d.turn.Wait()
	}
}

// takeToCarry is a lane for a carrier, until giveBack: the first without a wait for others, the next ones only where there are
// few, else nil.
func (d *device) takeToCarry(first bool) (l *lane, err error) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	if l = d.idleLane(); l == nil && (first || len(d.lanes) < mostLanes+2*parallel.Most()) {
		l, err = d.openLane()
	}
	if l != nil {
		d.carried++
	}
	return l, err
}

func (d *device) giveBack(l *lane) {
	d.mutex.Lock()
	d.carried--
	d.mutex.Unlock()
	d.give(l)
}

// idleLane is one, or nil; the lock is held.
func (d *device) idleLane() *lane {
	last := len(d.idle) - 1
	if last < 0 {
		return nil
	}
	l := d.idle[last]
	d.idle = d.idle[:last]
	return l
}

// openLane makes one more; the lock is held.
func (d *device) openLane() (*lane, error) {
	l, err := d.open()
	if err == nil {
		d.lanes = append(d.lanes, l)
	}
	return l, err
}

func (d *device) give(l *lane) {
	d.mutex.Lock()
	d.idle = append(d.idle, l)
	d.mutex.Unlock()
	d.turn.Signal()
}

// open makes a lane.
func (d *device) open() (*lane, error) {
	staging, err := d.runtime.AllocateHost(driver.Pinned, stagingBytes)
	if err != nil {
		return nil, err
	}
	handle, err := d.runtime.AcquireStream(0)
	if err == nil {
		var stream *gpu.Stream
		if stream, err = gpu.FindStream(handle); err == nil {
			return &lane{Stream: stream, handle: handle, staging: staging}, nil
		}
	}
	_ = d.runtime.FreeHost(driver.Pinned, staging)
	return nil, err
}

// close ends the device's lanes and kernels, and gives back what the runtime keeps for pages. Nobody uses them.
func (d *device) close() {
	if d.lent != nil {
		d.lent()
	}
	if d.drained.lane != nil {
		d.lanes = append(d.lanes, d.drained.lane)
	}
	for _, l := range d.lanes {
		_ = l.Synchronize() // what was freed on it is past then
		_ = gpu.ReleaseStream(l.handle)
		_ = d.runtime.FreeHost(driver.Pinned, l.staging)
	}
	if d.kernels != nil {
		_ = d.kernels.Unload()
	}
	d.trim()
}

// trim gives back what the runtime keeps for pages, also those of other contexts, as far as it is free.
func (d *device) trim() {
	if err := d.runtime.Trim(0); err != nil && !d.runtime.Lost() && status.CodeOf(err) != status.StaleHandle {
		log.Logf(log.Warning, "cannot give back memory of device %d: %v", d.runtime.Device().Info().Ordinal, err)
	}
}

// run queues work on a lane and waits until it is done.
func (c *context) run(ordinal int32, work func(d *device, l *lane) error) error {
	d, err := c.device(ordinal)
	if err != nil {
		return err
	}
	l, err := d.take()
	if err != nil {
		return c.met(ordinal, d, err)
	}
	defer d.give(l)
	return c.met(ordinal, d, cmp.Or(work(d, l), l.Synchronize())) // also what was queued before an error is done then
}

// Allocate is residency.Devices'.
func (c *context) Allocate(ordinal int32, bytes uint64, zeroed bool) (memory residency.DeviceMemory, err error) {
	err = c.run(ordinal, func(d *device, l *lane) error {
		handle, address, err := d.runtime.Allocate(gpu.Request{Bytes: bytes, Stream: l.Stream, Tag: tag(), Owned: true})
		if err != nil {
			return err
		}
		memory = residency.DeviceMemory{Device: ordinal, Address: uintptr(address), Block: handle}
		if !zeroed {
			return nil
		}
		return l.Fill(address, 0, bytes)
	})
	if err != nil && memory.Block != 0 {
		c.Free(memory)
	}
	return memory, err
}

// Free is residency.Devices'.
func (c *context) Free(memory residency.DeviceMemory) {
	if err := gpu.FreeOwned(memory.Block); err != nil {
		log.Logf(log.Warning, "cannot free the block of a page on device %d: %v", memory.Device, err)
	}
}

// Share is residency.Devices'.
func (c *context) Share(memory residency.DeviceMemory) error { return gpu.Share(memory.Block) }

// OnLack is residency.Devices'.
func (c *context) OnLack(ordinal int32, giveBack func(bytes uint64) uint64) {
	if d, err := c.device(ordinal); err == nil {
		d.lent = d.runtime.Lend(giveBack)
	}
}

// Adopt is residency.Devices'. Memory in a live block, of the program's or of a page, is used as that block.
func (c *context) Adopt(ordinal int32, address uintptr, bytes uint64, stream uintptr) (residency.DeviceMemory, error) {
	d, err := c.device(ordinal)
	if err != nil {
		return residency.DeviceMemory{}, err
	}
	first, last := driver.Address(address), driver.Address(address)+driver.Address(bytes-1)
	for _, end := range []driver.Address{first, last} {
		holds, err := d.runtime.Device().Holds(end)
		if err != nil {
			return residency.DeviceMemory{}, c.met(ordinal, d, err)
		}
		if !holds {
			return residency.DeviceMemory{}, status.Errorf(status.InvalidArgument,
				"%d bytes at 0x%x are not memory of device %d: address 0x%x is not", bytes, address, ordinal, uint64(end))
		}
	}
	if of, found := d.runtime.Around(first, bytes); found {
		if err := gpu.Share(of.Handle); err == nil { // else it has ended meanwhile
			if stream != 0 {
				err = d.runtime.Drain(stream)
			}
			if err != nil {
				_ = gpu.FreeOwned(of.Handle)
			}
			return residency.DeviceMemory{Device: ordinal, Address: address, Block: of.Handle}, c.met(ordinal, d, err)
		}
	}
	block, err := d.runtime.Wrap(first, bytes, tag(), stream)
	return residency.DeviceMemory{Device: ordinal, Address: address, Block: block}, c.met(ordinal, d, err)
}

// Holder is residency.Devices'.
func (c *context) Holder(address uintptr) (int32, error) {
	list, err := c.set.List()
	if err != nil {
		return 0, err
	}
	c.mutex.Lock()
	ordinals := slices.Collect(maps.Keys(c.devices)) // those that stand in for others are not in the list
	c.mutex.Unlock()
	for _, of := range list {
		ordinals = append(ordinals, int32(of.Ordinal))
	}
	for _, ordinal := range ordinals {
		d, err := c.device(ordinal)
		if err != nil {
			return 0, err
		}
		if holds, err := d.runtime.Device().Holds(driver.Address(address)); holds || err != nil {
			return ordinal, c.met(ordinal, d, err)
		}
	}
	return 0, status.Errorf(status.InvalidArgument, "address 0x%x is memory of none of the %d devices", address, len(list))
}

// Await is residency.Devices'.
func (c *context) Await(write bool, memory ...residency.DeviceMemory) error {
	access := gpu.Read
	if write {
		access = gpu.ReadWrite
	}
	var few [256]uint64 // a group of a sync
	handles := few[:0]
	for _, one := range memory {
		handles = append(handles, one.Block)
	}
	err := gpu.Await(access, handles...)
	if status.CodeOf(err) == status.DeviceLost {
		if d, found := c.device(memory[0].Device); found == nil {
			return c.met(memory[0].Device, d, err)
		}
	}
	return err
}

// AllocateHost is residency.Devices'.
func (c *context) AllocateHost(location, ordinal int32, bytes uint64) (uintptr, error) {
	d, err := c.device(ordinal)
	if err != nil {
		return 0, err
	}
	address, err := d.runtime.AllocateHost(kindOf(location), bytes)
	if err != nil {
		return 0, c.met(ordinal, d, err)
	}
	clear(unsafe.Slice((*byte)(unsafe.Add(unsafe.Pointer(nil), uintptr(address))), bytes))
	return uintptr(address), nil
}

// FreeHost is residency.Devices'. A block that has ended with its runtime has nothing queued.
func (c *context) FreeHost(location int32, memory residency.DeviceMemory) {
	d, err := c.device(memory.Device)
	if err == nil && memory.Block != 0 {
		awaited := c.Await(true, memory)
		if awaited = cmp.Or(awaited, gpu.FreeOwned(memory.Block)); status.CodeOf(awaited) != status.StaleHandle {
			err = awaited
		}
	}
	if err == nil || d != nil {
		err = cmp.Or(d.runtime.FreeHost(kindOf(location), driver.Address(memory.Address)), err)
	}
	if err != nil {
		log.Logf(log.Warning, "cannot free memory of a page at location %d of device %d: %v", location, memory.Device, err)
	}
}

// WrapHost is residency.Devices'.
func (c *context) WrapHost(ordinal int32, address uintptr, bytes uint64) (block uint64, err error) {
	d, err := c.device(ordinal)
	if err == nil {
		block, err = d.runtime.Wrap(driver.Address(address), bytes, tag(), 0)
		err = c.met(ordinal, d, err)
	}
	return block, err
}

// AwaitHost is residency.Devices'. A device that is lost changes nothing any more: where all that wrote is done, the bytes are
// whole.
func (c *context) AwaitHost(location int32, memory residency.DeviceMemory) error {
	err := c.Await(true, memory)
	switch status.CodeOf(err) {
	case status.StaleHandle: // its runtime has ended, behind all work
		return nil
	case status.DeviceLost:
		return c.Await(false, memory)
	}
	if err != nil || location != abi.LocationUnified {
		return err
	}
	d, err := c.device(memory.Device)
	if err != nil || d.runtime.Device().Info().ManagedHints {
		return err
	}
	info, err := gpu.FindBlock(memory.Block)
	if err == nil && info.Uses > 0 {
		err = status.Errorf(status.Busy, "device %d (%s) does not let the host touch managed memory beside it: "+
			"%d uses of block 0x%016x have not ended", memory.Device, d.runtime.Device().Info().Name, info.Uses, memory.Block)
	}
	return err
}

// Prefetch is residency.Devices'.
func (c *context) Prefetch(ordinal int32, toDevice bool, list [][]byte) error {
	return c.run(ordinal, func(d *device, l *lane) error {
		if !d.runtime.Device().Info().ManagedHints {
			return nil
		}
		for _, memory := range list {
			if err := l.Prefetch(addressOf(memory), uint64(len(memory)), !toDevice); err != nil {
				return err
			}
		}
		return nil
	})
}

// Advise is residency.Devices'. What a preferred device is told comes from that device.
func (c *context) Advise(ordinal int32, memory []byte, before, now residency.Advice) error {
	err := c.advise(ordinal, memory, now)
	if err != nil {
		_ = c.advise(ordinal, memory, before)
	}
	return err
}

func (c *context) advise(ordinal int32, memory []byte, advice residency.Advice) error {
	use, place := driver.NotReadMostly, driver.PreferNowhere
	if advice.ReadMostly {
		use = driver.ReadMostly
	}
	preferred := ordinal
	switch {
	case advice.Preferred >= 0:
		preferred, place = advice.Preferred, driver.PreferDevice
	case advice.Preferred == abi.DeviceHost:
		place = driver.PreferHost
	}
	for _, told := range []struct {
		device int32
		driver.Advice
	}{{preferred, place}, {ordinal, use}} {
		if err := c.run(told.device, func(_ *device, l *lane) error {
			return l.Advise(addressOf(memory), uint64(len(memory)), told.Advice)
		}); err != nil {
			return err
		}
	}
	return nil
}

func addressOf(memory []byte) driver.Address {
	return driver.Address(uintptr(unsafe.Pointer(unsafe.SliceData(memory))))
}

func kindOf(location int32) driver.Memory {
	if location == abi.LocationUnified {
		return driver.Managed
	}
	return driver.Pinned
}

// Read is residency.Devices'.
func (c *context) Read(ordinal int32, from uintptr, to []byte) error {
	if len(to) > stagingBytes {
		return c.move(ordinal, false, from, to)
	}
	return c.run(ordinal, func(_ *device, l *lane) error {
		bytes := uint64(len(to))
		err := l.Copy(driver.Copy{To: l.staging, From: driver.Address(from), Bytes: bytes})
		if err == nil {
			err = l.Synchronize()
		}
		if err == nil {
			copy(to, l.bytes())
		}
		return err
	})
}

// move moves a long range one way.
func (c *context) move(ordinal int32, toDevice bool, device uintptr, host []byte) error {
	carried, err := c.carry(ordinal, toDevice)
	if err != nil {
		return err
	}
	return cmp.Or(carried.Add([]residency.Transfer{{Device: device, Host: host}}), carried.End())
}

// Write is residency.Devices'.
func (c *context) Write(ordinal int32, to uintptr, from []byte) error {
	if len(from) > stagingBytes {
		return c.move(ordinal, true, to, from)
	}
	return c.run(ordinal, func(_ *device, l *lane) error { return l.upload(driver.Address(to), from) })
}

// upload brings bytes to the device, and returns when the last of them are on their way.
func (l *lane) upload(to driver.Address, from []byte) error {
	for done := 0; done < len(from); {
		if done > 0 { // the staging memory is in use until then
			if err := l.Synchronize(); err != nil {
				return err
			}
		}
		n := copy(l.bytes(), from[done:])
		if err := l.Copy(driver.Copy{To: to + driver.Address(done), From: l.staging, Bytes: uint64(n)}); err != nil {
			return err
		}
		done += n
	}
	return nil
}

// Copy is residency.Devices'. It runs on the device that is written to. Between devices of which only one stands in for a lost
// one, and which have different drivers, it goes over the host.
func (c *context) Copy(toDevice int32, to uintptr, fromDevice int32, from uintptr, bytes uint64) error {
	if (toDevice < abi.DeviceStandIn) != (fromDevice < abi.DeviceStandIn) {
		buffer := make([]byte, min(bytes, stagingBytes))
		for done := uint64(0); done < bytes; done += uint64(len(buffer)) {
			part := buffer[:min(bytes-done, uint64(len(buffer)))]
			if err := c.Read(fromDevice, from+uintptr(done), part); err != nil {
				return err
			}
			if err := c.Write(toDevice, to+uintptr(done), part); err != nil {
				return err
			}
		}
		return nil
	}
	return c.run(toDevice, func(_ *device, l *lane) error {
		return l.Copy(driver.Copy{To: driver.Address(to), From: driver.Address(from), Bytes: bytes})
	})
}

// Trim is residency.Devices'.
func (c *context) Trim() {
	c.mutex.Lock()
	all := slices.Collect(maps.Values(c.devices))
	c.mutex.Unlock()
	for _, d := range all {
		d.trim()
	}
}

// End is residency.Devices'.
func (c *context) End() {
	gpu.EndUsesOf(residency.Devices(c))
	c.set.End()
}

// Close is residency.Devices'.
func (c *context) Close() {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	for _, d := range c.devices {
		d.close()
	}
	c.set.Close()
}
