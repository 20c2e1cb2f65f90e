// Package driver is the one interface that a kind of device implements: gpu/cuda for NVIDIA's, gpu/sim for the simulated one.
//
// It has the few operations that streams, allocators, transfers and kernels need, in the terms of CUDA's driver interface, and it
// decides nothing: what may be used when is gpu/runtime's business. gpu/driver/conformance checks every implementation.
//
// Threads: everything may be called from any goroutine at any time. Nothing blocks but what says so. No call changes what the
// calling thread sees of its own device libraries: a CUDA driver saves and restores the thread's current context.
//
// Errors are *status.Error: Device with the driver's code and name, DeviceLost where the device is gone (then every later call
// says so), OutOfMemory where its memory does not suffice, InvalidArgument and InvalidHandle for what can be seen to be wrong,
// Unsupported for what the device cannot do. Streams, events, modules and physical memory are named by handles: an unknown, ended
// or another device's one is InvalidHandle. An address that is not of the device, or not of what the call is for, is
// InvalidArgument, as is freeing twice. Only Wait takes other devices' events. A call that fails has changed nothing, unless it
// says otherwise. As with CUDA, work that fails later, on the device, is reported by a later call: then the device is lost.
package driver

// Address is a place in the address space that all devices and the host share. The bytes of an address of Plain memory are
// reached only by devices: the host's touch of it is an error of the program, a fault where the device is simulated.
type Address uintptr

// Stream is a queue of work that runs in its order. The values are the driver's own (a CUstream), and a device takes only those
// that it made or that ForeignStream told it of. The zero Stream is the device's default stream, which is used only to order with
// foreign work.
type Stream uintptr

// PerThread is the default stream of the calling thread, which is another one in each thread. Only RecordEvent and Wait take it,
// to order with it; a device that has no such streams refuses it as one that it does not know.
const PerThread Stream = 2

// Event is a point in a stream.
type Event uintptr

// Module is device code that was loaded, Function one kernel of it.
type (
	Module   uintptr
	Function uintptr
)

// Physical is device memory without an address, to be mapped.
type Physical uint64

// Memory is a kind of memory.
type Memory uint8

// The kinds of memory. Plain belongs to the device; Pinned is the host's, reached by all devices; Managed moves between them by
// itself.
const (
	Plain Memory = iota
	Pinned
	Managed
)

// Advice is what a driver is told of the use of Managed memory. It changes no bytes, and lasts until the memory is given back.
type Advice uint8

// The advice. A place that is preferred keeps the memory where others' accesses reach it there.
const (
	ReadMostly    Advice = iota // who reads gets a copy, which ends with the next write
	NotReadMostly               // the usual
	PreferDevice                // the device that is called
	PreferHost
	PreferNowhere // the usual

	adviceEnd
)

// IsAdvice says whether a number is advice.
func IsAdvice(advice Advice) bool { return advice < adviceEnd }

// Driver is a kind of device: those of one vendor, or simulated ones.
type Driver interface {
	// Name is "cuda" or "simulated".
	Name() string
	// Count is the number of devices, known from the start.
	Count() int
	// Open returns the device with the driver's ordinal. The same one each time: a device stays open until the process ends.
	// Errors: NoDevice for an ordinal that does not exist.
	Open(ordinal int) (Device, error)
}

// Info is what a device is. It does not change.
type Info struct {
	Name            string
	Ordinal         int
	UUID            [16]byte
	PCI             string // "0000:65:00.0"; empty where there is none
	Bytes           uint64 // of its memory
	Major, Minor    int    // compute capability
	Multiprocessors int
	NUMANode        int // of the host, nearest to the device; -1 = not known
	Simulated       bool
	OrderedMemory   bool // AllocateOrdered and FreeOrdered work
	ManagedMemory   bool
	ManagedHints    bool // Prefetch and Advise work
	VirtualMemory   bool
	Granularity     uint64 // that of Reserve, CreatePhysical and Map in bytes; 0 without VirtualMemory
}

// Copy moves Bytes bytes between any two addresses, the host's included. Overlap is an error of the program.
type Copy struct {
	To, From Address
	Bytes    uint64
}

// Access is what a kernel does with a range of memory. A simulated device checks it; CUDA ignores it.
type Access struct {
	Address Address
	Bytes   uint64
	Write   bool // else it only reads
}

// Launch is a kernel's work. Its only parameter is a struct that is given by value.
type Launch struct {
	Function      Function
	Blocks        uint32 // in one dimension
	Threads       uint32 // of a block
	Shared        uint32 // bytes of dynamic shared memory of a block
	Parameter     []byte // copied before the call returns
	Accesses      []Access
	AccessUnknown bool // the kernel is foreign: nobody says what it touches
}

// Device is one device.
type Device interface {
	Info() Info
	// MemoryInfo is the memory that is free for every process, and all there is, in bytes.
	MemoryInfo() (free, total uint64, err error)
	// CanReach says whether kernels of this device reach memory of another one of the same driver, that AllocateOrdered gave or
	// that was mapped for peers. Copies always do.
	CanReach(ordinal int) bool

	// Holds says whether an address is one of this device's memory, which the driver has given to anybody in the process. Managed
	// memory may count as one device's.
	Holds(address Address) (bool, error)

	// Allocate takes memory that is there when the call returns, aligned to 256 bytes at least. Bytes is not 0. May block, as may
	// Free.
	Allocate(kind Memory, bytes uint64) (Address, error)
	// Free gives back what Allocate of this device and kind returned. No work that uses it may be queued or running.
	Free(kind Memory, address Address) error
	// Register makes host memory of the caller reachable by copies without staging and by kernels, until Unregister.
	Register(address Address, bytes uint64) error
	Unregister(address Address) error

	// AllocateOrdered takes Plain memory in the order of the stream: its bytes may be used by what is queued on the stream after
	// the call, and by other streams that wait for an event recorded there after the call.
	AllocateOrdered(stream Stream, bytes uint64) (Address, error)
	// FreeOrdered gives back what AllocateOrdered of this device returned, in the order of a stream. Other streams' uses must be
	// ordered before.
	FreeOrdered(stream Stream, address Address) error
	// TrimOrdered gives memory that FreeOrdered holds for reuse back to the device, down to keep bytes.
	TrimOrdered(keep uint64) error

	// Reserve takes a range of addresses without memory; Release gives it back when nothing is mapped in it.
	Reserve(bytes uint64) (Address, error)
	Release(address Address, bytes uint64) error
	// CreatePhysical takes memory without an address; it ends when it is destroyed and no longer mapped.
	CreatePhysical(bytes uint64) (Physical, error)
	DestroyPhysical(physical Physical) error
	// Map puts memory, the whole of each one behind the other, at addresses of a reserved range from one on, for reading and
	// writing by kernels of this device; peers: and by those of every other one of the driver that can reach it. All of it or
	// none. One call is faster than many.
	Map(address Address, peers bool, memory ...Physical) error
	// Unmap takes away what was mapped at the address. No work that uses it may be queued or running.
	Unmap(address Address) error

	// CreateStream makes a stream that does not wait for the default one. Lower numbers run first: 0 is the usual priority, -1 a
	// higher one.
	CreateStream(priority int) (Stream, error)
	// ForeignStream makes a stream that others created usable here; nothing that is no stream may be given. It must live until as
	// many DestroyStream as ForeignStream were called, which then only forget it. A stream of this driver's own may be given,
	// too: then the last DestroyStream ends it. Errors: InvalidHandle for a stream of another device.
	ForeignStream(handle uintptr) (Stream, error)
	// StreamID is a number that no other stream of the process ever has, of a stream that may be others'. It tells a stream from
	// one that had its handle before. Nothing that is no stream may be given. Errors: InvalidHandle where that can be seen.
	StreamID(handle uintptr) (uint64, error)
	// DestroyStream ends a stream; what is queued still runs. The default stream does not end.
	DestroyStream(stream Stream) error
	// QueryStream says whether everything that was queued is done.
	QueryStream(stream Stream) (done bool, err error)
	// SynchronizeStream blocks until everything that was queued is done.
	SynchronizeStream(stream Stream) error
	// Synchronize blocks until everything queued on the device is done.
	Synchronize() error

	// CreateEvent makes an event; one that was never recorded counts as done.
	CreateEvent() (Event, error)
	DestroyEvent(event Event) error
	// RecordEvent moves the event to the end of what is queued on the stream.
	RecordEvent(event Event, stream Stream) error
	// QueryEvent says whether the work before the event is done.
	QueryEvent(event Event) (done bool, err error)
	// SynchronizeEvent blocks until it is.
	SynchronizeEvent(event Event) error
	// Wait makes what is queued on the stream from now on wait for the event as it is recorded now, also one of another device.
	Wait(stream Stream, event Event) error

	// Copy queues copies, in no order among each other; 0 bytes are nothing to do. Errors: InvalidArgument (a copy overlaps
	// itself, an address is 0). Host memory must stay as it is until they are done. It may block where host memory is neither
	// Pinned, Managed nor registered. When the driver fails at one of several, those before it may have been queued.
	Copy(stream Stream, copies ...Copy) error
	// Fill queues setting bytes to a value; 0 bytes are nothing to do.
	Fill(stream Stream, address Address, value byte, bytes uint64) error

	// Prefetch queues moving Managed memory to the device, or to the host, before it is used there. It changes no bytes; 0 bytes
	// are nothing to do.
	Prefetch(stream Stream, address Address, bytes uint64, toHost bool) error
	// Advise tells of the use of Managed memory; the driver may round what it is about up to whole pages of its own.
	Advise(address Address, bytes uint64, advice Advice) error

	// LoadModule loads device code: a fat binary, or PTX; an empty image is InvalidArgument. A simulated device does not look
	// into it: it knows the kernels of gpu/kernels.
	LoadModule(image []byte) (Module, error)
	UnloadModule(module Module) error
	// Function finds a kernel. Errors: NotFound.
	Function(module Module, name string) (Function, error)
	// Launch queues a kernel.
	Launch(stream Stream, launch *Launch) error

	// Handle is the driver's own: the CUcontext that streams and addresses belong to; 0 where there is none.
	Handle() uintptr
}
