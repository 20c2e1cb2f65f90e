package pages

import (
	"bytes"
	"runtime"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"libmmsb/core/abi"
	"libmmsb/core/delta"
	"libmmsb/core/memory"
	"libmmsb/core/page"
	"libmmsb/core/persist"
	"libmmsb/core/status"
	gpu "libmmsb/gpu/runtime"
	"libmmsb/gpu/sim"
	"libmmsb/native"
	"libmmsb/native/nativetest"
)

func init() { Use() }

// world is a context on simulated devices.
type world struct {
	*testing.T
	context uint64
	sim     *sim.Driver
}

// on runs a test on a context of its own, which leaves nothing behind and nothing out of order. Native locks belong to threads.
func on(t *testing.T, test func(w *world)) { falling(t, abi.FallbackError, test) }

// falling is on for a context with a fallback.
func falling(t *testing.T, fallback int32, test func(w *world)) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	context, err := page.NewContext(page.Options{
		Simulate: abi.SimulateAlways, SimulatedDevices: 2, SimulatedMemory: 64 << 20, Fallback: fallback,
	})
	require.NoError(t, err)
	set, err := SetOf(context)
	require.NoError(t, err)
	driver, err := set.Driver()
	require.NoError(t, err)
	w := &world{t, context, driver.(*sim.Driver)}
	test(w)
	w.check()
	violations, _ := w.sim.Violations()
	require.Empty(t, violations)
	require.NoError(t, page.Destroy(context))
	require.Zero(t, memory.Outliving())
	_, err = SetOf(context)
	require.Equal(t, status.StaleHandle, status.CodeOf(err))
}

// check walks over the context, on which no call runs.
func (w *world) check() {
	w.Helper()
	require.NoError(w, page.Use(w.context, (*page.Context).Check))
}

func (w *world) create(location, device int32, size uint64) (handle uint64) {
	require.NoError(w, page.Use(w.context, func(c *page.Context) (err error) {
		handle, err = c.Create(size, page.CreateOptions{Location: location, Device: device, NUMANode: -1})
		return err
	}))
	return handle
}

func (w *world) fail(call sim.Call, after int, effect sim.Effect) {
	require.NoError(w, w.sim.Inject(sim.Fault{Call: call, After: after, Effect: effect}))
}

func (w *world) write(handle, offset uint64, content string) status.Code {
	return status.Code(nativetest.WritePage(handle, offset, []byte(content)))
}

func (w *world) read(handle, offset, length uint64) (string, status.Code) {
	into := make([]byte, length)
	code := nativetest.ReadPage(handle, offset, into)
	return string(into), status.Code(code)
}

func (w *world) holds(handle, offset uint64, content string) {
	w.Helper()
	got, code := w.read(handle, offset, uint64(len(content)))
	require.Equal(w, status.OK, code)
	require.Equal(w, content, got)
}

// apply applies a delta of scattered bytes: nothing that a copy could do.
func (w *world) apply(handle uint64, offsets []uint64, payload string) status.Code {
	values := []byte(payload)
	var pinned runtime.Pinner
	defer pinned.Unpin()
	pinned.Pin(&offsets[0])
	pinned.Pin(&values[0])
	return status.Code(nativetest.ApplyPage(handle, &native.Delta{
		Kind: int32(delta.Indexed), Offsets: unsafe.Pointer(&offsets[0]), Count: uint64(len(offsets)),
		Payload: unsafe.Pointer(&values[0]),
	}))
}

func (w *world) pin(handle uint64) (address uintptr) {
	address, code := nativetest.PinPage(handle, true)
	require.Zero(w, code)
	return address
}

func (w *world) unpin(handle uint64) { require.Zero(w, nativetest.UnpinPage(handle, true)) }

func TestADeltaOfAPageOnADeviceIsAKernel(t *testing.T) {
	on(t, func(w *world) {
		handle := w.create(abi.LocationGPU, 0, 10000)
		w.fail(sim.Launch, 0, sim.Fail)
		require.Equal(t, status.Device, w.apply(handle, []uint64{7, 9, 5000}, "abc"), "it is not launched")
		w.holds(handle, 7, "\x00\x00\x00")
		require.Equal(t, status.OK, w.apply(handle, []uint64{7, 9, 5000}, "abc"))
		w.holds(handle, 7, "a\x00b")
		require.Equal(t, status.OK, w.apply(handle, []uint64{5000, 9, 9}, "xyz"), "of equal offsets the last wins")
		w.holds(handle, 9, "z")
		w.holds(handle, 5000, "x")
	})
}

func TestAFailedCallChangesNothing(t *testing.T) {
	on(t, func(w *world) {
		handle := w.create(abi.LocationGPU, 0, 5000)
		require.Equal(t, status.OK, w.write(handle, 100, "before"))
		for _, call := range []func() status.Code{
			func() status.Code { return w.write(handle, 100, "after!") },
			func() status.Code { _, code := w.read(handle, 100, 6); return code },
			func() status.Code { return w.apply(handle, []uint64{100, 103}, "af") },
			func() status.Code { return status.CodeOf(page.Migrate(handle, abi.LocationCPU, 0)) },
			func() status.Code { return status.CodeOf(page.Migrate(handle, abi.LocationDisk, 0)) },
			func() status.Code { return status.CodeOf(page.Migrate(handle, abi.LocationGPU, 1)) },
			func() status.Code { return status.CodeOf(page.Resize(handle, 6000)) },
			func() status.Code { _, err := page.Clone(handle, 0); return status.CodeOf(err) },
		} {
			for device := range 2 { // copies run on the device that is written to
				require.NoError(t, w.sim.Inject(sim.Fault{Device: device, Call: sim.Copy, Effect: sim.Fail}))
			}
			require.Equal(t, status.Device, call())
			for device := range 2 {
				w.use(device)
			}
			w.holds(handle, 100, "before")
		}
		w.full(0, func() {
			_, err := page.Clone(handle, 0)
			require.Equal(t, status.OutOfMemory, status.CodeOf(err), "%v", err)
			w.holds(handle, 100, "before")
		})
	})
}

// full calls a test while a device has no memory left.
func (w *world) full(device int32, test func()) {
	var pages []uint64
	for size := uint64(32 << 20); size > 0; {
		err := page.Use(w.context, func(c *page.Context) error {
			handle, err := c.Create(size, page.CreateOptions{Location: abi.LocationGPU, Device: device, NUMANode: -1})
			if err == nil {
				pages = append(pages, handle)
			}
			return err
		})
		if err != nil {
			require.Equal(w, status.OutOfMemory, status.CodeOf(err), "%v", err)
			size /= 2
		}
	}
	test()
	for _, handle := range pages {
		require.Zero(w, nativetest.Destroy(handle))
	}
}

// use lets what was planted on a device's copies come to pass, where the call before had none.
func (w *world) use(device int) {
	memory := w.create(abi.LocationGPU, int32(device), 1)
	for range 2 {
		_ = w.write(memory, 0, "x")
	}
	require.Zero(w, nativetest.Destroy(memory))
}

// watch makes changes take the way over the host, as they do beside a journal.
func (w *world) watch() {
	require.NoError(w, persist.OpenJournal(w.context, w.TempDir(),
		persist.JournalOptions{Durability: abi.DurabilityNone, IntervalMs: 10, SegmentBytes: 1 << 20}, nil))
}

// Changes that somebody watches are made in a copy on the host. Where the device does not take it back it is the newest there is,
// until the device does.
func TestACopyThatCannotLeaveIsTheNewest(t *testing.T) {
	for _, pinned := range []bool{false, true} {
		on(t, func(w *world) {
			handle := w.create(abi.LocationGPU, 0, 5000)
			require.Equal(t, status.OK, w.write(handle, 0, "0123456789"))
			w.watch()
			if pinned {
				w.pin(handle)
			}
			w.fail(sim.Copy, 1, sim.Fail) // the way back
			require.Zero(t, nativetest.WritePages([]uint64{handle, handle}, []uint64{2, 4}, []uint64{2, 2}, []byte("abcd")))
			w.fail(sim.Copy, 0, sim.Fail) // each call tries again
			w.holds(handle, 0, "01abcd6789")
			w.fail(sim.Copy, 0, sim.Fail)
			require.Equal(t, status.OK, w.write(handle, 9, "y"), "the copy takes it")
			w.fail(sim.Copy, 0, sim.Fail)
			w.fail(sim.Copy, 1, sim.Fail)
			_, code := nativetest.PinPage(handle, false)
			require.Equal(t, int32(status.Device), code, "a pin needs the device's own bytes")
			w.holds(handle, 0, "01abcd678y")
			require.Equal(t, status.OK, w.write(handle, 9, "x"))
			w.holds(handle, 0, "01abcd678x")
			if pinned {
				w.unpin(handle)
			}
			require.NoError(t, page.Migrate(handle, abi.LocationCPU, 0))
			w.holds(handle, 0, "01abcd678x")
		})
	}
}

// What a pin's holder writes on the device while a call works on a copy must stay: only what the call has changed goes back.
func TestACallBesideAPinSendsBackWhatItChanged(t *testing.T) {
	on(t, func(w *world) {
		handle := w.create(abi.LocationGPU, 0, 5000)
		w.watch()
		w.pin(handle)
		w.fail(sim.Copy, 2, sim.Fail) // one copy there, one back for each of the two ranges: the second of these
		require.Zero(t, nativetest.WritePages([]uint64{handle, handle}, []uint64{2, 4000}, []uint64{2, 3}, []byte("abcde")))
		w.holds(handle, 4000, "cde")
		w.holds(handle, 2, "ab")
		require.Equal(t, status.OK, w.write(handle, 0, "x"))
		w.holds(handle, 0, "x\x00ab")
		w.unpin(handle)
	})
}

// A change that is refused once it was prepared has changed nothing, also not where the next change is made.
func TestACopyOfARefusedChange(t *testing.T) {
	for name, steps := range map[string]func(w *world, handle uint64, refuse func()){
		"nobody wants the copy": func(w *world, handle uint64, refuse func()) { refuse(); w.pin(handle) },
		"it stays":              func(w *world, handle uint64, refuse func()) { w.pin(handle); refuse(); w.sync(handle, both) },
		"it was there before":   func(w *world, handle uint64, refuse func()) { w.sync(handle, both); refuse(); w.pin(handle) },
	} {
		t.Run(name, func(t *testing.T) {
			on(t, func(w *world) {
				handle := w.create(abi.LocationGPU, 0, 5000)
				steps(w, handle, func() {
					require.NoError(t, page.Read(handle, func(p *page.Page) error {
						done, err := p.DevicePrepare(p.Index, &native.Delta{Kind: int32(delta.Runs)})
						require.True(t, done)
						return err
					}))
				})
				require.Zero(t, nativetest.ApplyRuns([]uint64{handle, handle}, []uint64{0, 8}, 4, []byte("in a run")))
				w.holds(handle, 0, "in a\x00\x00\x00\x00 run")
				require.Equal(t, status.OK, w.write(handle, 4, "four"))
				w.holds(handle, 0, "in afour run")
				w.unpin(handle)
			})
		})
	}
}

// What a call then changes at the copy's address is not lost with it; beside others who write on the device no other byte goes.
func TestACopyOfARefusedChangeBecomesTheNewest(t *testing.T) {
	on(t, func(w *world) {
		handle := w.create(abi.LocationGPU, 0, 5000)
		address, code := nativetest.PinPage(handle, true)
		require.Zero(t, code)
		prepare := func(p *page.Page) {
			done, err := p.DevicePrepare(p.Index, &native.Delta{Kind: int32(delta.Runs)})
			require.NoError(t, err)
			require.True(t, done)
		}
		require.NoError(t, page.Read(handle, func(p *page.Page) error {
			prepare(p)
			require.NoError(t, p.MakeResident(p.Index))
			require.NoError(t, p.Devices().Write(0, address+8, []byte("theirs")))
			copy(native.Bytes(p.Record.Locator, p.Record.Size), "ours")
			p.Record.Version++
			p.Evict(p.Index)
			return nil
		}))
		w.unpin(handle)
		require.NoError(t, page.Read(handle, func(p *page.Page) error {
			prepare(p)
			done, err := p.DeviceApply(p.Index, &native.Delta{Kind: int32(delta.Runs)})
			require.True(t, done)
			return err
		}))
		w.holds(handle, 0, "ours\x00\x00\x00\x00theirs")
	})
}

// The copy of a refused change ends with the next change, but behind all changes of a batch.
func TestABatchChangesAPageWithTheCopyOfARefusedChange(t *testing.T) {
	on(t, func(w *world) {
		handle := w.create(abi.LocationGPU, 0, 100)
		require.NoError(t, page.Read(handle, func(p *page.Page) error {
			done, err := p.DevicePrepare(p.Index, &native.Delta{Kind: int32(delta.Runs)})
			require.True(t, done)
			return err
		}))
		same := []uint64{handle, handle, handle}
		require.Zero(t, nativetest.ApplyRuns(same, []uint64{0, 8, 4}, 4, []byte("abcdefghijkl")))
		w.holds(handle, 0, "abcdijklefgh")
	})
}

func TestAFailedBatchOfDeltasChangesNoPage(t *testing.T) {
	on(t, func(w *world) {
		device, host := w.create(abi.LocationGPU, 0, 5000), w.create(abi.LocationCPU, 0, 5000)
		both := []uint64{host, device, host, device}
		refused := func(plant func()) {
			plant()
			require.NotZero(t, nativetest.ApplyRuns(both, []uint64{0, 0, 2, 3}, 4, []byte("abcdefghijklmnop")))
			plant()
			require.NotZero(t, nativetest.WritePages(both, []uint64{0, 0, 2, 3}, []uint64{4, 4, 4, 4},
				[]byte("abcdefghijklmnop")))
			w.holds(host, 0, "\x00\x00\x00\x00")
			w.holds(device, 0, "\x00\x00\x00\x00")
		}
		for _, call := range []sim.Call{sim.Copy, sim.Launch} {
			refused(func() { w.fail(call, 0, sim.Fail) })
		}
		w.full(0, func() { refused(func() {}) })
		require.Zero(t, nativetest.ApplyRuns(both, []uint64{0, 0, 2, 3}, 4, []byte("abcdefghijklmnop")))
		w.holds(host, 0, "abijkl")
		w.holds(device, 0, "efgmnop")
		require.Zero(t, nativetest.WritePages(both, []uint64{0, 0, 2, 3}, []uint64{4, 4, 4, 4}, []byte("ABCDEFGHIJKLMNOP")))
		w.holds(host, 0, "ABIJKL")
		w.holds(device, 0, "EFGMNOP")
	})
}

func TestALostDeviceTakesItsPagesAndNoMore(t *testing.T) {
	on(t, func(w *world) {
		lost, other, host := w.create(abi.LocationGPU, 0, 5000), w.create(abi.LocationGPU, 1, 5000), w.create(abi.LocationCPU,
			0, 5000)
		w.fail(sim.Copy, 0, sim.Lose)
		require.Equal(t, status.DeviceLost, w.write(lost, 0, "x"))
		_, code := w.read(lost, 0, 1)
		require.Equal(t, status.DeviceLost, code)
		require.Equal(t, status.DeviceLost, status.CodeOf(page.Migrate(lost, abi.LocationCPU, 0)))
		require.Equal(t, status.DeviceLost, status.CodeOf(page.Migrate(host, abi.LocationGPU, 0)))
		require.Equal(t, status.OK, w.write(other, 0, "x"))
		require.Equal(t, status.OK, w.write(host, 0, "x"))
		require.NoError(t, page.Migrate(host, abi.LocationGPU, 1))
		w.holds(host, 0, "x")
		require.Zero(t, nativetest.Destroy(lost))
	})
}

func TestManyThreadsOnOneDevice(t *testing.T) {
	on(t, func(w *world) {
		const threads = 3 * mostLanes
		done := make(chan error, threads)
		for thread := range threads {
			handle := w.create(abi.LocationGPU, int32(thread%2), 4096)
			go func() {
				runtime.LockOSThread()
				defer runtime.UnlockOSThread()
				content := bytes.Repeat([]byte{byte(thread)}, 4096)
				for range 50 {
					nativetest.WritePage(handle, 0, content)
					into := make([]byte, 4096)
					if nativetest.ReadPage(handle, 0, into); !bytes.Equal(into, content) {
						done <- status.Errorf(status.Internal, "thread %d reads another's bytes", thread)
						return
					}
				}
				done <- nil
			}()
		}
		for range threads {
			require.NoError(t, <-done)
		}
	})
}

// Pages have blocks of the runtime's pool: few segments have memory for many of them, and it goes back when nobody needs it.
func TestPagesShareSegments(t *testing.T) {
	on(t, func(w *world) {
		device, err := w.sim.Open(0)
		require.NoError(t, err)
		var pages []uint64
		for range 100 {
			pages = append(pages, w.create(abi.LocationGPU, 0, 5000))
		}
		require.Equal(t, status.OK, w.write(pages[99], 4999, "x"))
		require.EqualValues(t, 2<<20, gpu.MemoryOf(device).Charged)
		free, total, err := device.MemoryInfo()
		require.NoError(t, err)
		require.EqualValues(t, 2<<20, total-free)
		for _, handle := range pages[1:] {
			require.Zero(t, nativetest.Destroy(handle))
		}
		trim := func() {
			require.NoError(t, page.Use(w.context, func(c *page.Context) error {
				c.Trim()
				return nil
			}))
		}
		trim()
		require.EqualValues(t, 2<<20, gpu.MemoryOf(device).Charged, "a page has it")
		require.Zero(t, nativetest.Destroy(pages[0]))
		trim()
		require.Zero(t, gpu.MemoryOf(device).Charged)
	})
}
