package memory

import (
	"sync"
	"time"

	"libmmsb/core/alloc"
	"libmmsb/core/region"
	"libmmsb/core/safego"
)

// retentionPeriod is how long memory of ended pages stays with the context: one period at least, two at most. Tests let it be
// longer.
var retentionPeriod = 5 * time.Second

// releaseAtOnce is how many system pages go back to the system without a chance for others to take the context's lock.
const releaseAtOnce = (16 << 20) / region.SystemPage

// retained are free system pages of the extents' space whose memory the system has not got back. What is freed and soon taken
// again, as by a program that restores one snapshot after the other, so costs no page faults. They hold bytes of ended pages, and
// count as memory used. Under the lock of the memory.
type retained struct {
	lock    sync.Locker
	discard func(first, end uint64) // gives the system the memory of system pages

	recent, older alloc.Set   // freed in this period, and in the one before
	timer         *time.Timer // of this period; nil while nothing is retained
	stopped       bool
}

// count is how many of the system pages from first to end are retained.
func (r *retained) count(first, end uint64) (count uint64) {
	each := func(first, end uint64) { count += end - first }
	r.recent.Runs(first, end, each)
	r.older.Runs(first, end, each)
	return count
}

// add retains system pages.
func (r *retained) add(first, end uint64) {
	r.recent.Add(first, end)
	if r.timer == nil {
		r.startPeriod()
	}
}

// take takes system pages out, and tells each run of them.
func (r *retained) take(first, end uint64, each func(first, end uint64)) {
	for _, set := range []alloc.Set{r.recent, r.older} {
		set.Runs(first, end, each)
		set.Remove(first, end)
	}
}

func (r *retained) startPeriod() {
	r.timer = time.AfterFunc(retentionPeriod, func() { safego.Go(r.endPeriod) })
}

// endPeriod gives back what was already free when the period began. Without the lock, which it takes.
func (r *retained) endPeriod() {
	for over := false; !over; {
		r.lock.Lock()
		first, found := r.older.Next(0)
		switch {
		case r.stopped:
			over = true
		case found:
			r.take(first, first+releaseAtOnce, r.discard)
		default:
			over = true
			r.older, r.recent = r.recent, r.older
			if _, found := r.older.Next(0); found {
				r.startPeriod()
			} else {
				r.timer = nil
			}
		}
		r.lock.Unlock()
	}
}

// stop ends the periods: the memory goes with its regions.
func (r *retained) stop() {
	r.stopped = true
	if r.timer != nil {
		r.timer.Stop()
	}
}
