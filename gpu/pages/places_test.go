package pages

import (
	"math/rand/v2"
	"os"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"libmmsb/core/abi"
	"libmmsb/core/page"
	"libmmsb/core/residency"
	"libmmsb/core/status"
	"libmmsb/gpu/devices"
	"libmmsb/gpu/sim"
	"libmmsb/native"
	"libmmsb/native/nativetest"
)

// onDevices runs a test on a context whose devices are like these.
func onDevices(t *testing.T, simulated sim.Options, test func(w *world)) {
	use(func(options *devices.Options) { options.Simulated = simulated })
	defer Use()
	on(t, test)
}

// place is where the pages of a program lie.
type place int

const (
	hostOnly place = iota
	deviceOnly
	twoPlaces
	pinnedPlaces // the host's copy in pinned memory
	unified
	replicated
)

// moment is what a program leaves of a page.
type moment struct {
	bytes, mask string
	epoch       uint64
}

func (w *world) moment(handle uint64) (m moment) {
	w.Helper()
	size := uint64(0)
	require.NoError(w, page.Read(handle, func(p *page.Page) error {
		size, m.mask, m.epoch = p.Record.Size, string(p.Mask()), p.Record.Epoch
		return nil
	}))
	got, code := w.read(handle, 0, size)
	require.Equal(w, status.OK, code)
	m.bytes = got
	return m
}

// hasHostCopy says whether a page is in two places, and nothing is wrong with that.
func (w *world) hasHostCopy(handle uint64) bool {
	copies, err := page.Copies(handle)
	return err == nil && len(copies) > 1 && copies[1].Location != abi.LocationGPU
}

// raw writes as a holder of an address does: of the page's, or of the host's copy.
func (w *world) raw(handle, offset uint64, content string, host bool) {
	w.Helper()
	if host && w.hasHostCopy(handle) {
		address, err := page.PinHostCopy(handle, true)
		require.NoError(w, err)
		copy(native.Memory(address+uintptr(offset), uint64(len(content))), content)
		require.NoError(w, page.UnpinHostCopy(handle, true))
		return
	}
	address, code := nativetest.PinPage(handle, true)
	require.Zero(w, code)
	location := int32(0)
	require.NoError(w, page.Read(handle, func(p *page.Page) error {
		location = p.Location()
		return nil
	}))
	if location == abi.LocationGPU {
		require.NoError(w, page.Use(w.context, func(c *page.Context) error {
			return c.Residency().Devices().Write(0, address+uintptr(offset), []byte(content))
		}))
	} else {
		copy(native.Memory(address+uintptr(offset), uint64(len(content))), content)
	}
	w.unpin(handle)
}

// program does the same to three pages wherever they lie; what is drawn from beside only says where bytes move meanwhile.
func (w *world) program(seed uint64, at place, beside *rand.Rand) (after []moment) {
	w.Helper()
	random := rand.New(rand.NewPCG(seed, 7))
	sizes := []uint64{20000, 5000, 70000}
	var handles []uint64
	for _, size := range sizes {
		location := int32(abi.LocationCPU)
		switch at {
		case deviceOnly:
			location = abi.LocationGPU
		case unified:
			location = abi.LocationUnified
		case pinnedPlaces:
			location = abi.LocationPinned
		}
		handles = append(handles, w.create(location, 0, size))
	}
	for range 40 {
		i := random.IntN(len(handles))
		handle, size := handles[i], sizes[i]
		length := min(size, []uint64{1, 64, 100, 4096}[random.IntN(4)])
		offset := random.Uint64N(size - length + 1)
		content := make([]byte, length)
		for i := range content {
			content[i] = byte(random.IntN(256))
		}
		change := random.IntN(7)
		unpin := func() {}
		if (at == twoPlaces || at == pinnedPlaces || at == replicated) && change < 4 {
			unpin = w.holdAddresses(handle, beside)
		}
		switch change {
		case 0, 1:
			require.Equal(w, status.OK, w.write(handle, offset, string(content)))
		case 2:
			offsets := []uint64{offset, size - 1, offset / 2, offset}
			require.Equal(w, status.OK, w.apply(handle, offsets, string(content[:1])+"xyz"))
		case 3:
			runs := []uint64{offset, offset / 2, size - length}
			payload := append(append(append([]byte(nil), content...), content...), content...)
			require.Zero(w, nativetest.ApplyRuns([]uint64{handle, handle, handle}, runs, length, payload))
		case 4:
			if i > 0 && random.IntN(2) == 0 { // the first page stays one whose changes are all seen
				w.raw(handle, offset, string(content), beside.IntN(2) == 0)
			}
		case 5:
			if random.IntN(3) == 0 {
				size += random.Uint64N(200)
				require.NoError(w, page.Resize(handle, size))
				sizes[i] = size
			} else {
				require.Zero(w, nativetest.ClearMask(handle))
			}
		case 6:
			clone, err := page.Clone(handle, 0)
			require.NoError(w, err)
			require.Equal(w, w.moment(handle), w.moment(clone))
			require.Zero(w, nativetest.Destroy(clone))
		}
		unpin()
		switch moved := handles[beside.IntN(len(handles))]; at {
		case twoPlaces:
			w.move(moved, beside, 0)
		case pinnedPlaces:
			w.move(moved, beside, residency.PinnedCopy)
		case unified:
			w.hint(moved, beside)
		case replicated:
			w.move(moved, beside, 0)
			w.replicate(handle, beside)
			w.replicate(moved, beside)
		}
	}
	w.check()
	for _, handle := range handles {
		after = append(after, w.moment(handle))
	}
	return after
}

// holdAddresses pins a page, mostly to read, seldom its copy on the host, too, until what it returns is called.
func (w *world) holdAddresses(handle uint64, beside *rand.Rand) (unpin func()) {
	w.Helper()
	var ends []func()
	seldom := beside.IntN(12) == 0
	if beside.IntN(2) == 0 {
		write := seldom && beside.IntN(2) == 0
		_, code := nativetest.PinPage(handle, write)
		require.Zero(w, code)
		ends = append(ends, func() { require.Zero(w, nativetest.UnpinPage(handle, write)) })
	}
	if seldom && w.hasHostCopy(handle) {
		write := beside.IntN(2) == 0
		_, err := page.PinHostCopy(handle, write)
		require.NoError(w, err)
		ends = append(ends, func() { require.NoError(w, page.UnpinHostCopy(handle, write)) })
	}
	beside.Shuffle(len(ends), func(i, j int) { ends[i], ends[j] = ends[j], ends[i] })
	return func() {
		for _, end := range ends {
			end()
		}
	}
}

// move lets bytes of a page move, and changes nothing else. pinned is PinnedCopy or 0.
func (w *world) move(handle uint64, beside *rand.Rand, pinned residency.Direction) {
	w.Helper()
	switch beside.IntN(6) {
	case 0:
		w.sync(handle, residency.ToDevice|pinned)
	case 1:
		w.sync(handle, residency.ToHost|pinned)
	case 2:
		w.sync(handle, both|pinned)
	case 3:
		require.NoError(w, page.DropHostCopy(handle))
	case 4:
		location := int32(abi.LocationCPU)
		if pinned != 0 && beside.IntN(2) == 0 {
			location = abi.LocationPinned
		}
		require.NoError(w, page.Migrate(handle, location, 0))
	}
}

// replicate gives a page a replica or drops one, and looks at those that it has: they are what the page is.
func (w *world) replicate(handle uint64, beside *rand.Rand) {
	w.Helper()
	device := int32(beside.IntN(2))
	switch beside.IntN(4) {
	case 0:
		require.NoError(w, page.DropReplica(handle, device))
	case 1, 2:
		require.NoError(w, page.Replicate(handle, device))
	}
	for device := range int32(2) {
		if got, there := w.replica(handle, device); there {
			require.Equal(w, w.moment(handle).bytes, got)
		}
	}
}

// hint prefetches, advises or moves a page of managed memory, and changes nothing else.
func (w *world) hint(handle uint64, beside *rand.Rand) {
	w.Helper()
	device := int32(beside.IntN(2))
	switch beside.IntN(5) {
	case 0:
		require.NoError(w, syncOn(handle, residency.ToDevice, device))
	case 1:
		require.NoError(w, syncOn(handle, residency.ToHost, device))
	case 2:
		if err := page.Advise(handle, residency.Advice{Preferred: device - 1, ReadMostly: beside.IntN(2) == 0}); err != nil {
			require.Equal(w, status.Unsupported, status.CodeOf(err)) // it is elsewhere now
		}
	case 3:
		location := []int32{abi.LocationUnified, abi.LocationUnified, abi.LocationPinned, abi.LocationGPU}[beside.IntN(4)]
		require.NoError(w, page.Migrate(handle, location, 0))
	}
}

// mostPrograms is how many random programs a test runs: usually so many, or what the environment asks for.
func mostPrograms(usually uint64) uint64 {
	if given, err := strconv.ParseUint(os.Getenv("MMSB_PROGRAMS"), 10, 64); err == nil {
		return given
	}
	return fewer(usually)
}

// fewer is how often a test with one thread does something: seldom under the race detector, which has nothing to see there.
func fewer(times uint64) uint64 {
	if raceDetector {
		return times / 5
	}
	return times
}

// One random program leaves the same bytes, masks and epochs on the host, on a device, in two places, in managed memory and with
// replicas, whatever moves meanwhile, in whatever order the device works, with changes that somebody watches and without.
func TestAProgramIsTheSameInEveryPlace(t *testing.T) {
	first := uint64(1)
	for seed := first; seed < first+mostPrograms(40); seed++ {
		var want []moment
		for at := hostOnly; at <= replicated; at++ {
			for schedule := range 3 {
				options := sim.Options{Scheduler: sim.Seeded, Seed: 100*seed + uint64(schedule) + 1}
				onDevices(t, options, func(w *world) {
					if schedule == 1 {
						w.watch()
					}
					got := w.program(seed, at, rand.New(rand.NewPCG(seed, uint64(schedule))))
					if want == nil {
						want = got
					}
					require.Equal(t, want, got, "program %d in place %d, schedule %d", seed, at, schedule)
				})
			}
		}
	}
}
