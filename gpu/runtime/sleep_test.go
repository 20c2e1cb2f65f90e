package runtime

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"libmmsb/core/file"
	"libmmsb/core/file/filetest"
	"libmmsb/core/pool"
	"libmmsb/core/status"
	"libmmsb/gpu/driver"
	"libmmsb/gpu/sim"
)

// counting is a device that counts the bytes that are copied, and keeps the names of calls that a sleep or a wake makes. Each may
// take a time of its own.
type counting struct {
	driver.Device
	copied atomic.Uint64
	mutex  sync.Mutex
	calls  []string
	costs  map[string]time.Duration
}

func (c *counting) call(name string) {
	c.mutex.Lock()
	c.calls = append(c.calls, name)
	c.mutex.Unlock()
	for end := time.Now().Add(c.costs[name]); time.Now().Before(end); {
		time.Sleep(time.Until(end))
	}
}

// said are the calls since it was asked last.
func (c *counting) said() []string {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	said := c.calls
	c.calls = nil
	return said
}

func (c *counting) Copy(stream driver.Stream, copies ...driver.Copy) error {
	for _, copied := range copies {
		c.copied.Add(copied.Bytes)
	}
	c.call("copy")
	return c.Device.Copy(stream, copies...)
}

func (c *counting) Allocate(kind driver.Memory, bytes uint64) (driver.Address, error) {
	c.call("allocate")
	return c.Device.Allocate(kind, bytes)
}

func (c *counting) Free(kind driver.Memory, address driver.Address) error {
	c.call("free")
	return c.Device.Free(kind, address)
}

func (c *counting) CreatePhysical(bytes uint64) (driver.Physical, error) {
	c.call("create")
	return c.Device.CreatePhysical(bytes)
}

func (c *counting) DestroyPhysical(physical driver.Physical) error {
	c.call("destroy")
	return c.Device.DestroyPhysical(physical)
}

func (c *counting) Map(address driver.Address, peers bool, memory ...driver.Physical) error {
	c.call("map")
	return c.Device.Map(address, peers, memory...)
}

func (c *counting) Unmap(address driver.Address) error {
	c.call("unmap")
	return c.Device.Unmap(address)
}

func (c *counting) SynchronizeStream(stream driver.Stream) error {
	c.call("wait")
	return c.Device.SynchronizeStream(stream)
}

func (c *counting) SynchronizeEvent(event driver.Event) error {
	c.call("wait")
	return c.Device.SynchronizeEvent(event)
}

// sleeper is a world with a pool, and blocks of tags whose bytes are known.
type sleeper struct {
	*world
	counting *counting
	t        testing.TB
	seen     driver.Address // pinned memory of a MiB
	live     []sleeping
}

type sleeping struct {
	handle, bytes uint64
	address       driver.Address
	tag           Tag
	value         byte
	known         bool // its bytes are value
}

// tagOf is a tag of the tests.
func tagOf(t testing.TB, name string) Tag {
	tag, err := TagOf(name)
	require.NoError(t, err)
	return tag
}

func sleeperOf(t testing.TB, d *sim.Driver, streams int, of Options) (*sleeper, error) {
	device, err := d.Open(0)
	require.NoError(t, err)
	s := &sleeper{t: t, counting: &counting{Device: device}}
	if s.world, err = newWorldOver(d, s.counting, streams, of); err != nil {
		return nil, err
	}
	s.seen, err = device.Allocate(driver.Pinned, mib)
	return s, err
}

func newSleeper(t testing.TB, options sim.Options, streams int, of pool.Options, tags ...string) *sleeper {
	d, err := sim.New(options)
	require.NoError(t, err)
	s, err := sleeperOf(t, d, streams, Options{Pool: &of})
	require.NoError(t, err)
	for _, name := range tags {
		require.NoError(t, s.runtime.Partition(tagOf(t, name)))
	}
	t.Cleanup(func() {
		if !t.Failed() {
			s.finish()
			require.NoError(t, d.Problems())
		}
		d.Close()
	})
	return s
}

// finish frees everything and closes the runtime.
func (s *sleeper) finish() {
	for len(s.live) > 0 {
		s.free(0)
	}
	require.NoError(s.t, s.counting.Device.Free(driver.Pinned, s.seen))
	require.NoError(s.t, s.end())
}

// make allocates a block and fills it.
func (s *sleeper) make(stream int, bytes uint64, tag Tag, value byte) error {
	handle, address, err := s.runtime.Allocate(Request{Bytes: bytes, Stream: s.streams[stream], Tag: tag})
	if err != nil {
		return err
	}
	s.live = append(s.live, sleeping{handle, bytes, address, tag, value, true})
	return s.fill(stream, len(s.live)-1, value)
}

func (s *sleeper) fill(stream, at int, value byte) error {
	b := &s.live[at]
	use, _, err := BeginUse(s.streams[stream], Use{Block: b.handle, Access: Write})
	if err != nil {
		return err
	}
	b.value, b.known = value, true
	require.NoError(s.t, s.device.Fill(s.streams[stream].native, b.address, value, b.bytes))
	return EndUse(use)
}

func (s *sleeper) free(at int) {
	_, err := Free(s.live[at].handle, nil)
	require.NoError(s.t, err)
	s.live = append(s.live[:at], s.live[at+1:]...)
}

// verify reads a block, and sees that its bytes are as they were written.
func (s *sleeper) verify(at int) {
	b := s.live[at]
	for from := uint64(0); from < b.bytes; from += mib {
		some := min(mib, b.bytes-from)
		use, _, err := BeginUse(s.streams[0], Use{Block: b.handle, Access: Read})
		require.NoError(s.t, err)
		require.NoError(s.t, s.counting.Device.Copy(s.streams[0].native,
			driver.Copy{To: s.seen, From: b.address + driver.Address(from), Bytes: some}))
		require.NoError(s.t, EndUse(use))
		require.NoError(s.t, s.streams[0].Synchronize())
		for i, found := range pinnedBytes(s.seen, int(some)) {
			if b.known && found != b.value {
				require.Fail(s.t, "content", "byte %d of %d is %d, not %d", from+uint64(i), b.bytes, found, b.value)
			}
		}
	}
}

func (s *sleeper) freeMemory() uint64 {
	free, _, err := s.device.MemoryInfo()
	require.NoError(s.t, err)
	return free + scratchBytes*uint64(len(s.scratch)) // which the test itself has
}

// forever are options of a sleep in a mode.
func forever(t testing.TB, mode SleepMode) SleepOptions {
	return SleepOptions{Mode: mode, Folder: t.TempDir(), Timeout: -1}
}

func TestTagsSleepAndWake(t *testing.T) {
	for name, mode := range map[string]SleepMode{"drop": SleepDrop, "keep": SleepKeep, "file": SleepFile} {
		t.Run(name, func(t *testing.T) {
			s := newSleeper(t, sim.Options{Memory: 128 * mib}, 2, pool.Options{}, "weights", "cache")
			weights, cache := tagOf(t, "weights"), tagOf(t, "cache")
			for i, bytes := range []uint64{30 * mib, 1000, 700_000, 5 * mib, 512} { // some of them beside each other
				require.NoError(t, s.make(i%2, bytes, weights, byte(10+i)))
				require.NoError(t, s.make(i%2, bytes/2, cache, byte(20+i)))
				require.NoError(t, s.make(i%2, 300, 0, byte(30+i)))
			}
			for _, at := range []int{9, 6} { // what is free is not kept
				s.free(at)
			}
			require.NoError(t, s.device.Synchronize())
			require.NoError(t, s.runtime.Trim(0))
			before, held := s.freeMemory(), s.runtime.Pool().Statistics().Held
			options := forever(t, mode)
			require.NoError(t, s.runtime.Sleep([]Tag{weights, cache}, options))
			require.NoError(t, s.runtime.Pool().Check())
			statistics := s.runtime.Pool().Statistics()
			require.Equal(t, uint64(2*mib), statistics.Reserved, "that of blocks without a tag")
			require.Equal(t, uint64(126*mib), s.freeMemory())
			require.Equal(t, 126*mib-before, statistics.Sleeping)
			kept := held - statistics.Held
			if mode == SleepDrop {
				kept = 0
			}
			require.Equal(t, [3]uint64{kept, kept, kept},
				[3]uint64{statistics.Kept, statistics.Copied, s.counting.copied.Load()})
			entries, err := os.ReadDir(options.Folder)
			require.NoError(t, err)
			require.Empty(t, entries, "the file has no name")
			other, _, err := s.allocate(0, 100*mib)
			require.NoError(t, err, "the memory serves others")
			info, err := FindBlock(s.live[0].handle)
			require.NoError(t, err)
			require.True(t, info.Asleep)
			info, err = FindBlock(other)
			require.NoError(t, err)
			require.False(t, info.Asleep)
			_, err = Free(other, nil)
			require.NoError(t, err)

			require.NoError(t, s.runtime.Wake([]Tag{cache, weights, cache}))
			require.NoError(t, s.runtime.Pool().Check())
			statistics = s.runtime.Pool().Statistics()
			require.Equal(t, [4]uint64{held, 0, 0, 2 * kept},
				[4]uint64{statistics.Held, statistics.Sleeping, statistics.Kept, s.counting.copied.Load()})
			for at := range s.live {
				s.live[at].known = mode != SleepDrop || s.live[at].tag == 0
				s.verify(at)
			}
			info, err = FindBlock(s.live[0].handle)
			require.NoError(t, err)
			require.False(t, info.Asleep)
			require.NoError(t, s.make(1, 5*mib, weights, 1))
		})
	}
}

// Of 40 MiB and 3 of another tag: nothing waits between copies, those before run while the driver pins, maps and unmaps, and the
// second sleep pins nothing.
func TestCopiesRunBesideTheDriver(t *testing.T) {
	s := newSleeper(t, sim.Options{Memory: 128 * mib}, 1, pool.Options{LargeStep: 2 * mib}, "weights", "cache")
	tags := []Tag{tagOf(t, "weights"), tagOf(t, "cache")}
	require.NoError(t, s.make(0, 40*mib, tags[0], 1))
	require.NoError(t, s.make(0, 3*mib, tags[1], 2))
	repeat := func(count int, names ...string) (all []string) {
		for range count {
			all = append(all, names...)
		}
		return all
	}
	for round := range 3 {
		s.runtime.Reap()
		require.NoError(t, s.streams[0].Synchronize())
		s.counting.said()
		require.NoError(t, s.runtime.Sleep(tags, forever(t, SleepKeep)))
		copies := repeat(4, "copy")
		if round == 0 {
			copies = repeat(4, "allocate", "copy")
		}
		unmaps := slices.Concat([]string{"wait"}, repeat(8, "unmap"), []string{"wait"}, repeat(8, "unmap"), []string{"wait"},
			repeat(4, "unmap"), []string{"wait"}, repeat(2, "unmap"))
		said := s.counting.said()
		require.Equal(t, slices.Concat(copies, unmaps, repeat(22, "destroy")), said[slices.Index(said, copies[0]):])
		require.NoError(t, s.runtime.Wake(tags))
		back := func(segments int) []string { return append(repeat(segments, "create", "map"), "copy") }
		require.Equal(t, slices.Concat(back(8), back(8), back(4), back(2), repeat(laneCount, "wait")), s.counting.said())
		s.verify(0)
		s.verify(1)
	}
	require.NoError(t, s.runtime.Trim(0))
	require.Equal(t, 4, len(slices.DeleteFunc(s.counting.said(), func(name string) bool { return name != "free" })))
}

// Pinned memory that served one tag serves others, the smallest that suffices, and a file's buffers.
func TestPinnedMemoryServesTheNextTag(t *testing.T) {
	s := newSleeper(t, sim.Options{Memory: 128 * mib}, 1, pool.Options{LargeStep: 2 * mib}, "weights", "cache", "adapters")
	before := MemoryOf(nil).Charged
	weights, cache, adapters := tagOf(t, "weights"), tagOf(t, "cache"), tagOf(t, "adapters")
	require.NoError(t, s.make(0, 21*mib-5000, weights, 1))
	require.NoError(t, s.make(0, 18*mib, cache, 2))
	require.NoError(t, s.make(0, 3*mib, adapters, 4))
	pinnedNow := func() [2]uint64 { return [2]uint64{MemoryOf(nil).Charged - before, MemoryOf(nil).Free} }
	require.NoError(t, s.runtime.Sleep([]Tag{adapters}, forever(t, SleepKeep)))
	require.NoError(t, s.runtime.Wake([]Tag{adapters}))
	require.Equal(t, [2]uint64{3 * mib, 3 * mib}, pinnedNow())
	require.NoError(t, s.runtime.Sleep([]Tag{weights}, forever(t, SleepKeep)))
	require.Equal(t, [2]uint64{24 * mib, 3 * mib}, pinnedNow(), "3 MiB are too small for the last 5")
	require.NoError(t, s.runtime.Wake([]Tag{weights}))
	require.NoError(t, s.runtime.Sleep([]Tag{cache}, forever(t, SleepKeep)))
	require.Equal(t, [2]uint64{24 * mib, 5 * mib}, pinnedNow(), "and enough for the last 2")
	require.NoError(t, s.runtime.Sleep([]Tag{weights}, forever(t, SleepKeep)), "16 MiB are not left for it")
	require.Equal(t, [2]uint64{40 * mib, 0}, pinnedNow())
	require.NoError(t, s.runtime.Wake([]Tag{weights, cache}))
	require.Equal(t, [2]uint64{40 * mib, 40 * mib}, pinnedNow())
	require.NoError(t, s.runtime.Sleep([]Tag{cache, weights}, forever(t, SleepFile)))
	require.Equal(t, [2]uint64{40 * mib, 40 * mib}, pinnedNow())
	require.NoError(t, s.runtime.Wake([]Tag{weights, cache}))
	s.verify(0)
	s.verify(1)
	require.NoError(t, s.driver.Inject(sim.Fault{Call: sim.Copy, After: 3}))
	requireCode(t, status.Device, s.runtime.Sleep([]Tag{cache, weights}, forever(t, SleepKeep)))
	require.Equal(t, [2]uint64{40 * mib, 40 * mib}, pinnedNow())
	require.NoError(t, s.runtime.Sleep([]Tag{weights, cache}, forever(t, SleepKeep)), "it has what the failed one copied to")
	require.NoError(t, s.runtime.Wake([]Tag{weights, cache}))
	require.NoError(t, s.driver.Inject(sim.Fault{Call: sim.Allocate}))
	require.NoError(t, s.make(0, 30*mib, cache, 3))
	require.NoError(t, s.runtime.Sleep([]Tag{cache}, forever(t, SleepKeep)), "the driver has more when what is free went back")
	require.NoError(t, s.runtime.Wake([]Tag{cache}))
	s.verify(3)
}

// One of the tags that slept together wakes alone, and what was freed meanwhile is not copied back.
func TestBlocksThatSleepAreFreed(t *testing.T) {
	for _, mode := range []SleepMode{SleepKeep, SleepFile} {
		s := newSleeper(t, sim.Options{Memory: 256 * mib}, 1, pool.Options{}, "weights", "cache")
		weights, cache := tagOf(t, "weights"), tagOf(t, "cache")
		for i := range byte(6) {
			require.NoError(t, s.make(0, 10*mib, weights, i))
			require.NoError(t, s.make(0, 3*mib, cache, 10+i))
		}
		require.NoError(t, s.runtime.Sleep([]Tag{weights, cache}, forever(t, mode)))
		require.Equal(t, uint64(78*mib), s.runtime.Pool().Statistics().Kept)
		s.free(2)
		s.free(5)
		require.Equal(t, uint64(58*mib), s.runtime.Pool().Statistics().Kept)
		require.NoError(t, s.runtime.Wake([]Tag{weights}))
		require.Equal(t, uint64(18*mib), s.runtime.Pool().Statistics().Kept)
		require.Equal(t, uint64((78+40)*mib), s.counting.copied.Load())
		requireCode(t, status.InvalidState, s.runtime.Wake([]Tag{weights, cache}))
		for at := range s.live {
			if s.live[at].tag == weights {
				s.verify(at)
			}
		}
		require.NoError(t, s.runtime.Wake([]Tag{cache}))
		for at := range s.live {
			s.verify(at)
		}
	}
}

func TestSleepsThatCannotBe(t *testing.T) {
	s := newSleeper(t, sim.Options{Memory: 64 * mib, HostMemory: 24 * mib}, 2, pool.Options{}, "weights")
	weights, keep := tagOf(t, "weights"), forever(t, SleepKeep)
	require.NoError(t, s.make(0, 30*mib, weights, 1))
	undeclared := tagOf(t, "never declared")
	requireCode(t, status.InvalidArgument, s.runtime.Sleep([]Tag{weights, undeclared}, keep))
	requireCode(t, status.InvalidArgument, s.runtime.Wake([]Tag{undeclared}))
	requireCode(t, status.InvalidArgument, s.runtime.Partition(1<<20))
	requireCode(t, status.InvalidState, s.runtime.Wake([]Tag{weights}))
	charged := MemoryOf(nil).Charged
	requireCode(t, status.OutOfMemory, s.runtime.Sleep([]Tag{weights}, keep))
	require.Equal(t, charged, MemoryOf(nil).Charged, "what it got went back")
	missing := forever(t, SleepFile)
	missing.Folder += "/missing"
	requireCode(t, status.NotFound, s.runtime.Sleep([]Tag{weights}, missing))
	use, _, err := BeginUse(s.streams[0], Use{Block: s.live[0].handle, Access: Read})
	require.NoError(t, err)
	drop := forever(t, SleepDrop)
	err = s.runtime.Sleep([]Tag{weights}, drop)
	requireCode(t, status.Busy, err)
	require.ErrorContains(t, err, "is in use on stream 1: 1 reads")
	require.NoError(t, EndUse(use))
	s.verify(0)
	require.NoError(t, s.runtime.Partition(weights), "it keeps its segments")
	require.NoError(t, s.runtime.Sleep([]Tag{weights}, drop))
	requireCode(t, status.InvalidState, s.runtime.Sleep([]Tag{weights}, drop))
	_, _, err = BeginUse(s.streams[0], Use{Block: s.live[0].handle, Access: Read})
	requireCode(t, status.InvalidState, err)
	require.ErrorContains(t, err, "tag weights sleeps")
	requireCode(t, status.InvalidState, s.make(0, 1, weights, 1))
	handle, _, err := s.allocate(0, 40*mib)
	require.NoError(t, err)
	err = s.runtime.Wake([]Tag{weights})
	requireCode(t, status.OutOfMemory, err)
	require.ErrorContains(t, err, "31457280 bytes for what wakes")
	require.ErrorContains(t, err, "31457280 sleep")
	require.NoError(t, s.runtime.Pool().Check())
	_, err = Free(handle, nil)
	require.NoError(t, err)
	require.NoError(t, s.runtime.Wake([]Tag{weights}))
	require.NoError(t, s.runtime.Sleep(nil, drop), "nobody sleeps")

	guarded, err := newWorldOf(s.driver, 1, Options{Pool: &pool.Options{}, Adaptors: []Adaptor{NewGuard(GuardOptions{})}})
	require.NoError(t, err)
	require.NoError(t, guarded.runtime.Partition(weights))
	requireCode(t, status.Unsupported, guarded.runtime.Sleep([]Tag{weights}, drop))
	require.NoError(t, guarded.end())
	plain, err := newWorldOf(s.driver, 1, Options{})
	require.NoError(t, err)
	requireCode(t, status.Unsupported, plain.runtime.Partition(weights))
	requireCode(t, status.Unsupported, plain.runtime.Sleep([]Tag{weights}, drop))
	require.NoError(t, plain.end())
	requireCode(t, status.StaleHandle, plain.runtime.Sleep([]Tag{weights}, drop))
	requireCode(t, status.StaleHandle, plain.runtime.Wake([]Tag{weights}))
	requireCode(t, status.StaleHandle, plain.runtime.Partition(weights))
}

// A tag that sleeps gives no memory, whatever the program frees for it: it is not asked.
func TestASleepingTagIsRefusedFirst(t *testing.T) {
	weights, drop := tagOf(t, "weights"), forever(t, SleepDrop)
	failure := NewFailure(3, func(Request, int, error) bool {
		t.Error("the program was asked for memory")
		return false
	})
	w := newWorldWith(t, sim.Options{}, 1, Options{Pool: &pool.Options{},
		Adaptors: []Adaptor{NewBudget(NewLedger(8 * mib)), failure}})
	require.NoError(t, w.runtime.Partition(weights))
	request := Request{Bytes: 6 * mib, Stream: w.streams[0], Tag: weights}
	handle, _, err := w.runtime.Allocate(request)
	require.NoError(t, err)
	require.NoError(t, w.runtime.Sleep([]Tag{weights}, drop))
	_, _, err = w.runtime.Allocate(request)
	requireCode(t, status.InvalidState, err)
	_, err = Free(handle, nil)
	require.NoError(t, err)
}

// What other runtimes of the device keep and do not need is there for a wake.
func TestOtherRuntimesGiveMemoryForAWake(t *testing.T) {
	s := newSleeper(t, sim.Options{Memory: 32 * mib}, 1, pool.Options{}, "weights")
	weights := tagOf(t, "weights")
	require.NoError(t, s.make(0, 20*mib, weights, 5))
	require.NoError(t, s.runtime.Sleep([]Tag{weights}, forever(t, SleepKeep)))
	other := beside(t, s.world, 1, pooledOptions())
	handle, _, err := other.allocate(0, 28*mib)
	require.NoError(t, err)
	requireCode(t, status.OutOfMemory, s.runtime.Wake([]Tag{weights}))
	free(t, handle)
	require.NoError(t, s.runtime.Wake([]Tag{weights}))
	s.verify(0)
}

// Sleep comes behind queued work, or not at all.
func TestASleepWaitsForQueuedWork(t *testing.T) {
	var held atomic.Pointer[chan struct{}]
	s := newSleeper(t, sim.Options{Memory: 64 * mib, Latency: time.Nanosecond, Hold: func() {
		if until := held.Load(); until != nil {
			<-*until
		}
	}}, 2, pool.Options{}, "weights")
	weights := tagOf(t, "weights")
	require.NoError(t, s.make(0, 5*mib, weights, 7))
	require.NoError(t, s.streams[0].Synchronize())
	goOn := make(chan struct{})
	release := sync.OnceFunc(func() {
		held.Store(nil)
		close(goOn)
	})
	t.Cleanup(release)
	held.Store(&goOn)
	require.NoError(t, s.fill(1, 0, 8))
	options := forever(t, SleepDrop)
	options.Timeout = 0
	requireCode(t, status.WouldBlock, s.runtime.Sleep([]Tag{weights}, options))
	options.Timeout = 5 * time.Millisecond
	requireCode(t, status.Timeout, s.runtime.Sleep([]Tag{weights}, options))
	require.NoError(t, s.runtime.Pool().Check())
	time.AfterFunc(10*time.Millisecond, release)
	options.Timeout, options.Mode = time.Minute, SleepKeep
	require.NoError(t, s.runtime.Sleep([]Tag{weights}, options))
	require.NoError(t, s.runtime.Wake([]Tag{weights}))
	s.verify(0)
}

// A disk that is full, and one that fails: nothing has changed, and the tag sleeps as soon as it can.
func TestTheDiskFails(t *testing.T) {
	defer func() { nameless = file.Nameless }()
	weights := tagOf(t, "weights")
	for name, c := range map[string]struct {
		fault  filetest.Fault
		asleep bool // the fault comes in the wake
		want   status.Code
	}{
		"no space is left":     {filetest.Fault{Kind: filetest.Allocate, Nth: 1, Errno: syscall.ENOSPC}, false, status.NoSpace},
		"no space is left now": {filetest.Fault{Kind: filetest.Write, Nth: 2, Errno: syscall.ENOSPC}, false, status.NoSpace},
		"a write fails":        {filetest.Fault{Kind: filetest.Write, Nth: 1, Errno: syscall.EIO}, false, status.IO},
		"a read fails":         {filetest.Fault{Kind: filetest.Read, Nth: 1, Errno: syscall.EIO}, true, status.IO},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSleeper(t, sim.Options{Memory: 128 * mib}, 1, pool.Options{}, "weights")
			require.NoError(t, s.make(0, 60*mib, weights, 9))
			faulty := filetest.NewFaulty(file.OS{}, c.fault)
			nameless = func(folder string) (file.File, error) {
				f, err := faulty.Open(folder+"/file", os.O_CREATE|os.O_RDWR, 0o600)
				return f, err
			}
			options := forever(t, SleepFile)
			err := s.runtime.Sleep([]Tag{weights}, options)
			if c.asleep {
				require.NoError(t, err)
				err = s.runtime.Wake([]Tag{weights})
				requireCode(t, c.want, err)
				require.Equal(t, uint64(128*mib), s.freeMemory(), "it sleeps as before")
			} else {
				requireCode(t, c.want, err)
				s.verify(0)
				require.NoError(t, s.runtime.Sleep([]Tag{weights}, options))
			}
			require.Equal(t, 1, faulty.Hits())
			require.NoError(t, s.runtime.Wake([]Tag{weights}))
			s.verify(0)
		})
	}
}

// Whoever touches memory that sleeps without asking is reported, with the lines.
func TestTouchesOfWhatSleepsAreReported(t *testing.T) {
	d, err := sim.New(sim.Options{Memory: 64 * mib})
	require.NoError(t, err)
	defer d.Close()
	s, err := sleeperOf(t, d, 1, Options{Pool: &pool.Options{}})
	require.NoError(t, err)
	weights := tagOf(t, "weights")
	require.NoError(t, s.runtime.Partition(weights))
	require.NoError(t, s.make(0, 5*mib, weights, 9))
	require.NoError(t, s.runtime.Sleep([]Tag{weights}, forever(t, SleepKeep)))
	_, count := d.Violations()
	require.Zero(t, count)
	require.Error(t, s.device.Fill(s.streams[0].native, s.live[0].address+3*mib, 1, 100))
	found, count := d.Violations()
	require.Equal(t, 1, count)
	require.Equal(t, sim.NoMemory, found[0].Problem)
	require.Equal(t, [2]sim.Call{sim.Unmap, sim.Fill}, [2]sim.Call{found[0].First.Call, found[0].Second.Call})
	require.Contains(t, found[0].String(), "sleep_test.go")
	require.NoError(t, s.runtime.Wake([]Tag{weights}))
	require.NoError(t, s.device.Fill(s.streams[0].native, s.live[0].address+3*mib, 9, 100))
	require.NoError(t, s.device.Synchronize())
	s.verify(0)
	s.finish()
}

// Each call of the driver fails at each of its first times, in a sleep and in a wake: all is as it was, and it works when it is
// tried again.
func TestASleepWhoseDriverFails(t *testing.T) {
	weights, cache := tagOf(t, "weights"), tagOf(t, "cache")
	for _, mode := range []SleepMode{SleepDrop, SleepKeep, SleepFile} {
		for _, call := range []sim.Call{sim.Allocate, sim.Free, sim.Reserve, sim.CreatePhysical, sim.DestroyPhysical, sim.Map,
			sim.Unmap, sim.CreateStream, sim.Synchronize, sim.CreateEvent, sim.RecordEvent, sim.QueryEvent, sim.Copy} {
			for _, within := range []string{"declaring", "sleep", "wake"} {
				// The modes differ in little, and lanes by way of a file fail in any order.
				if mode != SleepKeep && (within == "declaring" || raceDetector) ||
					mode == SleepFile && call != sim.Allocate && call != sim.Copy && call != sim.Synchronize {
					continue
				}
				for after, hits := 0, true; hits; after++ {
					d, err := sim.New(sim.Options{Memory: 64 * mib})
					require.NoError(t, err)
					s, err := sleeperOf(t, d, 2, Options{Pool: &pool.Options{LargeStep: 2 * mib}})
					require.NoError(t, err)
					hits = false
					again := func(name string, do func() error) {
						before := s.runtime.Pool().Statistics()
						if name == within {
							require.NoError(t, d.Inject(sim.Fault{Call: call, After: after}))
						}
						err := do()
						if name == within {
							hits = d.Spare() == 0
						}
						require.NoError(t, s.runtime.Pool().Check())
						if err != nil {
							where := fmt.Sprintf("mode %d, %v, call %d, in the %s: %v", mode, call, after, within, err)
							require.Contains(t, []status.Code{status.Device, status.OutOfMemory}, status.CodeOf(err), where)
							now := s.runtime.Pool().Statistics()
							require.Equal(t, [3]uint64{before.Held, before.Sleeping, before.Kept},
								[3]uint64{now.Held, now.Sleeping, now.Kept}, where)
							if name == "sleep" {
								s.verify(0)
								s.verify(1)
							}
							require.NoError(t, do(), where)
						}
						require.NoError(t, s.runtime.Pool().Check())
					}
					again("declaring", func() error { return s.runtime.Partition(weights) })
					require.NoError(t, s.runtime.Partition(cache))
					require.NoError(t, s.make(0, 5*mib, weights, 1))
					require.NoError(t, s.make(1, 5000, cache, 2))
					require.NoError(t, s.make(1, 3000, 0, 3))
					options := forever(t, mode)
					again("sleep", func() error { return s.runtime.Sleep([]Tag{weights, cache}, options) })
					again("wake", func() error { return s.runtime.Wake([]Tag{weights, cache}) })
					for at := range s.live {
						s.live[at].known = mode != SleepDrop || at == 2
						s.verify(at)
					}
					s.finish()
					require.NoError(t, d.Problems(), "mode %d, %v, call %d, in the %s", mode, call, after, within)
					d.Close()
				}
			}
		}
	}
}

// A device that is lost leaves nothing behind.
func TestADeviceIsLostInASleep(t *testing.T) {
	weights := tagOf(t, "weights")
	for _, call := range []sim.Call{sim.Copy, sim.Unmap, sim.Map, sim.CreatePhysical, sim.Synchronize} {
		d, err := sim.New(sim.Options{Memory: 64 * mib})
		require.NoError(t, err)
		s, err := sleeperOf(t, d, 1, Options{Pool: &pool.Options{}})
		require.NoError(t, err)
		require.NoError(t, s.runtime.Partition(weights))
		require.NoError(t, s.make(0, 9*mib, weights, 1))
		require.NoError(t, d.Inject(sim.Fault{Call: call, Effect: sim.Lose}))
		err = s.runtime.Sleep([]Tag{weights}, forever(t, SleepKeep))
		if err == nil {
			err = s.runtime.Wake([]Tag{weights})
		}
		requireCode(t, status.DeviceLost, err)
		require.NoError(t, s.runtime.Pool().Check())
		_, err = s.runtime.Close()
		requireCode(t, status.DeviceLost, err)
		d.Close()
	}
}

// Random programs: blocks of tags come and go, sleep and wake on devices that run in an order of their own; contents and books
// are those of a model.
func TestRandomSleeps(t *testing.T) {
	slept, woken, verified := 0, 0, 0
	tags := []Tag{0, tagOf(t, "weights"), tagOf(t, "cache"), tagOf(t, "adapters")}
	count := fewer(25)
	for seed := range count {
		t.Logf("seed %d", seed)
		random := rand.New(rand.NewPCG(seed, 21))
		d, err := sim.New(sim.Options{Memory: 48 * mib, HostMemory: 96 * mib, Scheduler: sim.Seeded, Seed: seed + 1})
		require.NoError(t, err)
		s, err := sleeperOf(t, d, 3, Options{Pool: &pool.Options{LargeStep: 2 * mib}})
		require.NoError(t, err)
		if seed%2 == 1 {
			s.coarsely()
		}
		asleep := map[Tag]bool{}
		for _, tag := range tags[1:] {
			require.NoError(t, s.runtime.Partition(tag))
		}
		for step := range 120 {
			switch n := random.IntN(10); {
			case n < 4:
				tag := tags[random.IntN(len(tags))]
				err := s.make(random.IntN(3), 1+random.Uint64N([]uint64{3000, mib, 6 * mib}[random.IntN(3)]), tag, byte(step))
				if asleep[tag] {
					requireCode(t, status.InvalidState, err)
				} else if err != nil {
					requireCode(t, status.OutOfMemory, err)
				}
			case n < 6 && len(s.live) > 0:
				s.free(random.IntN(len(s.live)))
			case n < 8 && len(s.live) > 0:
				at := random.IntN(len(s.live))
				if asleep[s.live[at].tag] {
					requireCode(t, status.InvalidState, s.fill(0, at, 1))
					break
				}
				if random.IntN(2) == 0 {
					require.NoError(t, s.fill(random.IntN(3), at, byte(step)))
				}
				s.verify(at)
				verified++
			case n >= 8:
				tag := tags[1+random.IntN(len(tags)-1)]
				if asleep[tag] {
					err := s.runtime.Wake([]Tag{tag})
					if err != nil {
						requireCode(t, status.OutOfMemory, err)
						break
					}
					woken++
				} else {
					options := forever(t, []SleepMode{SleepDrop, SleepKeep, SleepFile}[random.IntN(3)])
					require.NoError(t, s.runtime.Sleep([]Tag{tag}, options))
					for at := range s.live {
						b := &s.live[at]
						b.known = b.known && (b.tag != tag || options.Mode != SleepDrop)
					}
					slept++
				}
				asleep[tag] = !asleep[tag]
			}
			require.NoError(t, s.runtime.Pool().Check())
			require.NoError(t, s.runtime.Check())
			s.recount(asleep)
		}
		s.finish()
		require.NoError(t, d.Problems(), "seed %d", seed)
		d.Close()
	}
	assert.Greater(t, min(slept, woken, verified), int(2*count))
}

// recount compares the books with the blocks of the test.
func (s *sleeper) recount(asleep map[Tag]bool) {
	var held uint64
	for _, b := range s.live {
		if !asleep[b.tag] {
			held += (b.bytes + pool.Unit - 1) / pool.Unit * pool.Unit
		}
	}
	statistics := s.runtime.Pool().Statistics()
	require.Equal(s.t, held, statistics.Held)
	require.Equal(s.t, 48*mib-s.freeMemory(), statistics.Reserved)
}

// Threads allocate elsewhere while tags sleep and wake.
func TestThreadsBesideSleeps(t *testing.T) {
	s := newSleeper(t, sim.Options{Memory: 96 * mib}, 4, pool.Options{}, "weights", "cache")
	s.coarsely()
	weights, cache := tagOf(t, "weights"), tagOf(t, "cache")
	require.NoError(t, s.make(0, 12*mib, weights, 1))
	require.NoError(t, s.make(0, 9*mib, cache, 2))
	end := make(chan struct{})
	var threads sync.WaitGroup
	for thread := 1; thread < 4; thread++ {
		threads.Go(func() {
			random := rand.New(rand.NewPCG(uint64(thread), 5))
			for {
				select {
				case <-end:
					return
				default:
				}
				tag := []Tag{0, weights, cache}[thread-1]
				bytes := 1 + random.Uint64N([]uint64{4096, mib, 3 * mib}[random.IntN(3)])
				handle, address, err := s.runtime.Allocate(Request{Bytes: bytes, Stream: s.streams[thread], Tag: tag})
				if err != nil {
					assert.NotZero(t, tag)
					assert.Contains(t, []status.Code{status.InvalidState, status.Busy}, status.CodeOf(err), "%v", err)
					continue
				}
				if err := s.use(thread, handle, address, bytes, ReadWrite); err != nil {
					assert.Contains(t, []status.Code{status.InvalidState, status.Busy}, status.CodeOf(err), "%v", err)
				}
				_, err = Free(handle, nil)
				assert.NoError(t, err)
			}
		})
	}
	rounds := 0
	for deadline := time.Now().Add(2 * time.Second); rounds < 40 && time.Now().Before(deadline); {
		options := forever(t, []SleepMode{SleepKeep, SleepFile}[rounds%2])
		if err := s.runtime.Sleep([]Tag{weights, cache}, options); err != nil {
			requireCode(t, status.Busy, err) // a use of another thread is open
			continue
		}
		require.NoError(t, s.runtime.Wake([]Tag{cache}))
		require.NoError(t, s.runtime.Wake([]Tag{weights}))
		s.verify(0)
		s.verify(1)
		rounds++
	}
	close(end)
	threads.Wait()
	require.Positive(t, rounds)
	require.NoError(t, s.runtime.Pool().Check())
}

func TestOnlyVirtualMemoryHasPartitions(t *testing.T) {
	w := newPooled(t, sim.Options{Memory: 64 * mib}, 1, pool.Options{Origin: pool.Plain})
	tag, err := TagOf("plain")
	require.NoError(t, err)
	requireCode(t, status.Unsupported, w.runtime.Partition(tag))
	_, err = BeginCapture(w.streams[0])
	requireCode(t, status.Unsupported, err)
}
