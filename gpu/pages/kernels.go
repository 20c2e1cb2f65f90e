// What kernels do with pages where they lie: compare, sum up, propagate.

package pages

import (
	"cmp"
	"encoding/binary"
	"math"
	"math/bits"
	"slices"
	"unsafe"

	"libmmsb/core/residency"
	"libmmsb/gpu/driver"
	"libmmsb/gpu/kernels"
	gpu "libmmsb/gpu/runtime"
	"libmmsb/native"
)

const (
	// summedBytes is the part of a page that one checksum of a kernel is of.
	summedBytes = 4096
	mostSums    = stagingBytes / 4
	// maskedBytes is how much of a page has its differences in the staging memory.
	maskedBytes = 8 * stagingBytes
)

// kernel is run where there are kernels.
func (c *context) kernel(ordinal int32, work func(d *device, l *lane) error) (done bool, err error) {
	d, err := c.device(ordinal)
	if err != nil || d.kernels == nil {
		return false, err
	}
	return true, c.run(ordinal, work)
}

// Compare is residency.Devices'.
func (c *context) Compare(ordinal int32, a, b uintptr, bytes uint64, bits []byte) (found native.Difference, done bool,
	err error) {
	done, err = c.kernel(ordinal, func(d *device, l *lane) (err error) {
		if bits != nil {
			return d.differences(l, driver.Address(a), driver.Address(b), bytes, bits)
		}
		found, err = d.difference(l, driver.Address(a), driver.Address(b), bytes)
		return err
	})
	return found, done, err
}

// differences writes them to the staging memory of a lane.
func (d *device) differences(l *lane, a, b driver.Address, bytes uint64, bits []byte) error {
	for begin := uint64(0); begin < bytes; begin += maskedBytes {
		at, count := driver.Address(begin), min(maskedBytes, bytes-begin)
		launch, err := d.kernels.Differences(l.staging, a+at, b+at, count)
		if err == nil {
			err = cmp.Or(l.Launch(&launch), l.Synchronize())
		}
		if err != nil {
			return err
		}
		copy(bits[begin/8:], l.bytes()[:native.MaskLength(count)])
	}
	return nil
}

// difference lets a kernel add to two numbers, in memory of the device, where that is quick.
func (d *device) difference(l *lane, a, b driver.Address, bytes uint64) (found native.Difference, err error) {
	block, numbers, err := d.runtime.Allocate(gpu.Request{Bytes: kernels.DifferenceBytes, Stream: l.Stream, Tag: tag()})
	if err != nil {
		return found, err
	}
	defer func() {
		_, freeErr := gpu.Free(block, l.Stream)
		err = cmp.Or(err, freeErr)
	}()
	result := l.bytes()[:kernels.DifferenceBytes]
	binary.NativeEndian.PutUint64(result, 0)
	binary.NativeEndian.PutUint64(result[8:], math.MaxUint64)
	launch, err := d.kernels.Difference(numbers, a, b, bytes)
	if err != nil {
		return found, err
	}
	err = cmp.Or(l.Copy(driver.Copy{To: numbers, From: l.staging, Bytes: kernels.DifferenceBytes}), l.Launch(&launch),
		l.Copy(driver.Copy{To: l.staging, From: numbers, Bytes: kernels.DifferenceBytes}), l.Synchronize())
	return native.Difference{Count: binary.NativeEndian.Uint64(result), First: binary.NativeEndian.Uint64(result[8:])}, err
}

// Checksums is residency.Devices'. The kernel sums up small parts, whose checksums the host joins.
func (c *context) Checksums(ordinal int32, at uintptr, bytes, part uint64, sums []uint32) (done bool, err error) {
	return c.kernel(ordinal, func(d *device, l *lane) error {
		small := unsafe.Slice((*uint32)(unsafe.Pointer(unsafe.SliceData(l.bytes()))), mostSums)
		for begin := uint64(0); begin < bytes; begin += mostSums * summedBytes {
			count := min(mostSums*summedBytes, bytes-begin)
			launch, err := d.kernels.Checksum(l.staging, driver.Address(at)+driver.Address(begin), count, summedBytes)
			if err == nil {
				err = cmp.Or(l.Launch(&launch), l.Synchronize())
			}
			if err != nil {
				return err
			}
			for from := uint64(0); from < count; {
				to := min(from+part-(begin+from)%part, count)
				first, end := from/summedBytes, (to+summedBytes-1)/summedBytes
				of := native.JoinChecksums(small[first:end], summedBytes, to-(end-1)*summedBytes)
				if sum := &sums[(begin+from)/part]; (begin+from)%part == 0 {
					*sum = of
				} else {
					*sum = native.JoinChecksums([]uint32{*sum, of}, 0, to-from)
				}
				from = to
			}
		}
		return nil
	})
}

// Propagate is residency.Devices'. One kernel makes the whole change: it copies runs, or of one range what a mask has, where the
// mask is smaller than the list of its runs. Of a byte that several ranges have, only the last one's is copied.
func (c *context) Propagate(ordinal int32, to uintptr, bytes uint64, from []residency.Masked, persistent bool) (done bool,
	err error) {
	for _, one := range from {
		// as one array of the program's may be within another
		if to < one.Address+uintptr(bytes) && one.Address < to+uintptr(bytes) {
			return false, nil
		}
	}
	masks := lastOf(from)
	runs := uint64(0)
	for _, mask := range masks {
		runs += countRuns(mask)
	}
	first, end := window(masks[0])
	asMask := runs*uint64(unsafe.Sizeof(kernels.Span{})) > end-first
	if asMask && len(masks) > 1 {
		return false, nil
	}
	d, err := c.device(ordinal)
	if err != nil || d.kernels == nil {
		return false, err
	}
	var what table
	if asMask {
		at := driver.Address(8 * first)
		what = d.tableOfMask(driver.Address(to)+at, driver.Address(from[0].Address)+at, min(8*end, bytes)-8*first,
			masks[0][first:end])
	} else {
		spans := make([]kernels.Span, 0, runs)
		for i, mask := range masks {
			eachRun(mask, func(begin, end uint64) {
				spans = append(spans, kernels.Span{To: driver.Address(to) + driver.Address(begin),
					From: driver.Address(from[i].Address) + driver.Address(begin), Bytes: end - begin})
			})
		}
		what = d.tableOfRuns(spans)
	}
	if persistent && what.copies <= drainedBytes && what.bytes <= stagingBytes-drainedTable {
		return true, c.met(ordinal, d, d.byDrain(&what))
	}
	return true, c.run(ordinal, func(d *device, l *lane) error { return d.withTable(l, &what) })
}

// table is what a kernel reads of what it is to do.
type table struct {
	bytes  uint64
	copies uint64 // at most so many bytes
	// prepare makes it and its launch for where it will lie.
	prepare func(table driver.Address) (driver.Launch, []byte, error)
}

// lastOf are masks of which each has what none behind it has.
func lastOf(from []residency.Masked) (masks [][]byte) {
	if len(from) == 1 {
		return [][]byte{from[0].Mask}
	}
	taken := make([]byte, len(from[0].Mask))
	masks = make([][]byte, len(from))
	for i := len(from) - 1; i >= 0; i-- {
		masks[i] = make([]byte, len(taken))
		for at, bits := range from[i].Mask {
			masks[i][at] = bits &^ taken[at]
			taken[at] |= bits
		}
	}
	return masks
}

// window is the part of a mask, of whole words of 16 bytes of the page, outside of which it has no bit.
func window(mask []byte) (first, end uint64) {
	set := func(bits byte) bool { return bits != 0 }
	first = uint64(max(slices.IndexFunc(mask, set), 0)) &^ 1
	end = uint64(len(mask))
	for end > first && mask[end-1] == 0 {
		end--
	}
	return first, end
}

// countRuns counts the runs of bits in a mask.
func countRuns(mask []byte) (count uint64) {
	before := byte(0) // the highest bit of the byte before
	for _, of := range mask {
		count += uint64(bits.OnesCount8(of &^ (of<<1 | before)))
		before = of >> 7
	}
	return count
}

// eachRun calls for each run of bits in a mask.
func eachRun(mask []byte, run func(begin, end uint64)) {
	open, begin := false, uint64(0)
	for at, of := range mask {
		if of == 0 && !open || of == math.MaxUint8 && open {
			continue
		}
		for bit := range 8 {
			if set := of>>bit&1 != 0; set != open {
				if now := uint64(8*at + bit); set {
					begin = now
				} else {
					run(begin, now)
				}
				open = set
			}
		}
	}
	if open {
		run(begin, uint64(8*len(mask)))
	}
}

// tableOfRuns is for a kernel that copies ranges which lie apart.
func (d *device) tableOfRuns(spans []kernels.Span) table {
	slices.SortFunc(spans, func(a, b kernels.Span) int { return cmp.Compare(a.To, b.To) })
	copies := uint64(0)
	for i := range spans {
		copies += spans[i].Bytes
	}
	bytes := uint64(len(spans)) * uint64(unsafe.Sizeof(kernels.Span{}))
	return table{bytes, copies, func(at driver.Address) (driver.Launch, []byte, error) {
		launch, err := d.kernels.CopyMany(at, spans) // which completes the spans
		return launch, bytesOf(spans), err
	}}
}

// tableOfMask is for a kernel that copies what a mask has.
func (d *device) tableOfMask(to, from driver.Address, bytes uint64, mask []byte) table {
	pairBytes := uint64(unsafe.Sizeof(kernels.Pair{}))
	return table{pairBytes + uint64(len(mask)), bytes, func(at driver.Address) (driver.Launch, []byte, error) {
		pairs := []kernels.Pair{{To: to, From: from, Bits: at + driver.Address(pairBytes), Bytes: bytes}}
		launch, err := d.kernels.Propagate(at, pairs) // which completes the pair
		return launch, append(bytesOf(pairs), mask...), err
	}}
}

// withTable launches a kernel behind what it reads.
func (d *device) withTable(l *lane, what *table) error {
	block, at, err := d.runtime.Allocate(gpu.Request{Bytes: what.bytes, Stream: l.Stream, Tag: tag()})
	if err != nil {
		return err
	}
	launch, content, err := what.prepare(at)
	if err == nil {
		err = l.upload(at, content)
	}
	if err == nil {
		err = l.Launch(&launch)
	}
	_, freeErr := gpu.Free(block, l.Stream)
	return cmp.Or(err, freeErr)
}
