// What this process has taken of the memory of a device, or of pinned memory of the host: one ledger each, for all runtimes.

package runtime

import (
	"math"
	"slices"
	"sync"
	"sync/atomic"

	"libmmsb/core/pool"
	"libmmsb/core/status"
	"libmmsb/gpu/driver"
)

// DeviceLedger has what this process has taken of a device's memory: segments of pools, blocks of runtimes without a pool,
// managed memory. A block that a pool gives out again charges nothing: its memory was charged as a segment. It may have a budget,
// which all of them are admitted by.
type DeviceLedger struct {
	ledger
	peak                    atomic.Uint64
	asked, helped, returned atomic.Uint64
	turn                    turn

	mutex   sync.Mutex
	lenders []lender
}

// lender has memory of a ledger, and may keep more than it needs: a runtime, or a pool of host memory. No lock is held.
type lender interface {
	// giveBack gives back memory that nobody needs, about so many bytes, and says how many these were.
	giveBack(bytes uint64) uint64
	// kept is how many bytes pools have, and no block.
	kept() uint64
	// overLimit says that its pool is too small for so many bytes, whatever others free.
	overLimit(bytes uint64) bool
	// Reap looks how far the device has come.
	Reap()
	// regained is how many bytes have become free again, ever: of blocks that were released, and what was left of spans.
	regained() uint64
	// pending says whether there are more that may: blocks that were freed, unless the device is not to come past them.
	pending() bool
}

// atRest is a part of lenders without a limit of their own, whose memory is free when it is freed: no device has to come past.
type atRest struct{}

func (atRest) overLimit(uint64) bool { return false }
func (atRest) Reap()                 {}
func (atRest) regained() uint64      { return 0 }
func (atRest) pending() bool         { return false }

// cache is what somebody else keeps in blocks of a runtime, which is a lender, too, and can do without.
type cache struct {
	atRest
	drop    func(bytes uint64) uint64
	runtime *Runtime
}

// Lend lets the device's ledger ask for blocks of the runtime that somebody keeps and can do without: drop frees such blocks, of
// about so many bytes, and says how many these were. It may be called with any lock held that is held where memory is allocated.
// end ends that.
func (r *Runtime) Lend(drop func(bytes uint64) uint64) (end func()) {
	with := &cache{drop: drop, runtime: r}
	onLedger(r.charges(), func(l *DeviceLedger) { l.join(with) })
	return func() { onLedger(r.charges(), func(l *DeviceLedger) { l.leave(with) }) }
}

// giveBack implements lender. What the runtime has of it then goes on to others.
func (c *cache) giveBack(bytes uint64) uint64 {
	dropped := c.drop(bytes)
	if dropped > 0 {
		_ = c.runtime.giveBack(bytes)
	}
	return dropped
}

func (c *cache) kept() uint64 { return 0 }

// turn is one request's at a time, while others wait.
type turn struct {
	mutex sync.Mutex
	over  atomic.Pointer[chan struct{}] // closed at the end; nil: nobody has it
}

func (t *turn) take() (end func()) {
	t.mutex.Lock()
	over := make(chan struct{})
	t.over.Store(&over)
	return func() {
		t.over.Store(nil)
		close(over)
		t.mutex.Unlock()
	}
}

// pass waits while somebody has the turn. Who has no patience does not.
func (t *turn) pass(a attempt) {
	if over := t.over.Load(); over != nil && a.patience != 0 {
		<-*over
	}
}

// noBudget is the limit of a ledger that has no budget.
const noBudget = math.MaxUint64

// deviceLedgers are those of devices that have runtimes, a budget or charges.
var deviceLedgers = struct {
	sync.Mutex
	of map[driver.Device]*DeviceLedger
}{of: make(map[driver.Device]*DeviceLedger)}

// pinnedLedger has the pinned memory of this process, whichever devices it was taken for.
var pinnedLedger = newDeviceLedger()

func newDeviceLedger() *DeviceLedger {
	l := &DeviceLedger{}
	l.limit.Store(noBudget)
	return l
}

// onLedger calls work with the ledger of a device, or with that of pinned memory where there is none.
func onLedger(device driver.Device, work func(l *DeviceLedger)) {
	if device == nil {
		work(pinnedLedger)
		return
	}
	deviceLedgers.Lock()
	defer deviceLedgers.Unlock()
	l := deviceLedgers.of[device]
	if l == nil {
		l = newDeviceLedger()
		deviceLedgers.of[device] = l
	}
	work(l)
	if len(l.all()) == 0 && l.limit.Load() == noBudget && l.charged.Load() == 0 {
		delete(deviceLedgers.of, device)
	}
}

// charges is whose ledger a runtime charges: its device's, or that of pinned memory, nil.
func (r *Runtime) charges() driver.Device {
	if of := r.options.Pool; of != nil && of.Origin == pool.Pinned {
		return nil
	}
	return r.device
}

// joinLedger makes a runtime one that its ledger asks for memory, until leaveLedger.
func joinLedger(r *Runtime) {
	onLedger(r.charges(), func(l *DeviceLedger) {
		r.ledger = l
		l.join(r)
	})
}

func leaveLedger(r *Runtime) { onLedger(r.charges(), func(l *DeviceLedger) { l.leave(r) }) }

func (l *DeviceLedger) join(with lender) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.lenders = append(l.lenders, with)
}

func (l *DeviceLedger) leave(with lender) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.lenders = slices.DeleteFunc(l.lenders, func(other lender) bool { return other == with })
}

// forgetLedger ends the ledger of a device that ends.
func forgetLedger(device driver.Device) {
	deviceLedgers.Lock()
	defer deviceLedgers.Unlock()
	delete(deviceLedgers.of, device)
}

// SetDeviceBudget sets how many bytes of a device this process takes at most, or of pinned memory, where device is nil; 0: any
// number. Who has more keeps it, but for what pools have and no block.
func SetDeviceBudget(device driver.Device, bytes uint64) {
	if bytes == 0 {
		bytes = noBudget
	}
	var of *DeviceLedger
	onLedger(device, func(l *DeviceLedger) {
		l.limit.Store(bytes)
		of = l
	})
	if charged := of.charged.Load(); charged > bytes {
		of.ask(of.all(), nil, charged-bytes)
	}
}

// DeviceMemory is what a ledger says of itself.
type DeviceMemory struct {
	Budget, Charged, Peak uint64 // bytes; a budget of 0: none
	Free                  uint64 // bytes of Charged that pools have and no block
	Runtimes              int
	Asked, Helped         uint64 // requests for which other runtimes were asked for memory, and those that had it then
	Returned              uint64 // bytes that these gave back
}

// MemoryOf is what this process has of a device, or of pinned memory, where device is nil.
func MemoryOf(device driver.Device) (m DeviceMemory) {
	onLedger(device, func(l *DeviceLedger) {
		m = DeviceMemory{Charged: l.charged.Load(), Peak: l.peak.Load(), Free: l.free(nil), Runtimes: l.runtimes(),
			Asked: l.asked.Load(), Helped: l.helped.Load(), Returned: l.returned.Load()}
		if limit := l.limit.Load(); limit != noBudget {
			m.Budget = limit
		}
	})
	return m
}

func (l *DeviceLedger) all() []lender {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return slices.Clone(l.lenders)
}

func (l *DeviceLedger) runtimes() (count int) {
	for _, with := range l.all() {
		if _, is := with.(*Runtime); is {
			count++
		}
	}
	return count
}

// free is how many bytes pools have and no block; without one of the lenders.
func (l *DeviceLedger) free(without lender) (bytes uint64) {
	for _, with := range l.all() {
		if with != without {
			bytes += with.kept()
		}
	}
	return bytes
}

// take charges bytes that the driver is about to be asked for. Errors: Limit.
func (l *DeviceLedger) take(bytes uint64) error {
	charged, ok, _ := l.Take(bytes)
	if !ok {
		limit := l.limit.Load()
		return status.Errorf(status.Limit, "%d bytes exceed the budget of this process: %d charged, %d left, limit %d", bytes,
			charged, limit-min(charged, limit), limit)
	}
	for now, peak := charged+bytes, l.peak.Load(); now > peak && !l.peak.CompareAndSwap(peak, now); {
		peak = l.peak.Load()
	}
	return nil
}

// ask asks lenders, all but one, to give back bytes that they do not need. No lock may be held.
func (l *DeviceLedger) ask(lenders []lender, but lender, bytes uint64) (returned uint64) {
	for _, with := range lenders {
		if with != but && returned < bytes {
			returned += with.giveBack(bytes - returned)
		}
	}
	l.returned.Add(returned)
	return returned
}

// mostAsked ends asking where what is given back is always somebody else's before it can be taken.
const mostAsked = 4

// lacks says that an error is a lack of memory.
func lacks(err error) bool {
	code := status.CodeOf(err)
	return code == status.OutOfMemory || code == status.Limit
}

// giveBack implements lender. What it fails at, the runtime's own calls will see.
func (r *Runtime) giveBack(bytes uint64) uint64 {
	if !r.made.Load() || r.enter() != nil {
		return 0
	}
	defer r.leave()
	released := r.bytes.released.Load()
	r.reap()
	if r.device.Info().OrderedMemory {
		_ = r.noteLost(r.device.TrimOrdered(0))
	}
	if r.pool == nil {
		return r.bytes.released.Load() - released
	}
	before := r.pool.Statistics()
	_ = r.noteLost(r.layer.Trim(before.Reserved - min(before.Reserved, bytes)))
	return r.pool.Statistics().Trimmed - before.Trimmed
}

// regained implements lender.
func (r *Runtime) regained() uint64 { return r.bytes.released.Load() + r.spans.Load() }

// pending implements lender. Nobody waits for streams that capture, nor for a runtime that ends.
func (r *Runtime) pending() bool {
	if !r.made.Load() || r.enter() != nil {
		return false
	}
	defer r.leave()
	return slices.ContainsFunc(r.streams.snapshot(), func(s *Stream) bool {
		_, _, queued := s.frees.ends()
		return (queued || s.fast != nil && s.fast.Cached() > 0) && s.capture.Load() == nil
	})
}

// kept implements lender.
func (r *Runtime) kept() uint64 {
	if !r.made.Load() || r.pool == nil {
		return 0
	}
	s := r.pool.Statistics()
	return s.Reserved - s.Held
}
