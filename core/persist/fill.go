package persist

import (
	"libmmsb/core/residency"
	"libmmsb/core/snapshot"
	"libmmsb/core/status"
	"libmmsb/native"
)

// Filling staged pages with the bytes that a snapshot has, several segments at a time.

// fill puts a segment's bytes into its pages, of which first is the first one that was staged. Several segments are filled at a
// time.
func (l *loader) fill(segment snapshot.Loaded, indices []uint32, first int) error {
	sums := make([]uint32, len(segment.Extents))
	parts, numbers := make([]native.Stored, 0, len(segment.Extents)), make([]uint32, 0, len(segment.Extents))
	for i := range segment.Pages {
		entry, index := &segment.Pages[i], indices[i]
		resident := native.RecordAt(index).LoadState()&native.Nonresident == 0
		for at := entry.FirstExtent; at < entry.FirstExtent+entry.Extents; at++ {
			extent := &segment.Extents[at]
			switch {
			case extent.Kind != snapshot.KindBytes:
			case resident && extent.Compression == snapshot.Uncompressed:
				sums[at], numbers = extent.CRC, append(numbers, at)
				parts = append(parts, native.Stored{
					Offset: extent.Offset, Index: index, At: extent.At, Length: extent.Length, CRC: extent.CRC,
				})
			default:
				var err error
				if sums[at], err = l.fillPart(&segment, entry, index, extent); err != nil {
					return err
				}
			}
		}
	}
	if bad := native.FillFrames(parts, segment.Bytes, segment.SumsLater); bad < len(parts) {
		return damaged(&segment, parts[bad], numbers[bad])
	}
	l.filling.Lock()
	defer l.filling.Unlock()
	for i := range segment.Pages {
		entry := &segment.Pages[i]
		var staged *native.Staged // nil: the page came before; its sum is not known, and it is saved if in doubt
		if entry.Flags&snapshot.FlagKnown == 0 {
			staged = &l.Pages[first]
			first++
		}
		for at := entry.FirstExtent; at < entry.FirstExtent+entry.Extents; at++ {
			if extent := &segment.Extents[at]; extent.Kind == snapshot.KindBytes {
				l.noteSum(entry, indices[i], staged, extent, sums[at])
			}
		}
	}
	return nil
}

// damaged is the error of a part whose copy has another checksum than the extent of that number.
func damaged(segment *snapshot.Loaded, part native.Stored, number uint32) error {
	entry := 0
	for number-segment.Pages[entry].FirstExtent >= segment.Pages[entry].Extents {
		entry++
	}
	page := &segment.Pages[entry]
	copied := native.Bytes(native.RecordAt(part.Index).Locator, page.Size)[part.Offset:][:part.Length]
	return segment.CheckBytes(page, &segment.Extents[number], copied)
}

// fillPart puts a part of a page where it belongs that is compressed, or whose page has no address, and returns its checksum.
func (l *loader) fillPart(segment *snapshot.Loaded, entry *snapshot.Page, index uint32,
	extent *snapshot.Extent) (sum uint32, err error) {
	frame := residency.FrameOf(index)
	stored := segment.Bytes[extent.At:][:extent.Stored]
	if extent.Compression == snapshot.Uncompressed {
		if segment.SumsLater {
			err = segment.CheckBytes(entry, extent, stored)
		}
		if err == nil {
			err = l.residency.Write(frame, extent.Offset, stored)
		}
		return extent.CRC, err
	}
	var into []byte
	if frame.Resident() {
		into = native.Bytes(native.RecordAt(index).Locator, entry.Size)[extent.Offset:][:extent.Length]
	} else {
		into = make([]byte, extent.Length)
	}
	if err := decompress(entry, extent, into, stored); err != nil {
		return 0, err
	}
	if !frame.Resident() {
		err = l.residency.Write(frame, extent.Offset, into)
	}
	return native.Checksum(into), err
}

// decompress gives a part of a page its bytes of what is stored.
func decompress(entry *snapshot.Page, extent *snapshot.Extent, into, stored []byte) error {
	if extent.Compression == snapshot.Zeros {
		clear(into)
	} else if !snapshot.Decompress(into, stored) {
		return status.Errorf(status.Corrupt, "page %d: the part at %d cannot be decompressed", entry.ID, extent.Offset)
	}
	return nil
}

// isChunk says whether an extent is a whole chunk of a page's bytes, and not granules of one that lies in several files.
func isChunk(entry *snapshot.Page, extent *snapshot.Extent) bool {
	return extent.Offset%native.ChunkBytes == 0 && uint64(extent.Length) == min(native.ChunkBytes, entry.Size-extent.Offset)
}
