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
	segment uint32 // counted over the chain; that a file removes the page stands in its first one
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
	// gone are the pages that these files remove, and of which they have nothing else; none for the whole chain.
	gone []uint64
}

// index is of the whole chain: 24 bytes a page.
func (s *Snapshot) index(goesOn asking) (records, error) {
	list, _, err := s.all.get(s, goesOn)
	return list, err
}

// MakeIndex makes the index that single pages are found with, which the first of them would have to wait for.
func (s *Snapshot) MakeIndex(goesOn func() error) error {
	_, err := s.index(goesOn)
	return err
}

func (x *index) get(s *Snapshot, goesOn asking) (list records, gone []uint64, err error) {
	x.lock.Lock()
	defer x.lock.Unlock()
	if x.made {
		return x.list, x.gone, nil
	}
	list, gone, err = s.collect(x.depth, goesOn)
	if err != nil {
		return nil, nil, err
	}
	counts, err := s.resolve(list, x.depth == len(s.volumes))
	if err != nil {
		return nil, nil, err
	}
	if x.depth == len(s.volumes) {
		if err := s.checkState(counts); err != nil {
			return nil, nil, err
		}
		gone = nil
	}
	x.list, x.gone, x.made = list, gone, true
	return list, gone, nil
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

// collect reads the tables of the newest files, depth of them, and makes their records; gone are the ids of pages that are
// removed and have no other record: a file has 8 bytes of each, and they take no more here.
func (s *Snapshot) collect(depth int, goesOn asking) (list records, gone []uint64, err error) {
	pages, ids := s.entries(depth)
	list, gone = make(records, 0, pages), make([]uint64, 0, ids)
	removed := make([][]uint64, depth) // parts of gone, per file
	for number, v := range s.volumes[:depth] {
		check, begin := s.sequence(number), len(gone)
		tables := tableReader{v: v}
		for segment := range v.segments() {
			if err := goesOn.ask(); err != nil {
				return nil, nil, err
			}
			t, err := tables.read(segment)
			if err != nil {
				return nil, nil, err
			}
			continues, err := check.add(t)
			if err != nil {
				return nil, nil, err
			}
			if check.counts.Removed <= v.totals.Removed { // or finish finds that the footer is wrong
				gone = append(gone, t.ids...)
			}
			if continues { // segments of another kind may lie between
				list[len(list)-1].what |= recordContinues
			}
			list = appendRecords(list, t, s.first[number]+uint32(segment), continues)
		}
		if err := check.finish(goesOn); err != nil {
			return nil, nil, err
		}
		removed[number] = gone[begin:]
	}
	if err := sorted(list, goesOn, record.compare); err != nil {
		return nil, nil, err
	}
	pagesEnd, gone := len(list), gone[:0] // never ahead of what is looked at
	for number, ids := range removed {
		if err := sorted(ids, goesOn, cmp.Compare); err != nil {
			return nil, nil, err
		}
		if list, gone, err = s.addRemoved(list, pagesEnd, gone, number, ids); err != nil {
			return nil, nil, err
		}
	}
	if len(list) > pagesEnd {
		err = sorted(list, goesOn, record.compare)
	}
	if err == nil && depth > 1 && depth < len(s.volumes) { // else one file's, which are sorted, or nobody looks at them
		err = sorted(gone, goesOn, cmp.Compare)
	}
	return list, gone, err
}

func (r record) compare(other record) int {
	return cmp.Or(cmp.Compare(r.id, other.id), cmp.Compare(r.segment, other.segment), cmp.Compare(r.entry(), other.entry()))
}

// addRemoved adds what a file removes to the records, where one of the first pages of these, which are sorted, has the id; else
// to gone. A page in whose place the same file has a new one is not removed: that is a whole page.
func (s *Snapshot) addRemoved(list records, pages int, gone []uint64, number int, ids []uint64) (records, []uint64, error) {
	rest := list[:pages]
	for i, id := range ids {
		if i > 0 && ids[i-1] == id {
			return nil, nil, status.Errorf(status.Corrupt, "%s: page %d is removed twice", s.volumes[number].name, id)
		}
		skip, _ := slices.BinarySearchFunc(rest, id, func(r record, id uint64) int { return cmp.Compare(r.id, id) })
		var group records
		group, rest = rest[skip:].front(id)
		replaced := slices.ContainsFunc(group, func(r record) bool {
			file, _ := s.volumeOf(r.segment)
			return file == number && !r.changes()
		})
		switch {
		case len(group) == 0:
			gone = append(gone, id)
		case !replaced:
			list = append(list, record{id, 0, s.first[number], recordRemoved})
		}
	}
	return list, gone, nil
}

func (s *Snapshot) sameFile(one, other *record) bool {
	a, _ := s.volumeOf(one.segment)
	b, _ := s.volumeOf(other.segment)
	return a == b
}

// PagesAtMost is how many pages the state says it has, no more than its files have room for.
func (s *Snapshot) PagesAtMost() uint64 {
	pages, _ := s.entries(len(s.volumes))
	return min(s.volumes[0].totals.StatePages, pages)
}

// entries is how many the newest files say they have, no more than they have room for.
func (s *Snapshot) entries(depth int) (pages, removed uint64) {
	for _, v := range s.volumes[:depth] {
		pages += v.claimed(v.totals.Pages, pageBytes)
		removed += v.claimed(v.totals.Removed, idBytes)
	}
	return pages, removed
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
	return list
}

// resolve looks at what the files say about each page together, and counts the state's pages. It finds what is there twice, and
// changes of what is not there.
func (s *Snapshot) resolve(list records, whole bool) (counts state, err error) {
	for len(list) > 0 {
		var group records
		group, list = list.front(list[0].id)
		for number := range group[1:] {
			if s.sameFile(&group[number], &group[number+1]) {
				a, _ := s.volumeOf(group[number].segment)
				if group[number].removed() || group[number+1].removed() {
					return counts, status.Errorf(status.Corrupt, "%s: page %d is removed, but has changes", s.volumes[a].name,
						group[0].id)
				}
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
