package page

import (
	"math"
	"math/bits"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"libmmsb/core/file"
	"libmmsb/core/log"
	"libmmsb/core/safego"
	"libmmsb/core/snapshot"
	"libmmsb/core/status"
	"libmmsb/core/ticket"
	"libmmsb/native"
)

// Saving a context: native/capture.h gives its pages as they were at one moment, core/snapshot writes them.

const (
	defaultCopyLimit = 256 << 20
	leastCopyLimit   = 4 << 20
)

// SaveOptions are those of mmsb_save_options_t.
type SaveOptions struct {
	Compression, Level int32
	RefuseRawWrites    bool
	NotDurable         bool
	CopyLimit          uint64
	Base               string
}

// SaveTarget is where a snapshot goes.
type SaveTarget struct {
	path       string
	descriptor int32
	memory     *uintptr
	length     *uint64
	file.FS    // of a path; nil is the real one
}

// ToPath, ToDescriptor and ToMemory are the targets there are.
func ToPath(path string) SaveTarget { return SaveTarget{path: path, FS: file.OS{}} }

// ToDescriptor writes to a file descriptor of the caller.
func ToDescriptor(descriptor int32) SaveTarget { return SaveTarget{descriptor: descriptor} }

// ToMemory writes into memory that FreeSaved gives back.
func ToMemory(memory *uintptr, length *uint64) SaveTarget {
	return SaveTarget{memory: memory, length: length}
}

// saves is what a context knows of its snapshots. One save or load runs at a time.
type saves struct {
	sync.Mutex
	ending atomic.Bool // the context is to end: give up

	// lineage is the snapshots that the state comes from, the newest last; native.LastSaved tells of that one.
	lineage []snapshot.ID
	totals  struct{ pages, bytes uint64 } // of the newest
	large   map[uint32]largeSaved         // by record

	statistics sync.Mutex
	stats      SaveStats
	running    native.Capture
	isRunning  bool
}

// largeSaved is what the newest snapshot has of a large page.
type largeSaved struct {
	generation uint32
	sums       []uint32 // checksums of its chunks; 0 is not known
	layers     []uint8  // in how many newer files blocks of a chunk lie
	tracked    bool     // the kernel counts what was written since
}

// mostLayers is how many files a chunk's blocks may lie in before it is written whole again: each makes reading it longer.
const mostLayers = 32

// SaveStats are those of mmsb_save_stats_t.
type SaveStats struct {
	Saves, LastPages, LastBytes, LastDurationNs, CopiedBytes, CopiedPeak, Waits, WaitedNs, ComparedBytes uint64
}

// GetSaveStats are a context's.
func GetSaveStats(context uint64) (stats SaveStats, err error) {
	err = Use(context, func(c *Context) error {
		s := &c.saves
		s.statistics.Lock()
		defer s.statistics.Unlock()
		if s.isRunning {
			s.note(s.running.Stats())
		}
		stats = s.stats
		return nil
	})
	return stats, err
}

func (s *saves) note(n native.CaptureStats) {
	s.stats.CopiedBytes, s.stats.CopiedPeak, s.stats.Waits = n.CopiedBytes, n.CopiedPeak, n.Waits
	s.stats.WaitedNs, s.stats.ComparedBytes = n.WaitedNs, n.ComparedBytes
}

// CheckSave tells whether the arguments of a save are right.
func CheckSave(context uint64, target SaveTarget, o SaveOptions) error {
	return Use(context, func(*Context) error { return o.check(&target) })
}

func (o *SaveOptions) check(target *SaveTarget) error {
	switch {
	case target.FS != nil && target.path == "":
		return status.Errorf(status.InvalidArgument, "the path is empty")
	case o.Compression != int32(snapshot.Uncompressed) && o.Compression != int32(snapshot.Zstd):
		return status.Errorf(status.InvalidArgument, "compression %d is not none or zstd", o.Compression)
	case o.Level < 0 || o.Level > 4 || o.Level != 0 && o.Compression == int32(snapshot.Uncompressed):
		return status.Errorf(status.InvalidArgument, "compression_level is %d with compression %d", o.Level, o.Compression)
	case o.CopyLimit != 0 && o.CopyLimit < leastCopyLimit:
		return status.Errorf(status.InvalidArgument, "copy_limit is %d, less than %d", o.CopyLimit, leastCopyLimit)
	case o.Base == "":
		return nil
	case target.FS == nil:
		return status.Errorf(status.InvalidArgument, "a snapshot with a base goes to a file beside it, not elsewhere")
	case filepath.Clean(filepath.Dir(o.Base)) != filepath.Clean(filepath.Dir(target.path)):
		return status.Errorf(status.InvalidArgument, "the base %q is not in the directory of %q", o.Base, target.path)
	case filepath.Base(o.Base) == filepath.Base(target.path):
		return status.Errorf(status.InvalidArgument, "%q would replace its own base", target.path)
	}
	return nil
}

// sink opens the target.
func (t *SaveTarget) sink(o *SaveOptions, expected uint64, done <-chan struct{}) (file.Sink, error) {
	switch {
	case t.FS != nil:
		return file.Replace(t.FS, t.path, file.Options{Durable: !o.NotDurable, Expected: int64(expected)})
	case t.memory != nil:
		return file.Memory()
	default:
		return file.Descriptor(int(t.descriptor), done)
	}
}

// Save takes a snapshot. w may be nil.
func Save(context uint64, target SaveTarget, o SaveOptions, w *ticket.Work) error {
	return Use(context, func(c *Context) error {
		if err := o.check(&target); err != nil {
			return err
		}
		if !c.saves.TryLock() {
			return status.Errorf(status.Busy, "another save or load of context 0x%016x is running", c.handle)
		}
		defer c.saves.Unlock()
		return c.save(&target, &o, w)
	})
}

// saver is one save.
type saver struct {
	c       *Context
	o       *SaveOptions
	work    *ticket.Work
	writer  *snapshot.Writer
	capture native.Capture
	scratch *snapshot.Segment // what is compressed goes through it
	chunk   []byte
	large   map[uint32]largeSaved
	looking sync.WaitGroup // the goroutine that helps to find what is not as the base has it
	fast    bool           // the base is what native.LastSaved tells of
	done    uint64         // bytes, of about total: masks and metadata come on top, and a base has some of them
	total   uint64
}

func (c *Context) save(target *SaveTarget, o *SaveOptions, w *ticket.Work) (err error) {
	begin := time.Now()
	s := &saver{c: c, o: o, work: w, chunk: make([]byte, native.ChunkBytes), large: make(map[uint32]largeSaved)}
	header := snapshot.Header{}
	var known base
	if o.Base != "" {
		if known, err = s.openBase(target, &header); err != nil {
			return err
		}
		defer known.close()
	}
	var cancel <-chan struct{}
	if w != nil {
		cancel = w.Done()
	}
	stats := native.CountContext(c.index)
	average := uint64(0)
	if live := stats.Creates - stats.Frees; live > 0 {
		average = max(1, (stats.BytesCreated-stats.BytesFreed)/live)
	}
	s.total = stats.BytesCreated - stats.BytesFreed
	if w != nil {
		w.SetTotal(s.total)
	}
	sink, err := target.sink(o, s.expected(stats.Creates-stats.Frees), cancel)
	if err != nil {
		return err
	}
	edges, err := s.begin(known.table, &header)
	if err != nil {
		sink.Abort()
		return err
	}
	defer s.end()
	if s.writer, err = snapshot.NewWriter(sink, header, snapshot.Options{AveragePageSize: average}); err != nil {
		sink.Abort()
		return err
	}
	report, err := s.write(edges, &known, header.Journal)
	if err != nil {
		s.writer.Abort()
		return err
	}
	if memory, ok := sink.(*file.MemorySink); ok {
		keepSaved(memory, target)
	}
	s.commit(report, &known, begin)
	s.progress(s.total)
	if target.FS != nil && !o.NotDurable {
		c.journals.dropBefore(header.Journal)
	}
	return nil
}

// expected is about how long the file will be, from the number of pages; 0 where that cannot be known.
func (s *saver) expected(pages uint64) uint64 {
	const tables = 128 // of a page, with what lies between pages
	if s.o.Base != "" || s.o.Compression != int32(snapshot.Uncompressed) || s.total > math.MaxInt64/2 {
		return 0
	}
	return s.total + s.total/64 + pages*tables
}

// begin takes the moment.
func (s *saver) begin(table *native.Base, header *snapshot.Header) (edges [][2]uint64, err error) {
	c := s.c
	limit := s.o.CopyLimit
	if limit == 0 {
		limit = defaultCopyLimit
	}
	// No edge and no chunk of records comes or goes meanwhile.
	c.dependencies.Lock()
	c.memory.Lock()
	header.Journal = c.journals.position() // every change before it is made before the moment
	var numbers, used []uint32
	for _, chunk := range c.memory.chunks {
		numbers, used = append(numbers, chunk.number), append(used, chunk.used)
	}
	capture, ok := native.BeginCapture(c.index, numbers, used, table, limit, s.o.RefuseRawWrites)
	for _, edge := range c.dependencies.graph.All() {
		edges = append(edges, [2]uint64{liveID(edge[0]), liveID(edge[1])})
	}
	c.memory.Unlock()
	c.dependencies.Unlock()
	if !ok {
		_, _, _, text := native.LastError()
		return nil, status.Errorf(status.OutOfMemory, "%s", text)
	}
	capture.Settle()
	s.capture = capture
	s.looking.Add(1)
	safego.Go(func() { // beside the goroutine that fills: half of an incremental save is looking
		defer s.looking.Done()
		for capture.Look() {
		}
	})
	c.saves.statistics.Lock()
	c.saves.running, c.saves.isRunning = capture, true
	c.saves.statistics.Unlock()
	return edges, nil
}

// liveID is the id of a page that has dependencies, and therefore lives.
func liveID(index uint32) uint64 { return recordID(index, native.RecordAt(index).LoadState()) }

func (s *saver) end() {
	saves := &s.c.saves
	saves.statistics.Lock()
	saves.note(s.capture.Stats())
	saves.isRunning = false
	saves.statistics.Unlock()
	s.looking.Wait()
	s.capture.End()
}

func (s *saver) write(edges [][2]uint64, known *base, journalled uint64) (snapshot.Report, error) {
	if err := s.fill(); err != nil {
		return snapshot.Report{}, err
	}
	s.capture.Stop()
	if s.capture.Failed() {
		return snapshot.Report{}, status.Errorf(status.OutOfMemory, "no memory for copies of pages that changed meanwhile")
	}
	if o := s.o; o.Base != "" {
		removed, ok := s.capture.Removed()
		if !ok {
			return snapshot.Report{}, status.Errorf(status.OutOfMemory, "no memory for the ids of removed pages")
		}
		removed = append(removed, known.gone...)
		if err := s.writer.Removed(removed); err != nil {
			return snapshot.Report{}, err
		}
	}
	if err := s.writer.Edges(edges); err != nil {
		return snapshot.Report{}, err
	}
	if err := s.c.journals.flush(journalled); err != nil { // a snapshot is never ahead of its journal
		return snapshot.Report{}, err
	}
	pages, bytes := s.capture.Totals()
	known.pages += uint64(pages) - uint64(len(known.gone))
	known.bytes += uint64(bytes) - known.goneBytes
	return s.writer.Finish(known.pages, known.bytes)
}

// fill writes pages until all are written.
func (s *saver) fill() error {
	for {
		if err := s.goesOn(); err != nil {
			return err
		}
		segment, err := s.room()
		if err != nil {
			return err
		}
		fill, index := s.fillSegment(segment)
		if s.scratch != nil {
			err = s.compress(segment)
		} else if fill == native.FillFull {
			err = s.writer.Next()
		}
		for urgent := s.capture.Urgent(); err == nil && urgent != 0; urgent = s.capture.Urgent() {
			err = s.saveLarge(urgent)
		}
		switch {
		case err != nil:
			return err
		case fill == native.FillLarge:
			err = s.saveLarge(index)
		case fill == native.FillPinned:
			err = pinnedError(index)
		case fill == native.FillEnd:
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func pinnedError(index uint32) error {
	record := native.RecordAt(index)
	return status.Errorf(status.Busy, "page %d is pinned for writing, and raw_writes refuses", recordID(index, record.LoadState()))
}

// goesOn says whether the save is still wanted.
func (s *saver) goesOn() error {
	if s.c.saves.ending.Load() {
		return status.Errorf(status.StaleHandle, "context 0x%016x is ending", s.c.handle)
	}
	if s.work != nil && s.work.Cancelled() {
		return status.Errorf(status.Cancelled, "cancelled after %d bytes", s.done)
	}
	return nil
}

// room is the segment that is filled next.
func (s *saver) room() (*snapshot.Segment, error) {
	if s.o.Compression == int32(snapshot.Uncompressed) {
		return s.writer.Segment()
	}
	if s.scratch == nil {
		const pages, extents = 4096, 3 * 4096
		s.scratch = &snapshot.Segment{
			Buffer: make([]byte, snapshot.SegmentBytes), Pages: make([]snapshot.Page, 0, pages), Extents: make([]snapshot.Extent, 0, extents),
		}
	}
	s.scratch.Used, s.scratch.End = 0, len(s.scratch.Buffer)
	s.scratch.Pages, s.scratch.Extents = s.scratch.Pages[:0], s.scratch.Extents[:0]
	return s.scratch, nil
}

// fillSegment lets native code put pages into a segment.
func (s *saver) fillSegment(segment *snapshot.Segment) (native.Fill, uint32) {
	before := segment.Used - segment.End
	room := native.Room{
		Buffer: uintptr(unsafe.Pointer(unsafe.SliceData(segment.Buffer))),
		Used:   uint64(segment.Used), End: uint64(segment.End),
		Images: uintptr(unsafe.Pointer(unsafe.SliceData(segment.Pages))), ImageCount: uint32(len(segment.Pages)),
		ImageCapacity: uint32(cap(segment.Pages)),
		Extents:       uintptr(unsafe.Pointer(unsafe.SliceData(segment.Extents))), ExtentCount: uint32(len(segment.Extents)),
		ExtentCapacity: uint32(cap(segment.Extents)),
	}
	fill, index := s.capture.Fill(&room)
	segment.Used, segment.End = int(room.Used), int(room.End)
	segment.Pages, segment.Extents = segment.Pages[:room.ImageCount], segment.Extents[:room.ExtentCount]
	s.progress(uint64(segment.Used - segment.End - before))
	return fill, index
}

func (s *saver) progress(bytes uint64) {
	s.done = min(s.done+bytes, s.total)
	if s.work != nil {
		s.work.Progress(s.done)
	}
}

// compress writes the pages of the scratch segment.
func (s *saver) compress(segment *snapshot.Segment) error {
	for i := range segment.Pages {
		page := segment.Pages[i]
		for _, extent := range segment.Extents[page.FirstExtent:][:page.Extents] {
			bytes := segment.Buffer[extent.At:][:extent.Length]
			if err := s.writer.Add(page, extent.Kind, extent.Offset, bytes, snapshot.Compression(s.o.Compression)); err != nil {
				return err
			}
		}
	}
	return nil
}

// saveLarge writes a page of more than a chunk; of one that the base has, the chunks that are not as they were.
func (s *saver) saveLarge(index uint32) error {
	large, ok, code := s.capture.Large(index)
	switch {
	case status.Code(code) == status.Busy:
		return pinnedError(index)
	case code != 0:
		return status.Errorf(status.Code(code), "no memory to save a large page")
	case !ok:
		return nil
	}
	page := *(*snapshot.Page)(unsafe.Pointer(large.Image()))
	generation := native.Generation(native.RecordAt(index).LoadState())
	byteParts, maskParts := large.Parts()
	var before []uint32
	if known, ok := s.c.saves.large[index]; ok && s.fast && known.generation == generation && page.Flags&snapshot.FlagChanges != 0 {
		before = known.sums
	}
	known := s.c.saves.large[index]
	changed, tracked, begun := s.c.tracking.written(index, generation, before != nil && known.tracked)
	if known.tracked { // counted from now on: should this save fail, the next one compares everything
		known.tracked = false
		s.c.saves.large[index] = known
	}
	if begun && s.changedSince(index, generation, page.Version) {
		// A change that was made after the moment and counted before now is not in this snapshot, and would not be in the next one.
		begun = false
	}
	now := largeSaved{generation, make([]uint32, byteParts), make([]uint8, byteParts), begun}
	written := false
	add := func(kind uint32, offset uint64, bytes []byte) error {
		written = true
		return s.writer.Add(page, kind, offset, bytes, snapshot.Compression(s.o.Compression))
	}
	part := func(number int, blocks uint64) ([]byte, error) {
		if err := s.goesOn(); err != nil {
			return nil, err
		}
		length := s.capture.Part(large, number, blocks, s.chunk)
		if length == 0 {
			code, domain, foreign, text := native.LastError()
			return nil, &status.Error{Code: status.Code(code), Domain: domain, Foreign: foreign, Text: text}
		}
		s.progress(uint64(length))
		return s.chunk[:length], nil
	}
	for number := range byteParts {
		offset := uint64(number) * native.ChunkBytes
		if tracked && changed[number] == 0 {
			s.capture.Skip(large, number)
			now.sums[number], now.layers[number] = before[number], known.layers[number]
			continue
		}
		if tracked && fewBlocks(changed[number]) && known.layers[number] < mostLayers {
			now.layers[number] = known.layers[number] + 1
			bytes, err := part(number, changed[number])
			if err == nil {
				err = addBlocks(changed[number], bytes, offset, add)
			}
			if err != nil {
				return err
			}
			continue
		}
		bytes, err := part(number, native.AllBlocks)
		if err != nil {
			return err
		}
		now.sums[number] = native.Checksum(bytes)
		if before != nil {
			s.capture.Compared(uint64(len(bytes)))
			if before[number] == now.sums[number] && before[number] != 0 {
				now.layers[number] = known.layers[number]
				continue
			}
		}
		if err := add(snapshot.KindBytes, offset, bytes); err != nil {
			return err
		}
	}
	if !large.Unchanged() || written || before == nil {
		for number := range maskParts {
			bytes, err := part(byteParts+number, native.AllBlocks)
			if err == nil {
				err = add(snapshot.KindMask, uint64(number)*native.ChunkBytes, bytes)
			}
			if err != nil {
				return err
			}
		}
		metadata := large.Metadata()
		if err := add(snapshot.KindMetadata, 0, metadata); err != nil { // without metadata an entry all the same
			return err
		}
	}
	s.large[index] = now
	s.capture.LargeDone(large)
	return nil
}

// changedSince says whether calls have changed a page since it had a version.
func (s *saver) changedSince(index, generation uint32, version uint64) bool {
	p, err := lock(native.Handle(native.KindPage, generation, index)) // so that no change is half made
	if err != nil {
		return true
	}
	defer p.unlock()
	return p.record.Version != version
}

// fewBlocks says whether so few blocks of a chunk are better written apart.
func fewBlocks(blocks uint64) bool {
	return bits.OnesCount64(blocks) <= native.ChunkBytes/native.GranuleBytes/2
}

// addBlocks writes those blocks of a chunk at offset whose bits are set, each stretch of them as one.
func addBlocks(blocks uint64, chunk []byte, offset uint64, add func(kind uint32, offset uint64, bytes []byte) error) error {
	for blocks != 0 {
		first := bits.TrailingZeros64(blocks)
		count := bits.TrailingZeros64(^(blocks >> first))
		from, to := first*native.GranuleBytes, min((first+count)*native.GranuleBytes, len(chunk))
		if err := add(snapshot.KindBytes, offset+uint64(from), chunk[from:to]); err != nil {
			return err
		}
		blocks &^= (uint64(1)<<count - 1) << first
	}
	return nil
}

// commit makes the snapshot the newest of the lineage.
func (s *saver) commit(report snapshot.Report, known *base, begin time.Time) {
	saves := &s.c.saves
	s.capture.Commit()
	known.taken = true
	if s.o.Base == "" {
		saves.large = s.large
	} else {
		for index, large := range s.large {
			saves.large[index] = large
		}
	}
	saves.lineage = append(saves.lineage, report.ID)
	saves.totals.pages, saves.totals.bytes = known.pages, known.bytes
	saves.statistics.Lock()
	saves.stats.Saves++
	saves.stats.LastPages, saves.stats.LastBytes = report.Pages, report.FileBytes
	saves.stats.LastDurationNs = uint64(time.Since(begin))
	saves.statistics.Unlock()
	log.Logf(log.Info, "context 0x%016x saved: %d pages, %d bytes, snapshot %s", s.c.handle, report.Pages, report.FileBytes, report.ID)
}

// base is what the file of an earlier snapshot says, for a save that holds what has changed since.
type base struct {
	table        *native.Base // nil: no base
	own          *native.Base // made for this save
	taken        bool         // own is native code's by now
	pages, bytes uint64       // of its state
	gone         []uint64     // ids of its pages that are no more, as far as the capture cannot know
	goneBytes    uint64
}

func (b *base) close() {
	if b.own == nil || b.taken {
		return
	}
	for _, chunk := range b.own {
		if chunk != nil {
			native.FreeSavedLeaf(chunk)
		}
	}
}

// openBase finds the base, and makes sure that the context's state comes from it.
func (s *saver) openBase(target *SaveTarget, header *snapshot.Header) (base, error) {
	saves := &s.c.saves
	info, err := snapshot.Inspect(s.o.Base, snapshot.OpenOptions{FS: target.FS})
	if err != nil {
		return base{}, err
	}
	header.Base, header.BaseName = info.ID, filepath.Base(s.o.Base)
	at := len(saves.lineage) - 1
	for at >= 0 && saves.lineage[at] != info.ID {
		at--
	}
	if at < 0 {
		return base{}, status.Errorf(status.Mismatch, "the context's state does not come from the snapshot %s in %q", info.ID, s.o.Base)
	}
	if at == len(saves.lineage)-1 {
		s.fast = true
		return base{table: native.LastSaved(), pages: saves.totals.pages, bytes: saves.totals.bytes}, nil
	}
	return s.readBase(target)
}

// readBase makes the table of a base that is not the newest: by the ids and versions that the file has.
func (s *saver) readBase(target *SaveTarget) (b base, err error) {
	state, err := snapshot.Open(s.o.Base, snapshot.OpenOptions{FS: target.FS})
	if err != nil {
		return base{}, err
	}
	defer func() { _ = state.Close() }()
	b = base{own: new(native.Base), pages: state.Totals().StatePages, bytes: state.Totals().StateBytes}
	b.table = b.own
	for page, err := range state.Pages() {
		if err != nil {
			b.close()
			return base{}, err
		}
		handle, err := s.c.Lookup(page.ID)
		if err != nil {
			b.gone = append(b.gone, page.ID)
			b.goneBytes += page.Size
			continue
		}
		index := native.Index(handle)
		chunk := &b.own[index>>native.LeafBits]
		if *chunk == nil {
			if *chunk = native.NewSavedLeaf(); *chunk == nil {
				b.close()
				return base{}, status.Errorf(status.OutOfMemory, "no memory for what the base has")
			}
		}
		saved := &unsafe.Slice(*chunk, native.LeafRecords)[index&(native.LeafRecords-1)]
		// Its checksum is not known: where the address was given out, the page is saved.
		*saved = native.Saved{Version: page.Version, ID: page.ID, Size: page.Size, Generation: native.Generation(handle)}
	}
	return b, nil
}

// Memory that snapshots were saved into, by address.
var savedMemory = struct {
	sync.Mutex
	sinks map[uintptr]*file.MemorySink
}{sinks: make(map[uintptr]*file.MemorySink)}

func keepSaved(sink *file.MemorySink, target *SaveTarget) {
	bytes := sink.Bytes()
	address := uintptr(unsafe.Pointer(unsafe.SliceData(bytes)))
	savedMemory.Lock()
	savedMemory.sinks[address] = sink
	savedMemory.Unlock()
	*target.memory, *target.length = address, uint64(len(bytes))
}

// FreeSaved gives the memory of a snapshot back.
func FreeSaved(memory uintptr) error {
	savedMemory.Lock()
	sink, ok := savedMemory.sinks[memory]
	delete(savedMemory.sinks, memory)
	savedMemory.Unlock()
	if !ok {
		return status.Errorf(status.StaleHandle, "0x%x is not memory that mmsb_snapshot_save_memory gave, or it was given back", memory)
	}
	sink.Close()
	return nil
}
