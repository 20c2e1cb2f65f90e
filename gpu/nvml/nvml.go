// Package nvml tells how NVIDIA's devices are doing and how they are connected, by their management library (NVML), which comes
// with the driver. Without the library there is no telemetry, and nothing else is missing.
package nvml

import (
	"cmp"
	"fmt"
	"math"
	"os"
	"strings"
	"sync"

	"libmmsb/core/capability"
	"libmmsb/core/status"
)

// unknown stands for a number that the library or the device does not tell.
const unknown = -1

// Device is how one device is doing. Numbers are -1 and texts empty where the library or the device does not tell.
type Device struct {
	Name, UUID    string
	PCI           string // "0000:65:00.0", which gpu/driver's Info has, too
	DriverVersion string

	MemoryTotal int64 // in bytes
	MemoryUsed  int64 // by everybody, without what the driver keeps for itself
	// MemoryOfThisProcess is the part of it that this process has, 0 where the driver lists others only. In a container with its
	// own process numbers the driver may list this process under another one: then it is among the others.
	MemoryOfThisProcess int64
	MemoryOfOthers      int64

	Utilization       int // percent of the last moment with a kernel running
	MemoryUtilization int // percent of it with memory being read or written
	Temperature       int // degrees Celsius

	PCIeGeneration, PCIeLanes int // as they are now: an idle link is slow
	NUMANode                  int // of the host, nearest to the device
	Links                     []Link
}

// Link is an NVLink that is up.
type Link struct {
	Number, Version int
	Remote          string // the PCI address of the device or switch at the other end
}

// Path is what lies between two devices: the larger, the farther. The values are NVML's.
type Path int

// The paths between two devices.
const (
	PathUnknown     Path = unknown
	SameBoard       Path = 0
	OneSwitch       Path = 10
	SeveralSwitches Path = 20
	HostBridge      Path = 30
	NUMANode        Path = 40
	AcrossSystem    Path = 50
)

// maximalLinks is how many links a device can have.
const maximalLinks = 18

// library is NVML.
type library interface {
	driverVersion() (string, result)
	count() (int, result)
	device(index int) (device, result)
}

// device is a device of NVML's.
type device interface {
	name() (string, result)
	uuid() (string, result)
	pci() (string, result)
	memory() (memory, result)
	processes() ([]process, result) // those that compute
	utilization() (gpu, memory int, r result)
	temperature() (int, result)
	pcieGeneration() (int, result)
	pcieLanes() (int, result)
	numaNode() (int, result)
	path(other device) (Path, result)
	link(index int) (link Link, up bool, r result)
}

type memory struct{ total, used uint64 }

type process struct {
	id    int
	bytes uint64 // noBytes where the driver does not tell
}

const noBytes = math.MaxUint64

// Library is NVML, loaded and started. Its methods may be called from any goroutine; each asks the driver anew, which can take
// milliseconds.
type Library struct {
	library library
	self    int // this process' number
}

var opened struct {
	sync.Mutex
	library *Library
}

// Open loads and starts NVML, once in a process. Errors: Unsupported where there is no library or no driver, with what was
// looked for and where; Device. A failure is tried again at the next call.
func Open() (*Library, error) {
	opened.Lock()
	defer opened.Unlock()
	if opened.library == nil {
		found, err := load(libraryName)
		if err != nil {
			return nil, err
		}
		opened.library = &Library{found, os.Getpid()}
	}
	return opened.library, nil
}

// Capability says whether this process has NVML.
func Capability() capability.Capability {
	library, err := Open()
	if err != nil {
		return capability.Capability{Name: "nvml", Reason: status.Of(err).Text}
	}
	version, r := library.library.driverVersion()
	if r != success {
		return capability.Capability{Name: "nvml", Reason: r.err("cannot query the driver's version").Error()}
	}
	return capability.Capability{Name: "nvml", Available: true, Reason: "driver " + version}
}

// Devices tells of every device, in the order of NVML, which is that of their PCI addresses. Errors: DeviceLost, Device.
func (l *Library) Devices() ([]Device, error) {
	handles, err := l.handles()
	if err != nil {
		return nil, err
	}
	version, _ := l.library.driverVersion()
	devices := make([]Device, 0, len(handles))
	for i, handle := range handles {
		described, err := l.describe(handle)
		if err != nil {
			e := status.Of(err)
			return nil, status.Errorf(e.Code, "device %d: %s", i, e.Text)
		}
		described.DriverVersion = version
		devices = append(devices, described)
	}
	return devices, nil
}

// Paths is what lies between any two devices, in the order of Devices; between a device and itself SameBoard. Errors:
// DeviceLost, Device.
func (l *Library) Paths() ([][]Path, error) {
	handles, err := l.handles()
	if err != nil {
		return nil, err
	}
	paths := make([][]Path, len(handles))
	for i, from := range handles {
		paths[i] = make([]Path, len(handles))
		for j, to := range handles {
			if i == j {
				continue
			}
			path, r := from.path(to)
			if paths[i][j], err = told(path, PathUnknown, r, "the path between devices"); err != nil {
				return nil, err
			}
		}
	}
	return paths, nil
}

func (l *Library) handles() ([]device, error) {
	count, r := l.library.count()
	if r != success {
		return nil, r.err("cannot count devices")
	}
	handles := make([]device, count)
	for i := range handles {
		if handles[i], r = l.library.device(i); r != success {
			return nil, r.err(fmt.Sprintf("cannot find device %d", i))
		}
	}
	return handles, nil
}

func (l *Library) describe(from device) (Device, error) {
	var d Device
	var failure error
	note := func(err error) { failure = cmp.Or(failure, err) }
	note(ask(&d.Name, "", "the name", from.name))
	note(ask(&d.UUID, "", "the UUID", from.uuid))
	note(ask(&d.PCI, "", "the PCI address", from.pci))
	note(ask(&d.Temperature, unknown, "the temperature", from.temperature))
	note(ask(&d.PCIeGeneration, unknown, "the PCIe generation", from.pcieGeneration))
	note(ask(&d.PCIeLanes, unknown, "the PCIe lanes", from.pcieLanes))
	note(ask(&d.NUMANode, unknown, "the NUMA node", from.numaNode))
	note(d.setUtilization(from))
	note(d.setMemory(from, l.self))
	note(d.setLinks(from))
	return d, failure
}

// ask stores what a device tells, or what stands for it.
func ask[T any](to *T, otherwise T, what string, from func() (T, result)) (err error) {
	value, r := from()
	*to, err = told(value, otherwise, r, what)
	return err
}

func (d *Device) setUtilization(from device) error {
	gpu, memory, r := from.utilization()
	if r != success {
		gpu, memory = unknown, unknown
	}
	d.Utilization, d.MemoryUtilization = gpu, memory
	_, err := told(0, 0, r, "the utilisation")
	return err
}

func (d *Device) setMemory(from device, self int) error {
	d.MemoryTotal, d.MemoryUsed, d.MemoryOfThisProcess, d.MemoryOfOthers = unknown, unknown, unknown, unknown
	memory, r := from.memory()
	if _, err := told(0, 0, r, "the memory"); err != nil || r != success {
		return err
	}
	d.MemoryTotal, d.MemoryUsed = int64(memory.total), int64(memory.used)
	processes, r := from.processes()
	if _, err := told(0, 0, r, "the processes"); err != nil || r != success {
		return err
	}
	own := uint64(0)
	for _, process := range processes {
		if process.id != self {
			continue
		}
		if process.bytes == noBytes {
			return nil
		}
		own += process.bytes // one for each instance of the device that it uses
	}
	d.MemoryOfThisProcess = int64(min(own, memory.used))
	d.MemoryOfOthers = d.MemoryUsed - d.MemoryOfThisProcess
	return nil
}

func (d *Device) setLinks(from device) error {
	for i := range maximalLinks {
		link, up, r := from.link(i)
		if r == invalidArgument {
			return nil // no more links
		}
		if _, err := told(0, 0, r, "the NVLinks"); err != nil {
			return err
		}
		if up {
			d.Links = append(d.Links, link)
		}
	}
	return nil
}

// told is a value, or what stands for one that is not told: only a device that fails is an error.
func told[T any](value, otherwise T, r result, what string) (T, error) {
	switch r {
	case success:
		return value, nil
	case notSupported, noPermission, functionNotFound, notFound, invalidArgument, noData:
		return otherwise, nil
	}
	return otherwise, r.err("cannot query " + what)
}

// shortPCI is an address as the CUDA driver writes it: NVML's domain has eight digits.
func shortPCI(text string) string {
	text = strings.ToLower(text)
	if domain, rest, found := strings.Cut(text, ":"); found && len(domain) == 8 && strings.HasPrefix(domain, "0000") {
		return domain[4:] + ":" + rest
	}
	return text
}

// result is NVML's own.
type result int

const (
	success          result = 0
	invalidArgument  result = 2
	notSupported     result = 3
	noPermission     result = 4
	notFound         result = 6
	insufficientSize result = 7
	driverNotLoaded  result = 9
	functionNotFound result = 13
	gpuIsLost        result = 15
	noMemory         result = 20
	noData           result = 21
)

var resultNames = map[result]string{
	1: "NVML_ERROR_UNINITIALIZED", 2: "NVML_ERROR_INVALID_ARGUMENT", 3: "NVML_ERROR_NOT_SUPPORTED", 4: "NVML_ERROR_NO_PERMISSION",
	6: "NVML_ERROR_NOT_FOUND", 7: "NVML_ERROR_INSUFFICIENT_SIZE", 8: "NVML_ERROR_INSUFFICIENT_POWER",
	9: "NVML_ERROR_DRIVER_NOT_LOADED", 10: "NVML_ERROR_TIMEOUT", 11: "NVML_ERROR_IRQ_ISSUE", 13: "NVML_ERROR_FUNCTION_NOT_FOUND",
	14: "NVML_ERROR_CORRUPTED_INFOROM", 15: "NVML_ERROR_GPU_IS_LOST", 16: "NVML_ERROR_RESET_REQUIRED",
	17: "NVML_ERROR_OPERATING_SYSTEM", 18: "NVML_ERROR_LIB_RM_VERSION_MISMATCH", 20: "NVML_ERROR_MEMORY",
	21:  "NVML_ERROR_NO_DATA",
	999: "NVML_ERROR_UNKNOWN",
}

// String is the result's name and number.
func (r result) String() string {
	if name, known := resultNames[r]; known {
		return fmt.Sprintf("%s (%d)", name, int(r))
	}
	return fmt.Sprintf("NVML result %d", int(r))
}

func (r result) err(doing string) error {
	code := status.Device
	switch r {
	case gpuIsLost:
		code = status.DeviceLost
	case noMemory:
		code = status.OutOfMemory
	}
	return status.Errorf(code, "%s: %s", doing, r)
}
