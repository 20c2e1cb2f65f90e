package memory

import (
	"libmmsb/core/lasterror"
	"libmmsb/core/region"
	"libmmsb/native"
)

// TakeFrame takes a zeroed frame.
func (m *Memory) TakeFrame(size uint64) (index uint32, err error) {
	if size > native.SmallMax {
		return m.TakeLarge(size, false, true)
	}
	index, code := native.TakeFrame(m.context, size)
	return index, lasterror.Load(code)
}

// TakeSmall takes frames of one size of at most native.SmallMax, one for each index, or none. Where they are not to be
// zeroed, they may have bytes of the context's ended pages.
func (m *Memory) TakeSmall(size uint64, zeroed bool, indices []uint32) error {
	return lasterror.Load(native.TakeFrames(m.context, size, zeroed, indices))
}

// TakeLarge takes a frame of whole system pages; mapped asks for a mapping, which large ones are anyway. Where it is not to be
// zeroed, it may have bytes of the context's ended pages.
func (m *Memory) TakeLarge(size uint64, mapped, zeroed bool) (index uint32, err error) {
	if err := CheckSize(size); err != nil {
		return 0, err
	}
	m.Lock()
	defer m.Unlock()
	if m.closed {
		return 0, m.errEnded()
	}
	if index, err = m.records.take(); err != nil {
		return 0, err
	}
	capacity := RoundUp(size)
	locator, class := uint64(0), uint64(native.ClassExtent)
	if mapped || Mapped(size) {
		class = native.ClassMapped
		locator, err = m.takeMapping(capacity)
	} else {
		locator, err = m.takeExtent(capacity/region.SystemPage, zeroed)
	}
	if err != nil {
		m.records.give(index)
		return 0, err
	}
	beginFrame(index, locator, capacity, class)
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
	m.Lock()
	defer m.Unlock()
	if m.closed {
		return 0, m.errEnded()
	}
	if index, err = m.records.take(); err != nil {
		return 0, err
	}
	record := native.RecordAt(index)
	record.Size = 0
	record.StoreState(native.State(native.StateFrame, native.Generation(record.LoadState()), native.ClassNone<<native.ClassShift))
	return index, nil
}

// AdoptForeign takes a frame over memory of the caller.
func (m *Memory) AdoptForeign(address uintptr, size uint64) (index uint32, err error) {
	return m.adopt(address, size, native.ClassForeign)
}

// AdoptDevice takes a frame over memory of a device, which FreeDevice gives back.
func (m *Memory) AdoptDevice(address uintptr, size uint64) (index uint32, err error) {
	return m.adopt(address, size, native.ClassDevice)
}

func (m *Memory) adopt(address uintptr, size, class uint64) (index uint32, err error) {
	number, err := region.Adopt(address, size)
	if err != nil {
		return 0, err
	}
	if index, err = m.TakeBare(); err != nil {
		region.Unmap(number)
		return 0, err
	}
	beginFrame(index, native.Locator(number, 0), size, class)
	return index, nil
}

// beginFrame gives a record memory.
func beginFrame(index uint32, locator, size, class uint64) {
	record := native.RecordAt(index)
	record.Locator, record.Size, record.Exposed = locator, size, 0
	record.StoreState(native.State(native.StateFrame, native.Generation(record.LoadState()), class<<native.ClassShift))
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
	number := native.LocatorRegion(record.Locator)
	if class == native.ClassDevice {
		m.hooks.FreeDevice(number)
	}
	m.Lock()
	defer m.Unlock()
	switch capacity := RoundUp(size); {
	case class == native.ClassForeign, class == native.ClassDevice:
		region.Unmap(number)
	case m.ending.ended: // the region goes as a whole
	case class == native.ClassMapped:
		m.giveMapping(number, capacity)
	case class == native.ClassExtent && !m.closed:
		m.giveExtent(record.Locator, capacity)
	}
	m.records.free(index, generation)
}
