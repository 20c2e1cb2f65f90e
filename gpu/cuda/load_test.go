package cuda

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"libmmsb/core/status"
	"libmmsb/gpu/driver"
	"libmmsb/tests/fakecuda"

	"github.com/stretchr/testify/require"
)

// fails checks an error's code and what its text says.
func fails(t *testing.T, err error, code status.Code, says ...string) {
	t.Helper()
	require.Equal(t, code.String(), status.CodeOf(err).String(), "%v", err)
	for _, word := range says {
		require.ErrorContains(t, err, word)
	}
}

func TestNoLibraryIsNoDevice(t *testing.T) {
	t.Setenv("LD_LIBRARY_PATH", "/here/first")
	_, err := load("libcuda-of-no-machine.so.1")
	fails(t, err, status.NoDevice, "libcuda-of-no-machine.so.1", "LD_LIBRARY_PATH (/here/first)",
		"cannot open shared object file")
	require.NoError(t, os.Unsetenv("LD_LIBRARY_PATH"))
	_, err = load("libcuda-of-no-machine.so.1")
	fails(t, err, status.NoDevice, "LD_LIBRARY_PATH (not set)")
}

// What is there and does not work is a broken machine, not one without a device: nothing may be simulated in its place.
func TestALibraryThatCannotBeLoadedIsAnError(t *testing.T) {
	path := filepath.Join(t.TempDir(), "libcuda.so.1")
	require.NoError(t, os.WriteFile(path, []byte("no library at all"), 0o600))
	runChild(t, "TestLoadInAChild", "LD_LIBRARY_PATH="+filepath.Dir(path), "EXPECT=42", "SAYS=file too short")
	_, err := load("libm.so.6")
	fails(t, err, status.Device, "lacks the function cuInit")
}

func TestInitialisationFails(t *testing.T) {
	for _, test := range []struct {
		code int
		want status.Code
		name string
	}{
		{100, status.NoDevice, "CUDA_ERROR_NO_DEVICE (100)"},
		{34, status.NoDevice, "CUDA_ERROR_STUB_LIBRARY (34)"},
		{803, status.Device, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH (803)"},
		{802, status.Device, "CUDA_ERROR_SYSTEM_NOT_READY (802)"},
		{2, status.Device, "CUDA_ERROR_OUT_OF_MEMORY (2)"},
		{999, status.Device, "CUDA_ERROR_UNKNOWN (999)"},
		{998, status.Device, "a CUDA error (998)"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Setenv("CUDA_VISIBLE_DEVICES", "7")
			library := fakecuda.Load(t, "INIT", itoa(test.code))
			_, err := load(library.Path)
			fails(t, err, test.want, "cuInit: "+test.name)
			var own *status.Error
			require.True(t, errors.As(err, &own))
			require.Equal(t, status.DomainCUDA, own.Domain)
			require.Equal(t, int32(test.code), own.Foreign)
			if test.code == 100 {
				require.ErrorContains(t, err, `CUDA_VISIBLE_DEVICES is "7"`)
			}
		})
	}
}

func TestNoDevices(t *testing.T) {
	_, err := load(fakecuda.Load(t, "DEVICES", "0").Path)
	fails(t, err, status.NoDevice, "found no device")
}

func TestADriverThatIsTooOld(t *testing.T) {
	_, err := load(fakecuda.Load(t, "VERSION", "11080").Path)
	fails(t, err, status.Device, "the driver has CUDA 11.8", "CUDA 12.0 (driver 525) or newer is needed", "driver 525",
		"CUDA 13.0 (driver 580)")
	d, err := load(fakecuda.Load(t, "VERSION", "12000").Path)
	require.NoError(t, err)
	require.Equal(t, 12000, d.Version())
	_, err = load(fakecuda.Load(t, "WITHOUT", "cuMemCreate").Path)
	fails(t, err, status.Device, "lacks the function cuMemCreate", "CUDA 12.0")
}

// runChild runs a test of this file in a process of its own.
func runChild(t *testing.T, test string, environment ...string) {
	t.Helper()
	child := exec.Command(os.Args[0], "-test.run=^"+test+"$", "-test.v")
	child.Env = append(os.Environ(), environment...)
	output, err := child.CombinedOutput()
	require.NoError(t, err, "%s", output)
	require.Contains(t, string(output), "--- PASS: "+test)
}

func TestLoad(t *testing.T) {
	library := fakecuda.Load(t)
	runChild(t, "TestLoadInAChild", "LD_LIBRARY_PATH="+filepath.Dir(library.Path), "EXPECT=0")
	runChild(t, "TestLoadInAChild", "LD_LIBRARY_PATH="+filepath.Dir(library.Path), "EXPECT=41", "FAKECUDA_INIT=100",
		"SAYS=cuInit")
}

// The library is found by its name, once, and a failure is not kept.
func TestLoadInAChild(t *testing.T) {
	if os.Getenv("EXPECT") == "" {
		return
	}
	first, err := Load()
	require.Equal(t, os.Getenv("EXPECT"), itoa(int(status.CodeOf(err))), "%v", err)
	if err != nil {
		require.ErrorContains(t, err, os.Getenv("SAYS"))
	}
	again, err := Load()
	require.Equal(t, os.Getenv("EXPECT"), itoa(int(status.CodeOf(err))), "%v", err)
	require.Same(t, first, again)
	if first != nil {
		require.Equal(t, "cuda", first.Name())
		require.Equal(t, 2, first.Count())
	}
}

func TestOpensOnceUnderRaces(t *testing.T) {
	d, library := openFake(t)
	var all sync.WaitGroup
	devices := make([]driver.Device, 16)
	for i := range devices {
		all.Go(func() { devices[i], _ = d.Open(i % 2) })
	}
	all.Wait()
	for i := range devices {
		require.NotNil(t, devices[i])
		require.Same(t, devices[i%2], devices[i])
	}
	require.Equal(t, opened(2), library.Counts())
}
