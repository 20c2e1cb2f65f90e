// Pictures in the schema of PyTorch's torch.cuda.memory._snapshot (torch/cuda/memory.py: Segment, Block, TraceEntry), as the
// pickle that pytorch.org/memory_viz opens.

package picture

import "io"

// stateNames are PyTorch's. To it, what no block has is free. What its comments call active_awaiting_free it writes, and its page
// reads, as active_pending_free.
var stateNames = [states]string{Free: "inactive", Passing: "inactive", Nameless: "inactive", Live: "active_allocated",
	Awaiting: "active_pending_free"}

// traceNames are PyTorch's names of what an event is, in its order: in a pool, and where each block is a segment of its own.
var traceNames = [actions]map[bool][]string{
	Allocated: {true: {"alloc"}, false: {"segment_alloc", "alloc"}},
	Freed: {true: {"free_requested", "free_completed"},
		false: {"free_requested", "free_completed", "segment_free"}},
	Refused:  {true: {"oom"}, false: {"oom"}},
	Mapped:   {true: {"segment_map"}},
	Unmapped: {true: {"segment_unmap"}},
}

// WriteTorch writes the pickle. Memory that is free to its stream at once is free to PyTorch, too, so that a free is requested
// and completed at the same time. Without a pool each block is a segment, which comes and goes with it.
func (p *Picture) WriteTorch(to io.Writer) error {
	out := newPickler(to)
	out.dict(func() {
		out.text("segments")
		out.list(len(p.Segments), func(i int) { p.torchSegment(out, &p.Segments[i]) })
		out.text("device_traces")
		out.list(p.Device+1, func(device int) {
			if device < p.Device {
				out.list(0, nil)
				return
			}
			p.torchTrace(out)
		})
	})
	return out.end()
}

func (p *Picture) torchSegment(out *pickler, s *Segment) {
	var allocated, active, asked uint64
	for i := range s.Blocks {
		switch b := &s.Blocks[i]; b.State {
		case Live:
			allocated += b.Bytes
			fallthrough
		case Awaiting:
			active += b.Bytes
			asked += b.Asked
		}
	}
	kind := "large"
	if s.Small {
		kind = "small"
	}
	out.dict(func() {
		out.field("device", uint64(p.Device))
		out.field("address", s.Address)
		out.field("total_size", s.Bytes)
		out.field("stream", 0) // all streams have blocks of it
		out.name("segment_type", kind)
		out.text("segment_pool_id")
		out.pair(0, 0)
		out.text("is_expandable")
		out.truth(p.Pool)
		out.field("allocated_size", allocated)
		out.field("active_size", active)
		out.field("requested_size", asked)
		out.text("frames")
		out.list(0, nil)
		out.text("blocks")
		address := s.Address
		out.list(len(s.Blocks), func(i int) {
			b := &s.Blocks[i]
			out.dict(func() {
				out.field("address", address)
				out.field("size", b.Bytes)
				out.field("requested_size", b.Asked)
				out.name("state", stateNames[b.State])
				out.text("frames")
				p.frames(out, b.State == Live || b.State == Awaiting, b.Tag, b.Thread)
			})
			address += b.Bytes
		})
	})
}

// frames are in place of a stack who allocated a block: the tag, and the thread as the line.
func (p *Picture) frames(out *pickler, known bool, tag, thread uint32) {
	count := 0
	if known {
		count = 1
	}
	out.again([3]uint32{uint32(count), tag, thread}, func() {
		out.list(count, func(int) {
			out.dict(func() {
				out.name("filename", "thread")
				out.field("line", uint64(thread))
				out.name("name", p.Tags[tag])
			})
		})
	})
}

// torchTrace writes the events.
func (p *Picture) torchTrace(out *pickler) {
	count := 0
	for i := range p.Events {
		count += len(traceNames[p.Events[i].Action][p.Pool])
	}
	at, left, now := -1, []string(nil), p.begin()
	out.list(count, func(int) {
		for len(left) == 0 {
			at++
			left = traceNames[p.Events[at].Action][p.Pool]
			now.pass(&p.Events[at], p.Pool)
		}
		e := &p.Events[at]
		name := left[0]
		left = left[1:]
		out.dict(func() {
			out.name("action", name)
			out.field("addr", e.Address)
			out.field("size", e.Bytes)
			out.field("stream", e.Stream)
			out.field("time_us", uint64(e.Time))
			out.text("frames")
			p.frames(out, e.Action == Allocated || e.Action == Freed || e.Action == Refused, e.Tag, e.Thread)
			if e.Action == Refused { // what the pool has not taken
				out.field("device_free", p.Bytes-min(p.Bytes, now.at(0).Reserved))
			}
		})
	})
}
