// A reader of pickles that makes dicts, lists, tuples, texts, numbers, booleans and None, and runs nothing.

package trace

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"io"
	"math"

	"libmmsb/core/status"
)

// The packages for Go that read pickles make an object of any class that a file names, and allocate what a length in it says. So
// the few instructions that data needs are read here, those of the protocols 2 to 5.
//
// An instruction is run when it is read, on a stack, without recursion: data can be nested in any depth. What is kept takes at
// most pickleFactor bytes for each byte of the file, whatever that says. A dict keeps only the keys that somebody asks for, so
// that the stack frames of a million events take no memory.

const (
	pickleFactor = 16
	pickleBytes  = 1 << 20 // that any pickle may take
)

// What a value can be: nil, bool, int64, uint64 where int64 is too small, float64, string, *pickleList (also of a tuple) and
// *pickleDict.
type (
	pickleList struct{ items []any }
	pickleDict struct{ pairs []picklePair }
	picklePair struct {
		key   string
		value any
	}
)

// get is the value of a key; nil where there is none.
func (d *pickleDict) get(key string) any {
	for at := len(d.pairs) - 1; at >= 0; at-- { // the last one counts
		if d.pairs[at].key == key {
			return d.pairs[at].value
		}
	}
	return nil
}

type pickle struct {
	in    *bufio.Reader
	at    uint64 // bytes that were read
	asked map[string]bool

	stack   []any
	marks   []int // stack[mark:] is behind the mark
	memo    []any
	deepest int    // the most values that the stack had
	taken   uint64 // bytes, about
}

// The instructions, by the names that Python's pickletools has for them.
const (
	opMark           = '('
	opStop           = '.'
	opPop            = '0'
	opPopMark        = '1'
	opDup            = '2'
	opBinBytes       = 'B'
	opShortBinBytes  = 'C'
	opBinFloat       = 'G'
	opBinInt         = 'J'
	opBinInt1        = 'K'
	opBinInt2        = 'M'
	opNone           = 'N'
	opShortBinString = 'U'
	opBinUnicode     = 'X'
	opEmptyList      = ']'
	opAppend         = 'a'
	opDict           = 'd'
	opAppends        = 'e'
	opBinGet         = 'h'
	opLongBinGet     = 'j'
	opList           = 'l'
	opBinPut         = 'q'
	opLongBinPut     = 'r'
	opSetItem        = 's'
	opTuple          = 't'
	opEmptyTuple     = ')'
	opSetItems       = 'u'
	opEmptyDict      = '}'
	opProto          = 0x80
	opTuple1         = 0x85
	opTuple2         = 0x86
	opTuple3         = 0x87
	opNewTrue        = 0x88
	opNewFalse       = 0x89
	opLong1          = 0x8a
	opLong4          = 0x8b
	opShortUnicode   = 0x8c
	opBinUnicode8    = 0x8d
	opBinBytes8      = 0x8e
	opMemoize        = 0x94
	opFrame          = 0x95
)

// running are the instructions that make more than data.
var running = map[byte]string{
	'P': "PERSID", 'Q': "BINPERSID", 'R': "REDUCE", 'b': "BUILD", 'c': "GLOBAL", 'i': "INST", 'o': "OBJ", 0x81: "NEWOBJ",
	0x82: "EXT1", 0x83: "EXT2", 0x84: "EXT4", 0x92: "NEWOBJ_EX", 0x93: "STACK_GLOBAL", 0x97: "NEXT_BUFFER",
	0x98: "READONLY_BUFFER",
}

// readPickle reads one value. asked are the keys that dicts keep.
func readPickle(in *bufio.Reader, asked map[string]bool) (value any, err error) {
	p := &pickle{in: in, asked: asked}
	if op, err := p.byte(); err != nil || op != opProto {
		return nil, p.fail("protocol is missing", err)
	}
	if version, err := p.byte(); err != nil || version < 2 || version > 5 {
		return nil, p.fail("protocol is not 2 to 5", err)
	}
	for {
		op, err := p.byte()
		if err != nil {
			return nil, err
		}
		if op == opStop {
			break
		}
		if err := p.run(op); err != nil {
			return nil, err
		}
		if err := p.bound(); err != nil {
			return nil, err
		}
	}
	if len(p.stack) != 1 || len(p.marks) != 0 {
		return nil, p.fail("end leaves not one value", nil)
	}
	return p.stack[0], nil
}

// bound is an error where too much memory is taken.
func (p *pickle) bound() error {
	if p.deepest < len(p.stack) {
		p.taken += 32 * uint64(len(p.stack)-p.deepest)
		p.deepest = len(p.stack)
	}
	if most := pickleBytes + pickleFactor*p.at; p.taken > most {
		return status.Errorf(status.Limit, "pickle takes %d bytes of memory at offset %d, more than %d", p.taken, p.at,
			most)
	}
	return nil
}

// fail is err, or that what was read last is not the format.
func (p *pickle) fail(how string, err error) error {
	if err != nil {
		return err
	}
	return status.Errorf(status.Format, "pickle cannot be read at offset %d: %s", p.at-1, how)
}

// cut is the error of a read.
func (p *pickle) cut(err error) error {
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return status.Errorf(status.Corrupt, "pickle is cut off at offset %d", p.at)
	}
	return err
}

func (p *pickle) byte() (byte, error) {
	b, err := p.in.ReadByte()
	if err != nil {
		return 0, p.cut(err)
	}
	p.at++
	return b, nil
}

// number reads a number of a few bytes, at most 8, the lowest first.
func (p *pickle) number(bytes int) (uint64, error) {
	var raw [8]byte
	n, err := io.ReadFull(p.in, raw[:bytes])
	p.at += uint64(n)
	if err != nil {
		return 0, p.cut(err)
	}
	return binary.LittleEndian.Uint64(raw[:]), nil
}

// text reads a text whose length comes first, in so many bytes. Its memory grows with what is there, not with what the length
// says.
func (p *pickle) text(lengthBytes int) error {
	length, err := p.number(lengthBytes)
	if err != nil {
		return err
	}
	var text bytes.Buffer
	n, err := io.CopyN(&text, p.in, int64(min(length, math.MaxInt64)))
	p.at += uint64(n)
	if err != nil {
		return p.cut(err)
	}
	p.taken += 16 + length
	p.push(text.String())
	return nil
}

func (p *pickle) push(values ...any) { p.stack = append(p.stack, values...) }

// bottom is where the values begin that an instruction may use.
func (p *pickle) bottom() int {
	if last := len(p.marks) - 1; last >= 0 {
		return p.marks[last]
	}
	return 0
}

// pop takes the last values off the stack. They are there until the next push.
func (p *pickle) pop(count int) ([]any, error) {
	at := len(p.stack) - count
	if at < p.bottom() {
		return nil, p.fail("stack has too few values", nil)
	}
	values := p.stack[at:]
	p.stack = p.stack[:at]
	return values, nil
}

// popMark takes the values behind the last mark, and the mark.
func (p *pickle) popMark() ([]any, error) {
	last := len(p.marks) - 1
	if last < 0 {
		return nil, p.fail("mark is missing", nil)
	}
	values := p.stack[p.marks[last]:]
	p.stack = p.stack[:p.marks[last]]
	p.marks = p.marks[:last]
	return values, nil
}

func (p *pickle) list(values []any, err error) error {
	if err != nil {
		return err
	}
	list := &pickleList{}
	p.extend(list, values)
	p.push(list)
	p.taken += 48
	return nil
}

func (p *pickle) extend(list *pickleList, values []any) {
	list.items = append(list.items, values...)
	p.taken += 32 * uint64(len(values))
}

// set gives a dict pairs of keys and values; those that nobody asks for are forgotten.
func (p *pickle) set(dict *pickleDict, values []any) error {
	if len(values)%2 != 0 {
		return p.fail("key has no value", nil)
	}
	for ; len(values) > 0; values = values[2:] {
		if key, is := values[0].(string); is && p.asked[key] {
			dict.pairs = append(dict.pairs, picklePair{key, values[1]})
			p.taken += 64
		}
	}
	return nil
}

// put remembers the last value under the next number.
func (p *pickle) put(number uint64) error {
	if len(p.stack) == p.bottom() {
		return p.fail("stack has too few values", nil)
	}
	value := p.stack[len(p.stack)-1]
	switch {
	case number < uint64(len(p.memo)):
		p.memo[number] = value
	case number == uint64(len(p.memo)):
		p.memo = append(p.memo, value)
		p.taken += 32
	default:
		return p.fail("number of a remembered value is not the next one", nil)
	}
	return nil
}

// integer makes a number of two's complement in so many bytes.
func (p *pickle) integer(length uint64) error {
	var raw [9]byte
	if length > uint64(len(raw)) {
		return p.fail("integer has more than 64 bits", nil)
	}
	n, err := io.ReadFull(p.in, raw[:length])
	p.at += uint64(n)
	if err != nil {
		return p.cut(err)
	}
	negative := length > 0 && raw[length-1] >= 0x80
	for at := int(length); negative && at < len(raw); at++ {
		raw[at] = 0xff
	}
	value := binary.LittleEndian.Uint64(raw[:])
	switch {
	case raw[8] == 0 && value <= math.MaxInt64, raw[8] == 0xff && value > math.MaxInt64:
		p.push(int64(value))
	case raw[8] == 0:
		p.push(value)
	default:
		return p.fail("integer has more than 64 bits", nil)
	}
	p.taken += 16
	return nil
}

// run does what an instruction says.
func (p *pickle) run(op byte) error {
	switch op {
	case opFrame: // how much to read at once
		_, err := p.number(8)
		return err
	case opMark:
		p.marks = append(p.marks, len(p.stack))
		p.taken += 16
	case opPop:
		if len(p.stack) == p.bottom() && len(p.marks) > 0 {
			_, err := p.popMark()
			return err
		}
		_, err := p.pop(1)
		return err
	case opPopMark:
		_, err := p.popMark()
		return err
	case opDup:
		values, err := p.pop(1)
		if err == nil {
			value := values[0]
			p.push(value, value)
		}
		return err
	case opNone:
		p.push(nil)
	case opNewTrue, opNewFalse:
		p.push(op == opNewTrue)
	case opBinInt1, opLong1:
		return p.runNumber(op, 1)
	case opBinInt2:
		return p.runNumber(op, 2)
	case opBinInt, opLong4:
		return p.runNumber(op, 4)
	case opBinFloat:
		return p.runNumber(op, 8)
	case opShortBinString, opShortBinBytes, opShortUnicode:
		return p.text(1)
	case opBinUnicode, opBinBytes:
		return p.text(4)
	case opBinUnicode8, opBinBytes8:
		return p.text(8)
	case opBinPut, opLongBinPut, opMemoize, opBinGet, opLongBinGet:
		return p.runMemo(op)
	default:
		return p.runCollection(op)
	}
	return nil
}

func (p *pickle) runNumber(op byte, bytes int) error {
	value, err := p.number(bytes)
	if err != nil {
		return err
	}
	p.taken += 16
	switch op {
	case opBinInt:
		p.push(int64(int32(value)))
	case opBinInt1, opBinInt2:
		p.push(int64(value))
	case opBinFloat: // the highest byte first
		var raw [8]byte
		binary.LittleEndian.PutUint64(raw[:], value)
		p.push(math.Float64frombits(binary.BigEndian.Uint64(raw[:])))
	default:
		return p.integer(value)
	}
	return nil
}

func (p *pickle) runMemo(op byte) error {
	if op == opMemoize {
		return p.put(uint64(len(p.memo)))
	}
	bytes := 1
	if op == opLongBinPut || op == opLongBinGet {
		bytes = 4
	}
	number, err := p.number(bytes)
	if err != nil {
		return err
	}
	if op == opBinPut || op == opLongBinPut {
		return p.put(number)
	}
	if number >= uint64(len(p.memo)) {
		return p.fail("remembered value does not exist", nil)
	}
	p.push(p.memo[number])
	return nil
}

// runCollection does what makes and fills lists, tuples and dicts.
func (p *pickle) runCollection(op byte) error {
	switch op {
	case opEmptyList, opEmptyTuple:
		return p.list(nil, nil)
	case opTuple1, opTuple2, opTuple3:
		return p.list(p.pop(1 + int(op-opTuple1)))
	case opTuple, opList:
		return p.list(p.popMark())
	case opEmptyDict:
		p.push(&pickleDict{})
		p.taken += 48
		return nil
	case opDict:
		values, err := p.popMark()
		if err != nil {
			return err
		}
		dict := &pickleDict{}
		p.taken += 48
		err = p.set(dict, values)
		p.push(dict)
		return err
	}
	var values []any
	var err error
	switch op {
	case opAppend:
		values, err = p.pop(1)
	case opSetItem:
		values, err = p.pop(2)
	case opAppends, opSetItems:
		values, err = p.popMark()
	default:
		if name, is := running[op]; is {
			return status.Errorf(status.Format,
				"pickle has %s at offset %d: only dicts, lists, tuples, texts and numbers are read", name, p.at-1)
		}
		return status.Errorf(status.Format, "pickle has instruction 0x%02x at offset %d, which does not exist", op, p.at-1)
	}
	if err != nil {
		return err
	}
	if len(p.stack) == p.bottom() {
		return p.fail("stack has too few values", nil)
	}
	to := p.stack[len(p.stack)-1]
	if list, is := to.(*pickleList); is && (op == opAppend || op == opAppends) {
		p.extend(list, values)
		return nil
	}
	if dict, is := to.(*pickleDict); is && (op == opSetItem || op == opSetItems) {
		return p.set(dict, values)
	}
	return p.fail("value is not a list or dict that can be filled", nil)
}
