package memory

import (
	"sync"

	"libmmsb/core/status"
	"libmmsb/native"
)

// sides are the side records of the process.
var sides struct {
	sync.Mutex
	next uint32 // 0 is none
	free []uint32
}

// TakeSide takes a side record.
func TakeSide() (uint32, error) {
	var index [1]uint32
	err := TakeSides(index[:])
	return index[0], err
}

// TakeSides takes as many side records as the slice has elements, or none.
func TakeSides(indices []uint32) error {
	sides.Lock()
	defer sides.Unlock()
	reused := min(len(indices), len(sides.free))
	rest := len(sides.free) - reused
	next := sides.next
	for i := reused; i < len(indices); i++ {
		if next+1 == native.IndexMask {
			return status.Errorf(status.Limit, "all %d side records are in use", next)
		}
		if next == 0 || (next+1)%native.LeafRecords == 0 {
			if errno := native.OpenSides((next + 1) / native.LeafRecords); errno != 0 {
				return status.FromErrno(status.OutOfMemory, errno, "no memory for %d side records", native.LeafRecords)
			}
		}
		next++
		indices[i] = next
	}
	copy(indices, sides.free[rest:])
	sides.next, sides.free = next, sides.free[:rest]
	for _, index := range indices {
		*native.SideAt(index) = native.Side{NUMANode: -1}
	}
	return nil
}

// GiveSides gives side records back.
func GiveSides(indices ...uint32) {
	sides.Lock()
	sides.free = append(sides.free, indices...)
	sides.Unlock()
}
