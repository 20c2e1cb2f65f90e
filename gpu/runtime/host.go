// Memory that the host reaches, too.

package runtime

import (
	"sync"

	"libmmsb/gpu/driver"
)

// hostMemory is what a runtime has of such memory: bytes by address.
type hostMemory struct {
	mutex sync.Mutex
	bytes map[driver.Address]uint64
}

// hostLedger is where such memory is charged: managed memory to the device, pinned memory to the host.
func (r *Runtime) hostLedger(kind driver.Memory) *DeviceLedger {
	if kind == driver.Managed {
		return r.ledger
	}
	return pinnedLedger
}

// AllocateHost takes memory that the host reaches at its own address, too: driver.Pinned or driver.Managed. It is there at once,
// and not defined. May block, as may FreeHost. Errors: Limit (the budget of the device or of pinned memory), those of the driver.
func (r *Runtime) AllocateHost(kind driver.Memory, bytes uint64) (driver.Address, error) {
	if err := r.enter(); err != nil {
		return 0, err
	}
	defer r.leave()
	var address driver.Address
	ledger := r.hostLedger(kind)
	again := func() (err error) {
		if err = ledger.take(bytes); err != nil {
			return err
		}
		if address, err = r.device.Allocate(kind, bytes); err != nil {
			ledger.Give(bytes)
		}
		return err
	}
	if err := ledger.help(nil, bytes, again(), again); err != nil {
		return 0, r.noteLost(err)
	}
	r.host.mutex.Lock()
	defer r.host.mutex.Unlock()
	if r.host.bytes == nil {
		r.host.bytes = make(map[driver.Address]uint64)
	}
	r.host.bytes[address] = bytes
	return address, nil
}

// FreeHost gives such memory back. No work that uses it may be queued or running.
func (r *Runtime) FreeHost(kind driver.Memory, address driver.Address) error {
	h := &r.host
	h.mutex.Lock()
	bytes := h.bytes[address]
	delete(h.bytes, address) // before it can be somebody else's
	h.mutex.Unlock()
	if err := r.device.Free(kind, address); err != nil {
		h.mutex.Lock()
		h.bytes[address] = bytes
		h.mutex.Unlock()
		return r.noteLost(err)
	}
	r.hostLedger(kind).Give(bytes)
	return nil
}
