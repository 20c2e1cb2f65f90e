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

// now is what a picture has in a pool of PyTorch: bytes by where blocks lie, what was asked for by its size.
type now struct {
	blocks, bytes, asked uint64 // of live blocks; asked also of those that wait for a use's end, or that their stream keeps
}

const segmentBytes = 2 << 20

// list is statistics as they are put together.
type list []picture.Entry

func (l *list) put(name string, value uint64) {
	*l = append(*l, picture.Entry{Name: name, Value: value})
}

// level is a tally of what does not come and go by itself.
func (l *list) level(family string, of int, t pool.Tally) {
	name := family + "." + poolNames[of] + "."
	l.put(name+"current", t.Current)
	l.put(name+"peak", t.Peak)
}

func (l *list) tally(family string, of int, t pool.Tally) {
	l.level(family, of, t)
	name := family + "." + poolNames[of] + "."
	l.put(name+"allocated", t.Added)
	l.put(name+"freed", t.Removed)
}

// sum is what is there now; what ever came is counted elsewhere, and what has gone is the difference.
func sum(current, peak, added uint64) pool.Tally {
	added = max(added, current)
	return pool.Tally{Current: current, Peak: max(peak, current), Added: added, Removed: added - current}
}

// statisticsOf are those of now; what lies where is what the picture shows. What ever came is read behind it: it is no less.
func (r *Runtime) statisticsOf(p *picture.Picture) []picture.Entry {
	var is [pools]now
	for i := range p.Segments {
		lies := large
		if p.Segments[i].Small {
			lies = small
		}
		for j := range p.Segments[i].Blocks {
			b := &p.Segments[i].Blocks[j]
			asked := large
			if b.Asked <= pool.MostSmall {
				asked = small
			}
			for _, of := range []int{asked, all} {
				is[of].asked += b.Asked
			}
			if b.State == picture.Live {
				for _, of := range []int{lies, all} {
					is[of].blocks++
					is[of].bytes += b.Bytes
				}
			}
		}
	}
	var l list
	if of := r.Runtime.Pool(); of != nil {
		r.poolStatistics(&l, of, &is)
	} else {
		r.orderedStatistics(&l, &is[all])
	}
	return l
}

// poolStatistics: to the books, a block that a stream gives out again itself was neither given back nor given. So these are
// counted in both.
func (r *Runtime) poolStatistics(l *list, of *runtime.Pool, is *[pools]now) {
	spaces, both := of.Flows()
	flows := [pools]pool.Flow{all: both, small: spaces[pool.Small], large: spaces[pool.Large]}
	asked := [pools]runtime.Tally{all: r.statistics.All(), small: r.statistics.OfSize(pool.Small),
		large: r.statistics.OfSize(pool.Large)}
	var hits, hitBytes [pools]uint64
	hits[small], hitBytes[small] = r.Hits(pool.Small)
	hits[large], hitBytes[large] = r.Hits(pool.Large)
	hits[all], hitBytes[all] = hits[small]+hits[large], hitBytes[small]+hitBytes[large]
	usage := r.Usage()
	for i := range flows {
		f, n := &flows[i], &is[i]
		live := sum(n.blocks, f.Blocks.Peak, f.Blocks.Added+hits[i])
		if i == all {
			live.Current, live.Added, live.Removed = usage.Blocks, usage.Allocations, usage.Frees
			live.Peak = max(live.Peak, live.Current) // which was read behind it
		}
		l.tally("allocation", i, live)
		l.tally("allocated_bytes", i, sum(n.bytes, f.Held.Peak, f.Held.Added+hitBytes[i]))
		l.tally("requested_bytes", i, sum(n.asked, asked[i].Peak, asked[i].Total))
		l.tally("active", i, sum(f.Blocks.Current, f.Blocks.Peak, f.Blocks.Added+hits[i]))
		l.tally("active_bytes", i, sum(f.Held.Current, f.Held.Peak, f.Held.Added+hitBytes[i]))
		l.tally("segment", i, pool.Tally{Current: f.Reserved.Current / segmentBytes, Peak: f.Reserved.Peak / segmentBytes,
			Added: f.Reserved.Added / segmentBytes, Removed: f.Reserved.Removed / segmentBytes})
		l.tally("reserved_bytes", i, f.Reserved)
		l.level("inactive_split", i, f.Splits)
		l.level("inactive_split_bytes", i, f.SplitBytes)
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
	l.tally("allocated_bytes", all, sum(n.bytes, counted.Peak, counted.Total))
	l.tally("requested_bytes", all, sum(n.asked, counted.Peak, counted.Total))
	l.put("active.all.current", counted.Blocks)
	l.put("active.all.allocated", counted.Ever)
	l.put("active.all.freed", counted.Ever-counted.Blocks)
	l.tally("active_bytes", all, sum(counted.Live, counted.Peak, counted.Total))
	r.scalars(l, pool.Statistics{}, usage.Allocations, usage.Frees)
}

func (r *Runtime) scalars(l *list, s pool.Statistics, made, ended uint64) {
	l.put("num_alloc_retries", s.Retries)
	usage := r.Usage()
	l.put("num_ooms", usage.Failures)
	l.put("num_sync_all_streams", usage.Settles)
	l.put("num_device_alloc", made)
	l.put("num_device_free", ended)
	l.put("largest_free_block", s.LargestFree)
}
