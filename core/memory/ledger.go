package memory

import (
	"sync/atomic"

	"libmmsb/core/invariant"
	"libmmsb/core/status"
)

// Ledger counts what is taken, under a limit.
type Ledger struct {
	limit uint64 // 0 = none; set before the first use
	used  atomic.Uint64
}

// Used is what is taken.
func (l *Ledger) Used() uint64 { return l.used.Load() }

// Take takes bytes, or fails with the numbers.
func (l *Ledger) Take(bytes uint64) error {
	for {
		used := l.used.Load()
		if l.limit != 0 && (bytes > l.limit || used > l.limit-bytes) {
			return status.Errorf(status.Limit, "%d bytes exceed memory_limit %d, %d in use", bytes, l.limit, used)
		}
		if l.used.CompareAndSwap(used, used+bytes) {
			return nil
		}
	}
}

// Give gives bytes back.
func (l *Ledger) Give(bytes uint64) {
	used := l.used.Add(-bytes)
	if invariant.Enabled {
		invariant.Assert(used+bytes >= bytes, "%d bytes exceed the %d that are taken", bytes, used+bytes)
	}
}
