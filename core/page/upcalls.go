package page

import (
	"sync"

	"libmmsb/core/lasterror"
	"libmmsb/core/memory"
	"libmmsb/core/residency"
	"libmmsb/core/safego"
	"libmmsb/core/status"
	"libmmsb/native"
)

// What native code asks of Go. Each needs a decision or a lock of Go's:
//
//	Refill                      whether a context may have more small memory, and from which slab
//	TakeFrame, GiveFrame        large masks that native code makes and drops: extents and mappings are Go's
//	MakeResident, Evict         a page's bytes are in a file, on a device or in a snapshot
//	Device…                     devices are Go's
//	End, ReleaseEnded           a page ends that has more than small memory: side record, dependencies, backing
//	NewVersion                  the versions of groups are an era's
//	Leave, GroupLeft            a group destroys a page with a side record; a thread ends before its group
//	Parents, CheckCycle         dependencies are Go's
//	TellReport                  what the guard has found
//	Panicked                    the library is to be poisoned
var upcalls = native.Upcalls{
	Refill: func(context uint64, class uint32, handles []uint64) (int, int32) {
		c, err := contexts.Get(context)
		if err != nil {
			return 0, lasterror.Store(err)
		}
		count, err := c.memory.Refill(class, handles)
		return count, lasterror.Store(err)
	},
	TakeFrame: func(context uint32, size uint64) (uint32, int32) {
		index, err := memory.OfContext(context).TakeLarge(size, false, true)
		return index, lasterror.Store(err)
	},
	GiveFrame:    func(_, index uint32) { memory.Of(index).Give(index) },
	MakeResident: func(index uint32) int32 { return lasterror.Store(residencyOf(index).MakeResident(index)) },
	Evict:        func(index uint32) { residencyOf(index).Evict(index) },
	DeviceAddress: func(index uint32) (uintptr, int32) {
		address, err := residencyOf(index).DeviceAddress(index)
		return address, lasterror.Store(err)
	},
	DeviceRead: func(index uint32, offset uint64, to []byte) int32 {
		return lasterror.Store(residencyOf(index).DeviceRead(index, offset, to))
	},
	DeviceWrite: func(index uint32, offset uint64, from []byte) int32 {
		return lasterror.Store(residencyOf(index).DeviceWrite(index, offset, from))
	},
	DeviceApply: func(index uint32, change *native.Delta) (bool, int32) {
		done, err := residencyOf(index).DeviceApply(index, change)
		return done, lasterror.Store(err)
	},
	DevicePrepare: func(index uint32, change *native.Delta) (bool, int32) {
		done, err := residencyOf(index).DevicePrepare(index, change)
		return done, lasterror.Store(err)
	},
	DeviceReadRuns: func(index uint32, runs []native.Run, to []byte) int32 {
		return lasterror.Store(residencyOf(index).DeviceReadRuns(index, runs, to))
	},
	CopyPins: func(index uint32, write bool) uint32 { return residencyOf(index).CopyPins(index, write) },
	DeviceCompare: func(a, b uint32, bits []byte) (native.Difference, bool, int32) {
		found, done, err := residency.DeviceCompare(a, b, bits, residencyOf)
		return found, done, lasterror.Store(err)
	},
	DeviceChecksums: func(index uint32, offset, length, part uint64, sums []uint32) (bool, int32) {
		done, err := residencyOf(index).DeviceChecksums(index, offset, length, part, sums)
		return done, lasterror.Store(err)
	},
	DevicePropagate: func(pages []uint64, persistent bool) (bool, int32) {
		done, err := residency.DevicePropagate(pages, persistent, residencyOf)
		return done, lasterror.Store(err)
	},
	DeviceApplyMany: func(pages []uint64, changes []native.Delta) (int, int32) {
		bad, err := residency.DeviceApplyMany(pages, changes, residencyOf)
		return bad, lasterror.Store(err)
	},
	End:          func(index uint32, state uint64) { contextOf(index).tearDown(index, state) },
	ReleaseEnded: releaseEnded,
	NewVersion: func(above uint64) uint64 {
		noteVersion(above)
		return newVersion()
	},
	Leave:     func(index uint32, state uint64) { contextOf(index).leave(index, state) },
	GroupLeft: groupLeft,
	Parents:   parentsOf,
	CheckCycle: func(pages []uint64) int32 {
		return lasterror.Store(checkCycle(pages))
	},
	TellReport: func(context uint32) int32 {
		m := memory.OfContext(context)
		if m == nil {
			return 0
		}
		return lasterror.Store(m.TellReport())
	},
	Panicked: safego.Caught,
}

func residencyOf(index uint32) *residency.Residency { return contextOf(index).residency }

var (
	started  sync.Once
	startErr error
)

// Start makes the library ready. It is called by what needs it, more than once.
func Start() error {
	started.Do(func() {
		native.SetUpcalls(upcalls)
		safego.OnPanic(native.Poison)
		if errno := native.Start(); errno != 0 {
			startErr = status.FromErrno(status.OutOfMemory, errno, "cannot reserve the addresses of page records")
		}
	})
	return startErr
}
