package pages

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"libmmsb/core/abi"
	"libmmsb/core/page"
	"libmmsb/core/residency"
	"libmmsb/core/status"
	"libmmsb/gpu/driver"
	gpu "libmmsb/gpu/runtime"
	"libmmsb/gpu/sim"
	"libmmsb/native/nativetest"
)

// slow are devices on which work takes its time, beside the program.
var slow = sim.Options{Latency: 2 * time.Millisecond}

// streams are streams of the shared runtime of device 0.
func (w *world) streams(count int) (list []*gpu.Stream) {
	w.Helper()
	set, err := SetOf(w.context)
	require.NoError(w, err)
	shared, err := set.Shared(0)
	require.NoError(w, err)
	for range count {
		handle, err := shared.AcquireStream(0)
		require.NoError(w, err)
		s, err := gpu.FindStream(handle)
		require.NoError(w, err)
		list = append(list, s)
	}
	return list
}

// blockOf is the block of a page.
func (w *world) blockOf(handle uint64) gpu.BlockInfo {
	w.Helper()
	block, err := page.BlockOf(handle)
	require.NoError(w, err)
	info, err := gpu.FindBlock(block)
	require.NoError(w, err)
	return info
}

func (w *world) begin(s *gpu.Stream, page uint64, access gpu.Access) (use uint64) {
	w.Helper()
	use, _, err := BeginUse(s, []gpu.Use{{Block: page, Access: access}})
	require.NoError(w, err)
	return use
}

func (w *world) pins(handle uint64) (read, write uint16) {
	require.NoError(w, page.Read(handle, func(p *page.Page) error {
		read, write = p.Record.ReadPins, p.Record.WritePins
		return nil
	}))
	return read, write
}

// What a program's own work leaves in a page is what the next call finds, and what a call has left is what the work finds.
func TestWorkOnPagesIsInOrder(t *testing.T) {
	onDevices(t, slow, func(w *world) {
		s := w.streams(2)
		first, second := w.create(abi.LocationGPU, 0, 5000), w.create(abi.LocationGPU, 0, 5000)
		require.Equal(t, status.OK, w.write(first, 0, strings.Repeat("a", 5000)))
		for round, before := range []string{"a", "f", "k"} {
			use := w.begin(s[0], first, gpu.ReadWrite)
			at := w.blockOf(first).Address
			require.NoError(t, s[0].Fill(at+100, byte('b'+5*round), 50))
			require.NoError(t, gpu.EndUse(use))
			use, _, err := BeginUse(s[1], []gpu.Use{{Block: first, Access: gpu.Read}, {Block: second, Access: gpu.Write}})
			require.NoError(t, err)
			require.NoError(t, s[1].Copy(driver.Copy{To: w.blockOf(second).Address, From: at, Bytes: 200}))
			require.NoError(t, gpu.EndUse(use))
			filled := strings.Repeat(string(rune('b'+5*round)), 50)
			require.Equal(t, status.OK, w.write(first, 0, "c"), "behind what reads it")
			w.holds(second, 0, before+"aa")
			w.holds(second, 100, filled)
			w.holds(first, 0, "ca")
			w.holds(first, 100, filled)
			require.Equal(t, status.OK, w.apply(first, []uint64{0, 149}, string(rune('f'+5*round))+"y"))
			w.holds(first, 149, "y")
		}
		use := w.begin(s[0], first, gpu.Write)
		require.NoError(t, s[0].Fill(w.blockOf(first).Address, 'z', 5000))
		require.NoError(t, gpu.EndUse(use))
		require.Zero(t, nativetest.Destroy(first), "its memory goes behind the work")
		require.Equal(t, status.OK, w.write(w.create(abi.LocationGPU, 0, 5000), 0, "the same memory"))
	})
}

// What is newer on the host goes to the device before a use, and what a use has written comes from there.
func TestUsesOfPagesInTwoPlaces(t *testing.T) {
	onDevices(t, slow, func(w *world) {
		s := w.streams(1)
		handle := w.create(abi.LocationGPU, 0, 5000)
		w.sync(handle, residency.ToHost)
		require.Equal(t, status.OK, w.write(handle, 10, "host"))
		use := w.begin(s[0], handle, gpu.ReadWrite)
		at, err := gpu.UseAddress(use, handle)
		require.NoError(t, err)
		require.NoError(t, s[0].Copy(driver.Copy{To: at + 1000, From: at + 10, Bytes: 4}))
		require.Equal(t, status.OK, w.write(handle, 2000, "meanwhile"))
		require.NoError(t, gpu.EndUse(use))
		w.holds(handle, 1000, "host")
		w.holds(handle, 2000, "meanwhile")
		w.sync(handle, residency.ToHost)
		require.Equal(t, [2]uint64{0, 0}, w.newer(handle))
		w.holds(handle, 10, "host")
		require.NoError(t, page.Migrate(handle, abi.LocationCPU, 0))
		w.holds(handle, 1000, "host")
		_, _, err = BeginUse(s[0], []gpu.Use{{Block: handle, Access: gpu.Read}})
		require.Equal(t, status.Unsupported, status.CodeOf(err))
	})
}

// A page stays where it is until the use ends, and what cannot be used leaves no pin.
func TestAUsePinsItsPages(t *testing.T) {
	on(t, func(w *world) {
		s := w.streams(2)
		handle, onHost := w.create(abi.LocationGPU, 0, 500), w.create(abi.LocationCPU, 0, 500)
		pinned := func(read, write uint16) {
			t.Helper()
			gotRead, gotWrite := w.pins(handle)
			require.Equal(t, [2]uint16{read, write}, [2]uint16{gotRead, gotWrite})
		}
		use := w.begin(s[0], handle, gpu.Read)
		pinned(1, 0)
		require.Equal(t, int32(status.Busy), nativetest.Destroy(handle))
		require.Equal(t, status.Busy, status.CodeOf(page.Migrate(handle, abi.LocationCPU, 0)))
		_, bad, err := BeginUse(s[1], []gpu.Use{{Block: handle, Access: gpu.Read}, {Block: handle, Access: gpu.Write}})
		require.Equal(t, status.Busy, status.CodeOf(err), "a read of another stream is open")
		require.Equal(t, 1, bad)
		pinned(1, 0)
		require.NoError(t, gpu.AbortUse(use))
		pinned(0, 0)
		for _, wrong := range []struct {
			page   uint64
			access gpu.Access
			code   status.Code
		}{
			{onHost, gpu.Read, status.Unsupported}, {handle + 1<<28, gpu.Read, status.InvalidHandle},
			{handle, 0, status.InvalidArgument},
		} {
			_, bad, err := BeginUse(s[0], []gpu.Use{
				{Block: handle, Access: gpu.ReadWrite}, {Block: wrong.page, Access: wrong.access},
			})
			require.Equal(t, wrong.code, status.CodeOf(err), err)
			require.Equal(t, 1, bad)
			pinned(0, 0)
			if wrong.access == 0 {
				continue
			}
			recorded, err := gpu.RecordUse(s[0], false)
			require.NoError(t, err)
			require.NoError(t, AddUse(recorded, gpu.Use{Block: handle, Access: gpu.Write}))
			require.NoError(t, AddUse(recorded, gpu.Use{Block: wrong.page, Access: wrong.access}))
			pinned(0, 1)
			require.Equal(t, wrong.code, status.CodeOf(gpu.BeginRecorded(recorded)))
			require.NoError(t, gpu.AbortUse(recorded))
			pinned(0, 0)
		}
		recorded, err := gpu.RecordUse(s[0], true)
		require.NoError(t, err)
		require.NoError(t, AddUse(recorded, gpu.Use{Block: handle, Access: gpu.ReadWrite}))
		require.NoError(t, gpu.BeginRecorded(recorded))
		require.Error(t, AddUse(recorded, gpu.Use{Block: handle, Access: gpu.Read}), "it has begun")
		pinned(0, 1)
		require.NoError(t, s[0].Fill(w.blockOf(handle).Address, 'q', 500))
		require.NoError(t, gpu.EndUse(recorded))
		pinned(0, 0)
		w.holds(handle, 499, "q")
		require.Error(t, AddUse(recorded, gpu.Use{Block: handle, Access: gpu.Read}), "it has ended")
		pinned(0, 0)
		block := w.blockOf(handle)
		_, err = gpu.Free(block.Handle, nil)
		require.Equal(t, status.InvalidState, status.CodeOf(err), "the page's end frees it")
		found, err := s[0].Runtime().At(block.Address + 499)
		require.NoError(t, err)
		require.Equal(t, block.Handle, found.Handle)
		require.Zero(t, nativetest.Destroy(handle))
		_, err = s[0].Runtime().At(block.Address)
		require.Equal(t, status.NotFound, status.CodeOf(err))
	})
}

// Work that a stream captures is never done: calls on a page say so until the capture ends.
func TestWorkOfACaptureCannotBeAwaited(t *testing.T) {
	on(t, func(w *world) {
		s := w.streams(1)[0]
		handle := w.create(abi.LocationGPU, 0, 500)
		require.Equal(t, status.OK, w.write(handle, 0, "before"))
		captured, err := gpu.BeginCapture(s)
		require.NoError(t, err)
		w.holds(handle, 0, "before")
		require.NoError(t, gpu.EndUse(w.begin(s, handle, gpu.Write)))
		_, code := w.read(handle, 0, 1)
		require.Equal(t, status.InvalidState, code)
		require.Equal(t, status.InvalidState, w.write(handle, 0, "x"))
		capture, err := gpu.FindCapture(captured)
		require.NoError(t, err)
		require.NoError(t, capture.End())
		w.holds(handle, 0, "before")
		require.NoError(t, gpu.DestroyCapture(captured))
	})
}

// A use that is open when the context ends, ends with it, and with it the page.
func TestUsesEndWithTheirContext(t *testing.T) {
	on(t, func(w *world) {
		handle := w.create(abi.LocationGPU, 0, 500)
		w.begin(w.streams(1)[0], handle, gpu.ReadWrite)
	})
}
