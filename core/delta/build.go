// Making deltas: merge, conversion between kinds, the memory that a form needs.

package delta

import (
	"golang.org/x/sys/unix"

	"libmmsb/core/status"
	"libmmsb/native"
)

// Merge makes one delta of two of the same page: first a, then b. Later wins byte by byte; the larger epoch and timestamp;
// id, source and intent of b; page id of whichever names one. The result is of kind Runs, in rising order, and no two runs
// touch. Errors: those of Validate without a page, Mismatch (different page ids).
func Merge(a, b *Form) (*Form, error) {
	for _, f := range []*Form{a, b} {
		if err := Validate(f, unbounded); err != nil {
			return nil, err
		}
	}
	if a.PageID != 0 && b.PageID != 0 && a.PageID != b.PageID {
		return nil, status.Errorf(status.Mismatch, "the deltas belong to different pages: %d and %d", a.PageID, b.PageID)
	}
	merged := asRuns(overlay(reduce(a, 0), reduce(b, uint64(len(a.Payload)))), payloads{a.Payload, b.Payload})
	merged.ID, merged.Source, merged.Intent = b.ID, b.Source, b.Intent
	merged.PageID = max(a.PageID, b.PageID) // equal, or one of them is 0
	merged.Epoch = max(a.Epoch, b.Epoch)
	merged.TimestampNanoseconds = max(a.TimestampNanoseconds, b.TimestampNanoseconds)
	return merged, nil
}

// Convert makes another form of a delta. Masks reach to the last addressed byte; offsets and runs come in rising order,
// without overlaps. Errors: those of Validate without a page, InvalidArgument (kind), OutOfMemory (a mask that reaches too
// far).
func Convert(f *Form, kind Kind) (*Form, error) {
	if kind < DenseBytes || kind > Runs {
		return nil, status.Errorf(status.InvalidArgument, "delta kind is %d, not %d to %d", kind, DenseBytes, Runs)
	}
	if err := Validate(f, unbounded); err != nil {
		return nil, err
	}
	list, payload := reduce(f, 0), payloads{f.Payload}
	var converted *Form
	switch kind {
	case Runs:
		converted = asRuns(list, payload)
	case Indexed:
		converted = asIndexed(list, payload)
	default:
		var err error
		if converted, err = asMask(list, payload, kind); err != nil {
			return nil, err
		}
	}
	converted.ID, converted.PageID, converted.Source, converted.Intent = f.ID, f.PageID, f.Source, f.Intent
	converted.Epoch, converted.TimestampNanoseconds = f.Epoch, f.TimestampNanoseconds
	return converted, nil
}

// FromPages is the delta that turns the bytes of one page into those of another, which must be as many: runs of just the
// bytes that differ.
func FromPages(old, new []byte) *Form {
	runs := bitRuns(native.Differences(old, new[:len(old)]), uint64(len(old)))
	list := make([]piece, 0, len(runs))
	for _, run := range runs {
		list = append(list, piece{run.Offset, run.Length, run.Offset})
	}
	return asRuns(list, payloads{new})
}

func asRuns(list []piece, from payloads) *Form {
	count := 0
	for number, piece := range list {
		if number == 0 || list[number-1].end() != piece.offset {
			count++
		}
	}
	runs := make([]Run, 0, count)
	for number, piece := range list {
		if number > 0 && list[number-1].end() == piece.offset {
			runs[len(runs)-1].Length += piece.length
		} else {
			runs = append(runs, Run{Offset: piece.offset, Length: piece.length})
		}
	}
	return &Form{Kind: Runs, Runs: runs, Count: uint64(count), Payload: concatenate(list, from)}
}

func asIndexed(list []piece, from payloads) *Form {
	payload := concatenate(list, from)
	offsets := make([]uint64, 0, len(payload))
	for _, piece := range list {
		for offset := piece.offset; offset < piece.end(); offset++ {
			offsets = append(offsets, offset)
		}
	}
	return &Form{Kind: Indexed, Offsets: offsets, Count: uint64(len(offsets)), Payload: payload}
}

func asMask(list []piece, from payloads, kind Kind) (*Form, error) {
	f := &Form{Kind: kind}
	if len(list) > 0 {
		f.MaskLength = list[len(list)-1].end()
	}
	mask, payload := f.MaskBytes(), f.MaskLength
	if kind == SparseBits {
		payload = 0 // never longer than that of the delta before
	}
	if err := available(mask, payload); err != nil {
		return nil, err
	}
	f.Mask = make([]byte, f.MaskBytes())
	for _, piece := range list {
		if kind == DenseBytes {
			for offset := piece.offset; offset < piece.end(); offset++ {
				f.Mask[offset] = 1
			}
		} else {
			setBits(f.Mask, piece.offset, piece.length)
		}
	}
	if kind == SparseBits {
		f.Payload = concatenate(list, from)
		return f, nil
	}
	f.Payload = make([]byte, f.MaskLength)
	for _, piece := range list {
		copy(f.Payload[piece.offset:], from.of(piece))
	}
	return f, nil
}

func concatenate(list []piece, from payloads) []byte {
	length := uint64(0)
	for _, piece := range list {
		length += piece.length
	}
	bytes := make([]byte, 0, length)
	for _, piece := range list {
		bytes = append(bytes, from.of(piece)...)
	}
	return bytes
}

// smallBytes are allocated without asking the system first.
const smallBytes = 1 << 20

// available says whether the system can have so many bytes of mask and payload: a mask's length is only a number, a few
// bytes of delta can make it any, and a Go program that allocates more than there is ends.
func available(mask, payload uint64) error {
	if mask <= smallBytes && payload <= smallBytes {
		return nil
	}
	var system unix.Sysinfo_t
	if err := unix.Sysinfo(&system); err != nil {
		return status.Errorf(status.OutOfMemory, "cannot read the size of the system's memory: %v", err)
	}
	memory := (system.Totalram + system.Totalswap) * uint64(system.Unit)
	if mask > memory || payload > memory-mask {
		return status.Errorf(status.OutOfMemory,
			"the delta needs a mask of %d bytes and a payload of %d bytes; the system has %d bytes",
			mask, payload, memory)
	}
	probe, err := unix.Mmap(-1, 0, int(mask+payload), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return status.Errorf(status.OutOfMemory, "cannot allocate a mask of %d bytes and a payload of %d bytes: %v",
			mask, payload, err)
	}
	_ = unix.Munmap(probe)
	return nil
}
