// Pinned memory that belongs to no pool: what guards and tags that sleep keep.

package runtime

import (
	"cmp"
	"slices"
	"sync"

	"libmmsb/gpu/driver"
)

// pinned is a piece of it, which is charged like that of pools; address 0: not allocated yet.
type pinned struct {
	address driver.Address
	bytes   uint64
}

// takePinned takes pinned memory, and does not wait for the device: a sleep has a time limit. No lock may be held that giving
// memory back needs. Errors: Limit (the budget of pinned memory), those of the driver.
func takePinned(device driver.Device, bytes uint64) (p pinned, err error) {
	if err = chargePinned(bytes); err != nil {
		return p, err
	}
	p.bytes = bytes
	if err = p.allocate(device); err != nil {
		pinnedLedger.Give(bytes)
	}
	return p, err
}

// chargePinned charges pinned memory that is to be allocated. Locks and errors: as takePinned.
func chargePinned(bytes uint64) error {
	again := func() error { return pinnedLedger.take(bytes) }
	return pinnedLedger.seek(nil, bytes, attempt{}, again(), again)
}

// allocate asks the driver for what is charged. Locks and errors: as takePinned.
func (p *pinned) allocate(device driver.Device) error {
	again := func() (err error) {
		p.address, err = device.Allocate(driver.Pinned, p.bytes)
		return err
	}
	return pinnedLedger.seek(nil, p.bytes, attempt{}, again(), again)
}

// give gives it back. Where the device is lost its memory is gone, too.
func (p pinned) give(device driver.Device, lost bool) (err error) {
	if p.address != 0 {
		err = device.Free(driver.Pinned, p.address)
	}
	if err == nil || lost {
		pinnedLedger.Give(p.bytes)
	}
	return err
}

// pinnedCache keeps pinned memory for the next sleep: a driver takes longer to pin memory than to copy to it ten times. What is
// free stays charged, and goes back when somebody lacks pinned memory.
type pinnedCache struct {
	atRest
	device driver.Device
	mutex  sync.Mutex // never held while the driver is called
	free   []pinned   // by size
	joined bool       // its ledger asks it for memory
}

// pinnedStep is what sizes in a cache are multiples of, so that what served one tag serves others.
const pinnedStep = 1 << 20

// take finds memory for each of several sizes: the smallest that is free, or what is charged now and has yet to be allocated; all
// of it or none. Locks and errors: as takePinned, but for the driver's.
func (c *pinnedCache) take(sizes []uint64) (taken []pinned, err error) {
	var missing uint64
	c.mutex.Lock()
	if !c.joined {
		pinnedLedger.join(c)
		c.joined = true
	}
	for _, bytes := range sizes {
		at := c.place(bytes)
		if at < len(c.free) {
			taken = append(taken, c.free[at])
			c.free = slices.Delete(c.free, at, at+1)
			continue
		}
		bytes = (bytes + pinnedStep - 1) / pinnedStep * pinnedStep
		taken = append(taken, pinned{bytes: bytes})
		missing += bytes
	}
	c.mutex.Unlock()
	if err = chargePinned(missing); err != nil {
		c.put(slices.DeleteFunc(taken, func(p pinned) bool { return p.address == 0 }))
		return nil, err
	}
	return taken, nil
}

// place is where memory of so many bytes is in the order of what is free, or would be. The lock is held.
func (c *pinnedCache) place(bytes uint64) int {
	at, _ := slices.BinarySearchFunc(c.free, bytes, func(p pinned, bytes uint64) int { return cmp.Compare(p.bytes, bytes) })
	return at
}

// put keeps memory that nothing uses any more; what was not allocated is not charged any more.
func (c *pinnedCache) put(unused []pinned) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	for _, p := range unused {
		if p.address == 0 {
			pinnedLedger.Give(p.bytes)
			continue
		}
		c.free = slices.Insert(c.free, c.place(p.bytes), p)
	}
}

// trim gives back what is free, the largest first, until these are so many bytes. What the driver does not take stays.
func (c *pinnedCache) trim(bytes uint64, lost bool) (returned uint64, err error) {
	for returned < bytes {
		c.mutex.Lock()
		last := len(c.free) - 1
		if last < 0 {
			c.mutex.Unlock()
			break
		}
		p := c.free[last]
		c.free = c.free[:last]
		c.mutex.Unlock()
		if err = cmp.Or(err, p.give(c.device, lost)); err == nil || lost {
			returned += p.bytes
			continue
		}
		c.put([]pinned{p})
		break
	}
	return returned, err
}

// giveBack implements lender.
func (c *pinnedCache) giveBack(bytes uint64) uint64 {
	returned, _ := c.trim(bytes, false)
	return returned
}

// kept implements lender.
func (c *pinnedCache) kept() (bytes uint64) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	for _, p := range c.free {
		bytes += p.bytes
	}
	return bytes
}

// close gives everything back.
func (c *pinnedCache) close(lost bool) error {
	pinnedLedger.leave(c)
	_, err := c.trim(c.kept(), lost)
	return err
}
