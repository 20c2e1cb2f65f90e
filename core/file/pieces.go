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

// readRequests is how many goroutines read and check pieces at a time, resters how many do what is left to do with them. More of
// them, and more buffers, are slower where a processor writes what was read into memory: caches have a few buffers only.
const (
	readRequests = 3
	resters      = 2
)

// pieceReader is a source that has its own way to read a piece.
type pieceReader interface {
	beginPieces()
	endPieces()
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
	if own, ok := source.(pieceReader); ok {
		own.beginPieces()
		defer own.endPieces()
	}
	readings := startWorkers(readRequests, readBuffers, func(r *reading) { r.read(source, check) })
	defer readings.end()
	var failed firstError
	resting := startWorkers(resters, readBuffers, func(r *reading) { failed.do(r, memory) })
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
			r.err = failed.failure()
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
	return failed.failure()
}

// workers are goroutines that each do one piece of work after the other.
type workers[T any] struct {
	work  chan T
	group sync.WaitGroup
	ended bool
}

// startWorkers starts count of them; as many as room pieces of work wait without anybody waiting for them.
func startWorkers[T any](count, room int, do func(T)) *workers[T] {
	w := &workers[T]{work: make(chan T, room)}
	w.group.Add(count)
	for range count {
		safego.Go(func() {
			defer w.group.Done()
			for one := range w.work {
				do(one)
			}
		})
	}
	return w
}

// end waits until all that was given to them is done. It may be called twice.
func (w *workers[T]) end() {
	if !w.ended {
		w.ended = true
		close(w.work)
	}
	w.group.Wait()
}

// firstError is what became of the work of several goroutines: the first error of any of them.
type firstError struct {
	mutex sync.Mutex
	err   error
}

func (f *firstError) fail(err error) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	if f.err == nil {
		f.err = err
	}
}

func (f *firstError) failure() error {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	return f.err
}

// do is what is left to do with a piece after yield.
func (f *firstError) do(one *reading, memory *buffers) {
	err := status.Errorf(status.Internal, "processing of the bytes at offset %d panicked", one.from)
	defer func() {
		if value := recover(); value != nil { // the goroutine goes on: others wait for their buffers
			safego.Caught(value)
		}
		f.fail(err)
		memory.free <- one.buffer
	}()
	if f.failure() == nil {
		err = one.rest()
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
