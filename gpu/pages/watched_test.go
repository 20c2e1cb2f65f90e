package pages

import (
	"encoding/binary"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"libmmsb/core/abi"
	"libmmsb/core/page"
	"libmmsb/core/persist"
	"libmmsb/core/status"
	"libmmsb/gpu/sim"
	"libmmsb/native/nativetest"
)

func (w *world) copies(handle uint64) int {
	w.Helper()
	copies, err := page.Copies(handle)
	require.NoError(w, err)
	return len(copies)
}

// A change that somebody watches moves the ranges that it has a part in, not the page.
func TestAWatchedChangeMovesWhatItChanges(t *testing.T) {
	on(t, func(w *world) {
		const size = 4 << 20
		handle := w.create(abi.LocationGPU, 0, size)
		content := strings.Repeat("x", 64)
		require.Equal(t, status.OK, w.write(handle, 0, strings.Repeat("0123456789abcdef", 1024)))
		w.watch()
		for i, change := range []func() status.Code{
			func() status.Code { return w.write(handle, 100, content) },
			func() status.Code { return w.write(handle, 64, content) },
			func() status.Code { return w.apply(handle, []uint64{size - 1, 3000, 5}, "abc") },
			func() status.Code {
				return status.Code(nativetest.ApplyRuns([]uint64{handle, handle}, []uint64{8192, 9000}, 3, []byte("defghi")))
			},
		} {
			before := w.moved().ToDevice + w.moved().ToHost
			require.Equal(t, status.OK, change())
			if i < 3 {
				require.LessOrEqual(t, w.moved().ToDevice+w.moved().ToHost-before, uint64(1024), i)
			}
			require.Equal(t, 1, w.copies(handle), "its copy has gone again")
		}
		w.holds(handle, 0, "01234c6789abcdef")
		w.holds(handle, 64, content[:36]+content)
		w.holds(handle, 2999, "7b9")
		w.holds(handle, size-1, "a")
		w.holds(handle, 8192, "def")
	})
}

// The device does not take a watched change: it stays on the host, and comes to the device with the next one.
func TestAWatchedChangeThatTheDeviceRefusesStaysOnTheHost(t *testing.T) {
	on(t, func(w *world) {
		handle := w.create(abi.LocationGPU, 0, 5000)
		require.Equal(t, status.OK, w.write(handle, 0, "0123456789"))
		w.watch()
		w.fail(sim.Copy, 0, sim.Fail)
		w.fail(sim.Launch, 0, sim.Fail)
		require.Equal(t, status.Device, w.write(handle, 3, "x"), "the range could not be brought")
		w.holds(handle, 0, "0123456789")
		require.Equal(t, status.OK, w.write(w.create(abi.LocationGPU, 0, 10), 0, "the others"))
		w.apply(w.create(abi.LocationGPU, 0, 10), []uint64{1, 3}, "xy")
		w.fail(sim.Launch, 1, sim.Fail)
		w.fail(sim.Copy, 1, sim.Fail)
		require.Equal(t, status.OK, w.write(handle, 3, "x"))
		for range 4 {
			w.apply(w.create(abi.LocationGPU, 0, 10), []uint64{1, 3}, "xy")
		}
		w.holds(handle, 0, "012x456789")
		require.Equal(t, status.OK, w.write(handle, 5, "y"))
		w.holds(handle, 0, "012x4y6789")
	})
}

// Random changes of pages on devices beside a journal, with calls of the driver that fail: a call that failed has changed
// nothing, and the journal has what the pages have.
func TestTheJournalHasWhatDevicesHave(t *testing.T) {
	for seed := range mostPrograms(25) {
		on(t, func(w *world) {
			random := rand.New(rand.NewPCG(seed, 13))
			const count, size = 3, 3000
			directory := filepath.Join(w.TempDir(), "journal")
			require.NoError(w, persist.OpenJournal(w.context, directory, persist.JournalOptions{IntervalMs: 10}, nil))
			var handles, models, ids [count]uint64
			for i := range handles {
				handles[i], models[i] = w.create(abi.LocationGPU, 0, size), w.create(abi.LocationCPU, 0, size)
				require.NoError(w, page.Read(handles[i], func(p *page.Page) error {
					ids[i] = p.ID()
					return nil
				}))
			}
			for range 60 {
				i := random.IntN(count)
				offset := random.Uint64N(size - 100)
				if random.IntN(3) == 0 {
					w.fail([]sim.Call{sim.Copy, sim.Launch}[random.IntN(2)], random.IntN(3), sim.Fail)
				}
				if random.IntN(2) == 0 {
					content := strings.Repeat(string(rune('a'+random.IntN(26))), 1+random.IntN(100))
					if w.write(handles[i], offset, content) == status.OK {
						require.Equal(w, status.OK, w.write(models[i], offset, content))
					}
				} else if offsets := []uint64{offset, offset / 2, size - 1}; w.apply(handles[i], offsets, "xyz") == status.OK {
					require.Equal(w, status.OK, w.apply(models[i], offsets, "xyz"))
				}
			}
			for range 60 { // what is left of the plan
				other := w.create(abi.LocationGPU, 0, 10)
				_ = w.apply(other, []uint64{1, 3}, "xy")
				_, _ = w.read(other, 0, 1)
			}
			require.NoError(w, persist.SyncJournal(w.context, nil))
			var want [count]string
			for i := range handles {
				content, code := w.read(models[i], 0, size)
				require.Equal(w, status.OK, code)
				w.holds(handles[i], 0, content)
				want[i] = content
			}
			on(t, func(w *world) {
				require.NoError(w, persist.Load(w.context, persist.FromPath(""), persist.LoadOptions{Journal: directory}, nil))
				for i, id := range ids {
					require.NoError(w, page.Use(w.context, func(c *page.Context) error {
						handle, err := c.Lookup(id)
						require.NoError(w, err)
						w.holds(handle, 0, want[i])
						return nil
					}))
				}
			})
		})
	}
}

// What a save has of pages on devices that change meanwhile is of one moment: both ends of a page have the same number.
func TestASaveOfPagesThatChangeOnDevicesIsOfOneMoment(t *testing.T) {
	const size = 600 << 10 // several chunks
	on(t, func(w *world) {
		path := filepath.Join(w.TempDir(), "state")
		handle := w.create(abi.LocationGPU, 0, size)
		id := uint64(0)
		require.NoError(t, page.Read(handle, func(p *page.Page) error {
			id = p.ID()
			return nil
		}))
		for round := range 6 {
			var done atomic.Bool
			saved := make(chan error)
			go func() {
				err := persist.Save(w.context, persist.ToPath(path), persist.SaveOptions{NotDurable: true}, nil)
				done.Store(true)
				saved <- err
			}()
			payload := make([]byte, 16)
			for number := uint64(1); !done.Load(); number++ {
				binary.LittleEndian.PutUint64(payload, number)
				binary.LittleEndian.PutUint64(payload[8:], number)
				var offsets []uint64
				for _, begin := range []uint64{10, size - 20} {
					for i := range uint64(8) {
						offsets = append(offsets, begin+i)
					}
				}
				require.Equal(t, status.OK, w.apply(handle, offsets, string(payload)), round)
			}
			require.NoError(t, <-saved)
			on(t, func(other *world) {
				require.NoError(t, persist.Load(other.context, persist.FromPath(path), persist.LoadOptions{}, nil))
				require.NoError(t, page.Use(other.context, func(c *page.Context) error {
					loaded, err := c.Lookup(id)
					require.NoError(t, err)
					head, code := other.read(loaded, 10, 8)
					require.Equal(t, status.OK, code)
					other.holds(loaded, size-20, head)
					return nil
				}))
			})
		}
	})
}

// A replay brings a page that its records change again and again once, not with each of them.
func TestAReplayDoesNotMoveAPageWithEachRecord(t *testing.T) {
	directory := filepath.Join(t.TempDir(), "journal")
	const records = 2000
	id := uint64(0)
	on(t, func(w *world) {
		require.NoError(t, persist.OpenJournal(w.context, directory, persist.JournalOptions{IntervalMs: 10}, nil))
		handle := w.create(abi.LocationGPU, 0, 5000)
		for i := range uint64(records) {
			require.Equal(t, status.OK, w.write(handle, i, "x"))
		}
		require.NoError(t, page.Read(handle, func(p *page.Page) error {
			id = p.ID()
			return nil
		}))
		require.NoError(t, persist.SyncJournal(w.context, nil))
	})
	const latency = 5 * time.Millisecond
	onDevices(t, sim.Options{Latency: latency}, func(w *world) {
		begin := time.Now()
		require.NoError(t, persist.Load(w.context, persist.FromPath(""), persist.LoadOptions{Journal: directory}, nil))
		require.Less(t, time.Since(begin), records*latency/2)
		require.NoError(t, page.Use(w.context, func(c *page.Context) error {
			handle, err := c.Lookup(id)
			require.NoError(t, err)
			w.holds(handle, 0, strings.Repeat("x", records)+"\x00")
			return nil
		}))
	})
}
