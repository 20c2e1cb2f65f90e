package sim_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"libmmsb/core/region"
	"libmmsb/core/status"
	"libmmsb/gpu/driver"
	"libmmsb/gpu/driver/conformance"
	"libmmsb/gpu/sim"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// The host's touch of a device's memory ends the process. It is done by a system call's copy here, and in a process of its own.
func TestTheHostDoesNotReachDeviceMemory(t *testing.T) {
	if os.Getenv("TOUCH_DEVICE_MEMORY") != "" {
		d, err := sim.New(sim.Options{})
		require.NoError(t, err)
		device, err := d.Open(0)
		require.NoError(t, err)
		pinned, err := device.Allocate(driver.Pinned, 4096)
		require.NoError(t, err)
		region.BytesAt(uintptr(pinned), 1)[0] = 1
		plain, err := device.Allocate(driver.Plain, 4096)
		require.NoError(t, err)
		os.Stderr.WriteString("touching " + strconv.FormatUint(uint64(plain), 16) + "\n")
		region.BytesAt(uintptr(plain), 1)[0] = 1
		os.Stderr.WriteString("survived\n")
		return
	}
	child := exec.Command(os.Args[0], "-test.run=^TestTheHostDoesNotReachDeviceMemory$")
	child.Env = append(os.Environ(), "TOUCH_DEVICE_MEMORY=1", "GOTRACEBACK=crash")
	output, err := child.CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(output), "touching ")
	require.NotContains(t, string(output), "survived")
	require.Contains(t, string(output), "SIGSEGV")
	address := strings.Fields(string(output)[strings.Index(string(output), "touching "):])[1]
	require.Contains(t, string(output), "addr=0x"+address)
}

// The kernel says EFAULT where a process may not touch an address: no need to die of it.
func TestDeviceAddressesHaveNoAccess(t *testing.T) {
	d := open(t, sim.Options{})
	device, err := d.Open(0)
	require.NoError(t, err)
	for _, kind := range []driver.Memory{driver.Plain, driver.Pinned, driver.Managed} {
		block, err := device.Allocate(kind, 4096)
		require.NoError(t, err)
		var ends [2]int
		require.NoError(t, unix.Pipe(ends[:]))
		_, err = unix.Write(ends[1], region.BytesAt(uintptr(block), 16))
		if kind == driver.Plain {
			require.ErrorIs(t, err, syscall.EFAULT)
		} else {
			require.NoError(t, err)
		}
		require.NoError(t, unix.Close(ends[0]))
		require.NoError(t, unix.Close(ends[1]))
		require.NoError(t, device.Free(kind, block))
	}
}

// memoryInUse is what the memory file of simulated devices has, in bytes. What is resident of it says less: the kernel counts
// that only roughly, and other programs can drive it out.
func memoryInUse(t *testing.T) int {
	t.Helper()
	descriptors, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	for _, descriptor := range descriptors {
		path := "/proc/self/fd/" + descriptor.Name()
		target, _ := os.Readlink(path) // that of the reading itself is closed by now
		if strings.HasPrefix(target, "/memfd:mmsb simulated devices") {
			var file unix.Stat_t
			require.NoError(t, unix.Stat(path, &file))
			return int(file.Blocks) * 512
		}
	}
	require.Fail(t, "no memory file of simulated devices")
	return 0
}

// A device costs what was touched of it, and large blocks give their bytes back when they are freed.
func TestMemoryCostsWhatIsTouched(t *testing.T) {
	d := open(t, sim.Options{Memory: 16 << 30})
	device, err := d.Open(0)
	require.NoError(t, err)
	before := memoryInUse(t)
	block, err := device.Allocate(driver.Plain, 12<<30)
	require.NoError(t, err)
	require.Less(t, memoryInUse(t)-before, 1<<20, "allocated")
	const touched = 64 << 20
	require.NoError(t, device.Fill(0, block+1<<30, 1, touched))
	require.NoError(t, device.Synchronize())
	require.GreaterOrEqual(t, memoryInUse(t)-before, touched, "touched")
	free, total, err := device.MemoryInfo()
	require.NoError(t, err)
	require.EqualValues(t, 4<<30, free)
	require.EqualValues(t, 16<<30, total)
	require.NoError(t, device.Free(driver.Plain, block))
	require.Less(t, memoryInUse(t)-before, 1<<20, "freed")
}

func read(t *testing.T, device driver.Device, from driver.Address, size uint64) []byte {
	staging, err := device.Allocate(driver.Pinned, size)
	require.NoError(t, err)
	require.NoError(t, device.Copy(0, driver.Copy{To: staging, From: from, Bytes: size}))
	require.NoError(t, device.Synchronize())
	content := bytes.Clone(region.BytesAt(uintptr(staging), size))
	require.NoError(t, device.Free(driver.Pinned, staging))
	return content
}

// Neither new memory nor memory that was freed holds what a program might count on.
func TestMemoryIsOverwritten(t *testing.T) {
	d, err := sim.New(sim.Options{})
	require.NoError(t, err)
	defer d.Close()
	device, err := d.Open(0)
	require.NoError(t, err)
	for _, size := range []uint64{256, 100_000, 8 << 20} {
		block, err := device.AllocateOrdered(0, size)
		require.NoError(t, err)
		require.Equal(t, bytes.Repeat([]byte{0xcd}, 256), read(t, device, block, 256))
		require.NoError(t, device.Fill(0, block, 1, size))
		require.NoError(t, device.FreeOrdered(0, block))
		require.NoError(t, device.Synchronize())
	}
	// Who still reads it is told of, and sees rubbish.
	block, err := device.AllocateOrdered(0, 256)
	require.NoError(t, err)
	require.NoError(t, device.FreeOrdered(0, block))
	require.Equal(t, bytes.Repeat([]byte{0xdd}, 256), read(t, device, block, 256))
	require.ErrorContains(t, d.Problems(), "use after free")
}

// Addresses are used again last in, first out: on the stream that freed them at once, elsewhere only when the free is done or
// ordered.
func TestAddressesAreUsedAgainInOrder(t *testing.T) {
	for _, unchecked := range []bool{false, true} {
		d := open(t, sim.Options{Scheduler: sim.Stepped, Unchecked: unchecked})
		device, err := d.Open(0)
		require.NoError(t, err)
		a, err := device.CreateStream(0)
		require.NoError(t, err)
		b, err := device.CreateStream(0)
		require.NoError(t, err)
		take := func(on driver.Stream) driver.Address {
			block, err := device.AllocateOrdered(on, 1000)
			require.NoError(t, err)
			return block
		}
		target, err := device.Allocate(driver.Pinned, 16)
		require.NoError(t, err)
		first, second := take(a), take(a)
		require.NoError(t, device.Fill(a, first, 1, 16))
		require.NoError(t, device.FreeOrdered(a, first))
		require.NoError(t, device.FreeOrdered(a, second))
		require.Equal(t, second, take(a), "the last one first")
		require.Equal(t, first, take(a))
		require.NoError(t, device.FreeOrdered(a, first))
		other := take(b)
		require.NotContains(t, []driver.Address{first, second}, other, "the free is not done")
		require.NoError(t, device.FreeOrdered(b, other))
		d.Finish()
		require.NoError(t, device.Fill(a, target, 1, 16))
		require.NoError(t, device.FreeOrdered(a, second))
		require.Equal(t, other, take(b))
		require.Equal(t, first, take(b), "that free is done")
		if !unchecked {
			event, err := device.CreateEvent()
			require.NoError(t, err)
			require.NoError(t, device.RecordEvent(event, a))
			require.NoError(t, device.Wait(b, event))
			require.Equal(t, second, take(b), "that free is not done, but waited for")
			require.NoError(t, device.DestroyEvent(event))
			require.NoError(t, device.FreeOrdered(b, second))
		}
		require.NoError(t, device.FreeOrdered(b, other))
		require.NoError(t, device.FreeOrdered(b, first))
		d.Finish()
		require.NoError(t, device.Synchronize())
		require.NoError(t, device.Free(driver.Pinned, target))
		require.NoError(t, device.DestroyStream(a))
		require.NoError(t, device.DestroyStream(b))
	}
}

// A device has as many bytes as it says, however they were used before.
func TestAllMemoryCanBeUsed(t *testing.T) {
	d := open(t, sim.Options{Memory: 2 << 20})
	device, err := d.Open(0)
	require.NoError(t, err)
	for round, size := range []uint64{1 << 20, 256, 64 << 10, 2 << 20, 1 << 10, 512 << 10} {
		var blocks []driver.Address
		for {
			block, err := device.AllocateOrdered(0, size)
			if err != nil {
				require.Equal(t, status.OutOfMemory, status.CodeOf(err))
				break
			}
			blocks = append(blocks, block)
		}
		require.Len(t, blocks, int(2<<20/size), "round %d", round)
		_, err = device.Allocate(driver.Plain, 1)
		require.Equal(t, status.OutOfMemory, status.CodeOf(err))
		for _, block := range blocks {
			require.NoError(t, device.FreeOrdered(0, block))
		}
		if round%2 == 0 {
			require.NoError(t, device.Synchronize())
			require.NoError(t, device.TrimOrdered(0))
			free, total, err := device.MemoryInfo()
			require.NoError(t, err)
			require.Equal(t, total, free)
		}
	}
	block, err := device.Allocate(driver.Plain, 2<<20)
	require.NoError(t, err, "memory that waits to be used again is given back for it")
	require.NoError(t, device.Free(driver.Plain, block))
}

// A GPU has addresses for a pool with all of its 32 partitions, the first of 4 times its memory, the others of twice as much.
// Whoever reserves them all is refused, and leaves addresses for all memory, with and without an address of its own.
func TestReservationsLeaveAddressesForMemory(t *testing.T) {
	const memory = 64 << 20
	d := open(t, sim.Options{Memory: memory})
	device, err := d.Open(0)
	require.NoError(t, err)
	var reserved []driver.Address
	for {
		at, err := device.Reserve(memory)
		if err != nil {
			require.Equal(t, status.OutOfMemory, status.CodeOf(err))
			break
		}
		reserved = append(reserved, at)
	}
	require.GreaterOrEqual(t, len(reserved), 4+31*2)
	unit := device.Info().Granularity
	var handles []driver.Physical
	for range memory / 2 / unit {
		handle, err := device.CreatePhysical(unit)
		require.NoError(t, err)
		handles = append(handles, handle)
	}
	require.NoError(t, device.Map(reserved[0], false, handles...))
	block, err := device.Allocate(driver.Plain, memory/2)
	require.NoError(t, err)
	require.NoError(t, device.Free(driver.Plain, block))
	for i, handle := range handles {
		require.NoError(t, device.Unmap(reserved[0]+driver.Address(uint64(i)*unit)))
		require.NoError(t, device.DestroyPhysical(handle))
	}
	for _, at := range reserved {
		require.NoError(t, device.Release(at, memory))
	}
	_, err = device.Reserve(memory)
	require.NoError(t, err, "what was released can be reserved")
}

// What a program touches beside its blocks is refused.
func TestTouchesOutsideOfBlocksAreRefused(t *testing.T) {
	d := open(t, sim.Options{})
	device, err := d.Open(0)
	require.NoError(t, err)
	block, err := device.Allocate(driver.Plain, 1000)
	require.NoError(t, err)
	unit := device.Info().Granularity
	addresses, err := device.Reserve(unit)
	require.NoError(t, err)
	for name, part := range map[string]driver.Copy{
		"past its end":            {To: block + 900, Bytes: 101},
		"behind its end":          {To: block + 1000, Bytes: 1},
		"where nothing was":       {To: block + 1<<20, Bytes: 1},
		"where nothing is mapped": {To: addresses, Bytes: 1},
	} {
		err = device.Fill(0, part.To, 1, part.Bytes)
		require.Equal(t, status.InvalidArgument, status.CodeOf(err), name)
	}
	require.NoError(t, device.Fill(0, block, 1, 1000))
	require.NoError(t, device.Synchronize())
	require.Equal(t, status.InvalidArgument, status.CodeOf(d.HostAccess(block, 1, false)), "the host does not reach it")
	require.NoError(t, device.Release(addresses, unit))
	require.NoError(t, device.Free(driver.Plain, block))
}

func TestWhatIsNotGivenBackIsReported(t *testing.T) {
	for name, leak := range map[string]func(device driver.Device) error{
		"a block":  func(device driver.Device) error { _, err := device.Allocate(driver.Plain, 77); return err },
		"a stream": func(device driver.Device) error { _, err := device.CreateStream(0); return err },
		"an event": func(device driver.Device) error { _, err := device.CreateEvent(); return err },
		"memory without an address": func(device driver.Device) error {
			_, err := device.CreatePhysical(device.Info().Granularity)
			return err
		},
	} {
		d, err := sim.New(sim.Options{Memory: 8 << 20})
		require.NoError(t, err)
		device, err := d.Open(0)
		require.NoError(t, err)
		require.NoError(t, d.Problems())
		require.NoError(t, leak(device))
		require.ErrorContains(t, d.Problems(), "not freed", name)
		if live := d.Live(); name == "a block" {
			require.Len(t, live, 1)
			require.EqualValues(t, 77, live[0].Bytes)
			require.Contains(t, live[0].Where, "memory_test.go")
		}
		d.Close()
	}
}

// What is still mapped when devices are closed does not show through in those that come after.
func TestMappedMemoryEndsWithItsDevices(t *testing.T) {
	for round := range byte(3) {
		d, err := sim.New(sim.Options{Memory: 16 << 20})
		require.NoError(t, err)
		device, err := d.Open(0)
		require.NoError(t, err)
		unit := device.Info().Granularity
		addresses, err := device.Reserve(2 * unit)
		require.NoError(t, err)
		var pieces [2]driver.Physical
		for i := range pieces {
			pieces[i], err = device.CreatePhysical(unit)
			require.NoError(t, err)
		}
		// The other way round than their addresses, so that bytes and addresses differ.
		require.NoError(t, device.Map(addresses, false, pieces[1]))
		require.NoError(t, device.Map(addresses+driver.Address(unit), false, pieces[0]))
		block, err := device.Allocate(driver.Plain, 2*unit)
		require.NoError(t, err)
		require.NoError(t, device.Fill(0, addresses, 10+round, 2*unit))
		require.NoError(t, device.Fill(0, block, 20+round, 2*unit))
		require.Equal(t, bytes.Repeat([]byte{10 + round}, int(2*unit)), read(t, device, addresses, 2*unit))
		require.Equal(t, bytes.Repeat([]byte{20 + round}, int(2*unit)), read(t, device, block, 2*unit))
		d.Close()

		// One block over all addresses that the device had: each byte of it is its own.
		d, err = sim.New(sim.Options{Memory: 64 << 20, Unchecked: true})
		require.NoError(t, err)
		device, err = d.Open(0)
		require.NoError(t, err)
		block, err = device.Allocate(driver.Plain, 16<<20)
		require.NoError(t, err)
		content := make([]byte, 16<<20)
		for i := range content {
			content[i] = byte(i>>12) + byte(i>>20)*3
		}
		staging, err := device.Allocate(driver.Pinned, 16<<20)
		require.NoError(t, err)
		copy(region.BytesAt(uintptr(staging), 16<<20), content)
		require.NoError(t, device.Copy(0, driver.Copy{To: block, From: staging, Bytes: 16 << 20}))
		require.True(t, bytes.Equal(content, read(t, device, block, 16<<20)))
		d.Close()
	}
}

func TestOptionsThatMakeNoSenseAreRefused(t *testing.T) {
	for _, options := range []sim.Options{
		{Devices: -1}, {Devices: 65}, {Memory: 1<<40 + 1}, {HostMemory: 1 << 47}, {Latency: -1}, {Scheduler: 7},
		{Scheduler: sim.Seeded, Latency: 1}, {Scheduler: sim.Stepped, Bandwidth: 1},
	} {
		_, err := sim.New(options)
		require.Equal(t, status.InvalidArgument, status.CodeOf(err), "%+v", options)
	}
}

func TestALostDevice(t *testing.T) {
	for _, scheduler := range []sim.Scheduler{sim.Eager, sim.Seeded, sim.Stepped} {
		conformance.RunLost(t, func(t *testing.T) (driver.Driver, func()) {
			d, err := sim.New(sim.Options{Devices: 2, Scheduler: scheduler})
			require.NoError(t, err)
			t.Cleanup(d.Close)
			return d, func() {
				require.NoError(t, d.Inject(sim.Fault{Call: sim.MemoryInfo, Effect: sim.Lose}))
				device, err := d.Open(0)
				require.NoError(t, err)
				_, _, err = device.MemoryInfo()
				require.Equal(t, status.DeviceLost, status.CodeOf(err))
			}
		})
	}
}

func TestWildAddressesAreErrors(t *testing.T) {
	d, err := sim.New(sim.Options{})
	require.NoError(t, err)
	defer d.Close()
	device, err := d.Open(0)
	require.NoError(t, err)
	memory, err := device.Allocate(driver.Plain, 4096)
	require.NoError(t, err)
	host := make([]byte, 16)
	for _, wild := range []driver.Address{0, 8, 4095, driver.Address(uintptr(unsafe.Pointer(&host[0])))} {
		require.Equal(t, status.InvalidArgument, status.CodeOf(device.Fill(0, wild, 1, 16)))
	}
	for _, wild := range []driver.Address{0, 8, 4095, memory + 4096} {
		require.Equal(t, status.InvalidArgument, status.CodeOf(device.Copy(0, driver.Copy{To: wild, From: memory, Bytes: 16})))
		require.Equal(t, status.InvalidArgument, status.CodeOf(device.Copy(0, driver.Copy{To: memory, From: wild, Bytes: 16})))
	}
	for _, wild := range []uint64{4097, 1 << 40, 1 << 63, ^uint64(0) - uint64(memory)} {
		require.Equal(t, status.InvalidArgument, status.CodeOf(device.Fill(0, memory, 1, wild)))
	}
	require.NoError(t, device.Free(driver.Plain, memory))
}

// A touch of addresses that lost their memory is reported, of however many others it is beside; the lowest of them is named.
func TestALongTouchFindsWhatLostItsMemory(t *testing.T) {
	d, err := sim.New(sim.Options{})
	require.NoError(t, err)
	defer d.Close()
	device, err := d.Open(0)
	require.NoError(t, err)
	unit := device.Info().Granularity
	addresses, err := device.Reserve(4 * unit)
	require.NoError(t, err)
	piece, err := device.CreatePhysical(unit)
	require.NoError(t, err)
	at := addresses + driver.Address(2*unit)
	require.NoError(t, device.Map(at, false, piece))
	require.NoError(t, device.Unmap(at))
	require.NoError(t, device.DestroyPhysical(piece))
	for count, touched := range []struct {
		from  driver.Address
		bytes uint64
		found bool
	}{
		{addresses, 1 << 62, true}, {at + 5, 1, true}, {at - 1, 1, false}, {at - 1, 2, true},
		{at + driver.Address(unit), 1, false},
	} {
		_, before := d.Violations()
		require.Equal(t, status.InvalidArgument, status.CodeOf(device.Fill(0, touched.from, 1, touched.bytes)))
		violations, after := d.Violations()
		require.Equal(t, touched.found, after > before, "touch %d", count)
		require.Equal(t, sim.NoMemory, violations[after-1].Problem)
	}
}

func TestHintsSayWhereManagedMemoryGoes(t *testing.T) {
	d := open(t, sim.Options{Devices: 2, Scheduler: sim.Stepped})
	first, err := d.Open(0)
	require.NoError(t, err)
	other, err := d.Open(1)
	require.NoError(t, err)
	memory, err := first.Allocate(driver.Managed, 16384)
	require.NoError(t, err)
	stream, err := other.CreateStream(0)
	require.NoError(t, err)
	at := func(offset driver.Address) sim.Hints {
		hints, err := d.HintsAt(memory + offset)
		require.NoError(t, err)
		return hints
	}
	untold := sim.Hints{On: sim.OnHost, Preferred: sim.Nowhere}
	require.Equal(t, untold, at(0))
	require.NoError(t, other.Prefetch(stream, memory+4096, 8192, false))
	require.Equal(t, untold, at(4096), "it is queued")
	require.NoError(t, d.Step(1, stream))
	require.Equal(t, []sim.Hints{untold, {On: 1, Preferred: sim.Nowhere}, {On: 1, Preferred: sim.Nowhere}, untold},
		[]sim.Hints{at(0), at(4096), at(12287), at(12288)})
	require.NoError(t, other.Advise(memory, 4096, driver.PreferDevice))
	require.NoError(t, first.Advise(memory, 4096, driver.ReadMostly))
	require.Equal(t, sim.Hints{On: sim.OnHost, Preferred: 1, ReadMostly: true}, at(0))
	require.NoError(t, first.Advise(memory, 4096, driver.PreferNowhere))
	require.NoError(t, first.Advise(memory, 4096, driver.NotReadMostly))
	require.Equal(t, untold, at(0))

	require.NoError(t, other.Prefetch(stream, memory, 16384, true))
	require.NoError(t, first.Free(driver.Managed, memory))
	d.Finish() // what was queued finds no memory
	again, err := first.Allocate(driver.Managed, 16384)
	require.NoError(t, err)
	require.Equal(t, memory, again)
	require.Equal(t, untold, at(0), "the memory after it has none of its hints")
	require.NoError(t, first.Free(driver.Managed, again))
	_, err = d.HintsAt(again)
	require.Error(t, err)
	require.NoError(t, other.DestroyStream(stream))
}

func TestADeviceWithoutHints(t *testing.T) {
	conformance.Run(t, func(t *testing.T) driver.Driver { return open(t, sim.Options{NoHints: true}) })
}

// What devices are not used for takes nothing from others, and what one wants beyond its need leaves most of the addresses: many
// programs' worth of devices work at the same time, large ones, too, each with a pool of one partition.
func TestManySetsOfDevicesWorkAtATime(t *testing.T) {
	for _, c := range []struct {
		devices, used, sets int
		memory              uint64
	}{
		{64, 1, 40, 1 << 30},
		{64, 64, 2, 1 << 30},
		{16, 16, 8, 1 << 30},
		{8, 8, 2, 80 << 30},
		{8, 1, 16, 80 << 30},
		{1, 1, 40, 1<<30 + 4097},
	} {
		t.Run(fmt.Sprintf("%d of %d devices of %d bytes", c.used, c.devices, c.memory), func(t *testing.T) {
			for range c.sets {
				d := open(t, sim.Options{Devices: c.devices, Memory: c.memory})
				for ordinal := range c.used {
					device, err := d.Open(ordinal)
					require.NoError(t, err)
					unit := device.Info().Granularity
					for range 2 {
						each := 2 * c.memory / unit * unit
						at, err := device.Reserve(each)
						require.NoError(t, err)
						require.NoError(t, device.Release(at, each))
					}
					for _, kind := range []driver.Memory{driver.Plain, driver.Pinned} {
						block, err := device.Allocate(kind, unit)
						require.NoError(t, err)
						require.NoError(t, device.Free(kind, block))
					}
				}
			}
		})
	}
}
