// The library's kernels on streams of programs.

package devices

import (
	"cmp"
	"slices"
	"sync"
	"unsafe"

	"libmmsb/core/log"
	"libmmsb/gpu/driver"
	"libmmsb/gpu/kernels"
	"libmmsb/gpu/runtime"
)

// kits are the kernels of each runtime that was asked for them.
var kits = struct {
	sync.Mutex
	of map[*runtime.Runtime]*kit
}{of: make(map[*runtime.Runtime]*kit)}

// kit is the kernels on a runtime's device, and the tables that are on their way there.
type kit struct {
	runtime *runtime.Runtime
	set     *kernels.Set

	mutex sync.Mutex
	ways  []way // in no order
}

// way is pinned memory that the stream has not passed yet.
type way struct {
	memory driver.Address
	past   *runtime.Point
}

// kitOf is the kit of a runtime that does not end meanwhile. Errors: Unsupported, those of the driver.
func kitOf(r *runtime.Runtime) (*kit, error) {
	kits.Lock()
	defer kits.Unlock()
	if k := kits.of[r]; k != nil {
		return k, nil
	}
	set, err := kernels.Load(r.Device(), kernels.Image())
	if err != nil {
		return nil, err
	}
	k := &kit{runtime: r, set: set}
	kits.of[r] = k
	return k, nil
}

// endKit takes the kernels off the device of a runtime that has ended.
func endKit(r *runtime.Runtime) {
	kits.Lock()
	k := kits.of[r]
	delete(kits.of, r)
	kits.Unlock()
	if k == nil {
		return
	}
	for _, w := range k.ways {
		w.past.Close()
		_ = r.FreeHost(driver.Pinned, w.memory)
	}
	if err := k.set.Unload(); err != nil && !r.Lost() {
		log.Logf(log.Warning, "cannot unload the kernels of device %d: %v", r.Device().Info().Ordinal, err)
	}
}

// withKit calls work with the kernels of a stream's runtime, which does not end meanwhile.
func withKit(s *runtime.Stream, work func(k *kit) error) error {
	return s.Runtime().Use(func() error {
		k, err := kitOf(s.Runtime())
		if err != nil {
			return err
		}
		return work(k)
	})
}

// Launch queues a kernel on a stream. Errors: Unsupported (a build without kernels for the device), those of the driver and of
// of.
func Launch(s *runtime.Stream, of func(k *kernels.Set) (driver.Launch, error)) error {
	return withKit(s, func(k *kit) error {
		launch, err := of(k.set)
		if err != nil {
			return err
		}
		return s.Launch(&launch)
	})
}

// Difference queues counting the bytes that differ. found is as after kernels.Set.Difference, whatever it was before.
func Difference(s *runtime.Stream, found, a, b driver.Address, bytes uint64) error {
	return withKit(s, func(k *kit) error {
		launch, err := k.set.Difference(found, a, b, bytes)
		if err != nil {
			return err
		}
		return cmp.Or(s.Fill(found, 0, 8), s.Fill(found+8, 0xff, 8), s.Launch(&launch))
	})
}

// CopyMany queues many copies as one kernel, whose targets are apart from each other and from all sources. It orders spans.
// Errors: InvalidState (the stream captures), OutOfMemory, Limit, those of Launch.
func CopyMany(s *runtime.Stream, spans []kernels.Span) error {
	byTarget := func(a, b kernels.Span) int { return cmp.Compare(a.To, b.To) }
	if !slices.IsSortedFunc(spans, byTarget) {
		slices.SortFunc(spans, byTarget)
	}
	return withTable(s, spans, func(set *kernels.Set, table driver.Address) (driver.Launch, error) {
		return set.CopyMany(table, spans)
	})
}

// Propagate queues many propagations as one kernel, whose targets are apart from each other and from all sources. Errors: as
// CopyMany.
func Propagate(s *runtime.Stream, pairs []kernels.Pair) error {
	return withTable(s, pairs, func(set *kernels.Set, table driver.Address) (driver.Launch, error) {
		return set.Propagate(table, pairs)
	})
}

// withTable launches a kernel whose table has come to the device. The table goes through pinned memory, which is given back when
// the stream has passed it: a later call looks.
func withTable[T any](s *runtime.Stream, rows []T, of func(set *kernels.Set, table driver.Address) (driver.Launch, error)) error {
	if len(rows) == 0 {
		return nil
	}
	return withKit(s, func(k *kit) error {
		if err := s.NotCapturing("a table cannot be brought to the device"); err != nil {
			return err
		}
		k.reap()
		bytes := uint64(len(rows)) * uint64(unsafe.Sizeof(rows[0]))
		pinned, err := k.runtime.AllocateHost(driver.Pinned, bytes)
		if err != nil {
			return err
		}
		err = k.launch(s, pinned, bytes, func(set *kernels.Set, table driver.Address) (driver.Launch, error) {
			launch, err := of(set, table) // which completes the rows
			if err == nil {
				copy(unsafe.Slice((*T)(unsafe.Add(unsafe.Pointer(nil), uintptr(pinned))), len(rows)), rows)
			}
			return launch, err
		})
		if keepErr := k.keep(s, pinned); err == nil {
			err = keepErr
		}
		return err
	})
}

func (k *kit) launch(s *runtime.Stream, pinned driver.Address, bytes uint64,
	of func(set *kernels.Set, table driver.Address) (driver.Launch, error)) error {
	block, table, err := k.runtime.Allocate(runtime.Request{Bytes: bytes, Stream: s})
	if err != nil {
		return err
	}
	launch, err := of(k.set, table)
	if err == nil {
		err = s.Copy(driver.Copy{To: table, From: pinned, Bytes: bytes})
	}
	if err == nil {
		err = s.Launch(&launch)
	}
	_, freeErr := runtime.Free(block, s)
	return cmp.Or(err, freeErr)
}

// keep keeps pinned memory until the stream has passed what is queued now. Without a point the host waits.
func (k *kit) keep(s *runtime.Stream, memory driver.Address) error {
	past, err := s.Record()
	if err != nil {
		return cmp.Or(s.Synchronize(), k.runtime.FreeHost(driver.Pinned, memory))
	}
	k.mutex.Lock()
	defer k.mutex.Unlock()
	k.ways = append(k.ways, way{memory, past})
	return nil
}

// reap gives back the pinned memory that streams have passed.
func (k *kit) reap() {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	k.ways = slices.DeleteFunc(k.ways, func(w way) bool {
		past, err := w.past.Poll()
		if past || err != nil {
			_ = k.runtime.FreeHost(driver.Pinned, w.memory)
		}
		return past || err != nil
	})
}
