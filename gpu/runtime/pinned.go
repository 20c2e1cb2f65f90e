// Pinned memory that belongs to no pool: what guards and tags that sleep keep.

package runtime

import "libmmsb/gpu/driver"

// pinned is a piece of it, which is charged like that of pools; address 0: none.
type pinned struct {
	address driver.Address
	bytes   uint64
}

// takePinned takes pinned memory, and does not wait for the device: a sleep has a time limit. No lock may be held that giving
// memory back needs. Errors: Limit (the budget of pinned memory), those of the driver.
func takePinned(device driver.Device, bytes uint64) (p pinned, err error) {
	again := func() error {
		if err := pinnedLedger.take(bytes); err != nil {
			return err
		}
		address, err := device.Allocate(driver.Pinned, bytes)
		if err != nil {
			pinnedLedger.Give(bytes)
			return err
		}
		p = pinned{address, bytes}
		return nil
	}
	err = pinnedLedger.seek(nil, bytes, attempt{}, again(), again)
	return p, err
}

// give gives it back. Where the device is lost its memory is gone, too.
func (p pinned) give(device driver.Device, lost bool) error {
	err := device.Free(driver.Pinned, p.address)
	if err == nil || lost {
		pinnedLedger.Give(p.bytes)
	}
	return err
}
