package memory

import (
	"sync"
	"sync/atomic"

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

// byContext finds the memory of a context's records, also while it ends.
var byContext [1 << 16]atomic.Pointer[Memory]

// endedLeaves are those of contexts that have ended but that something outlives.
var endedLeaves = struct {
	sync.Mutex
	memory map[uint32]*Memory
}{memory: make(map[uint32]*Memory)}

// Of is the memory that a record belongs to, also when its context has ended; nil where there is none.
func Of(index uint32) *Memory {
	leaf := index >> native.LeafBits
	if context := native.LeafContext(leaf); context != 0 {
		return OfContext(context)
	}
	endedLeaves.Lock()
	defer endedLeaves.Unlock()
	return endedLeaves.memory[leaf]
}

// OfContext is the memory of a context with an index, as long as its pages live.
func OfContext(context uint32) *Memory { return byContext[context].Load() }

// OwnerOf is the owner of the memory that a record belongs to, also when its context has ended; nil where there is none.
func OwnerOf(index uint32) any {
	if m := Of(index); m != nil {
		return m.owner
	}
	return nil
}
