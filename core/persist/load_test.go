package persist

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"libmmsb/core/abi"
	"libmmsb/core/page"
	"libmmsb/core/snapshot"
	"libmmsb/core/status"
	gpupages "libmmsb/gpu/pages"
	"libmmsb/native"
)

// Loads take memory of ended pages as it is: what comes back is what was saved, and pages that are made later are zero.
func TestLoadsGoIntoMemoryOfEndedPages(t *testing.T) {
	onOneThread(t)
	sizes := []uint64{1, 100, 250, 3000, 4096, 4097, 65536, 70001, native.ChunkBytes, native.ChunkBytes + 1, 1<<20 - 1, 2 << 20}
	for _, compression := range []int32{0, 1} {
		saved := newContext(t)
		id := uint64(0)
		for _, size := range sizes {
			for _, filling := range []byte{0, 1} {
				id++
				createFilled(t, saved, size, id, filling)
			}
		}
		path := filepath.Join(t.TempDir(), "state")
		require.NoError(t, Save(saved, ToPath(path), SaveOptions{Compression: compression}, nil))
		expected := contents(t, saved)

		context := newContext(t)
		for _, size := range sizes {
			for range 4 {
				createFilled(t, context, size, 0, 0xff)
			}
		}
		for range 3 {
			require.NoError(t, Load(context, FromPath(path), LoadOptions{}, nil))
			require.Equal(t, expected, contents(t, context))
			for id, content := range expected {
				write(t, handleOf(t, context, id), 0, bytes.Repeat([]byte{0xff}, len(content)))
			}
		}
		require.NoError(t, Load(context, FromPath(path), LoadOptions{}, nil))
		require.NoError(t, page.Use(context, func(c *page.Context) error {
			for _, size := range sizes {
				for range 4 {
					handle := create(t, c, size)
					require.True(t, bytes.Equal(make([]byte, size), content(t, handle)), "a new page of %d bytes is not zero",
						size)
				}
				grown := create(t, c, size)
				require.NoError(t, page.Resize(grown, size+50))
				zero := bytes.Equal(make([]byte, size+50), content(t, grown))
				require.True(t, zero, "a page of %d bytes that grew is not zero", size)
			}
			return nil
		}))
		require.NoError(t, page.Destroy(context))
	}
}

// Pages are locked chunk by chunk of records; where one is pinned, all chunks are unlocked.
func TestOnePinnedPageOfManyRefusesALoad(t *testing.T) {
	onOneThread(t)
	const count, size = 3 * native.LeafRecords, 64
	context := newContext(t)
	pages := make([]uint64, count)
	require.NoError(t, page.CreateMany(context, size, plain, pages, nil))
	path := filepath.Join(t.TempDir(), "state")
	require.NoError(t, Save(context, ToPath(path), SaveOptions{}, nil))
	for _, pinned := range []int{0, count / 2, count - 1} {
		pinToWrite(t, pages[pinned], 1)
		require.Equal(t, status.Busy, code(Load(context, FromPath(path), LoadOptions{}, nil)))
		for _, handle := range pages {
			state := native.RecordAt(native.Index(handle)).LoadState()
			require.Zero(t, state&native.OwnerMask, "page 0x%016x is still locked", handle)
			require.Equal(t, handle>>native.IndexBits, state>>native.IndexBits, "page 0x%016x has ended", handle)
		}
		pinToWrite(t, pages[pinned], -1)
	}
	require.EqualValues(t, count, page.LivePages())
	require.NoError(t, Load(context, FromPath(path), LoadOptions{}, nil))
	require.EqualValues(t, count, page.LivePages())
}

// A load finds a damaged byte wherever it lies, and leaves the context as it was.
func TestALoadRefusesADamagedByte(t *testing.T) {
	for _, compression := range []int32{0, 1} {
		t.Run(fmt.Sprint("compression ", compression), func(t *testing.T) {
			onOneThread(t)
			context, random := newContext(t), rand.New(rand.NewPCG(1, 2))
			saved := make(map[uint64][]byte)
			for i, size := range []uint64{100, 4096, 4096, 70000, native.ChunkBytes + 5000, 4096, 70000} {
				handle := createFilled(t, context, size, uint64(i+1), 0)
				filling := make([]byte, size)
				for at := range filling { // half of it can be compressed
					filling[at] = byte(random.IntN(16))
				}
				write(t, handle, 0, filling)
				saved[uint64(i+1)] = filling
				if i >= 5 {
					require.NoError(t, page.Migrate(handle, abi.LocationDisk, 0))
				}
			}
			path := filepath.Join(t.TempDir(), "state.mmsb")
			require.NoError(t, Save(context, ToPath(path), SaveOptions{Compression: compression}, nil))
			file, err := os.ReadFile(path)
			require.NoError(t, err)

			living := newContext(t)
			createFilled(t, living, 5000, 3, 9)
			before := contents(t, living)
			most := 2000
			if raceDetector {
				most *= 10
			}
			for at := 0; at < len(file); at += 1 + random.IntN(most) {
				damaged := bytes.Clone(file)
				damaged[at] ^= 1 << random.IntN(8)
				require.NoError(t, os.WriteFile(path, damaged, 0o600))
				err := Load(living, FromPath(path), LoadOptions{}, nil)
				require.Error(t, err, "the byte at %d of %d is damaged", at, len(file))
				require.Contains(t, []status.Code{status.Corrupt, status.Format}, status.CodeOf(err), "%d: %v", at, err)
				require.Equal(t, before, contents(t, living), "%d: %v", at, err)
			}
			require.NoError(t, os.WriteFile(path, file, 0o600))
			require.NoError(t, Load(living, FromPath(path), LoadOptions{}, nil))
			require.NoError(t, page.Use(living, func(c *page.Context) error {
				for id, expected := range saved {
					handle, err := c.Lookup(id)
					require.NoError(t, err)
					require.Equal(t, expected, content(t, handle))
				}
				return nil
			}))
		})
	}
}

// Damage to the bytes of any page, in any part of it, is told with the page's id.
func TestDamageIsToldWithThePage(t *testing.T) {
	onOneThread(t)
	context := newContext(t)
	sizes := []uint64{100, 4096, 4096, 70000, native.ChunkBytes + 5000, 4096}
	for i, size := range sizes {
		handle := createFilled(t, context, size, uint64(i+1), 0)
		write(t, handle, 0, bytes.Repeat([]byte{byte(0xc0 + i)}, int(size)))
	}
	path := filepath.Join(t.TempDir(), "state.mmsb")
	require.NoError(t, Save(context, ToPath(path), SaveOptions{}, nil))
	file, err := os.ReadFile(path)
	require.NoError(t, err)
	for i := range sizes {
		one := byte(0xc0 + i)
		run := bytes.Repeat([]byte{one}, 100)
		for _, at := range []int{bytes.Index(file, run), bytes.LastIndex(file, run)} {
			damaged := bytes.Clone(file)
			damaged[at+99] = 0
			require.NoError(t, os.WriteFile(path, damaged, 0o600))
			err := Load(newContext(t), FromPath(path), LoadOptions{}, nil)
			require.Equal(t, status.Corrupt, status.CodeOf(err))
			require.ErrorContains(t, err, fmt.Sprintf("page %d is damaged", i+1))
		}
	}
}

// A load can name its snapshot: where it is another one, nothing has changed.
func TestALoadThatNamesItsSnapshot(t *testing.T) {
	context := newContext(t)
	createFilled(t, context, 100, 1, 1)
	path := filepath.Join(t.TempDir(), "state")
	require.NoError(t, Save(context, ToPath(path), SaveOptions{}, nil))
	opened, err := snapshot.Open(path, snapshot.OpenOptions{})
	require.NoError(t, err)
	id := opened.Header().ID
	require.NoError(t, opened.Close())
	for _, o := range []LoadOptions{{}, {Lazy: true}, {InPlace: true}, {IDs: []uint64{1}}} {
		o.Snapshot = id
		require.NoError(t, Load(context, FromPath(path), o, nil))
		before, handle := contents(t, context), handleOf(t, context, 1)
		o.Snapshot[3] ^= 1
		err := Load(context, FromPath(path), o, nil)
		require.Equal(t, status.Mismatch, status.CodeOf(err), "%v", err)
		require.Equal(t, before, contents(t, context))
		require.Equal(t, handle, handleOf(t, context, 1))
	}
}

// A load that is refused closes what it has opened.
func TestARefusedLoadClosesItsFile(t *testing.T) {
	context := newContext(t)
	createFilled(t, context, 100, 1, 1)
	path := filepath.Join(t.TempDir(), "state")
	require.NoError(t, Save(context, ToPath(path), SaveOptions{}, nil))
	open := func() (count int) {
		links, err := filepath.Glob("/proc/self/fd/*")
		require.NoError(t, err)
		for _, link := range links {
			if to, _ := os.Readlink(link); to == path {
				count++
			}
		}
		return count
	}
	for name, o := range map[string]LoadOptions{
		"no journal":       {Journal: path + "-none"},
		"another snapshot": {Snapshot: snapshot.ID{1}},
	} {
		require.Error(t, Load(context, FromPath(path), o, nil), name)
		require.Zero(t, open(), name)
	}
}

// Who loads pages of a device that is not there hears of which one, and what helps; also where only a journal has it.
func TestPagesOfADeviceThatIsNotThere(t *testing.T) {
	gpupages.Use()
	contextWith := func(devices int32, fallback int32) uint64 {
		context, err := page.NewContext(page.Options{Simulate: abi.SimulateAlways, SimulatedDevices: devices,
			SimulatedMemory: 16 << 20, Fallback: fallback})
		require.NoError(t, err)
		t.Cleanup(func() { _ = page.Destroy(context) })
		return context
	}
	for _, journaled := range []bool{false, true} {
		from := contextWith(3, abi.FallbackError)
		directory := filepath.Join(t.TempDir(), "journal")
		if journaled {
			require.NoError(t, OpenJournal(from, directory, JournalOptions{IntervalMs: 1}, nil))
		}
		handle := createFilled(t, from, 100, 17, 5)
		require.NoError(t, page.Migrate(handle, abi.LocationGPU, 2))
		path := filepath.Join(t.TempDir(), "snapshot")
		options := LoadOptions{}
		if journaled { // its base has no page
			require.NoError(t, page.Destroy(from))
			path, options.Journal = "", directory
		} else {
			require.NoError(t, Save(from, ToPath(path), SaveOptions{}, nil))
		}
		to := contextWith(1, abi.FallbackError)
		err := Load(to, FromPath(path), options, nil)
		require.Equal(t, status.NoDevice, status.CodeOf(err), "%v", err)
		require.ErrorContains(t, err, "page 17 lies on device 2: ")
		require.ErrorContains(t, err, "with fallback host such pages come to the host")
		to = contextWith(1, abi.FallbackHost)
		require.NoError(t, Load(to, FromPath(path), options, nil))
		require.Equal(t, strings.Repeat("\x05", 100), worldOf(t, to).pages[17].bytes)
	}
}
