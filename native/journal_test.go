package native_test

import (
	"bytes"
	"math"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"libmmsb/core/file"
	"libmmsb/core/file/filetest"
	"libmmsb/core/journal"
	"libmmsb/core/status"
	"libmmsb/native"
)

const contextIndex = 11

// serving is a ring with its writer at work.
type serving struct {
	ring native.Ring
	done chan error
}

func serve(t *testing.T, fs file.FS, durability journal.Durability, bufferBytes int) serving {
	t.Helper()
	require.Zero(t, native.Start())
	w, err := journal.NewWriter(fs, "/journal", journal.Options{Durability: durability, SegmentBytes: 1 << 20})
	require.NoError(t, err)
	interval := time.Millisecond
	if durability == journal.EachCall {
		interval = 0
	}
	ring, code := native.OpenRing(contextIndex, w.Next(), bufferBytes, interval, durability == journal.EachCall, nil)
	require.Zero(t, code)
	s := serving{ring, make(chan error, 1)}
	go func() { s.done <- w.Serve(ring) }()
	return s
}

func (s serving) close(t *testing.T) {
	t.Helper()
	s.ring.Stop()
	require.NoError(t, <-s.done)
	s.ring.Close()
}

// Records of several threads, some larger than a buffer, through the C ring to the disk and back; over two sessions.
func TestFromTheRingToTheDiskAndBack(t *testing.T) {
	disk := filetest.NewDisk()
	const threads, perSession = 4, 150
	content := func(page, version uint64) []byte {
		length := version * 13 % 900
		if version%50 == 7 {
			length = 200_000
		}
		return bytes.Repeat([]byte{byte(page*16 + version)}, int(length))
	}
	for session := range uint64(2) {
		s := serve(t, disk, journal.Interval, 64<<10)
		var all sync.WaitGroup
		for page := uint64(1); page <= threads; page++ {
			all.Go(func() {
				for i := range uint64(perSession) {
					version := session*perSession + i + 1
					sequence, code := s.ring.Append(native.Head{Kind: uint8(journal.Write), Page: page, Version: version,
						Epoch: 5},
						journal.Words(version), content(page, version))
					assert.Zero(t, code)
					assert.Zero(t, s.ring.Wait(sequence), "returns at once")
				}
			})
		}
		all.Wait()
		last := s.ring.Last()
		assert.Zero(t, s.ring.Flush(last))
		j, err := journal.Open(disk.Crash(session), "/journal")
		require.NoError(t, err)
		assert.Equal(t, last, j.Info().Last, "what was flushed survives a power cut")
		s.close(t)
	}
	j, err := journal.Open(disk, "/journal")
	require.NoError(t, err)
	assert.Greater(t, len(j.Info().Segments), 1)
	versions := map[uint64]uint64{}
	for record, err := range j.Records(1, math.MaxUint64) {
		require.NoError(t, err)
		versions[record.Page]++
		require.Equal(t, versions[record.Page], record.Version)
		require.Equal(t, record.Version, record.Offset)
		require.True(t, bytes.Equal(content(record.Page, record.Version), record.Bytes))
		require.WithinDuration(t, time.Now(), time.Unix(0, record.Time), time.Hour)
	}
	assert.Equal(t, map[uint64]uint64{1: 300, 2: 300, 3: 300, 4: 300}, versions)
}

// With durability "each call", a power cut after Wait has returned loses nothing.
func TestEachCallSurvivesAPowerCut(t *testing.T) {
	disk := filetest.NewDisk()
	s := serve(t, disk, journal.EachCall, 64<<10)
	for i := range uint64(40) {
		sequence, code := s.ring.Append(native.Head{Kind: uint8(journal.Destroy), Page: i + 1})
		require.Zero(t, code)
		require.Equal(t, i+1, sequence)
		require.Zero(t, s.ring.Wait(sequence))
		j, err := journal.Open(disk.Crash(i), "/journal")
		require.NoError(t, err)
		require.GreaterOrEqual(t, j.Info().Last, sequence)
	}
	s.close(t)
	_, open := native.RingOf(contextIndex)
	assert.False(t, open)
}

// When the disk is full, calls fail with its error before they change anything, until the journal is closed.
func TestAFullDiskFailsCalls(t *testing.T) {
	runtime.LockOSThread() // the last error is the thread's
	defer runtime.UnlockOSThread()
	// Opening writes the lock and a header; zeros lie before the frames of calls.
	fs := filetest.NewFaulty(filetest.NewDisk(), filetest.Fault{Kind: filetest.Write, Nth: 6, Forever: true,
		Errno: syscall.ENOSPC})
	s := serve(t, fs, journal.EachCall, 64<<10)
	code := int32(0)
	acknowledged := 0
	for range 10 {
		var sequence uint64
		if sequence, code = s.ring.Append(native.Head{Kind: uint8(journal.Destroy), Page: 1}); code == 0 {
			code = s.ring.Wait(sequence)
		}
		if code != 0 {
			break
		}
		acknowledged++
	}
	assert.Equal(t, 2, acknowledged)
	assert.Equal(t, int32(status.NotDurable), code)
	err := <-s.done
	require.Error(t, err)
	_, code = s.ring.Append(native.Head{Kind: uint8(journal.Destroy), Page: 1})
	assert.Equal(t, int32(status.NoSpace), code)
	last, domain, foreign, text := native.LastError()
	assert.Equal(t, []int32{int32(status.NoSpace), status.DomainErrno, int32(syscall.ENOSPC)}, []int32{last, domain, foreign})
	assert.Contains(t, text, "the journal has failed: cannot write 4096 bytes at offset 12288 of /journal/journal-")
	// A record larger than both buffers fails as well.
	_, code = s.ring.Append(native.Head{Kind: uint8(journal.Write), Page: 1}, journal.Words(0), make([]byte, 300_000))
	assert.Equal(t, int32(status.NoSpace), code)
	s.ring.Close()
	sequence, code := s.ring.Append(native.Head{Kind: uint8(journal.Destroy), Page: 1})
	assert.Equal(t, []any{uint64(0), int32(0)}, []any{sequence, code}, "closed: calls are not journalled, and do not fail")
}
