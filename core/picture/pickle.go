// The few opcodes of Python's pickle, protocol 2, that dicts, lists, pairs, texts and numbers take.

package picture

import (
	"bufio"
	"encoding/binary"
	"io"
	"math"
	"math/bits"
)

// pickler writes one pickle as it comes: it keeps nothing but the numbers of what it can repeat.
type pickler struct {
	*bufio.Writer                      // which keeps its first error
	texts         map[string]uint32    // those that come again: keys and constants
	known         map[[3]uint32]uint32 // other values that come again, by what the caller knows them by
	next          uint32               // number of the next value that can be repeated
}

func newPickler(to io.Writer) *pickler {
	p := &pickler{Writer: bufio.NewWriter(to), texts: map[string]uint32{}, known: map[[3]uint32]uint32{}}
	_, _ = p.WriteString("\x80\x02")
	return p
}

func (p *pickler) end() error {
	_ = p.WriteByte('.')
	return p.Flush()
}

func (p *pickler) op(code byte, operand uint32) {
	_, _ = p.Write(binary.LittleEndian.AppendUint32(append(p.AvailableBuffer(), code), operand))
}

func (p *pickler) remember() (number uint32) {
	number = p.next
	p.next++
	p.op('r', number)
	return number
}

// text is a text that comes again.
func (p *pickler) text(text string) {
	if number, known := p.texts[text]; known {
		p.op('j', number)
		return
	}
	p.op('X', uint32(len(text)))
	_, _ = p.WriteString(text)
	p.texts[text] = p.remember()
}

// again is a value that comes again, under a key: it is written once.
func (p *pickler) again(key [3]uint32, value func()) {
	if number, known := p.known[key]; known {
		p.op('j', number)
		return
	}
	value()
	p.known[key] = p.remember()
}

func (p *pickler) number(value uint64) {
	if value <= math.MaxInt32 {
		p.op('J', uint32(value))
		return
	}
	count := bits.Len64(value)/8 + 1 // with room for the sign
	long := append(p.AvailableBuffer(), 0x8a, byte(count))
	for shift := range count {
		long = append(long, byte(value>>(8*shift)))
	}
	_, _ = p.Write(long)
}

func (p *pickler) truth(value bool) {
	opcode := byte(0x89)
	if value {
		opcode = 0x88
	}
	_ = p.WriteByte(opcode)
}

// pair is a tuple of two values.
func (p *pickler) pair(first, second uint64) {
	p.number(first)
	p.number(second)
	_ = p.WriteByte(0x86)
}

// dict has what fields writes: key, value, key, value.
func (p *pickler) dict(fields func()) {
	_, _ = p.WriteString("}(")
	fields()
	_ = p.WriteByte('u')
}

// list has count items. PyTorch's page takes items of one append as arguments of a function, of which there are not many.
func (p *pickler) list(count int, item func(i int)) {
	const batch = 1000
	_ = p.WriteByte(']')
	for first := 0; first < count; first += batch {
		_ = p.WriteByte('(')
		for i := first; i < min(first+batch, count); i++ {
			item(i)
		}
		_ = p.WriteByte('e')
	}
}

// field is a number under a key.
func (p *pickler) field(key string, value uint64) {
	p.text(key)
	p.number(value)
}

// name is a text under a key.
func (p *pickler) name(key, value string) {
	p.text(key)
	p.text(value)
}
