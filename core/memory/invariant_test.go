//go:build invariants

package memory

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"libmmsb/native"
)

func TestMoreGivenBackThanTakenIsFoundAtOnce(t *testing.T) {
	var l ledger
	assert.NoError(t, l.charge(10))
	assert.PanicsWithError(t, "invariant broken: 11 bytes exceed the 10 that are taken", func() { l.uncharge(11) })
}

func TestAnExtentThatIsFreedTwiceIsFoundAtOnce(t *testing.T) {
	withMemory(t, 0, func(m *Memory) {
		frame := take(t, m, 64<<10)
		record := *native.RecordAt(frame)
		m.Give(frame)
		m.Lock()
		defer m.Unlock()
		assert.Panics(t, func() { m.extents.give(record.Locator, record.Size) })
	})
}

func TestARecordInUseIsNotTakenAgain(t *testing.T) {
	withMemory(t, 0, func(m *Memory) {
		frame := take(t, m, 64<<10)
		bare := m.records.bare
		m.records.give(frame)
		assert.Panics(t, func() { _, _ = m.records.take() })
		m.records.bare = bare
	})
}

func TestASlotInUseIsNotTakenAgain(t *testing.T) {
	withMemory(t, 0, func(m *Memory) {
		small := take(t, m, 64)
		state := native.RecordAt(small).LoadState()
		class := native.Class(state)
		k := &m.slabs.classes[class]
		slots := k.slots
		k.slots = append(k.slots, native.Handle(native.KindPage, native.Generation(state), small))
		assert.Panics(t, func() { _, _ = m.Refill(class, make([]uint64, 8)) })
		k.slots = slots
	})
}
