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
// that the caller chose are in a map. One of these may be the automatic id of a page to come, as after a load: then its record is
// marked, and creating a page on it asks here.
type ids struct {
	sync.Mutex
	context         uint32
	factor, inverse uint64
	explicit        map[uint64]uint64 // page by id
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
	i.explicit = make(map[uint64]uint64)
	i.waiting = make(map[uint32][]uint32)
}

func (i *ids) automatic(handle uint64) uint64 {
	return native.IDAutomatic | handle*i.factor&native.IDMask
}

// reserve takes an id that the caller chose, for a page whose handle set brings later. Under no lock.
func (i *ids) reserve(id uint64) error {
	i.Lock()
	defer i.Unlock()
	if page, ok := i.explicit[id]; ok {
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
		}
	}
	i.explicit[id] = 0
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
	if i.waits <= 2*len(i.explicit)+leafGroup {
		return
	}
	clear(i.waiting)
	i.waits = 0
	for id := range i.explicit {
		if id&^native.IDMask == native.IDAutomatic {
			i.mark(id)
		}
	}
}

// set says which page has a reserved id; drop gives the id up.
func (i *ids) set(id, page uint64) {
	i.Lock()
	i.explicit[id] = page
	i.Unlock()
}

func (i *ids) drop(id uint64) {
	i.Lock()
	delete(i.explicit, id)
	i.Unlock()
}

// taken tells whether the caller chose the automatic id of a handle. Under the lock.
func (i *ids) taken(handle uint64) bool {
	_, ok := i.explicit[i.automatic(handle)]
	return ok
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
