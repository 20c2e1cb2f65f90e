package residency

import (
	"sync"
	"sync/atomic"
)

// table is what is known of some records or regions, by number. What is known of one is asked for and changed with its page
// locked, so that nobody looks for a number while it is put: where nothing is known of any, no processor asks others for the
// lock.
type table[T any] struct {
	sync.RWMutex
	of   map[uint32]T
	some atomic.Bool
}

func (t *table[T]) put(number uint32, value T) {
	t.Lock()
	defer t.Unlock()
	if t.of == nil {
		t.of = make(map[uint32]T)
	}
	t.of[number] = value
	t.some.Store(true)
}

// putAll puts one value for all of them.
func (t *table[T]) putAll(numbers []uint32, value T) {
	t.Lock()
	defer t.Unlock()
	if t.of == nil {
		t.of = make(map[uint32]T)
	}
	for _, number := range numbers {
		t.of[number] = value
	}
	t.some.Store(len(t.of) > 0)
}

// expect makes space for so many numbers, where there are none.
func (t *table[T]) expect(numbers uint64) {
	t.Lock()
	defer t.Unlock()
	if t.of == nil {
		t.of = make(map[uint32]T, numbers)
	}
}

// get is what is known; the zero value where nothing is.
func (t *table[T]) get(number uint32) (value T) {
	if !t.some.Load() {
		return value
	}
	t.RLock()
	defer t.RUnlock()
	return t.of[number]
}

// getAll is get of many, which it adds to values.
func (t *table[T]) getAll(numbers []uint32, values []T) []T {
	t.RLock()
	defer t.RUnlock()
	for _, number := range numbers {
		values = append(values, t.of[number])
	}
	return values
}

// take is get, and nothing is known any more.
func (t *table[T]) take(number uint32) (value T) {
	if !t.some.Load() {
		return value
	}
	t.Lock()
	defer t.Unlock()
	value = t.of[number]
	delete(t.of, number)
	t.some.Store(len(t.of) > 0)
	return value
}
