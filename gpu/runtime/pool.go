// The lowest layer of a runtime that has a pool: memory is taken from the device in segments and given out in blocks.

package runtime

import (
	"cmp"
	"math"
	"slices"
	"sync"
	"sync/atomic"

	"libmmsb/core/invariant"
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
	host     Host
	device   driver.Device
	ledger   *DeviceLedger
	books    *pool.Pool
	log      *Log                                         // nil = none
	whole    *wholeSource                                 // nil: segments are virtual memory
	peers    bool                                         // kernels of other devices reach segments
	together int                                          // segments of a mapping, at most
	ranges   [pool.MostPartitions * pool.Spaces]addresses // by space; those of a partition are there before its blocks
	sleepers

	streams sync.Map                         // by index: those that have freed, or have had a span
	cutters atomic.Pointer[[]*blocks.Stream] // those that have had a span
	cached  func() uint64                    // bytes that the books hold for magazines

	mutex  sync.Mutex
	mapped map[driver.Address]*mapping // by segment
	idle   []*mapping                  // without an address: taken from segments for other segments
	stray  []*mapping                  // mapped: the driver did not take them away, and the books do not know them
	torn   map[driver.Address]*mapping // by the first segment: taken from their addresses, of partitions that rest or sleep

	made, ended atomic.Uint64 // mappings
}

// mapping is memory of the driver for segments that lie one behind the other: they have it and lose it together.
type mapping struct {
	physical driver.Physical
	made     bool           // the driver has been asked for it
	first    driver.Address // where it is mapped, or was
	segments int
}

const (
	// mostMapped is how many segments get memory together: the driver's calls take as long for 8 MiB as for 2 (docs/gpu-results).
	mostMapped = 4
	// finest is how many mappings a device's memory has at least: what is mapped together can only be taken away together, so
	// that others lack what is free in part of a mapping.
	finest = 4096
)

// mappedTogether is how many segments get memory together on a device with so many bytes. Who asks for a slack has the finest
// mappings: what has memory counts within it.
func mappedTogether(bytes uint64, slack uint32) int {
	if slack != 0 {
		return 1
	}
	return int(min(max(bytes/poolSegment/finest, 1), mostMapped))
}

func (m *mapping) bytes() uint64 { return uint64(m.segments) * poolSegment }

// last is its last segment.
func (m *mapping) last() driver.Address { return m.first + driver.Address(m.bytes()) - poolSegment }

func bytesOf(mappings []*mapping) (bytes uint64) {
	for _, m := range mappings {
		bytes += m.bytes()
	}
	return bytes
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
	p := &Pool{host: host, device: device, ledger: ledger, peers: options.Peers, mapped: make(map[driver.Address]*mapping),
		torn: make(map[driver.Address]*mapping)}
	p.mover.marks.device, p.mover.cache.device = device, device
	p.together = mappedTogether(info.Bytes, options.Slack)
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

// usable says whether the request's partition gives memory. A budget that refuses would let others give back theirs in vain.
// Errors: Busy, InvalidState.
func (r *Runtime) usable(request Request) error {
	if r.pool != nil {
		if partition := r.pool.partitionOf(request); partition != 0 {
			return r.pool.books.Usable(partition)
		}
	}
	return nil
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

// Made is how often the device gave memory for segments, and got it back.
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
	for segment, m := range p.mapped {
		if segment == m.first {
			first = cmp.Or(first, p.device.Unmap(segment))
			p.idle = append(p.idle, m)
		}
	}
	for _, m := range p.torn {
		p.idle = append(p.idle, m)
	}
	clear(p.mapped)
	clear(p.torn)
	p.stray = nil
	p.mutex.Unlock()
	first = cmp.Or(first, (*poolSource)(p).dropIdle(), p.endSleepers(), p.release(p.ranges[:]))
	if p.host.Lost() { // with the device its memory is gone
		p.ledger.Give(bytesOf(p.idle))
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
	plan, err := p.plan(p.segmentsOf(blocks...))
	if err != nil {
		return err
	}
	_ = p.dropIdle() // what does not fit; what does not end now does later
	owed, err := p.charge(plan)
	if err != nil {
		p.putBack(plan)
		return err
	}
	mapped, segments := 0, 0
	for mapped < len(plan) && err == nil {
		if err = p.mapOne(plan[mapped], &owed); err == nil {
			segments += plan[mapped].segments
			mapped++
			err = reload.came(segments)
		}
	}
	p.ledger.Give(owed)
	if err != nil {
		if reload != nil {
			_ = reload.settleCopies()
		}
		p.mutex.Lock()
		for _, m := range plan[:mapped] { // nobody has used their memory
			if p.unmap(m) != nil {
				p.stray = append(p.stray, m)
			}
		}
		p.mutex.Unlock()
		p.putBack(plan[mapped:])
		return cmp.Or(err, p.dropIdle())
	}
	p.note(LogMap, blocks)
	return nil
}

// plan divides segments into mappings: idle ones that fit, and new ones. Errors: Device, where a mapping is in the way that the
// driver did not take away.
func (p *poolSource) plan(segments []driver.Address) (plan []*mapping, err error) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	for len(segments) > 0 {
		first, count := segments[0], 0
		for count < min(len(segments), p.together) && segments[count] == first+driver.Address(count*poolSegment) &&
			p.mapped[segments[count]] == nil {
			count++
		}
		m := p.mapped[first]
		switch at := slices.Index(p.stray, m); {
		case m == nil:
			m = p.fitting(count)
			m.first = first
		case at < 0 || m.first != first || m.segments > len(segments) || segments[m.segments-1] != m.last():
			p.letGo(plan)
			return nil, status.Errorf(status.Device, "cannot map memory at %#x: the driver did not take away %d bytes at %#x",
				first, m.bytes(), m.first)
		default: // it has its memory still
			p.stray = slices.Delete(p.stray, at, at+1)
		}
		plan, segments = append(plan, m), segments[m.segments:]
	}
	return plan, nil
}

// charge takes what a plan needs from the budget, all of it or nothing: of two pools that meet at the budget's end one has what
// it needs. owed: the driver has not been asked for it yet. Errors: Limit.
func (p *poolSource) charge(plan []*mapping) (owed uint64, err error) {
	for _, m := range plan {
		if !m.made {
			owed += m.bytes()
		}
	}
	return owed, p.ledger.take(owed)
}

// fitting is a mapping of up to so many segments, and not less than half: an idle one where there is one, the largest. The lock
// is held.
func (p *poolSource) fitting(segments int) *mapping {
	best := -1
	for i, m := range p.idle {
		if m.segments <= segments && 2*m.segments >= segments && (best < 0 || m.segments > p.idle[best].segments) {
			best = i
		}
	}
	if best < 0 {
		return &mapping{segments: segments}
	}
	m := p.idle[best]
	p.idle = slices.Delete(p.idle, best, best+1)
	return m
}

// putBack is letGo with the lock.
func (p *poolSource) putBack(plan []*mapping) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.letGo(plan)
}

// letGo ends a plan: what has memory is idle, or stray. The lock is held.
func (p *poolSource) letGo(plan []*mapping) {
	for _, m := range plan {
		switch {
		case p.mapped[m.first] == m:
			p.stray = append(p.stray, m)
		case m.made:
			p.idle = append(p.idle, m)
		}
	}
}

// mapOne maps a mapping of a plan. What it takes from the device was charged, and is not owed any more.
func (p *poolSource) mapOne(m *mapping, owed *uint64) (err error) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if p.mapped[m.first] == m {
		return nil
	}
	if !m.made {
		if m.physical, err = p.device.CreatePhysical(m.bytes()); err != nil {
			return err
		}
		m.made = true
		*owed -= m.bytes()
		p.made.Add(1)
	}
	return p.mapAt(m)
}

// mapAt maps memory at its addresses. The lock is held.
func (p *poolSource) mapAt(m *mapping) error {
	err := p.device.Map(m.first, p.peers, m.physical)
	if err == nil {
		for segment := m.first; segment <= m.last(); segment += poolSegment {
			p.mapped[segment] = m
		}
	}
	return err
}

// Mapping implements pool.Source.
func (p *poolSource) Mapping(space int, at uint64) pool.Range {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	first := p.ranges[space].first
	m := p.mapped[first+driver.Address(at*pool.Unit)]
	return pool.Range{Offset: uint64(m.first-first) / pool.Unit, Count: m.bytes() / pool.Unit}
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
	var torn []*mapping
	var err error
	for at := 0; at < len(segments) && err == nil; {
		m := p.mappingAt(segments[at])
		for _, segment := range segments[at:][:m.segments] {
			err = cmp.Or(err, may(segment))
		}
		if err == nil {
			err = p.tear(m)
		}
		if err == nil {
			torn = append(torn, m)
			at += m.segments
		}
	}
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if err != nil {
		_ = p.mend(torn)
		return err
	}
	for _, m := range torn {
		p.idle = append(p.idle, m)
		delete(p.torn, m.first)
	}
	p.note(LogUnmap, blocks)
	return nil
}

// atOnce lets memory of every segment go.
func atOnce(driver.Address) error { return nil }

// mappingAt is wholly with the lock.
func (p *poolSource) mappingAt(segment driver.Address) *mapping {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return p.wholly(segment)
}

// wholly is the mapping whose first segment it is: the books name whole ones. The lock is held.
func (p *poolSource) wholly(segment driver.Address) *mapping {
	m := p.mapped[segment]
	invariant.Assert(m != nil && m.first == segment, "no mapping begins at %#x", segment)
	return m
}

// tear takes a mapping from its addresses. Nobody else has its memory until it is idle.
func (p *poolSource) tear(m *mapping) error {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	err := p.takeAway(m)
	if err == nil {
		p.torn[m.first] = m
	}
	return err
}

// takeAway unmaps a mapping. The lock is held.
func (p *poolSource) takeAway(m *mapping) error {
	err := p.device.Unmap(m.first)
	if err == nil {
		for segment := m.first; segment <= m.last(); segment += poolSegment {
			delete(p.mapped, segment)
		}
	}
	return err
}

// mend maps again what was torn from its addresses. The lock is held.
func (p *poolSource) mend(torn []*mapping) (first error) {
	for _, m := range torn {
		if p.torn[m.first] != m {
			continue
		}
		if err := p.mapAt(m); err != nil {
			first = cmp.Or(first, err)
			continue
		}
		delete(p.torn, m.first)
	}
	return first
}

// tornOf are the mappings of a partition that are torn from their addresses.
func (p *Pool) tornOf(partition int) (torn []*mapping) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	for segment, m := range p.torn {
		if p.partitionAt(segment) == partition {
			torn = append(torn, m)
		}
	}
	return torn
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

// bare takes memory away from whole mappings, for other segments, one after the other. count: so many segments have lost it.
func (p *poolSource) bare(segments []driver.Address) (count int, err error) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	for count < len(segments) {
		m := p.wholly(segments[count])
		if err := p.unmap(m); err != nil {
			return count, err
		}
		count += m.segments
	}
	return count, nil
}

// unmap makes a mapping idle. The lock is held.
func (p *poolSource) unmap(m *mapping) error {
	err := p.takeAway(m)
	if err == nil {
		p.idle = append(p.idle, m)
	}
	return err
}

// dropIdle ends memory that no segment has.
func (p *poolSource) dropIdle() (first error) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.stray = slices.DeleteFunc(p.stray, func(m *mapping) bool {
		err := p.unmap(m)
		first = cmp.Or(first, err)
		return err == nil
	})
	left := p.idle[:0]
	for _, m := range p.idle {
		if err := p.device.DestroyPhysical(m.physical); err != nil {
			first = cmp.Or(first, err)
			left = append(left, m)
			continue
		}
		p.ended.Add(1)
		p.ledger.Give(m.bytes())
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
