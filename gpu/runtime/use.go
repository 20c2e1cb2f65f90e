// Uses: accesses of queued work to blocks, and the order that they need.

package runtime

import (
	"cmp"
	"slices"
	"sync"

	"libmmsb/core/abi"
	"libmmsb/core/status"
	"libmmsb/gpu/driver"
)

// Use is a block and what is done with it.
type Use struct {
	Block  uint64
	Access Access
	// Page is the page that was named in place of the block, and At where its bytes lie; 0 = the block was.
	Page   uint64
	At     driver.Address
	Ended  func() // is called once, when the use has ended or did not begin; nil = nothing
	Failed error  // why it cannot be used, where that is known
	Of     any    // who ends the use before its runtime does, by EndUsesOf; nil = nobody
}

// useRecord is work on a stream that is being queued: what it touches stays, and in order, until it is ended. A use that is only
// being recorded has not begun yet.
type useRecord struct {
	mutex      sync.Mutex
	generation uint32
	index      uint32
	state      uint8
	permissive bool
	stream     *Stream
	uses       []begun
	ended      []func()
	of         []any // as in Use
	pages      []namedPage
	failed     error // what Record could not take
}

type begun struct {
	block  *block
	of     *Runtime // the block's
	access Access
	handle uint64
}

// namedPage is a page that a use was asked for by its handle.
type namedPage struct {
	page uint64
	at   driver.Address
}

const (
	useFree = iota
	useRecording
	useBegun
)

// useTable are the uses of the process that are open. There are as many as calls between begin and end, so that one lock does.
type useTable struct {
	mutex sync.Mutex
	slots []*useRecord // slot 0 is not used
	free  []uint32
}

var openUseTable = useTable{slots: []*useRecord{nil}}

func (t *useTable) take(s *Stream, state uint8) (*useRecord, uint64, error) {
	t.mutex.Lock()
	var u *useRecord
	if last := len(t.free) - 1; last >= 0 {
		u = t.slots[t.free[last]]
		t.free = t.free[:last]
	} else if len(t.slots) < mostBlocks {
		u = &useRecord{index: uint32(len(t.slots))}
		t.slots = append(t.slots, u)
	}
	t.mutex.Unlock()
	if u == nil {
		return nil, 0, status.Errorf(status.Limit, "all %d uses are open", mostBlocks-1)
	}
	u.mutex.Lock()
	u.generation++
	u.state, u.stream, u.uses, u.failed, u.permissive = state, s, u.uses[:0], nil, false
	u.mutex.Unlock()
	return u, abi.KindUse<<60 | uint64(u.generation)<<28 | uint64(u.index), nil
}

// give takes back a record whose use has ended. It forgets what it points to: records stay for ever.
func (t *useTable) give(u *useRecord) {
	u.mutex.Lock()
	clear(u.uses)
	u.stream, u.failed, u.uses = nil, nil, u.uses[:0]
	clear(u.ended)
	clear(u.of)
	u.ended, u.of, u.pages = u.ended[:0], u.of[:0], u.pages[:0]
	again := u.generation < lastGeneration
	u.mutex.Unlock()
	if !again {
		return
	}
	t.mutex.Lock()
	t.free = append(t.free, u.index)
	t.mutex.Unlock()
}

// locked is the use of a handle, locked. Errors: InvalidHandle, StaleHandle (it was ended).
func (t *useTable) locked(handle uint64) (*useRecord, error) {
	index, generation := handle&indexMask, uint32(handle>>28)
	t.mutex.Lock()
	var u *useRecord
	if handle>>60 == abi.KindUse && index != 0 && index < uint64(len(t.slots)) {
		u = t.slots[index]
	}
	t.mutex.Unlock()
	if u == nil {
		return nil, status.Errorf(status.InvalidHandle, "0x%016x is not a use", handle)
	}
	u.mutex.Lock()
	if u.generation == generation && u.state != useFree {
		return u, nil
	}
	never := generation == 0 || generation > u.generation
	u.mutex.Unlock()
	if never {
		return nil, status.Errorf(status.InvalidHandle, "use 0x%016x was never begun", handle)
	}
	return nil, status.Errorf(status.StaleHandle, "use 0x%016x was ended", handle)
}

// BeginUse makes a stream ready for work on blocks: what is queued on it from now on runs behind everything that conflicts with
// it, and until EndUse the blocks' memory stays. All blocks or none: bad is the index of the first that cannot be used. Errors:
// InvalidHandle, StaleHandle, InvalidArgument (another device's stream, an access of no kind), Busy (a conflicting use of another
// stream is open), Device, DeviceLost.
func BeginUse(s *Stream, uses ...Use) (handle uint64, bad int, err error) {
	defer func() {
		for i := range uses {
			if err != nil && uses[i].Ended != nil {
				uses[i].Ended()
			}
		}
	}()
	if err := s.runtime.enter(); err != nil {
		return 0, 0, err
	}
	defer s.runtime.leave()
	u, handle, err := openUseTable.take(s, useBegun)
	if err != nil {
		return 0, 0, err
	}
	u.mutex.Lock()
	for _, use := range uses {
		u.uses = append(u.uses, begun{handle: use.Block, access: use.Access})
	}
	if bad, err = u.begin(); err != nil {
		u.state = useFree
	} else {
		u.whenEnded(uses...)
	}
	u.mutex.Unlock()
	if err != nil {
		openUseTable.give(u)
		return 0, bad, err
	}
	return handle, 0, nil
}

// begin begins the use of each block; of none where one of them cannot be used.
func (u *useRecord) begin() (bad int, err error) {
	for i := range u.uses {
		use := &u.uses[i]
		if err = u.beginOne(use); err != nil {
			for _, done := range u.uses[:i] {
				done.block.mutex.Lock()
				done.block.withdraw(u.stream, done.access)
				done.block.used()
				done.block.mutex.Unlock()
			}
			return i, err
		}
	}
	u.stream.runtime.counts.uses.Add(1)
	return 0, nil
}

// whenEnded notes what is called at the end, and what pages were named.
func (u *useRecord) whenEnded(uses ...Use) {
	for i := range uses {
		if uses[i].Ended != nil {
			u.ended = append(u.ended, uses[i].Ended)
		}
		if uses[i].Of != nil {
			u.of = append(u.of, uses[i].Of)
		}
		if uses[i].Page != 0 {
			u.pages = append(u.pages, namedPage{uses[i].Page, uses[i].At})
		}
	}
}

func (u *useRecord) beginOne(use *begun) error {
	if use.access == 0 || use.access > ReadWrite {
		return status.Errorf(status.InvalidArgument, "access is %d, not 1 (read), 2 (write) or 3 (both)", use.access)
	}
	b, err := allBlocks.locked(use.handle)
	if err != nil {
		return err
	}
	defer b.mutex.Unlock()
	use.block, use.of = b, b.stream.runtime
	return b.beginUse(u.stream, use.access)
}

// UseAddress is where a use that has begun finds the bytes of a block or a page that it was begun with. Errors: InvalidHandle,
// StaleHandle, InvalidState (recorded, not begun), NotFound (it was not named).
func UseAddress(handle, of uint64) (at driver.Address, err error) {
	u, err := openUseTable.locked(handle)
	if err != nil {
		return 0, err
	}
	defer u.mutex.Unlock()
	if u.state != useBegun {
		return 0, status.Errorf(status.InvalidState, "use 0x%016x was recorded and has not begun", handle)
	}
	for _, named := range u.pages {
		if named.page == of {
			return named.at, nil
		}
	}
	for i := range u.uses {
		if u.uses[i].handle == of {
			b := u.uses[i].block
			b.mutex.Lock()
			defer b.mutex.Unlock()
			return b.memory().Address, nil
		}
	}
	return 0, status.Errorf(status.NotFound, "use 0x%016x was not begun with 0x%016x", handle, of)
}

// StreamOf is the stream of a use. Errors: InvalidHandle, StaleHandle.
func StreamOf(handle uint64) (*Stream, error) {
	u, err := openUseTable.locked(handle)
	if err != nil {
		return nil, err
	}
	defer u.mutex.Unlock()
	return u.stream, nil
}

// EndUse says that the work of a use is queued. Errors: InvalidHandle, StaleHandle (it was ended before), InvalidState (recorded,
// never begun).
func EndUse(handle uint64) error { return endUse(handle, false) }

// AbortUse ends a use whose work may be queued or not: a launch has failed. What it says of the order is what EndUse says, so
// that nothing is lost where the device has begun after all. A use that was only recorded is forgotten.
func AbortUse(handle uint64) error { return endUse(handle, true) }

func endUse(handle uint64, abort bool) error {
	u, err := openUseTable.locked(handle)
	if err != nil {
		return err
	}
	r := u.stream.runtime
	if err := r.enter(); err != nil { // its end ends the use
		u.mutex.Unlock()
		return err
	}
	defer r.leave()
	if u.state == useRecording && !abort {
		u.mutex.Unlock()
		return status.Errorf(status.InvalidState, "use 0x%016x was recorded but never begun: its work is not ordered", handle)
	}
	u.end(abort)
	u.mutex.Unlock()
	u.tellEnded()
	openUseTable.give(u)
	return nil
}

func (u *useRecord) end(abort bool) {
	if u.state == useBegun {
		for i := range u.uses {
			b := u.uses[i].block
			b.mutex.Lock()
			b.endUse(u.stream, u.uses[i].access)
			b.used()
			b.mutex.Unlock()
		}
	}
	if abort {
		u.stream.runtime.counts.aborts.Add(1)
	}
	u.state = useFree
}

// tellEnded calls what is called at the end, behind the points and outside of every lock: it may end pages, and what they keep.
func (u *useRecord) tellEnded() {
	for _, ended := range u.ended {
		ended()
	}
}

// LiveUses is the number of uses of the process that are recorded or begun, and not ended.
func LiveUses() (live uint64) {
	for _, u := range openUseTable.all() {
		u.mutex.Lock()
		if u.state != useFree {
			live++
		}
		u.mutex.Unlock()
	}
	return live
}

// all are the uses that ever were.
func (t *useTable) all() []*useRecord {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	return t.slots[1:len(t.slots):len(t.slots)]
}

// endUses ends what is open in a runtime that closes, on its streams and of its blocks, and returns how many uses that were.
func endUses(r *Runtime) int {
	return endAll(func(u *useRecord) bool {
		return u.stream.runtime == r ||
			u.state == useBegun && slices.ContainsFunc(u.uses, func(b begun) bool { return b.of == r })
	})
}

// EndUsesOf ends what is open of one who ends, as AbortUse does.
func EndUsesOf(one any) { endAll(func(u *useRecord) bool { return slices.Contains(u.of, one) }) }

func endAll(is func(u *useRecord) bool) int {
	ended := 0
	for _, u := range openUseTable.all() {
		u.mutex.Lock()
		mine := u.state != useFree && is(u)
		if mine {
			u.end(true)
			ended++
		}
		u.mutex.Unlock()
		if mine {
			u.tellEnded()
			openUseTable.give(u)
		}
	}
	return ended
}

// RecordUse begins a recording: what a launch will touch is collected by AddUse while its arguments are put together,
// BeginRecorded makes the stream ready before the launch, EndUse comes after it. A strict recording refuses memory that is no
// block of ours, a permissive one passes over it.
func RecordUse(s *Stream, permissive bool) (uint64, error) {
	if err := s.runtime.enter(); err != nil {
		return 0, err
	}
	defer s.runtime.leave()
	u, handle, err := openUseTable.take(s, useRecording)
	if err == nil {
		u.permissive = permissive
	}
	return handle, err
}

// AddUse adds a block to a recording; block 0 is memory that is not ours. Of one block reads and writes add up. What cannot be
// taken is reported by BeginRecorded, so that a row of calls needs no check after each. Errors: InvalidHandle, StaleHandle (of
// the use), InvalidState (begun before: what is added now would not be in order).
func AddUse(handle uint64, use Use) (err error) {
	block, access := use.Block, use.Access
	added := false
	defer func() {
		if !added && use.Ended != nil {
			use.Ended()
		}
	}()
	u, err := openUseTable.locked(handle)
	if err != nil {
		return err
	}
	defer u.mutex.Unlock()
	if u.state != useRecording {
		u.failed = status.Errorf(status.InvalidState, "block 0x%016x was added to use 0x%016x after it had begun", block, handle)
		return u.failed
	}
	if use.Failed != nil {
		u.failed = cmp.Or(u.failed, use.Failed)
		return nil
	}
	if block == 0 {
		if !u.permissive && u.failed == nil {
			u.failed = status.Errorf(status.InvalidArgument, "memory that is not a block was added to a strict recording")
		}
		return nil
	}
	added = true
	u.whenEnded(use)
	for i := range u.uses {
		if u.uses[i].handle == block {
			u.uses[i].access |= access
			return nil
		}
	}
	u.uses = append(u.uses, begun{handle: block, access: access})
	return nil
}

// BeginRecorded makes the stream ready for everything that was recorded, or fails with nothing begun, and can then be tried
// again.
func BeginRecorded(handle uint64) error {
	u, err := openUseTable.locked(handle)
	if err != nil {
		return err
	}
	defer u.mutex.Unlock()
	if err := u.stream.runtime.enter(); err != nil {
		return err
	}
	defer u.stream.runtime.leave()
	switch {
	case u.state != useRecording:
		return status.Errorf(status.InvalidState, "use 0x%016x has already begun", handle)
	case u.failed != nil:
		return u.failed
	}
	if _, err := u.begin(); err != nil {
		return err
	}
	u.state = useBegun
	return nil
}
