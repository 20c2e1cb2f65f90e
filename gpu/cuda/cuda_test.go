package cuda

import (
	"bytes"
	"encoding/binary"
	"os"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"
	"unsafe"

	"libmmsb/core/region"
	"libmmsb/core/status"
	"libmmsb/gpu/driver"
	"libmmsb/tests/fakecuda"

	"github.com/stretchr/testify/require"
)

func itoa(number int) string { return strconv.Itoa(number) }

// ptx is code that the stand-in has bodies for.
const ptx = `
.version 8.0
.target sm_80
.visible .entry fakecuda_fill(.param .align 8 .b8 p[24]) { ret; }
.visible .entry fakecuda_trap() { ret; }
`

// fillParameter is fakecuda_fill's.
func fillParameter(address driver.Address, bytes uint64, value byte) []byte {
	parameter := binary.LittleEndian.AppendUint64(nil, uint64(address))
	parameter = binary.LittleEndian.AppendUint64(parameter, bytes)
	return binary.LittleEndian.AppendUint64(parameter, uint64(value))
}

// session is a device with one of everything, as far as its steps have come.
type session struct {
	device   driver.Device
	foreign  uintptr
	plain    [3]driver.Address // by kind
	host     driver.Address
	ordered  driver.Address
	stream   driver.Stream
	event    driver.Event
	module   driver.Module
	kernel   driver.Function
	reserved driver.Address
	physical driver.Physical
}

const stepBytes = 64 << 10

// steps call everything that a device can do. Each may be called again when it failed. The last ones give back what the first
// ones took.
func (s *session) steps() []func() error {
	d := s.device
	unit := d.Info().Granularity
	at := func(offset driver.Address) driver.Address { return s.plain[driver.Plain] + offset }
	return []func() error{
		func() (err error) { _, _, err = d.MemoryInfo(); return },
		func() (err error) { s.stream, err = d.CreateStream(0); return },
		func() (err error) { _, err = d.ForeignStream(s.foreign); return },
		func() (err error) { _, err = d.StreamID(s.foreign); return },
		func() (err error) { s.event, err = d.CreateEvent(); return },
		func() (err error) { s.plain[driver.Plain], err = d.Allocate(driver.Plain, stepBytes); return },
		func() (err error) { s.plain[driver.Pinned], err = d.Allocate(driver.Pinned, stepBytes); return },
		func() (err error) { s.plain[driver.Managed], err = d.Allocate(driver.Managed, stepBytes); return },
		func() error { return d.Register(s.host, stepBytes) },
		func() (err error) { s.ordered, err = d.AllocateOrdered(s.stream, stepBytes); return },
		func() (err error) { s.reserved, err = d.Reserve(2 * unit); return },
		func() (err error) { s.physical, err = d.CreatePhysical(unit); return },
		func() error { return d.Map(s.reserved, true, s.physical) },
		func() error { return d.Fill(s.stream, at(0), 1, stepBytes) },
		func() error { return d.Copy(s.stream, driver.Copy{To: at(0), From: s.host, Bytes: 16}) },
		func() error {
			return d.Copy(s.stream, driver.Copy{To: at(0), From: s.host, Bytes: 16},
				driver.Copy{To: at(32), From: s.host, Bytes: 16})
		},
		func() error { return d.RecordEvent(s.event, s.stream) },
		func() error { return d.Wait(driver.Stream(s.foreign), s.event) },
		func() (err error) { _, err = d.QueryEvent(s.event); return },
		func() (err error) { _, err = d.QueryStream(s.stream); return },
		func() (err error) { s.module, err = d.LoadModule([]byte(ptx)); return },
		func() (err error) { s.kernel, err = d.Function(s.module, "fakecuda_fill"); return },
		func() error {
			return d.Launch(s.stream, &driver.Launch{Function: s.kernel, Blocks: 2, Threads: 32,
				Parameter: fillParameter(at(0), 100, 3)})
		},
		func() error { return d.SynchronizeEvent(s.event) },
		func() error { return d.SynchronizeStream(s.stream) },
		d.Synchronize,
		func() error { return d.UnloadModule(s.module) },
		func() error { return d.Unmap(s.reserved) },
		func() error { return d.DestroyPhysical(s.physical) },
		func() error { return d.Release(s.reserved, 2*unit) },
		func() error { return d.FreeOrdered(s.stream, s.ordered) },
		func() error { return d.SynchronizeStream(s.stream) },
		func() error { return d.TrimOrdered(0) },
		func() error { return d.Unregister(s.host) },
		func() error { return d.Free(driver.Managed, s.plain[driver.Managed]) },
		func() error { return d.Free(driver.Pinned, s.plain[driver.Pinned]) },
		func() error { return d.Free(driver.Plain, s.plain[driver.Plain]) },
		func() error { return d.DestroyEvent(s.event) },
		func() error { return d.DestroyStream(driver.Stream(s.foreign)) },
		func() error { return d.DestroyStream(s.stream) },
	}
}

// newSession opens the first device, and makes what others in the process would have.
func newSession(t *testing.T, d *Driver, library *fakecuda.Library) *session {
	device, err := d.Open(0)
	require.NoError(t, err)
	number, err := region.Map(stepBytes, false)
	require.NoError(t, err)
	t.Cleanup(func() { region.Unmap(number) })
	s := &session{device: device, host: driver.Address(region.Base(number))}
	runtime.LockOSThread()
	before := library.Current()
	library.SetCurrent(device.Handle())
	s.foreign = library.NewStream()
	library.SetCurrent(before)
	t.Cleanup(func() {
		library.SetCurrent(device.Handle())
		library.EndStream(s.foreign)
		library.SetCurrent(before)
		runtime.UnlockOSThread()
	})
	return s
}

func TestTheCallersContextStays(t *testing.T) {
	for _, test := range []struct {
		name  string
		fault string // a function that always fails
	}{{"none is current", ""}, {"another is current", ""}, {"calls fail", "*"}} {
		t.Run(test.name, func(t *testing.T) {
			d, library := openFake(t)
			s := newSession(t, d, library)
			var context uintptr
			if test.name == "another is current" {
				other, err := d.Open(1)
				require.NoError(t, err)
				context = other.Handle()
			}
			library.SetCurrent(context)
			for number, step := range s.steps() {
				if test.fault != "" {
					library.Fail("", 2, 999) // the call behind the push
					_ = step()
					require.Equal(t, context, library.Current(), "step %d, failing", number)
					library.Fail("", 0, 0)
				}
				if err := step(); test.fault == "" {
					require.NoError(t, err, "step %d", number)
				}
				require.Equal(t, context, library.Current(), "step %d", number)
			}
		})
	}
}

// Any call of the driver may fail: then nothing has changed, and the operation can be done again.
func TestEachCallFails(t *testing.T) {
	hits := 0
	for nth := 1; ; nth++ {
		hit := false
		t.Run(itoa(nth), func(t *testing.T) {
			d, library := openFake(t)
			s := newSession(t, d, library)
			library.Fail("", nth, 304)
			for number, step := range s.steps() {
				before := library.Counts()
				err := step()
				if err == nil {
					continue
				}
				require.False(t, hit, "step %d fails a second time: %v", number, err)
				hit = true
				require.Equal(t, before, library.Counts(), "step %d", number)
				fails(t, err, status.Device, "(304)", "device 0: ")
				require.Equal(t, int32(304), status.Of(err).Foreign)
				require.NoError(t, step(), "step %d, again", number)
			}
			library.Fail("", 0, 0)
			one := s.device.(*device)
			require.Empty(t, one.memory.bytes)
			require.Empty(t, one.virtual.mapped)
			require.Empty(t, one.virtual.physical)
			require.Empty(t, one.virtual.reserved)
		})
		if !hit {
			break
		}
		hits++
	}
	require.Greater(t, hits, 70, "each step makes two calls at least")
}

func TestEachCallOfOpeningFails(t *testing.T) {
	failures := 0
	for nth := 1; nth == failures+1; nth++ {
		d, library := openFake(t)
		_, err := d.Open(1)
		require.NoError(t, err)
		library.Fail("", nth, 304)
		if _, err = d.Open(0); err != nil {
			failures++
			fails(t, err, status.Device, "device 0: ", "(304)")
			require.Equal(t, opened(1), library.Counts(), "call %d", nth)
			_, err = d.Open(0)
			require.NoError(t, err, "the next one works")
		}
		library.Fail("", 0, 0)
	}
	require.Greater(t, failures, 15)
}

// A driver that does not know an attribute yet has not what it stands for.
func TestUnknownAttributesAreNo(t *testing.T) {
	without := 0
	for nth := 1; nth <= 9; nth++ {
		library := fakecuda.Load(t)
		d, err := load(library.Path)
		require.NoError(t, err)
		library.Fail("cuDeviceGetAttribute", nth, 1)
		opened, err := d.Open(0)
		require.NoError(t, err)
		if info := opened.Info(); !info.OrderedMemory {
			without++
			_, err = opened.AllocateOrdered(0, 4096)
			fails(t, err, status.Unsupported)
			fails(t, opened.FreeOrdered(0, 4096), status.Unsupported)
			fails(t, opened.TrimOrdered(0), status.Unsupported)
		} else if !info.VirtualMemory {
			without++
			require.Zero(t, info.Granularity)
			_, err = opened.Reserve(1 << 20)
			fails(t, err, status.Unsupported)
			fails(t, opened.Map(1<<20, false, 1), status.Unsupported)
		} else if !info.ManagedMemory {
			without++
			_, err = opened.Allocate(driver.Managed, 4096)
			fails(t, err, status.Unsupported)
		} else if !info.ManagedHints {
			without++
			memory, err := opened.Allocate(driver.Managed, 4096)
			require.NoError(t, err)
			fails(t, opened.Prefetch(0, memory, 4096, true), status.Unsupported)
			fails(t, opened.Advise(memory, 4096, driver.ReadMostly), status.Unsupported)
		} else if !opened.(*device).registeredInPlace {
			without++
			fails(t, opened.Register(4096, 4096), status.Unsupported)
		}
	}
	require.Equal(t, 5, without)
}

// The forms that are called came with CUDA 12.2.
func TestOlderDriversTakeNoHints(t *testing.T) {
	for version, hints := range map[string]bool{"12010": false, "12020": true} {
		d, _ := openFake(t, "VERSION", version)
		device, err := d.Open(0)
		require.NoError(t, err)
		require.True(t, device.Info().ManagedMemory)
		require.Equal(t, hints, device.Info().ManagedHints)
	}
}

// Managed memory of one device moves to each of them.
func TestHintsOfOtherDevices(t *testing.T) {
	d, library := openFake(t, "DEVICES", "2")
	var devices [2]driver.Device
	for i := range devices {
		var err error
		devices[i], err = d.Open(i)
		require.NoError(t, err)
	}
	memory, err := devices[0].Allocate(driver.Managed, 1<<16)
	require.NoError(t, err)
	stream, err := devices[1].CreateStream(0)
	require.NoError(t, err)
	require.NoError(t, devices[1].Prefetch(stream, memory, 1<<16, false))
	require.NoError(t, devices[1].Advise(memory, 1<<16, driver.PreferDevice))
	library.Fail("cuMemPrefetchAsync", 1, 1)
	fails(t, devices[1].Prefetch(stream, memory, 1<<16, false), status.InvalidArgument, "65536 bytes")
	library.Fail("cuMemAdvise", 1, 1)
	fails(t, devices[0].Advise(memory, 1<<16, driver.PreferHost), status.InvalidArgument, "65536 bytes")
	library.Fail("", 0, 0)
	require.NoError(t, devices[1].DestroyStream(stream))
	require.NoError(t, devices[0].Free(driver.Managed, memory))
}

func TestOutOfMemorySaysHowMuchThereIs(t *testing.T) {
	d, _ := openFake(t, "MEMORY", itoa(1<<20))
	device, err := d.Open(0)
	require.NoError(t, err)
	memory, err := device.Allocate(driver.Plain, 1<<19)
	require.NoError(t, err)
	_, err = device.Allocate(driver.Plain, 1<<20)
	fails(t, err, status.OutOfMemory, "1048576 bytes of plain memory", "CUDA_ERROR_OUT_OF_MEMORY (2)",
		"524288 of 1048576 bytes are free")
	require.NoError(t, device.Free(driver.Plain, memory))
}

// Other processes may have taken all of a device's memory; then its context cannot be, and nobody can be asked how much is free.
func TestADeviceWithoutMemoryCannotBeOpened(t *testing.T) {
	for _, function := range []string{"cuDevicePrimaryCtxRetain", "cuMemPoolCreate"} {
		d, library := openFake(t)
		library.Fail(function, 1, 2)
		_, err := d.Open(0)
		fails(t, err, status.OutOfMemory, "device 0: cannot be opened", function, "CUDA_ERROR_OUT_OF_MEMORY (2)")
		library.Fail("", 0, 0)
		_, err = d.Open(0)
		require.NoError(t, err)
	}
}

// What leaves a context without use is in cuda.h's own words.
func TestLostDevicesAreThoseOfTheHeader(t *testing.T) {
	header, err := os.ReadFile("../../build/cuda-headers/nvidia/cu13/include/cuda.h")
	require.NoError(t, err)
	results := string(header)
	results = results[strings.Index(results, "typedef enum cudaError_enum"):strings.Index(results, "} CUresult;")]
	lost := 0
	for _, entry := range regexp.MustCompile(`(?s)/\*\*(.*?)\*/\s*(CUDA_\w+)\s*=\s*(\d+)`).FindAllStringSubmatch(results, -1) {
		words := strings.Join(strings.Fields(strings.ReplaceAll(entry[1], "*", " ")), " ")
		if !strings.Contains(words, "leaves the process in an inconsistent state") {
			continue
		}
		lost++
		number, err := strconv.Atoi(entry[3])
		require.NoError(t, err)
		require.Equal(t, status.DeviceLost, codeOf(int32(number)), entry[2])
	}
	require.Greater(t, lost, 8)
}

func TestALostDeviceStaysLost(t *testing.T) {
	d, library := openFake(t)
	s := newSession(t, d, library)
	other, err := d.Open(1)
	require.NoError(t, err)
	stream, err := s.device.CreateStream(0)
	require.NoError(t, err)
	module, err := s.device.LoadModule([]byte(ptx))
	require.NoError(t, err)
	kernel, err := s.device.Function(module, "fakecuda_trap")
	require.NoError(t, err)
	require.NoError(t, s.device.Launch(stream, &driver.Launch{Function: kernel, Blocks: 1, Threads: 1}), "it fails later")
	fails(t, s.device.SynchronizeStream(stream), status.DeviceLost, "cuStreamSynchronize: CUDA_ERROR_ILLEGAL_ADDRESS (700)")
	library.Fail("", 0, 0)
	for number, step := range s.steps() {
		fails(t, step(), status.DeviceLost, "device 0 was lost: cuStreamSynchronize: CUDA_ERROR_ILLEGAL_ADDRESS (700)")
		require.Zero(t, library.Calls(), "step %d asks the driver", number)
	}
	require.Equal(t, "fake device 0", s.device.Info().Name)
	memory, err := other.Allocate(driver.Plain, 4096)
	require.NoError(t, err, "the other one works")
	require.NoError(t, other.Free(driver.Plain, memory))
	library.Break(0, 0)
	// What the lost device had cannot be given back; the check for leaks must not see it.
	lost := s.device.(*device)
	lost.lost.Store(nil)
	require.NoError(t, s.device.UnloadModule(module))
	require.NoError(t, s.device.DestroyStream(stream))
}

// The driver gives a stream the pointer of one that was destroyed, but another number.
func TestPointersOfStreamsComeAgain(t *testing.T) {
	d, library := openFake(t)
	s := newSession(t, d, library)
	before := library.Current()
	library.SetCurrent(s.device.Handle())
	defer library.SetCurrent(before)
	ids := make(map[uint64]bool)
	pointers := make(map[uintptr]bool)
	for len(pointers) == len(ids) { // one comes again when the stand-in's thread has let it go
		require.Less(t, len(ids), 10_000, "no pointer came again")
		stream := library.NewStream()
		id, err := s.device.StreamID(stream)
		require.NoError(t, err)
		require.False(t, ids[id], "number %d came again", id)
		ids[id], pointers[stream] = true, true
		library.EndStream(stream)
		require.NoError(t, s.device.Synchronize())
	}
}

// A stream of the library's has the pointer of one that others have destroyed, and that was not forgotten: who forgets it then
// does not end the new one.
func TestAStreamHasThePointerOfAForeignOne(t *testing.T) {
	d, library := openFake(t)
	s := newSession(t, d, library)
	before := library.Current()
	library.SetCurrent(s.device.Handle())
	defer library.SetCurrent(before)
	memory, err := s.device.Allocate(driver.Pinned, 4096)
	require.NoError(t, err)
	gone := library.NewStream()
	foreign, err := s.device.ForeignStream(gone)
	require.NoError(t, err)
	library.EndStream(gone)
	var made []driver.Stream
	for len(made) == 0 || made[len(made)-1] != foreign {
		require.Less(t, len(made), 1000, "the pointer does not come again")
		stream, err := s.device.CreateStream(0)
		require.NoError(t, err)
		made = append(made, stream)
		time.Sleep(time.Millisecond)
	}
	require.NoError(t, s.device.DestroyStream(foreign))
	require.NoError(t, s.device.Fill(foreign, memory, 1, 4096))
	for _, stream := range made {
		require.NoError(t, s.device.DestroyStream(stream))
	}
	fails(t, s.device.Fill(foreign, memory, 1, 4096), status.InvalidHandle)
	require.NoError(t, s.device.Synchronize())
	require.NoError(t, s.device.Free(driver.Pinned, memory))
}

// Threads' own default streams are ordered with others by events.
func TestDefaultStreamsOfThreads(t *testing.T) {
	d, library := openFake(t)
	s := newSession(t, d, library) // which locks the thread
	stream, err := s.device.CreateStream(0)
	require.NoError(t, err)
	event, err := s.device.CreateEvent()
	require.NoError(t, err)
	resume := library.Hold()
	memory, err := s.device.Allocate(driver.Pinned, 4096)
	require.NoError(t, err)
	require.NoError(t, s.device.Fill(stream, memory, 1, 4096))
	require.NoError(t, s.device.RecordEvent(event, stream))
	require.NoError(t, s.device.Wait(driver.PerThread, event))
	require.NoError(t, s.device.RecordEvent(event, driver.PerThread))
	done, err := s.device.QueryEvent(event)
	require.NoError(t, err)
	require.False(t, done, "the thread's stream waits for the other one")
	resume()
	require.NoError(t, s.device.SynchronizeEvent(event))
	_, err = s.device.ForeignStream(uintptr(driver.PerThread))
	fails(t, err, status.Unsupported, "it is another stream in each thread")
	fails(t, s.device.DestroyStream(driver.PerThread), status.InvalidHandle)
	require.NoError(t, s.device.Free(driver.Pinned, memory))
	require.NoError(t, s.device.DestroyEvent(event))
	require.NoError(t, s.device.DestroyStream(stream))
}

func TestForeignStreams(t *testing.T) {
	d, library := openFake(t)
	s := newSession(t, d, library)
	other, err := d.Open(1)
	require.NoError(t, err)
	foreign := driver.Stream(s.foreign)
	_, err = s.device.QueryStream(foreign)
	fails(t, err, status.InvalidHandle, "is not a stream of this device")
	for range 2 {
		stream, err := s.device.ForeignStream(s.foreign)
		require.NoError(t, err)
		require.Equal(t, foreign, stream)
	}
	done, err := s.device.QueryStream(foreign)
	require.NoError(t, err)
	require.True(t, done)
	_, err = other.ForeignStream(s.foreign)
	fails(t, err, status.InvalidHandle, "does not belong to this device's primary context")
	_, err = other.QueryStream(foreign)
	fails(t, err, status.InvalidHandle)
	before := library.Counts().Streams
	require.NoError(t, s.device.DestroyStream(foreign))
	_, err = s.device.QueryStream(foreign)
	require.NoError(t, err, "it was told of twice")
	require.NoError(t, s.device.DestroyStream(foreign))
	_, err = s.device.QueryStream(foreign)
	fails(t, err, status.InvalidHandle)
	fails(t, s.device.DestroyStream(foreign), status.InvalidHandle)
	require.Equal(t, before, library.Counts().Streams, "it is its owner's")

	for _, handle := range []uintptr{0, 1} {
		stream, err := s.device.ForeignStream(handle)
		require.NoError(t, err)
		require.Zero(t, stream, "the default stream")
	}
	_, err = s.device.ForeignStream(2)
	fails(t, err, status.Unsupported, "thread")
	for _, handle := range []uintptr{12345, 99, 1<<40 + 4} {
		_, err = s.device.ForeignStream(handle)
		fails(t, err, status.InvalidHandle, "is not the address of a stream")
	}

	own, err := s.device.CreateStream(0)
	require.NoError(t, err)
	_, err = s.device.ForeignStream(uintptr(own))
	require.NoError(t, err)
	require.NoError(t, s.device.DestroyStream(own))
	_, err = s.device.QueryStream(own)
	require.NoError(t, err)
	require.NoError(t, s.device.DestroyStream(own))
	_, err = s.device.QueryStream(own)
	fails(t, err, status.InvalidHandle)
}

func TestQueriesSayWhenWorkIsNotDone(t *testing.T) {
	d, library := openFake(t)
	s := newSession(t, d, library)
	stream, err := s.device.CreateStream(0)
	require.NoError(t, err)
	event, err := s.device.CreateEvent()
	require.NoError(t, err)
	resume := library.Hold()
	require.NoError(t, s.device.RecordEvent(event, stream))
	done, err := s.device.QueryEvent(event)
	require.NoError(t, err)
	require.False(t, done)
	done, err = s.device.QueryStream(stream)
	require.NoError(t, err)
	require.False(t, done)
	resume()
	require.NoError(t, s.device.SynchronizeEvent(event))
	done, err = s.device.QueryEvent(event)
	require.NoError(t, err)
	require.True(t, done)
	require.NoError(t, s.device.DestroyEvent(event))
	require.NoError(t, s.device.DestroyStream(stream))
}

// A stream and an event that are ended while another thread waits for them end when it has waited: the driver might crash.
func TestNothingEndsUnderACall(t *testing.T) {
	d, library := openFake(t)
	device, err := d.Open(0)
	require.NoError(t, err)
	stream, err := device.CreateStream(0)
	require.NoError(t, err)
	event, err := device.CreateEvent()
	require.NoError(t, err)
	resume := library.Hold()
	require.NoError(t, device.RecordEvent(event, stream))
	waited := make(chan error)
	library.Fail("cuStreamSynchronize", 0, 0)
	go func() { waited <- device.SynchronizeStream(stream) }()
	for library.Calls() == 0 {
		runtime.Gosched()
	}
	library.Fail("cuEventSynchronize", 0, 0)
	go func() { waited <- device.SynchronizeEvent(event) }()
	for library.Calls() == 0 {
		runtime.Gosched()
	}
	require.NoError(t, device.DestroyStream(stream))
	require.NoError(t, device.DestroyEvent(event))
	counts := library.Counts()
	require.Equal(t, 1, counts.Streams)
	require.Equal(t, 1, counts.Events)
	_, err = device.QueryStream(stream)
	fails(t, err, status.InvalidHandle)
	_, err = device.QueryEvent(event)
	fails(t, err, status.InvalidHandle)
	resume()
	require.NoError(t, <-waited)
	require.NoError(t, <-waited)
	require.Equal(t, opened(1), library.Counts())
}

// Events that others have made, as Arrow's arrays bring them, are waited for, and stay what they are.
func TestEventsOfOthers(t *testing.T) {
	d, library := openFake(t)
	device, err := d.Open(1)
	require.NoError(t, err)
	stream, err := device.CreateStream(0)
	require.NoError(t, err)
	event, err := device.CreateEvent() // whose it is nobody asks
	require.NoError(t, err)
	resume := library.Hold()
	require.NoError(t, device.RecordEvent(event, stream))
	foreign := uintptr(event)
	waited := make(chan error)
	library.Fail("cuEventSynchronize", 0, 0)
	go func() { waited <- d.awaitEvent(1, foreign) }()
	for library.Calls() == 0 {
		runtime.Gosched()
	}
	resume()
	require.NoError(t, <-waited)
	require.NoError(t, d.awaitEvent(0, foreign)) // another device's
	fails(t, d.awaitEvent(0, 0), status.InvalidHandle, "event 0 is none")
	fails(t, d.awaitEvent(2, foreign), status.NoDevice, "the driver has 2")
	library.Fail("cuEventSynchronize", 1, 999)
	fails(t, d.awaitEvent(0, foreign), status.Device, "cannot wait for event 0x")
	require.NoError(t, device.DestroyEvent(event))
	require.NoError(t, device.DestroyStream(stream))
	library.Break(0, 700)
	fails(t, d.awaitEvent(0, foreign), status.DeviceLost)
	fails(t, d.awaitEvent(0, foreign), status.DeviceLost)
}

func TestKernels(t *testing.T) {
	d, library := openFake(t)
	device, err := d.Open(0)
	require.NoError(t, err)
	memory, err := device.Allocate(driver.Pinned, 4096)
	require.NoError(t, err)
	module, err := device.LoadModule([]byte(ptx))
	require.NoError(t, err)
	_, err = device.Function(module, "fakecuda_fil")
	fails(t, err, status.NotFound, `"fakecuda_fil"`)
	for _, name := range []string{"", "fakecuda_fill\x00"} {
		_, err = device.Function(module, name)
		fails(t, err, status.NotFound)
	}
	kernel, err := device.Function(module, "fakecuda_fill")
	require.NoError(t, err)
	again, err := device.Function(module, "fakecuda_fill")
	require.NoError(t, err)
	require.Equal(t, kernel, again)
	launch := driver.Launch{Function: kernel, Blocks: 3, Threads: 7, Parameter: fillParameter(memory, 1000, 9)}
	require.NoError(t, device.Launch(0, &launch))
	clear(launch.Parameter)
	require.NoError(t, device.SynchronizeStream(0))
	require.Equal(t, bytes.Repeat([]byte{9}, 1000), region.BytesAt(uintptr(memory), 1000), "the parameter was copied")
	require.NotEqual(t, byte(9), region.BytesAt(uintptr(memory), 1001)[1000])

	library.Fail("", 0, 0)
	for _, wrong := range []driver.Launch{{Function: kernel, Threads: 1}, {Function: kernel, Blocks: 1}} {
		fails(t, device.Launch(0, &wrong), status.InvalidArgument)
	}
	for _, bytes := range []int{0, 8, 25} { // a driver would read 24
		wrong := driver.Launch{Function: kernel, Blocks: 1, Threads: 1, Parameter: make([]byte, bytes)}
		fails(t, device.Launch(0, &wrong), status.InvalidArgument, "parameters of 24 bytes, not "+itoa(bytes))
	}
	require.Zero(t, library.Calls())
	wrong := driver.Launch{Function: kernel, Blocks: 1, Threads: 1025, Parameter: make([]byte, 24)}
	fails(t, device.Launch(0, &wrong), status.InvalidArgument, "cuLaunchKernel: CUDA_ERROR_INVALID_VALUE (1)")
	require.NoError(t, device.UnloadModule(module))
	fails(t, device.UnloadModule(module), status.InvalidHandle)
	fails(t, device.Launch(0, &launch), status.InvalidHandle, "is not a kernel of this device")
	require.NoError(t, device.Free(driver.Pinned, memory))
}

// The driver is not told where an image ends, so what it would read beyond the end is refused before.
func TestImages(t *testing.T) {
	fat := binary.LittleEndian.AppendUint32(nil, fatBinaryMagic)
	fat = binary.LittleEndian.AppendUint16(fat, 1)
	fat = binary.LittleEndian.AppendUint16(fat, fatBinaryHeader)
	fat = binary.LittleEndian.AppendUint64(fat, 100)
	whole := append(bytes.Clone(fat), make([]byte, 100)...)
	endless := binary.LittleEndian.AppendUint64(bytes.Clone(fat[:8]), 1<<64-1)

	d, _ := openFake(t)
	device, err := d.Open(0)
	require.NoError(t, err)
	for name, image := range map[string][]byte{
		"cut short":             whole[:len(whole)-1],
		"only a header":         fat,
		"half a header":         fat[:12],
		"endless":               append(endless, make([]byte, 1000)...),
		"no header":             append(append(bytes.Clone(fat[:6]), 0, 0), whole[8:]...),
		"nothing":               nil,
		"rubbish":               []byte("rubbish"),
		"text with more behind": []byte(ptx + "\x00more"),
		"ELF":                   []byte("\x7fELF\x00 .version"),
	} {
		_, err = device.LoadModule(image)
		fails(t, err, status.InvalidArgument)
		require.Zero(t, status.Of(err).Foreign, "%s reaches the driver", name)
	}
	for _, image := range [][]byte{whole, append(bytes.Clone(whole), 1, 2, 3), []byte(ptx), []byte(ptx + "\x00\x00")} {
		module, err := device.LoadModule(image)
		require.NoError(t, err)
		require.NoError(t, device.UnloadModule(module))
	}
	// Text that ends where memory ends: nothing behind it may be read.
	page := os.Getpagesize()
	number, err := region.Map(uint64(2*page), false)
	require.NoError(t, err)
	defer region.Unmap(number)
	text := region.BytesAt(region.Base(number), uint64(page))[page-len(ptx):]
	copy(text, ptx)
	copy(unsafe.Slice((*byte)(unsafe.Add(unsafe.Pointer(unsafe.SliceData(text)), len(text))), 8), "garbage!")
	module, err := device.LoadModule(text)
	require.NoError(t, err)
	require.NoError(t, device.UnloadModule(module))

	_, err = device.LoadModule([]byte(".version 8.0"))
	fails(t, err, status.InvalidArgument, "(ptxas fatal : Missing .target)", "CUDA_ERROR_INVALID_PTX (218)")
	_, err = device.LoadModule([]byte(".version 99 .target sm_80"))
	fails(t, err, status.Unsupported, "CUDA_ERROR_UNSUPPORTED_PTX_VERSION (222)")
	require.NotContains(t, err.Error(), "580", "this driver is new enough")

	d, _ = openFake(t, "VERSION", "12040")
	device, err = d.Open(0)
	require.NoError(t, err)
	_, err = device.LoadModule(whole)
	fails(t, err, status.Unsupported, "the driver has CUDA 12.4", "CUDA 13.0 need driver 580 or newer")
}

func TestManyCopiesAreFewCalls(t *testing.T) {
	for _, test := range []struct {
		version, function string
		stream            bool
		calls             int
	}{
		{"13000", "cuMemcpyBatchAsync", true, 3},
		{"13000", "cuMemcpyAsync", true, 0},
		{"13000", "cuMemcpyAsync", false, 299}, // the default stream takes no batches
		{"12080", "cuMemcpyAsync", true, 299},
	} {
		d, library := openFake(t, "VERSION", test.version)
		device, err := d.Open(0)
		require.NoError(t, err)
		memory, err := device.Allocate(driver.Pinned, 600*16)
		require.NoError(t, err)
		content := region.BytesAt(uintptr(memory), 600*16)
		var copies []driver.Copy
		for i := range driver.Address(300) {
			content[i*16] = byte(i)
			copies = append(copies, driver.Copy{To: memory + (300+i)*16, From: memory + i*16, Bytes: 16})
		}
		copies[7].Bytes = 0
		var stream driver.Stream
		if test.stream {
			stream, err = device.CreateStream(0)
			require.NoError(t, err)
		}
		library.Fail(test.function, 0, 0)
		require.NoError(t, device.Copy(stream, copies...))
		require.Equal(t, test.calls, library.Calls())
		require.NoError(t, device.SynchronizeStream(stream))
		for i := range 300 {
			if i != 7 {
				require.Equal(t, byte(i), content[(300+i)*16])
			}
		}
		if test.stream {
			require.NoError(t, device.DestroyStream(stream))
		}
		require.NoError(t, device.Free(driver.Pinned, memory))
	}
}

// Pools are shared by those that are open; nothing else of the other device is touched.
func TestPeersReachOrderedMemory(t *testing.T) {
	d, library := openFake(t)
	one, err := d.Open(0)
	require.NoError(t, err)
	require.Equal(t, opened(1), library.Counts(), "only one is open")
	other, err := d.Open(1)
	require.NoError(t, err)
	require.True(t, one.CanReach(1) && other.CanReach(0))
	for _, pair := range [][2]driver.Device{{one, other}, {other, one}} {
		memory, err := pair[0].AllocateOrdered(0, 4096)
		require.NoError(t, err)
		require.NoError(t, pair[0].SynchronizeStream(0))
		require.NoError(t, pair[1].Fill(0, memory, 5, 4096))
		require.NoError(t, pair[1].SynchronizeStream(0))
		require.NoError(t, pair[0].FreeOrdered(0, memory))
		require.NoError(t, pair[0].SynchronizeStream(0))
	}
}

// Only devices for which memory was mapped reach it, and the driver is asked once for all of them.
func TestPeersReachMappedMemory(t *testing.T) {
	d, _ := openFake(t)
	one, err := d.Open(0)
	require.NoError(t, err)
	other, err := d.Open(1)
	require.NoError(t, err)
	unit := one.Info().Granularity
	addresses, err := one.Reserve(unit)
	require.NoError(t, err)
	memory, err := one.CreatePhysical(unit)
	require.NoError(t, err)
	staging, err := one.Allocate(driver.Pinned, 4096)
	require.NoError(t, err)
	for value, peers := range []bool{true, false} {
		require.NoError(t, one.Map(addresses, peers, memory))
		require.NoError(t, one.Fill(0, addresses, byte(value)+1, 4096))
		require.NoError(t, one.SynchronizeStream(0))
		err := other.Fill(0, addresses, 9, 4096)
		require.Equal(t, peers, err == nil, "%v", err)
		require.NoError(t, other.SynchronizeStream(0))
		require.NoError(t, one.Copy(0, driver.Copy{To: staging, From: addresses, Bytes: 4096}))
		require.NoError(t, one.SynchronizeStream(0))
		want := byte(9)
		if !peers {
			want = byte(value) + 1
		}
		require.Equal(t, want, region.BytesAt(uintptr(staging), 1)[0])
		require.NoError(t, one.Unmap(addresses))
	}
	require.NoError(t, one.Free(driver.Pinned, staging))
	require.NoError(t, one.DestroyPhysical(memory))
	require.NoError(t, one.Release(addresses, unit))
}

// Access to what is mapped together is one call; what fails in the middle is as if it had not begun.
func TestMemoryIsMappedTogether(t *testing.T) {
	d, library := openFake(t)
	device, err := d.Open(0)
	require.NoError(t, err)
	unit := device.Info().Granularity
	addresses, err := device.Reserve(8 * unit)
	require.NoError(t, err)
	memory := make([]driver.Physical, 8)
	for i := range memory {
		memory[i], err = device.CreatePhysical(unit)
		require.NoError(t, err)
	}
	for _, function := range []string{"cuMemMap", "cuMemSetAccess"} {
		library.Fail(function, map[string]int{"cuMemMap": 5, "cuMemSetAccess": 1}[function], 999)
		fails(t, device.Map(addresses, false, memory...), status.Device)
		require.Zero(t, library.Counts().Mappings)
	}
	library.Fail("cuMemSetAccess", 0, 0)
	require.NoError(t, device.Map(addresses, false, memory...))
	require.Equal(t, 1, library.Calls())
	require.Equal(t, 8, library.Counts().Mappings)
	require.NoError(t, device.Fill(0, addresses, 1, 8*unit))
	require.NoError(t, device.SynchronizeStream(0))
	for i := range memory {
		require.NoError(t, device.Unmap(addresses+driver.Address(uint64(i)*unit)))
		require.NoError(t, device.DestroyPhysical(memory[i]))
	}
	require.NoError(t, device.Release(addresses, 8*unit))
}
