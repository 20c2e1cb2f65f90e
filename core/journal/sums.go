// Checksums of any part of a file, of which each byte is read once.

package journal

import "hash/crc32"

// sums are the checksums of a file's beginnings, up to each unit.
type sums []uint32

// grow adds the next units.
func (s *sums) grow(units []byte) {
	if len(*s) == 0 {
		*s = append(*s, 0)
	}
	for ; len(units) >= unitBytes; units = units[unitBytes:] {
		*s = append(*s, crc32.Update((*s)[len(*s)-1], castagnoli, units[:unitBytes]))
	}
}

// units is how many there are.
func (s sums) units() int { return max(len(s)-1, 0) }

// behind is the checksum of something with the units from one up to another behind it: the checksum of two parts is that of the
// first, as it would be with as many zeros behind it, and that of the second together. So is that of a file's beginning.
func (s sums) behind(before uint32, from, to int) uint32 {
	return shifted(before^s[from], to-from) ^ s[to]
}

// A checksum is a polynomial over one bit, of degree 31 at most; bit 31 is the coefficient of 1.

// product of two polynomials, modulo that of the checksum.
func product(a, b uint32) (p uint32) {
	for bit := uint32(1) << 31; bit != 0; bit >>= 1 {
		if a&bit != 0 {
			p ^= b
		}
		if b&1 != 0 {
			b = b>>1 ^ crc32.Castagnoli
		} else {
			b >>= 1
		}
	}
	return p
}

// unitPowers are x to the number of bits of 1, 2, 4, … units.
var unitPowers = func() (powers [11]uint32) {
	power := uint32(1) << 30 // x
	for bits := 1; bits < 8*unitBytes; bits *= 2 {
		power = product(power, power)
	}
	for i := range powers {
		powers[i], power = power, product(power, power)
	}
	return powers
}()

// shifted is what so many units of zeros behind it make of a checksum without its first and last xor, fewer than 2048 units.
func shifted(sum uint32, units int) uint32 {
	for i := 0; units > 0; i, units = i+1, units>>1 {
		if units&1 != 0 {
			sum = product(sum, unitPowers[i])
		}
	}
	return sum
}
