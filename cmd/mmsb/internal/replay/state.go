// Package replay applies a journal's records to a snapshot's pages by the rules of docs/journal-format.md, in Go alone: no
// library is loaded, and nothing of the snapshot is in memory but what the records change.
package replay

import (
	"bytes"
	"maps"
	"math"
	"slices"

	"libmmsb/core/file"
	"libmmsb/core/journal"
	"libmmsb/core/metadata"
	"libmmsb/core/snapshot"
	"libmmsb/core/status"
)

// State is a snapshot's state with records applied.
type State struct {
	base   *snapshot.Snapshot
	latest uint64           // it may have steps up to this one
	pages  map[uint64]*page // those that records touched; nil: they are no more
	edges  edges
	// unknown is pages that do not exist, by id, with the first record that needs them. Between its position and its moment a
	// snapshot may have the end of a page; then a later record ends it.
	unknown map[uint64]uint64
}

// page is one that a record has touched.
type page struct {
	entry       snapshot.Page
	bytes, mask content
	hasMask     bool
	// ofBase says that it is the base's page still, of the same size: only what changed is written.
	ofBase bool
	// unrecorded says that no record has its version.
	unrecorded bool
	// doubtful is a clone of a page that is newer in the snapshot: what it copied was written through pointers behind the moment,
	// or the clone had ended by then. A record that cannot be applied to it says that it had.
	doubtful bool
	// metadata is known when it was asked for; before, it is that of the page of the base with the id metadataOf.
	metadata   []byte
	metadataOf uint64
}

// New begins with what a snapshot of version 3 holds, which stays open as long as the State is used.
func New(base *snapshot.Snapshot) (*State, error) {
	s := &State{base: base, latest: base.Header().Latest, pages: make(map[uint64]*page), unknown: make(map[uint64]uint64)}
	for edge, err := range base.Edges() {
		if err != nil {
			return nil, err
		}
		s.edges.add(edge)
	}
	return s, nil
}

// find is a page, nil where there is none.
func (s *State) find(id uint64) (*page, error) {
	if known, touched := s.pages[id]; touched {
		return known, nil
	}
	entry, err := s.base.Find(id)
	if status.CodeOf(err) == status.NotFound {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	p := &page{entry: entry, ofBase: true, unrecorded: true, metadataOf: id}
	p.bytes = content{size: entry.Size, floor: entry.Size, below: s.below(id, snapshot.KindBytes)}
	if p.hasMask, err = s.base.HasMask(id); err != nil {
		return nil, err
	}
	length := maskLength(entry.Size)
	p.mask = content{size: length, floor: length, below: s.below(id, snapshot.KindMask)}
	s.pages[id] = p
	return p, nil
}

func (s *State) below(id uint64, kind uint32) func([]byte, uint64) error {
	return func(into []byte, offset uint64) error { return s.base.ReadAt(id, kind, into, offset) }
}

func maskLength(size uint64) uint64 { return (size-1)/8 + 1 }

// Apply does what a record says. After an error the State is of no more use. Errors: Corrupt (the record cannot be applied to
// the page), Mismatch (journal and snapshot do not belong together), those of reading the snapshot.
func (s *State) Apply(r *journal.Record) error {
	p, err := s.find(r.Page)
	if err != nil {
		return err
	}
	switch r.Kind {
	case journal.Create, journal.Adopt, journal.Clone:
		if p != nil {
			return nil
		}
		s.edges.removePage(r.Page) // edges of a page that is not in the state are ignored, also when there is one later
		if r.Kind == journal.Clone {
			return s.clone(r)
		}
		return s.create(r)
	case journal.Destroy:
		delete(s.unknown, r.Page)
		if p != nil {
			s.pages[r.Page] = nil
			s.edges.removePage(r.Page)
		}
		return nil
	}
	if p == nil {
		s.misses(r.Page, r)
		return nil
	}
	if r.Kind == journal.DependencyAdd || r.Kind == journal.DependencyRemove {
		return s.depend(r)
	}
	own := r.Version
	follows, err := r.Follows(p.entry.Version, s.latest)
	if err != nil || !follows {
		return err
	}
	p.unrecorded = r.Version != own
	switch r.Kind {
	case journal.MaskClear:
		p.clearMask()
	case journal.MetadataSet, journal.MetadataRemove, journal.MetadataImport:
		err = s.changeMetadata(p, r)
	default:
		err = p.change(r)
	}
	switch {
	case err == nil:
		p.entry.Version, p.entry.Epoch = r.Version, r.Epoch
	case p.doubtful && status.CodeOf(err) == status.Corrupt:
		s.pages[r.Page] = nil
		s.edges.removePage(r.Page)
		s.misses(r.Page, r)
		return nil
	}
	return err
}

// misses notes a page that a record needs.
func (s *State) misses(id uint64, r *journal.Record) {
	if _, noted := s.unknown[id]; !noted {
		s.unknown[id] = r.Sequence
	}
}

// AllKnown says whether all pages were there that records need. Errors: Mismatch.
func (s *State) AllKnown(directory string) error {
	for _, id := range slices.Sorted(maps.Keys(s.unknown)) {
		return status.Errorf(status.Mismatch, "record %d of the journal %q changes page %d, which the state does not have",
			s.unknown[id], directory, id)
	}
	return nil
}

func invalid(r *journal.Record, format string, args ...any) error {
	args = append([]any{r.Sequence, r.Kind, r.Page}, args...)
	return status.Errorf(status.Corrupt, "record %d (%v of page %d) "+format, args...)
}

func (s *State) create(r *journal.Record) error {
	p := &page{bytes: content{size: r.Size}, mask: content{size: maskLength(r.Size)}}
	p.entry = snapshot.Page{ID: r.Page, Size: r.Size, Epoch: r.Epoch, Version: r.Version}
	p.locate(r)
	if r.State&1 != 0 {
		p.entry.Flags |= snapshot.FlagAdopted
	}
	if r.State&2 != 0 {
		p.entry.Flags |= snapshot.FlagReadOnly
	}
	s.pages[r.Page] = p
	return p.bytes.write(0, r.Bytes)
}

func (s *State) clone(r *journal.Record) error {
	of, err := s.find(r.Other)
	if err != nil {
		return err
	}
	newer := of != nil && of.entry.Version > r.OtherVersion
	if of == nil || newer && r.Sequence > s.latest && !of.unrecorded {
		s.misses(r.Page, r)
		return nil
	}
	p := *of
	p.doubtful = newer && r.Sequence <= s.latest
	p.ofBase, p.unrecorded = false, false
	p.bytes, p.mask = of.bytes.clone(), of.mask.clone()
	p.entry.ID, p.entry.Version, p.entry.Epoch = r.Page, r.Version, r.Epoch
	p.entry.Flags &^= snapshot.FlagAdopted | snapshot.FlagReadOnly
	s.pages[r.Page] = &p
	return nil
}

func (s *State) depend(r *journal.Record) error {
	child, err := s.find(r.Other)
	if err != nil {
		return err
	}
	if child == nil {
		s.misses(r.Other, r)
		return nil
	}
	edge := [2]uint64{r.Page, r.Other}
	if r.Kind == journal.DependencyRemove {
		s.edges.remove(edge)
	} else {
		s.edges.add(edge)
	}
	return nil
}

// metadataBlob is a page's.
func (s *State) metadataBlob(p *page) ([]byte, error) {
	if p.metadataOf != 0 {
		blob, err := s.base.Metadata(p.metadataOf)
		if err != nil {
			return nil, err
		}
		p.metadata, p.metadataOf = blob, 0
	}
	return p.metadata, nil
}

func (s *State) changeMetadata(p *page, r *journal.Record) error {
	blob, err := s.metadataBlob(p)
	if err != nil {
		return err
	}
	blob, changed, err := r.ChangeMetadata(blob)
	if err != nil {
		return invalid(r, "cannot be applied: %s", status.Of(err).Text)
	}
	if !changed {
		return nil
	}
	if r.Kind == journal.MetadataImport {
		blob = bytes.Clone(blob) // the record's memory is the reader's
	}
	if p.entry.MetadataCount = uint32(metadata.Count(blob)); p.entry.MetadataCount == 0 {
		blob = nil
	}
	p.metadata = blob
	return nil
}

func (p *page) clearMask() {
	p.hasMask = false
	p.mask = content{size: p.mask.size}
}

// locate takes the location that a record names.
func (p *page) locate(r *journal.Record) {
	p.entry.Location, p.entry.Device, p.entry.NUMANode = r.Location, r.Device, r.NUMANode
}

// change is of the kinds whose effect is that of their version.
func (p *page) change(r *journal.Record) error {
	switch r.Kind {
	case journal.Resize:
		return p.resize(r)
	case journal.Migrate:
		p.entry.Flags &^= snapshot.FlagAdopted | snapshot.FlagReadOnly
		p.locate(r)
		return nil
	}
	if r.MaskLength > p.entry.Size {
		return invalid(r, "has a mask for %d bytes, more than the page's %d", r.MaskLength, p.entry.Size)
	}
	setsMask := r.Kind != journal.Write
	p.hasMask = p.hasMask || setsMask
	return runs(r, func(offset uint64, bytes []byte) error {
		length := uint64(len(bytes))
		if length > p.entry.Size || offset > p.entry.Size-length {
			return invalid(r, "changes %d bytes at offset %d of a page of %d bytes", length, offset, p.entry.Size)
		}
		if err := p.bytes.write(offset, bytes); err != nil || !setsMask {
			return err
		}
		return p.mask.mark(offset, length)
	})
}

func (p *page) resize(r *journal.Record) error {
	p.ofBase = p.ofBase && r.Size == p.entry.Size
	p.bytes.resize(r.Size)
	p.mask.resize(maskLength(r.Size))
	p.entry.Size = r.Size
	if bits := r.Size % 8; bits != 0 && p.hasMask { // none behind the page's end
		last := (p.mask.size - 1) / snapshot.Chunk
		chunk, err := p.mask.change(last)
		if err != nil {
			return err
		}
		chunk[len(chunk)-1] &= 1<<bits - 1
	}
	return nil
}

// WriteChanges writes what is not as in the base, as a snapshot that is based on it under the name given, and is that of the
// header in all else. It ends the use of the State. The sink is to be aborted after an error.
func (s *State) WriteChanges(sink file.Sink, header snapshot.Header, baseName string, compression snapshot.Compression) error {
	header.Base, header.BaseName = s.base.Header().ID, baseName
	w, err := snapshot.NewWriter(sink, header, snapshot.Options{})
	if err != nil {
		return err
	}
	totals := s.base.Totals()
	pages, size := totals.StatePages, totals.StateBytes
	var removed []uint64
	memory := make([]byte, snapshot.Chunk)
	for _, id := range slices.Sorted(maps.Keys(s.pages)) {
		p := s.pages[id]
		before, err := s.base.Find(id)
		switch {
		case err == nil:
			pages--
			size -= before.Size
			if p == nil {
				removed = append(removed, id)
			}
		case status.CodeOf(err) != status.NotFound:
			return err
		}
		if p == nil {
			continue
		}
		pages++
		if size += p.entry.Size; size > math.MaxInt64 {
			return status.Errorf(status.Corrupt, "page sizes up to page %d add up to more than 2^63-1", id)
		}
		if err := s.writePage(w, p, memory, compression); err != nil {
			return err
		}
		delete(s.pages, id)
	}
	if err := w.Removed(removed); err != nil {
		return err
	}
	pairs := s.edges.all()
	if err := snapshot.CheckEdges("the replayed state", pairs); err != nil {
		return err
	}
	if err := w.Edges(pairs); err != nil {
		return err
	}
	_, err = w.Finish(pages, size)
	return err
}

func (s *State) writePage(w *snapshot.Writer, p *page, memory []byte, compression snapshot.Compression) error {
	blob, err := s.metadataBlob(p)
	if err != nil {
		return err
	}
	if p.ofBase {
		p.entry.Flags |= snapshot.FlagChanges
		for _, number := range slices.Sorted(maps.Keys(p.bytes.chunks)) {
			if err := w.Add(p.entry, snapshot.KindBytes, number*snapshot.Chunk, p.bytes.chunks[number], compression); err != nil {
				return err
			}
		}
		if err := w.Add(p.entry, snapshot.KindBytes, 0, nil, compression); err != nil { // also where no byte changed
			return err
		}
	} else if err := writeAll(w, p, snapshot.KindBytes, &p.bytes, memory, compression); err != nil {
		return err
	}
	if p.hasMask {
		if err := writeAll(w, p, snapshot.KindMask, &p.mask, memory, compression); err != nil {
			return err
		}
	}
	if len(blob) == 0 {
		return nil
	}
	return w.Add(p.entry, snapshot.KindMetadata, 0, blob, compression)
}

func writeAll(w *snapshot.Writer, p *page, kind uint32, c *content, memory []byte, compression snapshot.Compression) error {
	for number := range (c.size-1)/snapshot.Chunk + 1 {
		chunk, err := c.read(number, memory)
		if err != nil {
			return err
		}
		if err := w.Add(p.entry, kind, number*snapshot.Chunk, chunk, compression); err != nil {
			return err
		}
	}
	return nil
}
