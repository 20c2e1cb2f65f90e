package delta

import (
	"encoding/binary"
	"math/bits"
)

const (
	lowBits  = 0x7f7f7f7f7f7f7f7f
	highBits = 0x8080808080808080
)

// seekByte is the first index ≥ from where a byte of a differs from that of b (differs) or agrees with it, or the length of
// a. A nil b stands for zeros.
func seekByte(a, b []byte, from uint64, differs bool) uint64 {
	length := uint64(len(a))
	for ; length-from >= 8; from += 8 {
		word := binary.LittleEndian.Uint64(a[from:])
		if b != nil {
			word ^= binary.LittleEndian.Uint64(b[from:])
		}
		found := ((word & lowBits) + lowBits | word) & highBits // the high bit of each byte that is not 0
		if !differs {
			found ^= highBits
		}
		if found != 0 {
			return from + uint64(bits.TrailingZeros64(found)/8)
		}
	}
	for ; from < length; from++ {
		other := byte(0)
		if b != nil {
			other = b[from]
		}
		if (a[from] != other) == differs {
			break
		}
	}
	return from
}

// seekBit is the first index ≥ from and < length of a bit of that value, or length.
func seekBit(mask []byte, from, length uint64, value bool) uint64 {
	var flip uint64
	if !value {
		flip = ^flip
	}
	for from < length {
		at := from / 8
		if from%8 == 0 && uint64(len(mask))-at >= 8 {
			if word := binary.LittleEndian.Uint64(mask[at:]) ^ flip; word != 0 {
				return min(length, from+uint64(bits.TrailingZeros64(word)))
			}
			from += 64
			continue
		}
		if rest := (mask[at] ^ byte(flip)) >> (from % 8); rest != 0 {
			return min(length, from+uint64(bits.TrailingZeros8(rest)))
		}
		from = (at + 1) * 8
	}
	return length
}

// countBits is the number of set bits among the first length ones.
func countBits(mask []byte, length uint64) uint64 {
	whole, rest := mask[:length/8], length%8
	count := 0
	if rest != 0 {
		count = bits.OnesCount8(mask[length/8] & (1<<rest - 1))
	}
	for ; len(whole) >= 8; whole = whole[8:] {
		count += bits.OnesCount64(binary.LittleEndian.Uint64(whole))
	}
	for _, value := range whole {
		count += bits.OnesCount8(value)
	}
	return uint64(count)
}

// setBits sets count bits from bit first on.
func setBits(mask []byte, first, count uint64) {
	for at := first; at < first+count; {
		if at%8 == 0 && first+count-at >= 8 {
			mask[at/8] = 0xff
			at += 8
		} else {
			mask[at/8] |= 1 << (at % 8)
			at++
		}
	}
}
