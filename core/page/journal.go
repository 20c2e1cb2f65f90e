package page

import (
	"math"
	"sync"
	"sync/atomic"
	"time"

	"libmmsb/core/file"
	"libmmsb/core/journal"
	"libmmsb/core/log"
	"libmmsb/core/safego"
	"libmmsb/core/snapshot"
	"libmmsb/core/status"
	"libmmsb/native"
)

// A context's journal: native/journal.h takes the records of changes, core/journal writes them. Native code puts the records of its own changes;
// here are those of Go's, put when nothing else of a change can fail.

// journalled is a record that was put: what a call that is durable waits for.
type journalled struct {
	ring     native.Ring
	sequence uint64
}

func (j *journalled) wait() error {
	if j.sequence == 0 {
		return nil
	}
	return fromNative(j.ring.Wait(j.sequence))
}

// settle unlocks a page and waits for the record of its change.
func (p *locked) settle(err *error) {
	p.unlock()
	if waited := p.journalled.wait(); *err == nil {
		*err = waited
	}
}

// journal puts the record of a change that is about to be made.
func (p *locked) journal(kind journal.Kind, version uint64, pieces ...[]byte) error {
	ring, ok := native.RingOf(p.context.index)
	if !ok {
		return nil
	}
	head := native.Head{Kind: uint8(kind), Page: recordID(p.index, p.state), Version: version, Epoch: p.record.Epoch}
	sequence, code := ring.Append(head, pieces...)
	p.journalled = journalled{ring, sequence}
	return fromNative(code)
}

func (p *locked) journalResize(size uint64) error {
	return p.journal(journal.Resize, p.record.Version+1, journal.Words(size))
}

func (p *locked) journalMigrate(location, device int32) error {
	return p.journal(journal.Migrate, p.record.Version+1, journal.MigrateBody(location, device, p.node()))
}

// entry is the record of a new page: the kind, and what follows size, place and state.
type entry struct {
	kind  journal.Kind
	body  []byte // of a clone
	bytes []byte // of an adopted page
}

// journalPublished puts the record of a page that is about to begin.
func (p *locked) journalPublished(e entry, epoch, version uint64) error {
	ring, ok := native.RingOf(p.context.index)
	if !ok {
		return nil
	}
	id := p.context.ids.automatic(p.handle)
	device := int32(0)
	if p.record.Side != 0 {
		device = native.SideAt(p.record.Side).Device
		if p.state&native.ExplicitID != 0 {
			id = native.SideAt(p.record.Side).ID
		}
	}
	body := e.body
	if e.kind != journal.Clone {
		state := uint32(0)
		if p.state&native.Adopted != 0 {
			state |= 1
		}
		if p.state&native.ReadOnly != 0 {
			state |= 2
		}
		body = journal.CreateBody(p.record.Size, p.location(), device, p.node(), state)
	}
	sequence, code := ring.Append(native.Head{Kind: uint8(e.kind), Page: id, Version: version, Epoch: epoch}, body, e.bytes)
	p.journalled = journalled{ring, sequence}
	return fromNative(code)
}

// journalEdge puts the record of a dependency. The pages are locked.
func (c *Context) journalEdge(kind journal.Kind, parent, child uint32, told *journalled) error {
	ring, ok := native.RingOf(c.index)
	if !ok {
		return nil
	}
	sequence, code := ring.Append(native.Head{Kind: uint8(kind), Page: liveID(parent)}, journal.Words(liveID(child)))
	*told = journalled{ring, sequence}
	return fromNative(code)
}

// JournalOptions are those of mmsb_journal_options_t.
type JournalOptions struct {
	Durability   int32
	IntervalMs   uint32
	SegmentBytes uint64
	Keep         bool
}

// The values of mmsb_journal_options_t's durability.
const (
	DurabilityInterval = 0
	DurabilityCall     = 1
	DurabilityNone     = 2
)

// JournalInfo is mmsb_journal_info_t.
type JournalInfo struct {
	Segments                   uint32
	First, Last, Synced, Bytes uint64
}

// journals is what a context knows of its journal.
type journals struct {
	context    uint32
	sync.Mutex                               // opening and closing, and what may not be between them
	open       atomic.Pointer[openedJournal] // nil where there is none
	// at is the number of the last record that the state has.
	at uint64
}

// openedJournal is a journal from opening to closing.
type openedJournal struct {
	keep      bool // segments that snapshots have made unnecessary
	writer    *journal.Writer
	ring      native.Ring
	directory string
	served    chan struct{} // closed when the writer has ended
	failed    error         // of the writer, when it has ended
}

// OpenJournal begins to journal a context.
func OpenJournal(context uint64, directory string, o JournalOptions) error {
	durability := journal.Interval
	switch o.Durability {
	case DurabilityInterval:
	case DurabilityCall:
		durability = journal.EachCall
	case DurabilityNone:
		durability = journal.None
	default:
		return status.Errorf(status.InvalidArgument, "durability %d is not interval, call or none", o.Durability)
	}
	if directory == "" {
		return status.Errorf(status.InvalidArgument, "the directory is empty")
	}
	if o.SegmentBytes > math.MaxInt64 {
		return status.Errorf(status.InvalidArgument, "segment_bytes is %d", o.SegmentBytes)
	}
	if o.IntervalMs == 0 {
		return status.Errorf(status.InvalidArgument, "interval_ms is 0")
	}
	interval := time.Duration(o.IntervalMs) * time.Millisecond
	return Use(context, func(c *Context) error {
		if !c.saves.TryLock() {
			return status.Errorf(status.Busy, "a save or load of context 0x%016x is running", c.handle)
		}
		defer c.saves.Unlock()
		j := &c.journals
		j.Lock()
		defer j.Unlock()
		if opened := j.open.Load(); opened != nil {
			return status.Errorf(status.AlreadyExists, "context 0x%016x has the journal %q", c.handle, opened.directory)
		}
		writer, err := journal.NewWriter(file.OS{}, directory, journal.Options{
			Durability: durability, Interval: interval, SegmentBytes: int64(o.SegmentBytes), After: j.at,
		})
		if err != nil {
			return err
		}
		if last := writer.Next() - 1; last != j.at { // a new one begins behind it
			_ = writer.Close()
			return status.Errorf(status.Mismatch, "the journal %q ends with record %d, the context's state is that after record %d", directory,
				last, j.at)
		}
		ring, code := native.OpenRing(c.index, writer.Next(), native.RingBytes, interval, durability == journal.EachCall)
		if code != 0 {
			err := fromNative(code)
			_ = writer.Close()
			return err
		}
		opened := &openedJournal{keep: o.Keep, writer: writer, ring: ring, directory: directory, served: make(chan struct{})}
		j.open.Store(opened)
		safego.Go(func() {
			defer close(opened.served)
			opened.failed = writer.Serve(ring)
		})
		return nil
	})
}

// CloseJournal ends a context's journal; all records are on the disk then.
func CloseJournal(context uint64) error {
	return Use(context, func(c *Context) error {
		c.journals.Lock()
		defer c.journals.Unlock()
		if c.journals.open.Load() == nil {
			return noJournal(c)
		}
		return c.journals.close()
	})
}

func noJournal(c *Context) error {
	return status.Errorf(status.InvalidState, "context 0x%016x has no journal", c.handle)
}

// close ends the journal. Under the lock.
func (j *journals) close() error {
	opened := j.open.Load()
	opened.ring.Stop()
	<-opened.served
	j.at = opened.ring.Last() // with what came until the stop
	opened.ring.Close()
	j.open.Store(nil)
	return opened.failed
}

// position is the number of the last record that was put; without a journal that of the last one that the state has.
func (j *journals) position() uint64 {
	if ring, ok := native.RingOf(j.context); ok {
		return ring.Last()
	}
	return j.at
}

// flush waits until the record is on the disk, where there is a journal.
func (j *journals) flush(sequence uint64) error {
	if ring, ok := native.RingOf(j.context); ok {
		return fromNative(ring.Flush(sequence))
	}
	return nil
}

// dropBefore removes segments that a snapshot has made unnecessary, unless the journal is to keep them.
func (j *journals) dropBefore(sequence uint64) {
	j.Lock()
	defer j.Unlock()
	opened := j.open.Load()
	if opened == nil || opened.keep {
		return
	}
	if err := opened.writer.Drop(sequence); err != nil { // the next save tries again
		log.Logf(log.Warning, "segments of the journal %q before record %d are not removed: %v", opened.directory, sequence, err)
	}
}

// end ends the journal of a context that ends.
func (j *journals) end() {
	j.Lock()
	defer j.Unlock()
	if opened := j.open.Load(); opened != nil {
		if err := j.close(); err != nil {
			log.Logf(log.Error, "the journal %q ended badly: %v", opened.directory, err)
		}
	}
}

// SyncJournal waits until all calls that have returned are on the disk.
func SyncJournal(context uint64) error {
	return onJournal(context, func(j *openedJournal) error { return fromNative(j.ring.Flush(j.ring.Last())) })
}

// onJournal does something that the journal stays open for.
func onJournal(context uint64, work func(j *openedJournal) error) error {
	return Use(context, func(c *Context) error {
		c.journals.Lock()
		defer c.journals.Unlock()
		opened := c.journals.open.Load()
		if opened == nil {
			return noJournal(c)
		}
		return work(opened)
	})
}

// DropJournal removes the segments that a snapshot makes unnecessary.
func DropJournal(context uint64, path string) error {
	return onJournal(context, func(j *openedJournal) error {
		info, err := snapshot.Verify(path, snapshot.VerifyOptions{})
		if err != nil {
			return err
		}
		return j.writer.Drop(info.Journal)
	})
}

// GetJournalInfo is what a context's journal says of itself. It waits for nothing: neither the disk nor who holds the journal for it.
func GetJournalInfo(context uint64) (info JournalInfo, err error) {
	err = Use(context, func(c *Context) error {
		opened := c.journals.open.Load()
		if opened == nil {
			return noJournal(c)
		}
		extent := opened.writer.Extent()
		info.Segments, info.First, info.Bytes = uint32(extent.Segments), extent.First, uint64(extent.Bytes)
		info.Synced = opened.ring.Synced() // before Last, which is never behind it
		info.Last = opened.ring.Last()
		return nil
	})
	return info, err
}
