// The lowest layer of a runtime that has a pool: memory is taken from the device in segments and given out in blocks.

package runtime

import (
	"cmp"
	"math"
	"sync"

	"libmmsb/core/pool"
	"libmmsb/core/status"
	"libmmsb/gpu/driver"
)

// Pool is a caching allocator as the lowest layer, in place of the device's own stream-ordered memory. It reserves addresses
// once, two ranges of twice the device's memory, and gives segments of them memory and takes it away (core/pool); or its segments
// are allocations of the driver each (source_whole.go). A block that a
// stream has freed it has again without the driver; another stream has it when the device has come past the free, or, where there
// is no other memory, behind an event.
type Pool struct {
	host   Host
	device driver.Device
	ledger *DeviceLedger
	books  *pool.Pool
	whole  *wholeSource // nil: segments are virtual memory
	ranges [pool.Spaces]struct {
		address driver.Address
		bytes   uint64
	}

	mutex   sync.Mutex
	mapped  map[driver.Address]driver.Physical
	idle    []driver.Physical // without an address: taken from segments for other segments
	prepaid int               // segments that are charged, and that the driver has not been asked for yet

	streamsMutex sync.RWMutex // apart: nobody who asks for a stream waits for the driver
	streams      map[uint32]*Stream
}

// poolSegment is what gets memory at once.
const poolSegment = 2 << 20

// CanPool says whether a device can have a pool.
func CanPool(info driver.Info) bool { return info.VirtualMemory && poolSegment%info.Granularity == 0 }

// newPool is a pool of a device, with nothing in it but addresses. Errors: Unsupported, those of the driver.
func newPool(device driver.Device, options pool.Options, ledger *DeviceLedger, host Host) (*Pool, error) {
	info := device.Info()
	p := &Pool{host: host, device: device, ledger: ledger, mapped: make(map[driver.Address]driver.Physical),
		streams: make(map[uint32]*Stream)}
	if options.Origin == pool.Automatic && !CanPool(info) {
		options.Origin = pool.Plain
	}
	if options.Origin.Whole() {
		var err error
		source := (*poolSource)(p)
		p.whole, err = newWholeSource(device, options, ledger, source.Reap, source.Done)
		if err != nil {
			return nil, err
		}
		p.books = pool.New(options, p.whole, [pool.Spaces]uint64{wholeBytes, wholeBytes})
		return p, nil
	}
	if !CanPool(info) {
		return nil, status.Errorf(status.Unsupported, "device %d (%s) has no pool: its virtual memory has a granularity of %d "+
			"bytes, segments of %d are needed", info.Ordinal, info.Name, info.Granularity, poolSegment)
	}
	var bytes [pool.Spaces]uint64
	for i := range p.ranges {
		// Twice as much as there can be: a long range is bare where short ones are held.
		bytes[i] = max(2*info.Bytes, 8*poolSegment) / poolSegment * poolSegment
		address, err := device.Reserve(bytes[i])
		if err != nil {
			return nil, cmp.Or(err, p.release())
		}
		p.ranges[i].address, p.ranges[i].bytes = address, bytes[i]
	}
	p.books = pool.New(options, (*poolSource)(p), bytes)
	return p, nil
}

// release gives the addresses back.
func (p *Pool) release() (first error) {
	for i := range p.ranges {
		if r := &p.ranges[i]; r.bytes > 0 {
			first = cmp.Or(first, p.device.Release(r.address, r.bytes))
			r.bytes = 0
		}
	}
	return first
}

// Statistics are those of the pool.
func (p *Pool) Statistics() pool.Statistics { return p.books.Statistics() }

// Check walks the books. Errors: Internal.
func (p *Pool) Check() error { return p.books.Check() }

// knows remembers a stream, whose frees others may ask for.
func (p *Pool) knows(s *Stream) {
	p.streamsMutex.RLock()
	known := p.streams[s.index] == s
	p.streamsMutex.RUnlock()
	if !known {
		p.streamsMutex.Lock()
		p.streams[s.index] = s
		p.streamsMutex.Unlock()
	}
}

func (p *Pool) stream(index uint32) *Stream {
	p.streamsMutex.RLock()
	defer p.streamsMutex.RUnlock()
	return p.streams[index]
}

// Allocate implements Layer.
func (p *Pool) Allocate(request Request) (Memory, error) {
	s := request.Stream
	block, wait, err := p.books.Take(s.index, request.Bytes)
	if err == nil && wait.Needed {
		if err = s.waitFor(point{p.stream(wait.Stream), wait.Mark}); err != nil {
			err = cmp.Or(err, p.books.Give(wait.Stream, wait.Mark, block))
		}
	}
	if err != nil {
		return Memory{}, cmp.Or(err, (*poolSource)(p).dropIdle())
	}
	memory := Memory{Bytes: request.Bytes, Tag: request.Tag}
	memory.Address, memory.Own = p.place(block)
	return memory, nil
}

// place is where a block lies, and the word by which blockOf finds it.
func (p *Pool) place(b pool.Block) (address driver.Address, own uint64) {
	if p.whole != nil {
		return p.whole.address(b), b.Offset*pool.Spaces + uint64(b.Space)
	}
	return p.ranges[b.Space].address + driver.Address(b.Offset*pool.Unit), uint64(b.Space)
}

// blockOf is the block of memory that Allocate gave.
func (p *Pool) blockOf(memory Memory) pool.Block {
	if p.whole != nil {
		return p.books.BlockOf(int(memory.Own%pool.Spaces), memory.Own/pool.Spaces, memory.Bytes)
	}
	space := int(memory.Own)
	return p.books.BlockOf(space, uint64(memory.Address-p.ranges[space].address)/pool.Unit, memory.Bytes)
}

// Free implements Layer. The stream is ordered behind all uses: its own work to come may have the memory at once.
func (p *Pool) Free(memory Memory, stream *Stream) error {
	if p.host.Lost() {
		return status.Errorf(status.DeviceLost, "device %d is lost", p.device.Info().Ordinal)
	}
	p.knows(stream)
	return p.books.Give(stream.index, stream.next().number, p.blockOf(memory))
}

// Released implements Layer. The books see for themselves how far a stream has come.
func (p *Pool) Released(Memory) {}

// Trim implements Layer.
func (p *Pool) Trim(keep uint64) error {
	return cmp.Or(p.books.Trim(keep), (*poolSource)(p).dropIdle())
}

// Close implements Layer. The device has done everything.
func (p *Pool) Close() (first error) {
	if p.whole != nil {
		return p.whole.close(p.host.Lost())
	}
	p.mutex.Lock()
	for address, physical := range p.mapped {
		first = cmp.Or(first, p.device.Unmap(address))
		p.idle = append(p.idle, physical)
	}
	clear(p.mapped)
	p.mutex.Unlock()
	first = cmp.Or(first, (*poolSource)(p).dropIdle(), p.release())
	if p.host.Lost() { // with the device its memory is gone
		p.ledger.Give(uint64(len(p.idle)) * poolSegment)
	}
	return first
}

// poolSource is what the books ask for memory.
type poolSource Pool

func (p *poolSource) segments(space int, r pool.Range) (first driver.Address, count int) {
	return p.ranges[space].address + driver.Address(r.Offset*pool.Unit), int(r.Count * pool.Unit / poolSegment)
}

// Back implements pool.Source.
func (p *poolSource) Back(space int, r pool.Range) error {
	first, count := p.segments(space, r)
	if err := p.prepay(count); err != nil {
		return err
	}
	defer p.refund()
	for i := range count {
		if err := p.backSegment(first + driver.Address(i*poolSegment)); err != nil {
			_ = p.bare(first, i) // memory that was just mapped, and that nobody has used
			return cmp.Or(err, p.dropIdle())
		}
	}
	_ = p.dropIdle() // the segments have their memory; what does not end now does later
	return nil
}

// prepay charges what so many segments need beside what is idle: all of it or nothing, so that of two pools that meet at the
// budget's end one has what it needs. Errors: Limit.
func (p *poolSource) prepay(segments int) error {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	missing := max(0, segments-len(p.idle))
	if err := p.ledger.take(uint64(missing) * poolSegment); err != nil {
		return err
	}
	p.prepaid += missing
	return nil
}

// refund gives back what was charged and not needed.
func (p *poolSource) refund() {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.ledger.Give(uint64(p.prepaid) * poolSegment)
	p.prepaid = 0
}

// create takes a segment's memory from the device. What was prepaid may be too little, where what was idle has ended meanwhile.
func (p *poolSource) create() (driver.Physical, error) {
	if p.prepaid == 0 {
		if err := p.ledger.take(poolSegment); err != nil {
			return 0, err
		}
		p.prepaid++
	}
	physical, err := p.device.CreatePhysical(poolSegment)
	if err == nil {
		p.prepaid--
	}
	return physical, err
}

func (p *poolSource) backSegment(address driver.Address) error {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	var physical driver.Physical
	if last := len(p.idle) - 1; last >= 0 {
		physical, p.idle = p.idle[last], p.idle[:last]
	} else {
		var err error
		if physical, err = p.create(); err != nil {
			return err
		}
	}
	if err := p.device.Map(address, physical); err != nil {
		p.idle = append(p.idle, physical)
		return err
	}
	p.mapped[address] = physical
	return nil
}

// Bare implements pool.Source.
func (p *poolSource) Bare(space int, r pool.Range) error {
	first, count := p.segments(space, r)
	return p.bare(first, count)
}

// bare takes segments' memory away, for the next segments; all of them or none.
func (p *poolSource) bare(first driver.Address, count int) error {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	for i := range count {
		address := first + driver.Address(i*poolSegment)
		if err := p.device.Unmap(address); err != nil {
			for ; i > 0; i-- { // what was unmapped is mapped again, by the memory that was there last
				last := len(p.idle) - 1
				again := first + driver.Address((i-1)*poolSegment)
				if p.device.Map(again, p.idle[last]) != nil {
					break
				}
				p.mapped[again], p.idle = p.idle[last], p.idle[:last]
			}
			return err
		}
		p.idle = append(p.idle, p.mapped[address])
		delete(p.mapped, address)
	}
	return nil
}

// dropIdle ends memory that no segment has.
func (p *poolSource) dropIdle() (first error) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	left := p.idle[:0]
	for _, physical := range p.idle {
		if err := p.device.DestroyPhysical(physical); err != nil {
			first = cmp.Or(first, err)
			left = append(left, physical)
			continue
		}
		p.ledger.Give(poolSegment)
	}
	p.idle = left
	return first
}

// Reap implements pool.Source.
func (p *poolSource) Reap() { p.host.Reap() }

// Done implements pool.Source.
func (p *poolSource) Done(stream uint32) uint64 {
	if s := (*Pool)(p).stream(stream); s != nil {
		return s.completed.Load()
	}
	return math.MaxUint64 // it has freed nothing
}
