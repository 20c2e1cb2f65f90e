// The last steps before memory is missing: what other runtimes of the device do not need, what was freed and the device has not
// come past, and then an error with all numbers.

package runtime

import (
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"libmmsb/core/status"
	"libmmsb/gpu/driver"
)

// orderedLayer is the device's own stream-ordered memory, charged to the device's ledger.
type orderedLayer struct {
	deviceLayer
	ledger *DeviceLedger
}

func (l *orderedLayer) Allocate(request Request) (Memory, error) {
	if err := l.ledger.take(request.Bytes); err != nil {
		return Memory{}, err
	}
	memory, err := l.deviceLayer.Allocate(request)
	if err != nil {
		l.ledger.Give(request.Bytes)
	}
	return memory, err
}

func (l *orderedLayer) Released(memory Memory) { l.ledger.Give(memory.Bytes) }

// ladder lies over a runtime's lowest layer, below all adaptors.
type ladder struct {
	Layer
	runtime *Runtime
}

func (l *ladder) Allocate(request Request) (Memory, error) {
	a := l.runtime.attempt(request.Stream)
	memory, err := l.Layer.Allocate(request)
	if !lacks(err) {
		return memory, err
	}
	return l.climb(request, a, err)
}

func (l *ladder) climb(request Request, a attempt, err error) (memory Memory, _ error) {
	r := l.runtime
	err = r.ledger.seek(r, request.Bytes, a, err, func() (err error) {
		memory, err = l.Layer.Allocate(request)
		return err
	})
	if lacks(err) {
		err = r.missing(err)
	}
	return memory, err
}

// attempt is what is noted before memory is looked for.
type attempt struct {
	patience time.Duration  // as in Options
	waited   *atomic.Uint64 // counts those who have waited; nil: it has
	regained uint64         // lender.regained, of the runtime
}

// attempt is one of a request on a stream; nil is no stream. One of a stream that captures has no patience.
func (r *Runtime) attempt(s *Stream) attempt {
	a := attempt{waited: &r.counts.settles, regained: r.regained()}
	if s == nil || s.capture.Load() == nil {
		a.patience = r.options.Patience
	}
	return a
}

// seek tries again what one of the lenders has found too little memory for (err; nil: somebody else): when the others have given
// back what they do not need, and when blocks that were freed are released. A pool that its own limit refuses asks nobody, and
// waits for nothing: only what is live is too much for it. No lock may be held.
func (l *DeviceLedger) seek(one lender, bytes uint64, a attempt, err error, again func() error) error {
	if !lacks(err) || bytes > l.limit.Load() {
		return err
	}
	lenders := l.all()
	if one != nil {
		if one.Reap(); one.overLimit(bytes) {
			lenders, a.patience = []lender{one}, 0
		}
	}
	if !slices.ContainsFunc(lenders, func(with lender) bool { return with != one }) {
		return l.settle(lenders, a, err, again)
	}
	ask := func() (err error) {
		for range mostAsked {
			returned := l.ask(lenders, one, bytes)
			if err = again(); !lacks(err) || returned == 0 {
				break
			}
		}
		return err
	}
	l.asked.Add(1)
	a.regained = regainedBy(lenders)
	if err = l.settle(lenders, a, ask(), ask); !lacks(err) {
		l.helped.Add(1)
	}
	return err
}

// Settle implements Host.
func (r *Runtime) Settle(stream *Stream, try func() error) error {
	a := r.attempt(stream)
	r.reap()
	return r.ledger.settle([]lender{r}, a, try(), try)
}

// mostTries ends trying where requests without patience take all that comes.
const mostTries = 1000

// settle tries what has found too little memory (err) when more of what lenders have freed is regained: once, and with patience
// as often as the device goes on. From the third time on nobody else allocates meanwhile, who would take what comes. The device
// is asked, not waited for, so that no capture breaks, and no lock is held that anybody needs while it goes on.
func (l *DeviceLedger) settle(lenders []lender, a attempt, err error, try func() error) error {
	most := mostTries
	if a.patience == 0 {
		most = 1
	}
	for tries := 1; lacks(err) && tries <= most; tries++ {
		if tries == 3 {
			defer l.turn.take()()
		}
		now, pending := a.await(lenders)
		if now == a.regained {
			if pending && a.patience != 0 {
				err = status.More(err, "; the device has come past nothing of what is pending in %v", a.patience)
			}
			return err
		}
		a.regained, err = now, try()
	}
	return err
}

// mostBetween is the longest time between two looks at the device.
const mostBetween = 10 * time.Millisecond

// await waits until more is regained, nothing is pending, or patience ends.
func (a *attempt) await(lenders []lender) (regained uint64, pending bool) {
	for begin := time.Now(); ; {
		for _, with := range lenders {
			with.Reap()
		}
		regained = regainedBy(lenders)
		pending = slices.ContainsFunc(lenders, lender.pending)
		since := time.Since(begin)
		if regained != a.regained || !pending || a.patience >= 0 && since >= a.patience {
			return regained, pending
		}
		if a.waited != nil {
			a.waited.Add(1)
			a.waited = nil
		}
		time.Sleep(min(max(shortestSleep, since/8), mostBetween))
	}
}

func regainedBy(lenders []lender) (bytes uint64) {
	for _, with := range lenders {
		bytes += with.regained()
	}
	return bytes
}

// overLimit implements lender.
func (r *Runtime) overLimit(bytes uint64) bool {
	if r.pool == nil || r.options.Pool.Limit == 0 {
		return false
	}
	return r.pool.Statistics().Held+bytes > r.options.Pool.Limit
}

// missing adds to the error of a request for which there is no memory where that is.
func (r *Runtime) missing(err error) error {
	usage, m, budget, others := r.Usage(), MemoryOf(r.charges()), "none", "unknown"
	if m.Budget > 0 {
		budget = strconv.FormatUint(m.Budget, 10)
	}
	if r.options.Others != nil {
		if bytes, known := r.options.Others(r.device.Info()); known {
			others = strconv.FormatUint(bytes, 10)
		}
	}
	of := "pinned memory"
	if r.charges() != nil {
		of = "device " + strconv.Itoa(r.device.Info().Ordinal)
	}
	return status.More(err, "; %d bytes of blocks live, %d pending; this process has %d of %s, %d free in other pools, budget %s"+
		"; other processes have %s", usage.Live, usage.Pending, m.Charged, of, r.ledger.free(r), budget, others)
}

// Others says how many bytes of a device other processes have; false: nobody knows.
type Others func(info driver.Info) (bytes uint64, known bool)
