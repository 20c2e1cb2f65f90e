// The unnamed temporary file between a replay and its compaction.

package replay

import (
	"os"

	"libmmsb/core/file"
	"libmmsb/core/snapshot"
	"libmmsb/core/status"
)

// scratch is a file without a name, for a snapshot on the way to another.
type scratch struct {
	f    *os.File
	done <-chan struct{}
}

func newScratch(directory string, done <-chan struct{}) (*scratch, error) {
	f, err := os.CreateTemp(directory, ".mmsb-replay-*.tmp")
	if err != nil {
		return nil, file.Failed(err, "cannot create a temporary file in %s", directory)
	}
	if err := os.Remove(f.Name()); err != nil {
		_ = f.Close()
		return nil, file.Failed(err, "cannot unlink the temporary file %s", f.Name())
	}
	return &scratch{f, done}, nil
}

func (s *scratch) close() { _ = s.f.Close() }

// write fills it by a function that finishes the sink.
func (s *scratch) write(fill func(sink file.Sink) error) error {
	sink, err := file.Descriptor(int(s.f.Fd()), s.done)
	if err != nil {
		return err
	}
	if err := fill(&stoppable{sink, s.done}); err != nil {
		sink.Abort()
		return err
	}
	if _, err := s.f.Seek(0, 0); err != nil {
		return file.Failed(err, "cannot seek in a temporary file")
	}
	return nil
}

// source reads it, as often as it is wanted.
func (s *scratch) source() (file.Source, error) { return file.Spool(int(s.f.Fd()), "", s.done) }

func (s *scratch) open(base func(name string) (file.Source, error)) (*snapshot.Snapshot, error) {
	source, err := s.source()
	if err != nil {
		return nil, err
	}
	return snapshot.OpenSource(source, snapshot.OpenOptions{Base: base})
}

// stoppable is a sink that ends when it shall.
type stoppable struct {
	file.Sink
	done <-chan struct{}
}

func (s *stoppable) Buffer() ([]byte, error) {
	select {
	case <-s.done:
		return nil, errCancelled
	default:
		return s.Sink.Buffer()
	}
}

var errCancelled = status.Errorf(status.Cancelled, "cancelled")
