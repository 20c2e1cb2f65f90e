package journal

import (
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

const ringBytes = 64 << 10

// put is what a thread has put into a ring: a whole group, or what is there instead.
type put struct {
	bytes    []byte
	complete bool
}

// group is records as a thread puts them.
func group(records ...Record) put {
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
	return put{body, true}
}

// ringContent is a buffer and its marks.
type ringContent struct{ bytes, marks []byte }

// setRing puts two buffers into the ring of a writer, as a process leaves them that is killed.
func setRing(t *testing.T, w *Writer, buffers ...ringContent) {
	t.Helper()
	f, err := w.MakeRing(ringBytes)
	require.NoError(t, err)
	for i, content := range buffers {
		require.NoError(t, file.WriteFull(f, content.bytes, int64(RingHeadBytes+i*ringBytes)))
		marks := RingHeadBytes + 2*ringBytes + i*ringBytes/MarkedBytes
		require.NoError(t, file.WriteFull(f, content.marks, int64(marks)))
	}
	require.NoError(t, f.Close())
}

// ringOf is a buffer in use whose first record has a number.
func ringOf(first uint64, groups ...put) ringContent {
	made := ringContent{make([]byte, FrameHeadBytes), make([]byte, ringBytes/MarkedBytes)}
	copy(made.bytes, bufferMagic)
	binary.LittleEndian.PutUint64(made.bytes[32:], first)
	for _, group := range groups {
		if at := len(made.bytes); group.complete {
			made.marks[at/MarkedBytes] = byte(1 + at%MarkedBytes/8)
		}
		made.bytes = append(made.bytes, group.bytes...)
	}
	return made
}

func TestWhatAKilledProcessLeftInItsRing(t *testing.T) {
	hole, word := put{bytes: make([]byte, 160)}, put{bytes: make([]byte, 8)}
	for name, c := range map[string]struct {
		buffers []ringContent
		last    uint64 // of the runs that are there, from 1 on
	}{
		"nothing":                 {[]ringContent{ringOf(4)}, 3},
		"records":                 {[]ringContent{ringOf(4, group(run(4)), group(run(5)))}, 5},
		"both buffers":            {[]ringContent{ringOf(5, group(run(5))), ringOf(4, group(run(4)))}, 5},
		"one is written":          {[]ringContent{ringOf(2, group(run(2)), group(run(3))), ringOf(4, group(run(4)))}, 4},
		"both are written":        {[]ringContent{ringOf(3, group(run(3))), ringOf(2, group(run(2)))}, 3},
		"a hole":                  {[]ringContent{ringOf(4, hole, group(run(4)), word, group(run(5)), hole)}, 5},
		"a buffer of holes":       {[]ringContent{ringOf(4, hole), ringOf(6, group(run(4)))}, 4},
		"a call in the middle":    {[]ringContent{ringOf(4, group(run(4)), incomplete(run(90)), group(run(5)))}, 5},
		"a group in the middle":   {[]ringContent{ringOf(4, incomplete(run(90), run(91)), group(run(4)))}, 4},
		"a group's head alone":    {[]ringContent{ringOf(4, groupHead(), hole, group(run(4)))}, 4},
		"of what never counted":   {[]ringContent{ringOf(9, group(run(9)))}, 3},
		"bytes of anything":       {[]ringContent{ringOf(4, group(run(4)), put{bytes: Words(1<<40 - 1)}, group(run(5)))}, 5},
		"records of the last use": {[]ringContent{ringOf(4, put{bytes: group(run(2)).bytes}, group(run(4)))}, 4},
		"a frame that is torn":    {[]ringContent{torn(ringOf(4, group(run(4))))}, 4},
		"not yet in use":          {nil, 3},
		"the second is not begun": {[]ringContent{ringOf(4, group(run(4))), {}}, 4},
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
func incomplete(records ...Record) put {
	g := group(records...)
	clear(g.bytes[len(g.bytes)-9:])
	return put{bytes: g.bytes}
}

// groupHead is a group of which only the first word was stored.
func groupHead() put {
	g := group(run(1), run(2)).bytes[:48]
	clear(g[8:])
	return put{bytes: g}
}

// torn is a buffer whose head is a frame's, which was being written.
func torn(buffer ringContent) ringContent {
	copy(buffer.bytes, frameMagic)
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
		setRing(t, w, ringOf(3, put{last, true}))
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
		damaged := ringContent{slices.Clone(content.bytes), slices.Clone(content.marks)}
		for range 1 + random.IntN(4) {
			part := damaged.bytes
			if random.IntN(4) == 0 {
				part = damaged.marks[:len(damaged.bytes)/MarkedBytes+2]
			}
			part[random.IntN(len(part))] ^= 1 << random.IntN(8)
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
	f, err := w.MakeRing(ringBytes)
	require.NoError(t, err)
	require.NoError(t, file.WriteFull(f, Words(1<<40), 16))
	_, err = Open(disk.Kill(), directory)
	assert.Equal(t, status.Corrupt, code(err), "%v", err)
	for _, version := range []byte{ringVersion - 1, ringVersion + 1} {
		require.NoError(t, file.WriteFull(f, []byte{version}, 8))
		_, err = Open(disk.Kill(), directory)
		assert.Equal(t, status.Format, code(err), "of version %d: %v", version, err)
	}
}

func TestMarksThatCannotBe(t *testing.T) {
	whole := ringOf(4, group(run(4), run(5)), group(run(6)))
	for name, lie := range map[string]func(c *ringContent){
		"in the head":               func(c *ringContent) { c.marks[1] = 4 },
		"of no word":                func(c *ringContent) { c.marks[2] = MarkedBytes/8 + 1 },
		"within a group":            func(c *ringContent) { c.marks[3] = 1 },
		"where no record has space": func(c *ringContent) { c.marks[ringBytes/MarkedBytes-1] = 1 },
		"of nothing":                func(c *ringContent) { c.marks[ringBytes/MarkedBytes-2] = 1 },
		"of a group without end":    func(c *ringContent) { copy(c.bytes[FrameHeadBytes+recordHeadBytes:], Words(1<<63)) },
		"of a length below a head":  func(c *ringContent) { c.bytes[FrameHeadBytes] = recordHeadBytes - 1 },
		"of a group beyond the end": func(c *ringContent) { copy(c.bytes[FrameHeadBytes:], Words(ringBytes)) },
	} {
		t.Run(name, func(t *testing.T) {
			disk := filetest.NewDisk()
			w := open(t, disk, Options{})
			writeRuns(t, w, 3)
			c := ringContent{slices.Clone(whole.bytes), slices.Clone(whole.marks)}
			lie(&c)
			setRing(t, w, c)
			_, err := Open(disk.Kill(), directory)
			assert.Equal(t, status.Corrupt, code(err), "%v", err)
		})
	}
}
