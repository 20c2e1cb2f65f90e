package memory

import (
	"iter"
	"sync"

	"libmmsb/core/status"
	"libmmsb/native"
)

// Leaves of the page table: 4096 consecutive records, all of one context.

// Leaf is a leaf that a context has.
type Leaf struct {
	Number uint32
	Used   uint32 // records that have been in use
}

// First is the index of the leaf's first record.
func (l Leaf) First() uint32 { return l.Number << native.LeafBits }

// Pages walks the records of a context's leaves that have pages: their indices, and the states that they have when it comes past.
func (m *Memory) Pages() iter.Seq2[uint32, uint64] {
	leaves := m.Leaves()
	return func(yield func(index uint32, state uint64) bool) {
		for _, leaf := range leaves {
			for index := leaf.First(); index < leaf.First()+leaf.Used; index++ {
				state := native.RecordAt(index).LoadState()
				if native.Kind(state) == native.KindPage && !yield(index, state) {
					return
				}
			}
		}
	}
}

// leaves are those of the page table.
var leaves struct {
	sync.Mutex
	next uint32
	free []uint32
}

// takeLeaf takes a leaf that no context has; used tells whether one had it before.
func takeLeaf(context uint32) (number uint32, used bool, err error) {
	leaves.Lock()
	defer leaves.Unlock()
	if n := len(leaves.free); n > 0 {
		number, used = leaves.free[n-1], true
		leaves.free = leaves.free[:n-1]
	} else {
		if leaves.next == native.Leaves {
			return 0, false, status.Errorf(status.Limit, "all %d page records are in use", uint64(native.Leaves)<<native.LeafBits)
		}
		if errno := native.OpenLeaf(leaves.next); errno != 0 {
			return 0, false, status.FromErrno(status.OutOfMemory, errno, "no memory for %d page records", native.LeafRecords)
		}
		number = leaves.next
		leaves.next++
	}
	native.SetLeafContext(number, context)
	return number, used, nil
}

func giveLeaf(number uint32) {
	native.SetLeafContext(number, 0)
	leaves.Lock()
	leaves.free = append(leaves.free, number)
	leaves.Unlock()
}

// RecordBytes is the memory of all page records and side records that have been opened.
func RecordBytes() uint64 {
	leaves.Lock()
	defer leaves.Unlock()
	sides.Lock()
	defer sides.Unlock()
	return uint64(leaves.next)*native.LeafRecords*64 + uint64(sides.next)*64
}
