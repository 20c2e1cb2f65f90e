// Pages in uses: a program's own work on their memory, in order with that of others and of the library.

package pages

import (
	"libmmsb/core/abi"
	"libmmsb/core/page"
	gpu "libmmsb/gpu/runtime"
	"libmmsb/native"
)

// BeginUse is gpu.BeginUse, where a use may name a page on a device in place of a block: the page is pinned until the use ends.
// Errors: those of pins, too; Unsupported (a page that is not on a device).
func BeginUse(s *gpu.Stream, uses []gpu.Use) (handle uint64, bad int, err error) {
	for i := range uses {
		if err := pin(&uses[i]); err != nil {
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

// AddUse is gpu.AddUse with a block or a page on a device, which is pinned from now on.
func AddUse(handle uint64, use gpu.Use) error {
	use.Failed = pin(&use)
	return gpu.AddUse(handle, use)
}

// pin makes a use of a page that of its block; other uses stay what they are.
func pin(use *gpu.Use) error {
	of := use.Block
	if native.Kind(of) != abi.KindPage {
		return nil
	}
	write := use.Access&gpu.Write != 0
	block, devices, err := page.PinBlock(of, write)
	if err != nil {
		return err
	}
	use.Block, use.Of, use.Ended = block, devices, func() { native.Unpin(of, write) }
	return nil
}
