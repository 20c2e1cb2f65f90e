// Loading NVML and calling its functions.

package nvml

/*
#cgo CFLAGS: -std=gnu11 -O2 -Wall
#cgo linux LDFLAGS: -ldl
#include "table.h"
#include <stdlib.h>

#define CALL(name, parameters, arguments) \
    static inline int call_##name parameters { \
        return mmsb__nvml.name arguments; \
    }
MMSB__NVML_FUNCTIONS(CALL)

static inline unsigned int memory_version(void) {
    return MMSB__NVML_MEMORY_VERSION;
}
*/
import "C"

import (
	"math/bits"
	"unsafe"

	"libmmsb/core/environment"
	"libmmsb/core/status"
)

const libraryName = "libnvidia-ml.so.1"

// load finds the library and starts it. Errors: Unsupported where there is none, or where it has no driver; Device.
func load(name string) (library, error) {
	text := C.CString(name)
	defer C.free(unsafe.Pointer(text))
	if failure := C.mmsb__nvml_load(text); failure != nil {
		return nil, status.Errorf(status.Unsupported, "cannot load NVML with LD_LIBRARY_PATH=%q: %s",
			environment.Get("LD_LIBRARY_PATH"), C.GoString(failure))
	}
	switch r := result(C.call_nvmlInit_v2()); r {
	case success:
		return native{}, nil
	case driverNotLoaded, functionNotFound:
		return nil, status.Errorf(status.Unsupported, "cannot start %s: %s", name, r)
	default:
		return nil, r.err("cannot start " + name)
	}
}

type native struct{}

// str calls a function that writes a text.
func str(call func(text *C.char, bytes C.uint) C.int) (string, result) {
	var buffer [96]C.char // the longest that NVML has
	if r := result(call(&buffer[0], C.uint(len(buffer)))); r != success {
		return "", r
	}
	buffer[len(buffer)-1] = 0
	return C.GoString(&buffer[0]), success
}

func (native) driverVersion() (string, result) {
	return str(func(text *C.char, bytes C.uint) C.int { return C.call_nvmlSystemGetDriverVersion(text, bytes) })
}

func (native) count() (int, result) {
	var count C.uint
	r := result(C.call_nvmlDeviceGetCount_v2(&count))
	return int(count), r
}

func (native) device(index int) (device, result) {
	var handle C.mmsb__nvml_device_t
	r := result(C.call_nvmlDeviceGetHandleByIndex_v2(C.uint(index), &handle))
	return nativeDevice{handle}, r
}

type nativeDevice struct{ handle C.mmsb__nvml_device_t }

func (d nativeDevice) name() (string, result) {
	return str(func(text *C.char, bytes C.uint) C.int { return C.call_nvmlDeviceGetName(d.handle, text, bytes) })
}

func (d nativeDevice) uuid() (string, result) {
	return str(func(text *C.char, bytes C.uint) C.int { return C.call_nvmlDeviceGetUUID(d.handle, text, bytes) })
}

func (d nativeDevice) pci() (string, result) {
	var pci C.mmsb__nvml_pci_t
	r := result(C.call_nvmlDeviceGetPciInfo_v3(d.handle, &pci))
	return pciText(&pci), r
}

func (d nativeDevice) memory() (memory, result) {
	info := C.mmsb__nvml_memory_t{version: C.memory_version()}
	r := result(C.call_nvmlDeviceGetMemoryInfo_v2(d.handle, &info))
	return memory{uint64(info.total), uint64(info.used)}, r
}

func (d nativeDevice) processes() ([]process, result) {
	for room := 64; ; room *= 2 {
		list, count := make([]C.mmsb__nvml_process_t, room), C.uint(room)
		r := result(C.call_nvmlDeviceGetComputeRunningProcesses_v3(d.handle, &count, &list[0]))
		if r == insufficientSize && room < 1<<16 {
			continue
		}
		if r != success {
			return nil, r
		}
		found := make([]process, 0, count)
		for _, one := range list[:min(int(count), room)] {
			found = append(found, process{int(one.pid), uint64(one.bytes)})
		}
		return found, success
	}
}

func (d nativeDevice) utilization() (gpu, memory int, r result) {
	var rates C.mmsb__nvml_utilization_t
	r = result(C.call_nvmlDeviceGetUtilizationRates(d.handle, &rates))
	return int(rates.gpu), int(rates.memory), r
}

func (d nativeDevice) temperature() (int, result) {
	const ofTheGPU = 0
	var degrees C.uint
	r := result(C.call_nvmlDeviceGetTemperature(d.handle, ofTheGPU, &degrees))
	return int(degrees), r
}

func (d nativeDevice) pcieGeneration() (int, result) {
	var generation C.uint
	r := result(C.call_nvmlDeviceGetCurrPcieLinkGeneration(d.handle, &generation))
	return int(generation), r
}

func (d nativeDevice) pcieLanes() (int, result) {
	var lanes C.uint
	r := result(C.call_nvmlDeviceGetCurrPcieLinkWidth(d.handle, &lanes))
	return int(lanes), r
}

func (d nativeDevice) numaNode() (int, result) {
	const ofTheNode, words = 0, 16
	var nodes [words]C.ulong
	r := result(C.call_nvmlDeviceGetMemoryAffinity(d.handle, words, &nodes[0], ofTheNode))
	for i, word := range nodes {
		if word != 0 {
			return i*bits.UintSize + bits.TrailingZeros(uint(word)), r
		}
	}
	return unknown, r
}

func (d nativeDevice) path(other device) (Path, result) {
	var level C.int
	r := result(C.call_nvmlDeviceGetTopologyCommonAncestor(d.handle, other.(nativeDevice).handle, &level))
	return Path(level), r
}

func (d nativeDevice) link(index int) (Link, bool, result) {
	var active C.int
	if r := result(C.call_nvmlDeviceGetNvLinkState(d.handle, C.uint(index), &active)); r != success || active == 0 {
		return Link{}, false, r
	}
	var version C.uint
	if r := result(C.call_nvmlDeviceGetNvLinkVersion(d.handle, C.uint(index), &version)); r != success {
		return Link{}, false, r
	}
	var remote C.mmsb__nvml_pci_t
	r := result(C.call_nvmlDeviceGetNvLinkRemotePciInfo_v2(d.handle, C.uint(index), &remote))
	return Link{Number: index, Version: int(version), Remote: pciText(&remote)}, r == success, r
}

func pciText(pci *C.mmsb__nvml_pci_t) string {
	pci.text[len(pci.text)-1] = 0
	return shortPCI(C.GoString(&pci.text[0]))
}
