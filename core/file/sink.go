// What all sinks have in common: buffers on their way to those that write them.

package file

import "libmmsb/core/status"

// Sink takes the bytes of a file in order. It is used by one goroutine; its writing goes on beside that one.
type Sink interface {
	// Buffer is an empty buffer of BufferSize bytes, with any content. It waits until one is free: at most Buffers of them
	// are out and not yet written. It fails where an earlier write did.
	Buffer() ([]byte, error)
	// Write hands a buffer over: its first n bytes come next in the file. n is a multiple of Alignment, except once, at the
	// end. It may return before they are down; a failure is told by a later call.
	Write(buffer []byte, n int) error
	// Finish ends the sink: all bytes are down, and what was promised about them holds. Where it fails, the sink is
	// aborted.
	Finish() error
	// Abort ends the sink: nothing is left of it, as far as that can be. After Finish it does nothing.
	Abort()
}

// pipeline is the part that all sinks have in common: buffers on their way from the filling goroutine to those that write.
type pipeline struct {
	firstError
	buffers *buffers
	writers *workers[piece]
	done    <-chan struct{} // nil, or closed when the work is to be given up

	size  int64 // of what was handed over
	ended bool
}

type piece struct {
	bytes []byte
	at    int64
}

// start begins with a number of goroutines that write pieces. Where there is more than one, pieces are written in any order.
func (p *pipeline) start(writers int, write func(bytes []byte, at int64) error) error {
	memory, err := newBuffers(Buffers)
	if err != nil {
		return err
	}
	p.buffers = memory
	p.writers = startWorkers(writers, Buffers, func(one piece) { p.writeOne(one, write) })
	return nil
}

func (p *pipeline) writeOne(piece piece, write func([]byte, int64) error) {
	err := status.Errorf(status.Internal, "writing at offset %d panicked", piece.at)
	defer func() {
		p.fail(err)
		p.buffers.free <- piece.bytes[:BufferSize]
	}()
	if p.failure() == nil {
		err = write(piece.bytes, piece.at)
	}
}

func (p *pipeline) Buffer() ([]byte, error) {
	if p.ended {
		return nil, errEnded()
	}
	var buffer []byte
	select { // what is free is no reason to look whether the work is to be given up
	case buffer = <-p.buffers.free:
	default:
		select {
		case buffer = <-p.buffers.free:
		case <-p.done:
			p.fail(errCancelled(p.size))
			return nil, p.failure()
		}
	}
	if err := p.failure(); err != nil {
		p.buffers.free <- buffer
		return nil, err
	}
	return buffer, nil
}

func (p *pipeline) Write(buffer []byte, n int) error {
	if p.ended {
		return errEnded()
	}
	if len(buffer) != BufferSize || n < 0 || n > BufferSize || p.size%Alignment != 0 && n > 0 {
		return status.Errorf(status.Internal, "%d bytes of a buffer of %d bytes cannot follow %d bytes of a file", n, len(buffer),
			p.size)
	}
	if n == 0 {
		p.buffers.free <- buffer
		return p.failure()
	}
	p.writers.work <- piece{buffer[:n], p.size}
	p.size += int64(n)
	return p.failure()
}

// end waits for what was handed over and gives the buffers back. It says whether the sink had not ended before.
func (p *pipeline) end() bool {
	if p.ended {
		return false
	}
	p.ended = true
	p.writers.end()
	p.buffers.release()
	return true
}

// givenUp says whether nobody wants what comes any more.
func (p *pipeline) givenUp() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

func errEnded() error {
	return status.Errorf(status.InvalidState, "the file is already finished or aborted")
}

func errCancelled(at int64) error {
	return status.Errorf(status.Cancelled, "cancelled after %d bytes", at)
}
