package persist

import (
	"math/bits"
	"unsafe"

	"libmmsb/core/snapshot"
	"libmmsb/core/status"
	"libmmsb/native"
)

// Saving large pages: chunk by chunk, and of one that the base has those chunks, or granules of them, that are not as they were.

// mostLayers is how many files a chunk's granules may lie in before it is written whole again: each makes reading it longer.
const mostLayers = 32

// largePage is a large page that is being saved.
type largePage struct {
	*saver
	captured native.Large
	entry    snapshot.Page
	before   []uint32   // checksums of the base; nil: the base does not have the page
	known    largeSaved // what the newest snapshot has of it
	tracked  bool       // changed says which granules were written, a word for each chunk
	changed  []uint64
	now      largeSaved // what this one has
	written  bool       // something of it is in the file
	asked    int        // of a page on a device: chunks that the device was asked for
	told     []bool     // by chunk: the device has told its granules' checksums as they were at the moment
}

const (
	granulesOfChunk = native.ChunkBytes / native.GranuleBytes
	// askedTogether is how many chunks a device sums up while the page is locked.
	askedTogether = 64
)

// saveLarge writes a page of more than a chunk.
func (s *saver) saveLarge(index uint32) error {
	captured, ok, code := s.capture.Large(index)
	switch {
	case status.Code(code) == status.Busy:
		return errRefused(index)
	case code != 0:
		return status.Errorf(status.Code(code), "no memory to save a large page")
	case !ok:
		return nil
	}
	entry := *(*snapshot.Page)(unsafe.Pointer(captured.Image()))
	l := &largePage{saver: s, captured: captured, entry: entry, known: s.saved.large[index]}
	l.compare(index)
	byteParts, maskParts := captured.Parts()
	for number := range byteParts {
		if err := l.chunk(number); err != nil {
			return err
		}
	}
	if !captured.Unchanged() || l.written || l.before == nil {
		if err := l.beside(byteParts, maskParts); err != nil {
			return err
		}
	}
	s.large[index] = l.now
	s.capture.LargeDone(captured)
	return nil
}

// compare finds out what the base has of the page, and what was written since.
func (l *largePage) compare(index uint32) {
	generation := native.Generation(native.RecordAt(index).LoadState())
	if known, ok := l.saved.large[index]; ok && l.fast && known.generation == generation &&
		l.entry.Flags&snapshot.FlagChanges != 0 {
		l.before = known.sums
	}
	changed, tracked, begun := l.tracking.written(index, generation, l.before != nil && l.known.tracked, !l.o.NotWatched)
	l.changed, l.tracked = changed, tracked
	if l.known.tracked { // counted from now on: should this save fail, the next one compares everything
		forgotten := l.known
		forgotten.tracked = false
		l.saved.large[index] = forgotten
	}
	if begun && (l.captured.Written() || native.ChangedSince(index, generation, l.entry.Version)) {
		// A change that was made after the moment and counted before now is not in this snapshot, and would not be in the next
		// one.
		begun = false
	}
	chunks, _ := l.captured.Parts()
	l.now = largeSaved{generation: generation, sums: make([]uint32, chunks), layers: make([]uint8, chunks), tracked: begun}
	if native.OnDevice(native.RecordAt(index).LoadState()) {
		l.now.granules = make([]uint32, chunks*granulesOfChunk)
		l.told = make([]bool, chunks)
	}
}

// ask asks the device for what a chunk had at the moment, where the base has it to compare. ok is false where only a copy tells.
func (l *largePage) ask(number int) (ok bool) {
	if l.told == nil || l.before == nil {
		return false
	}
	for l.asked <= number {
		first := l.asked
		l.asked = min(first+askedTogether, len(l.told))
		l.captured.Sums(first, l.now.granules[first*granulesOfChunk:l.asked*granulesOfChunk], l.told[first:l.asked])
	}
	return l.told[number]
}

// granulesOf are the checksums of the granules that a chunk has.
func (l *largePage) granulesOf(of []uint32, number int) []uint32 {
	return of[number*granulesOfChunk:][:(l.length(number)+native.GranuleBytes-1)/native.GranuleBytes]
}

// length is that of a chunk.
func (l *largePage) length(number int) uint64 {
	return min(native.ChunkBytes, l.entry.Size-uint64(number)*native.ChunkBytes)
}

// sumUp notes the checksums of those granules of a chunk on a device whose bits are set, as they were copied: others may have
// written them since the device was asked.
func (l *largePage) sumUp(number int, granules uint64, bytes []byte) {
	native.GranuleChecksums(bytes, granules, l.granulesOf(l.now.granules, number))
}

// joined is the checksum of a chunk whose granules are summed up.
func (l *largePage) joined(number int) uint32 {
	sums := l.granulesOf(l.now.granules, number)
	return native.JoinChecksums(sums, native.GranuleBytes, l.length(number)-uint64(len(sums)-1)*native.GranuleBytes)
}

// toldChunk writes what has changed of a chunk that the device has summed up; where that is much, it is left to be copied.
func (l *largePage) toldChunk(number int) (done bool, err error) {
	l.capture.Compared(l.length(number))
	if sum := l.joined(number); sum == l.before[number] && sum != 0 {
		l.capture.Skip(l.captured, number)
		l.now.sums[number], l.now.layers[number] = sum, l.known.layers[number]
		return true, nil
	}
	if len(l.known.granules) != len(l.now.granules) || l.known.layers[number] >= mostLayers {
		return false, nil
	}
	changed, now := uint64(0), l.granulesOf(l.now.granules, number)
	for i, sum := range l.granulesOf(l.known.granules, number) {
		if now[i] != sum {
			changed |= 1 << i
		}
	}
	if changed == 0 || !few(changed) {
		return false, nil
	}
	bytes, err := l.part(number, changed, l.buffer)
	if err != nil {
		return false, err
	}
	l.sumUp(number, changed, bytes)
	l.now.sums[number], l.now.layers[number] = l.joined(number), l.known.layers[number]+1
	return true, l.addGranules(changed, bytes, uint64(number)*native.ChunkBytes)
}

// chunk writes what has changed of a chunk.
func (l *largePage) chunk(number int) error {
	offset := uint64(number) * native.ChunkBytes
	layers := func() uint8 { return l.known.layers[number] }
	switch {
	case l.tracked && l.changed[number] == 0:
		l.capture.Skip(l.captured, number)
		l.now.sums[number], l.now.layers[number] = l.before[number], layers()
		return nil
	case l.tracked && few(l.changed[number]) && layers() < mostLayers:
		l.now.layers[number] = layers() + 1
		bytes, err := l.part(number, l.changed[number], l.buffer)
		if err != nil {
			return err
		}
		return l.addGranules(l.changed[number], bytes, offset)
	}
	told := l.ask(number)
	if told {
		if done, err := l.toldChunk(number); done || err != nil {
			return err
		}
	}
	bytes, err := l.whole(number)
	if err != nil {
		return err
	}
	if l.now.granules == nil {
		l.now.sums[number] = native.Checksum(bytes)
	} else {
		l.sumUp(number, native.AllGranules, bytes)
		l.now.sums[number] = l.joined(number)
	}
	if l.before != nil && !told {
		l.capture.Compared(uint64(len(bytes)))
		if l.before[number] == l.now.sums[number] && l.before[number] != 0 {
			l.now.layers[number] = layers()
			return nil
		}
	}
	if !l.uncompressed() {
		return l.add(snapshot.KindBytes, offset, bytes)
	}
	l.written = true
	l.writer.Place(&l.entry, offset, len(bytes), l.now.sums[number])
	return nil
}

// whole is a chunk as it was at the moment, where it is written from: in the segment itself, unless it is to be compressed.
func (l *largePage) whole(number int) ([]byte, error) {
	into := l.buffer
	if l.uncompressed() {
		space, err := l.writer.Space(&l.entry, int(l.length(number)))
		if err != nil {
			return nil, err
		}
		into = space
	}
	return l.part(number, native.AllGranules, into)
}

func (l *largePage) uncompressed() bool {
	return snapshot.Compression(l.o.Compression) == snapshot.Uncompressed
}

// beside writes the page's mask and metadata; without metadata an entry all the same.
func (l *largePage) beside(byteParts, maskParts int) error {
	for number := range maskParts {
		bytes, err := l.part(byteParts+number, native.AllGranules, l.buffer)
		if err == nil {
			err = l.add(snapshot.KindMask, uint64(number)*native.ChunkBytes, bytes)
		}
		if err != nil {
			return err
		}
	}
	return l.add(snapshot.KindMetadata, 0, l.captured.Metadata())
}

// part puts a part of the page as it was at the moment into memory that has room for it: those granules whose bits are set.
func (l *largePage) part(number int, granules uint64, into []byte) ([]byte, error) {
	if err := l.goesOn(l.work, l.done); err != nil {
		return nil, err
	}
	length := l.capture.Part(l.captured, number, granules, into)
	if length == 0 {
		code, domain, foreign, text := native.LastError()
		return nil, &status.Error{Code: status.Code(code), Domain: domain, Foreign: foreign, Text: text}
	}
	l.progress(uint64(length))
	return into[:length], nil
}

func (l *largePage) add(kind uint32, offset uint64, bytes []byte) error {
	l.written = true
	return l.writer.Add(l.entry, kind, offset, bytes, snapshot.Compression(l.o.Compression))
}

// few says whether so few granules of a chunk are written one by one.
func few(granules uint64) bool {
	return bits.OnesCount64(granules) <= native.ChunkBytes/native.GranuleBytes/2
}

// addGranules writes those granules of a chunk at offset whose bits are set, each run of them as one.
func (l *largePage) addGranules(granules uint64, chunk []byte, offset uint64) error {
	for granules != 0 {
		first := bits.TrailingZeros64(granules)
		count := bits.TrailingZeros64(^(granules >> first))
		from, to := first*native.GranuleBytes, min((first+count)*native.GranuleBytes, len(chunk))
		if err := l.add(snapshot.KindBytes, offset+uint64(from), chunk[from:to]); err != nil {
			return err
		}
		granules &^= (uint64(1)<<count - 1) << first
	}
	return nil
}
