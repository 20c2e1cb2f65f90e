// Errors of the file system with their status codes.

package file

import (
	"errors"
	"os"
	"syscall"

	"libmmsb/core/status"
)

// Failed makes the library's error from one of FS or File: NotFound, AlreadyExists, NoSpace, Limit, OutOfMemory where the
// errno says so, else IO. An error that already is the library's stays what it is.
func Failed(err error, format string, args ...any) error {
	var own *status.Error
	if errors.As(err, &own) {
		return own
	}
	var errno syscall.Errno
	if !errors.As(err, &errno) {
		return status.Errorf(status.IO, format+": %v", append(args, err)...)
	}
	code := status.IO
	switch errno {
	case syscall.ENOENT:
		code = status.NotFound
	case syscall.EEXIST:
		code = status.AlreadyExists
	case syscall.ENOSPC, syscall.EDQUOT, syscall.EFBIG:
		code = status.NoSpace
	case syscall.EMFILE, syscall.ENFILE:
		code = status.Limit
	case syscall.ENOMEM:
		code = status.OutOfMemory
	}
	return status.FromErrno(code, errno, format, args...)
}

// irregular is the error for a path that leads to something else than a file.
func irregular(path string, mode os.FileMode) error {
	what := "not a regular file"
	switch {
	case mode.IsDir():
		return status.FromErrno(status.IO, syscall.EISDIR, "cannot use %s as a file", path)
	case mode&os.ModeSymlink != 0:
		return status.FromErrno(status.IO, syscall.ELOOP, "%s is a symbolic link", path)
	case mode&os.ModeNamedPipe != 0:
		what = "a FIFO, not a regular file"
	case mode&os.ModeSocket != 0:
		what = "a socket, not a regular file"
	case mode&os.ModeDevice != 0:
		what = "a device, not a regular file"
	}
	return status.Errorf(status.IO, "%s is %s", path, what)
}
