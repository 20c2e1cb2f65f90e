// Package handle gives out handles for the objects of which there are few: contexts and tickets. (Pages have a table of
// their own.)
//
// A handle is 64 bits: kind (the highest 4), generation (32), index (28). A value never returns: each use of a slot moves its
// generation, and a slot whose generations are used up is never used again.
package handle

import (
	"fmt"
	"iter"
	"math"
	"sync"
	"sync/atomic"

	"libmmsb/core/abi"
	"libmmsb/core/status"
)

const (
	indexBits       = 28
	generationBits  = 32
	indexMask       = 1<<indexBits - 1
	generationMask  = 1<<generationBits - 1
	kindShift       = indexBits + generationBits
	firstGeneration = 1
)

// Kind is the kind of a handle, whatever else may be wrong with it.
func Kind(handle uint64) uint64 { return handle >> kindShift }

// entry is one use of a slot. It is never changed: a reader that has it holds a value and generation that belong together.
type entry[T any] struct {
	generation uint64
	value      T
}

type slot[T any] struct {
	current atomic.Pointer[entry[T]]
	next    atomic.Uint64 // the generation of the next use; every generation from the first on to here was given out
}

// Table gives out the handles of one kind. All its methods may be called at the same time.
type Table[T any] struct {
	kind  uint64
	first uint64 // generation of a slot's first use
	limit uint64 // of live objects
	live  atomic.Uint64

	// slots is replaced when it grows, the slots themselves stay. The slot at index 0 is not used.
	slots atomic.Pointer[[]*slot[T]]

	mutex sync.Mutex // held by Put and Remove
	free  []uint64   // indices of slots to be used again
}

// New makes a table for handles of a kind from 1 to 15.
func New[T any](kind uint64) *Table[T] { return NewLimited[T](kind, indexMask) }

// NewLimited makes a table that holds at most limit objects at a time.
func NewLimited[T any](kind, limit uint64) *Table[T] {
	table := &Table[T]{kind: kind, first: firstGeneration, limit: limit}
	table.slots.Store(&[]*slot[T]{nil})
	return table
}

// Put stores a value and gives out its handle. Errors: Limit.
func (t *Table[T]) Put(value T) (uint64, error) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	if live := t.live.Load(); live >= t.limit {
		return 0, status.Errorf(status.Limit, "%d objects of kind %d are live, the limit is %d", live, t.kind, t.limit)
	}
	slots := *t.slots.Load()
	var index uint64
	if last := len(t.free) - 1; last >= 0 {
		index = t.free[last]
		t.free = t.free[:last]
	} else {
		index = uint64(len(slots))
		if index > indexMask {
			return 0, status.Errorf(status.Limit, "all %d handles of kind %d are used up", uint64(indexMask), t.kind)
		}
		fresh := &slot[T]{}
		fresh.next.Store(t.first)
		slots = append(slots, fresh)
		t.slots.Store(&slots)
	}
	used := slots[index]
	generation := used.next.Load()
	used.current.Store(&entry[T]{generation: generation, value: value})
	used.next.Store(generation + 1)
	t.live.Add(1)
	return t.kind<<kindShift | generation<<indexBits | index, nil
}

// Get is the value of a handle. It takes no lock. Errors: InvalidHandle, StaleHandle.
func (t *Table[T]) Get(handle uint64) (value T, err error) {
	_, found, err := t.find(handle)
	if err != nil {
		return value, err
	}
	return found.value, nil
}

// Remove ends a handle and returns its value. Errors: InvalidHandle, StaleHandle.
func (t *Table[T]) Remove(handle uint64) (value T, err error) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	used, found, err := t.find(handle)
	if err != nil {
		return value, err
	}
	used.current.Store(nil)
	if used.next.Load() <= math.MaxUint32 {
		t.free = append(t.free, handle&indexMask)
	}
	t.live.Add(^uint64(0))
	return found.value, nil
}

// Live is the number of values in the table.
func (t *Table[T]) Live() uint64 { return t.live.Load() }

// All walks the handles and values in the table. Those that come or go during the walk are seen or not.
func (t *Table[T]) All() iter.Seq2[uint64, T] {
	return func(yield func(uint64, T) bool) {
		for index, used := range *t.slots.Load() {
			if used == nil {
				continue
			}
			found := used.current.Load()
			if found == nil {
				continue
			}
			if !yield(t.kind<<kindShift|found.generation<<indexBits|uint64(index), found.value) {
				return
			}
		}
	}
}

// nameOf is what messages call the objects of a kind.
func nameOf(kind uint64) string {
	if kind < uint64(len(names)) && names[kind] != "" {
		return names[kind]
	}
	return fmt.Sprintf("handle of the unknown kind %d", kind)
}

var names = [...]string{abi.KindPage: "page", abi.KindContext: "context", abi.KindTicket: "ticket", abi.KindSnapshot: "snapshot",
	abi.KindStream: "stream", abi.KindBlock: "block", abi.KindUse: "use", abi.KindRuntime: "runtime",
	abi.KindReservation: "reservation", abi.KindCapture: "capture", abi.KindCommands: "command buffer"}

func (t *Table[T]) find(handle uint64) (*slot[T], *entry[T], error) {
	index, generation := handle&indexMask, handle>>indexBits&generationMask
	if kind := Kind(handle); handle == 0 {
		return nil, nil, status.Errorf(status.InvalidHandle, "handle is 0")
	} else if kind != t.kind {
		return nil, nil, status.Errorf(status.InvalidHandle, "0x%016x is not a %s, but a %s", handle, nameOf(t.kind),
			nameOf(kind))
	}
	slots := *t.slots.Load()
	if index == 0 || index >= uint64(len(slots)) {
		return nil, nil, status.Errorf(status.InvalidHandle, "handle 0x%016x was never issued: slot %d does not exist", handle,
			index)
	}
	used := slots[index]
	if found := used.current.Load(); found != nil && found.generation == generation {
		return used, found, nil
	}
	if generation < t.first || generation >= used.next.Load() {
		return nil, nil, status.Errorf(status.InvalidHandle, "handle 0x%016x was never issued: slot %d has no generation %d",
			handle, index, generation)
	}
	return nil, nil, status.Errorf(status.StaleHandle, "handle 0x%016x was destroyed", handle)
}
