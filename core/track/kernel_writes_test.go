package track

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"syscall"
	"testing"
	"unsafe"

	"libmmsb/core/status"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// fileOf is a file of some pages full of ones.
func fileOf(t *testing.T, pages, flags int) int {
	t.Helper()
	path := filepath.Join(t.TempDir(), "ones")
	content := make([]byte, pages*int(systemPage))
	for i := range content {
		content[i] = 1
	}
	require.NoError(t, os.WriteFile(path, content, 0o600))
	descriptor, err := unix.Open(path, flags|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Skipf("NOT TESTED: cannot open a file of %s with flags %#x: %v", filepath.Dir(path), flags, err)
	}
	t.Cleanup(func() { _ = unix.Close(descriptor) })
	return descriptor
}

// What the kernel writes for a system call goes through the page tables: it counts.
func TestWritesOfTheKernel(t *testing.T) {
	needTracking(t)
	into := map[string]func(t *testing.T, memory []byte){
		"read of a file": func(t *testing.T, memory []byte) {
			n, err := unix.Pread(fileOf(t, 2, unix.O_RDONLY), memory, 0)
			require.NoError(t, err)
			require.Equal(t, len(memory), n)
		},
		"read past the page cache": func(t *testing.T, memory []byte) {
			n, err := unix.Pread(fileOf(t, 2, unix.O_RDONLY|unix.O_DIRECT), memory, 0)
			require.NoError(t, err)
			require.Equal(t, len(memory), n)
		},
		"read through io_uring": func(t *testing.T, memory []byte) {
			newRing(t).read(t, fileOf(t, 2, unix.O_RDONLY|unix.O_DIRECT), memory, false)
		},
		"recv": func(t *testing.T, memory []byte) {
			sockets, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
			require.NoError(t, err)
			defer func() { _, _ = unix.Close(sockets[0]), unix.Close(sockets[1]) }()
			sent := make([]byte, len(memory))
			sent[0], sent[len(sent)-1] = 1, 1
			_, err = unix.Write(sockets[0], sent)
			require.NoError(t, err)
			n, _, err := unix.Recvfrom(sockets[1], memory, unix.MSG_WAITALL)
			require.NoError(t, err)
			require.Equal(t, len(memory), n)
		},
		"process_vm_writev": func(t *testing.T, memory []byte) {
			source := make([]byte, len(memory))
			source[0], source[len(source)-1] = 1, 1
			local := []unix.Iovec{{Base: &source[0], Len: uint64(len(source))}}
			remote := []unix.RemoteIovec{{Base: rangeOf(memory).Start, Len: len(memory)}}
			n, err := unix.ProcessVMWritev(os.Getpid(), local, remote, 0)
			require.NoError(t, err)
			require.Equal(t, len(memory), n)
		},
		"/proc/self/mem": func(t *testing.T, memory []byte) {
			file, err := os.OpenFile("/proc/self/mem", os.O_WRONLY, 0)
			require.NoError(t, err)
			defer func() { _ = file.Close() }()
			source := make([]byte, len(memory))
			source[0], source[len(source)-1] = 1, 1
			_, err = file.WriteAt(source, int64(rangeOf(memory).Start))
			require.NoError(t, err)
		},
	}
	for name, write := range into {
		t.Run(name, func(t *testing.T) {
			memory := mapped(t, 8)
			page(memory, 3)[0] = 7 // the other page was never touched
			m := armed(t, memory)
			middle := memory[3*systemPage : 5*systemPage]
			for range 2 {
				write(t, middle)
				require.True(t, middle[0] == 1 && middle[len(middle)-1] == 1, "nothing was written")
				assert.Equal(t, [][2]int{{3, 5}}, collected(t, m, true))
				middle[0], middle[len(middle)-1] = 0, 0
				require.NoError(t, m.Arm(m.Whole()))
			}
		})
	}
	t.Run("asked for as if to write", func(t *testing.T) {
		memory := mapped(t, 8)
		m := armed(t, memory)
		require.NoError(t, unix.Madvise(memory[3*systemPage:5*systemPage], unix.MADV_POPULATE_WRITE))
		assert.Equal(t, [][2]int{{3, 5}}, collected(t, m, true))
		require.NoError(t, unix.Mlock(page(memory, 4)))
		assert.Equal(t, [][2]int{{4, 5}}, collected(t, m, true))
	})
}

// Memory that is pinned before it is armed is written unseen: the limit that the package comment names.
func TestPinnedMemoryIsWrittenUnseen(t *testing.T) {
	needTracking(t)
	memory := mapped(t, 8)
	m := watchAll(t, memory)
	ring := newRing(t)
	middle := memory[3*systemPage : 5*systemPage]
	ring.register(t, middle)
	require.NoError(t, m.Arm(m.Whole()))
	ring.read(t, fileOf(t, 2, unix.O_RDONLY|unix.O_DIRECT), middle, true)
	require.True(t, middle[0] == 1 && middle[len(middle)-1] == 1, "nothing was read")
	assert.Empty(t, collected(t, m, true))
	middle[0] = 2
	assert.Equal(t, [][2]int{{3, 4}}, collected(t, m, true), "a store to pinned memory")
}

func TestPinningCounts(t *testing.T) {
	needTracking(t)
	memory := mapped(t, 8)
	m := armed(t, memory)
	newRing(t).register(t, memory[3*systemPage:5*systemPage])
	assert.Equal(t, [][2]int{{3, 5}}, collected(t, m, true))
}

// ring is an io_uring of one entry.
type ring struct {
	descriptor  int
	rings       []byte
	entries     []byte
	tail, array *uint32
	head, ended *uint32 // of the completions
	completion  *struct {
		user  uint64
		bytes int32
		flags uint32
	}
}

func newRing(t *testing.T) *ring {
	t.Helper()
	var parameters struct {
		submissions, completions, flags, thread, idle, features, workers uint32
		reserved                                                         [3]uint32
		submission, completion                                           [10]uint32 // offsets in the rings
	}
	descriptor, _, errno := unix.Syscall(unix.SYS_IO_URING_SETUP, 1, uintptr(unsafe.Pointer(&parameters)), 0)
	if errno != 0 {
		t.Skipf("NOT TESTED: no io_uring: %v", errno)
	}
	r := &ring{descriptor: int(descriptor)}
	t.Cleanup(func() { _ = unix.Close(r.descriptor) })
	var err error
	r.rings, err = unix.Mmap(r.descriptor, 0, int(systemPage), readWrite, unix.MAP_SHARED)
	require.NoError(t, err)
	r.entries, err = unix.Mmap(r.descriptor, 0x10000000, int(systemPage), readWrite, unix.MAP_SHARED)
	require.NoError(t, err)
	t.Cleanup(func() { _, _ = unix.Munmap(r.rings), unix.Munmap(r.entries) })
	at := func(offset uint32) unsafe.Pointer { return unsafe.Pointer(&r.rings[offset]) }
	r.tail, r.array = (*uint32)(at(parameters.submission[1])), (*uint32)(at(parameters.submission[6]))
	r.head, r.ended = (*uint32)(at(parameters.completion[0])), (*uint32)(at(parameters.completion[1]))
	r.completion = (*struct {
		user  uint64
		bytes int32
		flags uint32
	})(at(parameters.completion[5]))
	return r
}

func (r *ring) register(t *testing.T, buffer []byte) {
	t.Helper()
	vector := unix.Iovec{Base: &buffer[0], Len: uint64(len(buffer))}
	_, _, errno := unix.Syscall6(unix.SYS_IO_URING_REGISTER, uintptr(r.descriptor), 0, uintptr(unsafe.Pointer(&vector)), 1, 0, 0)
	require.Zero(t, errno)
}

// read reads from the start of a file, once in the life of a ring, and waits for it.
func (r *ring) read(t *testing.T, descriptor int, buffer []byte, fixed bool) {
	t.Helper()
	operation := uint8(22)
	if fixed {
		operation = 4
	}
	*(*struct {
		operation, flags uint8
		priority         uint16
		descriptor       int32
		offset, address  uint64
		length           uint32
	})(unsafe.Pointer(&r.entries[0])) = struct {
		operation, flags uint8
		priority         uint16
		descriptor       int32
		offset, address  uint64
		length           uint32
	}{operation, 0, 0, int32(descriptor), 0, uint64(rangeOf(buffer).Start), uint32(len(buffer))}
	*r.array = 0
	atomic.AddUint32(r.tail, 1)
	const getEvents = 1
	submitted, _, errno := unix.Syscall6(unix.SYS_IO_URING_ENTER, uintptr(r.descriptor), 1, 1, getEvents, 0, 0)
	require.Zero(t, errno)
	require.EqualValues(t, 1, submitted)
	for atomic.LoadUint32(r.ended) == atomic.LoadUint32(r.head) { // a signal of Go's runtime may have ended the wait
		_, _, errno = unix.Syscall6(unix.SYS_IO_URING_ENTER, uintptr(r.descriptor), 0, 1, getEvents, 0, 0)
		require.Contains(t, []syscall.Errno{0, unix.EINTR}, errno)
	}
	require.EqualValues(t, len(buffer), r.completion.bytes)
	atomic.AddUint32(r.head, 1)
}

// Shared memory: what goes through the watched mapping counts, the rest is the caller's word.
func TestShared(t *testing.T) {
	needTracking(t)
	descriptors := map[string]func(t *testing.T) int{
		"in memory": func(t *testing.T) int {
			descriptor, err := unix.MemfdCreate("track", unix.MFD_CLOEXEC)
			require.NoError(t, err)
			t.Cleanup(func() { _ = unix.Close(descriptor) })
			require.NoError(t, unix.Ftruncate(descriptor, 8*int64(systemPage)))
			return descriptor
		},
		"in a file": func(t *testing.T) int { return fileOf(t, 8, unix.O_RDWR) },
	}
	for name, open := range descriptors {
		t.Run(name, func(t *testing.T) {
			descriptor := open(t)
			memory := mappedWith(t, 8*int(systemPage), unix.MAP_SHARED, descriptor)
			m, err := WatchShared(rangeOf(memory).Start, 8*systemPage)
			require.NoError(t, err)
			t.Cleanup(m.Release)
			require.NoError(t, m.Arm(m.Whole()))
			sink.Add(uint32(page(memory, 2)[0]))
			assert.Empty(t, collected(t, m, true))
			page(memory, 1)[0], page(memory, 2)[0] = 5, 5
			require.NoError(t, unix.Msync(memory, unix.MS_SYNC))
			assert.Equal(t, [][2]int{{1, 3}}, collected(t, m, true), "writing back hid a write")
			require.NoError(t, unix.Madvise(memory, unix.MADV_DONTNEED))
			assert.Empty(t, collected(t, m, true), "the content is still there")
			require.EqualValues(t, 5, page(memory, 1)[0])
			page(memory, 2)[1] = 6
			assert.Equal(t, [][2]int{{2, 3}}, collected(t, m, true))

			other := mappedWith(t, 8*int(systemPage), unix.MAP_SHARED, descriptor)
			page(other, 4)[0] = 7
			_, err = unix.Pwrite(descriptor, []byte{8}, 5*int64(systemPage))
			require.NoError(t, err)
			require.True(t, page(memory, 4)[0] == 7 && page(memory, 5)[0] == 8)
			assert.Empty(t, collected(t, m, true), "now seen: let WatchShared promise more")
		})
	}
}

// again runs one test of this program in a process of its own, which changes itself in a way that cannot be taken back.
func again(t *testing.T, test string) {
	t.Helper()
	command := exec.Command(os.Args[0], "-test.run=^"+test+"$", "-test.v")
	command.Env = append(os.Environ(), "MMSB_TRACK_TEST="+test)
	output, err := command.CombinedOutput()
	require.NoError(t, err, "%s", output)
	require.Contains(t, string(output), "--- PASS: "+test)
}

func inOwnProcess(test string) bool { return os.Getenv("MMSB_TRACK_TEST") == test }

func TestWithoutPrivilege(t *testing.T) {
	if !inOwnProcess("TestWithoutPrivilege") {
		needTracking(t)
		again(t, "TestWithoutPrivilege")
		return
	}
	if os.Getuid() == 0 {
		require.NoError(t, syscall.Setresgid(65534, 65534, 65534))
		require.NoError(t, syscall.Setresuid(65534, 65534, 65534))
		_, err := openKernel()
		codeIs(t, status.Unsupported, err)
		assert.Contains(t, err.Error(), "cannot open /proc/self/pagemap: permission denied", "a process that may not be dumped")
		require.NoError(t, unix.Prctl(unix.PR_SET_DUMPABLE, 1, 0, 0, 0))
	}
	require.NoError(t, Available())
	memory := mapped(t, 4)
	m := armed(t, memory)
	_, err := unix.Pread(fileOf(t, 1, unix.O_RDONLY), page(memory, 2), 0)
	require.NoError(t, err)
	assert.Equal(t, [][2]int{{2, 3}}, collected(t, m, true), "the kernel's write, though it may take no faults of its own")
}

func TestForbiddenBySeccomp(t *testing.T) {
	if !inOwnProcess("TestForbiddenBySeccomp") {
		again(t, "TestForbiddenBySeccomp")
		return
	}
	filter := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 0}, // the number of the system call
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.SYS_USERFAULTFD, Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	runtime.LockOSThread() // the filter goes to all threads, with this one's promise
	require.NoError(t, unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC,
		uintptr(unsafe.Pointer(&program)))
	require.Zero(t, errno)
	err := Available()
	codeIs(t, status.Unsupported, err)
	assert.EqualValues(t, unix.EPERM, status.Of(err).Foreign)
	assert.Contains(t, err.Error(), "seccomp")
}
