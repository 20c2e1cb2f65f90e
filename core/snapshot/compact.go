// One whole file of a chain.

package snapshot

import (
	"libmmsb/core/file"
)

// CompactOptions of Compact.
type CompactOptions struct {
	OpenOptions
	Replace  ReplaceOptions
	Progress Progress
}

// Compact writes the state of a file and its bases as one whole file with an id of its own, of the same time, lineage and
// position; of version 2 and 3 it makes version 4. The file appears whole or not at all, and may replace the one that is read or
// one of its bases. What was compressed stays so. Errors: Cancelled, those of Replace, those of reading and writing.
func Compact(from, to string, o CompactOptions) (Report, error) {
	s, err := Open(from, o.OpenOptions)
	if err != nil {
		return Report{}, err
	}
	defer func() { _ = s.Close() }()
	sink, err := Replace(o.fs(), to, o.Replace)
	if err != nil {
		return Report{}, err
	}
	report, err := s.CompactTo(sink, o.Progress)
	if err != nil {
		sink.Abort()
	}
	return report, err
}

// CompactTo writes the state into a sink and finishes it; after an error the sink is still to be aborted.
func (s *Snapshot) CompactTo(sink file.Sink, progress Progress) (Report, error) {
	header, totals := s.Header(), s.Totals()
	average := uint64(0)
	if totals.StatePages > 0 {
		average = totals.StateBytes / totals.StatePages
	}
	state := Header{Taken: header.Taken, Lineage: header.Lineage, Position: header.Position, Latest: header.Latest}
	w, err := NewWriter(sink, state, Options{AveragePageSize: average})
	if err != nil {
		return Report{}, err
	}
	c := compaction{s: s, w: w, total: totals.StateBytes}
	o := LoadOptions{Everything: true, read: func(uint64) error { return progress.report(c.done, c.total) }}
	if err := s.Segments(o, c.segment); err != nil {
		return Report{}, err
	}
	var pairs [][2]uint64
	for pair, err := range s.Edges() {
		if err != nil {
			return Report{}, err
		}
		if pairs = append(pairs, pair); len(pairs) == (SegmentBytes-segmentHeader)/edgeBytes {
			if err := w.Edges(pairs); err != nil {
				return Report{}, err
			}
			pairs = pairs[:0]
		}
	}
	if err := w.Edges(pairs); err != nil {
		return Report{}, err
	}
	return w.Finish(totals.StatePages, totals.StateBytes)
}

// compaction copies extents as they are stored.
type compaction struct {
	s           *Snapshot
	w           *Writer
	done, total uint64
	last        uint64 // page that was copied from its own file, and can go on
}

func (c *compaction) segment(loaded Loaded) error {
	for entry := range loaded.Pages {
		page := &loaded.Pages[entry]
		switch {
		case page.Flags&FlagKnown != 0 && page.ID != c.last:
			continue // it was put together when it came first
		case page.Flags&FlagKnown == 0 && page.Flags&FlagChanges != 0:
			c.last = 0
			if err := c.together(page.ID); err != nil {
				return err
			}
			continue
		}
		c.last = page.ID
		for _, extent := range loaded.ExtentsOf(page) {
			if err := c.add(page, extent, loaded.Bytes[extent.At:][:extent.Stored]); err != nil {
				return err
			}
		}
	}
	return nil
}

// together copies a page that lies in several files.
func (c *compaction) together(id uint64) error {
	page, pieces, err := c.s.pieces(id)
	if err != nil {
		return err
	}
	memory := twoChunks()
	defer chunks.Put(memory)
	bytes := ofKind(pieces, KindBytes)
	for _, group := range byChunk(bytes) {
		if len(group) == 1 && group[0].isWhole() {
			err = c.copy(&page, &group[0], memory[:group[0].Stored])
		} else {
			err = c.compose(&page, group, memory[:])
		}
		if err != nil {
			return err
		}
	}
	for number := range pieces[len(bytes):] {
		piece := &pieces[len(bytes)+number]
		if err := c.copy(&page, piece, memory[:piece.Stored]); err != nil {
			return err
		}
	}
	return nil
}

// copy copies an extent as it is stored.
func (c *compaction) copy(page *Page, piece *Piece, stored []byte) error {
	v := c.s.volumes[piece.File]
	if err := read(v.name, v.source, stored, piece.FileOffset); err != nil {
		return err
	}
	if err := v.checkStored(page.ID, &piece.Extent, stored, piece.base); err != nil {
		return err
	}
	return c.add(page, piece.Extent, stored)
}

// compose writes a chunk of which several files have a part: compressed where one of them has it so.
func (c *compaction) compose(page *Page, group []Piece, memory []byte) error {
	bounds, compression := visible(group), Uncompressed
	for number := range group {
		if group[number].Compression != Uncompressed {
			compression = Zstd
		}
	}
	chunk := memory[:bounds.Length]
	if err := c.s.readPieces(chunk, bounds.Offset, page.ID, KindBytes, group, nil); err != nil {
		return err
	}
	c.done += bounds.Length
	return c.w.Add(page.ofState(), KindBytes, bounds.Offset, chunk, compression)
}

func (c *compaction) add(page *Page, extent Extent, stored []byte) error {
	if extent.Kind == KindBytes {
		c.done += uint64(extent.Length)
	}
	entry := page.ofState()
	return c.w.addStored(&entry, extent, stored)
}
