package pages

import (
	"runtime"
	"unsafe"

	"libmmsb/core/delta"
	"libmmsb/gpu/driver"
	"libmmsb/gpu/kernels"
	gpu "libmmsb/gpu/runtime"
	"libmmsb/native"
)

// part is memory of the host that a kernel reads: all parts of a delta go to the device in one block.
type part struct {
	bytes  []byte
	offset uint64 // in the block
}

// upload is a block on the device for one launch.
type upload struct {
	parts []part
	bytes uint64
}

// partAlignment suits every kernel's parameters.
const partAlignment = 16

// add appends a part and returns where it will be from the block's beginning on.
func (u *upload) add(bytes []byte) uint64 {
	offset := u.bytes
	u.parts = append(u.parts, part{bytes, offset})
	u.bytes += (uint64(len(bytes)) + partAlignment - 1) &^ (partAlignment - 1)
	return offset
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
	defer runtime.KeepAlive(f)
	return true, c.run(ordinal, func(d *device, s *gpu.Stream) error {
		return d.apply(s, kernels.Page{Address: driver.Address(at), Bytes: bytes}, f)
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

// apply queues a delta: its parts' way to the device, and the kernel.
func (d *device) apply(s *gpu.Stream, page kernels.Page, f *delta.Form) error {
	var u upload
	var launch func(base driver.Address) (driver.Launch, error)
	payload := u.add(f.Payload)
	switch f.Kind {
	case delta.DenseBytes:
		mask := u.add(f.Mask)
		launch = func(base driver.Address) (driver.Launch, error) {
			return d.kernels.MergeBytes(page, base+driver.Address(mask), base+driver.Address(payload), f.MaskLength)
		}
	case delta.DenseBits:
		mask := u.add(f.Mask)
		launch = func(base driver.Address) (driver.Launch, error) {
			return d.kernels.MergeBits(page, base+driver.Address(mask), base+driver.Address(payload), f.MaskLength)
		}
	case delta.SparseBits:
		ranks, total := kernels.Ranks(f.Mask, f.MaskLength)
		mask, table := u.add(f.Mask), u.add(bytesOf(ranks))
		launch = func(base driver.Address) (driver.Launch, error) {
			return d.kernels.ExpandBits(page, base+driver.Address(mask), base+driver.Address(table), base+driver.Address(payload), f.MaskLength,
				total)
		}
	case delta.Indexed:
		size, offsets := uint64(8), uint64(0)
		if f.Offsets != nil {
			offsets = u.add(bytesOf(f.Offsets))
		} else {
			size, offsets = 4, u.add(bytesOf(f.Offsets32))
		}
		launch = func(base driver.Address) (driver.Launch, error) {
			return d.kernels.Scatter(page, base+driver.Address(offsets), size, base+driver.Address(payload), f.Count)
		}
	default:
		spans := make([]kernels.Span, len(f.Runs))
		table := u.add(bytesOf(spans))
		launch = func(base driver.Address) (driver.Launch, error) {
			from := base + driver.Address(payload)
			for i, run := range f.Runs {
				spans[i] = kernels.Span{To: page.Address + driver.Address(run.Offset), From: from, Bytes: run.Length}
				from += driver.Address(run.Length)
			}
			return d.kernels.ScatterRuns(page, base+driver.Address(table), spans)
		}
	}
	return d.launch(s, &u, launch)
}

// launch brings the parts to the device, launches, and frees their block behind the kernel. The parts are read until the stream has come past.
func (d *device) launch(s *gpu.Stream, u *upload, prepare func(base driver.Address) (driver.Launch, error)) error {
	block, base, err := d.runtime.Allocate(gpu.Request{Bytes: u.bytes, Stream: s, Tag: tag()})
	if err != nil {
		return err
	}
	launch, err := prepare(base)
	if err == nil {
		err = s.Copy(u.copies(base)...)
	}
	if err == nil {
		err = s.Launch(&launch)
	}
	if _, freeErr := gpu.Free(block, s); err == nil {
		err = freeErr
	}
	if waited := s.Synchronize(); err == nil {
		err = waited
	}
	runtime.KeepAlive(u)
	return err
}

func (u *upload) copies(base driver.Address) []driver.Copy {
	copies := make([]driver.Copy, len(u.parts))
	for i, p := range u.parts {
		copies[i] = driver.Copy{
			To: base + driver.Address(p.offset), From: driver.Address(uintptr(unsafe.Pointer(unsafe.SliceData(p.bytes)))), Bytes: uint64(len(p.bytes)),
		}
	}
	return copies
}

func bytesOf[T any](items []T) []byte {
	var one T
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(items))), uintptr(len(items))*unsafe.Sizeof(one))
}
