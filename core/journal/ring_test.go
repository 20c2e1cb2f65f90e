package journal

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"libmmsb/core/file"
	"libmmsb/core/file/filetest"
	"libmmsb/core/lineage"
	"libmmsb/core/status"
)

// showRing puts buffers into the ring of a writer that lives, and says which file it is.
func showRing(t *testing.T, w *Writer, buffers ...ringContent) {
	t.Helper()
	setRing(t, w, buffers...)
	path := filepath.Join(directory, ringName)
	info, err := w.fs.Stat(path)
	require.NoError(t, err)
	says := binary.LittleEndian.AppendUint64(nil, info.Device)
	changeRing(t, w.fs, ringIdentityAt, binary.LittleEndian.AppendUint64(says, info.Inode))
}

func changeRing(t *testing.T, fs file.FS, at int64, to []byte) {
	t.Helper()
	f, err := fs.Open(filepath.Join(directory, ringName), unix.O_RDWR, 0)
	require.NoError(t, err)
	require.NoError(t, file.WriteFull(f, to, at))
	require.NoError(t, f.Close())
}

// putRing changes a buffer of a ring that is there.
func putRing(t *testing.T, w *Writer, buffer int, content ringContent) {
	t.Helper()
	changeRing(t, w.fs, int64(RingHeadBytes+buffer*ringBytes), content.bytes)
	changeRing(t, w.fs, int64(RingHeadBytes+2*ringBytes+buffer*ringBytes/MarkedBytes), content.marks)
}

// pollAll polls until nothing comes any more.
func pollAll(t *testing.T, tail *Tail, records *followed) {
	t.Helper()
	for range 20 {
		grown, err := tail.Poll(records.take)
		require.NoError(t, err)
		if !grown {
			return
		}
	}
	require.Fail(t, "it has no end")
}

// sealed is a buffer that is being written: its head has become that of the frame.
func sealed(content ringContent, count uint32) ringContent {
	copy(content.bytes, frameMagic)
	binary.LittleEndian.PutUint32(content.bytes[12:], count)
	return content
}

// Three records are in the segments. What a tail gives of a ring is what the next writer would find there under the same numbers.
func TestATailReadsTheRing(t *testing.T) {
	hole := put{bytes: make([]byte, 160)}
	great := put{run(99).encode(More), true}
	endless := slices.Concat(run(4).encode(More), run(5).encode(More))
	endless = append(Record{Kind: Group}.wrap(More, Words(uint64(len(endless)))), endless...)
	before := ringOf(4, group(run(4)), group(run(5)))
	written := ringOf(2, group(run(2)), group(run(3)))
	cases := map[string]struct {
		buffers []ringContent
		last    uint64
	}{
		"nothing":                  {[]ringContent{ringOf(4)}, 3},
		"records":                  {[]ringContent{ringOf(4, group(run(4)), group(run(5)))}, 5},
		"a group":                  {[]ringContent{ringOf(4, group(run(4), run(5)))}, 6},
		"both buffers":             {[]ringContent{ringOf(6, group(run(6))), ringOf(4, group(run(4)), group(run(5)))}, 6},
		"one is being written":     {[]ringContent{sealed(before, 2), ringOf(6, group(run(6)))}, 6},
		"one is written":           {[]ringContent{sealed(written, 2), ringOf(4, group(run(4)))}, 4},
		"one is cleared":           {[]ringContent{{}, ringOf(4, group(run(4)))}, 4},
		"within a buffer":          {[]ringContent{ringOf(2, group(run(2)), group(run(3)), group(run(4)))}, 4},
		"a hole":                   {[]ringContent{ringOf(4, group(run(4)), hole, group(run(5)))}, 4},
		"a hole at the end":        {[]ringContent{ringOf(2, group(run(2)), group(run(3)), hole), ringOf(5, group(run(5)))}, 3},
		"a hole before, seen late": {[]ringContent{ringOf(2, group(run(2)), hole, group(run(3))), ringOf(4, group(run(4)))}, 3},
		"too far":                  {[]ringContent{ringOf(5, group(run(5)))}, 3},
		"of a group without end":   {[]ringContent{ringOf(4, great)}, 3},
		"a group that goes on":     {[]ringContent{ringOf(4, put{endless, true})}, 3},
		"behind a great group":     {[]ringContent{ringOf(2, great, group(run(3)), group(run(4)))}, 4},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			disk := filetest.NewDisk()
			w := open(t, disk, Options{})
			writeRuns(t, w, 3)
			showRing(t, w, c.buffers...)
			tail, records := follow(t, disk, w.Lineage().At(0))
			pollAll(t, tail, records)
			require.Equal(t, c.last, tail.Last())
			if name != "a group" { // whose head is a record, too
				requireRuns(t, records.all, 1, c.last)
			}
		})
	}
}

// Rings that are not of a writer on this system, or cannot be one, are passed over: all comes from the segments.
func TestARingThatATailDoesNotRead(t *testing.T) {
	for name, at := range map[string]struct {
		offset int64
		bytes  []byte
	}{
		"of another system":  {40, []byte("0")},
		"of another lineage": {24, []byte("0")},
		"of another version": {8, []byte{ringVersion + 1}},
		"of another file":    {ringIdentityAt + 8, []byte{0xff, 0xff}},
		"on another device":  {ringIdentityAt, []byte{0xff, 0xff}},
		"shown to nobody":    {ringIdentityAt, make([]byte, 16)},
		"no ring":            {0, []byte("MMSBRONG")},
		"too long a buffer":  {16, Words(MaximumFrame + unitBytes)},
		"a long buffer":      {16, Words(2 * ringBytes)},
		"an empty buffer":    {16, Words(0)},
		"an odd buffer":      {16, Words(ringBytes - 8)},
		"no end of a buffer": {16, Words(1 << 63)},
	} {
		t.Run(name, func(t *testing.T) {
			disk := filetest.NewDisk()
			w := open(t, disk, Options{})
			writeRuns(t, w, 3)
			showRing(t, w, ringOf(4, group(run(90))))
			changeRing(t, disk, at.offset, at.bytes)
			tail, records := follow(t, disk, w.Lineage().At(0))
			pollAll(t, tail, records)
			requireRuns(t, records.all, 1, 3)
			writeRuns(t, w, 5)
			pollAll(t, tail, records)
			requireRuns(t, records.all, 1, 5)
		})
	}
}

// forbidden does not let the ring be opened.
type forbidden struct{ file.FS }

func (f forbidden) Open(path string, flags int, mode os.FileMode) (file.File, error) {
	if filepath.Base(path) == ringName {
		return nil, syscall.EACCES
	}
	return f.FS.Open(path, flags, mode)
}

func TestATailMayNotReadTheRing(t *testing.T) {
	disk := filetest.NewDisk()
	w := open(t, disk, Options{})
	showRing(t, w, ringOf(1, group(run(90))))
	tail, records := follow(t, forbidden{disk}, w.Lineage().At(0))
	writeRuns(t, w, 3)
	pollAll(t, tail, records)
	requireRuns(t, records.all, 1, 3)
}

// Each record comes once, whether the ring has it, the segments, or both, and whether the writer goes and another comes.
func TestATailGoesFromTheRingToTheSegmentsAndBack(t *testing.T) {
	disk := filetest.NewDisk()
	w := open(t, disk, Options{SegmentBytes: 2 * unitBytes})
	writeRuns(t, w, 3)
	showRing(t, w, ringOf(4, group(run(4)), group(run(5))))
	tail, records := follow(t, disk, w.Lineage().At(0))
	pollAll(t, tail, records)
	requireRuns(t, records.all, 1, 5)

	require.NoError(t, write(w, run(4), run(5), run(6), run(7))) // in one frame, and then in several segments
	writeRuns(t, w, 12)
	putRing(t, w, 0, ringOf(11, group(run(11)), group(run(12)), group(run(13))))
	pollAll(t, tail, records)
	requireRuns(t, records.all, 1, 13)

	putRing(t, w, 1, ringOf(14, group(run(14)))) // the next buffer, and the first one anew
	pollAll(t, tail, records)
	requireRuns(t, records.all, 1, 14)
	putRing(t, w, 0, ringOf(15, group(run(15))))
	pollAll(t, tail, records)
	requireRuns(t, records.all, 1, 15)

	writeRuns(t, w, 16) // too late for the ring, which has nothing yet
	putRing(t, w, 0, ringOf(17))
	pollAll(t, tail, records)
	requireRuns(t, records.all, 1, 16)

	great := put{run(17).encode(More), true} // a group that the segments have first, and then the ring again
	putRing(t, w, 0, ringOf(17, great))
	pollAll(t, tail, records)
	requireRuns(t, records.all, 1, 16)
	require.NoError(t, writeGroup(w, run(17), run(18)))
	putRing(t, w, 1, ringOf(18, put{run(18).encode(0), true}, group(run(19))))
	pollAll(t, tail, records)
	requireRuns(t, records.all, 1, 19)

	writeRuns(t, w, 20) // too late, and the ring has other records
	putRing(t, w, 0, ringOf(19, group(run(19)), group(run(20))))
	putRing(t, w, 1, ringOf(21, group(run(21))))
	pollAll(t, tail, records)
	requireRuns(t, records.all, 1, 21)

	writeRuns(t, w, 22)
	require.NoError(t, w.Close())
	pollAll(t, tail, records)
	requireRuns(t, records.all, 1, 22)
	w = open(t, disk, Options{})
	showRing(t, w, ringOf(23, group(run(23))))
	pollAll(t, tail, records)
	requireRuns(t, records.all, 1, 23)
}

// A tail that has what the disk has lost says so: as soon as somebody has taken the ring away, and when other records have these
// numbers.
func TestATailKnowsThatTheJournalHasLostRecords(t *testing.T) {
	for name, then := range map[string]func(t *testing.T, w *Writer){
		"no others":    func(*testing.T, *Writer) {},
		"fewer others": func(t *testing.T, w *Writer) { require.NoError(t, write(w, run(90))) },
		"others":       func(t *testing.T, w *Writer) { require.NoError(t, write(w, run(90), run(91), run(92), run(93))) },
		"others, a ring": func(t *testing.T, w *Writer) {
			showRing(t, w, ringOf(4, group(run(90)), group(run(91)), group(run(92))))
		},
		"a ring behind": func(t *testing.T, w *Writer) {
			require.NoError(t, write(w, run(90), run(91)))
			showRing(t, w, ringOf(6, group(run(92))))
		},
	} {
		t.Run(name, func(t *testing.T) {
			disk := filetest.NewDisk()
			w := open(t, disk, Options{})
			writeRuns(t, w, 3)
			showRing(t, w, ringOf(4, group(run(4)), group(run(5))))
			tail, records := follow(t, disk, w.Lineage().At(0))
			pollAll(t, tail, records)
			requireRuns(t, records.all, 1, 5)
			require.NoError(t, removeRing(disk, directory))
			then(t, w)
			var err error
			for range 5 {
				if _, err = tail.Poll(records.take); err != nil {
					break
				}
			}
			require.Equal(t, status.Mismatch, code(err), "%v", err)
			requireRuns(t, records.all, 1, 5)
		})
	}
}

// So does one that reads segments alone, of another machine that had a power cut.
func TestATailKnowsThatASegmentWasCut(t *testing.T) {
	disk := filetest.NewDisk()
	w := open(t, disk, Options{})
	writeRuns(t, w, 3)
	tail, records := follow(t, disk, w.Lineage().At(0))
	pollAll(t, tail, records)
	f, err := disk.Open(filepath.Join(directory, w.name), unix.O_RDWR, 0)
	require.NoError(t, err)
	require.NoError(t, f.Truncate(2*unitBytes))
	_, err = tail.Poll(records.take)
	require.Equal(t, status.Mismatch, code(err), "%v", err)
}

// A buffer is given to other records at every moment of a read, after what it has was written. Each record comes once, as it was.
func TestABufferIsTakenWhileItIsRead(t *testing.T) {
	for reads := 1; reads < 30; reads++ {
		disk := filetest.NewDisk()
		w := open(t, disk, Options{})
		writeRuns(t, w, 2)
		showRing(t, w, ringOf(3, group(run(3)), group(run(4))), ringContent{})
		left := reads
		fs := &meantime{FS: disk, of: func(name string) bool { return name == ringName }}
		fs.before = func(int64) {
			if left--; left != 0 {
				return
			}
			require.NoError(t, write(w, run(3), run(4)))
			putRing(t, w, 1, ringOf(5, group(run(5)), group(run(6)), group(run(7))))
			writeRuns(t, w, 7)
			putRing(t, w, 0, ringOf(8, group(run(8)), group(run(9))))
		}
		tail, records := follow(t, fs, w.Lineage().At(0))
		pollAll(t, tail, records)
		if left > 0 { // so few were needed
			left = 1
		}
		pollAll(t, tail, records)
		pollAll(t, tail, records)
		requireRuns(t, records.all, 1, 9)
	}
}

// cached remembers whether segments are written past the page cache.
type cached struct {
	file.FS
	direct []bool
}

func (c *cached) Open(path string, flags int, mode os.FileMode) (file.File, error) {
	f, err := c.FS.Open(path, flags, mode)
	if err == nil {
		f = cachedFile{f, c}
	}
	return f, err
}

type cachedFile struct {
	file.File
	in *cached
}

func (f cachedFile) SetDirect(direct bool) error {
	f.in.direct = append(f.in.direct, direct)
	return f.File.SetDirect(direct)
}

// Segments that begin while somebody reads the ring are written where who is too late for the ring finds them without the disk.
func TestSegmentsThatAreFollowed(t *testing.T) {
	disk := filetest.NewDisk()
	fs := &cached{FS: disk}
	w := open(t, fs, Options{SegmentBytes: 2 * unitBytes})
	writeRuns(t, w, 3)
	showRing(t, w, ringOf(4, group(run(4))))
	before := len(fs.direct)
	tail, records := follow(t, disk, w.Lineage().At(0))
	pollAll(t, tail, records)
	writeRuns(t, w, 5)
	require.Equal(t, []bool{false, false}, fs.direct[before:])
	tail.Close()
	writeRuns(t, w, 7)
	require.Equal(t, []bool{false, false, true, true}, fs.direct[before:])
}

// A file that lies gives no record that does not end where it says, and the segments are read on.
func TestRingsThatLie(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 0))
	whole := ringOf(4, group(run(4), run(5)), group(run(6)), group(run(7)))
	for range 3000 {
		disk := filetest.NewDisk()
		w := open(t, disk, Options{})
		writeRuns(t, w, 3)
		lie := ringContent{bytes.Clone(whole.bytes), slices.Clone(whole.marks)}
		for range 1 + random.IntN(4) {
			if at := random.IntN(len(lie.bytes)); random.IntN(2) == 0 {
				lie.bytes[at] = byte(random.Uint32())
			} else {
				lie.marks[random.IntN(16)] = byte(random.IntN(8))
			}
		}
		showRing(t, w, lie, ringContent{})
		tail, records := follow(t, disk, lineage.Point{Lineage: w.Lineage().ID})
		_, err := tail.Poll(func(s *Part) error { return records.take(s) })
		for err == nil && tail.Last() < 3 {
			_, err = tail.Poll(records.take)
		}
		_, _ = tail.Poll(records.take)
		requireRuns(t, records.all[:3], 1, 3)
	}
}

func TestARingIsShownWhereItCanBeRead(t *testing.T) {
	directory := t.TempDir()
	w := &Writer{fs: file.OS{}, directory: directory}
	f, err := w.MakeRing(ringBytes)
	require.NoError(t, err)
	defer func() { _ = f.Close() }()
	mapping, err := unix.Mmap(f.Descriptor(), 0, RingFileBytes(ringBytes), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	require.NoError(t, err)
	defer func() { _ = unix.Munmap(mapping) }()
	elsewhere := make([]byte, RingHeadBytes) // memory that is not the file's
	ShowRing(f, elsewhere)
	require.Equal(t, make([]byte, RingHeadBytes), elsewhere)
	ShowRing(f, mapping)
	r := ringTail{fs: file.OS{}, path: filepath.Join(directory, ringName)}
	defer r.close()
	require.True(t, r.look(w.lineage.ID))
}
