// Writing a file that appears whole or not at all.

package file

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"libmmsb/core/safego"
	"libmmsb/core/status"
)

// Options of Replace.
type Options struct {
	// Durable: Finish returns when the file and its name survive a power cut.
	Durable bool
	// Mode is the permissions of the file, less the umask. 0 = those of the file that is replaced, else 0666.
	Mode os.FileMode
	// Expected is about how many bytes will come; 0 = not known. Space for them is taken at once, because writes beyond the end
	// of a file wait for each other.
	Expected int64
	// Publish gives the whole file its name by calling rename once; nil calls it alone. After its error the file is not there
	// under its name.
	Publish func(rename func() error) error
	// Done is closed when the file is to be given up; nil = never. Finish fails with Cancelled then, until the file has its name.
	Done <-chan struct{}
}

// requests is how many buffers are on their way to the disk at a time; the others are being filled.
const requests = 4

// replacement is the sink of Replace.
type replacement struct {
	pipeline
	fs              FS
	options         Options
	path, temporary string
	file            File
	directory       File // only where it will be synced
	allocated       bool // it may be longer than what comes
	renamed         bool
}

// Replace writes a file that takes the place of the one at path, whole, when it is finished; until then, and for ever where
// it is not finished, that one stays untouched. It is written under a temporary name in the same directory. A symbolic link
// at path is replaced itself, what it leads to is not touched. Of two that write to one path at a time, the later Finish
// wins.
//
// Temporary files of savers that no longer live are removed from the directory first: those that nobody has locked.
//
// Where Finish fails in the sync of the directory, the last step, the new file is in its place and only its survival of a
// power cut is unknown.
func Replace(fs FS, path string, options Options) (Sink, error) {
	directory, name := filepath.Split(path)
	if path == "" {
		return nil, status.Errorf(status.InvalidArgument, "path is empty")
	}
	if name == "" {
		return nil, irregular(path, os.ModeDir)
	}
	if directory == "" {
		directory = "./"
	}
	mode := options.Mode
	switch info, err := fs.Stat(path); {
	case err == syscall.ENOENT:
	case err != nil:
		return nil, Failed(err, "cannot open %s", path)
	case info.Mode.IsRegular():
		if mode == 0 {
			mode = info.Mode.Perm()
		}
	case info.Mode&os.ModeSymlink == 0:
		return nil, irregular(path, info.Mode)
	}
	if mode == 0 {
		mode = 0o666
	}
	Sweep(fs, directory)

	r := &replacement{fs: fs, options: options, path: path}
	r.done = options.Done
	var err error
	if options.Durable {
		if r.directory, err = fs.Open(directory, unix.O_RDONLY|unix.O_DIRECTORY, 0); err != nil {
			return nil, Failed(err, "cannot open the directory %s", directory)
		}
	}
	if r.file, r.temporary, err = createTemporary(fs, directory, name, mode); err != nil {
		r.closeDirectory()
		return nil, err
	}
	// A system that has no such thing writes through its cache.
	_ = r.file.SetDirect(true)
	if options.Expected > BufferSize {
		// Where there is not that much space, the writes say whether there is enough.
		_ = r.file.Allocate(0, options.Expected)
		r.allocated = true
	}
	if err = r.start(requests, r.write); err != nil {
		r.discard()
		return nil, err
	}
	return r, nil
}

// write writes whole blocks; Finish cuts what the last one has too much.
func (r *replacement) write(bytes []byte, at int64) error {
	n := len(bytes)
	bytes = bytes[:alignUp(int64(n))]
	clear(bytes[n:])
	if err := WriteBlocks(r.file, bytes, at); err != nil {
		return Failed(err, "cannot write %d bytes of %s at offset %d", n, r.path, at)
	}
	return nil
}

func (r *replacement) Finish() error {
	if !r.end() {
		return errEnded()
	}
	err := r.failure()
	if err == nil && r.givenUp() {
		err = errCancelled(r.size)
	}
	if err == nil {
		err = r.publish()
	}
	if err != nil {
		r.discard()
		return err
	}
	_ = r.file.Close()
	r.closeDirectory()
	return nil
}

func (r *replacement) publish() error {
	if r.allocated || r.size%Alignment != 0 {
		if err := r.file.Truncate(r.size); err != nil {
			return Failed(err, "cannot truncate %s to %d bytes", r.temporary, r.size)
		}
	}
	if r.options.Durable {
		if err := r.file.Sync(); err != nil {
			return Failed(err, "cannot sync %s of %d bytes", r.temporary, r.size)
		}
	}
	if r.givenUp() {
		return errCancelled(r.size)
	}
	// While the old file is open, its end, which can take seconds, does not come in the rename.
	old, err := r.fs.Open(r.path, unix.O_PATH, 0)
	if err == nil {
		defer closeBehind(old)
	}
	if r.options.Publish != nil {
		return r.options.Publish(r.rename)
	}
	return r.rename()
}

func (r *replacement) rename() error {
	if err := r.fs.Rename(r.temporary, r.path); err != nil {
		return Failed(err, "cannot rename %s to %s", r.temporary, r.path)
	}
	r.renamed = true
	if r.options.Durable {
		if err := syncDirectory(r.directory); err != nil {
			return Failed(err, "cannot sync the directory of %s", r.path)
		}
	}
	return nil
}

func (r *replacement) Abort() {
	r.fail(errEnded()) // what waits for the disk is not written any more
	if r.end() {
		r.discard()
	}
}

// discard removes the temporary name before the lock goes with the descriptor. It waits for the file's end, unless it was given
// up: where the disk was full, the caller may try again at once with less.
func (r *replacement) discard() {
	if !r.renamed {
		_ = r.fs.Remove(r.temporary)
	}
	if r.givenUp() {
		closeBehind(r.file)
	} else {
		_ = r.file.Close()
	}
	r.closeDirectory()
}

func (r *replacement) closeDirectory() {
	if r.directory != nil {
		_ = r.directory.Close()
	}
}

// closeBehind closes a file that may have lost its last name: a large one can take seconds to go on a disk with discard.
func closeBehind(f File) {
	safego.Go(func() { _ = f.Close() })
}

// createTemporary makes a temporary file that is locked.
func createTemporary(fs FS, directory, name string, mode os.FileMode) (File, string, error) {
	for {
		temporary := directory + temporaryPrefix(name) + strconv.Itoa(os.Getpid()) + "-" + rand.Text()[:16] + temporarySuffix
		f, err := fs.Open(temporary, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL, mode)
		if err == syscall.EEXIST {
			continue
		}
		if err != nil {
			return nil, "", Failed(err, "cannot create %s", temporary)
		}
		lost, err := sweptAway(f)
		if err != nil {
			_ = fs.Remove(temporary)
			_ = f.Close()
			return nil, "", Failed(err, "cannot open %s", temporary)
		}
		if !lost {
			return f, temporary, nil
		}
		_ = f.Close()
	}
}

// sweptAway locks a new temporary file and says whether another saver had removed it before it was locked.
func sweptAway(f File) (bool, error) {
	switch err := f.Lock(); err {
	case nil:
		info, err := f.Stat()
		return info.Links == 0, err
	case syscall.EWOULDBLOCK:
		return true, nil
	default: // a file system without locks: nobody can lock it, so nobody removes it
		return false, nil
	}
}

// A temporary file is called .NAME.mmsb-PID-RANDOM.tmp; a long NAME, which would exceed the longest file name, is replaced by its
// hash.
const (
	temporarySuffix = ".tmp"
	longestName     = 96
)

func temporaryPrefix(name string) string {
	if len(name) > longestName {
		hash := sha256.Sum256([]byte(name))
		name = hex.EncodeToString(hash[:16])
	}
	return "." + name + ".mmsb-"
}

var temporaryName = regexp.MustCompile(`^\..+\.mmsb-[0-9]{1,10}-[A-Z2-7]{16}\` + temporarySuffix + `$`)

// IsTemporary says whether a file of that name is a temporary one of Replace.
func IsTemporary(name string) bool { return temporaryName.MatchString(name) }

// Sweep removes the temporary files of dead savers from a directory. It is a service: what it cannot do is left for the next one.
func Sweep(fs FS, directory string) {
	if names, err := fs.List(directory); err == nil {
		SweepNames(fs, directory, names)
	}
}

// SweepNames is Sweep for who has listed the directory.
func SweepNames(fs FS, directory string, names []string) {
	for _, name := range names {
		if IsTemporary(name) {
			sweepOne(fs, filepath.Join(directory, name))
		}
	}
}

// sweepOne removes a file that it can lock. Where its saver finishes just now, the name is gone and nothing is removed.
func sweepOne(fs FS, path string) {
	f, err := fs.Open(path, unix.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return
	}
	if f.Lock() == nil {
		_ = fs.Remove(path)
	}
	closeBehind(f)
}
