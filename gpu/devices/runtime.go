// Runtimes, reservations and blocks as programs have them, by handle.

package devices

import (
	"maps"
	"slices"
	"sync"
	"time"

	"libmmsb/core/abi"
	"libmmsb/core/handle"
	"libmmsb/core/log"
	"libmmsb/core/pool"
	"libmmsb/core/status"
	"libmmsb/gpu/driver"
	"libmmsb/gpu/runtime"
)

// RuntimeOptions are what a program says of a runtime of its own. The zero value is a runtime without limits and diagnostics.
type RuntimeOptions struct {
	Streams         int     // 0 = 64
	Budget          uint64  // bytes; 0 = none, or what the ledger says
	Ledger          string  // a file that processes share; "" = none
	Pool            *string // its configuration; nil = none
	LogEvents       uint64  // 0 = no log
	GuardEvery      uint64  // 0 = no guard
	GuardQuarantine uint64
	Patience        time.Duration                                           // as in runtime.Options
	RefusedAttempts int                                                     // the most calls of Refused for one block
	Refused         func(bytes uint64, attempt int, err error) (again bool) // nil = none
}

// mostLogEvents are a GiB of memory.
const mostLogEvents = 1 << 24

func (o *RuntimeOptions) check() error {
	switch {
	case o.LogEvents > mostLogEvents:
		return status.Errorf(status.InvalidArgument, "log_events is %d, more than %d", o.LogEvents, mostLogEvents)
	case o.GuardEvery == 0 && o.GuardQuarantine != 0:
		return status.Errorf(status.InvalidArgument, "guard_quarantine is %d, but guard_every is 0", o.GuardQuarantine)
	}
	return nil
}

// Runtime is a runtime with what it was composed of.
type Runtime struct {
	*runtime.Runtime
	shared     bool
	set        *Set // of a program's own one
	statistics *runtime.Statistics
	budget     *runtime.Budget       // nil = none
	ledger     *runtime.SharedLedger // nil = none
	log        *runtime.Log          // nil = none
	guard      *runtime.Guard        // nil = none
	failure    *runtime.Failure      // nil = none
	handle     uint64                // 0 until it is asked for; under registry
	ended      bool                  // under registry
}

// compose makes a runtime. The guard lies lowest: a budget counts what the program asked for. What the log has of refusals is
// what the budget refused, at each attempt.
func compose(device driver.Device, options RuntimeOptions) (*Runtime, error) {
	if err := options.check(); err != nil {
		return nil, err
	}
	r := &Runtime{statistics: &runtime.Statistics{}}
	var adaptors []runtime.Adaptor
	if options.GuardEvery != 0 {
		r.guard = runtime.NewGuard(runtime.GuardOptions{Every: options.GuardEvery, Quarantine: options.GuardQuarantine})
		adaptors = append(adaptors, r.guard)
	}
	switch {
	case options.Ledger != "":
		var err error
		if r.ledger, err = runtime.OpenLedger(options.Ledger, options.Budget); err != nil {
			return nil, err
		}
		r.budget = runtime.NewBudget(r.ledger)
	case options.Budget != 0:
		r.budget = runtime.NewBudget(runtime.NewLedger(options.Budget))
	}
	if r.budget != nil {
		adaptors = append(adaptors, r.budget)
	}
	adaptors = append(adaptors, r.statistics)
	if options.LogEvents != 0 {
		r.log = runtime.NewLog(int(options.LogEvents))
		adaptors = append(adaptors, r.log)
	}
	if options.Refused != nil {
		r.failure = runtime.NewFailure(options.RefusedAttempts, func(request runtime.Request, attempt int, err error) bool {
			return options.Refused(request.Bytes, attempt, err)
		})
		adaptors = append(adaptors, r.failure)
	}
	of := runtime.Options{Streams: options.Streams, Adaptors: adaptors, Others: othersUse, Patience: options.Patience}
	if options.Pool != nil {
		configured, err := pool.Parse(*options.Pool)
		if err != nil {
			r.closeLedger()
			return nil, err
		}
		of.Pool = &configured
	}
	var err error
	if r.Runtime, err = runtime.New(device, of); err != nil {
		r.closeLedger()
		return nil, err
	}
	return r, nil
}

func (r *Runtime) closeLedger() {
	if r.ledger != nil {
		r.ledger.Close()
	}
}

// registry are the runtimes that have handles, or will get one when it is asked for.
var registry = runtimes{shared: make(map[*runtime.Runtime]*Runtime)}

type runtimes struct {
	mutex  sync.Mutex
	shared map[*runtime.Runtime]*Runtime
}

var (
	handles      = handle.New[*Runtime](abi.KindRuntime)
	reservations = handle.New[*Reservation](abi.KindReservation)
)

// LiveRuntimes and LiveReservations are how many there are that have a handle.
func LiveRuntimes() uint64 { return handles.Live() }

// LiveReservations is the number of reservations that were not ended.
func LiveReservations() uint64 { return reservations.Live() }

func (t *runtimes) add(r *Runtime) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	t.shared[r.Runtime] = r
}

// handleOf is the handle of a runtime, which gets it when it is first asked for.
func (t *runtimes) handleOf(r *Runtime) (uint64, error) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	if r.ended {
		return 0, status.Errorf(status.StaleHandle, "runtime of device %d has ended", r.Device().Info().Ordinal)
	}
	if r.handle == 0 {
		h, err := handles.Put(r)
		if err != nil {
			return 0, err
		}
		r.handle = h
	}
	return r.handle, nil
}

func (t *runtimes) remove(r *Runtime) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	r.ended = true
	delete(t.shared, r.Runtime)
	if r.handle != 0 {
		_, _ = handles.Remove(r.handle)
	}
}

// SharedHandle is the handle of the runtime that everybody shares.
func (s *Set) SharedHandle(ordinal int) (uint64, error) {
	d, at, err := s.enter(ordinal)
	if err != nil {
		return 0, err
	}
	defer s.users.RUnlock()
	shared, err := s.sharedOf(d, at)
	if err != nil {
		return 0, err
	}
	registry.mutex.Lock()
	r := registry.shared[shared]
	registry.mutex.Unlock()
	if r == nil {
		return 0, status.Errorf(status.StaleHandle, "runtime of device %d has ended", ordinal)
	}
	return registry.handleOf(r)
}

// Compose makes a runtime of the program's own, with a handle.
func (s *Set) Compose(ordinal int, options RuntimeOptions) (uint64, error) {
	r, err := s.New(ordinal, options)
	if err != nil {
		return 0, err
	}
	h, err := registry.handleOf(r)
	if err != nil {
		s.forget(r)
		s.end(r)
	}
	return h, err
}

// FindRuntime is the runtime of a handle. Errors: InvalidHandle, StaleHandle.
func FindRuntime(h uint64) (*Runtime, error) { return handles.Get(h) }

// DestroyRuntime ends a runtime of the program's own. Errors: InvalidHandle, StaleHandle, InvalidState (a shared one).
func DestroyRuntime(h uint64) error {
	r, err := handles.Get(h)
	if err != nil {
		return err
	}
	if r.shared {
		return status.Errorf(status.InvalidState, "runtime 0x%016x is shared and ends with its devices", h)
	}
	if _, err := handles.Remove(h); err != nil { // somebody was faster
		return err
	}
	r.set.forget(r)
	r.set.end(r)
	return nil
}

// EndShared ends the runtimes of the driver's devices. They are made anew when they are asked for.
func EndShared() {
	registry.mutex.Lock()
	all := slices.Collect(maps.Values(registry.shared))
	registry.mutex.Unlock()
	for _, r := range all {
		runtime.Drop(r.Runtime)
		r.end(func() {})
	}
}

// end closes the runtime, and tells the log what was left in it. then is called when its memory is gone.
func (r *Runtime) end(then func()) {
	registry.remove(r)
	leaks, err := r.CloseThen(func() {
		endKit(r.Runtime)
		r.endReservations()
		r.closeLedger()
		then()
	})
	ordinal := r.Device().Info().Ordinal
	if err != nil {
		log.Logf(log.Warning, "runtime of device %d ended with an error: %v", ordinal, err)
	}
	if len(leaks.Blocks) > 0 || leaks.Streams > 0 || leaks.Uses > 0 {
		log.Logf(log.Warning, "runtime of device %d ended with %d blocks, %d leased streams and %d open uses", ordinal,
			len(leaks.Blocks), leaks.Streams, leaks.Uses)
	}
	for _, info := range leaks.Blocks[:min(len(leaks.Blocks), 20)] {
		log.Logf(log.Warning, "block 0x%016x of %d bytes was not freed (%v)", info.Handle, info.Bytes, info.Tag)
	}
}

func (r *Runtime) endReservations() {
	for h, p := range reservations.All() {
		if p.runtime == r.Runtime {
			_, _ = reservations.Remove(h)
			p.reservation.End()
		}
	}
}

// State is what a runtime says of itself.
type State struct {
	runtime.Usage
	Peak    uint64
	Budget  runtime.BudgetState    // zeros without one
	Pool    runtime.PoolStatistics // zeros without one
	Reports uint64                 // of the guard
	Refused uint64                 // calls of the hook
}

// State is the runtime now. Errors: StaleHandle.
func (r *Runtime) State() (s State, err error) {
	err = r.Use(func() error { // a ledger ends with the runtime
		s = State{Usage: r.Usage(), Peak: r.statistics.All().Peak}
		if r.budget != nil {
			s.Budget = r.budget.State()
		}
		if p := r.Runtime.Pool(); p != nil {
			s.Pool = p.Statistics()
		}
		if r.guard != nil {
			_, s.Reports = r.guard.Reports()
		}
		if r.failure != nil {
			s.Refused = r.failure.Calls()
		}
		return nil
	})
	return s, err
}

// OfTag is what was counted of one tag. Errors: InvalidArgument (an unknown tag).
func (r *Runtime) OfTag(tag runtime.Tag) (runtime.Tally, error) {
	if !tag.Known() {
		return runtime.Tally{}, unknownTag(tag)
	}
	return r.statistics.OfTag(tag), nil
}

func unknownTag(tag runtime.Tag) error {
	return status.Errorf(status.InvalidArgument, "tag %d does not exist", tag)
}

// Log is the runtime's log. Errors: InvalidState (it has none).
func (r *Runtime) Log() (*runtime.Log, error) {
	if r.log == nil {
		return nil, status.Errorf(status.InvalidState, "runtime of device %d has no log", r.Device().Info().Ordinal)
	}
	return r.log, nil
}

// Reservation is a reservation of a runtime's budget.
type Reservation struct {
	reservation *runtime.Reservation
	runtime     *runtime.Runtime
}

// Reserve keeps bytes of the runtime's budget, and is the reservation's handle. Errors: InvalidState (no budget), InvalidSize,
// Limit.
func (r *Runtime) Reserve(bytes uint64) (h uint64, err error) {
	if r.budget == nil {
		return 0, status.Errorf(status.InvalidState, "runtime of device %d has no budget", r.Device().Info().Ordinal)
	}
	err = r.Use(func() error {
		p, err := r.budget.Reserve(bytes)
		if err != nil {
			return err
		}
		if h, err = reservations.Put(&Reservation{reservation: p, runtime: r.Runtime}); err != nil {
			p.End()
		}
		return err
	})
	return h, err
}

// EndReservation gives back what is left of a reservation. Errors: InvalidHandle, StaleHandle.
func EndReservation(h uint64) (left uint64, err error) {
	p, err := reservations.Get(h)
	if err != nil {
		return 0, err
	}
	err = p.runtime.Use(func() error {
		if _, err := reservations.Remove(h); err != nil { // somebody was faster
			return err
		}
		left = p.reservation.End()
		return nil
	})
	return left, err
}

// Allocate takes a block on a stream, of a reservation where there is one. Errors: InvalidArgument (an unknown tag, a reservation
// of another runtime), and those of runtime.Allocate.
func Allocate(stream *runtime.Stream, bytes uint64, tag runtime.Tag, reservation uint64, thread int32) (h uint64,
	address driver.Address, err error) {
	request := runtime.Request{Bytes: bytes, Stream: stream, Tag: tag, Thread: thread}
	if !tag.Known() {
		return 0, 0, unknownTag(tag)
	}
	if reservation != 0 {
		p, err := reservations.Get(reservation)
		if err != nil {
			return 0, 0, err
		}
		if p.runtime != stream.Runtime() {
			return 0, 0, status.Errorf(status.InvalidArgument, "reservation 0x%016x belongs to another runtime than the stream",
				reservation)
		}
		request.Reservation = p.reservation
	}
	return stream.Runtime().Allocate(request)
}
