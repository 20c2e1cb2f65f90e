package residency

import (
	"sync"

	"libmmsb/core/region"
	"libmmsb/native"
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
	users  int // the pages, and who made it until Done
}

// NewSource makes a source with one user, which calls Done.
func NewSource(reader Reader) *Source { return &Source{reader, 1} }

// Done ends the source's first user.
func (r *Residency) Done(s *Source) {
	r.waiting.Lock()
	defer r.waiting.Unlock()
	s.release()
}

func (s *Source) release() {
	if s.users--; s.users == 0 {
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
	source.users++
}

// remove lets a page wait no longer. The page is locked.
func (w *waiting) remove(index uint32) {
	w.Lock()
	defer w.Unlock()
	if source, ok := w.pages[index]; ok {
		delete(w.pages, index)
		source.release()
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

// present gives the locked page of a record its bytes where they wait in a snapshot.
func (r *Residency) present(index uint32) error {
	if r.waiting.of(index) == nil {
		return nil
	}
	record := native.RecordAt(index)
	state := record.LoadState()
	p := &Page{Residency: r, Index: index, Record: record, State: state &^ native.OwnerMask}
	err := p.Present()
	record.StoreState(p.State | state&native.OwnerMask)
	return err
}

// Present gives the page its bytes where they wait in a snapshot.
func (p *Page) Present() error {
	source := p.waiting.of(p.Index)
	if source == nil {
		return nil
	}
	size := p.Record.Size
	f, err := p.TakeLike(size)
	if err != nil {
		return err
	}
	if err := p.read(source, f, size); err != nil {
		p.Give(f)
		return err
	}
	if p.Record.Side != 0 {
		f.Note(native.SideAt(p.Record.Side))
	}
	p.State = p.State&^native.Nonresident | f.Low&native.Nonresident
	p.swap(f.Index)
	native.RecordAt(f.Index).Size = 0
	p.memory.Give(f.Index)
	p.waiting.remove(p.Index)
	if p.Resident() {
		native.Redzone(p.Index, p.State, size)
	}
	return nil
}

// read reads the page's bytes from a source into a frame.
func (p *Page) read(source *Source, to Frame, size uint64) error {
	id := native.SideAt(p.Record.Side).ID // which a page that was loaded has
	if to.Resident() {
		return source.reader.ReadPage(id, native.Bytes(native.RecordAt(to.Index).Locator, size))
	}
	number, err := p.memory.Map(size)
	if err != nil {
		return err
	}
	defer region.Unmap(number)
	bytes := native.Bytes(native.Locator(number, 0), size)
	if err := source.reader.ReadPage(id, bytes); err != nil {
		return err
	}
	return p.writeBacking(to.Backing, 0, bytes)
}
