// Modules, and kernels that are functions of Go or C.

package sim

import (
	"slices"

	"libmmsb/core/status"
	"libmmsb/gpu/driver"
	"libmmsb/gpu/kernels"
)

// Kernel is what a launch does on a simulated device. reach is its way to the bytes of an address.
type Kernel func(launch *driver.Launch, reach func(address driver.Address, bytes uint64) []byte)

type module struct {
	device    *device
	functions []driver.Function
}

type function struct {
	device *device
	name   string
	run    Kernel
	// parameterBytes is the size of the parameter, -1 for any.
	parameterBytes int
}

// LoadModule stands for Options.Kernels and the host build of the library's own, whatever the image is.
func (d *device) LoadModule([]byte) (driver.Module, error) {
	if err := d.enter(LoadModule); err != nil {
		return 0, err
	}
	defer d.leave()
	return driver.Module(d.driver.modules.add(func(uintptr) *module { return &module{device: d} })), nil
}

func (d *device) module(handle driver.Module) (*module, error) {
	m, found := d.driver.modules.find(uintptr(handle))
	if !found || m.device != d {
		return nil, status.Errorf(status.InvalidHandle, "0x%x is not a module of %s", uint64(handle), d.info.Name)
	}
	return m, nil
}

// UnloadModule ends a module and its functions.
func (d *device) UnloadModule(handle driver.Module) error {
	if err := d.enter(UnloadModule); err != nil {
		return err
	}
	defer d.leave()
	if _, err := d.module(handle); err != nil {
		return err
	}
	m, removed := d.driver.modules.remove(uintptr(handle))
	if !removed {
		return status.Errorf(status.InvalidHandle, "module 0x%x was unloaded", uint64(handle))
	}
	d.driver.hostMutex.Lock()
	defer d.driver.hostMutex.Unlock()
	for _, f := range m.functions {
		d.driver.functions.remove(uintptr(f))
	}
	return nil
}

// Function finds a kernel.
func (d *device) Function(handle driver.Module, name string) (driver.Function, error) {
	if err := d.enter(Function); err != nil {
		return 0, err
	}
	defer d.leave()
	m, err := d.module(handle)
	if err != nil {
		return 0, err
	}
	found := &function{device: d, name: name, run: d.driver.options.Kernels[name], parameterBytes: -1}
	if found.run == nil {
		host, err := kernels.FindHost(name)
		if err != nil {
			return 0, err
		}
		found.run, found.parameterBytes = runHost(host), host.ParameterBytes()
	}
	f := driver.Function(d.driver.functions.add(func(uintptr) *function { return found }))
	d.driver.hostMutex.Lock()
	defer d.driver.hostMutex.Unlock()
	m.functions = append(m.functions, f)
	return f, nil
}

// runHost is a kernel of the library, whose host build reaches the window by itself.
func runHost(host kernels.Host) Kernel {
	return func(launch *driver.Launch, _ func(driver.Address, uint64) []byte) {
		threads := uint64(launch.Blocks) * uint64(launch.Threads)
		// Threads run in any order: the later half comes first here.
		for _, part := range [][2]uint64{{threads / 2, threads}, {0, threads / 2}} {
			if err := host.Run(launch.Parameter, part[0], part[1], threads); err != nil {
				panic(err) // the parameter's size, which Launch has looked at
			}
		}
	}
}

// Launch queues a kernel.
func (d *device) Launch(on driver.Stream, launch *driver.Launch) error {
	s, failLater, err := d.enterWorkOn(Launch, on)
	if err != nil {
		return err
	}
	defer d.leave()
	f, found := d.driver.functions.find(uintptr(launch.Function))
	if !found || f.device != d {
		return status.Errorf(status.InvalidHandle, "0x%x is not a kernel of %s", uint64(launch.Function), d.info.Name)
	}
	if launch.Blocks == 0 || launch.Threads == 0 || launch.Threads > 1024 {
		return status.Errorf(status.InvalidArgument, "launch has %d blocks of %d threads, not 1 or more of 1 to 1024",
			launch.Blocks, launch.Threads)
	}
	if f.parameterBytes >= 0 && len(launch.Parameter) != f.parameterBytes {
		return status.Errorf(status.InvalidArgument, "parameter of %s has %d bytes, not %d", f.name, f.parameterBytes,
			len(launch.Parameter))
	}
	touches := make([]touch, len(launch.Accesses))
	for i, access := range launch.Accesses {
		touches[i] = touch{access.Address, access.Bytes, access.Write, 0}
	}
	kept := *launch
	kept.Parameter, kept.Accesses = slices.Clone(launch.Parameter), nil
	return d.queue(s, Launch, f.name, touches, failLater, func() { f.run(&kept, reach) })
}
