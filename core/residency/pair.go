package residency

import (
	"bytes"
	"cmp"
	"slices"

	"libmmsb/core/alloc"
	"libmmsb/core/delta"
	"libmmsb/core/log"
	"libmmsb/core/region"
	"libmmsb/native"
)

// A page in two places has its bytes on a device and a copy of them on the host, and knows of each granule whether it is newer on
// the host, newer on the device, or equal. Reads take each granule where it is newest. A change is made in the host's copy,
// unless all of it is newer on the device, or the program has the device's address: then on the device. What a change of the
// host's copy covers only in part, and is newer on the device, is brought first, so that no granule is ever newer on both sides.

const (
	// granuleShift is that of the smallest granule, 64 bytes.
	granuleShift = 6
	// mostGranules bounds a page's: above 1 GiB granules are larger, so that a page's two sets take 4 MiB at most.
	mostGranules = 1 << 24
)

// exposedForGood is a page's whose address was given out without a pin: MMSB__EXPOSED_FOR_GOOD.
const exposedForGood = 2

// pair is what is known of a page in two places; its page's lock is held by whoever looks at it. What a sync to the device needs
// comes first, in one cache line: a sync reads thousands, each out of slow memory.
type pair struct {
	// The program was given the address of the host's copy: pins of it to read and to write; reference is what both sides had in
	// common when it could begin to write there.
	readPins, writePins uint16
	reference           uint32 // region; 0 = nobody writes there
	locator             uint64 // of the host's copy
	// What is newer where. Small sets are in words.
	words  [2]uint64
	host   alloc.Set
	shift  uint8 // of a granule
	pinned bool  // the host's copy is pinned memory
	// out: the program was given the device's address. All that was newer on the host had gone there before.
	out bool
	// prepared: the next change is made in the host's copy. passing: that goes when the change is on the device. exact: beside
	// others who write there, so that only the bytes of these runs may go.
	prepared, passing, exact bool
	device                   alloc.Set
	runs                     []delta.Run
	frame                    uint32 // record whose memory the host's copy is
	// A call works on the host's copy at its address: what the copy was before, and the page's version then.
	before  uint32 // region; 0 = no call does
	version uint64
}

// shiftOf is that of the granules of a page of a size.
func shiftOf(size uint64) uint8 {
	shift := uint8(granuleShift)
	for size>>shift >= mostGranules {
		shift++
	}
	return shift
}

func newPair(frame uint32, size uint64) *pair {
	record := native.RecordAt(frame)
	p := &pair{frame: frame, locator: record.Locator, shift: shiftOf(size)}
	p.pinned = native.Class(record.LoadState()) == native.ClassDevice
	p.host, p.device = p.words[0:0:1], p.words[1:1:2]
	record.DirtyFirst, record.DirtyLast = 0, 255 // where it is small memory: anything is written there
	return p
}

// granules are those that a range of bytes touches.
func (p *pair) granules(offset, length uint64) (first, end uint64) {
	if length == 0 {
		return 0, 0
	}
	return offset >> p.shift, (offset+length-1)>>p.shift + 1
}

// bytes are the host's copy of a page of a size.
func (p *pair) bytes(size uint64) []byte { return native.Bytes(p.locator, size) }

// newer adds the ranges of a set to a list, and says how many bytes they are.
func (p *pair) newer(of alloc.Set, first, end, size uint64, list func(offset, length uint64)) {
	of.Runs(first, end, func(first, end uint64) {
		begin := first << p.shift
		list(begin, min(end<<p.shift, size)-begin)
	})
}

// has says whether all granules of a range are in a set.
func has(set alloc.Set, first, end uint64) bool {
	all := true
	set.Gaps(first, end, func(uint64, uint64) { all = false })
	return all
}

// all is every granule of a page.
func (p *pair) all(size uint64) (first, end uint64) { return p.granules(0, size) }

// pairOf is what is known of the page in two places on a locked record, up to date with what holders of addresses have done; nil
// where there is none. Errors: those of settle.
func (r *Residency) pairOf(index uint32) (*pair, error) {
	p := r.pairs.get(index)
	if p == nil {
		return nil, nil
	}
	return p, r.settle(index, p, 0)
}

// dropPair ends the host's copy of a page.
func (r *Residency) dropPair(index uint32) {
	p := r.pairs.take(index)
	if p == nil {
		return
	}
	native.CountCopyPins(-int(p.readPins) - int(p.writePins))
	if p.before != 0 {
		region.Unmap(p.before)
		native.RecordAt(index).SetLocator(0)
	}
	if p.reference != 0 {
		region.Unmap(p.reference)
	}
	r.memory.Give(p.frame)
}

// DropCopy ends the host's copy of a locked page whose context ends.
func (r *Residency) DropCopy(index uint32) { r.dropPair(index) }

// bring brings a range of granules to the host as far as they are newer on the device.
func (r *Residency) bring(index uint32, p *pair, first, end uint64) error {
	record := native.RecordAt(index)
	b, copied := backingOf(native.SideAt(record.Side)), p.bytes(record.Size)
	var list []Transfer
	p.newer(p.device, first, end, record.Size, func(offset, length uint64) {
		list = append(list, Transfer{b.address() + uintptr(offset), copied[offset:][:length], p.pinned})
	})
	if err := r.carry(b, false, slices.Clone(list)); err != nil {
		return err
	}
	if p.reference != 0 {
		for i := range list {
			offset := uint64(list[i].Device - b.address())
			copy(p.common(record.Size)[offset:], list[i].Host)
		}
	}
	p.device.Remove(first, end)
	return nil
}

// flush brings to the device what is newer on the host: where others write there, the bytes of the changes and no other ones.
func (r *Residency) flush(index uint32, p *pair) error {
	record := native.RecordAt(index)
	b, copied := backingOf(native.SideAt(record.Side)), p.bytes(record.Size)
	var list []Transfer
	add := func(offset, length uint64) {
		list = append(list, Transfer{b.address() + uintptr(offset), copied[offset:][:length], p.pinned})
	}
	if p.exact {
		union(p.runs, add)
	} else {
		_, end := p.all(record.Size)
		p.newer(p.host, 0, end, record.Size, add)
	}
	if err := r.carry(b, true, list); err != nil {
		return err
	}
	p.host, p.runs = p.host[:0], nil
	return nil
}

// union adds to a list what runs cover together, each byte once. It sorts them.
func union(runs []delta.Run, list func(offset, length uint64)) {
	slices.SortFunc(runs, func(a, b delta.Run) int { return cmp.Compare(a.Offset, b.Offset) })
	end := uint64(0) // of what is in the list
	for _, run := range runs {
		if from := max(run.Offset, end); from < run.Offset+run.Length {
			end = run.Offset + run.Length
			list(from, end-from)
		}
	}
}

// carry is carryTo between the host and the memory of one page.
func (r *Residency) carry(b Backing, toDevice bool, list []Transfer) error {
	if len(list) == 0 {
		return nil
	}
	if err := r.await(b, toDevice); err != nil {
		return err
	}
	return r.carryTo(b.device, toDevice, list)
}

// carryTo moves ranges that are not of a sync, and counts them.
func (r *Residency) carryTo(device int32, toDevice bool, list []Transfer) error {
	sum, ranges := uint64(0), uint64(len(list))
	for i := range list {
		sum += uint64(len(list[i].Host))
	}
	if err := r.move(device, toDevice, list); err != nil {
		return err
	}
	r.count(toDevice, sum, ranges)
	return nil
}

// move moves ranges that all are known.
func (r *Residency) move(device int32, toDevice bool, list []Transfer) error {
	carrier, err := r.devices.Carry(device, toDevice)
	if err != nil {
		return err
	}
	return cmp.Or(carrier.Add(list), carrier.End())
}

// count notes what has moved.
func (r *Residency) count(toDevice bool, bytes, ranges uint64) {
	m := &r.moved[0]
	if toDevice {
		m = &r.moved[1]
	}
	m.bytes.Add(bytes)
	m.ranges.Add(ranges)
}

// readPair reads bytes, each where it is newest.
func (r *Residency) readPair(index uint32, p *pair, offset uint64, to []byte) error {
	return r.carry(backingOf(native.SideAt(native.RecordAt(index).Side)), false, r.readNewest(index, p, offset, to, nil))
}

// readNewest reads bytes of the host's copy, and adds those to a list that are newer on the device.
func (r *Residency) readNewest(index uint32, p *pair, offset uint64, to []byte, list []Transfer) []Transfer {
	record := native.RecordAt(index)
	b, length := backingOf(native.SideAt(record.Side)), uint64(len(to))
	copy(to, p.bytes(record.Size)[offset:])
	first, end := p.granules(offset, length)
	p.newer(p.device, first, end, record.Size, func(begin, count uint64) {
		from, until := max(begin, offset), min(begin+count, offset+length)
		list = append(list, Transfer{b.address() + uintptr(from), to[from-offset : until-offset], false})
	})
	return list
}

// mustBeOnDevice says whether changes are made on the device whatever they change: all of it counts as newer there. While the
// program may also write on the host, both sides are compared with what they had in common, and changes are made on the host.
func (p *pair) mustBeOnDevice() bool { return p.out && p.writePins == 0 }

// onDevice says whether a change of these runs is made on the device.
func (p *pair) onDevice(runs []delta.Run) bool {
	if p.prepared {
		return false
	}
	if p.mustBeOnDevice() {
		return true
	}
	onHost := p.writePins > 0 || p.readPins > 0
	return !onHost && len(runs) > 0 && !slices.ContainsFunc(runs, func(run delta.Run) bool {
		first, end := p.granules(run.Offset, run.Length)
		return !has(p.device, first, end)
	})
}

// noteDevice notes a change that was made on the device.
func (p *pair) noteDevice(runs []delta.Run) {
	for _, run := range runs {
		p.device.Add(p.granules(run.Offset, run.Length))
	}
}

// bringFor brings what runs cover only in part. Where it fails nothing has changed.
func (r *Residency) bringFor(index uint32, p *pair, runs []delta.Run) error {
	mask := uint64(1)<<p.shift - 1
	size := native.RecordAt(index).Size
	var partly alloc.Set
	for _, run := range runs {
		first, end := p.granules(run.Offset, run.Length)
		if first < end && run.Offset&mask != 0 {
			partly.Add(first, first+1)
		}
		if last := run.Offset + run.Length; first < end && last&mask != 0 && last != size {
			partly.Add(end-1, end)
		}
	}
	var err error
	partly.Runs(0, uint64(len(partly))*64, func(first, end uint64) {
		if err == nil && p.device.Overlaps(first, end) {
			err = r.bring(index, p, first, end)
		}
	})
	return err
}

// prepare lets a change of runs be one that cannot fail: in the host's copy, which then has what the change covers in part. A
// page without a copy has one until the change is on its device. done is false where the change must be made on the device, or
// somebody has the page's bytes at an address.
func (r *Residency) prepare(index uint32, runs []delta.Run) (done bool, err error) {
	if err := r.present(index); err != nil {
		return false, err
	}
	record := native.RecordAt(index)
	if record.Locator != 0 {
		return false, nil
	}
	both, err := r.pairOf(index)
	if err != nil {
		return false, err
	}
	raw := record.Pinned() || record.Exposed == exposedForGood
	if both != nil && raw {
		return false, nil
	}
	if both == nil {
		frame, err := r.memory.TakePage(record.Size, -1, false)
		if err != nil {
			return false, err
		}
		both = newPair(frame, record.Size)
		both.device.Add(both.all(record.Size))
		both.passing, both.exact = true, raw
		r.pairs.put(index, both)
	}
	if err := r.bringFor(index, both, runs); err != nil {
		return false, err
	}
	both.prepared = true
	return true, nil
}

// changed ends what prepare began. Where the device does not take the change it stays in the host's copy: nothing is lost.
func (r *Residency) changed(index uint32, p *pair) {
	p.prepared = false
	if !p.passing {
		return
	}
	p.passing = false
	err := r.flush(index, p)
	p.exact, p.runs = false, nil
	if err != nil {
		log.Logf(log.Warning, "page 0x%016x keeps a copy on the host: device %d does not take what has changed: %v",
			handleOf(index), backingOf(native.SideAt(native.RecordAt(index).Side)).device, err)
		return
	}
	r.dropPair(index)
}

// keep makes a copy that a change has left behind, which was refused after it was prepared, one that stays: somebody wants it.
func (r *Residency) keep(index uint32, p *pair) error {
	if !p.passing {
		return nil
	}
	if err := r.flush(index, p); err != nil {
		return err
	}
	record := native.RecordAt(index)
	p.prepared, p.passing, p.exact, p.runs = false, false, false, nil
	p.out = record.Pinned() || record.Exposed == exposedForGood
	return nil
}

// change makes a change of runs in the host's copy, for which what it covers in part was brought.
func (p *pair) change(size uint64, runs []delta.Run, payload []byte) {
	to := p.bytes(size)
	if p.exact {
		p.runs = append(p.runs, runs...)
	}
	for _, run := range runs {
		payload = payload[copy(to[run.Offset:][:run.Length], payload):]
		first, end := p.granules(run.Offset, run.Length)
		p.host.Add(first, end)
		p.device.Remove(first, end)
	}
}

// lend gives a call the address of the host's copy, with all bytes the newest.
func (r *Residency) lend(index uint32, p *pair) error {
	record := native.RecordAt(index)
	if err := r.bring(index, p, 0, uint64(len(p.device))*64); err != nil {
		return err
	}
	before, err := r.memory.Map(record.Size)
	if err != nil {
		return err
	}
	copy(native.Bytes(native.Locator(before, 0), record.Size), p.bytes(record.Size))
	p.before, p.version = before, record.Version
	record.SetLocator(p.locator)
	return nil
}

// lent ends that, and says whether the call has changed anything, which is newer on the host.
func (r *Residency) lent(index uint32, p *pair) (change bool) {
	record := native.RecordAt(index)
	change = record.Version != p.version
	if change {
		was, is := native.Bytes(native.Locator(p.before, 0), record.Size), p.bytes(record.Size)
		p.different(was, is, 0, record.Size, max(uint64(1)<<p.shift, 4096))
		if p.exact {
			p.runs = append(p.runs, delta.FromPages(was, is).Runs...)
		}
	}
	region.Unmap(p.before)
	p.before = 0
	record.SetLocator(0)
	return change
}

// different adds to what is newer on the host where two copies differ, which it looks for in steps.
func (p *pair) different(a, b []byte, begin, end, step uint64) {
	for ; begin < end; begin += step {
		until := min(begin+step, end)
		switch {
		case bytes.Equal(a[begin:until], b[begin:until]):
		case step > 1<<p.shift:
			p.different(a, b, begin, until, 1<<p.shift)
		default:
			p.host.Add(begin>>p.shift, begin>>p.shift+1)
		}
	}
}

// ---- what pages do ----

// Pair moves a page of the host or of pinned memory, which is not adopted and not in a group, to a device: there its bytes get
// memory, and what it had becomes the host's copy, in which all is newer. No byte moves. ready is called when nothing else can
// fail; where it fails nothing has changed.
func (p *Page) Pair(to Placement, ready func() error) error {
	f, err := p.takeToMove(to)
	if err != nil {
		return err
	}
	if err := ready(); err != nil {
		p.Give(f)
		return err
	}
	size := p.Record.Size
	p.switchTo(f)
	both := newPair(f.Index, size)
	both.host.Add(both.all(size))
	p.pairs.put(p.Index, both)
	return nil
}

// copyAt is where the host's copy of a page lies.
func (r *Residency) copyAt(both *pair) Placement {
	if !both.pinned {
		return Placement{}
	}
	return r.shared.get(native.LocatorRegion(both.locator)).Placement
}

// moveBack moves a page in two places to where the host's copy lies: what is newer on the device comes, and the copy is the
// page's memory.
func (p *Page) moveBack(both *pair, ready func() error) error {
	size := p.Record.Size
	if err := p.bring(p.Index, both, 0, uint64(len(both.device))*64); err != nil {
		return err
	}
	if err := ready(); err != nil {
		return err
	}
	p.pairs.take(p.Index)
	if both.reference != 0 {
		region.Unmap(both.reference)
	}
	at := p.copyAt(both)
	p.become(Frame{both.frame, Backing{device: at.Device}, at.bits()})
	native.Redzone(p.Index, p.State, size)
	return nil
}

// part ends the host's copy of a page in two places, with all bytes on the device.
func (p *Page) part(both *pair) error {
	if err := p.flush(p.Index, both); err != nil {
		return err
	}
	p.dropPair(p.Index)
	return nil
}
