// A directory that is filled beside its place and comes there whole or not at all.

package command

import (
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"

	"libmmsb/core/file"
	"libmmsb/core/status"
)

// staging is a directory beside the target, on the same file system, which a kill leaves for the next run.
type staging struct {
	fs           file.FS
	target, path string
	lock         file.File
}

// stagingLock is a file in it that whoever fills it has locked.
const stagingLock = "mmsb.lock"

// stage makes the directory for a target that is missing or empty, or goes on with what a killed run has left. Errors:
// AlreadyExists, Busy, those of the file system.
func stage(fs file.FS, target string) (*staging, error) {
	absolute, err := filepath.Abs(target)
	if err != nil {
		return nil, status.Errorf(status.IO, "cannot find %s: %v", target, err)
	}
	directory, name := filepath.Split(absolute)
	s := &staging{fs: fs, target: absolute, path: filepath.Join(directory, "."+name+".mmsb-unfinished")}
	mode, err := s.checkTarget()
	if err != nil {
		return nil, err
	}
	if err := fs.MakeDirectory(s.path, mode); err != nil && err != syscall.EEXIST {
		return nil, file.Failed(err, "cannot create the directory %s", s.path)
	}
	path := filepath.Join(s.path, stagingLock)
	s.lock, err = fs.Open(path, unix.O_RDWR|unix.O_CREAT, 0o666)
	if err != nil {
		return nil, file.Failed(err, "cannot create %s", path)
	}
	if err := s.lock.Lock(); err != nil {
		_ = s.lock.Close()
		if err == syscall.EWOULDBLOCK {
			return nil, status.Errorf(status.Busy, "another process is filling %q", s.path)
		}
		return nil, file.Failed(err, "cannot lock %s", path)
	}
	return s, nil
}

// checkTarget says with which permissions the target is made: those of the empty directory that is there.
func (s *staging) checkTarget() (mode os.FileMode, err error) {
	info, err := s.fs.Stat(s.target)
	if err == syscall.ENOENT {
		return 0o777, nil
	}
	var names []string
	if err == nil {
		names, err = s.fs.List(s.target)
	}
	if err != nil {
		return 0, file.Failed(err, "cannot list %s", s.target)
	}
	if len(names) > 0 {
		return 0, status.Errorf(status.AlreadyExists, "%q is not empty: it has %d files, as %q", s.target, len(names), names[0])
	}
	return info.Mode.Perm(), nil
}

// empty removes what a killed run has left.
func (s *staging) empty() error {
	names, err := s.fs.List(s.path)
	if err != nil {
		return file.Failed(err, "cannot list %s", s.path)
	}
	for _, name := range names {
		if name == stagingLock {
			continue
		}
		if err := s.fs.Remove(filepath.Join(s.path, name)); err != nil && err != syscall.ENOENT {
			return file.Failed(err, "cannot remove %s", filepath.Join(s.path, name))
		}
	}
	return nil
}

// publish gives the directory, whose files are durable, the target's name.
func (s *staging) publish() error {
	if err := file.SyncDirectory(s.fs, s.path); err != nil {
		return err
	}
	if err := s.fs.Rename(s.path, s.target); err != nil { // also in the place of an empty one
		return file.Failed(err, "cannot rename %s to %s", s.path, s.target)
	}
	// The lock had to stay until the directory was in its place.
	_ = s.fs.Remove(filepath.Join(s.target, stagingLock))
	_ = s.lock.Close()
	return file.SyncDirectory(s.fs, filepath.Dir(s.target))
}

// leave lets the directory lie for the next run.
func (s *staging) leave() { _ = s.lock.Close() }

// discard removes the directory.
func (s *staging) discard() {
	if s.empty() == nil {
		_ = s.fs.Remove(filepath.Join(s.path, stagingLock))
		_ = s.fs.RemoveDirectory(s.path)
	}
	s.leave()
}
