// Pictures and statistics of a runtime's memory.

package devices

import (
	"io"

	"libmmsb/core/abi"
	"libmmsb/core/picture"
	"libmmsb/core/pool"
	"libmmsb/core/status"
	"libmmsb/gpu/runtime"
)

// Snapshot is a picture of the runtime's memory, with its log and its statistics. Errors: StaleHandle.
func (r *Runtime) Snapshot() (p *picture.Picture, err error) {
	err = r.Use(func() error {
		p = r.Runtime.Snapshot(r.log)
		p.Statistics = r.statisticsOf(p)
		return nil
	})
	return p, err
}

// WritePicture writes a picture. Errors: InvalidArgument (a form that does not exist), those of the writer.
func WritePicture(p *picture.Picture, to io.Writer, format int32) error {
	switch format {
	case abi.PictureTorch:
		return p.WriteTorch(to)
	case abi.PictureJSON:
		return p.WriteJSON(to)
	case abi.PictureHTML:
		return p.WriteHTML(to)
	}
	return status.Errorf(status.InvalidArgument, "format is %d, not 0 (PyTorch), 1 (JSON) or 2 (HTML)", format)
}

// MemoryStatistics are the numbers that there are under PyTorch's names. Errors: StaleHandle.
func (r *Runtime) MemoryStatistics() (entries []picture.Entry, err error) {
	err = r.Use(func() error {
		entries = r.statisticsOf(r.Runtime.Snapshot(nil))
		return nil
	})
	return entries, err
}

// The pools of PyTorch.
const (
	all = iota
	small
	large
	pools
)

var poolNames = [pools]string{"all", "small_pool", "large_pool"}

// now is what a picture has in a pool of PyTorch.
type now struct {
	blocks, bytes, asked uint64 // of live blocks; asked also of those that wait for a use's end
	split, splitBytes    uint64 // free pieces of segments that are partly held
}

const segmentBytes = 2 << 20

// count counts a segment, of which parts may go back or, where it goes back whole, none.
func (n *now) count(s *picture.Segment, goesWhole bool) {
	var at, free uint64 // free: where the free piece begins
	piece := func() {   // it ends
		whole := at/segmentBytes*segmentBytes - min(at/segmentBytes*segmentBytes, (free+segmentBytes-1)/segmentBytes*segmentBytes)
		if goesWhole && at-free < s.Bytes {
			whole = 0
		}
		if rest := at - free - whole; rest > 0 {
			n.split++
			n.splitBytes += rest
		}
	}
	for i := range s.Blocks {
		b := &s.Blocks[i]
		if b.State >= picture.Live {
			piece()
			free = at + b.Bytes
		}
		at += b.Bytes
		n.asked += b.Asked
		if b.State == picture.Live {
			n.blocks++
			n.bytes += b.Bytes
		}
	}
	piece()
}

func (n *now) add(other *now) {
	n.blocks += other.blocks
	n.bytes += other.bytes
	n.asked += other.asked
	n.split += other.split
	n.splitBytes += other.splitBytes
}

// list is statistics as they are put together.
type list []picture.Entry

func (l *list) put(name string, value uint64) {
	*l = append(*l, picture.Entry{Name: name, Value: value})
}

func (l *list) tally(family string, of int, t pool.Tally) {
	name := family + "." + poolNames[of] + "."
	l.put(name+"current", t.Current)
	l.put(name+"peak", t.Peak)
	l.put(name+"allocated", t.Added)
	l.put(name+"freed", t.Removed)
}

// statisticsOf are those of now; what lies where is what the picture shows.
func (r *Runtime) statisticsOf(p *picture.Picture) []picture.Entry {
	var is [pools]now
	for i := range p.Segments {
		of := &is[large]
		if p.Segments[i].Small {
			of = &is[small]
		}
		of.count(&p.Segments[i], r.Runtime.Pool() != nil && r.Runtime.Pool().Whole())
	}
	is[all] = is[small]
	is[all].add(&is[large])
	var l list
	if of := r.Runtime.Pool(); of != nil {
		r.poolStatistics(&l, of, &is)
	} else {
		r.orderedStatistics(&l, &is[all])
	}
	return l
}

func (r *Runtime) poolStatistics(l *list, of *runtime.Pool, is *[pools]now) {
	spaces, both := of.Flows()
	flows := [pools]pool.Flow{all: both, small: spaces[pool.Small], large: spaces[pool.Large]}
	usage := r.Usage()
	for i := range flows {
		f, n := &flows[i], &is[i]
		live := pool.Tally{Current: n.blocks, Peak: f.Blocks.Peak, Added: f.Blocks.Added, Removed: f.Blocks.Added - n.blocks}
		if i == all {
			live.Current, live.Added, live.Removed = usage.Blocks, usage.Allocations, usage.Frees
		}
		l.tally("allocation", i, live)
		l.tally("allocated_bytes", i, pool.Tally{Current: n.bytes, Peak: f.Held.Peak, Added: f.Held.Added,
			Removed: f.Held.Added - n.bytes})
		l.tally("active", i, f.Blocks)
		l.tally("active_bytes", i, f.Held)
		l.tally("segment", i, pool.Tally{Current: f.Reserved.Current / segmentBytes, Peak: f.Reserved.Peak / segmentBytes,
			Added: f.Reserved.Added / segmentBytes, Removed: f.Reserved.Removed / segmentBytes})
		l.tally("reserved_bytes", i, f.Reserved)
		l.put("requested_bytes."+poolNames[i]+".current", n.asked)
		l.put("inactive_split."+poolNames[i]+".current", n.split)
		l.put("inactive_split_bytes."+poolNames[i]+".current", n.splitBytes)
	}
	made, ended := of.Made()
	r.scalars(l, of.Statistics().Statistics, made, ended)
}

// orderedStatistics are those of a runtime without a pool: each block is an allocation of the driver.
func (r *Runtime) orderedStatistics(l *list, n *now) {
	counted, usage := r.statistics.All(), r.Usage()
	l.put("allocation.all.current", usage.Blocks)
	l.put("allocation.all.allocated", usage.Allocations)
	l.put("allocation.all.freed", usage.Frees)
	l.put("allocated_bytes.all.current", n.bytes)
	l.put("requested_bytes.all.current", n.asked)
	l.put("active.all.current", counted.Blocks)
	l.put("active.all.allocated", counted.Ever)
	l.put("active.all.freed", counted.Ever-counted.Blocks)
	l.tally("active_bytes", all, pool.Tally{Current: counted.Live, Peak: counted.Peak, Added: counted.Total,
		Removed: counted.Total - counted.Live})
	r.scalars(l, pool.Statistics{}, usage.Allocations, usage.Frees)
}

func (r *Runtime) scalars(l *list, s pool.Statistics, made, ended uint64) {
	l.put("num_alloc_retries", s.Retries)
	l.put("num_ooms", r.Usage().Failures)
	l.put("num_sync_all_streams", 0) // no allocation waits for the device
	l.put("num_device_alloc", made)
	l.put("num_device_free", ended)
	l.put("largest_free_block", s.LargestFree)
}
