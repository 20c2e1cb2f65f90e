package journal

import (
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"libmmsb/core/file"
	"libmmsb/core/file/filetest"
	"libmmsb/core/lineage"
	"libmmsb/core/status"
)

// named is a state that has a name, and goes on in a lineage.
func named(goesOn lineage.Lineage, name lineage.Point) State {
	return State{Names: []lineage.Point{name}, GoesOn: goesOn, Pages: 3}
}

// behindEnd is a state behind the end of a journal, with a name that its context has given.
func behindEnd(line lineage.Lineage, end, position uint64) State {
	own := lineage.New(line.At(end))
	return named(own, own.At(position))
}

// writeRuns writes records up to a number, each a frame.
func writeRuns(t *testing.T, w *Writer, to uint64) {
	t.Helper()
	for w.Next() <= to {
		require.NoError(t, write(w, run(w.Next())))
	}
}

func TestAJournalBehindAStateNeedsABase(t *testing.T) {
	disk := filetest.NewDisk()
	from := behind(500)
	w := open(t, disk, Options{From: from})
	assert.True(t, w.NeedsBase())
	assert.Equal(t, uint64(501), w.Next())
	assert.Equal(t, from.GoesOn, w.Lineage())
	writeRuns(t, w, 501)
	_, err := w.Sync()
	require.NoError(t, err)
	_, err = Open(disk, directory)
	assert.Equal(t, status.NotFound, code(err), "without its base it does not count: %v", err)
	require.NoError(t, w.HasBase())
	assert.False(t, w.NeedsBase())
	require.NoError(t, w.Close())
	records, info, err := readAll(disk, 501)
	require.NoError(t, err)
	requireRuns(t, records, 501, 501)
	assert.Equal(t, from.GoesOn, info.Lineage)
	assert.True(t, info.Segments[0].Based)

	r, err := OpenReplay(disk, directory)
	require.NoError(t, err)
	assert.False(t, r.FromTheBeginning())
	require.NoError(t, r.Leads(from.Names[0]))
	for _, other := range []lineage.Point{{Position: 500}, behind(500).Names[0], from.GoesOn.At(499)} {
		err := r.Leads(other)
		assert.Equal(t, status.Mismatch, code(err), "%v", err)
		assert.ErrorContains(t, err, "lineage")
	}
}

func TestABaseThatNeverCame(t *testing.T) {
	disk := filetest.NewDisk()
	first := open(t, disk, Options{})
	writeRuns(t, first, 3)
	require.NoError(t, first.Close())
	line := first.Lineage()
	w := open(t, disk, Options{From: behindEnd(line, 3, 4)})
	writeRuns(t, w, 7)
	_, err := w.Sync()
	require.NoError(t, err)
	records, _, err := readAll(disk.Kill(), 1)
	require.NoError(t, err)
	requireRuns(t, records, 1, 3)
	killed := disk.Kill()
	ofABase := "/.base-00000000000000000003-01020304.mmsb.mmsb-7-ABCDEFGHIJKLMNOP.tmp"
	half, err := killed.Open(directory+ofABase, unix.O_CREAT, 0o666)
	require.NoError(t, err)
	require.NoError(t, half.Close())
	again := open(t, killed, Options{})
	assert.Equal(t, uint64(4), again.Next())
	require.NoError(t, again.Close())
	names, err := killed.List(directory)
	require.NoError(t, err)
	assert.NotContains(t, strings.Join(names, " "), unfinishedSuffix)

	require.NoError(t, w.Close()) // without a base: what it wrote is gone
	records, _, err = readAll(disk, 1)
	require.NoError(t, err)
	requireRuns(t, records, 1, 3)
}

func TestAGapIsNotCrossed(t *testing.T) {
	disk := filetest.NewDisk()
	w := open(t, disk, Options{})
	writeRuns(t, w, 3)
	require.NoError(t, w.Close())
	line := w.Lineage()
	w = open(t, disk, Options{From: behindEnd(line, 3, 5)})
	require.True(t, w.NeedsBase())
	writeRuns(t, w, 8)
	require.NoError(t, w.HasBase())
	require.NoError(t, w.Close())

	_, last, err := replayAll(disk, 1, Until{})
	assert.Equal(t, status.Mismatch, code(err), "%v", err)
	assert.ErrorContains(t, err, "step 5 was not recorded")
	assert.Equal(t, uint64(3), last)
	for _, until := range []uint64{2, 3, 4, 5} {
		_, last, err = replayAll(disk, 1, Until{Sequence: until})
		require.NoError(t, err)
		assert.Equal(t, min(until, 3), last)
	}
	records, last, err := replayAll(disk, 5, Until{})
	require.NoError(t, err)
	requireRuns(t, records, 6, 8)
	assert.Equal(t, uint64(8), last)
	records, info, err := walkAll(disk, 1) // a list may have both
	require.NoError(t, err)
	assert.Len(t, records, 6)
	assert.Equal(t, []uint64{3, 8}, []uint64{info.Segments[0].Last, info.Segments[1].Last})
}

// What a gap leads to is not the state before it, though no record came behind it.
func TestAGapWithoutRecordsIsNotCrossed(t *testing.T) {
	disk := filetest.NewDisk()
	w := open(t, disk, Options{})
	writeRuns(t, w, 3)
	require.NoError(t, w.Close())
	w = open(t, disk, Options{From: behindEnd(w.Lineage(), 3, 5)})
	require.NoError(t, w.HasBase())
	killed := disk.Kill()
	_, last, err := replayAll(killed, 1, Until{})
	assert.Equal(t, status.Mismatch, code(err), "%v", err)
	assert.ErrorContains(t, err, "step 5 was not recorded")
	assert.Equal(t, uint64(3), last)
	j, err := Open(killed, directory)
	require.NoError(t, err)
	assert.Equal(t, status.Mismatch, code(j.CheckGaps(1, 3, Until{})))
	for _, until := range []uint64{2, 3, 5} {
		_, last, err = replayAll(killed, 1, Until{Sequence: until})
		require.NoError(t, err)
		assert.Equal(t, min(until, 3), last)
		assert.NoError(t, j.CheckGaps(1, last, Until{Sequence: until}))
	}
	_, _, err = replayAll(killed, 5, Until{})
	require.NoError(t, err)
}

// Who begins behind damage does not meet it.
func TestDamageBeforeTheBeginning(t *testing.T) {
	disk := filetest.NewDisk()
	w := open(t, disk, Options{SegmentBytes: 1})
	writeRuns(t, w, 5)
	require.NoError(t, w.Close())
	f, err := disk.Open(filepath.Join(directory, place{0, 1}.name()), unix.O_RDWR, 0)
	require.NoError(t, err)
	require.NoError(t, file.WriteFull(f, []byte("damage"), unitBytes+100))
	records, _, err := readAll(disk, 3)
	require.NoError(t, err)
	requireRuns(t, records, 3, 5)
	j, err := Open(disk, directory)
	require.NoError(t, err)
	_, _, err = j.Times()
	assert.Equal(t, status.Corrupt, code(err), "%v", err)
}

func TestGoingOnFromThePastIsABranch(t *testing.T) {
	disk := filetest.NewDisk()
	w := open(t, disk, Options{})
	writeRuns(t, w, 9)
	require.NoError(t, w.Close())
	old := w.Lineage()
	for turn := uint64(1); turn <= 3; turn++ {
		branch := lineage.New(old.At(4))
		from := named(branch, old.At(4))
		_, err := NewWriter(disk, directory, Options{From: from})
		require.Equal(t, status.Mismatch, code(err), "%v", err)
		require.ErrorContains(t, err, "has gone on to position")
		from.Chosen = true
		w = open(t, disk, Options{From: from})
		require.True(t, w.NeedsBase())
		assert.Equal(t, branch, w.Lineage())
		writeRuns(t, w, 6)
		require.NoError(t, w.HasBase())
		require.NoError(t, w.Close())
		j, err := Open(disk, directory)
		require.NoError(t, err)
		info := j.Info()
		assert.Equal(t, []any{branch, turn, turn + 1, uint64(5), uint64(6)},
			[]any{info.Lineage, info.Branch, info.Branches, info.First, info.Last})
		assert.Contains(t, info.Segments[0].Name, "journal-00000")
	}
	r, err := OpenReplay(disk, directory)
	require.NoError(t, err)
	require.NoError(t, r.Leads(old.At(4)), "the branch begins with this state")
	assert.Equal(t, status.Mismatch, code(r.Leads(old.At(3))))
	assert.Equal(t, status.Mismatch, code(r.Leads(old.At(5))))

	// The first branch's files stay.
	require.NoError(t, dropUpTo(disk, directory, math.MaxUint64-1))
	places, err := list(disk, directory)
	require.NoError(t, err)
	assert.Len(t, places, 4)
}

func TestAForeignJournalIsRefused(t *testing.T) {
	disk := filetest.NewDisk()
	w := open(t, disk, Options{})
	writeRuns(t, w, 9)
	require.NoError(t, w.Close())
	line := w.Lineage()
	ahead := named(lineage.Lineage{ID: line.ID}, line.At(4)) // the lineage has other records from 5 on
	for _, from := range []State{behind(9), behind(20), named(lineage.New(behind(9).Names[0]), behind(9).Names[0]), ahead} {
		_, err := NewWriter(disk, directory, Options{From: from})
		assert.Equal(t, status.Mismatch, code(err), "%v", err)
		assert.ErrorContains(t, err, line.ID.String())
		assert.ErrorContains(t, err, from.Names[0].Lineage.String())
	}
	records, _, err := readAll(disk, 1)
	require.NoError(t, err)
	requireRuns(t, records, 1, 9)
}

func TestABaseCanBeRefused(t *testing.T) {
	disk := filetest.NewDisk()
	_, err := NewWriter(disk, directory, Options{From: behind(3), NoBase: true})
	assert.Equal(t, status.InvalidState, code(err), "%v", err)
	assert.ErrorContains(t, err, "3 pages")
	w := open(t, disk, Options{NoBase: true})
	writeRuns(t, w, 2)
	require.NoError(t, w.Close())
	line := w.Lineage()
	_, err = NewWriter(disk, directory, Options{From: behindEnd(line, 2, 3), NoBase: true})
	assert.Equal(t, status.InvalidState, code(err), "%v", err)
	w = open(t, disk, Options{From: named(lineage.New(line.At(2)), line.At(2)), NoBase: true})
	assert.Equal(t, line, w.Lineage(), "it goes on where it ended")
	require.NoError(t, w.Close())
}

// A segment without records is no predecessor of another one: both would have the same name.
func TestASegmentHasARecordBeforeTheNextBegins(t *testing.T) {
	disk := filetest.NewDisk()
	w := open(t, disk, Options{SegmentBytes: 1})
	require.NoError(t, write(w, run(1)))
	require.NoError(t, w.Drop(0))
	assert.Equal(t, 1, w.Extent().Segments)
	writeRuns(t, w, 4)
	require.NoError(t, w.Drop(2))
	require.NoError(t, w.Close())
	records, _, err := readAll(disk, 3)
	require.NoError(t, err)
	requireRuns(t, records, 3, 4)
}

// A gap may begin a lineage; what lies before stays on the path.
func TestALineageBeginsBehindAGap(t *testing.T) {
	disk := filetest.NewDisk()
	w := open(t, disk, Options{})
	writeRuns(t, w, 3)
	require.NoError(t, w.Close())
	old := w.Lineage()
	from := behindEnd(old, 3, 5)
	w = open(t, disk, Options{From: from})
	writeRuns(t, w, 8)
	require.NoError(t, w.HasBase())
	require.NoError(t, w.Close())
	j, err := Open(disk, directory)
	require.NoError(t, err)
	assert.Equal(t, []any{from.GoesOn, uint64(0), uint64(1), uint64(1), uint64(8)},
		[]any{j.info.Lineage, j.info.Branch, j.info.Branches, j.info.First, j.info.Last})
	for _, at := range []lineage.Point{old.At(0), old.At(3), from.GoesOn.At(5), from.GoesOn.At(8)} {
		assert.NoError(t, j.Leads(at), "%v", at)
	}
	for _, at := range []lineage.Point{old.At(4), old.At(5), from.GoesOn.At(3), from.GoesOn.At(4), {Position: 8}} {
		assert.Equal(t, status.Mismatch, code(j.Leads(at)), "%v", at)
	}
	assert.Equal(t, []lineage.ID{old.ID, old.ID, from.GoesOn.ID, from.GoesOn.ID},
		[]lineage.ID{j.At(0).ID, j.At(3).ID, j.At(5).ID, j.At(8).ID})
	for lineOf, ends := range map[lineage.Lineage]bool{
		lineage.New(from.GoesOn.At(8)): true, lineage.New(from.GoesOn.At(7)): false, lineage.New(old.At(8)): false,
		lineage.New(lineage.Point{}): false,
	} {
		r, err := OpenReplay(disk, directory)
		require.NoError(t, err)
		got, err := r.EndsBefore(lineOf)
		require.NoError(t, err)
		assert.Equal(t, ends, got)
	}
	require.NoError(t, dropUpTo(disk, directory, 5)) // one branch
	places, err := list(disk, directory)
	require.NoError(t, err)
	assert.Len(t, places, 1)

	// A lineage that begins without a gap is none of this journal.
	segment := j.segments[1].segment
	segment.based, segment.before, segment.lineage = false, segment.first-1, lineage.New(lineage.Point{})
	header := make([]byte, unitBytes)
	segment.encode(header)
	again := filetest.NewDisk()
	w = open(t, again, Options{})
	writeRuns(t, w, 5)
	require.NoError(t, w.Close())
	f, err := again.Open(directory+"/"+j.segments[1].name, unix.O_RDWR|unix.O_CREAT, 0o666)
	require.NoError(t, err)
	require.NoError(t, file.WriteFull(f, header, 0))
	_, err = Open(again, directory)
	assert.Equal(t, status.Corrupt, code(err), "%v", err)
	assert.ErrorContains(t, err, "belongs to lineage")
}
