// The lock of a journal's directory, and how a writer comes to it.

package journal

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"libmmsb/core/file"
	"libmmsb/core/status"
)

// lockName is the file that a writer locks. It says who that is, for messages: the lock, not the content, counts.
const lockName = "journal.lock"

// lockPatience is how long a writer waits for the lock: readers share it while they read the ring.
const lockPatience = 200 * time.Millisecond

func lockPatiently(lock file.File) (err error) { return patiently(lock.Lock) }

func sharePatiently(lock file.File) (err error) { return patiently(lock.LockShared) }

func patiently(take func() error) (err error) {
	for end := time.Now().Add(lockPatience); ; time.Sleep(time.Millisecond) {
		if err = take(); err != syscall.EWOULDBLOCK || time.Now().After(end) {
			return err
		}
	}
}

// lockFile opens a lock file and takes its lock. ENOENT: there is no such file any more, and a lock without a name keeps nobody
// out. EWOULDBLOCK: another has the lock. A FIFO of that name is not waited for.
func lockFile(fs file.FS, path string, flags int, take func(file.File) error) (file.File, error) {
	lock, err := fs.Open(path, flags|unix.O_NONBLOCK, 0o666)
	if err != nil {
		return nil, err
	}
	var ours file.Info
	if err = take(lock); err == nil {
		ours, err = lock.Stat()
	}
	if err == nil {
		err = isNamed(fs, ours, path)
	}
	if err != nil {
		_ = letGo(lock)
		return nil, err
	}
	return lock, nil
}

// letGo gives a lock back, also where a child of fork has a copy of its descriptor.
func letGo(lock file.File) error {
	_ = lock.Unlock()
	return lock.Close()
}

// isNamed says whether a lock file still has its name. ENOENT: it has not.
func isNamed(fs file.FS, ours file.Info, path string) error {
	named, err := fs.Stat(path)
	if err == nil && (named.Device != ours.Device || named.Inode != ours.Inode) {
		return syscall.ENOENT
	}
	return err
}

// takeLock makes the directory and its lock file where they are missing, and takes the lock. A writer that gives up removes what
// it has made: whoever comes between begins again.
func (w *Writer) takeLock() error {
	path := filepath.Join(w.directory, lockName)
	const tries = 100 // not a time: one slow sync of a directory would use it up
	for try := 1; ; try++ {
		if err := w.makeDirectory(); err != nil {
			return err
		}
		lock, err := lockFile(w.fs, path, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL, lockPatiently)
		w.made.lock = err == nil
		if err == syscall.EEXIST {
			lock, err = lockFile(w.fs, path, unix.O_RDWR, lockPatiently)
		}
		switch {
		case err == nil:
			w.held = hold(w.fs, w.directory, lock, w.options.InChild)
			return sign(lock, path)
		case err == syscall.EWOULDBLOCK || err == syscall.ENOENT && try == tries:
			return errBusy(w.fs, w.directory)
		case err != syscall.ENOENT:
			return file.Failed(err, "cannot lock %s", path)
		}
	}
}

// guard lets the writer change the directory only as long as its lock is that of the directory.
func (w *Writer) guard() error {
	info, err := w.held.lock.Stat()
	if err != nil {
		return file.Failed(err, "cannot inspect %s", filepath.Join(w.directory, lockName))
	}
	w.fs = guarded{w.fs, info, w.directory}
	return nil
}

// guarded is a file system for who has the lock of a directory. Where another directory has come to its path, or the lock file is
// another one, what is there belongs to others: no name is changed.
type guarded struct {
	file.FS
	lock      file.Info
	directory string
}

func (g *guarded) isThere() error { return isNamed(g.FS, g.lock, filepath.Join(g.directory, lockName)) }

// check says whether the directory is still at its path. Errors: NotFound, and those of the file system.
func (g *guarded) check() error {
	err := g.isThere()
	if err == syscall.ENOENT {
		return status.Errorf(status.NotFound,
			"the folder %q is not the one that was opened, or its %s was replaced: nothing is changed there", g.directory,
			lockName)
	}
	if err != nil {
		return file.Failed(err, "cannot inspect %s", filepath.Join(g.directory, lockName))
	}
	return nil
}

func (g guarded) Open(path string, flags int, mode os.FileMode) (file.File, error) {
	if flags&unix.O_CREAT != 0 {
		if err := g.check(); err != nil {
			return nil, err
		}
	}
	return g.FS.Open(path, flags, mode)
}

func (g guarded) Rename(from, to string) error {
	if err := g.check(); err != nil {
		return err
	}
	return g.FS.Rename(from, to)
}

func (g guarded) Link(from, to string) error {
	if err := g.check(); err != nil {
		return err
	}
	return g.FS.Link(from, to)
}

// Remove finds nothing where the directory is another.
func (g guarded) Remove(path string) error {
	if err := g.isThere(); err != nil {
		return err
	}
	return g.FS.Remove(path)
}

// FS is the file system for who changes the directory in the writer's name, which nobody may do without its lock. Check says
// before whether it will let that happen. Errors: NotFound (another directory has come to its path), those of the file system.
func (w *Writer) FS() file.FS { return w.fs }

// Check is described at FS.
func (w *Writer) Check() error {
	h, ok := w.fs.(guarded)
	if !ok {
		return nil
	}
	return h.check()
}

// signatureBytes is the length of the line in a lock file: always the same, so that nothing is left of a longer one.
const signatureBytes = 128

// sign says in the lock file who has the lock. What is no file of its own is locked as well, and stays as it is.
func sign(lock file.File, path string) error {
	info, err := lock.Stat()
	if err == nil && !info.Mode.IsRegular() {
		return nil
	}
	if err == nil {
		host, _ := os.Hostname()
		line := fmt.Sprintf("process %d on %s", os.Getpid(), host)
		err = file.WriteFull(lock, fmt.Appendf(nil, "%-*s\n", signatureBytes-1, line[:min(len(line), signatureBytes-1)]), 0)
	}
	if err != nil {
		return file.Failed(err, "cannot write %s", path)
	}
	return nil
}

// WriterOf says who has a journal open for writing; empty: nobody. It changes nothing.
func WriterOf(fs file.FS, directory string) (who string, err error) {
	path := filepath.Join(directory, lockName)
	lock, err := lockFile(fs, path, unix.O_RDONLY, sharePatiently)
	switch err {
	case nil:
		return "", letGo(lock)
	case syscall.ENOENT:
		return "", nil
	case syscall.EWOULDBLOCK:
		return signature(fs, directory), nil
	}
	return "", file.Failed(err, "cannot lock %s", path)
}

// errBusy says who writes the journal, as far as that is known.
func errBusy(fs file.FS, directory string) error {
	return status.Errorf(status.Busy, "journal %s is open for writing by %s", directory, signature(fs, directory))
}

func signature(fs file.FS, directory string) string {
	who := "this process or another one"
	if lock, err := fs.Open(filepath.Join(directory, lockName), unix.O_RDONLY|unix.O_NONBLOCK, 0); err == nil {
		text := make([]byte, signatureBytes)
		n, _ := file.ReadFull(lock, text, 0)
		_ = lock.Close()
		if line, _, whole := strings.Cut(string(text[:n]), "\n"); whole && strings.HasPrefix(line, "process ") {
			who = strings.TrimRight(line, " ")
		}
	}
	return who
}

// Held is the directory of a journal that nobody writes meanwhile.
type Held struct {
	fs        file.FS
	directory string
	lock      file.File
	holders   atomic.Int32 // who have it: a writer, and one that comes in its place
	inChild   func(descriptor int, closes bool)
}

func hold(fs file.FS, directory string, lock file.File, inChild func(int, bool)) *Held {
	h := &Held{fs: fs, directory: directory, lock: lock, inChild: inChild}
	h.inChildren(true)
	return h.share()
}

func (h *Held) inChildren(closes bool) {
	if h.inChild != nil {
		h.inChild(h.lock.Descriptor(), closes)
	}
}

func (h *Held) share() *Held {
	h.holders.Add(1)
	return h
}

// Hold takes the lock of a journal's directory that is there. Errors: Busy, NotFound, and those of the file system.
func Hold(fs file.FS, directory string) (*Held, error) {
	path := filepath.Join(directory, lockName)
	lock, err := lockFile(fs, path, unix.O_RDWR|unix.O_CREAT, lockPatiently)
	if err == syscall.EWOULDBLOCK {
		return nil, errBusy(fs, directory)
	}
	if err != nil {
		return nil, file.Failed(err, "cannot lock %s", path)
	}
	return hold(fs, directory, lock, nil), nil
}

// Release gives the lock back, once all who have it have done so.
func (h *Held) Release() {
	if h.holders.Add(-1) > 0 {
		return
	}
	_ = h.lock.Unlock() // before the descriptor may be another file's, and after a child closed it
	h.inChildren(false)
	_ = h.lock.Close()
}

// Drop removes the segments of the newest branch that hold no record behind upTo. The last one stays.
func (h *Held) Drop(upTo uint64) error {
	places, err := list(h.fs, h.directory)
	if err != nil {
		return err
	}
	if n := len(places); n > 0 {
		places = places[slices.IndexFunc(places, func(p place) bool { return p.branch == places[n-1].branch }):]
	}
	_, err = drop(h.fs, h.directory, places, upTo)
	return err
}

func (w *Writer) makeDirectory() error {
	err := w.fs.MakeDirectory(w.directory, 0o777)
	if err == syscall.EEXIST {
		return nil
	}
	if err != nil {
		return file.Failed(err, "cannot create the journal directory %s", w.directory)
	}
	w.made.directory = true
	return file.SyncDirectory(w.fs, filepath.Dir(w.directory))
}
