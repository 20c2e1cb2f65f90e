// The CSV of RMM's logging adaptor and of a runtime's log.

package trace

import (
	"bufio"
	"bytes"
	"io"
	"strconv"

	"libmmsb/core/status"
)

const (
	csvHeader   = "Thread,Time,Action,Pointer,Size,Stream"
	csvColumns  = 6
	longestLine = 64 << 10
)

// readCSV reads the lines. The time is not looked at: RMM's versions write it in several ways.
func readCSV(in *bufio.Reader, options Options) (*Trace, error) {
	b := newBuilder("RMM", "line", options.Lost)
	for number := uint64(1); ; number++ {
		line, err := in.ReadSlice('\n')
		switch {
		case err == io.EOF && len(line) == 0 && number > 1:
			return b.finish()
		case err == bufio.ErrBufferFull:
			return nil, b.fail(status.Format, number, "line has more than %d bytes", longestLine-1)
		case err != nil && err != io.EOF:
			return nil, err
		}
		text := bytes.TrimSuffix(bytes.TrimSuffix(line, []byte("\n")), []byte("\r"))
		if number == 1 && string(text) != csvHeader {
			return nil, b.fail(status.Format, number, "header is not %s, and no pickle begins", csvHeader)
		}
		if err == io.EOF {
			return nil, b.fail(status.Corrupt, number, "line is cut off after %d bytes", len(line))
		}
		if number > 1 {
			if err := b.line(number, text); err != nil {
				return nil, err
			}
		}
	}
}

func (b *builder) line(number uint64, text []byte) error {
	var columns [csvColumns][]byte
	for at := range columns {
		column, rest, more := bytes.Cut(text, []byte(","))
		if more != (at < csvColumns-1) {
			return b.fail(status.Format, number, "line does not have %d columns", csvColumns)
		}
		columns[at], text = column, rest
	}
	var values [csvColumns]uint64
	for at, base := range [csvColumns]int{0: 10, 3: 16, 4: 10, 5: 10} {
		if base == 0 {
			continue
		}
		value, ok := parseNumber(columns[at], base)
		if !ok {
			return b.fail(status.Format, number, "column %d is %q, not a number of 64 bits", at+1, columns[at])
		}
		values[at] = value
	}
	thread, address, size, key := values[0], values[3], values[4], streamKey{stream: values[5]}
	key.thread = thread
	switch action := string(columns[2]); {
	case action == "allocate failure":
		b.trace.Refused++
	case action != "allocate" && action != "free" && action != "deallocate":
		return b.fail(status.Format, number, "action %q does not exist", action)
	case size == 0: // RMM gives no memory for it
		b.trace.Other++
	case action == "allocate":
		return b.take(number, address, size, key)
	default:
		if t, is := b.live[address]; is && t.bytes != size {
			return b.fail(status.Corrupt, number, "%d bytes are freed at 0x%x, %d were allocated", size, address, t.bytes)
		}
		return b.give(number, address, size, key)
	}
	return nil
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
