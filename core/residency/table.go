package residency

import (
	"iter"
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

// pairTable is what is known of pages in two places, by record: an array for each chunk of records of which one has such a page,
// so that what a sync asks for lies side by side. What is known of one is asked for and changed with its page locked.
type pairTable struct {
	mutex  sync.RWMutex
	chunks map[uint32]*pairChunk
	some   atomic.Bool
}

const pairChunkBits = 8

type pairChunk struct {
	of    [1 << pairChunkBits]atomic.Pointer[pair]
	count int // that are not nil
}

func (t *pairTable) put(index uint32, p *pair) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	if t.chunks == nil {
		t.chunks = make(map[uint32]*pairChunk)
	}
	chunk := t.chunks[index>>pairChunkBits]
	if chunk == nil {
		chunk = new(pairChunk)
		t.chunks[index>>pairChunkBits] = chunk
	}
	if chunk.of[index%(1<<pairChunkBits)].Swap(p) == nil {
		chunk.count++
	}
	t.some.Store(true)
}

// get is what is known; nil where nothing is.
func (t *pairTable) get(index uint32) *pair {
	if !t.some.Load() {
		return nil
	}
	var all [1]*pair
	return t.getAll([]uint32{index}, all[:0])[0]
}

// getAll is get of many, which it adds to a list.
func (t *pairTable) getAll(indices []uint32, list []*pair) []*pair {
	t.mutex.RLock()
	defer t.mutex.RUnlock()
	var chunk *pairChunk
	for i, index := range indices {
		if number := index >> pairChunkBits; i == 0 || number != indices[i-1]>>pairChunkBits {
			chunk = t.chunks[number]
		}
		var p *pair
		if chunk != nil {
			p = chunk.of[index%(1<<pairChunkBits)].Load()
		}
		list = append(list, p)
	}
	return list
}

// take is get, and nothing is known any more.
func (t *pairTable) take(index uint32) *pair {
	if !t.some.Load() {
		return nil
	}
	t.mutex.Lock()
	defer t.mutex.Unlock()
	chunk := t.chunks[index>>pairChunkBits]
	if chunk == nil {
		return nil
	}
	p := chunk.of[index%(1<<pairChunkBits)].Swap(nil)
	if p == nil {
		return nil
	}
	if chunk.count--; chunk.count == 0 {
		delete(t.chunks, index>>pairChunkBits)
		t.some.Store(len(t.chunks) > 0)
	}
	return p
}

// all walks what is known.
func (t *pairTable) all() iter.Seq2[uint32, *pair] {
	return func(yield func(uint32, *pair) bool) {
		t.mutex.RLock()
		defer t.mutex.RUnlock()
		for number, chunk := range t.chunks {
			for i := range chunk.of {
				if p := chunk.of[i].Load(); p != nil && !yield(number<<pairChunkBits+uint32(i), p) {
					return
				}
			}
		}
	}
}
