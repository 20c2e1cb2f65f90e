// The bytes of tags that sleep: where they are, and how they come there and back.

package runtime

import (
	"cmp"
	"slices"
	"sync"

	"libmmsb/core/file"
	"libmmsb/core/pool"
	"libmmsb/core/safego"
	"libmmsb/core/status"
	"libmmsb/gpu/driver"
)

// keptTag is the bytes of a partition that sleeps, in pinned memory or in a file.
type keptTag struct {
	pieces []piece
	pinned pinned
	file   file.File
}

// piece is what is copied, written or read at once: bytes of several runs of addresses.
type piece struct {
	at    uint64 // in the memory or file, a multiple of what files can be written in past the page cache
	bytes uint64
	runs  []run
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
	some := piece{at: x.at, bytes: x.bytes}
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

// keep copies the bytes of a partition to where they are kept; nil where they are dropped.
func (p *Pool) keep(partition int, options SleepOptions) (*keptTag, error) {
	if options.Mode == SleepDrop {
		return nil, nil
	}
	k := &keptTag{}
	var length uint64
	k.pieces, length = p.pack(p.books.HeldIn(partition))
	if length == 0 {
		return k, nil
	}
	var err error
	if options.Mode == SleepFile {
		err = k.create(options.Folder, length)
	} else {
		k.pinned, err = takePinned(p.device, length)
	}
	if err == nil {
		err = p.move(k, k.pieces, true)
	}
	if err != nil {
		p.forget(k)
		return nil, err
	}
	return k, nil
}

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

// fetch copies what is kept of a partition back, as far as it is still held.
func (p *Pool) fetch(partition int, k *keptTag) error {
	var held []run
	for _, block := range p.books.HeldIn(partition) {
		held = append(held, run{address: p.addressOf(block), bytes: block.Count * pool.Unit})
	}
	slices.SortFunc(held, func(a, b run) int { return cmp.Compare(a.address, b.address) })
	var pieces []piece
	for i := range k.pieces {
		if some := k.pieces[i].only(held); len(some.runs) > 0 {
			pieces = append(pieces, some)
		}
	}
	return p.move(k, pieces, false)
}

// forget ends what is kept.
func (p *Pool) forget(k *keptTag) {
	switch {
	case k == nil:
	case k.file != nil:
		_ = k.file.Close()
	case k.pinned.address != 0:
		p.mover.mutex.Lock()
		p.mover.free(p.device, k.pinned)
		p.mover.mutex.Unlock()
	}
}

// mover copies pieces on several streams at a time. It has the streams from the first sleep to the end of the pool.
type mover struct {
	mutex sync.Mutex
	lanes []copyLane
	left  []pinned // that did not end
}

// copyLane is one of the streams, with pinned memory on the way to a file.
type copyLane struct {
	stream driver.Stream
	buffer pinned
}

// ready makes the lanes, so many of them with buffers; fewer, where there is no memory for more.
func (m *mover) ready(device driver.Device, buffers int) ([]copyLane, error) {
	for len(m.lanes) < laneCount {
		stream, err := device.CreateStream(0)
		if err != nil {
			return nil, err
		}
		m.lanes = append(m.lanes, copyLane{stream: stream})
	}
	for i := range buffers {
		buffer, err := takePinned(device, pieceBytes)
		switch {
		case err != nil && i > 0:
			return m.lanes[:i], nil
		case err != nil:
			return nil, err
		}
		m.lanes[i].buffer = buffer
	}
	return m.lanes, nil
}

// free ends pinned memory: at the end of the pool, where it does not now. The lock is held.
func (m *mover) free(device driver.Device, p pinned) {
	if p.give(device, false) != nil {
		m.left = append(m.left, p)
	}
}

func (m *mover) dropBuffers(device driver.Device) {
	for i := range m.lanes {
		if m.lanes[i].buffer.address != 0 {
			m.free(device, m.lanes[i].buffer)
			m.lanes[i].buffer = pinned{}
		}
	}
}

func (m *mover) end(device driver.Device, lost bool) (first error) {
	for _, l := range m.lanes {
		first = cmp.Or(first, device.DestroyStream(l.stream))
	}
	for _, p := range m.left {
		first = cmp.Or(first, p.give(device, lost))
	}
	m.lanes, m.left = nil, nil
	return first
}

// move copies pieces out of the device, or back, and returns when they are there.
func (p *Pool) move(k *keptTag, pieces []piece, out bool) error {
	m := &p.mover
	m.mutex.Lock()
	defer m.mutex.Unlock()
	if k.file != nil {
		defer m.dropBuffers(p.device)
		lanes, err := m.ready(p.device, min(laneCount, len(pieces)))
		if err != nil {
			return err
		}
		return p.moveFile(k.file, lanes[:min(len(lanes), len(pieces))], pieces, out)
	}
	lanes, err := m.ready(p.device, 0)
	if err != nil {
		return err
	}
	for i := range pieces {
		if err = p.copy(lanes[i%len(lanes)], k.pinned.address+driver.Address(pieces[i].at), &pieces[i], out); err != nil {
			break
		}
	}
	for _, l := range lanes {
		err = cmp.Or(err, p.await(l))
	}
	return err
}

// copy queues the copies of a piece between the device and the host.
func (p *Pool) copy(l copyLane, host driver.Address, x *piece, out bool) error {
	copies, bytes := make([]driver.Copy, len(x.runs)), uint64(0)
	for i, r := range x.runs {
		copies[i] = driver.Copy{To: r.address, From: host + driver.Address(r.at), Bytes: r.bytes}
		if out {
			copies[i].To, copies[i].From = copies[i].From, copies[i].To
		}
		bytes += r.bytes
	}
	err := p.device.Copy(l.stream, copies...)
	if err == nil {
		p.copied.Add(bytes)
	}
	return err
}

// await waits for a lane. What it has queued uses memory that will go: so it asks twice before it gives up.
func (p *Pool) await(l copyLane) error {
	err := p.device.SynchronizeStream(l.stream)
	if err != nil {
		_ = p.device.SynchronizeStream(l.stream)
	}
	return err
}

// moveFile is move between the device and a file: the lanes have every so many-th piece each, so that copies and the disk work
// beside each other.
func (p *Pool) moveFile(f file.File, lanes []copyLane, pieces []piece, out bool) (first error) {
	results := make(chan error, len(lanes))
	for number, l := range lanes {
		safego.Go(func() {
			err := error(status.Errorf(status.Internal, "copies by way of a file have not ended"))
			defer func() { results <- err }()
			for i := number; i < len(pieces); i += len(lanes) {
				if err = p.copyFile(f, l, &pieces[i], out); err != nil {
					return
				}
			}
			err = nil
		})
	}
	for range lanes {
		first = cmp.Or(first, <-results)
	}
	return first
}

func (p *Pool) copyFile(f file.File, l copyLane, x *piece, out bool) error {
	buffer, at := pinnedBytes(l.buffer.address, int(x.padded())), int64(x.at)
	if !out {
		switch read, err := file.ReadFull(f, buffer, at); {
		case err != nil:
			return file.Failed(err, "cannot read %d bytes at offset %d of the file of a tag that sleeps", len(buffer), at)
		case read < len(buffer):
			return status.Errorf(status.Corrupt, "file of a tag that sleeps ends at offset %d, in %d bytes at %d", at+int64(read),
				len(buffer), at)
		}
	}
	err := p.copy(l, l.buffer.address, x, out)
	err = cmp.Or(err, p.await(l))
	if err == nil && out {
		if err = file.WriteBlocks(f, buffer, at); err != nil {
			err = file.Failed(err, "cannot write %d bytes at offset %d of the file of a tag that sleeps", len(buffer), at)
		}
	}
	return err
}
