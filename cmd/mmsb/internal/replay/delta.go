// The runs of bytes that a record writes, whatever its form.

package replay

import (
	"encoding/binary"

	"libmmsb/core/journal"
)

// runs walks the runs of bytes that a record writes: where, and which bytes. The decoder has compared the lengths of its parts.
func runs(r *journal.Record, visit func(offset uint64, bytes []byte) error) error {
	if r.Kind != journal.Delta {
		return visit(r.Offset, r.Bytes)
	}
	switch r.Form {
	case journal.DenseBytes:
		return masked(r, func(at uint64) bool { return r.Mask[at] != 0 }, visit)
	case journal.DenseBits, journal.SparseBits:
		return masked(r, func(at uint64) bool { return r.Mask[at/8]>>(at%8)&1 != 0 }, visit)
	default:
		return indexed(r, visit)
	}
}

func masked(r *journal.Record, set func(at uint64) bool, visit func(offset uint64, bytes []byte) error) error {
	payload := r.Bytes
	for at := uint64(0); at < r.MaskLength; at++ {
		if !set(at) {
			continue
		}
		from := at
		for at++; at < r.MaskLength && set(at); at++ {
		}
		bytes := payload[:at-from]
		if r.Form == journal.SparseBits {
			payload = payload[at-from:]
		} else {
			bytes = payload[from:at]
		}
		if err := visit(from, bytes); err != nil {
			return err
		}
	}
	return nil
}

func indexed(r *journal.Record, visit func(offset uint64, bytes []byte) error) error {
	payload := r.Bytes
	for number := range r.Count {
		length := uint64(1)
		var offset uint64
		switch r.Form {
		case journal.Indexed32:
			offset = uint64(binary.LittleEndian.Uint32(r.Positions[4*number:]))
		case journal.Runs:
			offset, length = binary.LittleEndian.Uint64(r.Positions[16*number:]),
				binary.LittleEndian.Uint64(r.Positions[16*number+8:])
		default:
			offset = binary.LittleEndian.Uint64(r.Positions[8*number:])
		}
		if err := visit(offset, payload[:length]); err != nil {
			return err
		}
		payload = payload[length:]
	}
	return nil
}
