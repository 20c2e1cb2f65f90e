package memory

import "math/bits"

// pageSet is a set of system pages of the extents' space, a bit each.
type pageSet []uint64

// word is the mask of the bits from first to end that lie in the word of first, and where the next word begins.
func word(first, end uint64) (mask, next uint64) {
	next = min(end, first&^63+64)
	return ^uint64(0) << (first % 64) & (^uint64(0) >> (-next % 64)), next
}

func (s *pageSet) add(first, end uint64) {
	if words := int((end + 63) / 64); words > len(*s) {
		*s = append(*s, make([]uint64, words-len(*s))...)
	}
	for first < end {
		mask, next := word(first, end)
		(*s)[first/64] |= mask
		first = next
	}
}

func (s pageSet) remove(first, end uint64) {
	for end = min(end, uint64(len(s))*64); first < end; {
		mask, next := word(first, end)
		s[first/64] &^= mask
		first = next
	}
}

// next is the first system page of the set from one on.
func (s pageSet) next(from uint64) (page uint64, found bool) {
	page = s.find(from, uint64(len(s))*64, 0)
	return page, page < uint64(len(s))*64
}

// find is the first one from a system page on that is in the set; with flip all ones, that is not; end where there is none.
func (s pageSet) find(from, end, flip uint64) uint64 {
	for from < end {
		mask, next := word(from, end)
		if found := (s[from/64] ^ flip) & mask; found != 0 {
			return from&^63 + uint64(bits.TrailingZeros64(found))
		}
		from = next
	}
	return end
}

// runs calls each for every run of the set's system pages from first to end. each may remove the run.
func (s pageSet) runs(first, end uint64, each func(first, end uint64)) {
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

// overlaps tells whether some system page from first to end is in the set.
func (s pageSet) overlaps(first, end uint64) bool {
	end = min(end, uint64(len(s))*64)
	return s.find(first, end, 0) < end
}
