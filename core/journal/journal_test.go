package journal

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"libmmsb/core/file"
	"libmmsb/core/file/filetest"
	"libmmsb/core/lineage"
	"libmmsb/core/status"
)

const directory = "/journal"

var firstName = place{first: 1}.name()

// behind is a state at a position of a lineage of its own.
func behind(position uint64) State {
	line := lineage.New(lineage.Point{})
	return State{Names: []lineage.Point{line.At(position)}, GoesOn: line, Pages: 3}
}

func open(t *testing.T, fs file.FS, options Options) *Writer {
	t.Helper()
	w, err := NewWriter(fs, directory, options)
	require.NoError(t, err)
	return w
}

// write appends records as one frame, each a group of its own.
func write(w *Writer, records ...Record) error {
	var encoded [][]byte
	for _, r := range records {
		encoded = append(encoded, r.encode(0))
	}
	whole, used := buffer(encoded...)
	return w.Write(whole, used, w.Next(), uint32(len(records)), true)
}

// writeGroup appends frames of one record each, which together are a group.
func writeGroup(w *Writer, records ...Record) error {
	for i, r := range records {
		flags := uint8(More)
		if i == len(records)-1 {
			flags = 0
		}
		whole, used := buffer(r.encode(flags))
		if err := w.Write(whole, used, w.Next(), 1, flags == 0); err != nil {
			return err
		}
	}
	return nil
}

// run is a small record that says which one it is.
func run(number uint64) Record {
	return Record{Kind: Run, Page: 1 + number%5, Version: number, Epoch: number, Time: int64(number) * 10,
		Bytes: fmt.Appendf(nil, "record number %d", number)}
}

// copyOf is a record that outlives its buffer, without what the reader adds.
func copyOf(r *Record) Record {
	c := *r
	c.Sequence, c.Group, c.Last = 0, 0, false
	for _, b := range []*[]byte{&c.Bytes, &c.Mask, &c.Positions, &c.Source, &c.Intent, &c.Key, &c.Value} {
		*b = bytes.Clone(*b)
	}
	return c
}

// readAll is all records from first on, and the error that ended them: as a walk of the opened journal has them, and as a
// replay has.
func readAll(fs file.FS, first uint64) (records []Record, info Info, err error) {
	records, info, err = walkAll(fs, first)
	replayed, last, replayErr := replayAll(fs, first-1, Until{})
	switch {
	case code(err) != code(replayErr):
		err = status.Errorf(status.Internal, "a walk ends with %v, a replay with %v", err, replayErr)
	case err == nil && (len(records) != len(replayed) || last != max(info.Last, first-1)):
		err = status.Errorf(status.Internal, "a walk has %d records up to %d, a replay %d up to %d", len(records), info.Last,
			len(replayed), last)
	case err == nil && !assert.ObjectsAreEqual(records, replayed):
		err = status.Errorf(status.Internal, "a walk has other records than a replay")
	}
	return records, info, err
}

func walkAll(fs file.FS, first uint64) (records []Record, info Info, err error) {
	j, err := Open(fs, directory)
	if err != nil {
		return nil, Info{}, err
	}
	for record, err := range j.Records(first, math.MaxUint64) {
		if err != nil {
			return records, j.Info(), err
		}
		records = append(records, copyOf(record))
	}
	return records, j.Info(), nil
}

func replayAll(fs file.FS, after uint64, until Until) (records []Record, last uint64, err error) {
	r, err := OpenReplay(fs, directory)
	if err != nil {
		return nil, 0, err
	}
	last, err = r.Run(after, until, func(s *Part) error {
		for len(s.Records) > 0 {
			record, err := s.Next()
			if err != nil {
				return err
			}
			if record != nil {
				records = append(records, copyOf(record))
			}
		}
		return nil
	})
	return records, last, err
}

func requireRuns(t *testing.T, records []Record, from, to uint64) {
	t.Helper()
	require.Len(t, records, int(to-from+1))
	for i, record := range records {
		require.Equal(t, run(from+uint64(i)).Bytes, record.Bytes)
	}
}

func code(err error) status.Code { return status.CodeOf(err) }

func TestEveryKindComesBackAsItWas(t *testing.T) {
	disk := filetest.NewDisk()
	w := open(t, disk, Options{})
	require.NoError(t, write(w, examples()...))
	require.NoError(t, w.Close())

	records, info, err := readAll(disk, 1)
	require.NoError(t, err)
	require.Len(t, records, len(examples()))
	for i, want := range examples() {
		got := records[i]
		if want.Bytes == nil && len(got.Bytes) == 0 {
			got.Bytes = nil
		}
		for _, b := range []*[]byte{&got.Mask, &got.Positions, &got.Source, &got.Intent, &got.Value} {
			if len(*b) == 0 {
				*b = nil
			}
		}
		assert.Equal(t, want, got, "%v", want.Kind)
	}
	assert.Equal(t, Info{Lineage: w.Lineage(), Branches: 1, Segments: info.Segments, First: 1, Last: uint64(len(examples())),
		LastTime: 21001, End: 12288, Closed: true}, info)
	requireTimes(t, disk, 1, examples()[len(examples())-1].Time)
	assert.Len(t, info.Segments, 1)
}

// What this version wrote once must be read for ever. The file was written by TestEveryKindComesBackAsItWas's steps.
func TestAJournalOfVersion1IsRead(t *testing.T) {
	j, err := Open(file.OS{}, "testdata/version-1")
	require.NoError(t, err)
	assert.Zero(t, j.Info().Lineage, "it is older than lineages")
	assert.True(t, j.Info().Closed)
	next := 0
	for record, err := range j.Records(1, math.MaxUint64) {
		require.NoError(t, err)
		want := examples()[next]
		assert.Equal(t, want.encode(0), copyOf(record).encode(0), "%v", want.Kind)
		next++
	}
	assert.Equal(t, len(examples()), next)
}

func TestRecordsThatAreNotWhatTheySayAreRefused(t *testing.T) {
	long := func(r Record, body ...byte) []byte { return r.wrap(0, body) }
	page := Record{Kind: Delta, Page: 1}
	form := func(form uint16, parts ...[]byte) []byte {
		return Record{Kind: Delta, Page: 1, Form: form}.wrap(0, bytes.Join(parts, nil))
	}
	for name, record := range map[string][]byte{
		"no page":                       Record{Kind: Destroy}.encode(0),
		"a body too many":               long(Record{Kind: Destroy, Page: 1}, 1),
		"an offset cut short":           long(Record{Kind: Write, Page: 1}, 1, 2, 3),
		"a range past 2^64":             Record{Kind: Run, Page: 1, Offset: math.MaxUint64, Bytes: []byte{1, 2}}.encode(0),
		"no size":                       Record{Kind: Create, Page: 1}.encode(0),
		"a size of 0":                   Record{Kind: Resize, Page: 1}.encode(0),
		"a size of 2^44 + 1":            Record{Kind: Resize, Page: 1, Size: 1<<44 + 1}.encode(0),
		"no location":                   Record{Kind: Create, Page: 1, Size: 1, Location: 5}.encode(0),
		"a device below 0":              Record{Kind: Migrate, Page: 1, Location: 1, Device: -1}.encode(0),
		"no NUMA node":                  Record{Kind: Create, Page: 1, Size: 1, NUMANode: -2}.encode(0),
		"a version that no page has":    Record{Kind: Destroy, Page: 1, Version: 3 << 62}.encode(0),
		"contents shorter than a size":  Record{Kind: Adopt, Page: 1, Size: 4, Bytes: []byte{1}}.encode(0),
		"a place cut short":             long(Record{Kind: Migrate, Page: 1}, 1, 0, 0, 0),
		"a last word":                   long(Record{Kind: Migrate, Page: 1}, append(Words(0, 0)[:15], 1)...),
		"no page to copy":               Record{Kind: Clone, Page: 1}.encode(0),
		"no child":                      Record{Kind: DependencyAdd, Page: 1}.encode(0),
		"itself as its child":           Record{Kind: DependencyAdd, Page: 1, Other: 1}.encode(0),
		"no key":                        Record{Kind: MetadataSet, Page: 1, Value: []byte("v")}.encode(0),
		"a key past the end":            long(Record{Kind: MetadataSet, Page: 1}, 255, 255, 255, 255, 1, 0, 0, 0, 'k'),
		"no key to remove":              Record{Kind: MetadataRemove, Page: 1}.encode(0),
		"no form":                       form(0, Words(0)),
		"an unknown form":               form(9, Words(0)),
		"no count":                      page.wrap(0, nil),
		"a mask past the end":           form(DenseBits, Words(math.MaxUint64)),
		"a payload too short":           form(DenseBytes, Words(2), []byte{1, 1}, []byte{5}),
		"a payload of other bits":       form(SparseBits, Words(8), []byte{3}, []byte{5}),
		"offsets past the end":          form(Indexed, Words(1<<61), []byte("abc")),
		"a count past 2^64":             form(Runs, Words(1<<60)),
		"runs that add up past 2^64":    form(Runs, Words(2), Words(0, 1<<63, 0, 1<<63)),
		"a run past 2^64":               form(Runs, Words(1), Words(math.MaxUint64, 2), []byte("ab")),
		"an annotation of a write":      Record{Kind: Write, Page: 1, DeltaID: 1, Bytes: []byte("w")}.encode(0),
		"an annotation cut short":       Record{Kind: Run, Page: 1}.wrap(Annotated, []byte{1, 2, 3}),
		"a source past the end":         Record{Kind: Run, Page: 1}.wrap(Annotated, Words(1, 1, math.MaxUint32)),
		"a piece that ends its group":   Record{Kind: Run, Page: 1}.wrap(Piece, Words(1)),
		"fewer bytes than a head":       make([]byte, 8),
		"a length below a head's":       binary.LittleEndian.AppendUint64(nil, 39|uint64(Destroy)<<32),
		"a length past the frame's end": binary.LittleEndian.AppendUint64(nil, 4096|uint64(Destroy)<<32),
	} {
		t.Run(name, func(t *testing.T) {
			disk := filetest.NewDisk()
			w := open(t, disk, Options{})
			if len(record) < recordHeadBytes {
				record = append(bytes.Clone(record), make([]byte, recordHeadBytes-len(record))...)
			}
			whole, used := buffer(record)
			require.NoError(t, w.Write(whole, used, 1, 1, true))
			require.NoError(t, w.Close())
			_, _, err := readAll(disk, 1)
			assert.Equal(t, status.Corrupt, code(err), "%v", err)
			assert.ErrorContains(t, err, "journal-00000000000000000001.mmsbj: in the frame at offset 4096: record 1")
		})
	}
	for name, flags := range map[string]uint8{"a group that is a piece": More | Piece,
		"a group with an annotation": More | Annotated, "a group of one": 0} {
		t.Run(name, func(t *testing.T) {
			disk := filetest.NewDisk()
			w := open(t, disk, Options{})
			whole, used := buffer(Record{Kind: Group}.wrap(flags, Words(0)), Record{Kind: Destroy, Page: 1}.encode(0))
			require.NoError(t, w.Write(whole, used, 1, 2, true))
			require.NoError(t, w.Close())
			_, _, err := readAll(disk, 1)
			assert.Equal(t, status.Corrupt, code(err), "%v", err)
			assert.ErrorContains(t, err, "record 1 does not begin a group")
		})
	}
	t.Run("a kind of the future", func(t *testing.T) {
		disk := filetest.NewDisk()
		w := open(t, disk, Options{})
		require.NoError(t, write(w, Record{Kind: 99, Page: 1}))
		require.NoError(t, w.Close())
		_, _, err := readAll(disk, 1)
		assert.Equal(t, status.Format, code(err), "%v", err)
	})
}

// A record of kind group begins one, and a group that goes beyond its frame begins that: also where nobody decodes the records,
// because native code applies them.
func TestGroupsThatDoNotBeginWhereTheyMay(t *testing.T) {
	begins := func(flags uint8, words ...uint64) []byte { return Record{Kind: Group}.wrap(flags, Words(words...)) }
	last, more := run(2).encode(0), run(1).encode(More)
	for name, c := range map[string]struct {
		frames [][][]byte
		code   status.Code
	}{
		"a group":                       {[][][]byte{{begins(More, 40), last}}, status.OK},
		"one that its first begins":     {[][][]byte{{more}, {last}}, status.OK},
		"alone":                         {[][][]byte{{begins(0, 40)}}, status.Corrupt},
		"within a group":                {[][][]byte{{more, begins(More, 40), last}}, status.Corrupt},
		"within one of the frame ahead": {[][][]byte{{more}, {begins(More, 40), last}}, status.Corrupt},
		"twice":                         {[][][]byte{{begins(More, 40), begins(More, 40), last}}, status.Corrupt},
		"a body too long":               {[][][]byte{{begins(More, 40, 40), last}}, status.Corrupt},
		"no body":                       {[][][]byte{{begins(More), last}}, status.Corrupt},
		"a version that no page has":    {[][][]byte{{Record{Kind: Run, Page: 1, Version: 3 << 62}.encode(0)}}, status.Corrupt},
		"behind another":                {[][][]byte{{run(1).encode(0), more}, {last}}, status.Corrupt},
	} {
		t.Run(name, func(t *testing.T) {
			disk := filetest.NewDisk()
			w := open(t, disk, Options{})
			for number, records := range c.frames {
				whole, used := buffer(records...)
				require.NoError(t, w.Write(whole, used, w.Next(), uint32(len(records)), number == len(c.frames)-1))
			}
			require.NoError(t, w.Close())
			_, _, err := readAll(disk, 1)
			require.Equal(t, c.code, code(err), "%v", err)
			r, err := OpenReplay(disk, directory)
			if err == nil {
				_, err = r.Run(0, Until{}, func(*Part) error { return nil })
			}
			require.Equal(t, c.code, code(err), "%v", err)
		})
	}
}

func TestRecordsInPieces(t *testing.T) {
	disk := filetest.NewDisk()
	w := open(t, disk, Options{SegmentBytes: 8192})
	require.NoError(t, write(w, run(1)))
	body := append(Words(5), bytes.Repeat([]byte("0123456789abcdef"), 20)...)
	great := Record{Kind: Write, Page: 3, Version: 7, Epoch: 2, Time: 50}
	for i, part := range [][]byte{body[:8], body[8:160], body[160:]} {
		flags := uint8(More | Piece)
		if i == 2 {
			flags = 0
		}
		whole, used := buffer(great.wrap(flags, part))
		require.NoError(t, w.Write(whole, used, w.Next(), 1, i == 2))
	}
	require.NoError(t, write(w, run(5)))
	require.NoError(t, w.Close())

	j, err := Open(disk, directory)
	require.NoError(t, err)
	var seen []uint64
	for record, err := range j.Records(1, math.MaxUint64) {
		require.NoError(t, err)
		seen = append(seen, record.Sequence)
		if record.Kind == Write {
			assert.Equal(t, uint64(2), record.Group)
			assert.True(t, record.Last)
			assert.Equal(t, uint64(5), record.Offset)
			assert.Equal(t, body[8:], record.Bytes)
		}
	}
	assert.Equal(t, []uint64{1, 4, 5}, seen)
	// The group was in one segment, although that was long enough after its first frame.
	var firsts []uint64
	for _, s := range j.Info().Segments {
		firsts = append(firsts, s.First)
	}
	assert.Equal(t, []uint64{1, 2, 5}, firsts)

	// A state may lie between the pieces: a save takes its moment when it wants. The change has the number behind it.
	for after, want := range []int{3, 2, 2, 2, 1, 0} {
		records, _, err := readAll(disk, uint64(after)+1)
		require.NoError(t, err, "behind record %d", after)
		require.Len(t, records, want, "behind record %d", after)
		if want >= 2 {
			assert.Equal(t, body[8:], records[want-2].Bytes, "behind record %d", after)
		}
		records, last, err := replayAll(disk, uint64(after), Until{Sequence: 3}) // which ends before the change
		require.NoError(t, err)
		assert.Len(t, records, max(0, 1-after), "behind record %d", after)
		assert.Equal(t, max(1, uint64(after)), last, "behind record %d", after)
	}
}

// A state may lie within a group, also where that goes beyond the frame that the state lies in.
func TestAReplayFromTheMiddleOfAGroup(t *testing.T) {
	disk := filetest.NewDisk()
	w := open(t, disk, Options{})
	for number, records := range [][][]byte{{run(1).encode(More), run(2).encode(More)}, {run(3).encode(0), run(4).encode(0)}} {
		whole, used := buffer(records...)
		require.NoError(t, w.Write(whole, used, w.Next(), 2, number == 1))
	}
	require.NoError(t, w.Close())
	for after := range uint64(4) {
		records, _, err := readAll(disk, after+1)
		require.NoError(t, err, "behind record %d", after)
		requireRuns(t, records, after+1, 4)
	}
}

// A segment that another one follows ends with a whole group, also where nothing has come to the other one.
func TestASegmentEndsWithAWholeGroup(t *testing.T) {
	for _, count := range []int{0, 1} {
		disk := filetest.NewDisk()
		w := open(t, disk, Options{})
		for _, records := range [][][]byte{{run(1).encode(0)}, {run(2).encode(More)}} {
			whole, used := buffer(records...)
			require.NoError(t, w.Write(whole, used, w.Next(), 1, true)) // which is a lie
		}
		require.NoError(t, w.rotate())
		for range count {
			require.NoError(t, write(w, run(3)))
		}
		require.NoError(t, w.cut())
		w.Release()
		_, _, err := readAll(disk, 1)
		require.Equal(t, status.Corrupt, code(err), "%v", err)
		require.ErrorContains(t, err, "ends with record 2, whose group goes on, but")
		_, _, err = replayAll(disk, 0, Until{})
		require.Equal(t, status.Corrupt, code(err), "%v", err)
		_, last, err := replayAll(disk, 0, Until{Sequence: 1})
		require.NoError(t, err)
		require.EqualValues(t, 1, last)
	}
}

// A frame that says that the journal was closed has no records, also where nobody asks for any behind it.
func TestAFrameWithoutRecordsIsEmpty(t *testing.T) {
	disk := filetest.NewDisk()
	w := open(t, disk, Options{})
	whole, used := buffer(run(1).encode(0))
	require.NoError(t, w.Write(whole, used, w.Next(), 0, true))
	require.NoError(t, w.Close())
	r, err := OpenReplay(disk, directory)
	require.NoError(t, err)
	_, err = r.Find(0, Until{})
	assert.Equal(t, status.Corrupt, code(err), "%v", err)
	_, _, err = replayAll(disk, 0, Until{})
	assert.Equal(t, status.Corrupt, code(err), "%v", err)
}

func requireTimes(t *testing.T, disk *filetest.Disk, first, last int64) {
	t.Helper()
	j, err := Open(disk, directory)
	require.NoError(t, err)
	begins, ends, err := j.Times()
	require.NoError(t, err)
	require.Equal(t, []int64{first, last}, []int64{begins, ends})
}

func TestItGoesOnWhereItEnded(t *testing.T) {
	disk := filetest.NewDisk()
	var line lineage.Lineage
	for session := range uint64(5) {
		w := open(t, disk, Options{SegmentBytes: 20000})
		if session == 0 {
			line = w.Lineage()
		}
		assert.Equal(t, line, w.Lineage())
		for i := range uint64(4) {
			require.Equal(t, session*4+i+1, w.Next())
			require.NoError(t, write(w, run(session*4+i+1)))
		}
		require.NoError(t, w.Close())
	}
	records, info, err := readAll(disk, 1)
	require.NoError(t, err)
	requireRuns(t, records, 1, 20)
	assert.Greater(t, len(info.Segments), 2)
	requireTimes(t, disk, 10, 200)
	for i, s := range info.Segments[1:] {
		assert.Equal(t, info.Segments[i].Last+1, s.First)
	}
	records, _, err = readAll(disk, 11)
	require.NoError(t, err)
	requireRuns(t, records, 11, 20)
}

func TestTwoWriters(t *testing.T) {
	for name, fs := range map[string]file.FS{"in memory": filetest.NewDisk(), "on disk": file.OS{}} {
		t.Run(name, func(t *testing.T) {
			folder := directory
			if fs == (file.OS{}) {
				folder = filepath.Join(t.TempDir(), "journal")
			}
			w, err := NewWriter(fs, folder, Options{})
			require.NoError(t, err)
			_, err = NewWriter(fs, folder, Options{})
			assert.Equal(t, status.Busy, code(err), "%v", err)
			assert.Equal(t, status.Busy, code(dropUpTo(fs, folder, 5)))
			require.NoError(t, w.Close())
			w, err = NewWriter(fs, folder, Options{})
			require.NoError(t, err)
			require.NoError(t, w.Close())
		})
	}
}

// The real file system, with O_DIRECT where it has that, and frames that lie across the pieces of a read.
func TestOnTheRealFileSystem(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "journal")
	w, err := NewWriter(file.OS{}, folder, Options{SegmentBytes: 12 << 20})
	require.NoError(t, err)
	memory, err := unix.Mmap(-1, 0, MaximumFrame, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	require.NoError(t, err)
	defer func() { _ = unix.Munmap(memory) }()
	random := rand.New(rand.NewPCG(1, 2))
	var wanted [][]byte
	for w.offset < 10<<20 || w.begins == 1 {
		content := make([]byte, random.IntN(MaximumFrame-200))
		for i := range content {
			content[i] = byte(i * len(wanted))
		}
		wanted = append(wanted, content)
		whole, used := buffer(Record{Kind: Write, Page: 1, Version: uint64(len(wanted)), Bytes: content}.encode(0))
		copy(memory, whole)
		require.NoError(t, w.Write(memory[:len(whole)], used, w.Next(), 1, true))
	}
	require.NoError(t, w.Close())
	j, err := Open(file.OS{}, folder)
	require.NoError(t, err)
	require.Len(t, j.Info().Segments, 2)
	var next int
	for record, err := range j.Records(1, math.MaxUint64) {
		require.NoError(t, err)
		require.True(t, bytes.Equal(wanted[next], record.Bytes))
		next++
	}
	assert.Equal(t, len(wanted), next)
	stopped := 0
	for range j.Records(1, math.MaxUint64) {
		if stopped++; stopped == 3 {
			break
		}
	}
	assert.Equal(t, 3, stopped)
}

func TestDrop(t *testing.T) {
	disk := filetest.NewDisk()
	w := open(t, disk, Options{SegmentBytes: 8192})
	for number := range uint64(10) {
		require.NoError(t, write(w, run(number+1)))
	}
	firsts := func() (firsts []uint64) {
		found, err := list(disk, directory)
		require.NoError(t, err)
		for _, at := range found {
			firsts = append(firsts, at.first)
		}
		return firsts
	}
	all := firsts()
	require.Greater(t, len(all), 4)
	require.NoError(t, w.Drop(all[2]-2))
	assert.Equal(t, all[1:], firsts(), "a segment whose last record is behind the snapshot stays")
	require.NoError(t, w.Drop(all[3]-1))
	assert.Equal(t, all[3:], firsts())
	require.NoError(t, write(w, run(11)))
	require.NoError(t, w.Close())
	_, _, err := readAll(disk, all[3]-1)
	assert.Equal(t, status.NotFound, code(err), "%v", err)
	records, info, err := readAll(disk, all[3])
	require.NoError(t, err)
	requireRuns(t, records, all[3], 11)
	assert.Equal(t, all[3], info.First)
	require.NoError(t, dropUpTo(disk, directory, math.MaxUint64-1))
	assert.Len(t, firsts(), 1, "the last segment stays: it knows the numbers")
	assert.Equal(t, uint64(12), open(t, disk, Options{}).Next())
}

// requireExtent compares what a writer says of the files with the files.
// The writer drops segments at every step of a reader, which finds what is left.
func TestReadingBesideAWriterThatDrops(t *testing.T) {
	step, steps := 1, 1
	for ; step <= steps; step++ {
		disk := filetest.NewDisk()
		w := open(t, disk, Options{SegmentBytes: 1})
		for number := uint64(1); number <= 6; number++ {
			require.NoError(t, write(w, run(number)))
		}
		fs := filetest.NewFaulty(disk)
		at := 0
		fs.Before = func(filetest.Kind, int) {
			if at++; at == step {
				require.NoError(t, w.Drop(4))
			}
		}
		var seen []uint64
		require.NoError(t, Beside(fs, directory, func() error {
			seen = nil
			j, err := Open(fs, directory)
			if err != nil {
				return err
			}
			for record, err := range j.RecordsFrom(0) {
				if err != nil {
					return err
				}
				seen = append(seen, record.Sequence)
			}
			return nil
		}), "dropped before step %d", step)
		assert.Equal(t, uint64(6), seen[len(seen)-1])
		steps = max(steps, at)
	}
	assert.Greater(t, steps, 12)

	// What has failed without that is not tried again.
	tries := 0
	err := Beside(filetest.NewDisk(), directory, func() error {
		tries++
		return status.Errorf(status.Corrupt, "damaged")
	})
	assert.Equal(t, status.Corrupt, code(err))
	assert.Equal(t, 1, tries)
}

func requireExtent(t *testing.T, w *Writer, fs file.FS) {
	t.Helper()
	j, err := Open(fs, directory)
	require.NoError(t, err)
	want := Extent{Segments: len(j.Info().Segments), First: j.Info().First}
	for _, s := range j.Info().Segments {
		want.Bytes += s.Bytes
	}
	require.Equal(t, want, w.Extent())
}

func TestTheWriterKnowsWhatIsOnTheDisk(t *testing.T) {
	disk := filetest.NewDisk()
	fs := filetest.NewFaulty(disk)
	w := open(t, fs, Options{SegmentBytes: 8192, From: behind(6)})
	require.NoError(t, w.HasBase())
	requireExtent(t, w, disk)
	for number := uint64(7); number <= 20; number++ {
		require.NoError(t, write(w, run(number)))
		requireExtent(t, w, disk)
	}
	require.Greater(t, w.Extent().Segments, 5)
	require.NoError(t, w.Drop(9))
	requireExtent(t, w, disk)
	assert.Greater(t, w.Extent().First, uint64(7))
	require.NoError(t, w.Close())

	// What a crash left half-written is cut off when the journal goes on, and does not count.
	places, err := list(disk, directory)
	require.NoError(t, err)
	at, err := disk.Open(filepath.Join(directory, places[len(places)-1].name()), unix.O_RDWR, 0)
	require.NoError(t, err)
	info, err := at.Stat()
	require.NoError(t, err)
	require.NoError(t, file.WriteFull(at, make([]byte, 5000), info.Size))
	require.NoError(t, at.Close())
	w = open(t, disk, Options{SegmentBytes: 8192})
	requireExtent(t, w, disk)
	require.NoError(t, w.Close())

	// A Drop that fails has dropped what it has dropped.
	fs = filetest.NewFaulty(disk, filetest.Fault{Kind: filetest.Remove, Nth: 3, Errno: syscall.EIO})
	w = open(t, fs, Options{SegmentBytes: 8192})
	before := w.Extent().Segments
	require.Equal(t, status.IO, code(w.Drop(20)))
	requireExtent(t, w, disk)
	assert.Equal(t, before-1, w.Extent().Segments)
	require.NoError(t, w.Drop(20))
	requireExtent(t, w, disk)
	assert.Equal(t, 1, w.Extent().Segments)
	require.NoError(t, w.Close())
}

func TestFind(t *testing.T) {
	disk := filetest.NewDisk()
	w := open(t, disk, Options{SegmentBytes: 8192})
	require.NoError(t, write(w, run(1), run(2)))
	require.NoError(t, writeGroup(w, run(3), run(4), run(5)))
	require.NoError(t, write(w, run(6), run(7)))
	require.NoError(t, w.Close())
	j, err := Open(disk, directory)
	require.NoError(t, err)
	for _, c := range []struct {
		after uint64
		until Until
		want  uint64
	}{
		{0, Until{}, 7},
		{0, Until{Sequence: 1}, 1},
		{0, Until{Sequence: 4}, 2},
		{0, Until{Sequence: 5}, 5},
		{0, Until{Sequence: 100}, 7},
		{0, Until{Time: 60}, 6},
		{0, Until{Time: 49}, 2},
		{0, Until{Time: 5}, 0},
		{6, Until{Time: 5}, 6},
		{0, Until{Page: 2, Epoch: 1}, 5},
		{0, Until{Page: 4, Epoch: 2}, 2},
		{7, Until{}, 7},
	} {
		got, err := j.Find(c.after, c.until)
		require.NoError(t, err)
		assert.Equal(t, c.want, got, "%+v", c)
		records, last, err := replayAll(disk, c.after, c.until)
		require.NoError(t, err)
		assert.Equal(t, c.want, last, "%+v", c)
		assert.Len(t, records, int(c.want-c.after), "%+v", c)
	}
}

// TestAnErrorEndsAReplay also where frames are waiting to be applied.
func TestAnErrorEndsAReplay(t *testing.T) {
	disk := filetest.NewDisk()
	w := open(t, disk, Options{})
	for number := range uint64(20) {
		require.NoError(t, write(w, run(number+1)))
	}
	require.NoError(t, w.Close())
	r, err := OpenReplay(disk, directory)
	require.NoError(t, err)
	calls := 0
	_, err = r.Run(0, Until{}, func(*Part) error {
		calls++
		return status.Errorf(status.Cancelled, "enough")
	})
	assert.Equal(t, status.Cancelled, code(err))
	assert.Equal(t, 1, calls)
}

// A group that goes beyond its frame and whose end is missing is not handed out, however much of it there is.
func TestAGreatGroupIsReplayedWholeOrNot(t *testing.T) {
	for _, whole := range []bool{false, true} {
		disk := filetest.NewDisk()
		w := open(t, disk, Options{})
		require.NoError(t, write(w, run(1)))
		for number := range uint64(5) {
			flags := uint8(More)
			if whole && number == 4 {
				flags = 0
			}
			encoded, used := buffer(run(number + 2).encode(flags))
			require.NoError(t, w.Write(encoded, used, w.Next(), 1, flags == 0))
		}
		want := uint64(1)
		if whole {
			want = 6
		}
		_, err := w.Sync()
		require.NoError(t, err)
		records, last, err := replayAll(disk, 0, Until{})
		require.NoError(t, err)
		assert.Equal(t, want, last)
		requireRuns(t, records, 1, want)
	}
}

// A file system may take a part of a write that passes its cache by, at a limit, and refuse the rest for where it begins: what
// counts is what the same write says without that.
func TestAWriteIsTriedAgainThroughTheCache(t *testing.T) {
	disk := filetest.NewDisk()
	w := open(t, disk, Options{})
	require.NoError(t, write(w, run(1)))
	require.NoError(t, w.Close())
	refuse := filetest.Fault{Kind: filetest.Write, Nth: 2, Errno: syscall.EINVAL} // the first one is into the lock
	w = open(t, filetest.NewFaulty(disk, refuse), Options{})
	require.NoError(t, write(w, run(2)))
	require.NoError(t, w.Close())
	records, _, err := readAll(disk, 1)
	require.NoError(t, err)
	requireRuns(t, records, 1, 2)

	limit := filetest.Fault{Kind: filetest.Write, Nth: 3, Errno: syscall.EFBIG}
	w = open(t, filetest.NewFaulty(disk, refuse, limit), Options{})
	err = write(w, run(3))
	assert.Equal(t, int32(syscall.EFBIG), status.Of(err).Foreign, "%v", err)
}

// small is a closed journal of one segment, as bytes, with what it says.
func smallJournal(t *testing.T, close bool) (content []byte, records []Record) {
	disk := filetest.NewDisk()
	w := open(t, disk, Options{})
	require.NoError(t, write(w, run(1), run(2)))
	_, err := w.Sync()
	require.NoError(t, err)
	require.NoError(t, write(w, examples()[6:15]...))
	if close {
		require.NoError(t, w.Close())
	}
	source, err := file.Open(disk, directory+"/"+firstName)
	require.NoError(t, err)
	content = make([]byte, source.Size())
	_, err = source.ReadAt(content, 0)
	require.NoError(t, err)
	records, _, err = readAll(disk, 1)
	require.NoError(t, err)
	return content, records
}

// diskWith makes a disk with a segment of this content.
func diskWith(t *testing.T, content []byte) (*filetest.Disk, file.File) {
	disk := filetest.NewDisk()
	require.NoError(t, disk.MakeDirectory(directory, 0o777))
	f, err := disk.Open(directory+"/"+firstName, unix.O_CREAT|unix.O_RDWR, 0o666)
	require.NoError(t, err)
	require.NoError(t, file.WriteFull(f, content, 0))
	return disk, f
}

// requirePrefix: what was read is the beginning of what was written, never anything else.
func requirePrefix(t *testing.T, whole, read []Record) {
	if len(read) > len(whole) {
		t.Fatalf("%d records of %d", len(read), len(whole))
	}
	for i := range read {
		if read[i].Kind != whole[i].Kind || !bytes.Equal(read[i].Bytes, whole[i].Bytes) || read[i].Version != whole[i].Version {
			t.Fatalf("record %d is another", i+1)
		}
	}
}

func TestTruncationAtEveryByte(t *testing.T) {
	content, whole := smallJournal(t, false)
	disk, f := diskWith(t, content)
	counts := map[int]int{}
	step := 1
	if raceDetector { // nothing runs at the same time here
		step = 64
	}
	for size := len(content) - step; size >= 0; size -= step {
		if err := f.Truncate(int64(size)); err != nil {
			t.Fatal(err)
		}
		records, info, err := readAll(disk, 1)
		if size < unitBytes {
			if code(err) != status.Corrupt && code(err) != status.Format {
				t.Fatalf("%d bytes: %v", size, err)
			}
			continue
		}
		if err != nil {
			t.Fatalf("%d bytes: %v", size, err)
		}
		requirePrefix(t, whole, records)
		counts[len(records)]++
		if info.TornBytes != int64(size%4096) {
			t.Fatalf("%d bytes: %d torn", size, info.TornBytes)
		}
	}
	assert.Equal(t, map[int]int{0: 4096 / step, 2: 4096 / step}, counts)
}

func TestEveryFlippedBit(t *testing.T) {
	content, whole := smallJournal(t, true)
	disk, f := diskWith(t, content)
	step := 7 // has each bit of a byte in turn
	if os.Getenv("MMSB_EVERY_BIT") != "" {
		step = 1
	}
	if raceDetector { // nothing runs at the same time here
		step = 61
	}
	cut, wanted, refused, tries := 0, 0, 0, 0
	for number := 0; number < len(content)*8; number += step {
		at, bit := number/8, number%8
		flipped := []byte{content[at] ^ 1<<bit}
		if err := file.WriteFull(f, flipped, int64(at)); err != nil {
			t.Fatal(err)
		}
		records, info, err := readAll(disk, 1)
		switch {
		case err != nil && (code(err) == status.Corrupt || code(err) == status.Format):
			if !strings.Contains(err.Error(), firstName) || !strings.Contains(err.Error(), "offset") {
				t.Fatalf("byte %d, bit %d: no file and offset in %v", at, bit, err)
			}
			refused++
		case err != nil:
			t.Fatalf("byte %d, bit %d: %v", at, bit, err)
		case len(records) != len(whole) || info.TornBytes != unitBytes:
			t.Fatalf("byte %d, bit %d: %d records, %d torn bytes", at, bit, len(records), info.TornBytes)
		default: // the frame that says that the journal was closed
			cut++
		}
		if at >= len(content)-unitBytes {
			wanted++
		}
		tries++
		if err := file.WriteFull(f, content[at:at+1], int64(at)); err != nil {
			t.Fatal(err)
		}
	}
	assert.Equal(t, wanted, cut)
	assert.Equal(t, tries-cut, refused)
}

// Damage to what a later frame calls durable is damage; to what may have been on its way it is a torn tail.
func TestDamageAndTornTails(t *testing.T) {
	for name, durable := range map[string]bool{"durable": true, "on its way": false} {
		t.Run(name, func(t *testing.T) {
			disk := filetest.NewDisk()
			w := open(t, disk, Options{})
			for number := range uint64(4) {
				require.NoError(t, write(w, run(number+1)))
				if durable {
					_, err := w.Sync()
					require.NoError(t, err)
				}
			}
			f, err := disk.Open(directory+"/"+firstName, unix.O_RDWR, 0)
			require.NoError(t, err)
			require.NoError(t, file.WriteFull(f, make([]byte, 4096), 2*4096))
			disk = disk.Kill()
			records, info, err := readAll(disk, 1)
			if durable {
				assert.Equal(t, status.Corrupt, code(err), "%v", err)
				assert.ErrorContains(t, err, "the frame at offset 8192, from record 2")
				_, err = NewWriter(disk, directory, Options{})
				assert.Equal(t, status.Corrupt, code(err), "%v", err)
				return
			}
			require.NoError(t, err)
			requireRuns(t, records, 1, 1)
			assert.Equal(t, int64(3*4096), info.TornBytes)
			w = open(t, disk, Options{})
			require.Equal(t, uint64(2), w.Next())
			require.NoError(t, write(w, run(2)))
			require.NoError(t, w.Close())
			records, info, err = readAll(disk, 1)
			require.NoError(t, err)
			requireRuns(t, records, 1, 2)
			assert.Zero(t, info.TornBytes)
		})
	}
}

func TestSegmentsThatAreMissingOrForeign(t *testing.T) {
	build := func() (*filetest.Disk, []string) {
		disk := filetest.NewDisk()
		w := open(t, disk, Options{SegmentBytes: 8192})
		for number := range uint64(8) {
			require.NoError(t, write(w, run(number+1)))
		}
		require.NoError(t, w.Close())
		places, err := list(disk, directory)
		require.NoError(t, err)
		var names []string
		for _, at := range places {
			names = append(names, directory+"/"+at.name())
		}
		require.Greater(t, len(names), 3)
		return disk, names
	}
	disk, names := build()
	require.NoError(t, disk.Remove(names[1]))
	_, _, err := readAll(disk, 1)
	assert.Equal(t, status.Corrupt, code(err))
	assert.ErrorContains(t, err, "a segment is missing or foreign")

	disk, names = build()
	require.NoError(t, disk.Rename(names[1], directory+"/"+place{first: 9999}.name()))
	_, _, err = readAll(disk, 1)
	assert.Equal(t, status.Corrupt, code(err))
	assert.ErrorContains(t, err, "unlike the file name")

	// A segment of another journal, and one of the same journal as it would have gone on otherwise.
	other, _ := build()
	source, err := file.Open(other, names[1])
	require.NoError(t, err)
	content := make([]byte, source.Size())
	_, err = source.ReadAt(content, 0)
	require.NoError(t, err)
	replace := func() {
		f, err := disk.Open(names[1], unix.O_RDWR|unix.O_TRUNC, 0)
		require.NoError(t, err)
		require.NoError(t, file.WriteFull(f, content, 0))
	}
	disk, _ = build()
	replace()
	_, _, err = readAll(disk, 1)
	assert.ErrorContains(t, err, "belongs to lineage")

	disk, _ = build()
	s, err := decodeSegment(readHeader(t, disk, names[1]), names[1])
	require.NoError(t, err)
	s.previous++
	s.encode(content)
	replace()
	_, _, err = readAll(disk, 1)
	assert.ErrorContains(t, err, "a segment is missing or foreign")
}

func readHeader(t *testing.T, fs file.FS, path string) []byte {
	source, err := file.Open(fs, path)
	require.NoError(t, err)
	header := make([]byte, unitBytes)
	_, err = source.ReadAt(header, 0)
	require.NoError(t, err)
	return header
}

func TestANewerVersionIsRefused(t *testing.T) {
	content, _ := smallJournal(t, true)
	binary.LittleEndian.PutUint32(content[8:], Version+1)
	binary.LittleEndian.PutUint32(content[segmentCRCAt:], checksum(content[:segmentCRCAt]))
	disk, _ := diskWith(t, content)
	_, err := Open(disk, directory)
	assert.Equal(t, status.Format, code(err), "%v", err)
	assert.ErrorContains(t, err, "version 3")
}

func TestNoJournal(t *testing.T) {
	disk := filetest.NewDisk()
	_, err := Open(disk, directory)
	assert.Equal(t, status.NotFound, code(err), "%v", err)
	require.NoError(t, disk.MakeDirectory(directory, 0o777))
	_, err = Open(disk, directory)
	assert.Equal(t, status.NotFound, code(err), "%v", err)
	assert.ErrorContains(t, err, "no journal in /journal")
}

// scenario writes a journal with rotation, groups and syncs. acknowledged is the last record that Sync called durable.
func scenario(fs file.FS, acknowledged *uint64) error {
	w, err := NewWriter(fs, directory, Options{SegmentBytes: 16 << 10})
	if err != nil {
		return err
	}
	closed := false
	defer func() {
		if !closed {
			w.Release()
		}
	}()
	for step := range 8 {
		next := w.Next()
		if step%3 == 2 {
			err = writeGroup(w, run(next), run(next+1), run(next+2))
		} else {
			err = write(w, run(next), run(next+1))
		}
		if err != nil {
			return err
		}
		if step%2 == 1 {
			durable, err := w.Sync()
			if err != nil {
				return err
			}
			*acknowledged = durable
		}
	}
	closed = true
	if err = w.Close(); err == nil {
		*acknowledged = w.last
	}
	return err
}

// requireState: the journal of a disk holds all acknowledged records, whole groups only, and can be continued.
func requireState(t *testing.T, disk *filetest.Disk, acknowledged uint64, what string) {
	t.Helper()
	records, info, err := readAll(disk, 1)
	if code(err) == status.NotFound && acknowledged == 0 {
		records, info, err = nil, Info{}, nil
	}
	require.NoError(t, err, what)
	require.GreaterOrEqual(t, info.Last, acknowledged, what)
	require.Equal(t, int(info.Last), len(records), what)
	for i := range records {
		require.Equal(t, run(uint64(i)+1).Bytes, records[i].Bytes, what)
	}
	// Groups of three are 5 … 7 and 12 … 14.
	require.NotContains(t, []uint64{5, 6, 12, 13}, info.Last, what)
	w, err := NewWriter(disk, directory, Options{SegmentBytes: 16 << 10})
	require.NoError(t, err, what)
	require.Equal(t, info.Last+1, w.Next(), what)
	require.NoError(t, write(w, run(w.Next())), what)
	require.NoError(t, w.Close(), what)
	records, after, err := readAll(disk, 1)
	require.NoError(t, err, what)
	require.Equal(t, info.Last+1, after.Last, what)
	require.Equal(t, run(info.Last+1).Bytes, records[info.Last].Bytes, what)
	names, err := disk.List(directory)
	require.NoError(t, err)
	for _, name := range names {
		require.False(t, strings.HasSuffix(name, unfinishedSuffix), "%s: %s", what, name)
	}
}

// A power cut before every operation, and what it may leave by many seeds; sectors of 512 bytes, so that frames tear.
func TestPowerCuts(t *testing.T) {
	seeds := uint64(40)
	if raceDetector {
		seeds = 4
	}
	inner := filetest.NewDisk()
	inner.Block = 512
	counting := filetest.NewFaulty(inner)
	operations := 0
	counting.Before = func(filetest.Kind, int) { operations++ }
	acknowledged := uint64(0)
	require.NoError(t, scenario(counting, &acknowledged))
	require.Equal(t, uint64(18), acknowledged)
	require.Greater(t, operations, 50)
	cuts := 0
	for cut := 1; cut <= operations; cut++ {
		disk := filetest.NewDisk()
		disk.Block = 512
		fs := filetest.NewFaulty(disk)
		at, acknowledged := 0, uint64(0)
		fs.Before = func(kind filetest.Kind, _ int) {
			if at++; at != cut {
				return
			}
			requireState(t, disk.Kill(), acknowledged, fmt.Sprintf("killed before operation %d (%s)", cut, kind))
			for seed := range seeds {
				requireState(t, disk.Crash(seed), acknowledged,
					fmt.Sprintf("cut before operation %d (%s), seed %d", cut, kind, seed))
				cuts++
			}
		}
		require.NoError(t, scenario(fs, &acknowledged))
	}
	require.Equal(t, operations*int(seeds), cuts)
}

// The test above finds a writer that calls durable what is not.
func TestPowerCutsFindALie(t *testing.T) {
	disk := filetest.NewDisk()
	acknowledged := uint64(0)
	require.NoError(t, scenario(filetest.NewFaulty(disk, filetest.Fault{Kind: filetest.Sync, Nth: 1, Forever: true, Lie: true}),
		&acknowledged))
	lost := 0
	for seed := range uint64(20) {
		if records, _, err := readAll(disk.Crash(seed), 1); err != nil || uint64(len(records)) < acknowledged {
			lost++
		}
	}
	assert.Positive(t, lost)
}

// Every operation fails once, with errors that disks have; writes are also cut short.
func TestFaults(t *testing.T) {
	counting := filetest.NewFaulty(filetest.NewDisk())
	acknowledged := uint64(0)
	require.NoError(t, scenario(counting, &acknowledged))
	faults := 0
	for _, kind := range []filetest.Kind{filetest.Open, filetest.OpenDirectory, filetest.List, filetest.Rename,
		filetest.MakeDirectory, filetest.Write, filetest.Sync, filetest.SyncDirectory, filetest.Lock} {
		require.Positive(t, counting.Count(kind), "%s", kind)
		for nth := 1; nth <= counting.Count(kind); nth++ {
			for _, errno := range []syscall.Errno{syscall.ENOSPC, syscall.EIO} {
				disk := filetest.NewDisk()
				what := fmt.Sprintf("%s number %d: %v", kind, nth, errno)
				list := []filetest.Fault{{Kind: kind, Nth: nth, Errno: errno}}
				if kind == filetest.Write { // half a write, then the error
					list = []filetest.Fault{{Kind: kind, Nth: nth, Short: 1000}, {Kind: kind, Nth: nth + 1, Errno: errno}}
				}
				fs := filetest.NewFaulty(disk, list...)
				acknowledged := uint64(0)
				err := scenario(fs, &acknowledged)
				require.Equal(t, len(list), fs.Hits(), what)
				require.Error(t, err, what)
				var own *status.Error
				require.True(t, errors.As(err, &own), "%s: %v", what, err)
				require.Equal(t, status.DomainErrno, own.Domain, what)
				require.Equal(t, int32(errno), own.Foreign, "%s: %v", what, err)
				requireState(t, disk.Kill(), acknowledged, what)
				requireState(t, disk.Crash(uint64(nth)), acknowledged, what)
				faults++
			}
		}
	}
	t.Logf("%d faults", faults)
}

// After an error the writer does nothing more: a later Sync could not know what the first one lost.
func TestAFailedWriterStaysFailed(t *testing.T) {
	fs := filetest.NewFaulty(filetest.NewDisk())
	w := open(t, fs, Options{})
	require.NoError(t, write(w, run(1)))
	failing := filetest.NewFaulty(filetest.NewDisk(), filetest.Fault{Kind: filetest.Sync, Nth: 2, Errno: syscall.EIO})
	w = open(t, failing, Options{})
	require.NoError(t, write(w, run(1)))
	_, err := w.Sync()
	require.Equal(t, status.IO, code(err))
	writes := failing.Count(filetest.Write)
	assert.Equal(t, err, write(w, run(2)))
	_, again := w.Sync()
	assert.Equal(t, err, again)
	assert.Equal(t, err, w.Close())
	assert.Equal(t, writes, failing.Count(filetest.Write))
	assert.Equal(t, 2, failing.Count(filetest.Sync))
}

func FuzzReader(f *testing.F) {
	content, _ := smallJournal(&testing.T{}, true)
	f.Add(content, false)
	f.Add(content, true)
	f.Add(content[:9000], true)
	// With honest, checksums are made right, so that what lies behind them is looked at.
	f.Fuzz(func(t *testing.T, content []byte, honest bool) {
		if honest {
			content = bytes.Clone(content)
			makeHonest(content)
		}
		disk, _ := diskWith(t, content)
		_, _, err := readAll(disk, 1)
		if own := status.Of(err); own != nil && own.Code != status.Corrupt && own.Code != status.Format {
			t.Fatal(err)
		}
	})
}

// makeHonest makes the checksums and chain of a segment right, as far as its lengths go.
func makeHonest(content []byte) {
	if len(content) < unitBytes {
		return
	}
	binary.LittleEndian.PutUint32(content[segmentCRCAt:], checksum(content[:segmentCRCAt]))
	chain, next := binary.LittleEndian.Uint32(content[48:]), binary.LittleEndian.Uint64(content[32:])
	for rest := content[unitBytes:]; len(rest) >= FrameHeadBytes; {
		length := padded(int(binary.LittleEndian.Uint32(rest[8:])))
		if length < FrameHeadBytes || length > len(rest) {
			return
		}
		copy(rest[16:32], content[16:32])
		binary.LittleEndian.PutUint32(rest[48:], chain)
		binary.LittleEndian.PutUint64(rest[32:], next)
		chain = frameCRC(rest[:length])
		binary.LittleEndian.PutUint32(rest[frameCRCAt:], chain)
		next += uint64(binary.LittleEndian.Uint32(rest[12:]))
		rest = rest[length:]
	}
}
