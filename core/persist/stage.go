package persist

import (
	"slices"

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
		if entry.Flags&snapshot.FlagKnown == 0 {
			l.due += entry.Size
			l.comesFrom(indices[i], segment.File)
		}
		extents := segment.ExtentsOf(entry)
		for at := range extents {
			extent := &extents[at]
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

// inNoFile is saved.changedIn of pages that come to another place than they had.
const inNoFile = -1

// isMoved says whether a page comes to another place than it had.
func (l *loader) isMoved(entry *snapshot.Page) bool {
	if entry.Location == abi.LocationCPU {
		return false
	}
	to, err := l.placement(entry)
	return err == nil && to != residency.Placement{Location: entry.Location, Device: entry.Device}
}

// comesFrom notes that a page has changed since the oldest file of the chain, and last in this one.
func (l *loader) comesFrom(index uint32, file int) {
	if file < l.file.Files()-1 && l.changedIn[index] != inNoFile {
		l.changedIn[index] = file
	}
}

// stage takes frames for those pages that come for the first time, and says which records all of them have.
func (l *loader) stage(entries []snapshot.Page) (indices []uint32, err error) {
	indices = make([]uint32, len(entries))
	for i := 0; i < len(entries); {
		entry, count := &entries[i], 1
		switch {
		case entry.Flags&snapshot.FlagKnown != 0:
			handle, _ := l.Handles.Find(entry.ID)
			indices[i] = native.Index(handle)
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
	if l.o.ToHost && entry.Location != abi.LocationDisk {
		return residency.Placement{Location: abi.LocationCPU}, nil
	}
	to, err := l.residency.Resolve(entry.Location, entry.Device)
	return to, namesPage(err, entry.ID, entry.Device)
}

// namesPage is an error of a page that is to lie on a device: where there is none, with which one it is, and what helps.
func namesPage(err error, id uint64, device int32) error {
	if status.CodeOf(err) != status.NoDevice {
		return err
	}
	return status.Errorf(status.NoDevice, "page %d lies on device %d: %s; with fallback host such pages come to the host", id,
		device, status.Of(err).Text)
}

// add stages pages on frames like one.
func (l *loader) add(entries []snapshot.Page, indices []uint32, like residency.Frame, node int32) error {
	staged := slices.Grow(l.staged[:0], len(entries))[:len(entries)]
	l.staged = staged
	for i := range entries {
		entry := &entries[i]
		staged[i] = native.Staged{ID: entry.ID, Size: entry.Size, Epoch: entry.Epoch, Version: entry.Version, Index: indices[i]}
		if l.isMoved(entry) {
			staged[i].Changed, l.changedIn[indices[i]] = 1, inNoFile
		}
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

// readNow stands for the record of a page whose bytes a lazy load reads at once.
const readNow = ^uint64(0)

// stageLazy stages large pages, or all where they are loaded in place, whose bytes stay in the file until a call needs them. rest
// selects the pages to read now; nil: there are none.
func (l *loader) stageLazy(want func(id uint64) bool) (rest func(id uint64) bool, err error) {
	l.source = residency.NewSource(reader{l.file})
	l.residency.ExpectWaiting(min(l.expected(), 1<<20)) // of many pages most are small, which do not wait
	found, pages := native.NewByID(l.expected()), 0     // records by id
	some := false                                       // pages are to be read now
	how := snapshot.LoadOptions{Want: want, TablesOnly: true, DistinctLater: want == nil, GoesOn: l.asked}
	err = l.file.Segments(how, func(segment snapshot.Loaded) error {
		for i := 0; i < len(segment.Pages); {
			entry, first, count := &segment.Pages[i], len(l.Pages), 1
			if entry.Flags&snapshot.FlagKnown != 0 { // wherever it lay then
				if index, ok := found.Find(entry.ID); ok && index != readNow {
					l.noteTables(entry, uint32(index), nil, segment.ExtentsOf(entry))
				}
				i++
				continue
			}
			waits := l.waits(entry)
			if waits {
				for i+count < len(segment.Pages) && l.waitsLike(entry, &segment.Pages[i+count]) {
					count++
				}
				if err := l.stageWaiting(segment.Pages[i:][:count]); err != nil {
					return err
				}
			}
			some = some || !waits
			for ; count > 0; count-- {
				entry, index := &segment.Pages[i], readNow
				i++
				if waits {
					staged := &l.Pages[first]
					first++
					index = uint64(staged.Index)
					l.comesFrom(staged.Index, segment.File)
					l.noteTables(entry, staged.Index, staged, segment.ExtentsOf(entry))
				}
				pages++
				if found.Put(entry.ID, index); found.Len() != pages {
					return status.Errorf(status.Corrupt, "page %d is there twice", entry.ID)
				}
			}
		}
		return l.goesOn(l.work, l.done)
	})
	if !some {
		return nil, err
	}
	return func(id uint64) bool { index, _ := found.Find(id); return index == readNow }, err
}

// reader is a snapshot that pages wait in.
type reader struct{ *snapshot.Snapshot }

// ReadPage is residency.Reader's.
func (r reader) ReadPage(id uint64, to []byte) error { return r.ReadAt(id, snapshot.KindBytes, to, 0) }

// waits says whether a page's bytes stay in the file until a call needs them.
func (l *loader) waits(entry *snapshot.Page) bool {
	return (entry.Size > native.SmallMax || l.o.InPlace) && entry.Location != abi.LocationDisk
}

// waitsLike says whether a page comes for the first time, and waits to lie where another is to lie.
func (l *loader) waitsLike(other, entry *snapshot.Page) bool {
	return l.waits(entry) && entry.Flags&snapshot.FlagKnown == 0 && entry.Location == other.Location &&
		entry.Device == other.Device
}

// stageWaiting stages pages that are to lie at one place, and come for the first time.
func (l *loader) stageWaiting(entries []snapshot.Page) error {
	to, err := l.placement(&entries[0])
	if err != nil {
		return err
	}
	for i := range entries {
		if err := memory.CheckSize(entries[i].Size); err != nil {
			return err
		}
	}
	indices := make([]uint32, len(entries))
	like, err := l.residency.TakeWaiting(to, l.source, indices)
	if err != nil {
		return err
	}
	return l.add(entries, indices, like, -1) // memory comes later, from any node
}

// noteTables notes what the tables say of a page that waits: checksums as far as they have them, and what is beside its bytes.
func (l *loader) noteTables(entry *snapshot.Page, index uint32, staged *native.Staged, extents []snapshot.Extent) {
	for i := range extents {
		extent := &extents[i]
		switch {
		case extent.Kind != snapshot.KindBytes:
			l.postpone(entry, index, extent)
		case extent.Compression == snapshot.Uncompressed:
			l.noteSum(entry, index, staged, extent, extent.CRC)
		}
	}
}

// noteSum notes the checksum of a chunk of a page's bytes. staged is nil where the page came before. What is not known is saved
// when in doubt.
func (l *loader) noteSum(entry *snapshot.Page, index uint32, staged *native.Staged, extent *snapshot.Extent, sum uint32) {
	switch sums := l.sums[index]; {
	case !isChunk(entry, extent):
	case sums != nil:
		sums[extent.Offset/native.ChunkBytes] = sum
	case staged != nil:
		staged.CRC = sum
	}
}

// postponed is a mask or a metadata blob of a staged page that is read when all pages are staged.
type postponed struct {
	entry snapshot.Page
	index uint32
	kind  uint32
}

// postpone takes note of a part of a page's mask or metadata, of which all parts are read together.
func (l *loader) postpone(entry *snapshot.Page, index uint32, extent *snapshot.Extent) {
	if extent.Offset == 0 {
		l.postponed = append(l.postponed, postponed{*entry, index, extent.Kind})
	}
}

// complete reads what was postponed, and looks whether all came that was counted: bytes of a page that did not come would be
// those of pages that have ended.
func (l *loader) complete() error {
	for i := range l.postponed {
		if err := l.goesOn(l.work, l.done); err != nil {
			return err
		}
		if err := l.readPostponed(&l.postponed[i]); err != nil {
			return err
		}
	}
	if pages := l.file.Totals().StatePages; l.o.IDs == nil && uint64(len(l.Pages)) != pages {
		return status.Errorf(status.Corrupt, "%d pages have %d different ids", pages, len(l.Pages))
	}
	if l.done != l.due {
		return status.Errorf(status.Internal, "%d bytes of pages came, their sizes add up to %d", l.done, l.due)
	}
	return nil
}

func (l *loader) readPostponed(p *postponed) error {
	if p.kind == snapshot.KindMetadata {
		return l.file.ReadMetadata(p.entry.ID, l.asked, func(length uint64) ([]byte, error) {
			return l.Page(p.index).MakeMetadata(p.entry.MetadataCount, length)
		})
	}
	mask, err := l.maskOf(p.index, p.entry.Size)
	if err == nil {
		err = l.file.ReadAt(p.entry.ID, snapshot.KindMask, mask, 0)
	}
	return err
}

// beside takes a part of a page's mask or metadata.
func (l *loader) beside(entry *snapshot.Page, index uint32, extent *snapshot.Extent, bytes []byte) error {
	if extent.Kind == snapshot.KindMetadata && (extent.Offset > 0 || extent.Length == snapshot.Chunk) { // perhaps one of several
		l.postpone(entry, index, extent)
		return nil
	}
	content := bytes[extent.At:][:extent.Stored]
	if extent.Compression != snapshot.Uncompressed {
		content = make([]byte, extent.Length)
		if err := decompress(entry, extent, content, bytes[extent.At:][:extent.Stored]); err != nil {
			return err
		}
	}
	if extent.Kind == snapshot.KindMetadata {
		return l.metadata(entry, index, content)
	}
	mask, err := l.maskOf(index, entry.Size)
	if err == nil {
		copy(mask[extent.Offset:], content)
	}
	return err
}

// metadata gives a staged page its blob.
func (l *loader) metadata(entry *snapshot.Page, index uint32, blob []byte) error {
	count, err := metadata.Validate(blob)
	switch {
	case err != nil:
		return status.Errorf(status.Corrupt, "page %d: %v", entry.ID, err)
	case uint32(count) != entry.MetadataCount:
		return status.Errorf(status.Corrupt, "page %d: %d metadata keys, its entry says %d", entry.ID, count, entry.MetadataCount)
	}
	return l.Page(index).StoreMetadata(blob, nil)
}

// maskOf is the mask of a staged page of a size.
func (l *loader) maskOf(index uint32, size uint64) ([]byte, error) {
	p := l.Page(index)
	p.Record.Size = size // which the mask's length follows from
	err := p.MakeMask()
	return p.Mask(), err
}
