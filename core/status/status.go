// Package status holds the library's status codes and its one error type.
//
// The values are those of mmsb.h and never change their meaning. Every error that reaches a caller is one line of text with
// the numbers in it; Error makes sure of the one line.
package status

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Code is a status code, an mmsb_status_t.
type Code int32

// The codes of mmsb.h.
const (
	OK              Code = 0
	InvalidArgument Code = 10
	InvalidHandle   Code = 11
	StaleHandle     Code = 12
	InvalidSize     Code = 13
	OutOfRange      Code = 14
	InvalidState    Code = 15
	StructVersion   Code = 16
	Mismatch        Code = 17
	Epoch           Code = 18
	NotFound        Code = 20
	AlreadyExists   Code = 21
	Busy            Code = 22
	WouldBlock      Code = 23
	Timeout         Code = 24
	Cancelled       Code = 25
	OutOfMemory     Code = 30
	Limit           Code = 31
	NoSpace         Code = 32
	Unsupported     Code = 40
	NoDevice        Code = 41
	Device          Code = 42
	DeviceLost      Code = 43
	Forked          Code = 44
	IO              Code = 50
	Corrupt         Code = 51
	Format          Code = 52
	Peer            Code = 60
	Internal        Code = 90
	Poisoned        Code = 91
)

// names is keyed by code, so that a value that is used twice does not compile.
var names = map[Code]string{
	OK:              "MMSB_OK",
	InvalidArgument: "MMSB_E_INVALID_ARGUMENT",
	InvalidHandle:   "MMSB_E_INVALID_HANDLE",
	StaleHandle:     "MMSB_E_STALE_HANDLE",
	InvalidSize:     "MMSB_E_INVALID_SIZE",
	OutOfRange:      "MMSB_E_OUT_OF_RANGE",
	InvalidState:    "MMSB_E_INVALID_STATE",
	StructVersion:   "MMSB_E_STRUCT_VERSION",
	Mismatch:        "MMSB_E_MISMATCH",
	Epoch:           "MMSB_E_EPOCH",
	NotFound:        "MMSB_E_NOT_FOUND",
	AlreadyExists:   "MMSB_E_ALREADY_EXISTS",
	Busy:            "MMSB_E_BUSY",
	WouldBlock:      "MMSB_E_WOULD_BLOCK",
	Timeout:         "MMSB_E_TIMEOUT",
	Cancelled:       "MMSB_E_CANCELLED",
	OutOfMemory:     "MMSB_E_OUT_OF_MEMORY",
	Limit:           "MMSB_E_LIMIT",
	NoSpace:         "MMSB_E_NO_SPACE",
	Unsupported:     "MMSB_E_UNSUPPORTED",
	NoDevice:        "MMSB_E_NO_DEVICE",
	Device:          "MMSB_E_DEVICE",
	DeviceLost:      "MMSB_E_DEVICE_LOST",
	Forked:          "MMSB_E_FORKED",
	IO:              "MMSB_E_IO",
	Corrupt:         "MMSB_E_CORRUPT",
	Format:          "MMSB_E_FORMAT",
	Peer:            "MMSB_E_PEER",
	Internal:        "MMSB_E_INTERNAL",
	Poisoned:        "MMSB_E_POISONED",
}

// String is the code's name in mmsb.h, like "MMSB_E_BUSY"; "status 77" for a code that does not exist.
func (c Code) String() string {
	if name, known := names[c]; known {
		return name
	}
	return "status " + strconv.Itoa(int(c))
}

// Whose number Error.Foreign is: the MMSB_DOMAIN_* of mmsb.h.
const (
	DomainNone  int32 = 0
	DomainErrno int32 = 1
	DomainCUDA  int32 = 2
	DomainNCCL  int32 = 3
	DomainNIXL  int32 = 4
)

// Error is a failed call: its code, the number behind it where another party (Domain) gave one, and one line of text.
type Error struct {
	Code    Code
	Domain  int32
	Foreign int32
	Text    string
}

// Error is the code's name and the text.
func (e *Error) Error() string { return e.Code.String() + ": " + e.Text }

// Errorf makes an Error of our own, without a foreign code.
func Errorf(code Code, format string, args ...any) error {
	return &Error{Code: code, Text: line(fmt.Sprintf(format, args...))}
}

// FromErrno makes an Error from a failed system call. The text ends with the errno's message and name, as in
// "cannot open state: no such file or directory (ENOENT)".
func FromErrno(code Code, errno syscall.Errno, format string, args ...any) error {
	text := fmt.Sprintf(format, args...) + ": " + errno.Error()
	if name := unix.ErrnoName(errno); name != "" {
		text += " (" + name + ")"
	}
	return &Error{Code: code, Domain: DomainErrno, Foreign: int32(errno), Text: line(text)}
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
	return &Error{Code: Internal, Text: line(err.Error())}
}

// CodeOf is the code of err, OK for nil.
func CodeOf(err error) Code {
	if err == nil {
		return OK
	}
	return Of(err).Code
}

var lineBreaks = strings.NewReplacer("\n", `\n`, "\r", `\r`)

// line keeps a text that carries a caller's name or another's message on one line.
func line(text string) string { return lineBreaks.Replace(text) }
