package player

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"libmmsb/core/pool"
	"libmmsb/core/status"
	"libmmsb/core/trace"
	"libmmsb/gpu/driver"
	"libmmsb/gpu/runtime"
	"libmmsb/gpu/sim"
)

var update = flag.Bool("update", false, "write the trace of the log anew")

var folder = filepath.Join("..", "..", "testdata", "traces")

const mib = 1 << 20

func device(t testing.TB, options sim.Options) (*sim.Driver, driver.Device) {
	d, err := sim.New(options)
	require.NoError(t, err)
	t.Cleanup(d.Close)
	of, err := d.Open(0)
	require.NoError(t, err)
	return d, of
}

func read(t testing.TB, from string) *trace.Trace {
	content, err := os.ReadFile(filepath.Join(folder, from))
	require.NoError(t, err)
	read, err := trace.Read(bytes.NewReader(content), trace.Options{Device: -1})
	require.NoError(t, err)
	return read
}

// recount is what a trace takes where nothing fails.
func recount(t *trace.Trace) (calls, most uint64) {
	sizes := map[uint32]uint64{}
	for _, e := range t.Events {
		calls++
		if e.Free {
			delete(sizes, e.Block)
			continue
		}
		sizes[e.Block] = e.Bytes
		var live uint64
		for _, bytes := range sizes {
			live += bytes
		}
		most = max(most, live)
	}
	return calls, most
}

// left is how many bytes a trace leaves.
func left(t *trace.Trace) (bytes uint64) {
	for _, e := range t.Events {
		if e.Free {
			bytes -= e.Bytes
		} else {
			bytes += e.Bytes
		}
	}
	return bytes
}

// The configurations under which every trace is played.
func configurations(t testing.TB) map[string]*pool.Options {
	all := map[string]*pool.Options{"none": nil}
	for _, text := range []string{"", "slack:0.01,large_segment_size_mb:2", "roundup_power2_divisions:4", "slack:0.5"} {
		o, err := pool.Parse(text)
		require.NoError(t, err)
		all[text] = &o
	}
	return all
}

func TestAReplayIsWhatTheTraceSays(t *testing.T) {
	for _, name := range []string{"rmm.csv", "pytorch-protocol4.pickle", "runtime.csv"} {
		recorded := read(t, name)
		calls, most := recount(recorded)
		for configuration, options := range configurations(t) {
			t.Run(name+" "+configuration, func(t *testing.T) {
				d, of := device(t, sim.Options{Memory: 512 * mib})
				var seen []uint64
				result, err := Run(context.Background(), of, recorded, Options{Pool: options, Progress: func(done, total uint64) {
					assert.Equal(t, uint64(len(recorded.Events)), total)
					seen = append(seen, done)
				}})
				require.NoError(t, err)
				assert.Equal(t, calls, result.Calls)
				assert.Equal(t, most, result.Live)
				assert.Zero(t, result.Failures)
				assert.NoError(t, result.First)
				assert.GreaterOrEqual(t, result.Reserved, most)
				assert.LessOrEqual(t, result.Reserved, uint64(512*mib))
				assert.Positive(t, result.Time)
				assert.NotEmpty(t, seen)
				frees := calls - recorded.Blocks
				if options == nil {
					assert.Equal(t, Calls{Allocated: recorded.Blocks, Freed: frees}, result.Driver)
				} else {
					assert.Equal(t, result.Driver.Created*2*mib-result.Driver.Destroyed*2*mib, result.Pool.Reserved)
					assert.Equal(t, result.Pool.Grown, 2*mib*result.Driver.Mapped)
					assert.Equal(t, result.Pool.Moved, 2*mib*result.Driver.Unmapped)
					assert.GreaterOrEqual(t, result.Pool.Held, left(recorded))
					assert.Equal(t, result.Driver.All(), result.Driver.Created+result.Driver.Destroyed+result.Driver.Mapped+
						result.Driver.Unmapped)
				}
				require.NoError(t, d.Problems())
			})
		}
	}
}

// What a runtime's log writes is read and replayed, with the same events.
func TestALogIsReplayed(t *testing.T) {
	const streams = 3
	_, of := device(t, sim.Options{Memory: 512 * mib})
	log := runtime.NewLog(1 << 16)
	r, err := runtime.New(of, runtime.Options{Pool: &pool.Options{Limit: 64 * mib}, Adaptors: []runtime.Adaptor{log}})
	require.NoError(t, err)
	var on []*runtime.Stream
	for range streams {
		handle, err := r.AcquireStream(0)
		require.NoError(t, err)
		stream, err := runtime.FindStream(handle)
		require.NoError(t, err)
		on = append(on, stream)
	}
	type block struct {
		handle, bytes uint64
		number        uint32
	}
	random := rand.New(rand.NewPCG(3, 3))
	var live []block
	var want []trace.Event
	numbers := map[*runtime.Stream]uint16{} // streams in the order in which they come up
	number := func(s *runtime.Stream) uint16 {
		if _, known := numbers[s]; !known {
			numbers[s] = uint16(len(numbers))
		}
		return numbers[s]
	}
	taken, refused := uint32(0), uint64(0)
	for range 400 {
		stream := on[random.IntN(streams)]
		if len(live) > 0 && random.IntN(100) < 45 {
			at := random.IntN(len(live))
			_, err := runtime.Free(live[at].handle, stream)
			require.NoError(t, err)
			want = append(want, trace.Event{Bytes: live[at].bytes, Block: live[at].number, Stream: number(stream), Free: true})
			live = append(live[:at], live[at+1:]...)
			continue
		}
		bytes := 1 + random.Uint64N([]uint64{4096, mib, 6 * mib}[random.IntN(3)])
		handle, _, err := r.Allocate(runtime.Request{Bytes: bytes, Stream: stream})
		if err != nil {
			require.Equal(t, status.Limit, status.CodeOf(err))
			refused++
			continue
		}
		want = append(want, trace.Event{Bytes: bytes, Block: taken, Stream: number(stream)})
		live = append(live, block{handle, bytes, taken})
		taken++
	}
	require.NotZero(t, refused)
	var written bytes.Buffer
	require.NoError(t, log.WriteCSV(&written))
	_, err = r.Close()
	require.NoError(t, err)
	if *update {
		require.NoError(t, os.WriteFile(filepath.Join(folder, "runtime.csv"), written.Bytes(), 0o644))
	}
	got, err := trace.Read(&written, trace.Options{Device: -1})
	require.NoError(t, err)
	require.True(t, got.Timed)
	for at := range got.Events {
		got.Events[at].Time, got.Events[at].Thread = 0, 0
	}
	assert.Equal(t, want, got.Events)
	assert.Equal(t, refused, got.Refused)
	_, again := device(t, sim.Options{Memory: 512 * mib})
	result, err := Run(context.Background(), again, got, Options{Pool: &pool.Options{Limit: 64 * mib}})
	require.NoError(t, err)
	calls, _ := recount(got)
	assert.Equal(t, calls, result.Calls)
}

// events makes a trace of sizes: a number takes, its negative gives back what the number took.
func events(steps ...int64) *trace.Trace {
	t := &trace.Trace{Streams: 1}
	blocks := map[int64]uint32{}
	for _, step := range steps {
		e := trace.Event{Bytes: uint64(max(step, -step)), Block: uint32(t.Blocks)}
		if step < 0 {
			e.Block, e.Free = blocks[-step], true
		} else {
			blocks[step] = e.Block
			t.Blocks++
		}
		t.Events = append(t.Events, e)
	}
	return t
}

func TestWhatDoesNotFitIsCounted(t *testing.T) {
	for name, options := range configurations(t) {
		d, of := device(t, sim.Options{Memory: 64 * mib, Unchecked: true})
		const huge, most = 1 << 60, 1<<63 - 1
		result, err := Run(context.Background(), of, events(20*mib, 80*mib, huge, most, -80*mib, -huge, 1, -20*mib, 30*mib, -1),
			Options{Pool: options})
		require.NoError(t, err, name)
		assert.Equal(t, uint64(3), result.Failures, name)
		assert.Equal(t, status.OutOfMemory, status.CodeOf(result.First), name)
		assert.Equal(t, uint64(30*mib+1), result.Live, name)
		assert.Equal(t, uint64(8), result.Calls, name) // 2 frees are of what is not there
		require.NoError(t, d.Problems())
	}
}

// Memory that the driver did not give, or has again, is not reserved.
func TestReservedIsWhatTheDriverGave(t *testing.T) {
	for name, options := range configurations(t) {
		_, of := device(t, sim.Options{Memory: 64 * mib, Unchecked: true})
		result, err := Run(context.Background(), of, events(40*mib, -40*mib, 80*mib, 48*mib), Options{Pool: options})
		require.NoError(t, err, name)
		assert.Equal(t, uint64(1), result.Failures, name)
		assert.GreaterOrEqual(t, result.Reserved, uint64(48*mib), name)
		assert.LessOrEqual(t, result.Reserved, uint64(64*mib), name)
		if options != nil {
			assert.NotZero(t, result.Driver.Destroyed, name)
		}
	}
}

// noting is a device that notes on which streams memory is taken and given back.
type noting struct {
	driver.Device
	taken, given []driver.Stream
}

func (n *noting) AllocateOrdered(stream driver.Stream, bytes uint64) (driver.Address, error) {
	n.taken = append(n.taken, stream)
	return n.Device.AllocateOrdered(stream, bytes)
}

func (n *noting) FreeOrdered(stream driver.Stream, address driver.Address) error {
	n.given = append(n.given, stream)
	return n.Device.FreeOrdered(stream, address)
}

func TestStreamsAreThoseOfTheTrace(t *testing.T) {
	recorded := &trace.Trace{Blocks: 3, Streams: 3, Events: []trace.Event{{Bytes: 1}, {Bytes: 2, Block: 1, Stream: 1},
		{Bytes: 3, Block: 2, Stream: 2}, {Bytes: 1, Stream: 2, Free: true}, {Bytes: 2, Block: 1, Free: true},
		{Bytes: 3, Block: 2, Stream: 1, Free: true}}}
	d, of := device(t, sim.Options{})
	n := &noting{Device: of}
	_, err := Run(context.Background(), n, recorded, Options{})
	require.NoError(t, err)
	require.Len(t, n.taken, 3)
	assert.Equal(t, []driver.Stream{n.taken[2], n.taken[0], n.taken[1]}, n.given)
	assert.NotEqual(t, n.taken[0], n.taken[1])
	assert.NotEqual(t, n.taken[1], n.taken[2])
	require.NoError(t, d.Problems())
}

func TestAReplayIsCancelled(t *testing.T) {
	steps := make([]int64, 3*between)
	for at := range steps {
		steps[at] = int64(at) + 1
	}
	d, of := device(t, sim.Options{})
	ctx, cancel := context.WithCancel(context.Background())
	_, err := Run(ctx, of, events(steps...), Options{Pool: &pool.Options{}, Progress: func(done, _ uint64) {
		if done > 0 {
			cancel()
		}
	}})
	require.Equal(t, status.Cancelled, status.CodeOf(err))
	require.ErrorContains(t, err, fmt.Sprintf("after %d of %d events", between, 3*between))
	require.NoError(t, d.Problems())
}

// Each call of the driver fails at each of its first times: an error or a failure that is counted, and nothing is left.
func TestADriverThatFails(t *testing.T) {
	recorded := read(t, "rmm.csv")
	for _, call := range []sim.Call{sim.MemoryInfo, sim.Reserve, sim.CreatePhysical, sim.Map, sim.CreateStream,
		sim.AllocateOrdered, sim.FreeOrdered} {
		for number := range 3 {
			for name, options := range map[string]*pool.Options{"default": {}, "none": nil} {
				d, of := device(t, sim.Options{Memory: 512 * mib})
				require.NoError(t, d.Inject(sim.Fault{Call: call, After: number}))
				result, err := Run(context.Background(), of, recorded, Options{Pool: options})
				if err == nil {
					assert.LessOrEqual(t, result.Failures, uint64(1), "%v %d %s", call, number, name)
				}
				require.NotEqual(t, status.Internal, status.CodeOf(err), "%v", err)
			}
		}
	}
}

func TestDevicesWithoutThePool(t *testing.T) {
	_, of := device(t, sim.Options{NoVirtual: true})
	_, err := Run(context.Background(), of, events(1), Options{Pool: &pool.Options{Origin: pool.Virtual}})
	require.Equal(t, status.Unsupported, status.CodeOf(err))
}
