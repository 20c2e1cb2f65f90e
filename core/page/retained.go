package page

import (
	"math/bits"
	"time"

	"libmmsb/core/mem"
	"libmmsb/core/safego"
	"libmmsb/native"
)

// retentionPeriod is how long memory of ended pages stays with the context: one period at least, two at most. Tests let it be longer.
var retentionPeriod = 5 * time.Second

// releaseAtOnce is how many blocks go back to the system without a chance for others to take the context's lock.
const releaseAtOnce = (16 << 20) / mem.SystemPage

// retained are free blocks of the extents' space whose memory the system has not got back. What is freed and soon taken again,
// as by a program that restores one snapshot after the other, so costs no page faults. They hold bytes of ended pages, and count
// as memory used.
type retained struct {
	recent, older blockSet    // freed in this period, and in the one before
	timer         *time.Timer // of this period; nil while nothing is retained
}

// count is how many of the blocks from first to end are retained.
func (r *retained) count(first, end uint64) (count uint64) {
	each := func(first, end uint64) { count += end - first }
	r.recent.runs(first, end, each)
	r.older.runs(first, end, each)
	return count
}

// take takes blocks out, and tells each run of them.
func (r *retained) take(first, end uint64, each func(first, end uint64)) {
	for _, set := range []blockSet{r.recent, r.older} {
		set.runs(first, end, each)
		set.remove(first, end)
	}
}

// retain keeps the memory of free blocks. Under the lock.
func (c *Context) retain(first, count uint64) {
	r := &c.memory.retained
	r.recent.add(first, first+count)
	if r.timer == nil {
		c.startPeriod()
	}
}

func (c *Context) startPeriod() {
	c.memory.retained.timer = time.AfterFunc(retentionPeriod, func() { safego.Go(c.endPeriod) })
}

// endPeriod gives back what was already free when the period began.
func (c *Context) endPeriod() {
	m := &c.memory
	r := &m.retained
	for over := false; !over; {
		m.Lock()
		first, found := r.older.next(0)
		switch {
		case m.closed:
			over = true
		case found:
			c.release(first, first+releaseAtOnce)
		default:
			over = true
			r.older, r.recent = r.recent, r.older
			if _, found := r.older.next(0); found {
				c.startPeriod()
			} else {
				r.timer = nil
			}
		}
		m.Unlock()
	}
}

// release gives the system what is retained of the blocks from first to end, and says how many bytes it is. Under the lock.
func (c *Context) release(first, end uint64) (released uint64) {
	m := &c.memory
	m.retained.take(first, end, func(first, end uint64) {
		region := m.extentRegion(first) // no run goes on into the next one: between them is a gap
		length := (end - first) * mem.SystemPage
		mem.Discard(region.number, (first-region.first)*mem.SystemPage, length)
		released += length
	})
	c.ledger.Give(released)
	return released
}

// reuse takes what is retained of an extent for its next page, zeroed or as it is. Under the lock.
func (c *Context) reuse(first, count uint64, zeroed bool) {
	m := &c.memory
	m.retained.take(first, first+count, func(first, end uint64) {
		if zeroed {
			region := m.extentRegion(first)
			clear(native.Bytes(native.Locator(region.number, (first-region.first)*mem.SystemPage), (end-first)*mem.SystemPage))
		}
	})
}

// blockSet is a set of blocks, a bit each.
type blockSet []uint64

// word is the mask of the bits from first to end that lie in the word of first, and where the next word begins.
func word(first, end uint64) (mask, next uint64) {
	next = min(end, first&^63+64)
	return ^uint64(0) << (first % 64) & (^uint64(0) >> (-next % 64)), next
}

func (s *blockSet) add(first, end uint64) {
	if words := int((end + 63) / 64); words > len(*s) {
		*s = append(*s, make([]uint64, words-len(*s))...)
	}
	for first < end {
		mask, next := word(first, end)
		(*s)[first/64] |= mask
		first = next
	}
}

func (s blockSet) remove(first, end uint64) {
	for end = min(end, uint64(len(s))*64); first < end; {
		mask, next := word(first, end)
		s[first/64] &^= mask
		first = next
	}
}

// next is the first block from a place on.
func (s blockSet) next(from uint64) (block uint64, found bool) {
	block = s.find(from, uint64(len(s))*64, 0)
	return block, block < uint64(len(s))*64
}

// find is the first block from a place on that is in the set; with flip all ones, that is not; end where there is none.
func (s blockSet) find(from, end, flip uint64) uint64 {
	for from < end {
		mask, next := word(from, end)
		if found := (s[from/64] ^ flip) & mask; found != 0 {
			return from&^63 + uint64(bits.TrailingZeros64(found))
		}
		from = next
	}
	return end
}

// runs calls each for every run of the set's blocks from first to end. each may remove the run.
func (s blockSet) runs(first, end uint64, each func(first, end uint64)) {
	end = min(end, uint64(len(s))*64)
	for {
		first = s.find(first, end, 0)
		if first >= end {
			return
		}
		stop := s.find(first, end, ^uint64(0))
		each(first, stop)
		first = stop
	}
}
