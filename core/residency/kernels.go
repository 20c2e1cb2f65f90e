package residency

import (
	"slices"

	"libmmsb/native"
)

// What devices do with pages where they lie, asked by native code. The pages are locked, and have no address on the host unless a
// copy could not be evicted: then the host has to do it.

// cost is what a call costs that works where a page lies, and what one costs that reads it on the host: bytes that move.
type cost struct{ there, here uint64 }

// costOf is that of a page on a device; ok is false where the host has it.
func (r *Residency) costOf(index uint32) (of cost, ok bool, err error) {
	if err := r.present(index); err != nil {
		return cost{}, false, err
	}
	record := native.RecordAt(index)
	if record.Locator != 0 {
		return cost{}, false, nil
	}
	both, err := r.pairOf(index)
	if err != nil || both == nil {
		return cost{here: record.Size}, err == nil, err
	}
	_, end := both.all(record.Size)
	sum := func(to *uint64) func(_, length uint64) { return func(_, length uint64) { *to += length } }
	both.newer(both.host, 0, end, record.Size, sum(&of.there))
	both.newer(both.device, 0, end, record.Size, sum(&of.here))
	return of, true, nil
}

// there are the backings of pages where they are worked on there, with the devices' bytes the newest. ok is false where the host
// works on them: they lie on several devices, or fewer bytes move so. of finds the residency of a record.
func there(pages []uint32, of func(index uint32) *Residency) (list []Backing, ok bool, err error) {
	var sum cost
	r := of(pages[0])
	for _, index := range pages {
		if of(index) != r || !native.OnDevice(native.RecordAt(index).LoadState()) {
			return nil, false, nil
		}
		one, ok, err := r.costOf(index)
		if err != nil || !ok {
			return nil, false, err
		}
		sum.there, sum.here = sum.there+one.there, sum.here+one.here
		list = append(list, backingOf(native.SideAt(native.RecordAt(index).Side)))
	}
	apart := slices.ContainsFunc(list, func(b Backing) bool { return b.device != list[0].device })
	if apart || sum.here == 0 || sum.there > sum.here {
		return nil, false, nil
	}
	for i, index := range pages {
		if _, err := r.newest(index); err != nil {
			return nil, false, err
		}
		if err := r.await(list[i], false); err != nil {
			return nil, false, err
		}
	}
	return list, true, nil
}

// DeviceCompare compares two different pages of one size. of finds the residency of a record.
func DeviceCompare(a, b uint32, bits []byte, of func(index uint32) *Residency) (found native.Difference, done bool, err error) {
	list, ok, err := there([]uint32{a, b}, of)
	if err != nil || !ok {
		return native.Difference{}, false, err
	}
	return of(a).devices.Compare(list[0].device, list[0].address(), list[1].address(), native.RecordAt(a).Size, bits)
}

// DeviceChecksums sums up the parts of a range of a page.
func (r *Residency) DeviceChecksums(index uint32, offset, length, part uint64, sums []uint32) (done bool, err error) {
	list, ok, err := there([]uint32{index}, func(uint32) *Residency { return r })
	if err != nil || !ok {
		return false, err
	}
	return r.devices.Checksums(list[0].device, list[0].address()+uintptr(offset), length, part, sums)
}

// DevicePropagate copies into the first page what the change masks of the others have, all of which have its size. Its own mask
// stays. persistent is Devices.Propagate's.
func DevicePropagate(pages []uint64, persistent bool, of func(index uint32) *Residency) (done bool, err error) {
	to := native.Index(pages[0])
	var indices []uint32
	var list []Masked
	size := native.RecordAt(to).Size
	for _, page := range pages[1:] {
		if record := native.RecordAt(native.Index(page)); record.MaskFrame != 0 {
			indices = append(indices, native.Index(page))
			list = append(list, Masked{Mask: native.Bytes(record.MaskLocator, native.MaskLength(size))})
		}
	}
	r := of(to)
	both, err := r.inTwoPlaces(to)
	if err != nil || native.RecordAt(to).Locator != 0 || both != nil && !both.mustBeOnDevice() { // it is changed on the host
		return false, err
	}
	at, ok, err := there(indices, of)
	if err != nil || !ok || of(indices[0]) != r {
		return false, err
	}
	b, err := r.newest(to)
	if err == nil {
		err = r.await(b, true)
	}
	if err != nil || b.device != at[0].device {
		return false, err
	}
	for i := range list {
		list[i].Address = at[i].address()
	}
	if done, err = r.devices.Propagate(b.device, b.address(), size, list, persistent); done && err == nil && both != nil {
		both.device.Add(both.all(size))
	}
	return done, err
}

// DeviceReadRuns reads ranges of a page, one behind the other.
func (r *Residency) DeviceReadRuns(index uint32, runs []native.Run, to []byte) error {
	if err := r.present(index); err != nil {
		return err
	}
	record := native.RecordAt(index)
	both, err := r.inTwoPlaces(index)
	if err != nil {
		return err
	}
	var list []Transfer
	b := backingOf(native.SideAt(record.Side))
	for _, run := range runs {
		part := to[:run.Length]
		to = to[run.Length:]
		switch {
		case record.Locator != 0:
			copy(part, native.Bytes(record.Locator, record.Size)[run.Offset:])
		case both != nil:
			list = r.readNewest(index, both, run.Offset, part, list)
		default:
			list = append(list, Transfer{b.address() + uintptr(run.Offset), part, false})
		}
	}
	if both != nil {
		return r.carry(b, false, list)
	}
	if len(list) == 0 {
		return nil
	}
	if err := r.await(b, false); err != nil {
		return err
	}
	return r.move(b.device, false, list)
}
