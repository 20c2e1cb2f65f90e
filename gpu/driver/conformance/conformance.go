// Package conformance is what every driver must do, as one suite.
package conformance

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"libmmsb/core/region"
	"libmmsb/core/status"
	"libmmsb/gpu/driver"

	"github.com/stretchr/testify/require"
)

// subject is what a behaviour is checked on: the driver's first device, and a stream of it.
type subject struct {
	*require.Assertions
	t      *testing.T
	driver driver.Driver
	device driver.Device
	info   driver.Info
	stream driver.Stream
}

// Run checks a driver. open is called once for each behaviour; what it returns is given back by t.Cleanup, if at all. A suite
// that wants to be told of leaks looks for them there: every behaviour gives back what it takes.
// Behaviours that a driver does not claim to have are left out; what it answers there is a behaviour, too.
func Run(t *testing.T, open func(t *testing.T) driver.Driver) {
	probe := open(t)
	device, err := probe.Open(0)
	require.NoError(t, err)
	count, info := probe.Count(), device.Info()
	for _, behaviour := range behaviours {
		if count < behaviour.devices || behaviour.needs != nil && !behaviour.needs(info) {
			continue
		}
		t.Run(behaviour.name, func(t *testing.T) {
			s := &subject{Assertions: require.New(t), t: t, driver: open(t)}
			s.device = s.open(0)
			s.info = s.device.Info()
			s.stream = s.newStream(s.device)
			behaviour.run(s)
		})
	}
}

// behaviour is one thing that is checked.
type behaviour struct {
	name    string
	run     func(s *subject)
	devices int                         // that it needs; 0 = one
	needs   func(info driver.Info) bool // nil = nothing
}

func ordered(info driver.Info) bool { return info.OrderedMemory }
func virtual(info driver.Info) bool { return info.VirtualMemory }
func hints(info driver.Info) bool   { return info.ManagedHints }

var behaviours = []behaviour{
	{name: "says what it is", run: describes},
	{name: "opens each device once", run: opensOnce},
	{name: "allocates every kind of memory", run: allocates},
	{name: "refuses bad allocations", run: refusesAllocations},
	{name: "refuses bad frees", run: refusesFrees},
	{name: "refuses more memory than there is", run: refusesTooMuch},
	{name: "registers host memory", run: registers},
	{name: "allocates in order", run: allocatesOrdered, needs: ordered},
	{name: "refuses bad ordered calls", run: refusesOrdered, needs: ordered},
	{name: "ordered memory reaches other streams by events", run: sharesOrdered, needs: ordered},
	{name: "does not reuse memory too early", run: reusesInOrder, needs: ordered},
	{name: "trims ordered memory", run: trims, needs: ordered},
	{name: "takes hints of the use of managed memory", run: takesHints, needs: hints},
	{name: "maps memory by hand", run: mapsMemory, needs: virtual},
	{name: "mapped memory grows in place", run: growsMapped, needs: virtual},
	{name: "memory is mapped together", run: mapsTogether, needs: virtual},
	{name: "refuses bad mappings", run: refusesMappings, needs: virtual},
	{name: "says what it cannot do", run: unsupported},
	{name: "ends streams", run: endsStreams},
	{name: "refuses unknown streams", run: refusesStreams},
	{name: "shares streams with others", run: sharesStreams},
	{name: "the default stream orders", run: usesDefaultStream},
	{name: "ends events", run: endsEvents},
	{name: "refuses unknown events", run: refusesEvents},
	{name: "events order streams", run: ordersByEvents},
	{name: "a wait is for the event as it was", run: waitsForThePast},
	{name: "copies in every direction", run: copiesEverywhere},
	{name: "copies any size at any alignment", run: copiesAnySize},
	{name: "copies many at once", run: copiesMany},
	{name: "refuses bad copies", run: refusesCopies},
	{name: "fills", run: fills},
	{name: "refuses bad images and kernels", run: refusesKernels},
	{name: "runs the library's kernels", run: runsKernels},
	{name: "compares and sums", run: comparesAndSums},
	{name: "launches in order", run: launchesInOrder},
	{name: "refuses bad launches", run: refusesLaunches},
	{name: "ends modules", run: endsModules},
	{name: "knows its memory", run: knowsItsMemory},
	{name: "synchronizes a device", run: synchronizesDevice},
	{name: "copies between devices", run: copiesBetweenDevices, devices: 2},
	{name: "events order devices", run: ordersDevices, devices: 2},
	{name: "keeps devices apart", run: keepsDevicesApart, devices: 2},
	{name: "devices reach memory mapped for them", run: reachesMapped, devices: 2, needs: virtual},
	{name: "is used by many goroutines", run: manyGoroutines},
}

// RunLost checks what a driver does when its first device is lost: lose makes it so.
func RunLost(t *testing.T, open func(t *testing.T) (d driver.Driver, lose func())) {
	d, lose := open(t)
	s := &subject{Assertions: require.New(t), t: t, driver: d}
	s.device = s.open(0)
	s.info = s.device.Info()
	stream, err := s.device.CreateStream(0)
	s.NoError(err)
	event, err := s.device.CreateEvent()
	s.NoError(err)
	memory, err := s.device.Allocate(driver.Plain, 4096)
	s.NoError(err)
	managed := driver.Address(0)
	if s.info.ManagedMemory {
		managed, err = s.device.Allocate(driver.Managed, 4096)
		s.NoError(err)
	}
	lose()
	for name, call := range map[string]func() error{
		"Allocate":          func() error { _, err := s.device.Allocate(driver.Plain, 1); return err },
		"Free":              func() error { return s.device.Free(driver.Plain, memory) },
		"Fill":              func() error { return s.device.Fill(stream, memory, 1, 1) },
		"Copy":              func() error { return s.device.Copy(stream, driver.Copy{To: memory, From: memory + 8, Bytes: 8}) },
		"Prefetch":          func() error { return s.device.Prefetch(stream, managed, 4096, false) },
		"Advise":            func() error { return s.device.Advise(managed, 4096, driver.ReadMostly) },
		"CreateStream":      func() error { _, err := s.device.CreateStream(0); return err },
		"QueryStream":       func() error { _, err := s.device.QueryStream(stream); return err },
		"SynchronizeStream": func() error { return s.device.SynchronizeStream(stream) },
		"Synchronize":       s.device.Synchronize,
		"CreateEvent":       func() error { _, err := s.device.CreateEvent(); return err },
		"RecordEvent":       func() error { return s.device.RecordEvent(event, stream) },
		"QueryEvent":        func() error { _, err := s.device.QueryEvent(event); return err },
		"SynchronizeEvent":  func() error { return s.device.SynchronizeEvent(event) },
		"Wait":              func() error { return s.device.Wait(stream, event) },
		"MemoryInfo":        func() error { _, _, err := s.device.MemoryInfo(); return err },
		"Holds":             func() error { _, err := s.device.Holds(memory); return err },
		"DestroyEvent":      func() error { return s.device.DestroyEvent(event) },
		"DestroyStream":     func() error { return s.device.DestroyStream(stream) },
	} {
		s.Equal(status.DeviceLost, status.CodeOf(call()), name)
	}
	s.Equal(s.info, s.device.Info(), "what the device was is still known")
}

func (s *subject) open(ordinal int) driver.Device {
	device, err := s.driver.Open(ordinal)
	s.NoError(err)
	return device
}

// fails checks the code of an error.
func (s *subject) fails(code status.Code, err error, message ...any) {
	s.t.Helper()
	s.Equal(code.String(), status.CodeOf(err).String(), message...)
}

func (s *subject) newStream(device driver.Device) driver.Stream {
	stream, err := device.CreateStream(0)
	s.NoError(err)
	s.NotZero(stream)
	s.t.Cleanup(func() { s.NoError(device.DestroyStream(stream)) })
	return stream
}

func (s *subject) newEvent(device driver.Device) driver.Event {
	event, err := device.CreateEvent()
	s.NoError(err)
	s.t.Cleanup(func() { s.NoError(device.DestroyEvent(event)) })
	return event
}

// memory takes memory until the end of the behaviour. What uses it must be done by then.
func (s *subject) memory(device driver.Device, kind driver.Memory, size uint64) driver.Address {
	address, err := device.Allocate(kind, size)
	s.NoError(err)
	s.NotZero(address)
	s.t.Cleanup(func() {
		s.NoError(device.Synchronize())
		s.NoError(device.Free(kind, address))
	})
	return address
}

// host is ordinary host memory until the end of the behaviour.
func (s *subject) host(size uint64) driver.Address {
	number, err := region.Map(size, false)
	s.NoError(err)
	s.t.Cleanup(func() { region.Unmap(number) })
	return driver.Address(region.Base(number))
}

// at is memory that the host reaches.
func at(address driver.Address, size uint64) []byte { return region.BytesAt(uintptr(address), size) }

// noise is bytes that do not repeat.
func noise(size uint64, seed uint64) []byte {
	var key [32]byte
	binary.LittleEndian.PutUint64(key[:], seed)
	list := make([]byte, size)
	_, _ = rand.NewChaCha8(key).Read(list) // it never fails
	return list
}

// put writes bytes to memory of any kind, by way of pinned memory, and waits until it is done.
func (s *subject) put(device driver.Device, stream driver.Stream, to driver.Address, content []byte) {
	s.t.Helper()
	size := uint64(len(content))
	staging, err := device.Allocate(driver.Pinned, size)
	s.NoError(err)
	copy(at(staging, size), content)
	s.NoError(device.Copy(stream, driver.Copy{To: to, From: staging, Bytes: size}))
	s.NoError(device.SynchronizeStream(stream))
	s.NoError(device.Free(driver.Pinned, staging))
}

// get reads them.
func (s *subject) get(device driver.Device, stream driver.Stream, from driver.Address, size uint64) []byte {
	s.t.Helper()
	staging, err := device.Allocate(driver.Pinned, size)
	s.NoError(err)
	s.NoError(device.Copy(stream, driver.Copy{To: staging, From: from, Bytes: size}))
	s.NoError(device.SynchronizeStream(stream))
	content := bytes.Clone(at(staging, size))
	s.NoError(device.Free(driver.Pinned, staging))
	return content
}

func describes(s *subject) {
	s.NotEmpty(s.driver.Name())
	s.Positive(s.driver.Count())
	s.NotEmpty(s.info.Name)
	s.Zero(s.info.Ordinal)
	s.NotZero(s.info.Bytes)
	s.NotEqual([16]byte{}, s.info.UUID)
	s.Positive(s.info.Major)
	s.Positive(s.info.Multiprocessors)
	s.Equal(s.info.VirtualMemory, s.info.Granularity > 0)
	s.Equal(s.info, s.device.Info())
	s.True(s.device.CanReach(0), "its own memory")
	s.False(s.device.CanReach(-1))
	s.False(s.device.CanReach(s.driver.Count()))
	free, total, err := s.device.MemoryInfo()
	s.NoError(err)
	s.LessOrEqual(free, total)
	s.NotZero(free)
}

func opensOnce(s *subject) {
	for ordinal := range s.driver.Count() {
		s.Same(s.open(ordinal), s.open(ordinal))
		s.Equal(ordinal, s.open(ordinal).Info().Ordinal)
	}
	for _, ordinal := range []int{-1, s.driver.Count(), 1 << 40} {
		device, err := s.driver.Open(ordinal)
		s.fails(status.NoDevice, err)
		s.Nil(device)
	}
}

// kinds is the kinds of memory that the device has.
func (s *subject) kinds() []driver.Memory {
	kinds := []driver.Memory{driver.Plain, driver.Pinned}
	if s.info.ManagedMemory {
		kinds = append(kinds, driver.Managed)
	}
	return kinds
}

func allocates(s *subject) {
	for _, kind := range s.kinds() {
		for _, size := range []uint64{1, 255, 256, 257, 4096, 100_000, 1 << 20} {
			content := noise(size, size)
			memory := s.memory(s.device, kind, size)
			s.Zero(memory%256, "%d bytes of kind %d", size, kind)
			other := s.memory(s.device, kind, size)
			s.NotEqual(memory, other)
			s.put(s.device, s.stream, memory, content)
			s.put(s.device, s.stream, other, noise(size, size+1))
			s.Equal(content, s.get(s.device, s.stream, memory, size), "%d bytes of kind %d", size, kind)
			if kind != driver.Plain {
				s.Equal(content, bytes.Clone(at(memory, size)), "the host sees what devices wrote")
			}
		}
	}
}

func refusesAllocations(s *subject) {
	for _, kind := range s.kinds() {
		_, err := s.device.Allocate(kind, 0)
		s.fails(status.InvalidArgument, err)
	}
	_, err := s.device.Allocate(driver.Managed+1, 256)
	s.fails(status.InvalidArgument, err)
}

func refusesFrees(s *subject) {
	for _, kind := range s.kinds() {
		memory, err := s.device.Allocate(kind, 8192)
		s.NoError(err)
		s.fails(status.InvalidArgument, s.device.Free(kind, 0))
		s.fails(status.InvalidArgument, s.device.Free(kind, memory+256), "inside a block")
		another := driver.Plain
		if kind == driver.Plain {
			another = driver.Pinned
		}
		s.fails(status.InvalidArgument, s.device.Free(another, memory), "of another kind")
		s.fails(status.InvalidArgument, s.device.Free(kind, s.host(4096)), "foreign memory")
		s.put(s.device, s.stream, memory, noise(8192, 1))
		s.NoError(s.device.Free(kind, memory))
		s.fails(status.InvalidArgument, s.device.Free(kind, memory), "twice")
	}
	s.fails(status.InvalidArgument, s.device.Free(driver.Managed+1, 4096))
}

func refusesTooMuch(s *subject) {
	for _, size := range []uint64{s.info.Bytes + 1, 1 << 60, 1<<64 - 1} {
		_, err := s.device.Allocate(driver.Plain, size)
		s.fails(status.OutOfMemory, err, "%d bytes", size)
		if s.info.OrderedMemory {
			_, err = s.device.AllocateOrdered(s.stream, size)
			s.fails(status.OutOfMemory, err, "%d bytes", size)
		}
	}
	memory := s.memory(s.device, driver.Plain, 4096)
	s.put(s.device, s.stream, memory, noise(4096, 1))
	s.Equal(noise(4096, 1), s.get(s.device, s.stream, memory, 4096), "afterwards it works as before")
}

func registers(s *subject) {
	const size = 64 << 10
	memory := s.host(size)
	s.NoError(s.device.Register(memory, size))
	s.fails(status.InvalidArgument, s.device.Register(memory, size), "twice")
	copy(at(memory, size), noise(size, 1))
	plain := s.memory(s.device, driver.Plain, size)
	s.NoError(s.device.Copy(s.stream, driver.Copy{To: plain, From: memory, Bytes: size}))
	s.NoError(s.device.SynchronizeStream(s.stream))
	s.Equal(noise(size, 1), s.get(s.device, s.stream, plain, size))
	s.fails(status.InvalidArgument, s.device.Unregister(memory+4096), "inside")
	s.NoError(s.device.Unregister(memory))
	s.fails(status.InvalidArgument, s.device.Unregister(memory), "twice")
	s.fails(status.InvalidArgument, s.device.Register(0, size))
	s.fails(status.InvalidArgument, s.device.Register(memory, 0))
	s.NoError(s.device.Register(memory, size), "again")
	s.NoError(s.device.Unregister(memory))
}

func allocatesOrdered(s *subject) {
	for round := range uint64(3) {
		var blocks []driver.Address
		for i, size := range []uint64{1, 256, 1000, 4096, 100_000, 2 << 20} {
			block, err := s.device.AllocateOrdered(s.stream, size)
			s.NoError(err)
			s.Zero(block % 256)
			s.NotContains(blocks, block)
			blocks = append(blocks, block)
			s.put(s.device, s.stream, block, noise(size, round*10+uint64(i)))
		}
		for i, size := range []uint64{1, 256, 1000, 4096, 100_000, 2 << 20} {
			s.Equal(noise(size, round*10+uint64(i)), s.get(s.device, s.stream, blocks[i], size))
			s.NoError(s.device.FreeOrdered(s.stream, blocks[i]))
		}
	}
	// Work that is queued before the free still finds its memory.
	target := s.memory(s.device, driver.Pinned, 1<<20)
	block, err := s.device.AllocateOrdered(s.stream, 1<<20)
	s.NoError(err)
	s.NoError(s.device.Fill(s.stream, block, 7, 1<<20))
	s.NoError(s.device.Copy(s.stream, driver.Copy{To: target, From: block, Bytes: 1 << 20}))
	s.NoError(s.device.FreeOrdered(s.stream, block))
	s.NoError(s.device.SynchronizeStream(s.stream))
	s.Equal(bytes.Repeat([]byte{7}, 1<<20), bytes.Clone(at(target, 1<<20)))
}

func refusesOrdered(s *subject) {
	_, err := s.device.AllocateOrdered(s.stream, 0)
	s.fails(status.InvalidArgument, err)
	for _, stream := range s.badStreams() {
		_, err = s.device.AllocateOrdered(stream, 256)
		s.fails(status.InvalidHandle, err)
	}
	block, err := s.device.AllocateOrdered(s.stream, 8192)
	s.NoError(err)
	for _, stream := range s.badStreams() {
		s.fails(status.InvalidHandle, s.device.FreeOrdered(stream, block))
	}
	s.fails(status.InvalidArgument, s.device.FreeOrdered(s.stream, 0))
	s.fails(status.InvalidArgument, s.device.FreeOrdered(s.stream, block+256), "inside a block")
	s.fails(status.InvalidArgument, s.device.FreeOrdered(s.stream, s.host(4096)), "foreign memory")
	plain := s.memory(s.device, driver.Plain, 256)
	s.fails(status.InvalidArgument, s.device.FreeOrdered(s.stream, plain), "memory without an order")
	s.fails(status.InvalidArgument, s.device.Free(driver.Plain, block), "memory with an order")
	s.NoError(s.device.FreeOrdered(s.stream, block), "after all that")
	s.fails(status.InvalidArgument, s.device.FreeOrdered(s.stream, block), "twice")
}

func sharesOrdered(s *subject) {
	other, ready, used := s.newStream(s.device), s.newEvent(s.device), s.newEvent(s.device)
	target := s.memory(s.device, driver.Pinned, 4096)
	block, err := s.device.AllocateOrdered(s.stream, 4096)
	s.NoError(err)
	s.NoError(s.device.RecordEvent(ready, s.stream))
	s.NoError(s.device.Wait(other, ready))
	s.NoError(s.device.Fill(other, block, 9, 4096))
	s.NoError(s.device.Copy(other, driver.Copy{To: target, From: block, Bytes: 4096}))
	s.NoError(s.device.RecordEvent(used, other))
	s.NoError(s.device.Wait(s.stream, used))
	s.NoError(s.device.FreeOrdered(s.stream, block))
	s.NoError(s.device.SynchronizeStream(s.stream))
	s.Equal(bytes.Repeat([]byte{9}, 4096), bytes.Clone(at(target, 4096)))
}

// Two streams take, use and free memory at the same time: what one writes, the other does not see, wherever the memory comes
// from.
func reusesInOrder(s *subject) {
	const size, rounds = 256 << 10, 24
	streams := []driver.Stream{s.stream, s.newStream(s.device)}
	target := s.memory(s.device, driver.Pinned, 2*rounds*size)
	for round := range 2 * rounds {
		stream := streams[round%2]
		block, err := s.device.AllocateOrdered(stream, size)
		s.NoError(err)
		s.NoError(s.device.Fill(stream, block, byte(round+1), size))
		s.NoError(s.device.Copy(stream, driver.Copy{To: target + driver.Address(round*size), From: block, Bytes: size}))
		s.NoError(s.device.FreeOrdered(stream, block))
	}
	s.NoError(s.device.Synchronize())
	for round := range 2 * rounds {
		got := bytes.Clone(at(target+driver.Address(round*size), size))
		s.Equal(bytes.Repeat([]byte{byte(round + 1)}, size), got, "round %d", round)
	}
}

func trims(s *subject) {
	block, err := s.device.AllocateOrdered(s.stream, 8<<20)
	s.NoError(err)
	s.NoError(s.device.FreeOrdered(s.stream, block))
	s.NoError(s.device.SynchronizeStream(s.stream))
	s.NoError(s.device.TrimOrdered(0))
	s.NoError(s.device.TrimOrdered(1<<64-1), "nothing to be trimmed")
	block, err = s.device.AllocateOrdered(s.stream, 8<<20)
	s.NoError(err)
	s.NoError(s.device.FreeOrdered(s.stream, block))
}

func mapsMemory(s *subject) {
	unit := s.info.Granularity
	addresses, err := s.device.Reserve(4 * unit)
	s.NoError(err)
	s.Zero(uint64(addresses) % unit)
	memory, err := s.device.CreatePhysical(2 * unit)
	s.NoError(err)
	s.NoError(s.device.Map(addresses+driver.Address(unit), false, memory))
	content := noise(5000, 1)
	s.put(s.device, s.stream, addresses+driver.Address(unit)+100, content)
	s.Equal(content, s.get(s.device, s.stream, addresses+driver.Address(unit)+100, 5000))
	s.fails(status.InvalidArgument, s.device.Release(addresses, 4*unit), "something is mapped")
	s.NoError(s.device.Unmap(addresses + driver.Address(unit)))
	// The memory keeps its bytes when it is mapped elsewhere.
	s.NoError(s.device.Map(addresses, false, memory))
	s.Equal(content, s.get(s.device, s.stream, addresses+100, 5000))
	s.NoError(s.device.DestroyPhysical(memory), "it stays until it is no longer mapped")
	s.Equal(content, s.get(s.device, s.stream, addresses+100, 5000))
	s.NoError(s.device.Unmap(addresses))
	s.NoError(s.device.Release(addresses, 4*unit))
}

func reachesMapped(s *subject) {
	other := s.open(1)
	unit := s.info.Granularity
	addresses, err := s.device.Reserve(unit)
	s.NoError(err)
	memory, err := s.device.CreatePhysical(unit)
	s.NoError(err)
	stream := s.newStream(other)
	for round := range byte(2) { // mapped anew, it is again
		s.NoError(s.device.Map(addresses, true, memory))
		s.NoError(other.Fill(stream, addresses, 7+round, 4096))
		s.NoError(other.SynchronizeStream(stream))
		s.Equal(bytes.Repeat([]byte{7 + round}, 4096), s.get(s.device, s.stream, addresses, 4096))
		s.NoError(s.device.Unmap(addresses))
	}
	s.NoError(s.device.DestroyPhysical(memory))
	s.NoError(s.device.Release(addresses, unit))
}

func growsMapped(s *subject) {
	unit := s.info.Granularity
	addresses, err := s.device.Reserve(3 * unit)
	s.NoError(err)
	var pieces []driver.Physical
	for i := range uint64(3) {
		memory, err := s.device.CreatePhysical(unit)
		s.NoError(err)
		pieces = append(pieces, memory)
		s.NoError(s.device.Map(addresses+driver.Address(i*unit), false, memory))
	}
	content := noise(2*unit, 1)
	s.put(s.device, s.stream, addresses+driver.Address(unit/2), content)
	s.Equal(content, s.get(s.device, s.stream, addresses+driver.Address(unit/2), 2*unit), "across the borders of what is mapped")
	for i, memory := range pieces {
		s.NoError(s.device.Unmap(addresses + driver.Address(uint64(i)*unit)))
		s.NoError(s.device.DestroyPhysical(memory))
	}
	s.NoError(s.device.Release(addresses, 3*unit))
}

// Memory of two sizes is mapped in one call, all of it or none.
func mapsTogether(s *subject) {
	unit := s.info.Granularity
	addresses, err := s.device.Reserve(4 * unit)
	s.NoError(err)
	one, err := s.device.CreatePhysical(unit)
	s.NoError(err)
	two, err := s.device.CreatePhysical(2 * unit)
	s.NoError(err)
	s.fails(status.InvalidHandle, s.device.Map(addresses, false, one, two, two+1<<40), "unknown memory behind known one")
	s.fails(status.InvalidArgument, s.device.Map(addresses+driver.Address(2*unit), false, one, two), "the second is not reserved")
	s.NoError(s.device.Map(addresses+driver.Address(3*unit), false, one))
	s.fails(status.InvalidArgument, s.device.Map(addresses, false, two, two), "something is mapped at the end of the second")
	s.NoError(s.device.Unmap(addresses + driver.Address(3*unit)))
	s.NoError(s.device.Map(addresses, false), "nothing to do")
	for _, at := range []uint64{0, 1, 2, 3} {
		s.fails(status.InvalidArgument, s.device.Unmap(addresses+driver.Address(at*unit)), "nothing is mapped")
	}
	s.NoError(s.device.Map(addresses+driver.Address(unit), false, two, one))
	content := noise(2*unit, 1)
	s.put(s.device, s.stream, addresses+driver.Address(3*unit/2), content)
	s.Equal(content, s.get(s.device, s.stream, addresses+driver.Address(3*unit/2), 2*unit), "across the border of both")
	s.fails(status.InvalidArgument, s.device.Unmap(addresses+driver.Address(2*unit)), "within what is mapped")
	s.NoError(s.device.Unmap(addresses + driver.Address(3*unit)))
	s.NoError(s.device.Map(addresses, false, one), "each is taken away by itself")
	s.Equal(content[3*unit/2:], s.get(s.device, s.stream, addresses, unit/2))
	s.NoError(s.device.Unmap(addresses))
	s.NoError(s.device.Unmap(addresses + driver.Address(unit)))
	s.NoError(s.device.DestroyPhysical(one))
	s.NoError(s.device.DestroyPhysical(two))
	s.NoError(s.device.Release(addresses, 4*unit))
}

func refusesMappings(s *subject) {
	unit := s.info.Granularity
	for _, size := range []uint64{0, 1, unit - 1, unit + 1} {
		_, err := s.device.Reserve(size)
		s.fails(status.InvalidArgument, err, "%d bytes", size)
		_, err = s.device.CreatePhysical(size)
		s.fails(status.InvalidArgument, err, "%d bytes", size)
	}
	_, err := s.device.CreatePhysical((s.info.Bytes/unit + 1) * unit)
	s.fails(status.OutOfMemory, err)
	addresses, err := s.device.Reserve(2 * unit)
	s.NoError(err)
	memory, err := s.device.CreatePhysical(unit)
	s.NoError(err)
	s.fails(status.InvalidHandle, s.device.Map(addresses, false, memory+1<<40), "unknown memory")
	s.fails(status.InvalidArgument, s.device.Map(addresses+1, false, memory), "not aligned")
	s.fails(status.InvalidArgument, s.device.Map(addresses+driver.Address(2*unit), false, memory), "not reserved")
	s.fails(status.InvalidArgument, s.device.Unmap(addresses), "nothing is mapped")
	s.NoError(s.device.Map(addresses, false, memory))
	s.fails(status.InvalidArgument, s.device.Map(addresses, false, memory), "something is mapped")
	s.NoError(s.device.Unmap(addresses))
	s.fails(status.InvalidArgument, s.device.Unmap(addresses), "twice")
	s.NoError(s.device.DestroyPhysical(memory))
	s.fails(status.InvalidHandle, s.device.DestroyPhysical(memory), "twice")
	s.fails(status.InvalidHandle, s.device.Map(addresses, false, memory), "destroyed")
	s.fails(status.InvalidArgument, s.device.Release(addresses, unit), "half of it")
	s.NoError(s.device.Release(addresses, 2*unit))
	s.fails(status.InvalidArgument, s.device.Release(addresses, 2*unit), "twice")
}

func unsupported(s *subject) {
	if !s.info.OrderedMemory {
		_, err := s.device.AllocateOrdered(s.stream, 256)
		s.fails(status.Unsupported, err)
		s.fails(status.Unsupported, s.device.FreeOrdered(s.stream, 256))
		s.fails(status.Unsupported, s.device.TrimOrdered(0))
	}
	if !s.info.ManagedMemory {
		_, err := s.device.Allocate(driver.Managed, 256)
		s.fails(status.Unsupported, err)
	}
	if !s.info.ManagedHints {
		s.fails(status.Unsupported, s.device.Prefetch(s.stream, 4096, 256, false))
		s.fails(status.Unsupported, s.device.Advise(4096, 256, driver.ReadMostly))
	}
	if !s.info.VirtualMemory {
		_, err := s.device.Reserve(2 << 20)
		s.fails(status.Unsupported, err)
		_, err = s.device.CreatePhysical(2 << 20)
		s.fails(status.Unsupported, err)
		s.fails(status.Unsupported, s.device.Map(2<<20, false, 1))
		s.fails(status.Unsupported, s.device.Unmap(2<<20))
		s.fails(status.Unsupported, s.device.Release(2<<20, 2<<20))
	}
}

func endsStreams(s *subject) {
	target := s.memory(s.device, driver.Pinned, 1<<20)
	clear(at(target, 1<<20))
	for _, priority := range []int{0, -1, 1, -1000} {
		stream, err := s.device.CreateStream(priority)
		s.NoError(err)
		s.NoError(s.device.Fill(stream, target, byte(priority), 1<<20))
		s.NoError(s.device.DestroyStream(stream))
		s.fails(status.InvalidHandle, s.device.DestroyStream(stream), "twice")
		s.NoError(s.device.Synchronize(), "what was queued still runs")
		s.Equal(bytes.Repeat([]byte{byte(priority)}, 1<<20), bytes.Clone(at(target, 1<<20)))
	}
	done, err := s.device.QueryStream(s.stream)
	s.NoError(err)
	s.True(done, "nothing was queued")
	s.fails(status.InvalidHandle, s.device.DestroyStream(0), "the default stream stays")
}

// badStreams is streams that the device does not have: one that was made up, and one that ended.
func (s *subject) badStreams() []driver.Stream {
	ended, err := s.device.CreateStream(0)
	s.NoError(err)
	s.NoError(s.device.DestroyStream(ended))
	return []driver.Stream{ended, 12345678}
}

func refusesStreams(s *subject) {
	memory, event := s.memory(s.device, driver.Plain, 256), s.newEvent(s.device)
	for _, stream := range s.badStreams() {
		s.fails(status.InvalidHandle, s.device.DestroyStream(stream))
		_, err := s.device.QueryStream(stream)
		s.fails(status.InvalidHandle, err)
		s.fails(status.InvalidHandle, s.device.SynchronizeStream(stream))
		s.fails(status.InvalidHandle, s.device.RecordEvent(event, stream))
		s.fails(status.InvalidHandle, s.device.Wait(stream, event))
		s.fails(status.InvalidHandle, s.device.Fill(stream, memory, 1, 256))
		s.fails(status.InvalidHandle, s.device.Copy(stream, driver.Copy{To: memory, From: memory + 128, Bytes: 8}))
	}
	done, err := s.device.QueryEvent(event)
	s.NoError(err)
	s.True(done, "it was never recorded")
}

func sharesStreams(s *subject) {
	memory := s.memory(s.device, driver.Pinned, 4096)
	made, err := s.device.CreateStream(0)
	s.NoError(err)
	foreign, err := s.device.ForeignStream(uintptr(made))
	s.NoError(err)
	s.Equal(made, foreign, "it keeps its value")
	id, err := s.device.StreamID(uintptr(made))
	s.NoError(err)
	again, err := s.device.StreamID(uintptr(made))
	s.NoError(err)
	other, err := s.device.StreamID(uintptr(s.stream))
	s.NoError(err)
	s.True(id == again && id != other, "%d, %d, another stream %d", id, again, other)
	s.NoError(s.device.DestroyStream(foreign))
	s.NoError(s.device.Fill(made, memory, 1, 4096), "its maker still has it")
	s.NoError(s.device.SynchronizeStream(made))
	s.NoError(s.device.DestroyStream(made))
	s.fails(status.InvalidHandle, s.device.Fill(made, memory, 2, 4096))
	s.Equal(byte(1), at(memory, 4096)[4095])
}

func usesDefaultStream(s *subject) {
	event, target := s.newEvent(s.device), s.memory(s.device, driver.Pinned, 4096)
	s.NoError(s.device.Fill(s.stream, target, 1, 4096))
	s.NoError(s.device.RecordEvent(event, s.stream))
	s.NoError(s.device.Wait(0, event))
	s.NoError(s.device.Fill(0, target, 2, 4096))
	s.NoError(s.device.RecordEvent(event, 0))
	s.NoError(s.device.Wait(s.stream, event))
	s.NoError(s.device.Fill(s.stream, target, 3, 2048))
	s.NoError(s.device.SynchronizeStream(s.stream))
	done, err := s.device.QueryStream(0)
	s.NoError(err)
	s.True(done)
	s.Equal(byte(3), at(target, 4096)[0])
	s.Equal(byte(2), at(target, 4096)[4095])
}

func endsEvents(s *subject) {
	target := s.memory(s.device, driver.Pinned, 1<<20)
	event, err := s.device.CreateEvent()
	s.NoError(err)
	done, err := s.device.QueryEvent(event)
	s.NoError(err)
	s.True(done, "one that was never recorded counts as done")
	s.NoError(s.device.SynchronizeEvent(event))
	for value := range byte(3) {
		s.NoError(s.device.Fill(s.stream, target, value, 1<<20))
		s.NoError(s.device.RecordEvent(event, s.stream))
		s.NoError(s.device.SynchronizeEvent(event))
		s.Equal(value, at(target, 1<<20)[1<<20-1])
		done, err = s.device.QueryEvent(event)
		s.NoError(err)
		s.True(done)
	}
	// A stream goes on waiting for an event that has ended.
	other := s.newStream(s.device)
	s.NoError(s.device.Fill(s.stream, target, 100, 1<<20))
	s.NoError(s.device.RecordEvent(event, s.stream))
	s.NoError(s.device.Wait(other, event))
	s.NoError(s.device.DestroyEvent(event))
	s.fails(status.InvalidHandle, s.device.DestroyEvent(event), "twice")
	s.NoError(s.device.Fill(other, target, 101, 1<<20))
	s.NoError(s.device.SynchronizeStream(other))
	s.Equal(bytes.Repeat([]byte{101}, 1<<20), bytes.Clone(at(target, 1<<20)))
}

func refusesEvents(s *subject) {
	ended, err := s.device.CreateEvent()
	s.NoError(err)
	s.NoError(s.device.DestroyEvent(ended))
	for _, event := range []driver.Event{0, ended, 12345678} {
		s.fails(status.InvalidHandle, s.device.DestroyEvent(event))
		s.fails(status.InvalidHandle, s.device.RecordEvent(event, s.stream))
		_, err = s.device.QueryEvent(event)
		s.fails(status.InvalidHandle, err)
		s.fails(status.InvalidHandle, s.device.SynchronizeEvent(event))
		s.fails(status.InvalidHandle, s.device.Wait(s.stream, event))
	}
}

// Bytes go around through many streams; each waits only for the one before it.
func ordersByEvents(s *subject) {
	const size, streams = 1 << 20, 5
	content := noise(size, 1)
	first := s.memory(s.device, driver.Plain, size)
	s.put(s.device, s.stream, first, content)
	before, last := s.newEvent(s.device), first
	s.NoError(s.device.RecordEvent(before, s.stream))
	for range streams {
		stream, next, event := s.newStream(s.device), s.memory(s.device, driver.Plain, size), s.newEvent(s.device)
		s.NoError(s.device.Wait(stream, before))
		s.NoError(s.device.Copy(stream, driver.Copy{To: next, From: last, Bytes: size}))
		// The one before may be overwritten as soon as it was read.
		s.NoError(s.device.Fill(stream, last, 0xee, size))
		s.NoError(s.device.RecordEvent(event, stream))
		before, last = event, next
	}
	s.NoError(s.device.Wait(s.stream, before))
	s.Equal(content, s.get(s.device, s.stream, last, size))
	s.Equal(bytes.Repeat([]byte{0xee}, size), s.get(s.device, s.stream, first, size))
}

// An event that moves on after the wait does not hold the stream up: else the two would wait for each other.
func waitsForThePast(s *subject) {
	other, event, back := s.newStream(s.device), s.newEvent(s.device), s.newEvent(s.device)
	memory := s.memory(s.device, driver.Plain, 1<<20)
	s.NoError(s.device.Fill(s.stream, memory, 1, 1<<20))
	s.NoError(s.device.RecordEvent(event, s.stream))
	s.NoError(s.device.Wait(other, event))
	s.NoError(s.device.Fill(other, memory, 2, 1<<20))
	s.NoError(s.device.RecordEvent(back, other))
	s.NoError(s.device.Wait(s.stream, back))
	s.NoError(s.device.Fill(s.stream, memory, 3, 1<<20))
	s.NoError(s.device.RecordEvent(event, s.stream))
	s.NoError(s.device.SynchronizeStream(other))
	s.NoError(s.device.SynchronizeEvent(event))
	s.Equal(bytes.Repeat([]byte{3}, 1<<20), s.get(s.device, s.stream, memory, 1<<20))
}

// place is memory of one kind, as copies see it.
type place struct {
	name    string
	address driver.Address
}

func (s *subject) places(size uint64) []place {
	places := []place{
		{"host", s.host(size)},
		{"plain", s.memory(s.device, driver.Plain, size)},
		{"pinned", s.memory(s.device, driver.Pinned, size)},
	}
	if s.info.ManagedMemory {
		places = append(places, place{"managed", s.memory(s.device, driver.Managed, size)})
	}
	registered := s.host(size)
	s.NoError(s.device.Register(registered, size))
	s.t.Cleanup(func() {
		s.NoError(s.device.Synchronize())
		s.NoError(s.device.Unregister(registered))
	})
	return append(places, place{"registered", registered})
}

func copiesEverywhere(s *subject) {
	const size = 70_000
	from, to := s.places(size), s.places(size)
	for i, source := range from {
		for j, target := range to {
			content := noise(size, uint64(i*100+j))
			s.put(s.device, s.stream, source.address, content)
			s.NoError(s.device.Copy(s.stream, driver.Copy{To: target.address, From: source.address, Bytes: size}))
			s.Equal(content, s.get(s.device, s.stream, target.address, size), "%s to %s", source.name, target.name)
		}
	}
}

// An address is the device's from its allocation to its end, and that of host memory never.
func knowsItsMemory(s *subject) {
	holds := func(address driver.Address) bool {
		holds, err := s.device.Holds(address)
		s.NoError(err)
		return holds
	}
	const size = 4096
	memory := s.memory(s.device, driver.Plain, size)
	s.True(holds(memory))
	s.True(holds(memory + size - 1))
	if s.info.OrderedMemory {
		ordered, err := s.device.AllocateOrdered(s.stream, size)
		s.NoError(err)
		s.True(holds(ordered))
		s.NoError(s.device.FreeOrdered(s.stream, ordered))
	}
	for _, elsewhere := range []driver.Address{0, 8, s.memory(s.device, driver.Pinned, size), s.host(size)} {
		s.False(holds(elsewhere), "%#x", elsewhere)
	}
	if s.info.VirtualMemory {
		reserved, err := s.device.Reserve(s.info.Granularity)
		s.NoError(err)
		physical, err := s.device.CreatePhysical(s.info.Granularity)
		s.NoError(err)
		s.NoError(s.device.Map(reserved, false, physical))
		s.True(holds(reserved + 100))
		s.NoError(s.device.Unmap(reserved))
		s.NoError(s.device.DestroyPhysical(physical))
		s.NoError(s.device.Release(reserved, s.info.Granularity))
	}
}

// A hint changes no bytes, and is refused for memory that does not move.
func takesHints(s *subject) {
	const size = 300_000
	address, content := s.memory(s.device, driver.Managed, size), noise(size, 9)
	s.put(s.device, s.stream, address, content)
	for _, advice := range []driver.Advice{driver.ReadMostly, driver.PreferDevice, driver.PreferHost, driver.PreferNowhere,
		driver.NotReadMostly} {
		s.NoError(s.device.Advise(address, size, advice))
		s.NoError(s.device.Advise(address+4096, 5000, advice), "a part")
		s.NoError(s.device.Prefetch(s.stream, address, size, advice%2 == 0))
		s.NoError(s.device.Prefetch(s.stream, address+100, 9000, advice%2 == 1))
		s.Equal(content, s.get(s.device, s.stream, address, size))
	}
	s.NoError(s.device.Synchronize())
	s.Equal(content, at(address, size))
	s.NoError(s.device.Prefetch(s.stream, address, 0, true))
	s.NoError(s.device.Advise(address, 0, driver.ReadMostly))
	s.fails(status.InvalidArgument, s.device.Prefetch(s.stream, address, 1<<40, true))
	s.fails(status.InvalidArgument, s.device.Advise(address, 1<<40, driver.ReadMostly))
	s.fails(status.InvalidArgument, s.device.Advise(address, size, 17))
	for _, kind := range []driver.Memory{driver.Plain, driver.Pinned} {
		other := s.memory(s.device, kind, 4096)
		s.fails(status.InvalidArgument, s.device.Prefetch(s.stream, other, 4096, false))
		s.fails(status.InvalidArgument, s.device.Advise(other, 4096, driver.PreferHost))
	}
	s.fails(status.InvalidHandle, s.device.Prefetch(12345, address, size, false))
}

func copiesAnySize(s *subject) {
	const size = 9000
	random := rand.New(rand.NewPCG(1, 2))
	from, to := s.memory(s.device, driver.Plain, size), s.memory(s.device, driver.Plain, size)
	model := make([]byte, size)
	content := noise(size, 3)
	s.put(s.device, s.stream, from, content)
	s.put(s.device, s.stream, to, model)
	for range 100 {
		length := random.Uint64N(size) >> random.Uint64N(12)
		source, target := random.Uint64N(size-length), random.Uint64N(size-length)
		copy(model[target:target+length], content[source:])
		s.NoError(s.device.Copy(s.stream, driver.Copy{
			To: to + driver.Address(target), From: from + driver.Address(source), Bytes: length,
		}))
	}
	s.Equal(model, s.get(s.device, s.stream, to, size))
}

func copiesMany(s *subject) {
	const size, count = 1024, 100
	from, to := s.memory(s.device, driver.Plain, size*count), s.memory(s.device, driver.Plain, size*count)
	content := noise(size*count, 1)
	s.put(s.device, s.stream, from, content)
	s.NoError(s.device.Fill(s.stream, to, 0, size*count), "compute-sanitizer does not see what a batch of copies writes")
	var copies []driver.Copy
	var model []byte
	for i := range count {
		source := (i*37 + 5) % count
		copies = append(copies, driver.Copy{
			To: to + driver.Address(i*size), From: from + driver.Address(source*size), Bytes: size,
		})
		model = append(model, content[source*size:(source+1)*size]...)
	}
	s.NoError(s.device.Copy(s.stream, copies...))
	clear(copies)
	s.Equal(model, s.get(s.device, s.stream, to, size*count), "the list was copied")
	s.NoError(s.device.Copy(s.stream), "none at all")
}

func refusesCopies(s *subject) {
	memory := s.memory(s.device, driver.Plain, 4096)
	s.put(s.device, s.stream, memory, noise(4096, 1))
	s.fails(status.InvalidArgument, s.device.Copy(s.stream, driver.Copy{To: memory, From: 0, Bytes: 8}))
	s.fails(status.InvalidArgument, s.device.Copy(s.stream, driver.Copy{To: 0, From: memory, Bytes: 8}))
	s.fails(status.InvalidArgument, s.device.Copy(s.stream, driver.Copy{To: memory, From: memory + 7, Bytes: 8}), "an overlap")
	s.fails(status.InvalidArgument, s.device.Copy(s.stream, driver.Copy{To: memory, From: memory + 2048, Bytes: 8},
		driver.Copy{To: memory + 8, From: memory + 9, Bytes: 8}), "the second one is bad: the first is not done")
	s.fails(status.InvalidArgument, s.device.Copy(s.stream, driver.Copy{To: memory, From: memory + 2048, Bytes: 1<<64 - 1}))
	s.NoError(s.device.Copy(s.stream, driver.Copy{To: memory, From: memory + 2048}), "0 bytes are nothing to do")
	s.fails(status.InvalidArgument, s.device.Fill(s.stream, 0, 1, 8))
	s.NoError(s.device.Fill(s.stream, memory, 1, 0), "0 bytes are nothing to do")
	s.Equal(noise(4096, 1), s.get(s.device, s.stream, memory, 4096), "nothing was changed")
}

func fills(s *subject) {
	const size = 5000
	random := rand.New(rand.NewPCG(3, 4))
	for _, kind := range s.kinds() {
		memory := s.memory(s.device, kind, size)
		model := noise(size, 1)
		s.put(s.device, s.stream, memory, model)
		for value := range byte(50) {
			length := random.Uint64N(size) >> random.Uint64N(12)
			offset := random.Uint64N(size - length)
			copy(model[offset:], bytes.Repeat([]byte{value}, int(length)))
			s.NoError(s.device.Fill(s.stream, memory+driver.Address(offset), value, length))
		}
		s.Equal(model, s.get(s.device, s.stream, memory, size))
	}
}

func refusesKernels(s *subject) {
	if !s.info.Simulated {
		for _, image := range [][]byte{nil, {}} {
			_, err := s.device.LoadModule(image)
			s.fails(status.InvalidArgument, err)
		}
	}
	s.fails(status.InvalidHandle, s.device.UnloadModule(0))
	s.fails(status.InvalidHandle, s.device.UnloadModule(12345678))
	_, err := s.device.Function(12345678, "mmsb__kernel_fill")
	s.fails(status.InvalidHandle, err)
	for _, launch := range []driver.Launch{{Blocks: 1, Threads: 1}, {Function: 12345678, Blocks: 1, Threads: 1}} {
		s.fails(status.InvalidHandle, s.device.Launch(s.stream, &launch))
	}
}

func synchronizesDevice(s *subject) {
	const size = 256 << 10
	target := s.memory(s.device, driver.Pinned, 8*size)
	for i := range 8 {
		s.NoError(s.device.Fill(s.newStream(s.device), target+driver.Address(i*size), byte(i), size))
	}
	s.NoError(s.device.Synchronize())
	for i := range 8 {
		s.Equal(bytes.Repeat([]byte{byte(i)}, size), bytes.Clone(at(target+driver.Address(i*size), size)))
	}
}

func copiesBetweenDevices(s *subject) {
	const size = 100_000
	other := s.open(1)
	here, there := s.memory(s.device, driver.Plain, size), s.memory(other, driver.Plain, size)
	stream := s.newStream(other)
	content := noise(size, 1)
	s.put(s.device, s.stream, here, content)
	s.NoError(s.device.Copy(s.stream, driver.Copy{To: there, From: here, Bytes: size}))
	s.NoError(s.device.SynchronizeStream(s.stream))
	s.Equal(content, s.get(other, stream, there, size), "pushed")
	s.put(other, stream, there, noise(size, 2))
	s.NoError(s.device.Copy(s.stream, driver.Copy{To: here, From: there, Bytes: size}))
	s.Equal(noise(size, 2), s.get(s.device, s.stream, here, size), "pulled")
}

func ordersDevices(s *subject) {
	const size = 1 << 20
	other := s.open(1)
	stream := s.newStream(other)
	shared := s.memory(s.device, driver.Pinned, size)
	here, there := s.newEvent(s.device), s.newEvent(other)
	for round := range byte(20) {
		s.NoError(s.device.Fill(s.stream, shared, 2*round, size))
		s.NoError(s.device.RecordEvent(here, s.stream))
		s.NoError(other.Wait(stream, here))
		s.NoError(other.Fill(stream, shared, 2*round+1, size))
		s.NoError(other.RecordEvent(there, stream))
		s.NoError(s.device.Wait(s.stream, there))
	}
	s.NoError(s.device.SynchronizeStream(s.stream))
	s.Equal(bytes.Repeat([]byte{39}, size), bytes.Clone(at(shared, size)))
}

func keepsDevicesApart(s *subject) {
	other := s.open(1)
	stream, event := s.newStream(other), s.newEvent(other)
	memory := s.memory(other, driver.Plain, 4096)
	pinned := s.memory(other, driver.Pinned, 4096)
	s.NotEqual(s.info.UUID, other.Info().UUID)
	s.fails(status.InvalidArgument, s.device.Free(driver.Plain, memory))
	s.fails(status.InvalidArgument, s.device.Free(driver.Pinned, pinned))
	s.fails(status.InvalidHandle, s.device.DestroyStream(stream))
	s.fails(status.InvalidHandle, s.device.SynchronizeStream(stream))
	_, err := s.device.ForeignStream(uintptr(stream))
	s.fails(status.InvalidHandle, err)
	s.fails(status.InvalidHandle, s.device.Fill(stream, memory, 1, 16))
	s.fails(status.InvalidHandle, s.device.DestroyEvent(event))
	s.fails(status.InvalidHandle, s.device.RecordEvent(event, s.stream))
	s.fails(status.InvalidHandle, other.RecordEvent(event, s.stream))
	_, err = s.device.QueryEvent(event)
	s.fails(status.InvalidHandle, err)
	if s.info.OrderedMemory && other.Info().OrderedMemory {
		block, err := other.AllocateOrdered(stream, 4096)
		s.NoError(err)
		s.fails(status.InvalidArgument, s.device.FreeOrdered(s.stream, block))
		_, err = s.device.AllocateOrdered(stream, 4096)
		s.fails(status.InvalidHandle, err)
		s.NoError(other.FreeOrdered(stream, block))
	}
	if s.info.VirtualMemory && other.Info().VirtualMemory {
		physical, err := other.CreatePhysical(other.Info().Granularity)
		s.NoError(err)
		s.fails(status.InvalidHandle, s.device.DestroyPhysical(physical))
		s.NoError(other.DestroyPhysical(physical))
	}
}

// Each goroutine has a stream of its own, and all of them share one more.
func manyGoroutines(s *subject) {
	const goroutines, rounds, size = 16, 30, 10_000
	shared := s.memory(s.device, driver.Plain, goroutines*size)
	errs := make([]error, goroutines)
	var all sync.WaitGroup
	for number := range goroutines {
		all.Go(func() { errs[number] = s.worker(number, rounds, size, shared+driver.Address(number*size)) })
	}
	all.Wait()
	for _, err := range errs {
		s.NoError(err)
	}
}

// worker does a bit of everything; it has its own part of the shared memory. require must not be used in other goroutines.
func (s *subject) worker(number, rounds int, size uint64, mine driver.Address) (err error) {
	d := s.device
	try := func(step error) {
		if err == nil {
			err = step
		}
	}
	stream, step := d.CreateStream(0)
	try(step)
	pinned, step := d.Allocate(driver.Pinned, size)
	try(step)
	for round := 0; round < rounds && err == nil; round++ {
		event, step := d.CreateEvent()
		try(step)
		value := byte(number*16 + round)
		block := mine
		if s.info.OrderedMemory {
			block, step = d.AllocateOrdered(stream, size)
			try(step)
		}
		try(d.Fill(stream, block, value, size))
		try(d.RecordEvent(event, stream))
		try(d.Wait(s.stream, event))
		if block != mine {
			try(d.Copy(s.stream, driver.Copy{To: mine, From: block, Bytes: size}))
		}
		try(d.RecordEvent(event, s.stream))
		try(d.Wait(stream, event))
		try(d.Copy(stream, driver.Copy{To: pinned, From: mine, Bytes: size}))
		if block != mine {
			try(d.FreeOrdered(stream, block))
		}
		_, step = d.QueryEvent(event)
		try(step)
		try(d.SynchronizeStream(stream))
		if got := at(pinned, size); err == nil && !bytes.Equal(got, bytes.Repeat([]byte{value}, int(size))) {
			err = fmt.Errorf("goroutine %d, round %d: %d expected, got %d .. %d", number, round, value, got[0], got[size-1])
		}
		try(d.DestroyEvent(event))
	}
	try(d.Free(driver.Pinned, pinned))
	try(d.DestroyStream(stream))
	return err
}
