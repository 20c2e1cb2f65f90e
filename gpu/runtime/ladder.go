// The last steps before memory is missing: what other runtimes of the device do not need, and then an error with all numbers.

package runtime

import (
	"strconv"

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
	memory, err := l.Layer.Allocate(request)
	if !lacks(err) {
		return memory, err
	}
	return l.climb(request, err)
}

func (l *ladder) climb(request Request, err error) (memory Memory, _ error) {
	r := l.runtime
	again := func() (err error) {
		memory, err = l.Layer.Allocate(request)
		return err
	}
	if r.pool == nil { // a pool has looked itself
		released := r.bytes.released.Load()
		r.reap()
		if r.bytes.released.Load() > released || status.CodeOf(err) == status.Limit {
			err = again()
		}
	}
	if lacks(err) && !r.overLimit(request.Bytes) {
		err = r.ledger.help(r, request.Bytes, err, again)
	}
	if lacks(err) && r.hits != nil {
		err = r.withoutHits(again)
	}
	if lacks(err) {
		err = r.missing(err)
	}
	return memory, err
}

// overLimit says that the runtime's pool is too small for so many bytes, whatever else is freed.
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
	own := status.Of(err)
	whole := status.Of(status.Errorf(own.Code, "%s; %d bytes of blocks live, %d pending; this process has %d of %s, "+
		"%d free in other pools, budget %s; other processes have %s", own.Text, usage.Live,
		usage.Pending, m.Charged, of, r.ledger.free(r), budget, others))
	whole.Domain, whole.Foreign = own.Domain, own.Foreign
	return whole
}

// Others says how many bytes of a device other processes have; false: nobody knows.
type Others func(info driver.Info) (bytes uint64, known bool)
