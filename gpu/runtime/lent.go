// Blocks that other libraries have: arrays over their memory, which end whenever the libraries let them go.

package runtime

import (
	"cmp"
	"sync"
	"sync/atomic"

	"libmmsb/core/log"
	"libmmsb/core/pool"
	"libmmsb/core/status"
	"libmmsb/gpu/driver"
)

// OwnStream stands for the block's stream, in Lend.
const OwnStream = ^uintptr(0)

// Place says who reaches memory.
type Place uint8

// The places of blocks.
const (
	OnDevice Place = iota
	InPinned
	InManaged
	OnHost // and the device only by copies
)

// place is where the runtime's blocks lie.
func (r *Runtime) place() Place {
	of := r.options.Pool
	switch {
	case of == nil:
		return OnDevice
	case of.Origin == pool.Pinned && of.Pageable:
		return OnHost
	case of.Origin == pool.Pinned:
		return InPinned
	case of.Origin == pool.Managed:
		return InManaged
	}
	return OnDevice
}

// Lent is a block that another library has. It is not a use: its work and that of uses meanwhile is the program's to order.
type Lent struct {
	block  *block
	stream *Stream
	access Access
	thread bool // the stream stands for a thread's own, which other threads cannot ask
}

// loans are the blocks of a runtime that others have, and what is done when the last one is given back after the runtime's end.
type loans struct {
	mutex sync.Mutex
	count int
	last  func()
}

// allLent are those of the process, by number.
var allLent struct {
	sync.Map
	last atomic.Uint64
}

// Lend gives a block to another library until Return(number): the block's free waits for that. What a stream of others queues
// from now on runs behind what ended uses have queued; OwnStream is the block's own one. Memory that the host reaches is lent
// when that work is done. Errors: InvalidHandle, StaleHandle, InvalidState (a page's block, a tag that sleeps), those of Foreign.
func Lend(handle uint64, native uintptr, access Access) (number uint64, info BlockInfo, place Place, err error) {
	info, err = FindBlock(handle)
	if err != nil {
		return 0, info, 0, err
	}
	r := info.Stream.runtime
	if err = r.enter(); err != nil {
		return 0, info, 0, err
	}
	defer r.leave()
	place = r.place()
	if place != OnDevice {
		if err = Await(access, handle); err != nil {
			return 0, info, 0, err
		}
	}
	s := info.Stream
	if native != OwnStream {
		if s, err = r.standIn(native); err != nil {
			return 0, info, 0, err
		}
	}
	b, err := allBlocks.locked(handle)
	if err != nil {
		return 0, info, 0, err
	}
	err = b.lend(s, access)
	b.used()
	b.mutex.Unlock()
	if err != nil {
		return 0, info, 0, err
	}
	l := &Lent{block: b, stream: s, access: access, thread: native == uintptr(driver.PerThread)}
	if l.thread {
		err = r.order(s.native, driver.PerThread)
	}
	r.loans.begin()
	if err != nil {
		l.end()
		return 0, info, 0, err
	}
	number = allLent.last.Add(1)
	allLent.Store(number, l)
	return number, info, place, nil
}

// lend makes a stream run behind what was queued, and keeps the block. The mutex is held.
func (b *block) lend(s *Stream, access Access) error {
	if b.owners > 0 {
		return status.Errorf(status.InvalidState, "block 0x%016x is a page's: export the page", b.current())
	}
	if err := s.runtime.pool.usable(b); err != nil {
		return err
	}
	err := s.waitFor(b.write)
	if err == nil && access&Write != 0 {
		err = b.waitForReads(s)
	}
	if err == nil {
		b.lent++
	}
	return err
}

// Return ends what Lend began: what the other library's stream has queued by now comes before the block's free and later uses.
func Return(number uint64) {
	if l, found := allLent.LoadAndDelete(number); found {
		l.(*Lent).end()
	}
}

func (l *Lent) end() {
	b, r := l.block, l.stream.runtime
	running := r.enter() == nil
	if !running || l.thread { // an end may free the block at once
		_ = r.noteLost(r.device.Synchronize())
	}
	b.mutex.Lock()
	b.lent--
	if running {
		b.returned(l.stream, l.access)
		b.used()
	}
	b.mutex.Unlock()
	if running {
		r.leave()
	}
	r.loans.end()
}

// returned notes what a stream of others has queued. Uses of other streams may have ended meanwhile: a write comes behind them,
// so that who waits for it waits for all. The mutex is held.
func (b *block) returned(s *Stream, access Access) {
	p := s.next()
	if access&Write != 0 {
		err := cmp.Or(s.waitFor(b.write), b.waitForReads(s))
		if err == nil {
			b.write, b.reads = p, b.reads[:0]
			return
		}
		log.Logf(log.Warning, "block 0x%016x: stream %d cannot wait for its uses: %v", b.current(), s.index, err)
	}
	b.noteRead(p)
}

func (l *loans) begin() {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.count++
}

func (l *loans) end() {
	l.mutex.Lock()
	l.count--
	var then func()
	if l.count == 0 {
		then, l.last = l.last, nil
	}
	l.mutex.Unlock()
	if then != nil {
		then()
	}
}

// over says whether nobody has a block. Else then is called when the last one is given back.
func (l *loans) over(then func()) bool {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if l.count > 0 {
		l.last = then
	}
	return l.count == 0
}
