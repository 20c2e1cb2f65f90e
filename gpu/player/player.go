// Package player plays a recorded trace on a device, under one configuration, and says what that took.
//
// One goroutine makes the recorded calls in their order, as fast as it can. No work is queued on the streams, so the device has
// come past a free when it is next asked: what is measured is the allocator, not the program that was recorded.
package player

import (
	"context"
	"time"

	"libmmsb/core/pool"
	"libmmsb/core/status"
	"libmmsb/core/trace"
	"libmmsb/gpu/driver"
	"libmmsb/gpu/runtime"
)

// Options are a configuration, and who watches.
type Options struct {
	Pool     *pool.Options            // nil: the device's own stream-ordered memory
	Progress func(done, total uint64) // nil: nobody
}

// Result is what a replay took. Peaks are in bytes.
type Result struct {
	Calls    uint64 // allocations and frees that were made
	Time     time.Duration
	Live     uint64 // the most that were asked for and not freed
	Reserved uint64 // the most that the driver had given
	Driver   Calls
	Pool     pool.Statistics // at the end; zeros without a pool

	Failures uint64 // allocations for which there was no memory; their frees are left out
	First    error  // of these
}

// between is after how many events the context, the progress and the device's memory are looked at.
const between = 1024

// Run plays a trace on a device that nothing else uses. Errors: Cancelled (the context ended), those of the driver, Internal (a
// recount at the end differs).
func Run(ctx context.Context, device driver.Device, t *trace.Trace, options Options) (Result, error) {
	counted, err := newCounter(device, options.Pool == nil)
	if err != nil {
		return Result{}, err
	}
	r, err := runtime.New(counted, runtime.Options{Streams: max(1, t.Streams), Pool: options.Pool})
	if err != nil {
		return Result{}, err
	}
	p := player{runtime: r, counted: counted, handles: make([]uint64, t.Blocks), streams: make([]*runtime.Stream, t.Streams)}
	result, err := p.run(ctx, t, options.Progress)
	if _, closed := r.Close(); err == nil {
		err = closed
	}
	return result, err
}

type player struct {
	runtime *runtime.Runtime
	counted *counter
	handles []uint64 // of blocks; 0: not there
	streams []*runtime.Stream
	live    uint64
	result  Result
}

func (p *player) run(ctx context.Context, t *trace.Trace, progress func(done, total uint64)) (Result, error) {
	for number := range p.streams {
		handle, err := p.runtime.AcquireStream(0)
		if err != nil {
			return Result{}, err
		}
		if p.streams[number], err = runtime.FindStream(handle); err != nil {
			return Result{}, err
		}
	}
	begun := time.Now()
	for at := range t.Events {
		if at%between == 0 {
			if ctx.Err() != nil {
				return Result{}, status.Errorf(status.Cancelled, "replay is cancelled after %d of %d events", at, len(t.Events))
			}
			if progress != nil {
				progress(uint64(at), uint64(len(t.Events)))
			}
		}
		if err := p.play(&t.Events[at]); err != nil {
			return Result{}, err
		}
	}
	p.result.Time = time.Since(begun)
	p.result.Driver, p.result.Reserved = p.counted.read()
	if books := p.runtime.Pool(); books != nil {
		p.result.Pool = books.Statistics().Statistics
		if err := books.Check(); err != nil {
			return Result{}, err
		}
	}
	if err := p.runtime.Check(); err != nil {
		return Result{}, err
	}
	if live := p.runtime.Usage().Live; live != p.live {
		return Result{}, status.Errorf(status.Internal, "%d bytes are live, the replay counts %d", live, p.live)
	}
	return p.result, nil
}

func (p *player) play(e *trace.Event) error {
	if e.Free {
		handle := p.handles[e.Block]
		if handle == 0 {
			return nil
		}
		p.handles[e.Block] = 0
		p.live -= e.Bytes
		p.result.Calls++
		_, err := runtime.Free(handle, p.streams[e.Stream])
		return err
	}
	handle, _, err := p.runtime.Allocate(runtime.Request{Bytes: e.Bytes, Stream: p.streams[e.Stream]})
	p.result.Calls++
	switch status.CodeOf(err) {
	case status.OK:
		p.handles[e.Block] = handle
		p.live += e.Bytes
		more := p.live > p.result.Live
		p.result.Live = max(p.result.Live, p.live)
		if more || p.result.Calls%between == 0 {
			return p.counted.look()
		}
	case status.OutOfMemory, status.Limit, status.InvalidSize: // more than the device has, the configuration allows, or any can
		if p.result.Failures++; p.result.First == nil {
			p.result.First = err
		}
	default:
		return err
	}
	return nil
}
