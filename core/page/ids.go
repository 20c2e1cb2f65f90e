package page

import (
	"crypto/rand"
	"encoding/binary"
	"slices"
	"sync"

	"libmmsb/core/status"
	"libmmsb/native"
)

// ids are the identities of a context's pages. An automatic id is the handle's low 60 bits times an odd number of the context,
// modulo 2^60, under the top bits 0xa: it is found by multiplying with the inverse, with no map, and never comes twice. Only ids
// that the caller chose are in a table. One of these may be the automatic id of a page to come, as after a load: then its record
// is marked, and creating a page on it asks here.
type ids struct {
	sync.Mutex
	context         uint32
	factor, inverse uint64
	explicit        *native.ByID
	leaving         map[uint64]leaving // ids of pages that open groups have destroyed
	// waiting are marks for records of leaves that the context does not have yet: indices by group of leaves.
	waiting map[uint32][]uint32
	waits   int // their number
}

// leafGroup is how many leaves' marks wait together: after a load every page has one, all over.
const leafGroup = 256

func (i *ids) start() {
	i.factor = randomOdd()
	// Newton: each step doubles the number of right low bits.
	i.inverse = i.factor
	for range 6 {
		i.inverse *= 2 - i.factor*i.inverse
	}
	i.inverse &= native.IDMask
	i.explicit = native.NewByID(0)
	i.waiting = make(map[uint32][]uint32)
	i.leaving = make(map[uint64]leaving)
}

func (i *ids) automatic(handle uint64) uint64 {
	return native.IDAutomatic | handle*i.factor&native.IDMask
}

// reserve takes an id that the caller chose, for a page whose handle set brings later. The id of a page that a group has
// destroyed only this group, by, takes again. Under no lock.
func (i *ids) reserve(id uint64, by *group) error {
	i.Lock()
	defer i.Unlock()
	if gone, ok := i.leaving[id]; ok && gone.by != by {
		return errLeaving(id)
	}
	if page, ok := i.explicit.Find(id); ok {
		return status.Errorf(status.AlreadyExists, "id %d belongs to page 0x%016x", id, page)
	}
	if id&^native.IDMask == native.IDAutomatic {
		i.tidy()
		if i.mark(id) {
			// From here on whoever creates a page on the record sees the mark; who did not see it has finished.
			native.Synchronize(i.context)
			if i.begins(id) { // asked before the page is looked for, which it may be by then
				return status.Errorf(status.AlreadyExists, "id %d belongs to a page that is about to begin", id)
			}
			if page := native.FindPage(i.context, id); page != 0 {
				return status.Errorf(status.AlreadyExists, "id %d belongs to page 0x%016x", id, page)
			}
			if i.leaves(id) {
				return errLeaving(id)
			}
		}
	}
	i.explicit.Put(id, 0)
	return nil
}

// mark marks the record whose automatic id an id may be: creating a page on it asks. True where the context has the record
// already. Under the lock.
func (i *ids) mark(id uint64) bool {
	handle := id * i.inverse & native.IDMask
	index := native.Index(handle)
	leaf := index >> native.LeafBits
	if native.LeafContext(leaf) == i.context {
		record := native.RecordAt(index)
		if native.Generation(handle) < native.Generation(record.LoadState()) { // that page has been
			return false
		}
		record.IDTaken = 1
		return true
	}
	i.waiting[leaf/leafGroup] = append(i.waiting[leaf/leafGroup], index)
	i.waits++
	return false
}

// tidy forgets the marks that wait for ids which nobody has any more, once they are the most: ids that come and go would leave
// ever more of them. Under the lock.
func (i *ids) tidy() {
	if i.waits <= 2*i.explicit.Len()+leafGroup {
		return
	}
	clear(i.waiting)
	i.waits = 0
	again := func(id uint64) {
		if id&^native.IDMask == native.IDAutomatic {
			i.mark(id)
		}
	}
	i.explicit.All(func(id, _ uint64) { again(id) })
	for id := range i.leaving {
		again(id)
	}
}

// set says which page has a reserved id; drop gives the id up.
func (i *ids) set(id, page uint64) {
	i.Lock()
	i.explicit.Put(id, page)
	i.Unlock()
}

func (i *ids) drop(id uint64) {
	i.Lock()
	i.explicit.Remove(id)
	i.Unlock()
}

// end gives up the id of a page that has ended, unless another page has it by now.
func (i *ids) end(id, page uint64) {
	i.Lock()
	if has, _ := i.explicit.Find(id); has == page {
		i.explicit.Remove(id)
	}
	i.Unlock()
}

// forget gives up all ids before the pages that have them end: none is looked for one by one.
func (i *ids) forget() {
	i.Lock()
	i.explicit = native.NewByID(0)
	i.Unlock()
}

// leaving is the id of pages that a group has destroyed.
type leaving struct {
	by    *group
	pages int // one, unless the group has made and destroyed others
}

// leave takes the id from a page that a group destroys; others do not get it until the group has ended.
func (i *ids) leave(id uint64, by *group) {
	i.Lock()
	i.explicit.Remove(id)
	i.leaving[id] = leaving{by, i.leaving[id].pages + 1}
	i.Unlock()
}

// left ends leave: with a page, which has the id again.
func (i *ids) left(id, page uint64) {
	i.Lock()
	defer i.Unlock()
	if page != 0 {
		i.explicit.Put(id, page)
	}
	if gone := i.leaving[id]; gone.pages > 1 {
		i.leaving[id] = leaving{gone.by, gone.pages - 1}
	} else {
		delete(i.leaving, id)
	}
}

// leaves tells whether a page with this automatic id was destroyed by a group of another thread. Under the lock.
func (i *ids) leaves(id uint64) bool {
	handle := id * i.inverse & native.IDMask
	index := native.Index(handle)
	state := native.RecordAt(index).LoadState()
	return native.Kind(state) == native.StateLeaving && native.Generation(state) == native.Generation(handle) &&
		state&native.ExplicitID == 0 && native.CheckGroup(index, state) != 0
}

func errLeaving(id uint64) error {
	return status.Errorf(status.Busy, "id %d belongs to a page that a group of another thread has destroyed", id)
}

// taken tells whether the caller chose the automatic id of a handle. Under the lock.
func (i *ids) taken(handle uint64) bool {
	id := i.automatic(handle)
	_, ok := i.explicit.Find(id)
	_, leaving := i.leaving[id]
	return ok || leaving
}

// claim moves a frame's record to the first generation whose automatic id is not in use, for a page that begins. Go code is in no
// cache, so that reserve does not wait for it: the frame says that its id is no longer to be had.
func (i *ids) claim(index uint32) {
	i.Lock()
	defer i.Unlock()
	record := native.RecordAt(index)
	state := record.LoadState()
	generation := native.Generation(state)
	for generation != native.GenerationMax && i.taken(native.Handle(native.KindPage, generation, index)) {
		generation++
	}
	record.StoreState(native.State(native.StateFrame, generation, state&native.ClassMask|native.Beginning))
}

// begins tells whether a page is about to begin whose automatic id this is. Under the lock.
func (i *ids) begins(id uint64) bool {
	handle := id * i.inverse & native.IDMask
	state := native.RecordAt(native.Index(handle)).LoadState()
	return native.Kind(state) == native.StateFrame && native.Generation(state) == native.Generation(handle) &&
		state&native.Beginning != 0
}

// takeLeaf takes a leaf of records for the context, with the marks that wait for them.
func (i *ids) takeLeaf(take func() (leaf uint32, used bool, err error)) (uint32, error) {
	i.Lock()
	defer i.Unlock()
	leaf, used, err := take()
	if err != nil {
		return 0, err
	}
	if used { // by another context, whose marks mean nothing here
		for index := range uint32(native.LeafRecords) {
			native.RecordAt(leaf<<native.LeafBits | index).IDTaken = 0
		}
	}
	waiting := i.waiting[leaf/leafGroup]
	left := slices.DeleteFunc(waiting, func(index uint32) bool {
		if index>>native.LeafBits != leaf {
			return false
		}
		native.RecordAt(index).IDTaken = 1
		return true
	})
	i.waits -= len(waiting) - len(left)
	i.waiting[leaf/leafGroup] = left
	return leaf, nil
}

// randomOdd is an odd number below 2^60 from the system's randomness.
func randomOdd() uint64 {
	var bytes [8]byte
	_, _ = rand.Read(bytes[:]) // it never fails; the program ends where the system has no randomness
	return binary.LittleEndian.Uint64(bytes[:])&native.IDMask | 1
}
