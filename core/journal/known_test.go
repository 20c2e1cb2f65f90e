package journal

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"libmmsb/core/file"
	"libmmsb/core/file/filetest"
)

// replayed is what the next writer knows from a replay.
func replayed(t *testing.T, fs file.FS, after uint64) *Known {
	t.Helper()
	r, err := OpenReplay(fs, directory)
	require.NoError(t, err)
	_, err = r.Run(after, Until{}, func(*Part) error { return nil })
	require.NoError(t, err)
	return r.Known()
}

// goOn writes the next record, and sees that all are there.
func goOn(t *testing.T, w *Writer) {
	t.Helper()
	last := w.Next()
	writeRuns(t, w, last)
	require.NoError(t, w.Close())
	records, _, err := readAll(w.fs, 1)
	require.NoError(t, err)
	requireRuns(t, records, 1, last)
}

// A writer that knows from a replay how far the journal was read goes on where it would without: whatever has happened since.
func TestAWriterGoesOnBehindAReplay(t *testing.T) {
	damage := func(t *testing.T, disk *filetest.Disk, change func(f file.File, size int64)) *filetest.Disk {
		changed := disk.Kill()
		f, err := changed.Open(directory+"/"+firstName, unix.O_RDWR, 0)
		require.NoError(t, err)
		info, err := f.Stat()
		require.NoError(t, err)
		change(f, info.Size)
		require.NoError(t, f.Close())
		return changed
	}
	type since = func(t *testing.T, w *Writer, disk *filetest.Disk) *filetest.Disk
	goesOn := func(t *testing.T, w *Writer, disk *filetest.Disk) *filetest.Disk {
		writeRuns(t, w, 12)
		return disk
	}
	for name, c := range map[string]struct {
		options Options
		after   uint64
		since   since // what happens after the replay
	}{
		"nothing":       {},
		"all was saved": {after: 8},
		"it was closed": {since: func(t *testing.T, w *Writer, d *filetest.Disk) *filetest.Disk {
			require.NoError(t, w.Close())
			return d
		}},
		"several segments":    {options: Options{SegmentBytes: 8192}},
		"it has gone on":      {since: goesOn},
		"in the next segment": {options: Options{SegmentBytes: 8 * unitBytes}, since: goesOn},
		"records in a ring": {since: func(t *testing.T, w *Writer, d *filetest.Disk) *filetest.Disk {
			setRing(t, w, ringOf(9, group(run(9)), group(run(10))))
			return d
		}},
		"a group that is torn": {since: func(t *testing.T, w *Writer, d *filetest.Disk) *filetest.Disk {
			whole, used := buffer(run(9).encode(More))
			require.NoError(t, w.Write(whole, used, 9, 1, false))
			return d
		}},
		"the last frame is gone": {since: func(t *testing.T, w *Writer, d *filetest.Disk) *filetest.Disk {
			return damage(t, d, func(f file.File, size int64) { require.NoError(t, f.Truncate(size-unitBytes)) })
		}},
		"the last frame is torn": {since: func(t *testing.T, w *Writer, d *filetest.Disk) *filetest.Disk {
			return damage(t, d, func(f file.File, size int64) {
				require.NoError(t, file.WriteFull(f, []byte{1}, size-unitBytes+90))
			})
		}},
	} {
		t.Run(name, func(t *testing.T) {
			disk := filetest.NewDisk()
			w := open(t, disk, c.options)
			for number := range uint64(8) {
				writeRuns(t, w, number+1)
			}
			known := replayed(t, disk, c.after)
			require.NotNil(t, known)
			if c.since != nil {
				disk = c.since(t, w, disk)
			}
			var next [2]uint64
			for i, known := range []*Known{nil, known} {
				killed := disk.Kill()
				again := open(t, killed, Options{Known: known})
				next[i] = again.Next()
				goOn(t, again)
			}
			assert.Equal(t, next[0], next[1])
		})
	}
}

// Two copies of a directory go on differently, so that what was read of one is not in the other.
func TestAWriterKnowsAnotherCopy(t *testing.T) {
	disk := filetest.NewDisk()
	w := open(t, disk, Options{})
	writeRuns(t, w, 3)
	copied := disk.Kill()
	for number := uint64(4); number < 10; number++ {
		writeRuns(t, w, number)
	}
	other := open(t, copied, Options{})
	require.NoError(t, write(other, run(4), run(5)))
	require.NoError(t, write(other, run(6), run(7), run(8)))
	writeRuns(t, other, 20)
	copied = copied.Kill()
	again := open(t, copied, Options{Known: replayed(t, disk, 0)})
	assert.Equal(t, uint64(21), again.Next())
	goOn(t, again)
}

// What a replay has read, the writer does not read again.
func TestAWriterReadsWhatAReplayHasNotRead(t *testing.T) {
	disk := filetest.NewDisk()
	w := open(t, disk, Options{})
	const frames = 3000 // of 4 KiB each: several reads
	for number := range uint64(frames) {
		writeRuns(t, w, number+1)
	}
	known := replayed(t, disk, 0)
	reads := func(known *Known) int {
		faulty := filetest.NewFaulty(disk.Kill())
		require.Equal(t, uint64(frames+1), open(t, faulty, Options{Known: known}).Next())
		return faulty.Count(filetest.Read)
	}
	assert.Less(t, reads(known), reads(nil))
}

func TestRotate(t *testing.T) {
	disk := filetest.NewDisk()
	firsts := func(fs file.FS) (firsts []uint64) {
		found, err := list(fs, directory)
		require.NoError(t, err)
		for _, at := range found {
			firsts = append(firsts, at.first)
		}
		return firsts
	}
	w := open(t, disk, Options{SegmentBytes: 16 * 2 * unitBytes})
	writeRuns(t, w, 2)
	w.Rotate(new(script))
	w.Rotate(new(script))
	assert.Equal(t, []uint64{1, 3}, firsts(disk))
	whole, used := buffer(run(3).encode(More))
	require.NoError(t, w.Write(whole, used, 3, 1, false))
	w.Rotate(new(script))
	assert.Equal(t, []uint64{1, 3}, firsts(disk), "a group goes on")
	require.NoError(t, write(w, run(4)))
	w.Rotate(new(script))
	require.NoError(t, w.Drop(2))
	assert.Equal(t, []uint64{3, 5}, firsts(disk))
	writeRuns(t, w, 5)
	require.NoError(t, w.Close())
	w.Rotate(new(script))
	records, _, err := readAll(disk, 3)
	require.NoError(t, err)
	requireRuns(t, records, 3, 5)

	empty := open(t, filetest.NewDisk(), Options{SegmentBytes: unitBytes})
	empty.Rotate(new(script))
	assert.Equal(t, []uint64{1}, firsts(empty.fs), "it has no records")

	short := open(t, filetest.NewDisk(), Options{})
	writeRuns(t, short, 3)
	short.Rotate(new(script))
	assert.Equal(t, []uint64{1}, firsts(short.fs), "it is short")
}

// Where there is no space for a new segment the old one goes on; what it is not sure of ends the writer.
func TestRotateFails(t *testing.T) {
	for kind, fails := range map[filetest.Kind]bool{filetest.Rename: false, filetest.Write: false, filetest.SyncDirectory: true} {
		t.Run(string(kind), func(t *testing.T) {
			begin := func(faulty *filetest.Faulty) *Writer {
				w := open(t, faulty, Options{SegmentBytes: 16 * 4 * unitBytes})
				writeRuns(t, w, 3)
				return w
			}
			before, disk := filetest.NewFaulty(filetest.NewDisk()), filetest.NewDisk()
			begin(before)
			faulty := filetest.NewFaulty(disk, filetest.Fault{Kind: kind, Nth: before.Count(kind) + 1, Errno: unix.ENOSPC})
			w := begin(faulty)
			w.Rotate(new(script))
			require.Equal(t, 1, faulty.Hits())
			err := write(w, run(4))
			assert.Equal(t, fails, err != nil, "%v", err)
			if err == nil {
				require.NoError(t, w.Close())
			} else {
				w.Release()
			}
			records, _, err := readAll(disk.Kill(), 1)
			require.NoError(t, err)
			requireRuns(t, records, 1, uint64(len(records)))
			names, err := disk.List(directory)
			require.NoError(t, err)
			for _, name := range names {
				assert.NotContains(t, name, unfinishedSuffix)
			}
		})
	}
}
