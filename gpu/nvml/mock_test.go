package nvml

import (
	"math/bits"
	"testing"

	theirs "github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/dgxa100"
	"github.com/stretchr/testify/require"

	"libmmsb/core/status"
)

// mocked is a library made of go-nvml's mock devices.
type mocked struct{ server theirs.Interface }

func (m mocked) driverVersion() (string, result) {
	version, r := m.server.SystemGetDriverVersion()
	return version, result(r)
}

func (m mocked) count() (int, result) {
	count, r := m.server.DeviceGetCount()
	return count, result(r)
}

func (m mocked) device(index int) (device, result) {
	device, r := m.server.DeviceGetHandleByIndex(index)
	return mockedDevice{device}, result(r)
}

type mockedDevice struct{ theirs.Device }

func (d mockedDevice) name() (string, result) {
	name, r := d.GetName()
	return name, result(r)
}

func (d mockedDevice) uuid() (string, result) {
	uuid, r := d.GetUUID()
	return uuid, result(r)
}

func (d mockedDevice) pci() (string, result) {
	info, r := d.GetPciInfo()
	return shortPCI(textOf(info.BusId[:])), result(r)
}

func (d mockedDevice) memory() (memory, result) {
	info, r := d.GetMemoryInfo()
	return memory{info.Total, info.Used}, result(r)
}

func (d mockedDevice) processes() ([]process, result) {
	list, r := d.GetComputeRunningProcesses()
	var found []process
	for _, one := range list {
		found = append(found, process{int(one.Pid), one.UsedGpuMemory})
	}
	return found, result(r)
}

func (d mockedDevice) utilization() (gpu, memory int, r result) {
	rates, code := d.GetUtilizationRates()
	return int(rates.Gpu), int(rates.Memory), result(code)
}

func (d mockedDevice) temperature() (int, result) {
	degrees, r := d.GetTemperature(theirs.TEMPERATURE_GPU)
	return int(degrees), result(r)
}

func (d mockedDevice) pcieGeneration() (int, result) {
	generation, r := d.GetCurrPcieLinkGeneration()
	return generation, result(r)
}

func (d mockedDevice) pcieLanes() (int, result) {
	lanes, r := d.GetCurrPcieLinkWidth()
	return lanes, result(r)
}

func (d mockedDevice) numaNode() (int, result) {
	nodes, r := d.GetMemoryAffinity(1, theirs.AFFINITY_SCOPE_NODE)
	if r != theirs.SUCCESS {
		return unknown, result(r)
	}
	return bits.TrailingZeros(nodes[0]), success
}

func (d mockedDevice) path(other device) (Path, result) {
	level, r := d.GetTopologyCommonAncestor(other.(mockedDevice).Device)
	return Path(level), result(r)
}

func (d mockedDevice) link(index int) (Link, bool, result) {
	state, r := d.GetNvLinkState(index)
	if r != theirs.SUCCESS || state != theirs.FEATURE_ENABLED {
		return Link{}, false, result(r)
	}
	version, _ := d.GetNvLinkVersion(index)
	remote, r := d.GetNvLinkRemotePciInfo(index)
	return Link{Number: index, Version: int(version), Remote: shortPCI(textOf(remote.BusId[:]))}, true, result(r)
}

func textOf(bytes []int8) string {
	var text []byte
	for _, b := range bytes {
		if b == 0 {
			break
		}
		text = append(text, byte(b))
	}
	return string(text)
}

func busID(text string) (id [32]int8) {
	for i, b := range []byte(text) {
		id[i] = int8(b)
	}
	return id
}

const self = 4242

// dgx is go-nvml's machine with eight A100, which tells what its own mock leaves out.
func dgx() (*Library, []*mock.Device) {
	server := dgxa100.New()
	var devices []*mock.Device
	for i, one := range server.Devices {
		device := &one.(*dgxa100.Device).Device
		device.GetComputeRunningProcessesFunc = func() ([]theirs.ProcessInfo, theirs.Return) {
			return []theirs.ProcessInfo{{Pid: 1, UsedGpuMemory: 5 << 20}, {Pid: self, UsedGpuMemory: uint64(i) << 20}},
				theirs.SUCCESS
		}
		device.GetPciInfoFunc = func() (theirs.PciInfo, theirs.Return) {
			return theirs.PciInfo{BusId: busID("0000" + one.(*dgxa100.Device).PciBusID)}, theirs.SUCCESS
		}
		device.GetMemoryInfoFunc = func() (theirs.Memory, theirs.Return) {
			return theirs.Memory{Total: 40 << 30, Used: 30 << 20, Free: 40<<30 - 30<<20}, theirs.SUCCESS
		}
		device.GetUtilizationRatesFunc = func() (theirs.Utilization, theirs.Return) {
			return theirs.Utilization{Gpu: 70, Memory: 30}, theirs.SUCCESS
		}
		device.GetTemperatureFunc = func(theirs.TemperatureSensors) (uint32, theirs.Return) {
			return 50 + uint32(i),
				theirs.SUCCESS
		}
		device.GetCurrPcieLinkGenerationFunc = func() (int, theirs.Return) { return 4, theirs.SUCCESS }
		device.GetCurrPcieLinkWidthFunc = func() (int, theirs.Return) { return 16, theirs.SUCCESS }
		device.GetMemoryAffinityFunc = func(int, theirs.AffinityScope) ([]uint, theirs.Return) {
			return []uint{1 << (i / 4)}, theirs.SUCCESS
		}
		device.GetTopologyCommonAncestorFunc = func(other theirs.Device) (theirs.GpuTopologyLevel, theirs.Return) {
			index, _ := other.GetIndex()
			if index/4 == i/4 {
				return theirs.TOPOLOGY_HOSTBRIDGE, theirs.SUCCESS
			}
			return theirs.TOPOLOGY_SYSTEM, theirs.SUCCESS
		}
		device.GetNvLinkStateFunc = func(link int) (theirs.EnableState, theirs.Return) {
			if link >= 12 {
				return 0, theirs.ERROR_INVALID_ARGUMENT
			}
			if link == 7 {
				return theirs.FEATURE_DISABLED, theirs.SUCCESS
			}
			return theirs.FEATURE_ENABLED, theirs.SUCCESS
		}
		device.GetNvLinkVersionFunc = func(int) (uint32, theirs.Return) { return 3, theirs.SUCCESS }
		device.GetNvLinkRemotePciInfoFunc = func(int) (theirs.PciInfo, theirs.Return) {
			return theirs.PciInfo{BusId: busID("00000000:C8:00.0")}, theirs.SUCCESS
		}
		devices = append(devices, device)
	}
	return &Library{mocked{server}, self}, devices
}

func TestDevicesOfAMachineWithEight(t *testing.T) {
	library, _ := dgx()
	devices, err := library.Devices()
	require.NoError(t, err)
	require.Len(t, devices, 8)
	for i, device := range devices {
		require.Equal(t, "Mock NVIDIA A100-SXM4-40GB", device.Name)
		require.NotEmpty(t, device.UUID)
		require.NotEmpty(t, device.DriverVersion)
		require.Regexp(t, `^0000:[0-9a-f]{2}:00\.0$`, device.PCI)
		require.Equal(t, int64(40<<30), device.MemoryTotal)
		require.Equal(t, int64(30<<20), device.MemoryUsed)
		require.Equal(t, int64(i<<20), device.MemoryOfThisProcess)
		require.Equal(t, int64((30-i)<<20), device.MemoryOfOthers)
		require.Equal(t, []int{70, 30, 50 + i, 4, 16, i / 4}, []int{device.Utilization, device.MemoryUtilization,
			device.Temperature, device.PCIeGeneration, device.PCIeLanes, device.NUMANode})
		require.Len(t, device.Links, 11, "12, of which one is down")
		require.Equal(t, Link{Number: 8, Version: 3, Remote: "0000:c8:00.0"}, device.Links[7])
	}
}

func TestPathsOfAMachineWithEight(t *testing.T) {
	library, _ := dgx()
	paths, err := library.Paths()
	require.NoError(t, err)
	for i := range 8 {
		for j := range 8 {
			want := AcrossSystem
			switch {
			case i == j:
				want = SameBoard
			case i/4 == j/4:
				want = HostBridge
			}
			require.Equal(t, want, paths[i][j])
		}
	}
}

func TestWhatADeviceDoesNotTellIsNotAnError(t *testing.T) {
	library, mocks := dgx()
	mocks[2].GetTemperatureFunc = func(theirs.TemperatureSensors) (uint32, theirs.Return) { return 9, theirs.ERROR_NOT_SUPPORTED }
	mocks[2].GetUtilizationRatesFunc = func() (theirs.Utilization, theirs.Return) {
		return theirs.Utilization{}, theirs.ERROR_NOT_SUPPORTED
	}
	mocks[2].GetComputeRunningProcessesFunc = func() ([]theirs.ProcessInfo, theirs.Return) {
		return nil,
			theirs.ERROR_NO_PERMISSION
	}
	mocks[2].GetNvLinkStateFunc = func(int) (theirs.EnableState, theirs.Return) { return 0, theirs.ERROR_NOT_SUPPORTED }
	mocks[2].GetMemoryAffinityFunc = func(int, theirs.AffinityScope) ([]uint, theirs.Return) {
		return nil, theirs.ERROR_NOT_SUPPORTED
	}
	mocks[3].GetComputeRunningProcessesFunc = func() ([]theirs.ProcessInfo, theirs.Return) {
		return []theirs.ProcessInfo{{Pid: self, UsedGpuMemory: noBytes}}, theirs.SUCCESS
	}
	mocks[4].GetMemoryInfoFunc = func() (theirs.Memory, theirs.Return) { return theirs.Memory{}, theirs.ERROR_FUNCTION_NOT_FOUND }
	mocks[5].GetComputeRunningProcessesFunc = func() ([]theirs.ProcessInfo, theirs.Return) { return nil, theirs.SUCCESS }

	devices, err := library.Devices()
	require.NoError(t, err)
	two := devices[2]
	for _, number := range []int{two.Temperature, two.Utilization, two.MemoryUtilization, two.NUMANode} {
		require.Equal(t, unknown, number)
	}
	require.Empty(t, two.Links)
	memory := func(d Device) []int64 {
		return []int64{d.MemoryTotal, d.MemoryUsed, d.MemoryOfThisProcess, d.MemoryOfOthers}
	}
	require.Equal(t, []int64{40 << 30, 30 << 20, unknown, unknown}, memory(two))
	require.Equal(t, []int64{40 << 30, 30 << 20, unknown, unknown}, memory(devices[3]))
	require.Equal(t, []int64{unknown, unknown, unknown, unknown}, memory(devices[4]))
	require.Equal(t, []int64{40 << 30, 30 << 20, 0, 30 << 20}, memory(devices[5]))
	require.Equal(t, 56, devices[6].Temperature)
}

func TestADeviceThatIsGoneIsAnError(t *testing.T) {
	library, mocks := dgx()
	mocks[6].GetTemperatureFunc = func(theirs.TemperatureSensors) (uint32, theirs.Return) { return 0, theirs.ERROR_GPU_IS_LOST }
	_, err := library.Devices()
	require.Equal(t, status.DeviceLost, status.CodeOf(err))
	require.ErrorContains(t, err, "device 6")
	require.ErrorContains(t, err, "NVML_ERROR_GPU_IS_LOST (15)")

	mocks[6].GetTopologyCommonAncestorFunc = func(theirs.Device) (theirs.GpuTopologyLevel, theirs.Return) {
		return 0, theirs.ERROR_UNKNOWN
	}
	_, err = library.Paths()
	require.Equal(t, status.Device, status.CodeOf(err))
}

func TestResultsHaveTheNamesOfTheRealHeader(t *testing.T) {
	for number, name := range map[theirs.Return]result{
		theirs.SUCCESS: success, theirs.ERROR_INVALID_ARGUMENT: invalidArgument, theirs.ERROR_NOT_SUPPORTED: notSupported,
		theirs.ERROR_NO_PERMISSION: noPermission, theirs.ERROR_NOT_FOUND: notFound,
		theirs.ERROR_INSUFFICIENT_SIZE: insufficientSize,
		theirs.ERROR_DRIVER_NOT_LOADED: driverNotLoaded, theirs.ERROR_FUNCTION_NOT_FOUND: functionNotFound,
		theirs.ERROR_GPU_IS_LOST: gpuIsLost, theirs.ERROR_MEMORY: noMemory, theirs.ERROR_NO_DATA: noData,
	} {
		require.Equal(t, result(number), name)
	}
	require.Equal(t, theirs.NVLINK_MAX_LINKS, maximalLinks)
	require.Equal(t, []Path{Path(theirs.TOPOLOGY_INTERNAL), Path(theirs.TOPOLOGY_SINGLE), Path(theirs.TOPOLOGY_MULTIPLE),
		Path(theirs.TOPOLOGY_HOSTBRIDGE), Path(theirs.TOPOLOGY_NODE), Path(theirs.TOPOLOGY_SYSTEM)},
		[]Path{SameBoard, OneSwitch, SeveralSwitches, HostBridge, NUMANode, AcrossSystem})
}
