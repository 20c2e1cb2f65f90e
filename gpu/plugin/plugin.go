// Package plugin gives device memory to other libraries (PyTorch, CuPy, Numba, RMM, cuda.core), which know addresses and the
// driver's streams instead of handles.
package plugin

import (
	"slices"
	"sync"
	"sync/atomic"

	"libmmsb/core/abi"
	"libmmsb/core/log"
	"libmmsb/core/status"
	"libmmsb/gpu/devices"
	"libmmsb/gpu/driver"
	"libmmsb/gpu/runtime"
)

// Kind is what the memory is for.
type Kind int32

const (
	// Ordered memory belongs to a stream: it is there for what the stream queues next, and is freed behind a stream.
	Ordered Kind = abi.PluginOrdered
	// Segment memory is for a library that keeps a cache of its own or knows no streams: as of cudaMalloc and cudaFree.
	Segment Kind = abi.PluginSegment
)

// Stream is a stream as another library names it.
type Stream struct {
	Native uintptr
	Lasts  bool // as long as the runtime; else it may be destroyed when the call has returned
}

// memory is what was given out at an address.
type memory struct {
	block    uint64
	bytes    uint64
	kind     Kind
	runtime  *runtime.Runtime
	account  *binding // nil = none
	recorded []*runtime.Stream
}

// given finds what was given out by address. It is in shards, so that threads seldom meet.
var given [64]shard

type shard struct {
	mutex sync.Mutex
	given map[driver.Address]*memory
	_     [48]byte // shards do not share a line of the cache
}

// shardOf is the shard of an address, which is a multiple of 256 at least.
func shardOf(address driver.Address) *shard {
	return &given[uint64(address)>>8*0x9E3779B97F4A7C15>>58]
}

func put(address driver.Address, m *memory) {
	s := shardOf(address)
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.given == nil {
		s.given = make(map[driver.Address]*memory)
	}
	s.given[address] = m
}

// find is what is at an address.
func find(address driver.Address) (*memory, error) {
	s := shardOf(address)
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if m := s.given[address]; m != nil {
		return m, nil
	}
	return nil, status.Errorf(status.NotFound, "address 0x%x was not allocated here, or was freed", uint64(address))
}

// take is find, and removes it: nobody else frees it, and the address may be given out again as soon as it is free.
func take(address driver.Address) (*memory, error) {
	m, err := find(address)
	if err == nil {
		err = remove(address, m)
	}
	return m, err
}

// remove removes what was found at an address, unless somebody was faster.
func remove(address driver.Address, m *memory) error {
	s := shardOf(address)
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.given[address] != m {
		return status.Errorf(status.NotFound, "address 0x%x was freed", uint64(address))
	}
	delete(s.given, address)
	return nil
}

// ofBlock is the error of a call on the block at an address, which may have been freed by its handle.
func ofBlock(address driver.Address, err error) error {
	if status.CodeOf(err) == status.StaleHandle {
		return status.Errorf(status.NotFound, "address 0x%x was freed", uint64(address))
	}
	return err
}

// Allocate takes memory of a runtime, which is aligned to 512 bytes at least where the runtime has a pool. The stream counts for
// Ordered only. Errors: InvalidArgument (an unknown kind), those of runtime.Allocate and runtime.Foreign.
func Allocate(r *devices.Runtime, bytes uint64, stream Stream, kind Kind) (driver.Address, error) {
	return allocate(r.Runtime, nil, bytes, stream, kind)
}

func allocate(r *runtime.Runtime, account *binding, bytes uint64, stream Stream, kind Kind) (driver.Address, error) {
	m := &memory{bytes: bytes, kind: kind, runtime: r, account: account}
	if err := account.charge(bytes); err != nil {
		return 0, err
	}
	var address driver.Address
	err := r.Use(func() (err error) {
		switch request := (runtime.Request{Bytes: bytes}); kind {
		case Ordered:
			m.block, address, err = r.AllocateOn(stream.Native, stream.Lasts, request)
		case Segment:
			m.block, address, err = r.AllocateNow(request)
		default:
			err = status.Errorf(status.InvalidArgument, "kind of the memory is %d, not 0 (ordered) or 1 (a segment)", kind)
		}
		return err
	})
	if err != nil {
		account.refund(bytes)
		return 0, err
	}
	put(address, m)
	return address, nil
}

// Free gives memory back behind all work of the stream, and of those that were recorded. Errors: NotFound (also a second free),
// those of runtime.Free and runtime.Foreign: then the memory is as before, and can be freed again.
func Free(address driver.Address, stream Stream) error {
	m, err := take(address)
	if err != nil {
		return err
	}
	freed := false
	err = m.runtime.Use(func() error {
		err := error(nil)
		if m.kind == Segment {
			err = m.runtime.FreeNow(m.block)
		} else {
			err = m.runtime.FreeOn(m.block, stream.Native, stream.Lasts, m.recorded...)
		}
		freed = status.CodeOf(err) == status.StaleHandle
		return ofBlock(address, err)
	})
	if err != nil && !freed && status.CodeOf(err) != status.StaleHandle { // else it has ended with its runtime
		put(address, m)
		return err
	}
	m.account.refund(m.bytes)
	return err
}

// Record says that work of a stream uses memory: the free comes behind it. Errors: NotFound, those of runtime.Record.
func Record(address driver.Address, stream Stream) error {
	m, err := find(address)
	if err != nil {
		return err
	}
	return m.runtime.Use(func() error {
		recorded, err := m.runtime.Record(m.block, stream.Native, stream.Lasts)
		if err != nil || recorded == nil {
			return ofBlock(address, err)
		}
		s := shardOf(address)
		s.mutex.Lock()
		defer s.mutex.Unlock()
		if s.given[address] == m && !slices.Contains(m.recorded, recorded) {
			m.recorded = append(m.recorded, recorded)
		}
		return nil
	})
}

// Base is where the memory begins that an address is in, and how long it is. Errors: NotFound.
func Base(address driver.Address) (base driver.Address, bytes uint64, err error) {
	m, err := find(address)
	if err == nil {
		return address, m.bytes, nil
	}
	for i := range given {
		if base, bytes, found := given[i].around(address); found {
			return base, bytes, nil
		}
	}
	return 0, 0, err
}

// around finds the memory that an address is in the middle of.
func (s *shard) around(address driver.Address) (base driver.Address, bytes uint64, found bool) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	for base, m := range s.given {
		if address > base && uint64(address-base) < m.bytes {
			return base, m.bytes, true
		}
	}
	return 0, 0, false
}

// mostNotes are the refusals that the library's log gets: a library that goes on would fill it.
const mostNotes = 100

var notes atomic.Uint64

// Note tells the library's log why a call was refused whose caller cannot be told, and returns the error.
func Note(call string, err error) error {
	if err == nil {
		return nil
	}
	if n := notes.Add(1); n <= mostNotes {
		log.Logf(log.Warning, "%s: %v", call, err)
		if n == mostNotes {
			log.Logf(log.Warning, "%s: refusals after %d are not logged", call, mostNotes)
		}
	}
	return err
}
