// The bytes of a page, or its mask, of which only changed chunks are in memory.

package replay

import "libmmsb/core/snapshot"

// content is the bytes of a page, or its mask: what is below, with the chunks that were changed over it. So a page costs the
// memory of what the journal changes in it.
type content struct {
	size   uint64
	chunks map[uint64][]byte // by number
	below  func(into []byte, offset uint64) error
	floor  uint64 // bytes of below that count; from there on it is zeros
}

func (c *content) length(number uint64) int {
	return int(min(snapshot.Chunk, c.size-number*snapshot.Chunk))
}

// read gives a chunk; it may use memory, and what it gives is not to be changed.
func (c *content) read(number uint64, memory []byte) ([]byte, error) {
	if chunk, changed := c.chunks[number]; changed {
		return chunk, nil
	}
	chunk, offset := memory[:c.length(number)], number*snapshot.Chunk
	clear(chunk)
	if offset >= c.floor {
		return chunk, nil
	}
	return chunk, c.below(chunk[:min(uint64(len(chunk)), c.floor-offset)], offset)
}

// change gives a chunk to be changed.
func (c *content) change(number uint64) ([]byte, error) {
	if chunk, changed := c.chunks[number]; changed {
		return chunk, nil
	}
	chunk, err := c.read(number, make([]byte, c.length(number)))
	if err != nil {
		return nil, err
	}
	if c.chunks == nil {
		c.chunks = make(map[uint64][]byte)
	}
	c.chunks[number] = chunk
	return chunk, nil
}

// write changes bytes, which lie within the size.
func (c *content) write(offset uint64, bytes []byte) error {
	for len(bytes) > 0 {
		chunk, err := c.change(offset / snapshot.Chunk)
		if err != nil {
			return err
		}
		n := copy(chunk[offset%snapshot.Chunk:], bytes)
		bytes, offset = bytes[n:], offset+uint64(n)
	}
	return nil
}

// mark sets bits, which lie within the size.
func (c *content) mark(first, count uint64) error {
	for end := first + count; first < end; {
		const bits = 8 * snapshot.Chunk
		chunk, err := c.change(first / bits)
		if err != nil {
			return err
		}
		from := first % bits
		to := min(bits, from+end-first)
		first += to - from
		for ; from < to && from%8 != 0; from++ {
			chunk[from/8] |= 1 << (from % 8)
		}
		for ; to-from >= 8; from += 8 {
			chunk[from/8] = 0xff
		}
		for ; from < to; from++ {
			chunk[from/8] |= 1 << (from % 8)
		}
	}
	return nil
}

// resize cuts, or adds zeros.
func (c *content) resize(size uint64) {
	c.size, c.floor = size, min(c.floor, size)
	for number, chunk := range c.chunks {
		if number*snapshot.Chunk >= size {
			delete(c.chunks, number)
		} else if length := c.length(number); length != len(chunk) {
			resized := make([]byte, length)
			copy(resized, chunk)
			c.chunks[number] = resized
		}
	}
}

// clone is a content of its own over the same bytes below.
func (c *content) clone() content {
	copied := *c
	copied.chunks = make(map[uint64][]byte, len(c.chunks))
	for number, chunk := range c.chunks {
		copied.chunks[number] = append([]byte(nil), chunk...)
	}
	return copied
}
