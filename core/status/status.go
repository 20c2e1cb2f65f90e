// Package status holds the library's status codes and its one error type.
//
// The values are those of mmsb.h (codes.go) and never change their meaning. Every error that reaches a caller is one line of text
// with the numbers in it; Error makes sure of the one line.
package status

import (
	"errors"
	"fmt"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// Code is a status code, an mmsb_status_t.
type Code int32

// String is the code's name in mmsb.h, like "MMSB_E_BUSY"; "status 77" for a code that does not exist.
func (c Code) String() string {
	if name, known := names[c]; known {
		return name
	}
	return "status " + strconv.Itoa(int(c))
}

// Error is a failed call: its code, the number behind it where another party (Domain) gave one, and one line of text.
type Error struct {
	Code    Code
	Domain  int32
	Foreign int32
	Text    string
}

// Error is the code's name and the text.
func (e *Error) Error() string { return e.Code.String() + ": " + Plain(e.Text) }

// Errorf makes an Error of our own, without a foreign code.
func Errorf(code Code, format string, args ...any) error {
	return &Error{Code: code, Text: Plain(fmt.Sprintf(format, args...))}
}

// More is err with more text behind its own.
func More(err error, format string, args ...any) error {
	more := *Of(err)
	more.Text += Plain(fmt.Sprintf(format, args...))
	return &more
}

// FromErrno makes an Error from a failed system call. The text ends with the errno's message and name, as in
// "cannot open state: no such file or directory (ENOENT)".
func FromErrno(code Code, errno syscall.Errno, format string, args ...any) error {
	text := fmt.Sprintf(format, args...) + ": " + errno.Error()
	if name := unix.ErrnoName(errno); name != "" {
		text += " (" + name + ")"
	}
	return &Error{Code: code, Domain: DomainErrno, Foreign: int32(errno), Text: Plain(text)}
}

// ErrnoOf is the errno behind an error of a system call; EIO where there is none.
func ErrnoOf(err error) syscall.Errno {
	var errno syscall.Errno
	if errors.As(err, &errno) {
		return errno
	}
	return syscall.EIO
}

// Of is err as an Error, also where it is wrapped in others: nil for nil, and Internal for an error that is not ours.
func Of(err error) *Error {
	if err == nil {
		return nil
	}
	var own *Error
	if errors.As(err, &own) {
		return own
	}
	return &Error{Code: Internal, Text: Plain(err.Error())}
}

// Done says whether a call has done what it does: it has not failed, or only its record may not be on disk.
func Done(err error) bool { return err == nil || CodeOf(err) == NotDurable }

// CodeOf is the code of err, OK for nil.
func CodeOf(err error) Code {
	if err == nil {
		return OK
	}
	return Of(err).Code
}
