// Which file of a chain says what about a page.

package snapshot

import (
	"cmp"
	"math"
	"slices"
	"sync"

	"libmmsb/core/status"
)

// record is where a file says something about a page.
type record struct {
	id      uint64
	size    uint64
	segment uint32 // counted over the chain
	what    uint32 // entry and flags
}

// Flags of a record beside its entry, which is less.
const (
	recordRemoved   = 1 << 31 // the file removes the page
	recordChanges   = 1 << 30 // the file has only what changed
	recordContinues = 1 << 29 // more of the page is in the next segment
	recordEntry     = recordContinues - 1
)

func (r *record) removed() bool   { return r.what&recordRemoved != 0 }
func (r *record) changes() bool   { return r.what&recordChanges != 0 }
func (r *record) continues() bool { return r.what&recordContinues != 0 }
func (r *record) entry() uint32   { return r.what & recordEntry }

// records are sorted by id, and those of an id newest first.
type records []record

// of is those of a page, and where they begin.
func (all records) of(id uint64) (from int, group records) {
	from, _ = slices.BinarySearchFunc(all, id, func(r record, id uint64) int { return cmp.Compare(r.id, id) })
	group, _ = all[from:].front(id)
	return from, group
}

// front cuts a page's records off the front: none where another page's come first.
func (all records) front(id uint64) (group, rest records) {
	n := 0
	for n < len(all) && all[n].id == id {
		n++
	}
	return all[:n], all[n:]
}

// index makes records of the newest files, depth of them, when they are first asked for.
type index struct {
	depth int
	lock  sync.Mutex
	made  bool
	list  records
}

// index is of the whole chain: 24 bytes a page.
func (s *Snapshot) index(goesOn asking) (records, error) { return s.all.get(s, goesOn) }

func (x *index) get(s *Snapshot, goesOn asking) (records, error) {
	x.lock.Lock()
	defer x.lock.Unlock()
	if x.made {
		return x.list, nil
	}
	list, counts, err := s.collect(x.depth, goesOn)
	if err != nil {
		return nil, err
	}
	if x.depth == len(s.volumes) {
		if err := s.checkState(counts); err != nil {
			return nil, err
		}
	}
	x.list, x.made = list, true
	return list, nil
}

// state counts pages.
type state struct{ pages, bytes uint64 }

// add counts a page. Its size is below 2^63.
func (c *state) add(name string, id, size uint64) error {
	c.pages++
	if c.bytes += size; c.bytes > math.MaxInt64 {
		return status.Errorf(status.Corrupt, "%s: page sizes up to page %d add up to more than 2^63-1", name, id)
	}
	return nil
}

func (s *Snapshot) checkState(counts state) error {
	v := s.volumes[0]
	if v.header.Version == OriginalVersion {
		v.totals.StatePages, v.totals.StateBytes = counts.pages, counts.bytes
	}
	if counts.pages != v.totals.StatePages || counts.bytes != v.totals.StateBytes {
		return status.Errorf(status.Corrupt,
			"%s: the footer counts %d pages with %d bytes in the state, but the chain has %d with %d",
			v.name, v.totals.StatePages, v.totals.StateBytes, counts.pages, counts.bytes)
	}
	return nil
}

// collect reads the tables of the newest files, depth of them, and makes their records. It finds what is there twice, and changes
// of what is not there.
func (s *Snapshot) collect(depth int, goesOn asking) (records, state, error) {
	list := make(records, 0, s.entries(depth))
	var scratch []byte
	for number, v := range s.volumes[:depth] {
		check, last := s.sequence(number), 0 // the record of the page that came last
		for segment := range v.segments() {
			if err := goesOn.ask(); err != nil {
				return nil, state{}, err
			}
			t, used, err := v.readTable(segment, scratch)
			if err != nil {
				return nil, state{}, err
			}
			scratch = used
			continues, err := check.add(t)
			if err != nil {
				return nil, state{}, err
			}
			if continues { // segments of another kind may lie between
				list[last].what |= recordContinues
			}
			before := len(list)
			list = appendRecords(list, t, s.first[number]+uint32(segment), continues)
			if len(t.pages) > 0 && len(list) > before {
				last = len(list) - 1
			}
		}
		if err := check.finish(goesOn); err != nil {
			return nil, state{}, err
		}
	}
	err := sorted(list, goesOn, func(a, b record) int {
		return cmp.Or(cmp.Compare(a.id, b.id), cmp.Compare(a.segment, b.segment), cmp.Compare(a.entry(), b.entry()))
	})
	if err != nil {
		return nil, state{}, err
	}
	list = s.withoutReplaced(list)
	counts, err := s.resolve(list, depth == len(s.volumes))
	return list, counts, err
}

// withoutReplaced leaves out removals of pages in whose place the same file has a new page with the id. It is a whole page.
func (s *Snapshot) withoutReplaced(list records) records {
	replaces := func(page, removal *record) bool {
		return page.id == removal.id && !page.removed() && !page.changes() && s.sameFile(page, removal)
	}
	kept := list[:0]    // never ahead of what is looked at
	dropped := record{} // the removal that was left out last
	for at := range list {
		r := &list[at]
		if r.removed() && (at > 0 && replaces(&list[at-1], r) || at+1 < len(list) && replaces(&list[at+1], r)) {
			if again := dropped.id == r.id && s.sameFile(&dropped, r); !again {
				dropped = *r
				continue
			}
		}
		kept = append(kept, *r)
	}
	return kept
}

func (s *Snapshot) sameFile(one, other *record) bool {
	a, _ := s.volumeOf(one.segment)
	b, _ := s.volumeOf(other.segment)
	return a == b
}

// PagesAtMost is how many pages the state says it has, no more than its files have room for.
func (s *Snapshot) PagesAtMost() uint64 {
	return min(s.volumes[0].totals.StatePages, s.entries(len(s.volumes)))
}

// entries is how many the newest files say they have, no more than they have room for.
func (s *Snapshot) entries(depth int) (count uint64) {
	for _, v := range s.volumes[:depth] {
		count += v.claimed(v.totals.Pages, pageBytes) + v.claimed(v.totals.Removed, idBytes)
	}
	return count
}

func appendRecords(list records, t *table, segment uint32, continues bool) records {
	for entry := range t.pages {
		page := &t.pages[entry]
		if entry == 0 && continues {
			continue
		}
		what := uint32(entry)
		if page.Flags&FlagChanges != 0 {
			what |= recordChanges
		}
		list = append(list, record{page.ID, page.Size, segment, what})
	}
	for entry, id := range t.ids {
		list = append(list, record{id, 0, segment, uint32(entry) | recordRemoved})
	}
	return list
}

// resolve looks at what the files say about each page together, and counts the state's pages.
func (s *Snapshot) resolve(list records, whole bool) (counts state, err error) {
	for len(list) > 0 {
		var group records
		group, list = list.front(list[0].id)
		for number := range group[1:] {
			if s.sameFile(&group[number], &group[number+1]) {
				a, _ := s.volumeOf(group[number].segment)
				return counts, status.Errorf(status.Corrupt, "%s: page %d occurs twice, in segments %d and %d", s.volumes[a].name,
					group[0].id, group[number].segment-s.first[a], group[number+1].segment-s.first[a])
			}
		}
		if group[0].removed() {
			continue
		}
		if err := s.checkChanges(group, whole); err != nil {
			return counts, err
		}
		if err := counts.add(s.volumes[0].name, group[0].id, group[0].size); err != nil {
			return counts, err
		}
	}
	return counts, nil
}

// checkChanges finds changes of a page that the base does not have like that. Without the whole chain the oldest file can
// have it.
func (s *Snapshot) checkChanges(group []record, whole bool) error {
	for number := range group {
		if !group[number].changes() {
			return nil
		}
		if number+1 == len(group) {
			if whole {
				return s.foreignBase(&group[number])
			}
			return nil
		}
		if older := &group[number+1]; older.removed() || older.size != group[number].size {
			return s.foreignBase(&group[number])
		}
	}
	return nil
}

func (s *Snapshot) foreignBase(r *record) error {
	file, number := s.volumeOf(r.segment)
	return status.Errorf(status.Corrupt, "%s: segment %d has changes of page %d with %d bytes, but the base has no such page",
		s.volumes[file].name, number, r.id, r.size)
}
