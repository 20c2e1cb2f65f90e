package memory

import (
	"time"

	"libmmsb/core/region"
	"libmmsb/core/safego"
	"libmmsb/native"
)

// retentionPeriod is how long memory of ended pages stays with the context: one period at least, two at most. Tests let it be
// longer.
var retentionPeriod = 5 * time.Second

// releaseAtOnce is how many system pages go back to the system without a chance for others to take the context's lock.
const releaseAtOnce = (16 << 20) / region.SystemPage

// retained are free system pages of the extents' space whose memory the system has not got back. What is freed and soon taken
// again, as by a program that restores one snapshot after the other, so costs no page faults. They hold bytes of ended pages, and
// count as memory used.
type retained struct {
	recent, older pageSet     // freed in this period, and in the one before
	timer         *time.Timer // of this period; nil while nothing is retained
}

// count is how many of the system pages from first to end are retained.
func (r *retained) count(first, end uint64) (count uint64) {
	each := func(first, end uint64) { count += end - first }
	r.recent.runs(first, end, each)
	r.older.runs(first, end, each)
	return count
}

// take takes system pages out, and tells each run of them.
func (r *retained) take(first, end uint64, each func(first, end uint64)) {
	for _, set := range []pageSet{r.recent, r.older} {
		set.runs(first, end, each)
		set.remove(first, end)
	}
}

// retain keeps the memory of free system pages. Under the lock.
func (m *Memory) retain(first, count uint64) {
	r := &m.retained
	r.recent.add(first, first+count)
	if r.timer == nil {
		m.startPeriod()
	}
}

func (m *Memory) startPeriod() {
	m.retained.timer = time.AfterFunc(retentionPeriod, func() { safego.Go(m.endPeriod) })
}

// endPeriod gives back what was already free when the period began.
func (m *Memory) endPeriod() {
	r := &m.retained
	for over := false; !over; {
		m.Lock()
		first, found := r.older.next(0)
		switch {
		case m.closed:
			over = true
		case found:
			m.release(first, first+releaseAtOnce)
		default:
			over = true
			r.older, r.recent = r.recent, r.older
			if _, found := r.older.next(0); found {
				m.startPeriod()
			} else {
				r.timer = nil
			}
		}
		m.Unlock()
	}
}

// release gives the system what is retained of the system pages from first to end, and says how many bytes it is. Under the lock.
func (m *Memory) release(first, end uint64) (released uint64) {
	m.retained.take(first, end, func(first, end uint64) {
		in := m.extents.at(first) // no run goes on into the next one: between them is a gap
		length := (end - first) * region.SystemPage
		region.Discard(in.number, (first-in.first)*region.SystemPage, length)
		released += length
	})
	m.ledger.Give(released)
	return released
}

// reuse takes what is retained of an extent for its next page, zeroed or as it is. Under the lock.
func (m *Memory) reuse(first, count uint64, zeroed bool) {
	m.retained.take(first, first+count, func(first, end uint64) {
		if zeroed {
			clear(native.Bytes(m.extents.locator(first), (end-first)*region.SystemPage))
		}
	})
}
