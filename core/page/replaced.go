package page

import (
	"libmmsb/core/memory"
	"libmmsb/native"
)

// replaced are the pages of a frozen context that end when staged pages begin: all, or those that have their ids. They are
// locked.
type replaced struct {
	context *Context
	all     bool
	leaves  []memory.Leaf // of all
	pages   []uint32      // else their records
	highest uint64        // of their versions
}

// lock locks them; none where one of them is pinned.
func (r *replaced) lock(by *Staging) error {
	if r.all {
		return r.lockAll()
	}
	for i := range by.Pages {
		handle, err := r.context.Lookup(by.Pages[i].ID)
		if err != nil {
			continue
		}
		p, err := lock(handle)
		if err != nil { // it has ended meanwhile, and none begins
			continue
		}
		r.pages = append(r.pages, p.Index)
		if err := p.notPinned(); err != nil {
			r.unlock()
			return err
		}
		r.highest = max(r.highest, p.Record.Version)
	}
	return nil
}

func (r *replaced) lockAll() error {
	for _, leaf := range r.context.memory.Leaves() {
		looked := native.LockRecords(leaf.First(), leaf.Used, &r.highest)
		if looked < leaf.Used {
			err := pageAt(r.context, leaf.First()+looked).notPinned()
			native.UnlockRecords(leaf.First(), looked+1)
			r.unlock()
			return err
		}
		r.leaves = append(r.leaves, leaf)
	}
	return nil
}

// unlock unlocks them where they are not to end.
func (r *replaced) unlock() {
	for _, leaf := range r.leaves {
		native.UnlockRecords(leaf.First(), leaf.Used)
	}
	for _, index := range r.pages {
		pageAt(r.context, index).unlock()
	}
}

// end ends them. They have no dependencies. What it returns gives memory back that was adopted.
func (r *replaced) end() (releases []func()) {
	if r.all {
		r.context.ids.forget()
	}
	finished := new(native.Finished)
	for _, leaf := range r.leaves {
		sides, left := finished.FinishRecords(leaf.First(), leaf.Used)
		memory.GiveSides(sides...)
		r.pages = append(r.pages, left...)
	}
	for _, index := range r.pages {
		p := pageAt(r.context, index)
		if release := p.ReleaseAdopted(); release != nil {
			releases = append(releases, release)
		}
		r.context.dismantle(index, p.State)
	}
	r.context.residency.DropReplicasOfEnded()
	return releases
}
