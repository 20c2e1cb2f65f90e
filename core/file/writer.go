// A sink as an io.Writer.

package file

import "io"

// WriteAll gives a sink what a function writes, and ends it.
func WriteAll(sink Sink, write func(to io.Writer) error) error {
	w := &writer{sink: sink}
	err := write(w)
	if err == nil && w.used > 0 {
		err = sink.Write(w.buffer, w.used)
	}
	if err != nil {
		sink.Abort()
		return err
	}
	return sink.Finish()
}

// Put makes a file have a content, durably.
func Put(fs FS, path string, content []byte) error {
	sink, err := Replace(fs, path, Options{Durable: true})
	if err != nil {
		return err
	}
	return WriteAll(sink, func(to io.Writer) error {
		_, err := to.Write(content)
		return err
	})
}

// writer fills the buffers of a sink.
type writer struct {
	sink   Sink
	buffer []byte
	used   int
}

func (w *writer) Write(bytes []byte) (n int, err error) {
	for n < len(bytes) {
		if w.used == len(w.buffer) {
			if w.used > 0 {
				if err := w.sink.Write(w.buffer, w.used); err != nil {
					return n, err
				}
			}
			w.used = 0
			if w.buffer, err = w.sink.Buffer(); err != nil {
				return n, err
			}
		}
		copied := copy(w.buffer[w.used:], bytes[n:])
		w.used += copied
		n += copied
	}
	return n, nil
}
