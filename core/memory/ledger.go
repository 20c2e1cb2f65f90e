package memory

import (
	"sync/atomic"

	"libmmsb/core/invariant"
	"libmmsb/core/status"
)

// ledger counts the memory of a context, under a limit.
type ledger struct {
	limit uint64 // 0 = none; set before the first use
	// may is how many loads may exceed the limit, with what they stage while the pages that it replaces are there.
	may  atomic.Int32
	used atomic.Uint64 // changed under the lock of the memory, read without
}

// charge counts bytes, or fails with the numbers.
func (l *ledger) charge(bytes uint64) error {
	used := l.used.Load()
	if l.limit != 0 && l.may.Load() == 0 && (bytes > l.limit || used > l.limit-bytes) {
		return status.Errorf(status.Limit, "%d bytes exceed memory_limit %d, %d in use", bytes, l.limit, used)
	}
	l.used.Store(used + bytes)
	return nil
}

// uncharge counts bytes no longer.
func (l *ledger) uncharge(bytes uint64) {
	used := l.used.Add(-bytes)
	if invariant.Enabled {
		invariant.Assert(used+bytes >= bytes, "%d bytes exceed the %d that are taken", bytes, used+bytes)
	}
}
