// Pictures of a runtime's memory: what the pool's books, the blocks and the log say.

package runtime

import (
	"cmp"
	"slices"
	"time"

	"libmmsb/core/picture"
	"libmmsb/core/pool"
	"libmmsb/core/status"
	"libmmsb/gpu/blocks"
	"libmmsb/gpu/driver"
)

// Snapshot is a picture of the runtime's memory. With a pool it shows the books at one moment, whatever threads do meanwhile: a
// segment is a stretch of addresses that have memory, and what is held there while no block has it is nameless. The history, and
// who allocated a block, is what the log has; nil: nothing.
func (r *Runtime) Snapshot(log *Log) *picture.Picture {
	info := r.device.Info()
	p := &picture.Picture{Device: info.Ordinal, Name: info.Name, Bytes: info.Bytes, Pool: r.pool != nil}
	records := r.records(nil)
	if r.pool != nil {
		for _, s := range r.streams.snapshot() {
			s.giveSpans()
		}
		var places []place
		r.pool.books.Walk(func(pieces []pool.Piece) { places = r.pool.places(pieces) })
		records = r.records(records) // what came meanwhile, too: the later record of an address counts
		p.Segments = segmentsOf(places, records)
	} else {
		p.Segments = alone(records)
	}
	if log != nil {
		p.Events, p.Lost = log.events()
		remember(p)
	}
	p.Time = time.Now().UnixMicro()
	p.Tags = namesOf(p)
	return p
}

// heldBlock is a block as its record says.
type heldBlock struct {
	address driver.Address
	bytes   uint64
	block   picture.Block
}

// records appends the blocks that have memory. What sleeps has none.
func (r *Runtime) records(all []heldBlock) []heldBlock {
	add := func(memory Memory, stream *Stream, state picture.State) {
		all = append(all, heldBlock{memory.Address, memory.Bytes, picture.Block{Bytes: memory.Bytes, Asked: memory.Bytes,
			State: state, Tag: uint32(memory.Tag), Stream: uint64(stream.index)}})
	}
	allBlocks.all(func(b *block) {
		info, live := b.info()
		what := b.what()
		switch {
		case b.wrapped:
		case live && info.Stream.runtime == r && !info.Asleep:
			add(Memory{Address: info.Address, Bytes: info.Bytes, Tag: info.Tag}, info.Stream, picture.Live)
		case !live && what == blocks.Ending && b.stream.runtime == r:
			add(b.memory(), b.stream, picture.Awaiting)
		case !live && what == blocks.Cached && b.stream.runtime == r: // a magazine keeps it; statistics want what was asked for
			add(b.memory(), b.stream, picture.Nameless)
		}
	})
	return all
}

// byAddress sorts records; of those of one address, the earlier one comes first.
func byAddress(records []heldBlock) {
	slices.SortStableFunc(records, func(a, b heldBlock) int { return cmp.Compare(a.address, b.address) })
}

// place is a piece of the books, and where it lies.
type place struct {
	pool.Piece
	first driver.Address
}

func (p *Pool) places(pieces []pool.Piece) []place {
	places := make([]place, len(pieces))
	for i, piece := range pieces {
		places[i] = place{piece, p.addressOf(piece.Block)}
	}
	return places
}

// segmentsOf are the pieces of the books, in stretches, with the blocks that have them. The guard's blocks begin inside theirs.
func segmentsOf(places []place, records []heldBlock) (segments []picture.Segment) {
	byAddress(records)
	for i, piece := range places {
		first := piece.first
		b := picture.Block{Bytes: piece.Count * pool.Unit}
		end := first + driver.Address(b.Bytes)
		switch {
		case piece.Free:
			b.State, b.Stream = picture.Passing, uint64(piece.Stream)
			if piece.Past {
				b.State = picture.Free
			}
		default:
			b.State = picture.Nameless
			at, _ := slices.BinarySearchFunc(records, first, func(r heldBlock, a driver.Address) int {
				return cmp.Compare(r.address, a)
			})
			for ; at < len(records) && records[at].address < end; at++ {
				if r := &records[at]; r.bytes <= uint64(end-r.address) {
					bytes := b.Bytes
					b = r.block
					b.Bytes, b.Before = bytes, uint64(r.address-first)
				}
			}
		}
		if i == 0 || places[i-1].Space != piece.Space || places[i-1].Offset+places[i-1].Count != piece.Offset {
			segments = append(segments, picture.Segment{Address: uint64(first), Small: piece.Space%pool.Spaces == pool.Small})
		}
		last := len(segments) - 1
		segments[last].Bytes += b.Bytes
		segments[last].Blocks = append(segments[last].Blocks, b)
	}
	slices.SortFunc(segments, func(a, b picture.Segment) int { return cmp.Compare(a.Address, b.Address) })
	return segments
}

// alone are blocks as segments of their own. Where the device gave an address out anew while the records were read, the later
// record counts.
func alone(records []heldBlock) (segments []picture.Segment) {
	byAddress(records)
	for _, r := range records {
		if last := len(segments) - 1; last >= 0 && segments[last].Address+segments[last].Bytes > uint64(r.address) {
			segments = segments[:last]
		}
		segments = append(segments, picture.Segment{Address: uint64(r.address), Bytes: r.bytes, Small: r.bytes <= pool.MostSmall,
			Blocks: []picture.Block{r.block}})
	}
	return segments
}

// logEvents are the actions that pictures show.
var logEvents = map[LogAction]picture.Action{
	LogAllocate: picture.Allocated, LogAllocateFailure: picture.Refused, LogFree: picture.Freed,
	LogFreeFailure: picture.Allocated, // it was noted as free before, and is not
	LogMap:         picture.Mapped, LogUnmap: picture.Unmapped,
}

// events are what the ring has.
func (l *Log) events() (events []picture.Event, lost uint64) {
	var records [256]LogRecord
	for behind := uint64(0); ; {
		count, more := l.Read(behind, records[:])
		lost += more
		if count == 0 {
			return events, lost
		}
		for i := range records[:count] {
			r := &records[i]
			behind = r.Number
			action, known := logEvents[r.Action]
			if !known || r.Action == LogAllocateFailure && r.Code != status.OutOfMemory && r.Code != status.Limit {
				continue
			}
			events = append(events, picture.Event{Time: r.Time / 1000, Action: action, Address: uint64(r.Address), Bytes: r.Bytes,
				Tag: uint32(r.Tag), Stream: uint64(r.Stream), Thread: uint32(r.Thread)})
		}
	}
}

// remember notes in the blocks who allocated them, and when. A block lies at the address of its event, or the guard has put it
// behind the beginning of its piece.
func remember(p *picture.Picture) {
	held := map[uint64]*picture.Block{}
	for i := range p.Segments {
		s := &p.Segments[i]
		address := s.Address
		for j := range s.Blocks {
			if b := &s.Blocks[j]; b.Asked > 0 {
				held[address+b.Before] = b
			}
			address += s.Blocks[j].Bytes
		}
	}
	for i := range p.Events {
		if e := &p.Events[i]; e.Action == picture.Allocated {
			if b := held[e.Address]; b != nil && b.Asked == e.Bytes {
				b.Thread, b.Time = e.Thread, e.Time
			}
		}
	}
}

// namesOf are the names of the tags up to the last one that the picture has.
func namesOf(p *picture.Picture) []string {
	most := uint32(0)
	for i := range p.Segments {
		for j := range p.Segments[i].Blocks {
			most = max(most, p.Segments[i].Blocks[j].Tag)
		}
	}
	for i := range p.Events {
		most = max(most, p.Events[i].Tag)
	}
	tags.RLock()
	defer tags.RUnlock()
	return slices.Clone(tags.names[:most+1])
}
