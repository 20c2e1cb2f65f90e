package journal

import (
	"errors"
	"os"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"libmmsb/core/file"
	"libmmsb/core/file/filetest"
	"libmmsb/core/status"
)

// script is a ring that hands out what a test says, and remembers what it is told.
type script struct {
	steps    []step
	next     uint64
	patience []time.Duration
	durable  []uint64
	failure  error
}

// step is one answer of Take: a buffer with so many records, or none.
type step struct {
	records uint32
	wanted  bool
	delay   time.Duration
}

func (s *script) Take(patience time.Duration) ([]byte, int, uint64, uint32, bool, bool, bool) {
	s.patience = append(s.patience, patience)
	if len(s.steps) == 0 {
		return nil, 0, 0, 0, false, false, false
	}
	now := s.steps[0]
	s.steps = s.steps[1:]
	time.Sleep(now.delay)
	if now.records == 0 {
		return nil, 0, 0, 0, false, false, true
	}
	var records [][]byte
	first := s.next + 1
	for range now.records {
		s.next++
		records = append(records, run(s.next).encode(0))
	}
	whole, used := buffer(records...)
	return whole, used, first, now.records, true, now.wanted, true
}

func (s *script) Durable(sequence uint64) { s.durable = append(s.durable, sequence) }

func (s *script) Fail(code, domain, foreign int32, text string) {
	s.failure = &status.Error{Code: status.Code(code), Domain: domain, Foreign: foreign, Text: text}
}

func serve(t *testing.T, options Options, steps ...step) (*script, *filetest.Faulty) {
	disk := filetest.NewDisk()
	fs := filetest.NewFaulty(disk)
	w := open(t, fs, options)
	ring := &script{steps: steps}
	before := fs.Count(filetest.Sync)
	require.NoError(t, w.Serve(ring))
	assert.GreaterOrEqual(t, fs.Count(filetest.Sync), before)
	records, info, err := readAll(disk, 1)
	require.NoError(t, err)
	requireRuns(t, records, 1, ring.next)
	assert.True(t, info.Closed)
	assert.Equal(t, ring.next, ring.durable[len(ring.durable)-1])
	return ring, fs
}

func TestEachCallIsDurableAtOnce(t *testing.T) {
	ring, _ := serve(t, Options{Durability: EachCall}, step{records: 2}, step{records: 1})
	assert.Equal(t, []uint64{2, 3, 3}, ring.durable)
	assert.Equal(t, []time.Duration{-1, -1, -1}, ring.patience)
}

func TestAnIntervalIsWaitedForAndNoLonger(t *testing.T) {
	const interval = time.Hour
	ring, _ := serve(t, Options{Interval: interval}, step{records: 2}, step{records: 1}, step{}, step{records: 3, wanted: true})
	assert.Equal(t, []uint64{0, 0, 3, 6, 6}, ring.durable, "what did not fill an interval waits, and what is wanted does not")
	assert.Equal(t, time.Duration(-1), ring.patience[0])
	assert.InDelta(t, interval, ring.patience[1], float64(time.Minute),
		"records that are not durable yet let nobody sleep longer")
	assert.Equal(t, time.Duration(-1), ring.patience[3])

	ring, _ = serve(t, Options{Interval: time.Millisecond}, step{records: 2, delay: 5 * time.Millisecond}, step{})
	assert.Equal(t, []uint64{0, 2, 2}, ring.durable)
}

// slowly is a disk that syncs data when it is let.
type slowly struct {
	file.FS
	begun, let chan struct{}
}

type slowFile struct {
	file.File
	disk *slowly
}

func (s *slowly) Open(path string, flags int, mode os.FileMode) (file.File, error) {
	opened, err := s.FS.Open(path, flags, mode)
	return slowFile{opened, s}, err
}

func (s slowFile) SyncData() error {
	s.disk.begun <- struct{}{}
	<-s.disk.let
	return s.File.SyncData()
}

// beside is a ring that lets the disk sync after some more was taken.
type beside struct {
	script
	taken func(turn int)
}

func (b *beside) Take(patience time.Duration) ([]byte, int, uint64, uint32, bool, bool, bool) {
	b.taken(len(b.patience))
	return b.script.Take(patience)
}

func TestRecordsAreWrittenBesideASync(t *testing.T) {
	disk := &slowly{filetest.NewDisk(), make(chan struct{}, 9), make(chan struct{}, 9)}
	w := open(t, disk, Options{Interval: time.Millisecond})
	ring := &beside{script: script{steps: []step{{records: 1, delay: 5 * time.Millisecond}, {records: 1}, {records: 1}, {}}}}
	ring.taken = func(turn int) {
		if turn == 1 {
			<-disk.begun // which waits now
		}
		if turn == 3 { // records 2 and 3 are written
			assert.Equal(t, []uint64{0, 0, 0}, ring.durable)
			info, err := disk.Stat(directory + "/" + w.name)
			require.NoError(t, err)
			assert.Equal(t, int64(4*unitBytes), info.Size)
			for range 9 {
				disk.let <- struct{}{}
			}
		}
	}
	require.NoError(t, w.Serve(ring))
	assert.Equal(t, []uint64{0, 0, 0, 3, 3}, ring.durable)
}

func TestASyncBesideTheWritingThatFails(t *testing.T) {
	counting := filetest.NewFaulty(filetest.NewDisk())
	open(t, counting, Options{})
	next := counting.Count(filetest.Sync) + 1
	fs := filetest.NewFaulty(filetest.NewDisk(), filetest.Fault{Kind: filetest.Sync, Nth: next, Errno: syscall.EIO})
	w := open(t, fs, Options{Interval: time.Millisecond})
	ring := &script{steps: slices.Repeat([]step{{records: 1, delay: 5 * time.Millisecond}}, 10)}
	require.Error(t, w.Serve(ring))
	assert.Equal(t, status.IO, code(ring.failure))
	assert.Equal(t, uint64(0), slices.Max(ring.durable))
}

func TestNoDurabilityLeavesItToTheSystem(t *testing.T) {
	ring, _ := serve(t, Options{Durability: None}, step{records: 2, delay: 20 * time.Millisecond}, step{records: 1},
		step{records: 1, wanted: true})
	assert.Equal(t, []uint64{0, 0, 4, 4}, ring.durable)
	assert.Equal(t, []time.Duration{-1, -1, -1, -1}, ring.patience)
}

func TestAFailureReachesTheRing(t *testing.T) {
	// Opening needs two and one, and zeros are one.
	for kind, nth := range map[filetest.Kind]int{filetest.Write: 5, filetest.Sync: 3} {
		disk := filetest.NewDisk()
		fs := filetest.NewFaulty(disk, filetest.Fault{Kind: kind, Nth: nth, Errno: syscall.ENOSPC})
		w := open(t, fs, Options{Durability: EachCall})
		ring := &script{steps: []step{{records: 1}, {records: 1}, {records: 1}}}
		err := w.Serve(ring)
		require.Error(t, err)
		var own *status.Error
		require.True(t, errors.As(ring.failure, &own))
		assert.Equal(t, status.NoSpace, own.Code)
		assert.Equal(t, int32(syscall.ENOSPC), own.Foreign)
		assert.Contains(t, own.Text, "the journal has failed: cannot ")
		assert.Contains(t, own.Text, "/journal/journal-00000000000000000001.mmsbj: no space left on device (ENOSPC)")
		assert.Equal(t, []uint64{1}, ring.durable)
		_, err = NewWriter(disk, directory, Options{})
		require.Equal(t, status.Busy, code(err), "the state goes on with another writer, or ends")
		next, err := NewWriter(disk, directory, Options{Held: w.Held()})
		require.NoError(t, err)
		w.Release()
		_, err = NewWriter(disk, directory, Options{})
		require.Equal(t, status.Busy, code(err), "the next one has the directory")
		require.NoError(t, next.Close())
		w, err = NewWriter(disk, directory, Options{})
		require.NoError(t, err, "the directory was let go")
		require.NoError(t, w.Close())
	}
}

func TestTheExtentIsKnownWhileItIsWritten(t *testing.T) {
	disk := filetest.NewDisk()
	w := open(t, disk, Options{SegmentBytes: 8192})
	ring := &script{steps: slices.Repeat([]step{{records: 1}}, 200)}
	served := make(chan error)
	go func() { served <- w.Serve(ring) }()
	last := Extent{}
	for turn := 0; last.First < 150; turn++ {
		now := w.Extent()
		require.GreaterOrEqual(t, now.First, last.First)
		require.Positive(t, now.Segments)
		require.GreaterOrEqual(t, now.Bytes, int64(now.Segments*unitBytes))
		require.NoError(t, w.Drop(min(now.First+uint64(turn%7), 170)))
		last = now
	}
	require.NoError(t, <-served)
	requireExtent(t, w, disk)
}

// panicking is a ring that goes wrong.
type panicking struct{ script }

func (*panicking) Take(time.Duration) ([]byte, int, uint64, uint32, bool, bool, bool) {
	panic("planted")
}

func TestAPanicLetsNobodyWait(t *testing.T) {
	disk := filetest.NewDisk()
	w := open(t, disk, Options{})
	var ring panicking
	assert.PanicsWithValue(t, "planted", func() { _ = w.Serve(&ring) })
	assert.Equal(t, status.Internal, code(ring.failure))
	require.NoError(t, open(t, disk, Options{}).Close(), "the directory was let go")
}

// Zeros lie before frames that are synced one by one: the file's end moves once for many of them. They go when the segment ends.
func TestFramesOfCallsLieInZeros(t *testing.T) {
	disk := filetest.NewDisk()
	w := open(t, disk, Options{Durability: EachCall, SegmentBytes: 3 * unitBytes})
	size := func(name string) int64 {
		info, err := disk.Stat(directory + "/" + name)
		require.NoError(t, err)
		return info.Size
	}
	first := w.name
	require.NoError(t, write(w, run(1)))
	long := size(first)
	assert.Equal(t, int64(2*unitBytes+ahead), long)
	require.NoError(t, write(w, run(1)))
	assert.Equal(t, long, size(first))
	j, err := Open(disk, directory)
	require.NoError(t, err)
	assert.Equal(t, uint64(2), j.Info().Last)
	require.NoError(t, write(w, run(1)))
	require.NotEqual(t, first, w.name)
	assert.Equal(t, int64(3*unitBytes), size(first))
	require.NoError(t, w.Close())
	assert.Equal(t, int64(3*unitBytes), size(w.name), "header, frame, end")
	j, err = Open(disk, directory)
	require.NoError(t, err)
	assert.Equal(t, uint64(3), j.Info().Last)
	assert.Zero(t, j.Info().TornBytes)
}

func TestZerosBehindFramesAreOnlyTried(t *testing.T) {
	disk := filetest.NewDisk()
	counting := filetest.NewFaulty(disk)
	w := open(t, counting, Options{Durability: EachCall})
	before := counting.Count(filetest.Write)
	require.NoError(t, w.Close())
	disk = filetest.NewDisk()
	fs := filetest.NewFaulty(disk, filetest.Fault{Kind: filetest.Write, Nth: before + 1, Errno: syscall.ENOSPC})
	w = open(t, fs, Options{Durability: EachCall})
	require.NoError(t, write(w, run(1)))
	require.NoError(t, w.Close())
}
