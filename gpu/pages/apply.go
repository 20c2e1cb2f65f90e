package pages

import (
	"unsafe"

	"libmmsb/core/delta"
	"libmmsb/gpu/driver"
	"libmmsb/gpu/kernels"
	gpu "libmmsb/gpu/runtime"
	"libmmsb/native"
)

// parts are memory that a kernel reads: all of a delta's go to the device as one block.
type parts struct{ bytes []byte }

// partAlignment suits every kernel's parameters.
const partAlignment = 16

// add appends a part and returns where it will be from the block's beginning on.
func (p *parts) add(bytes []byte) driver.Address {
	offset := (len(p.bytes) + partAlignment - 1) &^ (partAlignment - 1)
	p.bytes = append(append(p.bytes, make([]byte, offset-len(p.bytes))...), bytes...)
	return driver.Address(offset)
}

// Apply is page.Devices'. One run is a copy; everything else is a kernel's work.
func (c *context) Apply(ordinal int32, at uintptr, bytes uint64, change *native.Delta) (done bool, err error) {
	d, err := c.device(ordinal)
	if err != nil || d.kernels == nil {
		return false, err
	}
	f := delta.FromNative(change)
	if len(f.Payload) == 0 {
		return true, nil
	}
	if f.Kind == delta.Runs && len(f.Runs) == 1 {
		return true, c.Write(ordinal, at+uintptr(f.Runs[0].Offset), f.Payload)
	}
	if f.Kind == delta.Indexed && !rising(f) || f.Kind == delta.Runs && !apart(f.Runs) { // later wins: settled before, threads have no order
		if f, err = delta.Convert(f, delta.Runs); err != nil {
			return false, err
		}
	}
	return true, c.run(ordinal, func(d *device, l *lane) error {
		return d.apply(l, kernels.Page{Address: driver.Address(at), Bytes: bytes}, f)
	})
}

func rising(f *delta.Form) bool {
	if f.Offsets != nil {
		return kernels.Rising(f.Offsets)
	}
	return kernels.Rising(f.Offsets32)
}

// apart says whether runs rise without overlap.
func apart(runs []delta.Run) bool {
	end := uint64(0)
	for _, run := range runs {
		if run.Length > 0 && run.Offset < end {
			return false
		}
		end = max(end, run.Offset+run.Length)
	}
	return true
}

// apply queues a delta: its parts' way to the device, the kernel, and the end of their block behind it.
func (d *device) apply(l *lane, page kernels.Page, f *delta.Form) error {
	p := parts{make([]byte, 0, partsBytes(f))}
	payload := p.add(f.Payload)
	mask := p.add(f.Mask)
	var more driver.Address // ranks, offsets or spans
	var total uint64
	var spans []kernels.Span
	offsetBytes := uint64(8)
	switch {
	case f.Kind == delta.SparseBits:
		var ranks []uint64
		ranks, total = kernels.Ranks(f.Mask, f.MaskLength)
		more = p.add(bytesOf(ranks))
	case f.Kind == delta.Indexed && f.Offsets != nil:
		more = p.add(bytesOf(f.Offsets))
	case f.Kind == delta.Indexed:
		offsetBytes = 4
		more = p.add(bytesOf(f.Offsets32))
	case f.Kind == delta.Runs:
		spans = make([]kernels.Span, len(f.Runs))
		more = p.add(bytesOf(spans))
	}
	block, base, err := d.runtime.Allocate(gpu.Request{Bytes: uint64(len(p.bytes)), Stream: l.Stream, Tag: tag()})
	if err != nil {
		return err
	}
	payload, mask, more = base+payload, base+mask, base+more
	var launch driver.Launch
	switch f.Kind {
	case delta.DenseBytes:
		launch, err = d.kernels.MergeBytes(page, mask, payload, f.MaskLength)
	case delta.DenseBits:
		launch, err = d.kernels.MergeBits(page, mask, payload, f.MaskLength)
	case delta.SparseBits:
		launch, err = d.kernels.ExpandBits(page, mask, more, payload, f.MaskLength, total)
	case delta.Indexed:
		launch, err = d.kernels.Scatter(page, more, offsetBytes, payload, f.Count)
	default:
		from := payload
		for i, run := range f.Runs {
			spans[i] = kernels.Span{To: page.Address + driver.Address(run.Offset), From: from, Bytes: run.Length}
			from += driver.Address(run.Length)
		}
		launch, err = d.kernels.ScatterRuns(page, more, spans) // which completes the spans
		copy(p.bytes[more-base:], bytesOf(spans))
	}
	if err == nil {
		err = l.upload(base, p.bytes)
	}
	if err == nil {
		err = l.Launch(&launch)
	}
	if _, freeErr := gpu.Free(block, l.Stream); err == nil {
		err = freeErr
	}
	return err
}

// partsBytes is how much memory a delta's parts take at most.
func partsBytes(f *delta.Form) uint64 {
	words := uint64(len(f.Offsets)) + uint64(len(f.Offsets32)+1)/2 + 4*uint64(len(f.Runs)) + kernels.RankBytes(f.MaskLength)/8
	return uint64(len(f.Payload)+len(f.Mask)) + 8*words + 3*partAlignment
}

func bytesOf[T any](items []T) []byte {
	var one T
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(items))), uintptr(len(items))*unsafe.Sizeof(one))
}
