package persist

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"libmmsb/core/abi"
	"libmmsb/core/file"
	"libmmsb/core/file/filetest"
	"libmmsb/core/page"
	"libmmsb/core/snapshot"
	"libmmsb/core/status"
	"libmmsb/core/ticket"
	"libmmsb/native"
	"libmmsb/native/nativetest"
)

// A context that fills its limit, with small pages, large ones, masks and metadata, is restored in place.
func TestAFullContextIsRestoredInPlace(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	const limit = 16 << 20
	full := func(context uint64) {
		for _, size := range []uint64{4 << 20, 300_000, 5000, 4096, 1000, 64} {
			for filled := uint64(0); ; filled += size {
				var handle uint64
				err := page.Use(context, func(c *page.Context) (err error) {
					handle, err = c.Create(size, page.CreateOptions{NUMANode: -1})
					return err
				})
				if status.CodeOf(err) == status.Limit || filled > 3<<20 {
					break
				}
				require.NoError(t, err)
				write(t, handle, 0, bytes.Repeat([]byte{byte(size), byte(filled), 3}, int(size)/3))
			}
		}
	}
	for _, way := range []string{"same", "other sizes"} {
		t.Run(way, func(t *testing.T) {
			context, err := page.NewContext(page.Options{MemoryLimit: limit, SimulatedDevices: 1})
			require.NoError(t, err)
			defer func() { _ = page.Destroy(context) }()
			full(context)
			path := filepath.Join(t.TempDir(), "state")
			require.NoError(t, Save(context, ToPath(path), SaveOptions{}, nil))
			before := contents(t, context)
			if way != "same" {
				require.NoError(t, page.Use(context, func(c *page.Context) error {
					var cursor uint64
					pages := make([]uint64, 1<<20)
					for n := c.Pages(&cursor, pages); n > 0; n = c.Pages(&cursor, pages) {
						for _, handle := range pages[:n] {
							require.Zero(t, nativetest.Destroy(handle))
						}
					}
					return nil
				}))
				for range 3 {
					createFilled(t, context, 5<<20, 0, 7)
				}
			}
			require.Equal(t, status.Limit, status.CodeOf(Load(context, FromPath(path), LoadOptions{}, nil)))
			require.NoError(t, Load(context, FromPath(path), LoadOptions{InPlace: true}, nil))
			require.Equal(t, before, contents(t, context))
			for range 3 {
				require.NoError(t, Load(context, FromPath(path), LoadOptions{InPlace: true}, nil))
			}
			require.Equal(t, before, contents(t, context))
		})
	}
}

// Damage is found before anything has changed.
func TestADamagedFileIsNotLoadedInPlace(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	context := newContext(t)
	createFilled(t, context, 1<<20, 1, 1)
	createFilled(t, context, 100, 2, 2)
	path := filepath.Join(t.TempDir(), "state")
	require.NoError(t, Save(context, ToPath(path), SaveOptions{}, nil))
	file, err := os.ReadFile(path)
	require.NoError(t, err)
	createFilled(t, context, 50, 3, 3)
	before := contents(t, context)
	for at := 0; at < len(file); at += 1 + len(file)/50 {
		damaged := bytes.Clone(file)
		damaged[at] ^= 1
		require.NoError(t, os.WriteFile(path, damaged, 0o600))
		if err := Load(context, FromPath(path), LoadOptions{InPlace: true}, nil); err != nil {
			require.Equal(t, before, contents(t, context), "byte %d: %v", at, err)
		} else {
			require.Len(t, contents(t, context), 2, "byte %d is not part of the state", at)
			createFilled(t, context, 50, 3, 3)
		}
	}
}

// Of pages that are chosen all bytes are verified, in whichever file they lie, and those of the others are not looked at.
func TestWhatIsNotChosenIsNotRead(t *testing.T) {
	onOneThread(t)
	const size = 3*native.ChunkBytes + 100
	for name, compression := range map[string]int32{"as they are": abi.CompressionNone, "compressed": abi.CompressionZstd} {
		t.Run(name, func(t *testing.T) {
			folder := t.TempDir()
			base, path := filepath.Join(folder, "base"), filepath.Join(folder, "state")
			saved := newContext(t)
			var want [3][]byte
			for i := range want {
				handle := createFilled(t, saved, size, uint64(i+1), byte(i+1))
				write(t, handle, 5000, bytes.Repeat([]byte{1, 2, byte(i)}, 70_000))
			}
			require.NoError(t, Save(saved, ToPath(base), SaveOptions{Compression: compression}, nil))
			for i := range want {
				handle := handleOf(t, saved, uint64(i+1))
				write(t, handle, 8192, bytes.Repeat([]byte{9}, 5000))
				want[i] = content(t, handle)
			}
			require.NoError(t, Save(saved, ToPath(path), SaveOptions{Base: base, Compression: compression}, nil))

			stored, err := snapshot.Open(path, snapshot.OpenOptions{})
			require.NoError(t, err)
			defer func() { _ = stored.Close() }()
			for damaged := range want {
				pieces, err := stored.Extents(uint64(damaged + 1))
				require.NoError(t, err)
				for _, piece := range pieces {
					if piece.Kind != snapshot.KindBytes || piece.Stored == 0 {
						continue
					}
					file, at := []string{path, base}[piece.File], int64(piece.FileOffset)+int64(piece.Stored)/2
					flip(t, file, at)
					for chosen := range want {
						context := newContext(t)
						_, memory := adoptMapping(t, context, uint64(chosen+1), size)
						err := Load(context, FromPath(path), LoadOptions{InPlace: true, IDs: []uint64{uint64(chosen + 1)}}, nil)
						if chosen == damaged {
							require.Equal(t, status.Corrupt, status.CodeOf(err), "%s at %d: %v", file, at, err)
							require.Equal(t, make([]byte, size), memory)
						} else {
							require.NoError(t, err)
							require.Equal(t, want[chosen], memory)
						}
					}
					flip(t, file, at)
				}
			}
		})
	}
}

// flip changes a byte of a file, and the second time back.
func flip(t *testing.T, path string, at int64) {
	t.Helper()
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	require.NoError(t, err)
	defer func() { require.NoError(t, file.Close()) }()
	var one [1]byte
	_, err = file.ReadAt(one[:], at)
	require.NoError(t, err)
	one[0] ^= 1
	_, err = file.WriteAt(one[:], at)
	require.NoError(t, err)
}

// twoAdopted saves two pages, and makes a context that has adopted other memory under their ids.
func twoAdopted(t *testing.T, path string) (context uint64, memories [2][]byte, want [2][]byte) {
	sizes := [2]uint64{native.ChunkBytes + 5001, 3000}
	saved := newContext(t)
	for i, size := range sizes {
		handle := createFilled(t, saved, size, uint64(i+1), 0)
		want[i] = bytes.Repeat([]byte{1, 2, 3, byte(i), 5}, int(size)/5)
		write(t, handle, 0, want[i])
	}
	require.NoError(t, Save(saved, ToPath(path), SaveOptions{}, nil))
	context = newContext(t)
	for i, size := range sizes {
		_, memories[i] = adoptMapping(t, context, uint64(i+1), size)
	}
	return context, memories, want
}

// Pages of all sizes that come and go leave memory in the magazines of the thread that ends them, and in those of the threads
// that read: a context that is full of them is restored in place, too.
func TestAFullContextOfPagesThatCameAndWent(t *testing.T) {
	onOneThread(t)
	for seed := range uint64(4) {
		random := rand.New(rand.NewPCG(seed, 1))
		context, err := page.NewContext(page.Options{MemoryLimit: 16 << 20, SimulatedDevices: 1})
		require.NoError(t, err)
		var handles []uint64
		create := func() bool {
			err := page.Use(context, func(c *page.Context) error {
				handle, err := c.Create(1+random.Uint64N(60000), page.CreateOptions{NUMANode: -1})
				if err == nil {
					handles = append(handles, handle)
				}
				return err
			})
			return err == nil
		}
		for refused := 0; refused < 20; {
			if !create() {
				refused++
			}
		}
		for range 400 {
			at := random.IntN(len(handles))
			require.Zero(t, nativetest.Destroy(handles[at]))
			handles[at] = handles[len(handles)-1]
			handles = handles[:len(handles)-1]
			create()
		}
		path := filepath.Join(t.TempDir(), "state")
		require.NoError(t, Save(context, ToPath(path), SaveOptions{}, nil))
		want := contents(t, context)
		require.NoError(t, Load(context, FromPath(path), LoadOptions{InPlace: true}, nil))
		require.Equal(t, want, contents(t, context))
		require.NoError(t, page.Use(context, (*page.Context).Check))
		require.NoError(t, page.Destroy(context))
	}
}

// Where the disk fails after everything was verified, a page that was not read waits in the file, and its memory goes back.
func TestADiskThatFailsBehindTheVerification(t *testing.T) {
	onOneThread(t)
	path := filepath.Join(t.TempDir(), "state")
	for _, ids := range [][]uint64{nil, {1, 2}} {
		diskFails(t, path, LoadOptions{InPlace: true, IDs: ids})
	}
}

func diskFails(t *testing.T, path string, o LoadOptions) {
	before, behind, whole := 0, 0, false
	for nth := 1; !whole; nth++ {
		context, memories, want := twoAdopted(t, path)
		fs := filetest.NewFaulty(file.OS{}, filetest.Fault{Kind: filetest.Read, Nth: nth, Errno: unix.EIO})
		err := Load(context, LoadSource{path: path, FS: fs}, o, nil)
		found := status.Of(err)
		switch {
		case err == nil:
			whole = fs.Hits() == 0
			require.Equal(t, want, memories)
		case strings.HasPrefix(found.Text, "the state is loaded, but page"):
			require.Equal(t, status.IO, found.Code)
			require.ErrorContains(t, err, "and its memory goes back")
			behind++
			for i := range want {
				handle := handleOf(t, context, uint64(i+1))
				require.True(t, !isAdopted(handle) || bytes.Equal(want[i], memories[i]))
				require.Equal(t, want[i], content(t, handle)) // the disk has failed once
			}
		default:
			before++
			for i := range want {
				require.Equal(t, make([]byte, len(want[i])), memories[i], "read %d: %v", nth, err)
				require.True(t, isAdopted(handleOf(t, context, uint64(i+1))))
			}
		}
		require.NoError(t, page.Use(context, (*page.Context).Check))
	}
	require.Positive(t, before)
	require.Positive(t, behind)
}

// A load in place that is cancelled has changed nothing, or fills adopted memory to its end.
func TestACancelledLoadInPlaceFillsAllOrNothing(t *testing.T) {
	onOneThread(t)
	path := filepath.Join(t.TempDir(), "state")
	for _, ids := range [][]uint64{nil, {1, 2}} {
		fillsAllOrNothing(t, path, LoadOptions{InPlace: true, IDs: ids})
	}
}

func fillsAllOrNothing(t *testing.T, path string, o LoadOptions) {
	cancelled, whole := 0, 0
	for nth, last := 1, false; !last; nth++ {
		context, memories, want := twoAdopted(t, path)
		fs, task := filetest.NewFaulty(file.OS{}), make(chan *ticket.Ticket, 1)
		last = true
		fs.Before = func(kind filetest.Kind, n int) {
			if kind == filetest.Read && n == nth {
				last = false
				work := <-task
				work.Cancel()
				task <- work
			}
		}
		work := ticket.Start(0, nil, func(w *ticket.Work) error {
			return Load(context, LoadSource{path: path, FS: fs}, o, w)
		})
		task <- work
		err := work.Wait(ticket.Forever)
		work.Close()
		if err == nil {
			whole++
			require.Equal(t, want, memories)
			continue
		}
		cancelled++
		require.Equal(t, status.Cancelled, code(err), "%v", err)
		require.Zero(t, bytes.Count(memories[0], []byte{0})-len(memories[0]))
		require.Zero(t, bytes.Count(memories[1], []byte{0})-len(memories[1]))
	}
	require.Positive(t, cancelled)
	require.Greater(t, whole, 1)
}
