package persist

import (
	"sync"

	"libmmsb/core/residency"
	"libmmsb/core/track"
	"libmmsb/native"
)

// Large pages whose address was given out are watched by the kernel from their first save on, so that the next incremental save
// reads only what was written. Where that cannot be, all of their bytes are compared by checksum; so are small pages always.

// tracking is the watched memory of a context's large pages, by record.
type tracking struct {
	sync.Mutex
	pages map[uint32]tracked
}

type tracked struct {
	generation uint32
	memory     *track.Memory
}

// forget ends the watching of a page whose memory goes elsewhere. The page is locked.
func (t *tracking) forget(index uint32) {
	t.Lock()
	defer t.Unlock()
	t.release(index)
}

// release is forget under the lock.
func (t *tracking) release(index uint32) {
	if page, ok := t.pages[index]; ok {
		page.memory.Release()
		delete(t.pages, index)
	}
}

// forgetAll ends all watching.
func (t *tracking) forgetAll() {
	t.Lock()
	defer t.Unlock()
	for index := range t.pages {
		t.release(index)
	}
}

// written says which granules of a large page were written since the last save, a word for each chunk, and counts anew from now
// on. known is false where the kernel cannot tell; begun, that it can the next time: where watch is set, or it watches already.
func (t *tracking) written(index, generation uint32, since, watch bool) (granules []uint64, known, begun bool) {
	record := native.RecordAt(index)
	if record.Exposed == 0 && record.WritePins == 0 || record.Locator == 0 || residency.HasBlock(record.LoadState()) ||
		track.Available() != nil { // nor what a device writes
		return nil, false, false
	}
	t.Lock()
	defer t.Unlock()
	page, ok := t.pages[index]
	if ok && page.generation != generation {
		t.release(index)
		ok = false
	}
	address, size := native.Address(record.Locator), record.Size
	if ok && since {
		ranges, err := page.memory.Collect(page.memory.Whole(), true, nil)
		if err == nil && page.memory.Whole() == (track.Range{Start: address, End: address + uintptr(size)}) {
			return granulesOf(ranges, address, size), true, true
		}
		t.release(index)
		ok = false
	}
	if !ok && !watch {
		return nil, false, false
	}
	if !ok {
		memory, err := track.Watch(address, uintptr(size))
		if err != nil {
			return nil, false, false
		}
		if t.pages == nil {
			t.pages = make(map[uint32]tracked)
		}
		page = tracked{generation, memory}
		t.pages[index] = page
	}
	if err := page.memory.Arm(page.memory.Whole()); err != nil {
		t.release(index)
		return nil, false, false
	}
	return nil, false, true
}

// granulesOf says which granules ranges touch, by chunk.
func granulesOf(ranges []track.Range, address uintptr, size uint64) []uint64 {
	const perChunk = native.ChunkBytes / native.GranuleBytes
	granules := make([]uint64, (size+native.ChunkBytes-1)/native.ChunkBytes)
	for _, r := range ranges {
		for at := uint64(r.Start-address) / native.GranuleBytes; at <= uint64(r.End-1-address)/native.GranuleBytes; at++ {
			granules[at/perChunk] |= 1 << (at % perChunk)
		}
	}
	return granules
}
