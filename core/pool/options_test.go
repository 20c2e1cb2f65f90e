package pool

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"libmmsb/core/status"
)

func TestParse(t *testing.T) {
	for text, want := range map[string]Options{
		"":                          {},
		"expandable_segments:True":  {},
		"expandable_segments:False": {Origin: Plain},
		"source:virtual,expandable_segments:true":                                      {Origin: Virtual},
		"expandable_segments:False,source:pinned,peers:false":                          {Origin: Pinned},
		"expandable_segments:False,expandable_segments:True":                           {},
		"slabs:true,slabs:False":                                                       {},
		"limit_mb:10,large_segment_size_mb: 4":                                         {Limit: 10 * mib, LargeStep: 4 * mib},
		"peers:true,limit_mb:10":                                                       {Peers: true, Limit: 10 * mib},
		"slack:0.1 , max_split_size_mb:128":                                            {Slack: 100},
		"garbage_collection_threshold:0.8,backend:native,max_non_split_rounding_mb:20": {},
	} {
		o, err := Parse(text)
		require.NoError(t, err, text)
		assert.Equal(t, want, o, text)
	}
	o, err := Parse("roundup_power2_divisions:[256:1,512:2,>:4]")
	require.NoError(t, err)
	assert.Equal(t, [divisionRows]uint32{1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 4, 4, 4, 4, 4, 4, 4}, o.Divisions)
	o, err = Parse("roundup_power2_divisions:8,limit_mb:1")
	require.NoError(t, err)
	assert.Equal(t, uint32(8), o.Divisions[0])
	assert.Equal(t, uint32(8), o.Divisions[16])
}

func TestAFallbackMayComeBeforeItsSource(t *testing.T) {
	for _, text := range []string{"fallback:pageable,source:pinned", "source:pinned,fallback:pageable"} {
		o, err := Parse(text)
		require.NoError(t, err)
		assert.Equal(t, Options{Origin: Pinned, Pageable: true}, o, text)
	}
}

func TestParseNamesThePosition(t *testing.T) {
	for text, want := range map[string]string{
		"limit_mb":                              `position 0: "limit_mb" has no value`,
		"slack:0.1,limit:3":                     `position 10: "limit" is not an option`,
		"limit_mb:":                             `position 9: "" is not a number from 1 to`,
		"limit_mb:-1":                           `position 9: "-1" is not a number from 1 to`,
		"limit_mb:99999999999999999999":         `position 9`,
		"limit_mb:1,":                           `position 11: option is missing`,
		",":                                     `position 0: "" has no value`,
		"slack:2":                               `position 6: "2" is not a number above 0, up to 1`,
		"slack:NaN":                             `position 6`,
		"expandable_segments:no":                `position 20: "no" is not one of true, false`,
		"peers:1":                               `position 6: "1" is not one of true, false`,
		"expandable_segments:true,source:plain": `position 20: true contradicts source:plain, whose segments do not grow`,
		"source:virtual,expandable_segments:false": `position 35: false contradicts source:virtual, whose segments grow`,
		"backend:cudaMallocAsync":                  `position 8`,
		"fallback:pageable":                        `position 9: pageable needs source:pinned`,
		"source:plain,fallback:pageable":           `position 22: pageable needs source:pinned`,
		"fallback:pageable,source:managed":         `position 9: pageable needs source:pinned`,
		"roundup_power2_divisions:3":               `position 25: 3 is not a power of two`,
		"roundup_power2_divisions:[3:1]":           `position 26: 3 is not a power of two above the one before`,
		"roundup_power2_divisions:[4:1,2:1]":       `position 30: 2 is not a power of two above the one before`,
		"roundup_power2_divisions:[4:1":            `position 29: closing bracket is missing`,
		"roundup_power2_divisions:[4]":             `position 27: colon and number are missing`,
		"roundup_power2_divisions:[4:1]x":          `position 30: "x" is not expected behind the value`,
	} {
		_, err := Parse(text)
		require.Equal(t, status.InvalidArgument, status.CodeOf(err), text)
		assert.ErrorContains(t, err, want, text)
	}
}

func FuzzParse(f *testing.F) {
	f.Add("roundup_power2_divisions:[256:1,512:2,>:4],limit_mb:7")
	f.Fuzz(func(t *testing.T, text string) {
		o, err := Parse(text)
		if err != nil {
			require.Equal(t, status.InvalidArgument, status.CodeOf(err))
			return
		}
		for _, bytes := range []uint64{1, 511, 513, mib, mib + 1, 1 << 40, mostBytes - 1} {
			rounded, err := o.Round(bytes)
			require.NoError(t, err)
			require.GreaterOrEqual(t, rounded, bytes)
			require.Zero(t, rounded%Unit)
		}
	})
}

func TestRound(t *testing.T) {
	var o Options
	for bytes, want := range map[uint64]uint64{1: 512, 512: 512, 513: 1024, mib: mib, mib + 1: mib + 512} {
		rounded, err := o.Round(bytes)
		require.NoError(t, err)
		assert.Equal(t, want, rounded, "%d", bytes)
	}
	for row := range o.Divisions {
		o.Divisions[row] = 4
	}
	// PyTorch's example: 1200 with 4 divisions between 1024 and 2048 is 1280, here a multiple of 512.
	for bytes, want := range map[uint64]uint64{
		1200: 1536, 5 * mib: 5 * mib, 5*mib + 1: 6 * mib, 8 * mib: 8 * mib, 8*mib + 1: 10 * mib,
	} {
		rounded, err := o.Round(bytes)
		require.NoError(t, err)
		assert.Equal(t, want, rounded, "%d", bytes)
	}
}

func TestSlabs(t *testing.T) {
	o, err := Parse("slabs:true")
	require.NoError(t, err)
	for bytes, want := range map[uint64]uint64{
		1: 4096, 4096: 4096, 4097: 16384, 65536: 65536, 65537: 262144, mib: mib, mib + 1: 4 * mib, 4 * mib: 4 * mib,
		4*mib + 1: 4*mib + 512, 9 * mib: 9 * mib,
	} {
		rounded, err := o.Round(bytes)
		require.NoError(t, err)
		assert.Equal(t, want, rounded, "%d", bytes)
	}
	w := newWorld(t, o, 64*mib, 128*mib, 1)
	for _, bytes := range []uint64{100, 5000, mib + 1, 4*mib + 1} {
		for range 3 {
			require.NoError(t, w.take(0, bytes))
			w.give(0, 0)
		}
	}
	require.Equal(t, uint64(2), w.Statistics().Misses, "one for each range of addresses")
	w.check()
}
