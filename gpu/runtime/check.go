// Walks over a runtime's blocks, for tests.

package runtime

import (
	"libmmsb/core/status"
	"libmmsb/gpu/blocks"
)

func broken(format string, arguments ...any) error {
	return status.Errorf(status.Internal, format, arguments...)
}

// Check recounts the runtime's blocks, and says what is wrong with them, and with the slots that are free: a counter that is not
// what a recount gives, a slot that is free twice, or in use. No call may run on the runtime; others may go on. Errors: Internal.
func (r *Runtime) Check() error {
	var live, pending, count uint64
	allBlocks.all(func(b *block) {
		what := b.what()
		switch {
		case b.stream.runtime != r || b.wrapped:
		case what == blocks.Live || what == blocks.Held:
			live, count = live+b.record.Bytes, count+1
		default:
			pending += b.record.Bytes
		}
	})
	if r.pool != nil {
		if err := r.pool.Check(); err != nil {
			return err
		}
	}
	u := r.Usage()
	if u.Live != live || u.Pending != pending || u.Outstanding != live+pending || u.Blocks != count {
		return broken("%d blocks of %d bytes live and %d bytes are pending, %d of %d and %d are counted, %d are outstanding",
			count, live, pending, u.Blocks, u.Live, u.Pending, u.Outstanding)
	}
	for _, s := range r.streams.snapshot() {
		s.frees.mutex.Lock()
		slots := append([]uint32(nil), s.frees.slots...)
		s.frees.mutex.Unlock()
		if err := allBlocks.checkFree(slots); err != nil {
			return err
		}
	}
	allBlocks.mutex.Lock()
	defer allBlocks.mutex.Unlock()
	return allBlocks.checkFree(allBlocks.free)
}

// checkFree checks slots that nobody uses.
func (t *blockTable) checkFree(slots []uint32) error {
	seen := make(map[uint32]bool, len(slots))
	for _, index := range slots {
		b := t.at(index)
		b.mutex.Lock()
		state := b.what()
		b.mutex.Unlock()
		if state != blocks.Free || seen[index] {
			return broken("free slot %d has state %d; free twice: %t", index, state, seen[index])
		}
		seen[index] = true
	}
	return nil
}

// checkEnded is Check for a runtime that has ended all its blocks.
func (r *Runtime) checkEnded() error {
	r.stuck.mutex.Lock()
	stuck := len(r.stuck.blocks) // the driver did not take them back
	r.stuck.mutex.Unlock()
	if u := r.Usage(); u.Outstanding != 0 && stuck == 0 {
		return broken("the runtime has ended, %d bytes are outstanding: %d live, %d pending", u.Outstanding, u.Live, u.Pending)
	}
	return r.Check()
}
