package metadata_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"libmmsb/core/metadata"
	"libmmsb/core/status"
)

// build writes a blob with a count of its own and fields whose lengths are true.
func build(count uint32, fields ...string) []byte {
	blob := binary.LittleEndian.AppendUint32(nil, count)
	for _, field := range fields {
		blob = binary.LittleEndian.AppendUint32(blob, uint32(len(field)))
		blob = append(blob, field...)
	}
	return blob
}

func keys(blob []byte) []string {
	found := []string{}
	for key := range metadata.Keys(blob) {
		found = append(found, string(key))
	}
	return found
}

func set(t *testing.T, blob []byte, key, value string) []byte {
	t.Helper()
	before := bytes.Clone(blob)
	result, err := metadata.Set(blob, []byte(key), []byte(value))
	require.NoError(t, err)
	require.Equal(t, before, blob, "the blob before is left alone")
	return result
}

func TestTheFormatIsThatOfTheHeader(t *testing.T) {
	blob := set(t, nil, "läge", "")
	blob = set(t, blob, "k", "\x00\xff")
	assert.Equal(t, []byte("\x02\x00\x00\x00"+
		"\x05\x00\x00\x00l\xc3\xa4ge\x00\x00\x00\x00"+
		"\x01\x00\x00\x00k\x02\x00\x00\x00\x00\xff"), blob)
	count, err := metadata.Validate(blob)
	require.NoError(t, err)
	assert.Equal(t, 2, count)
}

func TestNoBytesAreNoEntries(t *testing.T) {
	for _, blob := range [][]byte{nil, {}, build(0)} {
		count, err := metadata.Validate(blob)
		require.NoError(t, err)
		assert.Zero(t, count)
		assert.Zero(t, metadata.Count(blob))
		assert.Empty(t, keys(blob))
		_, ok := metadata.Get(blob, []byte("key"))
		assert.False(t, ok)
		same, ok := metadata.Remove(blob, []byte("key"))
		assert.False(t, ok)
		assert.Equal(t, blob, same)
		assert.Equal(t, build(1, "key", "value"), set(t, blob, "key", "value"))
	}
}

func TestKeysKeepTheOrderInWhichTheyWereFirstSet(t *testing.T) {
	var blob []byte
	for _, key := range []string{"c", "a", "b"} {
		blob = set(t, blob, key, "first")
	}
	blob = set(t, blob, "a", "a longer value")
	assert.Equal(t, build(3, "c", "first", "a", "a longer value", "b", "first"), blob)
	blob, ok := metadata.Remove(blob, []byte("c"))
	assert.True(t, ok)
	blob = set(t, blob, "c", "again")
	assert.Equal(t, []string{"a", "b", "c"}, keys(blob))
	for range metadata.Keys(blob) {
		break
	}
}

func TestSetRefusesWhatCannotBe(t *testing.T) {
	blob := build(1, "key", "value")
	_, err := metadata.Set(blob, nil, nil)
	assert.Equal(t, status.InvalidArgument, status.CodeOf(err))
	_, err = metadata.Set(blob, []byte("a\xff"), nil)
	assert.Equal(t, status.InvalidArgument, status.CodeOf(err))

	// Address space only: none of it is touched before the size is refused.
	huge, err := unix.Mmap(-1, 0, math.MaxUint32+1, unix.PROT_READ, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_NORESERVE)
	require.NoError(t, err)
	defer func() { require.NoError(t, unix.Munmap(huge)) }()
	for _, length := range []uint64{math.MaxUint32 + 1, math.MaxUint32, math.MaxUint32 - 21} {
		_, err = metadata.Set(blob, []byte("other"), huge[:length])
		assert.Equal(t, status.InvalidSize, status.CodeOf(err), "%d bytes", length)
	}
}

func TestValidateNamesTheDamage(t *testing.T) {
	good := build(2, "key", "value", "other", "")
	lying := func(offset int, length uint32) []byte {
		blob := bytes.Clone(good)
		binary.LittleEndian.PutUint32(blob[offset:], length)
		return blob
	}
	for _, test := range []struct {
		name, text string
		blob       []byte
	}{
		{"count cut", "has 3 bytes, fewer than its count needs", good[:3]},
		{"count too large", "entry 3 of 3 at offset 33: 0 bytes are left for the length of its key", lying(0, 3)},
		{"count huge", "entry 3 of 4294967295 at offset 33", lying(0, math.MaxUint32)},
		{"count too small", "ends at offset 20 after 1 entries, but has 33 bytes", lying(0, 1)},
		{"bytes after the end", "ends at offset 33 after 2 entries, but has 34 bytes", append(bytes.Clone(good), 0)},
		{"key length lies", "entry 1 of 2 at offset 4: its key has 26 bytes, 25 are left", lying(4, 26)},
		{"key length overflows", "entry 1 of 2 at offset 4: its key has 4294967295 bytes, 25 are left", lying(4,
			math.MaxUint32)},
		{"value length lies", "entry 1 of 2 at offset 11: its value has 4294967292 bytes, 18 are left", lying(11,
			math.MaxUint32-3)},
		{"value cut", "entry 1 of 2 at offset 11: its value has 5 bytes, 4 are left", good[:19]},
		{"length cut", "entry 2 of 2 at offset 29: 2 bytes are left for the length of its value", good[:31]},
		{"empty key", "entry 1 of 1 at offset 4 has an empty key", build(1, "", "value")},
		{"key not UTF-8", "entry 2 of 2 at offset 14 has a key that is not valid UTF-8", build(2, "a", "b", "\xc0\x80", "")},
		{"key twice", `entry 2 of 2 at offset 14 repeats the key "a"`, build(2, "a", "b", "a", "c")},
		{"long key twice", `repeats the key "` + strings.Repeat("é", 32) + `"`, build(2, strings.Repeat("é", 99), "",
			strings.Repeat("é", 99), "")},
	} {
		_, err := metadata.Validate(test.blob)
		assert.Equal(t, status.Corrupt, status.CodeOf(err), test.name)
		assert.ErrorContains(t, err, test.text, test.name)
	}
	_, err := metadata.Validate(good)
	assert.NoError(t, err)
	for length := 1; length < len(good); length++ {
		_, err := metadata.Validate(good[:length])
		assert.Equal(t, status.Corrupt, status.CodeOf(err), "cut to %d bytes", length)
	}
}

func TestAgainstAModel(t *testing.T) {
	for seed := range uint64(20) {
		random := rand.New(rand.NewPCG(seed, 0))
		var order []string
		values := map[string]string{}
		var blob []byte
		for range 300 {
			key := fmt.Sprintf("key %d", random.IntN(12))
			if random.IntN(3) > 0 {
				if _, there := values[key]; !there {
					order = append(order, key)
				}
				values[key] = strings.Repeat("v", random.IntN(9))
				blob = set(t, blob, key, values[key])
			} else {
				_, there := values[key]
				delete(values, key)
				order = slices.DeleteFunc(order, func(candidate string) bool { return candidate == key })
				var removed bool
				blob, removed = metadata.Remove(blob, []byte(key))
				require.Equal(t, there, removed, "seed %d", seed)
			}
			fields := []string{}
			for _, key := range order {
				fields = append(fields, key, values[key])
				value, ok := metadata.Get(blob, []byte(key))
				require.True(t, ok)
				require.Equal(t, values[key], string(value), "seed %d", seed)
			}
			if len(blob) > 0 {
				require.Equal(t, build(uint32(len(order)), fields...), blob, "seed %d", seed)
			}
			count, err := metadata.Validate(blob)
			require.NoError(t, err, "seed %d", seed)
			require.Equal(t, len(order), count)
		}
	}
}

// FuzzBlob: what Validate lets through can be read whole and written again to the same bytes; what it refuses harms nothing.
func FuzzBlob(f *testing.F) {
	f.Add([]byte(nil))
	f.Add(build(0))
	f.Add(build(1, "key", "value"))
	f.Add(build(2, "ä", "", "b", "\x00\xff"))
	f.Add(build(2, "twice", "", "twice", ""))
	f.Add(build(1, "\xff", ""))
	f.Add(append(build(1, "key"), 0xff, 0xff, 0xff, 0xff))
	f.Fuzz(func(t *testing.T, blob []byte) {
		before := bytes.Clone(blob)
		count, err := metadata.Validate(blob)
		found := keys(blob)
		var again []byte
		for _, key := range found {
			value, ok := metadata.Get(blob, []byte(key))
			require.True(t, ok)
			if err == nil {
				again = set(t, again, key, string(value))
			}
		}
		if err != nil {
			require.Equal(t, status.Corrupt, status.CodeOf(err))
			changed, _ := metadata.Set(blob, []byte("fuzz"), []byte("value"))
			metadata.Remove(changed, []byte("fuzz"))
		} else {
			require.Equal(t, count, len(found))
			if count > 0 {
				require.Equal(t, before, again)
			}
			for _, key := range found {
				var removed bool
				again, removed = metadata.Remove(again, []byte(key))
				require.True(t, removed)
			}
			require.Zero(t, metadata.Count(again))
		}
		require.Equal(t, before, bytes.Clone(blob))
	})
}
