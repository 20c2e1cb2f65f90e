package pool

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"libmmsb/core/status"
)

// device is a Source that knows which segments have memory, and how far it has come.
type device struct {
	t        testing.TB
	capacity uint64                                    // units
	memory   [MostPartitions * Spaces]map[uint64]Range // by segment: the mapping that it is in
	backed   uint64
	queued   []uint64 // the last mark of each stream
	done     []uint64
	calls    int
	together uint64                                     // units of a mapping at most
	fails    int                                        // so many calls from now on one fails; 0: none
	whole    [MostPartitions * Spaces]map[uint64]uint64 // segments that go back whole; nil: they do not
}

const segmentUnits = segmentBytes / Unit

func newDevice(t testing.TB, capacity uint64, streams int) *device {
	d := &device{t: t, capacity: capacity / Unit, together: 4 * segmentUnits}
	d.queued, d.done = make([]uint64, streams), make([]uint64, streams)
	for space := range d.memory {
		d.memory[space] = map[uint64]Range{}
	}
	return d
}

func (d *device) call() error {
	d.calls++
	if d.fails--; d.fails == 0 {
		return status.Errorf(status.Device, "planted")
	}
	return nil
}

func (d *device) Back(space int, r Range) error {
	require.Zero(d.t, r.Offset%segmentUnits)
	require.Zero(d.t, r.Count%segmentUnits)
	if err := d.call(); err != nil {
		return err
	}
	if d.backed+r.Count > d.capacity {
		return status.Errorf(status.OutOfMemory, "the device has %d units", d.capacity)
	}
	for at, end := r.Offset, r.Offset+r.Count; at < end; {
		mapped := Range{at, min(end-at, d.together)}
		if d.whole[space] != nil {
			mapped = r
		}
		for ; at < mapped.Offset+mapped.Count; at += segmentUnits {
			_, is := d.memory[space][at]
			require.False(d.t, is, "segment %d has memory", at)
			d.memory[space][at] = mapped
		}
	}
	d.backed += r.Count
	if d.whole[space] != nil {
		d.whole[space][r.Offset] = r.Count
	}
	return nil
}

func (d *device) Bare(space int, r Range) (units uint64, failed error) {
	if failed = d.call(); failed != nil {
		if d.whole[space] != nil || r.Count == segmentUnits {
			return 0, failed
		}
		half := r.Count / 2 // of it has lost its memory
		for r.Count = 0; r.Count < half; r.Count += d.memory[space][r.Offset+r.Count].Count {
		}
	}
	d.bare(space, r)
	return r.Count, failed
}

// bareWhole is Bare of all or nothing.
func (d *device) bareWhole(space int, r Range) error {
	err := d.call()
	if err == nil {
		d.bare(space, r)
	}
	return err
}

func (d *device) bare(space int, r Range) {
	if d.whole[space] != nil {
		require.Equal(d.t, r.Count, d.whole[space][r.Offset], "a segment goes back whole")
		delete(d.whole[space], r.Offset)
	}
	for at := r.Offset; at < r.Offset+r.Count; at += segmentUnits {
		mapped, is := d.memory[space][at]
		require.True(d.t, is, "segment %d has no memory", at)
		require.True(d.t, mapped.Offset >= r.Offset && mapped.Offset+mapped.Count <= r.Offset+r.Count, "a mapping goes whole")
		delete(d.memory[space], at)
	}
	d.backed -= r.Count
}

// segments are those of a space that have memory.
func (d *device) segments(space int) map[uint64]bool {
	all := make(map[uint64]bool)
	for at := range d.memory[space] {
		all[at] = true
	}
	return all
}

func (d *device) Mapping(space int, at uint64) Range { return d.memory[space][at] }

func (d *device) Reap() {}

func (d *device) Settle(func(int, uint64, uint64)) {}

func (d *device) Cached(uint32) uint64 { return 0 }

func (d *device) Uncache(uint32, int, uint64) bool { return false }

func (d *device) Done(stream uint32) uint64 { return d.done[stream] }

// world is a pool, and what is held of it.
type world struct {
	*Pool
	device *device
	held   []heldBlock
	freed  [MostPartitions * Spaces][]behind // by unit: the last free; mark 0: none
}

type heldBlock struct {
	Block
	stream uint32
	bytes  uint64
}

func newWorld(t testing.TB, o Options, capacity, addresses uint64, streams int) *world {
	w := &world{device: newDevice(t, capacity, streams)}
	if o.Origin.Whole() {
		w.device.whole[Small], w.device.whole[Large] = map[uint64]uint64{}, map[uint64]uint64{}
	}
	w.Pool = New(o, w.device, [Spaces]uint64{addresses, addresses})
	w.reserve(0, addresses)
	return w
}

func (w *world) reserve(partition int, addresses uint64) {
	for i := range Spaces {
		w.freed[partition*Spaces+i] = make([]behind, addresses/Unit)
	}
}

// take takes, and sees that the block has memory, overlaps no other, and that nobody's work is still to come there.
func (w *world) take(stream uint32, bytes uint64) error { return w.takeIn(0, stream, bytes) }

func (w *world) takeIn(partition int, stream uint32, bytes uint64) error {
	b, wait, err := w.TakeIn(partition, stream, bytes)
	if err != nil {
		return err
	}
	t := w.device.t
	require.GreaterOrEqual(t, b.Count*Unit, bytes)
	require.Equal(t, partition, b.Space/Spaces)
	for at := b.Offset; at < b.Offset+b.Count; at++ {
		if _, is := w.device.memory[b.Space][at/segmentUnits*segmentUnits]; !is {
			require.Fail(t, "no memory", "unit %d", at)
		}
		f := w.freed[b.Space][at]
		ordered := f.stream == stream || f.mark <= w.device.done[f.stream] ||
			wait.Needed && wait.Stream == f.stream && wait.Mark >= f.mark
		if !ordered {
			require.Fail(t, "not ordered", "unit %d was freed on stream %d at %d, which has come to %d; stream %d waits %+v", at,
				f.stream, f.mark, w.device.done[f.stream], stream, wait)
		}
	}
	for _, other := range w.held {
		if other.Space == b.Space && other.Offset < b.Offset+b.Count && b.Offset < other.Offset+other.Count {
			require.Fail(t, "overlap", "%+v and %+v", b, other)
		}
	}
	w.held = append(w.held, heldBlock{b, stream, bytes})
	return nil
}

// give frees a held block on a stream.
func (w *world) give(number int, stream uint32) {
	b := w.held[number]
	w.held = slices.Delete(w.held, number, number+1)
	w.device.queued[stream]++
	mark := w.device.queued[stream]
	for at := b.Offset; at < b.Offset+b.Count && !w.partitions[b.Space/Spaces].gone; at++ { // else nothing works there
		w.freed[b.Space][at] = behind{stream: stream, mark: mark}
	}
	require.NoError(w.device.t, w.Give(stream, mark, b.Block))
}

func (w *world) check() {
	require.NoError(w.device.t, w.Check())
	var held uint64
	for _, b := range w.held {
		if !w.partitions[b.Space/Spaces].gone {
			held += b.Count * Unit
		}
	}
	s := w.Statistics()
	require.Equal(w.device.t, held, s.Held)
	require.Equal(w.device.t, w.device.backed*Unit, s.Reserved)
	for number := range len(w.partitions) * Spaces {
		require.Zero(w.device.t, w.space(number).planned, "nobody grows")
	}
}

func code(err error) status.Code { return status.CodeOf(err) }

// fewer is how often a test with one thread does something: seldom under the race detector, which has nothing to see there.
func fewer(times uint64) uint64 {
	if raceDetector {
		return times / 5
	}
	return times
}

func TestAStreamHasItsMemoryAgainAtOnce(t *testing.T) {
	w := newWorld(t, Options{}, 1<<30, 1<<30, 2)
	require.NoError(t, w.take(0, 3*mib))
	first := w.held[0].Block
	w.give(0, 0)
	calls := w.device.calls
	require.NoError(t, w.take(0, 3*mib))
	assert.Equal(t, first, w.held[0].Block)
	assert.Equal(t, calls, w.device.calls)
	w.give(0, 0)

	require.NoError(t, w.take(1, 3*mib), "not behind what the device has not done")
	assert.NotEqual(t, first, w.held[0].Block)
	w.give(0, 1)
	w.device.done[0], w.device.done[1] = w.device.queued[0], w.device.queued[1]
	calls = w.device.calls
	require.NoError(t, w.take(1, 22*mib), "both together")
	assert.Equal(t, calls, w.device.calls)
	w.check()
}

func TestFreeSegmentsLoseTheirMemoryForOthers(t *testing.T) {
	w := newWorld(t, Options{LargeStep: segmentBytes}, 1<<30, 1<<30, 1)
	for range 10 {
		require.NoError(t, w.take(0, 10*mib))
	}
	for at := range 5 {
		w.give(at, 0) // every second one
	}
	w.device.done[0] = w.device.queued[0]
	require.NoError(t, w.take(0, 50*mib))
	w.check()
	s := w.Statistics()
	assert.LessOrEqual(t, s.Reserved, uint64(105*mib))
	assert.NotZero(t, s.Moved)
}

func TestTheLadder(t *testing.T) {
	w := newWorld(t, Options{}, 64*mib, 1<<30, 2)
	require.NoError(t, w.take(0, 40*mib))
	w.give(0, 0)
	err := w.take(1, 60*mib)
	require.Equal(t, status.OutOfMemory, code(err), "%v", err)
	require.ErrorContains(t, err, "62914560 bytes for stream 1")
	require.ErrorContains(t, err, "0 are held")
	require.NoError(t, w.take(1, 40*mib), "behind the other stream's work, as there is no other memory")
	require.Equal(t, uint64(1), w.Statistics().Waits)
	w.give(0, 1)
	w.device.done[1] = w.device.queued[1]
	require.NoError(t, w.take(0, 60*mib), "free segments lose their memory for it")
	w.check()

	limited := newWorld(t, Options{Limit: 32 * mib}, 1<<30, 1<<30, 1)
	require.NoError(t, limited.take(0, 20*mib))
	err = limited.take(0, 20*mib)
	require.Equal(t, status.Limit, code(err), "%v", err)
	require.ErrorContains(t, err, "the limit is 33554432")
	require.NoError(t, limited.take(0, 12*mib), "to the last byte")
	limited.check()
}

// PyTorch reported a lack of memory although a block of the pool would have fitted: pytorch#189504.
func TestAFittingBlockOfAnotherStreamIsTaken(t *testing.T) {
	w := newWorld(t, Options{}, 22*mib, 1<<30, 3)
	require.NoError(t, w.take(0, 20*mib))
	w.give(0, 0)
	require.NoError(t, w.take(2, 20*mib))
	w.give(0, 2)
	w.device.done[2] = w.device.queued[2]
	require.NoError(t, w.take(1, 20*mib))
	require.NoError(t, w.take(1, 500))
	w.check()
}

func TestBadRequests(t *testing.T) {
	w := newWorld(t, Options{}, 1<<30, 1<<30, 1)
	for _, bytes := range []uint64{0, 1 << 60, math.MaxUint64} {
		require.Equal(t, status.InvalidSize, code(w.take(0, bytes)), "%d", bytes)
	}
	require.Equal(t, status.OutOfMemory, code(w.take(0, 1<<60-1)))
	require.NoError(t, w.take(0, 1))
	b := w.held[0].Block
	w.give(0, 0)
	for _, wrong := range []Block{
		b, {Small, Range{b.Offset, 2}}, {Small, Range{b.Offset + 1, 1}}, {Large, b.Range}, {Small, Range{math.MaxUint64, 1}},
	} {
		require.Equal(t, status.InvalidArgument, code(w.Give(0, 9, wrong)), "%+v", wrong)
	}
	w.check()
}

// Each call of the source fails once: what was taken before is as it was, and what is asked for again is there.
func TestTheSourceFails(t *testing.T) {
	for nth := 1; ; nth++ {
		w := newWorld(t, Options{}, 48*mib, 1<<30, 1)
		w.device.fails = nth
		failed := 0
		for _, bytes := range []uint64{1000, 10 * mib, 20 * mib, 12 * mib, 40 * mib} {
			if bytes >= 12*mib && len(w.held) > 1 {
				w.give(1, 0)
				w.device.done[0] = w.device.queued[0]
			}
			if err := w.take(0, bytes); err != nil {
				require.Equal(t, status.Device, code(err), "%v", err)
				failed++
				w.check()
				require.NoError(t, w.take(0, bytes))
			}
			w.check()
		}
		if failed == 0 {
			require.Greater(t, nth, 3)
			return
		}
	}
}

func TestTrim(t *testing.T) {
	for _, together := range []uint64{1, 4} { // segments: what is mapped together goes together
		w := newWorld(t, Options{}, 1<<30, 1<<30, 1)
		w.device.together = together * segmentUnits
		require.NoError(t, w.take(0, 100*mib))
		require.NoError(t, w.take(0, 100))
		w.give(0, 0)
		require.NoError(t, w.Trim(0))
		require.Equal(t, uint64(102*mib), w.Statistics().Reserved, "the device has not come past it")
		w.device.done[0] = w.device.queued[0]
		require.NoError(t, w.Trim(50*mib))
		require.Equal(t, map[uint64]uint64{1: 50 * mib, 4: 46 * mib}[together], w.Statistics().Reserved)
		require.NoError(t, w.Trim(0))
		require.Equal(t, uint64(2*mib), w.Statistics().Reserved)
		w.check()
	}
}

// TestRandomPrograms runs MMSB_PROGRAMS programs of 300 operations, 60 without it, from MMSB_SEED on. Every 20th operation walks
// everything.
func TestRandomPrograms(t *testing.T) {
	count, first := fewer(60), uint64(0)
	for name, number := range map[string]*uint64{"MMSB_PROGRAMS": &count, "MMSB_SEED": &first} {
		if text := os.Getenv(name); text != "" {
			_, err := fmt.Sscan(text, number)
			require.NoError(t, err)
		}
	}
	taken, waits, moved, failures := 0, uint64(0), uint64(0), uint64(0)
	for seed := first; seed < first+count; seed++ {
		random := rand.New(rand.NewPCG(seed, 3))
		const streams = 3
		o := Options{Limit: []uint64{0, 60 * mib}[seed%2], Origin: []Origin{Virtual, Plain}[seed/2%2]}
		if seed%3 == 0 {
			o.Divisions[0], o.Divisions[4] = 4, 8
		}
		w := newWorld(t, o, 64*mib, 256*mib, streams)
		w.device.together = []uint64{1, 4, 16}[seed/4%3] * segmentUnits
		for step := range 300 {
			switch n := random.IntN(10); {
			case n < 5:
				bytes := 1 + random.Uint64N([]uint64{2000, mib, 4 * mib, 24 * mib}[random.IntN(4)])
				err := w.take(uint32(random.IntN(streams)), bytes)
				if err == nil {
					taken++
				} else {
					require.Contains(t, []status.Code{status.OutOfMemory, status.Limit}, code(err), "seed %d: %v", seed, err)
					s := w.Statistics()
					require.Less(t, s.LargestFree, bytes+o.roundingOf(bytes), "seed %d, step %d: a block would fit", seed, step)
				}
			case n < 8 && len(w.held) > 0:
				number := random.IntN(len(w.held))
				stream := w.held[number].stream
				if random.IntN(4) == 0 {
					stream = uint32(random.IntN(streams))
				}
				w.give(number, stream)
			case n == 8:
				stream := random.IntN(streams)
				w.device.done[stream] += random.Uint64N(w.device.queued[stream] - w.device.done[stream] + 1)
			case random.IntN(20) == 0:
				require.NoError(t, w.Trim(random.Uint64N(64*mib)))
			}
			if step%20 == 0 {
				w.check()
			}
		}
		for len(w.held) > 0 {
			w.give(0, w.held[0].stream)
		}
		copy(w.device.done, w.device.queued)
		require.NoError(t, w.Trim(0))
		w.check()
		s := w.Statistics()
		require.Zero(t, s.Reserved, "seed %d", seed)
		waits, moved, failures = waits+s.Waits, moved+s.Moved, failures+s.Failures
	}
	assert.Greater(t, taken, int(50*count))
	t.Logf("report: %d operations from seed %d on, %d blocks, %d failures", count*300, first, taken, failures)
	assert.NotZero(t, waits)
	assert.NotZero(t, moved)
	assert.NotZero(t, failures)
}

// roundingOf is what a request is made longer by.
func (o *Options) roundingOf(bytes uint64) uint64 {
	rounded, _ := o.Round(bytes)
	return rounded - bytes
}
