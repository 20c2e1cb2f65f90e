package pool

import (
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strconv"
	"strings"

	"libmmsb/core/status"
)

// Unit is what sizes are rounded up to, in bytes: PyTorch's kMinBlockSize.
const Unit = 512

const (
	mib = 1 << 20

	// Small requests have a range of addresses of their own, so that they do not lie between large ones.
	MostSmall    = mib
	segmentBytes = 2 * mib // that get memory, and lose it, at once; also the least that the range of small requests grows by
	largeStep    = 20 * mib

	smallestSlab, largestSlab, slabFactor = 4 << 10, 4 * mib, 4

	// mostBytes is PyTorch's bound: what is more is a mistake, and cannot be rounded.
	mostBytes = 1 << 60

	// divisionRows are the powers of two, from 1 MiB to 64 GiB, that have divisions of their own.
	divisionRows = 17
)

// Options say how a pool rounds and grows. The zero value is the default.
type Options struct {
	// Origin is where segments come from.
	Origin Origin
	// Peers: kernels of other devices reach the memory of virtual segments.
	Peers bool
	// Pageable: host memory that is not pinned serves where pinned memory is missing.
	Pageable bool
	// Slabs: requests take 4 KiB, 16 KiB, 64 KiB, 256 KiB, 1 MiB or 4 MiB, whatever fits; larger ones as without.
	Slabs bool
	// Limit is the most bytes that have memory; 0: none but the device's.
	Limit uint64
	// LargeStep is by how many bytes the range of large requests grows at least, where Slack allows; 0: 20 MiB.
	LargeStep uint64
	// Slack is how many bytes may have memory above the most that were ever held, in thousandths of these, but at least
	// LargeStep, before the pool takes the memory of free segments instead of new memory; 0: 50, and more where much is taken.
	Slack uint32
	// Divisions are into how many steps a power of two of bytes is divided, that requests are rounded up to, from 1 MiB on; 0:
	// none.
	Divisions [divisionRows]uint32
}

func (o *Options) defaults() {
	if o.LargeStep == 0 {
		o.LargeStep = largeStep
	}
}

// Round is how many bytes a request takes. Errors: InvalidSize (0, or more than can be).
func (o *Options) Round(bytes uint64) (uint64, error) {
	if bytes == 0 || bytes >= mostBytes {
		return 0, status.Errorf(status.InvalidSize, "size of the block is %d; 1 to %d bytes can be", bytes, uint64(mostBytes-1))
	}
	if o.Slabs && bytes <= largestSlab {
		slab := uint64(smallestSlab)
		for slab < bytes {
			slab *= slabFactor
		}
		return slab, nil
	}
	if n := o.divisions(bytes); n > 1 && bytes > Unit*uint64(n) {
		step := uint64(1) << (bits.Len64(bytes-1) - 1) / uint64(n)
		if step > Unit {
			return (bytes + step - 1) / step * step, nil
		}
	}
	return (bytes + Unit - 1) / Unit * Unit, nil
}

func (o *Options) divisions(bytes uint64) uint32 {
	row := min(max(bits.Len64(bytes-1), 20)-20, divisionRows-1)
	return o.Divisions[row]
}

// Parse reads options as PyTorch's PYTORCH_ALLOC_CONF has them: `name:value` with commas between, a list in brackets. Names that
// are for what this pool does not need are understood and have no effect; unknown ones are an error. Errors: InvalidArgument,
// with the position.
func Parse(text string) (Options, error) {
	p := parser{text: text}
	var o Options
	for p.at < len(text) {
		if err := p.option(&o); err != nil {
			return Options{}, err
		}
	}
	return o, p.together(&o)
}

type parser struct {
	text string
	at   int
	// What expandable_segments says, if anything, and where.
	expandable, fixed bool
	expandableAt      int
	fallbackAt        int
}

// together heeds what options say of each other. expandable_segments is another name for a source that has virtual memory, or has
// not; a fallback is of one source only.
func (p *parser) together(o *Options) error {
	p.at = p.expandableAt
	switch {
	case o.Pageable && o.Origin != Pinned:
		p.at = p.fallbackAt
		return p.fail("pageable needs source:pinned")
	case p.expandable && o.Origin != Automatic && o.Origin != Virtual:
		return p.fail("true contradicts source:%s, whose segments do not grow", o.Origin)
	case p.fixed && o.Origin == Virtual:
		return p.fail("false contradicts source:%s, whose segments grow", o.Origin)
	case p.fixed && o.Origin == Automatic:
		o.Origin = Plain
	}
	return nil
}

func (p *parser) fail(format string, arguments ...any) error {
	return status.Errorf(status.InvalidArgument, "configuration of the pool, position %d: %s", p.at,
		fmt.Sprintf(format, arguments...))
}

// word is the text up to one of these characters.
func (p *parser) word(until string) string {
	end := strings.IndexAny(p.text[p.at:], until)
	if end < 0 {
		end = len(p.text) - p.at
	}
	word := strings.TrimSpace(p.text[p.at : p.at+end])
	p.at += end
	return word
}

func (p *parser) option(o *Options) error {
	begin := p.at
	name := p.word(":,")
	if p.at == len(p.text) || p.text[p.at] != ':' {
		p.at = begin
		return p.fail("%q has no value", name)
	}
	p.at++
	read, known := options[name]
	if !known {
		p.at = begin
		return p.fail("%q is not an option", name)
	}
	if err := read(p, o); err != nil {
		return err
	}
	begin = p.at
	switch rest := p.word(","); {
	case rest != "":
		p.at = begin
		return p.fail("%q is not expected behind the value", rest)
	case p.at < len(p.text):
		p.at++
		if strings.TrimSpace(p.text[p.at:]) == "" {
			return p.fail("option is missing behind the comma")
		}
	}
	return nil
}

// number reads a number between two.
func (p *parser) number(least, most uint64, until string) (uint64, error) {
	begin := p.at
	word := p.word(until)
	value, err := strconv.ParseUint(word, 10, 64)
	if err != nil || value < least || value > most {
		p.at = begin
		return 0, p.fail("%q is not a number from %d to %d", word, least, most)
	}
	return value, nil
}

// fraction reads a number from 0 to 1 in thousandths.
func (p *parser) fraction() (uint32, error) {
	begin := p.at
	word := p.word(",")
	value, err := strconv.ParseFloat(word, 64)
	if err != nil || !(value > 0 && value <= 1) {
		p.at = begin
		return 0, p.fail("%q is not a number above 0, up to 1", word)
	}
	return uint32(math.Ceil(value * 1000)), nil
}

// oneOf reads one of these words.
func (p *parser) oneOf(words ...string) error {
	begin := p.at
	word := p.word(",")
	for _, allowed := range words {
		if strings.EqualFold(word, allowed) {
			return nil
		}
	}
	p.at = begin
	return p.fail("%q is not one of %s", word, strings.Join(words, ", "))
}

// boolean reads true or false.
func (p *parser) boolean() (bool, error) {
	begin := p.at
	err := p.oneOf("true", "false")
	return err == nil && strings.EqualFold(strings.TrimSpace(p.text[begin:p.at]), "true"), err
}

// without reads a value that has no effect here: free segments go back one by one, so that a block that is split costs nobody
// anything.
func without(least, most uint64) func(p *parser, o *Options) error {
	return func(p *parser, _ *Options) error {
		_, err := p.number(least, most, ",")
		return err
	}
}

var options = map[string]func(p *parser, o *Options) error{
	"max_split_size_mb":            without(1, math.MaxUint64/mib),
	"max_non_split_rounding_mb":    without(1, math.MaxUint64/mib),
	"garbage_collection_threshold": func(p *parser, _ *Options) error { _, err := p.fraction(); return err },
	"expandable_segments": func(p *parser, _ *Options) (err error) {
		p.expandableAt = p.at
		p.expandable, err = p.boolean()
		p.fixed = !p.expandable
		return err
	},
	"backend":                  func(p *parser, _ *Options) error { return p.oneOf("native") },
	"roundup_power2_divisions": (*parser).divisions,
	"large_segment_size_mb": func(p *parser, o *Options) error {
		value, err := p.number(2, mostBytes/mib, ",")
		o.LargeStep = value * mib
		return err
	},
	"limit_mb": func(p *parser, o *Options) error {
		value, err := p.number(1, mostBytes/mib, ",")
		o.Limit = value * mib
		return err
	},
	"slabs": func(p *parser, o *Options) (err error) {
		o.Slabs, err = p.boolean()
		return err
	},
	"source": func(p *parser, o *Options) error {
		begin := p.at
		if err := p.oneOf(Origins[Virtual:]...); err != nil {
			return err
		}
		word := strings.ToLower(strings.TrimSpace(p.text[begin:p.at]))
		o.Origin = Origin(slices.Index(Origins[:], word))
		return nil
	},
	"fallback": func(p *parser, o *Options) error {
		p.fallbackAt, o.Pageable = p.at, true
		return p.oneOf("pageable")
	},
	"peers": func(p *parser, o *Options) (err error) {
		o.Peers, err = p.boolean()
		return err
	},
	"slack": func(p *parser, o *Options) (err error) {
		o.Slack, err = p.fraction()
		return err
	},
}

// divisions reads one number for all powers of two, or `[256:1,512:2,>:4]`: sizes in MiB, and > for those above the last one. A
// size that has none has those of the next larger one that has.
func (p *parser) divisions(o *Options) error {
	division := func(until string) (uint32, error) {
		begin := p.at
		value, err := p.number(1, 64, until)
		if err == nil && value&(value-1) != 0 {
			p.at = begin
			err = p.fail("%d is not a power of two", value)
		}
		return uint32(value), err
	}
	p.at += len(p.text[p.at:]) - len(strings.TrimLeft(p.text[p.at:], " "))
	if !strings.HasPrefix(p.text[p.at:], "[") {
		value, err := division(",")
		for row := range o.Divisions {
			o.Divisions[row] = value
		}
		return err
	}
	p.at++
	next := 0 // the first row that has none
	for more := true; more; {
		begin := p.at
		row := divisionRows - 1
		if strings.HasPrefix(strings.TrimLeft(p.text[p.at:], " "), ">") {
			_ = p.word(":]")
		} else {
			size, err := p.number(1, 1<<(divisionRows-1), ":]")
			if err != nil {
				return err
			}
			if row = bits.Len64(size - 1); size&(size-1) != 0 || row < next {
				p.at = begin
				return p.fail("%d is not a power of two above the one before", size)
			}
		}
		if p.at == len(p.text) || p.text[p.at] != ':' {
			return p.fail("colon and number are missing")
		}
		p.at++
		value, err := division(",]")
		if err != nil {
			return err
		}
		for ; next <= row; next++ {
			o.Divisions[next] = value
		}
		if p.at == len(p.text) {
			return p.fail("closing bracket is missing")
		}
		more = p.text[p.at] == ','
		p.at++
	}
	return nil
}
