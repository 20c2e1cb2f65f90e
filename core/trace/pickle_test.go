package trace

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"libmmsb/core/status"
)

func unpickle(text string, asked ...string) (any, error) {
	keys := map[string]bool{}
	for _, key := range asked {
		keys[key] = true
	}
	return readPickle(bufio.NewReader(strings.NewReader(text)), keys)
}

func TestValuesOfPickles(t *testing.T) {
	list := func(items ...any) *pickleList { return &pickleList{items: items} }
	dict := func(pairs ...picklePair) *pickleDict { return &pickleDict{pairs: pairs} }
	for text, want := range map[string]any{
		"N":                 nil,
		"\x88":              true,
		"\x89":              false,
		"K\xff":             int64(255),
		"M\x01\x02":         int64(0x201),
		"J\xff\xff\xff\xff": int64(-1),
		"\x8a\x00":          int64(0),
		"\x8a\x01\x80":      int64(-128),
		"\x8a\x02\x80\x00":  int64(128),
		"\x8a\x08\x00\x00\x00\x00\x00\x00\x00\x80":     int64(math.MinInt64),
		"\x8a\x09\xff\xff\xff\xff\xff\xff\xff\xff\x00": uint64(math.MaxUint64),
		"\x8b\x01\x00\x00\x00\x05":                     int64(5),
		"G\x3f\xf8\x00\x00\x00\x00\x00\x00":            1.5,
		"\x8c\x02ab":                                   "ab",
		"X\x02\x00\x00\x00ab":                          "ab",
		"\x8d\x02\x00\x00\x00\x00\x00\x00\x00ab":       "ab",
		"U\x01a":                                       "a",
		"]":                                            (&pickleList{}),
		")":                                            (&pickleList{}),
		"]K\x01a":                                      list(int64(1)),
		"](K\x01K\x02e":                                list(int64(1), int64(2)),
		"(K\x01K\x02l":                                 list(int64(1), int64(2)),
		"(K\x01K\x02t":                                 list(int64(1), int64(2)),
		"K\x01\x85":                                    list(int64(1)),
		"K\x01K\x02\x86":                               list(int64(1), int64(2)),
		"K\x01K\x02K\x03\x87":                          list(int64(1), int64(2), int64(3)),
		"}":                                            (&pickleDict{}),
		"}\x8c\x01aK\x01s":                             dict(picklePair{"a", int64(1)}),
		"}\x8c\x01bK\x01s":                             (&pickleDict{}), // nobody asks for it
		"}K\x01K\x01s":                                 (&pickleDict{}),
		"}(\x8c\x01aK\x01\x8c\x01bNu":                  dict(picklePair{"a", int64(1)}),
		"(\x8c\x01aK\x01d":                             dict(picklePair{"a", int64(1)}),
		"]\x94K\x05ah\x000":                            list(int64(5)),
		"K\x05\x94h\x00\x86":                           list(int64(5), int64(5)),
		"K\x05q\x00j\x00\x00\x00\x00\x86":              list(int64(5), int64(5)),
		"K\x05r\x00\x00\x00\x00h\x00\x86":              list(int64(5), int64(5)),
		"K\x052\x86":                                   list(int64(5), int64(5)),
		"K\x05(K\x011":                                 int64(5),
		"K\x05(0":                                      int64(5),
		"\x95\x01\x00\x00\x00\x00\x00\x00\x00N":        nil,
	} {
		got, err := unpickle("\x80\x04"+text+".", "a")
		require.NoError(t, err, "%q", text)
		assert.Equal(t, want, got, "%q", text)
	}
}

func TestPicklesThatAreRefused(t *testing.T) {
	for text, want := range map[string]struct {
		code status.Code
		text string
	}{
		"\x80\x01N.":                      {status.Format, "at offset 1: protocol is not 2 to 5"},
		"\x80\x06N.":                      {status.Format, "protocol is not 2 to 5"},
		"N.":                              {status.Format, "protocol is missing"},
		"\x80\x04.":                       {status.Format, "end leaves not one value"},
		"\x80\x04NN.":                     {status.Format, "end leaves not one value"},
		"\x80\x04N(.":                     {status.Format, "end leaves not one value"},
		"\x80\x02cos\nsystem\n(S'x'\ntR.": {status.Format, "pickle has GLOBAL at offset 2: only dicts"},
		"\x80\x04\x8c\x01a\x8c\x01b\x93.": {status.Format, "STACK_GLOBAL at offset 8"},
		"\x80\x04N)R.":                    {status.Format, "REDUCE at offset 4"},
		"\x80\x04NNb.":                    {status.Format, "BUILD"},
		"\x80\x04N)\x81.":                 {status.Format, "NEWOBJ"},
		"\x80\x04NNN\x92.":                {status.Format, "NEWOBJ_EX"},
		"\x80\x04(ios\nsystem\n.":         {status.Format, "INST"},
		"\x80\x04(No.":                    {status.Format, "OBJ"},
		"\x80\x04\x82\x01.":               {status.Format, "EXT1"},
		"\x80\x04P1\n.":                   {status.Format, "PERSID"},
		"\x80\x04NQ.":                     {status.Format, "BINPERSID"},
		"\x80\x05\x97.":                   {status.Format, "NEXT_BUFFER"},
		"\x80\x04\x8f.":                   {status.Format, "instruction 0x8f at offset 2, which does not exist"},
		"\x80\x04I1\n.":                   {status.Format, "instruction 0x49"},
		"\x80\x040.":                      {status.Format, "stack has too few values"},
		"\x80\x042.":                      {status.Format, "stack has too few values"},
		"\x80\x041.":                      {status.Format, "mark is missing"},
		"\x80\x04t.":                      {status.Format, "mark is missing"},
		"\x80\x04d.":                      {status.Format, "mark is missing"},
		"\x80\x04N\x86.":                  {status.Format, "stack has too few values"},
		"\x80\x04N(N\x86.":                {status.Format, "stack has too few values"}, // not below a mark
		"\x80\x04]a.":                     {status.Format, "stack has too few values"},
		"\x80\x04Na.":                     {status.Format, "stack has too few values"},
		"\x80\x04NNa.":                    {status.Format, "value is not a list or dict that can be filled"},
		"\x80\x04]NNs.":                   {status.Format, "value is not a list or dict that can be filled"},
		"\x80\x04}Na.":                    {status.Format, "value is not a list or dict that can be filled"},
		"\x80\x04}(Nu.":                   {status.Format, "key has no value"},
		"\x80\x04(Nd.":                    {status.Format, "key has no value"},
		"\x80\x04(e.":                     {status.Format, "stack has too few values"},
		"\x80\x04h\x00.":                  {status.Format, "remembered value does not exist"},
		"\x80\x04Nq\x05.":                 {status.Format, "number of a remembered value is not the next one"},
		"\x80\x04Nr\xff\xff\xff\xff.":     {status.Format, "number of a remembered value is not the next one"},
		"\x80\x04\x94.":                   {status.Format, "stack has too few values"},
		"\x80\x04N(\x94.":                 {status.Format, "stack has too few values"},
		"\x80\x04\x8a\x0a0123456789.":     {status.Format, "integer has more than 64 bits"},
		"\x80\x04\x8a\x09\x00\x00\x00\x00\x00\x00\x00\x00\x01.": {status.Format, "integer has more than 64 bits"},
		"\x80\x04\x8b\xff\xff\xff\xff.":                         {status.Format, "integer has more than 64 bits"},
		"\x80\x04X\xff\xff\xff\xffab":                           {status.Corrupt, "pickle is cut off at offset 9"},
		"\x80\x04\x8d\xff\xff\xff\xff\xff\xff\xff\xffab":        {status.Corrupt, "pickle is cut off at offset 13"},
		"\x80\x04\x8d\x00\x00\x00\x00\x00\x00\x00\x80ab":        {status.Corrupt, "pickle is cut off at offset 13"},
		"\x80\x04" + strings.Repeat("]", 1<<20):                 {status.Limit, "bytes of memory at offset "},
		"\x80\x04" + strings.Repeat("]\x94", 1<<20):             {status.Limit, "bytes of memory at offset "},
		"\x80\x04]\x94" + strings.Repeat("h\x00", 1<<20):        {status.Corrupt, "pickle is cut off"},
		"\x80\x04" + strings.Repeat("(", 1<<22):                 {status.Corrupt, "pickle is cut off"},
	} {
		_, err := unpickle(text, "a")
		requireError(t, want.code, want.text, err)
	}
}

// A pickle takes at most a few times the memory that its file has.
func TestWhatAPickleTakes(t *testing.T) {
	for _, unit := range []string{"]", "]\x94", "}", "(", ")", "]2", "K\x00", "\x8c\x00\x94", "}2\x8c\x01aNs", "](NNNNe",
		"N2222"} {
		content := "\x80\x04" + strings.Repeat(unit, (4<<20)/len(unit))
		var before, behind runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		p := &pickle{in: bufio.NewReader(strings.NewReader(content[2:])), asked: map[string]bool{"a": true}}
		var err error
		for err == nil {
			var op byte
			if op, err = p.byte(); err == nil {
				err = p.run(op)
			}
			if err == nil {
				err = p.bound()
			}
		}
		runtime.GC()
		runtime.ReadMemStats(&behind)
		taken := behind.HeapAlloc - before.HeapAlloc
		assert.Less(t, taken, uint64(pickleBytes+2*pickleFactor*p.at), "%q, at %d: %v", unit, p.at, err)
		runtime.KeepAlive(p)
	}
}

// Lists within lists in any number are read without recursion, and one that has itself ends, too.
func TestPicklesThatAreDeep(t *testing.T) {
	value, err := unpickle("\x80\x04" + strings.Repeat("]", 1000) + strings.Repeat("a", 999) + ".")
	require.NoError(t, err)
	for range 999 {
		value = value.(*pickleList).items[0]
	}
	require.Empty(t, value.(*pickleList).items)
	_, err = unpickle("\x80\x04" + strings.Repeat("N\x85\x85\x850", 4000) + "N.")
	require.NoError(t, err)
	_, err = read("\x80\x04}\x94\x8c\x0ddevice_traces]\x94h\x00ah\x01as.")
	requireError(t, status.Format, `event 1 of the trace: action "" does not exist`, err)
}

func pickled(t testing.TB, device ...string) string {
	var traces bytes.Buffer
	for _, trace := range device {
		traces.WriteString("](" + trace + "e")
	}
	return "\x80\x04}(" + text("device_traces") + "](" + traces.String() + "e" + text("segments") + "]u."
}

func text(of string) string { return "\x8c" + string(rune(len(of))) + of }

// integer is a number as a pickle has it.
func integer(value int64) string {
	return "\x8a\x08" + string(binary.LittleEndian.AppendUint64(nil, uint64(value)))
}

func event(action string, address, size int64) string {
	return "}(" + text("action") + text(action) + text("addr") + integer(address) + text("size") + integer(size) +
		text("stream") + integer(0) + "u"
}

func TestSnapshots(t *testing.T) {
	for name, c := range map[string]struct {
		content string
		code    status.Code
		text    string
	}{
		"not a dict": {"\x80\x04].", status.Format, "dict is missing"},
		"no traces":  {"\x80\x04}.", status.Format, "device_traces is missing"},
		"no device":  {pickled(t), status.NotFound, "none of 0 devices has events"},
		"no events":  {pickled(t, "", ""), status.NotFound, "none of 2 devices has events"},
		"two devices": {pickled(t, event("alloc", 1, 1), event("alloc", 1, 1)), status.InvalidArgument,
			"devices 0 and 1 have events"},
		"event":     {pickled(t, "N"), status.Format, "event 1 of the trace: event is not a dict"},
		"no action": {pickled(t, "}"), status.Format, `event 1 of the trace: action "" does not exist`},
		"unknown action": {pickled(t, event("alloc", 1, 1)+event("move", 1, 1)), status.Format,
			`event 2 of the trace: action "move"`},
		"size 0":         {pickled(t, event("alloc", 1, 0)), status.Format, "event 1 of the trace: size is 0"},
		"negative size":  {pickled(t, event("alloc", 1, -5)), status.Format, "event 1 of the trace: size is not a number"},
		"negative place": {pickled(t, event("alloc", -1, 5)), status.Format, "event 1 of the trace: addr is not a number"},
		"twice": {pickled(t, event("alloc", 1, 5)+event("alloc", 1, 5)), status.Corrupt,
			"event 2 of the trace: address 0x1 is allocated and not freed before"},
		"another size": {pickled(t, event("alloc", 1, 1000)+event("free_completed", 1, 999)), status.Corrupt,
			"event 2 of the trace: 999 bytes are freed at 0x1, 1000 were allocated"},
		"freed twice": {pickled(t, event("free_completed", 1, 5)+event("free_completed", 1, 5)), status.Corrupt,
			"event 2 of the trace: address 0x1 is freed, but not allocated"},
		"lost, allocated": {pickled(t, event("alloc", 1, 5)+event("free_completed", 1, 5)+event("free_completed", 1, 5)),
			status.Corrupt,
			"event 3 of the trace: address 0x1 is freed, but not allocated"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := read(c.content)
			requireError(t, c.code, c.text, err)
		})
	}
	two := pickled(t, event("alloc", 1, 1), event("free_completed", 1, math.MaxInt64))
	got, err := Read(strings.NewReader(two), Options{Device: 1})
	require.NoError(t, err)
	assert.Equal(t, &Trace{Format: "PyTorch", Blocks: 1, Streams: 1, Threads: 1, Before: 1, Events: []Event{
		{Bytes: math.MaxInt64}, {Bytes: math.MaxInt64, Free: true}}}, got)
	_, err = Read(strings.NewReader(pickled(t, event("alloc", 1, 1))), Options{Device: 1})
	requireError(t, status.NotFound, "device 1 has no trace in the snapshot, 1 devices have one", err)
}

// What segments say is looked at as events are; old snapshots say less.
func TestSegmentsThatAreWrong(t *testing.T) {
	segment := func(of string) string {
		return "\x80\x04}(" + text("device_traces") + "](](" + event("alloc", 1, 1) + "ee" + text("segments") + "](" + of + "eu."
	}
	for name, c := range map[string]struct{ content, text string }{
		"not a dict": {segment("N"), "segment 1 of the snapshot is not a dict"},
		"address": {segment("}(" + text("address") + "Nu}(" + text("address") + text("x") + "u"),
			"segment 2 of the snapshot: address"},
		"block": {segment("}(" + text("blocks") + "](Neu"), "segment 1 of the snapshot: block is not"},
		"size of a block": {segment("}(" + text("blocks") + "](}(" + text("size") + integer(-1) + "ueu"),
			"size of a block is not"},
		"sum of the sizes": {segment(strings.Repeat("}("+text("total_size")+integer(math.MaxInt64)+"u", 3)), "sum of total_size"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := read(c.content)
			requireError(t, status.Format, c.text, err)
		})
	}
	// Old snapshots have no addresses of blocks.
	block := func(size int64, state string) string {
		return "}(" + text("size") + integer(size) + text("state") + text(state) + "u"
	}
	got, err := read(segment("}(" + text("address") + integer(0x1000) + text("blocks") + "](" + block(512, "active_allocated") +
		block(1024, "inactive") + block(512, "active_pending_free") + block(2048, "active_awaiting_free") + "eu"))
	require.NoError(t, err)
	assert.Equal(t, uint64(3), got.Before)
	assert.Equal(t, []Event{{Bytes: 512}, {Bytes: 512, Block: 1}, {Bytes: 2048, Block: 2}, {Bytes: 1, Block: 3}}, got.Events)
}

// Whatever a trace has, reading it ends, in bounds, and what is read holds together.
func FuzzRead(f *testing.F) {
	f.Add(csvHeader + "\n1,0:0:0,allocate,0x10,100,0x0\n1,0:0:0,free,0x10,100,0x0\n2,0:0:0,allocate failure,(nil),100,0x2\n")
	f.Add(pickled(f, event("alloc", 1, 1)+event("free_completed", 1, 1)))
	f.Fuzz(func(t *testing.T, content string) {
		got, err := Read(strings.NewReader(content), Options{Device: -1, Lost: len(content)%2 == 0})
		if err != nil {
			require.NotEqual(t, status.Internal, status.CodeOf(err), "%v", err)
			return
		}
		require.NoError(t, check(got))
	})
}

// check recounts a trace.
func check(t *Trace) error {
	sizes, live := make([]uint64, t.Blocks), make([]bool, t.Blocks)
	next := uint64(0)
	for at, e := range t.Events {
		switch {
		case uint64(e.Block) >= t.Blocks || int(e.Stream) >= t.Streams || e.Bytes == 0:
			return fmt.Errorf("event %d is %+v", at, e)
		case e.Free && (!live[e.Block] || sizes[e.Block] != e.Bytes):
			return fmt.Errorf("event %d frees what is not there", at)
		case !e.Free && uint64(e.Block) != next:
			return fmt.Errorf("event %d takes block %d, not %d", at, e.Block, next)
		case !e.Free:
			sizes[e.Block] = e.Bytes
			next++
		}
		live[e.Block] = !e.Free
	}
	if next != t.Blocks || t.Before > next {
		return fmt.Errorf("%d blocks are taken, %d before, not %d", next, t.Before, t.Blocks)
	}
	return nil
}
