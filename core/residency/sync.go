package residency

import (
	"cmp"
	"slices"
	"sync/atomic"

	"libmmsb/core/abi"
	"libmmsb/core/status"
	"libmmsb/native"
)

// Direction says which newer bytes a sync moves.
type Direction int32

// The directions; HostWins and DeviceWins say beside them whose bytes go on where holders of addresses have written on both
// sides.
const (
	ToDevice Direction = 1 << iota
	ToHost
	HostWins
	DeviceWins
	// PinnedCopy: a copy that a page gets on the host is in pinned memory.
	PinnedCopy
)

// Transfer is bytes that are to go between memory of a device and memory of the host.
type Transfer struct {
	Device uintptr
	Host   []byte
	Pinned bool // a device reaches what the host has at its address
}

// moved counts what went one way.
type moved struct{ bytes, ranges atomic.Uint64 }

// MovedStats are what syncs and calls on pages in two places have moved since the context began.
type MovedStats struct{ ToDevice, ToHost, RangesToDevice, RangesToHost uint64 }

// Moved counts it.
func (r *Residency) Moved() MovedStats {
	return MovedStats{
		ToDevice: r.moved[1].bytes.Load(), RangesToDevice: r.moved[1].ranges.Load(),
		ToHost: r.moved[0].bytes.Load(), RangesToHost: r.moved[0].ranges.Load(),
	}
}

// CanPair tells whether Pair is the way of the page, which is on the host, to a device.
func (p *Page) CanPair() bool {
	return p.Resident() && native.Class(p.State) != native.ClassGuarded && p.Location() != abi.LocationUnified
}

// Syncing brings locked pages on devices into step: the bytes that are newer on the host go to the device, or those that are
// newer on the device to the host, or both. Pages come in groups: while the bytes of one move, the caller locks the next. A page
// without a copy on the host gets one where bytes are to come there. Pages in managed memory are prefetched to the device, or to
// the host, where one direction is asked for. Pages elsewhere are left alone, when uses of them are done.
type Syncing struct {
	direction Direction
	device    int32
	told      func(number int, err error)
	way       oneWay
	onDevice  []Numbered // of a group
	back      []Numbered // have gone to the device, and come to the host next
}

// Numbered is a page with the caller's number for it.
type Numbered struct {
	*Page
	Number int
}

// NewSyncing makes one that was not begun. Each page is told once, in step or with its error: its bytes are then where they were.
// Its lock, and its number, are the caller's again.
func NewSyncing(told func(number int, err error)) *Syncing {
	s := &Syncing{told: told}
	s.way.told = s.tell
	return s
}

// Begin begins it, for the first time or after End.
func (s *Syncing) Begin(direction Direction, device int32) {
	s.direction, s.device = direction, device
	s.way.toDevice, s.way.pinned, s.way.wins = direction&ToDevice != 0, direction&PinnedCopy != 0, 0
	switch {
	case direction&HostWins != 0:
		s.way.wins = ToDevice
	case direction&DeviceWins != 0:
		s.way.wins = ToHost
	}
}

func (s *Syncing) bothWays() bool { return s.direction&(ToDevice|ToHost) == ToDevice|ToHost }

// tell is told of pages that have gone one way.
func (s *Syncing) tell(n Numbered, err error) {
	if err == nil && s.way.toDevice && s.bothWays() {
		s.back = append(s.back, n)
		return
	}
	s.told(n.Number, err)
}

// Add begins to move what is newer of a group of pages, which stay locked until they are told.
func (s *Syncing) Add(pages []Numbered) {
	var managed []Numbered
	s.onDevice = s.onDevice[:0]
	for _, n := range pages {
		switch {
		case native.OnDevice(n.State):
			s.onDevice = append(s.onDevice, n)
		case n.Location() == abi.LocationUnified && !s.bothWays():
			managed = append(managed, n)
		default:
			s.told(n.Number, n.settled())
		}
	}
	prefetch(managed, s.way.toDevice, s.device, s.told)
	s.way.add(s.onDevice)
}

// End returns when all pages are told.
func (s *Syncing) End() {
	s.way.end(nil)
	if len(s.back) > 0 {
		s.way.toDevice = false
		s.way.add(s.back)
		s.way.end(nil)
		s.back = s.back[:0]
	}
}

// oneWay is pages on their way to devices, or to the host, those of one device at a time.
type oneWay struct {
	toDevice bool
	pinned   bool // copies that the host gets
	wins     Direction
	told     func(n Numbered, err error)
	of       *Residency
	device   int32
	carrier  Carrier // nil = nothing moves
	given    uint64  // bytes that it has got
	going    []travel
	arrived  int // so many of them have been told
	// Of a group; their memory serves the next one.
	travels []travel
	list    []Transfer
	memory  []DeviceMemory
	pairs   []*pair
	indices []uint32
}

// travel is what of a page moves.
type travel struct {
	Numbered
	both          *pair
	backing       Backing
	bytes, ranges uint64
	until         uint64 // it has arrived when the carrier has moved so many bytes
}

func (w *oneWay) add(pages []Numbered) {
	travels := w.travels[:0]
	w.pairs, w.indices = pairsOf(pages, w.pairs[:0], w.indices[:0])
	for i, both := range w.pairs {
		n := pages[i]
		both, err := n.ready(both, w)
		if err != nil || both == nil {
			w.told(n, err)
			continue
		}
		travels = append(travels, travel{Numbered: n, both: both, backing: n.backing()})
	}
	byPlace := func(a, b travel) int {
		return cmp.Or(cmp.Compare(a.context, b.context), cmp.Compare(a.backing.device, b.backing.device))
	}
	if !slices.IsSortedFunc(travels, byPlace) {
		slices.SortStableFunc(travels, byPlace)
	}
	w.travels = travels
	for len(travels) > 0 {
		first, count := travels[0], 1
		for count < len(travels) && travels[count].Residency == first.Residency &&
			travels[count].backing.device == first.backing.device {
			count++
		}
		w.carry(travels[:count])
		travels = travels[count:]
	}
}

// carry begins to move what is newer of pages on one device.
func (w *oneWay) carry(travels []travel) {
	if first := travels[0]; w.of != first.Residency || w.device != first.backing.device {
		w.end(nil)
		w.of, w.device = first.Residency, first.backing.device
	}
	w.list = w.list[:0]
	begin, awaited := len(w.going), w.await(travels)
	for _, t := range travels {
		if !awaited {
			if err := t.await(t.backing, w.toDevice); err != nil {
				w.told(t.Numbered, err)
				continue
			}
		}
		w.list = t.plan(w.toDevice, w.list)
		w.given += t.bytes
		w.going = append(w.going, t)
	}
	for i := range w.going[begin:] {
		w.going[begin+i].until = w.given // the carrier has an order of its own within a list
	}
	if len(w.list) > 0 {
		if err := w.load(); err != nil {
			w.end(err)
			return
		}
	}
	w.arrive()
}

// await returns when the program's uses of all of the pages are done. Where it says that they are not, each is asked by itself.
func (w *oneWay) await(travels []travel) (done bool) {
	w.memory = w.memory[:0]
	for _, t := range travels {
		w.memory = append(w.memory, t.backing.memory())
	}
	return w.of.devices.Await(w.toDevice, w.memory...) == nil
}

// load gives the list to the carrier.
func (w *oneWay) load() (err error) {
	if w.carrier == nil {
		if w.carrier, err = w.of.devices.Carry(w.device, w.toDevice); err != nil {
			return err
		}
	}
	return w.carrier.Add(w.list)
}

// arrive tells the pages whose bytes have.
func (w *oneWay) arrive() {
	moved := uint64(0)
	if w.carrier != nil {
		moved = w.carrier.Moved()
	}
	var bytes, ranges uint64
	for ; w.arrived < len(w.going) && w.going[w.arrived].until <= moved; w.arrived++ {
		t := &w.going[w.arrived]
		bytes, ranges = bytes+t.bytes, ranges+t.ranges
		t.arrived(w.toDevice)
		w.told(t.Numbered, nil)
	}
	if bytes > 0 {
		w.of.count(w.toDevice, bytes, ranges)
	}
	if w.arrived > len(w.going)/2 {
		w.going, w.arrived = w.going[:copy(w.going, w.going[w.arrived:])], 0
	}
}

// end waits for what is on its way. Pages whose bytes have not come then have the carrier's error, or that of a call before.
func (w *oneWay) end(err error) {
	if w.carrier != nil {
		err = cmp.Or(w.carrier.End(), err)
	}
	w.arrive()
	for _, t := range w.going[w.arrived:] {
		w.told(t.Numbered, err)
	}
	w.carrier, w.given, w.going, w.arrived, w.of = nil, 0, w.going[:0], 0, nil
}

// pairsOf adds what is known of pages that may be in two places to pairs; those of a context are looked up at once. It returns
// the memory of indices, too.
func pairsOf(pages []Numbered, pairs []*pair, indices []uint32) ([]*pair, []uint32) {
	for i, n := range pages {
		if indices = append(indices, n.Index); i+1 == len(pages) || pages[i+1].Residency != n.Residency {
			pairs = n.pairs.getAll(indices, pairs)
			indices = indices[:0]
		}
	}
	return pairs, indices
}

// ready is what is known of a page before bytes of it go one way: both, which was looked up before; nil where none can.
func (p *Page) ready(both *pair, way *oneWay) (*pair, error) {
	if err := p.Present(); err != nil {
		return nil, err
	}
	if p.Record.Locator != 0 { // a copy that a device has refused is the newest there is
		if _, err := p.newest(p.Index); err != nil {
			return nil, err
		}
		both = p.pairs.get(p.Index)
	}
	if both != nil {
		if err := p.keep(p.Index, both); err != nil {
			return nil, err
		}
		return both, p.settle(p.Index, both, way.wins)
	}
	if way.toDevice {
		return nil, nil
	}
	at := Placement{}
	if way.pinned {
		at = Placement{abi.LocationPinned, p.Placement().Device}
	}
	frame, err := p.Take(at, p.Record.Size, p.Node(), false)
	if err != nil {
		return nil, err
	}
	both = newPair(frame.Index, p.Record.Size)
	both.device.Add(both.all(p.Record.Size))
	both.out = p.Record.Pinned() || p.Record.Exposed == exposedForGood
	p.pairs.put(p.Index, both)
	return both, nil
}

// plan adds what of the page is newer on one side to a list.
func (t *travel) plan(toDevice bool, list []Transfer) []Transfer {
	set, size := t.both.device, t.Record.Size
	if toDevice {
		set = t.both.host
	}
	host, device := t.both.bytes(size), t.backing.address()
	t.both.newer(set, 0, uint64(len(set))*64, size, func(offset, length uint64) {
		list = append(list, Transfer{device + uintptr(offset), host[offset:][:length:length], t.both.pinned})
		t.bytes += length
		t.ranges++
	})
	return list
}

// arrived notes that both sides have what was newer on one.
func (t *travel) arrived(toDevice bool) {
	if toDevice {
		t.both.host = t.both.host[:0]
	} else {
		t.both.device = t.both.device[:0]
		if t.both.reference != 0 {
			copy(t.both.common(t.Record.Size), t.both.bytes(t.Record.Size))
		}
	}
}

// Copy is what a page has in one place.
type Copy struct {
	Placement
	Size  uint64
	Newer uint64 // bytes that are newer than in the other place
}

// Copies lists where the locked page has its bytes: its places, and then its replicas, the oldest first.
func (p *Page) Copies() ([]Copy, error) {
	list, err := p.Places()
	for _, one := range p.current() {
		list = append(list, Copy{Placement: Placement{abi.LocationGPU, one.memory.Device}, Size: one.bytes})
	}
	return list, err
}

// Places lists what a locked page has where it lies, and in its copy on the host where it is in two places.
func (p *Page) Places() ([]Copy, error) {
	list := []Copy{{Placement: p.Placement(), Size: p.Record.Size}}
	both, err := p.pairOf(p.Index)
	if both == nil || err != nil {
		return list, err
	}
	list = append(list, Copy{Placement: p.copyAt(both), Size: p.Record.Size})
	_, end := both.all(p.Record.Size)
	both.newer(both.device, 0, end, p.Record.Size, func(_, length uint64) { list[0].Newer += length })
	both.newer(both.host, 0, end, p.Record.Size, func(_, length uint64) { list[1].Newer += length })
	return list, nil
}

// DropHostCopy ends the host's copy of a locked page in two places; what is newer there goes to the device before.
func (p *Page) DropHostCopy() error {
	both, err := p.pairOf(p.Index)
	if err != nil || both == nil {
		return err
	}
	if both.readPins > 0 || both.writePins > 0 {
		return status.Errorf(status.Busy,
			"page 0x%016x has a copy on the host that is pinned, %d times to read, %d times to write", p.handle(),
			both.readPins, both.writePins)
	}
	return p.part(both)
}

// InTwoPlaces lists the records of pages in two places.
func (r *Residency) InTwoPlaces() (indices []uint32) {
	for index := range r.pairs.all() {
		indices = append(indices, index)
	}
	return indices
}

// stateOf is a page's, and whether the page is there. Nobody needs to have locked it: both may be of the moment before.
func stateOf(page uint64) (record *native.Record, state uint64, there bool) {
	record = native.RecordAt(native.Index(page))
	state = record.LoadState()
	return record, state, native.IsOf(state, page)
}

// IsThere says whether a page has not ended, as far as stateOf knows.
func IsThere(page uint64) bool {
	_, _, there := stateOf(page)
	return there
}

// IsMoving says whether asynchronous work moves a page, as far as stateOf knows.
func IsMoving(page uint64) bool {
	_, state, there := stateOf(page)
	return there && state&native.OwnerMask != 0 && state&native.Moving != 0
}

// IsOn says whether a page lies on a device, as far as stateOf knows.
func IsOn(page uint64, device int32) bool {
	record, state, there := stateOf(page)
	side := atomic.LoadUint32(&record.Side)
	return there && native.OnDevice(state) && side != 0 &&
		atomic.LoadInt32(&native.SideAt(side).Device) == device
}

// HasPinnedCopy says whether the page on a record has a copy on the host, in pinned memory. Nobody needs to have locked it, as
// for IsOn.
func (r *Residency) HasPinnedCopy(index uint32) bool {
	both := r.pairs.get(index)
	return both != nil && both.pinned
}
