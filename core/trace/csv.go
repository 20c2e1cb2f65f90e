// The CSV of RMM's logging adaptor and of a runtime's log.

package trace

import (
	"bufio"
	"bytes"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"libmmsb/core/status"
)

const (
	csvHeader   = "Thread,Time,Action,Pointer,Size,Stream"
	csvColumns  = 6
	longestLine = 64 << 10
)

// csvReader reads lines. A header may have the columns in another order, and more.
type csvReader struct {
	*builder
	at      [csvColumns]int // where the columns of csvHeader are
	columns int             // that a line has
	fields  [][]byte
}

func readCSV(in *bufio.Reader, options Options) (*Trace, error) {
	c := csvReader{builder: newBuilder("RMM", "line", options)}
	for number := uint64(1); ; number++ {
		line, err := in.ReadSlice('\n')
		switch {
		case err == io.EOF && len(line) == 0 && number > 1:
			return c.finish()
		case err == bufio.ErrBufferFull:
			return nil, c.fail(status.Format, number, "line has more than %d bytes", longestLine-1)
		case err != nil && err != io.EOF:
			return nil, err
		}
		text := bytes.TrimSuffix(bytes.TrimSuffix(line, []byte("\n")), []byte("\r"))
		if number == 1 && !c.header(text) {
			return nil, c.fail(status.Format, number, "header is not %s, and no pickle begins", csvHeader)
		}
		if err == io.EOF {
			return nil, c.fail(status.Corrupt, number, "line is cut off after %d bytes", len(line))
		}
		if number > 1 {
			if err := c.line(number, text); err != nil {
				return nil, err
			}
		}
	}
}

// header finds the columns; false where one is missing.
func (c *csvReader) header(text []byte) bool {
	names := strings.Split(string(text), ",")
	for at, name := range strings.Split(csvHeader, ",") {
		c.at[at] = slices.Index(names, name)
		if c.at[at] < 0 {
			return false
		}
	}
	c.columns = len(names)
	return true
}

func (c *csvReader) line(number uint64, text []byte) error {
	c.fields = c.fields[:0]
	for more := true; more; {
		var field []byte
		field, text, more = bytes.Cut(text, []byte(","))
		c.fields = append(c.fields, field)
	}
	if len(c.fields) != c.columns {
		return c.fail(status.Format, number, "line does not have %d columns", c.columns)
	}
	var values [csvColumns]uint64
	for at, base := range [csvColumns]int{0: 10, 3: 16, 4: 10, 5: 10} {
		if base == 0 {
			continue
		}
		value, ok := parseNumber(c.fields[c.at[at]], base)
		if !ok {
			return c.fail(status.Format, number, "column %d is %q, not a number of 64 bits", c.at[at]+1, c.fields[c.at[at]])
		}
		values[at] = value
	}
	r := record{number: number, thread: values[0], address: values[3], bytes: values[4], stream: values[5]}
	if r.time, r.timed = parseTime(string(c.fields[c.at[1]])); !r.timed {
		return c.fail(status.Format, number, "time %q is not like 23:59:59.000000", c.fields[c.at[1]])
	}
	c.day(&r)
	switch action := string(c.fields[c.at[2]]); {
	case r.thread > math.MaxUint32:
		return c.fail(status.Format, number, "thread is %d, more than %d", r.thread, uint32(math.MaxUint32))
	case action == "allocate failure": // of any size
		return c.refuse(&r)
	case r.bytes > math.MaxInt64-min(r.address, math.MaxInt64):
		return c.fail(status.Format, number, "%d bytes at 0x%x end behind 0x%x", r.bytes, r.address, int64(math.MaxInt64))
	case action != "allocate" && action != "free" && action != "deallocate":
		return c.fail(status.Format, number, "action %q does not exist", action)
	case r.bytes == 0: // RMM gives no memory for it
		c.trace.Other++
		return nil
	case action == "allocate":
		return c.take(&r)
	}
	return c.give(&r)
}

// day puts a time into the day in which it is nearest to the latest one before.
func (c *csvReader) day(r *record) {
	const day = 24 * 3600e6
	r.time += c.latest / day * day
	switch ahead := r.time - c.latest; {
	case ahead < -day/2:
		r.time += day
	case ahead > day/2 && r.time >= day:
		r.time -= day
	}
	c.latest = max(c.latest, r.time)
}

// parseTime reads a time of day, with or without a fraction behind a point or, as old versions of RMM write it, a colon.
func parseTime(text string) (microseconds int64, ok bool) {
	fields := strings.FieldsFunc(text, func(c rune) bool { return c == ':' || c == '.' })
	if len(fields) == 3 {
		fields = append(fields, "0")
	}
	if len(fields) != 4 || len(fields[3]) > 6 {
		return 0, false
	}
	fields[3] = (fields[3] + "000000")[:6]
	for at, most := range [...]uint64{23, 59, 60, 999_999} {
		number, err := strconv.ParseUint(fields[at], 10, 64)
		if err != nil || number > most {
			return 0, false
		}
		microseconds = microseconds*[...]int64{1, 60, 60, 1_000_000}[at] + int64(number)
	}
	return microseconds, true
}

// parseNumber reads a number in a base, or in hexadecimal behind 0x; C's %p writes (nil) for 0.
func parseNumber(text []byte, base int) (uint64, bool) {
	if string(text) == "(nil)" {
		return 0, true
	}
	if digits, is := bytes.CutPrefix(text, []byte("0x")); is {
		text, base = digits, 16
	}
	value, err := strconv.ParseUint(string(text), base, 64)
	return value, err == nil
}
