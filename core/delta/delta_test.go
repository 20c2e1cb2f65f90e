package delta

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"libmmsb/core/abi"
	"libmmsb/core/status"
	"libmmsb/native"
)

var kinds = []Kind{DenseBytes, DenseBits, SparseBits, Indexed, Runs}

func TestKindsAreThoseOfTheHeader(t *testing.T) {
	var values []Kind
	for value, name := range abi.DeltaNames {
		if name != "" {
			values = append(values, Kind(value))
		}
	}
	assert.Equal(t, values, kinds)
}

// source makes forms and pages out of random numbers, so that seeds and fuzzed bytes lead to the same forms.
type source struct{ next func() uint64 }

func seeded(seed uint64) source { return source{rand.New(rand.NewPCG(seed, 0)).Uint64} }

// fuzzed takes numbers from bytes, and zeros when there are no more.
func fuzzed(data []byte) source {
	return source{func() uint64 {
		var word [8]byte
		data = data[copy(word[:2], data):]
		return binary.LittleEndian.Uint64(word[:])
	}}
}

func (s source) below(limit int) int { return int(s.next() % uint64(limit)) }

func (s source) bytes(length int) []byte {
	result := make([]byte, length)
	for at := range result {
		result[at] = byte(s.next())
	}
	return result
}

// form makes a valid form for a page of size bytes.
func (s source) form(size int) *Form {
	f := &Form{Kind: kinds[s.below(len(kinds))]}
	switch f.Kind {
	case Indexed:
		f.Count = s.next() % uint64(size+1)
		f.Offsets = make([]uint64, f.Count)
		for number := range f.Offsets {
			if number > 0 && s.below(2) > 0 { // ranges of consecutive offsets
				f.Offsets[number] = (f.Offsets[number-1] + 1) % uint64(size)
			} else {
				f.Offsets[number] = s.next() % uint64(size)
			}
		}
		if s.below(2) > 0 {
			f.Offsets32 = make([]uint32, f.Count)
			for number, offset := range f.Offsets {
				f.Offsets32[number] = uint32(offset)
			}
			f.Offsets = nil
		}
	case Runs:
		f.Runs = make([]Run, s.below(12))
		f.Count = uint64(len(f.Runs))
		for number := range f.Runs {
			offset := s.below(size + 1)
			f.Runs[number] = Run{Offset: uint64(offset), Length: uint64(s.below(size-offset+1) >> s.below(5))}
		}
	default:
		f.MaskLength = uint64(s.below(size + 1))
		f.Mask = make([]byte, f.MaskBytes())
		for at := range f.Mask {
			switch s.below(4) { // long ranges of set and clear ones, also in the unused bits
			case 0:
				f.Mask[at] = byte(s.next())
			case 1:
				f.Mask[at] = 0xff
			}
		}
	}
	length, err := f.PayloadBytes()
	if err != nil {
		panic(err)
	}
	f.Payload = s.bytes(int(length))
	return f
}

// apply is the meaning of a form, written down as simply as can be: it does to a page what the form says, and sets the bits of
// the addressed bytes in changed (bit i%8 of byte i/8), where that is not nil. The form must be valid for the page.
func apply(f *Form, page, changed []byte) {
	set := func(offset uint64, value byte) {
		page[offset] = value
		if changed != nil {
			changed[offset/8] |= 1 << (offset % 8)
		}
	}
	switch f.Kind {
	case DenseBytes:
		for offset := range f.MaskLength {
			if f.Mask[offset] != 0 {
				set(offset, f.Payload[offset])
			}
		}
	case DenseBits:
		for offset := range f.MaskLength {
			if bit(f.Mask, offset) {
				set(offset, f.Payload[offset])
			}
		}
	case SparseBits:
		next := 0
		for offset := range f.MaskLength {
			if bit(f.Mask, offset) {
				set(offset, f.Payload[next])
				next++
			}
		}
	case Indexed:
		for number := range f.Count {
			set(f.offset(number), f.Payload[number])
		}
	case Runs:
		next := 0
		for _, run := range f.Runs {
			for at := range run.Length {
				set(run.Offset+at, f.Payload[next])
				next++
			}
		}
	}
}

func bit(mask []byte, at uint64) bool { return mask[at/8]>>(at%8)&1 != 0 }

// effect is what forms do to a page, one after the other, and the bytes they address.
func effect(page []byte, forms ...*Form) (after, changed []byte) {
	after, changed = bytes.Clone(page), make([]byte, bitBytes(uint64(len(page))))
	for _, f := range forms {
		apply(f, after, changed)
	}
	return after, changed
}

// requireOrdered checks the promises on the forms that this package makes.
func requireOrdered(t *testing.T, f *Form, size int) {
	t.Helper()
	require.NoError(t, Validate(f, uint64(size)))
	end := uint64(0)
	switch f.Kind {
	case Runs:
		for number, run := range f.Runs {
			require.Positive(t, run.Length)
			require.True(t, number == 0 || run.Offset > end, "runs rise and do not touch: %v", f.Runs)
			end = run.Offset + run.Length
		}
	case Indexed:
		for _, offset := range f.Offsets {
			require.GreaterOrEqual(t, offset, end, "offsets rise: %v", f.Offsets)
			end = offset + 1
		}
	default:
		changed := make([]byte, bitBytes(uint64(size)))
		apply(f, make([]byte, size), changed)
		for offset := range uint64(size) {
			if bit(changed, offset) {
				end = offset + 1
			}
		}
		require.Equal(t, end, f.MaskLength, "the mask reaches to the last addressed byte")
	}
}

// checkForms is every property of two valid forms for a page.
func checkForms(t *testing.T, page []byte, a, b *Form) {
	t.Helper()
	for _, f := range []*Form{a, b} {
		require.NoError(t, Validate(f, uint64(len(page))))
	}
	after, changed := effect(page, a, b)
	merged, err := Merge(a, b)
	require.NoError(t, err)
	require.Equal(t, Runs, merged.Kind)
	requireOrdered(t, merged, len(page))
	got, gotChanged := effect(page, merged)
	require.Equal(t, after, got, "merged: bytes")
	require.Equal(t, changed, gotChanged, "merged: addressed bytes")

	after, changed = effect(page, a)
	for _, kind := range kinds {
		converted, err := Convert(a, kind)
		require.NoError(t, err)
		require.Equal(t, kind, converted.Kind)
		requireOrdered(t, converted, len(page))
		got, gotChanged := effect(page, converted)
		require.Equal(t, after, got, "kind %d to %d: bytes", a.Kind, kind)
		require.Equal(t, changed, gotChanged, "kind %d to %d: addressed bytes", a.Kind, kind)
	}

	difference := FromPages(page, after)
	requireOrdered(t, difference, len(page))
	got, gotChanged = effect(page, difference)
	require.Equal(t, after, got, "from pages: bytes")
	for offset := range uint64(len(page)) {
		require.Equal(t, page[offset] != after[offset], bit(gotChanged, offset), "from pages: byte %d", offset)
	}
}

func TestFormsKeepTheirMeaning(t *testing.T) {
	for seed := range uint64(1500) {
		s := seeded(seed)
		page := s.bytes(1 + s.below(200))
		if t.Run("", func(t *testing.T) { checkForms(t, page, s.form(len(page)), s.form(len(page))) }); t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

// FuzzForms: any bytes are a page and two forms; bent a little, they are refused with a code of the header or keep every
// property.
func FuzzForms(f *testing.F) {
	for seed := range uint64(8) {
		f.Add(binary.LittleEndian.AppendUint64(seeded(seed).bytes(400), seed), seed%4)
	}
	f.Fuzz(func(t *testing.T, data []byte, bend uint64) {
		s := fuzzed(data)
		page := s.bytes(1 + s.below(100))
		a, b := s.form(len(page)), s.form(len(page))
		switch value := s.next(); bend % 8 {
		case 1:
			a.Count += value
		case 2:
			a.MaskLength -= value
		case 3:
			a.Payload = append(a.Payload, 0)
		case 4:
			if len(a.Runs) > 0 {
				a.Runs[0].Offset -= value
			}
		case 5:
			if len(a.Offsets) > 0 {
				a.Offsets[0] -= value
			}
		}
		if err := Validate(a, uint64(len(page))); err != nil {
			require.Contains(t, []status.Code{status.InvalidArgument, status.OutOfRange, status.Mismatch}, status.CodeOf(err))
			return
		}
		checkForms(t, page, a, b)
	})
}

func TestValidate(t *testing.T) {
	two := []byte{1, 2}
	for _, test := range []struct {
		name string
		form Form
		code status.Code
		text string
	}{
		{"kind 0", Form{}, status.InvalidArgument, "delta kind is 0, not 1 to 5"},
		{"kind 6", Form{Kind: 6}, status.InvalidArgument, "delta kind is 6"},
		{"source", Form{Kind: Runs, Source: "a\xff"}, status.InvalidArgument, "source of 2 bytes is not valid UTF-8"},
		{"intent", Form{Kind: Runs, Intent: "\xc0\x80"}, status.InvalidArgument, "intent of 2 bytes is not valid UTF-8"},

		{"empty mask", Form{Kind: DenseBytes}, status.OK, ""},
		{"mask", Form{Kind: DenseBytes, Mask: two, MaskLength: 2, Payload: two}, status.OK, ""},
		{"mask as long as the page", Form{Kind: DenseBits, Mask: two, MaskLength: 10, Payload: make([]byte, 10)},
			status.OK, ""},
		{"mask NULL", Form{Kind: DenseBits, MaskLength: 1, Payload: two}, status.InvalidArgument,
			"mask is NULL, but mask_length is 1"},
		{"mask too long", Form{Kind: DenseBits, Mask: two, MaskLength: 11}, status.OutOfRange,
			"mask_length is 11, more than the page's 10 bytes"},
		{"mask length huge", Form{Kind: DenseBytes, Mask: two, MaskLength: math.MaxUint64}, status.OutOfRange,
			"18446744073709551615"},
		{"mask length lies", Form{Kind: SparseBits, Mask: two, MaskLength: 8}, status.Mismatch,
			"mask has 2 bytes, 1 expected for mask_length 8"},
		{"dense payload", Form{Kind: DenseBytes, Mask: two, MaskLength: 2, Payload: two[:1]}, status.Mismatch,
			"payload_length is 1, 2 expected"},
		{"sparse", Form{Kind: SparseBits, Mask: []byte{0x81, 0xfe}, MaskLength: 9, Payload: two}, status.OK, ""},
		{"sparse payload", Form{Kind: SparseBits, Mask: []byte{0x81, 1}, MaskLength: 9, Payload: two}, status.Mismatch,
			"payload_length is 2, 3 expected"},
		{"sparse NULL", Form{Kind: SparseBits, Mask: []byte{0x81}, MaskLength: 8}, status.InvalidArgument,
			"payload is NULL, but 2 bytes"},
		{"sparse without bits", Form{Kind: SparseBits, Mask: []byte{0}, MaskLength: 8}, status.OK, ""},

		{"indexed", Form{Kind: Indexed, Offsets: []uint64{9, 0}, Count: 2, Payload: two}, status.OK, ""},
		{"indexed 32", Form{Kind: Indexed, Offsets32: []uint32{9, 0}, Count: 2, Payload: two}, status.OK, ""},
		{"no offsets", Form{Kind: Indexed}, status.OK, ""},
		{"offsets NULL", Form{Kind: Indexed, Count: 2, Payload: two}, status.InvalidArgument,
			"offsets is NULL, but count is 2"},
		{"both offsets", Form{Kind: Indexed, Offsets: []uint64{1}, Offsets32: []uint32{1}, Count: 1, Payload: two[:1]},
			status.InvalidArgument, "both offsets and offsets32"},
		{"count", Form{Kind: Indexed, Offsets: []uint64{1}, Count: 2, Payload: two}, status.Mismatch,
			"1 offsets given, but count is 2"},
		{"offset", Form{Kind: Indexed, Offsets: []uint64{1, 10}, Count: 2, Payload: two}, status.OutOfRange,
			"offset 10 (number 2 of 2)"},
		{"offset 32", Form{Kind: Indexed, Offsets32: []uint32{math.MaxUint32}, Count: 1, Payload: two},
			status.OutOfRange, "offset 4294967295"},
		{"indexed payload", Form{Kind: Indexed, Offsets: []uint64{1}, Count: 1, Payload: two}, status.Mismatch,
			"payload_length is 2, 1 expected"},
		{"indexed payload NULL", Form{Kind: Indexed, Offsets: []uint64{1}, Count: 1}, status.InvalidArgument,
			"payload is NULL, but 1 bytes"},

		{"runs", Form{Kind: Runs, Runs: []Run{{9, 1}, {0, 1}, {10, 0}}, Count: 3, Payload: two}, status.OK, ""},
		{"no runs", Form{Kind: Runs}, status.OK, ""},
		{"runs NULL", Form{Kind: Runs, Count: 1, Payload: two}, status.InvalidArgument, "runs is NULL, but count is 1"},
		{"run count", Form{Kind: Runs, Runs: []Run{{0, 2}}, Count: 2, Payload: two}, status.Mismatch,
			"1 runs given, but count is 2"},
		{"run past the end", Form{Kind: Runs, Runs: []Run{{9, 2}}, Count: 1, Payload: two}, status.OutOfRange,
			"run of 2 bytes at offset 9 (number 1 of 1) reaches past the page of 10 bytes"},
		{"empty run past the end", Form{Kind: Runs, Runs: []Run{{11, 0}}, Count: 1}, status.OutOfRange, "offset 11"},
		{"run overflows", Form{Kind: Runs, Runs: []Run{{math.MaxUint64, 2}}, Count: 1, Payload: two}, status.OutOfRange,
			"past"},
		{"run length overflows", Form{Kind: Runs, Runs: []Run{{2, math.MaxUint64}}, Count: 1, Payload: two},
			status.OutOfRange, "past"},
		{"run payload", Form{Kind: Runs, Runs: []Run{{0, 2}, {1, 2}}, Count: 2, Payload: two}, status.Mismatch,
			"payload_length is 2, 4 expected"},
		{"run payload NULL", Form{Kind: Runs, Runs: []Run{{0, 2}}, Count: 1}, status.InvalidArgument,
			"payload is NULL, but 2 bytes"},
	} {
		err := Validate(&test.form, 10)
		assert.Equal(t, test.code, status.CodeOf(err), "%s: %v", test.name, err)
		if test.code != status.OK {
			assert.ErrorContains(t, err, test.text, test.name)
		}
	}
	endless := Form{Kind: Runs, Runs: []Run{{0, math.MaxUint64}, {0, 2}}, Count: 2, Payload: two}
	assert.Equal(t, status.Mismatch, status.CodeOf(Validate(&endless, math.MaxUint64)))
}

func TestLaterWins(t *testing.T) {
	indexed := &Form{Kind: Indexed, Offsets: []uint64{3, 1, 3}, Count: 3, Payload: []byte("abc")}
	overlapping := &Form{Kind: Runs, Runs: []Run{{0, 4}, {1, 1}, {1, 2}}, Count: 3, Payload: []byte("ABCDxyz")}
	page, changed := effect([]byte("....."), indexed)
	assert.Equal(t, ".b.c.", string(page))
	assert.Equal(t, []byte{0b1010}, changed)
	page, changed = effect([]byte("....."), overlapping)
	assert.Equal(t, "AyzD.", string(page))
	assert.Equal(t, []byte{0b1111}, changed)

	merged, err := Merge(overlapping, indexed)
	require.NoError(t, err)
	assert.Equal(t, []Run{{0, 4}}, merged.Runs)
	assert.Equal(t, "Abzc", string(merged.Payload))
	merged, err = Merge(indexed, overlapping)
	require.NoError(t, err)
	assert.Equal(t, "AyzD", string(merged.Payload))
}

func TestApplyWithoutAChangeMask(t *testing.T) {
	page := []byte("...")
	apply(&Form{Kind: Runs, Runs: []Run{{1, 1}}, Count: 1, Payload: []byte("x")}, page, nil)
	assert.Equal(t, ".x.", string(page))
}

func TestMergeTakesFromTheLaterAndTheLarger(t *testing.T) {
	a := &Form{Kind: Runs, ID: 1, Epoch: 9, TimestampNanoseconds: 5, Source: "one", Intent: "first"}
	b := &Form{Kind: Runs, ID: 2, PageID: 7, Epoch: 4, TimestampNanoseconds: 6, Source: "two"}
	merged, err := Merge(a, b)
	require.NoError(t, err)
	assert.Equal(t, &Form{Kind: Runs, ID: 2, PageID: 7, Epoch: 9, TimestampNanoseconds: 6, Source: "two", Runs: []Run{},
		Payload: []byte{}}, merged)
	merged, err = Merge(b, a)
	require.NoError(t, err)
	assert.EqualValues(t, 7, merged.PageID)
	assert.Equal(t, "first", merged.Intent)

	a.PageID = 8
	_, err = Merge(a, b)
	assert.Equal(t, status.Mismatch, status.CodeOf(err))
	assert.ErrorContains(t, err, "8 and 7")
	for _, pair := range [][2]*Form{{a, {}}, {{}, a}} {
		_, err = Merge(pair[0], pair[1])
		assert.Equal(t, status.InvalidArgument, status.CodeOf(err))
	}
}

func TestConvertKeepsTheRest(t *testing.T) {
	f := &Form{Kind: Runs, ID: 1, PageID: 2, Epoch: 3, TimestampNanoseconds: 4, Source: "s", Intent: "i"}
	for _, kind := range kinds {
		converted, err := Convert(f, kind)
		require.NoError(t, err)
		assert.NotNil(t, converted.Payload)
		converted.Mask, converted.Offsets, converted.Runs, converted.Payload = nil, nil, nil, nil
		expected := *f
		expected.Kind = kind
		assert.Equal(t, &expected, converted)
	}
	_, err := Convert(f, 6)
	assert.Equal(t, status.InvalidArgument, status.CodeOf(err))
	_, err = Convert(&Form{}, Runs)
	assert.Equal(t, status.InvalidArgument, status.CodeOf(err))
}

func TestFarOffsetsCostNothingAsRunsAndAreRefusedAsMasks(t *testing.T) {
	for _, offset := range []uint64{math.MaxUint64 - 1, math.MaxUint64 - 8, 1 << 63, 1 << 62, 1 << 56} {
		f := &Form{Kind: Indexed, Offsets: []uint64{offset, 0}, Count: 2, Payload: []byte("ab")}
		merged, err := Merge(f, f)
		require.NoError(t, err)
		assert.Equal(t, []Run{{0, 1}, {offset, 1}}, merged.Runs)
		assert.Equal(t, "ba", string(merged.Payload))
		for _, kind := range []Kind{DenseBytes, DenseBits, SparseBits} {
			_, err := Convert(f, kind)
			assert.Equal(t, status.OutOfMemory, status.CodeOf(err), "kind %d, offset %d", kind, offset)
		}
	}
	near := &Form{Kind: Indexed, Offsets: []uint64{4 << 20}, Count: 1, Payload: []byte("a")}
	converted, err := Convert(near, DenseBytes)
	require.NoError(t, err)
	requireOrdered(t, converted, 4<<20+1)
}

func TestMarkedRunsAgreeWithLookingAtEachByte(t *testing.T) {
	s := seeded(1)
	runsOf := func(length uint64, marked func(at uint64) bool) []Run {
		runs := []Run{}
		for at := range length {
			switch {
			case !marked(at):
			case at > 0 && marked(at-1):
				runs[len(runs)-1].Length++
			default:
				runs = append(runs, Run{at, 1})
			}
		}
		return runs
	}
	for range 1000 {
		length := s.below(300)
		a, b := make([]byte, length), make([]byte, length)
		few := 1 + s.below(200) // long runs as well as short ones
		same := false
		for at := range a {
			if s.below(few) == 0 {
				same = !same
			}
			a[at] = byte(1 + s.below(255))
			if b[at] = a[at]; !same {
				b[at] ^= byte(1 << s.below(8))
			}
			if s.below(few) == 0 {
				a[at] = 0
			}
		}
		require.Equal(t, runsOf(uint64(length), func(at uint64) bool { return a[at] != b[at] }),
			bitRuns(native.Differences(a, b), uint64(length)))
		require.Equal(t, runsOf(uint64(length), func(at uint64) bool { return a[at] != 0 }),
			bitRuns(native.Differences(a, nil), uint64(length)))
		bitLength := uint64(length*8 - s.below(8)*min(length, 1))
		marked := runsOf(bitLength, func(at uint64) bool { return bit(a, at) })
		require.Equal(t, marked, bitRuns(a, bitLength))
		set := uint64(0)
		for _, run := range marked {
			set += run.Length
		}
		require.Equal(t, set, countBits(a, bitLength))
	}
	all := bytes.Repeat([]byte{1}, 4096)
	require.Equal(t, []Run{{0, 4096}}, bitRuns(native.Differences(all, nil), 4096))
	require.Empty(t, bitRuns(native.Differences(all, all), 4096))
}

func BenchmarkMergeDense(b *testing.B) {
	s := seeded(1)
	forms := [2]*Form{}
	for at := range forms {
		forms[at] = &Form{Kind: DenseBits, MaskLength: 1 << 20, Mask: s.bytes(1 << 17), Payload: make([]byte, 1<<20)}
	}
	b.SetBytes(1 << 20)
	for b.Loop() {
		if _, err := Merge(forms[0], forms[1]); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkMergeScattered(b *testing.B) {
	s := seeded(1)
	forms := [2]*Form{}
	for at := range forms {
		forms[at] = &Form{Kind: Indexed, Offsets: make([]uint64, 1<<16), Count: 1 << 16, Payload: make([]byte, 1<<16)}
		for number := range forms[at].Offsets {
			forms[at].Offsets[number] = s.next() % (1 << 20)
		}
	}
	b.SetBytes(1 << 17)
	for b.Loop() {
		if _, err := Merge(forms[0], forms[1]); err != nil {
			b.Fatal(err)
		}
	}
}
