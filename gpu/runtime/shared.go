// The ledger that several processes share in a file.

package runtime

import (
	"os"
	"sync"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"

	"libmmsb/core/limits"
	"libmmsb/core/status"
)

// SharedLedger is a ledger that processes of one machine share: a small file, usually under /dev/shm, with a slot for each
// process. A process holds a lock of its slot as long as it lives; the kernel drops it with the process, however that ends, and
// who needs space finds the slot without its owner and takes its bytes back. Admission is under a lock of the file's, so that the
// limit holds to the last byte.
//
// The locks are POSIX record locks: they belong to the process, so that a fork does not keep a dead parent's bytes.
type SharedLedger struct {
	key    fileKey
	file   *os.File
	memory []byte
	slot   int
	users  int // within this process
	mutex  sync.Mutex
}

type fileKey struct{ device, inode uint64 }

// ledgerFile is the layout of the file: this header, then the slots. All numbers are the machine's own.
type ledgerFile struct {
	magic   uint64
	version uint32
	slots   uint32
	limit   uint64
	_       [40]byte
}

// ledgerSlot is one process' part.
type ledgerSlot struct {
	charged uint64
	pid     uint32
	_       [52]byte
}

const (
	ledgerMagic   = 0x3172656764656c6d // "mledger1"
	ledgerVersion = 1
	ledgerSlots   = 255
	ledgerBytes   = int64(unsafe.Sizeof(ledgerFile{}) + ledgerSlots*unsafe.Sizeof(ledgerSlot{}))
)

// ledgers are those that this process has open: closing a second descriptor of a file would drop the locks of the first.
var ledgers = struct {
	sync.Mutex
	byFile map[fileKey]*SharedLedger
}{byFile: make(map[fileKey]*SharedLedger)}

// OpenLedger opens a ledger, or begins it. limit is in bytes; 0 takes what the file says. Errors: InvalidArgument (no limit for a
// new file), Mismatch (another limit), Format (no ledger), Limit (255 processes have it open), IO.
func OpenLedger(path string, limit uint64) (*SharedLedger, error) {
	ledgers.Lock()
	defer ledgers.Unlock()
	flags := unix.O_RDWR | unix.O_CLOEXEC | unix.O_NOFOLLOW
	if limit != 0 {
		flags |= unix.O_CREAT
	}
	descriptor, err := unix.Open(path, flags, 0o600)
	if err == unix.ENOENT && limit == 0 {
		return nil, status.Errorf(status.InvalidArgument, "ledger %q does not exist; a limit is needed to create it", path)
	}
	if err != nil {
		return nil, ledgerError(err, path)
	}
	var stat unix.Stat_t
	if err := unix.Fstat(descriptor, &stat); err != nil {
		_ = unix.Close(descriptor)
		return nil, ledgerError(err, path)
	}
	key := fileKey{stat.Dev, stat.Ino}
	if open := ledgers.byFile[key]; open != nil {
		// The second descriptor must not be closed as long as the first one's locks are wanted: it stays with it.
		if limit != 0 && limit != open.Limit() {
			open.keep(descriptor)
			return nil, otherLimit(path, open.Limit(), limit)
		}
		open.keep(descriptor)
		open.users++
		return open, nil
	}
	l := &SharedLedger{key: key, file: os.NewFile(uintptr(descriptor), path), users: 1, slot: -1}
	if err := l.begin(path, limit); err != nil {
		l.end()
		return nil, err
	}
	ledgers.byFile[key] = l
	return l, nil
}

// kept are descriptors that live as long as the process.
var kept []int

func (l *SharedLedger) keep(descriptor int) { kept = append(kept, descriptor) }

func ledgerError(err error, path string) error {
	code, errno := status.IO, status.ErrnoOf(err)
	if errno == unix.EFBIG || errno == unix.ENOSPC {
		code = status.NoSpace
	}
	return status.FromErrno(code, errno, "cannot use ledger %q", path)
}

func otherLimit(path string, has, wanted uint64) error {
	return status.Errorf(status.Mismatch, "ledger %q has a limit of %d bytes, not %d", path, has, wanted)
}

// begin reads or writes the header and takes a slot.
func (l *SharedLedger) begin(path string, limit uint64) error {
	if err := l.lock(0, true); err != nil {
		return ledgerError(err, path)
	}
	defer l.unlock(0)
	info, err := l.file.Stat()
	if err != nil {
		return ledgerError(err, path)
	}
	fresh := info.Size() == 0
	switch {
	case fresh && limit == 0:
		return status.Errorf(status.Format, "%q is not a ledger: it is empty", path)
	case fresh:
		err := limits.FileSize(uint64(ledgerBytes))
		if err == nil {
			err = l.file.Truncate(ledgerBytes)
		}
		if err != nil {
			return ledgerError(err, path)
		}
	case info.Size() != ledgerBytes:
		return status.Errorf(status.Format, "%q is not a ledger: it has %d bytes, not %d", path, info.Size(), ledgerBytes)
	}
	l.memory, err = unix.Mmap(int(l.file.Fd()), 0, int(ledgerBytes), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return ledgerError(err, path)
	}
	head := l.head()
	if fresh {
		head.version, head.slots, head.limit = ledgerVersion, ledgerSlots, limit
		head.magic = ledgerMagic // last: a file whose writer died in between is no ledger
	}
	if head.magic != ledgerMagic || head.version != ledgerVersion || head.slots != ledgerSlots {
		return status.Errorf(status.Format, "%q is not a ledger of version %d", path, ledgerVersion)
	}
	if limit != 0 && head.limit != limit {
		return otherLimit(path, head.limit, limit)
	}
	for slot := range ledgerSlots {
		if l.lock(slot+1, false) == nil {
			l.slot = slot
			atomic.StoreUint64(&l.at(slot).charged, 0) // of an owner that has died
			l.at(slot).pid = uint32(os.Getpid())
			return nil
		}
	}
	return status.Errorf(status.Limit, "ledger %q is open in %d processes, the most there can be", path, ledgerSlots)
}

func (l *SharedLedger) head() *ledgerFile { return (*ledgerFile)(unsafe.Pointer(&l.memory[0])) }

func (l *SharedLedger) at(slot int) *ledgerSlot {
	return (*ledgerSlot)(unsafe.Pointer(&l.memory[int(unsafe.Sizeof(ledgerFile{}))+slot*int(unsafe.Sizeof(ledgerSlot{}))]))
}

// lock locks byte 0 of the file, which is that of admission, or that of a slot, counted from 1.
func (l *SharedLedger) lock(at int, wait bool) error {
	command := unix.F_SETLK
	if wait {
		command = unix.F_SETLKW
	}
	for {
		err := unix.FcntlFlock(l.file.Fd(), command, &unix.Flock_t{Type: unix.F_WRLCK, Start: int64(at), Len: 1})
		if err != unix.EINTR {
			return err
		}
	}
}

func (l *SharedLedger) unlock(at int) {
	_ = unix.FcntlFlock(l.file.Fd(), unix.F_SETLK, &unix.Flock_t{Type: unix.F_UNLCK, Start: int64(at), Len: 1})
}

func (l *SharedLedger) sum() uint64 {
	total := uint64(0)
	for slot := range ledgerSlots {
		charged := atomic.LoadUint64(&l.at(slot).charged)
		total += min(charged, ^uint64(0)-total)
	}
	return total
}

// reclaim takes back the bytes of processes that have died. The lock of admission is held.
func (l *SharedLedger) reclaim() {
	for slot := range ledgerSlots {
		at := l.at(slot)
		if slot == l.slot || atomic.LoadUint64(&at.charged) == 0 || l.lock(slot+1, false) != nil {
			continue
		}
		atomic.StoreUint64(&at.charged, 0)
		at.pid = 0
		l.unlock(slot + 1)
	}
}

// Take implements Ledger. It may wait a moment for other processes.
func (l *SharedLedger) Take(bytes uint64) (uint64, bool) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if l.lock(0, true) != nil {
		return l.sum(), false
	}
	defer l.unlock(0)
	limit := l.head().limit
	fits := func() (uint64, bool) {
		charged := l.sum()
		return charged, charged <= limit && bytes <= limit-charged
	}
	charged, ok := fits()
	if !ok {
		l.reclaim()
		charged, ok = fits()
	}
	if ok {
		atomic.AddUint64(&l.at(l.slot).charged, bytes)
	}
	return charged, ok
}

// Give implements Ledger.
func (l *SharedLedger) Give(bytes uint64) {
	given(bytes, atomic.AddUint64(&l.at(l.slot).charged, -bytes))
}

// Charged implements Ledger: the bytes of all processes.
func (l *SharedLedger) Charged() uint64 { return l.sum() }

// Own are the bytes of this process.
func (l *SharedLedger) Own() uint64 { return atomic.LoadUint64(&l.at(l.slot).charged) }

// Limit implements Ledger.
func (l *SharedLedger) Limit() uint64 { return l.head().limit }

// Close ends one use of the ledger; the last one of the process gives back what it has charged. The file stays.
func (l *SharedLedger) Close() {
	ledgers.Lock()
	defer ledgers.Unlock()
	if l.users--; l.users == 0 {
		delete(ledgers.byFile, l.key)
		l.end()
	}
}

func (l *SharedLedger) end() {
	if l.memory != nil {
		if l.slot >= 0 {
			atomic.StoreUint64(&l.at(l.slot).charged, 0)
		}
		_ = unix.Munmap(l.memory)
		l.memory = nil
	}
	_ = l.file.Close()
}
