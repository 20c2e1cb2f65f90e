package file

import (
	"iter"
	"sync"

	"libmmsb/core/safego"
	"libmmsb/core/status"
)

// Range is a stretch of a file.
type Range struct{ Offset, Length int64 }

// readRequests is how many pieces are on their way from the disk at a time.
const readRequests = 3

// pieceReader is a source that has its own way to read a piece.
type pieceReader interface {
	readPiece(buffer []byte, from, to int64) ([]byte, error)
}

// reading is a piece on its way.
type reading struct {
	index    int // of its range
	from, to int64
	buffer   []byte
	piece    []byte
	err      error
	ready    chan struct{}
}

// Pieces reads stretches of a file, several pieces at a time, and gives the pieces to yield in order: one a range, or more,
// one after the other, where the range is longer than BufferSize or begins between two multiples of Alignment. i is the
// number of the range. A piece is valid until yield returns, and must not be written to. An error of yield ends the reading
// and comes back.
//
// It passes the page cache by, where the file is not in it already.
func Pieces(source Source, ranges []Range, yield func(i int, piece []byte) error) error {
	return CheckedPieces(source, ranges, nil, yield)
}

// CheckedPieces is Pieces with a look at each piece before yield gets it: check, where it is not nil, is called for several
// pieces at a time, in any order. Where it gives an error, that ends the reading in the place of yield.
func CheckedPieces(source Source, ranges []Range, check, yield func(i int, piece []byte) error) error {
	for _, r := range ranges {
		if r.Offset < 0 || r.Length < 0 || r.Offset > source.Size()-r.Length {
			return status.Errorf(status.Corrupt, "no %d bytes at offset %d in a file of %d bytes", r.Length, r.Offset, source.Size())
		}
	}
	memory, err := newBuffers(readBuffers)
	if err != nil {
		return err
	}
	defer memory.release()
	work := make(chan *reading, readBuffers)
	var readers sync.WaitGroup
	readers.Add(readRequests)
	for range readRequests {
		safego.Go(func() {
			defer readers.Done()
			for r := range work {
				r.read(source, check)
			}
		})
	}
	defer readers.Wait()
	defer close(work)

	next, stop := iter.Pull(plan(ranges))
	defer stop()
	var onTheirWay []*reading
	for {
		for len(onTheirWay) < readBuffers {
			r, more := next()
			if !more {
				break
			}
			r.buffer = <-memory.free
			onTheirWay = append(onTheirWay, r)
			work <- r
		}
		if len(onTheirWay) == 0 {
			return nil
		}
		r := onTheirWay[0]
		onTheirWay = onTheirWay[1:]
		<-r.ready
		if r.err != nil {
			return r.err
		}
		if err := yield(r.index, r.piece); err != nil {
			return err
		}
		memory.free <- r.buffer
	}
}

// plan cuts ranges into pieces that fit into a buffer with the whole blocks around them.
func plan(ranges []Range) iter.Seq[*reading] {
	return func(yield func(*reading) bool) {
		for index, r := range ranges {
			end := r.Offset + r.Length
			for from := r.Offset; from < end; {
				to := min(end, alignDown(from)+BufferSize)
				if !yield(&reading{index: index, from: from, to: to, ready: make(chan struct{})}) {
					return
				}
				from = to
			}
		}
	}
}

func (r *reading) read(source Source, check func(i int, piece []byte) error) {
	defer close(r.ready)
	r.err = status.Errorf(status.Internal, "reading at offset %d panicked", r.from)
	var err error
	if own, ok := source.(pieceReader); ok {
		r.piece, err = own.readPiece(r.buffer, r.from, r.to)
	} else {
		r.piece = r.buffer[:r.to-r.from]
		_, err = source.ReadAt(r.piece, r.from)
	}
	if err == nil && check != nil {
		err = check(r.index, r.piece)
	}
	r.err = err
}
