package sim_test

import (
	"slices"
	"sync"
	"testing"

	"libmmsb/core/region"
	"libmmsb/core/status"
	"libmmsb/gpu/driver"
	"libmmsb/gpu/sim"

	"github.com/stretchr/testify/require"
)

// busy is a program with work on eight streams that wait for each other now and then.
func busy(t *testing.T, d *sim.Driver) {
	device, err := d.Open(0)
	require.NoError(t, err)
	event, err := device.CreateEvent()
	require.NoError(t, err)
	var streams []driver.Stream
	for range 8 {
		stream, err := device.CreateStream(0)
		require.NoError(t, err)
		streams = append(streams, stream)
	}
	for round := range 20 {
		for i, stream := range streams {
			block, err := device.AllocateOrdered(stream, 1024)
			require.NoError(t, err)
			require.NoError(t, device.Fill(stream, block, byte(i), 1024))
			require.NoError(t, device.RecordEvent(event, stream))
			if i == round%8 {
				require.NoError(t, device.Wait(streams[(i+3)%8], event))
			}
			_, err = device.QueryEvent(event)
			require.NoError(t, err)
			require.NoError(t, device.FreeOrdered(stream, block))
		}
	}
	require.NoError(t, device.Synchronize())
	for _, stream := range streams {
		require.NoError(t, device.DestroyStream(stream))
	}
	require.NoError(t, device.DestroyEvent(event))
}

func TestASeedRepeatsItsOrder(t *testing.T) {
	run := func(seed uint64) (uint64, []sim.Step) {
		d := open(t, sim.Options{Scheduler: sim.Seeded, Seed: seed, Trace: true})
		busy(t, d)
		return d.Seed(), d.Trace()
	}
	seed, first := run(0)
	require.NotZero(t, seed, "one is chosen")
	require.GreaterOrEqual(t, len(first), 8*20*3)
	again, second := run(seed)
	require.Equal(t, seed, again)
	require.Equal(t, first, second)
	_, third := run(seed + 1)
	require.NotEqual(t, first, third)
	inOrder := func(trace []sim.Step) bool {
		return slices.IsSortedFunc(trace, func(a, b sim.Step) int { return a.Stream - b.Stream })
	}
	require.False(t, inOrder(first))
}

// A query may see work done or not: both happen.
func TestSeededDevicesWorkBesideTheProgram(t *testing.T) {
	seen := map[bool]int{}
	for seed := range uint64(100) {
		d := open(t, sim.Options{Scheduler: sim.Seeded, Seed: seed + 1, Memory: 1 << 20})
		device, err := d.Open(0)
		require.NoError(t, err)
		block, err := device.Allocate(driver.Pinned, 16)
		require.NoError(t, err)
		require.NoError(t, device.Fill(0, block, 1, 16))
		done, err := device.QueryStream(0)
		require.NoError(t, err)
		seen[done]++
		if done {
			require.Equal(t, byte(1), region.BytesAt(uintptr(block), 1)[0])
		}
		require.NoError(t, device.SynchronizeStream(0))
		require.NoError(t, device.Free(driver.Pinned, block))
	}
	require.Greater(t, seen[true], 10)
	require.Greater(t, seen[false], 10)
}

func TestStepsAreTakenByHand(t *testing.T) {
	d := open(t, sim.Options{Scheduler: sim.Stepped, Trace: true})
	device, err := d.Open(0)
	require.NoError(t, err)
	a, err := device.CreateStream(0)
	require.NoError(t, err)
	b, err := device.CreateStream(0)
	require.NoError(t, err)
	block, err := device.Allocate(driver.Pinned, 16)
	require.NoError(t, err)
	event, err := device.CreateEvent()
	require.NoError(t, err)
	value := func() byte { return region.BytesAt(uintptr(block), 1)[0] }

	require.Equal(t, status.InvalidState, status.CodeOf(d.Step(0, a)), "nothing is queued")
	require.Empty(t, d.Ready())
	require.NoError(t, device.Fill(a, block, 1, 16))
	require.NoError(t, device.RecordEvent(event, a))
	require.NoError(t, device.Wait(b, event))
	require.NoError(t, device.Fill(b, block, 2, 16))
	require.Equal(t, []driver.Stream{a}, d.Ready())
	require.Equal(t, status.InvalidState, status.CodeOf(d.Step(0, b)), "it waits")
	require.NotEqual(t, byte(1), value())
	require.NoError(t, d.Step(0, a))
	require.Equal(t, byte(1), value())
	require.Equal(t, []driver.Stream{b}, d.Ready())
	require.NoError(t, d.Step(0, b), "the wait")
	require.Equal(t, byte(1), value())

	// Who synchronizes sleeps until the steps are taken.
	var both sync.WaitGroup
	both.Go(func() { err = device.SynchronizeStream(b) })
	require.NoError(t, d.Step(0, b))
	both.Wait()
	require.NoError(t, err)
	require.Equal(t, byte(2), value())
	require.Equal(t, []sim.Step{{0, 2, sim.Fill}, {0, 3, sim.Wait}, {0, 3, sim.Fill}}, d.Trace())
	require.Equal(t, status.NoDevice, status.CodeOf(d.Step(1, a)))
	require.NoError(t, device.Free(driver.Pinned, block))
	require.NoError(t, device.DestroyEvent(event))
	require.NoError(t, device.DestroyStream(a))
	require.NoError(t, device.DestroyStream(b))
}

// Where operations take time the program goes on meanwhile, and streams work side by side.
func TestOperationsThatTakeTimeRunBeside(t *testing.T) {
	d := open(t, sim.Options{Bandwidth: 1 << 20})
	device, err := d.Open(0)
	require.NoError(t, err)
	block, err := device.Allocate(driver.Pinned, 1<<20)
	require.NoError(t, err)
	done := true
	for try := 0; done && try < 100; try++ { // the program may have been stopped for as long as the device worked
		require.NoError(t, device.SynchronizeStream(0))
		require.NoError(t, device.Fill(0, block, 1, 100<<10))
		done, err = device.QueryStream(0)
		require.NoError(t, err)
	}
	require.False(t, done, "a tenth of a second")
	require.NoError(t, device.SynchronizeStream(0))
	require.Equal(t, byte(1), region.BytesAt(uintptr(block), 100<<10)[100<<10-1])
	require.NoError(t, device.Free(driver.Pinned, block))
}

func TestFaultsHappenAtTheirCall(t *testing.T) {
	d, err := sim.New(sim.Options{Devices: 2, Memory: 1 << 20})
	require.NoError(t, err)
	defer d.Close()
	device, err := d.Open(0)
	require.NoError(t, err)
	other, err := d.Open(1)
	require.NoError(t, err)
	block, err := device.Allocate(driver.Plain, 256)
	require.NoError(t, err)
	event, err := device.CreateEvent()
	require.NoError(t, err)
	stream, err := device.CreateStream(0)
	require.NoError(t, err)
	calls := map[sim.Call]func(device driver.Device) error{
		sim.Allocate:        func(device driver.Device) error { _, err := device.Allocate(driver.Plain, 256); return err },
		sim.AllocateOrdered: func(device driver.Device) error { _, err := device.AllocateOrdered(0, 256); return err },
		sim.Copy: func(device driver.Device) error {
			return device.Copy(0, driver.Copy{To: block, From: block + 128, Bytes: 16})
		},
		sim.Fill:         func(device driver.Device) error { return device.Fill(0, block, 1, 256) },
		sim.RecordEvent:  func(driver.Device) error { return device.RecordEvent(event, stream) },
		sim.QueryEvent:   func(driver.Device) error { _, err := device.QueryEvent(event); return err },
		sim.Wait:         func(driver.Device) error { return device.Wait(stream, event) },
		sim.CreateEvent:  func(device driver.Device) error { _, err := device.CreateEvent(); return err },
		sim.CreateStream: func(device driver.Device) error { _, err := device.CreateStream(0); return err },
		sim.Synchronize:  func(device driver.Device) error { return device.Synchronize() },
	}
	for call, do := range calls {
		want := status.Device
		if call == sim.Allocate || call == sim.AllocateOrdered {
			want = status.OutOfMemory
		}
		require.NoError(t, d.Inject(sim.Fault{Call: call, After: 2}))
		for n := range 5 {
			code := status.OK
			if n == 2 {
				code = want
			}
			live := len(d.Live())
			require.Equal(t, code, status.CodeOf(do(device)), "%v, call %d", call, n)
			if n == 2 {
				require.Len(t, d.Live(), live, "nothing has changed")
			}
		}
	}
	require.Equal(t, status.NoDevice, status.CodeOf(d.Inject(sim.Fault{Device: 2})))

	// Work that fails later is queued; then the device is lost, and the other one is not.
	require.NoError(t, d.Inject(sim.Fault{Call: sim.Fill, Effect: sim.FailLater}))
	require.NoError(t, device.Fill(0, block, 1, 256))
	require.Equal(t, status.DeviceLost, status.CodeOf(device.Fill(0, block, 1, 256)))
	_, err = other.Allocate(driver.Plain, 256)
	require.NoError(t, err)
	require.NoError(t, other.Synchronize())
}

// A device that is lost holds up no other one.
func TestWaitsForALostDeviceEnd(t *testing.T) {
	for _, options := range []sim.Options{{Scheduler: sim.Seeded}, {Latency: 1_000_000}} {
		options.Devices = 2
		d, err := sim.New(options)
		require.NoError(t, err)
		device, err := d.Open(0)
		require.NoError(t, err)
		other, err := d.Open(1)
		require.NoError(t, err)
		block, err := device.Allocate(driver.Pinned, 256)
		require.NoError(t, err)
		own, err := other.Allocate(driver.Pinned, 256) // what the lost device is about to write to its block it may write last
		require.NoError(t, err)
		event, err := device.CreateEvent()
		require.NoError(t, err)
		for range 20 {
			require.NoError(t, device.Fill(0, block, 1, 256))
		}
		require.NoError(t, device.RecordEvent(event, 0))
		require.NoError(t, other.Wait(0, event))
		require.NoError(t, other.Fill(0, own, 2, 256))
		require.NoError(t, d.Inject(sim.Fault{Call: sim.CreateEvent, Effect: sim.Lose}))
		_, err = device.CreateEvent()
		require.Equal(t, status.DeviceLost, status.CodeOf(err))
		require.NoError(t, other.Synchronize())
		require.Equal(t, byte(2), region.BytesAt(uintptr(own), 1)[0])
		d.Close()
	}
}
