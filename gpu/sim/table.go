// Objects by handle.

package sim

import (
	"sync"
	"sync/atomic"
)

// table finds objects by handle. A handle is a number that never comes twice in a process, and below it the place in the table.
// Finding takes no lock.
type table[T any] struct {
	entries atomic.Pointer[[]atomic.Pointer[entry[T]]]

	mutex sync.Mutex
	spare []int
	used  int // places that were ever used
	count int
}

type entry[T any] struct {
	handle uintptr
	value  T
}

const indexBits = 24

var lastNumber atomic.Uint64

// add makes room for an object that is to know its handle.
func (t *table[T]) add(value func(handle uintptr) T) uintptr {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	index := t.used
	if last := len(t.spare) - 1; last >= 0 {
		index, t.spare = t.spare[last], t.spare[:last]
	} else {
		t.used++
	}
	handle := uintptr(lastNumber.Add(1)<<indexBits | uint64(index))
	entries := t.entries.Load()
	if entries == nil || index >= len(*entries) {
		grown := make([]atomic.Pointer[entry[T]], max(16, 2*index))
		for i := 0; entries != nil && i < len(*entries); i++ {
			grown[i].Store((*entries)[i].Load())
		}
		entries = &grown
		t.entries.Store(entries)
	}
	(*entries)[index].Store(&entry[T]{handle, value(handle)})
	t.count++
	return handle
}

// find is the object with a handle, if there is one.
func (t *table[T]) find(handle uintptr) (value T, found bool) {
	index := int(handle & (1<<indexBits - 1))
	if entries := t.entries.Load(); entries != nil && index < len(*entries) {
		if e := (*entries)[index].Load(); e != nil && e.handle == handle {
			return e.value, true
		}
	}
	return value, false
}

// remove ends a handle and returns its object, to one caller only.
func (t *table[T]) remove(handle uintptr) (value T, found bool) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	if value, found = t.find(handle); found {
		index := int(handle & (1<<indexBits - 1))
		(*t.entries.Load())[index].Store(nil)
		t.spare = append(t.spare, index)
		t.count--
	}
	return value, found
}

// length is the number of objects.
func (t *table[T]) length() int {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	return t.count
}
