// Blocks with an owner: those of pages. Their memory is the runtime's, or somebody else's that a page was adopted over. The
// program can use them, but not free them.

package runtime

import (
	"slices"

	"libmmsb/gpu/blocks"
	"libmmsb/gpu/driver"
)

// Wrap makes a block, which has an owner, of memory that is not the runtime's and that nothing frees. What a stream of others has
// queued by now comes before all uses of the block; 0 is no stream. Nothing counts such blocks. Errors: those of Foreign, Limit.
func (r *Runtime) Wrap(address driver.Address, bytes uint64, tag Tag, native uintptr) (handle uint64, err error) {
	if err := r.enter(); err != nil {
		return 0, err
	}
	defer r.leave()
	own, err := r.streams.ownStream()
	if err != nil {
		return 0, err
	}
	var before point
	if native != 0 {
		s, err := r.standIn(native)
		if err != nil {
			return 0, err
		}
		before = s.next()
		s.cover()
	}
	b, handle, err := allBlocks.take(own)
	if err != nil {
		return 0, err
	}
	b.mutex.Lock()
	defer b.mutex.Unlock()
	b.start(Memory{Address: address, Bytes: bytes, Tag: tag}, own, true)
	b.wrapped, b.write = true, before
	return handle, nil
}

// Drain blocks until a stream of others has done what it has queued.
func (r *Runtime) Drain(native uintptr) error {
	s, err := r.standIn(native)
	if err == nil {
		err = s.Synchronize()
	}
	return err
}

// FreeOwned is Free for the owner of a block. A block that has none stays: it is the program's.
func FreeOwned(handle uint64) error {
	b, err := allBlocks.locked(handle)
	if err != nil {
		return err
	}
	if b.owners != 1 {
		b.owners = max(b.owners, 1) - 1
		b.used()
		b.mutex.Unlock()
		return nil
	}
	_, err = b.free(nil, 0)
	return err
}

// Share makes one more owner of a block that has some; the program's stays the program's. Errors: InvalidHandle, StaleHandle.
func Share(handle uint64) error {
	b, err := allBlocks.locked(handle)
	if err != nil {
		return err
	}
	defer b.mutex.Unlock()
	if b.owners > 0 {
		b.owners++
	}
	b.used()
	return nil
}

// Await blocks until the device has done what ended uses of blocks have queued: what writes them, and for one who will write,
// what reads them. Errors: InvalidHandle, StaleHandle, InvalidState (a block sleeps, or a stream captures such work), Device,
// DeviceLost.
func Await(access Access, handles ...uint64) error {
	var in *Runtime // entered once for all of its blocks
	defer func() {
		if in != nil {
			in.leave()
		}
	}()
	for _, handle := range handles {
		if allBlocks.isIdle(handle) {
			continue
		}
		b, err := allBlocks.locked(handle)
		if err != nil {
			return err
		}
		if r := b.stream.runtime; r != in {
			if err = r.enter(); err != nil {
				b.mutex.Unlock()
				return err
			}
			if in != nil {
				in.leave()
			}
			in = r
		}
		err = in.pool.usable(b)
		var few [4]point
		points := append(few[:0], b.write)
		if access&Write != 0 {
			points = append(points, b.reads...)
		}
		b.used()
		if err == nil {
			b.noteIdle()
		}
		b.mutex.Unlock()
		for _, p := range points {
			if err == nil {
				err = p.await(in)
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// noteIdle lets the next Await pass by a block in which nothing is queued, and which C cannot free. The mutex is held.
func (b *block) noteIdle() {
	if b.what() == blocks.Held && !b.taken() && b.write.passed() && !slices.ContainsFunc(b.reads, pending) {
		b.idle.Store(b.current())
	}
}

func pending(p point) bool { return !p.passed() }

// isIdle says of a handle that there is nothing to wait for, without the block's lock. While some memory sleeps nobody knows.
func (t *blockTable) isIdle(handle uint64) bool {
	if allResting.Load() > 0 {
		return false
	}
	b, err := t.find(handle)
	return err == nil && b.idle.Load() == handle
}

// await blocks until the device has come past a point, which may be of another runtime than the caller's.
func (p point) await(caller *Runtime) error {
	s := p.stream
	if p.passed() {
		return nil
	}
	if c := s.capture.Load(); c != nil && p.number > c.recorded.number {
		return s.free("its work on the block cannot be waited for")
	}
	r := s.runtime
	if r != caller {
		if r.enter() != nil {
			return caller.settled()
		}
		defer r.leave()
	}
	m, err := s.covering(p.number)
	if err != nil {
		return err
	}
	defer r.letGo(m)
	if err := r.noteLost(r.device.SynchronizeEvent(m.event)); err != nil {
		return err
	}
	s.passed(m.number)
	return nil
}
