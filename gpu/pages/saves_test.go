package pages

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"libmmsb/core/abi"
	"libmmsb/core/page"
	"libmmsb/core/persist"
	"libmmsb/core/status"
	gpu "libmmsb/gpu/runtime"
	"libmmsb/native/nativetest"
)

// saves are snapshots of a world, each of which rests on the one before.
type saves struct {
	*world
	folder string
	count  int
}

func (s *saves) path(number int) string { return filepath.Join(s.folder, strconv.Itoa(number)) }

// save writes the next one, and says how long it is.
func (s *saves) save() (bytes uint64) {
	s.Helper()
	options := persist.SaveOptions{NotDurable: true}
	if s.count > 0 {
		options.Base = s.path(s.count - 1)
	}
	require.NoError(s, persist.Save(s.context, persist.ToPath(s.path(s.count)), options, nil))
	info, err := os.Stat(s.path(s.count))
	require.NoError(s, err)
	s.count++
	return uint64(info.Size())
}

// saved is what a snapshot has of a page.
func (s *saves) saved(number int, id, size uint64) (got string) {
	s.Helper()
	of := page.Options{Simulate: abi.SimulateAlways, SimulatedDevices: 1, SimulatedMemory: 64 << 20}
	other, err := page.NewContext(of)
	require.NoError(s, err)
	require.NoError(s, persist.Load(other, persist.FromPath(s.path(number)), persist.LoadOptions{}, nil))
	require.NoError(s, page.Use(other, func(c *page.Context) error {
		handle, err := c.Lookup(id)
		require.NoError(s, err)
		var code status.Code
		got, code = s.read(handle, 0, size)
		require.Equal(s, status.OK, code)
		return nil
	}))
	require.NoError(s, page.Destroy(other))
	return got
}

// Memory of a device that the program writes to by itself: a save brings what the device says is not as it was.
func TestASaveBringsWhatHasChangedOfADevice(t *testing.T) {
	const size = 5<<20 + 1234
	on(t, func(w *world) {
		r := rand.New(rand.NewPCG(8, 9))
		content := random(r, size)
		stream := w.streams(1)[0]
		block, address, err := stream.Runtime().Allocate(gpu.Request{Bytes: size, Stream: stream})
		require.NoError(t, err)
		handle, err := w.adopt(address, size, page.AdoptOptions{ID: 9})
		require.NoError(t, err)
		require.Equal(t, status.OK, w.write(handle, 0, content))
		s := &saves{world: w, folder: t.TempDir()}
		sums := uint64(4 * ((size + 4095) / 4096))
		require.GreaterOrEqual(t, w.links(func() { s.save() }).ToHost, uint64(size), "the first has all")

		length := uint64(0)
		require.Equal(t, sums, w.links(func() { length = s.save() }).ToHost, "nothing has changed")
		require.Less(t, length, uint64(16<<10))
		write := func(at uint64, bytes string) {
			require.NoError(t, page.Use(w.context, func(c *page.Context) error {
				return c.Residency().Devices().Write(0, uintptr(address)+uintptr(at), []byte(bytes))
			}))
			content = content[:at] + bytes + content[at+uint64(len(bytes)):]
		}
		write(3<<20+4090, "over two granules")
		write(size-1, "!")
		last := uint64(size % (256 << 10))
		require.Equal(t, sums+256<<10+last, w.links(func() { length = s.save() }).ToHost, "two chunks")
		require.Less(t, length, uint64(32<<10), "three granules of them")
		write(0, random(r, 1<<20))
		require.Equal(t, sums+1<<20, w.links(func() { length = s.save() }).ToHost)
		require.Equal(t, status.OK, w.write(handle, 2<<20, "by a call"))
		content = content[:2<<20] + "by a call" + content[2<<20+9:]
		s.save()
		require.Equal(t, content, s.saved(s.count-1, 9, size))
		require.Zero(t, nativetest.Destroy(handle))
		_, err = gpu.Free(block, nil)
		require.NoError(t, err)
	})
}

// Random writes of the program's, calls, syncs, moves and other sizes between saves: each snapshot has what the page had.
func TestSavesOfADeviceAgainstAModel(t *testing.T) {
	for seed := range mostPrograms(12) {
		on(t, func(w *world) {
			r := rand.New(rand.NewPCG(seed, 21))
			size := 1 + r.Uint64N(900<<10)
			handle := w.create(abi.LocationGPU, 0, size)
			id := uint64(0)
			require.NoError(t, page.Read(handle, func(p *page.Page) error {
				id = p.ID()
				return nil
			}))
			content := []byte(random(r, size))
			require.Equal(t, status.OK, w.write(handle, 0, string(content)))
			pinned := r.IntN(2) == 0
			if pinned {
				w.pin(handle)
				defer w.unpin(handle)
			}
			s := &saves{world: w, folder: t.TempDir()}
			var want []string
			for range 12 {
				for range r.IntN(4) {
					at := r.Uint64N(size)
					part := random(r, 1+r.Uint64N(min(size-at, 1+r.Uint64N(20000))))
					switch r.IntN(3) {
					case 0:
						w.raw(handle, at, part, false)
					case 1:
						require.Equal(t, status.OK, w.write(handle, at, part))
					default:
						require.Equal(t, status.OK, w.mark(handle, at, part))
					}
					copy(content[at:], part)
				}
				switch r.IntN(8) {
				case 0:
					w.sync(handle, both)
				case 1:
					if !pinned {
						size = 1 + r.Uint64N(900<<10)
						require.NoError(t, page.Resize(handle, size))
						content = append(content, make([]byte, 900<<10)...)[:size]
					}
				case 2:
					if !pinned { // and back
						require.NoError(t, page.Migrate(handle, abi.LocationCPU, 0))
						s.save()
						want = append(want, string(content))
						require.NoError(t, page.Migrate(handle, abi.LocationGPU, 1))
						require.NoError(t, page.Migrate(handle, abi.LocationGPU, 0))
					}
				}
				s.save()
				want = append(want, string(content))
			}
			for number := range want {
				got := s.saved(number, id, uint64(len(want[number])))
				require.Equal(t, want[number], got, "seed %d, snapshot %d", seed, number)
			}
		})
	}
}

// Two pages that always change together are as at one moment in each snapshot, also where what the base has comes and goes.
func TestASaveOfADeviceBesideWriters(t *testing.T) {
	const size, rounds = 300 << 10, 12
	on(t, func(w *world) {
		pages := []uint64{w.create(abi.LocationGPU, 0, size), w.create(abi.LocationGPU, 0, size)}
		var ids [2]uint64
		for i, handle := range pages {
			w.pin(handle)
			defer w.unpin(handle)
			require.NoError(t, page.Read(handle, func(p *page.Page) error {
				ids[i] = p.ID()
				return nil
			}))
		}
		var stop atomic.Bool
		var writer sync.WaitGroup
		writer.Add(1)
		go func() {
			runtime.LockOSThread() // locks of pages are threads'
			defer runtime.UnlockOSThread()
			defer writer.Done()
			for i := 0; !stop.Load(); i++ {
				value := strings.Repeat(string(rune('a'+i%2)), 16)
				if code := nativetest.ApplyRuns(pages, []uint64{100, 100}, 8, []byte(value)); code != 0 {
					t.Errorf("a change answers %d", code)
					return
				}
			}
		}()
		s := &saves{world: w, folder: t.TempDir()}
		for range rounds {
			s.save()
		}
		stop.Store(true)
		writer.Wait()
		for number := range rounds {
			require.Equal(t, s.saved(number, ids[0], size), s.saved(number, ids[1], size), "snapshot %d", number)
		}
	})
}
