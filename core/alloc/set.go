package alloc

import "math/bits"

// Set is a set of units, a bit each.
type Set []uint64

// word is the mask of the bits from first to end that lie in the word of first, and where the next word begins.
func word(first, end uint64) (mask, next uint64) {
	next = min(end, first&^63+64)
	return ^uint64(0) << (first % 64) & (^uint64(0) >> (-next % 64)), next
}

// Add puts the units from first to end into the set.
func (s *Set) Add(first, end uint64) {
	if words := int((end + 63) / 64); words > len(*s) {
		*s = append(*s, make([]uint64, words-len(*s))...)
	}
	for first < end {
		mask, next := word(first, end)
		(*s)[first/64] |= mask
		first = next
	}
}

// Remove takes them out.
func (s Set) Remove(first, end uint64) {
	for end = min(end, uint64(len(s))*64); first < end; {
		mask, next := word(first, end)
		s[first/64] &^= mask
		first = next
	}
}

// Next is the first unit of the set from one on.
func (s Set) Next(from uint64) (unit uint64, found bool) {
	unit = s.find(from, uint64(len(s))*64, 0)
	return unit, unit < uint64(len(s))*64
}

// find is the first one from a unit on that is in the set; with flip all ones, that is not; end where there is none.
func (s Set) find(from, end, flip uint64) uint64 {
	for from < end {
		mask, next := word(from, end)
		if found := (s[from/64] ^ flip) & mask; found != 0 {
			return from&^63 + uint64(bits.TrailingZeros64(found))
		}
		for from = next; from+64 <= end && s[from/64] == flip; from += 64 { // of a large set most words are all alike
		}
	}
	return end
}

// Runs calls each for every run of the set's units from first to end. each may remove the run.
func (s Set) Runs(first, end uint64, each func(first, end uint64)) {
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

// Gaps calls each for every run of units from first to end that are not in the set. each may add the run, and more behind it.
func (s *Set) Gaps(first, end uint64, each func(first, end uint64)) {
	for first < end {
		words := uint64(len(*s)) * 64 // may have become more
		if first >= words {
			each(first, end)
			return
		}
		if first = s.find(first, min(end, words), ^uint64(0)); first < min(end, words) {
			stop := s.find(first, min(end, words), 0)
			if stop == words {
				stop = end
			}
			each(first, stop)
			first = stop
		}
	}
}

// Overlaps tells whether some unit from first to end is in the set.
func (s Set) Overlaps(first, end uint64) bool {
	end = min(end, uint64(len(s))*64)
	return s.find(first, end, 0) < end
}
