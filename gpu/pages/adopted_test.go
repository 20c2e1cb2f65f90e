package pages

import (
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

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
	"libmmsb/native/nativetest"
)

// adopt adopts memory of device 0.
func (w *world) adopt(address driver.Address, size uint64, options page.AdoptOptions) (handle uint64, err error) {
	options.Location = abi.LocationGPU
	if options.Device == 0 && size%2 == 1 {
		options.Device = abi.DeviceNone
	}
	err = page.Use(w.context, func(c *page.Context) (err error) {
		handle, err = c.Adopt(uintptr(address), size, options)
		return err
	})
	return handle, err
}

// sources are memory of device 0 of so many bytes, from all who could have allocated it, and what it ends by.
func (w *world) sources(bytes uint64, test func(name string, address driver.Address, s *gpu.Stream)) {
	w.Helper()
	set, err := SetOf(w.context)
	require.NoError(w, err)
	device, err := w.sim.Open(0)
	require.NoError(w, err)
	shared := w.streams(1)[0]
	plain, err := device.Allocate(driver.Plain, bytes+300)
	require.NoError(w, err)
	test("another allocator's", plain+100, shared)
	require.NoError(w, shared.Synchronize())
	require.NoError(w, device.Free(driver.Plain, plain))
	block, address, err := shared.Runtime().Allocate(gpu.Request{Bytes: bytes, Stream: shared})
	require.NoError(w, err)
	test("a block's", address, shared)
	_, err = gpu.Free(block, nil)
	require.NoError(w, err, "the page's end has left it")
	own, err := set.New(0, devices.RuntimeOptions{})
	require.NoError(w, err)
	lease, err := own.AcquireStream(0)
	require.NoError(w, err)
	s, err := gpu.FindStream(lease)
	require.NoError(w, err)
	block, address, err = own.Allocate(gpu.Request{Bytes: bytes + 1000, Stream: s})
	require.NoError(w, err)
	test("another runtime's", address+999, s)
	_, err = gpu.Free(block, nil)
	require.NoError(w, err)
	page := w.create(abi.LocationGPU, 0, bytes+10)
	test("a page's", w.blockOf(page).Address+10, shared)
	w.holds(page, 10, "adopted")
	require.Zero(w, nativetest.Destroy(page))
}

func TestMemoryOfADeviceIsAPage(t *testing.T) {
	const size = 5001
	onDevices(t, slow, func(w *world) {
		w.sources(size, func(name string, address driver.Address, s *gpu.Stream) {
			require.NoError(t, s.Fill(address, 'x', size), name)
			handle, err := w.adopt(address, size, page.AdoptOptions{Stream: uintptr(s.Native())})
			require.NoError(t, err, name)
			w.holds(handle, 0, strings.Repeat("x", size))
			require.Equal(t, residency.Placement{Location: abi.LocationGPU}, w.at(handle))
			require.Equal(t, status.OK, w.write(handle, 0, "adopted"))
			require.Equal(t, status.OK, w.apply(handle, []uint64{size - 1, 100}, "yz"))
			w.sync(handle, residency.ToHost)
			require.Equal(t, status.OK, w.write(handle, 200, "in two places, and at once in the memory"))
			clone, err := page.Clone(handle, 0)
			require.NoError(t, err)
			w.holds(clone, 100, "z")
			require.Equal(t, status.InvalidState, status.CodeOf(page.Migrate(handle, abi.LocationCPU, 0)))
			require.Equal(t, status.InvalidState, status.CodeOf(page.Resize(handle, 10)))
			use := w.begin(s, handle, gpu.ReadWrite)
			require.NoError(t, s.Copy(driver.Copy{To: address + 1000, From: address, Bytes: 300}))
			require.NoError(t, s.Fill(address+2000, 'u', 100))
			require.NoError(t, gpu.EndUse(use))
			w.holds(handle, 1000, "adopted")
			w.holds(handle, 1200, "in two places")
			w.holds(handle, 2000, "uuu")
			require.Equal(t, status.OK, w.write(handle, 2000, "v"))
			require.Zero(t, nativetest.Destroy(clone))
			use = w.begin(s, handle, gpu.Write)
			require.NoError(t, s.Fill(address+3000, 'w', 10))
			require.NoError(t, gpu.EndUse(use))
			require.Zero(t, nativetest.Destroy(handle), name)
			again, err := w.adopt(address, size, page.AdoptOptions{ReadOnly: true})
			require.NoError(t, err, "its memory is as it was: "+name)
			w.holds(again, 0, "adopted")
			w.holds(again, 2999, "xwwwwwwwwwwx")
			require.Equal(t, status.InvalidState, w.write(again, 0, "no"))
			_, _, err = BeginUse(s, []gpu.Use{{Block: again, Access: gpu.Write}})
			require.Equal(t, status.InvalidState, status.CodeOf(err))
			require.Zero(t, nativetest.Destroy(again))
		})
	})
}

func TestWhatCannotBeAdoptedOfADevice(t *testing.T) {
	on(t, func(w *world) {
		s := w.streams(1)[0]
		block, address, err := s.Runtime().Allocate(gpu.Request{Bytes: 4096, Stream: s})
		require.NoError(t, err)
		far := w.create(abi.LocationGPU, 1, 4096)
		near := w.create(abi.LocationCPU, 0, 4096)
		onHost, code := nativetest.PinPage(near, true)
		require.Zero(t, code)
		defer w.unpin(near)
		for what, wrong := range map[string]struct {
			address driver.Address
			size    uint64
			options page.AdoptOptions
			code    status.Code
		}{
			"memory of the host":          {driver.Address(onHost), 10, page.AdoptOptions{}, status.InvalidArgument},
			"of another device":           {w.blockOf(far).Address, 10, page.AdoptOptions{}, status.InvalidArgument},
			"of none":                     {8, 10, page.AdoptOptions{}, status.InvalidArgument},
			"0 bytes":                     {address, 0, page.AdoptOptions{}, status.InvalidSize},
			"too many bytes":              {address, 1 << 30, page.AdoptOptions{}, status.InvalidArgument},
			"past the end of addresses":   {address, ^uint64(0) - 10, page.AdoptOptions{}, status.InvalidSize},
			"a device that is not there":  {address, 10, page.AdoptOptions{Device: 7}, status.NoDevice},
			"a stream that is not one":    {address, 10, page.AdoptOptions{Stream: 12345}, status.InvalidHandle},
			"memory of the host, pinned?": {driver.Address(onHost), 10, page.AdoptOptions{Stream: 1}, status.InvalidArgument},
		} {
			_, err := w.adopt(wrong.address, wrong.size, wrong.options)
			require.Equal(t, wrong.code, status.CodeOf(err), "%s: %v", what, err)
		}
		first, err := w.adopt(address, 4096, page.AdoptOptions{ID: 5})
		require.NoError(t, err)
		_, err = w.adopt(address, 4096, page.AdoptOptions{ID: 5})
		require.Equal(t, status.AlreadyExists, status.CodeOf(err))
		w.fail(sim.MemoryInfo, 0, sim.Fail)
		_, err = w.adopt(address, 4096, page.AdoptOptions{})
		require.Equal(t, status.Device, status.CodeOf(err))
		require.Equal(t, status.OK, w.write(first, 0, "still whole"))
		w.holds(first, 0, "still whole")
		_, err = gpu.Free(block, nil)
		require.NoError(t, err, "the program's mistake")
		_, stale := w.read(first, 0, 1)
		require.Equal(t, status.StaleHandle, stale)
	})
}

// Beside a journal the record of an adoption has the bytes, and a change of a page that anybody may write moves what it has a
// part in, not the page. What is loaded goes into the adopted memory.
func TestAdoptedMemoryOfADeviceIsSavedAndLoaded(t *testing.T) {
	const size = 1 << 20
	on(t, func(w *world) {
		s := w.streams(1)[0]
		block, address, err := s.Runtime().Allocate(gpu.Request{Bytes: size, Stream: s})
		require.NoError(t, err)
		require.NoError(t, s.Fill(address, 'a', size))
		w.watch()
		handle, err := w.adopt(address, size, page.AdoptOptions{ID: 9, Stream: uintptr(s.Native())})
		require.NoError(t, err)
		w.moved()
		for bytes, change := range map[uint64]func() status.Code{
			64: func() status.Code { return w.write(handle, 100, strings.Repeat("b", 64)) },
			2:  func() status.Code { return w.apply(handle, []uint64{5000, 4}, "cd") },
		} {
			before := w.moved()
			require.Equal(t, status.OK, change())
			require.LessOrEqual(t, w.moved().ToHost-before.ToHost, uint64(1024))
			require.Equal(t, bytes, w.moved().ToDevice-before.ToDevice, "others may write beside them")
			require.Equal(t, 1, w.copies(handle))
		}
		w.holds(handle, 99, "a"+strings.Repeat("b", 64)+"a")
		w.holds(handle, 5000, "c")
		w.pin(handle)
		require.Equal(t, status.OK, w.apply(handle, []uint64{7, 8}, "pp"))
		w.unpin(handle)
		w.holds(handle, 6, "app")

		path := filepath.Join(t.TempDir(), "state")
		require.NoError(t, persist.Save(w.context, persist.ToPath(path), persist.SaveOptions{}, nil))
		require.NoError(t, s.Fill(address, 'z', size))
		require.NoError(t, s.Synchronize())
		w.holds(handle, 99, "zz")
		load := func() (found uint64, err error) {
			err = persist.Load(w.context, persist.FromPath(path), persist.LoadOptions{IDs: []uint64{9}}, nil)
			require.NoError(t, page.Use(w.context, func(c *page.Context) (err error) {
				found, err = c.Lookup(9)
				return err
			}))
			return found, err
		}
		w.fail(sim.Copy, 0, sim.Fail)
		found, err := load()
		require.Equal(t, status.Device, status.CodeOf(err))
		require.Equal(t, handle, found, "the page is the same one")
		loaded, err := load()
		require.NoError(t, err)
		require.NotEqual(t, handle, loaded)
		require.Equal(t, uintptr(address), w.addressOf(loaded))
		w.holds(loaded, 99, "a"+strings.Repeat("b", 64)+"a")
		w.holds(loaded, 5000, "ca")
		require.Equal(t, status.InvalidState, status.CodeOf(page.Migrate(loaded, abi.LocationCPU, 0)), "it stays adopted")
		require.Equal(t, status.OK, w.write(loaded, 0, "goes on"))
		require.Zero(t, nativetest.Destroy(loaded))
		_, err = gpu.Free(block, nil)
		require.NoError(t, err)
	})
}

func (w *world) addressOf(handle uint64) (address uintptr) {
	require.NoError(w, page.Read(handle, func(p *page.Page) (err error) {
		address, err = p.DeviceAddress(p.Index)
		return err
	}))
	return address
}

// Random changes of adopted memory by calls, beside those of the program within uses and of nobody's, with a journal or without:
// bytes are as the model's.
func TestRandomChangesOfAdoptedMemory(t *testing.T) {
	const size = 3000
	for seed := range mostPrograms(25) {
		onDevices(t, sim.Options{Seed: seed + 1}, func(w *world) {
			random := rand.New(rand.NewPCG(seed, 77))
			s := w.streams(2)
			block, address, err := s[0].Runtime().Allocate(gpu.Request{Bytes: size, Stream: s[0]})
			require.NoError(t, err)
			require.NoError(t, s[0].Fill(address, 0, size))
			if random.IntN(2) == 0 {
				w.watch()
			}
			handle, err := w.adopt(address, size, page.AdoptOptions{Stream: uintptr(s[0].Native())})
			require.NoError(t, err)
			model := make([]byte, size)
			for range 50 {
				offset, length := random.Uint64N(size-200), 1+random.Uint64N(200)
				value := byte('a' + random.IntN(26))
				content := strings.Repeat(string(rune(value)), int(length))
				switch random.IntN(6) {
				case 0:
					require.Equal(t, status.OK, w.write(handle, offset, content))
				case 1:
					require.Equal(t, status.OK, w.apply(handle, []uint64{offset + length - 1, offset}, content[:1]+content[:1]))
					model[offset], model[offset+length-1] = value, value
					continue
				case 2:
					on := s[random.IntN(2)]
					use := w.begin(on, handle, gpu.Write)
					require.NoError(t, on.Fill(address+driver.Address(offset), value, length))
					require.NoError(t, gpu.EndUse(use))
				case 3:
					w.sync(handle, []residency.Direction{residency.ToHost, residency.ToDevice}[random.IntN(2)])
					continue
				case 4:
					if page.DropHostCopy(handle) != nil {
						w.holds(handle, 0, string(model))
					}
					continue
				case 5:
					require.Zero(t, nativetest.ClearMask(handle))
					w.holds(handle, offset, string(model[offset:offset+length]))
					continue
				}
				copy(model[offset:], content)
			}
			w.holds(handle, 0, string(model))
			require.Zero(t, nativetest.Destroy(handle))
			_, err = gpu.Free(block, nil)
			require.NoError(t, err)
		})
	}
}
