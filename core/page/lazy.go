package page

import (
	"sync"

	"libmmsb/core/mem"
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
	if err := p.readInto(b, source, size); err != nil {
		p.context.give(b)
		return err
	}
	if p.record.Side != 0 {
		b.away.note(native.SideAt(p.record.Side))
	}
	p.state = p.state&^native.Nonresident | b.location&native.Nonresident
	p.swap(b.index)
	native.RecordAt(b.index).Size = 0
	native.GiveFrame(p.context.index, b.index)
	p.context.lazies.forget(p.index)
	if p.state&native.Nonresident == 0 {
		native.Redzone(p.index, p.state, size)
	}
	return nil
}

// readInto reads the page's bytes from a snapshot into a block.
func (p *locked) readInto(b block, source *lazySource, size uint64) error {
	id := recordID(p.index, p.state)
	if b.away.length == 0 {
		return source.state.ReadAt(id, snapshot.KindBytes, native.Bytes(native.RecordAt(b.index).Locator, size), 0)
	}
	region, err := mem.Map(size, p.context.options.HugePages)
	if err != nil {
		return err
	}
	defer mem.Unmap(region)
	bytes := native.Bytes(native.Locator(region, 0), size)
	if err := source.state.ReadAt(id, snapshot.KindBytes, bytes, 0); err != nil {
		return err
	}
	return p.context.writeAway(b.away, 0, bytes)
}
