// Pages in uses: a program's own work on their memory, in order with that of others and of the library.

package pages

import (
	"slices"

	"libmmsb/core/abi"
	"libmmsb/core/page"
	"libmmsb/core/residency"
	"libmmsb/gpu/driver"
	gpu "libmmsb/gpu/runtime"
	"libmmsb/native"
)

// BeginUse is gpu.BeginUse, where a use may name a page that the device reaches in place of a block, or, to read, one that has a
// replica on the stream's device: the page is pinned until the use ends. Errors: those of pins, too; Unsupported (any other
// page).
func BeginUse(s *gpu.Stream, uses []gpu.Use) (handle uint64, bad int, err error) {
	if slices.ContainsFunc(uses, writesPage) { // a pin to write gives its page another version
		for i, use := range uses {
			if err := check(use); err != nil {
				return 0, i, err
			}
		}
	}
	for i := range uses {
		if err := pin(&uses[i], s); err != nil {
			for _, use := range uses[:i] {
				if use.Ended != nil {
					use.Ended()
				}
			}
			return 0, i, err
		}
	}
	return gpu.BeginUse(s, uses...)
}

func writesPage(use gpu.Use) bool {
	return native.Kind(use.Block) == abi.KindPage && use.Access&gpu.Write != 0
}

// check refuses, before anything has changed, what cannot be used whatever else happens.
func check(use gpu.Use) error {
	switch {
	case writesPage(use):
		return page.CheckReach(use.Block)
	case native.Kind(use.Block) == abi.KindPage:
		return page.Read(use.Block, func(*page.Page) error { return nil })
	}
	_, err := gpu.FindBlock(use.Block)
	return err
}

// AddUse is gpu.AddUse with a block or a page as BeginUse has it, which is pinned from now on.
func AddUse(handle uint64, use gpu.Use) error {
	s, err := gpu.StreamOf(handle)
	if err == nil {
		if writesPage(use) {
			use.Failed = check(use)
		}
		if use.Failed == nil {
			use.Failed = pin(&use, s)
		}
		err = gpu.AddUse(handle, use)
	}
	return err
}

// pin makes a use of a page on a stream that of its block, or of the block of its replica; other uses stay what they are.
func pin(use *gpu.Use, s *gpu.Stream) error {
	of := use.Block
	if native.Kind(of) != abi.KindPage {
		return nil
	}
	pinned, err := page.PinBlock(of, use.Access&gpu.Write != 0, func(devices residency.Devices) (int32, bool) {
		all, ok := devices.(*context)
		if !ok || s.NotCapturing("a graph would read a replica that may have gone") != nil {
			return 0, false
		}
		return all.number(s.Runtime().Device())
	})
	if err != nil {
		return err
	}
	use.Block, use.Page, use.At = pinned.Block, of, driver.Address(pinned.Address)
	use.Of, use.Ended = pinned.Of, pinned.End
	return nil
}

// number is that of a device that pages have used.
func (c *context) number(device driver.Device) (int32, bool) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	for number, d := range c.devices {
		if d.runtime.Device() == device {
			return number, true
		}
	}
	return 0, false
}
