// Package file writes files that are whole or not there, and reads them in large pieces.
//
// Bytes go into a Sink (a path, a descriptor, memory) and come out of a Source. Both move them through a few large buffers
// outside the Go heap, past the page cache where the file system can, with several requests on their way at a time.
package file

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"libmmsb/core/limits"
)

// FS is what this package and the journal need of a file system. OS is the real one.
//
// Its errors and those of its files are a bare syscall.Errno; Failed makes the library's errors of them. EINTR is never
// among them.
type FS interface {
	// Open opens with the flags of open(2). No descriptor survives an exec. A symbolic link in the last component is not
	// followed (ELOOP), except to a directory with O_DIRECTORY; a directory is opened for its Sync.
	Open(path string, flags int, mode os.FileMode) (File, error)
	// Stat does not follow a symbolic link in the last component.
	Stat(path string) (Info, error)
	// List is the names in a directory, in no order.
	List(directory string) ([]string, error)
	Rename(from, to string) error
	// Link gives a file one more name in the same directory.
	Link(from, to string) error
	Remove(path string) error
	MakeDirectory(path string, mode os.FileMode) error
	// RemoveDirectory removes an empty one; ENOTEMPTY.
	RemoveDirectory(path string) error
}

// File is an open file. Its methods may be called at the same time.
type File interface {
	// Pread and Pwrite move some of the bytes, as the system calls of these names do; 0 is the end of the file. ReadFull
	// and WriteFull move all.
	Pread(p []byte, offset int64) (int, error)
	Pwrite(p []byte, offset int64) (int, error)
	// Cached says whether the page cache holds a whole part, so that reading it there costs no disk.
	Cached(offset, length int64) bool
	Truncate(size int64) error
	// Allocate takes disk space for a part, which makes the file longer where it ends later. EOPNOTSUPP is common.
	Allocate(offset, length int64) error
	// Sync makes content and attributes durable, the name of a file not: that is its directory's Sync. After an error
	// nothing is known about what was written, and a second Sync proves nothing.
	Sync() error
	// SyncData is Sync without the attributes that reading does not need.
	SyncData() error
	// Lock takes the file's lock for this open file, until Close or the end of the process. EWOULDBLOCK: another has it.
	Lock() error
	// LockShared is the same beside others that have it shared. EWOULDBLOCK: another has it alone.
	LockShared() error
	// Unlock gives the lock back. Close does the same, unless a child of fork has a copy of the descriptor.
	Unlock() error
	// SetDirect switches the page cache off and on; the system may refuse. Without it, addresses, offsets and lengths
	// must be multiples of Alignment.
	SetDirect(direct bool) error
	// Reopen opens the same file anew, with flags of its own, whatever has become of its name.
	Reopen(flags int) (File, error)
	Stat() (Info, error)
	// Descriptor is the system's number of the file, -1 where there is none.
	Descriptor() int
	Close() error
}

// Info describes a file. Device and Inode say which it is.
type Info struct {
	Size          int64
	Held          int64 // bytes that lie on the disk: fewer than Size where there are holes
	Mode          os.FileMode
	Device, Inode uint64
	Links         uint64
}

// OS is the system's own file system.
type OS struct{}

// retry makes a system call until no signal interrupts it.
func retry(call func() error) error {
	for {
		if err := call(); err != unix.EINTR {
			return err
		}
	}
}

func retryCount(call func() (int, error)) (n int, err error) {
	err = retry(func() error {
		n, err = call()
		return err
	})
	return max(n, 0), err
}

// Open is open(2).
func (OS) Open(path string, flags int, mode os.FileMode) (File, error) {
	if flags&unix.O_DIRECTORY == 0 {
		flags |= unix.O_NOFOLLOW
	}
	return open(path, flags, mode)
}

func open(path string, flags int, mode os.FileMode) (File, error) {
	descriptor := -1
	err := retry(func() (err error) {
		descriptor, err = unix.Open(path, flags|unix.O_CLOEXEC, uint32(mode.Perm()))
		return err
	})
	if err != nil {
		return nil, err
	}
	return osFile(descriptor), nil
}

// Stat is lstat(2).
func (OS) Stat(path string) (Info, error) {
	var stat unix.Stat_t
	if err := retry(func() error { return unix.Lstat(path, &stat) }); err != nil {
		return Info{}, err
	}
	return infoOf(&stat), nil
}

// List reads a directory.
func (OS) List(directory string) ([]string, error) {
	handle, err := open(directory, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = handle.Close() }()
	var names []string
	block := make([]byte, 32<<10)
	for {
		n, err := retryCount(func() (int, error) { return unix.Getdents(handle.Descriptor(), block) })
		if err != nil {
			return nil, err
		}
		if n == 0 {
			return names, nil
		}
		_, _, names = unix.ParseDirent(block[:n], -1, names)
	}
}

// Rename is rename(2).
func (OS) Rename(from, to string) error {
	return retry(func() error { return unix.Rename(from, to) })
}

// Link is link(2).
func (OS) Link(from, to string) error {
	return retry(func() error { return unix.Link(from, to) })
}

// Remove is unlink(2).
func (OS) Remove(path string) error { return retry(func() error { return unix.Unlink(path) }) }

// MakeDirectory is mkdir(2).
func (OS) MakeDirectory(path string, mode os.FileMode) error {
	return retry(func() error { return unix.Mkdir(path, uint32(mode.Perm())) })
}

// RemoveDirectory is rmdir(2).
func (OS) RemoveDirectory(path string) error { return retry(func() error { return unix.Rmdir(path) }) }

// osFile is a descriptor.
type osFile int

func (f osFile) Pread(p []byte, offset int64) (int, error) {
	return retryCount(func() (int, error) { return unix.Pread(int(f), p, offset) })
}

func (f osFile) Pwrite(p []byte, offset int64) (int, error) {
	if err := limits.FileSize(uint64(offset) + uint64(len(p))); err != nil {
		return 0, err
	}
	return retryCount(func() (int, error) { return unix.Pwrite(int(f), p, offset) })
}

// Cached is false on systems older than cachestat(2) (Linux 6.5).
func (f osFile) Cached(offset, length int64) bool {
	var found unix.Cachestat_t
	part := unix.CachestatRange{Off: uint64(offset), Len: uint64(length)}
	if unix.Cachestat(uint(f), &part, &found, 0) != nil {
		return false
	}
	page := int64(os.Getpagesize())
	return int64(found.Cache) >= (offset+length+page-1)/page-offset/page
}

func (f osFile) Truncate(size int64) error {
	if err := limits.FileSize(uint64(size)); err != nil {
		return err
	}
	return retry(func() error { return unix.Ftruncate(int(f), size) })
}

func (f osFile) Allocate(offset, length int64) error {
	if err := limits.FileSize(uint64(offset + length)); err != nil {
		return err
	}
	return retry(func() error { return unix.Fallocate(int(f), 0, offset, length) })
}

func (f osFile) Sync() error { return retry(func() error { return unix.Fsync(int(f)) }) }

func (f osFile) SyncData() error { return retry(func() error { return unix.Fdatasync(int(f)) }) }

func (f osFile) Lock() error {
	return retry(func() error { return unix.Flock(int(f), unix.LOCK_EX|unix.LOCK_NB) })
}

func (f osFile) LockShared() error {
	return retry(func() error { return unix.Flock(int(f), unix.LOCK_SH|unix.LOCK_NB) })
}

func (f osFile) Unlock() error {
	return retry(func() error { return unix.Flock(int(f), unix.LOCK_UN) })
}

func (f osFile) SetDirect(direct bool) error {
	flags, err := unix.FcntlInt(uintptr(f), unix.F_GETFL, 0)
	if err != nil {
		return err
	}
	if direct {
		flags |= unix.O_DIRECT
	} else {
		flags &^= unix.O_DIRECT
	}
	_, err = unix.FcntlInt(uintptr(f), unix.F_SETFL, flags)
	return err
}

func (f osFile) Reopen(flags int) (File, error) {
	return open("/proc/self/fd/"+strconv.Itoa(int(f)), flags, 0)
}

func (f osFile) Stat() (Info, error) {
	var stat unix.Stat_t
	if err := retry(func() error { return unix.Fstat(int(f), &stat) }); err != nil {
		return Info{}, err
	}
	return infoOf(&stat), nil
}

func (f osFile) Descriptor() int { return int(f) }

// Close is not tried again after EINTR: the descriptor is gone then, and may already be another file's.
func (f osFile) Close() error {
	if err := unix.Close(int(f)); err != unix.EINTR {
		return err
	}
	return nil
}

func infoOf(stat *unix.Stat_t) Info {
	mode := os.FileMode(stat.Mode & 0o777)
	switch stat.Mode & unix.S_IFMT {
	case unix.S_IFREG:
	case unix.S_IFDIR:
		mode |= os.ModeDir
	case unix.S_IFLNK:
		mode |= os.ModeSymlink
	case unix.S_IFIFO:
		mode |= os.ModeNamedPipe
	case unix.S_IFSOCK:
		mode |= os.ModeSocket
	case unix.S_IFBLK:
		mode |= os.ModeDevice
	case unix.S_IFCHR:
		mode |= os.ModeDevice | os.ModeCharDevice
	default:
		mode |= os.ModeIrregular
	}
	return Info{Size: stat.Size, Held: stat.Blocks * 512, Mode: mode, Device: uint64(stat.Dev), Inode: stat.Ino,
		Links: uint64(stat.Nlink)}
}

// Absolute is a path from the root, which leads there whatever directory the process changes to. It is not cleaned: behind a
// symbolic link ".." is another folder. An empty path stays, and one that the system would not take.
func Absolute(path string) string {
	if path == "" || filepath.IsAbs(path) {
		return path
	}
	at, err := os.Getwd()
	whole := strings.TrimSuffix(at, "/") + "/" + path
	if err != nil || len(whole) >= unix.PathMax {
		return path
	}
	return whole
}

// SyncDirectory makes the names in a directory durable.
func SyncDirectory(fs FS, path string) error {
	directory, err := fs.Open(path, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err == nil {
		err = syncDirectory(directory)
		_ = directory.Close()
	}
	if err != nil {
		return Failed(err, "cannot sync the directory %s", path)
	}
	return nil
}

// syncDirectory takes EINVAL for an answer: some network file systems have no such thing as a directory that is synced.
func syncDirectory(directory File) error {
	if err := directory.Sync(); err != unix.EINVAL {
		return err
	}
	return nil
}

// WriteFull writes all of p. An error of the system comes back as it is; a device that takes nothing is EIO.
func WriteFull(f File, p []byte, offset int64) error {
	for len(p) > 0 {
		n, err := f.Pwrite(p, offset)
		if err != nil {
			return err
		}
		if n == 0 {
			return syscall.EIO
		}
		p, offset = p[n:], offset+int64(n)
	}
	return nil
}

// WriteBlocks is WriteFull for a file that passes the page cache by, where it does. The system may want a larger alignment, or
// have moved only a part that ends between two blocks, as at a limit of the file's size: then it goes through the cache from now
// on, and the error is that of this way.
func WriteBlocks(f File, p []byte, offset int64) error {
	err := WriteFull(f, p, offset)
	if err == syscall.EINVAL && f.SetDirect(false) == nil {
		err = WriteFull(f, p, offset)
	}
	return err
}

// ReadFull fills p, and says how much it is where the file ends earlier; that is no error.
func ReadFull(f File, p []byte, offset int64) (int, error) {
	done := 0
	for done < len(p) {
		n, err := f.Pread(p[done:], offset+int64(done))
		if err != nil {
			return done, err
		}
		if n == 0 {
			break
		}
		done += n
	}
	return done, nil
}
