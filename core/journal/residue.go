// The file that a process shares its ring with, and what a process that was killed left there.

package journal

import (
	"bytes"
	"encoding/binary"
	"math"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"

	"libmmsb/core/file"
	"libmmsb/core/status"
)

const (
	ringName = "journal.ring"
	// RingHeadBytes come before a ring's two buffers.
	RingHeadBytes = unitBytes
	ringVersion   = 3
	// MarkedBytes is for how many bytes of its buffers a ring has one mark.
	MarkedBytes = 32
)

// RingFileBytes is the size of the file of a ring: its header, two buffers, and the marks of each.
func RingFileBytes(bufferBytes int) int {
	return RingHeadBytes + 2*(bufferBytes+bufferBytes/MarkedBytes)
}

var (
	ringMagic   = []byte("MMSBRING")
	bufferMagic = []byte("MMSBBUFF")
)

// MakeRing makes the file of a ring of two buffers, which are zeros. The caller maps it, shared, and closes it. Its space is
// taken at once: a store to a mapping cannot say that the disk is full.
func (w *Writer) MakeRing(bufferBytes int) (file.File, error) {
	path := filepath.Join(w.directory, ringName)
	if err := removeRing(w.fs, w.directory); err != nil { // a new file: somebody may still read the old one
		return nil, err
	}
	f, err := w.fs.Open(path, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL, 0o666)
	if err != nil {
		return nil, file.Failed(err, "cannot create %s", path)
	}
	w.made.ring = true
	size := int64(RingFileBytes(bufferBytes))
	// Written, also where space could be allocated: then the page cache has it in large pieces. A buffer in single pages goes to
	// the disk at 0.7 of the rate.
	if err = f.Allocate(0, size); err != syscall.ENOSPC {
		err = w.writeRing(f, size, bufferBytes)
	}
	if err != nil {
		_ = f.Close()
		_ = w.fs.Remove(path)
		return nil, file.Failed(err, "cannot take %d bytes for %s", size, path)
	}
	return f, nil
}

// writeRing writes zeros, and then the head: without it a ring that was not made to its end is none.
func (w *Writer) writeRing(f file.File, size int64, bufferBytes int) error {
	piece := make([]byte, min(size, ringPiece))
	for at := int64(0); at < size; at += int64(len(piece)) {
		if err := file.WriteFull(f, piece[:min(size-at, ringPiece)], at); err != nil {
			return err
		}
	}
	head := piece[:RingHeadBytes]
	copy(head, ringMagic)
	binary.LittleEndian.PutUint32(head[8:], ringVersion)
	binary.LittleEndian.PutUint64(head[16:], uint64(bufferBytes))
	copy(head[24:], w.lineage.ID[:])
	copy(head[40:], bootID())
	return file.WriteFull(f, head, 0)
}

// ringPiece is how much of a ring is written at once.
const ringPiece = 1 << 20

// bootID tells one start of the system from another: what was not written to the disk ends with it, and pages of a shared file
// may be older than others. It has 36 bytes; none where the system does not say.
func bootID() []byte {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil || len(id) < 36 {
		return nil
	}
	return id[:36]
}

func removeRing(fs file.FS, directory string) error {
	path := filepath.Join(directory, ringName)
	if err := fs.Remove(path); err != nil && err != syscall.ENOENT {
		return file.Failed(err, "cannot remove %s", path)
	}
	return nil
}

// residue is frames of what a killed process had put into its ring and not yet written. They belong behind the last whole frame
// of the last segment.
type residue struct {
	frames []byte
	end    int64 // of that frame, where they belong
	torn   int64 // bytes that the segment has behind it
}

// from is where the file of the segment gives way to the residue.
func (r *residue) from() int64 {
	if r.frames == nil {
		return math.MaxInt64
	}
	return r.end
}

// at is what the residue has between two offsets; nil: nothing.
func (r *residue) at(offset, limit int64) []byte {
	if r.frames == nil || offset < r.end {
		return nil
	}
	return r.frames[min(offset-r.end, int64(len(r.frames))):max(0, min(limit-r.end, int64(len(r.frames))))]
}

// write writes it where it belongs.
func (r *residue) write(to file.File, path string) error {
	if r.frames == nil {
		return nil
	}
	err := to.Truncate(r.end)
	if err == nil {
		err = file.WriteFull(to, r.frames, r.end)
	}
	if err != nil {
		return file.Failed(err, "cannot write %d bytes at offset %d of %s", len(r.frames), r.end, path)
	}
	return nil
}

// addResidue adds what a killed process left to the last segment, behind its last whole frame, be its group whole or not.
func (j *Journal) addResidue(behind position) error {
	if j.ring == nil {
		return nil
	}
	last := &j.segments[behind.segment]
	frames, err := framesOf(j.ring, behind, last.id)
	if err != nil {
		return err
	}
	j.ring = nil
	if frames != nil {
		last.residue = residue{frames: frames, end: behind.offset, torn: last.size - behind.offset}
		last.size = last.residue.end + int64(len(last.residue.frames))
	}
	return nil
}

// lookAtRing looks at what a killed process left in its ring, where nobody has come to the end of the journal. Errors: Corrupt.
func (j *Journal) lookAtRing() error {
	if j.ring == nil {
		return nil
	}
	return j.scan(j.beginning(len(j.segments)-1), toTheEnd, func(*frame, []byte, position) (bool, error) { return true, nil })
}

// readRing reads what a killed process left in its ring, until a scan comes to where it belongs. While a process writes the
// journal there is no such thing; own says that the caller is the one who has the lock.
func (j *Journal) readRing(own bool) (err error) {
	j.ring, err = j.ringBuffers(own)
	return err
}

// ringBuffers reads the buffers of a ring from its file; nil where there is none, or none of this lineage.
func (j *Journal) ringBuffers(own bool) (*[2]ringBuffer, error) {
	path := j.path(ringName)
	if _, err := j.fs.Stat(path); err == syscall.ENOENT {
		return nil, nil
	}
	if !own {
		lock, err := lockFile(j.fs, j.path(lockName), unix.O_RDONLY, file.File.LockShared)
		if err == nil {
			defer func() { _ = letGo(lock) }()
		}
		if err == syscall.EWOULDBLOCK {
			return nil, nil
		}
	}
	source, err := file.Open(j.fs, path)
	if status.CodeOf(err) == status.NotFound { // its writer has closed the journal
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = source.Close() }()
	head := make([]byte, min(source.Size(), RingHeadBytes))
	if _, err := source.ReadAt(head, 0); err != nil {
		return nil, err
	}
	id, boot := j.segments[len(j.segments)-1].id, bootID()
	if len(head) < RingHeadBytes || !bytes.Equal(head[:8], ringMagic) || !bytes.Equal(head[24:40], id[:]) ||
		boot == nil || !bytes.Equal(head[40:76], boot) {
		return nil, nil // it was being made, is of a branch that never counted, or the system was started anew
	}
	if version := binary.LittleEndian.Uint32(head[8:]); version != ringVersion {
		return nil, status.Errorf(status.Format, "%s has version %d, this library reads version %d", path, version, ringVersion)
	}
	size := binary.LittleEndian.Uint64(head[16:])
	if size == 0 || size%unitBytes != 0 || size > MaximumFrame || int64(RingFileBytes(int(size))) > source.Size() {
		return nil, status.Errorf(status.Corrupt, "%s has %d bytes, and says that a buffer has %d", path, source.Size(), size)
	}
	var buffers [2]ringBuffer
	for number := range buffers {
		if buffers[number], err = readBuffer(source, int(size), number); err != nil {
			return nil, err
		}
	}
	return &buffers, nil
}

// ringBuffer is a buffer's bytes, as far as they have complete groups but a frame's head at least, and its marks.
type ringBuffer struct{ bytes, marks []byte }

func readBuffer(source file.Source, size, number int) (b ringBuffer, err error) {
	b.marks = make([]byte, size/MarkedBytes)
	if _, err = source.ReadAt(b.marks, int64(RingHeadBytes+2*size+number*len(b.marks))); err != nil {
		return b, err
	}
	begin, end := int64(RingHeadBytes+number*size), FrameHeadBytes
	if last := len(bytes.TrimRight(b.marks, "\x00")) - 1; last >= 0 {
		at := markedAt(last, b.marks[last])
		head := make([]byte, max(0, min(groupHeadBytes, size-at)))
		if _, err = source.ReadAt(head, begin+int64(at)); err != nil {
			return b, err
		}
		end = int(min(uint64(max(at, end))+groupBytes(head), uint64(size)))
	}
	b.bytes = make([]byte, end)
	_, err = source.ReadAt(b.bytes, begin)
	return b, err
}

// framesOf makes frames of a ring's records, as far as they come behind a position. Errors: Corrupt.
func framesOf(ring *[2]ringBuffer, behind position, id [16]byte) (frames []byte, err error) {
	first, second := ring[0], ring[1]
	if second.first() < first.first() {
		first, second = second, first
	}
	unwritten := 0
	for _, buffer := range []ringBuffer{first, second} {
		begun := bytes.HasPrefix(buffer.bytes, bufferMagic) || bytes.HasPrefix(buffer.bytes, frameMagic)
		if !begun || buffer.first() < behind.next && unwritten == 0 { // it is written
			continue
		}
		if buffer.first() > behind.next && unwritten == 0 { // of a segment that never counted
			return nil, nil
		}
		unwritten++
		records, count, err := buffer.completeGroups()
		if err == nil {
			err = checkNumbers("a ring's buffer", behind.next, count)
		}
		if err != nil {
			return nil, err
		}
		if count == 0 {
			continue
		}
		f := frame{id: id, length: uint32(FrameHeadBytes + len(records)), count: count, first: behind.next,
			previous: behind.chain}
		whole := make([]byte, padded(int(f.length)))
		copy(whole[FrameHeadBytes:], records)
		f.encode(whole)
		frames = append(frames, whole...)
		behind.next, behind.chain = behind.next+uint64(count), f.crc
	}
	return frames, nil
}

// first is the number of the first record.
func (b ringBuffer) first() uint64 { return binary.LittleEndian.Uint64(b.bytes[32:]) }

// groupHeadBytes is as much of a group as says how long it is.
const groupHeadBytes = recordHeadBytes + 8

// groupBytes is what a group takes of a buffer, by its beginning; 0: no group begins like this.
func groupBytes(beginning []byte) uint64 {
	if len(beginning) < recordHeadBytes {
		return 0
	}
	head := decodeRecordHead(beginning)
	if head.length < recordHeadBytes {
		return 0
	}
	space := (uint64(head.length) + 7) &^ 7
	if head.kind == Group && head.length >= groupHeadBytes && len(beginning) >= groupHeadBytes {
		space += min(binary.LittleEndian.Uint64(beginning[recordHeadBytes:]), math.MaxUint32)
	}
	return space
}

// markedAt is where in its buffer a group begins that has a mark.
func markedAt(number int, mark byte) int { return number*MarkedBytes + (int(mark)-1)*8 }

// completeGroups is the records of the groups whose calls have put all of them. Errors: Corrupt.
func (b ringBuffer) completeGroups() (records []byte, count uint32, err error) {
	end := FrameHeadBytes
	for i, mark := range b.marks {
		if mark == 0 {
			continue
		}
		at := markedAt(i, mark)
		if mark > MarkedBytes/8 || at < end || at+recordHeadBytes > len(b.bytes) {
			return nil, 0, status.Errorf(status.Corrupt, "mark %d of a ring's buffer is %d: no group can begin at byte %d", i,
				mark, at)
		}
		space := groupBytes(b.bytes[at:])
		if space == 0 || space > uint64(len(b.bytes)-at) {
			return nil, 0, status.Errorf(status.Corrupt, "the group at byte %d of a ring's buffer has %d bytes, %d are left", at,
				space, len(b.bytes)-at)
		}
		group := b.bytes[at:][:space]
		end = at + len(group)
		for rest := group; len(rest) > 0; count++ {
			if checkLength(0, rest) != nil {
				return nil, 0, status.Errorf(status.Corrupt,
					"the records of the group at byte %d of a ring's buffer do not fill its %d bytes: %d are left", at, space,
					len(rest))
			}
			rest = rest[min((int(binary.LittleEndian.Uint32(rest))+7)&^7, len(rest)):]
		}
		records = append(records, group...)
	}
	return records, count, nil
}
