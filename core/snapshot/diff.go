// Comparing two states: pages, ranges of bytes, dependencies.

package snapshot

import (
	"bytes"
	"iter"
	"slices"

	"libmmsb/core/abi"
)

// What happened to a page between two states.
type Change int

// The changes.
const (
	Added Change = iota + 1
	Removed
	Changed
)

// String is the change's word.
func (c Change) String() string {
	return [...]string{"nothing", "added", "removed", "changed"}[c]
}

// Difference is a page that differs between two states.
type Difference struct {
	ID            uint64
	What          Change
	Before, After Page // without the page where it is not there
	// Of a changed page: what differs. Attributes are size, location, device, NUMA node, epoch and flags.
	Bytes, Mask, Metadata, Attributes bool
}

// Code is the difference as one of MMSB_CHANGE_*.
func (d *Difference) Code() int32 {
	switch {
	case d.What == Added:
		return abi.ChangeAdded
	case d.What == Removed:
		return abi.ChangeRemoved
	case d.Bytes || d.Before.Size != d.After.Size:
		return abi.ChangeBytes
	default:
		return abi.ChangeOther
	}
}

// Range is a range of bytes.
type Range struct{ Offset, Length uint64 }

func (r Range) end() uint64 { return r.Offset + r.Length }

// Diff walks the pages that differ from a to b, by id. Pages of the same version whose checksums agree are taken for equal;
// where the versions differ and the checksums agree, the bytes are compared. A page whose version alone moved is equal. An
// error ends the walk. progress is told of pages of both states.
func Diff(a, b *Snapshot, progress Progress) iter.Seq2[Difference, error] {
	return func(yield func(Difference, error) bool) {
		if err := diff(a, b, progress, func(d Difference) bool { return yield(d, nil) }); err != nil {
			yield(Difference{}, err)
		}
	}
}

// diffStep is how much is compared between two looks at progress: a page counts as its size, one that is small or not read as the
// share of one of 4096.
const diffStep = 4 << 20

func diff(a, b *Snapshot, progress Progress, yield func(Difference) bool) error {
	goesOn := func() error { return progress.report(0, 0) }
	before, err := a.index(goesOn)
	if err != nil {
		return err
	}
	after, err := b.index(goesOn)
	if err != nil {
		return err
	}
	total, step := uint64(len(before)+len(after)), uint64(0)
	for len(before) > 0 || len(after) > 0 {
		if step >= diffStep {
			if err := progress.report(total-uint64(len(before)+len(after)), total); err != nil {
				return err
			}
			step = 0
		}
		var id uint64
		if len(after) == 0 || len(before) > 0 && before[0].id < after[0].id {
			id = before[0].id
		} else {
			id = after[0].id
		}
		d := Difference{ID: id}
		var old, new []record
		old, before = cut(before, id)
		new, after = cut(after, id)
		switch {
		case len(old) == 0 && len(new) == 0:
			continue
		case len(old) == 0:
			d.What = Added
		case len(new) == 0:
			d.What = Removed
		default:
			d.What = Changed
		}
		differs, err := compare(a, b, old, new, &d)
		if err != nil {
			return err
		}
		step += max(d.Before.Size, d.After.Size, diffStep/4096)
		if differs && !yield(d) {
			return nil
		}
	}
	return nil
}

// cut takes a page's records off the front of a list; none where it is removed.
func cut(list records, id uint64) (group, rest records) {
	if group, rest = list.front(id); len(group) > 0 && group[0].removed() {
		group = nil
	}
	return group, rest
}

// compare fills in the pages and what differs.
func compare(a, b *Snapshot, old, new records, d *Difference) (bool, error) {
	entry := func(s *Snapshot, group records) (Page, error) {
		if len(group) == 0 {
			return Page{}, nil
		}
		t, err := s.table(group[0].segment)
		if err != nil {
			return Page{}, err
		}
		return t.pages[group[0].entry()].ofState(), nil
	}
	if d.What == Changed && sameEntry(a, b, old[0], new[0]) { // before any table is read
		return false, nil
	}
	var err error
	if d.Before, err = entry(a, old); err != nil {
		return false, err
	}
	if d.After, err = entry(b, new); err != nil || d.What != Changed {
		return true, err
	}
	withoutVersion := d.Before
	withoutVersion.Version, withoutVersion.MetadataCount = d.After.Version, d.After.MetadataCount
	d.Attributes = withoutVersion != d.After
	from, err := a.gather(old)
	if err != nil {
		return false, err
	}
	to, err := b.gather(new)
	if err != nil {
		return false, err
	}
	for kind, differs := range []*bool{KindBytes: &d.Bytes, KindMask: &d.Mask, KindMetadata: &d.Metadata} {
		if *differs, err = piecesDiffer(a, b, d, ofKind(from, uint32(kind)), ofKind(to, uint32(kind))); err != nil {
			return false, err
		}
	}
	return d.Bytes || d.Mask || d.Metadata || d.Attributes, nil
}

// sameEntry says whether two records are one entry of one file: then everything below is the same, too.
func sameEntry(a, b *Snapshot, old, new record) bool {
	oldFile, oldNumber := a.volumeOf(old.segment)
	newFile, newNumber := b.volumeOf(new.segment)
	id := a.volumes[oldFile].header.ID
	return id != ID{} && id == b.volumes[newFile].header.ID && oldNumber == newNumber && old.entry() == new.entry()
}

func ofKind(pieces []Piece, kind uint32) []Piece {
	from := slices.IndexFunc(pieces, func(p Piece) bool { return p.Kind == kind })
	if from < 0 {
		return nil
	}
	to := from
	for to < len(pieces) && pieces[to].Kind == kind {
		to++
	}
	return pieces[from:to]
}

func piecesDiffer(a, b *Snapshot, d *Difference, from, to []Piece) (bool, error) {
	switch {
	case len(from) == 0 && len(to) > 0 && to[0].Kind == KindMask: // no mask is one of zeros
		return anySet(b, d.ID, to)
	case len(to) == 0 && len(from) > 0 && from[0].Kind == KindMask:
		return anySet(a, d.ID, from)
	}
	old, new := byChunk(from), byChunk(to)
	if len(old) != len(new) {
		return true, nil
	}
	for number := range old {
		same, err := sameChunk(a, b, d, old[number], new[number])
		if err != nil || !same {
			return true, err
		}
	}
	return false, nil
}

// anySet says whether a mask has a bit that is set.
func anySet(s *Snapshot, id uint64, pieces []Piece) (bool, error) {
	memory := twoChunks()
	defer chunks.Put(memory)
	for number := range pieces {
		bits := memory[:pieces[number].Length]
		if err := s.readPiece(bits, id, &pieces[number], memory[Chunk:]); err != nil {
			return false, err
		}
		if !allZero(bits) {
			return true, nil
		}
	}
	return false, nil
}

func sameChunk(a, b *Snapshot, d *Difference, from, to []Piece) (bool, error) {
	bounds := visible(from)
	if visible(to) != bounds {
		return false, nil
	}
	old, new := &from[0], &to[0]
	whole := len(from) == 1 && len(to) == 1 && old.isWhole() && new.isWhole()
	summed := a.volumes[old.File].header.Version == Version && b.volumes[new.File].header.Version == Version
	if whole && summed && old.Compression == new.Compression {
		switch {
		case old.Compression == Zeros:
			return true, nil
		case old.Compression == Uncompressed && old.CRC != new.CRC:
			return false, nil
		case d.Before.Version == d.After.Version && old.CRC == new.CRC && old.Stored == new.Stored:
			return true, nil
		}
	}
	oldMemory, newMemory := twoChunks(), twoChunks()
	defer chunks.Put(oldMemory)
	defer chunks.Put(newMemory)
	before, after := oldMemory[:bounds.Length], newMemory[:bounds.Length]
	if err := a.readPieces(before, bounds.Offset, d.ID, old.Kind, from, nil); err != nil {
		return false, err
	}
	if err := b.readPieces(after, bounds.Offset, d.ID, new.Kind, to, nil); err != nil {
		return false, err
	}
	return bytes.Equal(before, after), nil
}

// Ranges walks the ranges of a page's bytes that differ from a to b, in rising order. What only one of them has differs.
// Errors end the walk: NotFound where one has no such page, those of reading.
func Ranges(a, b *Snapshot, id uint64) iter.Seq2[Range, error] {
	return func(yield func(Range, error) bool) {
		if err := ranges(a, b, id, func(r Range) bool { return yield(r, nil) }); err != nil {
			yield(Range{}, err)
		}
	}
}

func ranges(a, b *Snapshot, id uint64, yield func(Range) bool) error {
	from, err := a.Extents(id)
	if err != nil {
		return err
	}
	to, err := b.Extents(id)
	if err != nil {
		return err
	}
	before, after := byChunk(ofKind(from, KindBytes)), byChunk(ofKind(to, KindBytes))
	oldMemory, newMemory := twoChunks(), twoChunks()
	defer chunks.Put(oldMemory)
	defer chunks.Put(newMemory)
	var open Range // found, but it may go on
	emit := func(offset, length uint64) bool {
		if open.Length > 0 && open.Offset+open.Length == offset {
			open.Length += length
			return true
		}
		done := open
		open = Range{offset, length}
		return done.Length == 0 || yield(done)
	}
	chunk := func(s *Snapshot, chunks [][]Piece, number int, memory *[2 * Chunk]byte) ([]byte, error) {
		if number >= len(chunks) {
			return nil, nil
		}
		bytes := memory[:visible(chunks[number]).Length]
		return bytes, s.readPieces(bytes, uint64(number)*Chunk, id, KindBytes, chunks[number], nil)
	}
	for number := range max(len(before), len(after)) {
		old, err := chunk(a, before, number, oldMemory)
		if err != nil {
			return err
		}
		new, err := chunk(b, after, number, newMemory)
		if err != nil {
			return err
		}
		if !differences(old, new, uint64(number)*Chunk, emit) {
			return nil
		}
	}
	if open.Length > 0 {
		yield(open)
	}
	return nil
}

// differences gives the ranges that differ, and that only one has.
func differences(old, new []byte, base uint64, emit func(offset, length uint64) bool) bool {
	common := min(len(old), len(new))
	for at := 0; at < common; {
		if bytes.Equal(old[at:common], new[at:common]) {
			break
		}
		for old[at] == new[at] {
			at++
		}
		start := at
		for at < common && old[at] != new[at] {
			at++
		}
		if !emit(base+uint64(start), uint64(at-start)) {
			return false
		}
	}
	if rest := max(len(old), len(new)) - common; rest > 0 {
		return emit(base+uint64(common), uint64(rest))
	}
	return true
}

// DiffEdges gives the dependencies, parent and child, that only one of two states has.
func DiffEdges(a, b *Snapshot) (added, removed [][2]uint64, err error) {
	left := map[[2]uint64]struct{}{}
	for pair, err := range a.Edges() {
		if err != nil {
			return nil, nil, err
		}
		left[pair] = struct{}{}
	}
	for pair, err := range b.Edges() {
		if err != nil {
			return nil, nil, err
		}
		if _, both := left[pair]; both {
			delete(left, pair)
		} else {
			added = append(added, pair)
		}
	}
	for pair := range a.Edges() {
		if _, only := left[pair]; only {
			removed = append(removed, pair)
		}
	}
	return added, removed, nil
}
