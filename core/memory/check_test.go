package memory

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"libmmsb/core/alloc"
	"libmmsb/core/status"
	"libmmsb/native"
)

// Each kind of damage must be seen: a walk that sees nothing proves nothing. Each is undone, so that the context can end.
func TestCheckSeesDamage(t *testing.T) {
	withoutPeriods(t)
	withMemory(t, 0, func(m *Memory) {
		small, extent, mapping := take(t, m, 4096), take(t, m, 64<<10), take(t, m, 2<<20)
		m.Give(take(t, m, 64<<10)) // is retained
		class := native.Class(native.RecordAt(small).LoadState())
		k, at := &m.slabs.classes[class], native.RecordAt
		require.NoError(t, m.slabs.newSpan(class))
		require.NoError(t, m.slabs.newSpan(class))
		m.guard.blocks = make(map[uint64]*guarded)
		guardedPage, err := m.takeGuarded(100, -1, true)
		require.NoError(t, err)
		block := m.blockOf(guardedPage)
		bare, err := m.TakeBare()
		require.NoError(t, err)
		m.drop(bare, 0, 2)
		require.NoError(t, m.Check())

		for text, damage := range map[string]func() (undo func()){
			"have the same memory": func() func() {
				return damaged(&at(small).Locator, at(native.Index(k.slots[0])).Locator)
			},
			"belong to another extent": func() func() {
				return damaged(&at(mapping).State, native.State(native.StateFrame, 1, native.ClassExtent<<native.ClassShift))
			},
			"is not a mapping": func() func() {
				return damaged(&at(extent).State, native.State(native.StateFrame, 1, native.ClassMapped<<native.ClassShift))
			},
			"has no memory class, but locator": func() func() { return damaged(&at(bare).Locator, 1) },
			"is free twice":                    func() func() { return damaged(&m.records.bare, append(m.records.bare, bare)) },
			"of 4096 bytes is free twice":      func() func() { return damaged(&k.slots, append(k.slots, k.slots[0])) },
			"has 8192 free bytes of 4096": func() func() {
				return damaged(&at(native.Index(k.slots[0])).Locator, at(native.Index(k.slots[1])).Locator+64)
			},
			"free record": func() func() { return damaged(&m.records.bare, append(m.records.bare, extent)) },
			"free slot": func() func() {
				return damaged(&k.slots, append(k.slots, native.Handle(native.KindPage, 1, extent)))
			},
			"are allocated, records have": func() func() { return damaged(&at(extent).Size, 32<<10) },
			"retained system pages":       func() func() { return damaged(&m.extents.retained.recent, alloc.Set{^uint64(0)}) },
			"bytes are charged": func() func() {
				m.ledger.used.Add(1)
				return func() { m.ledger.used.Add(^uint64(0)) }
			},
			"mappings, records have": func() func() {
				m.mappings.regions[1<<19-1] = struct{}{}
				return func() { delete(m.mappings.regions, 1<<19-1) }
			},
			"is not guarded memory": func() func() { return damaged(&at(guardedPage).Locator, 0) },
			"records have guarded memory": func() func() {
				m.guard.blocks[0] = block
				return func() { delete(m.guard.blocks, 0) }
			},
			"of canaries and":    func() func() { return damaged(&m.guard.canaries, 1) },
			"in quarantine":      func() func() { return damaged(&m.guard.quarantine, []*guarded{block}) },
			"records are in use": func() func() { return damaged(&m.records.leaves[0].Used, native.LeafRecords+1) },
		} {
			undo := damage()
			err := m.Check()
			undo()
			assert.Equal(t, status.Internal, status.CodeOf(err), text)
			assert.ErrorContains(t, err, text)
			require.NoError(t, m.Check(), text)
		}
	})
}

// damaged changes a value; undo gives it the old one.
func damaged[T any](at *T, value T) (undo func()) {
	old := *at
	*at = value
	return func() { *at = old }
}
