// The system calls of write tracking: userfaultfd and PAGEMAP_SCAN.

package track

import (
	"os"
	"runtime"
	"syscall"
	"unsafe"

	"libmmsb/core/status"

	"golang.org/x/sys/unix"
)

// What golang.org/x/sys does not have: linux/userfaultfd.h and the scan of linux/fs.h.
const (
	userModeOnly = 1

	apiVersion      = 0xAA
	featureWPShared = 1 << 12 // write-protect on shared memory
	featureWPAsync  = 1 << 15 // the kernel takes the fault itself; also protects pages that were never touched

	ioctlAPI          = 0xC018AA3F
	ioctlRegister     = 0xC020AA00
	ioctlUnregister   = 0x8010AA01
	ioctlWriteProtect = 0xC018AA06
	ioctlPagemapScan  = 0xC0606610

	registerWP     = 1 << 1
	zeroPageNumber = 4 // a bit of what register answers: huge pages of hugetlbfs lack it
	protect        = 1 << 0

	scanRearm       = 1 << 0
	scanOnlyTracked = 1 << 1

	pageTracked = 1 << 0
	pageWritten = 1 << 1
	pagePresent = 1 << 3
	pageSwapped = 1 << 4 // also what write-protecting leaves of a page that was never touched
)

// The kernel holds the lock of the address space for one call: pieces let mmap and munmap of other threads in between.
const pieceSize = 256 << 20

type apiArgument struct{ version, features, ioctls uint64 }

type rangeArgument struct{ start, length uint64 }

type registerArgument struct {
	where        rangeArgument
	mode, ioctls uint64
}

type protectArgument struct {
	where rangeArgument
	mode  uint64
}

type scanArgument struct {
	size, flags, start, end, walkEnd, vector, vectorLength, maxPages uint64
	categoryInverted, categoryMask, categoryAnyOf, categoryReturned  uint64
}

type pageRegion struct{ start, end, categories uint64 }

// kernel is this process's door to the kernel's tracking. The descriptors stay bound to the address space that opened them,
// also in a forked child.
type kernel struct {
	process int
	faults  int
	pagemap int
	maps    int
	regions [512]pageRegion // what a scan answers, under the lock of the tracker
}

func ioctl(descriptor int, request uintptr, argument unsafe.Pointer) syscall.Errno {
	for {
		_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(descriptor), request, uintptr(argument))
		if errno != unix.EINTR && errno != unix.EAGAIN {
			return errno
		}
	}
}

// openKernel opens the door and tries it on a page of its own.
func openKernel() (*kernel, error) {
	faults, _, errno := unix.Syscall(unix.SYS_USERFAULTFD, unix.O_CLOEXEC|userModeOnly, 0, 0)
	if errno != 0 {
		return nil, status.FromErrno(status.Unsupported, errno,
			"cannot create a userfaultfd (the kernel has none, or a seccomp filter forbids it)")
	}
	k := &kernel{process: os.Getpid(), faults: int(faults), pagemap: -1, maps: -1}
	api := apiArgument{version: apiVersion, features: featureWPAsync | featureWPShared}
	if errno := ioctl(k.faults, ioctlAPI, unsafe.Pointer(&api)); errno != 0 {
		k.close()
		return nil, status.FromErrno(status.Unsupported, errno,
			"the kernel's userfaultfd has no asynchronous write-protect (Linux 6.7 and newer have it)")
	}
	for _, file := range [...]struct {
		path       string
		descriptor *int
	}{{"/proc/self/pagemap", &k.pagemap}, {"/proc/self/maps", &k.maps}} {
		descriptor, err := unix.Open(file.path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			k.close()
			return nil, status.FromErrno(status.Unsupported, status.ErrnoOf(err), "cannot open %s", file.path)
		}
		*file.descriptor = descriptor
	}
	if err := k.try(); err != nil {
		k.close()
		return nil, err
	}
	return k, nil
}

func (k *kernel) close() {
	for _, descriptor := range [...]int{k.faults, k.pagemap, k.maps} {
		if descriptor >= 0 {
			_ = unix.Close(descriptor)
		}
	}
}

// try follows one write: of three pages the one in the middle.
func (k *kernel) try() error {
	size := systemPage
	memory, err := unix.Mmap(-1, 0, int(3*size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return status.FromErrno(status.OutOfMemory, status.ErrnoOf(err), "cannot map %d bytes to try write tracking", 3*size)
	}
	defer func() { _ = unix.Munmap(memory) }()
	start := uintptr(unsafe.Pointer(&memory[0]))
	all := Range{start, start + 3*size}
	if _, errno := k.register(all); errno != 0 {
		return status.FromErrno(status.Unsupported, errno, "userfaultfd cannot write-protect")
	}
	if err := k.scan(all, true, func(Range) {}); err != nil {
		return status.Errorf(status.Unsupported, "cannot scan the page map: %s", status.Of(err).Text)
	}
	memory[size] = 1
	var written []Range
	if err := k.scan(all, true, func(r Range) { written = add(written, 0, r) }); err != nil {
		return status.Errorf(status.Unsupported, "cannot scan the page map: %s", status.Of(err).Text)
	}
	if len(written) != 1 || written[0] != (Range{start + size, start + 2*size}) {
		return status.Errorf(status.Unsupported,
			"the kernel's write tracking is not exact: a write at 0x%x was reported as %x", start+size, written)
	}
	return nil
}

// register makes a range known to userfaultfd; plain is false for memory of hugetlbfs.
func (k *kernel) register(r Range) (plain bool, errno syscall.Errno) {
	argument := registerArgument{where: rangeArgument{uint64(r.Start), uint64(r.End - r.Start)}, mode: registerWP}
	errno = ioctl(k.faults, ioctlRegister, unsafe.Pointer(&argument))
	return argument.ioctls&(1<<zeroPageNumber) != 0, errno
}

// unregister also takes the protection off. What is no longer mapped needs none.
func (k *kernel) unregister(r Range) {
	argument := rangeArgument{uint64(r.Start), uint64(r.End - r.Start)}
	_ = ioctl(k.faults, ioctlUnregister, unsafe.Pointer(&argument))
}

func (k *kernel) writeProtect(r Range) syscall.Errno {
	argument := protectArgument{where: rangeArgument{uint64(r.Start), uint64(r.End - r.Start)}, mode: protect}
	return ioctl(k.faults, ioctlWriteProtect, unsafe.Pointer(&argument))
}

// scan tells of every written range, in order, and with rearm protects it in the same step: a write is either before, and
// told now, or after, and told by the next scan. It fails where a part of the range is not (any more) registered.
func (k *kernel) scan(r Range, rearm bool, written func(Range)) error {
	argument := scanArgument{
		size:  uint64(unsafe.Sizeof(scanArgument{})),
		flags: scanOnlyTracked,
		// Every page is asked for, so that a hole shows as a gap in the answer.
		categoryMask:     pageTracked,
		categoryReturned: pageWritten | pagePresent | pageSwapped,
		vector:           uint64(uintptr(unsafe.Pointer(&k.regions[0]))),
		vectorLength:     uint64(len(k.regions)),
	}
	if rearm {
		argument.flags |= scanRearm
	}
	for at := uint64(r.Start); at < uint64(r.End); {
		argument.start, argument.end = at, min(uint64(r.End), at+pieceSize)
		count, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(k.pagemap), ioctlPagemapScan, uintptr(unsafe.Pointer(&argument)))
		switch {
		case errno == unix.EINTR:
			continue
		case errno == unix.EPERM || errno == 0 && count == 0:
			return gone(at)
		case errno != 0:
			return status.FromErrno(status.Internal, errno, "cannot scan the page map of [0x%x, 0x%x)", at, argument.end)
		}
		// Where the answer has no more room the next one goes on at its end. The kernel's own word for that, walkEnd, is short of
		// it where the kernel has gone on by itself.
		for _, region := range k.regions[:count] {
			if region.start != at {
				return gone(at)
			}
			at = region.end
			found := Range{uintptr(region.start), uintptr(region.end)}
			changed, absent := wasWritten(region.categories)
			if absent && rearm && k.writeProtect(found) != 0 {
				return gone(region.start)
			}
			if changed {
				written(found)
			}
		}
	}
	runtime.KeepAlive(k)
	return nil
}

// wasWritten reads what a scan says of a page. Nothing of what protecting puts in is left of one that was discarded, and that is
// now zero: newer kernels call it written and protect it in the scan, older ones leave it absent and do not.
func wasWritten(categories uint64) (written, absent bool) {
	absent = categories&(pageWritten|pagePresent|pageSwapped) == 0
	return absent || categories&pageWritten != 0, absent
}

func gone(address uint64) error {
	return status.Errorf(status.InvalidState, "memory at 0x%x is no longer mapped as it was when tracking began", address)
}
