// What this process has of a device's memory, and the budget that limits it.

package devices

import (
	"libmmsb/core/abi"
	"libmmsb/gpu/driver"
	"libmmsb/gpu/nvml"
	"libmmsb/gpu/runtime"
)

// onLedger calls work with a device of the set, or with nil for the pinned memory of the host, as runtime.MemoryOf takes it. The
// set does not end meanwhile. Errors: StaleHandle, NoDevice, Device.
func (s *Set) onLedger(ordinal int, work func(device driver.Device)) error {
	d, at, err := s.enter(ordinal)
	if err != nil {
		return err
	}
	defer s.users.RUnlock()
	var device driver.Device
	if ordinal != abi.DeviceHost {
		if device, err = d.Open(at); err != nil {
			return err
		}
	}
	work(device)
	return nil
}

// SetBudget sets how many bytes of a device this process takes at most; 0: any number. Errors: as onLedger.
func (s *Set) SetBudget(ordinal int, bytes uint64) error {
	return s.onLedger(ordinal, func(device driver.Device) { runtime.SetDeviceBudget(device, bytes) })
}

// Memory is what this process has of a device. Errors: as onLedger.
func (s *Set) Memory(ordinal int) (m runtime.DeviceMemory, err error) {
	err = s.onLedger(ordinal, func(device driver.Device) { m = runtime.MemoryOf(device) })
	return m, err
}

// othersUse is runtime.Others: what the telemetry tells.
func othersUse(info driver.Info) (bytes uint64, known bool) {
	if info.PCI == "" { // it is simulated
		return 0, false
	}
	library, err := nvml.Open()
	if err != nil {
		return 0, false
	}
	all, _ := library.Devices()
	for i := range all {
		if all[i].PCI == info.PCI && all[i].MemoryOfOthers >= 0 {
			return uint64(all[i].MemoryOfOthers), true
		}
	}
	return 0, false
}
