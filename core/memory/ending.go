package memory

import (
	"slices"
	"sync/atomic"

	"libmmsb/core/region"
	"libmmsb/native"
)

// Memory that outlives its page: pinned when the context ended, or released to the caller. The region that it lies in stays until
// the last piece of it goes, and so do the context's records.

// outlivingPieces counts the pieces of the process.
var outlivingPieces atomic.Uint64

// Outliving is the number of pieces of memory that outlive their page.
func Outliving() uint64 { return outlivingPieces.Load() }

// Outlive notes that the memory of a frame outlives its page.
func (m *Memory) Outlive(number uint32) {
	m.Lock()
	defer m.Unlock()
	m.outliving[number]++
	outlivingPieces.Add(1)
}

// EndOutliving frees a piece of memory, in a region, that has outlived its page.
func (m *Memory) EndOutliving(number uint32) {
	defer m.tellOver()
	m.Lock()
	defer m.Unlock()
	outlivingPieces.Add(^uint64(0))
	m.outliving[number]--
	if m.outliving[number] > 0 {
		return
	}
	delete(m.outliving, number)
	if !m.ended {
		return // the region is still the live context's
	}
	if i := slices.Index(m.left, number); i >= 0 {
		m.left = slices.Delete(m.left, i, i+1)
		region.Unmap(number)
	}
	m.forgetIfOver()
}

// End gives back all memory that nobody holds. The context's pages have ended.
func (m *Memory) End() {
	defer m.tellOver()
	m.Lock()
	defer m.Unlock()
	m.ended = true
	endedLeaves.Lock()
	for _, leaf := range m.records.leaves {
		endedLeaves.memory[leaf.Number] = m
		native.EndLeaf(leaf.Number)
	}
	endedLeaves.Unlock()
	all := append(m.slabs.regions, m.extents.numbers()...)
	for number := range m.mappings.regions {
		all = append(all, number)
	}
	for _, number := range all {
		if m.outliving[number] > 0 {
			m.left = append(m.left, number)
		} else {
			region.Unmap(number)
		}
	}
	m.guard.reports.end()
	native.SetGuard(m.context, 0)
	m.forgetIfOver()
	byContext[m.context].Store(nil)
}

// forgetIfOver gives the records back when the context has ended and nothing outlives it. Under the lock.
func (m *Memory) forgetIfOver() {
	if !m.ended || len(m.outliving) > 0 {
		return
	}
	endedLeaves.Lock()
	for _, leaf := range m.records.leaves {
		delete(endedLeaves.memory, leaf.Number)
	}
	endedLeaves.Unlock()
	for _, leaf := range m.records.leaves {
		native.ForgetSaved(leaf.Number)
		giveLeaf(leaf.Number)
	}
	m.records.leaves = nil
	m.over = true
}

// tellOver tells once that nothing is left. Without the lock: who hears it may wait for devices.
func (m *Memory) tellOver() {
	m.Lock()
	over := m.over
	m.over = false
	m.Unlock()
	if over {
		m.hooks.Over()
	}
}
