// The mappings of this process.

package track

import (
	"os"
	"strconv"
	"strings"
	"unsafe"

	"libmmsb/core/status"

	"golang.org/x/sys/unix"
)

// mapping is one mapping of this process.
type mapping struct {
	where  Range
	shared bool
	file   bool // an inode is behind it; also shared memory has one
}

// The query of linux/fs.h for one mapping, since Linux 6.11.
const (
	ioctlQueryMapping = 0xC0686611

	queryCoveringOrNext = 0x10
	mappingShared       = 8
)

type queryArgument struct {
	size, flags, address                              uint64
	start, end, mappingFlags, pageSize, offset, inode uint64
	major, minor, nameSize, buildSize                 uint32
	name, build                                       uint64
}

// checkMappings says whether all of a range is mapped by memory whose writes are seen.
func checkMappings(k *kernel, r Range, shared bool) error {
	for at := r.Start; at < r.End; {
		m, err := k.mappingAt(at)
		if err != nil {
			return err
		}
		switch {
		case m.where.Start > at:
			return status.Errorf(status.InvalidArgument, "nothing is mapped at 0x%x", at)
		case m.shared && !shared:
			return status.Errorf(status.Unsupported, "memory at 0x%x is shared: writes of other processes would be missed", at)
		case m.file && !m.shared:
			return status.Errorf(status.Unsupported,
				"memory at 0x%x is a private file mapping: changes of the file would be missed", at)
		}
		at = m.where.End
	}
	return nil
}

// mappingAt is the mapping at an address, or the next above it.
func (k *kernel) mappingAt(address uintptr) (mapping, error) {
	query := queryArgument{size: uint64(unsafe.Sizeof(queryArgument{})), flags: queryCoveringOrNext, address: uint64(address)}
	switch errno := ioctl(k.maps, ioctlQueryMapping, unsafe.Pointer(&query)); errno {
	case 0:
		where := Range{uintptr(query.start), uintptr(query.end)}
		return mapping{where, query.mappingFlags&mappingShared != 0, query.inode != 0}, nil
	case unix.ENOENT:
		return nothingAbove, nil
	case unix.ENOTTY:
		return listedMappingAt(address)
	default:
		return mapping{}, status.FromErrno(status.Unsupported, errno, "cannot find the mapping at 0x%x", address)
	}
}

var nothingAbove = mapping{where: Range{^uintptr(0), ^uintptr(0)}}

// listedMappingAt reads the list of all mappings: slower, but every kernel has it. Lines are like
// "7f3c00000000-7f3c00021000 rw-p 00000000 00:00 0    [heap]".
func listedMappingAt(address uintptr) (mapping, error) {
	list, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		return mapping{}, status.FromErrno(status.Unsupported, status.ErrnoOf(err), "cannot read /proc/self/maps")
	}
	for line := range strings.Lines(string(list)) {
		fields := strings.Fields(line)
		if len(fields) < 5 {
			continue
		}
		first, last, _ := strings.Cut(fields[0], "-")
		start, _ := strconv.ParseUint(first, 16, 64)
		end, _ := strconv.ParseUint(last, 16, 64)
		if uintptr(end) > address {
			return mapping{Range{uintptr(start), uintptr(end)}, fields[1][3] == 's', fields[4] != "0"}, nil
		}
	}
	return nothingAbove, nil
}
