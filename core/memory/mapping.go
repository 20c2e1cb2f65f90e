package memory

import (
	"libmmsb/core/region"
	"libmmsb/native"
)

// Mappings: large frames that are a region of their own, which can grow without a copy.

// mappedMin is the size from which a frame is a mapping.
const mappedMin = 1<<20 + 1

// Mapped says whether a frame of a size is a mapping, whatever else is asked for.
func Mapped(size uint64) bool { return size >= mappedMin }

// mappings are a context's. Under the lock of the memory.
type mappings struct {
	ledger  *ledger
	huge    bool
	regions map[uint32]struct{}
}

// take takes zeroed memory from the system.
func (m *mappings) take(length uint64) (locator uint64, err error) {
	if err := m.ledger.charge(length); err != nil {
		return 0, err
	}
	number, err := region.Map(length, m.huge)
	if err != nil {
		m.ledger.uncharge(length)
		return 0, err
	}
	m.regions[number] = struct{}{}
	return native.Locator(number, 0), nil
}

// give gives it back.
func (m *mappings) give(number uint32, length uint64) {
	delete(m.regions, number)
	region.Unmap(number)
	m.ledger.uncharge(length)
}
