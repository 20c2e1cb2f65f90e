// Many ranges on their way between the host and a device: what a sync moves.

package pages

import (
	"cmp"
	"slices"
	"sync"
	"time"
	"unsafe"

	"libmmsb/core/parallel"
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
	// stepBytes are what a step has at most, and one range more, so that its pages are not locked for long.
	stepBytes = 4 << 20
	// spanAlignment lets kernels move 16 bytes at a time.
	spanAlignment = 16
	// usualThreshold is that of devices where nothing is measured: simulated ones.
	usualThreshold = 32 << 10
)

// thresholds are from how many bytes on a range goes by the copy engine, by the device's UUID: measured once in a process, by one
// carrier while others wait for it.
var (
	thresholds sync.Map
	measuring  sync.Mutex
)

// step is what goes at a time through the staging memory of a lane, and what devices reach where it lies.
type step struct {
	*lane
	open     kernels.Span // what may go on with the next range
	at       int          // where the staging memory is free
	size     uint64       // of all that goes
	toDevice bool
}

// lists are those of a step, which the lane keeps for the next one.
type lists struct {
	spans, large []kernels.Span       // what a kernel moves, and the copy engine
	parts        []residency.Transfer // in the staging memory
}

// carrier is residency.Carrier. Ranges go through the staging memory of as many as mostSteps lanes: while the bytes of some are
// on their way, those of another are packed or unpacked. What the host has in pinned memory goes from there, or comes there. What
// is packed for one place is one range. Large ranges are a batch of copies, the small ones of a step one kernel. A step begins
// when it is full, or when less than enough of the carrier's are on their way: so the first bytes move at once, and small ranges
// come together while others move.
type carrier struct {
	*context
	*device
	ordinal   int32
	toDevice  bool
	threshold uint64
	filling   *step   // nil = none
	going     []*step // the oldest first
	idle      []*step
	taken     []*lane
	moved     uint64
	err       error // the first that was met
}

const (
	mostSteps  = 3
	enoughToDo = 2 // steps on their way
	// shareBytes is what a processor gets at least of a list, in whole shareAlignments.
	shareBytes     = 2 << 20
	shareAlignment = 4 << 10
)

// Carry is residency.Devices'.
func (c *context) Carry(ordinal int32, toDevice bool) (residency.Carrier, error) {
	carried, err := c.carry(ordinal, toDevice)
	if err != nil {
		return nil, err
	}
	return carried, nil
}

func (c *context) carry(ordinal int32, toDevice bool) (*carrier, error) {
	d, err := c.device(ordinal)
	if err != nil {
		return nil, err
	}
	first, err := d.takeToCarry(true)
	if err != nil {
		return nil, c.met(ordinal, d, err)
	}
	carried := &carrier{context: c, device: d, ordinal: ordinal, toDevice: toDevice, threshold: d.threshold(first)}
	carried.use(first)
	return carried, nil
}

func (c *carrier) use(l *lane) {
	c.taken = append(c.taken, l)
	c.idle = append(c.idle, &step{lane: l, toDevice: c.toDevice})
}

// Add is residency.Carrier's.
func (c *carrier) Add(list []residency.Transfer) error {
	c.err = c.add(list)
	return c.met(c.ordinal, c.device, c.err)
}

func (c *carrier) add(list []residency.Transfer) error {
	toPack := bytesToPack(list)
	byAddress := func(a, b residency.Transfer) int { return cmp.Compare(a.Device, b.Device) }
	if toPack > 0 && !slices.IsSortedFunc(list, byAddress) { // what lies together is packed together
		slices.SortFunc(list, byAddress)
	}
	if shares := parallel.Shares(toPack, shareBytes); shares > 1 {
		return c.addShares(list, shares)
	}
	return c.addAlone(list)
}

func (c *carrier) addAlone(list []residency.Transfer) error {
	for len(list) > 0 {
		if err := c.fill(); err != nil {
			return err
		}
		if list = c.filling.pack(list, c.threshold); len(list) > 0 {
			if err := c.begin(); err != nil {
				return err
			}
		}
	}
	for len(c.going) > 0 {
		done, err := c.going[0].Done()
		if err != nil {
			return err
		}
		if !done {
			break
		}
		if err := c.endOldest(); err != nil {
			return err
		}
	}
	if c.filling != nil && len(c.going) < enoughToDo {
		return c.begin()
	}
	return nil
}

// addShares moves a list that is long enough for several processors, each with lanes of its own, and returns when it has moved.
func (c *carrier) addShares(list []residency.Transfer, shares int) error {
	if err := c.finish(); err != nil { // what moves is counted in its order
		return err
	}
	size := bytesIn(list)
	parts := make([][]residency.Transfer, shares)
	for i := range shares - 1 {
		parts[i], list = cut(list, size/uint64(shares)&^(shareAlignment-1))
	}
	parts[shares-1] = list
	failures := make([]error, shares)
	parallel.Do(shares, func(i int) {
		part, err := c.carry(c.ordinal, c.toDevice)
		if err == nil {
			part.err = part.addAlone(parts[i])
			err = part.End()
		}
		failures[i] = err
	})
	if err := cmp.Or(failures...); err != nil {
		return err
	}
	c.moved += size
	return nil
}

// bytesToPack are those that processors have to copy.
func bytesToPack(list []residency.Transfer) (bytes uint64) {
	for i := range list {
		if !list[i].Pinned {
			bytes += uint64(len(list[i].Host))
		}
	}
	return bytes
}

func bytesIn(list []residency.Transfer) (bytes uint64) {
	for i := range list {
		bytes += uint64(len(list[i].Host))
	}
	return bytes
}

// cut divides a list behind so many bytes.
func cut(list []residency.Transfer, bytes uint64) (first, rest []residency.Transfer) {
	for i := range list {
		if length := uint64(len(list[i].Host)); length <= bytes {
			bytes -= length
			continue
		}
		first, rest = list[:i:i], list[i:]
		if bytes > 0 {
			head, tail := list[i], list[i]
			head.Host, tail.Host = head.Host[:bytes:bytes], tail.Host[bytes:]
			tail.Device += uintptr(bytes)
			first, rest = append(first, head), append([]residency.Transfer{tail}, rest[1:]...)
		}
		return first, rest
	}
	return list, nil
}

// fill sees to it that there is a step to pack.
func (c *carrier) fill() error {
	if c.filling != nil {
		return nil
	}
	if len(c.idle) == 0 && len(c.taken) < mostSteps {
		if l, _ := c.takeToCarry(false); l != nil { // else there is one less
			c.use(l)
		}
	}
	if len(c.idle) == 0 {
		if err := c.endOldest(); err != nil {
			return err
		}
	}
	last := len(c.idle) - 1
	c.filling, c.idle = c.idle[last], c.idle[:last]
	return nil
}

// begin queues what was packed.
func (c *carrier) begin() error {
	s := c.filling
	c.filling, c.going = nil, append(c.going, s)
	return s.begin(c.device, c.threshold)
}

// endOldest waits for the oldest step.
func (c *carrier) endOldest() error {
	s := c.going[0]
	c.going = slices.Delete(c.going, 0, 1)
	size := s.size
	if err := s.end(); err != nil {
		return err
	}
	c.idle = append(c.idle, s)
	if c.err == nil { // of what comes behind one that failed nobody asks
		c.moved += size
	}
	return nil
}

// Moved is residency.Carrier's.
func (c *carrier) Moved() uint64 { return c.moved }

// finish returns when everything that was queued is done, an error or not.
func (c *carrier) finish() error {
	if c.filling != nil && c.err == nil {
		c.err = c.begin()
	}
	for len(c.going) > 0 {
		if err := c.endOldest(); c.err == nil {
			c.err = err
		}
	}
	return c.err
}

// End is residency.Carrier's. What was queued before an error is done, too, when it returns.
func (c *carrier) End() error {
	c.err = c.finish()
	for _, l := range c.taken {
		clear(l.parts) // of a step that failed
		l.lists = lists{l.spans[:0], l.large[:0], l.parts[:0]}
		c.giveBack(l)
	}
	return c.met(c.ordinal, c.device, c.err)
}

// pack takes the first of the ranges into the step, and returns those for which it has no space.
func (s *step) pack(list []residency.Transfer, threshold uint64) (rest []residency.Transfer) {
	for len(list) > 0 && len(s.spans)+1 < mostSpans && s.size < stepBytes {
		next := &list[0]
		if next.Pinned { // by itself: what follows it may be another block of the driver's
			host := driver.Address(uintptr(unsafe.Pointer(unsafe.SliceData(next.Host))))
			to, from := s.way(host, driver.Address(next.Device))
			s.plan(kernels.Span{To: to, From: from, Bytes: uint64(len(next.Host))}, threshold)
			s.size += uint64(len(next.Host))
			list = list[1:]
			continue
		}
		count := min(len(next.Host), payloadBytes-s.at)
		if count < len(next.Host) && uint64(len(next.Host)) < threshold || count == 0 {
			break // it goes as a whole in the next step
		}
		if s.toDevice {
			copy(s.bytes()[s.at:], next.Host[:count])
		}
		s.parts = append(s.parts, residency.Transfer{Device: uintptr(s.at), Host: next.Host[:count]})
		s.size += uint64(count)
		to, from := s.way(s.staging+driver.Address(s.at), driver.Address(next.Device))
		if s.open.To+driver.Address(s.open.Bytes) == to && s.open.From+driver.Address(s.open.Bytes) == from {
			s.open.Bytes += uint64(count)
		} else {
			s.plan(s.open, threshold)
			s.open = kernels.Span{To: to, From: from, Bytes: uint64(count)}
		}
		s.at = (s.at + count + spanAlignment - 1) &^ (spanAlignment - 1)
		if count == len(next.Host) {
			list = list[1:]
			continue
		}
		next.Device, next.Host = next.Device+uintptr(count), next.Host[count:]
	}
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
func (s *step) begin(d *device, threshold uint64) error {
	s.plan(s.open, threshold)
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
	launch, err := d.kernels.CarryMany(s.staging+payloadBytes, s.spans) // which completes the spans
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
	s.clear()
	return nil
}

func (s *step) clear() {
	clear(s.parts)
	s.lists = lists{s.spans[:0], s.large[:0], s.parts[:0]}
	*s = step{lane: s.lane, toDevice: s.toDevice}
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
	measuring.Lock()
	defer measuring.Unlock()
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
			for at := uint64(0); at+bytes <= payloadBytes; at += bytes {
				to, from := address+driver.Address(2*at), l.staging+driver.Address(at)
				s.plan(kernels.Span{To: to, From: from, Bytes: bytes}, threshold)
			}
			begin := time.Now()
			if err := cmp.Or(s.begin(d, threshold), s.end()); err != nil {
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
