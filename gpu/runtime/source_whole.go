// Where segments come from that are an allocation of the driver each: memory of a device, stream-ordered or not, pinned memory of
// the host, managed memory.

package runtime

import (
	"cmp"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"

	"libmmsb/core/pool"
	"libmmsb/core/status"
	"libmmsb/gpu/driver"
)

// wholeBytes is how many bytes of addresses the books of such segments have in a space. Nobody has these addresses: the books
// need some to tell segments apart.
const wholeBytes = 1 << 48

// wholeSource is a pool.Source of such segments.
type wholeSource struct {
	device  driver.Device
	ledger  *DeviceLedger
	options pool.Options
	pool.Progress
	stream driver.Stream // of stream-ordered memory
	noted  func(action LogAction, address driver.Address, bytes uint64)

	mutex    sync.RWMutex // never held while the driver is called
	segments [pool.Spaces]map[uint64]*wholeSegment
}

// wholeSegment is one of them. Each 2 MiB of it have an entry, by their number.
type wholeSegment struct {
	address  driver.Address
	first    uint64 // number
	bytes    uint64
	pageable []byte // host memory that the driver does not know; nil: it is the driver's
}

// newWholeSource makes a source. Errors: Unsupported (the device has no such memory), those of the driver.
func newWholeSource(device driver.Device, options pool.Options, ledger *DeviceLedger, progress pool.Progress) (*wholeSource,
	error) {
	s := &wholeSource{device: device, ledger: ledger, options: options, Progress: progress,
		noted: func(LogAction, driver.Address, uint64) {}}
	for i := range s.segments {
		s.segments[i] = make(map[uint64]*wholeSegment)
	}
	info, err := device.Info(), error(nil)
	switch {
	case options.Origin == pool.Ordered && !info.OrderedMemory:
		err = status.Errorf(status.Unsupported, "device %d (%s) has no stream-ordered memory", info.Ordinal, info.Name)
	case options.Origin == pool.Managed && !info.ManagedMemory:
		err = status.Errorf(status.Unsupported, "device %d (%s) has no managed memory", info.Ordinal, info.Name)
	case options.Origin == pool.Ordered:
		s.stream, err = device.CreateStream(0)
	}
	return s, err
}

// allocate asks the driver.
func (s *wholeSource) allocate(bytes uint64) (address driver.Address, err error) {
	switch s.options.Origin {
	case pool.Pinned:
		return s.device.Allocate(driver.Pinned, bytes)
	case pool.Managed:
		return s.device.Allocate(driver.Managed, bytes)
	case pool.Ordered:
		if address, err = s.device.AllocateOrdered(s.stream, bytes); err != nil {
			return 0, err
		}
		if err = s.device.SynchronizeStream(s.stream); err != nil { // other streams may have it then
			return 0, cmp.Or(err, s.device.FreeOrdered(s.stream, address))
		}
		return address, nil
	default:
		return s.device.Allocate(driver.Plain, bytes)
	}
}

func (s *wholeSource) free(segment *wholeSegment) error {
	switch {
	case segment.pageable != nil:
		return unix.Munmap(segment.pageable)
	case s.options.Origin == pool.Pinned:
		return s.device.Free(driver.Pinned, segment.address)
	case s.options.Origin == pool.Managed:
		return s.device.Free(driver.Managed, segment.address)
	case s.options.Origin == pool.Ordered:
		if err := s.device.FreeOrdered(s.stream, segment.address); err != nil {
			return err
		}
		_ = s.device.SynchronizeStream(s.stream)
		_ = s.device.TrimOrdered(0) // who gives segments back lacks memory elsewhere
		return nil
	default:
		return s.device.Free(driver.Plain, segment.address)
	}
}

// Back implements pool.Source.
func (s *wholeSource) Back(space int, r pool.Range) error {
	segment := &wholeSegment{first: r.Offset * pool.Unit / poolSegment, bytes: r.Count * pool.Unit}
	err := s.ledger.take(segment.bytes)
	if err == nil {
		if segment.address, err = s.allocate(segment.bytes); err != nil {
			s.ledger.Give(segment.bytes)
		}
	}
	if lacks(err) && s.options.Pageable {
		err = segment.mapPageable()
	}
	if err != nil {
		return err
	}
	s.noted(LogMap, segment.address, segment.bytes)
	s.mutex.Lock()
	defer s.mutex.Unlock()
	for i := range segment.bytes / poolSegment {
		s.segments[space][segment.first+i] = segment
	}
	return nil
}

// Bare implements pool.Source.
func (s *wholeSource) Bare(space int, r pool.Range) (units uint64, err error) {
	segment := s.segment(space, r.Offset)
	if err := s.free(segment); err != nil {
		return 0, err
	}
	if segment.pageable == nil {
		s.ledger.Give(segment.bytes)
	}
	s.noted(LogUnmap, segment.address, segment.bytes)
	s.mutex.Lock()
	defer s.mutex.Unlock()
	for i := range segment.bytes / poolSegment {
		delete(s.segments[space], segment.first+i)
	}
	return r.Count, nil
}

// Mapping implements pool.Source.
func (s *wholeSource) Mapping(space int, at uint64) pool.Range {
	segment := s.segment(space, at)
	return pool.Range{Offset: segment.first * poolSegment / pool.Unit, Count: segment.bytes / pool.Unit}
}

func (s *wholeSource) segment(space int, unit uint64) *wholeSegment {
	s.mutex.RLock()
	defer s.mutex.RUnlock()
	return s.segments[space][unit*pool.Unit/poolSegment]
}

// address is where a block lies; 0: its segment has gone back.
func (s *wholeSource) address(b pool.Block) driver.Address {
	segment := s.segment(b.Space, b.Offset)
	if segment == nil {
		return 0
	}
	return segment.address + driver.Address(b.Offset*pool.Unit-segment.first*poolSegment)
}

// close gives everything back. The device has done all work; lost: with it its memory is gone.
func (s *wholeSource) close(lost bool) (first error) {
	for space := range s.segments {
		for number, segment := range s.segments[space] {
			if number != segment.first {
				continue
			}
			err := s.free(segment)
			first = cmp.Or(first, err)
			if segment.pageable == nil && (err == nil || lost) {
				s.ledger.Give(segment.bytes)
			}
		}
		clear(s.segments[space])
	}
	if s.stream != 0 {
		first = cmp.Or(first, s.device.DestroyStream(s.stream))
	}
	return first
}

// mapPageable gives the segment host memory that no device reaches by itself; copies do.
func (s *wholeSegment) mapPageable() (err error) {
	s.pageable, err = unix.Mmap(-1, 0, int(s.bytes), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return status.FromErrno(status.OutOfMemory, status.ErrnoOf(err), "cannot map %d bytes", s.bytes)
	}
	s.address = driver.Address(uintptr(unsafe.Pointer(unsafe.SliceData(s.pageable))))
	return nil
}
