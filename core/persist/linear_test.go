package persist

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"libmmsb/core/file"
	"libmmsb/core/journal"
	"libmmsb/core/page"
	"libmmsb/core/snapshot"
	"libmmsb/core/status"
	"libmmsb/core/ticket"
	"libmmsb/native"
	"libmmsb/native/nativetest"
)

// edgesFile is a file of small pages of which each depends on all before it, the newest edges first.
func edgesFile(t *testing.T, path string, pages uint64) {
	t.Helper()
	sink, err := file.Memory()
	require.NoError(t, err)
	defer sink.Close()
	w, err := snapshot.NewWriter(sink, snapshot.Header{}, snapshot.Options{AveragePageSize: 1})
	require.NoError(t, err)
	var pairs [][2]uint64
	for id := pages; id > 0; id-- {
		entry := snapshot.Page{ID: id, Size: 1, Version: 1, NUMANode: -1}
		require.NoError(t, w.Add(entry, snapshot.KindBytes, 0, []byte{1}, snapshot.Uncompressed))
		for parent := range id - 1 {
			pairs = append(pairs, [2]uint64{parent + 1, id})
		}
	}
	require.NoError(t, w.Edges(pairs))
	_, err = w.Finish(pages, pages)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, sink.Bytes(), 0o600))
}

// originalFile is one of version 2 with pages of one byte.
func originalFile(t *testing.T, path string, pages int) {
	t.Helper()
	raw := append([]byte("MMSBSNAP\x02\x00\x00\x00"), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
	binary.LittleEndian.PutUint32(raw[12:], uint32(pages))
	for id := range pages {
		raw = binary.LittleEndian.AppendUint64(raw, uint64(id+1))
		raw = binary.LittleEndian.AppendUint64(raw, 1)
		raw = append(raw, make([]byte, 12)...)
		raw = binary.LittleEndian.AppendUint32(raw, 1)
		raw = append(raw, 7)
	}
	require.NoError(t, os.WriteFile(path, raw, 0o600))
}

// tooSlow is far more of processors than what these files take, and far less than what they took when work grew with the square.
const tooSlow = 12 * time.Second

// spent is the time of processors that the process has had: nothing of what other programs, or other machines of the host, had.
func spent(t *testing.T) time.Duration {
	t.Helper()
	var had unix.Timespec
	require.NoError(t, unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &had))
	return time.Duration(had.Nano())
}

// part is less of what is large, for the race detector, which makes work ten times as slow.
func part[N int | uint64](large N) N {
	if raceDetector {
		return large / 10
	}
	return large
}

func TestFilesOfManySmallPartsAreLoaded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "many")
	for name, make := range map[string]func(){
		"4.8 MB of dependencies":           func() { edgesFile(t, path, part[uint64](775)) },
		"version 2 with pages of one byte": func() { originalFile(t, path, part(300_000)) },
	} {
		make()
		for _, o := range []LoadOptions{{}, {Lazy: true}, {InPlace: true}, {IDs: []uint64{1, 2, 3}}} {
			context := newContext(t)
			before := spent(t)
			require.NoError(t, Load(context, FromPath(path), o, nil), name)
			assert.Less(t, spent(t)-before, tooSlow, "%s %v", name, o)
			require.NoError(t, page.Destroy(context))
		}
		before := spent(t)
		_, err := snapshot.Compact(path, path+"2", snapshot.CompactOptions{})
		require.NoError(t, err)
		assert.Less(t, spent(t)-before, tooSlow, name)
	}
}

func TestManyMaskClearsOfALargePageAreReplayed(t *testing.T) {
	directory := filepath.Join(t.TempDir(), "journal")
	context := newContext(t)
	require.NoError(t, OpenJournal(context, directory, JournalOptions{IntervalMs: 1000}, nil))
	const size = 16 << 20
	handle := createFilled(t, context, size, 1, 0)
	mark := func(offset uint64) {
		require.Zero(t, nativetest.ApplyRuns([]uint64{handle}, []uint64{offset}, 3, []byte{1, 2, 3}))
	}
	clearMany := func() { // until 2026-11-27 each was a record, whether a bit was set or not
		require.Zero(t, nativetest.ClearMask(handle))
		require.NoError(t, page.ChangeAgain(handle, func(p *page.Page) error {
			ring, ok := native.RingOf(stateOf(t, context).context.Index())
			require.True(t, ok)
			for range 2000 {
				p.Record.Version++
				_, code := ring.Append(native.Head{Kind: uint8(journal.MaskClear), Page: 1, Version: p.Record.Version})
				require.Zero(t, code)
			}
			return nil
		}))
	}
	mark(5)
	clearMany()
	mark(size - 3)
	mark(0)
	require.Zero(t, nativetest.ClearMask(handle))
	mark(size / 2)
	clearMany()
	mark(900)
	require.NoError(t, CloseJournal(context))
	log, err := journal.Open(file.OS{}, directory)
	require.NoError(t, err)
	require.Greater(t, log.Info().Last, uint64(4000))
	want := maskOf(t, handle)
	require.NoError(t, page.Destroy(context))
	again := newContext(t)
	require.NoError(t, Load(again, FromPath(""), LoadOptions{Journal: directory}, nil))
	require.True(t, bytes.Equal(want, maskOf(t, pageWith(t, again, 1))))
}

func maskOf(t *testing.T, handle uint64) (mask []byte) {
	t.Helper()
	require.NoError(t, page.Read(handle, func(p *page.Page) error {
		mask = bytes.Clone(p.Mask())
		return nil
	}))
	return mask
}

// TestWhatTakesLongIsEnded cancels work at moments from its beginning to its end. It must be heard soon.
func TestWhatTakesLongIsEnded(t *testing.T) {
	directory := t.TempDir()
	edges, original := filepath.Join(directory, "edges"), filepath.Join(directory, "original")
	edgesFile(t, edges, part[uint64](1000))
	originalFile(t, original, part(200_000))
	for _, path := range []string{edges, original} {
		for name, run := range map[string]func(w *ticket.Work) error{
			"load":   func(w *ticket.Work) error { return Load(newContext(t), FromPath(path), LoadOptions{}, w) },
			"lazily": func(w *ticket.Work) error { return Load(newContext(t), FromPath(path), LoadOptions{Lazy: true}, w) },
			"verify": func(w *ticket.Work) error {
				files := snapshot.OpenOptions{FS: file.Asking(file.OS{}, w.GoesOn)}
				_, err := snapshot.Verify(path, snapshot.VerifyOptions{OpenOptions: files, Progress: w.Report})
				return err
			},
		} {
			for after := time.Duration(0); ; after += 5*time.Millisecond + after {
				running := ticket.Start(0, nil, run)
				time.Sleep(after)
				before := spent(t)
				running.Cancel()
				err := running.Wait(uint64(time.Minute)) // nor does it sleep
				assert.Less(t, spent(t)-before, 2*time.Second, "%s of %s after %v", name, path, after)
				running.Close()
				if err == nil {
					break
				}
				require.Equal(t, status.Cancelled, status.CodeOf(err), "%s of %s: %v", name, path, err)
			}
		}
	}
}
