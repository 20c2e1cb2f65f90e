package residency

import (
	"libmmsb/core/abi"
	"libmmsb/native"
)

// CanMoveTogether tells whether MoveTogether moves the page, which is locked: from the host to disk, or the reverse.
func (p *Page) CanMoveTogether(to Placement) bool {
	if p.Resident() {
		return p.Location() == abi.LocationCPU && to.Location == abi.LocationDisk
	}
	from := p.backing()
	return to.Location == abi.LocationCPU && p.Record.Locator == 0 && !from.empty() && !from.onDevice()
}

// MoveTogether moves locked pages that it can move as Move does, and their versions, but reads or writes their bytes together.
// ready is called for each when nothing else can fail. It says which have moved; the others are as they were.
func MoveTogether(pages []*Page, to Placement, ready func(i int) error) (moved []bool) {
	frames := make([]Frame, 0, len(pages))
	transfers := make([]native.Transfer, 0, len(pages))
	for _, p := range pages {
		f, err := p.takeToMove(to)
		if err != nil {
			break
		}
		frames = append(frames, f)
		transfers = append(transfers, p.transfer(f))
	}
	move := native.ReadDisk
	if to.Location == abi.LocationDisk {
		move = native.WriteDisk
	}
	failed := move(transfers) != 0
	moved = make([]bool, len(pages))
	for i, f := range frames {
		p := pages[i]
		if failed || ready(i) != nil {
			p.Give(f)
			continue
		}
		p.become(f)
		native.Redzone(p.Index, p.State, p.Record.Size)
		p.Record.MoveVersion()
		moved[i] = true
	}
	return moved
}

// takeToMove takes a frame that the page is to move to.
func (p *Page) takeToMove(to Placement) (Frame, error) {
	if to != (Placement{}) { // which is written before anything can fail that cannot be taken back
		if _, err := p.Side(); err != nil {
			return Frame{}, err
		}
	}
	return p.Take(to, p.Record.Size, p.Node(), false)
}

// transfer is that of the page's bytes to a frame, one of which is on disk.
func (p *Page) transfer(to Frame) native.Transfer {
	locator, on := p.Record.Locator, to.Backing
	if to.Resident() {
		locator, on = native.RecordAt(to.Index).Locator, p.backing()
	}
	return native.Transfer{
		File: int32(p.disk.descriptor()), At: on.at, Bytes: native.Address(locator), Length: p.Record.Size,
	}
}
