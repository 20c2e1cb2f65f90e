package journal

import (
	"fmt"
	"io"

	"golang.org/x/sys/unix"

	"libmmsb/core/file"
	"libmmsb/core/safego"
	"libmmsb/core/status"
)

// toTheEnd is the end of a scan that finds the end by itself.
const toTheEnd = -1

// scan walks the frames from a segment's first on, checked. In the last segment it ends at the offset end; with toTheEnd at the first frame
// that is not whole, where nothing behind it says that it was durable. Errors: those of visit, Corrupt, and those of the file system.
func (j *Journal) scan(start int, end int64, visit func(f *frame, records []byte, offset int64) (more bool, err error)) error {
	next, chain := j.segments[start].first, j.segments[start].previous
	for i := start; i < len(j.segments); i++ {
		s := &j.segments[i]
		if s.first != next || s.previous != chain {
			return status.Errorf(status.Corrupt, "%s begins at record %d behind checksum 0x%08x, but record %d behind 0x%08x follows: "+
				"a segment is missing or foreign", j.path(s.name), s.first, s.previous, next, chain)
		}
		limit := s.size
		if i == len(j.segments)-1 && end != toTheEnd {
			limit = end
		}
		more := true
		stopped, err := eachFrame(j.fs, j.path(s.name), s.journal, limit, func(f *frame, whole []byte, offset int64) (bool, error) {
			if f.first != next || f.previous != chain {
				return false, errNotNext
			}
			var err error
			more, err = visit(f, whole[FrameHeadBytes:f.length], offset)
			next, chain = f.first+uint64(f.count), f.crc
			return more, err
		})
		if err != nil || !more {
			return err
		}
		if stopped == limit {
			continue
		}
		if i == len(j.segments)-1 && end == toTheEnd {
			return j.torn(s, stopped, next)
		}
		return damaged(j.path(s.name), stopped, next)
	}
	return nil
}

// errNotNext is what a visit says of a frame that is whole, but none of the frames that belong here.
var errNotNext = io.ErrUnexpectedEOF

func damaged(path string, offset int64, next uint64) error {
	return status.Errorf(status.Corrupt, "%s: the frame at offset %d, of record %d and those behind it, is damaged", path, offset, next)
}

// torn looks at what lies behind the last whole frame: nil where it can be the rest of a write that a crash cut short, Corrupt where a
// later frame says that the record next was durable.
func (j *Journal) torn(s *openSegment, offset int64, next uint64) error {
	path := j.path(s.name)
	f, size, err := openRegular(j.fs, path)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	block, whole := make([]byte, 1<<20), make([]byte, MaximumFrame)
	for at := offset &^ (blockBytes - 1); at < size; at += int64(len(block)) {
		n, err := file.ReadFull(f, block, at)
		if err != nil {
			return file.Failed(err, "cannot read %s at offset %d", path, at)
		}
		for i := 0; i < n; i += blockBytes {
			head, ok := decodeFrame(block[i:n], s.journal)
			if !ok || head.durable < next {
				continue
			}
			length := padded(int(head.length))
			n, err := file.ReadFull(f, whole[:length], at+int64(i))
			if err != nil {
				return file.Failed(err, "cannot read %s at offset %d", path, at+int64(i))
			}
			if n == length && frameCRC(whole[:length]) == head.crc {
				return damaged(path, offset, next)
			}
		}
	}
	return nil
}

// eachRecord walks the records of a frame. content is a record's body. Errors: Corrupt.
func eachRecord(f *frame, records []byte, visit func(sequence uint64, head recordHead, content []byte) (more bool)) error {
	at := 0
	for i := range f.count {
		sequence := f.first + uint64(i)
		left := records[at:]
		if len(left) < recordHeadBytes {
			return status.Errorf(status.Corrupt, "record %d has %d bytes left in its frame, fewer than a head of %d", sequence, len(left),
				recordHeadBytes)
		}
		head := decodeRecordHead(left)
		if head.length < recordHeadBytes || uint64(head.length) > uint64(len(left)) {
			return status.Errorf(status.Corrupt, "record %d has a length of %d, with %d bytes left in its frame", sequence, head.length,
				len(left))
		}
		if !visit(sequence, head, left[recordHeadBytes:head.length:head.length]) {
			return nil
		}
		at += min(int(head.length+7)&^7, len(left))
	}
	if at != len(records) {
		return status.Errorf(status.Corrupt, "the frame of record %d has %d bytes behind its %d records", f.first, len(records)-at, f.count)
	}
	return nil
}

const pieceBytes = 4 << 20 // of a read

// pieces reads a file ahead: while a piece is looked at, the next one comes. Before each piece there is room for the end of the one
// before, so that a frame that lies in both can be put together in place.
type pieces struct {
	memory []byte
	free   chan []byte
	read   chan piece
}

type piece struct {
	room  []byte // MaximumFrame bytes, then the piece
	bytes int
	err   error
}

func readAhead(f file.File, from, to int64) (*pieces, error) {
	const room = MaximumFrame + pieceBytes
	memory, err := unix.Mmap(-1, 0, 2*room, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return nil, file.Failed(err, "no memory for %d bytes", 2*room)
	}
	p := &pieces{memory: memory, free: make(chan []byte, 2), read: make(chan piece)}
	p.free <- memory[:room:room]
	p.free <- memory[room:]
	safego.Go(func() {
		defer close(p.read)
		for at := from; at < to; at += pieceBytes {
			buffer, wanted := <-p.free
			if !wanted {
				return
			}
			n, err := readPiece(f, buffer[MaximumFrame:][:min(pieceBytes, to-at)], at)
			p.read <- piece{buffer, n, err}
			if err != nil {
				return
			}
		}
	})
	return p, nil
}

// readPiece fills p, whose end may be any byte of a file that is read past the page cache.
func readPiece(f file.File, p []byte, at int64) (n int, err error) {
	for n < len(p) {
		part, err := f.Pread(p[n:padded(len(p))], at+int64(n))
		if err != nil || part == 0 {
			return n, err
		}
		n += part
	}
	return min(n, len(p)), nil
}

// close ends the reading and gives back the memory.
func (p *pieces) close() {
	close(p.free)
	for range p.read {
	}
	_ = unix.Munmap(p.memory)
}

// eachFrame walks the frames of a segment up to the offset limit. It returns the offset behind the last frame that is whole and that the
// visit takes, which answers errNotNext for one that is not to be taken. whole is good during the visit.
func eachFrame(fs file.FS, path string, journal ID, limit int64,
	visit func(f *frame, whole []byte, offset int64) (more bool, err error)) (stopped int64, err error) {
	f, _, err := openRegular(fs, path)
	if err != nil {
		return 0, err
	}
	defer func() { _ = f.Close() }()
	_ = f.SetDirect(true) // or through the page cache
	stopped = blockBytes
	p, err := readAhead(f, stopped, limit)
	if err != nil {
		return stopped, err
	}
	defer p.close()
	var rest, before []byte // what is left of the piece before, and its memory
	for piece := range p.read {
		if piece.err != nil {
			return stopped, file.Failed(piece.err, "cannot read %s at offset %d", path, stopped+int64(len(rest)))
		}
		from := MaximumFrame - len(rest)
		copy(piece.room[from:], rest)
		if before != nil {
			p.free <- before
		}
		before = piece.room
		rest = piece.room[from : MaximumFrame+piece.bytes]
		for len(rest) > 0 {
			head, ok := decodeFrame(rest, journal)
			if !ok && (len(rest) >= FrameHeadBytes) {
				return stopped, nil
			}
			length := padded(int(head.length))
			if !ok || length > len(rest) {
				break
			}
			if frameCRC(rest[:length]) != head.crc {
				return stopped, nil
			}
			more, err := visit(&head, rest[:length], stopped)
			if err == errNotNext {
				return stopped, nil
			}
			if err != nil {
				return stopped, inFrame(err, path, stopped)
			}
			stopped += int64(length)
			if !more {
				return stopped, nil
			}
			rest = rest[length:]
		}
	}
	return stopped, nil
}

// inFrame adds to an error of a record where it lies.
func inFrame(err error, path string, offset int64) error {
	own := status.Of(err)
	return &status.Error{Code: own.Code, Domain: own.Domain, Foreign: own.Foreign,
		Text: fmt.Sprintf("%s: in the frame at offset %d: %s", path, offset, own.Text)}
}
