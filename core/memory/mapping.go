package memory

import (
	"libmmsb/core/log"
	"libmmsb/core/region"
	"libmmsb/native"
)

// Mappings: large frames that are a region of their own, which can grow without a copy.

// mappedMin is the size from which a frame is a mapping.
const mappedMin = 1<<20 + 1

// Mapped says whether a frame of a size is a mapping, whatever else is asked for.
func Mapped(size uint64) bool { return size >= mappedMin }

// takeMapping takes zeroed memory from the system. Under the lock.
func (m *Memory) takeMapping(length uint64) (locator uint64, err error) {
	if err := m.charge(length); err != nil {
		return 0, err
	}
	number, err := region.Map(length, m.huge)
	if err != nil {
		m.ledger.Give(length)
		return 0, err
	}
	if m.mapped == nil {
		m.mapped = make(map[uint32]struct{})
	}
	m.mapped[number] = struct{}{}
	return native.Locator(number, 0), nil
}

// giveMapping gives it back. Under the lock.
func (m *Memory) giveMapping(number uint32, length uint64) {
	delete(m.mapped, number)
	region.Unmap(number)
	m.ledger.Give(length)
}

// GrowMapping makes the mapping of a locked page longer, by zeros. It may move.
func (m *Memory) GrowMapping(number uint32, from, to uint64) error {
	m.Lock()
	err := m.charge(to - from)
	m.Unlock()
	if err != nil {
		return err
	}
	if err := region.Resize(number, to); err != nil {
		m.ledger.Give(to - from)
		return err
	}
	return nil
}

// CutMapping makes it shorter. Where the system refuses, the memory stays with the page.
func (m *Memory) CutMapping(number uint32, from, to uint64) {
	if err := region.Resize(number, to); err != nil {
		log.Logf(log.Warning, "cannot cut a mapping of %d bytes to %d: %v", from, to, err)
		return
	}
	m.ledger.Give(from - to)
}

// Map maps memory that is not charged, for bytes of a page that are needed for a while; region.Unmap gives it back.
func (m *Memory) Map(length uint64) (number uint32, err error) { return region.Map(length, m.huge) }
