package residency

import "sync/atomic"

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

// Done ends a use of the source; none where there is no source.
func (s *Source) Done() {
	if s != nil && s.users.Add(-1) == 0 {
		_ = s.reader.Close()
	}
}
