// Package alloc divides a space of units into extents. It never touches what the units stand for, so the same code serves host
// regions, files and devices.
package alloc

import (
	"math"
	"math/bits"

	"libmmsb/core/invariant"
	"libmmsb/core/status"
)

// Free extents are kept in lists by size class: sizes below 32 have a class each, above there are 32 to each power of two,
// so that a class spans 3 % in size. Two levels of bitmaps find the next class that has a extent.
const (
	columnBits = 5
	columns    = 1 << columnBits
	rows       = 64 - columnBits + 1
	classes    = rows * columns

	// probes is how many extents are looked at one by one before one that surely fits is taken.
	probes = 8
)

// extent is a range of units, free or allocated. Extents tile the space: previous and next are the neighbours in it. A
// free one is also in the list of its class in its bin. Numbers stand for pointers, 0 for none.
type extent struct {
	offset, count          uint64
	mark                   uint64 // of a free one: the largest that units of it were freed with
	previous, next         uint32
	olderFree, youngerFree uint32 // of an allocated one, olderFree is the next one in its list of allocated
	bin                    uint32 // of a free one
	free                   bool
}

// bin is where free extents are found that are of one kind to the caller. Only neighbours in the same bin become one extent.
type bin struct {
	rowMap    uint64 // bit r: some class of row r has an extent
	columnMap [rows]uint32
	youngest  [classes]uint32
}

// Extents is a space of units, from 0 to a limit, divided into extents. Allocate and Free take constant time, but for an
// allocation that fails or only just succeeds, which may look at all free extents of nearly its size. The extents hold no
// pointers, so that the garbage collector does not feel them, and there is no locking. Most callers have one bin, 0, in which
// everything begins.
type Extents struct {
	limit     uint64
	used      uint64
	partsOf   func(offset, count uint64) (units uint64) // of a free extent outside bin 0; nil: nobody asks
	parts     Parts
	turn      invariant.Turn // of walks over everything
	extents   []extent       // the one at index 0 is not used
	unused    uint32         // extents to be used again, in a list by next
	last      uint32         // the extent that ends at the limit
	allocated allocated
	bins      []*bin // nil: it never had an extent
}

// allocated finds the allocated extents by offset: lists of those with one hash, which are rarely longer than one or two. A map
// of Go would cost more than all the rest of Allocate and Free.
type allocated struct {
	count int
	first []uint32 // of each list; as many as extents, rounded up to a power of two
}

const fewestLists = 16

// NewExtents makes a space of limit units, all free.
func NewExtents(limit uint64) *Extents {
	e := &Extents{extents: make([]extent, 1), bins: []*bin{new(bin)}}
	if limit > 0 {
		e.extend(limit)
	}
	return e
}

// Parts is how many free extents outside bin 0 have units that a caller wants to be counted, and how many units these are.
type Parts struct{ Extents, Units uint64 }

// CountParts asks for Parts: of says how many units of a free extent count, and says the same as long as it is free. No extent is
// free outside bin 0 yet.
func (e *Extents) CountParts(of func(offset, count uint64) (units uint64)) { e.partsOf = of }

// Parts is what CountParts asked for.
func (e *Extents) Parts() Parts { return e.parts }

func (p *Parts) add(units uint64) {
	if units > 0 {
		p.Extents++
		p.Units += units
	}
}

func (p *Parts) remove(units uint64) {
	if units > 0 {
		p.Extents--
		p.Units -= units
	}
}

// counted is how many units of a free extent Parts has.
func (e *Extents) counted(of *extent) uint64 {
	if of.bin == 0 || e.partsOf == nil {
		return 0
	}
	return e.partsOf(of.offset, of.count)
}

// Limit is the number of units in the space.
func (e *Extents) Limit() uint64 { return e.limit }

// Used is the number of allocated units.
func (e *Extents) Used() uint64 { return e.used }

// Largest is the size of the largest free extent of bin 0.
func (e *Extents) Largest() uint64 { return e.LargestIn(0) }

// LargestIn is the size of the largest free extent of a bin.
func (e *Extents) LargestIn(number uint32) uint64 {
	b := e.binAt(number)
	if b == nil || b.rowMap == 0 {
		return 0
	}
	row := 63 - bits.LeadingZeros64(b.rowMap)
	column := 31 - bits.LeadingZeros32(b.columnMap[row])
	largest := uint64(0)
	for index := b.youngest[row*columns+column]; index != 0; index = e.extents[index].olderFree {
		largest = max(largest, e.extents[index].count)
	}
	return largest
}

// Bins is how many bins there are; some may be empty.
func (e *Extents) Bins() uint32 { return uint32(len(e.bins)) }

// binAt is nil where no extent was ever freed to the bin.
func (e *Extents) binAt(number uint32) *bin {
	if number >= uint32(len(e.bins)) {
		return nil
	}
	return e.bins[number]
}

// Allocate takes count units from an offset that is a multiple of alignment (0 and 1 = any), of what is free in bin 0. It fails
// only where no free extent can hold them, or for a count of 0.
func (e *Extents) Allocate(count, alignment uint64) (offset uint64, ok bool) {
	offset, _, ok = e.AllocateFrom(0, count, alignment)
	return offset, ok
}

// AllocateFrom is Allocate of what is free in a bin. mark is the extent's that the units were of.
func (e *Extents) AllocateFrom(number uint32, count, alignment uint64) (offset, mark uint64, ok bool) {
	alignment = max(alignment, 1)
	b := e.binAt(number)
	if b == nil || count == 0 || count > e.limit-e.used || e.full() {
		return 0, 0, false
	}
	index := e.search(b, count, alignment)
	if index == 0 {
		return 0, 0, false
	}
	at := &e.extents[index]
	offset, mark = at.offset+e.padding(index, alignment), at.mark
	e.carve(index, offset, count)
	if invariant.Enabled {
		invariant.Assert(offset%alignment == 0, "%d units at unit %d were allocated, %d aligned to %d were asked for", count,
			offset, count, alignment)
	}
	return offset, mark, true
}

// full says that there are no numbers for two more extents.
func (e *Extents) full() bool { return len(e.extents) > math.MaxUint32-2 }

// carve allocates a part of a free extent.
func (e *Extents) carve(index uint32, offset, count uint64) {
	e.unlist(index)
	if before := offset - e.extents[index].offset; before > 0 {
		rest := e.split(index, before)
		e.list(index)
		index = rest
	}
	if e.extents[index].count > count {
		e.list(e.split(index, count))
	}
	e.extents[index].free = false
	e.know(index)
	e.used += count
	if invariant.Enabled {
		e.changed()
	}
}

// Free is a free extent. Who changes anything looks at it anew.
type Free struct {
	Offset, Count, Mark uint64
	Bin                 uint32
	index               uint32
}

// FreeIn is what is free in a bin, the smaller ones first, as far as they are of different classes.
func (e *Extents) FreeIn(number uint32) []Free {
	var all []Free
	b := e.binAt(number)
	for found := 0; b != nil; found++ {
		if found = b.nextClass(found); found == classes {
			break
		}
		for index := b.youngest[found]; index != 0; index = e.extents[index].olderFree {
			all = append(all, e.freeAt(index))
		}
	}
	return all
}

func (e *Extents) freeAt(index uint32) Free {
	at := &e.extents[index]
	return Free{Offset: at.offset, Count: at.count, Mark: at.mark, Bin: at.bin, index: index}
}

// Around is what is free before and behind a free extent, of other bins; a count of 0: nothing.
func (e *Extents) Around(f Free) (before, behind Free) {
	at := &e.extents[f.index]
	if at.previous != 0 && e.extents[at.previous].free {
		before = e.freeAt(at.previous)
	}
	if at.next != 0 && e.extents[at.next].free {
		behind = e.freeAt(at.next)
	}
	return before, behind
}

// Carve allocates a part of a free extent, which nothing has changed since it was looked at; false where there are no numbers for
// more extents.
func (e *Extents) Carve(f Free, offset, count uint64) (ok bool) {
	if e.full() {
		return false
	}
	if invariant.Enabled {
		at := &e.extents[f.index]
		invariant.Assert(at.free && at.offset == f.Offset && at.count == f.Count && count > 0 && offset >= f.Offset &&
			offset-f.Offset <= f.Count && count <= f.Count-(offset-f.Offset),
			"%d units at unit %d of a free extent of %d at unit %d are asked for", count, offset, f.Count, f.Offset)
	}
	e.carve(f.index, offset, count)
	return true
}

// Cut makes two of an allocated extent, the first one of front units, none of both empty. Errors: InvalidArgument, and Limit
// where there are no numbers for more extents.
func (e *Extents) Cut(offset, front uint64) error {
	link := e.find(offset)
	switch {
	case link == nil:
		return e.unknown(offset)
	case front == 0 || front >= e.extents[*link].count:
		return status.Errorf(status.InvalidArgument, "the extent at unit %d has %d units, %d cannot be cut off", offset,
			e.extents[*link].count, front)
	case e.full():
		return status.Errorf(status.Limit, "there are %d extents already", len(e.extents))
	}
	e.know(e.split(*link, front))
	if invariant.Enabled {
		e.changed()
	}
	return nil
}

// Held is how many units the allocated extent at an offset has; 0: there is none.
func (e *Extents) Held(offset uint64) uint64 {
	if link := e.find(offset); link != nil {
		return e.extents[*link].count
	}
	return 0
}

// Behind is what is free behind an allocated extent; a count of 0: nothing.
func (e *Extents) Behind(offset uint64) (behind Free) {
	if link := e.find(offset); link != nil {
		if next := e.extents[*link].next; next != 0 && e.extents[next].free {
			behind = e.freeAt(next)
		}
	}
	return behind
}

func (e *Extents) unknown(offset uint64) error {
	return status.Errorf(status.InvalidArgument, "no extent is allocated at unit %d of %d", offset, e.limit)
}

// changed checks what must hold behind each change, and from time to time everything.
func (e *Extents) changed() {
	invariant.Assert(e.used <= e.limit, "%d units are allocated, the limit is %d", e.used, e.limit)
	if e.turn.Comes(len(e.extents)) {
		invariant.Check(e.Check())
	}
}

// Free gives an extent back, which must be just what an Allocate returned, to bin 0. Errors: InvalidArgument.
func (e *Extents) Free(offset, count uint64) error { return e.FreeTo(0, 0, offset, count) }

// FreeTo is Free to a bin, with a mark. Where free extents become one, it has the larger mark.
func (e *Extents) FreeTo(number uint32, mark, offset, count uint64) error {
	link := e.find(offset)
	if link == nil {
		return e.unknown(offset)
	}
	index := *link
	if actual := e.extents[index].count; actual != count {
		return status.Errorf(status.InvalidArgument, "the extent at unit %d has %d units, not %d", offset, actual, count)
	}
	*link = e.extents[index].olderFree
	e.allocated.count--
	e.used -= count
	e.extents[index].bin, e.extents[index].mark = number, mark
	if next := e.extents[index].next; e.isFreeIn(next, number) {
		e.unlist(next)
		e.join(index)
	}
	if previous := e.extents[index].previous; e.isFreeIn(previous, number) {
		e.unlist(previous)
		e.join(previous)
		index = previous
	}
	e.list(index)
	if invariant.Enabled {
		e.changed()
	}
	return nil
}

// find is what points to the allocated extent at an offset; nil = there is none.
func (e *Extents) find(offset uint64) *uint32 {
	if e.allocated.count == 0 {
		return nil
	}
	link := e.allocated.listOf(offset)
	for *link != 0 && e.extents[*link].offset != offset {
		link = &e.extents[*link].olderFree
	}
	if *link == 0 {
		return nil
	}
	return link
}

// know adds an extent to those that are allocated.
func (e *Extents) know(index uint32) {
	a := &e.allocated
	if a.count == len(a.first) {
		a.first = make([]uint32, max(fewestLists, 2*len(a.first)))
		for i := range e.extents {
			if other := uint32(i); other != index && !e.extents[i].free && e.extents[i].count > 0 {
				e.enlist(other)
			}
		}
	}
	e.enlist(index)
	a.count++
}

func (e *Extents) enlist(index uint32) {
	link := e.allocated.listOf(e.extents[index].offset)
	e.extents[index].olderFree, *link = *link, index
}

// listOf is the list of an offset, by a hash whose upper bits are the best ones: Knuth, The Art of Computer Programming, 6.4.
func (a *allocated) listOf(offset uint64) *uint32 {
	return &a.first[offset*0x9e3779b97f4a7c15>>(65-bits.Len(uint(len(a.first))))]
}

func (e *Extents) isFreeIn(index, number uint32) bool {
	return index != 0 && e.extents[index].free && e.extents[index].bin == number
}

// EachAllocated calls each for every allocated extent, from the last to the first. each changes none.
func (e *Extents) EachAllocated(each func(offset, count uint64)) {
	for index := e.last; index != 0; index = e.extents[index].previous {
		if at := &e.extents[index]; !at.free {
			each(at.offset, at.count)
		}
	}
}

// EachFree calls each for every free extent, from the last to the first, until it returns false. each changes none.
func (e *Extents) EachFree(each func(offset, count uint64) (goOn bool)) {
	for index := e.last; index != 0; index = e.extents[index].previous {
		if at := &e.extents[index]; at.free && !each(at.offset, at.count) {
			return
		}
	}
}

// Each calls each for every extent, free or not, from the last to the first. each changes none. Of an allocated one, bin and mark
// mean nothing.
func (e *Extents) Each(each func(extent Free, free bool)) {
	for index := e.last; index != 0; index = e.extents[index].previous {
		each(e.freeAt(index), e.extents[index].free)
	}
}

// Grow moves the limit up. Errors: InvalidArgument (it would move down).
func (e *Extents) Grow(limit uint64) error {
	if limit < e.limit {
		return status.Errorf(status.InvalidArgument, "the limit is %d units, it cannot become %d", e.limit, limit)
	}
	if limit > e.limit {
		e.extend(limit)
	}
	return nil
}

// Skip moves the limit up by count units that nobody gets. What is allocated later never reaches from before them to behind them,
// which is what a caller needs whose space is not of one piece.
func (e *Extents) Skip(count uint64) {
	index := e.take()
	e.extents[index] = extent{offset: e.limit, count: count, previous: e.last}
	if e.last != 0 {
		e.extents[e.last].next = index
	}
	e.last = index
	e.know(index)
	e.used += count
	e.limit += count
}

func (e *Extents) extend(limit uint64) {
	more := limit - e.limit
	if last := e.last; e.isFreeIn(last, 0) {
		e.unlist(last)
		e.extents[last].count += more
		e.list(last)
	} else {
		index := e.take()
		e.extents[index] = extent{offset: e.limit, count: more, previous: last}
		if last != 0 {
			e.extents[last].next = index
		}
		e.last = index
		e.list(index)
	}
	e.limit = limit
}

// search is a free extent of a bin that can hold the units, or 0: one of the first that are hardly larger than asked for, else
// one that is surely large enough, else whichever there is.
func (e *Extents) search(b *bin, count, alignment uint64) uint32 {
	first := class(count)
	if index := e.scan(b, first, probes, count, alignment); index != 0 {
		return index
	}
	if sure, overflow := bits.Add64(count, alignment-1, 0); overflow == 0 {
		if found := b.nextClass(sureClass(sure)); found < classes {
			return b.youngest[found]
		}
	}
	return e.scan(b, first, math.MaxInt, count, alignment)
}

// scan looks at so many free extents, by class from a first one on, for one that can hold the units.
func (e *Extents) scan(b *bin, first, limit int, count, alignment uint64) uint32 {
	for found := b.nextClass(first); found < classes; found = b.nextClass(found + 1) {
		for index := b.youngest[found]; index != 0; index = e.extents[index].olderFree {
			padding, available := e.padding(index, alignment), e.extents[index].count
			if padding <= available && available-padding >= count {
				return index
			}
			if limit--; limit == 0 {
				return 0
			}
		}
	}
	return 0
}

// padding is the number of units before the first aligned one.
func (e *Extents) padding(index uint32, alignment uint64) uint64 {
	if past := e.extents[index].offset % alignment; past > 0 {
		return alignment - past
	}
	return 0
}

// class is the class of a size.
func class(size uint64) int {
	if size < columns {
		return int(size)
	}
	exponent := bits.Len64(size) - 1
	return (exponent-columnBits+1)*columns + int(size>>(exponent-columnBits))%columns
}

// sureClass is the first class in which every size is at least this one.
func sureClass(size uint64) int {
	found := class(size)
	if size >= columns && bits.TrailingZeros64(size) < bits.Len64(size)-1-columnBits {
		found++
	}
	return found
}

// nextClass is the first class from here on that has a free extent, or classes.
func (b *bin) nextClass(from int) int {
	row := from / columns
	if row >= rows {
		return classes
	}
	if columnsLeft := b.columnMap[row] >> (from % columns); columnsLeft != 0 {
		return from + bits.TrailingZeros32(columnsLeft)
	}
	rowsLeft := b.rowMap &^ (2<<row - 1)
	if rowsLeft == 0 {
		return classes
	}
	row = bits.TrailingZeros64(rowsLeft)
	return row*columns + bits.TrailingZeros32(b.columnMap[row])
}

// list makes an extent free and puts it into the list of its class in its bin.
func (e *Extents) list(index uint32) {
	added := &e.extents[index]
	for added.bin >= uint32(len(e.bins)) {
		e.bins = append(e.bins, nil)
	}
	if e.bins[added.bin] == nil {
		e.bins[added.bin] = new(bin)
	}
	b, found := e.bins[added.bin], class(added.count)
	added.free, added.youngerFree, added.olderFree = true, 0, b.youngest[found]
	if added.olderFree != 0 {
		e.extents[added.olderFree].youngerFree = index
	}
	b.youngest[found] = index
	b.columnMap[found/columns] |= 1 << (found % columns)
	b.rowMap |= 1 << (found / columns)
	e.parts.add(e.counted(added))
}

func (e *Extents) unlist(index uint32) {
	removed := &e.extents[index]
	e.parts.remove(e.counted(removed))
	if removed.olderFree != 0 {
		e.extents[removed.olderFree].youngerFree = removed.youngerFree
	}
	if removed.youngerFree != 0 {
		e.extents[removed.youngerFree].olderFree = removed.olderFree
		return
	}
	b, found := e.bins[removed.bin], class(removed.count)
	b.youngest[found] = removed.olderFree
	if removed.olderFree == 0 {
		row := found / columns
		b.columnMap[row] &^= 1 << (found % columns)
		if b.columnMap[row] == 0 {
			b.rowMap &^= 1 << row
		}
	}
}

// split cuts an extent that is in no list after count units, and returns the new one behind.
func (e *Extents) split(index uint32, count uint64) uint32 {
	rest := e.take()
	front := &e.extents[index]
	e.extents[rest] = extent{offset: front.offset + count, count: front.count - count, mark: front.mark, bin: front.bin,
		previous: index, next: front.next}
	if front.next != 0 {
		e.extents[front.next].previous = rest
	} else {
		e.last = rest
	}
	front.count, front.next = count, rest
	return rest
}

// join adds the next extent to this one; both are in no list.
func (e *Extents) join(index uint32) {
	front := &e.extents[index]
	gone := front.next
	front.count += e.extents[gone].count
	front.mark = max(front.mark, e.extents[gone].mark)
	front.next = e.extents[gone].next
	if front.next != 0 {
		e.extents[front.next].previous = index
	} else {
		e.last = index
	}
	e.extents[gone] = extent{next: e.unused}
	e.unused = gone
}

// take is the index of an extent that is not in use.
func (e *Extents) take() uint32 {
	if index := e.unused; index != 0 {
		e.unused = e.extents[index].next
		return index
	}
	e.extents = append(e.extents, extent{})
	return uint32(len(e.extents) - 1)
}

// Check walks everything and says what is wrong with it, if anything is: the extents must tile the space, no two free ones
// may touch, every free one must be in the list of its class, and counters and bitmaps must be what a recount gives.
// Errors: Internal.
func (e *Extents) Check() error {
	broken := func(format string, arguments ...any) error {
		return status.Errorf(status.Internal, format, arguments...)
	}
	first := uint32(0)
	for index := e.last; index != 0; index = e.extents[index].previous {
		first = index
	}
	var position, used uint64
	var previous uint32
	allocated, free := 0, map[uint32]bool{}
	for index := first; index != 0; index = e.extents[index].next {
		current := e.extents[index]
		switch {
		case current.offset != position:
			return broken("extent at unit %d does not begin where the one before ends, at %d", current.offset, position)
		case current.count == 0 || current.count > e.limit-position:
			return broken("the extent at unit %d has %d units, the limit is %d", position, current.count, e.limit)
		case current.previous != previous:
			return broken("the extent at unit %d is after extent %d, not %d", position, previous, current.previous)
		case current.free && e.isFreeIn(previous, current.bin):
			return broken("two free extents of bin %d touch at unit %d", current.bin, position)
		case current.free:
			free[index] = true
		default:
			if link := e.find(position); link == nil || *link != index {
				return broken("the allocated extent at unit %d is not known by its offset", position)
			}
			used += current.count
			allocated++
		}
		position += current.count
		previous = index
	}
	switch {
	case position != e.limit:
		return broken("the extents end at unit %d, the limit is %d", position, e.limit)
	case previous != e.last:
		return broken("the last extent is %d, not %d", previous, e.last)
	case used != e.used:
		return broken("%d units are allocated, %d are counted", used, e.used)
	case allocated != e.allocated.count:
		return broken("%d extents are allocated, %d are known by their offset", allocated, e.allocated.count)
	}
	return e.checkLists(free, len(e.extents)-1-allocated)
}

// checkLists checks the lists against the free extents of the walk; idle is the number of extents that are free or unused.
func (e *Extents) checkLists(free map[uint32]bool, idle int) error {
	broken := func(format string, arguments ...any) error {
		return status.Errorf(status.Internal, format, arguments...)
	}
	listed := 0
	var parts Parts
	for number, b := range e.bins {
		if b == nil {
			continue
		}
		for found, index := range b.youngest {
			row, column := found/columns, found%columns
			if set := b.columnMap[row]>>column&1 != 0; set != (index != 0) {
				return broken("class %d has bit %t and first extent %d", found, set, index)
			}
			if set := b.rowMap>>row&1 != 0; set != (b.columnMap[row] != 0) {
				return broken("row %d has bit %t and classes %#x", row, set, b.columnMap[row])
			}
			for younger := uint32(0); index != 0; younger, index = index, e.extents[index].olderFree {
				current := e.extents[index]
				if !free[index] || current.youngerFree != younger || class(current.count) != found ||
					current.bin != uint32(number) {
					return broken("the extent at unit %d with %d units does not belong into the list of class %d",
						current.offset, current.count, found)
				}
				delete(free, index)
				parts.add(e.counted(&current))
				listed++
			}
		}
	}
	switch {
	case len(free) > 0:
		return broken("%d free extents are in no list", len(free))
	case parts != e.parts:
		return broken("%d free extents have %d units that are asked for, %d and %d are counted", parts.Extents, parts.Units,
			e.parts.Extents, e.parts.Units)
	}
	for index := e.unused; index != 0; index = e.extents[index].next {
		listed++
	}
	if listed != idle {
		return broken("%d extents are free or unused, %d are in a list", idle, listed)
	}
	return nil
}
