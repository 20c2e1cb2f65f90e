package sim_test

import (
	"encoding/binary"
	"runtime"
	"testing"
	"unsafe"

	"libmmsb/core/status"
	"libmmsb/gpu/driver"
	"libmmsb/gpu/driver/conformance"
	"libmmsb/gpu/kernels"
	"libmmsb/gpu/sim"

	"github.com/stretchr/testify/require"
)

// open makes devices that must have no problems at the end of the test.
func open(t *testing.T, options sim.Options) *sim.Driver {
	t.Helper()
	d, err := sim.New(options)
	require.NoError(t, err)
	t.Cleanup(func() {
		if options.Scheduler != sim.Eager {
			t.Logf("seed %d", d.Seed())
			d.Finish()
		}
		require.NoError(t, d.Problems())
		d.Close()
	})
	return d
}

func TestSimulatedDevicesConform(t *testing.T) {
	for name, options := range map[string]sim.Options{
		"eager":              {},
		"unchecked":          {Unchecked: true},
		"slow":               {Latency: 20_000, Bandwidth: 20 << 30},
		"slow and unchecked": {Latency: 20_000, Bandwidth: 20 << 30, Unchecked: true},
		"seeded":             {Scheduler: sim.Seeded},
		"less able":          {Scheduler: sim.Seeded, NoOrdered: true, NoManaged: true, NoVirtual: true, Unreachable: true},
	} {
		t.Run(name, func(t *testing.T) {
			options.Devices, options.Memory = 2, 64<<20
			conformance.Run(t, func(t *testing.T) driver.Driver { return open(t, options) })
		})
	}
}

// A build without device code simulates all the same.
func TestSimulatedDevicesNeedNoImage(t *testing.T) {
	d := open(t, sim.Options{})
	device, err := d.Open(0)
	require.NoError(t, err)
	set, err := kernels.Load(device, nil)
	require.NoError(t, err)
	require.NoError(t, set.Unload())
}

// A simulated device knows the program's kernels besides; they get what the launch says.
func TestKernelsOfTheProgram(t *testing.T) {
	runs := 0
	d := open(t, sim.Options{Kernels: map[string]sim.Kernel{
		"add": func(launch *driver.Launch, reach func(driver.Address, uint64) []byte) {
			runs++
			address := driver.Address(binary.LittleEndian.Uint64(launch.Parameter))
			reach(address, 1)[0] += byte(launch.Blocks * launch.Threads)
		},
	}})
	device, err := d.Open(0)
	require.NoError(t, err)
	module, err := device.LoadModule(nil)
	require.NoError(t, err)
	_, err = device.Function(module, "subtract")
	require.Equal(t, status.NotFound, status.CodeOf(err))
	add, err := device.Function(module, "add")
	require.NoError(t, err)
	block, err := device.Allocate(driver.Plain, 256)
	require.NoError(t, err)
	require.NoError(t, device.Fill(0, block, 1, 256))
	parameter := binary.LittleEndian.AppendUint64(nil, uint64(block))
	require.NoError(t, device.Launch(0, &driver.Launch{Function: add, Blocks: 3, Threads: 4, Parameter: parameter,
		AccessUnknown: true}))
	require.Equal(t, byte(13), read(t, device, block, 1)[0])
	require.Equal(t, 1, runs)

	// Of the host it may touch what the process has; elsewhere it would end the process.
	memory := make([]byte, 3<<12)
	const nowhere = 8192 // where the system lets nobody have memory
	for at, want := range map[driver.Address]status.Code{
		driver.Address(uintptr(unsafe.Pointer(&memory[1]))): status.OK, nowhere: status.InvalidArgument,
	} {
		require.Equal(t, want, status.CodeOf(device.Launch(0, &driver.Launch{Function: add, Blocks: 3, Threads: 4,
			Parameter: parameter, Accesses: []driver.Access{{Address: at, Bytes: 3<<12 - 1}}})))
	}
	require.NoError(t, device.Synchronize())
	require.Equal(t, 2, runs)
	runtime.KeepAlive(memory)
	require.NoError(t, device.UnloadModule(module))
	require.NoError(t, device.Free(driver.Plain, block))
}
