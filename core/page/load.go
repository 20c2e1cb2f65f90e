package page

import (
	"bytes"
	"sync"

	"libmmsb/core/file"
	"libmmsb/core/graph"
	"libmmsb/core/log"
	"libmmsb/core/metadata"
	"libmmsb/core/safego"
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

	staged []native.Staged
	pages  map[uint64]uint64   // handle that a page will have, by id
	sums   map[uint32][]uint32 // of the chunks of large pages, by record
	graph  *graph.Graph
	done   uint64
	// filling is held where goroutines that fill pages meet the one that stages them: at staged and sums.
	filling sync.Mutex

	inSnapshot []native.Staged // where a journal is replayed: what was staged before
	replayed   uint64          // the last record that the staged pages have

	source *lazySource // of pages that are loaded lazily
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
		l.staged, l.pages = make([]native.Staged, 0, expected), make(map[uint64]uint64, expected)
	}
	if l.o.Lazy {
		want, err = l.stageLazy(want)
		if err != nil {
			return nil, err
		}
	}
	if err := l.state.ParallelSegments(snapshot.LoadOptions{Want: want, SumsLater: true}, l.segment); err != nil {
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

// segment makes blocks of the pages in a segment, and gives them all but their bytes, which fill brings.
func (l *loader) segment(segment snapshot.Loaded) (fill func() error, err error) {
	if err := l.goesOn(); err != nil {
		return nil, err
	}
	first := len(l.staged)
	indices, err := l.stage(segment.Pages)
	if err != nil {
		return nil, err
	}
	for i := range segment.Pages {
		page := &segment.Pages[i]
		for at := range segment.Extents[page.FirstExtent:][:page.Extents] {
			extent := &segment.Extents[page.FirstExtent:][at]
			if extent.Kind == snapshot.KindBytes {
				l.done += uint64(extent.Length)
			} else if err := l.beside(page, indices[i], extent, segment.Bytes); err != nil {
				return nil, err
			}
		}
	}
	if l.work != nil {
		l.work.Progress(l.done)
	}
	return func() error { return l.fill(segment, indices, first) }, nil
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
	to, err := l.c.resolve(page.Location, page.Device)
	if err != nil {
		return err
	}
	index, err := l.c.takeBare()
	if err != nil {
		return err
	}
	page.NUMANode = -1 // memory comes later, from anywhere
	l.c.lazies.wait(index, l.source)
	return l.noteOne(page, block{
		index: index, away: away{device: to.device}, location: native.Nonresident | uint64(to.location)<<native.LocationShift,
	})
}

// noteSums notes checksums of a page's chunks, as far as the file has them. A chunk that is not known is saved when in doubt.
func (l *loader) noteSums(page *snapshot.Page, extents []snapshot.Extent) {
	index := native.Index(l.pages[page.ID])
	for i := range extents {
		extent := &extents[i]
		switch sums := l.sums[index]; {
		case extent.Kind != snapshot.KindBytes || extent.Compression != snapshot.Uncompressed:
		case sums != nil && isChunk(page, extent):
			sums[extent.Offset/native.ChunkBytes] = extent.CRC
		case sums == nil && page.Flags&snapshot.FlagKnown == 0:
			l.staged[len(l.staged)-1].CRC = extent.CRC
		}
	}
}

// isChunk says whether a stretch of a page's bytes is a whole chunk, and not blocks of one that lies in several files.
func isChunk(page *snapshot.Page, extent *snapshot.Extent) bool {
	return extent.Offset%native.ChunkBytes == 0 && uint64(extent.Length) == min(native.ChunkBytes, page.Size-extent.Offset)
}

// readBeside reads what belongs to a lazy page beside its bytes.
func (l *loader) readBeside(s *native.Staged) error {
	has, err := l.state.HasMask(s.ID)
	if err != nil {
		return err
	}
	if has {
		length := (s.Size + 7) / 8
		block, code := native.TakeFrame(l.c.index, length)
		if code != 0 {
			return fromNative(code)
		}
		native.UseMask(s.Index, block)
		mask := native.Bytes(native.RecordAt(s.Index).MaskLocator, length)
		if err := l.state.ReadAt(s.ID, snapshot.KindMask, mask, 0); err != nil {
			return err
		}
	}
	blob, err := l.state.Metadata(s.ID)
	if err != nil || len(blob) == 0 {
		return err
	}
	count, err := metadata.Validate(blob)
	if err != nil {
		return status.Errorf(status.Corrupt, "page %d: %v", s.ID, err)
	}
	return (&locked{context: l.c, index: s.Index, record: native.RecordAt(s.Index)}).storeMetadata(blob, uint32(count), nil)
}

// stage makes blocks for those pages that come for the first time, and says which records all of them have.
func (l *loader) stage(pages []snapshot.Page) (indices []uint32, err error) {
	indices = make([]uint32, len(pages))
	for i := 0; i < len(pages); {
		page, count := &pages[i], 1
		switch {
		case page.Flags&snapshot.FlagKnown != 0:
			indices[i] = native.Index(l.pages[page.ID])
		case isSmall(page):
			for i+count < len(pages) && isSmall(&pages[i+count]) && pages[i+count].Size == page.Size {
				count++
			}
			err = l.stageSmall(pages[i:][:count], indices[i:])
		default:
			indices[i], err = l.stageOne(page)
		}
		if err != nil {
			return nil, err
		}
		i += count
	}
	return indices, nil
}

// isSmall tells a page that comes for the first time and goes into small memory.
func isSmall(page *snapshot.Page) bool {
	return page.Flags&snapshot.FlagKnown == 0 && page.Size-1 < native.SmallMax && page.Location == LocationCPU &&
		page.Device == 0 && page.NUMANode < 0
}

// stageSmall takes memory for small pages of one size. Every byte of it comes from the file.
func (l *loader) stageSmall(pages []snapshot.Page, indices []uint32) error {
	indices = indices[:len(pages)]
	if code := native.TakeFrames(l.c.index, pages[0].Size, false, indices); code != 0 {
		return fromNative(code)
	}
	return l.note(pages, indices, block{})
}

// stageOne takes memory for a page.
func (l *loader) stageOne(page *snapshot.Page) (uint32, error) {
	c := l.c
	if err := checkSize(page.Size); err != nil {
		return 0, err
	}
	to, err := c.resolve(page.Location, page.Device)
	if err != nil {
		return 0, err
	}
	b, err := c.takeAt(to, page.Size, page.NUMANode, false) // every byte comes from the file
	if err != nil && page.NUMANode >= 0 {                   // this machine may have no such node
		page.NUMANode = -1
		b, err = c.takeAt(to, page.Size, -1, false)
	}
	if err != nil {
		return 0, err
	}
	return b.index, l.noteOne(page, b)
}

func (l *loader) noteOne(page *snapshot.Page, b block) error {
	return l.note([]snapshot.Page{*page}, []uint32{b.index}, b)
}

// note notes blocks that become pages, of one kind as b says.
func (l *loader) note(pages []snapshot.Page, indices []uint32, b block) error {
	sides := make([]uint32, len(pages))
	if err := takeSides(sides); err != nil {
		for _, index := range indices {
			l.c.lazies.forget(index)
			l.c.give(block{index: index, away: b.away})
		}
		return err
	}
	l.filling.Lock()
	defer l.filling.Unlock()
	var twice error
	for i := range pages {
		page, index := &pages[i], indices[i]
		record, side := native.RecordAt(index), native.SideAt(sides[i])
		generation := native.Generation(record.LoadState())
		record.Side = sides[i]
		side.ID, side.NUMANode = page.ID, page.NUMANode
		b.away.note(side)
		l.staged = append(l.staged, native.Staged{
			ID: page.ID, Size: page.Size, Epoch: page.Epoch, Version: page.Version, Low: b.location | native.ExplicitID,
			Index: index, Generation: generation,
		})
		l.pages[page.ID] = native.Handle(native.KindPage, generation, index)
		if len(l.pages) != len(l.staged) && twice == nil {
			twice = status.Errorf(status.Corrupt, "page %d is in the snapshot twice", page.ID)
		}
		if page.Size > native.ChunkBytes {
			l.sums[index] = make([]uint32, (page.Size+native.ChunkBytes-1)/native.ChunkBytes)
		}
	}
	return twice
}

// fill puts a segment's bytes into its pages, of which first is the first one that was staged. Several segments are filled at a
// time.
func (l *loader) fill(segment snapshot.Loaded, indices []uint32, first int) error {
	sums := make([]uint32, len(segment.Extents))
	for i := range segment.Pages {
		page := &segment.Pages[i]
		for at := page.FirstExtent; at < page.FirstExtent+page.Extents; at++ {
			extent := &segment.Extents[at]
			if extent.Kind != snapshot.KindBytes {
				continue
			}
			var err error
			if sums[at], err = l.fillPart(&segment, page, indices[i], extent); err != nil {
				return err
			}
		}
	}
	l.filling.Lock()
	defer l.filling.Unlock()
	for i := range segment.Pages {
		page := &segment.Pages[i]
		var staged *native.Staged // nil: the page came before; its sum is not known, and it is saved if in doubt
		if page.Flags&snapshot.FlagKnown == 0 {
			staged = &l.staged[first]
			first++
		}
		for at := page.FirstExtent; at < page.FirstExtent+page.Extents; at++ {
			extent := &segment.Extents[at]
			switch {
			case extent.Kind != snapshot.KindBytes:
			case page.Size > native.ChunkBytes:
				if isChunk(page, extent) {
					l.sums[indices[i]][extent.Offset/native.ChunkBytes] = sums[at]
				}
			case staged != nil:
				staged.CRC = sums[at]
			}
		}
	}
	return nil
}

// fillPart puts a part of a page where it belongs, and returns its checksum.
func (l *loader) fillPart(segment *snapshot.Loaded, page *snapshot.Page, index uint32, extent *snapshot.Extent) (sum uint32, err error) {
	record := native.RecordAt(index)
	a := awayOf(native.SideAt(record.Side))
	stored := segment.Bytes[extent.At:][:extent.Stored]
	if a.length > 0 && extent.Compression == snapshot.Uncompressed {
		if segment.SumsLater {
			err = segment.CheckBytes(page, extent, stored)
		}
		if err == nil {
			err = l.c.writeAway(a, extent.Offset, stored)
		}
		return extent.CRC, err
	}
	var into []byte
	if a.length > 0 {
		into = make([]byte, extent.Length)
	} else {
		into = native.Bytes(record.Locator, page.Size)[extent.Offset:][:extent.Length]
	}
	switch extent.Compression {
	case snapshot.Uncompressed:
		copy(into, stored)
		if segment.SumsLater { // of the copy: it is in the cache now, and nobody sees it yet
			err = segment.CheckBytes(page, extent, into)
		}
		return extent.CRC, err
	case snapshot.Zeros:
		clear(into)
	default:
		if !snapshot.Decompress(into, stored) {
			return 0, status.Errorf(status.Corrupt, "page %d: the part at %d cannot be decompressed", page.ID, extent.Offset)
		}
	}
	if a.length > 0 {
		err = l.c.writeAway(a, extent.Offset, into)
	}
	return native.Checksum(into), err
}

// beside takes a part of a page's mask or metadata.
func (l *loader) beside(page *snapshot.Page, index uint32, extent *snapshot.Extent, bytes []byte) error {
	content := bytes[extent.At:][:extent.Stored]
	if extent.Compression != snapshot.Uncompressed {
		content = make([]byte, extent.Length)
		if extent.Compression == snapshot.Zstd && !snapshot.Decompress(content, bytes[extent.At:][:extent.Stored]) {
			return status.Errorf(status.Corrupt, "page %d: the part at %d cannot be decompressed", page.ID, extent.Offset)
		}
	}
	if extent.Kind == snapshot.KindMetadata {
		return l.metadata(page, index, extent, content)
	}
	record := native.RecordAt(index)
	if record.MaskFrame == 0 {
		block, code := native.TakeFrame(l.c.index, (page.Size+7)/8)
		if code != 0 {
			return fromNative(code)
		}
		native.UseMask(index, block)
	}
	copy(native.Bytes(record.MaskLocator, (page.Size+7)/8)[extent.Offset:], content)
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

func (l *loader) dropOne(s *native.Staged) {
	record := native.RecordAt(s.Index)
	l.c.lazies.forget(s.Index)
	l.c.metadataGone(record)
	if record.MaskFrame != 0 {
		native.DropMask(s.Index)
	}
	b := block{index: s.Index}
	if record.Side != 0 {
		side := native.SideAt(record.Side)
		b.away = awayOf(side)
		giveSide(record.Side)
		record.Side = 0
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
	if l.o.IDs == nil {
		releases, err = l.endAll()
	} else {
		releases, err = l.endChosen()
	}
	if err != nil {
		return nil, err
	}
	remembered := make(chan struct{})
	safego.Go(func() { // what it notes only a save reads, and there is none
		defer close(remembered)
		l.remember()
	})
	l.takeIDs()
	native.PublishPages(c.index, l.staged)
	<-remembered
	log.Logf(log.Info, "context 0x%016x loaded: %d pages, snapshot %s", c.handle, len(l.staged), l.state.Header().ID)
	return releases, nil
}

// endAll ends all pages of the context; none where one of them is pinned.
func (l *loader) endAll() (releases []func(), err error) {
	c := l.c
	chunks := c.chunks()
	for i, chunk := range chunks {
		looked := native.LockRecords(chunk.first(), chunk.used)
		if looked == chunk.used {
			continue
		}
		index := chunk.first() + looked
		record := native.RecordAt(index)
		page := native.Handle(native.KindPage, native.Generation(record.LoadState()), index)
		err := (&locked{handle: page, record: record}).notPinned()
		native.UnlockRecords(chunk.first(), looked+1)
		for _, chunk := range chunks[:i] {
			native.UnlockRecords(chunk.first(), chunk.used)
		}
		return nil, err
	}
	c.ids.Lock()
	c.ids.explicit = make(map[uint64]uint64) // none of them stays, so that none is looked for
	c.ids.Unlock()
	finished := new(native.Finished)
	for _, chunk := range chunks {
		sides, left := finished.FinishRecords(chunk.first(), chunk.used)
		giveSides(sides)
		for _, index := range left {
			releases = c.endReplaced(index, releases)
		}
	}
	return releases, nil
}

// endChosen ends the pages whose ids are those of staged ones; none where one of them is pinned.
func (l *loader) endChosen() (releases []func(), err error) {
	var old []*locked
	for i := range l.staged {
		handle, err := l.c.Lookup(l.staged[i].ID)
		if err != nil {
			continue
		}
		page, err := lock(handle)
		if err != nil { // it has ended meanwhile, and none begins
			continue
		}
		old = append(old, page)
		if err := page.notPinned(); err != nil {
			for _, page := range old {
				page.unlock()
			}
			return nil, err
		}
	}
	for _, page := range old {
		releases = l.c.endReplaced(page.index, releases)
	}
	return releases, nil
}

// endReplaced ends a locked page. Where its memory is the caller's, releases gets the call that gives it back.
func (c *Context) endReplaced(index uint32, releases []func()) []func() {
	record := native.RecordAt(index)
	state := record.LoadState() &^ native.OwnerMask
	if state&native.Adopted != 0 {
		side := native.SideAt(record.Side)
		if function, user := side.Release, side.User; function != 0 {
			base, size := native.Address(record.Locator), record.Size
			releases = append(releases, func() { native.CallRelease(function, user, base, size) })
		}
		side.Release, side.User = 0, 0
	}
	c.takeApart(index, state)
	return releases
}

// takeIDs makes the new pages' ids those of the context. Nobody creates pages meanwhile.
func (l *loader) takeIDs() {
	c := l.c
	i := &c.ids
	i.Lock()
	defer i.Unlock()
	if l.o.IDs == nil {
		i.explicit = l.pages
		clear(i.waiting) // no other id is in use
		i.waits = 0
	} else {
		i.tidy(c.index)
		for id, page := range l.pages {
			i.explicit[id] = page
		}
	}
	for at := range l.staged {
		if id := l.staged[at].ID; id&^native.IDMask == native.IDAutomatic {
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
	var saved *[native.LeafRecords]native.Saved
	for i := range known {
		s := &known[i]
		if i == 0 || s.Index>>native.LeafBits != known[i-1].Index>>native.LeafBits {
			saved = native.SavedLeaf(s.Index >> native.LeafBits)
		}
		if saved == nil { // then the next save must be a whole one
			saves.lineage = nil
			return
		}
		saved[s.Index&(native.LeafRecords-1)] = native.Saved{
			Version: s.Version, ID: s.ID, Size: s.Size, Generation: s.Generation, CRC: s.CRC,
		}
		if sums := l.sums[s.Index]; sums != nil {
			saves.large[s.Index] = largeSaved{generation: s.Generation, sums: sums, layers: make([]uint8, len(sums))}
		}
	}
}
