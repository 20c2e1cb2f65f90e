// The snapshot that PyTorch's torch.cuda.memory._dump_snapshot writes.

package trace

import (
	"bufio"
	"cmp"
	"math"
	"slices"

	"libmmsb/core/status"
)

// A snapshot has the last events of each device (device_traces), and what the allocator had at the end (segments).
//
// Replayed are `alloc`, and `free_completed`, with which PyTorch's allocator may use the block again: `free_requested` comes
// before it, at once, or earlier by the work that other streams have left to do with the block. The others tell of the driver
// (segment_*) or of nothing that is allocated.
//
// The ring of events may have lost its beginning, or the recording began late. A block whose first event is its end was allocated
// before, and so was one that is live at the end without an event: they are taken first. A second free without an allocation
// between is an error, as is everything else that a lost beginning does not explain.

var pytorchKeys = map[string]bool{"segments": true, "device_traces": true, "action": true, "addr": true, "size": true,
	"stream": true, "device": true, "address": true, "blocks": true, "state": true, "requested_size": true, "total_size": true,
	"time_us": true}

// What an action of PyTorch's means here. Those of segments say what is reserved.
const (
	playsNothing = iota
	takesBlock
	givesBlock
	addsSegment
	removesSegment
	refusesRequest
)

var pytorchActions = map[string]int{"alloc": takesBlock, "free_requested": playsNothing, "free_completed": givesBlock,
	"segment_alloc": addsSegment, "segment_map": addsSegment, "segment_free": removesSegment, "segment_unmap": removesSegment,
	"oom": refusesRequest, "snapshot": playsNothing, "annotate": playsNothing, "user_defined": playsNothing}

// pytorchBlock is a block or segment of PyTorch's, and pytorchEvent what an event says of one.
type (
	pytorchBlock struct{ address, bytes, stream uint64 }
	pytorchEvent struct {
		pytorchBlock
		means int
		time  int64
		timed bool
	}
)

func readPyTorch(in *bufio.Reader, options Options) (*Trace, error) {
	root, err := readPickle(in, pytorchKeys)
	if err != nil {
		return nil, err
	}
	snapshot, is := root.(*pickleDict)
	if !is {
		return nil, status.Errorf(status.Format, "pickle is not a memory snapshot of PyTorch: dict is missing")
	}
	traced, device, err := chooseDevice(snapshot, options.Device)
	if err != nil {
		return nil, err
	}
	live, reserved, err := liveAtEnd(snapshot, device)
	if err != nil {
		return nil, err
	}
	options.Lost = true
	b := newBuilder("PyTorch", "event", options)
	events := make([]pytorchEvent, len(traced))
	for at := range events {
		if events[at], err = b.pytorchEvent(uint64(at)+1, traced[at]); err != nil {
			return nil, err
		}
	}
	for at, e := range events {
		r := record{number: uint64(at) + 1, address: e.address, bytes: e.bytes, stream: e.stream, time: e.time, timed: e.timed}
		switch e.means {
		case takesBlock:
			err = b.take(&r)
		case givesBlock:
			err = b.give(&r)
		case refusesRequest:
			b.trace.Refused++
		default:
			b.trace.Other++
		}
		if err != nil {
			return nil, err
		}
	}
	for _, block := range live {
		if b.seen[block.address] {
			continue
		}
		if _, ok := b.before(&record{address: block.address, bytes: block.bytes, stream: block.stream}); !ok {
			return nil, status.Errorf(status.Limit, "snapshot has more than %d blocks", uint64(mostBlocks))
		}
	}
	if b.trace.Reserved, err = b.mostReserved(events, reserved); err != nil {
		return nil, err
	}
	return b.finish()
}

// items are those of a list; none where it is missing.
func items(of any) []any {
	if list, is := of.(*pickleList); is {
		return list.items
	}
	return nil
}

// chooseDevice is a device's events.
func chooseDevice(snapshot *pickleDict, wanted int) (events []any, device int, err error) {
	traces, is := snapshot.get("device_traces").(*pickleList)
	if !is {
		return nil, 0, status.Errorf(status.Format, "pickle is not a memory snapshot of PyTorch: device_traces is missing")
	}
	if wanted >= len(traces.items) {
		return nil, 0, status.Errorf(status.NotFound, "device %d has no trace in the snapshot, %d devices have one", wanted,
			len(traces.items))
	}
	if wanted >= 0 {
		return items(traces.items[wanted]), wanted, nil
	}
	found := -1
	for number, of := range traces.items {
		if len(items(of)) == 0 {
			continue
		}
		if found >= 0 {
			return nil, 0, status.Errorf(status.InvalidArgument,
				"devices %d and %d have events in the snapshot; choose one of them", found, number)
		}
		found = number
	}
	if found < 0 {
		return nil, 0, status.Errorf(status.NotFound, "none of %d devices has events in the snapshot: history was not recorded",
			len(traces.items))
	}
	return items(traces.items[found]), found, nil
}

// natural is a number of a dict that is not negative; missing is 0.
func natural(dict *pickleDict, key string) (uint64, bool) {
	switch value := dict.get(key).(type) {
	case nil:
		return 0, true
	case int64:
		return uint64(value), value >= 0
	case uint64:
		return value, true
	default:
		return 0, false
	}
}

// event reads an event. Its numbers are looked at where they matter.
func (b *builder) pytorchEvent(number uint64, of any) (e pytorchEvent, err error) {
	dict, is := of.(*pickleDict)
	if !is {
		return e, b.fail(status.Format, number, "event is not a dict")
	}
	action, _ := dict.get("action").(string)
	if e.means, is = pytorchActions[action]; !is {
		return e, b.fail(status.Format, number, "action %q does not exist", action)
	}
	if e.means == playsNothing || e.means == refusesRequest {
		return e, nil
	}
	if at, is := natural(dict, "time_us"); is && dict.get("time_us") != nil { // old snapshots have none
		e.time, e.timed = int64(min(at, math.MaxInt64)), true
	}
	var numbers [3]uint64
	for at, key := range []string{"addr", "size", "stream"} {
		if numbers[at], is = natural(dict, key); !is {
			return e, b.fail(status.Format, number, "%s is not a number of 64 bits, at least 0", key)
		}
	}
	if e.pytorchBlock = (pytorchBlock{numbers[0], numbers[1], numbers[2]}); e.bytes == 0 {
		return e, b.fail(status.Format, number, "size is 0, at least 1 is needed")
	}
	return e, nil
}

// liveAtEnd are the blocks that a device's segments have at the end, and how many bytes the segments have. Old snapshots say
// neither the device of a segment nor the address of a block.
func liveAtEnd(snapshot *pickleDict, device int) (live []pytorchBlock, reserved uint64, err error) {
	for number, of := range items(snapshot.get("segments")) {
		fail := func(what string) error {
			return status.Errorf(status.Format, "segment %d of the snapshot: %s is not a number of 64 bits, at least 0",
				number+1, what)
		}
		segment, is := of.(*pickleDict)
		if !is {
			return nil, 0, status.Errorf(status.Format, "segment %d of the snapshot is not a dict", number+1)
		}
		var values [4]uint64
		for at, key := range []string{"device", "address", "total_size", "stream"} {
			if values[at], is = natural(segment, key); !is {
				return nil, 0, fail(key)
			}
		}
		if values[0] != uint64(device) {
			continue
		}
		next, stream := values[1], values[3]
		if reserved += values[2]; reserved < values[2] {
			return nil, 0, fail("sum of total_size")
		}
		for _, of := range items(segment.get("blocks")) {
			dict, is := of.(*pickleDict)
			if !is {
				return nil, 0, fail("block")
			}
			var numbers [3]uint64
			for at, key := range []string{"address", "size", "requested_size"} {
				if numbers[at], is = natural(dict, key); !is {
					return nil, 0, fail(key + " of a block")
				}
			}
			address, size := cmp.Or(numbers[0], next), numbers[1]
			next = address + size
			if bytes := cmp.Or(numbers[2], size); bytes > 0 && isLive(dict.get("state")) {
				live = append(live, pytorchBlock{address, bytes, stream})
			}
		}
	}
	return live, reserved, nil
}

// isLive says whether a block's state is one in which nobody else may have it.
func isLive(state any) bool {
	text, _ := state.(string)
	return text == "active_allocated" || text == "active_awaiting_free" || text == "active_pending_free"
}

// mostReserved goes from the end to the beginning, which may be lost.
func (b *builder) mostReserved(events []pytorchEvent, atEnd uint64) (most uint64, err error) {
	most = atEnd
	for at, e := range slices.Backward(events) {
		switch e.means {
		case addsSegment:
			atEnd -= min(atEnd, e.bytes)
		case removesSegment:
			if atEnd += e.bytes; atEnd < e.bytes {
				return 0, b.fail(status.Format, uint64(at)+1, "bytes of segments exceed 64 bits")
			}
			most = max(most, atEnd)
		}
	}
	return most, nil
}
