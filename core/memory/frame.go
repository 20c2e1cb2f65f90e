package memory

import (
	"libmmsb/core/lasterror"
	"libmmsb/core/log"
	"libmmsb/core/region"
	"libmmsb/native"
)

// TakePage takes a frame for a page of the host: guarded if it is its turn; of a NUMA node, unless that is -1. Where it is not to
// be zeroed, it may have bytes of the context's ended pages.
func (m *Memory) TakePage(size uint64, node int32, zeroed bool) (index uint32, err error) {
	if err := CheckSize(size); err != nil {
		return 0, err
	}
	if m.guard.every != 0 && native.GuardNext(m.context) {
		return m.takeGuarded(size, node, zeroed)
	}
	return m.takePlain(size, node, zeroed)
}

func (m *Memory) takePlain(size uint64, node int32, zeroed bool) (index uint32, err error) {
	switch {
	case node >= 0:
		return m.TakeOnNode(size, node)
	case size > native.SmallMax:
		return m.TakeLarge(size, false, zeroed)
	}
	return m.TakeFrame(size)
}

// TakeFrame takes a zeroed frame.
func (m *Memory) TakeFrame(size uint64) (index uint32, err error) {
	if size > native.SmallMax {
		return m.TakeLarge(size, false, true)
	}
	index, code := native.TakeFrame(m.context, size)
	return index, lasterror.Load(code)
}

// TakeSmall takes frames for pages of one size of at most native.SmallMax, one for each index, or none. Where they are not to be
// zeroed, they may have bytes of the context's ended pages.
func (m *Memory) TakeSmall(size uint64, zeroed bool, indices []uint32) error {
	if m.guard.every != 0 {
		for i := range indices {
			var err error
			if indices[i], err = m.TakePage(size, -1, zeroed); err != nil {
				for _, index := range indices[:i] {
					m.Give(index)
				}
				return err
			}
		}
		return nil
	}
	return lasterror.Load(native.TakeFrames(m.context, size, zeroed, indices))
}

// TakeLarge takes a frame of whole system pages; mapped asks for a mapping, which large ones are anyway. Where it is not to be
// zeroed, it may have bytes of the context's ended pages.
func (m *Memory) TakeLarge(size uint64, mapped, zeroed bool) (index uint32, err error) {
	if err := CheckSize(size); err != nil {
		return 0, err
	}
	locator, capacity, class := uint64(0), RoundUp(size), uint64(native.ClassExtent)
	if mapped || Mapped(size) {
		class = native.ClassMapped
	}
	m.Lock()
	defer m.Unlock()
	if index, err = m.take(0, capacity, class); err != nil {
		return 0, err
	}
	err = m.orTrim(func() (err error) {
		if class == native.ClassMapped {
			locator, err = m.mappings.take(capacity)
		} else {
			locator, err = m.extents.take(capacity/region.SystemPage, zeroed)
		}
		return err
	})
	record := native.RecordAt(index)
	if err != nil {
		m.records.free(index, native.Generation(record.LoadState()))
		return 0, err
	}
	record.Locator = locator
	return index, nil
}

// take takes a record and makes it a frame with memory. Under the lock.
func (m *Memory) take(locator, size, class uint64) (index uint32, err error) {
	if err := m.errClosed(); err != nil {
		return 0, err
	}
	if index, err = m.records.take(); err != nil {
		return 0, err
	}
	record := native.RecordAt(index)
	record.Locator, record.Size, record.Exposed = locator, size, 0
	record.StoreState(native.State(native.StateFrame, native.Generation(record.LoadState()), class<<native.ClassShift))
	return index, nil
}

// TakeOnNode takes a zeroed frame of a NUMA node: a mapping, however small.
func (m *Memory) TakeOnNode(size uint64, node int32) (index uint32, err error) {
	if index, err = m.TakeLarge(size, true, true); err != nil {
		return 0, err
	}
	if err := region.Prefer(native.LocatorRegion(native.RecordAt(index).Locator), node); err != nil {
		m.Give(index)
		return 0, err
	}
	return index, nil
}

// TakeBare takes a frame without memory.
func (m *Memory) TakeBare() (index uint32, err error) {
	var indices [1]uint32
	err = m.TakeAllBare(indices[:])
	return indices[0], err
}

// TakeAllBare takes frames without memory, or none.
func (m *Memory) TakeAllBare(indices []uint32) error {
	m.Lock()
	defer m.Unlock()
	for i := range indices {
		index, err := m.take(0, 0, native.ClassNone)
		if err != nil {
			for _, taken := range indices[:i] {
				m.giveUnderLock(taken)
			}
			return err
		}
		indices[i] = index
	}
	return nil
}

// Adopt takes a frame over memory that is there: ClassForeign, of the caller, or ClassDevice, which FreeDevice gives back.
func (m *Memory) Adopt(address uintptr, size, class uint64) (index uint32, err error) {
	number, err := region.Adopt(address, size)
	if err != nil {
		return 0, err
	}
	m.Lock()
	defer m.Unlock()
	if index, err = m.take(native.Locator(number, 0), size, class); err != nil {
		region.Unmap(number)
	}
	return index, err
}

// Give gives a frame back: a small one to the calling thread's magazine. Native code that gives a large one comes here.
func (m *Memory) Give(index uint32) {
	record := native.RecordAt(index)
	state := record.LoadState()
	if native.Class(state) < native.SmallClasses {
		native.GiveFrame(m.context, index)
		return
	}
	m.drop(index, record.Size, native.Generation(state))
}

// giveUnderLock is Give under the lock: a small frame goes to no thread's magazine.
func (m *Memory) giveUnderLock(index uint32) {
	record := native.RecordAt(index)
	state := record.LoadState()
	if native.Class(state) < native.SmallClasses {
		m.slabs.give(index)
		return
	}
	m.dropUnderLock(index, record.Size, native.Generation(state))
}

// FrameSize is what the size field of a frame says that has the memory of a page of a size.
func FrameSize(index uint32, size uint64) uint64 {
	if class := native.Class(native.RecordAt(index).LoadState()); class < native.SmallClasses {
		return native.ClassSize(class)
	}
	return RoundUp(size)
}

// drop gives large memory of a record back. The record is bare and free for the next generation, 0 = for none.
func (m *Memory) drop(index uint32, size uint64, generation uint32) {
	record := native.RecordAt(index)
	class := native.Class(record.LoadState())
	switch class {
	case native.ClassGuarded:
		m.dropGuarded(index, generation)
		return
	case native.ClassDevice:
		m.hooks.FreeDevice(native.LocatorRegion(record.Locator))
	}
	m.Lock()
	defer m.Unlock()
	m.dropUnderLock(index, size, generation)
}

func (m *Memory) dropUnderLock(index uint32, size uint64, generation uint32) {
	record := native.RecordAt(index)
	class := native.Class(record.LoadState())
	number := native.LocatorRegion(record.Locator)
	switch capacity := RoundUp(size); {
	case class == native.ClassForeign, class == native.ClassDevice:
		region.Unmap(number)
	case m.ended: // the region goes as a whole
	case class == native.ClassMapped:
		m.mappings.give(number, capacity)
	case class == native.ClassExtent && !m.closed:
		m.extents.give(record.Locator, capacity)
	}
	m.records.free(index, generation)
}

// Refill takes free slots of a size class for a thread's magazine.
func (m *Memory) Refill(class uint32, handles []uint64) (count int, err error) {
	native.CountContext(m.context) // notes the peak
	m.Lock()
	defer m.Unlock()
	if err := m.errClosed(); err != nil {
		return 0, err
	}
	err = m.orTrim(func() (err error) {
		count, err = m.slabs.refill(class, handles)
		return err
	})
	return count, err
}

// GrowMapping makes the mapping of a locked page longer, by zeros. It may move.
func (m *Memory) GrowMapping(number uint32, from, to uint64) error {
	m.Lock()
	err := m.orTrim(func() error { return m.ledger.charge(to - from) })
	m.Unlock()
	if err != nil {
		return err
	}
	if err = region.Resize(number, to); err != nil {
		m.uncharge(to - from)
	}
	return err
}

// CutMapping makes it shorter. Where the system refuses, the memory stays with the page.
func (m *Memory) CutMapping(number uint32, from, to uint64) {
	if err := region.Resize(number, to); err != nil {
		log.Logf(log.Warning, "cannot cut a mapping of %d bytes to %d: %v", from, to, err)
		return
	}
	m.uncharge(from - to)
}

func (m *Memory) uncharge(bytes uint64) {
	m.Lock()
	defer m.Unlock()
	m.ledger.uncharge(bytes)
}

// Map maps memory that is not charged, for bytes of a page that are needed for a while; region.Unmap gives it back.
func (m *Memory) Map(length uint64) (number uint32, err error) {
	return region.Map(length, m.mappings.huge)
}

// FreeRecord frees the record of a page that has nothing left but its memory. The record is locked; state is without owner. A
// page that has outlived its context counts nowhere: another context may have the index.
func (m *Memory) FreeRecord(index uint32, state uint64) {
	record := native.RecordAt(index)
	generation := native.Generation(state)
	if native.Kind(state) == native.StateEnded {
		m.drop(index, record.Size, generation+1)
		return
	}
	if native.Class(state) < native.SmallClasses {
		if generation != native.GenerationMax {
			native.FinishRecord(index, state)
			return
		}
		m.moveMemory(index, &state)
	}
	native.AddCounts(m.context, 0, 1, 0, record.Size)
	m.drop(index, record.Size, generation+1) // 0 when the generations are used up
}

// moveMemory gives a record's small memory to another one, because its own generations are used up.
func (m *Memory) moveMemory(index uint32, state *uint64) {
	bare, err := m.TakeBare()
	if err != nil {
		return // the memory stays with the retired record until the context ends
	}
	other := native.RecordAt(bare)
	otherState := other.LoadState()
	native.SwapMemory(index, state, bare, &otherState)
	other.StoreState(otherState)
	native.RecordAt(index).StoreState(*state | native.OwnerLibrary)
	native.GiveFrame(m.context, bare)
}
