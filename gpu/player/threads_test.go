package player

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"libmmsb/core/layout"
	"libmmsb/core/pool"
	"libmmsb/core/status"
	"libmmsb/core/trace"
	"libmmsb/gpu/sim"
)

func TestGoAndCHaveTheSameLayouts(t *testing.T) {
	for _, pair := range layouts() {
		assert.Empty(t, layout.Difference(pair[0], pair[1], map[string]string{"_": "reserved"}))
	}
}

// What was freed on a stream comes again without Go.
func TestHitsAreCounted(t *testing.T) {
	var steps []int64
	for range 100 {
		steps = append(steps, 1000, -1000)
	}
	recorded := events(steps...)
	_, of := device(t, sim.Options{Memory: 64 * mib})
	result, err := Run(context.Background(), of, recorded, Options{Pool: &pool.Options{}})
	require.NoError(t, err)
	assert.EqualValues(t, 99, result.Hits)
	assert.EqualValues(t, 200, result.Calls)
	assert.EqualValues(t, 1000, result.Live)
	assert.Positive(t, result.Busy)
	assert.LessOrEqual(t, result.Busy, result.Time)
	for at := range recorded.Events { // what is freed on another stream does not come again so; blocks are cut off a span
		if recorded.Events[at].Free {
			recorded.Events[at].Stream = 1
		}
	}
	recorded.Streams = 2
	_, of = device(t, sim.Options{Memory: 64 * mib})
	result, err = Run(context.Background(), of, recorded, Options{Pool: &pool.Options{}})
	require.NoError(t, err)
	assert.EqualValues(t, 99, result.Hits)
	_, of = device(t, sim.Options{Memory: 64 * mib})
	result, err = Run(context.Background(), of, recorded, Options{})
	require.NoError(t, err)
	assert.Zero(t, result.Hits, "without a pool")
}

// threaded is a trace of threads that free each other's blocks; some are from before.
func threaded(threads, count int) *trace.Trace {
	random := rand.New(rand.NewPCG(4, 4))
	t := &trace.Trace{Streams: threads, Threads: threads, Before: 3}
	var live []trace.Event
	for at := range count {
		thread := random.IntN(threads)
		if at >= 3 && len(live) > 20 || len(live) > 3 && random.IntN(2) == 0 {
			number := random.IntN(len(live))
			e := live[number]
			e.Free, e.Thread = true, uint32(thread)
			if random.IntN(4) == 0 {
				e.Stream = uint16(thread)
			}
			live = append(live[:number], live[number+1:]...)
			t.Events = append(t.Events, e)
			continue
		}
		e := trace.Event{Bytes: 1 + random.Uint64N([]uint64{4096, mib, 3 * mib}[random.IntN(3)]), Block: uint32(t.Blocks),
			Thread: uint32(thread), Stream: uint16(thread)}
		if at%2 == 0 {
			e.Bytes = 1000
		}
		t.Blocks++
		live = append(live, e)
		t.Events = append(t.Events, e)
	}
	return t
}

func TestThreadsOfATraceAreThreads(t *testing.T) {
	recorded := threaded(5, 4000)
	calls, most := recount(recorded)
	for name, options := range configurations(t) {
		d, of := device(t, sim.Options{Memory: 512 * mib})
		result, err := Run(context.Background(), of, recorded, Options{Pool: options, Threads: true})
		require.NoError(t, err, name)
		assert.Equal(t, calls, result.Calls, name)
		assert.Equal(t, most, result.Live, name)
		assert.Zero(t, result.Failures, name)
		assert.GreaterOrEqual(t, result.Reserved, left(recorded), name)
		assert.Positive(t, result.Busy)
		if options != nil {
			assert.NotZero(t, result.Hits, name)
		}
		require.NoError(t, d.Problems())
	}
	recorded.Threads = MostThreads + 1
	_, of := device(t, sim.Options{})
	_, err := Run(context.Background(), of, recorded, Options{Threads: true})
	require.Equal(t, status.Limit, status.CodeOf(err))
}

// A thread that fails, or that is cancelled while it waits for another, ends all.
func TestThreadsEndTogether(t *testing.T) {
	recorded := threaded(4, 3000)
	d, of := device(t, sim.Options{Memory: 512 * mib})
	require.NoError(t, d.Inject(sim.Fault{Call: sim.FreeOrdered, After: 100}))
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute) // else a bug would wait for ever
	defer cancel()
	_, err := Run(ctx, of, recorded, Options{Threads: true})
	require.Equal(t, status.Device, status.CodeOf(err), "%v", err)
	require.NoError(t, ctx.Err(), "nobody waits for what does not come")

	recorded.Timed = true // the last call of one thread comes in an hour, and others wait for it
	last := &recorded.Events[len(recorded.Events)-1]
	last.Time = 3600e6
	ctx, cancelled := context.WithCancel(context.Background())
	defer cancelled()
	_, of = device(t, sim.Options{Memory: 512 * mib})
	_, err = Run(ctx, of, recorded, Options{Pool: &pool.Options{}, Threads: true, Speed: 1,
		Progress: func(done, _ uint64) {
			if done == 2999 {
				cancelled()
			}
		}})
	require.Equal(t, status.Cancelled, status.CodeOf(err), "%v", err)
	require.ErrorContains(t, err, "after 2999 of 3000 events")
}

func TestCallsComeAtTheirTimes(t *testing.T) {
	recorded := events(1000, 2000, -1000, -2000)
	_, of := device(t, sim.Options{})
	_, err := Run(context.Background(), of, recorded, Options{Speed: 1})
	require.Equal(t, status.InvalidArgument, status.CodeOf(err))
	recorded.Timed, recorded.Threads = true, 1
	for at := range recorded.Events {
		recorded.Events[at].Time = 7e6 + int64(at)*20_000
	}
	for _, threads := range []bool{false, true} {
		for _, options := range configurations(t) {
			_, of := device(t, sim.Options{})
			result, err := Run(context.Background(), of, recorded, Options{Pool: options, Speed: 2, Threads: threads})
			require.NoError(t, err)
			require.GreaterOrEqual(t, result.Time, 30*time.Millisecond)
			require.Less(t, result.Busy, result.Time-15*time.Millisecond, "waits are not work")
		}
	}
}
