// The ledger that several processes share in a file.

package runtime

import (
	"encoding/binary"
	"io"
	"os"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"libmmsb/core/limits"
	"libmmsb/core/status"
)

// SharedLedger is a ledger that processes of one machine share: a small file, usually under /dev/shm, with a slot for each
// process. A process holds a lock of its slot as long as it lives; the kernel drops it with the process, however that ends, and
// who needs space finds the slot without its owner and takes its bytes back. Admission is under a lock of the file's, so that the
// limit holds to the last byte.
//
// The locks are POSIX record locks: they belong to the process, so that a fork does not keep a dead parent's bytes. The file is
// read and written, not mapped: who cuts it short makes Take an error, and not a bus error.
type SharedLedger struct {
	key   fileKey
	file  *os.File
	limit uint64
	slot  int
	users int // within this process
	mutex sync.Mutex
	own   atomic.Uint64 // charged by this process, as in its slot
}

type fileKey struct{ device, inode uint64 }

// The layout of the file: a header (magic, u32 version, u32 number of slots, u64 limit, zeros), then the slots (u64 charged, u32
// pid, zeros). All numbers are the machine's own.
const (
	ledgerMagic   = 0x3172656764656c6d // "mledger1"
	ledgerVersion = 1
	ledgerSlots   = 255
	ledgerUnit    = 64 // of the header and of each slot
	ledgerBytes   = ledgerUnit * (1 + ledgerSlots)
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
	var stat unix.Stat_t
	if unix.Lstat(path, &stat) == nil { // a second descriptor would have to stay open: closing it drops the first one's locks
		if open := ledgers.byFile[fileKey{stat.Dev, stat.Ino}]; open != nil {
			return open.again(path, limit)
		}
	}
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
	if err := unix.Fstat(descriptor, &stat); err != nil {
		_ = unix.Close(descriptor)
		return nil, ledgerError(err, path)
	}
	key := fileKey{stat.Dev, stat.Ino}
	if open := ledgers.byFile[key]; open != nil { // somebody has given it this name meanwhile
		kept = append(kept, descriptor)
		return open.again(path, limit)
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

// again is one more use of a ledger that this process has open.
func (l *SharedLedger) again(path string, limit uint64) (*SharedLedger, error) {
	if limit != 0 && limit != l.limit {
		return nil, otherLimit(path, l.limit, limit)
	}
	l.users++
	return l, nil
}

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
	case info.Size() != ledgerBytes && l.begins():
		return status.Errorf(status.Corrupt, "ledger %q has %d bytes, not %d", path, info.Size(), ledgerBytes)
	case info.Size() != ledgerBytes:
		return status.Errorf(status.Format, "%q is not a ledger: it has %d bytes, not %d", path, info.Size(), ledgerBytes)
	}
	if fresh {
		head := make([]byte, ledgerUnit)
		binary.NativeEndian.PutUint64(head, ledgerMagic)
		binary.NativeEndian.PutUint32(head[8:], ledgerVersion)
		binary.NativeEndian.PutUint32(head[12:], ledgerSlots)
		binary.NativeEndian.PutUint64(head[16:], limit)
		if _, err := l.file.WriteAt(head, 0); err != nil {
			return ledgerError(err, path)
		}
	}
	content, err := l.read()
	if err != nil {
		return err
	}
	if l.limit = binary.NativeEndian.Uint64(content[16:]); limit != 0 && l.limit != limit {
		return otherLimit(path, l.limit, limit)
	}
	for slot := range ledgerSlots {
		if l.lock(slot+1, false) == nil {
			l.slot = slot
			return l.store(slot, 0, os.Getpid()) // its owner has died
		}
	}
	return status.Errorf(status.Limit, "ledger %q is open in %d processes, the most there can be", path, ledgerSlots)
}

// begins says whether the file begins like a ledger.
func (l *SharedLedger) begins() bool {
	magic := make([]byte, 8)
	_, err := l.file.ReadAt(magic, 0)
	return err == nil && binary.NativeEndian.Uint64(magic) == ledgerMagic
}

// read reads the file, and looks at its header. Errors: Corrupt (cut short), Format (no ledger), IO.
func (l *SharedLedger) read() ([]byte, error) {
	content := make([]byte, ledgerBytes)
	n, err := l.file.ReadAt(content, 0)
	switch {
	case err == io.EOF:
		return nil, status.Errorf(status.Corrupt, "ledger %q has %d bytes, not %d: it was cut short",
			l.file.Name(), n, ledgerBytes)
	case err != nil:
		return nil, ledgerError(err, l.file.Name())
	case binary.NativeEndian.Uint64(content) != ledgerMagic || binary.NativeEndian.Uint32(content[8:]) != ledgerVersion ||
		binary.NativeEndian.Uint32(content[12:]) != ledgerSlots:
		return nil, status.Errorf(status.Format, "%q is not a ledger of version %d", l.file.Name(), ledgerVersion)
	}
	return content, nil
}

func chargedIn(content []byte, slot int) uint64 {
	return binary.NativeEndian.Uint64(content[ledgerUnit*(1+slot):])
}

// store writes a slot.
func (l *SharedLedger) store(slot int, charged uint64, pid int) error {
	bytes := make([]byte, 12)
	binary.NativeEndian.PutUint64(bytes, charged)
	binary.NativeEndian.PutUint32(bytes[8:], uint32(pid))
	if _, err := l.file.WriteAt(bytes, int64(ledgerUnit*(1+slot))); err != nil {
		return ledgerError(err, l.file.Name())
	}
	return nil
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

func sumOf(content []byte) (total uint64) {
	for slot := range ledgerSlots {
		charged := chargedIn(content, slot)
		total += min(charged, ^uint64(0)-total)
	}
	return total
}

// reclaim takes back the bytes of processes that have died, in the file and in what was read of it. The lock of admission is
// held.
func (l *SharedLedger) reclaim(content []byte) {
	for slot := range ledgerSlots {
		if slot == l.slot || chargedIn(content, slot) == 0 || l.lock(slot+1, false) != nil {
			continue
		}
		if l.store(slot, 0, 0) == nil {
			binary.NativeEndian.PutUint64(content[ledgerUnit*(1+slot):], 0)
		}
		l.unlock(slot + 1)
	}
}

// Take implements Ledger. It may wait a moment for other processes. Errors: Corrupt, Format, IO.
func (l *SharedLedger) Take(bytes uint64) (charged uint64, ok bool, err error) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if err := l.lock(0, true); err != nil {
		return 0, false, ledgerError(err, l.file.Name())
	}
	defer l.unlock(0)
	content, err := l.read()
	if err != nil {
		return 0, false, err
	}
	fits := func() bool {
		charged = sumOf(content)
		return charged <= l.limit && bytes <= l.limit-charged
	}
	if !fits() {
		l.reclaim(content)
		if !fits() {
			return charged, false, nil
		}
	}
	if err := l.store(l.slot, l.own.Load()+bytes, os.Getpid()); err != nil {
		return charged, false, err
	}
	l.own.Add(bytes)
	return charged, true, nil
}

// Give implements Ledger. What cannot be written is taken back when this process has died.
func (l *SharedLedger) Give(bytes uint64) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if l.lock(0, true) == nil { // nobody reads the slot while it is written
		defer l.unlock(0)
	}
	given(bytes, l.own.Add(-bytes))
	_ = l.store(l.slot, l.own.Load(), os.Getpid())
}

// Charged implements Ledger: the bytes of all processes; of this one where the file is damaged.
func (l *SharedLedger) Charged() uint64 {
	content, err := l.read()
	if err != nil {
		return l.Own()
	}
	return sumOf(content)
}

// Own are the bytes of this process.
func (l *SharedLedger) Own() uint64 { return l.own.Load() }

// Limit implements Ledger.
func (l *SharedLedger) Limit() uint64 { return l.limit }

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
	if l.slot >= 0 {
		_ = l.store(l.slot, 0, 0)
	}
	_ = l.file.Close()
}
