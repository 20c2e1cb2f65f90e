package pages

import (
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"libmmsb/core/abi"
	"libmmsb/core/page"
	"libmmsb/core/persist"
	"libmmsb/core/residency"
	"libmmsb/core/status"
	"libmmsb/gpu/devices"
	"libmmsb/gpu/driver"
	gpu "libmmsb/gpu/runtime"
	"libmmsb/gpu/sim"
	"libmmsb/native"
	"libmmsb/native/nativetest"
)

// streamOn is a stream of the shared runtime of a device.
func (w *world) streamOn(device int) *gpu.Stream {
	w.Helper()
	set, err := SetOf(w.context)
	require.NoError(w, err)
	shared, err := set.Shared(device)
	require.NoError(w, err)
	handle, err := shared.AcquireStream(0)
	require.NoError(w, err)
	s, err := gpu.FindStream(handle)
	require.NoError(w, err)
	return s
}

// replicas are the devices on which a page has replicas.
func (w *world) replicas(handle uint64) (on []int32) {
	w.Helper()
	copies, err := page.Copies(handle)
	require.NoError(w, err)
	for _, one := range copies[1:] {
		if one.Location == abi.LocationGPU {
			require.Zero(w, one.Newer)
			on = append(on, one.Device)
		}
	}
	return on
}

// readAt reads memory of a device.
func (w *world) readAt(device int32, at driver.Address, length uint64) string {
	w.Helper()
	to := make([]byte, length)
	require.NoError(w, page.Use(w.context, func(c *page.Context) error {
		return c.Residency().Devices().Read(device, uintptr(at), to)
	}))
	return string(to)
}

// replica is what work on a device reads of a page that has a replica there.
func (w *world) replica(handle uint64, device int32) (content string, there bool) {
	w.Helper()
	if copies, err := page.Copies(handle); err != nil || !slices.ContainsFunc(copies[1:], func(one residency.Copy) bool {
		return one.Placement == residency.Placement{Location: abi.LocationGPU, Device: device}
	}) {
		return "", false
	}
	s := w.streamOn(int(device))
	use := w.begin(s, handle, gpu.Read)
	at, err := gpu.UseAddress(use, handle)
	require.NoError(w, err)
	size := uint64(0)
	require.NoError(w, page.Read(handle, func(p *page.Page) error {
		size = p.Record.Size
		return nil
	}))
	content = w.readAt(device, at, size)
	require.NoError(w, gpu.EndUse(use))
	return content, true
}

func (w *world) stats() (s page.SyncStats) {
	w.Helper()
	require.NoError(w, page.Use(w.context, func(c *page.Context) error {
		s = c.SyncStats()
		return nil
	}))
	return s
}

// on1 lists the pages that have bytes on device 1.
func (w *world) on1() (all []uint64) {
	w.Helper()
	require.NoError(w, page.Use(w.context, func(c *page.Context) error {
		var cursor uint64
		some := make([]uint64, 3)
		for found := c.DevicePages(1, &cursor, some); found > 0; found = c.DevicePages(1, &cursor, some) {
			all = append(all, some[:found]...)
		}
		return nil
	}))
	return all
}

var places = map[string]func(w *world) uint64{
	"host":       func(w *world) uint64 { return w.create(abi.LocationCPU, 0, 5000) },
	"pinned":     func(w *world) uint64 { return w.create(abi.LocationPinned, 0, 5000) },
	"unified":    func(w *world) uint64 { return w.create(abi.LocationUnified, 0, 5000) },
	"device":     func(w *world) uint64 { return w.create(abi.LocationGPU, 0, 5000) },
	"two places": func(w *world) uint64 { return w.paired("newer here") },
}

// Work on a device reads the replica of a page that lies elsewhere, which is listed until it is dropped.
func TestReplicasServeWorkThatReads(t *testing.T) {
	for name, create := range places {
		onDevices(t, slow, func(w *world) {
			handle, other := create(w), w.create(abi.LocationGPU, 1, 5000)
			require.Equal(t, status.OK, w.write(handle, 300, "bytes"), name)
			require.Equal(t, []uint64{other}, w.on1())
			_, _, err := BeginUse(w.streamOn(1), []gpu.Use{{Block: handle, Access: gpu.Read}})
			require.Error(t, err)
			for range 2 {
				require.NoError(t, page.Replicate(handle, 1))
				require.Equal(t, []int32{1}, w.replicas(handle))
			}
			require.ElementsMatch(t, []uint64{handle, other}, w.on1())
			stats := w.stats()
			require.Equal(t, [2]uint64{1, 5000}, [2]uint64{stats.Replicas, stats.ReplicaBytes})
			s := w.streamOn(1)
			use, _, err := BeginUse(s, []gpu.Use{{Block: handle, Access: gpu.Read}, {Block: other, Access: gpu.Write}})
			require.NoError(t, err)
			read, write := w.pins(handle)
			require.Equal(t, [2]uint16{1, 0}, [2]uint16{read, write})
			from, err := gpu.UseAddress(use, handle)
			require.NoError(t, err)
			to, err := gpu.UseAddress(use, other)
			require.NoError(t, err)
			require.Equal(t, w.blockOf(other).Address, to)
			named, err := gpu.UseAddress(use, w.blockOf(other).Handle)
			require.NoError(t, err)
			require.Equal(t, to, named)
			require.NoError(t, s.Copy(driver.Copy{To: to, From: from, Bytes: 5000}))
			require.NoError(t, gpu.EndUse(use))
			w.holds(other, 300, "bytes")
			_, _, err = BeginUse(s, []gpu.Use{{Block: handle, Access: gpu.Write}})
			require.Error(t, err, "work that writes takes the page itself")
			require.NoError(t, page.Replicate(handle, 1))
			require.NoError(t, page.DropReplica(handle, 1))
			require.NoError(t, page.DropReplica(handle, 1), "there is none")
			require.Empty(t, w.replicas(handle))
			require.Equal(t, []uint64{other}, w.on1())
			require.Zero(t, w.stats().Replicas)
			require.Error(t, w.tryReading(handle))
		})
	}
}

// tryReading begins a use on device 1 that reads a page, and ends it.
func (w *world) tryReading(handle uint64) error {
	use, _, err := BeginUse(w.streamOn(1), []gpu.Use{{Block: handle, Access: gpu.Read}})
	if err == nil {
		err = gpu.EndUse(use)
	}
	return err
}

// After each kind of change work does not find what the page was before, and after calls that change no byte it does.
func TestAChangeDropsReplicas(t *testing.T) {
	for name, create := range places {
		on(t, func(w *world) {
			mask := w.create(abi.LocationCPU, 0, 5000)
			require.Equal(t, status.OK, w.apply(mask, []uint64{7}, "m"))
			device := w.create(abi.LocationGPU, 0, 500)
			for what, change := range map[string]func(handle uint64){
				"write":    func(handle uint64) { require.Equal(t, status.OK, w.write(handle, 3, "x")) },
				"one byte": func(handle uint64) { require.Equal(t, status.OK, w.write(handle, 4999, "\x00")) },
				"delta":    func(handle uint64) { require.Equal(t, status.OK, w.apply(handle, []uint64{9, 1}, "ab")) },
				"writes": func(handle uint64) {
					require.Zero(t, nativetest.WritePages([]uint64{device, handle}, []uint64{1, 2}, []uint64{1, 1}, []byte("ab")))
				},
				"deltas": func(handle uint64) {
					require.Zero(t, nativetest.ApplyRuns([]uint64{device, handle}, []uint64{1, 2}, 1, []byte("ab")))
				},
				"propagate": func(handle uint64) { require.Zero(t, nativetest.PropagatePages(handle, mask)) },
				"pin":       func(handle uint64) { w.pin(handle); w.unpin(handle) },
				"raw":       func(handle uint64) { w.raw(handle, 77, "raw", true) },
				"resize": func(handle uint64) {
					require.NoError(t, page.Resize(handle, 5001))
					require.NoError(t, page.Resize(handle, 5000))
				},
				"migrate": func(handle uint64) { require.NoError(t, page.Migrate(handle, abi.LocationDisk, 0)) },
				"there":   func(handle uint64) { require.NoError(t, page.Migrate(handle, abi.LocationGPU, 1)) },
			} {
				handle := create(w)
				require.NoError(t, page.Replicate(handle, 1))
				for _, same := range []func(){
					func() { w.moment(handle) },
					func() { w.sync(handle, both) },
					func() {
						_, code := nativetest.PinPage(handle, false)
						require.Zero(t, code)
						require.Zero(t, nativetest.UnpinPage(handle, false))
					},
					func() { require.NoError(t, page.DropHostCopy(handle)) },
					func() { require.NoError(t, page.Replicate(handle, 1)) },
				} {
					if name == "device" || name == "two places" { // else a sync moves it
						same()
						require.Equal(t, []int32{1}, w.replicas(handle), "%s, %s", name, what)
					}
				}
				change(handle)
				require.Empty(t, w.replicas(handle), "%s, %s", name, what)
				if what != "there" {
					require.Error(t, w.tryReading(handle), "%s, %s", name, what)
				}
				require.Zero(t, nativetest.Destroy(handle))
			}
			require.Zero(t, w.stats().Replicas)
		})
	}
}

// While a page can be written through an address it has no replica, and gets none; one that is read-only has.
func TestAddressesAndReplicas(t *testing.T) {
	for name, create := range places {
		on(t, func(w *world) {
			handle := create(w)
			require.NoError(t, page.Replicate(handle, 1))
			w.pin(handle)
			require.Empty(t, w.replicas(handle), name)
			require.Equal(t, status.Busy, status.CodeOf(page.Replicate(handle, 1)))
			w.unpin(handle)
			require.NoError(t, page.Replicate(handle, 1))
			set := func(bits uint64, exposed uint8) {
				require.NoError(t, page.Read(handle, func(p *page.Page) error {
					p.State = p.State&^native.ReadOnly | bits
					p.Record.Exposed = exposed
					return nil
				}))
			}
			set(native.ReadOnly, native.ExposedForGood)
			require.Equal(t, []int32{1}, w.replicas(handle))
			set(0, native.ExposedForGood)
			require.Error(t, w.tryReading(handle))
			require.Empty(t, w.replicas(handle))
			require.Equal(t, status.InvalidState, status.CodeOf(page.Replicate(handle, 1)))
		})
	}
}

// A use that is open reads on what the page was, whatever happens to the replica meanwhile.
func TestAnOpenUseKeepsItsReplica(t *testing.T) {
	for name, create := range places {
		onDevices(t, slow, func(w *world) {
			handle := create(w)
			require.Equal(t, status.OK, w.write(handle, 0, strings.Repeat("a", 5000)))
			for what, meanwhile := range map[string]func(){
				"write": func() { require.Equal(t, status.OK, w.write(handle, 0, strings.Repeat("b", 5000))) },
				"again": func() {
					require.Equal(t, status.OK, w.write(handle, 0, "b"))
					require.NoError(t, page.Replicate(handle, 1))
				},
				"drop":    func() { require.NoError(t, page.DropReplica(handle, 1)) },
				"nothing": func() {},
			} {
				require.Equal(t, status.OK, w.write(handle, 0, strings.Repeat("a", 5000)))
				require.NoError(t, page.Replicate(handle, 1))
				s := w.streamOn(1)
				use := w.begin(s, handle, gpu.Read)
				at, err := gpu.UseAddress(use, handle)
				require.NoError(t, err)
				require.Equal(t, int32(status.Busy), nativetest.Destroy(handle), "the page is pinned")
				meanwhile()
				_ = w.replicas(handle)
				others := w.create(abi.LocationGPU, 1, 5000) // does not get the memory
				require.Equal(t, status.OK, w.write(others, 0, strings.Repeat("c", 5000)))
				require.Equal(t, strings.Repeat("a", 5000), w.readAt(1, at, 5000), "%s, %s", name, what)
				require.NoError(t, gpu.EndUse(use))
				require.Zero(t, nativetest.Destroy(others))
			}
			require.NoError(t, page.DropReplica(handle, 1))
			s := w.streamOn(1)
			require.NoError(t, s.Runtime().Trim(0))
		})
	}
}

// What cannot be replicated is as it was.
func TestReplicasThatCannotBe(t *testing.T) {
	on(t, func(w *world) {
		handle, onDisk := w.create(abi.LocationGPU, 0, 5000), w.create(abi.LocationDisk, 0, 5000)
		require.Equal(t, status.OK, w.write(handle, 0, "bytes"))
		require.NoError(t, page.Replicate(handle, 0), "it lies there")
		require.Empty(t, w.replicas(handle))
		for _, wrong := range []struct {
			handle uint64
			device int32
			code   status.Code
		}{
			{handle, -1, status.InvalidArgument}, {handle, 2, status.NoDevice}, {onDisk, 1, status.Unsupported},
			{handle + 1<<28, 1, status.InvalidHandle},
		} {
			require.Equal(t, wrong.code, status.CodeOf(page.Replicate(wrong.handle, wrong.device)))
			if wrong.code != status.Unsupported {
				require.Equal(t, wrong.code, status.CodeOf(page.DropReplica(wrong.handle, wrong.device)))
			}
		}
		large := w.create(abi.LocationCPU, 0, 80<<20)
		code := status.CodeOf(page.Replicate(large, 1))
		require.True(t, code == status.OutOfMemory || code == status.Limit, code)
		require.Empty(t, w.replicas(large))
		require.NoError(t, page.Replicate(handle, 1))
		require.NoError(t, page.DropReplica(handle, 1))
		for _, call := range []sim.Call{sim.Copy} {
			require.NoError(t, w.sim.Inject(sim.Fault{Device: 1, Call: call, Effect: sim.Fail}))
			require.Equal(t, status.Device, status.CodeOf(page.Replicate(handle, 1)))
			require.Empty(t, w.replicas(handle))
			require.Zero(t, w.stats().Replicas)
		}
		w.holds(handle, 0, "bytes")
		use := w.begin(w.streamOn(0), handle, gpu.Read)
		_, err := gpu.UseAddress(use, onDisk)
		require.Equal(t, status.NotFound, status.CodeOf(err))
		require.NoError(t, gpu.EndUse(use))
		_, err = gpu.UseAddress(use, handle)
		require.Equal(t, status.StaleHandle, status.CodeOf(err))
		recorded, err := gpu.RecordUse(w.streamOn(1), false)
		require.NoError(t, err)
		require.NoError(t, page.Replicate(handle, 1))
		require.NoError(t, AddUse(recorded, gpu.Use{Block: handle, Access: gpu.Read}))
		_, err = gpu.UseAddress(recorded, handle)
		require.Equal(t, status.InvalidState, status.CodeOf(err))
		require.NoError(t, gpu.BeginRecorded(recorded))
		at, err := gpu.UseAddress(recorded, handle)
		require.NoError(t, err)
		require.Equal(t, "bytes", w.readAt(1, at, 5))
		require.NoError(t, gpu.EndUse(recorded))
		s := w.streamOn(1)
		captured, err := gpu.BeginCapture(s)
		require.NoError(t, err)
		_, _, err = BeginUse(s, []gpu.Use{{Block: handle, Access: gpu.Read}})
		require.Error(t, err, "a graph would read it when it has gone")
		capture, err := gpu.FindCapture(captured)
		require.NoError(t, err)
		require.NoError(t, capture.End())
		require.NoError(t, gpu.EndUse(w.begin(s, handle, gpu.Read)))
		require.NoError(t, gpu.DestroyCapture(captured))
	})
	on(t, func(w *world) {
		clash := w.paired("both")
		device, code := nativetest.PinPage(clash, true)
		require.Zero(t, code)
		address, err := page.PinHostCopy(clash, true)
		require.NoError(t, err)
		copy(native.Memory(address, 1), "h")
		require.NoError(t, page.Use(w.context, func(c *page.Context) error {
			return c.Residency().Devices().Write(0, device, []byte("d"))
		}))
		require.NoError(t, page.UnpinHostCopy(clash, true))
		w.unpin(clash)
		require.Equal(t, status.Mismatch, status.CodeOf(page.Replicate(clash, 1)))
		w.sync(clash, residency.ToDevice|residency.HostWins)
		require.NoError(t, page.Replicate(clash, 1))
		got, _ := w.replica(clash, 1)
		require.Equal(t, "h", got[:1])
	})
}

// A device that lacks memory gets that of replicas, of those first that were not used for the longest time.
func TestADeviceThatLacksMemoryDropsReplicas(t *testing.T) {
	const size = 10 << 20
	on(t, func(w *world) { // 64 MiB a device
		var handles []uint64
		for range 5 {
			handle := w.create(abi.LocationCPU, 0, size)
			require.NoError(t, page.Replicate(handle, 1))
			handles = append(handles, handle)
		}
		require.NoError(t, w.tryReading(handles[0]))
		first := w.create(abi.LocationGPU, 1, size+size/2)
		require.Empty(t, w.replicas(handles[1]), "the one that was not used for the longest time")
		require.Equal(t, []int32{1}, w.replicas(handles[0]))
		require.Equal(t, []int32{1}, w.replicas(handles[4]))
		_ = w.create(abi.LocationGPU, 1, 45<<20)
		require.Zero(t, w.stats().Replicas)
		require.Zero(t, nativetest.Destroy(first))

		require.NoError(t, page.Replicate(handles[0], 1))
		require.Equal(t, []int32{1}, w.replicas(handles[0]))
		require.NoError(t, page.Replicate(handles[2], 1), "a replica takes the memory of another one")
		require.Empty(t, w.replicas(handles[0]))
		s := w.streamOn(1)
		use := w.begin(s, handles[2], gpu.Read)
		at, err := gpu.UseAddress(use, handles[2])
		require.NoError(t, err)
		require.Error(t, page.Replicate(handles[3], 1), "one that is in use gives no memory")
		require.Empty(t, w.replicas(handles[2]), "though nobody else uses it")
		require.Equal(t, strings.Repeat("\x00", 100), w.readAt(1, at, 100))
		require.NoError(t, gpu.EndUse(use))
		require.NoError(t, page.Replicate(handles[3], 1))

		device := s.Runtime().Device()
		gpu.SetDeviceBudget(device, gpu.MemoryOf(device).Charged-size)
		defer gpu.SetDeviceBudget(device, 0)
		require.Empty(t, w.replicas(handles[3]), "a smaller budget asks, too")
	})
}

// A runtime of the program's own has the memory of replicas, too.
func TestAnotherRuntimeGetsTheMemoryOfReplicas(t *testing.T) {
	on(t, func(w *world) {
		handle := w.create(abi.LocationCPU, 0, 40<<20)
		require.NoError(t, page.Replicate(handle, 1))
		own, err := gpu.New(w.streamOn(1).Runtime().Device(), gpu.Options{})
		require.NoError(t, err)
		stream, err := own.AcquireStream(0)
		require.NoError(t, err)
		s, err := gpu.FindStream(stream)
		require.NoError(t, err)
		block, _, err := own.Allocate(gpu.Request{Bytes: 40 << 20, Stream: s})
		require.NoError(t, err)
		require.Empty(t, w.replicas(handle))
		_, err = gpu.Free(block, nil)
		require.NoError(t, err)
		_, err = own.Close()
		require.NoError(t, err)
	})
}

// The replica of a page whose device is lost has its bytes; a replica on a lost device is none any more.
func TestReplicasAndLostDevices(t *testing.T) {
	for fallback, where := range map[int32]residency.Placement{abi.FallbackHost: onHost, abi.FallbackSimulate: standIn} {
		falling(t, fallback, func(w *world) {
			alone, saved, partly := w.create(abi.LocationGPU, 0, 5000), w.create(abi.LocationGPU, 0, 5000), w.paired("partly")
			w.pin(partly) // all counts as newer there
			w.unpin(partly)
			require.Equal(t, status.OK, w.write(saved, 4000, "saved"))
			require.NoError(t, page.Replicate(saved, 1))
			require.NoError(t, page.Replicate(partly, 1))
			w.lose()
			w.eventually(func() bool { return w.at(saved) == where && w.at(partly) == where })
			w.holds(saved, 4000, "saved")
			w.holds(partly, 100, "partly")
			require.Equal(t, uint64(5000), w.lost()[alone].Lost)
			require.Empty(t, w.replicas(saved))
			require.NoError(t, page.Replicate(saved, 1))
			require.Equal(t, []int32{1}, w.replicas(saved))
		})
	}
	on(t, func(w *world) {
		saved, written := w.create(abi.LocationGPU, 0, 5000), w.create(abi.LocationGPU, 0, 5000)
		host := w.create(abi.LocationCPU, 0, 5000)
		require.Equal(t, status.OK, w.write(saved, 4000, "saved"))
		require.NoError(t, page.Replicate(saved, 1))
		require.NoError(t, page.Replicate(written, 1))
		require.NoError(t, page.Replicate(host, 0))
		require.Equal(t, status.OK, w.write(written, 0, "newer"))
		w.lose()
		require.Empty(t, w.replicas(host))
		require.Equal(t, status.DeviceLost, status.CodeOf(page.Replicate(host, 0)))
		require.NoError(t, w.tryReading(saved), "work on the other device goes on")
		lost := w.lost()
		require.Zero(t, lost[saved].Lost)
		require.Equal(t, uint64(5000), lost[written].Lost, "its replica is older")
		require.NoError(t, page.Migrate(saved, abi.LocationCPU, 0))
		w.holds(saved, 4000, "saved")
		require.Equal(t, status.DeviceLost, status.CodeOf(page.Migrate(written, abi.LocationCPU, 0)))
		require.Zero(t, w.stats().Replicas)
	})
}

// A save reads the page where it lies and leaves its replicas alone; a load that takes the place of pages leaves none.
func TestSavesAndLoadsBesideReplicas(t *testing.T) {
	for name, create := range places {
		on(t, func(w *world) {
			handle, small := create(w), w.create(abi.LocationCPU, 0, 100)
			require.Equal(t, status.OK, w.write(handle, 300, "saved"))
			require.NoError(t, page.Replicate(handle, 1))
			require.NoError(t, page.Replicate(small, 1))
			path := filepath.Join(t.TempDir(), "saved")
			require.NoError(t, persist.Save(w.context, persist.ToPath(path), persist.SaveOptions{NotDurable: true}, nil))
			require.Equal(t, []int32{1}, w.replicas(handle), name)
			require.Equal(t, status.OK, w.write(handle, 300, "later"))
			id := uint64(0)
			require.NoError(t, page.Read(handle, func(p *page.Page) error { id = p.ID(); return nil }))
			require.NoError(t, page.Replicate(handle, 1))
			require.NoError(t, persist.Load(w.context, persist.FromPath(path), persist.LoadOptions{}, nil))
			require.Zero(t, w.stats().Replicas, name)
			require.NoError(t, page.Use(w.context, func(c *page.Context) (err error) {
				handle, err = c.Lookup(id)
				return err
			}))
			w.holds(handle, 300, "saved")
		})
	}
}

// Beside threads that write, replicate, drop, lack memory and destroy, work reads what a page was between two writes.
func TestReplicasBesideThreads(t *testing.T) {
	const size, rounds = 1 << 20, 60
	use(func(options *devices.Options) { options.Simulated = sim.Options{Latency: 1000} })
	defer Use()
	on(t, func(w *world) {
		var handles []uint64
		for _, location := range []int32{abi.LocationCPU, abi.LocationGPU, abi.LocationCPU} {
			handles = append(handles, w.create(location, 0, size))
		}
		w.sync(handles[2], residency.ToDevice)
		var group sync.WaitGroup
		for _, handle := range handles {
			group.Go(func() {
				for i := range rounds {
					if code := w.write(handle, 0, strings.Repeat(string(rune('a'+i%26)), size)); code != status.OK {
						t.Errorf("a write is %v", code)
					}
					time.Sleep(time.Millisecond)
				}
			})
			for device := range int32(2) {
				group.Go(func() {
					random := rand.New(rand.NewPCG(uint64(device), handle))
					for range rounds {
						switch err := page.Replicate(handle, device); status.CodeOf(err) {
						case status.OK, status.OutOfMemory, status.Limit:
						default:
							t.Error(err)
						}
						if random.IntN(8) == 0 {
							_ = page.DropReplica(handle, device)
						}
					}
				})
			}
		}
		s := w.streamOn(1)
		group.Go(func() {
			for range 20 {
				var block uint64
				if err := page.Use(w.context, func(c *page.Context) (err error) {
					block, err = c.Create(45<<20, page.CreateOptions{Location: abi.LocationGPU, Device: 1, NUMANode: -1})
					return err
				}); err == nil {
					nativetest.Destroy(block)
				}
			}
		})
		group.Go(func() {
			read := 0
			for range rounds {
				for _, handle := range handles {
					_ = page.Replicate(handle, 1)
					use, _, err := BeginUse(s, []gpu.Use{{Block: handle, Access: gpu.Read}})
					if err != nil {
						continue
					}
					at, err := gpu.UseAddress(use, handle)
					if err != nil {
						t.Error(err)
					}
					got := make([]byte, size)
					if err := page.Use(w.context, func(c *page.Context) error {
						return c.Residency().Devices().Read(1, uintptr(at), got)
					}); err != nil {
						t.Error(err)
					}
					if got[0] != got[size/2] || got[0] != got[size-1] {
						t.Errorf("work reads %q, %q and %q of one moment", got[0], got[size/2], got[size-1])
					}
					if err := gpu.EndUse(use); err != nil {
						t.Error(err)
					}
					read++
				}
			}
			if read < rounds {
				t.Errorf("%d replicas were read", read)
			}
		})
		group.Wait()
		for _, handle := range handles {
			require.NoError(t, page.Replicate(handle, 1))
			got, there := w.replica(handle, 1)
			require.True(t, there)
			require.Equal(t, w.moment(handle).bytes, got)
		}
	})
}
