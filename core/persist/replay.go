package persist

import (
	"libmmsb/core/file"
	"libmmsb/core/graph"
	"libmmsb/core/journal"
	"libmmsb/core/lasterror"
	"libmmsb/core/page"
	"libmmsb/core/residency"
	"libmmsb/core/snapshot"
	"libmmsb/core/status"
	"libmmsb/native"
)

// A load applies a journal's records to the pages that it has staged: nobody sees them yet, so that no page is locked, the
// journal is read once, and a load that fails in the middle has changed nothing.

// replay applies the records of a journal that a snapshot does not have.
type replay struct {
	*loader
	// unknown is pages that do not exist, by id, with the first record that changes them. Between its position and its moment a
	// snapshot may have the end of a page; then a later record ends it.
	unknown map[uint64]uint64
	// doubtful is clones, by id, of pages that are newer in the snapshot: these were written through pointers behind the moment,
	// or the clones had ended by then. A record that cannot be applied to one says that it had.
	doubtful map[uint64]struct{}
	latest   uint64            // the snapshot may have steps up to this one
	own      map[uint32]uint64 // see versions
	edges    *graph.Builder    // of the staged graph; nil: no record has changed it
	others   bool              // the staged pages are others than the snapshot's, or have other sizes
	cleared  map[uint32]uint64 // by record: the version with which the mask was cleared
	// held is pages on devices or on disk whose bytes were given an address: records change the same ones again and again.
	held      []uint32
	heldBytes uint64
}

// mostHeld is how many bytes of pages have an address at a time.
const mostHeld = 64 << 20

func (o *LoadOptions) until() journal.Until {
	return journal.Until{Sequence: o.JournalUntil, Time: o.JournalUntilTime, Page: o.JournalPage, Epoch: o.JournalEpoch}
}

// openWithBase opens a journal, and the state that it begins with.
func openWithBase(fs file.FS, o *LoadOptions) (read *journal.Replay, opened *snapshot.Snapshot, err error) {
	var base, before *snapshot.Base
	for base == nil || before == nil || base.ID != before.ID { // it was there before the journal was looked at
		if read, err = journal.OpenReplay(fs, o.Journal); err != nil {
			return nil, nil, err
		}
		before = base
		// Nothing says which base is before an epoch, but the oldest is.
		base, err = snapshot.FindBase(fs, o.Journal, read, o.JournalUntil, o.JournalUntilTime, o.JournalEpoch != 0)
		if err != nil {
			return nil, nil, err
		}
		if base == nil {
			content, err := snapshot.EmptyState(read.At(0))
			if err != nil {
				return nil, nil, err
			}
			opened, err = snapshot.OpenSource(file.Bytes(content), snapshot.OpenOptions{})
			return read, opened, err
		}
	}
	opened, err = snapshot.Open(base.Path, snapshot.OpenOptions{FS: fs})
	return read, opened, err
}

// replayJournal applies the journal that the options name to what is staged.
func (l *loader) replayJournal() error {
	header := l.file.Header()
	l.line, l.position = header.Lineage, header.Position
	if l.journal == nil {
		return nil
	}
	if ends, err := l.journal.EndsBefore(l.line); ends || err != nil {
		return err
	}
	if err := l.journal.Leads(l.line.At(l.position)); err != nil {
		return err
	}
	var r *replay // nil: there is no record behind the snapshot
	last, err := l.journal.Run(l.position, l.o.until(), func(part *journal.Part) error {
		if r == nil {
			r = l.beginReplay()
		}
		return r.applyAll(part)
	})
	if r != nil {
		r.release()
		defer r.end()
	}
	if err == nil && r != nil {
		err = r.check()
	}
	l.line, l.position = l.journal.At(last), last
	return err
}

// check looks at what only the end of the replay shows.
func (r *replay) check() error {
	if r.o.until() == (journal.Until{}) {
		if err := r.allKnown(); err != nil {
			return err
		}
	}
	if r.edges != nil {
		if cycle := r.Graph.Check(); cycle != nil {
			return status.Errorf(status.Corrupt, "journal %q: %s", r.o.Journal, status.Of(cycle).Text)
		}
	}
	return nil
}

// beginReplay gives the record of each staged page what a page's record says.
func (l *loader) beginReplay() *replay {
	r := &replay{loader: l, unknown: make(map[uint64]uint64), doubtful: make(map[uint64]struct{}), latest: l.file.Header().Latest,
		cleared: make(map[uint32]uint64)}
	for i := range l.Pages {
		s := &l.Pages[i]
		record := native.RecordAt(s.Index)
		record.Size, record.Epoch, record.Version = s.Size, s.Epoch, s.Version
	}
	return r
}

// find is the record of the staged page with an id.
func (r *replay) find(id uint64) (index uint32, ok bool) {
	handle, ok := r.Handles.Find(id)
	return native.Index(handle), ok
}

// page is a staged page whose bytes can be copied.
func (r *replay) page(index uint32) *page.Page {
	p := r.Page(index)
	p.Asked = r.asked
	return p
}

// end tells the list of staged pages what has become of them, or makes it anew.
func (r *replay) end() {
	const low = native.ExplicitID | native.Nonresident | native.LocationMask
	if !r.others {
		for i := range r.Pages {
			s := &r.Pages[i]
			if record := native.RecordAt(s.Index); record.Version != s.Version {
				s.Epoch, s.Version, s.Low, s.Changed = record.Epoch, record.Version, record.LoadState()&low, 1
			}
		}
		return
	}
	r.inSnapshot = r.Pages
	r.Pages = make([]native.Staged, 0, r.Handles.Len())
	r.Handles.All(func(id, handle uint64) {
		index := native.Index(handle)
		record := native.RecordAt(index)
		state := record.LoadState()
		r.Pages = append(r.Pages, native.Staged{
			ID: id, Size: record.Size, Epoch: record.Epoch, Version: record.Version, Index: index,
			Generation: native.Generation(state),
			Low:        state & low,
		})
	})
}

// applyAll applies records that lie one behind the other.
func (r *replay) applyAll(s *journal.Part) error {
	if err := r.goesOn(r.work, r.done); err != nil {
		return err
	}
	for len(s.Records) > 0 {
		if !s.Within() {
			s.Skip(r.Handles.Redo(s.Records))
		}
		record, err := s.Next()
		if err == nil {
			err = r.goesOn(r.work, r.done)
		}
		if err == nil && record != nil {
			err = r.unlessEnded(record, asDamage(record, r.apply(record)))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// asDamage makes what a call would have been told of its arguments the journal's fault.
func asDamage(record *journal.Record, err error) error {
	switch status.CodeOf(err) {
	case status.InvalidArgument, status.OutOfRange, status.InvalidState, status.Mismatch, status.Unsupported, status.Epoch:
		return status.Errorf(status.Corrupt, "record %d (%v of page %d) cannot be applied: %s", record.Sequence, record.Kind,
			record.Page, status.Of(err).Text)
	}
	return err
}

// unlessEnded takes a record that cannot be applied to a doubtful clone for one of a page that had ended by the moment.
func (r *replay) unlessEnded(record *journal.Record, err error) error {
	if _, doubtful := r.doubtful[record.Page]; !doubtful || status.CodeOf(err) != status.Corrupt {
		return err
	}
	index, _ := r.find(record.Page)
	delete(r.doubtful, record.Page)
	r.destroy(record.Page, r.Page(index))
	r.misses(record.Page, record)
	return nil
}

// apply makes a change again, unless the state has it: docs/journal-format.md.
func (r *replay) apply(record *journal.Record) error {
	index, ok := r.find(record.Page)
	switch record.Kind {
	case journal.Create, journal.Adopt, journal.Clone:
		if ok {
			return nil
		}
		return r.create(record)
	case journal.DependencyAdd, journal.DependencyRemove:
		child, childOK := r.find(record.Other)
		switch {
		case !ok:
			r.misses(record.Page, record)
		case !childOK:
			r.misses(record.Other, record)
		default:
			r.edge(record.Kind, index, child)
		}
		return nil
	case journal.Destroy:
		delete(r.unknown, record.Page)
		delete(r.doubtful, record.Page)
		if ok {
			r.destroy(record.Page, r.Page(index))
		}
		return nil
	}
	if !ok {
		r.misses(record.Page, record)
		return nil
	}
	p := r.page(index)
	own := record.Version
	follows, err := record.Follows(p.Record.Version, r.latest)
	if err != nil || !follows {
		return err
	}
	if record.Version != own {
		r.versions()[index] = record.Version
	}
	err = r.change(p, record)
	p.Record.StoreState(p.State) // it may lie elsewhere now
	if err == nil {
		p.Record.Version, p.Record.Epoch = record.Version, record.Epoch
	}
	return err
}

// versions are those that pages have from the snapshot, or that they got because of these, by record. They are seldom needed.
func (r *replay) versions() map[uint32]uint64 {
	if r.own == nil {
		r.own = make(map[uint32]uint64, len(r.Pages))
		for i := range r.Pages {
			r.own[r.Pages[i].Index] = r.Pages[i].Version
		}
	}
	return r.own
}

// unrecorded says that no record has the version of a page.
func (r *replay) unrecorded(index uint32) bool {
	version, ok := r.versions()[index]
	return ok && version == native.RecordAt(index).Version
}

// misses notes a page that a record needs.
func (r *replay) misses(id uint64, record *journal.Record) {
	if _, noted := r.unknown[id]; !noted {
		r.unknown[id] = record.Sequence
	}
}

// allKnown says whether all pages were there that records have changed.
func (r *replay) allKnown() error {
	for id, record := range r.unknown {
		return status.Errorf(status.Mismatch, "record %d of the journal %q changes page %d, which the state does not have",
			record,
			r.o.Journal, id)
	}
	return nil
}

func (r *replay) edge(kind journal.Kind, parent, child uint32) {
	if r.edges == nil {
		r.edges = graph.Build(r.Graph)
	}
	if kind == journal.DependencyRemove {
		r.edges.Remove(parent, child)
	} else {
		r.edges.Add(parent, child)
	}
}

// clearMask clears a page's mask, unless it is clear since it was cleared last.
func (r *replay) clearMask(p *page.Page, version uint64) {
	if before, known := r.cleared[p.Index]; !known || before != p.Record.Version {
		p.ClearMask()
	}
	r.cleared[p.Index] = version
}

// change makes a change that is not native code's.
func (r *replay) change(p *page.Page, record *journal.Record) error {
	switch record.Kind {
	case journal.Resize:
		if err := p.Present(); err != nil {
			return err
		}
		r.others = true
		return p.Resize(record.Size, unjournalled)
	case journal.MaskClear:
		if err := p.Present(); err != nil {
			return err
		}
		r.clearMask(p, record.Version)
		return nil
	}
	if record.Kind != journal.Write && record.Kind != journal.Run && record.Kind != journal.Delta {
		return changeAgain(p, record)
	}
	if err := p.Present(); err != nil {
		return err
	}
	if err := r.hold(p); err != nil {
		return err
	}
	return redo(p, record)
}

// hold gives the bytes of a page an address until release.
func (r *replay) hold(p *page.Page) error {
	if p.Record.Locator != 0 && !residency.HasBlock(p.State) {
		return nil
	}
	if r.heldBytes+p.Record.Size > mostHeld {
		r.release()
	}
	err := p.MakeResident(p.Index)
	if code := status.CodeOf(err); len(r.held) > 0 && (code == status.Limit || code == status.OutOfMemory) {
		r.release()
		err = p.MakeResident(p.Index)
	}
	if err == nil {
		r.held = append(r.held, p.Index)
		r.heldBytes += p.Record.Size
	}
	return err
}

// release takes the addresses away again: what has changed goes where the pages lie.
func (r *replay) release() {
	for _, index := range r.held {
		if native.RecordAt(index).LoadState()&native.Nonresident != 0 { // it may have ended, or lie elsewhere now
			r.residency.Evict(index)
		}
	}
	r.held, r.heldBytes = r.held[:0], 0
}

// unjournalled is what a replay has to say of a change that it makes again.
func unjournalled() error { return nil }

// changeAgain makes a recorded change of a page that can be made in the same way whether somebody sees the page or not.
func changeAgain(p *page.Page, record *journal.Record) error {
	if err := p.Present(); err != nil {
		return err
	}
	switch record.Kind {
	case journal.Write, journal.Run, journal.Delta:
		return bytesAgain(p, record)
	case journal.Migrate:
		return namesPage(p.Migrate(record.Location, record.Device), record.Page, record.Device)
	case journal.MetadataSet, journal.MetadataRemove, journal.MetadataImport:
		blob, changed, err := record.ChangeMetadata(p.Metadata())
		if err != nil || !changed {
			return err
		}
		return p.StoreMetadata(blob, nil)
	}
	return status.Errorf(status.Corrupt, "record %d is of the unknown kind %d", record.Sequence, record.Kind)
}

// bytesAgain makes a change of a page's bytes that native code has left to Go.
func bytesAgain(p *page.Page, record *journal.Record) error {
	return p.WithBytes(func() error { return redo(p, record) })
}

// redo makes a change of a page's bytes, which have an address.
func redo(p *page.Page, record *journal.Record) error {
	switch record.Kind {
	case journal.Write:
		return lasterror.Load(native.RedoWrite(p.Index, record.Version, record.Epoch, record.Offset, record.Bytes))
	case journal.Run:
		run := journal.Words(record.Offset, uint64(len(record.Bytes)))
		return lasterror.Load(native.RedoDelta(p.Index, record.Version, record.Epoch, journal.Runs, nil, 0, run, 1, record.Bytes))
	default:
		return lasterror.Load(native.RedoDelta(p.Index, record.Version, record.Epoch, record.Form, record.Mask, record.MaskLength,
			record.Positions, record.Count, record.Bytes))
	}
}

// create makes a page again.
func (r *replay) create(record *journal.Record) error {
	if record.Kind == journal.Clone {
		return r.clone(record)
	}
	f, node, err := takeAgain(r.context, record)
	if err != nil {
		return err
	}
	return r.begin(record, f, record.Size, node, func(*page.Page) error { return fillAgain(r.residency, f, record, r.asked) })
}

// takeAgain takes a frame for a page that a record begins.
func takeAgain(c *page.Context, record *journal.Record) (f residency.Frame, node int32, err error) {
	options := page.CreateOptions{Location: record.Location, Device: record.Device, NUMANode: record.NUMANode}
	f, err = c.TakeFor(record.Size, &options)
	if status.CodeOf(err) == status.InvalidArgument && options.NUMANode >= 0 { // this machine may have no such node
		options.NUMANode = -1
		f, err = c.TakeFor(record.Size, &options)
	}
	return f, options.NUMANode, namesPage(err, record.Page, record.Device)
}

func fillAgain(r *residency.Residency, f residency.Frame, record *journal.Record, asked func() error) error {
	if len(record.Bytes) == 0 {
		return nil
	}
	return r.WriteInSteps(f, record.Bytes, asked)
}

func (r *replay) clone(record *journal.Record) error {
	index, ok := r.find(record.Other)
	newer := ok && r.Page(index).Record.Version > record.OtherVersion
	if !ok || newer && record.Sequence > r.latest && !r.unrecorded(index) {
		r.misses(record.Page, record)
		return nil
	}
	if newer && record.Sequence <= r.latest {
		r.doubtful[record.Page] = struct{}{}
	}
	source := r.page(index)
	err := source.Present()
	source.Record.StoreState(source.State)
	if err != nil {
		return err
	}
	f, err := source.TakeLike(source.Record.Size)
	if err != nil {
		return err
	}
	return r.begin(record, f, source.Record.Size, source.Node(), func(p *page.Page) error { return source.CopyTo(p, f) })
}

// begin stages a page that a frame becomes; fill fills it.
func (r *replay) begin(record *journal.Record, f residency.Frame, size uint64, node int32, fill func(p *page.Page) error) error {
	p := r.Page(f.Index)
	side, err := p.Side()
	if err != nil {
		r.residency.Give(f)
		return err
	}
	side.ID, side.NUMANode = record.Page, node
	f.Note(side)
	p.Record.Size, p.Record.Version, p.Record.Epoch = size, record.Version, record.Epoch
	p.State |= f.Low | native.ExplicitID
	p.Record.StoreState(p.State)
	r.Handles.Put(record.Page, p.Handle())
	r.others = true
	return fill(p)
}

// destroy ends a staged page. Its record's next page has another generation, so that an incremental save does not take it for a
// page of the snapshot.
func (r *replay) destroy(id uint64, p *page.Page) {
	switch {
	case r.edges != nil:
		r.edges.RemoveNode(p.Index)
	case r.Graph.Edges() > 0:
		r.Graph.RemoveNode(p.Index)
	}
	delete(r.cleared, p.Index)
	r.Handles.Remove(id)
	r.others = true
	if generation := native.Generation(p.State); generation < native.GenerationMax {
		p.Record.StoreState(native.State(native.StateFrame, generation+1, p.State&native.ClassMask))
	}
	r.DropOne(p.Index)
}
