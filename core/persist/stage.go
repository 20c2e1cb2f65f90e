package persist

import (
	"libmmsb/core/abi"
	"libmmsb/core/memory"
	"libmmsb/core/metadata"
	"libmmsb/core/residency"
	"libmmsb/core/snapshot"
	"libmmsb/core/status"
	"libmmsb/native"
)

// Staging what a snapshot has: frames for its pages, and what belongs to them beside their bytes.

// segment stages the pages in a segment, and gives them all but their bytes, which fill puts there.
func (l *loader) segment(segment snapshot.Loaded) (fill func() error, err error) {
	if err := l.goesOn(l.work, l.done); err != nil {
		return nil, err
	}
	first := len(l.Pages)
	indices, err := l.stage(segment.Pages)
	if err != nil {
		return nil, err
	}
	for i := range segment.Pages {
		entry := &segment.Pages[i]
		for at := range segment.Extents[entry.FirstExtent:][:entry.Extents] {
			extent := &segment.Extents[entry.FirstExtent:][at]
			if extent.Kind == snapshot.KindBytes {
				l.done += uint64(extent.Length)
			} else if err := l.beside(entry, indices[i], extent, segment.Bytes); err != nil {
				return nil, err
			}
		}
	}
	if l.work != nil {
		l.work.Progress(l.done)
	}
	return func() error { return l.fill(segment, indices, first) }, nil
}

// stage takes frames for those pages that come for the first time, and says which records all of them have.
func (l *loader) stage(entries []snapshot.Page) (indices []uint32, err error) {
	indices = make([]uint32, len(entries))
	for i := 0; i < len(entries); {
		entry, count := &entries[i], 1
		switch {
		case entry.Flags&snapshot.FlagKnown != 0:
			indices[i] = native.Index(l.Handles[entry.ID])
		case isSmall(entry):
			for i+count < len(entries) && isSmall(&entries[i+count]) && entries[i+count].Size == entry.Size {
				count++
			}
			err = l.stageSmall(entries[i:][:count], indices[i:])
		default:
			indices[i], err = l.stageOne(entry)
		}
		if err != nil {
			return nil, err
		}
		i += count
	}
	return indices, nil
}

// isSmall tells a page that comes for the first time and goes into small memory.
func isSmall(entry *snapshot.Page) bool {
	return entry.Flags&snapshot.FlagKnown == 0 && entry.Size-1 < native.SmallMax && entry.Location == abi.LocationCPU &&
		entry.Device == 0 && entry.NUMANode < 0
}

// stageSmall takes memory for small pages of one size. Every byte of it comes from the file.
func (l *loader) stageSmall(entries []snapshot.Page, indices []uint32) error {
	indices = indices[:len(entries)]
	if err := l.context.Memory().TakeSmall(entries[0].Size, false, indices); err != nil {
		return err
	}
	return l.add(entries, indices, residency.Frame{}, -1)
}

// stageOne takes a frame for a page.
func (l *loader) stageOne(entry *snapshot.Page) (uint32, error) {
	to, err := l.placement(entry)
	if err != nil {
		return 0, err
	}
	node := entry.NUMANode
	f, err := l.residency.Take(to, entry.Size, node, false) // every byte comes from the file
	if err != nil && node >= 0 {                            // this machine may have no such node
		node = -1
		f, err = l.residency.Take(to, entry.Size, node, false)
	}
	if err != nil {
		return 0, err
	}
	return f.Index, l.add([]snapshot.Page{*entry}, []uint32{f.Index}, f, node)
}

func (l *loader) placement(entry *snapshot.Page) (residency.Placement, error) {
	if err := memory.CheckSize(entry.Size); err != nil {
		return residency.Placement{}, err
	}
	return l.residency.Resolve(entry.Location, entry.Device)
}

// add stages pages on frames like one.
func (l *loader) add(entries []snapshot.Page, indices []uint32, like residency.Frame, node int32) error {
	staged := make([]native.Staged, len(entries))
	for i := range entries {
		entry := &entries[i]
		staged[i] = native.Staged{ID: entry.ID, Size: entry.Size, Epoch: entry.Epoch, Version: entry.Version, Index: indices[i]}
	}
	l.filling.Lock()
	defer l.filling.Unlock()
	for i := range entries {
		if size := entries[i].Size; size > native.ChunkBytes {
			l.sums[indices[i]] = make([]uint32, (size+native.ChunkBytes-1)/native.ChunkBytes)
		}
	}
	return l.Add(staged, like, node)
}

// stageLazy stages large pages, whose bytes stay in the file until a call needs them. rest selects the pages to read now.
func (l *loader) stageLazy(want func(id uint64) bool) (rest func(id uint64) bool, err error) {
	l.source = residency.NewSource(reader{l.file})
	err = l.file.Segments(snapshot.LoadOptions{Want: want, TablesOnly: true}, func(segment snapshot.Loaded) error {
		for i := range segment.Pages {
			entry := &segment.Pages[i]
			if entry.Size <= native.SmallMax || entry.Location == abi.LocationDisk {
				continue
			}
			if entry.Flags&snapshot.FlagKnown == 0 {
				if err := l.stageOneLazy(entry); err != nil {
					return err
				}
			}
			l.noteSums(entry, segment.Extents[entry.FirstExtent:][:entry.Extents])
		}
		return l.goesOn(l.work, l.done)
	})
	if err != nil {
		return nil, err
	}
	for i := range l.Pages {
		if err := l.readBeside(&l.Pages[i]); err != nil {
			return nil, err
		}
	}
	return func(id uint64) bool {
		_, staged := l.Handles[id]
		return !staged && (want == nil || want(id))
	}, nil
}

// reader is a snapshot that pages wait in.
type reader struct{ *snapshot.Snapshot }

// ReadPage is residency.Reader's.
func (r reader) ReadPage(id uint64, to []byte) error { return r.ReadAt(id, snapshot.KindBytes, to, 0) }

func (l *loader) stageOneLazy(entry *snapshot.Page) error {
	to, err := l.placement(entry)
	if err != nil {
		return err
	}
	f, err := l.residency.TakeWaiting(to, l.source)
	if err != nil {
		return err
	}
	return l.add([]snapshot.Page{*entry}, []uint32{f.Index}, f, -1) // memory comes later, from any node
}

// noteSums notes checksums of a page's chunks, as far as the file has them. A chunk that is not known is saved when in doubt.
func (l *loader) noteSums(entry *snapshot.Page, extents []snapshot.Extent) {
	index := native.Index(l.Handles[entry.ID])
	for i := range extents {
		extent := &extents[i]
		switch sums := l.sums[index]; {
		case extent.Kind != snapshot.KindBytes || extent.Compression != snapshot.Uncompressed:
		case sums != nil && isChunk(entry, extent):
			sums[extent.Offset/native.ChunkBytes] = extent.CRC
		case sums == nil && entry.Flags&snapshot.FlagKnown == 0:
			l.Pages[len(l.Pages)-1].CRC = extent.CRC
		}
	}
}

// readBeside reads what belongs to a lazy page beside its bytes.
func (l *loader) readBeside(s *native.Staged) error {
	has, err := l.file.HasMask(s.ID)
	if err != nil {
		return err
	}
	if has {
		mask, err := l.maskOf(s.Index, s.Size)
		if err == nil {
			err = l.file.ReadAt(s.ID, snapshot.KindMask, mask, 0)
		}
		if err != nil {
			return err
		}
	}
	blob, err := l.file.Metadata(s.ID)
	if err == nil && len(blob) > 0 {
		_, err = l.storeMetadata(s.ID, s.Index, blob)
	}
	return err
}

// storeMetadata gives a staged page its blob, and says how many keys that has.
func (l *loader) storeMetadata(id uint64, index uint32, blob []byte) (count uint32, err error) {
	keys, err := metadata.Validate(blob)
	if err != nil {
		return 0, status.Errorf(status.Corrupt, "page %d: %v", id, err)
	}
	return uint32(keys), l.Page(index).StoreMetadata(blob, nil)
}

// beside takes a part of a page's mask or metadata.
func (l *loader) beside(entry *snapshot.Page, index uint32, extent *snapshot.Extent, bytes []byte) error {
	content := bytes[extent.At:][:extent.Stored]
	if extent.Compression != snapshot.Uncompressed {
		content = make([]byte, extent.Length)
		if err := decompress(entry, extent, content, bytes[extent.At:][:extent.Stored]); err != nil {
			return err
		}
	}
	if extent.Kind == snapshot.KindMetadata {
		return l.metadata(entry, index, extent, content)
	}
	mask, err := l.maskOf(index, entry.Size)
	if err == nil {
		copy(mask[extent.Offset:], content)
	}
	return err
}

// metadata collects a page's blob and takes it when it is whole.
func (l *loader) metadata(entry *snapshot.Page, index uint32, extent *snapshot.Extent, content []byte) error {
	blob := content
	// perhaps one part of several
	if entry.Flags&snapshot.FlagKnown != 0 || extent.Offset > 0 || extent.Length == snapshot.Chunk {
		var err error
		if blob, err = l.file.Metadata(entry.ID); err != nil {
			return err
		}
	}
	count, err := l.storeMetadata(entry.ID, index, blob)
	if err == nil && count != entry.MetadataCount {
		err = status.Errorf(status.Corrupt, "page %d: %d metadata keys, its entry says %d", entry.ID, count, entry.MetadataCount)
	}
	return err
}

// maskOf is the mask of a staged page of a size.
func (l *loader) maskOf(index uint32, size uint64) ([]byte, error) {
	p := l.Page(index)
	p.Record.Size = size // which the mask's length follows from
	err := p.MakeMask()
	return p.Mask(), err
}
