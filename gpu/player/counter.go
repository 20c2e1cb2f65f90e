// Counting what a runtime asks of the driver.

package player

import (
	"sync"

	"libmmsb/gpu/driver"
)

// Calls are how often the driver was asked for memory without an address and to map it, and for memory with an address, in the
// order of streams or at once.
type Calls struct {
	Created, Destroyed, Mapped, Unmapped uint64
	Allocated, Freed, Trimmed            uint64
}

// All is their sum.
func (c Calls) All() uint64 {
	return c.Created + c.Destroyed + c.Mapped + c.Unmapped + c.Allocated + c.Freed + c.Trimmed
}

// counter is a device that counts calls for memory, and the bytes that they gave.
//
// Without a pool the driver keeps what was freed, and says itself how much of its memory is taken: it is asked where more blocks
// are live than before, and every few allocations. What other programs take meanwhile counts, too.
type counter struct {
	driver.Device
	ordered bool   // there is no pool
	free    uint64 // of the device's memory at the beginning, where there is no pool

	mutex          sync.Mutex
	calls          Calls
	physical       map[driver.Physical]uint64 // bytes
	plain          map[driver.Address]uint64
	reserved, most uint64
}

func newCounter(device driver.Device, ordered bool) (*counter, error) {
	c := &counter{Device: device, ordered: ordered, physical: make(map[driver.Physical]uint64),
		plain: make(map[driver.Address]uint64)}
	var err error
	if ordered {
		c.free, _, err = device.MemoryInfo()
	}
	return c, err
}

func (c *counter) read() (calls Calls, most uint64) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return c.calls, c.most
}

// look asks the driver how much memory is taken, where it keeps what was freed.
func (c *counter) look() error {
	if !c.ordered {
		return nil
	}
	free, _, err := c.MemoryInfo()
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if err == nil {
		c.most = max(c.most, c.free-min(c.free, free))
	}
	return err
}

// came counts bytes that the driver gave, and went those that it has again. The lock is held.
func (c *counter) came(bytes uint64) {
	c.reserved += bytes
	c.most = max(c.most, c.reserved)
}

func (c *counter) went(bytes uint64) { c.reserved -= bytes }

// CreatePhysical counts.
func (c *counter) CreatePhysical(bytes uint64) (driver.Physical, error) {
	physical, err := c.Device.CreatePhysical(bytes)
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.calls.Created++
	if err == nil {
		c.physical[physical] = bytes
		c.came(bytes)
	}
	return physical, err
}

// DestroyPhysical counts.
func (c *counter) DestroyPhysical(physical driver.Physical) error {
	err := c.Device.DestroyPhysical(physical)
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.calls.Destroyed++
	if err == nil {
		c.went(c.physical[physical])
		delete(c.physical, physical)
	}
	return err
}

// Map counts.
func (c *counter) Map(address driver.Address, peers bool, memory ...driver.Physical) error {
	c.mutex.Lock()
	c.calls.Mapped += uint64(len(memory))
	c.mutex.Unlock()
	return c.Device.Map(address, peers, memory...)
}

// Unmap counts.
func (c *counter) Unmap(address driver.Address) error {
	c.mutex.Lock()
	c.calls.Unmapped++
	c.mutex.Unlock()
	return c.Device.Unmap(address)
}

// Allocate counts.
func (c *counter) Allocate(kind driver.Memory, bytes uint64) (driver.Address, error) {
	address, err := c.Device.Allocate(kind, bytes)
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.calls.Allocated++
	if err == nil && kind == driver.Plain {
		c.plain[address] = bytes
		c.came(bytes)
	}
	return address, err
}

// Free counts.
func (c *counter) Free(kind driver.Memory, address driver.Address) error {
	err := c.Device.Free(kind, address)
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.calls.Freed++
	if err == nil && kind == driver.Plain {
		c.went(c.plain[address])
		delete(c.plain, address)
	}
	return err
}

// AllocateOrdered counts.
func (c *counter) AllocateOrdered(stream driver.Stream, bytes uint64) (driver.Address, error) {
	c.mutex.Lock()
	c.calls.Allocated++
	c.mutex.Unlock()
	return c.Device.AllocateOrdered(stream, bytes)
}

// FreeOrdered counts.
func (c *counter) FreeOrdered(stream driver.Stream, address driver.Address) error {
	c.mutex.Lock()
	c.calls.Freed++
	c.mutex.Unlock()
	return c.Device.FreeOrdered(stream, address)
}

// TrimOrdered counts.
func (c *counter) TrimOrdered(keep uint64) error {
	c.mutex.Lock()
	c.calls.Trimmed++
	c.mutex.Unlock()
	return c.Device.TrimOrdered(keep)
}
