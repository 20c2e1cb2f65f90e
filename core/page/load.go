package page

import (
	"bytes"
	"libmmsb/core/file"
	"libmmsb/core/graph"
	"libmmsb/core/log"
	"libmmsb/core/metadata"
	"libmmsb/core/snapshot"
	"libmmsb/core/status"
	"libmmsb/core/ticket"
	"libmmsb/native"
)

// Loading a snapshot: its pages are made as blocks that nobody can see; when all are there and verified, the context is frozen, the pages that
// they replace end, and they become pages. Until that last step nothing of the context has changed.

// LoadOptions are those of mmsb_load_options_t.
type LoadOptions struct {
	Lazy             bool
	IDs              []uint64 // nil = the whole state
	Journal          string
	JournalUntil     uint64
	JournalUntilTime int64
	JournalPage      uint64 // only with JournalEpoch
	JournalEpoch     uint64
}

// LoadSource is where a snapshot comes from.
type LoadSource struct {
	path       string
	descriptor int32
	memory     []byte
	file.FS    // of a path
}

// FromPath, FromDescriptor and FromMemory are the sources there are.
func FromPath(path string) LoadSource { return LoadSource{path: path, FS: file.OS{}} }

// FromDescriptor reads a file descriptor of the caller to its end.
func FromDescriptor(descriptor int32) LoadSource { return LoadSource{descriptor: descriptor} }

// FromMemory reads memory of the caller.
func FromMemory(address uintptr, length uint64) LoadSource {
	return LoadSource{memory: native.Memory(address, length), descriptor: -1}
}

func (l *LoadSource) open(c *Context, done <-chan struct{}) (*snapshot.Snapshot, error) {
	switch {
	case l.FS != nil && l.path == "":
		return emptyState()
	case l.FS != nil:
		return snapshot.Open(l.path, snapshot.OpenOptions{FS: l.FS})
	case l.memory != nil:
		return snapshot.OpenSource(file.Bytes(l.memory), snapshot.OpenOptions{})
	}
	source, err := file.Spool(int(l.descriptor), c.options.DiskPath, done)
	if err != nil {
		return nil, err
	}
	return snapshot.OpenSource(source, snapshot.OpenOptions{})
}

// CheckLoad tells whether the arguments of a load are right.
func CheckLoad(context uint64, source LoadSource, o LoadOptions) error {
	return Use(context, func(*Context) error { return source.check(&o) })
}

func (l *LoadSource) check(o *LoadOptions) error {
	switch {
	case o.Journal != "" && o.IDs != nil:
		return status.Errorf(status.InvalidArgument, "a journal tells of the whole state, but %d pages are chosen", len(o.IDs))
	case l.FS != nil && l.path == "" && o.Journal == "":
		return status.Errorf(status.InvalidArgument, "the path is empty, and no journal is named")
	}
	return nil
}

// emptyState is a snapshot without pages: what a journal began with that has all its records.
func emptyState() (*snapshot.Snapshot, error) {
	sink, err := file.Memory()
	if err != nil {
		return nil, err
	}
	writer, err := snapshot.NewWriter(sink, snapshot.Header{}, snapshot.Options{})
	if err == nil {
		_, err = writer.Finish(0, 0)
	}
	if err != nil {
		sink.Abort()
		return nil, err
	}
	defer sink.Close()
	return snapshot.OpenSource(file.Bytes(bytes.Clone(sink.Bytes())), snapshot.OpenOptions{})
}

// Load makes the context what a snapshot says. w may be nil.
func Load(context uint64, source LoadSource, o LoadOptions, w *ticket.Work) error {
	var releases []func()
	err := Use(context, func(c *Context) error {
		if err := source.check(&o); err != nil {
			return err
		}
		if !c.saves.TryLock() {
			return status.Errorf(status.Busy, "another save or load of context 0x%016x is running", c.handle)
		}
		defer c.saves.Unlock()
		if _, ok := native.RingOf(c.index); ok {
			return status.Errorf(status.InvalidState, "context 0x%016x has a journal, which cannot tell of a load: close it first", c.handle)
		}
		var done <-chan struct{}
		if w != nil {
			done = w.Done()
		}
		state, err := source.open(c, done)
		if err != nil {
			return err
		}
		l := &loader{c: c, o: &o, work: w, state: state, pages: make(map[uint64]uint64), sums: make(map[uint32][]uint32)}
		releases, err = l.run()
		if l.source == nil {
			_ = state.Close()
		} else { // the last page that waits in it closes it
			c.lazies.leave(l.source)
		}
		return err
	})
	for _, release := range releases { // the callers' functions, outside every lock
		release()
	}
	return err
}

// loader is one load.
type loader struct {
	c     *Context
	o     *LoadOptions
	work  *ticket.Work
	state *snapshot.Snapshot

	staged []staged
	pages  map[uint64]uint64 // handle that a page will have, by id
	sums   map[uint32][]uint32
	graph  *graph.Graph
	done   uint64

	inSnapshot []staged // where a journal is replayed: what was staged before
	replayed   uint64   // the last record that the staged pages have

	source *lazySource // of pages that are loaded lazily
}

// staged is a block that becomes a page.
type staged struct {
	id, size, epoch, version, low uint64
	index, sum, generation        uint32
}

func (l *loader) run() (releases []func(), err error) {
	defer func() {
		if err != nil {
			l.drop()
		}
	}()
	if l.work != nil {
		l.work.SetTotal(l.state.Totals().StateBytes)
	}
	var want func(id uint64) bool
	if l.o.IDs != nil {
		chosen := make(map[uint64]struct{}, len(l.o.IDs))
		for _, id := range l.o.IDs {
			chosen[id] = struct{}{}
		}
		want = func(id uint64) bool { _, ok := chosen[id]; return ok }
	} else {
		const most = 1 << 20 // what the file says is not yet proven
		expected := min(l.state.Totals().StatePages, most)
		l.staged, l.pages = make([]staged, 0, expected), make(map[uint64]uint64, expected)
	}
	if l.o.Lazy {
		want, err = l.stageLazy(want)
		if err != nil {
			return nil, err
		}
	}
	if err := l.state.Segments(snapshot.LoadOptions{Want: want}, l.segment); err != nil {
		return nil, err
	}
	for _, id := range l.o.IDs {
		if _, ok := l.pages[id]; !ok {
			return nil, status.Errorf(status.NotFound, "the snapshot has no page %d", id)
		}
	}
	if l.o.IDs == nil {
		if err := l.edges(); err != nil {
			return nil, err
		}
	}
	l.replayed = l.state.Header().Journal
	if err := l.replayJournal(); err != nil {
		return nil, err
	}
	releases, err = l.commit()
	if err != nil {
		return releases, err
	}
	if l.o.IDs == nil {
		l.c.journals.at = l.replayed
	}
	l.staged = nil // they are pages now
	return releases, nil
}

// goesOn says whether the load is still wanted.
func (l *loader) goesOn() error {
	if l.c.saves.ending.Load() {
		return status.Errorf(status.StaleHandle, "context 0x%016x is ending", l.c.handle)
	}
	if l.work != nil && l.work.Cancelled() {
		return status.Errorf(status.Cancelled, "cancelled after %d bytes", l.done)
	}
	return nil
}

// segment makes blocks of the pages in a segment.
func (l *loader) segment(segment snapshot.Loaded) error {
	if err := l.goesOn(); err != nil {
		return err
	}
	for i := range segment.Pages {
		page := &segment.Pages[i]
		var index uint32
		if page.Flags&snapshot.FlagKnown == 0 {
			if err := l.stage(page); err != nil {
				return err
			}
			index = l.staged[len(l.staged)-1].index
		} else {
			index = native.Index(l.pages[page.ID])
		}
		for at := range segment.Extents[page.FirstExtent:][:page.Extents] {
			extent := &segment.Extents[page.FirstExtent:][at]
			if err := l.extent(page, index, extent, segment.Bytes); err != nil {
				return err
			}
		}
	}
	if l.work != nil {
		l.work.Progress(l.done)
	}
	return nil
}

// stageLazy makes records of large pages, whose bytes stay in the file for now, and returns who is to be read.
func (l *loader) stageLazy(want func(id uint64) bool) (rest func(id uint64) bool, err error) {
	l.source = &lazySource{state: l.state, users: 1}
	err = l.state.Segments(snapshot.LoadOptions{Want: want, TablesOnly: true}, func(segment snapshot.Loaded) error {
		for i := range segment.Pages {
			page := &segment.Pages[i]
			if page.Size <= native.SmallMax || page.Location == LocationDisk {
				continue
			}
			if page.Flags&snapshot.FlagKnown == 0 {
				if err := l.stageOneLazy(page); err != nil {
					return err
				}
			}
			l.noteSums(page, segment.Extents[page.FirstExtent:][:page.Extents])
		}
		return l.goesOn()
	})
	if err != nil {
		return nil, err
	}
	for i := range l.staged {
		if err := l.readBeside(&l.staged[i]); err != nil {
			return nil, err
		}
	}
	return func(id uint64) bool {
		_, staged := l.pages[id]
		return !staged && (want == nil || want(id))
	}, nil
}

func (l *loader) stageOneLazy(page *snapshot.Page) error {
	if err := checkSize(page.Size); err != nil {
		return err
	}
	location, err := resolve(page.Location, page.Device, l.c.options.Fallback)
	if err != nil {
		return err
	}
	index, err := l.c.takeBare()
	if err != nil {
		return err
	}
	page.NUMANode = -1 // memory comes later, from anywhere
	l.c.lazies.wait(index, l.source)
	return l.note(page, block{index: index, location: native.Away | uint64(location)<<native.LocationShift})
}

// noteSums notes checksums of a page's chunks, as far as the file has them. A chunk that is not known is saved when in doubt.
func (l *loader) noteSums(page *snapshot.Page, extents []snapshot.Extent) {
	index := native.Index(l.pages[page.ID])
	for i := range extents {
		extent := &extents[i]
		switch sums := l.sums[index]; {
		case extent.Kind != snapshot.KindBytes || extent.Compression != snapshot.Uncompressed:
		case sums != nil:
			sums[extent.Offset/native.ChunkBytes] = extent.CRC
		case page.Flags&snapshot.FlagKnown == 0:
			l.staged[len(l.staged)-1].sum = extent.CRC
		}
	}
}

// readBeside reads what belongs to a lazy page beside its bytes.
func (l *loader) readBeside(s *staged) error {
	has, err := l.state.HasMask(s.id)
	if err != nil {
		return err
	}
	if has {
		length := (s.size + 7) / 8
		block, code := native.TakeBlock(l.c.index, length)
		if code != 0 {
			return fromNative(code)
		}
		native.UseMask(s.index, block)
		if err := l.state.ReadAt(s.id, snapshot.KindMask, native.Bytes(native.RecordAt(s.index).MaskPlace, length), 0); err != nil {
			return err
		}
	}
	blob, err := l.state.Metadata(s.id)
	if err != nil || len(blob) == 0 {
		return err
	}
	count, err := metadata.Validate(blob)
	if err != nil {
		return status.Errorf(status.Corrupt, "page %d: %v", s.id, err)
	}
	return (&locked{context: l.c, index: s.index, record: native.RecordAt(s.index)}).storeMetadata(blob, uint32(count), nil)
}

// stage takes memory for a page.
func (l *loader) stage(page *snapshot.Page) error {
	c := l.c
	if err := checkSize(page.Size); err != nil {
		return err
	}
	location, err := resolve(page.Location, page.Device, c.options.Fallback)
	if err != nil {
		return err
	}
	var b block
	switch {
	case location == LocationDisk:
		b, err = c.takeDisk(page.Size)
	case page.NUMANode >= 0:
		if b, err = c.takeOnNode(page.Size, page.NUMANode); err != nil { // this machine may have no such node
			page.NUMANode = -1
			b, err = c.takeHost(page.Size, false)
		}
	default: // every byte comes from the file
		b, err = c.takeHost(page.Size, false)
	}
	if err != nil {
		return err
	}
	return l.note(page, b)
}

// note notes a block that becomes a page.
func (l *loader) note(page *snapshot.Page, b block) error {
	record := native.RecordAt(b.index)
	p := &locked{context: l.c, index: b.index, record: record}
	cold, err := p.cold()
	if err != nil {
		l.c.lazies.forget(b.index)
		l.c.give(b)
		return err
	}
	cold.ID, cold.DiskOffset, cold.DiskLength, cold.NUMANode = page.ID, b.disk.offset, b.disk.length, page.NUMANode
	generation := native.Generation(record.LoadState())
	l.staged = append(l.staged, staged{
		id: page.ID, size: page.Size, epoch: page.Epoch, version: page.Version, low: b.location | native.ExplicitID, index: b.index,
		generation: generation,
	})
	before := len(l.pages)
	l.pages[page.ID] = native.Handle(native.KindPage, generation, b.index)
	if len(l.pages) == before {
		return status.Errorf(status.Corrupt, "page %d is in the snapshot twice", page.ID)
	}
	if page.Size > native.ChunkBytes {
		l.sums[b.index] = make([]uint32, (page.Size+native.ChunkBytes-1)/native.ChunkBytes)
	}
	return nil
}

// extent puts a part of a page where it belongs.
func (l *loader) extent(page *snapshot.Page, index uint32, extent *snapshot.Extent, bytes []byte) error {
	c := l.c
	record := native.RecordAt(index)
	var content []byte
	switch extent.Compression {
	case snapshot.Zeros:
		content = make([]byte, extent.Length)
	case snapshot.Zstd:
		content = make([]byte, extent.Length)
		if !snapshot.Decompress(content, bytes[extent.At:][:extent.Stored]) {
			return status.Errorf(status.Corrupt, "page %d: the part at %d cannot be decompressed", page.ID, extent.Offset)
		}
	default:
		content = bytes[extent.At:][:extent.Stored]
	}
	switch extent.Kind {
	case snapshot.KindBytes:
		sum := extent.CRC
		if extent.Compression != snapshot.Uncompressed {
			sum = native.Checksum(content)
		}
		if page.Size > native.ChunkBytes {
			l.sums[index][extent.Offset/native.ChunkBytes] = sum
		} else if page.Flags&snapshot.FlagKnown == 0 { // else it is not known, and the page is saved if in doubt
			l.staged[len(l.staged)-1].sum = sum
		}
		l.done += uint64(extent.Length)
		if cold := native.ColdAt(record.Cold); cold.DiskLength > 0 {
			return c.disk.write(diskExtent{cold.DiskOffset + extent.Offset, uint64(extent.Length)}, content)
		}
		copy(native.Bytes(record.Place, page.Size)[extent.Offset:], content)
	case snapshot.KindMask:
		if record.MaskBlock == 0 {
			block, code := native.TakeBlock(c.index, (page.Size+7)/8)
			if code != 0 {
				return fromNative(code)
			}
			native.UseMask(index, block)
		}
		copy(native.Bytes(record.MaskPlace, (page.Size+7)/8)[extent.Offset:], content)
	case snapshot.KindMetadata:
		return l.metadata(page, index, extent, content)
	}
	return nil
}

// metadata collects a page's blob and takes it when it is whole.
func (l *loader) metadata(page *snapshot.Page, index uint32, extent *snapshot.Extent, content []byte) error {
	blob := content
	if page.Flags&snapshot.FlagKnown != 0 || extent.Offset > 0 || extent.Length == snapshot.Chunk { // perhaps one part of several
		var err error
		if blob, err = l.state.Metadata(page.ID); err != nil {
			return err
		}
	}
	count, err := metadata.Validate(blob)
	if err != nil {
		return status.Errorf(status.Corrupt, "page %d: %v", page.ID, err)
	}
	if uint32(count) != page.MetadataCount {
		return status.Errorf(status.Corrupt, "page %d: %d metadata keys, its entry says %d", page.ID, count, page.MetadataCount)
	}
	return (&locked{context: l.c, index: index, record: native.RecordAt(index)}).storeMetadata(blob, uint32(count), nil)
}

// edges makes the graph of dependencies. Edges of pages that are not in the state are ignored.
func (l *loader) edges() error {
	l.graph = graph.New(l.c.nodeName)
	for edge, err := range l.state.Edges() {
		if err != nil {
			return err
		}
		parent, parentOK := l.pages[edge[0]]
		child, childOK := l.pages[edge[1]]
		if !parentOK || !childOK {
			continue
		}
		if err := l.graph.Add(native.Index(parent), native.Index(child)); err != nil {
			return status.Errorf(status.Corrupt, "page %d cannot depend on page %d: twice, or in a cycle", edge[1], edge[0])
		}
	}
	return nil
}

// drop gives back what was staged.
func (l *loader) drop() {
	for i := range l.staged {
		l.dropOne(&l.staged[i])
	}
}

func (l *loader) dropOne(s *staged) {
	record := native.RecordAt(s.index)
	l.c.lazies.forget(s.index)
	l.c.metadataGone(record)
	if record.MaskBlock != 0 {
		native.DropMask(s.index)
	}
	b := block{index: s.index}
	if record.Cold != 0 {
		cold := native.ColdAt(record.Cold)
		b.disk = diskExtent{cold.DiskOffset, cold.DiskLength}
		giveCold(record.Cold)
		record.Cold = 0
	}
	l.c.give(b)
}

// commit ends the pages that are replaced and begins the new ones.
func (l *loader) commit() (releases []func(), err error) {
	c := l.c
	c.creating.Lock()
	defer c.creating.Unlock()
	if code := native.Freeze(c.index); code != 0 {
		return nil, fromNative(code)
	}
	defer native.Thaw(c.index)
	old, err := l.lockOld()
	if err != nil {
		return nil, err
	}
	if l.o.IDs == nil { // none of the ids stays, so that none is looked for
		c.ids.Lock()
		c.ids.explicit = make(map[uint64]uint64)
		c.ids.Unlock()
	}
	for _, page := range old {
		if page.state&native.Adopted != 0 {
			cold := native.ColdAt(page.record.Cold)
			if function, user := cold.Release, cold.User; function != 0 {
				base, size := native.Address(page.record.Place), page.record.Size
				releases = append(releases, func() { native.CallRelease(function, user, base, size) })
			}
			cold.Release, cold.User = 0, 0
		}
		c.takeApart(page.index, page.state)
	}
	l.takeIDs()
	for i := range l.staged {
		s := &l.staged[i]
		native.PublishPage(s.index, s.size, s.low, s.epoch, s.version)
	}
	l.remember()
	log.Logf(log.Info, "context 0x%016x loaded: %d pages, snapshot %s", c.handle, len(l.staged), l.state.Header().ID)
	return releases, nil
}

// lockOld locks the pages that end; none where one of them is pinned.
func (l *loader) lockOld() (old []*locked, err error) {
	unlock := func() {
		for _, page := range old {
			page.unlock()
		}
	}
	take := func(index uint32) error {
		state := native.RecordAt(index).LoadState()
		if native.Kind(state) != native.KindPage {
			return nil
		}
		p, err := lock(native.Handle(native.KindPage, native.Generation(state), index))
		if err != nil { // it has ended meanwhile, and none begins
			return nil
		}
		old = append(old, p)
		return p.notPinned()
	}
	if l.o.IDs != nil {
		for i := range l.staged {
			if handle, err := l.c.Lookup(l.staged[i].id); err == nil {
				if err := take(native.Index(handle)); err != nil {
					unlock()
					return nil, err
				}
			}
		}
		return old, nil
	}
	for _, chunk := range l.c.chunks() {
		for record := range chunk.used {
			index := chunk.first() + record
			if err := take(index); err != nil {
				unlock()
				return nil, err
			}
		}
	}
	return old, nil
}

// takeIDs makes the new pages' ids those of the context. Nobody creates pages meanwhile.
func (l *loader) takeIDs() {
	c := l.c
	i := &c.ids
	i.Lock()
	defer i.Unlock()
	if l.o.IDs == nil {
		i.explicit = l.pages
	} else {
		for id, page := range l.pages {
			i.explicit[id] = page
		}
	}
	for id := range l.pages {
		if id&^native.IDMask == native.IDAutomatic {
			i.mark(c.index, id)
		}
	}
	c.dependencies.Lock()
	if l.graph != nil {
		c.dependencies.graph = l.graph
	}
	c.dependencies.Unlock()
}

// remember notes what the context's pages are in the snapshot, for incremental saves.
func (l *loader) remember() {
	c := l.c
	for _, chunk := range c.chunks() {
		native.ForgetSaved(chunk.number)
	}
	saves := &c.saves
	saves.lineage, saves.large = nil, make(map[uint32]largeSaved)
	if l.o.IDs != nil || l.state.Header().Version != snapshot.Version {
		return
	}
	chain := l.state.Chain()
	for i := len(chain) - 1; i >= 0; i-- {
		saves.lineage = append(saves.lineage, chain[i].ID)
	}
	totals := l.state.Totals()
	saves.totals.pages, saves.totals.bytes = totals.StatePages, totals.StateBytes
	known := l.staged
	if l.o.Journal != "" {
		known = l.inSnapshot
	}
	for i := range known {
		s := &known[i]
		saved := native.SavedChunk(s.index >> native.ChunkBits)
		if saved == nil { // then the next save must be a whole one
			saves.lineage = nil
			return
		}
		saved[s.index&(native.ChunkRecords-1)] = native.Saved{Version: s.version, ID: s.id, Size: s.size, Generation: s.generation, CRC: s.sum}
		if sums := l.sums[s.index]; sums != nil {
			saves.large[s.index] = largeSaved{generation: s.generation, sums: sums}
		}
	}
}
