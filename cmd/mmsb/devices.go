//go:build cgo

package main

import (
	"encoding/hex"
	"fmt"

	"libmmsb/cmd/mmsb/internal/command"
	"libmmsb/gpu/devices"
	"libmmsb/gpu/nvml"
)

const simulatedBytes = 1 << 30 // as in a context's defaults

// listDevices looks at the devices as libmmsb does. The management library may be missing.
var listDevices command.Devices = func(simulated int) ([]command.Device, error) {
	options := devices.Options{}
	if simulated > 0 {
		options = devices.Options{Simulate: devices.Always, Devices: simulated, Memory: simulatedBytes}
	}
	set := devices.NewSet(options)
	defer set.Close()
	found, err := set.List()
	if err != nil {
		return nil, err
	}
	telemetry := map[string]*command.Telemetry{}
	if simulated == 0 {
		telemetry = telemetryByPCI()
	}
	list := make([]command.Device, len(found))
	for i, d := range found {
		list[i] = command.Device{
			Ordinal: d.Ordinal, Name: d.Name, Simulated: d.Simulated, PCI: d.PCI, UUID: hex.EncodeToString(d.UUID[:]),
			Bytes:     d.Bytes,
			FreeBytes: d.Free, Capability: fmt.Sprintf("%d.%d", d.Major, d.Minor), Multiprocessors: d.Multiprocessors,
			Telemetry: telemetry[d.PCI],
		}
		if d.NUMANode >= 0 {
			list[i].NUMANode = &d.NUMANode
		}
	}
	return list, nil
}

var pathNames = map[nvml.Path]string{
	nvml.PathUnknown: "unknown", nvml.SameBoard: "same board", nvml.OneSwitch: "one switch",
	nvml.SeveralSwitches: "several switches",
	nvml.HostBridge:      "host bridge", nvml.NUMANode: "NUMA node", nvml.AcrossSystem: "system",
}

// telemetryByPCI is what the management library tells, empty where it does not.
func telemetryByPCI() map[string]*command.Telemetry {
	told := map[string]*command.Telemetry{}
	library, err := nvml.Open()
	if err != nil {
		return told
	}
	all, err := library.Devices()
	if err != nil {
		return told
	}
	paths, err := library.Paths()
	for i, d := range all {
		t := &command.Telemetry{
			BytesOfOthers: d.MemoryOfOthers, Utilization: d.Utilization, Temperature: d.Temperature,
			PCIeGeneration: d.PCIeGeneration,
			PCIeLanes:      d.PCIeLanes,
		}
		for _, link := range d.Links {
			t.Links = append(t.Links, link.Remote)
		}
		if err == nil {
			for other, path := range paths[i] {
				if other != i {
					t.Paths = append(t.Paths, fmt.Sprintf("%s: %s", all[other].PCI, pathNames[path]))
				}
			}
		}
		told[d.PCI] = t
	}
	return told
}
