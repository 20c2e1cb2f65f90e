// Package memory is what the pages of one context are made of: page records, and memory for them. It knows nothing of ids,
// locations, files and devices.
//
// A frame is a page record with memory that is not a page: it becomes one, or holds a change mask or a metadata blob. A frame of
// up to native.SmallMax bytes is a slot of a slab, and native code takes and gives it; larger ones are extents of shared regions,
// or mappings of their own, and are taken and given here.
package memory

import (
	"sync"

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
	ledger  Ledger
	huge    bool
	closed  bool

	records  records
	slabs    slabs
	extents  extents
	retained retained
	mapped   map[uint32]struct{} // regions of single frames
	ending   ending
}

// New makes the memory of a new context.
func New(options Options) *Memory {
	m := &Memory{owner: options.Owner, hooks: options.Hooks, huge: options.HugePages}
	m.ledger.limit = options.Limit
	m.records.takeLeaf = func() (uint32, error) {
		return m.hooks.TakeLeaf(func() (uint32, bool, error) { return takeLeaf(m.context) })
	}
	return m
}

// Begin tells the memory its context's index and handle.
func (m *Memory) Begin(context uint32, handle uint64) {
	m.context, m.handle = context, handle
	m.records.context = context
	byContext[context].Store(m)
}

// Close makes every later call that takes memory fail. It returns false where it was called before.
func (m *Memory) Close() bool {
	m.Lock()
	defer m.Unlock()
	first := !m.closed
	m.closed = true
	if m.retained.timer != nil {
		m.retained.timer.Stop()
	}
	return first
}

// Closed says whether Close was called.
func (m *Memory) Closed() bool {
	m.Lock()
	defer m.Unlock()
	return m.closed
}

func (m *Memory) errEnded() error {
	return status.Errorf(status.StaleHandle, "context 0x%016x has ended", m.handle)
}

// Used is the number of bytes that count against the limit, which Limit is; 0 = none.
func (m *Memory) Used() uint64 { return m.ledger.Used() }

// Limit is the limit, 0 for none.
func (m *Memory) Limit() uint64 { return m.ledger.limit }

// charge counts memory that the context takes. At the limit it trims and tries again. Under the lock.
func (m *Memory) charge(bytes uint64) error {
	err := m.ledger.Take(bytes)
	if err != nil && m.trim() > 0 {
		err = m.ledger.Take(bytes)
	}
	return err
}

// Trim gives memory of ended pages back to the system: free extents, and spans all of whose slots are free and in no thread's
// cache.
func (m *Memory) Trim() uint64 {
	m.Lock()
	defer m.Unlock()
	return m.trim()
}

func (m *Memory) trim() uint64 {
	released := m.release(0, ^uint64(0))
	for class := range uint32(native.SmallClasses) {
		released += m.trimClass(class)
	}
	return released
}
