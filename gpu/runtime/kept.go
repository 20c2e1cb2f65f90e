// The bytes of tags that sleep: where they are, and how they come there and back.

package runtime

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"

	"libmmsb/core/file"
	"libmmsb/core/pool"
	"libmmsb/core/safego"
	"libmmsb/core/status"
	"libmmsb/gpu/driver"
)

// keptTag is the bytes of a partition that sleeps, in a file or in memory of its pieces.
type keptTag struct {
	pieces []piece
	file   file.File
}

// piece is what is copied, written or read at once: bytes of several runs of addresses.
type piece struct {
	at     uint64 // in the file, a multiple of what files can be written in past the page cache
	bytes  uint64
	runs   []run
	memory pinned // that has them where there is no file
}

// run is consecutive bytes of blocks; at counts from the beginning of the piece.
type run struct {
	address   driver.Address
	bytes, at uint64
}

const (
	pieceBytes = 16 << 20
	laneCount  = 4
)

// pack divides what is held into pieces, and says how long they are together.
func (p *Pool) pack(held []pool.Block) (pieces []piece, length uint64) {
	for _, block := range held {
		address, left := p.addressOf(block), block.Count*pool.Unit
		for left > 0 {
			last := len(pieces) - 1
			if last < 0 || pieces[last].bytes == pieceBytes {
				pieces = append(pieces, piece{at: uint64(len(pieces)) * pieceBytes})
				last++
			}
			x := &pieces[last]
			some := min(left, pieceBytes-x.bytes)
			x.runs = append(x.runs, run{address, some, x.bytes})
			x.bytes, address, left = x.bytes+some, address+driver.Address(some), left-some
		}
	}
	if last := len(pieces) - 1; last >= 0 {
		length = pieces[last].at + pieces[last].padded()
	}
	return pieces, length
}

// padded is the length of a piece in a file.
func (x *piece) padded() uint64 {
	return (x.bytes + file.Alignment - 1) / file.Alignment * file.Alignment
}

// only is the piece without what is not held any more. held is in the order of addresses.
func (x *piece) only(held []run) piece {
	some := piece{at: x.at, bytes: x.bytes, memory: x.memory}
	for _, r := range x.runs {
		first, _ := slices.BinarySearchFunc(held, r.address, func(h run, at driver.Address) int {
			return cmp.Compare(h.end()-1, at)
		})
		for _, h := range held[first:] {
			from, to := max(r.address, h.address), min(r.end(), h.end())
			if from >= to {
				break
			}
			some.runs = append(some.runs, run{from, uint64(to - from), r.at + uint64(from-r.address)})
		}
	}
	return some
}

func (r run) end() driver.Address { return r.address + driver.Address(r.bytes) }

// offload is what a sleep copies to pinned memory. Nothing waits between the copies; the memory of a segment goes when those of
// its bytes are done, while later ones run.
type offload struct {
	*Pool
	marks  []driver.Event         // behind each piece, in the order in which they were queued
	needs  map[driver.Address]int // by segment: so many marks, up to the last piece that has bytes of it
	passed int                    // marks that the device is known to have come past
}

// keep begins to copy the bytes of a partition to where they are kept; nil where they are dropped. What a file keeps is there
// when it returns. What it returns with an error is forgotten when the copies have settled.
func (l *offload) keep(partition int, options SleepOptions) (*keptTag, error) {
	if options.Mode == SleepDrop {
		return nil, nil
	}
	k := &keptTag{}
	var length uint64
	k.pieces, length = l.pack(l.books.HeldIn(partition))
	if length == 0 {
		return k, nil
	}
	if options.Mode != SleepFile {
		return k, l.toMemory(k)
	}
	err := k.create(options.Folder, length)
	if err == nil {
		err = l.moveFile(k.file, k.pieces, true)
	}
	return k, err
}

// toMemory queues the copies of pieces, each as soon as it has memory: those before it run while the driver pins it.
func (l *offload) toMemory(k *keptTag) error {
	sizes := make([]uint64, len(k.pieces))
	for i := range k.pieces {
		sizes[i] = k.pieces[i].bytes
	}
	taken, err := l.mover.cache.take(sizes)
	for i := range taken {
		k.pieces[i].memory = taken[i]
	}
	for i := range k.pieces {
		x := &k.pieces[i]
		if err == nil && x.memory.address == 0 {
			err = x.memory.allocate(l.device)
		}
		if err == nil {
			err = l.queue(x)
		}
	}
	return err
}

// queue queues the copies of a piece, and a mark behind them.
func (l *offload) queue(x *piece) error {
	lane, err := l.mover.lane(l.device, len(l.marks))
	if err != nil {
		return err
	}
	mark, err := l.mover.marks.take()
	if err != nil {
		return err
	}
	if err = l.copy(lane, x.memory.address, x, true); err == nil {
		err = l.device.RecordEvent(mark, lane)
	}
	if err != nil {
		l.mover.marks.give(mark)
		return err
	}
	l.marks = append(l.marks, mark)
	for _, r := range x.runs {
		for segment := r.firstSegment(); segment < r.end(); segment += poolSegment {
			l.needs[segment] = len(l.marks)
		}
	}
	return nil
}

// left waits until the bytes of a segment have been copied.
func (l *offload) left(segment driver.Address) error {
	for ; l.passed < l.needs[segment]; l.passed++ {
		if err := l.device.SynchronizeEvent(l.marks[l.passed]); err != nil {
			return err
		}
	}
	return nil
}

// reload is what a wake copies back from pinned memory: a piece is queued when its segments have memory, and copied while the
// next ones get theirs.
type reload struct {
	*Pool
	pieces []piece
	needs  []int // by piece: so many segments, in the order in which they get memory
	queued int   // pieces
}

// reload is what is kept in pinned memory for partitions whose segments get memory in an order.
func (p *Pool) reload(partitions []int, segments []driver.Address) *reload {
	c := &reload{Pool: p}
	place := make(map[driver.Address]int, len(segments))
	for i, segment := range segments {
		place[segment] = i + 1
	}
	for _, partition := range partitions {
		if k := p.kept[partition].Load(); k != nil && k.file == nil {
			c.pieces = append(c.pieces, p.stillHeld(partition, k)...)
		}
	}
	c.needs = make([]int, len(c.pieces))
	for i := range c.pieces {
		for _, r := range c.pieces[i].runs {
			for segment := r.firstSegment(); segment < r.end(); segment += poolSegment {
				c.needs[i] = max(c.needs[i], place[segment]) // 0: it has memory already
			}
		}
	}
	return c
}

// came says that the first so many segments have memory.
func (c *reload) came(segments int) error {
	for c != nil && c.queued < len(c.pieces) && c.needs[c.queued] <= segments {
		x := &c.pieces[c.queued]
		lane, err := c.mover.lane(c.device, c.queued)
		if err == nil {
			err = c.copy(lane, x.memory.address, x, false)
		}
		if err != nil {
			return err
		}
		c.queued++
	}
	return nil
}

// firstSegment is the one that has the first byte.
func (r run) firstSegment() driver.Address { return r.address &^ (poolSegment - 1) }

// nameless is file.Nameless; tests put others in its place.
var nameless = file.Nameless

// create makes the file, with space for everything where the file system can tell.
func (k *keptTag) create(folder string, length uint64) (err error) {
	if k.file, err = nameless(folder); err != nil {
		return err
	}
	_ = k.file.SetDirect(true) // a file system that cannot has it in its cache
	if err = k.file.Allocate(0, int64(length)); err != nil {
		err = file.Failed(err, "cannot take %d bytes for a file in %s", length, folder)
	}
	if status.CodeOf(err) == status.NoSpace {
		return err
	}
	return nil
}

// stillHeld are the pieces of what is kept of a partition, as far as somebody still holds it.
func (p *Pool) stillHeld(partition int, k *keptTag) (pieces []piece) {
	var held []run
	for _, block := range p.books.HeldIn(partition) {
		held = append(held, run{address: p.addressOf(block), bytes: block.Count * pool.Unit})
	}
	slices.SortFunc(held, func(a, b run) int { return cmp.Compare(a.address, b.address) })
	for i := range k.pieces {
		if some := k.pieces[i].only(held); len(some.runs) > 0 {
			pieces = append(pieces, some)
		}
	}
	return pieces
}

// fromFiles copies what files keep of partitions back.
func (p *Pool) fromFiles(partitions []int) (err error) {
	for _, partition := range partitions {
		if k := p.kept[partition].Load(); err == nil && k != nil && k.file != nil {
			err = p.moveFile(k.file, p.stillHeld(partition, k), false)
		}
	}
	return err
}

// forget ends what is kept. No copy of it may be running.
func (p *Pool) forget(k *keptTag) {
	if k == nil {
		return
	}
	if k.file != nil {
		_ = k.file.Close()
		return
	}
	for i := range k.pieces {
		p.mover.cache.put([]pinned{k.pieces[i].memory})
	}
}

// mover copies pieces on several streams at a time. It has the streams from the first sleep to the end of the pool.
type mover struct {
	mutex  sync.Mutex // held by a sleep or a wake, from its first copy until they have settled
	lanes  []driver.Stream
	marks  eventPool
	cache  pinnedCache
	copied atomic.Uint64 // bytes, of the sleep or wake that is running
}

// begin begins a sleep or a wake; end counts what it has copied, unless it has failed.
func (p *Pool) begin() (end func(err error)) {
	p.mover.mutex.Lock()
	p.mover.copied.Store(0)
	return func(err error) {
		if err == nil {
			p.copied.Add(p.mover.copied.Load())
		}
		p.mover.mutex.Unlock()
	}
}

// lane is one of the streams, those of consecutive numbers in turn.
func (m *mover) lane(device driver.Device, number int) (driver.Stream, error) {
	for len(m.lanes) < laneCount {
		stream, err := device.CreateStream(0)
		if err != nil {
			return 0, err
		}
		m.lanes = append(m.lanes, stream)
	}
	return m.lanes[number%laneCount], nil
}

// buffers are so many, of a piece each; fewer, where there is no memory for more.
func (m *mover) buffers(device driver.Device, count int) (buffers []pinned, err error) {
	for len(buffers) < count {
		one, err := m.cache.take([]uint64{pieceBytes})
		if err == nil && one[0].address == 0 {
			err = one[0].allocate(device)
		}
		if err != nil {
			m.cache.put(one)
			if len(buffers) > 0 {
				break
			}
			return nil, err
		}
		buffers = append(buffers, one[0])
	}
	return buffers, nil
}

func (m *mover) end(device driver.Device, lost bool) (first error) {
	for _, lane := range m.lanes {
		first = cmp.Or(first, device.DestroyStream(lane))
	}
	m.lanes = nil
	return cmp.Or(first, m.marks.close(), m.cache.close(lost))
}

// settleCopies waits until no copy runs any more.
func (p *Pool) settleCopies() (first error) {
	for _, lane := range p.mover.lanes {
		first = cmp.Or(first, p.await(lane))
	}
	return first
}

// copy queues the copies of a piece between the device and the host.
func (p *Pool) copy(lane driver.Stream, host driver.Address, x *piece, out bool) error {
	copies, bytes := make([]driver.Copy, len(x.runs)), uint64(0)
	for i, r := range x.runs {
		copies[i] = driver.Copy{To: r.address, From: host + driver.Address(r.at), Bytes: r.bytes}
		if out {
			copies[i].To, copies[i].From = copies[i].From, copies[i].To
		}
		bytes += r.bytes
	}
	err := p.device.Copy(lane, copies...)
	if err == nil {
		p.mover.copied.Add(bytes)
	}
	return err
}

// await waits for a lane. What it has queued uses memory that will go: so it asks twice before it gives up.
func (p *Pool) await(lane driver.Stream) error {
	err := p.device.SynchronizeStream(lane)
	if err != nil {
		_ = p.device.SynchronizeStream(lane)
	}
	return err
}

// moveFile copies pieces to a file, or back, and returns when they are there: the lanes have every so many-th piece each, so that
// copies and the disk work beside each other.
func (p *Pool) moveFile(f file.File, pieces []piece, out bool) (first error) {
	buffers, err := p.mover.buffers(p.device, min(laneCount, len(pieces)))
	if err != nil {
		return err
	}
	defer p.mover.cache.put(buffers)
	if _, err = p.mover.lane(p.device, 0); err != nil {
		return err
	}
	results := make(chan error, len(buffers))
	for number, buffer := range buffers {
		safego.Go(func() {
			err := error(status.Errorf(status.Internal, "copies by way of a file have not ended"))
			defer func() { results <- err }()
			for i := number; i < len(pieces); i += len(buffers) {
				if err = p.copyFile(f, p.mover.lanes[number], buffer, &pieces[i], out); err != nil {
					return
				}
			}
			err = nil
		})
	}
	for range buffers {
		first = cmp.Or(first, <-results)
	}
	return first
}

func (p *Pool) copyFile(f file.File, lane driver.Stream, memory pinned, x *piece, out bool) error {
	buffer, at := pinnedBytes(memory.address, int(x.padded())), int64(x.at)
	if !out {
		switch read, err := file.ReadFull(f, buffer, at); {
		case err != nil:
			return file.Failed(err, "cannot read %d bytes at offset %d of the file of a tag that sleeps", len(buffer), at)
		case read < len(buffer):
			return status.Errorf(status.Corrupt, "file of a tag that sleeps ends at offset %d, in %d bytes at %d", at+int64(read),
				len(buffer), at)
		}
	}
	err := p.copy(lane, memory.address, x, out)
	err = cmp.Or(err, p.await(lane))
	if err == nil && out {
		if err = file.WriteBlocks(f, buffer, at); err != nil {
			err = file.Failed(err, "cannot write %d bytes at offset %d of the file of a tag that sleeps", len(buffer), at)
		}
	}
	return err
}
