package pages

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"libmmsb/core/abi"
	"libmmsb/core/page"
	"libmmsb/core/residency"
	"libmmsb/core/status"
	"libmmsb/gpu/driver"
	"libmmsb/gpu/sim"
	"libmmsb/native/nativetest"
)

// hints are what the driver knows of the ends of a page's memory, which must be the same.
func (w *world) hints(handle uint64) sim.Hints {
	w.Helper()
	var ends [2]sim.Hints
	require.NoError(w, page.Read(handle, func(p *page.Page) (err error) {
		bytes := p.Bytes()
		for i, part := range [][]byte{bytes, bytes[len(bytes)-1:]} {
			if ends[i], err = w.sim.HintsAt(addressOf(part)); err != nil {
				return err
			}
		}
		return nil
	}))
	require.Equal(w, ends[0], ends[1])
	return ends[0]
}

func syncOn(handle uint64, direction residency.Direction, device int32) error {
	_, err := page.SyncMany([]uint64{handle}, direction, device, nil, nil)
	return err
}

func TestASyncOfManagedMemoryPrefetchesIt(t *testing.T) {
	on(t, func(w *world) {
		handle := w.create(abi.LocationUnified, 0, 300_000)
		content := strings.Repeat("unified ", 30_000)
		require.Equal(w, status.OK, w.write(handle, 0, content))
		at := func(place int) {
			w.Helper()
			require.Equal(w, place, w.hints(handle).On)
			w.holds(handle, 0, content)
		}
		at(sim.OnHost)
		require.NoError(w, syncOn(handle, both, 0)) // there is one memory
		at(sim.OnHost)
		require.NoError(w, syncOn(handle, residency.ToDevice, 0))
		at(0)
		require.NoError(w, syncOn(handle, both, 0)) // there is one memory
		at(0)
		require.NoError(w, syncOn(handle, residency.ToDevice, 1))
		at(1)
		require.NoError(w, syncOn(handle, residency.ToHost, 0))
		at(sim.OnHost)
		require.Equal(w, status.NoDevice, status.CodeOf(syncOn(handle, residency.ToDevice, 7)))
		at(sim.OnHost)

		// many at a time, of both kinds, by their ids
		other, onHost := w.create(abi.LocationUnified, 1, 5000), w.create(abi.LocationCPU, 0, 5000)
		var ids []uint64
		for _, of := range []uint64{handle, other, onHost} {
			id, err := idOf(of)
			require.NoError(w, err)
			ids = append(ids, id)
		}
		require.NoError(w, page.Use(w.context, func(c *page.Context) error {
			synced, err := c.Prefetch(append(ids, 1<<40), 1, nil)
			require.EqualValues(w, 3, synced)
			return err
		}))
		at(1)
		require.Equal(w, 1, w.hints(other).On)
		require.True(w, residency.IsOn(onHost, 1))
		_, err := page.SyncMany([]uint64{handle, other, onHost}, residency.ToHost, 0, nil, nil)
		require.NoError(w, err)
		at(sim.OnHost)
		require.Equal(w, sim.OnHost, w.hints(other).On)
		for _, effect := range []sim.Effect{sim.Fail, sim.Lose} {
			w.fail(sim.Prefetch, 0, effect)
			require.Error(w, syncOn(handle, residency.ToDevice, 0))
			at(sim.OnHost)
		}
		require.Equal(w, status.DeviceLost, status.CodeOf(syncOn(handle, residency.ToDevice, 0)))
		require.NoError(w, syncOn(handle, residency.ToDevice, 1), "the other device works")
		at(1)
	})
}

func TestAdviceStaysWithThePage(t *testing.T) {
	on(t, func(w *world) {
		handle := w.create(abi.LocationUnified, 0, 20_000)
		require.Equal(w, status.OK, w.write(handle, 0, "here"))
		tells := func(of uint64, want residency.Advice) {
			w.Helper()
			got, err := page.AdviceOf(of)
			require.NoError(w, err)
			require.Equal(w, want, got)
			hints := w.hints(of)
			require.Equal(w, want, residency.Advice{Preferred: int32(hints.Preferred), ReadMostly: hints.ReadMostly})
		}
		tells(handle, residency.NoAdvice)
		for _, advice := range []residency.Advice{{Preferred: 1, ReadMostly: true}, {Preferred: abi.DeviceHost},
			residency.NoAdvice, {Preferred: 0, ReadMostly: true}} {
			require.NoError(w, page.Advise(handle, advice))
			tells(handle, advice)
		}
		advice := residency.Advice{Preferred: 0, ReadMostly: true}
		for _, size := range []uint64{100_000, 30_000_000, 10} {
			require.NoError(w, page.Resize(handle, size))
			tells(handle, advice)
			w.holds(handle, 0, "here")
		}
		clone, err := page.Clone(handle, 0)
		require.NoError(w, err)
		tells(clone, residency.NoAdvice)

		require.Equal(w, status.NoDevice, status.CodeOf(page.Advise(handle, residency.Advice{Preferred: 9})))
		for after := range 2 { // the second call comes when the first has told one half
			w.fail(sim.Advise, after, sim.Fail)
			require.Error(w, page.Advise(handle, residency.Advice{Preferred: abi.DeviceHost}))
			tells(handle, advice)
		}

		// what a page had says nothing of the next one in its memory
		require.NoError(w, page.Migrate(handle, abi.LocationCPU, 0))
		_, err = page.AdviceOf(handle)
		require.Equal(w, status.Unsupported, status.CodeOf(err))
		require.Equal(w, status.Unsupported, status.CodeOf(page.Advise(handle, advice)))
		next := w.create(abi.LocationUnified, 0, 10)
		tells(next, residency.NoAdvice)
		require.NoError(w, page.Migrate(handle, abi.LocationUnified, 1))
		tells(handle, residency.NoAdvice)
		require.NoError(w, page.Advise(next, advice))
		require.Zero(w, nativetest.Destroy(next))
		tells(w.create(abi.LocationUnified, 0, 10), residency.NoAdvice)
		require.Equal(w, status.StaleHandle, status.CodeOf(page.Advise(next, advice)))
	})
}

func TestManagedMemoryWithoutHints(t *testing.T) {
	onDevices(t, sim.Options{NoHints: true}, func(w *world) {
		handle := w.create(abi.LocationUnified, 0, 5000)
		require.NoError(w, syncOn(handle, residency.ToDevice, 0), "devices reach it where it is")
		require.Equal(w, status.Unsupported, status.CodeOf(page.Advise(handle, residency.Advice{Preferred: 0})))
		got, err := page.AdviceOf(handle)
		require.NoError(w, err)
		require.Equal(w, residency.NoAdvice, got)
	})
}

func TestPinnedMemoryTakesNoHints(t *testing.T) {
	on(t, func(w *world) {
		handle := w.create(abi.LocationPinned, 0, 5000)
		require.Equal(w, status.Unsupported, status.CodeOf(page.Advise(handle, residency.NoAdvice)))
		require.NoError(w, syncOn(handle, residency.ToHost, 0))
		require.NoError(w, page.Read(handle, func(p *page.Page) error {
			_, err := w.sim.HintsAt(driver.Address(p.Record.Locator))
			require.Error(w, err)
			return nil
		}))
	})
}
