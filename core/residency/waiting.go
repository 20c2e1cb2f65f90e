package residency

import (
	"sync"
	"sync/atomic"
)

// A page that waits in a lazily loaded snapshot is not resident, like one on disk, until a call needs its bytes: then they are
// read from the file, verified, and the page is as any other.

// Reader reads the bytes of pages that wait, as from a snapshot.
type Reader interface {
	// ReadPage reads all bytes of the page with an id.
	ReadPage(id uint64, to []byte) error
	Close() error
}

// Source is a reader that pages wait in; the last of its users closes it.
type Source struct {
	reader Reader
	users  atomic.Int32 // the pages, and who made it
}

// NewSource makes a source with one user.
func NewSource(reader Reader) *Source {
	s := &Source{reader: reader}
	s.users.Store(1)
	return s
}

// Done ends a use of the source.
func (s *Source) Done() {
	if s.users.Add(-1) == 0 {
		_ = s.reader.Close()
	}
}

// waiting are a context's pages whose bytes are still in a snapshot, by record.
type waiting struct {
	sync.Mutex
	pages map[uint32]*Source
}

// add lets the page of a record wait in a source.
func (w *waiting) add(index uint32, source *Source) {
	w.Lock()
	defer w.Unlock()
	if w.pages == nil {
		w.pages = make(map[uint32]*Source)
	}
	w.pages[index] = source
	source.users.Add(1)
}

// remove lets a page wait no longer. The page is locked.
func (w *waiting) remove(index uint32) {
	w.Lock()
	defer w.Unlock()
	if source, ok := w.pages[index]; ok {
		delete(w.pages, index)
		source.Done()
	}
}

func (w *waiting) of(index uint32) *Source {
	w.Lock()
	defer w.Unlock()
	return w.pages[index]
}

func (w *waiting) count() int {
	w.Lock()
	defer w.Unlock()
	return len(w.pages)
}
