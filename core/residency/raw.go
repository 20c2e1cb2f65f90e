package residency

import (
	"bytes"

	"libmmsb/core/alloc"
	"libmmsb/core/region"
	"libmmsb/core/status"
	"libmmsb/native"
)

// What holders of addresses do to a page in two places, which no call sees. On one side all that they may have changed is newer
// there: on the device any byte, on the host what differs from the reference. On both sides at once the bytes tell: each side is
// compared with what both had in common.

// common is the reference of a page of a size.
func (p *pair) common(size uint64) []byte { return native.Bytes(native.Locator(p.reference, 0), size) }

// rawOnDevice says whether the device's bytes may have changed beside the calls.
func (p *pair) rawOnDevice(record *native.Record) bool { return p.out && record.Exposed != 0 }

// settle brings what is known of a locked page up to date. wins is the side whose bytes go on where both were written; without
// one that is Mismatch, and nothing has changed. Errors: Mismatch, OutOfMemory, those of the devices.
func (r *Residency) settle(index uint32, p *pair, wins Direction) error {
	record := native.RecordAt(index)
	if p.reference != 0 && p.rawOnDevice(record) {
		if err := r.reconcile(index, p, wins); err != nil {
			return err
		}
	} else if p.reference != 0 {
		p.different(p.common(record.Size), p.bytes(record.Size), 0, record.Size, max(uint64(1)<<p.shift, 4096))
		p.newer(p.host, 0, uint64(len(p.host))*64, record.Size, func(offset, length uint64) {
			copy(p.common(record.Size)[offset:][:length], p.bytes(record.Size)[offset:])
		})
	} else if p.rawOnDevice(record) {
		p.device.Add(p.all(record.Size))
	}
	if pins := uint32(record.ReadPins) + uint32(record.WritePins); pins == uint32(p.readPins)+uint32(p.writePins) &&
		record.Exposed != exposedForGood {
		p.out = false
	}
	if p.reference != 0 && p.writePins == 0 {
		region.Unmap(p.reference)
		p.reference = 0
	}
	return nil
}

// reconcile brings into step a page whose holders may have written on both sides: each side gets what the other one has changed.
func (r *Residency) reconcile(index uint32, p *pair, wins Direction) error {
	record := native.RecordAt(index)
	size, b := record.Size, backingOf(native.SideAt(record.Side))
	number, err := r.memory.Map(size)
	if err != nil {
		return err
	}
	defer region.Unmap(number)
	there, here, common := native.Bytes(native.Locator(number, 0), size), p.bytes(size), p.common(size)
	if err := r.readBacking(b, 0, there); err != nil {
		return err
	}
	var toDevice, toHost, clash alloc.Set
	for first := uint64(0); first<<p.shift < size; first++ {
		begin, end := first<<p.shift, min((first+1)<<p.shift, size)
		host, device := !bytes.Equal(here[begin:end], common[begin:end]), !bytes.Equal(there[begin:end], common[begin:end])
		switch {
		case host && device && bytes.Equal(here[begin:end], there[begin:end]):
		case host && device && wins == 0:
			clash.Add(first, first+1)
		case host && (!device || wins == ToDevice):
			toDevice.Add(first, first+1)
		case device:
			toHost.Add(first, first+1)
		}
	}
	if first, found := clash.Next(0); found {
		count := 0
		clash.Runs(first, uint64(len(clash))*64, func(first, end uint64) { count += int(end - first) })
		return status.Errorf(status.Mismatch,
			"page 0x%016x was written on the host and on device %d in the same %d ranges of %d bytes, the first at offset %d",
			handleOf(index), b.device, count, uint64(1)<<p.shift, first<<p.shift)
	}
	p.host = append(p.host[:0], toDevice...)
	err = r.flush(index, p)
	p.host = p.host[:0]
	if err != nil {
		return err
	}
	p.newer(toHost, 0, uint64(len(toHost))*64, size, func(offset, length uint64) { copy(here[offset:][:length], there[offset:]) })
	copy(common, here)
	p.device = p.device[:0]
	return nil
}

func handleOf(index uint32) uint64 {
	return native.Handle(native.KindPage, native.Generation(native.RecordAt(index).LoadState()), index)
}

func (p *Page) handle() uint64 { return handleOf(p.Index) }

// HasHostCopy fails where a locked page has no copy on the host, or one that was written there and on the device.
func (p *Page) HasHostCopy() error {
	both := p.pairs.get(p.Index)
	if both == nil || p.Record.Locator != 0 {
		return status.Errorf(status.InvalidState, "page 0x%016x has no copy on the host beside its bytes on a device", p.handle())
	}
	if err := p.keep(p.Index, both); err != nil {
		return err
	}
	return p.settle(p.Index, both, 0)
}

// PinHostCopy gives out the address of the host's copy of a locked page in two places, which is pinned.
func (p *Page) PinHostCopy(write bool) (address uintptr, err error) {
	if err := p.HasHostCopy(); err != nil {
		return 0, err
	}
	both := p.pairs.get(p.Index)
	if err := p.bring(p.Index, both, 0, uint64(len(both.device))*64); err != nil {
		return 0, err
	}
	if write && both.reference == 0 {
		if err := p.flush(p.Index, both); err != nil {
			return 0, err
		}
		if both.reference, err = p.memory.Map(p.Record.Size); err != nil {
			return 0, err
		}
		copy(both.common(p.Record.Size), both.bytes(p.Record.Size))
	}
	both.countPins(write, 1)
	return native.Address(native.RecordAt(both.frame).Locator), nil
}

// UnpinHostCopy ends such a pin of a locked page.
func (p *Page) UnpinHostCopy(write bool) error {
	both := p.pairs.get(p.Index)
	if both == nil {
		return p.HasHostCopy()
	}
	if *both.pins(write) == 0 {
		return status.Errorf(status.InvalidState, "page 0x%016x has 0 such pins of its copy on the host", p.handle())
	}
	both.countPins(write, -1)
	return nil
}

// CopyPins is how many of the pins of a locked page are those of its copy on the host.
func (r *Residency) CopyPins(index uint32, write bool) uint32 {
	both := r.pairs.get(index)
	if both == nil {
		return 0
	}
	return uint32(*both.pins(write))
}

func (p *pair) pins(write bool) *uint16 {
	if write {
		return &p.writePins
	}
	return &p.readPins
}

// countPins counts pins of the host's copy that begin or end.
func (p *pair) countPins(write bool, by int) {
	*p.pins(write) += uint16(by)
	native.CountCopyPins(by)
}
