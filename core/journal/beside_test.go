package journal

import (
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"libmmsb/core/file"
	"libmmsb/core/file/filetest"
	"libmmsb/core/lineage"
	"libmmsb/core/status"
)

// meantime lets something happen before or after reads of files of some names.
type meantime struct {
	file.FS
	of            func(name string) bool
	before, after func(offset int64)
}

func (m *meantime) Open(path string, flags int, mode os.FileMode) (file.File, error) {
	f, err := m.FS.Open(path, flags, mode)
	if err == nil && m.of(filepath.Base(path)) {
		f = meantimeFile{f, m}
	}
	return f, err
}

type meantimeFile struct {
	file.File
	in *meantime
}

func (f meantimeFile) Pread(p []byte, offset int64) (int, error) {
	if f.in.before != nil {
		f.in.before(offset)
	}
	n, err := f.File.Pread(p, offset)
	if f.in.after != nil {
		f.in.after(offset)
	}
	return n, err
}

// besideFrames is something that happens once, where a segment's frames are read.
func besideFrames(what func()) func(offset int64) {
	what = sync.OnceFunc(what)
	return func(offset int64) {
		if offset >= unitBytes {
			what()
		}
	}
}

// writeSynced writes runs up to a number, each durable before the next one.
func writeSynced(t *testing.T, w *Writer, to uint64) {
	t.Helper()
	for w.Next() <= to {
		writeRuns(t, w, w.Next())
		_, err := w.Sync()
		require.NoError(t, err)
	}
}

// A writer whose calls wait for the disk has zeros behind its last frame, which go when it ends.
func TestASegmentBecomesShorterWhileItIsRead(t *testing.T) {
	for _, frames := range []uint64{3, 300} {
		disk := filetest.NewDisk()
		w := open(t, disk, Options{Durability: EachCall})
		writeSynced(t, w, frames)
		fs := &meantime{FS: disk, of: IsSegment, before: besideFrames(func() { require.NoError(t, w.Close()) })}
		records, _, err := walkAll(fs, 1)
		require.NoError(t, err)
		requireRuns(t, records, 1, frames)
	}
}

// What is written between two looks is no damage.
func TestFramesAreWrittenWhileTheEndIsLookedAt(t *testing.T) {
	disk := filetest.NewDisk()
	w := open(t, disk, Options{Durability: EachCall})
	writeSynced(t, w, 3)
	fs := &meantime{FS: disk, of: IsSegment}
	fs.after = besideFrames(func() { writeSynced(t, w, 6) })
	records, last, err := replayAll(fs, 0, Until{})
	require.NoError(t, err)
	requireRuns(t, records, 1, last)

	fs.after = besideFrames(func() { writeSynced(t, w, 9) })
	j, err := Open(fs, directory)
	require.NoError(t, err)
	require.GreaterOrEqual(t, j.Info().Last, uint64(6))

	tail, given := follow(t, fs, w.Lineage().At(0))
	grown, err := tail.Poll(given.take)
	require.NoError(t, err)
	require.True(t, grown)
	requireRuns(t, given.all, 1, 9)
	for _, to := range []uint64{12, 15} { // the second time behind a look
		tail.torn = time.Now().Add(-2 * tornPatience)
		fs.after = besideFrames(func() { writeSynced(t, w, to) })
		for tail.Last() < to {
			_, err := tail.Poll(given.take)
			require.NoError(t, err)
		}
	}
	requireRuns(t, given.all, 1, 15)
	require.NoError(t, w.Close())
}

// flip changes a byte of a segment, or changes it back.
func flip(t *testing.T, fs file.FS, name string, offset int64) {
	t.Helper()
	f, err := fs.Open(filepath.Join(directory, name), unix.O_RDWR, 0)
	require.NoError(t, err)
	at := make([]byte, 1)
	_, err = file.ReadFull(f, at, offset)
	require.NoError(t, err)
	at[0] ^= 1
	require.NoError(t, file.WriteFull(f, at, offset))
	require.NoError(t, f.Close())
}

// A frame is damaged that is still not whole when one behind it says that it was durable.
func TestATailFindsDamage(t *testing.T) {
	disk := filetest.NewDisk()
	w := open(t, disk, Options{})
	writeSynced(t, w, 3)
	flip(t, disk, firstName, 2*unitBytes+100)
	tail, records := follow(t, disk, w.Lineage().At(0))
	_, err := tail.Poll(records.take)
	require.NoError(t, err)
	requireRuns(t, records.all, 1, 1)
	tail.torn = time.Now().Add(-2 * tornPatience)
	_, err = tail.Poll(records.take)
	require.ErrorContains(t, err, "the frame at offset 8192, from record 2 on, is damaged")
	flip(t, disk, firstName, 2*unitBytes+100)
	_, err = tail.Poll(records.take)
	require.NoError(t, err, "it goes on where it was")
	requireRuns(t, records.all, 1, 3)
}

// The rest of a group whose end was found is read, too, though it was not there when its first frame was read.
func TestAGroupIsCompletedWhileItIsRead(t *testing.T) {
	disk := filetest.NewDisk()
	w := open(t, disk, Options{Durability: EachCall})
	writeSynced(t, w, 3)
	groupFrame(t, w, 0, false)
	fs := &meantime{FS: disk, of: IsSegment, after: besideFrames(func() { groupFrame(t, w, 0, true) })}
	records, last, err := replayAll(fs, 0, Until{})
	require.NoError(t, err)
	require.Equal(t, uint64(5), last)
	require.Len(t, records, 5)
}

// groupFrame writes a record of so many bytes in a frame of a group.
func groupFrame(t *testing.T, w *Writer, length int, ends bool) {
	t.Helper()
	flags := uint8(More)
	if ends {
		flags = 0
	}
	r := run(w.Next())
	r.Bytes = append(r.Bytes, make([]byte, length)...)
	whole, used := buffer(r.encode(flags))
	require.NoError(t, w.Write(whole, used, w.Next(), 1, ends))
}

func TestATailGivesAGroupThatIsLongerThanAFrame(t *testing.T) {
	disk := filetest.NewDisk()
	w := open(t, disk, Options{})
	tail, records := follow(t, disk, w.Lineage().At(0))
	writeRuns(t, w, 1)
	for range 3 {
		groupFrame(t, w, 3<<20, false)
		_, err := tail.Poll(records.take)
		require.NoError(t, err)
		require.Len(t, records.all, 1, "the group is not whole")
	}
	groupFrame(t, w, 3<<20, true)
	for tail.Last() < 5 {
		grown, err := tail.Poll(records.take)
		require.NoError(t, err)
		require.True(t, grown)
	}
	require.Len(t, records.all, 5)
}

// A state can lie in the middle of a record that came in pieces.
func TestATailBeginsWithinPieces(t *testing.T) {
	disk := filetest.NewDisk()
	w := open(t, disk, Options{})
	writeRuns(t, w, 2)
	bytes := []byte("a body of two pieces")
	for i, piece := range [][]byte{bytes[:8], bytes[8:]} {
		r := run(3)
		r.Bytes = piece
		flags := uint8(More | Piece)
		encoded := r.encode(flags)
		if i > 0 {
			encoded = Record{Kind: Run, Page: r.Page, Version: r.Version, Epoch: r.Epoch, Time: r.Time}.wrap(0, piece)
		}
		whole, used := buffer(encoded)
		require.NoError(t, w.Write(whole, used, w.Next(), 1, i > 0))
	}
	tail, records := follow(t, disk, w.Lineage().At(3))
	writeRuns(t, w, 7)
	for range 5 {
		_, err := tail.Poll(records.take)
		require.NoError(t, err)
	}
	require.Equal(t, uint64(7), tail.Last())
	require.Len(t, records.all, 4, "each once")
	require.Equal(t, bytes, records.all[0].Bytes)
}

// What was dropped before it was read is missed.
func TestATailMissesASegment(t *testing.T) {
	disk := filetest.NewDisk()
	w := open(t, disk, Options{SegmentBytes: 2 * unitBytes})
	writeRuns(t, w, 1)
	tail, records := follow(t, disk, w.Lineage().At(0))
	_, err := tail.Poll(records.take)
	require.NoError(t, err)
	requireRuns(t, records.all, 1, 1)
	writeRuns(t, w, 3)
	require.NoError(t, disk.Remove(filepath.Join(directory, place{0, 2}.name())))
	_, err = tail.Poll(records.take)
	require.Equal(t, status.Mismatch, code(err), "%v", err)
	requireRuns(t, records.all, 1, 1)
}

// followed are the records that a tail has given.
type followed struct{ all []Record }

func (r *followed) take(s *Part) error {
	for len(s.Records) > 0 {
		record, err := s.Next()
		if err != nil {
			return err
		}
		if record != nil {
			r.all = append(r.all, copyOf(record))
		}
	}
	return nil
}

func follow(t *testing.T, fs file.FS, from lineage.Point) (*Tail, *followed) {
	t.Helper()
	tail, err := OpenTail(fs, directory, from)
	require.NoError(t, err)
	t.Cleanup(tail.Close)
	return tail, new(followed)
}

// Readers look at a ring at the same time: none takes another for the writer.
func TestReadersShareTheRing(t *testing.T) {
	disk := filetest.NewDisk()
	w := open(t, disk, Options{})
	writeRuns(t, w, 3)
	setRing(t, w, ringOf(4, group(run(4))), ringContent{})
	killed := disk.Kill()
	lock, err := killed.Open(filepath.Join(directory, lockName), unix.O_RDWR, 0)
	require.NoError(t, err)
	require.NoError(t, lock.LockShared())
	records, _, err := readAll(killed, 1)
	require.NoError(t, err)
	requireRuns(t, records, 1, 4)
	who, err := WriterOf(killed, directory)
	require.NoError(t, err)
	assert.Empty(t, who)
	require.NoError(t, lock.Lock())
	records, _, err = readAll(killed, 1)
	require.NoError(t, err)
	requireRuns(t, records, 1, 3)
	who, err = WriterOf(killed, directory)
	require.NoError(t, err)
	assert.NotEmpty(t, who)
}
