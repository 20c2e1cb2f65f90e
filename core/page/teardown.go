package page

import (
	"libmmsb/core/memory"
	"libmmsb/native"
)

// The end of pages that have more than small memory, or whose context ends. That of others is native code's.

// tearDown ends a locked page and frees its record. state is without owner.
func (c *Context) tearDown(index uint32, state uint64) {
	c.forgetEdges(index)
	c.dismantle(index, state)
}

// dismantle is tearDown for a page without dependencies.
func (c *Context) dismantle(index uint32, state uint64) {
	record := native.RecordAt(index)
	noteVersion(record.Version)
	c.leaving(index, state, true)
	c.persistence.Moved(index)
	c.dropMetadata(record)
	c.dropMask(index)
	var side native.Side
	if record.Side != 0 {
		side = *native.SideAt(record.Side)
		memory.GiveSides(record.Side)
		record.Side = 0
	}
	if state&native.ExplicitID != 0 {
		c.ids.end(side.ID, native.Handle(native.KindPage, native.Generation(state), index))
	}
	var giveBack func()
	if state&native.Adopted != 0 {
		giveBack = c.residency.Returning(index, &side, native.CallReleaseLocked)
	}
	c.residency.Forget(index, &side)
	c.memory.FreeRecord(index, state)
	if giveBack != nil {
		giveBack()
	}
}

// forgetEdges ends a page's dependencies.
func (c *Context) forgetEdges(index uint32) {
	c.dependencies.Lock()
	defer c.dependencies.Unlock()
	if c.dependencies.graph.Edges() > 0 {
		c.dependencies.graph.RemoveNode(index)
	}
}

// endLeaf ends the pages of a leaf and returns how many outlive it, because they are pinned.
func (c *Context) endLeaf(leaf memory.Leaf) (survivors int) {
	var indices [256]uint32
	for done := uint32(0); done < leaf.Used; {
		reported, looked := native.EndRecords(leaf.First()+done, leaf.Used-done, indices[:])
		done += looked
		for _, index := range indices[:reported] {
			record := native.RecordAt(index)
			state := record.LoadState()
			c.dropMetadata(record)
			if native.Kind(state) == native.StateEnded {
				c.residency.DropCopy(index)
				c.memory.Outlive(native.LocatorRegion(record.Locator))
				survivors++
				record.StoreState(state &^ native.OwnerMask)
				continue
			}
			c.tearDown(index, state&^native.OwnerMask)
		}
	}
	return survivors
}

// releaseEnded is the last unpin of a page whose context has ended. The record is locked.
func releaseEnded(index uint32) {
	record := native.RecordAt(index)
	state := record.LoadState() &^ native.OwnerMask
	c := contextOf(index)
	number := native.LocatorRegion(record.Locator)
	c.tearDown(index, state)
	c.memory.EndOutliving(number)
}
