// The lowest layer of a runtime that has a pool: memory is taken from the device in segments and given out in blocks.

package runtime

import (
	"cmp"
	"math"
	"slices"
	"sync"
	"sync/atomic"

	"libmmsb/core/pool"
	"libmmsb/core/status"
	"libmmsb/gpu/blocks"
	"libmmsb/gpu/driver"
)

// Pool is a caching allocator as the lowest layer, in place of the device's own stream-ordered memory. It reserves addresses
// once, two ranges of twice the device's memory, and gives segments of them memory and takes it away (core/pool); or its segments
// are allocations of the driver each (source_whole.go). A block that a
// stream has freed it has again without the driver; another stream has it when the device has come past the free, or, where there
// is no other memory, behind an event. Tags that sleep (sleep.go) and captures (capture.go) have partitions with ranges of their
// own.
type Pool struct {
	host   Host
	device driver.Device
	ledger *DeviceLedger
	books  *pool.Pool
	log    *Log                                         // nil = none
	whole  *wholeSource                                 // nil: segments are virtual memory
	peers  bool                                         // kernels of other devices reach segments
	ranges [pool.MostPartitions * pool.Spaces]addresses // by space; those of a partition are there before its blocks
	sleepers

	streams sync.Map                         // by index: those that have freed, or have had a span
	cutters atomic.Pointer[[]*blocks.Stream] // those that have had a span
	cached  func() uint64                    // bytes that the books hold for magazines

	mutex   sync.Mutex
	mapped  map[driver.Address]driver.Physical
	idle    []driver.Physical                  // without an address: taken from segments for other segments
	stray   []driver.Address                   // have memory that the driver did not take away, and that the books do not know
	torn    map[driver.Address]driver.Physical // of partitions that rest or sleep: memory that was taken from its address
	prepaid int                                // segments that are charged, and that the driver has not been asked for yet

	made, ended atomic.Uint64 // memory of segments
}

// addresses are a range of them; 0 bytes: not reserved.
type addresses struct {
	first driver.Address
	bytes uint64
}

// ownOf is the first own word of memory: blocks.Record says what it means. The second one is its size in units.
func ownOf(b pool.Block) uint64 { return b.Offset<<blocks.OwnBits | uint64(b.Space) }

// poolSegment is what gets memory at once.
const poolSegment = 2 << 20

// CanPool says whether a device can have a pool.
func CanPool(info driver.Info) bool { return info.VirtualMemory && poolSegment%info.Granularity == 0 }

// newPool is a pool of a device, with nothing in it but addresses. Errors: Unsupported, those of the driver.
func newPool(device driver.Device, options pool.Options, ledger *DeviceLedger, host Host) (*Pool, error) {
	info := device.Info()
	p := &Pool{host: host, device: device, ledger: ledger, peers: options.Peers, mapped: make(map[driver.Address]driver.Physical),
		torn: make(map[driver.Address]driver.Physical)}
	p.mover.marks.device, p.mover.cache.device = device, device
	if options.Origin == pool.Automatic && !CanPool(info) {
		options.Origin = pool.Plain
	}
	if options.Peers && options.Origin == pool.Plain {
		return nil, status.Errorf(status.Unsupported, "device %d (%s) cannot give other devices memory of source:plain",
			info.Ordinal, info.Name)
	}
	if options.Origin.Whole() {
		var err error
		p.whole, err = newWholeSource(device, options, ledger, (*poolSource)(p))
		if err != nil {
			return nil, err
		}
		p.whole.noted = p.notedWhole
		p.books = pool.New(options, p.whole, [pool.Spaces]uint64{wholeBytes, wholeBytes})
		return p, nil
	}
	if !CanPool(info) {
		return nil, status.Errorf(status.Unsupported, "device %d (%s) has no pool: its virtual memory has a granularity of %d "+
			"bytes, segments of %d are needed", info.Ordinal, info.Name, info.Granularity, poolSegment)
	}
	// Twice as much as there can be: a long range is bare where short ones are held.
	bytes, err := p.reserve(0, 2*info.Bytes)
	if err != nil {
		return nil, err
	}
	p.books = pool.New(options, (*poolSource)(p), bytes)
	return p, nil
}

// reserve gets the addresses of a partition, two ranges of so many bytes.
func (p *Pool) reserve(partition int, each uint64) (bytes [pool.Spaces]uint64, err error) {
	ranges := p.ranges[partition*pool.Spaces:][:pool.Spaces]
	for i := range ranges {
		bytes[i] = max(each, 8*poolSegment) / poolSegment * poolSegment
		if ranges[i].first, err = p.device.Reserve(bytes[i]); err != nil {
			return bytes, cmp.Or(err, p.release(ranges))
		}
		ranges[i].bytes = bytes[i]
	}
	return bytes, nil
}

// release gives addresses back.
func (p *Pool) release(ranges []addresses) (first error) {
	for i := range ranges {
		if r := &ranges[i]; r.bytes > 0 {
			first = cmp.Or(first, p.device.Release(r.first, r.bytes))
			r.bytes = 0
		}
	}
	return first
}

// open makes a partition, whose ranges are as long as there is memory.
func (p *Pool) open(name string, fixed bool) (int, error) {
	return p.books.Open(name, fixed, func(partition int) ([pool.Spaces]uint64, error) {
		return p.reserve(partition, p.device.Info().Bytes)
	})
}

// partitionOf is where a request's block comes from: its stream's capture, or its tag.
func (p *Pool) partitionOf(request Request) int {
	if c := request.Stream.capture.Load(); c != nil {
		return c.of.partition
	}
	if of := p.byTag.Load(); of != nil {
		return (*of)[request.Tag]
	}
	return 0
}

// partitionAt is the partition whose address it is.
func (p *Pool) partitionAt(address driver.Address) int {
	for space := range p.ranges {
		if r := &p.ranges[space]; uint64(address-r.first) < r.bytes {
			return space / pool.Spaces
		}
	}
	return 0
}

// addressOf is where units of a space begin.
func (p *Pool) addressOf(block pool.Block) driver.Address {
	if p.whole != nil {
		return p.whole.address(block)
	}
	return p.ranges[block.Space].first + driver.Address(block.Offset*pool.Unit)
}

// PoolStatistics are those of the books, and of sleeping tags in bytes.
type PoolStatistics struct {
	pool.Statistics
	Kept   uint64 // on the host, for blocks that sleep
	Copied uint64 // to the host and back, ever
}

// Statistics are those of the pool. What magazines have is not held.
func (p *Pool) Statistics() PoolStatistics {
	s := p.books.Statistics()
	s.Held -= min(s.Held, p.cached())
	return PoolStatistics{Statistics: s, Kept: p.keptBytes(), Copied: p.copied.Load()}
}

// Flows are what the books have given out and taken back, in each space and in all.
func (p *Pool) Flows() (spaces [pool.Spaces]pool.Flow, all pool.Flow) { return p.books.Flows() }

// Made is how often the device gave memory for a segment, and Ended how often it got it back.
func (p *Pool) Made() (made, ended uint64) { return p.made.Load(), p.ended.Load() }

// Check walks the books. Errors: Internal.
func (p *Pool) Check() error { return p.books.Check() }

// knows remembers a stream, whose frees others may ask for.
func (p *Pool) knows(s *Stream) {
	if p.stream(s.index) == nil {
		p.streams.Store(s.index, s)
	}
}

func (p *Pool) stream(index uint32) *Stream {
	s, _ := p.streams.Load(index)
	known, _ := s.(*Stream)
	return known
}

// Allocate implements Layer.
func (p *Pool) Allocate(request Request) (Memory, error) {
	s := request.Stream
	block, wait, err := p.books.TakeIn(p.partitionOf(request), s.index, request.Bytes)
	if err == nil && wait.Needed {
		if err = s.waitFor(point{p.stream(wait.Stream), wait.Mark}); err != nil {
			err = cmp.Or(err, p.books.Give(wait.Stream, wait.Mark, block))
		}
		if status.CodeOf(err) == status.InvalidState { // one of both captures
			err = status.Errorf(status.OutOfMemory, "%d bytes for stream %d: what is free cannot be had: %v", request.Bytes,
				s.index, err)
		}
	}
	if err != nil {
		return Memory{}, cmp.Or(err, (*poolSource)(p).dropIdle())
	}
	s.refill(p, block)
	return Memory{Address: p.addressOf(block), Bytes: request.Bytes, Tag: request.Tag,
		Own: Own{ownOf(block), block.Count}}, nil
}

// Free implements Layer. The stream is ordered behind all uses: its own work to come may have the memory at once.
func (p *Pool) Free(memory Memory, stream *Stream) error {
	if p.host.Lost() {
		return status.Errorf(status.DeviceLost, "device %d is lost", p.device.Info().Ordinal)
	}
	p.knows(stream)
	return p.books.Give(stream.index, stream.next().number, p.block(memory))
}

// block is what the books know memory as. Its size is not always that of the request: a block of a magazine may be larger.
func (p *Pool) block(memory Memory) pool.Block {
	at, count := memory.Own[0], memory.Own[1]
	return pool.Block{Space: int(at % (1 << blocks.OwnBits)), Range: pool.Range{Offset: at >> blocks.OwnBits, Count: count}}
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
	for _, physical := range p.torn {
		p.idle = append(p.idle, physical)
	}
	clear(p.mapped)
	clear(p.torn)
	p.stray = nil
	p.mutex.Unlock()
	first = cmp.Or(first, (*poolSource)(p).dropIdle(), p.endSleepers(), p.release(p.ranges[:]))
	if p.host.Lost() { // with the device its memory is gone
		p.ledger.Give(uint64(len(p.idle)) * poolSegment)
	}
	return first
}

// poolSource is what the books ask for memory.
type poolSource Pool

// segmentsOf are the addresses of segments.
func (p *poolSource) segmentsOf(blocks ...pool.Block) (segments []driver.Address) {
	for _, block := range blocks {
		first := (*Pool)(p).addressOf(block)
		for offset := uint64(0); offset < block.Count*pool.Unit; offset += poolSegment {
			segments = append(segments, first+driver.Address(offset))
		}
	}
	return segments
}

// Back implements pool.Source.
func (p *poolSource) Back(space int, r pool.Range) error {
	return p.backAll([]pool.Block{{Space: space, Range: r}}, nil)
}

// backAll gives memory to segments of several ranges; to all of them or none. reload is what is copied there meanwhile; nil:
// nothing.
func (p *poolSource) backAll(blocks []pool.Block, reload *reload) error {
	segments := p.segmentsOf(blocks...)
	if err := p.prepay(len(segments)); err != nil {
		return err
	}
	defer p.refund()
	mapped, err := 0, error(nil)
	for mapped < len(segments) && err == nil {
		var more int
		if more, err = p.backSome(segments[mapped:]); err == nil {
			mapped += more
			err = reload.came(mapped)
		}
	}
	if err != nil {
		if reload != nil {
			_ = reload.settleCopies()
		}
		p.mutex.Lock()
		for _, segment := range segments[:mapped] { // nobody has used their memory
			if p.unmap(segment) != nil {
				p.stray = append(p.stray, segment)
			}
		}
		p.mutex.Unlock()
		return cmp.Or(err, p.dropIdle())
	}
	_ = p.dropIdle() // the segments have their memory; what does not end now does later
	p.note(LogMap, blocks)
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

// mostTogether is how many segments get memory in one call of the driver.
const mostTogether = pieceBytes / poolSegment

// backSome gives memory to the first of segments, as many as lie one behind the other, and says how many these are.
func (p *poolSource) backSome(segments []driver.Address) (count int, err error) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if at := slices.Index(p.stray, segments[0]); at >= 0 { // it has its memory still
		p.stray = slices.Delete(p.stray, at, at+1)
		return 1, nil
	}
	var memory []driver.Physical
	for i, segment := range segments[:min(len(segments), mostTogether)] {
		if segment != segments[0]+driver.Address(i*poolSegment) || slices.Contains(p.stray, segment) {
			break
		}
		physical, err := p.unused()
		if err != nil {
			p.idle = append(p.idle, memory...)
			return 0, err
		}
		memory = append(memory, physical)
	}
	if err := p.device.Map(segments[0], p.peers, memory...); err != nil {
		p.idle = append(p.idle, memory...)
		return 0, err
	}
	for i, physical := range memory {
		p.mapped[segments[i]] = physical
	}
	return len(memory), nil
}

// unused is a segment's memory: that is idle, or of the device. The lock is held.
func (p *poolSource) unused() (driver.Physical, error) {
	if last := len(p.idle) - 1; last >= 0 {
		physical := p.idle[last]
		p.idle = p.idle[:last]
		return physical, nil
	}
	physical, err := p.create()
	if err == nil {
		p.made.Add(1)
	}
	return physical, err
}

// Bare implements pool.Source.
func (p *poolSource) Bare(space int, r pool.Range) (units uint64, err error) {
	block := pool.Block{Space: space, Range: r}
	count, err := p.bare(p.segmentsOf(block))
	if block.Count = uint64(count) * poolSegment / pool.Unit; count > 0 {
		p.note(LogUnmap, []pool.Block{block})
	}
	return block.Count, err
}

// bareAll takes memory away from segments of several ranges, one after the other, when each may go; from all of them or none.
// Until all have lost it, memory is torn from its address, and it stays so where the driver does not map it again.
func (p *poolSource) bareAll(blocks []pool.Block, may func(segment driver.Address) error) error {
	segments := p.segmentsOf(blocks...)
	torn, err := 0, error(nil)
	for torn < len(segments) && err == nil {
		if err = may(segments[torn]); err == nil {
			err = p.tear(segments[torn])
		}
		if err == nil {
			torn++
		}
	}
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if err != nil {
		_ = p.mend(segments[:torn])
		return err
	}
	for _, segment := range segments {
		p.idle = append(p.idle, p.torn[segment])
		delete(p.torn, segment)
	}
	p.note(LogUnmap, blocks)
	return nil
}

// atOnce lets memory of every segment go.
func atOnce(driver.Address) error { return nil }

// tear takes a segment's memory from its address. Nobody else has it until it is idle.
func (p *poolSource) tear(segment driver.Address) error {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	err := p.device.Unmap(segment)
	if err == nil {
		p.torn[segment] = p.mapped[segment]
		delete(p.mapped, segment)
	}
	return err
}

// mend maps memory again that was torn from its address. The lock is held.
func (p *poolSource) mend(segments []driver.Address) (first error) {
	for _, segment := range segments {
		physical, is := p.torn[segment]
		if !is {
			continue
		}
		if err := p.device.Map(segment, p.peers, physical); err != nil {
			first = cmp.Or(first, err)
			continue
		}
		p.mapped[segment] = physical
		delete(p.torn, segment)
	}
	return first
}

// tornOf are the segments of a partition whose memory is torn from them.
func (p *Pool) tornOf(partition int) (segments []driver.Address) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	for segment := range p.torn {
		if p.partitionAt(segment) == partition {
			segments = append(segments, segment)
		}
	}
	return segments
}

func (p *poolSource) note(action LogAction, blocks []pool.Block) {
	for _, block := range blocks {
		(*Pool)(p).note(action, (*Pool)(p).addressOf(block), block.Count*pool.Unit)
	}
}

func (p *Pool) note(action LogAction, address driver.Address, bytes uint64) {
	if p.log != nil {
		p.log.note(action, status.OK, &Memory{Address: address, Bytes: bytes}, nil, 0)
	}
}

// notedWhole notes a segment that is an allocation of the driver.
func (p *Pool) notedWhole(action LogAction, address driver.Address, bytes uint64) {
	if action == LogMap {
		p.made.Add(1)
	} else {
		p.ended.Add(1)
	}
	p.note(action, address, bytes)
}

// Whole says whether segments go back whole.
func (p *Pool) Whole() bool { return p.whole != nil }

// bare takes segments' memory away, for the next segments, one after the other. count: these have lost it.
func (p *poolSource) bare(segments []driver.Address) (count int, err error) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	for i, segment := range segments {
		if err := p.unmap(segment); err != nil {
			return i, err
		}
	}
	return len(segments), nil
}

// unmap makes a segment's memory idle. The lock is held.
func (p *poolSource) unmap(segment driver.Address) error {
	if err := p.device.Unmap(segment); err != nil {
		return err
	}
	p.idle = append(p.idle, p.mapped[segment])
	delete(p.mapped, segment)
	return nil
}

// dropIdle ends memory that no segment has.
func (p *poolSource) dropIdle() (first error) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.stray = slices.DeleteFunc(p.stray, func(segment driver.Address) bool {
		err := p.unmap(segment)
		first = cmp.Or(first, err)
		return err == nil
	})
	left := p.idle[:0]
	for _, physical := range p.idle {
		if err := p.device.DestroyPhysical(physical); err != nil {
			first = cmp.Or(first, err)
			left = append(left, physical)
			continue
		}
		p.ended.Add(1)
		p.ledger.Give(poolSegment)
	}
	p.idle = left
	return first
}

// cutBy remembers a stream that C cuts blocks for.
func (p *Pool) cutBy(s *Stream) {
	p.knows(s)
	p.mutex.Lock()
	defer p.mutex.Unlock()
	var all []*blocks.Stream
	if old := p.cutters.Load(); old != nil {
		all = *old
	}
	if !slices.Contains(all, s.fast) {
		all = append(slices.Clip(all), s.fast)
		p.cutters.Store(&all)
	}
}

// Settle implements pool.Progress.
func (p *poolSource) Settle(cut func(space int, at, front uint64)) {
	if all := p.cutters.Load(); all != nil {
		for _, s := range *all {
			s.Settle(func(own, front uint64) { cutOwn(cut, own, front) })
		}
	}
}

// magazines are those of a stream; nil: none that are known, as until the stream's first free in Go.
func (p *poolSource) magazines(stream uint32) *Stream {
	if s := (*Pool)(p).stream(stream); s != nil && s.fast != nil {
		return s
	}
	return nil
}

// Cached implements pool.Progress.
func (p *poolSource) Cached(stream uint32) uint64 {
	if s := p.magazines(stream); s != nil {
		return s.fast.Cached()
	}
	return 0
}

// Uncache implements pool.Progress.
func (p *poolSource) Uncache(stream uint32, space int, units uint64) bool {
	s := p.magazines(stream)
	if s == nil {
		return false
	}
	const small = pool.MostSmall / pool.Unit
	if space == pool.Small {
		return s.flushSome(units, 1, small)
	}
	return s.flushSome(units, small+1, math.MaxUint64>>14)
}

// Reap implements pool.Progress.
func (p *poolSource) Reap() { p.host.Reap() }

// Done implements pool.Progress.
func (p *poolSource) Done(stream uint32) uint64 {
	if s := (*Pool)(p).stream(stream); s != nil {
		return s.completed.Load()
	}
	return math.MaxUint64 // it has freed nothing
}
