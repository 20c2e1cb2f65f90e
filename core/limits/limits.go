// Package limits says what the system lets this process have, where going beyond it would do more than make a call fail.
package limits

import (
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// FileSize is EFBIG where a file may not become so long: the system would send a signal that ends the program. It is asked before
// each call that writes a file, because a program may set the limit at any time.
func FileSize(end uint64) error {
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_FSIZE, &limit) == nil && end > limit.Cur {
		return unix.EFBIG
	}
	return nil
}

// FileSizeHere is FileSize for bytes that are written where a descriptor stands.
func FileSizeHere(descriptor int, bytes uint64) error {
	var stat unix.Stat_t
	if unix.Fstat(descriptor, &stat) != nil || stat.Mode&unix.S_IFMT != unix.S_IFREG {
		return nil
	}
	at, err := unix.Seek(descriptor, 0, unix.SEEK_CUR)
	if err != nil {
		return nil
	}
	if flags, err := unix.FcntlInt(uintptr(descriptor), unix.F_GETFL, 0); err == nil && flags&unix.O_APPEND != 0 {
		at = stat.Size
	}
	return FileSize(uint64(at) + bytes)
}

// goKeeps are addresses that nothing else takes: Go ends the process where it gets none.
const goKeeps = 512 << 20

// Addresses is ENOMEM where so many bytes of addresses would leave too few for Go. It costs only a process whose addresses are
// limited.
func Addresses(bytes uint64) error {
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_AS, &limit) != nil || limit.Cur == unix.RLIM_INFINITY {
		return nil
	}
	content, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return nil
	}
	text, _, _ := strings.Cut(string(content), " ")
	pages, err := strconv.ParseUint(text, 10, 64)
	if used := pages * uint64(os.Getpagesize()); err == nil && (used > limit.Cur || limit.Cur-used < goKeeps ||
		limit.Cur-used-goKeeps < bytes) {
		return unix.ENOMEM
	}
	return nil
}
