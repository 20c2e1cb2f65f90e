// Memory that the host reaches, too.

package runtime

import "libmmsb/gpu/driver"

// AllocateHost takes memory that the host reaches at its own address, too: driver.Pinned or driver.Managed. It is there at once,
// and not defined. May block, as may FreeHost. Errors: those of the driver.
func (r *Runtime) AllocateHost(kind driver.Memory, bytes uint64) (driver.Address, error) {
	if err := r.enter(); err != nil {
		return 0, err
	}
	defer r.leave()
	address, err := r.device.Allocate(kind, bytes)
	return address, r.noteLost(err)
}

// FreeHost gives such memory back. No work that uses it may be queued or running.
func (r *Runtime) FreeHost(kind driver.Memory, address driver.Address) error {
	return r.noteLost(r.device.Free(kind, address))
}
