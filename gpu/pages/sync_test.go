package pages

import (
	"bytes"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"libmmsb/core/abi"
	"libmmsb/core/page"
	"libmmsb/core/residency"
	"libmmsb/core/status"
	"libmmsb/gpu/sim"
	"libmmsb/native"
	"libmmsb/native/nativetest"
)

const both = residency.ToDevice | residency.ToHost

func syncOne(handle uint64, direction residency.Direction) error {
	_, err := page.SyncMany([]uint64{handle}, direction, 0, nil, nil)
	return err
}

func (w *world) sync(handle uint64, direction residency.Direction) {
	w.Helper()
	require.NoError(w, syncOne(handle, direction))
}

// moved is what has moved since it was asked for the last time.
func (w *world) moved() (now residency.MovedStats) {
	w.Helper()
	require.NoError(w, page.Use(w.context, func(c *page.Context) error {
		now = c.Residency().Moved()
		return nil
	}))
	return now
}

// newer is what is newer on the device, and on the host.
func (w *world) newer(handle uint64) [2]uint64 {
	w.Helper()
	copies, err := page.Copies(handle)
	require.NoError(w, err)
	require.Len(w, copies, 2)
	require.EqualValues(w, abi.LocationGPU, copies[0].Location)
	require.Contains(w, []int32{abi.LocationCPU, abi.LocationPinned}, copies[1].Location)
	return [2]uint64{copies[0].Newer, copies[1].Newer}
}

// onTheDevice is what a page in two places has on the device.
func (w *world) onTheDevice(handle uint64) string {
	w.Helper()
	copies, err := page.Copies(handle)
	require.NoError(w, err)
	clone, err := page.Clone(handle, 0) // on the device, of what is there once all has gone there
	require.NoError(w, err)
	got, code := w.read(clone, 0, copies[0].Size)
	require.Equal(w, status.OK, code)
	require.Zero(w, nativetest.Destroy(clone))
	return got
}

func TestOnlyNewerBytesMove(t *testing.T) {
	on(t, func(w *world) {
		handle := w.create(abi.LocationCPU, 0, 5000)
		require.Equal(t, status.OK, w.write(handle, 100, "before"))
		w.sync(handle, residency.ToDevice)
		require.Equal(t, [2]uint64{0, 0}, w.newer(handle))
		require.EqualValues(t, 5000, w.moved().ToDevice)

		require.Equal(t, status.OK, w.write(handle, 190, "abc"), "over the end of a granule")
		require.Equal(t, status.OK, w.apply(handle, []uint64{4999, 9, 9}, "xyz"))
		require.Equal(t, [2]uint64{0, 128 + 64 + 8}, w.newer(handle))
		w.holds(handle, 100, "before")
		w.holds(handle, 190, "abc")
		w.sync(handle, both)
		require.EqualValues(t, 5000+200, w.moved().ToDevice)
		require.Zero(t, w.moved().ToHost)
		got := w.onTheDevice(handle)
		require.Equal(t, "abc", got[190:193])
		require.Equal(t, "z", got[9:10])
		require.Equal(t, "x", got[4999:])

		require.NoError(t, page.Migrate(handle, abi.LocationCPU, 0))
		require.Zero(t, w.moved().ToHost, "the host has it")
		w.holds(handle, 190, "abc")
		require.Len(t, mustCopies(t, handle), 1)
	})
}

func mustCopies(t *testing.T, handle uint64) []residency.Copy {
	copies, err := page.Copies(handle)
	require.NoError(t, err)
	return copies
}

func TestWhatAHolderOfTheDevicesAddressWritesComes(t *testing.T) {
	on(t, func(w *world) {
		handle := w.create(abi.LocationCPU, 0, 5000)
		w.sync(handle, residency.ToDevice)
		require.Equal(t, status.OK, w.write(handle, 0, "host"))
		w.pin(handle)
		require.Equal(t, [2]uint64{5000, 0}, w.newer(handle), "what was newer on the host is there")
		require.Equal(t, status.OK, w.write(handle, 8, "call"), "a call beside the pin works on the device")
		require.Equal(t, [2]uint64{5000, 0}, w.newer(handle))
		w.holds(handle, 0, "host\x00\x00\x00\x00call")
		w.unpin(handle)
		require.Equal(t, status.OK, w.write(handle, 4000, "more"), "all is newer there still")
		w.sync(handle, residency.ToHost)
		require.Equal(t, [2]uint64{0, 0}, w.newer(handle))
		w.holds(handle, 0, "host\x00\x00\x00\x00call")
		w.holds(handle, 4000, "more")
	})
}

// A pinned page keeps its memory as the host's copy, from where its bytes go, and to where they come: the library's own pinned
// memory has none of them.
func TestPinnedMemoryIsTheCopy(t *testing.T) {
	onDevices(t, sim.Options{Latency: time.Microsecond, Unchecked: true, Trace: true}, func(w *world) {
		for _, size := range []uint64{100, 5000, 3 << 20} { // by a kernel, and by a copy
			handle := w.create(abi.LocationPinned, 0, size)
			address := w.pin(handle)
			w.unpin(handle)
			require.Equal(t, status.OK, w.write(handle, 3, "kept"))
			before := len(w.sim.Timeline())
			w.sync(handle, residency.ToDevice)
			require.Len(t, w.sim.Timeline(), before+1, "it does not fill the library's memory again and again")
			copies := mustCopies(t, handle)
			require.Equal(t, []residency.Copy{
				{Placement: residency.Placement{Location: abi.LocationGPU}, Size: size},
				{Placement: residency.Placement{Location: abi.LocationPinned}, Size: size},
			}, copies)
			at, err := page.PinHostCopy(handle, false)
			require.NoError(t, err)
			require.Equal(t, address, at)
			require.Equal(t, "kept", string(native.Memory(at+3, 4)))
			require.NoError(t, page.UnpinHostCopy(handle, false))
			w.raw(handle, 3, "there", false)
			w.sync(handle, residency.ToHost)
			require.Equal(t, "there", string(native.Memory(at+3, 5)))
			w.holds(handle, 3, "there")
			require.NoError(t, page.Migrate(handle, abi.LocationPinned, 0))
			require.Equal(t, address, w.pin(handle), "it has its memory back")
			w.unpin(handle)
			w.holds(handle, 3, "there")
			w.check()

			other := w.create(abi.LocationGPU, 0, size)
			require.Equal(t, status.OK, w.write(other, 0, "x"))
			w.sync(other, residency.ToHost|residency.PinnedCopy)
			require.EqualValues(t, abi.LocationPinned, mustCopies(t, other)[1].Location)
			require.NoError(t, page.DropHostCopy(other))
			w.sync(other, residency.ToHost)
			require.EqualValues(t, abi.LocationCPU, mustCopies(t, other)[1].Location)
			w.sync(other, both|residency.PinnedCopy)
			require.EqualValues(t, abi.LocationCPU, mustCopies(t, other)[1].Location, "the copy that it has stays")
			w.holds(other, 0, "x")
			require.NoError(t, page.Migrate(other, abi.LocationCPU, 0))
			w.check()
		}
	})
}

// Pinned pages that lie one behind the other go together, as blocks of the driver's are apart: each is a copy by itself.
func TestPinnedPagesBesideEachOther(t *testing.T) {
	on(t, func(w *world) {
		var pages []uint64
		for i := range 100 {
			pages = append(pages, w.create(abi.LocationPinned, 0, 64<<10))
			require.Equal(t, status.OK, w.write(pages[i], 9, string([]byte{byte(i)})))
		}
		for _, direction := range []residency.Direction{residency.ToDevice, residency.ToHost} {
			_, err := page.SyncMany(pages, direction, 0, nil, nil)
			require.NoError(t, err)
			for i, handle := range pages {
				w.holds(handle, 9, string([]byte{byte(i)}))
				w.raw(handle, 10, "more", false)
			}
		}
		w.check()
	})
}

// Each call of the driver fails once in each step of a program, or the device is lost there. Whatever failed, the page has what
// its calls have written, or says that this is lost.
func TestEachStepOfASyncFails(t *testing.T) {
	for _, effect := range []sim.Effect{sim.Fail, sim.Lose} {
		for _, call := range []sim.Call{sim.Copy, sim.Launch} {
			for after := range 16 {
				on(t, func(w *world) {
					location := []int32{abi.LocationCPU, abi.LocationPinned}[after%2]
					handle, want := w.create(location, 0, 5000), make([]byte, 5000)
					w.fail(call, after/2, effect)
					put := func(offset uint64, content string) {
						if w.write(handle, offset, content) == status.OK {
							copy(want[offset:], content)
						}
					}
					for range 2 {
						put(100, "one")
						_ = syncOne(handle, residency.ToDevice)
						put(4000, "two")
						put(10, "three")
						_ = syncOne(handle, both)
						_, code := nativetest.PinPage(handle, true)
						put(300, "four")
						if code == 0 {
							w.unpin(handle)
						}
						put(310, "five")
						_ = syncOne(handle, residency.ToHost)
					}
					if effect == sim.Lose {
						if got, code := w.read(handle, 0, 5000); code != status.DeviceLost {
							require.Equal(t, status.OK, code)
							require.Equal(t, string(want), got)
						}
						return
					}
					for range 8 { // what is left of the plan
						_ = w.write(w.create(abi.LocationGPU, 0, 1), 0, "x")
						w.apply(w.create(abi.LocationGPU, 0, 10), []uint64{1, 3}, "xy")
					}
					w.holds(handle, 0, string(want))
					w.check()
				})
			}
		}
	}
}

func TestALostDeviceLeavesWhatTheHostHas(t *testing.T) {
	on(t, func(w *world) {
		handle, far := w.create(abi.LocationCPU, 0, 5000), w.create(abi.LocationCPU, 0, 5000)
		w.sync(handle, residency.ToDevice)
		w.sync(far, residency.ToDevice)
		w.pin(far)
		w.unpin(far) // all is newer there
		require.Equal(t, status.OK, w.write(handle, 7, "kept"))
		w.fail(sim.Copy, 0, sim.Lose)
		w.fail(sim.Launch, 0, sim.Lose)
		require.Equal(t, status.DeviceLost, status.CodeOf(syncOne(handle, residency.ToDevice)))
		w.holds(handle, 7, "kept")
		require.Equal(t, status.OK, w.write(handle, 11, "!"))
		require.NoError(t, page.Migrate(handle, abi.LocationCPU, 0))
		w.holds(handle, 7, "kept!")
		require.Equal(t, status.DeviceLost, status.CodeOf(page.Migrate(far, abi.LocationCPU, 0)))
		require.Equal(t, status.DeviceLost, status.CodeOf(syncOne(far, residency.ToHost)))
		_, code := w.read(far, 0, 1)
		require.Equal(t, status.DeviceLost, code)
		require.Zero(t, nativetest.Destroy(far))
	})
}

func TestPagesInTwoPlacesEndAndBecomeOthers(t *testing.T) {
	on(t, func(w *world) {
		for _, size := range []uint64{100, 5000, 3 << 20} {
			first, second, third := w.create(abi.LocationCPU, 0, size), w.create(abi.LocationGPU, 0, size),
				w.create(abi.LocationCPU, 0, size)
			w.sync(first, residency.ToDevice)
			w.sync(second, residency.ToHost)
			w.sync(third, both)
			for _, handle := range []uint64{first, second, third} {
				require.Equal(t, status.OK, w.write(handle, 3, "new"))
			}
			require.NoError(t, page.Resize(first, size+50))
			require.Len(t, mustCopies(t, first), 1, "on the device alone")
			w.holds(first, 3, "new")
			w.sync(first, residency.ToHost)
			require.NoError(t, page.Migrate(second, abi.LocationGPU, 1))
			w.holds(second, 3, "new")
			require.NoError(t, page.Migrate(third, abi.LocationDisk, 0))
			w.holds(third, 3, "new")
			require.NoError(t, page.DropHostCopy(first))
			require.Len(t, mustCopies(t, first), 1)
			w.holds(first, 3, "new")
			w.sync(second, residency.ToDevice)
			require.Equal(t, status.OK, w.write(second, 3, "old"))
			w.holds(second, 3, "old")
			w.sync(first, both)
			require.Zero(t, nativetest.Destroy(first))
			w.check()
		}
	})
}

// One percent of a page that changed in runs of 256 bytes moves, and not more.
func TestSyncMovesWhatChanged(t *testing.T) {
	on(t, func(w *world) {
		const size, run = 16 << 20, 256
		handle := w.create(abi.LocationCPU, 0, size)
		w.sync(handle, residency.ToDevice)
		before := w.moved()
		random, changed := rand.New(rand.NewPCG(1, 2)), make(map[uint64]bool)
		for range size / 100 / run {
			offset := random.Uint64N(size - run)
			require.Equal(t, status.OK, w.write(handle, offset, string(bytes.Repeat([]byte{1}, run))))
			for granule := offset / 64; granule <= (offset+run-1)/64; granule++ {
				changed[granule] = true
			}
		}
		w.sync(handle, residency.ToDevice)
		after := w.moved()
		require.EqualValues(t, 64*len(changed), after.ToDevice-before.ToDevice)
		t.Logf("%d ranges, %d bytes moved, %d changed", after.RangesToDevice-before.RangesToDevice,
			after.ToDevice-before.ToDevice, size/100/run*run)
	})
}

// hostCopy is the host's copy of a page, pinned to write.
func (w *world) hostCopy(handle uint64) []byte {
	w.Helper()
	address, err := page.PinHostCopy(handle, true)
	require.NoError(w, err)
	return native.Memory(address, 5000)
}

// onDevice writes on the device as a holder of its address does.
func (w *world) onDevice(handle, offset uint64, content string, meanwhile func()) {
	w.Helper()
	address, code := nativetest.PinPage(handle, true)
	require.Zero(w, code)
	meanwhile()
	require.NoError(w, page.Use(w.context, func(c *page.Context) error {
		return c.Residency().Devices().Write(0, address+uintptr(offset), []byte(content))
	}))
	w.unpin(handle)
}

func TestWritesOnBothSides(t *testing.T) {
	on(t, func(w *world) {
		handle := w.create(abi.LocationGPU, 0, 5000)
		version := func() (version uint64) {
			require.NoError(t, page.Read(handle, func(p *page.Page) error {
				version = p.Record.Version
				return nil
			}))
			return version
		}
		before := version()
		_, err := page.PinHostCopy(handle, true)
		require.Equal(t, status.InvalidState, status.CodeOf(err), "it is in one place")
		require.Equal(t, before, version(), "a refused pin is no change")
		w.sync(handle, residency.ToHost)
		host := w.hostCopy(handle)
		w.onDevice(handle, 1000, "device", func() { copy(host[100:], "host") })
		w.sync(handle, both)
		require.Equal(t, "device", string(host[1000:1006]), "they wrote in different ranges")
		w.holds(handle, 100, "host")
		require.Equal(t, "host", w.onTheDevice(handle)[100:104])

		w.onDevice(handle, 210, "DEVICE", func() { copy(host[200:], "HOST") })
		for range 2 {
			err = syncOne(handle, both)
			require.Equal(t, status.Mismatch, status.CodeOf(err))
			require.ErrorContains(t, err, "same 1 ranges of 64 bytes, the first at offset 192")
			_, code := w.read(handle, 0, 1)
			require.Equal(t, status.Mismatch, code, "nothing says which it is")
		}
		require.Equal(t, "HOST", string(host[200:204]), "nothing is overwritten")
		require.Equal(t, make([]byte, 6), host[210:216])
		require.Equal(t, status.Mismatch, status.CodeOf(page.DropHostCopy(handle)))
		require.Equal(t, status.Busy, status.CodeOf(page.Migrate(handle, abi.LocationCPU, 0)))
		w.sync(handle, both|residency.DeviceWins)
		require.Equal(t, "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00DEVICE", string(host[200:216]))
		w.onDevice(handle, 300, "two", func() { copy(host[300:], "one") })
		w.sync(handle, residency.ToDevice|residency.HostWins)
		w.holds(handle, 300, "one")
		require.Equal(t, "one", w.onTheDevice(handle)[300:303])
		w.onDevice(handle, 400, "same", func() { copy(host[400:], "same") })
		copy(host[600:], "earlier")
		w.onDevice(handle, 602, "later", func() {}) // who gets the device's address has what the host had before
		w.sync(handle, both)
		require.Equal(t, status.OK, w.write(handle, 500, "a call"), "calls go to the pinned copy")
		require.Equal(t, "a call", string(host[500:506]))
		require.Equal(t, status.Busy, status.CodeOf(page.DropHostCopy(handle)))
		require.NoError(t, page.UnpinHostCopy(handle, true))
		require.Equal(t, status.InvalidState, status.CodeOf(page.UnpinHostCopy(handle, true)))
		require.NoError(t, page.Migrate(handle, abi.LocationCPU, 0))
		w.holds(handle, 400, "same")
		w.holds(handle, 600, "ealater")
		w.holds(handle, 500, "a call")
	})
}

func TestOnlyWhatAHolderOfTheHostCopyHasChangedMoves(t *testing.T) {
	on(t, func(w *world) {
		handle := w.create(abi.LocationCPU, 0, 5000)
		w.sync(handle, residency.ToDevice)
		host := w.hostCopy(handle)
		copy(host[640:], "raw")
		require.Equal(t, [2]uint64{0, 64}, w.newer(handle))
		w.sync(handle, both)
		copy(host[4096:], "again")
		require.NoError(t, page.UnpinHostCopy(handle, true))
		w.sync(handle, both)
		require.EqualValues(t, 5000+128, w.moved().ToDevice)
		require.Zero(t, w.moved().ToHost)
		got := w.onTheDevice(handle)
		require.Equal(t, "raw", got[640:643])
		require.Equal(t, "again", got[4096:4101])
	})
}

func TestPagesWaitForTheirSync(t *testing.T) {
	on(t, func(w *world) {
		var pages []uint64
		for i := range 20 {
			pages = append(pages, w.create(abi.LocationCPU, 0, 5000))
			require.Equal(t, status.OK, w.write(pages[i], 0, "content"))
		}
		bad, err := page.SyncLater(append(slices.Clone(pages), 1<<60|99), residency.ToDevice, 0)
		require.Error(t, err)
		require.Equal(t, 20, bad)
		_, err = page.SyncLater(append(pages, pages...), residency.ToDevice, 0)
		require.NoError(t, err)
		require.Zero(t, nativetest.Destroy(pages[3]))
		require.NoError(t, page.Resize(pages[4], 6000))
		drain := func() (synced uint64, err error) {
			return synced, page.Use(w.context, func(c *page.Context) error {
				synced, err = c.Drain(nil)
				return err
			})
		}
		stats := func() (s page.SyncStats) {
			require.NoError(t, page.Use(w.context, func(c *page.Context) error {
				s = c.SyncStats()
				return nil
			}))
			return s
		}
		require.EqualValues(t, 20, stats().Queued)
		w.fail(sim.Launch, 0, sim.Fail)
		synced, err := drain()
		require.Equal(t, status.Device, status.CodeOf(err))
		require.EqualValues(t, 19-synced, stats().Queued, "what failed waits on, what has ended does not")
		for range 3 {
			_, err = drain()
		}
		require.NoError(t, err)
		require.Equal(t, page.SyncStats{MovedStats: w.moved(), Pages: 19, Bytes: 19*5000 + 1000}, stats())
		w.holds(pages[4], 0, "content")
		extra, pinned := w.create(abi.LocationCPU, 0, 100), w.create(abi.LocationCPU, 0, 100)
		_, err = page.SyncLater([]uint64{extra, pinned}, residency.ToDevice, 0)
		require.NoError(t, err)
		require.Zero(t, nativetest.Destroy(extra))
		w.pin(pinned)
		_, err = drain()
		require.Equal(t, status.Busy, status.CodeOf(err), "the page before it that has ended is no failure")
		w.unpin(pinned)
		require.Zero(t, nativetest.Destroy(pinned))
		_, err = drain()
		require.NoError(t, err)
		cursor, found, listed := uint64(0), make([]uint64, 4), []uint64(nil)
		require.NoError(t, page.Use(w.context, func(c *page.Context) error {
			for n := c.DevicePages(0, &cursor, found); n > 0; n = c.DevicePages(0, &cursor, found) {
				listed = append(listed, found[:n]...)
			}
			return nil
		}))
		require.ElementsMatch(t, append(slices.Clone(pages[:3]), pages[4:]...), listed)
		id, err := idOf(pages[0])
		require.NoError(t, err)
		require.Equal(t, status.OK, w.write(pages[0], 0, "CONTENT"))
		require.NoError(t, page.Use(w.context, func(c *page.Context) error {
			synced, err = c.Prefetch([]uint64{12345, id}, 0, nil)
			return err
		}))
		require.EqualValues(t, 1, synced)
		require.Equal(t, [2]uint64{0, 0}, w.newer(pages[0]))
	})
}

func idOf(handle uint64) (id uint64, err error) {
	return id, page.Read(handle, func(p *page.Page) error {
		id = p.ID()
		return nil
	})
}

// Threads change and read pages of their own, one of them ends now and then, while others sync all of them, list them and count.
func TestThreadsBesideSyncs(t *testing.T) {
	on(t, func(w *world) {
		const owners, others = 4, 3
		var handles [owners]atomic.Uint64
		for i := range handles {
			handles[i].Store(w.create(abi.LocationCPU, 0, 5000))
		}
		var over atomic.Bool
		done := make(chan error, owners+others)
		thread := func(work func(random *rand.Rand) error, seed uint64) {
			go func() {
				runtime.LockOSThread()
				defer runtime.UnlockOSThread()
				done <- work(rand.New(rand.NewPCG(seed, 1)))
			}()
		}
		for i := range owners {
			thread(func(random *rand.Rand) error {
				content, got := make([]byte, 5000), make([]byte, 5000)
				for range 300 {
					handle := handles[i].Load()
					offset, length := random.IntN(4000), random.IntN(1000)
					for at := range length {
						content[offset+at] = byte(random.IntN(256))
					}
					if code := nativetest.WritePage(handle, uint64(offset), content[offset:offset+length]); code != 0 {
						return status.Errorf(status.Code(code), "write")
					}
					if code := nativetest.ReadPage(handle, 0, got); code != 0 || !bytes.Equal(got, content) {
						return status.Errorf(status.Internal, "thread %d reads other bytes, code %d", i, code)
					}
					if random.IntN(20) == 0 {
						nativetest.Destroy(handle)
						clear(content)
						err := page.Use(w.context, func(c *page.Context) error {
							next, err := c.Create(5000, page.CreateOptions{Location: abi.LocationCPU, NUMANode: -1})
							handles[i].Store(next)
							return err
						})
						if err != nil {
							return err
						}
					}
				}
				return nil
			}, uint64(i))
		}
		for i := range others {
			thread(func(random *rand.Rand) error {
				for !over.Load() {
					var all []uint64
					for at := range handles {
						all = append(all, handles[at].Load())
					}
					var err error
					switch random.IntN(4) {
					case 0, 1:
						_, err = page.SyncMany(all, residency.Direction(1+random.IntN(3)), int32(random.IntN(2)), nil, nil)
					case 2:
						_, _ = page.SyncLater(all, both, 0)
						err = page.Use(w.context, func(c *page.Context) error {
							_, err := c.Drain(nil)
							return err
						})
					default:
						err = page.Use(w.context, func(c *page.Context) error {
							cursor, found := uint64(0), make([]uint64, 2)
							for c.DevicePages(0, &cursor, found) > 0 {
							}
							c.SyncStats()
							return nil
						})
						if random.IntN(2) == 0 {
							_ = page.Migrate(all[0], abi.LocationCPU, 0)
						}
					}
					if code := status.CodeOf(err); code != status.OK && code != status.StaleHandle {
						return err
					}
				}
				return nil
			}, uint64(100+i))
		}
		for range owners {
			if err := <-done; err != nil {
				over.Store(true)
				require.NoError(t, err)
			}
		}
		over.Store(true)
		for range others {
			require.NoError(t, <-done)
		}
	})
}

// What a real device is asked for once; a simulated one answers at random, and in any case within bounds.
func TestTheThresholdIsMeasured(t *testing.T) {
	on(t, func(w *world) {
		w.sync(w.create(abi.LocationCPU, 0, 5000), residency.ToDevice)
		require.NoError(t, page.Use(w.context, func(c *page.Context) error {
			d, err := c.Residency().Devices().(*context).device(0)
			require.NoError(t, err)
			l, err := d.take()
			require.NoError(t, err)
			defer d.give(l)
			threshold, err := d.measure(l)
			require.NoError(t, err)
			require.GreaterOrEqual(t, threshold, uint64(leastThreshold))
			require.LessOrEqual(t, threshold, uint64(mostThreshold*2))
			require.Zero(t, threshold&(threshold-1))
			w.fail(sim.Launch, 0, sim.Fail)
			_, err = d.measure(l)
			require.Equal(t, status.Device, status.CodeOf(err))
			return nil
		}))
	})
}

// A batch of pages that lie in any order goes to the device and back in groups, a call of the driver fails in one of the steps,
// and what is said of each page is so: what is in step has arrived, and the next sync moves the others.
func TestAStepOfManyFails(t *testing.T) {
	const count = 400
	for _, call := range []sim.Call{sim.Copy, sim.Launch} {
		for after := range 8 {
			on(t, func(w *world) {
				pages, codes := make([]uint64, count), make([]int32, count)
				for i := range pages {
					pages[i] = w.create([]int32{abi.LocationCPU, abi.LocationPinned}[after%2], 0, 5000)
				}
				_, err := page.SyncMany(pages, residency.ToDevice, 0, nil, nil)
				require.NoError(t, err)
				rand.New(rand.NewPCG(1, uint64(after))).Shuffle(count, func(i, j int) { pages[i], pages[j] = pages[j], pages[i] })
				content := func(i int) string { return string([]byte{byte(i), byte(i >> 8), 'c'}) }
				for i, handle := range pages {
					require.Equal(t, status.OK, w.write(handle, 128, content(i)))
					if call == sim.Copy {
						require.Equal(t, status.OK, w.write(handle, 192, string(make([]byte, 4800))))
					}
				}
				w.fail(call, after, sim.Fail)
				for range 2 {
					bad, err := page.SyncMany(pages, residency.ToDevice, 0, codes, nil)
					for i, code := range codes {
						newer := w.newer(pages[i])[1]
						require.Equal(t, code != 0, newer > 0, "page %d has code %d, %d bytes are newer", i, code, newer)
						require.True(t, code == 0 || bad <= i)
					}
					require.Equal(t, bad < count, err != nil)
				}
				for range 8 { // what is left of the plan
					_ = w.write(w.create(abi.LocationGPU, 0, 1), 0, "x")
					w.apply(w.create(abi.LocationGPU, 0, 10), []uint64{1, 3}, "xy")
				}
				_, err = page.SyncMany(pages, residency.ToDevice, 0, nil, nil)
				require.NoError(t, err)
				for i, handle := range pages {
					require.Equal(t, content(i), w.onTheDevice(handle)[128:131])
				}
			})
		}
	}
}

// While steps are on their way, small ranges of the groups behind come together: a thousand pages are a few steps, not one for
// each group.
func TestSmallRangesComeTogether(t *testing.T) {
	const count = 1000
	helped(t, 0)
	onDevices(t, sim.Options{Latency: 20 * time.Millisecond, Unchecked: true, Trace: true}, func(w *world) {
		var pages []uint64
		for range count {
			pages = append(pages, w.create(abi.LocationCPU, 0, 5000))
		}
		_, err := page.SyncMany(pages, residency.ToDevice, 0, nil, nil)
		require.NoError(t, err)
		slices.Reverse(pages)
		for i, handle := range pages {
			require.Equal(t, status.OK, w.write(handle, 128, string([]byte{byte(i), byte(i >> 8)})))
		}
		before := len(w.sim.Timeline())
		_, err = page.SyncMany(pages, residency.ToDevice, 0, nil, nil)
		require.NoError(t, err)
		require.LessOrEqual(t, len(w.sim.Timeline())-before, 6)
		for i := 0; i < count; i += 37 {
			require.Equal(t, [2]uint64{}, w.newer(pages[i]), "page %d", i)
			require.Equal(t, string([]byte{byte(i), byte(i >> 8)}), w.onTheDevice(pages[i])[128:130])
		}
	})
}

// Threads sync pages of which both sides may write every other one: so each sync reads some from the device while others are on
// their way. Nobody keeps what another one waits for while it waits itself.
func TestSyncsThatReadPagesBesideOthers(t *testing.T) {
	const threads, count, rounds = 6, 150, 4
	over := time.AfterFunc(20*time.Second, func() { panic("syncs wait for each other") }) // a failure would wait, too
	defer over.Stop()
	onDevices(t, sim.Options{Latency: 50 * time.Microsecond, Unchecked: true}, func(w *world) {
		done := make(chan error, threads)
		for thread := range threads {
			var pages []uint64
			var copies [][]byte
			for range count {
				pages = append(pages, w.create(abi.LocationCPU, 0, 5000))
			}
			_, err := page.SyncMany(pages, residency.ToDevice, 0, nil, nil)
			require.NoError(t, err)
			for i := 1; i < count; i += 2 {
				copies = append(copies, w.hostCopy(pages[i]))
				w.pin(pages[i])
			}
			go func() {
				runtime.LockOSThread()
				defer runtime.UnlockOSThread()
				for round := range rounds {
					for i := range copies {
						copies[i][100+i] = byte(1 + round + thread)
						if code := nativetest.WritePage(pages[2*i], 0, copies[i]); code != 0 {
							done <- status.Errorf(status.Code(code), "thread %d cannot write page %d", thread, 2*i)
							return
						}
					}
					if _, err := page.SyncMany(pages, residency.ToDevice, 0, nil, nil); err != nil {
						done <- err
						return
					}
				}
				for i := 1; i < count; i += 2 {
					handle := pages[i]
					if nativetest.UnpinPage(handle, true) != 0 || page.UnpinHostCopy(handle, true) != nil {
						done <- status.Errorf(status.Internal, "thread %d cannot unpin page %d", thread, i)
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

// A sync of more pages than it may lock at a time, which are small, brings all of them both ways.
func TestMorePagesThanASyncLocks(t *testing.T) {
	const count = 10_000
	helped(t, 0)
	onDevices(t, sim.Options{Unchecked: true}, func(w *world) {
		var pages []uint64
		for range count {
			pages = append(pages, w.create(abi.LocationCPU, 0, 64))
		}
		for round := range byte(2) {
			for i, handle := range pages {
				require.Equal(t, status.OK, w.write(handle, 0, string([]byte{byte(i), byte(i >> 8), round})))
			}
			codes := make([]int32, count)
			_, err := page.SyncMany(pages, residency.ToDevice|residency.ToHost, 0, codes, nil)
			require.NoError(t, err)
			require.Equal(t, make([]int32, count), codes)
			for i, handle := range pages {
				require.Equal(t, [2]uint64{}, w.newer(handle))
				if i%97 == 0 {
					require.Equal(t, string([]byte{byte(i), byte(i >> 8), round}), w.onTheDevice(handle)[:3])
				}
			}
		}
	})
}
