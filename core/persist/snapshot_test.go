package persist

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"libmmsb/core/abi"
	"libmmsb/core/file"
	"libmmsb/core/file/filetest"
	"libmmsb/core/memory"
	"libmmsb/core/page"
	"libmmsb/core/snapshot"
	"libmmsb/core/status"
	"libmmsb/core/ticket"
	"libmmsb/native"
	"libmmsb/native/nativetest"
)

func onOneThread(t *testing.T) {
	t.Helper()
	runtime.LockOSThread()
	t.Cleanup(runtime.UnlockOSThread)
}

func handleOf(t *testing.T, context, id uint64) (found uint64) {
	t.Helper()
	require.NoError(t, page.Use(context, func(c *page.Context) (err error) {
		found, err = c.Lookup(id)
		return err
	}))
	return found
}

// details is all that a snapshot has of a page.
type details struct {
	Bytes, Mask, Metadata []byte
	Epoch, Version        uint64
	Location, Node        int32
}

func detailsOf(t *testing.T, handle uint64) details {
	t.Helper()
	d := details{Bytes: content(t, handle)}
	require.NoError(t, page.Read(handle, func(p *page.Page) error {
		d.Epoch, d.Version, d.Location, d.Node = p.Record.Epoch, p.Record.Version, p.Location(), p.Node()
		d.Mask = make([]byte, (p.Record.Size+7)/8)
		copy(d.Mask, p.Mask())
		d.Metadata = bytes.Clone(p.Metadata())
		return nil
	}))
	return d
}

// change does to a page what a delta of one byte does.
func change(t *testing.T, handle, at uint64, value byte) {
	t.Helper()
	require.NoError(t, page.Read(handle, func(p *page.Page) error {
		require.NoError(t, p.Present())
		return p.WithBytes(func() error {
			require.NoError(t, p.MakeMask())
			p.Bytes()[at] = value
			p.Mask()[at/8] |= 1 << (at % 8)
			p.Record.Epoch += 3
			p.Record.MoveVersion()
			return nil
		})
	}))
}

func pinToWrite(t *testing.T, handle uint64, pins int) {
	t.Helper()
	require.NoError(t, page.Read(handle, func(p *page.Page) error {
		p.Record.WritePins = uint16(int(p.Record.WritePins) + pins)
		p.Record.Exposed = 1
		return nil
	}))
}

func names(t *testing.T, folder string) (found []string) {
	t.Helper()
	entries, err := os.ReadDir(folder)
	require.NoError(t, err)
	for _, entry := range entries {
		found = append(found, entry.Name())
	}
	return found
}

func code(err error) status.Code { return status.CodeOf(err) }

func TestAllOfAPageComesBack(t *testing.T) {
	onOneThread(t)
	for _, compression := range []int32{0, 1} {
		context := newContext(t)
		sizes := []uint64{1, 100, 4096, 4097, 70000, native.ChunkBytes + 1, 1<<20 + 5}
		for i, size := range sizes {
			id := uint64(i + 1)
			handle := createFilled(t, context, size, id, byte(i+7))
			change(t, handle, size-1, 3)
			change(t, handle, size/2, 4)
			if i%2 == 0 {
				require.NoError(t, page.SetMetadata(handle, []byte("name"), bytes.Repeat([]byte{byte(i)}, 10*i*i*i)))
			}
			if i%3 == 1 {
				require.NoError(t, page.Migrate(handle, abi.LocationDisk, 0))
			}
		}
		require.NoError(t, page.SetMetadata(handleOf(t, context, 3), []byte("long"), make([]byte, 3*native.ChunkBytes)))
		require.NoError(t, page.Use(context, func(c *page.Context) error {
			_, err := c.Create(5000, page.CreateOptions{ID: 100, NUMANode: 0})
			return err
		}))
		require.NoError(t, page.AddDependency(handleOf(t, context, 1), handleOf(t, context, 2)))
		require.NoError(t, page.AddDependency(handleOf(t, context, 2), handleOf(t, context, 7)))
		everything := func(context uint64) map[uint64]details {
			found := make(map[uint64]details)
			for id := range uint64(101) {
				if id > 0 && (id <= uint64(len(sizes)) || id == 100) {
					found[id] = detailsOf(t, handleOf(t, context, id))
				}
			}
			return found
		}
		children := func(context, id uint64) (ids []uint64) {
			pages, err := page.Children(handleOf(t, context, id))
			require.NoError(t, err)
			for _, handle := range pages {
				ids = append(ids, page.IDOf(native.Index(handle)))
			}
			return ids
		}
		before := everything(context)
		o := SaveOptions{Compression: compression}

		var memory uintptr
		var length uint64
		require.NoError(t, Save(context, ToMemory(&memory, &length), o, nil))
		reader, writer, err := os.Pipe()
		require.NoError(t, err)
		piped := make(chan error, 1)
		go func() {
			piped <- Save(context, ToDescriptor(int32(writer.Fd())), o, nil)
			_ = writer.Close()
		}()
		fromPipe := newContext(t)
		require.NoError(t, Load(fromPipe, LoadSource{descriptor: int32(reader.Fd())}, LoadOptions{}, nil))
		require.NoError(t, <-piped)
		require.NoError(t, reader.Close())
		fromMemory := newContext(t)
		require.NoError(t, Load(fromMemory, FromMemory(memory, length), LoadOptions{}, nil))
		require.NoError(t, FreeSaved(memory))
		require.Equal(t, status.StaleHandle, code(FreeSaved(memory)))
		path := filepath.Join(t.TempDir(), "state")
		require.NoError(t, Save(context, ToPath(path), o, nil))
		for i, loaded := range []uint64{fromPipe, fromMemory, load(t, path)} {
			require.Equal(t, before, everything(loaded), i)
			require.Equal(t, []uint64{2}, children(loaded, 1))
			require.Equal(t, []uint64{7}, children(loaded, 2))
			// Epochs and versions go on.
			handle := handleOf(t, loaded, 2)
			change(t, handle, 5, 9)
			after := detailsOf(t, handle)
			require.Equal(t, before[2].Epoch+3, after.Epoch)
			require.Equal(t, before[2].Version+1, after.Version)
		}
		require.Equal(t, before, everything(context))
	}
}

func TestAdoptedPagesComeBackAsPagesOfTheLibrary(t *testing.T) {
	onOneThread(t)
	context := newContext(t)
	memory, err := unix.Mmap(-1, 0, 300000, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	require.NoError(t, err)
	defer func() { require.NoError(t, unix.Munmap(memory)) }()
	for i := range memory {
		memory[i] = byte(i * 7)
	}
	require.NoError(t, page.Use(context, func(c *page.Context) error {
		base := uintptr(unsafe.Pointer(unsafe.SliceData(memory)))
		if _, err := c.Adopt(base, 1000, page.AdoptOptions{ID: 1, ReadOnly: true}); err != nil {
			return err
		}
		_, err := c.Adopt(base+1000, 299000, page.AdoptOptions{ID: 2})
		return err
	}))
	path := filepath.Join(t.TempDir(), "state")
	require.NoError(t, Save(context, ToPath(path), SaveOptions{}, nil))
	loaded := load(t, path)
	require.Equal(t, map[uint64][]byte{1: memory[:1000], 2: memory[1000:]}, contents(t, loaded))
	write(t, handleOf(t, loaded, 1), 0, []byte{1}) // it is no longer read-only: nobody else has its memory
}

// slow is a file system that stops at its writes until it is let go on.
func slow() (fs *filetest.Faulty, reached, goOn chan struct{}) {
	reached, goOn = make(chan struct{}), make(chan struct{})
	fs = filetest.NewFaulty(file.OS{})
	var once sync.Once
	fs.Before = func(kind filetest.Kind, _ int) {
		if kind == filetest.Write {
			once.Do(func() { close(reached) })
			<-goOn
		}
	}
	return fs, reached, goOn
}

func TestOneSaveOrLoadAtATime(t *testing.T) {
	onOneThread(t)
	folder := t.TempDir()
	context := newContext(t)
	for i := range 100 {
		createFilled(t, context, 100000, uint64(i+1), byte(i))
	}
	path := filepath.Join(folder, "state")
	fs, reached, goOn := slow()
	saved := make(chan error, 1)
	go func() { saved <- Save(context, SaveTarget{path: path, FS: fs}, SaveOptions{}, nil) }()
	<-reached
	require.Equal(t, status.Busy, code(Save(context, ToPath(path), SaveOptions{}, nil)))
	require.Equal(t, status.Busy, code(Load(context, FromPath(path), LoadOptions{}, nil)))
	require.NoError(t, Save(newContext(t), ToPath(filepath.Join(folder, "other")), SaveOptions{}, nil)) // of another context
	close(goOn)
	require.NoError(t, <-saved)
	require.Equal(t, contents(t, context), contents(t, load(t, path)))
}

func TestACancelledSaveLeavesNothing(t *testing.T) {
	onOneThread(t)
	folder := t.TempDir()
	context := newContext(t)
	for i := range 200 { // more than all buffers hold: the save is not through when it is cancelled
		createFilled(t, context, 200000, uint64(i+1), byte(i))
	}
	path := filepath.Join(folder, "state")
	require.NoError(t, Save(context, ToPath(path), SaveOptions{}, nil))
	old, err := os.ReadFile(path)
	require.NoError(t, err)
	write(t, handleOf(t, context, 1), 0, []byte("changed"))
	fs, reached, goOn := slow()
	work := ticket.Start(0, nil, func(w *ticket.Work) error {
		return Save(context, SaveTarget{path: path, FS: fs}, SaveOptions{}, w)
	})
	<-reached
	work.Cancel()
	close(goOn)
	require.Equal(t, status.Cancelled, code(work.Wait(ticket.Forever)))
	work.Close()
	require.Equal(t, []string{"state"}, names(t, folder))
	now, err := os.ReadFile(path)
	require.NoError(t, err)
	require.True(t, bytes.Equal(old, now))
	next := filepath.Join(folder, "next")
	require.NoError(t, Save(context, ToPath(next), SaveOptions{Base: path}, nil))
	require.Equal(t, contents(t, context), contents(t, load(t, next)))
}

func TestAContextCanEndWhileItIsSaved(t *testing.T) {
	onOneThread(t)
	folder := t.TempDir()
	context, err := page.NewContext(page.Options{SimulatedDevices: 1, HugePages: true})
	require.NoError(t, err)
	for i := range 200 {
		createFilled(t, context, 200000, uint64(i+1), byte(i))
	}
	fs, reached, goOn := slow()
	of := stateOf(t, context)
	saved, ended := make(chan error, 1), make(chan error, 1)
	go func() {
		saved <- Save(context, SaveTarget{path: filepath.Join(folder, "state"), FS: fs}, SaveOptions{}, nil)
	}()
	<-reached
	go func() { ended <- page.Destroy(context) }()
	for !of.ending.Load() {
		time.Sleep(time.Millisecond)
	}
	close(goOn)
	require.Equal(t, status.StaleHandle, code(<-saved))
	require.NoError(t, <-ended)
	require.Empty(t, names(t, folder))
	require.Zero(t, memory.Outliving())
}

func TestPinnedPages(t *testing.T) {
	onOneThread(t)
	folder := t.TempDir()
	for _, size := range []uint64{100, 1 << 20} {
		context := newContext(t)
		handle := createFilled(t, context, size, 1, 1)
		createFilled(t, context, 50, 2, 2)
		path := filepath.Join(folder, fmt.Sprint(size))
		require.NoError(t, Save(context, ToPath(path), SaveOptions{}, nil))
		before := contents(t, context)
		pinToWrite(t, handle, 1)
		refused := filepath.Join(folder, "refused")
		require.Equal(t, status.Busy, code(Save(context, ToPath(refused), SaveOptions{RawWrites: abi.RawWritesRefuse}, nil)))
		require.Equal(t, status.Busy, code(Save(context, ToPath(refused),
			SaveOptions{RawWrites: abi.RawWritesRefuse, Base: path}, nil)))
		require.NoFileExists(t, refused)
		native.Bytes(native.RecordAt(native.Index(handle)).Locator, size)[size-1] = 77
		allowed := filepath.Join(folder, fmt.Sprint(size, " allowed"))
		require.NoError(t, Save(context, ToPath(allowed), SaveOptions{Base: path}, nil))
		require.Equal(t, contents(t, context), contents(t, load(t, allowed)))

		// A pinned page cannot be replaced, and nothing is.
		live := page.LivePages()
		other := handleOf(t, context, 2)
		require.Equal(t, status.Busy, code(Load(context, FromPath(path), LoadOptions{}, nil)))
		require.Equal(t, status.Busy, code(Load(context, FromPath(path), LoadOptions{IDs: []uint64{2, 1}}, nil)))
		before[1][size-1] = 77
		require.Equal(t, before, contents(t, context))
		require.Equal(t, other, handleOf(t, context, 2))
		require.Equal(t, live, page.LivePages())
		require.NoError(t, Load(context, FromPath(path), LoadOptions{IDs: []uint64{2}}, nil)) // not this one
		pinToWrite(t, handle, -1)
		require.NoError(t, Load(context, FromPath(path), LoadOptions{}, nil))
		before[1][size-1] = 1
		require.Equal(t, before, contents(t, context))
	}
}

func TestChosenPages(t *testing.T) {
	onOneThread(t)
	context := newContext(t)
	for id := uint64(1); id <= 5; id++ {
		createFilled(t, context, 1000*id, id, byte(id))
	}
	automatic := createFilled(t, context, 300000, 0, 50)
	automaticID := page.IDOf(native.Index(automatic))
	path := filepath.Join(t.TempDir(), "state")
	require.NoError(t, Save(context, ToPath(path), SaveOptions{}, nil))
	saved := contents(t, context)
	write(t, handleOf(t, context, 1), 0, []byte("changed"))
	write(t, handleOf(t, context, 2), 0, []byte("changed"))
	require.Zero(t, nativetest.Destroy(handleOf(t, context, 3)))
	require.Zero(t, nativetest.Destroy(automatic))
	createFilled(t, context, 10, 6, 6)
	kept := handleOf(t, context, 2)
	stale := handleOf(t, context, 1)
	want := contents(t, context)
	require.Equal(t, status.NotFound, code(Load(context, FromPath(path), LoadOptions{IDs: []uint64{1, 99}}, nil)))
	require.Equal(t, want, contents(t, context))
	require.NoError(t, Load(context, FromPath(path), LoadOptions{IDs: []uint64{1, 3, automaticID}}, nil))
	want[1], want[3], want[automaticID] = saved[1], saved[3], saved[automaticID]
	require.Equal(t, want, contents(t, context))
	require.Equal(t, kept, handleOf(t, context, 2))
	require.EqualValues(t, status.StaleHandle, nativetest.Destroy(stale))
	for range 1000 { // no new page gets the id
		handle := createFilled(t, context, 10, 0, 1)
		require.NotEqual(t, automaticID, page.IDOf(native.Index(handle)))
	}
	want = contents(t, context)
	require.NoError(t, Save(context, ToPath(path+"2"), SaveOptions{Base: path}, nil))
	require.Equal(t, want, contents(t, load(t, path+"2")))
}

func TestAFaultLosesNothing(t *testing.T) {
	onOneThread(t)
	context := newContext(t)
	pages := make([]uint64, 60)
	for i := range pages {
		pages[i] = createFilled(t, context, sizes[i%13], uint64(i+1), byte(i))
	}
	kinds := []filetest.Kind{filetest.Open, filetest.OpenDirectory, filetest.Write, filetest.Sync, filetest.SyncDirectory,
		filetest.Rename,
		filetest.Truncate, filetest.Lock}
	hits := 0
	for _, incremental := range []bool{false, true} {
		folder := t.TempDir()
		path := filepath.Join(folder, "state")
		require.NoError(t, Save(context, ToPath(filepath.Join(folder, "base")), SaveOptions{}, nil))
		require.NoError(t, os.WriteFile(path, []byte("old"), 0o600))
		o := SaveOptions{}
		if incremental {
			o.Base = filepath.Join(folder, "base")
		}
		for _, kind := range kinds {
			for nth := 1; nth < 6; nth++ {
				for _, fault := range []filetest.Fault{{Errno: syscall.EIO}, {Errno: syscall.ENOSPC, Forever: true}} {
					fault.Kind, fault.Nth = kind, nth
					write(t, pages[nth], 0, []byte{byte(nth)})
					fs := filetest.NewFaulty(file.OS{}, fault)
					err := Save(context, SaveTarget{path: path, FS: fs}, o, nil)
					if fs.Hits() == 0 || err == nil { // what is only tried may fail
						require.NoError(t, err, kind)
						require.NoError(t, os.WriteFile(path, []byte("old"), 0o600))
						if incremental {
							require.NoError(t, Save(context, ToPath(o.Base), SaveOptions{}, nil))
						}
						continue
					}
					hits++
					require.Contains(t, []status.Code{status.IO, status.NoSpace}, code(err), kind)
					content, readErr := os.ReadFile(path)
					require.NoError(t, readErr)
					if kind != filetest.SyncDirectory { // by then it has its name, and only the power could take it back
						require.Equal(t, "old", string(content), "%s %d", kind, nth)
					} else {
						require.NoError(t, os.WriteFile(path, []byte("old"), 0o600))
					}
					require.ElementsMatch(t, []string{"base", "state"}, names(t, folder), "%s %d", kind, nth)
				}
			}
		}
		// One write that is short is not the end of it.
		fs := filetest.NewFaulty(file.OS{}, filetest.Fault{Kind: filetest.Write, Nth: 2, Short: 4096})
		require.NoError(t, Save(context, SaveTarget{path: path, FS: fs}, o, nil))
		require.Equal(t, 1, fs.Hits())
		require.Equal(t, contents(t, context), contents(t, load(t, path)))
	}
	require.Greater(t, hits, 20)
}

func TestADamagedFileChangesNothing(t *testing.T) {
	onOneThread(t)
	context := newContext(t)
	for i, size := range []uint64{1, 100, 1000, 4096, 5000, 300000} {
		handle := createFilled(t, context, size, uint64(i+1), byte(i+1))
		require.NoError(t, page.SetMetadata(handle, []byte("key"), []byte("value")))
	}
	folder := t.TempDir()
	path, damaged := filepath.Join(folder, "state"), filepath.Join(folder, "damaged")
	require.NoError(t, Save(context, ToPath(path), SaveOptions{}, nil))
	saved := contents(t, context)
	whole, err := os.ReadFile(path)
	require.NoError(t, err)
	write(t, handleOf(t, context, 1), 0, []byte{200})
	createFilled(t, context, 77, 100, 100)
	before, live, usage := contents(t, context), page.LivePages(), page.MemoryUsage()
	failures := 0
	for at := 0; at < len(whole); at += 1 + len(whole)/400 {
		content := bytes.Clone(whole)
		content[at] ^= 1 << (at % 8)
		require.NoError(t, os.WriteFile(damaged, content, 0o600))
		err := Load(context, FromPath(damaged), LoadOptions{}, nil)
		if err == nil { // a byte between two pages
			require.Equal(t, saved, contents(t, context), at)
			write(t, handleOf(t, context, 1), 0, []byte{200})
			createFilled(t, context, 77, 100, 100)
			continue
		}
		failures++
		require.Contains(t, []status.Code{status.Corrupt, status.Format}, code(err), at)
		require.Equal(t, before, contents(t, context), at)
		require.Equal(t, live, page.LivePages())
	}
	require.Greater(t, failures, 200)
	for _, length := range []int{0, 1, 100, 4096, len(whole) - 1} {
		require.NoError(t, os.WriteFile(damaged, whole[:length], 0o600))
		err := Load(context, FromPath(damaged), LoadOptions{}, nil)
		require.Contains(t, []status.Code{status.Corrupt, status.Format}, code(err), length)
	}
	require.Equal(t, usage.Metadata, page.MemoryUsage().Metadata)
	require.Equal(t, before, contents(t, context))
}

// Ids that the caller chose come again for other pages: what is saved is what they are now, whatever the base.
func TestIDsThatComeAgain(t *testing.T) {
	onOneThread(t)
	folder := t.TempDir()
	context := newContext(t)
	source := createFilled(t, context, 1000, 1, 1)
	path := func(i int) string { return filepath.Join(folder, fmt.Sprint(i)) }
	clone, err := page.Clone(source, 2)
	require.NoError(t, err)
	write(t, clone, 0, []byte("one"))
	createFilled(t, context, 70000, 3, 3)
	require.NoError(t, Save(context, ToPath(path(0)), SaveOptions{}, nil))
	// As many changes later the clone has the same version again.
	require.Zero(t, nativetest.Destroy(clone))
	write(t, source, 0, []byte("two"))
	_, err = page.Clone(source, 2)
	require.NoError(t, err)
	require.Zero(t, nativetest.Destroy(handleOf(t, context, 3)))
	createFilled(t, context, 70000, 3, 4)
	require.NoError(t, Save(context, ToPath(path(1)), SaveOptions{Base: path(0)}, nil))
	require.Equal(t, contents(t, context), contents(t, load(t, path(1))))
	require.NoError(t, Save(context, ToPath(path(2)), SaveOptions{Base: path(0)}, nil)) // which is not the newest
	require.Equal(t, contents(t, context), contents(t, load(t, path(2))))
	require.NoError(t, Save(context, ToPath(path(3)), SaveOptions{Base: path(2)}, nil))
	require.Equal(t, contents(t, context), contents(t, load(t, path(3))))
}

// Pages are made, cloned and ended while loads replace all of them: nobody waits for ever, and every page that lives is found by
// its id.
func TestLoadsBesideCalls(t *testing.T) {
	onOneThread(t)
	folder := t.TempDir()
	context := newContext(t)
	for id := uint64(1); id <= 50; id++ {
		createFilled(t, context, 100*id, id, byte(id))
	}
	path := filepath.Join(folder, "state")
	require.NoError(t, Save(context, ToPath(path), SaveOptions{}, nil))
	var stop atomic.Bool
	var group sync.WaitGroup
	allowed := []status.Code{0, status.StaleHandle, status.NotFound, status.AlreadyExists}
	for worker := range uint64(3) {
		group.Add(1)
		go func() {
			defer group.Done()
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			for n := uint64(0); !stop.Load(); n++ {
				_ = page.Use(context, func(c *page.Context) error {
					chosen, err := c.Create(64, page.CreateOptions{ID: 40 + (n+worker)%30, NUMANode: -1})
					assertIn(t, allowed, code(err))
					handle, err := c.Lookup(1 + n%60)
					assertIn(t, allowed, code(err))
					if err == nil {
						_, err = page.Clone(handle, 1000+n%40)
						assertIn(t, allowed, code(err))
						assertIn(t, allowed, status.Code(nativetest.WritePage(handle, 0, []byte{9})))
					}
					small, err := c.Create(500, page.CreateOptions{NUMANode: -1})
					assertIn(t, allowed, code(err))
					assertIn(t, allowed, status.Code(nativetest.Destroy(small)))
					if chosen != 0 && n%2 == 0 {
						assertIn(t, allowed, status.Code(nativetest.Destroy(chosen)))
					}
					return nil
				})
			}
		}()
	}
	for range 40 {
		require.NoError(t, Load(context, FromPath(path), LoadOptions{}, nil))
		require.NoError(t, Load(context, FromPath(path), LoadOptions{IDs: []uint64{45, 46, 47}}, nil))
	}
	stop.Store(true)
	group.Wait()
	require.NoError(t, page.Use(context, func(c *page.Context) error {
		var cursor uint64
		pages := make([]uint64, 1000)
		n := c.Pages(&cursor, pages)
		require.Less(t, n, uint64(1000))
		require.GreaterOrEqual(t, n, uint64(30))
		for _, handle := range pages[:n] {
			index := native.Index(handle)
			id := page.IDOf(index)
			found, err := c.Lookup(id)
			require.NoError(t, err, id)
			require.Equal(t, handle, found, id)
		}
		return nil
	}))
}

func assertIn(t *testing.T, allowed []status.Code, code status.Code) {
	t.Helper()
	for _, one := range allowed {
		if one == code {
			return
		}
	}
	t.Errorf("code %d", code)
}

// A save to a pipe that nobody reads ends when it is cancelled.
func TestAPipeThatNobodyReads(t *testing.T) {
	onOneThread(t)
	context := newContext(t)
	for i := range 20 {
		createFilled(t, context, 1<<20, uint64(i+1), byte(i))
	}
	reader, writer, err := os.Pipe()
	require.NoError(t, err)
	work := ticket.Start(0, nil, func(w *ticket.Work) error {
		return Save(context, ToDescriptor(int32(writer.Fd())), SaveOptions{}, w)
	})
	time.Sleep(20 * time.Millisecond)
	work.Cancel()
	require.Equal(t, status.Cancelled, code(work.Wait(ticket.Forever)))
	work.Close()
	require.NoError(t, writer.Close())
	incomplete, err := io.ReadAll(reader)
	require.NoError(t, err)
	require.NoError(t, reader.Close())
	_, err = snapshot.OpenSource(file.Bytes(incomplete), snapshot.OpenOptions{})
	require.Contains(t, []status.Code{status.Corrupt, status.Format}, code(err))
}

// Writers that touch more than the limit for copies wait, and the statistics say so.
func TestTheLimitOfCopies(t *testing.T) {
	onOneThread(t)
	context := newContext(t)
	const count, size = 10000, 4096 // more than all buffers of the save and the limit together
	pages := make([]uint64, count)
	for i := range pages {
		pages[i] = createFilled(t, context, size, uint64(i+1), 1)
	}
	path := filepath.Join(t.TempDir(), "state")
	fs, reached, goOn := slow()
	saved := make(chan error, 1)
	go func() {
		saved <- Save(context, SaveTarget{path: path, FS: fs}, SaveOptions{CopyLimit: leastCopyLimit}, nil)
	}()
	<-reached
	go func() { // nothing is written before a writer has waited
		defer close(goOn)
		for stats := (SaveStats{}); stats.Waits == 0; time.Sleep(time.Millisecond) {
			stats, _ = GetSaveStats(context)
		}
	}()
	for _, handle := range pages {
		write(t, handle, 0, bytes.Repeat([]byte{2}, size)) // all of it is kept
	}
	require.NoError(t, <-saved)
	stats, err := GetSaveStats(context)
	require.NoError(t, err)
	require.LessOrEqual(t, stats.CopiedPeak, uint64(leastCopyLimit))
	for id, content := range contents(t, load(t, path)) {
		require.EqualValues(t, 1, content[0], id)
	}
	require.NotZero(t, stats.Waits)
	require.NotZero(t, stats.WaitedNs)
}
