// Walks over all blocks, for tests.

package sim

import (
	"libmmsb/core/invariant"
	"libmmsb/core/status"
	"libmmsb/gpu/driver"
)

func broken(format string, arguments ...any) error {
	return status.Errorf(status.Internal, format, arguments...)
}

// changed checks everything from time to time. The lock is held.
func (a *arena) changed() {
	if a.turn.Comes(len(a.directory) * sectionFrames) {
		invariant.Check(a.check())
	}
}

// check walks over all blocks and says what is wrong with them: two that have the same addresses, a free one that is live, a
// charge that is not what a recount gives. The lock is held. Errors: Internal.
func (a *arena) check() error {
	var charged uint64
	byHand := len(a.reservations) > 0
	for number, f := range a.frames() {
		at := a.base + driver.Address(number*frameBytes)
		for j := range f.blocks {
			b := f.blocks[j].Load()
			if b == nil {
				continue
			}
			byHand = byHand || b.physical != nil
			if b.slot < frameBytes || at == b.address {
				charged += b.charge
			}
			if err := a.checkBlock(b, at); err != nil {
				return err
			}
		}
	}
	// What is mapped by hand is charged where it has no address.
	if a.device != nil && a.device.driver.physicals.length() > 0 {
		byHand = true
	}
	if used := a.used.Load(); used < charged || used != charged && !byHand {
		return broken("%d bytes of %s are used, blocks have %d", used, a.name(), charged)
	}
	return a.checkLists()
}

// checkBlock checks a block that was found for an address.
func (a *arena) checkBlock(b *block, at driver.Address) error {
	covers := at >= b.address && uint64(at-b.address) < b.slot
	if b.slot < frameBytes {
		covers = b.address >= at && uint64(b.address-at)+b.slot <= frameBytes && a.find(b.address) == b
	}
	if !covers || b.arena != a {
		return broken("0x%x leads to a block of %d bytes at 0x%x", uint64(at), b.slot, uint64(b.address))
	}
	free := b.state == vacant
	if free && b.charge != 0 || !free && b.physical == nil && b.charge < b.bytes || b.bytes > b.slot {
		return broken("block of %d bytes at 0x%x in state %d has %d bytes of addresses and a charge of %d", b.bytes,
			uint64(b.address), b.state, b.slot, b.charge)
	}
	if b.state != live {
		return nil
	}
	for offset := uint64(0); offset < b.slot; offset += frameBytes {
		if other := a.find(b.address + driver.Address(offset)); other != b {
			return broken("two blocks have 0x%x: one of %d bytes at 0x%x is live", uint64(b.address)+offset, b.bytes,
				uint64(b.address))
		}
	}
	return nil
}

// checkLists checks that the free blocks are free, and none there twice.
func (a *arena) checkLists() (err error) {
	seen := make(map[*block]bool)
	check := func(list *freeList) {
		for b := list.youngest; b != nil && err == nil; b = b.older {
			if seen[b] || b.state != vacant && b.state != pooled {
				err = broken("free block of %d bytes at 0x%x is in state %d; free twice: %t", b.bytes, uint64(b.address), b.state,
					seen[b])
			}
			seen[b] = true
		}
	}
	for i := range a.small {
		check(&a.small[i])
	}
	for _, list := range a.large {
		check(list)
	}
	return err
}
