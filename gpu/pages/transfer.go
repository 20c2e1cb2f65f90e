// Many ranges on their way between the host and a device: what a sync moves.

package pages

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"libmmsb/core/residency"
	"libmmsb/gpu/driver"
	"libmmsb/gpu/kernels"
	gpu "libmmsb/gpu/runtime"
)

const (
	// tableBytes of a lane's staging memory have the list that a kernel reads, the rest has bytes on their way.
	tableBytes   = 256 << 10
	payloadBytes = stagingBytes - tableBytes
	mostSpans    = tableBytes / 32 // a kernels.Span each
	// spanAlignment lets kernels move 16 bytes at a time.
	spanAlignment = 16
	// usualThreshold is that of devices where nothing is measured: simulated ones.
	usualThreshold = 32 << 10
)

// thresholds are from how many bytes on a range goes by the copy engine, by the device's UUID: measured once in a process.
var thresholds sync.Map

// step is what goes at a time through the staging memory of a lane.
type step struct {
	*lane
	spans, large []kernels.Span // what a kernel moves, and the copy engine
	parts        []residency.Transfer
	toDevice     bool
}

// Transfer is residency.Devices'. Ranges go through the staging memory of two lanes, where it has two: while the bytes of one are
// on their way, the other's are packed or unpacked. What lies together on the device is one range. Large ranges are a batch of
// copies, the small ones of a step one kernel.
func (c *context) Transfer(ordinal int32, toDevice bool, list []residency.Transfer) error {
	d, err := c.device(ordinal)
	if err != nil {
		return err
	}
	byAddress := func(a, b residency.Transfer) int { return cmp.Compare(a.Device, b.Device) }
	if !slices.IsSortedFunc(list, byAddress) { // a kernel's targets rise
		slices.SortFunc(list, byAddress)
	}
	first, err := d.take()
	if err != nil {
		return c.met(ordinal, d, err)
	}
	defer d.give(first)
	threshold := d.threshold(first)
	steps := []step{{lane: first, toDevice: toDevice}}
	if more := size(list) > payloadBytes; more {
		if second := d.takeIdle(); second != nil {
			defer d.give(second)
			steps = append(steps, step{lane: second, toDevice: toDevice})
		}
	}
	for turn := 0; len(list) > 0 && err == nil; turn++ {
		s := &steps[turn%len(steps)]
		if err = s.end(); err == nil {
			list = s.pack(list, threshold)
			err = s.begin(d)
		}
	}
	for turn := range steps { // also what was queued before an error is done when the call returns
		err = cmp.Or(err, steps[turn].end())
	}
	return c.met(ordinal, d, err)
}

func size(list []residency.Transfer) (sum int) {
	for i := range list {
		sum += len(list[i].Host)
	}
	return sum
}

// takeIdle is a lane that nobody uses, or nil: who has one waits for none.
func (d *device) takeIdle() *lane {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	if last := len(d.idle) - 1; last >= 0 {
		l := d.idle[last]
		d.idle = d.idle[:last]
		return l
	}
	if len(d.lanes) == mostLanes {
		return nil
	}
	l, err := d.open()
	if err != nil {
		return nil
	}
	d.lanes = append(d.lanes, l)
	return l
}

// pack plans a step from the first of the ranges, and returns those that are left.
func (s *step) pack(list []residency.Transfer, threshold uint64) (rest []residency.Transfer) {
	s.spans, s.large, s.parts = s.spans[:0], s.large[:0], s.parts[:0]
	staging, at := s.bytes(), 0
	var open kernels.Span // what may go on with the next range
	for len(list) > 0 && len(s.spans)+1 < mostSpans {
		next := &list[0]
		count := min(len(next.Host), payloadBytes-at)
		if count < len(next.Host) && uint64(len(next.Host)) < threshold || count == 0 {
			break // it goes as a whole in the next step
		}
		device, host := driver.Address(next.Device), s.staging+driver.Address(at)
		if s.toDevice {
			copy(staging[at:], next.Host[:count])
		}
		s.parts = append(s.parts, residency.Transfer{Device: uintptr(at), Host: next.Host[:count]})
		to, from := s.way(host, device)
		if open.To+driver.Address(open.Bytes) == to && open.From+driver.Address(open.Bytes) == from {
			open.Bytes += uint64(count)
		} else {
			s.plan(open, threshold)
			open = kernels.Span{To: to, From: from, Bytes: uint64(count)}
		}
		at = (at + count + spanAlignment - 1) &^ (spanAlignment - 1)
		if count == len(next.Host) {
			list = list[1:]
			continue
		}
		*next = residency.Transfer{Device: next.Device + uintptr(count), Host: next.Host[count:]}
	}
	s.plan(open, threshold)
	return list
}

// way is from where to where bytes go.
func (s *step) way(host, device driver.Address) (to, from driver.Address) {
	if s.toDevice {
		return device, host
	}
	return host, device
}

// plan adds a range to what one of both moves.
func (s *step) plan(span kernels.Span, threshold uint64) {
	switch {
	case span.Bytes == 0:
	case span.Bytes < threshold:
		s.spans = append(s.spans, span)
	default:
		s.large = append(s.large, span)
	}
}

// begin queues what was packed.
func (s *step) begin(d *device) error {
	if len(s.large) > 0 {
		copies := make([]driver.Copy, len(s.large))
		for i, span := range s.large {
			copies[i] = driver.Copy{To: span.To, From: span.From, Bytes: span.Bytes}
		}
		if err := s.Copy(copies...); err != nil {
			return err
		}
	}
	if len(s.spans) == 0 {
		return nil
	}
	launch, err := d.kernels.CopyMany(s.staging+payloadBytes, s.spans) // which completes the spans
	if err != nil {
		return err
	}
	copy(s.bytes()[payloadBytes:], bytesOf(s.spans))
	return s.Launch(&launch)
}

// end waits for what was queued, and unpacks what has come to the host.
func (s *step) end() error {
	if err := s.Synchronize(); err != nil {
		return err
	}
	if !s.toDevice {
		staging := s.bytes()
		for i := range s.parts {
			copy(s.parts[i].Host, staging[s.parts[i].Device:])
		}
	}
	s.parts = s.parts[:0]
	return nil
}

// threshold is from how many bytes on a range of the device goes by the copy engine: all, where there are no kernels.
func (d *device) threshold(l *lane) uint64 {
	info := d.runtime.Device().Info()
	switch {
	case d.kernels == nil:
		return 0
	case info.Simulated:
		return usualThreshold
	}
	if found, ok := thresholds.Load(info.UUID); ok {
		return found.(uint64)
	}
	found, err := d.measure(l)
	if err != nil {
		return usualThreshold
	}
	thresholds.Store(info.UUID, found)
	return found
}

const (
	leastThreshold = 4 << 10
	mostThreshold  = payloadBytes / 2
	measuredTimes  = 3
)

// measure finds from how many bytes on copies of ranges that lie apart are as fast as one kernel.
func (d *device) measure(l *lane) (threshold uint64, err error) {
	block, address, err := d.runtime.Allocate(gpu.Request{Bytes: 2 * payloadBytes, Stream: l.Stream, Tag: tag()})
	if err != nil {
		return 0, err
	}
	defer func() {
		_, freeErr := gpu.Free(block, l.Stream)
		err = cmp.Or(err, freeErr)
	}()
	s := &step{lane: l, toDevice: true}
	fastest := func(bytes, threshold uint64) (best time.Duration, err error) {
		for range measuredTimes {
			s.spans, s.large = s.spans[:0], s.large[:0]
			for at := uint64(0); at+bytes <= payloadBytes; at += bytes {
				to, from := address+driver.Address(2*at), l.staging+driver.Address(at)
				s.plan(kernels.Span{To: to, From: from, Bytes: bytes}, threshold)
			}
			begin := time.Now()
			if err := cmp.Or(s.begin(d), l.Synchronize()); err != nil {
				return 0, err
			}
			if took := time.Since(begin); best == 0 || took < best {
				best = took
			}
		}
		return best, nil
	}
	for threshold = leastThreshold; threshold < mostThreshold; threshold *= 2 {
		kernel, err := fastest(threshold, threshold+1)
		if err != nil {
			return 0, err
		}
		copied, err := fastest(threshold, threshold)
		if err != nil {
			return 0, err
		}
		if copied <= kernel {
			break
		}
	}
	return threshold, nil
}
