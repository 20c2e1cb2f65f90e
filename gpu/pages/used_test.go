package pages

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"libmmsb/core/abi"
	"libmmsb/core/page"
	"libmmsb/core/persist"
	"libmmsb/core/residency"
	"libmmsb/core/status"
	"libmmsb/gpu/driver"
	gpu "libmmsb/gpu/runtime"
	"libmmsb/gpu/sim"
	"libmmsb/native/nativetest"
)

// apart is a stream of a runtime of the program's own on device 0.
func (w *world) apart() *gpu.Stream {
	w.Helper()
	of := w.streams(1)[0].Runtime()
	own, err := gpu.New(of.Device(), gpu.Options{})
	require.NoError(w, err)
	w.Cleanup(func() { _, _ = own.Close() })
	handle, err := own.AcquireStream(0)
	require.NoError(w, err)
	s, err := gpu.FindStream(handle)
	require.NoError(w, err)
	return s
}

// touched tells the device that the host has the bytes of a page, as it would in a read or a write of the program's through their
// address: the device reports work that these are not behind.
func (w *world) touched(handle uint64, write bool) {
	w.Helper()
	info := w.blockOf(handle)
	require.NoError(w, w.sim.HostAccess(info.Address, info.Bytes, write))
}

// shared are the locations that both the host and a device reach.
var shared = []int32{abi.LocationPinned, abi.LocationUnified}

// fill lets a stream write a page in a use.
func (w *world) fill(s *gpu.Stream, handle uint64, value byte, offset, length uint64) {
	w.Helper()
	use := w.begin(s, handle, gpu.Write)
	require.NoError(w, s.Fill(w.blockOf(handle).Address+driver.Address(offset), value, length))
	require.NoError(w, gpu.EndUse(use))
}

// What kernels leave in pages that the host reaches, too, is what each call finds, and what a call has left is what they find.
func TestCallsWaitForWorkOnSharedMemory(t *testing.T) {
	const size = 5000
	for _, location := range shared {
		for what, call := range map[string]func(w *world, handle uint64){
			"read":  func(w *world, handle uint64) { w.holds(handle, 99, "afff") },
			"write": func(w *world, handle uint64) { require.Equal(t, status.OK, w.write(handle, 4000, "host")) },
			"delta": func(w *world, handle uint64) { require.Equal(t, status.OK, w.apply(handle, []uint64{3, 4}, "xy")) },
			"pin": func(w *world, handle uint64) {
				w.pin(handle)
				w.unpin(handle)
			},
			"clone": func(w *world, handle uint64) {
				clone, err := page.Clone(handle, 0)
				require.NoError(t, err)
				w.holds(clone, 99, "afff")
			},
			"resize":  func(w *world, handle uint64) { require.NoError(t, page.Resize(handle, 9000)) },
			"to host": func(w *world, handle uint64) { require.NoError(t, page.Migrate(handle, abi.LocationCPU, 0)) },
			"to disk": func(w *world, handle uint64) { require.NoError(t, page.Migrate(handle, abi.LocationDisk, 0)) },
			"to GPU":  func(w *world, handle uint64) { require.NoError(t, page.Migrate(handle, abi.LocationGPU, 1)) },
			"sync":    func(w *world, handle uint64) { require.NoError(t, syncOn(handle, residency.ToHost, 0)) },
			"compare": func(w *world, handle uint64) {
				found, code := nativetest.ComparePages(handle, w.create(abi.LocationCPU, 0, size))
				require.Zero(t, code)
				require.EqualValues(t, size, found.Count)
			},
			"checksum": func(w *world, handle uint64) {
				_, code := nativetest.PageChecksum(handle, 0, size)
				require.Zero(t, code)
			},
			"save": func(w *world, handle uint64) {
				path := filepath.Join(t.TempDir(), "state")
				require.NoError(t, persist.Save(w.context, persist.ToPath(path), persist.SaveOptions{}, nil))
			},
		} {
			t.Run(fmt.Sprintf("%s at %d", what, location), func(t *testing.T) {
				onDevices(t, slow, func(w *world) {
					handle := w.create(location, 0, size)
					require.Equal(t, status.OK, w.write(handle, 0, strings.Repeat("a", size)))
					w.touched(handle, true)
					at := w.blockOf(handle).Address
					w.fill(w.streams(1)[0], handle, 'f', 100, 50)
					call(w, handle)
					require.NoError(t, w.sim.HostAccess(at, size, true), "as the next page there would be written")
					w.holds(handle, 99, "afff")
					w.holds(handle, 148, "ffaa")
				})
			})
		}
	}
}

// Uses of such a page are in order among each other, whichever runtime their streams are of, and nobody waits for reads to read.
func TestUsesOfSharedMemoryAreInOrder(t *testing.T) {
	for _, location := range append(shared, abi.LocationGPU) {
		onDevices(t, slow, func(w *world) {
			streams := append(w.streams(2), w.apart(), w.apart())
			handle, other := w.create(location, 0, 5000), w.create(location, 0, 5000)
			require.Equal(t, status.OK, w.write(handle, 0, strings.Repeat("a", 5000)))
			for round := range byte(12) {
				s, next := streams[round%4], streams[(round+1+round/4)%4]
				w.fill(s, handle, 'b'+round, 0, 100)
				use, _, err := BeginUse(next, []gpu.Use{{Block: handle, Access: gpu.Read}, {Block: other, Access: gpu.Write}})
				require.NoError(t, err)
				from, to := w.blockOf(handle).Address, w.blockOf(other).Address
				require.NoError(t, next.Copy(driver.Copy{To: to, From: from, Bytes: 200}))
				require.NoError(t, gpu.EndUse(use))
				if round%3 == 0 {
					w.holds(other, 99, string('b'+rune(round))+"a")
				}
			}
			w.holds(other, 99, "ma")
			w.fill(streams[3], handle, 'z', 0, 5000)
			require.Zero(t, nativetest.Destroy(handle), "its memory goes behind the work")
			again := w.create(location, 0, 5000)
			require.Equal(t, status.OK, w.write(again, 0, strings.Repeat("n", 5000)))
			w.fill(streams[0], again, 'o', 0, 10)
			w.holds(again, 9, "on")
		})
	}
}

// The page is pinned while the use is open, and calls that leave it where it is go on.
func TestAUsePinsSharedMemory(t *testing.T) {
	for _, location := range shared {
		on(t, func(w *world) {
			s, onDisk := w.apart(), w.create(abi.LocationDisk, 0, 500)
			handle := w.create(location, 0, 500)
			require.Equal(t, status.OK, w.write(handle, 0, "before"))
			use := w.begin(s, handle, gpu.Write)
			read, write := w.pins(handle)
			require.Equal(t, [2]uint16{0, 1}, [2]uint16{read, write})
			require.Equal(t, int32(status.Busy), nativetest.Destroy(handle))
			require.Equal(t, status.Busy, status.CodeOf(page.Migrate(handle, abi.LocationCPU, 0)))
			require.Equal(t, status.Busy, status.CodeOf(page.Resize(handle, 5000)))
			w.holds(handle, 0, "before")
			require.Equal(t, status.OK, w.write(handle, 100, "beside"))
			require.NoError(t, s.Fill(w.blockOf(handle).Address, 'q', 10))
			require.NoError(t, gpu.EndUse(use))
			w.holds(handle, 8, "qq\x00")
			w.holds(handle, 100, "beside")
			for _, wrong := range []uint64{onDisk, w.create(abi.LocationCPU, 0, 500)} {
				_, bad, err := BeginUse(s, []gpu.Use{{Block: handle, Access: gpu.Write}, {Block: wrong, Access: gpu.Read}})
				require.Equal(t, status.Unsupported, status.CodeOf(err))
				require.Equal(t, 1, bad)
				_, err = page.BlockOf(wrong)
				require.Equal(t, status.Unsupported, status.CodeOf(err))
			}
			_, _, err := BeginUse(s, []gpu.Use{{Block: w.create(location, 1, 500), Access: gpu.Read}})
			require.Equal(t, status.InvalidArgument, status.CodeOf(err), "of another device")
			recorded, err := gpu.RecordUse(s, false)
			require.NoError(t, err)
			require.NoError(t, AddUse(recorded, gpu.Use{Block: handle, Access: gpu.ReadWrite}))
			w.holds(handle, 8, "qq\x00")
			require.NoError(t, gpu.BeginRecorded(recorded))
			require.NoError(t, s.Fill(w.blockOf(handle).Address, 'r', 10))
			require.NoError(t, gpu.EndUse(recorded))
			w.holds(handle, 8, "rr\x00")
			w.begin(s, handle, gpu.Write) // ends with the context
		})
	}
}

// Where a device does not let the host touch managed memory beside it, calls on a page in an open use are refused; pinned memory
// is the host's at any time.
func TestTheHostKeepsOutOfManagedMemory(t *testing.T) {
	onDevices(t, sim.Options{NoHints: true}, func(w *world) {
		s := w.streams(1)[0]
		managed, pinned := w.create(abi.LocationUnified, 0, 500), w.create(abi.LocationPinned, 0, 500)
		uses := []gpu.Use{{Block: managed, Access: gpu.Read}, {Block: pinned, Access: gpu.Read}}
		use, _, err := BeginUse(s, uses)
		require.NoError(t, err)
		second := w.begin(s, managed, gpu.Read)
		_, code := w.read(managed, 0, 1)
		require.Equal(t, status.Busy, code)
		require.Equal(t, status.Busy, w.write(managed, 0, "x"))
		_, pin := nativetest.PinPage(managed, false)
		require.Equal(t, int32(status.Busy), pin)
		require.Equal(t, status.OK, w.write(pinned, 0, "x"))
		require.NoError(t, gpu.EndUse(second))
		require.Equal(t, status.Busy, w.write(managed, 0, "x"))
		require.NoError(t, gpu.EndUse(use))
		require.Equal(t, status.OK, w.write(managed, 0, "x"))
		w.holds(managed, 0, "x\x00")
	})
}

// A save has such pages as work of ended uses has left them, also an incremental one of large pages that the kernel of the system
// watches for writes of the host; and a use that begins meanwhile waits until the save has the page.
func TestSavesOfSharedMemoryThatKernelsWrite(t *testing.T) {
	for _, location := range shared {
		for _, size := range []uint64{500, 1 << 20} {
			onDevices(t, slow, func(w *world) {
				s := w.streams(1)[0]
				handle := w.create(location, 0, size)
				id, err := idOf(handle)
				require.NoError(t, err)
				folder := t.TempDir()
				for round := range byte(4) {
					w.fill(s, handle, 'a'+round, uint64(round)*100, 100)
					path := filepath.Join(folder, fmt.Sprint(round))
					options := persist.SaveOptions{}
					if round > 0 {
						options.Base = filepath.Join(folder, fmt.Sprint(round-1))
					}
					require.NoError(t, persist.Save(w.context, persist.ToPath(path), options, nil))
					other, err := page.NewContext(page.Options{SimulatedDevices: 1})
					require.NoError(t, err)
					require.NoError(t, persist.Load(other, persist.FromPath(path), persist.LoadOptions{ToHost: true}, nil))
					require.NoError(t, page.Use(other, func(c *page.Context) error {
						loaded, err := c.Lookup(id)
						require.NoError(t, err)
						w.holds(loaded, uint64(round)*100, strings.Repeat(string('a'+rune(round)), 100))
						w.holds(loaded, 0, "aa")
						return nil
					}))
					require.NoError(t, page.Destroy(other))
				}
			})
		}
	}
}

// A device that is lost takes a page with it that it may have been writing, and no other one.
func TestSharedMemoryOfADeviceThatIsLost(t *testing.T) {
	for _, location := range shared {
		onDevices(t, slow, func(w *world) {
			s := w.apart()
			written, read, unused := w.create(location, 0, 500), w.create(location, 0, 500), w.create(location, 0, 500)
			for _, of := range []uint64{written, read, unused} {
				require.Equal(t, status.OK, w.write(of, 0, "host"))
			}
			require.NoError(t, gpu.EndUse(w.begin(s, read, gpu.Read)))
			w.fill(s, written, 'x', 0, 500)
			w.fail(sim.Synchronize, 0, sim.Lose)
			_, code := w.read(written, 0, 1)
			require.Equal(t, status.DeviceLost, code)
			w.holds(read, 0, "host")
			w.holds(unused, 0, "host")
			lost := w.lost()
			require.Equal(t, []uint64{written}, slices.Collect(maps.Keys(lost)))
			require.EqualValues(t, 500, lost[written].Lost)
			require.Zero(t, nativetest.Destroy(written))
			require.NoError(t, page.Migrate(read, abi.LocationCPU, 0))
			w.holds(read, 0, "host")
		})
	}
}

// A runtime of the program's own that ends while its use of a page is open ends the use, and not the page.
func TestARuntimeEndsWhileItUsesPages(t *testing.T) {
	for _, location := range append(shared, abi.LocationGPU) {
		onDevices(t, slow, func(w *world) {
			s := w.apart()
			handle := w.create(location, 0, 500)
			use := w.begin(s, handle, gpu.Write)
			require.NoError(t, s.Fill(w.blockOf(handle).Address, 'e', 500))
			leaks, err := s.Runtime().Close()
			require.NoError(t, err)
			require.Equal(t, 1, leaks.Uses)
			require.Equal(t, status.StaleHandle, status.CodeOf(gpu.EndUse(use)))
			read, write := w.pins(handle)
			require.Zero(t, read+write)
			w.holds(handle, 498, "ee")
			w.fill(w.streams(1)[0], handle, 'f', 0, 10)
			w.holds(handle, 9, "fe")
		})
	}
}

// A page whose block is not asked for in use takes no way over Go, and a new page in the same memory is the host's again.
func TestABlockEndsWithItsMemory(t *testing.T) {
	on(t, func(w *world) {
		handle := w.create(abi.LocationPinned, 0, 500)
		resident := func(of uint64) (resident bool) {
			require.NoError(t, page.Read(of, func(p *page.Page) error {
				resident = p.Resident()
				return nil
			}))
			return resident
		}
		require.True(t, resident(handle))
		info := w.blockOf(handle)
		require.True(t, info.Wrapped)
		require.EqualValues(t, 500, info.Bytes)
		require.False(t, resident(handle))
		require.NoError(t, page.Resize(handle, 600))
		require.True(t, resident(handle))
		_, err := gpu.FindBlock(info.Handle)
		require.Equal(t, status.StaleHandle, status.CodeOf(err))
		require.NotEqual(t, info.Handle, w.blockOf(handle).Handle)
	})
}

// Random calls beside random work of two runtimes leave the bytes that one after the other would.
func TestRandomWorkOnSharedMemory(t *testing.T) {
	const size = 3000
	for seed := range mostPrograms(25) {
		onDevices(t, sim.Options{Scheduler: sim.Seeded, Seed: seed + 1}, func(w *world) {
			random := rand.New(rand.NewPCG(seed, 78))
			s := append(w.streams(2), w.apart())
			if random.IntN(3) == 0 {
				w.watch()
			}
			at := append(shared, abi.LocationGPU, abi.LocationCPU)
			handle, model := w.create(shared[random.IntN(2)], 0, size), make([]byte, size)
			for range 60 {
				offset, length := random.Uint64N(size-200), 1+random.Uint64N(200)
				value := byte('a' + random.IntN(26))
				content := strings.Repeat(string(rune(value)), int(length))
				switch random.IntN(7) {
				case 0:
					require.Equal(t, status.OK, w.write(handle, offset, content))
				case 1:
					require.Equal(t, status.OK, w.apply(handle, []uint64{offset}, content[:1]))
					content = content[:1]
				case 2:
					w.holds(handle, offset, string(model[offset:][:length]))
					continue
				case 3:
					if random.IntN(4) == 0 {
						require.NoError(t, page.Migrate(handle, at[random.IntN(len(at))], 0))
					}
					continue
				default:
					if _, err := page.BlockOf(handle); err != nil { // on the host
						continue
					}
					w.fill(s[random.IntN(3)], handle, value, offset, length)
				}
				copy(model[offset:], content)
			}
			w.holds(handle, 0, string(model))
		})
	}
}
