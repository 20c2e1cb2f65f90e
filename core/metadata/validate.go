package metadata

import (
	"encoding/binary"
	"hash/maphash"
	"math"
	"unicode/utf8"
	"unsafe"

	"libmmsb/core/status"
)

// Validate looks at a blob from outside and returns the number of its entries. Errors: Corrupt, with the offset of the
// damage.
func Validate(blob []byte) (count int, err error) {
	var v Validator
	for {
		if err := v.Add(blob, len(blob)); err != nil {
			return 0, err
		}
		count, again, err := v.End()
		if err != nil || !again {
			return count, err
		}
	}
}

// Validator looks at a blob from outside, in pieces that come in order, and does not keep them: all it has is a set of keys, by
// their hashes. Where there are so many keys that the set would be large, the blob must come again for the rest of them.
type Validator struct {
	claimed, number uint32
	part            part
	at, begin       uint64 // offsets of the next byte and of the part
	room            int    // bytes that the set may have beside the least
	word            [wordBytes]byte
	have            int // of word
	left            uint64
	keyBegin        uint64 // offset of the entry's key's length
	first           [longestShown]byte
	shown           int // of first
	rune            [utf8.UTFMax]byte
	partial         int // of rune: bytes of one that goes on in the next piece
	one, two        maphash.Hash
	keys            keySet
	err             error
}

// part is what comes next in a blob.
type part uint8

const (
	theCount part = iota
	keyLength
	theKey
	valueLength
	theValue
	theEnd
)

// Add looks at the next piece. stored is how many bytes it has where it comes from: who has stored much may need much memory.
// Errors: Corrupt.
func (v *Validator) Add(piece []byte, stored int) error {
	v.room += stored
	if v.at+uint64(len(piece)) > maximumBytes && v.err == nil {
		v.err = status.Errorf(status.Corrupt, "metadata has %d bytes, more than %d", v.at+uint64(len(piece)),
			uint64(maximumBytes))
	}
	for v.err == nil && len(piece) > 0 {
		n := v.entry(piece)
		if n == 0 {
			n = v.take(piece)
		}
		v.at += uint64(n)
		piece = piece[n:]
	}
	return v.err
}

// entry looks at an entry that is whole in a piece, and says how long it is. 0: it is not, or is wrong, which take finds out.
func (v *Validator) entry(piece []byte) int {
	left := uint64(len(piece))
	if v.part != keyLength || v.have != 0 || left < 2*wordBytes {
		return 0
	}
	left -= 2 * wordBytes
	length := uint64(binary.LittleEndian.Uint32(piece))
	if length == 0 || length > left {
		return 0
	}
	key, behind := piece[wordBytes:wordBytes+length], piece[wordBytes+length:]
	value := uint64(binary.LittleEndian.Uint32(behind))
	if value > left-length || !utf8.Valid(key) || !v.isNew(key) {
		return 0
	}
	v.begin = v.at + wordBytes + length
	copy(v.word[:], behind)
	v.next()
	return int(2*wordBytes + length + value)
}

// isNew says whether a key is not in the set yet, and puts it there.
func (v *Validator) isNew(key []byte) bool {
	first := maphash.Bytes(seeds[0], key)
	return !v.keys.takes(first) || v.keys.add(hashes{first, maphash.Bytes(seeds[1], key)}, v.room)
}

// take looks at the beginning of a piece, and says at how much of it.
func (v *Validator) take(piece []byte) (n int) {
	switch v.part {
	case theCount, keyLength, valueLength:
		if v.have == 0 {
			v.begin = v.at
		}
		n = copy(v.word[v.have:], piece)
		if v.have += n; v.have == wordBytes {
			v.have = 0
			v.length(binary.LittleEndian.Uint32(v.word[:]))
		}
	case theKey:
		n = int(min(v.left, uint64(len(piece))))
		v.left -= uint64(n)
		v.key(piece[:n])
	case theValue:
		n = int(min(v.left, uint64(len(piece))))
		if v.left -= uint64(n); v.left == 0 {
			v.next()
		}
	default:
		n = len(piece) // End says how many there are
	}
	return n
}

// length takes the number that a count or a length is.
func (v *Validator) length(number uint32) {
	v.left = uint64(number)
	switch v.part {
	case theCount:
		v.claimed = number
		if v.number = 0; number == 0 {
			v.part = theEnd
		} else {
			v.part = keyLength
		}
	case keyLength:
		v.keyBegin, v.shown = v.begin, 0
		if v.part = theKey; number == 0 {
			v.err = v.wrong("has an empty key")
		}
	default:
		if v.part = theValue; number == 0 {
			v.next()
		}
	}
}

func (v *Validator) next() {
	if v.number++; v.number == v.claimed {
		v.part = theEnd
	} else {
		v.part = keyLength
	}
}

// key takes bytes of a key, of which left more come.
func (v *Validator) key(bytes []byte) {
	begins, whole := v.shown == 0, v.left == 0
	v.shown += copy(v.first[v.shown:], bytes)
	if !v.isText(bytes) || whole && v.partial > 0 {
		v.err = v.wrong("has a key that is not valid UTF-8")
		return
	}
	if !begins || !whole {
		v.hash(begins, bytes)
	}
	if !whole {
		return
	}
	v.part = valueLength
	isNew := false
	if begins {
		isNew = v.isNew(bytes)
	} else {
		isNew = v.keys.add(hashes{v.one.Sum64(), v.two.Sum64()}, v.room)
	}
	if !isNew {
		v.err = status.Errorf(status.Corrupt, "metadata entry %d of %d at offset %d repeats the key %q", v.number+1, v.claimed,
			v.keyBegin, shorten(v.first[:v.shown]))
	}
}

// hash takes bytes of a key that comes in several pieces.
func (v *Validator) hash(begins bool, bytes []byte) {
	if begins {
		v.one.SetSeed(seeds[0])
		v.two.SetSeed(seeds[1])
	}
	_, _ = v.one.Write(bytes)
	_, _ = v.two.Write(bytes)
}

// isText says whether bytes go on in valid UTF-8, whose last rune may go on behind them.
func (v *Validator) isText(bytes []byte) bool {
	for v.partial > 0 && len(bytes) > 0 {
		v.rune[v.partial] = bytes[0]
		v.partial++
		bytes = bytes[1:]
		if begun := v.rune[:v.partial]; utf8.FullRune(begun) {
			if !utf8.Valid(begun) {
				return false
			}
			v.partial = 0
		}
	}
	for tail := 1; tail < utf8.UTFMax && tail <= len(bytes); tail++ {
		last := bytes[len(bytes)-tail:]
		if !utf8.RuneStart(last[0]) {
			continue
		}
		if !utf8.FullRune(last) {
			v.partial = copy(v.rune[:], last)
			bytes = bytes[:len(bytes)-tail]
		}
		break
	}
	return utf8.Valid(bytes)
}

func (v *Validator) wrong(how string) error {
	return status.Errorf(status.Corrupt, "metadata entry %d of %d at offset %d %s", v.number+1, v.claimed, v.keyBegin, how)
}

// End says how many entries there were when all pieces have come, and whether they must come again.
func (v *Validator) End() (count int, again bool, err error) {
	if v.err == nil {
		v.err = v.incomplete()
	}
	if v.err != nil || !v.keys.nextRange() {
		return int(v.number), false, v.err
	}
	*v = Validator{keys: v.keys}
	return 0, true, nil
}

// incomplete says what is missing at the end.
func (v *Validator) incomplete() error {
	left := v.at - v.begin
	name := map[part]string{keyLength: "key", theKey: "key", valueLength: "value", theValue: "value"}[v.part]
	switch v.part {
	case theCount:
		if v.at > 0 {
			return status.Errorf(status.Corrupt, "metadata has %d bytes, fewer than its count needs", v.at)
		}
	case keyLength, valueLength:
		if v.have == 0 {
			v.begin = v.at
		}
		return status.Errorf(status.Corrupt, "metadata entry %d of %d at offset %d: %d bytes are left for the length of its %s",
			v.number+1, v.claimed, v.begin, v.have, name)
	case theKey, theValue:
		return status.Errorf(status.Corrupt, "metadata entry %d of %d at offset %d: its %s has %d bytes, %d are left",
			v.number+1, v.claimed, v.begin, name, v.left+left-wordBytes, left-wordBytes)
	default:
		if end := v.begin + wordBytes + v.lastLength(); v.at > end {
			return status.Errorf(status.Corrupt, "metadata ends at offset %d after %d entries, but has %d bytes", end, v.claimed,
				v.at)
		}
	}
	return nil
}

// lastLength is the length of the last value; 0 where there is none.
func (v *Validator) lastLength() uint64 {
	if v.claimed == 0 {
		return 0
	}
	return uint64(binary.LittleEndian.Uint32(v.word[:]))
}

var seeds = [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}

// hashes are two of one key, which nobody can foretell: keys with the same ones are the same.
type hashes [2]uint64

// keySet is a set of keys of which the first hash lies in a range, from one number up to another. When it is full it lets go of
// the upper half of the range.
type keySet struct {
	few      [8]hashes
	slots    []hashes // free ones are zeros; nil while few are enough
	count    int
	from, to uint64 // to is within; the range begins as all there is
	begun    bool
}

// leastSlots is up to which size a set may grow in any case: 16 MiB.
const leastSlots = 1 << 20

// takes says whether a key with this first hash is in the range.
func (k *keySet) takes(first uint64) bool {
	if !k.begun {
		k.begun, k.to = true, math.MaxUint64
	}
	return first >= k.from && first <= k.to
}

// add says whether a key is new, or in another range. room is how many bytes the set may have if that is more than the least.
func (k *keySet) add(key hashes, room int) bool {
	if !k.takes(key[0]) {
		return true
	}
	if key == (hashes{}) {
		key[1] = 1 // zeros are a free slot
	}
	if k.slots == nil {
		for _, other := range k.few[:k.count] {
			if other == key {
				return false
			}
		}
		if k.count < len(k.few) {
			k.few[k.count] = key
			k.count++
			return true
		}
		k.move(k.few[:], 8*len(k.few))
	}
	for 4*k.count >= 3*len(k.slots) {
		if most := max(leastSlots, room/int(unsafe.Sizeof(key))); 2*len(k.slots) <= most {
			k.move(k.slots, 2*len(k.slots))
			continue
		}
		k.to = k.from + (k.to-k.from)/2
		k.move(k.slots, len(k.slots))
		if key[0] > k.to {
			return true
		}
	}
	return k.put(key)
}

// move makes the set of other slots, so many, those of them that are in the range.
func (k *keySet) move(others []hashes, size int) {
	k.slots, k.count = make([]hashes, size), 0
	for _, key := range others {
		if key != (hashes{}) && key[0] <= k.to {
			k.put(key)
		}
	}
}

func (k *keySet) put(key hashes) bool {
	mask := uint64(len(k.slots) - 1)
	at := key[1] & mask
	for ; k.slots[at] != (hashes{}); at = (at + 1) & mask {
		if k.slots[at] == key {
			return false
		}
	}
	k.slots[at] = key
	k.count++
	return true
}

// nextRange empties the set for the range behind the one that it had, as long as that; false: there is none.
func (k *keySet) nextRange() bool {
	if !k.begun || k.to == math.MaxUint64 {
		return false
	}
	length := k.to - k.from
	k.from = k.to + 1
	k.to = k.from + length
	if k.to < k.from {
		k.to = math.MaxUint64
	}
	clear(k.slots)
	k.count = 0
	return true
}
