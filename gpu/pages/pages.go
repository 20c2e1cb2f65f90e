// Package pages lets pages lie on devices: it is core/page's view of the devices of a context, over the runtime that everybody shares.
package pages

import (
	"runtime"
	"sync"
	"unsafe"

	"libmmsb/core/log"
	"libmmsb/core/page"
	"libmmsb/core/status"
	"libmmsb/gpu/devices"
	"libmmsb/gpu/driver"
	"libmmsb/gpu/kernels"
	gpu "libmmsb/gpu/runtime"
)

// Use makes pages of contexts that are created from now on have devices.
func Use() {
	page.UseDevices(func(options *page.Options) page.Devices {
		return &context{
			set: devices.NewSet(devices.Options{
				Simulate: devices.Simulate(options.Simulate), Devices: int(options.SimulatedDevices), Memory: options.SimulatedMemory,
			}),
			devices: make(map[int32]*device),
		}
	})
}

// SetOf is the devices of a live context. Errors: InvalidHandle, StaleHandle, NoDevice.
func SetOf(handle uint64) (set *devices.Set, err error) {
	err = page.Use(handle, func(c *page.Context) error {
		of, ok := c.Devices().(*context)
		if !ok {
			return c.Devices().Check(page.LocationGPU, 0)
		}
		set = of.set
		return nil
	})
	return set, err
}

// context is the devices of a context.
type context struct {
	set     *devices.Set
	mutex   sync.Mutex
	devices map[int32]*device // those that pages were on
}

// mostStreams is how many calls work on the pages of a device at a time; others wait.
const mostStreams = 4

// device is one of them, with streams that calls take turns with.
type device struct {
	runtime *gpu.Runtime
	kernels *kernels.Set // nil = this build has none for it

	mutex   sync.Mutex
	turn    sync.Cond
	idle    []*gpu.Stream
	handles []uint64
}

var tag = sync.OnceValue(func() gpu.Tag {
	of, _ := gpu.TagOf("page")
	return of
})

func (c *context) device(ordinal int32) (*device, error) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if d := c.devices[ordinal]; d != nil {
		return d, nil
	}
	shared, err := c.set.Shared(int(ordinal))
	if err != nil {
		return nil, err
	}
	d := &device{runtime: shared}
	d.turn.L = &d.mutex
	d.kernels, err = kernels.Load(shared.Device(), kernels.Image())
	if err != nil && status.CodeOf(err) != status.Unsupported {
		return nil, err
	}
	c.devices[ordinal] = d
	return d, nil
}

// Check is page.Devices'.
func (c *context) Check(location, ordinal int32) error {
	d, err := c.device(ordinal)
	if err != nil {
		return err
	}
	if info := d.runtime.Device().Info(); location == page.LocationUnified && !info.ManagedMemory {
		return status.Errorf(status.Unsupported, "device %d (%s) has no managed memory", ordinal, info.Name)
	}
	return nil
}

// Simulated is page.Devices'.
func (c *context) Simulated() bool { return c.set.Simulated() }

// take is a stream that nobody else uses, until give.
func (d *device) take() (*gpu.Stream, error) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	for len(d.idle) == 0 {
		if len(d.handles) < mostStreams {
			handle, err := d.runtime.AcquireStream(0)
			if err == nil {
				stream, findErr := gpu.FindStream(handle)
				if findErr == nil {
					d.handles = append(d.handles, handle)
					return stream, nil
				}
				err = findErr
			}
			if len(d.handles) == 0 {
				return nil, err
			}
		}
		d.turn.Wait()
	}
	last := len(d.idle) - 1
	stream := d.idle[last]
	d.idle = d.idle[:last]
	return stream, nil
}

func (d *device) give(stream *gpu.Stream) {
	d.mutex.Lock()
	d.idle = append(d.idle, stream)
	d.mutex.Unlock()
	d.turn.Signal()
}

// run queues work on a stream and waits until it is done.
func (c *context) run(ordinal int32, work func(d *device, s *gpu.Stream) error) error {
	d, err := c.device(ordinal)
	if err != nil {
		return err
	}
	stream, err := d.take()
	if err != nil {
		return err
	}
	defer d.give(stream)
	err = work(d, stream)
	if waited := stream.Synchronize(); err == nil { // also what was queued before an error is done when the call returns
		err = waited
	}
	return err
}

// Allocate is page.Devices'.
func (c *context) Allocate(ordinal int32, bytes uint64) (memory page.DeviceMemory, err error) {
	err = c.run(ordinal, func(d *device, s *gpu.Stream) error {
		handle, address, err := d.runtime.Allocate(gpu.Request{Bytes: bytes, Stream: s, Tag: tag()})
		if err != nil {
			return err
		}
		memory = page.DeviceMemory{Device: ordinal, Address: uintptr(address), Block: handle}
		return s.Fill(address, 0, bytes)
	})
	if err != nil && memory.Block != 0 {
		c.Free(memory)
	}
	return memory, err
}

// Free is page.Devices'.
func (c *context) Free(memory page.DeviceMemory) {
	if _, err := gpu.Free(memory.Block, nil); err != nil {
		log.Logf(log.Warning, "the block of a page on device %d cannot be freed: %v", memory.Device, err)
	}
}

// AllocateHost is page.Devices'.
func (c *context) AllocateHost(location, ordinal int32, bytes uint64) (uintptr, error) {
	d, err := c.device(ordinal)
	if err != nil {
		return 0, err
	}
	address, err := d.runtime.AllocateHost(kindOf(location), bytes)
	if err != nil {
		return 0, err
	}
	clear(unsafe.Slice((*byte)(unsafe.Add(unsafe.Pointer(nil), uintptr(address))), bytes))
	return uintptr(address), nil
}

// FreeHost is page.Devices'.
func (c *context) FreeHost(location, ordinal int32, address uintptr) {
	d, err := c.device(ordinal)
	if err == nil {
		err = d.runtime.FreeHost(kindOf(location), driver.Address(address))
	}
	if err != nil {
		log.Logf(log.Warning, "memory of a page at location %d of device %d cannot be freed: %v", location, ordinal, err)
	}
}

func kindOf(location int32) driver.Memory {
	if location == page.LocationUnified {
		return driver.Managed
	}
	return driver.Pinned
}

// Read is page.Devices'.
func (c *context) Read(ordinal int32, from uintptr, to []byte) error {
	return c.move(ordinal, to, func(host driver.Address) driver.Copy {
		return driver.Copy{To: host, From: driver.Address(from), Bytes: uint64(len(to))}
	})
}

// Write is page.Devices'.
func (c *context) Write(ordinal int32, to uintptr, from []byte) error {
	return c.move(ordinal, from, func(host driver.Address) driver.Copy {
		return driver.Copy{To: driver.Address(to), From: host, Bytes: uint64(len(from))}
	})
}

func (c *context) move(ordinal int32, bytes []byte, of func(host driver.Address) driver.Copy) error {
	if len(bytes) == 0 {
		return nil
	}
	defer runtime.KeepAlive(&bytes[0])
	host := driver.Address(uintptr(unsafe.Pointer(&bytes[0])))
	return c.run(ordinal, func(_ *device, s *gpu.Stream) error { return s.Copy(of(host)) })
}

// Copy is page.Devices'. It runs on the device that is written to.
func (c *context) Copy(toDevice int32, to uintptr, _ int32, from uintptr, bytes uint64) error {
	return c.run(toDevice, func(_ *device, s *gpu.Stream) error {
		return s.Copy(driver.Copy{To: driver.Address(to), From: driver.Address(from), Bytes: bytes})
	})
}

// End is page.Devices'.
func (c *context) End() { c.set.End() }

// Close is page.Devices'.
func (c *context) Close() {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	for _, d := range c.devices {
		if d.kernels != nil {
			_ = d.kernels.Unload()
		}
		for _, handle := range d.handles {
			_ = gpu.ReleaseStream(handle)
		}
	}
	c.set.Close()
}
