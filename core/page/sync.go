package page

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"libmmsb/core/abi"
	"libmmsb/core/journal"
	"libmmsb/core/lasterror"
	"libmmsb/core/parallel"
	"libmmsb/core/residency"
	"libmmsb/core/status"
	"libmmsb/core/ticket"
	"libmmsb/native"
)

// Pages in step between the host and devices.

const (
	// A worker of a sync has locked at most so many pages, or bytes if that is less, and one group more. Steps on their way have
	// less, but for the smallest pages.
	syncPages = 4096
	syncBytes = 16 << 20
	// A group is what is locked and planned while those before it move. Nothing moves before the first, which is small; each next
	// one is twice as large, up to what costs less to plan than to move by itself.
	firstPages = 16
	firstBytes = 128 << 10
	groupPages = 256
	groupBytes = 1 << 20
	// A processor gets so many bytes at least: what two of them share in less time than it takes to wake one is no gain. It
	// takes them in so many parts or more, so that all of them end together.
	shareBytes = 1 << 20
	claimsEach = 8
	// planBytes go over a link like PCI Express 5.0 x16 while a processor plans a page beside others.
	planBytes = 32 << 10
)

// Direction says which newer bytes a sync moves.
type Direction = residency.Direction

// Advice is what the driver is told of the use of a page in managed memory.
type Advice = residency.Advice

// ToDevice is the direction of a prefetch.
const ToDevice = residency.ToDevice

// CheckSync checks the arguments of a sync. Errors: InvalidArgument.
func CheckSync(direction, device int32) error {
	const way, wins = residency.ToDevice | residency.ToHost, residency.HostWins | residency.DeviceWins
	if d := residency.Direction(direction); d&way == 0 || d&^(way|wins|residency.PinnedCopy) != 0 || d&wins == wins {
		return status.Errorf(status.InvalidArgument,
			"direction is 0x%x; it has one or both of 0x%x, and beside them 0x%x or 0x%x, and 0x%x", direction,
			int32(way), int32(residency.HostWins), int32(residency.DeviceWins), int32(residency.PinnedCopy))
	}
	if device < 0 {
		return status.Errorf(status.InvalidArgument, "device %d is negative", device)
	}
	return nil
}

// CheckSyncMany is CheckSync of pages, which must be there; bad is the first that is not.
func CheckSyncMany(pages []uint64, direction, device int32) (bad int, err error) {
	if err := CheckSync(direction, device); err != nil {
		return 0, err
	}
	for i, page := range pages {
		if residency.IsThere(page) {
			continue
		}
		if err := Read(page, func(*Page) error { return nil }); err != nil { // which says why
			return i, err
		}
	}
	return 0, nil
}

// SyncMany brings pages in step: each is, or has its code in codes, where that is not nil. bad is the first that is not. w is
// nil, or the asynchronous work that this is.
func SyncMany(pages []uint64, direction residency.Direction, device int32, codes []int32, w *ticket.Work) (bad int, err error) {
	s := &syncing{pages: pages, direction: direction, device: device, codes: codes, work: w}
	s.run()
	return s.bad, s.err
}

// syncAlive is SyncMany of pages that may have ended: those are no failure. synced counts the pages that are in step.
func syncAlive(pages []uint64, want wanted, codes []int32, w *ticket.Work) (synced uint64, err error) {
	s := &syncing{pages: pages, direction: want.direction, device: want.device, codes: codes, work: w, mayEnd: true}
	s.run()
	for _, code := range codes {
		if status.Code(code) == status.OK {
			synced++
		}
	}
	return synced, s.err
}

// hasEnded says whether an error is that of a page that is not there any more.
func hasEnded(code status.Code) bool {
	return code == status.StaleHandle || code == status.InvalidHandle
}

// run brings the pages in step, on as many processors as are of use: each takes pages, packs, moves and unpacks them by itself,
// and waits for a lock only when it has none.
func (s *syncing) run() {
	s.bad = len(s.pages)
	workers := s.workers()
	if s.claims = len(s.pages); workers > 1 {
		s.claims = min(max(len(s.pages)/(workers*claimsEach), 1), groupPages)
	}
	parallel.Do(workers, func(int) { s.share() })
	if s.lost { // the next call finds the pages where they go on
		for _, page := range s.pages {
			_, _ = goOn(page)
		}
	}
}

// workers is how many processors share the pages: where bytes are packed as many as there are, else no more than keep a link
// busy.
func (s *syncing) workers() int {
	bytes, enough, seen := uint64(0), uint64(parallel.Most()+1)*shareBytes, 0
	for ; seen < len(s.pages) && bytes < enough; seen++ {
		bytes += native.RecordAt(native.Index(s.pages[seen])).LoadSize()
	}
	workers := min(parallel.Shares(bytes, shareBytes), len(s.pages))
	if workers > 1 && s.arePinned() {
		workers = min(workers, int((uint64(seen)*planBytes+bytes-1)/bytes))
	}
	return workers
}

// arePinned says whether the host's copies are in pinned memory, by three pages of all.
func (s *syncing) arePinned() bool {
	for _, page := range []uint64{s.pages[0], s.pages[len(s.pages)/2], s.pages[len(s.pages)-1]} {
		c := contextOf(native.Index(page))
		if c == nil || !c.residency.HasPinnedCopy(native.Index(page)) {
			return false
		}
	}
	return true
}

// share brings pages in step as long as there are some that nobody has taken.
func (s *syncing) share() {
	w := idleWorkers.Get().(*worker)
	w.syncing = s
	for w.batch() {
	}
	w.syncing, w.waiting = nil, nil
	idleWorkers.Put(w)
}

type syncing struct {
	pages     []uint64
	direction residency.Direction
	device    int32
	codes     []int32
	work      *ticket.Work
	mayEnd    bool         // pages that have ended are no failure
	done      atomic.Int64 // pages, of asynchronous work
	claims    int          // how many pages a worker takes at a time
	claimed   atomic.Int64 // how many have been taken

	mutex sync.Mutex // of what follows
	lost  bool       // a device was lost
	bad   int
	err   error
}

func (s *syncing) cancelled() bool { return s.work != nil && s.work.Cancelled() }

func (s *syncing) cancel(i int) {
	s.failed(i, status.Errorf(status.Cancelled, "cancelled after %d of %d pages", s.done.Load(), len(s.pages)))
}

func (s *syncing) failed(i int, err error) {
	s.mutex.Lock()
	if i < s.bad && !(s.mayEnd && hasEnded(status.CodeOf(err))) {
		s.bad, s.err = i, err
	}
	s.lost = s.lost || status.CodeOf(err) == status.DeviceLost
	s.mutex.Unlock()
	s.ended(i, status.CodeOf(err))
}

func (s *syncing) ended(i int, code status.Code) {
	if s.codes != nil {
		s.codes[i] = int32(code)
	}
	if s.work != nil {
		s.work.Progress(uint64(s.done.Add(1)))
	}
}

// toDevice lets a page of the host that is to go to the device lie there, before bytes move where it can.
func (s *syncing) toDevice(i int) error {
	var at residency.Placement
	if err := Read(s.pages[i], func(p *Page) error {
		at = p.Placement()
		return nil
	}); err != nil {
		return err
	}
	switch at.Location {
	case abi.LocationUnified: // it is prefetched
		return nil
	case abi.LocationGPU:
		if at.Device == s.device {
			return nil
		}
	}
	return changeMemory(s.pages[i], func(c *change) error {
		to, err := c.destination(abi.LocationGPU, s.device)
		if err != nil || to == c.Placement() {
			return err
		}
		ready := c.journalNext(journal.Migrate, journal.MigrateBody(to.Location, to.Device, c.Node()))
		if to.Location != abi.LocationGPU || !c.CanPair() || c.group() != nil {
			return c.move(to, c.keepingMemory(ready))
		}
		err = c.Pair(to, ready)
		if err == nil {
			c.Record.MoveVersion()
		}
		return err
	})
}

// worker is what a share of a sync works with; the next one has its memory.
type worker struct {
	*syncing
	holding
	moves   *residency.Syncing
	waiting []int // the numbers of pages that can be locked next
	apart   []int // of those that are to lie on the device before, for which locks may be waited for
	left    []int // of those that others work on
	numbers []int // where waiting is
}

var idleWorkers = sync.Pool{New: func() any {
	w := new(worker)
	w.moves = residency.NewSyncing(func(number int, err error) {
		if at := w.slots[number].at; err != nil {
			w.failed(at, err)
		} else {
			w.ended(at, status.OK)
		}
		w.told(number)
	})
	return w
}}

// wait adds pages to those that wait.
func (w *worker) wait(numbers []int) {
	w.numbers = append(append(w.numbers[:0], w.waiting...), numbers...)
	w.waiting = w.numbers
}

// batch moves bytes of pages, and says whether there are more. Pages are locked a group after another, and unlocked when their
// bytes have moved.
func (w *worker) batch() (more bool) {
	w.setApart()
	w.moves.Begin(w.direction, w.device)
	most, bytes := firstPages, uint64(firstBytes)
	for w.count < syncPages && w.bytes < syncBytes {
		some := w.next(most, bytes)
		if len(some) == 0 {
			break
		}
		if w.cancelled() {
			for _, i := range some {
				w.cancel(i)
			}
			continue
		}
		if !w.tryLock(w.pages, some) && w.count == 0 { // who has no lock may wait for one
			if err := w.patiently(some[0], func() error { return w.lock(w.pages, some[0]) }); err != nil {
				w.failed(some[0], err)
			}
			w.busy = some[1:]
		}
		w.left = append(w.left, w.busy...)
		if w.work != nil {
			for _, n := range w.group {
				w.slots[n.Number].page.markMoving()
			}
		}
		w.moves.Add(w.group)
		w.unlock()
		most, bytes = min(2*most, groupPages), min(2*bytes, groupBytes)
	}
	w.moves.End()
	w.unlock()
	w.wait(w.left)
	w.left = w.left[:0]
	return len(w.waiting)+len(w.apart) > 0 || w.claimed.Load() < int64(len(w.pages))
}

// setApart lets pages lie on the device that are to go there; nothing is locked.
func (w *worker) setApart() {
	for _, i := range w.apart {
		switch err := w.patiently(i, func() error { return w.toDevice(i) }); {
		case w.cancelled():
			w.cancel(i)
		case err != nil:
			w.failed(i, err)
		default:
			w.left = append(w.left, i)
		}
	}
	w.apart = w.apart[:0]
	w.wait(w.left)
	w.left = w.left[:0]
}

// patiently does a step with a page, again and again while asynchronous work moves it. Nothing is locked.
func (w *worker) patiently(i int, step func() error) error {
	const often = 2 // so many times in turn it was Busy, and not moving behind that: for another reason
	still := 0
	for pause := 20 * time.Microsecond; ; pause = min(2*pause, time.Millisecond) {
		err := step()
		if status.CodeOf(err) != status.Busy || w.cancelled() {
			return err
		}
		if still++; residency.IsMoving(w.pages[i]) {
			still = 0
		}
		if still == often {
			return err
		}
		time.Sleep(pause)
	}
}

// next is the next group of pages that can be locked: of those that wait, or of those that nobody has taken.
func (w *worker) next(most int, bytes uint64) []int {
	for len(w.waiting) == 0 && len(w.apart) < w.claims {
		end := w.claimed.Add(int64(w.claims))
		first := end - int64(w.claims)
		if first >= int64(len(w.pages)) {
			return nil
		}
		w.take(int(first), int(min(end, int64(len(w.pages)))))
	}
	group, size := w.waiting[:min(most, len(w.waiting))], uint64(0)
	for n, i := range group {
		if size += native.RecordAt(native.Index(w.pages[i])).LoadSize(); size >= bytes {
			group = group[:n+1]
			break
		}
	}
	w.waiting = w.waiting[len(group):]
	return group
}

// take takes the pages of a range.
func (w *worker) take(first, end int) {
	w.numbers = w.numbers[:0]
	for i := first; i < end; i++ {
		if w.direction&residency.ToDevice != 0 && !residency.IsOn(w.pages[i], w.device) {
			w.apart = append(w.apart, i)
		} else {
			w.numbers = append(w.numbers, i)
		}
	}
	w.waiting = w.numbers
}

// holding is the pages that a batch has locked.
type holding struct {
	slots []slot // by the number that a page has while it is locked
	free  []int  // numbers that no page has
	count int    // of those that were not told
	bytes uint64
	group []residency.Numbered // the last ones
	busy  []int                // what others work on, of those that were to be the group
	// What was told is unlocked together.
	indices []uint32
	states  []uint64
	handles []uint64
	got     []bool
}

// slot is a locked page, and where it is in the list of the sync.
type slot struct {
	page *Page
	at   int
}

// tryLock locks those of some pages that nobody works on, which are the group, and says whether there is one.
func (h *holding) tryLock(pages []uint64, some []int) bool {
	h.handles, h.group, h.busy = h.handles[:0], h.group[:0], nil
	for _, i := range some {
		h.handles = append(h.handles, pages[i])
	}
	h.got = slices.Grow(h.got[:0], len(some))[:len(some)]
	native.TryLockPages(h.handles, h.got)
	for n, i := range some {
		if h.got[n] {
			h.add(pages[i], i)
		} else {
			h.busy = append(h.busy, i)
		}
	}
	return len(h.group) > 0
}

// lock waits for a page, which is the group.
func (h *holding) lock(pages []uint64, i int) error {
	if code := native.LockPageUnlessMoving(pages[i]); code != 0 {
		return lasterror.Load(code)
	}
	h.add(pages[i], i)
	return nil
}

// add takes a locked page into the group.
func (h *holding) add(page uint64, i int) {
	if len(h.free) == 0 {
		for range groupPages {
			h.free = append(h.free, len(h.slots))
			h.slots = append(h.slots, slot{page: new(Page)})
		}
	}
	number := h.free[len(h.free)-1]
	h.free = h.free[:len(h.free)-1]
	s := &h.slots[number]
	s.at = i
	s.page.at(contextOf(native.Index(page)), native.Index(page))
	h.count++
	h.bytes += s.page.Record.Size
	h.group = append(h.group, residency.Numbered{Page: &s.page.Page, Number: number})
}

// told lets go of a page.
func (h *holding) told(number int) {
	p := h.slots[number].page
	h.count--
	h.bytes -= p.Record.Size
	h.indices, h.states = append(h.indices, p.Index), append(h.states, p.State&^native.Moving)
	h.free = append(h.free, number)
	*p = Page{} // whose context may end
}

// unlock unlocks what was told.
func (h *holding) unlock() {
	native.UnlockAll(h.indices, h.states)
	h.indices, h.states = h.indices[:0], h.states[:0]
}

// Copies lists where a page has its bytes: first where it lies.
func Copies(page uint64) (copies []residency.Copy, err error) {
	err = Read(page, func(p *Page) error {
		copies, err = p.Page.Copies()
		return err
	})
	return copies, err
}

// Advise tells the driver of the use of a page in managed memory. Errors: Unsupported, those of the devices.
func Advise(page uint64, advice Advice) error {
	return Read(page, func(p *Page) error { return p.Page.Advise(advice) })
}

// AdviceOf is what the driver was told of the use of a page.
func AdviceOf(page uint64) (advice Advice, err error) {
	err = Read(page, func(p *Page) error {
		advice, err = p.Page.Advice()
		return err
	})
	return advice, err
}

// DropHostCopy ends the host's copy of a page in two places.
func DropHostCopy(page uint64) error {
	return Read(page, func(p *Page) error { return p.Page.DropHostCopy() })
}

// CheckReach says whether work on a device can write a page where it lies. Errors: Unsupported, those of handles.
func CheckReach(page uint64) error {
	return Read(page, func(p *Page) error { return p.CheckReach() })
}

// Pinned is a page that work on a device uses: the memory that has its bytes, and what ends that.
type Pinned struct {
	residency.DeviceMemory
	Of  residency.Devices
	End func()
}

// PinBlock pins a page and says where work has its bytes, which are the newest: where a device reaches the page, or, for work
// that only reads, in its replica on the device that number says (none: ok is false). Errors: those of pins; Unsupported (no
// device reaches the page, and it has no such replica).
func PinBlock(page uint64, write bool, number func(of residency.Devices) (device int32, ok bool)) (pinned Pinned, err error) {
	if code := native.Pin(page, write); code != 0 {
		return Pinned{}, lasterror.Load(code)
	}
	pinned.End = func() { native.Unpin(page, write) }
	err = withBlock(page, func(p *Page) (err error) {
		pinned.Of = p.Devices()
		if device, ok := number(pinned.Of); ok { // of a page that is pinned to write there is no replica
			if memory, shared := p.ShareReplica(device); shared {
				pinned.DeviceMemory = memory
				pinned.End = func() {
					pinned.Of.Free(memory)
					native.Unpin(page, write)
				}
				return nil
			}
		}
		pinned.DeviceMemory, err = p.Block(true)
		return err
	})
	if err != nil {
		pinned.End()
	}
	return pinned, err
}

// Replicate gives a page a replica on a device. Errors: those of residency.Page.
func Replicate(page uint64, device int32) error {
	return Read(page, func(p *Page) error { return p.Page.Replicate(device) })
}

// DropReplica drops the replica of a page on a device, where it has one. Errors: InvalidArgument, those of the devices.
func DropReplica(page uint64, device int32) error {
	return Read(page, func(p *Page) error { return p.Page.DropReplica(device) })
}

// BlockOf is the block of the device that the bytes of a page are in. It has their address, so that any byte may change from then
// on, as with an address of the host. Errors: Unsupported (no device reaches the page).
func BlockOf(page uint64) (block uint64, err error) {
	err = withBlock(page, func(p *Page) (err error) {
		memory, err := p.Block(true)
		if err == nil {
			block, p.Record.Exposed = memory.Block, native.ExposedForGood
		}
		return err
	})
	return block, err
}

// withBlock runs a call on a locked page that asks for its block. Of a page that gets one what is being saved has all bytes
// before: it is read in another way from then on.
func withBlock(page uint64, call func(p *Page) error) error {
	for {
		p, err := lock(page)
		if err != nil {
			return err
		}
		if p.NeedsBlock() && native.KeepForSave(p.Index, p.State) == native.Again {
			p.unlock()
			native.WaitForCapture(p.Index)
			continue
		}
		defer p.unlock()
		return call(p)
	}
}

// PinHostCopy pins a page in two places and gives out the address of the host's copy. Errors: InvalidState (it is in one place),
// those of a pin.
func PinHostCopy(page uint64, write bool) (address uintptr, err error) {
	// The end of a pin to write moves the version: a call that cannot be is refused before it has one.
	if err := Read(page, func(p *Page) error { return p.Page.HasHostCopy() }); err != nil {
		return 0, err
	}
	if code := native.Pin(page, write); code != 0 {
		return 0, lasterror.Load(code)
	}
	err = Read(page, func(p *Page) (err error) {
		address, err = p.Page.PinHostCopy(write)
		return err
	})
	if err != nil {
		_ = native.Unpin(page, write)
	}
	return address, err
}

// UnpinHostCopy ends such a pin, also after the context has ended.
func UnpinHostCopy(page uint64, write bool) error {
	err := Read(page, func(p *Page) error { return p.Page.UnpinHostCopy(write) })
	if err != nil && status.CodeOf(err) != status.StaleHandle {
		return err
	}
	return lasterror.Load(native.Unpin(page, write))
}

// SyncStats are what a context's pages have in two places, and what has moved.
type SyncStats struct {
	residency.MovedStats
	Pages, Bytes, NewerOnHost, NewerOnDevice uint64 // of pages in two places
	Queued                                   uint64
	Replicas, ReplicaBytes                   uint64 // also those that the next look drops
}

// SyncStats walks over the pages in two places; each is looked at when nobody works on it.
func (c *Context) SyncStats() (s SyncStats) {
	s.MovedStats, s.Queued = c.residency.Moved(), c.syncs.count()
	s.Replicas, s.ReplicaBytes = c.residency.Replicas()
	for _, index := range c.residency.InTwoPlaces() {
		page := native.Handle(native.KindPage, native.Generation(native.RecordAt(index).LoadState()), index)
		var copies []residency.Copy
		err := Read(page, func(p *Page) (err error) {
			copies, err = p.Places()
			return err
		})
		if err != nil && status.CodeOf(err) != status.Mismatch || err == nil && len(copies) != 2 { // it is not there any more
			continue
		}
		s.Pages++
		s.Bytes += copies[0].Size
		if err == nil {
			s.NewerOnDevice += copies[0].Newer
			s.NewerOnHost += copies[1].Newer
		}
	}
	return s
}

// DevicePages goes on with a walk over the pages that have bytes on a device, as Pages does over all.
func (c *Context) DevicePages(device int32, cursor *uint64, pages []uint64) (written uint64) {
	for {
		looked := c.Pages(cursor, pages)
		if looked == 0 {
			return 0
		}
		for _, page := range pages[:looked] {
			_ = Read(page, func(p *Page) error {
				at := p.Placement()
				lies := at.Device == device && at.Location != abi.LocationCPU && at.Location != abi.LocationDisk
				if lies || p.HasReplica(device) {
					pages[written] = page
					written++
				}
				return nil
			})
		}
		if written > 0 {
			return written
		}
	}
}
