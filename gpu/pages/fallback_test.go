package pages

import (
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"libmmsb/core/abi"
	"libmmsb/core/log"
	"libmmsb/core/page"
	"libmmsb/core/persist"
	"libmmsb/core/residency"
	"libmmsb/core/status"
	"libmmsb/gpu/devices"
	"libmmsb/gpu/sim"
	"libmmsb/native/nativetest"
)

// lose loses device 0 in the next copy or kernel, which a call of the test's own meets.
func (w *world) lose() {
	w.Helper()
	victim := w.create(abi.LocationGPU, 0, 100)
	w.fail(sim.Copy, 0, sim.Lose)
	require.Equal(w, status.DeviceLost, w.write(victim, 0, "x"))
	require.Zero(w, nativetest.Destroy(victim))
}

// lost is what LostPages says, by page.
func (w *world) lost() map[uint64]page.LostPage {
	w.Helper()
	of := make(map[uint64]page.LostPage)
	require.NoError(w, page.Use(w.context, func(c *page.Context) error {
		for _, l := range c.LostPages() {
			of[l.Page] = l
		}
		return nil
	}))
	return of
}

func (w *world) at(handle uint64) (at residency.Placement) {
	w.Helper()
	require.NoError(w, page.Read(handle, func(p *page.Page) error {
		at = p.Placement()
		return nil
	}))
	return at
}

// eventually waits for what runs beside the calls.
func (w *world) eventually(what func() bool) {
	w.Helper()
	require.Eventually(w, what, time.Minute, time.Millisecond)
}

var (
	onHost  = residency.Placement{Location: abi.LocationCPU}
	onGPU   = residency.Placement{Location: abi.LocationGPU}
	standIn = residency.Placement{Location: abi.LocationGPU, Device: abi.DeviceStandIn}
)

// paired is a page in two places with content on both sides.
func (w *world) paired(content string) uint64 {
	handle := w.create(abi.LocationCPU, 0, 5000)
	require.Equal(w, status.OK, w.write(handle, 100, content))
	w.sync(handle, residency.ToDevice)
	return handle
}

func TestPagesOfALostDeviceGoOn(t *testing.T) {
	for fallback, where := range map[int32]residency.Placement{abi.FallbackHost: onHost, abi.FallbackSimulate: standIn} {
		falling(t, fallback, func(w *world) {
			equal, newer, partly := w.paired("equal"), w.paired("newer"), w.paired("partly")
			require.Equal(t, status.OK, w.write(newer, 4000, "here"))
			w.pin(partly) // all counts as newer there
			w.unpin(partly)
			far, other, pinned := w.create(abi.LocationGPU, 0, 300), w.create(abi.LocationGPU, 1, 300), w.paired("pinned")
			w.pin(pinned) // its holder may write there
			w.lose()
			w.eventually(func() bool { return w.at(equal) == where && w.at(newer) == where })
			w.holds(equal, 100, "equal")
			w.holds(newer, 100, "newer")
			w.holds(newer, 4000, "here")
			lost := w.lost()
			require.Len(t, lost, 3)
			require.Equal(t, uint64(5000), lost[partly].Lost)
			require.Equal(t, uint64(5000), lost[pinned].Lost)
			require.Equal(t, uint64(300), lost[far].Lost)
			require.Equal(t, onGPU, w.at(partly))
			_, code := w.read(far, 0, 1)
			require.Equal(t, status.DeviceLost, code)

			// The program goes on as before.
			require.Equal(t, status.OK, w.write(newer, 10, "again"))
			w.sync(newer, residency.ToDevice)
			w.sync(newer, residency.ToHost)
			w.holds(newer, 10, "again")
			require.Equal(t, where, w.at(newer))
			fresh := w.create(abi.LocationGPU, 0, 1000)
			require.Equal(t, where, w.at(fresh))
			require.Equal(t, status.OK, w.apply(fresh, []uint64{3, 1}, "ab"))
			w.holds(fresh, 0, "\x00b\x00a")
			require.NoError(t, page.Migrate(fresh, abi.LocationCPU, 0))
			require.NoError(t, page.Migrate(fresh, abi.LocationGPU, 0))
			require.Equal(t, where, w.at(fresh))
			require.NoError(t, page.Migrate(fresh, abi.LocationGPU, 1))
			w.holds(fresh, 0, "\x00b\x00a")
			require.Equal(t, residency.Placement{Location: abi.LocationGPU, Device: 1}, w.at(other))
			require.Zero(t, nativetest.Destroy(far))
			require.Zero(t, nativetest.Destroy(partly))
			w.unpin(pinned)
			require.Zero(t, nativetest.Destroy(pinned))
			require.Empty(t, w.lost())
		})
	}
}

// The line of the log says what became of the pages.
func TestTheLogNamesWhatIsLost(t *testing.T) {
	require.NoError(t, log.Configure(log.Warning, -1))
	falling(t, abi.FallbackHost, func(w *world) {
		_ = w.paired("goes on")
		for range 6 {
			_ = w.create(abi.LocationGPU, 0, 300)
		}
		held := w.paired("held")
		_, err := page.PinHostCopy(held, false)
		require.NoError(t, err)
		buffer := make([]byte, 1<<20)
		_, _, err = log.Read(buffer) // lines of other tests
		require.NoError(t, err)
		w.lose()
		var line string
		w.eventually(func() bool {
			n, _, err := log.Read(buffer)
			require.NoError(t, err)
			lines := strings.Split(string(buffer[:n]), "\n")
			i := slices.IndexFunc(lines, func(l string) bool { return strings.Contains(l, "device 0 is lost: ") })
			if i >= 0 {
				line = lines[i]
			}
			return i >= 0
		})
		require.Contains(t, line, "1 pages of 5000 bytes go on, 6 have lost 1800 bytes, 1 have lost nothing and stay")
		require.Contains(t, line, "300 of 300, …")
		require.Equal(t, uint64(0), w.lost()[held].Lost)
		require.NoError(t, page.UnpinHostCopy(held, false))
		require.NotContains(t, w.lost(), held)
		require.Equal(t, onHost, w.at(held))
		w.holds(held, 100, "held")
	})
}

// Without a fallback pages stay where they are, and a program moves those that have lost nothing.
func TestWithoutAFallbackNothingMoves(t *testing.T) {
	on(t, func(w *world) {
		handle, far := w.paired("kept"), w.create(abi.LocationGPU, 0, 300)
		w.lose()
		require.Equal(t, map[uint64]page.LostPage{
			handle: {Page: handle, ID: w.lost()[handle].ID, Size: 5000},
			far:    {Page: far, ID: w.lost()[far].ID, Size: 300, Lost: 300},
		}, w.lost())
		require.Equal(t, onGPU, w.at(handle))
		require.Equal(t, status.DeviceLost, status.CodeOf(page.Use(w.context, func(c *page.Context) error {
			_, err := c.Create(100, page.CreateOptions{Location: abi.LocationGPU, NUMANode: -1})
			return err
		})))
		require.NoError(t, page.Migrate(handle, abi.LocationCPU, 0))
		w.holds(handle, 100, "kept")
		require.Len(t, w.lost(), 1)
	})
}

// A sync that has met the loss leaves its pages where they go on, whatever was on its way.
func TestASyncThatMeetsTheLossLetsItsPagesGoOn(t *testing.T) {
	for _, call := range []sim.Call{sim.Copy, sim.Launch} {
		for after := range 6 {
			falling(t, abi.FallbackHost, func(w *world) {
				var handles []uint64
				for i := range 3 {
					handles = append(handles, w.paired(strings.Repeat(string(rune('a'+i)), 1000)))
				}
				w.fail(call, after, sim.Lose)
				met := false
				for round := range 5 {
					for _, handle := range handles {
						require.Equal(t, status.OK, w.write(handle, uint64(100+300*round), strings.Repeat("z", 200)))
					}
					_, err := page.SyncMany(handles, residency.ToDevice, 0, nil, nil)
					for _, handle := range handles {
						if err != nil {
							require.Equal(t, status.DeviceLost, status.CodeOf(err))
							require.Equal(t, onHost, w.at(handle))
							met = true
						}
						w.holds(handle, uint64(100+300*round), strings.Repeat("z", 200))
					}
					if err == nil && met {
						require.Equal(t, onHost, w.at(handles[0]))
					}
				}
				if !met { // what is left of the plan
					for range 8 {
						_ = w.write(w.create(abi.LocationGPU, 0, 1), 0, "x")
						_ = w.apply(w.create(abi.LocationGPU, 0, 10), []uint64{1, 3}, "xy")
					}
				}
			})
		}
	}
}

// What waits in a snapshot has lost nothing; what is lost comes back from one.
func TestPagesComeBackFromASnapshot(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state")
	var id uint64
	on(t, func(w *world) {
		far := w.create(abi.LocationGPU, 0, 5000)
		require.Equal(t, status.OK, w.write(far, 7, "saved"))
		require.NoError(t, page.Read(far, func(p *page.Page) error {
			id = p.ID()
			return nil
		}))
		err := persist.Save(w.context, persist.ToPath(path), persist.SaveOptions{}, nil)
		require.NoError(t, err)
	})
	for _, lazy := range []bool{true, false} {
		falling(t, abi.FallbackHost, func(w *world) {
			require.NoError(t, persist.Load(w.context, persist.FromPath(path), persist.LoadOptions{Lazy: lazy}, nil))
			loaded := uint64(0)
			require.NoError(t, page.Use(w.context, func(c *page.Context) (err error) {
				loaded, err = c.Lookup(id)
				return err
			}))
			w.lose()
			if !lazy {
				require.Equal(t, uint64(5000), w.lost()[loaded].Lost)
				require.NoError(t, persist.Load(w.context, persist.FromPath(path), persist.LoadOptions{IDs: []uint64{id}}, nil))
				require.NoError(t, page.Use(w.context, func(c *page.Context) (err error) {
					loaded, err = c.Lookup(id)
					return err
				}))
			}
			require.Empty(t, w.lost())
			require.Equal(t, onHost, w.at(loaded))
			w.holds(loaded, 7, "saved")
		})
	}
}

func TestSimulatedDevicesTakeThePlaceOfThoseThatAreNotThere(t *testing.T) {
	falling(t, abi.FallbackSimulate, func(w *world) {
		handle := w.create(abi.LocationGPU, 7, 100)
		require.Equal(t, residency.Placement{Location: abi.LocationGPU, Device: abi.DeviceStandIn + 7}, w.at(handle))
		require.Equal(t, status.OK, w.write(handle, 0, "x"))
		w.holds(handle, 0, "x")
		require.Equal(t, status.NoDevice, status.CodeOf(page.Migrate(handle, abi.LocationGPU, 64)))
		set, err := SetOf(w.context)
		require.NoError(t, err)
		shared, err := set.SharedHandle(abi.DeviceStandIn + 7)
		require.NoError(t, err)
		found, err := devices.FindRuntime(shared)
		require.NoError(t, err)
		require.Equal(t, 7, found.Device().Info().Ordinal)
		_, err = set.SharedHandle(abi.DeviceStandIn + 64)
		require.Equal(t, status.NoDevice, status.CodeOf(err))
	})
}

// Random programs of pages in two places lose their device at any call. Whatever a page says it has lost, it lost; all others
// have the bytes of a page that was never there, and a call that failed has changed nothing.
func TestLostInMidWork(t *testing.T) {
	for seed := range mostPrograms(40) {
		falling(t, []int32{abi.FallbackHost, abi.FallbackSimulate}[seed%2], func(w *world) {
			random := rand.New(rand.NewPCG(seed, 11))
			const count, size = 4, 3000
			var handles, models [count]uint64
			for i := range handles {
				handles[i], models[i] = w.create(abi.LocationCPU, 0, size), w.create(abi.LocationCPU, 0, size)
			}
			w.fail([]sim.Call{sim.Copy, sim.Launch}[random.IntN(2)], random.IntN(40), sim.Lose)
			for range 120 {
				i := random.IntN(count)
				offset := random.Uint64N(size - 100)
				content := strings.Repeat(string(rune('a'+random.IntN(26))), 1+random.IntN(100))
				code := status.OK
				switch random.IntN(6) {
				case 0, 1:
					if code = w.write(handles[i], offset, content); code == status.OK {
						require.Equal(w, status.OK, w.write(models[i], offset, content))
					}
				case 2:
					offsets := []uint64{offset, offset / 2, size - 1}
					if code = w.apply(handles[i], offsets, "xyz"); code == status.OK {
						require.Equal(w, status.OK, w.apply(models[i], offsets, "xyz"))
					}
				case 3:
					code = status.CodeOf(syncOne(handles[i], residency.ToDevice))
				case 4:
					code = status.CodeOf(syncOne(handles[i], residency.ToHost))
				case 5: // what changes now is newer on the device alone
					if _, pinned := nativetest.PinPage(handles[i], true); pinned == 0 {
						w.unpin(handles[i])
					}
				}
				require.Contains(w, []status.Code{status.OK, status.DeviceLost}, code)
			}
			for range 60 { // what is left of the plan
				_ = w.write(w.create(abi.LocationGPU, 0, 1), 0, "x")
				_ = w.apply(w.create(abi.LocationGPU, 0, 10), []uint64{1, 3}, "xy")
			}
			lost := w.lost()
			for i, handle := range handles {
				want, code := w.read(models[i], 0, size)
				require.Equal(w, status.OK, code)
				if _, named := lost[handle]; named {
					require.Positive(w, lost[handle].Lost)
					_, code := w.read(handle, 0, size)
					require.Equal(w, status.DeviceLost, code)
					continue
				}
				w.holds(handle, 0, want)
			}
		})
	}
}
