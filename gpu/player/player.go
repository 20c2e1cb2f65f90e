// Package player plays a recorded trace on a device, under one configuration, and says what that took.
//
// The recorded calls are made as programs make them: in C, where they find what they need there, else in Go. No work is queued on
// the streams, so the device has come past a free when it is next asked: what is measured is the allocator, not the program that
// was recorded.
package player

import (
	"context"
	"runtime"
	"sync"
	"time"

	"libmmsb/core/pool"
	"libmmsb/core/status"
	"libmmsb/core/trace"
	"libmmsb/gpu/driver"
	gpu "libmmsb/gpu/runtime"
)

// Options are a configuration, how it is played, and who watches.
type Options struct {
	Pool *pool.Options // nil: the device's own stream-ordered memory
	// Threads: each recorded thread is one. Each makes its calls in their order; a free waits for its block's allocation. Else
	// one makes all calls in the recorded order.
	Threads bool
	// Speed is how often faster than recorded the calls come, none before its time; 0: as fast as they can.
	Speed    float64
	Progress func(done, total uint64) // nil: nobody
}

// MostThreads is how many threads a replay has.
const MostThreads = 1024

// Result is what a replay took. Peaks are in bytes.
type Result struct {
	Calls    uint64        // allocations and frees that were made
	Hits     uint64        // allocations that did not enter Go
	Time     time.Duration // from the first call to the last
	Busy     time.Duration // of all threads, without waits for a call's time or for another thread
	Live     uint64        // the most that were asked for and not freed, in the recorded order
	Reserved uint64        // the most that the driver had given
	Driver   Calls
	Pool     pool.Statistics // at the end; zeros without a pool

	Failures uint64 // allocations for which there was no memory; their frees are left out
	First    error  // of these
}

// between is after how many events the context, the progress and the device's memory are looked at.
const between = 1024

// Run plays a trace on a device that nothing else uses. Errors: Cancelled (the context ended), InvalidArgument (a speed, and the
// trace has no times), Limit (threads), those of the driver, Internal (a recount at the end differs).
func Run(ctx context.Context, device driver.Device, t *trace.Trace, options Options) (Result, error) {
	switch {
	case options.Speed != 0 && !t.Timed:
		return Result{}, status.Errorf(status.InvalidArgument, "trace has events without a time")
	case options.Threads && t.Threads > MostThreads:
		return Result{}, status.Errorf(status.Limit, "trace has %d threads, more than %d", t.Threads, MostThreads)
	}
	counted, err := newCounter(device, options.Pool == nil)
	if err != nil {
		return Result{}, err
	}
	r, err := gpu.New(counted, gpu.Options{Streams: max(1, t.Streams), Pool: options.Pool, Patience: gpu.UsualPatience})
	if err != nil {
		return Result{}, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	p := player{ctx: ctx, cancel: cancel, trace: t, options: options, runtime: r, counted: counted,
		blocks: make([]block, t.Blocks), streams: make([]*gpu.Stream, t.Streams), handles: make([]uint64, t.Streams)}
	result, err := p.run()
	if _, closed := r.Close(); err == nil {
		err = closed
	}
	return result, err
}

type player struct {
	ctx     context.Context
	cancel  context.CancelFunc
	trace   *trace.Trace
	options Options
	runtime *gpu.Runtime
	counted *counter
	blocks  []block
	streams []*gpu.Stream
	handles []uint64 // of streams

	begun time.Time

	mutex  sync.Mutex
	failed error // of the first thread that did
	done   uint64
	live   uint64 // without a pool
	most   uint64
	result Result
}

func (p *player) run() (Result, error) {
	for number := range p.streams {
		var err error
		if p.handles[number], err = p.runtime.AcquireStream(0); err != nil {
			return Result{}, err
		}
		if p.streams[number], err = gpu.FindStream(p.handles[number]); err != nil {
			return Result{}, err
		}
	}
	p.begun = time.Now()
	if err := p.playAll(); err != nil {
		return Result{}, err
	}
	p.result.Time = time.Since(p.begun)
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
	if left, live := p.recount(), p.runtime.Usage().Live; live != left {
		return Result{}, status.Errorf(status.Internal, "%d bytes are live, the replay counts %d", live, left)
	}
	return p.result, nil
}

// playAll makes all calls. What was there before the recording comes first, by one thread.
func (p *player) playAll() error {
	events := p.trace.Events
	if !p.options.Threads {
		return p.play(events)
	}
	if err := p.play(events[:p.trace.Before]); err != nil {
		return err
	}
	events = events[p.trace.Before:]
	of := make([][]trace.Event, p.trace.Threads)
	for at := range events {
		of[events[at].Thread] = append(of[events[at].Thread], events[at])
	}
	var threads sync.WaitGroup
	for _, events := range of {
		threads.Go(func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			if err := p.play(events); err != nil {
				p.mutex.Lock()
				defer p.mutex.Unlock()
				if p.failed == nil {
					p.failed = err
				}
				p.cancel() // the others end, too
			}
		})
	}
	threads.Wait()
	return p.failed
}

func (p *player) cancelled() error {
	if p.ctx.Err() == nil {
		return nil
	}
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return status.Errorf(status.Cancelled, "replay is cancelled after %d of %d events", p.done, len(p.trace.Events))
}

// play makes calls in their order.
func (p *player) play(events []trace.Event) error {
	var busy time.Duration
	var hits uint64
	defer func() {
		p.mutex.Lock()
		defer p.mutex.Unlock()
		p.result.Busy += busy
		p.result.Hits += hits
	}()
	for at := 0; at < len(events); {
		if err := p.cancelled(); err != nil {
			return err
		}
		due, err := p.due(events[at:])
		if err != nil {
			return err
		}
		from, begun := at, time.Now()
		for due += at; at < due && err == nil; {
			if p.options.Pool != nil {
				done, inC := playInC(events[at:due], p.handles, p.blocks)
				at, hits = at+done, hits+inC
			}
			if at == due {
				break
			}
			if e := &events[at]; e.Free && p.blocks[e.Block].Handle.Load() == 0 { // another thread has to allocate it
				break
			}
			err = p.inGo(&events[at])
			at++
		}
		busy += time.Since(begun)
		if at > from {
			p.progress(at - from)
		}
		if err != nil {
			return err
		}
		if at < due {
			runtime.Gosched()
		}
	}
	return nil
}

// due is how many of the next events may be played now: at least one, for which it waits.
func (p *player) due(events []trace.Event) (count int, err error) {
	if p.options.Speed == 0 {
		return min(len(events), between), nil
	}
	first := p.trace.Events[0].Time
	for count == 0 {
		now := first + int64(p.options.Speed*float64(time.Since(p.begun).Microseconds()))
		for count < min(len(events), between) && events[count].Time <= now {
			count++
		}
		if count > 0 {
			break
		}
		left := time.Duration(float64(events[0].Time-now) / p.options.Speed * float64(time.Microsecond))
		select {
		case <-p.ctx.Done():
			return 0, p.cancelled()
		case <-time.After(max(left, time.Microsecond)):
		}
	}
	return count, nil
}

func (p *player) progress(events int) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.done += uint64(events)
	if p.options.Progress != nil {
		p.options.Progress(p.done, uint64(len(p.trace.Events)))
	}
}

// inGo makes one call. A free is of a block that was allocated, or for which there was no memory.
func (p *player) inGo(e *trace.Event) error {
	b := &p.blocks[e.Block]
	if e.Free {
		handle := b.Handle.Load()
		if handle == noMemory {
			return nil
		}
		b.Handle.Store(0)
		p.count(-e.Bytes)
		_, err := gpu.Free(handle, p.streams[e.Stream])
		return err
	}
	handle, _, err := p.runtime.Allocate(gpu.Request{Bytes: e.Bytes, Stream: p.streams[e.Stream]})
	switch status.CodeOf(err) {
	case status.OK:
		b.Stream = uint64(e.Stream)
		b.Handle.Store(handle)
		if p.count(e.Bytes) {
			return p.counted.look()
		}
	case status.OutOfMemory, status.Limit, status.InvalidSize: // more than the device has, the configuration allows, or any can
		b.Handle.Store(noMemory)
		p.mutex.Lock()
		defer p.mutex.Unlock()
		if p.result.Failures++; p.result.First == nil {
			p.result.First = err
		}
	default:
		return err
	}
	return nil
}

// count counts what is live, where the driver has to be asked how much it has given: more says that it is the most so far.
func (p *player) count(bytes uint64) (more bool) {
	if p.options.Pool != nil {
		return false
	}
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.live += bytes
	p.result.Calls++ // for now
	more = p.live > p.most || p.result.Calls%between == 0
	p.most = max(p.most, p.live)
	return more
}

// recount counts the calls and what was live, in the recorded order, and says what is left.
func (p *player) recount() (live uint64) {
	p.result.Calls = 0
	for at := range p.trace.Events {
		e := &p.trace.Events[at]
		failed := p.blocks[e.Block].Handle.Load() == noMemory
		switch {
		case e.Free && failed:
			continue
		case e.Free:
			live -= e.Bytes
		case !failed:
			live += e.Bytes
			p.result.Live = max(p.result.Live, live)
		}
		p.result.Calls++
	}
	return live
}
