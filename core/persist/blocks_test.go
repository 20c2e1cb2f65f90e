package persist

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"libmmsb/core/page"
	"libmmsb/core/snapshot"
	"libmmsb/core/track"
	"libmmsb/native"
	"libmmsb/native/nativetest"
)

// adoptMapping makes a page of memory of the test, and says where it lies.
func adoptMapping(t *testing.T, context, id, size uint64) (handle uint64, memory []byte) {
	t.Helper()
	memory, err := unix.Mmap(-1, 0, int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	require.NoError(t, err)
	require.NoError(t, page.Use(context, func(c *page.Context) (err error) {
		handle, err = c.Adopt(uintptr(unsafe.Pointer(unsafe.SliceData(memory))), size, page.AdoptOptions{ID: id})
		return err
	}))
	t.Cleanup(func() { require.NoError(t, unix.Munmap(memory)) })
	return handle, memory
}

// Of a page that the kernel watches, an incremental snapshot has those blocks that were written, until a chunk lies in too many
// files. What comes back of such a chain, at once or when it is needed, can be saved again.
func TestBlocksThatWereWrittenAreSaved(t *testing.T) {
	onOneThread(t)
	if err := track.Available(); err != nil {
		t.Skipf("the kernel does not say what was written: %v", err)
	}
	const size, chunks = 2*native.ChunkBytes + 5000, 2
	random := rand.New(rand.NewPCG(8, 9))
	folder := t.TempDir()
	context := newContext(t)
	_, memory := adoptMapping(t, context, 1, size)
	path := func(number int) string { return filepath.Join(folder, fmt.Sprint(number, ".mmsb")) }
	require.NoError(t, Save(context, ToPath(path(0)), SaveOptions{}, nil))
	stored := func(number int) uint64 {
		info, err := snapshot.Inspect(path(number), snapshot.OpenOptions{})
		require.NoError(t, err)
		return info.StoredBytes
	}
	wholeAgain := 0
	for number := 1; number <= mostLayers+2; number++ {
		for chunk := range uint64(chunks) {
			memory[chunk*native.ChunkBytes+random.Uint64N(native.ChunkBytes/native.GranuleBytes)*native.GranuleBytes]++
		}
		memory[size-1]++ // the last block is a part of one
		require.NoError(t, Save(context, ToPath(path(number)), SaveOptions{Base: path(number - 1)}, nil))
		switch stored(number) {
		case chunks*native.GranuleBytes + size%native.GranuleBytes:
		case chunks*native.ChunkBytes + size%native.ChunkBytes:
			wholeAgain++
		default:
			t.Fatalf("%d bytes are stored", stored(number))
		}
		if number%8 == 0 || number > mostLayers {
			require.Equal(t, contents(t, context), contents(t, load(t, path(number))))
		}
	}
	require.Equal(t, 1, wholeAgain)

	last := mostLayers + 2
	for _, lazy := range []bool{false, true} {
		loaded := newContext(t)
		require.NoError(t, Load(loaded, FromPath(path(last)), LoadOptions{Lazy: lazy}, nil))
		require.Equal(t, contents(t, context), contents(t, loaded))
		write(t, handleOf(t, loaded, 1), 70000, []byte{1, 2, 3})
		again := filepath.Join(folder, fmt.Sprint("again", lazy, ".mmsb"))
		require.NoError(t, Save(loaded, ToPath(again), SaveOptions{Base: path(last)}, nil))
		require.Equal(t, contents(t, loaded), contents(t, load(t, again)))
	}

	// More than half of a chunk is written as a whole.
	for block := range native.ChunkBytes/native.GranuleBytes/2 + 1 {
		memory[block*native.GranuleBytes]++
	}
	require.NoError(t, Save(context, ToPath(path(last+1)), SaveOptions{Base: path(last)}, nil))
	require.EqualValues(t, native.ChunkBytes, stored(last+1))
	require.Equal(t, contents(t, context), contents(t, load(t, path(last+1))))
}

// A call can change a watched page after the moment of a save and before the kernel's count begins anew: the save has the bytes
// of the moment, and the next one has the change.
func TestChangesBesideASaveAreInTheNextOne(t *testing.T) {
	const size = 64 * native.ChunkBytes
	folder := t.TempDir()
	context := newContext(t)
	first := createFilled(t, context, size, 2, 1) // saved first, so that there is time for changes
	handle, memory := adoptMapping(t, context, 1, size)
	base := filepath.Join(folder, "base.mmsb")
	require.NoError(t, Save(context, ToPath(base), SaveOptions{}, nil))
	for number := range 20 {
		write(t, first, 0, []byte{byte(number)})
		var stop atomic.Bool
		var group sync.WaitGroup
		group.Add(1)
		go func() {
			defer group.Done()
			random := rand.New(rand.NewPCG(uint64(number), 1))
			for !stop.Load() {
				_ = nativetest.WritePage(handle, random.Uint64N(size/8)*8, []byte{byte(random.Uint32())})
			}
		}()
		beside, after := filepath.Join(folder, fmt.Sprint(number, "a.mmsb")), filepath.Join(folder, fmt.Sprint(number, "b.mmsb"))
		err := Save(context, ToPath(beside), SaveOptions{Base: base}, nil)
		stop.Store(true)
		group.Wait()
		require.NoError(t, err)
		require.NoError(t, Save(context, ToPath(after), SaveOptions{Base: beside}, nil))
		loaded := load(t, after)
		require.True(t, bytes.Equal(memory, contents(t, loaded)[1]), "save %d", number)
		require.NoError(t, page.Destroy(loaded))
		if base != filepath.Join(folder, "base.mmsb") && number%5 != 0 {
			base = after
			continue
		}
		base = filepath.Join(folder, fmt.Sprint(number, "w.mmsb"))
		require.NoError(t, Save(context, ToPath(base), SaveOptions{}, nil))
	}
	require.NoError(t, os.RemoveAll(folder))
}
