// Deltas that the library allocates for a program: each is one piece of memory outside the Go heap, with all it points to.

package delta

import (
	"sync"
	"unsafe"

	"libmmsb/core/status"
	"libmmsb/native"
)

// owned has the addresses of those that were not freed.
var owned = struct {
	sync.Mutex
	deltas map[uintptr]struct{}
}{deltas: make(map[uintptr]struct{})}

// Own makes a C delta of a form, which Free frees. Errors: OutOfMemory.
func Own(f *Form) (*native.Delta, error) {
	parts := [...][]byte{asBytes(f.Runs), asBytes(f.Offsets), f.Mask, f.Payload, text(f.Source), text(f.Intent)}
	length := 0
	for _, part := range parts {
		length += aligned(len(part))
	}
	d := native.NewDelta(uint64(length))
	if d == nil {
		return nil, status.Errorf(status.OutOfMemory, "cannot allocate %d bytes for a delta", length)
	}
	d.Kind, d.ID, d.PageID, d.Epoch = int32(f.Kind), f.ID, f.PageID, f.Epoch
	d.TimestampNanoseconds, d.MaskLength, d.Count, d.PayloadLength = f.TimestampNanoseconds, f.MaskLength, f.Count,
		uint64(len(f.Payload))
	memory := unsafe.Slice((*byte)(unsafe.Add(unsafe.Pointer(d), unsafe.Sizeof(*d))), length)
	var at [len(parts)]unsafe.Pointer // nil where there is nothing
	for i, part := range parts {
		if len(part) > 0 {
			at[i] = unsafe.Pointer(unsafe.SliceData(memory))
			copy(memory, part)
			memory = memory[aligned(len(part)):]
		}
	}
	d.Runs, d.Offsets, d.Mask, d.Payload = at[0], at[1], at[2], at[3]
	d.SetTexts(at[4], at[5])
	owned.Lock()
	owned.deltas[uintptr(unsafe.Pointer(d))] = struct{}{}
	owned.Unlock()
	return d, nil
}

func asBytes[T any](items []T) []byte {
	var item T
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(items))), uintptr(len(items))*unsafe.Sizeof(item))
}

// text is a text as C has it; nothing where it is empty.
func text(of string) []byte {
	if of == "" {
		return nil
	}
	return append([]byte(of), 0)
}

func aligned(length int) int { return (length + 7) &^ 7 }

// Free frees a delta that Own made. Errors: StaleHandle (it was freed, or is none).
func Free(address uintptr) error {
	owned.Lock()
	_, ok := owned.deltas[address]
	delete(owned.deltas, address)
	owned.Unlock()
	if !ok {
		return status.Errorf(status.StaleHandle, "0x%x is not a delta that the library allocated, or it was freed already",
			address)
	}
	native.FreeDelta(address)
	return nil
}

// LiveOwned is the number of deltas that Own made and nobody has freed.
func LiveOwned() uint64 {
	owned.Lock()
	defer owned.Unlock()
	return uint64(len(owned.deltas))
}
