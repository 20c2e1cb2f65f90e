// The exports behind the telemetry of device.c.

package main

/*
#include "mmsb.h"
*/
import "C"

import (
	"libmmsb/gpu/nvml"
)

//export mmsbgo_telemetry_list
func mmsbgo_telemetry_list(to *C.mmsb_telemetry_t, capacity C.size_t, count *C.size_t) (code C.mmsb_status_t) {
	defer guard(&code)
	library, err := nvml.Open()
	if err != nil {
		return failed(err)
	}
	devices, err := library.Devices()
	if err != nil {
		return failed(err)
	}
	return failed(listOf(devices, to, capacity, count, putTelemetry))
}

func putTelemetry(to *C.mmsb_telemetry_t, d *nvml.Device) {
	*to = C.mmsb_telemetry_t{
		memory_total: C.int64_t(d.MemoryTotal), memory_used: C.int64_t(d.MemoryUsed),
		memory_of_this_process: C.int64_t(d.MemoryOfThisProcess), memory_of_others: C.int64_t(d.MemoryOfOthers),
		utilization: C.int32_t(d.Utilization), memory_utilization: C.int32_t(d.MemoryUtilization),
		temperature: C.int32_t(d.Temperature), pcie_generation: C.int32_t(d.PCIeGeneration), pcie_lanes: C.int32_t(d.PCIeLanes),
		numa_node: C.int32_t(d.NUMANode), link_count: C.int32_t(min(len(d.Links), len(to.links))),
	}
	putText(&to.name[0], C.size_t(len(to.name)), d.Name)
	putText(&to.uuid[0], C.size_t(len(to.uuid)), d.UUID)
	putText(&to.pci[0], C.size_t(len(to.pci)), d.PCI)
	putText(&to.driver_version[0], C.size_t(len(to.driver_version)), d.DriverVersion)
	for i := range int(to.link_count) {
		link := &to.links[i]
		link.number, link.version = C.int32_t(d.Links[i].Number), C.int32_t(d.Links[i].Version)
		putText(&link.remote[0], C.size_t(len(link.remote)), d.Links[i].Remote)
	}
}

//export mmsbgo_telemetry_paths
func mmsbgo_telemetry_paths(to *C.int32_t, capacity C.size_t, count *C.size_t) (code C.mmsb_status_t) {
	defer guard(&code)
	library, err := nvml.Open()
	if err != nil {
		return failed(err)
	}
	rows, err := library.Paths()
	if err != nil {
		return failed(err)
	}
	var paths []C.int32_t
	for _, row := range rows {
		for _, path := range row {
			paths = append(paths, C.int32_t(path))
		}
	}
	return failed(list(paths, array(to, capacity), count))
}
