// Package runtime is the stream-ordered device runtime: streams, blocks of device memory, and the order between their uses.
//
// Its contract is docs/devices.md and mmsb.h. It keeps order without ever making the host wait for the device: a use that
// conflicts with work of another stream makes its stream wait for an event. The hazards it closes are those of every
// stream-ordered allocator: read after write, write after read, write after write, use before the allocation is there, and reuse
// of memory that is still being used.
//
// Locks, each held for a short time only, and none of them while the device is asked anything that may take long: that of a
// stream's magazines, a block's, then a stream's. Two of a kind are never held together.
package runtime

import (
	"cmp"
	"sync"
	"sync/atomic"
	"time"

	"libmmsb/core/invariant"
	"libmmsb/core/log"
	"libmmsb/core/pool"
	"libmmsb/core/status"
	"libmmsb/gpu/driver"
)

// Options say what a runtime is made of.
type Options struct {
	// Streams is the most streams that are leased at a time; 0 = 64.
	Streams int
	// Adaptors are put over the device's memory, the first one lowest.
	Adaptors []Adaptor
	// Pool: blocks come from a caching allocator; nil = from the device's stream-ordered memory.
	Pool *pool.Options
	// Others is asked when memory is missing; nil: nobody knows.
	Others Others
	// Patience is how long a request that lacks memory waits for the device to come past more of what was freed; 0: not at all,
	// less: for ever.
	Patience time.Duration
}

// UsualPatience is that of runtimes for which nobody chose another.
const UsualPatience = 10 * time.Second

// Runtime is the streams and blocks of one device.
type Runtime struct {
	device  driver.Device
	options Options
	layer   Layer // the uppermost
	pool    *Pool // the lowest; nil = the device's own memory
	hits    *hits // nil = every call enters Go
	ledger  *DeviceLedger
	host    hostMemory
	events  eventPool
	streams streamTable
	foreign foreignTable

	// Bytes of all blocks that ever were. They only grow, each after the one above it, so that differences of values that are
	// read from below to above are true at some moment and never negative: outstanding = live + pending holds without a lock.
	bytes struct {
		allocated atomic.Uint64
		freed     atomic.Uint64 // the free is queued, or waits for a use to end
		released  atomic.Uint64 // the device has come past the free
	}
	spans  atomic.Uint64 // bytes of what was left of them, ever
	stuck  stuck
	counts counts
	points pointTable
	calls  calls
	loans  loans
	lost   atomic.Bool
	made   atomic.Bool // until then other runtimes of the device see it, and get nothing of it
	idle   atomic.Bool // the device has done everything there will ever be

	closing sync.Once
	leaks   Leaks
	closed  error // what closing met
}

// counts are how often things happened. They only grow.
type counts struct {
	allocations, frees, deferredFrees, failures atomic.Uint64
	uses, aborts, waits, waitsSaved             atomic.Uint64
	reaps, settles                              atomic.Uint64
}

// Usage is what a runtime holds. Outstanding = Live + Pending, always.
type Usage struct {
	Outstanding, Live, Pending             uint64 // bytes
	Blocks                                 uint64 // live ones
	Allocations, Frees, DeferredFrees      uint64
	Failures                               uint64 // allocations that failed
	Uses, Aborts, Waits, WaitsSaved, Reaps uint64
	Settles                                uint64 // requests that have waited for the device
	EventsMade, EventsEnded                uint64
	Streams                                uint64 // leased now
}

// New composes a runtime of its own over a device.
func New(device driver.Device, options Options) (*Runtime, error) {
	if !device.Info().OrderedMemory && options.Pool == nil {
		return nil, status.Errorf(status.Unsupported, "device %d (%s) has no stream-ordered memory", device.Info().Ordinal,
			device.Info().Name)
	}
	if options.Streams == 0 {
		options.Streams = 64
	}
	r := &Runtime{device: device, options: options}
	r.events.device = device
	r.calls.last = make(chan struct{}, 1)
	joinLedger(r)
	if err := r.compose(); err != nil {
		leaveLedger(r)
		return nil, err
	}
	r.made.Store(true)
	return r, nil
}

// compose makes the layers of memory.
func (r *Runtime) compose() (err error) {
	r.layer = &orderedLayer{deviceLayer{device: r.device}, r.ledger}
	if of := r.options.Pool; of != nil {
		if r.pool, err = newPool(r.device, *of, r.ledger, r); err != nil {
			return err
		}
		r.pool.cached = r.streams.cached
		r.layer = r.pool
	}
	r.layer = &ladder{r.layer, r}
	for _, adaptor := range r.options.Adaptors {
		if err := adaptor.Over(r.layer, r); err != nil {
			return cmp.Or(err, r.layer.Close())
		}
		if log, is := adaptor.(*Log); is && r.pool != nil {
			r.pool.log, log.pooled = log, true
		}
		r.layer = adaptor
	}
	if r.hits, err = newHits(r); err != nil {
		return cmp.Or(err, r.layer.Close())
	}
	r.streams.init(r)
	return nil
}

// shared are the runtimes of the process, one for each device.
var shared struct {
	sync.Mutex
	runtimes map[sharedKey]*sharedEntry
}

type sharedKey struct {
	driver  driver.Driver
	ordinal int
}

type sharedEntry struct {
	sync.Mutex
	runtime *Runtime
}

// For is the process-wide runtime of a device, built by the first caller; callers that come meanwhile wait for it. Where building
// fails, the next call tries again.
func For(of driver.Driver, ordinal int, build func(driver.Device) (*Runtime, error)) (*Runtime, error) {
	shared.Lock()
	if shared.runtimes == nil {
		shared.runtimes = make(map[sharedKey]*sharedEntry)
	}
	key := sharedKey{of, ordinal}
	entry := shared.runtimes[key]
	if entry == nil {
		entry = &sharedEntry{}
		shared.runtimes[key] = entry
	}
	shared.Unlock()
	entry.Lock()
	defer entry.Unlock()
	if entry.runtime != nil {
		return entry.runtime, nil
	}
	device, err := of.Open(ordinal)
	if err != nil {
		return nil, err
	}
	entry.runtime, err = build(device)
	return entry.runtime, err
}

// Leave forgets the process-wide runtimes of a driver that ends.
func Leave(of driver.Driver) {
	shared.Lock()
	for key := range shared.runtimes {
		if key.driver == of {
			delete(shared.runtimes, key)
		}
	}
	shared.Unlock()
	for ordinal := range of.Count() {
		if device, err := of.Open(ordinal); err == nil {
			forgetLedger(device)
		}
	}
}

// Drop forgets one of the process-wide runtimes, which ends: the next For builds another.
func Drop(r *Runtime) {
	shared.Lock()
	defer shared.Unlock()
	for key, entry := range shared.runtimes {
		entry.Lock()
		if entry.runtime == r {
			delete(shared.runtimes, key)
		}
		entry.Unlock()
	}
}

// Pool is the runtime's caching allocator; nil = it has none.
func (r *Runtime) Pool() *Pool { return r.pool }

// Lost says that the device is lost.
func (r *Runtime) Lost() bool { return r.lost.Load() }

// Device is the runtime's device.
func (r *Runtime) Device() driver.Device { return r.device }

// mostLooks ends Usage where blocks go all the time: what is live can then be too many by those that went meanwhile.
const mostLooks = 1000

// Usage is what the runtime holds now.
func (r *Runtime) Usage() Usage {
	c := &r.counts
	var released, freed, allocated, frees, allocations uint64
	// What goes is read before and behind what comes: where it has not moved, all of them are of one moment.
	for range mostLooks {
		released = r.released()
		freed, frees = r.freed()
		allocated, allocations = r.allocated()
		againFreed, againFrees := r.freed()
		if r.released() == released && againFreed == freed && againFrees == frees {
			break
		}
	}
	u := Usage{
		Outstanding: allocated - released, Pending: freed - released, Live: allocated - freed,
		Allocations: allocations, Frees: frees, DeferredFrees: c.deferredFrees.Load(), Failures: c.failures.Load(),
		Uses: c.uses.Load(), Aborts: c.aborts.Load(), Waits: c.waits.Load(), WaitsSaved: c.waitsSaved.Load(),
		Reaps: c.reaps.Load(), Settles: c.settles.Load(),
		EventsMade: r.events.made.Load(), EventsEnded: r.events.ended.Load(),
		Streams: uint64(r.streams.leased()),
	}
	u.Blocks = u.Allocations - u.Frees
	return u
}

// Blocks are the runtime's live blocks.
func (r *Runtime) Blocks() []BlockInfo {
	var all []BlockInfo
	allBlocks.each(func(info BlockInfo) {
		if info.Stream.runtime == r {
			all = append(all, info)
		}
	})
	return all
}

// Leaks are what was not given back when a runtime was closed.
type Leaks struct {
	Blocks  []BlockInfo
	Streams int // leased
	Uses    int // begun, not ended
}

// Close waits for the calls that are running and for the device, ends what is left, and says what that was: handles of it are
// stale from then on. Who calls it again gets the same answer, when it has ended. Blocks that other libraries have keep their
// memory, and with it the runtime's, until the last one is given back.
func (r *Runtime) Close() (Leaks, error) { return r.CloseThen(func() {}) }

// CloseThen is Close, and calls then once the memory is gone.
func (r *Runtime) CloseThen(then func()) (Leaks, error) {
	r.closing.Do(func() {
		r.leaks, r.closed = r.close()
		if r.loans.over(func() {
			if err := r.end(); err != nil {
				log.Logf(log.Warning, "device %d: memory that other libraries had ended with an error: %v",
					r.device.Info().Ordinal, err)
			}
			then()
		}) {
			r.closed = cmp.Or(r.closed, r.end())
			then()
		}
	})
	return r.leaks, r.closed
}

func (r *Runtime) close() (Leaks, error) {
	r.calls.end()
	endCaptures(r)
	r.shut()
	err := r.noteLost(r.device.Synchronize())
	var leaks Leaks
	leaks.Uses = endUses(r)
	leaks.Blocks = r.Blocks()
	err = cmp.Or(err, r.endBlocks())
	r.points.settle(err)
	leaks.Streams = r.streams.leased()
	return leaks, err
}

// endBlocks frees the blocks that nobody has, when the device has done everything there is.
func (r *Runtime) endBlocks() (err error) {
	var left []*block
	allBlocks.all(func(b *block) {
		if b.stream.runtime == r {
			left = append(left, b)
		}
	})
	for _, b := range left {
		err = cmp.Or(err, b.end(r))
	}
	err = cmp.Or(err, r.noteLost(r.device.Synchronize()))
	r.idle.Store(true) // or gone: nothing that was queued is still to come
	r.reap()
	return err
}

// end ends a runtime that is closed, and of which nobody has anything.
func (r *Runtime) end() error {
	err := cmp.Or(r.noteLost(r.device.Synchronize()), r.endBlocks())
	if invariant.Enabled && err == nil && !r.lost.Load() {
		invariant.Check(r.checkEnded())
	}
	r.endHits()
	r.foreign.close(r)
	err = cmp.Or(err, r.layer.Close(), r.host.close(r.lost.Load()), r.streams.close(), r.events.close())
	leaveLedger(r)
	return err
}
