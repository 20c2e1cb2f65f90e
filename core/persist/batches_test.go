package persist

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"libmmsb/core/journal"
	"libmmsb/core/page"
	"libmmsb/native/nativetest"
)

// What a batch, or a group, leaves in the ring of a process that is killed in the middle of it. The ring after the call is cut at
// each record, which is what the kill would have left: threads store records one behind the other, and say at the end that the
// group is complete.

// batches are those that change pages, all or none, and a group of everything.
var batches = map[string]func(t *testing.T, context uint64, pages []uint64){
	"write many": func(t *testing.T, _ uint64, pages []uint64) {
		require.Zero(t, nativetest.WritePages(pages, []uint64{1, 2, 3, 4}, []uint64{5, 6, 7, 8}, bytes.Repeat([]byte{9}, 26)))
	},
	"apply many": func(t *testing.T, _ uint64, pages []uint64) {
		require.Zero(t, nativetest.ApplyPages(pages, []byte("applied")))
	},
	"apply runs": func(t *testing.T, _ uint64, pages []uint64) {
		require.Zero(t, nativetest.ApplyRuns(pages, []uint64{1, 2, 3, 4}, 5, bytes.Repeat([]byte{9}, 20)))
	},
	"resize many": func(t *testing.T, _ uint64, pages []uint64) {
		_, err := page.ResizeMany(pages, []uint64{50, 5000, 50000, 150})
		require.NoError(t, err)
	},
	"destroy many": func(t *testing.T, _ uint64, pages []uint64) { require.Zero(t, nativetest.DestroyPages(pages)) },
	"clone many": func(t *testing.T, _ uint64, pages []uint64) {
		_, err := page.CloneMany(pages, nil, make([]uint64, len(pages)))
		require.NoError(t, err)
	},
	"create many": func(t *testing.T, context uint64, _ []uint64) {
		require.NoError(t, page.CreateMany(context, 100, plain, make([]uint64, 5), nil))
	},
	"create many of sizes and ids": func(t *testing.T, context uint64, _ []uint64) {
		options := plain
		options.Sizes, options.IDs = []uint64{1, 70000, 100}, []uint64{91, 0, 92}
		require.NoError(t, page.CreateMany(context, 0, options, make([]uint64, 3), nil))
	},
	"adopt many": adoptThree,
	"adopt many in a group": func(t *testing.T, context uint64, pages []uint64) {
		require.NoError(t, page.BeginGroup(context))
		adoptThree(t, context, pages)
		require.NoError(t, page.CommitGroup(context))
	},
	"a group": func(t *testing.T, context uint64, pages []uint64) {
		require.NoError(t, page.BeginGroup(context))
		write(t, pages[0], 3, []byte("group"))
		_, err := page.ResizeMany(pages[:2], []uint64{7000, 7})
		require.NoError(t, err)
		require.NoError(t, page.SetMetadata(pages[1], []byte("key"), []byte("value")))
		require.NoError(t, page.AddDependency(pages[0], pages[1]))
		require.NoError(t, page.RemoveDependency(pages[2], pages[3]))
		require.Zero(t, nativetest.ApplyRuns(pages[:1], []uint64{6000}, 5, make([]byte, 5)))
		clone, err := page.Clone(pages[0], 0)
		require.NoError(t, err)
		require.NoError(t, page.CreateMany(context, 100, plain, make([]uint64, 3), nil))
		require.Zero(t, nativetest.DestroyPages([]uint64{pages[2], clone}))
		require.NoError(t, page.CommitGroup(context))
	},
}

// adoptable is memory that is not Go's.
var adoptable = func() []byte {
	memory, err := unix.Mmap(-1, 0, 21000, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		panic(err)
	}
	copy(memory, bytes.Repeat([]byte("adopted"), len(memory)/7))
	return memory
}()

func adoptThree(t *testing.T, context uint64, _ []uint64) {
	at := uintptr(unsafe.Pointer(unsafe.SliceData(adoptable)))
	require.NoError(t, page.Use(context, func(c *page.Context) error {
		addresses, sizes, ids := []uintptr{at, at + 3, at + 10000}, []uint64{1000, 10, 11000}, []uint64{0, 90, 0}
		_, err := c.AdoptMany(addresses, sizes, ids, page.AdoptOptions{}, make([]uint64, 3))
		return err
	}))
}

func TestABatchComesBackWholeOrNotAtAll(t *testing.T) {
	for name, do := range batches {
		t.Run(name, func(t *testing.T) {
			onOneThread(t)
			context, directory := newContext(t), filepath.Join(t.TempDir(), "log")
			const later = 3600 * 1000 // milliseconds
			require.NoError(t, OpenJournal(context, directory, JournalOptions{IntervalMs: later, SegmentBytes: 1 << 20}, nil))
			var pages []uint64
			for i := range byte(4) {
				pages = append(pages, createFilled(t, context, 100*uint64(i+1), 0, i))
			}
			require.NoError(t, page.AddDependency(pages[2], pages[3]))
			before := worldOf(t, context)
			require.NoError(t, SyncJournal(context, nil)) // an empty buffer is next, which stays in the ring for later
			do(t, context, pages)
			after := worldOf(t, context)
			require.False(t, before.is(after), "the batch changes something")
			all := recordsOf(t, directory)
			require.Greater(t, len(all), 1)
			for cut := range len(all) + 1 {
				got := worldOf(t, replayed(t, "", killed(t, directory, all, cut), LoadOptions{}))
				want := before
				if cut == len(all) {
					want = after
				}
				require.True(t, want.is(got), "%d of %d records\n%s", cut, len(all), want.unlike(got))
			}
		})
	}
}

// place is where a record lies in a ring, and the first one of its group.
type place struct{ at, group int }

// recordsOf are the records in the buffer of the ring that no writer has taken yet.
func recordsOf(t *testing.T, directory string) (found []place) {
	t.Helper()
	ring, err := os.ReadFile(filepath.Join(directory, ringFile))
	require.NoError(t, err)
	size := int(binary.LittleEndian.Uint64(ring[16:]))
	begin := journal.RingHeadBytes // of the buffer in use
	if !bytes.HasPrefix(ring[begin:], []byte("MMSBBUFF")) {
		begin += size
	}
	require.True(t, bytes.HasPrefix(ring[begin:], []byte("MMSBBUFF")))
	marks := ring[journal.RingHeadBytes+2*size:]
	for at := begin; at < begin+size; at += journal.MarkedBytes {
		mark := int(marks[(at-journal.RingHeadBytes)/journal.MarkedBytes])
		if mark == 0 {
			continue
		}
		group := at + (mark-1)*8
		ends := group + (int(binary.LittleEndian.Uint32(ring[group:]))+7)&^7
		if journal.Kind(ring[group+4]) == journal.Group {
			ends += int(binary.LittleEndian.Uint64(ring[group+40:]))
		}
		for record := group; record < ends; record += (int(binary.LittleEndian.Uint32(ring[record:])) + 7) &^ 7 {
			found = append(found, place{record, group})
		}
	}
	return found
}

// killed is a copy of a journal's directory whose ring has only the records before a cut.
func killed(t *testing.T, directory string, records []place, cut int) (copied string) {
	t.Helper()
	copied = filepath.Join(t.TempDir(), fmt.Sprint(cut))
	require.NoError(t, os.CopyFS(copied, os.DirFS(directory)))
	if cut == len(records) {
		return copied
	}
	path := filepath.Join(copied, ringFile)
	ring, err := os.ReadFile(path)
	require.NoError(t, err)
	const head = journal.RingHeadBytes
	buffers := ring[head:][:2*binary.LittleEndian.Uint64(ring[16:])]
	marks := ring[head+len(buffers):]
	clear(marks[(records[cut].group-head)/journal.MarkedBytes:])
	clear(buffers[records[cut].at-head:])
	require.NoError(t, os.WriteFile(path, ring, 0o600))
	return copied
}
