// Reading many ranges of a file, several pieces at a time, in order.

package file

import (
	"iter"
	"sync"

	"libmmsb/core/safego"
	"libmmsb/core/status"
)

// Range is a part of a file.
type Range struct{ Offset, Length int64 }

// readRequests is how many goroutines read and check pieces at a time, resters how many do what is left to do with them.
const (
	readRequests = 4
	resters      = 2
)

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
	rest     func() error
}

// Pieces reads ranges of a file, several pieces at a time, and gives the pieces to yield in order: one a range, or more,
// one after the other, where the range is longer than BufferSize or begins between two multiples of Alignment. i is the
// number of the range. A piece is valid until yield returns, and must not be written to. An error of yield ends the reading
// and comes back.
//
// It passes the page cache by, where the file is not in it already.
func Pieces(source Source, ranges []Range, yield func(i int, piece []byte) error) error {
	return CheckedPieces(source, ranges, nil, func(i int, piece []byte) (func() error, error) { return nil, yield(i, piece) })
}

// CheckedPieces is Pieces with work on each piece before and after yield, for several pieces at a time and in any order: check,
// where it is not nil, looks at a piece before yield gets it, and rest, where yield returns it, goes on with the piece, which is
// valid until then. An error of either ends the reading like one of yield.
func CheckedPieces(source Source, ranges []Range, check func(i int, piece []byte) error,
	yield func(i int, piece []byte) (rest func() error, err error)) error {
	for _, r := range ranges {
		if r.Offset < 0 || r.Length < 0 || r.Offset > source.Size()-r.Length {
			return status.Errorf(status.Corrupt, "%d bytes at offset %d are past the end of a file of %d bytes", r.Length,
				r.Offset, source.Size())
		}
	}
	memory, err := newBuffers(readBuffers)
	if err != nil {
		return err
	}
	defer memory.release()
	readings := startWorkers(readRequests, func(r *reading) { r.read(source, check) })
	defer readings.end()
	var rests rests
	resting := startWorkers(resters, func(r *reading) { rests.do(r, memory) })
	defer resting.end()

	next, stop := iter.Pull(plan(ranges))
	defer stop()
	coming, more := next()
	var onTheirWay []*reading
	for more || len(onTheirWay) > 0 {
		var free <-chan []byte
		if more {
			free = memory.free
		}
		var ready <-chan struct{}
		if len(onTheirWay) > 0 {
			ready = onTheirWay[0].ready
		}
		select {
		case coming.buffer = <-free:
			onTheirWay = append(onTheirWay, coming)
			readings.work <- coming
			coming, more = next()
			continue
		case <-ready:
		}
		r := onTheirWay[0]
		onTheirWay = onTheirWay[1:]
		if r.err == nil {
			r.err = rests.failure()
		}
		if r.err == nil {
			r.rest, r.err = yield(r.index, r.piece)
		}
		if r.err != nil {
			return r.err
		}
		if r.rest != nil {
			resting.work <- r
		} else {
			memory.free <- r.buffer
		}
	}
	resting.end()
	return rests.failure()
}

// workers are goroutines that each do one piece of work after the other.
type workers struct {
	work  chan *reading
	group sync.WaitGroup
	ended bool
}

func startWorkers(count int, do func(*reading)) *workers {
	w := &workers{work: make(chan *reading, readBuffers)}
	w.group.Add(count)
	for range count {
		safego.Go(func() {
			defer w.group.Done()
			for r := range w.work {
				do(r)
			}
		})
	}
	return w
}

// end waits until all that was given to them is done. It may be called twice.
func (w *workers) end() {
	if !w.ended {
		w.ended = true
		close(w.work)
	}
	w.group.Wait()
}

// rests is what became of the work after yield: its first error.
type rests struct {
	sync.Mutex
	err error
}

func (r *rests) do(one *reading, memory *buffers) {
	err := status.Errorf(status.Internal, "processing of the bytes at offset %d panicked", one.from)
	defer func() {
		if value := recover(); value != nil { // the goroutine goes on: others wait for their buffers
			safego.Caught(value)
		}
		r.Lock()
		if r.err == nil {
			r.err = err
		}
		r.Unlock()
		memory.free <- one.buffer
	}()
	if r.failure() == nil {
		err = one.rest()
	}
}

func (r *rests) failure() error {
	r.Lock()
	defer r.Unlock()
	return r.err
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
