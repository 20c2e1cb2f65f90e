package journal

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"libmmsb/core/file"
	"libmmsb/core/file/filetest"
	"libmmsb/core/status"
)

const ringBuffer = 64 << 10

// group is records as a thread puts them: whole, or as far as it came.
func group(records ...Record) []byte {
	var body []byte
	for i, r := range records {
		flags := uint8(0)
		if i < len(records)-1 {
			flags = More
		}
		body = append(body, r.encode(flags)...)
	}
	if len(records) > 1 {
		head := Record{Kind: Group}.wrap(More, Words(uint64(len(body))))
		body = append(head, body...)
	}
	body[5] |= Complete
	return body
}

// setRing puts two buffers into the ring of a writer, as a process leaves them that is killed.
func setRing(t *testing.T, w *Writer, buffers ...[]byte) {
	t.Helper()
	f, err := w.MakeRing(ringBuffer)
	require.NoError(t, err)
	for i, content := range buffers {
		require.NoError(t, file.WriteFull(f, content, int64(RingHeadBytes+i*ringBuffer)))
	}
	require.NoError(t, f.Close())
}

// ringOf is a buffer in use whose first record has a number.
func ringOf(first uint64, groups ...[]byte) []byte {
	head := make([]byte, FrameHeadBytes)
	copy(head, bufferMagic)
	binary.LittleEndian.PutUint64(head[32:], first)
	return append(head, bytes.Join(groups, nil)...)
}

func TestWhatAKilledProcessLeftInItsRing(t *testing.T) {
	hole := make([]byte, 160)
	for name, c := range map[string]struct {
		buffers [][]byte
		last    uint64 // of the runs that are there, from 1 on
	}{
		"nothing":                 {[][]byte{ringOf(4)}, 3},
		"records":                 {[][]byte{ringOf(4, group(run(4)), group(run(5)))}, 5},
		"both buffers":            {[][]byte{ringOf(5, group(run(5))), ringOf(4, group(run(4)))}, 5},
		"one is written":          {[][]byte{ringOf(2, group(run(2)), group(run(3))), ringOf(4, group(run(4)))}, 4},
		"both are written":        {[][]byte{ringOf(3, group(run(3))), ringOf(2, group(run(2)))}, 3},
		"a hole":                  {[][]byte{ringOf(4, hole, group(run(4)), hole[:8], group(run(5)), hole)}, 5},
		"a buffer of holes":       {[][]byte{ringOf(4, hole), ringOf(6, group(run(4)))}, 4},
		"a call in the middle":    {[][]byte{ringOf(4, group(run(4)), incomplete(run(90)), group(run(5)))}, 5},
		"a group in the middle":   {[][]byte{ringOf(4, incomplete(run(90), run(91)), group(run(4)))}, 4},
		"a group's head alone":    {[][]byte{ringOf(4, groupHead(), hole, group(run(4)))}, 4},
		"of what never counted":   {[][]byte{ringOf(9, group(run(9)))}, 3},
		"lengths that cannot be":  {[][]byte{ringOf(4, group(run(4)), Words(1<<40-1), group(run(5)))}, 4},
		"a frame that is torn":    {[][]byte{torn(ringOf(4, group(run(4))))}, 4},
		"not yet in use":          {nil, 3},
		"the second is not begun": {[][]byte{ringOf(4, group(run(4))), make([]byte, 500)}, 4},
	} {
		t.Run(name, func(t *testing.T) {
			disk := filetest.NewDisk()
			w := open(t, disk, Options{})
			writeRuns(t, w, 3)
			setRing(t, w, c.buffers...)
			living, _, err := readAll(disk, 1)
			require.NoError(t, err)
			requireRuns(t, living, 1, 3)
			killed := disk.Kill()
			for range 2 { // a reader changes nothing
				records, info, err := readAll(killed, 1)
				require.NoError(t, err)
				requireRuns(t, records, 1, c.last)
				assert.Equal(t, c.last, info.Last)
				assert.False(t, info.Closed)
			}
			again := open(t, killed, Options{})
			assert.Equal(t, c.last+1, again.Next())
			writeRuns(t, again, c.last+2)
			require.NoError(t, again.Close())
			records, info, err := readAll(killed, 1)
			require.NoError(t, err)
			requireRuns(t, records, 1, c.last+2)
			assert.Zero(t, info.TornBytes)
			_, err = killed.Stat(filepath.Join(directory, ringName))
			assert.Equal(t, unix.ENOENT, err)
		})
	}
}

// incomplete is a group whose call had not returned.
func incomplete(records ...Record) []byte {
	g := group(records...)
	g[5] &^= Complete
	clear(g[len(g)-9:])
	return g
}

// groupHead is a group of which only the first word was stored.
func groupHead() []byte {
	g := group(run(1), run(2))
	clear(g[8:])
	g[5] &^= Complete
	return g[:48]
}

// torn is a buffer whose head is a frame's, which was being written.
func torn(buffer []byte) []byte {
	copy(buffer, frameMagic)
	return buffer
}

func TestAGroupOfSeveralIsWholeInTheRing(t *testing.T) {
	disk := filetest.NewDisk()
	w := open(t, disk, Options{})
	writeRuns(t, w, 1)
	setRing(t, w, ringOf(2, group(run(2), run(3), run(4)), group(run(5))))
	records, info, err := readAll(disk.Kill(), 1)
	require.NoError(t, err)
	require.Len(t, records, 5)
	for i, r := range records {
		assert.Equal(t, run(uint64(i)+1).Bytes, r.Bytes)
	}
	assert.Equal(t, uint64(6), info.Last, "the group has a record of its own")
}

// A group that is larger than a buffer goes beyond what is written.
func TestAGreatGroupInTheRing(t *testing.T) {
	for _, whole := range []bool{true, false} {
		disk := filetest.NewDisk()
		w := open(t, disk, Options{})
		writeRuns(t, w, 1)
		first, used := buffer(run(2).encode(More))
		require.NoError(t, w.Write(first, used, 2, 1, false))
		last := run(3).encode(0)
		if !whole {
			last = run(3).encode(More)
		}
		last[5] |= Complete
		setRing(t, w, ringOf(3, last))
		killed := disk.Kill()
		records, _, err := readAll(killed, 1)
		require.NoError(t, err)
		want := uint64(1)
		if whole {
			want = 3
		}
		requireRuns(t, records, 1, want)
		again := open(t, killed, Options{})
		assert.Equal(t, want+1, again.Next())
		writeRuns(t, again, want+1)
		require.NoError(t, again.Close())
		records, _, err = readAll(killed, 1)
		require.NoError(t, err)
		requireRuns(t, records, 1, want+1)
	}
}

// After a power cut the pages of a shared file are of any age.
func TestTheRingOfAnEarlierStartOfTheSystem(t *testing.T) {
	disk := filetest.NewDisk()
	w := open(t, disk, Options{})
	writeRuns(t, w, 3)
	setRing(t, w, ringOf(4, group(run(4))))
	f, err := disk.Open(filepath.Join(directory, ringName), unix.O_RDWR, 0)
	require.NoError(t, err)
	require.NoError(t, file.WriteFull(f, []byte("00000000"), 40))
	records, _, err := readAll(disk.Kill(), 1)
	require.NoError(t, err)
	requireRuns(t, records, 1, 3)
}

func TestARingThatIsDamaged(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	content := ringOf(4, group(run(4)), incomplete(run(90)), group(run(5), run(6)), group(run(7)))
	rounds := 3000
	if raceDetector { // nothing runs at the same time here
		rounds = 100
	}
	for range rounds {
		disk := filetest.NewDisk()
		w := open(t, disk, Options{})
		writeRuns(t, w, 3)
		damaged := slices.Clone(content)
		for range 1 + random.IntN(4) {
			damaged[random.IntN(len(damaged))] ^= 1 << random.IntN(8)
		}
		setRing(t, w, damaged)
		records, _, err := walkAll(disk.Kill(), 1)
		if err != nil {
			code := status.CodeOf(err)
			require.True(t, code == status.Corrupt || code == status.Format, "%v", err)
			continue
		}
		require.GreaterOrEqual(t, len(records), 3)
		requireRuns(t, records[:3], 1, 3)
	}
	disk := filetest.NewDisk()
	w := open(t, disk, Options{})
	f, err := w.MakeRing(ringBuffer)
	require.NoError(t, err)
	require.NoError(t, file.WriteFull(f, Words(1<<40), 16))
	_, err = Open(disk.Kill(), directory)
	assert.Equal(t, status.Corrupt, code(err), "%v", err)
	require.NoError(t, file.WriteFull(f, []byte{3}, 8))
	_, err = Open(disk.Kill(), directory)
	assert.Equal(t, status.Format, code(err), "of a newer version: %v", err)
}
