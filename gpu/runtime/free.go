// Freeing blocks in the order of streams, and their release when the device has come past.

package runtime

import (
	gort "runtime"
	"sync"

	"libmmsb/core/invariant"
	"libmmsb/core/log"
	"libmmsb/gpu/blocks"
)

// freeQueue are a stream's frees that the device has not been seen to have come past, and slots for new blocks.
type freeQueue struct {
	mutex    sync.Mutex
	queued   []queuedFree // from head on, in the order of their numbers
	head     int
	slots    []uint32
	recorded *recordedEvent // who reaps looks at this event
}

type queuedFree struct {
	block  *block
	number uint64
}

// reapEvery is the number of frees of a stream after which a free looks for those that are done.
const reapEvery = 32

// pushFree notes a free that was queued, and returns how many there are. Its number is given out under the queue's lock: the
// queue is in the order of the numbers.
func (s *Stream) pushFree(b *block) int {
	q := &s.frees
	q.mutex.Lock()
	defer q.mutex.Unlock()
	q.queued = append(q.queued, queuedFree{b, s.next().number})
	if last := len(q.queued) - 1; invariant.Enabled && last > q.head {
		invariant.Assert(q.queued[last-1].number < q.queued[last].number, "free %d of stream %d is queued behind free %d",
			q.queued[last].number, s.index, q.queued[last-1].number)
	}
	return len(q.queued) - q.head
}

// ends are the numbers of the queue's ends.
func (q *freeQueue) ends() (first, last uint64, any bool) {
	q.mutex.Lock()
	defer q.mutex.Unlock()
	if q.head == len(q.queued) {
		return 0, 0, false
	}
	return q.queued[q.head].number, q.queued[len(q.queued)-1].number, true
}

// pop takes the frees up to a number off the queue.
func (q *freeQueue) pop(number uint64, done []queuedFree) []queuedFree {
	q.mutex.Lock()
	defer q.mutex.Unlock()
	for q.head < len(q.queued) && q.queued[q.head].number <= number {
		done = append(done, q.queued[q.head])
		q.queued[q.head] = queuedFree{}
		q.head++
	}
	if q.head == len(q.queued) {
		q.queued, q.head = q.queued[:0], 0
	} else if q.head > len(q.queued)/2 {
		q.queued, q.head = q.queued[:copy(q.queued, q.queued[q.head:])], 0
	}
	return done
}

// giveSlot keeps a slot for the stream's next block.
func (q *freeQueue) giveSlot(index uint32) {
	q.mutex.Lock()
	q.slots = append(q.slots, index)
	var more []uint32
	if len(q.slots) >= 3*slotBatch {
		more = append(more, q.slots[:slotBatch]...)
		q.slots = q.slots[:copy(q.slots, q.slots[slotBatch:])]
	}
	q.mutex.Unlock()
	if more != nil {
		allBlocks.mutex.Lock()
		allBlocks.free = append(allBlocks.free, more...)
		allBlocks.mutex.Unlock()
	}
}

// takeBack takes the slots of a stream that ends.
func (t *blockTable) takeBack(q *freeQueue) {
	q.mutex.Lock()
	slots := q.slots
	q.slots = nil
	q.mutex.Unlock()
	t.giveBack(slots)
}

// giveBack takes free slots.
func (t *blockTable) giveBack(slots []uint32) {
	t.mutex.Lock()
	t.free = append(t.free, slots...)
	t.mutex.Unlock()
}

// stuck are blocks whose deferred free the driver refused.
type stuck struct {
	mutex  sync.Mutex
	blocks []*block
}

// Reap looks which queued frees the device has come past, and releases their memory. It never waits for the device, and a stream
// that cannot be asked does not keep others from being asked.
func (r *Runtime) Reap() {
	if r.enter() == nil { // else its end reaps everything
		defer r.leave()
		r.reap()
	}
}

func (r *Runtime) reap() {
	r.counts.reaps.Add(1)
	r.stuck.mutex.Lock()
	again := r.stuck.blocks
	r.stuck.blocks = nil
	r.stuck.mutex.Unlock()
	for _, b := range again {
		b.mutex.Lock()
		b.used()
		b.mutex.Unlock()
	}
	for _, s := range r.streams.snapshot() {
		s.flush()
		for !s.reap() { // somebody else is at it: what it finds counts for this call
			gort.Gosched()
		}
	}
}

// reap releases what the stream has come past; false where somebody else is doing that.
func (s *Stream) reap() bool {
	if !s.reaper.CompareAndSwap(false, true) {
		return false
	}
	defer s.reaper.Store(false)
	r := s.runtime
	if s.capture.Load() != nil && !r.lost.Load() { // what it captures is never done
		return true
	}
	q := &s.frees
	var done []queuedFree
	for {
		first, last, any := q.ends()
		if !any {
			return true
		}
		number := last
		if completed := s.completed.Load(); completed >= first { // known without an event, which a device does not reach at once
			number = completed
		} else if !r.lost.Load() && !r.idle.Load() {
			m, err := s.reapEvent(first, last)
			if err != nil {
				if r.lost.Load() {
					continue
				}
				log.Logf(log.Warning, "device %d: cannot create an event for the frees of stream %d: %v", r.device.Info().Ordinal,
					s.index, err)
				return true
			}
			past, err := r.device.QueryEvent(m.event)
			switch {
			case r.noteLost(err) != nil && !r.lost.Load():
				log.Logf(log.Warning, "device %d: cannot query the frees of stream %d: %v", r.device.Info().Ordinal, s.index, err)
				return true
			case err == nil && !past:
				return true
			}
			number = m.number
		}
		if q.recorded != nil {
			r.letGo(q.recorded)
			q.recorded = nil
		}
		if invariant.Enabled {
			queued := s.queued.Load()
			invariant.Assert(number <= queued, "stream %d has come past point %d, %d are queued", s.index, number, queued)
		}
		s.passed(number)
		done = q.pop(number, done[:0])
		for i := range done {
			done[i].block.released(s)
		}
	}
}

// reapEvent is the event that tells of the queue's frees: the one that was looked at last, until it is done.
func (s *Stream) reapEvent(first, last uint64) (*recordedEvent, error) {
	q := &s.frees
	if q.recorded != nil {
		return q.recorded, nil
	}
	s.mutex.Lock()
	if m := s.recorded; m != nil && m.number >= first { // recorded for somebody who had to wait
		m.users.Add(1)
		q.recorded = m
	}
	s.mutex.Unlock()
	if q.recorded != nil {
		return q.recorded, nil
	}
	m, err := s.covering(last)
	q.recorded = m
	return m, err
}

// released ends a block whose free the device has come past.
func (b *block) released(on *Stream) {
	b.mutex.Lock()
	memory, r, wrapped := b.memory(), b.stream.runtime, b.wrapped
	if invariant.Enabled {
		invariant.Assert(b.what() == blocks.Queued && !b.taken(),
			"block 0x%016x is released in state %d, with open uses on %d streams, lent %d times", b.current(), b.what(),
			len(b.open), b.lent)
	}
	b.set(blocks.Free)
	b.forget()
	again := b.generation() < lastGeneration
	index := b.index
	b.mutex.Unlock()
	if again {
		on.frees.giveSlot(index)
	}
	if wrapped {
		return
	}
	r.layer.Released(memory)
	released := r.bytes.released.Add(memory.Bytes)
	if invariant.Enabled {
		freed, _ := r.freed()
		invariant.Assert(released <= freed, "%d bytes are released, %d were freed", released, freed)
	}
}

// forget clears a record whose block has ended: records stay for ever, and what they point to would stay with them, a whole
// runtime and its device. The arrays stay for the next block.
func (b *block) forget() {
	clear(b.reads[:cap(b.reads)])
	clear(b.open[:cap(b.open)])
	b.write, b.reads, b.open = point{}, b.reads[:0], b.open[:0]
	b.stream, b.freeOn, b.owners, b.wrapped = nil, nil, 0, false
}

// usable is the stream, or one of the runtime's own where it was let go.
func (t *streamTable) usable(s *Stream) (*Stream, error) {
	s.mutex.Lock()
	ended := s.ended
	s.mutex.Unlock()
	if !ended {
		return s, nil
	}
	return t.ownStream()
}
