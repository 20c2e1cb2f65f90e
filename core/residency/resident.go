package residency

import (
	"libmmsb/core/delta"
	"libmmsb/core/log"
	"libmmsb/core/region"
	"libmmsb/native"
)

// A page that is not resident has its bytes in its backing. A call that needs them at an address makes it resident and evicts it
// when it is done: for a file that is a mapping, for a device a copy on the host, of which what was changed goes back. Where the
// device refuses it the copy stays, newer than the device's, until it can be evicted: nothing is lost.

// makeResident gives the bytes of a locked page that is not resident an address, unless they have one.
func (r *Residency) makeResident(index uint32) error {
	record := native.RecordAt(index)
	if HasBlock(record.LoadState()) {
		return r.awaitDevice(index)
	}
	if record.Locator != 0 {
		return nil
	}
	b := backingOf(native.SideAt(record.Side))
	if !b.onDevice() {
		number, err := region.MapFile(int(r.disk.file.Fd()), b.at, b.length)
		if err == nil {
			record.SetLocator(native.Locator(number, 0))
		}
		return err
	}
	both, err := r.pairOf(index)
	if err != nil {
		return err
	}
	if both != nil {
		if !both.mustBeOnDevice() {
			return r.lend(index, both)
		}
		both.device.Add(both.all(record.Size)) // the call's changes go there, too
	}
	size := record.Size
	number, err := r.memory.Map(size)
	if err != nil {
		return err
	}
	copied := native.Bytes(native.Locator(number, 0), size)
	of := hostCopy{version: record.Version}
	if err = r.readBacking(b, 0, copied); err == nil && (record.WritePins > 0 || record.Exposed != 0) {
		if of.before, err = r.memory.Map(size); err == nil {
			copy(native.Bytes(native.Locator(of.before, 0), size), copied)
		}
	}
	if err != nil {
		region.Unmap(number)
		return err
	}
	r.copies.put(index, of)
	record.SetLocator(native.Locator(number, 0))
	return nil
}

// Evict takes the address back from a locked page that is not resident. What is mapped from the file stays while it is pinned.
func (r *Residency) Evict(index uint32) {
	record := native.RecordAt(index)
	if record.Locator == 0 || HasBlock(record.LoadState()) {
		return
	}
	b := backingOf(native.SideAt(record.Side))
	if !b.onDevice() {
		if !record.Pinned() {
			r.dropAddress(index)
		}
		return
	}
	if both := r.pairs.get(index); both != nil && both.before != 0 {
		if r.lent(index, both) {
			r.changed(index, both)
		}
		return
	}
	if err := r.writeBack(index, b); err != nil {
		log.Logf(log.Warning, "page 0x%016x stays on the host: device %d does not take its %d bytes back: %v",
			native.Handle(native.KindPage, native.Generation(record.LoadState()), index), b.device, record.Size, err)
		return
	}
	r.dropAddress(index)
}

// writeBack writes what was changed in the host's copy to the device.
func (r *Residency) writeBack(index uint32, b Backing) error {
	record := native.RecordAt(index)
	of := r.copies.get(index)
	if of.version == record.Version {
		return nil
	}
	bytes := native.Bytes(record.Locator, record.Size)
	if of.before == 0 {
		return r.writeBacking(b, 0, bytes)
	}
	for _, run := range delta.FromPages(native.Bytes(native.Locator(of.before, 0), record.Size), bytes).Runs {
		if err := r.writeBacking(b, run.Offset, bytes[run.Offset:][:run.Length]); err != nil {
			return err
		}
	}
	return nil
}

// dropAddress ends the address of a page that is not resident.
func (r *Residency) dropAddress(index uint32) {
	record := native.RecordAt(index)
	number := native.LocatorRegion(record.Locator)
	record.SetLocator(0)
	if before := r.copies.take(index).before; before != 0 {
		region.Unmap(before)
	}
	region.Unmap(number)
}
