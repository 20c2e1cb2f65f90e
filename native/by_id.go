package native

import (
	"math/rand/v2"
	"unsafe"
)

// ByID are pages by id: open addressing with linear probing, which C reads too (redo.h). No id is 0. One goroutine uses it, or a
// lock guards it.
type ByID struct {
	slots []byIDSlot // a power of two, at most half of them in use
	used  int
	key   uint64 // random: who chose the ids of a file cannot know which meet

	looked uint64 // what Expect has seen, or the compiler would leave its loop out
}

type byIDSlot struct{ id, page uint64 }

// NewByID makes an empty table with space for so many pages. It grows.
func NewByID(pages uint64) *ByID {
	capacity := uint64(16)
	for capacity < 2*pages {
		capacity *= 2
	}
	p := &ByID{slots: make([]byIDSlot, capacity), key: rand.Uint64()}
	p.touch()
	return p
}

// touch writes to the memory of the slots: what is read first gets the kernel's page of zeros, and a second fault when it is
// written.
func (p *ByID) touch() {
	const inSystemPage = 4096 / int(unsafe.Sizeof(byIDSlot{}))
	for i := 0; i < len(p.slots); i += inSystemPage {
		p.slots[i].page = 0
	}
}

// Len is how many pages there are.
func (p *ByID) Len() int { return p.used }

// begin is where the search for an id begins. A multiplication takes what differs up, a shift takes it down again: two of each,
// as ids are often numbered, at any distance. The numbers are 2^64 over the golden ratio, and one of degski's 64-bit mixers.
func (p *ByID) begin(id uint64) int {
	id = (id ^ p.key) * 0x9e3779b97f4a7c15
	id = (id ^ id>>32) * 0xd6e8feb86659fd93
	return int(id^id>>32) & (len(p.slots) - 1)
}

// at is the slot of an id, or the free one where it would be.
func (p *ByID) at(id uint64) int {
	at := p.begin(id)
	for p.slots[at].id != 0 && p.slots[at].id != id {
		at = (at + 1) & (len(p.slots) - 1)
	}
	return at
}

// Find is the page with an id.
func (p *ByID) Find(id uint64) (page uint64, ok bool) {
	slot := p.slots[p.at(id)]
	return slot.page, slot.id != 0
}

// Put takes a page in, in place of one that has its id.
func (p *ByID) Put(id, page uint64) {
	if 2*(p.used+1) > len(p.slots) {
		old := p.slots
		p.slots, p.used = make([]byIDSlot, 2*len(old)), 0
		p.touch()
		for _, slot := range old {
			if slot.id != 0 {
				p.Put(slot.id, slot.page)
			}
		}
	}
	at := p.at(id)
	if p.slots[at].id == 0 {
		p.used++
	}
	p.slots[at] = byIDSlot{id, page}
}

// Remove takes a page out. Those behind it that were pushed on move up, so that a search finds them.
func (p *ByID) Remove(id uint64) {
	gap, last := p.at(id), len(p.slots)-1
	if p.slots[gap].id == 0 {
		return
	}
	p.used--
	for at := (gap + 1) & last; p.slots[at].id != 0; at = (at + 1) & last {
		if (at-p.begin(p.slots[at].id))&last >= (at-gap)&last {
			p.slots[gap], gap = p.slots[at], at
		}
	}
	p.slots[gap] = byIDSlot{}
}

// Expect looks at the slots of pages that are put next: their cache misses come together, not one after the other.
func (p *ByID) Expect(pages []Staged) {
	for i := range pages {
		p.looked += p.slots[p.begin(pages[i].ID)].id
	}
}

// All calls visit with each page.
func (p *ByID) All(visit func(id, page uint64)) {
	for _, slot := range p.slots {
		if slot.id != 0 {
			visit(slot.id, slot.page)
		}
	}
}
