// The lock of a journal's directory, and how a writer comes to it.

package journal

import (
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"libmmsb/core/file"
	"libmmsb/core/status"
)

const lockName = "journal.lock"

// lockPatience is how long a writer waits for the lock: a reader holds it while it reads the ring.
const lockPatience = 200 * time.Millisecond

func lockPatiently(lock file.File) (err error) {
	for end := time.Now().Add(lockPatience); ; time.Sleep(time.Millisecond) {
		if err = lock.Lock(); err != syscall.EWOULDBLOCK || time.Now().After(end) {
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
	if err = take(lock); err == nil {
		err = isNamed(fs, lock, path)
	}
	if err != nil {
		_ = lock.Close()
		return nil, err
	}
	return lock, nil
}

func isNamed(fs file.FS, lock file.File, path string) error {
	ours, err := lock.Stat()
	if err != nil {
		return err
	}
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
	for end := time.Now().Add(lockPatience); ; {
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
			w.lock = lock
			return nil
		case err == syscall.EWOULDBLOCK || err == syscall.ENOENT && time.Now().After(end):
			return status.Errorf(status.Busy, "journal %s is already open for writing, here or in another process", w.directory)
		case err != syscall.ENOENT:
			return file.Failed(err, "cannot lock %s", path)
		}
	}
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
