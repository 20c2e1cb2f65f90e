package nvml

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"libmmsb/core/capability"
	"libmmsb/core/status"
)

// standIn builds the library in testdata against the header that go-nvml brings.
func standIn(t *testing.T) string {
	module, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/NVIDIA/go-nvml").Output()
	require.NoError(t, err)
	header := filepath.Join(strings.TrimSpace(string(module)), "pkg/nvml")
	output := filepath.Join(t.TempDir(), "libnvidia-ml.so.1")
	command := exec.Command("gcc", "-shared", "-fPIC", "-Wall", "-Wextra", "-Werror", "-Wno-deprecated-declarations",
		"-DNVML_NO_UNVERSIONED_FUNC_DEFS", "-isystem", header, "testdata/stand_in.c", "-o", output)
	words, err := command.CombinedOutput()
	require.NoError(t, err, string(words))
	return output
}

func TestTheLibraryIsAskedAsItsHeaderSays(t *testing.T) {
	found, err := load(standIn(t))
	require.NoError(t, err)
	library := &Library{found, os.Getpid()}
	devices, err := library.Devices()
	require.NoError(t, err)
	require.Len(t, devices, 2)
	for i, device := range devices {
		require.Equal(t, "580.65.06", device.DriverVersion)
		require.Len(t, device.Name, 95)
		require.Empty(t, device.UUID, "the stand-in lacks the function")
		require.Equal(t, []string{"0000:60:00.0", "0001:61:00.0"}[i], device.PCI)
		require.Equal(t, []int64{int64(1000 + i), int64(700 + i), int64(33 + i), 667}, []int64{device.MemoryTotal,
			device.MemoryUsed, device.MemoryOfThisProcess, device.MemoryOfOthers})
		require.Equal(t, []int{40 + i, 20, 60 + i, 5 - i, 16 >> i, 64*i + 3}, []int{device.Utilization, device.MemoryUtilization,
			device.Temperature, device.PCIeGeneration, device.PCIeLanes, device.NUMANode})
		other := []string{"0001:61:00.0", "0000:60:00.0"}[i]
		require.Equal(t, []Link{{1, 5 + i, other}, {3, 7 + i, other}}, device.Links)
	}
	paths, err := library.Paths()
	require.NoError(t, err)
	require.Equal(t, [][]Path{{SameBoard, SeveralSwitches}, {SeveralSwitches, SameBoard}}, paths)
}

func TestAMissingLibraryIsToldWithWhereItWasLookedFor(t *testing.T) {
	t.Setenv("LD_LIBRARY_PATH", "/some/where")
	_, err := load("libnvidia-ml-missing.so.1")
	require.Equal(t, status.Unsupported, status.CodeOf(err))
	require.ErrorContains(t, err, "libnvidia-ml-missing.so.1")
	require.ErrorContains(t, err, "/some/where")
}

func TestCapabilityTellsTheDriver(t *testing.T) {
	found, err := load(standIn(t))
	require.NoError(t, err)
	opened.library = &Library{found, os.Getpid()}
	defer func() { opened.library = nil }()
	require.Equal(t, capability.Capability{Name: "nvml", Available: true, Reason: "driver 580.65.06"}, Capability())
}

func TestALibraryWithoutADriver(t *testing.T) {
	library := standIn(t)
	t.Setenv("STAND_IN_INIT", "9")
	_, err := load(library)
	require.Equal(t, status.Unsupported, status.CodeOf(err))
	require.ErrorContains(t, err, "NVML_ERROR_DRIVER_NOT_LOADED (9)")
	t.Setenv("STAND_IN_INIT", "18")
	_, err = load(library)
	require.Equal(t, status.Device, status.CodeOf(err))
	require.ErrorContains(t, err, "NVML_ERROR_LIB_RM_VERSION_MISMATCH (18)")
}
