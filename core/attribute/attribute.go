// Package attribute says what the attributes of a page can be in files: snapshots and journals have the same rules, so that
// what one of them brings back the other can hold.
package attribute

import "libmmsb/core/abi"

const (
	// MaximumSize is the largest size of a page, in bytes.
	MaximumSize = 1 << 44
	// MaximumVersion is the largest version of a page. A load takes versions that leave room up to it: core/page.
	MaximumVersion uint64 = 3<<62 - 1
)

// SizeFault is what is wrong with a page's size; "" = nothing.
func SizeFault(size uint64) string {
	if size == 0 || size > MaximumSize {
		return "a size that no page has"
	}
	return ""
}

// PlaceFault is what is wrong with where a page lies; "" = nothing. A NUMA node of -1 is any.
func PlaceFault(location, device, numaNode int32) string {
	switch {
	case location < 0 || location > abi.LocationDisk:
		return "a location that does not exist"
	case device < 0 || device > 0 && (location == abi.LocationCPU || location == abi.LocationDisk):
		return "a device that the location does not have"
	case numaNode < -1:
		return "a NUMA node that does not exist"
	}
	return ""
}
