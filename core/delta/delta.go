// Package delta knows the forms of a change: what is valid, what it does to a page, how two become one, and how one form
// becomes another.
//
// What a form does to a page is done by the native byte loops.
package delta

import (
	"math"
	"math/bits"
	"unicode/utf8"

	"libmmsb/core/abi"
	"libmmsb/core/status"
)

// Kind says how a form names the bytes it addresses.
type Kind int32

// The kinds of forms.
const (
	DenseBytes Kind = abi.DeltaDenseBytes // Mask: a byte per byte of the page, 0 or not; payload as long
	DenseBits  Kind = abi.DeltaDenseBits  // Mask: bit i%8 of byte i/8; payload of MaskLength bytes
	SparseBits Kind = abi.DeltaSparseBits // the same mask; payload: only the changed bytes, in order
	// Offsets or Offsets32 in any order, of equal ones the last wins; payload of Count bytes
	Indexed Kind = abi.DeltaIndexed
	Runs    Kind = abi.DeltaRuns // Runs in any order, later wins; payload: the sum of their lengths
)

// Run is a range of bytes of a page, an mmsb_run_t.
type Run struct {
	Offset, Length uint64
}

// Form is a delta, an mmsb_delta_t. Its slices may lie in the caller's memory and are only read. A nil slice stands for NULL.
type Form struct {
	Kind                                    Kind
	ID, PageID, Epoch, TimestampNanoseconds uint64
	Source, Intent                          string
	Mask                                    []byte
	MaskLength                              uint64 // in bytes of the page
	Offsets                                 []uint64
	Offsets32                               []uint32
	Runs                                    []Run
	Count                                   uint64 // of offsets or runs
	Payload                                 []byte
}

// unbounded is the page size for forms that are looked at without a page.
const unbounded = math.MaxUint64

// MaskBytes is the length of the mask in memory.
func (f *Form) MaskBytes() uint64 {
	switch f.Kind {
	case DenseBytes:
		return f.MaskLength
	case DenseBits, SparseBits:
		return bitBytes(f.MaskLength)
	default:
		return 0
	}
}

// PayloadBytes is the length that the payload has to have. It reads the mask or the runs, but not the payload.
// Errors: Mismatch, where no payload can be as long.
func (f *Form) PayloadBytes() (uint64, error) {
	switch f.Kind {
	case DenseBytes, DenseBits:
		return f.MaskLength, nil
	case SparseBits:
		return countBits(f.Mask, f.MaskLength), nil
	case Indexed:
		return f.Count, nil
	default:
		var sum, carry uint64
		for number, run := range f.Runs {
			if sum, carry = bits.Add64(sum, run.Length, 0); carry != 0 {
				return 0, status.Errorf(status.Mismatch,
					"lengths of the first %d of %d runs add up to more than 2^64-1", number+1, f.Count)
			}
		}
		return sum, nil
	}
}

// Validate says whether a form could be applied to a page of pageSize bytes; page id and epoch aside. Errors, in the order
// in which they are looked for: InvalidArgument, OutOfRange, and for the payload Mismatch or InvalidArgument.
func Validate(f *Form, pageSize uint64) error {
	if f.Kind < DenseBytes || f.Kind > Runs {
		return status.Errorf(status.InvalidArgument, "delta kind is %d, not %d to %d", f.Kind, DenseBytes, Runs)
	}
	if !utf8.ValidString(f.Source) {
		return status.Errorf(status.InvalidArgument, "source of %d bytes is not valid UTF-8", len(f.Source))
	}
	if !utf8.ValidString(f.Intent) {
		return status.Errorf(status.InvalidArgument, "intent of %d bytes is not valid UTF-8", len(f.Intent))
	}
	var err error
	switch f.Kind {
	case Indexed:
		err = validateOffsets(f, pageSize)
	case Runs:
		err = validateRuns(f, pageSize)
	default:
		err = validateMask(f, pageSize)
	}
	if err != nil {
		return err
	}
	needed, err := f.PayloadBytes()
	if err != nil {
		return err
	}
	if f.Payload == nil && needed > 0 {
		return status.Errorf(status.InvalidArgument, "payload is NULL, but %d bytes are expected", needed)
	}
	if uint64(len(f.Payload)) != needed {
		return status.Errorf(status.Mismatch, "payload_length is %d, %d expected", len(f.Payload), needed)
	}
	return nil
}

func validateMask(f *Form, pageSize uint64) error {
	if f.Mask == nil && f.MaskLength > 0 {
		return status.Errorf(status.InvalidArgument, "mask is NULL, but mask_length is %d", f.MaskLength)
	}
	if f.MaskLength > pageSize {
		return status.Errorf(status.OutOfRange, "mask_length is %d, more than the page's %d bytes", f.MaskLength, pageSize)
	}
	if needed := f.MaskBytes(); uint64(len(f.Mask)) != needed {
		return status.Errorf(status.Mismatch, "mask has %d bytes, %d expected for mask_length %d",
			len(f.Mask), needed, f.MaskLength)
	}
	return nil
}

func validateOffsets(f *Form, pageSize uint64) error {
	given := uint64(len(f.Offsets))
	switch {
	case f.Offsets != nil && f.Offsets32 != nil:
		return status.Errorf(status.InvalidArgument, "both offsets and offsets32 are set")
	case f.Offsets32 != nil:
		given = uint64(len(f.Offsets32))
	case f.Offsets == nil && f.Count > 0:
		return status.Errorf(status.InvalidArgument, "offsets is NULL, but count is %d", f.Count)
	}
	if given != f.Count {
		return status.Errorf(status.Mismatch, "%d offsets given, but count is %d", given, f.Count)
	}
	for number := range f.Count {
		if offset := f.offset(number); offset >= pageSize {
			return status.Errorf(status.OutOfRange, "offset %d (number %d of %d) is past the page of %d bytes",
				offset, number+1, f.Count, pageSize)
		}
	}
	return nil
}

func validateRuns(f *Form, pageSize uint64) error {
	if f.Runs == nil && f.Count > 0 {
		return status.Errorf(status.InvalidArgument, "runs is NULL, but count is %d", f.Count)
	}
	if uint64(len(f.Runs)) != f.Count {
		return status.Errorf(status.Mismatch, "%d runs given, but count is %d", len(f.Runs), f.Count)
	}
	for number, run := range f.Runs {
		if run.Length > pageSize || run.Offset > pageSize-run.Length {
			return status.Errorf(status.OutOfRange,
				"the run of %d bytes at offset %d (number %d of %d) reaches past the page of %d bytes",
				run.Length, run.Offset, number+1, f.Count, pageSize)
		}
	}
	return nil
}

// offset is one of an Indexed form's offsets, whichever their width.
func (f *Form) offset(number uint64) uint64 {
	if f.Offsets32 != nil {
		return uint64(f.Offsets32[number])
	}
	return f.Offsets[number]
}

// bitBytes is the number of bytes that hold so many bits.
func bitBytes(count uint64) uint64 {
	if count%8 != 0 {
		return count/8 + 1
	}
	return count / 8
}
