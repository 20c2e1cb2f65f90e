package page

import (
	"libmmsb/core/file"
	"libmmsb/core/journal"
	"libmmsb/core/metadata"
	"libmmsb/core/status"
	"libmmsb/native"
)

// A load applies a journal's records to the blocks that it has made of a snapshot's pages: nobody sees them yet, so that no page is locked,
// the journal is read once, and a load that fails in the middle has changed nothing.

// replay applies the records of a journal that a snapshot does not have.
type replay struct {
	l     *loader
	pages *native.RedoPages
}

// replayJournal applies the journal that the options name to what is staged.
func (l *loader) replayJournal() error {
	if l.o.Journal == "" {
		return nil
	}
	read, err := journal.OpenReplay(file.OS{}, l.o.Journal)
	if err != nil {
		return err
	}
	held := l.state.Header().Journal
	if first := read.First(); first > held+1 {
		return status.Errorf(status.Mismatch, "the journal %q begins with record %d, the snapshot has those up to %d", l.o.Journal, first, held)
	}
	r := l.beginReplay()
	defer r.end()
	l.replayed, err = read.Run(held, journal.Until{
		Sequence: l.o.JournalUntil, Time: l.o.JournalUntilTime, Page: l.o.JournalPage, Epoch: l.o.JournalEpoch,
	}, r.stretch)
	return err
}

// beginReplay gives each staged block's record what a page's record says.
func (l *loader) beginReplay() *replay {
	l.inSnapshot = l.staged
	r := &replay{l, native.NewRedoPages(len(l.staged))}
	for i := range l.staged {
		s := &l.staged[i]
		record := native.RecordAt(s.Index)
		record.Size, record.Epoch, record.Version = s.Size, s.Epoch, s.Version
		record.StoreState(record.LoadState() | s.Low)
		r.pages.Put(s.ID, s.Index)
	}
	return r
}

// end makes the list of staged blocks anew.
func (r *replay) end() {
	r.l.staged = make([]native.Staged, 0, len(r.l.pages))
	r.pages.All(func(id uint64, index uint32) {
		record := native.RecordAt(index)
		state := record.LoadState()
		r.l.staged = append(r.l.staged, native.Staged{
			ID: id, Size: record.Size, Epoch: record.Epoch, Version: record.Version, Index: index, Generation: native.Generation(state),
			Low: state & (native.ExplicitID | native.Nonresident | native.LocationMask),
		})
	})
}

// page is a staged block as what it will be.
func (r *replay) page(index uint32) *locked {
	record := native.RecordAt(index)
	state := record.LoadState()
	return &locked{
		context: r.l.c, handle: native.Handle(native.KindPage, native.Generation(state), index), index: index, record: record, state: state,
	}
}

// stretch applies records.
func (r *replay) stretch(s *journal.Part) error {
	if err := r.l.goesOn(); err != nil {
		return err
	}
	for len(s.Records) > 0 {
		if !s.Within() {
			s.Skip(r.pages.Redo(s.Records))
		}
		record, err := s.Next()
		if err == nil && record != nil {
			err = r.apply(record)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// apply makes a change again, unless the state has it: docs/journal-format.md.
func (r *replay) apply(record *journal.Record) error {
	index, ok := r.pages.Find(record.Page)
	switch record.Kind {
	case journal.Create, journal.Adopt, journal.Clone:
		if ok {
			return nil
		}
		return r.create(record)
	case journal.DependencyAdd, journal.DependencyRemove:
		child, childOK := r.pages.Find(record.Other)
		if !ok || !childOK {
			return nil
		}
		return r.edge(record.Kind, index, child)
	}
	if !ok {
		return nil
	}
	p := r.page(index)
	if record.Kind == journal.Destroy {
		r.destroy(record.Page, p)
		return nil
	}
	if p.record.Version >= record.Version {
		return nil
	}
	err := r.change(p, record)
	p.record.StoreState(p.state) // it may lie elsewhere now
	if err == nil {
		p.record.Version, p.record.Epoch = record.Version, record.Epoch
	}
	return err
}

func (r *replay) edge(kind journal.Kind, parent, child uint32) error {
	change := r.l.graph.Add
	if kind == journal.DependencyRemove {
		change = r.l.graph.Remove
	}
	err := change(parent, child)
	if code := status.CodeOf(err); code == status.AlreadyExists || code == status.NotFound {
		return nil
	}
	return err
}

// change makes a change that is not native code's.
func (r *replay) change(p *locked, record *journal.Record) error {
	if err := p.present(); err != nil {
		return err
	}
	switch record.Kind {
	case journal.Write, journal.Run, journal.Delta:
		return r.bytes(p, record)
	case journal.Resize:
		return p.resize(record.Size)
	case journal.Migrate:
		_, err := p.migrate(record.Location, record.Device)
		return err
	case journal.MaskClear:
		if p.record.MaskFrame != 0 {
			clear(native.Bytes(p.record.MaskLocator, (p.record.Size+7)/8))
		}
		return nil
	case journal.MetadataSet:
		blob, err := metadata.Set(metadataOf(p.record), record.Key, record.Value)
		if err != nil {
			return err
		}
		return p.storeMetadata(blob, uint32(metadata.Count(blob)), nil)
	case journal.MetadataRemove:
		if err := metadata.CheckKey(record.Key); err != nil {
			return err
		}
		blob, ok := metadata.Remove(metadataOf(p.record), record.Key)
		if !ok {
			return nil
		}
		return p.storeMetadata(blob, uint32(metadata.Count(blob)), nil)
	case journal.MetadataImport:
		count, err := metadata.Validate(record.Bytes)
		if err != nil {
			return err
		}
		return p.storeMetadata(record.Bytes, uint32(count), nil)
	}
	return status.Errorf(status.Corrupt, "record %d is of the unknown kind %d", record.Sequence, record.Kind)
}

// bytes makes a change of a page's bytes that native code has left to Go.
func (r *replay) bytes(p *locked, record *journal.Record) error {
	if p.state&native.Nonresident != 0 {
		if err := p.context.bringIn(p.index); err != nil {
			return err
		}
		defer p.context.leave(p.index)
	}
	switch record.Kind {
	case journal.Write:
		return fromNative(native.RedoWrite(p.index, record.Version, record.Epoch, record.Offset, record.Bytes))
	case journal.Run:
		run := journal.Words(record.Offset, uint64(len(record.Bytes)))
		return fromNative(native.RedoDelta(p.index, record.Version, record.Epoch, journal.Runs, nil, 0, run, 1, record.Bytes))
	default:
		return fromNative(native.RedoDelta(p.index, record.Version, record.Epoch, record.Form, record.Mask, record.MaskLength, record.Positions,
			record.Count, record.Bytes))
	}
}

// create makes a page again.
func (r *replay) create(record *journal.Record) error {
	if record.Kind == journal.Clone {
		return r.clone(record)
	}
	c, size := r.l.c, record.Size
	if err := checkSize(size); err != nil {
		return err
	}
	options := CreateOptions{Location: record.Location, Device: record.Device, NUMANode: record.NUMANode}
	b, err := c.takeFor(size, &options)
	if status.CodeOf(err) == status.InvalidArgument && options.NUMANode >= 0 { // this machine may have no such node
		options.NUMANode = -1
		b, err = c.takeFor(size, &options)
	}
	if err != nil {
		return err
	}
	return r.begin(record, b, size, options.NUMANode, func(p *locked) error {
		switch {
		case len(record.Bytes) == 0:
			return nil
		case b.away.length > 0:
			return c.writeAway(b.away, 0, record.Bytes)
		}
		copy(p.bytes(), record.Bytes)
		return nil
	})
}

func (r *replay) clone(record *journal.Record) error {
	index, ok := r.pages.Find(record.Other)
	if !ok {
		return status.Errorf(status.Corrupt, "record %d clones page %d, which is not there", record.Sequence, record.Other)
	}
	source := r.page(index)
	err := source.present()
	source.record.StoreState(source.state)
	if err != nil {
		return err
	}
	b, err := source.takeLike(source.record.Size)
	if err != nil {
		return err
	}
	return r.begin(record, b, source.record.Size, source.node(), func(p *locked) error { return source.copyTo(p, b) })
}

// begin makes a staged block of a block; fill fills it.
func (r *replay) begin(record *journal.Record, b block, size uint64, numaNode int32, fill func(p *locked) error) error {
	p := r.page(b.index)
	side, err := p.side()
	if err != nil {
		r.l.c.give(b)
		return err
	}
	side.ID, side.NUMANode = record.Page, numaNode
	b.away.note(side)
	p.record.Size, p.record.Version, p.record.Epoch = size, record.Version, record.Epoch
	p.record.StoreState(p.state | b.location | native.ExplicitID)
	r.pages.Put(record.Page, b.index)
	r.l.pages[record.Page] = p.handle
	return fill(p)
}

// destroy ends a staged block. Its record's next page has another generation, so that an incremental save does not take it for a page of
// the snapshot.
func (r *replay) destroy(id uint64, p *locked) {
	if r.l.graph.Edges() > 0 {
		r.l.graph.RemoveNode(p.index)
	}
	r.pages.Remove(id)
	delete(r.l.pages, id)
	if generation := native.Generation(p.state); generation < native.GenerationMax {
		p.record.StoreState(native.State(native.StateFrame, generation+1, p.state&native.ClassMask))
	}
	r.l.dropOne(&native.Staged{Index: p.index})
}
