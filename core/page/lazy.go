package page

import (
	"sync"

	"libmmsb/core/snapshot"
	"libmmsb/native"
)

// A page of a lazily loaded snapshot is away, like one on disk, until a call needs its bytes: then they are read from the file, verified, and
// the page is as any other.

// lazies are a context's pages whose bytes are still in a snapshot, by record.
type lazies struct {
	sync.Mutex
	pages map[uint32]*lazySource
}

// lazySource is a snapshot that pages wait in; the last of its users closes it.
type lazySource struct {
	state *snapshot.Snapshot
	users int // the pages, and the load that makes them
}

// wait lets the page of a record wait in a snapshot.
func (l *lazies) wait(index uint32, source *lazySource) {
	l.Lock()
	defer l.Unlock()
	if l.pages == nil {
		l.pages = make(map[uint32]*lazySource)
	}
	l.pages[index] = source
	source.users++
}

// forget lets a page wait no longer. The page is locked.
func (l *lazies) forget(index uint32) {
	l.Lock()
	defer l.Unlock()
	source, ok := l.pages[index]
	if !ok {
		return
	}
	delete(l.pages, index)
	source.leave()
}

// leave is the end of a load from a source.
func (l *lazies) leave(source *lazySource) {
	l.Lock()
	defer l.Unlock()
	source.leave()
}

func (s *lazySource) leave() {
	if s.users--; s.users == 0 {
		_ = s.state.Close()
	}
}

func (l *lazies) of(index uint32) *lazySource {
	l.Lock()
	defer l.Unlock()
	return l.pages[index]
}

// present gives a locked page its bytes where they wait in a snapshot.
func (p *locked) present() error {
	source := p.context.lazies.of(p.index)
	if source == nil {
		return nil
	}
	size := p.record.Size
	b, err := p.takeLike(size)
	if err != nil {
		return err
	}
	if err := source.state.ReadAt(recordID(p.index, p.state), snapshot.KindBytes, native.Bytes(native.RecordAt(b.index).Place, size), 0); err != nil {
		p.context.give(b)
		return err
	}
	p.state &^= native.Away
	p.swap(b.index)
	native.RecordAt(b.index).Size = 0
	native.GiveBlock(p.context.index, b.index)
	p.context.lazies.forget(p.index)
	native.Fence(p.index, p.state, size)
	return nil
}

// bring gives the bytes of a page that is away an address: for good where they waited in a snapshot, else until leave. The record is locked.
func bring(index uint32) int32 {
	c := contextOf(index)
	record := native.RecordAt(index)
	if c.lazies.of(index) != nil {
		p := &locked{context: c, index: index, record: record, state: record.LoadState() &^ native.OwnerMask}
		owner := record.LoadState() & native.OwnerMask
		err := p.present()
		record.StoreState(p.state | owner)
		return failed(err)
	}
	return failed(c.disk.bring(record))
}
