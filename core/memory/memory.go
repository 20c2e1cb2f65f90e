// Package memory is what the pages of one context are made of: page records, and memory for them. It knows nothing of ids,
// locations, files and devices.
//
// A frame is a page record with memory that is not a page: it becomes one, or holds a change mask or a metadata blob. A frame of
// up to native.SmallMax bytes is a slot of a slab, and native code takes and gives it; larger ones are extents of shared regions,
// or mappings of their own, and are taken and given here.
package memory

import (
	"sync"
	"sync/atomic"

	"libmmsb/core/alloc"
	"libmmsb/core/region"
	"libmmsb/core/status"
	"libmmsb/native"
)

// MaxSize is the largest page that can be addressed: a region's offsets have 44 bits.
const MaxSize = 1 << 44

// CheckSize checks the size of a page.
func CheckSize(size uint64) error {
	if size == 0 || size > MaxSize {
		return status.Errorf(status.InvalidSize, "size is %d; a page has 1 to %d bytes", size, uint64(MaxSize))
	}
	return nil
}

// RoundUp rounds a size up to whole system pages.
func RoundUp(size uint64) uint64 { return (size + region.SystemPage - 1) &^ (region.SystemPage - 1) }

// Options say whose memory it is, and what bounds it.
type Options struct {
	Owner     any    // what OwnerOf finds
	Limit     uint64 // 0 = none
	HugePages bool
	// Of the guard: every so many pages one is guarded, 0 = none; bytes of given-back memory that are held back.
	GuardEvery, GuardQuarantine uint64
	Hooks
}

// Hooks are what memory tells the rooms above it.
type Hooks struct {
	// TakeLeaf calls take and readies the records of the leaf that it gives the context, before anything else can take one of
	// them. used tells whether another context had the leaf. Under the lock of the memory.
	TakeLeaf func(take func() (leaf uint32, used bool, err error)) (leaf uint32, err error)
	// FreeDevice gives a device's memory back that is a region. Under no lock: it may wait for the device.
	FreeDevice func(region uint32)
	// Over comes when the context has ended and nothing of it is left. Under no lock.
	Over func()
}

// Memory is a context's.
type Memory struct {
	sync.Mutex
	owner   any
	hooks   Hooks
	context uint32
	handle  uint64
	closed  bool

	ledger   ledger
	records  freeRecords
	slabs    slabs
	extents  extents
	mappings mappings
	guard    guard

	// Of the end of the context.
	outliving map[uint32]int // by region: pieces of memory in it that outlive their pages
	ended     bool
	left      []uint32 // regions, after the end
	over      bool     // nothing is left, and Over has not come yet
}

// New makes the memory of a new context.
func New(options Options) *Memory {
	m := &Memory{owner: options.Owner, hooks: options.Hooks, outliving: make(map[uint32]int)}
	m.ledger.limit = options.Limit
	m.records.takeLeaf = func() (uint32, error) {
		return m.hooks.TakeLeaf(func() (uint32, bool, error) { return takeLeaf(m.context) })
	}
	m.slabs.records, m.slabs.ledger, m.slabs.huge = &m.records, &m.ledger, options.HugePages
	m.extents = extents{
		ledger: &m.ledger, huge: options.HugePages, space: alloc.NewExtents(0), first: make(map[uint32]uint64),
		retained: retained{lock: m, discard: m.extents.discard},
	}
	m.mappings = mappings{&m.ledger, options.HugePages, make(map[uint32]struct{})}
	m.guard.begin(&options)
	return m
}

// Begin tells the memory its context's index and handle.
func (m *Memory) Begin(context uint32, handle uint64) {
	m.context, m.handle = context, handle
	m.records.context, m.guard.reports.context = context, context
	native.SetGuard(context, m.guard.every)
	byContext[context].Store(m)
}

// Close makes every later call that takes memory fail, as Close itself does.
func (m *Memory) Close() error {
	m.Lock()
	defer m.Unlock()
	err := m.errClosed()
	m.closed = true
	m.extents.retained.stop()
	return err
}

// Closed is the error of calls after Close; nil before.
func (m *Memory) Closed() error {
	m.Lock()
	defer m.Unlock()
	return m.errClosed()
}

func (m *Memory) errClosed() error {
	if m.closed {
		return status.Errorf(status.StaleHandle, "context 0x%016x has ended", m.handle)
	}
	return nil
}

// MayExceed lets what is taken exceed the limit, or no longer.
func (m *Memory) MayExceed(may bool) {
	if may {
		m.ledger.may.Add(1)
	} else {
		m.ledger.may.Add(-1)
	}
}

// Used is the number of bytes that count against the limit, which Limit is; 0 = none.
func (m *Memory) Used() uint64 { return m.ledger.used.Load() }

// Limit is the limit, 0 for none.
func (m *Memory) Limit() uint64 { return m.ledger.limit }

// Trim gives memory of ended pages back to the system: what is in quarantine, free extents, and spans all of whose slots are free
// and in no other thread's cache. It says how many bytes that is.
func (m *Memory) Trim() uint64 {
	m.Lock()
	defer m.Unlock()
	return m.trim()
}

func (m *Memory) trim() uint64 {
	before := m.Used()
	m.endQuarantine()
	m.extents.trim()
	native.LeaveMagazines(m.context)
	m.slabs.trim()
	return before - m.Used()
}

// orTrim takes memory. Where that fails it trims, and tries again. Under the lock.
func (m *Memory) orTrim(take func() error) error {
	err := take()
	if err == nil {
		return nil
	}
	if held := m.endQuarantine(); held+m.trim() > 0 { // memory that leaves quarantine may stay with the context
		err = take()
	}
	return err
}

// Leaves returns the context's leaves.
func (m *Memory) Leaves() []Leaf {
	m.Lock()
	defer m.Unlock()
	return append([]Leaf(nil), m.records.leaves...)
}

// WithLeaves calls work with the leaves that the context has; none comes meanwhile.
func (m *Memory) WithLeaves(work func(leaves []Leaf)) {
	m.Lock()
	defer m.Unlock()
	work(m.records.leaves)
}

// byContext finds the memory of a context's records, also while it ends.
var byContext [1 << 16]atomic.Pointer[Memory]

// endedLeaves are those of contexts that have ended but that something outlives.
var endedLeaves = struct {
	sync.Mutex
	memory map[uint32]*Memory
}{memory: make(map[uint32]*Memory)}

// Of is the memory that a record belongs to, also when its context has ended; nil where there is none.
func Of(index uint32) *Memory {
	leaf := index >> native.LeafBits
	if context := native.LeafContext(leaf); context != 0 {
		return OfContext(context)
	}
	endedLeaves.Lock()
	defer endedLeaves.Unlock()
	return endedLeaves.memory[leaf]
}

// OfContext is the memory of a context with an index, as long as its pages live.
func OfContext(context uint32) *Memory { return byContext[context].Load() }

// OwnerOf is the owner of the memory that a record belongs to, also when its context has ended; nil where there is none.
func OwnerOf(index uint32) any {
	if m := Of(index); m != nil {
		return m.owner
	}
	return nil
}
