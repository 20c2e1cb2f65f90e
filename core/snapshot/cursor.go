// Pages of the state by a cursor, for callers that take a few at a time.

package snapshot

import "math"

// PagesFrom fills into with the next pages of the state, in the order of the files, and gives their number: 0 at the end. The
// cursor is 0 at first, then what the call before gave.
func (s *Snapshot) PagesFrom(cursor uint64, into []Page) (n int, next uint64, err error) {
	records, err := s.index(nil)
	if err != nil {
		return 0, cursor, err
	}
	last := len(s.volumes) - 1
	end := uint64(s.first[last]) + uint64(s.volumes[last].segments())
	segment, entry := cursor>>32, cursor&math.MaxUint32
	for ; segment < end; segment, entry = segment+1, 0 {
		t, err := s.table(uint32(segment))
		if err != nil {
			return 0, cursor, err
		}
		for ; entry < uint64(len(t.pages)); entry++ {
			if n == len(into) {
				return n, segment<<32 | entry, nil
			}
			page := &t.pages[entry]
			if newest, ok := records.newest(page.ID); ok && uint64(newest.segment) == segment && uint64(newest.entry()) == entry {
				into[n] = page.ofState()
				n++
			}
		}
	}
	return n, segment << 32, nil
}

// newest is a page's newest record, unless that removes the page.
func (all records) newest(id uint64) (record, bool) {
	_, group := all.of(id)
	if len(group) == 0 || group[0].removed() {
		return record{}, false
	}
	return group[0], true
}
