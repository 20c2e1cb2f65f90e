// Package metadata is the codec of a page's metadata, which is kept as one blob.
//
// The blob is: u32 count, then per entry u32 key length, key, u32 value length, value; little endian. Keys are valid UTF-8
// of at least one byte, each there once, in the order they were first set. No bytes at all stand for no entries. Validate
// looks at a foreign blob; the other functions are for blobs that are valid, and find nothing past the first damage in one
// that is not.
package metadata

import (
	"bytes"
	"encoding/binary"
	"iter"
	"math"
	"slices"
	"unicode/utf8"

	"libmmsb/core/status"
)

const (
	wordBytes = 4 // of the count and of each length
	// maximumBytes is the size that no blob passes: 4 GiB.
	maximumBytes = 1 << 32
	// longestShown is how much of a key goes into an error text, and one byte.
	longestShown = 64 + 1
)

// shorten keeps a key that goes into an error text short.
func shorten(key []byte) []byte {
	if len(key) < longestShown {
		return key
	}
	end := longestShown - 1
	for end > 0 && !utf8.RuneStart(key[end]) {
		end--
	}
	return key[:end]
}

// field reads a length and as many bytes at offset, and returns the offset behind them.
func field(blob []byte, offset int) (content []byte, next int, ok bool) {
	if len(blob)-offset < wordBytes {
		return nil, offset, false
	}
	length := binary.LittleEndian.Uint32(blob[offset:])
	offset += wordBytes
	if uint64(length) > uint64(len(blob)-offset) {
		return nil, offset, false
	}
	next = offset + int(length)
	return blob[offset:next:next], next, true
}

// entry is an entry's place in the blob, from start to end.
type entry struct {
	key, value []byte
	start, end int
}

func entries(blob []byte) iter.Seq[entry] {
	return func(yield func(entry) bool) {
		offset := wordBytes
		for range Count(blob) {
			key, middle, ok := field(blob, offset)
			if !ok {
				return
			}
			value, end, ok := field(blob, middle)
			if !ok || !yield(entry{key: key, value: value, start: offset, end: end}) {
				return
			}
			offset = end
		}
	}
}

func find(blob, key []byte) (found entry, ok bool) {
	for candidate := range entries(blob) {
		if bytes.Equal(candidate.key, key) {
			return candidate, true
		}
	}
	return entry{}, false
}

// Count is the number of entries that the blob says it has.
func Count(blob []byte) int {
	if len(blob) < wordBytes {
		return 0
	}
	return int(binary.LittleEndian.Uint32(blob))
}

// Keys walks the keys in the order they were first set. They are parts of the blob.
func Keys(blob []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for candidate := range entries(blob) {
			if !yield(candidate.key) {
				return
			}
		}
	}
}

// Get is the value of a key, a part of the blob.
func Get(blob, key []byte) (value []byte, ok bool) {
	found, ok := find(blob, key)
	return found.value, ok
}

// CheckKey says whether a key may be set. Errors: InvalidArgument.
func CheckKey(key []byte) error {
	if len(key) == 0 {
		return status.Errorf(status.InvalidArgument, "key is empty")
	}
	if !utf8.Valid(key) {
		return status.Errorf(status.InvalidArgument, "key of %d bytes is not valid UTF-8", len(key))
	}
	return nil
}

// Set returns a new blob in which key has the value. Errors: InvalidArgument (the key), InvalidSize (the blob would pass 4
// GiB).
func Set(blob, key, value []byte) ([]byte, error) {
	if err := CheckKey(key); err != nil {
		return nil, err
	}
	if uint64(len(key)) > math.MaxUint32 || uint64(len(value)) > math.MaxUint32 {
		return nil, status.Errorf(status.InvalidSize, "key has %d bytes and value has %d bytes; a length has 32 bits",
			len(key), len(value))
	}
	count := Count(blob)
	found, there := find(blob, key)
	if !there {
		if count == math.MaxUint32 {
			return nil, status.Errorf(status.InvalidSize, "metadata has %d entries, the most possible", count)
		}
		count++
		found.start, found.end = max(len(blob), wordBytes), max(len(blob), wordBytes)
	}
	size := uint64(max(len(blob), wordBytes)-(found.end-found.start)) + 2*wordBytes + uint64(len(key)) + uint64(len(value))
	if size > maximumBytes {
		return nil, status.Errorf(status.InvalidSize, "metadata would have %d bytes, more than %d", size, uint64(maximumBytes))
	}
	result := make([]byte, wordBytes, size)
	binary.LittleEndian.PutUint32(result, uint32(count))
	if len(blob) > wordBytes {
		result = append(result, blob[wordBytes:found.start]...)
	}
	result = binary.LittleEndian.AppendUint32(result, uint32(len(key)))
	result = append(result, key...)
	result = binary.LittleEndian.AppendUint32(result, uint32(len(value)))
	result = append(result, value...)
	if found.end < len(blob) {
		result = append(result, blob[found.end:]...)
	}
	return result, nil
}

// Remove returns a new blob without the key, and whether the key was there.
func Remove(blob, key []byte) ([]byte, bool) {
	found, there := find(blob, key)
	if !there {
		return blob, false
	}
	result := slices.Concat(blob[:found.start], blob[found.end:])
	binary.LittleEndian.PutUint32(result, uint32(Count(blob)-1))
	return result, true
}
