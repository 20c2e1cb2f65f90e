package memory

import (
	"bytes"
	"slices"

	"libmmsb/native"
)

// The guard of host pages finds writes through pointers past a page's ends, and into memory that a page has left. A guarded page
// lies in the memory of a frame that is larger than the page, with bytes of a known value (canaries) before and behind it. Memory
// that is handed out uninitialised has a known value, too, and so has memory that was given back (poison), of which some is held
// back (quarantine): its poison is verified before others get the memory. Values and options are those of the guard of device
// blocks (gpu/runtime/guard.go).

// The values that memory is filled with.
const (
	canaryValue = 0xc5
	freshValue  = 0xaa
	poisonValue = 0xdd
)

// guard is a context's. Under the lock of the memory, but for its reports.
type guard struct {
	every      uint64 // 0 = none
	most       uint64 // bytes in quarantine
	blocks     map[uint64]*guarded
	quarantine []*guarded // the oldest first
	held       uint64     // bytes of the memory in quarantine
	canaries   uint64     // bytes that blocks have beside their pages
	reports    reports
}

// guarded is memory of a guarded page. Its fields change only while one goroutine has the page.
type guarded struct {
	frame      uint32 // the record with the memory
	memory     []byte // all of it
	lead, size uint64 // the page's bytes in it
	page       uint64 // id of the page that has left it last; 0 = none yet
	ended      bool   // that page has ended, and not just got other memory
}

func (g *guard) begin(options *Options) {
	g.every, g.most = options.GuardEvery, options.GuardQuarantine
	if g.every != 0 {
		g.blocks = make(map[uint64]*guarded)
	}
}

// leadOf is the length of the canary before a page, which keeps the page's alignment.
func leadOf(size uint64) uint64 {
	switch {
	case size < 256:
		return 64
	case size < 4096:
		return 256
	}
	return 4096
}

// leastBehind is the least length of the canary behind a page. It goes on to the end of the memory.
func leastBehind(size uint64) uint64 { return min(leadOf(size), 256) }

// takeGuarded takes a frame for a guarded page. Where it is not to be zeroed, its bytes have the value of fresh memory.
func (m *Memory) takeGuarded(size uint64, node int32, zeroed bool) (index uint32, err error) {
	lead := leadOf(size)
	frame, err := m.takePlain(lead+size+leastBehind(size), node, zeroed)
	if err != nil {
		return 0, err
	}
	record := native.RecordAt(frame)
	b := &guarded{frame: frame, memory: native.Bytes(record.Locator, record.Size), lead: lead, size: size}
	setBytes(b.before(), canaryValue)
	setBytes(b.behind(), canaryValue)
	if !zeroed {
		setBytes(b.bytes(), freshValue)
	}
	m.Lock()
	defer m.Unlock()
	locator := record.Locator + lead
	if index, err = m.take(locator, size, native.ClassGuarded); err != nil {
		m.giveUnderLock(frame)
		return 0, err
	}
	m.guard.blocks[locator] = b
	m.guard.canaries += uint64(len(b.memory)) - size
	return index, nil
}

func (b *guarded) before() []byte { return b.memory[:b.lead] }
func (b *guarded) bytes() []byte  { return b.memory[b.lead:][:b.size] }
func (b *guarded) behind() []byte { return b.memory[b.lead+b.size:] }

// blockOf is the guarded memory of a record; nil where it has none.
func (m *Memory) blockOf(index uint32) *guarded {
	record := native.RecordAt(index)
	if native.Class(record.LoadState()) != native.ClassGuarded {
		return nil
	}
	m.Lock()
	defer m.Unlock()
	return m.guard.blocks[record.Locator]
}

// Leaving notes that a page with an id is to leave the memory of its record, which the caller has locked: it ends, or gets other
// memory.
func (m *Memory) Leaving(index uint32, id uint64, ends bool) {
	if b := m.blockOf(index); b != nil {
		b.page, b.ended = id, ends
	}
}

// CheckPage checks the canaries of a page with an id, whose record the caller has locked.
func (m *Memory) CheckPage(index uint32, id uint64) {
	if b := m.blockOf(index); b != nil {
		m.guard.checkCanaries(b, id)
	}
}

// CheckQuarantine checks the memory in quarantine.
func (m *Memory) CheckQuarantine() {
	m.Lock()
	defer m.Unlock()
	for _, b := range m.guard.quarantine {
		m.guard.checkPoison(b)
	}
}

// GuardBytes are the bytes of canaries and quarantine.
func (m *Memory) GuardBytes() uint64 {
	m.Lock()
	defer m.Unlock()
	return m.guard.canaries + m.guard.held
}

// dropGuarded gives guarded memory of a record back: into quarantine first. The record is free for the next generation when
// nothing works on the memory any more, because the end of the context waits for that.
func (m *Memory) dropGuarded(index, generation uint32) {
	b := m.blockOf(index)
	m.Lock()
	delete(m.guard.blocks, native.RecordAt(index).Locator)
	m.guard.canaries -= uint64(len(b.memory)) - b.size
	over := m.closed // the memory goes with its region
	m.Unlock()
	if !over && b.page != 0 {
		m.retire(b)
	}
	m.Lock()
	defer m.Unlock()
	if !over && b.page == 0 { // no page was there
		m.giveUnderLock(b.frame)
	}
	m.records.free(index, generation)
}

// retire checks and poisons memory that a page has left, and holds it back.
func (m *Memory) retire(b *guarded) {
	m.guard.checkCanaries(b, b.page)
	setBytes(b.memory, poisonValue)
	m.Lock()
	m.guard.quarantine = append(m.guard.quarantine, b)
	m.guard.held += uint64(len(b.memory))
	gone := m.guard.leave(m.guard.most)
	m.Unlock()
	for _, b := range gone {
		m.guard.checkPoison(b)
	}
	m.Lock()
	defer m.Unlock()
	for _, b := range gone {
		m.giveUnderLock(b.frame)
	}
}

// leave takes the oldest memory out of quarantine, until at most so many bytes are in it.
func (g *guard) leave(most uint64) (gone []*guarded) {
	count := 0
	for ; g.held > most; count++ {
		g.held -= uint64(len(g.quarantine[count].memory))
	}
	gone = g.quarantine[:count]
	if g.quarantine = g.quarantine[count:]; len(g.quarantine) == 0 {
		g.quarantine = nil
	}
	return slices.Clone(gone)
}

// endQuarantine lets others have the memory that is in quarantine, and says how many bytes it is. Under the lock.
func (m *Memory) endQuarantine() (bytes uint64) {
	bytes = m.guard.held
	for _, b := range m.guard.leave(0) {
		m.guard.checkPoison(b)
		m.giveUnderLock(b.frame)
	}
	return bytes
}

func (g *guard) checkCanaries(b *guarded, page uint64) {
	report := Report{Page: page, Size: b.size, Side: native.GuardBefore, Offset: -int64(b.lead), Expected: canaryValue}
	g.check(b.before(), report)
	report.Side, report.Offset = native.GuardBehind, int64(b.size)
	g.check(b.behind(), report)
}

func (g *guard) checkPoison(b *guarded) {
	report := Report{Page: b.page, Size: b.size, Side: native.GuardLeft, Offset: -int64(b.lead), Expected: poisonValue}
	if b.ended {
		report.Side = native.GuardEnded
	}
	g.check(b.memory, report)
}

// check reports bytes that have not the value that they should have, and gives it to them. The report's offset is that of the
// first of them.
func (g *guard) check(memory []byte, report Report) {
	first := different(memory, report.Expected)
	if first == len(memory) {
		return
	}
	last := len(memory) - 1
	for memory[last] == report.Expected {
		last--
	}
	report.Offset += int64(first)
	report.Bytes, report.Found = uint64(last-first)+1, memory[first]
	setBytes(memory[first:last+1], report.Expected)
	g.reports.add(report)
}

// setBytes sets all bytes to a value.
func setBytes(memory []byte, value byte) {
	if len(memory) == 0 {
		return
	}
	memory[0] = value
	for done := 1; done < len(memory); done *= 2 {
		copy(memory[done:], memory[:done])
	}
}

// different is the index of the first byte that has not the value; the length where there is none.
func different(memory []byte, value byte) int {
	if len(memory) == 0 || memory[0] == value && bytes.Equal(memory[1:], memory[:len(memory)-1]) {
		return len(memory)
	}
	return slices.IndexFunc(memory, func(b byte) bool { return b != value })
}
