package residency

import "libmmsb/native"

// What native code asks of pages that are not resident. Their records are locked.

// MakeResident gives the bytes of a page an address: for good where they waited in a snapshot for memory of the host, else until
// Evict. The record is locked.
func (r *Residency) MakeResident(index uint32) error {
	if err := r.present(index); err != nil || native.RecordAt(index).LoadState()&native.Nonresident == 0 {
		return err
	}
	return r.makeResident(index)
}

// present gives the locked page of a record its bytes where they wait in a snapshot.
func (r *Residency) present(index uint32) error {
	if r.waiting.get(index) == nil {
		return nil
	}
	record := native.RecordAt(index)
	state := record.LoadState()
	p := &Page{Residency: r, Index: index, Record: record, State: state &^ native.OwnerMask}
	err := p.Present()
	record.StoreState(p.State | state&native.OwnerMask)
	return err
}

// newest is the backing of a page that is on a device, with the device's bytes the newest.
func (r *Residency) newest(index uint32) (Backing, error) {
	record := native.RecordAt(index)
	if err := r.present(index); err != nil {
		return Backing{}, err
	}
	b := backingOf(native.SideAt(record.Side))
	if record.Locator != 0 {
		if err := r.writeBack(index, b); err != nil {
			return Backing{}, err
		}
		r.dropAddress(index)
	}
	return b, nil
}

// DeviceAddress is where the page lies on its device.
func (r *Residency) DeviceAddress(index uint32) (uintptr, error) {
	b, err := r.newest(index)
	return b.address(), err
}

// DeviceRead reads the page's bytes from an offset on.
func (r *Residency) DeviceRead(index uint32, offset uint64, to []byte) error {
	record := native.RecordAt(index)
	if record.Locator != 0 { // a copy that could not be evicted is the newest there is
		copy(to, native.Bytes(record.Locator, record.Size)[offset:])
		return nil
	}
	b, err := r.newest(index)
	if err != nil {
		return err
	}
	return r.readBacking(b, offset, to)
}

// DeviceWrite writes the page's bytes from an offset on.
func (r *Residency) DeviceWrite(index uint32, offset uint64, from []byte) error {
	b, err := r.newest(index)
	if err != nil {
		return err
	}
	return r.writeBacking(b, offset, from)
}

// DeviceApply makes a delta's change, without the change mask. done is false where it is left to the host.
func (r *Residency) DeviceApply(index uint32, change *native.Delta) (done bool, err error) {
	b, err := r.newest(index)
	if err != nil {
		return false, err
	}
	return r.devices.Apply(b.device, b.address(), native.RecordAt(index).Size, change)
}

// DeviceApplyMany makes those changes of a batch whose pages are on devices; bad is the first that could not be made. of finds
// the residency of a record.
func DeviceApplyMany(pages []uint64, changes []native.Delta, of func(index uint32) *Residency) (bad int, err error) {
	type batch struct {
		first   int
		changes []Change
	}
	batches := make(map[*Residency]*batch)
	for i, page := range pages {
		index := native.Index(page)
		if !native.OnDevice(native.RecordAt(index).LoadState()) {
			continue
		}
		r := of(index)
		b, err := r.newest(index)
		if err != nil {
			return i, err
		}
		if batches[r] == nil {
			batches[r] = &batch{first: i}
		}
		batches[r].changes = append(batches[r].changes, Change{b.device, b.address(), &changes[i]})
	}
	for r, batch := range batches {
		if err := r.devices.ApplyMany(batch.changes); err != nil {
			return batch.first, err
		}
	}
	return 0, nil
}
