// Deltas of pages that lie on devices.

package pages

import (
	"cmp"
	"maps"
	"slices"
	"unsafe"

	"libmmsb/core/delta"
	"libmmsb/core/residency"
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

// Apply is residency.Devices'. One run is a copy; everything else is a kernel's work.
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
	// later wins: settled before, threads have no order
	if f.Kind == delta.Indexed && !rising(f) || f.Kind == delta.Runs && !apart(f.Runs) {
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

// pageRuns are all runs of a batch into one page, in the order in which they take effect.
type pageRuns struct {
	address driver.Address
	form    delta.Form
}

// ApplyMany is residency.Devices'. For each device the changes become one list of copies that rise without overlap, which one
// kernel does.
func (c *context) ApplyMany(changes []residency.Change) error {
	devices := make(map[int32]map[uintptr]*pageRuns)
	for _, change := range changes {
		f, err := delta.FromNative(change.Delta), error(nil)
		if f.Kind != delta.Runs {
			if f, err = delta.Convert(f, delta.Runs); err != nil {
				return err
			}
		}
		of := devices[change.Device]
		if of == nil {
			of = make(map[uintptr]*pageRuns)
			devices[change.Device] = of
		}
		runs := of[change.Address]
		if runs == nil {
			runs = &pageRuns{address: driver.Address(change.Address), form: delta.Form{Kind: delta.Runs}}
			of[change.Address] = runs
		}
		runs.form.Runs = append(runs.form.Runs, f.Runs...)
		runs.form.Payload = append(runs.form.Payload, f.Payload...)
		runs.form.Count = uint64(len(runs.form.Runs))
	}
	for ordinal, of := range devices {
		list := slices.SortedFunc(maps.Values(of), func(a, b *pageRuns) int { return cmp.Compare(a.address, b.address) })
		bytes := 0
		for _, runs := range list {
			if !apart(runs.form.Runs) {
				settled, err := delta.Convert(&runs.form, delta.Runs)
				if err != nil {
					return err
				}
				runs.form = *settled
			}
			bytes += len(runs.form.Payload)
		}
		if bytes == 0 {
			continue
		}
		if err := c.run(ordinal, func(d *device, l *lane) error { return d.applyMany(l, list, bytes) }); err != nil {
			return err
		}
	}
	return nil
}

// applyMany queues the changes of several pages: payloads and list of copies go to the device as one block.
func (d *device) applyMany(l *lane, list []*pageRuns, bytes int) error {
	p := parts{make([]byte, 0, bytes)}
	var spans []kernels.Span
	for _, runs := range list {
		from := driver.Address(len(p.bytes)) // in the block
		for _, run := range runs.form.Runs {
			if run.Length > 0 {
				spans = append(spans, kernels.Span{To: runs.address + driver.Address(run.Offset), From: from, Bytes: run.Length})
			}
			from += driver.Address(run.Length)
		}
		p.bytes = append(p.bytes, runs.form.Payload...)
	}
	table := p.add(bytesOf(spans))
	block, base, err := d.runtime.Allocate(gpu.Request{Bytes: uint64(len(p.bytes)), Stream: l.Stream, Tag: tag()})
	if err != nil {
		return err
	}
	for i := range spans {
		spans[i].From += base
	}
	if d.kernels == nil {
		err = l.copySpans(base, p.bytes[:table], spans)
	} else {
		var launch driver.Launch
		if launch, err = d.kernels.CopyMany(base+table, spans); err == nil { // which completes the spans
			copy(p.bytes[table:], bytesOf(spans))
			err = l.upload(base, p.bytes)
		}
		if err == nil {
			err = l.Launch(&launch)
		}
	}
	_, freeErr := gpu.Free(block, l.Stream)
	return cmp.Or(err, freeErr)
}

// copySpans is what a build without kernels for the device does.
func (l *lane) copySpans(base driver.Address, payload []byte, spans []kernels.Span) error {
	copies := make([]driver.Copy, len(spans))
	for i, span := range spans {
		copies[i] = driver.Copy{To: span.To, From: span.From, Bytes: span.Bytes}
	}
	if err := l.upload(base, payload); err != nil {
		return err
	}
	return l.Copy(copies...)
}

// apply queues a delta: its parts' way to the device, the kernel, and the end of their block behind it.
func (d *device) apply(l *lane, target kernels.Page, f *delta.Form) error {
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
		launch, err = d.kernels.MergeBytes(target, mask, payload, f.MaskLength)
	case delta.DenseBits:
		launch, err = d.kernels.MergeBits(target, mask, payload, f.MaskLength)
	case delta.SparseBits:
		launch, err = d.kernels.ExpandBits(target, mask, more, payload, f.MaskLength, total)
	case delta.Indexed:
		launch, err = d.kernels.Scatter(target, more, offsetBytes, 0, payload, f.Count)
	default:
		from := payload
		for i, run := range f.Runs {
			spans[i] = kernels.Span{To: target.Address + driver.Address(run.Offset), From: from, Bytes: run.Length}
			from += driver.Address(run.Length)
		}
		launch, err = d.kernels.ScatterRuns(target, more, spans) // which completes the spans
		copy(p.bytes[more-base:], bytesOf(spans))
	}
	if err == nil {
		err = l.upload(base, p.bytes)
	}
	if err == nil {
		err = l.Launch(&launch)
	}
	_, freeErr := gpu.Free(block, l.Stream)
	return cmp.Or(err, freeErr)
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
