package persist

import (
	"sync"

	"libmmsb/core/residency"
	"libmmsb/core/track"
	"libmmsb/native"
)

// Large pages whose address was given out are watched by the kernel from their first save on, so that the next incremental save
// reads only what was written. Where that cannot be, all of their bytes are compared by checksum; so are small pages always.
//
// To be watched costs a fault for the first write to each 4 KiB after a save. Where two saves in a row find that most of a page
// was written, it goes unwatched until the next save, is tried again, then goes unwatched for three saves, and then for seven
// at a time.

// tracking is the watched memory of a context's large pages, by record.
type tracking struct {
	sync.Mutex
	pages map[uint32]*tracked
}

type tracked struct {
	generation uint32
	memory     *track.Memory
	armed      bool // writes count since the last save
	full       bool // when they last did, most of the page was written
	unwatched  int  // saves to come that leave it so
	longest    int  // intervals between saves that it last went unwatched
}

const mostUnwatched = 7

// isMost says whether ranges are most of the page.
func (p *tracked) isMost(ranges []track.Range) bool {
	var length uintptr
	for _, r := range ranges {
		length += r.End - r.Start
	}
	whole := p.memory.Whole()
	return length > (whole.End-whole.Start)/2
}

// collect says what was written of a page that is armed, and arms it again, unless it is to go unwatched.
func (p *tracked) collect() (written []track.Range, err error) {
	whole := p.memory.Whole()
	if p.full {
		if written, err = p.memory.Collect(whole, false, nil); err == nil && p.isMost(written) {
			p.longest = min(2*p.longest+1, mostUnwatched)
			p.armed, p.unwatched = false, p.longest-1
			return written, nil
		}
	}
	if written, err = p.memory.Collect(whole, true, nil); err != nil {
		return nil, err
	}
	if p.full = p.isMost(written); !p.full {
		p.longest = 0
	}
	return written, nil
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
	address, size := native.Address(record.Locator), record.Size
	page, ok := t.pages[index]
	if ok && (page.generation != generation ||
		page.memory.Whole() != track.Range{Start: address, End: address + uintptr(size)}) {
		t.release(index)
		ok = false
	}
	if ok && page.unwatched > 0 {
		page.unwatched--
		return nil, false, false
	}
	if ok && page.armed {
		ranges, err := page.collect()
		if err == nil && since {
			return granulesOf(ranges, address, size), true, page.armed
		}
		if err == nil {
			return nil, false, page.armed
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
			t.pages = make(map[uint32]*tracked)
		}
		page = &tracked{generation: generation, memory: memory}
		t.pages[index] = page
	}
	if err := page.memory.Arm(page.memory.Whole()); err != nil {
		t.release(index)
		return nil, false, false
	}
	page.armed = true
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
