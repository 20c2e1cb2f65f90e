// Runs of set bits.

package delta

import (
	"encoding/binary"
	"math/bits"
)

// bitRuns are the ranges of set bits among the first length ones.
func bitRuns(mask []byte, length uint64) []Run {
	count := 0
	edges(mask, length, func(uint64) { count++ })
	runs := make([]Run, 0, count/2) // counting first is cheaper than a list that grows
	start, inside := uint64(0), false
	edges(mask, length, func(at uint64) {
		if inside {
			runs = append(runs, Run{Offset: start, Length: at - start})
		}
		start, inside = at, !inside
	})
	return runs
}

// edges calls yield with where set and other bits meet, in rising order: where a run begins, where it ends, and so on.
func edges(mask []byte, length uint64, yield func(at uint64)) {
	last := uint64(0) // the highest bit of the word before
	for start := uint64(0); start < length; start += 64 {
		word := wordAt(mask, start/8)
		if rest := length - start; rest < 64 {
			word &= 1<<rest - 1
		}
		for edges := word ^ (word<<1 | last); edges != 0; edges &= edges - 1 {
			yield(start + uint64(bits.TrailingZeros64(edges)))
		}
		last = word >> 63
	}
	if last != 0 { // else the last run ends within a word
		yield(length)
	}
}

// wordAt are the eight bytes from an index on, with zeros behind the last one.
func wordAt(bytes []byte, at uint64) uint64 {
	if uint64(len(bytes))-at >= 8 {
		return binary.LittleEndian.Uint64(bytes[at:])
	}
	var last [8]byte
	copy(last[:], bytes[at:])
	return binary.LittleEndian.Uint64(last[:])
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
