// Deltas of C as this package knows them.

package delta

import (
	"unsafe"

	"libmmsb/native"
)

// FromNative is a C delta that has been checked, as this package knows it. Its slices lie in the caller's memory.
func FromNative(d *native.Delta) *Form {
	f := &Form{
		Kind: Kind(d.Kind), ID: d.ID, PageID: d.PageID, Epoch: d.Epoch, TimestampNanoseconds: d.TimestampNanoseconds,
		Source: d.Source(), Intent: d.Intent(), MaskLength: d.MaskLength, Count: d.Count,
	}
	switch {
	case f.Kind == Indexed && d.Offsets != nil:
		f.Offsets = unsafe.Slice((*uint64)(d.Offsets), int(d.Count))
	case f.Kind == Indexed && d.Offsets32 != nil:
		f.Offsets32 = unsafe.Slice((*uint32)(d.Offsets32), int(d.Count))
	case f.Kind == Runs && d.Runs != nil:
		f.Runs = unsafe.Slice((*Run)(d.Runs), int(d.Count))
	case d.Mask != nil:
		f.Mask = unsafe.Slice((*byte)(d.Mask), int(f.MaskBytes()))
	}
	if length, err := f.PayloadBytes(); err == nil && d.Payload != nil {
		f.Payload = unsafe.Slice((*byte)(d.Payload), int(length))
	}
	return f
}
