// Logs in RMM's form (the columns Thread,Time,Action,Pointer,Size,Stream) as pictures: each block that is live at the end is a
// segment of its own.

package picture

import (
	"cmp"
	"encoding/csv"
	"errors"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"libmmsb/core/status"
)

// logColumns are the columns that a log must have, in any order, among others.
var logColumns = [...]string{"Thread", "Time", "Action", "Pointer", "Size", "Stream"}

// ReadLog reads a log. Its times have no day: they count from the day 0. Errors: Format, with the line, and those of the reader.
func ReadLog(from io.Reader) (*Picture, error) {
	rows := csv.NewReader(from)
	rows.ReuseRecord = true
	names, err := rows.Read()
	if err != nil {
		return nil, badLog(rows, err)
	}
	var at [len(logColumns)]int
	for i, name := range logColumns {
		if at[i] = slices.Index(names, name); at[i] < 0 {
			return nil, status.Errorf(status.Format, "log has no column %s in its first line", name)
		}
	}
	p := &Picture{Tags: []string{"untagged"}}
	live := map[uint64]int{} // number of the event that allocated an address
	for {
		fields, err := rows.Read()
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, badLog(rows, err)
		}
		e, err := logEvent(fields, at)
		if err != nil {
			line, _ := rows.FieldPos(0)
			return nil, status.Errorf(status.Format, "line %d of the log: %s", line, status.Of(err).Text)
		}
		if e.Bytes == 0 { // no memory
			continue
		}
		const day, half = 24 * 3600e6, 12 * 3600e6
		for p.Time-e.Time > half { // behind midnight
			e.Time += day
		}
		p.Time = max(p.Time, e.Time)
		switch e.Action {
		case Allocated:
			live[e.Address] = len(p.Events)
		case Freed:
			delete(live, e.Address)
		}
		p.Events = append(p.Events, e)
	}
	for _, number := range live {
		e := &p.Events[number]
		p.Segments = append(p.Segments, Segment{Address: e.Address, Bytes: e.Bytes, Small: e.Bytes <= 1<<20, Blocks: []Block{{
			Bytes: e.Bytes, Asked: e.Bytes, State: Live, Stream: e.Stream, Thread: e.Thread, Time: e.Time}}})
	}
	slices.SortFunc(p.Segments, func(a, b Segment) int { return cmp.Compare(a.Address, b.Address) })
	return p, nil
}

func badLog(rows *csv.Reader, err error) error {
	var parse *csv.ParseError
	if errors.As(err, &parse) || err == io.EOF {
		return status.Errorf(status.Format, "log is not CSV: %v", err)
	}
	return err
}

// logEvent reads one line.
func logEvent(fields []string, at [len(logColumns)]int) (e Event, err error) {
	var numbers [len(logColumns)]uint64
	for i, bits := range [...]int{0: 32, 3: 63, 4: 62, 5: 64} {
		if bits == 0 {
			continue
		}
		if numbers[i], err = strconv.ParseUint(strings.TrimSpace(fields[at[i]]), 0, bits); err != nil {
			return e, status.Errorf(status.Format, "%s is %q, not a number", logColumns[i], fields[at[i]])
		}
	}
	e = Event{Thread: uint32(numbers[0]), Address: numbers[3], Bytes: numbers[4], Stream: numbers[5]}
	if e.Time, err = logTime(fields[at[1]]); err != nil {
		return e, err
	}
	switch action := strings.TrimSpace(fields[at[2]]); action {
	case "allocate":
		e.Action = Allocated
	case "free":
		e.Action = Freed
	case "allocate failure":
		e.Action = Refused
	default:
		return e, status.Errorf(status.Format, "action %q is not allocate, free or allocate failure", action)
	}
	if e.Bytes > math.MaxInt64-e.Address {
		return e, status.Errorf(status.Format, "%d bytes at 0x%x cannot be", e.Bytes, e.Address)
	}
	return e, nil
}

// logTime is a time of day, with or without a fraction, in microseconds.
func logTime(text string) (microseconds int64, err error) {
	fields := strings.FieldsFunc(strings.TrimSpace(text), func(c rune) bool { return c == ':' || c == '.' })
	if len(fields) == 3 {
		fields = append(fields, "0")
	}
	if len(fields) != 4 || len(fields[3]) > 6 {
		return 0, status.Errorf(status.Format, "time %q is not like 23:59:59.000000", text)
	}
	fields[3] = (fields[3] + "000000")[:6]
	for i, most := range [...]uint64{23, 59, 60, 999_999} {
		number, err := strconv.ParseUint(fields[i], 10, 64)
		if err != nil || number > most {
			return 0, status.Errorf(status.Format, "time %q is not like 23:59:59.000000", text)
		}
		microseconds = microseconds*int64([...]uint64{1, 60, 60, 1_000_000}[i]) + int64(number)
	}
	return microseconds, nil
}
