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

// staging is a directory beside the target, on the same file system, which a kill leaves for the next run. A file beside it is
// locked by whoever fills it.
type staging struct {
	fs           file.FS
	target, path string
	lock         file.File
}

// stage makes the directory for a target that is missing or empty, or goes on with what a killed run has left. Errors:
// AlreadyExists, Busy, those of the file system.
func stage(fs file.FS, target string) (*staging, error) {
	absolute, err := filepath.Abs(target)
	if err != nil {
		return nil, status.Errorf(status.IO, "cannot find %s: %v", target, err)
	}
	directory, name := filepath.Split(absolute)
	s := &staging{fs: fs, target: absolute, path: filepath.Join(directory, "."+name+".mmsb-unfinished")}
	if err := s.takeLock(); err != nil {
		return nil, err
	}
	mode, err := s.checkTarget()
	if err != nil {
		s.leave()
		return nil, err
	}
	if err := fs.MakeDirectory(s.path, mode); err != nil && err != syscall.EEXIST {
		s.leave()
		return nil, file.Failed(err, "cannot create the directory %s", s.path)
	}
	return s, nil
}

func (s *staging) lockPath() string { return s.path + ".lock" }

func (s *staging) takeLock() (err error) {
	s.lock, err = s.fs.Open(s.lockPath(), unix.O_RDWR|unix.O_CREAT, 0o666)
	if err != nil {
		return file.Failed(err, "cannot create %s", s.lockPath())
	}
	err = s.lock.Lock()
	if err == nil {
		var info file.Info
		if info, err = s.lock.Stat(); err == nil && info.Links == 0 { // who had it has ended just now
			err = syscall.EWOULDBLOCK
		}
	}
	switch err {
	case nil:
		return nil
	case syscall.EWOULDBLOCK:
		err = status.Errorf(status.Busy, "another process is filling %q", s.path)
	default:
		err = file.Failed(err, "cannot lock %s", s.lockPath())
	}
	_ = s.lock.Close()
	return err
}

// checkTarget says with which permissions the target is made: those of the empty directory that is there.
func (s *staging) checkTarget() (mode os.FileMode, err error) {
	info, err := s.fs.Stat(s.target)
	if err == syscall.ENOENT {
		return 0o777, nil
	}
	if err == nil && info.Mode&os.ModeSymlink != 0 { // no directory can take its place
		return 0, status.Errorf(status.AlreadyExists, "%q is a symbolic link: the target must be missing, or an empty directory",
			s.target)
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
	s.leave()
	return file.SyncDirectory(s.fs, filepath.Dir(s.target))
}

// leave lets the directory lie for the next run, unless it is empty.
func (s *staging) leave() {
	_ = s.fs.RemoveDirectory(s.path)
	_ = s.fs.Remove(s.lockPath())
	_ = s.lock.Close()
}

// discard removes the directory.
func (s *staging) discard() {
	_ = s.empty()
	s.leave()
}
