package residency

import (
	"libmmsb/core/abi"
	"libmmsb/core/delta"
	"libmmsb/core/status"
	"libmmsb/native"
)

// What native code asks of pages that are not resident. Their records are locked.

// MakeResident gives the bytes of a page an address: for good where they waited in a snapshot for memory of the host, else until
// Evict. The record is locked.
func (r *Residency) MakeResident(index uint32) error {
	if err := r.present(index); err != nil || native.RecordAt(index).LoadState()&native.Nonresident == 0 {
		return err
	}
	return r.makeResident(index)
}

// present gives the locked page of a record its bytes where they wait in a snapshot. The page's location stays: native code has
// looked at it.
func (r *Residency) present(index uint32) error {
	if r.waiting.get(index) == nil {
		return nil
	}
	record := native.RecordAt(index)
	state := record.LoadState()
	p := &Page{Residency: r, Index: index, Record: record, State: state &^ native.OwnerMask}
	err := p.presentAt(p.Placement())
	record.StoreState(p.State | state&native.OwnerMask)
	return err
}

// newest is the backing of a page that is on a device, with the device's bytes the newest.
// Of a page in two places that is so until the next change.
func (r *Residency) newest(index uint32) (Backing, error) {
	record := native.RecordAt(index)
	if err := r.present(index); err != nil {
		return Backing{}, err
	}
	if both := r.pairs.get(index); both != nil && both.before != 0 {
		r.lent(index, both)
	}
	b := backingOf(native.SideAt(record.Side))
	if record.Locator != 0 {
		if err := r.writeBack(index, b); err != nil {
			return Backing{}, err
		}
		r.dropAddress(index)
	}
	both, err := r.pairOf(index)
	if err == nil && both != nil {
		err = r.flush(index, both)
	}
	return b, err
}

// inTwoPlaces is what is known of a page in two places that no call has at an address; nil where there is none.
func (r *Residency) inTwoPlaces(index uint32) (*pair, error) {
	if native.RecordAt(index).Locator != 0 {
		return nil, nil
	}
	return r.pairOf(index)
}

// DeviceAddress is where the page lies on its device.
func (r *Residency) DeviceAddress(index uint32) (uintptr, error) {
	b, err := r.newest(index)
	switch both := r.pairs.get(index); {
	case err != nil || both == nil:
	case both.passing: // a change left it behind, which was refused after it was prepared
		r.dropPair(index)
	default:
		both.out, both.prepared = true, false
	}
	return b.address(), err
}

// Block is the memory of the device that the locked page's bytes are in. use: the program is about to work on it, and the
// device's bytes are the newest. Errors: Unsupported (no device reaches the page), those of the devices.
func (p *Page) Block(use bool) (memory DeviceMemory, err error) {
	if err = p.CheckReach(); err != nil {
		return memory, err
	}
	if err = p.Present(); err != nil {
		return memory, err
	}
	switch {
	case !native.OnDevice(p.State):
		return p.sharedBlock()
	case use:
		_, err = p.DeviceAddress(p.Index)
	}
	return p.backing().memory(), err
}

// CheckReach is Unsupported where no device reaches the page.
func (p *Page) CheckReach() error {
	if at := p.Location(); at == abi.LocationCPU || at == abi.LocationDisk {
		return status.Errorf(status.Unsupported, "page 0x%016x is at location %d, which no device reaches", p.handle(), at)
	}
	return nil
}

// DeviceRead reads the page's bytes from an offset on.
func (r *Residency) DeviceRead(index uint32, offset uint64, to []byte) error {
	record := native.RecordAt(index)
	if record.Locator != 0 { // a copy that could not be evicted is the newest there is
		copy(to, native.Bytes(record.Locator, record.Size)[offset:])
		return nil
	}
	both, err := r.inTwoPlaces(index)
	if err != nil {
		return err
	}
	if both != nil {
		return r.readPair(index, both, offset, to)
	}
	b, err := r.newest(index)
	if err != nil {
		return err
	}
	return r.readBacking(b, offset, to)
}

// DeviceWrite writes the page's bytes from an offset on.
func (r *Residency) DeviceWrite(index uint32, offset uint64, from []byte) error {
	runs := []delta.Run{{Offset: offset, Length: uint64(len(from))}}
	both, err := r.inTwoPlaces(index)
	if err != nil {
		return err
	}
	if both != nil && !both.onDevice(runs) {
		if err := r.bringFor(index, both, runs); err != nil {
			return err
		}
		both.change(native.RecordAt(index).Size, runs, from)
		r.changed(index, both)
		return nil
	}
	b, err := r.backing(index, both)
	if err != nil {
		return err
	}
	if err = r.writeBacking(b, offset, from); err == nil && both != nil {
		both.noteDevice(runs)
	}
	return err
}

// DeviceApply makes a delta's change, without the change mask. done is false where it is left to the host.
func (r *Residency) DeviceApply(index uint32, change *native.Delta) (done bool, err error) {
	both, err := r.inTwoPlaces(index)
	if err != nil {
		return false, err
	}
	if both == nil {
		b, err := r.newest(index)
		if err != nil {
			return false, err
		}
		if err := r.await(b, true); err != nil {
			return false, err
		}
		return r.devices.Apply(b.device, b.address(), native.RecordAt(index).Size, change)
	}
	f, err := runsOf(change)
	if err != nil {
		return false, err
	}
	if !both.onDevice(f.Runs) {
		if err := r.bringFor(index, both, f.Runs); err != nil {
			return false, err
		}
		both.change(native.RecordAt(index).Size, f.Runs, f.Payload)
		r.changed(index, both)
		return true, nil
	}
	b := backingOf(native.SideAt(native.RecordAt(index).Side))
	if err := r.await(b, true); err != nil {
		return false, err
	}
	if done, err = r.devices.Apply(b.device, b.address(), native.RecordAt(index).Size, change); done && err == nil {
		both.noteDevice(f.Runs)
	}
	return done, err
}

// DevicePrepare lets the change of a valid delta be one that cannot fail, when it is made next. done is false where the page
// needs an address for that.
func (r *Residency) DevicePrepare(index uint32, change *native.Delta) (done bool, err error) {
	f, err := runsOf(change)
	if err != nil {
		return false, err
	}
	return r.prepare(index, f.Runs)
}

// backing is the backing of a page on a device: in two places, or with the device's bytes the newest.
func (r *Residency) backing(index uint32, both *pair) (Backing, error) {
	if both != nil {
		return backingOf(native.SideAt(native.RecordAt(index).Side)), nil
	}
	return r.newest(index)
}

// runsOf is a valid delta's runs and their payload.
func runsOf(change *native.Delta) (*delta.Form, error) {
	f := delta.FromNative(change)
	if f.Kind == delta.Runs {
		return f, nil
	}
	return delta.Convert(f, delta.Runs)
}

// DeviceApplyMany makes those changes of a batch whose pages are on devices; bad is the first that could not be made. of finds
// the residency of a record.
func DeviceApplyMany(pages []uint64, changes []native.Delta, of func(index uint32) *Residency) (bad int, err error) {
	type batch struct {
		first   int
		changes []Change
	}
	batches := make(map[*Residency]*batch)
	var inHost, onDevice []pairChange // of pages in two places
	for i, page := range pages {
		index := native.Index(page)
		if !native.OnDevice(native.RecordAt(index).LoadState()) {
			continue
		}
		r := of(index)
		both, err := r.inTwoPlaces(index)
		if err != nil {
			return i, err
		}
		if both != nil {
			there := both.onDevice(nil)
			f, err := runsOf(&changes[i])
			if err == nil && !there {
				err = r.bringFor(index, both, f.Runs)
			}
			if err != nil {
				return i, err
			}
			if !there {
				inHost = append(inHost, pairChange{r, index, both, f})
				continue
			}
			onDevice = append(onDevice, pairChange{r, index, both, f})
		}
		b, err := r.backing(index, both)
		if err == nil {
			err = r.await(b, true)
		}
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
	for _, c := range inHost {
		c.both.change(native.RecordAt(c.index).Size, c.form.Runs, c.form.Payload)
	}
	for _, c := range inHost { // behind all changes: a page may be there more than once, and its copy may end with this
		c.residency.changed(c.index, c.both)
	}
	for _, c := range onDevice {
		c.both.noteDevice(c.form.Runs)
	}
	return 0, nil
}

// pairChange is a change of a page in two places.
type pairChange struct {
	residency *Residency
	index     uint32
	both      *pair
	form      *delta.Form
}
