// Sleep and wake: the memory of whole tags goes back to the device and comes again, while their blocks and addresses stay.

package runtime

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"libmmsb/core/abi"
	"libmmsb/core/log"
	"libmmsb/core/pool"
	"libmmsb/core/status"
	"libmmsb/gpu/driver"
)

// SleepMode says what becomes of the bytes of blocks that sleep.
type SleepMode uint8

// The modes.
const (
	SleepDrop SleepMode = abi.SleepDrop // they are not defined after the wake
	SleepKeep SleepMode = abi.SleepKeep // in pinned memory of the host
	SleepFile SleepMode = abi.SleepFile // in a file without a name
)

// SleepOptions say how tags are put to sleep.
type SleepOptions struct {
	Mode    SleepMode
	Folder  string        // of the file
	Timeout time.Duration // for queued work; negative: for ever
}

// sleepers are the partitions of tags, and what is kept of those that sleep.
type sleepers struct {
	declaring sync.Mutex
	byTag     atomic.Pointer[map[Tag]int] // nil: no tag has a partition. A map is never changed
	resting   atomic.Int32                // partitions that are not awake
	kept      [pool.MostPartitions]atomic.Pointer[keptTag]
	mover     mover
	copied    atomic.Uint64 // bytes, by sleeps and wakes that went well
}

// pooled is the runtime's pool, where it can have partitions. Errors: Unsupported.
func (r *Runtime) pooled() (*Pool, error) {
	if r.pool == nil {
		return nil, status.Errorf(status.Unsupported, "runtime of device %d has no pool", r.device.Info().Ordinal)
	}
	if r.pool.whole != nil {
		return nil, status.Errorf(status.Unsupported, "runtime of device %d has a pool of %v memory, whose segments keep their "+
			"addresses only with their memory", r.device.Info().Ordinal, r.pool.whole.options.Origin)
	}
	return r.pool, nil
}

// Partition gives a tag segments of its own in the runtime's pool: blocks that are allocated with it from now on can sleep. A tag
// that has them keeps them. Errors: Unsupported (no pool), InvalidArgument (an unknown tag), Limit (32 partitions), those of the
// driver.
func (r *Runtime) Partition(tag Tag) error {
	if err := r.enter(); err != nil {
		return err
	}
	defer r.leave()
	p, err := r.pooled()
	if err != nil {
		return err
	}
	if !tag.Known() {
		return unknownTag(tag)
	}
	p.declaring.Lock()
	defer p.declaring.Unlock()
	changed := make(map[Tag]int)
	if before := p.byTag.Load(); before != nil {
		if _, has := (*before)[tag]; has {
			return nil
		}
		maps.Copy(changed, *before)
	}
	if changed[tag], err = p.open("tag "+tag.String(), false); err != nil {
		return r.noteLost(err)
	}
	if r.hits != nil {
		r.hits.pool.KeepFromC(uint32(tag))
	}
	p.byTag.Store(&changed)
	return nil
}

func unknownTag(tag Tag) error {
	return status.Errorf(status.InvalidArgument, "tag %d does not exist", tag)
}

// partitionsOf are those of tags, each once. Errors: Unsupported, InvalidArgument (a tag without a partition).
func (r *Runtime) partitionsOf(tags []Tag) (*Pool, []int, error) {
	p, err := r.pooled()
	if err != nil {
		return nil, nil, err
	}
	if slices.ContainsFunc(r.options.Adaptors, func(a Adaptor) bool { _, guards := a.(*Guard); return guards }) {
		return nil, nil, status.Errorf(status.Unsupported, "runtime of device %d has a guard, which looks at memory at any time",
			r.device.Info().Ordinal)
	}
	var of map[Tag]int
	if known := p.byTag.Load(); known != nil {
		of = *known
	}
	var partitions []int
	for _, tag := range tags {
		partition, has := of[tag]
		if !has {
			return nil, nil, status.Errorf(status.InvalidArgument, "tag %d (%v) has no partition, which it needs before its "+
				"blocks are allocated", tag, tag)
		}
		partitions = append(partitions, partition)
	}
	slices.Sort(partitions)
	return p, slices.Compact(partitions), nil
}

// Sleep gives the memory of tags back to the device, of all of them or of none: behind all work that is queued on the runtime's
// streams. The blocks stay, with their addresses; what touches them is an error of the program until Wake. Errors: Unsupported
// (no pool, or a guard), InvalidArgument (a tag without a partition), InvalidState (a tag sleeps, a stream captures), Busy (a use
// of a block is open; another thread is at it), WouldBlock and Timeout (queued work), OutOfMemory (pinned memory), NoSpace and IO
// (the file), those of the driver.
func (r *Runtime) Sleep(tags []Tag, options SleepOptions) error {
	if err := r.enter(); err != nil {
		return err
	}
	defer r.leave()
	p, partitions, err := r.partitionsOf(tags)
	if err != nil {
		return err
	}
	r.reap()
	if err := p.rest(partitions); err != nil {
		return err
	}
	if err = r.quiet(partitions, options.Timeout); err == nil {
		err = p.sleep(partitions, options)
	}
	if err == nil {
		p.settle(partitions, true)
		return nil
	}
	for _, partition := range partitions {
		torn := p.tornOf(partition)
		p.settle([]int{partition}, len(torn) > 0)
		if len(torn) > 0 {
			err = status.More(err, "; %d segments of %s could not be mapped again: it sleeps, and a wake tries again",
				bytesOf(torn)/poolSegment, p.books.Name(partition))
		}
	}
	return r.noteLost(err)
}

// quiet waits until nothing uses the blocks of partitions that rest.
func (r *Runtime) quiet(partitions []int, timeout time.Duration) (err error) {
	streams := slices.Clone(r.streams.snapshot())
	allBlocks.all(func(b *block) {
		taken, others := b.taken(), b.otherStreams()
		if !taken && len(others) == 0 || b.stream.runtime != r || b.wrapped ||
			!slices.Contains(partitions, r.pool.partitionAt(driver.Address(b.record.Address))) {
			return
		}
		for _, s := range others {
			if !slices.Contains(streams, s) {
				streams = append(streams, s)
			}
		}
		if !taken {
			return
		}
		if b.lent > 0 {
			err = status.Errorf(status.Busy, "block 0x%016x (%v) is exported %d times, to other libraries or to pages",
				b.current(), Tag(b.record.Tag), b.lent)
		} else {
			err = status.Errorf(status.Busy, "block 0x%016x (%v) is in use on stream %d: %d reads and %d writes have not ended",
				b.current(), Tag(b.record.Tag), b.open[0].stream.index, b.open[0].reads, b.open[0].writes)
		}
	})
	end := time.Now().Add(max(timeout, 0))
	for _, s := range streams {
		if err == nil && s.queued.Load() > 0 { // else nothing of the runtime was ever used there
			err = s.synchronizeUntil(end, timeout)
		}
		if s.runtime != r && status.CodeOf(err) == status.StaleHandle { // that runtime ends
			err = r.settled()
		}
	}
	return err
}

// otherStreams are those of other runtimes whose work on the block may not be done. The mutex is held.
func (b *block) otherStreams() (streams []*Stream) {
	add := func(p point) {
		if !p.passed() && p.stream.runtime != b.stream.runtime {
			streams = append(streams, p.stream)
		}
	}
	add(b.write)
	for _, read := range b.reads {
		add(read)
	}
	return streams
}

func (p *Pool) sleep(partitions []int, options SleepOptions) (err error) {
	end := p.begin()
	defer func() { end(err) }()
	l := &offload{Pool: p, needs: make(map[driver.Address]int)}
	stored := make([]*keptTag, len(partitions))
	for i, partition := range partitions {
		if stored[i], err = l.keep(partition, options); err != nil {
			break
		}
	}
	if err == nil {
		err = p.books.Sleep(partitions, func(segments []pool.Block) error { return (*poolSource)(p).bareAll(segments, l.left) })
	}
	if err != nil {
		_ = p.settleCopies()
	}
	for i, partition := range partitions {
		if err == nil {
			p.kept[partition].Store(stored[i])
		} else {
			p.forget(stored[i])
		}
	}
	for _, mark := range l.marks {
		p.mover.marks.give(mark)
	}
	if lacks(err) {
		_ = p.trimKept()
	}
	if left := (*poolSource)(p).dropIdle(); err == nil && left != nil {
		log.Logf(log.Warning, "device %d: memory of tags that sleep does not end now, but later: %v", p.device.Info().Ordinal,
			left)
	}
	return err
}

// trimKept gives back the pinned memory that is kept for the next sleep.
func (p *Pool) trimKept() error {
	if p == nil {
		return nil
	}
	_, err := p.mover.cache.trim(math.MaxUint64, false)
	return err
}

// Wake gives tags their memory again, all of them or none, with the bytes that were kept: these are there when it returns.
// Errors: Unsupported, InvalidArgument (a tag without a partition), InvalidState (a tag does not sleep), Busy (another thread is
// at it), OutOfMemory and Limit, with the numbers, IO (the file), those of the driver.
func (r *Runtime) Wake(tags []Tag) error {
	if err := r.enter(); err != nil {
		return err
	}
	defer r.leave()
	p, partitions, err := r.partitionsOf(tags)
	if err != nil {
		return err
	}
	if err := p.books.Rest(partitions, true); err != nil {
		return err
	}
	wake := func() error { return p.wake(partitions) }
	err = r.ledger.seek(r, p.heldBytes(partitions), r.attempt(nil), wake(), wake)
	p.settle(partitions, err != nil)
	return r.noteLost(err)
}

func (p *Pool) wake(partitions []int) (err error) {
	end := p.begin()
	defer func() { end(err) }()
	var back *reload
	err = p.mend(partitions)
	if err == nil {
		err = p.books.Wake(partitions, func(segments []pool.Block) error {
			p.mover.copied.Store(0) // of a try before, which lacked memory, nothing has stayed
			back = p.reload(partitions, (*poolSource)(p).segmentsOf(segments...))
			return (*poolSource)(p).backAll(segments, back)
		})
	}
	if err != nil {
		return cmp.Or(err, (*poolSource)(p).dropIdle())
	}
	if err = p.fromFiles(partitions); err == nil {
		err = back.came(math.MaxInt)
	}
	if err = cmp.Or(err, p.settleCopies()); err != nil { // what cannot lose its memory now has it until the next wake
		taken := p.books.Sleep(partitions, func(segments []pool.Block) error {
			return (*poolSource)(p).bareAll(segments, atOnce)
		})
		return cmp.Or(err, taken, (*poolSource)(p).dropIdle())
	}
	for _, partition := range partitions {
		p.forget(p.kept[partition].Swap(nil))
	}
	return nil
}

// mend maps again what a sleep that failed could not.
func (p *Pool) mend(partitions []int) (err error) {
	for _, partition := range partitions {
		torn := p.tornOf(partition)
		p.mutex.Lock()
		err = cmp.Or(err, (*poolSource)(p).mend(torn))
		p.mutex.Unlock()
	}
	return err
}

// allResting are the partitions of all pools that are not awake.
var allResting atomic.Int32

func (p *Pool) countResting(more int32) {
	allResting.Add(more)
	p.resting.Add(more)
}

// rest stops uses and allocations in partitions that are awake.
func (p *Pool) rest(partitions []int) error {
	p.countResting(int32(len(partitions)))
	err := p.books.Rest(partitions, false)
	if err != nil {
		p.countResting(-int32(len(partitions)))
	}
	return err
}

func (p *Pool) settle(partitions []int, asleep bool) {
	p.books.Settle(partitions, asleep)
	if !asleep {
		p.countResting(-int32(len(partitions)))
	}
}

// usable says whether a block of the pool may be used. Errors: Busy, InvalidState (it sleeps).
func (p *Pool) usable(b *block) error {
	if p == nil || p.resting.Load() == 0 || b.wrapped {
		return nil
	}
	if err := p.books.Usable(p.partitionAt(driver.Address(b.record.Address))); err != nil {
		return status.Errorf(status.CodeOf(err), "block 0x%016x cannot be used: %v", b.current(), err)
	}
	return nil
}

// asleep says that a block sleeps.
func (p *Pool) asleep(b *block) bool { return status.CodeOf(p.usable(b)) == status.InvalidState }

func (p *Pool) heldBytes(partitions []int) (bytes uint64) {
	for _, partition := range partitions {
		bytes += p.books.HeldBytes(partition)
	}
	return bytes
}

// keptBytes is how many bytes are kept for blocks that sleep and were not freed.
func (p *Pool) keptBytes() (bytes uint64) {
	for partition := range p.kept {
		if p.kept[partition].Load() != nil {
			bytes += p.books.HeldBytes(partition)
		}
	}
	return bytes
}

// endSleepers ends what is kept, and what moved it.
func (p *Pool) endSleepers() (first error) {
	for partition := range p.kept {
		p.forget(p.kept[partition].Swap(nil))
	}
	p.countResting(-p.resting.Load())
	return p.mover.end(p.device, p.host.Lost())
}
