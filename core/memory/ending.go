package memory

import (
	"sync/atomic"

	"libmmsb/core/region"
	"libmmsb/native"
)

// Memory that outlives its page: pinned when the context ended, or released to the caller. The region that it lies in stays until
// the last piece of it goes, and so do the context's records.

// ending is what is known of the end of a context. Under the lock of the memory.
type ending struct {
	outliving map[uint32]int // by region: pieces of memory in it that outlive their pages
	ended     bool
	regions   []uint32 // that are left after the end
	over      bool     // nothing is left, and Over has not come yet
}

// outliving counts the pieces of the process.
var outliving atomic.Uint64

// Outliving is the number of pieces of memory that outlive their page.
func Outliving() uint64 { return outliving.Load() }

// Outlive notes that the memory of a frame outlives its page.
func (m *Memory) Outlive(number uint32) {
	m.Lock()
	defer m.Unlock()
	if m.ending.outliving == nil {
		m.ending.outliving = make(map[uint32]int)
	}
	m.ending.outliving[number]++
	outliving.Add(1)
}

// EndOutliving frees a piece of memory, in a region, that has outlived its page.
func (m *Memory) EndOutliving(number uint32) {
	e := &m.ending
	defer m.tellOver()
	m.Lock()
	defer m.Unlock()
	outliving.Add(^uint64(0))
	e.outliving[number]--
	if e.outliving[number] > 0 {
		return
	}
	delete(e.outliving, number)
	if !e.ended {
		return // the region is still the live context's
	}
	for i, left := range e.regions {
		if left == number {
			e.regions = append(e.regions[:i], e.regions[i+1:]...)
			region.Unmap(number)
			break
		}
	}
	m.forgetIfOver()
}

// End gives back all memory that nobody holds. The context's pages have ended.
func (m *Memory) End() {
	e := &m.ending
	defer m.tellOver()
	m.Lock()
	defer m.Unlock()
	e.ended = true
	endedLeaves.Lock()
	for _, leaf := range m.records.leaves {
		endedLeaves.memory[leaf.Number] = m
		native.SetLeafContext(leaf.Number, 0)
	}
	endedLeaves.Unlock()
	all := append(m.slabs.regions, m.extents.numbers()...)
	for number := range m.mapped {
		all = append(all, number)
	}
	m.mapped = nil
	for _, number := range all {
		if e.outliving[number] > 0 {
			e.regions = append(e.regions, number)
		} else {
			region.Unmap(number)
		}
	}
	m.forgetIfOver()
	byContext[m.context].Store(nil)
}

// forgetIfOver gives the records back when the context has ended and nothing outlives it. Under the lock.
func (m *Memory) forgetIfOver() {
	if !m.ending.ended || len(m.ending.outliving) > 0 {
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
	m.ending.over = true
}

// tellOver tells once that nothing is left. Without the lock: who hears it may wait for devices.
func (m *Memory) tellOver() {
	m.Lock()
	over := m.ending.over
	m.ending.over = false
	m.Unlock()
	if over {
		m.hooks.Over()
	}
}
