package residency

import (
	"cmp"
	"maps"
	"slices"
	"sync/atomic"

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
)

// Transfer is bytes that are to go between memory of a device and memory of the host.
type Transfer struct {
	Device uintptr
	Host   []byte
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
	return p.Resident() && native.Class(p.State) != native.ClassGuarded && native.Class(p.State) != native.ClassDevice
}

// Sync brings locked pages on devices into step: the bytes that are newer on the host go to the device, or those that are newer
// on the device to the host, or both. Those of each device go together. A page without a copy on the host gets one where bytes
// are to come there. Pages in managed memory are prefetched to the device, or to the host, where one direction is asked for.
// Pages elsewhere are left alone. Each page has its error: its bytes are then where they were.
func Sync(pages []*Page, direction Direction, device int32) (errs []error) {
	errs = make([]error, len(pages))
	if way := direction & (ToDevice | ToHost); way != ToDevice|ToHost {
		prefetch(pages, way == ToDevice, device, errs)
	}
	wins := Direction(0)
	switch {
	case direction&HostWins != 0:
		wins = ToDevice
	case direction&DeviceWins != 0:
		wins = ToHost
	}
	if direction&ToDevice != 0 {
		syncOneWay(pages, true, wins, errs)
	}
	if direction&ToHost != 0 {
		syncOneWay(pages, false, wins, errs)
	}
	return errs
}

// travel is what of a page moves.
type travel struct {
	*Page
	number  int // in the batch
	both    *pair
	backing Backing
}

func syncOneWay(pages []*Page, toDevice bool, wins Direction, errs []error) {
	travels := make([]travel, 0, len(pages))
	for i, p := range pages {
		if errs[i] != nil || !native.OnDevice(p.State) {
			continue
		}
		both, err := p.ready(toDevice, wins)
		if errs[i] = err; err == nil && both != nil {
			travels = append(travels, travel{p, i, both, p.backing()})
		}
	}
	slices.SortFunc(travels, func(a, b travel) int {
		return cmp.Or(cmp.Compare(a.context, b.context), cmp.Compare(a.backing.device, b.backing.device),
			cmp.Compare(a.backing.at, b.backing.at))
	})
	var list []Transfer
	for len(travels) > 0 {
		first, count := travels[0], 0
		list = list[:0]
		for _, t := range travels {
			if t.Residency != first.Residency || t.backing.device != first.backing.device {
				break
			}
			if errs[t.number] = t.await(t.backing, toDevice); errs[t.number] == nil {
				list = t.plan(toDevice, list)
			}
			count++
		}
		err := first.carryTo(first.backing.device, toDevice, list)
		for _, t := range travels[:count] {
			if errs[t.number] != nil {
				continue
			}
			if errs[t.number] = err; err == nil {
				t.arrived(toDevice)
			}
		}
		travels = travels[count:]
	}
}

// ready is what is known of a page before bytes of it go one way; nil where none can.
func (p *Page) ready(toDevice bool, wins Direction) (both *pair, err error) {
	if err := p.Present(); err != nil {
		return nil, err
	}
	if p.Record.Locator != 0 { // a copy that a device has refused is the newest there is
		if _, err := p.newest(p.Index); err != nil {
			return nil, err
		}
	}
	if both = p.pairs.get(p.Index); both != nil {
		if err := p.keep(p.Index, both); err != nil {
			return nil, err
		}
		return both, p.settle(p.Index, both, wins)
	}
	if toDevice {
		return nil, nil
	}
	frame, err := p.memory.TakePage(p.Record.Size, p.Node(), false)
	if err != nil {
		return nil, err
	}
	both = newPair(frame, p.Record.Size)
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
		list = append(list, Transfer{device + uintptr(offset), host[offset:][:length:length]})
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

// Copies lists where the locked page has its bytes: first where it lies.
func (p *Page) Copies() ([]Copy, error) {
	list := []Copy{{Placement: p.Placement(), Size: p.Record.Size}}
	both, err := p.pairOf(p.Index)
	if both == nil || err != nil {
		return list, err
	}
	list = append(list, Copy{Size: p.Record.Size})
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
func (r *Residency) InTwoPlaces() []uint32 {
	r.pairs.Lock()
	defer r.pairs.Unlock()
	return slices.Collect(maps.Keys(r.pairs.of))
}

// IsOn says whether a page lies on a device now. Nobody needs to have locked it: the answer may be of the moment before.
func IsOn(page uint64, device int32) bool {
	record := native.RecordAt(native.Index(page))
	state := record.LoadState()
	side := atomic.LoadUint32(&record.Side)
	return (state^page)>>native.IndexBits == 0 && native.OnDevice(state) && side != 0 &&
		atomic.LoadInt32(&native.SideAt(side).Device) == device
}
