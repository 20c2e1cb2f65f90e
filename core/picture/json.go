// Pictures as JSON: the tool reads what a program writes.

package picture

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"libmmsb/core/status"
)

// format is what the JSON begins with. Its rows are numbers: of blocks bytes, bytes asked for, state, tag, stream, thread, time;
// of events time, action, address, bytes, tag, stream, thread; of points time, live bytes, reserved bytes.
const format = "mmsb memory 1"

// WriteJSON writes everything, in a form that ReadJSON reads.
func (p *Picture) WriteJSON(to io.Writer) error {
	out := bufio.NewWriter(to) // which keeps its first error
	p.head(out)
	_, _ = out.WriteString(`,"events":[`)
	for i := range p.Events {
		e := &p.Events[i]
		row(out, i, uint64(e.Time), uint64(e.Action), e.Address, e.Bytes, uint64(e.Tag), e.Stream, uint64(e.Thread))
	}
	_, _ = out.WriteString("]}\n")
	return out.Flush()
}

// data is what the page shows: a timeline in place of the events.
func (p *Picture) data(out *bufio.Writer) {
	const points = 4000
	p.head(out)
	timeline, peak := p.Timeline(points)
	_, _ = out.WriteString(`,"events":` + strconv.Itoa(len(p.Events)) + `,"peak":`)
	row(out, 0, uint64(peak.Time), peak.Live, peak.Reserved)
	_, _ = out.WriteString(`,"timeline":[`)
	for i, at := range timeline {
		row(out, i, uint64(at.Time), at.Live, at.Reserved)
	}
	_, _ = out.WriteString("]}")
}

// head is the object without its end and what only one form has.
func (p *Picture) head(out *bufio.Writer) {
	field := func(name string, value any) {
		text, err := json.Marshal(value) // which escapes <, so that a page can have it
		if err != nil {
			text = []byte("null")
		}
		_, _ = out.WriteString(`,"` + name + `":`)
		_, _ = out.Write(text)
	}
	_, _ = out.WriteString(`{"format":"` + format + `"`)
	field("device", p.Device)
	field("name", p.Name)
	field("bytes", p.Bytes)
	field("time_us", p.Time)
	field("pool", p.Pool)
	field("lost", p.Lost)
	field("tags", p.Tags)
	_, _ = out.WriteString(`,"statistics":{`)
	for i, e := range p.Statistics {
		if i > 0 {
			_ = out.WriteByte(',')
		}
		_, _ = out.WriteString(strconv.Quote(e.Name) + ":" + strconv.FormatUint(e.Value, 10))
	}
	_, _ = out.WriteString(`},"segments":[`)
	for i := range p.Segments {
		s := &p.Segments[i]
		if i > 0 {
			_, _ = out.WriteString(",\n")
		}
		_, _ = out.WriteString(`{"address":` + strconv.FormatUint(s.Address, 10) + `,"bytes":` + strconv.FormatUint(s.Bytes, 10) +
			`,"small":` + strconv.FormatBool(s.Small) + `,"blocks":[`)
		for j := range s.Blocks {
			b := &s.Blocks[j]
			row(out, j, b.Bytes, b.Asked, uint64(b.State), uint64(b.Tag), b.Stream, uint64(b.Thread), uint64(b.Time))
		}
		_, _ = out.WriteString("]}")
	}
	_ = out.WriteByte(']')
}

// row writes numbers as an array, behind others where it is not the first.
func row(out *bufio.Writer, index int, numbers ...uint64) {
	if index > 0 {
		_ = out.WriteByte(',')
	}
	separator := byte('[')
	for _, number := range numbers {
		_ = out.WriteByte(separator)
		_, _ = out.Write(strconv.AppendUint(out.AvailableBuffer(), number, 10))
		separator = ','
	}
	_ = out.WriteByte(']')
}

// ReadJSON reads what WriteJSON has written. Errors: Format, and those of the reader.
func ReadJSON(from io.Reader) (*Picture, error) {
	var read struct {
		Format     string            `json:"format"`
		Device     uint32            `json:"device"`
		Name       string            `json:"name"`
		Bytes      uint64            `json:"bytes"`
		Time       int64             `json:"time_us"`
		Pool       bool              `json:"pool"`
		Lost       uint64            `json:"lost"`
		Tags       []string          `json:"tags"`
		Statistics map[string]uint64 `json:"statistics"`
		Segments   []struct {
			Address uint64     `json:"address"`
			Bytes   uint64     `json:"bytes"`
			Small   bool       `json:"small"`
			Blocks  [][]uint64 `json:"blocks"`
		} `json:"segments"`
		Events [][]uint64 `json:"events"`
	}
	if err := json.NewDecoder(bufio.NewReader(from)).Decode(&read); err != nil {
		var own *status.Error
		if errors.As(err, &own) {
			return nil, own
		}
		return nil, status.Errorf(status.Format, "picture of memory is not JSON of the form %q: %v", format, err)
	}
	if read.Format != format || read.Device > mostDevices || read.Time < 0 {
		return nil, status.Errorf(status.Format, "picture of memory has the form %q of device %d at %d microseconds, not %q",
			read.Format, read.Device, read.Time, format)
	}
	p := &Picture{Device: int(read.Device), Name: read.Name, Bytes: read.Bytes, Time: read.Time, Pool: read.Pool, Lost: read.Lost,
		Tags: read.Tags}
	for name, value := range read.Statistics {
		p.Statistics = append(p.Statistics, Entry{name, value})
	}
	slices.SortFunc(p.Statistics, func(a, b Entry) int { return strings.Compare(a.Name, b.Name) })
	for i, s := range read.Segments {
		segment := Segment{Address: s.Address, Bytes: s.Bytes, Small: s.Small}
		for j, b := range s.Blocks {
			if !fits(b, math.MaxInt64, math.MaxInt64, uint64(states), math.MaxUint32, math.MaxUint64, math.MaxUint32,
				math.MaxInt64) {
				return nil, status.Errorf(status.Format, "block %d of segment %d is %d, not 7 numbers that can be", j, i, b)
			}
			segment.Blocks = append(segment.Blocks, Block{Bytes: b[0], Asked: b[1], State: State(b[2]), Tag: uint32(b[3]),
				Stream: b[4], Thread: uint32(b[5]), Time: int64(b[6])})
		}
		p.Segments = append(p.Segments, segment)
	}
	for i, e := range read.Events {
		if !fits(e, math.MaxInt64, uint64(actions), math.MaxInt64, math.MaxInt64, math.MaxUint32, math.MaxUint64,
			math.MaxUint32) {
			return nil, status.Errorf(status.Format, "event %d is %d, not 7 numbers that can be", i, e)
		}
		p.Events = append(p.Events, Event{Time: int64(e[0]), Action: Action(e[1]), Address: e[2], Bytes: e[3], Tag: uint32(e[4]),
			Stream: e[5], Thread: uint32(e[6])})
	}
	return p, p.check()
}

// mostDevices bounds the lists of PyTorch's form, which have an item for each device up to the picture's.
const mostDevices = 1 << 16

// fits says whether a row has as many numbers as there are bounds, each within its own.
func fits(row []uint64, bounds ...uint64) bool {
	if len(row) != len(bounds) {
		return false
	}
	for i, number := range row {
		if number > bounds[i] {
			return false
		}
	}
	return true
}
