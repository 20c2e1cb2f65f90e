package page

import (
	"bytes"
	"math"
	"math/rand/v2"
	"os"
	"runtime"
	"sync"
	"testing"
	"time"

	"libmmsb/core/abi"
	"libmmsb/core/lasterror"
	"libmmsb/core/memory"
	"libmmsb/core/residency"
	"libmmsb/core/status"
	"libmmsb/core/ticket"
	"libmmsb/native"
	"libmmsb/native/nativetest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func defaults() Options {
	return Options{SimulatedDevices: 1, SimulatedMemory: 1 << 30, HugePages: true}
}

func withContext(t *testing.T, options Options, test func(h uint64, c *Context)) {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	h, err := NewContext(options)
	require.NoError(t, err)
	defer func() { _ = Destroy(h) }() // where the test fails, too: the next one counts the pages there are
	c, err := contexts.Get(h)
	require.NoError(t, err)
	test(h, c)
	require.NoError(t, c.Check())
	require.NoError(t, Destroy(h))
	require.Equal(t, status.StaleHandle, status.CodeOf(Destroy(h)))
	require.Zero(t, LivePages())
	require.Zero(t, memory.Outliving())
}

var plain = CreateOptions{Location: abi.LocationDefault, NUMANode: -1}

func create(t *testing.T, c *Context, size, id uint64) uint64 {
	t.Helper()
	options := plain
	options.ID = id
	page, err := c.Create(size, options)
	require.NoError(t, err)
	return page
}

// content is a page's bytes, wherever it lies.
func content(t *testing.T, page uint64) (found []byte) {
	t.Helper()
	require.NoError(t, Read(page, func(p *Page) error {
		return p.WithBytes(func() error {
			found = bytes.Clone(p.Bytes())
			return nil
		})
	}))
	return found
}

func fill(t *testing.T, page uint64, seed byte) []byte {
	t.Helper()
	require.NoError(t, Read(page, func(p *Page) error {
		return p.WithBytes(func() error {
			filled := p.Bytes()
			for i := range min(len(filled), 256) {
				filled[i] = seed + byte(i)
			}
			for done := 256; done < len(filled); done *= 2 { // bytes of a loop come slowly under the race detector
				copy(filled[done:], filled[:done])
			}
			return nil
		})
	}))
	return content(t, page)
}

func TestOptionsAreParsedOrLeftAlone(t *testing.T) {
	o := defaults()
	at, err := o.Parse(" memory_limit=3M,simulate=always fallback=host location=disk huge_pages=0 disk_path=/a b")
	require.NoError(t, err)
	assert.Equal(t, Options{
		DefaultLocation: abi.LocationDisk, Simulate: abi.SimulateAlways, SimulatedDevices: 1, Fallback: abi.FallbackHost,
		SimulatedMemory: 1 << 30,
		MemoryLimit:     3 << 20, DiskPath: "/a b",
	}, o)
	assert.Equal(t, " memory_limit=3M,simulate=always fallback=host location=disk huge_pages=0 disk_path=/a b"[at:], "/a b")
	for _, text := range []string{
		"x", "x=1", "memory_limit=", "memory_limit=-1", "memory_limit=1Q", "memory_limit=16777216T", "simulate=yes",
		"location=moon",
		"default_device=a", "huge_pages=2", "disk_path=", "disk_path=\xff", "fallback=", "simulated_devices=9999999999",
	} {
		before := o
		_, err := o.Parse("memory_limit=1 " + text)
		assert.Equal(t, status.InvalidArgument, status.CodeOf(err), text)
		assert.Equal(t, before, o, text)
	}
}

func TestPagesOfAllSizesKeepTheirBytes(t *testing.T) {
	withContext(t, defaults(), func(_ uint64, c *Context) {
		sizes := []uint64{1, 63, 64, 65, 255, 256, 257, 4095, 4096, 4097, 65536, 1 << 20, 1<<20 + 1, 5 << 20}
		for i, from := range sizes {
			for j, to := range sizes {
				page := create(t, c, from, 0)
				old := fill(t, page, byte(i+j))
				require.NoError(t, Resize(page, to))
				want := make([]byte, to)
				copy(want, old)
				require.True(t, bytes.Equal(want, content(t, page)), "%d to %d", from, to)
				require.Zero(t, nativetest.Destroy(page))
			}
		}
	})
}

func TestPlacesKeepBytesAndMetadata(t *testing.T) {
	options := defaults()
	options.DiskPath = t.TempDir()
	withContext(t, options, func(_ uint64, c *Context) {
		for _, size := range []uint64{1, 100, 4096, 70000, 3 << 20} {
			page := create(t, c, size, 0)
			want := fill(t, page, 7)
			require.NoError(t, SetMetadata(page, []byte("key"), []byte("value")))
			for _, location := range []int32{abi.LocationDisk, abi.LocationCPU, abi.LocationDisk, abi.LocationDisk} {
				require.NoError(t, Migrate(page, location, 0))
				require.True(t, bytes.Equal(want, content(t, page)))
			}
			clone, err := Clone(page, 99)
			require.NoError(t, err)
			require.True(t, bytes.Equal(want, content(t, clone)))
			require.NoError(t, GetMetadata(clone, []byte("key"), func(value []byte) error {
				assert.Equal(t, "value", string(value))
				return nil
			}))
			require.Zero(t, nativetest.Destroy(page))
			require.Zero(t, nativetest.Destroy(clone))
			require.Zero(t, c.residency.DiskUsed())
		}
		page := create(t, c, 10, 0)
		for _, location := range []int32{abi.LocationGPU, abi.LocationUnified, abi.LocationPinned} {
			assert.Equal(t, status.NoDevice, status.CodeOf(Migrate(page, location, 0)))
		}
		assert.Equal(t, status.InvalidArgument, status.CodeOf(Migrate(page, 77, 0)))
		assert.Equal(t, status.InvalidArgument, status.CodeOf(Migrate(page, abi.LocationDisk, 1)))
	})
	left, err := os.ReadDir(options.DiskPath)
	require.NoError(t, err)
	assert.Empty(t, left)
}

func TestTheMemoryLimitIsExactAndGivenBack(t *testing.T) {
	options := defaults()
	options.MemoryLimit = 8 << 20
	withContext(t, options, func(_ uint64, c *Context) {
		for _, size := range []uint64{64, 4096, 100000, 2 << 20, 192} {
			var pages []uint64
			for {
				page, err := c.Create(size, plain)
				if err != nil {
					require.Equal(t, status.Limit, status.CodeOf(err))
					break
				}
				pages = append(pages, page)
				require.LessOrEqual(t, c.memory.Used(), options.MemoryLimit)
			}
			require.GreaterOrEqual(t, uint64(len(pages))*size, options.MemoryLimit/2, "pages of %d", size)
			native.Uncreate(pages)
		}
		c.Trim()
		assert.LessOrEqual(t, c.memory.Used(), uint64(1<<20)) // what this thread's magazines keep
	})
}

// What pages that have ended leave behind for a while makes room for others at the limit.
func TestMemoryOfEndedPagesMakesRoomAtTheLimit(t *testing.T) {
	options := defaults()
	options.MemoryLimit = 8 << 20
	withContext(t, options, func(_ uint64, c *Context) {
		page := create(t, c, 2<<20, 0)
		native.Uncreate([]uint64{create(t, c, 1<<20, 0), create(t, c, 1<<20, 0)})
		require.NoError(t, Resize(page, 8<<20))
		require.Equal(t, status.Limit, status.CodeOf(Resize(page, 9<<20)))
	})
}

func TestPagesOfANodeComeFromMappings(t *testing.T) {
	withContext(t, defaults(), func(_ uint64, c *Context) {
		options := plain
		options.NUMANode = 0
		page, err := c.Create(100, options)
		if status.CodeOf(err) == status.Unsupported {
			t.Log("the kernel refuses mbind: only the refusal is tested")
			return
		}
		require.NoError(t, err)
		want := fill(t, page, 3)
		require.NoError(t, Resize(page, 5000))
		require.True(t, bytes.Equal(want, content(t, page)[:100]))
		require.EqualValues(t, native.ClassMapped, native.Class(native.RecordAt(native.Index(page)).LoadState()))
		clone, err := Clone(page, 0)
		require.NoError(t, err)
		require.NoError(t, Migrate(clone, abi.LocationDisk, 0))
		require.NoError(t, Migrate(clone, abi.LocationCPU, 0))
		require.EqualValues(t, native.ClassMapped, native.Class(native.RecordAt(native.Index(clone)).LoadState()))
		require.True(t, bytes.Equal(want, content(t, clone)[:100]))
		require.Zero(t, nativetest.Destroy(clone))
		require.Zero(t, nativetest.Destroy(page))
		options.NUMANode = 900
		_, err = c.Create(100, options)
		assert.Equal(t, status.InvalidArgument, status.CodeOf(err))
		options.NUMANode, options.Location = 0, abi.LocationDisk
		_, err = c.Create(100, options)
		assert.Equal(t, status.InvalidArgument, status.CodeOf(err))
	})
}

func TestManyPagesComeInTimeOrNotAtAll(t *testing.T) {
	withContext(t, defaults(), func(h uint64, c *Context) {
		pages := make([]uint64, 10000)
		require.NoError(t, CreateManyWithin(h, 64, plain, pages, nil, math.MaxUint64-1))
		require.EqualValues(t, len(pages), c.Count())
		native.Uncreate(pages)
		waiting := ticket.Start(0, nil, func(w *ticket.Work) error {
			<-w.Done()
			return nil
		})
		err := CreateManyWithin(h, 64, plain, pages, []*ticket.Ticket{waiting}, 1000000)
		require.Equal(t, status.Timeout, status.CodeOf(err))
		waiting.Cancel()
		waiting.Close()
		require.Zero(t, c.Count())
	})
}

// Random calls from many goroutines on the same pages; the race detector and the final recount look for what is wrong.
func TestCallsFromManyGoroutines(t *testing.T) {
	options := defaults()
	options.DiskPath = t.TempDir()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	withContext(t, options, func(_ uint64, c *Context) {
		const shared = 32
		var lock sync.Mutex
		pages := make([]uint64, shared)
		for i := range pages {
			pages[i] = create(t, c, 100, 0)
		}
		pick := func(random *rand.Rand) uint64 {
			lock.Lock()
			defer lock.Unlock()
			return pages[random.IntN(shared)]
		}
		var group sync.WaitGroup
		for worker := range uint64(6) {
			group.Add(1)
			go func() {
				defer group.Done()
				runtime.LockOSThread() // as a call from C is: native code keeps its last error per thread
				random := rand.New(rand.NewPCG(seed, worker))
				for range 1500 {
					page := pick(random)
					var err error
					switch random.IntN(9) {
					case 0:
						err = Resize(page, 1+random.Uint64N(9000))
					case 1:
						err = Migrate(page, []int32{abi.LocationCPU, abi.LocationDisk}[random.IntN(2)], 0)
					case 2:
						err = SetMetadata(page, []byte{'a' + byte(random.IntN(4))}, make([]byte, random.IntN(5000)))
					case 3:
						var clone uint64
						if clone, err = Clone(page, 0); err == nil {
							nativetest.Destroy(clone)
						}
					case 4:
						err = AddDependency(page, pick(random))
					case 5:
						_, err = Difference(page, pick(random))
					case 6:
						var cursor uint64
						for found := [64]uint64{}; c.Pages(&cursor, found[:]) > 0; {
						}
						c.Stats()
					case 7:
						c.Trim()
					case 8:
						var fresh uint64
						if fresh, err = c.Create(1+random.Uint64N(6000), plain); err == nil {
							lock.Lock()
							at := random.IntN(shared)
							fresh, pages[at] = pages[at], fresh
							lock.Unlock()
							err = lasterror.Load(nativetest.Destroy(fresh))
						}
					}
					switch code := status.CodeOf(err); code {
					case status.OK, status.StaleHandle, status.AlreadyExists, status.InvalidArgument, status.Mismatch,
						status.NotFound:
					default:
						t.Errorf("unexpected %v", err)
					}
				}
			}()
		}
		group.Wait()
		stats := c.Stats()
		assert.EqualValues(t, shared, stats.Creates-stats.Frees)
		var sizes uint64
		for _, page := range pages {
			sizes += uint64(len(content(t, page)))
		}
		assert.Equal(t, sizes, stats.BytesCreated-stats.BytesFreed)
	})
}

func TestDifferenceTurnsOnePageIntoAnother(t *testing.T) {
	withContext(t, defaults(), func(_ uint64, c *Context) {
		a, b := create(t, c, 5000, 0), create(t, c, 5000, 0)
		before, want := fill(t, a, 1), fill(t, b, 1)
		for _, i := range []int{0, 17, 18, 19, 4999} {
			want[i] ^= 0xff
		}
		require.NoError(t, Read(b, func(p *Page) error {
			copy(p.Bytes(), want)
			return nil
		}))
		form, err := Difference(a, b)
		require.NoError(t, err)
		payload := form.Payload
		for _, run := range form.Runs {
			payload = payload[copy(before[run.Offset:][:run.Length], payload):]
		}
		assert.True(t, bytes.Equal(want, before))
		assert.EqualValues(t, 3, form.Count)
		form, err = Difference(a, a)
		require.NoError(t, err)
		assert.Zero(t, form.Count)
	})
}

// refusing are devices that no page can lie on.
type refusing struct {
	residency.NoDevices
	ended, closed int
}

func (r *refusing) End()   { r.ended++ }
func (r *refusing) Close() { r.closed++ }

// halting are devices whose memory nobody gets before they are let go, and then nobody does.
type halting struct {
	residency.NoDevices
	asked, goOn chan struct{}
}

func (h *halting) Check(int32, int32) error { return nil }
func (h *halting) Simulated() bool          { return true }
func (h *halting) AllocateHost(_, _ int32, _ uint64) (uintptr, error) {
	h.asked <- struct{}{}
	<-h.goOn
	return 0, status.Errorf(status.OutOfMemory, "no memory")
}

// While asynchronous work moves a page, calls that end it or give it other memory do not wait. While a blocking call does, they
// wait, as every other call.
func TestAPageThatMovesIsBusy(t *testing.T) {
	devices := &halting{asked: make(chan struct{}), goOn: make(chan struct{})}
	UseDevices(func(*Options) residency.Devices { return devices })
	t.Cleanup(func() { devicesOf.Store(nil) })
	withContext(t, defaults(), func(_ uint64, c *Context) {
		page, other := create(t, c, 100, 0), create(t, c, 100, 0)
		want := fill(t, page, 3)
		work := ticket.Start(1, nil, func(w *ticket.Work) error {
			_, err := MigrateMany([]uint64{page}, abi.LocationPinned, 0, nil, w)
			return err
		})
		<-devices.asked
		_, _, released := Release(page)
		_, checked := CheckMigrateMany([]uint64{other, page}, abi.LocationDisk, 0)
		for what, err := range map[string]error{
			"resize": Resize(page, 50), "release": released, "migrate": Migrate(page, abi.LocationDisk, 0), "check": checked,
		} {
			assert.Equal(t, status.Busy, status.CodeOf(err), what)
			assert.ErrorContains(t, err, "is being moved", what)
		}
		assert.EqualValues(t, status.Busy, nativetest.Destroy(page))
		read := make(chan int32)
		go func() { read <- nativetest.ReadPage(page, 0, make([]byte, 100)) }()
		select {
		case <-read:
			assert.Fail(t, "a read did not wait")
		case <-time.After(20 * time.Millisecond):
		}
		close(devices.goOn)
		assert.Equal(t, status.OutOfMemory, status.CodeOf(work.Wait(ticket.Forever)))
		work.Close()
		assert.Zero(t, <-read)
		assert.Equal(t, want, content(t, page))
		assert.NoError(t, Migrate(page, abi.LocationDisk, 0))
		assert.NoError(t, Resize(page, 50))
		assert.Zero(t, nativetest.Destroy(page))

		devices.goOn = make(chan struct{})
		migrated := make(chan error)
		go func() { migrated <- Migrate(other, abi.LocationPinned, 0) }()
		<-devices.asked
		destroyed := make(chan int32)
		go func() { destroyed <- nativetest.Destroy(other) }()
		close(devices.goOn)
		assert.Equal(t, status.OutOfMemory, status.CodeOf(<-migrated))
		assert.Zero(t, <-destroyed)
	})
}

func TestAContextWithoutItsDefaultDeviceLeavesNoDevicesOpen(t *testing.T) {
	devices := &refusing{}
	UseDevices(func(*Options) residency.Devices { return devices })
	t.Cleanup(func() { devicesOf.Store(nil) })
	live := LiveContexts()
	_, err := NewContext(Options{DefaultLocation: abi.LocationGPU, SimulatedDevices: 1})
	require.Equal(t, status.NoDevice, status.CodeOf(err))
	assert.Equal(t, live, LiveContexts())
	assert.Equal(t, 1, devices.ended)
	assert.Equal(t, 1, devices.closed)
}

// Pages outlive their context while they are pinned. A context that has its index meanwhile counts nothing of their end.
func TestTheLastUnpinCountsInNoOtherContext(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	begin := func() (uint64, *Context) {
		h, err := NewContext(defaults())
		require.NoError(t, err)
		c, err := contexts.Get(h)
		require.NoError(t, err)
		return h, c
	}
	for _, write := range []bool{false, true} {
		first, c := begin()
		var pinned []uint64
		for _, size := range []uint64{1, 4096, 5000, 3 << 20} {
			pinned = append(pinned, create(t, c, size, 0))
		}
		last := native.Index(create(t, c, 64, 0)) // its record is at the last generation
		record := native.RecordAt(last)
		state := record.LoadState()
		record.StoreState(state + uint64(native.GenerationMax-native.Generation(state))<<native.IndexBits)
		pinned = append(pinned, native.Handle(native.KindPage, native.GenerationMax, last))
		for _, page := range pinned {
			_, code := nativetest.PinPage(page, write)
			require.Zero(t, code)
		}
		require.NoError(t, Destroy(first))

		second, other := begin()
		require.Equal(t, native.Index(first), native.Index(second))
		create(t, other, 5000, 0)
		for _, page := range pinned {
			require.Zero(t, nativetest.UnpinPage(page, write))
		}
		stats := other.Stats()
		require.EqualValues(t, 1, stats.Creates-stats.Frees)
		require.EqualValues(t, 5000, stats.BytesCreated-stats.BytesFreed)
		require.NoError(t, other.Check())
		require.NoError(t, Destroy(second))
	}
	require.Zero(t, LivePages())
	require.Zero(t, memory.Outliving())
}
