// Streams of other libraries, by the driver's pointer: met when they are first named, and gone without a word.

package runtime

import (
	"math"
	"slices"
	"sync"

	"libmmsb/core/log"
	"libmmsb/core/status"
	"libmmsb/gpu/driver"
)

// foreignTable are the streams of others that a runtime has met. Unlike wrapped ones they have no handle.
type foreignTable struct {
	mutex   sync.RWMutex
	streams map[uintptr]metStream
	shadows map[*Stream]*Stream // the runtime's, one beside each stream that was recorded: see FreeOn
	spare   []*Stream           // shadows of streams that were forgotten
	gone    []*Stream           // that somebody may still have to wait for
	past    *recordedEvent      // nil = none yet; what is behind it is done: of streams that were forgotten
}

// metStream is a stream as it was met. Pointers of streams that were destroyed come again, numbers of streams never do.
type metStream struct {
	id     uint64
	stream *Stream
}

// isDefault says that a pointer is one of the two by which CUDA names the device's default stream.
func isDefault(native uintptr) bool { return native <= 1 }

// Foreign is the stream of others with the driver's pointer. Where another stream had the pointer before, that one is gone: its
// points stay what they were, and nothing counts as done by it. Errors: Unsupported (the thread's own default stream), those of
// the driver.
func (r *Runtime) Foreign(native uintptr) (*Stream, error) {
	if isDefault(native) {
		return r.streams.defined, nil
	}
	if native == uintptr(driver.PerThread) {
		return nil, status.Errorf(status.Unsupported, "per-thread default stream is another stream in each thread")
	}
	id, err := r.device.StreamID(native)
	if err != nil {
		return nil, r.noteLost(err)
	}
	t := &r.foreign
	t.mutex.RLock()
	met, known := t.streams[native]
	t.mutex.RUnlock()
	if known && met.id == id {
		return met.stream, nil
	}
	return r.meet(native, id)
}

func (r *Runtime) meet(native uintptr, id uint64) (*Stream, error) {
	t := &r.foreign
	t.mutex.Lock()
	defer t.mutex.Unlock()
	if met, known := t.streams[native]; known {
		if met.id == id {
			return met.stream, nil
		}
		if err := met.stream.gone(); err != nil {
			return nil, err
		}
		delete(t.streams, native)
		t.gone = append(t.gone, met.stream)
		t.gone = slices.DeleteFunc(t.gone, r.forget)
	}
	listed, err := r.device.ForeignStream(native)
	if err != nil {
		return nil, r.noteLost(err)
	}
	r.streams.mutex.Lock()
	s := r.streams.add(listed, true, false)
	r.streams.mutex.Unlock()
	if t.streams == nil {
		t.streams = make(map[uintptr]metStream)
	}
	t.streams[native] = metStream{id, s}
	return s, nil
}

// gone lets a stream go that others have destroyed. What no event was recorded behind can be asked of nobody any more: then the
// host waits for the device.
func (s *Stream) gone() error {
	r := s.runtime
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if queued := s.queued.Load(); s.recorded == nil || s.recorded.number < queued {
		if err := r.device.Synchronize(); err != nil {
			return r.noteLost(err)
		}
		event, err := r.events.take() // whatever it was recorded behind
		if err != nil {
			return r.noteLost(err)
		}
		if s.recorded != nil {
			r.letGo(s.recorded)
		}
		s.recorded = &recordedEvent{event: event, number: queued, seen: map[uint32]uint64{}}
		s.recorded.users.Store(1)
	}
	s.ended = true
	return r.noteLost(r.device.DestroyStream(s.native))
}

// forget lets go of all that is kept of a stream that is gone, if the device has done what it had queued: libraries make and
// destroy streams without end. The table's lock is held.
func (r *Runtime) forget(s *Stream) bool {
	s.mutex.Lock()
	last := s.recorded
	s.mutex.Unlock()
	if done, err := r.device.QueryEvent(last.event); r.noteLost(err) != nil || !done || !s.reap() {
		return false
	}
	if _, _, queued := s.frees.ends(); queued {
		return false
	}
	t := &r.foreign
	if t.past == nil {
		event, err := r.events.take()
		if err != nil {
			return false
		}
		t.past = &recordedEvent{event: event, number: math.MaxUint64, seen: map[uint32]uint64{}}
		t.past.users.Store(1)
	}
	s.mutex.Lock()
	s.recorded = t.past // for points that somebody has; it is not counted as a user
	clear(s.seen)
	s.mutex.Unlock()
	s.completed.Store(math.MaxUint64)
	r.letGo(last)
	allBlocks.takeBack(&s.frees)
	if shadow := t.shadows[s]; shadow != nil {
		delete(t.shadows, s)
		t.spare = append(t.spare, shadow)
	}
	if r.pool != nil {
		r.pool.forgetStream(s.index)
	}
	r.streams.remove(s)
	return true
}

// remove takes a stream out of the table. Those who look at the streams meanwhile have the slice of before.
func (t *streamTable) remove(s *Stream) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	t.all = slices.DeleteFunc(slices.Clone(t.all), func(other *Stream) bool { return other == s })
	for _, other := range t.all {
		other.mutex.Lock()
		delete(other.seen, s.index)
		other.mutex.Unlock()
	}
}

// forgetStream lets a stream go that has freed nothing that is not free.
func (p *Pool) forgetStream(index uint32) {
	p.streams.Delete(index)
}

// close comes when nobody waits any more.
func (t *foreignTable) close(r *Runtime) {
	if t.past != nil {
		r.letGo(t.past)
		t.past = nil
	}
}

// cover records what a stream of others has queued so far: it is not asked again, and may be destroyed. A failure leaves a stream
// that must live on.
func (s *Stream) cover() {
	if s.native == 0 || !s.foreign {
		return
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.recorded != nil && s.recorded.number >= s.queued.Load() {
		return
	}
	if err := s.recordNow(); err != nil {
		log.Logf(log.Warning, "device %d: cannot record what stream %d has queued: %v", s.runtime.device.Info().Ordinal, s.index,
			err)
	}
}

// ownStream is a stream of the runtime's that no program leases.
func (t *streamTable) ownStream() (s *Stream, err error) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	if t.own == nil {
		t.own, err = t.create()
	}
	return t.own, err
}

// create makes a stream of the device that no program leases. The lock is held.
func (t *streamTable) create() (*Stream, error) {
	native, err := t.runtime.device.CreateStream(0)
	if err != nil {
		return nil, t.runtime.noteLost(err)
	}
	return t.add(native, false, false), nil
}

// shadow is the stream of the runtime's beside another one, or where that is gone, the one for all.
func (r *Runtime) shadow(of *Stream) (s *Stream, err error) {
	t := &r.foreign
	t.mutex.Lock()
	defer t.mutex.Unlock()
	of.mutex.Lock()
	ended := of.ended
	of.mutex.Unlock()
	if ended {
		return r.streams.ownStream()
	}
	if s = t.shadows[of]; s != nil {
		return s, nil
	}
	if last := len(t.spare) - 1; last >= 0 {
		s, t.spare = t.spare[last], t.spare[:last]
	} else {
		r.streams.mutex.Lock()
		s, err = r.streams.create()
		r.streams.mutex.Unlock()
		if err != nil {
			return nil, err
		}
	}
	if t.shadows == nil {
		t.shadows = make(map[*Stream]*Stream)
	}
	t.shadows[of] = s
	return s, nil
}

// order makes what is queued on one of the device's streams from now on run behind everything that is queued on another.
func (r *Runtime) order(behind, stream driver.Stream) error {
	event, err := r.events.take()
	if err != nil {
		return r.noteLost(err)
	}
	defer r.events.give(event)
	if err = r.device.RecordEvent(event, behind); err == nil {
		err = r.device.Wait(stream, event)
	}
	return r.noteLost(err)
}

// standIn is the stream of others, or for the calling thread's own default stream one of the runtime's, which runs behind
// everything that is queued there.
func (r *Runtime) standIn(native uintptr) (*Stream, error) {
	if native != uintptr(driver.PerThread) {
		return r.Foreign(native)
	}
	s, err := r.streams.ownStream()
	if err == nil {
		err = r.order(driver.PerThread, s.native)
	}
	return s, err
}

// Follow makes what is queued on the stream from now on run behind what a stream of others has queued by now. Errors: those of
// Foreign, InvalidState (a stream captures, and the other one is not in its capture).
func (s *Stream) Follow(native uintptr) error {
	r := s.runtime
	if err := r.enter(); err != nil {
		return err
	}
	defer r.leave()
	other, err := r.standIn(native)
	if err != nil {
		return err
	}
	return s.waitFor(other.next()) // above all events: what others queued has no number
}

// AllocateOn is Allocate on a stream of others. lasting: the stream lives as long as the runtime; else it is touched by this call
// only.
func (r *Runtime) AllocateOn(native uintptr, lasting bool, request Request) (handle uint64, address driver.Address, err error) {
	s, err := r.standIn(native)
	if err != nil {
		return 0, 0, err
	}
	request.Stream = s
	if handle, address, err = r.Allocate(request); err != nil {
		return 0, 0, err
	}
	if native == uintptr(driver.PerThread) {
		if err = r.order(s.native, driver.PerThread); err != nil {
			_, _ = Free(handle, s)
			return 0, 0, err
		}
	}
	if !lasting {
		s.cover()
	}
	return handle, address, nil
}

// AllocateNow is Allocate of memory that every stream may use when the call returns. Blocks until the device has it.
func (r *Runtime) AllocateNow(request Request) (handle uint64, address driver.Address, err error) {
	s, err := r.streams.ownStream()
	if err != nil {
		return 0, 0, err
	}
	request.Stream = s
	if handle, address, err = r.Allocate(request); err != nil {
		return 0, 0, err
	}
	if err = s.Synchronize(); err != nil {
		_, _ = Free(handle, s)
		return 0, 0, err
	}
	return handle, address, nil
}

// FreeNow is Free behind everything that is queued on the device. Blocks until the device has done it.
func (r *Runtime) FreeNow(handle uint64) error {
	s, err := r.streams.ownStream()
	if err == nil {
		err = r.noteLost(r.device.Synchronize())
	}
	if err == nil || r.lost.Load() {
		_, err = Free(handle, s)
	}
	return err
}

// FreeOn is Free on a stream of others, behind the work of it and of those that Record gave. A stream is not kept waiting for
// others: then the free is queued on one of the runtime's own.
func (r *Runtime) FreeOn(handle uint64, native uintptr, lasting bool, recorded ...*Stream) error {
	s, err := r.standIn(native)
	if err != nil {
		return err
	}
	on := s
	if len(recorded) > 0 {
		if on, err = r.shadow(recorded[0]); err != nil {
			return err
		}
		if !lasting { // their work is noted
			recorded = nil
		}
		if err = note(handle, append(recorded[:len(recorded):len(recorded)], s)...); err != nil {
			return err
		}
	}
	if _, err = Free(handle, on); err == nil && !lasting {
		s.cover()
	}
	return err
}

// Record is the stream of others that uses a block, for FreeOn; nil where that is the block's own one. The work that counts is
// what the stream has queued by now, or, where it lasts, when the block is freed. Errors: those of Foreign; InvalidHandle,
// StaleHandle.
func (r *Runtime) Record(handle uint64, native uintptr, lasting bool) (*Stream, error) {
	info, err := FindBlock(handle)
	if err != nil {
		return nil, err
	}
	s, err := r.standIn(native)
	switch {
	case err != nil:
		return nil, err
	case s == info.Stream && native != uintptr(driver.PerThread):
		return nil, nil
	case lasting && native != uintptr(driver.PerThread):
		return s, nil
	}
	if err = note(handle, s); err == nil {
		s.cover()
	}
	return s, err
}

// note adds what streams have queued so far to the reads of a block. Unlike a use it keeps no stream waiting. Errors:
// InvalidHandle, StaleHandle.
func note(handle uint64, streams ...*Stream) error {
	b, err := allBlocks.locked(handle)
	if err != nil {
		return err
	}
	defer b.mutex.Unlock()
	for _, s := range streams {
		b.noteRead(s.next())
	}
	return nil
}
