// Memory that the host reaches, too: pools of it, without streams.

package runtime

import (
	"cmp"
	"math"
	"sync"
	"sync/atomic"

	"libmmsb/core/pool"
	"libmmsb/core/status"
	"libmmsb/gpu/driver"
)

// hostPool gives out pinned or managed memory. Who frees has waited for the device, so that what is free is everybody's.
type hostPool struct {
	atRest
	books  *pool.Pool
	source *wholeSource
	ledger *DeviceLedger

	ended atomic.Bool // its runtime has ended: what is free goes back at once

	mutex sync.Mutex
	held  map[driver.Address]pool.Block
}

// streamless is the pool.Progress of such memory.
type streamless struct{}

func (streamless) Settle(func(int, uint64, uint64)) {}
func (streamless) Cached(uint32) uint64             { return 0 }
func (streamless) Uncache(uint32, int, uint64) bool { return false }
func (streamless) Reap()                            {}
func (streamless) Done(uint32) uint64               { return math.MaxUint64 }

// hostMemory are a runtime's pools of such memory, made when they are first needed.
type hostMemory struct {
	mutex sync.Mutex
	pools map[driver.Memory]*hostPool
}

var hostOrigins = map[driver.Memory]pool.Origin{driver.Pinned: pool.Pinned, driver.Managed: pool.Managed}

func (r *Runtime) hostPool(kind driver.Memory) (*hostPool, error) {
	r.host.mutex.Lock()
	defer r.host.mutex.Unlock()
	if p := r.host.pools[kind]; p != nil {
		return p, nil
	}
	device := r.device
	if kind == driver.Pinned {
		device = nil
	}
	p := &hostPool{held: make(map[driver.Address]pool.Block)}
	onLedger(device, func(l *DeviceLedger) { p.ledger = l })
	options := pool.Options{Origin: hostOrigins[kind]}
	var err error
	p.source, err = newWholeSource(r.device, options, p.ledger, streamless{})
	if err != nil {
		return nil, err
	}
	p.books = pool.New(options, p.source, [pool.Spaces]uint64{wholeBytes, wholeBytes})
	p.ledger.join(p)
	if r.host.pools == nil {
		r.host.pools = make(map[driver.Memory]*hostPool)
	}
	r.host.pools[kind] = p
	return p, nil
}

// AllocateHost takes memory that the host reaches at its own address, too: driver.Pinned or driver.Managed. It is there at once,
// and not defined; from 4096 bytes on it is aligned to 4096 where its bytes are a multiple of that. May block, as may FreeHost.
// Errors: InvalidSize (0), Limit (the budget of the device or of pinned memory), OutOfMemory, those of the driver.
func (r *Runtime) AllocateHost(kind driver.Memory, bytes uint64) (driver.Address, error) {
	if err := r.enter(); err != nil {
		return 0, err
	}
	defer r.leave()
	p, err := r.hostPool(kind)
	if err != nil {
		return 0, r.noteLost(err)
	}
	a := r.attempt(nil)
	a.regained = p.regained()
	p.ledger.turn.pass(a)
	var block pool.Block
	take := func() (err error) {
		block, _, err = p.books.Take(0, bytes)
		return err
	}
	if err := p.ledger.seek(p, bytes, a, take(), take); err != nil {
		return 0, r.noteLost(err)
	}
	address := p.source.address(block)
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.held[address] = block
	return address, nil
}

// FreeHost gives such memory back. No work that uses it may be queued or running. Errors: InvalidArgument.
func (r *Runtime) FreeHost(kind driver.Memory, address driver.Address) error {
	r.host.mutex.Lock()
	p := r.host.pools[kind]
	r.host.mutex.Unlock()
	var block pool.Block
	found := false
	if p != nil {
		p.mutex.Lock()
		block, found = p.held[address]
		delete(p.held, address)
		p.mutex.Unlock()
	}
	if !found {
		return status.Errorf(status.InvalidArgument, "no host memory was allocated at 0x%x", uintptr(address))
	}
	err := p.books.Give(0, 0, block)
	if p.ended.Load() {
		err = cmp.Or(err, p.books.Trim(0))
	}
	return err
}

// all are the pools that there are.
func (h *hostMemory) all() (all []*hostPool) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	for _, p := range h.pools {
		all = append(all, p)
	}
	return all
}

// trim gives back what is free.
func (h *hostMemory) trim() (first error) {
	for _, p := range h.all() {
		first = cmp.Or(first, p.books.Trim(0))
	}
	return first
}

// close gives back what is free. The rest stays with those who have it, until they free it.
func (h *hostMemory) close(lost bool) (first error) {
	for _, p := range h.all() {
		p.ledger.leave(p)
		if lost { // with the device its memory is gone
			p.ledger.Give(p.books.Statistics().Reserved)
			continue
		}
		p.ended.Store(true)
		first = cmp.Or(first, p.books.Trim(0))
	}
	return first
}

// giveBack implements lender.
func (p *hostPool) giveBack(bytes uint64) uint64 {
	before := p.books.Statistics()
	_ = p.books.Trim(before.Reserved - min(before.Reserved, bytes))
	return p.books.Statistics().Trimmed - before.Trimmed
}

// kept implements lender.
func (p *hostPool) kept() uint64 {
	s := p.books.Statistics()
	return s.Reserved - s.Held
}
