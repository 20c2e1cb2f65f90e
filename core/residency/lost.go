package residency

import (
	"libmmsb/core/abi"
	"libmmsb/core/status"
)

// Lost says of a locked page whether it lies on a device that is lost, and how many of its bytes only that had, or may have
// changed. Without such bytes the page can move to the host.
func (p *Page) Lost() (bytes uint64, lost bool) {
	if p.lostInUse() {
		return p.Record.Size, true
	}
	at := p.Placement()
	if at.Location != abi.LocationGPU || status.CodeOf(p.devices.Check(at.Location, at.Device)) != status.DeviceLost {
		return 0, false
	}
	if p.waiting.get(p.Index) != nil || p.Record.Locator != 0 { // in a snapshot, or a copy that the device did not take
		return 0, true
	}
	if len(p.current()) > 0 {
		return 0, true
	}
	both := p.pairs.get(p.Index)
	if both == nil || both.rawOnDevice(p.Record) {
		return p.Record.Size, true
	}
	both.newer(both.device, 0, uint64(len(both.device))*64, p.Record.Size, func(_, length uint64) { bytes += length })
	return bytes, true
}

// place is where the locked page's bytes are to be: where it lies, or where the fallback says.
func (p *Page) place() (Placement, error) {
	at := p.Placement()
	return p.Resolve(at.Location, at.Device)
}
