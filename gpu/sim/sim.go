// Package sim is the simulated device: memory that only devices reach, streams that run in an order of their own, and a check
// that the program put everything into order that needs it.
//
// It is a driver like others, and besides a microscope: Violations are what the program did not order, Live what it did not give
// back; Inject plants bad luck, Step drives the schedule by hand, and Explore runs a program in all schedules. See
// docs/devices.md.
package sim

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"libmmsb/core/status"
	"libmmsb/gpu/driver"
)

// Scheduler says when queued operations run.
type Scheduler uint8

const (
	// Eager runs an operation as soon as everything before it is done: on the thread that queued it, or in goroutines where
	// operations take time.
	Eager Scheduler = iota
	// Seeded runs them at the program's calls, some now and some later, in an order drawn from the seed. A program of one thread
	// meets the same order each time it is run with one seed.
	Seeded
	// Stepped runs none by itself: a test calls Step.
	Stepped
	// Chosen runs what Options.Choose says at each call that sees how far the devices are.
	Chosen
)

// Options are what simulated devices are like. The zero value is one device of 1 GiB that takes no time, with all checks.
type Options struct {
	Devices     int           // 0 = 1
	Memory      uint64        // bytes of each device; 0 = 1 GiB
	HostMemory  uint64        // bytes of Pinned and Managed memory together; 0 = as much as all devices have
	Bandwidth   uint64        // bytes a second that a device moves; 0 = any number. Only with Eager
	Latency     time.Duration // of each operation. Only with Eager
	Hold        func()        // nil, or what each operation that takes time waits for before it ends
	Scheduler   Scheduler
	Seed        uint64                // of Seeded; 0 = a new one
	Choose      func(choices int) int // of Chosen: one of 0 to choices - 1
	Unchecked   bool                  // order is not checked, and freed memory not overwritten: only a device that is quick
	Trace       bool                  // keep what ran: see Trace, Timeline
	NoOrdered   bool                  // without AllocateOrdered
	NoManaged   bool
	NoHints     bool // Prefetch and Advise do not work
	NoVirtual   bool
	Unreachable bool              // kernels do not reach other devices' memory
	Kernels     map[string]Kernel // beside those of gpu/kernels
}

const maxDevices = 64

// Driver is a set of simulated devices.
type Driver struct {
	options       Options
	timelineMutex sync.Mutex
	timeline      []Spell
	devices       []*device
	host          *arena
	order         *order // nil where order is not checked
	link          link

	// The turn is held for a whole call wherever one call must be done before the next one is looked at: all but Eager and
	// Unchecked.
	serial bool
	turn   sync.Mutex
	choose func(choices int) int
	trace  []Step

	streams   table[*stream]
	events    table[*event]
	modules   table[*module]
	functions table[*function]
	physicals table[*physical]

	hostMutex  sync.RWMutex
	registered []*registration // by address

	streamMutex sync.Mutex
	all         []*stream    // that are not ended and done; in the order in which they were made
	made        int          // streams, ever
	parties     int          // of clocks; the host is the first
	left        []endedParty // that no stream has
}

type device struct {
	driver   *Driver
	info     driver.Info
	arena    *arena
	standard *stream
	trouble  atomic.Bool // lost, or faults are planted
	lost     atomic.Bool
	faults   faults
	past     clock // of streams that are ended and done; under streamMutex

	timeMutex sync.Mutex
	busyUntil time.Time
}

var (
	_ driver.Driver = (*Driver)(nil)
	_ driver.Device = (*device)(nil)
)

// New makes devices. Close gives their memory back. Errors: InvalidArgument, OutOfMemory (too few addresses are left).
func New(options Options) (*Driver, error) {
	if options.Scheduler == Seeded {
		if options.Seed == 0 {
			options.Seed = rand.Uint64()
		}
		options.Choose = rand.New(rand.NewPCG(options.Seed, 0)).IntN
	}
	if options.Devices == 0 {
		options.Devices = 1
	}
	if options.Memory == 0 {
		options.Memory = 1 << 30
	}
	if options.Devices < 0 || options.Devices > maxDevices || options.Memory > 1<<40 || options.HostMemory > 1<<46 {
		return nil, status.Errorf(status.InvalidArgument, "%d simulated devices of %d bytes exceed %d devices of %d bytes",
			options.Devices, options.Memory, maxDevices, uint64(1)<<40)
	}
	if options.HostMemory == 0 {
		options.HostMemory = uint64(options.Devices) * options.Memory
	}
	if options.Scheduler > Chosen || options.Scheduler == Chosen && options.Choose == nil || options.Latency < 0 {
		return nil, status.Errorf(status.InvalidArgument,
			"scheduler is %d, not 0 to 3, or has nobody who chooses; or latency %v is negative", options.Scheduler,
			options.Latency)
	}
	d := &Driver{options: options, parties: 1, choose: options.Choose}
	if options.Scheduler != Eager && d.timed() {
		return nil, status.Errorf(status.InvalidArgument, "latency needs the eager scheduler")
	}
	if !options.Unchecked {
		d.order = &order{}
	}
	d.serial = d.order != nil || options.Scheduler != Eager
	if err := theWindow.get(); err != nil {
		return nil, err
	}
	d.host = newArena(nil, openHalf, options.HostMemory)
	for ordinal := range options.Devices {
		d.addDevice(ordinal)
	}
	return d, nil
}

func (d *Driver) addDevice(ordinal int) {
	device := &device{driver: d}
	device.info = driver.Info{
		Name: fmt.Sprintf("simulated device %d", ordinal), Ordinal: ordinal, Bytes: d.options.Memory,
		Major: 9, Minor: 0, Multiprocessors: 132, NUMANode: -1, Simulated: true,
		OrderedMemory: !d.options.NoOrdered, VirtualMemory: !d.options.NoVirtual,
		ManagedMemory: !d.options.NoManaged, ManagedHints: !d.options.NoManaged && !d.options.NoHints,
	}
	copy(device.info.UUID[:], "mmsb-simul")
	binary.BigEndian.PutUint16(device.info.UUID[14:], uint16(ordinal))
	if device.info.VirtualMemory {
		device.info.Granularity = granularity
	}
	device.arena = newArena(device, closedHalf, d.options.Memory)
	device.standard = d.addStream(device, 0)
	d.devices = append(d.devices, device)
}

func (d *Driver) addStream(device *device, handle driver.Stream) *stream {
	d.streamMutex.Lock()
	defer d.streamMutex.Unlock()
	d.made++
	s := newStream(device, handle, d.made, d.newParty())
	s.owners = 1
	d.all = append(d.all, s)
	return s
}

// Close ends the devices. No call may be running; what is queued does not run any more.
func (d *Driver) Close() {
	for _, device := range d.devices {
		device.lose()
	}
	for _, s := range d.streamsNow() {
		s.sleepWhileRunning()
	}
	for _, device := range d.devices {
		device.arena.end()
	}
	d.host.end()
}

// Name is "simulated".
func (d *Driver) Name() string { return "simulated" }

// Count is the number of devices.
func (d *Driver) Count() int { return len(d.devices) }

// Open returns a device by number. Errors: NoDevice.
func (d *Driver) Open(ordinal int) (driver.Device, error) {
	device, err := d.device(ordinal)
	if err != nil {
		return nil, err
	}
	return device, nil
}

func (d *Driver) device(ordinal int) (*device, error) {
	if ordinal < 0 || ordinal >= len(d.devices) {
		return nil, status.Errorf(status.NoDevice, "device %d does not exist, there are %d simulated devices", ordinal,
			len(d.devices))
	}
	return d.devices[ordinal], nil
}

// Seed is what the order of Seeded is drawn from.
func (d *Driver) Seed() uint64 { return d.options.Seed }

func (d *Driver) timed() bool { return d.options.Latency > 0 || d.options.Bandwidth > 0 }

// enter begins a call. Where it succeeds, leave must follow.
func (d *device) enter(call Call) error {
	_, err := d.enterWork(call)
	return err
}

// enterWork is enter for a call whose work may be made to fail later.
func (d *device) enterWork(call Call) (failLater bool, err error) {
	if d.driver.serial {
		d.driver.turn.Lock()
	}
	if d.trouble.Load() {
		if failLater, err = d.meet(call); err != nil {
			d.leave()
		}
	}
	return failLater, err
}

// enterWorkOn is enterWork for work on a stream of the device, which it finds.
func (d *device) enterWorkOn(call Call, handle driver.Stream) (s *stream, failLater bool, err error) {
	if failLater, err = d.enterWork(call); err != nil {
		return nil, false, err
	}
	if s, err = d.stream(handle); err != nil {
		d.leave()
	}
	return s, failLater, err
}

// enterOn is enter for a call on a stream of the device, which it finds.
func (d *device) enterOn(call Call, handle driver.Stream) (*stream, error) {
	if err := d.enter(call); err != nil {
		return nil, err
	}
	s, err := d.stream(handle)
	if err != nil {
		d.leave()
	}
	return s, err
}

func (d *device) leave() {
	if d.driver.serial {
		d.driver.turn.Unlock()
	}
}

// lose ends a device: what is queued counts as done, and every later call fails.
func (d *device) lose() {
	d.lost.Store(true)
	d.trouble.Store(true)
	for _, s := range d.driver.streamsNow() {
		if s.device == d {
			s.drop()
		}
	}
}

// Info is what the device is.
func (d *device) Info() driver.Info { return d.info }

// Handle is 0: there is no context.
func (d *device) Handle() uintptr { return 0 }

// CanReach says whether kernels of the device reach another one's memory.
func (d *device) CanReach(ordinal int) bool {
	return ordinal == d.info.Ordinal || ordinal >= 0 && ordinal < len(d.driver.devices) && !d.driver.options.Unreachable
}

// MemoryInfo is the memory that is free and all there is.
func (d *device) MemoryInfo() (free, total uint64, err error) {
	if err = d.enter(MemoryInfo); err != nil {
		return 0, 0, err
	}
	defer d.leave()
	return d.arena.limit - d.arena.used.Load(), d.arena.limit, nil
}
