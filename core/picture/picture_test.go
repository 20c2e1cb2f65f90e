package picture

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"libmmsb/core/status"
)

const mib = 1 << 20

// example is a picture with one of everything.
func example() *Picture {
	const second = 1_000_000
	at := int64(1_700_000_000 * second)
	return &Picture{Device: 1, Name: "a <device>", Bytes: 1 << 30, Time: at + 9*second, Pool: true, Lost: 3,
		Tags:       []string{"untagged", "weights", "</script><b>ä"},
		Statistics: []Entry{{"allocation.all.current", 2}, {"num_ooms", 1}},
		Segments: []Segment{
			{Address: 0x7000_0000_0000, Bytes: 2 * mib, Small: true, Blocks: []Block{
				{Bytes: mib, Asked: mib - 12, State: Live, Tag: 1, Stream: 2, Thread: 41, Time: at},
				{Bytes: mib / 2, Asked: 100, State: Awaiting, Tag: 2, Stream: 1},
				{Bytes: mib / 4, State: Passing, Stream: 3},
				{Bytes: mib / 4, State: Free, Stream: 1},
			}},
			{Address: 0x7100_0000_0000, Bytes: 4 * mib, Blocks: []Block{{Bytes: 4 * mib, State: Nameless}}},
		},
		Events: []Event{
			{Time: at, Action: Mapped, Address: 0x7000_0000_0000, Bytes: 2 * mib},
			{Time: at, Action: Allocated, Address: 0x7000_0000_0000, Bytes: mib - 12, Tag: 1, Stream: 2, Thread: 41},
			{Time: at + second, Action: Allocated, Address: 0x7000_0010_0000, Bytes: 3000, Stream: 2, Thread: 41},
			{Time: at + 2*second, Action: Freed, Address: 0x7000_0010_0000, Bytes: 3000, Stream: 2, Thread: 42},
			{Time: at + 3*second, Action: Refused, Bytes: 1 << 40, Stream: 2, Thread: 42},
			{Time: at + 4*second, Action: Mapped, Address: 0x7100_0000_0000, Bytes: 4 * mib},
			{Time: at + 5*second, Action: Allocated, Address: 0x7000_0010_0000, Bytes: 100, Tag: 2, Stream: 1, Thread: 41},
			{Time: at + 6*second, Action: Freed, Address: 0x7000_0010_0000, Bytes: 100, Tag: 2, Stream: 1, Thread: 41},
		}}
}

func TestJSONIsReadBack(t *testing.T) {
	for _, p := range []*Picture{example(), {Tags: []string{"untagged"}}} {
		var out bytes.Buffer
		require.NoError(t, p.WriteJSON(&out))
		require.True(t, json.Valid(out.Bytes()))
		read, err := ReadJSON(&out)
		require.NoError(t, err)
		require.Equal(t, p, read)
	}
}

// Each change makes a file that says something that cannot be.
func TestWhatIsNoPicture(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, example().WriteJSON(&out))
	sound := out.String()
	for _, change := range []struct{ find, replace, says string }{
		{`"mmsb memory 1"`, `"mmsb memory 2"`, `the form "mmsb memory 2"`},
		{`"device":1`, `"device":4000000000`, "of device 4000000000"},
		{`"device":1`, `"device":-1`, "not JSON of the form"},
		{`[[1048576,`, `[[1048575,`, "segment 0 has 2097152 bytes, its blocks 2097151"},
		{`[[1048576,`, `[[0,`, "block 0 of segment 0 has 0 bytes"},
		{`[[1048576,`, `[[18446744073709551615,`, "not 7 numbers"},
		{`[[1048576,1048564`, `[[1048576,1048577`, "1048577 were asked for"},
		{`[[1048576,1048564,2,`, `[[1048576,1048564,5,`, "state 5 of 5"},
		{`[[1048576,1048564,2,1,`, `[[1048576,1048564,2,3,`, "tag 3 of 3"},
		{`[[1048576,1048564,2,1,`, `[[1048576,1048564,2,`, "not 7 numbers"},
		{`"address":124244813938688`, `"address":1`, "the one before ends at"},
		{`"address":124244813938688`, `"address":18446744073709551615`, "bytes at 0xffffffffffffffff"},
		{`,2,0,1099511627776,`, `,5,0,1099511627776,`, "event 4 has action 5 of 5"},
		{`,2,0,1099511627776,0,`, `,2,0,1099511627776,9,`, "tag 9 of 3"},
	} {
		changed := strings.Replace(sound, change.find, change.replace, 1)
		require.NotEqual(t, sound, changed, "%v", change)
		_, err := ReadJSON(strings.NewReader(changed))
		require.Equal(t, status.Format, status.CodeOf(err), "%v", change)
		require.ErrorContains(t, err, change.says)
		require.NotContains(t, err.Error(), "\n")
	}
	for length := 0; length < len(sound)-2; length += 7 {
		_, err := ReadJSON(strings.NewReader(sound[:length]))
		require.Equal(t, status.Format, status.CodeOf(err))
	}
}

func FuzzReadJSON(f *testing.F) {
	var out bytes.Buffer
	_ = example().WriteJSON(&out)
	f.Add(out.Bytes())
	f.Fuzz(func(t *testing.T, text []byte) {
		if p, err := ReadJSON(bytes.NewReader(text)); err == nil {
			require.NoError(t, p.WriteTorch(io.Discard))
			require.NoError(t, p.WriteHTML(io.Discard))
		} else {
			require.Equal(t, status.Format, status.CodeOf(err))
		}
	})
}

func TestTheTimeline(t *testing.T) {
	p := example()
	points, peak := p.Timeline(100)
	var live, reserved []uint64
	for _, point := range points {
		live, reserved = append(live, point.Live), append(reserved, point.Reserved)
	}
	require.Equal(t, []uint64{0, 0, mib - 12, mib + 2988, mib - 12, mib - 12, mib - 12, mib + 88, mib - 12, mib - 12},
		live)
	require.Equal(t, []uint64{0, 2 * mib, 2 * mib, 2 * mib, 2 * mib, 2 * mib, 6 * mib, 6 * mib, 6 * mib, 6 * mib}, reserved)
	require.Equal(t, Point{p.Events[2].Time, mib + 2988, 2 * mib}, peak)

	// What was freed is not live, whoever keeps it.
	p.Segments[1].Blocks[0].Asked = 3 * mib
	still, peak := p.Timeline(100)
	require.Equal(t, points, still)
	require.EqualValues(t, mib+2988, peak.Live)

	// Of many events, the one with the most counts; the peak is not lost.
	for i := range 1000 {
		bytes := uint64(5000)
		if i == 511 {
			bytes = 90_000
		}
		p.Events = append(p.Events, Event{Time: p.Time, Action: Allocated, Bytes: bytes}, Event{Time: p.Time, Action: Freed,
			Bytes: bytes})
	}
	points, peak = p.Timeline(10)
	require.Less(t, len(points), 16)
	require.EqualValues(t, mib+89_988, peak.Live)
	require.Contains(t, points, peak)
	require.EqualValues(t, mib-12, points[len(points)-1].Live)

	// What was there before the history.
	p = example()
	p.Events = p.Events[5:]
	points, _ = p.Timeline(10)
	require.EqualValues(t, mib-12, points[0].Live)
	require.EqualValues(t, 2*mib, points[0].Reserved)

	points, peak = (&Picture{Time: 5}).Timeline(10)
	require.Equal(t, []Point{{Time: 5}}, points)
	require.Equal(t, Point{Time: 5}, peak)
}

func TestAPageHasItsDataAndNothingElse(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, example().WriteHTML(&out))
	text := out.String()
	require.NotContains(t, text, dataMark)
	require.Equal(t, 2, strings.Count(text, "</script>"), "a tag cannot end a script")
	for _, outside := range []string{"http://", "https://", "src=", "href=", "@import", "url("} {
		require.NotContains(t, text, outside)
	}
	_, data, _ := strings.Cut(text, `id="data">`)
	data, _, _ = strings.Cut(data, "</script>")
	require.True(t, json.Valid([]byte(data)))
}

func TestLogsOfRMM(t *testing.T) {
	p, err := ReadLog(strings.NewReader("Thread,Time,Action,Pointer,Size,Stream\n"+
		"7,23:59:59.999999,allocate,0x1000,100,0x0\n"+
		"8,00:00:00:000001,allocate,0x2000,200,0x5\n"+
		"7,00:00:01.5,free,0x1000,100,0x0\n"+
		"7,00:00:01.5,allocate,0x0,0,0\n"+
		"7,00:00:02,allocate failure,0x0,4096,2\n"+
		"9,00:00:03,free,0x9000,50,2\n"), true)
	require.NoError(t, err)
	var actions []Action
	for _, e := range p.Events {
		actions = append(actions, e.Action)
	}
	require.Equal(t, []Action{Allocated, Allocated, Freed, Refused, Freed}, actions)
	require.Equal(t, Event{Time: 24*3600e6 + 2e6, Action: Refused, Bytes: 4096, Stream: 2, Thread: 7}, p.Events[3])
	require.Equal(t, []Segment{{Address: 0x2000, Bytes: 200, Small: true, Blocks: []Block{{Bytes: 200, Asked: 200, State: Live,
		Stream: 5, Thread: 8, Time: 24*3600e6 + 1}}}}, p.Segments)
	points, peak := p.Timeline(100)
	require.EqualValues(t, 50, points[0].Live, "freed, and not allocated in the log")
	require.EqualValues(t, 350, peak.Live)
	require.EqualValues(t, 3e6+24*3600e6, p.Time)
	for _, bad := range []struct{ text, says string }{
		{"", "trace is empty"},
		{"Thread,Time\n", "line 1 of the trace: header is not"},
		{"Thread,Time,Action,Pointer,Size,Stream\n1,2\n", "line 2 of the trace: line does not have 6 columns"},
		{"Thread,Time,Action,Pointer,Size,Stream\n1,00:00:00,allocate,0x1,x,0\n", `line 2 of the trace: column 5 is "x"`},
		{"Thread,Time,Action,Pointer,Size,Stream\n1,24:00:00,allocate,0x1,1,0\n", `time "24:00:00"`},
		{"Thread,Time,Action,Pointer,Size,Stream\n1,00:00:00,alocate,0x1,1,0\n", `action "alocate"`},
		{"Thread,Time,Action,Pointer,Size,Stream\n1,00:00:00,allocate,0x7fffffffffffffff,1,0\n", "end behind 0x7fffffffffffffff"},
	} {
		_, err := ReadLog(strings.NewReader(bad.text), true)
		require.Equal(t, status.Format, status.CodeOf(err), "%s", bad.text)
		require.ErrorContains(t, err, bad.says)
	}
}

// failing takes some bytes.
type failing struct{ left int }

func (f *failing) Write(p []byte) (int, error) {
	if f.left -= len(p); f.left < 0 {
		return 0, errors.New("full")
	}
	return len(p), nil
}

func TestAWriterThatFails(t *testing.T) {
	p := example()
	for range 2000 {
		p.Events = append(p.Events, p.Events[1])
	}
	for name, write := range map[string]func(io.Writer) error{"JSON": p.WriteJSON, "HTML": p.WriteHTML, "torch": p.WriteTorch} {
		for _, left := range []int{0, 5000} {
			assert.Error(t, write(&failing{left}), "%s, %d bytes", name, left)
		}
	}
}

// The writers keep nothing for each block.
func TestWritersTakeNoMemoryPerBlock(t *testing.T) {
	p := example()
	for range 100_000 {
		p.Segments[1].Blocks = append(p.Segments[1].Blocks, Block{Bytes: 512, Asked: 400, State: Live, Tag: 1})
		p.Segments[1].Bytes += 512
	}
	for name, write := range map[string]func(io.Writer) error{"JSON": p.WriteJSON, "HTML": p.WriteHTML, "torch": p.WriteTorch} {
		allocations := testing.AllocsPerRun(1, func() { _ = write(io.Discard) })
		require.Less(t, allocations, 3000.0, name)
	}
}
