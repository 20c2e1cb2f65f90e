// The addresses and the bytes of all simulated devices.

package sim

import (
	"sync"
	"unsafe"

	"libmmsb/core/alloc"
	"libmmsb/core/limits"
	"libmmsb/core/region"
	"libmmsb/core/status"
	"libmmsb/gpu/driver"
	"libmmsb/gpu/kernels"

	"golang.org/x/sys/unix"
)

// frameBytes is the unit in which drivers take memory of the window, and in which an arena keeps its directory.
const frameBytes = 64 << 10

// The window is all memory of all simulated devices of the process: one memory file without a name. It is mapped twice. At the
// closed mapping, whose addresses are those of devices, nobody may touch it; a fixed distance away lies the executor's mapping.
// Behind the part that is mapped twice lies one that is mapped only once: memory of the host that devices reach. It has the same
// address for everyone.
//
// A memory file costs what was touched, so the window can be far larger than what the machine has.
type window struct {
	mutex    sync.Mutex
	file     int
	closed   uintptr // of file offset 0
	open     uintptr // of file offset 0
	bytes    uint64  // of each half
	halves   [2]*alloc.Extents
	openErr  error
	openOnce sync.Once
}

// The halves of the window.
const (
	closedHalf = iota
	openHalf
)

var theWindow window

// get makes the window at the first call. Where the program's addresses are limited it is smaller.
func (w *window) get() error {
	w.openOnce.Do(func() {
		for bytes := uint64(16 << 40); bytes >= 1<<30; bytes /= 2 {
			if w.openErr = w.make(bytes); status.CodeOf(w.openErr) != status.OutOfMemory {
				return
			}
		}
	})
	return w.openErr
}

func (w *window) make(bytes uint64) error {
	file, err := unix.MemfdCreate("mmsb simulated devices", unix.MFD_CLOEXEC)
	if err != nil {
		return status.FromErrno(status.Unsupported, status.ErrnoOf(err), "cannot create a memory file for simulated devices")
	}
	if err = limits.FileSize(2 * bytes); err == nil {
		err = limits.Addresses(3*bytes + 2*granularity)
	}
	if err == nil {
		err = unix.Ftruncate(file, int64(2*bytes))
	}
	if err == nil {
		var open, closed unsafe.Pointer
		open, err = mapAligned(file, uintptr(2*bytes), unix.PROT_READ|unix.PROT_WRITE)
		if err == nil {
			closed, err = mapAligned(file, uintptr(bytes), unix.PROT_NONE)
			if err == nil {
				// A core file should not hold the devices' memory; where the advice is not taken nothing else is lost.
				_ = unix.Madvise(region.BytesAt(uintptr(open), 2*bytes), unix.MADV_DONTDUMP)
				w.file, w.open, w.closed, w.bytes = file, uintptr(open), uintptr(closed), bytes
				kernels.Reach(w.closed, w.closed+uintptr(bytes), w.open-w.closed)
				w.halves = [2]*alloc.Extents{alloc.NewExtents(bytes / frameBytes), alloc.NewExtents(bytes / frameBytes)}
				return nil
			}
			_ = unix.MunmapPtr(open, uintptr(2*bytes))
		}
	}
	_ = unix.Close(file)
	return status.FromErrno(status.OutOfMemory, status.ErrnoOf(err), "cannot map %d bytes for simulated devices", bytes)
}

// mapAligned maps a file from its beginning on, at a multiple of the granularity: what is mapped by hand begins at one, and the
// system knows only its own pages.
func mapAligned(file int, bytes uintptr, protection int) (unsafe.Pointer, error) {
	const anonymous = unix.MAP_PRIVATE | unix.MAP_ANONYMOUS | unix.MAP_NORESERVE
	reserved, err := unix.MmapPtr(-1, 0, nil, bytes+granularity, unix.PROT_NONE, anonymous)
	if err != nil {
		return nil, err
	}
	before := -uintptr(reserved) & (granularity - 1)
	at := unsafe.Add(reserved, before)
	if before > 0 {
		_ = unix.MunmapPtr(reserved, before)
	}
	_ = unix.MunmapPtr(unsafe.Add(at, bytes), granularity-before)
	const shared = unix.MAP_SHARED | unix.MAP_NORESERVE | unix.MAP_FIXED
	if _, err = unix.MmapPtr(file, 0, at, bytes, protection, shared); err != nil {
		_ = unix.MunmapPtr(at, bytes)
	}
	return at, err
}

// share is of how many parts of what is left one arena gets one where it wants more.
const share = 8

// take is a part of a half for an arena: what it wants, or what leaves most to those that come later, but no less than it needs.
func (w *window) take(half int, least, most uint64) (at driver.Address, bytes uint64, err error) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	left := w.halves[half].Largest() * frameBytes
	bytes = (min(max(left/share, least), most) + granularity - 1) / granularity * granularity // where what is mapped begins
	offset, ok := w.halves[half].Allocate(bytes/frameBytes, 0)
	if !ok {
		return 0, 0, status.Errorf(status.OutOfMemory,
			"%d bytes of addresses of a simulated device exceed the %d that are left of %d", least, left, w.bytes)
	}
	at = driver.Address(uint64(w.closed) + offset*frameBytes)
	if half == openHalf {
		at = driver.Address(uint64(w.open) + w.bytes + offset*frameBytes)
	}
	return at, bytes, nil
}

// give takes a part back with its bytes.
func (w *window) give(address driver.Address, bytes uint64) {
	w.discard(address, bytes)
	offset := w.offset(address)
	half := closedHalf
	if offset >= w.bytes {
		half, offset = openHalf, offset-w.bytes
	}
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if err := w.halves[half].Free(offset/frameBytes, bytes/frameBytes); err != nil {
		panic(err)
	}
}

// has says whether an address is of simulated memory.
func (w *window) has(address driver.Address) bool {
	return w.isClosed(address) || uint64(address)-uint64(w.open)-w.bytes < w.bytes
}

// isClosed says whether an address is one that only devices reach.
func (w *window) isClosed(address driver.Address) bool {
	return uint64(address)-uint64(w.closed) < w.bytes
}

// offset is where in the file the bytes of an address of the window lie, if nothing else is mapped there.
func (w *window) offset(address driver.Address) uint64 {
	if w.isClosed(address) {
		return uint64(address) - uint64(w.closed)
	}
	return uint64(address) - uint64(w.open)
}

// reach is the executor's way to the bytes of any address.
func (w *window) reach(address driver.Address, bytes uint64) []byte {
	if w.isClosed(address) {
		return region.BytesAt(w.open+uintptr(address)-w.closed, bytes)
	}
	return region.BytesAt(uintptr(address), bytes)
}

// discard gives the bytes back to the system; they read as zeros.
func (w *window) discard(address driver.Address, bytes uint64) {
	const punch = unix.FALLOC_FL_PUNCH_HOLE | unix.FALLOC_FL_KEEP_SIZE
	if err := unix.Fallocate(w.file, punch, int64(w.offset(address)), int64(bytes)); err != nil {
		clear(w.reach(address, bytes))
	}
}

// alias lets the executor find the bytes of one device address at another one.
func (w *window) alias(address, bytesOf driver.Address, bytes uint64) error {
	at := unsafe.Add(unsafe.Pointer(nil), w.open+uintptr(w.offset(address)))
	_, err := unix.MmapPtr(w.file, int64(w.offset(bytesOf)), at, uintptr(bytes), unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_SHARED|unix.MAP_NORESERVE|unix.MAP_FIXED)
	if err != nil {
		return status.FromErrno(status.OutOfMemory, status.ErrnoOf(err), "cannot map %d bytes at 0x%x", bytes, address)
	}
	return nil
}
