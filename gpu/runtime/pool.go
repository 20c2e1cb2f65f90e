// The lowest layer of a runtime that has a pool: memory is taken from the device in segments and given out in blocks.

package runtime

import (
	"cmp"
	"math"
	"sync"
	"sync/atomic"

	"libmmsb/core/pool"
	"libmmsb/core/status"
	"libmmsb/gpu/driver"
)

// Pool is a caching allocator as the lowest layer, in place of the device's own stream-ordered memory. It reserves addresses
// once, two ranges of twice the device's memory, and gives segments of them memory and takes it away (core/pool). A block that a
// stream has freed it has again without the driver; another stream has it when the device has come past the free, or, where there
// is no other memory, behind an event.
type Pool struct {
	host   Host
	device driver.Device
	books  *pool.Pool
	log    *Log // nil = none
	ranges [pool.Spaces]struct {
		address driver.Address
		bytes   uint64
	}

	mutex   sync.Mutex
	mapped  map[driver.Address]driver.Physical
	idle    []driver.Physical // without an address: taken from segments for other segments
	streams map[uint32]*Stream

	made, ended atomic.Uint64 // memory of segments
}

// poolSegment is what gets memory at once.
const poolSegment = 2 << 20

// newPool is a pool of a device, with nothing in it but addresses. Errors: Unsupported, those of the driver.
func newPool(device driver.Device, options pool.Options, host Host) (*Pool, error) {
	info := device.Info()
	if !info.VirtualMemory || poolSegment%info.Granularity != 0 {
		return nil, status.Errorf(status.Unsupported, "device %d (%s) has no pool: its virtual memory has a granularity of %d "+
			"bytes, segments of %d are needed", info.Ordinal, info.Name, info.Granularity, poolSegment)
	}
	p := &Pool{host: host, device: device, mapped: make(map[driver.Address]driver.Physical), streams: make(map[uint32]*Stream)}
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

// Flows are what the books have given out and taken back, in each space and in all.
func (p *Pool) Flows() (spaces [pool.Spaces]pool.Flow, all pool.Flow) { return p.books.Flows() }

// Made is how often the device gave memory for a segment, and Ended how often it got it back.
func (p *Pool) Made() (made, ended uint64) { return p.made.Load(), p.ended.Load() }

// Check walks the books. Errors: Internal.
func (p *Pool) Check() error { return p.books.Check() }

// knows remembers a stream, whose frees others may ask for.
func (p *Pool) knows(s *Stream) {
	p.mutex.Lock()
	p.streams[s.index] = s
	p.mutex.Unlock()
}

func (p *Pool) stream(index uint32) *Stream {
	p.mutex.Lock()
	defer p.mutex.Unlock()
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
	return Memory{Address: p.ranges[block.Space].address + driver.Address(block.Offset*pool.Unit), Bytes: request.Bytes,
		Tag: request.Tag, Own: uint64(block.Space)}, nil
}

// Free implements Layer. The stream is ordered behind all uses: its own work to come may have the memory at once.
func (p *Pool) Free(memory Memory, stream *Stream) error {
	if p.host.Lost() {
		return status.Errorf(status.DeviceLost, "device %d is lost", p.device.Info().Ordinal)
	}
	p.knows(stream)
	space := int(memory.Own)
	block := p.books.BlockOf(space, uint64(memory.Address-p.ranges[space].address)/pool.Unit, memory.Bytes)
	return p.books.Give(stream.index, stream.next().number, block)
}

// Released implements Layer. The books see for themselves how far a stream has come.
func (p *Pool) Released(Memory) {}

// Trim implements Layer.
func (p *Pool) Trim(keep uint64) error {
	return cmp.Or(p.books.Trim(keep), (*poolSource)(p).dropIdle())
}

// Close implements Layer. The device has done everything.
func (p *Pool) Close() (first error) {
	p.mutex.Lock()
	for address, physical := range p.mapped {
		first = cmp.Or(first, p.device.Unmap(address))
		p.idle = append(p.idle, physical)
	}
	clear(p.mapped)
	p.mutex.Unlock()
	return cmp.Or(first, (*poolSource)(p).dropIdle(), p.release())
}

// poolSource is what the books ask for memory.
type poolSource Pool

func (p *poolSource) segments(space int, r pool.Range) (first driver.Address, count int) {
	return p.ranges[space].address + driver.Address(r.Offset*pool.Unit), int(r.Count * pool.Unit / poolSegment)
}

// Back implements pool.Source.
func (p *poolSource) Back(space int, r pool.Range) error {
	first, count := p.segments(space, r)
	for i := range count {
		if err := p.backSegment(first + driver.Address(i*poolSegment)); err != nil {
			_ = p.bare(first, i) // memory that was just mapped, and that nobody has used
			return cmp.Or(err, p.dropIdle())
		}
	}
	_ = p.dropIdle() // the segments have their memory; what does not end now does later
	p.note(LogMap, space, r)
	return nil
}

func (p *poolSource) backSegment(address driver.Address) error {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	var physical driver.Physical
	if last := len(p.idle) - 1; last >= 0 {
		physical, p.idle = p.idle[last], p.idle[:last]
	} else {
		var err error
		if physical, err = p.device.CreatePhysical(poolSegment); err != nil {
			return err
		}
		p.made.Add(1)
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
	err := p.bare(first, count)
	if err == nil {
		p.note(LogUnmap, space, r)
	}
	return err
}

func (p *poolSource) note(action LogAction, space int, r pool.Range) {
	if p.log != nil {
		first, count := p.segments(space, r)
		p.log.note(action, status.OK, &Memory{Address: first, Bytes: uint64(count) * poolSegment}, nil, 0)
	}
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
		p.ended.Add(1)
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
