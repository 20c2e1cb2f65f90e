// The adaptor that keeps a runtime under a limit in bytes, and reservations of it.

package runtime

import (
	"sync/atomic"

	"libmmsb/core/invariant"
	"libmmsb/core/status"
)

// Ledger is where a budget's bytes are charged: one number for a process, or a file that the processes of a machine share.
type Ledger interface {
	// Take charges bytes where they fit under the limit, exactly to the last byte. Else nothing is charged. charged is what was
	// before. An error says that the ledger cannot tell.
	Take(bytes uint64) (charged uint64, ok bool, err error)
	// Give takes bytes off again.
	Give(bytes uint64)
	// Charged and Limit are in bytes.
	Charged() uint64
	Limit() uint64
}

// ledger is a number that is compared and swapped.
type ledger struct {
	limit, charged atomic.Uint64
}

// NewLedger is a ledger of this process.
func NewLedger(limit uint64) Ledger {
	l := &ledger{}
	l.limit.Store(limit)
	return l
}

func (l *ledger) Take(bytes uint64) (uint64, bool, error) {
	for {
		charged := l.charged.Load()
		if limit := l.limit.Load(); charged > limit || bytes > limit-charged {
			return charged, false, nil
		}
		if l.charged.CompareAndSwap(charged, charged+bytes) {
			return charged, true, nil
		}
	}
}

func (l *ledger) Give(bytes uint64) { given(bytes, l.charged.Add(-bytes)) }
func (l *ledger) Charged() uint64   { return l.charged.Load() }
func (l *ledger) Limit() uint64     { return l.limit.Load() }

// given checks that no more bytes were given back than there were.
func given(bytes, left uint64) {
	if invariant.Enabled {
		invariant.Assert(left+bytes >= bytes, "%d bytes exceed the %d that are charged", bytes, left+bytes)
	}
}

// Budget is an adaptor that keeps the bytes of a runtime under a limit: those of live blocks, those whose free the device has not
// come past, and those that were reserved. It never infers what was released: each block's bytes are given back once, when the
// device has come past its free. Before it refuses it reaps.
type Budget struct {
	over
	ledger   Ledger
	reserved atomic.Uint64
	peak     atomic.Uint64
	refusals atomic.Uint64
}

// BudgetState is what a budget says of itself, in bytes. Charged = what blocks hold + Reserved.
type BudgetState struct {
	Limit, Charged, Reserved, Peak uint64
	Refusals                       uint64
}

// NewBudget makes a budget that charges to a ledger, which several runtimes may share.
func NewBudget(in Ledger) *Budget { return &Budget{ledger: in} }

// State is the budget now.
func (b *Budget) State() BudgetState {
	return BudgetState{Limit: b.ledger.Limit(), Reserved: b.reserved.Load(), Charged: b.ledger.Charged(), Peak: b.peak.Load(),
		Refusals: b.refusals.Load()}
}

// admit charges bytes for a request on a stream, or for a reservation.
func (b *Budget) admit(bytes uint64, stream *Stream) error {
	err := b.take(bytes)
	if lacks(err) && bytes <= b.ledger.Limit() { // else no release could make space
		err = b.host.Settle(stream, func() error { return b.take(bytes) })
	}
	if lacks(err) {
		b.refusals.Add(1)
	}
	return err
}

// take charges bytes that fit.
func (b *Budget) take(bytes uint64) error {
	charged, ok, err := b.ledger.Take(bytes)
	if err != nil {
		return err
	}
	if !ok {
		return refusal("budget", bytes, charged, b.ledger.Limit())
	}
	for now, peak := charged+bytes, b.peak.Load(); now > peak && !b.peak.CompareAndSwap(peak, now); {
		peak = b.peak.Load()
	}
	return nil
}

func refusal(of string, bytes, charged, limit uint64) error {
	return status.Errorf(status.Limit, "%d bytes exceed the %s: %d charged, %d left, limit %d", bytes, of, charged,
		limit-min(charged, limit), limit)
}

// Allocate implements Layer.
func (b *Budget) Allocate(request Request) (Memory, error) {
	if p := request.Reservation; p != nil && p.budget == b {
		if err := p.take(request.Bytes); err != nil {
			return Memory{}, err
		}
		memory, err := b.below.Allocate(request)
		if err != nil {
			p.give(request.Bytes)
		}
		return memory, err
	}
	if err := b.admit(request.Bytes, request.Stream); err != nil {
		return Memory{}, err
	}
	memory, err := b.below.Allocate(request)
	if err != nil {
		b.ledger.Give(request.Bytes)
	}
	return memory, err
}

// Released implements Layer.
func (b *Budget) Released(memory Memory) {
	b.below.Released(memory)
	b.ledger.Give(memory.Bytes)
}

// Reservation is bytes of a budget that are kept for allocations to come: others cannot have them.
type Reservation struct {
	budget    *Budget
	total     uint64
	remaining atomic.Uint64
	ended     atomic.Bool
}

// Reservation keeps bytes of the budget. Errors: InvalidSize (0), Limit.
func (b *Budget) Reserve(bytes uint64) (*Reservation, error) {
	if bytes == 0 {
		return nil, status.Errorf(status.InvalidSize, "size of the reservation is 0, at least 1 is needed")
	}
	if err := b.admit(bytes, nil); err != nil {
		return nil, err
	}
	b.reserved.Add(bytes)
	p := &Reservation{budget: b, total: bytes}
	p.remaining.Store(bytes)
	return p, nil
}

// take turns reserved bytes into charged ones of a block.
func (p *Reservation) take(bytes uint64) error {
	for {
		remaining := p.remaining.Load()
		if bytes > remaining {
			return refusal("reservation", bytes, p.total-remaining, p.total)
		}
		if p.remaining.CompareAndSwap(remaining, remaining-bytes) {
			given(bytes, p.budget.reserved.Add(-bytes))
			return nil
		}
	}
}

// give takes bytes back whose allocation failed.
func (p *Reservation) give(bytes uint64) {
	p.budget.reserved.Add(bytes)
	p.remaining.Add(bytes)
	if p.ended.Load() {
		p.End()
	}
}

// End gives back what is left, and says how many bytes that were. Blocks that were made of the reservation stay.
func (p *Reservation) End() (left uint64) {
	p.ended.Store(true)
	left = p.remaining.Swap(0)
	given(left, p.budget.reserved.Add(-left))
	p.budget.ledger.Give(left)
	return left
}
