package residency

import (
	"cmp"
	"slices"

	"libmmsb/core/abi"
	"libmmsb/core/log"
	"libmmsb/core/status"
	"libmmsb/native"
)

// Pages in managed memory, which the driver moves between the host and devices: what it is told of their use, and prefetches.

// Advice is what the driver is told of the use of a page in managed memory.
type Advice struct {
	Preferred  int32 // a device, abi.DeviceHost or abi.DeviceNone: the memory stays there, and others reach it there
	ReadMostly bool  // who reads gets a copy of his own, which ends with the next write
}

// NoAdvice is that of a page of which nothing was told.
var NoAdvice = Advice{Preferred: abi.DeviceNone}

// shared is memory of a device that the host reaches.
type shared struct {
	Placement
	bytes uint64
	Advice
	block uint64 // 0 = no use has had it
}

// unified is what is known of the memory of a locked page, which is managed memory. Errors: Unsupported.
func (p *Page) unified() (number uint32, of shared, err error) {
	if p.Location() != abi.LocationUnified {
		return 0, of, status.Errorf(status.Unsupported, "page 0x%016x is not in managed memory; its location is %d", p.handle(),
			p.Location())
	}
	if err := p.Present(); err != nil {
		return 0, of, err
	}
	number = native.LocatorRegion(p.Record.Locator)
	return number, p.shared.get(number), nil
}

// Advise tells the driver of the use of a locked page, in the place of what it was told before.
func (p *Page) Advise(advice Advice) error {
	number, of, err := p.unified()
	if err != nil {
		return err
	}
	if advice.Preferred >= 0 {
		if err := p.devices.Check(abi.LocationUnified, advice.Preferred); err != nil {
			return err
		}
	}
	if err := p.devices.Advise(of.Device, p.Bytes(), of.Advice, advice); err != nil {
		return err
	}
	of.Advice = advice
	p.shared.put(number, of)
	return nil
}

// Advice is what the driver was told of a locked page.
func (p *Page) Advice() (Advice, error) {
	_, of, err := p.unified()
	return of.Advice, err
}

// keepAdvice tells the driver of the memory that the page is about to get what it was told of that which it has.
func (p *Page) keepAdvice(f Frame) {
	if !f.Resident() || native.Class(p.State) != native.ClassDevice || p.Record.Locator == 0 {
		return
	}
	had, gets := native.LocatorRegion(p.Record.Locator), native.LocatorRegion(native.RecordAt(f.Index).Locator)
	before, now := p.shared.get(had), p.shared.get(gets)
	if before.Advice == NoAdvice || now.Location != abi.LocationUnified || now.Placement != before.Placement ||
		now.Advice != NoAdvice {
		return
	}
	if p.carryAdvice(now.Device, native.Bytes(native.Locator(gets, 0), now.bytes), NoAdvice, before.Advice) {
		now.Advice = before.Advice
		p.shared.put(gets, now)
	}
}

// carryAdvice is Devices.Advise where nobody can be told that it failed: the bytes are right all the same.
func (r *Residency) carryAdvice(device int32, memory []byte, before, now Advice) (told bool) {
	err := r.devices.Advise(device, memory, before, now)
	if err != nil {
		log.Logf(log.Warning, "device %d takes no advice for %d bytes of a page: %v", device, len(memory), err)
	}
	return err == nil
}

// prefetch moves locked pages in managed memory to a device, or to the host, those of a context together.
func prefetch(pages []Numbered, toDevice bool, device int32, told func(number int, err error)) {
	type target struct {
		Numbered
		by int32
	}
	var targets []target
	for _, p := range pages {
		by := device
		if !toDevice {
			by = p.Placement().Device
		}
		err := p.Present()
		if err == nil {
			err = p.settled()
		}
		if err == nil {
			err = p.devices.Check(abi.LocationUnified, by)
		}
		if err != nil {
			told(p.Number, err)
			continue
		}
		targets = append(targets, target{p, by})
	}
	slices.SortStableFunc(targets, func(a, b target) int {
		return cmp.Or(cmp.Compare(a.context, b.context), cmp.Compare(a.by, b.by))
	})
	for len(targets) > 0 {
		first, count := targets[0], 0
		var list [][]byte
		for _, t := range targets {
			if t.Residency != first.Residency || t.by != first.by {
				break
			}
			list = append(list, t.Bytes())
			count++
		}
		err := first.devices.Prefetch(first.by, toDevice, list)
		for _, t := range targets[:count] {
			told(t.Number, err)
		}
		targets = targets[count:]
	}
}
