package persist

import (
	"cmp"
	"errors"
	"maps"
	"math"
	"slices"
	"strings"
	"time"
	"unsafe"

	"libmmsb/core/abi"
	"libmmsb/core/file"
	"libmmsb/core/lineage"
	"libmmsb/core/log"
	"libmmsb/core/memory"
	"libmmsb/core/page"
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

// GetSaveStats returns the statistics of a context's saves.
func GetSaveStats(context uint64) (stats SaveStats, err error) {
	err = use(context, func(s *state) error {
		s.statistics.Lock()
		defer s.statistics.Unlock()
		if s.statistics.isRunning {
			s.statistics.CaptureStats = s.statistics.running.Stats()
		}
		stats = s.statistics.SaveStats
		return nil
	})
	return stats, err
}

// CheckSave checks the arguments of a save.
func CheckSave(context uint64, target SaveTarget, o SaveOptions) error {
	return use(context, func(*state) error { return o.check(&target) })
}

func (o *SaveOptions) check(target *SaveTarget) error {
	switch {
	case target.FS != nil && target.path == "":
		return status.Errorf(status.InvalidArgument, "the path is empty")
	case o.Compression != int32(snapshot.Uncompressed) && o.Compression != int32(snapshot.Zstd):
		return status.Errorf(status.InvalidArgument, "compression is %d, not none or zstd", o.Compression)
	case o.Level < 0 || o.Level > 4 || o.Level != 0 && o.Compression == int32(snapshot.Uncompressed):
		return status.Errorf(status.InvalidArgument, "compression_level is %d; it is 0 without compression and 0 to 4 with zstd",
			o.Level)
	case o.CopyLimit != 0 && o.CopyLimit < leastCopyLimit:
		return status.Errorf(status.InvalidArgument, "copy_limit is %d; the least is %d", o.CopyLimit, leastCopyLimit)
	case o.ChainLimit < 0 || o.ChainLimit > longestChain:
		return status.Errorf(status.InvalidArgument, "chain_limit is %d, not 0 to %d", o.ChainLimit, longestChain)
	case o.Base == "":
		return nil
	case target.FS == nil:
		return status.Errorf(status.InvalidArgument,
			"base is set; such a snapshot is saved to a path, in the directory of its base")
	case !target.besides(o.Base):
		return status.Errorf(status.InvalidArgument, "the base %q is not in the directory of %q", o.Base, target.path)
	}
	return nil
}

// SaveWithin is Save within a timeout.
func SaveWithin(context uint64, target SaveTarget, o SaveOptions, timeout uint64) error {
	if timeout != ticket.Forever && o.RawWrites == abi.RawWritesWait {
		if err := CheckWriting(context); err != nil {
			return err
		}
	}
	if ticket.Elsewhere(timeout, nil) {
		if err := page.CheckOutsideGroup(); err != nil {
			return err
		}
	}
	return ticket.Within(timeout, nil, func(w *ticket.Work) error { return Save(context, target, o, w) })
}

// Save writes a snapshot of the context. w may be nil.
func Save(context uint64, target SaveTarget, o SaveOptions, w *ticket.Work) error {
	if err := CheckSave(context, target, o); err != nil {
		return err
	}
	if o.RawWrites == abi.RawWritesWait && w == nil {
		if err := CheckWriting(context); err != nil {
			return err
		}
	}
	alone := useAlone
	if o.Queue {
		alone = useQueued
	}
	return alone(context, o.Turn, w, func(s *state) error {
		if err := s.context.CheckBeforeSave(); err != nil {
			return err
		}
		if err := o.withoutUsedBase(&target); err != nil {
			return err
		}
		header, err := s.save(&target, &o, w)
		if err == nil && target.FS != nil && !o.NotDurable {
			s.journals.saved(target.path, &header)
		}
		return err
	})
}

const (
	defaultChain = snapshot.OpenFiles // files of a chain
	longestChain = 4096               // that a save may ask for: a reader opens all of them once
)

// withoutUsedBase makes the save a whole one where its chain would be too long, and where it would replace a file that its base
// rests on.
func (o *SaveOptions) withoutUsedBase(target *SaveTarget) error {
	if o.Base == "" {
		return nil
	}
	chain, err := snapshot.ChainOf(target.FS, o.Base)
	if err != nil {
		return err
	}
	if len(chain) >= int(cmp.Or(o.ChainLimit, defaultChain)) {
		o.Base = ""
		return nil
	}
	if !slices.ContainsFunc(chain, target.replaces) {
		return nil
	}
	if o.RefuseInUse {
		return status.Errorf(status.Busy, "cannot replace %q: the base %q rests on it (%s)", target.path, o.Base,
			strings.Join(chain, ", "))
	}
	o.Base = ""
	return nil
}

func (of *state) save(target *SaveTarget, o *SaveOptions, w *ticket.Work) (header snapshot.Header, err error) {
	begin := time.Now()
	s := &saver{state: of, o: o, work: w, buffer: make([]byte, native.ChunkBytes), large: make(map[uint32]largeSaved)}
	header.ID = o.id
	var known base
	if o.Base != "" {
		if known, err = s.openBase(target, &header); err != nil {
			return header, err
		}
		defer known.close()
	}
	counts := native.CountContext(s.context.Index())
	pages, average := counts.Creates-counts.Frees, uint64(0)
	s.total = counts.BytesCreated - counts.BytesFreed
	if pages > 0 {
		average = max(1, s.total/pages)
	}
	if w != nil {
		w.SetTotal(s.total)
	}
	sink, err := target.sink(o, &header, s.expected(pages), w)
	if err != nil {
		return header, err
	}
	edges, err := s.begin(known.table, &header)
	if err != nil {
		sink.Abort()
		return header, err
	}
	defer s.end()
	if s.writer, err = snapshot.NewWriter(sink, header, snapshot.Options{AveragePageSize: average}); err != nil {
		sink.Abort()
		return header, err
	}
	header = s.writer.Header()
	report, err := s.write(edges, &known, &header)
	if err != nil {
		s.writer.Abort()
		return header, err
	}
	if memory, ok := sink.(*file.MemorySink); ok {
		keepSaved(memory, target)
	}
	s.commit(report, &known, begin)
	s.named(&header, edges)
	if !s.recorded && target.FS != nil && !o.NotDurable && s.opened == s.journals.open.Load() {
		s.journals.kept.Store(true)
	}
	s.progress(s.total)
	return header, nil
}

// named notes what the state was at the moment.
func (s *saver) named(header *snapshot.Header, edges [][2]uint64) {
	s.saved.isNow(header.ID, header.Lineage.At(header.Position))
	if !s.recorded {
		leaves := s.leaves
		s.history.is(header.Lineage, header.Position, func() lineage.Fingerprint { return savedPrint(leaves, edges) })
	}
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
	limit := s.o.CopyLimit
	if limit == 0 {
		limit = defaultCopyLimit
	}
	if sections := native.WritingSections(s.context.Index()); s.o.RawWrites == abi.RawWritesRefuse && sections > 0 {
		return nil, status.Errorf(status.Busy, "context 0x%016x has %d open writing sections: raw_writes is refuse",
			s.context.Handle(), sections)
	}
	var capture native.Capture
	var ok bool
	edges, err = s.moment(func(leaves []memory.Leaf) {
		s.opened = s.journals.open.Load()
		header.Lineage, header.Position, s.recorded = s.identity() // every change before it is made before the moment
		numbers, used := numbersOf(leaves)
		s.leaves = numbers
		capture, ok = native.BeginCapture(s.context.Index(), numbers, used, table, limit, s.o.RawWrites)
	})
	if err != nil {
		s.letWrite()
		return nil, err
	}
	if !ok {
		s.letWrite()
		_, _, _, text := native.LastError()
		return nil, status.Errorf(status.OutOfMemory, "%s", text)
	}
	if s.o.RawWrites == abi.RawWritesWait {
		native.LetWrite(s.context.Index(), native.LetsPins)
	}
	capture.Settle()
	header.Latest = header.Position
	if ring, is := native.RingOf(s.context.Index()); is && s.recorded {
		capture.AwaitChanges()
		header.Latest = ring.Last() // whoever changes a page from here on sees the capture
	}
	s.capture = capture
	s.looking = safego.Beside(func() { // while this goroutine fills: half of an incremental save is looking
		for capture.CompareLeaf() {
		}
	})
	s.statistics.Lock()
	s.statistics.running, s.statistics.isRunning = capture, true
	s.statistics.Unlock()
	return edges, nil
}

// moment waits until no group is open and, if the save waits for raw writers, until none writes. A writer may begin a group, and
// who has a group open may begin to write: while the save waits for the ones it holds none of the others back.
func (s *saver) moment(begin func(leaves []memory.Leaf)) (edges [][2]uint64, err error) {
	if !s.work.Enter(s.state.moment, s.ended) { // a follower is in the middle of a group
		return nil, cmp.Or(s.goesOn(nil, 0), status.Errorf(status.Cancelled, "cancelled while records were applied"))
	}
	defer func() { <-s.state.moment }()
	if s.o.RawWrites != abi.RawWritesWait {
		return s.context.Moment(s.work.Done(), begin)
	}
	now := make(chan struct{})
	close(now)
	for {
		if err := s.stopWriters(); err != nil {
			return nil, err
		}
		if edges, err = s.context.Moment(now, begin); status.CodeOf(err) != status.Cancelled {
			return edges, err
		}
		native.LetWrite(s.context.Index(), native.LetsAll)
		if err := s.context.AwaitGroups(s.work.Done()); err != nil {
			return nil, err
		}
	}
}

func (s *saver) end() {
	s.letWrite()
	s.statistics.Lock()
	s.statistics.CaptureStats = s.capture.Stats()
	s.statistics.isRunning = false
	s.statistics.Unlock()
	defer s.capture.End()
	s.looking.Wait()
}

// errSame says that a snapshot would say no more than its base: who has had no record since has the same pages.
var errSame = errors.New("nothing has changed")

func (s *saver) write(edges [][2]uint64, known *base, header *snapshot.Header) (snapshot.Report, error) {
	if err := s.fill(); err != nil {
		return snapshot.Report{}, err
	}
	s.capture.Stop()
	switch status.Code(s.capture.Failed()) {
	case status.OK:
	case status.OutOfMemory:
		return snapshot.Report{}, status.Errorf(status.OutOfMemory,
			"no memory for pre-images of pages that changed during the save")
	default:
		return snapshot.Report{}, status.Errorf(status.IO, "cannot read pre-images of pages on disk that changed during the save")
	}
	if o := s.o; o.Base != "" {
		removed, ok := s.capture.Removed()
		if !ok {
			return snapshot.Report{}, status.Errorf(status.OutOfMemory, "no memory for the ids of removed pages")
		}
		if o.UnlessSame && s.recorded && s.writer.Empty() && header.Lineage.At(header.Position) == known.at {
			maps.Copy(s.saved.large, s.large) // the kernel counts from now on what is written
			return snapshot.Report{}, errSame
		}
		removed = append(removed, known.gone...)
		if err := s.writer.Removed(removed); err != nil {
			return snapshot.Report{}, err
		}
	}
	if err := s.writer.Edges(edges); err != nil {
		return snapshot.Report{}, err
	}
	if s.recorded { // such a snapshot is never ahead of its journal
		if err := s.flush(header.Latest); err != nil {
			return snapshot.Report{}, err
		}
	}
	pages, bytes := s.capture.Totals()
	known.pages += uint64(pages) - uint64(len(known.gone))
	known.bytes += uint64(bytes) - known.goneBytes
	return s.writer.Finish(known.pages, known.bytes)
}

// fill writes pages until all are written.
func (s *saver) fill() error {
	for {
		if err := s.goesOn(s.work, s.done); err != nil {
			return err
		}
		if err := s.keepWritten(); err != nil {
			return err
		}
		segment, err := s.segment()
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
			err = errRefused(index)
		case fill == native.FillEnd:
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// segment is the one that is filled next.
func (s *saver) segment() (*snapshot.Segment, error) {
	if s.o.Compression == int32(snapshot.Uncompressed) {
		return s.writer.Segment()
	}
	if s.scratch == nil {
		const pages, extents = 4096, 3 * 4096
		s.scratch = &snapshot.Segment{
			Buffer: make([]byte, snapshot.SegmentBytes), Pages: make([]snapshot.Page, 0, pages),
			Extents: make([]snapshot.Extent, 0, extents),
		}
	}
	s.scratch.Used, s.scratch.End = 0, len(s.scratch.Buffer)
	s.scratch.Pages, s.scratch.Extents = s.scratch.Pages[:0], s.scratch.Extents[:0]
	return s.scratch, nil
}

// fillSegment lets native code put pages into a segment.
func (s *saver) fillSegment(segment *snapshot.Segment) (native.Fill, uint32) {
	before := segment.Used - segment.End
	captured := native.Segment{
		Buffer: uintptr(unsafe.Pointer(unsafe.SliceData(segment.Buffer))),
		Used:   uint64(segment.Used), End: uint64(segment.End),
		Images: uintptr(unsafe.Pointer(unsafe.SliceData(segment.Pages))), ImageCount: uint32(len(segment.Pages)),
		ImageCapacity: uint32(cap(segment.Pages)),
		Extents:       uintptr(unsafe.Pointer(unsafe.SliceData(segment.Extents))), ExtentCount: uint32(len(segment.Extents)),
		ExtentCapacity: uint32(cap(segment.Extents)),
	}
	fill, index := s.capture.Fill(&captured)
	segment.Used, segment.End = int(captured.Used), int(captured.End)
	segment.Pages, segment.Extents = segment.Pages[:captured.ImageCount], segment.Extents[:captured.ExtentCount]
	s.progress(uint64(segment.Used - segment.End - before))
	return fill, index
}

// compress writes the pages of the scratch segment.
func (s *saver) compress(segment *snapshot.Segment) error {
	for i := range segment.Pages {
		entry := segment.Pages[i]
		for _, extent := range segment.Extents[entry.FirstExtent:][:entry.Extents] {
			bytes := segment.Buffer[extent.At:][:extent.Length]
			if err := s.writer.Add(entry, extent.Kind, extent.Offset, bytes, snapshot.Compression(s.o.Compression)); err != nil {
				return err
			}
		}
	}
	return nil
}

// commit makes the snapshot the newest of the lineage.
func (s *saver) commit(report snapshot.Report, known *base, begin time.Time) {
	s.capture.Commit()
	known.taken = true
	if s.o.Base == "" {
		s.saved.large = s.large
	} else {
		maps.Copy(s.saved.large, s.large)
	}
	s.saved.totals.pages, s.saved.totals.bytes = known.pages, known.bytes
	s.statistics.Lock()
	s.statistics.Saves++
	s.statistics.LastPages, s.statistics.LastBytes = report.Pages, report.FileBytes
	s.statistics.LastDurationNs = uint64(time.Since(begin))
	s.statistics.Unlock()
	log.Logf(log.Info, "context 0x%016x saved: %d pages, %d bytes, snapshot %s", s.context.Handle(), report.Pages,
		report.FileBytes, report.ID)
}
