// What this process has of a device's memory, and the budget that limits it.

package devices

import (
	"libmmsb/core/abi"
	"libmmsb/gpu/driver"
	"libmmsb/gpu/nvml"
	"libmmsb/gpu/runtime"
)

// ledgerOf is a device of the set, or nil for the pinned memory of the host, as runtime.MemoryOf takes it.
func (s *Set) ledgerOf(ordinal int) (driver.Device, error) {
	d, err := s.enter()
	if err != nil {
		return nil, err
	}
	defer s.users.RUnlock()
	if ordinal == abi.DeviceHost {
		return nil, nil
	}
	return d.Open(ordinal)
}

// SetBudget sets how many bytes of a device this process takes at most; 0: any number. Errors: StaleHandle, NoDevice, Device.
func (s *Set) SetBudget(ordinal int, bytes uint64) error {
	device, err := s.ledgerOf(ordinal)
	if err == nil {
		runtime.SetDeviceBudget(device, bytes)
	}
	return err
}

// Memory is what this process has of a device. Errors: as SetBudget.
func (s *Set) Memory(ordinal int) (runtime.DeviceMemory, error) {
	device, err := s.ledgerOf(ordinal)
	if err != nil {
		return runtime.DeviceMemory{}, err
	}
	return runtime.MemoryOf(device), nil
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
