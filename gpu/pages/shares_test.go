package pages

import (
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"libmmsb/core/abi"
	"libmmsb/core/page"
	"libmmsb/core/parallel"
	"libmmsb/core/residency"
	"libmmsb/core/status"
	"libmmsb/core/ticket"
	"libmmsb/gpu/sim"
	"libmmsb/native/nativetest"
)

// helped runs a test as on a machine with so many processors to spare.
func helped(t *testing.T, helpers int) {
	before := parallel.SetMost(helpers)
	t.Cleanup(func() { parallel.SetMost(before) })
}

// noise is what a page has.
func noise(r *rand.ChaCha8, size uint64) string {
	content := make([]byte, size)
	_, _ = r.Read(content)
	return string(content)
}

// Processors share the pages of a sync, and one page that is large.
func TestProcessorsShareASync(t *testing.T) {
	helped(t, 3)
	r := rand.NewChaCha8([32]byte{1})
	onDevices(t, sim.Options{}, func(w *world) {
		sizes := []uint64{12 << 20} // of which each processor has a part
		for range 20 {
			sizes = append(sizes, 100_000+r.Uint64()%900_000)
		}
		var pages []uint64
		var contents []string
		for _, size := range sizes {
			pages = append(pages, w.create(abi.LocationCPU, 0, size))
			contents = append(contents, noise(r, size))
			w.write(pages[len(pages)-1], 0, contents[len(contents)-1])
		}
		_, err := page.SyncMany(pages, residency.ToDevice, 0, nil, nil)
		require.NoError(t, err)
		moved := w.moved()
		for times := range 3 {
			for i, handle := range pages {
				offset := r.Uint64() % (sizes[i] / 2)
				change := noise(r, sizes[i]/2)
				require.Equal(t, status.OK, w.write(handle, offset, change))
				contents[i] = contents[i][:offset] + change + contents[i][offset+uint64(len(change)):]
			}
			list := append(pages[:len(pages):len(pages)], pages[times%len(pages)], pages[0]) // some twice: a lock is waited for
			codes := make([]int32, len(list))
			_, err := page.SyncMany(list, residency.ToDevice, 0, codes, nil)
			require.NoError(t, err)
			require.Equal(t, make([]int32, len(list)), codes)
			for i, handle := range pages {
				require.Equal(t, [2]uint64{}, w.newer(handle), "page %d", i)
				require.True(t, w.onTheDevice(handle) == contents[i], "page %d", i)
			}
		}
		require.Greater(t, w.moved().ToDevice, moved.ToDevice)
		for _, handle := range pages { // a holder of the address may have written: all of each page comes back
			w.pin(handle)
			w.unpin(handle)
		}
		before := w.moved().ToHost
		_, err = page.SyncMany(pages, residency.ToHost, 0, nil, nil)
		require.NoError(t, err)
		all := uint64(0)
		for i, handle := range pages {
			all += sizes[i]
			require.Equal(t, [2]uint64{}, w.newer(handle), "page %d", i)
			read, code := w.read(handle, 0, sizes[i]) // of the host's copy, which is as new
			require.Equal(t, status.OK, code)
			require.True(t, read == contents[i], "page %d", i)
		}
		require.Equal(t, all, w.moved().ToHost-before)
	})
}

// A list may have a page twice, in two shares: the second one comes behind the first, also where asynchronous work moves it.
func TestAPageIsInTwoShares(t *testing.T) {
	helped(t, 3)
	onDevices(t, sim.Options{Latency: time.Millisecond}, func(w *world) {
		for range 20 {
			var pages []uint64
			for range 4 {
				pages = append(pages, w.create(abi.LocationCPU, 0, 2<<20))
			}
			list := append(slices.Clone(pages), pages...)
			codes := make([]int32, len(list))
			require.NoError(t, ticket.Start(uint64(len(list)), nil, func(work *ticket.Work) error {
				_, err := page.SyncMany(list, residency.ToDevice, 0, codes, work)
				return err
			}).Wait(ticket.Forever))
			require.Equal(t, make([]int32, len(list)), codes)
			for _, handle := range pages {
				require.Equal(t, [2]uint64{}, w.newer(handle))
				require.Zero(t, nativetest.Destroy(handle))
			}
		}
	})
}

// Threads sync the same pages, by calls that wait and by asynchronous work: each waits for the others, and none is told that a
// page is busy.
func TestSyncsOfTheSamePages(t *testing.T) {
	helped(t, 1)
	onDevices(t, sim.Options{Latency: 200 * time.Microsecond, Unchecked: true}, func(w *world) {
		var pages []uint64
		for range 60 {
			pages = append(pages, w.create(abi.LocationCPU, 0, 70_000))
		}
		var threads sync.WaitGroup
		for thread := range 4 {
			threads.Go(func() {
				runtime.LockOSThread()
				defer runtime.UnlockOSThread()
				random := rand.New(rand.NewPCG(uint64(thread), 1))
				for range 12 {
					list := slices.Clone(pages)
					random.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
					direction := residency.Direction(1 + random.IntN(3)) // one way, the other, both
					for _, handle := range list[:10] {
						assert.Equal(t, status.OK, w.write(handle, uint64(thread), string(rune('a'+thread))))
					}
					_, err := page.CheckSyncMany(list, int32(direction), 0)
					assert.NoError(t, err)
					err = ticket.Start(uint64(len(list)), nil, func(work *ticket.Work) error {
						_, err := page.SyncMany(list, direction, 0, nil, work)
						return err
					}).Wait(ticket.Forever)
					assert.NoError(t, err)
					_, err = page.SyncMany(list[:20], direction, 0, nil, nil)
					assert.NoError(t, err)
				}
			})
		}
		threads.Wait()
		ended := w.create(abi.LocationCPU, 0, 64)
		require.Zero(t, nativetest.Destroy(ended))
		wrong := map[uint64]status.Code{0: status.InvalidHandle, 1 << 40: status.InvalidHandle, ended: status.StaleHandle}
		for handle, code := range wrong {
			list, codes := []uint64{pages[0], handle, pages[1]}, make([]int32, 3)
			bad, err := page.CheckSyncMany(list, int32(residency.ToDevice), 0)
			require.Equal(t, code, status.CodeOf(err), "%#x", handle)
			require.Equal(t, 1, bad)
			err = ticket.Start(3, nil, func(work *ticket.Work) error { // as where it ends behind the check
				_, err := page.SyncMany(list, residency.ToDevice, 0, codes, work)
				return err
			}).Wait(ticket.Forever)
			require.Equal(t, code, status.CodeOf(err))
			require.Equal(t, []int32{0, int32(code), 0}, codes)
		}
		_, err := page.SyncMany(pages, residency.ToDevice, 0, nil, nil)
		require.NoError(t, err)
		for _, handle := range pages {
			require.Equal(t, [2]uint64{}, w.newer(handle))
		}
	})
}

// A device that fails in one share: each page is in step or as before, and the code of each says which.
func TestAShareOfASyncFails(t *testing.T) {
	helped(t, 3)
	r := rand.NewChaCha8([32]byte{2})
	onDevices(t, sim.Options{}, func(w *world) {
		sizes := []uint64{300_000, 300_000, 9 << 20, 300_000, 300_000, 300_000} // the large one is shared behind small ones
		var pages []uint64
		for _, size := range sizes {
			pages = append(pages, w.create(abi.LocationCPU, 0, size))
		}
		_, err := page.SyncMany(pages, residency.ToDevice|residency.ToHost, 0, nil, nil)
		require.NoError(t, err)
		device, err := w.sim.Open(0)
		require.NoError(t, err)
		failed, went := 0, 0
		for after := range 24 {
			if raceDetector && after%3 != 0 { // what runs at the same time is the same, whichever call fails
				continue
			}
			for _, call := range []sim.Call{sim.Copy, sim.Synchronize} {
				for side, direction := range []residency.Direction{residency.ToHost, residency.ToDevice} {
					contents := make([]string, len(pages))
					for i, handle := range pages {
						contents[i] = noise(r, sizes[i])
						if direction == residency.ToHost {
							w.onDevice(handle, 0, contents[i], func() {})
						} else {
							require.Equal(t, status.OK, w.write(handle, 0, contents[i]))
						}
					}
					w.fail(call, after, sim.Fail)
					codes := make([]int32, len(pages))
					bad, err := page.SyncMany(pages, direction, 0, codes, nil)
					w.sim.Spare()
					require.NoError(t, device.Synchronize()) // for a step whose end could not be waited for
					for i, handle := range pages {
						if codes[i] == 0 {
							went++
							require.Zero(t, w.newer(handle)[side], "page %d", i)
						} else {
							failed++
							require.Error(t, err)
							require.LessOrEqual(t, bad, i)
							require.Equal(t, sizes[i], w.newer(handle)[side], "page %d", i)
						}
						read, code := w.read(handle, 0, sizes[i])
						require.Equal(t, status.OK, code)
						require.True(t, read == contents[i], "page %d: %v %v after %d calls", i, direction, call, after)
					}
					_, err = page.SyncMany(pages, residency.ToDevice|residency.ToHost, 0, nil, nil)
					require.NoError(t, err)
				}
			}
		}
		require.Positive(t, failed)
		require.Positive(t, went)
	})
}

func TestAListIsCut(t *testing.T) {
	host := make([]byte, 1000)
	list := []residency.Transfer{
		{Device: 5000, Host: host[:300]}, {Device: 6000, Host: host[300:400]}, {Device: 7000, Host: host[400:]},
	}
	for bytes := range uint64(1002) {
		first, rest := cut(list, bytes)
		require.Equal(t, min(bytes, 1000), bytesIn(first), "%d", bytes)
		require.Equal(t, uint64(1000), bytesIn(first)+bytesIn(rest))
		at := 0
		for _, part := range append(first[:len(first):len(first)], rest...) {
			require.NotEmpty(t, part.Host)
			require.Same(t, &host[at], &part.Host[0])
			switch {
			case at < 300:
				require.Equal(t, uintptr(5000+at), part.Device)
			case at < 400:
				require.Equal(t, uintptr(5700+at), part.Device)
			default:
				require.Equal(t, uintptr(6600+at), part.Device)
			}
			at += len(part.Host)
		}
	}
	require.Len(t, list[2].Host, 600, "the list stays as it was")
}

// Pages whose copies are pinned are planned only: by as many processors as keep a link busy, one for large pages, which has three
// streams at most.
func TestWorkersOfASync(t *testing.T) {
	helped(t, 7)
	onDevices(t, sim.Options{Latency: 5 * time.Millisecond, Unchecked: true, Trace: true}, func(w *world) {
		streams := func(location int32, size uint64) int {
			var pages []uint64
			for range (16 << 20) / size {
				pages = append(pages, w.create(location, 0, size))
			}
			_, err := page.SyncMany(pages, residency.ToDevice, 0, nil, nil)
			require.NoError(t, err)
			for _, handle := range pages {
				require.Equal(t, status.OK, w.write(handle, 0, string(make([]byte, size))))
			}
			before := len(w.sim.Timeline())
			_, err = page.SyncMany(pages, residency.ToDevice, 0, nil, nil)
			require.NoError(t, err)
			used := map[int]bool{}
			for _, spell := range w.sim.Timeline()[before:] {
				if spell.Bytes > 0 {
					used[spell.Stream] = true
				}
			}
			for _, handle := range pages {
				require.Equal(t, [2]uint64{}, w.newer(handle))
				require.Zero(t, nativetest.Destroy(handle))
			}
			return len(used)
		}
		require.Greater(t, streams(abi.LocationCPU, 256<<10), mostSteps)
		require.LessOrEqual(t, streams(abi.LocationPinned, 256<<10), mostSteps)
		require.Greater(t, streams(abi.LocationPinned, 4<<10), mostSteps)
	})
}
